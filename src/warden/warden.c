/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sandpiper-warden: runs an interpreter at the level "reduced", in the place of
 * bubblewrap, and looks like it from outside:
 *
 *     outer warden      waits; ends with the status of the inner one
 *       inner warden    leads a session and reaps, as pid 1 of a namespace does
 *         interpreter   confined; whatever it starts descends from the inner
 *
 * SIGKILL for the inner one ends everything: what it leaves behind falls to the
 * outer one, which hunts it down. Each of the two ends when the other does, and
 * both when the client does.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "warden/warden_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warden/orders.h"

#define EXIT_FAILED 1
#define END_MS 1000
#define SIGNALLED 128 /* as a shell and bubblewrap say it */

void
warden_fail(const char *what)
{
    if (errno != 0)
        dprintf(STDERR_FILENO, "sandpiper-warden: %s: %s\n", what,
                strerror(errno));
    else
        dprintf(STDERR_FILENO, "sandpiper-warden: %s\n", what);
    _exit(EXIT_FAILED);
}

void
warden_refuse(const char *what)
{
    errno = 0;
    warden_fail(what);
}

static int
code_of(int status)
{
    return WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

/* Its parent is gone already when the number has changed. */
static void
tie_to(pid_t parent, int signo)
{
    if (prctl(PR_SET_PDEATHSIG, signo, 0, 0, 0) != 0)
        warden_fail("ending with the parent");
    if (getppid() != parent)
        _exit(EXIT_FAILED);
}

static void
adopt_orphans(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        warden_fail("adopting orphans");
}

/* Pipes of the interpreter, which must end with it. */
static void
close_pipes(unsigned first_kept, unsigned last_kept)
{
    if (first_kept > 0)
        syscall(SYS_close_range, 0u, first_kept - 1, 0u);
    syscall(SYS_close_range, last_kept + 1, ~0u, 0u);
}

/* --- the interpreter --- */

__attribute__((noreturn)) static void
run_interpreter(const struct warden_orders *orders, pid_t parent)
{
    sigset_t none;

    tie_to(parent, SIGKILL);
    signal(SIGINT, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    warden_confine(orders);
    execve(orders->command[0], orders->command, orders->environment);
    dprintf(STDERR_FILENO, "sandpiper-warden: execvp %s: %s\n",
            orders->command[0], strerror(errno));
    _exit(EXIT_FAILED);
}

/* --- the inner warden --- */

/* Reaps what has ended. True once the interpreter has; *status is its own. */
static bool
reap(pid_t interpreter, int *status)
{
    bool ended = false;
    int one;
    pid_t pid;

    for (pid = waitpid(-1, &one, WNOHANG); pid > 0;
         pid = waitpid(-1, &one, WNOHANG))
        if (pid == interpreter) {
            *status = one;
            ended = true;
        }
    return ended;
}

__attribute__((noreturn)) static void
run_inner(const struct warden_orders *orders, const sigset_t *watched,
          pid_t parent)
{
    pid_t self = getpid();
    pid_t interpreter;
    int status = SIGKILL;
    int signo = 0;

    tie_to(parent, SIGTERM);
    if (setsid() < 0)
        warden_fail("new session");
    adopt_orphans();
    /* It is in the group that an interrupt is for. */
    signal(SIGINT, SIG_IGN);
    interpreter = fork();
    if (interpreter < 0)
        warden_fail("starting the interpreter");
    if (interpreter == 0)
        run_interpreter(orders, self);
    close_pipes(0, 0);
    while (sigwait(watched, &signo) == 0 && signo != SIGTERM &&
           !reap(interpreter, &status))
        ;
    /* Here too, in case the outer one is gone. */
    warden_hunt();
    _exit(code_of(status));
}

/* --- the outer warden --- */

/* It then does what is to be done, also if nobody is here any more to do it. */
static void
ask_to_end(pid_t inner)
{
    kill(inner, SIGTERM);
    kill(inner, SIGCONT);
}

/* Waits until the inner one has ended, and ends it with the client. */
static int
watch(pid_t inner, int signals)
{
    int wait_ms = -1;
    struct pollfd fds[] = {{.fd = WARDEN_FD_LIFE, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    int status = SIGKILL;

    for (;;) {
        int n = poll(fds, 2, wait_ms);

        /* One that is frozen does not hear of it. */
        if (n == 0 || (n < 0 && errno != EINTR))
            kill(inner, SIGKILL);
        if (n > 0 && fds[0].revents != 0) {
            ask_to_end(inner);
            wait_ms = END_MS;
            fds[0].fd = -1;
        }
        if (n > 0 && fds[1].revents != 0 &&
            read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
            info.ssi_signo == SIGTERM) {
            ask_to_end(inner);
            wait_ms = END_MS;
        }
        if (reap(inner, &status))
            return status;
    }
}

int
main(void)
{
    static struct warden_orders orders;
    pid_t self = getpid();
    sigset_t watched;
    pid_t inner;
    int signals;
    int status;

    warden_read_orders(&orders);
    /* What is hunted is found by these lists. */
    if (access("/proc/thread-self/children", R_OK) != 0)
        warden_fail("/proc/thread-self/children");
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    adopt_orphans();
    inner = fork();
    if (inner < 0)
        warden_fail("starting");
    if (inner == 0)
        run_inner(&orders, &watched, self);
    close_pipes(WARDEN_FD_LIFE, WARDEN_FD_LIFE);
    signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        kill(inner, SIGKILL);
        warden_hunt();
        return EXIT_FAILED;
    }
    status = watch(inner, signals);
    warden_hunt();
    return code_of(status);
}
