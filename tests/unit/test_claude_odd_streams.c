/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Replies that end for each reason there is, that lack what may lack, and that
 * hold what a tree of cJSON does not.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_stream_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "claude/claude_codec_internal.h"
#include "unit/claude_events.h"

#define MAX_BYTES (200u << 20)

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct sbuf *shown = ctx;

    (void)end;
    sbuf_add(shown, text, len);
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    (void)ctx;
    (void)name;
    (void)input;
    (void)len;
}

static const struct claude_stream_handlers handlers = {
    .on_thinking = on_text, .on_text = on_text, .on_tool = on_tool};

struct result {
    struct sbuf shown;
    int rc;
    struct claude_reply reply;
    struct claude_failure failure;
};

/* Fed in pieces of step bytes, each in memory of its own. */
static void
run(struct result *r, const char *bytes, size_t len, size_t step)
{
    struct claude_stream *s =
        claude_stream_new(false, NULL, &handlers, &r->shown);

    sbuf_init(&r->shown, MAX_BYTES);
    for (size_t at = 0; at < len && r->rc == 0; at += step) {
        size_t n = step < len - at ? step : len - at;
        char *copy = xmemdup(bytes + at, n);

        r->rc = claude_stream_feed(s, copy, n, &r->failure);
        free(copy);
    }
    if (r->rc == 0) {
        r->rc = claude_stream_finish(s, &r->reply, &r->failure);
    }
    if (r->rc != 0) {
        claude_stream_partial(s, &r->reply);
    }
    claude_stream_free(s);
}

static void
fini(struct result *r)
{
    claude_reply_fini(&r->reply);
    sbuf_fini(&r->shown);
}

/* Why it ended, and what may lack */

struct odd_case {
    const char *name;
    const char *bytes;
    enum claude_stop expect_stop;
    const char *expect_content;
    const char *expect_shown;
    const char *expect_input; /* of the only call; NULL: there is none */
};

#define THOUGHT_SENT                                                           \
    "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"c2ln\"}"

