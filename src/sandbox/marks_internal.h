/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Finds the marks that the kernel writes between the bytes of programs, so
 * that text on one pipe and events on another can be put in order. A pure
 * machine: bytes in any pieces, text and marks out. A mark is
 *
 *     NUL RS nonce ':' number RS NUL
 *
 * with a nonce of 16 hexadecimal digits and a number of at most 10 digits
 * without leading zeros. What only looks like one is text. Marks can be forged
 * by a cell, which knows the nonce: they order output and decide nothing else.
 */
#ifndef SANDBOX_MARKS_INTERNAL_H
#define SANDBOX_MARKS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#define MARKS_NONCE_LEN 16
#define MARKS_MAX_DIGITS 10
#define MARKS_MAX_BYTES (2 + MARKS_NONCE_LEN + 1 + MARKS_MAX_DIGITS + 2)

struct marks {
    char nonce[MARKS_NONCE_LEN];
    char held[MARKS_MAX_BYTES]; /* what may be the start of a mark */
    size_t n_held;
    char text[MARKS_MAX_BYTES]; /* held bytes that turned out to be text */
};

enum marks_kind { MARKS_NONE, MARKS_TEXT, MARKS_MARK };

struct marks_token {
    enum marks_kind kind;
    const char *text; /* borrowed: from data or from m, until the next call */
    size_t len;
    uint64_t number;
};

void marks_init(struct marks *m, const char nonce[MARKS_NONCE_LEN]);

/*
 * Takes bytes from data up to and including the next token and returns how many
 * they were. MARKS_NONE means that all were taken and more are needed. At most
 * MARKS_MAX_BYTES are held back.
 */
size_t marks_next(struct marks *m, const char *data, size_t len,
                  struct marks_token *token);

/* Gives up what is held back: it is text after all (MARKS_TEXT), or nothing is
   (MARKS_NONE). */
void marks_flush(struct marks *m, struct marks_token *token);

#endif
