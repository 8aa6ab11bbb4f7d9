/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Another sandbox in the place of this one, for ":sandbox NAME".
 */
#ifndef UI_CMD_SWITCH_INTERNAL_H
#define UI_CMD_SWITCH_INTERNAL_H

#include "ui/command.h"

struct app;
struct error;

/* As a command's run. The sandbox of that name takes the place of this one; the
   one that is there already is left alone, which is said. */
enum command_result cmd_switch_to(struct app *app, const char *name,
                                  struct error *err);

#endif
