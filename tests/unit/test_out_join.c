/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A burst of text costs the terminal few writes. A pipe that keeps writes apart
 * stands for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT */
#endif
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/out.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/sbuf.h"

#define N_PIECES 400

struct burst {
    struct loop *loop;
    struct out *out;
    int fds[2];
    struct out_stream stream;
    int n_said;
    int n_writes;
    int n_rounds;
    struct sbuf got;
};

static void
open_burst(struct burst *b)
{
    *b = (struct burst){.loop = loop_new(NULL)};
    assert_non_null(b->loop);
    assert_int_equal(pipe2(b->fds, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
    sbuf_init(&b->got, 1u << 20);
    b->out = out_new(&(struct out_config){
        .loop = b->loop,
        .main_fd = b->fds[1],
        .terminal = true,
        .sequences = true,
        .unicode = true,
    });
}

static void
close_burst(struct burst *b)
{
    out_free(b->out);
    loop_free(b->loop);
    close(b->fds[0]);
    close(b->fds[1]);
    sbuf_fini(&b->got);
}

/* Each read takes what one write gave. */
static void
take(struct burst *b)
{
    char bytes[8192];
    ssize_t n;

    while ((n = read(b->fds[0], bytes, sizeof(bytes))) > 0) {
        b->n_writes++;
        sbuf_add(&b->got, bytes, (size_t)n);
    }
}

static void
on_round(void *ctx)
{
    struct burst *b = ctx;

    take(b);
    if (b->n_said == N_PIECES)
        return;
    out_text(b->out, &b->stream, "x", 1);
    b->n_said++;
    loop_defer(b->loop, on_round, b);
}

static void
test_burst_is_joined(void **state)
{
    struct burst b;
    int64_t start_ms;
    int64_t took_ms;

    (void)state;
    open_burst(&b);
    start_ms = clock_now_ms();
    loop_defer(b.loop, on_round, &b);
    loop_run(b.loop);
    take(&b);
    took_ms = clock_now_ms() - start_ms;
    assert_int_equal(b.got.len, N_PIECES);
    /* One at once, then one every 5 ms, and what was left. */
    if (b.n_writes > took_ms / 5 + 3)
        fail_msg("%d writes in %d ms", b.n_writes, (int)took_ms);
    close_burst(&b);
}

static void
on_countdown(void *ctx)
{
    struct burst *b = ctx;

    if (--b->n_rounds == 0)
        loop_stop(b->loop);
    else
        loop_defer(b->loop, on_countdown, b);
}

static void
run_rounds(struct burst *b, int n)
{
    b->n_rounds = n;
    loop_defer(b->loop, on_countdown, b);
    loop_run(b->loop);
}

static void
do_nothing(void *ctx)
{
    (void)ctx;
}

/* A piece that follows no other waits for none: a few rounds of the loop and no
   timer write it. */
static void
test_lone_piece_is_written_at_once(void **state)
{
    struct burst b;

    (void)state;
    open_burst(&b);
    for (int i = 1; i <= 3; i++) {
        out_text(b.out, &b.stream, "x", 1);
        run_rounds(&b, 4);
        take(&b);
        assert_int_equal(b.n_writes, i);
        loop_add_timer(b.loop, 6, do_nothing, NULL);
        loop_run(b.loop);
    }
    assert_string_equal(b.got.data, "xxx");
    close_burst(&b);
}

/* Much at a time is no burst of little pieces: it does not wait. */
static void
test_much_does_not_wait(void **state)
{
    static const char line[] = "a line of some length that is said often\n";
    struct burst b;
    int64_t start_ms;

    (void)state;
    open_burst(&b);
    out_text(b.out, &b.stream, "x", 1);
    loop_run(b.loop);
    start_ms = clock_now_ms();
    for (int i = 0; i < 200; i++)
        out_text(b.out, &b.stream, line, strlen(line));
    loop_run(b.loop);
    take(&b);
    assert_int_equal(b.got.len, 1 + 200 * strlen(line));
    assert_true(b.n_writes >= 2);
    assert_true(clock_now_ms() - start_ms < 10000);
    close_burst(&b);
}

/* What waits for more is not lost when the program ends. */
static void
test_end_does_not_wait(void **state)
{
    struct burst b;

    (void)state;
    open_burst(&b);
    out_text(b.out, &b.stream, "one", 3);
    loop_run(b.loop);
    out_text(b.out, &b.stream, "two", 3);
    out_free(b.out);
    take(&b);
    assert_string_equal(b.got.data, "onetwo");
    b.out = NULL;
    close_burst(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_is_joined),
        cmocka_unit_test(test_lone_piece_is_written_at_once),
        cmocka_unit_test(test_much_does_not_wait),
        cmocka_unit_test(test_end_does_not_wait),
    };

    return cmocka_run_group_tests_name("out_join", tests, NULL, NULL);
}
