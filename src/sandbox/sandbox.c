/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"

#define LOG_MODULE "sandbox"

/* --- life --- */

static void
destroy(struct sandbox *sb)
{
    for (size_t i = 0; i < sb->n_loaded; i++) {
        free(sb->loaded[i].path);
        free(sb->loaded[i].name);
        free(sb->loaded[i].variable);
        free(sb->loaded[i].setup);
    }
    free(sb->loaded);
    free(sb->put_name);
    free(sb->idle_loss);
    sbuf_fini(&sb->loaded_again.text);
    sbuf_fini(&sb->not_loaded.text);
    sbuf_fini(&sb->changed.text);
    sandbox_replay_fini(sb);
    free(sb);
}

void
sandbox_enter(struct sandbox *sb)
{
    sb->depth++;
}

bool
sandbox_exit(struct sandbox *sb)
{
    sb->depth--;
    if (!sb->dead)
        return true;
    if (sb->depth == 0)
        destroy(sb);
    return false;
}

void
sandbox_drop_all(struct sandbox *sb)
{
    loop_task_remove(sb->pump);
    sb->pump = NULL;
    loop_timer_remove(sb->idle_timer);
    sb->idle_timer = NULL;
    while (sb->first != NULL) {
        struct sandbox_op *op = sb->first;

        sb->first = op->next;
        sandbox_free_op(op);
    }
    sb->last = &sb->first;
    sandbox_free_op(take_ptr(&sb->restored_op));
    sandbox_free_op(take_ptr(&sb->restart_op));
    sandbox_restore_fini(sb);
}

void
sandbox_free(struct sandbox *sb)
{
    if (sb == NULL)
        return;
    if (sb->backend != NULL)
        sb->backend->ops->close(sb->backend);
    sb->backend = NULL;
    sandbox_drop_all(sb);
    sandbox_retire_fini(sb);
    if (sb->depth > 0)
        sb->dead = true;
    else
        destroy(sb);
}

/* --- the queue --- */

/* The running one, which has ended: the next may begin. */
static struct sandbox_op *
finish_first(struct sandbox *sb)
{
    struct sandbox_op *op = sb->first;

    assert(op != NULL && op->running);
    sandbox_remove_op(sb, op);
    if (sb->state == SANDBOX_BUSY)
        sb->state = SANDBOX_IDLE;
    sandbox_schedule(sb);
    return op;
}

/* One that waits, or a switch: nothing of this back end's runs for that. */
static bool
can_end(const struct sandbox_op *op)
{
    if (op->running && op->kind != SANDBOX_OP_SWITCH)
        return false;
    return op->cancelled || op->why.code != ERR_NONE;
}

static bool
end_cancelled(struct sandbox *sb)
{
    struct sandbox_op *op = sb->first;

    while (op != NULL) {
        struct error err = op->why;

        if (!can_end(op)) {
            op = op->next;
            continue;
        }
        if (err.code == ERR_NONE)
            error_fill(&err, ERR_CANCELLED, "cancelled");
        sandbox_remove_op(sb, op);
        /* What waited behind a switch needs the old one after all. */
        sb->wanted |= sb->first != NULL;
        if (!sandbox_end_op(op, SANDBOX_ERROR, NULL, &err))
            return false;
        op = sb->first;
    }
    return true;
}

/* --- opening --- */

void
sandbox_tell_progress(void *ctx, const char *what)
{
    struct sandbox *sb = ctx;

    sandbox_enter(sb);
    if (sb->on_progress != NULL)
        sb->on_progress(sb->on_progress_ctx, what);
    sandbox_exit(sb);
}

/* Everything that waited for it ends as well; but a switch, and what is behind
   that, waits for another one. */
static bool
fail_waiting(struct sandbox *sb)
{
    struct error why = sb->why;
    struct sandbox_op *op = sb->first;
    struct sandbox_op **p = &sb->first;

    while (*p != NULL && (*p)->kind != SANDBOX_OP_SWITCH)
        p = &(*p)->next;
    if (p == &sb->first)
        return true;
    sb->first = *p;
    *p = NULL;
    if (sb->first == NULL)
        sb->last = &sb->first;
    sandbox_enter(sb);
    while (op != NULL) {
        struct sandbox_op *next = op->next;

        if (sb->dead)
            sandbox_free_op(op);
        else
            sandbox_end_op(op, SANDBOX_ERROR, NULL, &why);
        op = next;
    }
    return sandbox_exit(sb);
}

