/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Words fitted to a width: the program's own, or text that was sanitised.
 */
#ifndef UI_WORDS_H
#define UI_WORDS_H

#include <stddef.h>

struct sbuf;

/*
 * Adds text and LF behind used columns, broken at blanks where a line would be
 * wider than columns; what follows is moved right by indent. A word that is
 * wider stays whole. columns 0: one line.
 */
void words_add(struct sbuf *sb, const char *text, size_t used, size_t indent,
               size_t columns);

#endif
