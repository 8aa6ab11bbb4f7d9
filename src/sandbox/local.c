/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_internal.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_scope_internal.h"
#include "sandbox/local_warden_internal.h"
#include "sandbox/local_watchdog_internal.h"

#define LOG_MODULE "sandbox"

#define START_MS 30000
#define PROBE_PROGRAM "/usr/bin/true"
#define MAX_INIT_BYTES 4096u
#define MAX_UNASKED 100u
#define MAX_VERSION_BYTES 32u
#define VERSION_CHARS "0123456789.abcdefghijklmnopqrstuvwxyz+-"
/* After its events ended: how long a process that runs on has for its own end,
   and bubblewrap, once that has come, for saying how it was. */
#define EOF_GRACE_MS 200
#define EOF_END_MS 10000

/* --- life --- */

void
local_destroy(struct local *l)
{
    free_const(l->config.bwrap);
    free_const(l->config.warden);
    free_const(l->config.python);
    free_const(l->config.parent_dir);
    sbuf_fini(&l->start_errors);
    sbuf_fini(&l->later);
    free(l->fatal);
    free(l->why_no_scope);
    free(l->op_name);
    free(l->version);
    free(l->about);
    free(l);
}

void
local_enter(struct local *l)
{
    l->depth++;
}

void
local_leave(struct local *l)
{
    l->depth--;
    if (l->dead && l->depth == 0)
        local_destroy(l);
}

void
local_set_state(struct local *l, enum local_state state)
{
    static const unsigned allowed[] = {
        [LOCAL_NEW] = 1u << LOCAL_STARTING,
        [LOCAL_STARTING] = 1u << LOCAL_IDLE | 1u << LOCAL_NEW |
                           1u << LOCAL_STARTING | 1u << LOCAL_PROBING,
        [LOCAL_PROBING] = 1u << LOCAL_NEW,
        [LOCAL_IDLE] = 1u << LOCAL_RUNNING | 1u << LOCAL_NEW |
                       1u << LOCAL_ENDING | 1u << LOCAL_SUSPENDED,
        [LOCAL_RUNNING] = 1u << LOCAL_IDLE | 1u << LOCAL_INTERRUPTING |
                          1u << LOCAL_ENDING | 1u << LOCAL_NEW,
        [LOCAL_INTERRUPTING] =
            1u << LOCAL_IDLE | 1u << LOCAL_ENDING | 1u << LOCAL_NEW,
        [LOCAL_SUSPENDED] =
            1u << LOCAL_RESUMING | 1u << LOCAL_NEW | 1u << LOCAL_ENDING,
        [LOCAL_RESUMING] =
            1u << LOCAL_IDLE | 1u << LOCAL_NEW | 1u << LOCAL_ENDING,
        [LOCAL_ENDING] = 1u << LOCAL_NEW,
    };

    assert((allowed[l->state] & 1u << state) != 0);
    l->state = state;
}

/* --- operations that end later --- */

static void
report_op(void *ctx)
{
    struct local *l = ctx;
    sandbox_done_fn done = l->done;
    struct error err = l->op_err;
    enum sandbox_end end = l->op_end;

    l->task = NULL;
    l->done = NULL;
    l->put_progress = NULL;
    free(take_ptr(&l->op_name));
    close_fd(&l->op_fd);
    local_enter(l);
    if (done != NULL)
        done(l->op_ctx, end, err.code != ERR_NONE ? &err : NULL);
    local_leave(l);
}

void
local_end_op(struct local *l, const struct error *err)
{
    l->op_end = err != NULL ? SANDBOX_ERROR : SANDBOX_DONE;
    l->op_err = err != NULL ? *err : (struct error){0};
    l->task = loop_defer(l->loop, report_op, l);
}

/* --- start --- */

void
local_drop_child(struct local *l)
{
    loop_timer_remove(l->start_timer);
    l->start_timer = NULL;
    local_leftovers_drop(l);
    loop_timer_remove(l->resume_timer);
    l->resume_timer = NULL;
    loop_timer_remove(l->settle_timer);
    l->settle_timer = NULL;
    l->stopping = false;
    l->fault = NULL;
    l->was_busy = false;
    local_thaw(l);
    local_scope_free(l->scope);
    l->scope = NULL;
    local_link_free(l->link);
    l->link = NULL;
    local_bwrap_fini(&l->child);
    sbuf_clear(&l->later);
}

