/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"

#define LOG_MODULE "e2b"

#define MAX_REBUILT 1

#define CUT_TEXT                                                               \
    "The connection to the sandbox was lost while the cell ran. It was asked " \
    "to stop; what it printed since is lost, and how far it came is not "      \
    "known. Variables are kept as it left them."
#define CUT_SCRIPT_TEXT                                                        \
    "The connection to the sandbox was lost while the script ran; how it "     \
    "ended is not known."
#define GONE_TEXT                                                              \
    "The sandbox is gone: its time was over, or it was ended "                 \
    "from outside. "
#define NEW_ONE_TEXT "A new one was made. "

static void look(struct e2b *e);

/* --- what is known now --- */

/* The sandbox is gone under a cell or a script: a new one, once. */
static void
rebuild(struct e2b *e)
{
    struct error err = {0};

    e2b_abandon_sandbox(e);
    if (e->n_rebuilt >= MAX_REBUILT) {
        error_fill(&err, ERR_SANDBOX,
                   "the sandbox is gone with its variables and files, and so "
                   "is the one that was made in its place: %s",
                   e->loss.msg);
        e2b_cell_lose(e, EVENT_DIED, NULL, true);
        e2b_set_phase(e, E2B_PHASE_SHUT);
        e2b_cell_reopened(e, &err);
        return;
    }
    e->n_rebuilt++;
    e2b_cell_lose(e, EVENT_DIED,
                  e->cell.begun ? GONE_TEXT NEW_ONE_TEXT SANDBOX_FILES_LOST_TEXT
                                : GONE_TEXT
                      "This did not run. " NEW_ONE_TEXT SANDBOX_FILES_LOST_TEXT,
                  true);
    e2b_set_phase(e, E2B_PHASE_OPENING);
    e2b_open_begin(e);
}

void
e2b_on_sandbox_gone(struct e2b *e)
{
    struct error err = {0};

    error_fill(&err, ERR_SANDBOX,
               "the sandbox at %s is gone: its time was over, or it was ended "
               "from outside",
               e2b_api_host(e->api));
    e2b_abandon_sandbox(e);
    e2b_set_phase(e, E2B_PHASE_SHUT);
    e->base.files_lost = true;
    e2b_enter(e);
    e->base.on_lost(e->base.on_lost_ctx, &err);
    e2b_leave(e);
}

static void
handle_gone(struct e2b *e)
{
    struct error err = e->loss;

    if (e->cell.active) {
        rebuild(e);
        return;
    }
    if (err.code == ERR_NONE) {
        error_fill(&err, ERR_SANDBOX, "the sandbox is gone");
    }
    e->base.files_lost = true;
    e2b_enter(e);
    e2b_end_op_now(e, &err);
    if (!e->dead) {
        e2b_on_sandbox_gone(e);
    }
    e2b_leave(e);
}

/* Nobody can be asked: it may be there, and may be billed. */
static void
handle_unreachable(struct e2b *e, const struct error *why)
{
    struct error err = {0};

    error_fill(&err, ERR_SANDBOX, "the sandbox cannot be reached%s: %s",
               !e->cell.active  ? ""
               : !e->cell.begun ? ", so nothing was run"
                                : ", and how far the code came is not known",
               why->msg);
    e->is_unsure = true;
    if (!e->cell.active) {
        e2b_end_op_now(e, &err);
        return;
    }
    e->runner_ready = false;
    e->is_stale = true;
    e2b_cell_lose(e, EVENT_DIED, NULL, false);
    e2b_set_phase(e, E2B_PHASE_SHUT);
    e2b_cell_reopened(e, &err);
}

/* The sandbox is there, the interpreter is not. */
static void
handle_lost_runner(struct e2b *e, const char *why)
{
    AUTO_FREE char *reason = xstrdup(
        str_blank(why) ? "The interpreter is gone. " SANDBOX_LOST_TEXT : why);
    struct error err = {0};

    e->runner_ready = false;
    if (e->cell.active) {
        e2b_cell_lose(e, EVENT_DIED, reason, false);
        e2b_cell_reopen(e);
        return;
    }
    error_fill(&err, ERR_SANDBOX, "the interpreter is gone");
    e2b_enter(e);
    e2b_end_op_now(e, &err);
    if (!e->dead) {
        e2b_set_phase(e, E2B_PHASE_SHUT);
        e->base.files_lost = false;
        e->base.on_lost(e->base.on_lost_ctx, &err);
    }
    e2b_leave(e);
}

