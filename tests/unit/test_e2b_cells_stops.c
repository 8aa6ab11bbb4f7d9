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

/* --- languages --- */

static void
test_languages(void **state)
{
    static const struct exchange first[MAX_SCRIPT] = {
        ANSWER(CONTEXTS, 200, "{\"id\":\"c-2\"}"),
        ANSWER(EXECUTE, 200, COUNT("1") PRINT("1") END)};
    static const struct exchange second[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, COUNT("2") END)};
    static const struct exchange lost[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, COUNT("1") END)};
    static const struct exchange refused[MAX_SCRIPT] = {
        ANSWER(CONTEXTS, 500, "Kernel for language r not found")};
    static const struct exchange nothing[MAX_SCRIPT] = {{0}};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", opening);
    run_with(&f, "js", "javascript", false, first);
    assert_true(was_sent(&f, 0,
                         "{\"language\":\"javascript\","
                         "\"cwd\":\"/workspace\"}"));
    assert_true(was_sent(&f, 1, "\"code\":\"f('a')"));
    assert_true(was_sent(&f, 1, "\"context_id\":\"c-2\""));
    assert_string_equal(f.log.data, "begin|1|");
    run_with(&f, "js again", "js", false, second);
    assert_false(f.lost);
    run_with(&f, "another js", "javascript", false, lost);
    assert_false(f.lost);
    assert_non_null(strstr(f.reason, "those of Python are kept"));
    run_with(&f, "r", "r", false, refused);
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(f.err.msg, "cells in r: this sandbox's template "));
    run_with(&f, "cobol", "cobol", false, nothing);
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(f.err.msg, "cobol"));
    tear_down(&f);
}

static void
test_languages_without_contexts(void **state)
{
    static const struct exchange without[MAX_SCRIPT] = {
        OK_HEALTH, ANSWER(CONTEXTS, 405, ""), OK_SETUP};
    static const struct exchange refused[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 500, "Kernel for language bash not found")};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", without);
    run_with(&f, "bash", "bash", false, refused);
    assert_true(was_sent(&f, 0, "\"language\":\"bash\""));
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    tear_down(&f);
}

/* --- stopping --- */

#define HANGS HALF_ANSWER(EXECUTE, 200, COUNT("2") KEEPALIVE KEEPALIVE)

static void
test_interrupt_a_process_that_is_not_known(void **state)
{
    static const struct exchange hangs[MAX_SCRIPT] = {HANGS};
    static const struct exchange probed[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, END), OK_CELL};
    static const struct exchange swallowed[MAX_SCRIPT] = {
        HALF_ANSWER(EXECUTE, 200, KEEPALIVE), ANSWER(RESTART, 200, "null"),
        ANSWER(EXECUTE, 200, COUNT("1") END)};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", plain_opening);
    f.stop = STOP_INTERRUPT;
    f.stop_at = 1;
    run_with(&f, "hangs", NULL, false, hangs);
    assert_int_equal(f.way, E2B_RUN_DONE);
    assert_int_equal(f.outcome, EVENT_INTERRUPTED);
    f.stop = STOP_NOT;
    run_with(&f, "it has ended", NULL, false, probed);
    assert_true(was_sent(&f, 0, "\"code\":\"None\""));
    assert_false(f.lost);
    f.stop = STOP_INTERRUPT;
    run_with(&f, "hangs", NULL, false, hangs);
    f.stop = STOP_NOT;
    run_with(&f, "it has not ended", NULL, false, swallowed);
    assert_int_equal(f.way, E2B_RUN_DONE);
    assert_true(f.lost);
    tear_down(&f);
}

/* Before the cell is sent, here while its context is made. */
static void
test_interrupt_before_it_began(void **state)
{
    static const struct exchange hangs[MAX_SCRIPT] = {
        NO_ANSWER(CONTEXTS, SERVER_HANGS)};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", opening);
    f.stop = STOP_INTERRUPT;
    f.stop_at = 1;
    run_with(&f, "hangs", "bash", false, hangs);
    assert_int_equal(f.outcome, EVENT_INTERRUPTED);
    assert_non_null(strstr(f.reason, "before it began"));
    tear_down(&f);
}

