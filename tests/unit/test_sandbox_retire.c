/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Back ends that are not wanted any more, of which a service ends what it bills
 * for.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "unit/sandbox_fakes.h"

/* With one held back: release lets it end. */
static struct {
    void (*done[3])(void *ctx);
    void *ctx[3];
} held;

static void
slow_retire(struct sandbox_backend *b, void (*done)(void *ctx), void *ctx)
{
    struct fake *f = fake_of(b);

    sbuf_addf(f->log, "%c:retire ", f->letter);
    loop_task_remove(take_ptr(&f->sandbox.task));
    held.done[f->letter - 'A'] = done;
    held.ctx[f->letter - 'A'] = ctx;
}

/* A back end that has to be retired. */
static struct fake *
slow(struct fake *f)
{
    static struct sandbox_ops ops;

    ops = fake_ops;
    ops.retire = slow_retire;
    f->sandbox.base.ops = &ops;
    return f;
}

static void
end_loop(void *ctx)
{
    loop_stop(((struct test *)ctx)->loop);
}

/* What the loop has to do by itself. */
static void
turn(struct test *t)
{
    (void)loop_add_timer(t->loop, 1, end_loop, t);
    loop_run(t->loop);
}

static void
release(struct test *t, char letter)
{
    held.done[letter - 'A'](held.ctx[letter - 'A']);
    turn(t);
}

static void
on_retired(void *ctx)
{
    struct test *t = ctx;

    sbuf_add_str(&t->log, "<retired> ");
}

static void
on_left(void *ctx, const char *text)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<left,%s> ", text);
}

static void
begin_slow(struct test *t)
{
    begin(t, NULL);
    slow(t->fake);
    sandbox_on_left(t->sb, on_left, t);
}

/* As settle, without waiting for anybody. */
static void
settle_now(struct test *t, const char *expect)
{
    assert_string_equal(t->log.data, expect);
    sbuf_clear(&t->log);
}

/* Cells run in the new one while the old one still ends. */
static void
test_the_old_one_ends_beside_the_new_one(void **state)
{
    struct test t;

    (void)state;
    begin_slow(&t);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    switch_to(&t, make_fake(&t, 'B'));
    run(&t, "ok", 2);
    settle(&t, "B:open A:retire <0,-> B:run(ok,2) <0,-> ");
    t.fake->sandbox.base.on_left(t.fake->sandbox.base.on_lost_ctx, "one");
    assert_null(t.fake->sandbox.base.on_lost);
    release(&t, 'A');
    settle(&t, "<left,one> A:close ");
    finish(&t, "B:close ");
}

/* What was never used as well. */
static void
test_a_switch_that_fails_or_is_given_up(void **state)
{
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin_slow(&t);
    next = slow(make_fake(&t, 'B'));
    next->open_ends = ERR_AUTH;
    switch_to(&t, next);
    settle(&t, "B:open <1,auth> B:retire ");
    next = slow(make_fake(&t, 'C'));
    sandbox_cancel(switch_to(&t, next));
    run(&t, "ok", 1);
    settle(&t, "<1,cancelled> C:retire A:open A:run(ok,1) <0,-> ");
    release(&t, 'C');
    settle(&t, "C:close ");
    release(&t, 'B');
    settle(&t, "B:close ");
    finish(&t, "A:close ");
}

/* The end waits for all of them, and tells no caller of what was under way. */
static void
test_the_end(void **state)
{
    struct test t;

    (void)state;
    begin_slow(&t);
    switch_to(&t, slow(make_fake(&t, 'B')));
    settle(&t, "B:open A:retire <0,-> ");
    run(&t, "wait", 1);
    run(&t, "ok", 2);
    switch_to(&t, slow(make_fake(&t, 'C')));
    turn(&t);
    settle_now(&t, "B:run(wait,1) ");
    assert_true(sandbox_retire(t.sb, on_retired, &t));
    settle_now(&t, "B:retire C:retire ");
    release(&t, 'B');
    release(&t, 'A');
    settle_now(&t, "B:close A:close ");
    release(&t, 'C');
    settle_now(&t, "C:close <retired> ");
    finish(&t, "");
}

static void
test_the_end_that_is_given_up(void **state)
{
    struct test t;

    (void)state;
    begin_slow(&t);
    switch_to(&t, slow(make_fake(&t, 'B')));
    settle(&t, "B:open A:retire <0,-> ");
    assert_true(sandbox_retire(t.sb, on_retired, &t));
    finish(&t, "B:retire B:close A:close ");
}

/* Nothing costs: there is nothing to wait for. */
static void
test_the_end_of_a_local_one(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    run(&t, "wait", 2);
    turn(&t);
    assert_false(sandbox_retire(t.sb, on_retired, &t));
    finish(&t, "A:run(wait,2) A:close ");
}

/* An account may allow one at a time. */
static void
test_a_switch_waits_for_the_one_before(void **state)
{
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin_slow(&t);
    switch_to(&t, make_fake(&t, 'B'));
    settle(&t, "B:open A:retire <0,-> ");
    next = make_fake(&t, 'C');
    next->open_ends = ERR_LIMIT;
    switch_to(&t, next);
    turn(&t);
    settle_now(&t, "C:open ");
    next->open_ends = ERR_NONE;
    release(&t, 'A');
    settle(&t, "A:close C:open B:close <0,-> ");
    /* Without one that is ending, it is as it is. */
    next = make_fake(&t, 'B');
    next->open_ends = ERR_LIMIT;
    switch_to(&t, next);
    settle(&t, "B:open <1,limit> B:close ");
    finish(&t, "C:close ");
}

static void
on_done_and_free(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct test *t = ctx;

    on_done(t, end, err);
    sandbox_free(take_ptr(&t->sb));
}

/* Nobody is there any more to whom the end could be told. */
static void
test_the_sandbox_is_freed_by_a_switch_that_fails(void **state)
{
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin_slow(&t);
    next = slow(make_fake(&t, 'B'));
    next->open_ends = ERR_AUTH;
    t.n_open++;
    sandbox_switch(t.sb, &next->sandbox.base, on_done_and_free, &t);
    settle(&t, "B:open <1,auth> A:close B:close ");
    loop_free(t.loop);
    sbuf_fini(&t.log);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_old_one_ends_beside_the_new_one),
        cmocka_unit_test(test_a_switch_that_fails_or_is_given_up),
        cmocka_unit_test(test_a_switch_waits_for_the_one_before),
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_the_end_that_is_given_up),
        cmocka_unit_test(test_the_end_of_a_local_one),
        cmocka_unit_test(test_the_sandbox_is_freed_by_a_switch_that_fails),
    };

    return cmocka_run_group_tests_name("sandbox_retire", tests, NULL, NULL);
}
