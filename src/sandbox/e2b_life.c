/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"

#define LOG_MODULE "e2b"

/* Three tries before its time is over. */
#define RENEWALS 3
#define MIN_RENEW_MS 5000

/* --- what is billed --- */

static void
start_billing(struct e2b *e)
{
    if (e->since_ms == 0) {
        e->since_ms = clock_now_ms();
    }
}

static void
stop_billing(struct e2b *e)
{
    if (e->since_ms > 0) {
        e->billed_ms += clock_now_ms() - e->since_ms;
    }
    e->since_ms = 0;
}

int64_t
e2b_billed_ms(const struct e2b *e)
{
    return e->billed_ms + (e->since_ms > 0 ? clock_now_ms() - e->since_ms : 0);
}

/* --- its time --- */

static void set_timer(struct e2b *e);
static void renew(struct e2b *e);

/* There are keys that live for less long than a sandbox. */
static void
on_key(struct e2b *e, const struct error *err)
{
    if (err != NULL) {
        LOG_WARN("%s", err->msg);
        set_timer(e);
        return;
    }
    renew(e);
}

static void
on_renewed(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;

    e->renewal = NULL;
    e2b_check_key(e, result);
    if (result->err == NULL) {
        e->end_ms = clock_wall_ms() + e->config.timeout_s * 1000;
    } else if (result->err->code == ERR_UNSUPPORTED) {
        /* Then its end is what was asked for when it was made. */
        LOG_WARN("%s", result->err->msg);
        e->no_renewal = true;
    } else if (result->fault == E2B_FAULT_PAUSED) {
        /* By the service. What is asked for next wakes it, and then its time
           is renewed again. */
        e->is_unsure = true;
        stop_billing(e);
        return;
    } else if (result->fault == E2B_FAULT_GONE) {
        e->is_unsure = true;
        if (e->phase == E2B_PHASE_IDLE && !e->config.auto_pause) {
            e2b_on_sandbox_gone(e);
            return;
        }
    } else {
        LOG_WARN("%s", result->err->msg);
        if (result->fault == E2B_FAULT_AUTH && e2b_ask_other_key(e, on_key)) {
            return;
        }
    }
    set_timer(e);
}

static void
renew(struct e2b *e)
{
    struct error err = {0};

    /* Without an interpreter nobody is idle in it, and it would be billed for
       as long as the program lives. */
    if (e->renewal != NULL || e->phase == E2B_PHASE_SHUT || !e->has_sandbox) {
        set_timer(e);
        return;
    }
    e->renewal = e2b_api_set_timeout(e->api, e->sandbox.id, e->config.timeout_s,
                                     on_renewed, e, &err);
    if (e->renewal == NULL) {
        LOG_WARN("%s", err.msg);
        set_timer(e);
    }
}

static void
on_renew(void *ctx)
{
    struct e2b *e = ctx;

    e->renew_timer = NULL;
    renew(e);
}

static void
set_timer(struct e2b *e)
{
    int64_t ms = e->config.timeout_s * 1000 / RENEWALS;

    loop_timer_remove(e->renew_timer);
    e->renew_timer = NULL;
    if (e->no_renewal || !e->has_sandbox || e->is_paused) {
        return;
    }
    e->renew_timer = loop_add_timer(
        e->loop, ms > MIN_RENEW_MS ? ms : MIN_RENEW_MS, on_renew, e);
}

void
e2b_life_begin(struct e2b *e)
{
    e->end_ms = clock_wall_ms() + e->config.timeout_s * 1000;
    start_billing(e);
    set_timer(e);
}

void
e2b_life_end(struct e2b *e)
{
    loop_timer_remove(e->renew_timer);
    e->renew_timer = NULL;
    if (e->renewal != NULL) {
        e2b_api_drop(e->renewal);
        e->renewal = NULL;
    }
    stop_billing(e);
}

/* --- pauses --- */

