/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How far a copy is and how fast it goes, in words: not before it has taken a
 * moment, not too often, and by the last seconds alone. Asks no clock itself.
 */
#ifndef UI_COPY_RATE_INTERNAL_H
#define UI_COPY_RATE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbuf;

enum { COPY_RATE_MARKS = 16 };

/* Zero is none. */
struct copy_rate {
    int64_t since_ms;
    int64_t told_ms;
    uint64_t done_bytes;
    uint64_t total_bytes;
    struct {
        int64_t at_ms;
        uint64_t done_bytes;
    } marks[COPY_RATE_MARKS]; /* of the last seconds, the oldest first */
    size_t n_marks;           /* 0: nothing is copied */
};

/* Notes how far it is; fewer bytes than before, or another total, is another
   copy. Whether it is time to show it. */
bool copy_rate_note(struct copy_rate *r, int64_t now_ms, uint64_t done_bytes,
                    uint64_t total_bytes);

/* Whether it has taken long enough to be shown, also where nothing comes. */
bool copy_rate_is_long(const struct copy_rate *r, int64_t now_ms);

/* Adds "34 % of 1.2 GB, 8.4 MB/s". */
void copy_rate_add(struct copy_rate *r, int64_t now_ms, struct sbuf *out);

#endif
