/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/sandbox_keys_internal.h"

#include <arpa/inet.h>
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

#define MAX_TEMPLATE_BYTES 256
#define MAX_HOST_BYTES 253
#define MAX_LABEL_BYTES 63
#define MAX_KEY_BYTES 4096
#define MAX_COMMAND_BYTES 4096
#define MAX_ADDRESS_BYTES 1024
#define MAX_PAIRS 64
#define MAX_HOSTS 64
#define MIN_TIMEOUT_S 10
#define MAX_TIMEOUT_S 604800
#define MAX_PRICE_NANOUSD (1000 * INT64_C(1000000000))

static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";

/* ---- words ----------------------------------------------------------------
 */

/* The index of a word, or -1: it is none of them. */
static int
find_word(const char *full, const char *text, const char *const *words,
          size_t n_words, struct error *err)
{
    AUTO_SBUF struct sbuf all = {0};

    sbuf_init(&all, 256);
    for (size_t i = 0; i < n_words; i++) {
        if (str_eq(text, words[i]))
            return (int)i;
        sbuf_addf(&all, "%s%s", i > 0 ? "|" : "", words[i]);
    }
    if (config_looks_secret(text))
        return err_set(err, ERR_CONFIG,
                       "%s: the value, not repeated since it may be a secret, "
                       "is not one of %s",
                       full, all.data);
    return err_set(err, ERR_CONFIG, "%s: '%s' is not one of %s", full, text,
                   all.data);
}

/* Labels with a "." between them, or an IPv4 address. */
static bool
is_host(const char *text)
{
    struct in_addr address;
    const char *label = text;

    if (strlen(text) > MAX_HOST_BYTES)
        return false;
    for (;;) {
        size_t len = strcspn(label, ".");

        if (len == 0 || len > MAX_LABEL_BYTES || label[0] == '-' ||
            label[len - 1] == '-')
            return false;
        for (size_t i = 0; i < len; i++) {
            if (strchr(letters, label[i]) == NULL &&
                strchr(digits, label[i]) == NULL && label[i] != '-')
                return false;
        }
        if (label[len] == '\0')
            return strspn(label, digits) < len ||
                   inet_pton(AF_INET, text, &address) == 1;
        label += len + 1;
    }
}

static bool
is_domain(const char *text)
{
    size_t len = strcspn(text, ":");
    AUTO_FREE char *host = xstrndup(text, len);
    int64_t port = 0;

    return is_host(host) &&
           (text[len] == '\0' ||
            str_to_int(text + len + 1, 1, 65535, &port, NULL) == 0);
}

/* What cells may be let reach: a host, all below it, an address, a network. */
static bool
is_reachable(const char *text)
{
    const char *slash = strchr(text, '/');
    AUTO_FREE char *address = NULL;
    struct in_addr in;
    int64_t bits = 0;

    if (slash == NULL)
        return is_host(str_starts(text, "*.") ? text + 2 : text);
    address = xstrndup(text, (size_t)(slash - text));
    return inet_pton(AF_INET, address, &in) == 1 &&
           str_to_int(slash + 1, 0, 32, &bits, NULL) == 0;
}

/* ---- addresses ------------------------------------------------------------
 */

int
config_check_domain(const char *setting, const char *text, struct error *err)
{
    if (strstr(text, "://") != NULL)
        return err_set(err, ERR_CONFIG,
                       "%s: the name of a host is needed, without https://",
                       setting);
    if (!is_domain(text))
        return err_set(err, ERR_CONFIG,
                       "%s: not the name of a host, such as example.org",
                       setting);
    return 0;
}

int
config_check_api_url(const char *setting, const char *text, struct error *err)
{
    return config_check_address(setting, text, err);
}

/* What is left of a form when its placeholders stand for something. */
int
config_check_sandbox_url(const char *setting, const char *text,
                         struct error *err)
{
    static const struct {
        const char *name;
        const char *example;
    } places[] = {{"{id}", "i"}, {"{port}", "1"}, {"{domain}", "example.org"}};
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_ADDRESS_BYTES);
    while (*text != '\0') {
        size_t i = 0;

        while (i < LEN(places) && !str_starts(text, places[i].name))
            i++;
        if (i < LEN(places)) {
            sbuf_add_str(&sb, places[i].example);
            text += strlen(places[i].name);
            continue;
        }
        if (*text == '{' || *text == '}')
            return err_set(err, ERR_CONFIG,
                           "%s: a brace that belongs to none of {id}, {port} "
                           "and {domain}",
                           setting);
        sbuf_add_char(&sb, *text++);
    }
    if (!sbuf_ok(&sb))
        return err_set(err, ERR_CONFIG, "%s: longer than %d bytes", setting,
                       MAX_ADDRESS_BYTES);
    return config_check_address(setting, sb.data, err);
}

/* ---- values of keys -------------------------------------------------------
 */

