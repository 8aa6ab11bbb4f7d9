/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/agent_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/transport.h"
#include "helpers/fake_sandbox.h"
#include "model/event.h"
#include "model/output.h"
#include "model/price.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define MAX_LOG_BYTES (4u << 20)

struct transport_call {
    struct fixture *f;
    struct transport_handlers on;
    void *ctx;
    struct exchange *x;
    bool has_head;
    bool cancelled;
    size_t at;
    struct loop_task *task;
};

struct box {
    struct fake_sandbox fake; /* first */
    struct fixture *f;
    char *code; /* owned; of the running cell */
    int number;
    int step;
    bool interrupted;
};

/* ---- the transport --------------------------------------------------------
 */

static void step_call(void *ctx);

static void
defer_call(struct transport_call *call)
{
    if (call->task == NULL)
        call->task = loop_defer(call->f->loop, step_call, call);
}

static void
end_call(struct transport_call *call, enum error_code code)
{
    struct transport_handlers on = call->on;
    void *ctx = call->ctx;
    struct error err = {0};

    call->f->call = NULL;
    free(call);
    if (code != ERR_NONE)
        error_fill(&err, code, "the connection ended");
    on.on_done(ctx, code != ERR_NONE ? &err : NULL);
}

static void
step_call(void *ctx)
{
    struct transport_call *call = ctx;
    struct exchange *x = call->x;
    const struct piece *p = NULL;

    call->task = NULL;
    if (call->cancelled) {
        end_call(call, ERR_CANCELLED);
        return;
    }
    if (!call->has_head) {
        if (x->hang_before_head)
            return;
        call->has_head = true;
        defer_call(call);
        call->on.on_head(call->ctx, x->status);
        return;
    }
    if (call->at == x->n_pieces) {
        end_call(call, ERR_NONE);
        return;
    }
    p = &x->pieces[call->at++];
    switch (p->kind) {
    case PIECE_BODY:
        defer_call(call);
        call->on.on_body(call->ctx, p->text, strlen(p->text));
        break;
    case PIECE_HANG:
        break;
    case PIECE_CUT:
        end_call(call, ERR_NET);
        break;
    }
}

static struct transport_call *
fake_start(void *impl, const struct transport_request *request,
           const struct transport_handlers *handlers, void *ctx,
           struct error *err)
{
    struct fixture *f = impl;
    struct transport_call *call = NULL;

    (void)err;
    assert_null(f->call);
    assert_string_equal(request->path, "/v1/messages");
    check_request(f, request->body, request->body_len);
    if (f->at_x == f->n_x)
        fail_msg("one request too many: %s", f->last.data);
    call = xcalloc(1, sizeof(*call));
    call->f = f;
    call->on = *handlers;
    call->ctx = ctx;
    call->x = &f->x[f->at_x++];
    f->call = call;
    defer_call(call);
    return call;
}

static const char *
fake_header(const struct transport_call *call, const char *name)
{
    if (str_eq_nocase(name, "retry-after-ms"))
        return call->x->retry_after_ms;
    if (str_eq_nocase(name, "content-type"))
        return call->x->status == 200 ? "text/event-stream"
                                      : "application/json";
    return NULL;
}

static void
fake_cancel(struct transport_call *call)
{
    call->cancelled = true;
    defer_call(call);
}

static void
fake_drop(struct transport_call *call)
{
    call->f->call = NULL;
    loop_task_remove(call->task);
    free(call);
}

static void
fake_free(void *impl)
{
    (void)impl;
}

static const struct transport_ops transport_ops = {
    .name = "fake",
    .is_replay = false,
    .start = fake_start,
    .header = fake_header,
    .cancel = fake_cancel,
    .drop = fake_drop,
    .free = fake_free,
};

/* ---- the sandbox ----------------------------------------------------------
 */

static void
box_opened(void *fake)
{
    struct box *b = fake;
    struct error err = {0};

    if (b->f->cancel_in_open)
        agent_cancel(b->f->agent);
    if (b->f->open_fails) {
        error_fill(&err,
                   b->f->open_code != ERR_NONE ? b->f->open_code : ERR_SANDBOX,
                   "no bwrap here");
        b->fake.done(b->fake.ctx, SANDBOX_ERROR, &err);
        return;
    }
    b->fake.done(b->fake.ctx, SANDBOX_DONE, NULL);
}

static void
box_open(struct sandbox_backend *base,
         void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
         void *ctx)
{
    struct box *b = (struct box *)base;

    (void)progress;
    b->fake.done = done;
    b->fake.ctx = ctx;
    fake_sandbox_defer(&b->fake, box_opened);
}

