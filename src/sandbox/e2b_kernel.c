/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_kernel_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local_internal.h"

#define LOG_MODULE "e2b"

#define OPEN_MS 90000
/* For those of an interpreter that was told to end. */
#define KILL_MS 45000
/* For a cell that was cut off to stop. */
#define CUT_MS 8000
/* A request that is no cell. */
#define ASK_MS 120000
#define ASK_GRACE_MS 10000

#define MAX_REQUEST ((size_t)8 << 20)
#define MAX_INIT_BYTES 1024u
#define MAX_PING_BYTES 64u
#define MAX_REASON 1024u
#define MAX_LATER_BYTES 4096u
#define MAX_UNASKED 10000u
#define NO_PYTHON 127

static const char later_kind[] = "later";

static void kill_kernel(struct e2b_runner *r);

/* --- callbacks that may free it --- */

void
e2b_kernel_enter(struct e2b_kernel *k)
{
    k->depth++;
}

static void
destroy(struct e2b_kernel *k)
{
    e2b_kernel_ask_drop(k);
    e2b_channel_free(k->channel);
    loop_timer_remove(k->timer);
    loop_timer_remove(k->kill_timer);
    loop_task_remove(k->task);
    sbuf_fini(&k->later);
    free(k->version);
    free(k->about);
    free(k->fatal);
    free(k);
}

void
e2b_kernel_leave(struct e2b_kernel *k)
{
    if (--k->depth == 0 && k->dead)
        destroy(k);
}

/* --- ends --- */

static void
stop_timer(struct e2b_kernel *k)
{
    loop_timer_remove(k->timer);
    k->timer = NULL;
}

/* Whoever has asked for something is told how it ended. */
static void
tell(struct e2b_kernel *k, const struct e2b_run_end *end)
{
    enum e2b_kernel_state state = k->state;
    e2b_run_fn fn = k->fn;
    void *ctx = k->fn_ctx;

    stop_timer(k);
    k->state = end->way == E2B_RUN_DONE ? E2B_KERNEL_IDLE : E2B_KERNEL_GONE;
    switch (state) {
    case E2B_KERNEL_OPENING:
    case E2B_KERNEL_RECONNECTING:
    case E2B_KERNEL_ENDING:
        fn(ctx, end);
        break;
    case E2B_KERNEL_RUNNING:
        k->on.on_done(k->cell_ctx, end);
        break;
    case E2B_KERNEL_ASKING:
        e2b_kernel_ask_lost(k, end);
        break;
    case E2B_KERNEL_IDLE:
        if (k->base.on_lost != NULL)
            k->base.on_lost(k->base.on_lost_ctx, end);
        break;
    case E2B_KERNEL_NEW:
    case E2B_KERNEL_GONE:
        break;
    }
}

/* The interpreter is gone, and the sandbox is not. text: a sentence. */
static void
lose(struct e2b_kernel *k, const char *text, const struct error *err)
{
    AUTO_FREE char *reason = xasprintf("%s " SANDBOX_LOST_TEXT, text);
    struct sandbox_outcome outcome = {
        .outcome = EVENT_DIED,
        .exit_status = -1,
        .reason = reason,
        .variables_lost = true,
        .output_dropped_bytes = (int64_t)k->show.n_dropped,
    };
    struct error why = {0};

    loop_timer_remove(k->kill_timer);
    k->kill_timer = NULL;
    e2b_channel_free(k->channel);
    k->channel = NULL;
    if (err == NULL && k->state == E2B_KERNEL_OPENING) {
        error_fill(&why, ERR_SANDBOX, "starting the interpreter: %s", text);
        err = &why;
    }
    tell(k, &(struct e2b_run_end){
                .way = E2B_RUN_LOST, .outcome = &outcome, .err = err});
}

