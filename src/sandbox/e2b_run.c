/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/script_check_internal.h"

/* A signal is a request to the service: less often than in the local sandbox.
 */
#define AGAIN_MS 1500
#define GRACE_MS 5000
/* What has not begun by then, and is past its limit, will not begin. */
#define BEGIN_MS 10000
/* Behind the interrupt of a script comes the end of all its processes. */
#define SCRIPT_GRACE_MS 3000
#define MAX_REASON 512u

/* --- ends --- */

static void
stop_timers(struct e2b_cell *c)
{
    loop_timer_remove(c->timeout);
    loop_timer_remove(c->again);
    loop_timer_remove(c->grace);
    c->timeout = c->again = c->grace = NULL;
}

void
e2b_cell_drop(struct e2b *e)
{
    stop_timers(&e->cell);
    free(e->cell.reason);
    memset(&e->cell, 0, sizeof(e->cell));
}

/* Tells the caller; the cell is forgotten before, so that the next can begin.
 */
static void
report(struct e2b *e, enum sandbox_end end, struct sandbox_outcome *outcome,
       const struct error *err)
{
    struct sandbox_cell_handlers on = e->cell.on;
    void *ctx = e->cell.ctx;
    AUTO_FREE char *reason = take_ptr(&e->cell.reason);

    if (outcome != NULL) {
        outcome->reason = reason != NULL ? reason : outcome->reason;
        outcome->output_dropped_bytes += (int64_t)e->cell.n_dropped;
    }
    e2b_cell_drop(e);
    if (e->phase == E2B_PHASE_BUSY) {
        e2b_set_phase(e, E2B_PHASE_IDLE);
    }
    e2b_enter(e);
    on.on_done(ctx, end, outcome, err);
    e2b_leave(e);
}

static void
set_reason(struct e2b *e, const char *text)
{
    free(e->cell.reason);
    e->cell.reason = xstrdup(text);
}

void
e2b_cell_refuse(struct e2b *e, const struct error *err)
{
    report(e, SANDBOX_ERROR, NULL, err);
}

void
e2b_cell_lose(struct e2b *e, enum event_outcome how, const char *reason,
              bool files_lost)
{
    stop_timers(&e->cell);
    e->cell.ending = e->cell.killed ? EVENT_KILLED : how;
    e->cell.ended_ms = clock_now_ms();
    e->cell.files_lost |= files_lost;
    set_reason(e, reason);
}

static void
report_loss(struct e2b *e, const struct error *err)
{
    struct sandbox_outcome outcome = {
        .outcome = e->cell.ending,
        .exit_status = -1,
        .duration_ms = e->cell.ended_ms - e->cell.started_ms,
        .variables_lost = true,
        .files_lost = e->cell.files_lost,
    };

    report(e, err != NULL ? SANDBOX_LOST : SANDBOX_RESTARTED, &outcome, err);
}

void
e2b_cell_reopened(struct e2b *e, const struct error *err)
{
    /* The error says all of it; the reason would say it once more. */
    if (err != NULL) {
        free(take_ptr(&e->cell.reason));
    }
    report_loss(e, err);
}

void
e2b_cell_reopen(struct e2b *e)
{
    struct error err = {0};

    if (!deaths_are_too_many(&e->deaths)) {
        e2b_set_phase(e, E2B_PHASE_OPENING);
        e2b_open_begin(e);
        return;
    }
    deaths_forget(&e->deaths);
    error_fill(&err, ERR_SANDBOX, DEATHS_TEXT);
    e2b_set_phase(e, E2B_PHASE_SHUT);
    report_loss(e, &err);
}

void
e2b_cell_end_unknown(struct e2b *e, const char *reason)
{
    struct sandbox_outcome outcome = {
        .outcome = e->cell.stop != EVENT_OK ? e->cell.stop : EVENT_DIED,
        .exit_status = -1,
        .duration_ms = clock_now_ms() - e->cell.started_ms,
    };

    set_reason(e, reason);
    report(e, SANDBOX_DONE, &outcome, NULL);
}

