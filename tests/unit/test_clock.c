/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_now_never_goes_back),
        cmocka_unit_test(test_now_ms_and_us_are_one_clock),
        cmocka_unit_test(test_wall_is_unix_time),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
