/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"

#include "http_sink.h"

#define MIB ((int64_t)1 << 20)
#define MAX_STATUS_BYTES ((size_t)65536)

enum { UPLOAD_MIB = 64, MAX_GROWTH_MIB = 16, MAX_UPLOAD_MIB = 65536 };

enum act { ACT_NONE, ACT_CANCEL, ACT_DROP, ACT_FREE };

struct fixture;

struct client {
    struct fixture *f;
    struct http_call *call;
    int status;
    size_t n_done;
    struct error err;
    int64_t sent; /* what on_sent said last */
    int64_t total;
    size_t n_sent;
    size_t n_full; /* how often it said that all is sent */
    bool went_back;
    int64_t done_ms;
};

struct fixture {
    struct loop *loop;
    struct sink sink;
    struct http *http;
    struct client clients[2];
    size_t n_running;
    char url[64];
    struct loop_timer *timer;
    int file;
    enum act on_sent;
    int64_t change_to; /* size that the file gets meanwhile */
    int64_t cancel_ms;
};

static void
act(struct client *c, enum act what)
{
    struct fixture *f = c->f;

    switch (what) {
    case ACT_NONE:
        return;
    case ACT_CANCEL:
        http_cancel(c->call);
        return;
    case ACT_DROP:
        http_drop(c->call);
        break;
    case ACT_FREE:
        http_free(f->http);
        f->http = NULL;
        break;
    }
    loop_stop(f->loop);
}

static void
on_head(void *ctx, int status)
{
    struct client *c = ctx;

    c->status = status;
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
}

static void
on_sent(void *ctx, int64_t sent, int64_t total)
{
    struct client *c = ctx;

    c->went_back = c->went_back || sent < c->sent;
    c->sent = sent;
    c->total = total;
    c->n_sent++;
    c->n_full += sent == total;
    act(c, c->f->on_sent);
}

static void
on_done(void *ctx, const struct error *err)
{
    struct client *c = ctx;

    c->n_done++;
    c->done_ms = clock_now_ms();
    if (err != NULL) {
        c->err = *err;
    }
    c->f->n_running--;
    if (c->f->n_running == 0) {
        loop_stop(c->f->loop);
    }
}

static const struct http_handlers handlers = {
    .on_sent = on_sent,
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
};

static void
set_up(struct fixture *f)
{
    const struct http_config config = {.connect_ms = 10000};

    *f = (struct fixture){.file = -1};
    f->loop = loop_new(NULL);
    assert_true(sink_start(&f->sink, f->loop));
    f->http = http_new(f->loop, &config);
    for (size_t i = 0; i < LEN(f->clients); i++) {
        f->clients[i].f = f;
        f->clients[i].sent = -1;
    }
    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/files", f->sink.port);
}

static void
tear_down(struct fixture *f)
{
    http_free(f->http);
    loop_timer_remove(f->timer);
    sink_stop(&f->sink);
    loop_free(f->loop);
    if (f->file >= 0) {
        close(f->file);
    }
}

static void
start(struct client *c, const struct http_request *request)
{
    struct error err = {0};

    c->call = http_start(c->f->http, request, &handlers, c, &err);
    if (c->call == NULL) {
        fail_msg("%s", err.msg);
    }
    c->f->n_running++;
}

/* POSTs a range of the file, between head and tail. */
static void
upload(struct client *c, const struct http_body *body, int64_t stall_ms)
{
    const struct http_request request = {
        .method = "POST",
        .url = c->f->url,
        .stream = body,
        .stall_ms = stall_ms,
    };

    start(c, &request);
}

/* A file of holes without a name, with a few bytes here and there. */
static int
make_file(int64_t size)
{
    const char *dir = getenv("TMPDIR");
    AUTO_FREE char *path =
        xasprintf("%s/upload.XXXXXX", str_blank(dir) ? "/tmp" : dir);
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, size), 0);
    for (int64_t at = 0; at < size; at += size / 7 + 1) {
        char text[24];
        int len = snprintf(text, sizeof(text), "%lld", (long long)at);

        if (at + len <= size) {
            assert_int_equal(pwrite(fd, text, (size_t)len, at), len);
        }
    }
    return fd;
}

