/* SPDX-License-Identifier: GPL-3.0-or-later */
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
#include "base/io.h"
#include "base/sbuf.h"
#include "claude/claude_codec_internal.h"
#include "unit/claude_events.h"

/* What the handlers were told: <...> thinking, (...) text, {...} tool input */
struct seen {
    struct sbuf log;
    struct sbuf tool;
    size_t n;
    size_t stop_after; /* 0: never */
};

static void
on_thinking(void *ctx, const char *text, size_t len, bool end)
{
    struct seen *seen = ctx;

    seen->n++;
    sbuf_add(&seen->log, text, len);
    sbuf_add_str(&seen->log, end ? ">" : "");
}

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct seen *seen = ctx;

    seen->n++;
    sbuf_add(&seen->log, text, len);
    sbuf_add_str(&seen->log, end ? ")" : "");
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    struct seen *seen = ctx;

    seen->n++;
    if (len == 0) {
        sbuf_addf(&seen->log, "%s!", name);
    }
    sbuf_clear(&seen->tool);
    sbuf_add(&seen->tool, input, len);
}

static bool
on_more(void *ctx)
{
    const struct seen *seen = ctx;

    return seen->stop_after == 0 || seen->n < seen->stop_after;
}

static const struct claude_stream_handlers handlers = {
    .on_thinking = on_thinking,
    .on_text = on_text,
    .on_tool = on_tool,
    .on_more = on_more,
};

struct result {
    struct seen seen;
    int rc;
    struct claude_reply reply;
    struct claude_failure failure;
};