static const struct odd_case odd_cases[] = {
    {"end_turn", BEGIN TEXT("0", "a ") REASON("end_turn") END,
     CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a ") "]", "a ", NULL},
    {"empty end_turn", BEGIN REASON("end_turn") END, CLAUDE_STOP_END_TURN, "[]",
     "", NULL},
    {"end_turn with an empty text", BEGIN TEXT("0", "") REASON("end_turn") END,
     CLAUDE_STOP_END_TURN, "[]", "", NULL},
    {"stop_sequence",
     BEGIN TEXT("0", "a")
         EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"stop_sequence\","
                                "\"stop_sequence\":\"##\"},\"usage\":{}") END,
     CLAUDE_STOP_SEQUENCE, "[" TEXT_SENT("a") "]", "a", NULL},
    {"pause_turn",
     BEGIN TEXT("0", "a")
         START("1", "\"type\":\"server_tool_use\",\"id\":\"s1\",\"name\":"
                    "\"look\",\"input\":{}") JSON_DELTA("1", "{\\\"q\\\":1}")
             STOP("1") REASON("pause_turn") END,
     CLAUDE_STOP_PAUSE,
     "[" TEXT_SENT("a") ",{\"type\":\"server_tool_use\",\"id\":\"s1\",\"name\":"
                        "\"look\",\"input\":{\"q\":1}}]",
     "a", NULL},
    {"model_context_window_exceeded",
     BEGIN TEXT("0", "a \\n") REASON("model_context_window_exceeded") END,
     CLAUDE_STOP_CONTEXT, "[" TEXT_SENT("a") "]", "a \n", NULL},
    {"model_context_window_exceeded in a call",
     BEGIN TEXT("0", "a") TOOL("1", "t1", "{\\\"code")
         REASON("model_context_window_exceeded") END,
     CLAUDE_STOP_CONTEXT, "[" TEXT_SENT("a") "]", "a", NULL},
    {"max_tokens in a call that is not closed",
     BEGIN TEXT("0", "a") TOOL_START("1", "t1")
         JSON_DELTA("1", "{\\\"code\\\":\\\"x") REASON("max_tokens") END,
     CLAUDE_STOP_MAX_TOKENS, "[" TEXT_SENT("a") "]", "a", NULL},
    {"max_tokens in a call without any fragment",
     BEGIN TEXT("0", "a") TOOL_START("1", "t1") REASON("max_tokens") END,
     CLAUDE_STOP_MAX_TOKENS, "[" TEXT_SENT("a") "]", "a", NULL},
    {"max_tokens in a text that is not closed",
     BEGIN TEXT_START("0") TEXT_DELTA("0", "a ") REASON("max_tokens") END,
     CLAUDE_STOP_MAX_TOKENS, "[" TEXT_SENT("a") "]", "a ", NULL},
    {"max_tokens in thinking",
     BEGIN THOUGHT_START("0")
         DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\"t\"")
             REASON("max_tokens") END,
     CLAUDE_STOP_MAX_TOKENS, "[]", "t", NULL},
    {"refusal in the middle",
     BEGIN TEXT("0", "a") TOOL("1", "t1", "{}") REASON("refusal") END,
     CLAUDE_STOP_REFUSAL, "[]", "a", NULL},
    {"no reason",
     BEGIN TEXT("0", "a") TOOL("1", "t1", "{}")
         EVENT("message_delta", ",\"delta\":{\"stop_reason\":null}") END,
     CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("a") "]", "a", NULL},
    {"no message_delta", BEGIN TEXT("0", "a") END, CLAUDE_STOP_UNKNOWN,
     "[" TEXT_SENT("a") "]", "a", NULL},
    {"several message_delta: the last reason counts, null is none",
     BEGIN TOOL("0", "t1", "{}") REASON("max_tokens") REASON("tool_use")
         EVENT("message_delta", ",\"delta\":{\"stop_reason\":null},\"usage\":"
                                "null") END,
     CLAUDE_STOP_TOOL_USE, "[" TOOL_SENT("t1", "{}") "]", "", "{}"},
    {"pings before the start and between",
     EVENT("ping", "") ": life\n\n" EVENT("ping", "") BEGIN EVENT("ping", "")
         TEXT_START("0") EVENT("ping", "") TEXT_DELTA("0", "a")
             EVENT("ping", "") STOP("0") EVENT("ping", "") REASON("end_turn")
                 EVENT("ping", "") END,
     CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a") "]", "a", NULL},
    {"text in the start",
     BEGIN START("0", "\"type\":\"text\",\"text\":\"a \"") TEXT_DELTA("0", "b")
         STOP("0") REASON("end_turn") END,
     CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a b") "]", "a b", NULL},
    {"null fields",
     "data: {\"type\":\"message_start\",\"message\":{\"id\":null,\"model\":"
     "null,\"content\":null,\"usage\":null,\"stop_reason\":null,"
     "\"stop_details\":null,\"container\":null,\"diagnostics\":null}}\n\n"
     "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
     "\"type\":\"text\",\"text\":null,\"citations\":null}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":null}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":null}}\n\n"
     "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
     "null,\"text\":\"no\"}}\n\n" TEXT_DELTA("0", "a") STOP(
         "0") "data: "
              "{\"type\":\"message_delta\",\"delta\":null,\"usage\":null}\n\n"
              "data: {\"type\":null}\n\n" REASON("end_turn") END,
     CLAUDE_STOP_END_TURN,
     "[{\"type\":\"text\",\"text\":\"a\",\"citations\":null}]", "a", NULL},
    {"thinking that is not shown",
     BEGIN THOUGHT_START("0")
         DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"c2ln\"")
             STOP("0") TOOL("1", "t1", "{}") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE, "[" THOUGHT_SENT "," TOOL_SENT("t1", "{}") "]", "",
     "{}"},
    {"estimated tokens of thinking",
     BEGIN THOUGHT_START("0")
         DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\"\","
                    "\"estimated_tokens\":50")
             DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"c2ln\"")
                 STOP("0") TEXT("1", "a") REASON("end_turn") END,
     CLAUDE_STOP_END_TURN, "[" THOUGHT_SENT "," TEXT_SENT("a") "]", "a", NULL},
    {"only empty fragments",
     BEGIN TOOL_START("0", "t1") JSON_DELTA("0", "") JSON_DELTA("0", "")
         STOP("0") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE, "[" TOOL_SENT("t1", "{}") "]", "", "{}"},
    {"text behind the object",
     BEGIN TOOL("0", "t1", "{\\\"code\\\":\\\"1\\\"} x") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1",
                   "{\"INVALID_JSON\":\"{\\\"code\\\":\\\"1\\\"} x\"}") "]",
     "", NULL},
    {"two objects", BEGIN TOOL("0", "t1", "{}{}") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"INVALID_JSON\":\"{}{}\"}") "]", "", NULL},
    {"integers beyond 2^53",
     BEGIN TOOL("0", "t1",
                "{\\\"code\\\":\\\"1\\\",\\\"n\\\":[9007199254740993,"
                "-18446744073709551617]}") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"code\":\"1\",\"n\":[9007199254740993,"
                         "-18446744073709551617]}") "]",
     "", "{\"code\":\"1\",\"n\":[9007199254740993,-18446744073709551617]}"},
    {"an escaped NUL over two fragments is not run",
     BEGIN TOOL_START("0", "t1") JSON_DELTA("0", "{\\\"code\\\":\\\"a\\\\u00")
         JSON_DELTA("0", "00b\\\"}") STOP("0") REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE, "[" TOOL_SENT("t1", "{\"code\":\"a\\u0000b\"}") "]",
     "", NULL},
    {"a NUL among the input itself is not run",
     BEGIN TOOL("0", "t1", "{\\\"code\\\":\\\"a\\u0000b\\\"}")
         REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"INVALID_JSON\":\"{\\\"code\\\":\\\"a\xEF\xBF\xBD"
                         "b\\\"}\"}") "]",
     "", NULL},
    {"a backslash before u0000 is run",
     BEGIN TOOL("0", "t1", "{\\\"code\\\":\\\"a\\\\\\\\u0000b\\\"}")
         REASON("tool_use") END,
     CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"code\":\"a\\\\u0000b\"}") "]", "",
     "{\"code\":\"a\\\\u0000b\"}"},
    {"lone surrogates in a text",
     BEGIN TEXT_START("0") TEXT_DELTA("0", "a\\ud83d") TEXT_DELTA("0", "b")
         TEXT_DELTA("0", "\\ude00") STOP("0") REASON("end_turn") END,
     CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a\\ufffdb\\ufffd") "]",
     "a\xEF\xBF\xBD"
     "b\xEF\xBF\xBD",
     NULL},
};

