/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"

#define FFFD "\xEF\xBF\xBD"

struct parse_case {
    const char *name;
    const char *text;
    const char *expect_print; /* NULL: refused */
};

static const struct parse_case parse_cases[] = {
    {"object", " {\"a\": [1, true, null, \"x\"]}\r\n",
     "{\"a\":[1,true,null,\"x\"]}"},
    {"scalar", "3", "3"},
    {"string", "\"\"", "\"\""},
    {"byte order mark", "\xEF\xBB\xBF{}", "{}"},
    {"escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
     "\"\\\"\\\\/\\b\\f\\n\\r\\t\xC3\xA9\""},
    {"surrogate pair", "\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\""},
    {"upper-case pair", "\"\\uD83D\\uDE00\"", "\"\xF0\x9F\x98\x80\""},
    {"NUL escape is replaced", "\"ab\\u0000cd\"", "\"ab" FFFD "cd\""},
    {"escaped backslash before u0000", "\"ab\\\\u0000\"", "\"ab\\\\u0000\""},
    {"lone high surrogate", "\"a\\ud83dz\"", "\"a" FFFD "z\""},
    {"lone low surrogate", "\"a\\ude00z\"", "\"a" FFFD "z\""},
    {"two high surrogates", "\"\\ud83d\\ud83d\\ude00\"",
     "\"" FFFD "\xF0\x9F\x98\x80\""},
    {"high surrogate at the end", "\"\\ud83d\"", "\"" FFFD "\""},
    {"high surrogate before another escape", "\"\\ud83d\\u0041\"",
     "\"" FFFD "A\""},
    {"broken UTF-8", "\"caf\xE9\"", "\"caf" FFFD "\""},
    {"broken UTF-8 in a key", "{\"\xFF\":1,\"b\":\"\xC0\x80\"}",
     "{\"" FFFD "\":1,\"b\":\"" FFFD FFFD "\"}"},
    {"changes one after another", "[\"\\u0000\",\"\xFF\",\"\\udc00\",7]",
     "[\"" FFFD "\",\"" FFFD "\",\"" FFFD "\",7]"},
    {"numbers", "[0,-0.5,1e3,1.5E-2,12345678901]",
     "[0,-0.5,1000,0.015,12345678901]"},
    {"number of 70 digits",
     "[1234567890123456789012345678901234567890123456789012345678901234567890]",
     "[1.2345678901234567e+69]"},
    {"long fraction",
     "0.5000000000000000000000000000000000000000000000000000000000000000000",
     "0.5"},

    {"empty", "", NULL},
    {"white space only", " \n", NULL},
    {"trailing text", "{} x", NULL},
    {"two values", "{}{}", NULL},
    {"trailing comma", "[1,]", NULL},
    {"comma in an object", "{\"a\":1,}", NULL},
    {"no comma", "[1 2]", NULL},
    {"no colon", "{\"a\" 1}", NULL},
    {"cut object", "{\"a\":", NULL},
    {"cut string", "\"ab", NULL},
    {"cut escape", "\"ab\\", NULL},
    {"cut unicode escape", "\"ab\\u00", NULL},
    {"bad unicode escape", "\"\\u00zz\"", NULL},
    {"unknown escape", "\"\\x41\"", NULL},
    {"line feed in a string", "\"a\nb\"", NULL},
    {"single quotes", "'a'", NULL},
    {"comment", "/* */ 1", NULL},
    {"leading zero", "01", NULL},
    {"no digit behind the point", "1.", NULL},
    {"no digit before the point", ".5", NULL},
    {"plus", "+1", NULL},
    {"minus alone", "-", NULL},
    {"two exponents", "1e5e5", NULL},
    {"infinite", "1e999", NULL},
    {"NaN", "NaN", NULL},
    {"longer word", "[nullx]", NULL},
    {"control character between", "[1,\v2]", NULL},
    {"broken UTF-8 between", "[1\xFF]", NULL},
    {"closing first", "]", NULL},
    {"wrong bracket", "[1}", NULL},
    {"closing twice", "[1]]", NULL},
};

static void
test_parse_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(parse_cases); i++) {
        const struct parse_case *c = &parse_cases[i];
        struct error err = {0};
        /* An allocation of exactly this size lets the sanitizer see a read
           behind the text. */
        AUTO_FREE char *text = xmemdup(c->text, strlen(c->text));
        AUTO_JSON struct cJSON *json =
            json_parse(text, strlen(c->text), 0, &err);

        if ((json == NULL) != (c->expect_print == NULL)) {
            fail_msg("%s: %s", c->name, json == NULL ? err.msg : "accepted");
        }
        if (json != NULL) {
            AUTO_FREE char *print = json_print(json);

            assert_string_equal(print, c->expect_print);
            assert_int_equal(err.code, ERR_NONE);
        } else {
            assert_int_equal(err.code, ERR_PROTOCOL);
            assert_true(err.msg[0] != '\0');
        }
    }
}

