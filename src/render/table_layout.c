/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/table_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/table.h"
#include "render/table_internal.h"
#include "term/seq.h"
#include "term/style.h"

/* Rows: all up to a number, else the first and the last. */
#define MAX_ALL_ROWS 20
#define HEAD_ROWS 10
#define TAIL_ROWS 5

#define MAX_VERTICAL_ROWS 5
#define MAX_VERTICAL_LINES 12

/* Columns of text are shortened to the first, and then to the second. */
#define FAIR_WIDTH 16
#define MIN_WIDTH 8

/* Data columns that are kept at the left of what is left out. */
#define KEEP_LEFT 2

/* Two dashes alone are the mark around code. */
#define MIN_RULE_WIDTH 3

#define MAX_FOOTER_BYTES 256

/* What the lines are drawn with. */
struct glyphs {
    const char *bar;
    const char *dash;
    const char *cross;
    const char *ellipsis;
    const char *rows; /* stands for rows that are left out */
    const char *dot;
};

static const struct glyphs unicode_glyphs = {
    .bar = "\xE2\x94\x82",
    .dash = "\xE2\x94\x80",
    .cross = "\xE2\x94\xBC",
    .ellipsis = "\xE2\x80\xA6",
    .rows = "\xE2\x8B\xAE",
    .dot = "\xC2\xB7",
};

static const struct glyphs ascii_glyphs = {
    .bar = "|",
    .dash = "-",
    .cross = "+",
    .ellipsis = "...",
    .rows = "...",
    .dot = "-",
};

struct column {
    struct table_text name;
    struct table_text *cells; /* owned; one for each row shown */
    bool numeric;
    size_t natural;
    size_t min;
    size_t width;
};

struct layout {
    const struct table *t;
    const struct table_options *options;
    const struct glyphs *glyphs;
    struct sbuf *out;
    size_t limit; /* columns of the terminal */
    size_t ellipsis_width;

    size_t *rows; /* owned; rows of the table that are shown */
    size_t n_rows;
    size_t rows_gap_at; /* n_rows: nothing is left out */

    struct column *columns; /* owned; all that the table has */
    size_t first;           /* 1 when the index says nothing */

    /* Columns from gap_at to gap_end are left out; has_gap is also true when
       the table itself came without some. */
    size_t gap_at;
    size_t gap_end;
    bool has_gap;
};

/* --- rows --- */

static void
choose_rows(struct layout *l)
{
    const struct table *t = l->t;
    size_t n_all = t->n_head + t->n_tail;
    size_t n_first = t->n_head;
    size_t n_last = t->n_tail;

    if (l->options->all_rows) {
        n_first = n_all;
        n_last = 0;
    } else if (n_all > MAX_ALL_ROWS || t->n_rows_total > MAX_ALL_ROWS) {
        n_first = t->n_head < HEAD_ROWS ? t->n_head : HEAD_ROWS;
        n_last = n_all - n_first < TAIL_ROWS ? n_all - n_first : TAIL_ROWS;
        /* Rows of the head that stand before the gap are no last rows. */
        if (t->n_tail > 0 && n_last > t->n_tail)
            n_last = t->n_tail;
    }
    l->n_rows = n_first + n_last;
    l->rows = xcalloc(l->n_rows, sizeof(l->rows[0]));
    for (size_t i = 0; i < n_first; i++)
        l->rows[i] = i;
    for (size_t i = 0; i < n_last; i++)
        l->rows[n_first + i] = n_all - n_last + i;
    l->rows_gap_at = (int64_t)l->n_rows < t->n_rows_total ? n_first : SIZE_MAX;
}

