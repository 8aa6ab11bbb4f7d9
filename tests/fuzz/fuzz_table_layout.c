/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "model/table.h"
#include "render/table_layout.h"

#define MAX_OUT_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t len;
};

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static unsigned
take_byte(struct input *in)
{
    if (in->len == 0)
        return 0;
    in->len--;
    return *in->data++;
}

/* Text up to the next 0xFF, made valid as the model wants it; NULL for none. */
static char *
take_text(struct input *in)
{
    struct sbuf sb;
    size_t n = 0;
    char *text;

    while (n < in->len && in->data[n] != 0xFF && in->data[n] != 0)
        n++;
    if (n == 1 && in->data[0] == '?') {
        text = NULL;
    } else {
        sbuf_init(&sb, n * 3 + 1);
        utf8_add_repaired(&sb, (const char *)in->data, n);
        text = sb.len > 0 ? sbuf_take(&sb) : xstrdup("");
        sbuf_fini(&sb);
    }
    n += n < in->len ? 1 : 0;
    in->data += n;
    in->len -= n;
    return text;
}

static struct table *
take_table(struct input *in)
{
    size_t n_columns = take_byte(in) % 24;
    size_t n_head = take_byte(in) % 24;
    size_t n_tail = take_byte(in) % 8;
    struct table *t = table_new(n_columns, n_head, n_tail);
    unsigned more_rows = take_byte(in);
    unsigned more_columns = take_byte(in) % 8;

    t->n_index = n_columns > 0 ? take_byte(in) % 3 % (n_columns + 1) : 0;
    t->n_rows_total = (int64_t)(n_head + n_tail) +
                      (n_tail > 0 ? (int64_t)more_rows << 40 : 0);
    t->n_cols_left_out = more_columns;
    t->n_cols_total = (int64_t)(n_columns - t->n_index) + more_columns;
    if (more_columns > 0)
        t->gap_at = take_byte(in) % (n_columns + 1);
    for (size_t i = 0; i < n_columns; i++) {
        t->columns[i].kind =
            (enum table_kind)(take_byte(in) % (TABLE_OTHER + 1));
        t->columns[i].is_index = i < t->n_index;
        t->columns[i].name = take_text(in);
    }
    for (size_t i = 0; i < (n_head + n_tail) * n_columns; i++) {
        t->cells[i].text = take_text(in);
        t->cells[i].is_number = t->cells[i].text != NULL;
    }
    return t;
}

/* Bytes of a sequence that may stand in a table; 0: of another. */
static size_t
measure_sequence(const char *s, const struct table_options *options)
{
    size_t n;

    if (!options->sequences || s[0] != '\033' || s[1] != '[')
        return 0;
    n = 2 + strspn(s + 2, "0123456789;");
    if (s[n] == 'G' || (s[n] == 'm' && options->colour))
        return n + 1;
    return 0;
}

static void
check_line(const char *s, size_t len, const struct table_options *options)
{
    size_t width = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n;

        if (s[i] == '\033') {
            n = measure_sequence(s + i, options);
            expect(n > 0, "a sequence that is not allowed");
            i += n;
            continue;
        }
        n = utf8_decode(s + i, len - i, &cp, &ok);
        expect(ok, "not UTF-8");
        expect(cp >= 0x20 && (cp < 0x7F || cp > 0x9F), "a control");
        width += (size_t)utf8_cp_width(cp);
        i += n;
    }
    expect(width <= (size_t)options->width, "a line is too wide");
}

/* No line is wider than asked, and nothing is in it but text and what places
   and dims it. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned flags = take_byte(&in);
    struct table_options options = {
        .width = TABLE_LAYOUT_MIN_WIDTH + (int)(take_byte(&in) % 100),
        .unicode = (flags & 1) != 0,
        .sequences = (flags & 2) != 0,
        .colour = (flags & 4) != 0,
        .address = (flags & 8) != 0 ? "12.3" : NULL,
    };
    struct table *t = take_table(&in);
    struct sbuf sb;

    sbuf_init(&sb, MAX_OUT_BYTES);
    table_render(t, &options, &sb);
    expect(sbuf_ok(&sb), "too much");
    expect(sb.len > 0 && sb.data[sb.len - 1] == '\n', "no line end");
    for (size_t i = 0; i < sb.len;) {
        size_t n = strcspn(sb.data + i, "\n");

        expect(i + n < sb.len, "NUL");
        check_line(sb.data + i, n, &options);
        i += n + 1;
    }
    sbuf_fini(&sb);
    table_free(t);
    return 0;
}
