/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"

#include "e2b_site.h"
#include "http_sink.h"

#define OK(request) ANSWER(request, 200, "{}")
#define X "POST /x"
#define PAGE(title, text)                                                      \
    "<!DOCTYPE html>\n<html><head><title>" title "</title></head><body><p>"    \
    "The sandbox <span>" ID "</span> " text "</p></body></html>"

enum { BODY_IS_HELD_MS = 100 };

static struct e2b_data *the_call; /* that callbacks drop */

static void
on_done(void *ctx, const struct e2b_data_result *result)
{
    keep_result(ctx, result);
}

static void
on_sent(void *ctx, int64_t sent, int64_t total)
{
    struct fixture *f = ctx;

    assert_true(sent <= total);
    f->sent = sent;
    f->n_sent++;
}

static const struct e2b_data_handlers collecting = {.on_sent = on_sent,
                                                    .on_done = on_done};

static struct e2b_data_request
post(bool repeatable)
{
    return (struct e2b_data_request){.service = E2B_INTERPRETER,
                                     .method = "POST",
                                     .path = "/x",
                                     .content_type = "application/json",
                                     .body = "{\"a\":1}",
                                     .body_len = 7,
                                     .collect_bytes = 1000,
                                     .stall_ms = 60000,
                                     .limit_ms = 120000,
                                     .repeatable = repeatable,
                                     .doing = "running a cell"};
}

static void
run(struct fixture *f, const struct e2b_data_request *request,
    const struct exchange *script, size_t n)
{
    struct error err = {0};

    forget_result(f);
    server_play(&f->server, script, n);
    the_call = e2b_data_start(&f->site, request, &collecting, f, &err);
    if (the_call == NULL) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(f->n_done, 0);
    loop_run(f->loop);
    assert_int_equal(f->n_done, 1);
}

/* --- what an answer means --- */

struct answer_case {
    const char *name;
    bool repeatable;
    struct exchange script[8];
    enum e2b_trouble expect_trouble;
    enum error_code expect_code;
    enum e2b_code expect_status;
    bool expect_not_sent;
    const char *expect_part; /* of the message */
};

