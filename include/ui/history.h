/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The history of input lines, kept in a file of the user's (0600), most recent
 * last, without neighbouring repeats.
 */
#ifndef UI_HISTORY_H
#define UI_HISTORY_H

#include "base/cleanup.h"

struct error;

#define HISTORY_MAX_LINES 2000

/* Reads path into the line editor; a missing file is no error. */
WARN_UNUSED int history_load(const char *path, struct error *err);

/* Adds a line to the editor's list and to the file. Blank lines and lines that
   begin with a space are left out. Errors: ERR_IO. */
WARN_UNUSED int history_append(const char *path, const char *line,
                               struct error *err);

#endif
