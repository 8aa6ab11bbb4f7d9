/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What servers of other vendors leave out of a reply, or say twice: filled in
 * where they are known to be such, an error of the vendor's own.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_stream_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude_codec_internal.h"
#include "claude/history_internal.h"
#include "unit/claude_events.h"

/* Events without "index", and calls with any or no id. */
#define BARE_START(block)                                                      \
    EVENT("content_block_start", ",\"content_block\":{" block "}")
#define BARE_DELTA(delta) EVENT("content_block_delta", ",\"delta\":{" delta "}")
#define BARE_TEXT(text)                                                        \
    BARE_START("\"type\":\"text\",\"text\":\"\"")                              \
    BARE_DELTA("\"type\":\"text_delta\",\"text\":\"" text "\"")
#define BARE_STOP EVENT("content_block_stop", "")
#define ANY_START(index, id)                                                   \
    START(index, "\"type\":\"tool_use\"," id "\"name\":\"run\",\"input\":{}")
#define ANY_TOOL(index, id, json)                                              \
    ANY_START(index, id) JSON_DELTA(index, json) STOP(index)

#define MADE_1 "toolu_000000000000000000000001"
#define MADE_2 "toolu_000000000000000000000002"
#define MADE_3 "toolu_000000000000000000000003"
#define LATE_SENT(id, input)                                                   \
    "{\"type\":\"tool_use\",\"name\":\"run\",\"input\":" input ",\"id\":\"" id \
    "\"}"

#define CODE "{\\\"code\\\":\\\"1\\\"}"
#define CODE_SENT "{\"code\":\"1\"}"

struct gap_case {
    const char *name;
    const char *bytes;
    const char *expect_content; /* of another vendor's server */
    const char *expect_error;   /* of the vendor's own; part of it */
};

static const struct gap_case gap_cases[] = {
    {"no id", BEGIN ANY_TOOL("0", "", CODE) REASON("tool_use") END,
     "[" LATE_SENT(MADE_1, CODE_SENT) "]", "called a tool without an id"},
    {"null as id",
     BEGIN ANY_TOOL("0", "\"id\":null,", CODE) REASON("tool_use") END,
     "[" TOOL_SENT(MADE_1, CODE_SENT) "]", "called a tool without an id"},
    {"an empty id",
     BEGIN ANY_TOOL("0", "\"id\":\"\",", CODE) REASON("tool_use") END,
     "[" TOOL_SENT(MADE_1, CODE_SENT) "]", "called a tool without an id"},
    {"a number as id",
     BEGIN ANY_TOOL("0", "\"id\":7,", CODE) REASON("tool_use") END,
     "[" TOOL_SENT(MADE_1, CODE_SENT) "]", "called a tool without an id"},
    {"no id twice",
     BEGIN ANY_TOOL("0", "", CODE) ANY_TOOL("1", "", "{}") REASON("tool_use")
         END,
     "[" LATE_SENT(MADE_1, CODE_SENT) "," LATE_SENT(MADE_2, "{}") "]",
     "called a tool without an id"},
    {"one id twice",
     BEGIN TOOL("0", "t1", CODE) TOOL("1", "t1", "{}") REASON("tool_use") END,
     "[" TOOL_SENT("t1", CODE_SENT) "," TOOL_SENT(MADE_1, "{}") "]",
     "the id of a tool call twice"},
    {"the id that would be made up",
     BEGIN TOOL("0", MADE_1, CODE) ANY_TOOL("1", "", "{}") REASON("tool_use")
         END,
     "[" TOOL_SENT(MADE_1, CODE_SENT) "," LATE_SENT(MADE_2, "{}") "]",
     "called a tool without an id"},
    {"the id that was made up",
     BEGIN ANY_TOOL("0", "", CODE) TOOL("1", MADE_1, "{}") REASON("tool_use")
         END,
     "[" LATE_SENT(MADE_1, CODE_SENT) "," TOOL_SENT(MADE_2, "{}") "]",
     "called a tool without an id"},
    {"no message_start", TEXT("0", "a") REASON("end_turn") END,
     "[" TEXT_SENT("a") "]", "began a block out of order"},
    {"only a reason and the end", REASON("end_turn") END, "[]",
     "ended no reply"},
    {"no index",
     BEGIN BARE_TEXT("a") BARE_DELTA("\"type\":\"text_delta\",\"text\":\"b\"")
         BARE_STOP BARE_TEXT("c") BARE_STOP REASON("end_turn") END,
     "[" TEXT_SENT("ab") "," TEXT_SENT("c") "]", "began a block out of order"},
    {"null as index", BEGIN TEXT("null", "a") REASON("end_turn") END,
     "[" TEXT_SENT("a") "]", "began a block out of order"},
    {"no index in deltas",
     BEGIN TEXT("0", "a") TEXT_START("1")
         BARE_DELTA("\"type\":\"text_delta\",\"text\":\"b\"") STOP("1")
             REASON("end_turn") END,
     "[" TEXT_SENT("a") "," TEXT_SENT("b") "]", "continued no open block"},
    {"no index in the start",
     BEGIN TEXT("4", "a") BARE_START("\"type\":\"text\",\"text\":\"\"")
         TEXT_DELTA("5", "b") STOP("5") REASON("end_turn") END,
     "[" TEXT_SENT("a") "," TEXT_SENT("b") "]", "began a block out of order"},
    {"no index in the stop",
     BEGIN TEXT_START("0") TEXT_DELTA("0", "a") BARE_STOP TEXT("1", "b")
         REASON("end_turn") END,
     "[" TEXT_SENT("a") "," TEXT_SENT("b") "]", "ended no open block"},
    {"one index for all",
     BEGIN TEXT("0", "a") TEXT("0", "b") TOOL("0", "t1", CODE)
         REASON("tool_use") END,
     "[" TEXT_SENT("a") "," TEXT_SENT("b") "," TOOL_SENT("t1", CODE_SENT) "]",
     "began a block twice"},
    {"nothing but what is needed",
     BARE_TEXT("a")
         BARE_STOP BARE_START("\"type\":\"tool_use\",\"name\":\"run\"")
             BARE_DELTA("\"type\":\"input_json_delta\",\"partial_json\":\"" CODE
                        "\"") BARE_STOP REASON("tool_use"),
     "[" TEXT_SENT("a") ",{\"type\":\"tool_use\",\"name\":\"run\","
                        "\"id\":\"" MADE_1 "\",\"input\":" CODE_SENT "}]",
     "began a block out of order"},
};

