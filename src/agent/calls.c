/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/context_internal.h"
#include "agent/tools_internal.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/history.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define MAX_RESULT_BYTES (512u << 10)

/* How often the same call may end in the same way: told the second time, the
   end of the turn at the third. */
#define TOLD_REPEATS 2
#define MAX_REPEATS 3

/* What the person is told of a cell that never ran. */
#define NOT_BEGUN "Stopped before it began."

#define REPEATED                                                               \
    "This call and its outcome are the same as before; a third time ends the " \
    "turn. Do something else, or answer with what is known."

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

void
agent_free_calls(struct agent *a)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        free(a->calls[i].id);
        free(a->calls[i].name);
        free(a->calls[i].input);
        free(a->calls[i].raw_input);
        free(a->answers[i].text);
        agent_free_images(a->answers[i].images, a->answers[i].n_images);
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
    size_t len = 0;
    int rc = 0;

    for (size_t i = 0; i < a->n_calls; i++) {
        if (a->answers[i].text == NULL)
            set_answer(a, i, true, why, strlen(why));
        results[i] = (struct claude_tool_result){
            .tool_use_id = a->calls[i].id,
            .text = a->answers[i].text,
            .len = a->answers[i].len,
            .is_error = a->answers[i].is_error,
            .images = a->answers[i].images,
            .n_images = a->answers[i].n_images,
        };
    }
    (void)claude_history_text(a->history, &len);
    rc = claude_history_add_results(a->history, results, a->n_calls, NULL, err);
    if (rc == 0)
        agent_know_images(a, results, a->n_calls, len);
    agent_free_calls(a);
    return rc;
}

/* Answers what is open and ends the turn. */
void
agent_stop_calls(struct agent *a, enum event_outcome outcome, const char *why,
                 const struct error *err)
{
    struct error bad = {0};

    if (a->n_calls > 0 && add_answers(a, why, &bad) < 0)
        err = &bad;
    agent_end_turn(a, outcome, err);
}

/* ---- cells ----------------------------------------------------------------
 */

static void
on_cell_begin(void *ctx)
{
    agent_emit_status(ctx, "running");
}

static void
on_cell_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct agent *a = ctx;

    context_add_bytes(&a->context, stream, data, len);
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
    agent_keep_chart(a, out);
    agent_emit(a, &(struct event){
                      .kind = EVENT_RESULT, .cell = a->cell, .output = out});
}

static void
on_cell_note(void *ctx, const char *kind, const char *text)
{
    struct agent *a = ctx;

    if (str_eq(kind, "file")) {
        agent_offer_file(a, text);
        return;
    }
    context_add_note(&a->context, text);
    agent_notice(a, EVENT_INFO, text);
}

/* How often this cell and what came of it were there in this turn. What is
   different each time is left out: the time that it took, and the number of
   the cell in the traceback. */
static int
count_cell(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_FREE char *frame = xasprintf("<cell %d>", a->cell);
    struct sandbox_outcome o = a->outcome;

    o.duration_ms = 0;
    sbuf_init(&text, MAX_RESULT_BYTES);
    context_add_result(&a->context, &o, &text);
    for (char *p = strstr(text.data, frame); p != NULL; p = strstr(p, frame)) {
        size_t at = (size_t)(p - text.data);

        memmove(p, p + strlen(frame), text.len - at - strlen(frame) + 1);
        text.len -= strlen(frame);
    }
    return agent_count_repeat(a, a->calls[a->at_call].name, a->language,
                              a->code, text.data, text.len);
}

static void
emit_cell_over(struct agent *a)
{
    const struct sandbox_outcome *o = &a->outcome;

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
}

/* Behind a call that has its answer, and came n times with it. */
static void
go_on(struct agent *a, int n)
{
    a->at_call++;
    if (a->stop != AGENT_GO_ON)
        agent_end_stopped(a);
    else if (n >= MAX_REPEATS)
        agent_end_repeating(a);
    else
        agent_next_call(a);
}

