/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The Claude Messages API: sends the conversation, streams one reply, assembles
 * it, and retries what may be retried. It knows no tool but by name and never
 * runs anything.
 */
#ifndef CLAUDE_CLAUDE_H
#define CLAUDE_CLAUDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/usage.h"

struct claude;
struct claude_call;
struct claude_history;
struct error;
struct loop;
struct transport;

/* What the server at the other end knows of the Messages API. */
enum claude_dialect {
    CLAUDE_DIALECT_AUTO, /* found out; see claude_send */
    CLAUDE_DIALECT_ANTHROPIC,
    CLAUDE_DIALECT_COMPATIBLE /* neither thinking nor effort nor cache
                                 breakpoints are sent; gaps in replies are
                                 tolerated */
};

struct claude_config {
    const char *model;
    int64_t max_tokens;
    const char *effort; /* NULL: the model's default is used */
    const char *system; /* the system prompt; must not change in a session */
    const char *tools;  /* JSON array of tool definitions */
    enum claude_dialect dialect;
    int max_attempts; /* 0: 5 */
    int64_t quiet_ms; /* longest time with nothing but pings; 0: 600,000 */
};

enum claude_stop {
    CLAUDE_STOP_END_TURN,
    CLAUDE_STOP_TOOL_USE,
    CLAUDE_STOP_MAX_TOKENS,
    CLAUDE_STOP_SEQUENCE,
    CLAUDE_STOP_PAUSE,
    CLAUDE_STOP_REFUSAL,
    CLAUDE_STOP_CONTEXT,
    CLAUDE_STOP_UNKNOWN
};

struct claude_tool_call {
    char *id;        /* owned by the reply */
    char *name;      /* owned */
    char *input;     /* owned; raw JSON object text, or NULL when invalid */
    char *raw_input; /* owned; what arrived, for an invalid one */
};

struct claude_reply {
    /* owned; raw JSON array as it may be appended to the history: without
       blank texts, without tool calls unless stop is CLAUDE_STOP_TOOL_USE,
       without thinking at its end; empty after a refusal */
    char *content;
    enum claude_stop stop;
    char *stop_reason; /* owned; as it was sent; may be NULL */
    char *explanation; /* owned; of a refusal; may be NULL */
    char *text;        /* owned; the text blocks that arrived, joined by an
                          empty line */
    struct usage usage;
    struct claude_tool_call *calls; /* owned */
    size_t n_calls;
    char *request_id; /* owned; may be NULL */
    char *model;      /* owned; as the service names it; may be NULL */
};

/* All arguments are borrowed for the call; members may be NULL, but for
   on_done. Any may cancel the call or free the client. */
struct claude_handlers {
    void (*on_thinking)(void *ctx, const char *text, size_t len, bool end);
    void (*on_text)(void *ctx, const char *text, size_t len, bool end);

    /* A tool call begins (name, "" and 0), and its raw input grows. */
    void (*on_tool)(void *ctx, const char *name, const char *input_so_far,
                    size_t len);

    /* What is shown so far of this reply is void: it is asked for again. */
    void (*on_discard)(void *ctx);

    /* A reply that had begun to come, shown or not, is lost: it may have to be
       paid all the same. Behind on_discard and before on_retry. */
    void (*on_lost)(void *ctx);

    /* Waits wait_ms before attempt (2, 3, ...) because of err. */
    void (*on_retry)(void *ctx, int attempt, int64_t wait_ms,
                     const struct error *err);

    /* Something that the user should know has changed for good; the reply that
       it concerns follows. */
    void (*on_notice)(void *ctx, const char *text);

    /*
     * Exactly once, from the loop. err is NULL for a complete reply. Else:
     * ERR_AUTH, ERR_RATE_LIMIT, ERR_OVERLOADED, ERR_NET, ERR_TIMEOUT,
     * ERR_REMOTE (the service refused; http_status), ERR_PROTOCOL,
     * ERR_TOO_LARGE, ERR_CANCELLED. With an error, reply holds what arrived
     * (text and usage; no calls) or is NULL; its content has text blocks only
     * and is fit for the history, should the caller keep it.
     */
    void (*on_done)(void *ctx, const struct claude_reply *reply,
                    const struct error *err);
};

/* transport and loop are borrowed; config is copied. Errors: ERR_USAGE. */
WARN_UNUSED struct claude *claude_new(struct loop *loop,
                                      const struct transport *transport,
                                      const struct claude_config *config,
                                      struct error *err);

/* A call in progress ends without on_done. NULL is allowed. */
void claude_free(struct claude *c);

/*
 * Sends the history, which must end with a user message, or with a reply that
 * the model paused; it is borrowed until on_done. One call at a time.
 *
 * A request that is refused for its form is sent once more, in another form,
 * when there is one: on another host than the vendor's, while it has not
 * answered any, without what only the vendor knows; else, once in a session,
 * without the thinking of earlier replies. If that is answered, on_notice tells
 * so, the client keeps to it, and thinking is gone from the history; if not,
 * the first refusal is reported and nothing has changed.
 *
 * Errors: ERR_INTERNAL, ERR_AUTH, ERR_USAGE, ERR_NET, ERR_PROTOCOL (a replay
 * that does not fit), ERR_TOO_LARGE.
 */
WARN_UNUSED struct claude_call *claude_send(struct claude *c,
                                            struct claude_history *h,
                                            const struct claude_handlers *on,
                                            void *ctx, struct error *err);

/* on_done follows from the loop with ERR_CANCELLED; nothing else before. */
void claude_cancel(struct claude_call *call);

/* The model that is asked, as configured. Borrowed. */
const char *claude_model(const struct claude *c);

/* The longest reply to the requests that follow, in tokens; 0: as configured.
 */
void claude_set_max_tokens(struct claude *c, int64_t max_tokens);

/* True when the words of the model were written in advance. */
bool claude_is_replay(const struct claude *c);

#endif
