/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_process_internal.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/e2b_events_internal.h"
#include "sandbox/e2b_feed_internal.h"
#include "sandbox/e2b_launch_internal.h"
#include "sandbox/e2b_watch_internal.h"
#include "sandbox/e2b_wire_internal.h"

#define LOG_MODULE "e2b"

#define MAX_REQUEST_BYTES ((size_t)8 << 20)
#define PING_S "20"

/* A daemon that does not know the header sends a keepalive every 90 s. */
#define STALL_MS 190000
#define ANSWER_MS 60000

/* The daemon's own limit would end the watch alone, and this client's is for a
   way that is dead. */
#define DAEMON_MARGIN_MS 5000
#define CLIENT_MARGIN_MS 15000
#define KILL_MS 20000
#define KILLED_MS 2000

/* For so long the daemon knows how a process has ended. */
#define AGAIN_MS 30000
#define FIRST_PAUSE_MS 250
#define MAX_PAUSE_MS 4000

/* What timeout(1) says of a program that it has ended. */
#define TIMEOUT_STATUS 124

#define START_PATH "/process.Process/Start"
#define CONNECT_PATH "/process.Process/Connect"

enum process_state {
    STATE_STARTING, /* whether it has begun is not known */
    STATE_RUNNING,
    STATE_AGAIN, /* the stream broke off, and the next try is on its way */
    STATE_OVER
};

struct e2b_process {
    struct e2b_site *site; /* borrowed */
    struct e2b_process_handlers on;
    void *ctx;
    const char *doing;
    int64_t limit_ms;
    char tag[E2B_UUID_BYTES]; /* finds it while its number is not known; "": has
                                 none */

    enum process_state state;
    struct e2b_data *stream;
    struct e2b_envelope envelope;
    struct e2b_feed feed;
    bool paused;
    bool *gone; /* set when it is released within its own callback */

    int64_t pid; /* 0: not known yet */
    int64_t start_ms;
    struct loop_timer *deadline;
    int64_t answer_ms;
    struct loop_timer *answer; /* for the first word of a stream */
    bool late;                 /* the client's own time limit has come */
    struct loop_timer *wait;
    int64_t broken_ms; /* when the stream broke off; 0: it did not */
    int64_t pause_ms;
    struct error broken; /* why */
    enum e2b_trouble broken_trouble;
    bool lost_bytes;

    bool has_end;
    int exit_status;
    int signal;
    struct e2b_status status;
    struct error odd; /* what it sent that is no answer */
};

/* What reading a message came to. */
enum { ODD = 1, GONE = 2 };

static void connect_again(void *ctx);
static void handle_break(struct e2b_process *p, enum e2b_trouble trouble,
                         const struct error *err, bool not_started);
static void handle_body(struct e2b_process *p);

static void
set_state(struct e2b_process *p, enum process_state state)
{
    assert(p->state != STATE_OVER);
    assert(state != STATE_STARTING);
    p->state = state;
}

static void
free_process(struct e2b_process *p)
{
    if (p->gone != NULL)
        *p->gone = true;
    e2b_data_drop(p->stream);
    e2b_feed_fini(&p->feed);
    e2b_envelope_fini(&p->envelope);
    e2b_status_fini(&p->status);
    loop_timer_remove(p->deadline);
    loop_timer_remove(p->answer);
    loop_timer_remove(p->wait);
    free(p);
}

static void
finish(struct e2b_process *p, struct e2b_process_end *end)
{
    if (end->err != NULL)
        LOG_INFO("%s", end->err->msg);
    set_state(p, STATE_OVER);
    end->lost_bytes = p->lost_bytes;
    p->on.on_done(p->ctx, end);
    free_process(p);
}

static void
finish_trouble(struct e2b_process *p, enum e2b_trouble trouble,
               const struct error *err, bool not_started)
{
    finish(p, &(struct e2b_process_end){.trouble = trouble,
                                        .exit_status = -1,
                                        .limit_hit = p->late,
                                        .err = err,
                                        .not_started = not_started});
}

/* --- how it has ended --- */

/* It was ended at the limit: by the watch, or by what takes its place where
   there is none, which the clock tells from a program that ends alike. */
