/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "net/http.h"
#include "sandbox/e2b_leftovers_internal.h"

#define LOG_MODULE "e2b"

/* How long the service has to end a sandbox that nobody wants any more. */
#define END_MS 10000
/* And for what was still being made, which no list shows before. */
#define MAKING_MS 6000
#define LOOK_AGAIN_MS 500

/* With requests of its own: what else was asked of the service is dropped. */
struct e2b_farewell {
    struct e2b *e; /* borrowed: the owner */
    void (*done)(void *ctx);
    void *ctx;

    struct http *http;   /* owned */
    struct e2b_api *api; /* owned; NULL: there is nothing to end */
    struct e2b_call *call;
    struct loop_timer *limit;
    struct loop_timer *pause;
    struct loop_task *over; /* it is: done comes from the loop */

    struct e2b_pair labels[E2B_N_LABELS];
    size_t n_labels;
    bool looks;              /* for what is known by its labels alone */
    int64_t making_until_ms; /* 0: none is being made */
    char ids[8][E2B_MAX_ID_BYTES + 1];
    size_t n_ids;
    size_t next;
    bool is_listing;
    const char *failed; /* one of ids */
    bool unknown;       /* whether there are others */
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
    e2b_api_free(f->api);
    http_free(f->http);
    free(f);
}

/* What is left is billed until its time is over, which nobody renews. id NULL:
   not known. */
static void
tell_left(const struct e2b *e, const struct e2b_api *api, const char *id)
{
    int64_t left_ms = id != NULL ? e->end_ms - clock_wall_ms() : -1;
    AUTO_FREE char *text = NULL;

    if (e->base.on_left == NULL) {
        return;
    }
    if (left_ms < 0) {
        left_ms = e->config.timeout_s * 1000;
    }
    text = xasprintf(
        "sandbox %s at %s could not be ended; it %s in %lld min at most",
        id != NULL ? id : "of this run", e2b_api_host(api),
        e->config.auto_pause ? "is paused by itself" : "ends by itself",
        (long long)(left_ms / 60000 + 1));
    e->base.on_left(e->base.on_lost_ctx, text);
}

/* One that is not ended; NULL: it is not known. */
static const char *
find_left(const struct e2b_farewell *f)
{
    if (f->failed != NULL) {
        return f->failed;
    }
    if (f->call != NULL && !f->is_listing) {
        return f->ids[f->next - 1];
    }
    return f->next < f->n_ids ? f->ids[f->next] : NULL;
}

static void
tell_what_is_left(const struct e2b_farewell *f)
{
    const char *id = find_left(f);

    if (id != NULL || f->unknown || f->call != NULL || f->pause != NULL) {
        tell_left(f->e, f->api, id);
    }
}

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

static void
on_ended(void *ctx, struct e2b_result *result)
{
    struct e2b_farewell *f = ctx;

    f->call = NULL;
    if (result->err != NULL && f->failed == NULL) {
        f->failed = f->ids[f->next - 1];
    }
    if (f->over == NULL) {
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

static void
on_found(void *ctx, struct e2b_result *result)
{
    struct e2b_farewell *f = ctx;

    f->call = NULL;
    f->is_listing = false;
    f->unknown = result->err != NULL;
    if (f->over != NULL) {
        return;
    }
    if (result->err == NULL && result->n_sandboxes == 0 &&
        clock_now_ms() < f->making_until_ms) {
        f->pause = loop_add_timer(f->e->loop, LOOK_AGAIN_MS, on_pause_over, f);
        return;
    }
    for (size_t i = 0; i < result->n_sandboxes && f->n_ids < LEN(f->ids); i++) {
        memcpy(f->ids[f->n_ids++], result->sandboxes[i].id, sizeof(f->ids[0]));
    }
    end_next(f);
}

/* What is known goes first: the time may not do for a list. */
static void
end_next(struct e2b_farewell *f)
{
    struct error err = {0};

    if (f->next < f->n_ids) {
        f->call = e2b_api_kill(f->api, f->ids[f->next], on_ended, f, &err);
        if (f->call == NULL && f->failed == NULL) {
            f->failed = f->ids[f->next];
        }
        f->next++;
    } else if (f->looks) {
        f->looks = false;
        f->call =
            e2b_api_list(f->api, f->labels, f->n_labels, on_found, f, &err);
        f->is_listing = f->call != NULL;
        f->unknown = f->call == NULL;
    }
    if (err.code != ERR_NONE) {
        LOG_WARN("%s", err.msg);
    }
    if (f->call == NULL) {
        end_farewell(f);
    }
}

/* Whether there may be a sandbox that is billed. */
static bool
is_billed(const struct e2b *e)
{
    return e->has_sandbox || e->was_asked_for || e->n_strays > 0;
}

static void
begin(struct e2b_farewell *f)
{
    struct e2b *e = f->e;
    struct e2b_api_config config;
    struct error err = {0};

    f->http = http_new(e->loop, &(struct http_config){
                                    .user_agent = e->config.user_agent,
                                    .connect_ms = E2B_CONNECT_MS,
                                });
    f->n_labels = e2b_labels(&e->config, f->labels);
    e2b_fill_api_config(e, &config, f->labels, f->n_labels);
    f->api = e2b_api_new(e->loop, f->http, &config, &err);
    if (f->api == NULL) {
        LOG_ERR("sandboxes are not ended: %s", err.msg);
        end_farewell(f);
        return;
    }
    f->limit = loop_add_timer(e->loop, END_MS, on_late, f);
    if (e->has_sandbox) {
        memcpy(f->ids[f->n_ids++], e->sandbox.id, sizeof(f->ids[0]));
    }
    f->looks = (e->was_asked_for || e->n_strays > 0) && e->config.run != NULL;
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

    e2b_drop_everything(e);
    /* What is under way there ends with it. */
    e2b_api_free(take_ptr(&e->api));
    f->e = e;
    f->done = done;
    f->ctx = ctx;
    e->farewell = f;
    if (is_billed(e)) {
        begin(f);
    } else {
        end_farewell(f);
    }
}

void
e2b_give_up(struct e2b *e)
{
    struct e2b_farewell *f = take_ptr(&e->farewell);

    if (f != NULL && f->api != NULL) {
        tell_what_is_left(f);
    }
    free_farewell(f);
}
