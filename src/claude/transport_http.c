/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/transport.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"

#define VENDOR_URL "https://api.anthropic.com"
#define VENDOR_DOMAIN "anthropic.com"
#define VENDOR_VERSION "2026-10-21"

/* What servers of other vendors know. */
#define OTHER_VERSION "2023-06-01"

#define STALL_MS 120000

struct transport_http {
    struct http *http;        /* borrowed */
    const struct secret *key; /* borrowed: from the configuration */
    bool key_in_x_api_key;
    bool needs_key; /* and there is none */
    char *base_url; /* owned; without a slash at the end */
    char *version;  /* owned */
    int64_t stall_ms;
    const struct http_extra_header *headers; /* borrowed: the configuration */
    size_t n_headers;
};

/* A transport_call is the call of net/http; only this file knows. */
static struct http_call *
to_http(struct transport_call *call)
{
    return (struct http_call *)(void *)call;
}

/* Whether a header takes the place of the key. */
static bool
is_key_header(const struct http_extra_header *h)
{
    return str_eq_nocase(h->name, "authorization") ||
           str_eq_nocase(h->name, "x-api-key");
}

static bool
has_own_credentials(const struct transport_http *t)
{
    for (size_t i = 0; i < t->n_headers; i++) {
        if (is_key_header(&t->headers[i])) {
            return true;
        }
    }
    return false;
}

/* The header by whose name one may guess that its value is a secret; NULL:
   there is none. */
static const char *
find_secret_header(const struct transport_http_config *config)
{
    static const char *const parts[] = {"auth", "key", "token", "secret",
                                        "cookie"};

    for (size_t i = 0; i < config->n_headers; i++) {
        const struct http_extra_header *h = &config->headers[i];

        for (size_t k = 0; k < LEN(parts) && !secret_is_empty(h->value); k++) {
            if (strcasestr(h->name, parts[k]) != NULL) {
                return h->name;
            }
        }
    }
    return NULL;
}

static struct transport_call *
start(void *transport, const struct transport_request *request,
      const struct transport_handlers *handlers, void *ctx, struct error *err)
{
    const struct transport_http *t = transport;
    AUTO_FREE char *url = xasprintf("%s%s", t->base_url, request->path);
    struct http_call *call = NULL;
    const struct http_header headers[] = {
        {"Content-Type", "application/json"},
        {"Accept", "application/json"},
        {"anthropic-version", t->version},
    };
    struct http_request http_request = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .n_headers = LEN(headers),
        .secret_header = t->key_in_x_api_key ? "x-api-key" : "Authorization",
        .secret_prefix = t->key_in_x_api_key ? "" : "Bearer ",
        .secret = t->key,
        .body = request->body,
        .extra = t->headers,
        .n_extra = t->n_headers,
        .body_len = request->body_len,
        .stall_ms = t->stall_ms,
        /* Each that the service reads is billed. Its connections are kept, and
           claude.c tries again, but counts that and says it. */
        .send_once = true,
    };
    const struct http_handlers http_handlers = {
        .on_head = handlers->on_head,
        .on_body = handlers->on_body,
        .on_done = handlers->on_done,
    };

    if (t->needs_key) {
        error_fill(err, ERR_AUTH, "no key for %s", t->base_url);
        return NULL;
    }
    /* A server must not be shown two. */
    if (secret_is_empty(t->key) || has_own_credentials(t)) {
        http_request.secret_header = NULL;
    }
    call = http_start(t->http, &http_request, &http_handlers, ctx, err);
    /* All of it comes from the settings: the address, the key, headers. */
    if (call == NULL && err != NULL && err->code == ERR_USAGE)
        err->code = ERR_CONFIG;
    return (struct transport_call *)(void *)call;
}

static const char *
header(const struct transport_call *call, const char *name)
{
    return http_header((const struct http_call *)(const void *)call, name);
}

static void
cancel(struct transport_call *call)
{
    http_cancel(to_http(call));
}

static void
drop(struct transport_call *call)
{
    http_drop(to_http(call));
}

static void
free_transport(void *transport)
{
    struct transport_http *t = transport;

    free(t->base_url);
    free(t->version);
    free(t);
}

