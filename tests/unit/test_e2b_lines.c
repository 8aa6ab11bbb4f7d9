/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "sandbox/e2b_lines_internal.h"

#define MAX_LINE 200u
#define KEEPALIVE "{\"type\": \"keepalive\"}\n"
#define DEEP "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]" /* 16, 17 with the line's */

/* An answer, and what comes out as compact JSON with "|" behind each, "~|"
   behind shortened ones, "long|" for those that are too long. */
struct answer {
    const char *name;
    const char *text;
    const char *expect;
    bool expect_failure;
};

static const struct answer answers[] = {
    {"nothing", "", "", false},
    {"two lines", "{\"a\": 1}\n{\"b\": 2}\n", "{\"a\":1}|{\"b\":2}|", false},
    {"keepalives only", KEEPALIVE KEEPALIVE KEEPALIVE,
     "{\"type\":\"keepalive\"}|{\"type\":\"keepalive\"}|"
     "{\"type\":\"keepalive\"}|",
     false},
    {"empty lines", "\n\r\n  \n{}\r\n\n", "{}|", false},
    {"no last line feed", "{\"a\":1}\n{\"b\":2}", "{\"a\":1}|{\"b\":2}|",
     false},
    {"cut line", "{\"a\":1}\n{\"b\":", "{\"a\":1}|", false},
    {"cut before the last brace", "{\"a\":1", "", false},
    {"last line is no object", "{}\n12", "{}|", false},
    {"escapes", "{\"a\":\"\\u00e9\\ud83d\\ude00\\n\\\\\\\"\"}\n",
     "{\"a\":\"\xc3\xa9\xf0\x9f\x98\x80\\n\\\\\\\"\"}|", false},
    {"raw UTF-8, broken too", "{\"a\":\"\xc3\xa9\xff\"}\n",
     "{\"a\":\"\xc3\xa9\xef\xbf\xbd\"}|", false},
    {"escaped NUL and lone surrogate", "{\"a\":\"b\\u0000c\\ud800d\"}\n",
     "{\"a\":\"b\xef\xbf\xbd"
     "c\xef\xbf\xbd"
     "d\"}|",
     false},
    {"brackets in strings", "{\"a\":[\"]\",\"\\\"[{\"],\"b\":\"}\"}\n",
     "{\"a\":[\"]\",\"\\\"[{\"],\"b\":\"}\"}|", false},
    {"line separator of Unicode", "{\"a\":\"x\xe2\x80\xa8y\"}\n",
     "{\"a\":\"x\xe2\x80\xa8y\"}|", false},
    {"a page", "{}\n<html>\n", "{}|", true},
    {"a list", "[1]\n", "", true},
    {"a number", "{}\n1\n{}\n", "{}|", true},
    {"two on a line", "{}{}\n", "", true},
    {"NaN", "{\"a\":NaN}\n", "", true},
    {"control character", "{\"a\":\"\x01\"}\n", "", true},
    {"braces that only close", "}}}\n", "", true},
    {"too deep", "{\"a\":" DEEP ",\"b\":[1]}\n{\"c\":1}\n",
     "{\"a\":null,\"b\":[1]}~|{\"c\":1}|", false},
    {"too deep, the last", "{\"b\":1,\"a\":" DEEP "}", "{\"b\":1,\"a\":null}~|",
     false},
    {"too deep, twice", "{\"a\":" DEEP ",\"b\":" DEEP "}\n",
     "{\"a\":null,\"b\":null}~|", false},
    {"too deep, with quotes",
     "{\"a\":[\"]\",[[[[[[[[[[[[[[[\"\\\"]\",{\"x\":\"}\"}]]]]]]]]]]]]]]]],"
     "\"b\":\"]\"}\n",
     "{\"a\":null,\"b\":\"]\"}~|", false},
    {"cut where it is too deep", "{\"a\":" DEEP, "", false},
    {"too long",
     "{\"a\":\"0123456789012345678901234567890123456789012345678901234567890123"
     "4567890123456789012345678901234567890123456789012345678901234567890123456"
     "789012345678901234567890123456789012345678901234567890123456789\"}\n"
     "{\"b\":1}\n",
     "long|{\"b\":1}|", false},
};

static int
take(void *ctx, const struct e2b_line *line)
{
    struct sbuf *out = ctx;
    AUTO_FREE char *text = NULL;

    if (line->event == NULL) {
        assert_int_equal(line->len, MAX_LINE);
        sbuf_add_str(out, "long|");
        return 0;
    }
    text = json_print(line->event);
    assert_true(line->len > 0 && line->len <= MAX_LINE);
    sbuf_addf(out, "%s%s|", text, line->is_shortened ? "~" : "");
    return 0;
}