/* What the relay said last, or the process without a word of it. */
static void
lose_as_told(struct e2b_kernel *k, const struct e2b_channel_end *end)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};

    sbuf_init(&sb, MAX_REASON);
    if (k->fatal != NULL) {
        error_fill(&err, ERR_UNSUPPORTED, "starting the interpreter: %s",
                   k->fatal);
        lose(k, "The interpreter cannot run here.", &err);
        return;
    }
    if (k->state == E2B_KERNEL_OPENING && end->exit_status == NO_PYTHON) {
        error_fill(&err, ERR_UNSUPPORTED,
                   "starting the interpreter: the sandbox has no python3; "
                   "choose a template that has one");
        lose(k, "The sandbox has no Python.", &err);
        return;
    }
    if (k->killed) {
        lose(k,
             k->state == E2B_KERNEL_OPENING
                 ? "The interpreter did not become ready."
                 : "The interpreter was ended.",
             NULL);
        return;
    }
    sbuf_add_str(&sb, "The interpreter has ended: ");
    if (end->is_known)
        local_death_add_end(&sb, &(struct proc_exit){.code = end->exit_status,
                                                     .signal = end->signal});
    else
        sbuf_add_str(&sb, "how is not known");
    sbuf_add_char(&sb, '.');
    if (k->state == E2B_KERNEL_OPENING && end->errors[0] != '\0') {
        AUTO_FREE char *line = kernel_answer_line(end->errors);

        error_fill(&err, ERR_SANDBOX, "starting the interpreter: %s", line);
        lose(k, sb.data, &err);
        return;
    }
    lose(k, sb.data, NULL);
}

static void
on_channel_end(void *ctx, const struct e2b_channel_end *end)
{
    struct e2b_kernel *k = ctx;

    e2b_kernel_enter(k);
    if (end->fault != NULL) {
        AUTO_FREE char *text =
            xasprintf("The interpreter was ended, since %s.", end->fault);

        lose(k, text, NULL);
    } else if (end->trouble == E2B_TROUBLE_NONE) {
        lose_as_told(k, end);
    } else if (k->killed) {
        lose(k, "The interpreter was told to end, and the way to it was lost.",
             NULL);
    } else {
        /* Its memory is as it was when the way is there again. What was asked
           for may have got there, and a cell thus may run. */
        if (k->state == E2B_KERNEL_RUNNING || k->state == E2B_KERNEL_ASKING)
            k->was_cut = true;
        tell(k, &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                      .trouble = end->trouble,
                                      .err = end->err});
    }
    e2b_kernel_leave(k);
}

/* --- requests --- */

void
e2b_kernel_send(struct e2b_kernel *k, const struct sbuf *line)
{
    e2b_channel_request(k->channel, line->data, line->len);
}

static void
send_init(struct e2b_kernel *k)
{
    const struct e2b_runner_config *c = &k->config;
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_INIT_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "init");
    json_add_member_int(&sb, "v", 1);
    json_add_key(&sb, "nonce");
    json_add_string(&sb, e2b_channel_nonce(k->channel), MARKS_NONCE_LEN);
    json_add_key(&sb, "preload");
    sbuf_add_str(&sb, "[\"pandas\",\"matplotlib.pyplot\"]");
    if (c->has_network) {
        json_add_member_bool(&sb, "online", true);
    }
    if (c->figure_width_px > 0 && c->figure_height_px > 0) {
        json_add_key(&sb, "figure");
        sbuf_add_char(&sb, '{');
        json_add_member_int(&sb, "width_px", c->figure_width_px);
        json_add_member_int(&sb, "height_px", c->figure_height_px);
        if (c->figure_dpi > 0)
            json_add_member_int(&sb, "dpi", c->figure_dpi);
        sbuf_add_char(&sb, '}');
    }
    sbuf_add_char(&sb, '}');
    e2b_kernel_send(k, &sb);
}

/* --- events --- */

static void
handle_ready(struct e2b_kernel *k, const struct cJSON *event)
{
    const char *path = e2b_channel_python(k->channel);

    free(k->version);
    free(k->about);
    k->version = json_dup_string(event, "python", SANDBOX_MAX_NAME_BYTES);
    k->about = xasprintf("%s (%s)", path, k->version != NULL ? k->version : "");
    tell(k, &(struct e2b_run_end){.way = E2B_RUN_DONE});
}

static bool
is_open(void *owner)
{
    const struct e2b_kernel *k = owner;

    return !k->dead && k->state == E2B_KERNEL_RUNNING;
}

/* Once: what a cell writes may come before the word that it has begun. */
static void
tell_begin(struct e2b_kernel *k)
{
    if (k->begin_told)
        return;
    k->begin_told = true;
    k->on.on.on_begin(k->cell_ctx);
}

static void
handle_begin(struct e2b_kernel *k)
{
    k->begun = true;
    if (k->interrupts)
        e2b_channel_interrupt(k->channel);
    tell_begin(k);
}

