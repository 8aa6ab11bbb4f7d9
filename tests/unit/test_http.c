/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"

#define MAX_BYTES ((size_t)8 << 20)

/* A server in the same loop: it takes one request after another and answers
   each with the same bytes. */
struct server {
    struct loop *loop;
    int fd;
    int port;
    struct loop_fd *watch;
    int peer;
    struct loop_fd *peer_watch;
    struct sbuf request; /* the last one */
    size_t n_requests;
    const char *answer; /* NULL: none ever */
    size_t answer_len;
    bool close_after;
};

static void
close_peer(struct server *s)
{
    loop_fd_remove(s->peer_watch);
    s->peer_watch = NULL;
    if (s->peer >= 0) {
        close(s->peer);
    }
    s->peer = -1;
}

static bool
is_whole(const struct sbuf *request)
{
    const char *end = strstr(request->data, "\r\n\r\n");
    const char *length = strstr(request->data, "Content-Length: ");
    size_t body = length != NULL ? strtoul(length + 16, NULL, 10) : 0;

    return end != NULL &&
           request->len == (size_t)(end - request->data) + 4 + body;
}

static void
on_peer(void *ctx, int fd, unsigned events)
{
    struct server *s = ctx;
    char buffer[65536];
    ssize_t n = recv(fd, buffer, sizeof(buffer), 0);

    (void)events;
    if (n <= 0) {
        close_peer(s);
        return;
    }
    if (is_whole(&s->request)) {
        sbuf_clear(&s->request);
    }
    sbuf_add(&s->request, buffer, (size_t)n);
    if (!is_whole(&s->request)) {
        return;
    }
    s->n_requests++;
    if (s->answer != NULL) {
        /* All answers here fit into the socket's buffer, or the client
           reads while we do not. */
        (void)send(fd, s->answer, s->answer_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (s->close_after) {
            close_peer(s);
        }
    }
}

static void
on_accept(void *ctx, int fd, unsigned events)
{
    struct server *s = ctx;
    int buffer_bytes = 4 << 20;

    (void)events;
    close_peer(s);
    s->peer = accept(fd, NULL, NULL);
    setsockopt(s->peer, SOL_SOCKET, SO_SNDBUF, &buffer_bytes,
               sizeof(buffer_bytes));
    s->peer_watch = loop_add_fd(s->loop, s->peer, LOOP_READ, on_peer, s);
}

static void
start_server(struct server *s, struct loop *loop)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    *s = (struct server){.loop = loop, .peer = -1};
    sbuf_init(&s->request, MAX_BYTES);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s->fd, 1), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    s->watch = loop_add_fd(loop, s->fd, LOOP_READ, on_accept, s);
}

static void
stop_server(struct server *s)
{
    close_peer(s);
    loop_fd_remove(s->watch);
    s->watch = NULL;
    close(s->fd);
    sbuf_fini(&s->request);
}

/* The client's side */

enum act { ACT_NONE, ACT_CANCEL, ACT_DROP, ACT_FREE, ACT_PAUSE };

struct fixture {
    struct loop *loop;
    struct server server;
    struct http *http;
    struct http_call *call;
    struct loop_timer *timer;
    char url[64];

    enum act on_head;
    enum act on_body;
    enum act on_timer;

    int status;
    struct sbuf body;
    size_t n_chunks;
    size_t longest;
    size_t n_heads;
    size_t n_done;
    size_t len_at_timer;
    bool done_in_start;
    bool starting;
    char *header; /* owned; value of X-Test when done */
    struct error err;
};

static void
act(struct fixture *f, enum act what)
{
    switch (what) {
    case ACT_NONE:
        break;
    case ACT_CANCEL:
        http_cancel(f->call);
        break;
    case ACT_DROP:
        http_drop(f->call);
        f->call = NULL;
        break;
    case ACT_FREE:
        http_free(f->http);
        f->http = NULL;
        f->call = NULL;
        break;
    case ACT_PAUSE:
        http_pause(f->call, true);
        break;
    }
    if (what == ACT_DROP || what == ACT_FREE) {
        loop_stop(f->loop);
    }
}