static void
hash_body(const struct http_body *body, char hex[HASH_HEX_BYTES])
{
    static char buffer[65536];
    struct hash h;

    hash_init(&h);
    hash_add(&h, body->head, body->head_len);
    for (int64_t at = 0; at < body->len;) {
        size_t len = sizeof(buffer);
        ssize_t n;

        if ((int64_t)len > body->len - at) {
            len = (size_t)(body->len - at);
        }
        n = pread(body->fd, buffer, len, body->offset + at);
        assert_true(n > 0);
        hash_add(&h, buffer, (size_t)n);
        at += n;
    }
    hash_add(&h, body->tail, body->tail_len);
    hash_end_hex(&h, hex);
}

static void
assert_arrived(const struct sink_peer *p, const struct http_body *body)
{
    char hex[HASH_HEX_BYTES];

    hash_body(body, hex);
    assert_string_equal(p->hex, hex);
    assert_int_equal(p->length,
                     (int64_t)(body->head_len + body->tail_len) + body->len);
}

static void
assert_done(const struct client *c, enum error_code code)
{
    if (c->n_done != 1 || c->err.code != code) {
        fail_msg("%zu times, %s", c->n_done, c->err.msg);
    }
}

static int64_t
read_peak_kib(void)
{
    struct sbuf sb;
    const char *at;
    int64_t kib;

    sbuf_init(&sb, MAX_STATUS_BYTES);
    assert_int_equal(io_read_file("/proc/self/status", &sb, NULL), 0);
    at = strstr(sb.data, "VmHWM:");
    assert_non_null(at);
    kib = strtoll(at + 6, NULL, 10);
    sbuf_fini(&sb);
    return kib;
}

/* So that what was used before does not hide what is used now. */
static void
forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "5", 1);
        close(fd);
    }
}

static void
test_large_file_in_little_memory(void **state)
{
    const char *asked = getenv("UPLOAD_MIB");
    int64_t mib = UPLOAD_MIB;
    struct fixture f;
    struct client *c = &f.clients[0];
    struct http_body body = {
        .head = "<", .head_len = 1, .tail = ">", .tail_len = 1};
    int64_t peak;
    int64_t begun;

    (void)state;
    if (asked != NULL) {
        assert_int_equal(str_to_int(asked, 1, MAX_UPLOAD_MIB, &mib, NULL), 0);
    }
    set_up(&f);
    f.file = make_file(mib * MIB);
    body.fd = f.file;
    body.len = mib * MIB;
    forget_peak();
    peak = read_peak_kib();
    begun = clock_now_ms();
    upload(c, &body, 60000);
    loop_run(f.loop);
    peak = read_peak_kib() - peak;
    assert_done(c, ERR_NONE);
    print_message("# %lld MiB in %lld ms, %lld KiB more at the peak\n",
                  (long long)mib, (long long)(c->done_ms - begun),
                  (long long)peak);
    assert_true(peak <= MAX_GROWTH_MIB * 1024);
    assert_int_equal(c->status, 200);
    assert_arrived(&f.sink.peers[0], &body);
    assert_null(strstr(f.sink.peers[0].head.data, "Expect"));
    assert_null(strstr(f.sink.peers[0].head.data, "Transfer-Encoding"));
    assert_null(strstr(f.sink.peers[0].head.data, "Accept-Encoding"));
    assert_int_equal(c->total, body.len + 2);
    assert_int_equal(c->n_full, 1);
    assert_int_equal(c->sent, c->total);
    assert_false(c->went_back);
    assert_true((int64_t)c->n_sent <= (c->done_ms - begun) / 100 + 1);
    tear_down(&f);
}

struct method_case {
    const char *method;
    const char *body;
    const char *expect_length; /* NULL: no Content-Length */
};

static const struct method_case method_cases[] = {
    {"GET", NULL, NULL},  {"DELETE", NULL, NULL}, {"POST", NULL, "0"},
    {"PUT", NULL, "0"},   {"PATCH", NULL, "0"},   {"POST", "", "0"},
    {"DELETE", "", "0"},  {"GET", "ab", "2"},     {"DELETE", "ab", "2"},
    {"POST", "abc", "3"}, {"PUT", "ab", "2"},     {"PATCH", "ab", "2"},
};

