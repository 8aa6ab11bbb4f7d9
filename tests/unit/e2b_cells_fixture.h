/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A runner of cells (e2b_cells) whose service is a server that plays a script
 * (e2b_server.h): one operation at a time, and what became of it.
 */
#ifndef TESTS_E2B_CELLS_FIXTURE_H
#define TESTS_E2B_CELLS_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "model/output.h"
#include "net/http.h"
#include "sandbox/e2b_result_internal.h"
#include "sandbox/e2b_runner_internal.h"

#include "e2b_server.h"

#define ID "i7kq2m4xw9c0z5r1t8b6"
#define TOKEN "ea_4f1c9d2b7e"

#define HEALTH "GET /health"
#define CONTEXTS "POST /contexts"
#define EXECUTE "POST /execute"
#define RESTART "POST /contexts/c-1/restart"

#define COUNT(n)                                                               \
    "{\"type\":\"number_of_executions\",\"execution_count\":" n "}\n"
#define END "{\"type\":\"end_of_execution\"}\n"
#define KEEPALIVE "{\"type\":\"keepalive\"}\n"
#define PRINT(text) "{\"type\":\"stdout\",\"text\":\"" text "\"}\n"
#define FAILURE(name, value, trace)                                            \
    "{\"type\":\"error\",\"name\":\"" name "\",\"value\":\"" value             \
    "\",\"traceback\":\"" trace "\"}\n"
#define OWN(beside, event)                                                     \
    "{\"type\":\"result\"" beside ",\"extra\":{\"" E2B_RESULT_EVENT            \
    "\":" event "},\"is_main_result\":false}\n"
#define DONE OWN("", "{\"ev\":\"done\",\"status\":\"ok\"}")
#define READY                                                                  \
    COUNT("1")                                                                 \
    OWN("", "{\"ev\":\"ready\",\"python\":\"3.13.1\",\"executable\":"          \
            "\"/usr/bin/python3\",\"pid\":0,\"group\":false}")                 \
    END
#define NEW                                                                    \
    COUNT("1")                                                                 \
    FAILURE("ModuleNotFoundError", "No module named 'sandpiper_kernel'", "x")  \
    END
#define LOST_END FAILURE("UnexpectedEndOfExecution", "closed", "") END

#define CONTEXT                                                                \
    "{\"id\":\"c-1\",\"language\":\"python\",\"cwd\":\"/workspace\"}"
#define OK_HEALTH ANSWER(HEALTH, 200, "\"OK\"")
#define OK_CONTEXT ANSWER(CONTEXTS, 200, CONTEXT)
#define OK_SETUP ANSWER(EXECUTE, 200, READY)
#define OK_CELL ANSWER(EXECUTE, 200, COUNT("2") DONE END)
#define NO_SETUP                                                               \
    ANSWER(EXECUTE, 200, COUNT("1") FAILURE("SyntaxError", "bad", "x") END)
#define GONE                                                                   \
    "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox was not found\","     \
    "\"code\":502}"
#define CLOSED                                                                 \
    "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox is running but port " \
    "is not open\",\"port\":49999,\"code\":502}"
#define CHANGING                                                               \
    "{\"sandboxId\":\"" ID "\",\"message\":\"changing\",\"code\":409}"
#define CLOSED_TIMES_9(r)                                                      \
    ANSWER(r, 502, CLOSED), ANSWER(r, 502, CLOSED), ANSWER(r, 502, CLOSED),    \
        ANSWER(r, 502, CLOSED), ANSWER(r, 502, CLOSED),                        \
        ANSWER(r, 502, CLOSED), ANSWER(r, 502, CLOSED),                        \
        ANSWER(r, 502, CLOSED), ANSWER(r, 502, CLOSED)

enum { MAX_SCRIPT = 14, SOON_MS = 30 };

enum stop { STOP_NOT, STOP_INTERRUPT, STOP_KILL, STOP_FREE };

struct fixture {
    struct loop *loop;
    struct http *http;
    struct server server;
    struct e2b_site site;
    char *url; /* owned */
    struct e2b_runner *runner;
    struct loop_timer *timer;