static void
run(struct result *r, const char *bytes, size_t len, size_t first, size_t step,
    bool compatible)
{
    struct claude_stream *s =
        claude_stream_new(compatible, "req_9", &handlers, &r->seen);

    sbuf_init(&r->seen.log, 1u << 20);
    sbuf_init(&r->seen.tool, 1u << 20);
    for (size_t at = 0; at < len && r->rc == 0;) {
        size_t n = at == 0 ? first : step;
        char *copy;

        n = n < len - at ? n : len - at;
        copy = xmemdup(bytes + at, n);
        r->rc = claude_stream_feed(s, copy, n, &r->failure);
        free(copy);
        at += n;
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
    sbuf_fini(&r->seen.log);
    sbuf_fini(&r->seen.tool);
}

/* The recorded streams, in every chunking */

struct file_case {
    const char *file;
    enum claude_stop stop;
    enum error_code expect_error;
    const char *expect_content;
    const char *expect_log;
    const char *expect_tool; /* the input that was shown last */
    const char *expect_inputs[2];
    struct usage expect_usage;
};

static const struct file_case file_cases[] = {
    {"text",
     CLAUDE_STOP_END_TURN,
     ERR_NONE,
     "[{\"type\":\"text\",\"text\":\"Oslo is in Norway "
     "\\ud83c\\uddf3\\ud83c\\uddf4.\"}]",
     "Oslo is in Norway \xF0\x9F\x87\xB3\xF0\x9F\x87\xB4.)",
     NULL,
     {NULL, NULL},
     {14, 0, 0, 1830, 16}},
    {"tool",
     CLAUDE_STOP_TOOL_USE,
     ERR_NONE,
     "[" TEXT_SENT(
         "Counting the rows.") ",{\"type\":\"tool_use\",\"id\":"
                               "\"toolu_0b\",\"name\":\"run_python\",\"input\":"
                               "{\"code\": "
                               "\"rows = 1200\\nseen = "
                               "set()\\nprint(len(df[\\\"a\\\"]), rows)\"},"
                               "\"caller\":{\"type\":\"direct\"}}]",
     "Counting the rows.)run_python!",
     "{\"code\": \"rows = 1200\\nseen = set()\\nprint(len(df[\\\"a\\\"]), "
     "rows)\"}",
     {"{\"code\": \"rows = 1200\\nseen = set()\\nprint(len(df[\\\"a\\\"]), "
      "rows)\"}",
      NULL},
     {31, 612, 0, 1830, 97}},
    {"two-tools",
     CLAUDE_STOP_TOOL_USE,
     ERR_NONE,
     "[{\"type\":\"tool_use\",\"id\":\"toolu_0c1\",\"name\":\"run_python\","
     "\"input\":{\"code\": \"print(3**40)\"}},{\"type\":\"tool_use\",\"id\":"
     "\"toolu_0c2\",\"name\":\"run_python\",\"input\":{\"code\": "
     "\"import no_such_module\"}}]",
     "run_python!run_python!",
     "{\"code\": \"import no_such_module\"}",
     {"{\"code\": \"print(3**40)\"}", "{\"code\": \"import no_such_module\"}"},
     {20, 0, 0, 0, 74}},
    {"thinking",
     CLAUDE_STOP_TOOL_USE,
     ERR_NONE,
     "[{\"type\":\"thinking\",\"thinking\":\"A table of orders; its head will "
     "tell.\",\"signature\":\"c2lnbmVkIGJ5IG5vYm9keSAvKys9PQ==\"},"
     "{\"type\":\"tool_use\",\"id\":\"toolu_0d\",\"name\":\"run_python\","
     "\"input\":{\"code\": \"print(df.head())\"}}]",
     "A table of orders; its head will tell.>run_python!",
     "{\"code\": \"print(df.head())\"}",
     {"{\"code\": \"print(df.head())\"}", NULL},
     {9, 120, 0, 2442, 208}},
    {"error",
     CLAUDE_STOP_UNKNOWN,
     ERR_OVERLOADED,
     "[" TEXT_SENT("To begin") "]",
     "To begin",
     NULL,
     {NULL, NULL},
     {14, 0, 0, 1830, 1}},
    {"max-tokens",
     CLAUDE_STOP_MAX_TOKENS,
     ERR_NONE,
     "[" TEXT_SENT("Removing the old one.") "]",
     "Removing the old one.)run_python!",
     "{\"code\": \"import os\\nos.unlink(name",
     {NULL, NULL},
     {25, 0, 0, 1830, 64000}},
};

static void
check_file(const struct file_case *c, const char *bytes, size_t len,
           size_t first, size_t step)
{
    struct result r = {0};

    run(&r, bytes, len, first, step, false);
    assert_int_equal(r.failure.err.code, c->expect_error);
    assert_int_equal(r.rc, c->expect_error == ERR_NONE ? 0 : -1);
    assert_int_equal(r.reply.stop, c->stop);
    assert_string_equal(r.reply.content, c->expect_content);
    assert_string_equal(r.seen.log.data, c->expect_log);
    assert_string_equal(r.seen.tool.data,
                        c->expect_tool != NULL ? c->expect_tool : "");
    assert_memory_equal(&r.reply.usage, &c->expect_usage,
                        sizeof(c->expect_usage));
    for (size_t i = 0; i < 2; i++) {
        if (i < r.reply.n_calls) {
            assert_string_equal(r.reply.calls[i].input, c->expect_inputs[i]);
        } else {
            assert_null(c->expect_inputs[i]);
        }
    }
    fini(&r);
}

static void
test_recorded_streams_in_any_chunking(void **state)
{
    const char *top = getenv("abs_top_srcdir");

    (void)state;
    for (size_t i = 0; i < LEN(file_cases); i++) {
        AUTO_FREE char *path =
            xasprintf("%s/tests/corpus/fuzz_claude_stream/%s.sse",
                      top != NULL ? top : ".", file_cases[i].file);
        struct error err = {0};
        struct sbuf bytes;

        sbuf_init(&bytes, 1u << 20);
        if (io_read_file(path, &bytes, &err) < 0) {
            fail_msg("%s", err.msg);
        }
        check_file(&file_cases[i], bytes.data, bytes.len, bytes.len, 1);
        check_file(&file_cases[i], bytes.data, bytes.len, 1, 1);
        check_file(&file_cases[i], bytes.data, bytes.len, 7, 7);
        for (size_t k = 1; k < bytes.len; k++) {
            check_file(&file_cases[i], bytes.data, bytes.len, k, bytes.len);
        }
        sbuf_fini(&bytes);
    }
}

/* Streams of one kind each */

struct stream_case {
    const char *name;
    const char *bytes;
    bool compatible;
    enum error_code expect_error;
    bool expect_retry;
    enum claude_stop expect_stop;
    const char *expect_content;
    size_t expect_calls;
};

static const struct stream_case stream_cases[] = {
    {"no event", "", false, ERR_NET, true, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"no end", BEGIN TEXT("0", "hi ") REASON("end_turn"), false, ERR_NET, true,
     CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("hi") "]", 0},
    {"no end, compatible", BEGIN TEXT("0", "hi ") REASON("end_turn"), true,
     ERR_NONE, false, CLAUDE_STOP_END_TURN, "[" TEXT_SENT("hi ") "]", 0},
    {"no reason, compatible", BEGIN TEXT("0", "hi"), true, ERR_NET, true,
     CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("hi") "]", 0},
    {"last event without its blank line",
     BEGIN "event: message_stop\ndata: {\"type\":\"message_stop\"}\n", false,
     ERR_NET, true, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"error first",
     EVENT("error", ",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}"),
     false, ERR_REMOTE, true, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"error that is no JSON", "event: error\ndata: Overloaded\n\n", false,
     ERR_REMOTE, true, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"event that is no JSON", BEGIN "event: x\ndata: {\n\n", false,
     ERR_PROTOCOL, false, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"delta without block", BEGIN TEXT_DELTA("0", "x") END, false, ERR_PROTOCOL,
     false, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"block before the start", TEXT_START("0") BEGIN END, false, ERR_PROTOCOL,
     false, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"block twice", BEGIN TEXT("0", "x") TEXT_START("0") END, false,
     ERR_PROTOCOL, false, CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("x") "]", 0},
    {"pings, unknown events and deltas, [DONE]",
     EVENT("ping", "") BEGIN EVENT("news", ",\"index\":0") TEXT_START("0")
         DELTA("0", "\"type\":\"new_delta\",\"text\":\"no\"")
             TEXT_DELTA("0", "yes") EVENT("ping", "")
                 STOP("0") "data: {\"no\":\"type\"}\n\n" REASON("end_turn") END
     "data: [DONE]\n\n",
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[" TEXT_SENT("yes") "]", 0},
    {"data without names",
     "data: {\"type\":\"message_start\",\"message\":null}\n\n"
     "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
     "\"end_turn\"},\"usage\":null}\n\ndata: {\"type\":\"message_stop\"}\n\n",
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[]", 0},
    {"blank texts are left out",
     BEGIN TEXT("0", "") TEXT("1", " \\n\\u00a0") TEXT("2", "a") TEXT_START("3")
         STOP("3") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a") "]", 0},
    {"members of a text stay",
     BEGIN START("0", "\"text\":\"\",\"citations\":null,\"type\":\"text\","
                      "\"x\":1.50") TEXT_DELTA("0", "a\\/b") STOP("0")
         REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"text\":\"a\\/b\",\"citations\":null,\"type\":\"text\",\"x\":1.50}]",
     0},
    {"citations",
     BEGIN START("0", "\"type\":\"text\",\"text\":\"\",\"citations\":null")
         DELTA("0", "\"type\":\"citations_delta\",\"citation\":{\"n\":1}")
             DELTA("0", "\"type\":\"citations_delta\",\"citation\":{\"n\":2}")
                 TEXT_DELTA("0", "a") STOP("0") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"type\":\"text\",\"text\":\"a\",\"citations\":[{\"n\":1},{\"n\":2}]}]",
     0},
    {"unknown block stays as it is",
     BEGIN START("0", "\"type\":\"new\", \"n\":9007199254740993,\"s\":"
                      "\"a\\u0000b\"")
         DELTA("0", "\"type\":\"text_delta\",\"text\":\"no\"") STOP("0")
             TEXT("1", "a") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"type\":\"new\", "
     "\"n\":9007199254740993,\"s\":\"a\\u0000b\"}," TEXT_SENT("a") "]",
     0},
    {"thinking: value for value, the last signature",
     BEGIN THOUGHT_START("0")
         DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\"a\\u0000\\/\"")
             DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"s1\"")
                 DELTA("0", "\"type\":\"signature_delta\",\"signature\":\"s2\"")
                     STOP("0") TEXT("1", "a") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"type\":\"thinking\",\"thinking\":\"a\\u0000\\/\",\"signature\":"
     "\"s2\"}," TEXT_SENT("a") "]",
     0},
    {"empty thinking and redacted thinking stay",
     BEGIN THOUGHT_START("0") DELTA(
         "0", "\"type\":\"signature_delta\",\"signature\":\"s\"") STOP("0")
         START("1", "\"type\":\"redacted_thinking\",\"data\":\"d\"") STOP("1")
             TEXT("2", "a") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"s\"},"
     "{\"type\":\"redacted_thinking\",\"data\":\"d\"}," TEXT_SENT("a") "]",
     0},
    {"thinking without signature",
     BEGIN START("0", "\"type\":\"thinking\",\"thinking\":\"t\"") STOP("0")
         TEXT("1", "a") REASON("end_turn") END,
     true, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[{\"type\":\"thinking\",\"thinking\":\"t\"}," TEXT_SENT("a") "]", 0},
    {"never ends in thinking",
     BEGIN TEXT("0", "a") THOUGHT_START("1") STOP("1") TEXT("2", " ")
         REASON("max_tokens") END,
     false, ERR_NONE, false, CLAUDE_STOP_MAX_TOKENS, "[" TEXT_SENT("a") "]", 0},
    {"only thinking",
     BEGIN THOUGHT_START("0") STOP("0") REASON("max_tokens") END, false,
     ERR_NONE, false, CLAUDE_STOP_MAX_TOKENS, "[]", 0},
    {"cut text is trimmed",
     BEGIN TEXT("0", "a\\tb \\n") REASON("max_tokens") END, false, ERR_NONE,
     false, CLAUDE_STOP_MAX_TOKENS, "[" TEXT_SENT("a\\tb") "]", 0},
    {"max_tokens never runs a whole call either",
     BEGIN TOOL("0", "t1", "{}") TOOL("1", "t2", "{\\\"a") REASON("max_tokens")
         END,
     false, ERR_NONE, false, CLAUDE_STOP_MAX_TOKENS, "[]", 0},
    {"unknown reason runs nothing",
     BEGIN TEXT("0", "a") TOOL("1", "t1", "{}") REASON("new") END, false,
     ERR_NONE, false, CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("a") "]", 0},
    {"end_turn with a call", BEGIN TOOL("0", "t1", "{}") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[]", 0},
    {"end_turn with a call, compatible",
     BEGIN TOOL("0", "t1", "{}") REASON("end_turn") END, true, ERR_NONE, false,
     CLAUDE_STOP_TOOL_USE, "[" TOOL_SENT("t1", "{}") "]", 1},
    {"end_turn with an open call, compatible",
     BEGIN TOOL_START("0", "t1") JSON_DELTA("0", "{}") REASON("end_turn") END,
     true, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[]", 0},
    {"tool_use without a call", BEGIN TEXT("0", "a") REASON("tool_use") END,
     false, ERR_NONE, false, CLAUDE_STOP_UNKNOWN, "[" TEXT_SENT("a") "]", 0},
    {"input without fragments",
     BEGIN TOOL_START("0", "t1") STOP("0") REASON("tool_use") END, false,
     ERR_NONE, false, CLAUDE_STOP_TOOL_USE, "[" TOOL_SENT("t1", "{}") "]", 1},
    {"input in the start, compatible",
     BEGIN START("0", "\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"run\","
                      "\"input\":{\"code\":1}") STOP("0") REASON("tool_use")
         END,
     true, ERR_NONE, false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"code\":1}") "]", 1},
    {"large numbers and spaces in the input stay",
     BEGIN TOOL_START("0", "t1") JSON_DELTA("0", "")
         JSON_DELTA("0", "{ \\\"n\\\": 9007199") JSON_DELTA("0", "254740993 }")
             STOP("0") REASON("tool_use") END,
     false, ERR_NONE, false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{ \"n\": 9007199254740993 }") "]", 1},
    {"input that is no JSON",
     BEGIN TOOL("0", "t1", "{\\\"code\\\": \\\"x") REASON("tool_use") END,
     false, ERR_NONE, false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"INVALID_JSON\":\"{\\\"code\\\": \\\"x\"}") "]", 1},
    {"input that is no object",
     BEGIN TOOL("0", "t1", "[1]") REASON("tool_use") END, false, ERR_NONE,
     false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"INVALID_JSON\":\"[1]\"}") "]", 1},
    {"escaped NUL in the input is sent back, but not run",
     BEGIN TOOL("0", "t1", "{\\\"code\\\":\\\"a\\\\u0000b\\\"}")
         REASON("tool_use") END,
     false, ERR_NONE, false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"code\":\"a\\u0000b\"}") "]", 1},
    {"lone surrogate in the input is mended",
     BEGIN TOOL("0", "t1", "{\\\"code\\\":\\\"\\\\ud83d\\\"}")
         REASON("tool_use") END,
     false, ERR_NONE, false, CLAUDE_STOP_TOOL_USE,
     "[" TOOL_SENT("t1", "{\"code\":\"\\ufffd\"}") "]", 1},
    {"one id for two calls",
     BEGIN TOOL("0", "t1", "{}") TOOL("1", "t1", "{}") REASON("tool_use") END,
     false, ERR_PROTOCOL, false, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"call without an id",
     BEGIN START("0", "\"type\":\"tool_use\",\"name\":\"run\",\"input\":{}")
         STOP("0") REASON("tool_use") END,
     false, ERR_PROTOCOL, false, CLAUDE_STOP_UNKNOWN, "[]", 0},
    {"broken UTF-8",
     BEGIN TEXT("0", "a\xFF"
                     "b") REASON("end_turn") END,
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN,
     "[" TEXT_SENT("a\xEF\xBF\xBD"
                   "b") "]",
     0},
    {"events after the end",
     BEGIN TEXT("0", "a") REASON("end_turn") END TEXT_START("0")
         EVENT("error", ""),
     false, ERR_NONE, false, CLAUDE_STOP_END_TURN, "[" TEXT_SENT("a") "]", 0},
};

static void
test_stream_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stream_cases); i++) {
        const struct stream_case *c = &stream_cases[i];
        size_t len = strlen(c->bytes);
        size_t steps[] = {len, 1};

        for (size_t k = 0; k < LEN(steps); k++) {
            struct result r = {0};

            run(&r, c->bytes, len, steps[k], steps[k], c->compatible);
            if (r.failure.err.code != c->expect_error ||
                r.failure.retry != c->expect_retry ||
                r.reply.stop != c->expect_stop ||
                strcmp(r.reply.content, c->expect_content) != 0 ||
                r.reply.n_calls != c->expect_calls) {
                fail_msg("%s: %d %s %d %s %zu", c->name, r.failure.err.code,
                         r.failure.err.msg, r.reply.stop, r.reply.content,
                         r.reply.n_calls);
            }
            fini(&r);
        }
    }
}