static void
on_paused(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->call = NULL;
    e2b_check_key(e, result);
    if (result->err == NULL) {
        e->is_paused = true;
        e2b_life_end(e);
        e2b_set_phase(e, E2B_PHASE_PAUSED);
        e2b_end_op_now(e, NULL);
        return;
    }
    err = *result->err;
    if (result->fault == E2B_FAULT_GONE) {
        e2b_enter(e);
        e2b_end_op_now(e, &err);
        if (!e->dead) {
            e2b_on_sandbox_gone(e);
        }
        e2b_leave(e);
        return;
    }
    e2b_end_op_now(e, &err);
}

void
e2b_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    e->done = done;
    e->op_ctx = ctx;
    if (e->phase != E2B_PHASE_IDLE || !e->has_sandbox) {
        error_fill(&err, ERR_UNSUPPORTED, "there is no sandbox to pause");
        e2b_end_op(e, &err);
        return;
    }
    e2b_set_phase(e, E2B_PHASE_BUSY);
    e->call = e2b_api_pause(e->api, e->sandbox.id, on_paused, e, &err);
    if (e->call == NULL) {
        e2b_end_op(e, &err);
    }
}

/* It has lost the interpreter, or all. */
static void
fail_resume(struct e2b *e, bool gone, const struct error *err)
{
    struct error copy = *err;

    e->base.files_lost = gone;
    if (gone) {
        e2b_abandon_sandbox(e);
    } else {
        e->runner_ready = false;
        e->is_stale = true;
    }
    e2b_set_phase(e, E2B_PHASE_SHUT);
    e2b_end_op_now(e, &copy);
}

static void
on_reconnected(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;
    struct error err = {0};

    if (end->way == E2B_RUN_DONE) {
        e2b_set_phase(e, E2B_PHASE_IDLE);
        e2b_end_op_now(e, NULL);
        return;
    }
    error_fill(&err, ERR_SANDBOX,
               "the sandbox has woken up, but its "
               "interpreter does not answer");
    fail_resume(e, false, end->err != NULL ? end->err : &err);
}

static void
on_resumed(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->call = NULL;
    e2b_check_key(e, result);
    if (result->err != NULL) {
        e->is_unsure = true;
        fail_resume(e, result->fault == E2B_FAULT_GONE, result->err);
        return;
    }
    if (e2b_take_sandbox(e, result, &err) < 0) {
        fail_resume(e, false, &err);
        return;
    }
    e->runner->ops->reconnect(e->runner, on_reconnected, e);
}

void
e2b_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    e->done = done;
    e->op_ctx = ctx;
    e->call = e2b_api_connect(e->api, e->sandbox.id, e->config.timeout_s, false,
                              on_resumed, e, &err);
    if (e->call == NULL) {
        e2b_end_op(e, &err);
    }
}

/* --- the end of the interpreter --- */

static void
on_killed(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;

    e->call = NULL;
    e2b_check_key(e, result);
    if (result->err != NULL) {
        /* It is still billed: the end of the program ends it, if it is not used
           before that. */
        LOG_WARN("not ended: %s", result->err->msg);
        e->is_unsure = true;
        loop_timer_remove(e->renew_timer);
        e->renew_timer = NULL;
    } else {
        e2b_forget_sandbox(e);
        e->base.files_lost = true;
    }
    e2b_set_phase(e, E2B_PHASE_SHUT);
    e2b_end_op_now(e, NULL);
}

void
e2b_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    e->done = done;
    e->op_ctx = ctx;
    e->runner_ready = false;
    e->is_stale = true;
    /* A new interpreter is wanted soon: what was put is there already. */
    if (!e->base.for_good || !e->has_sandbox) {
        e2b_set_phase(e, E2B_PHASE_SHUT);
        e2b_end_op(e, NULL);
        return;
    }
    e->call = e2b_api_kill(e->api, e->sandbox.id, on_killed, e, &err);
    if (e->call == NULL) {
        LOG_WARN("not ended: %s", err.msg);
        e2b_set_phase(e, E2B_PHASE_SHUT);
        e2b_end_op(e, NULL);
    }
}
