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
#include "base/log.h"
#include "base/sbuf.h"
#include "sandbox/e2b_envelope_internal.h"

#define START "\0\0\0\0\x1f{\"event\":{\"start\":{\"pid\":812}}}"
#define KEEPALIVE "\0\0\0\0\x1a{\"event\":{\"keepalive\":{}}}"
#define EMPTY "\0\0\0\0\0"
#define END "\x02\0\0\0\x02{}"
#define TIMED_OUT                                                              \
    "\x02\0\0\0\x4c{\"error\":{\"code\":\"deadline_exceeded\",\"message\":"    \
    "\"context deadline exceeded\"}}"

/* A stream, and what comes out as "TEXT|" and "TEXT!" for the end. */
struct stream {
    const char *name;
    const char *bytes;
    size_t len;
    const char *expect;
    size_t expect_len;
    enum error_code expect_code; /* of feed */
    bool expect_cut;             /* by finish */
};

#define BYTES(text) text, sizeof(text) - 1

static const struct stream streams[] = {
    {"a whole call", BYTES(START KEEPALIVE END),
     BYTES("{\"event\":{\"start\":{\"pid\":812}}}|{\"event\":{\"keepalive\":{}}"
           "}|{}!"),
     ERR_NONE, false},
    {"an error alone", BYTES(TIMED_OUT),
     BYTES("{\"error\":{\"code\":\"deadline_exceeded\",\"message\":"
           "\"context deadline exceeded\"}}!"),
     ERR_NONE, false},
    {"a message of no bytes", BYTES(EMPTY END), BYTES("|{}!"), ERR_NONE, false},
    {"an end of no bytes", BYTES("\x02\0\0\0\0"), BYTES("!"), ERR_NONE, false},
    {"a NUL in a message",
     BYTES("\0\0\0\0\x03"
           "a\0b" END),
     BYTES("a\0b|{}!"), ERR_NONE, false},
    {"nothing", BYTES(""), BYTES(""), ERR_NONE, true},
    {"no end", BYTES(START), BYTES("{\"event\":{\"start\":{\"pid\":812}}}|"),
     ERR_NONE, true},
    {"keepalives only", BYTES(KEEPALIVE KEEPALIVE),
     BYTES("{\"event\":{\"keepalive\":{}}}|{\"event\":{\"keepalive\":{}}}|"),
     ERR_NONE, true},
    {"cut in a head", BYTES("\0\0\0\0"), BYTES(""), ERR_NONE, true},
    {"cut behind a head", BYTES("\0\0\0\0\x01"), BYTES(""), ERR_NONE, true},
    {"cut in the end", BYTES("\x02\0\0\0\x02{"), BYTES(""), ERR_NONE, true},
    {"compressed", BYTES(EMPTY "\x01\0\0\0\x01x"), BYTES("|"), ERR_PROTOCOL,
     true},
    {"compressed end", BYTES("\x03\0\0\0\x01x"), BYTES(""), ERR_PROTOCOL, true},
    {"unknown flag", BYTES("\x04\0\0\0\x01x"), BYTES(""), ERR_PROTOCOL, true},
    {"unknown flag of the end", BYTES("\x82\0\0\0\x01x"), BYTES(""),
     ERR_PROTOCOL, true},
    {"a byte behind the end", BYTES(END "\0"), BYTES("{}!"), ERR_PROTOCOL,
     false},
    {"two ends", BYTES(END END), BYTES("{}!"), ERR_PROTOCOL, false},
    {"longer than allowed", BYTES("\0\0\0\x10\x01"), BYTES(""), ERR_TOO_LARGE,
     true},
    {"4 GiB", BYTES("\0\xff\xff\xff\xff"), BYTES(""), ERR_TOO_LARGE, true},
};

static int
take(void *ctx, const char *text, size_t len, bool is_end)
{
    struct sbuf *out = ctx;

    sbuf_add(out, text, len);
    sbuf_add_char(out, is_end ? '!' : '|');
    return 0;
}