/* Feeds the bytes up to cut, then the rest in pieces of step. */
static void
play(const struct answer *a, size_t cut, size_t step)
{
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_lines l;
    struct error err = {0};
    size_t len = strlen(a->text);
    size_t at = 0;
    int rc = 0;

    sbuf_init(&out, 4096);
    e2b_lines_init(&l, MAX_LINE);
    while (rc == 0 && at < len) {
        size_t n = at < cut ? cut - at : step;
        AUTO_FREE char *piece = NULL;

        if (n > len - at)
            n = len - at;
        piece = xmemdup(a->text + at, n);
        rc = e2b_lines_feed(&l, piece, n, take, &out, &err);
        at += n;
    }
    if (rc == 0)
        assert_int_equal(e2b_lines_finish(&l, take, &out), 0);
    if ((rc < 0) != a->expect_failure ||
        err.code != (rc < 0 ? ERR_PROTOCOL : ERR_NONE))
        fail_msg("%s, cut at %zu: %s", a->name, cut, err.msg);
    if (strcmp(out.data, a->expect) != 0)
        fail_msg("%s, cut at %zu: %s", a->name, cut, out.data);
    e2b_lines_fini(&l);
}

static void
test_feed_in_any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(answers); i++) {
        size_t len = strlen(answers[i].text);

        play(&answers[i], 0, 1);
        for (size_t cut = 0; cut <= len; cut++)
            play(&answers[i], cut, SIZE_MAX);
    }
}

/* --- large ones, as a network gives them --- */

struct last {
    size_t n_lines;
    size_t len;
    bool is_shortened;
    bool is_long;
    char *text; /* owned */
};

static int
keep_last(void *ctx, const struct e2b_line *line)
{
    struct last *last = ctx;

    last->n_lines++;
    last->len = line->len;
    last->is_shortened = line->is_shortened;
    last->is_long = line->event == NULL;
    free(last->text);
    last->text = json_print(line->event);
    return 0;
}

static void
feed_large(struct e2b_lines *l, const struct sbuf *sb, struct last *last)
{
    struct error err = {0};

    assert_true(sbuf_ok(sb));
    for (size_t at = 0; at < sb->len; at += 16384) {
        size_t n = sb->len - at < 16384 ? sb->len - at : 16384;

        if (e2b_lines_feed(l, sb->data + at, n, keep_last, last, &err) != 0)
            fail_msg("%s", err.msg);
    }
}

static void
test_feed_10_mib_line(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct last last = {0};
    struct e2b_lines l;

    (void)state;
    sbuf_init(&sb, 32u << 20);
    e2b_lines_init(&l, 0);
    sbuf_add_str(&sb, "{\"type\":\"result\",\"png\":\"");
    sbuf_add_repeat(&sb, 'A', 10u << 20);
    sbuf_add_str(&sb, "\"}\n");
    feed_large(&l, &sb, &last);
    assert_int_equal(last.n_lines, 1);
    assert_false(last.is_shortened);
    assert_int_equal(last.len, sb.len - 1);
    assert_int_equal(strlen(last.text), sb.len - 1);
    assert_true(l.line.cap <= 1u << 20);
    free(last.text);
    e2b_lines_fini(&l);
}

static void
test_feed_line_of_over_12_mib(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct last last = {0};
    struct e2b_lines l;

    (void)state;
    sbuf_init(&sb, 32u << 20);
    e2b_lines_init(&l, 0);
    sbuf_add_str(&sb, "{\"type\":\"stdout\",\"text\":\"");
    sbuf_add_repeat(&sb, 'x', (12u << 20) - sb.len - 2);
    sbuf_add_str(&sb, "\"}\n");
    feed_large(&l, &sb, &last);
    assert_false(last.is_long);
    assert_int_equal(last.len, E2B_LINES_MAX_BYTES);
    sbuf_truncate(&sb, sb.len - 3);
    sbuf_add_str(&sb, "x\"}\n");
    feed_large(&l, &sb, &last);
    assert_true(last.is_long);
    assert_int_equal(last.len, E2B_LINES_MAX_BYTES);
    assert_true(l.line.cap <= 1u << 20);
    sbuf_clear(&sb);
    sbuf_add_str(&sb, "{\"a\":1}\n");
    feed_large(&l, &sb, &last);
    assert_int_equal(last.n_lines, 3);
    assert_string_equal(last.text, "{\"a\":1}");
    free(last.text);
    e2b_lines_fini(&l);
}

