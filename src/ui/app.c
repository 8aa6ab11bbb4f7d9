/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/app.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "load/load.h"
#include "model/event.h"
#include "model/sink.h"
#include "sandbox/doctor.h"
#include "sandbox/sandbox.h"
#include "term/out.h"
#include "ui/app_internal.h"
#include "ui/cmd_sandbox_internal.h"
#include "ui/command.h"
#include "ui/fetch_table_internal.h"
#include "ui/view.h"

#define PROBE_MS 300
#define MAX_PLACE_BYTES 2048u
#define PROBE_SSH_MS 1000

/* ---- ends -----------------------------------------------------------------
 */

/* Within a turn, the next cell of it tells the model. */
void
app_tell_model_of_loss(struct app *app)
{
    AUTO_FREE char *loss = NULL;
    AUTO_FREE char *text = NULL;

    if (app->agent == NULL || agent_is_busy(app->agent))
        return;
    loss = sandbox_take_late_loss(app->config.sandbox);
    if (loss == NULL)
        return;
    text = xasprintf("[%s]", loss);
    agent_tell(app->agent, text);
}

void
app_tell_loss(struct app *app, const char *loss)
{
    view_warning(app->config.view, "%s", loss);
    if (!app_is_busy(app))
        view_gap(app->config.view);
    app_tell_model_of_loss(app);
}

static void
on_finish(void *ctx)
{
    struct app *app = ctx;
    struct error err = app->err;
    bool quit = app->quit;

    app_tell_model_of_loss(app);
    app->task = NULL;
    app->state = APP_IDLE;
    app->command = NULL;
    memset(&app->err, 0, sizeof(app->err));
    if (app->done != NULL)
        app->done(app->ctx, err.code != ERR_NONE ? &err : NULL, quit);
}

/* Ends the line: from the loop, so that nobody is called back within the call
   that began it. */
static void
finish(struct app *app, const struct error *err, bool quit)
{
    if (app->task != NULL)
        return;
    if (err != NULL)
        app->err = *err;
    app->quit = quit;
    app->task = loop_defer(app->config.loop, on_finish, app);
}

static void
finish_with_error(struct app *app, const struct error *err)
{
    view_error(app->config.view, err);
    finish(app, err, false);
}

void
command_done(struct app *app, const struct error *err)
{
    if (err != NULL)
        finish_with_error(app, err);
    else
        finish(app, NULL, false);
}

void
app_end_shown(struct app *app, const struct error *err)
{
    finish(app, err, false);
}

/* ---- loading --------------------------------------------------------------
 */

static void
note_file(struct app *app, const struct event_load *report)
{
    struct app_file *f = NULL;

    for (size_t i = 0; i < app->n_files; i++) {
        if (str_eq(app->files[i].variable, report->variable))
            f = &app->files[i];
    }
    if (f == NULL) {
        app->files =
            xreallocarray(app->files, app->n_files + 1, sizeof(*app->files));
        f = &app->files[app->n_files++];
        memset(f, 0, sizeof(*f));
    }
    free(f->variable);
    free(f->path);
    *f = (struct app_file){
        .variable = xstrdup(report->variable),
        .path = xstrdup(report->file),
        .n_rows = report->n_rows,
        .n_cols = report->n_cols_total,
        .size_bytes = report->size_bytes,
    };
}

static void
on_loaded(void *ctx, const struct load_result *result, const struct error *err)
{
    struct app *app = ctx;
    struct error bad = {0};

    app->load = NULL;
    view_status(app->config.view, NULL);
    if (err != NULL) {
        finish_with_error(app, err);
        return;
    }
    if (sink_chain_put(
            app->config.chain,
            &(struct event){.kind = EVENT_LOAD, .load = result->report},
            &bad) < 0) {
        finish_with_error(app, &bad);
        return;
    }
    if (result->note != NULL)
        view_note(app->config.view, "%s", result->note);
    note_file(app, result->report);
    if (app->agent != NULL)
        agent_tell(app->agent, result->for_model);
    finish(app, NULL, false);
}

static void
show_copy(struct app *app, const char *doing, const char *name, uint64_t done,
          uint64_t total)
{
    AUTO_FREE char *what =
        name != NULL ? xasprintf("%s %s", doing, name) : NULL;

    view_copy(app->config.view, what, done, total);
}

static void
on_load_progress(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    show_copy(ctx, "loading", name, done, total);
}

/* Files that an interpreter or a sandbox had before, for the one in its place.
 */
static void
on_put_again(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    show_copy(ctx, "sending again", name, done, total);
}

int
app_begin_load(struct app *app, const char *path, const char *variable,
               struct error *err)
{
    int64_t limit_ms = app->config.config->cell_seconds * 1000;

    app->load = load_start(app->config.sandbox, path, variable, limit_ms,
                           on_loaded, app, err);
    if (app->load == NULL)
        return -1;
    load_on_progress(app->load, on_load_progress);
    view_status(app->config.view, "loading");
    return 0;
}

