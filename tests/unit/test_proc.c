/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/proc.h"
#include "base/sbuf.h"

#define MAX_OUTPUT_BYTES (64 * 1024)
#define STRANGER_ID 54321

/* This program again, as a child that can be told what to do. */
#define SELF "/proc/self/exe"

struct scene {
    struct loop *loop;
    struct proc *proc;
    struct proc_exit status;
    int n_exits;
    bool free_in_callback;
};

static int
setup(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));

    if (!s) {
        return -1;
    }
    s->loop = loop_new(NULL);
    *state = s;
    return s->loop ? 0 : -1;
}

/* Every test ends without a child, running or not reaped. */
static int
teardown(void **state)
{
    struct scene *s = *state;
    siginfo_t info;
    int rc;

    proc_free(s->proc);
    loop_free(s->loop);
    free(s);
    rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    return rc == -1 && errno == ECHILD ? 0 : -1;
}

static void
note_exit(void *ctx, const struct proc_exit *status)
{
    struct scene *s = ctx;

    s->status = *status;
    s->n_exits++;
    if (s->free_in_callback) {
        proc_free(s->proc);
        s->proc = NULL;
    }
}

static void
start(struct scene *s, const struct proc_spec *spec)
{
    struct error err = {0};

    s->n_exits = 0;
    s->proc = proc_start(s->loop, spec, note_exit, s, &err);
    if (!s->proc) {
        fail_msg("not started: %s", err.msg);
    }
    assert_true(proc_pid(s->proc) > 1);
    assert_int_equal(s->n_exits, 0);
}

static void
finish(struct scene *s)
{
    loop_run(s->loop);
    assert_int_equal(s->n_exits, 1);
    proc_free(s->proc);
    s->proc = NULL;
}

/* Runs to the end; what goes to descriptor 1 comes into out. */
static void
run_with_output(struct scene *s, struct proc_spec spec, struct sbuf *out)
{
    struct proc_fd fds[8];
    int pipe_fds[2];

    assert_int_equal(io_pipe(pipe_fds, NULL), 0);
    assert_true(spec.n_fds < 8);
    for (size_t i = 0; i < spec.n_fds; i++) {
        fds[i] = spec.fds[i];
    }
    fds[spec.n_fds++] = (struct proc_fd){pipe_fds[1], 1};
    spec.fds = fds;
    start(s, &spec);
    close(pipe_fds[1]);
    assert_int_equal(io_read_all(pipe_fds[0], out, NULL), 0);
    close(pipe_fds[0]);
    finish(s);
}

static void
run_shell(struct scene *s, const char *script, struct sbuf *out)
{
    const char *const argv[] = {"sh", "-c", script, NULL};

    run_with_output(s, (struct proc_spec){.path = "/bin/sh", .argv = argv},
                    out);
}

static void
start_sleeper(struct scene *s, const struct proc_fd *fds, size_t n_fds)
{
    static const char *const argv[] = {"sleep", "1000", NULL};
    const struct proc_spec spec = {
        .path = "/bin/sleep", .argv = argv, .fds = fds, .n_fds = n_fds};

    start(s, &spec);
}

/* ---- the end ---- */

static void
test_exit_status_and_signal(void **state)
{
    static const struct {
        const char *script;
        int expect_code;
        int expect_signal;
    } cases[] = {
        {"exit 0", 0, 0},
        {"exit 7", 7, 0},
        {"exit 255", 255, 0},
        {"kill -TERM $$", -1, SIGTERM},
        {"kill -KILL $$", -1, SIGKILL},
    };
    struct scene *s = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_SBUF struct sbuf out = {0};

        sbuf_init(&out, MAX_OUTPUT_BYTES);
        run_shell(s, cases[i].script, &out);
        assert_int_equal(s->status.code, cases[i].expect_code);
        assert_int_equal(s->status.signal, cases[i].expect_signal);
    }
}