static void
test_input_that_cannot_be_run_is_marked(void **state)
{
    static const char bytes[] =
        BEGIN TOOL("0", "t1", "{\\\"c\\\":\\\"a\\\\u0000b\\\"}")
            TOOL("1", "t2", "{\\\"c") TOOL("2", "t3", "{\\\"c\\\":1}")
                REASON("tool_use") END;
    struct result r = {0};

    (void)state;
    run(&r, bytes, strlen(bytes), 100, 100, false);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.reply.n_calls, 3);
    assert_null(r.reply.calls[0].input);
    assert_string_equal(r.reply.calls[0].raw_input, "{\"c\":\"a\\u0000b\"}");
    assert_null(r.reply.calls[1].input);
    assert_string_equal(r.reply.calls[1].raw_input, "{\"c");
    assert_string_equal(r.reply.calls[2].input, "{\"c\":1}");
    assert_string_equal(r.reply.calls[2].id, "t3");
    assert_string_equal(r.reply.calls[2].name, "run");
    fini(&r);
}

static void
test_surrogate_pair_over_two_fragments(void **state)
{
    static const char bytes[] =
        BEGIN TEXT_START("0") TEXT_DELTA("0", "a\\ud83d")
            TEXT_DELTA("0", "\\ude00b") STOP("0") REASON("end_turn") END;
    struct result r = {0};

    (void)state;
    run(&r, bytes, strlen(bytes), 50, 50, false);
    assert_string_equal(r.seen.log.data, "a\xF0\x9F\x98\x80"
                                         "b)");
    assert_string_equal(r.reply.text, "a\xF0\x9F\x98\x80"
                                      "b");
    assert_string_equal(r.reply.content, "[" TEXT_SENT("a\\ud83d\\ude00b") "]");
    fini(&r);
}

