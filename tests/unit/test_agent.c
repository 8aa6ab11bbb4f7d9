/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The agent against a model and a sandbox that follow a script. The model
 * checks every request as the service would.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

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
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude.h"
#include "claude/transport.h"
#include "model/event.h"
#include "model/output.h"
#include "model/sink.h"
#include "sandbox/sandbox.h"

#define LEN(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_EXCHANGES 64
#define MAX_PIECES 64
#define MAX_LOG_BYTES (4u << 20)
#define GUARD_MS 20000

enum piece_kind { PIECE_BODY, PIECE_HANG, PIECE_CUT };

struct piece {
    enum piece_kind kind;
    char *text; /* owned */
};

struct exchange {
    int status;
    const char *retry_after_ms; /* NULL: no such header */
    bool hang_before_head;
    struct piece pieces[MAX_PIECES];
    size_t n_pieces;
    int n_blocks;
};

struct fixture;

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
    struct sandbox_backend base;
    struct fixture *f;
    struct loop_task *task;
    char *code; /* owned; of the running cell */
    int step;
    bool interrupted;
    struct sandbox_cell_handlers on;
    sandbox_done_fn done;
    sandbox_list_fn list_done;
    void *ctx;
};

struct fixture {
    struct loop *loop;
    struct transport transport;
    struct claude *claude;
    struct sandbox *sandbox;
    struct sink_chain *chain;
    struct agent *agent;

    struct exchange x[MAX_EXCHANGES];
    size_t n_x;
    size_t at_x;
    struct transport_call *call;

    /* Requests */
    struct sbuf last;      /* messages of the last one */
    struct sbuf turn_base; /* what had been sent before this turn */
    bool first_in_turn;
    bool may_rewind; /* the last turn got no reply that stays */
    bool may_pause;  /* a reply of this test says that it is paused */
    size_t n_requests;

    /* Sandbox */
    struct sbuf ran; /* "code|" for each cell */
    bool open_fails;
    struct sandbox_file files[4];
    size_t n_files;
    bool cancel_in_list;

    /* Events */
    struct sbuf log;
    int n_events;
    int n_replies;
    int cancel_at; /* the number of an event; 0: never */
    int fail_at;
    int fail_barrier; /* the number of a barrier */
    int n_barriers;
    int cancel_barrier;
    bool pending;
    sink_done_fn barrier_done;
    void *barrier_ctx;
    struct loop_task *barrier_task;
    char file_text[64];

    /* The end of a turn */
    bool over;
    enum event_outcome outcome;
    struct error err;
    struct loop_timer *guard;
    struct loop_timer *cancel_timer;
    int64_t took_ms;
};

/* ---- the script of the model ----------------------------------------------
 */

static struct exchange *
last_exchange(struct fixture *f)
{
    assert_true(f->n_x > 0);
    return &f->x[f->n_x - 1];
}

static void
add_piece(struct fixture *f, enum piece_kind kind, char *text)
{
    struct exchange *x = last_exchange(f);

    assert_true(x->n_pieces < MAX_PIECES);
    x->pieces[x->n_pieces++] = (struct piece){.kind = kind, .text = text};
}

static struct exchange *
x_status(struct fixture *f, int status, const char *body)
{
    struct exchange *x = &f->x[f->n_x++];

    assert_true(f->n_x <= MAX_EXCHANGES);
    x->status = status;
    if (body != NULL)
        add_piece(f, PIECE_BODY, xstrdup(body));
    return x;
}

static void
x_begin(struct fixture *f)
{
    x_status(f, 200,
             "event: message_start\ndata: {\"type\":\"message_start\","
             "\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":"
             "\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":"
             "null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":10,"
             "\"output_tokens\":1}}}\n\n");
}

static void
add_event(struct fixture *f, const char *type, const char *rest)
{
    add_piece(f, PIECE_BODY,
              xasprintf("event: %s\ndata: {\"type\":\"%s\"%s}\n\n", type, type,
                        rest));
}

static void
add_block(struct fixture *f, const char *type, const char *rest)
{
    AUTO_FREE char *text =
        xasprintf(",\"index\":%d%s", last_exchange(f)->n_blocks, rest);

    add_event(f, type, text);
}

static void
add_delta(struct fixture *f, const char *type, const char *key,
          const char *text, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, 1u << 20);
    sbuf_addf(&sb, ",\"delta\":{\"type\":\"%s\",\"%s\":", type, key);
    json_add_string(&sb, text, len);
    sbuf_add_char(&sb, '}');
    add_block(f, "content_block_delta", sb.data);
}

static void
end_block(struct fixture *f)
{
    add_block(f, "content_block_stop", "");
    last_exchange(f)->n_blocks++;
}

static void
x_open_thinking(struct fixture *f, const char *text)
{
    add_block(f, "content_block_start",
              ",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\","
              "\"signature\":\"\"}");
    add_delta(f, "thinking_delta", "thinking", text, strlen(text));
}

static void
x_thinking(struct fixture *f, const char *text)
{
    x_open_thinking(f, text);
    add_delta(f, "signature_delta", "signature", "c2ln", 4);
    end_block(f);
}

