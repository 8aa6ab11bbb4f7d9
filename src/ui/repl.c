/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/repl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "term/input.h"
#include "term/out.h"
#include "term/tty.h"
#include "ui/app.h"
#include "ui/complete.h"
#include "ui/history.h"
#include "ui/lineedit.h"
#include "ui/view.h"

#define LOG_MODULE "repl"

#define PROMPT "> "
#define PROMPT_REDUCED "[reduced] > "
#define SLOW_MS 1000

struct repl {
    struct app *app; /* borrowed */
    struct app_config config;
    struct lineedit *le;     /* owned */
    char *history_path;      /* owned; or NULL */
    size_t n_loaded;         /* of the files of the command line */
    struct loop_timer *slow; /* until a file of the command line is slow */
    char *waiting;           /* owned; a line typed while those were loading */
    bool told_sandbox;       /* why no cell can run has been said */
    bool is_reduced;         /* the isolation of cells */
    bool leaving;
    bool is_hurried; /* Ctrl-C came behind what leaves */
    int status;
};

static void prompt(struct repl *r);

static const char *
prompt_text(const struct repl *r)
{
    return r->is_reduced ? PROMPT_REDUCED : PROMPT;
}

/* ---- lines ----------------------------------------------------------------
 */

static void
submit(struct repl *r, const char *line)
{
    view_break(r->config.view);
    app_submit(r->app, line);
}

/* The prompt is there already, so that nothing else shows that it is busy. */
static void
on_slow(void *ctx)
{
    struct repl *r = ctx;

    r->slow = NULL;
    view_note(r->config.view, "loading %s",
              r->config.config->files[r->n_loaded - 1]);
}

static void
stop_slow(struct repl *r)
{
    if (r->slow != NULL)
        loop_timer_remove(r->slow);
    r->slow = NULL;
}

/* Loads the next file of the command line; false when there is none left. */
static bool
load_next(struct repl *r)
{
    const struct config *c = r->config.config;

    if (r->n_loaded == c->n_files)
        return false;
    r->slow = loop_add_timer(r->config.loop, SLOW_MS, on_slow, r);
    app_load(r->app, c->files[r->n_loaded++], NULL);
    return true;
}

static void
leave(struct repl *r)
{
    r->leaving = true;
    lineedit_hide(r->le);
    loop_stop(r->config.loop);
}

static void
on_done(void *ctx, const struct error *err, bool quit)
{
    struct repl *r = ctx;

    stop_slow(r);
    if (err != NULL && err->code == ERR_SANDBOX)
        r->told_sandbox = true;
    if (quit) {
        leave(r);
        return;
    }
    if (load_next(r))
        return;
    if (r->waiting != NULL) {
        AUTO_FREE char *line = take_ptr(&r->waiting);

        submit(r, line);
        return;
    }
    prompt(r);
}

static void
prompt(struct repl *r)
{
    if (r->leaving)
        return;
    view_status(r->config.view, NULL);
    view_gap(r->config.view);
    if (!lineedit_is_shown(r->le))
        lineedit_prompt(r->le, prompt_text(r));
}

static void
on_line(void *ctx, const char *line)
{
    struct repl *r = ctx;
    struct error err = {0};

    if (r->history_path != NULL &&
        history_append(r->history_path, line, &err) < 0) {
        /* Once is enough: the next lines would fail in the same way. */
        LOG_WARN("history: %s", err.msg);
        view_warning(r->config.view, "the history is not kept: %s", err.msg);
        free(r->history_path);
        r->history_path = NULL;
    }
    if (str_blank(line)) {
        lineedit_prompt(r->le, prompt_text(r));
        return;
    }
    if (app_is_busy(r->app)) {
        /* Files of the command line are still being loaded. */
        free(r->waiting);
        r->waiting = xstrdup(line);
        view_status(r->config.view, "loading first");
        return;
    }
    submit(r, line);
}

static void
on_eof(void *ctx)
{
    leave(ctx);
}

