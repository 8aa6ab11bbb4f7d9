/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_wire_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"

/* Addresses and names that are in no list of what is allowed. */
#define EVERYTHING "0.0.0.0/0"

/* Of the body that sets the lists. */
#define MAX_BODY_BYTES ((size_t)1 << 20)

/* --- what is said --- */

/* NULL: it is none, as in descriptions of sandboxes for which nobody has set
   it. */
static void
get_rules(const struct cJSON *network, const char *key, struct e2b_rules *out)
{
    const struct cJSON *list = json_get(network, key);

    if (!json_is_array(list)) {
        return;
    }
    out->said = true;
    for (const struct cJSON *at = json_first(list); at != NULL;
         at = json_next(at)) {
        const char *text = json_value_string(at);

        if (text == NULL || !e2b_is_rule(text) ||
            out->n_hosts == E2B_MAX_RULES) {
            out->cut = true;
            continue;
        }
        out->hosts = xgrow(out->hosts, out->n_hosts, sizeof(*out->hosts));
        out->hosts[out->n_hosts++] = xstrdup(text);
    }
}

void
e2b_read_egress(const struct cJSON *tree, struct e2b_sandbox *out)
{
    const struct cJSON *network = json_get(tree, "network");
    static const char key[] = "allowInternetAccess";

    /* What is neither has a different value for each default. */
    if (json_bool(tree, key, false) == json_bool(tree, key, true)) {
        out->internet =
            json_bool(tree, key, false) ? E2B_SAID_YES : E2B_SAID_NO;
    }
    if (json_is_object(network)) {
        get_rules(network, "allowOut", &out->allowed);
        get_rules(network, "denyOut", &out->denied);
    }
}

static void
free_rules(struct e2b_rules *r)
{
    for (size_t i = 0; i < r->n_hosts; i++) {
        free(r->hosts[i]);
    }
    free(r->hosts);
    *r = (struct e2b_rules){0};
}

void
e2b_egress_fini(struct e2b_sandbox *s)
{
    free_rules(&s->allowed);
    free_rules(&s->denied);
}

/* --- whether it is what was asked for --- */

/* Names are the same in either case, and an address as a network of one. */
static bool
is_same(const char *a, const char *b)
{
    AUTO_FREE char *one =
        xstrndup(a, strlen(a) - (str_ends(a, "/32") ? strlen("/32") : 0));
    AUTO_FREE char *other =
        xstrndup(b, strlen(b) - (str_ends(b, "/32") ? strlen("/32") : 0));

    return str_eq_nocase(one, other);
}

static bool
holds(char *const *hosts, size_t n, const char *host)
{
    for (size_t i = 0; i < n; i++) {
        if (is_same(hosts[i], host)) {
            return true;
        }
    }
    return false;
}

/* The order does not matter, nor what is there twice. */
static bool
allows_just(const struct e2b_settings *s, const struct e2b_rules *allowed)
{
    for (size_t i = 0; i < allowed->n_hosts; i++) {
        if (!holds(s->hosts, s->n_hosts, allowed->hosts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < s->n_hosts; i++) {
        if (!holds(allowed->hosts, allowed->n_hosts, s->hosts[i])) {
            return false;
        }
    }
    return !allowed->cut;
}

/* What is open: said to be so, by any of the three. */
static bool
is_open(const struct e2b_sandbox *one, bool denies_all)
{
    return (one->internet == E2B_SAID_YES && !denies_all) ||
           (one->internet != E2B_SAID_NO && one->denied.said && !denies_all);
}

enum e2b_egress_check
e2b_check_egress(const struct e2b_settings *s, const struct e2b_sandbox *one)
{
    bool denies_all = holds(one->denied.hosts, one->denied.n_hosts, EVERYTHING);
    bool is_closed = one->internet == E2B_SAID_NO || denies_all;

    if (s->internet == E2B_INTERNET_ON) {
        return is_closed                       ? E2B_EGRESS_CONTRADICTED
               : one->internet == E2B_SAID_YES ? E2B_EGRESS_CONFIRMED
                                               : E2B_EGRESS_NOT_SAID;
    }
    if (is_open(one, denies_all)) {
        return E2B_EGRESS_CONTRADICTED;
    }
    /* No host is allowed: then there is none in the settings either. */
    if (one->allowed.said && !allows_just(s, &one->allowed)) {
        return E2B_EGRESS_CONTRADICTED;
    }
    if (!is_closed) {
        return E2B_EGRESS_NOT_SAID;
    }
    return s->n_hosts == 0 || one->allowed.said ? E2B_EGRESS_CONFIRMED
                                                : E2B_EGRESS_NOT_SAID;
}

/* --- setting it --- */

/* Hosts by name are allowed only where all else is denied. */
void
e2b_add_rules(struct sbuf *sb, const char *const *hosts, size_t n_hosts)
{
    json_add_key(sb, "allowOut");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < n_hosts; i++) {
        if (i > 0) {
            sbuf_add_char(sb, ',');
        }
        json_add_str(sb, hosts[i]);
    }
    sbuf_add_str(sb, "],\"denyOut\":[\"" EVERYTHING "\"]");
}

/* The lists, which take the place of those that are there: what is not named
   would be cleared. */
char *
e2b_make_network(const struct e2b_settings *s)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (s->internet == E2B_INTERNET_ON) {
        return xstrdup("{\"allow_internet_access\":true}");
    }
    sbuf_init(&sb, MAX_BODY_BYTES);
    sbuf_add_char(&sb, '{');
    e2b_add_rules(&sb, (const char *const *)s->hosts, s->n_hosts);
    sbuf_add_char(&sb, '}');
    return sbuf_take(&sb);
}