static void
check_method(const struct method_case *m, const char *head)
{
    AUTO_FREE char *first = xasprintf("%s /files HTTP/1.1\r\n", m->method);
    AUTO_FREE char *length =
        xasprintf("\r\nContent-Length: %s\r\n",
                  m->expect_length != NULL ? m->expect_length : "");
    bool has_length = strstr(head, "Content-Length") != NULL;

    if (!str_starts(head, first) || strstr(head, "Expect") != NULL ||
        strstr(head, "Transfer-Encoding") != NULL ||
        strstr(head, "Content-Type") != NULL ||
        has_length != (m->expect_length != NULL) ||
        (has_length && strstr(head, length) == NULL)) {
        fail_msg("%s with %s: %s", m->method,
                 m->body != NULL ? m->body : "nothing", head);
    }
}

static void
test_methods(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(method_cases); i++) {
        const struct method_case *m = &method_cases[i];
        struct fixture f;
        struct client *c = &f.clients[0];
        char hex[HASH_HEX_BYTES];

        set_up(&f);
        const struct http_request request = {
            .method = m->method,
            .url = f.url,
            .body = m->body,
            .body_len = m->body != NULL ? strlen(m->body) : 0,
            .stall_ms = 60000,
        };
        start(c, &request);
        loop_run(f.loop);
        assert_done(c, ERR_NONE);
        check_method(m, f.sink.peers[0].head.data);
        hash_hex(m->body, request.body_len, hex);
        assert_string_equal(f.sink.peers[0].hex, hex);
        assert_int_equal(c->n_full, request.body_len > 0 ? 1 : 0);
        tear_down(&f);
    }
}

static void
test_two_calls_share_a_descriptor(void **state)
{
    /* More than libcurl asks for at a time. */
    static char head[100000];
    static char tail[200001];
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < sizeof(tail); i++) {
        head[i % sizeof(head)] = (char)(i % 251);
        tail[i] = (char)(i % 241);
    }
    set_up(&f);
    f.file = make_file(MIB);
    assert_int_equal(lseek(f.file, 7, SEEK_SET), 7);
    const struct http_body bodies[] = {
        {.head = head,
         .head_len = sizeof(head),
         .fd = f.file,
         .len = MIB,
         .tail = tail,
         .tail_len = sizeof(tail)},
        {.fd = f.file, .offset = 150000, .len = 500001},
    };

    upload(&f.clients[0], &bodies[0], 60000);
    upload(&f.clients[1], &bodies[1], 60000);
    loop_run(f.loop);
    assert_int_equal(f.sink.n_peers, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sink_peer *p = &f.sink.peers[i];

        assert_done(&f.clients[i], ERR_NONE);
        /* Which connection is made first is libcurl's business. */
        assert_arrived(p, &bodies[p->length == 500001 ? 1 : 0]);
    }
    assert_int_not_equal(f.sink.peers[0].length, f.sink.peers[1].length);
    assert_int_equal(lseek(f.file, 0, SEEK_CUR), 7);
    tear_down(&f);
}

static void
test_empty_file(void **state)
{
    static const struct http_body bodies[] = {
        {.fd = -1},
        {.head = "a", .head_len = 1, .fd = -1, .tail = "bc", .tail_len = 2},
    };

    (void)state;
    for (size_t i = 0; i < LEN(bodies); i++) {
        struct fixture f;

        set_up(&f);
        upload(&f.clients[0], &bodies[i], 60000);
        loop_run(f.loop);
        assert_done(&f.clients[0], ERR_NONE);
        assert_arrived(&f.sink.peers[0], &bodies[i]);
        assert_non_null(
            strstr(f.sink.peers[0].head.data, "\r\nContent-Length: "));
        tear_down(&f);
    }
}

/* libcurl sends on a kept connection, finds it closed and begins again. */
static void
test_begins_again_on_another_connection(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.file = make_file(4 * MIB);
    const struct http_body body = {.head = "<",
                                   .head_len = 1,
                                   .fd = f.file,
                                   .len = 4 * MIB,
                                   .tail = ">",
                                   .tail_len = 1};

    f.sink.cuts_second = true;
    upload(&f.clients[0], &body, 60000);
    loop_run(f.loop);
    upload(&f.clients[1], &body, 60000);
    loop_run(f.loop);
    assert_done(&f.clients[1], ERR_NONE);
    assert_false(f.sink.cuts_second);
    assert_int_equal(f.sink.n_peers, 2);
    assert_arrived(&f.sink.peers[1], &body);
    tear_down(&f);
}

