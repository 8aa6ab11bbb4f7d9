/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/fetch_table_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "ui/app_internal.h"

#define MAX_CODE_BYTES 4096

/* Cells wait behind it; what they did to os.unlink may take for ever. */
#define REMOVE_MS 10000

struct app_fetch {
    struct app *app; /* borrowed */
    struct app_fetch *next;
    int cell;
    int fd; /* owned: the caller's own may be closed before the copy ends */
    off_t max_bytes;
    const char *doing; /* "saving" ... */
    const char *what;  /* ... and "saved", for messages */
    char *name;        /* owned; inside the workspace */
    struct error err;
    struct sandbox_op *op;  /* borrowed: what can be stopped */
    struct loop_task *task; /* tells */
    bool is_told;
    bool is_removing;
    bool is_over; /* nothing of it runs any more */
    void (*done)(struct app *app, const struct error *err);
};

static void
free_fetch(struct app_fetch *f)
{
    loop_task_remove(f->task);
    close_fd(&f->fd);
    free(f->name);
    free(f);
}

/* Forgets one that has nothing to do any more. */
static void
drop_fetch(struct app_fetch *f)
{
    struct app_fetch **p = &f->app->fetches;

    if (!f->is_told || !f->is_over)
        return;
    while (*p != f)
        p = &(*p)->next;
    *p = f->next;
    free_fetch(f);
}

static void
tell(void *ctx)
{
    struct app_fetch *f = ctx;
    struct app *app = f->app;
    struct error err = f->err;
    void (*done)(struct app * app, const struct error *err) = f->done;

    f->task = NULL;
    f->is_told = true;
    drop_fetch(f);
    done(app, err.code != ERR_NONE ? &err : NULL);
}

/* The rest of it goes on without anybody who waits. */
static void
tell_soon(struct app_fetch *f)
{
    if (!f->is_told && f->task == NULL)
        f->task = loop_defer(f->app->config.loop, tell, f);
}

static void
end_fetch(struct app_fetch *f)
{
    f->is_over = true;
    tell_soon(f);
    drop_fetch(f);
}

/* Runs code silently; done is called at its end. */
static struct sandbox_op *
run_silently(struct app_fetch *f, const char *code, int64_t timeout_ms,
             void (*done)(void *ctx, enum sandbox_end end,
                          const struct sandbox_outcome *outcome,
                          const struct error *err))
{
    struct sandbox_cell_handlers on = {.on_done = done};

    return sandbox_run_cell(f->app->config.sandbox,
                            &(struct sandbox_cell){
                                .code = code,
                                .code_len = strlen(code),
                                .timeout_ms = timeout_ms,
                                .silent = true,
                            },
                            &on, f);
}

/* Of an interpreter that has ended under a cell of ours, or before it took it,
   nobody else would say so. */
static void
tell_loss(struct app_fetch *f, const struct sandbox_outcome *outcome)
{
    if (outcome != NULL && outcome->variables_lost && outcome->reason != NULL)
        app_tell_loss(f->app, outcome->reason);
}

static void
on_removed(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app_fetch *f = ctx;

    (void)end;
    (void)err;
    tell_loss(f, outcome);
    end_fetch(f);
}

/* The copy inside is not wanted any more, whether it is whole or not: the next
   cell would be said to have left it. Nobody waits for that, and what is asked
   of the sandbox next comes after it. Code that runs for the program says
   "from" itself, since cells may have given every other name another meaning.
 */
static void
remove_copy(struct app_fetch *f)
{
    AUTO_SBUF struct sbuf code = {0};

    tell_soon(f);
    f->is_removing = true;
    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from sandpiper import remove_file as _sandpiper\n"
              "try:\n    _sandpiper('%s')\n"
              "finally:\n    del _sandpiper\n",
              f->name);
    (void)run_silently(f, code.data, REMOVE_MS, on_removed);
}

static void
on_fetched(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct app_fetch *f = ctx;

    (void)end;
    f->op = NULL;
    if (f->is_removing)
        return;
    if (err != NULL)
        f->err = *err;
    remove_copy(f);
}

/* Whether its interpreter is gone, and the table with it; says so. */
static bool
is_lost(struct app_fetch *f)
{
    if (f->cell > sandbox_lost_cell(f->app->config.sandbox))
        return false;
    error_fill(&f->err, ERR_DATA,
               "the table of cell %d is gone: the sandbox was restarted since, "
               "and whole tables are lost with it; ask for the table again",
               f->cell);
    return true;
}

static void
fill_failure(struct app_fetch *f, const struct sandbox_outcome *outcome)
{
    const char *why = "the interpreter is new";

    if (outcome->error_value != NULL)
        why = outcome->error_value;
    else if (outcome->reason != NULL)
        why = outcome->reason;
    error_fill(&f->err, ERR_DATA, "the table cannot be %s: %s", f->what, why);
}

static void
on_written(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app_fetch *f = ctx;

    (void)end;
    f->op = NULL;
    tell_loss(f, outcome);
    if (f->is_removing)
        return;
    if (err != NULL)
        f->err = *err;
    else if (outcome->outcome == EVENT_INTERRUPTED)
        error_fill(&f->err, ERR_CANCELLED, "%s was stopped", f->doing);
    else if (outcome->outcome != EVENT_OK && !is_lost(f))
        fill_failure(f, outcome);
    if (f->err.code != ERR_NONE) {
        remove_copy(f);
        return;
    }
    f->op = sandbox_get(f->app->config.sandbox, f->name, f->fd, 0, f->max_bytes,
                        on_fetched, f);
}

static void
begin_fetch(struct app_fetch *f, int index)
{
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from sandpiper import save_table as _sandpiper\n"
              "try:\n    _sandpiper(%d, %d, '%s')\n"
              "finally:\n    del _sandpiper\n",
              f->cell, index, f->name);
    f->op = run_silently(
        f, code.data, f->app->config.config->cell_seconds * 1000, on_written);
}

void
fetch_table(struct app *app, int cell, int index, int fd, off_t max_bytes,
            const char *doing, const char *what,
            void (*done)(struct app *app, const struct error *err))
{
    struct app_fetch *f = xcalloc(1, sizeof(*f));

    *f = (struct app_fetch){
        .app = app,
        .next = app->fetches,
        .cell = cell,
        .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
        .max_bytes = max_bytes,
        .doing = doing,
        .what = what,
        /* One of its own, since an earlier copy may still be there. */
        .name = xasprintf("sandpiper-save-%d.%d-%u.csv", cell, index,
                          ++app->n_fetches),
        .done = done,
    };
    app->fetches = f;
    if (f->fd < 0)
        error_fill_errno(&f->err, ERR_IO, "the table of cell %d", cell);
    if (f->fd < 0 || is_lost(f))
        end_fetch(f);
    else
        begin_fetch(f, index);
}

void
fetch_table_cancel(struct app *app)
{
    struct app_fetch *f = app->fetches;

    while (f != NULL && (f->is_told || f->task != NULL))
        f = f->next;
    if (f == NULL)
        return;
    error_fill(&f->err, ERR_CANCELLED, "%s was stopped", f->doing);
    /* At once, and not when the operation has ended: what is asked of the
       sandbox meanwhile must come after it. */
    remove_copy(f);
    sandbox_leave(f->op);
}

void
fetch_table_free(struct app *app)
{
    while (app->fetches != NULL) {
        struct app_fetch *f = app->fetches;

        app->fetches = f->next;
        free_fetch(f);
    }
}
