/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/loop.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_scope_internal.h"
#include "sandbox/local_watchdog_internal.h"
#include "sandbox/workspace_internal.h"

#define DEFAULT_MEMORY ((uint64_t)4 << 30)
#define DEFAULT_OUTPUT ((uint64_t)4 << 20)
#define DEFAULT_WORKSPACE ((uint64_t)5 << 30)
#define DEFAULT_PROCESSES 128

void
local_begin_op(struct local *l, sandbox_done_fn done, void *ctx)
{
    assert(l->done == NULL && l->list_done == NULL && l->task == NULL);
    l->done = done;
    l->op_ctx = ctx;
}

/* --- operations --- */

static int
need_env(struct local *l, struct error *err)
{
    if (l->has_env)
        return 0;
    if (local_env_find(&l->env, &l->config, err) < 0)
        return -1;
    l->has_env = true;
    return 0;
}

static void
local_open(struct sandbox_backend *b,
           void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
           void *ctx)
{
    struct local *l = (struct local *)b;
    struct error err = {0};

    local_begin_op(l, done, ctx);
    l->progress = progress;
    if (need_env(l, &err) < 0) {
        local_end_op(l, &err);
        return;
    }
    local_start(l, LOCAL_FOR_OPEN);
}

static void
end_put_copy(void *ctx, const struct error *err)
{
    struct local *l = ctx;
    struct error mine = {0};

    l->copy = NULL;
    if (err == NULL &&
        local_files_arrive(&l->files, &l->env, l->op_name, &mine) < 0)
        err = &mine;
    if (err == NULL)
        local_files_show(&l->env, l->op_name);
    else
        local_files_drop(&l->env);
    /* Often from the loop already, but the end of every operation goes one
       way. */
    local_end_op(l, err);
}

static void
copy_in(struct local *l, const struct sandbox_put *put)
{
    struct error err = {0};

    l->op_name = xstrdup(put->name);
    l->op_fd = local_files_receive(&l->env, &err);
    if (l->op_fd < 0) {
        local_end_op(l, &err);
        return;
    }
    l->copy =
        local_copy_start(l->loop, put->fd, put->offset, put->limit, false,
                         l->op_fd, l->put_progress, end_put_copy, l->op_ctx, l);
}

static int
check_put(const struct sandbox_put *put, struct error *err)
{
    struct stat st;

    if (!workspace_name_ok(put->name))
        return err_set(err, ERR_USAGE, "%s: no name for a file inside",
                       put->name != NULL ? put->name : "");
    if (put->offset < 0 || fstat(put->fd, &st) != 0)
        return err_set_errno(err, ERR_IO, "%s", put->name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_UNSUPPORTED, "%s: is no regular file",
                       put->name);
    return 0;
}

static void
local_put(struct sandbox_backend *b, const struct sandbox_put *put,
          sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct local *l = (struct local *)b;
    struct error err = {0};
    bool idle = l->state == LOCAL_IDLE;
    bool own_mounts = local_level(l->config.isolation)->own_mounts;

    local_begin_op(l, done, ctx);
    l->put_progress = progress;
    if (check_put(put, &err) < 0 || need_env(l, &err) < 0) {
        local_end_op(l, &err);
        return;
    }
    if (own_mounts && (!idle || l->fresh) &&
        local_files_bind(&l->files, &l->env, put)) {
        local_files_show(&l->env, put->name);
        if (!idle) {
            local_end_op(l, NULL);
            return;
        }
        /* A new interpreter is cheaper than a copy, and nothing is lost. */
        local_set_state(l, LOCAL_ENDING);
        local_bwrap_kill(&l->child);
        return;
    }
    /* Without a mount that is read-only, the modes of a linked file could be
       changed, which are the user's. */
    if (own_mounts && local_files_link(&l->files, &l->env, put)) {
        local_files_show(&l->env, put->name);
        local_end_op(l, NULL);
        return;
    }
    copy_in(l, put);
}

static void
report_not_run(void *ctx)
{
    struct local *l = ctx;
    struct sandbox_cell_handlers on = l->cell.on;
    void *cell_ctx = l->cell.ctx;
    struct error err = l->op_err;

    l->task = NULL;
    local_cell_drop(l);
    local_enter(l);
    on.on_done(cell_ctx, l->op_end, NULL, &err);
    local_leave(l);
}