/* What stays an error whoever sends it. */
static const struct gap_case bad_cases[] = {
    {"no name",
     BEGIN START("0", "\"type\":\"tool_use\",\"id\":\"t1\"") STOP("0")
         REASON("tool_use") END,
     NULL, "called a tool without a name"},
    {"a delta of no block",
     BEGIN BARE_DELTA("\"type\":\"text_delta\",\"text\":\"b\"") END, NULL,
     "continued no open block"},
    {"a delta behind the last block",
     BEGIN TEXT("0", "a") BARE_DELTA("\"type\":\"text_delta\",\"text\":\"b\"")
         END,
     NULL, "continued no open block"},
    {"a stop of no block", BEGIN BARE_STOP END, NULL, "ended no open block"},
    {"nothing but the end", END, NULL, "ended no reply"},
    {"message_start in the middle",
     BEGIN TEXT("0", "a") BEGIN REASON("end_turn") END, NULL,
     "began the reply twice"},
};

static void
on_any(void *ctx, const char *text, size_t len, bool end)
{
    (void)ctx;
    (void)text;
    (void)len;
    (void)end;
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    (void)ctx;
    (void)input;
    (void)len;
    assert_string_equal(name, "run");
}

static const struct claude_stream_handlers handlers = {
    .on_thinking = on_any, .on_text = on_any, .on_tool = on_tool};

/* Fed in pieces of step bytes, each in memory of its own. */
static int
run(const char *bytes, size_t step, bool compatible,
    const struct claude_history *h, struct claude_reply *reply,
    struct claude_failure *failure)
{
    struct claude_stream *s =
        claude_stream_new(compatible, NULL, &handlers, NULL);
    size_t len = strlen(bytes);
    int rc = 0;

    claude_stream_set_history(s, h);
    for (size_t at = 0; at < len && rc == 0; at += step) {
        size_t n = step < len - at ? step : len - at;
        char *copy = xmemdup(bytes + at, n);

        rc = claude_stream_feed(s, copy, n, failure);
        free(copy);
    }
    if (rc == 0) {
        rc = claude_stream_finish(s, reply, failure);
    }
    claude_stream_free(s);
    return rc;
}

static const size_t steps[] = {1, 9, 100000};

static void
expect_error(const struct gap_case *c, bool compatible)
{
    for (size_t k = 0; k < LEN(steps); k++) {
        struct claude_reply reply = {0};
        struct claude_failure failure = {0};

        if (run(c->bytes, steps[k], compatible, NULL, &reply, &failure) == 0) {
            fail_msg("%s: accepted as %s", c->name, reply.content);
        }
        assert_int_equal(failure.err.code, ERR_PROTOCOL);
        assert_false(failure.retry);
        if (strstr(failure.err.msg, c->expect_error) == NULL) {
            fail_msg("%s: %s", c->name, failure.err.msg);
        }
        claude_reply_fini(&reply);
    }
}

static void
test_gaps_of_other_servers_are_filled(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(gap_cases); i++) {
        const struct gap_case *c = &gap_cases[i];

        for (size_t k = 0; k < LEN(steps); k++) {
            struct claude_reply reply = {0};
            struct claude_failure failure = {0};

            if (run(c->bytes, steps[k], true, NULL, &reply, &failure) < 0) {
                fail_msg("%s: %s", c->name, failure.err.msg);
            }
            if (strcmp(reply.content, c->expect_content) != 0) {
                fail_msg("%s: %s", c->name, reply.content);
            }
            claude_reply_fini(&reply);
        }
    }
}

static void
test_gaps_of_the_vendor_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(gap_cases); i++) {
        expect_error(&gap_cases[i], false);
    }
}

