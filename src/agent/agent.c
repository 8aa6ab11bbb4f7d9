/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "agent/context_internal.h"
#include "agent/tools_internal.h"
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

#define MAX_RESULT_BYTES (256u << 10)
#define MAX_TOLD_BYTES (256u << 10)
#define MAX_QUESTION_BYTES (4u << 20)

/* How often an empty answer behind tool results is asked for again. */
#define MAX_NUDGES 1

/* What calls are answered that are not run any more. */
#define INTERRUPTED "Not executed: interrupted by the user."

/* Goes before the next question. */
#define CUT_OFF "[The previous reply was interrupted by the user.]"

static void send_request(struct agent *a);
static void next_call(struct agent *a);

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

static void
emit_text(struct agent *a, enum event_kind kind, const char *text, size_t len,
          bool end)
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

static void
emit_status(struct agent *a, const char *text)
{
    if (str_eq(a->status, text))
        return;
    a->status = text;
    emit_text(a, EVENT_STATUS, text, strlen(text), false);
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

/* err may be NULL. The history must be valid by now. */
static void
end_turn(struct agent *a, enum event_outcome outcome, const struct error *err)
{
    assert(!claude_history_has_open_calls(a->history));
    if (a->state == AGENT_ENDING)
        return;
    a->state = AGENT_ENDING;
    a->status = NULL;
    if (err != NULL)
        a->end_err = *err;
    else if (a->sink_err.code != ERR_NONE)
        a->end_err = a->sink_err;
    if (outcome == EVENT_OK && a->end_err.code != ERR_NONE)
        outcome = EVENT_FAILED;
    a->end_outcome = outcome;
    agent_emit(a, &(struct event){.kind = EVENT_USAGE, .usage = &a->usage});
    agent_emit(a, &(struct event){
                      .kind = EVENT_DONE,
                      .scope = EVENT_SCOPE_TURN,
                      .outcome = outcome,
                      .duration_ms = clock_now_ms() - a->turn_start_ms,
                      .n_cells = a->n_turn_cells,
                      .err = a->end_err.code != ERR_NONE ? &a->end_err : NULL,
                  });
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

/* A failure that leaves the history as it was before the request: a question
   that was never answered is taken back, so that it can be asked again. */
static void
fail_turn(struct agent *a, enum event_outcome outcome, const struct error *err)
{
    if (a->n_replies == 0) {
        claude_history_rewind(a->history, a->mark);
        tell_again(a);
    }
    end_turn(a, outcome, err);
}

/* ---- answers to tool calls ------------------------------------------------
 */

static void
set_answer(struct agent *a, size_t i, bool is_error, const char *text,
           size_t len)
{
    struct agent_answer *answer = &a->answers[i];

    free(answer->text);
    answer->text = xstrndup(text, len);
    answer->len = len;
    answer->is_error = is_error;
}

static void
free_reply(struct agent *a)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        free(a->calls[i].id);
        free(a->calls[i].name);
        free(a->calls[i].input);
        free(a->calls[i].raw_input);
        free(a->answers[i].text);
    }
    free(a->calls);
    free(a->answers);
    a->calls = NULL;
    a->answers = NULL;
    a->n_calls = 0;
}

/* Appends the results of all calls; those not reached are answered with why. */
static int
add_answers(struct agent *a, const char *why, struct error *err)
{
    AUTO_FREE struct claude_tool_result *results =
        xcalloc(a->n_calls, sizeof(*results));
    int rc = 0;

    for (size_t i = 0; i < a->n_calls; i++) {
        if (a->answers[i].text == NULL)
            set_answer(a, i, true, why, strlen(why));
        results[i] = (struct claude_tool_result){
            .tool_use_id = a->calls[i].id,
            .text = a->answers[i].text,
            .len = a->answers[i].len,
            .is_error = a->answers[i].is_error,
        };
    }
    rc = claude_history_add_results(a->history, results, a->n_calls, NULL, err);
    free_reply(a);
    return rc;
}

