/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* What is copied out of the sandbox after one cell. */
#define MAX_COPY_BYTES (50u << 20)
#define MAX_COPIES 20

/* What is still copied once the turn is to end: nobody waits for more. */
#define MAX_LATE_BYTES (1u << 20)

static void copy_next(struct agent *a);

void
agent_files_init(struct agent *a)
{
    a->copy_fd = -1;
}

static void
free_found(struct agent *a)
{
    for (size_t i = 0; i < a->n_found; i++) {
        free(a->found[i].name);
        free(a->found[i].refused);
    }
    free(a->found);
    a->found = NULL;
    a->n_found = 0;
    a->at_found = 0;
    a->n_left_out = 0;
}

void
agent_files_fini(struct agent *a)
{
    free_found(a);
    free(a->seen);
    close_fd(&a->copy_fd);
}

void
agent_keep_outcome(struct agent *a, const struct sandbox_outcome *o)
{
    a->outcome = *o;
    a->outcome.error_name = xstrdup(o->error_name);
    a->outcome.error_value = xstrdup(o->error_value);
    a->outcome.traceback = xstrdup(o->traceback);
    a->outcome.hint = xstrdup(o->hint);
    a->outcome.reason = xstrdup(o->reason);
}

void
agent_free_outcome(struct agent *a)
{
    free_const(a->outcome.error_name);
    free_const(a->outcome.error_value);
    free_const(a->outcome.traceback);
    free_const(a->outcome.hint);
    free_const(a->outcome.reason);
    memset(&a->outcome, 0, sizeof(a->outcome));
}

static void
note_seen(struct agent *a, const struct sandbox_list *list)
{
    free(a->seen);
    a->seen = xcalloc(list->n_files + 1, sizeof(*a->seen));
    a->n_seen = list->n_files;
    a->seen_known = true;
    for (size_t i = 0; i < list->n_files; i++)
        a->seen[i] = (struct agent_seen){
            .inode = list->files[i].inode,
            .size_bytes = list->files[i].size_bytes,
            .mtime_ns = list->files[i].mtime_ns,
        };
}

static bool
was_there(const struct agent *a, const struct sandbox_file *f)
{
    for (size_t i = 0; i < a->n_seen; i++) {
        if (a->seen[i].inode == f->inode &&
            a->seen[i].size_bytes == f->size_bytes &&
            a->seen[i].mtime_ns == f->mtime_ns)
            return true;
    }
    return false;
}

static void
on_listed_before(void *ctx, const struct sandbox_list *list,
                 const struct error *err)
{
    struct agent *a = ctx;

    a->op = NULL;
    if (err == NULL)
        note_seen(a, list);
    a->after_list(a);
}

/* Whether an interpreter waits, so that listing the files starts none. */
static bool
is_there(const struct sandbox *sb)
{
    enum sandbox_state state = sandbox_state(sb);

    return state == SANDBOX_IDLE || state == SANDBOX_SUSPENDED;
}

void
agent_list_before(struct agent *a, void (*then)(struct agent *a))
{
    /* What was there after the last cell is known; only the program itself has
       put files since, and those are not listed. */
    if (a->seen_known || !is_there(a->config.sandbox)) {
        then(a);
        return;
    }
    a->after_list = then;
    a->op = sandbox_list_files(a->config.sandbox, on_listed_before, a);
}

static void
emit_file(struct agent *a, const struct agent_found *f, int fd)
{
    struct event_file file = {
        .name = f->name,
        .fd = fd,
        .size_bytes = f->size_bytes,
        .refused = f->refused,
    };

    context_add_file(&a->context, &file);
    agent_emit(
        a, &(struct event){.kind = EVENT_FILE, .cell = a->cell, .file = &file});
}

/* Leaves a file for after the next cell: the turn is to end. */
static void
leave_file(struct agent *a, const struct agent_found *f)
{
    a->seen[f->seen] = (struct agent_seen){0};
    a->n_left_out++;
}

static void
on_copied(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct agent *a = ctx;
    struct agent_found *f = &a->found[a->at_found];

    a->op = NULL;
    if (err == NULL && end == SANDBOX_DONE &&
        lseek(a->copy_fd, 0, SEEK_SET) == 0) {
        emit_file(a, f, a->copy_fd);
    } else if (a->stop != AGENT_GO_ON) {
        leave_file(a, f);
    } else {
        free(f->refused);
        f->refused = xstrdup(err != NULL ? err->msg : "it is gone");
        emit_file(a, f, -1);
    }
    close_fd(&a->copy_fd);
    a->at_found++;
    copy_next(a);
}

static void
finish_files(struct agent *a)
{
    uint64_t n = a->n_left_out;

    if (n > 0) {
        AUTO_FREE char *text =
            xasprintf("%" PRIu64 " more new file%s left in the sandbox", n,
                      n == 1 ? " was" : "s were");

        agent_notice(a, EVENT_INFO, text);
        context_add_note(&a->context, text);
    }
    free_found(a);
    agent_send_charts(a);
}

/* Copies the next new file into memory, or ends. */
static void
copy_next(struct agent *a)
{
    for (; a->at_found < a->n_found; a->at_found++) {
        struct agent_found *f = &a->found[a->at_found];

        if (a->stop != AGENT_GO_ON && f->refused == NULL) {
            if (f->size_bytes > a->late_bytes) {
                leave_file(a, f);
                continue;
            }
            a->late_bytes -= f->size_bytes;
        }
        if (f->refused == NULL && f->size_bytes > MAX_COPY_BYTES)
            f->refused = xasprintf("larger than %u MB", MAX_COPY_BYTES >> 20);
        if (f->refused != NULL) {
            emit_file(a, f, -1);
            continue;
        }
        a->copy_fd = memfd_create("output", MFD_CLOEXEC);
        if (a->copy_fd < 0) {
            f->refused = xstrdup("no memory for a copy");
            emit_file(a, f, -1);
            continue;
        }
        a->op = sandbox_get(a->config.sandbox, f->name, a->copy_fd, 0,
                            MAX_COPY_BYTES, on_copied, a);
        return;
    }
    finish_files(a);
}

static void
on_listed_after(void *ctx, const struct sandbox_list *list,
                const struct error *err)
{
    struct agent *a = ctx;

    a->op = NULL;
    if (err != NULL) {
        finish_files(a);
        return;
    }
    for (size_t i = 0; i < list->n_files; i++) {
        const struct sandbox_file *f = &list->files[i];

        if (was_there(a, f))
            continue;
        if (a->n_found == MAX_COPIES) {
            a->n_left_out++;
            continue;
        }
        a->found = xreallocarray(a->found, a->n_found + 1, sizeof(*a->found));
        a->found[a->n_found++] = (struct agent_found){
            .name = xstrdup(f->name),
            .seen = i,
            .size_bytes = f->size_bytes,
            .refused = xstrdup(f->refused),
        };
    }
    a->n_left_out += list->n_left_out;
    note_seen(a, list);
    copy_next(a);
}

void
agent_collect_files(struct agent *a)
{
    a->late_bytes = MAX_LATE_BYTES;
    a->op = sandbox_list_files(a->config.sandbox, on_listed_after, a);
}
