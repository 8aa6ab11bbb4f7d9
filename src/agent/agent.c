/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/prompt_internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/history.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define MAX_TOLD_BYTES (256u << 10)
#define MAX_QUESTION_BYTES (4u << 20)

/* What is asked behind half an answer. */
#define GO_ON "Please go on from where you were stopped."

/* ---- events ---------------------------------------------------------------
 */

void
agent_emit(struct agent *a, struct event *ev)
{
    struct error err = {0};

    if (sink_chain_put(a->config.chain, ev, &err) < 0 &&
        a->sink_err.code == ERR_NONE)
        a->sink_err = err;
}

void
agent_emit_text(struct agent *a, enum event_kind kind, const char *text,
                size_t len, bool end)
{
    agent_emit(
        a, &(struct event){.kind = kind, .text = text, .len = len, .end = end});
}

void
agent_notice(struct agent *a, enum event_level level, const char *text)
{
    agent_emit(a, &(struct event){.kind = EVENT_NOTICE,
                                  .level = level,
                                  .text = text,
                                  .len = strlen(text)});
}

void
agent_emit_status(struct agent *a, const char *text)
{
    if (str_eq(a->status, text))
        return;
    a->status = text;
    agent_emit_text(a, EVENT_STATUS, text, strlen(text), false);
}

/* ---- the end of a turn ----------------------------------------------------
 */

static void
on_turn_barrier(void *ctx, const struct error *err)
{
    struct agent *a = ctx;
    struct error end_err = a->end_err;
    enum event_outcome outcome = a->end_outcome;

    a->state = AGENT_IDLE;
    memset(&a->end_err, 0, sizeof(a->end_err));
    if (err != NULL && end_err.code == ERR_NONE) {
        end_err = *err;
        outcome = outcome == EVENT_OK ? EVENT_FAILED : outcome;
    }
    a->config.on_done(a->config.ctx, outcome,
                      end_err.code != ERR_NONE ? &end_err : NULL);
}

static void
on_end_task(void *ctx)
{
    struct agent *a = ctx;

    a->end_task = NULL;
    sink_chain_barrier(a->config.chain, SINK_TURN_ENDED, on_turn_barrier, a);
}

static void
emit_turn_done(struct agent *a)
{
    const struct agent_spent *spent = &a->turns[a->n_turns - 1];
    bool at_limit = a->end_outcome == EVENT_LIMIT;
    int lost_cell = sandbox_lost_cell(a->config.sandbox);
    int first =
        a->first_kept_cell > lost_cell ? a->first_kept_cell : lost_cell + 1;
    bool keeps = at_limit && first <= a->n_cells;

    agent_emit(a, &(struct event){.kind = EVENT_USAGE, .usage = &spent->usage});
    agent_emit(a, &(struct event){
                      .kind = EVENT_DONE,
                      .scope = EVENT_SCOPE_TURN,
                      .outcome = a->end_outcome,
                      .duration_ms = clock_now_ms() - a->turn_start_ms,
                      .n_cells = a->n_turn_cells,
                      .cost_nanousd = spent->nanousd,
                      .cost_at_least = spent->at_least,
                      .limit = at_limit ? a->end_key : NULL,
                      .way = at_limit ? a->end_way : EVENT_WAY_NONE,
                      .way_nanousd = at_limit ? a->end_way_nanousd : 0,
                      .first_kept_cell = keeps ? first : 0,
                      .last_kept_cell = keeps ? a->n_cells : 0,
                      .err = a->end_err.code != ERR_NONE ? &a->end_err : NULL,
                  });
}

void
agent_end_turn(struct agent *a, enum event_outcome outcome,
               const struct error *err)
{
    assert(!claude_history_has_open_calls(a->history));
    if (a->state == AGENT_ENDING)
        return;
    a->state = AGENT_ENDING;
    a->status = NULL;
    agent_clock_stop(a);
    if (err != NULL)
        a->end_err = *err;
    else if (a->sink_err.code != ERR_NONE)
        a->end_err = a->sink_err;
    if (outcome == EVENT_OK && a->end_err.code != ERR_NONE)
        outcome = EVENT_FAILED;
    a->end_outcome = outcome;
    a->can_go_on = outcome != EVENT_OK && !a->question_is_back;
    agent_tell_not_listed(a);
    emit_turn_done(a);
    /* From the loop, so that nobody is called back within agent_ask. */
    a->end_task = loop_defer(a->config.loop, on_end_task, a);
}