static void
test_kill(void **state)
{
    static const struct run_row rows[] = {
        {"restarted",
         {HANGS, ANSWER(RESTART, 200, "null")},
         E2B_RUN_LOST,
         0,
         EVENT_DIED,
         true,
         "was restarted",
         "begin|"},
        {"not there any more",
         {HANGS, ANSWER(RESTART, 404, "Context c-1 not found")},
         E2B_RUN_LOST,
         0,
         EVENT_DIED,
         true,
         "was restarted",
         "begin|"},
        {"refused",
         {HANGS, ANSWER(RESTART, 400, "no")},
         E2B_RUN_TROUBLE,
         E2B_TROUBLE_REFUSED,
         EVENT_OK,
         false,
         NULL,
         "begin|"},
        {"the sandbox is gone",
         {HANGS, ANSWER(RESTART, 502, GONE)},
         E2B_RUN_TROUBLE,
         E2B_TROUBLE_GONE,
         EVENT_OK,
         false,
         NULL,
         "begin|"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct fixture f;

        set_up(&f);
        open_with(&f, "opening", opening);
        f.stop = STOP_KILL;
        f.stop_at = 1;
        run_with(&f, rows[i].name, NULL, false, rows[i].script);
        check_run(&f, &rows[i]);
        tear_down(&f);
    }
}

static void
test_free_at_any_time(void **state)
{
    static const struct exchange hangs[MAX_SCRIPT] = {HANGS};
    static const struct exchange prints[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200, COUNT("2") PRINT("a") PRINT("b") DONE END)};
    static const struct exchange floods[MAX_SCRIPT] = {
        ANSWER(EXECUTE, 200,
               COUNT("2") PRINT("0123456789012345678901") PRINT("b") DONE END)};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", opening);
    f.stop = STOP_FREE;
    f.stop_at = 1;
    run_with(&f, "while it runs", NULL, false, hangs);
    assert_int_equal(f.n_done, 0);
    tear_down(&f);

    set_up(&f);
    open_with(&f, "opening", opening);
    f.frees_in_bytes = true;
    run_with(&f, "in a callback", NULL, false, floods);
    assert_string_equal(f.log.data, "begin|01234567890123456789|");
    assert_int_equal(f.n_done, 0);
    tear_down(&f);

    set_up(&f);
    open_with(&f, "opening", opening);
    f.frees_in_done = true;
    run_with(&f, "in the last one", NULL, false, prints);
    assert_int_equal(f.n_done, 1);
    tear_down(&f);
}

/* --- variables, and after a pause --- */

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->starting);
    f->n_done++;
    f->err = err != NULL ? *err : (struct error){0};
    f->n_vars = vars != NULL ? vars->n_vars : 0;
    if (f->frees_in_done)
        free_runner(f);
    loop_stop(f->loop);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    (void)saved;
    on_vars(ctx, NULL, err);
}

static void
vars_with(struct fixture *f, const char *name, const struct exchange *script)
{
    play(f, script);
    f->runner->ops->vars(f->runner, on_vars, f);
    finish(f, name);
}

static const struct vars_row {
    const char *name;
    struct exchange script[MAX_SCRIPT];
    enum error_code code;
    const char *message;
    size_t n_vars;
    size_t n_lost;
} vars_rows[] = {
    {"two",
     {ANSWER(EXECUTE, 200,
             COUNT("2") PRINT("x")
                 OWN("", "{\"ev\":\"vars\",\"vars\":[{\"name\":\"a\",\"type\":"
                         "\"int\",\"size\":\"1\"},{\"name\":\"b\"}],"
                         "\"left_out\":0}") END)},
     0,
     NULL,
     2,
     0},
    {"refused",
     {ANSWER(EXECUTE, 200,
             COUNT("2") OWN("", "{\"ev\":\"vars\",\"error\":\"no\\nway\"}")
                 END)},
     ERR_DATA,
     "listing variables: no way",
     0,
     0},
    {"interrupted",
     {ANSWER(EXECUTE, 200,
             COUNT("2") OWN("", "{\"ev\":\"vars\",\"error\":\"interrupted\"}")
                 END)},
     ERR_CANCELLED,
     "listing variables: stopped",
     0,
     0},
    {"no answer",
     {ANSWER(EXECUTE, 200, COUNT("2") END)},
     ERR_SANDBOX,
     "no answer",
     0,
     0},
    {"lost",
     {ANSWER(EXECUTE, 200, COUNT("2") LOST_END)},
     ERR_SANDBOX,
     "listing variables: the interpreter has ended",
     0,
     1},
    {"another interpreter",
     {ANSWER(EXECUTE, 200, NEW)},
     ERR_SANDBOX,
     "has ended",
     0,
     1},
    {"cut", {ANSWER(EXECUTE, 200, COUNT("2"))}, ERR_NET, NULL, 0, 0},
};