static void
test_what_nobody_may_send(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_cases); i++) {
        expect_error(&bad_cases[i], false);
        expect_error(&bad_cases[i], true);
    }
}

/* The calls of a reply, each answered; the ids are what the service gets. */
static void
answer(struct claude_history *h, const struct claude_reply *reply)
{
    struct claude_tool_result results[4] = {{0}};
    const char *ids[4];
    struct error err = {0};

    assert_in_range(reply->n_calls, 1, LEN(ids));
    for (size_t i = 0; i < reply->n_calls; i++) {
        ids[i] = reply->calls[i].id;
        results[i] = (struct claude_tool_result){
            .tool_use_id = ids[i], .text = "1", .len = 1};
    }
    if (claude_history_add_assistant(h, reply->content, ids, reply->n_calls,
                                     &err) < 0 ||
        claude_history_add_results(h, results, reply->n_calls, NULL, &err) <
            0) {
        fail_msg("%s", err.msg);
    }
}

static void
expect_ids(const struct claude_reply *reply, const char *first,
           const char *second)
{
    assert_int_equal(reply->n_calls, 2);
    assert_string_equal(reply->calls[0].id, first);
    assert_string_equal(reply->calls[1].id, second);
}

/* A server that counts from one in every reply. */
static void
test_ids_are_unlike_those_of_earlier_replies(void **state)
{
    static const char twice[] = BEGIN TOOL("0", "call_1", CODE)
        TOOL("1", "call_2", "{}") REASON("tool_use") END;
    static const char none[] = BEGIN ANY_TOOL("0", "", CODE)
        ANY_TOOL("1", "", "{}") REASON("end_turn") END;
    struct claude_history *h = claude_history_new();
    struct claude_failure failure = {0};
    struct claude_reply replies[3] = {{0}};

    (void)state;
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    assert_int_equal(run(twice, 9, true, h, &replies[0], &failure), 0);
    expect_ids(&replies[0], "call_1", "call_2");
    answer(h, &replies[0]);
    assert_int_equal(run(twice, 9, true, h, &replies[1], &failure), 0);
    expect_ids(&replies[1], MADE_3, "toolu_000000000000000000000004");
    answer(h, &replies[1]);
    assert_int_equal(run(none, 9, true, h, &replies[2], &failure), 0);
    expect_ids(&replies[2], "toolu_000000000000000000000005",
               "toolu_000000000000000000000006");
    answer(h, &replies[2]);
    for (size_t i = 0; i < LEN(replies); i++) {
        claude_reply_fini(&replies[i]);
    }
    /* The vendor refuses such a conversation from then on. */
    assert_int_equal(run(twice, 9, false, h, &replies[0], &failure), -1);
    assert_non_null(strstr(failure.err.msg, "the id of a tool call twice"));
    claude_history_free(h);
}

/* What is asked for again without thinking still knows them. */
static void
test_ids_outlive_thinking(void **state)
{
    static const char call[] =
        BEGIN TOOL("0", "call_1", CODE) REASON("tool_use") END;
    static const char content[] =
        "[{\"type\":\"thinking\",\"thinking\":\"t\"},"
        "{\"type\":\"tool_use\",\"id\":\"call_1\",\"name\":\"run\",\"input\":{}"
        "}]";
    static const char *const ids[] = {"call_1"};
    const struct claude_tool_result result = {
        .tool_use_id = "call_1", .text = "1", .len = 1};
    struct claude_history *h = claude_history_new();
    struct claude_history *stripped;
    struct claude_failure failure = {0};
    struct claude_reply reply = {0};

    (void)state;
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    assert_int_equal(claude_history_add_assistant(h, content, ids, 1, NULL), 0);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
    stripped = claude_history_strip(h);
    claude_history_free(h);
    assert_int_equal(run(call, 9, true, stripped, &reply, &failure), 0);
    assert_string_equal(reply.calls[0].id, MADE_2);
    claude_reply_fini(&reply);
    claude_history_free(stripped);
}

static void
test_made_up_ids_have_the_form_of_the_vendors(void **state)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    struct claude_failure failure = {0};
    struct claude_reply reply = {0};

    (void)state;
    assert_int_equal(run(BEGIN ANY_TOOL("0", "", CODE) REASON("tool_use") END,
                         9, true, NULL, &reply, &failure),
                     0);
    assert_true(str_starts(reply.calls[0].id, "toolu_"));
    assert_int_equal(strspn(reply.calls[0].id, letters),
                     strlen(reply.calls[0].id));
    assert_string_equal(reply.calls[0].input, CODE_SENT);
    claude_reply_fini(&reply);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps_of_other_servers_are_filled),
        cmocka_unit_test(test_gaps_of_the_vendor_are_errors),
        cmocka_unit_test(test_what_nobody_may_send),
        cmocka_unit_test(test_ids_are_unlike_those_of_earlier_replies),
        cmocka_unit_test(test_ids_outlive_thinking),
        cmocka_unit_test(test_made_up_ids_have_the_form_of_the_vendors),
    };

    return cmocka_run_group_tests_name("claude_gaps", tests, NULL, NULL);
}
