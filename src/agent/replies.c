/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude.h"
#include "claude/history.h"
#include "model/sink.h"

/* How often an empty answer behind tool results is asked for again. */
#define MAX_NUDGES 1

/* Longest part of what the service explains that is shown. */
#define MAX_EXPLANATION_BYTES 300

/* Goes before the next question. */
#define CUT_OFF "[The previous reply was interrupted by the user.]"

/* ---- replies --------------------------------------------------------------
 */

static void
on_thinking(void *ctx, const char *text, size_t len, bool end)
{
    struct agent *a = ctx;

    a->n_streamed_bytes += len;
    agent_emit_status(a, "thinking");
    agent_emit_text(a, EVENT_THINKING, text, len, end);
}

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct agent *a = ctx;

    a->n_streamed_bytes += len;
    agent_emit_status(a, "answering");
    agent_emit_text(a, EVENT_TEXT, text, len, end);
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    struct agent *a = ctx;

    (void)name;
    (void)input;
    if (len == 0)
        a->n_calls_begun++;
    if (len > a->n_call_bytes)
        a->n_streamed_bytes += len - a->n_call_bytes;
    a->n_call_bytes = len;
    agent_emit_status(a, "writing code");
}

/* Another reply comes, and nothing of it is there. */
static void
begin_reply(struct agent *a)
{
    a->n_streamed_bytes = 0;
    a->n_call_bytes = 0;
    a->n_calls_begun = 0;
}

static void
on_discard(void *ctx)
{
    struct agent *a = ctx;

    agent_void_reply(a);
    agent_notice(a, EVENT_WARNING,
                 "the reply broke off and is asked for again; what was shown "
                 "of it is void");
}

static void
on_lost(void *ctx)
{
    struct agent *a = ctx;

    agent_lose_reply(a, NULL);
    begin_reply(a);
}

static void
on_retry(void *ctx, int attempt, int64_t wait_ms, const struct error *err)
{
    struct agent *a = ctx;

    (void)attempt;
    a->status = NULL;
    agent_emit(a, &(struct event){.kind = EVENT_STATUS,
                                  .text = err->msg,
                                  .len = strlen(err->msg),
                                  .until_ms = clock_now_ms() + wait_ms});
    if (!agent_affords_again(a))
        agent_begin_stop(a, AGENT_STOP_BUDGET);
}

static void
on_notice(void *ctx, const char *text)
{
    struct agent *a = ctx;

    agent_notice(a, EVENT_WARNING, text);
}

void
agent_take_calls(struct agent *a, const struct claude_reply *reply)
{
    agent_free_calls(a);
    a->calls = xcalloc(reply->n_calls + 1, sizeof(*a->calls));
    a->answers = xcalloc(reply->n_calls + 1, sizeof(*a->answers));
    a->n_calls = reply->n_calls;
    a->at_call = 0;
    for (size_t i = 0; i < reply->n_calls; i++) {
        const struct claude_tool_call *call = &reply->calls[i];

        a->calls[i] = (struct claude_tool_call){
            .id = xstrdup(call->id),
            .name = xstrdup(call->name),
            .input = xstrdup(call->input),
            .raw_input = xstrdup(call->raw_input),
        };
    }
}

/* What was shown of the reply does not count. */
void
agent_void_reply(struct agent *a)
{
    agent_emit_text(a, EVENT_THINKING, NULL, 0, true);
    agent_emit(
        a, &(struct event){.kind = EVENT_TEXT, .end = true, .is_void = true});
}

static void
emit_reply(struct agent *a, const struct claude_reply *reply)
{
    agent_emit(a, &(struct event){.kind = EVENT_REPLY,
                                  .text = reply->content,
                                  .len = strlen(reply->content),
                                  .stop_reason = reply->stop_reason,
                                  .usage = &reply->usage});
}

/* Appends the reply as it will be sent back, and records it. */
static int
keep_reply(struct agent *a, const struct claude_reply *reply, struct error *err)
{
    AUTO_FREE const char **ids = xcalloc(reply->n_calls + 1, sizeof(*ids));

    for (size_t i = 0; i < reply->n_calls; i++)
        ids[i] = reply->calls[i].id;
    if (claude_history_add_assistant(a->history, reply->content, ids,
                                     reply->n_calls, err) < 0)
        return -1;
    /* A reply without content adds no message. */
    if (!claude_history_ends_with_user(a->history))
        a->n_replies++;
    emit_reply(a, reply);
    agent_know_prompt(a, &reply->usage);
    return 0;
}

/* Nothing of it is kept, and the question goes with all that came of it, since
   the same context would be refused again and again. */
static void
refuse(struct agent *a, const struct claude_reply *reply)
{
    AUTO_FREE char *why =
        xstrdup(reply->explanation != NULL ? reply->explanation : "");
    struct error err = {0};

    why[utf8_floor(why, strlen(why), MAX_EXPLANATION_BYTES)] = '\0';
    for (char *p = why; *p != '\0'; p++)
        *p = strchr("\r\n\t", *p) != NULL ? ' ' : *p;
    agent_void_reply(a);
    agent_tell_dropped(a, reply);
    agent_leave_question(a);
    error_fill(&err, ERR_NO_ANSWER,
               "the model declined to answer%s%s\n"
               "the question and what came of it are out of the conversation; "
               "ask in another way",
               why[0] != '\0' ? ": " : "", why);
    agent_end_turn(a, EVENT_FAILED, &err);
}

/* The round limit: every open call is answered, and the person is told. */
static void
stop_at_rounds(struct agent *a)
{
    static const struct agent_limit limit = {
        .key = "limits.rounds",
        .way = EVENT_WAY_RETRY,
        .why = "Not executed: the limit of rounds for one question was "
               "reached.",
    };
    AUTO_FREE char *text =
        xasprintf("stopped after %d round%s without an answer: limits.rounds",
                  a->config.max_rounds, a->config.max_rounds == 1 ? "" : "s");

    agent_end_at_limit(a, &limit, text);
}

