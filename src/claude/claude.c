/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude_call_internal.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_limits_internal.h"
#include "claude/claude_stream_internal.h"
#include "claude/history.h"
#include "claude/history_internal.h"
#include "claude/transport.h"
#include "net/retry.h"

#define LOG_MODULE "claude"

#define CLAUDE_PATH "/v1/messages"

enum {
    MAX_ATTEMPTS = 5,
    QUIET_MS = 600000,

    /* Longer than this nobody waits without having said so. */
    LONGEST_WAIT_MS = 60000,

    /* After the last event the server is to end its answer, so that the
       connection can be used again. */
    GRACE_MS = 500,
};

/* What of a refusal's body is read. */
#define MAX_ERROR_BODY_BYTES ((size_t)65536)

static void on_transport_head(void *ctx, int status);
static void on_transport_body(void *ctx, const char *data, size_t len);
static void on_transport_done(void *ctx, const struct error *err);

static const struct transport_handlers transport_handlers = {
    .on_head = on_transport_head,
    .on_body = on_transport_body,
    .on_done = on_transport_done,
};

static void
set_state(struct claude_call *call, enum claude_call_state state)
{
    static const unsigned allowed[] = {
        [CLAUDE_CALL_REQUEST] =
            1u << CLAUDE_CALL_STREAM | 1u << CLAUDE_CALL_REFUSAL |
            1u << CLAUDE_CALL_WAIT | 1u << CLAUDE_CALL_ENDED |
            1u << CLAUDE_CALL_CLOSING,
        [CLAUDE_CALL_STREAM] = 1u << CLAUDE_CALL_CLOSING |
                               1u << CLAUDE_CALL_WAIT | 1u << CLAUDE_CALL_ENDED,
        [CLAUDE_CALL_REFUSAL] = 1u << CLAUDE_CALL_CLOSING |
                                1u << CLAUDE_CALL_WAIT |
                                1u << CLAUDE_CALL_ENDED,
        [CLAUDE_CALL_CLOSING] =
            1u << CLAUDE_CALL_WAIT | 1u << CLAUDE_CALL_ENDED,
        [CLAUDE_CALL_WAIT] =
            1u << CLAUDE_CALL_REQUEST | 1u << CLAUDE_CALL_ENDED,
        [CLAUDE_CALL_ENDED] = 0,
    };

    assert((allowed[call->state] & 1u << state) != 0);
    call->state = state;
}

/* --- releasing --- */

static void
end_attempt(struct claude_call *call)
{
    loop_timer_remove(call->quiet_timer);
    loop_timer_remove(call->grace_timer);
    call->quiet_timer = NULL;
    call->grace_timer = NULL;
    claude_stream_free(call->stream);
    call->stream = NULL;
    free(call->request_id);
    call->request_id = NULL;
    free(call->limits);
    call->limits = NULL;
    call->is_vendor = false;
    sbuf_clear(&call->refusal);
    call->failure = (struct claude_failure){0};
    call->status = 0;
    call->wait_ms = -1;
    call->should_retry = -1;
    call->shown = false;
}

static void
free_call(struct claude_call *call)
{
    end_attempt(call);
    loop_timer_remove(call->wait_timer);
    loop_task_remove(call->cancel_task);
    sbuf_fini(&call->body);
    sbuf_fini(&call->refusal);
    claude_history_free(call->stripped);
    free(call);
}

/* The counterpart of busy++: true when the client was freed meanwhile, and the
   call with it. */
static bool
is_gone(struct claude_call *call)
{
    call->busy--;
    if (call->c != NULL || call->busy > 0) {
        return call->c == NULL;
    }
    free_call(call);
    return true;
}

/* --- ending --- */

static void
finish(struct claude_call *call, const struct claude_reply *reply,
       const struct error *err)
{
    struct claude *c = call->c;

    set_state(call, CLAUDE_CALL_ENDED);
    c->call = NULL;
    if (err != NULL) {
        LOG_INFO("attempt %d: %s", call->attempt, err->msg);
        err = claude_plan_give_up(call, err);
    } else {
        LOG_DBG("attempt %d: complete", call->attempt);
    }
    /* A new call may begin in the callback, so this one is out of the way. */
    call->busy++;
    call->c = NULL;
    call->on.on_done(call->ctx, reply, err);
    (void)is_gone(call);
}

