/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/e2b_leftovers_internal.h"
#include "sandbox/key_source.h"

#define LOG_MODULE "e2b"

/* How long the service has to end a sandbox that nobody wants any more, and how
   long what was still being made is looked for, which no list shows before. The
   end of the program waits for it, and a create takes 75 s at most. */
#define END_MS 10000
#define MAKING_MS 6000
#define PATIENT_MS 90000
#define PATIENT_MAKING_MS 80000

/* Between two rounds, twice as long each time. */
#define FIRST_PAUSE_MS 500
#define MAX_PAUSE_MS 15000

#define MAX_IDS 8

/* One that is to be ended. */
struct going {
    char id[E2B_MAX_ID_BYTES + 1];
    bool has_ended;
    bool is_refused; /* asking again is of no use */
    char *why;       /* owned; NULL: it was not tried yet, or has ended */
};

/* With requests of its own: what else was asked of the service is dropped. */
struct e2b_farewell {
    struct e2b *e; /* borrowed: the owner */
    void (*done)(void *ctx);
    void *ctx;

    struct e2b_api *api; /* owned; NULL: there is nothing to end */
    struct e2b_call *call;
    struct key_ask *key_asked; /* borrowed: from the source of e */
    bool key_was_asked;
    struct loop_timer *limit; /* then it is given up */
    struct loop_timer *pause; /* then another round begins */
    int64_t pause_ms;
    bool is_patient;        /* nobody waits */
    struct loop_task *over; /* done comes from the loop */

    struct e2b_pair labels[E2B_N_LABELS];
    size_t n_labels;
    bool looks;              /* for what is known by its labels alone */
    bool is_listing;         /* call does that */
    int64_t making_until_ms; /* monotonic; 0: none is being made */
    struct going ids[MAX_IDS];
    size_t n_ids;
    size_t next;      /* of ids: whose turn it is */
    bool unknown;     /* whether there are others */
    bool may_be_made; /* it was not there in time */
};

static void end_next(struct e2b_farewell *f);

static void
free_farewell(struct e2b_farewell *f)
{
    if (f == NULL) {
        return;
    }
    loop_timer_remove(f->limit);
    loop_timer_remove(f->pause);
    loop_task_remove(f->over);
    key_ask_drop(f->key_asked);
    e2b_api_free(f->api);
    for (size_t i = 0; i < f->n_ids; i++) {
        free(f->ids[i].why);
    }
    free(f);
}

/* --- what is left --- */

/* It is billed until its time is over, which nobody renews. */
static void
tell(const struct e2b_farewell *f, const char *what, int64_t left_ms)
{
    const struct e2b *e = f->e;
    AUTO_FREE char *text = xasprintf(
        "%s; it %s in %lld min at most", what,
        e->config.auto_pause ? "is paused by itself" : "ends by itself",
        (long long)((left_ms > 0 ? left_ms : e->config.timeout_s * 1000) /
                        60000 +
                    1));

    e->base.on_left(e->base.on_lost_ctx, text);
}

static void
tell_left(const struct e2b_farewell *f, const struct going *g)
{
    const struct e2b *e = f->e;
    bool is_own = e->has_sandbox && str_eq(g->id, e->sandbox.id);
    AUTO_FREE char *what =
        g->why != NULL
            ? xasprintf("sandbox %s could not be ended: %s", g->id, g->why)
            : xasprintf("sandbox %s at %s could not be ended", g->id,
                        e2b_api_host(f->api));
    AUTO_FREE char *text = NULL;

    if (is_own && e->is_paused) {
        text = xasprintf("%s; it is paused, and stays", what);
        e->base.on_left(e->base.on_lost_ctx, text);
    } else {
        tell(f, what, is_own ? e->end_ms - clock_wall_ms() : 0);
    }
}

