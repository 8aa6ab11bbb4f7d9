/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <assert.h>
#include <sixel.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES ((size_t)64 * 1024)

/* libsixel ignores what its write callback returns, so it is kept here. */
struct sink {
    struct picture_bytes *bytes; /* borrowed: from the caller */
    enum picture_reason reason;
};

static enum picture_reason
reserve(struct picture_bytes *b, size_t more)
{
    size_t max = b->max == 0 ? FIRST_BYTES : b->max;
    char *data;

    if (more > PICTURE_MAX_BYTES - b->len)
        return PICTURE_TOO_LARGE;
    while (max < b->len + more)
        max *= 2;
    if (max == b->max)
        return PICTURE_OK;
    data = realloc(b->data, max);
    if (data == NULL)
        return PICTURE_MEMORY;
    b->data = data;
    b->max = max;
    return PICTURE_OK;
}

enum picture_reason
picture_bytes_add(struct picture_bytes *b, const void *data, size_t len)
{
    enum picture_reason reason = reserve(b, len);

    if (reason == PICTURE_OK) {
        memcpy(b->data + b->len, data, len);
        b->len += len;
    }
    return reason;
}

static int
put(char *data, int len, void *ctx)
{
    struct sink *s = ctx;

    if (s->reason == PICTURE_OK && len > 0)
        s->reason = picture_bytes_add(s->bytes, data, (size_t)len);
    return len;
}

static enum picture_reason
from_status(SIXELSTATUS status)
{
    if (SIXEL_SUCCEEDED(status))
        return PICTURE_OK;
    return status == SIXEL_BAD_ALLOCATION ? PICTURE_MEMORY : PICTURE_INTERNAL;
}

/* With PAL8 the pixels pass without libsixel's quantiser, which would turn
   white into a light grey. */
static enum picture_reason
encode(const struct picture_indexed *in, sixel_output_t *output,
       sixel_dither_t *dither)
{
    uint8_t palette[3 * PICTURE_MAX_COLOURS];

    memcpy(palette, in->palette, sizeof(palette));
    sixel_output_set_encode_policy(output, SIXEL_ENCODEPOLICY_SIZE);
    sixel_dither_set_pixelformat(dither, SIXEL_PIXELFORMAT_PAL8);
    sixel_dither_set_palette(dither, palette);
    return from_status(sixel_encode(in->pixels, (int)in->width, (int)in->height,
                                    1, dither, output));
}

enum picture_reason
picture_encode(const struct picture_indexed *in, struct picture_bytes *out)
{
    struct sink sink = {.bytes = out};
    sixel_output_t *output = NULL;
    sixel_dither_t *dither = NULL;
    enum picture_reason reason;

    assert(in->n_colours >= 2 && in->n_colours <= PICTURE_MAX_COLOURS);
    reason = from_status(sixel_output_new(&output, put, &sink, NULL));
    if (reason == PICTURE_OK)
        reason =
            from_status(sixel_dither_new(&dither, (int)in->n_colours, NULL));
    if (reason == PICTURE_OK)
        reason = encode(in, output, dither);
    if (dither != NULL)
        sixel_dither_unref(dither);
    if (output != NULL)
        sixel_output_unref(output);
    return reason != PICTURE_OK ? reason : sink.reason;
}

void
picture_bytes_fini(struct picture_bytes *b)
{
    free(b->data);
    *b = (struct picture_bytes){0};
}