/* A start is over. err NULL: the kernel is ready. */
static void
end_start(struct local *l, const struct error *err)
{
    if (err != NULL)
        local_drop_child(l);
    local_set_state(l, err != NULL ? LOCAL_NEW : LOCAL_IDLE);
    l->fresh = true;
    switch (l->purpose) {
    case LOCAL_FOR_OPEN:
    case LOCAL_FOR_PUT:
        local_end_op(l, err);
        break;
    case LOCAL_FOR_CELL:
        local_cell_restarted(l, err);
        break;
    }
}

static void
make_nonce(char nonce[MARKS_NONCE_LEN])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[MARKS_NONCE_LEN / 2] = {0};

    /* It keeps honest mistakes apart and no attacker out: a failure costs
       nothing. */
    if (getrandom(bytes, sizeof(bytes), 0) < 0)
        LOG_WARN("no random bytes for the marks");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        nonce[2 * i] = digits[bytes[i] >> 4];
        nonce[2 * i + 1] = digits[bytes[i] & 15];
    }
}

static void
send_init(struct local *l, const char nonce[MARKS_NONCE_LEN])
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_INIT_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "init");
    json_add_member_int(&sb, "v", 1);
    json_add_key(&sb, "nonce");
    json_add_string(&sb, nonce, MARKS_NONCE_LEN);
    json_add_key(&sb, "limits");
    sbuf_add_char(&sb, '{');
    if (local_level(l->config.isolation)->own_users)
        json_add_member_int(&sb, "nproc", l->limits.processes);
    sbuf_add_char(&sb, '}');
    json_add_member_int(&sb, "ticket", LOCAL_FD_TICKETS);
    json_add_key(&sb, "preload");
    sbuf_add_str(&sb, "[\"pandas\",\"matplotlib.pyplot\"]");
    json_add_member_bool(&sb, "tty", l->config.on_terminal);
    if (l->config.figure_width_px > 0 && l->config.figure_height_px > 0) {
        json_add_key(&sb, "figure");
        sbuf_add_char(&sb, '{');
        json_add_member_int(&sb, "width_px", l->config.figure_width_px);
        json_add_member_int(&sb, "height_px", l->config.figure_height_px);
        if (l->config.figure_dpi > 0)
            json_add_member_int(&sb, "dpi", l->config.figure_dpi);
        sbuf_add_char(&sb, '}');
    }
    sbuf_add_str(&sb, "}\n");
    local_link_send(l->link, sb.data, sb.len);
}

static void handle_exit(void *ctx, const struct proc_exit *status);
static const struct local_link_handlers link_handlers;

static int
launch(struct local *l, const char *command, struct error *err)
{
    AUTO_FREE struct local_bwrap_file *files = NULL;
    const struct local_level *level = local_level(l->config.isolation);
    struct local_bwrap_spec spec = {
        .level = level,
        .env = &l->env,
        .no_proc = l->no_proc,
        .no_disable = l->no_disable,
        .memory_bytes = l->limits.memory_bytes,
        .processes = l->limits.processes,
        .command = command,
    };

    local_env_mend(&l->env);
    if (l->env.tmp != NULL && local_warden_prepare(&l->env, err) < 0)
        return -1;
    local_files_check(&l->files, &l->env);
    files = xcalloc(l->files.n, sizeof(files[0]));
    for (size_t i = 0; i < l->files.n; i++)
        if (l->files.files[i].path != NULL)
            files[spec.n_files++] = (struct local_bwrap_file){
                l->files.files[i].path, l->files.files[i].name};
    spec.files = files;
    return local_bwrap_start(&l->child, l->loop, &spec, handle_exit, l, err);
}

static void
handle_start_timeout(void *ctx)
{
    struct local *l = ctx;

    l->start_timer = NULL;
    free(l->fatal);
    l->fatal = xstrdup("it was not ready within 30 s");
    if (local_bwrap_find_child(&l->child))
        local_bwrap_kill(&l->child);
    else
        proc_signal(l->child.proc, SIGKILL);
}

static void
fail_start(struct local *l, const char *what, const char *detail)
{
    struct error err = {0};

    error_fill(&err, ERR_SANDBOX, "%s: %.200s\nfix: %s", what, detail,
               "run sandpiper --doctor, which says what is missing");
    end_start(l, &err);
}

