/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "claude/history.h"
#include "claude/transport.h"
#include "net/http.h"

enum act { ACT_NONE, ACT_CANCEL, ACT_FREE };

struct fixture {
    struct loop *loop;
    struct transport transport;
    struct claude_history *history;
    struct claude *claude;
    struct claude_call *call;
    struct loop_timer *timer;
    struct sbuf log; /* what the handlers were told */
    enum act on_text;
    enum act on_discard;
    enum act on_retry;
    enum act on_timer;
    bool again; /* a second question in on_done */

    size_t n_done;
    enum claude_stop stop;
    char *content; /* owned; NULL: no reply */
    size_t n_calls;
    struct error err;
};

static void ask(struct fixture *f);

static void
act(struct fixture *f, enum act what)
{
    if (what == ACT_CANCEL) {
        claude_cancel(f->call);
    } else if (what == ACT_FREE) {
        claude_free(f->claude);
        f->claude = NULL;
        loop_stop(f->loop);
    }
}

static void
on_thinking(void *ctx, const char *text, size_t len, bool end)
{
    struct fixture *f = ctx;

    sbuf_add(&f->log, text, len);
    sbuf_add_str(&f->log, end ? "> " : "");
}

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct fixture *f = ctx;

    sbuf_add(&f->log, text, len);
    sbuf_add_str(&f->log, end ? ") " : "");
    act(f, f->on_text);
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    struct fixture *f = ctx;

    (void)input;
    if (len == 0) {
        sbuf_addf(&f->log, "%s! ", name);
    }
}

static void
on_discard(void *ctx)
{
    struct fixture *f = ctx;

    sbuf_add_str(&f->log, "discard ");
    act(f, f->on_discard);
}

static void
on_retry(void *ctx, int attempt, int64_t wait_ms, const struct error *err)
{
    struct fixture *f = ctx;

    assert_true(wait_ms > 0);
    sbuf_addf(&f->log, "retry %d %s ", attempt, error_code_name(err->code));
    act(f, f->on_retry);
}

static void
on_done(void *ctx, const struct claude_reply *reply, const struct error *err)
{
    struct fixture *f = ctx;

    f->n_done++;
    sbuf_addf(&f->log, "done %s ",
              err != NULL ? error_code_name(err->code) : "-");
    free(f->content);
    f->content = NULL;
    if (reply != NULL) {
        f->stop = reply->stop;
        f->content = xstrdup(reply->content);
        f->n_calls = reply->n_calls;
    }
    if (err != NULL) {
        f->err = *err;
    }
    if (f->again) {
        f->again = false;
        ask(f);
        return;
    }
    loop_stop(f->loop);
}

static void
on_timer(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = NULL;
    act(f, f->on_timer);
}

static const struct claude_handlers handlers = {
    .on_thinking = on_thinking,
    .on_text = on_text,
    .on_tool = on_tool,
    .on_discard = on_discard,
    .on_retry = on_retry,
    .on_done = on_done,
};

