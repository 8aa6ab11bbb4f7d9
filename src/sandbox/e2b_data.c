/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_data_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "net/retry.h"
#include "sandbox/e2b_wire_internal.h"

#define LOG_MODULE "e2b"

#define MAX_REFUSAL_BYTES ((size_t)65536)

/* A program that has just been started is not listening yet, and a sandbox is
   between two states for seconds. */
enum { MAX_TURNED_BACK = 8, TURNED_BACK_MS = 300 };

static const int ports[E2B_N_SERVICES] = {49983, 49999};
static const char *const services[E2B_N_SERVICES] = {"daemon", "interpreter"};

struct e2b_data {
    struct e2b_site *site; /* borrowed */
    struct e2b_data_handlers on;
    void *ctx;

    enum e2b_service service;
    const char *method; /* static */
    char *url;          /* owned */
    char *content_type; /* owned */
    char *body;         /* owned */
    size_t body_len;
    struct http_body stream;
    bool has_stream;
    struct http_header headers[E2B_DATA_MAX_HEADERS]; /* texts owned */
    size_t n_headers;
    size_t collect_bytes;
    int64_t stall_ms;
    int64_t limit_ms;
    int64_t end_ms; /* 0: no limit */
    bool repeatable;
    const char *doing;

    struct http_call *http;
    struct loop_timer *limit;
    struct loop_timer *wait;
    struct loop_task *task;
    int attempt;
    int n_turned_back;
    int status;
    bool has_body;   /* some of it was passed on */
    bool all_sent;   /* of this try */
    bool maybe_done; /* a try may have been carried out */
    bool paused;
    struct sbuf reply;
};

/* --- sites --- */

int
e2b_site_init(struct e2b_site *site, struct loop *loop, struct http *http,
              const char *form, const char *domain, struct e2b_sandbox *s,
              struct error *err)
{
    struct e2b_site made = {.loop = loop, .http = http};
    bool has_token =
        !secret_is_empty(s->envd_token) || !secret_is_empty(s->traffic_token);

    for (size_t i = 0; i < E2B_N_SERVICES; i++) {
        made.url[i] =
            e2b_sandbox_url(form, s->id, ports[i],
                            s->domain[0] != '\0' ? s->domain : domain, err);
        if (made.url[i] == NULL ||
            (has_token &&
             e2b_check_encrypted("sandbox_url", made.url[i],
                                 "the sandbox's token", err) < 0)) {
            e2b_site_fini(&made);
            return -1;
        }
    }
    memcpy(made.id, s->id, sizeof(made.id));
    memcpy(made.envd, s->envd, sizeof(made.envd));
    made.envd_token = take_ptr(&s->envd_token);
    made.traffic_token = take_ptr(&s->traffic_token);
    *site = made;
    return 0;
}

void
e2b_site_fini(struct e2b_site *site)
{
    for (size_t i = 0; i < E2B_N_SERVICES; i++) {
        free(site->url[i]);
    }
    secret_free(site->envd_token);
    secret_free(site->traffic_token);
    memset(site, 0, sizeof(*site));
}

bool
e2b_site_has(const struct e2b_site *site, int major, int minor, int patch)
{
    const int wanted[3] = {major, minor, patch};

    for (size_t i = 0; i < 3; i++) {
        if (site->envd[i] != wanted[i]) {
            return site->envd[i] > wanted[i];
        }
    }
    return true;
}

bool
e2b_site_names_user(const struct e2b_site *site)
{
    return !e2b_site_has(site, 0, 4, 0);
}

/* --- the end of a call --- */

static void
free_data(struct e2b_data *d)
{
    loop_timer_remove(d->limit);
    loop_timer_remove(d->wait);
    loop_task_remove(d->task);
    for (size_t i = 0; i < d->n_headers; i++) {
        free_const(d->headers[i].name);
        free_const(d->headers[i].value);
    }
    free(d->url);
    free(d->content_type);
    free(d->body);
    sbuf_fini(&d->reply);
    free(d);
}

