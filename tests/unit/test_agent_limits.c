/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where the agent stops by itself, and how a person goes on: money, time, the
 * same call again and again, :retry.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/str.h"
#include "helpers/agent_fixture.h"
#include "model/price.h"

#define CENT (PRICE_DOLLAR / 100)

/* 4, 20, 5, 8 and 0.20 dollars for a million tokens. */
static char model[] = "claude-opus-5-5";
static const struct price price = {
    .model = model,
    .rates = {4000000, 20000000, 5000000, 8000000, 200000},
};

static struct fixture *
begin_with(int64_t budget, int64_t turn)
{
    struct fixture *f = fixture_begin();

    f->config.price = &price;
    f->config.budget_nanousd = budget;
    f->config.turn_nanousd = turn;
    f->config.prompt_bytes = 1000;
    remake_agent(f);
    return f;
}

/* A reply with one call, of so many tokens in all. */
static void
add_call(struct fixture *f, const char *id, const char *code, const char *usage,
         int output_tokens)
{
    x_begin_with(f, usage);
    x_python(f, id, code);
    x_end_with(f, "tool_use", output_tokens);
}

/* ---- cost -----------------------------------------------------------------
 */

static void
test_cost_of_turns_and_session(void **state)
{
    struct fixture *f = begin_with(0, 0);
    const struct agent_spent *spent = NULL;
    const int64_t first = 10 * 4000 + 20 * 5000 + 30 * 200 + 100 * 20000;

    (void)state;
    add_call(f, "t1", "print 1",
             "\"input_tokens\":10,\"cache_creation_input_tokens\":20,"
             "\"cache_read_input_tokens\":30",
             100);
    x_answer(f, "One.");
    expect_ok(f, "q");
    assert_int_equal(agent_n_turns(f->agent), 1);
    spent = agent_turn_spent(f->agent, 0);
    assert_int_equal(spent->n_replies, 2);
    assert_int_equal(spent->usage.input_tokens, 20);
    assert_int_equal(spent->usage.cache_write_5m_tokens, 20);
    assert_int_equal(spent->usage.cache_read_tokens, 30);
    assert_int_equal(spent->usage.output_tokens, 107);
    assert_int_equal(spent->nanousd, first + 10 * 4000 + 7 * 20000);
    assert_false(spent->at_least);
    expect_logged(f, "done turn ok $2326000\n");
    expect_next_is_fine(f);
    assert_int_equal(agent_n_turns(f->agent), 2);
    assert_int_equal(agent_turn_spent(f->agent, 1)->nanousd,
                     10 * 4000 + 7 * 20000);
    assert_int_equal(agent_session_spent(f->agent)->nanousd,
                     first + 2 * (10 * 4000 + 7 * 20000));
    assert_int_equal(agent_session_spent(f->agent)->n_replies, 3);
    fixture_end(f);
}

