/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/png_check.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "model/output.h"

/* A chunk: length, name, data, checksum (PNG specification, 5.3). */
#define SIGNATURE_BYTES 8u
#define NAME_BYTES 4u
#define LENGTH_BYTES 4u
#define CHUNK_BYTES 12u

static uint32_t
big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static bool
is_named(const unsigned char *chunk, const char *name)
{
    return memcmp(chunk + LENGTH_BYTES, name, NAME_BYTES) == 0;
}

static int
refuse(size_t at, const char *what, struct error *err)
{
    return err_set(err, ERR_PROTOCOL, "the picture: byte %zu: %s", at, what);
}

static int
walk_chunks(const unsigned char *png, size_t len, bool bare, struct error *err)
{
    size_t at = SIGNATURE_BYTES;
    bool pixels = false;

    for (;;) {
        const unsigned char *chunk = png + at;
        size_t left = len - at;

        if (left < CHUNK_BYTES || big_endian(chunk) > left - CHUNK_BYTES)
            return refuse(at, "a chunk is cut off", err);
        if (is_named(chunk, "IEND"))
            break;
        if (is_named(chunk, "IDAT"))
            pixels = true;
        else if (bare && (at > SIGNATURE_BYTES || !is_named(chunk, "IHDR")))
            return refuse(at, "a chunk that should not be there", err);
        at += CHUNK_BYTES + big_endian(chunk);
    }
    if (big_endian(png + at) != 0 || at + CHUNK_BYTES != len)
        return refuse(at, "more behind the end", err);
    return pixels ? 0 : refuse(at, "no pixels", err);
}

int
png_check(const unsigned char *png, size_t len, int width_px, int height_px,
          bool bare, struct error *err)
{
    int width = 0;
    int height = 0;

    if (!output_png_size(png, len, &width, &height))
        return refuse(0, "no PNG", err);
    if (width != width_px || height != height_px)
        return err_set(err, ERR_PROTOCOL,
                       "the picture has %d x %d pixels, not %d x %d", width,
                       height, width_px, height_px);
    return walk_chunks(png, len, bare, err);
}

/* Rounded side * max / longer, at least 1: as the picture program does it. */
static int
shrink(int side, int max, int longer)
{
    int64_t n = ((int64_t)side * max + longer / 2) / longer;

    return n > 0 ? (int)n : 1;
}

void
png_check_fit(int max_side_px, int *width_px, int *height_px)
{
    int longer = *width_px > *height_px ? *width_px : *height_px;

    assert(max_side_px > 0 && *width_px > 0 && *height_px > 0);
    if (longer <= max_side_px)
        return;
    *width_px = shrink(*width_px, max_side_px, longer);
    *height_px = shrink(*height_px, max_side_px, longer);
}