static void
handle_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;
    bool ok = end == SANDBOX_DONE;

    sandbox_enter(sb);
    sb->state = ok ? SANDBOX_IDLE : SANDBOX_FAILED;
    sb->wanted = ok;
    sb->why = err != NULL ? *err : (struct error){0};
    sb->has_opened |= ok;
    sandbox_note_files(sb, NULL);
    if (sb->on_open != NULL)
        sb->on_open(sb->on_open_ctx, end, err);
    if (ok) {
        sb->used = false;
        sb->n_cells = 0;
    }
    if (!sb->dead && !ok)
        sandbox_restart_end(sb, &sb->why);
    if (!sb->dead && !ok)
        fail_waiting(sb);
    if (!sb->dead)
        sandbox_schedule(sb);
    sandbox_exit(sb);
}

/* --- running --- */

static void
handle_done(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox_op *op = ctx;

    finish_first(op->sb);
    sandbox_end_op(op, end, NULL, err);
}

static void
handle_list(void *ctx, const struct sandbox_list *list, const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;

    finish_first(sb);
    sandbox_enter(sb);
    op->list_done(op->ctx, list, err);
    sandbox_free_op(op);
    sandbox_exit(sb);
}

static void
handle_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;

    finish_first(sb);
    sandbox_enter(sb);
    op->vars_done(op->ctx, vars, err);
    sandbox_free_op(op);
    sandbox_exit(sb);
}

static void
handle_saved(void *ctx, const struct sandbox_saved *saved,
             const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;

    finish_first(sb);
    sandbox_enter(sb);
    op->saved_done(op->ctx, saved, err);
    sandbox_free_op(op);
    sandbox_exit(sb);
}

static void
handle_put_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct sandbox_op *op = ctx;

    if (op->progress != NULL)
        op->progress(op->ctx, done_bytes, total_bytes);
}

static void
handle_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct sandbox_op *op = ctx;

    if (op->on.on_bytes != NULL)
        op->on.on_bytes(op->ctx, stream, data, len);
}

static void
handle_begin(void *ctx)
{
    struct sandbox_op *op = ctx;

    if (op->on.on_begin != NULL)
        op->on.on_begin(op->ctx);
}

static void
handle_output(void *ctx, const struct output *out)
{
    struct sandbox_op *op = ctx;

    if (op->on.on_output != NULL)
        op->on.on_output(op->ctx, out);
}

static void
handle_note(void *ctx, const char *kind, const char *text)
{
    struct sandbox_op *op = ctx;

    if (op->on.on_note != NULL)
        op->on.on_note(op->ctx, kind, text);
}

/* A cell that ran well in an interpreter that had to be made anew before it. */
static void
end_after_idle_loss(struct sandbox *sb, struct sandbox_op *op,
                    const struct sandbox_outcome *outcome)
{
    struct sandbox_outcome told = *outcome;
    AUTO_FREE char *loss = take_ptr(&sb->idle_loss);
    AUTO_FREE char *both = NULL;

    if (outcome->reason != NULL)
        both = xasprintf("%s %s", loss, outcome->reason);
    sb->loss_is_late = false;
    told.variables_lost = true;
    told.reason = both != NULL ? both : loss;
    sandbox_end_op(op, SANDBOX_RESTARTED, &told, NULL);
}

