/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The program's own words, places that are held, the live line, and readers
 * that are slow or gone.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/out.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/sbuf.h"
#include "unit/out_screen.h"

/* --- the program's own words --- */

static void
test_words(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &full);
    out_say(s.out, OUT_MAIN, "> \033[1m\n");
    out_sayf(s.out, OUT_SIDE, "%d%s\n", 7, "\a");
    out_line(s.out, OUT_MAIN, STYLE_DIM, "x");
    out_line(s.out, OUT_MAIN, STYLE_CODE, "y");
    out_style(s.out, OUT_MAIN, STYLE_FAILURE);
    out_inline(s.out, OUT_MAIN, SANITIZE_CELL, "a\nb", 3);
    out_style(s.out, OUT_MAIN, STYLE_PLAIN);
    out_ready(s.out, OUT_MAIN, "\033[5Gz\n", 6);
    assert_string_equal(settle(&s), "> ^[[1m\n7^G\n\033[0;2mx\033[0m\ny\n"
                                    "\033[0;1;31ma\\nb\033[0m\033[5Gz\n");
    close_screen(&s);
}

static void
test_plain_channels(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &plain);
    out_say(s.out, OUT_MAIN, "main\n");
    out_say(s.out, OUT_SIDE, "side\n");
    /* At once: no loop is needed. */
    read_ready(s.fds[0], &s.got);
    read_ready(s.side_fds[0], &s.side);
    assert_string_equal(s.got.data, "main\n");
    assert_string_equal(s.side.data, "side\n");
    assert_int_equal(out_queued(s.out), 0);
    out_set_size(s.out, 132, 50);
    assert_int_equal(out_columns(s.out), 80);
    assert_int_equal(out_rows(s.out), 24);
    close_screen(&s);
}

static void
test_size(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &full);
    assert_int_equal(out_columns(s.out), 80);
    out_set_size(s.out, 132, 50);
    assert_int_equal(out_columns(s.out), 132);
    assert_int_equal(out_rows(s.out), 50);
    out_set_size(s.out, 3, 0);
    assert_int_equal(out_columns(s.out), 20);
    assert_int_equal(out_rows(s.out), 1);
    close_screen(&s);
}

static void
ignore(void *ctx)
{
    (void)ctx;
}

/* Every call there is, with escapes wherever bytes can be handed in. */
static void
call_all(struct out *out)
{
    static const char evil[] = "\033[31mE\033]0;t\007\033Pq\033\\\rx\n";
    unsigned place = out_hold(out);

    for (int ch = OUT_MAIN; ch <= OUT_SIDE; ch++) {
        enum out_channel channel = (enum out_channel)ch;

        out_say(out, channel, evil);
        out_sayf(out, channel, "%s", evil);
        out_ready(out, channel, evil, strlen(evil));
        for (int style = 0; style <= STYLE_PROMPT; style++) {
            out_style(out, channel, (enum style)style);
            out_line(out, channel, (enum style)style, evil);
        }
        for (int context = 0; context <= SANITIZE_NAME; context++) {
            struct out_stream s = {.context = (enum sanitize_context)context,
                                   .channel = channel,
                                   .style = STYLE_FAILURE,
                                   .margin = "| ",
                                   .shift_marks = true,
                                   .max_columns = 4};

            out_text(out, &s, evil, strlen(evil));
            out_text_end(out, &s);
            if (context >= SANITIZE_CELL)
                out_inline(out, channel, s.context, evil, strlen(evil));
        }
    }
    for (int id = 0; id <= SEQ_ST; id++)
        out_seq(out, (enum seq)id);
    out_status(out, evil);
    out_status(out, "second");
    out_editor(out, evil, strlen(evil));
    out_set_prompt_hooks(out, ignore, ignore, NULL);
    out_say(out, OUT_MAIN, "behind the prompt\n");
    out_fill_picture(out, place, "\033Pq\033\\", 5);
    out_fill_line(out, out_hold(out), STYLE_WARNING, evil);
    out_fill_line(out, out_hold(out), STYLE_WARNING, NULL);
    out_set_prompt_hooks(out, NULL, NULL, NULL);
    out_status(out, NULL);
}