static void
x_open_text(struct fixture *f, const char *text)
{
    add_block(f, "content_block_start",
              ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    add_delta(f, "text_delta", "text", text, strlen(text));
}

static void
x_text(struct fixture *f, const char *text)
{
    x_open_text(f, text);
    end_block(f);
}

/* A call whose input is not complete. */
static void
x_open_tool(struct fixture *f, const char *id, const char *name,
            const char *input)
{
    AUTO_FREE char *start =
        xasprintf(",\"content_block\":{\"type\":\"tool_use\",\"id\":\"%s\","
                  "\"name\":\"%s\",\"input\":{}}",
                  id, name);
    size_t half = strlen(input) / 2;

    add_block(f, "content_block_start", start);
    add_delta(f, "input_json_delta", "partial_json", input, half);
    add_delta(f, "input_json_delta", "partial_json", input + half,
              strlen(input) - half);
}

static void
x_tool(struct fixture *f, const char *id, const char *name, const char *input)
{
    x_open_tool(f, id, name, input);
    end_block(f);
}

static void
x_python(struct fixture *f, const char *id, const char *code)
{
    AUTO_FREE char *input = xasprintf("{\"code\":\"%s\"}", code);

    x_tool(f, id, "run_python", input);
}

static void
x_end(struct fixture *f, const char *stop_reason)
{
    AUTO_FREE char *rest =
        xasprintf(",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null},"
                  "\"usage\":{\"output_tokens\":7}",
                  stop_reason);

    add_event(f, "message_delta", rest);
    add_event(f, "message_stop", "");
}

static void
x_answer(struct fixture *f, const char *text)
{
    x_begin(f);
    x_text(f, text);
    x_end(f, "end_turn");
}

static void
x_hang(struct fixture *f)
{
    add_piece(f, PIECE_HANG, NULL);
}

static void
clear_exchanges(struct fixture *f)
{
    for (size_t i = 0; i < f->n_x; i++) {
        for (size_t k = 0; k < f->x[i].n_pieces; k++)
            free(f->x[i].pieces[k].text);
    }
    memset(f->x, 0, sizeof(f->x));
    f->n_x = 0;
    f->at_x = 0;
}

/* ---- what the service checks ----------------------------------------------
 */

struct open_ids {
    char ids[8][32];
    size_t n;
};

/* One user message: every open call answered, in order, before all else. */
static void
check_user(const struct cJSON *content, struct open_ids *open)
{
    size_t n_results = 0;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        if (str_eq(json_string(b, "type"), "tool_result")) {
            const struct cJSON *text = json_first(json_get(b, "content"));

            assert_true(n_results < open->n);
            assert_string_equal(json_string(b, "tool_use_id"),
                                open->ids[n_results]);
            assert_false(str_blank(json_string(text, "text")));
            n_results++;
            continue;
        }
        assert_string_equal(json_string(b, "type"), "text");
        assert_false(str_blank(json_string(b, "text")));
        assert_int_equal(n_results, open->n);
    }
    assert_int_equal(n_results, open->n);
    open->n = 0;
}

static void
check_assistant(const struct cJSON *content, struct open_ids *open)
{
    const char *type = NULL;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        type = json_string(b, "type");
        if (str_eq(type, "tool_use")) {
            assert_true(open->n < LEN(open->ids));
            assert_true(json_is_object(json_get(b, "input")));
            snprintf(open->ids[open->n++], sizeof(open->ids[0]), "%s",
                     json_string(b, "id"));
        } else if (str_eq(type, "text")) {
            assert_false(str_blank(json_string(b, "text")));
            assert_int_equal(open->n, 0);
        } else {
            assert_string_equal(type, "thinking");
            assert_string_equal(json_string(b, "signature"), "c2ln");
        }
    }
    assert_string_not_equal(type, "thinking");
}

static void
check_messages(const char *text, size_t len, bool may_pause)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_JSON struct cJSON *tree = NULL;
    struct open_ids open = {.n = 0};
    const char *role = NULL;

    sbuf_init(&sb, len + 2);
    sbuf_add_char(&sb, '[');
    sbuf_add(&sb, text, len);
    sbuf_add_char(&sb, ']');
    assert_true(utf8_valid(sb.data, sb.len));
    tree = json_parse(sb.data, sb.len, 0, NULL);
    assert_non_null(tree);
    for (const struct cJSON *m = json_first(tree); m != NULL;
         m = json_next(m)) {
        const struct cJSON *content = json_get(m, "content");
        bool is_user = str_eq(json_string(m, "role"), "user");

        assert_true(role != NULL || is_user);
        /* Only a reply that was paused is sent with nothing behind it. */
        assert_true(is_user || !str_eq(role, "assistant") || may_pause);
        role = json_string(m, "role");
        assert_true(json_len(content) > 0);
        if (is_user)
            check_user(content, &open);
        else
            check_assistant(content, &open);
    }
    assert_true(str_eq(role, "user") || may_pause);
    assert_int_equal(open.n, 0);
}

static bool
extends(const char *text, size_t len, const struct sbuf *before)
{
    if (before->len == 0)
        return true;
    return len >= before->len && memcmp(text, before->data, before->len) == 0 &&
           (len == before->len || text[before->len] == ',');
}

/* Nothing that was sent is changed; only a question without any reply may be
   missing in the first request of the next turn. */
static void
check_request(struct fixture *f, const char *body, size_t len)
{
    static const char MESSAGES[] = "\"messages\":[";
    const char *text = memmem(body, len, MESSAGES, strlen(MESSAGES));
    size_t n = 0;

    assert_non_null(text);
    text += strlen(MESSAGES);
    n = len - (size_t)(text - body);
    assert_true(n > 2 && memcmp(text + n - 2, "]}", 2) == 0);
    n -= 2;
    check_messages(text, n, f->may_pause);
    if (!extends(text, n, &f->last) &&
        !(f->first_in_turn && f->may_rewind && extends(text, n, &f->turn_base)))
        fail_msg("sent before:\n%s\nnow:\n%.*s", f->last.data, (int)n, text);
    if (f->first_in_turn) {
        sbuf_clear(&f->turn_base);
        if (f->may_rewind && !extends(text, n, &f->last))
            sbuf_add(&f->turn_base, "", 0);
        else
            sbuf_add(&f->turn_base, f->last.data, f->last.len);
    }
    f->first_in_turn = false;
    sbuf_clear(&f->last);
    sbuf_add(&f->last, text, n);
    f->n_requests++;
}

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
box_defer(struct box *b, loop_fn fn)
{
    assert_null(b->task);
    b->task = loop_defer(b->f->loop, fn, b);
}

