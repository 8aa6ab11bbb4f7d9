/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/loop.h"

/* A back end that nobody wants any more, while a service ends what it made. */
struct sandbox_retired {
    struct sandbox_retired *next;
    struct sandbox *sb;              /* borrowed: the owner */
    struct sandbox_backend *backend; /* owned */
    struct loop_task *task;          /* it has ended, and is closed */
};

static void
free_retired(struct sandbox_retired *r)
{
    loop_task_remove(r->task);
    r->backend->ops->close(r->backend);
    free(r);
}

/* Not within the callback, by which the back end is not to be freed. */
static void
on_ended(void *ctx)
{
    struct sandbox_retired *r = ctx;
    struct sandbox *sb = r->sb;
    struct sandbox_retired **p = &sb->retired;

    r->task = NULL;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    free_retired(r);
    if (sb->retired != NULL)
        return;
    sandbox_switch_go_on(sb);
    if (sb->on_retired != NULL)
        sb->on_retired(sb->on_retired_ctx);
}

static void
handle_retired(void *ctx)
{
    struct sandbox_retired *r = ctx;

    r->task = loop_defer(r->sb->loop, on_ended, r);
}

void
sandbox_retire_backend(struct sandbox *sb, struct sandbox_backend *backend)
{
    struct sandbox_retired *r;

    if (backend == NULL)
        return;
    backend->on_lost = NULL;
    backend->on_runaway = NULL;
    /* Nobody would hear that it has ended. */
    if (backend->ops->retire == NULL || sb->dead) {
        backend->ops->close(backend);
        return;
    }
    backend->on_left = sandbox_tell_left;
    backend->on_lost_ctx = sb;
    r = xcalloc(1, sizeof(*r));
    r->sb = sb;
    r->backend = backend;
    r->next = sb->retired;
    sb->retired = r;
    backend->ops->retire(backend, handle_retired, r);
}

void
sandbox_retire_fini(struct sandbox *sb)
{
    while (sb->retired != NULL) {
        struct sandbox_retired *r = sb->retired;

        sb->retired = r->next;
        free_retired(r);
    }
}

bool
sandbox_retire(struct sandbox *sb, void (*done)(void *ctx), void *ctx)
{
    assert(sb->depth == 0);
    sb->backend->at_end = true;
    sandbox_retire_backend(sb, take_ptr(&sb->backend));
    sandbox_drop_all(sb);
    sb->on_retired = done;
    sb->on_retired_ctx = ctx;
    return sb->retired != NULL;
}