static void
set_stop_reason(struct e2b *e)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REASON);
    if (e->cell.stop == EVENT_TIMEOUT) {
        sbuf_add_str(&sb, "Stopped after ");
        str_add_duration(&sb, e->cell.timeout_ms);
    } else if (e->cell.stop == EVENT_OUTPUT_LIMIT) {
        sbuf_add_str(&sb, "Stopped: it printed or showed more than is kept");
    } else {
        sbuf_add_str(&sb, "Stopped");
    }
    sbuf_add_str(&sb, "; variables are kept.");
    set_reason(e, sb.data);
}

/* What is true of every end after which the interpreter lives on. */
static void
end_well(struct e2b *e, struct sandbox_outcome *outcome)
{
    outcome->duration_ms = clock_now_ms() - e->cell.started_ms;
    if (outcome->outcome != EVENT_OK && outcome->outcome == e->cell.stop &&
        outcome->reason == NULL) {
        set_stop_reason(e);
    }
    if (!e->cell.silent) {
        e->n_rebuilt = 0;
        deaths_forget(&e->deaths);
    }
    /* It had ended unseen before this ran, or has by now. */
    report(e, outcome->variables_lost ? SANDBOX_RESTARTED : SANDBOX_DONE,
           outcome, NULL);
}

/* The interpreter is gone, the sandbox is not. */
static void
lose_runner(struct e2b *e, const struct e2b_run_end *end)
{
    const char *why = end->outcome != NULL ? end->outcome->reason : NULL;
    AUTO_FREE char *reason = NULL;

    if (e->cell.killed) {
        reason = xasprintf("The cell did not stop %s, so the interpreter was "
                           "ended. " SANDBOX_LOST_TEXT,
                           e->cell.stop == EVENT_TIMEOUT ? "at its time limit"
                                                         : "when asked");
    } else {
        reason = xstrdup(str_blank(why) ? "The interpreter was "
                                          "ended. " SANDBOX_LOST_TEXT
                                        : why);
    }
    e2b_cell_lose(e, EVENT_DIED, reason, false);
    e2b_cell_reopen(e);
}

/* --- stopping --- */

static void handle_again(void *ctx);
static void handle_grace(void *ctx);

static void
ask_to_stop(struct e2b *e)
{
    if (!e->cell.is_script) {
        e->runner->ops->interrupt(e->runner);
    } else if (e->process != NULL) {
        e2b_process_signal(e->process, SIGINT);
    }
}

static void
handle_again(void *ctx)
{
    struct e2b *e = ctx;

    e->cell.again = NULL;
    ask_to_stop(e);
}

static void
handle_grace(void *ctx)
{
    struct e2b *e = ctx;

    e->cell.grace = NULL;
    if (e->cell.is_script && !e->cell.killed) {
        e->cell.killed = true;
        if (e->process != NULL) {
            e2b_process_signal(e->process, SIGKILL);
        }
        e->cell.grace = loop_add_timer(e->loop, GRACE_MS * 2, handle_grace, e);
        return;
    }
    if (e->cell.is_script) {
        e2b_process_drop(e->process);
        e->process = NULL;
        e2b_cell_end_unknown(e, "Stopped, but the sandbox did not say that it "
                                "has ended. Variables are kept.");
        return;
    }
    e->cell.killed = true;
    e->runner->ops->kill(e->runner);
}

/* Nothing of it has run yet. */
static void
give_up_script(void *ctx)
{
    struct e2b *e = ctx;
    struct sandbox_outcome outcome = {
        .outcome = e->cell.stop,
        .exit_status = -1,
        .duration_ms = clock_now_ms() - e->cell.started_ms,
    };

    e->cell.grace = NULL;
    set_reason(e, "Stopped before it began; variables are kept.");
    report(e, SANDBOX_DONE, &outcome, NULL);
}

