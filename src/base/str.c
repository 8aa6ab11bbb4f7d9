/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"

static const char blanks[] = " \t\n\v\f\r";

bool
str_eq(const char *a, const char *b)
{
    if (!a || !b) {
        return a == b;
    }
    return strcmp(a, b) == 0;
}

/* By hand: strcasecmp depends on the locale. */
static int
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool
str_eq_nocase(const char *a, const char *b)
{
    if (!a || !b) {
        return a == b;
    }
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

bool
str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool
str_ends(const char *s, const char *suffix)
{
    size_t len = strlen(s);
    size_t suffix_len = strlen(suffix);

    return len >= suffix_len && strcmp(s + len - suffix_len, suffix) == 0;
}

bool
str_blank(const char *s)
{
    return !s || s[strspn(s, blanks)] == '\0';
}

char *
str_trim(const char *s)
{
    size_t len;

    s += strspn(s, blanks);
    len = strlen(s);
    while (len > 0 && strchr(blanks, s[len - 1])) {
        len--;
    }
    return xstrndup(s, len);
}

/* strtoll alone would take white space, "+", and stop at the first other. */
static bool
is_decimal(const char *s)
{
    if (*s == '-') {
        s++;
    }
    return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

int
str_to_int(const char *s, int64_t min, int64_t max, int64_t *out,
           struct error *err)
{
    if (s && is_decimal(s)) {
        long long value;

        errno = 0;
        value = strtoll(s, NULL, 10);
        if (errno == 0 && value >= min && value <= max) {
            *out = value;
            return 0;
        }
    }
    return err_set(err, ERR_DATA,
                   "%s is not a whole number from %" PRId64 " to %" PRId64,
                   s && *s ? s : "nothing", min, max);
}

/* Adds a digit; false when value would pass max. */
static bool
push_digit(int64_t *value, int digit, int64_t max)
{
    if (*value > (max - digit) / 10) {
        return false;
    }
    *value = *value * 10 + digit;
    return true;
}

int
str_to_decimal(const char *s, int n_decimals, int64_t max, int64_t *out,
               struct error *err)
{
    int64_t value = 0;
    int64_t one = 1;
    int n_digits = 0;
    int n_behind = -1; /* digits behind the point; -1: none came yet */
    const char *p = s != NULL ? s : "";

    for (; *p != '\0'; p++) {
        if (*p == '.' && n_behind < 0 && n_digits > 0) {
            n_behind = 0;
        } else if (*p >= '0' && *p <= '9' && n_behind < n_decimals &&
                   push_digit(&value, *p - '0', max)) {
            n_digits++;
            n_behind += n_behind >= 0;
        } else {
            break;
        }
    }
    if (n_behind == 0) {
        n_digits = 0; /* a point with nothing behind it */
    }
    for (int i = n_behind > 0 ? n_behind : 0; i < n_decimals && *p == '\0';
         i++) {
        if (!push_digit(&value, 0, max)) {
            break;
        }
        n_behind = i + 1;
    }
    if (*p == '\0' && n_digits > 0 &&
        (n_behind == n_decimals || n_decimals == 0)) {
        *out = value;
        return 0;
    }
    for (int i = 0; i < n_decimals; i++) {
        one *= 10;
    }
    return err_set(err, ERR_DATA,
                   "%s is no number from 0 to %" PRId64
                   " with at most %d decimals",
                   s && *s ? s : "nothing", max / one, n_decimals);
}

static size_t
min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/*
 * Edit distance in which two neighbours that changed places count one ("optimal
 * string alignment"). rows is room for three rows of strlen(b) + 1 numbers.
 */
static size_t
distance(const char *a, const char *b, size_t *rows)
{
    size_t width = strlen(b) + 1;
    size_t *before = rows; /* two rows up */
    size_t *above = rows + width;
    size_t *row = rows + 2 * width;

    for (size_t j = 0; j < width; j++) {
        above[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        size_t *spare = before;

        row[0] = i;
        for (size_t j = 1; j < width; j++) {
            size_t cost = a[i - 1] != b[j - 1];

            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[width - 1];
}

const char *
str_nearest(const char *s, const char *const *candidates, size_t n)
{
    size_t len = strlen(s);
    size_t best = len / 3 > 2 ? len / 3 : 2;
    const char *nearest = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t candidate_len = strlen(candidates[i]);
        size_t gap =
            candidate_len > len ? candidate_len - len : len - candidate_len;

        /* The difference of the lengths is the least that it can be. */
        if (gap < best) {
            AUTO_FREE size_t *rows =
                xreallocarray(NULL, 3 * (candidate_len + 1), sizeof(*rows));
            size_t d = distance(s, candidates[i], rows);

            if (d < best) {
                best = d;
                nearest = candidates[i];
            }
        }
    }
    return nearest;
}

void
str_add_grouped(struct sbuf *sb, int64_t value)
{
    /* Negated as unsigned: INT64_MIN has no positive counterpart. */
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char text[32]; /* 19 digits, 6 commas, a sign */
    size_t pos = sizeof(text);
    int n_digits = 0;

    do {
        if (n_digits > 0 && n_digits % 3 == 0) {
            text[--pos] = ',';
        }
        text[--pos] = (char)('0' + left % 10);
        left /= 10;
        n_digits++;
    } while (left > 0);
    if (value < 0) {
        text[--pos] = '-';
    }
    sbuf_add(sb, text + pos, sizeof(text) - pos);
}

/* value / unit, rounded: with one decimal below ten. */
static void
add_scaled(struct sbuf *sb, uint64_t value, uint64_t unit, const char *name)
{
    uint64_t tenth = unit / 10;
    uint64_t tenths = value / tenth + (value % tenth >= (tenth + 1) / 2);

    if (tenths < 100) {
        sbuf_addf(sb, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
                  name);
    } else {
        sbuf_addf(sb, "%" PRIu64 " %s",
                  value / unit + (value % unit >= unit / 2), name);
    }
}

void
str_add_mib(struct sbuf *sb, uint64_t bytes)
{
    sbuf_addf(sb, "%" PRIu64 " MiB",
              (bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0));
}

void
str_add_bytes(struct sbuf *sb, uint64_t bytes)
{
    static const char *const names[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    const size_t n_names = LEN(names);
    uint64_t unit = 1000;
    size_t i = 0;

    if (bytes < 1000) {
        sbuf_addf(sb, "%" PRIu64 " B", bytes);
        return;
    }
    /* What would be rounded to 1000 of a unit is shown in the next one. */
    while (i + 1 < n_names && bytes >= unit * 1000 - unit / 2) {
        unit *= 1000;
        i++;
    }
    add_scaled(sb, bytes, unit, names[i]);
}

void
str_add_duration(struct sbuf *sb, int64_t ms)
{
    uint64_t value = ms > 0 ? (uint64_t)ms : 0;
    uint64_t seconds = value / 1000 + (value % 1000 >= 500);

    if (seconds < 60) {
        add_scaled(sb, value, 1000, "s");
    } else {
        sbuf_addf(sb, "%" PRIu64 " min %" PRIu64 " s", seconds / 60,
                  seconds % 60);
    }
}
