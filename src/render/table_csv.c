/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/table_csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "model/table.h"

/* Where reading is. */
struct csv {
    const char *text;
    size_t len;
    size_t at;
};

/* The next field, without its quotes; owned by the caller. *last: it ends its
   line. */
static char *
take_field(struct csv *c, bool *last)
{
    struct sbuf raw;
    struct sbuf clean;
    bool quoted = c->at < c->len && c->text[c->at] == '"';

    sbuf_init(&raw, c->len - c->at + 1);
    if (quoted)
        c->at++;
    for (; c->at < c->len; c->at++) {
        char ch = c->text[c->at];

        if (quoted && ch == '"') {
            if (c->at + 1 < c->len && c->text[c->at + 1] == '"') {
                c->at++;
            } else {
                quoted = false;
                continue;
            }
        } else if (!quoted && (ch == ',' || ch == '\n')) {
            break;
        }
        sbuf_add_char(&raw, ch == '\0' ? ' ' : ch);
    }
    *last = c->at >= c->len || c->text[c->at] == '\n';
    if (c->at < c->len)
        c->at++;
    sbuf_init(&clean, raw.len * 3 + 1);
    utf8_add_repaired(&clean, raw.data, raw.len);
    sbuf_fini(&raw);
    return sbuf_take(&clean);
}

/* Counts the lines behind at, and the fields of the first one, by the same rule
   as take_field: only a quote that begins a field opens one. */
static void
count(const struct csv *from, size_t *n_lines, size_t *n_fields)
{
    bool quoted = false;
    bool at_start = true;

    *n_lines = 0;
    *n_fields = 1;
    for (size_t i = from->at; i < from->len; i++) {
        char ch = from->text[i];
        bool ends = !quoted && (ch == ',' || ch == '\n');

        if (ch == '"' && at_start)
            quoted = true;
        else if (ch == '"' && quoted && i + 1 < from->len &&
                 from->text[i + 1] == '"')
            i++;
        else if (ch == '"')
            quoted = false;
        else if (ends && ch == ',' && *n_lines == 0)
            ++*n_fields;
        else if (ends && ch == '\n')
            ++*n_lines;
        at_start = ends;
    }
    if (from->len > from->at && (quoted || from->text[from->len - 1] != '\n'))
        ++*n_lines;
}

/* A number as pandas writes one; *is_whole: without a point. */
static bool
is_number(const char *text, bool *is_whole)
{
    const char *p = text + (*text == '-');
    size_t n = strspn(p, "0123456789");

    *is_whole = n > 0 && p[n] == '\0';
    /* Leading zeros are of a code, such as a ZIP code. */
    if (n > 1 && p[0] == '0')
        return false;
    p += n;
    if (*p == '.') {
        size_t behind = strspn(p + 1, "0123456789");

        n += behind;
        p += 1 + behind;
    }
    if (n > 0 && (*p == 'e' || *p == 'E')) {
        p++;
        p += *p == '-' || *p == '+';
        if (*p == '\0')
            return false;
        p += strspn(p, "0123456789");
    }
    return n > 0 && *p == '\0';
}

static void
find_kind(struct table *t, size_t column)
{
    bool whole = true;
    bool any = false;

    for (size_t r = 0; r < t->n_head; r++) {
        const char *text = table_at(t, r, column)->text;
        bool is_whole = true;

        if (text == NULL)
            continue;
        any = true;
        if (!is_number(text, &is_whole)) {
            t->columns[column].kind = TABLE_TEXT;
            return;
        }
        whole = whole && is_whole;
    }
    t->columns[column].kind = !any    ? TABLE_TEXT
                              : whole ? TABLE_INTEGER
                                      : TABLE_DECIMAL;
    for (size_t r = 0; r < t->n_head && any; r++)
        table_at(t, r, column)->is_number =
            table_at(t, r, column)->text != NULL;
}

static void
read_row(struct csv *c, struct table *t, size_t row)
{
    bool last = false;

    for (size_t i = 0; !last; i++) {
        AUTO_FREE char *field = take_field(c, &last);

        if (i < t->n_columns && field[0] != '\0')
            table_at(t, row, i)->text = take_ptr(&field);
    }
}

struct table *
table_from_csv(const char *text, size_t len, struct error *err)
{
    struct csv c = {.text = text, .len = len};
    struct table *t = NULL;
    size_t n_lines = 0;
    size_t n_columns = 0;
    bool last = false;

    count(&c, &n_lines, &n_columns);
    if (n_lines == 0) {
        error_fill(err, ERR_DATA, "the table has no line");
        return NULL;
    }
    if (n_columns > TABLE_CSV_MAX_COLUMNS ||
        (n_lines - 1) * n_columns > TABLE_CSV_MAX_CELLS) {
        error_fill(err, ERR_TOO_LARGE,
                   "the table has %zu rows of %zu columns, more than can be "
                   "shown",
                   n_lines - 1, n_columns);
        return NULL;
    }
    t = table_new(n_columns, n_lines - 1, 0);
    t->n_rows_total = (int64_t)n_lines - 1;
    t->n_cols_total = (int64_t)n_columns;
    t->gap_at = n_columns;
    for (size_t i = 0; !last; i++) {
        AUTO_FREE char *name = take_field(&c, &last);

        if (i < n_columns)
            t->columns[i].name = take_ptr(&name);
    }
    for (size_t r = 0; r < t->n_head && c.at < c.len; r++)
        read_row(&c, t, r);
    for (size_t i = 0; i < n_columns; i++)
        find_kind(t, i);
    return t;
}