void
e2b_cell_stop(struct e2b *e, enum event_outcome why)
{
    struct e2b_cell *c = &e->cell;

    if (e->phase != E2B_PHASE_BUSY) {
        return;
    }
    if (c->stop != EVENT_OK) {
        if (e->base.no_grace && c->grace != NULL) {
            loop_timer_remove(c->grace);
            c->grace = loop_add_timer(e->loop, 0, handle_grace, e);
        }
        return;
    }
    c->stop = why;
    loop_timer_remove(c->timeout);
    c->timeout = NULL;
    if (c->is_script && e->process == NULL) {
        e2b_file_drop(e->file);
        e->file = NULL;
        c->grace = loop_add_timer(e->loop, 0, give_up_script, e);
        return;
    }
    /* It is being asked whether it is there at all. */
    if (e->call != NULL) {
        return;
    }
    ask_to_stop(e);
    c->again = loop_add_timer(e->loop, AGAIN_MS, handle_again, e);
    c->grace = loop_add_timer(
        e->loop, c->is_script ? SCRIPT_GRACE_MS : GRACE_MS, handle_grace, e);
}

/* The way to the interpreter takes its time, which is not the cell's. */
static void
handle_timeout(void *ctx)
{
    struct e2b *e = ctx;
    int64_t waited_ms = clock_now_ms() - e->cell.started_ms;

    e->cell.timeout = NULL;
    if (e->cell.begun || waited_ms >= BEGIN_MS) {
        e2b_cell_stop(e, EVENT_TIMEOUT);
    } else {
        e->cell.timeout =
            loop_add_timer(e->loop, BEGIN_MS - waited_ms, handle_timeout, e);
    }
}

/* --- what it writes and shows --- */

static void
on_begin(void *ctx)
{
    struct e2b *e = ctx;

    if (e->cell.begun) {
        return;
    }
    e->cell.begun = true;
    /* What it took to get there is not the cell's time. */
    if (e->cell.timeout != NULL) {
        loop_timer_remove(e->cell.timeout);
        e->cell.timeout =
            loop_add_timer(e->loop, e->cell.timeout_ms, handle_timeout, e);
    }
    e->cell.on.on_begin(e->cell.ctx);
}

static void
on_cell_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct e2b *e = ctx;

    e->cell.on.on_bytes(e->cell.ctx, stream, data, len);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct e2b *e = ctx;

    e->cell.on.on_output(e->cell.ctx, out);
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct e2b *e = ctx;

    e->cell.on.on_note(e->cell.ctx, kind, text);
}

static void
on_flood(void *ctx)
{
    struct e2b *e = ctx;

    e->cell.flooded = true;
    e2b_cell_stop(e, EVENT_OUTPUT_LIMIT);
}

/* --- cells --- */

static void
on_run(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;
    struct sandbox_outcome outcome = {.exit_status = -1};

    switch (end->way) {
    case E2B_RUN_DONE:
        if (end->outcome == NULL) {
            e2b_cell_refuse(e, end->err);
            return;
        }
        outcome = *end->outcome;
        outcome.exit_status = -1;
        if (e->cell.stop != EVENT_OK &&
            (outcome.outcome != EVENT_OK || e->cell.flooded)) {
            outcome.outcome = e->cell.stop;
        } else if (outcome.outcome == EVENT_INTERRUPTED) {
            outcome.outcome = EVENT_FAILED;
        }
        end_well(e, &outcome);
        return;
    case E2B_RUN_LOST:
        lose_runner(e, end);
        return;
    case E2B_RUN_TROUBLE:
        stop_timers(&e->cell);
        e2b_handle_trouble(e, end->trouble, end->not_run, end->err);
        return;
    }
}

static void
start_cell(struct e2b *e)
{
    const struct e2b_run_handlers on = {
        .on = {.on_begin = on_begin,
               .on_bytes = on_cell_bytes,
               .on_output = on_output,
               .on_note = on_note},
        .on_flood = on_flood,
        .on_done = on_run,
    };

    if (e->cell.timeout_ms > 0) {
        loop_timer_remove(e->cell.timeout);
        e->cell.timeout =
            loop_add_timer(e->loop, e->cell.timeout_ms, handle_timeout, e);
    }
    e->runner->ops->run(e->runner, e->cell.what, &on, e);
}