/* The same outcome for person and model; files come first. */
void
agent_cell_over(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};
    bool ok = a->outcome.outcome == EVENT_OK;
    int n = 0;

    emit_cell_over(a);
    if (a->outcome.still_stopping)
        a->first_kept_cell = a->cell + 1;
    if (a->stop == AGENT_STOP_TIME)
        context_add_note(&a->context, "the time for one question is over");
    n = count_cell(a);
    if (n == TOLD_REPEATS)
        context_add_note(&a->context, REPEATED);
    sbuf_init(&text, MAX_RESULT_BYTES);
    context_add_result(&a->context, &a->outcome, &text);
    context_fini(&a->context);
    set_answer(a, a->at_call, !ok, text.data, text.len);
    agent_free_outcome(a);
    go_on(a, n);
}

/* A cell that did not run, or that took the sandbox with it. It waited for an
   earlier one that may take the variables of all with it. */
static void
end_without_outcome(struct agent *a, const struct sandbox_outcome *outcome,
                    const struct error *err)
{
    bool is_stopped = err->code == ERR_CANCELLED;
    const char *why = is_stopped        ? NOT_BEGUN
                      : outcome != NULL ? outcome->reason
                                        : NULL;
    AUTO_FREE char *text = xasprintf("%s%s%s", why != NULL ? why : "",
                                     why != NULL ? "\n" : "", err->msg);

    agent_charts_fini(a);
    context_fini(&a->context);
    /* One that was stopped is answered like those behind it. */
    if (!is_stopped)
        set_answer(a, a->at_call, true, text, strlen(text));
    a->first_kept_cell = a->cell + 1;
    agent_emit(a, &(struct event){.kind = EVENT_DONE,
                                  .scope = EVENT_SCOPE_CELL,
                                  .cell = a->cell,
                                  .outcome = is_stopped    ? EVENT_INTERRUPTED
                                             : why != NULL ? outcome->outcome
                                                           : EVENT_FAILED,
                                  .text = why,
                                  .len = why != NULL ? strlen(why) : 0});
    if (is_stopped || a->stop != AGENT_GO_ON)
        agent_end_stopped(a);
    else
        agent_stop_calls(a, EVENT_FAILED,
                         "Not executed: there is no sandbox to run it in.",
                         err);
}

/* Whether it is the language alone that could not be run: the sandbox is as
   before, and open. */
static bool
lacks_language(const struct agent *a, enum sandbox_end end,
               const struct error *err)
{
    return a->language != NULL && end == SANDBOX_ERROR &&
           err->code == ERR_UNSUPPORTED &&
           sandbox_state(a->config.sandbox) != SANDBOX_FAILED;
}

static void
end_without_language(struct agent *a, const struct error *err)
{
    AUTO_FREE char *notice = xasprintf("cell %d did not run: this sandbox has "
                                       "no interpreter for %s; the model "
                                       "is told",
                                       a->cell, a->language);
    AUTO_SBUF struct sbuf why = {0};
    int n = 0;

    agent_charts_fini(a);
    context_fini(&a->context);
    sbuf_init(&why, MAX_RESULT_BYTES);
    sbuf_addf(&why,
              "Not executed: this sandbox has no interpreter for %s (%s). "
              "Variables of other languages are kept.",
              a->language, err->msg);
    n = agent_count_repeat(a, a->calls[a->at_call].name, a->language, a->code,
                           why.data, why.len);
    if (n == TOLD_REPEATS)
        sbuf_add_str(&why, " " REPEATED);
    set_answer(a, a->at_call, true, why.data, why.len);
    agent_emit(a, &(struct event){.kind = EVENT_DONE,
                                  .scope = EVENT_SCOPE_CELL,
                                  .cell = a->cell,
                                  .outcome = EVENT_FAILED});
    agent_notice(a, EVENT_WARNING, notice);
    go_on(a, n);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct agent *a = ctx;

    a->op = NULL;
    if (err != NULL && lacks_language(a, end, err)) {
        end_without_language(a, err);
        return;
    }
    if (err != NULL) {
        end_without_outcome(a, outcome, err);
        return;
    }
    agent_keep_outcome(a, outcome);
    if (!outcome->still_stopping) {
        agent_collect_files(a);
        return;
    }
    /* What it still writes is found after the next cell: as new, not as what
       was there before that. */
    a->seen_known = true;
    agent_send_charts(a);
}