static bool
is_limit(const struct e2b_process *p)
{
    if (p->limit_ms == 0)
        return false;
    if (p->late || p->signal == SIGALRM)
        return true;
    return clock_now_ms() - p->start_ms >= p->limit_ms &&
           (p->signal == SIGKILL || p->exit_status == TIMEOUT_STATUS);
}

static void
finish_end(struct e2b_process *p)
{
    struct e2b_process_end end = {.exit_status = p->exit_status,
                                  .signal = p->signal,
                                  .limit_hit = is_limit(p)};

    if (end.limit_hit) {
        end.exit_status = -1;
        end.signal = SIGKILL;
    } else if (end.signal == E2B_WATCH_END_ALL) {
        /* Before the watch could take it. */
        end.signal = SIGKILL;
    }
    finish(p, &end);
}

/* It does not run any more, and nobody knows more. */
static void
finish_vanished(struct e2b_process *p)
{
    struct error err = {0};

    error_fill(&err, ERR_SANDBOX,
               "%s: sandbox %s: the process has ended, and how is not known",
               p->doing, p->site->id);
    finish(p, &(struct e2b_process_end){.trouble = E2B_TROUBLE_REFUSED,
                                        .exit_status = -1,
                                        .err = &err,
                                        .has_vanished = true});
}

/* --- time limits --- */

/* It was to be ended, and nobody has said that it is. */
static void
on_not_killed(void *ctx)
{
    struct e2b_process *p = ctx;
    struct error err = {0};

    p->deadline = NULL;
    error_fill(&err, ERR_TIMEOUT,
               "%s: sandbox %s: it was not ended at its limit of %lld s",
               p->doing, p->site->id, (long long)((p->limit_ms + 999) / 1000));
    finish_trouble(p, E2B_TROUBLE_LATE, &err, false);
}

static void
on_deadline(void *ctx)
{
    struct e2b_process *p = ctx;

    p->late = true;
    e2b_feed_signal(&p->feed, SIGKILL);
    p->deadline = loop_add_timer(p->site->loop, KILL_MS, on_not_killed, p);
}

static void
on_killed(void *ctx)
{
    struct e2b_process *p = ctx;

    p->deadline = NULL;
    finish_end(p);
}

/* The daemon's own limit has ended the watch, or what takes its place: what is
   left is ended now. */
static void
on_daemon_limit(struct e2b_process *p)
{
    p->late = true;
    e2b_feed_signal(&p->feed, SIGKILL);
    loop_timer_remove(p->deadline);
    p->deadline = loop_add_timer(p->site->loop, KILLED_MS, on_killed, p);
}

static void
stop_answer(struct e2b_process *p)
{
    loop_timer_remove(p->answer);
    p->answer = NULL;
}

/* A stream that only stays open, or has keepalives and nothing else. */
static void
on_no_answer(void *ctx)
{
    struct e2b_process *p = ctx;
    struct error err = {0};

    p->answer = NULL;
    e2b_data_drop(p->stream);
    p->stream = NULL;
    error_fill(&err, ERR_TIMEOUT,
               "%s: sandbox %s: no word of a start in %lld s", p->doing,
               p->site->id, (long long)(p->answer_ms + 999) / 1000);
    handle_break(p, E2B_TROUBLE_LATE, &err, false);
}

/* --- the stream --- */

static void
on_start(struct e2b_process *p, int64_t pid)
{
    const bool *gone = p->gone;
    bool again = p->state == STATE_AGAIN;

    if (p->state == STATE_RUNNING)
        return;
    set_state(p, STATE_RUNNING);
    stop_answer(p);
    p->broken_ms = 0;
    p->lost_bytes = p->lost_bytes || again;
    if (p->pid == 0) {
        p->pid = pid;
        p->start_ms = clock_now_ms();
        if (p->limit_ms > 0)
            p->deadline = loop_add_timer(
                p->site->loop, p->limit_ms + CLIENT_MARGIN_MS, on_deadline, p);
        e2b_feed_begin(&p->feed, pid);
        if (p->on.on_start != NULL)
            p->on.on_start(p->ctx, pid);
    }
    if (again && !*gone && p->on.on_gap != NULL)
        p->on.on_gap(p->ctx);
}

