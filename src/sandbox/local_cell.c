/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define LOG_MODULE "sandbox"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_scope_internal.h"
#include "sandbox/local_watchdog_internal.h"

/* The next SIGINT, each after the one before. */
#define SECOND_SIGINT_MS 200
#define THIRD_SIGINT_MS 800
#define GRACE_MS 3000
/* The kernel cannot be broken off while it imports: a cell that it has not
   taken yet is given up instead. It is ended only when a limit of the cell has
   been reached and it has had this long to take it, or when it has been silent
   for very long. */
#define BEGIN_MS 5000
#define MAX_SILENT_MS 30000

#define MAX_REQUEST (8u << 20) /* a code of 1 MiB, escaped */
#define MAX_REASON 512u
#define MAX_STATUS 255
#define MAX_SIGNAL 64
/* Then what takes so much is not the script. */
#define SCRIPT_MEMORY_LOOKS 10u

/* --- ends --- */

static void
stop_timers(struct local_cell *cell)
{
    loop_timer_remove(cell->timeout);
    loop_timer_remove(cell->again);
    loop_timer_remove(cell->grace);
    loop_timer_remove(cell->watch);
    cell->timeout = cell->again = cell->grace = cell->watch = NULL;
}

void
local_cell_drop(struct local *l)
{
    stop_timers(&l->cell);
    free(l->cell.reason);
    memset(&l->cell, 0, sizeof(l->cell));
    l->cell_active = false;
}

/* Tells the caller; the cell is forgotten before, so that the next can begin.
 */
static void
report(struct local *l, enum sandbox_end end, struct sandbox_outcome *outcome,
       const struct error *err)
{
    struct sandbox_cell_handlers on = l->cell.on;
    void *ctx = l->cell.ctx;
    AUTO_FREE char *reason = take_ptr(&l->cell.reason);

    outcome->reason = reason;
    outcome->output_dropped_bytes = (int64_t)l->cell.show.n_dropped;
    local_cell_drop(l);
    on.on_done(ctx, end, outcome, err);
}

static void
set_reason(struct local *l, const char *text)
{
    free(l->cell.reason);
    l->cell.reason = xstrdup(text);
}

static void
set_stop_reason(struct local *l)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REASON);
    switch (l->cell.stop) {
    case EVENT_TIMEOUT:
        sbuf_add_str(&sb, "Stopped after ");
        str_add_duration(&sb, l->cell.timeout_ms);
        break;
    case EVENT_OUTPUT_LIMIT:
        sbuf_add_str(&sb, "Stopped: it printed or showed more than is kept");
        break;
    case EVENT_DISK_LIMIT:
        sbuf_add_str(&sb, "Stopped: the disk is nearly full, or the workspace "
                          "has grown too large");
        break;
    case EVENT_MEMORY:
        sbuf_add_str(&sb, "Stopped at the memory limit of ");
        str_add_mib(&sb, l->limits.memory_bytes);
        break;
    case EVENT_INTERRUPTED:
    case EVENT_OK:
    case EVENT_FAILED:
    case EVENT_KILLED:
    case EVENT_DIED:
    case EVENT_LIMIT:
        sbuf_add_str(&sb, "Stopped");
        break;
    }
    sbuf_add_str(&sb, "; variables are kept.");
    set_reason(l, sbuf_ok(&sb) ? sb.data : "Stopped; variables are kept.");
}

/* The kernel's own word for the end, against what was asked of it. Without an
   error a cell came to its end, though an interrupt may have changed what it
   did. A script that ends as a cell does has no status, so that it failed. */
static enum event_outcome
outcome_of(const struct local *l, const char *status, const struct cJSON *error)
{
    bool ok = !l->cell.is_script && str_eq(status, "ok");

    if (l->cell.stop != EVENT_OK && (!ok || l->cell.show.flooded))
        return l->cell.stop;
    if (l->cell.is_script)
        return EVENT_FAILED;
    return ok || (error == NULL && str_eq(status, "interrupted"))
               ? EVENT_OK
               : EVENT_FAILED;
}

static void
kill_leftovers(struct local *l)
{
    local_watchdog_kill_cell(l->child.child_pid, l->child.kernel_pid,
                             l->cell.started_ticks);
}