void
local_cell_refuse(struct local *l, const struct sandbox_cell_handlers *on,
                  void *ctx, const struct error *err)
{
    memset(&l->cell, 0, sizeof(l->cell));
    l->cell.on = *on;
    l->cell.ctx = ctx;
    l->op_err = *err;
    l->op_end = err->code == ERR_SANDBOX ? SANDBOX_LOST : SANDBOX_ERROR;
    l->task = loop_defer(l->loop, report_not_run, l);
}

static void
local_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
               const struct sandbox_cell_handlers *on, void *ctx)
{
    struct local *l = (struct local *)b;
    struct error err = {0};

    assert(!l->cell_active && l->task == NULL);
    if (cell->language != NULL && strcmp(cell->language, "python") != 0)
        error_fill(&err, ERR_UNSUPPORTED, "language %s", cell->language);
    else if (cell->code_len > SANDBOX_MAX_CODE_BYTES)
        error_fill(&err, ERR_TOO_LARGE, "code of %zu bytes", cell->code_len);
    else if (l->state != LOCAL_IDLE)
        error_fill(&err, ERR_SANDBOX, "no interpreter runs");
    if (err.code == ERR_NONE)
        local_cell_run(l, cell, on, ctx);
    else
        local_cell_refuse(l, on, ctx, &err);
}

static void
local_interrupt(struct sandbox_backend *b)
{
    struct local *l = (struct local *)b;

    if (l->copy != NULL)
        local_copy_stop(l->copy);
    else if (b->no_grace && l->state == LOCAL_INTERRUPTING)
        local_cell_hurry(l);
    else
        local_cell_stop(l, EVENT_INTERRUPTED);
}

static bool
is_ours(void *ctx, const char *name)
{
    const struct local *l = ctx;

    return local_files_is_ours(&l->files, &l->env, name);
}

static void
report_list(void *ctx)
{
    struct local *l = ctx;
    sandbox_list_fn done = l->list_done;
    struct workspace_list found = {0};
    struct sandbox_list list = {0};
    struct error err = {0};
    int rc;

    l->task = NULL;
    l->list_done = NULL;
    if (l->has_env)
        local_env_mend(&l->env);
    if (l->has_env)
        rc = workspace_list(l->env.workspace_fd, is_ours, l, &found, &err);
    else
        rc = err_set(&err, ERR_SANDBOX, "there is no workspace yet");
    list.files = found.files;
    list.n_files = found.n_files;
    list.n_left_out = found.n_left_out;
    list.more = found.more;
    local_enter(l);
    done(l->op_ctx, rc == 0 ? &list : NULL, rc == 0 ? NULL : &err);
    local_leave(l);
    workspace_list_fini(&found);
}

static void
local_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    struct local *l = (struct local *)b;

    local_begin_op(l, NULL, ctx);
    l->list_done = done;
    l->task = loop_defer(l->loop, report_list, l);
}

static void
end_get_copy(void *ctx, const struct error *err)
{
    struct local *l = ctx;

    l->copy = NULL;
    local_end_op(l, err);
}

static void
local_get(struct sandbox_backend *b, const char *name, int fd, off_t offset,
          off_t limit, sandbox_done_fn done, void *ctx)
{
    struct local *l = (struct local *)b;
    struct error err = {0};
    struct stat st;

    local_begin_op(l, done, ctx);
    if (!l->has_env)
        error_fill(&err, ERR_SANDBOX, "there is no workspace yet");
    else
        l->op_fd = workspace_open(l->env.workspace_fd, name, &err);
    if (l->op_fd >= 0 && limit >= 0 && fstat(l->op_fd, &st) == 0 &&
        st.st_size - offset > limit)
        error_fill(&err, ERR_TOO_LARGE,
                   "%s: has %lld bytes, at most %lld are read", name,
                   (long long)st.st_size, (long long)limit);
    if (err.code != ERR_NONE) {
        local_end_op(l, &err);
        return;
    }
    l->copy = local_copy_start(l->loop, l->op_fd, offset, limit, true, fd, NULL,
                               end_get_copy, NULL, l);
}

static const char *
about_python(struct local *l)
{
    free(l->about);
    l->about = l->version != NULL
                   ? xasprintf("%s (%s)", l->env.python, l->version)
                   : xstrdup(l->env.python);
    return l->about;
}