static void
take_event(struct e2b_process *p, const struct e2b_event *event)
{
    switch (event->kind) {
    case E2B_EVENT_OTHER:
        break;
    case E2B_EVENT_START:
        on_start(p, event->pid);
        break;
    case E2B_EVENT_DATA:
        if (event->len > 0 && !p->has_end)
            p->on.on_bytes(p->ctx, event->stream, event->data, event->len);
        break;
    case E2B_EVENT_END:
        p->has_end = true;
        p->exit_status = event->exit_status;
        p->signal = event->signal;
        break;
    }
}

static int
on_message(void *ctx, const char *text, size_t len, bool is_end)
{
    struct e2b_process *p = ctx;
    struct e2b_event event = {0};
    bool gone = false;

    if (is_end)
        return e2b_status_of_end(text, len, &p->status, &p->odd) < 0 ? ODD : 0;
    if (e2b_event_read(text, len, &event, &p->odd) < 0) {
        e2b_event_fini(&event);
        return ODD;
    }
    p->gone = &gone;
    take_event(p, &event);
    if (!gone)
        p->gone = NULL;
    e2b_event_fini(&event);
    return gone ? GONE : 0;
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct e2b_process *p = ctx;

    if (e2b_envelope_feed(&p->envelope, data, len, on_message, p, &p->odd) ==
            GONE ||
        p->odd.code == ERR_NONE)
        return;
    e2b_data_drop(p->stream);
    p->stream = NULL;
    stop_answer(p);
    handle_body(p);
}

/* --- a stream that broke off --- */

/* Whether there is a chance left. */
static bool
go_on(struct e2b_process *p, enum e2b_trouble trouble, const struct error *why)
{
    int64_t now = clock_now_ms();

    if (p->pid == 0 && p->tag[0] == '\0')
        return false;
    if (p->broken_ms == 0) {
        p->broken_ms = now;
        p->pause_ms = FIRST_PAUSE_MS;
        p->broken = *why;
        p->broken_trouble = trouble;
    } else if (now - p->broken_ms >= AGAIN_MS) {
        return false;
    }
    LOG_INFO("%s: again in %lld ms: %s", p->doing, (long long)p->pause_ms,
             why->msg);
    set_state(p, STATE_AGAIN);
    p->wait = loop_add_timer(p->site->loop, p->pause_ms, connect_again, p);
    p->pause_ms *= 2;
    if (p->pause_ms > MAX_PAUSE_MS)
        p->pause_ms = MAX_PAUSE_MS;
    return true;
}

/* What broke the stream says more than what ended the tries. */
static void
finish_broken(struct e2b_process *p, enum e2b_trouble trouble,
              const struct error *err)
{
    if (p->state == STATE_AGAIN)
        finish_trouble(p, p->broken_trouble, &p->broken, false);
    else
        finish_trouble(p, trouble, err, false);
}

static void
handle_break(struct e2b_process *p, enum e2b_trouble trouble,
             const struct error *err, bool not_started)
{
    if (not_started)
        finish_trouble(p, trouble, err, true);
    else if (!go_on(p, trouble, err))
        finish_broken(p, trouble, err);
}

/* The stream has its last message, which says that the call failed. */
static void
handle_status(struct e2b_process *p)
{
    enum e2b_code code = p->status.code;
    bool had_begun = p->pid != 0;
    struct error err = {0};

    if (code == E2B_NOT_FOUND && p->state == STATE_AGAIN) {
        if (had_begun)
            finish_vanished(p);
        else
            finish_broken(p, E2B_TROUBLE_CUT, NULL);
        return;
    }
    if (code == E2B_DEADLINE_EXCEEDED && had_begun && p->limit_ms > 0) {
        on_daemon_limit(p);
        return;
    }
    error_fill(&err, e2b_launch_error(code), "%s: sandbox %s: %s", p->doing,
               p->site->id,
               p->status.message != NULL ? p->status.message
                                         : e2b_code_name(code));
    if (code == E2B_UNAVAILABLE || code == E2B_CANCELED ||
        p->state != STATE_STARTING)
        handle_break(p, E2B_TROUBLE_CUT, &err, false);
    else
        finish_trouble(p, E2B_TROUBLE_REFUSED, &err,
                       p->state == STATE_STARTING);
}

