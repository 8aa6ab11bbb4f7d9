/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"

#define MAX_STEPS 64

/* What the callbacks of one test share; steps is a letter per call. */
struct scene {
    struct loop *loop;
    char steps[MAX_STEPS];
    size_t n_steps;
    struct loop_fd *fds[3];
    struct loop_timer *timers[3];
    struct loop_task *tasks[3];
    int pipes[3][2];
    int count;
    unsigned events;
    int64_t started_us;
};

static int
setup(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));
    struct error err = {0};

    if (!s) {
        return -1;
    }
    s->loop = loop_new(&err);
    for (int i = 0; i < 3; i++) {
        if (pipe2(s->pipes[i], O_CLOEXEC) < 0) {
            return -1;
        }
    }
    *state = s;
    return s->loop ? 0 : -1;
}

static int
teardown(void **state)
{
    struct scene *s = *state;

    loop_free(s->loop);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            if (s->pipes[i][k] >= 0) {
                close(s->pipes[i][k]);
            }
        }
    }
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
put_byte(const struct scene *s, int i)
{
    assert_int_equal(write(s->pipes[i][1], "x", 1), 1);
}

static void
note_a(void *ctx)
{
    note(ctx, 'a');
}

static void
note_b(void *ctx)
{
    note(ctx, 'b');
}

static void
note_c(void *ctx)
{
    note(ctx, 'c');
}

static void
stop_loop(void *ctx)
{
    struct scene *s = ctx;

    note(s, 's');
    loop_stop(s->loop);
}

/* ---- running and stopping ---- */

static void
test_run_returns_without_work(void **state)
{
    struct scene *s = *state;

    loop_run(s->loop);
    assert_string_equal(s->steps, "");
}

static void
test_stop_ends_the_round(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, note_a, s);
    loop_defer(s->loop, stop_loop, s);
    loop_defer(s->loop, note_b, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "as");
    loop_run(s->loop);
    assert_string_equal(s->steps, "asb");
}

static void
test_stop_before_run_counts(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, note_a, s);
    loop_stop(s->loop);
    loop_run(s->loop);
    assert_string_equal(s->steps, "");
    loop_run(s->loop);
    assert_string_equal(s->steps, "a");
}

static void
test_free_with_everything_registered(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, note_a, s);
    loop_add_timer(s->loop, 100000, note_a, s);
    loop_add_timer(s->loop, 100, note_a, s);
    loop_add_fd(s->loop, s->pipes[0][0], LOOP_READ, NULL, NULL);
    assert_non_null(loop_add_signal(s->loop, SIGUSR1, NULL, NULL, NULL));
    /* teardown frees; the sanitizer build counts */
}

static void
test_removing_nothing(void **state)
{
    (void)state;
    loop_fd_remove(NULL);
    loop_timer_remove(NULL);
    loop_task_remove(NULL);
    loop_signal_remove(NULL);
    loop_free(NULL);
}

/* ---- tasks ---- */

static void
test_defer_keeps_order(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, note_c, s);
    loop_defer(s->loop, note_a, s);
    loop_defer(s->loop, note_b, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "cab");
}

static void
defer_again(void *ctx)
{
    struct scene *s = ctx;

    note(s, 'd');
    if (++s->count < 3) {
        loop_defer(s->loop, defer_again, s);
    }
}

/* A task that a task makes waits for the next round: the timer, due all the
   time, has its turn between them. */
static void
test_defer_in_task_is_next_round(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, defer_again, s);
    loop_defer(s->loop, note_b, s);
    loop_add_timer(s->loop, 0, note_a, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "dbadd");
}

static void
remove_tasks(void *ctx)
{
    struct scene *s = ctx;

    note(s, 'r');
    loop_task_remove(s->tasks[0]);
    loop_task_remove(s->tasks[2]);
}

static void
test_task_removed_by_task(void **state)
{
    struct scene *s = *state;

    loop_defer(s->loop, remove_tasks, s);
    s->tasks[0] = loop_defer(s->loop, note_a, s);
    s->tasks[1] = loop_defer(s->loop, note_b, s);
    s->tasks[2] = loop_defer(s->loop, note_c, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "rb");
}