static const struct answer_case answer_cases[] = {
    {"success", false, {OK(X)}, 0, 0, 0, false, NULL},
    {"gone",
     false,
     {ANSWER(X, 502, GONE_JSON)},
     E2B_TROUBLE_GONE,
     ERR_SANDBOX,
     E2B_UNAVAILABLE,
     true,
     "sandbox " ID " does not run any more"},
    {"gone, as a page",
     false,
     {ANSWER(X, 502, PAGE("Sandbox Not Found", "wasn't found."))},
     E2B_TROUBLE_GONE,
     ERR_SANDBOX,
     E2B_UNAVAILABLE,
     true,
     "does not run any more"},
    {"a gateway that finds no host",
     false,
     {ANSWER(X, 502, "host not found in upstream")},
     E2B_TROUBLE_CUT,
     ERR_NET,
     E2B_UNAVAILABLE,
     false,
     "status 502: host not found"},
    {"closed, and open then",
     true,
     {ANSWER(X, 502, CLOSED_JSON), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"closed, as a page",
     false,
     {ANSWER(X, 502,
             PAGE("Closed Port Error", "is running but there&#39s no service "
                                       "running on port <span>1</span>."))},
     E2B_TROUBLE_CLOSED,
     ERR_SANDBOX,
     E2B_UNAVAILABLE,
     false,
     "does not answer"},
    /* The service may have died of it. */
    {"closed, of what is not to be done twice",
     false,
     {ANSWER(X, 502, CLOSED_JSON)},
     E2B_TROUBLE_CLOSED,
     ERR_SANDBOX,
     E2B_UNAVAILABLE,
     false,
     "the interpreter of sandbox " ID " does not answer"},
    {"between two states",
     false,
     {ANSWER(X, 409, CHANGING_JSON), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"between two states, as a page",
     false,
     {ANSWER(X, 409,
             PAGE("Sandbox Still Transitioning", "is still transitioning.")),
      OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"there already, says the service",
     true,
     {ANSWER(X, 409, "{\"code\":\"already_exists\",\"message\":\"is there\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_REMOTE,
     E2B_ALREADY_EXISTS,
     false,
     "status 409: is there"},
    {"a token, with a number as code",
     true,
     {ANSWER(X, 401, "{\"code\":401,\"message\":\"no such token\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_AUTH,
     E2B_UNAUTHENTICATED,
     false,
     "no such token"},
    {"a token, with a text as code",
     true,
     {ANSWER(X, 401, "{\"code\":\"unauthenticated\",\"message\":\"who?\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_AUTH,
     E2B_UNAUTHENTICATED,
     false,
     "who?"},
    {"the traffic token, says the proxy",
     false,
     {ANSWER(X, 403,
             "{\"sandboxId\":\"" ID "\",\"message\":\"header is "
             "missing\",\"code\":403}")},
     E2B_TROUBLE_REFUSED,
     ERR_AUTH,
     E2B_PERMISSION_DENIED,
     true,
     "header is missing"},
    {"no such method",
     true,
     {ANSWER(X, 404, "404 page not found\n")},
     E2B_TROUBLE_REFUSED,
     ERR_REMOTE,
     E2B_UNIMPLEMENTED,
     false,
     "404 page not found"},
    {"no such file",
     true,
     {ANSWER(X, 404, "{\"code\":\"not_found\",\"message\":\"none\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_REMOTE,
     E2B_NOT_FOUND,
     false,
     "none"},
    {"the disk is full",
     true,
     {ANSWER(X, 507, "{\"code\":507,\"message\":\"no space\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_LIMIT,
     E2B_RESOURCE_EXHAUSTED,
     false,
     "no space"},
    {"too large",
     true,
     {ANSWER(X, 413, "")},
     E2B_TROUBLE_REFUSED,
     ERR_TOO_LARGE,
     E2B_RESOURCE_EXHAUSTED,
     false,
     "status 413: resource_exhausted"},
    {"too many, from the proxy",
     false,
     {ANSWER(X, 429, "{\"sandboxId\":\"" ID "\",\"message\":\"limit\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_RATE_LIMIT,
     E2B_RESOURCE_EXHAUSTED,
     true,
     "limit"},
    {"too many, and not then",
     true,
     {ANSWER_WITH(X, 429, "", "Retry-After: 0\r\n"), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"a gateway, not to be done twice",
     false,
     {ANSWER(X, 502, "<html>Bad Gateway</html>")},
     E2B_TROUBLE_CUT,
     ERR_NET,
     E2B_UNAVAILABLE,
     false,
     "status 502: no words of the service"},
    {"a gateway, once",
     true,
     {ANSWER(X, 504, "<html>Timeout</html>"), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"a gateway, for good",
     true,
     {ANSWER(X, 503, ""), ANSWER(X, 503, ""), ANSWER(X, 503, ""),
      ANSWER(X, 503, "")},
     E2B_TROUBLE_CUT,
     ERR_NET,
     E2B_UNAVAILABLE,
     false,
     "status 503"},
    {"no use, says the service",
     true,
     {ANSWER_WITH(X, 503, "", "Should-Retry: false\r\n")},
     E2B_TROUBLE_CUT,
     ERR_NET,
     E2B_UNAVAILABLE,
     false,
     NULL},
    {"of use, says the service",
     true,
     {ANSWER_WITH(X, 500, "", "Should-Retry: true\r\n"), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"broken",
     true,
     {ANSWER(X, 500, "{\"code\":\"internal\",\"message\":\"oops\"}")},
     E2B_TROUBLE_REFUSED,
     ERR_REMOTE,
     E2B_INTERNAL,
     false,
     "oops"},
    {"another address",
     true,
     {ANSWER_WITH(X, 302, "", "Location: /y\r\n")},
     E2B_TROUBLE_REFUSED,
     ERR_REMOTE,
     E2B_UNKNOWN,
     false,
     "status 302"},
    {"cut",
     false,
     {NO_ANSWER(X, SERVER_CLOSES)},
     E2B_TROUBLE_CUT,
     ERR_NET,
     0,
     false,
     "running a cell: sandbox " ID},
    {"cut, and whole then",
     true,
     {NO_ANSWER(X, SERVER_CLOSES), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"cut within the answer",
     false,
     {{.request = X, .status = 200, .body = "{", .act = SERVER_CLOSES_HALF}},
     E2B_TROUBLE_CUT,
     ERR_NET,
     0,
     false,
     NULL},
    {"cut within the answer, and whole then",
     true,
     {{.request = X, .status = 200, .body = "{", .act = SERVER_CLOSES_HALF},
      OK(X)},
     0,
     0,
     0,
     false,
     NULL},
    {"between two states, and cut then",
     false,
     {ANSWER(X, 409, CHANGING_JSON), NO_ANSWER(X, SERVER_CLOSES)},
     E2B_TROUBLE_CUT,
     ERR_NET,
     0,
     false,
     NULL},
    {"between two states, and gone then",
     false,
     {ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 502, GONE_JSON)},
     E2B_TROUBLE_GONE,
     ERR_SANDBOX,
     E2B_UNAVAILABLE,
     true,
     NULL},
    {"waits for a state are no tries",
     true,
     {ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 409, CHANGING_JSON),
      ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 503, ""), ANSWER(X, 503, ""),
      ANSWER(X, 503, ""), OK(X)},
     0,
     0,
     0,
     false,
     NULL},
};

static void
check_answer(struct fixture *f, const struct answer_case *c)
{
    const struct e2b_data_request request = post(c->repeatable);
    const struct e2b_data_result *r = &f->result;
    size_t n = 0;

    while (n < LEN(c->script) && c->script[n].request != NULL) {
        n++;
    }
    run(f, &request, c->script, n);
    expect_all_used(f, c->name);
    if (r->trouble != c->expect_trouble || f->err.code != c->expect_code ||
        r->status.code != c->expect_status ||
        (r->err == NULL) != (c->expect_code == ERR_NONE) ||
        (r->err != NULL && r->not_sent != c->expect_not_sent) ||
        (c->expect_part != NULL &&
         strstr(f->err.msg, c->expect_part) == NULL)) {
        fail_msg("%s: trouble %d, code %s, status %s, not sent %d: %s", c->name,
                 (int)r->trouble, error_code_name(f->err.code),
                 e2b_code_name(r->status.code), (int)r->not_sent, f->err.msg);
    }
    if (r->err == NULL) {
        assert_string_equal(r->body, "{}");
        assert_int_equal(r->http_status, 200);
    } else {
        assert_string_equal(r->body, "");
    }
}

static void
test_what_an_answer_means(void **state)
{
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < LEN(answer_cases); i++) {
        set_up(&f, 6, 13);
        check_answer(&f, &answer_cases[i]);
        tear_down(&f);
    }
}

/* A sandbox that stays between two states. */
static void
test_turned_back_for_good(void **state)
{
    static const struct exchange script[] = {
        ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 409, CHANGING_JSON),
        ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 409, CHANGING_JSON),
        ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 409, CHANGING_JSON),
        ANSWER(X, 409, CHANGING_JSON), ANSWER(X, 409, CHANGING_JSON),
        ANSWER(X, 409, CHANGING_JSON)};
    struct e2b_data_request request = post(false);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    run(&f, &request, script, LEN(script));
    expect_all_used(&f, "stays so");
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CHANGING);
    assert_int_equal(f.err.code, ERR_SANDBOX);
    assert_true(f.result.not_sent);

    /* Nor is it waited for beyond the limit of the whole. */
    request.limit_ms = 250;
    run(&f, &request, script, 1);
    expect_all_used(&f, "no time");
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CHANGING);
    tear_down(&f);
}

/* --- limits --- */

static void
test_limit_of_the_whole(void **state)
{
    static const struct exchange hangs[] = {NO_ANSWER(X, SERVER_HANGS)};
    static const struct exchange half[] = {HALF_ANSWER(X, 200, "{")};
    static const struct exchange later[] = {
        ANSWER_WITH(X, 503, "", "Retry-After: 60\r\n")};
    struct e2b_data_request request = post(true);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    request.limit_ms = 1500;
    run(&f, &request, hangs, 1);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_LATE);
    assert_int_equal(f.err.code, ERR_TIMEOUT);
    assert_false(f.result.not_sent);
    assert_non_null(strstr(f.err.msg, "no answer within 2 s"));
    request.limit_ms = 300;
    run(&f, &request, half, 1);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_LATE);
    assert_int_equal(f.result.http_status, 200);
    run(&f, &request, later, 1);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CUT);
    assert_int_equal(f.result.http_status, 503);
    tear_down(&f);
}

static void
test_silence(void **state)
{
    static const struct exchange hangs[] = {NO_ANSWER(X, SERVER_HANGS)};
    struct e2b_data_request request = post(false);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    request.stall_ms = 300;
    request.limit_ms = 0;
    run(&f, &request, hangs, 1);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CUT);
    assert_int_equal(f.err.code, ERR_TIMEOUT);
    assert_false(f.result.not_sent);
    tear_down(&f);
}

static void
test_too_large_answers(void **state)
{
    static const struct exchange success[] = {
        {.request = X, .status = 200, .fill = 70000}};
    static const struct exchange fits[] = {
        {.request = X, .status = 200, .body = "{}", .fill = 998}};
    /* It goes on for ever, and is no reason to wait. */
    static const struct exchange refusal[] = {
        {.request = X,
         .status = 401,
         .body = "{\"code\":401,\"message\":\"no\"}",
         .fill = 200000,
         .act = SERVER_HALF}};
    struct e2b_data_request request = post(true);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    run(&f, &request, success, 1);
    assert_int_equal(f.err.code, ERR_TOO_LARGE);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_REFUSED);
    assert_int_equal(f.result.http_status, 200);
    assert_non_null(strstr(f.err.msg, "more than 1000 bytes"));
    run(&f, &request, fits, 1);
    assert_null(f.result.err);
    assert_int_equal(f.result.body_len, 1000);
    run(&f, &request, refusal, 1);
    assert_int_equal(f.err.code, ERR_AUTH);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_REFUSED);
    tear_down(&f);
}

/* A peer that is not there has certainly not done it. */
static void
test_nobody_there(void **state)
{
    const struct e2b_data_request request = post(false);
    struct fixture f;
    struct error err = {0};

    (void)state;
    set_up(&f, 6, 13);
    server_stop(&f.server);
    assert_non_null(e2b_data_start(&f.site, &request, &collecting, &f, &err));
    loop_run(f.loop);
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CUT);
    assert_int_equal(f.err.code, ERR_NET);
    assert_true(f.result.not_sent);
    assert_true(server_start(&f.server, f.loop));
    tear_down(&f);
}

/*
 * libcurl sends a request a second time where a kept connection was closed
 * without an answer, though the peer may have read it.
 */
static void
test_sent_once_on_a_kept_connection(void **state)
{
    static const struct exchange answers[] = {OK(X)};
    static const struct exchange cuts[] = {NO_ANSWER(X, SERVER_CLOSES)};
    struct e2b_data_request request = post(true);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    run(&f, &request, answers, 1);
    request.repeatable = false;
    run(&f, &request, cuts, 1);
    expect_all_used(&f, "kept");
    assert_int_equal(f.result.trouble, E2B_TROUBLE_CUT);
    assert_false(f.result.not_sent);
    tear_down(&f);
}

/* --- what is on the wire --- */

static void
expect_header(const char *request, const char *line, bool there)
{
    const char *end = strstr(request, "\r\n\r\n");
    const char *at = strcasestr(request, line);

    if ((at != NULL && at < end) != there) {
        fail_msg("%s: %s in %s", line, there ? "not" : "is", request);
    }
}

static void
test_headers(void **state)
{
    static const struct exchange script[] = {OK("POST /x"), OK("GET /a?b=c"),
                                             OK("POST /y"), OK("DELETE /z")};
    const struct http_header more[] = {{"Range", "bytes=1-"}};
    const struct e2b_data_request requests[] = {post(false),
                                                {.service = E2B_ENVD,
                                                 .method = "GET",
                                                 .path = "/a?b=c",
                                                 .headers = more,
                                                 .n_headers = 1,
                                                 .collect_bytes = 10,
                                                 .doing = "x"},
                                                {.service = E2B_ENVD,
                                                 .method = "POST",
                                                 .path = "/y",
                                                 .collect_bytes = 10,
                                                 .doing = "x"},
                                                {.service = E2B_INTERPRETER,
                                                 .method = "DELETE",
                                                 .path = "/z",
                                                 .collect_bytes = 10,
                                                 .doing = "x"}};
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    for (size_t i = 0; i < LEN(requests); i++) {
        const char *r;

        run(&f, &requests[i], &script[i], 1);
        r = f.server.requests[0];
        expect_header(r, "\r\nX-Access-Token: " TOKEN "\r\n", true);
        expect_header(r, "\r\ne2b-traffic-access-token: " TRAFFIC "\r\n", true);
        expect_header(r, "\r\nE2b-Sandbox-Id: " ID "\r\n", true);
        expect_header(r, "\r\nE2b-Sandbox-Port: 49983\r\n",
                      requests[i].service == E2B_ENVD);
        expect_header(r, "\r\nE2b-Sandbox-Port: 49999\r\n",
                      requests[i].service == E2B_INTERPRETER);
        expect_header(r, "\r\nAccept: application/json\r\n", true);
        expect_header(r, "\r\nRange: bytes=1-\r\n", i == 1);
        expect_header(r, "\r\nContent-Type: application/json\r\n", i == 0);
        expect_header(r, "\r\nContent-Length: ", i == 0 || i == 2);
        expect_header(r, "\r\nX-API-Key:", false);
        expect_header(r, "\r\nAuthorization:", false);
        expect_header(r, "\r\nExpect:", false);
        expect_header(r, "\r\nAccept-Encoding:", false);
        assert_non_null(strstr(r, " HTTP/1.1\r\n"));
    }
    run(&f, &requests[0], script, 1);
    assert_non_null(strstr(f.server.requests[0], "\r\n\r\n{\"a\":1}"));
    assert_int_equal(f.sent, 7);
    tear_down(&f);
}

static void
test_no_tokens(void **state)
{
    static const struct exchange script[] = {OK(X)};
    const struct e2b_data_request request = post(false);
    struct fixture f;

    (void)state;
    set_up(&f, 6, 13);
    secret_free(take_ptr(&f.site.envd_token));
    secret_free(take_ptr(&f.site.traffic_token));
    run(&f, &request, script, 1);
    expect_header(f.server.requests[0], "access-token", false);
    tear_down(&f);
}

/* libcurl would wait for a server's leave with a body as large as that. */
static void
test_no_waiting_before_a_large_body(void **state)
{
    static const struct exchange script[] = {OK(X)};
    struct e2b_data_request request = post(false);
    AUTO_FREE char *body = xcalloc(1, 3 << 20);
    struct fixture f;

    (void)state;
    memset(body, 'x', 3 << 20);
    set_up(&f, 6, 13);
    request.body = body;
    request.body_len = 3 << 20;
    run(&f, &request, script, 1);
    assert_null(f.result.err);
    expect_header(f.server.requests[0], "\r\nExpect", false);
    expect_header(f.server.requests[0], "\r\nContent-Length: 3145728\r\n",
                  true);
    assert_int_equal(f.sent, 3 << 20);
    tear_down(&f);
}

/* What a client would speak is in its first message, in clear. */
static void
test_asks_for_http1(void **state)
{
    const struct e2b_data_request request = post(false);
    struct sink sink;
    struct fixture f;
    struct error err = {0};

    (void)state;
    set_up(&f, 6, 13);
    assert_true(sink_start(&sink, f.loop));
    sink.hello = true;
    free(f.site.url[E2B_INTERPRETER]);
    f.site.url[E2B_INTERPRETER] = xasprintf("https://127.0.0.1:%d", sink.port);
    assert_non_null(e2b_data_start(&f.site, &request, &collecting, &f, &err));
    loop_run(f.loop);
    assert_non_null(memmem(sink.peers[0].head.data, sink.peers[0].head.len,
                           "\x08http/1.1", 9));
    assert_null(memmem(sink.peers[0].head.data, sink.peers[0].head.len,
                       "\x02h2\x08", 4));
    sink_stop(&sink);
    tear_down(&f);
}

/* --- answers as they come --- */

struct stream {
    struct fixture *f;
    struct sbuf body;
    size_t n_heads;
    bool drops_in_head;
    bool drops_in_body;
    bool resumed;
};

static void
stream_on_head(void *ctx, int status)
{
    struct stream *s = ctx;

    s->n_heads++;
    assert_int_equal(status, 206);
    assert_string_equal(e2b_data_header(the_call, "CONTENT-RANGE"), "a/b");
    assert_null(e2b_data_header(the_call, "x-none"));
    if (s->drops_in_head) {
        e2b_data_drop(the_call);
        loop_stop(s->f->loop);
    }
}

static void
stream_on_body(void *ctx, const char *data, size_t len)
{
    struct stream *s = ctx;

    sbuf_add(&s->body, data, len);
    if (s->drops_in_body) {
        e2b_data_drop(the_call);
        loop_stop(s->f->loop);
    }
}

static void
stream_on_done(void *ctx, const struct e2b_data_result *result)
{
    struct stream *s = ctx;

    keep_result(s->f, result);
}

static const struct e2b_data_handlers streaming = {.on_head = stream_on_head,
                                                   .on_body = stream_on_body,
                                                   .on_done = stream_on_done};

static void
begin_stream(struct stream *s, const struct exchange *script, size_t n)
{
    struct e2b_data_request request = post(true);
    struct error err = {0};

    forget_result(s->f);
    sbuf_init(&s->body, 1000);
    request.collect_bytes = 0;
    server_play(&s->f->server, script, n);
    the_call = e2b_data_start(&s->f->site, &request, &streaming, s, &err);
    assert_non_null(the_call);
}

#define RANGE "Content-Range: a/b\r\n"

static void
test_stream(void **state)
{
    /* A refusal is none of it, and what has begun is not begun again. */
    static const struct exchange scripts[][2] = {
        {ANSWER(X, 503, "not this"), ANSWER_WITH(X, 206, "abc", RANGE)},
        {ANSWER(X, 503, "not this"),
         {.request = X,
          .status = 206,
          .body = "abc",
          .headers = RANGE,
          .act = SERVER_CLOSES_HALF}}};

    (void)state;
    for (size_t i = 0; i < LEN(scripts); i++) {
        struct fixture f;
        struct stream s = {.f = &f};

        set_up(&f, 6, 13);
        begin_stream(&s, scripts[i], 2);
        loop_run(f.loop);
        expect_all_used(&f, "stream");
        assert_int_equal(s.n_heads, 1);
        assert_string_equal(s.body.data, "abc");
        assert_string_equal(f.result.body, "");
        assert_int_equal(f.result.trouble,
                         i == 0 ? E2B_TROUBLE_NONE : E2B_TROUBLE_CUT);
        assert_int_equal(f.result.http_status, 206);
        sbuf_fini(&s.body);
        tear_down(&f);
    }
}

static void
test_dropping_from_callbacks(void **state)
{
    static const struct exchange script[] = {ANSWER_WITH(X, 206, "abc", RANGE)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct stream s = {
            .f = &f, .drops_in_head = i == 0, .drops_in_body = i == 1};

        set_up(&f, 6, 13);
        begin_stream(&s, script, 1);
        loop_run(f.loop);
        assert_int_equal(f.n_done, 0);
        assert_int_equal(s.body.len, i == 0 ? 0 : 3);
        sbuf_fini(&s.body);
        tear_down(&f);
    }
}

static void
drop_it(void *ctx)
{
    struct fixture *f = ctx;

    e2b_data_drop(the_call);
    loop_stop(f->loop);
}

static void
drop_soon(void *ctx)
{
    struct fixture *f = ctx;

    loop_add_timer(f->loop, 50, drop_it, f);
}

/* Before an answer, and while the next try is waited for. */
static void
test_dropping(void **state)
{
    static const struct exchange scripts[][1] = {
        {NO_ANSWER(X, SERVER_HANGS)},
        {ANSWER_WITH(X, 503, "", "Retry-After: 60\r\n")}};
    struct e2b_data_request request = post(true);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < LEN(scripts); i++) {
        struct fixture f;

        set_up(&f, 6, 13);
        f.server.on_request = drop_soon;
        f.server.ctx = &f;
        server_play(&f.server, scripts[i], 1);
        the_call = e2b_data_start(&f.site, &request, &collecting, &f, &err);
        assert_non_null(the_call);
        loop_run(f.loop);
        assert_int_equal(f.n_done, 0);
        tear_down(&f);
    }
    e2b_data_drop(NULL);
}

static void
resume(void *ctx)
{
    struct stream *s = ctx;

    s->resumed = true;
    assert_int_equal(s->body.len, 0);
    e2b_data_pause(the_call, false);
}

static void
resume_soon(void *ctx)
{
    struct stream *s = ctx;

    if (s->f->server.n_requests == 2) {
        loop_add_timer(s->f->loop, BODY_IS_HELD_MS, resume, s);
    }
}

/* Whoever cannot take more is not given more by the next try. */
static void
test_pause_outlasts_a_try(void **state)
{
    static const struct exchange script[] = {ANSWER(X, 503, ""),
                                             ANSWER_WITH(X, 206, "abc", RANGE)};
    struct fixture f;
    struct stream s = {.f = &f};

    (void)state;
    set_up(&f, 6, 13);
    f.server.on_request = resume_soon;
    f.server.ctx = &s;
    begin_stream(&s, script, 2);
    e2b_data_pause(the_call, true);
    loop_run(f.loop);
    expect_all_used(&f, "pause");
    assert_true(s.resumed);
    assert_null(f.result.err);
    assert_string_equal(s.body.data, "abc");
    sbuf_fini(&s.body);
    tear_down(&f);
}

/* --- sites --- */

struct site_case {
    const char *form;
    const char *domain;
    bool has_token;
    bool has_traffic;
    const char *expect_url; /* of the daemon; NULL: refused */
};

static const struct site_case site_cases[] = {
    {NULL, "", true, true, "https://49983-" ID ".e2b.app"},
    {NULL, "other.example", true, false, "https://49983-" ID ".other.example"},
    {"http://127.0.0.1:3000", "", true, true, "http://127.0.0.1:3000"},
    {"http://localhost/{port}", "", true, true, "http://localhost/49983"},
    {"http://box.example", "", false, false, "http://box.example"},
    {"http://box.example", "", true, false, NULL},
    {"http://box.example", "", false, true, NULL},
    {"http://127.0.0.1.example", "", true, false, NULL},
    {"http://{domain}", "box.example", true, false, NULL},
};

static void
test_tokens_only_where_they_are_safe(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(site_cases); i++) {
        const struct site_case *c = &site_cases[i];
        struct e2b_sandbox s = {.id = ID, .envd = {1, 2, 3}};
        struct e2b_site site = {0};
        struct error err = {0};
        int rc;

        memcpy(s.domain, c->domain, strlen(c->domain) + 1);
        s.envd_token = c->has_token ? secret_new("abcdef", 6) : NULL;
        s.traffic_token = c->has_traffic ? secret_new("ghijkl", 6) : NULL;
        rc = e2b_site_init(&site, NULL, NULL, c->form, "e2b.app", &s, &err);
        if ((rc == 0) != (c->expect_url != NULL) ||
            (rc == 0 && !str_eq(site.url[E2B_ENVD], c->expect_url)) ||
            (rc < 0 && (err.code != ERR_CONFIG ||
                        strstr(err.msg, "sandbox_url") == NULL))) {
            fail_msg("row %zu: %s, %s", i, site.url[E2B_ENVD], err.msg);
        }
        assert_int_equal(secret_is_empty(site.envd_token),
                         rc < 0 || !c->has_token);
        assert_int_equal(secret_is_empty(s.envd_token),
                         rc == 0 || !c->has_token);
        e2b_sandbox_fini(&s);
        e2b_site_fini(&site);
    }
}

static void
test_versions(void **state)
{
    static const struct {
        int envd[3];
        bool has_0_5_7;
        bool names_user;
    } rows[] = {{{0, 0, 0}, false, true},  {{0, 3, 9}, false, true},
                {{0, 4, 0}, false, false}, {{0, 5, 6}, false, false},
                {{0, 5, 7}, true, false},  {{0, 5, 13}, true, false},
                {{0, 10, 0}, true, false}, {{1, 0, 0}, true, false}};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct e2b_site site = {0};

        memcpy(site.envd, rows[i].envd, sizeof(site.envd));
        assert_int_equal(e2b_site_has(&site, 0, 5, 7), rows[i].has_0_5_7);
        assert_int_equal(e2b_site_names_user(&site), rows[i].names_user);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_an_answer_means),
        cmocka_unit_test(test_turned_back_for_good),
        cmocka_unit_test(test_limit_of_the_whole),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_too_large_answers),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_sent_once_on_a_kept_connection),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_no_waiting_before_a_large_body),
        cmocka_unit_test(test_asks_for_http1),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_dropping_from_callbacks),
        cmocka_unit_test(test_dropping),
        cmocka_unit_test(test_pause_outlasts_a_try),
        cmocka_unit_test(test_tokens_only_where_they_are_safe),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests_name("e2b_data", tests, NULL, NULL);
}