static void
test_vars(void **state)
{
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < LEN(vars_rows); i++) {
        const struct vars_row *row = &vars_rows[i];

        set_up(&f);
        open_with(&f, "opening", opening);
        vars_with(&f, row->name, row->script);
        if (f.n_done != 1 || f.err.code != row->code ||
            f.n_vars != row->n_vars || f.n_lost != row->n_lost ||
            (row->message != NULL && strstr(f.err.msg, row->message) == NULL))
            fail_msg("%s: %d, %s, %zu, lost %zu", row->name, (int)f.err.code,
                     f.err.msg, f.n_vars, f.n_lost);
        tear_down(&f);
    }
    set_up(&f);
    open_with(&f, "opening", opening);
    f.frees_in_done = true;
    vars_with(&f, "freed", vars_rows[4].script);
    assert_int_equal(f.n_lost, 0);
    tear_down(&f);
}

static void
test_variables_of_a_plain_interpreter(void **state)
{
    static const struct exchange nothing[MAX_SCRIPT] = {{0}};
    struct fixture f;

    (void)state;
    set_up(&f);
    open_with(&f, "opening", plain_opening);
    vars_with(&f, "vars", nothing);
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    play(&f, nothing);
    f.runner->ops->snapshot(f.runner, -1, on_saved, &f);
    finish(&f, "snapshot");
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    play(&f, nothing);
    f.runner->ops->restore(f.runner, -1, on_saved, &f);
    finish(&f, "restore");
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    tear_down(&f);
}

static void
test_reconnect(void **state)
{
    static const struct open_row rows[] = {
        {"there",
         {ANSWER(EXECUTE, 200, COUNT("2") OWN("", "{\"ev\":\"pong\"}") END)},
         E2B_RUN_DONE,
         0,
         0,
         NULL},
        {"no answer", {OK_CELL}, E2B_RUN_LOST, 0, 0, NULL},
        {"another", {ANSWER(EXECUTE, 200, NEW)}, E2B_RUN_LOST, 0, 0, NULL},
        {"removed",
         {ANSWER(EXECUTE, 404, "Context c-1 not found")},
         E2B_RUN_LOST,
         0,
         0,
         NULL},
        {"gone",
         {ANSWER(EXECUTE, 502, GONE)},
         E2B_RUN_TROUBLE,
         E2B_TROUBLE_GONE,
         ERR_SANDBOX,
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct fixture f;

        set_up(&f);
        open_with(&f, "opening", opening);
        play(&f, rows[i].script);
        f.runner->ops->reconnect(f.runner, on_open, &f);
        finish(&f, rows[i].name);
        if (f.way != rows[i].way || f.trouble != rows[i].trouble ||
            f.err.code != rows[i].code)
            fail_msg("%s: %d %d %s", rows[i].name, (int)f.way, (int)f.trouble,
                     f.err.msg);
        tear_down(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_languages),
        cmocka_unit_test(test_languages_without_contexts),
        cmocka_unit_test(test_interrupt_a_process_that_is_not_known),
        cmocka_unit_test(test_interrupt_before_it_began),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_free_at_any_time),
        cmocka_unit_test(test_vars),
        cmocka_unit_test(test_variables_of_a_plain_interpreter),
        cmocka_unit_test(test_reconnect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
