/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "net/http_internal.h"

#define LOG_MODULE "http"

#define HTTP_MAX_HEAD_BYTES ((size_t)262144)
#define HTTP_CONNECT_MS 30000

bool
http_is_void(const struct http_call *call)
{
    return call->cancelled || call->dropped || call->http->freed;
}

/* --- releasing --- */

/* Takes a call out of everything that could still call it. */
static void
detach_call(struct http_call *call)
{
    struct http *http = call->http;

    if (call->added) {
        CURLMcode rc = curl_multi_remove_handle(http->multi, call->easy);

        assert(rc == CURLM_OK);
        (void)rc;
        call->added = false;
    }
    loop_timer_remove(call->stall_timer);
    loop_timer_remove(call->sent_timer);
    loop_task_remove(call->start_task);
    loop_task_remove(call->cancel_task);
    loop_task_remove(call->resume_task);
    call->stall_timer = NULL;
    call->sent_timer = NULL;
    call->start_task = NULL;
    call->cancel_task = NULL;
    call->resume_task = NULL;
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        http->calls = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
}

static void
free_call(struct http_call *call)
{
    curl_easy_cleanup(call->easy);
    http_free_lines(call);
    sbuf_fini(&call->head);
    http_gzip_free(call->gzip);
    free(call->host);
    free(call->port);
    free(call);
}

static void
free_socket(struct http_socket *s)
{
    struct http *http = s->http;

    loop_fd_remove(s->watch);
    if (s->prev != NULL) {
        s->prev->next = s->next;
    } else {
        http->sockets = s->next;
    }
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    free(s);
}

static void
destroy(struct http *http)
{
    while (http->calls != NULL) {
        struct http_call *call = http->calls;

        detach_call(call);
        free_call(call);
    }
    if (http->multi != NULL) {
        curl_multi_cleanup(http->multi);
        curl_global_cleanup();
    }
    while (http->sockets != NULL) {
        free_socket(http->sockets);
    }
    loop_timer_remove(http->timer);
    free(http->user_agent);
    free(http->ca_file);
    free(http->ca_name);
    free(http);
}

/* The end of everything that the loop began: what could not be freed while
   libcurl or a callback was running is freed here. */
void
http_leave(struct http *http)
{
    assert(http->busy > 0);
    http->busy--;
    if (http->busy > 0) {
        return;
    }
    if (http->freed) {
        destroy(http);
        return;
    }
    for (struct http_call *call = http->calls; call != NULL;) {
        struct http_call *next = call->next;

        if (call->dropped) {
            detach_call(call);
            free_call(call);
        }
        call = next;
    }
}

/* --- ending calls --- */

/* Calls on_done and frees the call. The caller has raised busy. */
static void
end_call(struct http_call *call, const struct error *err)
{
    assert(call->http->busy > 0);
    detach_call(call);
    LOG_DBG("%s: %s", call->host, err != NULL ? err->msg : "complete");
    if (!call->dropped && !call->http->freed) {
        call->on.on_done(call->ctx, err);
    }
    free_call(call);
}

static void
end_finished(struct http_call *call)
{
    struct error err = {0};

    /* Also before a failure: the peer may have acted on it. */
    if (!http_is_void(call)) {
        http_tell_all_sent(call);
    }
    if (call->cancelled) {
        error_fill(&err, ERR_CANCELLED, "cancelled");
    } else if (call->failure.code != ERR_NONE) {
        err = call->failure;
    } else if (call->result != CURLE_OK) {
        http_describe_failure(call, &err);
    } else if (!call->head_done) {
        error_fill(&err, ERR_NET, "%s: no answer", call->host);
    } else {
        end_call(call, NULL);
        return;
    }
    end_call(call, &err);
}

/* Reads all of libcurl's messages before the first callback, since a callback
   may free the calls that later ones are about. */
static void
end_all_finished(struct http *http)
{
    CURLMsg *msg;
    int left;

    while (true) {
        char *private = NULL;

        msg = curl_multi_info_read(http->multi, &left);
        if (msg == NULL) {
            break;
        }
        if (msg->msg != CURLMSG_DONE) {
            continue;
        }
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private);

        struct http_call *call = (struct http_call *)(void *)private;

        call->result = msg->data.result;
        call->finished = true;
    }

    struct http_call *call = http->calls;

    while (call != NULL && !http->freed) {
        if (call->finished && !call->dropped) {
            end_finished(call);
            call = http->calls; /* the callback may have changed the list */
        } else {
            call = call->next;
        }
    }
}

/* --- libcurl and the loop --- */

static void
act(struct http *http, curl_socket_t fd, int mask)
{
    int running = 0;

    http->busy++;
    curl_multi_socket_action(http->multi, fd, mask, &running);
    end_all_finished(http);
    http_leave(http);
}

