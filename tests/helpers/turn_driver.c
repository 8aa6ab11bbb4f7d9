/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The agent and the client of the service against a transport and a sandbox in
 * memory, for properties that hold wherever a reply is cut.
 *
 *     turn_driver HOW [-c] FILE...
 *
 * -c: the service is another vendor's, and known to be.
 * Each FILE is one reply as it comes over the wire. For every number of its
 * bytes, from none to all, an agent asks a question and gets only those; what
 * it asks next it is answered with "Answer N.", and so is a second question.
 * HOW says what follows the bytes:
 *
 *     ends      the connection ends as it should
 *     breaks    the connection breaks
 *     cancel    nothing, and the turn is cancelled
 *     retry     the connection breaks, and the same reply comes whole when it
 *               is asked for again
 *
 * Written are JSON lines: {"op":"cut","file":S,"bytes":N}, then either
 * {"op":"same"}, when all is as for one byte less, or what happened:
 *
 *     {"op":"request","body":S}
 *     {"op":"run","code":S}
 *     {"op":"turn","outcome":S,"shown":S}
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/transport.h"
#include "helpers/fake_sandbox.h"
#include "model/event.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define MAX_TEXT_BYTES (16u << 20)

/* A turn that needs longer is stuck. */
#define GUARD_MS 10000

enum how { HOW_ENDS, HOW_BREAKS, HOW_CANCEL, HOW_RETRY };

static const char *const hows[] = {
    [HOW_ENDS] = "ends",
    [HOW_BREAKS] = "breaks",
    [HOW_CANCEL] = "cancel",
    [HOW_RETRY] = "retry",
};

static const char *const questions[] = {"First question?", "Second question?"};

struct driver;

struct transport_call {
    struct driver *d;
    struct transport_handlers on;
    void *ctx;
    struct loop_task *task;
    struct sbuf body; /* what comes */
    bool whole;       /* the connection ends as it should */
    bool hangs;       /* nothing follows, and the turn is cancelled */
    bool cancelled;
    int n_steps;
};

struct box {
    struct fake_sandbox fake; /* first */
    struct driver *d;
};

struct driver {
    struct loop *loop;
    enum how how;
    bool compatible;
    const char *bytes; /* of the reply that is cut */
    size_t len;
    size_t n_cut; /* so many of them come */

    struct agent *agent;
    int n_requests;
    struct transport_call *call;
    struct sbuf shown;
    struct sbuf log;
    bool stuck;
};

static void __attribute__((noreturn)) fail(const char *what, const char *detail)
{
    fprintf(stderr, "turn_driver: %s: %s\n", what, detail);
    exit(1);
}

static void
log_string(struct driver *d, const char *op, const char *key, const char *text,
           size_t len)
{
    sbuf_addf(&d->log, "{\"op\":\"%s\",\"%s\":", op, key);
    json_add_string(&d->log, text, len);
    sbuf_add_str(&d->log, "}\n");
}

/* --- the service --- */