static void
test_task_removed_before_run(void **state)
{
    struct scene *s = *state;

    s->tasks[0] = loop_defer(s->loop, note_a, s);
    s->tasks[1] = loop_defer(s->loop, note_b, s);
    loop_task_remove(s->tasks[1]);
    loop_task_remove(s->tasks[0]);
    loop_defer(s->loop, note_c, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "c");
}

/* ---- timers ---- */

static void
test_timers_in_order_of_time(void **state)
{
    struct scene *s = *state;

    loop_add_timer(s->loop, 12, note_c, s);
    loop_add_timer(s->loop, 1, note_a, s);
    loop_add_timer(s->loop, 6, note_b, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "abc");
}

static void
test_timers_of_one_time_in_order_of_calls(void **state)
{
    struct scene *s = *state;

    loop_add_timer(s->loop, 0, note_b, s);
    loop_add_timer(s->loop, -5, note_a, s);
    loop_add_timer(s->loop, 0, note_c, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "bac");
}

static void
check_late(void *ctx)
{
    struct scene *s = ctx;

    assert_true(clock_now_us() - s->started_us >= 5000);
    note(s, 't');
}

static void
test_timer_is_never_early(void **state)
{
    struct scene *s = *state;

    for (int i = 0; i < 5; i++) {
        s->started_us = clock_now_us();
        loop_add_timer(s->loop, 5, check_late, s);
        loop_run(s->loop);
    }
    assert_string_equal(s->steps, "ttttt");
}

static void
add_timer_again(void *ctx)
{
    struct scene *s = ctx;

    note(s, 't');
    if (++s->count < 3) {
        loop_add_timer(s->loop, 0, add_timer_again, s);
        loop_defer(s->loop, note_a, s);
    }
}

static void
test_timer_added_by_timer_is_next_round(void **state)
{
    struct scene *s = *state;

    loop_add_timer(s->loop, 0, add_timer_again, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "tatat");
}

static void
remove_timers(void *ctx)
{
    struct scene *s = ctx;

    note(s, 'r');
    loop_timer_remove(s->timers[0]);
    loop_timer_remove(s->timers[2]);
}

static void
test_timer_removed_by_timer(void **state)
{
    struct scene *s = *state;

    loop_add_timer(s->loop, 0, remove_timers, s);
    s->timers[0] = loop_add_timer(s->loop, 0, note_a, s);
    s->timers[1] = loop_add_timer(s->loop, 0, note_b, s);
    s->timers[2] = loop_add_timer(s->loop, 60000, note_c, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "rb");
}

struct ordered {
    int64_t *last;
    int64_t delay_ms;
    struct loop_timer *timer;
    int *n_calls;
};

static void
check_order(void *ctx)
{
    struct ordered *o = ctx;

    assert_true(o->delay_ms >= *o->last);
    *o->last = o->delay_ms;
    ++*o->n_calls;
}

/* Many in a scrambled order, every third one removed: the heap stays one. */
static void
test_many_timers_with_removals(void **state)
{
    struct scene *s = *state;
    struct ordered items[200];
    int64_t last = 0;
    int n_calls = 0;

    for (int i = 0; i < 200; i++) {
        items[i].last = &last;
        items[i].n_calls = &n_calls;
        items[i].delay_ms = (i * 73) % 200 / 10;
        items[i].timer =
            loop_add_timer(s->loop, items[i].delay_ms, check_order, &items[i]);
    }
    for (int i = 0; i < 200; i += 3) {
        loop_timer_remove(items[i].timer);
    }
    loop_run(s->loop);
    assert_int_equal(n_calls, 133);
}

static void
test_huge_delay_does_not_wrap(void **state)
{
    struct scene *s = *state;
    struct loop_timer *t = loop_add_timer(s->loop, INT64_MAX, note_a, s);

    loop_add_timer(s->loop, 1, stop_loop, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "s");
    loop_timer_remove(t);
}

/* ---- descriptors ---- */

