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

#include "base/array.h"
#include "base/sbuf.h"
#include "sandbox/marks_internal.h"

#define NONCE "0123456789abcdef"
#define M(n) "\0\x1e" NONCE ":" n "\x1e\0"
#define BYTES(s) (s), sizeof(s) - 1

/* What comes out, as one text: "text<7>text". */
static void
add_token(struct sbuf *out, const struct marks_token *token)
{
    if (token->kind == MARKS_TEXT)
        sbuf_add(out, token->text, token->len);
    else if (token->kind == MARKS_MARK)
        sbuf_addf(out, "<%llu>", (unsigned long long)token->number);
}

static void
feed(struct marks *m, struct sbuf *out, const char *data, size_t len)
{
    struct marks_token token;
    size_t at = 0;

    while (at < len) {
        size_t before = m->n_held;
        size_t n = marks_next(m, data + at, len - at, &token);

        assert_true(n > 0 || m->n_held < before);
        assert_true(n <= len - at);
        assert_true(m->n_held <= MARKS_MAX_BYTES);
        add_token(out, &token);
        at += n;
    }
}

static const struct {
    const char *name;
    const char *in;
    size_t in_len;
    const char *expect;
    size_t expect_len;
} cases[] = {
    {"no mark", BYTES("hello\n"), BYTES("hello\n")},
    {"one", BYTES("a" M("7") "b"), BYTES("a<7>b")},
    {"only", BYTES(M("1")), BYTES("<1>")},
    {"two", BYTES(M("1") M("2")), BYTES("<1><2>")},
    {"zero", BYTES(M("0")), BYTES("<0>")},
    {"ten digits", BYTES(M("4294967296")), BYTES("<4294967296>")},
    {"eleven digits", BYTES(M("42949672960")), BYTES(M("42949672960"))},
    {"leading zero", BYTES(M("07")), BYTES(M("07"))},
    {"no digits", BYTES(M("")), BYTES(M(""))},
    {"sign", BYTES(M("-1")), BYTES(M("-1"))},
    {"other nonce",
     BYTES("\0\x1e"
           "0123456789abcdee:1\x1e\0"),
     BYTES("\0\x1e"
           "0123456789abcdee:1\x1e\0")},
    {"NUL before", BYTES("\0" M("3")), BYTES("\0<3>")},
    {"NULs", BYTES("a\0\0\0b"), BYTES("a\0\0\0b")},
    {"starts again",
     BYTES("\0\x1e"
           "012" M("4") "x"),
     BYTES("\0\x1e"
           "012<4>x")},
    {"no last NUL",
     BYTES("\0\x1e" NONCE ":5\x1e"
           "x"),
     BYTES("\0\x1e" NONCE ":5\x1e"
           "x")},
    {"cut",
     BYTES("ab\0\x1e"
           "0123"),
     BYTES("ab\0\x1e"
           "0123")},
};

static void
run(size_t i, size_t first, size_t step)
{
    struct marks m;
    struct marks_token token;
    struct sbuf out;
    size_t at = first;

    marks_init(&m, NONCE);
    sbuf_init(&out, 4096);
    feed(&m, &out, cases[i].in, first);
    while (at < cases[i].in_len) {
        size_t n = cases[i].in_len - at < step ? cases[i].in_len - at : step;

        feed(&m, &out, cases[i].in + at, n);
        at += n;
    }
    marks_flush(&m, &token);
    add_token(&out, &token);
    if (out.len != cases[i].expect_len ||
        memcmp(out.data, cases[i].expect, out.len) != 0)
        fail_msg("%s, split at %zu by %zu: %zu bytes", cases[i].name, first,
                 step, out.len);
    sbuf_fini(&out);
}

static void
test_marks_next_in_any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        run(i, 0, cases[i].in_len);
        run(i, 0, 1);
        run(i, 0, 3);
        for (size_t at = 0; at <= cases[i].in_len; at++)
            run(i, at, cases[i].in_len);
    }
}

static void
test_marks_next_stops_at_mark(void **state)
{
    static const char in[] = "ab" M("9") "cd";
    struct marks m;
    struct marks_token token;
    size_t n;

    (void)state;
    marks_init(&m, NONCE);
    n = marks_next(&m, in, sizeof(in) - 1, &token);
    assert_int_equal(n, 2);
    assert_int_equal(token.kind, MARKS_TEXT);
    n += marks_next(&m, in + n, sizeof(in) - 1 - n, &token);
    assert_int_equal(token.kind, MARKS_MARK);
    assert_int_equal(token.number, 9);
    assert_int_equal(n, sizeof(in) - 1 - 2);
}

static void
test_marks_text_is_not_held_back(void **state)
{
    struct marks m;
    struct marks_token token;

    (void)state;
    marks_init(&m, NONCE);
    assert_int_equal(marks_next(&m, "visible", 7, &token), 7);
    assert_int_equal(token.kind, MARKS_TEXT);
    assert_int_equal(token.len, 7);
    marks_flush(&m, &token);
    assert_int_equal(token.kind, MARKS_NONE);
}

/* Each piece is a call: /dev/zero, or a mark's beginning for ever, must not
   become one for every few bytes. */
static void
test_marks_text_comes_in_large_pieces(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t len;
    } floods[] = {
        {"NULs", BYTES("\0")},
        {"halves", BYTES("\0\x1e")},
        {"nearly", BYTES("\0\x1e" NONCE ":1\x1ex")},
        {"others", BYTES("\0\x1e"
                         "0123456789abcdee:1\x1e\0")},
    };

    (void)state;
    for (size_t i = 0; i < LEN(floods); i++) {
        struct marks m;
        struct marks_token token;
        struct sbuf data;
        size_t n_pieces = 0;

        sbuf_init(&data, 1 << 20);
        while (data.len < 65536)
            sbuf_add(&data, floods[i].bytes, floods[i].len);
        marks_init(&m, NONCE);
        for (size_t at = 0; at < data.len; n_pieces++)
            at += marks_next(&m, data.data + at, data.len - at, &token);
        if (n_pieces > 3)
            fail_msg("%s: %zu pieces", floods[i].name, n_pieces);
        sbuf_fini(&data);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_next_in_any_pieces),
        cmocka_unit_test(test_marks_next_stops_at_mark),
        cmocka_unit_test(test_marks_text_is_not_held_back),
        cmocka_unit_test(test_marks_text_comes_in_large_pieces),
    };

    return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
