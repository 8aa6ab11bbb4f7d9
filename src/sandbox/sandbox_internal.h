/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * struct sandbox, in five parts: sandbox.c opens the back end and runs what is
 * queued; sandbox_queue.c makes operations and ends them; sandbox_idle.c
 * suspends, closes and restarts it; sandbox_restore.c brings back what a lost
 * interpreter had; sandbox_late.c answers for cells that do not stop when
 * asked.
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

enum sandbox_op_kind {
    SANDBOX_OP_PUT,
    SANDBOX_OP_CELL,
    SANDBOX_OP_SCRIPT, /* handled as a cell is, without a number */
    SANDBOX_OP_LIST,
    SANDBOX_OP_GET,
    SANDBOX_OP_VARS,
    SANDBOX_OP_SNAPSHOT,
    SANDBOX_OP_RESTORE,
    SANDBOX_OP_RESTART
};

struct sandbox_op {
    struct sandbox *sb; /* borrowed: the owner */
    struct sandbox_op *next;
    enum sandbox_op_kind kind;
    bool running;
    bool cancelled;
    bool is_late;      /* its caller was answered before it had ended */
    bool loss_is_told; /* ... and was told that its interpreter is gone */
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
    unsigned n_more;
};

struct sandbox {
    struct loop *loop;
    struct sandbox_backend *backend; /* owned */
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

    struct sandbox_loaded *loaded; /* owned */
    size_t n_loaded;

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
    void (*on_late)(void *ctx, int cell, const char *loss);
    void *on_late_ctx;

    int depth; /* of callbacks */
    bool dead; /* freed within one */
};

/* Goes on from the loop, since a back end is not called within its own
   callbacks. */
void sandbox_schedule(struct sandbox *sb);

/* Around what may free sb; false when it is gone now. */
void sandbox_enter(struct sandbox *sb);
bool sandbox_exit(struct sandbox *sb);

/* The interpreter is gone while no cell ran. */
void sandbox_lose(struct sandbox *sb, const struct error *err);

/* --- sandbox_queue.c --- */

void sandbox_free_op(struct sandbox_op *op); /* NULL is allowed */

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

/* Begins a restart; op, the first of the queue, is told when it is done. */
void sandbox_restart_begin(struct sandbox *sb, struct sandbox_op *op);

/* Ends it, if one is under way. err NULL: there is a new interpreter, and what
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

#endif
