/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_feed_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/log.h"
#include "sandbox/e2b_launch_internal.h"
#include "sandbox/e2b_watch_internal.h"

#define LOG_MODULE "e2b"

#define MAX_ANSWER_BYTES ((size_t)65536)
#define MAX_REQUEST_BYTES ((size_t)24 << 20)

/* A program may be slow to read; one that knows its input reads at once. */
enum { INPUT_MS = 600000, KNOWN_INPUT_MS = 30000, SIGNAL_MS = 30000 };

struct e2b_feed_item {
    struct e2b_feed_item *next;
    char *data; /* owned; NULL: the end of the input */
    size_t len;
};

/*
 * The watch leads a group of its own and hands signals on. What ends
 * everything is asked of it; where it does not run, or does not end, its group
 * is killed. $1: the process, $2: the signal, $3: what ends everything.
 */
static const char send_signal[] =
    "if [ \"$2\" != 9 ]; then exec kill \"-$2\" -- \"-$1\"; fi\n"
    "kill \"-$3\" \"$1\" 2>/dev/null\n"
    "for i in {1..80}; do kill -0 \"$1\" 2>/dev/null || break; sleep 0.1; "
    "done\n"
    "kill -KILL -- \"-$1\" 2>/dev/null";

static void send_next(struct e2b_feed *f);

/* --- the input --- */

static void
drop_items(struct e2b_feed *f)
{
    while (f->first != NULL) {
        struct e2b_feed_item *item = f->first;

        f->first = item->next;
        free(item->data);
        free(item);
    }
    f->last = NULL;
}

static void
on_input_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_feed *f = ctx;
    struct e2b_feed_item *item = f->first;

    f->input = NULL;
    if (result->trouble == E2B_TROUBLE_NONE) {
        f->first = item->next;
        if (f->first == NULL)
            f->last = NULL;
        free(item->data);
        free(item);
        send_next(f);
        return;
    }
    /* One that has ended, or does not read any more, as a pipe that is closed.
       What is wrong with the way to it is told. */
    f->ended = true;
    drop_items(f);
    if (result->trouble != E2B_TROUBLE_REFUSED)
        f->on_failed(f->ctx, result);
}

static int
start_input(struct e2b_feed *f, const struct e2b_feed_item *item,
            struct error *err)
{
    static const struct e2b_data_handlers handlers = {.on_done = on_input_done};
    struct http_header headers[E2B_RPC_MAX_HEADERS];
    AUTO_SBUF struct sbuf sb = {0};
    struct e2b_data_request request = {
        .service = E2B_ENVD,
        .method = "POST",
        .path = item->data != NULL ? "/process.Process/SendInput"
                                   : "/process.Process/CloseStdin",
        .content_type = "application/json",
        .headers = headers,
        .n_headers = e2b_launch_headers(f->site, headers),
        .collect_bytes = MAX_ANSWER_BYTES,
        .limit_ms = f->knows_input ? KNOWN_INPUT_MS : INPUT_MS,
        .repeatable = f->knows_input || item->data == NULL,
        .doing = f->doing,
    };

    sbuf_init(&sb, MAX_REQUEST_BYTES);
    sbuf_addf(&sb, "{\"process\":{\"pid\":%lld}", (long long)f->pid);
    if (item->data != NULL) {
        sbuf_add_str(&sb, ",\"input\":{\"stdin\":\"");
        base64_add(&sb, item->data, item->len);
        sbuf_add_str(&sb, "\"}");
    }
    sbuf_add_char(&sb, '}');
    request.body = sb.data;
    request.body_len = sb.len;
    f->input = e2b_data_start(f->site, &request, &handlers, f, err);
    return f->input != NULL ? 0 : -1;
}

static void
send_next(struct e2b_feed *f)
{
    struct error err = {0};

    if (f->pid == 0 || f->input != NULL || f->first == NULL)
        return;
    if (start_input(f, f->first, &err) < 0) {
        LOG_WARN("%s: %s", f->doing, err.msg);
        f->ended = true;
        drop_items(f);
    }
}