static void
box_opened(void *ctx)
{
    struct box *b = ctx;
    struct error err = {0};

    b->task = NULL;
    if (b->f->open_fails) {
        error_fill(&err, ERR_SANDBOX, "no bwrap here");
        b->done(b->ctx, SANDBOX_ERROR, &err);
        return;
    }
    b->done(b->ctx, SANDBOX_DONE, NULL);
}

static void
box_open(struct sandbox_backend *base,
         void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
         void *ctx)
{
    struct box *b = (struct box *)base;

    (void)progress;
    b->done = done;
    b->ctx = ctx;
    box_defer(b, box_opened);
}

static void
box_put_done(void *ctx)
{
    struct box *b = ctx;

    b->task = NULL;
    b->done(b->ctx, SANDBOX_DONE, NULL);
}

static void
box_put(struct sandbox_backend *base, const struct sandbox_put *put,
        sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    (void)put;
    (void)progress;
    b->done = done;
    b->ctx = ctx;
    box_defer(b, box_put_done);
}

/* What a cell of this code prints and shows. */
static void
box_print(struct box *b)
{
    if (str_starts(b->code, "big")) {
        for (int i = 0; i < 20000; i++) {
            AUTO_FREE char *line = xasprintf("line %05d\n", i);

            b->on.on_bytes(b->ctx, EVENT_STDOUT, line, strlen(line));
        }
    } else if (str_starts(b->code, "bytes")) {
        b->on.on_bytes(b->ctx, EVENT_STDERR, "a\0\xFF\xC3\n", 5);
    } else if (str_starts(b->code, "show")) {
        char text[] = "shown";
        struct output out = {.text = text, .text_len = 5};

        b->on.on_output(b->ctx, &out);
        b->on.on_note(b->ctx, "note", "noted");
    } else if (!str_starts(b->code, "silent")) {
        AUTO_FREE char *line = xasprintf("out of %s\n", b->code);

        b->on.on_bytes(b->ctx, EVENT_STDOUT, line, strlen(line));
    }
}

static void
box_end_cell(struct box *b)
{
    struct sandbox_outcome o = {.outcome = EVENT_OK, .duration_ms = 5};
    AUTO_FREE char *code = take_ptr(&b->code);
    struct error err = {0};
    enum sandbox_end end = SANDBOX_DONE;

    if (str_starts(code, "boom")) {
        o.outcome = EVENT_FAILED;
        o.error_name = "KeyError";
        o.error_value = "'x'";
        o.traceback = "Traceback\nKeyError: 'x'";
        o.hint = "nearest column: y";
    } else if (str_starts(code, "hang")) {
        o.outcome = EVENT_INTERRUPTED;
    } else if (str_starts(code, "died")) {
        o.outcome = EVENT_DIED;
        o.reason = "the interpreter ended; variables are gone";
        o.variables_lost = true;
        end = SANDBOX_RESTARTED;
    } else if (str_starts(code, "lost")) {
        error_fill(&err, ERR_SANDBOX, "the sandbox is gone");
        b->on.on_done(b->ctx, SANDBOX_LOST, NULL, &err);
        return;
    }
    b->on.on_done(b->ctx, end, &o, NULL);
}

static void
box_step(void *ctx)
{
    struct box *b = ctx;

    b->task = NULL;
    if (b->step++ == 0) {
        box_print(b);
        if (!str_starts(b->code, "hang") || b->interrupted)
            if (b->task == NULL)
                box_defer(b, box_step);
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
    b->step = 0;
    b->interrupted = false;
    b->on = *on;
    b->ctx = ctx;
    sbuf_addf(&b->f->ran, "%s|", b->code);
    box_defer(b, box_step);
}

static void
box_interrupt(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    b->interrupted = true;
    if (b->code != NULL && b->task == NULL && b->step > 0)
        box_defer(b, box_step);
}

static void
box_listed(void *ctx)
{
    struct box *b = ctx;
    struct sandbox_list list = {.files = b->f->files, .n_files = b->f->n_files};

    b->task = NULL;
    if (b->f->cancel_in_list)
        agent_cancel(b->f->agent);
    b->list_done(b->ctx, &list, NULL);
}

static void
box_list(struct sandbox_backend *base, sandbox_list_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    b->list_done = done;
    b->ctx = ctx;
    box_defer(b, box_listed);
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
    b->done = done;
    b->ctx = ctx;
    box_defer(b, box_put_done);
}

static void
box_close(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    loop_task_remove(b->task);
    free(b->code);
    free(b);
}

static const char *const languages[] = {"python", NULL};
static const struct sandbox_ops box_ops = {
    .caps = {.name = "fake", .stateful = true, .languages = languages},
    .open = box_open,
    .put = box_put,
    .run_cell = box_run,
    .interrupt = box_interrupt,
    .list = box_list,
    .get = box_get,
    .close = box_close,
};

/* ---- the sink -------------------------------------------------------------
 */

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
    if (ev->error_name != NULL)
        sbuf_addf(&f->log, " %s", ev->error_name);
    if (ev->until_ms > clock_now_ms())
        sbuf_add_str(&f->log, " wait");
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

static void
on_over(void *ctx, enum event_outcome outcome, const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->over);
    f->over = true;
    f->outcome = outcome;
    f->err = err != NULL ? *err : (struct error){0};
    loop_stop(f->loop);
}

static void
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

