/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "term/out.h"
#include "term/out_internal.h"

#define DEFAULT_MAX_COLUMNS 10000
#define TAB_COLUMNS 8

/* Where less room is left beside the margin, words are not kept whole. */
#define MIN_WRAP_COLUMNS 8

/* How lines of the program begin. A space stands for every character that
   looks like one. */
static const struct {
    const char *text;
    bool ascii; /* a mark only where there is nothing but ASCII */
} marks[] = {
    {"\xC2\xB7 ", false},
    {"warning: ", false},
    {"error: ", false},
    {"> ", false},
    {"\xE2\x94\x82", false},             /* the margin */
    {"\xE2\x94\x80\xE2\x94\x80", false}, /* the line around code */
    {"| ", true},
    {"--", true},
};

enum match { MATCH_NONE, MATCH_PART, MATCH_WHOLE };

void
out_add_style(struct sbuf *sb, enum style style)
{
    const char *sgr = style_sgr(style);

    if (sgr[0] == '0') {
        seq_add(sb, SEQ_SGR_RESET);
    } else {
        char params[OUT_MAX_STYLE_BYTES] = "0;";

        memcpy(params + 2, sgr, strlen(sgr) + 1);
        seq_add_sgr(sb, params);
    }
}

size_t
out_seq_len(const char *s, size_t len)
{
    size_t n = 1;

    if (len < 2)
        return len;
    if (s[1] != '[')
        return 2;
    for (n = 2; n < len; n++) {
        if (s[n] >= 0x40 && s[n] <= 0x7E)
            return n + 1;
    }
    return len;
}

static bool
is_space(uint32_t cp)
{
    return cp == ' ' || cp == 0xA0 || cp == '\t' || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

static enum match
match_mark(const char *mark, const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && *mark != '\0') {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(text + i, len - i, &cp, &ok);

        if (*mark == ' ') {
            if (!is_space(cp))
                return MATCH_NONE;
            mark++;
        } else {
            if (strncmp(mark, text + i, n) != 0)
                return MATCH_NONE;
            mark += n;
        }
        i += n;
    }
    return *mark == '\0' ? MATCH_WHOLE : MATCH_PART;
}

static enum match
match_marks(const char *text, size_t len, bool unicode)
{
    enum match best = MATCH_NONE;

    for (size_t i = 0; i < LEN(marks); i++) {
        enum match m = MATCH_NONE;

        if (!marks[i].ascii || !unicode)
            m = match_mark(marks[i].text, text, len);
        best = m > best ? m : best;
    }
    return best;
}

static size_t
max_columns(const struct out_stream *s)
{
    return s->max_columns > 0 ? s->max_columns : DEFAULT_MAX_COLUMNS;
}

static size_t
margin_columns(const struct out_stream *s)
{
    return s->margin != NULL ? utf8_width(s->margin, strlen(s->margin)) : 0;
}

static void add_char(struct out_stream *s, const struct out_look *look,
                     const char *c, size_t n, struct sbuf *to);

/* Goes on below, as a line of its own: with the margin, and with the colour
   that was on. */
static void
break_line(struct out_stream *s, const struct out_look *look, struct sbuf *to)
{
    if (look->colour && (s->sgr[0] != '\0' || style_sgr(s->style)[0] != '0'))
        seq_add(to, SEQ_SGR_RESET);
    sbuf_add_char(to, '\n');
    sbuf_add(to, look->margin->data, look->margin->len);
    sbuf_add_str(to, s->sgr);
    s->column = margin_columns(s);
    s->in_word = false;
    s->n_blanks = 0;
    /* Where there is no room to move a mark, doing so would break it again. */
    s->deciding =
        s->shift_marks && look->wrap_columns >= s->column + MIN_WRAP_COLUMNS;
    s->n_held = 0;
}

/* One character, once it is clear where it stands. */
static void
add_shaped(struct out_stream *s, const struct out_look *look, const char *c,
           size_t n, struct sbuf *to)
{
    uint32_t cp;
    bool ok;
    size_t width;

    utf8_decode(c, n, &cp, &ok);
    width = cp == '\t' ? TAB_COLUMNS - s->column % TAB_COLUMNS
                       : (size_t)utf8_cp_width(cp);
    if (s->n_cut_bytes > 0 ||
        (!look->whole_lines && s->line_columns + width > max_columns(s))) {
        if (s->n_cut_bytes == 0 && look->colour)
            seq_add(to, SEQ_SGR_RESET);
        s->n_cut_bytes += n;
        return;
    }
    if (look->wrap_columns > 0 && s->column + width > look->wrap_columns &&
        s->column > margin_columns(s)) {
        /* A blank at the edge is the break; nothing else is lost. */
        if (is_space(cp))
            return;
        break_line(s, look, to);
        if (s->deciding) {
            add_char(s, look, c, n, to);
            return;
        }
    }
    s->column += width;
    s->line_columns += width;
    sbuf_add(to, c, n);
}

static void
decide(struct out_stream *s, const struct out_look *look, bool shift,
       struct sbuf *to)
{
    char held[sizeof(s->held)];
    size_t n_held = s->n_held;
    size_t i = 0;

    /* The line may break in here, and there be something to decide again. */
    memcpy(held, s->held, n_held);
    s->n_held = 0;
    s->deciding = false;
    if (shift)
        add_shaped(s, look, " ", 1, to);
    while (i < n_held) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(held + i, n_held - i, &cp, &ok);

        add_char(s, look, held + i, n, to);
        i += n;
    }
}

/* The margin is there, or about to be written. */
static void
start_line(struct out_stream *s)
{
    s->in_line = true;
    s->deciding = s->shift_marks;
    s->n_held = 0;
    s->n_cut_bytes = 0;
    s->in_word = false;
    s->n_blanks = 0;
    s->column = margin_columns(s);
    s->line_columns = s->column;
}

