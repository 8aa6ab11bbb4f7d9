/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_codec_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "claude/claude_raw_internal.h"

struct head_case {
    const char *name;
    struct claude_config config;
    bool compatible;
    const char *expect; /* NULL: refused */
};

#define MARK "\"cache_control\":{\"type\":\"ephemeral\"}"
#define ADAPTIVE                                                               \
    "\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"}"

static const struct head_case head_cases[] = {
    {"all",
     {.model = "claude-opus-5-5",
      .max_tokens = 64000,
      .effort = "medium",
      .system = "Be \"brief\".",
      .tools = "[{\"name\":\"t\"}]"},
     false,
     "{\"model\":\"claude-opus-5-5\",\"stream\":true,"
     "\"system\":[{\"type\":\"text\",\"text\":\"Be \\\"brief\\\".\"," MARK
     "}]," MARK "," ADAPTIVE ",\"output_config\":{\"effort\":\"medium\"},"
     "\"tools\":[{\"name\":\"t\"}]"},
    {"least",
     {.model = "some-later-model", .max_tokens = 1},
     false,
     "{\"model\":\"some-later-model\",\"stream\":true," MARK "," ADAPTIVE},
    {"older model",
     {.model = "claude-haiku-4-5-20251001", .max_tokens = 9, .effort = "low"},
     false,
     "{\"model\":\"claude-haiku-4-5-20251001\","
     "\"stream\":true," MARK},
    {"compatible",
     {.model = "claude-opus-5-5",
      .max_tokens = 9,
      .effort = "low",
      .system = "S",
      .tools = "[]"},
     true,
     "{\"model\":\"claude-opus-5-5\",\"stream\":true,"
     "\"system\":[{\"type\":\"text\",\"text\":\"S\"}]"},
    {"no model", {.model = " ", .max_tokens = 9}, false, NULL},
    {"no tokens", {.model = "m", .max_tokens = 0}, false, NULL},
    {"effort", {.model = "m", .max_tokens = 9, .effort = "huge"}, false, NULL},
    {"tools", {.model = "m", .max_tokens = 9, .tools = "{}"}, false, NULL},
    {"no JSON", {.model = "m", .max_tokens = 9, .tools = "[{]"}, false, NULL},
};

static void
test_head_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(head_cases); i++) {
        const struct head_case *c = &head_cases[i];
        struct error err = {0};
        struct sbuf sb;
        int rc;

        sbuf_init(&sb, 65536);
        rc = claude_codec_head(&sb, &c->config, c->compatible, &err);
        if (c->expect == NULL) {
            assert_int_equal(rc, -1);
            assert_int_equal(err.code, ERR_USAGE);
        } else if (rc != 0 || strcmp(sb.data, c->expect) != 0) {
            fail_msg("%s: %s %s", c->name, sb.data, err.msg);
        }
        sbuf_fini(&sb);
    }
}

static void
test_begin(void **state)
{
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, 100);
    sbuf_add_str(&sb, "{\"a\":1");
    claude_codec_begin(&sb, 64000);
    assert_string_equal(sb.data,
                        "{\"a\":1,\"max_tokens\":64000,\"messages\":[");
    sbuf_fini(&sb);
}

struct model_case {
    const char *model;
    enum claude_thinking expect;
};

static const struct model_case model_cases[] = {
    {"claude-opus-5-5", CLAUDE_THINKING_ADAPTIVE},
    {"claude-haiku-5-5", CLAUDE_THINKING_ADAPTIVE},
    {"claude-opus-4-6", CLAUDE_THINKING_ADAPTIVE},
    {"claude-sonnet-4-6-20260101", CLAUDE_THINKING_ADAPTIVE},
    {"claude-opus-4-10", CLAUDE_THINKING_ADAPTIVE},
    {"claude-opus-4-51", CLAUDE_THINKING_ADAPTIVE},
    {"gpt-9", CLAUDE_THINKING_ADAPTIVE},
    {"claude-opus-4-5", CLAUDE_THINKING_NONE},
    {"claude-opus-4-5-20251101", CLAUDE_THINKING_NONE},
    {"claude-sonnet-4-20250514", CLAUDE_THINKING_NONE},
    {"claude-opus-4-1@20250805", CLAUDE_THINKING_NONE},
    {"claude-3-7-sonnet-latest", CLAUDE_THINKING_NONE},
    {"claude-2.1", CLAUDE_THINKING_NONE},
};