/* What is true of every end after which the interpreter lives on. */
static void
end_well(struct local *l, struct sandbox_outcome *outcome)
{
    if (outcome->outcome == EVENT_OK &&
        local_disk_is_overfull(l, l->cell.room.bytes)) {
        outcome->outcome = EVENT_DISK_LIMIT;
        set_reason(l, "It ran to its end, but the workspace has grown too "
                      "large: files should be deleted. Variables are kept.");
    } else if (outcome->outcome != EVENT_OK &&
               outcome->outcome != EVENT_FAILED) {
        set_stop_reason(l);
    }
    outcome->duration_ms = clock_now_ms() - l->cell.started_ms;
    /* What loads files again says nothing of the cells. */
    if (!l->cell.silent)
        deaths_forget(&l->deaths);
    if (l->cell.stop != EVENT_OK)
        kill_leftovers(l);
    local_set_state(l, LOCAL_IDLE);
    local_leftovers_watch(l, &l->cell.room);
    report(l, SANDBOX_DONE, outcome, NULL);
}

/* A script that was stopped may have taken care of the signal, and ended with
   0: it lacks a part all the same. */
static void
handle_script(struct local *l, const struct cJSON *event)
{
    const struct cJSON *error = json_get(event, "error");
    AUTO_FREE char *name =
        json_dup_string(error, "name", SANDBOX_MAX_NAME_BYTES);
    AUTO_FREE char *value =
        json_dup_string(error, "value", SANDBOX_MAX_VALUE_BYTES);
    int64_t status = json_int(event, "exit", -1);
    int64_t signo = json_int(event, "signal", 0);
    struct sandbox_outcome outcome = {
        .exit_status = status >= 0 && status <= MAX_STATUS ? (int)status : -1,
        .signal = signo > 0 && signo <= MAX_SIGNAL ? (int)signo : 0,
        .error_name = name,
        .error_value = value,
    };
    bool ok = outcome.exit_status == 0;

    if (outcome.signal == SIGKILL && l->cell.stop == EVENT_OK &&
        local_scope_oom_kills(l->scope) > l->cell.oom_kills)
        l->cell.stop = EVENT_MEMORY;
    if (l->cell.stop != EVENT_OK &&
        (!ok || l->cell.show.flooded || json_bool(event, "stopped", false)))
        outcome.outcome = l->cell.stop;
    else
        outcome.outcome = ok ? EVENT_OK : EVENT_FAILED;
    end_well(l, &outcome);
}

static void
handle_done(struct local *l, const struct cJSON *event)
{
    const struct cJSON *error = json_get(event, "error");
    const char *status = json_string(event, "status");
    struct sandbox_outcome outcome = {.exit_status = -1};
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *value = NULL;
    AUTO_FREE char *trace = NULL;
    AUTO_FREE char *hint = NULL;

    outcome.outcome = outcome_of(l, status, error);
    if (outcome.outcome != EVENT_OK) {
        outcome.error_name = name =
            json_dup_string(error, "name", SANDBOX_MAX_NAME_BYTES);
        outcome.error_value = value =
            json_dup_string(error, "value", SANDBOX_MAX_VALUE_BYTES);
        outcome.traceback = trace =
            json_dup_string(error, "traceback", SANDBOX_MAX_TRACE_BYTES);
        outcome.hint = hint =
            json_dup_string(error, "hint", SANDBOX_MAX_VALUE_BYTES);
    }
    end_well(l, &outcome);
}

/* The kernel runs no cell without its ticket, and only one of the two can get
   that: what is reported as not begun never begins. False: the kernel has it.
 */
static bool
take_ticket(const struct local *l)
{
    uint64_t id;

    return read(l->child.ticket_fds[0], &id, sizeof(id)) == (ssize_t)sizeof(id);
}

static void
offer_ticket(const struct local *l)
{
    uint64_t id = (uint64_t)l->cell.id;

    (void)take_ticket(l);
    if (write(l->child.ticket_fds[1], &id, sizeof(id)) != (ssize_t)sizeof(id))
        LOG_WARN("a ticket cannot be written");
}

/* Ends a cell that the kernel has not taken, and never will. */
static void
give_up(struct local *l)
{
    struct sandbox_outcome outcome = {
        .outcome = EVENT_INTERRUPTED,
        .exit_status = -1,
        .duration_ms = clock_now_ms() - l->cell.started_ms,
    };

    l->silent_ms += outcome.duration_ms;
    set_reason(l, "Stopped before it began; variables are kept.");
    local_set_state(l, LOCAL_IDLE);
    report(l, SANDBOX_DONE, &outcome, NULL);
}