static void
begin_line(struct out_stream *s, const struct out_look *look, struct sbuf *to)
{
    if (s->in_line)
        return;
    start_line(s);
    sbuf_add(to, look->margin->data, look->margin->len);
}

/* What stands for the rest of a line that was too long. */
static void
add_cut(struct out_stream *s, const struct out_look *look, struct sbuf *to)
{
    char text[48];
    size_t width =
        (size_t)snprintf(text, sizeof(text), "...[+%zu bytes]", s->n_cut_bytes);

    if (look->wrap_columns > 0 && s->column + width > look->wrap_columns &&
        s->column > margin_columns(s)) {
        s->sgr[0] = '\0';
        break_line(s, look, to);
        s->deciding = false;
    }
    sbuf_add(to, text, width);
}

static void
end_line(struct out_stream *s, const struct out_look *look, struct sbuf *to)
{
    if (s->deciding)
        decide(s, look, false, to);
    if (s->n_cut_bytes > 0)
        add_cut(s, look, to);
    if (look->colour && style_sgr(s->style)[0] != '0')
        seq_add(to, SEQ_SGR_RESET);
    sbuf_add_char(to, '\n');
    s->in_line = false;
}

/* The sanitiser erases the line and writes the margin again. */
static size_t
restart_line(struct out_stream *s, const struct out_look *look,
             const char *data, size_t len, struct sbuf *to)
{
    size_t n = 1 + out_seq_len(data + 1, len - 1) + look->margin->len;

    start_line(s);
    n = n < len ? n : len;
    sbuf_add(to, data, n);
    return n;
}

/* Columns of the word at the beginning of data, as far as it is there. */
static size_t
word_columns(const char *data, size_t len, size_t limit)
{
    size_t width = 0;
    size_t i = 0;

    while (i < len && width <= limit) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(data + i, len - i, &cp, &ok);

        if (data[i] == '\n' || data[i] == '\r' || is_space(cp))
            break;
        if (data[i] == '\033') {
            i += out_seq_len(data + i, len - i);
            continue;
        }
        width += (size_t)utf8_cp_width(cp);
        i += n;
    }
    return width;
}

/* Writes the blanks that wait, as far as there is room for them. */
static void
put_blanks(struct out_stream *s, const struct out_look *look, struct sbuf *to)
{
    size_t n = s->n_blanks;

    s->n_blanks = 0;
    for (; n > 0; n--)
        add_shaped(s, look, " ", 1, to);
}

/* Before a word: it begins the next line when it does not fit into this one
   and fits there. Otherwise the blanks before it are written now. */
static void
place_word(struct out_stream *s, const struct out_look *look, const char *data,
           size_t len, struct sbuf *to)
{
    size_t room = look->wrap_columns;
    size_t start = margin_columns(s);

    if (room > start + MIN_WRAP_COLUMNS && s->n_cut_bytes == 0 &&
        s->column > start) {
        size_t width = word_columns(data, len, room);

        if (width > 0 && s->column + s->n_blanks + width > room &&
            start + width <= room) {
            break_line(s, look, to);
            return;
        }
    }
    put_blanks(s, look, to);
}

static void
add_char(struct out_stream *s, const struct out_look *look, const char *c,
         size_t n, struct sbuf *to)
{
    enum match m;

    if (!s->deciding) {
        add_shaped(s, look, c, n, to);
        return;
    }
    if (n > sizeof(s->held) - s->n_held) {
        decide(s, look, false, to);
        add_shaped(s, look, c, n, to);
        return;
    }
    memcpy(s->held + s->n_held, c, n);
    s->n_held += n;
    m = match_marks(s->held, s->n_held, look->unicode);
    if (m != MATCH_PART)
        decide(s, look, m == MATCH_WHOLE, to);
}

/* The sanitiser sends whole states: the last one is all that counts. */
static void
note_colour(struct out_stream *s, const char *sequence, size_t len)
{
    if (strncmp(sequence, seq_text(SEQ_SGR_RESET), len) == 0 ||
        len >= sizeof(s->sgr))
        len = 0;
    memcpy(s->sgr, sequence, len);
    s->sgr[len] = '\0';
}

void
out_shape(struct out_stream *s, const struct out_look *look, const char *data,
          size_t len, struct sbuf *to)
{
    size_t i = 0;

    while (i < len) {
        uint32_t cp;
        bool ok;
        size_t n = 1;

        if (data[i] == '\r' && i + 1 < len && data[i + 1] == '\033') {
            i += restart_line(s, look, data + i, len - i, to);
            continue;
        }
        if (data[i] == '\033') {
            n = out_seq_len(data + i, len - i);
            begin_line(s, look, to);
            /* A blank has the colour of its place. */
            put_blanks(s, look, to);
            /* What colours the rest of a line that is cut has no use. */
            if (s->n_cut_bytes == 0)
                sbuf_add(to, data + i, n);
            note_colour(s, data + i, n);
        } else if (data[i] == '\n') {
            begin_line(s, look, to);
            end_line(s, look, to);
        } else {
            n = utf8_decode(data + i, len - i, &cp, &ok);
            begin_line(s, look, to);
            if (look->wrap_columns > 0 && !s->deciding) {
                if (cp == ' ') {
                    s->in_word = false;
                    s->n_blanks++;
                    i += n;
                    continue;
                }
                if (!s->in_word)
                    place_word(s, look, data + i, len - i, to);
            }
            add_char(s, look, data + i, n, to);
            s->in_word = !is_space(cp);
        }
        i += n;
    }
}
