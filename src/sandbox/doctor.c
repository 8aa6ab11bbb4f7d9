/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/doctor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/proc.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/doctor_internal.h"
#include "sandbox/local.h"
#include "sandbox/local_advice_internal.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/local_warden_internal.h"
#include "sandbox/local_watchdog_internal.h"
#include "sandbox/sandbox.h"

#define MAX_SAID_BYTES 16384u
#define PROGRAM_MS 30000
#define CELL_MS 60000
#define TRIAL_BYTES ((uint64_t)1 << 30)
#define TRIAL_PROGRAM "/usr/bin/true"
#define TRIAL_PROGRAM_ELSEWHERE "/bin/true"

struct doctor {
    struct loop *loop;          /* borrowed */
    struct local_config config; /* strings owned */
    struct sandbox_limits limits;
    uint64_t memory_bytes; /* of the trial */
    char *helper;          /* owned */
    doctor_done_fn done;
    void *ctx;

    struct doctor_facts facts;
    struct local_env env;

    void (*next)(struct doctor *d); /* what task does */
    struct loop_task *task;
    struct loop_timer *timer; /* until what runs is ended */

    struct proc *version; /* owned: bubblewrap, asked for its version */
    struct local_bwrap child;
    int said_fd; /* owned: what it writes; -1 */
    struct loop_fd *said_watch;
    struct sbuf said;

    struct sandbox_backend *backend; /* owned: the interpreter on trial */
    struct sbuf printed;             /* by its cell */
};

static void try_sandbox(struct doctor *d);
static void try_interpreter(struct doctor *d);

/* --- steps --- */

static void
run_next(void *ctx)
{
    struct doctor *d = ctx;

    d->task = NULL;
    d->next(d);
}

/* Each step begins from the loop, never within what ended the last one. */
static void
go_on(struct doctor *d, void (*next)(struct doctor *d))
{
    d->next = next;
    d->task = loop_defer(d->loop, run_next, d);
}

static void
report(struct doctor *d)
{
    struct doctor_report r;

    doctor_findings_make(&d->facts, &r);
    /* The doctor may be freed in it. */
    d->done(d->ctx, &r);
    doctor_report_fini(&r);
}

/* --- what a program says --- */

static void
stop_timer(struct doctor *d)
{
    loop_timer_remove(d->timer);
    d->timer = NULL;
}

static void
stop_listening(struct doctor *d)
{
    loop_fd_remove(d->said_watch);
    d->said_watch = NULL;
    close_fd(&d->said_fd);
}

/* Takes what is there; what is too much is dropped. */
static void
listen_once(struct doctor *d)
{
    char buf[4096];
    ssize_t n = 0;

    while (d->said_fd >= 0) {
        n = read(d->said_fd, buf, sizeof(buf));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        sbuf_add(&d->said, buf, (size_t)n);
    }
    if (n == 0 || errno != EAGAIN)
        stop_listening(d);
}

static void
on_said(void *ctx, int fd, unsigned events)
{
    (void)fd;
    (void)events;
    listen_once(ctx);
}

/* fd: owned from now on, non-blocking. */
static void
listen_to(struct doctor *d, int fd)
{
    sbuf_clear(&d->said);
    d->said_fd = fd;
    d->said_watch = loop_add_fd(d->loop, fd, LOOP_READ, on_said, d);
}

/* --- the version of bubblewrap --- */

static void
on_version(void *ctx, const struct proc_exit *status)
{
    struct doctor *d = ctx;

    stop_timer(d);
    listen_once(d);
    stop_listening(d);
    if (status->code == 0)
        doctor_take_version(&d->facts, d->said.data);
    go_on(d, try_sandbox);
}

static void
on_version_late(void *ctx)
{
    struct doctor *d = ctx;

    d->timer = NULL;
    proc_signal(d->version, SIGKILL);
}

