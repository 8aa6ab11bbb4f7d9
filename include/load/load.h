/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Brings a file into the sandbox: checks it, chooses its name and variable
 * there, puts it, has pandas read it by a generated snippet that runs silently
 * like any cell, and reports what pandas sees. What the report says of the
 * contents is untrusted.
 */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct error;
struct event_load;
struct load;
struct sandbox;
struct sbuf;

struct load_result {
    const struct event_load *report;

    /* Why the variable or the name inside is not the obvious one; one sentence
       of ours that quotes names; NULL: it is. */
    const char *note;

    /* What the model is told with the next question. */
    const char *for_model;
};

/* Exactly once, from the loop. err: ERR_DATA (pandas cannot read it),
   ERR_SANDBOX, ERR_IO, ERR_TIMEOUT, ERR_CANCELLED; result is NULL then. */
typedef void (*load_fn)(void *ctx, const struct load_result *result,
                        const struct error *err);

/*
 * Begins. variable: NULL for one made from the file name. Errors at once:
 * ERR_DATA (missing, unreadable, a directory, not a regular file, empty),
 * ERR_USAGE (variable is no identifier, a keyword, a name that code relies on,
 * or another file's).
 */
WARN_UNUSED struct load *load_start(struct sandbox *sb, const char *path,
                                    const char *variable, int64_t timeout_ms,
                                    load_fn done, void *ctx, struct error *err);

/* Told how far the file is on its way into the sandbox. name: as it was named,
   without its directories; NULL: it is there, or will not be. */
void load_on_progress(struct load *load,
                      void (*fn)(void *ctx, const char *name,
                                 uint64_t done_bytes, uint64_t total_bytes));

/* done follows with ERR_CANCELLED or as it would have ended. */
void load_cancel(struct load *load);

/* Adds the variable for a file name: an identifier, no keyword, no builtin. */
void load_add_variable(struct sbuf *sb, const char *file_name);

/* An ASCII identifier that is no keyword. */
bool load_is_variable(const char *name);

/* A name that code relies on: a builtin, a usual module, or one that Python
   keeps for itself. */
bool load_is_taken(const char *name);

/* Bytes of a file name before its ending; ".csv.gz" is one ending. */
size_t load_stem_len(const char *file_name);

#endif
