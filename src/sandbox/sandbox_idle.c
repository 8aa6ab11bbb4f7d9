/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"

#define LOG_MODULE "sandbox"

#define MAX_LOSS_BYTES 512u

static void handle_idle_timer(void *ctx);

/* Nothing runs in it any more; the next operation opens it again. */
static void
note_stopped(struct sandbox *sb)
{
    sb->idle_runs = false;
    sb->state = SANDBOX_NEW;
    sb->wanted = sb->first != NULL;
    sb->restore_needed |= sb->used || sb->n_loaded > 0;
    sb->lost_cell = sb->last_cell;
    sandbox_schedule(sb);
}

void
sandbox_set_loss(struct sandbox *sb, char *text)
{
    free(sb->idle_loss);
    sb->idle_loss = text;
    sb->loss_is_late = sb->loss_is_asked = false;
}

/* --- when nothing is to be done --- */

static bool
may_suspend(const struct sandbox *sb)
{
    return sb->state == SANDBOX_IDLE && sb->limits.idle_suspend_ms > 0 &&
           sandbox_caps(sb)->survives_suspend && !sb->no_suspend;
}

/* For how long it is to be idle before the next of the two; 0: neither comes.
 */
static int64_t
next_idle_ms(const struct sandbox *sb)
{
    int64_t suspend_ms = may_suspend(sb) ? sb->limits.idle_suspend_ms : 0;
    int64_t close_ms = sb->limits.idle_close_ms;

    if (close_ms > 0 && (suspend_ms == 0 || close_ms < suspend_ms))
        return close_ms;
    return suspend_ms;
}

/* One timer and no looking meanwhile: an idle program does not wake up. */
static void
set_timer(struct sandbox *sb)
{
    int64_t idle_ms = next_idle_ms(sb);
    int64_t delay_ms = idle_ms - (clock_now_ms() - sb->idle_since_ms);

    loop_timer_remove(sb->idle_timer);
    sb->idle_timer = NULL;
    if (idle_ms == 0)
        return;
    sb->idle_timer = loop_add_timer(sb->loop, delay_ms > 0 ? delay_ms : 0,
                                    handle_idle_timer, sb);
}

void
sandbox_idle_update(struct sandbox *sb)
{
    bool idle = sb->first == NULL &&
                (sb->state == SANDBOX_IDLE || sb->state == SANDBOX_SUSPENDED);

    if (sb->idle_runs)
        return;
    if (!idle) {
        loop_timer_remove(sb->idle_timer);
        sb->idle_timer = NULL;
        sb->idle_since_ms = 0;
        return;
    }
    if (sb->idle_since_ms == 0)
        sb->idle_since_ms = clock_now_ms();
    if (sb->idle_timer == NULL)
        set_timer(sb);
}

static void
handle_suspended(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;

    sb->idle_runs = false;
    sandbox_schedule(sb);
    /* It may have been lost meanwhile. */
    if (sb->state != SANDBOX_BUSY)
        return;
    sb->state = end == SANDBOX_DONE ? SANDBOX_SUSPENDED : SANDBOX_IDLE;
    if (end != SANDBOX_DONE) {
        LOG_WARN("not suspended: %s", err->msg);
        sb->no_suspend = true;
    }
}

void
sandbox_idle_suspend(void *ctx)
{
    struct sandbox *sb = ctx;

    if (sb->state != SANDBOX_IDLE || sb->first != NULL || sb->idle_runs)
        return;
    loop_timer_remove(sb->idle_timer);
    sb->idle_timer = NULL;
    sb->idle_runs = true;
    sb->state = SANDBOX_BUSY;
    sb->backend->ops->suspend(sb->backend, handle_suspended, sb);
}

static void
handle_closed(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;
    AUTO_SBUF struct sbuf why = {0};

    (void)end;
    (void)err;
    sandbox_note_files(sb, NULL);
    if (!sb->used) {
        note_stopped(sb);
        return;
    }
    sbuf_init(&why, MAX_LOSS_BYTES);
    sbuf_add_str(&why, "the interpreter was closed: it had been idle for ");
    str_add_duration(&why, sb->limits.idle_close_ms);
    sandbox_set_loss(sb, xasprintf(SANDBOX_BEFORE "%s. %s", why.data,
                                   sandbox_lost_text(sb)));
    note_stopped(sb);
    sbuf_addf(&why, "; %s", sandbox_gone_text(sb));
    sandbox_enter(sb);
    if (sb->on_late != NULL && sb->last_cell > 0)
        sb->on_late(sb->on_late_ctx, 0, why.data);
    sandbox_exit(sb);
}

