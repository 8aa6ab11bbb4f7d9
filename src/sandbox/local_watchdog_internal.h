/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SANDBOX_LOCAL_WATCHDOG_INTERNAL_H
#define SANDBOX_LOCAL_WATCHDOG_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Readings that a running cell is measured by: memory over all processes of the
 * sandbox, and room on the file system of the workspace. Only reads; when to
 * read and what to do is the caller's.
 */

/* Resident memory of pid and all that descend from it, at most 1,024
   processes. */
uint64_t local_watchdog_memory(pid_t pid);

/* Half of the machine's memory, but at most wanted. */
uint64_t local_watchdog_memory_limit(uint64_t wanted);

/* Free bytes that an ordinary user has left where fd is; UINT64_MAX when that
   cannot be said. *reserve: what cells must leave free there. */
uint64_t local_watchdog_free(int fd, uint64_t *reserve);

#endif
