/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "main_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "config/sandboxes.h"
#include "sandbox/e2b.h"
#include "sandbox/sandbox.h"
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

/* Of the service whose sandbox is in use; NULL: it is of none. One for each
   that was, since a search may still go on there. */
static struct e2b_leftovers *
get_leftovers(struct program *p)
{
    const struct config_sandbox *s =
        config_find_sandbox(&p->config, sandbox_caps(p->sandbox)->name);
    struct e2b_config config;
    size_t i;

    if (s == NULL)
        return NULL;
    i = (size_t)(s - p->config.sandboxes);
    if (p->leftovers == NULL)
        p->leftovers = xcalloc(p->config.n_sandboxes, sizeof(*p->leftovers));
    if (p->leftovers[i] != NULL)
        return p->leftovers[i];
    main_fill_service(p, s, &config);
    /* The back end says what is wrong with the settings. */
    if (config.owner != NULL && config.run != NULL)
        p->leftovers[i] =
            e2b_leftovers_new(p->loop, &config, is_alive, p->runs, NULL);
    return p->leftovers[i];
}

void
main_free_leftovers(struct program *p)
{
    for (size_t i = 0; p->leftovers != NULL && i < p->config.n_sandboxes; i++)
        e2b_leftovers_free(p->leftovers[i]);
    free(take_ptr(&p->leftovers));
}

/* ---- for the app ----------------------------------------------------------
 */

static const char *
get_host(void *ctx)
{
    const struct e2b_leftovers *l = get_leftovers(ctx);

    return l != NULL ? e2b_leftovers_host(l) : NULL;
}

static void
find(void *ctx, e2b_leftovers_fn done, void *done_ctx)
{
    e2b_leftovers_find(get_leftovers(ctx), done, done_ctx);
}

static void
end(void *ctx, const char *const *ids, size_t n_ids, e2b_ended_fn each,
    void (*done)(void *ctx), void *done_ctx)
{
    e2b_leftovers_end(get_leftovers(ctx), ids, n_ids, each, done, done_ctx);
}

static void
cancel(void *ctx)
{
    const struct program *p = ctx;

    for (size_t i = 0; p->leftovers != NULL && i < p->config.n_sandboxes; i++) {
        if (p->leftovers[i] != NULL)
            e2b_leftovers_cancel(p->leftovers[i]);
    }
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
