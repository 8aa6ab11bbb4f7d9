/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files and pipes: whole reads with a limit, whole writes, and replacing a file
 * so that a crash leaves either the old or the new one.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct error;
struct sbuf;

/* Reads fd to its end into sb. Errors: ERR_IO, ERR_TOO_LARGE when the maximum
   of sb is passed. */
WARN_UNUSED int io_read_all(int fd, struct sbuf *sb, struct error *err);

/* The same for a regular file by name. Errors: ERR_IO, ERR_TOO_LARGE. */
WARN_UNUSED int io_read_file(const char *path, struct sbuf *sb,
                             struct error *err);

/* Writes everything, through EINTR and (by poll) EAGAIN. Errors: ERR_IO. */
WARN_UNUSED int io_write_all(int fd, const void *data, size_t len,
                             struct error *err);

/* Temporary, sync, rename, sync of the directory. Errors: ERR_IO. */
WARN_UNUSED int io_replace(const char *path, const void *data, size_t len,
                           mode_t mode, struct error *err);

/* A file that is written under a name only when it is whole. */
struct io_new {
    int fd;          /* owned; for reading and writing */
    char *path;      /* owned */
    char *temporary; /* owned; NULL: it has no name yet, or has its own */
};

/* Begins one, mode 0600. Errors: ERR_IO, also when path is there already. */
WARN_UNUSED int io_new_open(struct io_new *f, const char *path,
                            struct error *err);

/* Gives it its name, never that of a file that is there. Errors: ERR_IO. */
WARN_UNUSED int io_new_keep(struct io_new *f, struct error *err);

/* Closes it; without io_new_keep nothing is left. Accepts what io_new_open left
   behind when it failed, and what was closed. */
void io_new_close(struct io_new *f);

/* Makes path and its parents, mode 0700 for what is new. Errors: ERR_IO. */
WARN_UNUSED int io_make_dirs(const char *path, struct error *err);

/* Removes a directory with all in it, never following a link. Errors: ERR_IO,
   after having removed what could be. A missing path is no error. */
WARN_UNUSED int io_remove_tree(const char *path, struct error *err);

/* The same for at most so long: what somebody else has made may take hours.
   Errors: ERR_IO, with the sys_errno ETIMEDOUT when something is left. */
WARN_UNUSED int io_remove_tree_within(const char *path, int64_t limit_ms,
                                      struct error *err);

/* A pipe, close-on-exec at both ends. Errors: ERR_IO. */
WARN_UNUSED int io_pipe(int fds[2], struct error *err);

/* Errors: ERR_IO. */
WARN_UNUSED int io_set_nonblock(int fd, struct error *err);

/* A sealed memory file that holds data, at offset 0, close-on-exec.
   Returns the descriptor, or -1. Errors: ERR_IO. */
WARN_UNUSED int io_memfd(const char *name, const void *data, size_t len,
                         struct error *err);

/* Copies from one descriptor to another from their offsets, at most max bytes
   (reflink, copy_file_range, else read and write). Sets *copied.
   Errors: ERR_IO, ERR_TOO_LARGE when there was more. */
WARN_UNUSED int io_copy(int from, int to, off_t max, off_t *copied,
                        struct error *err);

#endif
