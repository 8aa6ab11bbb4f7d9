/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One turn: ask the model, run the code that it writes, give it what came out,
 * until it stops. A turn goes from a question to its answer; each reply in it
 * is a round, and asking for one is a request, or several where it breaks off;
 * what the model wants to have run is a call. Emits events and knows no
 * consumer. The conversation stays valid whatever happens: every tool call is
 * answered, nothing is sent twice, nothing that was sent is changed.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/event.h"
#include "model/usage.h"

struct agent;
struct claude;
struct error;
struct loop;
struct price;
struct sandbox;
struct sandbox_caps;
struct sink_chain;

/* As image_scale of the pictures' module calls back; png is borrowed. */
typedef void (*agent_shrunk_fn)(void *ctx, const unsigned char *png, size_t len,
                                int width_px, int height_px,
                                const struct error *err);

struct agent_config {
    struct loop *loop;        /* borrowed */
    struct claude *claude;    /* borrowed; NULL: no key, no question */
    struct sandbox *sandbox;  /* borrowed; when another back end is in its
                                 place, the next question tells the model what
                                 that is */
    struct sink_chain *chain; /* borrowed */
    int max_rounds;           /* of a turn */
    int64_t cell_ms;          /* longest run of a cell */
    int64_t turn_ms;          /* longest turn; 0: no limit */
    size_t result_bytes;      /* what the model gets of a cell; 0: 12,000 */
    size_t result_rows;       /* and of a table; 0: 20 */

    /* Money. Without a price nothing is known and no budget can be kept. */
    const struct price *price; /* borrowed; of the model; NULL: not known */
    int64_t max_tokens;        /* longest reply, as the client has it; one
                                  that is cut in a call or in thinking is asked
                                  for once more with a larger limit */
    size_t prompt_bytes;       /* of system prompt and tools together */
    int64_t budget_nanousd;    /* of the session; 0: none */
    int64_t turn_nanousd;      /* of one turn; 0: none */

    /*
     * Makes a chart small enough for the model: shrink begins, copies png, and
     * calls done once, from the loop; NULL with err when it cannot begin.
     * shrink_cancel ends it without done. shrink NULL: charts are not sent, the
     * model gets a line of text on each.
     */
    void *(*shrink)(void *ctx, const unsigned char *png, size_t len,
                    agent_shrunk_fn done, void *done_ctx, struct error *err);
    void (*shrink_cancel)(void *ctx, void *handle);
    void *shrink_ctx;

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

/*
 * After a turn without an answer: asks its question again, or goes on where it
 * stopped when a part of it is done. Errors: ERR_USAGE (there is nothing to
 * try again), else as agent_ask.
 */
WARN_UNUSED int agent_retry(struct agent *a, struct error *err);

/* Ends the turn as soon as the conversation is valid; on_done follows. */
void agent_cancel(struct agent *a);
bool agent_is_busy(const struct agent *a);

/* Text that goes before the next question, such as what a loaded file holds. */
void agent_tell(struct agent *a, const char *text);

/* What one turn, or the whole session, has used. */
struct agent_spent {
    struct usage usage;
    int n_replies;   /* broken off ones included */
    int64_t nanousd; /* 0 where no price is known */
    bool at_least;   /* a reply broke off: it may have cost more */
};

size_t agent_n_turns(const struct agent *a);

/* Borrowed until the next turn begins. */
const struct agent_spent *agent_turn_spent(const struct agent *a, size_t i);
const struct agent_spent *agent_session_spent(const struct agent *a);

/* The price of the model, or NULL. */
const struct price *agent_price(const struct agent *a);

/* The budget of the session in nano-dollars; 0: none. Errors: ERR_UNSUPPORTED
   when no price is known. */
int64_t agent_budget(const struct agent *a);
WARN_UNUSED int agent_set_budget(struct agent *a, int64_t nanousd,
                                 struct error *err);

/* The built-in system prompt, for the client. It is written for the local
   sandbox, and stays the same for a session. Borrowed. */
const char *agent_system_prompt(void);

/* The tool definitions of a session that begins with such a sandbox, for the
   client: they stay the same though it is switched. Owned by the caller. */
char *agent_tools(const struct sandbox_caps *caps);

/* What follows the system prompt where there is no /workspace. Static. */
const char *agent_reduced_note(void);

/* What follows the system prompt of a session that begins with such a sandbox;
   NULL: nothing. Owned by the caller. */
char *agent_sandbox_note(const struct sandbox_caps *caps);

/*
 * Reads a person's own system prompt; *prompt (owned by the caller) is NULL
 * when there is no such file. Errors: ERR_CONFIG, naming path: unreadable, no
 * UTF-8, empty, more than 64 KiB.
 */
WARN_UNUSED int agent_read_prompt(const char *path, char **prompt,
                                  struct error *err);

#endif