static int
need_text(const char *full, const char *text, size_t max, struct error *err)
{
    if (str_blank(text))
        return err_set(err, ERR_CONFIG, "%s: the value is empty", full);
    if (strlen(text) > max)
        return err_set(err, ERR_CONFIG, "%s: longer than %zu bytes", full, max);
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            return err_set(err, ERR_CONFIG,
                           "%s: a control character in the value", full);
    }
    return 0;
}

static int
set_text(char **field, const char *full, const char *text, size_t max,
         struct error *err)
{
    if (need_text(full, text, max, err) < 0)
        return -1;
    free(*field);
    *field = xstrdup(text);
    return 0;
}

static int
set_kind(struct config_sandbox *s, const char *full,
         const struct config_leaf *leaf, struct error *err)
{
    static const char *const words[] = {"e2b"};

    if (find_word(full, leaf->value, words, LEN(words), err) < 0)
        return -1;
    s->kind = CONFIG_E2B;
    return 0;
}

static int
refuse_two_keys(const struct config_sandbox *s, const char *full,
                struct error *err)
{
    if (s->own_key == NULL && s->key_command == NULL)
        return 0;
    return err_set(err, ERR_CONFIG,
                   "%s: there is %s as well; the key comes from one of them",
                   full, s->own_key != NULL ? "api_key" : "api_key_command");
}

static int
set_key(struct config_sandbox *s, const char *full,
        const struct config_leaf *leaf, struct error *err)
{
    if (refuse_two_keys(s, full, err) < 0 ||
        need_text(full, leaf->value, MAX_KEY_BYTES, err) < 0)
        return -1;
    s->own_key = secret_new(leaf->value, strlen(leaf->value));
    s->key = s->own_key;
    return 0;
}

static int
set_key_command(struct config_sandbox *s, const char *full,
                const struct config_leaf *leaf, struct error *err)
{
    if (refuse_two_keys(s, full, err) < 0)
        return -1;
    if (str_blank(leaf->value))
        return err_set(err, ERR_CONFIG, "%s: the value is empty", full);
    /* It may have several lines. */
    if (strlen(leaf->value) > MAX_COMMAND_BYTES)
        return err_set(err, ERR_CONFIG, "%s: longer than %d bytes", full,
                       MAX_COMMAND_BYTES);
    s->key_command = xstrdup(leaf->value);
    return 0;
}

static int
set_template(struct config_sandbox *s, const char *full,
             const struct config_leaf *leaf, struct error *err)
{
    return set_text(&s->template_name, full, leaf->value, MAX_TEMPLATE_BYTES,
                    err);
}

static int
set_address(char **field, const char *full, const struct config_leaf *leaf,
            int (*check)(const char *setting, const char *text,
                         struct error *err),
            struct error *err)
{
    if (need_text(full, leaf->value, MAX_ADDRESS_BYTES, err) < 0 ||
        check(full, leaf->value, err) < 0)
        return -1;
    *field = xstrdup(leaf->value);
    return 0;
}

static int
set_domain(struct config_sandbox *s, const char *full,
           const struct config_leaf *leaf, struct error *err)
{
    return set_address(&s->domain, full, leaf, config_check_domain, err);
}

static int
set_api_url(struct config_sandbox *s, const char *full,
            const struct config_leaf *leaf, struct error *err)
{
    return set_address(&s->api_url, full, leaf, config_check_api_url, err);
}

static int
set_sandbox_url(struct config_sandbox *s, const char *full,
                const struct config_leaf *leaf, struct error *err)
{
    return set_address(&s->sandbox_url, full, leaf, config_check_sandbox_url,
                       err);
}

static int
set_timeout(struct config_sandbox *s, const char *full,
            const struct config_leaf *leaf, struct error *err)
{
    if (config_looks_secret(leaf->value))
        return err_set(err, ERR_CONFIG,
                       "%s: the value, not repeated since it may be a secret, "
                       "is no number",
                       full);
    if (str_to_int(leaf->value, MIN_TIMEOUT_S, MAX_TIMEOUT_S, &s->timeout_s,
                   err) < 0)
        return err_wrap(err, "%s", full);
    return 0;
}

static int
set_hosts(struct config_sandbox *s, const char *full,
          const struct config_leaf *leaf, struct error *err)
{
    if (leaf->items == NULL)
        return err_set(err, ERR_CONFIG, "%s: expected a list of hosts", full);
    if (leaf->n_items > MAX_HOSTS)
        return err_set(err, ERR_CONFIG, "%s: more than %d hosts", full,
                       MAX_HOSTS);
    for (size_t i = 0; i < leaf->n_items; i++) {
        if (!is_reachable(leaf->items[i]))
            return err_set(err, ERR_CONFIG,
                           "%s: '%.60s' is not a host, *. and a host, an IPv4 "
                           "address or an IPv4 network",
                           full, leaf->items[i]);
    }
    s->hosts = xcalloc(leaf->n_items + 1, sizeof(*s->hosts));
    for (size_t i = 0; i < leaf->n_items; i++)
        s->hosts[s->n_hosts++] = xstrdup(leaf->items[i]);
    s->internet = s->n_hosts > 0 ? CONFIG_SOME_HOSTS : CONFIG_NO_INTERNET;
    return 0;
}

