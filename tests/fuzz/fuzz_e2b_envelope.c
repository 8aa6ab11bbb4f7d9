/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A stream of envelopes. Pieces make no difference; a message keeps the limit,
 * and written again it is what it was; none comes behind the end. What is said
 * of how a call ended is one short line.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "sandbox/e2b_envelope_internal.h"

#define MAX_MESSAGE_BYTES 300u
#define MAX_OUT_BYTES (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct sbuf again; /* the messages, written again */
    bool ended;
    size_t n;
};

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_envelope: %s\n", what);
    abort();
}

static void
check_status(const struct e2b_status *s)
{
    size_t len;

    require(strlen(e2b_code_name(s->code)) > 0, "a code without a name");
    if (s->message == NULL)
        return;
    len = strlen(s->message);
    require(len > 0 && len <= E2B_STATUS_MAX_MESSAGE_BYTES, "its length");
    require(utf8_valid(s->message, len), "a message that is no text");
    for (size_t i = 0; i < len; i++)
        require((unsigned char)s->message[i] >= 0x20, "a control in it");
}

static void
try_end(const char *text, size_t len)
{
    struct e2b_status s = {0};
    struct error err = {0};
    int rc = e2b_status_of_end(text, len, &s, &err);

    require(rc == 0 ? err.code == ERR_NONE : err.code == ERR_PROTOCOL,
            "a wrong error");
    check_status(&s);
    e2b_status_fini(&s);
}

static void
try_failure(int http_status, const char *text, size_t len)
{
    struct e2b_status s = {0};

    e2b_status_of_failure(http_status, text, len, &s);
    require(s.code != E2B_OK, "a failure that is none");
    check_status(&s);
    e2b_status_fini(&s);
}

static int
take(void *ctx, const char *text, size_t len, bool is_end)
{
    struct run *r = ctx;
    AUTO_FREE char *copy = xmemdup(text, len);
    size_t at = r->again.len;

    require(!r->ended, "a message behind the end");
    require(len <= MAX_MESSAGE_BYTES, "a message is too long");
    r->ended = is_end;
    r->n++;
    e2b_envelope_add(&r->again, copy, len);
    if (is_end) {
        r->again.data[at] = 2;
        try_end(copy, len);
    }
    return 0;
}

static void
feed(const char *data, size_t size, size_t step, struct sbuf *out)
{
    struct run r = {0};
    struct e2b_envelope e;
    struct error err = {0};
    int rc = 0;

    sbuf_init(&r.again, MAX_OUT_BYTES);
    e2b_envelope_init(&e, MAX_MESSAGE_BYTES);
    for (size_t i = 0; i < size && rc == 0; i += step) {
        size_t n = size - i < step ? size - i : step;
        AUTO_FREE char *piece = xmemdup(data + i, n);

        rc = e2b_envelope_feed(&e, piece, n, take, &r, &err);
    }
    require((rc < 0) == (err.code != ERR_NONE), "a failure without an error");
    require(r.again.len <= size && memcmp(r.again.data, data, r.again.len) == 0,
            "messages that nobody sent");
    require((e2b_envelope_finish(&e, NULL) == 0) == r.ended, "a wrong end");
    require(rc != 0 || !r.ended || r.again.len == size, "bytes are lost");
    sbuf_addf(out, "%zu %zu %d %d", r.n, r.again.len, rc, (int)err.code);
    e2b_envelope_fini(&e);
    sbuf_fini(&r.again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 100};
    static const int statuses[] = {400, 401, 404, 409, 502, 299};
    const char *text = (const char *)data;
    AUTO_SBUF struct sbuf whole = {0};
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&whole, 200);
    sbuf_init(&out, 200);
    feed(text, size, size > 0 ? size : 1, &whole);
    for (size_t i = 0; i < LEN(steps); i++) {
        sbuf_clear(&out);
        feed(text, size, steps[i], &out);
        require(strcmp(out.data, whole.data) == 0, "pieces change it");
    }
    try_end(text, size);
    for (size_t i = 0; i < LEN(statuses); i++)
        try_failure(statuses[i], text, size);
    return 0;
}