/* A nameless index that counts the rows from 0 repeats what one sees. */
static bool
says_nothing(const struct table *t)
{
    if (t->n_index != 1 || t->n_columns < 2 || !str_blank(t->columns[0].name) ||
        t->columns[0].kind != TABLE_INTEGER)
        return false;
    for (size_t i = 0; i < t->n_head + t->n_tail; i++) {
        int64_t at = (int64_t)i;
        int64_t value;

        if (i >= t->n_head)
            at += t->n_rows_total - (int64_t)(t->n_head + t->n_tail);
        if (table_at(t, i, 0)->text == NULL ||
            str_to_int(table_at(t, i, 0)->text, 0, INT64_MAX, &value, NULL) <
                0 ||
            value != at)
            return false;
    }
    return true;
}

/* --- columns --- */

/* Half a date says something else than the whole. */
static bool
is_whole(enum table_kind kind)
{
    return kind == TABLE_DATE || kind == TABLE_TIME ||
           kind == TABLE_TIMESTAMP || kind == TABLE_BOOLEAN;
}

static void
measure(struct column *c, enum table_kind kind, size_t n_rows)
{
    size_t numbers = 0;

    c->natural = c->name.width;
    for (size_t i = 0; i < n_rows; i++) {
        size_t width = c->cells[i].width;

        c->natural = width > c->natural ? width : c->natural;
        if (c->cells[i].is_number || c->cells[i].is_null || is_whole(kind))
            numbers = width > numbers ? width : numbers;
    }
    c->natural = c->natural < 1 ? 1 : c->natural;
    c->natural = c->natural > TABLE_MAX_COLUMN ? TABLE_MAX_COLUMN : c->natural;
    c->min = c->natural < MIN_WIDTH ? c->natural : MIN_WIDTH;
    numbers = numbers < c->natural ? numbers : c->natural;
    c->min = numbers > c->min ? numbers : c->min;
    c->width = c->natural;
}

static void
read_columns(struct layout *l)
{
    const struct table *t = l->t;

    l->columns = xcalloc(t->n_columns, sizeof(l->columns[0]));
    for (size_t i = 0; i < t->n_columns; i++) {
        struct column *c = &l->columns[i];

        table_text_name(t, i, &c->name);
        c->cells = xcalloc(l->n_rows, sizeof(c->cells[0]));
        table_text_cells(t, i, l->rows, l->n_rows, c->cells);
        c->numeric = table_text_is_numeric(t, i);
        measure(c, t->columns[i].kind, l->n_rows);
    }
    l->first = says_nothing(t) ? 1 : 0;
    l->has_gap = t->n_cols_left_out > 0;
    l->gap_at = t->n_columns;
    if (l->has_gap && t->gap_at < t->n_columns)
        l->gap_at = t->gap_at > l->first ? t->gap_at : l->first;
    l->gap_end = l->gap_at;
}

/* The next column that is shown, from i on; n_columns at the end. */
static size_t
next_shown(const struct layout *l, size_t i)
{
    return i >= l->gap_at && i < l->gap_end ? l->gap_end : i;
}

#define FOR_EACH_SHOWN(l, i)                                                   \
    for (size_t i = next_shown((l), (l)->first); i < (l)->t->n_columns;        \
         i = next_shown((l), i + 1))

static size_t
count_shown(const struct layout *l)
{
    return l->t->n_columns - l->first - (l->gap_end - l->gap_at);
}

/* One space on each side of a bar, one at the left; none at the end. */
static size_t
total_width(const struct layout *l)
{
    size_t n = count_shown(l) + (l->has_gap ? 1 : 0);
    size_t total = l->has_gap ? l->ellipsis_width : 0;

    FOR_EACH_SHOWN (l, i)
        total += l->columns[i].width;
    return total + (n > 0 ? 3 * n - 2 : 0);
}

static size_t
slack_of(const struct column *c, size_t floor)
{
    size_t least = c->min > floor ? c->min : floor;

    return c->width > least ? c->width - least : 0;
}

/* Shortens columns that are wider than floor, in proportion to what they have
   above it, until the table fits. */