static void
handle_cell_done(void *ctx, enum sandbox_end end,
                 const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox_op *op = ctx;
    struct sandbox *sb = op->sb;

    finish_first(sb);
    sandbox_note_files(sb, outcome);
    if (op->cell.number > 0 && !op->cell.silent && !op->is_replayed)
        sandbox_log_add(sb, op,
                        end == SANDBOX_DONE && outcome->outcome == EVENT_OK);
    if (end == SANDBOX_RESTARTED || end == SANDBOX_LOST)
        sb->lost_cell = sb->last_cell;
    if (end == SANDBOX_RESTARTED) {
        free(take_ptr(&sb->idle_loss));
        sb->loss_is_late = sb->loss_is_asked = false;
        sb->n_cells = 0;
        sandbox_restore_begin(sb, op, outcome);
        return;
    }
    if (end == SANDBOX_LOST) {
        sb->state = SANDBOX_NEW;
        sb->wanted = sb->first != NULL;
        sb->restore_needed = true;
    }
    if (end == SANDBOX_DONE && sb->idle_loss != NULL && !sb->loss_is_asked &&
        op->kind == SANDBOX_OP_CELL && !op->cell.silent && !op->is_late &&
        !op->is_replayed)
        end_after_idle_loss(sb, op, outcome);
    else
        sandbox_end_op(op, end, outcome, err);
}

static const struct sandbox_cell_handlers cell_handlers = {
    .on_begin = handle_begin,
    .on_bytes = handle_bytes,
    .on_output = handle_output,
    .on_note = handle_note,
    .on_done = handle_cell_done,
};

static void
run_op(struct sandbox *sb, struct sandbox_op *op)
{
    const struct sandbox_ops *ops = sb->backend->ops;

    op->running = true;
    op->started_ms = clock_now_ms();
    if (sb->state == SANDBOX_IDLE || sb->state == SANDBOX_SUSPENDED)
        sb->state = SANDBOX_BUSY;
    switch (op->kind) {
    case SANDBOX_OP_PUT:
        ops->put(sb->backend, &op->put, handle_put_progress, handle_done, op);
        break;
    case SANDBOX_OP_CELL:
        sb->used = true;
        sb->n_cells += !op->cell.silent;
        if (op->cell.number > sb->last_cell)
            sb->last_cell = op->cell.number;
        sb->workspace += op->is_replayed;
        ops->run_cell(sb->backend, &op->cell, &cell_handlers, op);
        break;
    case SANDBOX_OP_SCRIPT:
        sb->used = true;
        ops->run_script(sb->backend, &op->script, &cell_handlers, op);
        break;
    case SANDBOX_OP_LIST:
        ops->list(sb->backend, handle_list, op);
        break;
    case SANDBOX_OP_GET:
        ops->get(sb->backend, op->name, op->fd, op->offset, op->limit,
                 handle_done, op);
        break;
    case SANDBOX_OP_VARS:
        ops->vars(sb->backend, handle_vars, op);
        break;
    case SANDBOX_OP_SNAPSHOT:
        ops->snapshot(sb->backend, op->fd, handle_saved, op);
        break;
    case SANDBOX_OP_RESTORE:
        sb->used = true;
        ops->restore(sb->backend, op->fd, handle_saved, op);
        break;
    case SANDBOX_OP_RESTART:
        sandbox_restart_begin(sb, op);
        break;
    case SANDBOX_OP_SWITCH:
        assert(false);
        break;
    }
}

static void
advance(struct sandbox *sb)
{
    struct sandbox_op *op = sb->first;

    if ((op != NULL && op->running) || sb->idle_runs)
        return;
    if (op != NULL && sandbox_can_switch(sb, op)) {
        sandbox_switch_begin(op);
        return;
    }
    switch (sb->state) {
    case SANDBOX_NEW:
    case SANDBOX_FAILED:
        if (!sb->wanted)
            return;
        /* What is there from the start need not come in later. */
        if (op != NULL && op->kind == SANDBOX_OP_PUT && !sb->has_opened &&
            sb->backend->caps.puts_early) {
            run_op(sb, op);
            return;
        }
        sb->state = SANDBOX_OPENING;
        sb->backend->ops->open(sb->backend, sandbox_tell_progress, handle_open,
                               sb);
        return;
    case SANDBOX_OPENING:
        return;
    case SANDBOX_IDLE:
        /* What a restart brings back need not be brought back before it. */
        if (sb->restore_needed &&
            (op == NULL || op->kind != SANDBOX_OP_RESTART))
            sandbox_restore_begin(sb, NULL, NULL);
        else if (op != NULL)
            run_op(sb, op);
        return;
    case SANDBOX_BUSY:
        if (sb->restoring)
            sandbox_restore_step(sb);
        return;
    case SANDBOX_SUSPENDED:
        /* What is stopped can be ended as it is. */
        if (op != NULL && op->kind == SANDBOX_OP_RESTART && sb->used)
            run_op(sb, op);
        else if (op != NULL)
            sandbox_idle_resume(sb);
        return;
    }
}

