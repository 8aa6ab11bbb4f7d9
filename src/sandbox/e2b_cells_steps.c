/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_cells_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/e2b_files_internal.h"
#include "sandbox/e2b_process_internal.h"
#include "sandbox/e2b_wire_internal.h"

#define LOG_MODULE "e2b"
#define MAX_ANSWER_BYTES ((size_t)65536)
#define MAX_PATH_BYTES ((size_t)1024)
#define OTHER_ENDED                                                            \
    "The interpreter of this language has ended, and its variables are gone; " \
    "those of Python are kept."
#define MAX_DEPTH 8

enum {
    CONTEXT_MS = 60000,
    RESTART_MS = 20000,
    SIGNAL_MS = 10000,
    /* After a connection was closed the service interrupts the cell, if it does
       at all, and refuses others for a while. */
    SETTLE_MS = 2000,
    PROBE_MS = 5000
};

static const struct {
    const char *name;
    const char *alias;
    const char *nothing; /* code that does nothing */
} languages[E2B_CELLS_LANGUAGES] = {
    {"python", "python", "None"}, {"javascript", "js", "0"},
    {"typescript", "ts", "0"},    {"r", "r", "0"},
    {"java", "java", "0"},        {"bash", "bash", ":"},
};

/* The interpreter may be root's where commands are not. */
static const char signal_script[] = "kill -s \"$1\" -- \"$2\" 2>/dev/null || "
                                    "sudo -n kill -s \"$1\" -- \"$2\"";

struct e2b_context *
e2b_cells_context(struct e2b_cells *c, const char *language)
{
    for (size_t i = 0; i < LEN(languages); i++)
        if (language == NULL || strcmp(language, languages[i].name) == 0 ||
            strcmp(language, languages[i].alias) == 0)
            return &c->contexts[i];
    return NULL;
}

const char *
e2b_cells_language(const struct e2b_cells *c, const struct e2b_context *context)
{
    return languages[context - c->contexts].name;
}

/* --- the end --- */

void
e2b_cells_stop_steps(struct e2b_cells *c)
{
    e2b_data_drop(c->request);
    c->request = NULL;
    e2b_execute_drop(c->execute);
    c->execute = NULL;
    e2b_file_drop(c->file);
    c->file = NULL;
    loop_timer_remove(c->wait);
    c->wait = NULL;
    loop_timer_remove(c->late);
    c->late = NULL;
    loop_task_remove(c->task);
    c->task = NULL;
    c->blocked = NULL;
    c->is_running = false;
}

void
e2b_cells_end(struct e2b_cells *c, const struct e2b_run_end *end)
{
    void (*fn)(struct e2b_cells *, const struct e2b_run_end *) = c->end;

    e2b_cells_stop_steps(c);
    loop_task_remove(c->kill_task);
    c->kill_task = NULL;
    c->killing = false;
    c->end = NULL;
    free(c->code);
    c->code = NULL;
    c->context = NULL;
    fn(c, end);
}

void
e2b_cells_fail(struct e2b_cells *c, enum e2b_trouble trouble,
               const struct error *err)
{
    e2b_cells_end(c, &(struct e2b_run_end){.way = E2B_RUN_TROUBLE,
                                           .trouble = trouble,
                                           .not_run = true,
                                           .err = err});
}

/* That of Python lives on. */
static void
lose_other(struct e2b_cells *c)
{
    struct sandbox_outcome outcome = {
        .outcome = EVENT_DIED, .exit_status = -1, .reason = OTHER_ENDED};

    free(c->context->id);
    *c->context = (struct e2b_context){0};
    e2b_cells_end(
        c, &(struct e2b_run_end){.way = E2B_RUN_DONE, .outcome = &outcome});
}

void
e2b_cells_lose(struct e2b_cells *c, const char *reason)
{
    struct sandbox_outcome outcome = {.outcome = EVENT_DIED,
                                      .exit_status = -1,
                                      .variables_lost = true,
                                      .reason = reason};

    if (c->context != NULL && c->context != &c->contexts[0]) {
        lose_other(c);
        return;
    }
    c->is_hosted = false;
    c->pid = 0;
    if (c->context != NULL)
        c->context->count = 0;
    e2b_cells_end(
        c, &(struct e2b_run_end){.way = E2B_RUN_LOST, .outcome = &outcome});
}