void
app_load(struct app *app, const char *path, const char *variable)
{
    struct error err = {0};

    assert(app->state == APP_IDLE);
    app->state = APP_LOADING;
    if (app_begin_load(app, path, variable, &err) < 0)
        finish_with_error(app, &err);
}

/* ---- questions ------------------------------------------------------------
 */

char *
app_key_advice(void)
{
    AUTO_FREE char *path = config_default_path();

    return xasprintf("set ANTHROPIC_API_KEY, or put the key into %s, below "
                     "'model:' as 'api_key: KEY', and chmod 600 that file",
                     path != NULL ? path : "a file named with --config");
}

/* Three lines: what is missing, where it goes, what works without it. */
static void
explain_key(struct app *app)
{
    AUTO_FREE char *advice = app_key_advice();
    struct error err = {0};

    error_fill(&err, ERR_AUTH,
               "there is no key for the Claude API, so no question can be "
               "answered");
    view_error(app->config.view, &err);
    view_note(app->config.view, "%s", advice);
    view_note(app->config.view,
              "to see everything work without a key: %s --demo",
              program_invocation_name);
    finish(app, &err, false);
}

/* A cell has ended that was stopped a while ago, or variables are gone. */
static void
on_late_end(void *ctx, int cell, const char *loss)
{
    struct app *app = ctx;

    if (loss != NULL) {
        app_tell_loss(app, loss);
    } else if (cell > 0) {
        view_note(app->config.view, "cell %d has ended; variables are kept",
                  cell);
        if (!app_is_busy(app))
            view_gap(app->config.view);
    }
}

void
app_turn_done(void *ctx, enum event_outcome outcome, const struct error *err)
{
    struct app *app = ctx;
    struct error why = {0};

    /* The view has shown the error already, with the end of the turn. */
    if (err != NULL)
        why = *err;
    else if (outcome == EVENT_INTERRUPTED)
        error_fill(&why, ERR_CANCELLED, "interrupted");
    else if (outcome != EVENT_OK)
        error_fill(&why, ERR_NO_ANSWER, "there is no answer");
    finish(app, why.code != ERR_NONE ? &why : NULL, false);
}

static void
ask(struct app *app, const char *question)
{
    struct error err = {0};

    app->state = APP_ASKING;
    if (agent_ask(app->agent, question, &err) == 0) {
        /* What the first answer may need gets ready meanwhile. */
        if (!app->has_asked)
            sandbox_open(app->config.sandbox);
        app->has_asked = true;
        return;
    }
    if (err.code == ERR_AUTH)
        explain_key(app);
    else
        finish_with_error(app, &err);
}

int
app_begin_retry(struct app *app, struct error *err)
{
    if (agent_retry(app->agent, err) < 0)
        return -1;
    app->state = APP_ASKING;
    return 0;
}

/* ---- commands -------------------------------------------------------------
 */

static int
unknown_command(const char *name, struct error *err)
{
    const char *names[64];
    const char *near = NULL;
    size_t n = 0;

    for (; n < 64 && command_at(n) != NULL; n++)
        names[n] = command_at(n)->name;
    near = str_nearest(name, names, n);
    if (near != NULL)
        return err_set(err, ERR_USAGE,
                       "there is no command ':%s'; the nearest is ':%s'", name,
                       near);
    return err_set(err, ERR_USAGE, "there is no command ':%s'; see :help",
                   name);
}

static enum command_result
run_words(struct app *app, char *const *words, size_t n_words,
          struct error *err)
{
    const char *name = words[0] + 1;
    const struct command *cmd = command_find(name);

    if (cmd == NULL) {
        unknown_command(name, err);
        return CMD_ERROR;
    }
    if (n_words - 1 < cmd->min_words || n_words - 1 > cmd->max_words) {
        error_fill(err, ERR_USAGE, "usage: :%s%s%s", cmd->name,
                   cmd->arguments[0] != '\0' ? " " : "", cmd->arguments);
        return CMD_ERROR;
    }
    app->command = cmd;
    return cmd->run(app, words + 1, n_words - 1, err);
}

static void
run_command(struct app *app, const char *line)
{
    char **words = NULL;
    size_t n_words = 0;
    struct error err = {0};
    enum command_result result = CMD_ERROR;

    app->state = APP_COMMAND;
    if (command_split(line, &words, &n_words, &err) == 0)
        result = run_words(app, words, n_words, &err);
    command_free_words(words, n_words);
    switch (result) {
    case CMD_OK:
        finish(app, NULL, false);
        break;
    case CMD_ERROR:
        finish_with_error(app, &err);
        break;
    case CMD_WAIT:
        break;
    case CMD_QUIT:
        finish(app, NULL, true);
        break;
    }
}

void
app_cancel_op(struct app *app)
{
    if (app->op != NULL)
        sandbox_cancel(app->op);
}

