/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void
test_now_never_goes_back(void **unused)
{
    int64_t last = clock_now_us();

    (void)unused;
    for (int i = 0; i < 10000; i++) {
        int64_t now = clock_now_us();

        assert_true(now >= last);
        last = now;
    }
}

static void
test_now_ms_and_us_are_one_clock(void **unused)
{
    int64_t before = clock_now_us() / 1000;
    int64_t ms = clock_now_ms();
    int64_t after = clock_now_us() / 1000;

    (void)unused;
    assert_true(before <= ms);
    assert_true(ms <= after);
}

static void
test_wall_is_unix_time(void **unused)
{
    int64_t before = (int64_t)time(NULL);
    int64_t ms = clock_wall_ms();
    int64_t after = (int64_t)time(NULL);

    (void)unused;
    /* time() may lag behind by one tick of the kernel. */
    assert_true(ms / 1000 >= before);
    assert_true(ms / 1000 <= after + 1);
}

static void
test_wall_name_is_the_date(void **unused)
{
    char *first = clock_wall_name(0);
    char *second = clock_wall_name(1);
    char expect[32] = "";
    int n = -1;

    (void)unused;
    assert_int_equal(
        sscanf(first, "20%*2[0-9]%*2[0-9]%*2[0-9]-%*2[0-9]%*2[0-9]%*2[0-9]%n",
               &n),
        0);
    assert_int_equal(n, (int)strlen("20260102-150405"));
    assert_int_equal(strlen(first), n);
    /* A second may have begun between the two. */
    snprintf(expect, sizeof(expect), "%.15s-2", second);
    assert_string_equal(second, expect);
    assert_true(strcmp(first, second) < 0);
    free(first);
    free(second);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_now_never_goes_back),
        cmocka_unit_test(test_now_ms_and_us_are_one_clock),
        cmocka_unit_test(test_wall_is_unix_time),
        cmocka_unit_test(test_wall_name_is_the_date),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