static void
shorten(struct layout *l, size_t floor)
{
    size_t total = total_width(l);
    size_t slack = 0;
    size_t excess;

    if (total <= l->limit)
        return;
    excess = total - l->limit;
    FOR_EACH_SHOWN (l, i)
        slack += slack_of(&l->columns[i], floor);
    if (slack == 0)
        return;
    excess = excess < slack ? excess : slack;
    FOR_EACH_SHOWN (l, i) {
        size_t own = slack_of(&l->columns[i], floor);

        l->columns[i].width -= (own * excess + slack - 1) / slack;
    }
}

static bool
fit_columns(struct layout *l)
{
    FOR_EACH_SHOWN (l, i)
        l->columns[i].width = l->columns[i].natural;
    shorten(l, FAIR_WIDTH);
    shorten(l, 0);
    return total_width(l) <= l->limit;
}

/* Leaves one more column out, from the middle outward. False: all that are
   left are kept. */
static bool
leave_one_out(struct layout *l)
{
    size_t n = l->t->n_columns;
    size_t keep_left = l->t->n_index + KEEP_LEFT;
    size_t left;
    size_t right;

    if (!l->has_gap) {
        l->gap_at = l->first + (n - l->first) / 2;
        l->gap_at = l->gap_at < keep_left ? keep_left : l->gap_at;
        l->gap_at = l->gap_at > n ? n : l->gap_at;
        l->gap_end = l->gap_at;
    }
    left = l->gap_at > keep_left ? l->gap_at - keep_left : 0;
    right = n - l->gap_end > 1 ? n - l->gap_end - 1 : 0;
    if (left == 0 && right == 0)
        return false;
    l->has_gap = true;
    if (right >= left)
        l->gap_end++;
    else
        l->gap_at--;
    return true;
}

/* Gives back what is left over, from left to right. */
static void
give_back(struct layout *l)
{
    size_t left = l->limit - total_width(l);

    FOR_EACH_SHOWN (l, i) {
        struct column *c = &l->columns[i];
        size_t more = c->natural - c->width;

        more = more < left ? more : left;
        c->width += more;
        left -= more;
    }
}

static bool
is_cut(const struct layout *l)
{
    FOR_EACH_SHOWN (l, i) {
        if (l->columns[i].cells[0].width > l->columns[i].width)
            return true;
    }
    return false;
}

/* Chooses columns and widths. False: the rows are better written downwards. */
static bool
choose_columns(struct layout *l)
{
    bool whole = !l->has_gap;

    while (!fit_columns(l)) {
        if (!leave_one_out(l))
            return false;
    }
    give_back(l);
    return l->n_rows != 1 || l->t->n_rows_total != 1 ||
           (!is_cut(l) && (whole == !l->has_gap));
}

/* --- writing --- */

static bool
is_styled(const struct layout *l)
{
    return l->options->sequences && l->options->colour;
}

static void
add_styled(struct layout *l, enum style style, const char *text, size_t len)
{
    if (is_styled(l))
        seq_add_sgr(l->out, style_sgr(style));
    sbuf_add(l->out, text, len);
    if (is_styled(l))
        seq_add(l->out, SEQ_SGR_RESET);
}

static bool
is_ascii(const struct table_text *text)
{
    for (size_t i = 0; i < text->len; i++) {
        if ((unsigned char)text->text[i] >= 0x80)
            return false;
    }
    return true;
}

/* Text in width columns; false in pad_right leaves the end of a line bare. */
static void
add_cell(struct layout *l, const struct table_text *text, size_t width,
         bool right, bool pad_right, enum style style)
{
    AUTO_SBUF struct sbuf cut = {0};
    size_t used = text->width;

    sbuf_init(&cut, text->len + 8);
    if (text->width > width) {
        size_t room = width > l->ellipsis_width ? width - l->ellipsis_width : 0;
        size_t n = utf8_fit(text->text, text->len, room, &used);

        sbuf_add(&cut, text->text, n);
        sbuf_add(&cut, l->glyphs->ellipsis,
                 utf8_fit(l->glyphs->ellipsis, strlen(l->glyphs->ellipsis),
                          width - used, &room));
        used += room;
    } else {
        sbuf_add(&cut, text->text, text->len);
    }
    if (right)
        sbuf_add_repeat(l->out, ' ', width - used);
    if (style != STYLE_PLAIN && cut.len > 0)
        add_styled(l, style, cut.data, cut.len);
    else
        sbuf_add(l->out, cut.data, cut.len);
    if (!right && pad_right)
        sbuf_add_repeat(l->out, ' ', width - used);
}