static void
check_odd(const struct odd_case *c, const char *bytes, size_t step)
{
    struct result r = {0};
    const char *input = NULL;

    run(&r, bytes, strlen(bytes), step);
    if (r.reply.n_calls == 1) {
        input = r.reply.calls[0].input;
    }
    if (r.rc != 0 || r.reply.stop != c->expect_stop ||
        strcmp(r.reply.content, c->expect_content) != 0 ||
        strcmp(r.shown.data, c->expect_shown) != 0 ||
        (input == NULL) != (c->expect_input == NULL) ||
        (input != NULL && strcmp(input, c->expect_input) != 0)) {
        fail_msg("%s: %s, stop %d, %s, shown %s, input %s", c->name,
                 r.failure.err.msg, r.reply.stop, r.reply.content, r.shown.data,
                 input != NULL ? input : "none");
    }
    fini(&r);
}

/* Lines that end in CR LF. */
static char *
with_cr(const char *bytes)
{
    struct sbuf sb;

    sbuf_init(&sb, MAX_BYTES);
    for (const char *p = bytes; *p != '\0'; p++) {
        if (*p == '\n') {
            sbuf_add_char(&sb, '\r');
        }
        sbuf_add_char(&sb, *p);
    }
    return sbuf_take(&sb);
}

static void
test_odd_streams(void **state)
{
    static const size_t steps[] = {1, 7, 100000};

    (void)state;
    for (size_t i = 0; i < LEN(odd_cases); i++) {
        AUTO_FREE char *cr = with_cr(odd_cases[i].bytes);

        for (size_t k = 0; k < LEN(steps); k++) {
            check_odd(&odd_cases[i], odd_cases[i].bytes, steps[k]);
            check_odd(&odd_cases[i], cr, steps[k]);
        }
    }
}

