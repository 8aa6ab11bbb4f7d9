/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where the code of cells runs. In front of every back end stands one struct
 * sandbox: it owns the list of loaded files and the log of cells, queues
 * operations while a back end is opening or busy, and brings a lost back end
 * back (a new interpreter, the files put again) without the caller's doing.
 * What code prints and shows is untrusted.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "model/event.h"

struct error;
struct loop;
struct output;
struct sandbox;
struct sandbox_op;
struct sandbox_backend;
struct sandbox_replay;

/* What a back end can do; known before it is opened. */
struct sandbox_caps {
    const char *name;      /* what the person calls it: "local", "work" */
    bool stateful;         /* variables live on from cell to cell */
    bool survives_suspend; /* can be suspended; else it never is */
    bool own_files_api;
    bool has_network;
    bool keeps_files; /* files that were put are there after a restart */
    bool puts_early;  /* a file can be put before it is opened */
    bool is_remote;   /* a service: it costs money, and files are sent there */
    const char *const *languages; /* NULL-terminated: "python" */
};

/* What the loss of an interpreter means, for the person and the model. */
#define SANDBOX_LOST_TEXT                                                      \
    "Variables and imports are gone; files in /workspace are kept. "           \
    "Re-create what you need."

/* The same where the files of the workspace are gone as well. */
#define SANDBOX_FILES_LOST_TEXT                                                \
    "Variables, imports and the files in /workspace are gone; loaded files "   \
    "are put there again. Re-create what you need."

/* How an operation ended. Exactly one of these, exactly once, from the loop. */
enum sandbox_end {
    SANDBOX_DONE,
    SANDBOX_ERROR,    /* err says why; the sandbox is as before */
    SANDBOX_LOST,     /* the back end is gone and could not be brought back */
    SANDBOX_RESTARTED /* the interpreter is new; variables are gone */
};

struct sandbox_cell {
    const char *code;
    size_t code_len;      /* at most SANDBOX_MAX_CODE_BYTES */
    const char *language; /* NULL: "python" */
    int64_t timeout_ms;   /* 0: no limit; -1: that of sandbox_limits */
    bool silent;          /* the program's own; not in the log of cells */
    int number;           /* of the session; 0 for silent ones */
};

#define SANDBOX_MAX_CODE_BYTES (1u << 20)

/* A file that a script finds in its directory; replaced if it is there. */
struct sandbox_script_file {
    const char *name; /* relative, "lib/tools.py" */
    const char *data; /* may be NULL when len is 0 */
    size_t len;
};

/*
 * A program in a process of its own, which knows nothing of the variables of
 * cells. Errors of what is given here are ERR_USAGE or ERR_TOO_LARGE, and
 * nothing has been run then. Names are relative, without "." and "..", are not
 * "data" nor ".state" at the top, and never followed through a link.
 */
struct sandbox_script {
    const char *dir; /* below the workspace, made if it is not there; the
                        script's working directory */
    const struct sandbox_script_file *files;
    size_t n_files;          /* at most SANDBOX_MAX_SCRIPT_FILES */
    const char *const *argv; /* NULL-terminated UTF-8; a first word "python3"
                                is the Python of the cells */
    const char *const *env;  /* "NAME=VALUE", NULL-terminated UTF-8, beside the
                                environment that cells begin with; may be NULL */
    int64_t timeout_ms;      /* as that of a cell */
};

#define SANDBOX_MAX_SCRIPT_FILES 100u
#define SANDBOX_MAX_SCRIPT_BYTES (8u << 20) /* of all its files */
#define SANDBOX_MAX_SCRIPT_WORDS 1000u      /* of argv, and of env */
#define SANDBOX_MAX_WORDS_BYTES 131072u     /* of argv and env together */

/* The time limit of a cell where none is given. */
#define SANDBOX_CELL_MS 120000

/* How a cell or a script ended; borrowed for the call. */
struct sandbox_outcome {
    enum event_outcome outcome; /* EVENT_FAILED: an exception; an exit status
                                   that is not 0, or a signal */
    int64_t duration_ms;        /* the client's own clock */
    int exit_status; /* of a script, 0 to 255; -1: it has none, as when it was
                        ended by a signal, or did not begin */
    int signal;      /* that ended a script; 0: none */
    const char *error_name;  /* exception; untrusted; NULL: none */
    const char *error_value; /* untrusted */
    const char *traceback;   /* untrusted */
    const char *hint;        /* untrusted; NULL: none */
    const char *reason; /* sentences of ours (at most 4 KiB) when it was ended
                           or died */
    bool variables_lost;
    bool files_lost;     /* and all files of the workspace, as those were put */
    bool still_stopping; /* answered before it has ended: sandbox_leave */
    int64_t output_dropped_bytes; /* behind the limit of output */
};

