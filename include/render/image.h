/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pictures for the terminal and for the model: a PNG goes through the confined
 * picture program, what comes back is checked, and only then handed on. Without
 * a terminal that draws there is no picture, only a caption, which is the
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

/* The name of the picture program, for paths_helper. */
#define IMAGE_HELPER "sandpiper-picture"

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

struct image_scale_options {
    int max_side_px;    /* 1 to 4096; of the longer side */
    size_t max_bytes;   /* of the PNG that is handed over */
    const char *helper; /* as above */
};

/* png: owned by the caller of the callback, borrowed for the call; NULL with
   err: as for image_fn; ERR_TOO_LARGE also when it has more than max_bytes. */
typedef void (*image_scale_fn)(void *ctx, const unsigned char *png, size_t len,
                               int width_px, int height_px,
                               const struct error *err);

/*
 * Makes the longer side of a picture at most max_side_px. One that is small
 * enough is handed over byte for byte once the picture program could decode
 * all of it; any other becomes a PNG of pixels and nothing else, of the size
 * that follows from the proportions. More than 8 megapixels are ERR_TOO_LARGE.
 * Otherwise as image_render: png is copied, done runs exactly once.
 */
WARN_UNUSED struct image *image_scale(struct loop *loop,
                                      const unsigned char *png, size_t len,
                                      const struct image_scale_options *options,
                                      image_scale_fn done, void *ctx,
                                      struct error *err);

/* Ends it without a callback; only before done has run. NULL is allowed. */
void image_free(struct image *im);

#endif
