/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/sandboxes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/config.h"
#include "config/config_internal.h"
#include "config/sandbox_keys_internal.h"

#define MAX_NAME_BYTES 32
#define MAX_ENTRIES 64
#define NOT_SAID (-1)

static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";

static bool
is_variable(const char *name)
{
    if (strchr(digits, name[0]) != NULL)
        return false; /* or empty */
    for (const char *p = name; *p != '\0'; p++) {
        if (*p != '_' && strchr(letters, *p) == NULL &&
            strchr(digits, *p) == NULL)
            return false;
    }
    return true;
}

/* ---- names ----------------------------------------------------------------
 */

static const struct config_sandbox_key *
find_key(const char *name)
{
    for (size_t i = 0; i < config_n_sandbox_keys; i++) {
        if (str_eq(config_sandbox_keys[i].name, name))
            return &config_sandbox_keys[i];
    }
    return NULL;
}

/* "sandboxes.work.timeout" */
static char *
full_name(const char *const *names, size_t n_names)
{
    struct sbuf sb;

    sbuf_init(&sb, 4096);
    for (size_t i = 0; i < n_names; i++)
        sbuf_addf(&sb, "%s%.200s", i > 0 ? "." : "", names[i]);
    return sbuf_take(&sb);
}

static int
unknown_name(const char *const *names, size_t n_names, const char *near,
             struct error *err)
{
    AUTO_FREE char *full = full_name(names, n_names);
    AUTO_FREE char *above = full_name(names, n_names - 1);

    if (config_looks_secret(names[n_names - 1]))
        return err_set(err, ERR_CONFIG,
                       "unknown key, not repeated since it may be a secret; "
                       "the key of a service is the value of 'api_key:'");
    if (near != NULL)
        return err_set(err, ERR_CONFIG,
                       "unknown key '%s'; the nearest is '%s.%s'", full, above,
                       near);
    return err_set(err, ERR_CONFIG, "unknown key '%s'", full);
}

static int
check_entry_name(const char *name, struct error *err)
{
    static const char *const taken[] = {CONFIG_LOCAL, "list", "kill"};
    size_t len = strlen(name);

    for (size_t i = 0; i < LEN(taken); i++) {
        if (str_eq(name, taken[i]))
            return err_set(err, ERR_CONFIG,
                           "sandboxes.%s: the name is taken; choose another",
                           name);
    }
    if (config_looks_secret(name))
        return err_set(err, ERR_CONFIG,
                       "sandboxes: a name, not repeated since it may be a "
                       "secret; a name has at most %d letters, digits, '-' "
                       "and '_'",
                       MAX_NAME_BYTES);
    for (size_t i = 0; i <= len; i++) {
        if (len == 0 || len > MAX_NAME_BYTES ||
            (name[i] != '-' && name[i] != '_' &&
             strchr(letters, name[i]) == NULL &&
             strchr(digits, name[i]) == NULL))
            return err_set(err, ERR_CONFIG,
                           "sandboxes: '%s' is no name; it has at most %d "
                           "letters, digits, '-' and '_'",
                           name, MAX_NAME_BYTES);
    }
    return 0;
}

static int
check_key_name(const char *const *names, struct error *err)
{
    AUTO_FREE const char **known =
        xcalloc(config_n_sandbox_keys, sizeof(*known));

    for (size_t i = 0; i < config_n_sandbox_keys; i++)
        known[i] = config_sandbox_keys[i].name;
    if (find_key(names[CONFIG_AT_KEY - 1]) != NULL)
        return 0;
    return unknown_name(
        names, CONFIG_AT_KEY,
        str_nearest(names[CONFIG_AT_KEY - 1], known, config_n_sandbox_keys),
        err);
}

static int
check_name_below(const char *const *names, struct error *err)
{
    const char *key = names[CONFIG_AT_KEY - 1];
    const char *name = names[CONFIG_AT_BELOW - 1];
    const struct config_sandbox_key *known = find_key(key);
    AUTO_FREE char *full = full_name(names, CONFIG_AT_KEY);

    if (known == NULL || !known->has_names)
        return err_set(err, ERR_CONFIG, "%s: expected one value", full);
    if (str_eq(key, "price")) {
        for (size_t i = 0; i < CONFIG_N_PRICE_NAMES; i++) {
            if (str_eq(name, config_price_names[i]))
                return 0;
        }
        return unknown_name(
            names, CONFIG_AT_BELOW,
            str_nearest(name, config_price_names, CONFIG_N_PRICE_NAMES), err);
    }
    if (str_eq(key, "headers")) {
        if (config_check_header_name(name, err) == 0)
            return 0;
        return err_wrap(err, "%s", full);
    }
    if (is_variable(name))
        return 0;
    if (config_looks_secret(name))
        return err_set(err, ERR_CONFIG,
                       "%s: a name, not repeated since it may be a secret, is "
                       "not that of a variable",
                       full);
    return err_set(err, ERR_CONFIG, "%s: '%s' is not the name of a variable",
                   full, name);
}