static void
test_thinking_by_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(model_cases); i++) {
        if (claude_codec_thinking(model_cases[i].model) !=
            model_cases[i].expect) {
            fail_msg("%s", model_cases[i].model);
        }
    }
}

struct failure_case {
    int status;
    const char *body;
    const char *request_id;
    enum error_code expect_code;
    bool expect_retry;
    const char *expect_msg;
};

#define ERROR_BODY(type, message)                                              \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type                          \
    "\",\"message\":\"" message "\"},\"request_id\":\"req_b\"}"

static const struct failure_case failure_cases[] = {
    {529, ERROR_BODY("overloaded_error", "Overloaded"), "req_h", ERR_OVERLOADED,
     true, "the service is overloaded (529, request req_h)"},
    {529, "", NULL, ERR_OVERLOADED, true, "the service is overloaded (529)"},
    {503, "<html>", NULL, ERR_OVERLOADED, true,
     "the service is overloaded (503)"},
    {429, ERROR_BODY("rate_limit_error", "slow"), NULL, ERR_RATE_LIMIT, true,
     "the service limits how often it is asked (429, request req_b)"},
    {429,
     "{\"error\":{\"type\":\"rate_limit_error\",\"details\":{\"error_code\":"
     "\"enforced_spend_limit_reached\"}}}",
     NULL, ERR_AUTH, false,
     "the spend limit of the account is reached; it can be raised in the "
     "account's settings (429)"},
    {429,
     "{\"error\":{\"type\":\"rate_limit_error\",\"details\":{\"error_code\":"
     "\"contract_spend_limit_reached\"}}}",
     NULL, ERR_AUTH, false,
     "the spend limit of the account is reached; it can be raised in the "
     "account's settings (429)"},
    {429,
     "{\"error\":{\"type\":\"rate_limit_error\",\"details\":{\"error_code\":"
     "\"ramp_limit_exceeded\"}}}",
     NULL, ERR_RATE_LIMIT, true,
     "the service limits how often it is asked (429)"},
    {429, "{\"error\":{\"details\":null}}", NULL, ERR_RATE_LIMIT, true,
     "the service limits how often it is asked (429)"},
    {401, ERROR_BODY("authentication_error", "invalid key"), NULL, ERR_AUTH,
     false,
     "the service does not accept the key, or got none; check "
     "ANTHROPIC_API_KEY or model.api_key (401, request "
     "req_b)"},
    {402, ERROR_BODY("billing_error", "no credit"), NULL, ERR_AUTH, false,
     "the service refused the request because of billing: no credit (402, "
     "request req_b)"},
    {403, "{}", NULL, ERR_AUTH, false,
     "the key does not permit this request (403)"},
    {400, ERROR_BODY("invalid_request_error", "max_tokens:\\n too big."), NULL,
     ERR_REMOTE, false,
     "the service refused the request: max_tokens:  too big (400, request "
     "req_b)"},
    {404, "[]", NULL, ERR_REMOTE, false,
     "the service does not know the model or the address (model.name, "
     "model.base_url) (404)"},
    {413, "<html>too big</html>", NULL, ERR_TOO_LARGE, false,
     "the conversation is too large for the service; begin a new session "
     "(413)"},
    {408, "", NULL, ERR_TIMEOUT, true, "the service waited too long (408)"},
    {409, "", NULL, ERR_REMOTE, true, "the service reports a conflict (409)"},
    {418, "", NULL, ERR_REMOTE, false, "the service refused the request (418)"},
    {307, "", NULL, ERR_REMOTE, false,
     "the service redirects to another address, which is not followed; check "
     "model.base_url (307)"},
    {500, "\xFF", "req\n1", ERR_REMOTE, true,
     "the service has an internal problem (500, request req 1)"},
    {502, "", NULL, ERR_REMOTE, true,
     "the service has an internal problem (502)"},
    {504, "", NULL, ERR_TIMEOUT, true, "the service took too long (504)"},
    {0, ERROR_BODY("overloaded_error", "Overloaded"), NULL, ERR_OVERLOADED,
     true, "the service is overloaded (request req_b)"},
    {0, ERROR_BODY("invalid_request_error", "bad"), "req_h", ERR_REMOTE, false,
     "the service refused the request: bad (request req_h)"},
    {0, ERROR_BODY("new_error", "?"), NULL, ERR_REMOTE, true,
     "the service has an internal problem (request req_b)"},
    {500, "{\"error\":\"model requires more memory (12 GiB).\"}", NULL,
     ERR_REMOTE, true,
     "the service has an internal problem: model requires more memory (12 GiB) "
     "(500)"},
    {400, "{\"error\":{\"code\":400,\"message\":\"no tools\",\"type\":\"x\"}}",
     NULL, ERR_REMOTE, false,
     "the service refused the request: no tools (400)"},
    {401, "{\"error\":{\"message\":\"Invalid API Key\",\"code\":401}}", NULL,
     ERR_AUTH, false,
     "the service does not accept the key, or got none; check "
     "ANTHROPIC_API_KEY or model.api_key: Invalid API "
     "Key (401)"},
    {404, "{\"object\":\"error\",\"message\":\"no model m\",\"code\":404}",
     NULL, ERR_REMOTE, false,
     "the service does not know the model or the address (model.name, "
     "model.base_url): no model m (404)"},
    {204, "", NULL, ERR_PROTOCOL, false,
     "the service answered without a reply; check model.base_url (204)"},
    {400,
     "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
     "\"message\":\"hold\",\"details\":{\"error_code\":"
     "\"organization_on_hold\"}}}",
     NULL, ERR_AUTH, false, "the account is on hold: hold (400)"},
    {422, "{\"detail\":\"thinking: extra\"}", NULL, ERR_REMOTE, false,
     "the service refused the request: thinking: extra (422)"},
    {422, "{\"detail\":[{\"loc\":[\"body\"]}]}", NULL, ERR_REMOTE, false,
     "the service refused the request (422)"},
    {0, ERROR_BODY("authentication_error", "gone"), NULL, ERR_AUTH, false,
     "the service does not accept the key, or got none; check "
     "ANTHROPIC_API_KEY or model.api_key (request "
     "req_b)"},
    {0, ERROR_BODY("rate_limit_error", "slow"), NULL, ERR_RATE_LIMIT, true,
     "the service limits how often it is asked (request req_b)"},
    {0, ERROR_BODY("timeout_error", "late"), NULL, ERR_TIMEOUT, true,
     "the service took too long (request req_b)"},
    {0, ERROR_BODY("permission_error", "no"), NULL, ERR_AUTH, false,
     "the key does not permit this request: no (request req_b)"},
    {0, "Overloaded", NULL, ERR_REMOTE, true,
     "the service has an internal problem"},
};