static void
report_error(void *ctx)
{
    struct e2b_cells *c = ctx;
    struct error err = c->err;

    c->task = NULL;
    e2b_cells_fail(c, E2B_TROUBLE_REFUSED, &err);
}

/* A step could not begin. */
static void
fail_later(struct e2b_cells *c)
{
    c->task = loop_defer(c->site->loop, report_error, c);
}

/* --- requests --- */

static void
on_request_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_cells *c = ctx;

    c->request = NULL;
    c->then(c, result);
}

void
e2b_cells_request(struct e2b_cells *c, const char *method, const char *path,
                  const char *body, int64_t limit_ms, const char *doing,
                  void (*then)(struct e2b_cells *c,
                               const struct e2b_data_result *result))
{
    static const struct e2b_data_handlers handlers = {.on_done =
                                                          on_request_done};
    struct e2b_data_request request = {
        .service = E2B_INTERPRETER,
        .method = method,
        .path = path,
        .content_type = body != NULL ? "application/json" : NULL,
        .body = body,
        .body_len = body != NULL ? strlen(body) : 0,
        .collect_bytes = MAX_ANSWER_BYTES,
        .limit_ms = limit_ms,
        .repeatable = body == NULL,
        .doing = doing,
    };

    c->then = then;
    c->err = (struct error){0};
    c->request = e2b_data_start(c->site, &request, &handlers, c, &c->err);
    if (c->request == NULL)
        fail_later(c);
}

/* --- cells --- */

static void
on_cell_end(void *ctx, const struct e2b_execute_end *end)
{
    struct e2b_cells *c = ctx;

    c->execute = NULL;
    c->is_running = false;
    c->then_cell(c, end);
}

void
e2b_cells_execute(struct e2b_cells *c, const struct e2b_execute_spec *spec,
                  const struct e2b_execute_handlers *on,
                  void (*then)(struct e2b_cells *c,
                               const struct e2b_execute_end *end))
{
    struct e2b_execute_handlers handlers = *on;

    handlers.on_end = on_cell_end;
    c->then_cell = then;
    c->answered = false;
    c->err = (struct error){0};
    c->execute = e2b_execute_start(c->site, spec, &handlers, c, &c->err);
    if (c->execute == NULL)
        fail_later(c);
}

/* As in e2b_setup.py, which takes it away again. */
#define HOSTED_NAME "_sandpiper_kernel"

void
e2b_cells_add_hosted(struct sbuf *sb, const char *line)
{
    /* A statement, since a cell may have given __import__ another meaning. */
    sbuf_add_str(sb, "import sandpiper_kernel as " HOSTED_NAME "\n" HOSTED_NAME
                     ".hosted(r'");
    /* JSON has no line feed, no backslash at its end, and now no quote. */
    for (; *line != '\0'; line++) {
        if (*line == '\'')
            sbuf_add_str(sb, "\\u0027");
        else
            sbuf_add_char(sb, *line);
    }
    sbuf_add_str(sb, "')");
}

struct e2b_execute_spec
e2b_cells_spec(const struct e2b_cells *c, const char *doing)
{
    const struct e2b_context *context =
        c->context != NULL ? c->context : &c->contexts[0];

    return (struct e2b_execute_spec){
        .context = context->id,
        .language = e2b_cells_language(c, context),
        .output_bytes = c->config.output_bytes,
        .doing = doing,
    };
}

bool
e2b_cells_is_new(const struct e2b_cells *c, const struct e2b_execute_end *end)
{
    const struct e2b_cell_result *r = end->result;

    return c->is_hosted && end->trouble == E2B_TROUBLE_NONE && !r->is_done &&
           r->error_name != NULL && r->error_value != NULL &&
           strcmp(r->error_name, "ModuleNotFoundError") == 0 &&
           strstr(r->error_value, "sandpiper_kernel") != NULL;
}

const char *
e2b_cells_loss(const struct e2b_execute_end *end)
{
    if (end->trouble == E2B_TROUBLE_REFUSED && end->http_status == 404)
        return "The interpreter was removed. " SANDBOX_LOST_TEXT;
    if (end->trouble == E2B_TROUBLE_CLOSED)
        return "The sandbox's interpreter does not answer any "
               "more. " SANDBOX_LOST_TEXT;
    return NULL;
}

