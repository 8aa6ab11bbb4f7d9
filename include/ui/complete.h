/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Completion of commands and of what follows them.
 */
#ifndef UI_COMPLETE_H
#define UI_COMPLETE_H

#include <stddef.h>

struct lineedit_candidates;
struct recorder;

/* Most candidates that are offered. */
#define COMPLETE_MAX 3000

/* Fills out with what fits the word that ends at cursor. */
void complete_line(const struct recorder *recorder, const char *line,
                   size_t cursor, struct lineedit_candidates *out);

#endif
