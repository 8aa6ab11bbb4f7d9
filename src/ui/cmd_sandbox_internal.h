/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the parts of :sandbox share.
 */
#ifndef UI_CMD_SANDBOX_INTERNAL_H
#define UI_CMD_SANDBOX_INTERNAL_H

#include <stddef.h>

struct app;
struct config_sandbox;
struct sandbox_info;
struct sbuf;

/* Adds a line of two columns; text may quote what came from outside. */
void cmd_sandbox_add_line(struct sbuf *sb, size_t columns, const char *label,
                          const char *text);

/* Adds "local sandbox, no network", or, of a service, its name, its kind, its
   host and what cells can reach: as the greeting says it. */
void cmd_sandbox_add_greeting(const struct app *app, struct sbuf *sb);

/* Adds the lines of a service that are known: before the line of the state,
   and behind those of the interpreter. */
void cmd_sandbox_add_service(const struct app *app, struct sbuf *sb,
                             size_t columns, const struct sandbox_info *info);
void cmd_sandbox_add_life(const struct app *app, struct sbuf *sb,
                          size_t columns, const struct sandbox_info *info);

/* ":sandbox list". */
void cmd_sandbox_list(struct app *app);

#endif