static void
test_exit_when_grandchild_keeps_stdout(void **state)
{
    static const char *const argv[] = {"sh", "-c", "sleep 1000 & echo $!",
                                       NULL};
    struct scene *s = *state;
    struct proc_fd fds[] = {{-1, 1}};
    const struct proc_spec spec = {
        .path = "/bin/sh", .argv = argv, .fds = fds, .n_fds = 1};
    char text[32] = "";
    int pipe_fds[2];
    int pid;

    assert_int_equal(io_pipe(pipe_fds, NULL), 0);
    fds[0].parent_fd = pipe_fds[1];
    start(s, &spec);
    close(pipe_fds[1]);
    finish(s);
    assert_int_equal(s->status.code, 0);
    assert_true(read(pipe_fds[0], text, sizeof(text) - 1) > 0);
    assert_int_equal(sscanf(text, "%d", &pid), 1);
    assert_true(pid > 1);
    kill(pid, SIGKILL);
    /* The end of file says that it is gone. */
    assert_int_equal(read(pipe_fds[0], text, 1), 0);
    close(pipe_fds[0]);
}

static void
test_free_in_callback(void **state)
{
    static const char *const argv[] = {"true", NULL};
    struct scene *s = *state;
    const struct proc_spec spec = {.path = "/bin/true", .argv = argv};

    s->free_in_callback = true;
    start(s, &spec);
    loop_run(s->loop);
    assert_int_equal(s->n_exits, 1);
    assert_null(s->proc);
}

static void
test_free_kills_and_reaps(void **state)
{
    struct scene *s = *state;
    pid_t pid;

    start_sleeper(s, NULL, 0);
    pid = proc_pid(s->proc);
    proc_free(s->proc);
    s->proc = NULL;
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    /* Nothing is left in the loop, either. */
    loop_run(s->loop);
    assert_int_equal(s->n_exits, 0);
    proc_free(NULL);
}

static void
test_free_of_an_ended_child_without_loop(void **state)
{
    static const char *const argv[] = {"true", NULL};
    struct scene *s = *state;
    int fds[2];
    struct proc_fd pass[] = {{-1, 5}};
    const struct proc_spec spec = {
        .path = "/bin/true", .argv = argv, .fds = pass, .n_fds = 1};
    char byte;

    assert_int_equal(io_pipe(fds, NULL), 0);
    pass[0].parent_fd = fds[1];
    start(s, &spec);
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
    /* teardown frees it, and looks for a zombie */
}

static void
test_signal_reaches_and_then_does_nothing(void **state)
{
    struct scene *s = *state;

    start_sleeper(s, NULL, 0);
    proc_signal(s->proc, SIGTERM);
    loop_run(s->loop);
    assert_int_equal(s->n_exits, 1);
    assert_int_equal(s->status.code, -1);
    assert_int_equal(s->status.signal, SIGTERM);
    proc_signal(s->proc, SIGTERM);
}

static void
test_ignored_sigchld(void **state)
{
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    signal(SIGCHLD, SIG_IGN);
    run_shell(s, "exit 3", &out);
    assert_int_equal(s->status.code, 3);
}

/* ---- failures ---- */

static void
test_failed_start_is_reported(void **state)
{
    static const char *const argv[] = {"x", NULL};
    static const struct proc_fd closed[] = {{987654, 4}};
    static const struct proc_rlimit wrong[] = {{RLIMIT_NOFILE, 20, 10}};
    static const struct {
        struct proc_spec spec;
        int expect_errno;
        const char *expect_text;
    } cases[] = {
        {{.path = "/nonexistent/program", .argv = argv}, ENOENT, "executing"},
        {{.path = "/etc/passwd", .argv = argv}, EACCES, "executing"},
        {{.path = "/etc", .argv = argv}, EACCES, "executing"},
        {{.path = "sh", .argv = argv}, 0, "not an absolute path"},
        {{.path = "", .argv = argv}, 0, "not an absolute path"},
        {{.path = "/bin/true", .argv = argv, .fds = closed, .n_fds = 1},
         EBADF,
         "descriptors"},
        {{.path = "/bin/true", .argv = argv, .rlimits = wrong, .n_rlimits = 1},
         EINVAL,
         "limits"},
    };
    struct scene *s = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};

        assert_null(proc_start(s->loop, &cases[i].spec, note_exit, s, &err));
        assert_int_equal(err.code, ERR_IO);
        assert_int_equal(err.sys_errno, cases[i].expect_errno);
        assert_non_null(strstr(err.msg, cases[i].spec.path));
        assert_non_null(strstr(err.msg, cases[i].expect_text));
    }
    loop_run(s->loop);
    assert_int_equal(s->n_exits, 0);
}

