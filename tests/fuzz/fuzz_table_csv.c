/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A whole table as CSV. What is accepted keeps its limits, its cells are text
 * that the model may hold, and the kind of a column is that of its cells.
 * Written again as pandas writes it, it is read as the same table.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/table.h"
#include "render/table_csv.h"

#define MAX_OUT_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_table_csv: %s\n", what);
        abort();
    }
}

static void
check_cell(const struct table_cell *cell, enum table_kind kind)
{
    bool number = kind == TABLE_INTEGER || kind == TABLE_DECIMAL;
    const char *text = cell->text;

    expect(cell->is_number == (number && text != NULL),
           "a cell is not of the kind of its column");
    if (text == NULL)
        return;
    expect(*text != '\0', "an empty field is not missing");
    expect(utf8_valid(text, strlen(text)), "a cell is not UTF-8");
    if (number)
        expect(text[strspn(text, "+-.0123456789eE")] == '\0', "no number");
    if (kind == TABLE_INTEGER)
        expect(text[strspn(text, "-0123456789")] == '\0', "no whole number");
}

static void
check_table(const struct table *t)
{
    expect(t->n_columns > 0 && t->n_columns <= TABLE_CSV_MAX_COLUMNS,
           "the number of columns");
    expect(t->n_head * t->n_columns <= TABLE_CSV_MAX_CELLS, "too many cells");
    expect(t->n_tail == 0 && t->n_index == 0, "rows or columns of a part");
    expect(t->n_rows_total == (int64_t)t->n_head, "rows are not counted");
    expect(t->n_cols_total == (int64_t)t->n_columns, "columns are not counted");
    expect(t->gap_at == t->n_columns && t->n_cols_left_out == 0, "a gap");
    for (size_t c = 0; c < t->n_columns; c++) {
        const struct table_column *column = &t->columns[c];

        expect(column->name != NULL, "a column without a name");
        expect(utf8_valid(column->name, strlen(column->name)),
               "a name is not UTF-8");
        expect(column->kind == TABLE_TEXT || column->kind == TABLE_INTEGER ||
                   column->kind == TABLE_DECIMAL,
               "a kind that CSV does not have");
        for (size_t r = 0; r < t->n_head; r++)
            check_cell(table_at(t, r, c), column->kind);
    }
}

/* Quoted where it must be; NULL: a missing value. */
static void
write_field(struct sbuf *out, const char *text)
{
    if (text == NULL)
        return;
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        sbuf_add_str(out, text);
        return;
    }
    sbuf_add_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            sbuf_add_char(out, '"');
        sbuf_add_char(out, *text);
    }
    sbuf_add_char(out, '"');
}

static void
write_table(const struct table *t, struct sbuf *out)
{
    for (size_t c = 0; c < t->n_columns; c++) {
        if (c > 0)
            sbuf_add_char(out, ',');
        write_field(out, t->columns[c].name);
    }
    sbuf_add_char(out, '\n');
    for (size_t r = 0; r < t->n_head; r++) {
        for (size_t c = 0; c < t->n_columns; c++) {
            if (c > 0)
                sbuf_add_char(out, ',');
            write_field(out, table_at(t, r, c)->text);
        }
        sbuf_add_char(out, '\n');
    }
    expect(sbuf_ok(out), "too much");
}

static void
check_same(const struct table *a, const struct table *b)
{
    expect(a->n_columns == b->n_columns, "written again: other columns");
    expect(a->n_head == b->n_head, "written again: other rows");
    for (size_t c = 0; c < a->n_columns; c++) {
        expect(str_eq(a->columns[c].name, b->columns[c].name),
               "written again: another name");
        expect(a->columns[c].kind == b->columns[c].kind,
               "written again: another kind");
        for (size_t r = 0; r < a->n_head; r++) {
            const char *first = table_at(a, r, c)->text;
            const char *second = table_at(b, r, c)->text;

            expect((first == NULL) == (second == NULL) &&
                       (first == NULL || str_eq(first, second)),
                   "written again: another cell");
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct table *t = table_from_csv((const char *)data, size, &err);
    struct table *again;
    struct sbuf sb;

    if (t == NULL) {
        expect(err.code == ERR_TOO_LARGE || (err.code == ERR_DATA && size == 0),
               "a table is refused");
        return 0;
    }
    check_table(t);
    sbuf_init(&sb, MAX_OUT_BYTES);
    write_table(t, &sb);
    again = table_from_csv(sb.data, sb.len, &err);
    expect(again != NULL, "written again: it is refused");
    check_same(t, again);
    table_free(again);
    table_free(t);
    sbuf_fini(&sb);
    return 0;
}