/* With what has arrived, if anything has. */
static void
finish_with_error(struct claude_call *call, const struct error *err)
{
    struct claude_reply reply = {0};

    if (call->stream == NULL) {
        finish(call, NULL, err);
        return;
    }
    claude_stream_partial(call->stream, &reply);
    finish(call, &reply, err);
    claude_reply_fini(&reply);
}

static void
finish_cancelled(struct claude_call *call)
{
    struct error err = {0};

    error_fill(&err, ERR_CANCELLED, "cancelled");
    finish_with_error(call, &err);
}

static void
on_cancel_task(void *ctx)
{
    struct claude_call *call = ctx;

    call->cancel_task = NULL;
    finish_cancelled(call);
}

/* --- trying again --- */

static double
random_unit(void)
{
    uint32_t bits = 0;

    /* Without randomness all waits are the longest, which is no harm. */
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits)) {
        bits = 0;
    }
    return (double)bits / 4294967296.0;
}

static int
start_attempt(struct claude_call *call, struct error *err)
{
    const struct transport *t = call->c->transport;
    const struct transport_request request = {
        .path = CLAUDE_PATH,
        .body = call->body.data,
        .body_len = call->body.len,
    };

    LOG_DBG("attempt %d: %zu bytes", call->attempt, call->body.len);
    call->transfer =
        t->ops->start(t->impl, &request, &transport_handlers, call, err);
    return call->transfer != NULL ? 0 : -1;
}

static void
on_wait_over(void *ctx)
{
    struct claude_call *call = ctx;
    struct error err = {0};

    call->wait_timer = NULL;
    call->attempt++;
    if (start_attempt(call, &err) < 0) {
        finish_with_error(call, &err);
        return;
    }
    set_state(call, CLAUDE_CALL_REQUEST);
}

static bool
may_retry(const struct claude_call *call, const struct claude_failure *failure)
{
    return failure->retry && call->attempt < call->c->max_attempts &&
           failure->err.code != ERR_CANCELLED;
}

static void
end_or_retry(struct claude_call *call, const struct claude_failure *failure)
{
    struct error err = failure->err;
    int64_t wait_ms = call->wait_ms;

    if (call->limits != NULL && err.code == ERR_RATE_LIMIT) {
        error_append(&err, "; %s", call->limits);
    }

    if (wait_ms > 0) {
        err.retry_after_ms = wait_ms;
    } else {
        wait_ms = retry_backoff_ms(call->attempt - 1, random_unit());
    }
    if (failure->retry && call->wait_ms > LONGEST_WAIT_MS) {
        error_append(&err, "; it asks to wait %" PRId64 " s",
                     (call->wait_ms + 999) / 1000);
        finish_with_error(call, &err);
        return;
    }
    if (!may_retry(call, failure)) {
        if (failure->retry && call->attempt > 1) {
            error_append(&err, "; tried %d times", call->attempt);
        }
        finish_with_error(call, &err);
        return;
    }
    LOG_INFO("attempt %d: %s; next in %" PRId64 " ms", call->attempt, err.msg,
             wait_ms);
    set_state(call, CLAUDE_CALL_WAIT);
    call->wait_timer =
        loop_add_timer(call->c->loop, wait_ms, on_wait_over, call);
    call->busy++;
    if (call->shown && call->on.on_discard != NULL) {
        call->on.on_discard(call->ctx);
    }
    if (call->stream != NULL && claude_stream_n_events(call->stream) > 0 &&
        call->c != NULL && call->on.on_lost != NULL) {
        call->on.on_lost(call->ctx);
    }
    end_attempt(call);
    if (!call->cancelled && call->c != NULL && call->on.on_retry != NULL) {
        call->on.on_retry(call->ctx, call->attempt + 1, wait_ms, &err);
    }
    (void)is_gone(call);
}