static size_t
count_open_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void
test_parent_keeps_no_descriptor(void **state)
{
    static const char *const argv[] = {"x", NULL};
    const struct proc_spec missing = {.path = "/nonexistent", .argv = argv};
    struct scene *s = *state;
    size_t before = count_open_fds();

    assert_null(proc_start(s->loop, &missing, note_exit, s, NULL));
    assert_int_equal(count_open_fds(), before);
    start_sleeper(s, NULL, 0);
    assert_int_equal(count_open_fds(), before + 1);
    proc_free(s->proc);
    s->proc = NULL;
    assert_int_equal(count_open_fds(), before);
}

/* ---- what the child finds ---- */

static void
test_only_chosen_descriptors(void **state)
{
    static const char *const argv[] = {"ls", "/proc/self/fd", NULL};
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    int leaks[40];
    const struct proc_fd fds[] = {{STDOUT_FILENO, 5}, {-1, 700}};
    const struct proc_spec spec = {
        .path = "/bin/ls", .argv = argv, .fds = fds, .n_fds = 2};

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    for (size_t i = 0; i < 40; i++) {
        leaks[i] = fcntl(0, F_DUPFD, i % 2 ? 100 + (int)i * 20 : 3);
        assert_true(leaks[i] >= 0);
    }
    run_with_output(s, spec, &out);
    for (size_t i = 0; i < 40; i++) {
        close(leaks[i]);
    }
    /* 3 is the directory that ls has opened. */
    assert_string_equal(out.data, "0\n1\n2\n3\n5\n700\n");
}

static void
test_unnamed_standard_descriptors_are_null(void **state)
{
    static const char script[] =
        "readlink /proc/$$/fd/0; readlink /proc/$$/fd/2; cat";
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    run_shell(s, script, &out);
    assert_string_equal(out.data, "/dev/null\n/dev/null\n");
}

/* Numbers that go round in a circle, and one that is the parent's number of
   another. */
static void
test_colliding_descriptors(void **state)
{
    static const char *const argv[] = {SELF, "write-fds", NULL};
    struct scene *s = *state;
    struct proc_fd fds[3];
    int pipes[3][2];
    const struct proc_spec spec = {
        .path = SELF, .argv = argv, .fds = fds, .n_fds = 3};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(io_pipe(pipes[i], NULL), 0);
        assert_int_equal(fcntl(20 + i, F_GETFD), -1);
        assert_int_equal(dup2(pipes[i][1], 20 + i), 20 + i);
        close(pipes[i][1]);
        fds[i] = (struct proc_fd){20 + i, 20 + (i + 1) % 3};
    }
    start(s, &spec);
    for (int i = 0; i < 3; i++) {
        close(20 + i);
    }
    finish(s);
    assert_int_equal(s->status.code, 0);
    for (int i = 0; i < 3; i++) {
        char text[8] = "";

        /* The child wrote its own number. */
        assert_int_equal(read(pipes[i][0], text, sizeof(text)), 2);
        assert_int_equal(strtol(text, NULL, 10), 20 + (i + 1) % 3);
        close(pipes[i][0]);
    }
}

/* The child's part of the test above. */
static int
write_own_numbers(void)
{
    for (int fd = 20; fd < 23; fd++) {
        if (dprintf(fd, "%d", fd) != 2) {
            return 1;
        }
    }
    return fcntl(23, F_GETFD) == -1 ? 0 : 1;
}

static void
handle_nothing(int signo)
{
    (void)signo;
}

static void
assert_line(const struct sbuf *out, const char *line)
{
    if (!strstr(out->data, line)) {
        fail_msg("no \"%s\" in: %s", line, out->data);
    }
}

/* Signals 32 and 33, as the kernel counts them in a mask. */
#define LIBRARY_SIGNALS 0x180000000ull

/* The mask behind "SigIgn:" in the text of /proc/PID/status. */
static unsigned long long
ignored_signals(const char *status)
{
    const char *at = strstr(status, "SigIgn:");

    assert_non_null(at);
    return strtoull(at + strlen("SigIgn:"), NULL, 16);
}

