/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>

/* As in the decoder: what longjmp must not leave undefined is kept here. */
struct encoder {
    const struct picture *in;    /* borrowed: from the caller */
    struct picture_bytes *bytes; /* borrowed: from the caller */
    enum picture_reason reason;  /* first one that was found */
    png_structp png;             /* owned */
    png_infop info;              /* owned */
};

static void
give_reason(struct encoder *e, enum picture_reason reason)
{
    if (e->reason == PICTURE_OK)
        e->reason = reason;
}

static void
on_error(png_structp png, png_const_charp message)
{
    (void)message;
    give_reason(png_get_error_ptr(png), PICTURE_INTERNAL);
    png_longjmp(png, 1);
}

static void
on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static png_voidp
on_malloc(png_structp png, png_alloc_size_t size)
{
    void *p = malloc(size);

    if (p == NULL)
        give_reason(png_get_mem_ptr(png), PICTURE_MEMORY);
    return p;
}

static void
on_free(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

static void
on_write(png_structp png, png_bytep data, size_t len)
{
    struct encoder *e = png_get_io_ptr(png);

    give_reason(e, picture_bytes_add(e->bytes, data, len));
    if (e->reason != PICTURE_OK)
        png_error(png, "output");
}

static void
on_flush(png_structp png)
{
    (void)png;
}

static void
run(struct encoder *e)
{
    const struct picture *in = e->in;
    size_t row_bytes = (size_t)3 * in->width;
    uint32_t y;

    e->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, e, on_error,
                                       on_warning, e, on_malloc, on_free);
    if (e->png == NULL) {
        give_reason(e, PICTURE_MEMORY);
        return;
    }
    if (setjmp(png_jmpbuf(e->png)) != 0)
        return;
    e->info = png_create_info_struct(e->png);
    if (e->info == NULL)
        png_error(e->png, "memory");
    png_set_write_fn(e->png, e, on_write, on_flush);
    png_set_IHDR(e->png, e->info, in->width, in->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(e->png, e->info);
    for (y = 0; y < in->height; y++)
        png_write_row(e->png, in->rgb + y * row_bytes);
    png_write_end(e->png, NULL);
}

enum picture_reason
picture_encode_png(const struct picture *in, struct picture_bytes *out)
{
    struct encoder e = {.in = in, .bytes = out};

    run(&e);
    png_destroy_write_struct(&e.png, &e.info);
    return e.reason;
}