static void
change_file(void *ctx)
{
    struct fixture *f = ctx;

    if (f->change_to < 0) {
        const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {1, 0}};

        assert_int_equal(pwrite(f->file, "x", 1, 0), 1);
        /* The clock of files may not have moved on since it was made. */
        assert_int_equal(futimens(f->file, times), 0);
    } else {
        assert_int_equal(ftruncate(f->file, f->change_to), 0);
    }
}

struct change_case {
    int64_t at;
    int64_t to; /* a size, or -1: the same size, other bytes */
    const char *expect;
};

static const struct change_case change_cases[] = {
    {2 * MIB, MIB, "became shorter"},
    {2 * MIB, 8 * MIB - 1, "became shorter"},
    {2 * MIB, 8 * MIB + 1, "became longer"},
    {2 * MIB, -1, "was changed"},
    {0, 0, "became shorter"},
};

static void
test_file_that_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(change_cases); i++) {
        const struct change_case *c = &change_cases[i];
        struct fixture f;

        set_up(&f);
        f.file = make_file(8 * MIB);
        f.change_to = c->to;
        f.sink.call_at = c->at;
        f.sink.on_bytes = change_file;
        f.sink.ctx = &f;
        const struct http_body body = {.fd = f.file, .len = 8 * MIB};

        upload(&f.clients[0], &body, 60000);
        loop_run(f.loop);
        assert_done(&f.clients[0], ERR_IO);
        if (strstr(f.clients[0].err.msg, c->expect) == NULL ||
            f.sink.peers[0].n_requests != 0 || f.clients[0].n_full != 0) {
            fail_msg("case %zu: %s", i, f.clients[0].err.msg);
        }
        tear_down(&f);
    }
}

static void
test_start_refuses_files(void **state)
{
    struct fixture f;
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fds[2];

    (void)state;
    set_up(&f);
    f.file = make_file(100);
    assert_int_equal(io_pipe(fds, NULL), 0);
    const struct http_body bodies[] = {
        {.fd = fds[0], .len = 1},
        {.fd = dir, .len = 1},
        {.fd = -1, .len = 1},
        {.fd = f.file, .len = 101},
        {.fd = f.file, .offset = 100, .len = 1},
        {.fd = f.file, .offset = 101, .len = 1},
        {.fd = f.file, .offset = -1, .len = 1},
        {.fd = f.file, .offset = 1, .len = INT64_MAX},
        {.fd = f.file, .offset = 1, .len = -1},
    };

    for (size_t i = 0; i < LEN(bodies); i++) {
        const struct http_request request = {
            .method = "PUT", .url = f.url, .stream = &bodies[i]};
        struct error err = {0};

        if (http_start(f.http, &request, &handlers, &f.clients[0], &err) !=
                NULL ||
            err.code != ERR_IO) {
            fail_msg("case %zu: %s", i, err.msg);
        }
    }
    close(dir);
    close(fds[0]);
    close(fds[1]);
    tear_down(&f);
}

static void
cancel_now(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = NULL;
    f->cancel_ms = clock_now_ms();
    http_cancel(f->clients[0].call);
}

/* Time enough for all buffers in between to fill. */
static void
cancel_soon(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = loop_add_timer(f->loop, 300, cancel_now, f);
}

static void
test_cancel_while_the_peer_does_not_read(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.file = make_file(64 * MIB);
    f.sink.stops = true;
    f.sink.on_bytes = cancel_soon;
    f.sink.ctx = &f;
    const struct http_body body = {.fd = f.file, .len = 64 * MIB};

    upload(&f.clients[0], &body, 0);
    loop_run(f.loop);
    assert_done(&f.clients[0], ERR_CANCELLED);
    print_message("# cancelled after %lld ms\n",
                  (long long)(f.clients[0].done_ms - f.cancel_ms));
    /* 200 ms are promised; the rest is for a machine that is busy. */
    assert_true(f.clients[0].done_ms - f.cancel_ms < 2000);
    /* It was told what the peer got, not what the system has put aside. */
    assert_true(f.clients[0].n_sent > 0);
    assert_true(f.clients[0].sent < MIB);
    tear_down(&f);
}

static void
test_stall_when_the_peer_stops_reading(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.file = make_file(64 * MIB);
    f.sink.stops = true;
    const struct http_body body = {.fd = f.file, .len = 64 * MIB};

    upload(&f.clients[0], &body, 300);
    loop_run(f.loop);
    assert_done(&f.clients[0], ERR_TIMEOUT);
    assert_non_null(strstr(f.clients[0].err.msg, "has taken nothing"));
    tear_down(&f);
}

