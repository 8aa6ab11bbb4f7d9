/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/str.h"

/* Results of checking a certificate (X509_V_ERR_...) that mean that nobody who
   is trusted has signed it. */
static const long unknown_issuer[] = {2, 18, 19, 20, 21};

struct result_text {
    CURLcode result;
    const char *before; /* the name of the host */
    const char *after;
};

/* What happens often, in words of ours; for the rest libcurl's must do. */
static const struct result_text result_texts[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "no address is known for ",
     "; is the name right and the network up?"},
    {CURLE_COULDNT_RESOLVE_PROXY, "no address is known for the proxy to ",
     "; see https_proxy"},
    {CURLE_PARTIAL_FILE, "the connection to ", " broke off"},
    {CURLE_RECV_ERROR, "the connection to ", " broke off"},
    {CURLE_SEND_ERROR, "the connection to ", " broke off"},
    {CURLE_GOT_NOTHING, "", " closed the connection without an answer"},
    /* It was not to begin again. */
    {CURLE_SEND_FAIL_REWIND, "", " closed the connection without an answer"},
};

/* libcurl's text without what it puts before the cause. */
static const char *
get_cause(const struct http_call *call)
{
    static const char *const prefixes[] = {"SSL certificate problem: ",
                                           "SSL: "};
    const char *text = call->curl_message;

    if (text[0] == '\0') {
        return curl_easy_strerror(call->result);
    }
    for (size_t i = 0; i < LEN(prefixes); i++) {
        if (str_starts(text, prefixes[i])) {
            return text + strlen(prefixes[i]);
        }
    }
    return text;
}

/* Without the point at its end. */
static int
cause_len(const char *text)
{
    size_t len = strlen(text);

    while (len > 0 && (text[len - 1] == '.' || text[len - 1] == '\n')) {
        len--;
    }
    return (int)len;
}

static void
describe_certificate(const struct http_call *call, struct error *err)
{
    const char *cause = get_cause(call);
    const char *key = call->http->ca_name;
    long verified = 0;
    bool unknown = false;

    curl_easy_getinfo(call->easy, CURLINFO_SSL_VERIFYRESULT, &verified);
    for (size_t i = 0; i < LEN(unknown_issuer); i++) {
        unknown = unknown || verified == unknown_issuer[i];
    }
    error_fill(err, ERR_PROTOCOL,
               "the certificate of %s is not accepted: %.*s%s%s%s", call->host,
               cause_len(cause), cause,
               unknown && key != NULL ? "; behind a company's proxy, " : "",
               unknown && key != NULL ? key : "",
               unknown && key != NULL ? " names its certificates" : "");
}

static bool
is_proxy_address(const struct http_call *call)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY",
                                        "http_proxy", "all_proxy", "ALL_PROXY"};
    bool named = false;
    char own[300];

    for (size_t i = 0; i < LEN(names); i++) {
        named = named || !str_blank(getenv(names[i]));
    }
    if (!named) {
        return false;
    }
    /* The text names the address that was tried. */
    snprintf(own, sizeof(own), "Failed to connect to %s port %s ", call->host,
             call->port);
    return str_starts(call->curl_message, "Failed to connect to ") &&
           !str_starts(call->curl_message, own);
}

static void
describe_connecting(const struct http_call *call, struct error *err)
{
    long number = 0;
    bool proxy = is_proxy_address(call);

    /* libcurl's text repeats the value, which may hold a password. */
    if (str_starts(call->curl_message, "Unsupported proxy")) {
        error_fill(err, ERR_CONFIG,
                   "https_proxy: a kind of proxy that is not known; it begins "
                   "with http://, https:// or socks5://");
        return;
    }
    curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
    error_fill(err, ERR_NET, "no connection to %s%s%s: %s%s",
               proxy ? "the proxy for " : call->host, proxy ? "" : " port ",
               proxy ? call->host : call->port,
               number > 0 ? strerror((int)number) : get_cause(call),
               proxy ? "; see https_proxy" : "");
}

/* What a proxy answered to CONNECT, or that it did not; false: no proxy. */
static bool
describe_proxy(const struct http_call *call, struct error *err)
{
    long status = 0;

    curl_easy_getinfo(call->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (status == 407) {
        error_fill(err, ERR_REMOTE,
                   "the proxy asks for a user name and a password (407); they "
                   "belong into https_proxy");
        return true;
    }
    if (status != 0 && (status < 200 || status > 299)) {
        /* 502 to 504: what it was asked for may be there later. */
        error_fill(err, status >= 500 ? ERR_NET : ERR_REMOTE,
                   "the proxy refuses to connect to %s (%ld)", call->host,
                   status);
        return true;
    }
    if (str_starts(call->curl_message, "Proxy CONNECT aborted")) {
        error_fill(err, ERR_NET, "the proxy broke off the connection to %s",
                   call->host);
        return true;
    }
    return false;
}

static void
describe_otherwise(const struct http_call *call, struct error *err)
{
    const char *text = get_cause(call);
    char first = text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a'
                     ? (char)(text[0] - 'A' + 'a')
                     : text[0];
    int len = cause_len(text);
    enum error_code code = call->result == CURLE_SSL_CERTPROBLEM ||
                                   call->result == CURLE_SSL_INVALIDCERTSTATUS
                               ? ERR_PROTOCOL
                           : call->result == CURLE_SSL_CACERT_BADFILE
                               ? ERR_CONFIG
                               : ERR_NET;

    if (call->result == CURLE_SSL_CONNECT_ERROR) {
        const char *colon = strrchr(text, ':');

        text = colon != NULL ? colon + 1 : text;
        error_fill(err, code, "no secure connection to %s: %.*s", call->host,
                   cause_len(text), text);
        return;
    }
    error_fill(err, code, "%s: %c%.*s", call->host, first,
               len > 0 ? len - 1 : 0, text + 1);
}

void
http_describe_failure(const struct http_call *call, struct error *err)
{
    AUTO_SBUF struct sbuf time = {0};

    if (call->result == CURLE_OPERATION_TIMEDOUT) {
        /* libcurl has no other limit from us than that on connecting. */
        sbuf_init(&time, STR_DURATION_BYTES);
        str_add_duration(&time, call->http->connect_ms);
        error_fill(err, ERR_TIMEOUT, "no connection to %s within %s",
                   call->host, time.data);
        return;
    }
    if (call->result == CURLE_PEER_FAILED_VERIFICATION ||
        call->result == CURLE_SSL_ISSUER_ERROR) {
        describe_certificate(call, err);
        return;
    }
    if (call->result == CURLE_COULDNT_CONNECT) {
        describe_connecting(call, err);
        return;
    }
    if (describe_proxy(call, err)) {
        return;
    }
    for (size_t i = 0; i < LEN(result_texts); i++) {
        if (result_texts[i].result == call->result) {
            error_fill(err, ERR_NET, "%s%s%s", result_texts[i].before,
                       call->host, result_texts[i].after);
            return;
        }
    }
    describe_otherwise(call, err);
}