static void
test_failure_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(failure_cases); i++) {
        const struct failure_case *c = &failure_cases[i];
        struct claude_failure f = {0};

        claude_codec_failure(c->status, c->body, strlen(c->body), c->request_id,
                             &f);
        if (f.err.code != c->expect_code || f.retry != c->expect_retry ||
            f.err.http_status != c->status ||
            strcmp(f.err.msg, c->expect_msg) != 0) {
            fail_msg("%d %s: %s", c->status, c->body, f.err.msg);
        }
    }
}

struct invalid_case {
    int status;
    const char *body;
    bool expect;
};

/* Whether another form of the request might be taken. */
static void
test_failure_of_the_form(void **state)
{
    static const struct invalid_case cases[] = {
        {400, ERROR_BODY("invalid_request_error", "signature"), true},
        {400, "{\"error\":\"thinking is not supported\"}", true},
        {422, "", true},
        {400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
         "\"details\":{\"error_code\":\"organization_on_hold\"}}}",
         false},
        {400, ERROR_BODY("permission_error", "x"), false},
        {404, ERROR_BODY("not_found_error", "x"), false},
        {0, ERROR_BODY("invalid_request_error", "x"), false},
        {500, "", false},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct claude_failure f = {0};

        claude_codec_failure(cases[i].status, cases[i].body,
                             strlen(cases[i].body), NULL, &f);
        if (f.is_invalid != cases[i].expect) {
            fail_msg("%d %s", cases[i].status, cases[i].body);
        }
    }
}

static void
test_failure_long_message_is_cut_at_a_character(void **state)
{
    struct claude_failure f = {0};
    struct sbuf body;

    (void)state;
    sbuf_init(&body, 65536);
    sbuf_add_str(&body, "{\"error\":{\"message\":\"x");
    for (int i = 0; i < 1000; i++) {
        sbuf_add_str(&body, "\xE2\x82\xAC");
    }
    sbuf_add_str(&body, "\"}}");
    claude_codec_failure(400, body.data, body.len, "req_1", &f);
    assert_non_null(strstr(f.err.msg, "\xE2\x82\xAC (400, request req_1)"));
    sbuf_fini(&body);
}