/* Answers what is open and ends the turn. */
static void
stop_calls(struct agent *a, enum event_outcome outcome, const char *why,
           const struct error *err)
{
    struct error bad = {0};

    if (a->n_calls > 0 && add_answers(a, why, &bad) < 0)
        err = &bad;
    end_turn(a, outcome, err);
}

/* ---- cells ----------------------------------------------------------------
 */

static void
on_cell_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct agent *a = ctx;

    context_add_bytes(&a->context, data, len);
    agent_emit(a, &(struct event){.kind = EVENT_OUTPUT,
                                  .cell = a->cell,
                                  .stream = stream,
                                  .text = data,
                                  .len = len});
}

static void
on_cell_output(void *ctx, const struct output *out)
{
    struct agent *a = ctx;

    context_add_output(&a->context, out);
    agent_emit(a, &(struct event){
                      .kind = EVENT_RESULT, .cell = a->cell, .output = out});
}

static void
on_cell_note(void *ctx, const char *kind, const char *text)
{
    struct agent *a = ctx;

    (void)kind;
    context_add_note(&a->context, text);
    agent_notice(a, EVENT_INFO, text);
}

/* The same outcome for person and model; files come first. */
void
agent_cell_over(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};
    const struct sandbox_outcome *o = &a->outcome;
    bool ok = o->outcome == EVENT_OK;

    if (o->error_name != NULL)
        agent_emit(
            a, &(struct event){
                   .kind = EVENT_ERROR,
                   .cell = a->cell,
                   .outcome = o->outcome,
                   .error_name = o->error_name,
                   .text = o->error_value,
                   .len = o->error_value != NULL ? strlen(o->error_value) : 0,
                   .traceback = o->traceback,
                   .hint = o->hint,
               });
    agent_emit(a,
               &(struct event){.kind = EVENT_DONE,
                               .scope = EVENT_SCOPE_CELL,
                               .cell = a->cell,
                               .outcome = o->outcome,
                               .text = o->reason,
                               .len = o->reason != NULL ? strlen(o->reason) : 0,
                               .duration_ms = o->duration_ms});
    sbuf_init(&text, MAX_RESULT_BYTES);
    context_add_result(&a->context, o, &text);
    context_fini(&a->context);
    set_answer(a, a->at_call, !ok, text.data, text.len);
    agent_free_outcome(a);
    a->at_call++;
    if (a->cancelled) {
        stop_calls(a, EVENT_INTERRUPTED, INTERRUPTED, NULL);
        return;
    }
    next_call(a);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct agent *a = ctx;

    (void)end;
    a->op = NULL;
    if (err != NULL) {
        context_fini(&a->context);
        set_answer(a, a->at_call, true, err->msg, strlen(err->msg));
        agent_emit(a, &(struct event){.kind = EVENT_DONE,
                                      .scope = EVENT_SCOPE_CELL,
                                      .cell = a->cell,
                                      .outcome = err->code == ERR_CANCELLED
                                                     ? EVENT_INTERRUPTED
                                                     : EVENT_FAILED});
        if (err->code == ERR_CANCELLED || a->cancelled)
            stop_calls(a, EVENT_INTERRUPTED, INTERRUPTED, NULL);
        else
            stop_calls(a, EVENT_FAILED,
                       "Not executed: there is no sandbox to run it in.", err);
        return;
    }
    agent_keep_outcome(a, outcome);
    agent_collect_files(a);
}