void
e2b_data_drop(struct e2b_data *d)
{
    if (d == NULL) {
        return;
    }
    if (d->http != NULL) {
        http_drop(d->http);
    }
    free_data(d);
}

static void
end(struct e2b_data *d, const struct e2b_data_result *result)
{
    if (result->err != NULL) {
        LOG_INFO("%s", result->err->msg);
    }
    d->on.on_done(d->ctx, result);
    free_data(d);
}

static void
end_with(struct e2b_data *d, enum e2b_trouble trouble, const struct error *err)
{
    end(d, &(struct e2b_data_result){
               .trouble = trouble,
               .http_status = d->status,
               .body = "",
               .err = err,
               .not_sent = !d->repeatable && !d->maybe_done,
           });
}

/* --- what an answer means --- */

static bool
has_words(const struct e2b_data *d, const char *words)
{
    return d->reply.data != NULL && strcasestr(d->reply.data, words) != NULL;
}

static bool
is_page(const struct e2b_data *d)
{
    const char *text = d->reply.data != NULL ? d->reply.data : "";

    return text[strspn(text, " \t\r\n")] == '<';
}

/* What stands in front of the sandboxes answers by itself with 502, 409, 429
   and 403, as JSON that names the sandbox, or with a page for a browser. */
static bool
is_of_proxy(const struct e2b_data *d)
{
    return has_words(d, "\"sandboxId\"") || is_page(d);
}

static enum e2b_trouble
find_trouble(const struct e2b_data *d)
{
    if (d->status == 502 && (has_words(d, "port is not open") ||
                             has_words(d, "no service running on port"))) {
        return E2B_TROUBLE_CLOSED;
    }
    if (d->status == 502 && has_words(d, "sandbox") &&
        has_words(d, "not found")) {
        return E2B_TROUBLE_GONE;
    }
    if (d->status == 409 && is_of_proxy(d)) {
        return E2B_TROUBLE_CHANGING;
    }
    if (d->status >= 502 && d->status <= 504) {
        return E2B_TROUBLE_CUT;
    }
    return E2B_TROUBLE_REFUSED;
}

/*
 * Whether the proxy answered before it passed anything on. "The port is not
 * open" is no sign of that: it says so of every connection to the service that
 * ends without an answer, also when the service died of what it was asked.
 */
static bool
was_turned_away(const struct e2b_data *d, enum e2b_trouble trouble)
{
    return trouble == E2B_TROUBLE_GONE || trouble == E2B_TROUBLE_CHANGING ||
           ((d->status == 403 || d->status == 429) && is_of_proxy(d));
}

/* The try that ends now got no answer. */
static void
note_unanswered(struct e2b_data *d)
{
    if (d->all_sent || d->status != 0 || d->body_len == 0) {
        d->maybe_done = true;
    }
}

static enum error_code
code_of_refusal(int status)
{
    if (status == 401 || status == 403) {
        return ERR_AUTH;
    }
    if (status == 413) {
        return ERR_TOO_LARGE;
    }
    if (status == 429) {
        return ERR_RATE_LIMIT;
    }
    return status == 507 ? ERR_LIMIT : ERR_REMOTE;
}

static void
describe(const struct e2b_data *d, enum e2b_trouble trouble,
         const struct e2b_status *status, struct error *err)
{
    const char *service = services[d->service];

    switch (trouble) {
    case E2B_TROUBLE_NONE:
        break;
    case E2B_TROUBLE_GONE:
        error_fill(err, ERR_SANDBOX,
                   "%s: sandbox %s does not run any more: its time was over, "
                   "or it was ended or paused",
                   d->doing, d->site->id);
        break;
    case E2B_TROUBLE_CLOSED:
        error_fill(err, ERR_SANDBOX, "%s: the %s of sandbox %s does not answer",
                   d->doing, service, d->site->id);
        break;
    case E2B_TROUBLE_CHANGING:
        error_fill(err, ERR_SANDBOX,
                   "%s: sandbox %s is between two states and stays so",
                   d->doing, d->site->id);
        break;
    case E2B_TROUBLE_CUT:
        error_fill(err, ERR_NET, "%s: sandbox %s: status %d: %s", d->doing,
                   d->site->id, d->status,
                   status->message != NULL ? status->message
                                           : "no words of the service");
        break;
    case E2B_TROUBLE_LATE:
        error_fill(err, ERR_TIMEOUT, "%s: sandbox %s: no answer within %lld s",
                   d->doing, d->site->id,
                   (long long)((d->limit_ms + 999) / 1000));
        break;
    case E2B_TROUBLE_REFUSED:
        error_fill(err, code_of_refusal(d->status), "%s: status %d: %s",
                   d->doing, d->status,
                   status->message != NULL ? status->message
                                           : e2b_code_name(status->code));
        break;
    }
    err->http_status = d->status;
}

