/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/loop.h"
#include "sandbox/local_internal.h"
#include "sandbox/local_watchdog_internal.h"

/* Who leads the sandbox (bubblewrap as its pid 1, or the inner warden), and the
   interpreter. */
#define OWN_PROCESSES 2u
#define MAX_QUIET 5u

/* Why they have to end; NULL: they need not. */
static const char *
why_end(const struct local *l)
{
    if (local_watchdog_over_memory(l->child.child_pid, l->limits.memory_bytes))
        return "Processes that an earlier cell had left running were ended at "
               "the memory limit.";
    if (local_disk_is_short(l, &l->leftovers.room))
        return "Processes that an earlier cell had left running were ended: "
               "the disk is nearly full, or the workspace has grown too "
               "large.";
    return NULL;
}

static bool
are_there(const struct local *l)
{
    return local_watchdog_count(l->child.child_pid) > OWN_PROCESSES;
}

/* A thread that sleeps for long is not noticed: only looking for ever would. */
static bool
interpreter_computes(struct local *l)
{
    uint64_t ticks = local_watchdog_cpu(l->child.kernel_pid);

    l->leftovers.n_quiet =
        ticks == l->leftovers.cpu_ticks ? l->leftovers.n_quiet + 1 : 0;
    l->leftovers.cpu_ticks = ticks;
    return l->leftovers.n_quiet < MAX_QUIET;
}

static void handle_watch(void *ctx);

static void
look_again(struct local *l)
{
    if (l->leftovers.timer == NULL && (interpreter_computes(l) || are_there(l)))
        l->leftovers.timer =
            loop_add_timer(l->loop, LOCAL_WATCH_MS, handle_watch, l);
}

static void
handle_watch(void *ctx)
{
    struct local *l = ctx;
    const char *why = NULL;

    l->leftovers.timer = NULL;
    /* A cell that runs is watched as such. */
    if (l->state != LOCAL_IDLE)
        return;
    if (are_there(l))
        why = why_end(l);
    if (why != NULL) {
        l->leftovers.ended = why;
        local_watchdog_kill_cell(l->child.child_pid, l->child.kernel_pid, 0);
        l->leftovers.after = local_disk_room(l);
    } else if (local_disk_is_short(l, &l->leftovers.after) &&
               l->base.on_runaway != NULL) {
        l->leftovers.ended =
            "The interpreter was suspended until now: with no cell running it "
            "wrote files until the disk was nearly full, or the workspace too "
            "large.";
        l->base.on_runaway(l->base.on_lost_ctx);
        return;
    }
    look_again(l);
}

void
local_leftovers_watch(struct local *l, const struct local_room *before)
{
    l->leftovers.room = *before;
    l->leftovers.after = local_disk_room(l);
    l->leftovers.n_quiet = 0;
    look_again(l);
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
