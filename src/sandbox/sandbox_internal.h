/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * struct sandbox, in eight parts: sandbox.c opens the back end and runs what is
 * queued; sandbox_queue.c makes operations and ends them; sandbox_idle.c
 * suspends, closes and restarts it; sandbox_restore.c brings back what a lost
 * interpreter had; sandbox_late.c answers for cells that do not stop when
 * asked; sandbox_replay.c logs cells and runs them again; sandbox_switch.c puts
 * another back end in the place of this one; sandbox_retire.c ends those that
 * are not wanted any more.
 */
#ifndef SANDBOX_SANDBOX_INTERNAL_H
#define SANDBOX_SANDBOX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/sandbox.h"

struct loop_task;
struct loop_timer;
struct sandbox_retired;

enum sandbox_op_kind {
    SANDBOX_OP_PUT,
    SANDBOX_OP_CELL,
    SANDBOX_OP_SCRIPT, /* handled as a cell is, without a number */
    SANDBOX_OP_LIST,
    SANDBOX_OP_GET,
    SANDBOX_OP_VARS,
    SANDBOX_OP_SNAPSHOT,
    SANDBOX_OP_RESTORE,
    SANDBOX_OP_RESTART,
    SANDBOX_OP_SWITCH
};

/* How a sentence for the next cell begins. */
#define SANDBOX_BEFORE "Before this cell, "

struct sandbox_op {
    struct sandbox *sb; /* borrowed: the owner */
    struct sandbox_op *next;
    enum sandbox_op_kind kind;
    bool running;
    bool cancelled;
    bool is_late;      /* its caller was answered before it had ended */
    bool loss_is_told; /* ... and was told that its interpreter is gone */
    bool is_replayed;  /* a cell that has run before */
    int64_t started_ms;
    struct loop_timer *patience; /* until then its caller waits */

    struct sandbox_put put;       /* strings owned */
    struct sandbox_cell cell;     /* strings owned */
    struct sandbox_script script; /* all of it owned */
    struct sandbox_cell_handlers on;
    char *name; /* owned; of a get */
    int fd;
    off_t offset;
    off_t limit;
    struct sandbox_backend *next_backend; /* owned; of a switch */
    bool was_tried; /* it could not be opened beside one that ends ... */
    bool waits_for_retired; /* ... and is opened again when that has ended */
    struct error why;       /* it cannot be opened */

    sandbox_progress_fn progress;
    sandbox_done_fn done;
    sandbox_list_fn list_done;
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    void *ctx;
};

/* How a cell ended, kept while the files are brought back. */
struct sandbox_kept {
    struct sandbox_outcome outcome; /* its strings are below */
    char *strings[5];               /* owned */
};

/* Names for a sentence; those that are too many are counted. */
struct sandbox_names {
    struct sbuf text;
    unsigned n;
    unsigned n_more;
};

/* A cell that has ended, for a replay. */
struct sandbox_logged {
    int number;
    char *language; /* owned; or NULL */
    char *code;     /* owned */
    size_t code_len;
    bool ok;
};

struct sandbox_log {
    struct sandbox_logged *cells; /* owned; the oldest first */
    size_t n_cells;
    size_t n_bytes;   /* of code */
    size_t n_dropped; /* that ended well */
};

struct sandbox {
    struct loop *loop;
    struct sandbox_backend *backend; /* owned; NULL: it was retired */
    struct sandbox_limits limits;
    enum sandbox_state state;
    struct error why;
    bool wanted;     /* somebody needs it open */
    bool has_opened; /* once, so that files cannot be put before any more */

    struct sandbox_op *first; /* the queue; the first one may be running */
    struct sandbox_op **last;
    struct loop_task *pump;

    /* Bringing back what a lost interpreter had. */
    bool restore_needed;
    bool restoring;
    bool restore_runs; /* the back end is at a step of it */
    size_t restore_next;
    bool restore_put_done;
    bool restore_puts_only; /* the interpreter has ended of it */
    bool files_gone; /* those of the workspace; until that has been told */
    int restore_fd;
    struct sandbox_op *restored_op; /* owned; told when it is done */
    struct sandbox_kept kept;
    char *idle_loss;    /* owned; the next cell is told */
    bool loss_is_late;  /* it is that of a cell that ended late */
    bool loss_is_asked; /* by a restart: only the model is told */
    int last_cell;      /* the number of the last one that was run */
    int lost_cell;      /* the last one whose interpreter is gone */
    struct sandbox_names loaded_again;
    struct sandbox_names not_loaded;
    struct sandbox_names changed;

    struct sandbox_loaded *loaded; /* owned */
    size_t n_loaded;
    char *put_name;               /* owned; of the file that was put last ... */
    struct sandbox_mark put_mark; /* ... and what it was then */
    unsigned workspace;           /* sandbox_workspace */

    struct sandbox_log log;
    struct sandbox_replay *replay; /* owned; NULL: none runs */

    /* While nothing is to be done. */
    struct loop_timer *idle_timer;
    int64_t idle_since_ms;
    bool idle_runs;  /* the back end is suspending, resuming or stopping */
    bool no_suspend; /* it has said that it cannot */
    bool used;       /* something has run in this interpreter */
    int n_cells;     /* of the person's and the model's, in this one */
    struct sandbox_op *restart_op; /* owned; told when the files are back */