/* The body has come to its end, whole or not. */
static void
handle_body(struct e2b_process *p)
{
    struct error err = p->odd;

    if (p->has_end) {
        finish_end(p);
        return;
    }
    if (err.code == ERR_NONE && e2b_envelope_finish(&p->envelope, &err) == 0) {
        if (p->status.code != E2B_OK) {
            handle_status(p);
            return;
        }
        error_fill(&err, ERR_PROTOCOL,
                   "the stream ended without the end of the process");
    }
    err_wrap(&err, "%s: sandbox %s", p->doing, p->site->id);
    if (err.code == ERR_NET || p->state != STATE_STARTING)
        handle_break(p, E2B_TROUBLE_CUT, &err, false);
    else
        finish_trouble(p, E2B_TROUBLE_REFUSED, &err, false);
}

static void
on_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_process *p = ctx;
    bool is_first = p->state == STATE_STARTING;

    p->stream = NULL;
    stop_answer(p);
    if (result->trouble == E2B_TROUBLE_NONE) {
        handle_body(p);
        return;
    }
    if (p->has_end) {
        finish_end(p);
        return;
    }
    switch (result->trouble) {
    case E2B_TROUBLE_NONE:
        break;
    case E2B_TROUBLE_GONE:
    case E2B_TROUBLE_CLOSED:
    case E2B_TROUBLE_CHANGING:
        finish_trouble(p, result->trouble, result->err,
                       is_first && (result->not_sent ||
                                    result->trouble == E2B_TROUBLE_GONE));
        break;
    case E2B_TROUBLE_CUT:
    case E2B_TROUBLE_LATE:
        handle_break(p, result->trouble, result->err,
                     is_first && result->not_sent);
        break;
    case E2B_TROUBLE_REFUSED:
        if (is_first)
            finish_trouble(p, result->trouble, result->err,
                           result->not_sent || (result->http_status >= 400 &&
                                                result->http_status < 500));
        else
            finish_broken(p, result->trouble, result->err);
        break;
    }
}

/* --- beginning --- */

static int
open_stream(struct e2b_process *p, const char *path, const struct sbuf *message,
            int64_t daemon_ms, struct error *err)
{
    static const struct e2b_data_handlers handlers = {.on_body = on_body,
                                                      .on_done = on_done};
    struct http_header headers[E2B_RPC_MAX_HEADERS + 2];
    size_t n = e2b_launch_headers(p->site, headers);
    AUTO_SBUF struct sbuf body = {0};
    AUTO_FREE char *limit = xasprintf("%lld", (long long)daemon_ms);
    struct e2b_data_request request = {
        .service = E2B_ENVD,
        .method = "POST",
        .path = path,
        .content_type = "application/connect+json",
        .headers = headers,
        .stall_ms = STALL_MS,
        .repeatable = strcmp(path, CONNECT_PATH) == 0,
        .doing = p->doing,
    };

    headers[n++] = (struct http_header){"Keepalive-Ping-Interval", PING_S};
    if (daemon_ms > 0)
        headers[n++] = (struct http_header){"Connect-Timeout-Ms", limit};
    sbuf_init(&body, MAX_REQUEST_BYTES + E2B_ENVELOPE_HEAD_BYTES);
    e2b_envelope_add(&body, message->data, message->len);
    request.n_headers = n;
    request.body = body.data;
    request.body_len = body.len;
    e2b_envelope_fini(&p->envelope);
    e2b_envelope_init(&p->envelope, 0);
    e2b_status_fini(&p->status);
    p->odd = (struct error){0};
    p->stream = e2b_data_start(p->site, &request, &handlers, p, err);
    if (p->stream == NULL)
        return -1;
    if (p->paused)
        e2b_data_pause(p->stream, true);
    stop_answer(p);
    p->answer = loop_add_timer(p->site->loop, p->answer_ms, on_no_answer, p);
    return 0;
}