static void
tell_what_is_left(const struct e2b_farewell *f)
{
    AUTO_FREE char *what = NULL;

    if (f->api == NULL || f->e->base.on_left == NULL) {
        return;
    }
    for (size_t i = 0; i < f->n_ids; i++) {
        if (!f->ids[i].has_ended) {
            tell_left(f, &f->ids[i]);
        }
    }
    if (f->unknown || f->is_listing) {
        what = xasprintf("a sandbox of this run at %s could not be ended, if "
                         "there is one",
                         e2b_api_host(f->api));
        tell(f, what, 0);
    } else if (f->may_be_made || f->making_until_ms > 0) {
        what = xasprintf("a sandbox may still be made at %s",
                         e2b_api_host(f->api));
        tell(f, what, 0);
    }
}

/* --- the end of it --- */

static void
on_over(void *ctx)
{
    struct e2b_farewell *f = ctx;
    struct e2b *e = f->e;
    void (*done)(void *ctx) = f->done;
    void *done_ctx = f->ctx;

    f->over = NULL;
    e2b_enter(e);
    tell_what_is_left(f);
    free_farewell(take_ptr(&e->farewell));
    done(done_ctx);
    e2b_leave(e);
}

/* Nothing more is waited for. */
static void
end_farewell(struct e2b_farewell *f)
{
    if (f->over != NULL) {
        return;
    }
    loop_timer_remove(f->limit);
    loop_timer_remove(f->pause);
    f->limit = f->pause = NULL;
    f->over = loop_defer(f->e->loop, on_over, f);
}

static void
on_late(void *ctx)
{
    struct e2b_farewell *f = ctx;

    f->limit = NULL;
    end_farewell(f);
}

/* --- the key --- */

static int
make_api(struct e2b_farewell *f, struct error *err)
{
    struct e2b *e = f->e;
    struct e2b_api_config config;

    f->n_labels = e2b_labels(&e->config, e->id, f->labels);
    e2b_fill_api_config(e, &config, f->labels, f->n_labels);
    f->api = e2b_api_new(e->loop, e->http, &config, err);
    return f->api != NULL ? 0 : -1;
}

/* The one that there was is good for a message at least. */
static void
on_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct e2b_farewell *f = ctx;
    struct e2b_api *old = f->api;
    struct error mine = {0};

    f->key_asked = NULL;
    if (err != NULL) {
        mine = *err;
    } else {
        f->e->own_key = key;
        if (make_api(f, &mine) < 0) {
            f->api = old;
        } else {
            e2b_api_free(old);
        }
    }
    if (mine.code != ERR_NONE) {
        LOG_WARN("%s", mine.msg);
        end_farewell(f);
        return;
    }
    end_next(f);
}

/* Once; what was refused is its turn again then. */
static bool
ask_other_key(struct e2b_farewell *f, const struct e2b_result *result)
{
    if (result->fault != E2B_FAULT_AUTH || f->key_was_asked ||
        f->over != NULL || f->e->config.key_source == NULL) {
        return false;
    }
    f->key_was_asked = true;
    f->key_asked =
        key_source_ask(f->e->config.key_source, f->e->own_key, on_key, f);
    return true;
}

/* --- step by step --- */

static void
on_ended(void *ctx, struct e2b_result *result)
{
    struct e2b_farewell *f = ctx;
    struct going *g = &f->ids[f->next - 1];

    f->call = NULL;
    g->has_ended = result->err == NULL;
    free(take_ptr(&g->why));
    if (result->err != NULL) {
        g->why = xstrdup(result->err->msg);
        g->is_refused =
            result->err->code != ERR_NET && result->err->code != ERR_OVERLOADED;
    }
    if (ask_other_key(f, result)) {
        g->is_refused = false;
        f->next--;
    } else if (f->over == NULL) {
        end_next(f);
    }
}

static void
on_pause_over(void *ctx)
{
    struct e2b_farewell *f = ctx;

    f->pause = NULL;
    f->next = 0;
    f->looks = f->making_until_ms > 0;
    end_next(f);
}

/* id: of an answer that was checked, and so it fits. False: it was known, or
   there are too many. */
static bool
add_id(struct e2b_farewell *f, const char *id)
{
    for (size_t i = 0; i < f->n_ids; i++) {
        if (str_eq(f->ids[i].id, id)) {
            return false;
        }
    }
    if (f->n_ids == MAX_IDS) {
        f->unknown = true;
        return false;
    }
    memcpy(f->ids[f->n_ids++].id, id, strlen(id) + 1);
    return true;
}

