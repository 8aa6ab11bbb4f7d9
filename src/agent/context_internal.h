/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the model is told of a cell: one form with labelled parts, bounded, and
 * honest about what was left out.
 */
#ifndef AGENT_CONTEXT_INTERNAL_H
#define AGENT_CONTEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/excerpt_internal.h"
#include "base/sbuf.h"
#include "model/event.h"

struct output;
struct sandbox_outcome;
struct table;

/* The most that one tool result holds, and the rows of one table, where nothing
   else is asked for. */
#define CONTEXT_MAX_BYTES 12000
#define CONTEXT_MAX_ROWS 20

/* Parts whose length the program in the cell decides. */
enum context_part {
    CONTEXT_STDOUT,
    CONTEXT_STDERR,
    CONTEXT_RESULT, /* texts of values */
    CONTEXT_TABLES,
    CONTEXT_N_PARTS
};

/* Collects what one cell prints and shows. */
struct context {
    size_t max_bytes;
    size_t max_rows;
    struct excerpt parts[CONTEXT_N_PARTS];
    struct sbuf shown; /* charts and files, a line for each */
    struct sbuf notes; /* of ours and of the kernel, a line for each */
    bool is_open;
};

/* max_bytes and max_rows: 0 for the usual. */
void context_init(struct context *c, size_t max_bytes, size_t max_rows);
void context_fini(struct context *c); /* also of one that is not open */

void context_add_bytes(struct context *c, enum event_stream stream,
                       const char *data, size_t len);
void context_add_output(struct context *c, const struct output *out);

/* A file that the cell left; refused NULL: it was given to the user. */
void context_add_file(struct context *c, const struct event_file *file);

/* A line of ours, such as a note of the kernel's. */
void context_add_note(struct context *c, const char *text);

/*
 * The tool result: how the cell ended, then its parts, those that are empty
 * left out; at most max_bytes, valid UTF-8, without NUL.
 */
void context_add_result(const struct context *c,
                        const struct sandbox_outcome *outcome,
                        struct sbuf *out);

/* A table as text: names, then rows, at most max_rows, and shown/total. */
void context_add_table(const struct table *t, size_t max_rows,
                       struct sbuf *out);

#endif