static void
on_interrupt(void *ctx, bool was_empty)
{
    struct repl *r = ctx;

    if (app_is_busy(r->app)) {
        app_cancel(r->app);
    } else if (was_empty) {
        view_note(r->config.view, ":quit or Ctrl-D leaves");
    }
    lineedit_prompt(r->le, prompt_text(r));
}

static void
on_cancel(void *ctx)
{
    struct repl *r = ctx;

    free(take_ptr(&r->waiting));
    app_cancel(r->app);
}

static void
on_complete(void *ctx, const char *line, size_t cursor,
            struct lineedit_candidates *out)
{
    struct repl *r = ctx;

    complete_line(r->config.recorder, line, cursor, out);
}

/* ---- the terminal ---------------------------------------------------------
 */

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    struct repl *r = ctx;

    if (!r->leaving)
        lineedit_unit(r->le, unit);
    else if (unit->kind == INPUT_INTERRUPT)
        r->is_hurried = true;
}

static void
on_resize(void *ctx, int columns, int rows)
{
    struct repl *r = ctx;

    out_set_size(r->config.out, columns, rows);
    lineedit_resize(r->le, columns, rows);
}

static void
on_caps(void *ctx)
{
    struct repl *r = ctx;

    view_caps_ready(r->config.view);
}

static void
on_gone(void *ctx)
{
    struct repl *r = ctx;

    /* Nobody reads any more: 128 + SIGHUP, as a shell would say. */
    r->status = 129;
    leave(r);
}

/* Told at the prompt; within a load or a turn it comes with their errors. */
static void
on_sandbox_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct repl *r = ctx;

    (void)end;
    if (app_tell_level(r->app) != r->is_reduced) {
        r->is_reduced = !r->is_reduced;
        if (lineedit_is_shown(r->le)) {
            lineedit_hide(r->le);
            lineedit_prompt(r->le, prompt_text(r));
        }
    }
    if (err != NULL && !app_is_busy(r->app) && !r->told_sandbox)
        view_error(r->config.view, err);
}

struct repl *
repl_new(struct app *app, const struct app_config *config,
         const char *history_path, struct error *err)
{
    static const struct tty_handlers tty_on = {
        .on_unit = on_unit,
        .on_resize = on_resize,
        .on_caps = on_caps,
        .on_gone = on_gone,
    };
    static const struct lineedit_handlers line_on = {
        .on_line = on_line,
        .on_eof = on_eof,
        .on_interrupt = on_interrupt,
        .on_cancel = on_cancel,
        .complete = on_complete,
    };
    struct repl *r = xcalloc(1, sizeof(*r));

    r->app = app;
    r->config = *config;
    r->history_path = xstrdup(history_path);
    r->le =
        lineedit_new(config->loop, config->tty, config->out, &line_on, r, err);
    if (r->le == NULL ||
        tty_start(config->tty, config->out, &tty_on, r, err) < 0) {
        repl_free(r);
        return NULL;
    }
    app_on_done(app, on_done, r);
    sandbox_on_open(config->sandbox, on_sandbox_open, r);
    return r;
}

void
repl_free(struct repl *r)
{
    if (r == NULL)
        return;
    stop_slow(r);
    lineedit_free(r->le);
    free(r->waiting);
    free(r->history_path);
    free(r);
}

void
repl_start(struct repl *r)
{
    struct error err = {0};

    app_greet(r->app);
    if (r->history_path != NULL && history_load(r->history_path, &err) < 0)
        view_warning(r->config.view, "the history is not read: %s", err.msg);
    /* The prompt does not wait for the answers; the first picture does. */
    tty_probe(r->config.tty, app_probe_ms());
    /* The first file is there when the sandbox opens, and so is not copied. */
    load_next(r);
    sandbox_open(r->config.sandbox);
    app_find_leftovers(r->app);
    prompt(r);
}

bool
repl_is_hurried(const struct repl *r)
{
    return r->is_hurried;
}

int
repl_exit_status(const struct repl *r)
{
    return r->status;
}
