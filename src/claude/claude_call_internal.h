/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The client and a call in progress, shared by claude.c (the transfer, its
 * attempts and its end) and claude_plan.c (in which form the conversation is
 * sent).
 */
#ifndef CLAUDE_CALL_INTERNAL_H
#define CLAUDE_CALL_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "claude/claude.h"
#include "claude/claude_codec_internal.h"

struct claude {
    struct loop *loop;                 /* borrowed */
    const struct transport *transport; /* borrowed */
    char *model;                       /* owned */
    enum claude_dialect dialect;
    struct sbuf head;            /* all that the service knows */
    struct sbuf compatible_head; /* what servers of other vendors know */
    int64_t max_tokens;          /* as configured */
    int64_t next_max_tokens;     /* of the next request */
    int max_attempts;
    int64_t quiet_ms;
    struct claude_call *call; /* owned; NULL: none in progress */

    bool sends_compatible;
    bool is_proven;    /* a full request has been answered with a reply */
    bool was_stripped; /* thinking may be taken out once in a session */
};

enum claude_call_state {
    CLAUDE_CALL_REQUEST, /* sent; no status yet */
    CLAUDE_CALL_STREAM,  /* a reply is coming */
    CLAUDE_CALL_REFUSAL, /* the body of another answer is coming */
    CLAUDE_CALL_CLOSING, /* what came is enough; the transport is to end */
    CLAUDE_CALL_WAIT,    /* before another attempt */
    CLAUDE_CALL_ENDED,
};

enum claude_plan {
    CLAUDE_PLAN_AS_IS,
    CLAUDE_PLAN_STRIPPED,   /* without the thinking of earlier replies */
    CLAUDE_PLAN_COMPATIBLE, /* without what other servers may not know */
};

struct claude_call {
    struct claude *c; /* NULL: freed during one of our callbacks */
    struct claude_handlers on;
    void *ctx;
    enum claude_call_state state;
    struct claude_history *history; /* borrowed: until on_done */
    struct sbuf body;
    int64_t max_tokens;
    int attempt; /* 1: the first in this form */

    enum claude_plan plan;
    struct claude_history *stripped; /* owned; CLAUDE_PLAN_STRIPPED */
    struct error first;              /* why the plan was changed */

    /* Of this attempt */
    struct transport_call *transfer; /* NULL: none */
    struct claude_stream *stream;    /* owned */
    struct sbuf refusal;
    int status;
    char *request_id;  /* owned */
    char *limits;      /* owned; what is used up; NULL: unknown */
    bool is_page;      /* the answer is HTML */
    bool is_vendor;    /* the answer comes from the vendor itself */
    int64_t wait_ms;   /* what the headers ask for; -1: nothing */
    int should_retry;  /* what the headers say: 1, 0; -1: nothing */
    bool shown;        /* something was given to the caller */
    uint64_t n_events; /* when quiet_timer was set */
    struct claude_failure
        failure; /* CLAUDE_CALL_CLOSING: why, if its code is set */

    struct loop_timer *quiet_timer;
    struct loop_timer *grace_timer;
    struct loop_timer *wait_timer;
    struct loop_task *cancel_task;
    bool cancelled;
    int busy; /* callbacks of ours that are on the stack */
};

/* Makes what is fixed of every request. Errors: ERR_USAGE. */
WARN_UNUSED int claude_plan_init(struct claude *c,
                                 const struct claude_config *config,
                                 struct error *err);
void claude_plan_fini(struct claude *c);

/* Makes the body of the call's plan. Errors: ERR_TOO_LARGE. */
WARN_UNUSED int claude_plan_make_body(struct claude_call *call,
                                      struct error *err);

/* Whether what servers of other vendors leave out of a reply is tolerated. */
bool claude_plan_is_tolerant(const struct claude_call *call);

/* Changes to another form of the request because of a refusal, and makes its
   body; false when there is none to try. */
bool claude_plan_change(struct claude_call *call,
                        const struct claude_failure *failure);

/* A reply has come: what was tried holds from now on. The text is for the
   user; NULL: there is nothing to say. */
const char *claude_plan_adopt(struct claude_call *call,
                              const struct claude_reply *reply);

/* No reply has come: the error to report, err or the one before the change. */
const struct error *claude_plan_give_up(struct claude_call *call,
                                        const struct error *err);

#endif
