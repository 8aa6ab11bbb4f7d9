/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What back ends of tests have in common: each operation is answered from the
 * loop, one at a time. A test puts struct fake_sandbox first in a struct of its
 * own, takes the operations that it does not look at from here, and writes the
 * others itself.
 */
#ifndef HELPERS_FAKE_SANDBOX_H
#define HELPERS_FAKE_SANDBOX_H

#include <sys/types.h>

#include "base/error.h"
#include "base/loop.h"
#include "sandbox/sandbox.h"

struct fake_sandbox {
    struct sandbox_backend base; /* first */
    struct loop *loop;           /* borrowed */
    struct loop_task *task;      /* NULL: nothing is to be answered */
    void (*answer)(void *fake);

    /* Of the operation that is to be answered. */
    void *ctx;
    sandbox_done_fn done;
    sandbox_list_fn list_done;
    struct sandbox_cell_handlers on;
    struct error err; /* how it ends; no code: well */
};

/* Calls answer with the fake from the loop. Nothing else may be to be answered:
   one at a time is the contract. */
void fake_sandbox_defer(struct fake_sandbox *f, void (*answer)(void *fake));

/* Answers with err, which is copied; NULL: that it is done. */
void fake_sandbox_end(struct fake_sandbox *f, sandbox_done_fn done, void *ctx,
                      const struct error *err);

/* Operations that are done at once, or have nothing to say. */
void fake_sandbox_open(struct sandbox_backend *b,
                       void (*progress)(void *ctx, const char *what),
                       sandbox_done_fn done, void *ctx);
void fake_sandbox_put(struct sandbox_backend *b, const struct sandbox_put *put,
                      sandbox_progress_fn progress, sandbox_done_fn done,
                      void *ctx);
void fake_sandbox_list(struct sandbox_backend *b, sandbox_list_fn done,
                       void *ctx);
void fake_sandbox_get(struct sandbox_backend *b, const char *name, int fd,
                      off_t offset, off_t limit, sandbox_done_fn done,
                      void *ctx);
void fake_sandbox_done(struct sandbox_backend *b, sandbox_done_fn done,
                       void *ctx);
void fake_sandbox_info(struct sandbox_backend *b, struct sandbox_info *info);

/* Frees the fake; what a test's own struct owns is the test's to free. */
void fake_sandbox_close(struct sandbox_backend *b);

/* Operations that a test does not use: being asked for one ends the test. */
void fake_sandbox_no_cell(struct sandbox_backend *b,
                          const struct sandbox_cell *cell,
                          const struct sandbox_cell_handlers *on, void *ctx);
void fake_sandbox_no_script(struct sandbox_backend *b,
                            const struct sandbox_script *script,
                            const struct sandbox_cell_handlers *on, void *ctx);
void fake_sandbox_no_list(struct sandbox_backend *b, sandbox_list_fn done,
                          void *ctx);
void fake_sandbox_no_get(struct sandbox_backend *b, const char *name, int fd,
                         off_t offset, off_t limit, sandbox_done_fn done,
                         void *ctx);
void fake_sandbox_no_done(struct sandbox_backend *b, sandbox_done_fn done,
                          void *ctx);
void fake_sandbox_no_vars(struct sandbox_backend *b, sandbox_vars_fn done,
                          void *ctx);
void fake_sandbox_no_saved(struct sandbox_backend *b, int fd,
                           sandbox_saved_fn done, void *ctx);

#define UNUSED_SANDBOX_OPS                                                     \
    .suspend = fake_sandbox_no_done, .resume = fake_sandbox_no_done,           \
    .stop = fake_sandbox_no_done, .vars = fake_sandbox_no_vars,                \
    .snapshot = fake_sandbox_no_saved, .restore = fake_sandbox_no_saved,       \
    .info = fake_sandbox_info

#endif
