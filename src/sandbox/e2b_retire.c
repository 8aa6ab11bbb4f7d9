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

/* How long the service has to end a sandbox that nobody wants any more. */
#define END_MS 10000
/* And for what was still being made, which no list shows before. */
#define MAKING_MS 6000
#define LOOK_AGAIN_MS 500

#define MAX_IDS 8

/* One that is to be ended. */
struct going {
    char id[E2B_MAX_ID_BYTES + 1];
    bool has_ended;
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
    struct loop_timer *pause; /* then it is looked again */
    struct loop_task *over;   /* done comes from the loop */

    struct e2b_pair labels[E2B_N_LABELS];
    size_t n_labels;
    bool looks;              /* for what is known by its labels alone */
    bool is_listing;         /* call does that */
    int64_t making_until_ms; /* monotonic; 0: none is being made */
    struct going ids[MAX_IDS];
    size_t n_ids;
    size_t next;  /* of ids: whose turn it is */
    bool unknown; /* whether there are others */
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
    free(f);
}

/* --- what is left --- */

/* It is billed until its time is over, which nobody renews. id NULL: it is not
   known. */
static void
tell_left(const struct e2b_farewell *f, const char *id)
{
    const struct e2b *e = f->e;
    bool is_known = id != NULL && e->has_sandbox && str_eq(id, e->sandbox.id);
    int64_t left_ms = is_known ? e->end_ms - clock_wall_ms() : -1;
    AUTO_FREE char *what = NULL;
    AUTO_FREE char *text = NULL;

    if (left_ms < 0) {
        left_ms = e->config.timeout_s * 1000;
    }
    if (is_known && e->is_paused) {
        what = xstrdup("is paused, and stays");
    } else {
        what = xasprintf("%s in %lld min at most",
                         e->config.auto_pause ? "is paused by itself"
                                              : "ends by itself",
                         (long long)(left_ms / 60000 + 1));
    }
    text =
        xasprintf("sandbox %s at %s could not be ended; it %s",
                  id != NULL ? id : "of this run", e2b_api_host(f->api), what);
    e->base.on_left(e->base.on_lost_ctx, text);
}

static void
tell_what_is_left(const struct e2b_farewell *f)
{
    if (f->api == NULL || f->e->base.on_left == NULL) {
        return;
    }
    for (size_t i = 0; i < f->n_ids; i++) {
        if (!f->ids[i].has_ended) {
            tell_left(f, f->ids[i].id);
        }
    }
    if (f->unknown || f->is_listing || f->pause != NULL) {
        tell_left(f, NULL);
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
    loop_timer_remove(f->limit);
    loop_timer_remove(f->pause);
    f->unknown |= f->pause != NULL;
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

    f->call = NULL;
    f->ids[f->next - 1].has_ended = result->err == NULL;
    if (ask_other_key(f, result)) {
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
    f->looks = true;
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
    /* What was being made, unless it is one that was to be ended before. */
    if (is_new && f->e->n_strays == 0) {
        f->making_until_ms = 0;
    }
    if (f->over == NULL) {
        end_next(f);
    }
}

/* What is known goes first: the time may not do for a list. */
static void
end_next(struct e2b_farewell *f)
{
    struct error err = {0};

    if (f->next < f->n_ids) {
        const char *id = f->ids[f->next++].id;

        f->call = e2b_api_kill(f->api, id, on_ended, f, &err);
    } else if (f->looks) {
        f->looks = false;
        f->call =
            e2b_api_list(f->api, f->labels, f->n_labels, on_found, f, &err);
        f->is_listing = f->call != NULL;
        f->unknown = f->call == NULL;
    } else if (clock_now_ms() < f->making_until_ms) {
        f->pause = loop_add_timer(f->e->loop, LOOK_AGAIN_MS, on_pause_over, f);
        return;
    }
    if (err.code != ERR_NONE) {
        LOG_WARN("%s", err.msg);
    }
    if (f->call == NULL) {
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
    f->limit = loop_add_timer(e->loop, END_MS, on_late, f);
    if (e->has_sandbox) {
        add_id(f, e->sandbox.id);
    }
    f->looks = e->was_asked_for || e->n_strays > 0;
    if (e->was_asked_for) {
        f->making_until_ms = clock_now_ms() + MAKING_MS;
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
