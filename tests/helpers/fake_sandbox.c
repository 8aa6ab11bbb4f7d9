/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/fake_sandbox.h"

#include <assert.h>
#include <stdlib.h>

static struct fake_sandbox *
fake_of(struct sandbox_backend *b)
{
    return (struct fake_sandbox *)b;
}

static void
on_task(void *ctx)
{
    struct fake_sandbox *f = ctx;

    f->task = NULL;
    f->answer(f);
}

void
fake_sandbox_defer(struct fake_sandbox *f, void (*answer)(void *fake))
{
    assert(f->task == NULL);
    f->answer = answer;
    f->task = loop_defer(f->loop, on_task, f);
}

static void
answer_done(void *fake)
{
    struct fake_sandbox *f = fake;
    bool fails = f->err.code != ERR_NONE;

    f->done(f->ctx, fails ? SANDBOX_ERROR : SANDBOX_DONE,
            fails ? &f->err : NULL);
}

void
fake_sandbox_end(struct fake_sandbox *f, sandbox_done_fn done, void *ctx,
                 const struct error *err)
{
    f->done = done;
    f->ctx = ctx;
    f->err = err != NULL ? *err : (struct error){0};
    fake_sandbox_defer(f, answer_done);
}

void
fake_sandbox_open(struct sandbox_backend *b,
                  void (*progress)(void *ctx, const char *what),
                  sandbox_done_fn done, void *ctx)
{
    (void)progress;
    fake_sandbox_end(fake_of(b), done, ctx, NULL);
}

void
fake_sandbox_put(struct sandbox_backend *b, const struct sandbox_put *put,
                 sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    (void)put;
    (void)progress;
    fake_sandbox_end(fake_of(b), done, ctx, NULL);
}

static void
answer_list(void *fake)
{
    struct fake_sandbox *f = fake;
    const struct sandbox_list list = {0};

    f->list_done(f->ctx, &list, NULL);
}

void
fake_sandbox_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    struct fake_sandbox *f = fake_of(b);

    f->list_done = done;
    f->ctx = ctx;
    fake_sandbox_defer(f, answer_list);
}

void
fake_sandbox_get(struct sandbox_backend *b, const char *name, int fd,
                 off_t offset, off_t limit, sandbox_done_fn done, void *ctx)
{
    (void)name;
    (void)fd;
    (void)offset;
    (void)limit;
    fake_sandbox_end(fake_of(b), done, ctx, NULL);
}

void
fake_sandbox_done(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    fake_sandbox_end(fake_of(b), done, ctx, NULL);
}

void
fake_sandbox_info(struct sandbox_backend *b, struct sandbox_info *info)
{
    (void)b;
    info->backend = "fake";
}

void
fake_sandbox_close(struct sandbox_backend *b)
{
    struct fake_sandbox *f = fake_of(b);

    loop_task_remove(f->task);
    free(f);
}

void
fake_sandbox_no_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
                     const struct sandbox_cell_handlers *on, void *ctx)
{
    (void)b;
    (void)cell;
    (void)on;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_script(struct sandbox_backend *b,
                       const struct sandbox_script *script,
                       const struct sandbox_cell_handlers *on, void *ctx)
{
    (void)b;
    (void)script;
    (void)on;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    (void)b;
    (void)done;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_get(struct sandbox_backend *b, const char *name, int fd,
                    off_t offset, off_t limit, sandbox_done_fn done, void *ctx)
{
    (void)b;
    (void)name;
    (void)fd;
    (void)offset;
    (void)limit;
    (void)done;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_done(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    (void)b;
    (void)done;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx)
{
    (void)b;
    (void)done;
    (void)ctx;
    abort();
}

void
fake_sandbox_no_saved(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
                      void *ctx)
{
    (void)b;
    (void)fd;
    (void)done;
    (void)ctx;
    abort();
}
