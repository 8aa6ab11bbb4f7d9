/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The beginning and the end of a text of any length, which may also be no text
 * at all: what is kept is bounded, and what is shown of it is valid UTF-8
 * without NUL, cut at lines where it can be and never within a character.
 */
#ifndef AGENT_EXCERPT_INTERNAL_H
#define AGENT_EXCERPT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sbuf.h"

struct excerpt {
    struct sbuf head;
    char *tail; /* owned; a ring of tail_cap bytes */
    size_t tail_cap;
    size_t tail_at;
    size_t tail_len;
    uint64_t n_bytes; /* all that came */
    bool at_line_start;
};

/* max_bytes: the most of it that will ever be shown, at least 64. */
void excerpt_init(struct excerpt *e, size_t max_bytes);
void excerpt_fini(struct excerpt *e);

void excerpt_add(struct excerpt *e, const char *data, size_t len);

/* Begins a new line, unless one has just begun. */
void excerpt_start_line(struct excerpt *e);

/* True when it looks like no text. */
bool excerpt_is_binary(const struct excerpt *e);

/* The bytes that all of it has as text; SIZE_MAX: more than is kept. */
size_t excerpt_len(const struct excerpt *e);

/*
 * Adds all of it, or a beginning and an end of together at most max_bytes with
 * a mark between them. Returns how many bytes of what came are shown.
 */
uint64_t excerpt_write(const struct excerpt *e, size_t max_bytes,
                       struct sbuf *out);

/* What the mark takes beyond max_bytes. */
#define EXCERPT_MARK_BYTES 40u

#endif