static void
handle_pump(void *ctx)
{
    struct sandbox *sb = ctx;

    sb->pump = NULL;
    sandbox_enter(sb);
    if (end_cancelled(sb) && !sb->dead) {
        /* A loss in the middle of it ends it, too. */
        if (sb->restoring && sb->state != SANDBOX_BUSY)
            sandbox_restore_end(sb);
        if (!sb->dead)
            advance(sb);
        if (!sb->dead)
            sandbox_idle_update(sb);
    }
    sandbox_exit(sb);
}

void
sandbox_schedule(struct sandbox *sb)
{
    if (sb->pump == NULL && !sb->dead)
        sb->pump = loop_defer(sb->loop, handle_pump, sb);
}

/* --- what is lost --- */

const char *
sandbox_lost_text(const struct sandbox *sb)
{
    return sb->files_gone ? SANDBOX_FILES_LOST_TEXT : SANDBOX_LOST_TEXT;
}

const char *
sandbox_gone_text(const struct sandbox *sb)
{
    return sb->files_gone ? "variables, imports and the files in /workspace "
                            "are gone; loaded files are put there again"
                          : "variables and imports are gone";
}

/* That the files are gone, too, may be found out later. */
static void
mend_loss(struct sandbox *sb)
{
    AUTO_FREE char *old = sb->idle_loss;
    const char *at = old != NULL ? strstr(old, SANDBOX_LOST_TEXT) : NULL;

    if (at == NULL) {
        (void)take_ptr(&old);
        return;
    }
    sb->idle_loss =
        xasprintf("%.*s%s%s", (int)(at - old), old, SANDBOX_FILES_LOST_TEXT,
                  at + strlen(SANDBOX_LOST_TEXT));
}

void
sandbox_note_files(struct sandbox *sb, const struct sandbox_outcome *outcome)
{
    bool gone =
        sb->backend->files_lost || (outcome != NULL && outcome->files_lost);

    sb->backend->files_lost = false;
    if (!gone)
        return;
    sandbox_miss_files(sb);
    sb->restore_needed = true;
    mend_loss(sb);
}

void
sandbox_lose(struct sandbox *sb, const struct error *err)
{
    AUTO_FREE char *text = NULL;

    LOG_WARN("%s", err->msg);
    sandbox_note_files(sb, NULL);
    text = xasprintf("%s; %s", err->msg, sandbox_gone_text(sb));
    sandbox_set_loss(sb, xasprintf(SANDBOX_BEFORE "%s. %s", err->msg,
                                   sandbox_lost_text(sb)));
    sb->lost_cell = sb->last_cell;
    sb->restore_needed = true;
    sb->state = SANDBOX_NEW;
    sb->wanted = sb->first != NULL;
    sandbox_schedule(sb);
    sandbox_enter(sb);
    if (sb->on_late != NULL && sb->last_cell > 0)
        sb->on_late(sb->on_late_ctx, 0, text);
    sandbox_exit(sb);
}

/* The interpreter is known to be gone, and now its files are. */
static void
lose_files(struct sandbox *sb, const struct error *err)
{
    bool is_news = sb->backend->files_lost && !sb->files_gone;
    AUTO_FREE char *text =
        xasprintf("%s; the files in /workspace are gone, too; loaded files "
                  "are put there again",
                  err->msg);

    sandbox_note_files(sb, NULL);
    sandbox_enter(sb);
    if (is_news && sb->on_late != NULL && sb->last_cell > 0)
        sb->on_late(sb->on_late_ctx, 0, text);
    sandbox_exit(sb);
}

static void
handle_lost(void *ctx, const struct error *err)
{
    struct sandbox *sb = ctx;

    if (sb->state == SANDBOX_NEW)
        lose_files(sb, err);
    else
        sandbox_lose(sb, err);
}

void
sandbox_tell_left(void *ctx, const char *text)
{
    const struct sandbox *sb = ctx;

    if (sb->on_left != NULL)
        sb->on_left(sb->on_left_ctx, text);
}