/* Feeds the bytes up to cut, then the rest in pieces of step. */
static void
play(const struct stream *s, size_t cut, size_t step)
{
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_envelope e;
    struct error err = {0};
    size_t at = 0;
    int rc = 0;

    sbuf_init(&out, 4096);
    e2b_envelope_init(&e, 4096);
    while (rc == 0 && at < s->len) {
        size_t n = at < cut ? cut - at : step;
        AUTO_FREE char *piece = NULL;

        if (n > s->len - at)
            n = s->len - at;
        piece = xmemdup(s->bytes + at, n);
        rc = e2b_envelope_feed(&e, piece, n, take, &out, &err);
        at += n;
    }
    if (err.code != s->expect_code || (rc != 0) != (err.code != ERR_NONE))
        fail_msg("%s, cut at %zu: %s", s->name, cut, err.msg);
    if (out.len != s->expect_len ||
        memcmp(out.data, s->expect, s->expect_len) != 0)
        fail_msg("%s, cut at %zu: %s", s->name, cut, out.data);
    memset(&err, 0, sizeof(err));
    if ((e2b_envelope_finish(&e, &err) < 0) != s->expect_cut)
        fail_msg("%s, cut at %zu: %s", s->name, cut, err.msg);
    assert_int_equal(err.code, s->expect_cut ? ERR_NET : ERR_NONE);
    e2b_envelope_fini(&e);
}

static void
test_feed_in_any_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(streams); i++) {
        const struct stream *s = &streams[i];

        play(s, 0, 1);
        for (size_t cut = 0; cut <= s->len; cut++)
            play(s, cut, SIZE_MAX);
    }
}

static int
take_len(void *ctx, const char *text, size_t len, bool is_end)
{
    size_t *sum = ctx;

    (void)is_end;
    for (size_t i = 0; i < len; i++)
        *sum += (unsigned char)text[i] == 'x';
    return 0;
}