static void
make_agent(struct fixture *f, int max_rounds)
{
    struct agent_config config = {
        .loop = f->loop,
        .claude = f->claude,
        .sandbox = f->sandbox,
        .chain = f->chain,
        .max_rounds = max_rounds,
        .cell_ms = 1000,
        .on_done = on_over,
        .ctx = f,
    };

    agent_free(f->agent);
    f->agent = agent_new(&config);
}

static struct fixture *
begin(void)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct box *b = xcalloc(1, sizeof(*b));
    struct claude_config config = {
        .model = "claude-opus-5-5",
        .max_tokens = 1000,
        .system = agent_system_prompt(),
        .tools = agent_tools(),
    };
    struct error err = {0};

    f->loop = loop_new(&err);
    f->transport = (struct transport){.ops = &transport_ops, .impl = f};
    f->claude = claude_new(f->loop, &f->transport, &config, &err);
    if (f->claude == NULL)
        fail_msg("%s", err.msg);
    b->base.ops = &box_ops;
    b->f = f;
    f->sandbox = sandbox_new(f->loop, &b->base, NULL);
    f->chain = sink_chain_new();
    sink_chain_add(f->chain, &log_ops, f);
    sbuf_init(&f->last, MAX_LOG_BYTES);
    sbuf_init(&f->turn_base, MAX_LOG_BYTES);
    sbuf_init(&f->ran, MAX_LOG_BYTES);
    sbuf_init(&f->log, MAX_LOG_BYTES);
    make_agent(f, 20);
    return f;
}

static void
end(struct fixture *f)
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

/* Asks and runs until the turn is over. cancel_ms: when it is cancelled; -1:
   never. */
static enum event_outcome
ask_and_cancel(struct fixture *f, const char *question, int64_t cancel_ms)
{
    struct error err = {0};
    int64_t start = clock_now_ms();

    f->may_rewind = f->over && f->outcome != EVENT_OK && f->n_replies == 0;
    f->over = false;
    f->first_in_turn = true;
    f->n_replies = 0;
    f->n_events = 0;
    f->n_barriers = 0;
    f->n_requests = 0;
    sbuf_clear(&f->log);
    if (agent_ask(f->agent, question, &err) < 0)
        fail_msg("%s: %s", question, err.msg);
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

static enum event_outcome
ask(struct fixture *f, const char *question)
{
    return ask_and_cancel(f, question, -1);
}

static void
expect_ok(struct fixture *f, const char *question)
{
    if (ask(f, question) != EVENT_OK)
        fail_msg("%s: %s (%s)\n%s", question, event_outcome_name(f->outcome),
                 f->err.msg, f->log.data);
    assert_int_equal(f->err.code, ERR_NONE);
    assert_int_equal(f->at_x, f->n_x);
}

static void
expect_logged(const struct fixture *f, const char *text)
{
    if (strstr(f->log.data, text) == NULL)
        fail_msg("no '%s' in\n%s", text, f->log.data);
}

static void
expect_sent(const struct fixture *f, const char *text)
{
    if (strstr(f->last.data, text) == NULL)
        fail_msg("no '%s' in\n%s", text, f->last.data);
}

static void
expect_not_sent(const struct fixture *f, const char *text)
{
    if (strstr(f->last.data, text) != NULL)
        fail_msg("'%s' in\n%s", text, f->last.data);
}

/* Whatever went before, the next question is answered. */
static void
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

static void
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

static size_t
count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word))
        n++;
    return n;
}

/* ---- tests ----------------------------------------------------------------
 */

static void
test_plain_answer(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_answer(f, "Forty-two.");
    expect_ok(f, "what is it?");
    assert_string_equal(f->log.data,
                        "question what is it?\nstatus waiting for the model\n"
                        "status answering\ntext Forty-two.\ntext\nreply\n"
                        "usage\ndone turn ok\n");
    assert_int_equal(f->ran.len, 0);
    expect_next_is_fine(f);
    expect_sent(f, "Forty-two.");
    end(f);
}

static void
test_one_call(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_thinking(f, "hm");
    x_text(f, "Let me look.");
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_answer(f, "One.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data, "print 1|");
    expect_sent(f, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                   "\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\","
                   "\"text\":\"[status: ok, 0.0 s]\\nout of print 1\\n\"}]}]}");
    expect_logged(f, "thinking hm\n");
    expect_logged(f, "status writing code\n");
    expect_logged(f, "code 1 print 1\n");
    expect_logged(f, "output 1\n");
    expect_logged(f, "done 1 cell ok\n");
    expect_logged(f, "done turn ok\n");
    expect_next_is_fine(f);
    end(f);
}

static void
test_two_calls_in_one_reply(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "show 1");
    x_python(f, "t2", "silent 2");
    x_end(f, "tool_use");
    x_begin(f);
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data, "show 1|silent 2|print 3|");
    expect_sent(f, "shown\\n[noted]");
    expect_sent(f, "(no output)");
    expect_logged(f, "result 1\n");
    expect_logged(f, "code 3 print 3\n");
    expect_next_is_fine(f);
    end(f);
}

static void
test_error_in_code(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "boom 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Mended.");
    expect_ok(f, "q");
    expect_sent(f, "Traceback\\nKeyError: 'x'\\n[nearest column: y]\\n\"}],"
                   "\"is_error\":true}");
    expect_logged(f, "error 1 KeyError 'x'\n");
    expect_logged(f, "done 1 cell error\n");
    expect_next_is_fine(f);
    end(f);
}

struct bad_call {
    const char *name;
    const char *tool;
    const char *input;
    const char *expect_sent;
};

