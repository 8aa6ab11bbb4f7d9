/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How names and cells of a table read, before anybody asks how wide they may
 * be: numbers with common decimals and groups, everything else sanitised.
 */
#ifndef RENDER_TABLE_INTERNAL_H
#define RENDER_TABLE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

struct table;

/* Widest that a column gets. A number that is wider takes its scientific form,
   so that it is never cut. */
#define TABLE_MAX_COLUMN 32

struct table_text {
    char *text; /* owned */
    size_t len;
    size_t width; /* columns */
    bool is_null;
    bool is_number;
};

/* The name of a column, sanitised; names that were there before, and none, get
   a number. An index level without a name has an empty one. */
void table_text_name(const struct table *t, size_t column,
                     struct table_text *out);

/* The cells of a column in the rows given, n_rows of them into out. */
void table_text_cells(const struct table *t, size_t column, const size_t *rows,
                      size_t n_rows, struct table_text *out);

/* True for kinds whose cells stand at the right. */
bool table_text_is_numeric(const struct table *t, size_t column);

#endif