static void
on_not_run(void *ctx)
{
    struct e2b *e = ctx;
    struct error err = e->op_err;

    e->task = NULL;
    memset(&e->op_err, 0, sizeof(e->op_err));
    report(e, err.code == ERR_SANDBOX ? SANDBOX_LOST : SANDBOX_ERROR, NULL,
           &err);
}

static void
begin_cell(struct e2b *e, int64_t timeout_ms,
           const struct sandbox_cell_handlers *on, void *ctx)
{
    assert(!e->cell.active && e->task == NULL);
    e->cell = (struct e2b_cell){
        .on = *on,
        .ctx = ctx,
        .active = true,
        .timeout_ms = timeout_ms < 0 ? e->limits.cell_ms : timeout_ms,
        .started_ms = clock_now_ms(),
    };
}

/* From the loop: it has not been run. err is copied. */
static void
refuse_later(struct e2b *e, const struct error *err)
{
    e->op_err = *err;
    e->task = loop_defer(e->loop, on_not_run, e);
}

void
e2b_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
             const struct sandbox_cell_handlers *on, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    begin_cell(e, cell->timeout_ms, on, ctx);
    e->cell.what = cell;
    e->cell.silent = cell->silent;
    if (cell->code_len > SANDBOX_MAX_CODE_BYTES) {
        error_fill(&err, ERR_TOO_LARGE, "code of %zu bytes", cell->code_len);
    } else if (e->phase != E2B_PHASE_IDLE || e->runner == NULL) {
        error_fill(&err, ERR_SANDBOX, "no interpreter runs");
    }
    if (err.code != ERR_NONE) {
        refuse_later(e, &err);
        return;
    }
    e2b_set_phase(e, E2B_PHASE_BUSY);
    e2b_begin(e, start_cell);
}

/* --- scripts --- */

static void send_files(struct e2b *e);

static void
on_script_bytes(void *ctx, enum event_stream stream, const char *data,
                size_t len)
{
    struct e2b *e = ctx;
    uint64_t left = e->limits.output_bytes - e->cell.n_bytes;
    size_t keep = e->cell.flooded ? 0 : len < left ? len : (size_t)left;
    bool floods = keep < len && !e->cell.flooded;

    e->cell.n_bytes += keep;
    e->cell.n_dropped += len - keep;
    if (keep > 0) {
        e->cell.on.on_bytes(e->cell.ctx, stream, data, keep);
    }
    if (floods) {
        on_flood(e);
    }
}

static void
on_script_start(void *ctx, int64_t pid)
{
    (void)pid;
    on_begin(ctx);
}

static void
on_script_done(void *ctx, const struct e2b_process_end *end)
{
    struct e2b *e = ctx;
    struct sandbox_outcome outcome = {
        .exit_status = end->exit_status,
        .signal = end->signal,
    };
    bool ok = end->exit_status == 0;

    e->process = NULL;
    if (end->trouble != E2B_TROUBLE_NONE) {
        stop_timers(&e->cell);
        e2b_handle_trouble(e, end->trouble, end->not_started, end->err);
        return;
    }
    if (end->limit_hit && e->cell.stop == EVENT_OK) {
        e->cell.stop = EVENT_TIMEOUT;
    }
    outcome.outcome = e->cell.stop != EVENT_OK && (!ok || e->cell.flooded)
                          ? e->cell.stop
                      : ok ? EVENT_OK
                           : EVENT_FAILED;
    end_well(e, &outcome);
}

/* "python3" is the Python of the cells. */
static const char *
find_program(const struct e2b *e, const char *word, char **owned)
{
    const char *python =
        e->runner != NULL ? e->runner->ops->python(e->runner) : NULL;

    if ((!str_eq(word, "python3") && !str_eq(word, "python")) ||
        python == NULL || python[0] != '/') {
        return word;
    }
    *owned = xstrndup(python, strcspn(python, " "));
    return *owned;
}

