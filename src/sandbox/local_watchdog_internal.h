/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Readings that a running cell is measured by: memory over all processes of the
 * sandbox, and room on the file system of the workspace. Only reads; when to
 * read and what to do is the caller's.
 */
#ifndef SANDBOX_LOCAL_WATCHDOG_INTERNAL_H
#define SANDBOX_LOCAL_WATCHDOG_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Resident memory of pid and all that descend from it, at most 1,024
   processes. */
uint64_t local_watchdog_memory(pid_t pid);

/*
 * Ends what descends from pid and is in its process group, but for spared: what
 * a stopped cell has left running. Nothing when pid or spared is not above 1.
 */
void local_watchdog_kill_group(pid_t pid, pid_t spared);

/* The only child of pid; 0 when it has none or several. */
pid_t local_watchdog_only_child(pid_t pid);

/* Half of the machine's memory, but at most wanted. */
uint64_t local_watchdog_memory_limit(uint64_t wanted);

/* Free bytes that an ordinary user has left where fd is; UINT64_MAX when that
   cannot be said. *reserve: what cells must leave free there. */
uint64_t local_watchdog_free(int fd, uint64_t *reserve);

#endif
