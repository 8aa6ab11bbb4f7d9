/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

/* Its cells go through the queue one after the other, so that limits,
   interrupts and losses are those of any cell. */
struct sandbox_replay {
    struct sandbox *sb; /* borrowed: the owner */
    struct sandbox_replay_handlers on;
    void *ctx;
    struct sandbox_logged *cells; /* owned, copies: the log may change */
    size_t n_cells;
    int *numbers; /* owned; of those that have run again */
    size_t at;
    struct sandbox_op *op; /* borrowed: the cell that runs */
    bool cancelled;
};

/* --- the log --- */

static void
fini_logged(struct sandbox_logged *cell)
{
    free(cell->language);
    free(cell->code);
}

static void
free_cells(struct sandbox_logged *cells, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fini_logged(&cells[i]);
    free(cells);
}

static void
drop_first(struct sandbox_log *log)
{
    log->n_bytes -= log->cells[0].code_len;
    log->n_dropped += log->cells[0].ok;
    fini_logged(&log->cells[0]);
    log->n_cells--;
    memmove(log->cells, log->cells + 1, log->n_cells * sizeof(log->cells[0]));
}

void
sandbox_log_add(struct sandbox *sb, const struct sandbox_op *op, bool ok)
{
    struct sandbox_log *log = &sb->log;

    log->cells = xgrow(log->cells, log->n_cells, sizeof(log->cells[0]));
    log->cells[log->n_cells++] = (struct sandbox_logged){
        .number = op->cell.number,
        .language = xstrdup(op->cell.language),
        .code = xstrndup(op->cell.code, op->cell.code_len),
        .code_len = op->cell.code_len,
        .ok = ok,
    };
    log->n_bytes += op->cell.code_len;
    while (log->n_cells > SANDBOX_LOG_CELLS ||
           (log->n_bytes > SANDBOX_LOG_BYTES && log->n_cells > 0))
        drop_first(log);
}

size_t
sandbox_n_replayable(const struct sandbox *sb)
{
    size_t n = 0;

    for (size_t i = 0; i < sb->log.n_cells; i++)
        n += sb->log.cells[i].ok;
    return n;
}

/* --- running them again --- */

static void
free_replay(struct sandbox_replay *r)
{
    if (r == NULL)
        return;
    free_cells(r->cells, r->n_cells);
    free(r->numbers);
    free(r);
}

void
sandbox_replay_fini(struct sandbox *sb)
{
    free_replay(take_ptr(&sb->replay));
    free_cells(sb->log.cells, sb->log.n_cells);
}

static void
end_replay(struct sandbox_replay *r, const struct sandbox_outcome *outcome,
           const struct error *err)
{
    struct sandbox *sb = r->sb;
    struct sandbox_replayed replayed = {
        .cells = r->numbers,
        .n_cells = r->at,
        .n_all = r->n_cells,
        .n_dropped = sb->log.n_dropped,
        .stopped_at = r->at < r->n_cells ? r->cells[r->at].number : 0,
        .outcome = outcome,
    };

    (void)take_ptr(&sb->replay);
    r->on.on_done(r->ctx, &replayed, err);
    free_replay(r);
}

/* What the next cell would have been told is told by the caller: this was the
   next cell. */
static void
make_loss_late(struct sandbox *sb)
{
    AUTO_FREE char *loss = sb->idle_loss;

    if (sb->loss_is_asked || loss == NULL) {
        (void)take_ptr(&loss);
        return;
    }
    sb->loss_is_late = true;
    if (str_starts(loss, SANDBOX_BEFORE))
        sb->idle_loss =
            xasprintf("Meanwhile, %s", loss + strlen(SANDBOX_BEFORE));
    else
        (void)take_ptr(&loss);
}

static void run_next(struct sandbox_replay *r);

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox_replay *r = ctx;
    bool ok = end == SANDBOX_DONE && outcome->outcome == EVENT_OK;
    struct error why = {0};

    r->op = NULL;
    make_loss_late(r->sb);
    if (ok) {
        r->numbers[r->at] = r->cells[r->at].number;
        r->at++;
    }
    if (ok && r->at == r->n_cells) {
        end_replay(r, NULL, NULL);
        return;
    }
    if (ok && !r->cancelled) {
        run_next(r);
        return;
    }
    if (r->cancelled)
        error_fill(&why, ERR_CANCELLED, "cancelled");
    else if (err != NULL)
        why = *err;
    else
        error_fill(&why, ERR_DATA, "cell %d did not end well",
                   r->cells[r->at].number);
    end_replay(r, outcome, &why);
}

static void
run_next(struct sandbox_replay *r)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};
    const struct sandbox_logged *cell = &r->cells[r->at];

    r->op = sandbox_run_cell(r->sb,
                             &(struct sandbox_cell){
                                 .code = cell->code,
                                 .code_len = cell->code_len,
                                 .language = cell->language,
                                 .timeout_ms = -1,
                                 .number = cell->number,
                             },
                             &on, r);
    r->op->is_replayed = true;
    if (r->on.on_cell != NULL)
        r->on.on_cell(r->ctx, cell->number, r->at + 1, r->n_cells);
}

/* --- for the callers --- */

struct sandbox_replay *
sandbox_replay(struct sandbox *sb, const struct sandbox_replay_handlers *on,
               void *ctx)
{
    size_t n = sandbox_n_replayable(sb);
    struct sandbox_replay *r = NULL;

    if (n == 0 || sb->replay != NULL)
        return NULL;
    r = xcalloc(1, sizeof(*r));
    r->sb = sb;
    r->on = *on;
    r->ctx = ctx;
    r->cells = xcalloc(n, sizeof(r->cells[0]));
    r->numbers = xcalloc(n, sizeof(r->numbers[0]));
    for (size_t i = 0; i < sb->log.n_cells; i++) {
        const struct sandbox_logged *cell = &sb->log.cells[i];

        if (!cell->ok)
            continue;
        r->cells[r->n_cells] = *cell;
        r->cells[r->n_cells].language = xstrdup(cell->language);
        r->cells[r->n_cells++].code = xstrndup(cell->code, cell->code_len);
    }
    sb->replay = r;
    run_next(r);
    return r;
}

void
sandbox_replay_cancel(struct sandbox_replay *replay)
{
    replay->cancelled = true;
    sandbox_leave(replay->op);
}
