/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Readings that a running cell is measured by: memory over all processes of the
 * sandbox, and room on the file system of the workspace; and the end of what it
 * leaves. When to read and what to do is the caller's.
 */
#ifndef SANDBOX_LOCAL_WATCHDOG_INTERNAL_H
#define SANDBOX_LOCAL_WATCHDOG_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How many processes pid and all that descend from it are, at most 1,024. */
size_t local_watchdog_count(pid_t pid);

/* Whether pid and all that descend from it, at most 1,024 processes, have more
   than limit bytes in memory. What they share counts once. */
bool local_watchdog_over_memory(pid_t pid, uint64_t limit);

/* The time in the unit in which the starts of processes are known. */
uint64_t local_watchdog_now(void);

/*
 * Ends what a stopped cell has left running: what descends from pid and is in
 * its process group or was started since then, but for spared. What earlier
 * cells have put into sessions of their own is left alone. Nothing when pid or
 * spared is not above 1.
 */
void local_watchdog_kill_cell(pid_t pid, pid_t spared, uint64_t since);

/* Whether there is such a process and it has not ended: one that nobody has
   waited for yet has. */
bool local_watchdog_is_running(pid_t pid);

/* Bytes that pid and all that descend from it have in memory; what they share
   counts once. */
uint64_t local_watchdog_memory(pid_t pid);

/* CPU time that a process has used, with all its threads, in ticks of
   sysconf(_SC_CLK_TCK); 0: it is gone. */
uint64_t local_watchdog_cpu(pid_t pid);

/* Whether what descends from pid can be seen, kernel with it (if that is above
   1). *is_busy: whether one of their threads is computing. */
bool local_watchdog_can_suspend(pid_t pid, pid_t kernel, bool *is_busy);

/* Tells pid and all that descend from it, in whatever session, to stop. True
   when all had stopped already, so that no new one can appear; else this has to
   be asked again. */
bool local_watchdog_suspend(pid_t pid);

/* Lets all of them go on, children before their parents. */
void local_watchdog_resume(pid_t pid);

/* The only child of pid; 0 when it has none or several. */
pid_t local_watchdog_only_child(pid_t pid);

/* Half of the machine's memory, but at most wanted. */
uint64_t local_watchdog_memory_limit(uint64_t wanted);

/* Free bytes that an ordinary user has left where fd is; UINT64_MAX when that
   cannot be said. *reserve: what cells must leave free there. */
uint64_t local_watchdog_free(int fd, uint64_t *reserve);

/* The same for files: how many more can be made. UINT64_MAX also where the file
   system has no limit of its own on them. */
uint64_t local_watchdog_free_files(int fd, uint64_t *reserve);

#endif