void
local_cell_restarted(struct local *l, const struct error *err)
{
    struct sandbox_outcome outcome = {
        .outcome = l->cell.ending,
        .exit_status = -1,
        .duration_ms = l->cell.ended_ms - l->cell.started_ms,
        .variables_lost = true,
    };

    report(l, err != NULL ? SANDBOX_LOST : SANDBOX_RESTARTED, &outcome, err);
}

/* From a cell to the end of its interpreter. */
static void
lose(struct local *l, enum event_outcome how, const char *reason)
{
    stop_timers(&l->cell);
    l->cell.ending = how;
    l->cell.ended_ms = clock_now_ms();
    set_reason(l, reason);
}

void
local_cell_kill(struct local *l, enum event_outcome how, const char *reason)
{
    lose(l, how, reason);
    local_set_state(l, LOCAL_ENDING);
    local_bwrap_kill(&l->child);
}

static void
add_memory_reason(const struct local *l, struct sbuf *sb)
{
    sbuf_add_str(sb, "The interpreter was ended at the memory limit of ");
    str_add_mib(sb, l->limits.memory_bytes);
    sbuf_add_str(sb, ". " SANDBOX_LOST_TEXT);
}

void
local_cell_look_at_memory(struct local *l)
{
    if (l->cell_active && local_scope_oom_kills(l->scope) > l->cell.oom_kills)
        l->cell.hit_memory = true;
}

void
local_cell_died(struct local *l, const struct proc_exit *status)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REASON);
    local_cell_look_at_memory(l);
    if (l->cell.hit_memory) {
        add_memory_reason(l, &sb);
        lose(l, EVENT_MEMORY, sb.data);
        return;
    }
    sbuf_add_str(&sb, "The interpreter was ended (");
    local_death_add_end(&sb, status);
    sbuf_add_str(&sb, "). " SANDBOX_LOST_TEXT);
    lose(l, EVENT_DIED, sb.data);
}

/* --- stopping --- */

static void
handle_again(void *ctx)
{
    struct local *l = ctx;

    l->cell.again = NULL;
    local_bwrap_interrupt(&l->child);
    if (++l->cell.n_sigints == 2)
        l->cell.again =
            loop_add_timer(l->loop, THIRD_SIGINT_MS, handle_again, l);
}

static void handle_grace(void *ctx);

/* Ends what a script is, so that the interpreter lives on. */
static void
kill_script(struct local *l)
{
    l->cell.is_killed = true;
    kill_leftovers(l);
    l->cell.grace = loop_add_timer(l->loop, GRACE_MS, handle_grace, l);
}

static void
handle_grace(void *ctx)
{
    struct local *l = ctx;

    l->cell.grace = NULL;
    if (l->cell.is_script && l->cell.begun && !l->cell.is_killed) {
        kill_script(l);
        return;
    }
    local_enter(l);
    local_cell_kill(l, EVENT_KILLED,
                    l->cell.ask != NULL || l->cell.is_killed
                        ? "The interpreter did not answer, so "
                          "it was ended. " SANDBOX_LOST_TEXT
                    : l->cell.begun && l->cell.stop == EVENT_TIMEOUT
                        ? "The cell did not stop at its time limit, so the "
                          "interpreter was ended. " SANDBOX_LOST_TEXT
                    : l->cell.begun
                        ? "The cell did not stop when asked, so the "
                          "interpreter was ended. " SANDBOX_LOST_TEXT
                        : "The interpreter did not take the cell, so it was "
                          "ended. " SANDBOX_LOST_TEXT);
    local_leave(l);
}

static void
handle_give_up(void *ctx)
{
    struct local *l = ctx;

    l->cell.grace = NULL;
    local_enter(l);
    give_up(l);
    local_leave(l);
}

/* Asks a cell that runs. */
static void
interrupt(struct local *l)
{
    loop_timer_remove(l->cell.grace);
    local_bwrap_interrupt(&l->child);
    /* A crowd that spins leaves the interpreter no time to end the cell. */
    if (local_watchdog_count(l->child.child_pid) >
        (size_t)l->limits.processes / 2)
        kill_leftovers(l);
    l->cell.n_sigints = 1;
    l->cell.again = loop_add_timer(l->loop, SECOND_SIGINT_MS, handle_again, l);
    l->cell.grace = loop_add_timer(l->loop, GRACE_MS, handle_grace, l);
}

