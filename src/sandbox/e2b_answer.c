/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_call_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/retry.h"

#define LOG_MODULE "e2b"

#define MAX_CURSOR_BYTES ((size_t)4096)
#define MAX_SANDBOXES ((size_t)2000)

enum { MAX_PAGES = 100 };

/* --- successes --- */

/* An answer that is a success and cannot be used. */
static void
fail_odd(struct e2b_call *call, struct error *err)
{
    err_wrap(err, "%s: %s", call->api->settings.host, e2b_op_name(call->op));
    e2b_call_fail(call, E2B_FAULT_OTHER, err);
}

/* A path that has given what was asked for is there. */
static void
remember_generation(struct e2b_call *call)
{
    if (call->op == E2B_CREATE || call->op == E2B_CONNECT) {
        call->api->generation = call->generation;
    }
}

/* One that is made and cannot be used would be paid for until its end. */
static void
undo(struct e2b_call *call, const char *id, const struct error *err)
{
    call->err = *err;
    call->fault = E2B_FAULT_OTHER;
    call->maybe_made = true;
    memcpy(call->id, id, strlen(id) + 1);
    e2b_call_begin_step(call, E2B_STEP_UNDO);
    e2b_call_send(call);
}

static void
take_sandbox(struct e2b_call *call, const struct e2b_reply *r)
{
    struct e2b_sandbox one = {0};
    struct error err = {0};
    bool wanted = e2b_read_sandbox(r, &one, &err) == 0;

    if (wanted && call->op != E2B_CREATE && !str_eq(one.id, call->id)) {
        wanted = false;
        error_fill(&err, ERR_PROTOCOL, "the answer is about another sandbox");
    }
    if (!wanted) {
        bool made = call->op == E2B_CREATE && one.id[0] != '\0';

        call->maybe_made = call->op == E2B_CREATE;
        if (made) {
            char id[sizeof(one.id)];

            memcpy(id, one.id, sizeof(id));
            e2b_sandbox_fini(&one);
            err_wrap(&err, "%s: %s", call->api->settings.host,
                     e2b_op_name(call->op));
            undo(call, id, &err);
            return;
        }
        e2b_sandbox_fini(&one);
        fail_odd(call, &err);
        return;
    }
    if (call->op != E2B_INFO && one.state == E2B_STATE_UNKNOWN) {
        one.state = E2B_STATE_RUNNING;
    }
    call->sandboxes = xmalloc(sizeof(*call->sandboxes));
    call->sandboxes[0] = one;
    call->n_sandboxes = 1;
    call->changed = call->op == E2B_CONNECT && r->status == 201;
    remember_generation(call);
    e2b_call_end(call);
}

static bool
is_cursor(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return len <= MAX_CURSOR_BYTES;
}

static void
take_page(struct e2b_call *call, const struct e2b_reply *r,
          const struct e2b_headers *h)
{
    struct error err = {0};

    if (e2b_read_page(r, call->labels, call->n_labels, MAX_SANDBOXES,
                      &call->sandboxes, &call->n_sandboxes, &err) < 0) {
        fail_odd(call, &err);
        return;
    }
    call->n_pages++;
    if (str_blank(h->cursor)) {
        e2b_call_end(call);
        return;
    }
    if (!is_cursor(h->cursor) || str_eq(h->cursor, call->cursor) ||
        call->n_pages == MAX_PAGES) {
        error_fill(&err, ERR_PROTOCOL,
                   "the list does not come to an end after %zu pages",
                   call->n_pages);
        fail_odd(call, &err);
        return;
    }
    free(call->cursor);
    call->cursor = xstrdup(h->cursor);
    e2b_call_begin_step(call, E2B_STEP_MAIN);
    e2b_call_send(call);
}

static void
take_success(struct e2b_call *call, const struct e2b_reply *r,
             const struct e2b_headers *h)
{
    switch (call->op) {
    case E2B_CREATE:
    case E2B_CONNECT:
    case E2B_INFO:
        take_sandbox(call, r);
        return;
    case E2B_LIST:
        take_page(call, r, h);
        return;
    case E2B_PAUSE:
    case E2B_KILL:
        call->changed = true;
        break;
    case E2B_TIMEOUT:
    case E2B_NETWORK:
        break;
    }
    e2b_call_end(call);
}

/* --- all others --- */

/* A create of which nobody knows what came of it. 503 says that nothing did,
   and so does what is the caller's fault. */
static bool
is_unsure(const struct e2b_call *call, int status)
{
    if (call->op != E2B_CREATE || call->step != E2B_STEP_MAIN) {
        return false;
    }
    return status == 0 ? call->all_sent : status >= 500 && status != 503;
}

static bool
fall_back(struct e2b_call *call, const struct e2b_reply *r)
{
    if (!call->may_fall_back || (r->status != 404 && r->status != 405)) {
        return false;
    }
    LOG_INFO("%s: the paths of the second generation are not there (%d)",
             e2b_op_name(call->op), r->status);
    call->may_fall_back = false;
    call->generation = E2B_GENERATION_V1;
    call->attempt = 0;
    e2b_call_send(call);
    return true;
}

/* Whether the refusal may mean two things: a sandbox that is gone or a service
   without the operation; one that is paused or about to be. */
static bool
must_look(const struct e2b_call *call, int status)
{
    return (call->op == E2B_PAUSE && (status == 409 || status == 404)) ||
           ((call->op == E2B_TIMEOUT || call->op == E2B_NETWORK) &&
            status == 404);
}