/* What goes on until the cell begins. */
static const char *
waiting_for(const struct sandbox *sb)
{
    switch (sandbox_state(sb)) {
    case SANDBOX_BUSY:
        /* With a cell that was stopped and has not ended, or with loading
           files again. */
        return "waiting for the sandbox";
    case SANDBOX_NEW:
    case SANDBOX_OPENING:
    case SANDBOX_FAILED:
        return "starting the sandbox";
    case SANDBOX_IDLE:
    case SANDBOX_SUSPENDED:
        break;
    }
    return "running";
}

static void
start_cell(struct agent *a)
{
    static const struct sandbox_cell_handlers on = {
        .on_begin = on_cell_begin,
        .on_bytes = on_cell_bytes,
        .on_output = on_cell_output,
        .on_note = on_cell_note,
        .on_done = on_cell_done,
    };

    agent_emit_status(a, waiting_for(a->config.sandbox));
    /* The files were listed meanwhile. */
    if (a->stop != AGENT_GO_ON) {
        agent_end_stopped(a);
        return;
    }
    agent_forget_offers(a);
    context_init(&a->context, a->config.result_bytes, a->config.result_rows);
    a->op = sandbox_run_cell(a->config.sandbox,
                             &(struct sandbox_cell){
                                 .code = a->code,
                                 .code_len = strlen(a->code),
                                 .language = a->language,
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
        agent_stop_calls(a, EVENT_FAILED,
                         "Not executed: it could not be recorded.",
                         err != NULL ? err : &a->sink_err);
        return;
    }
    if (a->stop != AGENT_GO_ON) {
        agent_end_stopped(a);
        return;
    }
    agent_list_before(a, start_cell);
}

/* Answers a call that is not run with why. How often it came by now. */
static int
refuse_call(struct agent *a, struct sbuf *why)
{
    const struct claude_tool_call *call = &a->calls[a->at_call];
    const char *input = call->raw_input != NULL ? call->raw_input : "";
    int n = agent_count_repeat(a, call->name, NULL, input, why->data, why->len);

    if (n == TOLD_REPEATS)
        sbuf_add_str(why, " " REPEATED);
    set_answer(a, a->at_call, true, why->data, why->len);
    agent_notice(a, EVENT_WARNING,
                 "a call of the model could not be run; it is told");
    return n;
}

/* Goes to the next call that can be run and takes its code; false: the turn
   was ended. */
static bool
find_call(struct agent *a)
{
    for (; a->at_call < a->n_calls; a->at_call++) {
        AUTO_SBUF struct sbuf why = {0};

        sbuf_init(&why, MAX_RESULT_BYTES);
        free(a->code);
        free(a->language);
        a->code = tools_read_code(&a->calls[a->at_call],
                                  sandbox_caps(a->config.sandbox), &a->language,
                                  &why);
        if (a->code != NULL)
            return true;
        if (refuse_call(a, &why) >= MAX_REPEATS) {
            agent_end_repeating(a);
            return false;
        }
    }
    return true;
}

void
agent_next_call(struct agent *a)
{
    struct error err = {0};

    if (!find_call(a))
        return;
    if (a->at_call == a->n_calls) {
        if (add_answers(a, "", &err) < 0) {
            agent_end_turn(a, EVENT_FAILED, &err);
            return;
        }
        agent_send_request(a);
        return;
    }
    a->state = AGENT_RUNNING;
    a->cell = ++a->n_cells;
    a->n_turn_cells++;
    agent_emit(a, &(struct event){.kind = EVENT_CODE,
                                  .cell = a->cell,
                                  .text = a->code,
                                  .len = strlen(a->code),
                                  .language = a->language,
                                  .end = true});
    sink_chain_barrier(a->config.chain, SINK_CELL_STARTED, on_cell_barrier, a);
}
