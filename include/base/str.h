/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Small questions about NUL-terminated text, and numbers in text.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct sbuf;

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_eq_nocase(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* True for NULL, "" and white space only. */
bool str_blank(const char *s);

/* A copy without white space at both ends; the caller owns it. */
char *str_trim(const char *s);

/*
 * The whole of s as a decimal integer in [min, max].
 * Errors: ERR_DATA, naming s and the range.
 */
WARN_UNUSED int str_to_int(const char *s, int64_t min, int64_t max,
                           int64_t *out, struct error *err);

/*
 * The whole of s as a decimal number without sign or exponent ("12", "0.50"),
 * times 10 to the power of n_decimals, in [0, max] of that. Errors: ERR_DATA,
 * naming s: no number, more decimals than that, above max.
 */
WARN_UNUSED int str_to_decimal(const char *s, int n_decimals, int64_t max,
                               int64_t *out, struct error *err);

/*
 * The candidate nearest to s by edit distance (transpositions count one), or
 * NULL when none is nearer than max(2, len / 3). Candidates are borrowed.
 */
const char *str_nearest(const char *s, const char *const *candidates, size_t n);

/* Adds value with a comma between groups of three digits: 1,234,567. */
void str_add_grouped(struct sbuf *sb, int64_t value);

/* Adds bytes as "512 B", "41 kB", "3.1 MB", "4.0 GB" (powers of 1000). */
void str_add_bytes(struct sbuf *sb, uint64_t bytes);

/* Adds bytes as "5120 MiB", rounded up: for limits, whose settings are in that
   unit, and for what is used of them. */
void str_add_mib(struct sbuf *sb, uint64_t bytes);

/* Adds a time as "0.3 s", "8.4 s", "42 s", "2 min 5 s". */
#define STR_DURATION_BYTES 64u /* no duration is longer as text */
void str_add_duration(struct sbuf *sb, int64_t ms);

#endif
