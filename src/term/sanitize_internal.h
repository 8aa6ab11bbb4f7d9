/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The colours of program output: what sequences ask for, and sequences made
 * anew from it.
 */
#ifndef TERM_SANITIZE_INTERNAL_H
#define TERM_SANITIZE_INTERNAL_H

#include <stdbool.h>

struct sanitize_rendition;
struct sbuf;

bool sanitize_rendition_equal(const struct sanitize_rendition *a,
                              const struct sanitize_rendition *b);
bool sanitize_rendition_is_plain(const struct sanitize_rendition *r);

/* Takes colours away that would make text invisible. */
void sanitize_show_rendition(struct sanitize_rendition *r);

/* Adds the sequence that sets the whole of r, whatever was set before. */
void sanitize_add_rendition(struct sbuf *out,
                            const struct sanitize_rendition *r);

/* Changes r as SGR with these parameters does: digits, ';' and ':' only.
   Unknown ones are ignored; a colour that is broken ends it. */
void sanitize_apply_sgr(struct sanitize_rendition *r, const char *params);

#endif