void
local_cell_stop(struct local *l, enum event_outcome why)
{
    int64_t waited_ms = clock_now_ms() - l->cell.started_ms;
    int64_t wait_ms = waited_ms < BEGIN_MS ? BEGIN_MS - waited_ms : 0;

    if (l->state != LOCAL_RUNNING)
        return;
    l->cell.stop = why;
    local_set_state(l, LOCAL_INTERRUPTING);
    loop_timer_remove(l->cell.timeout);
    l->cell.timeout = NULL;
    if (l->cell.begun)
        interrupt(l);
    else if (why != EVENT_INTERRUPTED)
        l->cell.grace = loop_add_timer(l->loop, wait_ms, handle_grace, l);
    else if (!take_ticket(l)) /* it begins now */
        l->cell.grace = loop_add_timer(l->loop, GRACE_MS, handle_grace, l);
    else
        /* The caller is told from the loop. */
        l->cell.grace = loop_add_timer(l->loop, 0,
                                       l->silent_ms + waited_ms > MAX_SILENT_MS
                                           ? handle_grace
                                           : handle_give_up,
                                       l);
}

void
local_cell_hurry(struct local *l)
{
    if (l->cell.grace == NULL || !l->cell.begun)
        return;
    loop_timer_remove(l->cell.grace);
    l->cell.grace = loop_add_timer(l->loop, 0, handle_grace, l);
}

static void
handle_timeout(void *ctx)
{
    struct local *l = ctx;
    int64_t waited_ms = clock_now_ms() - l->cell.started_ms;

    l->cell.timeout = NULL;
    if (l->cell.begun || waited_ms >= BEGIN_MS)
        local_cell_stop(l, EVENT_TIMEOUT);
    else
        l->cell.timeout =
            loop_add_timer(l->loop, BEGIN_MS - waited_ms, handle_timeout, l);
}

/* The time that the interpreter took before is not the cell's. */
static void
handle_begin(struct local *l)
{
    l->cell.begun = true;
    l->silent_ms = 0;
    if (l->state == LOCAL_INTERRUPTING) {
        interrupt(l);
    } else if (l->cell.timeout != NULL) {
        loop_timer_remove(l->cell.timeout);
        l->cell.timeout =
            loop_add_timer(l->loop, l->cell.timeout_ms, handle_timeout, l);
    }
    l->cell.on.on_begin(l->cell.ctx);
}

static void
on_flood(void *owner)
{
    local_cell_stop(owner, EVENT_OUTPUT_LIMIT);
}

static bool
is_open(void *owner)
{
    const struct local *l = owner;

    return !l->dead && l->cell_active;
}

static void
kill_for_memory(struct local *l)
{
    AUTO_SBUF struct sbuf sb = {0};

    /* What a script has is free soon after it was killed. */
    if (l->cell.is_script && l->cell.begun &&
        l->cell.n_over++ < SCRIPT_MEMORY_LOOKS) {
        local_cell_stop(l, EVENT_MEMORY);
        loop_timer_remove(l->cell.grace);
        kill_script(l);
        return;
    }
    sbuf_init(&sb, MAX_REASON);
    add_memory_reason(l, &sb);
    local_cell_kill(l, EVENT_MEMORY, sb.data);
}

static void
handle_watch(void *ctx)
{
    struct local *l = ctx;

    l->cell.watch = NULL;
    local_enter(l);
    if (local_watchdog_over_memory(l->child.child_pid, l->limits.memory_bytes))
        kill_for_memory(l);
    else if (local_disk_is_short(l, &l->cell.room))
        local_cell_stop(l, EVENT_DISK_LIMIT);
    if (l->state != LOCAL_ENDING)
        l->cell.watch =
            loop_add_timer(l->loop, LOCAL_WATCH_MS, handle_watch, l);
    local_leave(l);
}

/* --- what it shows --- */

void
local_cell_text(struct local *l, enum event_stream stream, const char *data,
                size_t len)
{
    kernel_show_text(&l->cell.show, stream, data, len);
}

static void
note(struct local *l, const char *kind, const char *text)
{
    l->cell.on.on_note(l->cell.ctx, kind, text);
}

