/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"

/* Descriptors are first copied to numbers from here on, where no number that a
   child may be given is in the way. */
#define FIRST_SPARE_FD 64

/* P_PIDFD of waitid, which is missing in the headers of older systems. */
#define WAIT_PIDFD ((idtype_t)3)

#define EXIT_NOT_STARTED 127

/* The raw calls: glibc's would take locks to change all threads, and the
   32-bit ABIs have two generations of them. */
#ifdef SYS_setresuid32
#define CALL_SETGROUPS SYS_setgroups32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETRESUID SYS_setresuid32
#else
#define CALL_SETGROUPS SYS_setgroups
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETRESUID SYS_setresuid
#endif

enum child_step {
    STEP_SESSION,
    STEP_FDS,
    STEP_DIRECTORY,
    STEP_RLIMITS,
    STEP_IDENTITY,
    STEP_IDENTITY_FINAL,
    STEP_PARENT,
    STEP_EXEC
};

static const char *const step_texts[] = {
    [STEP_SESSION] = "new session",
    [STEP_FDS] = "moving descriptors",
    [STEP_DIRECTORY] = "going to the root directory",
    [STEP_RLIMITS] = "resource limits",
    [STEP_IDENTITY] = "changing user and group",
    [STEP_IDENTITY_FINAL] = "root could be regained",
    [STEP_PARENT] = "ending with the parent",
    [STEP_EXEC] = "executing",
};

/* What the child writes when a step fails; one write of this size is whole. */
struct child_failure {
    int step;
    int sys_errno;
};

/* Everything the child needs, ready before fork. */
struct plan {
    const struct proc_spec *spec; /* borrowed */
    struct proc_fd *fds;          /* owned; sorted by child_fd, has 0, 1, 2 */
    int *spares;                  /* owned; the copies, filled by the child */
    size_t n_fds;
    int first_spare;
    int null_fd;
    int failure_fd;
    pid_t parent;
    char **argv; /* owned array, borrowed strings */
    char **envp; /* owned array, borrowed strings */
};

struct proc {
    pid_t pid;
    int pidfd;
    bool ended;            /* and reaped: the pid may be another's now */
    struct loop_fd *watch; /* NULL once ended */
    proc_exit_fn on_exit;
    void *ctx;
};

/* --- before fork --- */

static int
compare_fds(const void *a, const void *b)
{
    const struct proc_fd *fa = a;
    const struct proc_fd *fb = b;

    return (fa->child_fd > fb->child_fd) - (fa->child_fd < fb->child_fd);
}

static bool
has_child_fd(const struct plan *plan, int child_fd)
{
    for (size_t i = 0; i < plan->n_fds; i++) {
        if (plan->fds[i].child_fd == child_fd) {
            return true;
        }
    }
    return false;
}

static void
plan_fds(struct plan *plan)
{
    const struct proc_spec *spec = plan->spec;
    int last;

    plan->fds = xcalloc(spec->n_fds + 3, sizeof(*plan->fds));
    plan->spares = xcalloc(spec->n_fds + 3, sizeof(*plan->spares));
    for (size_t i = 0; i < spec->n_fds; i++) {
        assert(spec->fds[i].child_fd >= 0 && spec->fds[i].parent_fd >= -1);
        assert(!has_child_fd(plan, spec->fds[i].child_fd));
        plan->fds[plan->n_fds++] = spec->fds[i];
    }
    for (int fd = 0; fd < 3; fd++) {
        if (!has_child_fd(plan, fd)) {
            plan->fds[plan->n_fds++] =
                (struct proc_fd){.parent_fd = -1, .child_fd = fd};
        }
    }
    qsort(plan->fds, plan->n_fds, sizeof(*plan->fds), compare_fds);
    last = plan->fds[plan->n_fds - 1].child_fd;
    plan->first_spare = last < FIRST_SPARE_FD ? FIRST_SPARE_FD : last + 1;
}

