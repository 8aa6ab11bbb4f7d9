/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Frames of a relay. Pieces make no difference; nothing comes before the word,
 * and no frame twice or without those before it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/e2b_relay_internal.h"

#define WORD "0123456789abcdef0123456789abcdef"
#define MAX_OUT_BYTES (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_relay: %s\n", what);
    abort();
}

static void
take(void *ctx, enum e2b_relay_kind kind, const char *data, size_t len)
{
    struct sbuf *out = ctx;

    require(strchr("oevs", (int)kind) != NULL, "a kind");
    require(len <= E2B_RELAY_MAX_FRAME_BYTES, "a length");
    sbuf_addf(out, "%c%zu:", (char)kind, len);
    sbuf_add(out, data, len);
}

static void
feed(const char *data, size_t size, size_t step, struct sbuf *out)
{
    struct e2b_relay r;
    struct error err = {0};
    int rc = 0;

    e2b_relay_init(&r);
    e2b_relay_await(&r, WORD);
    for (size_t at = 0; at < size && rc == 0; at += step) {
        size_t n = size - at < step ? size - at : step;
        AUTO_FREE char *piece = xmemdup(data + at, n);

        rc = e2b_relay_feed(&r, piece, n, take, out, &err);
    }
    require((rc < 0) == (err.code == ERR_PROTOCOL), "a wrong error");
    require(out->len == 0 || memmem(data, size, WORD, strlen(WORD)) != NULL,
            "frames without the word");
    sbuf_addf(out, "%d %llu", rc, (unsigned long long)r.last);
    e2b_relay_fini(&r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_SBUF struct sbuf whole = {0};
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&whole, MAX_OUT_BYTES);
    sbuf_init(&out, MAX_OUT_BYTES);
    feed((const char *)data, size, size + 1, &whole);
    for (size_t step = 1; step < 32; step = 2 * step + 1) {
        sbuf_clear(&out);
        feed((const char *)data, size, step, &out);
        require(out.len == whole.len &&
                    memcmp(out.data, whole.data, out.len) == 0,
                "pieces change it");
    }
    return 0;
}