    enum stop stop; /* what is done behind request number stop_at */
    size_t stop_at;
    bool frees_in_bytes;
    bool frees_in_done;

    struct sbuf log;
    bool starting;
    size_t n_done;
    size_t n_lost;
    enum e2b_run_way way;
    enum e2b_trouble trouble;
    struct error err;
    enum event_outcome outcome;
    bool lost;
    char *reason; /* owned, all of them */
    char *error_name;
    char *hint;
    size_t n_vars;
};

static void
free_runner(struct fixture *f)
{
    f->runner->ops->free(f->runner);
    f->runner = NULL;
}

static void
keep(struct fixture *f, const struct e2b_run_end *end)
{
    assert_false(f->starting);
    f->n_done++;
    f->way = end->way;
    f->trouble = end->trouble;
    f->err = end->err != NULL ? *end->err : (struct error){0};
    if (end->outcome != NULL) {
        f->outcome = end->outcome->outcome;
        f->lost = end->outcome->variables_lost;
        f->reason = xstrdup(end->outcome->reason);
        f->error_name = xstrdup(end->outcome->error_name);
        f->hint = xstrdup(end->outcome->hint);
    }
    if (f->frees_in_done)
        free_runner(f);
    loop_stop(f->loop);
}

static void
on_open(void *ctx, const struct e2b_run_end *end)
{
    keep(ctx, end);
}

static void
on_lost(void *ctx, const struct e2b_run_end *end)
{
    struct fixture *f = ctx;

    assert_int_equal(end->way, E2B_RUN_LOST);
    f->n_lost++;
}

static void
on_begin(void *ctx)
{
    struct fixture *f = ctx;

    sbuf_add_str(&f->log, "begin|");
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct fixture *f = ctx;

    (void)stream;
    sbuf_add(&f->log, data, len);
    sbuf_add_char(&f->log, '|');
    if (f->frees_in_bytes) {
        free_runner(f);
        loop_stop(f->loop);
    }
}

static void
on_output(void *ctx, const struct output *out)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "%s %d:%s%s%s|", out->is_result ? "result" : "display",
              out->index, out->text != NULL ? out->text : "",
              out->table != NULL ? " table" : "",
              out->title != NULL ? out->title : "");
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->log, "note %s:%.20s|", kind, text);
}

static void
on_flood(void *ctx)
{
    struct fixture *f = ctx;

    sbuf_add_str(&f->log, "flood|");
}

static void
on_stop(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = NULL;
    if (f->stop == STOP_INTERRUPT) {
        f->runner->ops->interrupt(f->runner);
    } else if (f->stop == STOP_KILL) {
        f->runner->ops->kill(f->runner);
    } else if (f->stop == STOP_FREE) {
        free_runner(f);
        loop_stop(f->loop);
    }
    assert_int_equal(f->n_done, 0);
}

static void
on_request(void *ctx)
{
    struct fixture *f = ctx;

    if (f->stop != STOP_NOT && f->server.n_requests == f->stop_at)
        f->timer = loop_add_timer(f->loop, SOON_MS, on_stop, f);
}

static void
set_up(struct fixture *f)
{
    const struct http_config config = {.user_agent = "test/1",
                                       .connect_ms = 60000};
    const struct e2b_runner_config runner = {.output_bytes = 20,
                                             .figure_width_px = 800,
                                             .figure_height_px = 600,
                                             .figure_dpi = 90};
    struct e2b_sandbox s = {.id = ID, .envd = {0, 6, 13}};
    struct error err = {0};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    assert_true(server_start(&f->server, f->loop));
    f->server.on_request = on_request;
    f->server.ctx = f;
    f->http = http_new(f->loop, &config);
    f->url = xasprintf("http://127.0.0.1:%d", f->server.port);
    s.envd_token = secret_new(TOKEN, strlen(TOKEN));
    if (e2b_site_init(&f->site, f->loop, f->http, f->url, "e2b.app", &s, &err) <
        0)
        fail_msg("%s", err.msg);
    e2b_sandbox_fini(&s);
    f->runner = e2b_cells_new(&f->site, &runner);
    f->runner->on_lost = on_lost;
    f->runner->on_lost_ctx = f;
    sbuf_init(&f->log, 65536);
}

