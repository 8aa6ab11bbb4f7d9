/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a service says of itself, for a message: it may repeat the key that it
 * was sent, and in pieces, with characters between them that nobody sees.
 */
#ifndef SANDBOX_SERVICE_WORDS_INTERNAL_H
#define SANDBOX_SERVICE_WORDS_INTERNAL_H

#include <stddef.h>

struct sbuf;

/* More of a text is not even looked at. */
#define SERVICE_WORDS_READ_BYTES ((size_t)8192)

/* Room that is always enough. */
#define SERVICE_WORDS_MAX_BYTES (SERVICE_WORDS_READ_BYTES * 64)

/* Adds text as one line of valid UTF-8 without secrets, controls and characters
   that are not seen, and without blanks at its ends. */
void service_words_add(struct sbuf *out, const char *text, size_t len);

#endif