static void
read_one(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;
    char byte;

    assert_int_equal(events, LOOP_READ);
    assert_int_equal(read(fd, &byte, 1), 1);
    note(s, 'r');
    loop_fd_remove(s->fds[0]);
}

static void
test_fd_removes_itself(void **state)
{
    struct scene *s = *state;

    put_byte(s, 0);
    put_byte(s, 0);
    s->fds[0] = loop_add_fd(s->loop, s->pipes[0][0], LOOP_READ, read_one, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "r");
}

static void
remove_all_fds(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;

    (void)fd;
    (void)events;
    note(s, 'r');
    for (int i = 0; i < 3; i++) {
        loop_fd_remove(s->fds[i]);
    }
}

/* All three are ready in one round; whichever comes first takes all away. */
static void
test_fd_removed_during_dispatch_is_not_called(void **state)
{
    struct scene *s = *state;

    for (int i = 0; i < 3; i++) {
        put_byte(s, i);
        s->fds[i] =
            loop_add_fd(s->loop, s->pipes[i][0], LOOP_READ, remove_all_fds, s);
    }
    loop_run(s->loop);
    assert_string_equal(s->steps, "r");
}

static void
note_and_remove_1(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;

    (void)fd;
    s->events = events;
    note(s, 'n');
    loop_fd_remove(s->fds[1]);
}

/* The number of a removed descriptor comes back as another file: what was
   ready for the old one must not be told to the new one. */
static void
replace_fd_1(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;

    (void)fd;
    (void)events;
    note(s, 'r');
    loop_fd_remove(s->fds[0]);
    loop_fd_remove(s->fds[1]);
    assert_int_equal(dup2(s->pipes[2][0], s->pipes[1][0]), s->pipes[1][0]);
    s->fds[1] =
        loop_add_fd(s->loop, s->pipes[1][0], LOOP_READ, note_and_remove_1, s);
    loop_add_timer(s->loop, 5, stop_loop, s);
}

static void
test_fd_number_reused_during_dispatch(void **state)
{
    struct scene *s = *state;

    put_byte(s, 0);
    put_byte(s, 1);
    s->fds[0] =
        loop_add_fd(s->loop, s->pipes[0][0], LOOP_READ, replace_fd_1, s);
    s->fds[1] =
        loop_add_fd(s->loop, s->pipes[1][0], LOOP_READ, note_and_remove_1, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "rs");
}

static void
pause_fd_1(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;

    (void)fd;
    (void)events;
    note(s, 'p');
    loop_fd_set(s->fds[1], 0);
    loop_fd_remove(s->fds[0]);
    loop_add_timer(s->loop, 5, stop_loop, s);
}

static void
test_fd_paused_during_dispatch_is_not_called(void **state)
{
    struct scene *s = *state;

    put_byte(s, 0);
    put_byte(s, 1);
    s->fds[0] = loop_add_fd(s->loop, s->pipes[0][0], LOOP_READ, pause_fd_1, s);
    s->fds[1] =
        loop_add_fd(s->loop, s->pipes[1][0], LOOP_READ, note_and_remove_1, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "ps");
    loop_fd_set(s->fds[1], LOOP_READ);
    loop_run(s->loop);
    assert_string_equal(s->steps, "psn");
}

struct hangup_case {
    const char *name;
    int end; /* 0: reader stays, its peer closes; 1: writer stays */
    unsigned asked;
    unsigned expect_events;
};

static void
test_hangup_is_reported_as_asked(void **state)
{
    static const struct hangup_case cases[] = {
        {"reader asks to read", 0, LOOP_READ, LOOP_READ},
        {"reader asks nothing", 0, 0, LOOP_READ},
        {"reader asks both", 0, LOOP_READ | LOOP_WRITE, LOOP_READ | LOOP_WRITE},
        {"writer asks to write", 1, LOOP_WRITE, LOOP_WRITE},
        {"writer asks nothing", 1, 0, LOOP_READ},
    };
    struct scene *s = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        close(fds[1 - cases[i].end]);
        s->fds[1] = loop_add_fd(s->loop, fds[cases[i].end], cases[i].asked,
                                note_and_remove_1, s);
        s->events = 99;
        loop_run(s->loop);
        assert_int_equal(s->events, cases[i].expect_events);
        close(fds[cases[i].end]);
    }
    assert_string_equal(s->steps, "nnnnn");
}

