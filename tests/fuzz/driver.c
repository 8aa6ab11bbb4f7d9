/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * main() for fuzz targets built without libFuzzer: replays files through
 * LLVMFuzzerTestOneInput, then a bounded number of mutations of them. What it
 * does depends on the files and the seed alone, so that a failure in make
 * check can be repeated.
 *
 *     target [-n MUTATIONS] [-s SEED] [FILE|DIRECTORY...]
 *
 * Without a file the corpus of the target is used:
 * $abs_top_srcdir/tests/corpus/NAME. Each input is one TAP result; a property
 * that does not hold aborts, and the name of the input stands on the line
 * before.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_INPUT_BYTES (1u << 20)
#define MAX_DEPTH 4
#define DEFAULT_MUTATIONS 2000
#define DEFAULT_SEED 20240229u
/* Mutations start from small inputs: long ones are slow and find no more. */
#define MAX_SEED_BYTES 4096u
#define MAX_STEPS 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    uint8_t *data; /* owned */
    size_t size;
};

struct driver {
    struct input *seeds; /* owned */
    size_t n_seeds;
    unsigned n_results;
    uint64_t random;
};

static void __attribute__((format(printf, 1, 2), noreturn))
die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("Bail out! ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    exit(1);
}

static void *
must(void *p)
{
    if (p == NULL)
        die("out of memory");
    return p;
}

/* xorshift64*: the same numbers everywhere, which random() does not promise. */
static uint64_t
next_random(struct driver *d)
{
    d->random ^= d->random >> 12;
    d->random ^= d->random << 25;
    d->random ^= d->random >> 27;
    return d->random * 0x2545F4914F6CDD1Dull;
}

static size_t
below(struct driver *d, size_t limit)
{
    return (size_t)(next_random(d) % limit);
}

/*
 * Hands over an exact heap copy, so that AddressSanitizer sees the first byte
 * read behind the end.
 */
