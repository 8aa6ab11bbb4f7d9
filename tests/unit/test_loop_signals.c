/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"

#define MAX_STEPS 64

/* What the callbacks of one test share; steps is a letter per call. */
struct scene {
    struct loop *loop;
    char steps[MAX_STEPS];
    size_t n_steps;
    struct loop_signal *signals[3];
    int count;
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

static int
teardown(void **state)
{
    struct scene *s = *state;

    loop_free(s->loop);
    free(s);
    return 0;
}

static void
note(struct scene *s, char step)
{
    assert_true(s->n_steps < MAX_STEPS - 1);
    s->steps[s->n_steps++] = step;
}

static void
note_signal(void *ctx, int signo)
{
    struct scene *s = ctx;

    note(s, signo == SIGUSR1 ? '1' : signo == SIGUSR2 ? '2' : 'h');
    if (--s->count == 0) {
        for (int i = 0; i < 3; i++) {
            loop_signal_remove(s->signals[i]);
        }
    }
}

static void
catch_three(struct scene *s)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGHUP};

    for (int i = 0; i < 3; i++) {
        s->signals[i] =
            loop_add_signal(s->loop, numbers[i], note_signal, s, NULL);
        assert_non_null(s->signals[i]);
    }
}

static void
test_signals_in_order_of_arrival(void **state)
{
    struct scene *s = *state;

    catch_three(s);
    s->count = 3;
    raise(SIGHUP);
    raise(SIGUSR2);
    raise(SIGUSR1);
    loop_run(s->loop);
    assert_string_equal(s->steps, "h21");
}

static void
test_signal_repeated_is_one_call(void **state)
{
    struct scene *s = *state;

    catch_three(s);
    s->count = 2;
    for (int i = 0; i < 1000; i++) {
        raise(SIGUSR1);
    }
    raise(SIGUSR2);
    loop_run(s->loop);
    assert_string_equal(s->steps, "12");
}

static void
raise_again(void *ctx, int signo)
{
    struct scene *s = ctx;

    note(s, '1');
    if (++s->count < 3) {
        raise(signo);
    } else {
        loop_signal_remove(s->signals[0]);
    }
}

static void
test_signal_during_its_callback_is_not_lost(void **state)
{
    struct scene *s = *state;

    s->signals[0] = loop_add_signal(s->loop, SIGUSR1, raise_again, s, NULL);
    raise(SIGUSR1);
    loop_run(s->loop);
    assert_string_equal(s->steps, "111");
}

static void
stop_by_signal(void *ctx, int signo)
{
    struct scene *s = ctx;

    (void)signo;
    note(s, 's');
    loop_stop(s->loop);
}

static void
test_signal_behind_a_stop_is_kept(void **state)
{
    struct scene *s = *state;

    s->signals[0] = loop_add_signal(s->loop, SIGUSR1, stop_by_signal, s, NULL);
    s->signals[1] = loop_add_signal(s->loop, SIGUSR2, note_signal, s, NULL);
    s->count = 1;
    raise(SIGUSR1);
    raise(SIGUSR2);
    loop_run(s->loop);
    assert_string_equal(s->steps, "s");
    loop_run(s->loop);
    assert_string_equal(s->steps, "s2");
}

static void
ignore_it(int signo)
{
    (void)signo;
}

static void
test_signal_disposition_comes_back(void **state)
{
    struct scene *s = *state;
    struct sigaction before = {0};
    struct sigaction now;

    before.sa_handler = ignore_it;
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    s->signals[0] = loop_add_signal(s->loop, SIGUSR1, note_signal, s, NULL);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler != ignore_it);
    assert_true(now.sa_flags & SA_RESTART);
    loop_signal_remove(s->signals[0]);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == ignore_it);

    /* loop_free gives it back, too. */
    s->signals[0] = loop_add_signal(s->loop, SIGUSR1, note_signal, s, NULL);
    assert_non_null(s->signals[0]);
    loop_free(s->loop);
    s->loop = NULL;
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == ignore_it);
    signal(SIGUSR1, SIG_DFL);
}

static void
test_signals_belong_to_one_loop(void **state)
{
    struct scene *s = *state;
    struct error err = {0};
    struct loop *other = loop_new(NULL);
    struct loop_signal *sig;

    s->signals[0] = loop_add_signal(s->loop, SIGUSR1, note_signal, s, NULL);
    assert_non_null(s->signals[0]);
    assert_null(loop_add_signal(other, SIGUSR2, note_signal, s, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_null(loop_add_signal(s->loop, SIGUSR1, note_signal, s, &err));
    loop_signal_remove(s->signals[0]);
    sig = loop_add_signal(other, SIGUSR2, note_signal, s, &err);
    assert_non_null(sig);
    loop_free(other);
}

static void
test_signal_that_cannot_be_caught(void **state)
{
    struct scene *s = *state;
    struct error err = {0};

    assert_null(loop_add_signal(s->loop, SIGKILL, note_signal, s, &err));
    assert_int_equal(err.code, ERR_IO);
    loop_run(s->loop);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_signals_in_order_of_arrival),
        TEST(test_signal_repeated_is_one_call),
        TEST(test_signal_during_its_callback_is_not_lost),
        TEST(test_signal_behind_a_stop_is_kept),
        TEST(test_signal_disposition_comes_back),
        TEST(test_signals_belong_to_one_loop),
        TEST(test_signal_that_cannot_be_caught),
    };

    return cmocka_run_group_tests_name("loop_signals", tests, NULL, NULL);
}
