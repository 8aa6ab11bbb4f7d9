/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sbuf.h"
#include "ui/copy_rate_internal.h"

#define MB 1000000u

static void
assert_words(struct copy_rate *r, int64_t now_ms, const char *expect)
{
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&out, 200);
    copy_rate_add(r, now_ms, &out);
    assert_string_equal(out.data, expect);
}

/* Of what is over soon nothing is said. */
static void
test_note_begins_late_and_is_not_often(void **state)
{
    struct copy_rate r = {0};
    int64_t last = 0;
    int n = 0;

    (void)state;
    assert_false(copy_rate_is_long(&r, 7000));
    for (int64_t ms = 1; ms <= 2000; ms++) {
        if (!copy_rate_note(&r, 7000 + ms, (uint64_t)ms, 100 * MB))
            continue;
        assert_true(ms > 500);
        assert_true(copy_rate_is_long(&r, 7000 + ms));
        assert_true(n == 0 || ms - last >= 100);
        last = ms;
        n++;
    }
    assert_int_equal(n, 15);
}

static void
test_add_is_of_the_last_seconds(void **state)
{
    struct copy_rate r = {0};
    uint64_t done = 0;
    int64_t ms = 1000;

    (void)state;
    /* A minute at 10 MB/s, then ten seconds at 1 MB/s. */
    for (int i = 0; i < 600; i++, ms += 100)
        (void)copy_rate_note(&r, ms, done += MB, 1200 * MB);
    assert_words(&r, ms - 100, "50 % of 1.2 GB, 10 MB/s");
    for (int i = 0; i < 100; i++, ms += 100)
        (void)copy_rate_note(&r, ms, done += MB / 10, 1200 * MB);
    assert_words(&r, ms - 100, "50 % of 1.2 GB, 1.0 MB/s");
    /* Nothing has come since. */
    assert_words(&r, ms + 60000, "50 % of 1.2 GB, 0 B/s");
}

/* As when a copy begins once more, or is of another file. */
static void
test_note_another_copy(void **state)
{
    struct copy_rate r = {0};

    (void)state;
    (void)copy_rate_note(&r, 1000, 0, 100 * MB);
    assert_true(copy_rate_note(&r, 2000, 50 * MB, 100 * MB));
    assert_words(&r, 2000, "50 % of 100 MB, 50 MB/s");
    assert_false(copy_rate_note(&r, 2100, 10 * MB, 100 * MB));
    assert_true(copy_rate_note(&r, 3100, 20 * MB, 100 * MB));
    assert_words(&r, 3100, "20 % of 100 MB, 10 MB/s");
    assert_false(copy_rate_note(&r, 3200, 30 * MB, 200 * MB));
}

static void
test_add_odd_totals(void **state)
{
    struct copy_rate r = {0};

    (void)state;
    (void)copy_rate_note(&r, 1000, 0, 0);
    assert_true(copy_rate_note(&r, 1600, 0, 0));
    assert_words(&r, 1600, "100 % of 0 B, 0 B/s");
    r = (struct copy_rate){0};
    (void)copy_rate_note(&r, 1000, 0, 10);
    assert_true(copy_rate_note(&r, 2000, UINT64_MAX, 10));
    assert_words(&r, 2000, "100 % of 18 EB, 1.0 EB/s");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_note_begins_late_and_is_not_often),
        cmocka_unit_test(test_add_is_of_the_last_seconds),
        cmocka_unit_test(test_note_another_copy),
        cmocka_unit_test(test_add_odd_totals),
    };

    return cmocka_run_group_tests_name("copy_rate", tests, NULL, NULL);
}
