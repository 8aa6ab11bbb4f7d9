/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

static const char *const kind_names[] = {
    [TABLE_INTEGER] = "integer",     [TABLE_DECIMAL] = "decimal",
    [TABLE_TEXT] = "text",           [TABLE_BOOLEAN] = "boolean",
    [TABLE_DATE] = "date",           [TABLE_TIME] = "time",
    [TABLE_TIMESTAMP] = "timestamp", [TABLE_DURATION] = "duration",
    [TABLE_CATEGORY] = "category",   [TABLE_LIST] = "list",
    [TABLE_OTHER] = "other",
};

/* Names of the protocol that are not names of ours. */
static const struct {
    const char *wire;
    enum table_kind kind;
} wire_names[] = {
    {"number", TABLE_DECIMAL},
    {"string", TABLE_TEXT},
    {"datetime", TABLE_TIMESTAMP},
};

#define N_KINDS LEN(kind_names)
#define N_WIRE LEN(wire_names)

struct table *
table_new(size_t n_columns, size_t n_head, size_t n_tail)
{
    struct table *t = xcalloc(1, sizeof(*t));
    size_t n_rows = n_head + n_tail;

    assert(n_rows >= n_head);
    assert(n_columns == 0 || n_rows <= SIZE_MAX / n_columns);
    t->n_columns = n_columns;
    t->n_head = n_head;
    t->n_tail = n_tail;
    t->gap_at = n_columns;
    t->columns = xcalloc(n_columns, sizeof(t->columns[0]));
    t->cells = xcalloc(n_rows * n_columns, sizeof(t->cells[0]));
    return t;
}

void
table_free(struct table *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n_columns; i++) {
        free(t->columns[i].name);
        free(t->columns[i].type);
    }
    for (size_t i = 0; i < (t->n_head + t->n_tail) * t->n_columns; i++)
        free(t->cells[i].text);
    free(t->columns);
    free(t->cells);
    free(t);
}

struct table_cell *
table_at(const struct table *t, size_t row, size_t column)
{
    assert(row < t->n_head + t->n_tail);
    assert(column < t->n_columns);
    return &t->cells[row * t->n_columns + column];
}

const char *
table_kind_name(enum table_kind kind)
{
    assert((size_t)kind < N_KINDS);
    return kind_names[kind];
}

enum table_kind
table_kind_from_wire(const char *name)
{
    if (name == NULL)
        return TABLE_OTHER;
    for (size_t i = 0; i < N_WIRE; i++)
        if (strcmp(wire_names[i].wire, name) == 0)
            return wire_names[i].kind;
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kind_names[i], name) == 0)
            return (enum table_kind)i;
    return TABLE_OTHER;
}