static void
test_signals_are_default(void **state)
{
    static const char *const argv[] = {"cat", "/proc/self/status", NULL};
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    sigset_t set;
    sigset_t old;
    sigset_t now;

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGRTMIN + 3, SIG_IGN);
    signal(SIGUSR1, handle_nothing);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    run_with_output(s, (struct proc_spec){.path = "/bin/cat", .argv = argv},
                    &out);
    sigprocmask(SIG_SETMASK, &old, &now);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGRTMIN + 3, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    assert_line(&out, "SigBlk:\t0000000000000000\n");
    /* Not 32 and 33: they are the C library's own, and ignored already where
       make starts its children by posix_spawn. */
    assert_true((ignored_signals(out.data) & ~LIBRARY_SIGNALS) == 0);
    /* The parent's own mask came back. */
    assert_true(sigismember(&now, SIGTERM));
    assert_true(sigismember(&now, SIGUSR2));
    assert_false(sigismember(&now, SIGHUP));
}

static void
test_session_directory_and_umask(void **state)
{
    static const char script[] = "pwd; umask; cat /proc/$$/stat";
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    mode_t mask = umask(0);
    int pid;
    int ppid;
    int group;
    int session;

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    run_shell(s, script, &out);
    umask(mask);
    assert_int_equal(sscanf(out.data, "/\n0077\n%d (sh) %*c %d %d %d", &pid,
                            &ppid, &group, &session),
                     4);
    assert_int_equal(ppid, getpid());
    assert_int_equal(group, pid);
    assert_int_equal(session, pid);
}

static void
test_environment_is_the_given_one(void **state)
{
    static const char *const argv[] = {"env", NULL};
    static const char *const envp[] = {"A=1", "B=two words", NULL};
    struct scene *s = *state;
    struct proc_spec spec = {
        .path = "/usr/bin/env", .argv = argv, .envp = envp};
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    assert_int_equal(setenv("PROC_TEST_LEAK", "1", 1), 0);
    run_with_output(s, spec, &out);
    assert_string_equal(out.data, "A=1\nB=two words\n");
    sbuf_clear(&out);
    spec.envp = NULL;
    run_with_output(s, spec, &out);
    assert_string_equal(out.data, "");
    unsetenv("PROC_TEST_LEAK");
}

static void
test_rlimits(void **state)
{
    static const char *const argv[] = {"cat", "/proc/self/limits", NULL};
    static const struct proc_rlimit limits[] = {{RLIMIT_NOFILE, 50, 60},
                                                {RLIMIT_CORE, 1, 1}};
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    char line[128];

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    run_with_output(s,
                    (struct proc_spec){.path = "/bin/cat",
                                       .argv = argv,
                                       .rlimits = limits,
                                       .n_rlimits = 2},
                    &out);
    snprintf(line, sizeof(line), "%-25s %-20s %-20s ", "Max open files", "50",
             "60");
    assert_line(&out, line);
    snprintf(line, sizeof(line), "%-25s %-20s %-20s ", "Max core file size",
             "1", "1");
    assert_line(&out, line);
}

/* Not even root may raise one in each container. */
static void
test_rlimits_that_cannot_be_raised(void **state)
{
    static const char *const argv[] = {"cat", "/proc/self/limits", NULL};
    static const struct proc_rlimit limits[] = {{RLIMIT_MSGQUEUE, 7, 7}};
    const struct rlimit low = {5, 5};
    const struct rlimit high = {7, 7};
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    const char *expected;
    char line[128];

    assert_int_equal(setrlimit(RLIMIT_MSGQUEUE, &low), 0);
    expected = setrlimit(RLIMIT_MSGQUEUE, &high) == 0 ? "7" : "5";
    sbuf_init(&out, MAX_OUTPUT_BYTES);
    run_with_output(s,
                    (struct proc_spec){.path = "/bin/cat",
                                       .argv = argv,
                                       .rlimits = limits,
                                       .n_rlimits = 1},
                    &out);
    snprintf(line, sizeof(line), "%-25s %-20s %-20s ", "Max msgqueue size",
             expected, expected);
    assert_line(&out, line);
}

/* ---- identity and the parent's end ---- */

