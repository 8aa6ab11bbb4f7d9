/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Time: a monotonic clock for durations, and the wall clock for names.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since an arbitrary point; never goes back. */
int64_t clock_now_ms(void);

/* Microseconds of the same clock. */
int64_t clock_now_us(void);

/* Milliseconds since 1970-01-01 UTC. */
int64_t clock_wall_ms(void);

/* The local date and time as a name for a file, "20260102-150405"; for n > 0
   with "-2", "-3" and so on behind it. The caller owns it. */
char *clock_wall_name(int n);

#endif
