/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "main_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "sandbox/e2b.h"
#include "store/runs.h"
#include "ui/view.h"

/* The first service that is used needs it; without one nothing is written. */
static struct runs *
get_runs(struct program *p)
{
    AUTO_FREE char *state = NULL;
    struct error err = {0};

    if (p->runs != NULL || p->runs_failed)
        return p->runs;
    state = paths_state_dir();
    if (state == NULL)
        error_fill(&err, ERR_IO, "there is no home directory");
    else
        p->runs = runs_open(state, &err);
    if (p->runs == NULL) {
        p->runs_failed = true;
        view_warning(p->view,
                     "sandboxes that a crash leaves with a service will not be "
                     "found again: %s",
                     err.msg);
    }
    return p->runs;
}

const char *
main_owner(struct program *p)
{
    const struct runs *runs = get_runs(p);

    return runs != NULL ? runs_installation(runs) : NULL;
}

const char *
main_run(struct program *p)
{
    const struct runs *runs = get_runs(p);

    return runs != NULL ? runs_id(runs) : NULL;
}

static bool
is_alive(void *ctx, const char *run)
{
    return runs_is_alive(ctx, run);
}

void
main_set_leftovers(struct program *p, const struct e2b_config *config)
{
    e2b_leftovers_free(p->leftovers);
    p->leftovers = NULL;
    if (config == NULL || config->owner == NULL || config->run == NULL)
        return;
    /* The back end says what is wrong with the settings. */
    p->leftovers = e2b_leftovers_new(p->loop, config, is_alive, p->runs, NULL);
}

void
main_free_leftovers(struct program *p)
{
    e2b_leftovers_free(p->leftovers);
    runs_close(p->runs);
}

/* ---- for the app ----------------------------------------------------------
 */

static const char *
get_host(void *ctx)
{
    const struct program *p = ctx;

    return p->leftovers != NULL ? e2b_leftovers_host(p->leftovers) : NULL;
}

static void
find(void *ctx, e2b_leftovers_fn done, void *done_ctx)
{
    const struct program *p = ctx;

    e2b_leftovers_find(p->leftovers, done, done_ctx);
}

static void
end(void *ctx, const char *const *ids, size_t n_ids, e2b_ended_fn each,
    void (*done)(void *ctx), void *done_ctx)
{
    const struct program *p = ctx;

    e2b_leftovers_end(p->leftovers, ids, n_ids, each, done, done_ctx);
}

static void
cancel(void *ctx)
{
    const struct program *p = ctx;

    e2b_leftovers_cancel(p->leftovers);
}

struct app_leftovers
main_leftovers(struct program *p)
{
    return (struct app_leftovers){
        .host = get_host,
        .find = find,
        .end = end,
        .cancel = cancel,
        .ctx = p,
    };
}
