/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The system prompt, as bytes of share/prompts/system.md: UTF-8, with a zero
 * behind them that is not counted. It is frozen for a session, and embedded so
 * that the program works before it is installed. The definitions are generated
 * by build-aux/embed.sh.
 */
#ifndef AGENT_PROMPT_INTERNAL_H
#define AGENT_PROMPT_INTERNAL_H

#include <stddef.h>

extern const unsigned char prompt_system_md[];
extern const size_t prompt_system_md_len;

struct sandbox_caps;

/* What a sandbox is to the model: where it runs, what it reaches, in which
   languages. The same text for what is the same. Owned by the caller. */
char *prompt_sandbox_facts(const struct sandbox_caps *caps);

#endif
