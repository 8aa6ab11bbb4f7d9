/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the events of a sandbox's interpreter (e2b_lines) mean for a cell: bytes
 * that it wrote, what it showed, and how it ended. Any of them may be the
 * cell's own making; limits are those of cells of the local sandbox. Pure but
 * for the handlers that it calls.
 */
#ifndef SANDBOX_E2B_RESULT_INTERNAL_H
#define SANDBOX_E2B_RESULT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "sandbox/sandbox.h"

struct cJSON;
struct e2b_line;
struct error;

/* The media type under which our own kernel, where it lives in the service's
   interpreter (e2b_setup.py), sends its events: those of the local sandbox, of
   which text, table and picture are beside it in the bundle. The text has
   a "=" in front of it. */
#define E2B_RESULT_EVENT "application/x-sandpiper-event.v1+json"

/* How the server says that a cell ended. */
enum e2b_end {
    E2B_END_OPEN,    /* not yet */
    E2B_END_OK,      /* the code came to its end, or failed by its own error */
    E2B_END_NOT_RUN, /* refused behind one that was interrupted */
    E2B_END_LOST     /* the interpreter is gone, and its variables */
};

struct e2b_cell_result {
    const struct sandbox_cell_handlers *on; /* borrowed */
    void *ctx;
    uint64_t output_bytes; /* limit of what it writes */

    /* Gets events of our own kernel that belong to no cell ("ready", "vars");
       may be NULL. */
    void (*on_event)(void *ctx, const struct cJSON *event);

    bool begun;
    bool flooded;      /* past a limit: what follows is dropped; the owner stops
                          the cell */
    bool is_shortened; /* the line that is taken now */
    bool ended;        /* end_of_execution has come */
    bool has_error;
    enum e2b_end said; /* by an error of the server's; E2B_END_OPEN: none */
    int64_t count;     /* of cells in this interpreter, from 1; 0: not said */

    char *error_name;  /* owned */
    char *error_value; /* owned */
    char *traceback;   /* owned */
    char *hint;        /* owned */
    bool is_done;      /* our own kernel has said how it ended */
    bool interrupted;  /* and that it was */

    uint64_t n_bytes;
    uint64_t n_dropped;
    size_t n_events;
    size_t n_event_bytes;
    int n_outputs;
    size_t n_images;
    char images[SANDBOX_MAX_IMAGES][HASH_HEX_BYTES];
};

/* All handlers but on_done must be set; they must not release r. on and ctx
   outlive it. */
void e2b_result_init(struct e2b_cell_result *r, uint64_t output_bytes,
                     const struct sandbox_cell_handlers *on, void *ctx);
void e2b_result_fini(struct e2b_cell_result *r);

/* Takes one line and calls the handlers but on_done. Events of other types and
   all behind the end are skipped. */
void e2b_result_take(struct e2b_cell_result *r, const struct e2b_line *line);

enum e2b_end e2b_result_end(const struct e2b_cell_result *r);

/*
 * At the end of the answer: outcome, error_name, error_value, traceback, hint,
 * reason (static), variables_lost and output_dropped_bytes of *out; texts are
 * borrowed from r. Errors: ERR_NET when the answer was cut: the body ended
 * without end_of_execution, and how the cell ended is not known.
 */
WARN_UNUSED int e2b_result_outcome(const struct e2b_cell_result *r,
                                   struct sandbox_outcome *out,
                                   struct error *err);

#endif