bool
local_cell_event(struct local *l, const struct cJSON *event, size_t len)
{
    const char *name = json_string(event, "ev");

    if (!l->cell_active || l->state == LOCAL_ENDING || name == NULL ||
        json_int(event, "id", -1) != l->cell.id)
        return false;
    if (l->cell.ask != NULL) {
        if (strcmp(name, l->cell.ask->op) != 0)
            return false;
        local_ask_answer(l, event);
        return true;
    }
    if (l->cell.is_script && strcmp(name, "script") == 0) {
        handle_script(l, event);
        return true;
    }
    if (strcmp(name, "done") == 0) {
        handle_done(l, event);
        return true;
    }
    if (strcmp(name, "begin") == 0) {
        if (l->cell.begun)
            return false;
        handle_begin(l);
        return true;
    }
    if (l->cell.is_script)
        return false;
    kernel_show_event(&l->cell.show, event, len);
    return true;
}

/* --- start --- */

static void
send_cell(struct local *l, const struct sandbox_cell *cell)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_REQUEST);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "exec");
    json_add_member_int(&sb, "id", l->cell.id);
    json_add_key(&sb, "code");
    json_add_string(&sb, cell->code, cell->code_len);
    json_add_member_bool(&sb, "silent", cell->silent);
    json_add_member_int(&sb, "cell", cell->number);
    sbuf_add_str(&sb, "}\n");
    local_link_send(l->link, sb.data, sb.len);
}

/* What went on between the cells: that something went on computing until it
   was suspended, and bytes of processes that earlier cells left behind. */
static void
tell_of_before(struct local *l)
{
    AUTO_SBUF struct sbuf text = {0};

    if (l->was_busy) {
        l->was_busy = false;
        note(l, "idle",
             "Something was still computing when the sandbox was suspended; it "
             "goes on now.");
    }
    if (l->later.len == 0 || !l->cell_active)
        return;
    sbuf_init(&text, LOCAL_MAX_LATER_BYTES);
    sbuf_add(&text, l->later.data, l->later.len);
    sbuf_clear(&l->later);
    note(l, "later", text.data);
}

/* What holds for a cell and for any other request. */
static void
begin(struct local *l, int64_t timeout_ms)
{
    struct local_cell *c = &l->cell;

    c->show = (struct kernel_show){.on = &c->on,
                                   .ctx = c->ctx,
                                   .output_bytes = l->limits.output_bytes,
                                   .on_flood = on_flood,
                                   .is_open = is_open,
                                   .owner = l};
    local_link_release(l->link);
    c->id = ++l->next_id;
    c->started_ms = clock_now_ms();
    c->started_ticks = local_watchdog_now();
    c->oom_kills = local_scope_oom_kills(l->scope);
    c->timeout_ms = timeout_ms < 0 ? l->limits.cell_ms : timeout_ms;
    c->room = local_disk_room(l);
    l->cell_active = true;
    l->fresh = false;
    l->n_unasked = 0;
    local_set_state(l, LOCAL_RUNNING);
    if (c->timeout_ms > 0)
        c->timeout = loop_add_timer(l->loop, c->timeout_ms, handle_timeout, l);
    c->watch = loop_add_timer(l->loop, LOCAL_WATCH_MS, handle_watch, l);
}

void
local_cell_run(struct local *l, const struct sandbox_cell *cell,
               const struct sandbox_cell_handlers *on, void *ctx)
{
    memset(&l->cell, 0, sizeof(l->cell));
    l->cell.on = *on;
    l->cell.ctx = ctx;
    l->cell.silent = cell->silent;
    begin(l, cell->timeout_ms);
    offer_ticket(l);
    send_cell(l, cell);
    if (!cell->silent) {
        tell_of_before(l);
        local_leftovers_tell(l);
    }
}

void
local_cell_run_script(struct local *l, int64_t timeout_ms,
                      const struct sandbox_cell_handlers *on, void *ctx,
                      const char *line, size_t len)
{
    memset(&l->cell, 0, sizeof(l->cell));
    l->cell.on = *on;
    l->cell.ctx = ctx;
    l->cell.is_script = true;
    begin(l, timeout_ms);
    offer_ticket(l);
    local_link_send(l->link, line, len);
}

void
local_cell_ask(struct local *l, const struct local_ask *ask, const char *line,
               size_t len)
{
    memset(&l->cell, 0, sizeof(l->cell));
    l->cell.ask = ask;
    l->cell.begun = true;
    begin(l, -1);
    local_link_send(l->link, line, len);
}

void
local_cell_answered(struct local *l)
{
    if (l->cell.stop != EVENT_OK)
        kill_leftovers(l);
    local_leftovers_watch(l, &l->cell.room);
    local_cell_drop(l);
    local_set_state(l, LOCAL_IDLE);
}
