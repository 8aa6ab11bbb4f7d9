/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_envelope_internal.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/service_words_internal.h"

#define FLAG_COMPRESSED 0x01u
#define FLAG_END 0x02u

/* The room of a larger message is given back. */
#define LARGE_BYTES ((size_t)1 << 20)

static const char *const code_names[] = {
    [E2B_OK] = "ok",
    [E2B_CANCELED] = "canceled",
    [E2B_UNKNOWN] = "unknown",
    [E2B_INVALID_ARGUMENT] = "invalid_argument",
    [E2B_DEADLINE_EXCEEDED] = "deadline_exceeded",
    [E2B_NOT_FOUND] = "not_found",
    [E2B_ALREADY_EXISTS] = "already_exists",
    [E2B_PERMISSION_DENIED] = "permission_denied",
    [E2B_RESOURCE_EXHAUSTED] = "resource_exhausted",
    [E2B_FAILED_PRECONDITION] = "failed_precondition",
    [E2B_ABORTED] = "aborted",
    [E2B_OUT_OF_RANGE] = "out_of_range",
    [E2B_UNIMPLEMENTED] = "unimplemented",
    [E2B_INTERNAL] = "internal",
    [E2B_UNAVAILABLE] = "unavailable",
    [E2B_DATA_LOSS] = "data_loss",
    [E2B_UNAUTHENTICATED] = "unauthenticated",
};

/*
 * For answers that name no code, as those of the proxy in front of the sandbox
 * and of the daemon's check of tokens. 409 is the proxy's word for a sandbox
 * that is changing state: a file that exists is told by its code. A gateway's
 * 504 says nothing of the deadline of the call.
 */
static const struct {
    int http_status;
    enum e2b_code code;
} by_http_status[] = {
    {400, E2B_INVALID_ARGUMENT},   {401, E2B_UNAUTHENTICATED},
    {403, E2B_PERMISSION_DENIED},  {404, E2B_NOT_FOUND},
    {405, E2B_UNIMPLEMENTED},      {409, E2B_ABORTED},
    {413, E2B_RESOURCE_EXHAUSTED}, {415, E2B_UNIMPLEMENTED},
    {429, E2B_RESOURCE_EXHAUSTED}, {499, E2B_CANCELED},
    {500, E2B_INTERNAL},           {501, E2B_UNIMPLEMENTED},
    {502, E2B_UNAVAILABLE},        {503, E2B_UNAVAILABLE},
    {504, E2B_UNAVAILABLE},        {507, E2B_RESOURCE_EXHAUSTED},
};

/* --- reading --- */

void
e2b_envelope_init(struct e2b_envelope *e, size_t max_bytes)
{
    memset(e, 0, sizeof(*e));
    e->max_bytes = max_bytes > 0 && max_bytes < E2B_ENVELOPE_MAX_BYTES
                       ? max_bytes
                       : E2B_ENVELOPE_MAX_BYTES;
    sbuf_init(&e->part, E2B_ENVELOPE_HEAD_BYTES + e->max_bytes);
}

void
e2b_envelope_fini(struct e2b_envelope *e)
{
    sbuf_fini(&e->part);
}

static size_t
message_len(const struct e2b_envelope *e)
{
    const unsigned char *p = (const unsigned char *)e->part.data;

    return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
}

static int
check_head(const struct e2b_envelope *e, struct error *err)
{
    unsigned flags = (unsigned char)e->part.data[0];
    size_t len = message_len(e);

    if ((flags & FLAG_COMPRESSED) != 0)
        return err_set(err, ERR_PROTOCOL,
                       "a message of the stream is compressed (flags 0x%02x), "
                       "which was not asked for",
                       flags);
    if ((flags & ~FLAG_END) != 0)
        return err_set(err, ERR_PROTOCOL,
                       "a message of the stream has flags 0x%02x", flags);
    if (len > e->max_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "a message of the stream has %zu bytes; at most %zu "
                       "are taken",
                       len, e->max_bytes);
    return 0;
}

/* Moves bytes to the part until it has n. Returns how many it took. */
static size_t
take(struct e2b_envelope *e, size_t n, const char *bytes, size_t len)
{
    size_t missing = n - e->part.len;

    if (missing > len)
        missing = len;
    sbuf_add(&e->part, bytes, missing);
    return missing;
}

/* The message is whole. */
static int
deliver(struct e2b_envelope *e, e2b_envelope_fn fn, void *ctx)
{
    bool is_end = ((unsigned char)e->part.data[0] & FLAG_END) != 0;
    int rc;

    e->ended = is_end;
    rc = fn(ctx, e->part.data + E2B_ENVELOPE_HEAD_BYTES,
            e->part.len - E2B_ENVELOPE_HEAD_BYTES, is_end);
    if (rc != 0)
        return rc;
    if (e->part.cap > LARGE_BYTES) {
        sbuf_fini(&e->part);
        sbuf_init(&e->part, E2B_ENVELOPE_HEAD_BYTES + e->max_bytes);
    }
    sbuf_clear(&e->part);
    return 0;
}