static void
test_no_price_no_cost(void **state)
{
    struct fixture *f = fixture_begin();
    struct error err = {0};

    (void)state;
    x_answer(f, "A.");
    expect_ok(f, "q");
    assert_null(strstr(f->log.data, "$"));
    assert_int_equal(agent_session_spent(f->agent)->usage.input_tokens, 10);
    assert_int_equal(agent_set_budget(f->agent, PRICE_DOLLAR, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_int_equal(agent_set_budget(f->agent, 0, &err), 0);
    fixture_end(f);
}

/* What is known of a reply that was cut off counts, and is said to be less
   than all. */
static void
test_cost_of_a_reply_that_was_stopped(void **state)
{
    struct fixture *f = begin_with(0, 0);

    (void)state;
    x_begin_with(f, "\"input_tokens\":1000,\"output_tokens\":5");
    x_open_text(f, "half");
    x_hang(f);
    assert_int_equal(ask_and_cancel(f, "q", 30), EVENT_INTERRUPTED);
    assert_true(agent_turn_spent(f->agent, 0)->at_least);
    assert_int_equal(agent_turn_spent(f->agent, 0)->nanousd,
                     1000 * 4000 + 5 * 20000);
    expect_logged(f, "done turn interrupted $4100000+\n");

    clear_exchanges(f);
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_open_text(f, "half");
    add_piece(f, PIECE_CUT, NULL);
    x_answer(f, "Whole.");
    expect_ok(f, "again");
    assert_true(agent_turn_spent(f->agent, 1)->at_least);
    fixture_end(f);
}

/* ---- budgets --------------------------------------------------------------
 */

/* A prompt of 17,000 tokens and a useful reply cost 85 + 82 thousandths. */
static void
test_budget_stops_before_a_call(void **state)
{
    struct fixture *f = begin_with(50 * CENT, 0);
    struct error err = {0};

    (void)state;
    add_call(f, "t1", "print 1", "\"input_tokens\":1000", 8000);
    add_call(f, "t2", "print 2", "\"input_tokens\":9000", 8000);
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->n_requests, 2);
    assert_int_equal(f->err.code, ERR_LIMIT);
    assert_string_equal(f->err.msg, "stopped before call 3: $0.36 spent, it "
                                    "could cost $0.17, limit $0.50");
    expect_logged(f, " {model.budget_usd budget 100, kept 1-2}");
    assert_true(agent_session_spent(f->agent)->nanousd < 50 * CENT);

    /* It goes on where it stood: nothing is asked or run again. */
    assert_int_equal(agent_set_budget(f->agent, PRICE_DOLLAR, &err), 0);
    clear_exchanges(f);
    x_answer(f, "At last.");
    assert_int_equal(retry(f), EVENT_OK);
    assert_int_equal(f->n_requests, 1);
    assert_int_equal(count(f->last.data, "\"q\""), 1);
    expect_nothing_ran_twice(f);
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_budget_makes_the_reply_shorter(void **state)
{
    struct fixture *f = begin_with(20 * CENT, 0);

    (void)state;
    x_begin(f);
    x_text(f, "A long story");
    x_end(f, "max_tokens");
    expect_ok(f, "q");
    assert_in_range(f->max_tokens, 4096, 10000);
    expect_logged(f, "the answer was cut, since the budget allows no longer");
    f->config.budget_nanousd = 0;
    remake_agent(f);
    sbuf_clear(&f->last);
    clear_exchanges(f);
    x_answer(f, "A.");
    expect_ok(f, "q");
    assert_int_equal(f->max_tokens, 32000);
    fixture_end(f);
}

/* A model may have shorter replies than are asked for. */
static void
test_reply_is_no_longer_than_the_model_has(void **state)
{
    struct fixture *f = fixture_begin();
    struct price small = price;

    (void)state;
    small.max_output_tokens = 2000;
    f->config.price = &small;
    remake_agent(f);
    x_begin(f);
    x_text(f, "A long story");
    x_end(f, "max_tokens");
    expect_ok(f, "q");
    assert_int_equal(f->max_tokens, 2000);
    assert_null(strstr(f->log.data, "budget"));
    fixture_end(f);
}

static void
test_budget_that_allows_nothing(void **state)
{
    struct fixture *f = begin_with(CENT, 0);
    struct error err = {0};

    (void)state;
    assert_int_equal(ask(f, "first question"), EVENT_LIMIT);
    assert_int_equal(f->n_requests, 0);
    assert_int_equal(f->err.code, ERR_LIMIT);
    expect_logged(f, "(stopped before call 1: $0.000 spent, it could cost ");
    expect_logged(f, ", limit $0.010)");
    expect_logged(f, " {model.budget_usd budget 10, kept 0-0}\n");
    /* The question is kept. */
    assert_int_equal(agent_set_budget(f->agent, 0, &err), 0);
    x_answer(f, "Now.");
    assert_int_equal(retry(f), EVENT_OK);
    expect_sent(f, "first question");
    assert_int_equal(count(f->last.data, "first question"), 1);
    fixture_end(f);
}

static void
test_budget_of_one_question(void **state)
{
    struct fixture *f = begin_with(0, 50 * CENT);

    (void)state;
    for (int i = 0; i < 2; i++) {
        AUTO_FREE char *id = xasprintf("t%d", i);
        AUTO_FREE char *code = xasprintf("print %d", i);

        clear_exchanges(f);
        add_call(f, id, code, "\"input_tokens\":1000", 21000);
        assert_int_equal(i == 0 ? ask(f, "q") : retry(f), EVENT_LIMIT);
        assert_int_equal(f->n_requests, 1);
        expect_logged(f, "stopped before call 2: $0.43 spent");
        expect_logged(f, " {limits.turn_usd retry 0, kept ");
    }
    expect_nothing_ran_twice(f);
    fixture_end(f);
}

/* Whatever a reply costs, as the service tells it: the sum never passes. */
static void
test_budget_is_never_passed(void **state)
{
    (void)state;
    for (int tokens = 1; tokens < 40000; tokens = tokens * 3 + 1) {
        struct fixture *f = begin_with(30 * CENT, 0);

        for (int i = 0; i < 30; i++) {
            AUTO_FREE char *id = xasprintf("t%d", i);
            AUTO_FREE char *code = xasprintf("print %d", i);
            AUTO_FREE char *usage = xasprintf(
                "\"input_tokens\":0,\"cache_creation_input_tokens\":%d",
                500 + 20 * i);

            add_call(f, id, code, usage, tokens);
        }
        ask(f, "q");
        /* A reply of the script may be longer than was asked for. */
        if (tokens <= 4096)
            assert_true(agent_session_spent(f->agent)->nanousd <= 30 * CENT);
        expect_nothing_ran_twice(f);
        fixture_end(f);
    }
}

/* A reply that broke off has cost something too, so that it is not asked for
   again when that could pass the budget. */
static void
test_budget_counts_what_broke_off(void **state)
{
    (void)state;
    for (int has_text = 0; has_text < 2; has_text++) {
        struct fixture *f = begin_with(10 * CENT, 0);

        x_begin(f);
        last_exchange(f)->retry_after_ms = "1";
        if (has_text)
            x_open_text(f, "half");
        add_piece(f, PIECE_CUT, NULL);
        assert_int_equal(ask(f, "q"), EVENT_LIMIT);
        assert_int_equal(f->n_requests, 1);
        expect_logged(f, "stopped before call ");
        assert_true(agent_turn_spent(f->agent, 0)->at_least);
        fixture_end(f);
    }
}

/* Nobody says what a reply has cost that was stopped, so what was seen of it
   counts; else one could read for ever. */
static void
test_budget_counts_what_was_stopped(void **state)
{
    struct fixture *f = begin_with(50 * CENT, 0);
    AUTO_FREE char *text = xcalloc(12001, 1);
    int n_asked = 0;

    (void)state;
    memset(text, 'x', 12000);
    for (enum event_outcome outcome = EVENT_INTERRUPTED;
         outcome == EVENT_INTERRUPTED; n_asked++) {
        assert_true(n_asked < 5);
        clear_exchanges(f);
        x_begin(f);
        x_open_text(f, text);
        x_hang(f);
        outcome = ask_and_cancel(f, "q", 30);
    }
    expect_logged(f, "stopped before call ");
    fixture_end(f);
}

/* ---- time -----------------------------------------------------------------
 */

struct time_case {
    const char *name;
    const char *code; /* NULL: it hangs in the reply */
    const char *expect_sent;
};

static const struct time_case time_cases[] = {
    {"in a reply", NULL, "half an answer"},
    {"in a cell", "hang 1", "the time for one question is over"},
};

static void
test_time_of_a_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(time_cases); i++) {
        const struct time_case *t = &time_cases[i];
        struct fixture *f = fixture_begin();

        f->config.turn_ms = 50;
        remake_agent(f);
        x_begin(f);
        if (t->code != NULL) {
            x_python(f, "t1", t->code);
            x_python(f, "t2", "print 2");
            x_end(f, "tool_use");
        } else {
            x_open_text(f, "half an answer");
            x_hang(f);
        }
        if (ask(f, "first question") != EVENT_LIMIT)
            fail_msg("%s: %s", t->name, event_outcome_name(f->outcome));
        assert_int_equal(f->err.code, ERR_LIMIT);
        assert_in_range(f->took_ms, 45, 2000);
        expect_logged(f, "stopped after 0.1 s without an answer: "
                         "limits.turn_seconds) {limits.turn_seconds retry ");
        f->config.turn_ms = 0;
        clear_exchanges(f);
        x_answer(f, "Whole.");
        assert_int_equal(retry(f), EVENT_OK);
        expect_sent(f, t->expect_sent);
        assert_int_equal(count(f->last.data, "first question"), 1);
        assert_null(strstr(f->ran.data, "print 2"));
        expect_next_is_fine(f);
        fixture_end(f);
    }
}