/* ---- the walk -------------------------------------------------------------
 */

static struct config_sandbox *
add_entry(struct config *c, const char *name)
{
    struct config_sandbox *s = NULL;

    c->sandboxes =
        xreallocarray(c->sandboxes, c->n_sandboxes + 1, sizeof(*c->sandboxes));
    s = &c->sandboxes[c->n_sandboxes++];
    *s = (struct config_sandbox){
        .name = xstrdup(name),
        .price = {.vcpu_hour_nanousd = NOT_SAID, .gib_hour_nanousd = NOT_SAID},
    };
    return s;
}

static int
on_name(void *ctx, const char *const *names, size_t n_names, struct error *err)
{
    struct config *c = ctx;

    if (n_names == CONFIG_AT_KEY)
        return check_key_name(names, err);
    if (n_names == CONFIG_AT_BELOW)
        return check_name_below(names, err);
    if (check_entry_name(names[CONFIG_AT_ENTRY - 1], err) < 0)
        return -1;
    if (c->n_sandboxes == MAX_ENTRIES)
        return err_set(err, ERR_CONFIG, "sandboxes: more than %d", MAX_ENTRIES);
    add_entry(c, names[CONFIG_AT_ENTRY - 1]);
    return 0;
}

/* What should be a mapping and is none. */
static int
need_names(const struct config_leaf *leaf, struct error *err)
{
    AUTO_FREE char *full = full_name(leaf->names, leaf->n_names);
    bool is_empty = leaf->kind == CONFIG_LEAF_NAMES ||
                    (leaf->kind == CONFIG_LEAF_VALUE && leaf->value[0] == '\0');

    if (leaf->n_names == CONFIG_AT_ALL)
        return is_empty
                   ? 0
                   : err_set(err, ERR_CONFIG,
                             "%s: expected names of sandboxes below it", full);
    if (leaf->n_names == CONFIG_AT_ENTRY)
        return err_set(err, ERR_CONFIG,
                       "%s: expected keys below it, of which 'kind: e2b' is "
                       "one",
                       full);
    if (is_empty && !str_eq(leaf->names[CONFIG_AT_KEY - 1], "price"))
        return 0;
    return err_set(err, ERR_CONFIG, "%s: expected names below it", full);
}

static int
on_leaf(void *ctx, const struct config_leaf *leaf, struct error *err)
{
    struct config *c = ctx;
    const struct config_sandbox_key *key =
        leaf->n_names >= CONFIG_AT_KEY
            ? find_key(leaf->names[CONFIG_AT_KEY - 1])
            : NULL;
    AUTO_FREE char *full = NULL;

    if (key == NULL || (key->has_names && leaf->n_names == CONFIG_AT_KEY))
        return need_names(leaf, err);
    full = full_name(leaf->names, leaf->n_names);
    if (leaf->kind != CONFIG_LEAF_VALUE &&
        !(key->may_be_list && leaf->kind == CONFIG_LEAF_LIST))
        return err_set(err, ERR_CONFIG, "%s: expected one value", full);
    return key->set(&c->sandboxes[c->n_sandboxes - 1], full, leaf, err);
}

static int
on_end(void *ctx, const char *const *names, size_t n_names, struct error *err)
{
    struct config *c = ctx;
    struct config_sandbox *s = NULL;
    AUTO_FREE char *full = full_name(names, n_names);

    if (n_names < CONFIG_AT_ENTRY)
        return 0;
    s = &c->sandboxes[c->n_sandboxes - 1];
    if (n_names == CONFIG_AT_ENTRY && s->kind == CONFIG_NO_KIND)
        return err_set(err, ERR_CONFIG, "%s: 'kind: e2b' is missing", full);
    if (n_names != CONFIG_AT_KEY || !str_eq(names[CONFIG_AT_KEY - 1], "price"))
        return 0;
    if (s->price.vcpu_hour_nanousd == NOT_SAID ||
        s->price.gib_hour_nanousd == NOT_SAID)
        return err_set(err, ERR_CONFIG,
                       "%s: vcpu_hour_usd or gib_hour_usd is missing", full);
    s->has_price = true;
    return 0;
}

const struct config_walker config_sandboxes_walker = {
    .name = on_name,
    .leaf = on_leaf,
    .end = on_end,
};

/* ---- the environment ------------------------------------------------------
 */

/* Whether a header takes the place of the key. */
static bool
has_key_header(const struct config_sandbox *s)
{
    for (size_t i = 0; i < s->n_headers; i++) {
        if (str_eq_nocase(s->headers[i].name, "authorization") ||
            str_eq_nocase(s->headers[i].name, "x-api-key"))
            return true;
    }
    return false;
}

static char *
copy_env(const char *name)
{
    const char *value = getenv(name);

    return str_blank(value) ? NULL : str_trim(value);
}

