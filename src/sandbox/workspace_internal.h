/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The workspace seen from outside. Everything in it was made by cells, which
 * may change it at any time: nothing is opened through a link, nothing but a
 * regular file with one name is read, and nothing here ever waits.
 */
#ifndef SANDBOX_WORKSPACE_INTERNAL_H
#define SANDBOX_WORKSPACE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct sandbox_file;

#define WORKSPACE_MAX_ENTRIES 1000u
#define WORKSPACE_MAX_DEPTH 8
/* Where snapshots lie on their way out and in; at the top, never listed. */
#define WORKSPACE_STATE ".state"

/* A directory is not read beyond this many entries in all. */
#define WORKSPACE_MAX_SEEN 100000u

struct workspace_list {
    struct sandbox_file *files; /* owned, with their names */
    size_t n_files;
    uint64_t n_left_out;
    bool more; /* so many that counting was given up: n_left_out is a minimum */
};

/* Links that the program made itself, by name at the top; they are not listed
   while they are links. */
typedef bool (*workspace_ours_fn)(void *ctx, const char *name);

/* Whether name can be one component of a path: not empty, ".", "..", no "/",
   at most 255 bytes. */
bool workspace_name_ok(const char *name);

/* Whether name can be a path below the workspace: components as above, with one
   "/" between them. */
bool workspace_path_ok(const char *name);

/*
 * Lists what lies below root_fd, "data" and WORKSPACE_STATE at the top left
 * out. Directories are entered, not listed. Errors: ERR_IO.
 */
WARN_UNUSED int workspace_list(int root_fd, workspace_ours_fn ours, void *ctx,
                               struct workspace_list *out, struct error *err);
void workspace_list_fini(struct workspace_list *list);

/*
 * Opens a regular file below root_fd for reading; name may have several
 * components. Returns a descriptor, or -1. Errors: ERR_IO, ERR_UNSUPPORTED for
 * links, FIFOs, sockets, devices, directories and files with several names.
 */
WARN_UNUSED int workspace_open(int root_fd, const char *name,
                               struct error *err);

/* The same without openat2, for systems that lack it. */
WARN_UNUSED int workspace_open_by_walk(int root_fd, const char *name,
                                       struct error *err);

/* Bytes that lie below root_fd, over at most max_entries entries; links are
   not followed. *whole, if not NULL: nothing was left out, be it for the number
   of entries, their depth, or a directory that could not be read. */
uint64_t workspace_usage(int root_fd, size_t max_entries, bool *whole);

#endif