static size_t
count_words(const char *const *words)
{
    size_t n = 0;

    while (words != NULL && words[n] != NULL) {
        n++;
    }
    return n;
}

/* What a script prints comes at once, as that of a cell. */
static const char **
make_env(const char *const *more)
{
    size_t n = count_words(more);
    const char **env = xcalloc(n + 2, sizeof(env[0]));

    env[0] = "PYTHONUNBUFFERED=1";
    for (size_t i = 0; i < n; i++) {
        env[i + 1] = more[i];
    }
    return env;
}

static void
run_program(struct e2b *e)
{
    static const struct e2b_process_handlers handlers = {
        .on_start = on_script_start,
        .on_bytes = on_script_bytes,
        .on_done = on_script_done,
    };
    const struct sandbox_script *s = &e->script.what;
    AUTO_FREE char *cwd = xasprintf(E2B_WORKSPACE "/%s", s->dir);
    AUTO_FREE char *python = NULL;
    AUTO_FREE const char **argv =
        xmemdup(s->argv, (count_words(s->argv) + 1) * sizeof(argv[0]));
    AUTO_FREE const char **env = make_env(s->env);
    struct error err = {0};

    argv[0] = find_program(e, s->argv[0], &python);
    e->process = e2b_process_start(
        &e->site,
        &(struct e2b_process_spec){.argv = argv,
                                   .env = env,
                                   .cwd = cwd,
                                   .limit_ms = e->cell.timeout_ms,
                                   .doing = "running a script"},
        &handlers, e, &err);
    if (e->process == NULL) {
        e2b_cell_refuse(e, &err);
    }
}

static void
on_script_file(void *ctx, const struct e2b_data_result *result)
{
    struct e2b *e = ctx;

    e->file = NULL;
    if (result->trouble != E2B_TROUBLE_NONE || result->err != NULL) {
        e2b_handle_trouble(e, result->trouble, true, result->err);
        return;
    }
    if (!e->script.has_dir) {
        e->script.has_dir = true;
    } else {
        e->script.n_sent++;
    }
    send_files(e);
}

/* The directory, then each file, then the program. */
static void
send_files(struct e2b *e)
{
    const struct sandbox_script *s = &e->script.what;
    AUTO_FREE char *path = NULL;
    struct error err = {0};

    if (e->script.has_dir && e->script.n_sent == s->n_files) {
        run_program(e);
        return;
    }
    if (!e->script.has_dir) {
        path = xasprintf(E2B_WORKSPACE "/%s", s->dir);
        e->file = e2b_file_make_dir(&e->site, path, on_script_file, e, &err);
    } else {
        const struct sandbox_script_file *f = &s->files[e->script.n_sent];

        path = xasprintf(E2B_WORKSPACE "/%s/%s", s->dir, f->name);
        e->file = e2b_file_upload_bytes(&e->site, path,
                                        f->data != NULL ? f->data : "", f->len,
                                        on_script_file, e, &err);
    }
    if (e->file == NULL) {
        e2b_cell_refuse(e, &err);
    }
}

static void
start_script(struct e2b *e)
{
    e->script.n_sent = 0;
    e->script.has_dir = false;
    send_files(e);
}

void
e2b_run_script(struct sandbox_backend *b, const struct sandbox_script *script,
               const struct sandbox_cell_handlers *on, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};
    size_t n_bytes;

    begin_cell(e, script->timeout_ms, on, ctx);
    e->cell.is_script = true;
    e->script = (struct e2b_script){.what = *script};
    if (e->phase != E2B_PHASE_IDLE) {
        error_fill(&err, ERR_SANDBOX, "no interpreter runs");
    } else {
        (void)!script_check(script, &n_bytes, &err);
    }
    if (err.code != ERR_NONE) {
        refuse_later(e, &err);
        return;
    }
    e2b_set_phase(e, E2B_PHASE_BUSY);
    e2b_begin(e, start_script);
}
