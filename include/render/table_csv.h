/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CSV as pandas writes it (comma, double quotes, names in the first line) to a
 * table of all its rows. Pure. The text is untrusted.
 */
#ifndef RENDER_TABLE_CSV_H
#define RENDER_TABLE_CSV_H

#include <stddef.h>

#include "base/cleanup.h"

struct error;
struct table;

/* What is read at most, so that a hostile file costs no memory. */
#define TABLE_CSV_MAX_COLUMNS 2000u
#define TABLE_CSV_MAX_CELLS 500000u

/*
 * The caller owns the table. Fields that are empty are missing values; columns
 * in which every other is a number are numbers; a line with fewer fields than
 * names ends in missing values, and surplus fields are left out.
 * Errors: ERR_DATA (no line), ERR_TOO_LARGE.
 */
WARN_UNUSED struct table *table_from_csv(const char *text, size_t len,
                                         struct error *err);

#endif
