/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/table.h"
#include "render/table_internal.h"
#include "term/sanitize.h"

#define MAX_NUMBER_BYTES 400
#define MAX_EXPONENT 400

/* Of an untrusted text; nobody reads more of a cell in a table. */
#define MAX_TEXT_BYTES 4096
#define MAX_CLEAN_BYTES (MAX_TEXT_BYTES * 32)

#define MAX_DECIMALS 6
#define MONEY_DECIMALS 2
#define SIGNIFICANT_DIGITS 3
#define SCIENTIFIC_DIGITS 6

#define FIRST_YEAR 1000
#define LAST_YEAR 2999

/* 0.DIGITS times ten to the power of point; no zero at either end. */
struct number {
    bool valid;
    bool negative;
    char digits[MAX_NUMBER_BYTES + 1];
    size_t n_digits; /* 0: the value is zero */
    int point;
};

/*
 * Numbers that are names, which nobody groups. A word must stand by itself:
 * "id" is not the end of "paid".
 */
static const struct {
    const char *suffix;
    bool is_word;
} name_suffixes[] = {
    {"id", true},
    {"zip", true},
    {"code", false},
};

static const char *const year_words[] = {"year", "jahr"};

/* --- numbers --- */

static void
strip_zeros(struct number *n)
{
    size_t lead = strspn(n->digits, "0");

    memmove(n->digits, n->digits + lead, n->n_digits - lead + 1);
    n->n_digits -= lead;
    n->point -= (int)lead;
    while (n->n_digits > 0 && n->digits[n->n_digits - 1] == '0')
        n->n_digits--;
    n->digits[n->n_digits] = '\0';
    if (n->n_digits == 0)
        n->point = 0;
}

static bool
parse_exponent(const char *s, int *exponent)
{
    int64_t value;

    if (*s == '+')
        s++;
    if (str_to_int(s, -MAX_EXPONENT, MAX_EXPONENT, &value, NULL) < 0)
        return false;
    *exponent = (int)value;
    return true;
}

static struct number
parse_number(const char *s)
{
    struct number n = {0};
    int exponent = 0;
    bool fraction = false;
    size_t n_seen = 0;

    if (s == NULL || strlen(s) > MAX_NUMBER_BYTES)
        return n;
    n.negative = *s == '-';
    if (*s == '-' || *s == '+')
        s++;
    for (; (*s >= '0' && *s <= '9') || (*s == '.' && !fraction); s++) {
        if (*s == '.') {
            fraction = true;
            continue;
        }
        n_seen++;
        n.digits[n.n_digits++] = *s;
        n.point += fraction ? 0 : 1;
    }
    if (n_seen == 0)
        return n;
    if (*s == 'e' || *s == 'E') {
        if (!parse_exponent(s + 1, &exponent))
            return n;
    } else if (*s != '\0') {
        return n;
    }
    n.point += exponent;
    n.digits[n.n_digits] = '\0';
    strip_zeros(&n);
    n.valid = true;
    return n;
}

/* Decimals that show the value as it is. */
static int
exact_decimals(const struct number *n)
{
    int decimals = (int)n->n_digits - n->point;

    return decimals > 0 ? decimals : 0;
}

/* Keeps the first n_keep digits, rounding half up. */
static void
round_digits(struct number *n, int n_keep)
{
    bool up;
    size_t i;

    if (n_keep >= (int)n->n_digits)
        return;
    if (n_keep < 0) {
        n->n_digits = 0;
        n->digits[0] = '\0';
        strip_zeros(n);
        return;
    }
    i = (size_t)n_keep;
    up = n->digits[i] >= '5';
    n->n_digits = i;
    n->digits[i] = '\0';
    while (up && i > 0) {
        i--;
        up = n->digits[i] == '9';
        n->digits[i] = up ? '0' : (char)(n->digits[i] + 1);
    }
    if (up) {
        memmove(n->digits + 1, n->digits, n->n_digits + 1);
        n->digits[0] = '1';
        n->n_digits++;
        n->point++;
    }
    strip_zeros(n);
}

static char
digit_at(const struct number *n, int i)
{
    return i >= 0 && i < (int)n->n_digits ? n->digits[i] : '0';
}

static void
add_scientific(struct sbuf *sb, const struct number *exact)
{
    struct number n = *exact;

    round_digits(&n, SCIENTIFIC_DIGITS);
    if (n.negative)
        sbuf_add_char(sb, '-');
    sbuf_add_char(sb, digit_at(&n, 0));
    sbuf_add_char(sb, '.');
    for (int i = 1; i < SCIENTIFIC_DIGITS; i++)
        sbuf_add_char(sb, digit_at(&n, i));
    sbuf_addf(sb, "e%+03d", n.point - 1);
}

static void
add_fixed(struct sbuf *sb, const struct number *n, int decimals, bool grouped)
{
    int n_int = n->point > 0 ? n->point : 1;

    if (n->negative && n->n_digits > 0)
        sbuf_add_char(sb, '-');
    for (int i = 0; i < n_int; i++) {
        if (grouped && i > 0 && (n_int - i) % 3 == 0)
            sbuf_add_char(sb, ',');
        sbuf_add_char(sb, digit_at(n, n->point - n_int + i));
    }
    if (decimals > 0)
        sbuf_add_char(sb, '.');
    for (int i = 0; i < decimals; i++)
        sbuf_add_char(sb, digit_at(n, n->point + i));
}

static void
add_number(struct sbuf *sb, const struct number *exact, int decimals,
           bool grouped)
{
    struct number n = *exact;

    round_digits(&n, n.point + decimals);
    /* What would read as nothing is something. */
    if (n.n_digits == 0 && exact->n_digits > 0) {
        add_scientific(sb, exact);
        return;
    }
    add_fixed(sb, &n, decimals, grouped);
    if (sb->len > TABLE_MAX_COLUMN) {
        sbuf_clear(sb);
        add_scientific(sb, exact);
    }
}