/* --- waiting --- */

static void
on_wait(void *ctx)
{
    struct e2b_cells *c = ctx;

    c->wait = NULL;
    c->go_on(c);
}

void
e2b_cells_later(struct e2b_cells *c, int64_t ms,
                void (*go_on)(struct e2b_cells *c))
{
    c->go_on = go_on;
    c->wait = loop_add_timer(c->site->loop, ms, on_wait, c);
}

/* --- contexts --- */

void
e2b_cells_restart(struct e2b_cells *c, struct e2b_context *context,
                  void (*then)(struct e2b_cells *c,
                               const struct e2b_data_result *result))
{
    char path[MAX_PATH_BYTES];

    context->count = 0;
    context->dropped_ms = 0;
    snprintf(path, sizeof(path), "/contexts/%s/restart", context->id);
    e2b_cells_request(c, "POST", path, NULL, RESTART_MS,
                      "restarting an interpreter", then);
}

void
e2b_cells_remove(struct e2b_cells *c, struct e2b_context *context,
                 void (*then)(struct e2b_cells *c,
                              const struct e2b_data_result *result))
{
    char path[MAX_PATH_BYTES];

    snprintf(path, sizeof(path), "/contexts/%s", context->id);
    e2b_cells_request(c, "DELETE", path, NULL, RESTART_MS,
                      "removing an interpreter", then);
}

static void
then_restarted(struct e2b_cells *c, const struct e2b_data_result *result)
{
    if (result->trouble != E2B_TROUBLE_NONE) {
        e2b_cells_fail(c, result->trouble, result->err);
        return;
    }
    c->context->restarted = true;
    c->after(c);
}

static void
then_probed(struct e2b_cells *c, const struct e2b_execute_end *end)
{
    c->context->dropped_ms = 0;
    if (end->trouble == E2B_TROUBLE_NONE)
        c->after(c);
    else if (c->context->id != NULL)
        e2b_cells_restart(c, c->context, then_restarted);
    else
        e2b_cells_fail(c, end->trouble, end->err);
}

/* Whether the cell before this has ended; one that is sent for that may be
   swallowed, or wait for ever. */
static void
probe(struct e2b_cells *c)
{
    struct e2b_execute_spec spec =
        e2b_cells_spec(c, "waiting for the cell before");
    struct e2b_execute_handlers quiet = e2b_execute_quiet();

    spec.code = languages[c->context - c->contexts].nothing;
    spec.code_len = strlen(spec.code);
    spec.limit_ms = PROBE_MS;
    e2b_cells_execute(c, &spec, &quiet, then_probed);
}

static void
settle(struct e2b_cells *c)
{
    int64_t left = c->context->dropped_ms + SETTLE_MS - clock_now_ms();

    if (c->context->dropped_ms == 0)
        c->after(c);
    else
        e2b_cells_later(c, left > 0 ? left : 0, probe);
}

void
e2b_cells_refuse_language(struct e2b_cells *c, const struct error *why)
{
    struct error err = {0};

    error_fill(&err, ERR_UNSUPPORTED,
               "cells in %s: this sandbox's template has no interpreter for "
               "them (%s)",
               e2b_cells_language(c, c->context), why->msg);
    e2b_cells_fail(c, E2B_TROUBLE_REFUSED, &err);
}

static char *
read_id(const struct e2b_data_result *result)
{
    AUTO_JSON struct cJSON *json =
        json_parse(result->body, result->body_len, MAX_DEPTH, NULL);
    const char *id = json_string(json, "id");

    return id != NULL && e2b_is_plain(id) && strlen(id) < E2B_MAX_ID_BYTES
               ? xstrdup(id)
               : NULL;
}

