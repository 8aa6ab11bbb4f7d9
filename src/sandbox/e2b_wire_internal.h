/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What e2b_api.c (calls, tries, waiting), e2b_request.c (what is sent),
 * e2b_reply.c (what comes back) and e2b_egress.c (what a sandbox may reach)
 * share.
 */
#ifndef SANDBOX_E2B_WIRE_INTERNAL_H
#define SANDBOX_E2B_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "sandbox/e2b_api_internal.h"

struct cJSON;
struct sbuf;
struct timespec;

#define E2B_MAX_TIMEOUT_S 604800
#define E2B_MAX_TOKEN_BYTES ((size_t)4096)

/* Room for a lower-case uuid and a NUL. */
#define E2B_UUID_BYTES ((size_t)37)

enum e2b_op {
    E2B_CREATE,
    E2B_CONNECT,
    E2B_TIMEOUT,
    E2B_PAUSE,
    E2B_KILL,
    E2B_INFO,
    E2B_LIST,
    E2B_NETWORK
};

/* Of the settings only what is checked and copied. */
struct e2b_settings {
    char *url;           /* owned; without a slash at its end */
    char *host;          /* owned; with its port if it is said */
    char *key_setting;   /* owned */
    char *template_name; /* owned */
    char
        *body[2]; /* owned; to create one, in the first and second generation */
    enum e2b_internet internet;
    char **hosts; /* owned, the texts too; with E2B_INTERNET_HOSTS only */
    size_t n_hosts;
};

/* Errors: ERR_CONFIG. */
WARN_UNUSED int e2b_settings_init(struct e2b_settings *s,
                                  const struct e2b_api_config *config,
                                  struct error *err);
void e2b_settings_fini(struct e2b_settings *s);

bool e2b_is_id(const char *text);

/* A host name, or an IPv4 address, that may have a port. */
bool e2b_is_domain(const char *text);

/* Letters, digits and ".", "_", "~", "-", at least one. */
bool e2b_is_plain(const char *text);

/* A host name, "*." before one for all below it, an IPv4 address or network. */
bool e2b_is_rule(const char *text);

/* Adds text with everything but letters, digits and "-._~" as %XX. */
void e2b_add_escaped(struct sbuf *sb, const char *text);

/* Reads a time of RFC 3339. Returns whether it is one. */
WARN_UNUSED bool e2b_read_time(const char *text, struct timespec *out);

/* What is a secret (what: "the key") goes unencrypted to this machine itself
   only. setting: for the message. Errors: ERR_CONFIG. */
WARN_UNUSED int e2b_check_encrypted(const char *setting, const char *url,
                                    const char *what, struct error *err);

/* In [0, 1): so that clients do not all come back at one time. */
double e2b_random(void);

/* Errors: ERR_INTERNAL (no random bytes). */
WARN_UNUSED int e2b_make_uuid(char uuid[E2B_UUID_BYTES], struct error *err);

/* An answer that has come, or what came in its place. All borrowed. */
struct e2b_reply {
    int status; /* 0: no whole answer; failure says why */
    const struct error *failure;
    const char *content_type; /* NULL: none */
    const char *body;         /* a NUL stands behind it; NULL: none */
    size_t body_len;
    bool too_large; /* the body was given up */
};

/* What a refusal says, in the words of the service. */
struct e2b_words {
    char *text;       /* owned; "" when there are none to show */
    char *error_code; /* owned; "" when there is none */
};

/* Reads an answer that is no success. */
void e2b_words_read(struct e2b_words *w, const struct e2b_reply *r);
void e2b_words_fini(struct e2b_words *w);

/* What a refusal is about. subject: the id, or the template. */
struct e2b_refusal {
    const struct e2b_settings *settings;
    enum e2b_op op;
    const char *subject;
    bool has_headers; /* of the user's own */
    int64_t limit_ms; /* of all tries together */
};

/* Says what an answer that is no success, or none, means. */
enum e2b_fault e2b_describe(const struct e2b_refusal *about,
                            const struct e2b_reply *r,
                            const struct e2b_words *w, struct error *err);

/* What messages call it: "creating a sandbox". Static. */
const char *e2b_op_name(enum e2b_op op);

/*
 * Reads a description. Whatever fails, out->id is set if that could be
 * believed. Errors: ERR_PROTOCOL, ERR_TOO_LARGE; ERR_UNSUPPORTED for a service
 * within the sandbox that is too old.
 */
WARN_UNUSED int e2b_read_sandbox(const struct e2b_reply *r,
                                 struct e2b_sandbox *out, struct error *err);

/* Reads what a description says of the internet; what is odd is left out. */
void e2b_read_egress(const struct cJSON *tree, struct e2b_sandbox *out);
void e2b_egress_fini(struct e2b_sandbox *s);

/* Adds the lists of what is allowed and denied, as members of an object. */
void e2b_add_rules(struct sbuf *sb, const char *const *hosts, size_t n_hosts);

/* The body that sets what a sandbox may reach. Owned by the caller. */
char *e2b_make_network(const struct e2b_settings *s);

enum e2b_egress_check e2b_check_egress(const struct e2b_settings *s,
                                       const struct e2b_sandbox *one);

/* Adds those of a page of the list that have the labels and can be believed; at
   most max of them altogether. Errors: ERR_PROTOCOL, ERR_TOO_LARGE. */
WARN_UNUSED int e2b_read_page(const struct e2b_reply *r,
                              const struct e2b_pair *labels, size_t n_labels,
                              size_t max, struct e2b_sandbox **list, size_t *n,
                              struct error *err);

#endif
