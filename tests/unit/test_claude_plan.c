/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* In which form a conversation is sent, and what a refusal changes. */
#include "claude/claude.h"

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
#include "base/loop.h"
#include "base/sbuf.h"
#include "claude/history.h"
#include "claude/transport.h"

/* What comes back for one request. */
struct answer {
    int status;
    const char *body;
    bool vendor; /* with the header that the vendor's own service sends */
    bool cut;
};

#define MAX_REQUESTS 8

struct fixture {
    struct loop *loop;
    struct transport transport;
    struct claude_history *history;
    struct claude *claude;
    struct claude_call *call;

    const struct answer *answers;
    size_t n_requests;
    char *bodies[MAX_REQUESTS]; /* owned */
    struct transport_handlers on;
    void *ctx;

    struct sbuf log;
    bool cancel_on_notice;
    enum claude_stop stop;
    size_t n_calls;
};

/* --- a transport that answers from a list --- */

static void
give_answer(void *ctx)
{
    struct fixture *f = ctx;
    const struct answer *a = &f->answers[f->n_requests - 1];
    const struct error broken = {.code = ERR_NET, .msg = "broken"};

    if (!a->cut) {
        f->on.on_head(f->ctx, a->status);
        f->on.on_body(f->ctx, a->body, strlen(a->body));
    }
    f->on.on_done(f->ctx, a->cut ? &broken : NULL);
}

static struct transport_call *
list_start(void *transport, const struct transport_request *request,
           const struct transport_handlers *on, void *ctx, struct error *err)
{
    struct fixture *f = transport;

    (void)err;
    assert_true(f->n_requests < MAX_REQUESTS);
    f->bodies[f->n_requests++] = xstrndup(request->body, request->body_len);
    f->on = *on;
    f->ctx = ctx;
    loop_defer(f->loop, give_answer, f);
    return transport;
}

static const char *
list_header(const struct transport_call *call, const char *name)
{
    const struct fixture *f = (const struct fixture *)(const void *)call;
    const struct answer *a = &f->answers[f->n_requests - 1];

    if (strcmp(name, "anthropic-organization-id") == 0) {
        return a->vendor ? "org" : NULL;
    }
    return strcmp(name, "retry-after-ms") == 0 ? "1" : NULL;
}

static void
list_nothing(struct transport_call *call)
{
    (void)call;
}

static void
list_free(void *transport)
{
    (void)transport;
}

static const struct transport_ops list_ops = {
    .name = "list",
    .start = list_start,
    .header = list_header,
    .cancel = list_nothing,
    .drop = list_nothing,
    .free = list_free,
};

/* --- the caller --- */

static void
on_retry(void *ctx, int attempt, int64_t wait_ms, const struct error *err)
{
    struct fixture *f = ctx;

    (void)wait_ms;
    sbuf_addf(&f->log, "retry %d %s ", attempt, error_code_name(err->code));
}

static void
on_notice(void *ctx, const char *text)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "notice %s ",
              strstr(text, "thinking; the") != NULL ? "stripped"
                                                    : "compatible");
    if (f->cancel_on_notice) {
        claude_cancel(f->call);
    }
}

static void
on_done(void *ctx, const struct claude_reply *reply, const struct error *err)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "done %s ", err != NULL ? err->msg : "-");
    if (err == NULL) {
        f->stop = reply->stop;
        f->n_calls = reply->n_calls;
    }
    loop_stop(f->loop);
}

static const struct claude_handlers handlers = {
    .on_retry = on_retry,
    .on_notice = on_notice,
    .on_done = on_done,
};

static void
set_up(struct fixture *f, const char *model, enum claude_dialect dialect,
       bool foreign, const struct answer *answers)
{
    const struct claude_config config = {
        .model = model,
        .max_tokens = 100,
        .dialect = dialect,
        .max_attempts = 2,
        .system = "S",
    };
    struct error err = {0};

    *f = (struct fixture){.answers = answers};
    f->loop = loop_new(NULL);
    sbuf_init(&f->log, 65536);
    f->transport =
        (struct transport){.ops = &list_ops, .impl = f, .is_foreign = foreign};
    f->history = claude_history_new();
    assert_int_equal(claude_history_add_user(f->history, "q", 1, NULL), 0);
    f->claude = claude_new(f->loop, &f->transport, &config, &err);
    if (f->claude == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void
tear_down(struct fixture *f)
{
    claude_free(f->claude);
    claude_history_free(f->history);
    loop_free(f->loop);
    sbuf_fini(&f->log);
    for (size_t i = 0; i < f->n_requests; i++) {
        free(f->bodies[i]);
    }
}

static void
ask(struct fixture *f)
{
    struct error err = {0};

    f->call = claude_send(f->claude, f->history, &handlers, f, &err);
    if (f->call == NULL) {
        fail_msg("%s", err.msg);
    }
    loop_run(f->loop);
}

#define START "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
#define BLOCK_TEXT                                                             \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"  \
    "\"type\":\"text\",\"text\":\"x\"}}\n\n"                                   \
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
#define BLOCK_CALL                                                             \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"  \
    "\"type\":\"tool_use\",\"id\":\"call_1:x\",\"name\":\"n\",\"input\":{}}}"  \
    "\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"      \
    "\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"              \
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
#define END(reason)                                                            \
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason   \
    "\"},\"usage\":null}\n\n"
#define STOP "data: {\"type\":\"message_stop\"}\n\n"
#define REPLY START BLOCK_TEXT END("end_turn") STOP
#define INVALID                                                                \
    "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","       \
    "\"message\":\"signature\"}}"
#define ON_HOLD                                                                \
    "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","       \
    "\"message\":\"hold\",\"details\":{\"error_code\":"                        \
    "\"organization_on_hold\"}}}"
#define REFUSED "done the service refused the request: signature (400) "

static bool
has(const struct fixture *f, size_t i, const char *what)
{
    assert_true(i < f->n_requests);
    return strstr(f->bodies[i], what) != NULL;
}

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

#define TEXT "{\"type\":\"text\",\"text\":\"x\"}"
#define THOUGHT                                                                \
    "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"}"

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
        cmocka_unit_test(test_form_by_host_and_model),
        cmocka_unit_test(test_gaps_in_replies),
        cmocka_unit_test(test_fall_back_cases),
        cmocka_unit_test(test_fall_back_is_kept_to),
        cmocka_unit_test(test_no_fall_back_after_a_reply),
        cmocka_unit_test(test_strip_cases),
        cmocka_unit_test(test_strip_once_in_a_session),
        cmocka_unit_test(test_cancel_in_the_notice),
        cmocka_unit_test(test_a_paused_reply_is_sent_back),
        cmocka_unit_test(test_max_tokens_change_nothing_else),
        cmocka_unit_test(test_a_third_breakpoint_after_many_blocks),
    };

    return cmocka_run_group_tests_name("claude_plan", tests, NULL, NULL);
}
