/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the model is told of a cell: bounded, and honest about what was left
 * out.
 */
#ifndef AGENT_CONTEXT_INTERNAL_H
#define AGENT_CONTEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sbuf.h"
#include "model/event.h"

struct output;
struct sandbox_outcome;
struct table;

/* The most that one tool result holds, and the rows of one table. */
#define CONTEXT_MAX_BYTES 12000
#define CONTEXT_MAX_ROWS 20

/* Collects what one cell prints and shows, in order: the beginning and the end,
   whatever comes in between. */
struct context {
    struct sbuf head;
    char *tail; /* owned; a ring */
    size_t tail_at;
    size_t tail_len;
    uint64_t n_bytes; /* all that came */
    bool at_line_start;
};

void context_init(struct context *c);
void context_fini(struct context *c);

void context_add_bytes(struct context *c, const char *data, size_t len);
void context_add_output(struct context *c, const struct output *out);

/* A line of ours, such as a note of the kernel's. */
void context_add_note(struct context *c, const char *text);

/*
 * The tool result: how the cell ended, then what it printed and showed, at most
 * CONTEXT_MAX_BYTES of it, valid UTF-8, without NUL.
 */
void context_add_result(const struct context *c,
                        const struct sandbox_outcome *outcome,
                        struct sbuf *out);

/* A table as text: names, then rows, at most max_rows, and shown/total. */
void context_add_table(const struct table *t, size_t max_rows,
                       struct sbuf *out);

#endif