    sandbox_done_fn on_open;
    void *on_open_ctx;
    void (*on_progress)(void *ctx, const char *what);
    void *on_progress_ctx;
    void (*on_left)(void *ctx, const char *text);
    void *on_left_ctx;
    void (*on_put_again)(void *ctx, const char *name, uint64_t done_bytes,
                         uint64_t total_bytes);
    void *on_put_again_ctx;
    void (*on_late)(void *ctx, int cell, const char *loss);
    void *on_late_ctx;

    struct sandbox_retired *retired; /* owned; back ends that are ending */
    void (*on_retired)(void *ctx);   /* the last of them has ended */
    void *on_retired_ctx;

    int depth; /* of callbacks */
    bool dead; /* freed within one */
};

/* Goes on from the loop, since a back end is not called within its own
   callbacks. */
void sandbox_schedule(struct sandbox *sb);

/* Around what may free sb; false when it is gone now. */
void sandbox_enter(struct sandbox *sb);
bool sandbox_exit(struct sandbox *sb);

/* What is queued or runs ends without callbacks. */
void sandbox_drop_all(struct sandbox *sb);

/* ctx: a struct sandbox. What is billed could not be ended. */
void sandbox_tell_left(void *ctx, const char *text);

/* The interpreter is gone while no cell ran. */
void sandbox_lose(struct sandbox *sb, const struct error *err);

/* Notes whether the files of the workspace are gone, as the back end and the
   outcome (may be NULL) say; what the next cell is told is made to agree. */
void sandbox_note_files(struct sandbox *sb,
                        const struct sandbox_outcome *outcome);

/* The sentences on what is gone. */
const char *sandbox_lost_text(const struct sandbox *sb);

/* The same for the person, behind a reason and a semicolon. */
const char *sandbox_gone_text(const struct sandbox *sb);

/* The owner of backend is sb from now on, and is told of what happens to it. */
void sandbox_adopt(struct sandbox *sb, struct sandbox_backend *backend);

/* As struct sandbox_ops has progress; ctx: a struct sandbox. */
void sandbox_tell_progress(void *ctx, const char *what);

/* --- sandbox_queue.c --- */

/* The back end that a switch has not put in its place is retired. NULL is
   allowed. */
void sandbox_free_op(struct sandbox_op *op);

/* Takes it out of the queue. */
void sandbox_remove_op(struct sandbox *sb, struct sandbox_op *op);

/* Tells the caller and frees op. False when the caller freed sb. */
bool sandbox_end_op(struct sandbox_op *op, enum sandbox_end end,
                    const struct sandbox_outcome *outcome,
                    const struct error *err);

/* --- sandbox_late.c --- */

/* Keeps what was lost with a script, or a cell of the program's own, so that
   the model is told: its caller says it to the person at most. */
void sandbox_keep_own_loss(struct sandbox_op *op,
                           const struct sandbox_outcome *outcome,
                           const struct error *err);

/* --- sandbox_idle.c --- */

/* Sets or removes the timer, as the state and the queue are now. */
void sandbox_idle_update(struct sandbox *sb);

/* Lets everything go on, for the operation that waits. */
void sandbox_idle_resume(struct sandbox *sb);

/* ctx: a struct sandbox. Suspends it now, if it is idle. */
void sandbox_idle_suspend(void *ctx);

/* What the next cell is told; text: owned from now on. */
void sandbox_set_loss(struct sandbox *sb, char *text);

/* Begins a restart; op, the first of the queue, is told when it is done. */
void sandbox_restart_begin(struct sandbox *sb, struct sandbox_op *op);

/* Ends it, or the loading of files after a switch, if one is under way. err
   NULL: there is a new interpreter, and what
   could be loaded again has been. False when the caller freed sb. */
bool sandbox_restart_end(struct sandbox *sb, const struct error *err);

/* --- sandbox_restore.c --- */

/*
 * Begins to bring the loaded files back. op, if not NULL, is a cell that has
 * ended with outcome, by which the interpreter was lost: it is told afterwards.
 */
void sandbox_restore_begin(struct sandbox *sb, struct sandbox_op *op,
                           const struct sandbox_outcome *outcome);

/* One more of the loaded files, or the end of it. */
void sandbox_restore_step(struct sandbox *sb);

/* Ends it, done or not. */
void sandbox_restore_end(struct sandbox *sb);

void sandbox_restore_init(struct sandbox *sb);

/* Releases what it holds, without telling anybody. */
void sandbox_restore_fini(struct sandbox *sb);

/* All files are to be put again. */
void sandbox_miss_files(struct sandbox *sb);

/* What the file of fd is now; false: not known. */
bool sandbox_mark_of(int fd, struct sandbox_mark *mark);

/* --- sandbox_replay.c --- */

/* Logs a cell that has ended; ok: well. */
void sandbox_log_add(struct sandbox *sb, const struct sandbox_op *op, bool ok);

/* Releases the log, and a replay without telling anybody. */
void sandbox_replay_fini(struct sandbox *sb);

/* --- sandbox_switch.c --- */

/* Whether the switch op, the first of the queue, can begin as things are. */
bool sandbox_can_switch(const struct sandbox *sb, const struct sandbox_op *op);

/* Begins to open the new back end. */
void sandbox_switch_begin(struct sandbox_op *op);

/* All that were ending have: a switch that waits for it begins again. */
void sandbox_switch_go_on(struct sandbox *sb);

/* --- sandbox_retire.c --- */

/* Ends a back end in the background and frees it; backend: owned from now on.
   NULL is allowed. */
void sandbox_retire_backend(struct sandbox *sb,
                            struct sandbox_backend *backend);

/* Closes those that are still ending. */
void sandbox_retire_fini(struct sandbox *sb);

#endif
