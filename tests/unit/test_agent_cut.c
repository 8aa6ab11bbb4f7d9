/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Replies that the limit of tokens cuts in a call or in thinking: asked for
 * once more with a larger limit, then the end of the turn. And calls that are
 * left out, since the reply did not end with them, and refusals.
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

static char model[] = "claude-opus-5-5";
static const struct price price = {
    .model = model,
    .rates = {4000000, 20000000, 5000000, 8000000, 200000},
    .max_output_tokens = 128000,
};

enum cut {
    CUT_IN_CALL,
    CUT_BEHIND_CALL, /* which is whole, and still not to be run */
    CUT_IN_THINKING,
    CUT_AT_ONCE
};

struct cut_case {
    const char *name;
    enum cut cut;
    const char *expect;
};

static const struct cut_case cut_cases[] = {
    {"in a call", CUT_IN_CALL, "in the middle of a call"},
    {"behind a call", CUT_BEHIND_CALL, "in the middle of a call"},
    {"in thinking", CUT_IN_THINKING, "before it said anything"},
    {"at once", CUT_AT_ONCE, "before it said anything"},
};

static void
add_cut(struct fixture *f, enum cut cut, int output_tokens)
{
    x_begin(f);
    if (cut != CUT_AT_ONCE)
        x_thinking(f, "hm");
    if (cut == CUT_IN_CALL || cut == CUT_BEHIND_CALL)
        x_text(f, "Void words.");
    if (cut == CUT_IN_CALL)
        x_open_tool(f, "c1", "run_python", "{\"code\":\"print void");
    if (cut == CUT_BEHIND_CALL)
        x_python(f, "c1", "print void");
    x_end_with(f, "max_tokens", output_tokens);
}

static void
add_cell(struct fixture *f, const char *id, const char *code)
{
    x_begin(f);
    x_python(f, id, code);
    x_end(f, "tool_use");
}

static struct fixture *
begin_with(int64_t budget, int64_t turn, int64_t max_output)
{
    struct fixture *f = fixture_begin();
    static struct price own;

    own = price;
    own.max_output_tokens = max_output;
    f->config.price = &own;
    f->config.budget_nanousd = budget;
    f->config.turn_nanousd = turn;
    f->config.prompt_bytes = 1000;
    remake_agent(f);
    return f;
}

/* ---- asked for again ------------------------------------------------------
 */

static void
test_cut_is_asked_for_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * LEN(cut_cases); i++) {
        const struct cut_case *t = &cut_cases[i / 2];
        struct fixture *f = fixture_begin();
        bool behind_a_cell = i % 2 == 1;

        if (behind_a_cell)
            add_cell(f, "t0", "print 0");
        add_cut(f, t->cut, 32000);
        add_cell(f, "t1", "print 1");
        x_answer(f, "Done.");
        expect_ok(f, t->name);
        assert_int_equal(f->n_requests, behind_a_cell ? 4 : 3);
        assert_int_equal(f->max_tokens, 128000);
        assert_string_equal(f->ran.data,
                            behind_a_cell ? "print 0|print 1|" : "print 1|");
        expect_logged(f, "text void\nnotice the reply was cut at 32,000 "
                         "tokens, ");
        expect_logged(f, t->expect);
        expect_logged(f, "; what was shown of it is void, and it is asked for "
                         "again with up to 128,000\n");
        expect_not_sent(f, "oid");
        expect_not_sent(f, "c1");
        /* The next turn begins as every turn. */
        expect_next_is_fine(f);
        assert_int_equal(f->max_tokens, 32000);
        fixture_end(f);
    }
}

static void
test_cut_where_no_limit_is_known(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    f->config.max_tokens = 0;
    remake_agent(f);
    add_cut(f, CUT_IN_CALL, 900);
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_int_equal(f->max_tokens, 128000);
    expect_logged(f, "cut at 900 tokens");
    expect_next_is_fine(f);
    assert_int_equal(f->max_tokens, 32000);
    fixture_end(f);
}

static void
test_the_model_has_less(void **state)
{
    struct fixture *f = begin_with(0, 0, 64000);

    (void)state;
    add_cut(f, CUT_IN_THINKING, 32000);
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_int_equal(f->max_tokens, 64000);
    fixture_end(f);
}

/* The budget allows more than was asked for first, but not all. */
static void
test_the_budget_has_less(void **state)
{
    struct fixture *f = begin_with(200 * CENT, 0, 128000);

    (void)state;
    add_cut(f, CUT_IN_CALL, 32000);
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_in_range(f->max_tokens, 40000, 100000);
    fixture_end(f);
}