static void
on_head(void *ctx, int status)
{
    struct fixture *f = ctx;

    f->n_heads++;
    f->status = status;
    act(f, f->on_head);
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct fixture *f = ctx;

    sbuf_add(&f->body, data, len);
    f->n_chunks++;
    f->longest = len > f->longest ? len : f->longest;
    act(f, f->on_body);
}

static void
on_done(void *ctx, const struct error *err)
{
    struct fixture *f = ctx;

    f->n_done++;
    f->done_in_start = f->starting;
    f->header = xstrdup(http_header(f->call, "x-test"));
    if (err != NULL) {
        f->err = *err;
    }
    loop_stop(f->loop);
}

static void
on_timer(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = NULL;
    f->len_at_timer = f->body.len;
    if (f->on_timer == ACT_PAUSE) {
        http_pause(f->call, false);
    } else {
        act(f, f->on_timer);
    }
}

static void
set_up(struct fixture *f, const char *answer)
{
    const struct http_config config = {.user_agent = "test/1",
                                       .connect_ms = 5000};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    start_server(&f->server, f->loop);
    f->server.answer = answer;
    f->server.answer_len = answer != NULL ? strlen(answer) : 0;
    f->http = http_new(f->loop, &config);
    sbuf_init(&f->body, MAX_BYTES);
    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/v1/x",
             f->server.port);
}

static const struct http_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
};

static void
start(struct fixture *f, const struct http_request *request)
{
    struct error err = {0};

    f->starting = true;
    f->call = http_start(f->http, request, &handlers, f, &err);
    if (f->call == NULL) {
        fail_msg("%s", err.msg);
    }
    f->starting = false;
}

static void
get(struct fixture *f, int64_t stall_ms)
{
    const struct http_request request = {
        .method = "GET", .url = f->url, .stall_ms = stall_ms};

    start(f, &request);
    loop_run(f->loop);
}

static void
tear_down(struct fixture *f)
{
    http_free(f->http);
    loop_timer_remove(f->timer);
    stop_server(&f->server);
    loop_free(f->loop);
    sbuf_fini(&f->body);
    free(f->header);
}

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