static void
start_cell(struct agent *a)
{
    static const struct sandbox_cell_handlers on = {
        .on_bytes = on_cell_bytes,
        .on_output = on_cell_output,
        .on_note = on_cell_note,
        .on_done = on_cell_done,
    };

    emit_status(a, sandbox_state(a->config.sandbox) == SANDBOX_OPENING
                       ? "starting the sandbox"
                       : "running");
    /* The files were listed meanwhile. */
    if (a->cancelled) {
        stop_calls(a, EVENT_INTERRUPTED, INTERRUPTED, NULL);
        return;
    }
    context_init(&a->context);
    a->op = sandbox_run_cell(a->config.sandbox,
                             &(struct sandbox_cell){
                                 .code = a->code,
                                 .code_len = strlen(a->code),
                                 .timeout_ms = a->config.cell_ms,
                                 .number = a->cell,
                             },
                             &on, a);
}

static void
on_cell_barrier(void *ctx, const struct error *err)
{
    struct agent *a = ctx;

    if (err != NULL || a->sink_err.code != ERR_NONE) {
        stop_calls(a, EVENT_FAILED, "Not executed: it could not be recorded.",
                   err != NULL ? err : &a->sink_err);
        return;
    }
    if (a->cancelled) {
        stop_calls(a, EVENT_INTERRUPTED, INTERRUPTED, NULL);
        return;
    }
    agent_list_before(a, start_cell);
}

/* Runs the next call of the reply, or sends all answers. */
static void
next_call(struct agent *a)
{
    AUTO_SBUF struct sbuf why = {0};
    struct error err = {0};

    sbuf_init(&why, MAX_RESULT_BYTES);
    for (; a->at_call < a->n_calls; a->at_call++) {
        free(a->code);
        a->code = tools_read_code(&a->calls[a->at_call], &why);
        if (a->code != NULL)
            break;
        set_answer(a, a->at_call, true, why.data, why.len);
        sbuf_clear(&why);
        agent_notice(a, EVENT_WARNING,
                     "a call of the model could not be run; it is told");
    }
    if (a->at_call == a->n_calls) {
        if (add_answers(a, "", &err) < 0) {
            end_turn(a, EVENT_FAILED, &err);
            return;
        }
        send_request(a);
        return;
    }
    a->state = AGENT_RUNNING;
    a->cell = ++a->n_cells;
    a->n_turn_cells++;
    agent_emit(a, &(struct event){.kind = EVENT_CODE,
                                  .cell = a->cell,
                                  .text = a->code,
                                  .len = strlen(a->code),
                                  .end = true});
    sink_chain_barrier(a->config.chain, SINK_CELL_STARTED, on_cell_barrier, a);
}

/* ---- replies --------------------------------------------------------------
 */

static void
on_thinking(void *ctx, const char *text, size_t len, bool end)
{
    struct agent *a = ctx;

    emit_status(a, "thinking");
    emit_text(a, EVENT_THINKING, text, len, end);
}

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct agent *a = ctx;

    emit_status(a, "answering");
    emit_text(a, EVENT_TEXT, text, len, end);
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    struct agent *a = ctx;

    (void)name;
    (void)input;
    (void)len;
    emit_status(a, "writing code");
}

static void
on_discard(void *ctx)
{
    struct agent *a = ctx;

    emit_text(a, EVENT_THINKING, NULL, 0, true);
    emit_text(a, EVENT_TEXT, NULL, 0, true);
    agent_notice(a, EVENT_WARNING,
                 "the reply broke off; what is above is void and asked for "
                 "again");
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
}

static void
on_notice(void *ctx, const char *text)
{
    struct agent *a = ctx;

    agent_notice(a, EVENT_WARNING, text);
}

static void
take_calls(struct agent *a, const struct claude_reply *reply)
{
    free_reply(a);
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
    agent_emit(a, &(struct event){.kind = EVENT_REPLY,
                                  .text = reply->content,
                                  .len = strlen(reply->content),
                                  .stop_reason = reply->stop_reason,
                                  .usage = &reply->usage});
    return 0;
}

