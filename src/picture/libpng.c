/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/libpng_internal.h"

#include <setjmp.h>
#include <stdlib.h>

void
picture_png_fail(struct picture_png *p, enum picture_reason reason)
{
    if (p->reason == PICTURE_OK)
        p->reason = reason;
}

/* The message may quote the file: it is dropped. */
static void
on_error(png_structp png, png_const_charp message)
{
    struct picture_png *p = png_get_error_ptr(png);

    (void)message;
    picture_png_fail(p, p->fault);
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
        picture_png_fail(png_get_mem_ptr(png), PICTURE_MEMORY);
    return p;
}

static void
on_free(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

void
picture_png_open(struct picture_png *p, bool writes)
{
    p->png = writes
                 ? png_create_write_struct_2(PNG_LIBPNG_VER_STRING, p, on_error,
                                             on_warning, p, on_malloc, on_free)
                 : png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error,
                                            on_warning, p, on_malloc, on_free);
    if (p->png == NULL)
        picture_png_fail(p, PICTURE_MEMORY);
}

void
picture_png_add_info(struct picture_png *p)
{
    p->info = png_create_info_struct(p->png);
    if (p->info == NULL)
        png_error(p->png, "memory");
}

void
picture_png_close(struct picture_png *p, bool writes)
{
    if (writes)
        png_destroy_write_struct(&p->png, &p->info);
    else
        png_destroy_read_struct(&p->png, &p->info, NULL);
}
