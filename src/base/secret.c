/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/secret.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"

/* A shorter text would be found, and replaced, in the middle of plain words. */
#define MIN_HIDDEN_BYTES 6

/*
 * Each secret has pages of its own: mlock works on whole pages and does not
 * nest, so munlock for one secret would unlock its neighbour.
 */
struct secret {
    size_t map_bytes; /* 0: from the heap, where no page was to be had */
    size_t size_bytes;
    size_t len;
    char text[];
};

static struct secret *
allocate(size_t size_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t map_bytes = (size_bytes + page - 1) / page * page;
    struct secret *s;
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED) {
        s = xmalloc(size_bytes);
        s->map_bytes = 0;
        s->size_bytes = size_bytes;
        return s;
    }
    /* Both may be refused (RLIMIT_MEMLOCK, old kernels); the secret works
       without them. */
    (void)mlock(map, map_bytes);
    (void)madvise(map, map_bytes, MADV_DONTDUMP);
    s = map;
    s->map_bytes = map_bytes;
    s->size_bytes = size_bytes;
    return s;
}

/* The value of a header may be a word and the secret itself ("Bearer KEY"),
   which may then stand somewhere without the word; NULL: it is not such. */
static const char *
find_bare(const struct secret *s)
{
    const char *space = strchr(s->text, ' ');

    return space != NULL && strchr(space + 1, ' ') == NULL &&
                   strlen(space + 1) >= MIN_HIDDEN_BYTES
               ? space + 1
               : NULL;
}

struct secret *
secret_new(const char *text, size_t len)
{
    struct secret *s = allocate(sizeof(*s) + len + 1);

    s->len = len;
    memcpy(s->text, text, len);
    s->text[len] = '\0';
    if (len >= MIN_HIDDEN_BYTES) {
        log_hide(s->text);
        log_hide(find_bare(s));
    }
    return s;
}

void
secret_free(struct secret *s)
{
    size_t map_bytes;

    if (s == NULL) {
        return;
    }
    if (s->len >= MIN_HIDDEN_BYTES) {
        log_unhide(s->text);
        log_unhide(find_bare(s));
    }
    map_bytes = s->map_bytes;
    secret_wipe(s, s->size_bytes);
    if (map_bytes > 0) {
        (void)munmap(s, map_bytes);
    } else {
        free(s);
    }
}

const char *
secret_expose(const struct secret *s)
{
    return s->text;
}

bool
secret_is_empty(const struct secret *s)
{
    return s == NULL || s->len == 0;
}

void
secret_add_to_hash(const struct secret *s, struct hash *h)
{
    if (s != NULL) {
        hash_add(h, s->text, s->len);
    }
}

struct secret *
secret_take_env(const char *name)
{
    size_t name_len = strlen(name);
    struct secret *s = NULL;

    /* A variable may stand there more than once: getenv and unsetenv see the
       first, /proc/PID/environ shows all. */
    for (char **var = environ; var != NULL && *var != NULL; var++) {
        char *value = *var + name_len + 1;
        size_t len;

        if (strncmp(*var, name, name_len) != 0 || (*var)[name_len] != '=') {
            continue;
        }
        len = strlen(value);
        if (s == NULL && len > 0) {
            s = secret_new(value, len);
        }
        secret_wipe(value, len);
    }
    unsetenv(name);
    return s;
}

void
secret_wipe(void *data, size_t len)
{
    explicit_bzero(data, len);
}
