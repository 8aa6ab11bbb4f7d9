/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What requests of one conversation say: a paused reply, the longest reply, and
 * the marks of the cache.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "claude/history.h"
#include "unit/claude_list.h"

/* --- pauses --- */

static void
test_a_paused_reply_is_sent_back(void **state)
{
    static const struct answer answers[] = {
        {200, START BLOCK_TEXT END("pause_turn") STOP, false, false},
        {200, REPLY, false, false},
    };
    static const char content[] = "[" TEXT "]";
    struct fixture f;
    struct error err = {0};

    (void)state;
    set_up(&f, "claude-x", CLAUDE_DIALECT_AUTO, false, answers);
    ask(&f);
    assert_int_equal(f.stop, CLAUDE_STOP_PAUSE);
    assert_int_equal(
        claude_history_add_assistant(f.history, content, NULL, 0, NULL), 0);
    ask(&f);
    assert_true(
        has(&f, 1, "{\"role\":\"assistant\",\"content\":[" TEXT "]}]}"));
    assert_int_equal(
        claude_history_add_assistant(f.history, content, NULL, 0, NULL), 0);
    /* That was the end of it. */
    assert_null(claude_send(f.claude, f.history, &handlers, &f, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    tear_down(&f);
}

/* --- the longest reply --- */

/* All of a body but the number. */
static char *
without_max_tokens(const char *body)
{
    const char *at = strstr(body, "\"max_tokens\":");
    const char *behind = at != NULL ? strchr(at, ',') : NULL;

    assert_non_null(behind);
    return xasprintf("%.*s%s", (int)(at - body), body, behind);
}

static void
test_max_tokens_change_nothing_else(void **state)
{
    static const struct answer answers[] = {
        {200, REPLY, false, false},
        {200, REPLY, false, false},
        {200, REPLY, false, false},
    };
    static const int64_t tokens[] = {0, 7, 0};
    static const char *const expect[] = {
        "\"max_tokens\":100,", "\"max_tokens\":7,", "\"max_tokens\":100,"};
    struct fixture f;

    (void)state;
    set_up(&f, "claude-x", CLAUDE_DIALECT_AUTO, false, answers);
    for (size_t i = 0; i < LEN(tokens); i++) {
        claude_set_max_tokens(f.claude, tokens[i]);
        ask(&f);
        assert_true(has(&f, i, expect[i]));
    }
    AUTO_FREE char *first = without_max_tokens(f.bodies[0]);
    AUTO_FREE char *second = without_max_tokens(f.bodies[1]);

    assert_string_equal(first, second);
    tear_down(&f);
}

/* --- marks of the cache --- */

/* Counts breakpoints, and checks that each is where it may be. */
static size_t
count_breakpoints(const struct cJSON *tree, bool *ok)
{
    size_t n = json_get(tree, "cache_control") != NULL ? 1 : 0;
    const char *type = json_string(tree, "type");

    if (n > 0 && type != NULL) {
        *ok = *ok &&
              (strcmp(type, "text") == 0 || strcmp(type, "tool_result") == 0);
    }
    for (const struct cJSON *item = json_first(tree); item != NULL;
         item = json_next(item)) {
        n += count_breakpoints(item, ok);
    }
    return n;
}

static void
expect_breakpoints(const char *body, size_t expect)
{
    AUTO_JSON struct cJSON *tree = json_parse(body, strlen(body), 0, NULL);
    bool ok = true;

    assert_non_null(tree);
    assert_int_equal(count_breakpoints(tree, &ok), expect);
    assert_true(ok);
}

static void
call_many(struct fixture *f, int n_calls)
{
    struct sbuf content;
    struct claude_tool_result results[32];
    const char *ids[32];
    char names[32][16];

    sbuf_init(&content, 65536);
    sbuf_add_str(&content, "[" THOUGHT);
    for (int i = 0; i < n_calls; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        ids[i] = names[i];
        results[i] = (struct claude_tool_result){
            .tool_use_id = names[i], .text = "1", .len = 1};
        sbuf_addf(&content,
                  ",{\"type\":\"tool_use\",\"id\":\"t%d\",\"name\":\"n\","
                  "\"input\":{}}",
                  i);
    }
    sbuf_add_str(&content, "]");
    assert_int_equal(claude_history_add_assistant(f->history, content.data, ids,
                                                  (size_t)n_calls, NULL),
                     0);
    assert_int_equal(claude_history_add_results(f->history, results,
                                                (size_t)n_calls, NULL, NULL),
                     0);
    sbuf_fini(&content);
}

static void
test_a_third_breakpoint_after_many_blocks(void **state)
{
    static const struct answer answers[] = {{200, REPLY, false, false},
                                            {200, REPLY, false, false},
                                            {200, REPLY, false, false},
                                            {200, REPLY, false, false}};
    static const enum claude_dialect dialects[] = {CLAUDE_DIALECT_AUTO,
                                                   CLAUDE_DIALECT_COMPATIBLE};

    (void)state;
    for (size_t i = 0; i < LEN(dialects); i++) {
        bool full = dialects[i] == CLAUDE_DIALECT_AUTO;
        struct fixture f;
        size_t len;

        set_up(&f, "claude-x", dialects[i], false, answers);
        ask(&f);
        call_many(&f, 7);
        ask(&f);
        call_many(&f, 12);
        ask(&f);
        ask(&f);
        expect_breakpoints(f.bodies[0], full ? 2 : 0);
        expect_breakpoints(f.bodies[1], full ? 2 : 0);
        expect_breakpoints(f.bodies[2], full ? 3 : 0);
        expect_breakpoints(f.bodies[3], full ? 2 : 0);
        /* What is kept has none. */
        assert_null(
            strstr(claude_history_text(f.history, &len), "cache_control"));
        tear_down(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_paused_reply_is_sent_back),
        cmocka_unit_test(test_max_tokens_change_nothing_else),
        cmocka_unit_test(test_a_third_breakpoint_after_many_blocks),
    };

    return cmocka_run_group_tests_name("claude_requests", tests, NULL, NULL);
}