void
local_start(struct local *l, enum local_purpose purpose)
{
    char nonce[MARKS_NONCE_LEN];
    struct local_link_fds fds;
    struct error err = {0};
    struct error known = {0};

    l->purpose = purpose;
    l->silent_ms = 0;
    local_set_state(l, LOCAL_STARTING);
    sbuf_clear(&l->start_errors);
    free(take_ptr(&l->fatal));
    l->n_unasked = 0;
    l->is_ready = false;
    if (launch(l, NULL, &err) < 0) {
        /* Not even begun; the reason may be one that has a fix. */
        if (local_probe_diagnose(err.msg, &known) == LOCAL_REMEDY_NONE)
            err = known;
        end_start(l, &err);
        return;
    }
    make_nonce(nonce);
    fds = (struct local_link_fds){
        .requests = l->child.request_fd,
        .events = l->child.event_fd,
        .out = l->child.stdout_fd,
        .errors = l->child.stderr_fd,
    };
    l->link = local_link_new(l->loop, &fds, nonce, &link_handlers, l);
    l->start_timer = loop_add_timer(l->loop, START_MS, handle_start_timeout, l);
    send_init(l, nonce);
}

const char *
local_bound_by(const struct local *l)
{
    return local_scope_is_on(l->scope) ? "cgroup" : "watchdog";
}

const char *
local_why_no_scope(const struct sandbox_backend *b)
{
    const struct local *l = (const struct local *)b;

    if (local_scope_is_on(l->scope))
        return NULL;
    return l->why_no_scope != NULL ? l->why_no_scope : "";
}

static void
handle_scope(void *ctx, bool on)
{
    struct local *l = ctx;

    if (!on)
        l->why_no_scope = xstrdup(local_scope_why(l->scope));
    local_enter(l);
    end_start(l, NULL);
    local_leave(l);
}

/* Before the first cell, so that nothing that cells start is outside. The outer
   process is left out, since it must go on when all others are frozen. */
static void
start_scope(struct local *l)
{
    struct local_scope_limits limits = {
        .memory_bytes = l->limits.memory_bytes,
        .processes = l->limits.processes + LOCAL_SCOPE_MAX_PIDS,
    };

    limits.pids[limits.n_pids++] = l->child.child_pid;
    if (l->child.kernel_pid > 0)
        limits.pids[limits.n_pids++] = l->child.kernel_pid;
    l->scope =
        local_scope_start(l->loop, l->config.scope, &limits, handle_scope, l);
}

/* It is shown as one of our own words. */
static void
keep_version(struct local *l, const char *version)
{
    free(take_ptr(&l->version));
    if (version != NULL && version[0] != '\0' &&
        strlen(version) <= MAX_VERSION_BYTES &&
        strspn(version, VERSION_CHARS) == strlen(version))
        l->version = xstrdup(version);
}

static void
handle_ready(struct local *l, const struct cJSON *event)
{
    if (!local_bwrap_find_child(&l->child)) {
        fail_start(l, "the process of the sandbox cannot be found",
                   "/proc does not show it");
        return;
    }
    loop_timer_remove(l->start_timer);
    l->start_timer = NULL;
    keep_version(l, json_string(event, "python"));
    l->ready_ms = clock_now_ms();
    if (l->no_proc && l->purpose == LOCAL_FOR_OPEN && l->progress != NULL)
        l->progress(l->op_ctx, "cells run without /proc, as set");
    l->is_ready = true;
    l->child.kernel_pid = local_watchdog_only_child(l->child.child_pid);
    if (l->why_no_scope == NULL)
        start_scope(l);
    else
        end_start(l, NULL);
}

/* The last line that says something; the caller owns it. */
static char *
last_line(const char *text)
{
    AUTO_FREE char *trimmed = str_trim(text);
    const char *feed = strrchr(trimmed, '\n');

    return xstrdup(feed != NULL ? feed + 1 : trimmed);
}

/* A start has failed and bubblewrap said nothing that is known: the same with a
   program that cannot fail tells whose fault it is. */