/* Fed as a network gives it; one that is as long as is allowed. */
static void
test_feed_longest_message(void **state)
{
    static char chunk[16384];
    struct e2b_envelope e;
    struct error err = {0};
    size_t n_given = 0;

    (void)state;
    memset(chunk, 'x', sizeof(chunk));
    e2b_envelope_init(&e, SIZE_MAX);
    assert_int_equal(
        e2b_envelope_feed(&e, "\0\x04\0\0\0", 5, take_len, &n_given, &err), 0);
    for (size_t n = 0; n < E2B_ENVELOPE_MAX_BYTES; n += sizeof(chunk))
        assert_int_equal(e2b_envelope_feed(&e, chunk, sizeof(chunk), take_len,
                                           &n_given, &err),
                         0);
    assert_int_equal(n_given, E2B_ENVELOPE_MAX_BYTES);
    assert_true(e.part.cap < E2B_ENVELOPE_MAX_BYTES / 2);
    assert_int_equal(
        e2b_envelope_feed(&e, "\0\x04\0\0\1", 5, take_len, &n_given, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_non_null(strstr(err.msg, "67108865 bytes; at most 67108864"));
    e2b_envelope_fini(&e);
}

static int
stop(void *ctx, const char *text, size_t len, bool is_end)
{
    struct e2b_envelope *e = ctx;

    (void)text;
    (void)len;
    (void)is_end;
    e2b_envelope_fini(e);
    memset(e, 0xff, sizeof(*e));
    return 7;
}

/* Two messages in one read, and the first handler releases the reader. */
static void
test_feed_stopped_by_its_handler(void **state)
{
    struct e2b_envelope e;

    (void)state;
    e2b_envelope_init(&e, 0);
    assert_int_equal(
        e2b_envelope_feed(&e, BYTES(KEEPALIVE KEEPALIVE), stop, &e, NULL), 7);
}

static void
test_add_gives_what_is_read(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_envelope e;

    (void)state;
    sbuf_init(&sb, 64);
    sbuf_init(&out, 64);
    e2b_envelope_add(&sb, BYTES("{\"a\":1}"));
    assert_int_equal(sb.len, 12);
    assert_memory_equal(sb.data, "\0\0\0\0\7{\"a\":1}", 12);
    e2b_envelope_add(&sb, "", 0);
    e2b_envelope_init(&e, 0);
    assert_int_equal(e2b_envelope_feed(&e, sb.data, sb.len, take, &out, NULL),
                     0);
    assert_string_equal(out.data, "{\"a\":1}||");
    e2b_envelope_fini(&e);
}

static void
test_add_without_room(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *text = xcalloc(1, 0x10203);

    (void)state;
    sbuf_init(&sb, 8);
    e2b_envelope_add(&sb, "four", 4);
    assert_false(sbuf_ok(&sb));
    assert_int_equal(sb.len, 0);
    sbuf_fini(&sb);
    sbuf_init(&sb, 1 << 20);
    e2b_envelope_add(&sb, text, 0x10203);
    assert_memory_equal(sb.data, "\0\0\1\2\3", 5);
}

static void
test_status_of_end(void **state)
{
    static const struct {
        const char *text;
        int expect_rc;
        enum e2b_code expect;
        const char *expect_message; /* NULL: none */
    } cases[] = {
        {"{}", 0, E2B_OK, NULL},
        {" { } ", 0, E2B_OK, NULL},
        {"{\"metadata\":{}}", 0, E2B_OK, NULL},
        {"{\"error\":null}", 0, E2B_OK, NULL},
        {"{\"error\":{\"code\":\"not_found\",\"message\":\"no such pid\"}}", 0,
         E2B_NOT_FOUND, "no such pid"},
        {"{\"error\":{\"code\":\"invalid_argument\",\"details\":[]},"
         "\"metadata\":{}}",
         0, E2B_INVALID_ARGUMENT, NULL},
        {"{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"\"}}", 0,
         E2B_DEADLINE_EXCEEDED, NULL},
        {"{\"error\":{\"code\":\"unauthenticated\",\"message\":\"a\\nb\"}}", 0,
         E2B_UNAUTHENTICATED, "a b"},
        {"{\"error\":{\"code\":\"ok\"}}", 0, E2B_UNKNOWN, NULL},
        {"{\"error\":{\"code\":\"no such code\"}}", 0, E2B_UNKNOWN, NULL},
        {"{\"error\":{\"code\":404}}", 0, E2B_UNKNOWN, NULL},
        {"{\"error\":{}}", 0, E2B_UNKNOWN, NULL},
        {"{\"error\":\"not_found\"}", -1, E2B_OK, NULL},
        {"[]", -1, E2B_OK, NULL},
        {"", -1, E2B_OK, NULL},
        {"{", -1, E2B_OK, NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct e2b_status s = {0};
        struct error err = {0};
        int rc =
            e2b_status_of_end(cases[i].text, strlen(cases[i].text), &s, &err);

        if (rc != cases[i].expect_rc || s.code != cases[i].expect)
            fail_msg("%s: %d %s", cases[i].text, rc, e2b_code_name(s.code));
        assert_int_equal(err.code, rc < 0 ? ERR_PROTOCOL : ERR_NONE);
        if (cases[i].expect_message == NULL)
            assert_null(s.message);
        else
            assert_string_equal(s.message, cases[i].expect_message);
        e2b_status_fini(&s);
    }
}

static void
test_status_of_failure(void **state)
{
    static const struct {
        int http_status;
        const char *body;
        enum e2b_code expect;
        const char *expect_message;
    } cases[] = {
        {409, "{\"code\":\"already_exists\",\"message\":\"directory\"}",
         E2B_ALREADY_EXISTS, "directory"},
        {401, "{\"code\":\"unauthenticated\",\"message\":\"no such user\"}",
         E2B_UNAUTHENTICATED, "no such user"},
        {401, "{\"code\":401,\"message\":\"invalid token\"}",
         E2B_UNAUTHENTICATED, "invalid token"},
        {500, "{\"code\":\"resource_exhausted\"}", E2B_RESOURCE_EXHAUSTED,
         NULL},
        {404, "{\"code\":404,\"message\":\"no file\"}", E2B_NOT_FOUND,
         "no file"},
        {404, "{\"code\":100004,\"message\":\"x\",\"requestID\":\"y\"}",
         E2B_NOT_FOUND, "x"},
        {404, "404 page not found\n", E2B_UNIMPLEMENTED, "404 page not found"},
        {409, "{\"code\":409,\"message\":\"is changing state\"}", E2B_ABORTED,
         "is changing state"},
        {415, "", E2B_UNIMPLEMENTED, NULL},
        {405, "", E2B_UNIMPLEMENTED, NULL},
        {502,
         "{\"sandboxId\":\"i1\",\"message\":\"The sandbox was not found\","
         "\"code\":502}",
         E2B_UNAVAILABLE, "The sandbox was not found"},
        {502, "\n<!DOCTYPE html><html><body>502</body></html>", E2B_UNAVAILABLE,
         NULL},
        {429, "{\"code\":429,\"message\":\"slow down\"}",
         E2B_RESOURCE_EXHAUSTED, "slow down"},
        {503, "", E2B_UNAVAILABLE, NULL},
        {504, "upstream request timeout", E2B_UNAVAILABLE,
         "upstream request timeout"},
        {507, "{\"code\":507,\"message\":\"disk\"}", E2B_RESOURCE_EXHAUSTED,
         "disk"},
        {418, "{}", E2B_UNKNOWN, NULL},
        {400, "[]", E2B_INVALID_ARGUMENT, "[]"},
        {403, "\x1b[31m\xff no\r\nsecond line", E2B_PERMISSION_DENIED,
         "[31m\xef\xbf\xbd no"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct e2b_status s = {0};

        e2b_status_of_failure(cases[i].http_status, cases[i].body,
                              strlen(cases[i].body), &s);
        if (s.code != cases[i].expect)
            fail_msg("%d %s: %s", cases[i].http_status, cases[i].body,
                     e2b_code_name(s.code));
        if (cases[i].expect_message == NULL)
            assert_null(s.message);
        else
            assert_string_equal(s.message, cases[i].expect_message);
        e2b_status_fini(&s);
    }
}

static void
test_status_message_is_bounded(void **state)
{
    AUTO_SBUF struct sbuf body = {0};
    struct e2b_status s;

    (void)state;
    sbuf_init(&body, 1 << 20);
    sbuf_add_str(&body, "a");
    for (size_t i = 0; i < 100000; i++)
        sbuf_add_str(&body, "\xc3\xa9");
    e2b_status_of_failure(500, body.data, body.len, &s);
    assert_int_equal(strlen(s.message), E2B_STATUS_MAX_MESSAGE_BYTES - 1);
    e2b_status_fini(&s);
}

/* What checks tokens may repeat the one that it refuses. */
static void
test_status_message_has_no_secret(void **state)
{
    static const char *const texts[] = {
        "bad token ey_secret_1!",
        "bad token ey_se\xe2\x80\x8b"
        "cret_1!",
        "bad token ey_\xc2\xad\xef\xbb\xbfsecret_\xe2\x80\xae"
        "1!",
    };

    (void)state;
    log_hide("ey_secret_1");
    for (size_t i = 0; i < LEN(texts); i++) {
        AUTO_SBUF struct sbuf body = {0};
        struct e2b_status s;

        e2b_status_of_failure(401, texts[i], strlen(texts[i]), &s);
        assert_non_null(s.message);
        assert_null(strstr(s.message, "ey_"));
        assert_null(strstr(s.message, "1!"));
        e2b_status_fini(&s);
        sbuf_init(&body, 200);
        sbuf_addf(&body, "{\"error\":{\"message\":\"%s\"}}", texts[i]);
        assert_int_equal(e2b_status_of_end(body.data, body.len, &s, NULL), 0);
        assert_null(strstr(s.message, "ey_"));
        e2b_status_fini(&s);
    }
    log_unhide("ey_secret_1");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_in_any_pieces),
        cmocka_unit_test(test_feed_longest_message),
        cmocka_unit_test(test_feed_stopped_by_its_handler),
        cmocka_unit_test(test_add_gives_what_is_read),
        cmocka_unit_test(test_add_without_room),
        cmocka_unit_test(test_status_of_end),
        cmocka_unit_test(test_status_of_failure),
        cmocka_unit_test(test_status_message_is_bounded),
        cmocka_unit_test(test_status_message_has_no_secret),
    };

    return cmocka_run_group_tests_name("e2b_envelope", tests, NULL, NULL);
}
