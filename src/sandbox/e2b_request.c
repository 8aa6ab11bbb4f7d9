/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_wire_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/utf8.h"
#include "net/http.h"

#define MAX_URL_BYTES ((size_t)2048)
#define MAX_BODY_BYTES ((size_t)1 << 20)
#define MAX_PORT 65535

enum { DEFAULT_TIMEOUT_S = 300, MAX_HOST_LABEL_BYTES = 63 };

static const char digits[] = "0123456789";
static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char unreserved[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

/* --- names and addresses --- */

bool
e2b_is_id(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= E2B_MAX_ID_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == len;
}

bool
e2b_is_plain(const char *text)
{
    return text[0] != '\0' && strlen(text) <= E2B_MAX_LABEL_BYTES &&
           text[strspn(text, unreserved)] == '\0';
}

static bool
is_ipv4(const char *text)
{
    struct in_addr address;

    return inet_pton(AF_INET, text, &address) == 1;
}

/* Labels with a "." between them; an IPv4 address is one if it is good, since a
   last label of digits is not taken for a name anywhere. */
static bool
is_host(const char *text)
{
    const char *label = text;

    if (strlen(text) > E2B_MAX_DOMAIN_BYTES) {
        return false;
    }
    for (;;) {
        size_t len = strcspn(label, ".");
        size_t n_digits = strspn(label, digits);

        if (len == 0 || len > MAX_HOST_LABEL_BYTES || label[0] == '-' ||
            label[len - 1] == '-') {
            return false;
        }
        for (size_t i = 0; i < len; i++) {
            if (strchr(letters, label[i]) == NULL &&
                strchr(digits, label[i]) == NULL && label[i] != '-') {
                return false;
            }
        }
        if (label[len] == '\0') {
            return n_digits < len || is_ipv4(text);
        }
        label += len + 1;
    }
}

/* Nothing, or ":" and a number, of at most five digits since the place for it
   is limited. */
static bool
is_port_part(const char *text)
{
    int64_t port;

    return text[0] == '\0' ||
           (text[0] == ':' && strlen(text) <= strlen(":65535") &&
            text[1 + strspn(text + 1, digits)] == '\0' &&
            str_to_int(text + 1, 1, MAX_PORT, &port, NULL) == 0);
}

bool
e2b_is_domain(const char *text)
{
    size_t len = strcspn(text, ":");
    AUTO_FREE char *host = xstrndup(text, len);

    return is_host(host) && is_port_part(text + len);
}

/* The same, or an IPv6 address in brackets. */
static bool
is_authority(const char *text)
{
    struct in6_addr address;
    const char *end = strchr(text, ']');
    AUTO_FREE char *inside = NULL;

    if (text[0] != '[' || end == NULL) {
        return e2b_is_domain(text);
    }
    inside = xstrndup(text + 1, (size_t)(end - text) - 1);
    return inet_pton(AF_INET6, inside, &address) == 1 && is_port_part(end + 1);
}

/* The host of an http or https address, that has no more than a path, with its
   port; NULL when it is none. */
static char *
find_host(const char *url)
{
    AUTO_FREE char *host = NULL;
    const char *start;

    if (!str_starts(url, "https://") && !str_starts(url, "http://")) {
        return NULL;
    }
    for (const char *c = url; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~' || strchr("?#@\\\"<>", *c) != NULL) {
            return NULL;
        }
    }
    start = strstr(url, "://") + strlen("://");
    host = xstrndup(start, strcspn(start, "/"));
    return is_authority(host) ? take_ptr(&host) : NULL;
}

static char *
without_slashes(const char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    return xstrndup(url, len);
}

static bool
is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < LEN(names); i++) {
        size_t len = strlen(names[i]);

        if (strncasecmp(host, names[i], len) == 0 &&
            (host[len] == '\0' || host[len] == ':')) {
            return true;
        }
    }
    return false;
}

/* Adds what stands for a placeholder, at its brace; returns its length, or 0
   when it is none. */