void
app_op_status(struct app *app, const char *text)
{
    switch (sandbox_state(app->config.sandbox)) {
    case SANDBOX_NEW:
    case SANDBOX_OPENING:
    case SANDBOX_FAILED:
        text = "starting the sandbox";
        break;
    case SANDBOX_BUSY:
        text = "waiting for the sandbox";
        break;
    case SANDBOX_IDLE:
    case SANDBOX_SUSPENDED:
        break;
    }
    view_status(app->config.view, text);
}

int
app_check_sandbox(const struct app *app, struct error *err)
{
    struct sandbox *sb = app->config.sandbox;

    switch (sandbox_state(sb)) {
    case SANDBOX_NEW:
        return err_set(err, ERR_DATA,
                       "no interpreter runs, so there are no variables\nfix: "
                       "ask a question or :load a file, which starts one");
    case SANDBOX_FAILED:
        *err = *sandbox_why(sb);
        return -1;
    case SANDBOX_OPENING:
    case SANDBOX_IDLE:
    case SANDBOX_BUSY:
    case SANDBOX_SUSPENDED:
        break;
    }
    return 0;
}

/* ---- public ---------------------------------------------------------------
 */

/* What the sandbox does differently from what is usual. */
static void
on_progress(void *ctx, const char *what)
{
    struct app *app = ctx;

    view_note(app->config.view, "%s", what);
}

struct app *
app_new(const struct app_config *config)
{
    struct app *app = xcalloc(1, sizeof(*app));

    app->config = *config;
    app->save.file.fd = -1;
    app->full.fd = -1;
    app->snapshot.fd = -1;
    app->snapshot.file.fd = -1;
    sandbox_on_progress(config->sandbox, on_progress, app);
    sandbox_on_put_again(config->sandbox, on_put_again, app);
    sandbox_on_late_end(config->sandbox, on_late_end, app);
    return app;
}

void
app_free(struct app *app)
{
    if (app == NULL)
        return;
    loop_task_remove(app->task);
    for (size_t i = 0; i < app->n_files; i++) {
        free(app->files[i].variable);
        free(app->files[i].path);
    }
    free(app->files);
    io_new_close(&app->save.file);
    close_fd(&app->full.fd);
    io_new_close(&app->snapshot.file);
    close_fd(&app->snapshot.fd);
    free(app->snapshot.name);
    app_drop_kill(app);
    free(app->switching.name);
    fetch_table_free(app);
    doctor_free(app->doctor);
    free(app);
}

void
app_set_agent(struct app *app, struct agent *agent)
{
    app->agent = agent;
}

void
app_on_done(struct app *app, app_done_fn done, void *ctx)
{
    app->done = done;
    app->ctx = ctx;
}

void
app_submit(struct app *app, const char *line)
{
    AUTO_FREE char *text = str_trim(line);

    assert(app->state == APP_IDLE);
    if (text[0] == ':') {
        run_command(app, text);
        return;
    }
    if (text[0] == '\0') {
        app->state = APP_COMMAND;
        finish(app, NULL, false);
        return;
    }
    ask(app, text);
}

bool
app_is_busy(const struct app *app)
{
    return app->state != APP_IDLE;
}

void
app_cancel(struct app *app)
{
    if (app->load != NULL)
        load_cancel(app->load);
    else if (app->state == APP_ASKING)
        agent_cancel(app->agent);
    else if (app->command != NULL && app->command->cancel != NULL)
        app->command->cancel(app);
}

void
app_greet(struct app *app)
{
    AUTO_SBUF struct sbuf where = {0};
    const char *dot = out_has_unicode(app->config.out) ? "\xC2\xB7" : "-";

    sbuf_init(&where, MAX_PLACE_BYTES);
    cmd_sandbox_add_greeting(app, &where);
    view_note(app->config.view, "sandpiper %s %s %s %s %s", app->config.version,
              dot, app->config.config->model, dot, where.data);
    if (app->config.config->demo)
        return; /* which says more of it itself */
    if (app->config.is_replay)
        view_note(app->config.view,
                  "the model's words were written in advance; the code really "
                  "runs");
    else
        view_note(app->config.view,
                  "Claude gets column names, ranges, frequent values, what "
                  "cells print %s :help",
                  dot);
    if (app->config.prompt_path != NULL)
        view_note(app->config.view, "the system prompt is yours: %s",
                  app->config.prompt_path);
}

bool
app_tell_level(struct app *app)
{
    struct sandbox_info info = {0};

    sandbox_info(app->config.sandbox, &info);
    if (!str_eq(info.level, "reduced") || info.uptime_ms == 0)
        return false;
    if (!app->told_level)
        view_warning(app->config.view,
                     "cells run with reduced isolation; sandpiper-sandbox(7) "
                     "says what it leaves open");
    app->told_level = true;
    return true;
}

int
app_probe_ms(void)
{
    return getenv("SSH_CONNECTION") != NULL ? PROBE_SSH_MS : PROBE_MS;
}