static void
local_info(struct sandbox_backend *b, struct sandbox_info *info)
{
    struct local *l = (struct local *)b;
    bool runs = l->state != LOCAL_NEW && l->state != LOCAL_STARTING &&
                l->state != LOCAL_PROBING;

    info->backend = "local";
    info->level = local_isolation_name(l->config.isolation);
    info->bound_by = local_bound_by(l);
    info->memory_limit_bytes = l->limits.memory_bytes;
    info->max_processes = l->limits.processes;
    info->workspace_limit_bytes = l->limits.workspace_bytes;
    info->cell_ms = l->limits.cell_ms;
    info->output_bytes = l->limits.output_bytes;
    if (l->has_env)
        info->workspace_bytes =
            workspace_usage(l->env.workspace_fd, LOCAL_USAGE_ENTRIES, NULL);
    if (l->has_env)
        info->python = about_python(l);
    if (!runs)
        return;
    info->uptime_ms = clock_now_ms() - l->ready_ms;
    if (info->uptime_ms < 1)
        info->uptime_ms = 1;
    info->memory_bytes = local_scope_memory(l->scope);
    if (info->memory_bytes == 0)
        info->memory_bytes = local_watchdog_memory(l->child.child_pid);
    info->n_processes = (int)local_watchdog_count(l->child.child_pid);
}

static void
local_close(struct sandbox_backend *b)
{
    struct local *l = (struct local *)b;

    local_cell_drop(l);
    loop_task_remove(l->task);
    l->task = NULL;
    local_copy_free(l->copy);
    l->copy = NULL;
    close_fd(&l->op_fd);
    local_drop_child(l);
    local_ask_drop(l);
    local_files_fini(&l->files);
    local_env_fini(&l->env);
    if (l->depth > 0)
        l->dead = true;
    else
        local_destroy(l);
}

static const char *const languages[] = {"python", NULL};

static const struct sandbox_caps local_caps = {
    .name = "local",
    .stateful = true,
    .survives_suspend = true,
    .own_files_api = true,
    .has_network = false,
    .keeps_files = true,
    .puts_early = true,
    .languages = languages,
};

static const struct sandbox_ops local_ops = {
    .open = local_open,
    .put = local_put,
    .run_cell = local_run_cell,
    .run_script = local_run_script,
    .interrupt = local_interrupt,
    .list = local_list,
    .get = local_get,
    .suspend = local_suspend,
    .resume = local_resume,
    .stop = local_stop,
    .vars = local_vars,
    .snapshot = local_snapshot,
    .restore = local_restore,
    .info = local_info,
    .retire = NULL,
    .close = local_close,
};

static void
fill_limits(struct sandbox_limits *limits)
{
    if (limits->cell_ms <= 0)
        limits->cell_ms = SANDBOX_CELL_MS;
    if (limits->memory_bytes == 0)
        limits->memory_bytes = DEFAULT_MEMORY;
    limits->memory_bytes = local_watchdog_memory_limit(limits->memory_bytes);
    if (limits->output_bytes == 0)
        limits->output_bytes = DEFAULT_OUTPUT;
    if (limits->workspace_bytes == 0)
        limits->workspace_bytes = DEFAULT_WORKSPACE;
    if (limits->processes <= 0)
        limits->processes = DEFAULT_PROCESSES;
}

struct sandbox_backend *
local_new(struct loop *loop, const struct local_config *config,
          const struct sandbox_limits *limits)
{
    struct local *l = xcalloc(1, sizeof(*l));

    l->base.ops = &local_ops;
    l->base.caps = local_caps;
    l->loop = loop;
    l->config = *config;
    l->config.bwrap = xstrdup(config->bwrap);
    l->config.warden = xstrdup(config->warden);
    l->config.python = xstrdup(config->python);
    l->config.parent_dir = xstrdup(config->parent_dir);
    if (limits != NULL)
        l->limits = *limits;
    fill_limits(&l->limits);
    l->no_proc = local_level(config->isolation)->no_proc;
    local_env_init(&l->env);
    l->op_fd = -1;
    local_ask_init(l);
    sbuf_init(&l->start_errors, LOCAL_MAX_START_ERRORS);
    sbuf_init(&l->later, LOCAL_MAX_LATER_BYTES);
    return &l->base;
}
