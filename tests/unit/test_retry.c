/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/array.h"

/* 2026-11-29 12:00:00 UTC */
#define NOW_MS ((int64_t)1795953600000)

struct backoff_case {
    int n;
    double random;
    int64_t expect_ms;
};

static const struct backoff_case backoff_cases[] = {
    {0, 0, 500},      {1, 0, 1000},      {2, 0, 2000},    {3, 0, 4000},
    {4, 0, 8000},     {5, 0, 8000},      {1000, 0, 8000}, {0, 0.5, 437},
    {0, 0.9999, 375}, {4, 0.9999, 6000},
};

static void
test_backoff_doubles_up_to_a_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(backoff_cases); i++) {
        const struct backoff_case *c = &backoff_cases[i];

        assert_int_equal(retry_backoff_ms(c->n, c->random), c->expect_ms);
    }
}

struct after_case {
    const char *name;
    const char *ms;
    const char *after;
    int64_t expect_ms;
};

static const struct after_case after_cases[] = {
    {"nothing", NULL, NULL, -1},
    {"seconds", NULL, "2", 2000},
    {"a fraction", NULL, "0.25", 250},
    {"white space", NULL, " 3 ", 3000},
    {"milliseconds first", "300", "5", 300},
    {"fraction of a millisecond", "0.5", NULL, -1},
    {"milliseconds of no use", "soon", "5", 5000},
    {"zero milliseconds", "0", "5", 5000},
    {"zero", NULL, "0", -1},
    {"negative", NULL, "-5", -1},
    {"empty", "", "", -1},
    {"a point", ".", ".", -1},
    {"not finite", "inf", "nan", -1},
    {"hexadecimal", "0x10", NULL, -1},
    {"absurd", NULL, "99999999999999999999", 2147483647},
    {"a date to come", NULL, "Sun, 29 Nov 2026 12:00:30 GMT", 30000},
    {"a date gone by", NULL, "Sun, 29 Nov 2026 11:00:00 GMT", -1},
    {"no date", NULL, "tomorrow", -1},
};

static void
test_after_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(after_cases); i++) {
        const struct after_case *c = &after_cases[i];
        int64_t ms = retry_after_ms(c->ms, c->after, NOW_MS);

        if (ms != c->expect_ms) {
            fail_msg("%s: %lld", c->name, (long long)ms);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_doubles_up_to_a_limit),
        cmocka_unit_test(test_after_headers),
    };

    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