static const struct bad_call bad_calls[] = {
    {"unknown tool", "bash", "{\"code\":\"x\"}", "there is no tool named"},
    {"invalid JSON", "run_python", "{\"code\": \"x", "INVALID_JSON"},
    {"no JSON at all", "run_python", "code = 1", "INVALID_JSON"},
    {"a NUL", "run_python", "{\"code\":\"x\\u0000y\"}", "INVALID_JSON"},
    {"no code", "run_python", "{\"python\":\"x\"}", "needs one string"},
    {"nothing", "run_python", "", "needs one string"},
    {"blank code", "run_python", "{\"code\":\"  \"}", "the code is empty"},
};

static void
test_calls_that_cannot_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_calls); i++) {
        const struct bad_call *t = &bad_calls[i];
        struct fixture *f = begin();

        x_begin(f);
        x_tool(f, "t1", t->tool, t->input);
        x_python(f, "t2", "print 2");
        x_tool(f, "t3", t->tool, t->input);
        x_end(f, "tool_use");
        x_answer(f, "Done.");
        expect_ok(f, t->name);
        assert_string_equal(f->ran.data, "print 2|");
        expect_sent(f, "Not executed: ");
        expect_sent(f, t->expect_sent);
        assert_int_equal(count(f->last.data, "\"is_error\":true"), 2);
        expect_logged(f, "notice a call of the model could not be run");
        expect_next_is_fine(f);
        end(f);
    }
}

static void
add_rounds(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++) {
        AUTO_FREE char *id = xasprintf("t%d", i);
        AUTO_FREE char *second = xasprintf("u%d", i);
        AUTO_FREE char *code = xasprintf("print r%d", i);

        x_begin(f);
        x_python(f, id, code);
        if (i == n - 1)
            x_tool(f, second, "bash", "{}");
        x_end(f, "tool_use");
    }
}

static void
test_round_20_is_an_answer(void **state)
{
    struct fixture *f = begin();

    (void)state;
    add_rounds(f, 19);
    x_answer(f, "At last.");
    expect_ok(f, "q");
    assert_int_equal(f->n_requests, 20);
    expect_next_is_fine(f);
    end(f);
}

static void
test_round_21_is_not_asked_for(void **state)
{
    struct fixture *f = begin();

    (void)state;
    add_rounds(f, 20);
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->err.code, ERR_LIMIT);
    assert_int_equal(f->n_requests, 20);
    assert_int_equal(count(f->ran.data, "|"), 19);
    expect_logged(f, "done turn limit (stopped after 20 rounds");
    expect_next_is_fine(f);
    assert_int_equal(count(f->last.data, "Not executed: the limit of rounds"),
                     2);
    expect_nothing_ran_twice(f);
    end(f);
}

static void
add_scene(struct fixture *f)
{
    x_begin(f);
    x_thinking(f, "think first");
    x_text(f, "partial words");
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "show 2");
    x_end(f, "tool_use");
    x_status(f, 529, "{}")->retry_after_ms = "1";
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_text(f, "half an answer");
    add_piece(f, PIECE_CUT, NULL);
    x_begin(f);
    x_python(f, "t3", "boom 3");
    x_end(f, "tool_use");
    x_answer(f, "Whole answer.");
}

/* Cancelled at each event of a turn in which everything happens, by hand of
   the sink itself: the worst moment there is. */
static void
test_cancel_at_every_event(void **state)
{
    int n_total = 0;

    (void)state;
    for (int n = 1; n_total == 0 || n <= n_total; n++) {
        struct fixture *f = begin();
        bool reached = false;

        add_scene(f);
        f->cancel_at = n;
        f->pending = n % 2 == 0;
        ask(f, "first question");
        reached = f->n_events >= n;
        if (!reached) {
            assert_int_equal(f->outcome, EVENT_OK);
            n_total = f->n_events;
        } else if (f->outcome != EVENT_INTERRUPTED) {
            /* Too late: the turn was over but for its last two events. */
            assert_int_equal(f->outcome, EVENT_OK);
            if (n < f->n_events - 1)
                fail_msg("event %d of %d came too late:\n%s", n, f->n_events,
                         f->log.data);
        }
        if (f->outcome == EVENT_INTERRUPTED)
            assert_int_equal(f->err.code, ERR_NONE);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        end(f);
        assert_true(n < 200);
    }
    assert_true(n_total > 25);
}

static void
test_cancel_while_a_barrier_is_pending(void **state)
{
    /* Before the n-th barrier: of requests, cells and the turn's end. */
    static const size_t n_requests[] = {0, 0, 1, 1, 1, 4, 4, 5};
    static const size_t n_cells[] = {0, 0, 0, 1, 2, 2, 3, 3};

    (void)state;
    for (int n = 1; n <= 7; n++) {
        struct fixture *f = begin();

        add_scene(f);
        f->pending = true;
        f->cancel_barrier = n;
        ask(f, "first question");
        assert_int_equal(f->outcome, n < 7 ? EVENT_INTERRUPTED : EVENT_OK);
        /* What was about to happen did not. */
        assert_int_equal(count(f->ran.data, "|"), n_cells[n]);
        assert_int_equal(f->n_requests, n_requests[n]);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        end(f);
    }
}

enum stage {
    STAGE_HEAD,
    STAGE_START,
    STAGE_THINKING,
    STAGE_TEXT,
    STAGE_TOOL,
    STAGE_CELL,
    STAGE_SECOND,
    STAGE_WAIT
};

struct stage_case {
    const char *name;
    enum stage stage;
    const char *expect_ran;
    const char *expect_sent; /* with the next question */
    const char *expect_not_sent;
};

