/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Secrets: kept in memory that is locked where possible, wiped on release, and
 * hidden from the log. Only net/http and base/proc may expose one.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct hash;
struct secret;

/* Copies text (the caller wipes its own copy). */
struct secret *secret_new(const char *text, size_t len);
void secret_free(struct secret *s); /* NULL is allowed */

/* The text, NUL-terminated, borrowed. */
const char *secret_expose(const struct secret *s);
bool secret_is_empty(const struct secret *s); /* true for NULL */

/* Adds the text to a hash, for signatures. */
void secret_add_to_hash(const struct secret *s, struct hash *h);

/*
 * Takes a variable out of the environment: copies it, overwrites its bytes and
 * removes it. NULL when it is not set or empty (it is removed all the same).
 */
struct secret *secret_take_env(const char *name);

/* Overwrites memory so that the compiler cannot leave it out. */
void secret_wipe(void *data, size_t len);

#endif