int
e2b_envelope_feed(struct e2b_envelope *e, const char *bytes, size_t len,
                  e2b_envelope_fn fn, void *ctx, struct error *err)
{
    size_t at = 0;

    while (at < len) {
        int rc;

        if (e->ended)
            return err_set(err, ERR_PROTOCOL,
                           "%zu bytes of the stream are behind its end",
                           len - at);
        if (e->part.len < E2B_ENVELOPE_HEAD_BYTES) {
            at += take(e, E2B_ENVELOPE_HEAD_BYTES, bytes + at, len - at);
            if (e->part.len < E2B_ENVELOPE_HEAD_BYTES)
                return 0;
            if (check_head(e, err) < 0)
                return -1;
        }
        at += take(e, E2B_ENVELOPE_HEAD_BYTES + message_len(e), bytes + at,
                   len - at);
        if (e->part.len < E2B_ENVELOPE_HEAD_BYTES + message_len(e))
            return 0;
        rc = deliver(e, fn, ctx);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int
e2b_envelope_finish(const struct e2b_envelope *e, struct error *err)
{
    if (e->ended)
        return 0;
    if (e->part.len > 0)
        return err_set(err, ERR_NET, "the stream was cut within a message");
    return err_set(err, ERR_NET, "the stream was cut before its end");
}

/* --- writing --- */

void
e2b_envelope_add(struct sbuf *sb, const char *text, size_t len)
{
    unsigned char head[E2B_ENVELOPE_HEAD_BYTES] = {
        0,
        (unsigned char)(len >> 24 & 0xff),
        (unsigned char)(len >> 16 & 0xff),
        (unsigned char)(len >> 8 & 0xff),
        (unsigned char)(len & 0xff),
    };
    size_t before = sb->len;

    assert(len <= E2B_ENVELOPE_MAX_BYTES);
    sbuf_add(sb, head, sizeof(head));
    sbuf_add(sb, text, len);
    if (!sbuf_ok(sb))
        sbuf_truncate(sb, before);
}

/* --- how a call ended --- */

const char *
e2b_code_name(enum e2b_code code)
{
    return code_names[code];
}

void
e2b_status_fini(struct e2b_status *s)
{
    free(s->message);
    memset(s, 0, sizeof(*s));
}

/* E2B_OK: there is none, or it is none of a failure. */
static enum e2b_code
code_of(const struct cJSON *body)
{
    const char *name = json_string(body, "code");

    for (size_t i = E2B_OK + 1; i < LEN(code_names); i++)
        if (name != NULL && strcmp(name, code_names[i]) == 0)
            return (enum e2b_code)i;
    return E2B_OK;
}

/* Text of the peer as one line of bounded length; NULL: it is empty. */
static char *
one_line(const char *text, size_t len)
{
    AUTO_SBUF struct sbuf line = {0};

    sbuf_init(&line, SERVICE_WORDS_MAX_BYTES);
    service_words_add(&line, text, len);
    sbuf_truncate(
        &line, utf8_floor(line.data, line.len, E2B_STATUS_MAX_MESSAGE_BYTES));
    return line.len > 0 ? sbuf_take(&line) : NULL;
}

static char *
message_of(const struct cJSON *body)
{
    const char *text = json_string(body, "message");

    return text != NULL ? one_line(text, strlen(text)) : NULL;
}

int
e2b_status_of_end(const char *text, size_t len, struct e2b_status *out,
                  struct error *err)
{
    AUTO_JSON struct cJSON *end = json_parse(text, len, 0, err);
    const struct cJSON *error = json_get(end, "error");
    AUTO_FREE char *printed = NULL;
    bool is_ok;

    if (end == NULL)
        return err_wrap(err, "the end of the stream");
    if (!json_is_object(end))
        return err_set(err, ERR_PROTOCOL, "the end of the stream is no object");
    printed = json_print(error);
    is_ok = strcmp(printed, "null") == 0;
    if (!is_ok && !json_is_object(error))
        return err_set(err, ERR_PROTOCOL,
                       "the end of the stream: error is no object");
    out->code = is_ok ? E2B_OK : code_of(error);
    if (!is_ok && out->code == E2B_OK)
        out->code = E2B_UNKNOWN;
    out->message = message_of(error);
    return 0;
}

static enum e2b_code
code_of_http(int http_status)
{
    for (size_t i = 0; i < LEN(by_http_status); i++)
        if (by_http_status[i].http_status == http_status)
            return by_http_status[i].code;
    return E2B_UNKNOWN;
}

/* The first line of a body that is no JSON; pages are not for reading. */
static char *
plain_message(const char *body, size_t len)
{
    const char *feed;

    while (len > 0 && (*body == ' ' || *body == '\n' || *body == '\r')) {
        body++;
        len--;
    }
    if (len == 0 || *body == '<')
        return NULL;
    feed = memchr(body, '\n', len);
    return one_line(body, feed != NULL ? (size_t)(feed - body) : len);
}

void
e2b_status_of_failure(int http_status, const char *body, size_t len,
                      struct e2b_status *out)
{
    AUTO_JSON struct cJSON *json = json_parse(body, len, 0, NULL);

    memset(out, 0, sizeof(*out));
    if (json_is_object(json)) {
        out->code = code_of(json);
        out->message = message_of(json);
    } else {
        out->message = plain_message(body, len);
        /* What routes the calls knows no such method. */
        if (http_status == 404)
            out->code = E2B_UNIMPLEMENTED;
    }
    if (out->code == E2B_OK)
        out->code = code_of_http(http_status);
}