static void
on_socket_ready(void *ctx, int fd, unsigned events)
{
    const struct http_socket *s = ctx;
    int mask = 0;

    if ((events & LOOP_READ) != 0) {
        mask |= CURL_CSELECT_IN;
    }
    if ((events & LOOP_WRITE) != 0) {
        mask |= CURL_CSELECT_OUT;
    }
    act(s->http, fd, mask);
}

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket)
{
    struct http *http = ctx;
    struct http_socket *s = socket;
    unsigned events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s != NULL) {
            free_socket(s);
            curl_multi_assign(http->multi, fd, NULL);
        }
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) {
        events |= LOOP_READ;
    }
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) {
        events |= LOOP_WRITE;
    }
    if (s != NULL) {
        loop_fd_set(s->watch, events);
        return 0;
    }
    s = xcalloc(1, sizeof(*s));
    s->http = http;
    s->next = http->sockets;
    if (s->next != NULL) {
        s->next->prev = s;
    }
    http->sockets = s;
    s->watch = loop_add_fd(http->loop, fd, events, on_socket_ready, s);
    curl_multi_assign(http->multi, fd, s);
    return 0;
}

static void
on_timer(void *ctx)
{
    struct http *http = ctx;

    http->timer = NULL;
    act(http, CURL_SOCKET_TIMEOUT, 0);
}

static int
set_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct http *http = ctx;

    (void)multi;
    loop_timer_remove(http->timer);
    http->timer = NULL;
    if (timeout_ms >= 0) {
        http->timer = loop_add_timer(http->loop, timeout_ms, on_timer, http);
    }
    return 0;
}

static int
set_up(struct http *http, struct error *err)
{
    if (http->multi != NULL) {
        return 0;
    }
    /* Not at the start of the program: loading the certificates' library takes
       longer than all else that the start does. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(err, ERR_NET, "libcurl cannot be set up");
    }
    http->multi = curl_multi_init();
    if (http->multi == NULL) {
        curl_global_cleanup();
        return err_set(err, ERR_NET, "libcurl cannot be set up");
    }
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    return 0;
}

/* --- callbacks of one transfer --- */

static void
add_header(struct http_call *call, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    const char *end = line + len;

    if (colon == NULL || memchr(line, '\0', len) != NULL) {
        return;
    }
    sbuf_add(&call->head, line, (size_t)(colon - line));
    sbuf_add_char(&call->head, '\0');
    colon++;
    while (colon < end && (*colon == ' ' || *colon == '\t')) {
        colon++;
    }
    while (end > colon && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    sbuf_add(&call->head, colon, (size_t)(end - colon));
    sbuf_add_char(&call->head, '\0');
}

static size_t
take_header(char *data, size_t size, size_t n, void *ctx)
{
    struct http_call *call = ctx;
    size_t given = size * n;
    size_t len = given;
    long status = 0;

    call->alive_ms = clock_now_ms();
    if (http_is_void(call)) {
        return 0;
    }
    if (call->head_done) {
        return given; /* trailers */
    }
    while (len > 0 && (data[len - 1] == '\r' || data[len - 1] == '\n')) {
        len--;
    }
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        sbuf_clear(&call->head);
        return given;
    }
    if (len > 0) {
        add_header(call, data, len);
        if (!sbuf_ok(&call->head)) {
            error_fill(&call->failure, ERR_NET,
                       "%s: the head of the answer is longer than %zu bytes",
                       call->host, HTTP_MAX_HEAD_BYTES);
            return 0;
        }
        return given;
    }
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200) {
        sbuf_clear(&call->head);
        return given;
    }
    call->head_done = true;
    call->on.on_head(call->ctx, (int)status);
    return http_is_void(call) ? 0 : given;
}