static void
test_post_sends_all_and_gets_all(void **state)
{
    static const char body[] = "{\"a\":1}";
    const struct http_header headers[] = {
        {"Content-Type", "application/json"},
        {"X-Empty", ""},
    };
    struct secret *key = secret_new("k-123", 5);
    struct fixture f;

    (void)state;
    set_up(&f, OK_HEAD "X-Test:  a b \r\nContent-Length: 5\r\n\r\nhello");
    const struct http_request request = {
        .method = "POST",
        .url = f.url,
        .headers = headers,
        .n_headers = 2,
        .secret_header = "Authorization",
        .secret_prefix = "Bearer ",
        .secret = key,
        .body = body,
        .body_len = strlen(body),
    };

    start(&f, &request);
    secret_free(key);
    loop_run(f.loop);
    assert_int_equal(f.err.code, ERR_NONE);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.n_heads, 1);
    assert_false(f.done_in_start);
    assert_int_equal(f.status, 200);
    assert_string_equal(f.body.data, "hello");
    assert_string_equal(f.header, "a b");
    assert_non_null(strstr(f.server.request.data, "POST /v1/x HTTP/1.1\r\n"));
    assert_non_null(
        strstr(f.server.request.data, "\r\nAuthorization: Bearer k-123\r\n"));
    assert_non_null(strstr(f.server.request.data,
                           "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(f.server.request.data, "\r\nX-Empty:\r\n"));
    assert_non_null(
        strstr(f.server.request.data, "\r\nUser-Agent: test/1\r\n"));
    assert_null(strstr(f.server.request.data, "Expect"));
    assert_null(strstr(f.server.request.data, "Accept-Encoding"));
    assert_non_null(strstr(f.server.request.data, "\r\n\r\n{\"a\":1}"));
    tear_down(&f);
}

struct answer_case {
    const char *name;
    const char *answer;
    bool close_after;
    int expect_status;
    const char *expect_body;
    enum error_code expect_error;
};

static const struct answer_case answer_cases[] = {
    {"redirect is not followed",
     "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
     "Content-Length: 2\r\n\r\nno",
     false, 302, "no", ERR_NONE},
    {"an error with its body",
     "HTTP/1.1 529 Overloaded\r\nContent-Length: 3\r\n\r\nbad", false, 529,
     "bad", ERR_NONE},
    {"interim answers are skipped",
     "HTTP/1.1 100 Continue\r\nX-Test: no\r\n\r\nHTTP/1.1 103 Early\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
     false, 200, "ok", ERR_NONE},
    {"chunks and trailers",
     OK_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n"
             "X-Trailer: 1\r\n\r\n",
     false, 200, "abc", ERR_NONE},
    {"no body", "HTTP/1.1 204 None\r\n\r\n", false, 204, "", ERR_NONE},
    {"closed in the body", OK_HEAD "Content-Length: 9\r\n\r\nabc", true, 200,
     "abc", ERR_NET},
    {"closed in a chunk", OK_HEAD "Transfer-Encoding: chunked\r\n\r\n9\r\nabc",
     true, 200, "abc", ERR_NET},
    {"closed without an answer", "", true, 0, "", ERR_NET},
    {"no HTTP", "hello\r\n\r\n", true, 0, "", ERR_NET},
};

static void
test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(answer_cases); i++) {
        const struct answer_case *c = &answer_cases[i];
        struct fixture f;

        set_up(&f, c->answer);
        f.server.close_after = c->close_after;
        get(&f, 5000);
        if (f.status != c->expect_status || f.err.code != c->expect_error ||
            strcmp(f.body.data, c->expect_body) != 0 || f.n_done != 1 ||
            f.header != NULL) {
            fail_msg("%s: %d %s %s", c->name, f.status, f.body.data, f.err.msg);
        }
        tear_down(&f);
    }
}

static char *
make_long_answer(size_t len)
{
    struct sbuf sb;

    sbuf_init(&sb, MAX_BYTES);
    sbuf_addf(&sb, OK_HEAD "Content-Length: %zu\r\n\r\n", len);
    for (size_t i = 0; i < len; i++) {
        sbuf_add_char(&sb, (char)('a' + i % 23));
    }
    return sbuf_take(&sb);
}

static void
test_long_body_comes_in_chunks(void **state)
{
    AUTO_FREE char *answer = make_long_answer(300000);
    struct fixture f;

    (void)state;
    set_up(&f, answer);
    get(&f, 5000);
    assert_int_equal(f.err.code, ERR_NONE);
    assert_int_equal(f.body.len, 300000);
    assert_true(f.longest <= 16384);
    assert_memory_equal(f.body.data, strstr(answer, "\r\n\r\n") + 4, 300000);
    tear_down(&f);
}

static void
test_long_request_body_arrives(void **state)
{
    size_t len = 3000000;
    char *body = xmalloc(len);
    struct fixture f;

    (void)state;
    memset(body, 'b', len);
    set_up(&f, OK_HEAD "Content-Length: 0\r\n\r\n");
    const struct http_request request = {.method = "POST",
                                         .url = f.url,
                                         .body = body,
                                         .body_len = len,
                                         .stall_ms = 5000};

    start(&f, &request);
    loop_run(f.loop);
    assert_int_equal(f.err.code, ERR_NONE);
    assert_int_equal(f.server.n_requests, 1);
    assert_true(f.server.request.len > len);
    /* libcurl would send one with a body of this size. */
    assert_null(strstr(f.server.request.data, "Expect"));
    free(body);
    tear_down(&f);
}