/* An end without words behind tool results: asked to go on, once. */
static bool
nudge(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};
    static const char go_on[] = "Please go on and answer the question.";

    if (!str_blank(reply->text) || a->n_nudges == MAX_NUDGES ||
        a->n_turn_cells == 0 || a->n_rounds >= a->config.max_rounds)
        return false;
    a->n_nudges++;
    if (claude_history_add_user(a->history, go_on, strlen(go_on), &err) < 0) {
        agent_end_turn(a, EVENT_FAILED, &err);
        return true;
    }
    agent_send_request(a);
    return true;
}

static void
end_with_answer(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply->stop == CLAUDE_STOP_MAX_TOKENS)
        agent_tell_cut(a);
    else if (reply->stop == CLAUDE_STOP_CONTEXT)
        agent_notice(a, EVENT_WARNING,
                     "the conversation has filled the model's context; begin "
                     "a new session");
    else if (nudge(a, reply))
        return;
    if (str_blank(reply->text)) {
        error_fill(
            &err, ERR_NO_ANSWER, "the model ended without an answer (%s)%s",
            reply->stop_reason != NULL ? reply->stop_reason : "no stop reason",
            reply->stop == CLAUDE_STOP_CONTEXT
                ? ""
                : "; ask again, or in another way");
        agent_fail_turn(a, EVENT_FAILED, &err);
        return;
    }
    agent_end_turn(a, EVENT_OK, NULL);
}

static void
on_reply(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply->stop == CLAUDE_STOP_REFUSAL) {
        refuse(a, reply);
        return;
    }
    if (agent_is_cut_short(a, reply)) {
        agent_ask_longer(a, reply);
        return;
    }
    if (keep_reply(a, reply, &err) < 0) {
        agent_end_turn(a, EVENT_FAILED, &err);
        return;
    }
    a->cut_tokens = 0;
    agent_tell_dropped(a, reply);
    agent_take_calls(a, reply);
    a->n_rounds++;
    if (a->stop == AGENT_STOP_PERSON ||
        (a->stop != AGENT_GO_ON && a->n_calls > 0)) {
        agent_end_stopped(a);
    } else if (reply->stop == CLAUDE_STOP_PAUSE &&
               a->n_rounds < a->config.max_rounds) {
        agent_send_request(a);
    } else if (a->n_calls == 0 && reply->stop != CLAUDE_STOP_PAUSE) {
        end_with_answer(a, reply);
    } else if (a->n_rounds >= a->config.max_rounds) {
        stop_at_rounds(a);
    } else {
        agent_next_call(a);
    }
}

/* An interrupt in mid-stream: the text that was shown is kept, and nothing
   else; thinking and half a tool call must not be. */
static void
keep_partial(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply == NULL || str_blank(reply->text) ||
        claude_history_add_assistant(a->history, reply->content, NULL, 0,
                                     &err) < 0) {
        agent_void_reply(a);
        return;
    }
    a->n_replies++;
    agent_emit_text(a, EVENT_THINKING, NULL, 0, true);
    agent_emit_text(a, EVENT_TEXT, NULL, 0, true);
    emit_reply(a, reply);
}

static void
on_claude_done(void *ctx, const struct claude_reply *reply,
               const struct error *err)
{
    struct agent *a = ctx;

    a->request = NULL;
    if (reply != NULL)
        agent_spend(a, &reply->usage, err != NULL);
    if (reply != NULL && err != NULL)
        agent_lose_reply(a, &reply->usage);
    if (err == NULL) {
        on_reply(a, reply);
        return;
    }
    if (err->code == ERR_CANCELLED) {
        keep_partial(a, reply);
        if (a->n_replies > 0 && a->stop == AGENT_STOP_PERSON)
            agent_tell(a, CUT_OFF);
        agent_end_stopped(a);
        return;
    }
    agent_void_reply(a);
    /* A model that nobody knows can have less than was asked for. */
    if (a->cut_tokens > 0 && err->code == ERR_REMOTE &&
        (err->http_status == 400 || err->http_status == 422)) {
        agent_notice(a, EVENT_WARNING, err->msg);
        a->is_short = false;
        agent_end_cut(a);
        return;
    }
    agent_fail_turn(a, EVENT_FAILED, err);
}

static void
on_request_barrier(void *ctx, const struct error *err)
{
    static const struct claude_handlers on = {
        .on_thinking = on_thinking,
        .on_text = on_text,
        .on_tool = on_tool,
        .on_discard = on_discard,
        .on_lost = on_lost,
        .on_retry = on_retry,
        .on_notice = on_notice,
        .on_done = on_claude_done,
    };
    struct agent *a = ctx;
    struct error bad = {0};

    if (err != NULL || a->sink_err.code != ERR_NONE) {
        agent_fail_turn(a, EVENT_FAILED, err != NULL ? err : &a->sink_err);
        return;
    }
    a->status = NULL;
    agent_emit_status(a, "waiting for the model");
    if (a->stop != AGENT_GO_ON) {
        agent_end_stopped(a);
        return;
    }
    if (!agent_afford_reply(a)) {
        agent_end_at_budget(a);
        return;
    }
    begin_reply(a);
    a->request = claude_send(a->config.claude, a->history, &on, a, &bad);
    if (a->request == NULL)
        agent_fail_turn(a, EVENT_FAILED, &bad);
}

void
agent_send_request(struct agent *a)
{
    a->state = AGENT_ASKING;
    sink_chain_barrier(a->config.chain, SINK_REQUEST_SENT, on_request_barrier,
                       a);
}
