/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Snapshots of an interpreter's variables: one file each, below the state
 * directory. What is in them is code of whoever made them: nothing here looks
 * at it, and it is for a sandbox only.
 */
#ifndef STORE_SNAPSHOTS_H
#define STORE_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct io_new;

/* The longest name, in bytes. */
#define SNAPSHOTS_MAX_NAME 64

struct snapshots_item {
    char *name; /* owned */
    uint64_t size_bytes;
    int64_t mtime_ns;
};

struct snapshots_list {
    struct snapshots_item *items; /* owned; the newest first */
    size_t n_items;
};

/* Where they are. Owned by the caller; NULL without a home. */
char *snapshots_dir(void);

/* Letters, digits, ".", "_" and "-", the first a letter or a digit. */
bool snapshots_name_ok(const char *name);

/* Those that are there; files of other names are none. out is owned by the
   caller. */
void snapshots_list(struct snapshots_list *out);
void snapshots_list_fini(struct snapshots_list *list);

/*
 * Begins one, mode 0600 in a directory of mode 0700; name NULL: the date and
 * time. It is there once io_new_keep is called. Errors: ERR_USAGE for the name,
 * also when there is one that is called so; ERR_IO.
 */
WARN_UNUSED int snapshots_create(const char *name, struct io_new *file,
                                 struct error *err);

/*
 * Opens one for reading; name NULL: the newest. Returns a descriptor and sets
 * *found to its name, owned by the caller; or -1. Errors: ERR_USAGE for the
 * name; ERR_IO.
 */
WARN_UNUSED int snapshots_open(const char *name, char **found,
                               struct error *err);

#endif
