/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a sandbox's daemon says of files. A list that is taken is JSON; what is
 * taken of it is below the directory, as deep as was asked for and no more than
 * the limit; whatever is in it is found by its own path. An upload is believed
 * only where it names the file.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "sandbox/e2b_entries_internal.h"

enum { MAX_ENTRIES = 3, MAX_LEVELS = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds, const char *what)
{
    if (holds) {
        return;
    }
    fprintf(stderr, "fuzz_e2b_entries: %s\n", what);
    abort();
}

static int
count_slashes(const char *s)
{
    int n = 0;

    for (; *s != '\0'; s++) {
        n += *s == '/';
    }
    return n;
}

static void
check_entry(const struct e2b_entry *e, const char *dir, int depth)
{
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    require(strncmp(e->path, dir, len) == 0 && e->path[len] == '/' &&
                e->path[len + 1] != '\0',
            "a path of another place");
    require(count_slashes(e->path + len) <= depth, "a path too deep");
    require(strstr(e->path, "//") == NULL, "a path with an empty part");
    require(strstr(e->path, "/../") == NULL && strstr(e->path, "/./") == NULL,
            "a path that leads elsewhere");
    require(strcmp(strrchr(e->path, '/'), "/..") != 0 &&
                strcmp(strrchr(e->path, '/'), "/.") != 0,
            "a path that ends elsewhere");
    require(utf8_valid(e->path, strlen(e->path)), "a path that is no text");
    require(e->size_bytes <= INT64_MAX, "its size");
    require(e->mtime_ns >= 0, "its time");
}

static void
try_list(const char *text, size_t len, const char *dir, int depth)
{
    struct e2b_entries e = {0};
    struct error err = {0};
    AUTO_JSON struct cJSON *tree = json_parse(text, len, MAX_LEVELS, NULL);
    int rc =
        e2b_entries_read_list(text, len, dir, depth, MAX_ENTRIES, &e, &err);

    if (rc < 0) {
        require(err.code == ERR_PROTOCOL, "a wrong error");
        require(e.n == 0 && e.items == NULL, "entries of a failure");
        return;
    }
    require(json_is_object(tree), "a list that is no JSON");
    require(e.n <= MAX_ENTRIES, "too many entries");
    require(!e.more || e.n == MAX_ENTRIES, "more than what is not full");
    for (size_t i = 0; i < e.n; i++) {
        check_entry(&e.items[i], dir, depth);
    }
    e2b_entries_fini(&e);
}

static void
try_one(const char *text, size_t len, const char *path)
{
    struct e2b_entries e = {0};
    struct error err = {0};

    if (e2b_entries_read_one(text, len, path, &e, &err) < 0) {
        require(err.code == ERR_PROTOCOL, "a wrong error");
        return;
    }
    require(e.n == 1 && strcmp(e.items[0].path, path) == 0, "another entry");
    e2b_entries_fini(&e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const dirs[] = {"/", "/d", "/home/user"};
    /* Of its own size, so that reading behind its end is seen. */
    AUTO_FREE char *text = xmemdup(data, size);
    struct error err = {0};

    for (size_t i = 0; i < LEN(dirs); i++) {
        try_list(text, size, dirs[i], 1);
        try_list(text, size, dirs[i], 4);
    }
    try_one(text, size, "/d/a");
    if (e2b_entries_check_upload(text, size, "/d/a", &err) == 0) {
        require(memmem(text, size, "a", 1) != NULL, "a file nobody named");
    }
    return 0;
}
