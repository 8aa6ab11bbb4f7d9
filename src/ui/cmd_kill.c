/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sbuf.h"
#include "sandbox/e2b.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define LOG_MODULE "kill"

#define MAX_TEXT_BYTES ((size_t)1 << 17)

/* How many are named. */
#define MAX_NAMED ((size_t)8)

/* NULL: the sandbox is of no service. */
static const char *
find_host(const struct app *app)
{
    const struct app_leftovers *l = &app->config.leftovers;

    return l->host != NULL ? l->host(l->ctx) : NULL;
}

void
app_drop_kill(struct app *app)
{
    struct app_kill *k = &app->kill;

    if ((k->searching || k->runs) && find_host(app) != NULL)
        app->config.leftovers.cancel(app->config.leftovers.ctx);
    for (size_t i = 0; i < k->n_ids; i++)
        free(k->ids[i]);
    free(k->ids);
    sbuf_fini(&k->ended);
    *k = (struct app_kill){0};
}

/* ---- the warning at the start ---------------------------------------------
 */

/* Adds ", since 2026-11-30 14:02", of the oldest. */
static void
add_since(struct sbuf *sb, const struct e2b_leftover *list, size_t n)
{
    int64_t first_ms = 0;
    time_t when;
    struct tm tm;
    char text[64];

    for (size_t i = 0; i < n; i++) {
        if (list[i].started_ms > 0 &&
            (first_ms == 0 || list[i].started_ms < first_ms))
            first_ms = list[i].started_ms;
    }
    when = (time_t)(first_ms / 1000);
    if (first_ms == 0 || localtime_r(&when, &tm) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm) == 0)
        return;
    sbuf_addf(sb, ", since %s", text);
}

static void
add_ids(struct sbuf *sb, const struct e2b_leftover *list, size_t n)
{
    for (size_t i = 0; i < n && i < MAX_NAMED; i++)
        sbuf_addf(sb, "%s%s%s", i > 0 ? ", " : "", list[i].id,
                  list[i].paused ? " (paused)" : "");
    if (n > MAX_NAMED)
        sbuf_addf(sb, " and %zu more", n - MAX_NAMED);
}

static void
warn(struct app *app, const struct e2b_leftover *list, size_t n)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_TEXT_BYTES);
    if (n == 1)
        sbuf_add_str(&sb, "a sandbox of an earlier run is still there at ");
    else
        sbuf_addf(&sb, "%zu sandboxes of earlier runs are still there at ", n);
    sbuf_add_str(&sb, find_host(app));
    add_since(&sb, list, n);
    sbuf_add_str(&sb, ", and may be billed: ");
    add_ids(&sb, list, n);
    sbuf_add_str(&sb, n == 1 ? "; :sandbox kill ends it"
                             : "; :sandbox kill ends them, :sandbox kill ID "
                               "one of them");
    view_warning(app->config.view, "%s", sb.data);
    if (!app_is_busy(app))
        view_gap(app->config.view);
}

static void
on_searched(void *ctx, const struct e2b_leftover *list, size_t n,
            const struct error *err)
{
    struct app *app = ctx;

    app->kill.searching = false;
    if (err != NULL)
        LOG_INFO("what earlier runs have left is not known: %s", err->msg);
    else if (n > 0)
        warn(app, list, n);
}

void
app_find_leftovers(struct app *app)
{
    if (find_host(app) == NULL || app->kill.searching || app->kill.runs)
        return;
    app->kill.searching = true;
    app->config.leftovers.find(app->config.leftovers.ctx, on_searched, app);
}

/* ---- :sandbox kill --------------------------------------------------------
 */

/* Says what was ended; the command is over. */
static void
tell_end(struct app *app)
{
    struct app_kill *k = &app->kill;

    view_status(app->config.view, NULL);
    if (k->ended.len > 0)
        view_note(app->config.view, "ended at %s: %s", find_host(app),
                  k->ended.data);
    k->runs = false;
}

static void
on_all_ended(void *ctx)
{
    struct app *app = ctx;
    struct error err = app->kill.err;

    tell_end(app);
    app_drop_kill(app);
    if (err.code != ERR_NONE)
        app_end_shown(app, &err);
    else
        command_done(app, NULL);
}

static void
on_ended(void *ctx, const char *id, const struct error *err)
{
    struct app *app = ctx;
    struct app_kill *k = &app->kill;

    if (err == NULL) {
        sbuf_addf(&k->ended, "%s%s", k->ended.len > 0 ? ", " : "", id);
        return;
    }
    view_error(app->config.view, err);
    if (k->err.code == ERR_NONE)
        k->err = *err;
}

static void
end_without(struct app *app, const struct error *err)
{
    tell_end(app);
    app_drop_kill(app);
    command_done(app, err);
}

static void
on_found(void *ctx, const struct e2b_leftover *list, size_t n,
         const struct error *err)
{
    struct app *app = ctx;
    struct app_kill *k = &app->kill;

    if (err != NULL) {
        end_without(app, err);
        return;
    }
    if (n == 0 && k->n_ids == 0) {
        view_status(app->config.view, NULL);
        view_note(app->config.view,
                  "no sandbox of an earlier run is there at %s",
                  find_host(app));
        end_without(app, NULL);
        return;
    }
    if (k->n_ids == 0) {
        k->ids = xcalloc(n, sizeof(*k->ids));
        for (; k->n_ids < n; k->n_ids++)
            k->ids[k->n_ids] = xstrdup(list[k->n_ids].id);
    }
    view_status(app->config.view, "ending sandboxes");
    app->config.leftovers.end(app->config.leftovers.ctx,
                              (const char *const *)k->ids, k->n_ids, on_ended,
                              on_all_ended, app);
}

enum command_result
command_sandbox_kill(struct app *app, char *const *words, size_t n_words,
                     struct error *err)
{
    struct app_kill *k = &app->kill;

    if (find_host(app) == NULL) {
        error_fill(err, ERR_USAGE,
                   ":sandbox kill works where cells run at a service: first "
                   ":sandbox NAME");
        return CMD_ERROR;
    }
    /* The search at the start may still go on. */
    app_drop_kill(app);
    k->runs = true;
    sbuf_init(&k->ended, MAX_TEXT_BYTES);
    k->ids = n_words > 0 ? xcalloc(n_words, sizeof(*k->ids)) : NULL;
    for (; k->n_ids < n_words; k->n_ids++)
        k->ids[k->n_ids] = xstrdup(words[k->n_ids]);
    view_status(app->config.view, "looking for sandboxes of earlier runs");
    app->config.leftovers.find(app->config.leftovers.ctx, on_found, app);
    return CMD_WAIT;
}

void
command_sandbox_kill_cancel(struct app *app)
{
    struct error err = {0};

    if (!app->kill.runs)
        return;
    app->config.leftovers.cancel(app->config.leftovers.ctx);
    error_fill(&err, ERR_CANCELLED, ":sandbox kill was stopped");
    end_without(app, &err);
}
