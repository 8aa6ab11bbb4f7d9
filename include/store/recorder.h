/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The first sink: keeps of every cell what can be asked for later (its code,
 * its error, what it printed and showed) and writes charts and files into the
 * session's directory. A picture that cannot be written does not end the turn;
 * it is said where it would have been named.
 */
#ifndef STORE_RECORDER_H
#define STORE_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/sbuf.h"
#include "model/event.h"

struct recorder;
struct session;
struct sink_ops;

/* Thinking about one question that is kept: the first of it. */
#define RECORDER_THINKING_BYTES (64u << 10)

enum recorder_kind { RECORDER_TEXT, RECORDER_TABLE, RECORDER_CHART };

struct recorder_output {
    enum recorder_kind kind;
    int index;     /* within the cell */
    char *path;    /* owned; of a chart; NULL when it could not be written */
    char *problem; /* owned; why it could not */
};

/* What a cell printed, or one output that it showed, in the order in which they
   came. */
struct recorder_piece {
    bool is_output;           /* else bytes that were printed */
    enum event_stream stream; /* of what was printed */
    int index;                /* of the output */
    struct sbuf text; /* bytes, or the text of the output; empty for tables and
                         charts */
};

/* Printed output of all cells together that is kept. What is older goes. */
#define RECORDER_MAX_BYTES ((size_t)64 << 20)

struct recorder_cell {
    int number;
    char *code;     /* owned */
    char *language; /* owned; NULL: Python */
    enum event_outcome outcome;
    bool is_over;
    char *error_name;                /* owned; untrusted; NULL: none */
    char *error_value;               /* owned; untrusted */
    char *traceback;                 /* owned; untrusted */
    struct recorder_output *outputs; /* owned */
    size_t n_outputs;
    struct recorder_piece *pieces; /* owned */
    size_t n_pieces;
    bool is_forgotten; /* the pieces had to make room for those of others */
    bool is_cut;       /* there was more than is kept of all cells */
};

/* session: borrowed; NULL: nothing is written (and that is said). */
struct recorder *recorder_new(struct session *session);
void recorder_free(struct recorder *r);

/* For sink_chain_add, with the recorder itself as sink. */
extern const struct sink_ops recorder_sink;

/* The cell of that number, or NULL; borrowed until the next event. */
const struct recorder_cell *recorder_cell(const struct recorder *r, int number);
int recorder_n_cells(const struct recorder *r);

/* The output at an address, or NULL. */
const struct recorder_output *recorder_output(const struct recorder *r,
                                              int cell, int index);

/* What the model thought about the last question, blank lines between blocks;
   NULL: nothing. At most RECORDER_THINKING_BYTES are kept; *n_dropped is how
   many more there were. Borrowed until the next event. */
const char *recorder_thinking(const struct recorder *r, uint64_t *n_dropped);

/* Where the file of the last EVENT_FILE was saved; NULL: it was not, and why is
   in *problem (NULL when it had been refused before). Borrowed. */
const char *recorder_file(const struct recorder *r, const char **problem);

#endif
