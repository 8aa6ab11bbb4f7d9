/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"

static void
test_comparisons(void **unused)
{
    (void)unused;
    assert_true(str_eq("a", "a"));
    assert_false(str_eq("a", "A"));
    assert_false(str_eq("a", "ab"));
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq(NULL, ""));
    assert_false(str_eq("", NULL));
    assert_true(str_eq_nocase("Content-Type", "content-TYPE"));
    assert_false(str_eq_nocase("abc", "abcd"));
    assert_false(str_eq_nocase("abcd", "abc"));
    assert_false(str_eq_nocase("@", "`"));
    assert_true(str_eq_nocase(NULL, NULL));
    assert_false(str_eq_nocase("a", NULL));
    assert_true(str_starts("abc", "ab"));
    assert_true(str_starts("abc", ""));
    assert_false(str_starts("ab", "abc"));
    assert_true(str_ends("abc", "bc"));
    assert_true(str_ends("abc", ""));
    assert_false(str_ends("bc", "abc"));
    assert_false(str_ends("abcd", "bc"));
}

static void
test_blank_and_trim(void **unused)
{
    static const struct {
        const char *text;
        bool expect_blank;
        const char *expect_trimmed;
    } cases[] = {
        {"", true, ""},
        {" \t\r\n\v\f", true, ""},
        {"a", false, "a"},
        {"  a b \n", false, "a b"},
        {"\xc2\xa0", false, "\xc2\xa0"},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        char *trimmed = str_trim(cases[i].text);

        assert_int_equal(str_blank(cases[i].text), cases[i].expect_blank);
        assert_string_equal(trimmed, cases[i].expect_trimmed);
        free(trimmed);
    }
    assert_true(str_blank(NULL));
}

static void
test_to_int_table(void **unused)
{
    static const struct {
        const char *text;
        int64_t min;
        int64_t max;
        int expect_rc;
        int64_t expect_value;
    } cases[] = {
        {"0", 0, 10, 0, 0},
        {"10", 0, 10, 0, 10},
        {"11", 0, 10, -1, 0},
        {"-1", 0, 10, -1, 0},
        {"-5", -5, 5, 0, -5},
        {"-6", -5, 5, -1, 0},
        {"007", 0, 10, 0, 7},
        {"9223372036854775807", INT64_MIN, INT64_MAX, 0, INT64_MAX},
        {"-9223372036854775808", INT64_MIN, INT64_MAX, 0, INT64_MIN},
        {"9223372036854775808", INT64_MIN, INT64_MAX, -1, 0},
        {"-9223372036854775809", INT64_MIN, INT64_MAX, -1, 0},
        {"99999999999999999999999", INT64_MIN, INT64_MAX, -1, 0},
        {"", 0, 10, -1, 0},
        {" 1", 0, 10, -1, 0},
        {"1 ", 0, 10, -1, 0},
        {"+1", 0, 10, -1, 0},
        {"-", -10, 10, -1, 0},
        {"--1", -10, 10, -1, 0},
        {"0x1", 0, 10, -1, 0},
        {"1.5", 0, 10, -1, 0},
        {NULL, 0, 10, -1, 0},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        int64_t value = 77;
        int rc =
            str_to_int(cases[i].text, cases[i].min, cases[i].max, &value, &err);

        assert_int_equal(rc, cases[i].expect_rc);
        assert_true(value == (rc == 0 ? cases[i].expect_value : 77));
        assert_int_equal(err.code, rc == 0 ? ERR_NONE : ERR_DATA);
    }
}

static void
test_to_int_names_value_and_range(void **unused)
{
    struct error err = {0};
    int64_t value = 0;

    (void)unused;
    assert_int_equal(str_to_int("12x", -3, 400, &value, &err), -1);
    assert_non_null(strstr(err.msg, "12x"));
    assert_non_null(strstr(err.msg, "-3"));
    assert_non_null(strstr(err.msg, "400"));
}

static void
test_nearest_table(void **unused)
{
    static const char *const words[] = {
        "load",    "files",   "code",
        "quit",    "help",    "base_url",
        "timeout", "api_key", "max_output_tokens"};
    static const struct {
        const char *text;
        const char *expect;
    } cases[] = {
        {"load", "load"},
        {"lod", "load"},
        {"laod", "load"},
        {"loaad", "load"},
        {"xoad", "load"},
        {"hepl", "help"},
        {"file", "files"},
        {"lxxd", NULL},
        {"", NULL},
        {"max_outptu_token", "max_output_tokens"},
        {"maxoutputtoken", "max_output_tokens"},
        {"completely_else", NULL},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        const char *nearest = str_nearest(cases[i].text, words, LEN(words));

        if (cases[i].expect) {
            assert_non_null(nearest);
            assert_string_equal(nearest, cases[i].expect);
        } else {
            assert_null(nearest);
        }
    }
    assert_null(str_nearest("load", words, 0));
    assert_ptr_equal(str_nearest("lod", words, 1), words[0]);
}

static void
test_nearest_takes_the_nearest(void **unused)
{
    static const char *const words[] = {"maximum_rowz", "maximum_rows"};

    (void)unused;
    assert_ptr_equal(str_nearest("maximum_rows", words, 2), words[1]);
    assert_ptr_equal(str_nearest("maximum_rowx", words, 2), words[0]);
}

