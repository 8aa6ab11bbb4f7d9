/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What e2b_api.c (the object and how calls begin), e2b_call.c (tries and
 * waiting) and e2b_answer.c (what follows from an answer) share.
 */
#ifndef SANDBOX_E2B_CALL_INTERNAL_H
#define SANDBOX_E2B_CALL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_wire_internal.h"

struct http_call;
struct loop_task;
struct loop_timer;

struct e2b_api {
    struct loop *loop; /* borrowed */
    struct http *http; /* borrowed */
    struct e2b_settings settings;
    const struct secret *key;                /* borrowed */
    const struct http_extra_header *headers; /* borrowed */
    size_t n_headers;
    enum e2b_generation generation; /* AUTO: not known yet */
    int64_t create_ms;
    int64_t other_ms;
    struct e2b_call *calls; /* owned */
};

/* What a call does at the moment. */
enum e2b_step {
    E2B_STEP_MAIN, /* what it was made for */
    E2B_STEP_LOOK, /* asks how the sandbox is, after a refusal that may mean two
                  things */
    E2B_STEP_UNDO  /* ends a sandbox whose description cannot be believed */
};

struct e2b_call {
    struct e2b_api *api; /* borrowed */
    struct e2b_call *prev;
    struct e2b_call *next;
    enum e2b_op op;
    e2b_done_fn fn;
    void *ctx;

    char id[E2B_MAX_ID_BYTES + 1];
    char *body;              /* owned; NULL: that of a new sandbox, or none */
    struct e2b_pair *labels; /* owned, the texts too */
    size_t n_labels;
    enum e2b_generation generation; /* of the paths that are used */
    bool may_fall_back;
    char uuid[E2B_UUID_BYTES]; /* the same for all tries */

    enum e2b_step step;
    int attempt;     /* of this request; 1: the first */
    bool was_broken; /* 500 is tried again once */
    int n_changing;
    int64_t end_ms; /* of the step; monotonic clock */
    struct loop_timer *deadline;
    struct loop_timer *wait; /* before the next try */
    struct loop_task *task;  /* the end, from the loop */
    struct http_call *http;  /* in progress */
    int status;
    bool too_large;
    bool all_sent;
    struct sbuf reply;

    size_t n_pages;
    char *cursor; /* owned; of the next page; NULL: the first */

    struct e2b_sandbox *sandboxes; /* owned */
    size_t n_sandboxes;
    struct error err; /* of the end, or what a look or an undo is for */
    enum e2b_fault fault;
    struct error first_err; /* of the second generation's paths */
    enum e2b_fault first_fault;
    bool changed;
    bool maybe_made;
};

/* What the answer's headers say, copied since they last no longer than it. */
struct e2b_headers {
    char *should_retry;
    char *retry_after;
    char *content_type;
    char *cursor;
};

/* The end, from the loop alone: calls back and frees the call. */
void e2b_call_end(struct e2b_call *call);
void e2b_call_fail(struct e2b_call *call, enum e2b_fault fault,
                   const struct error *err);

/* Each step has its own time for all tries. */
void e2b_call_begin_step(struct e2b_call *call, enum e2b_step step);

/* Sends what the step asks for. Errors: ERR_CONFIG (a header that cannot be
   sent), ERR_USAGE, ERR_NET. */
WARN_UNUSED int e2b_call_start(struct e2b_call *call, struct error *err);

/* The same for all but the first; a failure ends the call from the loop. */
void e2b_call_send(struct e2b_call *call);

/* What an answer means, for a person and the caller. w may be NULL when there
   is no answer. */
enum e2b_fault e2b_call_describe(const struct e2b_call *call,
                                 const struct e2b_reply *r,
                                 const struct e2b_words *w, struct error *err);

/* Whether the request will be sent once more, after a pause. */
bool e2b_call_try_again(struct e2b_call *call, const struct e2b_reply *r,
                        const struct e2b_words *w, enum e2b_fault fault,
                        const struct error *err, const struct e2b_headers *h);

/* The same for a sandbox between two states. */
bool e2b_call_wait_for_change(struct e2b_call *call,
                              const struct e2b_headers *h);

/* What follows from an answer; failure: why there is none. */
void e2b_call_handle(struct e2b_call *call, const struct error *failure,
                     const struct e2b_headers *h);

/* Parts of ending one. */
void e2b_call_stop_timers(struct e2b_call *call);
void e2b_call_drop_request(struct e2b_call *call);
void e2b_call_unlink(struct e2b_call *call);
void e2b_call_free(struct e2b_call *call);

#endif