static void
test_parse_nul_byte(void **state)
{
    static const char after[] = "{}\0";
    static const char inside[] = "\"a\0b\"";
    struct error err = {0};

    (void)state;
    assert_null(json_parse(after, 3, 0, &err));
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_null(json_parse(inside, 5, 0, &err));
}

static char *
nest(size_t depth)
{
    struct sbuf sb;

    sbuf_init(&sb, 1 << 20);
    sbuf_add_repeat(&sb, '[', depth);
    sbuf_add_repeat(&sb, ']', depth);
    return sbuf_take(&sb);
}

static void
test_parse_depth(void **state)
{
    static const struct {
        size_t depth;
        int max_depth;
        bool expect_ok;
    } cases[] = {
        {64, 0, true},       {65, 0, false},       {3, 3, true},
        {4, 3, false},       {1000, 100000, true}, {1001, 100000, false},
        {100000, 64, false},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        AUTO_FREE char *text = nest(cases[i].depth);
        AUTO_JSON struct cJSON *json =
            json_parse(text, strlen(text), cases[i].max_depth, &err);

        assert_int_equal(json != NULL, cases[i].expect_ok);
    }
}

static char *
many_values(size_t n)
{
    struct sbuf sb;

    sbuf_init(&sb, 1 << 20);
    sbuf_add_str(&sb, "[0");
    for (size_t i = 2; i < n; i++)
        sbuf_add_str(&sb, ",0");
    sbuf_add_char(&sb, ']');
    return sbuf_take(&sb);
}

/* A tree takes many times the room of its text. */
static void
test_parse_many_values(void **state)
{
    AUTO_FREE char *most = many_values(JSON_MAX_VALUES);
    AUTO_FREE char *more = many_values(JSON_MAX_VALUES + 1);
    AUTO_JSON struct cJSON *json = NULL;
    struct error err = {0};

    (void)state;
    json = json_parse(most, strlen(most), 0, &err);
    assert_non_null(json);
    assert_null(json_parse(more, strlen(more), 0, &err));
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_non_null(strstr(err.msg, "too many values"));
}

static void
test_parse_depth_counts_open_ones(void **state)
{
    struct error err = {0};
    const char *text = "[[1],[2],[3],\"[[[[\"]";
    AUTO_JSON struct cJSON *json = json_parse(text, strlen(text), 2, &err);

    (void)state;
    assert_non_null(json);
}

static void
test_parse_number_length(void **state)
{
    (void)state;
    for (size_t n = 399; n <= 402; n++) {
        struct error err = {0};
        struct sbuf sb;
        struct cJSON *json;

        sbuf_init(&sb, 1000);
        sbuf_add_str(&sb, "0.");
        sbuf_add_repeat(&sb, '3', n - 2);
        json = json_parse(sb.data, sb.len, 0, &err);
        assert_int_equal(json != NULL, n <= 400);
        json_free(json);
        sbuf_fini(&sb);
    }
}

static void
test_has_nul_escape_backslashes(void **state)
{
    static const struct {
        const char *text;
        bool expect;
    } cases[] = {
        {"\"a\\u0000\"", true},
        {"\"a\\\\u0000\"", false},
        {"\"a\\\\\\u0000\"", true},
        {"\"u0000\"", false},
        {"\"\\u00001\"", true},
        {"\"\\u0001\"", false},
        {"{\"\\n\\u0000\":1}", true},
        {"\"\\u000", false},
        {"\\", false},
        {"", false},
        {"\"\\\\\\\\u0000\"", false},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_FREE char *text = xmemdup(cases[i].text, strlen(cases[i].text));

        if (json_has_nul_escape(text, strlen(cases[i].text)) !=
            cases[i].expect) {
            fail_msg("%s", cases[i].text);
        }
    }
}

static void
check_dup(const struct cJSON *json, const char *key, size_t max,
          const char *expect)
{
    char *copy = json_dup_string(json, key, max);

    if (expect == NULL)
        assert_null(copy);
    else
        assert_string_equal(copy, expect);
    free(copy);
}

static void
test_dup_string(void **state)
{
    static const char text[] = "{\"s\":\"text\",\"e\":\"\xC3\xA9\",\"i\":1}";
    struct error err = {0};
    AUTO_JSON struct cJSON *json = json_parse(text, strlen(text), 0, &err);

    (void)state;
    assert_non_null(json);
    check_dup(json, "s", 4, "text");
    check_dup(json, "s", 3, "tex");
    check_dup(json, "e", 2, "\xC3\xA9");
    check_dup(json, "e", 1, "");
    check_dup(json, "i", 9, NULL);
    check_dup(NULL, "s", 9, NULL);
}

