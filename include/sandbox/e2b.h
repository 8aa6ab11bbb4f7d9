/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The back end for E2B and the services that speak its protocol: a sandbox
 * there is made when it is opened, kept alive while it is used, and ended when
 * the back end is retired. Cells run in the service's interpreter of notebooks,
 * or, where it has none, in the one that the local sandbox has. The account's
 * key goes to the address of the API and to no other.
 */
#ifndef SANDBOX_E2B_H
#define SANDBOX_E2B_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct http_extra_header;
struct key_source;
struct loop;
struct sandbox_backend;
struct sandbox_limits;
struct secret;

#define E2B_DOMAIN "e2b.app"
#define E2B_TEMPLATE "code-interpreter-v1"
#define E2B_TIMEOUT_S 300

/* Which paths make a sandbox: those of the first or second version, or what the
   service has. */
enum e2b_version { E2B_AUTO, E2B_V1, E2B_V2 };

enum e2b_egress {
    E2B_NO_INTERNET,
    E2B_INTERNET,
    E2B_SOME_HOSTS /* those of hosts only */
};

struct e2b_env {
    const char *name;
    const char *value;
};

struct e2b_config {
    const char *name; /* what the person calls it: "work" */

    /* NULL: https://api.DOMAIN. May have a path. */
    const char *api_url;

    /* Where the ports of a sandbox are, with {id}, {port} and {domain}; NULL:
       https://{port}-{id}.{domain}. */
    const char *sandbox_url;
    const char *domain; /* NULL: E2B_DOMAIN; an answer may name another */

    /* Borrowed as long as the back end lives, as headers are. NULL: none, or
       that of key_source, which is asked at each open. */
    const struct secret *key;
    struct key_source *key_source; /* borrowed in the same way; NULL: none */
    const char *key_setting;       /* what messages call it; NULL: "api_key" */

    /* Go to the API only. */
    const struct http_extra_header *headers;
    size_t n_headers;

    const char *template_name; /* NULL: E2B_TEMPLATE */
    const struct e2b_env *envs;
    size_t n_envs;

    /* How long a sandbox lives on if nobody renews it; 0: E2B_TIMEOUT_S. */
    int64_t timeout_s;
    enum e2b_egress egress;
    const char *const *hosts; /* "pypi.org", "*.example.org", "10.0.0.0/8" */
    size_t n_hosts;
    bool auto_pause; /* at the end of its time, and when it is idle */
    enum e2b_version version;

    /* Labels of what is made here, by which it is found after a crash: who owns
       it (this installation) and which run of the program. Letters, digits and
       "-". NULL: none. */
    const char *owner;
    const char *run;

    const char *user_agent;
};

/*
 * Nothing is sent before open. config and limits are copied but for what is
 * said to be borrowed. Errors: ERR_CONFIG, naming the setting.
 */
WARN_UNUSED struct sandbox_backend *e2b_new(struct loop *loop,
                                            const struct e2b_config *config,
                                            const struct sandbox_limits *limits,
                                            struct error *err);

/*
 * What runs that are dead have left: sandboxes that this installation (owner)
 * has made, which are paid for until their time is over. They are found by
 * their labels, and nothing is ended unless it is asked for by its id. Needs no
 * back end and no sandbox of its own.
 */
struct e2b_leftovers;

struct e2b_leftover {
    const char *id;
    const char *template_id; /* "": not said */
    bool paused;             /* costs nothing now, but is there */
    int64_t started_ms;      /* wall clock; 0: not said, as with the others */
    int64_t end_ms;          /* when it ends by itself, if it is not paused */
    int cpu_count;
    int memory_mib;
};

/* Everything is borrowed for the call. err NULL: list is complete, the oldest
   first. */
typedef void (*e2b_leftovers_fn)(void *ctx, const struct e2b_leftover *list,
                                 size_t n, const struct error *err);

/* id has been ended, if it was not gone already (err NULL), or why not. */
typedef void (*e2b_ended_fn)(void *ctx, const char *id,
                             const struct error *err);

/*
 * config is copied but for what is said to be borrowed; owner and run must be
 * set. is_alive says whether a run lives; those of such runs and of this one
 * are no leftovers. Errors: ERR_CONFIG, naming the setting.
 */
WARN_UNUSED struct e2b_leftovers *
e2b_leftovers_new(struct loop *loop, const struct e2b_config *config,
                  bool (*is_alive)(void *ctx, const char *run), void *ctx,
                  struct error *err);

/* What goes on ends without a callback. NULL is allowed. */
void e2b_leftovers_free(struct e2b_leftovers *l);

/* Looks for them. done runs once, from the loop; its errors are those of the
   key (ERR_AUTH, ERR_IO), of the settings and of the service. One operation at
   a time. */
void e2b_leftovers_find(struct e2b_leftovers *l, e2b_leftovers_fn done,
                        void *ctx);

/* Ends some of those that were found last, one by one; each runs for each of
   them, then done, all from the loop. Others are refused: ERR_USAGE. each may
   neither cancel nor free. */
void e2b_leftovers_end(struct e2b_leftovers *l, const char *const *ids,
                       size_t n_ids, e2b_ended_fn each, void (*done)(void *ctx),
                       void *ctx);

/* Gives up what goes on, without a callback. */
void e2b_leftovers_cancel(struct e2b_leftovers *l);

/* The host that messages name, with its port if it has one. Borrowed. */
const char *e2b_leftovers_host(const struct e2b_leftovers *l);

#endif
