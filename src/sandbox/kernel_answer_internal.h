/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What our own interpreter answers to requests that are no cells: the list of
 * variables, and what was saved or brought back. Pure but for the callbacks;
 * all of it is untrusted and bounded here.
 */
#ifndef SANDBOX_KERNEL_ANSWER_INTERNAL_H
#define SANDBOX_KERNEL_ANSWER_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sandbox/sandbox.h"

struct cJSON;
struct error;

/* Of a snapshot: what it may take and have. */
#define KERNEL_SNAPSHOT_SECONDS 10
#define KERNEL_SNAPSHOT_BYTES ((uint64_t)1 << 30)

/* Zero is a valid empty one. Owned texts: names, or names, types and sizes; and
   what was left out with its reasons. */
struct kernel_answer {
    char **names;
    size_t n_names;
    size_t texts_each; /* of a name: 3 of a variable, else 1 or 0 */
    char **left_out;
    size_t n_left_out;
    uint64_t n_more;
    uint64_t n_left_out_more;
};

void kernel_answer_fini(struct kernel_answer *a);

/* Takes an answer to "vars". */
void kernel_answer_read_vars(struct kernel_answer *a,
                             const struct cJSON *event);

/* Takes an answer to "snapshot" or "restore"; changed: the member of it with
   the names. */
void kernel_answer_read_saved(struct kernel_answer *a,
                              const struct cJSON *event, const char *changed);

/* Who waits for an answer: one of the two is set. */
struct kernel_asker {
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    void *ctx;
};

/* Tells the asker what was answered, or, where its code is not ERR_NONE, err.
   n_bytes: of the snapshot. */
void kernel_answer_tell(const struct kernel_answer *a,
                        const struct kernel_asker *asker, uint64_t n_bytes,
                        int64_t duration_ms, const struct error *err);

/* What the interpreter says went wrong, as one line of bounded length; owned by
   the caller. */
char *kernel_answer_line(const char *text);

/* Whether the file fd is too large to be read as a snapshot; *n_bytes: what it
   has. doing: for the message. Errors: ERR_TOO_LARGE, ERR_IO. */
WARN_UNUSED int kernel_answer_check_size(int fd, const char *doing,
                                         uint64_t *n_bytes, struct error *err);

#endif