static void
then_made(struct e2b_cells *c, const struct e2b_data_result *result)
{
    bool is_missing = result->http_status == 404 ||
                      result->http_status == 405 || result->http_status == 501;

    if (result->trouble == E2B_TROUBLE_NONE) {
        c->context->id = read_id(result);
        if (c->context->id == NULL) {
            LOG_WARN("a context without a name that can be used");
            c->no_contexts = true;
        }
    } else if (result->trouble == E2B_TROUBLE_REFUSED && is_missing) {
        c->no_contexts = true;
    } else if (result->trouble == E2B_TROUBLE_REFUSED &&
               result->err->code != ERR_AUTH) {
        e2b_cells_refuse_language(c, result->err);
        return;
    } else {
        e2b_cells_fail(c, result->trouble, result->err);
        return;
    }
    settle(c);
}

void
e2b_cells_prepare(struct e2b_cells *c, struct e2b_context *context,
                  void (*go_on)(struct e2b_cells *c))
{
    AUTO_FREE char *body = NULL;

    c->context = context;
    c->after = go_on;
    if (context->id != NULL || c->no_contexts) {
        settle(c);
        return;
    }
    body = xasprintf("{\"language\":\"%s\",\"cwd\":\"" E2B_WORKSPACE "\"}",
                     e2b_cells_language(c, context));
    e2b_cells_request(c, "POST", "/contexts", body, CONTEXT_MS,
                      "making an interpreter", then_made);
}

/* --- signals --- */

static void start_signal(struct e2b_cells *c, struct error *err);

static void
end_signal(struct e2b_cells *c, const struct error *err)
{
    void (*sent)(struct e2b_cells *, const struct error *) = c->sent;
    void (*blocked)(struct e2b_cells *) = c->blocked;

    if (err != NULL)
        LOG_WARN("%s", err->msg);
    c->sent = NULL;
    c->blocked = NULL;
    /* Not both: what waits is a new operation, which has sent none. */
    if (sent != NULL)
        sent(c, err);
    else if (blocked != NULL)
        blocked(c);
}

static void
on_signal_bytes(void *ctx, enum event_stream stream, const char *data,
                size_t len)
{
    (void)ctx;
    (void)stream;
    LOG_DBG("kill: %.*s", len < 200 ? (int)len : 200, data);
}

static void
on_signal_done(void *ctx, const struct e2b_process_end *end)
{
    struct e2b_cells *c = ctx;
    struct error err = {0};

    c->process = NULL;
    if (end->trouble != E2B_TROUBLE_NONE)
        err = *end->err;
    else if (end->exit_status != 0)
        error_fill(&err, ERR_SANDBOX,
                   "signal %d to the interpreter: kill ended with %d", c->signo,
                   end->exit_status);
    if (c->again && c->is_running) {
        c->again = false;
        start_signal(c, &err);
        if (c->process != NULL)
            return;
    }
    end_signal(c, err.code != ERR_NONE ? &err : NULL);
}

static void
start_signal(struct e2b_cells *c, struct error *err)
{
    static const struct e2b_process_handlers handlers = {
        .on_bytes = on_signal_bytes,
        .on_done = on_signal_done,
    };
    char pid[32];
    const char *const argv[] = {"bash",
                                "-c",
                                signal_script,
                                "kill",
                                c->signo == SIGINT ? "INT" : "KILL",
                                pid,
                                NULL};
    struct e2b_process_spec spec = {
        .argv = argv,
        .limit_ms = SIGNAL_MS,
        .doing = "sending a signal to the interpreter",
    };

    snprintf(pid, sizeof(pid), "%s%lld", c->has_group ? "-" : "",
             (long long)c->pid);
    c->process = e2b_process_start(c->site, &spec, &handlers, c, err);
}

static void
report_signal(void *ctx)
{
    struct e2b_cells *c = ctx;
    struct error err = c->err;

    c->task = NULL;
    end_signal(c, &err);
}

void
e2b_cells_signal(struct e2b_cells *c, int signo,
                 void (*sent)(struct e2b_cells *c, const struct error *err))
{
    struct error err = {0};

    if (c->process != NULL && signo == SIGINT && sent == NULL) {
        c->again = true;
        return;
    }
    e2b_process_drop(c->process);
    c->signo = signo;
    c->sent = sent;
    c->again = false;
    start_signal(c, &err);
    if (c->process == NULL && sent == NULL) {
        LOG_WARN("%s", err.msg);
    } else if (c->process == NULL) {
        c->err = err;
        c->task = loop_defer(c->site->loop, report_signal, c);
    }
}
