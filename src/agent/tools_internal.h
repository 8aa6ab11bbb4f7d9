/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tools that the model has, and reading the calls of them.
 */
#ifndef AGENT_TOOLS_INTERNAL_H
#define AGENT_TOOLS_INTERNAL_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/sbuf.h"

struct claude_tool_call;
struct sandbox_caps;

/*
 * The code of a call, owned by the caller, as *language is: one that the
 * sandbox runs, or NULL, Python. NULL when it must not run; why then holds what
 * the model is told.
 */
WARN_UNUSED char *tools_read_code(const struct claude_tool_call *call,
                                  const struct sandbox_caps *caps,
                                  char **language, struct sbuf *why);

/* Whether there are others than Python; and all of them: "python, r". */
bool tools_has_more(const char *const *languages);
void tools_add_languages(struct sbuf *sb, const char *const *languages);

#endif
