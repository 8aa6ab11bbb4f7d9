/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Finding a cell by what the person typed.
 */
#ifndef UI_CMD_CELL_INTERNAL_H
#define UI_CMD_CELL_INTERNAL_H

struct app;
struct error;
struct recorder_cell;

/*
 * The cell of "N", or of "N.M" when output is not NULL, which becomes M - 1 or
 * -1. NULL with ERR_USAGE naming the word and the range.
 */
const struct recorder_cell *cmd_cell_find(const struct app *app,
                                          const char *word, int *output,
                                          struct error *err);

#endif