/* Depth 10,000 */

static void
add_nested(struct sbuf *sb, const char *open, const char *close)
{
    for (int i = 0; i < 10000; i++) {
        sbuf_add_str(sb, open);
    }
    for (int i = 0; i < 10000; i++) {
        sbuf_add_str(sb, close);
    }
}

static void
test_deep_event_is_a_clear_error(void **state)
{
    static const char *const begins[] = {
        BEGIN "data: {\"type\":\"news\",\"x\":",
        BEGIN "data: {\"type\":\"content_block_start\",\"index\":0,"
              "\"content_block\":{\"type\":\"new\"},\"x\":",
        BEGIN TEXT_START("0") "data: {\"type\":\"content_block_delta\","
                              "\"index\":0,\"delta\":",
    };

    (void)state;
    for (size_t i = 0; i < LEN(begins); i++) {
        struct result r = {0};
        struct sbuf sb;

        sbuf_init(&sb, MAX_BYTES);
        sbuf_add_str(&sb, begins[i]);
        add_nested(&sb, "[", "]");
        sbuf_add_str(&sb, "}\n\n" END);
        run(&r, sb.data, sb.len, 1000);
        assert_int_equal(r.rc, -1);
        assert_int_equal(r.failure.err.code, ERR_PROTOCOL);
        assert_non_null(strstr(r.failure.err.msg, "nested too deeply"));
        assert_false(r.failure.retry);
        sbuf_fini(&sb);
        fini(&r);
    }
}

static void
test_deep_input_is_not_run(void **state)
{
    struct result r = {0};
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, MAX_BYTES);
    sbuf_add_str(&sb, BEGIN TOOL_START("0", "t1"));
    sbuf_add_str(&sb,
                 "data: {\"type\":\"content_block_delta\",\"index\":0,"
                 "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":"
                 "\"{\\\"code\\\":");
    add_nested(&sb, "[", "]");
    sbuf_add_str(&sb, "}\"}}\n\n" STOP("0") REASON("tool_use") END);
    run(&r, sb.data, sb.len, 1000);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.reply.n_calls, 1);
    assert_null(r.reply.calls[0].input);
    assert_non_null(strstr(r.reply.content,
                           "\"input\":{\"INVALID_JSON\":\"{\\\"code\\\":[["));
    sbuf_fini(&sb);
    fini(&r);
}

static void
test_deep_refusal_is_one_sentence(void **state)
{
    struct claude_failure failure = {0};
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, MAX_BYTES);
    add_nested(&sb, "{\"error\":", "}");
    claude_codec_failure(529, sb.data, sb.len, "req_1", &failure);
    assert_int_equal(failure.err.code, ERR_OVERLOADED);
    assert_string_equal(failure.err.msg,
                        "the service is overloaded (529, request req_1)");
    sbuf_fini(&sb);
}

