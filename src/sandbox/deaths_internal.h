/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When interpreters have ended under cells, with no cell that ended well
 * between: one that ends again and again, as by a file that is loaded into each
 * new one, is not started for ever.
 */
#ifndef SANDBOX_DEATHS_INTERNAL_H
#define SANDBOX_DEATHS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define DEATHS_MAX 3
#define DEATHS_TEXT                                                            \
    "the interpreter has ended three times within a minute; it is not "        \
    "started again before the next question or load"

/* Zero is none. */
struct deaths {
    int64_t at_ms[DEATHS_MAX]; /* monotonic; the oldest first */
    unsigned n;
};

/* Notes one now; whether it is one too many. */
bool deaths_are_too_many(struct deaths *d);

void deaths_forget(struct deaths *d);

#endif
