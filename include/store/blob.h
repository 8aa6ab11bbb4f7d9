/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files by content: a chart or another output is stored once, named by the
 * SHA-256 of its bytes, and has a readable name that is a hard link to it.
 */
#ifndef STORE_BLOB_H
#define STORE_BLOB_H

#include <stddef.h>

#include "base/cleanup.h"
#include "base/hash.h"

struct error;
struct session;

struct blob {
    char hash[HASH_HEX_BYTES];
    char *path; /* owned; absolute, with the readable name */
};

/*
 * Stores data (0600). name: letters, digits, ".", "_" and "-", used as the
 * readable name below files/; if it is taken by other content, "-2", "-3" ...
 * is put before its ending. Errors: ERR_IO.
 */
WARN_UNUSED int blob_put(struct session *s, const void *data, size_t len,
                         const char *name, struct blob *out, struct error *err);

/* The same for a file open for reading at offset 0. */
WARN_UNUSED int blob_put_fd(struct session *s, int fd, const char *name,
                            struct blob *out, struct error *err);

void blob_fini(struct blob *b);

#endif
