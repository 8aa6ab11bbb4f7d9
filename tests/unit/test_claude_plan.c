/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * In which form a conversation is sent, and what a refusal changes.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "claude/history.h"
#include "unit/claude_list.h"

#define BLOCK_CALL                                                             \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"  \
    "\"type\":\"tool_use\",\"id\":\"call_1:x\",\"name\":\"n\",\"input\":{}}}"  \
    "\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"      \
    "\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"              \
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
#define INVALID                                                                \
    "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","       \
    "\"message\":\"signature\"}}"
#define ON_HOLD                                                                \
    "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","       \
    "\"message\":\"hold\",\"details\":{\"error_code\":"                        \
    "\"organization_on_hold\"}}}"
#define REFUSED "done the service refused the request: signature (400) "

static bool
is_full(const struct fixture *f, size_t i)
{
    bool full = has(f, i, "\"thinking\":{\"type\":\"adaptive\"");

    assert_int_equal(full, has(f, i, "cache_control"));
    return full;
}

/* --- which form --- */

static void
test_form_by_host_and_model(void **state)
{
    static const struct answer answers[] = {{200, REPLY, false, false}};
    static const struct {
        const char *name;
        const char *model;
        enum claude_dialect dialect;
        bool foreign;
        bool expect_full;
    } cases[] = {
        {"the vendor", "claude-opus-5-5", CLAUDE_DIALECT_AUTO, false, true},
        {"the vendor's next", "new-name", CLAUDE_DIALECT_AUTO, false, true},
        {"a gateway", "claude-opus-5-5", CLAUDE_DIALECT_AUTO, true, true},
        {"another model", "qwen3:8b", CLAUDE_DIALECT_AUTO, true, false},
        {"as it was said", "qwen3:8b", CLAUDE_DIALECT_ANTHROPIC, true, true},
        {"as it was said too", "claude-opus-5-5", CLAUDE_DIALECT_COMPATIBLE,
         false, false},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct fixture f;

        set_up(&f, cases[i].model, cases[i].dialect, cases[i].foreign, answers);
        ask(&f);
        if (is_full(&f, 0) != cases[i].expect_full) {
            fail_msg("%s: %s", cases[i].name, f.bodies[0]);
        }
        assert_string_equal(claude_model(f.claude), cases[i].model);
        tear_down(&f);
    }
}

/* --- what is tolerated in a reply --- */

static void
test_gaps_in_replies(void **state)
{
    static const struct {
        const char *name;
        enum claude_dialect dialect;
        bool foreign;
        bool vendor;
        const char *body;
        enum claude_stop expect; /* CLAUDE_STOP_UNKNOWN: a failure */
    } cases[] = {
        {"no message_stop", CLAUDE_DIALECT_AUTO, true, false,
         START BLOCK_TEXT END("end_turn"), CLAUDE_STOP_END_TURN},
        {"no message_stop, said to be compatible", CLAUDE_DIALECT_COMPATIBLE,
         false, false, START BLOCK_TEXT END("end_turn"), CLAUDE_STOP_END_TURN},
        {"no message_stop from the vendor", CLAUDE_DIALECT_AUTO, false, false,
         START BLOCK_TEXT END("end_turn"), CLAUDE_STOP_UNKNOWN},
        {"no message_stop from the vendor behind a gateway",
         CLAUDE_DIALECT_AUTO, true, true, START BLOCK_TEXT END("end_turn"),
         CLAUDE_STOP_UNKNOWN},
        {"no message_stop, said to be the vendor", CLAUDE_DIALECT_ANTHROPIC,
         true, false, START BLOCK_TEXT END("end_turn"), CLAUDE_STOP_UNKNOWN},
        {"no reason either", CLAUDE_DIALECT_AUTO, true, false, START BLOCK_TEXT,
         CLAUDE_STOP_UNKNOWN},
        {"end_turn with a call", CLAUDE_DIALECT_AUTO, true, false,
         START BLOCK_CALL END("end_turn") STOP, CLAUDE_STOP_TOOL_USE},
        {"end_turn with a call from the vendor", CLAUDE_DIALECT_AUTO, false,
         false, START BLOCK_CALL END("end_turn") STOP, CLAUDE_STOP_END_TURN},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct answer answers[] = {
            {200, cases[i].body, cases[i].vendor, false},
            {401, "", false, false},
        };
        struct fixture f;

        set_up(&f, "claude-x", cases[i].dialect, cases[i].foreign, answers);
        f.stop = CLAUDE_STOP_UNKNOWN;
        ask(&f);
        if (f.stop != cases[i].expect ||
            f.n_requests != (f.stop == CLAUDE_STOP_UNKNOWN ? 2u : 1u) ||
            f.n_calls != (f.stop == CLAUDE_STOP_TOOL_USE ? 1u : 0u)) {
            fail_msg("%s: %s", cases[i].name, f.log.data);
        }
        tear_down(&f);
    }
}