static void
test_no_sequences_means_not_one_escape(void **state)
{
    const struct screen_kind *kinds[] = {&dumb, &plain};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct screen s;

        open_screen(&s, kinds[i]);
        assert_false(out_has_sequences(s.out));
        assert_false(out_has_colour(s.out));
        call_all(s.out);
        settle(&s);
        assert_true(s.got.len > 300);
        assert_null(memchr(s.got.data, '\033', s.got.len));
        if (s.side.len > 0)
            assert_null(memchr(s.side.data, '\033', s.side.len));
        assert_int_equal(s.side.len > 0, !kinds[i]->terminal);
        close_screen(&s);
    }
}

/* Without colour the cursor may be moved, but nothing is bold or dim. What is
   handed in ready is the caller's. */
static void
test_no_colour_means_no_rendition(void **state)
{
    struct screen s;
    struct out_stream stream = {
        .context = SANITIZE_PROGRAM, .style = STYLE_FAILURE, .margin = "| "};

    (void)state;
    open_screen(&s, &mono);
    out_line(s.out, OUT_MAIN, STYLE_WARNING, "w");
    out_style(s.out, OUT_MAIN, STYLE_DIM);
    out_seq(s.out, SEQ_BOLD);
    out_seq(s.out, SEQ_SGR_RESET);
    out_text(s.out, &stream, "\033[1;31mx\ry", 11);
    out_text_end(s.out, &stream);
    out_fill_line(s.out, out_hold(s.out), STYLE_WARNING, "p");
    assert_string_equal(settle(&s), "w\n| x" ERASE "| y\np\n");
    close_screen(&s);
}

/* --- places --- */

static void
test_hold_keeps_the_order(void **state)
{
    const struct screen_kind *kinds[] = {&mono, &plain};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct screen s;
        unsigned a;
        unsigned b;

        open_screen(&s, kinds[i]);
        out_say(s.out, OUT_MAIN, "1\n");
        a = out_hold(s.out);
        out_say(s.out, OUT_MAIN, "2\n");
        b = out_hold(s.out);
        out_say(s.out, OUT_MAIN, "3\n");
        assert_int_not_equal(a, 0);
        assert_int_not_equal(a, b);
        assert_string_equal(settle(&s), "1\n");
        out_fill_line(s.out, b, STYLE_PLAIN, "b");
        assert_string_equal(settle(&s), "");
        out_fill_line(s.out, a, STYLE_PLAIN, "a\nA");
        assert_string_equal(settle(&s), "a\\nA\n2\nb\n3\n");
        close_screen(&s);
    }
}

static void
test_hold_picture(void **state)
{
    struct screen s;
    unsigned place;

    (void)state;
    open_screen(&s, &full);
    place = out_hold(s.out);
    out_say(s.out, OUT_MAIN, "caption\n");
    out_fill_picture(s.out, place, "\033Pq#1~\033\\", 8);
    assert_string_equal(settle(&s), "\033Pq#1~\033\\\r\ncaption\n");
    close_screen(&s);
}

static void
test_free_fills_what_is_left(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &full);
    (void)out_hold(s.out);
    out_say(s.out, OUT_MAIN, "end\n");
    assert_string_equal(settle(&s), "");
    out_free(s.out);
    s.out = out_new(&(struct out_config){.main_fd = -1, .side_fd = -1});
    read_ready(s.fds[0], &s.got);
    assert_string_equal(s.got.data, "end\n");
    close_screen(&s);
}

/* --- the live line --- */

