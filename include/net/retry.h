/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When to try again: the algorithms of the model's vendor, and of services
 * that run sandboxes. Pure; the caller waits.
 */
#ifndef NET_RETRY_H
#define NET_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds to wait before retry n (0: the first), half a second doubled up
   to 8 s, less up to a quarter of it by random in [0, 1). */
int64_t retry_backoff_ms(int n, double random);

/*
 * What the headers ask for: retry-after-ms if it is a number, else retry-after
 * as seconds (fractions allowed) or as an HTTP date. now_ms: wall clock.
 * Returns -1 when neither is there, is usable, or is above 0.
 */
int64_t retry_after_ms(const char *retry_after_ms_value,
                       const char *retry_after_value, int64_t now_ms);

/* How a request to a service that runs sandboxes ended, which has failed. */
struct retry_facts {
    bool repeatable;          /* doing it twice is the same as doing it once */
    int status;               /* 0: no whole answer came */
    const char *should_retry; /* header Should-Retry; NULL: not there */
    const char *retry_after;  /* header Retry-After; NULL: not there */
    int attempt;              /* which one it was; 1: the first */
    int64_t left_ms;          /* what is left of the time for all attempts */
    double random;            /* in [0, 1) */
};

/*
 * Milliseconds to wait before the next attempt, or -1: give up. What is not
 * repeatable is never tried again, what is at most three times: if Should-Retry
 * says so, else without an answer and for 429, 502, 503 and 504. Waits whole
 * seconds of Retry-After, else a tenth of a second doubled up to 10 s, less up
 * to half of it; gives up when that leaves no time for the attempt.
 */
int64_t retry_wait_ms(const struct retry_facts *facts);

#endif
