/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pictures on the terminal: a PNG goes through the confined picture program,
 * what comes back is checked byte by byte, and only then handed on. Without a
 * terminal that draws there is no picture, only a caption, which is the
 * caller's.
 */
#ifndef RENDER_IMAGE_H
#define RENDER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct error;
struct image;
struct loop;
struct sbuf;

struct image_options {
    int max_width_px;
    int max_height_px;
    int cell_height_px;
    int colours;             /* 2 to 256 */
    unsigned background_rgb; /* 0xffffff */
    const char *helper; /* path of the picture program; NULL: by paths_helper */
};

/* sixel: a whole sequence, checked, borrowed; NULL with err: ERR_DATA (the
   picture is damaged), ERR_TOO_LARGE, ERR_TIMEOUT, ERR_PROTOCOL (the program
   misbehaved), ERR_CANCELLED. */
typedef void (*image_fn)(void *ctx, const struct sbuf *sixel,
                         const struct error *err);

/* png is copied. The program must ignore SIGPIPE, since the picture program may
   end before it has read all. done runs exactly once, from the loop. Errors:
   ERR_IO (the picture program cannot be started). */
WARN_UNUSED struct image *image_render(struct loop *loop,
                                       const unsigned char *png, size_t len,
                                       const struct image_options *options,
                                       image_fn done, void *ctx,
                                       struct error *err);

/* Ends it without a callback; only before done has run. NULL is allowed. */
void image_free(struct image *im);

#endif