static void
test_drop_ids(void **state)
{
    static const char *const argv[] = {"cat", "/proc/self/status", NULL};
    const struct proc_spec spec = {.path = "/bin/cat",
                                   .argv = argv,
                                   .drop_ids = true,
                                   .uid = STRANGER_ID,
                                   .gid = STRANGER_ID + 1};
    const gid_t extra = STRANGER_ID + 2;
    struct scene *s = *state;
    AUTO_SBUF struct sbuf out = {0};
    gid_t groups[64];
    int n_groups;

    sbuf_init(&out, MAX_OUTPUT_BYTES);
    if (geteuid() != 0) {
        struct error err = {0};

        assert_null(proc_start(s->loop, &spec, note_exit, s, &err));
        assert_int_equal(err.sys_errno, EPERM);
        return;
    }
    /* A group to lose. */
    n_groups = getgroups(64, groups);
    assert_true(n_groups >= 0);
    assert_int_equal(setgroups(1, &extra), 0);
    run_with_output(s, spec, &out);
    assert_int_equal(setgroups((size_t)n_groups, groups), 0);
    assert_line(&out, "Uid:\t54321\t54321\t54321\t54321\n");
    assert_line(&out, "Gid:\t54322\t54322\t54322\t54322\n");
    assert_line(&out, "Groups:\t \n");
    assert_line(&out, "CapPrm:\t0000000000000000\n");
    assert_line(&out, "CapEff:\t0000000000000000\n");
}

/* In a process of its own, which ends at once: with its child, if tied. The
   descriptor to_hold is open in the child as long as that lives. */
static void
start_and_die(int to_hold, int tell, bool tied)
{
    static const char *const argv[] = {"sleep", "1000", NULL};
    const struct proc_fd fds[] = {{to_hold, 1}};
    const bool root = geteuid() == 0;
    const struct proc_spec spec = {.path = "/bin/sleep",
                                   .argv = argv,
                                   .fds = fds,
                                   .n_fds = 1,
                                   .drop_ids = root,
                                   .uid = STRANGER_ID,
                                   .gid = STRANGER_ID,
                                   .die_with_parent = tied};
    struct loop *loop = loop_new(NULL);
    struct proc *p = proc_start(loop, &spec, NULL, NULL, NULL);
    pid_t pid = p ? proc_pid(p) : -1;

    _exit(write(tell, &pid, sizeof(pid)) == (ssize_t)sizeof(pid) ? 0 : 1);
}

/* Whether the grandchild has ended by the time the middle process has. */
static bool
dies_with_parent(bool tied)
{
    int hold[2];
    int tell[2];
    pid_t middle;
    pid_t pid = -1;
    int status;
    bool dead;

    assert_int_equal(io_pipe(hold, NULL), 0);
    assert_int_equal(io_pipe(tell, NULL), 0);
    middle = fork();
    assert_true(middle >= 0);
    if (middle == 0) {
        start_and_die(hold[1], tell[1], tied);
    }
    close(hold[1]);
    close(tell[1]);
    assert_int_equal(read(tell[0], &pid, sizeof(pid)), sizeof(pid));
    assert_int_equal(waitpid(middle, &status, 0), middle);
    assert_true(pid > 1);
    /* Its death closes the pipe. An untied one is given a moment to show that
       it stays. */
    dead = poll(&(struct pollfd){.fd = hold[0], .events = POLLIN}, 1,
                tied ? 10000 : 100) == 1;
    if (!dead) {
        kill(pid, SIGKILL);
        poll(&(struct pollfd){.fd = hold[0], .events = POLLIN}, 1, 10000);
    }
    close(hold[0]);
    close(tell[0]);
    return dead;
}

static void
test_die_with_parent(void **state)
{
    (void)state;
    assert_true(dies_with_parent(true));
    assert_false(dies_with_parent(false));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exit_status_and_signal),
        TEST(test_exit_when_grandchild_keeps_stdout),
        TEST(test_free_in_callback),
        TEST(test_free_kills_and_reaps),
        TEST(test_free_of_an_ended_child_without_loop),
        TEST(test_signal_reaches_and_then_does_nothing),
        TEST(test_ignored_sigchld),
        TEST(test_failed_start_is_reported),
        TEST(test_parent_keeps_no_descriptor),
        TEST(test_only_chosen_descriptors),
        TEST(test_unnamed_standard_descriptors_are_null),
        TEST(test_colliding_descriptors),
        TEST(test_signals_are_default),
        TEST(test_session_directory_and_umask),
        TEST(test_environment_is_the_given_one),
        TEST(test_rlimits),
        TEST(test_rlimits_that_cannot_be_raised),
        TEST(test_drop_ids),
        TEST(test_die_with_parent),
    };

    if (argc > 1 && strcmp(argv[1], "write-fds") == 0) {
        return write_own_numbers();
    }
    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