static enum event_outcome
outcome_of(const struct cJSON *event)
{
    const char *status = json_string(event, "status");

    if (str_eq(status, "ok"))
        return EVENT_OK;
    return str_eq(status, "interrupted") ? EVENT_INTERRUPTED : EVENT_FAILED;
}

static void
handle_done(struct e2b_kernel *k, const struct cJSON *event)
{
    const struct cJSON *error = json_get(event, "error");
    AUTO_FREE char *name =
        json_dup_string(error, "name", SANDBOX_MAX_NAME_BYTES);
    AUTO_FREE char *value =
        json_dup_string(error, "value", SANDBOX_MAX_VALUE_BYTES);
    AUTO_FREE char *trace =
        json_dup_string(error, "traceback", SANDBOX_MAX_TRACE_BYTES);
    AUTO_FREE char *hint =
        json_dup_string(error, "hint", SANDBOX_MAX_VALUE_BYTES);
    struct sandbox_outcome outcome = {
        .outcome = outcome_of(event),
        .exit_status = -1,
        .error_name = name,
        .error_value = value,
        .traceback = trace,
        .hint = hint,
        .output_dropped_bytes = (int64_t)k->show.n_dropped,
    };

    e2b_channel_acknowledge(k->channel);
    tell(k, &(struct e2b_run_end){.way = E2B_RUN_DONE, .outcome = &outcome});
}

/* False when nobody has asked for it. */
static bool
handle_event(struct e2b_kernel *k, const struct cJSON *event, size_t len)
{
    const char *name = json_string(event, "ev");

    if (k->state == E2B_KERNEL_RECONNECTING) {
        /* Of what was cut off, until it is over. */
        if (str_eq(name, "pong") && json_int(event, "id", -1) == k->id)
            tell(k, &(struct e2b_run_end){.way = E2B_RUN_DONE});
        return true;
    }
    if (k->state == E2B_KERNEL_OPENING && str_eq(name, "ready")) {
        handle_ready(k, event);
        return true;
    }
    if (k->state == E2B_KERNEL_OPENING && str_eq(name, "fatal")) {
        free(k->fatal);
        k->fatal = json_dup_string(event, "text", SANDBOX_MAX_NAME_BYTES);
        return true;
    }
    if (name == NULL || json_int(event, "id", -1) != k->id)
        return false;
    if (k->state == E2B_KERNEL_ASKING)
        return e2b_kernel_ask_event(k, name, event);
    if (k->state != E2B_KERNEL_RUNNING)
        return false;
    if (strcmp(name, "done") == 0)
        handle_done(k, event);
    else if (strcmp(name, "begin") != 0)
        kernel_show_event(&k->show, event, len);
    else if (!k->begun)
        handle_begin(k);
    return true;
}

static void
on_event(void *ctx, const struct cJSON *event, size_t len)
{
    struct e2b_kernel *k = ctx;

    e2b_kernel_enter(k);
    if (!handle_event(k, event, len) && k->channel != NULL &&
        ++k->n_unasked == MAX_UNASKED)
        e2b_channel_break(k->channel,
                          "it sent events that nobody had asked for");
    e2b_kernel_leave(k);
}

static void
on_text(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct e2b_kernel *k = ctx;

    e2b_kernel_enter(k);
    if (k->state == E2B_KERNEL_RUNNING) {
        tell_begin(k);
        if (is_open(k))
            kernel_show_text(&k->show, stream, data, len);
    } else if (k->state == E2B_KERNEL_IDLE) {
        size_t room = MAX_LATER_BYTES - k->later.len;

        sbuf_add(&k->later, data, len < room ? len : room);
    }
    e2b_kernel_leave(k);
}

static void
on_cut_late(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->timer = NULL;
    e2b_kernel_enter(k);
    kill_kernel(&k->base);
    e2b_kernel_leave(k);
}

/* What was cut off is asked to stop, and answers come in order. */
static void
end_cut_off(struct e2b_kernel *k)
{
    AUTO_SBUF struct sbuf sb = {0};

    k->was_cut = false;
    k->id++;
    e2b_channel_interrupt(k->channel);
    sbuf_init(&sb, MAX_PING_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "ping");
    json_add_member_int(&sb, "id", k->id);
    sbuf_add_char(&sb, '}');
    e2b_kernel_send(k, &sb);
    stop_timer(k);
    k->timer = loop_add_timer(k->loop, CUT_MS, on_cut_late, k);
}