/* Where a line stands. */
struct line {
    bool begun;
    size_t column; /* columns written, as we count them */
    bool doubtful; /* a terminal may count otherwise */
};

/*
 * What stands before a cell. Terminals disagree on the width of some
 * characters, so behind such the bar is put to its column.
 */
static void
begin_cell(struct layout *l, struct line *line, size_t width)
{
    if (line->begun) {
        sbuf_add_char(l->out, ' ');
        if (line->doubtful && l->options->sequences)
            seq_add_cha(l->out, (int)line->column + 2);
        sbuf_add_str(l->out, l->glyphs->bar);
        line->column += 2;
    }
    sbuf_add_char(l->out, ' ');
    line->column += 1 + width;
    line->begun = true;
}

static void
end_row(struct layout *l)
{
    while (l->out->len > 0 && l->out->data[l->out->len - 1] == ' ')
        sbuf_truncate(l->out, l->out->len - 1);
    sbuf_add_char(l->out, '\n');
}

static void
add_gap(struct layout *l, struct line *line)
{
    begin_cell(l, line, l->ellipsis_width);
    sbuf_add_str(l->out, l->glyphs->ellipsis);
}

/* row: of those shown; SIZE_MAX: the names. */
static void
add_row(struct layout *l, size_t row)
{
    struct line line = {0};
    bool names = row == SIZE_MAX;

    FOR_EACH_SHOWN (l, i) {
        const struct column *c = &l->columns[i];
        const struct table_text *text = names ? &c->name : &c->cells[row];
        bool last = next_shown(l, i + 1) >= l->t->n_columns &&
                    !(l->has_gap && l->gap_end >= l->t->n_columns);

        if (l->has_gap && i == l->gap_end)
            add_gap(l, &line);
        begin_cell(l, &line, c->width);
        add_cell(l, text, c->width, c->numeric, !last,
                 names           ? STYLE_STRONG
                 : text->is_null ? STYLE_DIM
                                 : STYLE_PLAIN);
        line.doubtful = line.doubtful || !is_ascii(text);
    }
    if (l->has_gap && l->gap_end >= l->t->n_columns)
        add_gap(l, &line);
    end_row(l);
}

static void
add_dashes(struct layout *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sbuf_add_str(l->out, l->glyphs->dash);
}

/* The line under the names; it ends where the last column does. */
static void
add_rule(struct layout *l)
{
    bool begun = false;

    FOR_EACH_SHOWN (l, i) {
        if (l->has_gap && i == l->gap_end) {
            add_dashes(l, begun ? 1 : 0);
            sbuf_add_str(l->out, begun ? l->glyphs->cross : "");
            add_dashes(l, 1 + l->ellipsis_width);
            begun = true;
        }
        add_dashes(l, begun ? 1 : 0);
        sbuf_add_str(l->out, begun ? l->glyphs->cross : "");
        add_dashes(l, 1 + l->columns[i].width);
        begun = true;
    }
    if (l->has_gap && l->gap_end >= l->t->n_columns) {
        add_dashes(l, begun ? 1 : 0);
        sbuf_add_str(l->out, begun ? l->glyphs->cross : "");
        add_dashes(l, 1 + l->ellipsis_width);
    }
    for (size_t n = total_width(l); n < MIN_RULE_WIDTH; n++)
        add_dashes(l, 1);
    sbuf_add_char(l->out, '\n');
}

