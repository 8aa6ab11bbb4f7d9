/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who runs cells in a sandbox: the service's interpreter of notebooks
 * (e2b_cells.c), or the one of the local sandbox, started there as a process
 * (e2b_kernel.c). The back end owns time limits and decides how a cell ended;
 * a runner runs code and passes on what comes.
 */
#ifndef SANDBOX_E2B_RUNNER_INTERNAL_H
#define SANDBOX_E2B_RUNNER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sandbox/e2b_data_internal.h"
#include "sandbox/sandbox.h"

struct e2b_runner;

/* Where cells work, as in the local sandbox. */
#define E2B_WORKSPACE "/workspace"

/* What has become of something that a runner was asked for. */
enum e2b_run_way {
    E2B_RUN_DONE,   /* it has ended by itself, well or not */
    E2B_RUN_LOST,   /* the interpreter is gone, the sandbox is not: open a new
                       runner */
    E2B_RUN_TROUBLE /* with the sandbox, or the way to it: trouble says which;
                       what became of it is not known */
};

/* Borrowed for the call. */
struct e2b_run_end {
    enum e2b_run_way way;

    /* E2B_RUN_DONE: outcome (OK, FAILED, INTERRUPTED), error_name, error_value,
       traceback, hint, output_dropped_bytes. E2B_RUN_LOST: reason, our
       sentences with SANDBOX_LOST_TEXT, and dropped. variables_lost with
       E2B_RUN_DONE: the interpreter had ended unseen before, and this ran in a
       new one, which is ready; reason says so. */
    const struct sandbox_outcome *outcome;
    enum e2b_trouble trouble;
    bool not_run; /* with it: none of the code has run, and none will */
    const struct error *err; /* with E2B_RUN_TROUBLE and where opening failed */
};

typedef void (*e2b_run_fn)(void *ctx, const struct e2b_run_end *end);

struct e2b_run_handlers {
    struct sandbox_cell_handlers on; /* all but on_done, which is not called */
    void (*on_flood)(void *ctx);     /* a limit of what it writes or shows is
                                        passed, and what follows is dropped: once */
    e2b_run_fn on_done;              /* once, from the loop */
};

struct e2b_runner_config {
    uint64_t output_bytes; /* limit of what a cell writes */
    uint64_t memory_bytes; /* 0: not known */
    int figure_width_px;   /* 0: matplotlib's own */
    int figure_height_px;
    int figure_dpi;
    bool has_network; /* cells may reach anything: packages can be installed */
};

/* One thing at a time, but for interrupt and kill. */
struct e2b_runner_ops {
    const char *name; /* "interpreter", "kernel" */

    /* Makes an interpreter ready, with E2B_WORKSPACE (which is there) as its
       working directory; also again, after it was lost or ended. E2B_RUN_DONE:
       it is; outcome is NULL. err with ERR_UNSUPPORTED and E2B_RUN_LOST: this
       sandbox cannot have one. */
    void (*open)(struct e2b_runner *r, e2b_run_fn fn, void *ctx);

    void (*run)(struct e2b_runner *r, const struct sandbox_cell *cell,
                const struct e2b_run_handlers *on, void *ctx);

    /* Asks what runs to stop, as SIGINT does; may be called again. */
    void (*interrupt)(struct e2b_runner *r);

    /* Ends the interpreter under what runs, which ends with E2B_RUN_LOST (or
       trouble) in bounded time. */
    void (*kill)(struct e2b_runner *r);

    /* Ends the interpreter while nothing runs, in bounded time: E2B_RUN_LOST,
       or trouble. */
    void (*end)(struct e2b_runner *r, e2b_run_fn fn, void *ctx);

    /* As in struct sandbox_ops. An interpreter that is lost meanwhile: an error
       with ERR_SANDBOX, and lost is called behind it. */
    void (*vars)(struct e2b_runner *r, sandbox_vars_fn done, void *ctx);
    void (*snapshot)(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                     void *ctx);
    void (*restore)(struct e2b_runner *r, int fd, sandbox_saved_fn done,
                    void *ctx);

    /* The sandbox was resumed: connections are new, site has new tokens and
       addresses; memory is as it was. */
    void (*reconnect)(struct e2b_runner *r, e2b_run_fn fn, void *ctx);

    /* "/usr/bin/python3 (3.11.2)"; NULL: not known. Valid until the next call
       into it. */
    const char *(*python)(const struct e2b_runner *r);

    /* Forgets all without callbacks and frees; what runs in the sandbox is
       left to the sandbox's own end. */
    void (*free)(struct e2b_runner *r);
};

/* First member of both. */
struct e2b_runner {
    const struct e2b_runner_ops *ops;

    /* Set by the owner: the interpreter ended, or the way to it was lost, while
       nothing was asked of it. */
    void (*on_lost)(void *ctx, const struct e2b_run_end *end);
    void *on_lost_ctx;
};

/* site is borrowed for as long as they live; config is copied. */
struct e2b_runner *e2b_cells_new(struct e2b_site *site,
                                 const struct e2b_runner_config *config);
struct e2b_runner *e2b_kernel_new(struct e2b_site *site,
                                  const struct e2b_runner_config *config);

#endif
