/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/libpng_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Signature, then length, type, width and height of the first chunk. */
#define HEAD_BYTES 24
#define HEAD_IHDR 12
#define HEAD_WIDTH 16
#define HEAD_HEIGHT 20
#define BUFFER_BYTES (64 * 1024)
#define MAX_CHUNKS 16
#define MAX_CHUNK_MEM (1024 * 1024)

static const uint8_t signature[8] = {0x89, 'P',  'N',  'G',
                                     '\r', '\n', 0x1a, '\n'};

/*
 * All that the decoder changes lives here and not in locals of the function
 * that calls setjmp, where longjmp would leave their values undefined.
 */
struct decoder {
    int fd;
    struct picture_png lib;
    struct picture picture; /* owned */
    size_t n_read;
    size_t start;
    size_t end;
    uint8_t buffer[BUFFER_BYTES];
};

/*
 * Reads once into the free part of the buffer. Returns whether there was more;
 * a failed read counts as the end, a file beyond the limit as too large.
 */
static bool
fill(struct decoder *d)
{
    ssize_t n;

    do
        n = read(d->fd, d->buffer + d->end, BUFFER_BYTES - d->end);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return false;
    d->end += (size_t)n;
    d->n_read += (size_t)n;
    if (d->n_read > PICTURE_MAX_BYTES) {
        picture_png_fail(&d->lib, PICTURE_TOO_LARGE);
        return false;
    }
    return true;
}

static void
on_read(png_structp png, png_bytep out, size_t len)
{
    struct decoder *d = png_get_io_ptr(png);

    while (len > 0) {
        size_t n = d->end - d->start;

        if (n == 0) {
            d->start = 0;
            d->end = 0;
            if (!fill(d))
                png_error(png, "no more data");
            continue;
        }
        if (n > len)
            n = len;
        memcpy(out, d->buffer + d->start, n);
        d->start += n;
        out += n;
        len -= n;
    }
}

static enum picture_reason
check_size(uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        return PICTURE_DAMAGED;
    if (width > PICTURE_MAX_SIDE_PX || height > PICTURE_MAX_SIDE_PX ||
        width * height > PICTURE_MAX_PIXELS)
        return PICTURE_TOO_LARGE;
    return PICTURE_OK;
}

static uint32_t
big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

/*
 * Looks at the head before libpng does, which has one kind of failure for all
 * reasons. The bytes stay in the buffer.
 */
static enum picture_reason
check_head(struct decoder *d)
{
    while (d->end < HEAD_BYTES)
        if (!fill(d))
            break;
    if (d->end < sizeof(signature) ||
        memcmp(d->buffer, signature, sizeof(signature)) != 0)
        return PICTURE_NOT_PNG;
    if (d->end < HEAD_BYTES || memcmp(d->buffer + HEAD_IHDR, "IHDR", 4) != 0)
        return PICTURE_DAMAGED;
    return check_size(big_endian(d->buffer + HEAD_WIDTH),
                      big_endian(d->buffer + HEAD_HEIGHT));
}

static void
set_limits(struct decoder *d)
{
    png_set_user_limits(d->lib.png, PICTURE_MAX_SIDE_PX, PICTURE_MAX_SIDE_PX);
    png_set_chunk_malloc_max(d->lib.png, MAX_CHUNK_MEM);
    png_set_chunk_cache_max(d->lib.png, MAX_CHUNKS);
    /* -1: also the known ones, but for those that make up the pixels. */
    png_set_keep_unknown_chunks(d->lib.png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
}

static void
read_header(struct decoder *d)
{
    png_read_info(d->lib.png, d->lib.info);
    d->picture.width = png_get_image_width(d->lib.png, d->lib.info);
    d->picture.height = png_get_image_height(d->lib.png, d->lib.info);
    picture_png_fail(&d->lib, check_size(d->picture.width, d->picture.height));
    if (d->lib.reason != PICTURE_OK)
        png_error(d->lib.png, "size");
}

static void
read_rows(struct decoder *d, struct picture_rgb background)
{
    png_color_16 colour = {
        .red = background.r, .green = background.g, .blue = background.b};
    size_t row_bytes = (size_t)3 * d->picture.width;
    uint32_t y;
    int n_passes;

    png_set_expand(d->lib.png);
    png_set_scale_16(d->lib.png);
    png_set_gray_to_rgb(d->lib.png);
    /* Without gamma: charts are meant to be mixed as their values are stored.
     */
    png_set_background(d->lib.png, &colour, PNG_BACKGROUND_GAMMA_SCREEN, 0,
                       1.0);
    n_passes = png_set_interlace_handling(d->lib.png);
    png_read_update_info(d->lib.png, d->lib.info);
    if (png_get_rowbytes(d->lib.png, d->lib.info) != row_bytes) {
        picture_png_fail(&d->lib, PICTURE_INTERNAL);
        png_error(d->lib.png, "row size");
    }
    d->picture.rgb = calloc(d->picture.height, row_bytes);
    if (d->picture.rgb == NULL) {
        picture_png_fail(&d->lib, PICTURE_MEMORY);
        png_error(d->lib.png, "memory");
    }
    while (n_passes-- > 0)
        for (y = 0; y < d->picture.height; y++)
            png_read_row(d->lib.png, d->picture.rgb + y * row_bytes, NULL);
}

static void
run(struct decoder *d, bool rows, struct picture_rgb background)
{
    d->lib.fault = PICTURE_DAMAGED;
    d->lib.reason = check_head(d);
    if (d->lib.reason != PICTURE_OK)
        return;
    picture_png_open(&d->lib, false);
    if (d->lib.png == NULL)
        return;
    if (setjmp(png_jmpbuf(d->lib.png)) != 0)
        return;
    picture_png_add_info(&d->lib);
    png_set_read_fn(d->lib.png, d, on_read);
    set_limits(d);
    read_header(d);
    if (rows)
        read_rows(d, background);
}

static struct decoder *
new_decoder(int fd)
{
    struct decoder *d = calloc(1, sizeof(*d));

    if (d != NULL)
        d->fd = fd;
    return d;
}

static enum picture_reason
free_decoder(struct decoder *d)
{
    enum picture_reason reason = d->lib.reason;

    picture_png_close(&d->lib, false);
    picture_fini(&d->picture);
    free(d);
    return reason;
}

enum picture_reason
picture_read_info(int fd, uint32_t *width, uint32_t *height)
{
    struct decoder *d = new_decoder(fd);

    if (d == NULL)
        return PICTURE_MEMORY;
    run(d, false, (struct picture_rgb){0});
    if (d->lib.reason == PICTURE_OK) {
        *width = d->picture.width;
        *height = d->picture.height;
    }
    return free_decoder(d);
}

enum picture_reason
picture_decode(int fd, struct picture_rgb background, struct picture *out)
{
    struct decoder *d = new_decoder(fd);

    if (d == NULL)
        return PICTURE_MEMORY;
    run(d, true, background);
    if (d->lib.reason == PICTURE_OK) {
        *out = d->picture;
        d->picture = (struct picture){0};
    }
    return free_decoder(d);
}

void
picture_fini(struct picture *p)
{
    free(p->rgb);
    *p = (struct picture){0};
}