/* What a cell of this code prints and shows. */
static void
box_print(struct box *b)
{
    if (str_starts(b->code, "big")) {
        for (int i = 0; i < 20000; i++) {
            AUTO_FREE char *line = xasprintf("line %05d\n", i);

            b->fake.on.on_bytes(b->fake.ctx, EVENT_STDOUT, line, strlen(line));
        }
    } else if (str_starts(b->code, "bytes")) {
        b->fake.on.on_bytes(b->fake.ctx, EVENT_STDERR, "a\0\xFF\xC3\n", 5);
    } else if (str_starts(b->code, "show")) {
        char text[] = "shown";
        struct output out = {.text = text, .text_len = 5};

        b->fake.on.on_output(b->fake.ctx, &out);
        b->fake.on.on_note(b->fake.ctx, "note", "noted");
    } else if (str_starts(b->code, "chart")) {
        for (int i = 0; i < 2; i++) {
            unsigned char png[] = "picture";
            struct output out = {.index = i,
                                 .png = png,
                                 .png_len = sizeof(png),
                                 .width_px = 640,
                                 .height_px = 480};

            b->fake.on.on_output(b->fake.ctx, &out);
        }
    } else if (!str_starts(b->code, "silent")) {
        AUTO_FREE char *line = xasprintf("out of %s\n", b->code);

        b->fake.on.on_bytes(b->fake.ctx, EVENT_STDOUT, line, strlen(line));
    }
}

static void
box_end_cell(struct box *b)
{
    struct sandbox_outcome o = {.outcome = EVENT_OK, .duration_ms = 5};
    AUTO_FREE char *code = take_ptr(&b->code);
    struct error err = {0};
    char trace[64];
    enum sandbox_end end = SANDBOX_DONE;

    if (str_starts(code, "boom")) {
        o.outcome = EVENT_FAILED;
        o.error_name = "KeyError";
        o.error_value = "'x'";
        o.traceback = "Traceback\nKeyError: 'x'";
        o.hint = "nearest column: y";
    } else if (str_starts(code, "frame")) {
        snprintf(trace, sizeof(trace), "File \"<cell %d>\", line 1\nE",
                 b->number);
        o.duration_ms = 1000 * b->number;
        o.outcome = EVENT_FAILED;
        o.error_name = "E";
        o.traceback = trace;
    } else if (str_starts(code, "hang")) {
        o.outcome = EVENT_INTERRUPTED;
    } else if (str_starts(code, "died")) {
        o.outcome = EVENT_DIED;
        o.reason = "the interpreter ended; variables are gone";
        o.variables_lost = true;
        end = SANDBOX_RESTARTED;
    } else if (str_starts(code, "lost")) {
        error_fill(&err, ERR_SANDBOX, "the sandbox is gone");
        o.outcome = EVENT_DIED;
        o.reason = "the interpreter ended for good";
        b->fake.on.on_done(b->fake.ctx, SANDBOX_LOST, &o, &err);
        return;
    }
    b->fake.on.on_done(b->fake.ctx, end, &o, NULL);
    if (str_starts(code, "gone")) {
        error_fill(&err, ERR_SANDBOX, "it ended while nothing ran");
        b->fake.base.files_lost = b->f->files_lost;
        b->fake.base.on_lost(b->fake.base.on_lost_ctx, &err);
    }
}

/* A language that the template does not have: nothing begins. */
static void
box_refuse(struct box *b)
{
    AUTO_FREE char *code = take_ptr(&b->code);
    struct error err = {0};

    if (str_starts(code, "foreign away"))
        error_fill(&err, ERR_NET, "no answer");
    else
        error_fill(&err, ERR_UNSUPPORTED, "no kernel");
    b->fake.on.on_done(b->fake.ctx, SANDBOX_ERROR, NULL, &err);
}

static void
box_step(void *fake)
{
    struct box *b = fake;

    if (str_starts(b->code, "foreign")) {
        box_refuse(b);
        return;
    }
    if (b->step++ == 0) {
        b->fake.on.on_begin(b->fake.ctx);
        box_print(b);
        if (!str_starts(b->code, "hang") || b->interrupted)
            if (b->fake.task == NULL)
                fake_sandbox_defer(&b->fake, box_step);
        return;
    }
    box_end_cell(b);
}