static size_t
take_body(char *data, size_t size, size_t n, void *ctx)
{
    struct http_call *call = ctx;
    size_t given = size * n;

    call->alive_ms = clock_now_ms();
    if (http_is_void(call) || !call->head_done) {
        return 0;
    }
    if (call->want_pause) {
        call->is_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    for (size_t at = 0; at < given;) {
        size_t len = given - at;

        if (len > HTTP_CHUNK_BYTES) {
            len = HTTP_CHUNK_BYTES;
        }
        call->on.on_body(call->ctx, data + at, len);
        if (http_is_void(call)) {
            return 0;
        }
        at += len;
    }
    return given;
}

static void
on_stall_timer(void *ctx)
{
    struct http_call *call = ctx;
    struct http *http = call->http;
    int64_t now = clock_now_ms();
    AUTO_SBUF struct sbuf time = {0};
    struct error err = {0};

    call->stall_timer = NULL;
    if (call->want_pause || call->is_paused ||
        http_get_sent(call) != call->seen_sent) {
        call->alive_ms = now;
        call->seen_sent = http_get_sent(call);
    }
    if (now - call->alive_ms < call->stall_ms) {
        call->stall_timer =
            loop_add_timer(http->loop, call->stall_ms - (now - call->alive_ms),
                           on_stall_timer, call);
        return;
    }
    http->busy++;
    sbuf_init(&time, STR_DURATION_BYTES);
    str_add_duration(&time, call->stall_ms);
    if (http_get_sent(call) < call->body_len) {
        error_fill(&err, ERR_TIMEOUT,
                   "%s has taken nothing of what is sent to it for %s",
                   call->host, time.data);
    } else {
        error_fill(&err, ERR_TIMEOUT, "nothing came from %s for %s", call->host,
                   time.data);
    }
    end_call(call, &err);
    http_leave(http);
}

/* libcurl takes no handle within its own callbacks, so it is given to it from
   the loop. */
static void
on_start(void *ctx)
{
    struct http_call *call = ctx;
    struct http *http = call->http;
    CURLMcode rc;

    call->start_task = NULL;
    http->busy++;
    rc = curl_multi_add_handle(http->multi, call->easy);
    if (rc == CURLM_OK) {
        call->added = true;
        call->alive_ms = clock_now_ms();
        if (call->stall_ms > 0) {
            call->stall_timer = loop_add_timer(http->loop, call->stall_ms,
                                               on_stall_timer, call);
        }
        http_watch_sent(call);
    } else {
        struct error err = {0};

        error_fill(&err, ERR_NET, "%s: %s", call->host,
                   curl_multi_strerror(rc));
        end_call(call, &err);
    }
    http_leave(http);
}

static void
on_cancel(void *ctx)
{
    struct http_call *call = ctx;
    struct http *http = call->http;

    call->cancel_task = NULL;
    http->busy++;
    end_finished(call);
    http_leave(http);
}

static void
on_resume(void *ctx)
{
    struct http_call *call = ctx;
    struct http *http = call->http;

    call->resume_task = NULL;
    if (call->want_pause || !call->is_paused) {
        return;
    }
    call->is_paused = false;
    call->alive_ms = clock_now_ms();
    http->busy++;
    /* Gives what it held back to take_body within this call. */
    curl_easy_pause(call->easy, CURLPAUSE_CONT);
    end_all_finished(http);
    http_leave(http);
}

static void
set_callbacks(struct http_call *call)
{
    CURL *easy = call->easy;

    http_set_body_callbacks(call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
}

/* --- public --- */

struct http *
http_new(struct loop *loop, const struct http_config *config)
{
    struct http *http = xcalloc(1, sizeof(*http));

    http->loop = loop;
    http->user_agent = xstrdup(config->user_agent);
    http->ca_file = xstrdup(config->ca_file);
    http->ca_name = xstrdup(config->ca_name);
    http->connect_ms =
        config->connect_ms > 0 ? config->connect_ms : HTTP_CONNECT_MS;
    return http;
}

void
http_free(struct http *http)
{
    if (http == NULL) {
        return;
    }
    if (http->busy > 0) {
        http->freed = true;
        return;
    }
    destroy(http);
}

struct http_call *
http_start(struct http *http, const struct http_request *request,
           const struct http_handlers *handlers, void *ctx, struct error *err)
{
    AUTO_FREE char *host = NULL;
    AUTO_FREE char *port = NULL;
    struct http_call *call;

    if (http_check_url(request->url, &host, &port, err) < 0 ||
        set_up(http, err) < 0) {
        return NULL;
    }
    call = xcalloc(1, sizeof(*call));
    call->http = http;
    call->on = *handlers;
    call->ctx = ctx;
    call->host = take_ptr(&host);
    call->port = take_ptr(&port);
    call->stall_ms = request->stall_ms;
    sbuf_init(&call->head, HTTP_MAX_HEAD_BYTES);
    call->easy = curl_easy_init();
    if (call->easy == NULL) {
        error_fill(err, ERR_NET, "libcurl cannot be set up");
        free_call(call);
        return NULL;
    }
    if (http_set_body(call, request, err) < 0 ||
        http_make_lines(call, request, err) < 0) {
        free_call(call);
        return NULL;
    }
    http_set_options(call, request);
    set_callbacks(call);
    call->next = http->calls;
    if (call->next != NULL) {
        call->next->prev = call;
    }
    http->calls = call;
    call->start_task = loop_defer(http->loop, on_start, call);
    return call;
}

const char *
http_header(const struct http_call *call, const char *name)
{
    const char *at = call->head.data;
    const char *end = at + call->head.len;

    while (at < end) {
        const char *value = at + strlen(at) + 1;

        if (str_eq_nocase(at, name)) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

void
http_cancel(struct http_call *call)
{
    if (call->cancelled || call->dropped) {
        return;
    }
    call->cancelled = true;
    call->cancel_task = loop_defer(call->http->loop, on_cancel, call);
}

void
http_drop(struct http_call *call)
{
    if (call->http->busy > 0) {
        call->dropped = true;
        return;
    }
    detach_call(call);
    free_call(call);
}

void
http_pause(struct http_call *call, bool paused)
{
    if (call->want_pause == paused) {
        return;
    }
    call->want_pause = paused;
    if (!paused && call->resume_task == NULL) {
        call->resume_task = loop_defer(call->http->loop, on_resume, call);
    }
}
