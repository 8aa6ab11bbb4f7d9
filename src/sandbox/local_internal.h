/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local back end, in nine parts: local.c starts and ends the interpreter;
 * local_cell.c runs one cell and decides how it ended; local_script.c begins a
 * script, which then runs as a cell does; local_leftovers.c ends what they have
 * left running; local_disk.c says how full the disk is; local_death.c how an
 * interpreter ended; local_ask.c has the requests that are no cells;
 * local_suspend.c stops what runs and lets it go on; local_ops.c has the other
 * operations that struct sandbox calls.
 */
#ifndef SANDBOX_LOCAL_INTERNAL_H
#define SANDBOX_LOCAL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/proc.h"
#include "base/sbuf.h"
#include "sandbox/deaths_internal.h"
#include "sandbox/kernel_answer_internal.h"
#include "sandbox/kernel_show_internal.h"
#include "sandbox/local.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_files_internal.h"
#include "sandbox/local_link_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/sandbox.h"

struct cJSON;
struct local_scope;
struct loop_task;
struct loop_timer;

enum local_state {
    LOCAL_NEW,          /* nothing runs */
    LOCAL_STARTING,     /* bubblewrap runs, the kernel is not ready */
    LOCAL_PROBING,      /* a start failed for an unknown reason */
    LOCAL_IDLE,         /* the kernel waits */
    LOCAL_RUNNING,      /* a cell */
    LOCAL_INTERRUPTING, /* a cell that was asked to stop */
    LOCAL_SUSPENDED,    /* every process is stopped */
    LOCAL_RESUMING,     /* they go on; the kernel has not answered yet */
    LOCAL_ENDING        /* killed; its end has not been seen yet */
};

/* What a start is for, so who is told when it is done. */
enum local_purpose { LOCAL_FOR_OPEN, LOCAL_FOR_PUT, LOCAL_FOR_CELL };

/* Memory and disk are looked at that often where something may take them. */
#define LOCAL_WATCH_MS 200
/* Entries that a sum of the workspace's sizes looks at. */
#define LOCAL_USAGE_ENTRIES 10000u
#define LOCAL_MAX_START_ERRORS 16384u
#define LOCAL_MAX_LATER_BYTES 4096u

/* A request that is no cell. */
struct local_ask {
    const char *op;      /* also the name of the event that answers it */
    const char *doing;   /* for messages: "listing variables" */
    const char *changed; /* member of the answer with the names; NULL: none */
};

/* What was asked, and what has come of it. */
struct local_asked {
    const struct local_ask *ask; /* NULL: nothing is asked */
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    void *ctx;
    int fd;       /* borrowed; outside */
    int state_fd; /* owned; the directory of snapshots in the workspace */
    char name[32];
    int64_t started_ms;
    struct error err;
    bool lost; /* the interpreter, with it */
    struct error loss;
    struct kernel_answer answer;
    uint64_t n_bytes;
};

/* What is free for cells on the disk of the workspace. */
struct local_room {
    uint64_t bytes;
    uint64_t files;
};

struct local_cell {
    struct sandbox_cell_handlers on;
    void *ctx;
    int64_t id;
    const struct local_ask *ask; /* NULL: it is a cell */
    int64_t timeout_ms;
    int64_t started_ms;
    uint64_t started_ticks;    /* as local_watchdog_now */
    int64_t ended_ms;          /* when the interpreter was lost */
    bool silent;               /* it is the program's own */
    bool is_script;            /* runs as a cell, in a process of its own */
    bool is_killed;            /* its processes were; a script only */
    unsigned n_over;           /* looks at too much memory, of a script */
    bool begun;                /* the kernel has taken it */
    enum event_outcome stop;   /* why it was asked to stop; EVENT_OK: was not */
    enum event_outcome ending; /* how it ended, once it is LOCAL_ENDING */
    char *reason;              /* owned */
    struct kernel_show show;
    struct local_room room; /* on the disk, when it began */
    struct loop_timer *timeout;
    struct loop_timer *again; /* the next SIGINT */
    unsigned n_sigints;
    struct loop_timer *grace; /* then SIGKILL */
    struct loop_timer *watch;
    uint64_t oom_kills; /* before it, and 0 where that is not known */
    bool hit_memory;    /* there was one since */
};

/* The watch over what cells have left running: processes, and threads of the
   interpreter itself. */