static void
test_refusal_keeps_nothing(void **state)
{
    static const char bytes[] = BEGIN TEXT("0", "half")
        EVENT("message_delta",
              ",\"delta\":{\"stop_reason\":\"refusal\",\"stop_details\":{"
              "\"type\":\"refusal\",\"explanation\":\"no.\"}}") END;
    struct result r = {0};

    (void)state;
    run(&r, bytes, strlen(bytes), 9, 9, false);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.reply.stop, CLAUDE_STOP_REFUSAL);
    assert_string_equal(r.reply.content, "[]");
    assert_string_equal(r.reply.explanation, "no.");
    assert_string_equal(r.reply.stop_reason, "refusal");
    assert_string_equal(r.reply.request_id, "req_9");
    assert_string_equal(r.reply.model, "m");
    fini(&r);
}

static void
test_usage_is_replaced_not_added(void **state)
{
    static const char bytes[] =
        EVENT("message_start",
              ",\"message\":{\"usage\":{\"input_tokens\":12,"
              "\"cache_creation_input_tokens\":340,\"cache_creation\":{"
              "\"ephemeral_5m_input_tokens\":300,"
              "\"ephemeral_1h_input_tokens\":40},"
              "\"cache_read_input_tokens\":5120,\"output_tokens\":1}}")
            EVENT("message_delta", ",\"delta\":{},\"usage\":{"
                                   "\"output_tokens\":20,"
                                   "\"input_tokens\":null}")
                EVENT("message_delta",
                      ",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
                      "\"output_tokens\":42,\"input_tokens\":13,"
                      "\"cache_creation_input_tokens\":340}") END;
    const struct usage expect = {13, 300, 40, 5120, 42};
    struct result r = {0};

    (void)state;
    run(&r, bytes, strlen(bytes), 1000, 1000, false);
    assert_int_equal(r.rc, 0);
    assert_memory_equal(&r.reply.usage, &expect, sizeof(expect));
    fini(&r);
}