/* execve wants pointers to char that it does not write through. */
static char **
copy_strings(const char *const *strings)
{
    size_t n = 0;
    char **copy;

    while (strings && strings[n]) {
        n++;
    }
    copy = xcalloc(n + 1, sizeof(*copy));
    if (n > 0) {
        memcpy(copy, strings, n * sizeof(*copy));
    }
    return copy;
}

static void
plan_fini(struct plan *plan)
{
    free(plan->fds);
    free(plan->spares);
    free(plan->argv);
    free(plan->envp);
    cleanup_close(&plan->null_fd);
    cleanup_close(&plan->failure_fd);
}

/* --- in the child: only async-signal-safe calls --- */

__attribute__((noreturn)) static void
fail_child(const struct plan *plan, enum child_step step, int sys_errno)
{
    struct child_failure failure = {.step = (int)step, .sys_errno = sys_errno};
    ssize_t n = write(plan->failure_fd, &failure, sizeof(failure));

    (void)n;
    _exit(EXIT_NOT_STARTED);
}

/* All of them: those that are ignored would stay so through execve. The two
   that the C library keeps for itself are refused and never ignored. */
static void
reset_signals(void)
{
    struct sigaction sa = {0};
    sigset_t none;

    sa.sa_handler = SIG_DFL;
    for (int signo = 1; signo < NSIG; signo++) {
        sigaction(signo, &sa, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int
close_from_to(unsigned first, unsigned last)
{
    if (first > last) {
        return 0;
    }
    return (int)syscall(SYS_close_range, first, last, 0u);
}

/* Leaves the chosen descriptors and the (close-on-exec) failure pipe. */
static int
close_others(const struct plan *plan)
{
    unsigned next = 0;
    unsigned failure_fd = (unsigned)plan->failure_fd;

    for (size_t i = 0; i < plan->n_fds; i++) {
        unsigned child_fd = (unsigned)plan->fds[i].child_fd;

        if (child_fd > next && close_from_to(next, child_fd - 1) < 0) {
            return -1;
        }
        next = child_fd + 1;
    }
    if (close_from_to(next, failure_fd - 1) < 0) {
        return -1;
    }
    return close_from_to(failure_fd + 1, ~0u);
}

/* Up out of the way first: a child's number may be the parent's number of a
   descriptor that is still to be moved. */
static void
move_fds(struct plan *plan)
{
    int failure_fd =
        fcntl(plan->failure_fd, F_DUPFD_CLOEXEC, plan->first_spare);

    if (failure_fd < 0) {
        fail_child(plan, STEP_FDS, errno);
    }
    plan->failure_fd = failure_fd;
    for (size_t i = 0; i < plan->n_fds; i++) {
        int fd = plan->fds[i].parent_fd;

        plan->spares[i] = fcntl(fd >= 0 ? fd : plan->null_fd, F_DUPFD_CLOEXEC,
                                plan->first_spare);
        if (plan->spares[i] < 0) {
            fail_child(plan, STEP_FDS, errno);
        }
    }
    for (size_t i = 0; i < plan->n_fds; i++) {
        if (dup2(plan->spares[i], plan->fds[i].child_fd) < 0) {
            fail_child(plan, STEP_FDS, errno);
        }
    }
    if (close_others(plan) < 0) {
        fail_child(plan, STEP_FDS, errno);
    }
}

/* Root may raise a hard limit, but not in each container. */
static int
set_highest(const struct proc_rlimit *limit)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)limit->resource, &now) < 0)
        return -1;
    now.rlim_cur =
        now.rlim_max < (rlim_t)limit->soft ? now.rlim_max : (rlim_t)limit->soft;
    return setrlimit((__rlimit_resource_t)limit->resource, &now);
}

static void
set_rlimits(const struct plan *plan)
{
    for (size_t i = 0; i < plan->spec->n_rlimits; i++) {
        const struct proc_rlimit *limit = &plan->spec->rlimits[i];
        struct rlimit value = {.rlim_cur = (rlim_t)limit->soft,
                               .rlim_max = (rlim_t)limit->hard};

        if (setrlimit((__rlimit_resource_t)limit->resource, &value) < 0 &&
            (errno != EPERM || set_highest(limit) < 0)) {
            fail_child(plan, STEP_RLIMITS, errno);
        }
    }
}