static void
run_input(const uint8_t *data, size_t size)
{
    uint8_t *copy = must(malloc(size > 0 ? size : 1));

    if (size > 0)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void
result(struct driver *d, const char *what)
{
    d->n_results++;
    printf("ok %u - %s\n", d->n_results, what);
    fflush(stdout);
}

static void
keep_seed(struct driver *d, uint8_t *data, size_t size)
{
    d->seeds = must(realloc(d->seeds, (d->n_seeds + 1) * sizeof(d->seeds[0])));
    d->seeds[d->n_seeds].data = data;
    d->seeds[d->n_seeds].size = size;
    d->n_seeds++;
}

static void
replay_file(struct driver *d, const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = must(malloc(MAX_INPUT_BYTES + 1));
    const char *base = strrchr(path, '/');
    size_t size;

    if (f == NULL)
        die("%s: %s", path, strerror(errno));
    size = fread(data, 1, MAX_INPUT_BYTES + 1, f);
    if (ferror(f) || size > MAX_INPUT_BYTES)
        die("%s: cannot be read, or over %u bytes", path, MAX_INPUT_BYTES);
    fclose(f);

    printf("# input %s\n", path);
    fflush(stdout);
    run_input(data, size);
    result(d, base != NULL ? base + 1 : path);
    keep_seed(d, data, size);
}

static int
compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void
replay(struct driver *d, const char *path, int depth)
{
    struct stat st;
    struct dirent **names = NULL;
    int n;

    if (stat(path, &st) != 0)
        die("%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        replay_file(d, path);
        return;
    }
    if (depth >= MAX_DEPTH)
        die("%s: folders too deep", path);
    n = scandir(path, &names, NULL, compare_names);
    if (n < 0)
        die("%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char child[PATH_MAX];
        int len =
            snprintf(child, sizeof(child), "%s/%s", path, names[i]->d_name);

        if (len < 0 || (size_t)len >= sizeof(child))
            die("%s: name too long", path);
        if (names[i]->d_name[0] != '.')
            replay(d, child, depth + 1);
        free(names[i]);
    }
    free(names);
}

/* Changes data in place, or its length; returns the new size. */
static size_t
mutate_once(struct driver *d, uint8_t *data, size_t size, size_t max)
{
    static const uint8_t telling[] = {0,    '\n', '\r', 0x1b, '"',  '\\', '{',
                                      '}',  ',',  ':',  0x7f, 0x80, 0x9b, 0xc2,
                                      0xe2, 0xed, 0xf4, 0xff, '0',  ';'};
    size_t at = size > 0 ? below(d, size) : 0;
    size_t len;

    switch (next_random(d) % 6) {
    case 0:
        if (size > 0)
            data[at] ^= (uint8_t)(1u << below(d, 8));
        return size;
    case 1:
        if (size > 0)
            data[at] = telling[below(d, sizeof(telling))];
        return size;
    case 2:
        if (size == max)
            return size;
        memmove(data + at + 1, data + at, size - at);
        data[at] = telling[below(d, sizeof(telling))];
        return size + 1;
    case 3:
        if (size == 0)
            return size;
        len = 1 + below(d, size - at);
        memmove(data + at, data + at + len, size - at - len);
        return size - len;
    case 4:
        if (size == 0)
            return size;
        len = 1 + below(d, size - at);
        if (len > max - size)
            len = max - size;
        memmove(data + at + len, data + at, size - at);
        return size + len;
    default:
        return at;
    }
}

static void
run_mutations(struct driver *d, unsigned long n_mutations)
{
    const size_t max = 2 * MAX_SEED_BYTES;
    uint8_t *data = must(malloc(max));
    char what[64];

    for (unsigned long i = 0; i < n_mutations; i++) {
        const struct input *seed = NULL;
        size_t size = 0;
        size_t steps = 1 + below(d, MAX_STEPS);

        if (d->n_seeds > 0)
            seed = &d->seeds[below(d, d->n_seeds)];
        if (seed != NULL) {
            size = seed->size;
            if (size > MAX_SEED_BYTES)
                size = MAX_SEED_BYTES;
            memcpy(data, seed->data, size);
        }
        for (size_t step = 0; step < steps; step++)
            size = mutate_once(d, data, size, max);
        run_input(data, size);
    }
    free(data);
    snprintf(what, sizeof(what), "%lu mutations", n_mutations);
    result(d, what);
}

static unsigned long
number(const char *text)
{
    char *end = NULL;
    unsigned long n;

    errno = 0;
    n = text != NULL ? strtoul(text, &end, 10) : 0;
    if (text == NULL || *text == '\0' || *end != '\0' || errno != 0)
        die("usage: target [-n MUTATIONS] [-s SEED] [FILE|DIRECTORY...]");
    return n;
}

static void
replay_own_corpus(struct driver *d, const char *argv0)
{
    const char *top = getenv("abs_top_srcdir");
    const char *name = strrchr(argv0, '/');
    char path[PATH_MAX];
    int len =
        snprintf(path, sizeof(path), "%s/tests/corpus/%s",
                 top != NULL ? top : ".", name != NULL ? name + 1 : argv0);

    if (len < 0 || (size_t)len >= sizeof(path))
        die("%s: name too long", argv0);
    replay(d, path, 0);
}

int
main(int argc, char **argv)
{
    struct driver d = {0};
    unsigned long n_mutations = DEFAULT_MUTATIONS;
    int first = 1;

    d.random = DEFAULT_SEED;
    while (first + 1 < argc && argv[first][0] == '-') {
        if (strcmp(argv[first], "-n") == 0)
            n_mutations = number(argv[first + 1]);
        else if (strcmp(argv[first], "-s") == 0)
            d.random = number(argv[first + 1]) | 1u;
        else
            number(NULL);
        first += 2;
    }

    if (first < argc) {
        for (int i = first; i < argc; i++)
            replay(&d, argv[i], 0);
    } else {
        replay_own_corpus(&d, argv[0]);
    }
    if (n_mutations > 0)
        run_mutations(&d, n_mutations);
    printf("1..%u\n", d.n_results);

    for (size_t i = 0; i < d.n_seeds; i++)
        free(d.seeds[i].data);
    free(d.seeds);
    return 0;
}