/* ---- the end --------------------------------------------------------------
 */

static void
test_cut_again_ends_the_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * LEN(cut_cases); i++) {
        const struct cut_case *t = &cut_cases[i / 2];
        struct fixture *f = fixture_begin();
        bool behind_a_cell = i % 2 == 1;
        AUTO_FREE char *expect =
            xasprintf("(stopped: the reply was cut at 128,000 tokens, %s: "
                      "model.max_tokens) {model.max_tokens smaller 0, kept %s}",
                      t->expect, behind_a_cell ? "1-1" : "0-0");

        if (behind_a_cell)
            add_cell(f, "t0", "print 0");
        add_cut(f, t->cut, 32000);
        add_cut(f, t->cut, 128000);
        assert_int_equal(ask(f, "first question"), EVENT_LIMIT);
        assert_int_equal(f->err.code, ERR_LIMIT);
        expect_logged(f, expect);
        assert_string_equal(f->ran.data, behind_a_cell ? "print 0|" : "");
        clear_exchanges(f);
        x_answer(f, "Whole.");
        assert_int_equal(retry(f), EVENT_OK);
        assert_int_equal(count(f->last.data, "first question"), 1);
        expect_not_sent(f, "oid");
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
    }
}

static void
test_no_larger_limit(void **state)
{
    struct fixture *f = begin_with(0, 0, 32000);

    (void)state;
    add_cut(f, CUT_IN_CALL, 32000);
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->n_requests, 1);
    expect_logged(f, "(stopped: the reply was cut at 32,000 tokens, in the "
                     "middle of a call: model.max_tokens)");
    expect_next_is_fine(f);
    fixture_end(f);
}

struct budget_case {
    const char *name;
    int64_t session;
    int64_t turn;
    const char *expect;
};

static const struct budget_case budget_cases[] = {
    {"of the session", 20 * CENT, 0,
     ": model.budget_usd) {model.budget_usd budget 5"},
    {"of a turn", 0, 20 * CENT, ": limits.turn_usd) {limits.turn_usd retry 0"},
};

static void
test_the_budget_allows_no_longer_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(budget_cases); i++) {
        const struct budget_case *t = &budget_cases[i];
        struct fixture *f = begin_with(t->session, t->turn, 128000);

        add_cut(f, CUT_IN_CALL, 8000);
        assert_int_equal(ask(f, t->name), EVENT_LIMIT);
        assert_int_equal(f->n_requests, 1);
        expect_logged(f, "(stopped: the reply was cut at ");
        expect_logged(f, " tokens, in the middle of a call, and the budget "
                         "allows no longer one");
        expect_logged(f, t->expect);
        assert_true(agent_session_spent(f->agent)->nanousd < 20 * CENT);
        fixture_end(f);
    }
}

/* Nobody knows how much an unknown model may be asked for. */
static void
test_the_larger_limit_is_refused(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    add_cut(f, CUT_IN_CALL, 32000);
    x_status(f, 400,
             "{\"type\":\"error\",\"error\":{\"type\":"
             "\"invalid_request_error\",\"message\":\"max_tokens: "
             "128000 > 32000\"}}");
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    expect_logged(f, "(stopped: the reply was cut at 32,000 tokens, in the "
                     "middle of a call: model.max_tokens)");
    expect_next_is_fine(f);

    /* Behind a reply that was whole, a refusal is what it is. */
    clear_exchanges(f);
    add_cut(f, CUT_IN_CALL, 32000);
    add_cell(f, "t1", "print 1");
    x_status(f, 400, "{}");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    expect_next_is_fine(f);
    fixture_end(f);
}

/* Cancelled at each event of a turn with a reply that is cut. */
static void
test_cancel_at_every_event(void **state)
{
    bool reached = true;

    (void)state;
    for (int n = 1; reached; n++) {
        struct fixture *f = fixture_begin();

        add_cell(f, "t0", "print 0");
        add_cut(f, CUT_IN_CALL, 32000);
        add_cell(f, "t1", "print 1");
        x_answer(f, "Done.");
        f->cancel_at = n;
        ask(f, "first question");
        reached = f->n_events >= n;
        if (f->outcome == EVENT_INTERRUPTED)
            assert_int_equal(f->err.code, ERR_NONE);
        expect_next_is_fine(f);
        expect_not_sent(f, "c1");
        expect_nothing_ran_twice(f);
        fixture_end(f);
        assert_true(n < 100);
    }
}