static void
test_pause_holds_the_body_back(void **state)
{
    AUTO_FREE char *answer = make_long_answer(300000);
    struct fixture f;

    (void)state;
    set_up(&f, answer);
    f.on_head = ACT_PAUSE;
    f.on_timer = ACT_PAUSE; /* goes on */
    f.timer = loop_add_timer(f.loop, 120, on_timer, &f);
    /* Shorter than the pause, which is no stall. */
    get(&f, 60);
    assert_int_equal(f.err.code, ERR_NONE);
    assert_null(f.timer); /* it has run, before the end */
    assert_int_equal(f.len_at_timer, 0);
    assert_int_equal(f.body.len, 300000);
    tear_down(&f);
}

static void
test_stall_ends_the_call(void **state)
{
    static const char *const answers[] = {NULL, OK_HEAD
                                          "Content-Length: 9\r\n\r\nabc"};

    (void)state;
    for (size_t i = 0; i < LEN(answers); i++) {
        struct fixture f;
        int64_t begun = clock_now_ms();

        set_up(&f, answers[i]);
        get(&f, 80);
        assert_int_equal(f.err.code, ERR_TIMEOUT);
        assert_int_equal(f.n_done, 1);
        assert_true(clock_now_ms() - begun >= 80);
        assert_true(clock_now_ms() - begun < 2000);
        tear_down(&f);
    }
}

struct act_case {
    const char *name;
    enum act on_head;
    enum act on_body;
    enum act on_timer;
    const char *answer;
    size_t expect_done;
};

#define TWO_CHUNKS                                                             \
    OK_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"

static const struct act_case act_cases[] = {
    {"cancel in the head", ACT_CANCEL, ACT_NONE, ACT_NONE, TWO_CHUNKS, 1},
    {"cancel in the body", ACT_NONE, ACT_CANCEL, ACT_NONE, TWO_CHUNKS, 1},
    {"cancel without an answer", ACT_NONE, ACT_NONE, ACT_CANCEL, NULL, 1},
    {"drop in the head", ACT_DROP, ACT_NONE, ACT_NONE, TWO_CHUNKS, 0},
    {"drop in the body", ACT_NONE, ACT_DROP, ACT_NONE, TWO_CHUNKS, 0},
    {"drop without an answer", ACT_NONE, ACT_NONE, ACT_DROP, NULL, 0},
    {"free in the head", ACT_FREE, ACT_NONE, ACT_NONE, TWO_CHUNKS, 0},
    {"free in the body", ACT_NONE, ACT_FREE, ACT_NONE, TWO_CHUNKS, 0},
    {"free without an answer", ACT_NONE, ACT_NONE, ACT_FREE, NULL, 0},
};

static void
test_ending_from_callbacks(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(act_cases); i++) {
        const struct act_case *c = &act_cases[i];
        struct fixture f;

        set_up(&f, c->answer);
        f.on_head = c->on_head;
        f.on_body = c->on_body;
        f.on_timer = c->on_timer;
        if (c->on_timer != ACT_NONE) {
            f.timer = loop_add_timer(f.loop, 30, on_timer, &f);
        }
        get(&f, 5000);
        if (f.n_done != c->expect_done || f.n_chunks > 1 ||
            (f.n_done == 1 && f.err.code != ERR_CANCELLED)) {
            fail_msg("%s: %zu times, %s", c->name, f.n_done, f.err.msg);
        }
        tear_down(&f);
    }
}

static void
test_cancel_at_once(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, NULL);
    const struct http_request request = {.method = "GET", .url = f.url};

    start(&f, &request);
    http_cancel(f.call);
    http_cancel(f.call);
    assert_int_equal(f.n_done, 0);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.err.code, ERR_CANCELLED);
    assert_int_equal(f.n_heads, 0);
    tear_down(&f);
}

/* Nobody accepts and the queue is full: the kernel answers no SYN. */
static int
fill_backlog(int fd, int fds[], int max)
{
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    int n = 0;

    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    for (; n < max; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fds[n], (struct sockaddr *)&a, sizeof(a));
    }
    return n;
}

