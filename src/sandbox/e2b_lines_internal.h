/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The answer of a sandbox's interpreter to a cell: one JSON object a line.
 * Takes bytes in any pieces and bounds what is kept of them: a whole data frame
 * may come beside its text, of which nothing is needed. Pure: no input or
 * output.
 */
#ifndef SANDBOX_E2B_LINES_INTERNAL_H
#define SANDBOX_E2B_LINES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/sbuf.h"

struct cJSON;
struct error;

/* As for events of the local interpreter: a picture and its text fit. */
#define E2B_LINES_MAX_MIB 12u
#define E2B_LINES_MAX_BYTES ((size_t)E2B_LINES_MAX_MIB << 20)
#define E2B_LINES_MAX_DEPTH 16u

/* Of a list or an object within a line: what has more becomes null. The tree of
   all that a line may keep stays below JSON_MAX_VALUES. */
#define E2B_LINES_MAX_NESTED_BYTES ((size_t)1 << 20)
#define E2B_LINES_MAX_NESTED_VALUES 50000u

/* Borrowed for the call. */
struct e2b_line {
    const struct cJSON *event; /* an object; NULL: it was too long */
    size_t len;                /* bytes of it that were kept; of one that was
                                  too long as many as a line may have */
    bool is_shortened;         /* a list or an object in it was left out */
};

/* A value other than 0 stops the reader, which is not touched any more: it may
   have been released. */
typedef int (*e2b_lines_fn)(void *ctx, const struct e2b_line *line);

struct e2b_lines {
    struct sbuf line; /* what is kept of the line so far */
    size_t max_bytes; /* of a line */

    size_t depth;
    bool in_string;
    bool escaped;
    size_t value_at; /* where in line the nested value begins */
    size_t n_values; /* in nested values, at least as many as there are */
    size_t n_before; /* of these before this nested value */
    bool skipping;   /* the rest of the nested value */
    bool too_long;   /* the rest of the line is skipped */
    bool is_shortened;
};

/* max_bytes: of a line, after shortening; 0: E2B_LINES_MAX_BYTES. */
void e2b_lines_init(struct e2b_lines *l, size_t max_bytes);
void e2b_lines_fini(struct e2b_lines *l);

/*
 * Returns 0, the callback's value, or -1; after a value other than 0 it is not
 * fed again. Empty lines are skipped. A line without an end is not an error:
 * whoever reads counts bytes and time. Errors: ERR_PROTOCOL when a line is no
 * object.
 */
WARN_UNUSED int e2b_lines_feed(struct e2b_lines *l, const char *bytes,
                               size_t len, e2b_lines_fn fn, void *ctx,
                               struct error *err);

/* The body has ended: what came behind the last line feed is a line if it is a
   whole object, else it is forgotten. Returns 0 or the callback's value. */
WARN_UNUSED int e2b_lines_finish(struct e2b_lines *l, e2b_lines_fn fn,
                                 void *ctx);

#endif
