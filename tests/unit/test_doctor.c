/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the doctor finds out: what programs print is read, and the whole is run
 * and stopped.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "sandbox/doctor.h"
#include "sandbox/doctor_internal.h"
#include "sandbox/local.h"
#include "sandbox/sandbox.h"

#define BWRAP "/usr/bin/bwrap"

/* ---- reading ---- */

static void
test_parse_version(void **state)
{
    static const struct {
        const char *text;
        int expect;
    } cases[] = {
        {"bubblewrap 0.8.0\n", 800},
        {"bubblewrap 0.11.1", 1101},
        {"6.1.0-18-amd64", 60100},
        {"5.14.0-427.el9", 51400},
        {"6.18-rc1", 61800},
        {"7", 70000},
        {"", 0},
        {"none", 0},
        {"1.", 10000},
        {"1.x", 10000},
        {"99999999999999999999.1", 0},
        {"1.99999", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (doctor_parse_version(cases[i].text) != cases[i].expect)
            fail_msg("%s: %d", cases[i].text,
                     doctor_parse_version(cases[i].text));
}

static void
test_take_modules(void **state)
{
    struct doctor_facts f = {0};

    (void)state;
    doctor_take_modules(&f, "python\t3.11.2\npandas\tok\t1.5.3\n"
                            "matplotlib\tbad\tImportError: no\n");
    assert_string_equal(f.python_version, "3.11.2");
    assert_int_equal(f.modules[0].trial, DOCTOR_WORKED);
    assert_string_equal(f.modules[0].text, "1.5.3");
    assert_int_equal(f.modules[1].trial, DOCTOR_FAILED);
    assert_string_equal(f.modules[1].text, "ImportError: no");
    doctor_facts_fini(&f);
    /* A module may print what it likes when it is imported. */
    doctor_take_modules(&f, "\n\t\t\t\nhello\npandas\npandas\tok\npython\n"
                            "pandas\tok\t\npandas\tbad\tx\ty");
    assert_null(f.python_version);
    assert_int_equal(f.modules[0].trial, DOCTOR_FAILED);
    assert_int_equal(f.modules[1].trial, DOCTOR_NOT_TRIED);
    doctor_facts_fini(&f);
}

/* ---- the whole ---- */

struct live {
    struct loop *loop;
    struct doctor *doctor;
    int n_reports;
    bool can_run;
};

static void
on_report(void *ctx, const struct doctor_report *report)
{
    struct live *l = ctx;

    l->n_reports++;
    l->can_run = report->can_run;
    doctor_free(take_ptr(&l->doctor));
}

static void
stop_it(void *ctx)
{
    struct live *l = ctx;

    doctor_free(take_ptr(&l->doctor));
}

/* stop_ms: when it is stopped; -1: never. The loop ends when nothing is
   registered any more, so that nothing is left; nor is a directory. */
static void
run_live(struct live *l, const char *bwrap, int64_t stop_ms)
{
    char dir[] = "/tmp/test_doctor.XXXXXX";
    struct local_config config = {.bwrap = bwrap, .parent_dir = dir};
    struct sandbox_limits limits = {0};
    struct error err = {0};

    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    memset(l, 0, sizeof(*l));
    l->loop = loop_new(&err);
    assert_non_null(l->loop);
    l->doctor = doctor_start(l->loop, &config, &limits, "sandpiper-picture",
                             on_report, l);
    if (stop_ms >= 0)
        loop_add_timer(l->loop, stop_ms, stop_it, l);
    loop_run(l->loop);
    assert_null(l->doctor);
    loop_free(l->loop);
    assert_int_equal(rmdir(dir), 0);
}

static void
test_live(void **state)
{
    struct live l;

    (void)state;
    run_live(&l, "/nonexistent/bwrap", -1);
    assert_int_equal(l.n_reports, 1);
    assert_false(l.can_run);
    if (access(BWRAP, X_OK) != 0)
        skip();
    run_live(&l, NULL, -1);
    assert_int_equal(l.n_reports, 1);
    assert_true(l.can_run);
}

/* At many moments, whatever it is doing then. */
static void
test_live_stopped(void **state)
{
    struct live l;

    (void)state;
    if (access(BWRAP, X_OK) != 0)
        skip();
    for (int64_t ms = 0; ms <= 128; ms = ms * 2 + (ms == 0)) {
        run_live(&l, NULL, ms);
        assert_true(l.n_reports <= 1);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_version),
        cmocka_unit_test(test_take_modules),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_live_stopped),
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
