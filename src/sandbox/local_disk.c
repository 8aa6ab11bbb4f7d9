/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>

#include "sandbox/local_internal.h"
#include "sandbox/local_watchdog_internal.h"
#include "sandbox/workspace_internal.h"

/* A cell that has written less is not why a disk is full. */
#define DISK_SLACK_BYTES ((uint64_t)64 << 20)
#define DISK_SLACK_FILES 10000u

/* Bytes by which the disk has become fuller since then. */
static uint64_t
used_since(const struct local *l, uint64_t free_bytes, uint64_t *reserve,
           uint64_t *left)
{
    *left = local_watchdog_free(l->env.workspace_fd, reserve);
    return free_bytes > *left ? free_bytes - *left : 0;
}

bool
local_disk_is_overfull(const struct local *l, uint64_t free_bytes)
{
    bool all;
    bool whole;
    uint64_t reserve;
    uint64_t left;
    uint64_t taken;
    uint64_t used =
        workspace_usage(l->env.workspace_fd, LOCAL_USAGE_ENTRIES, &all);
    AUTO_CLOSE int tmp = -1;

    /* Where temporary files are on the same disk, without a limit. */
    if (l->env.tmp != NULL)
        tmp = open(l->env.tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tmp >= 0) {
        used += workspace_usage(tmp, LOCAL_USAGE_ENTRIES, &whole);
        all &= whole;
    }
    if (used > l->limits.workspace_bytes)
        return true;
    /* What a cell hides from that counts by the room it takes, as files do that
       are open and have no name any more. */
    taken = used_since(l, free_bytes, &reserve, &left);
    if (all)
        taken = taken > used ? taken - used : 0;
    return taken > l->limits.workspace_bytes;
}

struct local_room
local_disk_room(const struct local *l)
{
    uint64_t reserve;

    return (struct local_room){
        .bytes = local_watchdog_free(l->env.workspace_fd, &reserve),
        .files = local_watchdog_free_files(l->env.workspace_fd, &reserve),
    };
}

/* Empty files take no room, but a disk can have only so many. */
static bool
files_are_short(const struct local *l, uint64_t before)
{
    uint64_t reserve = 0;
    uint64_t left = local_watchdog_free_files(l->env.workspace_fd, &reserve);

    return before > left && before - left >= DISK_SLACK_FILES && left < reserve;
}

bool
local_disk_is_short(const struct local *l, const struct local_room *before)
{
    uint64_t reserve = 0;
    uint64_t left;
    uint64_t used = used_since(l, before->bytes, &reserve, &left);

    if (files_are_short(l, before->files))
        return true;
    if (used < DISK_SLACK_BYTES)
        return false;
    if (left < reserve)
        return true;
    /* Others write to the same disk: look closer before blaming the cell. */
    return used > l->limits.workspace_bytes &&
           local_disk_is_overfull(l, before->bytes);
}

uint64_t
local_disk_room_at(int fd)
{
    uint64_t reserve = 0;
    uint64_t left = local_watchdog_free(fd, &reserve);

    return left > reserve ? left - reserve : 0;
}

int
local_disk_find(const struct local *l, const char *doing, uint64_t most_bytes,
                uint64_t *room, struct error *err)
{
    uint64_t used =
        workspace_usage(l->env.workspace_fd, LOCAL_USAGE_ENTRIES, NULL);
    uint64_t limit = l->limits.workspace_bytes;

    *room = local_disk_room_at(l->env.workspace_fd);
    if (*room == 0)
        return err_set(err, ERR_LIMIT, "%s: the disk is nearly full", doing);
    if (used >= limit)
        return err_set(err, ERR_LIMIT,
                       "%s: the workspace is too large; delete files in it",
                       doing);
    if (limit - used < *room)
        *room = limit - used;
    if (*room > most_bytes)
        *room = most_bytes;
    return 0;
}