static void
add_answer(struct sbuf *sb, int n)
{
    sbuf_add_str(sb,
                 "data: {\"type\":\"message_start\",\"message\":{"
                 "\"model\":\"claude-opus-5-5\",\"content\":[],\"usage\":{"
                 "\"input_tokens\":1,\"output_tokens\":1}}}\n\n"
                 "data: {\"type\":\"content_block_start\",\"index\":0,"
                 "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
    sbuf_addf(sb,
              "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
              "{\"type\":\"text_delta\",\"text\":\"Answer %d.\"}}\n\n",
              n);
    sbuf_add_str(sb, "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                     "data: {\"type\":\"message_delta\",\"delta\":{"
                     "\"stop_reason\":\"end_turn\"},\"usage\":{"
                     "\"output_tokens\":3}}\n\n"
                     "data: {\"type\":\"message_stop\"}\n\n");
}

static void
end_call(struct transport_call *call, enum error_code code)
{
    struct transport_handlers on = call->on;
    void *ctx = call->ctx;
    struct error err = {0};

    call->d->call = NULL;
    sbuf_fini(&call->body);
    free(call);
    if (code != ERR_NONE)
        error_fill(&err, code, "the connection ended");
    on.on_done(ctx, code != ERR_NONE ? &err : NULL);
}

static void
on_step(void *ctx)
{
    struct transport_call *call = ctx;
    struct driver *d = call->d;

    call->task = NULL;
    if (call->cancelled) {
        end_call(call, ERR_CANCELLED);
        return;
    }
    call->n_steps++;
    call->task = loop_defer(d->loop, on_step, call);
    if (call->n_steps == 1) {
        call->on.on_head(call->ctx, 200);
    } else if (call->n_steps == 2) {
        if (call->body.len > 0)
            call->on.on_body(call->ctx, call->body.data, call->body.len);
    } else {
        loop_task_remove(call->task);
        call->task = NULL;
        if (call->hangs)
            agent_cancel(d->agent);
        else
            end_call(call, call->whole ? ERR_NONE : ERR_NET);
    }
}

static struct transport_call *
service_start(void *impl, const struct transport_request *request,
              const struct transport_handlers *handlers, void *ctx,
              struct error *err)
{
    struct driver *d = impl;
    struct transport_call *call = xcalloc(1, sizeof(*call));
    int n = ++d->n_requests;

    (void)err;
    log_string(d, "request", "body", request->body, request->body_len);
    call->d = d;
    call->on = *handlers;
    call->ctx = ctx;
    call->whole = true;
    sbuf_init(&call->body, MAX_TEXT_BYTES);
    if (n == 1) {
        sbuf_add(&call->body, d->bytes, d->n_cut);
        call->whole = d->how == HOW_ENDS;
        call->hangs = d->how == HOW_CANCEL;
    } else if (n == 2 && d->how == HOW_RETRY && d->n_cut < d->len) {
        sbuf_add(&call->body, d->bytes, d->len);
    } else {
        add_answer(&call->body, n);
    }
    d->call = call;
    call->task = loop_defer(d->loop, on_step, call);
    return call;
}

static const char *
service_header(const struct transport_call *call, const char *name)
{
    if (str_eq_nocase(name, "content-type"))
        return "text/event-stream";
    return call->d->how == HOW_RETRY && str_eq_nocase(name, "retry-after-ms")
               ? "1"
               : NULL;
}

static void
service_cancel(struct transport_call *call)
{
    call->cancelled = true;
    if (call->task == NULL)
        call->task = loop_defer(call->d->loop, on_step, call);
}

static void
service_drop(struct transport_call *call)
{
    call->d->call = NULL;
    loop_task_remove(call->task);
    sbuf_fini(&call->body);
    free(call);
}

static void
service_free(void *impl)
{
    (void)impl;
}

static const struct transport_ops service_ops = {
    .name = "memory",
    .start = service_start,
    .header = service_header,
    .cancel = service_cancel,
    .drop = service_drop,
    .free = service_free,
};

/* --- the sandbox --- */

static void
end_cell(void *fake)
{
    struct fake_sandbox *f = fake;
    const struct sandbox_outcome o = {.outcome = EVENT_OK, .duration_ms = 1};

    f->on.on_bytes(f->ctx, EVENT_STDOUT, "printed\n", 8);
    f->on.on_done(f->ctx, SANDBOX_DONE, &o, NULL);
}

static void
box_run(struct sandbox_backend *base, const struct sandbox_cell *cell,
        const struct sandbox_cell_handlers *on, void *ctx)
{
    struct box *b = (struct box *)base;

    if (!cell->silent)
        log_string(b->d, "run", "code", cell->code, cell->code_len);
    b->fake.on = *on;
    b->fake.ctx = ctx;
    fake_sandbox_defer(&b->fake, end_cell);
}

static void
box_interrupt(struct sandbox_backend *base)
{
    (void)base;
}

static const char *const languages[] = {"python", NULL};
static const struct sandbox_caps caps = {.name = "memory",
                                         .stateful = true,
                                         .puts_early = true,
                                         .languages = languages};
static const struct sandbox_ops box_ops = {
    .open = fake_sandbox_open,
    .put = fake_sandbox_put,
    .run_cell = box_run,
    .run_script = fake_sandbox_no_script,
    .interrupt = box_interrupt,
    .list = fake_sandbox_list,
    .get = fake_sandbox_get,
    UNUSED_SANDBOX_OPS,
    .close = fake_sandbox_close,
};

/* --- what is shown, and the end of a turn --- */

static int
put_event(void *sink, const struct event *ev, struct error *err)
{
    struct driver *d = sink;

    (void)err;
    if (ev->kind == EVENT_TEXT && ev->len > 0)
        sbuf_add(&d->shown, ev->text, ev->len);
    return 0;
}

static const struct sink_ops sink_ops = {.name = "shown", .put = put_event};

static void
on_turn_over(void *ctx, enum event_outcome outcome, const struct error *err)
{
    struct driver *d = ctx;

    (void)err;
    sbuf_addf(&d->log, "{\"op\":\"turn\",\"outcome\":\"%s\",\"shown\":",
              event_outcome_name(outcome));
    json_add_string(&d->log, d->shown.data, d->shown.len);
    sbuf_add_str(&d->log, "}\n");
    sbuf_clear(&d->shown);
    loop_stop(d->loop);
}

static void
on_guard(void *ctx)
{
    struct driver *d = ctx;

    d->stuck = true;
    loop_stop(d->loop);
}

/* --- one cut --- */

static void
ask(struct driver *d, const char *question)
{
    struct error err = {0};
    struct loop_timer *guard = loop_add_timer(d->loop, GUARD_MS, on_guard, d);

    if (agent_ask(d->agent, question, &err) < 0)
        fail(question, err.msg);
    loop_run(d->loop);
    if (d->stuck)
        fail(question, "the turn does not end");
    loop_timer_remove(guard);
}

static void
run_cut(struct driver *d)
{
    struct transport transport = {.ops = &service_ops, .impl = d};
    AUTO_FREE char *tools = agent_tools(&caps);
    const struct claude_config config = {
        .model = "claude-opus-5-5",
        .max_tokens = 1000,
        .system = "You work with data.",
        .tools = tools,
        .dialect = d->compatible ? CLAUDE_DIALECT_COMPATIBLE
                                 : CLAUDE_DIALECT_ANTHROPIC,
        .max_attempts = d->how == HOW_RETRY ? 2 : 1,
    };
    struct error err = {0};
    struct claude *claude = claude_new(d->loop, &transport, &config, &err);
    struct box *b = xcalloc(1, sizeof(*b));
    struct sandbox *sandbox = NULL;
    struct sink_chain *chain = sink_chain_new();

    if (claude == NULL)
        fail("the client", err.msg);
    *b = (struct box){
        .fake = {.base = {.ops = &box_ops, .caps = caps}, .loop = d->loop},
        .d = d};
    sandbox = sandbox_new(d->loop, &b->fake.base, NULL);
    sink_chain_add(chain, &sink_ops, d);
    d->n_requests = 0;
    d->agent = agent_new(&(struct agent_config){
        .loop = d->loop,
        .claude = claude,
        .sandbox = sandbox,
        .chain = chain,
        .max_rounds = 20,
        .cell_ms = 1000,
        .on_done = on_turn_over,
        .ctx = d,
    });
    for (size_t i = 0; i < LEN(questions); i++)
        ask(d, questions[i]);
    claude_free(claude);
    agent_free(d->agent);
    sandbox_free(sandbox);
    sink_chain_free(chain);
}

static void
run_file(struct driver *d, const char *path)
{
    AUTO_SBUF struct sbuf bytes = {0};
    AUTO_FREE char *last = NULL;
    struct error err = {0};

    sbuf_init(&bytes, MAX_TEXT_BYTES);
    if (io_read_file(path, &bytes, &err) < 0)
        fail(path, err.msg);
    d->bytes = bytes.data;
    d->len = bytes.len;
    for (d->n_cut = 0; d->n_cut <= d->len; d->n_cut++) {
        AUTO_SBUF struct sbuf name = {0};

        sbuf_init(&name, MAX_TEXT_BYTES);
        json_add_str(&name, path);
        sbuf_clear(&d->log);
        run_cut(d);
        if (!sbuf_ok(&d->log))
            fail(path, "too much happened");
        printf("{\"op\":\"cut\",\"file\":%s,\"bytes\":%zu}\n", name.data,
               d->n_cut);
        if (str_eq(last, d->log.data)) {
            puts("{\"op\":\"same\"}");
            continue;
        }
        fputs(d->log.data, stdout);
        free(last);
        last = xstrdup(d->log.data);
    }
}

int
main(int argc, char **argv)
{
    struct error err = {0};
    struct driver d = {.loop = loop_new(&err)};
    size_t how = 0;
    int first = 2;

    if (d.loop == NULL)
        fail("the loop", err.msg);
    while (argc > 2 && how < LEN(hows) && !str_eq(argv[1], hows[how]))
        how++;
    if (argc > 2 && str_eq(argv[2], "-c")) {
        d.compatible = true;
        first++;
    }
    if (argc <= first || how == LEN(hows)) {
        fprintf(stderr,
                "usage: turn_driver ends|breaks|cancel|retry [-c] FILE...\n");
        return 2;
    }
    d.how = (enum how)how;
    sbuf_init(&d.shown, MAX_TEXT_BYTES);
    sbuf_init(&d.log, MAX_TEXT_BYTES);
    for (int i = first; i < argc; i++)
        run_file(&d, argv[i]);
    sbuf_fini(&d.shown);
    sbuf_fini(&d.log);
    loop_free(d.loop);
    return ferror(stdout) || fflush(stdout) != 0;
}
