/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests to the services within a sandbox: its daemon (envd: files and
 * processes) and its interpreter of notebooks. They carry the tokens of that
 * sandbox and never the account's key; what the proxy in front of it says is
 * told from what the service says.
 */
#ifndef SANDBOX_E2B_DATA_INTERNAL_H
#define SANDBOX_E2B_DATA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_envelope_internal.h"

struct e2b_data;
struct http;
struct http_body;
struct http_header;
struct loop;
struct secret;

enum e2b_service { E2B_ENVD, E2B_INTERPRETER, E2B_N_SERVICES };

/* Where a sandbox is, and how its services are spoken to. */
struct e2b_site {
    struct loop *loop; /* borrowed */
    struct http *http; /* borrowed */
    char id[E2B_MAX_ID_BYTES + 1];
    char *url[E2B_N_SERVICES];    /* owned; without a slash at its end */
    int envd[3];                  /* its version; 0.0.0: not known */
    struct secret *envd_token;    /* owned; NULL: none */
    struct secret *traffic_token; /* owned; NULL: none */
};

/*
 * form: as e2b_sandbox_url; domain: where the sandbox names none. Takes the
 * tokens of *s over. Errors: ERR_CONFIG (sandbox_url; a token that would travel
 * unencrypted to another machine), ERR_PROTOCOL.
 */
WARN_UNUSED int e2b_site_init(struct e2b_site *site, struct loop *loop,
                              struct http *http, const char *form,
                              const char *domain, struct e2b_sandbox *s,
                              struct error *err);
void e2b_site_fini(struct e2b_site *site); /* zero is a valid empty one */

/* Whether its envd is known to be of that version or a newer one. */
bool e2b_site_has(const struct e2b_site *site, int major, int minor, int patch);

/* Envd below 0.4.0 has no user of its own choice: "user" is named then. */
bool e2b_site_names_user(const struct e2b_site *site);

/* What became of a request. */
enum e2b_trouble {
    E2B_TROUBLE_NONE,
    E2B_TROUBLE_GONE,     /* the sandbox has ended, or is paused */
    E2B_TROUBLE_CLOSED,   /* it runs, but the service gave no answer: nothing
                             listens at that port, or it died meanwhile, of
                             what it was asked at times */
    E2B_TROUBLE_CHANGING, /* it stayed between two states for all tries */
    E2B_TROUBLE_CUT,      /* no whole answer, or one of somebody between: what
                             was asked for may have been done */
    E2B_TROUBLE_LATE,     /* the same, at the time limit */
    E2B_TROUBLE_REFUSED   /* by the service: status says why */
};

/* Borrowed for the call. */
struct e2b_data_result {
    enum e2b_trouble trouble;
    int http_status;          /* 0: no head came */
    struct e2b_status status; /* of a refusal */
    const char *body;         /* of a success that was collected; else "" */
    size_t body_len;
    const struct error *err; /* NULL: E2B_TROUBLE_NONE */
    bool not_sent; /* it has certainly not been carried out; said only of what
                      is not repeatable, which alone is sent once */
};

struct e2b_data_request {
    enum e2b_service service;
    const char *method;       /* "GET", "POST", "DELETE" */
    const char *path;         /* with its query: "/files?path=x"; copied */
    const char *content_type; /* NULL: none */
    const char *body;         /* copied; NULL: none */
    size_t body_len;
    const struct http_body *stream;    /* in place of body; as in net/http.h */
    const struct http_header *headers; /* more of them; copied */
    size_t n_headers;                  /* at most E2B_DATA_MAX_HEADERS */

    /* A success has at most so many bytes and comes whole, in the result; 0: it
       goes to on_body as it comes. */
    size_t collect_bytes;

    int64_t stall_ms; /* without a byte; 0: none */
    int64_t limit_ms; /* of all tries together; 0: none */

    /* Doing it twice is the same as doing it once, so that what got no answer
       is tried again, and what came to a closed port: ask something repeatable
       first where the service may be starting. What the proxy did not pass on
       for a change of state always is. */
    bool repeatable;
    const char *doing; /* static; for messages: "uploading a file" */
};

#define E2B_DATA_MAX_HEADERS ((size_t)8)

struct e2b_data_handlers {
    /* As in net/http.h; may be NULL. */
    void (*on_sent)(void *ctx, int64_t sent, int64_t total);

    /* Of a success, before its body: e2b_data_header. May be NULL. */
    void (*on_head)(void *ctx, int status);

    /* Of a success, borrowed; NULL when it is collected. */
    void (*on_body)(void *ctx, const char *data, size_t len);

    /* Once, from the loop. The call is freed afterwards. */
    void (*on_done)(void *ctx, const struct e2b_data_result *result);
};

/*
 * site is borrowed until the end. Errors of the result: ERR_SANDBOX (gone,
 * closed, changing), ERR_NET (cut), ERR_TIMEOUT, ERR_AUTH, ERR_RATE_LIMIT,
 * ERR_LIMIT (no room left on its disk), ERR_TOO_LARGE, ERR_IO (the file of the
 * stream), ERR_PROTOCOL, ERR_REMOTE; of the call:
 * ERR_CONFIG, ERR_NET, ERR_IO.
 */
WARN_UNUSED struct e2b_data *
e2b_data_start(struct e2b_site *site, const struct e2b_data_request *request,
               const struct e2b_data_handlers *on, void *ctx,
               struct error *err);

/* Ends it at once, without a callback; from any callback but on_done. The
   connection is closed, which ends nothing within the sandbox. NULL is
   allowed. */
void e2b_data_drop(struct e2b_data *data);

/* The value of an answer's header, as http_header; within on_head and on_body
   only. */
const char *e2b_data_header(const struct e2b_data *data, const char *name);

/* Stops and goes on reading, as http_pause; also across tries. */
void e2b_data_pause(struct e2b_data *data, bool paused);

#endif