/* --- asking --- */

/* It is there, and so is its interpreter: on with what was asked for. */
static void
go_on(struct e2b *e)
{
    if (e->cell.active && e->cell.begun) {
        e2b_cell_end_unknown(e, e->cell.is_script ? CUT_SCRIPT_TEXT : CUT_TEXT);
    } else if (e->cell.active && e->cell.stop != EVENT_OK) {
        e2b_cell_end_unknown(e, "Stopped before it began; variables are kept.");
    } else if (e->loss.code != ERR_NONE && e->was_retried) {
        if (e->cell.active) {
            e2b_cell_refuse(e, &e->loss);
        } else {
            e2b_end_op_now(e, &e->loss);
        }
    } else {
        e->was_retried = e->loss.code != ERR_NONE;
        memset(&e->loss, 0, sizeof(e->loss));
        e->start(e);
    }
}

static void
on_reconnected(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;

    switch (end->way) {
    case E2B_RUN_DONE:
        go_on(e);
        return;
    case E2B_RUN_LOST:
        handle_lost_runner(e,
                           end->outcome != NULL ? end->outcome->reason : NULL);
        return;
    case E2B_RUN_TROUBLE:
        if (end->trouble == E2B_TROUBLE_GONE) {
            handle_gone(e);
        } else {
            handle_unreachable(e, end->err);
        }
        return;
    }
}

static void
reconnect(struct e2b *e)
{
    if (e->runner == NULL) {
        handle_lost_runner(e, NULL);
        return;
    }
    e->runner->ops->reconnect(e->runner, on_reconnected, e);
}

static void
on_key(struct e2b *e, const struct error *err)
{
    if (err != NULL) {
        handle_unreachable(e, err);
    } else {
        look(e);
    }
}

static void
on_looked(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->call = NULL;
    e2b_check_key(e, result);
    if (result->err == NULL) {
        if (e2b_take_sandbox(e, result, &err) < 0) {
            handle_unreachable(e, &err);
            return;
        }
        reconnect(e);
    } else if (result->fault == E2B_FAULT_GONE) {
        handle_gone(e);
    } else if (result->fault != E2B_FAULT_AUTH ||
               !e2b_ask_other_key(e, on_key)) {
        handle_unreachable(e, result->err);
    }
}

/* Connecting answers the question, and wakes one that is paused. */
static void
look(struct e2b *e)
{
    struct error err = {0};

    e->call = e2b_api_connect(e->api, e->sandbox.id, e->config.timeout_s, false,
                              on_looked, e, &err);
    if (e->call == NULL) {
        handle_unreachable(e, &err);
    }
}

void
e2b_begin(struct e2b *e, void (*start)(struct e2b *e))
{
    e->start = start;
    e->was_retried = false;
    memset(&e->loss, 0, sizeof(e->loss));
    /* As after a night with the lid closed. */
    if (e->end_ms > 0 && clock_wall_ms() >= e->end_ms) {
        e->is_unsure = true;
    }
    if (e->is_unsure) {
        look(e);
    } else {
        start(e);
    }
}

void
e2b_handle_trouble(struct e2b *e, enum e2b_trouble trouble, bool not_done,
                   const struct error *err)
{
    struct error copy = *err;

    if (e->loss.code == ERR_NONE) {
        e->loss = copy;
    }
    switch (trouble) {
    case E2B_TROUBLE_GONE:
    case E2B_TROUBLE_CUT:
    case E2B_TROUBLE_LATE:
    case E2B_TROUBLE_CLOSED:
    case E2B_TROUBLE_CHANGING:
        if (e->cell.active && !not_done) {
            e->cell.begun = true;
        }
        look(e);
        return;
    case E2B_TROUBLE_NONE:
    case E2B_TROUBLE_REFUSED:
        if (e->cell.active) {
            e2b_cell_refuse(e, &copy);
        } else {
            e2b_end_op_now(e, &copy);
        }
        return;
    }
}

void
e2b_on_runner_lost(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;
    struct error err = {0};

    if (end->way == E2B_RUN_TROUBLE) {
        /* What is asked for next finds out. */
        e->is_unsure = true;
        return;
    }
    error_fill(&err, ERR_SANDBOX, "the interpreter ended by itself");
    e->runner_ready = false;
    e2b_set_phase(e, E2B_PHASE_SHUT);
    e->base.files_lost = false;
    e2b_enter(e);
    e->base.on_lost(e->base.on_lost_ctx, &err);
    e2b_leave(e);
}
