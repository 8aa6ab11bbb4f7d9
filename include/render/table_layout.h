/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lays a table out for a width: which rows and columns are shown, how wide each
 * column is, how each cell reads. Pure. Untrusted text in the table is
 * sanitised here (context cell) before it is measured.
 */
#ifndef RENDER_TABLE_LAYOUT_H
#define RENDER_TABLE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbuf;
struct table;

#define TABLE_LAYOUT_MIN_WIDTH 40

struct table_options {
    int width;      /* columns of the terminal; below the minimum: that */
    bool unicode;   /* else | - + and ... */
    bool sequences; /* columns are placed with CHA; names bold, NULL dim */
    bool colour;
    bool all_rows; /* else the first and the last of a long table */
    const char
        *address; /* "2" or "2.1": of the cell, for the footer; or NULL */
};

/* Adds the whole table, lines ended by LF, and the footer when something is
   left out ("· 15 of 98,214 rows, 5 of 42 columns"). */
void table_render(const struct table *t, const struct table_options *options,
                  struct sbuf *out);

#endif