static void
test_text_behind_an_event_is_an_error(void **state)
{
    static const char *const events[] = {
        BEGIN TEXT_START("0") "data: {\"type\":\"content_block_delta\","
                              "\"index\":0,\"delta\":{\"type\":\"text_delta\","
                              "\"text\":\"a\"}}x\n\n" END,
        BEGIN "data: {\"type\":\"ping\"} {}\n\n" END,
    };

    (void)state;
    for (size_t i = 0; i < LEN(events); i++) {
        struct result r = {0};

        run(&r, events[i], strlen(events[i]), 50);
        assert_int_equal(r.failure.err.code, ERR_PROTOCOL);
        assert_non_null(strstr(r.failure.err.msg, "is no JSON"));
        assert_string_equal(r.shown.data, "");
        fini(&r);
    }
}

/* What counts for the limit */

static void
feed_times(struct claude_stream *s, const char *bytes, size_t n, int *rc,
           struct claude_failure *failure)
{
    for (size_t i = 0; i < n && *rc == 0; i++) {
        *rc = claude_stream_feed(s, bytes, strlen(bytes), failure);
    }
}

static void
test_only_what_is_kept_counts(void **state)
{
    AUTO_FREE char *chunk = xcalloc(1, (1u << 20) + 1);
    AUTO_FREE char *comment = NULL;
    AUTO_FREE char *delta = NULL;
    struct claude_failure failure = {0};
    struct sbuf shown;
    struct claude_stream *s;
    int rc = 0;

    (void)state;
    sbuf_init(&shown, MAX_BYTES);
    memset(chunk, 'x', 1u << 20);
    comment =
        xasprintf(": %s\nevent: ping\ndata: {\"type\":\"ping\"}\n\n", chunk);
    delta = xasprintf(TEXT_DELTA("0", "%s"), chunk);
    s = claude_stream_new(false, NULL, &handlers, &shown);
    feed_times(s, BEGIN TEXT_START("0"), 1, &rc, &failure);
    feed_times(s, comment, 100, &rc, &failure);
    assert_int_equal(rc, 0);
    feed_times(s, delta, 63, &rc, &failure);
    assert_int_equal(rc, 0);
    assert_int_equal(shown.len, 63u << 20);
    feed_times(s, delta, 2, &rc, &failure);
    assert_int_equal(rc, -1);
    assert_int_equal(failure.err.code, ERR_TOO_LARGE);
    assert_string_equal(failure.err.msg, "the reply is too long");
    claude_stream_free(s);
    sbuf_fini(&shown);
}

/* A signature replaces the one before and does not add to it. */
static void
test_signatures_do_not_add_up(void **state)
{
    AUTO_FREE char *chunk = xcalloc(1, (8u << 20) + 1);
    AUTO_FREE char *delta = NULL;
    struct claude_failure failure = {0};
    struct sbuf shown;
    struct claude_stream *s;
    int rc = 0;

    (void)state;
    sbuf_init(&shown, MAX_BYTES);
    memset(chunk, 'x', 8u << 20);
    delta = xasprintf(
        DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"%s\""), chunk);
    s = claude_stream_new(false, NULL, &handlers, &shown);
    feed_times(s, BEGIN THOUGHT_START("0"), 1, &rc, &failure);
    feed_times(s, delta, 20, &rc, &failure);
    assert_int_equal(rc, 0);
    claude_stream_free(s);
    sbuf_fini(&shown);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_streams),
        cmocka_unit_test(test_deep_event_is_a_clear_error),
        cmocka_unit_test(test_deep_input_is_not_run),
        cmocka_unit_test(test_deep_refusal_is_one_sentence),
        cmocka_unit_test(test_text_behind_an_event_is_an_error),
        cmocka_unit_test(test_only_what_is_kept_counts),
        cmocka_unit_test(test_signatures_do_not_add_up),
    };

    return cmocka_run_group_tests_name("claude_odd_streams", tests, NULL, NULL);
}