/* ---- the same again -------------------------------------------------------
 */

static void
add_same(struct fixture *f, int first, int n, const char *code)
{
    for (int i = first; i < first + n; i++) {
        AUTO_FREE char *id = xasprintf("t%d", i);

        x_begin(f);
        if (code != NULL)
            x_python(f, id, code);
        else
            x_tool(f, id, "bash", "{}");
        x_end(f, "tool_use");
    }
}

static void
test_same_call_with_the_same_outcome(void **state)
{
    static const char *const codes[] = {"print 1", "boom 1", "silent 1",
                                        "frame 1", NULL};

    (void)state;
    for (size_t i = 0; i < LEN(codes); i++) {
        struct fixture *f = fixture_begin();

        add_same(f, 0, 4, codes[i]);
        if (ask(f, "q") != EVENT_LIMIT)
            fail_msg("%s: %s", codes[i], event_outcome_name(f->outcome));
        assert_int_equal(f->n_requests, 3);
        assert_int_equal(f->err.code, ERR_LIMIT);
        expect_logged(f, "stopped: the model made the same call with the same "
                         "outcome for the third time) {- rephrase 0, ");
        /* Told once, behind the second. */
        assert_int_equal(count(f->last.data, "This call and its outcome are "
                                             "the same as before"),
                         1);
        expect_next_is_fine(f);
        assert_int_equal(count(f->last.data, "\"tool_use_id\""), 3);
        fixture_end(f);
    }
}

