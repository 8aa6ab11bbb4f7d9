/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "model/output.h"
#include "sandbox/e2b_cells_internal.h"
#include "sandbox/e2b_process_internal.h"
#include "sandbox/e2b_setup_internal.h"

#define LOG_MODULE "e2b"
/* The set-up, or code of SANDBOX_MAX_CODE_BYTES as a text within a text. */
#define MAX_CODE_BYTES ((size_t)16 << 20)
#define MAX_SETUPS 2u
#define MAX_PYTHON_BYTES 200u

enum {
    HEALTH_MS = 30000,
    SETUP_MS = 90000,
    PING_MS = 30000,
    CUT_PING_MS = 8000 /* of one that was just asked to stop */
};

#define RESTARTED "The interpreter was restarted. " SANDBOX_LOST_TEXT
#define NOT_RUN                                                                \
    "The interpreter had ended before this cell, perhaps for lack of memory; " \
    "the cell was not run. " SANDBOX_LOST_TEXT
#define RESTARTED_BEFORE                                                       \
    "The interpreter had ended before this cell, perhaps for lack of "         \
    "memory. " SANDBOX_LOST_TEXT
#define OTHER_BEFORE                                                           \
    "The interpreter of this language had ended before this cell: its "        \
    "variables are gone, those of Python are kept."
#define PLAIN                                                                  \
    "This sandbox's interpreter could not be made ready for this program: "    \
    "tables and charts are shown as the service sends them, and variables "    \
    "cannot be listed, saved or restored."

static struct e2b_cells *
begin(struct e2b_runner *r,
      void (*end)(struct e2b_cells *c, const struct e2b_run_end *end),
      void *ctx)
{
    struct e2b_cells *c = (struct e2b_cells *)r;

    assert(c->end == NULL);
    c->end = end;
    c->ctx = ctx;
    c->interrupted = false;
    return c;
}

static void
end_with_fn(struct e2b_cells *c, const struct e2b_run_end *end)
{
    c->fn(c->ctx, end);
}

static void
end_well(struct e2b_cells *c)
{
    e2b_cells_end(c, &(struct e2b_run_end){.way = E2B_RUN_DONE});
}

/* --- open --- */

/* There is nothing that could run cells here. */
static void
refuse(struct e2b_cells *c, const char *why)
{
    struct error err = {0};

    error_fill(&err, ERR_UNSUPPORTED,
               "sandbox %s: its template has no interpreter of notebooks: %s",
               c->site->id, why);
    e2b_cells_end(c, &(struct e2b_run_end){.way = E2B_RUN_LOST, .err = &err});
}

/* The function that loads the kernel as a module and begins there; it gives
   None and leaves no name behind. */
static void
add_setup(struct sbuf *sb, const struct e2b_runner_config *config)
{
    sbuf_add_str(sb, "(lambda s, m: (s.modules.__setitem__(m.__name__, m), "
                     "exec(compile(__import__('zlib').decompress("
                     "__import__('base64').b64decode('");
    sbuf_add(sb, e2b_setup_b64, e2b_setup_b64_len);
    sbuf_add_str(sb,
                 "'), 31), m.__name__ + '.py', 'exec', 0, True), "
                 "m.__dict__), m.part('setup').begin('" E2B_WORKSPACE "', {");
    if (config->figure_width_px > 0 && config->figure_height_px > 0)
        sbuf_addf(sb, "'width_px': %d, 'height_px': %d, ",
                  config->figure_width_px, config->figure_height_px);
    if (config->figure_dpi > 0)
        sbuf_addf(sb, "'dpi': %d", config->figure_dpi);
    sbuf_addf(sb,
              "}, %s)) and None)(__import__('sys'), "
              "type(__import__('sys'))('sandpiper_kernel'))",
              config->has_network ? "True" : "False");
}

static void
take_ready(void *ctx, const struct cJSON *event)
{
    struct e2b_cells *c = ctx;
    const char *name = json_string(event, "ev");
    AUTO_FREE char *path =
        json_dup_string(event, "executable", MAX_PYTHON_BYTES);
    AUTO_FREE char *version =
        json_dup_string(event, "python", MAX_PYTHON_BYTES);

    if (name == NULL || strcmp(name, "ready") != 0)
        return;
    c->answered = true;
    c->pid = json_int(event, "pid", 0);
    /* Of nobody, or of all that there are. */
    if (c->pid <= 1)
        c->pid = 0;
    c->has_group = json_bool(event, "group", false);
    free(c->python);
    c->python = path != NULL && version != NULL
                    ? xasprintf("%s (%s)", path, version)
                    : NULL;
}