static const struct stage_case stage_cases[] = {
    {"before the head", STAGE_HEAD, "", NULL, "first question"},
    {"behind the head", STAGE_START, "", NULL, "first question"},
    {"in thinking", STAGE_THINKING, "", NULL, "first question"},
    {"in text", STAGE_TEXT, "", "partial words", "thinking"},
    {"in tool input", STAGE_TOOL, "", "partial words", "tool_use"},
    {"in a cell", STAGE_CELL, "hang 1|", "Not executed: interrupted", NULL},
    {"in the second cell", STAGE_SECOND, "print 1|hang 2|",
     "status: interrupted", "Not executed"},
    {"in a retry wait", STAGE_WAIT, "", NULL, "first question"},
};

static void
add_stage(struct fixture *f, enum stage stage)
{
    if (stage == STAGE_WAIT) {
        x_status(f, 529, "{}")->retry_after_ms = "30000";
        return;
    }
    x_begin(f);
    last_exchange(f)->hang_before_head = stage == STAGE_HEAD;
    if (stage == STAGE_THINKING || stage == STAGE_TEXT) {
        x_open_thinking(f, "hm");
        if (stage == STAGE_TEXT) {
            add_delta(f, "signature_delta", "signature", "c2ln", 4);
            end_block(f);
        }
    }
    if (stage == STAGE_TEXT)
        x_open_text(f, "partial words");
    if (stage == STAGE_TOOL) {
        x_text(f, "partial words");
        x_open_tool(f, "t1", "run_python", "{\"code\":\"print 1\"}");
    }
    if (stage < STAGE_CELL) {
        x_hang(f);
        return;
    }
    x_python(f, "t1", stage == STAGE_CELL ? "hang 1" : "print 1");
    x_python(f, "t2", stage == STAGE_CELL ? "print 2" : "hang 2");
    x_end(f, "tool_use");
}

static void
test_cancel_where_it_hangs(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stage_cases); i++) {
        const struct stage_case *t = &stage_cases[i];
        struct fixture *f = begin();

        add_stage(f, t->stage);
        if (ask_and_cancel(f, "first question", 30) != EVENT_INTERRUPTED)
            fail_msg("%s: %s %s", t->name, event_outcome_name(f->outcome),
                     f->err.msg);
        assert_int_equal(f->err.code, ERR_NONE);
        if (f->took_ms < 25 || f->took_ms > 2000)
            fail_msg("%s: %d ms", t->name, (int)f->took_ms);
        expect_logged(f, "done turn interrupted\n");
        if (!str_eq(f->ran.data, t->expect_ran))
            fail_msg("%s: %s ran", t->name, f->ran.data);
        expect_next_is_fine(f);
        assert_string_equal(f->ran.data, t->expect_ran);
        if (t->expect_sent != NULL)
            expect_sent(f, t->expect_sent);
        if (t->expect_not_sent != NULL)
            expect_not_sent(f, t->expect_not_sent);
        end(f);
    }
}

#define CUT_OFF "[The previous reply was interrupted by the user.]"

/* What the model has said is there, and it learns that it was cut off; where
   nothing is left of a reply, and behind cells, whose results say it, once. */
static void
test_cancel_tells_the_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stage_cases); i++) {
        const struct stage_case *t = &stage_cases[i];
        struct fixture *f = begin();
        bool cut = t->stage == STAGE_TEXT || t->stage == STAGE_TOOL;

        add_stage(f, t->stage);
        ask_and_cancel(f, "first question", 30);
        expect_next_is_fine(f);
        if (count(f->last.data, CUT_OFF) != (cut ? 1 : 0))
            fail_msg("%s: %s", t->name, f->last.data);
        if (cut)
            expect_sent(f, CUT_OFF "\\nnext question");
        expect_next_is_fine(f);
        expect_not_sent(f, CUT_OFF "\\n" CUT_OFF);
        end(f);
    }
}

/* Thinking goes, but the results before it stay. */
static void
test_cancel_behind_a_cell_tells_the_model(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_open_thinking(f, "hm");
    x_hang(f);
    assert_int_equal(ask_and_cancel(f, "q", 100), EVENT_INTERRUPTED);
    expect_next_is_fine(f);
    expect_sent(f, "out of print 1");
    expect_sent(f, CUT_OFF "\\nnext question");
    end(f);
}

/* The files are listed before the first cell of a sandbox that is ready. */
static void
test_cancel_while_files_are_listed(void **state)
{
    struct fixture *f = begin();

    (void)state;
    sandbox_open(f->sandbox);
    f->guard = loop_add_timer(f->loop, 50, on_guard, f);
    loop_run(f->loop);
    assert_int_equal(sandbox_state(f->sandbox), SANDBOX_IDLE);
    f->cancel_in_list = true;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_INTERRUPTED);
    assert_string_equal(f->ran.data, "");
    f->cancel_in_list = false;
    expect_next_is_fine(f);
    expect_sent(f, "Not executed: interrupted by the user.");
    end(f);
}

static void
test_refusal(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_text(f, "I will");
    x_end(f, "refusal");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_NO_ANSWER);
    expect_next_is_fine(f);
    expect_not_sent(f, "first question");
    expect_not_sent(f, "I will");

    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "refusal");
    assert_int_equal(ask(f, "another"), EVENT_FAILED);
    expect_next_is_fine(f);
    expect_sent(f, "out of print 1");
    end(f);
}

static void
test_max_tokens(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_text(f, "A long story");
    x_end(f, "max_tokens");
    expect_ok(f, "q");
    expect_logged(f, "notice the answer was cut at model.max_tokens");

    clear_exchanges(f);
    x_begin(f);
    x_text(f, "So.");
    x_open_tool(f, "t1", "run_python", "{\"code\":\"print");
    x_end(f, "max_tokens");
    ask(f, "q2");
    assert_string_equal(f->ran.data, "");
    expect_logged(f, "notice the answer was cut at model.max_tokens");
    expect_next_is_fine(f);
    expect_not_sent(f, "tool_use");

    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "max_tokens");
    assert_int_equal(ask(f, "q3"), EVENT_FAILED);
    assert_string_equal(f->ran.data, "");
    expect_next_is_fine(f);
    expect_not_sent(f, "q3");
    end(f);
}

