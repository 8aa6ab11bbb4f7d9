/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When to try again: the vendor's own algorithm. Pure; the caller waits.
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

#endif