static void
on_synced(void *ctx)
{
    struct e2b_kernel *k = ctx;

    if (k->state != E2B_KERNEL_RECONNECTING)
        return;
    if (k->was_cut) {
        end_cut_off(k);
        return;
    }
    e2b_kernel_enter(k);
    tell(k, &(struct e2b_run_end){.way = E2B_RUN_DONE});
    e2b_kernel_leave(k);
}

static const struct e2b_channel_handlers channel_handlers = {
    .on_text = on_text,
    .on_event = on_event,
    .on_synced = on_synced,
    .on_end = on_channel_end,
};

/* --- cells --- */

static void
on_flood(void *owner)
{
    struct e2b_kernel *k = owner;

    k->on.on_flood(k->cell_ctx);
}

static void
send_cell(struct e2b_kernel *k, const struct sandbox_cell *cell)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REQUEST);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "exec");
    json_add_member_int(&sb, "id", k->id);
    json_add_key(&sb, "code");
    json_add_string(&sb, cell->code, cell->code_len);
    json_add_member_bool(&sb, "silent", cell->silent);
    if (cell->number > 0)
        json_add_member_int(&sb, "cell", cell->number);
    sbuf_add_char(&sb, '}');
    e2b_kernel_send(k, &sb);
}

static void
refuse_cell(void *ctx)
{
    struct e2b_kernel *k = ctx;
    struct error err = {0};

    k->task = NULL;
    error_fill(&err, k->refusal, "%s",
               k->refusal == ERR_UNSUPPORTED
                   ? "running a cell: the interpreter runs Python only"
                   : "running a cell: no interpreter runs");
    e2b_kernel_enter(k);
    k->on.on_done(k->cell_ctx,
                  &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                        .trouble = E2B_TROUBLE_REFUSED,
                                        .err = &err});
    e2b_kernel_leave(k);
}

static void
run_cell(struct e2b_runner *r, const struct sandbox_cell *cell,
         const struct e2b_run_handlers *on, void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;

    k->on = *on;
    k->cell_ctx = ctx;
    k->refusal = ERR_NONE;
    if (cell->language != NULL && strcmp(cell->language, "python") != 0)
        k->refusal = ERR_UNSUPPORTED;
    if (k->state != E2B_KERNEL_IDLE && k->refusal == ERR_NONE)
        k->refusal = ERR_SANDBOX;
    if (k->refusal != ERR_NONE) {
        k->task = loop_defer(k->loop, refuse_cell, k);
        return;
    }
    k->id++;
    k->begun = k->begin_told = k->interrupts = false;
    k->n_unasked = 0;
    k->show = (struct kernel_show){.on = &k->on.on,
                                   .ctx = ctx,
                                   .output_bytes = k->config.output_bytes,
                                   .on_flood = on_flood,
                                   .is_open = is_open,
                                   .owner = k};
    k->state = E2B_KERNEL_RUNNING;
    send_cell(k, cell);
    if (!cell->silent && k->later.len > 0) {
        AUTO_FREE char *text = sbuf_take(&k->later);

        sbuf_init(&k->later, MAX_LATER_BYTES);
        k->on.on.on_note(ctx, later_kind, text);
    }
}

/* --- life --- */

static void
on_open_timeout(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->timer = NULL;
    e2b_kernel_enter(k);
    if (k->state == E2B_KERNEL_OPENING) {
        kill_kernel(&k->base);
    } else {
        struct error err = {0};

        error_fill(&err, ERR_TIMEOUT,
                   "reaching the interpreter: no answer within %d s",
                   OPEN_MS / 1000);
        tell(k, &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                      .trouble = E2B_TROUBLE_LATE,
                                      .err = &err});
    }
    e2b_kernel_leave(k);
}

static void
report_start(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->task = NULL;
    e2b_kernel_enter(k);
    tell(k, &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                  .trouble = E2B_TROUBLE_CUT,
                                  .err = &k->start_err});
    e2b_kernel_leave(k);
}

/* Waits for it; err: it could not even be asked. */
static void
begin(struct e2b_kernel *k, enum e2b_kernel_state state, e2b_run_fn fn,
      void *ctx, const struct error *err)
{
    k->state = state;
    k->fn = fn;
    k->fn_ctx = ctx;
    if (err->code != ERR_NONE) {
        k->start_err = *err;
        k->task = loop_defer(k->loop, report_start, k);
    } else {
        k->timer = loop_add_timer(k->loop, OPEN_MS, on_open_timeout, k);
    }
}

