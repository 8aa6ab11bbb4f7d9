/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The handlers of a cell of which nothing is wanted but its end.
 */
#ifndef SANDBOX_QUIET_CELL_INTERNAL_H
#define SANDBOX_QUIET_CELL_INTERNAL_H

#include "sandbox/sandbox.h"

/* All but on_done. */
extern const struct sandbox_cell_handlers quiet_cell;

#endif