static size_t
add_placeholder(struct sbuf *sb, const char *at, const char *id, int port,
                const char *domain)
{
    if (str_starts(at, "{id}")) {
        sbuf_add_str(sb, id);
        return strlen("{id}");
    }
    if (str_starts(at, "{port}")) {
        sbuf_addf(sb, "%d", port);
        return strlen("{port}");
    }
    if (str_starts(at, "{domain}")) {
        sbuf_add_str(sb, domain);
        return strlen("{domain}");
    }
    return 0;
}

char *
e2b_sandbox_url(const char *form, const char *id, int port, const char *domain,
                struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *host = NULL;

    if (!e2b_is_id(id)) {
        error_fill(err, ERR_PROTOCOL,
                   "sandbox \"%.80s\": not an id of a-z and 0-9", id);
        return NULL;
    }
    if (!e2b_is_domain(domain)) {
        error_fill(err, ERR_PROTOCOL,
                   "domain \"%.80s\" of a sandbox: not the name of a host",
                   domain);
        return NULL;
    }
    if (str_blank(form)) {
        form = "https://{port}-{id}.{domain}";
    }
    sbuf_init(&sb, MAX_URL_BYTES);
    for (const char *at = form; *at != '\0';) {
        size_t len = *at == '{' || *at == '}'
                         ? add_placeholder(&sb, at, id, port, domain)
                         : 0;

        if (len == 0 && (*at == '{' || *at == '}')) {
            error_fill(err, ERR_CONFIG,
                       "sandbox_url: \"%.80s\" has a brace that belongs to "
                       "none of {id}, {port} and {domain}",
                       form);
            return NULL;
        }
        if (len == 0) {
            sbuf_add_char(&sb, *at);
            len = 1;
        }
        at += len;
    }
    host = sbuf_ok(&sb) ? find_host(sb.data) : NULL;
    if (host == NULL || port < 1 || port > MAX_PORT) {
        error_fill(err, ERR_CONFIG,
                   "sandbox_url: \"%.80s\" does not give an http or https "
                   "address of a host and a path",
                   form);
        return NULL;
    }
    return without_slashes(sb.data);
}

static int
check_encrypted(const char *setting, const char *url, const char *host,
                const char *what, struct error *err)
{
    if (str_starts(url, "https://") || is_loopback(host)) {
        return 0;
    }
    return err_set(err, ERR_CONFIG,
                   "%s: http://%s would carry %s unencrypted; https is "
                   "needed but for this machine itself",
                   setting, host, what);
}

int
e2b_check_encrypted(const char *setting, const char *url, const char *what,
                    struct error *err)
{
    AUTO_FREE char *host = find_host(url);

    return check_encrypted(setting, url, host != NULL ? host : "", what, err);
}

/* --- settings --- */

/* Nothing secret travels unencrypted, but for this machine itself. */
static int
check_secrets(const struct e2b_api_config *config, const char *host,
              struct error *err)
{
    static const char *const parts[] = {"auth", "key", "token", "secret",
                                        "cookie"};
    const char *what = secret_is_empty(config->key) ? NULL : "the key";

    for (size_t i = 0; i < config->n_headers; i++) {
        const struct http_extra_header *h = &config->headers[i];

        for (size_t k = 0; k < LEN(parts) && what == NULL; k++) {
            if (!secret_is_empty(h->value) &&
                strcasestr(h->name, parts[k]) != NULL) {
                what = h->name;
            }
        }
    }
    return what != NULL
               ? check_encrypted("api_url", config->url, host, what, err)
               : 0;
}

bool
e2b_is_rule(const char *text)
{
    const char *slash = strchr(text, '/');
    AUTO_FREE char *address = NULL;
    int64_t bits;

    if (slash == NULL) {
        return is_host(str_starts(text, "*.") ? text + 2 : text);
    }
    address = xstrndup(text, (size_t)(slash - text));
    return is_ipv4(address) && slash[1 + strspn(slash + 1, digits)] == '\0' &&
           str_to_int(slash + 1, 0, 32, &bits, NULL) == 0;
}

