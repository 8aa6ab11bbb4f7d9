/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A growing buffer of bytes with a maximum. Appends return nothing: one that
 * would pass the maximum is left out as a whole and sets a flag, which is asked
 * once before the buffer is used. data is always NUL-terminated (never NULL
 * after sbuf_init) and may hold NUL bytes.
 */
#ifndef BASE_SBUF_H
#define BASE_SBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct sbuf {
    char *data; /* owned; len bytes and a NUL */
    size_t len;
    size_t cap;
    size_t max;
    bool overflow;
};

#define AUTO_SBUF __attribute__((cleanup(sbuf_fini)))

/* max: most bytes that the buffer may hold. Allocates nothing yet. */
void sbuf_init(struct sbuf *sb, size_t max);
void sbuf_fini(struct sbuf *sb);

void sbuf_add(struct sbuf *sb, const void *data, size_t len);
void sbuf_add_str(struct sbuf *sb, const char *s);
void sbuf_add_char(struct sbuf *sb, char c);

/* Adds c n times. */
void sbuf_add_repeat(struct sbuf *sb, char c, size_t n);
void sbuf_addf(struct sbuf *sb, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void sbuf_vaddf(struct sbuf *sb, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Removes the first n bytes. */
void sbuf_drop(struct sbuf *sb, size_t n);

/* Cuts to len bytes; a larger len changes nothing. */
void sbuf_truncate(struct sbuf *sb, size_t len);

/* Empties it and clears the flag; memory is kept. */
void sbuf_clear(struct sbuf *sb);

/* False when an append was left out since sbuf_init or sbuf_clear. */
bool sbuf_ok(const struct sbuf *sb);

/* Hands the NUL-terminated bytes over to the caller; the buffer is empty. */
char *sbuf_take(struct sbuf *sb);

#endif
