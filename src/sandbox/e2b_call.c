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
#include "base/loop.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "net/retry.h"

#define LOG_MODULE "e2b"

#define MAX_URL_BYTES ((size_t)32768)

/* Between two states a sandbox is for seconds. */
enum { MAX_CHANGING = 3, CHANGING_MS = 500 };

/* One host gives no more than that at a time. */
enum { PAGE_LEN = 50 };

/* --- the end of a call --- */

void
e2b_call_stop_timers(struct e2b_call *call)
{
    loop_timer_remove(call->deadline);
    loop_timer_remove(call->wait);
    loop_task_remove(call->task);
    call->deadline = NULL;
    call->wait = NULL;
    call->task = NULL;
}

static void
clear_reply(struct e2b_call *call)
{
    /* There may be tokens in it. */
    secret_wipe(call->reply.data, call->reply.len);
    sbuf_clear(&call->reply);
    call->status = 0;
    call->too_large = false;
    call->all_sent = false;
}

void
e2b_call_drop_request(struct e2b_call *call)
{
    if (call->http != NULL) {
        http_drop(call->http);
        call->http = NULL;
    }
}

static void
clear_sandboxes(struct e2b_call *call)
{
    for (size_t i = 0; i < call->n_sandboxes; i++) {
        e2b_sandbox_fini(&call->sandboxes[i]);
    }
    free(call->sandboxes);
    call->sandboxes = NULL;
    call->n_sandboxes = 0;
}

void
e2b_call_unlink(struct e2b_call *call)
{
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        call->api->calls = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
}

void
e2b_call_free(struct e2b_call *call)
{
    e2b_call_stop_timers(call);
    e2b_call_drop_request(call);
    clear_reply(call);
    sbuf_fini(&call->reply);
    clear_sandboxes(call);
    for (size_t i = 0; i < call->n_labels; i++) {
        free_const(call->labels[i].name);
        free_const(call->labels[i].value);
    }
    free(call->labels);
    free(call->body);
    free(call->cursor);
    free(call);
}

/* From the loop only. */
void
e2b_call_end(struct e2b_call *call)
{
    bool failed = call->err.code != ERR_NONE;
    struct e2b_result result = {
        .err = failed ? &call->err : NULL,
        .fault = failed ? call->fault : E2B_FAULT_NONE,
        .changed = call->changed && !failed,
        .maybe_made = call->maybe_made && failed,
    };

    if (failed) {
        clear_sandboxes(call);
        LOG_INFO("%s", call->err.msg);
    }
    result.sandboxes = call->sandboxes;
    result.n_sandboxes = call->n_sandboxes;
    /* The callback may free the API. */
    e2b_call_unlink(call);
    e2b_call_stop_timers(call);
    e2b_call_drop_request(call);
    call->fn(call->ctx, &result);
    e2b_call_free(call);
}

void
e2b_call_fail(struct e2b_call *call, enum e2b_fault fault,
              const struct error *err)
{
    call->err = *err;
    call->fault = fault;
    e2b_call_end(call);
}

/* --- steps --- */

static int64_t
get_limit_ms(const struct e2b_call *call)
{
    bool long_one = call->op == E2B_CREATE || call->op == E2B_CONNECT;

    return call->step == E2B_STEP_MAIN && long_one ? call->api->create_ms
                                                   : call->api->other_ms;
}

/* Puts everything together that a person may want to know. */
enum e2b_fault
e2b_call_describe(const struct e2b_call *call, const struct e2b_reply *r,
                  const struct e2b_words *w, struct error *err)
{
    const struct e2b_refusal about = {
        .settings = &call->api->settings,
        .op = call->op,
        .subject = call->op == E2B_CREATE && call->step == E2B_STEP_MAIN
                       ? call->api->settings.template_name
                       : call->id,
        .has_headers = call->api->n_headers > 0,
        .limit_ms = get_limit_ms(call),
    };

    return e2b_describe(&about, r, w, err);
}

static void
on_deadline(void *ctx)
{
    struct e2b_call *call = ctx;
    const struct e2b_reply r = {0};
    struct error err = {0};

    call->deadline = NULL;
    if (call->step == E2B_STEP_UNDO) {
        error_append(&call->err, "; it could not be ended");
        e2b_call_end(call);
        return;
    }
    call->maybe_made =
        call->maybe_made || (call->op == E2B_CREATE && call->http != NULL);
    (void)e2b_call_describe(call, &r, NULL, &err);
    e2b_call_fail(call, E2B_FAULT_OTHER, &err);
}

/* Each step has its own time. */
void
e2b_call_begin_step(struct e2b_call *call, enum e2b_step step)
{
    int64_t limit_ms;

    call->step = step;
    call->attempt = 0;
    call->was_broken = false;
    limit_ms = get_limit_ms(call);
    call->end_ms = clock_now_ms() + limit_ms;
    loop_timer_remove(call->deadline);
    call->deadline =
        loop_add_timer(call->api->loop, limit_ms, on_deadline, call);
}