/* --- tries --- */

static void send_again(void *ctx);

static int64_t
left_ms(const struct e2b_data *d)
{
    return d->end_ms > 0 ? d->end_ms - clock_now_ms() : INT64_MAX;
}

static void
wait_and_send(struct e2b_data *d, int64_t ms)
{
    LOG_DBG("%s: status %d; again in %lld ms", d->doing, d->status,
            (long long)ms);
    d->wait = loop_add_timer(d->site->loop, ms, send_again, d);
}

static bool
turn_back(struct e2b_data *d, enum e2b_trouble trouble)
{
    int64_t ms = (int64_t)(TURNED_BACK_MS * (1 + e2b_random()));

    if ((trouble != E2B_TROUBLE_CHANGING &&
         !(trouble == E2B_TROUBLE_CLOSED && d->repeatable)) ||
        d->n_turned_back >= MAX_TURNED_BACK || ms >= left_ms(d)) {
        return false;
    }
    d->n_turned_back++;
    wait_and_send(d, ms);
    return true;
}

/* answered: the answer came whole; one that did not has no status to go by. */
static bool
try_again(struct e2b_data *d, bool answered, const char *should_retry,
          const char *retry_after)
{
    struct retry_facts facts = {
        .repeatable = d->repeatable && !d->has_body,
        .status = answered ? d->status : 0,
        .should_retry = should_retry,
        .retry_after = retry_after,
        .attempt = d->attempt - d->n_turned_back,
        .left_ms = left_ms(d),
        .random = e2b_random(),
    };
    int64_t ms = retry_wait_ms(&facts);

    if (ms < 0) {
        return false;
    }
    wait_and_send(d, ms);
    return true;
}

static bool
is_success(const struct e2b_data *d)
{
    return d->status >= 200 && d->status < 300;
}

static void
end_success(struct e2b_data *d)
{
    end(d, &(struct e2b_data_result){
               .trouble = E2B_TROUBLE_NONE,
               .http_status = d->status,
               .body = d->reply.data != NULL ? d->reply.data : "",
               .body_len = d->reply.len,
           });
}

static void
end_failure(struct e2b_data *d, const struct error *failure)
{
    struct error err = {0};

    error_fill(&err, failure->code, "%s: sandbox %s: %s", d->doing, d->site->id,
               failure->msg);
    end_with(d,
             failure->code == ERR_IO || failure->code == ERR_PROTOCOL ||
                     failure->code == ERR_CONFIG
                 ? E2B_TROUBLE_REFUSED
                 : E2B_TROUBLE_CUT,
             &err);
}

static void
end_refusal(struct e2b_data *d, enum e2b_trouble trouble)
{
    struct e2b_data_result result = {
        .trouble = trouble,
        .http_status = d->status,
        .body = "",
        .not_sent = !d->repeatable && !d->maybe_done,
    };
    struct error err = {0};

    e2b_status_of_failure(d->status, d->reply.data != NULL ? d->reply.data : "",
                          d->reply.len, &result.status);
    describe(d, trouble, &result.status, &err);
    result.err = &err;
    end(d, &result);
    e2b_status_fini(&result.status);
}

