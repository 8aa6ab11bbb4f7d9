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
#include "term/sanitize.h"

#include "../helpers/sanitize_check.h"

#define MAX_OUT_BYTES (256u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Feeds pieces of n bytes from allocations of exactly their size. */
static void
feed_pieces(struct sanitizer *s, const char *data, size_t len, size_t n,
            struct sbuf *out)
{
    for (size_t i = 0; i < len; i += n) {
        size_t piece_len = len - i < n ? len - i : n;
        char *piece = xmemdup(data + i, piece_len);

        sanitize_feed(s, piece, piece_len, out);
        free(piece);
    }
    sanitize_end(s, out);
}

/*
 * The first byte chooses context and options, the second how the rest is cut.
 * The output is harmless, and the same whatever the cut.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sanitizer whole = {0};
    struct sanitizer pieces;
    struct sbuf out;
    struct sbuf cut_out;
    const char *wrong;
    const char *text;
    size_t len;

    if (size < 2) {
        return 0;
    }
    whole.context = (enum sanitize_context)(data[0] % (SANITIZE_NAME + 1));
    whole.no_color = (data[0] & 0x40) != 0;
    whole.line_restart_as_lf = (data[0] & 0x80) != 0;
    pieces = whole;
    text = (const char *)data + 2;
    len = size - 2;
    sbuf_init(&out, MAX_OUT_BYTES);
    sbuf_init(&cut_out, MAX_OUT_BYTES);

    feed_pieces(&whole, text, len, len + 1, &out);
    feed_pieces(&pieces, text, len, (size_t)data[1] % 16 + 1, &cut_out);
    wrong = sanitize_check(&whole, len, out.data, out.len);
    expect(wrong == NULL, wrong);
    expect(out.len == cut_out.len &&
               memcmp(out.data, cut_out.data, out.len) == 0,
           "the output depends on the cut");
    expect(whole.n_restarts == pieces.n_restarts &&
               whole.n_dropped == pieces.n_dropped,
           "the counters depend on the cut");
    sbuf_fini(&out);
    sbuf_fini(&cut_out);
    return 0;
}
