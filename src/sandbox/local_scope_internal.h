/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A control group around a running sandbox, made by the systemd manager that is
 * there: the user's own, or the system's for root. It bounds memory and
 * processes of all together in the kernel, says why a process was ended, and
 * can stop all at once. Where there is no such manager, or the limits are not
 * seen in place afterwards, nothing is lost: the limits of single processes and
 * the watchdog are there in either case.
 */
#ifndef SANDBOX_LOCAL_SCOPE_INTERNAL_H
#define SANDBOX_LOCAL_SCOPE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct local_scope;
struct local_scope_config;
struct loop;

/* The longest that the start of an interpreter waits for it. */
#define LOCAL_SCOPE_MS 1000

#define LOCAL_SCOPE_MAX_PIDS 3

struct local_scope_limits {
    pid_t pids[LOCAL_SCOPE_MAX_PIDS]; /* that are moved into it */
    size_t n_pids;
    uint64_t memory_bytes;
    int processes; /* with those of pids */
};

/* Runs once, from the loop. on: the limits have been seen in place. */
typedef void (*local_scope_fn)(void *ctx, bool on);

/*
 * Begins to make one. Ends within LOCAL_SCOPE_MS, at once where there is no
 * manager. config: NULL or a test's; borrowed until done has run. Free it in
 * the end in any case.
 */
struct local_scope *local_scope_start(struct loop *loop,
                                      const struct local_scope_config *config,
                                      const struct local_scope_limits *limits,
                                      local_scope_fn done, void *ctx);

/* NULL allowed. The group itself goes when its last process has. done is not
   called any more. */
void local_scope_free(struct local_scope *s);

/* Whether it is on. False for NULL. */
bool local_scope_is_on(const struct local_scope *s);

/* Why it is not; "" while it is or begins to be. One line; borrowed; partly
   the manager's text. */
const char *local_scope_why(const struct local_scope *s);

/* Memory of all in it, with what they have in the page cache; 0: not known. */
uint64_t local_scope_memory(const struct local_scope *s);

/* How many processes in it were ended at the limit of memory so far. */
uint64_t local_scope_oom_kills(const struct local_scope *s);

/* Stops every process in it, or lets all go on. False when it is not on, or
   that was refused. */
bool local_scope_freeze(struct local_scope *s, bool freeze);

/* Whether all in it have stopped since. */
bool local_scope_is_frozen(const struct local_scope *s);

#endif
