/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The control plane of services that speak the E2B protocol: makes sandboxes,
 * finds them, keeps them alive, pauses and ends them. What runs in them is not
 * of its concern.
 *
 * The account's key goes to the address of the API and to no other. All that
 * comes back is checked: what is odd is an error, or left out where nobody
 * depends on it.
 */
#ifndef SANDBOX_E2B_API_INTERNAL_H
#define SANDBOX_E2B_API_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct e2b_api;
struct e2b_call;
struct http;
struct http_extra_header;
struct loop;
struct secret;

#define E2B_MAX_ID_BYTES ((size_t)64)
#define E2B_MAX_TEMPLATE_BYTES ((size_t)256)
#define E2B_MAX_DOMAIN_BYTES ((size_t)253)
#define E2B_MAX_LABELS ((size_t)32)
#define E2B_MAX_LABEL_BYTES ((size_t)256)
#define E2B_MAX_RULES ((size_t)256)

/* Which paths create and connect a sandbox. */
enum e2b_generation {
    E2B_GENERATION_AUTO, /* the second, and the first where it is not there */
    E2B_GENERATION_V1,
    E2B_GENERATION_V2
};

enum e2b_internet {
    E2B_INTERNET_OFF,
    E2B_INTERNET_ON,
    E2B_INTERNET_HOSTS /* these only */
};

/* A variable, or a label by which sandboxes are found. */
struct e2b_pair {
    const char *name;
    const char *value;
};

/* Copied, but for the secrets. */
struct e2b_api_config {
    const char *url; /* may have a path; slashes at its end do not matter */

    /* Sent as X-API-Key; borrowed as long as the object lives. NULL: none. */
    const struct secret *key;
    const char *key_setting; /* what messages call it; NULL: "api_key" */

    /* Go to the API only, in place of ours that have the same name. Borrowed as
       long as the object lives, with the names. */
    const struct http_extra_header *headers;
    size_t n_headers;

    enum e2b_generation generation;
    const char *template_name;
    int64_t timeout_s; /* how long a new sandbox lives; 0: 300 */
    const struct e2b_pair *envs;
    size_t n_envs;
    const struct e2b_pair *labels; /* the metadata of a new sandbox */
    size_t n_labels;
    enum e2b_internet internet;

    /* Host names, "*." before one for all below it, IPv4 addresses and
       networks; no host at all is E2B_INTERNET_OFF. */
    const char *const *hosts;
    size_t n_hosts;
    bool auto_pause; /* when its time is over; else it ends */

    /* For all tries of a request together. 0: 75,000 to create and to connect,
       30,000 otherwise. */
    int64_t create_ms;
    int64_t other_ms;
};

enum e2b_state { E2B_STATE_UNKNOWN, E2B_STATE_RUNNING, E2B_STATE_PAUSED };

enum e2b_said { E2B_SAID_NOTHING, E2B_SAID_NO, E2B_SAID_YES };

/* Hosts, addresses and networks that a sandbox may reach, or may not. */
struct e2b_rules {
    bool said;    /* there is a list, if only an empty one */
    bool cut;     /* it holds more than is here, or what is none of these */
    char **hosts; /* owned, the texts too */
    size_t n_hosts;
};

/* What is not said, or odd where nothing depends on it, is zero. */
struct e2b_sandbox {
    char id[E2B_MAX_ID_BYTES + 1];
    char template_id[E2B_MAX_TEMPLATE_BYTES + 1];

    /* "": the configured one. May have a port. */
    char domain[E2B_MAX_DOMAIN_BYTES + 7];

    int envd[3];                  /* its version; 0.0.0: not known */
    struct secret *envd_token;    /* owned; NULL: none is needed */
    struct secret *traffic_token; /* owned; the same */
    enum e2b_state state;
    int64_t started_ms; /* wall clock */
    int64_t end_ms;     /* wall clock; when its time is over */
    int cpu_count;
    int memory_mib;
    bool needs_cold; /* only e2b_api_connect with cold brings it back */

    /* What it reaches, as far as info says it; what is allowed wins. */
    enum e2b_said internet;
    struct e2b_rules allowed;
    struct e2b_rules denied;

    struct e2b_pair *labels; /* owned, the texts too */
    size_t n_labels;
};

/* Zero is a valid empty one. */
void e2b_sandbox_fini(struct e2b_sandbox *s);

/* What a caller may act on; the error's code says more. */
enum e2b_fault {
    E2B_FAULT_NONE,
    E2B_FAULT_GONE,     /* there is no such sandbox (any more) */
    E2B_FAULT_LIMIT,    /* of the account: ERR_LIMIT (sandboxes at a time),
                           ERR_RATE_LIMIT (requests) */
    E2B_FAULT_AUTH,     /* the key */
    E2B_FAULT_CAPACITY, /* the service has no room; later it may */
    E2B_FAULT_CHANGING, /* still between two states after some waiting */
    E2B_FAULT_PAUSED,   /* what was asked for is for one that runs */
    E2B_FAULT_COLD,     /* connect with cold: files are kept, memory is not */
    E2B_FAULT_OTHER
};

/* Everything is borrowed for the call of e2b_done_fn. */
struct e2b_result {
    const struct error *err; /* NULL: it is done */
    enum e2b_fault fault;