static void
handle_idle_timer(void *ctx)
{
    struct sandbox *sb = ctx;
    const struct sandbox_ops *ops = sb->backend->ops;
    int64_t idle_ms = clock_now_ms() - sb->idle_since_ms;

    sb->idle_timer = NULL;
    if (sb->first != NULL)
        return;
    sb->idle_runs = true;
    if (sb->limits.idle_close_ms > 0 && idle_ms >= sb->limits.idle_close_ms) {
        sb->state = SANDBOX_BUSY;
        sb->backend->for_good = true;
        ops->stop(sb->backend, handle_closed, sb);
        sb->backend->for_good = false;
    } else if (may_suspend(sb) && idle_ms >= sb->limits.idle_suspend_ms) {
        sb->state = SANDBOX_BUSY;
        ops->suspend(sb->backend, handle_suspended, sb);
    } else {
        sb->idle_runs = false;
        set_timer(sb);
    }
}

static void
handle_resumed(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;

    sb->idle_runs = false;
    sandbox_schedule(sb);
    if (sb->state != SANDBOX_BUSY)
        return;
    sb->state = SANDBOX_IDLE;
    if (end != SANDBOX_DONE)
        sandbox_lose(sb, err);
}

void
sandbox_idle_resume(struct sandbox *sb)
{
    loop_timer_remove(sb->idle_timer);
    sb->idle_timer = NULL;
    sb->idle_since_ms = 0;
    sb->state = SANDBOX_BUSY;
    sb->idle_runs = true;
    sb->backend->ops->resume(sb->backend, handle_resumed, sb);
}

/* --- a restart --- */

static void
handle_stopped(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;

    (void)end;
    (void)err;
    sandbox_note_files(sb, NULL);
    sandbox_set_loss(sb, xasprintf("The user has restarted the interpreter. %s",
                                   sandbox_lost_text(sb)));
    note_stopped(sb);
    sb->wanted = true;
}

void
sandbox_restart_begin(struct sandbox *sb, struct sandbox_op *op)
{
    sandbox_remove_op(sb, op);
    sb->restart_op = op;
    /* One in which nothing has run is as good as a new one. */
    if (sb->used) {
        sb->idle_runs = true;
        sb->backend->ops->stop(sb->backend, handle_stopped, sb);
    } else if (sb->restore_needed) {
        sandbox_restore_begin(sb, NULL, NULL);
    } else {
        sb->state = SANDBOX_IDLE;
        sandbox_schedule(sb);
        sandbox_restart_end(sb, NULL);
    }
}

bool
sandbox_restart_end(struct sandbox *sb, const struct error *err)
{
    struct sandbox_op *op = take_ptr(&sb->restart_op);
    enum sandbox_end end = SANDBOX_DONE;

    if (op == NULL)
        return true;
    if (err != NULL)
        end = err->code == ERR_DATA || op->kind == SANDBOX_OP_SWITCH
                  ? SANDBOX_RESTARTED
                  : SANDBOX_ERROR;
    if (sb->idle_loss != NULL)
        sb->loss_is_late = sb->loss_is_asked = true;
    return sandbox_end_op(op, end, NULL, err);
}

/* --- what is known of it --- */

void
sandbox_info(const struct sandbox *sb, struct sandbox_info *info)
{
    memset(info, 0, sizeof(*info));
    sb->backend->ops->info(sb->backend, info);
    info->idle_suspend_ms = sb->limits.idle_suspend_ms;
    info->idle_close_ms = sb->limits.idle_close_ms;
    info->cell_ms = sb->limits.cell_ms;
    info->is_suspended = sb->state == SANDBOX_SUSPENDED;
    info->has_run = sb->used;
    info->n_cells = info->uptime_ms > 0 ? sb->n_cells : 0;
}