static int
check_hosts(const struct e2b_api_config *config, struct error *err)
{
    if (config->n_hosts > E2B_MAX_RULES) {
        return err_set(err, ERR_CONFIG, "internet: more than %zu hosts",
                       E2B_MAX_RULES);
    }
    for (size_t i = 0; i < config->n_hosts; i++) {
        if (!e2b_is_rule(config->hosts[i])) {
            return err_set(err, ERR_CONFIG,
                           "internet: \"%.80s\" is not the name of a host, "
                           "*. and such a name, an IPv4 address or an IPv4 "
                           "network",
                           config->hosts[i]);
        }
    }
    return 0;
}

static bool
is_variable(const char *name)
{
    size_t len = strspn(name, letters);

    if (len == 0 && name[0] != '_') {
        return false;
    }
    for (; name[len] != '\0'; len++) {
        if (name[len] != '_' && strchr(letters, name[len]) == NULL &&
            strchr(digits, name[len]) == NULL) {
            return false;
        }
    }
    return true;
}

static int
check_pairs(const struct e2b_api_config *config, struct error *err)
{
    for (size_t i = 0; i < config->n_envs; i++) {
        const struct e2b_pair *p = &config->envs[i];

        if (!is_variable(p->name)) {
            return err_set(err, ERR_CONFIG,
                           "envs: \"%.80s\" is not the name of a variable",
                           p->name);
        }
        if (!utf8_valid(p->value, strlen(p->value))) {
            return err_set(err, ERR_CONFIG,
                           "envs.%.80s: the value is not valid UTF-8", p->name);
        }
    }
    for (size_t i = 0; i < config->n_labels; i++) {
        const struct e2b_pair *p = &config->labels[i];

        if (!e2b_is_plain(p->name) || !e2b_is_plain(p->value)) {
            return err_set(err, ERR_CONFIG,
                           "label \"%.80s\" of a sandbox: it and its value are "
                           "of letters, digits and . _ ~ - alone",
                           p->name);
        }
    }
    return 0;
}

static int
check(const struct e2b_api_config *config, struct error *err)
{
    const char *name = config->template_name;

    if (str_blank(name) || strlen(name) > E2B_MAX_TEMPLATE_BYTES ||
        !utf8_valid(name, strlen(name))) {
        return err_set(err, ERR_CONFIG,
                       "template: \"%.80s\" is not the name or the id of a "
                       "template",
                       name != NULL ? name : "");
    }
    if (config->timeout_s < 0 || config->timeout_s > E2B_MAX_TIMEOUT_S) {
        return err_set(err, ERR_CONFIG,
                       "timeout: %lld s is not between 1 and %d",
                       (long long)config->timeout_s, E2B_MAX_TIMEOUT_S);
    }
    if (check_pairs(config, err) < 0) {
        return -1;
    }
    return config->internet == E2B_INTERNET_HOSTS ? check_hosts(config, err)
                                                  : 0;
}

static void
add_pairs(struct sbuf *sb, const char *key, const struct e2b_pair *pairs,
          size_t n)
{
    json_add_key(sb, key);
    sbuf_add_char(sb, '{');
    for (size_t i = 0; i < n; i++) {
        json_add_member_str(sb, pairs[i].name, pairs[i].value);
    }
    sbuf_add_char(sb, '}');
}

/* Hosts by name are allowed only where all else is denied. */
static void
add_internet(struct sbuf *sb, const struct e2b_api_config *config)
{
    if (config->internet != E2B_INTERNET_HOSTS || config->n_hosts == 0) {
        json_add_member_bool(sb, "allow_internet_access",
                             config->internet == E2B_INTERNET_ON);
        return;
    }
    json_add_key(sb, "network");
    sbuf_add_char(sb, '{');
    e2b_add_rules(sb, config->hosts, config->n_hosts);
    sbuf_add_char(sb, '}');
}