static void
test_texts_are_joined_by_an_empty_line(void **state)
{
    static const char bytes[] = BEGIN TEXT("0", "a") TEXT("1", " ")
        TEXT("2", "b") REASON("end_turn") END;
    struct result r = {0};

    (void)state;
    run(&r, bytes, strlen(bytes), 1000, 1000, false);
    assert_string_equal(r.reply.text, "a\n\nb");
    fini(&r);
}

static void
test_nothing_more_when_told_so(void **state)
{
    static const char bytes[] = BEGIN TEXT_START("0") TEXT_DELTA("0", "a")
        TEXT_DELTA("0", "b") TEXT_DELTA("0", "c") STOP("0") END;
    struct result r = {.seen = {.stop_after = 2}};

    (void)state;
    run(&r, bytes, strlen(bytes), 10000, 10000, false);
    assert_string_equal(r.seen.log.data, "ab");
    fini(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_streams_in_any_chunking),
        cmocka_unit_test(test_stream_cases),
        cmocka_unit_test(test_input_that_cannot_be_run_is_marked),
        cmocka_unit_test(test_surrogate_pair_over_two_fragments),
        cmocka_unit_test(test_refusal_keeps_nothing),
        cmocka_unit_test(test_usage_is_replaced_not_added),
        cmocka_unit_test(test_texts_are_joined_by_an_empty_line),
        cmocka_unit_test(test_nothing_more_when_told_so),
    };

    return cmocka_run_group_tests_name("claude_stream", tests, NULL, NULL);
}