static void
handle_main(struct e2b_call *call, const struct e2b_reply *r,
            const struct e2b_headers *h)
{
    struct e2b_words w = {0};
    struct error err = {0};
    enum e2b_fault fault;
    int64_t after_ms;

    if (r->status >= 200 && r->status < 300) {
        take_success(call, r, h);
        return;
    }
    if (call->op == E2B_KILL && r->status == 404) {
        e2b_call_end(call);
        return;
    }
    call->maybe_made = call->maybe_made || is_unsure(call, r->status);
    e2b_words_read(&w, r);
    fault = e2b_call_describe(call, r, &w, &err);
    after_ms = retry_after_ms(NULL, h->retry_after, clock_wall_ms());
    err.retry_after_ms = after_ms > 0 ? after_ms : 0;
    if (str_eq(w.error_code, "idempotency_outcome_unknown")) {
        call->maybe_made = call->op == E2B_CREATE;
    }
    if (call->may_fall_back && fall_back(call, r)) {
        /* If the first generation's path is not there at all, this is what the
           service had to say. */
        call->first_err = err;
        call->first_fault = fault;
    } else if (must_look(call, r->status)) {
        call->err = err;
        call->fault = fault;
        e2b_call_begin_step(call, E2B_STEP_LOOK);
        e2b_call_send(call);
    } else if (fault == E2B_FAULT_CHANGING &&
               e2b_call_wait_for_change(call, h)) {
        /* goes on later */
    } else if (e2b_call_try_again(call, r, &w, fault, &err, h)) {
        /* the same */
    } else if (r->status == 405 && call->first_err.http_status == 404) {
        e2b_call_fail(call, call->first_fault, &call->first_err);
    } else {
        e2b_call_fail(call, fault, &err);
    }
    e2b_words_fini(&w);
}

/* call->err is what was said before. */
static void
handle_look(struct e2b_call *call, const struct e2b_reply *r,
            const struct e2b_headers *h)
{
    struct e2b_sandbox one = {0};
    struct e2b_words w = {0};
    struct error err = {0};
    enum e2b_fault fault;
    int said = call->err.http_status;

    if (r->status >= 200 && r->status < 300) {
        int rc = e2b_read_sandbox(r, &one, &err);
        enum e2b_state state = one.state;

        e2b_sandbox_fini(&one);
        if (rc < 0) {
            fail_odd(call, &err);
        } else if (said == 404 && call->op == E2B_TIMEOUT &&
                   state == E2B_STATE_PAUSED) {
            error_fill(&err, ERR_SANDBOX, "%s: %s: it is paused (404)",
                       call->api->settings.host, e2b_op_name(call->op));
            err.http_status = 404;
            e2b_call_fail(call, E2B_FAULT_PAUSED, &err);
        } else if (said == 404) {
            error_fill(&call->err, ERR_UNSUPPORTED,
                       "%s: %s: the service does not offer this (404)",
                       call->api->settings.host, e2b_op_name(call->op));
            call->err.http_status = 404;
            call->fault = E2B_FAULT_OTHER;
            e2b_call_end(call);
        } else if (state == E2B_STATE_PAUSED) {
            call->err = (struct error){0};
            e2b_call_end(call);
        } else {
            e2b_call_begin_step(call, E2B_STEP_MAIN);
            if (e2b_call_wait_for_change(call, h)) {
                call->err = (struct error){0};
            } else {
                e2b_call_end(call);
            }
        }
        return;
    }
    e2b_words_read(&w, r);
    fault = e2b_call_describe(call, r, &w, &err);
    if (!e2b_call_try_again(call, r, &w, fault, &err, h)) {
        e2b_call_fail(call, fault, &err);
    }
    e2b_words_fini(&w);
}

/* call->err is why. */
static void
handle_undo(struct e2b_call *call, const struct e2b_reply *r,
            const struct e2b_headers *h)
{
    struct e2b_words w = {0};
    struct error err = {0};
    enum e2b_fault fault;

    if ((r->status >= 200 && r->status < 300) || r->status == 404) {
        call->maybe_made = false;
        error_append(&call->err, "; it was ended again");
        e2b_call_end(call);
        return;
    }
    e2b_words_read(&w, r);
    fault = e2b_call_describe(call, r, &w, &err);
    if (!e2b_call_try_again(call, r, &w, fault, &err, h)) {
        error_append(&call->err, "; it could not be ended");
        e2b_call_end(call);
    }
    e2b_words_fini(&w);
}

void
e2b_call_handle(struct e2b_call *call, const struct error *failure,
                const struct e2b_headers *h)
{
    const struct e2b_reply r = {
        .status = failure == NULL ? call->status : 0,
        .failure = failure,
        .content_type = h->content_type,
        .body = call->reply.data,
        .body_len = call->reply.len,
        .too_large = call->too_large,
    };

    LOG_DBG("%s: attempt %d: status %d, %zu bytes", e2b_op_name(call->op),
            call->attempt, r.status, r.body_len);
    switch (call->step) {
    case E2B_STEP_MAIN:
        handle_main(call, &r, h);
        return;
    case E2B_STEP_LOOK:
        handle_look(call, &r, h);
        return;
    case E2B_STEP_UNDO:
        handle_undo(call, &r, h);
        return;
    }
}