void
sandbox_adopt(struct sandbox *sb, struct sandbox_backend *backend)
{
    sb->backend = backend;
    backend->on_lost = handle_lost;
    backend->on_lost_ctx = sb;
    backend->on_runaway = sandbox_idle_suspend;
    backend->on_left = sandbox_tell_left;
}

/* --- for the callers --- */

struct sandbox *
sandbox_new(struct loop *loop, struct sandbox_backend *backend,
            const struct sandbox_limits *limits)
{
    struct sandbox *sb = xcalloc(1, sizeof(*sb));

    sb->loop = loop;
    sandbox_adopt(sb, backend);
    sb->last = &sb->first;
    sb->restore_fd = -1;
    sandbox_restore_init(sb);
    if (limits != NULL)
        sb->limits = *limits;
    if (sb->limits.cell_ms <= 0)
        sb->limits.cell_ms = SANDBOX_CELL_MS;
    if (sb->limits.idle_suspend_ms == 0)
        sb->limits.idle_suspend_ms = SANDBOX_IDLE_SUSPEND_MS;
    return sb;
}

const struct sandbox_caps *
sandbox_caps(const struct sandbox *sb)
{
    return &sb->backend->caps;
}

void
sandbox_open(struct sandbox *sb)
{
    sb->wanted = true;
    sandbox_schedule(sb);
}

enum sandbox_state
sandbox_state(const struct sandbox *sb)
{
    return sb->state;
}

unsigned
sandbox_workspace(const struct sandbox *sb)
{
    return sb->workspace;
}

int
sandbox_lost_cell(const struct sandbox *sb)
{
    return sb->lost_cell;
}

const struct error *
sandbox_why(const struct sandbox *sb)
{
    return sb->state == SANDBOX_FAILED ? &sb->why : NULL;
}

void
sandbox_on_open(struct sandbox *sb, sandbox_done_fn fn, void *ctx)
{
    sb->on_open = fn;
    sb->on_open_ctx = ctx;
}

void
sandbox_on_left(struct sandbox *sb, void (*fn)(void *ctx, const char *text),
                void *ctx)
{
    sb->on_left = fn;
    sb->on_left_ctx = ctx;
}

void
sandbox_on_progress(struct sandbox *sb, void (*fn)(void *ctx, const char *what),
                    void *ctx)
{
    sb->on_progress = fn;
    sb->on_progress_ctx = ctx;
}

/* As it was when it was put; the path may lead to another one by now. */
static struct sandbox_mark
mark_of_loaded(const struct sandbox *sb, const char *path, const char *name)
{
    struct sandbox_mark mark = {0};
    AUTO_CLOSE int fd = -1;

    if (str_eq(sb->put_name, name))
        return sb->put_mark;
    fd = open(path, O_PATH | O_CLOEXEC);
    (void)sandbox_mark_of(fd, &mark);
    return mark;
}

void
sandbox_add_loaded(struct sandbox *sb, const char *path, const char *name,
                   const char *variable, const char *setup)
{
    struct sandbox_loaded *file = NULL;

    /* Loaded anew: only the last one has the variable. */
    for (size_t i = 0; i < sb->n_loaded; i++) {
        if (strcmp(sb->loaded[i].variable, variable) != 0)
            continue;
        free(sb->loaded[i].setup);
        sb->loaded[i].setup = NULL;
        if (strcmp(sb->loaded[i].name, name) == 0)
            file = &sb->loaded[i];
    }
    if (file == NULL) {
        sb->loaded =
            xreallocarray(sb->loaded, sb->n_loaded + 1, sizeof(sb->loaded[0]));
        file = &sb->loaded[sb->n_loaded++];
        memset(file, 0, sizeof(*file));
    }
    free(file->path);
    free(file->name);
    free(file->variable);
    free(file->setup);
    file->path = xstrdup(path);
    file->name = xstrdup(name);
    file->variable = xstrdup(variable);
    file->setup = xstrdup(setup);
    file->mark = mark_of_loaded(sb, path, name);
    file->changed = file->missing = false;
}

const struct sandbox_loaded *
sandbox_loaded(const struct sandbox *sb, size_t *n)
{
    *n = sb->n_loaded;
    return sb->loaded;
}