static void
test_grouped_table(void **unused)
{
    static const struct {
        int64_t value;
        const char *expect;
    } cases[] = {
        {0, "0"},
        {7, "7"},
        {999, "999"},
        {1000, "1,000"},
        {-1000, "-1,000"},
        {-999, "-999"},
        {1234567, "1,234,567"},
        {100000, "100,000"},
        {1000000, "1,000,000"},
        {INT64_MAX, "9,223,372,036,854,775,807"},
        {INT64_MIN, "-9,223,372,036,854,775,808"},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 100);
        str_add_grouped(&sb, cases[i].value);
        assert_string_equal(sb.data, cases[i].expect);
        sbuf_fini(&sb);
    }
}

static void
test_bytes_table(void **unused)
{
    static const struct {
        uint64_t bytes;
        const char *expect;
    } cases[] = {
        {0, "0 B"},
        {512, "512 B"},
        {999, "999 B"},
        {1000, "1.0 kB"},
        {1049, "1.0 kB"},
        {1050, "1.1 kB"},
        {9949, "9.9 kB"},
        {9950, "10 kB"},
        {41200, "41 kB"},
        {41500, "42 kB"},
        {999499, "999 kB"},
        {999500, "1.0 MB"},
        {3100000, "3.1 MB"},
        {UINT64_C(4000000000), "4.0 GB"},
        {UINT64_MAX, "18 EB"},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 100);
        str_add_bytes(&sb, cases[i].bytes);
        assert_string_equal(sb.data, cases[i].expect);
        sbuf_fini(&sb);
    }
}

static void
test_mib_table(void **unused)
{
    static const struct {
        uint64_t bytes;
        const char *expect;
    } cases[] = {
        {0, "0 MiB"},
        {1, "1 MiB"},
        {1048576, "1 MiB"},
        {1048577, "2 MiB"},
        {UINT64_C(5368709120), "5120 MiB"},
        {UINT64_MAX, "17592186044416 MiB"},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 100);
        str_add_mib(&sb, cases[i].bytes);
        assert_string_equal(sb.data, cases[i].expect);
        sbuf_fini(&sb);
    }
}

static void
test_duration_table(void **unused)
{
    static const struct {
        int64_t ms;
        const char *expect;
    } cases[] = {
        {-5, "0.0 s"},           {0, "0.0 s"},         {49, "0.0 s"},
        {50, "0.1 s"},           {300, "0.3 s"},       {8400, "8.4 s"},
        {9949, "9.9 s"},         {9950, "10 s"},       {42000, "42 s"},
        {59499, "59 s"},         {59500, "1 min 0 s"}, {125000, "2 min 5 s"},
        {3600000, "60 min 0 s"},
    };

    (void)unused;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 100);
        str_add_duration(&sb, cases[i].ms);
        assert_string_equal(sb.data, cases[i].expect);
        sbuf_fini(&sb);
    }
}

struct decimal_case {
    const char *text;
    int n_decimals;
    int64_t max;
    int64_t expect; /* -1: refused */
};

static const struct decimal_case decimal_cases[] = {
    {"0", 2, 1000, 0},
    {"5", 2, 1000, 500},
    {"0.5", 2, 1000, 50},
    {"0.50", 2, 1000, 50},
    {"0.05", 2, 1000, 5},
    {"10.00", 2, 1000, 1000},
    {"007", 0, 10, 7},
    {"0.000000001", 9, 1000000000, 1},
    {"10.01", 2, 1000, -1},
    {"11", 2, 1000, -1},
    {"0.505", 2, 1000, -1},
    {"5.", 2, 1000, -1},
    {".5", 2, 1000, -1},
    {"", 2, 1000, -1},
    {NULL, 2, 1000, -1},
    {"-1", 2, 1000, -1},
    {"+1", 2, 1000, -1},
    {"1e1", 2, 1000, -1},
    {"1,5", 2, 1000, -1},
    {" 1", 2, 1000, -1},
    {"1 ", 2, 1000, -1},
    {"1.2.3", 2, 1000, -1},
    {"1.0", 0, 10, -1},
    {"11", 0, 10, -1},
    {"nan", 2, 1000, -1},
    {"99999999999999999999", 2, INT64_MAX, -1},
    {"9.223372036854775807", 18, INT64_MAX, INT64_MAX},
    {"9.223372036854775808", 18, INT64_MAX, -1},
};

static void
test_to_decimal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(decimal_cases) / sizeof(decimal_cases[0]);
         i++) {
        const struct decimal_case *t = &decimal_cases[i];
        struct error err = {0};
        int64_t value = -1;
        int rc = str_to_decimal(t->text, t->n_decimals, t->max, &value, &err);

        if (value != t->expect || (rc == 0) != (t->expect >= 0))
            fail_msg("%s: %lld", t->text, (long long)value);
        if (rc < 0)
            assert_int_equal(err.code, ERR_DATA);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_decimal),
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_blank_and_trim),
        cmocka_unit_test(test_to_int_table),
        cmocka_unit_test(test_to_int_names_value_and_range),
        cmocka_unit_test(test_nearest_table),
        cmocka_unit_test(test_nearest_takes_the_nearest),
        cmocka_unit_test(test_grouped_table),
        cmocka_unit_test(test_bytes_table),
        cmocka_unit_test(test_mib_table),
        cmocka_unit_test(test_duration_table),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
