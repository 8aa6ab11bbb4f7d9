/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What sandbox_driver writes: a JSON object a line. A line is begun, gets
 * members, and is finished, which writes it to standard output.
 */
#ifndef HELPERS_SANDBOX_LINES_H
#define HELPERS_SANDBOX_LINES_H

#include <stdint.h>

#include "sandbox/sandbox.h"

struct error;
struct output;
struct sbuf;

/* start_us: when the driver began, by clock_now_us. */
void sandbox_lines_begin(struct sbuf *sb, int64_t start_us, const char *event);
void sandbox_lines_finish(struct sbuf *sb);

const char *sandbox_lines_end_name(enum sandbox_end end);

/* Members. Without an error, or an outcome, there are none. */
void sandbox_lines_add_err(struct sbuf *sb, const struct error *err);
void sandbox_lines_add_outcome(struct sbuf *sb,
                               const struct sandbox_outcome *outcome);
void sandbox_lines_add_output(struct sbuf *sb, const struct output *out);
void sandbox_lines_add_list(struct sbuf *sb, const struct sandbox_list *list);
void sandbox_lines_add_vars(struct sbuf *sb, const struct sandbox_vars *vars);
void sandbox_lines_add_saved(struct sbuf *sb,
                             const struct sandbox_saved *saved);
void sandbox_lines_add_info(struct sbuf *sb, const struct sandbox_info *info);

#endif
