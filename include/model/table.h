/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The part of a data frame that is shown: the first and the last rows, as text.
 * Whoever needs the whole frame asks the sandbox for it.
 */
#ifndef MODEL_TABLE_H
#define MODEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The vocabulary of types, everywhere the same. */
enum table_kind {
    TABLE_INTEGER,
    TABLE_DECIMAL,
    TABLE_TEXT,
    TABLE_BOOLEAN,
    TABLE_DATE,
    TABLE_TIME,
    TABLE_TIMESTAMP,
    TABLE_DURATION,
    TABLE_CATEGORY,
    TABLE_LIST,
    TABLE_OTHER
};

struct table_cell {
    char *text; /* owned; untrusted UTF-8; NULL: missing value */
    bool is_number;
};

struct table_column {
    char *name; /* owned; untrusted UTF-8; NULL: no name */
    char *type; /* owned; as the program inside names it */
    enum table_kind kind;
    bool is_index;
};

/* Columns shown: index levels first. Rows shown: head, then tail. */
struct table {
    int64_t n_rows_total;
    int64_t n_cols_total;         /* without index levels */
    size_t n_index;               /* how many of columns are index levels */
    size_t n_columns;             /* shown, index levels included */
    struct table_column *columns; /* owned */
    size_t n_head;
    size_t n_tail;
    struct table_cell
        *cells; /* owned; (n_head + n_tail) * n_columns, by rows */

    /* Position among the columns where cols_left_out were left out; equal to
       n_columns when none was. */
    size_t gap_at;
    int64_t n_cols_left_out;
};

struct table *table_new(size_t n_columns, size_t n_head, size_t n_tail);
void table_free(struct table *t); /* NULL is allowed */

/* row counts over head and tail together. */
struct table_cell *table_at(const struct table *t, size_t row, size_t column);

/* "integer", "decimal" ...; never NULL. */
const char *table_kind_name(enum table_kind kind);

/* The kind for a name of the kernel's protocol ("number", "string",
   "datetime" ...); unknown ones are TABLE_OTHER. */
enum table_kind table_kind_from_wire(const char *name);

#endif
