/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/local_watchdog_internal.h"

static void
test_a_process_runs_until_it_ends(void **state)
{
    siginfo_t info;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_true(local_watchdog_is_running(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    /* It has ended and is still there. */
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(local_watchdog_is_running(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(local_watchdog_is_running(pid));
}

static void
test_this_process_runs(void **state)
{
    (void)state;
    assert_true(local_watchdog_is_running(getpid()));
}

static void
spin_for_ever(void)
{
    volatile unsigned n = 0;

    for (;;)
        n++;
}

/* A process whose child is in a session of its own and computes. */
static pid_t
make_tree(pid_t *below)
{
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pid_t child = fork();

        if (child == 0) {
            pid_t me = getpid();

            setsid();
            (void)!write(fds[1], &me, sizeof(me));
            spin_for_ever();
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(fds[0], below, sizeof(*below)), sizeof(*below));
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static char
state_of(pid_t pid)
{
    char path[64];
    char name[256];
    char state = '-';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return state;
    if (fscanf(file, "%*d (%255[^)]) %c", name, &state) != 2)
        state = '-';
    fclose(file);
    return state;
}

/* The test's own time limit ends it otherwise. */
static void
suspend(pid_t pid)
{
    while (!local_watchdog_suspend(pid))
        usleep(1000);
}

static void
wait_until_it_runs(pid_t pid)
{
    while (state_of(pid) == 'T')
        usleep(1000);
}

static void
test_suspend_and_resume_of_a_tree(void **state)
{
    pid_t below = 0;
    pid_t pid = make_tree(&below);
    bool is_busy = false;

    (void)state;
    assert_true(local_watchdog_memory(pid) > 0);
    assert_int_equal(local_watchdog_count(pid), 2);
    for (int i = 0; i < 3; i++) {
        assert_true(local_watchdog_can_suspend(pid, below, &is_busy));
        assert_true(is_busy);
        suspend(pid);
        assert_int_equal(state_of(pid), 'T');
        assert_int_equal(state_of(below), 'T');
        local_watchdog_resume(pid);
        wait_until_it_runs(pid);
        wait_until_it_runs(below);
    }
    suspend(pid);
    kill(below, SIGKILL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void
test_suspend_of_what_cannot_be_seen(void **state)
{
    pid_t below = 0;
    pid_t pid = make_tree(&below);
    bool is_busy = false;

    (void)state;
    /* Nothing is stopped unless all of it can be. */
    assert_false(local_watchdog_can_suspend(0, 0, &is_busy));
    assert_false(local_watchdog_can_suspend(1, 0, &is_busy));
    assert_false(local_watchdog_can_suspend(pid, getpid(), &is_busy));
    assert_false(local_watchdog_can_suspend(below, 0, &is_busy));
    assert_true(local_watchdog_suspend(0));
    assert_true(state_of(pid) != 'T');
    assert_true(state_of(below) != 'T');
    assert_int_equal(local_watchdog_memory(0), 0);
    kill(below, SIGKILL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_runs_until_it_ends),
        cmocka_unit_test(test_this_process_runs),
        cmocka_unit_test(test_suspend_and_resume_of_a_tree),
        cmocka_unit_test(test_suspend_of_what_cannot_be_seen),
    };

    return cmocka_run_group_tests_name("local_watchdog", tests, NULL, NULL);
}
