/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sbuf.h"
#include "net/sse.h"

#define MAX_OUT_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
take(void *ctx, const char *name, const char *data, size_t len)
{
    struct sbuf *out = ctx;

    /* No line end gets into a name, none but LF into the data. */
    if (strpbrk(name, "\r\n") != NULL || memchr(data, '\r', len) != NULL ||
        data[len] != '\0') {
        fprintf(stderr, "a line end where none can be\n");
        abort();
    }
    sbuf_addf(out, "%s=%zu:", name, len);
    sbuf_add(out, data, len);
    return 0;
}

static void
feed_pieces(const char *data, size_t len, size_t n, struct sbuf *out)
{
    struct sse sse;

    sse_init(&sse);
    for (size_t i = 0; i < len; i += n) {
        size_t piece_len = len - i < n ? len - i : n;
        char *piece = xmemdup(data + i, piece_len);

        if (sse_feed(&sse, piece, piece_len, take, out, NULL) != 0) {
            abort();
        }
        free(piece);
    }
    sbuf_addf(out, "%d", sse_is_partial(&sse));
    sse_fini(&sse);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 100};
    const char *text = (const char *)data;
    struct sbuf whole;
    struct sbuf out;

    sbuf_init(&whole, MAX_OUT_BYTES);
    sbuf_init(&out, MAX_OUT_BYTES);
    feed_pieces(text, size, size > 0 ? size : 1, &whole);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        sbuf_clear(&out);
        feed_pieces(text, size, steps[i], &out);
        if (out.len != whole.len ||
            memcmp(out.data, whole.data, out.len) != 0) {
            fprintf(stderr, "pieces of %zu give other events\n", steps[i]);
            abort();
        }
    }
    sbuf_fini(&whole);
    sbuf_fini(&out);
    return 0;
}
