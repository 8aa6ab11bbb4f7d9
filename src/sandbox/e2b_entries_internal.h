/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a sandbox's daemon says of files and directories, as text: lists, single
 * entries, and the answer to an upload. All of it is untrusted: what cannot be
 * true is left out or refused. Pure: no input or output.
 */
#ifndef SANDBOX_E2B_ENTRIES_INTERNAL_H
#define SANDBOX_E2B_ENTRIES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "sandbox/e2b_files_internal.h"

struct error;

#define E2B_MAX_PATH_BYTES ((size_t)4096)

struct e2b_entries {
    struct e2b_entry *items; /* owned, as their paths are */
    size_t n;
    bool more; /* there are more than were taken */
};

void e2b_entries_fini(struct e2b_entries *e); /* zero is a valid empty one */

/* Whether path is absolute, valid UTF-8, of at most E2B_MAX_PATH_BYTES, and
   without empty components, "." and "..": only such a one is compared. */
bool e2b_is_path(const char *path);

/*
 * The answer to ListDir for dir, depth levels deep (1: what is in itself): at
 * most max entries that are below it and can be believed. Errors: ERR_PROTOCOL.
 */
WARN_UNUSED int e2b_entries_read_list(const char *text, size_t len,
                                      const char *dir, int depth, size_t max,
                                      struct e2b_entries *out,
                                      struct error *err);

/* The answer to Stat for path: one entry. Errors: ERR_PROTOCOL. */
WARN_UNUSED int e2b_entries_read_one(const char *text, size_t len,
                                     const char *path, struct e2b_entries *out,
                                     struct error *err);

/* Checks that the answer to an upload names the one file that was to be
   written. Errors: ERR_PROTOCOL. */
WARN_UNUSED int e2b_entries_check_upload(const char *text, size_t len,
                                         const char *path, struct error *err);

#endif
