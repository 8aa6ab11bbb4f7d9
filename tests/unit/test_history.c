/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history.h"

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
#include "base/json.h"
#include "base/sbuf.h"
#include "claude/history_internal.h"

static const char *const one_id[] = {"t1"};
static const char *const two_ids[] = {"t1", "t2"};

#define CALL(id)                                                               \
    "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"n\",\"input\":{}}"
#define ASK                                                                    \
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]}"

static void
expect_text(const struct claude_history *h, const char *expect)
{
    size_t len;
    const char *text = claude_history_text(h, &len);

    assert_string_equal(text, expect);
    assert_int_equal(len, strlen(expect));
}

static void
test_add_whole_conversation(void **state)
{
    struct claude_history *h = claude_history_new();
    const struct claude_tool_result results[] = {
        {.tool_use_id = "t1", .text = "out\xFF", .len = 4},
        {.tool_use_id = "t2", .text = " \n", .len = 2, .is_error = true},
    };

    (void)state;
    expect_text(h, "");
    assert_false(claude_history_ends_with_user(h));
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    expect_text(h, ASK);
    assert_true(claude_history_ends_with_user(h));
    assert_int_equal(claude_history_add_assistant(
                         h,
                         "[ {\"type\":\"x\",\"n\":9007199254740993}," CALL(
                             "t1") "," CALL("t2") "]",
                         two_ids, 2, NULL),
                     0);
    assert_true(claude_history_has_open_calls(h));
    assert_false(claude_history_ends_with_user(h));
    assert_int_equal(claude_history_add_results(h, results, 2, "go on", NULL),
                     0);
    assert_false(claude_history_has_open_calls(h));
    assert_true(claude_history_ends_with_user(h));
    expect_text(h, ASK
                ",{\"role\":\"assistant\",\"content\":[ {\"type\":\"x\","
                "\"n\":9007199254740993}," CALL("t1") "," CALL(
                    "t2") "]},"
                          "{\"role\":\"user\",\"content\":["
                          "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\","
                          "\"content\":[{"
                          "\"type\":\"text\",\"text\":\"out\xEF\xBF\xBD\"}]},"
                          "{\"type\":\"tool_result\",\"tool_use_id\":\"t2\","
                          "\"content\":[{"
                          "\"type\":\"text\",\"text\":\"(no "
                          "output)\"}],\"is_error\":true},"
                          "{\"type\":\"text\",\"text\":\"go on\"}]}");
    claude_history_free(h);
}

struct refused_case {
    const char *name;
    const char *content;
    const char *const *ids;
    size_t n_ids;
    enum error_code expect;
};

static const struct refused_case refused_cases[] = {
    {"no JSON", "[", NULL, 0, ERR_PROTOCOL},
    {"no array", "{}", NULL, 0, ERR_INTERNAL},
    {"a text", "[\"x\"]", NULL, 0, ERR_INTERNAL},
    {"blank text", "[{\"type\":\"text\",\"text\":\" \"}]", NULL, 0,
     ERR_INTERNAL},
    {"call not listed", "[" CALL("t1") "]", NULL, 0, ERR_INTERNAL},
    {"listed twice", "[" CALL("t1") "]", two_ids, 2, ERR_INTERNAL},
    {"listed without call", "[]", one_id, 1, ERR_INTERNAL},
    {"other order", "[" CALL("t2") "," CALL("t1") "]", two_ids, 2,
     ERR_INTERNAL},
};

static void
test_add_refused_changes_nothing(void **state)
{
    static const char *const same[] = {"t1", "t1"};
    struct claude_history *h = claude_history_new();

    (void)state;
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    for (size_t i = 0; i < LEN(refused_cases); i++) {
        const struct refused_case *c = &refused_cases[i];
        struct error err = {0};

        if (claude_history_add_assistant(h, c->content, c->ids, c->n_ids,
                                         &err) != -1 ||
            err.code != c->expect) {
            fail_msg("%s: %s", c->name, err.msg);
        }
        expect_text(h, ASK);
        assert_false(claude_history_has_open_calls(h));
    }
    assert_int_equal(claude_history_add_assistant(
                         h, "[" CALL("t1") "," CALL("t1") "]", same, 2, NULL),
                     -1);
    expect_text(h, ASK);
    claude_history_free(h);
}

