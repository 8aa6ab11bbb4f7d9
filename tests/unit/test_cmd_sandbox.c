/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * :vars, :sandbox and :restart: what a person reads, at several widths.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/utf8.h"
#include "store/snapshots.h"
#include "unit/cmd_sandbox_session.h"

/* No line is wider than that. */
static void
fits(const struct session *s, size_t columns)
{
    for (int i = 0; i < 2; i++) {
        const char *p = s->f->text[i].data;

        while (*p != '\0') {
            size_t len = strcspn(p, "\n");

            if (utf8_width(p, len) > columns)
                fail_msg("%zu columns: %.*s", columns, (int)len, p);
            p += len + (p[len] == '\n');
        }
    }
}

/* ---- :vars ----------------------------------------------------------------
 */

static const struct sandbox_variable SOME[] = {
    {"sales", "DataFrame", "1,000,000 x 10"},
    {"name", "str", "'South'"},
    {"a_rather_long_name_of_a_variable_that_somebody_made",
     "LinearDiscriminantAnalysisEstimator", "a long description of its size"},
};

static void
test_vars(void **state)
{
    static const int WIDTHS[] = {40, 80, 200};

    (void)state;
    for (size_t i = 0; i < LEN(WIDTHS); i++) {
        struct session *s = start((struct setting){
            .kind = DUMB, .columns = WIDTHS[i], .unicode = true});

        open_box(s);
        s->box->vars = (struct sandbox_vars){
            SOME, WIDTHS[i] > 40 ? LEN(SOME) : LEN(SOME) - 1, 0};
        line(s, ":vars");
        assert_int_equal(s->code, ERR_NONE);
        says(s, 0, "sales");
        says(s, 0, "DataFrame");
        says(s, 0, "1,000,000 x 10");
        says_not(s, "not shown");
        fits(s, (size_t)WIDTHS[i]);
        stop(s);
    }
}

static void
test_vars_are_all_there(void **state)
{
    struct session *s = start((struct setting){.unicode = true});
    struct sandbox_variable many[500];
    char names[500][8];

    (void)state;
    open_box(s);
    for (size_t i = 0; i < LEN(many); i++) {
        snprintf(names[i], sizeof(names[i]), "v%03zu", i);
        many[i] = (struct sandbox_variable){names[i], "int", "1"};
    }
    s->box->vars = (struct sandbox_vars){many, LEN(many), 1234};
    line(s, ":vars");
    says(s, 0, "v000");
    says(s, 0, "v250");
    says(s, 0, "v499");
    says(s, 1, DOT " 1,234 more are not shown\n");
    stop(s);
}

static void
test_vars_that_are_hostile(void **state)
{
    static const struct sandbox_variable BAD[] = {
        {"\x1b]0;title\x07", "\x1b[31mred\nerror: x", "\xE2\x80\xAEsdrawkcab"},
        {"", "", ""},
    };
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    open_box(s);
    s->box->vars = (struct sandbox_vars){BAD, LEN(BAD), 0};
    line(s, ":vars");
    says_not(s, "\x1b");
    says_not(s, "\nerror:");
    says_not(s, "\xE2\x80\xAE");
    stop(s);
}

static void
test_no_vars(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    line(s, ":vars");
    says(s, 1,
         DOT " there are no variables: no interpreter runs; the next "
             "question or :load starts one\n");
    assert_int_equal(s->code, ERR_NONE);
    assert_int_equal(s->box->n_opened, 0);
    open_box(s);
    line(s, ":vars");
    says(s, 1, DOT " there are no variables yet\n");
    error_fill(&s->box->err, ERR_SANDBOX, "it broke");
    line(s, ":vars");
    says(s, 1, "error: it broke\n");
    assert_int_equal(s->code, ERR_SANDBOX);
    stop(s);
}