static void
then_set_up(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    const char *loss = e2b_cells_loss(end);

    if (loss != NULL) {
        free(c->contexts[0].id);
        c->contexts[0].id = NULL;
        e2b_cells_lose(c, loss);
    } else if (end->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, end->trouble, end->err);
    } else if (e2b_result_end(end->result) == E2B_END_LOST) {
        e2b_cells_lose(c, RESTARTED);
    } else {
        c->is_hosted = c->answered;
        c->contexts[0].count = end->result->count;
        if (!c->is_hosted)
            LOG_WARN("set-up of the interpreter: %s: %s",
                     end->result->error_name != NULL ? end->result->error_name
                                                     : "no answer",
                     end->result->error_value != NULL ? end->result->error_value
                                                      : "");
        e2b_cells_later(c, 0, c->go_on);
    }
}

static void
set_up(struct e2b_cells *c)
{
    struct e2b_execute_handlers on = e2b_execute_quiet();
    struct e2b_execute_spec spec =
        e2b_cells_spec(c, "making the interpreter ready");
    AUTO_SBUF struct sbuf code = {0};

    /* The service puts lines in front of the first cell, which are wrong
       where a variable has an odd value. */
    if (c->is_hosted || c->n_setups == MAX_SETUPS) {
        c->owes_note = !c->is_hosted;
        end_well(c);
        return;
    }
    c->n_setups++;
    sbuf_init(&code, MAX_CODE_BYTES);
    add_setup(&code, &c->config);
    spec.code = code.data;
    spec.code_len = code.len;
    spec.limit_ms = SETUP_MS;
    on.on_event = take_ready;
    c->go_on = set_up;
    e2b_cells_execute(c, &spec, &on, then_set_up);
}

static void
then_healthy(struct e2b_cells *c, const struct e2b_data_result *result)
{
    if (result->trouble == E2B_TROUBLE_CLOSED) {
        refuse(c, "nothing answers at its port");
    } else if (result->trouble == E2B_TROUBLE_REFUSED &&
               result->err->code != ERR_AUTH) {
        refuse(c, result->err->msg);
    } else if (result->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, result->trouble, result->err);
    } else if (result->body[strspn(result->body, " \t\r\n")] == '<') {
        refuse(c, "a page for a browser answers at its port");
    } else {
        e2b_cells_prepare(c, &c->contexts[0], set_up);
    }
}

static void
cells_open(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_cells *c = begin(r, end_with_fn, ctx);

    c->fn = fn;
    c->n_setups = 0;
    e2b_cells_request(c, "GET", "/health", NULL, HEALTH_MS,
                      "looking for the interpreter", then_healthy);
}

/* --- run --- */

static void
end_run(struct e2b_cells *c, const struct e2b_run_end *end)
{
    c->on.on_done(c->ctx, end);
}

static void
on_begin(void *ctx)
{
    struct e2b_cells *c = ctx;
    bool owes_note = c->owes_note && c->context == &c->contexts[0];
    struct e2b_run_handlers on = c->on;
    void *run_ctx = c->ctx;

    if (owes_note)
        c->owes_note = false;
    on.on.on_begin(run_ctx);
    if (owes_note && c->end != NULL)
        on.on.on_note(run_ctx, "interpreter", PLAIN);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct e2b_cells *c = ctx;

    c->on.on.on_bytes(c->ctx, stream, data, len);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct e2b_cells *c = ctx;

    /* Our kernel knows which cells are silent. */
    if (c->silent && !c->is_hosted && out->is_result)
        return;
    c->on.on.on_output(c->ctx, out);
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct e2b_cells *c = ctx;

    c->on.on.on_note(c->ctx, kind, text);
}

static void
on_flood(void *ctx)
{
    struct e2b_cells *c = ctx;

    c->on.on_flood(c->ctx);
}