static void
test_stop_names(void **state)
{
    (void)state;
    assert_int_equal(claude_codec_stop("tool_use"), CLAUDE_STOP_TOOL_USE);
    assert_int_equal(claude_codec_stop("pause_turn"), CLAUDE_STOP_PAUSE);
    assert_int_equal(claude_codec_stop("model_context_window_exceeded"),
                     CLAUDE_STOP_CONTEXT);
    assert_int_equal(claude_codec_stop("compaction"), CLAUDE_STOP_UNKNOWN);
    assert_int_equal(claude_codec_stop(NULL), CLAUDE_STOP_UNKNOWN);
}

static void
test_raw_find_keeps_text(void **state)
{
    static const char text[] =
        " { \"a\" : 9007199254740993 , \"b\\\"}\" : \"x\\\"},{\" ,\n"
        "\"c\":{\"a\":[1,{\"b\":\"]\"}]},\"d\":[],\"a\":-1.50e+3,\"e\":true}";
    static const char *const pairs[][2] = {
        {"a", "-1.50e+3"},
        {"b\\\"}", "\"x\\\"},{\""},
        {"c", "{\"a\":[1,{\"b\":\"]\"}]}"},
        {"d", "[]"},
        {"e", "true"},
    };
    struct claude_raw_member m;

    (void)state;
    for (size_t i = 0; i < LEN(pairs); i++) {
        assert_true(claude_raw_find(text, strlen(text), pairs[i][0], &m));
        assert_int_equal(m.value_len, strlen(pairs[i][1]));
        assert_memory_equal(m.value, pairs[i][1], m.value_len);
    }
    assert_false(claude_raw_find(text, strlen(text), "x", &m));
    assert_false(claude_raw_find("[\"a\"]", 5, "a", &m));
    assert_false(claude_raw_find("{}", 2, "a", &m));
}

struct mend_case {
    const char *text;
    const char *expect;
};

static const struct mend_case mend_cases[] = {
    {"\"a\\ud83d\\ude00b\"", "\"a\\ud83d\\ude00b\""},
    {"\"a\\ud83d\"", "\"a\\ufffd\""},
    {"\"\\ude00\\ud83d\"", "\"\\ufffd\\ufffd\""},
    {"\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""},
    {"\"\\\\ud83d\"", "\"\\\\ud83d\""},
    {"\"\\\\\\uDBFFx\"", "\"\\\\\\ufffdx\""},
    {"\"\\u00e9\\n\"", "\"\\u00e9\\n\""},
};

static void
test_raw_mended_surrogates(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(mend_cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 1024);
        claude_raw_add_mended(&sb, mend_cases[i].text,
                              strlen(mend_cases[i].text));
        assert_string_equal(sb.data, mend_cases[i].expect);
        sbuf_fini(&sb);
    }
}

static void
test_text_is_blank(void **state)
{
    static const char *const blank[] = {"", " \t\r\n\v\f", "\xC2\xA0",
                                        "\xE3\x80\x80\xE2\x80\x83", "\x1C"};
    static const char *const not_blank[] = {".", " a ", "\xE2\x80\x8B", "\xFF"};

    (void)state;
    for (size_t i = 0; i < LEN(blank); i++) {
        assert_true(claude_text_is_blank(blank[i], strlen(blank[i])));
    }
    for (size_t i = 0; i < LEN(not_blank); i++) {
        assert_false(claude_text_is_blank(not_blank[i], strlen(not_blank[i])));
    }
    assert_true(claude_text_is_blank("\0\0", 2));
    assert_int_equal(claude_text_trimmed("a b\xC2\xA0 \n", 7), 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_cases),
        cmocka_unit_test(test_begin),
        cmocka_unit_test(test_thinking_by_model),
        cmocka_unit_test(test_failure_cases),
        cmocka_unit_test(test_failure_of_the_form),
        cmocka_unit_test(test_failure_long_message_is_cut_at_a_character),
        cmocka_unit_test(test_stop_names),
        cmocka_unit_test(test_raw_find_keeps_text),
        cmocka_unit_test(test_raw_mended_surrogates),
        cmocka_unit_test(test_text_is_blank),
    };

    return cmocka_run_group_tests_name("claude_codec", tests, NULL, NULL);
}