static void
ask_version(struct doctor *d)
{
    const char *argv[] = {"bwrap", "--version", NULL};
    const char *envp[] = {"PATH=/usr/bin:/bin", NULL};
    int fds[2] = {-1, -1};
    struct error err = {0};

    /* With the identity missing, it would be run as root. */
    if (d->facts.identity_error != NULL) {
        go_on(d, report);
        return;
    }
    /* The warden is a part of this program, and has its version. */
    if (d->env.bwrap == NULL) {
        go_on(d, try_sandbox);
        return;
    }
    if (io_pipe(fds, &err) == 0 && io_set_nonblock(fds[0], &err) == 0) {
        const struct proc_fd out = {fds[1], STDOUT_FILENO};
        const struct proc_spec spec = {
            .path = d->env.bwrap,
            .argv = argv,
            .envp = envp,
            .fds = &out,
            .n_fds = 1,
            .drop_ids = d->env.drop,
            .uid = d->env.uid,
            .gid = d->env.gid,
            .die_with_parent = true,
        };

        d->version = proc_start(d->loop, &spec, on_version, d, &err);
    }
    close_fd(&fds[1]);
    d->facts.bwrap_asked = d->version != NULL;
    if (d->version == NULL) {
        close_fd(&fds[0]);
        go_on(d, try_sandbox);
        return;
    }
    listen_to(d, fds[0]);
    d->timer = loop_add_timer(d->loop, PROGRAM_MS, on_version_late, d);
}

/* --- the sandbox with a program that cannot fail --- */

static void
end_trial(struct doctor *d, enum doctor_trial trial)
{
    stop_timer(d);
    stop_listening(d);
    local_bwrap_fini(&d->child);
    d->facts.sandbox = trial;
    free(d->facts.sandbox_says);
    d->facts.sandbox_says = xstrdup(d->said.data);
    go_on(d, trial == DOCTOR_WORKED ? try_interpreter : report);
}

static void
on_trial(void *ctx, const struct proc_exit *status)
{
    struct doctor *d = ctx;
    struct local_advice ignored;
    enum local_remedy remedy;

    d->child.ended = true;
    listen_once(d);
    if (status->code == 0) {
        end_trial(d, DOCTOR_WORKED);
        return;
    }
    remedy = local_advice_find(d->said.data, &d->facts.system, &ignored);
    if (remedy == LOCAL_REMEDY_NO_DISABLE && !d->facts.no_disable) {
        d->facts.no_disable = true;
    } else {
        end_trial(d, DOCTOR_FAILED);
        return;
    }
    stop_timer(d);
    stop_listening(d);
    local_bwrap_fini(&d->child);
    go_on(d, try_sandbox);
}

static void
on_trial_late(void *ctx)
{
    struct doctor *d = ctx;

    d->timer = NULL;
    sbuf_clear(&d->said);
    sbuf_add_str(&d->said, "it did not end within 30 s");
    end_trial(d, DOCTOR_FAILED);
}

/* Nothing is run that a start would refuse. */
static bool
can_try(const struct doctor *d)
{
    struct error ignored = {0};

    if (d->env.workspace == NULL)
        return false;
    if (d->facts.level != LOCAL_REDUCED)
        return d->env.bwrap != NULL && d->facts.bwrap_other == NULL;
    return d->env.warden != NULL &&
           local_level_check_landlock(d->facts.landlock_abi, &ignored) == 0;
}

static void
try_sandbox(struct doctor *d)
{
    struct error err = {0};
    struct local_bwrap_spec spec = {
        .level = local_level(d->config.isolation),
        .env = &d->env,
        .no_proc = d->facts.no_proc,
        .no_disable = d->facts.no_disable,
        .memory_bytes = d->memory_bytes,
        .processes = d->limits.processes,
        .command = access(TRIAL_PROGRAM, X_OK) == 0 ? TRIAL_PROGRAM
                                                    : TRIAL_PROGRAM_ELSEWHERE,
    };

    if (!can_try(d)) {
        go_on(d, report);
        return;
    }
    if ((d->env.tmp != NULL && local_warden_prepare(&d->env, &err) < 0) ||
        local_bwrap_start(&d->child, d->loop, &spec, on_trial, d, &err) < 0) {
        sbuf_clear(&d->said);
        sbuf_add_str(&d->said, err.msg);
        end_trial(d, DOCTOR_FAILED);
        return;
    }
    listen_to(d, take_fd(&d->child.stderr_fd));
    d->timer = loop_add_timer(d->loop, PROGRAM_MS, on_trial_late, d);
}

/* --- the interpreter, and a cell in it --- */

static void
end_backend(struct doctor *d)
{
    if (d->backend != NULL)
        d->backend->ops->close(d->backend);
    d->backend = NULL;
    report(d);
}

