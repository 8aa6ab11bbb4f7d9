/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How a request to the service travels: over HTTP, or out of a file that was
 * written in advance. Below the codec, so that answers of every status, with
 * their headers and cut anywhere, can come from either.
 */
#ifndef CLAUDE_TRANSPORT_H
#define CLAUDE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct http;
struct http_extra_header;
struct loop;
struct secret;
struct transport_call;

struct transport_request {
    const char *path; /* "/v1/messages" */
    const char *body; /* JSON; borrowed until done */
    size_t body_len;
};

/* Contract as in http_handlers. */
struct transport_handlers {
    void (*on_head)(void *ctx, int status);
    void (*on_body)(void *ctx, const char *data, size_t len);
    void (*on_done)(void *ctx, const struct error *err);
};

struct transport_ops {
    const char *name;

    /* True: what the model says was written in advance. */
    bool is_replay;

    /* Errors: ERR_AUTH (no key), ERR_USAGE, ERR_NET, ERR_PROTOCOL (replay: the
       request does not fit, or there is none left). Nothing is called then. */
    struct transport_call *(*start)(void *transport,
                                    const struct transport_request *request,
                                    const struct transport_handlers *handlers,
                                    void *ctx, struct error *err);
    const char *(*header)(const struct transport_call *call, const char *name);
    void (*cancel)(struct transport_call *call);

    /* Ends the call at once, without on_done; the body may be freed then. */
    void (*drop)(struct transport_call *call);
    void (*free)(void *transport);
};

struct transport {
    const struct transport_ops *ops;
    void *impl;      /* owned */
    bool is_foreign; /* another host than the vendor's own */
};

struct transport_http_config {
    const char *base_url;     /* without /v1; a trailing slash is allowed */
    const struct secret *key; /* borrowed for the life; NULL: none */
    bool key_in_x_api_key;    /* else Authorization: Bearer */
    const char *api_version;  /* NULL: 2026-10-21 on the vendor's own host,
                                 2023-06-01 elsewhere */
    int64_t stall_ms;         /* 0: 120,000 */

    /* The user's own headers, borrowed for the life; they win over all others.
       One that carries credentials takes the place of the key. */
    const struct http_extra_header *headers;
    size_t n_headers;
};

/*
 * Whether there is no key where one is needed: on the vendor's own host, unless
 * a header of the user's carries credentials, and on any other over https that
 * is not this machine, unless there is any header of the user's. Servers on
 * this machine often have no key, and to another one over http none can be
 * sent. start then ends with ERR_AUTH.
 */
bool transport_http_needs_key(const struct transport_http_config *config);

/*
 * http is borrowed. Errors: ERR_USAGE (no address), ERR_CONFIG (a key, or a
 * header that looks like one, would travel unencrypted to another machine).
 */
WARN_UNUSED int transport_http(struct http *http,
                               const struct transport_http_config *config,
                               struct transport *out, struct error *err);

/*
 * Reads a replay file; claude/transport_replay.c describes the format.
 * pace_ms: pause between the pieces of an answer; 0: at once.
 * Errors: ERR_IO, ERR_DATA (naming the exchange).
 */
WARN_UNUSED int transport_replay(struct loop *loop, const char *path,
                                 int64_t pace_ms, struct transport *out,
                                 struct error *err);

void transport_fini(struct transport *t);

#endif