static void
test_empty_reply(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_NO_ANSWER);
    assert_int_equal(f->n_requests, 1);
    expect_next_is_fine(f);
    expect_not_sent(f, "first question");
    end(f);
}

static void
test_empty_reply_behind_results_is_asked_for_once(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    x_answer(f, "Here it is.");
    expect_ok(f, "q");
    assert_int_equal(f->n_requests, 3);
    expect_sent(f, "Please go on");

    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "again"), EVENT_FAILED);
    assert_int_equal(f->n_requests, 3);
    expect_next_is_fine(f);
    expect_nothing_ran_twice(f);
    end(f);
}

static void
test_empty_reply_at_the_limit_is_not_asked_for(void **state)
{
    struct fixture *f = begin();

    (void)state;
    make_agent(f, 2);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->n_requests, 2);
    expect_next_is_fine(f);
    end(f);
}

static void
test_pause_goes_on(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    f->may_pause = true;
    x_text(f, "Thinking about it.");
    x_end(f, "pause_turn");
    x_begin(f);
    x_text(f, "And again.");
    x_end(f, "pause_turn");
    x_answer(f, "Done.");
    assert_int_equal(ask(f, "q"), EVENT_OK);
    assert_int_equal(f->n_requests, 3);
    expect_next_is_fine(f);
    end(f);
}

static void
test_sink_failure_at_every_event(void **state)
{
    int n_total = 0;

    (void)state;
    for (int n = 1; n_total == 0 || n <= n_total; n++) {
        struct fixture *f = begin();

        add_scene(f);
        f->fail_at = n;
        ask(f, "first question");
        if (f->n_events < n) {
            n_total = f->n_events;
            assert_int_equal(f->outcome, EVENT_OK);
        } else if (n_total == 0 && f->outcome == EVENT_OK) {
            /* Only the last events of a turn come too late to end it. */
            expect_logged(f, "done turn ok");
            assert_true(f->n_events <= n + 1);
        } else {
            assert_int_equal(f->outcome, EVENT_FAILED);
            assert_string_equal(f->err.msg, "log: disk full");
        }
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        end(f);
        assert_true(n < 200);
    }
}

static void
test_sink_failure_at_every_barrier(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        struct fixture *f = begin();

        add_scene(f);
        f->fail_barrier = n;
        ask(f, "first question");
        if (f->n_barriers < n) {
            assert_int_equal(n, 8);
            assert_int_equal(f->outcome, EVENT_OK);
        } else {
            assert_int_equal(f->outcome, EVENT_FAILED);
            assert_string_equal(f->err.msg, "log: not synced");
        }
        /* What could not be recorded did not happen. */
        assert_int_equal(count(f->ran.data, "|"), n > 5   ? 3
                                                  : n > 3 ? 2
                                                  : n > 2 ? 1
                                                          : 0);
        expect_next_is_fine(f);
        expect_nothing_ran_twice(f);
        end(f);
    }
}

static void
test_sandbox_lost(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "lost 2");
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_SANDBOX);
    assert_string_equal(f->ran.data, "print 1|lost 2|");
    expect_logged(f, "done 2 cell error\n");
    expect_next_is_fine(f);
    expect_sent(f, "out of print 1");
    expect_sent(f, "the sandbox is gone");
    expect_sent(f, "Not executed: there is no sandbox");
    end(f);
}

static void
test_sandbox_that_cannot_be_opened(void **state)
{
    struct fixture *f = begin();

    (void)state;
    f->open_fails = true;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_SANDBOX);
    assert_non_null(strstr(f->err.msg, "no bwrap here"));
    assert_string_equal(f->ran.data, "");
    f->open_fails = false;
    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Now.");
    expect_ok(f, "again");
    assert_string_equal(f->ran.data, "print 2|");
    end(f);
}

static void
test_interpreter_that_died_is_told(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "died 1");
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    expect_sent(f, "[status: died, ");
    expect_sent(f, "[the interpreter ended; variables are gone]");
    assert_string_equal(f->ran.data, "died 1|print 2|");
    expect_next_is_fine(f);
    end(f);
}

static void
test_failed_question_is_taken_back(void **state)
{
    struct fixture *f = begin();

    (void)state;
    agent_tell(f->agent, "FILE one");
    agent_tell(f->agent, "FILE two");
    x_status(f, 400,
             "{\"type\":\"error\",\"error\":{\"type\":"
             "\"invalid_request_error\",\"message\":\"no\"}}");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.http_status, 400);
    expect_sent(f, "FILE one\\nFILE two\\nfirst question");
    agent_tell(f->agent, "FILE three");
    expect_next_is_fine(f);
    expect_sent(f, "FILE one\\nFILE two\\nFILE three\\nnext question");
    expect_not_sent(f, "first question");
    expect_next_is_fine(f);
    assert_int_equal(count(f->last.data, "FILE one"), 1);
    assert_int_equal(count(f->last.data, "next question"), 2);
    end(f);
}

/* What was told while a turn ran is not lost when it fails. */
static void
test_told_during_a_turn_that_fails(void **state)
{
    struct fixture *f = begin();
    struct error err = {0};

    (void)state;
    agent_tell(f->agent, "FILE one");
    x_status(f, 400, "{}");
    f->first_in_turn = true;
    assert_int_equal(agent_ask(f->agent, "first question", &err), 0);
    agent_tell(f->agent, "FILE two");
    f->guard = loop_add_timer(f->loop, GUARD_MS, on_guard, f);
    loop_run(f->loop);
    loop_timer_remove(f->guard);
    assert_true(f->over);
    expect_next_is_fine(f);
    expect_sent(f, "FILE one\\nFILE two\\nnext question");
    end(f);
}

