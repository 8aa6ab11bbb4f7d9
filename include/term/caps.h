/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the terminal can do, by asking it: one bundle of queries that ends with
 * DA1, one deadline, and the parsing of the answers. Pure; term/tty sends and
 * receives.
 */
#ifndef TERM_CAPS_H
#define TERM_CAPS_H

#include <stdbool.h>
#include <stddef.h>

struct sbuf;

struct caps {
    bool answered;    /* DA1 came */
    bool sixel;       /* an attribute that is 4, after the level */
    bool kitty;       /* the graphics query was answered OK */
    int registers;    /* of colour; 0: not said */
    int max_width_px; /* largest picture; 0: not said */
    int max_height_px;
    int cell_width_px; /* 0: not said */
    int cell_height_px;
    int text_width_px;
    int text_height_px;
    char name[64]; /* XTVERSION; printable ASCII only */
};

/* The bundle for a terminal of this TERM (kitty's query is left out where it
   would be printed). */
void caps_add_queries(struct sbuf *sb, const char *term);

/* Takes one reply; unknown ones are ignored. */
void caps_take(struct caps *caps, const char *reply, size_t len);

/*
 * Size of a cell in pixels by what is known: the terminal's own answer, else
 * pixels / cells of TIOCGWINSZ, else the text area, else 10 x 20.
 */
void caps_cell_size(const struct caps *caps, int columns, int rows,
                    int x_pixels, int y_pixels, int *width_px, int *height_px);

#endif