struct local_leftovers {
    struct loop_timer *timer; /* NULL: there is nothing, or a cell runs */
    struct local_room room;   /* on the disk, when the last cell began */
    struct local_room after;  /* and when it, or what it left, had ended */
    uint64_t cpu_ticks;       /* that the interpreter has used so far */
    unsigned n_quiet;         /* looks in a row at which it was no more */
    const char *ended;        /* static: why they were, and nobody knows yet */
};

struct local {
    struct sandbox_backend base; /* first: what others hold */
    struct loop *loop;
    struct local_config config; /* strings owned */
    struct sandbox_limits limits;
    enum local_state state;

    struct local_env env;
    bool has_env;
    struct local_files files;

    /* The interpreter. */
    struct local_bwrap child;
    struct local_link *link; /* owned */
    bool no_proc;
    bool no_disable;
    bool fresh;                /* no cell has run in it */
    struct local_scope *scope; /* owned; of this interpreter; may not be on */
    char *why_no_scope;        /* owned; not tried again; NULL: not failed */
    enum local_purpose purpose;
    struct sbuf start_errors; /* its standard error before it was ready */
    struct error start_err;   /* of a failed start that is being looked at */
    bool is_ready;            /* it has said so, in a start */
    char *fatal;              /* owned; what the kernel itself said */
    struct loop_timer *start_timer;
    bool stopping;     /* LOCAL_ENDING since somebody asked for it */
    int64_t ready_ms;  /* when it was ready */
    char *version;     /* owned; of Python, as the kernel says; NULL: odd */
    char *about;       /* owned; what info says of Python */
    const char *fault; /* why it was ended while no cell ran; NULL: by itself */
    bool is_frozen;    /* suspended by its control group, not by signals */
    bool settling;     /* being suspended: not all have stopped yet */
    unsigned n_settles;
    unsigned n_quiet_settles; /* in a row, at which nothing was computing */
    struct loop_timer *settle_timer;
    struct loop_timer *resume_timer;
    int64_t ping_id;
    bool was_busy;      /* something was computing when it was suspended */
    int64_t eof_ms;     /* when its events ended */
    unsigned n_unasked; /* events that nobody asked for */
    struct sbuf later;  /* bytes that were written while no cell ran */
    struct local_leftovers leftovers;

    struct deaths deaths;

    /* The one operation of the caller's. */
    void (*progress)(void *ctx, const char *what);
    sandbox_progress_fn put_progress;
    sandbox_done_fn done;
    sandbox_list_fn list_done;
    void *op_ctx;
    enum sandbox_end op_end;
    struct error op_err;
    char *op_name;           /* owned */
    int op_fd;               /* owned */
    struct local_copy *copy; /* owned */
    struct loop_task *task;  /* reports later */

    bool cell_active; /* or a request that is no cell */
    struct local_cell cell;
    struct local_asked asked;
    int64_t next_id;
    int64_t silent_ms; /* spent on cells that it did not take, in a row */

    int depth; /* of calls from the loop */
    bool dead; /* closed within one */
};

/* Around everything that the loop calls; leave may free l. */
void local_enter(struct local *l);
void local_leave(struct local *l);

void local_set_state(struct local *l, enum local_state state);

/* What bounds the memory of all processes together: "cgroup" or "watchdog".
   Static. */
const char *local_bound_by(const struct local *l);

/* Why there is no control group around the interpreter that runs; NULL: there
   is one. Partly the manager's text; valid until the next start. */
const char *local_why_no_scope(const struct sandbox_backend *b);

/* Starts the interpreter; ends in local_started or in the error of purpose. */
void local_start(struct local *l, enum local_purpose purpose);

/* Ends the operation from the loop. err NULL: well. */
void local_end_op(struct local *l, const struct error *err);

/* Ends the interpreter, if one runs, and forgets what belonged to it. */
void local_drop_child(struct local *l);

/* Frees l and its settings; everything that runs has ended. */
void local_destroy(struct local *l);

/* --- local_cell.c --- */

void local_cell_run(struct local *l, const struct sandbox_cell *cell,
                    const struct sandbox_cell_handlers *on, void *ctx);

/* Sends a request that is no cell; line: its text, with the id l->next_id + 1.
   The answer comes by local_ask_answer, a loss by local_ask_lost. */
void local_cell_ask(struct local *l, const struct local_ask *ask,
                    const char *line, size_t len);

