/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files in a sandbox, by its daemon: what is uploaded is read from disk piece
 * by piece, what is downloaded is written there as it comes, lists are checked
 * before anybody sees them. Everything in them is untrusted.
 */
#ifndef SANDBOX_E2B_FILES_INTERNAL_H
#define SANDBOX_E2B_FILES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "sandbox/e2b_data_internal.h"
#include "sandbox/sandbox.h"

struct e2b_file_call;
struct sbuf;

/* Once, from the loop; the call is freed afterwards. */
typedef void (*e2b_file_fn)(void *ctx, const struct e2b_data_result *result);

enum e2b_entry_type {
    E2B_ENTRY_OTHER, /* it is not said what */
    E2B_ENTRY_FILE,
    E2B_ENTRY_DIRECTORY,
    E2B_ENTRY_FIFO,
    E2B_ENTRY_SOCKET,
    E2B_ENTRY_DEVICE
};

/* Borrowed for the call. */
struct e2b_entry {
    const char *path; /* absolute */
    enum e2b_entry_type type;
    bool is_link; /* any of the marks of one; never followed */
    uint64_t size_bytes;
    int64_t mtime_ns; /* wall clock; 0: not known */
};

/* With result->err there are none. more: there are more than the limit. */
typedef void (*e2b_list_fn)(void *ctx, const struct e2b_entry *entries,
                            size_t n, bool more,
                            const struct e2b_data_result *result);

#define E2B_MAX_ENTRIES 1000u

/*
 * All of these begin a call that ends with fn, at most one callback. path is
 * absolute and plain: without empty components, "." and "..", in UTF-8. Errors
 * of the call: as e2b_data_start, ERR_USAGE (path); they and those of the
 * result begin with path. An answer that says something else than what was
 * asked for is ERR_PROTOCOL with E2B_TROUBLE_REFUSED.
 */

/* len bytes of fd (a regular file, borrowed until the end) from offset on, to a
   new file or in place of an old one; directories are made. Sent in the form
   that the daemon's version knows, and compressed on its way where that is
   worth it: a table is sent in a fifth of the time over a slow line, and a line
   that is faster than gzip is not missed. progress may be NULL; its ctx is ctx.
 */
WARN_UNUSED struct e2b_file_call *
e2b_file_upload(struct e2b_site *site, const char *path, int fd, int64_t offset,
                int64_t len, sandbox_progress_fn progress, e2b_file_fn fn,
                void *ctx, struct error *err);

/* The same of bytes in memory, which are copied. */
WARN_UNUSED struct e2b_file_call *
e2b_file_upload_bytes(struct e2b_site *site, const char *path, const void *data,
                      size_t len, e2b_file_fn fn, void *ctx, struct error *err);

/*
 * To fd (borrowed, written where it stands), from offset of the file on, at
 * most limit bytes: ERR_TOO_LARGE when there are more, before the first of them
 * is written if the length is said.
 * What was written before an error is the caller's to remove. Errors besides:
 * ERR_IO (fd). Not tried again once a byte has come.
 */
WARN_UNUSED struct e2b_file_call *
e2b_file_download(struct e2b_site *site, const char *path, int fd,
                  int64_t offset, int64_t limit, e2b_file_fn fn, void *ctx,
                  struct error *err);

/* What is in a directory, depth levels of it (1: itself); at most
   E2B_MAX_ENTRIES. An empty one is no error. */
WARN_UNUSED struct e2b_file_call *e2b_file_list(struct e2b_site *site,
                                                const char *path, int depth,
                                                e2b_list_fn fn, void *ctx,
                                                struct error *err);

/* The one entry. One that is not there: result->status.code is E2B_NOT_FOUND
   (a status of 404 alone may come of a daemon that knows no such call). */
WARN_UNUSED struct e2b_file_call *e2b_file_stat(struct e2b_site *site,
                                                const char *path,
                                                e2b_list_fn fn, void *ctx,
                                                struct error *err);

/* With its parents; one that is there is a success. */
WARN_UNUSED struct e2b_file_call *e2b_file_make_dir(struct e2b_site *site,
                                                    const char *path,
                                                    e2b_file_fn fn, void *ctx,
                                                    struct error *err);

/* With all that is in it; one that is not there is a success. */
WARN_UNUSED struct e2b_file_call *e2b_file_remove(struct e2b_site *site,
                                                  const char *path,
                                                  e2b_file_fn fn, void *ctx,
                                                  struct error *err);

/* Ends it at once, without a callback; not from fn. NULL is allowed. */
void e2b_file_drop(struct e2b_file_call *call);

/*
 * An address by which whoever has it reads (or writes) the file until
 * expires_s (wall clock; 0: for as long as the sandbox lives); owned by the
 * caller. Where the sandbox has no token it is not signed. Nothing is asked of
 * the service; whether somebody else can use the address depends on
 * sandbox_url. Errors: ERR_USAGE (path).
 */
WARN_UNUSED char *e2b_file_url(const struct e2b_site *site, const char *path,
                               bool writes, int64_t expires_s,
                               struct error *err);

/* Sets sb up and adds "/files?path=...", with the user where one must be named:
   the address of a file within a site. path is plain. */
void e2b_file_add_query(struct sbuf *sb, const struct e2b_site *site,
                        const char *path);

#define E2B_NOT_PLAIN "%.200s: is no plain absolute path"

#endif
