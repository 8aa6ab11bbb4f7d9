/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/sandbox.h"
#include "ui/app_internal.h"
#include "ui/cmd_switch_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_TEXT_BYTES 4096u
#define MAX_STATUS_BYTES 128u

/* Ranges of numbers of cells that are named. */
#define MAX_RANGES 20u

/* Of what a cell says of its failure. */
#define MAX_VALUE_BYTES 200

/* The longest name of an exception that is told the model. */
#define MAX_NAME_BYTES 64u

static const char *
plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- :replay --------------------------------------------------------------
 */

/* Adds "1-3, 5 and 7". */
static void
add_ranges(struct sbuf *sb, const int *numbers, size_t n)
{
    unsigned n_ranges = 0;
    size_t i = 0;

    while (i < n && n_ranges < MAX_RANGES) {
        size_t first = i;

        while (i + 1 < n && numbers[i + 1] == numbers[i] + 1)
            i++;
        i++;
        if (n_ranges++ > 0)
            sbuf_add_str(sb, i < n ? ", " : " and ");
        sbuf_addf(sb, "%d", numbers[first]);
        if (i - first > 1)
            sbuf_addf(sb, "-%d", numbers[i - 1]);
    }
    if (i < n)
        sbuf_addf(sb, " and %zu more", n - i);
}

static void
tell_replayed(struct app *app, const struct sandbox_replayed *r)
{
    AUTO_SBUF struct sbuf cells = {0};

    sbuf_init(&cells, MAX_TEXT_BYTES);
    add_ranges(&cells, r->cells, r->n_cells);
    view_note(app->config.view, "cell%s %s %s run again; %s",
              plural(r->n_cells), cells.data, r->n_cells == 1 ? "has" : "have",
              r->n_cells < r->n_all ? "those behind have not"
                                    : "variables are back");
}

/* The name of an exception comes from inside: an identifier says nothing. */
static bool
is_identifier(const char *name)
{
    size_t len = name != NULL ? strlen(name) : 0;

    if (len == 0 || len > MAX_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    }
    return true;
}

static void
tell_model_of_replay(struct app *app, const struct sandbox_replayed *r,
                     const struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (app->agent == NULL)
        return;
    sbuf_init(&sb, MAX_TEXT_BYTES);
    sbuf_addf(&sb, "[The user had cell%s ", plural(r->n_cells));
    add_ranges(&sb, r->cells, r->n_cells);
    sbuf_addf(&sb,
              " run again, in the interpreter as it is now: what %s made is "
              "there.",
              r->n_cells == 1 ? "it" : "they");
    if (err != NULL) {
        const char *name =
            r->outcome != NULL && is_identifier(r->outcome->error_name)
                ? r->outcome->error_name
                : NULL;

        sbuf_addf(&sb, " Cell %d was the next and did not end well",
                  r->stopped_at);
        if (err->code == ERR_CANCELLED)
            sbuf_add_str(&sb, " (the user stopped it)");
        else if (name != NULL)
            sbuf_addf(&sb, " (%s)", name);
        sbuf_add_str(&sb, "; it and those behind it have to be done anew if "
                          "they are needed.");
    }
    sbuf_add_char(&sb, ']');
    agent_tell(app->agent, sb.data);
}

/* One line on why the replay stopped. What an exception says is data, of which
   a second line would look like the program's. */
static void
fill_failure(const struct sandbox_replayed *r, const struct error *err,
             struct error *why)
{
    const struct sandbox_outcome *o = r->outcome;
    const char *value =
        o != NULL && o->error_value != NULL ? o->error_value : "";

    if (err->code == ERR_CANCELLED)
        error_fill(why, ERR_CANCELLED, "the replay was stopped at cell %d",
                   r->stopped_at);
    else if (o != NULL && o->reason != NULL)
        error_fill(why, err->code, "cell %d: %s", r->stopped_at, o->reason);
    else if (o != NULL && o->error_name != NULL)
        error_fill(why, err->code, "cell %d: %.*s%s%.*s", r->stopped_at,
                   (int)strcspn(o->error_name, "\n"), o->error_name,
                   value[0] != '\0' ? ": " : "",
                   (int)strnlen(value, strcspn(value, "\n") < MAX_VALUE_BYTES
                                           ? strcspn(value, "\n")
                                           : MAX_VALUE_BYTES),
                   value);
    else if (o != NULL)
        error_fill(why, err->code, "cell %d did not end well: %s",
                   r->stopped_at, event_outcome_name(o->outcome));
    else {
        *why = *err;
        error_prepend(why, "cell %d", r->stopped_at);
    }
}

static void
on_replayed(void *ctx, const struct sandbox_replayed *r,
            const struct error *err)
{
    struct app *app = ctx;
    struct error why = {0};
    bool lost = r->outcome != NULL && r->outcome->variables_lost;

    app->replay = NULL;
    view_status(app->config.view, NULL);
    if (r->n_dropped > 0)
        view_note(app->config.view,
                  "%zu earlier cell%s %s not kept any more, and %s not run "
                  "again",
                  r->n_dropped, plural(r->n_dropped),
                  r->n_dropped == 1 ? "is" : "are",
                  r->n_dropped == 1 ? "has" : "have");
    /* What was lost before or with it is told first. */
    app_tell_model_of_loss(app);
    if (r->n_cells > 0 && !lost) {
        tell_replayed(app, r);
        tell_model_of_replay(app, r, err);
    }
    if (err != NULL)
        fill_failure(r, err, &why);
    command_done(app, err != NULL ? &why : NULL);
}

static void
on_replayed_cell(void *ctx, int cell, size_t i, size_t n)
{
    struct app *app = ctx;
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_STATUS_BYTES);
    sbuf_addf(&text, "running again: cell %d, %zu of %zu", cell, i, n);
    app_op_status(app, text.data);
}