static void
end_outcome(struct e2b_cells *c, struct sandbox_outcome *outcome,
            const struct e2b_cell_result *result)
{
    struct e2b_context *context = c->context;
    bool is_python = context == &c->contexts[0];
    bool is_new = context->count > 0 && result->count == 1;

    if (c->interrupted && outcome->error_name != NULL &&
        strcmp(outcome->error_name, "KeyboardInterrupt") == 0)
        outcome->outcome = EVENT_INTERRUPTED;
    if ((is_new && (!is_python || !c->is_hosted)) || context->restarted) {
        outcome->variables_lost = is_python;
        outcome->reason = is_python ? RESTARTED_BEFORE : OTHER_BEFORE;
    }
    context->restarted = false;
    if (result->count > 0)
        context->count = result->count;
    e2b_cells_end(
        c, &(struct e2b_run_end){.way = E2B_RUN_DONE, .outcome = outcome});
}

/* It has been sent: it may have run, and may still. */
static void
fail_run(struct e2b_cells *c, enum e2b_trouble trouble, bool not_run,
         const struct error *err)
{
    c->was_cut = c->was_cut || !not_run;
    e2b_cells_end(c, &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                           .trouble = trouble,
                                           .not_run = not_run,
                                           .err = err});
}

static void
then_run(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    const char *loss = e2b_cells_loss(end);
    struct sandbox_outcome outcome = {.exit_status = -1};
    struct error err = {0};

    if (loss != NULL) {
        free(c->context->id);
        c->context->id = NULL;
        e2b_cells_lose(c, loss);
    } else if (end->trouble == E2B_TROUBLE_REFUSED && c->context->id == NULL &&
               c->context != &c->contexts[0]) {
        e2b_cells_refuse_language(c, end->err);
    } else if (end->trouble != E2B_TROUBLE_NONE) {
        fail_run(c, end->trouble, end->not_sent, end->err);
    } else if (e2b_cells_is_new(c, end)) {
        e2b_cells_lose(c, NOT_RUN);
    } else if (e2b_result_outcome(end->result, &outcome, &err) < 0) {
        fail_run(c, E2B_TROUBLE_CUT, false, &err);
    } else if (e2b_result_end(end->result) == E2B_END_LOST) {
        e2b_cells_lose(c, outcome.reason);
    } else {
        end_outcome(c, &outcome, end->result);
    }
}

static void
send_cell(struct e2b_cells *c)
{
    static const struct e2b_execute_handlers handlers = {
        .on = {.on_begin = on_begin,
               .on_bytes = on_bytes,
               .on_output = on_output,
               .on_note = on_note},
        .on_flood = on_flood,
    };
    struct e2b_execute_spec spec = e2b_cells_spec(c, "running a cell");

    spec.code = c->code;
    spec.code_len = c->code_len;
    e2b_cells_execute(c, &spec, &handlers, then_run);
    c->is_running = c->execute != NULL;
}

static void
begin_run(struct e2b_cells *c)
{
    /* One that is on its way would stop the wrong cell. */
    if (c->process != NULL)
        c->blocked = begin_run;
    else
        e2b_cells_prepare(c, c->context, send_cell);
}

static void
keep_code(struct e2b_cells *c, const struct sandbox_cell *cell)
{
    AUTO_SBUF struct sbuf line = {0};
    AUTO_SBUF struct sbuf code = {0};

    c->silent = cell->silent;
    if (c->context != &c->contexts[0] || !c->is_hosted) {
        c->code = xmemdup(cell->code, cell->code_len);
        c->code_len = cell->code_len;
        return;
    }
    sbuf_init(&line, MAX_CODE_BYTES);
    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_add_char(&line, '{');
    json_add_member_str(&line, "op", "exec");
    json_add_member_int(&line, "id", 1);
    json_add_key(&line, "code");
    json_add_string(&line, cell->code, cell->code_len);
    json_add_member_bool(&line, "silent", cell->silent);
    json_add_member_int(&line, "cell", cell->number);
    sbuf_add_char(&line, '}');
    e2b_cells_add_hosted(&code, line.data);
    assert(sbuf_ok(&line) && sbuf_ok(&code));
    c->code_len = code.len;
    c->code = sbuf_take(&code);
}

static void
refuse_cell(struct e2b_cells *c)
{
    struct error err = c->err;

    e2b_cells_fail(c, E2B_TROUBLE_REFUSED, &err);
}

