/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"

struct feed_case {
    const char *name;
    const char *bytes;
    size_t len;                /* 0: bytes is a string */
    const char *expect_events; /* NAME=DATA; for each */
    bool expect_partial;
};

static const struct feed_case feed_cases[] = {
    {"one", "event: a\ndata: x\n\n", 0, "a=x;", false},
    {"no space", "event:a\ndata:x\n\n", 0, "a=x;", false},
    {"two spaces", "data:  x\n\n", 0, "= x;", false},
    {"no name", "data: x\n\n", 0, "=x;", false},
    {"name is not kept", "event: a\ndata: x\n\ndata: y\n\n", 0, "a=x;=y;",
     false},
    {"name without data", "event: a\n\ndata: y\n\n", 0, "=y;", false},
    {"CR LF", "event: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n", 0, "a=x;=y;",
     false},
    {"CR", "event: a\rdata: x\r\rdata: y\r\r", 0, "a=x;=y;", false},
    {"mixed", "data: x\r\n\ndata: y\n\r\ndata: z\n\r", 0, "=x;=y;=z;", false},
    {"several data lines", "data: x\ndata:\ndata: y\n\n", 0, "=x\n\ny;", false},
    {"empty data", "data:\n\ndata\n\n", 0, "=;=;", false},
    {"comments", ": hello\ndata: x\n:\n\n", 0, "=x;", false},
    {"other fields", "id: 1\nretry: 5\nwhat: ever\ndata: x\n\n", 0, "=x;",
     false},
    {"a name that begins alike", "database: x\n\n", 0, "", false},
    {"byte order mark",
     "\xEF\xBB\xBF"
     "data: x\n\n",
     0, "=x;", false},
    {"a later mark is text",
     "data: x\n\n\xEF\xBB\xBF"
     "data: y\n\n",
     0, "=x;", false},
    {"NUL", "data: a\0b\n\n", 11, "=a\\0b;", false},
    {"not ended", "data: x\n\nevent: b\ndata: y\n", 0, "=x;", true},
    {"line not ended", "data: x", 0, "", true},
    {"nothing", "\n\n\n", 0, "", false},
};

static int
take(void *ctx, const char *name, const char *data, size_t len)
{
    struct sbuf *out = ctx;

    assert_int_equal(data[len], 0);
    sbuf_addf(out, "%s=", name);
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\0') {
            sbuf_add_str(out, "\\0");
        } else {
            sbuf_add_char(out, data[i]);
        }
    }
    sbuf_add_char(out, ';');
    return 0;
}

/* Each piece lies in memory of its own, so that reading past it is seen. */
static void
feed(struct sse *sse, const char *bytes, size_t len, struct sbuf *out)
{
    struct error err = {0};
    char *copy = xmemdup(bytes, len);

    assert_int_equal(sse_feed(sse, copy, len, take, out, &err), 0);
    free(copy);
}

/* first: bytes of the first piece; step: of the others. */
static void
check(const struct feed_case *c, size_t first, size_t step)
{
    size_t len = c->len > 0 ? c->len : strlen(c->bytes);
    struct sse sse;
    struct sbuf out;

    sse_init(&sse);
    sbuf_init(&out, 65536);
    for (size_t at = 0; at < len;) {
        size_t n = at == 0 ? first : step;

        if (n > len - at) {
            n = len - at;
        }
        feed(&sse, c->bytes + at, n, &out);
        at += n;
    }
    if (out.data == NULL || strcmp(out.data, c->expect_events) != 0 ||
        sse_is_partial(&sse) != c->expect_partial) {
        fail_msg("%s, pieces of %zu and %zu: %s", c->name, first, step,
                 out.data);
    }
    sse_fini(&sse);
    sbuf_fini(&out);
}

static void
test_feed_in_any_chunking(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(feed_cases); i++) {
        const struct feed_case *c = &feed_cases[i];
        size_t len = c->len > 0 ? c->len : strlen(c->bytes);

        check(c, len, len);
        check(c, 1, 1);
        for (size_t k = 1; k < len; k++) {
            check(c, k, len);
        }
    }
}

static int
stop_at_second(void *ctx, const char *name, const char *data, size_t len)
{
    int *n = ctx;

    (void)name;
    (void)data;
    (void)len;
    return ++*n == 2 ? 42 : 0;
}

static void
test_feed_stops_when_told(void **state)
{
    static const char bytes[] = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
    struct sse sse;
    int n = 0;

    (void)state;
    sse_init(&sse);
    assert_int_equal(
        sse_feed(&sse, bytes, strlen(bytes), stop_at_second, &n, NULL), 42);
    assert_int_equal(n, 2);
    sse_fini(&sse);
}

/* One long line, or many short ones: neither is kept without a limit. */
static void
test_feed_too_large(void **state)
{
    static const char *const lines[] = {"data: ", "data: x\n"};
    struct sbuf out;

    (void)state;
    sbuf_init(&out, 16);
    for (size_t i = 0; i < LEN(lines); i++) {
        struct error err = {0};
        struct sse sse;
        char *many = xmalloc(1u << 20);
        size_t unit = strlen(lines[i]);
        size_t n = 0;
        int rc = 0;

        for (size_t k = 0; k + unit <= 1u << 20; k += unit) {
            memcpy(many + k, lines[i], unit);
            n = k + unit;
        }
        sse_init(&sse);
        for (int k = 0; k < 1000 && rc == 0; k++) {
            rc = sse_feed(&sse, many, n, take, &out, &err);
        }
        assert_int_equal(rc, -1);
        assert_int_equal(err.code, ERR_TOO_LARGE);
        sse_fini(&sse);
        free(many);
    }
    sbuf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_in_any_chunking),
        cmocka_unit_test(test_feed_stops_when_told),
        cmocka_unit_test(test_feed_too_large),
    };

    return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}