static int
connect_stream(struct e2b_process *p, struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REQUEST_BYTES);
    if (p->pid != 0)
        sbuf_addf(&sb, "{\"process\":{\"pid\":%lld}}", (long long)p->pid);
    else
        sbuf_addf(&sb, "{\"process\":{\"tag\":\"%s\"}}", p->tag);
    return open_stream(p, CONNECT_PATH, &sb, 0, err);
}

static void
connect_again(void *ctx)
{
    struct e2b_process *p = ctx;
    struct error err = {0};

    p->wait = NULL;
    if (connect_stream(p, &err) < 0)
        finish_trouble(p, E2B_TROUBLE_CUT, &err, false);
}

/* Input whose receipt is not known. */
static void
on_feed_failed(void *ctx, const struct e2b_data_result *result)
{
    finish_trouble(ctx, result->trouble, result->err, false);
}

static struct e2b_process *
new_process(struct e2b_site *site, const char *doing, bool knows_input,
            const struct e2b_process_handlers *on, void *ctx)
{
    struct e2b_process *p = xcalloc(1, sizeof(*p));

    p->site = site;
    p->doing = doing;
    p->on = *on;
    p->ctx = ctx;
    p->answer_ms = ANSWER_MS;
    e2b_envelope_init(&p->envelope, 0);
    e2b_feed_init(&p->feed, site, knows_input, doing, on_feed_failed, p);
    return p;
}

struct e2b_process *
e2b_process_start(struct e2b_site *site, const struct e2b_process_spec *spec,
                  const struct e2b_process_handlers *on, void *ctx,
                  struct error *err)
{
    struct e2b_process *p =
        new_process(site, spec->doing, spec->knows_input, on, ctx);
    AUTO_SBUF struct sbuf sb = {0};

    p->limit_ms = spec->limit_ms;
    if (spec->start_ms > 0)
        p->answer_ms = spec->start_ms;
    sbuf_init(&sb, MAX_REQUEST_BYTES);
    if (e2b_make_uuid(p->tag, err) == 0) {
        e2b_launch_add(&sb, spec, p->tag);
        if (!sbuf_ok(&sb))
            error_fill(err, ERR_TOO_LARGE,
                       "%s: more than %zu bytes of arguments", p->doing,
                       MAX_REQUEST_BYTES);
        else if (open_stream(p, START_PATH, &sb,
                             p->limit_ms > 0 ? p->limit_ms + DAEMON_MARGIN_MS
                                             : 0,
                             err) == 0)
            return p;
    }
    free_process(p);
    return NULL;
}

struct e2b_process *
e2b_process_attach(struct e2b_site *site, int64_t pid, bool knows_input,
                   const char *doing, const struct e2b_process_handlers *on,
                   void *ctx, struct error *err)
{
    struct e2b_process *p = new_process(site, doing, knows_input, on, ctx);

    p->pid = pid;
    p->state = STATE_AGAIN;
    p->lost_bytes = true;
    error_fill(&p->broken, ERR_NET, "%s: sandbox %s: the way to it was lost",
               doing, site->id);
    p->broken_trouble = E2B_TROUBLE_CUT;
    p->broken_ms = clock_now_ms();
    p->pause_ms = FIRST_PAUSE_MS;
    e2b_feed_begin(&p->feed, pid);
    if (connect_stream(p, err) < 0) {
        free_process(p);
        return NULL;
    }
    return p;
}

void
e2b_process_send(struct e2b_process *p, const char *data, size_t len)
{
    e2b_feed_input(&p->feed, data, len);
}

void
e2b_process_end_input(struct e2b_process *p)
{
    e2b_feed_end_input(&p->feed);
}

void
e2b_process_signal(struct e2b_process *p, int signo)
{
    if (!p->has_end)
        e2b_feed_signal(&p->feed, signo);
}

void
e2b_process_pause(struct e2b_process *p, bool paused)
{
    p->paused = paused;
    if (p->stream != NULL)
        e2b_data_pause(p->stream, paused);
}

void
e2b_process_drop(struct e2b_process *p)
{
    if (p != NULL)
        free_process(p);
}