static void
test_write_event(void **state)
{
    struct scene *s = *state;

    s->fds[1] =
        loop_add_fd(s->loop, s->pipes[0][1], LOOP_WRITE, note_and_remove_1, s);
    loop_run(s->loop);
    assert_int_equal(s->events, LOOP_WRITE);
}

static void
add_many_fds(void *ctx, int fd, unsigned events)
{
    struct scene *s = ctx;
    struct loop_fd *added[40];

    (void)fd;
    (void)events;
    note(s, 'm');
    /* The loop's arrays grow while it walks over them. */
    for (size_t i = 0; i < 40; i++) {
        added[i] = loop_add_fd(s->loop, s->pipes[1][0], LOOP_READ, read_one, s);
    }
    for (size_t i = 0; i < 40; i++) {
        loop_fd_remove(added[i]);
    }
    loop_fd_remove(s->fds[0]);
}

static void
test_fds_added_during_dispatch(void **state)
{
    struct scene *s = *state;

    put_byte(s, 0);
    put_byte(s, 2);
    s->fds[0] =
        loop_add_fd(s->loop, s->pipes[0][0], LOOP_READ, add_many_fds, s);
    s->fds[1] =
        loop_add_fd(s->loop, s->pipes[2][0], LOOP_READ, note_and_remove_1, s);
    loop_run(s->loop);
    assert_string_equal(s->steps, "mn");
}

/* ---- waiting ---- */

static void
ignore_it(int signo)
{
    (void)signo;
}

/* The process's own timer interrupts poll again and again. */
static void
test_interrupted_poll_goes_on(void **state)
{
    struct scene *s = *state;
    timer_t id;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGUSR2};
    struct itimerspec every = {.it_interval = {.tv_nsec = 1000000},
                               .it_value = {.tv_nsec = 1000000}};
    struct sigaction sa = {0};

    sa.sa_handler = ignore_it;
    assert_int_equal(sigaction(SIGUSR2, &sa, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &id), 0);
    assert_int_equal(timer_settime(id, 0, &every, NULL), 0);
    s->started_us = clock_now_us();
    loop_add_timer(s->loop, 20, check_late, s);
    loop_run(s->loop);
    assert_int_equal(timer_delete(id), 0);
    signal(SIGUSR2, SIG_DFL);
    assert_string_equal(s->steps, "t");
}

static int64_t
used_us(void)
{
    struct timespec ts;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
test_waiting_uses_no_processor(void **state)
{
    struct scene *s = *state;
    int64_t before_us = used_us();

    loop_add_timer(s->loop, 60, note_a, s);
    loop_run(s->loop);
    assert_true(used_us() - before_us < 30000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_run_returns_without_work),
        TEST(test_stop_ends_the_round),
        TEST(test_stop_before_run_counts),
        TEST(test_free_with_everything_registered),
        TEST(test_removing_nothing),
        TEST(test_defer_keeps_order),
        TEST(test_defer_in_task_is_next_round),
        TEST(test_task_removed_by_task),
        TEST(test_task_removed_before_run),
        TEST(test_timers_in_order_of_time),
        TEST(test_timers_of_one_time_in_order_of_calls),
        TEST(test_timer_is_never_early),
        TEST(test_timer_added_by_timer_is_next_round),
        TEST(test_timer_removed_by_timer),
        TEST(test_many_timers_with_removals),
        TEST(test_huge_delay_does_not_wrap),
        TEST(test_fd_removes_itself),
        TEST(test_fd_removed_during_dispatch_is_not_called),
        TEST(test_fd_number_reused_during_dispatch),
        TEST(test_fd_paused_during_dispatch_is_not_called),
        TEST(test_hangup_is_reported_as_asked),
        TEST(test_write_event),
        TEST(test_fds_added_during_dispatch),
        TEST(test_interrupted_poll_goes_on),
        TEST(test_waiting_uses_no_processor),
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
