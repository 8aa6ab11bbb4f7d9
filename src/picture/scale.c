/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Rounded a * b / c, at least 1. */
static uint32_t
scaled(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t n = (uint32_t)(((uint64_t)a * b + c / 2) / c);

    return n > 0 ? n : 1;
}

/*
 * Adds one source row, shrunk to width sums, to the sums of an output row.
 * Lengths are counted in 1/width of a source pixel, so all weights are whole
 * numbers that add up to in_width: a flat area keeps its value exactly.
 */
static void
add_row(const uint8_t *in, uint32_t in_width, uint32_t width, uint64_t weight,
        uint64_t *sums)
{
    uint32_t x;

    for (x = 0; x < width; x++) {
        uint64_t from = (uint64_t)x * in_width;
        uint64_t to = from + in_width;
        uint64_t sum[3] = {0};

        while (from < to) {
            const uint8_t *pixel = in + 3 * (from / width);
            uint64_t edge = (from / width + 1) * width;
            uint64_t part = (edge < to ? edge : to) - from;

            sum[0] += part * pixel[0];
            sum[1] += part * pixel[1];
            sum[2] += part * pixel[2];
            from += part;
        }
        sums[3 * (size_t)x] += weight * sum[0];
        sums[3 * (size_t)x + 1] += weight * sum[1];
        sums[3 * (size_t)x + 2] += weight * sum[2];
    }
}

static void
shrink(const struct picture *in, const struct picture_layout *layout,
       uint64_t *sums, uint8_t *out)
{
    size_t n = (size_t)3 * layout->width;
    uint64_t total = (uint64_t)in->width * in->height;
    uint32_t y;
    size_t i;

    for (y = 0; y < layout->height; y++) {
        uint64_t from = (uint64_t)y * in->height;
        uint64_t to = from + in->height;

        memset(sums, 0, n * sizeof(*sums));
        while (from < to) {
            uint64_t row = from / layout->height;
            uint64_t edge = (row + 1) * layout->height;
            uint64_t part = (edge < to ? edge : to) - from;

            add_row(in->rgb + 3 * (size_t)row * in->width, in->width,
                    layout->width, part, sums);
            from += part;
        }
        for (i = 0; i < n; i++)
            out[y * n + i] = (uint8_t)((sums[i] + total / 2) / total);
    }
}

enum picture_reason
picture_fit(const struct picture_options *o, uint32_t width, uint32_t height,
            struct picture_layout *out)
{
    uint32_t cell = o->cell_height_px;
    uint32_t max_height = o->max_height_px - o->max_height_px % cell;
    struct picture_layout l = {.width = width, .height = height};

    if (max_height < PICTURE_MIN_ROWS_PX)
        return PICTURE_INTERNAL;
    if (width > o->max_width_px || height > max_height) {
        if ((uint64_t)width * max_height > (uint64_t)height * o->max_width_px) {
            l.width = o->max_width_px;
            l.height = scaled(height, l.width, width);
        } else {
            l.height = max_height;
            l.width = scaled(width, l.height, height);
        }
    }
    l.padded_height =
        l.height < PICTURE_MIN_ROWS_PX ? PICTURE_MIN_ROWS_PX : l.height;
    l.padded_height = (l.padded_height + cell - 1) / cell * cell;
    if (l.width * l.padded_height > PICTURE_MAX_PIXELS)
        return PICTURE_TOO_LARGE;
    *out = l;
    return PICTURE_OK;
}

void
picture_fit_side(uint32_t side_px, uint32_t width, uint32_t height,
                 struct picture_layout *out)
{
    struct picture_layout l = {.width = width, .height = height};

    if (width > side_px || height > side_px) {
        l.width = width >= height ? side_px : scaled(width, side_px, height);
        l.height = height >= width ? side_px : scaled(height, side_px, width);
    }
    l.padded_height = l.height;
    *out = l;
}

enum picture_reason
picture_scale(const struct picture *in, const struct picture_layout *layout,
              struct picture_rgb background, struct picture *out)
{
    size_t row_bytes = (size_t)3 * layout->width;
    size_t used = row_bytes * layout->height;
    size_t size = row_bytes * layout->padded_height;
    uint64_t *sums = calloc(row_bytes, sizeof(*sums));
    uint8_t *rgb = malloc(size);
    size_t i;

    assert(layout->width <= in->width && layout->height <= in->height);
    if (sums == NULL || rgb == NULL) {
        free(sums);
        free(rgb);
        return PICTURE_MEMORY;
    }
    if (layout->width == in->width && layout->height == in->height)
        memcpy(rgb, in->rgb, used);
    else
        shrink(in, layout, sums, rgb);
    for (i = used; i < size; i += 3) {
        rgb[i] = background.r;
        rgb[i + 1] = background.g;
        rgb[i + 2] = background.b;
    }
    free(sums);
    *out = (struct picture){
        .width = layout->width, .height = layout->padded_height, .rgb = rgb};
    return PICTURE_OK;
}
