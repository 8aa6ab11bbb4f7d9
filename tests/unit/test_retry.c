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

struct wait_case {
    const char *name;
    int64_t expect_ms;
    int status;
    const char *should_retry;
    const char *retry_after;
    int attempt;     /* 0: the first */
    int64_t used_ms; /* of a minute */
    double random;
    bool once; /* it may not be done twice */
};

static const struct wait_case wait_cases[] = {
    {"no answer", 100, .status = 0},
    {"429", 100, .status = 429},
    {"502", 100, .status = 502},
    {"503", 100, .status = 503},
    {"504", 100, .status = 504},
    {"400", -1, .status = 400},
    {"401", -1, .status = 401},
    {"404", -1, .status = 404},
    {"500", -1, .status = 500},
    {"507", -1, .status = 507},
    {"the server says no", -1, .status = 429, .should_retry = "false"},
    {"the server says no, with a time", -1, .status = 503,
     .should_retry = "False", .retry_after = "1"},
    {"the server says yes", 100, .status = 500, .should_retry = "true"},
    {"in other letters", 100, .status = 500, .should_retry = "True"},
    {"the server says something", -1, .status = 500, .should_retry = "1"},
    {"something with a 503", 100, .status = 503, .should_retry = "1"},
    {"second", 200, .status = 503, .attempt = 2},
    {"third", 400, .status = 503, .attempt = 3},
    {"fourth", -1, .status = 503, .attempt = 4},
    {"fourth, asked for", -1, .status = 503, .attempt = 4,
     .should_retry = "true"},
    {"by chance half of it", 50, .status = 503, .random = 0.9999},
    {"by chance less", 300, .status = 503, .attempt = 3, .random = 0.5},
    {"a time", 2000, .status = 429, .retry_after = "2"},
    {"a time is not left to chance", 2000, .status = 429, .retry_after = "2",
     .random = 0.9},
    {"at once", 0, .status = 429, .retry_after = "0"},
    {"a time with a status that is final", -1, .status = 500,
     .retry_after = "2"},
    {"a fraction", 100, .status = 429, .retry_after = "2.5"},
    {"a sign", 100, .status = 429, .retry_after = "+2"},
    {"a date", 100, .status = 429,
     .retry_after = "Sun, 29 Nov 2026 12:00:30 GMT"},
    {"empty", 100, .status = 429, .retry_after = ""},
    {"absurd", -1, .status = 429, .retry_after = "99999999999999999999"},
    {"as long as all that is left", -1, .status = 429, .retry_after = "60"},
    {"a little is left", 2000, .status = 429, .retry_after = "2",
     .used_ms = 57999},
    {"nothing is left", -1, .status = 503, .used_ms = 60000},
    {"all is used up", -1, .status = 503, .used_ms = 60005},
    {"not repeatable", -1, .status = 503, .once = true},
    {"not repeatable, no answer", -1, .status = 0, .once = true},
    {"not repeatable, whatever is asked for", -1, .status = 429, .once = true,
     .should_retry = "true", .retry_after = "1"},
};

static void
test_wait_for_sandboxes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(wait_cases); i++) {
        const struct wait_case *c = &wait_cases[i];
        const struct retry_facts facts = {
            .repeatable = !c->once,
            .status = c->status,
            .should_retry = c->should_retry,
            .retry_after = c->retry_after,
            .attempt = c->attempt > 0 ? c->attempt : 1,
            .left_ms = 60000 - c->used_ms,
            .random = c->random,
        };
        int64_t ms = retry_wait_ms(&facts);

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
        cmocka_unit_test(test_wait_for_sandboxes),
    };

    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