static void
drop_ids(const struct plan *plan)
{
    uid_t uid = plan->spec->uid;
    gid_t gid = plan->spec->gid;
    uid_t uids[3];
    gid_t gids[3];

    if (syscall(CALL_SETGROUPS, 0, NULL) < 0 ||
        syscall(CALL_SETRESGID, gid, gid, gid) < 0 ||
        syscall(CALL_SETRESUID, uid, uid, uid) < 0 ||
        getresgid(&gids[0], &gids[1], &gids[2]) < 0 ||
        getresuid(&uids[0], &uids[1], &uids[2]) < 0) {
        fail_child(plan, STEP_IDENTITY, errno);
    }
    for (int i = 0; i < 3; i++) {
        if (uids[i] != uid || gids[i] != gid) {
            fail_child(plan, STEP_IDENTITY, EPERM);
        }
    }
    /* Kept capabilities (securebits) would show here. */
    if (syscall(CALL_SETRESUID, 0, 0, 0) == 0 ||
        syscall(CALL_SETRESUID, -1, 0, -1) == 0) {
        fail_child(plan, STEP_IDENTITY_FINAL, EPERM);
    }
}

/* After the change of identity, which clears the setting. A parent that ended
   before it was made is seen by the new parent's number. */
static void
tie_to_parent(const struct plan *plan)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        fail_child(plan, STEP_PARENT, errno);
    }
    if (getppid() != plan->parent) {
        _exit(EXIT_NOT_STARTED);
    }
}

__attribute__((noreturn)) static void
run_child(struct plan *plan)
{
    /* First: a key typed at the terminal must not reach the child. */
    if (setsid() < 0) {
        fail_child(plan, STEP_SESSION, errno);
    }
    reset_signals();
    move_fds(plan);
    umask(077);
    if (chdir("/") < 0) {
        fail_child(plan, STEP_DIRECTORY, errno);
    }
    /* While still root: hard limits may have to be raised. */
    set_rlimits(plan);
    if (plan->spec->drop_ids) {
        drop_ids(plan);
    }
    if (plan->spec->die_with_parent) {
        tie_to_parent(plan);
    }
    execve(plan->spec->path, plan->argv, plan->envp);
    fail_child(plan, STEP_EXEC, errno);
}

/* --- in the parent --- */

/* An ignored SIGCHLD, which exec passes on, makes the kernel reap children by
   itself: waitid would not find them, and their pids would be others'. */
static void
unignore_children(void)
{
    struct sigaction sa = {0};

    if (sigaction(SIGCHLD, NULL, &sa) == 0 &&
        (sa.sa_handler == SIG_IGN || (sa.sa_flags & SA_NOCLDWAIT))) {
        sa = (struct sigaction){0};
        sa.sa_handler = SIG_DFL;
        sigaction(SIGCHLD, &sa, NULL);
    }
}

/* Waits for the end of the child and reaps it. */
static struct proc_exit
reap(idtype_t type, id_t id)
{
    struct proc_exit status = {.code = -1};
    siginfo_t info = {0};
    int rc;

    do {
        rc = waitid(type, id, &info, WEXITED);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        return status;
    }
    if (info.si_code == CLD_EXITED) {
        status.code = info.si_status;
    } else {
        status.signal = info.si_status;
    }
    return status;
}

static int
open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0u);
}

static void
send_signal(int pidfd, int signo)
{
    /* ESRCH, the only failure possible, means what is wanted: it has ended. */
    syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0u);
}

/* Handlers must not run in the child, where they would write into the pipe of
   the parent's loop: nothing is delivered until they are reset. */
static pid_t
fork_child(struct plan *plan)
{
    sigset_t all;
    sigset_t old;
    pid_t pid;
    int saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = fork();
    if (pid == 0) {
        run_child(plan);
    }
    saved = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    return pid;
}

