/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/fetch_table_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "ui/app_internal.h"

#define MAX_CODE_BYTES 4096

static void
end_fetch(struct app *app)
{
    struct app_fetch *f = &app->fetch;
    struct error err = f->err;

    free(f->name);
    f->name = NULL;
    memset(&f->err, 0, sizeof(f->err));
    f->done(app, err.code != ERR_NONE ? &err : NULL);
}

static void
on_nothing_bytes(void *ctx, enum event_stream stream, const char *data,
                 size_t len)
{
    (void)ctx;
    (void)stream;
    (void)data;
    (void)len;
}

static void
on_nothing_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
on_nothing_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

/* Runs code silently; done is called at its end. */
static struct sandbox_op *
run_silently(struct app *app, const char *code,
             void (*done)(void *ctx, enum sandbox_end end,
                          const struct sandbox_outcome *outcome,
                          const struct error *err))
{
    struct sandbox_cell_handlers on = {
        .on_bytes = on_nothing_bytes,
        .on_output = on_nothing_output,
        .on_note = on_nothing_note,
        .on_done = done,
    };

    return sandbox_run_cell(
        app->config.sandbox,
        &(struct sandbox_cell){
            .code = code,
            .code_len = strlen(code),
            .timeout_ms = app->config.config->cell_seconds * 1000,
            .silent = true,
        },
        &on, app);
}

static void
on_removed(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app *app = ctx;

    (void)end;
    (void)outcome;
    (void)err;
    end_fetch(app);
}

/* The copy inside is not wanted any more, whether it is whole or not: the next
   cell would be said to have left it. This part is not cancelled. Code that
   runs for the program says "from" itself, since cells may have given every
   other name another meaning. */
static void
remove_copy(struct app *app)
{
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from os import unlink as _sandpiper\n"
              "try:\n    _sandpiper('/workspace/%s')\n"
              "finally:\n    del _sandpiper\n",
              app->fetch.name);
    (void)run_silently(app, code.data, on_removed);
}

static void
on_fetched(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct app *app = ctx;

    (void)end;
    app->fetch.op = NULL;
    if (err != NULL)
        app->fetch.err = *err;
    remove_copy(app);
}

static void
on_written(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app *app = ctx;
    struct app_fetch *f = &app->fetch;

    (void)end;
    f->op = NULL;
    if (err != NULL) {
        f->err = *err;
    } else if (outcome->outcome == EVENT_INTERRUPTED) {
        error_fill(&f->err, ERR_CANCELLED, "%s was stopped", f->doing);
    } else if (outcome->outcome != EVENT_OK) {
        error_fill(&f->err, ERR_DATA, "the table cannot be %s: %s", f->what,
                   outcome->error_value != NULL ? outcome->error_value
                   : outcome->reason != NULL    ? outcome->reason
                                                : "the interpreter is new");
    }
    if (f->err.code != ERR_NONE) {
        remove_copy(app);
        return;
    }
    f->op = sandbox_get(app->config.sandbox, f->name, f->fd, 0, f->max_bytes,
                        on_fetched, app);
}

void
fetch_table(struct app *app, int cell, int index, int fd, off_t max_bytes,
            const char *doing, const char *what,
            void (*done)(struct app *app, const struct error *err))
{
    AUTO_SBUF struct sbuf code = {0};

    free(app->fetch.name);
    app->fetch = (struct app_fetch){
        .fd = fd,
        .max_bytes = max_bytes,
        .doing = doing,
        .what = what,
        .name = xasprintf("sandpiper-save-%d.%d.csv", cell, index),
        .done = done,
    };
    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from sandpiper import save_table as _sandpiper\n"
              "try:\n    _sandpiper(%d, %d, '/workspace/%s')\n"
              "finally:\n    del _sandpiper\n",
              cell, index, app->fetch.name);
    app->fetch.op = run_silently(app, code.data, on_written);
}

void
fetch_table_cancel(struct app *app)
{
    if (app->fetch.op != NULL)
        sandbox_cancel(app->fetch.op);
}