/* A frame of a million cells comes whole, with its text before it. */
static void
test_feed_large_data_frame(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct last last = {0};
    struct e2b_lines l;

    (void)state;
    sbuf_init(&sb, 32u << 20);
    e2b_lines_init(&l, 0);
    sbuf_add_str(&sb,
                 "{\"type\": \"result\", \"text\": \"frame\", \"data\": {");
    for (size_t i = 0; i < 4; i++) {
        sbuf_addf(&sb, "%s\"c%zu\": [", i > 0 ? ", " : "", i);
        for (size_t row = 0; row < 250000; row++)
            sbuf_addf(&sb, "%s%zu.25", row > 0 ? ", " : "", row % 1000000);
        sbuf_add_str(&sb, "]");
    }
    sbuf_add_str(&sb, "}, \"chart\": {\"type\": \"line\"}, \"extra\": {}}\n");
    feed_large(&l, &sb, &last);
    assert_true(last.is_shortened);
    assert_string_equal(last.text,
                        "{\"type\":\"result\",\"text\":\"frame\",\"data\":null,"
                        "\"chart\":{\"type\":\"line\"},\"extra\":{}}");
    assert_true(l.line.cap <= 4u << 20);
    free(last.text);
    e2b_lines_fini(&l);
}

/* As many small values as the reader keeps, in several members, parse. */
static void
test_feed_many_values(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct last last = {0};
    struct e2b_lines l;

    (void)state;
    sbuf_init(&sb, 32u << 20);
    e2b_lines_init(&l, 0);
    sbuf_add_str(&sb, "{\"z\":0");
    for (size_t i = 0; i < 4; i++) {
        sbuf_addf(&sb, ",\"a%zu\":[{}", i);
        for (size_t n = 0; n < 13000; n++)
            sbuf_add_str(&sb, ",1");
        sbuf_add_char(&sb, ']');
    }
    sbuf_add_str(&sb, "}\n");
    feed_large(&l, &sb, &last);
    assert_true(last.is_shortened);
    assert_non_null(strstr(last.text, ",1],\"a3\":null}"));
    free(last.text);
    e2b_lines_fini(&l);
}

/* One long text within an object, of as many bytes as are kept and of one
   more. */
static void
test_feed_long_nested_text(void **state)
{
    static const size_t over[] = {0, 1};

    (void)state;
    for (size_t i = 0; i < LEN(over); i++) {
        AUTO_SBUF struct sbuf sb = {0};
        struct last last = {0};
        struct e2b_lines l;

        sbuf_init(&sb, 32u << 20);
        e2b_lines_init(&l, 0);
        sbuf_add_str(&sb, "{\"a\":{\"b\":\"");
        sbuf_add_repeat(&sb, '}',
                        E2B_LINES_MAX_NESTED_BYTES + over[i] -
                            strlen("{\"b\":\"\""));
        sbuf_add_str(&sb, "\"},\"c\":[1]}\n");
        feed_large(&l, &sb, &last);
        assert_int_equal(last.is_shortened, over[i] > 0);
        assert_int_equal(strcmp(last.text, "{\"a\":null,\"c\":[1]}") == 0,
                         over[i] > 0);
        free(last.text);
        e2b_lines_fini(&l);
    }
}

static int
stop(void *ctx, const struct e2b_line *line)
{
    struct e2b_lines *l = ctx;

    assert_int_equal(json_int(line->event, "a", 0), 1);
    e2b_lines_fini(l);
    memset(l, 0xff, sizeof(*l));
    assert_int_equal(json_int(line->event, "a", 0), 1);
    return 7;
}

static void
test_feed_stopped_by_its_handler(void **state)
{
    struct e2b_lines l;

    (void)state;
    e2b_lines_init(&l, 0);
    assert_int_equal(
        e2b_lines_feed(&l, "{\"a\":1}\n{\"a\":1}\n", 16, stop, &l, NULL), 7);
    e2b_lines_init(&l, 0);
    assert_int_equal(e2b_lines_feed(&l, "{\"a\":1}", 7, stop, &l, NULL), 0);
    assert_int_equal(e2b_lines_finish(&l, stop, &l), 7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_in_any_pieces),
        cmocka_unit_test(test_feed_10_mib_line),
        cmocka_unit_test(test_feed_line_of_over_12_mib),
        cmocka_unit_test(test_feed_large_data_frame),
        cmocka_unit_test(test_feed_many_values),
        cmocka_unit_test(test_feed_long_nested_text),
        cmocka_unit_test(test_feed_stopped_by_its_handler),
    };

    return cmocka_run_group_tests_name("e2b_lines", tests, NULL, NULL);
}