static void
box_run(struct sandbox_backend *base, const struct sandbox_cell *cell,
        const struct sandbox_cell_handlers *on, void *ctx)
{
    struct box *b = (struct box *)base;

    assert_null(b->code);
    b->code = xstrndup(cell->code, cell->code_len);
    b->number = cell->number;
    b->step = 0;
    b->interrupted = false;
    b->fake.on = *on;
    b->fake.ctx = ctx;
    if (cell->language != NULL)
        sbuf_addf(&b->f->ran, "%s: ", cell->language);
    sbuf_addf(&b->f->ran, "%s|", b->code);
    fake_sandbox_defer(&b->fake, box_step);
}

static void
box_interrupt(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    b->interrupted = true;
    if (b->code != NULL && b->fake.task == NULL && b->step > 0)
        fake_sandbox_defer(&b->fake, box_step);
}

static void
box_listed(void *fake)
{
    struct box *b = fake;
    struct sandbox_list list = {.files = b->f->files, .n_files = b->f->n_files};

    if (b->f->cancel_in_list)
        agent_cancel(b->f->agent);
    b->fake.list_done(b->fake.ctx, &list, NULL);
}

static void
box_list(struct sandbox_backend *base, sandbox_list_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    b->fake.list_done = done;
    b->fake.ctx = ctx;
    fake_sandbox_defer(&b->fake, box_listed);
}

static void
box_get(struct sandbox_backend *base, const char *name, int fd, off_t offset,
        off_t limit, sandbox_done_fn done, void *ctx)
{
    struct box *b = (struct box *)base;
    struct error err = {0};

    (void)limit;
    assert_int_equal(offset, 0);
    assert_int_equal(io_write_all(fd, name, strlen(name), &err), 0);
    fake_sandbox_end(&b->fake, done, ctx, NULL);
}

static void
box_close(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    free(b->code);
    fake_sandbox_close(base);
}

static const char *const languages[] = {"python", NULL};
static const struct sandbox_caps box_caps = {.name = "fake",
                                             .stateful = true,
                                             .puts_early = true,
                                             .languages = languages};
static const struct sandbox_ops box_ops = {
    .open = box_open,
    .put = fake_sandbox_put,
    .run_cell = box_run,
    .run_script = fake_sandbox_no_script,
    .interrupt = box_interrupt,
    .list = box_list,
    .get = box_get,
    UNUSED_SANDBOX_OPS,
    .close = box_close,
};

/* ---- the sink -------------------------------------------------------------
 */

static const char *const way_names[] = {
    [EVENT_WAY_NONE] = "none",         [EVENT_WAY_RETRY] = "retry",
    [EVENT_WAY_BUDGET] = "budget",     [EVENT_WAY_SETTING] = "setting",
    [EVENT_WAY_REPHRASE] = "rephrase", [EVENT_WAY_SMALLER] = "smaller",
};

static void
log_event(struct fixture *f, const struct event *ev)
{
    sbuf_addf(&f->log, "%s", event_kind_name(ev->kind));
    if (ev->cell > 0)
        sbuf_addf(&f->log, " %d", ev->cell);
    if (ev->kind == EVENT_DONE)
        sbuf_addf(&f->log, " %s %s",
                  ev->scope == EVENT_SCOPE_TURN ? "turn" : "cell",
                  event_outcome_name(ev->outcome));
    if (ev->kind == EVENT_FILE) {
        sbuf_addf(&f->log, " %s %s", ev->file->name,
                  ev->file->refused != NULL ? ev->file->refused : "-");
        if (ev->file->fd >= 0) {
            ssize_t n =
                read(ev->file->fd, f->file_text, sizeof(f->file_text) - 1);

            f->file_text[n > 0 ? n : 0] = '\0';
        }
    }
    if (ev->err != NULL)
        sbuf_addf(&f->log, " (%s)", ev->err->msg);
    if (ev->outcome == EVENT_LIMIT)
        sbuf_addf(&f->log, " {%s %s %lld, kept %d-%d}",
                  ev->limit != NULL ? ev->limit : "-", way_names[ev->way],
                  (long long)(ev->way_nanousd / PRICE_CENT),
                  ev->first_kept_cell, ev->last_kept_cell);
    if (ev->is_void)
        sbuf_add_str(&f->log, " void");
    if (ev->cost_nanousd > 0)
        sbuf_addf(&f->log, " $%lld%s", (long long)ev->cost_nanousd,
                  ev->cost_at_least ? "+" : "");
    if (ev->error_name != NULL)
        sbuf_addf(&f->log, " %s", ev->error_name);
    if (ev->until_ms > clock_now_ms())
        sbuf_add_str(&f->log, " wait");
    if (ev->language != NULL)
        sbuf_addf(&f->log, " (%s)", ev->language);
    if (ev->len > 0 && ev->kind != EVENT_REPLY && ev->kind != EVENT_OUTPUT)
        sbuf_addf(&f->log, " %.*s", (int)ev->len, ev->text);
    sbuf_add_char(&f->log, '\n');
}

