/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a turn makes of what the sandbox can do: cells in other languages than
 * Python, languages that are not there, and another sandbox in the place of the
 * one that the session began with.
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
#include "helpers/agent_fixture.h"
#include "sandbox/sandbox.h"

static const char *const many[] = {"python", "r", "bash", NULL};
static const char *const one[] = {"python", NULL};

static const struct sandbox_caps service = {.name = "work",
                                            .stateful = true,
                                            .is_remote = true,
                                            .has_network = true,
                                            .languages = many};
static const struct sandbox_caps local = {
    .name = "local", .stateful = true, .languages = one};

/* language: as JSON; NULL: there is none. */
static void
x_code(struct fixture *f, const char *id, const char *language,
       const char *code)
{
    AUTO_FREE char *input =
        language != NULL
            ? xasprintf("{\"language\":%s,\"code\":\"%s\"}", language, code)
            : xasprintf("{\"code\":\"%s\"}", code);

    x_tool(f, id, "run_python", input);
}

/* A reply of one cell. */
static void
x_cell(struct fixture *f, const char *id, const char *language,
       const char *code)
{
    x_begin(f);
    x_code(f, id, language, code);
    x_end(f, "tool_use");
}

/* ---- languages ------------------------------------------------------------
 */

static void
test_language_reaches_the_sandbox(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    x_begin(f);
    x_code(f, "t1", "\"r\"", "print 1");
    x_code(f, "t2", "null", "print 2");
    x_code(f, "t3", "\"python\"", "print 3");
    x_code(f, "t4", NULL, "print 4");
    x_code(f, "t5", "\"bash\"", "print 5");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data,
                        "r: print 1|print 2|print 3|print 4|bash: print 5|");
    expect_logged(f, "code 1 (r) print 1\n");
    expect_logged(f, "code 2 print 2\n");
    expect_logged(f, "code 3 print 3\n");
    expect_logged(f, "code 5 (bash) print 5\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

struct refused_case {
    const char *name;
    const struct sandbox_caps *caps;
    const char *language; /* as JSON */
    const char *expect_sent;
};

static const struct refused_case refused_cases[] = {
    {"not there", &service, "\"perl\"",
     "this sandbox does not run \\\"perl\\\"; \\\"language\\\" can be: "
     "python, r, bash."},
    {"no string", &service, "7",
     "\\\"language\\\" is no string; it can be: python, r, bash."},
    {"local", &local, "\"r\"",
     "this sandbox does not run \\\"r\\\"; \\\"language\\\" can be: python."},
};

static void
test_language_that_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(refused_cases); i++) {
        const struct refused_case *t = &refused_cases[i];
        struct fixture *f = fixture_begin();

        switch_sandbox(f, t->caps);
        x_begin(f);
        x_code(f, "t1", t->language, "print 1");
        x_code(f, "t2", NULL, "print 2");
        x_end(f, "tool_use");
        x_answer(f, "Done.");
        expect_ok(f, t->name);
        assert_string_equal(f->ran.data, "print 2|");
        expect_sent(f, t->expect_sent);
        assert_int_equal(count(f->last.data, "\"is_error\":true"), 1);
        expect_logged(f, "notice a call of the model could not be run");
        expect_next_is_fine(f);
        fixture_end(f);
    }
}

/* What could be run before a switch cannot be run after it. */
static void
test_language_is_that_of_the_sandbox_now(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    x_cell(f, "t1", "\"r\"", "print 1");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    switch_sandbox(f, &local);
    x_cell(f, "t2", "\"r\"", "print 2");
    x_answer(f, "Done.");
    expect_ok(f, "r");
    assert_string_equal(f->ran.data, "r: print 1|");
    expect_sent(f, "does not run \\\"r\\\"");
    fixture_end(f);
}

static void
test_language_that_the_template_lacks(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    x_begin(f);
    x_code(f, "t1", "\"r\"", "foreign 1");
    x_code(f, "t2", NULL, "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data, "r: foreign 1|print 2|");
    expect_sent(f, "Not executed: this sandbox has no interpreter for r (no "
                   "kernel). Variables of other languages are kept.");
    assert_int_equal(count(f->last.data, "\"is_error\":true"), 1);
    expect_logged(f, "done 1 cell error\n");
    expect_logged(f, "notice cell 1 did not run: this sandbox has no "
                     "interpreter for r; the model is told\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_language_that_is_lacking_three_times(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    x_cell(f, "t1", "\"r\"", "foreign");
    x_cell(f, "t2", "\"r\"", "foreign");
    x_cell(f, "t3", "\"r\"", "foreign");
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->n_requests, 3);
    assert_int_equal(count(f->last.data, "same as before"), 1);
    expect_next_is_fine(f);
    fixture_end(f);
}

/* The log behind its first n events. */
static const char *
log_behind(const struct fixture *f, int n)
{
    const char *at = f->log.data;

    for (; n > 0; n--)
        at += strcspn(at, "\n") + 1;
    return at;
}

static void
test_stop_at_a_language_that_is_lacking(void **state)
{
    (void)state;
    for (int at = 1;; at++) {
        struct fixture *f = fixture_begin();
        enum event_outcome outcome;

        switch_sandbox(f, &service);
        f->cancel_at = at;
        x_begin(f);
        x_code(f, "t1", "\"r\"", "foreign 1");
        x_code(f, "t2", NULL, "print 2");
        x_end(f, "tool_use");
        x_answer(f, "Done.");
        outcome = ask(f, "q");
        if (outcome != EVENT_OK) {
            assert_int_equal(outcome, EVENT_INTERRUPTED);
            assert_null(strstr(log_behind(f, at), "code "));
        }
        f->cancel_at = 0;
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        fixture_end(f);
        if (outcome == EVENT_OK && at > 5)
            break;
    }
}

