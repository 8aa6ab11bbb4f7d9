/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A server in the loop of the test that plays a script: each request must be
 * the next of it, and gets its answer. What was sent is kept.
 */
#ifndef TESTS_E2B_SERVER_H
#define TESTS_E2B_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/loop.h"
#include "base/sbuf.h"

#define SERVER_MAX_BYTES ((size_t)16 << 20)

enum { SERVER_MAX_PEERS = 16, SERVER_MAX_REQUESTS = 16 };

enum server_act {
    SERVER_ANSWERS,
    SERVER_HANGS,       /* no byte */
    SERVER_HALF,        /* the head and a part of the body */
    SERVER_CLOSES,      /* the connection, without an answer */
    SERVER_CLOSES_HALF, /* behind a part of the body */
    SERVER_RAW          /* body is all of the answer; then closes */
};

struct exchange {
    const char *request; /* "GET /x" */
    int status;
    const char *body;    /* NULL: "" */
    const char *headers; /* each with its line end; NULL: "" */
    enum server_act act;
    size_t fill;     /* that many spaces behind the body */
    size_t body_len; /* of one that has NULs in it; 0: up to the first */
};

#define ANSWER(r, s, b)                                                        \
    {                                                                          \
        .request = (r), .status = (s), .body = (b)                             \
    }
#define ANSWER_WITH(r, s, b, h)                                                \
    {                                                                          \
        .request = (r), .status = (s), .body = (b), .headers = (h)             \
    }
#define HALF_ANSWER(r, s, b)                                                   \
    {                                                                          \
        .request = (r), .status = (s), .body = (b), .act = SERVER_HALF         \
    }
#define NO_ANSWER(r, a)                                                        \
    {                                                                          \
        .request = (r), .act = (a)                                             \
    }

struct server;

struct server_peer {
    struct server *server;
    int fd;
    struct loop_fd *watch;
    struct sbuf in;
    struct sbuf out;
    bool closes;
};

struct server {
    struct loop *loop;
    int fd;
    int port;
    struct loop_fd *watch;
    struct server_peer peers[SERVER_MAX_PEERS];
    size_t n_peers;

    const struct exchange *script;
    size_t n_script;
    char *requests[SERVER_MAX_REQUESTS]; /* owned; all of each */
    size_t lens[SERVER_MAX_REQUESTS];
    size_t n_requests;
    size_t n_wrong;     /* that were not the next */
    loop_fn on_request; /* behind each; may be NULL */
    void *ctx;
};

static void
server_close_peer(struct server_peer *p)
{
    loop_fd_remove(p->watch);
    p->watch = NULL;
    if (p->fd >= 0) {
        close(p->fd);
    }
    p->fd = -1;
}

static void
server_write(struct server_peer *p)
{
    if (p->out.len > 0) {
        ssize_t n =
            send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            sbuf_drop(&p->out, (size_t)n);
        }
    }
    if (p->out.len == 0 && p->closes) {
        server_close_peer(p);
        return;
    }
    loop_fd_set(p->watch, LOOP_READ | (p->out.len > 0 ? LOOP_WRITE : 0));
}

static void
server_answer(struct server_peer *p, const struct exchange *x)
{
    const char *body = x->body != NULL ? x->body : "";
    size_t len = x->body_len > 0 ? x->body_len : strlen(body);
    bool half = x->act == SERVER_HALF || x->act == SERVER_CLOSES_HALF;

    p->closes = x->act == SERVER_CLOSES || x->act == SERVER_CLOSES_HALF ||
                x->act == SERVER_RAW;
    if (x->act == SERVER_RAW) {
        sbuf_add_str(&p->out, body);
    } else if (x->act != SERVER_HANGS && x->act != SERVER_CLOSES) {
        sbuf_addf(&p->out, "HTTP/1.1 %d Status\r\n%s", x->status,
                  x->headers != NULL ? x->headers : "");
        if (x->status != 204) {
            sbuf_addf(&p->out, "Content-Length: %zu\r\n",
                      len + x->fill + (half ? 10 : 0));
        }
        sbuf_add_str(&p->out, "\r\n");
        sbuf_add(&p->out, body, len);
        sbuf_add_repeat(&p->out, ' ', x->fill);
    }
    server_write(p);
}