static void
ask(struct fixture *f)
{
    struct error err = {0};

    f->call = claude_send(f->claude, f->history, &handlers, f, &err);
    if (f->call == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void
set_up(struct fixture *f, const char *exchanges, int64_t quiet_ms)
{
    AUTO_FREE char *text =
        xasprintf("{\"sandpiper-replay\":1,\"exchanges\":[%s]}", exchanges);
    const struct claude_config config = {
        .model = "m", .max_tokens = 100, .quiet_ms = quiet_ms};
    int fd = io_memfd("replay", text, strlen(text), NULL);
    AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
    struct error err = {0};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    sbuf_init(&f->log, 65536);
    if (transport_replay(f->loop, path, 0, &f->transport, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    close(fd);
    f->history = claude_history_new();
    assert_int_equal(claude_history_add_user(f->history, "q", 1, NULL), 0);
    f->claude = claude_new(f->loop, &f->transport, &config, &err);
    assert_non_null(f->claude);
}

static void
tear_down(struct fixture *f)
{
    claude_free(f->claude);
    loop_timer_remove(f->timer);
    claude_history_free(f->history);
    transport_fini(&f->transport);
    loop_free(f->loop);
    sbuf_fini(&f->log);
    free(f->content);
}

/* Answers, written short */

#define REPLY "{\"reply\":[{\"type\":\"text\",\"text\":\"hello\"}]}"
#define STATUS(status, rest) "{\"status\":" status ",\"body\":\"\"" rest "}"
#define HEADERS(headers) ",\"headers\":{" headers "}"
#define SOON "\"retry-after-ms\":\"5\""
#define BEGUN                                                                  \
    "{\"type\":\"message_start\",\"message\":{}},{\"type\":"                   \
    "\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"         \
    "\"text\","                                                                \
    "\"text\":\"\"}},{\"type\":\"content_block_delta\",\"index\":0,\"delta\":" \
    "{"                                                                        \
    "\"type\":\"text_delta\",\"text\":\"half \"}}"
#define CALL_BEGUN                                                             \
    "{\"type\":\"message_start\",\"message\":{}},{\"type\":"                   \
    "\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"         \
    "\"tool_use\",\"id\":\"t\",\"name\":\"run\",\"input\":{}}},{\"type\":"     \
    "\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"                 \
    "\"input_json_delta\",\"partial_json\":\"{\\\"c\"}}"
#define ERROR_EVENT(type)                                                      \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"m\"}}"

struct exchange_case {
    const char *name;
    const char *exchanges;
    const char *expect_log;
    const char *expect_content; /* NULL: no reply */
    const char *expect_msg;     /* a part of it */
};

static const struct exchange_case exchange_cases[] = {
    {"a reply", REPLY, "hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"thinking and a call",
     "{\"reply\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":"
     "\"s\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"run\",\"input\":{"
     "\"code\":\"1\"}}]}",
     "hm> run! done - ",
     "[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},{"
     "\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"run\",\"input\":{\"code\":"
     "\"1\"}}]",
     ""},
    {"overloaded, then a reply", STATUS("529", HEADERS(SOON)) "," REPLY,
     "retry 2 overloaded hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"without end",
     STATUS("529", HEADERS(SOON)) "," STATUS("500", HEADERS(SOON)) "," STATUS(
         "429",
         HEADERS(SOON)) "," STATUS("409",
                                   HEADERS(
                                       SOON)) "," STATUS("503",
                                                         HEADERS(
                                                             SOON)) "," REPLY,
     "retry 2 overloaded retry 3 remote retry 4 rate_limit retry 5 remote "
     "done overloaded ",
     NULL, "the service is overloaded (503)"},
    {"refused",
     STATUS("400", HEADERS(SOON ",\"request-id\":\"req_7\"")) "," REPLY,
     "done remote ", NULL, "(400, request req_7)"},
    {"the key", STATUS("401", ""), "done auth ", NULL, "(401)"},
    {"redirect", STATUS("307", ""), "done remote ", NULL, "redirects"},
    {"the service wants no retry",
     STATUS("529", HEADERS(SOON ",\"x-should-retry\":\"false\"")) "," REPLY,
     "done overloaded ", NULL, "(529)"},
    {"the service wants a retry",
     STATUS("400", HEADERS(SOON ",\"x-should-retry\":\"true\"")) "," REPLY,
     "retry 2 remote hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"spend limit",
     "{\"status\":429,\"headers\":{\"x-should-retry\":\"true\"},\"body\":{"
     "\"error\":{\"details\":{\"error_code\":"
     "\"enforced_spend_limit_reached\"}}}}," REPLY,
     "done auth ", NULL, "spend limit"},
    {"a long wait", STATUS("429", HEADERS("\"retry-after\":\"61\"")) "," REPLY,
     "done rate_limit ", NULL, "(429); it asks to wait 61 s"},
    {"cut before anything",
     "{\"events\":[],\"cut\":true,\"headers\":{" SOON "}}," REPLY,
     "retry 2 net hello) done - ", "[{\"type\":\"text\",\"text\":\"hello\"}]",
     ""},
    {"cut in the text",
     "{\"events\":[" BEGUN "],\"cut\":true,\"headers\":{" SOON "}}," REPLY,
     "half discard retry 2 net hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"ended early in a call",
     "{\"events\":[" CALL_BEGUN "],\"headers\":{" SOON "}}," REPLY,
     "run! discard retry 2 net hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"an error in the stream",
     "{\"events\":[" BEGUN
     "," ERROR_EVENT("overloaded_error") "],"
                                         "\"headers\":{" SOON "}}," REPLY,
     "half discard retry 2 overloaded hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
    {"an error in the stream that is no accident",
     "{\"events\":[" BEGUN
     "," ERROR_EVENT("invalid_request_error") "],"
                                              "\"headers\":{" SOON "}}," REPLY,
     "half done remote ", "[{\"type\":\"text\",\"text\":\"half\"}]",
     "refused the request: m"},
    {"events that make no sense",
     "{\"events\":[" BEGUN ",\"data: {\\n\\n\"]}," REPLY, "half done protocol ",
     "[{\"type\":\"text\",\"text\":\"half\"}]", "no JSON"},
    {"cut behind the last event",
     "{\"events\":[" BEGUN ",{\"type\":\"message_delta\",\"delta\":{"
     "\"stop_reason\":\"end_turn\"}},{\"type\":\"message_stop\"}],"
     "\"cut\":true}",
     "half ) done - ", "[{\"type\":\"text\",\"text\":\"half \"}]", ""},
    {"no stream",
     "{\"headers\":{\"content-type\":\"text/html; x\"},\"body\":\"<p>\"}",
     "done protocol ", NULL, "a web page"},
    {"JSON that is no reply",
     "{\"headers\":{\"content-type\":\"application/json\"},\"body\":{\"type\":"
     "\"message\"}}",
     "done protocol ", NULL, "something else than a stream"},
    {"an error of another form with status 200",
     "{\"headers\":{" SOON ",\"x-should-retry\":\"false\"},\"body\":{\"error\":"
     "\"no such model\"}}",
     "done remote ", NULL, "no such model"},
    {"an error with status 200",
     "{\"headers\":{" SOON "},\"body\":{\"type\":\"error\",\"error\":{\"type\":"
     "\"overloaded_error\"}}}," REPLY,
     "retry 2 overloaded hello) done - ",
     "[{\"type\":\"text\",\"text\":\"hello\"}]", ""},
};

static void
test_exchanges(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(exchange_cases); i++) {
        const struct exchange_case *c = &exchange_cases[i];
        struct fixture f;

        set_up(&f, c->exchanges, 0);
        ask(&f);
        assert_int_equal(f.n_done, 0);
        loop_run(f.loop);
        if (strcmp(f.log.data, c->expect_log) != 0 ||
            (f.content == NULL) != (c->expect_content == NULL) ||
            (f.content != NULL && strcmp(f.content, c->expect_content) != 0) ||
            strstr(f.err.msg, c->expect_msg) == NULL) {
            fail_msg("%s: %s| %s | %s", c->name, f.log.data,
                     f.content != NULL ? f.content : "-", f.err.msg);
        }
        tear_down(&f);
    }
}

struct act_case {
    const char *name;
    const char *exchanges;
    enum act on_text;
    enum act on_discard;
    enum act on_retry;
    enum act on_timer;
    const char *expect_log;
};

#define SLOWLY HEADERS("\"retry-after\":\"50\"")
#define CUT "{\"events\":[" BEGUN "],\"cut\":true" SLOWLY "}," REPLY
#define LONG                                                                   \
    "{\"reply\":[{\"type\":\"text\",\"text\":\"one two three four five six "   \
    "seven eight nine ten\"}]}"

static const struct act_case act_cases[] = {
    {"cancel in the text", LONG, ACT_CANCEL, 0, 0, 0,
     "one two three four five done cancelled "},
    {"free in the text", LONG, ACT_FREE, 0, 0, 0, "one two three four five "},
    {"cancel on discard", CUT, 0, ACT_CANCEL, 0, 0,
     "half discard done cancelled "},
    {"free on discard", CUT, 0, ACT_FREE, 0, 0, "half discard "},
    {"cancel on retry", CUT, 0, 0, ACT_CANCEL, 0,
     "half discard retry 2 net done cancelled "},
    {"free on retry", CUT, 0, 0, ACT_FREE, 0, "half discard retry 2 net "},
    {"cancel in the wait", CUT, 0, 0, 0, ACT_CANCEL,
     "half discard retry 2 net done cancelled "},
    {"free in the wait", CUT, 0, 0, 0, ACT_FREE, "half discard retry 2 net "},
};

static void
test_ending_from_callbacks(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(act_cases); i++) {
        const struct act_case *c = &act_cases[i];
        int64_t begun = clock_now_ms();
        struct fixture f;

        set_up(&f, c->exchanges, 0);
        f.on_text = c->on_text;
        f.on_discard = c->on_discard;
        f.on_retry = c->on_retry;
        f.on_timer = c->on_timer;
        if (c->on_timer != ACT_NONE) {
            f.timer = loop_add_timer(f.loop, 40, on_timer, &f);
        }
        ask(&f);
        loop_run(f.loop);
        if (strcmp(f.log.data, c->expect_log) != 0) {
            fail_msg("%s: %s", c->name, f.log.data);
        }
        assert_true(clock_now_ms() - begun < 2000);
        tear_down(&f);
    }
}

static void
test_cancel_at_once(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, REPLY, 0);
    ask(&f);
    claude_cancel(f.call);
    claude_cancel(f.call);
    assert_int_equal(f.n_done, 0);
    loop_run(f.loop);
    assert_string_equal(f.log.data, "done cancelled ");
    assert_null(f.content);
    tear_down(&f);
}

static void
test_free_with_a_request_in_progress(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, REPLY, 0);
    ask(&f);
    claude_free(f.claude);
    f.claude = NULL;
    loop_run(f.loop);
    assert_int_equal(f.n_done, 0);
    tear_down(&f);
}

static void
test_next_question_from_on_done(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, REPLY "," REPLY, 0);
    f.again = true;
    ask(&f);
    loop_run(f.loop);
    assert_string_equal(f.log.data, "hello) done - hello) done - ");
    tear_down(&f);
}