static void
fill_entry(const struct config *c, struct config_sandbox *s)
{
    if (s->key == NULL && s->key_command == NULL && !has_key_header(s))
        s->key = c->e2b_key;
    if (s->domain != NULL || s->api_url != NULL || s->sandbox_url != NULL)
        return;
    s->domain = copy_env("E2B_DOMAIN");
    s->api_url = copy_env("E2B_API_URL");
    s->sandbox_url = copy_env("E2B_SANDBOX_URL");
    s->env_address = true;
}

void
config_fill_sandboxes(struct config *c)
{
    struct secret *key = secret_take_env("E2B_API_KEY");

    if (key != NULL && !str_blank(secret_expose(key))) {
        secret_free(c->e2b_key);
        c->e2b_key = key;
    } else {
        secret_free(key);
    }
    if (config_find_sandbox(c, "e2b") == NULL)
        add_entry(c, "e2b")->kind = CONFIG_E2B;
    for (size_t i = 0; i < c->n_sandboxes; i++)
        fill_entry(c, &c->sandboxes[i]);
}

/* ---- public ---------------------------------------------------------------
 */

const struct config_sandbox *
config_find_sandbox(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->n_sandboxes; i++) {
        if (str_eq(c->sandboxes[i].name, name))
            return &c->sandboxes[i];
    }
    return NULL;
}

void
config_unknown_sandbox(const struct config *c, const char *name,
                       struct error *err)
{
    AUTO_SBUF struct sbuf known = {0};

    sbuf_init(&known, 4096);
    sbuf_add_str(&known, CONFIG_LOCAL);
    for (size_t i = 0; i < c->n_sandboxes; i++)
        sbuf_addf(&known, ", %s", c->sandboxes[i].name);
    if (config_find_sandbox(c, "e2b") == NULL)
        sbuf_add_str(&known, ", e2b");
    if (config_looks_secret(name))
        error_fill(err, ERR_CONFIG,
                   "no sandbox is called so (the value is not repeated, since "
                   "it may be a secret); known are %s",
                   known.data);
    else
        error_fill(err, ERR_CONFIG, "no sandbox is called '%s'; known are %s",
                   name, known.data);
}

int
config_check_sandbox_name(const struct config *c, const char *name,
                          const char *setting, struct error *err)
{
    if (str_eq(name, CONFIG_LOCAL) || str_eq(name, "e2b") ||
        config_find_sandbox(c, name) != NULL)
        return 0;
    config_unknown_sandbox(c, name, err);
    return err_wrap(err, "%s", setting);
}

char *
config_sandbox_host(const struct config_sandbox *s)
{
    const char *start = NULL;

    if (s->api_url == NULL)
        return xasprintf("api.%s",
                         s->domain != NULL ? s->domain : CONFIG_E2B_DOMAIN);
    start = strstr(s->api_url, "://");
    start = start != NULL ? start + 3 : s->api_url;
    return xstrndup(start, strcspn(start, "/"));
}

int
config_check_sandbox(const struct config *c, const struct config_sandbox *s,
                     struct error *err)
{
    AUTO_FREE char *host = config_sandbox_host(s);
    AUTO_FREE char *path = NULL;

    if (s->env_address &&
        ((s->domain != NULL &&
          config_check_domain("E2B_DOMAIN", s->domain, err) < 0) ||
         (s->api_url != NULL &&
          config_check_api_url("E2B_API_URL", s->api_url, err) < 0) ||
         (s->sandbox_url != NULL &&
          config_check_sandbox_url("E2B_SANDBOX_URL", s->sandbox_url, err) <
              0)))
        return -1;
    if (s->key != NULL || s->key_command != NULL || has_key_header(s) ||
        (s->api_url != NULL && str_starts(s->api_url, "http://")))
        return 0;
    path = c->config_file != NULL ? xstrdup(c->config_file)
                                  : config_default_path();
    return err_set(err, ERR_AUTH,
                   "no key for the sandbox %s at %s\nput it into %s, as the "
                   "value of sandboxes.%s.api_key (with kind: e2b), or set "
                   "E2B_API_KEY",
                   s->name, host, path != NULL ? path : "config.yaml", s->name);
}

void
config_free_sandboxes(struct config *c)
{
    for (size_t i = 0; i < c->n_sandboxes; i++) {
        struct config_sandbox *s = &c->sandboxes[i];

        free(s->name);
        secret_free(s->own_key);
        free(s->key_command);
        free(s->template_name);
        free(s->domain);
        free(s->api_url);
        free(s->sandbox_url);
        for (size_t k = 0; k < s->n_headers; k++) {
            free(s->headers[k].name);
            secret_free(s->headers[k].value);
        }
        free(s->headers);
        for (size_t k = 0; k < s->n_envs; k++) {
            free(s->envs[k].name);
            free(s->envs[k].value);
        }
        free(s->envs);
        for (size_t k = 0; k < s->n_hosts; k++)
            free(s->hosts[k]);
        free(s->hosts);
        free(s->price.date);
    }
    free(c->sandboxes);
    secret_free(c->e2b_key);
}
