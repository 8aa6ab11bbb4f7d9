/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Charts on their way to the model: made small one after the other, given to
 * the answer of their call, and given up when the turn is stopped.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent_internal.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"
#include "claude/history.h"
#include "helpers/agent_fixture.h"

/* Something that makes charts small: it takes its time, and says what the test
   wants. */
struct press {
    struct loop *loop;
    struct loop_task *task;
    agent_shrunk_fn done;
    void *done_ctx;
    size_t n_begun;
    size_t n_cancelled;
    size_t fail_at;   /* the number of the one that fails; 0: none */
    size_t refuse_at; /* that does not even begin */
    size_t hang_at;
};

/* The beginning of a PNG of 56 x 57, as far as anybody here looks. */
static const unsigned char SMALL[] = {
    0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0,  0, 0, 13, 'I', 'H', 'D',
    'R',  0,   0,   0,   56,   0,    0,    0,    57, 8, 2, 0,  0,   0};

static void
on_pressed(void *ctx)
{
    struct press *p = ctx;
    struct error err = {0};

    p->task = NULL;
    if (p->n_begun == p->hang_at)
        return;
    if (p->n_begun == p->fail_at) {
        error_fill(&err, ERR_DATA, "no picture");
        p->done(p->done_ctx, NULL, 0, 0, 0, &err);
        return;
    }
    p->done(p->done_ctx, SMALL, sizeof(SMALL), 56, 57, NULL);
}

static void *
press_begin(void *ctx, const unsigned char *png, size_t len,
            agent_shrunk_fn done, void *done_ctx, struct error *err)
{
    struct press *p = ctx;

    assert_null(p->task);
    assert_true(len > 0 && png != NULL);
    if (++p->n_begun == p->refuse_at) {
        error_fill(err, ERR_IO, "no program");
        return NULL;
    }
    p->done = done;
    p->done_ctx = done_ctx;
    p->task = loop_defer(p->loop, on_pressed, p);
    return p;
}

static void
press_cancel(void *ctx, void *handle)
{
    struct press *p = ctx;

    assert_ptr_equal(handle, p);
    loop_task_remove(p->task);
    p->task = NULL;
    p->n_cancelled++;
}

static struct fixture *
begin_with(struct press *p)
{
    struct fixture *f = fixture_begin();

    p->loop = f->loop;
    f->config.shrink = press_begin;
    f->config.shrink_cancel = press_cancel;
    f->config.shrink_ctx = p;
    remake_agent(f);
    return f;
}

static void
add_charts(struct fixture *f)
{
    x_begin(f);
    x_python(f, "t1", "chart 1");
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Seen.");
}

static void
test_charts_are_sent(void **state)
{
    struct press p = {0};
    struct fixture *f = begin_with(&p);

    (void)state;
    add_charts(f);
    expect_ok(f, "q");
    assert_int_equal(p.n_begun, 2);
    assert_int_equal(p.n_cancelled, 0);
    expect_sent(f, "chart shown to the user, 640 x 480 pixels");
    expect_not_sent(f, "not sent");
    expect_sent(f, "\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo");
    assert_string_equal(f->ran.data, "chart 1|print 2|");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_charts_are_not_sent_by_default(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    add_charts(f);
    expect_ok(f, "q");
    expect_sent(f, "chart shown to the user, 640 x 480 pixels");
    fixture_end(f);
}

static void
test_charts_that_cannot_be_made_small(void **state)
{
    struct press p = {.fail_at = 1, .refuse_at = 2};
    struct fixture *f = begin_with(&p);

    (void)state;
    add_charts(f);
    expect_ok(f, "q");
    assert_int_equal(p.n_begun, 2);
    expect_sent(f, "[note]\\na chart is not sent as a picture: no picture\\n"
                   "a chart is not sent as a picture: no program\\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_cancel_while_charts_are_made_small(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 2; at++) {
        struct press p = {.hang_at = at};
        struct fixture *f = begin_with(&p);

        add_charts(f);
        assert_int_equal(ask_and_cancel(f, "q", 30), EVENT_INTERRUPTED);
        assert_int_equal(p.n_cancelled, 1);
        assert_string_equal(f->ran.data, "chart 1|");
        expect_next_is_fine(f);
        expect_sent(f, "Not executed: interrupted by the user.");
        expect_sent(f, "chart shown to the user");
        fixture_end(f);
    }
}

static void
test_free_while_charts_are_made_small(void **state)
{
    struct press p = {.hang_at = 1};
    struct fixture *f = begin_with(&p);
    struct error err = {0};

    (void)state;
    add_charts(f);
    f->first_in_turn = true;
    assert_int_equal(agent_ask(f->agent, "q", &err), 0);
    f->guard = loop_add_timer(f->loop, 50, on_guard, f);
    loop_run(f->loop);
    assert_false(f->over);
    assert_int_equal(p.n_begun, 1);
    agent_free(f->agent);
    f->agent = NULL;
    assert_int_equal(p.n_cancelled, 1);
    fixture_end(f);
}

static void
test_tokens_of_an_image(void **state)
{
    static const struct {
        int width_px;
        int height_px;
        int64_t expect;
    } cases[] = {{1, 1, 1}, {28, 28, 1}, {29, 28, 2}, {1568, 1568, 3136}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct claude_image image = {.width_px = cases[i].width_px,
                                           .height_px = cases[i].height_px};

        assert_int_equal(agent_image_tokens(&image), cases[i].expect);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_charts_are_sent),
        cmocka_unit_test(test_charts_are_not_sent_by_default),
        cmocka_unit_test(test_charts_that_cannot_be_made_small),
        cmocka_unit_test(test_cancel_while_charts_are_made_small),
        cmocka_unit_test(test_free_while_charts_are_made_small),
        cmocka_unit_test(test_tokens_of_an_image),
    };

    return cmocka_run_group_tests_name("agent charts", tests, NULL, NULL);
}