static void
test_send_refuses(void **state)
{
    static const char *const ids[] = {"t"};
    static const char call[] =
        "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}]";
    struct error err = {0};
    struct fixture f;

    (void)state;
    set_up(&f, "{\"expect\":{\"user\":\"something else\"},\"body\":\"\"}", 0);
    assert_null(claude_send(f.claude, f.history, &handlers, &f, &err));
    assert_int_equal(err.code, ERR_PROTOCOL);
    assert_int_equal(
        claude_history_add_assistant(f.history, call, ids, 1, NULL), 0);
    assert_null(claude_send(f.claude, f.history, &handlers, &f, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    tear_down(&f);

    set_up(&f, REPLY, 0);
    ask(&f);
    assert_null(claude_send(f.claude, f.history, &handlers, &f, &err));
    assert_int_equal(err.code, ERR_INTERNAL);
    tear_down(&f);
}

/* A transport that the test drives by hand */

struct hand {
    struct transport_handlers on;
    void *ctx;
    char *body; /* owned; the last request */
    size_t n_starts;
    size_t n_cancels;
    struct loop *loop;
    bool pings; /* answers with nothing else */
    struct loop_timer *ping;
};

static void
send_ping(void *ctx)
{
    static const char ping[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    struct hand *hand = ctx;

    hand->ping = loop_add_timer(hand->loop, 10, send_ping, hand);
    hand->on.on_body(hand->ctx, ping, strlen(ping));
}

static void
begin_pings(void *ctx)
{
    struct hand *hand = ctx;

    hand->on.on_head(hand->ctx, 200);
    send_ping(hand);
}

static struct transport_call *
hand_start(void *transport, const struct transport_request *request,
           const struct transport_handlers *on, void *ctx, struct error *err)
{
    struct hand *hand = transport;

    (void)err;
    hand->on = *on;
    hand->ctx = ctx;
    hand->n_starts++;
    if (hand->body != NULL) {
        assert_string_equal(hand->body, request->body);
    }
    free(hand->body);
    hand->body = xstrndup(request->body, request->body_len);
    if (hand->pings) {
        hand->ping = loop_add_timer(hand->loop, 0, begin_pings, hand);
    }
    return transport;
}

static const char *
hand_header(const struct transport_call *call, const char *name)
{
    (void)call;
    return strcmp(name, "retry-after-ms") == 0 ? "1" : NULL;
}

static void
on_hand_cancelled(void *ctx)
{
    struct hand *hand = ctx;
    const struct error err = {.code = ERR_CANCELLED};

    hand->on.on_done(hand->ctx, &err);
}

static void
hand_cancel(struct transport_call *call)
{
    struct hand *hand = (struct hand *)(void *)call;

    hand->n_cancels++;
    loop_timer_remove(hand->ping);
    hand->ping = NULL;
    loop_defer(hand->loop, on_hand_cancelled, hand);
}

static void
hand_nothing(struct transport_call *call)
{
    (void)call;
}

static void
hand_free(void *transport)
{
    (void)transport;
}

static const struct transport_ops hand_ops = {
    .name = "hand",
    .start = hand_start,
    .header = hand_header,
    .cancel = hand_cancel,
    .drop = hand_nothing,
    .free = hand_free,
};

static void
set_up_hand(struct fixture *f, struct hand *hand)
{
    const struct claude_config config = {
        .model = "m", .max_tokens = 100, .max_attempts = 2, .quiet_ms = 50};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    *hand = (struct hand){.loop = f->loop};
    f->transport = (struct transport){.ops = &hand_ops, .impl = hand};
    sbuf_init(&f->log, 65536);
    f->history = claude_history_new();
    assert_int_equal(claude_history_add_user(f->history, "q", 1, NULL), 0);
    f->claude = claude_new(f->loop, &f->transport, &config, NULL);
}

static void
test_only_pings_end_the_attempt(void **state)
{
    struct fixture f;
    struct hand hand;

    (void)state;
    set_up_hand(&f, &hand);
    hand.pings = true;
    ask(&f);
    loop_run(f.loop);
    assert_string_equal(f.log.data, "retry 2 timeout done timeout ");
    assert_int_equal(hand.n_starts, 2);
    free(hand.body);
    tear_down(&f);
}

/* A server that does not end its answer is not waited for. */
static void
test_open_connection_behind_the_last_event(void **state)
{
    static const char bytes[] =
        "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
        "\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    struct fixture f;
    struct hand hand;

    (void)state;
    set_up_hand(&f, &hand);
    ask(&f);
    hand.on.on_head(hand.ctx, 200);
    hand.on.on_body(hand.ctx, bytes, strlen(bytes));
    loop_run(f.loop);
    assert_string_equal(f.log.data, "done - ");
    assert_int_equal(hand.n_cancels, 1);
    free(hand.body);
    tear_down(&f);
}

static void
test_transport_http_without_a_key(void **state)
{
    struct loop *loop = loop_new(NULL);
    const struct http_config http_config = {0};
    struct http *http = http_new(loop, &http_config);
    const struct transport_http_config config = {0};
    const struct transport_http_config bad = {.base_url = "ftp://x"};
    const struct transport_request request = {.path = "/v1/messages"};
    const struct transport_handlers none = {0};
    struct transport t = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(transport_http(http, &bad, &t, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_int_equal(transport_http(http, &config, &t, NULL), 0);
    assert_null(t.ops->start(t.impl, &request, &none, NULL, &err));
    assert_int_equal(err.code, ERR_AUTH);
    transport_fini(&t);
    http_free(http);
    loop_free(loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_ending_from_callbacks),
        cmocka_unit_test(test_cancel_at_once),
        cmocka_unit_test(test_free_with_a_request_in_progress),
        cmocka_unit_test(test_next_question_from_on_done),
        cmocka_unit_test(test_send_refuses),
        cmocka_unit_test(test_only_pings_end_the_attempt),
        cmocka_unit_test(test_open_connection_behind_the_last_event),
        cmocka_unit_test(test_transport_http_without_a_key),
    };

    return cmocka_run_group_tests_name("claude", tests, NULL, NULL);
}
