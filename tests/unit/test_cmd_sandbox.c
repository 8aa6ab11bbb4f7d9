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
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "config/config.h"
#include "config/services.h"
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
         "sandbox     box, on this machine, no network\n"
         "state       not started; the next question or :load starts it\n");
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

/* A command with many forms has its help below it. */
static void
test_help_fits(void **state)
{
    (void)state;
    for (int columns = 40; columns <= 80; columns += 20) {
        struct session *s = start((struct setting){
            .kind = DUMB, .columns = columns, .unicode = true});

        line(s, ":help");
        fits(s, (size_t)columns);
        stop(s);
    }
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

/* ---- :sandbox of a service ------------------------------------------------
 */

#define MINUTE INT64_C(60000)

/* The settings, from a file. */
static void
configure(struct session *s, const char *text)
{
    AUTO_FREE char *path = paths_join(s->home, "c.yaml");
    struct error err = {0};

    assert_int_equal(io_replace(path, text, strlen(text), 0600, &err), 0);
    s->config.config_file = take_ptr(&path);
    setenv("XDG_CONFIG_HOME", s->home, 1);
    if (config_read_rest(&s->config, &err) < 0 ||
        config_read_services(&s->config, &err) < 0)
        fail_msg("%s", err.msg);
    unsetenv("XDG_CONFIG_HOME");
}

static struct session *
start_remote(const char *name, int columns)
{
    struct session *s = start(
        (struct setting){.kind = DUMB, .columns = columns, .unicode = true});

    s->box->fake.base.caps.name = name;
    s->box->fake.base.caps.is_remote = true;
    s->box->info = (struct sandbox_info){
        .backend = name, .cell_ms = 120000, .output_bytes = 4194304};
    return s;
}

/* What a service said of itself, at noon of a day. */
static void
describe(struct session *s)
{
    struct sandbox_info *info = &s->box->info;

    open_box(s);
    *info = (struct sandbox_info){
        .backend = s->box->fake.base.caps.name,
        .host = "api.e2b.app",
        .id = "i7kq2m4xw9c0z5r1t8b6",
        .template_name = "code-interpreter-v1",
        .cells_by = "interpreter",
        .egress = "pypi.org and 2 more",
        .python = "Python 3.12.1",
        .uptime_ms = 125000,
        .cell_ms = 120000,
        .output_bytes = 4194304,
        .made_ms = INT64_C(1790000000000),
        .end_ms = INT64_C(1790000000000) + 5 * MINUTE,
        .cpu_count = 2,
        .memory_mib = 1024,
        .billed_ms = 10 * MINUTE,
    };
}

static void
test_service(void **state)
{
    struct session *s = start_remote("work", 80);

    (void)state;
    setenv("TZ", "UTC0", 1);
    configure(s, "sandboxes:\n  work:\n    kind: e2b\n    api_key: SECRET\n");
    line(s, ":sandbox");
    says(s, 0,
         "sandbox     work, E2B\n"
         "state       not started; the next question or :load starts it\n"
         "a cell      2 min and 4096 KiB of output\n");
    /* One that may be there still. */
    s->box->info.id = "i7kq2m4xw9c0z5r1t8b6";
    s->box->info.end_ms = INT64_C(1790000000000);
    line(s, ":sandbox");
    says(s, 0,
         "state       not reached; the next question or :load looks for it\n"
         "ends        2026-09-21 14:13:20, if it is still there\n");
    describe(s);
    line(s, ":sandbox");
    says(
        s, 0,
        "sandbox     work, E2B at api.e2b.app\n"
        "id          i7kq2m4xw9c0z5r1t8b6\n"
        "template    code-interpreter-v1\n"
        "network     pypi.org and 2 more\n"
        "state       ready\n"
        "python      Python 3.12.1\n"
        "running for 2 min 5 s, 0 cells\n"
        "cells by    the service's interpreter\n"
        "made        2026-09-21 14:13:20\n"
        "ends        2026-09-21 14:18:20, prolonged while the program runs\n"
        "machine     2 vCPUs, 1024 MiB\n"
        "cost        $0.020 for 10 min 0 s, estimated at prices of 2026-11-29\n"
        "a cell      2 min and 4096 KiB of output\n");
    says_not(s, "processes");
    says_not(s, "memory ");
    says_not(s, "workspace");
    says_not(s, "isolation");
    says_not(s, "SECRET");
    s->box->info.pauses_at_end = true;
    s->box->info.cells_by = "kernel";
    line(s, ":sandbox");
    says(s, 0,
         "pauses      2026-09-21 14:18:20, prolonged while the program "
         "runs\n");
    says(s, 0, "cells by    sandpiper's own interpreter, sent there\n");
    says(s, 0, "when idle   paused after 5 min, never closed\n");
    s->box->info.end_is_fixed = true;
    line(s, ":sandbox");
    says(s, 0,
         "pauses      2026-09-21 14:18:20; the service does not prolong "
         "it\n");
    unsetenv("TZ");
    stop(s);
}

struct cost_case {
    const char *more; /* of the entry */
    const char *expect;
    int cpus;
    int mib;
};

static const struct cost_case cost_cases[] = {
    {"",
     "cost        $0.020 for 10 min 0 s, estimated at prices of 2026-11-29\n",
     2, 1024},
    {"", ": the service does not say how large it is\n", 0, 1024},
    {"", ": the service does not say how large it is\n", 2, 0},
    {"    domain: my.e2b.app\n", "cost        $0.020 for 10 min", 2, 1024},
    {"    domain: note2b.app\n",
     "cost        not known, for 10 min 0 s: no price is set for api.e2b.app; "
     "see\n"
     "            'price' in sandpiper(1)\n",
     2, 1024},
    {"    price: {vcpu_hour_usd: 6, gib_hour_usd: 12, date: 2027-01-02}\n",
     "cost        $4.000 for 10 min 0 s, estimated at prices of 2027-01-02\n",
     2, 1024},
    {"    price: {vcpu_hour_usd: 6, gib_hour_usd: 12}\n",
     "cost        $4.000 for 10 min 0 s, estimated at the price in your "
     "settings\n",
     2, 1024},
    {"    price: {vcpu_hour_usd: 6, gib_hour_usd: 0}\n",
     "cost        $2.000 for 10 min", 2, 0},
    {"    price: {vcpu_hour_usd: 0, gib_hour_usd: 0}\n",
     "cost        $0.000 for 10 min", 0, 0},
};

static void
test_service_costs(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(cost_cases); i++) {
        const struct cost_case *t = &cost_cases[i];
        struct session *s = start_remote("work", 80);
        AUTO_FREE char *text = xasprintf(
            "sandboxes:\n  work:\n    kind: e2b\n    api_key: k\n%s", t->more);

        configure(s, text);
        describe(s);
        s->box->info.cpu_count = t->cpus;
        s->box->info.memory_mib = t->mib;
        line(s, ":sandbox");
        says(s, 0, t->expect);
        /* Nothing was billed yet: no line, and no zero. */
        s->box->info.billed_ms = 0;
        line(s, ":sandbox");
        if (strstr(s->f->text[0].data + s->before[0], "cost") != NULL)
            fail_msg("%s", s->f->text[0].data + s->before[0]);
        stop(s);
    }
}