/* The service has no such thing as a sandbox: no language would help. */
static void
test_sandbox_that_is_not_offered_ends_the_turn(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    f->open_fails = true;
    f->open_code = ERR_UNSUPPORTED;
    x_cell(f, "t1", "\"r\"", "print 1");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_UNSUPPORTED);
    assert_int_equal(f->n_requests, 1);
    f->open_fails = false;
    expect_next_is_fine(f);
    fixture_end(f);
}

struct ending_case {
    const char *name;
    const char *language; /* as JSON */
    const char *code;
    enum error_code expect;
};

/* Of Python the same words are no matter of the language, and of another
   language not all trouble is. */
static const struct ending_case ending_cases[] = {
    {"Python", "\"python\"", "foreign", ERR_UNSUPPORTED},
    {"the service is away", "\"r\"", "foreign away", ERR_NET},
};

static void
test_other_trouble_ends_the_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(ending_cases); i++) {
        const struct ending_case *t = &ending_cases[i];
        struct fixture *f = fixture_begin();

        switch_sandbox(f, &service);
        x_cell(f, "t1", t->language, t->code);
        assert_int_equal(ask(f, t->name), EVENT_FAILED);
        assert_int_equal(f->err.code, t->expect);
        assert_int_equal(f->n_requests, 1);
        expect_next_is_fine(f);
        fixture_end(f);
    }
}

static void
test_same_code_in_another_language_is_no_repeat(void **state)
{
    static const char *const languages[][3] = {
        {"\"python\"", "\"r\"", "\"bash\""},
        {"\"r\"", "\"r\"", "\"r\""},
        {NULL, "null", "\"python\""},
    };

    (void)state;
    for (size_t i = 0; i < LEN(languages); i++) {
        struct fixture *f = fixture_begin();

        switch_sandbox(f, &service);
        x_cell(f, "t1", languages[i][0], "silent");
        x_cell(f, "t2", languages[i][1], "silent");
        x_cell(f, "t3", languages[i][2], "silent");
        x_answer(f, "Done.");
        assert_int_equal(ask(f, "q"), i == 0 ? EVENT_OK : EVENT_LIMIT);
        assert_int_equal(count(f->last.data, "same as before"), i != 0);
        fixture_end(f);
    }
}

/* ---- another sandbox ------------------------------------------------------
 */

#define SWITCHED "The sandbox is another one now"

static void
test_switch_is_told_once(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_answer(f, "A.");
    expect_ok(f, "q1");
    expect_not_sent(f, SWITCHED);
    switch_sandbox(f, &service);
    x_answer(f, "A.");
    expect_ok(f, "q2");
    expect_sent(f, "[" SWITCHED ", and what was said of the one before counts "
                   "no more. A service runs the sandbox");
    expect_sent(f, "It has network");
    expect_sent(f, "python, r, bash. Not every template");
    x_answer(f, "A.");
    expect_ok(f, "q3");
    assert_int_equal(count(f->last.data, SWITCHED), 1);
    switch_sandbox(f, &local);
    x_answer(f, "A.");
    expect_ok(f, "q4");
    assert_int_equal(count(f->last.data, SWITCHED), 2);
    expect_sent(f, "The sandbox is on the person's machine. It has no network, "
                   "and no package can be installed. Cells are Python only.]");
    fixture_end(f);
}

static void
test_switch_is_told_again_with_a_question_that_is_left(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    switch_sandbox(f, &service);
    x_status(f, 400,
             "{\"type\":\"error\",\"error\":{\"type\":"
             "\"invalid_request_error\",\"message\":\"no\"}}");
    assert_int_equal(ask(f, "first"), EVENT_FAILED);
    x_answer(f, "A.");
    expect_ok(f, "second");
    assert_int_equal(count(f->last.data, SWITCHED), 1);
    fixture_end(f);
}

/* When a turn is gone on with, the sandbox may be another one, too. */
static void
test_switch_is_told_with_a_retry(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_cell(f, "t1", NULL, "print 1");
    x_status(f, 400,
             "{\"type\":\"error\",\"error\":{\"type\":"
             "\"invalid_request_error\",\"message\":\"no\"}}");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    switch_sandbox(f, &service);
    x_answer(f, "A.");
    assert_int_equal(retry(f), EVENT_OK);
    assert_int_equal(count(f->last.data, SWITCHED), 1);
    fixture_end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_language_reaches_the_sandbox),
        cmocka_unit_test(test_language_that_is_refused),
        cmocka_unit_test(test_language_is_that_of_the_sandbox_now),
        cmocka_unit_test(test_language_that_the_template_lacks),
        cmocka_unit_test(test_language_that_is_lacking_three_times),
        cmocka_unit_test(test_stop_at_a_language_that_is_lacking),
        cmocka_unit_test(test_sandbox_that_is_not_offered_ends_the_turn),
        cmocka_unit_test(test_other_trouble_ends_the_turn),
        cmocka_unit_test(test_same_code_in_another_language_is_no_repeat),
        cmocka_unit_test(test_switch_is_told_once),
        cmocka_unit_test(
            test_switch_is_told_again_with_a_question_that_is_left),
        cmocka_unit_test(test_switch_is_told_with_a_retry),
    };

    return cmocka_run_group_tests_name("agent_sandbox", tests, NULL, NULL);
}
