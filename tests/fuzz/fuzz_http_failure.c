/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is said when libcurl gives up: a byte for its result, one for what
 * surrounds the call, two for the time to connect, then the host, the port and
 * libcurl's own text, with a NUL behind each. The message names the host and is
 * bounded; what the error is, and so whether it is tried again, follows from
 * the result and never from a text that a peer had a part in.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http_internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

#define HEADER_BYTES 4u
/* A longer name does not fit into a message with what is around it. */
#define MAX_HOST_BYTES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t len;
};

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_http_failure: %s\n", what);
        abort();
    }
}

/* Text up to the next NUL, at most max bytes of it; owned by the caller. */
static char *
take_text(struct input *in, size_t max)
{
    size_t n = strnlen((const char *)in->data, in->len);
    char *text = xstrndup((const char *)in->data, n < max ? n : max);

    n += n < in->len ? 1 : 0;
    in->data += n;
    in->len -= n;
    return text;
}

static bool
is_expected(enum error_code code)
{
    return code == ERR_NET || code == ERR_TIMEOUT || code == ERR_PROTOCOL ||
           code == ERR_REMOTE || code == ERR_CONFIG;
}

static void
check(struct http_call *call, const char *text)
{
    struct error err = {0};
    struct error silent = {0};
    bool aborted = str_starts(text, "Proxy CONNECT aborted");

    call->curl_message[0] = '\0';
    http_describe_failure(call, &silent);
    snprintf(call->curl_message, sizeof(call->curl_message), "%s", text);
    http_describe_failure(call, &err);
    expect(is_expected(err.code), "a code that nobody expects");
    expect(err.code == silent.code || (aborted && err.code == ERR_NET),
           "libcurl's text decides what it is");
    expect(strstr(err.msg, call->host) != NULL, "the host is not named");
    expect(strstr(silent.msg, call->host) != NULL,
           "the host is not named where libcurl says nothing");
    expect(strlen(silent.msg) > strlen(call->host) + 2, "no cause is named");
    expect(err.http_status == 0 && err.retry_after_ms == 0,
           "an answer that never came");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static CURL *easy;
    struct input in = {data, size};
    struct http http = {0};
    struct http_call call = {.http = &http};
    AUTO_FREE char *host = NULL;
    AUTO_FREE char *port = NULL;
    AUTO_FREE char *text = NULL;

    if (size < HEADER_BYTES)
        return 0;
    /* One for all: what it knows of a transfer stays empty. */
    if (easy == NULL) {
        easy = curl_easy_init();
        expect(easy != NULL, "no handle");
    }
    call.easy = easy;
    call.result = (CURLcode)(1 + data[0] % (CURL_LAST - 1));
    http.ca_name = (data[1] & 1) != 0 ? xstrdup("ssl.ca_file") : NULL;
    if ((data[1] & 2) != 0)
        setenv("https_proxy", "http://127.0.0.1:9", 1);
    else
        unsetenv("https_proxy");
    http.connect_ms = 1 + (data[2] | (int64_t)data[3] << 8);
    in.data += HEADER_BYTES;
    in.len -= HEADER_BYTES;
    host = take_text(&in, MAX_HOST_BYTES);
    port = take_text(&in, 5);
    text = take_text(&in, CURL_ERROR_SIZE);
    call.host = host;
    call.port = port;
    check(&call, text);
    free(http.ca_name);
    return 0;
}