/* Most that a back end passes on of one cell, whatever it is sent: beyond the
   first three the cell is stopped, the others are cut. */
#define SANDBOX_MAX_EVENTS 1000u /* of what it shows and notes */
#define SANDBOX_MAX_IMAGES 20u
#define SANDBOX_MAX_EVENT_BYTES ((size_t)32 << 20)
#define SANDBOX_MAX_NAME_BYTES 1024u /* error_name */
#define SANDBOX_MAX_VALUE_BYTES 32768u
#define SANDBOX_MAX_TRACE_BYTES 131072u

/* For sandbox_run_cell and sandbox_run_script all but on_done may be NULL; a
   back end is given all. Of a script nothing is shown and nothing noted. */
struct sandbox_cell_handlers {
    /* The interpreter has taken it: its code runs from now on. */
    void (*on_begin)(void *ctx);

    /* Bytes that the cell wrote; borrowed. Not UTF-8, not safe. */
    void (*on_bytes)(void *ctx, enum event_stream stream, const char *data,
                     size_t len);

    /* The cell showed something; borrowed. */
    void (*on_output)(void *ctx, const struct output *out);

    /* A hint of the kernel's, such as an ignored magic; untrusted. */
    void (*on_note)(void *ctx, const char *kind, const char *text);

    /* end SANDBOX_DONE: outcome is set (it may be a failure of the code), err
       NULL. SANDBOX_RESTARTED: outcome is set. Else err is set. */
    void (*on_done)(void *ctx, enum sandbox_end end,
                    const struct sandbox_outcome *outcome,
                    const struct error *err);
};

typedef void (*sandbox_done_fn)(void *ctx, enum sandbox_end end,
                                const struct error *err);

/* A file in the workspace, outside data; borrowed for the call. */
struct sandbox_file {
    const char *name; /* below the workspace; bytes, untrusted */
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint64_t inode;      /* 0: not known, the name tells files apart */
    const char *refused; /* "a symbolic link", "a FIFO" ...; NULL: regular */
};

struct sandbox_list {
    const struct sandbox_file *files;
    size_t n_files;
    uint64_t n_left_out; /* beyond the limit of entries or depth */
    bool more;           /* and more that were not even counted */
};

typedef void (*sandbox_list_fn)(void *ctx, const struct sandbox_list *list,
                                const struct error *err);

/* A file that is put: where it comes from and what it is called inside. */
struct sandbox_put {
    const char *path; /* outside; for a bind or a link; may be NULL */
    int fd;           /* of the file, open for reading; borrowed until done */
    const char *name; /* inside: /workspace/data/NAME and /workspace/NAME */
    off_t offset;
    off_t limit; /* bytes from offset; -1: to the end */
};

/* A variable of the person's; untrusted; borrowed for the call. */
struct sandbox_variable {
    const char *name;
    const char *type; /* "DataFrame", "int" */
    const char *size; /* "1,000,000 x 10", "3 items", a short value, or "" */
};

struct sandbox_vars {
    const struct sandbox_variable *vars;
    size_t n_vars; /* at most SANDBOX_MAX_VARS */
    uint64_t n_left_out;
};

#define SANDBOX_MAX_VARS 500

/* vars is NULL when err is set. */
typedef void (*sandbox_vars_fn)(void *ctx, const struct sandbox_vars *vars,
                                const struct error *err);

/* A variable that a snapshot, or bringing one back, left out; untrusted. */
struct sandbox_left_out {
    const char *name;
    const char *why;
};

/* What was saved or brought back; borrowed for the call, untrusted but for the
   last two. */
struct sandbox_saved {
    const char *const *names;
    size_t n_names;  /* at most SANDBOX_MAX_SAVED */
    uint64_t n_more; /* that are not named */
    const struct sandbox_left_out *left_out;
    size_t n_left_out; /* at most SANDBOX_MAX_SAVED */
    uint64_t n_left_out_more;
    uint64_t n_bytes;
    int64_t duration_ms; /* the client's own clock */
};

#define SANDBOX_MAX_SAVED 10000