/* NULL when it is too large. */
static char *
make_body(const struct e2b_api_config *config, enum e2b_generation generation)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_BODY_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "templateID", config->template_name);
    json_add_member_int(&sb, "timeout",
                        config->timeout_s > 0 ? config->timeout_s
                                              : DEFAULT_TIMEOUT_S);
    if (generation == E2B_GENERATION_V1) {
        /* The second has no other, and refuses what it does not know. */
        json_add_member_bool(&sb, "secure", true);
    }
    json_add_member_bool(&sb, "autoPause", config->auto_pause);
    add_internet(&sb, config);
    add_pairs(&sb, "envVars", config->envs, config->n_envs);
    add_pairs(&sb, "metadata", config->labels, config->n_labels);
    sbuf_add_char(&sb, '}');
    return sbuf_ok(&sb) ? sbuf_take(&sb) : NULL;
}

static void
copy_internet(struct e2b_settings *s, const struct e2b_api_config *config)
{
    s->internet = config->internet;
    if (config->internet != E2B_INTERNET_HOSTS) {
        return;
    }
    if (config->n_hosts == 0) {
        s->internet = E2B_INTERNET_OFF;
        return;
    }
    s->hosts = xcalloc(config->n_hosts, sizeof(*s->hosts));
    for (size_t i = 0; i < config->n_hosts; i++) {
        s->hosts[s->n_hosts++] = xstrdup(config->hosts[i]);
    }
}

int
e2b_settings_init(struct e2b_settings *s, const struct e2b_api_config *config,
                  struct error *err)
{
    AUTO_FREE char *host = config->url != NULL ? find_host(config->url) : NULL;

    if (host == NULL) {
        return err_set(err, ERR_CONFIG,
                       "api_url: \"%.80s\" is not an http or https address of "
                       "a host and a path",
                       config->url != NULL ? config->url : "");
    }
    if (check_secrets(config, host, err) < 0 || check(config, err) < 0) {
        return -1;
    }
    s->body[0] = make_body(config, E2B_GENERATION_V1);
    s->body[1] = make_body(config, E2B_GENERATION_V2);
    if (s->body[0] == NULL || s->body[1] == NULL) {
        return err_set(err, ERR_CONFIG, "envs: more than %zu bytes altogether",
                       MAX_BODY_BYTES);
    }
    s->url = without_slashes(config->url);
    s->host = take_ptr(&host);
    s->key_setting =
        xstrdup(config->key_setting != NULL ? config->key_setting : "api_key");
    s->template_name = xstrdup(config->template_name);
    copy_internet(s, config);
    return 0;
}

void
e2b_settings_fini(struct e2b_settings *s)
{
    free(s->url);
    free(s->host);
    free(s->key_setting);
    free(s->template_name);
    free(s->body[0]);
    free(s->body[1]);
    for (size_t i = 0; i < s->n_hosts; i++) {
        free(s->hosts[i]);
    }
    free(s->hosts);
    *s = (struct e2b_settings){0};
}

/* --- small parts of requests --- */

void
e2b_add_escaped(struct sbuf *sb, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(unreserved, *c) != NULL) {
            sbuf_add_char(sb, *c);
        } else {
            sbuf_addf(sb, "%%%02X", (unsigned)(unsigned char)*c);
        }
    }
}

double
e2b_random(void)
{
    uint32_t n = 0;

    (void)!getrandom(&n, sizeof(n), GRND_NONBLOCK);
    return n / 4294967296.0;
}

int
e2b_make_uuid(char uuid[E2B_UUID_BYTES], struct error *err)
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b)) {
        return err_set_errno(err, ERR_INTERNAL, "getrandom");
    }
    /* Version 4 (random), variant 10 (RFC 9562, 5.4). */
    b[6] = (unsigned char)((b[6] & 0x0F) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
    snprintf(uuid, E2B_UUID_BYTES,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
             b[11], b[12], b[13], b[14], b[15]);
    return 0;
}