static const struct transport_ops http_ops = {
    .name = "http",
    .is_replay = false,
    .start = start,
    .header = header,
    .cancel = cancel,
    .drop = drop,
    .free = free_transport,
};

/* Whether an https:// address is one of the vendor's own. */
static bool
is_vendor(const char *url)
{
    const char *host = url + strlen("https://");
    size_t len;

    if (!str_starts(url, "https://")) {
        return false;
    }
    len = strcspn(host, ":/?#");
    if (len < strlen(VENDOR_DOMAIN) ||
        strncasecmp(host + len - strlen(VENDOR_DOMAIN), VENDOR_DOMAIN,
                    strlen(VENDOR_DOMAIN)) != 0) {
        return false;
    }
    return len == strlen(VENDOR_DOMAIN) ||
           host[len - strlen(VENDOR_DOMAIN) - 1] == '.';
}

/* Whether the host of an http:// or https:// address is this machine. */
static bool
is_loopback(const char *url)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = strstr(url, "://") + strlen("://");

    for (size_t i = 0; i < LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);

        if (strncasecmp(host, hosts[i], len) == 0 &&
            (host[len] == '\0' || host[len] == ':' || host[len] == '/'))
            return true;
    }
    return false;
}

static const char *
get_url(const struct transport_http_config *config)
{
    return str_blank(config->base_url) ? VENDOR_URL : config->base_url;
}

bool
transport_http_needs_key(const struct transport_http_config *config)
{
    const char *url = get_url(config);
    bool has_header = false;

    if (!secret_is_empty(config->key)) {
        return false;
    }
    for (size_t i = 0; i < config->n_headers; i++) {
        const struct http_extra_header *h = &config->headers[i];

        if (secret_is_empty(h->value)) {
            continue;
        }
        has_header = true;
        if (is_key_header(h)) {
            return false;
        }
    }
    if (is_vendor(url)) {
        return true;
    }
    /* A key could not even be sent to another machine over http. */
    return !has_header && str_starts(url, "https://") && !is_loopback(url);
}

/* Nothing secret travels unencrypted, but for this machine itself. */
static int
check_secrets(const struct transport_http_config *config, struct error *err)
{
    const char *url = get_url(config);
    const char *header = find_secret_header(config);

    if (!str_starts(url, "http://") || is_loopback(url)) {
        return 0;
    }
    if (!secret_is_empty(config->key)) {
        return err_set(
            err, ERR_CONFIG,
            "model.base_url: %s would carry the key unencrypted; https is "
            "needed but for this machine itself",
            url);
    }
    if (header != NULL) {
        return err_set(
            err, ERR_CONFIG,
            "model.base_url: %s would carry the header %s unencrypted; "
            "https is needed but for this machine itself",
            url, header);
    }
    return 0;
}

int
transport_http(struct http *http, const struct transport_http_config *config,
               struct transport *out, struct error *err)
{
    const char *url = get_url(config);
    const char *version = config->api_version;
    struct transport_http *t;
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    if (!str_starts(url, "http://") && !str_starts(url, "https://")) {
        return err_set(err, ERR_USAGE,
                       "model.base_url: %s is not an http or https address",
                       url);
    }
    if (check_secrets(config, err) < 0) {
        return -1;
    }
    t = xcalloc(1, sizeof(*t));
    t->http = http;
    t->key = config->key;
    t->needs_key = transport_http_needs_key(config);
    t->key_in_x_api_key = config->key_in_x_api_key;
    t->base_url = xstrndup(url, len);
    if (str_blank(version)) {
        version = is_vendor(t->base_url) ? VENDOR_VERSION : OTHER_VERSION;
    }
    t->version = xstrdup(version);
    t->stall_ms = config->stall_ms > 0 ? config->stall_ms : STALL_MS;
    t->headers = config->headers;
    t->n_headers = config->n_headers;
    *out = (struct transport){
        .ops = &http_ops, .impl = t, .is_foreign = !is_vendor(t->base_url)};
    return 0;
}

void
transport_fini(struct transport *t)
{
    if (t->ops != NULL) {
        t->ops->free(t->impl);
    }
    *t = (struct transport){0};
}