/* saved is NULL when err is set. */
typedef void (*sandbox_saved_fn)(void *ctx, const struct sandbox_saved *saved,
                                 const struct error *err);

/* What is known of a sandbox without asking it. Strings are static, or valid
   until the next call into it. */
struct sandbox_info {
    const char *backend; /* "local" */
    const char *level;   /* of isolation, also where none runs: "full",
                            "full-without-proc", "reduced"; NULL: has none */
    const char *python;  /* path and version, "/usr/bin/python3 (3.11.2)"; NULL:
                            not known */
    const char *bound_by;  /* who bounds memory: "watchdog", "cgroup" */
    int64_t uptime_ms;     /* of the interpreter; 0: none runs */
    uint64_t memory_bytes; /* of all its processes now */
    uint64_t memory_limit_bytes;
    int n_processes;
    int max_processes;
    uint64_t workspace_bytes; /* a minimum where there are very many files */
    uint64_t workspace_limit_bytes;
    int64_t cell_ms;
    uint64_t output_bytes;
    int64_t idle_suspend_ms; /* -1: never */
    int64_t idle_close_ms;   /* 0: never */
    bool is_suspended;
    bool has_run; /* anything, in this interpreter or the one before it */
    int n_cells;  /* run in this interpreter, the person's and the model's */

    /* Of a service; NULL and 0 where there is none, or it is not known. */
    const char *host;          /* "api.e2b.app" */
    const char *id;            /* of the sandbox that runs or is paused */
    const char *template_name; /* that it was made from */
    const char *cells_by; /* who runs cells there: "interpreter", "kernel" */
    const char *egress;   /* what cells can reach: "no internet", "internet",
                             "pypi.org and 2 more" */
    int64_t made_ms;      /* wall clock */
    int64_t end_ms;       /* when the service ends it, as things are */
    bool pauses_at_end;   /* it is paused then, and not ended */
    bool end_is_fixed;    /* the service does not prolong it */
    int cpu_count;
    int memory_mib;    /* that it has */
    int64_t billed_ms; /* for which sandboxes of this run have run, measured by
                          the client's own clock */
};

typedef void (*sandbox_progress_fn)(void *ctx, uint64_t done_bytes,
                                    uint64_t total_bytes);

/*
 * The contract of a back end. struct sandbox calls one operation at a time,
 * never within a callback of the same back end, and only after open ended with
 * SANDBOX_DONE; retire and close at any moment. Every operation but close ends
 * by exactly one callback from the loop, never within the call that began it;
 * after cancel with ERR_CANCELLED or, if it was too late, as it would have
 * ended.
 */
struct sandbox_ops {
    /* Makes the environment and the interpreter ready. May take minutes and
       reports what it does in words: progress gets on_lost_ctx, and may come
       later too, when the environment has to be made anew. */
    void (*open)(struct sandbox_backend *b,
                 void (*progress)(void *ctx, const char *what),
                 sandbox_done_fn done, void *ctx);

    /* Makes a file visible inside, read-only, under data/NAME, and NAME as a
       link to it. Before open only where caps.puts_early: it is then there from
       the start. */
    void (*put)(struct sandbox_backend *b, const struct sandbox_put *put,
                sandbox_progress_fn progress, sandbox_done_fn done, void *ctx);

    void (*run_cell)(struct sandbox_backend *b, const struct sandbox_cell *cell,
                     const struct sandbox_cell_handlers *on, void *ctx);

    /* Makes the directory, writes the files and runs the program there, in a
       process of its own, with what it prints as it comes. Ends as a cell does;
       at its time limit, and by interrupt, all processes of it are ended, and
       the variables of cells live on. */
    void (*run_script)(struct sandbox_backend *b,
                       const struct sandbox_script *script,
                       const struct sandbox_cell_handlers *on, void *ctx);

    /* Asks the running cell or script to stop, keeping variables; harder after
       a grace time. A put or get that copies ends with ERR_CANCELLED. Without
       any of these nothing happens. */
    void (*interrupt)(struct sandbox_backend *b);

    /* Files in the workspace, at most 1,000 entries, 8 deep. */
    void (*list)(struct sandbox_backend *b, sandbox_list_fn done, void *ctx);

    /* Copies a regular file of the workspace to fd (borrowed until done) from
       offset, at most limit bytes: ERR_TOO_LARGE when there is more,
       ERR_UNSUPPORTED for what is no regular file. */
    void (*get)(struct sandbox_backend *b, const char *name, int fd,
                off_t offset, off_t limit, sandbox_done_fn done, void *ctx);