/* --- falling back --- */

struct change_case {
    const char *name;
    struct answer answers[4];
    enum claude_dialect dialect;
    bool foreign;
    const char *expect_log;
    const char *expect_forms; /* F: full, c: compatible, one for each request */
};

static const struct change_case fall_back_cases[] = {
    {"refused, then a reply",
     {{400, INVALID, false, false}, {200, REPLY, false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "notice compatible done - ",
     "Fc"},
    {"422 and a body of another form",
     {{422, "{\"detail\":[]}", false, false}, {200, REPLY, false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "notice compatible done - ",
     "Fc"},
    {"overloaded meanwhile",
     {{400, INVALID, false, false},
      {529, "", false, false},
      {200, REPLY, false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "retry 2 overloaded notice compatible done - ",
     "Fcc"},
    {"refused twice",
     {{400, INVALID, false, false},
      {400, "{\"error\":\"other\"}", false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     REFUSED,
     "Fc"},
    {"no money, behind a refusal of the form",
     {{400, INVALID, false, false}, {402, "", false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "done the service refused the request because of billing (402) ",
     "Fc"},
    {"too large, behind a refusal of the form",
     {{400, INVALID, false, false}, {413, "", false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "done the conversation is too large for the service; begin a new "
     "session (413) ",
     "Fc"},
    {"refused by the vendor behind a gateway",
     {{400, INVALID, true, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     REFUSED,
     "F"},
    {"refused by the vendor",
     {{400, INVALID, false, false}},
     CLAUDE_DIALECT_AUTO,
     false,
     REFUSED,
     "F"},
    {"said to be the vendor",
     {{400, INVALID, false, false}},
     CLAUDE_DIALECT_ANTHROPIC,
     true,
     REFUSED,
     "F"},
    {"said to be compatible",
     {{400, INVALID, false, false}},
     CLAUDE_DIALECT_COMPATIBLE,
     true,
     REFUSED,
     "c"},
    {"for another reason",
     {{400, ON_HOLD, false, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "done the account is on hold: hold (400) ",
     "F"},
};

static void
check_forms(const struct fixture *f, const struct change_case *c)
{
    bool ok = f->n_requests == strlen(c->expect_forms) &&
              strcmp(f->log.data, c->expect_log) == 0;

    for (size_t i = 0; ok && i < f->n_requests; i++) {
        ok = is_full(f, i) == (c->expect_forms[i] == 'F');
    }
    if (!ok) {
        fail_msg("%s: %zu requests, %s", c->name, f->n_requests, f->log.data);
    }
}

static void
test_fall_back_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(fall_back_cases); i++) {
        const struct change_case *c = &fall_back_cases[i];
        struct fixture f;

        set_up(&f, "claude-x", c->dialect, c->foreign, c->answers);
        ask(&f);
        check_forms(&f, c);
        tear_down(&f);
    }
}

static void
add_reply(struct fixture *f, const char *content)
{
    struct error err = {0};

    if (claude_history_add_assistant(f->history, content, NULL, 0, &err) < 0 ||
        claude_history_add_user(f->history, "more", 4, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

static void
test_fall_back_is_kept_to(void **state)
{
    static const struct change_case c = {
        "kept",
        {{400, INVALID, false, false},
         {200, REPLY, false, false},
         {200, REPLY, false, false},
         {400, INVALID, false, false}},
        CLAUDE_DIALECT_AUTO,
        true,
        "notice compatible done - done - " REFUSED,
        "Fccc"};
    struct fixture f;

    (void)state;
    set_up(&f, "claude-x", c.dialect, c.foreign, c.answers);
    for (int i = 0; i < 3; i++) {
        ask(&f);
        add_reply(&f, "[" TEXT "]");
    }
    check_forms(&f, &c);
    tear_down(&f);
}

/* What has been understood once in full is not asked in another way. */
static void
test_no_fall_back_after_a_reply(void **state)
{
    static const struct change_case c = {
        "proven",
        {{200, REPLY, false, false}, {400, INVALID, false, false}},
        CLAUDE_DIALECT_AUTO,
        true,
        "done - " REFUSED,
        "FF"};
    struct fixture f;

    (void)state;
    set_up(&f, "claude-x", c.dialect, c.foreign, c.answers);
    ask(&f);
    add_reply(&f, "[" TEXT "]");
    ask(&f);
    check_forms(&f, &c);
    tear_down(&f);
}

/* --- without thinking --- */

static const struct change_case strip_cases[] = {
    {"then a reply",
     {{400, INVALID, false, false}, {200, REPLY, false, false}},
     CLAUDE_DIALECT_AUTO,
     false,
     "notice stripped done - ",
     "T-"},
    {"another host that is proven",
     {{400, INVALID, true, false}, {200, REPLY, true, false}},
     CLAUDE_DIALECT_AUTO,
     true,
     "notice stripped done - ",
     "T-"},
    {"refused again",
     {{400, INVALID, false, false},
      {400, "{\"error\":\"other\"}", false, false}},
     CLAUDE_DIALECT_AUTO,
     false,
     REFUSED,
     "T-"},
    {"overloaded meanwhile, for good",
     {{400, INVALID, false, false},
      {529, "", false, false},
      {529, "", false, false}},
     CLAUDE_DIALECT_AUTO,
     false,
     "retry 2 overloaded done the service is overloaded (529); tried 2 times ",
     "T--"},
    {"for another reason",
     {{400, ON_HOLD, false, false}},
     CLAUDE_DIALECT_AUTO,
     false,
     "done the account is on hold: hold (400) ",
     "T"},
};

static void
test_strip_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(strip_cases); i++) {
        const struct change_case *c = &strip_cases[i];
        bool adopted = strstr(c->expect_log, "notice") != NULL;
        bool ok;
        struct fixture f;
        size_t len;

        set_up(&f, "claude-x", c->dialect, c->foreign, c->answers);
        add_reply(&f, "[" THOUGHT "," TEXT "]");
        ask(&f);
        ok = f.n_requests == strlen(c->expect_forms) &&
             strcmp(f.log.data, c->expect_log) == 0;
        for (size_t k = 0; ok && k < f.n_requests; k++) {
            ok = has(&f, k, "\"sig\"") == (c->expect_forms[k] == 'T') &&
                 is_full(&f, k);
        }
        /* Nothing changes unless it helped. */
        ok = ok && (strstr(claude_history_text(f.history, &len), "\"sig\"") ==
                    NULL) == adopted;
        if (!ok) {
            fail_msg("%s: %zu requests, %s", c->name, f.n_requests, f.log.data);
        }
        tear_down(&f);
    }
}

/* Once; and what was not answered at all may be tried again. */
static void
test_strip_once_in_a_session(void **state)
{
    static const struct answer answers[] = {
        {400, INVALID, false, false}, {0, "", false, true},
        {0, "", false, true},         {400, INVALID, false, false},
        {200, REPLY, false, false},   {400, INVALID, false, false},
    };
    struct fixture f;

    (void)state;
    set_up(&f, "claude-x", CLAUDE_DIALECT_AUTO, false, answers);
    add_reply(&f, "[" THOUGHT "," TEXT "]");
    ask(&f);
    assert_string_equal(f.log.data, "retry 2 net done broken; tried 2 times ");
    sbuf_clear(&f.log);
    ask(&f);
    assert_string_equal(f.log.data, "notice stripped done - ");
    sbuf_clear(&f.log);
    add_reply(&f, "[" THOUGHT "," TEXT "]");
    ask(&f);
    assert_string_equal(f.log.data, REFUSED);
    assert_int_equal(f.n_requests, 6);
    assert_true(has(&f, 5, "\"sig\""));
    tear_down(&f);
}

static void
test_cancel_in_the_notice(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, "claude-x", CLAUDE_DIALECT_AUTO, true,
           fall_back_cases[0].answers);
    f.cancel_on_notice = true;
    ask(&f);
    assert_string_equal(f.log.data, "notice compatible done cancelled ");
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form_by_host_and_model),
        cmocka_unit_test(test_gaps_in_replies),
        cmocka_unit_test(test_fall_back_cases),
        cmocka_unit_test(test_fall_back_is_kept_to),
        cmocka_unit_test(test_no_fall_back_after_a_reply),
        cmocka_unit_test(test_strip_cases),
        cmocka_unit_test(test_strip_once_in_a_session),
        cmocka_unit_test(test_cancel_in_the_notice),
    };

    return cmocka_run_group_tests_name("claude_plan", tests, NULL, NULL);
}
