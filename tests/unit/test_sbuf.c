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
#include <string.h>

#include "base/array.h"

#include "base/sbuf.h"

static void
test_init_has_text(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, 10);
    assert_string_equal(sb.data, "");
    assert_int_equal(sb.len, 0);
    assert_true(sbuf_ok(&sb));
    sbuf_truncate(&sb, 0);
    sbuf_drop(&sb, 5);
    sbuf_clear(&sb);
    assert_string_equal(sb.data, "");
    sbuf_fini(&sb);
    sbuf_fini(&sb);
}

static void
test_zero_is_valid(void **unused)
{
    struct sbuf sb = {0};

    (void)unused;
    sbuf_add(&sb, NULL, 0);
    assert_true(sbuf_ok(&sb));
    sbuf_add_char(&sb, 'x');
    assert_false(sbuf_ok(&sb));
    sbuf_fini(&sb);
}

static void
test_appends(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, 1000);
    sbuf_add(&sb, "a\0b", 3);
    sbuf_add_str(&sb, "cd");
    sbuf_add_char(&sb, 'e');
    sbuf_add_repeat(&sb, '-', 3);
    sbuf_add_repeat(&sb, 'x', 0);
    sbuf_addf(&sb, "%s%d", "f", 7);
    sbuf_addf(&sb, "%s", "");
    assert_int_equal(sb.len, 11);
    assert_memory_equal(sb.data, "a\0bcde---f7", 12);
    assert_true(sbuf_ok(&sb));
    sbuf_fini(&sb);
}

static void
test_growth_keeps_everything(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, 100000);
    for (int i = 0; i < 10000; i++) {
        sbuf_addf(&sb, "%05d", i);
    }
    assert_int_equal(sb.len, 50000);
    assert_memory_equal(sb.data, "0000000001", 10);
    assert_string_equal(sb.data + 49990, "0999809999");
    sbuf_fini(&sb);
}

static void
test_max_is_exact(void **unused)
{
    /* Around the first allocation and around its doubling. */
    static const size_t maxima[] = {0, 1, 5, 63, 64, 65, 127, 128, 200};

    (void)unused;
    for (size_t i = 0; i < LEN(maxima); i++) {
        size_t max = maxima[i];
        struct sbuf sb;

        sbuf_init(&sb, max);
        for (size_t k = 0; k < max; k++) {
            sbuf_add_char(&sb, 'x');
        }
        assert_true(sbuf_ok(&sb));
        assert_int_equal(sb.len, max);
        assert_true(sb.cap <= max + 1);
        sbuf_add_char(&sb, 'y');
        assert_false(sbuf_ok(&sb));
        assert_int_equal(sb.len, max);
        assert_int_equal(strlen(sb.data), max);
        sbuf_fini(&sb);
    }
}

static void
test_overflow_leaves_append_out_whole(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, 5);
    sbuf_add_str(&sb, "abc");
    sbuf_add_str(&sb, "def");
    assert_string_equal(sb.data, "abc");
    assert_false(sbuf_ok(&sb));
    sbuf_addf(&sb, "%s", "ghi");
    assert_string_equal(sb.data, "abc");
    sbuf_add_repeat(&sb, 'z', SIZE_MAX);
    assert_string_equal(sb.data, "abc");
    sbuf_add_str(&sb, "de");
    assert_string_equal(sb.data, "abcde");
    assert_false(sbuf_ok(&sb));
    sbuf_clear(&sb);
    assert_true(sbuf_ok(&sb));
    assert_string_equal(sb.data, "");
    sbuf_addf(&sb, "%s", "12345");
    assert_true(sbuf_ok(&sb));
    assert_string_equal(sb.data, "12345");
    sbuf_fini(&sb);
}

static void
test_huge_maximum_does_not_wrap(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, SIZE_MAX);
    sbuf_add_str(&sb, "abc");
    assert_true(sbuf_ok(&sb));
    sbuf_add_repeat(&sb, 'x', SIZE_MAX - 2);
    assert_false(sbuf_ok(&sb));
    assert_string_equal(sb.data, "abc");
    sbuf_fini(&sb);
}

static void
test_drop_and_truncate(void **unused)
{
    struct sbuf sb;

    (void)unused;
    sbuf_init(&sb, 100);
    sbuf_add_str(&sb, "abcdef");
    sbuf_drop(&sb, 2);
    assert_string_equal(sb.data, "cdef");
    sbuf_drop(&sb, 0);
    sbuf_truncate(&sb, 3);
    assert_string_equal(sb.data, "cde");
    sbuf_truncate(&sb, 100);
    assert_string_equal(sb.data, "cde");
    assert_int_equal(sb.len, 3);
    sbuf_drop(&sb, 100);
    assert_string_equal(sb.data, "");
    assert_int_equal(sb.len, 0);
    sbuf_fini(&sb);
}

static void
test_take_leaves_empty(void **unused)
{
    struct sbuf sb;
    char *text;

    (void)unused;
    sbuf_init(&sb, 100);
    text = sbuf_take(&sb);
    assert_string_equal(text, "");
    free(text);
    sbuf_add_str(&sb, "abc");
    text = sbuf_take(&sb);
    assert_string_equal(text, "abc");
    free(text);
    assert_string_equal(sb.data, "");
    sbuf_add_str(&sb, "def");
    assert_string_equal(sb.data, "def");
    sbuf_fini(&sb);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_has_text),
        cmocka_unit_test(test_zero_is_valid),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_growth_keeps_everything),
        cmocka_unit_test(test_max_is_exact),
        cmocka_unit_test(test_overflow_leaves_append_out_whole),
        cmocka_unit_test(test_huge_maximum_does_not_wrap),
        cmocka_unit_test(test_drop_and_truncate),
        cmocka_unit_test(test_take_leaves_empty),
    };

    return cmocka_run_group_tests_name("sbuf", tests, NULL, NULL);
}