    /* One for create, connect and info, any number for a list. The callee may
       take one over by copying it and setting it to zero. */
    struct e2b_sandbox *sandboxes;
    size_t n_sandboxes;

    /* With connect: it was paused. With pause and kill: it was not so
       already. */
    bool changed;

    /* A create has failed, and nobody knows whether there is a sandbox now:
       look for its labels. */
    bool maybe_made;
};

/* Exactly once, from the loop, never within the functions below. The call is
   freed afterwards; e2b_api_free is allowed. */
typedef void (*e2b_done_fn)(void *ctx, struct e2b_result *result);

/* loop and http are borrowed. Errors: ERR_CONFIG, naming the setting. */
WARN_UNUSED struct e2b_api *e2b_api_new(struct loop *loop, struct http *http,
                                        const struct e2b_api_config *config,
                                        struct error *err);

/* Calls in progress end without their callbacks. NULL is allowed. */
void e2b_api_free(struct e2b_api *api);

/* The host that messages name, with its port if it has one. */
const char *e2b_api_host(const struct e2b_api *api);

/* Which paths the service has answered on; E2B_GENERATION_AUTO: not known. */
enum e2b_generation e2b_api_generation(const struct e2b_api *api);

/*
 * Makes a sandbox as configured; it is ready when the answer is there. One
 * whose description cannot be believed is ended again before the error is told.
 *
 * All of these: ERR_CONFIG when the request cannot be made of the settings,
 * ERR_USAGE for an id or a label that is none. Codes of the result: ERR_AUTH,
 * ERR_CONFIG (no such template), ERR_LIMIT, ERR_RATE_LIMIT, ERR_OVERLOADED,
 * ERR_SANDBOX (gone, changing), ERR_UNSUPPORTED (the service has no such
 * operation), ERR_REMOTE, ERR_PROTOCOL (an answer that is none), ERR_TOO_LARGE,
 * ERR_NET, ERR_TIMEOUT, ERR_CANCELLED.
 */
WARN_UNUSED struct e2b_call *e2b_api_create(struct e2b_api *api, e2b_done_fn fn,
                                            void *ctx, struct error *err);

/* Brings a paused one back, or makes sure that it lives for timeout_s more;
   never shortens that. Tokens and domain may be new. cold: without memory. */
WARN_UNUSED struct e2b_call *e2b_api_connect(struct e2b_api *api,
                                             const char *id, int64_t timeout_s,
                                             bool cold, e2b_done_fn fn,
                                             void *ctx, struct error *err);

/* It ends timeout_s from now, earlier than before or later. */
WARN_UNUSED struct e2b_call *
e2b_api_set_timeout(struct e2b_api *api, const char *id, int64_t timeout_s,
                    e2b_done_fn fn, void *ctx, struct error *err);

/* One that is paused already is a success. */
WARN_UNUSED struct e2b_call *e2b_api_pause(struct e2b_api *api, const char *id,
                                           e2b_done_fn fn, void *ctx,
                                           struct error *err);

/* One that is gone already is a success. */
WARN_UNUSED struct e2b_call *e2b_api_kill(struct e2b_api *api, const char *id,
                                          e2b_done_fn fn, void *ctx,
                                          struct error *err);

WARN_UNUSED struct e2b_call *e2b_api_info(struct e2b_api *api, const char *id,
                                          e2b_done_fn fn, void *ctx,
                                          struct error *err);

/* Sets anew what the sandbox may reach, as configured: for a service that does
   not look at it in a create. */
WARN_UNUSED struct e2b_call *e2b_api_set_network(struct e2b_api *api,
                                                 const char *id, e2b_done_fn fn,
                                                 void *ctx, struct error *err);

/*
 * Whether a sandbox, as e2b_api_info describes it, reaches what is configured
 * and nothing else. A service may ignore what a create says of that, and then
 * it reaches everything.
 */
enum e2b_egress_check {
    E2B_EGRESS_NOT_SAID,
    E2B_EGRESS_CONFIRMED,
    E2B_EGRESS_CONTRADICTED
};

enum e2b_egress_check e2b_api_check_egress(const struct e2b_api *api,
                                           const struct e2b_sandbox *s);

/* All running and paused ones that have all of these labels (at least one), of
   letters, digits and ".", "_", "~", "-". They come without tokens and domain.
   Whatever else a service that does not know labels returns is left out. */
WARN_UNUSED struct e2b_call *e2b_api_list(struct e2b_api *api,
                                          const struct e2b_pair *labels,
                                          size_t n_labels, e2b_done_fn fn,
                                          void *ctx, struct error *err);

/* Its callback gets ERR_CANCELLED from the loop. What the service has begun it
   may finish. May be called from any callback but the call's own. */
void e2b_api_cancel(struct e2b_call *call);

/* The same, without its callback. */
void e2b_api_drop(struct e2b_call *call);

/*
 * The address of a port of a sandbox, without a slash at its end; the caller
 * owns it. form may hold {id}, {port} and {domain}; NULL:
 * https://{port}-{id}.{domain}. id is of a-z and 0-9, domain a host name that
 * may have a port, so that neither can lead elsewhere. Errors: ERR_CONFIG (the
 * form, sandbox_url), ERR_PROTOCOL (id, domain).
 */
WARN_UNUSED char *e2b_sandbox_url(const char *form, const char *id, int port,
                                  const char *domain, struct error *err);

#endif
