/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gets a table that a cell showed out of the interpreter, whole and as CSV.
 */
#ifndef UI_FETCH_TABLE_INTERNAL_H
#define UI_FETCH_TABLE_INTERNAL_H

#include <sys/types.h>

struct app;
struct error;

/*
 * Writes output index (from 0) of cell to fd, borrowed until done, at most
 * max_bytes. done runs once, from the loop. doing and what: "saving" and
 * "saved", for messages. One at a time. Errors: ERR_DATA (it is not kept any
 * more, or was lost with its interpreter), ERR_TOO_LARGE, ERR_CANCELLED, those
 * of the sandbox.
 */
void fetch_table(struct app *app, int cell, int index, int fd, off_t max_bytes,
                 const char *doing, const char *what,
                 void (*done)(struct app *app, const struct error *err));

/* done follows at once with ERR_CANCELLED; the copy inside is removed behind
   it. Without one that is waited for, nothing happens. */
void fetch_table_cancel(struct app *app);

/* Forgets those whose copies are still being removed. */
void fetch_table_free(struct app *app);

#endif