static void
server_take(struct server_peer *p)
{
    struct server *s = p->server;
    size_t i = s->n_requests;

    if (i == LEN(s->requests)) {
        s->n_wrong++;
        server_close_peer(p);
        return;
    }
    s->requests[i] = xmemdup(p->in.data, p->in.len + 1);
    s->lens[i] = p->in.len;
    s->n_requests++;
    sbuf_clear(&p->in);
    if (i >= s->n_script ||
        strncmp(s->requests[i], s->script[i].request,
                strlen(s->script[i].request)) != 0 ||
        s->requests[i][strlen(s->script[i].request)] != ' ') {
        s->n_wrong++;
        sbuf_add_str(&p->out,
                     "HTTP/1.1 418 Status\r\nContent-Length: 0\r\n\r\n");
        server_write(p);
        return;
    }
    server_answer(p, &s->script[i]);
    if (s->on_request != NULL) {
        s->on_request(s->ctx);
    }
}

/* Puts a body that came in pieces together. Returns whether it is whole. */
static bool
server_join(struct server_peer *p, size_t head_len)
{
    char *to = p->in.data + head_len;
    size_t at = head_len;
    size_t len = 1;

    if (memmem(p->in.data + head_len, p->in.len - head_len, "\r\n0\r\n\r\n",
               7) != p->in.data + p->in.len - 7) {
        return false;
    }
    while (len > 0) {
        char *end = NULL;

        len = strtoul(p->in.data + at, &end, 16);
        at = (size_t)(end + 2 - p->in.data);
        memmove(to, p->in.data + at, len);
        to += len;
        at += len + 2;
    }
    sbuf_truncate(&p->in, (size_t)(to - p->in.data));
    return true;
}

static void
server_on_peer(void *ctx, int fd, unsigned events)
{
    struct server_peer *p = ctx;
    char buffer[65536];
    const char *end;
    const char *length;
    const char *pieces;
    ssize_t n;

    if ((events & LOOP_WRITE) != 0) {
        server_write(p);
    }
    if ((events & LOOP_READ) == 0 || p->fd < 0) {
        return;
    }
    n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n <= 0) {
        server_close_peer(p);
        return;
    }
    sbuf_add(&p->in, buffer, (size_t)n);
    end = strstr(p->in.data, "\r\n\r\n");
    length = strstr(p->in.data, "Content-Length: ");
    pieces = strstr(p->in.data, "Transfer-Encoding: chunked");
    if (end != NULL && pieces != NULL && pieces < end) {
        if (server_join(p, (size_t)(end - p->in.data) + 4)) {
            server_take(p);
        }
        return;
    }
    if (end != NULL && p->in.len == (size_t)(end - p->in.data) + 4 +
                                        (length != NULL && length < end
                                             ? strtoul(length + 16, NULL, 10)
                                             : 0)) {
        server_take(p);
    }
}

static void
server_on_accept(void *ctx, int fd, unsigned events)
{
    struct server *s = ctx;
    struct server_peer *p = &s->peers[s->n_peers];

    (void)events;
    if (s->n_peers == LEN(s->peers)) {
        close(accept(fd, NULL, NULL));
        return;
    }
    s->n_peers++;
    *p = (struct server_peer){.server = s, .fd = accept(fd, NULL, NULL)};
    sbuf_init(&p->in, SERVER_MAX_BYTES);
    sbuf_init(&p->out, SERVER_MAX_BYTES);
    p->watch = loop_add_fd(s->loop, p->fd, LOOP_READ, server_on_peer, p);
}

/* Returns whether it listens. */
static bool
server_start(struct server *s, struct loop *loop)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    *s = (struct server){.loop = loop};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        listen(s->fd, SERVER_MAX_PEERS) < 0 ||
        getsockname(s->fd, (struct sockaddr *)&a, &len) < 0) {
        return false;
    }
    s->port = ntohs(a.sin_port);
    s->watch = loop_add_fd(loop, s->fd, LOOP_READ, server_on_accept, s);
    return true;
}

/* Begins a script anew. */
static void
server_play(struct server *s, const struct exchange *script, size_t n)
{
    for (size_t i = 0; i < s->n_requests; i++) {
        free(s->requests[i]);
        s->requests[i] = NULL;
    }
    s->n_requests = 0;
    s->n_wrong = 0;
    s->script = script;
    s->n_script = n;
}

static void
server_stop(struct server *s)
{
    server_play(s, NULL, 0);
    for (size_t i = 0; i < s->n_peers; i++) {
        server_close_peer(&s->peers[i]);
        sbuf_fini(&s->peers[i].in);
        sbuf_fini(&s->peers[i].out);
    }
    loop_fd_remove(s->watch);
    close(s->fd);
}

#endif