static void
test_add_user_blank_or_too_early(void **state)
{
    struct claude_history *h = claude_history_new();
    struct claude_tool_result result = {.tool_use_id = "t2"};
    struct error err = {0};

    (void)state;
    assert_int_equal(claude_history_add_user(h, " \xC2\xA0", 3, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_int_equal(
        claude_history_add_assistant(h, "[{\"type\":\"text\",\"text\":\"a\"}]",
                                     NULL, 0, &err),
        -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, &err), -1);
    assert_int_equal(claude_history_add_results(h, NULL, 0, "x", &err), -1);
    expect_text(h, "");

    assert_int_equal(claude_history_add_user(h, "a\0b", 3, NULL), 0);
    expect_text(h, "{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                   "\"text\":\"ab\"}]}");
    assert_int_equal(
        claude_history_add_assistant(h, "[" CALL("t1") "]", one_id, 1, NULL),
        0);
    assert_int_equal(claude_history_add_user(h, "x", 1, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, &err), -1);
    assert_true(claude_history_has_open_calls(h));
    result.tool_use_id = "t1";
    assert_int_equal(claude_history_add_results(h, &result, 1, " ", NULL), 0);
    claude_history_free(h);
}

static void
test_rewind_takes_back_questions_only(void **state)
{
    struct claude_history *h = claude_history_new();
    struct claude_tool_result result = {.tool_use_id = "t1"};
    size_t mark = claude_history_rewind_point(h);
    size_t len;

    (void)state;
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    claude_history_rewind(h, mark);
    expect_text(h, "");
    assert_false(claude_history_ends_with_user(h));

    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    mark = claude_history_rewind_point(h);
    assert_int_equal(claude_history_add_user(h, "r", 1, NULL), 0);
    assert_int_equal(claude_history_add_user(h, "s", 1, NULL), 0);
    claude_history_rewind(h, mark);
    expect_text(h, ASK);

    assert_int_equal(
        claude_history_add_assistant(h, "[" CALL("t1") "]", one_id, 1, NULL),
        0);
    claude_history_rewind(h, 0);
    assert_true(claude_history_has_open_calls(h));
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
    claude_history_text(h, &len);
    size_t before = len;

    assert_int_equal(claude_history_add_user(h, "u", 1, NULL), 0);
    claude_history_rewind(h, 0);
    claude_history_text(h, &len);
    assert_int_equal(len, before);
    claude_history_free(h);
}

/* Replies, results and what they hold go too, but only from the end on. */
static void
test_drop_takes_back_everything(void **state)
{
    struct claude_history *h = claude_history_new();
    struct claude_tool_result result = {.tool_use_id = "t1"};
    size_t mark = 0;
    size_t at = 0;

    (void)state;
    claude_history_drop(h, 0);
    claude_history_drop(h, 7);
    expect_text(h, "");
    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    mark = claude_history_rewind_point(h);
    assert_int_equal(
        claude_history_add_assistant(h, "[" CALL("t1") "]", one_id, 1, NULL),
        0);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
    claude_history_set_cached(h);
    claude_history_set_paused(h, true);
    claude_history_drop(h, mark);
    expect_text(h, ASK);
    assert_true(claude_history_may_be_sent(h));
    assert_false(claude_history_find_breakpoint(h, &at));
    claude_history_drop(h, 0);
    expect_text(h, "");
    assert_false(claude_history_may_be_sent(h));
    claude_history_free(h);
}

static void
test_add_beyond_the_maximum(void **state)
{
    struct claude_history *h = claude_history_new();
    struct claude_tool_result result = {.tool_use_id = "t1", .len = 100000};
    size_t big = 29900000;
    char *text = xmalloc(big);
    struct error err = {0};

    (void)state;
    memset(text, 'x', big);
    assert_int_equal(claude_history_add_user(h, text, big, NULL), 0);
    assert_int_equal(
        claude_history_add_assistant(h, "[" CALL("t1") "]", one_id, 1, NULL),
        0);
    result.text = text;
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
    assert_int_equal(claude_history_add_user(h, text, 100000, &err), -1);
    assert_int_equal(err.code, ERR_TOO_LARGE);
    assert_non_null(strstr(err.msg, "begin a new session"));
    assert_true(claude_history_ends_with_user(h));
    free(text);
    claude_history_free(h);
}

/* What the service checks, written again from its rules. */
static void
check_valid(const struct claude_history *h)
{
    struct sbuf sb;
    size_t len;
    const char *text = claude_history_text(h, &len);
    struct cJSON *tree;
    size_t n_open = 0;
    char open[4][32];
    const char *role = NULL;

    sbuf_init(&sb, len + 2);
    sbuf_add_char(&sb, '[');
    sbuf_add(&sb, text, len);
    sbuf_add_char(&sb, ']');
    tree = json_parse(sb.data, sb.len, 0, NULL);
    assert_non_null(tree);
    for (const struct cJSON *m = json_first(tree); m != NULL;
         m = json_next(m)) {
        size_t n_results = 0;
        bool is_user;

        if (role == NULL) {
            assert_string_equal(json_string(m, "role"), "user");
        }
        role = json_string(m, "role");
        is_user = strcmp(role, "user") == 0;
        assert_true(json_len(json_get(m, "content")) > 0);
        assert_true(is_user || n_open == 0);
        for (const struct cJSON *b = json_first(json_get(m, "content"));
             b != NULL; b = json_next(b)) {
            const char *type = json_string(b, "type");

            if (strcmp(type, "tool_result") == 0) {
                assert_true(n_results < n_open);
                assert_string_equal(json_string(b, "tool_use_id"),
                                    open[n_results]);
                n_results++;
            } else if (strcmp(type, "tool_use") == 0) {
                snprintf(open[n_open++], sizeof(open[0]), "%s",
                         json_string(b, "id"));
            } else if (strcmp(type, "thinking") != 0) {
                assert_true(strlen(json_string(b, "text")) > 0);
                assert_true(!is_user || n_results == n_open);
            }
        }
        if (is_user) {
            assert_int_equal(n_results, n_open);
            n_open = 0;
        }
    }
    assert_int_equal(n_open > 0, claude_history_has_open_calls(h));
    json_free(tree);
    sbuf_fini(&sb);
}

static uint32_t
next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

#define THOUGHT_AND_TEXT                                                       \
    "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"s\"},"           \
    "{\"type\":\"text\",\"text\":\"b\"}"

/* Any calls in any order, legal or not: what is accepted leaves a history that
   the service takes, and all that stood there before stays as it was. */
static void
test_any_sequence_leaves_a_valid_history(void **state)
{
    static const char *const contents[] = {
        "[{\"type\":\"text\",\"text\":\"a\"}]", "[" CALL("t1") "]",
        "[" CALL("t1") "," CALL("t2") "]", "[]", "[" THOUGHT_AND_TEXT "]"};
    static const size_t n_ids[] = {0, 1, 2, 0, 0};
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct claude_history *h = claude_history_new();
        size_t mark = 0;

        for (int step = 0; step < 20; step++) {
            size_t len;
            AUTO_FREE char *before = xstrdup(claude_history_text(h, &len));
            uint32_t what = next_random(&seed) % 10;
            uint32_t k = next_random(&seed) % 5;
            const struct claude_tool_result results[] = {
                {.tool_use_id = "t1", .text = "1", .len = k % 2},
                {.tool_use_id = "t2", .is_error = true},
            };
            int rc = 0;

            if (what == 0) {
                mark = claude_history_rewind_point(h);
            } else if (what == 1) {
                claude_history_rewind(h, mark);
            } else if (what == 2) {
                rc = claude_history_add_user(h, "hi", k % 3, NULL);
            } else if (what == 3) {
                rc = claude_history_add_results(h, results, k % 3,
                                                k == 3 ? "x" : NULL, NULL);
            } else if (what == 4) {
                claude_history_set_paused(h, k % 2 == 0);
            } else if (what == 5 && !claude_history_has_open_calls(h)) {
                claude_history_replace(h, claude_history_strip(h));
                assert_null(strstr(claude_history_text(h, &len), "signature"));
            } else {
                rc = claude_history_add_assistant(h, contents[k], two_ids,
                                                  n_ids[k], NULL);
            }
            check_valid(h);
            if (what != 1 && what != 5) {
                assert_memory_equal(claude_history_text(h, &len), before,
                                    strlen(before));
                assert_true(rc == 0 || len == strlen(before));
            }
        }
        claude_history_free(h);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_whole_conversation),
        cmocka_unit_test(test_add_refused_changes_nothing),
        cmocka_unit_test(test_add_user_blank_or_too_early),
        cmocka_unit_test(test_rewind_takes_back_questions_only),
        cmocka_unit_test(test_drop_takes_back_everything),
        cmocka_unit_test(test_add_beyond_the_maximum),
        cmocka_unit_test(test_any_sequence_leaves_a_valid_history),
    };

    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
