/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Turns that end early, at every place there is: by a person who cancels, and
 * by a sink that fails.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"
#include "helpers/agent_fixture.h"
#include "model/event.h"
#include "sandbox/sandbox.h"

static void
add_scene(struct fixture *f)
{
    x_begin(f);
    x_thinking(f, "think first");
    x_text(f, "partial words");
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "show 2");
    x_end(f, "tool_use");
    x_status(f, 529, "{}")->retry_after_ms = "1";
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_text(f, "half an answer");
    add_piece(f, PIECE_CUT, NULL);
    x_begin(f);
    x_python(f, "t3", "boom 3");
    x_end(f, "tool_use");
    x_answer(f, "Whole answer.");
}

/* Cancelled at each event of a turn in which everything happens, by hand of
   the sink itself: the worst moment there is. */
static void
test_cancel_at_every_event(void **state)
{
    int n_total = 0;

    (void)state;
    for (int n = 1; n_total == 0 || n <= n_total; n++) {
        struct fixture *f = fixture_begin();
        bool reached = false;

        add_scene(f);
        f->cancel_at = n;
        f->pending = n % 2 == 0;
        ask(f, "first question");
        reached = f->n_events >= n;
        if (!reached) {
            assert_int_equal(f->outcome, EVENT_OK);
            n_total = f->n_events;
        } else if (f->outcome != EVENT_INTERRUPTED) {
            /* Too late: the turn was over but for its last two events. */
            assert_int_equal(f->outcome, EVENT_OK);
            if (n < f->n_events - 1)
                fail_msg("event %d of %d came too late:\n%s", n, f->n_events,
                         f->log.data);
        }
        if (f->outcome == EVENT_INTERRUPTED)
            assert_int_equal(f->err.code, ERR_NONE);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
        assert_true(n < 200);
    }
    assert_true(n_total > 25);
}

static void
test_cancel_while_a_barrier_is_pending(void **state)
{
    /* Before the n-th barrier: of requests, cells and the turn's end. */
    static const size_t n_requests[] = {0, 0, 1, 1, 1, 4, 4, 5};
    static const size_t n_cells[] = {0, 0, 0, 1, 2, 2, 3, 3};

    (void)state;
    for (int n = 1; n <= 7; n++) {
        struct fixture *f = fixture_begin();

        add_scene(f);
        f->pending = true;
        f->cancel_barrier = n;
        ask(f, "first question");
        assert_int_equal(f->outcome, n < 7 ? EVENT_INTERRUPTED : EVENT_OK);
        /* What was about to happen did not. */
        assert_int_equal(count(f->ran.data, "|"), n_cells[n]);
        assert_int_equal(f->n_requests, n_requests[n]);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
    }
}

enum stage {
    STAGE_HEAD,
    STAGE_START,
    STAGE_THINKING,
    STAGE_TEXT,
    STAGE_TOOL,
    STAGE_CELL,
    STAGE_SECOND,
    STAGE_WAIT
};

struct stage_case {
    const char *name;
    enum stage stage;
    const char *expect_ran;
    const char *expect_sent; /* with the next question */
    const char *expect_not_sent;
};

static const struct stage_case stage_cases[] = {
    {"before the head", STAGE_HEAD, "", NULL, "first question"},
    {"behind the head", STAGE_START, "", NULL, "first question"},
    {"in thinking", STAGE_THINKING, "", NULL, "first question"},
    {"in text", STAGE_TEXT, "", "partial words", "thinking"},
    {"in tool input", STAGE_TOOL, "", "partial words", "tool_use"},
    {"in a cell", STAGE_CELL, "hang 1|", "Not executed: interrupted", NULL},
    {"in the second cell", STAGE_SECOND, "print 1|hang 2|",
     "status: interrupted", "Not executed"},
    {"in a retry wait", STAGE_WAIT, "", NULL, "first question"},
};

static void
add_stage(struct fixture *f, enum stage stage)
{
    if (stage == STAGE_WAIT) {
        x_status(f, 529, "{}")->retry_after_ms = "30000";
        return;
    }
    x_begin(f);
    last_exchange(f)->hang_before_head = stage == STAGE_HEAD;
    if (stage == STAGE_THINKING || stage == STAGE_TEXT) {
        x_open_thinking(f, "hm");
        if (stage == STAGE_TEXT) {
            add_delta(f, "signature_delta", "signature", "c2ln", 4);
            end_block(f);
        }
    }
    if (stage == STAGE_TEXT)
        x_open_text(f, "partial words");
    if (stage == STAGE_TOOL) {
        x_text(f, "partial words");
        x_open_tool(f, "t1", "run_python", "{\"code\":\"print 1\"}");
    }
    if (stage < STAGE_CELL) {
        x_hang(f);
        return;
    }
    x_python(f, "t1", stage == STAGE_CELL ? "hang 1" : "print 1");
    x_python(f, "t2", stage == STAGE_CELL ? "print 2" : "hang 2");
    x_end(f, "tool_use");
}

