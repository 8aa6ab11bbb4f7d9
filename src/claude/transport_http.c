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

static bool
has_own_credentials(const struct transport_http *t)
{
    for (size_t i = 0; i < t->n_headers; i++) {
        if (str_eq_nocase(t->headers[i].name, "authorization") ||
            str_eq_nocase(t->headers[i].name, "x-api-key")) {
            return true;
        }
    }
    return false;
}

static struct transport_call *
start(void *transport, const struct transport_request *request,
      const struct transport_handlers *handlers, void *ctx, struct error *err)
{
    const struct transport_http *t = transport;
    AUTO_FREE char *url = xasprintf("%s%s", t->base_url, request->path);
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
    };
    const struct http_handlers http_handlers = {
        .on_head = handlers->on_head,
        .on_body = handlers->on_body,
        .on_done = handlers->on_done,
    };

    if (secret_is_empty(t->key)) {
        error_fill(err, ERR_AUTH, "no key for %s", t->base_url);
        return NULL;
    }
    /* A server must not be shown two. */
    if (has_own_credentials(t)) {
        http_request.secret_header = NULL;
    }
    return (struct transport_call *)(void *)http_start(
        t->http, &http_request, &http_handlers, ctx, err);
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

/* Whether the host of an http:// address is this machine. */
static bool
is_loopback(const char *url)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = url + strlen("http://");

    for (size_t i = 0; i < LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);

        if (strncasecmp(host, hosts[i], len) == 0 &&
            (host[len] == '\0' || host[len] == ':' || host[len] == '/'))
            return true;
    }
    return false;
}

int
transport_http(struct http *http, const struct transport_http_config *config,
               struct transport *out, struct error *err)
{
    const char *url =
        str_blank(config->base_url) ? VENDOR_URL : config->base_url;
    const char *version = config->api_version;
    struct transport_http *t;
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    if (!str_starts(url, "http://") && !str_starts(url, "https://")) {
        return err_set(err, ERR_USAGE,
                       "base_url: %s is not an http or https address", url);
    }
    if (str_starts(url, "http://") && !secret_is_empty(config->key) &&
        !is_loopback(url)) {
        return err_set(err, ERR_CONFIG,
                       "base_url: %s would carry the key unencrypted; https is "
                       "needed but for this machine itself",
                       url);
    }
    t = xcalloc(1, sizeof(*t));
    t->http = http;
    t->key = config->key;
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