void local_cell_text(struct local *l, enum event_stream stream,
                     const char *data, size_t len);

/* False when the event belongs to no running cell. */
bool local_cell_event(struct local *l, const struct cJSON *event, size_t len);

/* Asks the running cell to stop; why is what its outcome will be. */
void local_cell_stop(struct local *l, enum event_outcome why);

/* Ends one that was asked to stop, without waiting for it any more. */
void local_cell_hurry(struct local *l);

/* Ends the interpreter under the running cell. reason is copied. */
void local_cell_kill(struct local *l, enum event_outcome how,
                     const char *reason);

/* Notes whether the control group has ended a process of the running cell at
   the limit of memory: as soon as its end is seen, since the group goes with
   it. */
void local_cell_look_at_memory(struct local *l);

/* The interpreter ended under the running cell. */
void local_cell_died(struct local *l, const struct proc_exit *status);

/* After a loss: a new interpreter is ready, or (err) is not. */
void local_cell_restarted(struct local *l, const struct error *err);

/* Reports from the loop that a cell or script was not run at all. err is
   copied. */
void local_cell_refuse(struct local *l, const struct sandbox_cell_handlers *on,
                       void *ctx, const struct error *err);

/* Sends a request that runs as a cell does; line: its text, with the id
   l->next_id + 1. Its end is an event "script". */
void local_cell_run_script(struct local *l, int64_t timeout_ms,
                           const struct sandbox_cell_handlers *on, void *ctx,
                           const char *line, size_t len);

/* Forgets the cell, without telling anybody. */
void local_cell_drop(struct local *l);

/* The running request that is no cell has been answered. */
void local_cell_answered(struct local *l);

/* --- local_death.c --- */

/* Adds how a process ended: "segmentation fault", "exit status 3". */
void local_death_add_end(struct sbuf *sb, const struct proc_exit *status);

/* --- local_script.c --- */

void local_run_script(struct sandbox_backend *b,
                      const struct sandbox_script *script,
                      const struct sandbox_cell_handlers *on, void *ctx);

/* --- local_disk.c --- */

/* What is free on the disk now. */
struct local_room local_disk_room(const struct local *l);

/* Whether so much was written, or so many files were made, since the disk had
   that room, that it, or the workspace, is too full. */
bool local_disk_is_short(const struct local *l,
                         const struct local_room *before);

/* Whether the workspace has grown past its limit; free_bytes: of the disk
   before. */
bool local_disk_is_overfull(const struct local *l, uint64_t free_bytes);

/* The bytes that may be written where fd is; less than there is room for. */
uint64_t local_disk_room_at(int fd);

/* How much may be written into the workspace, at most most_bytes. doing: for
   the message. Errors: ERR_LIMIT. */
WARN_UNUSED int local_disk_find(const struct local *l, const char *doing,
                                uint64_t most_bytes, uint64_t *room,
                                struct error *err);

/* --- local_leftovers.c --- */

/* From the end of a cell on, while nothing runs: processes that it has left
   behind are ended at the limits that hold for cells, and the interpreter, when
   a thread of it goes past them, is suspended. before: of the disk when the
   cell began. Ends a second after nothing runs any more. */
void local_leftovers_watch(struct local *l, const struct local_room *before);

/* Tells the cell that begins what has become of them meanwhile. */
void local_leftovers_tell(struct local *l);

/* The interpreter is gone, and with it all others. */
void local_leftovers_drop(struct local *l);

/* --- local_ask.c --- */

void local_ask_init(struct local *l);
void local_ask_answer(struct local *l, const struct cJSON *event);

/* The interpreter has ended under it; the reason is the cell's. */
void local_ask_lost(struct local *l);

/* Forgets what was asked, without telling anybody. */
void local_ask_drop(struct local *l);

void local_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx);
void local_snapshot(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
                    void *ctx);
void local_restore(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
                   void *ctx);

/* --- local_suspend.c --- */

void local_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);
void local_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);
void local_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);

/* Lets go on what its control group has frozen; nothing if it has not. */
void local_thaw(struct local *l);

/* The kernel has answered a ping. */
void local_pong(struct local *l);

/* --- local_ops.c --- */

/* Begins an operation that ends by local_end_op. */
void local_begin_op(struct local *l, sandbox_done_fn done, void *ctx);

#endif
