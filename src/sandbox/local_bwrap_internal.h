/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One running sandbox, of whatever level: the arguments of bubblewrap, which
 * are the security model of two of them; its descriptors; and the handles by
 * which it is interrupted and ended. It knows nothing of cells.
 */
#ifndef SANDBOX_LOCAL_BWRAP_INTERNAL_H
#define SANDBOX_LOCAL_BWRAP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/proc.h"

struct error;
struct local_env;
struct local_level;
struct loop;
struct sbuf;

/* The numbers that descriptors have in the child. */
enum local_bwrap_fd {
    LOCAL_FD_STDOUT = 1,
    LOCAL_FD_STDERR = 2,
    LOCAL_FD_REQUESTS = 3,
    LOCAL_FD_EVENTS = 4,
    LOCAL_FD_TICKETS = 5,
    LOCAL_FD_LIFE = 6, /* for the warden alone */
    LOCAL_FD_ARGS = 7,
    LOCAL_FD_SECCOMP = 8,
    LOCAL_FD_PASSWD = 10,
    LOCAL_FD_GROUP = 11,
    LOCAL_FD_KERNEL = 12
};

/* A file bound by itself at /workspace/data/NAME. Borrowed. */
struct local_bwrap_file {
    const char *path;
    const char *name;
};

struct local_bwrap_spec {
    const struct local_level *level; /* NULL: that of LOCAL_FULL */
    const struct local_env *env;
    bool no_proc;    /* without a procfs of its own */
    bool no_disable; /* without --disable-userns; the filter does the same */
    const struct local_bwrap_file *files;
    size_t n_files;
    uint64_t memory_bytes;
    int processes; /* for a level that counts them outside; 0: not limited */
    const char *command; /* NULL: the kernel; else a program, for a probe */
};

struct local_bwrap {
    const struct local_level *level;
    struct proc
        *proc;        /* the bubblewrap or warden outside; NULL: nothing runs */
    pid_t child_pid;  /* pid 1 of the sandbox, outside, or the inner warden; 0:
                         not known */
    pid_t kernel_pid; /* the interpreter, outside; 0: not known */
    int pidfd;        /* of pid 1 */
    int life_fd;      /* ours to hold: the warden ends with it */
    int request_fd;   /* ours to write */
    int ticket_fds[2]; /* ours to read and to write, non-blocking: the number of
                          the cell that may begin, for the one who reads it;
                          the kernel reads the same pipe */
    int event_fd;      /* ours to read, non-blocking like the next two */
    int stdout_fd;
    int stderr_fd;
    bool ended; /* the outer bubblewrap has been reaped */
};

/* What of the system is shown at each level, if it is there: directories that
   are links into /usr on most systems, and not on some; and all that Python,
   numpy and matplotlib read below /etc. */
#define LOCAL_N_SYSTEM_DIRS 6
#define LOCAL_N_ETC_FILES 5
extern const char *const local_bwrap_system_dirs[LOCAL_N_SYSTEM_DIRS];
extern const char *const local_bwrap_etc_files[LOCAL_N_ETC_FILES];

/* Whether TZ is a name of a zone, not a path: it is resolved inside and shown
   to cells. */
bool local_bwrap_tz_ok(const char *tz);

/*
 * Adds the arguments, each ended by NUL, but for the command. A pure function
 * of spec, the number of CPUs and TZ.
 */
void local_bwrap_add_args(struct sbuf *args,
                          const struct local_bwrap_spec *spec, int n_cpus,
                          const char *tz);

/*
 * Starts one. on_exit runs from the loop when the outer bubblewrap has ended;
 * the caller then sets ended. Errors: ERR_SANDBOX.
 */
WARN_UNUSED int local_bwrap_start(struct local_bwrap *b, struct loop *loop,
                                  const struct local_bwrap_spec *spec,
                                  proc_exit_fn on_exit, void *ctx,
                                  struct error *err);

/* Finds which process is pid 1 inside. False when there is none (yet). */
bool local_bwrap_find_child(struct local_bwrap *b);

/* SIGINT to the process group of pid 1, so to everything that cells started in
   it. Nothing when pid 1 is not known. */
void local_bwrap_interrupt(struct local_bwrap *b);

/* SIGKILL to pid 1, by which every process inside ends. */
void local_bwrap_kill(struct local_bwrap *b);

/* Ends and reaps everything and closes the descriptors. Waits until the last
   process has ended, at most a second. */
void local_bwrap_fini(struct local_bwrap *b);

#endif