static void
cells_run(struct e2b_runner *r, const struct sandbox_cell *cell,
          const struct e2b_run_handlers *on, void *ctx)
{
    struct e2b_cells *c = begin(r, end_run, ctx);

    c->on = *on;
    c->err = (struct error){0};
    c->context = e2b_cells_context(c, cell->language);
    if (c->context == NULL)
        error_fill(&c->err, ERR_UNSUPPORTED, "language %s: there is none",
                   cell->language);
    else if (cell->code_len > SANDBOX_MAX_CODE_BYTES)
        error_fill(&c->err, ERR_TOO_LARGE, "code of %zu bytes", cell->code_len);
    if (c->err.code != ERR_NONE) {
        e2b_cells_later(c, 0, refuse_cell);
        return;
    }
    keep_code(c, cell);
    e2b_cells_later(c, 0, begin_run);
}

/* --- interrupt and kill --- */

static void
end_interrupted(struct e2b_cells *c)
{
    struct sandbox_outcome outcome = {.outcome = EVENT_INTERRUPTED,
                                      .exit_status = -1};
    struct e2b_context *context = c->context;

    if (c->execute == NULL)
        outcome.reason = "Stopped before it began; variables are kept.";
    else
        context->dropped_ms = clock_now_ms();
    e2b_cells_end(
        c, &(struct e2b_run_end){.way = E2B_RUN_DONE, .outcome = &outcome});
}

static void
on_interrupted(void *ctx)
{
    struct e2b_cells *c = ctx;

    c->kill_task = NULL;
    end_interrupted(c);
}

static void
cells_interrupt(struct e2b_runner *r)
{
    struct e2b_cells *c = (struct e2b_cells *)r;
    bool is_python = c->context == NULL || c->context == &c->contexts[0];

    if (c->end == NULL || c->killing)
        return;
    c->interrupted = true;
    e2b_cells_ask_interrupt(c);
    if (is_python && c->pid > 0 && c->is_running) {
        e2b_cells_signal(c, SIGINT, NULL);
        return;
    }
    /* Whose process is not known is interrupted by the service when the
       connection closes, if at all; the next cell finds out. */
    if (c->context != NULL && c->end == end_run && c->kill_task == NULL)
        c->kill_task = loop_defer(c->site->loop, on_interrupted, c);
}

static void
then_killed(struct e2b_cells *c, const struct e2b_data_result *result)
{
    if (result->http_status == 404) {
        free(c->context->id);
        c->context->id = NULL;
    } else if (result->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, result->trouble, result->err);
        return;
    }
    e2b_cells_lose(c, RESTARTED);
}

static void
then_killed_by_signal(struct e2b_cells *c, const struct error *err)
{
    if (err != NULL)
        e2b_cells_fail(c, E2B_TROUBLE_REFUSED, err);
    else
        e2b_cells_lose(c, RESTARTED);
}

static void
begin_kill(void *ctx)
{
    struct e2b_cells *c = ctx;
    struct error err = {0};

    c->kill_task = NULL;
    e2b_cells_stop_steps(c);
    if (c->context == NULL)
        c->context = &c->contexts[0];
    if (c->context->id != NULL) {
        e2b_cells_restart(c, c->context, then_killed);
    } else if (c->context == &c->contexts[0] && c->pid > 0) {
        e2b_cells_signal(c, SIGKILL, then_killed_by_signal);
    } else {
        error_fill(&err, ERR_SANDBOX,
                   "sandbox %s: its interpreter cannot be ended", c->site->id);
        e2b_cells_fail(c, E2B_TROUBLE_REFUSED, &err);
    }
}

static void
cells_kill(struct e2b_runner *r)
{
    struct e2b_cells *c = (struct e2b_cells *)r;

    if (c->end == NULL || c->killing)
        return;
    c->killing = true;
    loop_task_remove(c->kill_task);
    c->kill_task = loop_defer(c->site->loop, begin_kill, c);
}

static void remove_next(struct e2b_cells *c);

static void
then_removed(struct e2b_cells *c, const struct e2b_data_result *result)
{
    if (result->trouble == E2B_TROUBLE_GONE) {
        e2b_cells_fail(c, result->trouble, result->err);
        return;
    }
    if (result->err != NULL)
        LOG_WARN("%s", result->err->msg);
    free(c->context->id);
    *c->context = (struct e2b_context){0};
    remove_next(c);
}