    /* Stops every process and keeps what it has in memory; resume lets them go
       on. Between the two nothing runs, and only resume, stop, info, retire and
       close are called. Errors: ERR_UNSUPPORTED; it is then as before. A resume
       that fails has lost the interpreter. */
    void (*suspend)(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);
    void (*resume)(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);

    /* Ends the interpreter, running or suspended: variables are gone, files
       are kept. open makes a new one. */
    void (*stop)(struct sandbox_backend *b, sandbox_done_fn done, void *ctx);

    void (*vars)(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx);

    /* Writes the variables that can be kept to fd (borrowed until done). */
    void (*snapshot)(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
                     void *ctx);

    /* Reads a snapshot from fd (borrowed until done), which is untrusted code:
       only ever inside. Variables of the same names are replaced. */
    void (*restore)(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
                    void *ctx);

    /* Fills in what is known now but for idle times, is_suspended and n_cells;
       no callback. */
    void (*info)(struct sandbox_backend *b, struct sandbox_info *info);

    /* Ends what is billed: what is in progress ends without callbacks, and done
       comes once, from the loop, when nothing more can be done about it (within
       seconds); on_left has told of what could not be ended then. Only close
       may follow; before done it gives up. NULL: close ends all there is. */
    void (*retire)(struct sandbox_backend *b, void (*done)(void *ctx),
                   void *ctx);

    /* Ends everything on this machine at once, without callbacks, and frees.
       Leaves no process and no file of its own behind. What a service runs is
       left as it is; if retire has not ended it, on_left is told. */
    void (*close)(struct sandbox_backend *b);
};

struct sandbox_backend {
    const struct sandbox_ops *ops;
    struct sandbox_caps caps; /* set by whoever makes it */

    /* Set by struct sandbox while it calls interrupt: variables are wanted no
       more, so that a cell that was asked to stop is ended at once. */
    bool no_grace;

    /* Set by the back end when all files of the workspace are gone, or found to
       be: before it calls on_lost, and before open, resume or stop end. struct
       sandbox takes it back. Of a cell or a script the outcome says it. */
    bool files_lost;

    /* Set by struct sandbox: the back end died while no cell ran, suspended or
       not. It can be opened again; an operation that runs has ended before, as
       a vars, snapshot or restore by which it died. */
    void (*on_lost)(void *ctx, const struct error *err);
    void *on_lost_ctx;

    /* Set by struct sandbox: with no cell running, something in the interpreter
       goes past a limit. The owner suspends it, with its variables. Same ctx.
     */
    void (*on_runaway)(void *ctx);

    /* Set by struct sandbox before it calls retire: the program ends, and waits
       for it. Else it may take a minute. */
    bool at_end;

    /* Set by struct sandbox for retire, and for close behind that: what is
       billed could not be ended. text is borrowed. Same ctx. */
    void (*on_left)(void *ctx, const char *text);

    /* Set by struct sandbox while it calls stop: nothing will be wanted soon,
       so that all that costs is ended, and files may be lost. */
    bool for_good;
};

struct sandbox_limits {
    int64_t cell_ms;          /* 0: SANDBOX_CELL_MS */
    uint64_t memory_bytes;    /* 0: 4 GiB, at most half of the machine's */
    uint64_t output_bytes;    /* 0: 4 MiB */
    uint64_t workspace_bytes; /* 0: 5 GiB */
    int processes;            /* 0: 128 */
    int64_t idle_suspend_ms;  /* 0: SANDBOX_IDLE_SUSPEND_MS; -1: never */
    int64_t idle_close_ms;    /* 0: never */
};

#define SANDBOX_IDLE_SUSPEND_MS 300000

/* What tells a file from what it was before; all 0: not known. */
struct sandbox_mark {
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint64_t inode;
    uint64_t device;
};

/* A loaded file. */
struct sandbox_loaded {
    char *path;     /* owned; as it was named */
    char *name;     /* owned; inside */
    char *variable; /* owned */
    char *setup;    /* owned; code that makes the variable again; NULL: it is
                       that of a file that was loaded since */
    struct sandbox_mark mark; /* of the file when it was loaded */
    bool changed; /* it was another one when it was loaded again last */
    bool missing; /* it is not inside, and has to be put again */
};

/* backend: owned from now on. limits are copied. */
struct sandbox *sandbox_new(struct loop *loop, struct sandbox_backend *backend,
                            const struct sandbox_limits *limits);

