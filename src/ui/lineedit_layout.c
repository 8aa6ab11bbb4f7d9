/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/lineedit_internal.h"

#include <limits.h>
#include <stdint.h>
#include <wchar.h>

#include "base/utf8.h"

#define TAB_COLUMNS 8

#define IGNORE_START '\001'
#define IGNORE_END '\002'

static void
place_char(struct lineedit_place *at, int width, int columns)
{
    if (at->column + width > columns) {
        at->row++;
        at->column = 0;
    }
    at->column += width;
    if (at->column >= columns) {
        at->row++;
        at->column = 0;
    }
}

void
lineedit_advance(struct lineedit_place *at, const char *text, size_t len,
                 int columns, int max_rows)
{
    bool ignored = false;

    for (size_t i = 0; i < len && at->row <= max_rows;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(text + i, len - i, &cp, &ok);
        int width = ok ? wcwidth((wchar_t)cp) : 1;

        i += n;
        if (cp == IGNORE_START || cp == IGNORE_END) {
            ignored = cp == IGNORE_START;
        } else if (ignored) {
            continue;
        } else if (cp == '\n') {
            at->row++;
            at->column = 0;
        } else if (cp == '\t') {
            width = TAB_COLUMNS - at->column % TAB_COLUMNS;
            while (width-- > 0)
                place_char(at, 1, columns);
        } else if (cp < 0x20 || cp == 0x7F) {
            place_char(at, 1, columns);
            place_char(at, 1, columns);
        } else if (width != 0) {
            /* Unknown to the C library: readline takes one column. */
            place_char(at, width < 0 ? 1 : width, columns);
        }
    }
}

int
lineedit_row_start(const char *text, int at)
{
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return at;
}

int
lineedit_row_column(const char *text, int at)
{
    struct lineedit_place place = {0};
    int start = lineedit_row_start(text, at);

    lineedit_advance(&place, text + start, (size_t)(at - start), INT_MAX, 0);
    return place.column;
}

int
lineedit_row_find(const char *text, int start, int len, int column)
{
    struct lineedit_place place = {0};
    int i = start;

    while (i < len && text[i] != '\n') {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(text + i, (size_t)(len - i), &cp, &ok);

        lineedit_advance(&place, text + i, n, INT_MAX, 0);
        if (place.column > column)
            break;
        i += (int)n;
    }
    return i;
}
