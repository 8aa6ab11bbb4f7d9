/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The descriptors of all commands.
 */
#ifndef UI_COMMANDS_INTERNAL_H
#define UI_COMMANDS_INTERNAL_H

#include <stddef.h>

#include "ui/command.h"

extern const struct command cmd_load;
extern const struct command cmd_files;
extern const struct command cmd_code;
extern const struct command cmd_full;
extern const struct command cmd_save;
extern const struct command cmd_trace;
extern const struct command cmd_vars;
extern const struct command cmd_snapshot;
extern const struct command cmd_restore;
extern const struct command cmd_restart;
extern const struct command cmd_replay;
extern const struct command cmd_sandbox;
extern const struct command cmd_thinking;
extern const struct command cmd_cost;
extern const struct command cmd_budget;
extern const struct command cmd_retry;
extern const struct command cmd_doctor;
extern const struct command cmd_help;
extern const struct command cmd_quit;

/* Most ids at a time. */
#define COMMAND_MAX_KILLED 100

/* ":sandbox kill WORDS": ends what earlier runs have left, all of it or those
   with these ids; words are those behind "kill". As a command's run and
   cancel; the latter does nothing when it does not run. */
enum command_result command_sandbox_kill(struct app *app, char *const *words,
                                         size_t n_words, struct error *err);
void command_sandbox_kill_cancel(struct app *app);

#endif