static void
on_wait(void *ctx)
{
    struct e2b_call *call = ctx;

    call->wait = NULL;
    e2b_call_send(call);
}

static void
wait_and_send(struct e2b_call *call, int64_t ms)
{
    LOG_DBG("%s: status %d, attempt %d; again in %lld ms",
            e2b_op_name(call->op), call->status, call->attempt, (long long)ms);
    call->wait = loop_add_timer(call->api->loop, ms, on_wait, call);
}

/* A create in the first generation may be done twice if it was not done: the
   key that makes it one is known to the second only. */
static bool
is_repeatable(const struct e2b_call *call, int status,
              const struct e2b_headers *h)
{
    if (call->op != E2B_CREATE || call->step != E2B_STEP_MAIN ||
        call->generation == E2B_GENERATION_V2) {
        return true;
    }
    return status == 429 || status == 503 || (status == 0 && !call->all_sent) ||
           str_eq_nocase(h->should_retry, "true");
}

bool
e2b_call_try_again(struct e2b_call *call, const struct e2b_reply *r,
                   const struct e2b_words *w, enum e2b_fault fault,
                   const struct error *err, const struct e2b_headers *h)
{
    struct retry_facts facts = {
        .repeatable = is_repeatable(call, r->status, h),
        .status = r->status,
        .should_retry = h->should_retry,
        .retry_after = h->retry_after,
        .attempt = call->attempt,
        .left_ms = call->end_ms - clock_now_ms(),
        .random = e2b_random(),
    };
    bool said = str_eq_nocase(h->should_retry, "true");
    int64_t ms;

    /* A certificate that is not accepted, a proxy that refuses. */
    if (r->status == 0 && !error_is_retryable(err->code)) {
        return false;
    }
    /* This does not pass by waiting. */
    if (!said && ((fault == E2B_FAULT_LIMIT && err->code == ERR_LIMIT) ||
                  str_eq(w->error_code, "sandbox_create_refused") ||
                  str_eq(w->error_code, "idempotency_outcome_unknown"))) {
        return false;
    }
    if (r->status == 500 && !said && !call->was_broken) {
        call->was_broken = true;
        facts.status = 503;
    }
    ms = retry_wait_ms(&facts);
    if (ms < 0) {
        return false;
    }
    wait_and_send(call, ms);
    return true;
}

/* Between two states: soon it is in one of them. */
bool
e2b_call_wait_for_change(struct e2b_call *call, const struct e2b_headers *h)
{
    int64_t ms = (int64_t)(CHANGING_MS * (1 + e2b_random()));
    int64_t asked_ms = retry_after_ms(NULL, h->retry_after, clock_wall_ms());

    if (str_eq_nocase(h->should_retry, "false") ||
        call->n_changing == MAX_CHANGING) {
        return false;
    }
    ms = asked_ms > ms ? asked_ms : ms;
    if (ms >= call->end_ms - clock_now_ms()) {
        return false;
    }
    call->n_changing++;
    wait_and_send(call, ms);
    return true;
}

static void
free_headers(struct e2b_headers *h)
{
    free(h->should_retry);
    free(h->retry_after);
    free(h->content_type);
    free(h->cursor);
}

/* --- one request --- */

static void
on_sent(void *ctx, int64_t sent, int64_t total)
{
    struct e2b_call *call = ctx;

    call->all_sent = sent == total;
}

static void
on_head(void *ctx, int status)
{
    struct e2b_call *call = ctx;

    call->status = status;
    call->all_sent = true;
}

static void
on_too_large(void *ctx)
{
    struct e2b_call *call = ctx;
    const struct e2b_headers none = {0};

    call->task = NULL;
    e2b_call_handle(call, NULL, &none);
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct e2b_call *call = ctx;

    sbuf_add(&call->reply, data, len);
    if (!sbuf_ok(&call->reply)) {
        call->too_large = true;
        e2b_call_drop_request(call);
        call->task = loop_defer(call->api->loop, on_too_large, call);
    }
}

static void
on_done(void *ctx, const struct error *err)
{
    struct e2b_call *call = ctx;
    struct e2b_headers h = {0};

    /* Those of an answer that broke off say nothing of what came of it. */
    if (err == NULL) {
        h.should_retry = xstrdup(http_header(call->http, "should-retry"));
        h.retry_after = xstrdup(http_header(call->http, "retry-after"));
        h.content_type = xstrdup(http_header(call->http, "content-type"));
        h.cursor = xstrdup(http_header(call->http, "x-next-token"));
    }
    call->http = NULL;
    e2b_call_handle(call, err, &h);
    free_headers(&h);
}

static const char *
get_method(const struct e2b_call *call)
{
    if (call->step == E2B_STEP_UNDO || call->op == E2B_KILL) {
        return "DELETE";
    }
    if (call->step == E2B_STEP_LOOK || call->op == E2B_INFO ||
        call->op == E2B_LIST) {
        return "GET";
    }
    return call->op == E2B_NETWORK ? "PUT" : "POST";
}