static void
on_cell_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct doctor *d = ctx;

    if (stream == EVENT_STDOUT)
        sbuf_add(&d->printed, data, len);
}

static void
on_cell_begin(void *ctx)
{
    (void)ctx;
}

static void
on_cell_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
on_cell_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct doctor *d = ctx;
    const char *why = NULL;

    if (end == SANDBOX_DONE && outcome->outcome == EVENT_OK) {
        d->facts.cell = DOCTOR_WORKED;
        doctor_take_modules(&d->facts, d->printed.data);
    } else {
        d->facts.cell = DOCTOR_FAILED;
        if (err != NULL)
            why = err->msg;
        else if (outcome != NULL)
            why = outcome->reason != NULL ? outcome->reason
                                          : outcome->error_value;
        d->facts.cell_error = xstrdup(why);
    }
    go_on(d, end_backend);
}

static void
run_cell(struct doctor *d)
{
    static const struct sandbox_cell_handlers on = {
        .on_begin = on_cell_begin,
        .on_bytes = on_cell_bytes,
        .on_output = on_cell_output,
        .on_note = on_cell_note,
        .on_done = on_cell_done,
    };
    const struct sandbox_cell cell = {
        .code = doctor_cell_code,
        .code_len = strlen(doctor_cell_code),
        .timeout_ms = CELL_MS,
        .silent = true,
    };

    d->backend->ops->run_cell(d->backend, &cell, &on, d);
}

/* Whether there is a control group was seen in the start, and not guessed. */
static void
take_scope(struct doctor *d)
{
    const char *why = local_why_no_scope(d->backend);

    d->facts.scope = why == NULL ? DOCTOR_WORKED : DOCTOR_FAILED;
    d->facts.scope_why = xstrdup(why);
}

static void
on_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct doctor *d = ctx;

    (void)end;
    if (err == NULL) {
        d->facts.interpreter = DOCTOR_WORKED;
        take_scope(d);
        go_on(d, run_cell);
        return;
    }
    d->facts.interpreter = DOCTOR_FAILED;
    d->facts.interpreter_error = xstrdup(err->msg);
    go_on(d, end_backend);
}

static void
try_interpreter(struct doctor *d)
{
    if (d->facts.python == NULL) {
        go_on(d, report);
        return;
    }
    d->backend = local_new(d->loop, &d->config, &d->limits);
    d->backend->ops->open(d->backend, NULL, on_open, d);
}

/* --- life --- */

static void
look(struct doctor *d)
{
    doctor_facts_gather(&d->facts, &d->env, &d->config, d->helper);
    go_on(d, ask_version);
}

struct doctor *
doctor_start(struct loop *loop, const struct local_config *config,
             const struct sandbox_limits *limits, const char *helper,
             doctor_done_fn done, void *ctx)
{
    struct doctor *d = xcalloc(1, sizeof(*d));

    d->loop = loop;
    d->config = *config;
    d->config.bwrap = xstrdup(config->bwrap);
    d->config.warden = xstrdup(config->warden);
    d->config.python = xstrdup(config->python);
    d->config.parent_dir = xstrdup(config->parent_dir);
    d->limits = *limits;
    d->memory_bytes = local_watchdog_memory_limit(
        limits->memory_bytes > 0 ? limits->memory_bytes : TRIAL_BYTES);
    d->helper = xstrdup(helper);
    d->done = done;
    d->ctx = ctx;
    d->said_fd = -1;
    sbuf_init(&d->said, MAX_SAID_BYTES);
    sbuf_init(&d->printed, MAX_SAID_BYTES);
    local_env_init(&d->env);
    go_on(d, look);
    return d;
}

void
doctor_free(struct doctor *d)
{
    if (d == NULL)
        return;
    loop_task_remove(d->task);
    stop_timer(d);
    stop_listening(d);
    proc_free(d->version);
    local_bwrap_fini(&d->child);
    if (d->backend != NULL)
        d->backend->ops->close(d->backend);
    local_env_fini(&d->env);
    doctor_facts_fini(&d->facts);
    sbuf_fini(&d->said);
    sbuf_fini(&d->printed);
    free_const(d->config.bwrap);
    free_const(d->config.warden);
    free_const(d->config.python);
    free_const(d->config.parent_dir);
    free(d->helper);
    free(d);
}
