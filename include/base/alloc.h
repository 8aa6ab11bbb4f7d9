/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory that is always there: every function aborts when the system has none
 * left, after the hook has restored the terminal. Nothing here returns NULL,
 * but for a size of zero the result is a valid, freeable pointer.
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *ptr, size_t size);

/* Like xrealloc for n * size bytes; aborts when the product overflows. */
void *xreallocarray(void *ptr, size_t n, size_t size);

/* Room for one more behind n things of size bytes, in what began as NULL and
   grew by this alone: it doubles at every power of two. */
void *xgrow(void *ptr, size_t n, size_t size);

/* Copies; the caller owns the result. NULL gives NULL. */
char *xstrdup(const char *s);

/* Copies len bytes and adds a NUL. */
char *xstrndup(const char *s, size_t len);
void *xmemdup(const void *data, size_t len);

/* A formatted string; the caller owns it. */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Frees what its readers see as const; for the owner only. NULL is allowed. */
void free_const(const void *ptr);

/* Once, at the start: from then on blocks of more than 1 MiB go back to the
   system when they are freed. Else the C library keeps them for itself as soon
   as it has seen one. Nothing where the library has no such switch. */
void alloc_return_large(void);

/* Called once before an abort for want of memory. NULL removes it. */
void alloc_set_abort_hook(void (*hook)(void));

#endif