static void
test_cut_reply_is_asked_for_again(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_open_text(f, "half");
    add_piece(f, PIECE_CUT, NULL);
    x_answer(f, "Whole.");
    expect_ok(f, "q");
    expect_logged(f, "notice the reply broke off");
    expect_logged(f, "status wait ");
    expect_next_is_fine(f);
    expect_not_sent(f, "half");
    end(f);
}

static void
test_result_is_bounded(void **state)
{
    struct fixture *f = begin();
    AUTO_JSON struct cJSON *tree = NULL;
    AUTO_FREE char *array = NULL;
    const char *text = NULL;

    (void)state;
    x_begin(f);
    x_python(f, "t1", "big 1");
    x_end(f, "tool_use");
    x_answer(f, "Much.");
    expect_ok(f, "q");
    array = xasprintf("[%s]", f->last.data);
    tree = json_parse(array, strlen(array), 0, NULL);
    text = json_string(
        json_first(json_get(json_first(json_get(json_item(tree, 2), "content")),
                            "content")),
        "text");
    assert_non_null(text);
    assert_true(strlen(text) <= 12000);
    assert_true(strlen(text) > 11000);
    assert_non_null(strstr(text, "line 00000\n"));
    assert_non_null(strstr(text, "line 19999\n"));
    assert_non_null(strstr(text, " of 220000 bytes of output shown"));
    expect_next_is_fine(f);
    end(f);
}

static void
test_output_that_is_no_text(void **state)
{
    struct fixture *f = begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "bytes 1");
    x_end(f, "tool_use");
    x_answer(f, "Odd.");
    expect_ok(f, "q");
    expect_sent(f, "a \xEF\xBF\xBD\xEF\xBF\xBD\\n");
    expect_next_is_fine(f);
    end(f);
}

static void
test_files_of_cells(void **state)
{
    struct fixture *f = begin();

    (void)state;
    f->files[0] =
        (struct sandbox_file){.name = "out/a.csv", .size_bytes = 9, .inode = 1};
    f->files[1] = (struct sandbox_file){
        .name = "link", .inode = 2, .refused = "a symbolic link"};
    f->files[2] = (struct sandbox_file){
        .name = "huge", .size_bytes = 1ull << 40, .inode = 3};
    f->n_files = 3;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    expect_logged(f, "file 1 out/a.csv -\n");
    expect_logged(f, "file 1 link a symbolic link\n");
    expect_logged(f, "file 1 huge larger than 50 MB\n");
    assert_null(strstr(f->log.data, "file 2 "));
    assert_string_equal(f->file_text, "out/a.csv");
    clear_exchanges(f);
    f->files[0].mtime_ns = 5;
    x_begin(f);
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_int_equal(count(f->log.data, "file 3 "), 1);
    expect_logged(f, "file 3 out/a.csv -\n");
    end(f);
}

static void
test_questions_that_are_refused_at_once(void **state)
{
    struct fixture *f = begin();
    struct error err = {0};
    struct agent_config config = {.loop = f->loop,
                                  .sandbox = f->sandbox,
                                  .chain = f->chain,
                                  .max_rounds = 20,
                                  .on_done = on_over,
                                  .ctx = f};
    struct agent *keyless = agent_new(&config);

    (void)state;
    assert_int_equal(agent_ask(keyless, "q", &err), -1);
    assert_int_equal(err.code, ERR_AUTH);
    agent_cancel(keyless);
    agent_free(keyless);
    assert_int_equal(agent_ask(f->agent, " \n", &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_false(agent_is_busy(f->agent));
    x_answer(f, "A.");
    f->first_in_turn = true;
    assert_int_equal(agent_ask(f->agent, "q", &err), 0);
    assert_int_equal(agent_ask(f->agent, "r", &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_answer),
        cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_two_calls_in_one_reply),
        cmocka_unit_test(test_error_in_code),
        cmocka_unit_test(test_calls_that_cannot_run),
        cmocka_unit_test(test_round_20_is_an_answer),
        cmocka_unit_test(test_round_21_is_not_asked_for),
        cmocka_unit_test(test_cancel_at_every_event),
        cmocka_unit_test(test_cancel_while_a_barrier_is_pending),
        cmocka_unit_test(test_cancel_where_it_hangs),
        cmocka_unit_test(test_cancel_tells_the_model),
        cmocka_unit_test(test_cancel_behind_a_cell_tells_the_model),
        cmocka_unit_test(test_cancel_while_files_are_listed),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_max_tokens),
        cmocka_unit_test(test_empty_reply),
        cmocka_unit_test(test_empty_reply_behind_results_is_asked_for_once),
        cmocka_unit_test(test_empty_reply_at_the_limit_is_not_asked_for),
        cmocka_unit_test(test_pause_goes_on),
        cmocka_unit_test(test_sink_failure_at_every_event),
        cmocka_unit_test(test_sink_failure_at_every_barrier),
        cmocka_unit_test(test_sandbox_lost),
        cmocka_unit_test(test_sandbox_that_cannot_be_opened),
        cmocka_unit_test(test_interpreter_that_died_is_told),
        cmocka_unit_test(test_failed_question_is_taken_back),
        cmocka_unit_test(test_told_during_a_turn_that_fails),
        cmocka_unit_test(test_cut_reply_is_asked_for_again),
        cmocka_unit_test(test_result_is_bounded),
        cmocka_unit_test(test_output_that_is_no_text),
        cmocka_unit_test(test_files_of_cells),
        cmocka_unit_test(test_questions_that_are_refused_at_once),
    };

    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
