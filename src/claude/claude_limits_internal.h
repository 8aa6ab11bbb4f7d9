/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the headers of an answer say about limits on how much may be asked.
 * Pure.
 */
#ifndef CLAUDE_LIMITS_INTERNAL_H
#define CLAUDE_LIMITS_INTERNAL_H

#include <stdint.h>

/* The value of the header, or NULL. */
typedef const char *(*claude_header_fn)(const void *ctx, const char *name);

/*
 * What is used up, and for how long from now_ms (wall clock), as "no input
 * tokens are left for 12 s"; NULL when the headers do not say. The caller owns
 * it.
 */
char *claude_limits_describe(claude_header_fn header, const void *ctx,
                             int64_t now_ms);

/* RFC 3339 as milliseconds since 1970; -1 for anything else. */
int64_t claude_limits_time_ms(const char *text);

#endif
