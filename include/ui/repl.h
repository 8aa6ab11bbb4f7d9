/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The interactive run: a prompt, one line after the other, until the person
 * leaves or the terminal goes away.
 */
#ifndef UI_REPL_H
#define UI_REPL_H

#include <stdbool.h>

#include "base/cleanup.h"

struct app;
struct app_config;
struct error;
struct repl;

/* app is borrowed. history_path: NULL for none; copied. The terminal's modes
   are set from here on. Errors: ERR_IO. */
WARN_UNUSED struct repl *repl_new(struct app *app,
                                  const struct app_config *config,
                                  const char *history_path, struct error *err);
void repl_free(struct repl *r);

/* Greets, loads the files of the command line, prompts. The loop runs until
   the run has ended. */
void repl_start(struct repl *r);

/* Whether Ctrl-C was typed behind what leaves: nobody wants to wait. */
bool repl_is_hurried(const struct repl *r);

int repl_exit_status(const struct repl *r);

#endif