static void
probe(struct local *l)
{
    struct error err = {0};

    local_set_state(l, LOCAL_PROBING);
    local_drop_child(l);
    if (launch(l, PROBE_PROGRAM, &err) < 0)
        end_start(l, &err);
}

static void
handle_probed(struct local *l, const struct proc_exit *status)
{
    AUTO_FREE char *said = last_line(l->start_errors.data);
    AUTO_FREE char *what = NULL;

    if (status->code == 0)
        what = xasprintf("%s%s does not run as the interpreter of cells",
                         l->config.python != NULL ? "sandbox.python: " : "",
                         l->env.python);
    else
        what = xasprintf("%s%s cannot make the sandbox",
                         l->env.warden == NULL && l->config.bwrap != NULL
                             ? "sandbox.bwrap: "
                             : "",
                         l->env.warden != NULL ? l->env.warden : l->env.bwrap);
    fail_start(l, what, said[0] != '\0' ? said : "it said nothing");
}

static void
handle_failed_start(struct local *l)
{
    enum local_purpose purpose = l->purpose;
    struct error err = {0};

    LOG_WARN("start failed: %.2000s", l->start_errors.data);
    if (l->fatal != NULL) {
        fail_start(l, "the interpreter of cells cannot go on", l->fatal);
        return;
    }
    switch (local_probe_diagnose(l->start_errors.data, &err)) {
    case LOCAL_REMEDY_NONE:
    case LOCAL_REMEDY_NO_PROC:
        if (l->config.bwrap != NULL)
            err_wrap(&err, "sandbox.bwrap: %.200s", l->config.bwrap);
        end_start(l, &err);
        return;
    case LOCAL_REMEDY_NO_DISABLE:
        if (l->no_disable)
            break;
        l->no_disable = true;
        local_drop_child(l);
        local_start(l, purpose);
        return;
    case LOCAL_REMEDY_UNKNOWN:
        break;
    }
    probe(l);
}

/* --- what comes from inside --- */

/* Something that was left behind prints while nothing runs. Once enough of it
   is kept it has to wait: it may be without an end. */
static void
keep_for_later(struct local *l, const char *data, size_t len)
{
    size_t room = LOCAL_MAX_LATER_BYTES - l->later.len;

    sbuf_add(&l->later, data, len < room ? len : room);
    if (l->state == LOCAL_IDLE && len >= room)
        local_link_hold(l->link);
}

static void
handle_text(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct local *l = ctx;

    local_enter(l);
    if (l->state == LOCAL_STARTING) {
        /* Only standard error, where bubblewrap says why it cannot. */
        if (stream == EVENT_STDERR)
            sbuf_add(&l->start_errors, data, len);
    } else if (l->cell_active && l->cell.ask == NULL) {
        local_cell_text(l, stream, data, len);
    } else {
        keep_for_later(l, data, len);
    }
    local_leave(l);
}

/* why: static. */
static void
kill_for_protocol(struct local *l, const char *why)
{
    if (l->state == LOCAL_RUNNING || l->state == LOCAL_INTERRUPTING) {
        AUTO_FREE char *reason =
            xasprintf("The interpreter was ended: %s. " SANDBOX_LOST_TEXT, why);

        local_cell_kill(l, EVENT_DIED, reason);
        return;
    }
    /* Its end is handled as any other. */
    l->fault = why;
    local_bwrap_find_child(&l->child);
    local_bwrap_kill(&l->child);
}

static void
handle_event(void *ctx, const struct cJSON *event, size_t len)
{
    struct local *l = ctx;
    const char *name = json_string(event, "ev");

    local_enter(l);
    if (l->state == LOCAL_STARTING && !l->is_ready && str_eq(name, "ready")) {
        handle_ready(l, event);
    } else if (l->state == LOCAL_STARTING && str_eq(name, "fatal")) {
        const char *text = json_string(event, "text");

        free(l->fatal);
        l->fatal = xstrdup(text != NULL ? text : "");
    } else if (l->state == LOCAL_RESUMING && str_eq(name, "pong") &&
               json_int(event, "id", -1) == l->ping_id) {
        local_pong(l);
    } else if (!local_cell_event(l, event, len) && l->state != LOCAL_ENDING &&
               ++l->n_unasked == MAX_UNASKED) {
        kill_for_protocol(l, "it sent events that nobody had asked for");
    }
    local_leave(l);
}