static void
refuse(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    /* Nothing of it is kept, and the question goes too, since the same context
       would be refused again. */
    error_fill(&err, ERR_NO_ANSWER, "the model declined to answer%s%s",
               reply->explanation != NULL ? ": " : "",
               reply->explanation != NULL ? reply->explanation : "");
    if (a->n_replies > 0) {
        end_turn(a, EVENT_FAILED, &err);
        return;
    }
    fail_turn(a, EVENT_FAILED, &err);
}

/* The round limit: every open call is answered, and the person is told. */
static void
stop_at_rounds(struct agent *a)
{
    AUTO_FREE char *text = xasprintf(
        "stopped after %d rounds without an answer: limits.rounds; ask again "
        "to go on",
        a->config.max_rounds);
    struct error err = {0};

    error_fill(&err, ERR_LIMIT, "%s", text);
    stop_calls(a, EVENT_LIMIT,
               "Not executed: the limit of rounds for one question was "
               "reached.",
               &err);
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
        end_turn(a, EVENT_FAILED, &err);
        return true;
    }
    send_request(a);
    return true;
}

static void
end_with_answer(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply->stop == CLAUDE_STOP_MAX_TOKENS)
        agent_notice(a, EVENT_WARNING,
                     "the answer was cut at model.max_tokens; ask to continue");
    else if (reply->stop == CLAUDE_STOP_CONTEXT)
        agent_notice(a, EVENT_WARNING,
                     "the conversation has filled the model's context; begin "
                     "a new session");
    else if (nudge(a, reply))
        return;
    if (str_blank(reply->text)) {
        error_fill(
            &err, ERR_NO_ANSWER, "the model ended without an answer (%s)",
            reply->stop_reason != NULL ? reply->stop_reason : "no stop reason");
        fail_turn(a, EVENT_FAILED, &err);
        return;
    }
    end_turn(a, EVENT_OK, NULL);
}

static void
on_reply(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply->stop == CLAUDE_STOP_REFUSAL) {
        refuse(a, reply);
        return;
    }
    if (keep_reply(a, reply, &err) < 0) {
        end_turn(a, EVENT_FAILED, &err);
        return;
    }
    take_calls(a, reply);
    a->n_rounds++;
    if (a->cancelled) {
        stop_calls(a, EVENT_INTERRUPTED, INTERRUPTED, NULL);
    } else if (reply->stop == CLAUDE_STOP_PAUSE &&
               a->n_rounds < a->config.max_rounds) {
        send_request(a);
    } else if (a->n_calls == 0) {
        end_with_answer(a, reply);
    } else if (a->n_rounds >= a->config.max_rounds) {
        stop_at_rounds(a);
    } else {
        next_call(a);
    }
}

/* An interrupt in mid-stream: the text that was shown is kept, and nothing
   else; thinking and half a tool call must not be. */
static void
keep_partial(struct agent *a, const struct claude_reply *reply)
{
    struct error err = {0};

    if (reply == NULL || str_blank(reply->text))
        return;
    if (claude_history_add_assistant(a->history, reply->content, NULL, 0,
                                     &err) == 0)
        a->n_replies++;
}

static void
on_claude_done(void *ctx, const struct claude_reply *reply,
               const struct error *err)
{
    struct agent *a = ctx;

    a->call = NULL;
    if (reply != NULL)
        usage_add(&a->usage, &reply->usage);
    if (err == NULL) {
        on_reply(a, reply);
        return;
    }
    emit_text(a, EVENT_THINKING, NULL, 0, true);
    emit_text(a, EVENT_TEXT, NULL, 0, true);
    if (err->code == ERR_CANCELLED) {
        keep_partial(a, reply);
        if (a->n_replies > 0)
            agent_tell(a, CUT_OFF);
        fail_turn(a, EVENT_INTERRUPTED, NULL);
        return;
    }
    fail_turn(a, EVENT_FAILED, err);
}