static void
test_no_cell_can_run(void **state)
{
    /* A restore starts an interpreter where there is none. */
    static const struct {
        const char *line;
        const char *expect;
        int expect_opened;
    } cases[] = {
        {":vars", "error: no bubblewrap\n", 1},
        {":snapshot", "error: no bubblewrap\n", 1},
        {":restore", "error: snapshot one: no bubblewrap\n", 2},
    };
    struct session *s = start((struct setting){.unicode = true});
    struct io_new file = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(snapshots_create("one", &file, &err), 0);
    assert_int_equal(io_new_keep(&file, &err), 0);
    io_new_close(&file);
    error_fill(&s->box->err, ERR_SANDBOX, "no bubblewrap\nfix: install it");
    open_box(s);
    for (size_t i = 0; i < LEN(cases); i++) {
        line(s, cases[i].line);
        assert_int_equal(s->code, ERR_SANDBOX);
        says(s, 1, cases[i].expect);
        assert_int_equal(s->box->n_opened, cases[i].expect_opened);
    }
    s->box->info.uptime_ms = 0;
    line(s, ":sandbox");
    says(s, 0, "no cell can run: no bubblewrap");
    assert_int_equal(s->box->n_opened, 2);
    stop(s);
}

/* ---- :sandbox -------------------------------------------------------------
 */

static void
test_sandbox(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    line(s, ":sandbox");
    says(s, 0,
         "state       not started; the next question or :load starts it"
         "\n");
    says(s, 0,
         "memory      at most 2048 MiB\n"
         "processes   at most 128\n"
         "workspace   at most 5120 MiB\n"
         "a cell      2 min and 4096 KiB of output\n");
    says_not(s, "isolation");
    open_box(s);
    s->box->info.uptime_ms = 125000;
    line(s, ":sandbox");
    says(s, 0,
         "state       ready\n"
         "isolation   full\n"
         "python      /usr/bin/python3 (3.11.2)\n"
         "running for 2 min 5 s, 0 cells\n"
         "memory      87 MiB of 2048 MiB, bounded by a look every 200 ms\n"
         "processes   2 of 128\n"
         "workspace   2 MiB of 5120 MiB\n"
         "a cell      2 min and 4096 KiB of output\n"
         "when idle   suspended after 5 min, never closed\n"
         "variables   last as long as the program; :snapshot keeps them\n");
    says_not(s, "snapshots ");
    s->box->info.bound_by = "cgroup";
    line(s, ":sandbox");
    says(s, 0, "memory      87 MiB of 2048 MiB, bounded by a cgroup\n");
    stop(s);
}

static void
test_sandbox_is_narrow(void **state)
{
    struct session *s =
        start((struct setting){.kind = DUMB, .columns = 40, .unicode = true});
    static const char *const NAMES[] = {"a"};

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = NAMES, .n_names = 1};
    line(s, ":snapshot one");
    s->box->info.python = "python3 (\x1b[31m3.11\nerror: lost)";
    s->box->info.level = "reduced";
    line(s, ":sandbox");
    says_not(s, "\x1b");
    says_not(s, "\nerror:");
    says(s, 0, "isolation   reduced: see\n            sandpiper-sandbox(7)\n");
    says(s, 0, "snapshots   1, 0 B, the newest one, in\n");
    stop(s);
}

/* ---- :restart -------------------------------------------------------------
 */

static void
test_restart(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    put(s->f, (struct event){.kind = EVENT_USAGE});
    error_fill(&s->box->err, ERR_SANDBOX, "it does not start");
    line(s, ":restart");
    assert_int_equal(s->code, ERR_SANDBOX);
    says(s, 1, "error: it does not start\n");
    says_not(s, "is new");
    s->box->err = (struct error){0};
    line(s, ":restart");
    assert_int_equal(s->code, ERR_NONE);
    says(s, 1, DOT " the interpreter is new\n");
    assert_int_equal(s->box->n_opened, 2);
    stop(s);
}

static void
test_restart_loses_only_what_was(void **state)
{
    static const char *const NAMES[] = {"a"};
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    open_box(s);
    line(s, ":restart");
    says(s, 1, DOT " the interpreter is new\n");
    /* As much as a cell: it brings variables. */
    s->box->saved = (struct sandbox_saved){.names = NAMES, .n_names = 1};
    line(s, ":snapshot");
    line(s, ":restore");
    assert_int_equal(s->code, ERR_NONE);
    says_not(s, "are gone");
    line(s, ":restart");
    assert_int_equal(s->code, ERR_NONE);
    says(s, 1, DOT " the interpreter is new; variables are gone\n");
    stop(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vars),
        cmocka_unit_test(test_vars_are_all_there),
        cmocka_unit_test(test_vars_that_are_hostile),
        cmocka_unit_test(test_no_vars),
        cmocka_unit_test(test_no_cell_can_run),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_sandbox_is_narrow),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_restart_loses_only_what_was),
    };

    return cmocka_run_group_tests_name("cmd_sandbox", tests, NULL, NULL);
}
