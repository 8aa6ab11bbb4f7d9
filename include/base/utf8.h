/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * UTF-8: strict decoding, repair at the edge where bytes arrive, and the width
 * of text in terminal columns by a table of one Unicode version (not wcwidth,
 * which depends on the locale and the C library).
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbuf;

#define UTF8_REPLACEMENT 0xFFFDu
#define UTF8_MAX_BYTES 4

/*
 * Decodes the code point at s. Returns the number of bytes it takes (>= 1) and
 * sets *cp; a broken part gives UTF8_REPLACEMENT in *cp, *ok false, and the
 * length of its maximal subpart (as Unicode and WHATWG count). len must be > 0.
 */
size_t utf8_decode(const char *s, size_t len, uint32_t *cp, bool *ok);

/* Writes cp (a scalar value) to out[4], returns the number of bytes. */
size_t utf8_encode(uint32_t cp, char out[UTF8_MAX_BYTES]);

bool utf8_valid(const char *s, size_t len);

/*
 * How many bytes at the end of s are the start of a character that more bytes
 * could complete: 0 to 3.
 */
size_t utf8_pending(const char *s, size_t len);

/* Adds s with every broken part replaced by U+FFFD. */
void utf8_add_repaired(struct sbuf *sb, const char *s, size_t len);

/* The largest n <= max such that s[0..n) ends at a character boundary. */
size_t utf8_floor(const char *s, size_t len, size_t max);

/* Columns of one code point: 0, 1 or 2. Unassigned ones count 1. */
int utf8_cp_width(uint32_t cp);

/* Columns of text: the sum over its code points; broken parts count 1. */
size_t utf8_width(const char *s, size_t len);

/*
 * The longest prefix of s that is at most width columns wide and does not end
 * inside a base character and its combining marks. Returns its bytes and sets
 * *used to its columns.
 */
size_t utf8_fit(const char *s, size_t len, size_t width, size_t *used);

/* White space: that of Unicode, and U+001C to U+001F. */
bool utf8_is_space(uint32_t cp);

/* General category Mn or Me. */
bool utf8_is_combining(uint32_t cp);

/* Assigned in the table's Unicode version (private use counts as assigned). */
bool utf8_is_assigned(uint32_t cp);

#endif
