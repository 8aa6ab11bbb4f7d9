/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"

#define THINKING                                                               \
    "{\"type\":\"thinking\",\"thinking\":\"a}]\\\"\",\"signature\":\"s\"}"
#define REDACTED "{ \"data\" : \"xy\" , \"type\" : \"redacted_thinking\" }"
#define TEXT                                                                   \
    "{\"type\":\"text\",\"text\":\"says \\\"type\\\":\\\"thinking\\\"\"}"
#define CALL                                                                   \
    "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{\"n\":"     \
    "9007199254740993,\"type\":\"thinking\"}}"
#define USER(text)                                                             \
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" text      \
    "\"}]}"
#define ASSISTANT(content) "{\"role\":\"assistant\",\"content\":" content "}"
#define RESULT                                                                 \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","               \
    "\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"1\"}]}]" \
    "}"

static const char *const ids[] = {"t"};

static void
ask(struct claude_history *h, const char *text)
{
    assert_int_equal(claude_history_add_user(h, text, strlen(text), NULL), 0);
}

static void
reply(struct claude_history *h, const char *content)
{
    struct error err = {0};

    if (claude_history_add_assistant(h, content, NULL, 0, &err) < 0) {
        fail_msg("%s: %s", content, err.msg);
    }
}

static void
call(struct claude_history *h, const char *content)
{
    const struct claude_tool_result result = {
        .tool_use_id = "t", .text = "1", .len = 1};

    assert_int_equal(claude_history_add_assistant(h, content, ids, 1, NULL), 0);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
}

static void
expect(const struct claude_history *h, const char *text)
{
    size_t len;

    assert_string_equal(claude_history_text(h, &len), text);
    assert_int_equal(len, strlen(text));
}

/* Everything else stays byte for byte. */
static void
test_strip_takes_all_thinking(void **state)
{
    static const char whole[] = USER("q") "," ASSISTANT(
        "[ " THINKING " , " CALL
        " ]") "," RESULT
              "," ASSISTANT("[" REDACTED "," TEXT "]") "," USER(
                  "r") "," ASSISTANT("[" TEXT "]") "," USER("s");
    static const char bare[] =
        USER("q") "," ASSISTANT("[" CALL "]") "," RESULT "," ASSISTANT(
            "[" TEXT
            "]") "," USER("r") "," ASSISTANT("[" TEXT "]") "," USER("s");
    struct claude_history *h = claude_history_new();
    struct claude_history *copy;

    (void)state;
    ask(h, "q");
    assert_false(claude_history_has_thinking(h));
    call(h, "[ " THINKING " , " CALL " ]");
    reply(h, "[" REDACTED "," TEXT "]");
    ask(h, "r");
    reply(h, "[" TEXT "]");
    ask(h, "s");
    assert_true(claude_history_has_thinking(h));
    copy = claude_history_strip(h);
    expect(h, whole);
    expect(copy, bare);
    assert_false(claude_history_has_thinking(copy));
    claude_history_replace(h, copy);
    expect(h, bare);
    assert_true(claude_history_may_be_sent(h));
    assert_int_equal(claude_history_rewind_point(h), 7);
    claude_history_rewind(h, 6);
    assert_false(claude_history_ends_with_user(h));
    claude_history_free(h);
}

/* A message of which nothing is left goes; questions may follow each other. */
static void
test_strip_leaves_no_empty_message(void **state)
{
    struct claude_history *h = claude_history_new();

    (void)state;
    ask(h, "q");
    reply(h, "[" THINKING "," REDACTED "]");
    ask(h, "r");
    reply(h, "[" THINKING "," TEXT "]");
    claude_history_replace(h, claude_history_strip(h));
    expect(h, USER("q") "," USER("r") "," ASSISTANT("[" TEXT "]"));
    ask(h, "s");
    claude_history_rewind(h, 3);
    expect(h, USER("q") "," USER("r") "," ASSISTANT("[" TEXT "]"));
    claude_history_free(h);
}

static void
test_a_paused_reply_is_continued(void **state)
{
    struct claude_history *h = claude_history_new();
    struct error err = {0};

    (void)state;
    assert_false(claude_history_may_be_sent(h));
    ask(h, "q");
    claude_history_set_paused(h, true);
    assert_true(claude_history_may_be_sent(h));
    reply(h, "[" TEXT "]");
    assert_true(claude_history_may_be_sent(h));
    assert_false(claude_history_ends_with_user(h));
    claude_history_set_paused(h, true);
    reply(h, "[" TEXT "]");
    claude_history_set_paused(h, false);
    reply(h, "[" TEXT "]");
    assert_false(claude_history_may_be_sent(h));
    assert_int_equal(
        claude_history_add_assistant(h, "[" TEXT "]", NULL, 0, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    ask(h, "r");
    assert_true(claude_history_may_be_sent(h));
    claude_history_free(h);
}

static void
add_rounds(struct claude_history *h, int n)
{
    for (int i = 0; i < n; i++) {
        call(h, "[" CALL "]");
    }
}

/* Whether the place is before the closing brace of the last block of the n-th
   message. */
static bool
is_end_of(const struct claude_history *h, size_t n, size_t at)
{
    size_t len;
    const char *text = claude_history_text(h, &len);
    size_t end = n < h->n_messages ? h->messages[n].start : len;

    return at == end - 3 && strncmp(text + at, "}]}", 3) == 0;
}

static void
test_breakpoint_where_much_was_added(void **state)
{
    struct claude_history *h = claude_history_new();
    size_t at = 0;

    (void)state;
    ask(h, "q");
    add_rounds(h, 30);
    /* Nothing has been read yet that could be found again. */
    assert_false(claude_history_find_breakpoint(h, &at));
    claude_history_set_cached(h);
    assert_false(claude_history_find_breakpoint(h, &at));
    add_rounds(h, 7);
    assert_false(claude_history_find_breakpoint(h, &at));
    add_rounds(h, 1);
    assert_true(claude_history_find_breakpoint(h, &at));
    assert_true(is_end_of(h, 61, at));
    claude_history_set_cached(h);
    assert_false(claude_history_find_breakpoint(h, &at));
    claude_history_free(h);
}

/* A reply may end in a block that takes no breakpoint. */
static void
test_breakpoint_is_never_on_a_reply(void **state)
{
    struct claude_history *h = claude_history_new();
    size_t at = 0;

    (void)state;
    ask(h, "q");
    claude_history_set_paused(h, true);
    reply(h, "[" TEXT "]");
    claude_history_set_cached(h);
    claude_history_set_paused(h, true);
    reply(h, "[" TEXT "," TEXT "," TEXT "," TEXT "," TEXT "," TEXT "," TEXT
             "," TEXT "," TEXT "," TEXT "," TEXT "," TEXT "," TEXT "," TEXT
             "," TEXT "," TEXT "]");
    assert_true(claude_history_find_breakpoint(h, &at));
    assert_true(is_end_of(h, 1, at));
    claude_history_free(h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strip_takes_all_thinking),
        cmocka_unit_test(test_strip_leaves_no_empty_message),
        cmocka_unit_test(test_a_paused_reply_is_continued),
        cmocka_unit_test(test_breakpoint_where_much_was_added),
        cmocka_unit_test(test_breakpoint_is_never_on_a_reply),
    };

    return cmocka_run_group_tests_name("history_strip", tests, NULL, NULL);
}
