/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <string.h>

#include "base/str.h"
#include "base/utf8.h"
#include "ui/view_internal.h"

#define MAX_TEXT_BYTES 8192
#define MAX_COLUMNS_SHOWN 40
#define MAX_NAME_COLUMNS 24
#define KIND_COLUMNS 9

/* Less than this of how a file was read, or of a range, says nothing. */
#define MIN_HOW_COLUMNS 8
#define MIN_RANGE_COLUMNS 4

/* The longest name is cut here, so that a type and a range fit behind it. */
static size_t
name_limit(const struct view *v)
{
    size_t columns = (size_t)out_columns(v->config.out);

    return columns < 60 ? 12 : MAX_NAME_COLUMNS;
}

/* Adds untrusted text on one line, cut to width columns and padded to it when
   pad is set. */
static void
add_cut(const struct view *v, struct sbuf *sb, const char *text, size_t width,
        bool pad)
{
    AUTO_SBUF struct sbuf clean = {0};
    size_t used = 0;
    size_t n = 0;

    sbuf_init(&clean, MAX_TEXT_BYTES * 4);
    sanitize_text(SANITIZE_CELL, text,
                  utf8_floor(text, strlen(text), MAX_TEXT_BYTES / 8), &clean);
    n = utf8_fit(clean.data, clean.len, width, &used);
    if (n < clean.len) {
        size_t room = utf8_width(view_ellipsis(v), strlen(view_ellipsis(v)));

        n = utf8_fit(clean.data, clean.len, width > room ? width - room : 0,
                     &used);
        sbuf_add(sb, clean.data, n);
        sbuf_add_str(sb, view_ellipsis(v));
        used += room;
    } else {
        sbuf_add(sb, clean.data, n);
    }
    if (pad && used < width)
        sbuf_add_repeat(sb, ' ', width - used);
}

static void
add_missing(const struct view *v, struct sbuf *sb, int64_t n, size_t width)
{
    AUTO_SBUF struct sbuf text = {0};
    size_t used = 0;

    sbuf_init(&text, 64);
    if (n == 0) {
        sbuf_add_str(&text, view_dash(v));
    } else {
        str_add_grouped(&text, n);
        sbuf_add_str(&text, " missing");
    }
    used = utf8_width(text.data, text.len);
    sbuf_add(sb, text.data, text.len);
    if (used < width)
        sbuf_add_repeat(sb, ' ', width - used);
}

static size_t
missing_width(int64_t n)
{
    AUTO_SBUF struct sbuf text = {0};

    if (n == 0)
        return 1;
    sbuf_init(&text, 64);
    str_add_grouped(&text, n);
    return text.len + strlen(" missing");
}

static void
add_headline(const struct view *v, const struct event_load *load,
             struct sbuf *sb)
{
    const char *dot = view_dot(v);
    size_t total = (size_t)out_columns(v->config.out);
    size_t used = strlen(load->variable);

    str_add_grouped(sb, load->n_rows);
    sbuf_add_str(sb, load->n_rows == 1 ? " row" : " rows");
    sbuf_add_str(sb, out_has_unicode(v->config.out) ? " \xC3\x97 " : " x ");
    str_add_grouped(sb, load->n_cols_total);
    sbuf_add_str(sb, load->n_cols_total == 1 ? " column" : " columns");
    sbuf_addf(sb, " %s ", dot);
    str_add_bytes(sb, load->size_bytes);
    if (str_blank(load->how))
        return;
    used += utf8_width(sb->data, sb->len) + 3;
    if (used + MIN_HOW_COLUMNS > total)
        return;
    sbuf_addf(sb, " %s ", dot);
    add_cut(v, sb, load->how, total - used, false);
}

/* A range with the marks that the terminal can show. */
static char *
make_range(const struct view *v, const char *range)
{
    static const char dots[] = "\xE2\x80\xA6";
    static const char dot[] = "\xC2\xB7";
    struct sbuf sb;

    sbuf_init(&sb, strlen(range) + 1);
    for (const char *p = range; *p != '\0';) {
        if (!out_has_unicode(v->config.out) && str_starts(p, dots)) {
            sbuf_add_str(&sb, "..");
            p += strlen(dots);
        } else if (!out_has_unicode(v->config.out) && str_starts(p, dot)) {
            sbuf_add_char(&sb, '-');
            p += strlen(dot);
        } else {
            sbuf_add_char(&sb, *p++);
        }
    }
    return sbuf_take(&sb);
}

void
view_load(struct view *v, const struct event_load *load)
{
    struct out *out = v->config.out;
    enum out_channel ch = view_side(v);
    AUTO_SBUF struct sbuf sb = {0};
    size_t n = load->n_columns < MAX_COLUMNS_SHOWN ? load->n_columns
                                                   : MAX_COLUMNS_SHOWN;
    size_t total = (size_t)out_columns(out);
    size_t name_width = 1;
    size_t gap_width = 1;

    for (size_t i = 0; i < n; i++) {
        AUTO_SBUF struct sbuf name = {0};
        size_t width = 0;
        size_t gap = missing_width(load->columns[i].n_missing);

        sbuf_init(&name, MAX_TEXT_BYTES);
        add_cut(v, &name, load->columns[i].name, name_limit(v), false);
        width = utf8_width(name.data, name.len);
        name_width = width > name_width ? width : name_width;
        gap_width = gap > gap_width ? gap : gap_width;
    }
    view_speak(v, ch, VOICE_LOAD);
    sbuf_init(&sb, MAX_TEXT_BYTES);
    out_style(out, ch, STYLE_STRONG);
    out_inline(out, ch, SANITIZE_CELL, load->variable, strlen(load->variable));
    out_style(out, ch, STYLE_PLAIN);
    sbuf_add_str(&sb, "  ");
    add_headline(v, load, &sb);
    sbuf_add_char(&sb, '\n');
    out_ready(out, ch, sb.data, sb.len);
    for (size_t i = 0; i < n; i++) {
        const struct event_column *c = &load->columns[i];
        size_t used = 2 + name_width + 2 + KIND_COLUMNS + 2 + gap_width + 2;

        sbuf_clear(&sb);
        sbuf_add_str(&sb, "  ");
        add_cut(v, &sb, c->name, name_width, true);
        sbuf_add_str(&sb, "  ");
        add_cut(v, &sb, c->kind, KIND_COLUMNS, true);
        sbuf_add_str(&sb, "  ");
        add_missing(v, &sb, c->n_missing, gap_width);
        if (!str_blank(c->range) && used + MIN_RANGE_COLUMNS <= total) {
            AUTO_FREE char *range = make_range(v, c->range);

            sbuf_add_str(&sb, "  ");
            add_cut(v, &sb, range, total - used, false);
        }
        while (sb.len > 0 && sb.data[sb.len - 1] == ' ')
            sbuf_truncate(&sb, sb.len - 1);
        sbuf_add_char(&sb, '\n');
        out_ready(out, ch, sb.data, sb.len);
    }
    if ((int64_t)n < load->n_cols_total) {
        sbuf_clear(&sb);
        str_add_grouped(&sb, load->n_cols_total);
        view_note(v, "%zu of %s columns shown", n, sb.data);
    }
}
