/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define STOPPING                                                               \
    "Stopping, but not ended yet; if variables are lost with it, that will "   \
    "be said."

/* --- after its caller was answered --- */

/* What was lost with it, or NULL; owned by the caller. */
static char *
tell_loss(const struct sandbox_op *op, const struct sandbox_outcome *outcome,
          const struct error *err)
{
    const char *reason = outcome != NULL ? outcome->reason : NULL;
    const char *gap = reason != NULL && err != NULL ? " " : "";
    AUTO_FREE char *cell = op->cell.number > 0 && !op->loss_is_told
                               ? xasprintf("cell %d: ", op->cell.number)
                               : xstrdup("");

    return xasprintf("%s%s%s%s", cell, reason != NULL ? reason : "", gap,
                     err != NULL ? err->msg : "");
}

static void
keep_loss(struct sandbox *sb, char *loss)
{
    free(sb->idle_loss);
    sb->idle_loss = loss;
    sb->loss_is_late = true;
    sb->loss_is_asked = false;
}

void
sandbox_keep_own_loss(struct sandbox_op *op,
                      const struct sandbox_outcome *outcome,
                      const struct error *err)
{
    bool is_own =
        op->cell.silent || op->is_replayed || op->kind == SANDBOX_OP_SCRIPT;

    if (is_own && !op->is_late && outcome != NULL && outcome->variables_lost)
        keep_loss(op->sb, tell_loss(op, outcome, err));
}

static void
on_late_end(void *ctx, enum sandbox_end end,
            const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;
    bool lost = end == SANDBOX_RESTARTED || end == SANDBOX_LOST;
    AUTO_FREE char *text = NULL;

    /* No file was to come back. */
    if (op->loss_is_told && str_blank(outcome->reason))
        return;
    if (lost) {
        text = tell_loss(op, outcome, err);
        keep_loss(sb, xstrdup(text));
    }
    if (sb->on_late != NULL)
        sb->on_late(sb->on_late_ctx, op->cell.number, text);
}

/* --- answering it --- */

/* The interpreter may be lost already, and the files be on their way back. */
static void
handle_impatience(void *ctx)
{
    static const struct sandbox_cell_handlers late = {.on_done = on_late_end};
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;
    struct sandbox_cell_handlers on = op->on;
    void *caller = op->ctx;
    bool lost = op == sb->restored_op;
    struct sandbox_outcome outcome = {
        .outcome = EVENT_INTERRUPTED,
        .exit_status = -1,
        .duration_ms = clock_now_ms() - op->started_ms,
        .reason = STOPPING,
    };

    if (lost)
        outcome = sb->kept.outcome;
    outcome.still_stopping = true;
    op->patience = NULL;
    op->is_late = true;
    op->loss_is_told = lost;
    op->on = late;
    op->ctx = op;
    sandbox_enter(sb);
    on.on_done(caller, lost ? SANDBOX_RESTARTED : SANDBOX_DONE, &outcome, NULL);
    /* What is said later is what came back, and not the loss once more. */
    if (lost && !sb->dead)
        free(take_ptr(&sb->kept.strings[4]));
    sandbox_exit(sb);
}

/* --- for the callers --- */

void
sandbox_leave(struct sandbox_op *op)
{
    /* Files that are on their way back are not this cell's any more. */
    if (op != op->sb->restored_op)
        sandbox_cancel(op);
    if (op->running && op->patience == NULL &&
        (op->kind == SANDBOX_OP_CELL || op->kind == SANDBOX_OP_SCRIPT))
        op->patience = loop_add_timer(op->sb->loop, SANDBOX_LEAVE_MS,
                                      handle_impatience, op);
}

void
sandbox_on_late_end(struct sandbox *sb,
                    void (*fn)(void *ctx, int cell, const char *loss),
                    void *ctx)
{
    sb->on_late = fn;
    sb->on_late_ctx = ctx;
}

char *
sandbox_take_late_loss(struct sandbox *sb)
{
    if (!sb->loss_is_late)
        return NULL;
    sb->loss_is_late = sb->loss_is_asked = false;
    return take_ptr(&sb->idle_loss);
}