static int
log_put(void *sink, const struct event *ev, struct error *err)
{
    struct fixture *f = sink;

    f->n_events++;
    log_event(f, ev);
    if (ev->kind == EVENT_REPLY && !(ev->len == 2))
        f->n_replies++;
    if (f->n_events == f->cancel_at)
        agent_cancel(f->agent);
    if (f->n_events == f->fail_at)
        return err_set(err, ERR_IO, "disk full");
    return 0;
}

static void
on_barrier_task(void *ctx)
{
    struct fixture *f = ctx;

    f->barrier_task = NULL;
    if (f->n_barriers == f->cancel_barrier)
        agent_cancel(f->agent);
    f->barrier_done(f->barrier_ctx, NULL);
}

static enum sink_result
log_barrier(void *sink, enum sink_barrier point, sink_done_fn done, void *ctx,
            struct error *err)
{
    struct fixture *f = sink;

    (void)point;
    f->n_barriers++;
    if (f->n_barriers == f->fail_barrier) {
        err_set(err, ERR_IO, "not synced");
        return SINK_FAILED;
    }
    if (!f->pending)
        return SINK_READY;
    f->barrier_done = done;
    f->barrier_ctx = ctx;
    f->barrier_task = loop_defer(f->loop, on_barrier_task, f);
    return SINK_PENDING;
}

static const struct sink_ops log_ops = {
    .name = "log", .put = log_put, .barrier = log_barrier};

/* ---- turns ----------------------------------------------------------------
 */

void
on_over(void *ctx, enum event_outcome outcome, const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->over);
    f->over = true;
    f->outcome = outcome;
    f->err = err != NULL ? *err : (struct error){0};
    loop_stop(f->loop);
}

void
on_guard(void *ctx)
{
    struct fixture *f = ctx;

    f->guard = NULL;
    loop_stop(f->loop);
}

static void
on_cancel_timer(void *ctx)
{
    struct fixture *f = ctx;

    f->cancel_timer = NULL;
    agent_cancel(f->agent);
}

void
make_agent(struct fixture *f, int max_rounds)
{
    f->config.max_rounds = max_rounds;
    remake_agent(f);
}

void
remake_agent(struct fixture *f)
{
    agent_free(f->agent);
    f->agent = agent_new(&f->config);
}

void
switch_sandbox(struct fixture *f, const struct sandbox_caps *caps)
{
    f->box->caps = *caps;
}

struct fixture *
fixture_begin(void)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct box *b = xcalloc(1, sizeof(*b));
    AUTO_FREE char *tools = agent_tools(&box_caps);
    struct claude_config config = {
        .model = "claude-opus-5-5",
        .max_tokens = 32000,
        .system = agent_system_prompt(),
        .tools = tools,
    };
    struct error err = {0};

    f->loop = loop_new(&err);
    f->transport = (struct transport){.ops = &transport_ops, .impl = f};
    f->claude = claude_new(f->loop, &f->transport, &config, &err);
    if (f->claude == NULL)
        fail_msg("%s", err.msg);
    b->fake.base.ops = &box_ops;
    b->fake.base.caps = box_caps;
    b->fake.loop = f->loop;
    b->f = f;
    f->box = &b->fake.base;
    f->sandbox = sandbox_new(f->loop, &b->fake.base, NULL);
    f->chain = sink_chain_new();
    sink_chain_add(f->chain, &log_ops, f);
    sbuf_init(&f->last, MAX_LOG_BYTES);
    sbuf_init(&f->turn_base, MAX_LOG_BYTES);
    sbuf_init(&f->ran, MAX_LOG_BYTES);
    sbuf_init(&f->log, MAX_LOG_BYTES);
    f->config = (struct agent_config){
        .loop = f->loop,
        .claude = f->claude,
        .sandbox = f->sandbox,
        .chain = f->chain,
        .max_rounds = 20,
        .cell_ms = 1000,
        .max_tokens = config.max_tokens,
        .on_done = on_over,
        .ctx = f,
    };
    remake_agent(f);
    return f;
}

