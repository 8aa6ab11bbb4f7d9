/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Decides whether the bytes that the picture program sent may go to the
 * terminal. That program reads files of unknown origin, so what it says is not
 * trusted: accepted is one sixel of exactly the size asked for that can neither
 * leave its area, nor scroll, nor hold anything but sixel bytes. It draws
 * nothing and keeps no bytes; it takes them in any pieces.
 */
#ifndef RENDER_SIXEL_CHECK_H
#define RENDER_SIXEL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;

enum { SIXEL_CHECK_MAX_SIDE_PX = 4096, SIXEL_CHECK_MAX_COLOURS = 256 };

/* What the picture must be. */
struct sixel_limits {
    unsigned width;       /* pixels */
    unsigned height;      /* pixels, a multiple of cell_height */
    unsigned colours;     /* registers 0 to colours - 1 may be used */
    unsigned cell_height; /* pixels */
};

/* Embedded by the caller; its members are for sixel_check.c alone. */
struct sixel_check_state {
    struct sixel_limits limits;
    int step;
    bool failed;
    bool drawing; /* definitions of colours are over */
    char intro[40];
    size_t intro_len;
    size_t at; /* bytes accepted */
    unsigned params[5];
    unsigned n_params;
    unsigned n_digits;
    unsigned x;    /* next column of the band */
    unsigned band; /* rows of six, from 0 */
    bool defined[SIXEL_CHECK_MAX_COLOURS];
};

/*
 * Begins a check. ERR_PROTOCOL when no picture can have these limits: the
 * sides from 1 to SIXEL_CHECK_MAX_SIDE_PX, at most 8 megapixels, 1 to
 * SIXEL_CHECK_MAX_COLOURS colours, whole cells.
 */
WARN_UNUSED int sixel_check_begin(struct sixel_check_state *s,
                                  struct sixel_limits limits,
                                  struct error *err);

/* Takes the next bytes. ERR_PROTOCOL at the first that is refused; then all
   later calls fail too. */
WARN_UNUSED int sixel_check_feed(struct sixel_check_state *s, const char *data,
                                 size_t len, struct error *err);

/* Says whether the picture is complete; ERR_PROTOCOL if not. */
WARN_UNUSED int sixel_check_end(const struct sixel_check_state *s,
                                struct error *err);

/* All three for bytes that are there as a whole. */
WARN_UNUSED int sixel_check(const char *data, size_t len,
                            struct sixel_limits limits, struct error *err);

#endif
