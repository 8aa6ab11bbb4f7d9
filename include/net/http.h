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

struct http_request {
    const char *method; /* "GET", "POST" */
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

    const char *body; /* borrowed until done; may be NULL */
    size_t body_len;

    int64_t stall_ms; /* longest time without a byte; 0: none. No total time */
    bool http1_only;
};

struct http_handlers {
    /* Once, before any body; headers by http_header. status e.g. 200. */
    void (*on_head)(void *ctx, int status);

    /* Chunks of at most 16 KiB, borrowed for the call. */
    void (*on_body)(void *ctx, const char *data, size_t len);

    /*
     * Exactly once, from the loop, never within http_start or http_cancel.
     * err is NULL when the whole answer arrived, whatever its status;
     * ERR_NET, ERR_TIMEOUT (stall or connect), ERR_CANCELLED, ERR_PROTOCOL
     * (the peer could not prove its identity; trying again is no use).
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
 * with a control character), ERR_NET.
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