static void
test_readers_types_and_defaults(void **state)
{
    static const char text[] =
        "{\"s\":\"text\",\"i\":42,\"d\":1.5,\"t\":true,\"f\":false,\"n\":null,"
        "\"big\":1e30,\"min\":-9223372036854775808,\"max\":9223372036854775807,"
        "\"S\":\"upper\",\"dup\":1,\"dup\":2,\"a\":[10,20],\"o\":{\"k\":\"v\"}"
        "}";
    struct error err = {0};
    AUTO_JSON struct cJSON *json = json_parse(text, strlen(text), 0, &err);
    struct cJSON *array;
    struct cJSON *member;

    (void)state;
    assert_non_null(json);
    assert_string_equal(json_string(json, "s"), "text");
    assert_string_equal(json_string(json, "S"), "upper");
    assert_null(json_string(json, "i"));
    assert_null(json_string(json, "missing"));
    assert_null(json_string(NULL, "s"));
    assert_int_equal(json_int(json, "i", -1), 42);
    assert_int_equal(json_int(json, "s", -1), -1);
    assert_int_equal(json_int(json, "d", -1), -1);
    assert_int_equal(json_int(json, "big", -1), -1);
    assert_int_equal(json_int(json, "max", -1), -1); /* 2^63 as a double */
    assert_true(json_int(json, "min", -1) == INT64_MIN);
    assert_int_equal(json_int(json, "n", -1), -1);
    assert_int_equal(json_int(json, "dup", -1), 2);
    assert_true(json_bool(json, "t", false));
    assert_false(json_bool(json, "f", true));
    assert_true(json_bool(json, "i", true));

    array = json_get(json, "a");
    assert_true(json_is_array(array));
    assert_false(json_is_object(array));
    assert_true(json_is_object(json));
    assert_false(json_is_object(NULL));
    assert_true(json_is_null(json_get(json, "n")));
    assert_false(json_is_null(json));
    assert_false(json_is_null(NULL));
    assert_int_equal(json_len(array), 2);
    assert_int_equal(json_len(NULL), 0);
    assert_non_null(json_item(array, 1));
    assert_null(json_item(array, 2));
    assert_null(json_get(array, "s"));
    member = json_first(json_get(json, "o"));
    assert_string_equal(json_key(member), "k");
    assert_string_equal(json_value_string(member), "v");
    assert_null(json_next(member));
    assert_null(json_first(json_get(json, "s")));
    assert_null(json_value_string(json_get(json, "i")));
}

static void
test_add_string_escapes(void **state)
{
    static const char raw[] = "q\" b\\ \n\t\r\b\f\x01\x1f\x7f\0z \xC3\xA9 \xFF";
    struct sbuf sb;
    struct error err = {0};
    struct cJSON *json;

    (void)state;
    sbuf_init(&sb, 1000);
    json_add_string(&sb, raw, sizeof(raw) - 1);
    assert_string_equal(sb.data,
                        "\"q\\\" b\\\\ \\n\\t\\r\\b\\f\\u0001\\u001f\\u007f"
                        "\\u0000z \xC3\xA9 " FFFD "\"");
    json = json_parse(sb.data, sb.len, 0, &err);
    assert_non_null(json);
    json_free(json);
    sbuf_clear(&sb);
    json_add_string(&sb, NULL, 0);
    json_add_string(&sb, "", 0);
    assert_string_equal(sb.data, "null\"\"");
    sbuf_fini(&sb);
}

static void
test_add_members_commas(void **state)
{
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, 1000);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "a", "x{");
    json_add_member_str(&sb, "none", NULL);
    json_add_member_int(&sb, "b", INT64_MIN);
    json_add_member_bool(&sb, "c", true);
    json_add_key(&sb, "o");
    sbuf_add_char(&sb, '{');
    json_add_member_bool(&sb, "d", false);
    sbuf_add_str(&sb, "}}");
    assert_string_equal(sb.data, "{\"a\":\"x{\",\"none\":null,"
                                 "\"b\":-9223372036854775808,\"c\":true,"
                                 "\"o\":{\"d\":false}}");
    sbuf_fini(&sb);
}

static void
test_print_nothing(void **state)
{
    AUTO_FREE char *text = json_print(NULL);

    (void)state;
    assert_string_equal(text, "null");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_cases),
        cmocka_unit_test(test_parse_nul_byte),
        cmocka_unit_test(test_parse_depth),
        cmocka_unit_test(test_parse_depth_counts_open_ones),
        cmocka_unit_test(test_parse_many_values),
        cmocka_unit_test(test_parse_number_length),
        cmocka_unit_test(test_has_nul_escape_backslashes),
        cmocka_unit_test(test_dup_string),
        cmocka_unit_test(test_readers_types_and_defaults),
        cmocka_unit_test(test_add_string_escapes),
        cmocka_unit_test(test_add_members_commas),
        cmocka_unit_test(test_print_nothing),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