static void
add_table(struct layout *l)
{
    add_row(l, SIZE_MAX);
    add_rule(l);
    for (size_t row = 0; row < l->n_rows; row++) {
        if (row == l->rows_gap_at)
            sbuf_addf(l->out, "%s\n", l->glyphs->rows);
        add_row(l, row);
    }
    if (l->rows_gap_at == l->n_rows)
        sbuf_addf(l->out, "%s\n", l->glyphs->rows);
}

/* --- one line for each value --- */

/* Bytes of the first line of text; a line ends behind a space when one stands
   in its second half. */
static size_t
fit_line(const char *text, size_t len, size_t width)
{
    size_t used;
    size_t fit = utf8_fit(text, len, width, &used);

    for (size_t i = fit; fit < len && i > fit / 2; i--) {
        if (text[i - 1] == ' ')
            return i;
    }
    return fit;
}

/* A value over as many lines as it needs, each behind the names. */
static void
add_wrapped(struct layout *l, const struct table_text *text, size_t indent)
{
    size_t width = l->limit - indent;
    size_t at = 0;

    for (size_t n = 0; n == 0 || at < text->len; n++) {
        size_t fit = fit_line(text->text + at, text->len - at, width);

        if (n > 0)
            sbuf_add_repeat(l->out, ' ', indent);
        if (n == MAX_VERTICAL_LINES - 1 && at + fit < text->len) {
            sbuf_add_str(l->out, l->glyphs->ellipsis);
            end_row(l);
            return;
        }
        if (text->is_null)
            add_styled(l, STYLE_DIM, text->text + at, fit);
        else
            sbuf_add(l->out, text->text + at, fit);
        end_row(l);
        at += fit;
    }
}

/* Shows all columns and the first rows. */
static void
add_vertical(struct layout *l)
{
    size_t name_width = 1;

    l->gap_at = l->t->n_cols_left_out > 0 ? l->t->gap_at : l->t->n_columns;
    l->gap_end = l->gap_at;
    l->has_gap = l->t->n_cols_left_out > 0;
    l->n_rows = l->n_rows < MAX_VERTICAL_ROWS ? l->n_rows : MAX_VERTICAL_ROWS;
    FOR_EACH_SHOWN (l, i) {
        size_t width = l->columns[i].name.width;

        name_width = width > name_width ? width : name_width;
    }
    name_width = name_width < l->limit / 3 ? name_width : l->limit / 3;
    /* Without a row, the names alone. */
    for (size_t row = 0; row == 0 || row < l->n_rows; row++) {
        if (row > 0)
            sbuf_add_char(l->out, '\n');
        FOR_EACH_SHOWN (l, i) {
            struct column *c = &l->columns[i];

            if (l->has_gap && i == l->gap_at)
                sbuf_addf(l->out, " %s\n", l->glyphs->ellipsis);
            sbuf_add_char(l->out, ' ');
            add_cell(l, &c->name, name_width, false, true, STYLE_STRONG);
            if (l->options->sequences && !is_ascii(&c->name))
                seq_add_cha(l->out, (int)name_width + 2);
            sbuf_add_str(l->out, "  ");
            if (row < l->n_rows)
                add_wrapped(l, &c->cells[row], 1 + name_width + 2);
            else
                end_row(l);
        }
    }
}

/* --- footer --- */

/* Adds a part behind what is there, or on a line of its own. */
static void
add_part(struct layout *l, struct sbuf *line, const char *between,
         const char *part)
{
    if (line->len > 0 && utf8_width(line->data, line->len) +
                                 utf8_width(between, strlen(between)) +
                                 strlen(part) >
                             l->limit) {
        add_styled(l, STYLE_DIM, line->data, line->len);
        sbuf_add_char(l->out, '\n');
        sbuf_clear(line);
    }
    if (line->len > 0)
        sbuf_add_str(line, between);
    else
        sbuf_addf(line, "%s ", l->glyphs->dot);
    sbuf_add_str(line, part);
}

