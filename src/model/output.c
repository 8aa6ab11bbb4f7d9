/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/table.h"

/* Signature, length and name of the first chunk, width and height; the first
   chunk must be IHDR with 13 bytes (PNG specification, 5.2 and 11.2.1). */
#define PNG_HEAD_BYTES 24u

static const unsigned char png_head[16] = {0x89, 'P',  'N', 'G', '\r', '\n',
                                           0x1a, '\n', 0,   0,   0,    13,
                                           'I',  'H',  'D', 'R'};

void
output_free(struct output *o)
{
    if (o == NULL)
        return;
    free(o->text);
    table_free(o->table);
    free(o->png);
    free(o->title);
    free(o->what);
    free(o);
}

static uint32_t
big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

bool
output_png_size(const unsigned char *png, size_t len, int *width_px,
                int *height_px)
{
    uint32_t width;
    uint32_t height;

    if (png == NULL || len < PNG_HEAD_BYTES ||
        memcmp(png, png_head, sizeof(png_head)) != 0)
        return false;
    width = big_endian(png + 16);
    height = big_endian(png + 20);
    if (width == 0 || height == 0 || width > INT_MAX || height > INT_MAX)
        return false;
    *width_px = (int)width;
    *height_px = (int)height;
    return true;
}