static void
handle_eof_grace(void *ctx)
{
    struct local *l = ctx;

    l->start_timer = NULL;
    if (l->child.kernel_pid > 0 &&
        !local_watchdog_is_running(l->child.kernel_pid) &&
        clock_now_ms() - l->eof_ms < EOF_END_MS) {
        l->start_timer =
            loop_add_timer(l->loop, EOF_GRACE_MS, handle_eof_grace, l);
        return;
    }
    local_enter(l);
    kill_for_protocol(l, "it closed the pipe of its events");
    local_leave(l);
}

static void
handle_broken(void *ctx, const char *why)
{
    struct local *l = ctx;

    local_enter(l);
    if (why != NULL)
        kill_for_protocol(l, why);
    else if (l->start_timer == NULL && l->state != LOCAL_ENDING) {
        local_cell_look_at_memory(l);
        l->eof_ms = clock_now_ms();
        l->start_timer =
            loop_add_timer(l->loop, EOF_GRACE_MS, handle_eof_grace, l);
    }
    local_leave(l);
}

static const struct local_link_handlers link_handlers = {
    .on_text = handle_text,
    .on_event = handle_event,
    .on_broken = handle_broken,
};

/* --- the end of an interpreter --- */

static void
handle_idle_death(struct local *l, const struct proc_exit *status)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};
    bool resuming = l->state == LOCAL_RESUMING;
    bool settling = l->settling;

    sbuf_init(&sb, ERROR_MSG_BYTES);
    local_death_add_end(&sb, status);
    if (l->fault != NULL)
        error_fill(&err, ERR_SANDBOX,
                   "the interpreter was ended while no cell ran, since %s",
                   l->fault);
    else
        error_fill(&err, ERR_SANDBOX,
                   "the interpreter ended while no cell ran (%s)", sb.data);
    local_drop_child(l);
    local_set_state(l, LOCAL_NEW);
    l->settling = false;
    if (settling)
        local_end_op(l, NULL);
    if (resuming)
        local_end_op(l, &err);
    else if (l->base.on_lost != NULL)
        l->base.on_lost(l->base.on_lost_ctx, &err);
}

static void
restart_for_cell(struct local *l)
{
    struct error err = {0};

    local_drop_child(l);
    local_set_state(l, LOCAL_NEW);
    if (l->cell.ask != NULL) {
        /* The caller opens it again when it is needed. */
        local_ask_lost(l);
        return;
    }
    if (deaths_are_too_many(&l->deaths)) {
        error_fill(&err, ERR_SANDBOX, DEATHS_TEXT);
        deaths_forget(&l->deaths);
        local_cell_restarted(l, &err);
        return;
    }
    local_start(l, LOCAL_FOR_CELL);
}

static void
handle_exit(void *ctx, const struct proc_exit *status)
{
    struct local *l = ctx;

    local_enter(l);
    l->child.ended = true;
    /* An inner warden has something to do by itself. */
    local_thaw(l);
    /* Daemons of cells outlive their interpreter for a moment otherwise. */
    local_bwrap_kill(&l->child);
    if (l->state == LOCAL_PROBING) {
        handle_probed(l, status);
        local_leave(l);
        return;
    }
    /* What it wrote last, its own "done" perhaps included. */
    if (l->link != NULL && !local_link_drain(l->link)) {
        local_leave(l);
        return;
    }
    switch (l->state) {
    case LOCAL_STARTING:
        handle_failed_start(l);
        break;
    case LOCAL_RUNNING:
    case LOCAL_INTERRUPTING:
        local_cell_died(l, status);
        restart_for_cell(l);
        break;
    case LOCAL_ENDING:
        if (l->cell_active) {
            restart_for_cell(l);
        } else if (l->stopping) {
            local_drop_child(l);
            local_set_state(l, LOCAL_NEW);
            local_end_op(l, NULL);
        } else {
            local_drop_child(l);
            local_set_state(l, LOCAL_NEW);
            local_start(l, LOCAL_FOR_PUT);
        }
        break;
    case LOCAL_IDLE:
    case LOCAL_SUSPENDED:
    case LOCAL_RESUMING:
        handle_idle_death(l, status);
        break;
    case LOCAL_NEW:
    case LOCAL_PROBING:
        break;
    }
    local_leave(l);
}