/* What was told with a question that is taken back goes before the next one,
   and before what was told since. */
static void
tell_again(struct agent *a)
{
    AUTO_FREE char *since = sbuf_take(&a->told);

    if (a->told_sent.len > 0)
        agent_tell(a, a->told_sent.data);
    if (since[0] != '\0')
        agent_tell(a, since);
    sbuf_clear(&a->told_sent);
}

/* Goes before the next question, behind what was told with the last one: what
   cells have changed is still there. */
static void
tell_left_cells(struct agent *a)
{
    int first = a->asked_cell + 1;
    AUTO_FREE char *cells = first < a->n_cells
                                ? xasprintf("Cells %d to %d", first, a->n_cells)
                                : xasprintf("Cell %d", first);
    AUTO_FREE char *text = xasprintf(
        "[%s ran for a question that is no part of this conversation; "
        "variables and files may remain.]",
        cells);

    if (first <= a->n_cells)
        agent_tell(a, text);
}

void
agent_leave_question(struct agent *a)
{
    AUTO_FREE char *since = sbuf_take(&a->told);

    claude_history_drop(a->history, a->asked_at);
    agent_forget_prompt(a);
    if (a->told_asked.len > 0)
        agent_tell(a, a->told_asked.data);
    tell_left_cells(a);
    if (since[0] != '\0')
        agent_tell(a, since);
    sbuf_clear(&a->told_sent);
    sbuf_clear(&a->told_asked);
    a->question_is_back = true;
}

void
agent_fail_turn(struct agent *a, enum event_outcome outcome,
                const struct error *err)
{
    if (a->n_replies == 0) {
        claude_history_rewind(a->history, a->rewind_at);
        sbuf_truncate(&a->told_asked, a->told_asked_before);
        tell_again(a);
        a->question_is_back = !a->is_going_on;
    }
    agent_end_turn(a, outcome, err);
}

/* ---- public ---------------------------------------------------------------
 */

struct agent *
agent_new(const struct agent_config *config)
{
    struct agent *a = xcalloc(1, sizeof(*a));

    a->config = *config;
    a->history = claude_history_new();
    a->facts = prompt_sandbox_facts(sandbox_caps(config->sandbox));
    sbuf_init(&a->told, MAX_TOLD_BYTES);
    sbuf_init(&a->told_sent, MAX_TOLD_BYTES);
    sbuf_init(&a->told_asked, MAX_TOLD_BYTES);
    agent_files_init(a);
    return a;
}

void
agent_free(struct agent *a)
{
    if (a == NULL)
        return;
    loop_task_remove(a->end_task);
    agent_clock_stop(a);
    agent_forget_repeats(a);
    agent_free_calls(a);
    context_fini(&a->context);
    agent_charts_fini(a);
    agent_free_outcome(a);
    agent_files_fini(a);
    free(a->code);
    free(a->language);
    free(a->facts);
    free(a->question);
    free(a->turns);
    sbuf_fini(&a->told);
    sbuf_fini(&a->told_sent);
    sbuf_fini(&a->told_asked);
    claude_history_free(a->history);
    free(a);
}

bool
agent_is_busy(const struct agent *a)
{
    return a->state != AGENT_IDLE;
}

void
agent_tell(struct agent *a, const char *text)
{
    if (a->told.len > 0)
        sbuf_add_str(&a->told, "\n");
    sbuf_add_str(&a->told, text);
}

/* What the tools and the system prompt say of the sandbox stays what it was,
   though another one may be in its place. */
static void
tell_of_switch(struct agent *a)
{
    AUTO_FREE char *facts =
        prompt_sandbox_facts(sandbox_caps(a->config.sandbox));
    AUTO_FREE char *text =
        xasprintf("[The sandbox is another one now, and what was said of the "
                  "one before counts no more. %s]",
                  facts);

    if (str_eq(facts, a->facts))
        return;
    agent_tell(a, text);
    free(a->facts);
    a->facts = take_ptr(&facts);
}

