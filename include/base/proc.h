/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Children: started with a built environment, chosen descriptors and nothing
 * else, in a session of their own; watched by a pidfd in the loop.
 *
 * Everything is prepared before fork, and only async-signal-safe calls stand
 * between fork and execve, since libcurl's resolver threads may hold locks.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct error;
struct loop;
struct proc;

struct proc_fd {
    int parent_fd; /* borrowed; -1: /dev/null */
    int child_fd;
};

/* Where a hard limit may not be raised, the one there is stays. */
struct proc_rlimit {
    int resource; /* RLIMIT_* */
    uint64_t soft;
    uint64_t hard;
};

struct proc_spec {
    const char *path;        /* absolute */
    const char *const *argv; /* NULL-terminated */
    const char *const *envp; /* NULL-terminated; NULL: empty */

    /* 0, 1 and 2 are /dev/null unless named; all others are closed. */
    const struct proc_fd *fds;
    size_t n_fds;

    const struct proc_rlimit *rlimits;
    size_t n_rlimits;

    /*
     * Drop to this identity (setgroups, setresgid, setresuid, checked to be
     * final) before execve. Needs root.
     */
    bool drop_ids;
    uid_t uid;
    gid_t gid;

    bool die_with_parent; /* PR_SET_PDEATHSIG SIGKILL */
};

struct proc_exit {
    int code;   /* exit status, or -1 */
    int signal; /* signal that ended it, or 0 */
};

/* Runs once, from the loop, when the child itself has ended and been reaped. */
typedef void (*proc_exit_fn)(void *ctx, const struct proc_exit *status);

/*
 * Starts a child: setsid, default signals, empty mask, umask 077, chdir "/".
 * A failed step in the child up to and including execve is reported here.
 * Errors: ERR_IO (sys_errno is the child's).
 */
WARN_UNUSED struct proc *proc_start(struct loop *loop,
                                    const struct proc_spec *spec,
                                    proc_exit_fn on_exit, void *ctx,
                                    struct error *err);

pid_t proc_pid(const struct proc *p);

/* Sends a signal to the child by its pidfd; nothing when it has ended. */
void proc_signal(struct proc *p, int signo);

/* Ends the child with SIGKILL if it runs, reaps it, and frees; NULL allowed.
   on_exit is not called any more. */
void proc_free(struct proc *p);

#endif
