/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "base/str.h"

static bool
has_control(const char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7F) {
            return true;
        }
    }
    return false;
}

static char *
get_url_part(CURLU *url, CURLUPart part, unsigned flags)
{
    char *value = NULL;
    char *copy = NULL;

    if (curl_url_get(url, part, &value, flags) == CURLUE_OK) {
        copy = xstrdup(value);
    }
    curl_free(value);
    return copy;
}

int
http_check_url(const char *text, char **host, char **port, struct error *err)
{
    CURLU *url = curl_url();
    AUTO_FREE char *scheme = NULL;
    AUTO_FREE char *user = NULL;
    AUTO_FREE char *password = NULL;
    int rc = 0;

    if (url == NULL) {
        return err_set(err, ERR_NET, "libcurl has no memory");
    }
    if (curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) ==
        CURLUE_OK) {
        scheme = get_url_part(url, CURLUPART_SCHEME, 0);
        user = get_url_part(url, CURLUPART_USER, 0);
        password = get_url_part(url, CURLUPART_PASSWORD, 0);
        *host = get_url_part(url, CURLUPART_HOST, 0);
        *port = get_url_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    }
    if (scheme == NULL || *host == NULL ||
        (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)) {
        rc =
            err_set(err, ERR_USAGE, "%s is not an http or https address", text);
    } else if (user != NULL || password != NULL) {
        rc = err_set(err, ERR_USAGE, "an address with a user name in it");
    }
    curl_url_cleanup(url);
    return rc;
}

static int
add_bare_line(struct http_call *call, const char *line, struct error *err)
{
    struct curl_slist *lines = curl_slist_append(call->lines, line);

    if (lines == NULL) {
        return err_set(err, ERR_NET, "libcurl has no memory");
    }
    call->lines = lines;
    return 0;
}

static int
add_line(struct http_call *call, const char *name, const char *value,
         struct error *err)
{
    AUTO_FREE char *line = NULL;

    if (has_control(name) || has_control(value)) {
        return err_set(err, ERR_USAGE, "header %s: a control character in it",
                       has_control(name) ? "?" : name);
    }
    /* libcurl's notation for a header that is there and empty */
    line = value[0] == '\0' ? xasprintf("%s;", name)
                            : xasprintf("%s: %s", name, value);
    return add_bare_line(call, line, err);
}

static int
add_secret_line(struct http_call *call, const char *name, const char *prefix,
                const struct secret *secret, struct error *err)
{
    const char *text = secret_expose(secret);
    size_t size = strlen(name) + 2 + strlen(prefix) + strlen(text) + 1;
    struct curl_slist *line = &call->secret_lines[call->n_secret_lines];

    if (has_control(text)) {
        return err_set(err, ERR_USAGE,
                       "the value for the header %s has a control character "
                       "in it",
                       name);
    }
    /* A node of our own, since libcurl's copy could not be wiped. */
    line->data = xmalloc(size);
    snprintf(line->data, size, text[0] == '\0' ? "%s;" : "%s: %s%s", name,
             prefix, text);
    call->n_secret_lines++;
    return 0;
}

static bool
is_replaced(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->n_extra; i++) {
        if (str_eq_nocase(request->extra[i].name, name)) {
            return true;
        }
    }
    return false;
}

static int
add_secret_lines(struct http_call *call, const struct http_request *request,
                 struct error *err)
{
    const char *prefix =
        request->secret_prefix != NULL ? request->secret_prefix : "";

    call->secret_lines =
        xcalloc(request->n_extra + 1, sizeof(*call->secret_lines));
    if (request->secret_header != NULL && request->secret != NULL &&
        !is_replaced(request, request->secret_header) &&
        add_secret_line(call, request->secret_header, prefix, request->secret,
                        err) < 0) {
        return -1;
    }
    for (size_t i = 0; i < request->n_extra; i++) {
        if (add_secret_line(call, request->extra[i].name, "",
                            request->extra[i].value, err) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < call->n_secret_lines; i++) {
        call->secret_lines[i].next = i + 1 < call->n_secret_lines
                                         ? &call->secret_lines[i + 1]
                                         : call->lines;
    }
    return 0;
}

int
http_make_lines(struct http_call *call, const struct http_request *request,
                struct error *err)
{
    bool has_type = false;

    for (size_t i = 0; i < request->n_headers; i++) {
        const struct http_header *h = &request->headers[i];

        has_type = has_type || str_eq_nocase(h->name, "content-type");
        if (!is_replaced(request, h->name) &&
            add_line(call, h->name, h->value, err) < 0) {
            return -1;
        }
    }
    /* Waiting for "100 Continue" costs a second where it never comes. */
    if (add_bare_line(call, "Expect:", err) < 0) {
        return -1;
    }
    if (call->gzip != NULL &&
        (add_line(call, "Content-Encoding", "gzip", err) < 0 ||
         add_line(call, "Transfer-Encoding", "chunked", err) < 0)) {
        return -1;
    }
    if (!has_type && !is_replaced(request, "content-type") &&
        add_bare_line(call, "Content-Type:", err) < 0) {
        return -1;
    }
    return add_secret_lines(call, request, err);
}

/* These mean to carry a body (RFC 9110, 8.6): without one its length is 0.
   Others without one say nothing of a length. */
static bool
expects_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

static void
set_method(const struct http_call *call, const struct http_request *request)
{
    CURL *easy = call->easy;
    const char *usual = "GET";

    if (call->has_body || expects_body(request->method)) {
        usual = "POST";
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         call->gzip != NULL ? (curl_off_t)-1
                                            : (curl_off_t)call->body_len);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    if (strcmp(request->method, usual) != 0) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    }
}

static void
set_safety(const struct http_call *call)
{
    CURL *easy = call->easy;

    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS,
                     (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Else removing a handle waits for its name look-up, for seconds. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (call->http->ca_file != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, call->http->ca_file);
    }
}

void
http_set_options(struct http_call *call, const struct http_request *request)
{
    CURL *easy = call->easy;

    curl_easy_setopt(easy, CURLOPT_URL, request->url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->curl_message);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)HTTP_CHUNK_BYTES);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)call->http->connect_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (call->http->user_agent != NULL) {
        curl_easy_setopt(easy, CURLOPT_USERAGENT, call->http->user_agent);
    }
    if (request->own_connection) {
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    }
    if (request->http1_only || call->gzip != NULL) {
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                         (long)CURL_HTTP_VERSION_1_1);
    }
    if (str_starts(request->url, "http://")) {
        /* A proxy would see all of it in clear, and cannot reach a server on
           this machine. */
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    }
    set_safety(call);
    set_method(call, request);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER,
                     call->n_secret_lines > 0 ? call->secret_lines
                                              : call->lines);
}

void
http_free_lines(struct http_call *call)
{
    for (size_t i = 0; i < call->n_secret_lines; i++) {
        secret_wipe(call->secret_lines[i].data,
                    strlen(call->secret_lines[i].data));
        free(call->secret_lines[i].data);
    }
    free(call->secret_lines);
    call->secret_lines = NULL;
    call->n_secret_lines = 0;
    curl_slist_free_all(call->lines);
    call->lines = NULL;
}
