/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * HTTP requests over libcurl's multi interface, driven by the loop's
 * descriptors and timers. Bytes in, bytes out; what they mean is the caller's.
 *
 * TLS certificates and names are always verified. Redirects are never
 * followed: a 3xx answer is delivered as it is.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct http;
struct http_call;
struct loop;
struct secret;

struct http_config {
    const char *user_agent;
    const char *ca_file; /* PEM bundle instead of the system's; or NULL */
    const char *ca_name; /* what messages call that setting; NULL: nothing */
    int64_t connect_ms;  /* 0: 30,000 */
};

struct http_header {
    const char *name;
    const char *value;
};

/* A header of the user's own, whose value may be a secret. */
struct http_extra_header {
    const char *name;
    const struct secret *value;
};

/*
 * A body that is not in memory: head, then len bytes of a regular file from
 * offset on, then tail. The file is read by pread, at most 64 KiB at a time,
 * so that several calls may share its descriptor, whose own position neither
 * matters nor changes. Nothing else of it is kept.
 */
struct http_body {
    const char *head; /* may be NULL when head_len is 0 */
    size_t head_len;
    int fd; /* looked at only when len is above 0 */
    int64_t offset;
    int64_t len;
    const char *tail; /* may be NULL when tail_len is 0 */
    size_t tail_len;

    /* Compressed as it is read: with Content-Encoding: gzip, in pieces
       (Transfer-Encoding: chunked), by HTTP/1.1. on_sent counts what was read
       of the body for it, so that more than it says may wait here. */
    bool gzip;
};

/* Whether the file of a body is large enough, and gets small enough by gzip, to
   be sent compressed: by its beginning and its middle. Reads 128 KiB. */
bool http_body_shrinks(const struct http_body *body);

struct http_request {
    const char *method; /* "GET", "POST", "PUT", "PATCH", "DELETE" */
    const char *url;
    const struct http_header *headers;
    size_t n_headers;

    /* A header whose value is secret: value_prefix ("Bearer ") and the text. */
    const char *secret_header;   /* NULL: none */
    const char *secret_prefix;   /* NULL: "" */
    const struct secret *secret; /* borrowed for the call */

    /* Each takes the place of all above that have its name. */
    const struct http_extra_header *extra;
    size_t n_extra;

    /* NULL: none; POST, PUT and PATCH then say that its length is 0. */
    const char *body; /* borrowed until done */
    size_t body_len;

    /* In place of body, or NULL. Copied; the bytes that it points to and the
       descriptor are borrowed until done. */
    const struct http_body *stream;

    /* Longest time without a byte in either direction; 0: none. While a body
       is sent it may take twice as long until that is noticed. There is no
       limit on the whole. */
    int64_t stall_ms;
    bool http1_only;

    /* On a connection of its own, for what must not be done twice: libcurl
       sends a request again that a kept connection gives no answer to, also
       when the peer has read all of it. */
    bool own_connection;

    /* The same on any connection: once libcurl has taken of the body, it does
       not send the request again. ERR_NET tells of the answer that is missing,
       and whoever asked may try again. */
    bool send_once;
};

struct http_handlers {
    /*
     * May be NULL. How many bytes of a body that is not empty are on their way,
     * but for at most 192 KiB that wait on this machine: from the loop, at most
     * every 100 ms, and once with sent == total before on_done if the peer was
     * sent all of it. Less than before when a kept connection turned out to be
     * closed, so that it begins again.
     */
    void (*on_sent)(void *ctx, int64_t sent, int64_t total);

    /* Once, before any body; headers by http_header. status e.g. 200. */
    void (*on_head)(void *ctx, int status);

    /* Chunks of at most 16 KiB, borrowed for the call. */
    void (*on_body)(void *ctx, const char *data, size_t len);

    /*
     * Exactly once, from the loop, never within http_start or http_cancel.
     * err is NULL when the whole answer arrived, whatever its status;
     * ERR_NET, ERR_TIMEOUT (stall or connect), ERR_CANCELLED, ERR_PROTOCOL
     * (the peer could not prove its identity; trying again is no use), ERR_IO
     * (the file of the body could not be read or has changed since http_start:
     * the peer got only a part of the body, and could see that).
     * The call is freed afterwards.
     */
    void (*on_done)(void *ctx, const struct error *err);
};

/* loop is borrowed, config is copied. libcurl is set up by the first request,
   so that nothing can fail here. */
struct http *http_new(struct loop *loop, const struct http_config *config);

/* Calls in progress end without callbacks. NULL is allowed. Does not wait for
   name look-ups in progress. May be called from any callback. */
void http_free(struct http *http);

/*
 * Queues a request; everything but the body is copied. Errors: ERR_USAGE (a
 * URL that is neither http nor https or has a user name in it, or a header
 * with a control character), ERR_IO (a descriptor that is no regular file, or
 * a range that is not in it), ERR_NET.
 */
WARN_UNUSED struct http_call *http_start(struct http *http,
                                         const struct http_request *request,
                                         const struct http_handlers *handlers,
                                         void *ctx, struct error *err);

/* The value of an answer's header, without regard to case; valid within
   on_head, on_body and on_done; NULL when it is not there. */
const char *http_header(const struct http_call *call, const char *name);

/* Ends the call: on_done with ERR_CANCELLED from the loop, no other callback
   before it. May be called from any callback but on_done. */
void http_cancel(struct http_call *call);

/*
 * Ends the call at once, without on_done or any other callback; the body may
 * be freed afterwards. May be called from any callback but on_done.
 */
void http_drop(struct http_call *call);

/* Stops and goes on reading, for back-pressure. What curl holds already comes
   later from the loop; a paused call does not stall. */
void http_pause(struct http_call *call, bool paused);

#endif