/* The labels are plain, so that however often a service takes escapes away,
   the same is left. */
static void
add_list_query(const struct e2b_call *call, struct sbuf *sb)
{
    sbuf_add_str(sb, "/v2/sandboxes?metadata=");
    for (size_t i = 0; i < call->n_labels; i++) {
        sbuf_addf(sb, "%s%s%%3D%s", i > 0 ? "%26" : "", call->labels[i].name,
                  call->labels[i].value);
    }
    sbuf_addf(sb, "&state=running%%2Cpaused&limit=%d", PAGE_LEN);
    if (call->cursor != NULL) {
        sbuf_add_str(sb, "&nextToken=");
        e2b_add_escaped(sb, call->cursor);
    }
}

static void
add_url(const struct e2b_call *call, struct sbuf *sb)
{
    const char *generation =
        call->generation == E2B_GENERATION_V2 ? "/v2/sandboxes" : "/sandboxes";

    sbuf_add_str(sb, call->api->settings.url);
    if (call->step != E2B_STEP_MAIN) {
        sbuf_addf(sb, "/sandboxes/%s", call->id);
        return;
    }
    switch (call->op) {
    case E2B_CREATE:
        sbuf_add_str(sb, generation);
        return;
    case E2B_CONNECT:
        sbuf_addf(sb, "%s/%s/connect", generation, call->id);
        return;
    case E2B_TIMEOUT:
        sbuf_addf(sb, "/sandboxes/%s/timeout", call->id);
        return;
    case E2B_PAUSE:
        sbuf_addf(sb, "/sandboxes/%s/pause", call->id);
        return;
    case E2B_NETWORK:
        sbuf_addf(sb, "/sandboxes/%s/network", call->id);
        return;
    case E2B_KILL:
    case E2B_INFO:
        sbuf_addf(sb, "/sandboxes/%s", call->id);
        return;
    case E2B_LIST:
        add_list_query(call, sb);
        return;
    }
}

/* NULL: none. */
static const char *
get_body(const struct e2b_call *call)
{
    if (call->step != E2B_STEP_MAIN) {
        return NULL;
    }
    if (call->op == E2B_CREATE) {
        return call->api->settings
            .body[call->generation == E2B_GENERATION_V2 ? 1 : 0];
    }
    return call->body;
}

/* Errors: ERR_CONFIG (a header that cannot be sent), ERR_NET. */
int
e2b_call_start(struct e2b_call *call, struct error *err)
{
    static const struct http_handlers handlers = {.on_sent = on_sent,
                                                  .on_head = on_head,
                                                  .on_body = on_body,
                                                  .on_done = on_done};
    AUTO_SBUF struct sbuf url = {0};
    const struct e2b_api *api = call->api;
    const char *body = get_body(call);
    /* One of the first generation made twice would be two. */
    bool is_create = call->op == E2B_CREATE && call->step == E2B_STEP_MAIN;
    struct http_header headers[3] = {{"Accept", "application/json"}};
    struct http_request request = {
        .method = get_method(call),
        .headers = headers,
        .n_headers = 1,
        .secret_header = secret_is_empty(api->key) ? NULL : "X-API-Key",
        .secret = api->key,
        .extra = api->headers,
        .n_extra = api->n_headers,
        .body = body,
        .body_len = body != NULL ? strlen(body) : 0,
        .own_connection = is_create && call->generation != E2B_GENERATION_V2,
    };

    if (body != NULL) {
        headers[request.n_headers++] =
            (struct http_header){"Content-Type", "application/json"};
    }
    if (is_create) {
        headers[request.n_headers++] =
            (struct http_header){"Idempotency-Key", call->uuid};
    }
    sbuf_init(&url, MAX_URL_BYTES);
    add_url(call, &url);
    if (!sbuf_ok(&url)) {
        return err_set(err, ERR_USAGE, "labels: more than %zu bytes altogether",
                       MAX_URL_BYTES);
    }
    request.url = url.data;
    clear_reply(call);
    call->attempt++;
    call->http = http_start(api->http, &request, &handlers, call, err);
    if (call->http == NULL) {
        /* All of it comes from the settings. */
        if (err->code == ERR_USAGE) {
            err->code = ERR_CONFIG;
        }
        return -1;
    }
    return 0;
}

static void
on_not_started(void *ctx)
{
    struct e2b_call *call = ctx;

    call->task = NULL;
    e2b_call_end(call);
}

/* Any but the first. */
void
e2b_call_send(struct e2b_call *call)
{
    struct error err = {0};

    if (e2b_call_start(call, &err) < 0) {
        call->err = err;
        call->fault = E2B_FAULT_OTHER;
        call->task = loop_defer(call->api->loop, on_not_started, call);
    }
}
