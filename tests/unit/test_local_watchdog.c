/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_runs_until_it_ends),
        cmocka_unit_test(test_this_process_runs),
    };

    return cmocka_run_group_tests_name("local_watchdog", tests, NULL, NULL);
}