/* ---- refusals --------------------------------------------------------------
 */

/* All of it goes, also what was asked to go on, and what was told with it comes
   again, once. */
static void
test_refusal_after_a_retry(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_answer(f, "One.");
    expect_ok(f, "first question");
    clear_exchanges(f);

    agent_tell(f->agent, "told with it");
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_status(f, 400, "{}");
    assert_int_equal(ask(f, "bad question"), EVENT_FAILED);
    clear_exchanges(f);

    agent_tell(f->agent, "told before the retry");
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_begin(f);
    x_text(f, "half");
    x_end(f, "refusal");
    assert_int_equal(retry(f), EVENT_FAILED);
    agent_tell(f->agent, "told since");
    expect_next_is_fine(f);
    expect_sent(f, "first question");
    expect_not_sent(f, "bad question");
    expect_not_sent(f, "out of print");
    expect_sent(f, "told with it\\ntold before the retry\\n[Cells 1 to 2 ran");
    expect_sent(f, "remain.]\\ntold since\\n");
    fixture_end(f);
}

/* A call that waits for the sandbox is answered like those behind it. */
static void
test_cancel_while_the_sandbox_opens(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    f->cancel_in_open = true;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_INTERRUPTED);
    assert_string_equal(f->ran.data, "");
    f->cancel_in_open = false;
    expect_next_is_fine(f);
    expect_sent(f, "Not executed: interrupted by the user.");
    expect_not_sent(f, "cancelled");
    fixture_end(f);
}

/* ---- calls that are left out ----------------------------------------------
 */

struct dropped_case {
    const char *stop_reason;
    int n_calls;
    const char *expect;
    bool is_answer;
};

static const struct dropped_case dropped_cases[] = {
    {"end_turn", 1, "ended with end_turn, so its call was not run\n", true},
    {"stop_sequence", 2,
     "ended with stop_sequence, so its 2 calls were not run\n", true},
    {"pause_turn", 1, "ended with pause_turn, so its call was not run\n", true},
    {"reason_of_tomorrow", 2,
     "ended with reason_of_tomorrow, so its 2 calls were not run\n", true},
    {"model_context_window_exceeded", 1,
     "ended with model_context_window_exceeded, so its call was not run\n",
     true},
    {"refusal", 2, "ended with refusal, so its 2 calls were not run\n", false},
};

static void
test_calls_that_are_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(dropped_cases); i++) {
        const struct dropped_case *t = &dropped_cases[i];
        struct fixture *f = fixture_begin();

        x_begin(f);
        x_text(f, "Words.");
        x_python(f, "c1", "print 1");
        if (t->n_calls > 1)
            x_python(f, "c2", "print 2");
        x_end(f, t->stop_reason);
        assert_int_equal(ask(f, t->stop_reason),
                         t->is_answer ? EVENT_OK : EVENT_FAILED);
        assert_string_equal(f->ran.data, "");
        expect_logged(f, "notice the reply ");
        expect_logged(f, t->expect);
        expect_next_is_fine(f);
        expect_not_sent(f, "c1");
        fixture_end(f);
    }
}

/* Those of a try that broke off are not counted. */
static void
test_calls_of_another_try(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_open_tool(f, "c1", "run_python", "{\"code\":\"print void");
    add_piece(f, PIECE_CUT, NULL);
    x_begin(f);
    x_text(f, "A long story");
    x_end(f, "max_tokens");
    expect_ok(f, "q");
    assert_null(strstr(f->log.data, "not run"));
    expect_logged(f, "the answer was cut at model.max_tokens");
    fixture_end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusal_after_a_retry),
        cmocka_unit_test(test_cancel_while_the_sandbox_opens),
        cmocka_unit_test(test_cut_is_asked_for_again),
        cmocka_unit_test(test_cut_where_no_limit_is_known),
        cmocka_unit_test(test_the_model_has_less),
        cmocka_unit_test(test_the_budget_has_less),
        cmocka_unit_test(test_cut_again_ends_the_turn),
        cmocka_unit_test(test_no_larger_limit),
        cmocka_unit_test(test_the_budget_allows_no_longer_one),
        cmocka_unit_test(test_the_larger_limit_is_refused),
        cmocka_unit_test(test_cancel_at_every_event),
        cmocka_unit_test(test_calls_that_are_left_out),
        cmocka_unit_test(test_calls_of_another_try),
    };

    return cmocka_run_group_tests_name("agent cut", tests, NULL, NULL);
}
