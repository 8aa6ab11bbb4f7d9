/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libpng as decode.c and encode_png.c use it: it says nothing, allocates
 * visibly, and of several reasons for a failure the first one counts.
 */
#ifndef PICTURE_LIBPNG_INTERNAL_H
#define PICTURE_LIBPNG_INTERNAL_H

#include <stdbool.h>

#include <png.h>

#include "picture/picture_internal.h"

/* Zero-initialise. Lives outside of the function that calls setjmp, where
   longjmp would leave its values undefined. */
struct picture_png {
    enum picture_reason fault;  /* what a failure of libpng's own means */
    enum picture_reason reason; /* the first one that was found */
    png_structp png;            /* owned */
    png_infop info;             /* owned */
};

void picture_png_fail(struct picture_png *p, enum picture_reason reason);

/* Makes p->png, for writing or reading; NULL with a reason. Its failures jump
   to png_jmpbuf(p->png). */
void picture_png_open(struct picture_png *p, bool writes);

/* Makes p->info; a failure jumps. */
void picture_png_add_info(struct picture_png *p);

void picture_png_close(struct picture_png *p, bool writes);

#endif