static void
test_status(void **state)
{
    struct screen s;
    unsigned place;

    (void)state;
    open_screen(&s, &mono);
    out_status(s.out, "one");
    assert_string_equal(settle(&s), ERASE "one");
    out_status(s.out, "one");
    assert_string_equal(settle(&s), "");
    out_status(s.out, "two");
    assert_string_equal(settle(&s), ERASE "two");
    /* Erased before, written again behind; once for a round. */
    out_say(s.out, OUT_MAIN, "a\n");
    out_say(s.out, OUT_MAIN, "b\n");
    assert_string_equal(settle(&s), ERASE "a\nb\n" ERASE "two");
    /* Not behind a line that is not ended. */
    out_say(s.out, OUT_MAIN, "open");
    assert_string_equal(settle(&s), ERASE "open");
    out_status(s.out, "three");
    assert_string_equal(settle(&s), "");
    out_say(s.out, OUT_MAIN, "\n");
    assert_string_equal(settle(&s), "\n" ERASE "three");
    /* Not behind a place. */
    place = out_hold(s.out);
    out_status(s.out, "four");
    assert_string_equal(settle(&s), ERASE);
    out_fill_line(s.out, place, STYLE_PLAIN, NULL);
    assert_string_equal(settle(&s), ERASE "four");
    /* Not with a prompt. */
    out_set_prompt_hooks(s.out, ignore, ignore, NULL);
    out_status(s.out, "five");
    assert_string_equal(settle(&s), ERASE);
    out_set_prompt_hooks(s.out, NULL, NULL, NULL);
    assert_string_equal(settle(&s), ERASE "five");
    out_status(s.out, NULL);
    assert_string_equal(settle(&s), ERASE);
    out_say(s.out, OUT_MAIN, "c\n");
    assert_string_equal(settle(&s), "c\n");
    close_screen(&s);
}

static void
test_status_is_cut(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &mono);
    out_set_size(s.out, 20, 10);
    out_status(s.out, "0123456789012345678901234");
    assert_string_equal(settle(&s), ERASE "0123456789012345678");
    close_screen(&s);
}

static void
test_free_erases_the_status(void **state)
{
    struct screen s;

    (void)state;
    open_screen(&s, &mono);
    out_status(s.out, "one");
    settle(&s);
    out_free(s.out);
    s.out = out_new(&(struct out_config){.main_fd = -1, .side_fd = -1});
    sbuf_clear(&s.got);
    read_ready(s.fds[0], &s.got);
    assert_string_equal(s.got.data, ERASE);
    close_screen(&s);
}

/* --- the prompt --- */

static void
clear_prompt(void *ctx)
{
    out_editor(ctx, "<", 1);
}

static void
draw_prompt(void *ctx)
{
    out_editor(ctx, ">", 1);
}

static void
test_prompt_hooks_share_a_round(void **state)
{
    struct screen s;
    struct out_stream stream = {.context = SANITIZE_PROGRAM};

    (void)state;
    open_screen(&s, &mono);
    out_editor(s.out, ">", 1);
    out_set_prompt_hooks(s.out, clear_prompt, draw_prompt, s.out);
    assert_string_equal(settle(&s), ">");
    out_say(s.out, OUT_MAIN, "a\n");
    out_line(s.out, OUT_SIDE, STYLE_DIM, "b");
    out_text(s.out, &stream, "c\n", 2);
    out_text_end(s.out, &stream);
    assert_string_equal(settle(&s), "<a\nb\nc\n>");
    out_ready(s.out, OUT_MAIN, "d\n", 2);
    assert_string_equal(settle(&s), "<d\n>");
    /* Questions to the terminal are not seen. */
    out_seq(s.out, SEQ_QUERY_DA1);
    assert_string_equal(settle(&s), "\033[c");
    /* An open line is ended before the prompt comes back. */
    out_say(s.out, OUT_MAIN, "e");
    assert_string_equal(settle(&s), "<e");
    out_say(s.out, OUT_MAIN, "\n");
    assert_string_equal(settle(&s), "\n>");
    /* The one that was cleared is not drawn when it is gone. */
    out_say(s.out, OUT_MAIN, "f\n");
    out_set_prompt_hooks(s.out, NULL, NULL, NULL);
    assert_string_equal(settle(&s), "<f\n");
    close_screen(&s);
}

/* --- the queue --- */

struct reader {
    struct screen *s;
    struct loop_fd *fd;
    size_t total;
    size_t n_low;
    size_t queued_at_low;
};

static void
on_low(void *ctx)
{
    struct reader *r = ctx;

    r->n_low++;
    r->queued_at_low = out_queued(r->s->out);
}

static void
on_read(void *ctx, int fd, unsigned events)
{
    struct reader *r = ctx;
    char buf[10000];
    ssize_t n = read(fd, buf, sizeof(buf));

    (void)events;
    if (n > 0)
        sbuf_add(&r->s->got, buf, (size_t)n);
    if (n <= 0 || r->s->got.len == r->total) {
        loop_fd_remove(r->fd);
        r->fd = NULL;
    }
}