void
fixture_end(struct fixture *f)
{
    claude_free(f->claude);
    sandbox_free(f->sandbox);
    agent_free(f->agent);
    sink_chain_free(f->chain);
    loop_free(f->loop);
    clear_exchanges(f);
    sbuf_fini(&f->last);
    sbuf_fini(&f->turn_base);
    sbuf_fini(&f->ran);
    sbuf_fini(&f->log);
    free(f);
}

static void
reset_turn(struct fixture *f)
{
    f->may_rewind = f->over && f->outcome != EVENT_OK &&
                    (f->n_replies == 0 || f->err.code == ERR_NO_ANSWER);
    f->over = false;
    f->first_in_turn = true;
    f->is_retry = false;
    f->n_replies = 0;
    f->n_events = 0;
    f->n_barriers = 0;
    f->n_requests = 0;
    sbuf_clear(&f->log);
}

static enum event_outcome
run_turn(struct fixture *f, const char *question, int64_t cancel_ms)
{
    int64_t start = clock_now_ms();

    assert_false(f->over);
    assert_true(agent_is_busy(f->agent));
    f->guard = loop_add_timer(f->loop, GUARD_MS, on_guard, f);
    if (cancel_ms >= 0)
        f->cancel_timer =
            loop_add_timer(f->loop, cancel_ms, on_cancel_timer, f);
    loop_run(f->loop);
    loop_timer_remove(f->cancel_timer);
    f->cancel_timer = NULL;
    if (!f->over)
        fail_msg("%s: the turn hangs:\n%s", question, f->log.data);
    loop_timer_remove(f->guard);
    f->guard = NULL;
    f->took_ms = clock_now_ms() - start;
    assert_false(agent_is_busy(f->agent));
    return f->outcome;
}

enum event_outcome
ask_and_cancel(struct fixture *f, const char *question, int64_t cancel_ms)
{
    struct error err = {0};

    reset_turn(f);
    if (agent_ask(f->agent, question, &err) < 0)
        fail_msg("%s: %s", question, err.msg);
    return run_turn(f, question, cancel_ms);
}

enum event_outcome
retry(struct fixture *f)
{
    struct error err = {0};

    reset_turn(f);
    f->is_retry = true;
    if (agent_retry(f->agent, &err) < 0)
        fail_msg("%s", err.msg);
    return run_turn(f, "retry", -1);
}

enum event_outcome
ask(struct fixture *f, const char *question)
{
    return ask_and_cancel(f, question, -1);
}

void
expect_ok(struct fixture *f, const char *question)
{
    if (ask(f, question) != EVENT_OK)
        fail_msg("%s: %s (%s)\n%s", question, event_outcome_name(f->outcome),
                 f->err.msg, f->log.data);
    assert_int_equal(f->err.code, ERR_NONE);
    assert_int_equal(f->at_x, f->n_x);
}

void
expect_logged(const struct fixture *f, const char *text)
{
    if (strstr(f->log.data, text) == NULL)
        fail_msg("no '%s' in\n%s", text, f->log.data);
}

void
expect_sent(const struct fixture *f, const char *text)
{
    if (strstr(f->last.data, text) == NULL)
        fail_msg("no '%s' in\n%s", text, f->last.data);
}

void
expect_not_sent(const struct fixture *f, const char *text)
{
    if (strstr(f->last.data, text) != NULL)
        fail_msg("'%s' in\n%s", text, f->last.data);
}

/* Whatever went before, the next question is answered. */
void
expect_next_is_fine(struct fixture *f)
{
    clear_exchanges(f);
    f->cancel_at = 0;
    f->fail_at = 0;
    f->fail_barrier = 0;
    f->cancel_barrier = 0;
    x_answer(f, "Next answer.");
    expect_ok(f, "next question");
    expect_sent(f, "next question");
    assert_int_equal(f->n_requests, 1);
}

void
expect_nothing_ran_twice(const struct fixture *f)
{
    AUTO_FREE char *copy = xstrdup(f->ran.data);
    char *save = NULL;

    for (char *code = strtok_r(copy, "|", &save); code != NULL;
         code = strtok_r(NULL, "|", &save)) {
        AUTO_FREE char *word = xasprintf("%s|", code);
        const char *at = strstr(f->ran.data, word);

        assert_non_null(at);
        if (strstr(at + 1, word) != NULL)
            fail_msg("%s ran twice: %s", code, f->ran.data);
    }
}

size_t
count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word))
        n++;
    return n;
}