/* There is an answer, as far as it is of use. */
static void
take_answer(struct e2b_data *d, const char *should_retry,
            const char *retry_after)
{
    enum e2b_trouble trouble = find_trouble(d);

    if (is_success(d)) {
        end_success(d);
        return;
    }
    d->maybe_done = d->maybe_done || !was_turned_away(d, trouble);
    if (turn_back(d, trouble)) {
        return;
    }
    if (trouble == E2B_TROUBLE_GONE || trouble == E2B_TROUBLE_CLOSED ||
        trouble == E2B_TROUBLE_CHANGING ||
        !try_again(d, true, should_retry, retry_after)) {
        end_refusal(d, trouble);
    }
}

static void
on_done(void *ctx, const struct error *failure)
{
    struct e2b_data *d = ctx;
    AUTO_FREE char *should_retry = NULL;
    AUTO_FREE char *retry_after = NULL;

    if (failure == NULL) {
        should_retry = xstrdup(http_header(d->http, "should-retry"));
        retry_after = xstrdup(http_header(d->http, "retry-after"));
    }
    d->http = NULL;
    if (failure == NULL) {
        take_answer(d, should_retry, retry_after);
        return;
    }
    note_unanswered(d);
    if (!error_is_retryable(failure->code) ||
        !try_again(d, false, NULL, NULL)) {
        end_failure(d, failure);
    }
}

/* What is left out of a refusal says nothing more. */
static void
on_long_refusal(void *ctx)
{
    struct e2b_data *d = ctx;

    d->task = NULL;
    take_answer(d, NULL, NULL);
}

static void
on_too_large(void *ctx)
{
    struct e2b_data *d = ctx;
    struct error err = {0};

    d->task = NULL;
    d->maybe_done = true;
    error_fill(&err, ERR_TOO_LARGE,
               "%s: sandbox %s: an answer of more than %zu bytes", d->doing,
               d->site->id, d->collect_bytes);
    end_with(d, E2B_TROUBLE_REFUSED, &err);
}

static void
on_sent(void *ctx, int64_t sent, int64_t total)
{
    struct e2b_data *d = ctx;

    d->all_sent = sent == total;
    if (d->on.on_sent != NULL) {
        d->on.on_sent(d->ctx, sent, total);
    }
}

static void
on_head(void *ctx, int status)
{
    struct e2b_data *d = ctx;

    d->status = status;
    d->all_sent = true;
    if (is_success(d) && d->on.on_head != NULL) {
        d->on.on_head(d->ctx, status);
    }
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct e2b_data *d = ctx;

    if (is_success(d) && d->collect_bytes == 0) {
        d->has_body = true;
        d->on.on_body(d->ctx, data, len);
        return;
    }
    sbuf_add(&d->reply, data, len);
    if (!sbuf_ok(&d->reply)) {
        http_drop(d->http);
        d->http = NULL;
        d->task = loop_defer(d->site->loop,
                             is_success(d) ? on_too_large : on_long_refusal, d);
    }
}

static void
on_limit(void *ctx)
{
    struct e2b_data *d = ctx;
    struct error err = {0};

    d->limit = NULL;
    if (d->http != NULL) {
        note_unanswered(d);
        http_drop(d->http);
        d->http = NULL;
    }
    describe(d, E2B_TROUBLE_LATE, NULL, &err);
    end_with(d, E2B_TROUBLE_LATE, &err);
}

/* --- sending --- */

static size_t
add_headers(const struct e2b_data *d, struct http_header *headers)
{
    size_t n = 0;
    static char port_texts[E2B_N_SERVICES][8] = {"49983", "49999"};

    /* The proxy answers with a page where this does not say otherwise. */
    headers[n++] = (struct http_header){"Accept", "application/json"};
    headers[n++] = (struct http_header){"E2b-Sandbox-Id", d->site->id};
    headers[n++] =
        (struct http_header){"E2b-Sandbox-Port", port_texts[d->service]};
    if (d->content_type != NULL) {
        headers[n++] = (struct http_header){"Content-Type", d->content_type};
    }
    for (size_t i = 0; i < d->n_headers; i++) {
        headers[n++] = d->headers[i];
    }
    return n;
}