/* Waits until execve has closed the pipe. True when a step failed. */
static bool
read_failure(int fd, struct child_failure *failure)
{
    ssize_t n;

    do {
        n = read(fd, failure, sizeof(*failure));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*failure);
}

static void
report_failure(const struct plan *plan, const struct child_failure *failure,
               struct error *err)
{
    size_t step = (size_t)failure->step;

    assert(step < LEN(step_texts));
    errno = failure->sys_errno;
    error_fill_errno(err, ERR_IO, "starting %s: %s", plan->spec->path,
                     step_texts[step]);
}

/* Returns the pidfd of a child that has passed execve, or -1. */
static int
launch(struct plan *plan, pid_t *pid, struct error *err)
{
    const char *path = plan->spec->path;
    AUTO_CLOSE int failure_read = -1;
    AUTO_CLOSE int pidfd = -1;
    struct child_failure failure;
    int fds[2];

    plan->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (plan->null_fd < 0) {
        return err_set_errno(err, ERR_IO, "/dev/null");
    }
    if (io_pipe(fds, err) < 0) {
        return -1;
    }
    failure_read = fds[0];
    plan->failure_fd = fds[1];
    *pid = fork_child(plan);
    if (*pid < 0) {
        return err_set_errno(err, ERR_IO, "starting %s", path);
    }
    assert(*pid > 1);
    close_fd(&plan->failure_fd);
    /* Not reaped yet, so the number is still the child's. */
    pidfd = open_pidfd(*pid);
    if (pidfd < 0) {
        error_fill_errno(err, ERR_IO, "starting %s: process descriptor", path);
        kill(*pid, SIGKILL);
        reap(P_PID, (id_t)*pid);
        return -1;
    }
    if (read_failure(failure_read, &failure)) {
        reap(WAIT_PIDFD, (id_t)pidfd);
        report_failure(plan, &failure, err);
        return -1;
    }
    return take_fd(&pidfd);
}

static void
handle_end(void *ctx, int fd, unsigned events)
{
    struct proc *p = ctx;
    struct proc_exit status = reap(WAIT_PIDFD, (id_t)fd);

    (void)events;
    p->ended = true;
    loop_fd_remove(p->watch);
    p->watch = NULL;
    if (p->on_exit) {
        p->on_exit(p->ctx, &status); /* may free p */
    }
}

struct proc *
proc_start(struct loop *loop, const struct proc_spec *spec,
           proc_exit_fn on_exit, void *ctx, struct error *err)
{
    struct plan plan = {
        .spec = spec, .null_fd = -1, .failure_fd = -1, .parent = getpid()};
    struct proc *p;
    pid_t pid;
    int pidfd;

    assert(!spec->drop_ids || spec->uid != 0);
    if (spec->path[0] != '/') {
        error_fill(err, ERR_IO, "starting %s: not an absolute path",
                   spec->path);
        return NULL;
    }
    unignore_children();
    plan_fds(&plan);
    plan.argv = copy_strings(spec->argv);
    plan.envp = copy_strings(spec->envp);
    pidfd = launch(&plan, &pid, err);
    plan_fini(&plan);
    if (pidfd < 0) {
        return NULL;
    }
    p = xcalloc(1, sizeof(*p));
    p->pid = pid;
    p->pidfd = pidfd;
    p->on_exit = on_exit;
    p->ctx = ctx;
    p->watch = loop_add_fd(loop, pidfd, LOOP_READ, handle_end, p);
    return p;
}

pid_t
proc_pid(const struct proc *p)
{
    return p->pid;
}

void
proc_signal(struct proc *p, int signo)
{
    if (!p->ended) {
        send_signal(p->pidfd, signo);
    }
}

void
proc_free(struct proc *p)
{
    if (!p) {
        return;
    }
    if (!p->ended) {
        loop_fd_remove(p->watch);
        send_signal(p->pidfd, SIGKILL);
        reap(WAIT_PIDFD, (id_t)p->pidfd);
    }
    close(p->pidfd);
    free(p);
}
