/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files on their way in: bound one by one before any cell has run, later linked
 * into the directory that is bound, else copied there piece by piece. And the
 * copying itself, which files on their way out use too.
 */
#ifndef SANDBOX_LOCAL_FILES_INTERNAL_H
#define SANDBOX_LOCAL_FILES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "sandbox/sandbox.h"

struct error;
struct local_copy;
struct local_env;
struct loop;

struct local_file {
    char *name; /* owned */
    char *path; /* owned; of a bound file; NULL: it is in the directory */
};

struct local_files {
    struct local_file *files; /* owned */
    size_t n;
};

void local_files_fini(struct local_files *files);

/*
 * Notes a whole file to be bound at the next start. False when it has to come
 * in another way: no path, a part only, or not readable for the identity
 * inside.
 */
bool local_files_bind(struct local_files *files, const struct local_env *env,
                      const struct sandbox_put *put);

/* Puts a whole file into the directory by a hard link. False when it cannot. */
bool local_files_link(struct local_files *files, const struct local_env *env,
                      const struct sandbox_put *put);

/*
 * A new file in the directory, under a name of its own until
 * local_files_arrive. Returns a descriptor, or -1. Errors: ERR_IO.
 */
WARN_UNUSED int local_files_receive(const struct local_env *env,
                                    struct error *err);
WARN_UNUSED int local_files_arrive(struct local_files *files,
                                   const struct local_env *env,
                                   const char *name, struct error *err);

/* Removes what was received and did not arrive. */
void local_files_drop(const struct local_env *env);

/* Makes NAME in the workspace a link to data/NAME, unless something of that
   name is there. */
void local_files_show(const struct local_env *env, const char *name);

/* Whether NAME at the top of the workspace is such a link. */
bool local_files_is_ours(const struct local_files *files,
                         const struct local_env *env, const char *name);

/* Forgets bound files that can no longer be read where they were. */
void local_files_check(struct local_files *files, const struct local_env *env);

/*
 * Copies from one descriptor to another (both borrowed until done) from offset
 * on, in pieces from the loop; limit -1: to the end. With is_bounded, more than
 * limit bytes is ERR_TOO_LARGE; else the rest is left. done runs once, from the
 * loop, and the copy is gone then.
 */
struct local_copy *
local_copy_start(struct loop *loop, int from, off_t offset, off_t limit,
                 bool is_bounded, int to, sandbox_progress_fn progress,
                 void (*done)(void *ctx, const struct error *err),
                 void *progress_ctx, void *ctx);
void local_copy_free(struct local_copy *copy); /* NULL is allowed */

/* Ends it now: done runs with ERR_CANCELLED before this returns. */
void local_copy_stop(struct local_copy *copy);

#endif