/* Longer in all than the limit on stalls, never so long without a byte. */
static void
test_slow_upload_is_no_stall(void **state)
{
    struct fixture f;
    int64_t begun = clock_now_ms();

    (void)state;
    set_up(&f);
    f.file = make_file(4 * MIB);
    f.sink.every_ms = 50;
    const struct http_body body = {.fd = f.file, .len = 4 * MIB};

    upload(&f.clients[0], &body, 1500);
    loop_run(f.loop);
    assert_done(&f.clients[0], ERR_NONE);
    assert_true(clock_now_ms() - begun > 2 * 1500);
    assert_arrived(&f.sink.peers[0], &body);
    assert_true(f.clients[0].n_sent > 3);
    assert_int_equal(f.clients[0].n_full, 1);
    tear_down(&f);
}

static void
test_answer_before_the_end(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.file = make_file(64 * MIB);
    f.sink.stops = true;
    f.sink.early = "HTTP/1.1 507 Insufficient Storage\r\n"
                   "Content-Length: 0\r\n\r\n";
    const struct http_body body = {.fd = f.file, .len = 64 * MIB};

    upload(&f.clients[0], &body, 60000);
    loop_run(f.loop);
    assert_done(&f.clients[0], ERR_NONE);
    assert_int_equal(f.clients[0].status, 507);
    assert_int_equal(f.clients[0].n_full, 0);
    tear_down(&f);
}

static void
test_ending_from_on_sent(void **state)
{
    static const enum act acts[] = {ACT_CANCEL, ACT_DROP, ACT_FREE};

    (void)state;
    /* The first on_sent comes by the timer, or at the end. */
    for (size_t i = 0; i < 2 * LEN(acts); i++) {
        struct fixture f;
        struct client *c = &f.clients[0];
        int64_t len = i % 2 == 0 ? 64 * MIB : 10;

        set_up(&f);
        f.file = make_file(len);
        f.on_sent = acts[i / 2];
        f.sink.stops = i % 2 == 0;
        const struct http_body body = {.fd = f.file, .len = len};

        upload(c, &body, 60000);
        loop_run(f.loop);
        assert_int_equal(c->n_sent, 1);
        if (f.on_sent == ACT_CANCEL) {
            assert_done(c, ERR_CANCELLED);
        } else {
            assert_int_equal(c->n_done, 0);
        }
        tear_down(&f);
    }
}

/* What a client would speak is in its first message, in clear. */
static bool
offers(bool http1_only, const char *protocols)
{
    struct fixture f;
    bool found;

    set_up(&f);
    f.sink.hello = true;
    snprintf(f.url, sizeof(f.url), "https://127.0.0.1:%d/", f.sink.port);
    const struct http_request request = {.method = "GET",
                                         .url = f.url,
                                         .http1_only = http1_only,
                                         .stall_ms = 60000};

    start(&f.clients[0], &request);
    loop_run(f.loop);
    assert_done(&f.clients[0], ERR_NET);
    found = memmem(f.sink.peers[0].head.data, f.sink.peers[0].head.len,
                   protocols, strlen(protocols)) != NULL;
    tear_down(&f);
    return found;
}

static void
test_http1_only_where_it_is_asked_for(void **state)
{
    (void)state;
    assert_true(offers(true, "\x08http/1.1"));
    assert_false(offers(true, "\x02h2"
                              "\x08http/1.1"));
    /* Where libcurl knows no more than HTTP/1.1 that is all it offers. */
    assert_true(offers(false, "\x08http/1.1"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_file_in_little_memory),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_two_calls_share_a_descriptor),
        cmocka_unit_test(test_empty_file),
        cmocka_unit_test(test_begins_again_on_another_connection),
        cmocka_unit_test(test_file_that_changes),
        cmocka_unit_test(test_start_refuses_files),
        cmocka_unit_test(test_cancel_while_the_peer_does_not_read),
        cmocka_unit_test(test_stall_when_the_peer_stops_reading),
        cmocka_unit_test(test_slow_upload_is_no_stall),
        cmocka_unit_test(test_answer_before_the_end),
        cmocka_unit_test(test_ending_from_on_sent),
        cmocka_unit_test(test_http1_only_where_it_is_asked_for),
    };

    return cmocka_run_group_tests_name("http_upload", tests, NULL, NULL);
}
