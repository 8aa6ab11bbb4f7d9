/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A server in the loop of the test, which hashes the bodies that it is sent and
 * drops them. Each connection keeps what its last request was.
 */
#ifndef TESTS_HTTP_SINK_H
#define TESTS_HTTP_SINK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/sbuf.h"

#define SINK_MAX_HEAD_BYTES ((size_t)65536)
#define SINK_OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

enum { SINK_MAX_PEERS = 4, SINK_READ_BYTES = 65536 };

struct sink;

struct sink_peer {
    struct sink *sink;
    int fd;
    struct loop_fd *watch;
    struct loop_timer *timer;
    struct sbuf head;
    bool head_done;
    int64_t length; /* what Content-Length says; 0: it is not there */
    int64_t got;
    struct hash hash;
    char hex[HASH_HEX_BYTES]; /* of a body that is whole */
    size_t n_requests;        /* whole ones */
};

struct sink {
    struct loop *loop;
    int fd;
    int port;
    struct loop_fd *watch;
    struct sink_peer peers[SINK_MAX_PEERS];
    size_t n_peers;

    bool hello;        /* keeps a first TLS record as head, and closes */
    const char *early; /* sent as soon as a head is there */
    bool stops;        /* reading, behind the head */
    int64_t every_ms;  /* one read of a body in that time; 0: at once */
    bool cuts_second;  /* closes a connection instead of a second answer */
    int64_t call_at;   /* bytes of a body at which on_bytes is called, once */
    loop_fn on_bytes;  /* or when it has stopped; may be NULL */
    void *ctx;         /* of on_bytes */
};

static void
sink_close_peer(struct sink_peer *p)
{
    loop_fd_remove(p->watch);
    loop_timer_remove(p->timer);
    p->watch = NULL;
    p->timer = NULL;
    if (p->fd >= 0) {
        close(p->fd);
    }
    p->fd = -1;
}

static void
sink_call(struct sink *s)
{
    loop_fn fn = s->on_bytes;

    s->on_bytes = NULL;
    if (fn != NULL) {
        fn(s->ctx);
    }
}

static void
sink_send(struct sink_peer *p, const char *answer)
{
    (void)!send(p->fd, answer, strlen(answer), MSG_NOSIGNAL);
}

static void
sink_add_body(struct sink_peer *p, const char *data, size_t len)
{
    struct sink *s = p->sink;

    hash_add(&p->hash, data, len);
    p->got += (int64_t)len;
    if (p->got >= s->call_at) {
        sink_call(s);
    }
    if (p->got == p->length) {
        hash_end_hex(&p->hash, p->hex);
        p->n_requests++;
        if (p->n_requests == 2 && s->cuts_second) {
            s->cuts_second = false;
            sink_close_peer(p);
            return;
        }
        if (s->early == NULL) {
            sink_send(p, SINK_OK);
        }
    }
}

/* Returns how many of the bytes belong to the head. */
static size_t
sink_add_head(struct sink_peer *p, const char *data, size_t len)
{
    size_t before = p->head.len;
    const char *end;
    const char *length;

    sbuf_add(&p->head, data, len);
    end = strstr(p->head.data, "\r\n\r\n");
    if (end == NULL) {
        return len;
    }
    sbuf_truncate(&p->head, (size_t)(end + 4 - p->head.data));
    length = strstr(p->head.data, "\r\nContent-Length: ");
    p->length = length != NULL ? strtoll(length + 18, NULL, 10) : 0;
    p->head_done = true;
    p->got = 0;
    hash_init(&p->hash);
    return p->head.len - before;
}

/* A TLS record says in its bytes 3 and 4 how much comes behind these five. */
static void
sink_add_hello(struct sink_peer *p, const char *data, size_t len)
{
    const unsigned char *at;

    sbuf_add(&p->head, data, len);
    at = (const unsigned char *)p->head.data;
    if (p->head.len >= 5 &&
        p->head.len >= 5 + (size_t)at[3] * 256 + (size_t)at[4]) {
        sink_close_peer(p);
    }
}

static void
sink_on_timer(void *ctx)
{
    struct sink_peer *p = ctx;

    p->timer = NULL;
    loop_fd_set(p->watch, LOOP_READ);
}

static void
sink_on_bytes(void *ctx, int fd, unsigned events)
{
    static char buffer[SINK_READ_BYTES];
    struct sink_peer *p = ctx;
    struct sink *s = p->sink;
    ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    size_t used = 0;

    (void)events;
    if (n <= 0) {
        sink_close_peer(p);
        return;
    }
    if (s->hello) {
        sink_add_hello(p, buffer, (size_t)n);
        return;
    }
    if (p->head_done && p->got == p->length) {
        p->head_done = false;
        sbuf_clear(&p->head);
    }
    if (!p->head_done) {
        used = sink_add_head(p, buffer, (size_t)n);
        if (p->head_done && s->early != NULL) {
            sink_send(p, s->early);
        }
        if (p->head_done && s->stops) {
            loop_fd_set(p->watch, 0);
            sink_call(s);
            return;
        }
    }
    if (p->head_done) {
        sink_add_body(p, buffer + used, (size_t)n - used);
        if (s->every_ms > 0 && p->watch != NULL) {
            loop_fd_set(p->watch, 0);
            p->timer = loop_add_timer(s->loop, s->every_ms, sink_on_timer, p);
        }
    }
}

static void
sink_on_accept(void *ctx, int fd, unsigned events)
{
    struct sink *s = ctx;
    struct sink_peer *p = &s->peers[s->n_peers];

    (void)events;
    if (s->n_peers == LEN(s->peers)) {
        close(accept(fd, NULL, NULL));
        return;
    }
    s->n_peers++;
    *p = (struct sink_peer){.sink = s, .fd = accept(fd, NULL, NULL)};
    sbuf_init(&p->head, SINK_MAX_HEAD_BYTES);
    p->watch = loop_add_fd(s->loop, p->fd, LOOP_READ, sink_on_bytes, p);
}

/* The socket's buffer is small, so that a peer that stops reading is noticed
   soon. Returns whether it listens. */
static bool
sink_start(struct sink *s, struct loop *loop)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int bytes = SINK_READ_BYTES;

    *s = (struct sink){.loop = loop, .call_at = INT64_MAX};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) < 0 ||
        bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        listen(s->fd, SINK_MAX_PEERS) < 0 ||
        getsockname(s->fd, (struct sockaddr *)&a, &len) < 0) {
        return false;
    }
    s->port = ntohs(a.sin_port);
    s->watch = loop_add_fd(loop, s->fd, LOOP_READ, sink_on_accept, s);
    return true;
}

static void
sink_stop(struct sink *s)
{
    for (size_t i = 0; i < s->n_peers; i++) {
        sink_close_peer(&s->peers[i]);
        sbuf_fini(&s->peers[i].head);
    }
    loop_fd_remove(s->watch);
    close(s->fd);
}

#endif
