/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/e2b_relay_internal.h"

#define WORD "0123456789abcdef0123456789abcdef"

static void
add_frame(struct sbuf *sb, char kind, uint64_t number, const char *text)
{
    size_t len = strlen(text);

    sbuf_add_char(sb, kind);
    for (int i = 7; i >= 0; i--)
        sbuf_add_char(sb, (char)(number >> 8 * i & 0xff));
    for (int i = 3; i >= 0; i--)
        sbuf_add_char(sb, (char)(len >> 8 * i & 0xff));
    sbuf_add(sb, text, len);
}

static void
on_frame(void *ctx, enum e2b_relay_kind kind, const char *data, size_t len)
{
    struct sbuf *out = ctx;

    sbuf_addf(out, "%c:%.*s;", (char)kind, (int)len, data);
}

/* In pieces of step bytes. Returns what e2b_relay_feed does. */
static int
feed(struct e2b_relay *r, const struct sbuf *in, size_t step, struct sbuf *out,
     struct error *err)
{
    for (size_t at = 0; at < in->len; at += step) {
        size_t left = in->len - at;

        if (e2b_relay_feed(r, in->data + at, left < step ? left : step,
                           on_frame, out, err) < 0)
            return -1;
    }
    return 0;
}

static void
test_relay_feed_in_any_pieces(void **state)
{
    AUTO_SBUF struct sbuf in = {0};

    (void)state;
    sbuf_init(&in, 1 << 20);
    sbuf_add_str(&in, "noise 0123456789abcdef0123" WORD);
    add_frame(&in, 'o', 1, "one");
    add_frame(&in, 'e', 2, "");
    add_frame(&in, 'v', 3, "{}\n");
    for (size_t step = 1; step <= in.len; step++) {
        AUTO_SBUF struct sbuf out = {0};
        struct e2b_relay r;
        struct error err = {0};

        sbuf_init(&out, 1 << 20);
        e2b_relay_init(&r);
        e2b_relay_await(&r, WORD);
        assert_int_equal(feed(&r, &in, step, &out, &err), 0);
        assert_string_equal(out.data, "o:one;e:;v:{}\n;");
        assert_int_equal(r.last, 3);
        assert_int_equal(r.n_bytes, 6);
        e2b_relay_fini(&r);
    }
}

/* Frames come again behind a break, also that which was cut. */
static void
test_relay_await_goes_on(void **state)
{
    AUTO_SBUF struct sbuf first = {0};
    AUTO_SBUF struct sbuf again = {0};

    (void)state;
    sbuf_init(&first, 1 << 20);
    sbuf_init(&again, 1 << 20);
    sbuf_add_str(&first, WORD);
    add_frame(&first, 'o', 1, "one");
    add_frame(&first, 'o', 2, "two");
    sbuf_add_str(&again, "wo" WORD);
    add_frame(&again, 'o', 1, "one");
    add_frame(&again, 'o', 2, "two");
    add_frame(&again, 'o', 3, "three");
    for (size_t cut = 0; cut <= first.len; cut++) {
        AUTO_SBUF struct sbuf out = {0};
        struct e2b_relay r;
        struct error err = {0};

        sbuf_init(&out, 1 << 20);
        e2b_relay_init(&r);
        e2b_relay_await(&r, WORD);
        assert_int_equal(
            e2b_relay_feed(&r, first.data, cut, on_frame, &out, &err), 0);
        e2b_relay_await(&r, WORD);
        assert_int_equal(feed(&r, &again, 5, &out, &err), 0);
        assert_string_equal(out.data, "o:one;o:two;o:three;");
        e2b_relay_fini(&r);
    }
}

static void
test_relay_feed_refuses(void **state)
{
    static const struct {
        char kind;
        uint64_t number;
        const char *words;
    } rows[] = {{'x', 1, "is no frame"},
                {'o', 2, "frame 2 came behind frame 0"},
                {'o', UINT64_MAX, "came behind frame 0"}};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        AUTO_SBUF struct sbuf in = {0};
        AUTO_SBUF struct sbuf out = {0};
        struct e2b_relay r;
        struct error err = {0};

        sbuf_init(&in, 1 << 20);
        sbuf_init(&out, 1 << 20);
        sbuf_add_str(&in, WORD);
        add_frame(&in, rows[i].kind, rows[i].number, "");
        e2b_relay_init(&r);
        e2b_relay_await(&r, WORD);
        assert_int_equal(feed(&r, &in, in.len, &out, &err), -1);
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_non_null(strstr(err.msg, rows[i].words));
        assert_int_equal(out.len, 0);
        e2b_relay_fini(&r);
    }
}

static void
test_relay_feed_refuses_a_long_frame(void **state)
{
    AUTO_SBUF struct sbuf in = {0};
    struct e2b_relay r;
    struct error err = {0};

    (void)state;
    sbuf_init(&in, 1 << 20);
    sbuf_add_str(&in, WORD);
    add_frame(&in, 'o', 1, "");
    in.data[in.len - 4] = 0x7f;
    e2b_relay_init(&r);
    e2b_relay_await(&r, WORD);
    assert_int_equal(feed(&r, &in, in.len, NULL, &err), -1);
    assert_int_equal(err.code, ERR_PROTOCOL);
    e2b_relay_fini(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relay_feed_in_any_pieces),
        cmocka_unit_test(test_relay_await_goes_on),
        cmocka_unit_test(test_relay_feed_refuses),
        cmocka_unit_test(test_relay_feed_refuses_a_long_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