static void
test_queue_is_drained_by_the_loop(void **state)
{
    struct screen s;
    static char data[1000000];
    struct reader r = {.s = &s, .total = sizeof(data)};

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = i % 100 == 99 ? '\n' : (char)('a' + i / 100 % 26);
    open_screen(&s, &mono);
    out_on_low(s.out, on_low, &r);
    out_ready(s.out, OUT_MAIN, data, sizeof(data));
    assert_int_equal(out_queued(s.out), sizeof(data));
    r.fd = loop_add_fd(s.loop, s.fds[0], LOOP_READ, on_read, &r);
    loop_run(s.loop);
    assert_int_equal(s.got.len, sizeof(data));
    assert_memory_equal(s.got.data, data, sizeof(data));
    assert_int_equal(out_queued(s.out), 0);
    assert_int_equal(r.n_low, 1);
    assert_true(r.queued_at_low < OUT_QUEUE_LOW);
    close_screen(&s);
}

static void
test_flush_waits_only_so_long(void **state)
{
    struct screen s;
    static char data[500000];

    (void)state;
    memset(data, 'x', sizeof(data));
    open_screen(&s, &mono);
    out_ready(s.out, OUT_MAIN, data, sizeof(data));
    out_flush(s.out, 20);
    assert_true(out_queued(s.out) > 0);
    assert_true(out_queued(s.out) < sizeof(data));
    read_ready(s.fds[0], &s.got);
    out_flush(s.out, 20);
    close(s.fds[0]);
    s.fds[0] = -1;
    close_screen(&s);
}

static void
test_gone(void **state)
{
    const struct screen_kind *kinds[] = {&full, &plain};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct screen s;
        struct reader r = {.s = &s};
        static char data[300000];
        unsigned place;

        memset(data, 'x', sizeof(data));
        open_screen(&s, kinds[i]);
        out_on_low(s.out, on_low, &r);
        close(s.fds[0]);
        place = out_hold(s.out);
        out_ready(s.out, OUT_MAIN, data, sizeof(data));
        assert_false(out_is_gone(s.out));
        out_fill_line(s.out, place, STYLE_PLAIN, "first");
        loop_run(s.loop);
        assert_true(out_is_gone(s.out));
        assert_int_equal(out_queued(s.out), 0);
        assert_int_equal(r.n_low, 1);
        call_all(s.out);
        loop_run(s.loop);
        /* The other channel goes on. */
        read_ready(s.side_fds[0], &s.side);
        assert_int_equal(s.side.len > 0, !kinds[i]->terminal);
        s.fds[0] = -1;
        close_screen(&s);
    }
}

/* --- readers that do not read --- */

/* A write that waits would never come back. */
#define HANG_SECONDS 20

static char long_text[1000000];

static void
fill_long_text(void)
{
    for (size_t i = 0; i < sizeof(long_text); i++)
        long_text[i] = (char)('a' + i / 100 % 26);
}

static void
stop_loop(void *ctx)
{
    loop_stop(ctx);
}

static void
test_plain_goes_on_with_a_full_pipe(void **state)
{
    struct screen s;
    struct reader r = {.s = &s, .total = sizeof(long_text)};

    (void)state;
    fill_long_text();
    alarm(HANG_SECONDS);
    open_screen(&s, &plain);
    out_on_low(s.out, on_low, &r);
    out_ready(s.out, OUT_MAIN, long_text, sizeof(long_text));
    assert_in_range(out_queued(s.out), 1, sizeof(long_text) - 1);
    /* The loop is free for other things. */
    loop_defer(s.loop, stop_loop, s.loop);
    loop_run(s.loop);
    assert_true(out_queued(s.out) > 0);
    /* The other channel has another reader. */
    out_say(s.out, OUT_SIDE, "side\n");
    read_ready(s.side_fds[0], &s.side);
    assert_string_equal(s.side.data, "side\n");
    r.fd = loop_add_fd(s.loop, s.fds[0], LOOP_READ, on_read, &r);
    loop_run(s.loop);
    assert_int_equal(s.got.len, sizeof(long_text));
    assert_memory_equal(s.got.data, long_text, sizeof(long_text));
    assert_int_equal(r.n_low, 1);
    close_screen(&s);
    alarm(0);
}

