/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One turn: ask the model, run the code that it writes, give it what came out,
 * until it stops. Emits events and knows no consumer. The conversation stays
 * valid whatever happens: every tool call is answered, nothing is sent twice,
 * nothing that was sent is changed.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/event.h"

struct agent;
struct claude;
struct error;
struct loop;
struct sandbox;
struct sink_chain;

struct agent_config {
    struct loop *loop;        /* borrowed */
    struct claude *claude;    /* borrowed; NULL: no key, no question */
    struct sandbox *sandbox;  /* borrowed */
    struct sink_chain *chain; /* borrowed */
    int max_rounds;           /* replies to one question */
    int64_t cell_ms;          /* longest run of a cell */

    /* Told once a turn is over, after its EVENT_DONE; err only when it has no
       answer. A new question may be asked within the call. */
    void (*on_done)(void *ctx, enum event_outcome outcome,
                    const struct error *err);
    void *ctx;
};

struct agent *agent_new(const struct agent_config *config);
void agent_free(struct agent *a);

/*
 * Begins a turn. Errors: ERR_AUTH (no key), ERR_USAGE (blank), ERR_INTERNAL (a
 * turn is running).
 */
WARN_UNUSED int agent_ask(struct agent *a, const char *question,
                          struct error *err);

/* Ends the turn as soon as the conversation is valid; on_done follows. */
void agent_cancel(struct agent *a);
bool agent_is_busy(const struct agent *a);

/* Text that goes before the next question, such as what a loaded file holds. */
void agent_tell(struct agent *a, const char *text);

/* The system prompt (fixed for the session) and the tool definitions, for the
   client. Borrowed. */
const char *agent_system_prompt(void);
const char *agent_tools(void);

#endif
