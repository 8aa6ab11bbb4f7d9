/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A client of a service that answers from a list, and keeps the requests.
 * Whoever includes this uses all of it.
 */
#ifndef UNIT_CLAUDE_LIST_H
#define UNIT_CLAUDE_LIST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "claude/claude.h"
#include "claude/history.h"
#include "claude/transport.h"

/* What comes back for one request. */
struct answer {
    int status;
    const char *body;
    bool vendor; /* with the header that the vendor's own service sends */
    bool cut;
};

#define MAX_REQUESTS 8

struct fixture {
    struct loop *loop;
    struct transport transport;
    struct claude_history *history;
    struct claude *claude;
    struct claude_call *call;

    const struct answer *answers;
    size_t n_requests;
    char *bodies[MAX_REQUESTS]; /* owned */
    struct transport_handlers on;
    void *ctx;

    struct sbuf log;
    bool cancel_on_notice;
    enum claude_stop stop;
    size_t n_calls;
};

/* --- a transport that answers from a list --- */

static void
give_answer(void *ctx)
{
    struct fixture *f = ctx;
    const struct answer *a = &f->answers[f->n_requests - 1];
    const struct error broken = {.code = ERR_NET, .msg = "broken"};

    if (!a->cut) {
        f->on.on_head(f->ctx, a->status);
        f->on.on_body(f->ctx, a->body, strlen(a->body));
    }
    f->on.on_done(f->ctx, a->cut ? &broken : NULL);
}

static struct transport_call *
list_start(void *transport, const struct transport_request *request,
           const struct transport_handlers *on, void *ctx, struct error *err)
{
    struct fixture *f = transport;

    (void)err;
    assert_true(f->n_requests < MAX_REQUESTS);
    f->bodies[f->n_requests++] = xstrndup(request->body, request->body_len);
    f->on = *on;
    f->ctx = ctx;
    loop_defer(f->loop, give_answer, f);
    return transport;
}

static const char *
list_header(const struct transport_call *call, const char *name)
{
    const struct fixture *f = (const struct fixture *)(const void *)call;
    const struct answer *a = &f->answers[f->n_requests - 1];

    if (strcmp(name, "anthropic-organization-id") == 0) {
        return a->vendor ? "org" : NULL;
    }
    return strcmp(name, "retry-after-ms") == 0 ? "1" : NULL;
}

static void
list_nothing(struct transport_call *call)
{
    (void)call;
}

static void
list_free(void *transport)
{
    (void)transport;
}

static const struct transport_ops list_ops = {
    .name = "list",
    .start = list_start,
    .header = list_header,
    .cancel = list_nothing,
    .drop = list_nothing,
    .free = list_free,
};

/* --- the caller --- */

static void
on_retry(void *ctx, int attempt, int64_t wait_ms, const struct error *err)
{
    struct fixture *f = ctx;

    (void)wait_ms;
    sbuf_addf(&f->log, "retry %d %s ", attempt, error_code_name(err->code));
}

static void
on_notice(void *ctx, const char *text)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "notice %s ",
              strstr(text, "thinking; the") != NULL ? "stripped"
                                                    : "compatible");
    if (f->cancel_on_notice) {
        claude_cancel(f->call);
    }
}

static void
on_done(void *ctx, const struct claude_reply *reply, const struct error *err)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "done %s ", err != NULL ? err->msg : "-");
    if (err == NULL) {
        f->stop = reply->stop;
        f->n_calls = reply->n_calls;
    }
    loop_stop(f->loop);
}

static const struct claude_handlers handlers = {
    .on_retry = on_retry,
    .on_notice = on_notice,
    .on_done = on_done,
};

static void
set_up(struct fixture *f, const char *model, enum claude_dialect dialect,
       bool foreign, const struct answer *answers)
{
    const struct claude_config config = {
        .model = model,
        .max_tokens = 100,
        .dialect = dialect,
        .max_attempts = 2,
        .system = "S",
    };
    struct error err = {0};

    *f = (struct fixture){.answers = answers};
    f->loop = loop_new(NULL);
    sbuf_init(&f->log, 65536);
    f->transport =
        (struct transport){.ops = &list_ops, .impl = f, .is_foreign = foreign};
    f->history = claude_history_new();
    assert_int_equal(claude_history_add_user(f->history, "q", 1, NULL), 0);
    f->claude = claude_new(f->loop, &f->transport, &config, &err);
    if (f->claude == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void
tear_down(struct fixture *f)
{
    claude_free(f->claude);
    claude_history_free(f->history);
    loop_free(f->loop);
    sbuf_fini(&f->log);
    for (size_t i = 0; i < f->n_requests; i++) {
        free(f->bodies[i]);
    }
}

static void
ask(struct fixture *f)
{
    struct error err = {0};

    f->call = claude_send(f->claude, f->history, &handlers, f, &err);
    if (f->call == NULL) {
        fail_msg("%s", err.msg);
    }
    loop_run(f->loop);
}

#define START "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
#define BLOCK_TEXT                                                             \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"  \
    "\"type\":\"text\",\"text\":\"x\"}}\n\n"                                   \
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
#define END(reason)                                                            \
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason   \
    "\"},\"usage\":null}\n\n"
#define STOP "data: {\"type\":\"message_stop\"}\n\n"
#define REPLY START BLOCK_TEXT END("end_turn") STOP

/* What the history has of replies. */
#define TEXT "{\"type\":\"text\",\"text\":\"x\"}"
#define THOUGHT                                                                \
    "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"}"

static bool
has(const struct fixture *f, size_t i, const char *what)
{
    assert_true(i < f->n_requests);
    return strstr(f->bodies[i], what) != NULL;
}

#endif