/* Twice is no loop, and each question begins to count anew. */
static void
test_same_call_twice(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    for (int i = 0; i < 2; i++) {
        clear_exchanges(f);
        add_same(f, 2 * i, 2, "print 1");
        x_answer(f, "Done.");
        expect_ok(f, "q");
    }
    fixture_end(f);
}

/* The model knew no outcome yet when it made them. */
static void
test_same_calls_in_one_reply(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    for (int i = 0; i < 5; i++) {
        AUTO_FREE char *id = xasprintf("t%d", i);

        x_python(f, id, "print 1");
    }
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    expect_not_sent(f, "the same as before");
    fixture_end(f);
}

/* ---- :retry ---------------------------------------------------------------
 */

static void
expect_no_retry(struct fixture *f, const char *why)
{
    struct error err = {0};

    assert_int_equal(agent_retry(f->agent, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err.msg, why));
    assert_false(agent_is_busy(f->agent));
}

static void
test_retry_of_nothing(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    expect_no_retry(f, "nothing was asked");
    x_answer(f, "A.");
    expect_ok(f, "q");
    expect_no_retry(f, "the last question was answered");
    fixture_end(f);
}

static void
test_retry_after_a_failure(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    agent_tell(f->agent, "FILE one");
    x_status(f, 400, "{}");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    agent_tell(f->agent, "FILE two");
    x_status(f, 400, "{}");
    assert_int_equal(retry(f), EVENT_FAILED);
    expect_sent(f, "FILE one\\nFILE two\\nfirst question");
    x_answer(f, "A.");
    assert_int_equal(retry(f), EVENT_OK);
    expect_sent(f, "FILE one\\nFILE two\\nfirst question");
    expect_logged(f, "question first question\n");
    expect_no_retry(f, "answered");
    expect_next_is_fine(f);
    assert_int_equal(count(f->last.data, "FILE one"), 1);
    fixture_end(f);
}

/* In the middle: what was done stays, and the request is simply sent again,
   as often as it fails. */