static void
test_service_is_narrow(void **state)
{
    struct session *s = start_remote("work", 40);

    (void)state;
    setenv("TZ", "UTC0", 1);
    configure(s, "sandboxes:\n  work: {kind: e2b, api_key: k}\n");
    describe(s);
    s->box->info.template_name = "a\x1b[31m\nerror: b";
    line(s, ":sandbox");
    fits(s, 40);
    says_not(s, "\x1b");
    says_not(s, "\nerror:");
    says(s, 0,
         "cost        $0.020 for 10 min 0 s,\n"
         "            estimated at prices of\n"
         "            2026-11-29\n");
    unsetenv("TZ");
    stop(s);
}

static void
test_list(void **state)
{
    static const char TEXT[] =
        "sandboxes:\n"
        "  work: {kind: e2b, api_key: SECRET, template: sales,\n"
        "    internet: [pypi.org, files.pythonhosted.org, 10.0.0.0/8]}\n"
        "  a_name_that_is_rather_long:\n"
        "    {kind: e2b, api_url: \"http://127.0.0.1:3000/x\", internet: true}"
        "\n";
    struct session *s = start_remote("work", 80);

    (void)state;
    configure(s, TEXT);
    line(s, ":sandbox list");
    assert_int_equal(s->code, ERR_NONE);
    says(s, 0,
         "  local  on this machine, no network\n"
         "* work   E2B at api.e2b.app, sales, pypi.org and 2 more\n"
         "  a_name_that_is_rather_long\n"
         "         E2B at 127.0.0.1:3000, code-interpreter-v1, internet\n"
         "  e2b    E2B at api.e2b.app, code-interpreter-v1, no internet\n");
    says_not(s, "SECRET");
    assert_int_equal(s->box->n_opened, 0);
    line(s, ":sandbox lists");
    assert_int_equal(s->code, ERR_USAGE);
    says(s, 0, "error: there is no sandbox 'lists'");
    stop(s);
    s = start_remote("local", 40);
    configure(s, TEXT);
    line(s, ":sandbox list");
    says(s, 0,
         "* local  on this machine, no network\n"
         "  work   E2B at api.e2b.app, sales,\n"
         "         pypi.org and 2 more\n");
    fits(s, 40);
    stop(s);
}

static void
test_greeting(void **state)
{
    static const struct {
        const char *name;
        const char *host;
        const char *egress;
        bool is_remote;
        const char *expect;
    } cases[] = {
        {"local", NULL, NULL, false, " local sandbox, no network\n"},
        {"work", "api.e2b.app", "no internet", true,
         " work (E2B at api.e2b.app), no internet\n"},
        {"work", "api.e2b.app", "pypi.org and 2 more", true,
         " work (E2B at api.e2b.app), pypi.org and 2 more\n"},
        {"work", NULL, NULL, true, " work (E2B), no internet\n"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct session *s = start_remote(cases[i].name, 100);

        s->box->fake.base.caps.is_remote = cases[i].is_remote;
        s->box->info.host = cases[i].host;
        s->box->info.egress = cases[i].egress;
        app_greet(s->app);
        line(s, ":files");
        if (strstr(s->f->text[0].data, cases[i].expect) == NULL)
            fail_msg("no \"%s\" in\n%s|%s", cases[i].expect, s->f->text[0].data,
                     s->f->text[1].data);
        stop(s);
    }
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
        cmocka_unit_test(test_help_fits),
        cmocka_unit_test(test_service),
        cmocka_unit_test(test_service_costs),
        cmocka_unit_test(test_service_is_narrow),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_restart_loses_only_what_was),
    };

    return cmocka_run_group_tests_name("cmd_sandbox", tests, NULL, NULL);
}