/* Those of other languages, which are made again when they are asked for; then
   that of Python is restarted. */
static void
remove_next(struct e2b_cells *c)
{
    c->context = NULL;
    for (size_t i = 1; i < E2B_CELLS_LANGUAGES; i++) {
        if (c->contexts[i].id != NULL) {
            c->context = &c->contexts[i];
            e2b_cells_remove(c, c->context, then_removed);
            return;
        }
    }
    cells_kill(&c->base);
}

static void
cells_end(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_cells *c = begin(r, end_with_fn, ctx);

    c->fn = fn;
    remove_next(c);
}

/* --- reconnect --- */

static void
take_pong(void *ctx, const struct cJSON *event)
{
    struct e2b_cells *c = ctx;
    const char *name = json_string(event, "ev");

    if (name != NULL && strcmp(name, "pong") == 0)
        c->answered = true;
}

static void
then_pinged(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    const char *loss = e2b_cells_loss(end);

    if (loss != NULL) {
        free(c->contexts[0].id);
        c->contexts[0].id = NULL;
        e2b_cells_lose(c, loss);
    } else if (end->trouble == E2B_TROUBLE_LATE) {
        /* It is at something that does not stop. */
        c->killing = true;
        begin_kill(c);
    } else if (end->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, end->trouble, end->err);
    } else if (e2b_result_end(end->result) == E2B_END_LOST ||
               (c->is_hosted && !c->answered)) {
        e2b_cells_lose(c, RESTARTED);
    } else {
        end_well(c);
    }
}

static void
ping(struct e2b_cells *c)
{
    struct e2b_execute_handlers on = e2b_execute_quiet();
    struct e2b_execute_spec spec =
        e2b_cells_spec(c, "looking for the interpreter");
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, MAX_CODE_BYTES);
    if (c->is_hosted)
        e2b_cells_add_hosted(&code, "{\"op\":\"ping\",\"id\":1}");
    else
        sbuf_add_str(&code, "None");
    spec.code = code.data;
    spec.code_len = code.len;
    spec.limit_ms = c->was_cut ? CUT_PING_MS : PING_MS;
    c->was_cut = false;
    on.on_event = take_pong;
    e2b_cells_execute(c, &spec, &on, then_pinged);
}

static void
then_asked_to_stop(struct e2b_cells *c, const struct error *err)
{
    if (err != NULL)
        LOG_WARN("%s", err->msg);
    ping(c);
}

static void
cells_reconnect(struct e2b_runner *r, e2b_run_fn fn, void *ctx)
{
    struct e2b_cells *c = begin(r, end_with_fn, ctx);

    c->fn = fn;
    /* What it ran when the connection broke may still run. */
    if (c->was_cut && c->pid > 0)
        e2b_cells_signal(c, SIGINT, then_asked_to_stop);
    else
        ping(c);
}

/* --- the object --- */

static const char *
cells_python(const struct e2b_runner *r)
{
    return ((const struct e2b_cells *)r)->python;
}

static void
cells_free(struct e2b_runner *r)
{
    struct e2b_cells *c = (struct e2b_cells *)r;

    e2b_cells_stop_steps(c);
    loop_task_remove(c->kill_task);
    e2b_process_drop(c->process);
    e2b_cells_ask_fini(c);
    for (size_t i = 0; i < LEN(c->contexts); i++)
        free(c->contexts[i].id);
    free(c->code);
    free(c->python);
    if (c->gone != NULL)
        *c->gone = true;
    free(c);
}

static const struct e2b_runner_ops cells_ops = {
    .name = "interpreter",
    .open = cells_open,
    .run = cells_run,
    .interrupt = cells_interrupt,
    .kill = cells_kill,
    .end = cells_end,
    .vars = e2b_cells_vars,
    .snapshot = e2b_cells_snapshot,
    .restore = e2b_cells_restore,
    .reconnect = cells_reconnect,
    .python = cells_python,
    .free = cells_free,
};

struct e2b_runner *
e2b_cells_new(struct e2b_site *site, const struct e2b_runner_config *config)
{
    struct e2b_cells *c = xcalloc(1, sizeof(*c));

    c->base.ops = &cells_ops;
    c->site = site;
    c->config = *config;
    return &c->base;
}