/* How many of what: "15 of 98,214 rows", or all of them, "0 rows". */
static void
add_count(struct layout *l, struct sbuf *line, int64_t n_shown, int64_t n,
          const char *what)
{
    AUTO_SBUF struct sbuf part = {0};

    sbuf_init(&part, MAX_FOOTER_BYTES);
    if (n_shown < n) {
        str_add_grouped(&part, n_shown);
        sbuf_add_str(&part, " of ");
    }
    str_add_grouped(&part, n);
    sbuf_addf(&part, " %s%s", what, n == 1 && n_shown == n ? "" : "s");
    add_part(l, line, ", ", part.data);
}

/* Says what is left out, and what is not there at all. */
static void
add_footer(struct layout *l)
{
    AUTO_SBUF struct sbuf line = {0};
    AUTO_SBUF struct sbuf part = {0};
    AUTO_SBUF struct sbuf between = {0};
    int64_t n_rows = (int64_t)l->n_rows;
    int64_t n_all_rows = l->t->n_rows_total;
    int64_t n_columns = (int64_t)(count_shown(l) - (l->t->n_index - l->first));
    int64_t n_all_columns = l->t->n_cols_total;
    bool no_columns = n_columns == 0 && n_all_columns <= 0;
    bool left_out = n_rows < n_all_rows || n_columns < n_all_columns;

    sbuf_init(&line, MAX_FOOTER_BYTES);
    sbuf_init(&part, MAX_FOOTER_BYTES);
    sbuf_init(&between, MAX_FOOTER_BYTES);
    if (n_rows < n_all_rows || n_rows == 0 || no_columns)
        add_count(l, &line, n_rows, n_all_rows, "row");
    if (n_columns < n_all_columns || no_columns)
        add_count(l, &line, n_columns, n_all_columns, "column");
    if (line.len == 0)
        return;
    sbuf_addf(&between, " %s ", l->glyphs->dot);
    if (n_rows < n_all_rows && l->options->address != NULL) {
        sbuf_addf(&part, ":full %s", l->options->address);
        add_part(l, &line, between.data, part.data);
        sbuf_clear(&part);
    }
    if (left_out && l->options->address != NULL) {
        sbuf_addf(&part, ":save %s", l->options->address);
        add_part(l, &line, between.data, part.data);
    }
    add_styled(l, STYLE_DIM, line.data, line.len);
    sbuf_add_char(l->out, '\n');
}

static void
free_layout(struct layout *l, size_t n_rows)
{
    for (size_t i = 0; i < l->t->n_columns; i++) {
        free(l->columns[i].name.text);
        for (size_t row = 0; row < n_rows; row++)
            free(l->columns[i].cells[row].text);
        free(l->columns[i].cells);
    }
    free(l->columns);
    free(l->rows);
}

void
table_render(const struct table *t, const struct table_options *options,
             struct sbuf *out)
{
    struct layout l = {.t = t, .options = options, .out = out};
    size_t n_rows;

    l.glyphs = options->unicode ? &unicode_glyphs : &ascii_glyphs;
    l.limit = options->width < TABLE_LAYOUT_MIN_WIDTH ? TABLE_LAYOUT_MIN_WIDTH
                                                      : (size_t)options->width;
    l.ellipsis_width = options->unicode ? 1 : strlen(ascii_glyphs.ellipsis);
    choose_rows(&l);
    read_columns(&l);
    n_rows = l.n_rows;
    /* An index without a row and a column is nothing; the footer says so. */
    if (l.first < t->n_columns &&
        (l.n_rows > 0 || t->n_columns > t->n_index || l.has_gap)) {
        if (choose_columns(&l))
            add_table(&l);
        else
            add_vertical(&l);
    }
    add_footer(&l);
    free_layout(&l, n_rows);
}