static void
open_kernel(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct error err = {0};

    assert(k->state == E2B_KERNEL_NEW || k->state == E2B_KERNEL_GONE);
    e2b_channel_free(k->channel);
    k->killed = k->was_cut = false;
    free(take_ptr(&k->fatal));
    k->channel = e2b_channel_new(k->site, &channel_handlers, k, &err);
    if (k->channel != NULL)
        send_init(k);
    begin(k, E2B_KERNEL_OPENING, fn, ctx, &err);
}

static void
reconnect_kernel(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct error err = {0};

    if (k->channel == NULL)
        error_fill(&err, ERR_SANDBOX,
                   "reaching the interpreter: there is none");
    else
        (void)!e2b_channel_attach(k->channel, &err);
    begin(k, E2B_KERNEL_RECONNECTING, fn, ctx, &err);
}

static void
interrupt_kernel(struct e2b_runner *r)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;

    if (k->channel == NULL)
        return;
    if (k->state == E2B_KERNEL_RUNNING && !k->begun)
        k->interrupts = true;
    else if (k->state == E2B_KERNEL_RUNNING || k->state == E2B_KERNEL_ASKING)
        e2b_channel_interrupt(k->channel);
}

static void
on_kill_timer(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->kill_timer = NULL;
    e2b_kernel_enter(k);
    lose(k, "The interpreter was told to end, and did not answer.", NULL);
    e2b_kernel_leave(k);
}

static void
kill_kernel(struct e2b_runner *r)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;

    if (k->channel == NULL || k->killed)
        return;
    k->killed = true;
    e2b_channel_kill(k->channel);
    k->kill_timer = loop_add_timer(k->loop, KILL_MS, on_kill_timer, k);
}

static void
end_kernel(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;
    struct error err = {0};

    if (k->channel == NULL)
        error_fill(&err, ERR_SANDBOX, "ending the interpreter: there is none");
    begin(k, E2B_KERNEL_ENDING, fn, ctx, &err);
    kill_kernel(r);
}

static void
on_ask_late(void *ctx)
{
    struct e2b_kernel *k = ctx;

    k->timer = NULL;
    if (k->asked_late) {
        kill_kernel(&k->base);
        return;
    }
    k->asked_late = true;
    e2b_channel_interrupt(k->channel);
    k->timer = loop_add_timer(k->loop, ASK_GRACE_MS, on_ask_late, k);
}

void
e2b_kernel_begin_ask(struct e2b_kernel *k)
{
    k->id++;
    k->n_unasked = 0;
    k->asked_late = false;
    k->state = E2B_KERNEL_ASKING;
    k->timer = loop_add_timer(k->loop, ASK_MS, on_ask_late, k);
}

void
e2b_kernel_end_ask(struct e2b_kernel *k)
{
    stop_timer(k);
    if (k->state == E2B_KERNEL_ASKING)
        k->state = E2B_KERNEL_IDLE;
}

static const char *
python_of(const struct e2b_runner *r)
{
    return ((const struct e2b_kernel *)r)->about;
}

static void
free_kernel(struct e2b_runner *r)
{
    struct e2b_kernel *k = (struct e2b_kernel *)r;

    if (k == NULL)
        return;
    k->dead = true;
    k->state = E2B_KERNEL_GONE;
    if (k->depth == 0)
        destroy(k);
    else
        e2b_kernel_ask_drop(k);
}

static const struct e2b_runner_ops kernel_ops = {
    .name = "kernel",
    .open = open_kernel,
    .run = run_cell,
    .interrupt = interrupt_kernel,
    .kill = kill_kernel,
    .end = end_kernel,
    .vars = e2b_kernel_vars,
    .snapshot = e2b_kernel_snapshot,
    .restore = e2b_kernel_restore,
    .reconnect = reconnect_kernel,
    .python = python_of,
    .free = free_kernel,
};

struct e2b_runner *
e2b_kernel_new(struct e2b_site *site, const struct e2b_runner_config *config)
{
    struct e2b_kernel *k = xcalloc(1, sizeof(*k));

    k->base.ops = &kernel_ops;
    k->site = site;
    k->loop = site->loop;
    k->config = *config;
    sbuf_init(&k->later, MAX_LATER_BYTES);
    return &k->base;
}
