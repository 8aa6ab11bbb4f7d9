/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Decides whether a PNG is put together as one: the picture program that made
 * it is not trusted, and what goes to the service should hold a picture and
 * nothing else. Chunks are walked, pixels are not decoded.
 */
#ifndef RENDER_PNG_CHECK_H
#define RENDER_PNG_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct error;

/*
 * Checks that png begins with its signature and a header of width_px times
 * height_px, that whole chunks follow up to IEND, pixels among them, and that
 * nothing stands behind it. bare: no chunks but IHDR, IDAT and IEND.
 * Errors: ERR_PROTOCOL.
 */
WARN_UNUSED int png_check(const unsigned char *png, size_t len, int width_px,
                          int height_px, bool bare, struct error *err);

/* The size of width_px times height_px when the longer side may have at most
   max_side_px; all are at least 1. */
void png_check_fit(int max_side_px, int *width_px, int *height_px);

#endif