/*
 * Ends what services bill for, of this back end and of those before it; queued
 * and running operations end without callbacks. True: done comes once, from
 * the loop. False: there is nothing to wait for. Afterwards only sandbox_free
 * may be called; before done it gives up what is still being ended, which
 * sandbox_on_left tells. Not within a callback of sb.
 */
bool sandbox_retire(struct sandbox *sb, void (*done)(void *ctx), void *ctx);

/* Closes; queued and running operations end without callbacks. What a service
   runs is left as it is: sandbox_retire ends it. */
void sandbox_free(struct sandbox *sb);

const struct sandbox_caps *sandbox_caps(const struct sandbox *sb);

/* Begins to open; operations that are asked for meanwhile wait. Asking again
   is harmless. */
void sandbox_open(struct sandbox *sb);

enum sandbox_state {
    SANDBOX_NEW,
    SANDBOX_OPENING,
    SANDBOX_IDLE,
    SANDBOX_BUSY,
    SANDBOX_SUSPENDED, /* idle and stopped; the next operation resumes it */
    SANDBOX_FAILED /* open failed; sandbox_why says why; asking again retries */
};
enum sandbox_state sandbox_state(const struct sandbox *sb);

/* Why no cell can run; NULL when it is not known that none can. */
const struct error *sandbox_why(const struct sandbox *sb);

/* Told once when opening ends, well or not: for a notice at the prompt. */
void sandbox_on_open(struct sandbox *sb, sandbox_done_fn fn, void *ctx);

/* What is going on while it opens, in words. */
void sandbox_on_progress(struct sandbox *sb,
                         void (*fn)(void *ctx, const char *what), void *ctx);

/* How far a loaded file is that is put again. NULL: that has ended. */
void sandbox_on_put_again(struct sandbox *sb,
                          void (*fn)(void *ctx, const char *name,
                                     uint64_t done_bytes, uint64_t total_bytes),
                          void *ctx);

/*
 * Operations. They queue; everything in the arguments is copied but the
 * descriptors. The handle is valid until the callback has run.
 */
struct sandbox_op *sandbox_put(struct sandbox *sb,
                               const struct sandbox_put *put,
                               sandbox_progress_fn progress,
                               sandbox_done_fn done, void *ctx);
struct sandbox_op *sandbox_run_cell(struct sandbox *sb,
                                    const struct sandbox_cell *cell,
                                    const struct sandbox_cell_handlers *on,
                                    void *ctx);
struct sandbox_op *sandbox_run_script(struct sandbox *sb,
                                      const struct sandbox_script *script,
                                      const struct sandbox_cell_handlers *on,
                                      void *ctx);
struct sandbox_op *sandbox_list_files(struct sandbox *sb, sandbox_list_fn done,
                                      void *ctx);
struct sandbox_op *sandbox_get(struct sandbox *sb, const char *name, int fd,
                               off_t offset, off_t limit, sandbox_done_fn done,
                               void *ctx);

struct sandbox_op *sandbox_list_vars(struct sandbox *sb, sandbox_vars_fn done,
                                     void *ctx);
struct sandbox_op *sandbox_snapshot(struct sandbox *sb, int fd,
                                    sandbox_saved_fn done, void *ctx);
struct sandbox_op *sandbox_restore(struct sandbox *sb, int fd,
                                   sandbox_saved_fn done, void *ctx);

/*
 * A new interpreter, and the loaded files in it. Ends with SANDBOX_DONE (err
 * NULL); with SANDBOX_RESTARTED and ERR_DATA when it is new, but err says which
 * files are not back; with SANDBOX_ERROR when there is none. The next cell is
 * not told of a loss that was asked for, but sandbox_take_late_loss gives the
 * sentence for the model.
 */
struct sandbox_op *sandbox_restart(struct sandbox *sb, sandbox_done_fn done,
                                   void *ctx);

/*
 * Puts another back end in the place of this one, which is retired in the
 * background once the new one is open, and loads the files there again. next:
 * owned from now on. Ends with SANDBOX_DONE (err NULL); with SANDBOX_RESTARTED
 * when it is in its place, but err says which files are not back (ERR_DATA) or
 * that it was lost with them; with SANDBOX_ERROR when it could not be opened or
 * this was cancelled: next is retired then, and all is as before. Of the loss
 * the model is told as after a restart. sandbox_on_open is told when the new
 * one is in its place.
 */