/* --- the stream --- */

static bool
is_over(const struct claude_call *call)
{
    return call->cancelled || call->c == NULL;
}

static bool
on_stream_more(void *ctx)
{
    return !is_over(ctx);
}

static void
on_stream_thinking(void *ctx, const char *text, size_t len, bool end)
{
    struct claude_call *call = ctx;

    if (call->on.on_thinking != NULL) {
        call->shown = true;
        call->on.on_thinking(call->ctx, text, len, end);
    }
}

static void
on_stream_text(void *ctx, const char *text, size_t len, bool end)
{
    struct claude_call *call = ctx;

    if (call->on.on_text != NULL) {
        call->shown = true;
        call->on.on_text(call->ctx, text, len, end);
    }
}

static void
on_stream_tool(void *ctx, const char *name, const char *input_so_far,
               size_t len)
{
    struct claude_call *call = ctx;

    if (call->on.on_tool != NULL) {
        call->shown = true;
        call->on.on_tool(call->ctx, name, input_so_far, len);
    }
}

static const struct claude_stream_handlers stream_handlers = {
    .on_thinking = on_stream_thinking,
    .on_text = on_stream_text,
    .on_tool = on_stream_tool,
    .on_more = on_stream_more,
};

/* What came is enough: the transport is asked to end. */
static void
close_transfer(struct claude_call *call)
{
    set_state(call, CLAUDE_CALL_CLOSING);
    call->c->transport->ops->cancel(call->transfer);
}

static void
on_grace_over(void *ctx)
{
    struct claude_call *call = ctx;

    call->grace_timer = NULL;
    if (call->state == CLAUDE_CALL_STREAM) {
        close_transfer(call);
    }
}

/* Pings keep a connection alive on which nothing will ever come. */
static void
on_quiet(void *ctx)
{
    struct claude_call *call = ctx;
    uint64_t n = claude_stream_n_events(call->stream);
    AUTO_SBUF struct sbuf time = {0};

    call->quiet_timer = NULL;
    if (n != call->n_events) {
        call->n_events = n;
        call->quiet_timer =
            loop_add_timer(call->c->loop, call->c->quiet_ms, on_quiet, call);
        return;
    }
    if (call->state == CLAUDE_CALL_STREAM &&
        !claude_stream_is_complete(call->stream)) {
        sbuf_init(&time, STR_DURATION_BYTES);
        str_add_duration(&time, call->c->quiet_ms);
        error_fill(&call->failure.err, ERR_TIMEOUT,
                   "the service sent nothing but signs of life for %s",
                   time.data);
        call->failure.retry = true;
        close_transfer(call);
    }
}

static const char *
get_header(const struct claude_call *call, const char *name)
{
    return call->c->transport->ops->header(call->transfer, name);
}

static const char *
get_any_header(const void *ctx, const char *name)
{
    return get_header(ctx, name);
}

static bool
has_type(const struct claude_call *call, const char *wanted)
{
    const char *type = get_header(call, "content-type");

    return type != NULL && strncasecmp(type, wanted, strlen(wanted)) == 0;
}

/* Errors before a stream are plain JSON, and a login page is no reply. */
static bool
is_stream(const struct claude_call *call, int status)
{
    return status == 200 && !has_type(call, "application/json") &&
           !has_type(call, "text/html");
}

