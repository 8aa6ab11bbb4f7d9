/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_leftovers_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/e2b_api_internal.h"

#define LOG_MODULE "e2b"

/* Most creates are over within seconds. One may take 70 s, and what it makes
   then is found at the next start. */
static const int64_t usual_pauses_ms[] = {2000, 8000, 30000};

struct e2b_sweep {
    struct loop *loop;   /* borrowed */
    struct e2b_api *api; /* borrowed */
    e2b_swept_fn done;
    void *ctx;
    struct e2b_pair *labels; /* owned, the texts too */
    size_t n_labels;
    char *keep;         /* owned; NULL: none */
    int64_t *pauses_ms; /* owned */
    size_t n_pauses;

    size_t n_looks;
    struct e2b_sandbox *found; /* owned: of this look */
    size_t n_found;
    size_t at; /* the one that is its turn */
    size_t n_ended;
    struct error err; /* the last failure */

    struct e2b_call *call; /* in progress */
    struct loop_timer *timer;
    struct loop_task *task;
};

static void look(struct e2b_sweep *s);

static void
free_found(struct e2b_sweep *s)
{
    for (size_t i = 0; i < s->n_found; i++) {
        e2b_sandbox_fini(&s->found[i]);
    }
    free(s->found);
    s->found = NULL;
    s->n_found = 0;
    s->at = 0;
}

static void
on_pause_over(void *ctx)
{
    struct e2b_sweep *s = ctx;

    s->timer = NULL;
    look(s);
}

static void
on_over(void *ctx)
{
    struct e2b_sweep *s = ctx;

    s->task = NULL;
    s->done(s->ctx, s->n_ended, s->err.code != ERR_NONE ? &s->err : NULL);
}

/* A look is over. */
static void
end_look(struct e2b_sweep *s)
{
    free_found(s);
    if (s->n_looks > s->n_pauses) {
        s->task = loop_defer(s->loop, on_over, s);
        return;
    }
    s->timer =
        loop_add_timer(s->loop, s->pauses_ms[s->n_looks - 1], on_pause_over, s);
}

static void end_next(struct e2b_sweep *s);

static void
on_kill(void *ctx, struct e2b_result *result)
{
    struct e2b_sweep *s = ctx;

    s->call = NULL;
    if (result->err != NULL) {
        s->err = *result->err;
    } else if (result->changed) {
        s->n_ended++;
        LOG_INFO("the sandbox %s that nobody got was ended",
                 s->found[s->at].id);
    }
    s->at++;
    end_next(s);
}

static void
end_next(struct e2b_sweep *s)
{
    for (; s->at < s->n_found; s->at++) {
        if (str_eq(s->found[s->at].id, s->keep)) {
            continue;
        }
        s->call = e2b_api_kill(s->api, s->found[s->at].id, on_kill, s, &s->err);
        if (s->call != NULL) {
            return;
        }
    }
    end_look(s);
}

static void
on_list(void *ctx, struct e2b_result *result)
{
    struct e2b_sweep *s = ctx;

    s->call = NULL;
    if (result->err != NULL) {
        s->err = *result->err;
        end_look(s);
        return;
    }
    s->found = xcalloc(result->n_sandboxes + 1, sizeof(*s->found));
    for (size_t i = 0; i < result->n_sandboxes; i++) {
        s->found[s->n_found++] = result->sandboxes[i];
        result->sandboxes[i] = (struct e2b_sandbox){0};
    }
    end_next(s);
}

static void
look(struct e2b_sweep *s)
{
    s->n_looks++;
    /* What failed before has been looked for again. */
    s->err = (struct error){0};
    s->call = e2b_api_list(s->api, s->labels, s->n_labels, on_list, s, &s->err);
    if (s->call == NULL) {
        end_look(s);
    }
}

struct e2b_sweep *
e2b_sweep_start(struct loop *loop, struct e2b_api *api,
                const struct e2b_sweep_options *options, e2b_swept_fn done,
                void *ctx, struct error *err)
{
    struct e2b_sweep *s = xcalloc(1, sizeof(*s));
    const int64_t *pauses_ms =
        options->pauses_ms != NULL ? options->pauses_ms : usual_pauses_ms;

    s->loop = loop;
    s->api = api;
    s->done = done;
    s->ctx = ctx;
    s->labels = xcalloc(options->n_labels + 1, sizeof(*s->labels));
    for (size_t i = 0; i < options->n_labels; i++) {
        s->labels[s->n_labels++] =
            (struct e2b_pair){xstrdup(options->labels[i].name),
                              xstrdup(options->labels[i].value)};
    }
    s->keep = xstrdup(options->keep);
    s->n_pauses =
        options->pauses_ms != NULL ? options->n_pauses : LEN(usual_pauses_ms);
    s->pauses_ms = xcalloc(s->n_pauses + 1, sizeof(*s->pauses_ms));
    memcpy(s->pauses_ms, pauses_ms, s->n_pauses * sizeof(*pauses_ms));
    s->n_looks = 1;
    s->call = e2b_api_list(api, s->labels, s->n_labels, on_list, s, err);
    if (s->call == NULL) {
        e2b_sweep_free(s);
        return NULL;
    }
    return s;
}

void
e2b_sweep_free(struct e2b_sweep *s)
{
    if (s == NULL) {
        return;
    }
    if (s->call != NULL) {
        /* Its end comes from the loop, when nobody is there any more. */
        e2b_api_drop(s->call);
    }
    loop_timer_remove(s->timer);
    loop_task_remove(s->task);
    free_found(s);
    for (size_t i = 0; i < s->n_labels; i++) {
        free_const(s->labels[i].name);
        free_const(s->labels[i].value);
    }
    free(s->labels);
    free(s->keep);
    free(s->pauses_ms);
    free(s);
}