static void
add_item(struct e2b_feed *f, const char *data, size_t len)
{
    struct e2b_feed_item *item = xcalloc(1, sizeof(*item));

    item->data = data != NULL ? xmemdup(data, len) : NULL;
    item->len = len;
    if (f->last != NULL)
        f->last->next = item;
    else
        f->first = item;
    f->last = item;
}

void
e2b_feed_input(struct e2b_feed *f, const char *data, size_t len)
{
    size_t most = f->knows_input ? len : E2B_FEED_PIECE_BYTES;

    for (size_t at = 0; at < len && !f->ended; at += most)
        add_item(f, data + at, len - at < most ? len - at : most);
    send_next(f);
}

void
e2b_feed_end_input(struct e2b_feed *f)
{
    if (f->ended || !e2b_site_has(f->site, 0, 5, 2))
        return;
    add_item(f, NULL, 0);
    send_next(f);
}

/* --- signals --- */

static void send_signals(struct e2b_feed *f);

static void
ignore_bytes(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
}

static void
on_signal_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_feed *f = ctx;

    (void)result;
    f->signal = NULL;
    f->n_signals--;
    memmove(f->signals, f->signals + 1, f->n_signals * sizeof(f->signals[0]));
    send_signals(f);
}

static int
start_signal(struct e2b_feed *f, int signo, struct error *err)
{
    static const struct e2b_data_handlers handlers = {
        .on_body = ignore_bytes, .on_done = on_signal_done};
    struct http_header headers[E2B_RPC_MAX_HEADERS];
    AUTO_SBUF struct sbuf text = {0};
    AUTO_SBUF struct sbuf sb = {0};
    struct e2b_data_request request = {
        .service = E2B_ENVD,
        .method = "POST",
        .path = "/process.Process/Start",
        .content_type = "application/connect+json",
        .headers = headers,
        .n_headers = e2b_launch_headers(f->site, headers),
        .limit_ms = SIGNAL_MS,
        .doing = f->doing,
    };

    sbuf_init(&text, MAX_ANSWER_BYTES);
    sbuf_init(&sb, MAX_ANSWER_BYTES);
    sbuf_add_str(&text,
                 "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-c\",");
    json_add_str(&text, send_signal);
    sbuf_addf(&text, ",\"bash\",\"%lld\",\"%d\",\"%d\"]},\"stdin\":false}",
              (long long)f->pid, signo, E2B_WATCH_END_ALL);
    e2b_envelope_add(&sb, text.data, text.len);
    request.body = sb.data;
    request.body_len = sb.len;
    f->signal = e2b_data_start(f->site, &request, &handlers, f, err);
    return f->signal != NULL ? 0 : -1;
}

static void
send_signals(struct e2b_feed *f)
{
    struct error err = {0};

    if (f->n_signals == 0 || f->signal != NULL)
        return;
    if (start_signal(f, f->signals[0], &err) < 0) {
        LOG_WARN("%s: %s", f->doing, err.msg);
        f->n_signals = 0;
    }
}

void
e2b_feed_signal(struct e2b_feed *f, int signo)
{
    if (f->pid == 0)
        return;
    if (f->n_signals == E2B_FEED_MAX_SIGNALS) {
        if (signo != SIGKILL)
            return;
        f->n_signals--;
    }
    f->signals[f->n_signals++] = signo;
    send_signals(f);
}

/* --- all of it --- */

void
e2b_feed_init(struct e2b_feed *f, struct e2b_site *site, bool knows_input,
              const char *doing,
              void (*on_failed)(void *ctx,
                                const struct e2b_data_result *result),
              void *ctx)
{
    memset(f, 0, sizeof(*f));
    f->site = site;
    f->knows_input = knows_input;
    f->doing = doing;
    f->on_failed = on_failed;
    f->ctx = ctx;
}

void
e2b_feed_begin(struct e2b_feed *f, int64_t pid)
{
    f->pid = pid;
    send_next(f);
}

void
e2b_feed_fini(struct e2b_feed *f)
{
    e2b_data_drop(f->input);
    e2b_data_drop(f->signal);
    drop_items(f);
    memset(f, 0, sizeof(*f));
}
