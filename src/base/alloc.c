/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/alloc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BYTES (1 << 20)

static void (*abort_hook)(void);

/* Nothing here may allocate; the message goes out after the hook, since only
   then does the terminal show it in the right place. */
__attribute__((noreturn)) static void
abort_without_memory(void)
{
    static const char text[] = "out of memory\n";
    void (*hook)(void) = abort_hook;
    ssize_t n;

    abort_hook = NULL;
    if (hook) {
        hook();
    }
    n = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)n;
    abort();
}

void *
xmalloc(size_t size)
{
    void *ptr = malloc(size > 0 ? size : 1);

    if (!ptr) {
        abort_without_memory();
    }
    return ptr;
}

void *
xcalloc(size_t n, size_t size)
{
    void *ptr;

    if (n == 0 || size == 0) {
        n = 1;
        size = 1;
    }
    ptr = calloc(n, size);
    if (!ptr) {
        abort_without_memory();
    }
    return ptr;
}

void *
xrealloc(void *ptr, size_t size)
{
    /* realloc for zero bytes may free and return NULL. */
    void *new_ptr = realloc(ptr, size > 0 ? size : 1);

    if (!new_ptr) {
        abort_without_memory();
    }
    return new_ptr;
}

void *
xreallocarray(void *ptr, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        abort_without_memory();
    }
    return xrealloc(ptr, bytes);
}

void *
xgrow(void *ptr, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0) {
        return ptr;
    }
    return xreallocarray(ptr, n > 0 ? 2 * n : 1, size);
}

char *
xstrdup(const char *s)
{
    return s ? xstrndup(s, strlen(s)) : NULL;
}

char *
xstrndup(const char *s, size_t len)
{
    char *copy;

    if (!s) {
        return NULL;
    }
    if (len == SIZE_MAX) {
        abort_without_memory();
    }
    copy = xmalloc(len + 1);
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

void *
xmemdup(const void *data, size_t len)
{
    void *copy;

    if (!data) {
        return NULL;
    }
    copy = xmalloc(len);
    memcpy(copy, data, len);
    return copy;
}

char *
xasprintf(const char *fmt, ...)
{
    char *text;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        abort_without_memory();
    }
    return text;
}

void
free_const(const void *ptr)
{
    void *own;

    /* Bytes are copied where a cast would hide the same mistake elsewhere from
       the compiler. */
    memcpy(&own, &ptr, sizeof(own));
    free(own);
}

void
alloc_set_abort_hook(void (*hook)(void))
{
    abort_hook = hook;
}

void
alloc_return_large(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}
