/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/libpng_internal.h"

#include <setjmp.h>

/* As in the decoder: what longjmp must not leave undefined is kept here. */
struct encoder {
    const struct picture *in;    /* borrowed: from the caller */
    struct picture_bytes *bytes; /* borrowed: from the caller */
    struct picture_png lib;
};

static void
on_write(png_structp png, png_bytep data, size_t len)
{
    struct encoder *e = png_get_io_ptr(png);

    picture_png_fail(&e->lib, picture_bytes_add(e->bytes, data, len));
    if (e->lib.reason != PICTURE_OK)
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

    picture_png_open(&e->lib, true);
    if (e->lib.png == NULL)
        return;
    if (setjmp(png_jmpbuf(e->lib.png)) != 0)
        return;
    picture_png_add_info(&e->lib);
    png_set_write_fn(e->lib.png, e, on_write, on_flush);
    png_set_IHDR(e->lib.png, e->lib.info, in->width, in->height, 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(e->lib.png, e->lib.info);
    for (y = 0; y < in->height; y++)
        png_write_row(e->lib.png, in->rgb + y * row_bytes);
    png_write_end(e->lib.png, NULL);
}

enum picture_reason
picture_encode_png(const struct picture *in, struct picture_bytes *out)
{
    struct encoder e = {.in = in, .bytes = out, .lib.fault = PICTURE_INTERNAL};

    run(&e);
    picture_png_close(&e.lib, true);
    return e.lib.reason;
}
