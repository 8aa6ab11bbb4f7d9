/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "term/out.h"
#include "term/out_internal.h"
#include "term/sanitize.h"

#define MAX_OUT_BYTES (64u << 20)
#define TAB_COLUMNS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static bool
is_blank(uint32_t cp)
{
    return cp == ' ' || cp == 0xA0 || cp == '\t' || cp == '\n' ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

/* A row has no more columns than there are. */
static void
check_rows(const struct sbuf *sb, size_t columns)
{
    size_t width = 0;

    for (size_t i = 0; i < sb->len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(sb->data + i, sb->len - i, &cp, &ok);

        if (cp == '\n' || cp == '\r')
            width = 0;
        else if (cp == '\033')
            n = out_seq_len(sb->data + i, sb->len - i);
        else if (cp == '\t')
            width += TAB_COLUMNS - width % TAB_COLUMNS;
        else
            width += (size_t)utf8_cp_width(cp);
        expect(width <= columns, "a row is too wide");
        i += n;
    }
}

/* No row begins like one of the program's own; sequences do not show. */
static void
check_marks(const struct sbuf *sb, bool unicode, size_t margin_len)
{
    static const char dashes[] = "\xE2\x94\x80\xE2\x94\x80";

    for (size_t i = 0; i < sb->len;) {
        const char *end = memchr(sb->data + i, '\n', sb->len - i);
        size_t n = end != NULL ? (size_t)(end - sb->data) - i : sb->len - i;
        char row[16] = "";
        size_t len = 0;

        for (size_t at = i + margin_len; at < i + n && len < sizeof(row) - 1;) {
            if (sb->data[at] == '\033')
                at += out_seq_len(sb->data + at, i + n - at);
            else
                row[len++] = sb->data[at++];
        }
        expect(strncmp(row, "> ", 2) != 0 && strncmp(row, "error: ", 7) != 0,
               "a row begins with a mark");
        expect(strncmp(row, unicode ? dashes : "--", unicode ? 6 : 2) != 0,
               "a row begins with a rule");
        i += n + 1;
    }
}

/* What is left when blanks, line ends, sequences and margins are taken out. */
static void
add_visible(struct sbuf *to, const struct sbuf *from, const char *margin)
{
    bool at_start = true;

    for (size_t i = 0; i < from->len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(from->data + i, from->len - i, &cp, &ok);

        if (cp == '\033') {
            n = out_seq_len(from->data + i, from->len - i);
        } else if (at_start && margin != NULL && *margin != '\0') {
            n = strlen(margin);
            expect(from->len - i >= n && memcmp(from->data + i, margin, n) == 0,
                   "a row without the margin");
            at_start = false;
        } else {
            at_start = cp == '\n' || cp == '\r';
            if (!is_blank(cp) && cp != '\r')
                sbuf_add(to, from->data + i, n);
        }
        i += n;
    }
}

/*
 * The shaper gets what the sanitiser makes of the input, in pieces. No row is
 * wider than the columns or begins with a mark, and but for blanks nothing is
 * lost or added.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const margins[] = {NULL, "\xE2\x94\x82 ", "| "};
    static const enum sanitize_context contexts[] = {
        SANITIZE_MODEL, SANITIZE_PROGRAM, SANITIZE_CODE};
    struct out_stream s = {.wrap = true};
    AUTO_SBUF struct sbuf clean = {0};
    AUTO_SBUF struct sbuf margin = {0};
    AUTO_SBUF struct sbuf shaped = {0};
    AUTO_SBUF struct sbuf before = {0};
    AUTO_SBUF struct sbuf after = {0};
    struct out_look look = {.margin = &margin, .whole_lines = true};
    size_t piece;

    if (size < 4)
        return 0;
    s.san.context = contexts[data[0] % LEN(contexts)];
    s.margin = margins[data[1] % LEN(margins)];
    s.shift_marks = (data[1] & 0x40) != 0;
    look.colour = (data[1] & 0x80) != 0;
    look.unicode = (data[1] & 0x20) != 0;
    look.wrap_columns = 20 + data[2] % 60;
    piece = 1 + data[3] % 64;
    data += 4;
    size -= 4;
    s.context = s.san.context;
    s.san.no_color = !look.colour;
    s.san.line_restart_as_lf = true;
    sbuf_init(&clean, MAX_OUT_BYTES);
    sbuf_init(&margin, OUT_MAX_MARGIN_BYTES);
    sbuf_init(&shaped, MAX_OUT_BYTES);
    sbuf_init(&before, MAX_OUT_BYTES);
    sbuf_init(&after, MAX_OUT_BYTES);
    if (s.margin != NULL)
        sbuf_add_str(&margin, s.margin);
    for (size_t i = 0; i <= size; i += piece) {
        sbuf_clear(&clean);
        if (i + piece > size) {
            sanitize_feed(&s.san, (const char *)data + i, size - i, &clean);
            sanitize_end(&s.san, &clean);
            sbuf_add_char(&clean, '\n');
        } else {
            sanitize_feed(&s.san, (const char *)data + i, piece, &clean);
        }
        add_visible(&before, &clean, NULL);
        out_shape(&s, &look, clean.data, clean.len, &shaped);
    }
    expect(sbuf_ok(&shaped) && sbuf_ok(&before), "too much");
    check_rows(&shaped, look.wrap_columns);
    if (s.shift_marks && !look.colour)
        check_marks(&shaped, look.unicode,
                    s.margin != NULL ? strlen(s.margin) : 0);
    add_visible(&after, &shaped, s.margin);
    expect(
        before.len == after.len &&
            (after.len == 0 || memcmp(before.data, after.data, after.len) == 0),
        "visible text was lost or added");
    return 0;
}
