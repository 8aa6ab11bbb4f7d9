/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"

#define LOG_MODULE "sandbox"

/*
 * While the new back end opens, the operation stands first in the queue and
 * runs, so that nothing else begins; the state is that of the old one, which
 * may still end its opening, or be lost.
 */

bool
sandbox_can_switch(const struct sandbox *sb, const struct sandbox_op *op)
{
    if (op->kind != SANDBOX_OP_SWITCH || op->cancelled)
        return false;
    /* A restart that is under way ends first, and so does what is running. */
    return sb->restart_op == NULL && sb->state != SANDBOX_BUSY;
}

/* Nothing of what is known of the old one holds for the new one. */
static void
forget_old(struct sandbox *sb)
{
    loop_timer_remove(sb->idle_timer);
    sb->idle_timer = NULL;
    sb->idle_since_ms = 0;
    sb->no_suspend = false;
    sb->why = (struct error){0};
    sb->has_opened = true;
    sb->wanted = true;
    sb->used = false;
    sb->n_cells = 0;
    sb->lost_cell = sb->last_cell;
    sandbox_miss_files(sb);
}

/* The new one is open. The operation ends when the files are there. */
static void
take_place(struct sandbox *sb, struct sandbox_op *op)
{
    struct sandbox_backend *old = sb->backend;

    LOG_INFO("another sandbox: %s", op->next_backend->caps.name);
    sandbox_remove_op(sb, op);
    sandbox_adopt(sb, take_ptr(&op->next_backend));
    sandbox_retire_backend(sb, old);
    forget_old(sb);
    sandbox_set_loss(
        sb, xasprintf("The user has switched to another sandbox, \"%s\". %s",
                      sb->backend->caps.name, sandbox_lost_text(sb)));
    sb->restart_op = op;
    sandbox_restore_begin(sb, NULL, NULL);
    if (sb->on_open != NULL)
        sb->on_open(sb->on_open_ctx, SANDBOX_DONE, NULL);
}

static void
handle_opened(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;

    sandbox_enter(sb);
    if (end != SANDBOX_DONE && err->code == ERR_LIMIT && sb->retired != NULL &&
        !op->was_tried && !op->cancelled) {
        /* One too many: the one that is ending is the last of them. */
        op->was_tried = true;
        op->waits_for_retired = true;
    } else if (end != SANDBOX_DONE) {
        op->why = *err;
        sandbox_schedule(sb);
    } else if (!op->cancelled) {
        take_place(sb, op);
    }
    sandbox_exit(sb);
}

void
sandbox_switch_begin(struct sandbox_op *op)
{
    op->running = true;
    op->waits_for_retired = false;
    op->next_backend->on_lost_ctx = op->sb;
    op->next_backend->ops->open(op->next_backend, sandbox_tell_progress,
                                handle_opened, op);
}

void
sandbox_switch_go_on(struct sandbox *sb)
{
    if (sb->first != NULL && sb->first->waits_for_retired)
        sandbox_switch_begin(sb->first);
}
