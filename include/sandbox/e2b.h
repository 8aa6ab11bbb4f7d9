/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The back end for E2B and the services that speak its protocol: a sandbox
 * there is made when it is opened, kept alive while it is used, and ended when
 * it is closed. Cells run in the service's interpreter of notebooks, or, where
 * it has none, in the one that the local sandbox has. The account's key goes to
 * the address of the API and to no other.
 */
#ifndef SANDBOX_E2B_H
#define SANDBOX_E2B_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct http_extra_header;
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
       what key_command prints, run by the shell at each open. */
    const struct secret *key;
    const char *key_command; /* NULL: none */

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

#endif
