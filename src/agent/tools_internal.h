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

/*
 * The code of a call, owned by the caller. NULL when it must not run; why then
 * holds what the model is told.
 */
WARN_UNUSED char *tools_read_code(const struct claude_tool_call *call,
                                  struct sbuf *why);

#endif