static void
on_transport_head(void *ctx, int status)
{
    struct claude_call *call = ctx;
    const char *again = get_header(call, "x-should-retry");

    call->status = status;
    call->is_page = has_type(call, "text/html");
    call->request_id = xstrdup(get_header(call, "request-id"));
    call->is_vendor = get_header(call, "anthropic-organization-id") != NULL;
    if (status == 429) {
        call->limits =
            claude_limits_describe(get_any_header, call, clock_wall_ms());
    }
    call->wait_ms =
        retry_after_ms(get_header(call, "retry-after-ms"),
                       get_header(call, "retry-after"), clock_wall_ms());
    call->should_retry = str_eq(again, "true")    ? 1
                         : str_eq(again, "false") ? 0
                                                  : -1;
    LOG_DBG("attempt %d: status %d, request %s", call->attempt, status,
            call->request_id != NULL ? call->request_id : "?");
    if (!is_stream(call, status)) {
        set_state(call, CLAUDE_CALL_REFUSAL);
        return;
    }
    set_state(call, CLAUDE_CALL_STREAM);
    call->stream = claude_stream_new(claude_plan_is_tolerant(call),
                                     call->request_id, &stream_handlers, call);
    claude_stream_set_history(call->stream, call->history);
    call->n_events = 0;
    call->quiet_timer =
        loop_add_timer(call->c->loop, call->c->quiet_ms, on_quiet, call);
}

static void
add_refusal(struct claude_call *call, const char *data, size_t len)
{
    size_t room = MAX_ERROR_BODY_BYTES - call->refusal.len;

    sbuf_add(&call->refusal, data, len < room ? len : room);
}

static void
on_transport_body(void *ctx, const char *data, size_t len)
{
    struct claude_call *call = ctx;
    int rc;

    if (call->state == CLAUDE_CALL_REFUSAL) {
        add_refusal(call, data, len);
        return;
    }
    if (call->state != CLAUDE_CALL_STREAM) {
        return;
    }
    call->busy++;
    rc = claude_stream_feed(call->stream, data, len, &call->failure);
    if (is_gone(call) || call->cancelled) {
        return;
    }
    if (rc < 0) {
        close_transfer(call);
    } else if (claude_stream_is_complete(call->stream) &&
               call->grace_timer == NULL) {
        call->grace_timer =
            loop_add_timer(call->c->loop, GRACE_MS, on_grace_over, call);
    }
}

static void
end_refusal(struct claude_call *call)
{
    struct claude_failure failure = {0};
    int status = call->status == 200 ? 0 : call->status;

    claude_codec_failure(status, call->refusal.data, call->refusal.len,
                         call->request_id, &failure);
    if (status == 0 && failure.err.code == ERR_REMOTE && !failure.is_told) {
        error_fill(&failure.err, ERR_PROTOCOL, "%s",
                   call->is_page
                       ? "a web page came instead of a reply, perhaps one to "
                         "log in to the network; check model.base_url"
                       : "the service answered with something else than a "
                         "stream of events; check model.base_url");
        failure.err.http_status = call->status;
        failure.retry = false;
    }
    if (call->should_retry == 0) {
        failure.retry = false;
    } else if (call->should_retry == 1 && !failure.is_final) {
        failure.retry = true;
    }
    if (!failure.retry && claude_plan_change(call, &failure)) {
        end_attempt(call);
        call->attempt = 0;
        set_state(call, CLAUDE_CALL_WAIT);
        call->wait_timer = loop_add_timer(call->c->loop, 0, on_wait_over, call);
        return;
    }
    end_or_retry(call, &failure);
}

/* What a reply changes, told before it; false when that ended the call. */
static bool
adopt(struct claude_call *call, const struct claude_reply *reply)
{
    const char *notice = claude_plan_adopt(call, reply);

    if (notice != NULL && call->on.on_notice != NULL) {
        call->busy++;
        call->on.on_notice(call->ctx, notice);
        if (is_gone(call)) {
            return false;
        }
    }
    if (call->cancelled) {
        finish_cancelled(call);
        return false;
    }
    return true;
}

static void
end_stream(struct claude_call *call)
{
    struct claude_failure failure = {0};
    struct claude_reply reply = {0};
    int rc;

    call->busy++;
    rc = claude_stream_finish(call->stream, &reply, &failure);
    if (is_gone(call)) {
        claude_reply_fini(&reply);
        return;
    }
    if (call->cancelled) {
        finish_cancelled(call);
    } else if (rc < 0) {
        end_or_retry(call, &failure);
    } else if (adopt(call, &reply)) {
        finish(call, &reply, NULL);
    }
    claude_reply_fini(&reply);
}