static void
test_cancel_where_it_hangs(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stage_cases); i++) {
        const struct stage_case *t = &stage_cases[i];
        struct fixture *f = fixture_begin();

        add_stage(f, t->stage);
        if (ask_and_cancel(f, "first question", 30) != EVENT_INTERRUPTED)
            fail_msg("%s: %s %s", t->name, event_outcome_name(f->outcome),
                     f->err.msg);
        assert_int_equal(f->err.code, ERR_NONE);
        if (f->took_ms < 25 || f->took_ms > 2000)
            fail_msg("%s: %d ms", t->name, (int)f->took_ms);
        expect_logged(f, "done turn interrupted\n");
        if (!str_eq(f->ran.data, t->expect_ran))
            fail_msg("%s: %s ran", t->name, f->ran.data);
        expect_next_is_fine(f);
        assert_string_equal(f->ran.data, t->expect_ran);
        if (t->expect_sent != NULL)
            expect_sent(f, t->expect_sent);
        if (t->expect_not_sent != NULL)
            expect_not_sent(f, t->expect_not_sent);
        fixture_end(f);
    }
}

#define CUT_OFF "[The previous reply was interrupted by the user.]"

/* What the model has said is there, and it learns that it was cut off; where
   nothing is left of a reply, and behind cells, whose results say it, once. */
static void
test_cancel_tells_the_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stage_cases); i++) {
        const struct stage_case *t = &stage_cases[i];
        struct fixture *f = fixture_begin();
        bool cut = t->stage == STAGE_TEXT || t->stage == STAGE_TOOL;

        add_stage(f, t->stage);
        ask_and_cancel(f, "first question", 30);
        expect_next_is_fine(f);
        if (count(f->last.data, CUT_OFF) != (cut ? 1 : 0))
            fail_msg("%s: %s", t->name, f->last.data);
        if (cut)
            expect_sent(f, CUT_OFF "\\nnext question");
        expect_next_is_fine(f);
        expect_not_sent(f, CUT_OFF "\\n" CUT_OFF);
        fixture_end(f);
    }
}

/* Thinking goes, but the results before it stay. */
static void
test_cancel_behind_a_cell_tells_the_model(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_open_thinking(f, "hm");
    x_hang(f);
    assert_int_equal(ask_and_cancel(f, "q", 100), EVENT_INTERRUPTED);
    expect_next_is_fine(f);
    expect_sent(f, "out of print 1");
    expect_sent(f, CUT_OFF "\\nnext question");
    fixture_end(f);
}

/* The files are listed before the first cell of a sandbox that is ready. */
static void
test_cancel_while_files_are_listed(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    sandbox_open(f->sandbox);
    f->guard = loop_add_timer(f->loop, 50, on_guard, f);
    loop_run(f->loop);
    assert_int_equal(sandbox_state(f->sandbox), SANDBOX_IDLE);
    f->cancel_in_list = true;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_INTERRUPTED);
    assert_string_equal(f->ran.data, "");
    f->cancel_in_list = false;
    expect_next_is_fine(f);
    expect_sent(f, "Not executed: interrupted by the user.");
    fixture_end(f);
}

static void
test_sink_failure_at_every_event(void **state)
{
    int n_total = 0;

    (void)state;
    for (int n = 1; n_total == 0 || n <= n_total; n++) {
        struct fixture *f = fixture_begin();

        add_scene(f);
        f->fail_at = n;
        ask(f, "first question");
        if (f->n_events < n) {
            n_total = f->n_events;
            assert_int_equal(f->outcome, EVENT_OK);
        } else if (n_total == 0 && f->outcome == EVENT_OK) {
            /* Only the last events of a turn come too late to end it. */
            expect_logged(f, "done turn ok");
            assert_true(f->n_events <= n + 1);
        } else {
            assert_int_equal(f->outcome, EVENT_FAILED);
            assert_string_equal(f->err.msg, "log: disk full");
        }
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
        assert_true(n < 200);
    }
}

static void
test_sink_failure_at_every_barrier(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        struct fixture *f = fixture_begin();

        add_scene(f);
        f->fail_barrier = n;
        ask(f, "first question");
        if (f->n_barriers < n) {
            assert_int_equal(n, 8);
            assert_int_equal(f->outcome, EVENT_OK);
        } else {
            assert_int_equal(f->outcome, EVENT_FAILED);
            assert_string_equal(f->err.msg, "log: not synced");
        }
        /* What could not be recorded did not happen. */
        assert_int_equal(count(f->ran.data, "|"), n > 5   ? 3
                                                  : n > 3 ? 2
                                                  : n > 2 ? 1
                                                          : 0);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_at_every_event),
        cmocka_unit_test(test_cancel_while_a_barrier_is_pending),
        cmocka_unit_test(test_cancel_where_it_hangs),
        cmocka_unit_test(test_cancel_tells_the_model),
        cmocka_unit_test(test_cancel_behind_a_cell_tells_the_model),
        cmocka_unit_test(test_cancel_while_files_are_listed),
        cmocka_unit_test(test_sink_failure_at_every_event),
        cmocka_unit_test(test_sink_failure_at_every_barrier),
    };

    return cmocka_run_group_tests_name("agent_stops", tests, NULL, NULL);
}