/* --- columns of numbers --- */

/*
 * Decimals common to the column. Up to two are shown when they are exact, which
 * money and percentages are; else as many as the smallest value needs.
 */
static int
choose_decimals(const struct number *numbers, size_t n)
{
    int exact = 0;
    int needed = MONEY_DECIMALS;

    for (size_t i = 0; i < n; i++) {
        int e = exact_decimals(&numbers[i]);
        int s = SIGNIFICANT_DIGITS - numbers[i].point;

        if (!numbers[i].valid || numbers[i].n_digits == 0)
            continue;
        exact = e > exact ? e : exact;
        needed = s > needed ? s : needed;
    }
    if (exact <= MONEY_DECIMALS)
        return exact;
    needed = needed > MAX_DECIMALS ? MAX_DECIMALS : needed;
    return needed < exact ? needed : exact;
}

static bool
ends_like_id(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < LEN(name_suffixes); i++) {
        size_t n = strlen(name_suffixes[i].suffix);
        const char *end;

        if (len < n)
            continue;
        end = name + len - n;
        if (!str_eq_nocase(end, name_suffixes[i].suffix))
            continue;
        if (!name_suffixes[i].is_word || len == n ||
            !isalpha((unsigned char)end[-1]) ||
            (isupper((unsigned char)end[0]) && islower((unsigned char)end[-1])))
            return true;
    }
    return false;
}

static bool
names_year(const char *name)
{
    for (size_t i = 0; i < LEN(year_words); i++) {
        if (strcasestr(name, year_words[i]) != NULL)
            return true;
    }
    return false;
}

static bool
is_year(const struct number *n)
{
    AUTO_SBUF struct sbuf sb = {0};
    int64_t value;

    if (n->point != 4 || exact_decimals(n) > 0)
        return false;
    sbuf_init(&sb, MAX_NUMBER_BYTES * 2);
    add_fixed(&sb, n, 0, false);
    return str_to_int(sb.data, FIRST_YEAR, LAST_YEAR, &value, NULL) == 0;
}

static bool
is_grouped(const struct table_column *column, const struct number *numbers,
           size_t n)
{
    bool years = true;

    if (column->is_index)
        return false;
    if (column->name == NULL)
        return true;
    if (ends_like_id(column->name))
        return false;
    for (size_t i = 0; i < n; i++)
        years = years && (!numbers[i].valid || is_year(&numbers[i]));
    return !years || !names_year(column->name);
}

/* --- text --- */

static void
add_clean(struct sbuf *sb, const char *text)
{
    size_t len = strlen(text);

    sanitize_text(SANITIZE_CELL, text, utf8_floor(text, len, MAX_TEXT_BYTES),
                  sb);
}

/* Quotes where the eye would be misled. */
static void
add_value(struct sbuf *sb, const char *text)
{
    size_t len = strlen(text);
    bool quoted = len > 0 && (text[0] == ' ' || text[len - 1] == ' ' ||
                              strcmp(text, "NULL") == 0);

    if (quoted)
        sbuf_add_char(sb, '"');
    add_clean(sb, text);
    if (quoted)
        sbuf_add_char(sb, '"');
}

static void
finish(struct sbuf *sb, struct table_text *out)
{
    out->len = sb->len;
    out->width = utf8_width(sb->data, sb->len);
    out->text = sb->len > 0 ? sbuf_take(sb) : xstrdup("");
}

bool
table_text_is_numeric(const struct table *t, size_t column)
{
    enum table_kind kind = t->columns[column].kind;

    return kind == TABLE_INTEGER || kind == TABLE_DECIMAL;
}

void
table_text_cells(const struct table *t, size_t column, const size_t *rows,
                 size_t n_rows, struct table_text *out)
{
    bool numeric = table_text_is_numeric(t, column);
    struct number *numbers = xcalloc(n_rows, sizeof(*numbers));
    int decimals;
    bool grouped;

    for (size_t i = 0; numeric && i < n_rows; i++)
        numbers[i] = parse_number(table_at(t, rows[i], column)->text);
    decimals = choose_decimals(numbers, n_rows);
    grouped = is_grouped(&t->columns[column], numbers, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        const struct table_cell *cell = table_at(t, rows[i], column);
        struct sbuf sb;

        sbuf_init(&sb, MAX_CLEAN_BYTES);
        out[i].is_null = cell->text == NULL;
        out[i].is_number = numbers[i].valid;
        if (out[i].is_null)
            sbuf_add_str(&sb, "NULL");
        else if (numbers[i].valid)
            add_number(&sb, &numbers[i], decimals, grouped);
        else
            add_value(&sb, cell->text);
        finish(&sb, &out[i]);
        sbuf_fini(&sb);
    }
    free(numbers);
}

void
table_text_name(const struct table *t, size_t column, struct table_text *out)
{
    const struct table_column *c = &t->columns[column];
    size_t n_before = 0;
    struct sbuf sb;

    sbuf_init(&sb, MAX_CLEAN_BYTES);
    memset(out, 0, sizeof(*out));
    if (c->name != NULL && *c->name != '\0') {
        add_clean(&sb, c->name);
        for (size_t i = 0; i < column; i++)
            n_before += str_eq(t->columns[i].name, c->name);
        if (n_before > 0)
            sbuf_addf(&sb, " (%zu)", n_before + 1);
    } else if (!c->is_index) {
        sbuf_addf(&sb, "(%zu)", column - t->n_index + 1);
    }
    finish(&sb, out);
    sbuf_fini(&sb);
}