/* Appends a user message of what was told and words, which may be "". */
static int
add_message(struct agent *a, const char *words, struct error *err)
{
    AUTO_SBUF struct sbuf text = {0};

    tell_of_switch(a);
    sbuf_init(&text, MAX_QUESTION_BYTES + MAX_TOLD_BYTES);
    if (a->told.len > 0) {
        sbuf_add(&text, a->told.data, a->told.len);
        sbuf_add_str(&text, "\n");
    }
    sbuf_add_str(&text, words);
    if (!sbuf_ok(&text))
        return err_set(err, ERR_TOO_LARGE,
                       "the question has more than %u bytes",
                       MAX_QUESTION_BYTES);
    a->rewind_at = claude_history_rewind_point(a->history);
    if (text.len > 0 &&
        claude_history_add_user(a->history, text.data, text.len, err) < 0)
        return -1;
    sbuf_clear(&a->told_sent);
    sbuf_add(&a->told_sent, a->told.data, a->told.len);
    a->told_asked_before = a->told_asked.len;
    if (a->told.len > 0 && a->told_asked.len > 0)
        sbuf_add_str(&a->told_asked, "\n");
    sbuf_add(&a->told_asked, a->told.data, a->told.len);
    sbuf_clear(&a->told);
    return 0;
}

/* Begins a turn whose message is in the history. */
static void
begin_turn(struct agent *a)
{
    a->stop = AGENT_GO_ON;
    a->n_rounds = 0;
    a->n_replies = 0;
    a->n_nudges = 0;
    a->is_longer = false;
    a->cut_tokens = 0;
    a->n_turn_cells = 0;
    a->first_kept_cell = a->n_cells + 1;
    a->question_is_back = false;
    a->can_go_on = false;
    a->turn_lost_nanousd = 0;
    a->turns = xreallocarray(a->turns, a->n_turns + 1, sizeof(*a->turns));
    a->turns[a->n_turns++] = (struct agent_spent){0};
    agent_forget_repeats(a);
    memset(&a->sink_err, 0, sizeof(a->sink_err));
    memset(&a->end_err, 0, sizeof(a->end_err));
    a->turn_start_ms = clock_now_ms();
    agent_clock_start(a);
    a->state = AGENT_ASKING;
}

static int
check_idle(const struct agent *a, struct error *err)
{
    if (agent_is_busy(a))
        return err_set(err, ERR_INTERNAL, "a question is being answered");
    return 0;
}

static int
check_key(const struct agent *a, struct error *err)
{
    if (a->config.claude == NULL)
        return err_set(err, ERR_AUTH, "there is no API key");
    return 0;
}

int
agent_ask(struct agent *a, const char *question, struct error *err)
{
    AUTO_FREE char *copy = xstrdup(question);

    if (check_idle(a, err) < 0)
        return -1;
    if (str_blank(question))
        return err_set(err, ERR_USAGE, "the question is empty");
    if (check_key(a, err) < 0)
        return -1;
    sbuf_clear(&a->told_asked);
    if (add_message(a, question, err) < 0)
        return -1;
    a->asked_at = a->rewind_at;
    a->asked_cell = a->n_cells;
    agent_mark_prompt(a);
    free(a->question);
    a->question = take_ptr(&copy);
    a->is_going_on = false;
    begin_turn(a);
    agent_emit_text(a, EVENT_QUESTION, a->question, strlen(a->question), true);
    agent_send_request(a);
    return 0;
}

int
agent_retry(struct agent *a, struct error *err)
{
    bool half = !claude_history_ends_with_user(a->history);

    if (check_idle(a, err) < 0)
        return -1;
    if (a->question_is_back)
        return agent_ask(a, a->question, err);
    if (!a->can_go_on)
        return err_set(err, ERR_USAGE,
                       a->question == NULL
                           ? "there is nothing to try again: nothing was asked"
                           : "there is nothing to try again: the last question "
                             "was answered");
    if (check_key(a, err) < 0 || add_message(a, half ? GO_ON : "", err) < 0)
        return -1;
    a->is_going_on = true;
    begin_turn(a);
    agent_send_request(a);
    return 0;
}

void
agent_cancel(struct agent *a)
{
    agent_begin_stop(a, AGENT_STOP_PERSON);
}