static void
on_found(void *ctx, struct e2b_result *result)
{
    struct e2b_farewell *f = ctx;
    bool is_new = false;

    f->call = NULL;
    f->is_listing = false;
    f->unknown = result->err != NULL;
    if (ask_other_key(f, result)) {
        f->looks = true;
        return;
    }
    for (size_t i = 0; i < result->n_sandboxes; i++) {
        is_new |= add_id(f, result->sandboxes[i].id);
    }
    /* What was being made, unless it is one that was to be ended before. And
       what is not told now is not told later. */
    if ((is_new && f->e->n_strays == 0) || f->unknown) {
        f->making_until_ms = 0;
    }
    if (f->over == NULL) {
        end_next(f);
    }
}

/* Whether there is one that may be ended yet by asking again. */
static bool
has_more(const struct e2b_farewell *f)
{
    for (size_t i = 0; i < f->n_ids; i++) {
        if (!f->ids[i].has_ended && !f->ids[i].is_refused) {
            return true;
        }
    }
    return false;
}

/* This round is over. */
static void
end_round(struct e2b_farewell *f)
{
    if (f->making_until_ms > 0 && clock_now_ms() >= f->making_until_ms) {
        f->making_until_ms = 0;
        f->may_be_made = !f->is_patient;
    }
    if (f->making_until_ms == 0 && !(f->is_patient && has_more(f))) {
        end_farewell(f);
        return;
    }
    f->pause = loop_add_timer(f->e->loop, f->pause_ms, on_pause_over, f);
    if (f->is_patient && f->pause_ms < MAX_PAUSE_MS) {
        f->pause_ms *= 2;
    }
}

/* What is known goes first: the time may not do for a list. */
static void
end_next(struct e2b_farewell *f)
{
    struct error err = {0};

    while (f->next < f->n_ids &&
           (f->ids[f->next].has_ended || f->ids[f->next].is_refused)) {
        f->next++;
    }
    if (f->next < f->n_ids) {
        const char *id = f->ids[f->next++].id;

        f->call = e2b_api_kill(f->api, id, on_ended, f, &err);
    } else if (f->looks) {
        f->looks = false;
        f->call =
            e2b_api_list(f->api, f->labels, f->n_labels, on_found, f, &err);
        f->is_listing = f->call != NULL;
        f->unknown = f->call == NULL;
    } else {
        end_round(f);
        return;
    }
    if (f->call == NULL) {
        LOG_WARN("%s", err.msg);
        end_farewell(f);
    }
}

static void
begin(struct e2b_farewell *f)
{
    struct e2b *e = f->e;
    struct error err = {0};

    if (make_api(f, &err) < 0) {
        LOG_ERR("sandboxes are not ended: %s", err.msg);
        end_farewell(f);
        return;
    }
    f->is_patient = !e->base.at_end;
    f->pause_ms = FIRST_PAUSE_MS;
    f->limit = loop_add_timer(e->loop, f->is_patient ? PATIENT_MS : END_MS,
                              on_late, f);
    if (e->has_sandbox) {
        add_id(f, e->sandbox.id);
    }
    f->looks = e->was_asked_for || e->n_strays > 0;
    if (e->was_asked_for) {
        f->making_until_ms =
            clock_now_ms() + (f->is_patient ? PATIENT_MAKING_MS : MAKING_MS);
    }
    end_next(f);
}

void
e2b_retire(struct sandbox_backend *b, void (*done)(void *ctx), void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct e2b_farewell *f = xcalloc(1, sizeof(*f));

    assert(e->farewell == NULL);
    e2b_drop_everything(e);
    /* What is under way there ends with it. */
    e2b_api_free(take_ptr(&e->api));
    f->e = e;
    f->done = done;
    f->ctx = ctx;
    e->farewell = f;
    if (e->has_sandbox || e->was_asked_for || e->n_strays > 0) {
        begin(f);
    } else {
        end_farewell(f);
    }
}

void
e2b_give_up(struct e2b *e)
{
    struct e2b_farewell *f = take_ptr(&e->farewell);

    if (f != NULL) {
        tell_what_is_left(f);
    }
    free_farewell(f);
}