static void
forget(struct fixture *f)
{
    free(f->reason);
    free(f->error_name);
    free(f->hint);
    f->reason = f->error_name = f->hint = NULL;
    f->n_done = 0;
    f->lost = false;
    f->outcome = EVENT_OK;
    f->err = (struct error){0};
    f->trouble = E2B_TROUBLE_NONE;
    sbuf_clear(&f->log);
}

static void
tear_down(struct fixture *f)
{
    if (f->runner != NULL)
        free_runner(f);
    loop_timer_remove(f->timer);
    forget(f);
    sbuf_fini(&f->log);
    e2b_site_fini(&f->site);
    http_free(f->http);
    server_stop(&f->server);
    loop_free(f->loop);
    free(f->url);
}

/* Runs the loop to the end of what was begun; all of the script is used. */
static void
finish(struct fixture *f, const char *name)
{
    f->starting = false;
    loop_run(f->loop);
    if (f->server.n_wrong > 0 || f->server.n_requests != f->server.n_script)
        fail_msg("%s: %zu requests instead of %zu, the last is %s", name,
                 f->server.n_requests, f->server.n_script,
                 f->server.n_requests > 0
                     ? f->server.requests[f->server.n_requests - 1]
                     : "none");
}

static size_t
length_of(const struct exchange *script)
{
    size_t n = 0;

    while (n < MAX_SCRIPT && script[n].request != NULL)
        n++;
    return n;
}

static void
play(struct fixture *f, const struct exchange *script)
{
    forget(f);
    server_play(&f->server, script, length_of(script));
    f->starting = true;
}

static void
open_with(struct fixture *f, const char *name, const struct exchange *script)
{
    play(f, script);
    f->runner->ops->open(f->runner, on_open, f);
    finish(f, name);
}

static const struct exchange opening[MAX_SCRIPT] = {OK_HEALTH, OK_CONTEXT,
                                                    OK_SETUP};
static const struct exchange plain_opening[MAX_SCRIPT] = {OK_HEALTH, OK_CONTEXT,
                                                          NO_SETUP, NO_SETUP};

static void
run_with(struct fixture *f, const char *name, const char *language, bool silent,
         const struct exchange *script)
{
    static const struct e2b_run_handlers on = {.on = {.on_begin = on_begin,
                                                      .on_bytes = on_bytes,
                                                      .on_output = on_output,
                                                      .on_note = on_note},
                                               .on_flood = on_flood,
                                               .on_done = on_open};
    const struct sandbox_cell cell = {.code = "f('a') # \"\\",
                                      .code_len = strlen("f('a') # \"\\"),
                                      .language = language,
                                      .silent = silent,
                                      .number = 7};

    play(f, script);
    f->runner->ops->run(f->runner, &cell, &on, f);
    finish(f, name);
}

static bool
was_sent(const struct fixture *f, size_t i, const char *text)
{
    return strstr(f->server.requests[i], text) != NULL;
}

struct open_row {
    const char *name;
    struct exchange script[MAX_SCRIPT];
    enum e2b_run_way way;
    enum e2b_trouble trouble;
    enum error_code code;
    const char *message;
};

struct run_row {
    const char *name;
    struct exchange script[MAX_SCRIPT];
    enum e2b_run_way way;
    enum e2b_trouble trouble;
    enum event_outcome outcome;
    bool lost;
    const char *reason; /* a part of it */
    const char *log;
};

static void
check_run(const struct fixture *f, const struct run_row *row)
{
    if (f->n_done != 1 || f->way != row->way || f->trouble != row->trouble ||
        f->outcome != row->outcome || f->lost != row->lost ||
        (row->reason != NULL &&
         (f->reason == NULL || strstr(f->reason, row->reason) == NULL)))
        fail_msg("%s: way %d, trouble %d, %s, lost %d, %s, %s", row->name,
                 (int)f->way, (int)f->trouble, event_outcome_name(f->outcome),
                 (int)f->lost, f->reason != NULL ? f->reason : "-", f->err.msg);
    if (strcmp(f->log.data != NULL ? f->log.data : "", row->log) != 0)
        fail_msg("%s: %s", row->name, f->log.data);
}

#endif
