/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One thing that a cell showed: a text, a table or a picture, as it came out of
 * the sandbox. Everything in it is untrusted.
 */
#ifndef MODEL_OUTPUT_H
#define MODEL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table;

/* A picture with more is not shown: decoding it would take too much memory. */
#define OUTPUT_MAX_PIXELS (8u << 20)

struct output {
    bool is_result; /* value of the last expression; else shown by display() */
    int index;      /* within its cell, from 0 */

    char *text; /* owned; text/plain, UTF-8; may be NULL */
    size_t text_len;

    struct table *table; /* owned; may be NULL */

    unsigned char *png; /* owned; may be NULL */
    size_t png_len;
    int width_px; /* as the header of the PNG says; 0: no picture */
    int height_px;
    char *title; /* owned; may be NULL */
    char *what;  /* owned; a short description; may be NULL */
};

void output_free(struct output *o); /* frees o itself; NULL is allowed */

/*
 * Reads width and height from the header of a PNG, with bounds checks only; no
 * part of the picture is decoded. False when it is none.
 */
bool output_png_size(const unsigned char *png, size_t len, int *width_px,
                     int *height_px);

#endif