static enum command_result
run_replay(struct app *app, char *const *words, size_t n_words,
           struct error *err)
{
    static const struct sandbox_replay_handlers on = {
        .on_cell = on_replayed_cell,
        .on_done = on_replayed,
    };

    (void)words;
    (void)n_words;
    app->replay = sandbox_replay(app->config.sandbox, &on, app);
    if (app->replay != NULL)
        return CMD_WAIT;
    error_fill(err, ERR_USAGE,
               "there is nothing to run again: no cell has ended well yet");
    return CMD_ERROR;
}

static void
cancel_replay(struct app *app)
{
    if (app->replay != NULL)
        sandbox_replay_cancel(app->replay);
}

/* ---- :sandbox NAME --------------------------------------------------------
 */

void
app_add_loaded(const struct app *app, struct sbuf *sb)
{
    size_t n = 0;
    size_t n_named = 0;
    const struct sandbox_loaded *loaded =
        sandbox_loaded(app->config.sandbox, &n);

    /* Of a variable that was loaded twice only the last one counts. */
    for (size_t i = 0; i < n; i++) {
        if (loaded[i].setup == NULL)
            continue;
        sbuf_addf(sb, "%s%s", n_named++ > 0 ? ", " : "; loaded again: ",
                  loaded[i].variable);
    }
    for (size_t i = 0; i < n; i++) {
        if (loaded[i].setup != NULL && loaded[i].changed)
            sbuf_addf(sb, "; %s has changed since it was loaded",
                      loaded[i].name);
    }
}

static bool
is_reduced(const struct app *app)
{
    struct sandbox_info info = {0};

    sandbox_info(app->config.sandbox, &info);
    return str_eq(info.level, "reduced");
}

/* What cells can reach there; NULL: nothing. */
static const char *
find_egress(const struct app *app)
{
    struct sandbox_info info = {0};

    if (!sandbox_caps(app->config.sandbox)->has_network)
        return NULL;
    sandbox_info(app->config.sandbox, &info);
    return info.egress != NULL ? info.egress : "internet";
}

/* What the system prompt says of isolation it says of the first one; of what
   the sandbox is otherwise the agent tells by itself. */
static void
tell_model_of_level(struct app *app)
{
    const char *note = agent_reduced_note();
    AUTO_FREE char *told = NULL;

    if (app->agent == NULL)
        return;
    if (is_reduced(app))
        told = xasprintf("[%.*s]", (int)strcspn(note, "\n"), note);
    else if (app->switching.was_reduced)
        told = xstrdup("[In this sandbox there is a directory /workspace, and "
                       "/tmp, /proc and multiprocessing are there.]");
    if (told != NULL)
        agent_tell(app->agent, told);
}

/* all_back: the loaded files are; err says which are not otherwise. */
static void
tell_switched(struct app *app, bool all_back)
{
    struct view *v = app->config.view;
    const char *name = sandbox_caps(app->config.sandbox)->name;
    const char *egress = find_egress(app);
    size_t n_cells = sandbox_n_replayable(app->config.sandbox);
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_TEXT_BYTES);
    if (app->switching.had_run)
        sbuf_add_str(&sb, "; variables are gone");
    if (all_back)
        app_add_loaded(app, &sb);
    view_note(v, "the sandbox is %s now, %s%s%s", name,
              egress != NULL                                 ? "with network: "
              : sandbox_caps(app->config.sandbox)->is_remote ? "no internet"
                                                             : "no network",
              egress != NULL ? egress : "", sb.data);
    if (n_cells > 0)
        view_note(v, ":replay runs again there the %zu cell%s that ended well",
                  n_cells, plural(n_cells));
}

static void
on_switched(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct app *app = ctx;
    AUTO_FREE char *name = take_ptr(&app->switching.name);
    struct error why = {0};

    app->op = NULL;
    view_status(app->config.view, NULL);
    if (err != NULL)
        why = *err;
    if (end == SANDBOX_ERROR) {
        error_prepend(&why, "the sandbox is still %s, not %s",
                      sandbox_caps(app->config.sandbox)->name, name);
    } else {
        tell_switched(app, err == NULL);
        app_tell_model_of_loss(app);
        tell_model_of_level(app);
    }
    command_done(app, err != NULL ? &why : NULL);
}

enum command_result
cmd_switch_to(struct app *app, const char *name, struct error *err)
{
    const struct app_config *c = &app->config;
    const char *now = sandbox_caps(c->sandbox)->name;
    struct sandbox_backend *next = NULL;
    struct sandbox_info info = {0};
    AUTO_FREE char *status = NULL;

    if (str_eq(now, name)) {
        view_note(c->view, "the sandbox is %s already", now);
        return CMD_OK;
    }
    if (c->make_backend == NULL) {
        error_fill(err, ERR_USAGE,
                   "there is no sandbox '%s'; the only one is '%s'", name, now);
        return CMD_ERROR;
    }
    next = c->make_backend(c->make_ctx, name, err);
    if (next == NULL)
        return CMD_ERROR;
    sandbox_info(c->sandbox, &info);
    app->switching.name = xstrdup(name);
    app->switching.had_run = info.has_run;
    app->switching.was_reduced = is_reduced(app);
    status = xasprintf("starting the sandbox %s", name);
    view_status(c->view, status);
    app->op = sandbox_switch(c->sandbox, next, on_switched, app);
    return CMD_WAIT;
}

const struct command cmd_replay = {
    .name = "replay",
    .arguments = "",
    .help = "run again the cells that ended well, to have their variables back",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_replay,
    .cancel = cancel_replay,
};
