/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_scope_internal.h"
#include "sandbox/local_watchdog_internal.h"

#define LOG_MODULE "sandbox"

/* An import that was stopped in the middle goes on first. */
#define RESUME_MS 30000
#define MAX_PING_BYTES 64u
/* One that waits in a call of the system, and for that long, counts as stopped:
   a signal that it has got stops it before it runs again. */
#define SETTLE_MS 5
#define QUIET_SETTLES 400
/* And one that computes after all of these is not to be stopped. */
#define MAX_SETTLES 2000

static void
end_suspend(struct local *l)
{
    l->settling = false;
    local_end_op(l, NULL);
}

static bool
has_stopped(const struct local *l)
{
    return l->is_frozen ? local_scope_is_frozen(l->scope)
                        : local_watchdog_suspend(l->child.child_pid);
}

/* Whether a process of it has gone on. What sleeps would have been woken by its
   signal. */
static bool
is_computing(const struct local *l)
{
    bool busy = false;

    return local_watchdog_can_suspend(l->child.child_pid, 0, &busy) && busy;
}

static void
settle(void *ctx)
{
    struct local *l = ctx;

    l->settle_timer = NULL;
    if (has_stopped(l)) {
        end_suspend(l);
        return;
    }
    l->n_settles++;
    l->n_quiet_settles = is_computing(l) ? 0 : l->n_quiet_settles + 1;
    if (l->n_quiet_settles >= QUIET_SETTLES) {
        end_suspend(l);
        return;
    }
    if (l->n_settles >= MAX_SETTLES) {
        LOG_WARN("a process of the sandbox does not stop");
        /* Its end is handled as any other, and ends the operation. */
        l->fault = "something in it could not be stopped";
        local_bwrap_kill(&l->child);
        return;
    }
    l->settle_timer = loop_add_timer(l->loop, SETTLE_MS, settle, l);
}

void
local_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct local *l = (struct local *)b;
    struct error err = {0};
    bool was_busy = false;

    local_begin_op(l, done, ctx);
    if (l->state != LOCAL_IDLE) {
        error_fill(&err, ERR_SANDBOX, "no interpreter waits");
        local_end_op(l, &err);
        return;
    }
    if (!local_watchdog_can_suspend(l->child.child_pid, l->child.kernel_pid,
                                    &was_busy)) {
        error_fill(&err, ERR_UNSUPPORTED,
                   "/proc does not show the processes of the sandbox");
        local_end_op(l, &err);
        return;
    }
    /* Before the first cell it is an import of ours. */
    l->was_busy |= was_busy && !l->fresh;
    if (l->was_busy)
        LOG_INFO("suspended; something in it was computing");
    local_set_state(l, LOCAL_SUSPENDED);
    /* Where there is no group, or it cannot: one process after the other. */
    l->is_frozen = local_scope_freeze(l->scope, true);
    l->settling = true;
    l->n_settles = 0;
    l->n_quiet_settles = 0;
    settle(l);
}

static void
handle_no_answer(void *ctx)
{
    struct local *l = ctx;

    l->resume_timer = NULL;
    LOG_WARN("no answer from the interpreter after it was resumed");
    /* Its end is handled as any other. */
    l->fault = "it did not answer when it was resumed";
    local_bwrap_kill(&l->child);
}

void
local_thaw(struct local *l)
{
    if (!l->is_frozen)
        return;
    l->is_frozen = false;
    if (!local_scope_freeze(l->scope, false))
        LOG_WARN("the control group cannot be thawed");
}

void
local_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct local *l = (struct local *)b;
    AUTO_SBUF struct sbuf ping = {0};
    struct error err = {0};

    local_begin_op(l, done, ctx);
    if (l->state != LOCAL_SUSPENDED) {
        error_fill(&err, ERR_SANDBOX, "no interpreter is suspended");
        local_end_op(l, &err);
        return;
    }
    local_set_state(l, LOCAL_RESUMING);
    if (l->is_frozen)
        local_thaw(l);
    else
        local_watchdog_resume(l->child.child_pid);
    /* One that waits to print may hold what the kernel needs for an answer. */
    local_link_release(l->link);
    /* The next operation should not find out that nobody answers any more. */
    l->ping_id = ++l->next_id;
    sbuf_init(&ping, MAX_PING_BYTES);
    sbuf_addf(&ping, "{\"op\":\"ping\",\"id\":%lld}\n", (long long)l->ping_id);
    local_link_send(l->link, ping.data, ping.len);
    l->resume_timer = loop_add_timer(l->loop, RESUME_MS, handle_no_answer, l);
}

void
local_pong(struct local *l)
{
    loop_timer_remove(l->resume_timer);
    l->resume_timer = NULL;
    local_set_state(l, LOCAL_IDLE);
    local_end_op(l, NULL);
}

void
local_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct local *l = (struct local *)b;

    local_begin_op(l, done, ctx);
    if (l->state != LOCAL_IDLE && l->state != LOCAL_SUSPENDED) {
        local_end_op(l, NULL);
        return;
    }
    /* Stopped processes end by SIGKILL like others. */
    local_set_state(l, LOCAL_ENDING);
    l->stopping = true;
    local_bwrap_kill(&l->child);
}
