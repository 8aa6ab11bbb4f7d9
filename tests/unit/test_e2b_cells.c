/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2b_cells_fixture.h"

/* --- opening --- */

static const struct open_row open_rows[] = {
    {"whole", {OK_HEALTH, OK_CONTEXT, OK_SETUP}, E2B_RUN_DONE, 0, 0, NULL},
    {"no such path",
     {ANSWER(HEALTH, 404, "404 page not found\n")},
     E2B_RUN_LOST,
     0,
     ERR_UNSUPPORTED,
     "has no interpreter"},
    {"a page for a browser",
     {ANSWER(HEALTH, 200, "<html>hello</html>")},
     E2B_RUN_LOST,
     0,
     ERR_UNSUPPORTED,
     "a page"},
    {"nothing listens",
     {CLOSED_TIMES_9(HEALTH)},
     E2B_RUN_LOST,
     0,
     ERR_UNSUPPORTED,
     "nothing answers"},
    {"it listens after a while",
     {ANSWER(HEALTH, 502, CLOSED), OK_HEALTH, OK_CONTEXT, OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"not allowed",
     {ANSWER(HEALTH, 403, "{\"message\":\"token\"}")},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_REFUSED,
     ERR_AUTH,
     NULL},
    {"the sandbox is gone",
     {ANSWER(HEALTH, 502, GONE)},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_GONE,
     ERR_SANDBOX,
     NULL},
    {"no contexts: 404",
     {OK_HEALTH, ANSWER(CONTEXTS, 404, "Not Found"), OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"no contexts: 405",
     {OK_HEALTH, ANSWER(CONTEXTS, 405, "{}"), OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"no contexts: 501",
     {OK_HEALTH, ANSWER(CONTEXTS, 501, ""), OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"a context with an odd name",
     {OK_HEALTH, ANSWER(CONTEXTS, 200, "{\"id\":\"../x\"}"), OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"no kernel for Python",
     {OK_HEALTH, ANSWER(CONTEXTS, 500, "Kernel not found")},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_REFUSED,
     ERR_UNSUPPORTED,
     "python"},
    {"the first set-up fails",
     {OK_HEALTH, OK_CONTEXT, NO_SETUP, OK_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"every set-up fails",
     {OK_HEALTH, OK_CONTEXT, NO_SETUP, NO_SETUP},
     E2B_RUN_DONE,
     0,
     0,
     NULL},
    {"the set-up is cut",
     {OK_HEALTH, OK_CONTEXT, ANSWER(EXECUTE, 200, COUNT("1"))},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     ERR_NET,
     "end_of_execution"},
    {"the interpreter ends in the set-up",
     {OK_HEALTH, OK_CONTEXT, ANSWER(EXECUTE, 200, COUNT("1") LOST_END)},
     E2B_RUN_LOST,
     0,
     0,
     NULL},
};

static void
test_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(open_rows); i++) {
        const struct open_row *row = &open_rows[i];
        struct fixture f;

        set_up(&f);
        open_with(&f, row->name, row->script);
        if (f.n_done != 1 || f.way != row->way || f.trouble != row->trouble ||
            f.err.code != row->code ||
            (row->message != NULL && strstr(f.err.msg, row->message) == NULL))
            fail_msg("%s: way %d, trouble %d, %d, %s", row->name, (int)f.way,
                     (int)f.trouble, (int)f.err.code, f.err.msg);
        for (size_t n = 0; n < f.server.n_requests; n++)
            assert_true(was_sent(&f, n, "\r\nX-Access-Token: " TOKEN "\r\n"));
        tear_down(&f);
    }
}

static void
test_open_what_is_sent(void **state)
{
    static const struct exchange without[MAX_SCRIPT] = {
        OK_HEALTH, ANSWER(CONTEXTS, 405, ""), OK_SETUP};
    static const struct exchange odd[MAX_SCRIPT] = {
        OK_HEALTH, ANSWER(CONTEXTS, 200, "{\"id\":\"../x\"}"), OK_SETUP};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "whole", opening);
    assert_string_equal(f.runner->ops->python(f.runner),
                        "/usr/bin/python3 (3.13.1)");
    assert_true(
        was_sent(&f, 1, "{\"language\":\"python\",\"cwd\":\"/workspace\"}"));
    assert_true(was_sent(&f, 2, "\"context_id\":\"c-1\""));
    assert_false(was_sent(&f, 2, "\"language\""));
    assert_true(was_sent(&f, 2, "'width_px': 800, 'height_px': 600"));
    assert_true(was_sent(&f, 2, "'dpi': 90}, False"));
    tear_down(&f);

    set_up(&f);
    open_with(&f, "without contexts", without);
    assert_true(was_sent(&f, 2, "\"language\":\"python\""));
    assert_false(was_sent(&f, 2, "context_id"));
    tear_down(&f);

    /* It would become a part of a path. */
    set_up(&f);
    open_with(&f, "an odd name", odd);
    assert_false(was_sent(&f, 2, "context_id"));
    tear_down(&f);
}

/* --- cells --- */

#define TABLE                                                                  \
    "{\"rows\":1,\"cols\":1,\"columns\":[{\"name\":\"a\",\"type\":\"int64\","  \
    "\"kind\":\"integer\"}],\"index\":[],\"head\":[[7]],\"tail\":[],"          \
    "\"cols_left_out\":0,\"truncated_cells\":false}"

static const struct run_row run_rows[] = {
    {"in its order",
     {ANSWER(
         EXECUTE, 200,
         COUNT("2") PRINT("hi") KEEPALIVE OWN(",\"text\":\"='a'\"",
                                              "{\"ev\":\"result\",\"i\":0}")
             OWN(",\"text\":\"=t\"",
                 "{\"ev\":\"display\",\"meta\":{\"title\":\" T\"}},"
                 "\"application/x-table.v1+json\":" TABLE) "{\"type\":\"news\","
                                                           "\"text\":\"x\"}"
                                                           "\n" OWN("",
                                                                    "{\"ev\":"
                                                                    "\"note\","
                                                                    "\"kind\":"
                                                                    "\"pip\","
                                                                    "\"text\":"
                                                                    "\"no\"}")
                                                               DONE END)},
     E2B_RUN_DONE,
     0,
     EVENT_OK,
     false,
     NULL,
     "begin|hi|result 0:'a'|display 1:t table T|note pip:no|"},
    {"an error",
     {ANSWER(EXECUTE, 200,
             COUNT("2") OWN("", "{\"ev\":\"done\",\"status\":\"error\","
                                "\"error\":{\"name\":\"KeyError\",\"value\":"
                                "\"a\",\"traceback\":\"t\",\"hint\":\"h\"}}")
                 FAILURE("Other", "of the service", "x") END)},
     E2B_RUN_DONE,
     0,
     EVENT_FAILED,
     false,
     NULL,
     "begin|"},
    {"interrupted",
     {ANSWER(EXECUTE, 200,
             COUNT("2") OWN("", "{\"ev\":\"done\",\"status\":\"interrupted\"}")
                 END)},
     E2B_RUN_DONE,
     0,
     EVENT_INTERRUPTED,
     false,
     NULL,
     "begin|"},
    {"no end of execution",
     {ANSWER(EXECUTE, 200, COUNT("2") PRINT("hi"))},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     EVENT_OK,
     false,
     NULL,
     "begin|hi|"},
    {"cut in the middle of a line",
     {{.request = EXECUTE,
       .status = 200,
       .act = SERVER_CLOSES_HALF,
       .body = COUNT("2") "{\"type\":\"std"}},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     EVENT_OK,
     false,
     NULL,
     "begin|"},
    {"no answer at all",
     {NO_ANSWER(EXECUTE, SERVER_CLOSES)},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     EVENT_OK,
     false,
     NULL,
     ""},
    {"a gateway between",
     {ANSWER(EXECUTE, 504, "late")},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     EVENT_OK,
     false,
     NULL,
     ""},
    {"no JSON",
     {ANSWER(EXECUTE, 200, COUNT("2") "hello\n")},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_CUT,
     EVENT_OK,
     false,
     NULL,
     "begin|"},
    {"the last line without its end",
     {ANSWER(EXECUTE, 200, COUNT("2") DONE "{\"type\":\"end_of_execution\"}")},
     E2B_RUN_DONE,
     0,
     EVENT_OK,
     false,
     NULL,
     "begin|"},
    {"whole, and the connection stays",
     {HALF_ANSWER(EXECUTE, 200, COUNT("2") DONE END)},
     E2B_RUN_DONE,
     0,
     EVENT_OK,
     false,
     NULL,
     "begin|"},
    {"turned back once",
     {ANSWER(EXECUTE, 409, CHANGING), OK_CELL},
     E2B_RUN_DONE,
     0,
     EVENT_OK,
     false,
     NULL,
     "begin|"},
    {"nothing listens any more",
     {ANSWER(EXECUTE, 502, CLOSED)},
     E2B_RUN_LOST,
     0,
     EVENT_DIED,
     true,
     "does not answer",
     ""},
    {"the sandbox is gone",
     {ANSWER(EXECUTE, 502, GONE)},
     E2B_RUN_TROUBLE,
     E2B_TROUBLE_GONE,
     EVENT_OK,
     false,
     NULL,
     ""},
    {"no such context",
     {ANSWER(EXECUTE, 404, "Context c-1 not found")},
     E2B_RUN_LOST,
     0,
     EVENT_DIED,
     true,
     "removed",
     ""},
    {"another interpreter",
     {ANSWER(EXECUTE, 200, NEW)},
     E2B_RUN_LOST,
     0,
     EVENT_DIED,
     true,
     "was not run",
     "begin|"},
    {"it ends under the cell",
     {ANSWER(EXECUTE, 200, COUNT("2") PRINT("hi") LOST_END)},
     E2B_RUN_LOST,
     0,
     EVENT_DIED,
     true,
     "lack of memory",
     "begin|hi|"},
    {"not run, behind an interrupted one",
     {ANSWER(EXECUTE, 200, FAILURE("ExecutionAborted", "a", "") END)},
     E2B_RUN_DONE,
     0,
     EVENT_INTERRUPTED,
     false,
     "before it began",
     ""},
    {"too much",
     {ANSWER(EXECUTE, 200,
             COUNT("2") PRINT("0123456789012345678901234") PRINT("x")
                 DONE END)},
     E2B_RUN_DONE,
     0,
     EVENT_OK,
     false,
     NULL,
     "begin|01234567890123456789|flood|"},
};

static void
test_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(run_rows); i++) {
        struct fixture f;

        set_up(&f);
        open_with(&f, "opening", opening);
        run_with(&f, run_rows[i].name, NULL, false, run_rows[i].script);
        check_run(&f, &run_rows[i]);
        tear_down(&f);
    }
}

static void
test_run_what_is_sent(void **state)
{
    static const struct exchange cell[MAX_SCRIPT] = {OK_CELL};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", opening);
    run_with(&f, "hosted", NULL, false, cell);
    assert_true(was_sent(&f, 0, "hosted(r'{\\\"op\\\":\\\"exec\\\""));
    assert_true(was_sent(&f, 0,
                         "f(\\\\u0027a\\\\u0027) # "
                         "\\\\\\\"\\\\\\\\\\\""));
    assert_true(was_sent(&f, 0, "\\\"silent\\\":false,\\\"cell\\\":7}')"));
    assert_true(was_sent(&f, 0, "\"context_id\":\"c-1\""));
    assert_false(was_sent(&f, 0, "env_vars"));
    assert_true(was_sent(&f, 0, "\r\nX-Access-Token: " TOKEN "\r\n"));
    tear_down(&f);

    set_up(&f);
    open_with(&f, "opening", plain_opening);
    run_with(&f, "plain", NULL, false, cell);
    assert_true(was_sent(&f, 0, "{\"code\":\"f('a') # \\\"\\\\\","));
    assert_string_equal(f.log.data, "begin|note interpreter:This sandbox's "
                                    "inter|");
    run_with(&f, "plain again", NULL, false, cell);
    assert_string_equal(f.log.data, "begin|");
    tear_down(&f);
}

/* Of an interpreter that our kernel is not in. */
static void
test_run_plain(void **state)
{
#define MAIN "{\"type\":\"result\",\"text\":\"5\",\"is_main_result\":true}\n"
    static const struct exchange silent[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, COUNT("2") MAIN END)};
    static const struct exchange from_one[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, COUNT("1") END)};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", plain_opening);
    run_with(&f, "silent", NULL, true, silent);
    assert_null(strstr(f.log.data, "result"));
    run_with(&f, "not silent", NULL, false, silent);
    assert_string_equal(f.log.data, "begin|result 0:5|");
    run_with(&f, "counted anew", NULL, false, from_one);
    assert_int_equal(f.way, E2B_RUN_DONE);
    assert_true(f.lost);
    assert_non_null(strstr(f.reason, "before this cell"));
    tear_down(&f);
}

static void
test_run_the_loss_is_not_forgotten(void **state)
{
    static const struct exchange missing[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 404, "Context c-1 not found")};
    static const struct exchange again[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, NEW)};
    static const struct exchange same_context[MAX_SCRIPT] = {OK_HEALTH,
                                                             OK_SETUP};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", opening);
    run_with(&f, "removed", NULL, false, missing);
    open_with(&f, "a new context", opening);
    run_with(&f, "another interpreter", NULL, false, again);
    open_with(&f, "set up again", same_context);
    assert_int_equal(f.way, E2B_RUN_DONE);
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_open_what_is_sent),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_run_what_is_sent),
        cmocka_unit_test(test_run_plain),
        cmocka_unit_test(test_run_the_loss_is_not_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
