/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/loop.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_watchdog_internal.h"

#define WATCH_MS 200
/* Who leads the sandbox (bubblewrap as its pid 1, or the inner warden), and the
   interpreter. */
#define OWN_PROCESSES 2u

/* Why they have to end; NULL: they need not. */
static const char *
why_end(const struct local *l)
{
    if (local_watchdog_over_memory(l->child.child_pid, l->limits.memory_bytes))
        return "Processes that an earlier cell had left running were ended at "
               "the memory limit.";
    if (local_cell_disk_is_short(l, l->leftovers.free_bytes))
        return "Processes that an earlier cell had left running were ended: "
               "the disk is nearly full, or the workspace has grown too "
               "large.";
    return NULL;
}

static void
handle_watch(void *ctx)
{
    struct local *l = ctx;
    const char *why;

    l->leftovers.timer = NULL;
    /* A cell that runs is watched as such. */
    if (l->state != LOCAL_IDLE)
        return;
    why = why_end(l);
    if (why != NULL) {
        l->leftovers.ended = why;
        local_watchdog_kill_cell(l->child.child_pid, l->child.kernel_pid, 0);
    }
    local_leftovers_watch(l, l->leftovers.free_bytes);
}

void
local_leftovers_watch(struct local *l, uint64_t free_bytes)
{
    l->leftovers.free_bytes = free_bytes;
    if (l->leftovers.timer == NULL &&
        local_watchdog_count(l->child.child_pid) > OWN_PROCESSES)
        l->leftovers.timer = loop_add_timer(l->loop, WATCH_MS, handle_watch, l);
}

void
local_leftovers_tell(struct local *l)
{
    if (l->leftovers.ended != NULL)
        l->cell.on.on_note(l->cell.ctx, "limit", l->leftovers.ended);
    l->leftovers.ended = NULL;
}

void
local_leftovers_drop(struct local *l)
{
    loop_timer_remove(l->leftovers.timer);
    l->leftovers = (struct local_leftovers){0};
}
