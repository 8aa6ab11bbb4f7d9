/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "sandbox/sandbox.h"

/* The clock of a turn is looked at this often. What is late by more than a
   tick and a bit is time in which the program was stopped. */
#define TICK_MS 1000
#define LATE_MS 1000

/* ---- the end at a limit ---------------------------------------------------
 */

void
agent_end_at_limit(struct agent *a, const struct agent_limit *limit,
                   const char *text)
{
    struct error err = {0};

    error_fill(&err, ERR_LIMIT, "%s", text);
    a->end_key = limit->key;
    a->end_way = limit->way;
    a->end_way_nanousd = limit->way_nanousd;
    if (a->n_calls > 0)
        agent_stop_calls(a, EVENT_LIMIT, limit->why, &err);
    else
        agent_fail_turn(a, EVENT_LIMIT, &err);
}

void
agent_begin_stop(struct agent *a, enum agent_stop stop)
{
    bool is_person = stop == AGENT_STOP_PERSON;

    /* A person does not wait for a cell that takes long to stop. */
    if (is_person && a->stop != AGENT_GO_ON && a->op != NULL)
        sandbox_leave(a->op);
    if (!agent_is_busy(a) || a->stop != AGENT_GO_ON)
        return;
    a->stop = stop;
    if (a->request != NULL)
        claude_cancel(a->request);
    else if (a->op != NULL && is_person)
        sandbox_leave(a->op);
    else if (a->op != NULL)
        sandbox_cancel(a->op);
    else
        (void)agent_stop_charts(a);
}

static void
end_at_time(struct agent *a)
{
    static const struct agent_limit limit = {
        .key = "limits.turn_seconds",
        .way = EVENT_WAY_RETRY,
        .why = "Not executed: the time for one question is over.",
    };
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, ERROR_MSG_BYTES);
    sbuf_add_str(&text, "stopped after ");
    str_add_duration(&text, a->config.turn_ms);
    sbuf_add_str(&text, " without an answer: limits.turn_seconds");
    agent_end_at_limit(a, &limit, text.data);
}

void
agent_end_stopped(struct agent *a)
{
    switch (a->stop) {
    case AGENT_GO_ON: /* cancelled by somebody else */
    case AGENT_STOP_PERSON:
        if (a->n_calls > 0)
            agent_stop_calls(a, EVENT_INTERRUPTED,
                             "Not executed: interrupted by the user.", NULL);
        else
            agent_fail_turn(a, EVENT_INTERRUPTED, NULL);
        break;
    case AGENT_STOP_TIME:
        end_at_time(a);
        break;
    case AGENT_STOP_BUDGET:
        agent_end_at_budget(a);
        break;
    }
}

/* ---- the clock ------------------------------------------------------------
 */

static void on_tick(void *ctx);

static void
set_tick(struct agent *a)
{
    a->tick_ms = a->turn_left_ms < TICK_MS ? a->turn_left_ms : TICK_MS;
    a->tick_start_ms = clock_now_ms();
    a->turn_timer = loop_add_timer(a->config.loop, a->tick_ms, on_tick, a);
}

static void
on_tick(void *ctx)
{
    struct agent *a = ctx;
    int64_t took_ms = clock_now_ms() - a->tick_start_ms;

    a->turn_timer = NULL;
    if (took_ms > a->tick_ms + LATE_MS)
        took_ms = a->tick_ms;
    a->turn_left_ms -= took_ms;
    if (a->turn_left_ms > 0)
        set_tick(a);
    else
        agent_begin_stop(a, AGENT_STOP_TIME);
}

void
agent_clock_start(struct agent *a)
{
    if (a->config.turn_ms <= 0)
        return;
    a->turn_left_ms = a->config.turn_ms;
    set_tick(a);
}

void
agent_clock_stop(struct agent *a)
{
    if (a->turn_timer != NULL)
        loop_timer_remove(a->turn_timer);
    a->turn_timer = NULL;
}

/* ---- the same again -------------------------------------------------------
 */

int
agent_count_repeat(struct agent *a, const char *name, const char *language,
                   const char *input, const char *outcome, size_t len)
{
    struct agent_repeat *r = NULL;
    char hex[HASH_HEX_BYTES];
    struct hash h;

    hash_init(&h);
    /* With their NULs, so that a name does not run into what follows. */
    hash_add(&h, name, strlen(name) + 1);
    if (language != NULL)
        hash_add(&h, language, strlen(language));
    hash_add(&h, "", 1);
    hash_add(&h, input, strlen(input) + 1);
    hash_add(&h, outcome, len);
    hash_end_hex(&h, hex);
    for (size_t i = 0; i < a->n_repeats; i++) {
        r = &a->repeats[i];
        if (!str_eq(r->hex, hex))
            continue;
        /* Calls of one reply were made before an outcome was known. */
        if (r->round != a->n_rounds)
            r->n++;
        r->round = a->n_rounds;
        return r->n;
    }
    a->repeats =
        xreallocarray(a->repeats, a->n_repeats + 1, sizeof(*a->repeats));
    r = &a->repeats[a->n_repeats++];
    memcpy(r->hex, hex, sizeof(hex));
    r->n = 1;
    r->round = a->n_rounds;
    return 1;
}

void
agent_forget_repeats(struct agent *a)
{
    free(a->repeats);
    a->repeats = NULL;
    a->n_repeats = 0;
}

void
agent_end_repeating(struct agent *a)
{
    static const struct agent_limit limit = {
        .way = EVENT_WAY_REPHRASE,
        .why = "Not executed: the same call had ended in the same way three "
               "times.",
    };

    agent_end_at_limit(a, &limit,
                       "stopped: the model made the same call with the same "
                       "outcome for the third time");
}