static void
test_retry_in_the_middle(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_status(f, 400, "{}");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    x_status(f, 400, "{}");
    assert_int_equal(retry(f), EVENT_FAILED);
    agent_tell(f->agent, "FILE two");
    x_status(f, 400, "{}");
    assert_int_equal(retry(f), EVENT_FAILED);
    expect_sent(f, "FILE two");
    x_answer(f, "A.");
    assert_int_equal(retry(f), EVENT_OK);
    expect_sent(f, "FILE two");
    assert_int_equal(count(f->last.data, "FILE two"), 1);
    assert_int_equal(count(f->last.data, "first question"), 1);
    assert_string_equal(f->ran.data, "print 1|");
    assert_null(strstr(f->log.data, "question "));
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_retry_after_an_interrupt(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_open_text(f, "partial words");
    x_hang(f);
    assert_int_equal(ask_and_cancel(f, "first question", 30),
                     EVENT_INTERRUPTED);
    x_answer(f, "The rest.");
    assert_int_equal(retry(f), EVENT_OK);
    expect_sent(f, "partial words");
    expect_sent(f, "go on from where you were stopped");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_retry_after_the_limit_of_rounds(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    make_agent(f, 2);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    expect_logged(f, " {limits.rounds retry 0, kept 1-1}");
    x_answer(f, "Now.");
    assert_int_equal(retry(f), EVENT_OK);
    expect_sent(f, "Not executed: the limit of rounds");
    assert_string_equal(f->ran.data, "print 1|");
    expect_next_is_fine(f);
    fixture_end(f);
}

/* Variables of cells up to a loss are not, and those of the next cell are. */
static void
test_what_is_kept_after_a_loss(void **state)
{
    static const struct {
        const char *first;
        const char *kept;
    } cases[] = {
        {"print 1", "kept 1-2}"},
        {"gone 1", "kept 2-2}"},
        {"died 1", "kept 2-2}"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct fixture *f = fixture_begin();

        make_agent(f, 3);
        x_begin(f);
        x_python(f, "t1", cases[i].first);
        x_end(f, "tool_use");
        x_begin(f);
        x_python(f, "t2", "print 2");
        x_end(f, "tool_use");
        x_begin(f);
        x_python(f, "t3", "print 3");
        x_end(f, "tool_use");
        assert_int_equal(ask(f, "q"), EVENT_LIMIT);
        expect_logged(f, cases[i].kept);
        fixture_end(f);
    }
}

/* A reply that is paused over and over is no answer. */
static void
test_pauses_end_at_the_limit_of_rounds(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    make_agent(f, 3);
    f->may_pause = true;
    for (int i = 0; i < 3; i++) {
        x_begin(f);
        x_text(f, "Still at it.");
        x_end(f, "pause_turn");
    }
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->n_requests, 3);
    expect_logged(f, "limits.rounds");
    fixture_end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_of_turns_and_session),
        cmocka_unit_test(test_no_price_no_cost),
        cmocka_unit_test(test_cost_of_a_reply_that_was_stopped),
        cmocka_unit_test(test_budget_stops_before_a_call),
        cmocka_unit_test(test_budget_makes_the_reply_shorter),
        cmocka_unit_test(test_reply_is_no_longer_than_the_model_has),
        cmocka_unit_test(test_budget_that_allows_nothing),
        cmocka_unit_test(test_budget_of_one_question),
        cmocka_unit_test(test_budget_is_never_passed),
        cmocka_unit_test(test_budget_counts_what_broke_off),
        cmocka_unit_test(test_budget_counts_what_was_stopped),
        cmocka_unit_test(test_time_of_a_turn),
        cmocka_unit_test(test_same_call_with_the_same_outcome),
        cmocka_unit_test(test_same_call_twice),
        cmocka_unit_test(test_same_calls_in_one_reply),
        cmocka_unit_test(test_retry_of_nothing),
        cmocka_unit_test(test_retry_after_a_failure),
        cmocka_unit_test(test_retry_in_the_middle),
        cmocka_unit_test(test_retry_after_an_interrupt),
        cmocka_unit_test(test_retry_after_the_limit_of_rounds),
        cmocka_unit_test(test_what_is_kept_after_a_loss),
        cmocka_unit_test(test_pauses_end_at_the_limit_of_rounds),
    };

    return cmocka_run_group_tests_name("agent limits", tests, NULL, NULL);
}