static void
test_plain_keeps_the_order_of_joined_channels(void **state)
{
    struct screen s;
    struct reader r = {.s = &s, .total = sizeof(long_text) + 10};
    int side_fd;

    (void)state;
    fill_long_text();
    alarm(HANG_SECONDS);
    open_screen(&s, &plain);
    out_free(s.out);
    side_fd = dup(s.fds[1]);
    assert_true(side_fd >= 0);
    s.out = out_new(&(struct out_config){
        .loop = s.loop, .main_fd = s.fds[1], .side_fd = side_fd});
    assert_true(out_is_joined(s.out));
    out_say(s.out, OUT_SIDE, "one\n");
    out_ready(s.out, OUT_MAIN, long_text, sizeof(long_text));
    /* There is room again, but not for this one. */
    out_say(s.out, OUT_SIDE, "two\n");
    out_say(s.out, OUT_MAIN, "3\n");
    r.fd = loop_add_fd(s.loop, s.fds[0], LOOP_READ, on_read, &r);
    loop_run(s.loop);
    assert_int_equal(s.got.len, sizeof(long_text) + 10);
    assert_memory_equal(s.got.data, "one\n", 4);
    assert_memory_equal(s.got.data + 4, long_text, sizeof(long_text));
    assert_string_equal(s.got.data + 4 + sizeof(long_text), "two\n3\n");
    close_screen(&s);
    close(side_fd);
    alarm(0);
}

static void
test_plain_free_does_not_wait(void **state)
{
    struct screen s;

    (void)state;
    alarm(HANG_SECONDS);
    open_screen(&s, &plain);
    out_ready(s.out, OUT_MAIN, long_text, sizeof(long_text));
    out_ready(s.out, OUT_SIDE, long_text, sizeof(long_text));
    close_screen(&s);
    alarm(0);
}

static void
count_written(void *ctx)
{
    ++*(int *)ctx;
}

static void
test_on_written(void **state)
{
    struct screen s;
    struct reader r = {.s = &s, .total = sizeof(long_text)};
    int n = 0;

    (void)state;
    alarm(HANG_SECONDS);
    open_screen(&s, &plain);
    /* Nothing to wait for: still from the loop. */
    out_on_written(s.out, count_written, &n);
    assert_int_equal(n, 0);
    loop_run(s.loop);
    assert_int_equal(n, 1);
    out_ready(s.out, OUT_MAIN, long_text, sizeof(long_text));
    out_on_written(s.out, count_written, &n);
    loop_defer(s.loop, stop_loop, s.loop);
    loop_run(s.loop);
    assert_int_equal(n, 1);
    r.fd = loop_add_fd(s.loop, s.fds[0], LOOP_READ, on_read, &r);
    loop_run(s.loop);
    assert_int_equal(n, 2);
    assert_int_equal(out_queued(s.out), 0);
    /* A reader that goes away is no longer waited for. */
    out_ready(s.out, OUT_MAIN, long_text, sizeof(long_text));
    out_on_written(s.out, count_written, &n);
    close(s.fds[0]);
    loop_run(s.loop);
    assert_int_equal(n, 3);
    assert_true(out_is_gone(s.out));
    s.fds[0] = -1;
    close_screen(&s);
    alarm(0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_plain_channels),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_no_sequences_means_not_one_escape),
        cmocka_unit_test(test_no_colour_means_no_rendition),
        cmocka_unit_test(test_hold_keeps_the_order),
        cmocka_unit_test(test_hold_picture),
        cmocka_unit_test(test_free_fills_what_is_left),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_is_cut),
        cmocka_unit_test(test_free_erases_the_status),
        cmocka_unit_test(test_prompt_hooks_share_a_round),
        cmocka_unit_test(test_queue_is_drained_by_the_loop),
        cmocka_unit_test(test_flush_waits_only_so_long),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_plain_goes_on_with_a_full_pipe),
        cmocka_unit_test(test_plain_keeps_the_order_of_joined_channels),
        cmocka_unit_test(test_plain_free_does_not_wait),
        cmocka_unit_test(test_on_written),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("out", tests, NULL, NULL);
}
