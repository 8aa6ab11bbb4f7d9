/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/loop.h"

/* A copy of a NULL-terminated list; NULL stays NULL. */
static const char *const *
copy_words(const char *const *words)
{
    const char **copy;
    size_t n = 0;

    if (words == NULL)
        return NULL;
    while (words[n] != NULL)
        n++;
    copy = xcalloc(n + 1, sizeof(copy[0]));
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(words[i]);
    return copy;
}

static void
free_words(const char *const *words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        free_const(words[i]);
    free_const(words);
}

static void
free_script(struct sandbox_script *script)
{
    for (size_t i = 0; i < script->n_files; i++) {
        free_const(script->files[i].name);
        free_const(script->files[i].data);
    }
    free_const(script->files);
    free_const(script->dir);
    free_words(script->argv);
    free_words(script->env);
}

static void
copy_script(struct sandbox_script *to, const struct sandbox_script *from)
{
    struct sandbox_script_file *files =
        xcalloc(from->n_files + 1, sizeof(files[0]));

    *to = *from;
    for (size_t i = 0; i < from->n_files; i++) {
        files[i].name = xstrdup(from->files[i].name);
        files[i].len = from->files[i].len;
        files[i].data =
            xstrndup(files[i].len > 0 ? from->files[i].data : "", files[i].len);
    }
    to->files = files;
    to->dir = xstrdup(from->dir);
    to->argv = copy_words(from->argv);
    to->env = copy_words(from->env);
}

void
sandbox_free_op(struct sandbox_op *op)
{
    if (op == NULL)
        return;
    loop_timer_remove(op->patience);
    free_const(op->put.path);
    free_const(op->put.name);
    free_const(op->cell.code);
    free_const(op->cell.language);
    free_script(&op->script);
    sandbox_retire_backend(op->sb, op->next_backend);
    free(op->name);
    free(op);
}

static struct sandbox_op *
add_op(struct sandbox *sb, enum sandbox_op_kind kind, void *ctx)
{
    struct sandbox_op *op = xcalloc(1, sizeof(*op));

    op->sb = sb;
    op->kind = kind;
    op->ctx = ctx;
    op->fd = -1;
    *sb->last = op;
    sb->last = &op->next;
    sb->wanted = true;
    sandbox_schedule(sb);
    return op;
}

void
sandbox_remove_op(struct sandbox *sb, struct sandbox_op *op)
{
    struct sandbox_op **p = &sb->first;

    while (*p != op)
        p = &(*p)->next;
    *p = op->next;
    if (sb->last == &op->next)
        sb->last = p;
    op->next = NULL;
}

bool
sandbox_end_op(struct sandbox_op *op, enum sandbox_end end,
               const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox *sb = op->sb;

    sandbox_enter(sb);
    switch (op->kind) {
    case SANDBOX_OP_CELL:
    case SANDBOX_OP_SCRIPT:
        sandbox_keep_own_loss(op, outcome, err);
        op->on.on_done(op->ctx, end, outcome, err);
        break;
    case SANDBOX_OP_LIST:
        op->list_done(op->ctx, NULL, err);
        break;
    case SANDBOX_OP_VARS:
        op->vars_done(op->ctx, NULL, err);
        break;
    case SANDBOX_OP_SNAPSHOT:
    case SANDBOX_OP_RESTORE:
        op->saved_done(op->ctx, NULL, err);
        break;
    case SANDBOX_OP_PUT:
    case SANDBOX_OP_GET:
    case SANDBOX_OP_RESTART:
    case SANDBOX_OP_SWITCH:
        op->done(op->ctx, end, err);
        break;
    }
    sandbox_free_op(op);
    return sandbox_exit(sb);
}

/* --- for the callers --- */

struct sandbox_op *
sandbox_put(struct sandbox *sb, const struct sandbox_put *put,
            sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_PUT, ctx);

    op->put = *put;
    op->put.path = xstrdup(put->path);
    op->put.name = xstrdup(put->name);
    free(sb->put_name);
    sb->put_name = xstrdup(put->name);
    if (!sandbox_mark_of(put->fd, &sb->put_mark))
        free(take_ptr(&sb->put_name));
    op->progress = progress;
    op->done = done;
    return op;
}

struct sandbox_op *
sandbox_run_cell(struct sandbox *sb, const struct sandbox_cell *cell,
                 const struct sandbox_cell_handlers *on, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_CELL, ctx);

    op->cell = *cell;
    op->cell.code = xstrndup(cell->code, cell->code_len);
    op->cell.language = xstrdup(cell->language);
    if (cell->timeout_ms < 0)
        op->cell.timeout_ms = sb->limits.cell_ms;
    op->on = *on;
    return op;
}

struct sandbox_op *
sandbox_run_script(struct sandbox *sb, const struct sandbox_script *script,
                   const struct sandbox_cell_handlers *on, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_SCRIPT, ctx);

    copy_script(&op->script, script);
    if (script->timeout_ms < 0)
        op->script.timeout_ms = sb->limits.cell_ms;
    op->on = *on;
    return op;
}

struct sandbox_op *
sandbox_list_files(struct sandbox *sb, sandbox_list_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_LIST, ctx);

    op->list_done = done;
    return op;
}

struct sandbox_op *
sandbox_get(struct sandbox *sb, const char *name, int fd, off_t offset,
            off_t limit, sandbox_done_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_GET, ctx);

    op->name = xstrdup(name);
    op->fd = fd;
    op->offset = offset;
    op->limit = limit;
    op->done = done;
    return op;
}

struct sandbox_op *
sandbox_list_vars(struct sandbox *sb, sandbox_vars_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_VARS, ctx);

    op->vars_done = done;
    return op;
}

struct sandbox_op *
sandbox_snapshot(struct sandbox *sb, int fd, sandbox_saved_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_SNAPSHOT, ctx);

    op->fd = fd;
    op->saved_done = done;
    return op;
}

struct sandbox_op *
sandbox_restore(struct sandbox *sb, int fd, sandbox_saved_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_RESTORE, ctx);

    op->fd = fd;
    op->saved_done = done;
    return op;
}

struct sandbox_op *
sandbox_restart(struct sandbox *sb, sandbox_done_fn done, void *ctx)
{
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_RESTART, ctx);

    op->done = done;
    /* A cell that is still stopping stands before it. */
    if (sb->first->running && sb->first->is_late) {
        sb->backend->no_grace = true;
        sb->backend->ops->interrupt(sb->backend);
        sb->backend->no_grace = false;
    }
    return op;
}

struct sandbox_op *
sandbox_switch(struct sandbox *sb, struct sandbox_backend *next,
               sandbox_done_fn done, void *ctx)
{
    bool wanted = sb->wanted;
    struct sandbox_op *op = add_op(sb, SANDBOX_OP_SWITCH, ctx);

    /* The old one is not opened for it. */
    sb->wanted = wanted;
    op->next_backend = next;
    op->done = done;
    return op;
}

void
sandbox_cancel(struct sandbox_op *op)
{
    struct sandbox *sb = op->sb;

    op->cancelled = true;
    if (!op->running || op->next_backend != NULL)
        sandbox_schedule(sb);
    else
        sb->backend->ops->interrupt(sb->backend);
}