struct sandbox_op *sandbox_switch(struct sandbox *sb,
                                  struct sandbox_backend *next,
                                  sandbox_done_fn done, void *ctx);

/* Another number each time that the files of the workspace have become others
   than by cells of the caller: they were lost, it is the workspace of another
   back end, or cells have run again. */
unsigned sandbox_workspace(const struct sandbox *sb);

/* What a service bills for could not be ended: of sandbox_retire, of one whose
   place another has taken, or that was never used. text: a sentence of ours. */
void sandbox_on_left(struct sandbox *sb,
                     void (*fn)(void *ctx, const char *text), void *ctx);

/* What is known of it now; asks nobody and resumes nothing. */
void sandbox_info(const struct sandbox *sb, struct sandbox_info *info);

/* A waiting operation ends with ERR_CANCELLED, and one that copies a file or
   asks for variables; a running cell or script is interrupted and ends as it
   ends. */
void sandbox_cancel(struct sandbox_op *op);

/*
 * The same for somebody who does not wait: a running cell or script that has
 * not ended after SANDBOX_LEAVE_MS is answered as EVENT_INTERRUPTED with
 * still_stopping (SANDBOX_DONE; SANDBOX_RESTARTED when its interpreter is lost
 * by then). What it prints and shows later is dropped, and operations wait
 * until it has really ended: sandbox_on_late_end.
 */
#define SANDBOX_LEAVE_MS 120
void sandbox_leave(struct sandbox_op *op);

/* Told when a cell or script has ended that was still stopping, and when an
   interpreter has ended while none ran. cell: its number, or 0. loss: what went
   with it, in sentences of ours, borrowed; NULL: nothing. */
void sandbox_on_late_end(struct sandbox *sb,
                         void (*fn)(void *ctx, int cell, const char *loss),
                         void *ctx);

/* The loss with a cell that was still stopping, or with one that was silent, or
   with a script, once, unless the outcome of a cell has said it since; NULL:
   none. Owned by the caller. What is not taken is said with the next cell. */
char *sandbox_take_late_loss(struct sandbox *sb);

/* The number of the last cell whose interpreter is gone, and what cells up to
   it had with it; 0: none. */
int sandbox_lost_cell(const struct sandbox *sb);

/*
 * The log of cells: those of the session that have a number, and whether each
 * ended well. It holds SANDBOX_LOG_CELLS cells and SANDBOX_LOG_BYTES of code;
 * the oldest go first.
 */
#define SANDBOX_LOG_CELLS 1000u
#define SANDBOX_LOG_BYTES ((size_t)16 << 20)

/* How many cells sandbox_replay would run again. */
size_t sandbox_n_replayable(const struct sandbox *sb);

/* How a replay ended; borrowed for the call. */
struct sandbox_replayed {
    const int *cells; /* numbers of those that have run again, ascending */
    size_t n_cells;
    size_t n_all;     /* how many were to */
    size_t n_dropped; /* that ended well and are out of the log */
    int stopped_at;   /* the number of the one that did not end well; 0: all
                         did */
    const struct sandbox_outcome *outcome; /* its own; NULL: it has none */
};

struct sandbox_replay_handlers {
    /* The i-th of n begins, from 1. May be NULL. */
    void (*on_cell)(void *ctx, int cell, size_t i, size_t n);

    /* Once, from the loop. err: NULL where all have run again; ERR_CANCELLED;
       ERR_DATA, stopped_at failed; else what the cell ended with. */
    void (*on_done)(void *ctx, const struct sandbox_replayed *replayed,
                    const struct error *err);
};

/*
 * Runs the cells of the log that ended well again, in their order, in the
 * interpreter as it is; what they print and show is dropped, and they are not
 * logged again. Stops at the first that does not end well. NULL: there is none
 * to run, or they are running already; nobody is told then.
 */
struct sandbox_replay *sandbox_replay(struct sandbox *sb,
                                      const struct sandbox_replay_handlers *on,
                                      void *ctx);

/* on_done follows, within SANDBOX_LEAVE_MS: as sandbox_leave for the cell that
   runs. */
void sandbox_replay_cancel(struct sandbox_replay *replay);

/*
 * Notes a loaded file, so that a new interpreter gets it again: name must have
 * been put; setup is run silently after a restart. All copied.
 */
void sandbox_add_loaded(struct sandbox *sb, const char *path, const char *name,
                        const char *variable, const char *setup);
const struct sandbox_loaded *sandbox_loaded(const struct sandbox *sb,
                                            size_t *n);

#endif