static void
end_broken(struct claude_call *call, const struct error *err)
{
    struct claude_failure failure = {.err = *err};

    if (call->request_id != NULL && err->code != ERR_CANCELLED) {
        error_append(&failure.err, " (request %.80s)", call->request_id);
    }
    failure.retry = error_is_retryable(err->code);
    end_or_retry(call, &failure);
}

static void
on_transport_done(void *ctx, const struct error *err)
{
    struct claude_call *call = ctx;

    call->transfer = NULL;
    if (call->cancelled) {
        finish_cancelled(call);
    } else if (call->failure.err.code != ERR_NONE) {
        struct claude_failure failure = call->failure;

        end_or_retry(call, &failure);
    } else if (call->stream != NULL &&
               (err == NULL || claude_stream_is_complete(call->stream))) {
        /* What goes wrong behind the last event does not matter. */
        end_stream(call);
    } else if (err != NULL) {
        end_broken(call, err);
    } else {
        end_refusal(call);
    }
}

/* --- public --- */

struct claude *
claude_new(struct loop *loop, const struct transport *transport,
           const struct claude_config *config, struct error *err)
{
    struct claude *c = xcalloc(1, sizeof(*c));

    c->loop = loop;
    c->transport = transport;
    c->max_attempts =
        config->max_attempts > 0 ? config->max_attempts : MAX_ATTEMPTS;
    c->quiet_ms = config->quiet_ms > 0 ? config->quiet_ms : QUIET_MS;
    if (claude_plan_init(c, config, err) < 0) {
        claude_free(c);
        return NULL;
    }
    return c;
}

void
claude_free(struct claude *c)
{
    struct claude_call *call;

    if (c == NULL) {
        return;
    }
    call = c->call;
    if (call != NULL) {
        if (call->transfer != NULL) {
            c->transport->ops->drop(call->transfer);
            call->transfer = NULL;
        }
        loop_timer_remove(call->wait_timer);
        loop_task_remove(call->cancel_task);
        call->wait_timer = NULL;
        call->cancel_task = NULL;
        call->c = NULL;
        if (call->busy == 0) {
            free_call(call);
        }
    }
    claude_plan_fini(c);
    free(c);
}

struct claude_call *
claude_send(struct claude *c, struct claude_history *h,
            const struct claude_handlers *on, void *ctx, struct error *err)
{
    struct claude_call *call;

    if (c->call != NULL || !claude_history_may_be_sent(h)) {
        error_fill(err, ERR_INTERNAL,
                   c->call != NULL ? "a request is in progress"
                                   : "the conversation ends with no question");
        return NULL;
    }
    call = xcalloc(1, sizeof(*call));
    call->c = c;
    call->on = *on;
    call->ctx = ctx;
    call->history = h;
    call->max_tokens = c->next_max_tokens;
    call->attempt = 1;
    sbuf_init(&call->body, CLAUDE_MAX_BODY_BYTES);
    sbuf_init(&call->refusal, MAX_ERROR_BODY_BYTES);
    end_attempt(call);
    if (claude_plan_make_body(call, err) < 0 || start_attempt(call, err) < 0) {
        free_call(call);
        return NULL;
    }
    c->call = call;
    return call;
}

void
claude_cancel(struct claude_call *call)
{
    if (call->cancelled || call->c == NULL) {
        return;
    }
    call->cancelled = true;
    if (call->transfer != NULL) {
        call->c->transport->ops->cancel(call->transfer);
        return;
    }
    loop_timer_remove(call->wait_timer);
    call->wait_timer = NULL;
    call->cancel_task = loop_defer(call->c->loop, on_cancel_task, call);
}

bool
claude_is_replay(const struct claude *c)
{
    return c->transport->ops->is_replay;
}

const char *
claude_model(const struct claude *c)
{
    return c->model;
}

void
claude_set_max_tokens(struct claude *c, int64_t max_tokens)
{
    c->next_max_tokens = max_tokens > 0 ? max_tokens : c->max_tokens;
}