static void
on_request_barrier(void *ctx, const struct error *err)
{
    static const struct claude_handlers on = {
        .on_thinking = on_thinking,
        .on_text = on_text,
        .on_tool = on_tool,
        .on_discard = on_discard,
        .on_retry = on_retry,
        .on_notice = on_notice,
        .on_done = on_claude_done,
    };
    struct agent *a = ctx;
    struct error bad = {0};

    if (err != NULL || a->sink_err.code != ERR_NONE) {
        fail_turn(a, EVENT_FAILED, err != NULL ? err : &a->sink_err);
        return;
    }
    a->status = NULL;
    emit_status(a, "waiting for the model");
    if (a->cancelled) {
        fail_turn(a, EVENT_INTERRUPTED, NULL);
        return;
    }
    a->call = claude_send(a->config.claude, a->history, &on, a, &bad);
    if (a->call == NULL)
        fail_turn(a, EVENT_FAILED, &bad);
}

static void
send_request(struct agent *a)
{
    a->state = AGENT_ASKING;
    sink_chain_barrier(a->config.chain, SINK_REQUEST_SENT, on_request_barrier,
                       a);
}

/* ---- public ---------------------------------------------------------------
 */

struct agent *
agent_new(const struct agent_config *config)
{
    struct agent *a = xcalloc(1, sizeof(*a));

    a->config = *config;
    a->history = claude_history_new();
    sbuf_init(&a->told, MAX_TOLD_BYTES);
    sbuf_init(&a->told_sent, MAX_TOLD_BYTES);
    agent_files_init(a);
    return a;
}

void
agent_free(struct agent *a)
{
    if (a == NULL)
        return;
    loop_task_remove(a->end_task);
    free_reply(a);
    if (a->context.tail != NULL)
        context_fini(&a->context);
    agent_free_outcome(a);
    agent_files_fini(a);
    free(a->code);
    sbuf_fini(&a->told);
    sbuf_fini(&a->told_sent);
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

int
agent_ask(struct agent *a, const char *question, struct error *err)
{
    AUTO_SBUF struct sbuf text = {0};

    if (agent_is_busy(a))
        return err_set(err, ERR_INTERNAL, "a question is being answered");
    if (str_blank(question))
        return err_set(err, ERR_USAGE, "the question is empty");
    if (a->config.claude == NULL)
        return err_set(err, ERR_AUTH, "there is no API key");
    sbuf_init(&text, MAX_QUESTION_BYTES + MAX_TOLD_BYTES);
    if (a->told.len > 0) {
        sbuf_add(&text, a->told.data, a->told.len);
        sbuf_add_str(&text, "\n");
    }
    sbuf_add_str(&text, question);
    if (!sbuf_ok(&text))
        return err_set(err, ERR_TOO_LARGE,
                       "the question has more than %u bytes",
                       MAX_QUESTION_BYTES);
    a->mark = claude_history_mark(a->history);
    if (claude_history_add_user(a->history, text.data, text.len, err) < 0)
        return -1;
    sbuf_clear(&a->told_sent);
    sbuf_add(&a->told_sent, a->told.data, a->told.len);
    sbuf_clear(&a->told);
    a->cancelled = false;
    a->n_rounds = 0;
    a->n_replies = 0;
    a->n_nudges = 0;
    a->n_turn_cells = 0;
    memset(&a->usage, 0, sizeof(a->usage));
    memset(&a->sink_err, 0, sizeof(a->sink_err));
    memset(&a->end_err, 0, sizeof(a->end_err));
    a->turn_start_ms = clock_now_ms();
    a->state = AGENT_ASKING;
    emit_text(a, EVENT_QUESTION, question, strlen(question), true);
    send_request(a);
    return 0;
}

void
agent_cancel(struct agent *a)
{
    if (!agent_is_busy(a) || a->cancelled)
        return;
    a->cancelled = true;
    if (a->call != NULL)
        claude_cancel(a->call);
    else if (a->op != NULL)
        sandbox_cancel(a->op);
}