static int
start(struct e2b_data *d, struct error *err)
{
    static const struct http_handlers handlers = {.on_sent = on_sent,
                                                  .on_head = on_head,
                                                  .on_body = on_body,
                                                  .on_done = on_done};
    struct http_header headers[E2B_DATA_MAX_HEADERS + 4];
    struct http_extra_header traffic = {"e2b-traffic-access-token",
                                        d->site->traffic_token};
    struct http_request request = {
        .method = d->method,
        .url = d->url,
        .headers = headers,
        .n_headers = add_headers(d, headers),
        .secret_header =
            secret_is_empty(d->site->envd_token) ? NULL : "X-Access-Token",
        .secret = d->site->envd_token,
        .extra = &traffic,
        .n_extra = secret_is_empty(d->site->traffic_token) ? 0 : 1,
        .body = d->body,
        .body_len = d->body_len,
        .stream = d->has_stream ? &d->stream : NULL,
        .stall_ms = d->stall_ms,
        .http1_only = true,
        .own_connection = !d->repeatable,
    };

    sbuf_clear(&d->reply);
    d->status = 0;
    d->all_sent = false;
    d->attempt++;
    d->http = http_start(d->site->http, &request, &handlers, d, err);
    if (d->http == NULL && err->code == ERR_USAGE) {
        err->code = ERR_CONFIG;
    }
    if (d->http == NULL) {
        return -1;
    }
    if (d->paused) {
        http_pause(d->http, true);
    }
    return 0;
}

static void
send_again(void *ctx)
{
    struct e2b_data *d = ctx;
    struct error err = {0};

    d->wait = NULL;
    if (start(d, &err) < 0) {
        end_failure(d, &err);
    }
}

static void
copy_request(struct e2b_data *d, const struct e2b_data_request *request)
{
    d->service = request->service;
    d->method = request->method;
    d->url = xasprintf("%s%s", d->site->url[request->service], request->path);
    d->content_type = xstrdup(request->content_type);
    if (request->body != NULL) {
        d->body = xmemdup(request->body, request->body_len);
        d->body_len = request->body_len;
    }
    d->has_stream = request->stream != NULL;
    if (d->has_stream) {
        d->stream = *request->stream;
        d->body_len =
            (size_t)d->stream.len + d->stream.head_len + d->stream.tail_len;
    }
    for (size_t i = 0; i < request->n_headers; i++) {
        d->headers[i].name = xstrdup(request->headers[i].name);
        d->headers[i].value = xstrdup(request->headers[i].value);
    }
    d->n_headers = request->n_headers;
    d->collect_bytes = request->collect_bytes;
    d->stall_ms = request->stall_ms;
    d->limit_ms = request->limit_ms;
    d->repeatable = request->repeatable;
    d->doing = request->doing;
}

struct e2b_data *
e2b_data_start(struct e2b_site *site, const struct e2b_data_request *request,
               const struct e2b_data_handlers *on, void *ctx, struct error *err)
{
    struct e2b_data *d = NULL;
    size_t most = request->collect_bytes > MAX_REFUSAL_BYTES
                      ? request->collect_bytes
                      : MAX_REFUSAL_BYTES;

    assert(request->n_headers <= E2B_DATA_MAX_HEADERS);
    assert(request->collect_bytes > 0 || on->on_body != NULL);
    d = xcalloc(1, sizeof(*d));
    d->site = site;
    d->on = *on;
    d->ctx = ctx;
    copy_request(d, request);
    sbuf_init(&d->reply, most);
    if (start(d, err) < 0) {
        free_data(d);
        return NULL;
    }
    if (d->limit_ms > 0) {
        d->end_ms = clock_now_ms() + d->limit_ms;
        d->limit = loop_add_timer(site->loop, d->limit_ms, on_limit, d);
    }
    return d;
}

const char *
e2b_data_header(const struct e2b_data *d, const char *name)
{
    return d->http != NULL ? http_header(d->http, name) : NULL;
}

void
e2b_data_pause(struct e2b_data *d, bool paused)
{
    d->paused = paused;
    if (d->http != NULL) {
        http_pause(d->http, paused);
    }
}