static void
test_hanging_connect(void **state)
{
    static const enum error_code expect[] = {ERR_CANCELLED, ERR_TIMEOUT};

    (void)state;
    for (size_t i = 0; i < LEN(expect); i++) {
        struct fixture f;
        int fds[8];
        int n;
        int64_t begun;
        const struct http_config config = {.connect_ms = 100};

        set_up(&f, NULL);
        loop_fd_remove(f.server.watch);
        f.server.watch = NULL;
        n = fill_backlog(f.server.fd, fds, LEN(fds));
        if (expect[i] == ERR_CANCELLED) {
            f.on_timer = ACT_CANCEL;
            f.timer = loop_add_timer(f.loop, 30, on_timer, &f);
        } else {
            http_free(f.http);
            f.http = http_new(f.loop, &config);
        }
        begun = clock_now_ms();
        get(&f, 0);
        assert_int_equal(f.err.code, expect[i]);
        assert_true(clock_now_ms() - begun < 1500);
        while (n > 0) {
            close(fds[--n]);
        }
        tear_down(&f);
    }
}

static void
test_refused_connection(void **state)
{
    struct fixture f;
    char *end;

    (void)state;
    set_up(&f, NULL);
    loop_fd_remove(f.server.watch);
    f.server.watch = NULL;
    shutdown(f.server.fd, SHUT_RDWR);
    get(&f, 5000);
    assert_int_equal(f.err.code, ERR_NET);
    assert_non_null(strstr(f.err.msg, "127.0.0.1"));
    end = f.err.msg + strlen(f.err.msg) - 1;
    assert_true(*end != '.' && *end != '\n');
    tear_down(&f);
}

static void
test_connection_is_used_again(void **state)
{
    struct fixture f;
    int peer;

    (void)state;
    set_up(&f, OK_HEAD "Content-Length: 2\r\n\r\nok");
    get(&f, 5000);
    peer = f.server.peer;
    assert_true(peer >= 0);
    get(&f, 5000);
    assert_int_equal(f.n_done, 2);
    assert_int_equal(f.server.n_requests, 2);
    assert_int_equal(f.server.peer, peer);
    assert_string_equal(f.body.data, "okok");
    tear_down(&f);
}

struct refused_case {
    const char *url;
    const char *header;
    const char *key;
};

static const struct refused_case refused_cases[] = {
    {"ftp://127.0.0.1/", "v", "k"},
    {"file:///etc/hostname", "v", "k"},
    {"127.0.0.1", "v", "k"},
    {"", "v", "k"},
    {"http://user@127.0.0.1/", "v", "k"},
    {"http://u:p@127.0.0.1/", "v", "k"},
    {"http://127.0.0.1/", "a\r\nb: c", "k"},
    {"http://127.0.0.1/", "v", "k\n"},
};

static void
test_start_refuses(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f, NULL);
    for (size_t i = 0; i < LEN(refused_cases); i++) {
        const struct refused_case *c = &refused_cases[i];
        struct secret *key = secret_new(c->key, strlen(c->key));
        const struct http_header header = {"X-A", c->header};
        const struct http_request request = {.method = "GET",
                                             .url = c->url,
                                             .headers = &header,
                                             .n_headers = 1,
                                             .secret_header = "x-api-key",
                                             .secret = key};
        struct error err = {0};

        if (http_start(f.http, &request, &handlers, &f, &err) != NULL ||
            err.code != ERR_USAGE) {
            fail_msg("case %zu: %s", i, err.msg);
        }
        secret_free(key);
    }
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_post_sends_all_and_gets_all),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_long_body_comes_in_chunks),
        cmocka_unit_test(test_long_request_body_arrives),
        cmocka_unit_test(test_pause_holds_the_body_back),
        cmocka_unit_test(test_stall_ends_the_call),
        cmocka_unit_test(test_ending_from_callbacks),
        cmocka_unit_test(test_cancel_at_once),
        cmocka_unit_test(test_hanging_connect),
        cmocka_unit_test(test_refused_connection),
        cmocka_unit_test(test_connection_is_used_again),
        cmocka_unit_test(test_start_refuses),
    };

    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
