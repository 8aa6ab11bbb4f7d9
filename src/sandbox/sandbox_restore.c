/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

#define LOG_MODULE "sandbox"

static void
fini_kept(struct sandbox_kept *kept)
{
    for (size_t i = 0; i < 5; i++)
        free(kept->strings[i]);
    memset(kept, 0, sizeof(*kept));
}

static void
keep_outcome(struct sandbox *sb, const struct sandbox_outcome *outcome)
{
    struct sandbox_kept *k = &sb->kept;

    k->outcome = *outcome;
    k->outcome.error_name = k->strings[0] = xstrdup(outcome->error_name);
    k->outcome.error_value = k->strings[1] = xstrdup(outcome->error_value);
    k->outcome.traceback = k->strings[2] = xstrdup(outcome->traceback);
    k->outcome.hint = k->strings[3] = xstrdup(outcome->hint);
    k->outcome.reason = k->strings[4] = xstrdup(outcome->reason);
}

void
sandbox_restore_end(struct sandbox *sb)
{
    struct sandbox_op *op = take_ptr(&sb->restored_op);
    struct sandbox_kept kept = sb->kept;

    close_fd(&sb->restore_fd);
    sb->restoring = false;
    if (sb->state == SANDBOX_BUSY)
        sb->state = SANDBOX_IDLE;
    memset(&sb->kept, 0, sizeof(sb->kept));
    sandbox_schedule(sb);
    if (op != NULL)
        sandbox_end_op(op, SANDBOX_RESTARTED, &kept.outcome, NULL);
    fini_kept(&kept);
}

static void
ignore_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    (void)ctx;
    (void)stream;
    (void)data;
    (void)len;
}

static void
ignore_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
ignore_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

static void
handle_setup(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox *sb = ctx;

    if (end == SANDBOX_DONE && outcome->outcome != EVENT_OK)
        LOG_WARN("%s could not be loaded again",
                 sb->loaded[sb->restore_next].name);
    sb->restore_next++;
    sb->restore_put_done = false;
    /* What ends the interpreter once would do so again. */
    if (end != SANDBOX_DONE)
        sb->restore_next = sb->n_loaded;
    if (end == SANDBOX_LOST) {
        LOG_WARN("lost while loading again: %s", err->msg);
        sb->state = SANDBOX_NEW;
        sb->restore_needed = true;
    }
    sandbox_schedule(sb);
}

static void
handle_put_again(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;

    close_fd(&sb->restore_fd);
    sb->restore_put_done = true;
    if (end != SANDBOX_DONE)
        LOG_WARN("%s could not be put again: %s",
                 sb->loaded[sb->restore_next].name, err->msg);
    sandbox_schedule(sb);
}

static bool
put_again(struct sandbox *sb)
{
    const struct sandbox_loaded *file = &sb->loaded[sb->restore_next];
    struct sandbox_put put = {
        .path = file->path, .name = file->name, .limit = -1};

    if (sb->backend->ops->caps.keeps_files || sb->restore_put_done)
        return false;
    sb->restore_fd =
        open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (sb->restore_fd < 0) {
        LOG_WARN("%s is no longer there", file->path);
        return false;
    }
    put.fd = sb->restore_fd;
    sb->backend->ops->put(sb->backend, &put, NULL, handle_put_again, sb);
    return true;
}

void
sandbox_restore_step(struct sandbox *sb)
{
    static const struct sandbox_cell_handlers quiet = {
        .on_bytes = ignore_bytes,
        .on_output = ignore_output,
        .on_note = ignore_note,
        .on_done = handle_setup,
    };
    struct sandbox_cell cell = {.silent = true};
    const char *setup;

    if (sb->restore_next >= sb->n_loaded) {
        sandbox_restore_end(sb);
        return;
    }
    if (put_again(sb))
        return;
    setup = sb->loaded[sb->restore_next].setup;
    cell.code = setup;
    cell.code_len = strlen(setup);
    cell.timeout_ms = sb->limits.cell_ms;
    sb->backend->ops->run_cell(sb->backend, &cell, &quiet, sb);
}

void
sandbox_restore_begin(struct sandbox *sb, struct sandbox_op *op,
                      const struct sandbox_outcome *outcome)
{
    if (op != NULL)
        keep_outcome(sb, outcome);
    sb->restored_op = op;
    sb->restore_needed = false;
    sb->restoring = true;
    sb->restore_next = 0;
    sb->restore_put_done = false;
    sb->state = SANDBOX_BUSY;
    sandbox_schedule(sb);
}

void
sandbox_restore_fini(struct sandbox *sb)
{
    close_fd(&sb->restore_fd);
    fini_kept(&sb->kept);
}