static int
set_internet(struct config_sandbox *s, const char *full,
             const struct config_leaf *leaf, struct error *err)
{
    static const char *const words[] = {"false", "true", "[HOST, ...]"};
    int i = 0;

    if (leaf->kind == CONFIG_LEAF_LIST)
        return set_hosts(s, full, leaf, err);
    i = find_word(full, leaf->value, words, LEN(words), err);
    if (i < 0)
        return -1;
    s->internet = i == 1 ? CONFIG_INTERNET : CONFIG_NO_INTERNET;
    return 0;
}

static int
set_auto_pause(struct config_sandbox *s, const char *full,
               const struct config_leaf *leaf, struct error *err)
{
    static const char *const words[] = {"false", "true"};
    int i = find_word(full, leaf->value, words, LEN(words), err);

    if (i < 0)
        return -1;
    s->auto_pause = i == 1;
    return 0;
}

static int
set_api(struct config_sandbox *s, const char *full,
        const struct config_leaf *leaf, struct error *err)
{
    static const char *const words[] = {[CONFIG_API_AUTO] = "auto",
                                        [CONFIG_API_V1] = "v1",
                                        [CONFIG_API_V2] = "v2"};
    int i = find_word(full, leaf->value, words, LEN(words), err);

    if (i < 0)
        return -1;
    s->api = (enum config_api)i;
    return 0;
}

static int
add_header(struct config_sandbox *s, const char *full,
           const struct config_leaf *leaf, struct error *err)
{
    const char *name = leaf->names[CONFIG_AT_BELOW - 1];
    size_t len = strlen(leaf->value);

    if (s->n_headers == MAX_PAIRS)
        return err_set(err, ERR_CONFIG, "%s: more than %d headers", full,
                       MAX_PAIRS);
    if (str_blank(leaf->value))
        return err_set(err, ERR_CONFIG, "%s: the value is empty", full);
    if (config_check_header_value(name, leaf->value, len, err) < 0)
        return err_wrap(err, "%s", full);
    s->headers =
        xreallocarray(s->headers, s->n_headers + 1, sizeof(*s->headers));
    s->headers[s->n_headers++] =
        (struct config_header){xstrdup(name), secret_new(leaf->value, len)};
    return 0;
}

static int
add_env(struct config_sandbox *s, const char *full,
        const struct config_leaf *leaf, struct error *err)
{
    if (s->n_envs == MAX_PAIRS)
        return err_set(err, ERR_CONFIG, "%s: more than %d variables", full,
                       MAX_PAIRS);
    s->envs = xreallocarray(s->envs, s->n_envs + 1, sizeof(*s->envs));
    s->envs[s->n_envs++] = (struct config_pair){
        xstrdup(leaf->names[CONFIG_AT_BELOW - 1]), xstrdup(leaf->value)};
    return 0;
}

static int
set_price(struct config_sandbox *s, const char *full,
          const struct config_leaf *leaf, struct error *err)
{
    const char *name = leaf->names[CONFIG_AT_BELOW - 1];

    if (str_eq(name, "date"))
        return set_text(&s->price.date, full, leaf->value, 32, err);
    if (config_read_rate(leaf->value,
                         str_eq(name, config_price_names[0])
                             ? &s->price.vcpu_hour_nanousd
                             : &s->price.gib_hour_nanousd,
                         err) < 0)
        return err_wrap(err, "%s", full);
    return 0;
}

int
config_read_rate(const char *text, int64_t *nanousd, struct error *err)
{
    if (str_to_decimal(text, 9, MAX_PRICE_NANOUSD, nanousd, err) < 0) {
        if (err != NULL)
            err->code = ERR_CONFIG;
        return -1;
    }
    return 0;
}

/* ---- the table of keys ----------------------------------------------------
 */

const char *const config_price_names[CONFIG_N_PRICE_NAMES] = {
    "vcpu_hour_usd", "gib_hour_usd", "date"};

const struct config_sandbox_key config_sandbox_keys[] = {
    {"kind", set_kind, false, false},
    {"api_key", set_key, false, false},
    {"api_key_command", set_key_command, false, false},
    {"template", set_template, false, false},
    {"domain", set_domain, false, false},
    {"api_url", set_api_url, false, false},
    {"sandbox_url", set_sandbox_url, false, false},
    {"headers", add_header, true, false},
    {"envs", add_env, true, false},
    {"timeout", set_timeout, false, false},
    {"internet", set_internet, false, true},
    {"auto_pause", set_auto_pause, false, false},
    {"api", set_api, false, false},
    {"price", set_price, true, false},
};
const size_t config_n_sandbox_keys = LEN(config_sandbox_keys);
