/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Another back end in the place of the one that there is.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "unit/sandbox_fakes.h"

#define SWITCHED                                                               \
    "The user has switched to another sandbox, "                               \
    "\"B\". " SANDBOX_FILES_LOST_TEXT

static void
load(struct test *t, const char *name, const char *setup)
{
    sandbox_add_loaded(t->sb, "/dev/null", name, name, setup);
}

static void
stop_loop(void *ctx)
{
    loop_stop(((struct test *)ctx)->loop);
}

/* Opens, puts, reads, and is what the sandbox is from then on. */
static void
test_switch(void **state)
{
    struct test t;
    struct sandbox_info info = {0};
    unsigned workspace = 0;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    workspace = sandbox_workspace(t.sb);
    switch_to(&t, make_fake(&t, 'B'));
    run(&t, "ok", 2);
    settle(&t, "B:open A:close B:put(a) B:run(ok a,silent) <0,-> B:run(ok,2) "
               "<0,-> ");
    assert_string_equal(sandbox_caps(t.sb)->name, "B");
    assert_int_equal(sandbox_state(t.sb), SANDBOX_IDLE);
    assert_int_equal(sandbox_lost_cell(t.sb), 1);
    assert_true(sandbox_workspace(t.sb) != workspace);
    sandbox_info(t.sb, &info);
    assert_true(info.has_run);
    expect_late_loss(&t, SWITCHED " Loaded again: a.");
    expect_late_loss(&t, NULL);
    finish(&t, "B:close ");
}

/* What the new one is told of, and that the old one tells nobody any more. */
static void
test_switch_is_of_the_new_one(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin(&t, NULL);
    run(&t, "ok", 1);
    next = make_fake(&t, 'B');
    switch_to(&t, next);
    settle(&t, "A:open A:run(ok,1) <0,-> B:open A:close <0,-> ");
    expect_late_loss(&t, SWITCHED);
    assert_ptr_equal(next->sandbox.base.on_lost_ctx, t.sb);
    next->sandbox.base.on_lost(t.sb, &err);
    run(&t, "ok", 2);
    settle(&t, "<late,0,it ended; variables and imports are gone> B:open "
               "B:run(ok,2) <3,Before this cell, it ended. " SANDBOX_LOST_TEXT
               "> ");
    finish(&t, "B:close ");
}

/* The one that there is stays, with all that it has. */
static void
test_switch_that_fails(void **state)
{
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "ok a");
    run(&t, "ok", 1);
    next = make_fake(&t, 'B');
    next->open_ends = ERR_AUTH;
    switch_to(&t, next);
    run(&t, "ok", 2);
    settle(&t, "A:open A:run(ok,1) <0,-> B:open <1,auth> B:close A:run(ok,2) "
               "<0,-> ");
    assert_string_equal(sandbox_caps(t.sb)->name, "A");
    assert_int_equal(sandbox_lost_cell(t.sb), 0);
    expect_late_loss(&t, NULL);
    finish(&t, "A:close ");
}

static void
test_switch_from_each_state(void **state)
{
    struct sandbox_limits limits = {.idle_suspend_ms = 1};
    struct test t;

    (void)state;
    /* Never opened: it need not be. */
    begin(&t, NULL);
    switch_to(&t, make_fake(&t, 'B'));
    settle(&t, "B:open A:close <0,-> ");
    finish(&t, "B:close ");

    /* It could not be opened. */
    begin(&t, NULL);
    t.fake->open_ends = ERR_SANDBOX;
    run(&t, "ok", 1);
    settle(&t, "A:open <1,sandbox> ");
    switch_to(&t, make_fake(&t, 'B'));
    run(&t, "ok", 2);
    settle(&t, "B:open A:close <0,-> B:run(ok,2) <0,-> ");
    assert_null(sandbox_why(t.sb));
    finish(&t, "B:close ");

    /* What waited for that is not what waits for the new one. */
    begin(&t, NULL);
    t.fake->open_ends = ERR_SANDBOX;
    run(&t, "ok", 1);
    switch_to(&t, make_fake(&t, 'B'));
    run(&t, "ok", 2);
    settle(&t, "A:open <1,sandbox> B:open A:close <0,-> B:run(ok,2) <0,-> ");
    finish(&t, "B:close ");

    /* Suspended: it need not be resumed. The new one is suspended, too. */
    begin(&t, &limits);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    wait_until_suspended(&t);
    switch_to(&t, make_fake(&t, 'B'));
    settle(&t, "A:suspend B:open A:close <0,-> ");
    wait_until_suspended(&t);
    settle(&t, "B:suspend ");
    finish(&t, "B:close ");
}

/* It waits in the queue like everything else. */
static void
test_switch_waits(void **state)
{
    struct test t;
    struct sandbox_op *cell = NULL;

    (void)state;
    begin(&t, NULL);
    cell = run(&t, "wait", 1);
    switch_to(&t, make_fake(&t, 'B'));
    loop_add_timer(t.loop, 5, stop_loop, &t);
    loop_run(t.loop);
    assert_string_equal(t.log.data, "A:open A:run(wait,1) ");
    sandbox_cancel(cell);
    settle(&t, "A:open A:run(wait,1) A:interrupt <0,-> B:open A:close <0,-> ");
    finish(&t, "B:close ");

    /* Behind a restart, which ends first. */
    begin(&t, NULL);
    run(&t, "ok", 1);
    t.n_open++;
    sandbox_restart(t.sb, on_done, &t);
    switch_to(&t, make_fake(&t, 'B'));
    settle(&t, "A:open A:run(ok,1) <0,-> A:stop A:open <0,-> B:open A:close "
               "<0,-> ");
    finish(&t, "B:close ");
}

/* While the old one opens, which it may do for long. */
static void
test_switch_while_the_old_one_opens(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    t.fake->opens_never = true;
    sandbox_open(t.sb);
    loop_add_timer(t.loop, 1, stop_loop, &t);
    loop_run(t.loop);
    assert_int_equal(sandbox_state(t.sb), SANDBOX_OPENING);
    switch_to(&t, make_fake(&t, 'B'));
    run(&t, "ok", 1);
    settle(&t, "A:open B:open A:close <0,-> B:run(ok,1) <0,-> ");
    finish(&t, "B:close ");
}

static void
answer_old(void *ctx)
{
    struct test *t = ctx;
    struct error err = {.code = ERR_SANDBOX, .msg = "no bubblewrap"};
    bool fails = t->fake->open_ends != ERR_NONE;

    t->fake->sandbox.done(t->fake->sandbox.ctx,
                          fails ? SANDBOX_ERROR : SANDBOX_DONE,
                          fails ? &err : NULL);
}

static void
cancel(void *ctx)
{
    sandbox_cancel(ctx);
}

/* The old one ends its opening while the new one opens, which is then given up:
   what waits is for the old one. */
static void
test_switch_and_the_old_one_is_open_meanwhile(void **state)
{
    static const struct {
        enum error_code ends;
        const char *expect;
    } rows[] = {
        {ERR_NONE, "A:open B:open <1,cancelled> B:close A:run(ok,1) <0,-> "},
        {ERR_SANDBOX,
         "A:open B:open <1,cancelled> B:close A:open <1,sandbox> "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;
        struct sandbox_op *op = NULL;
        struct fake *next = NULL;

        begin(&t, NULL);
        t.fake->opens_never = true;
        sandbox_open(t.sb);
        loop_add_timer(t.loop, 1, stop_loop, &t);
        loop_run(t.loop);
        t.fake->opens_never = false;
        t.fake->open_ends = rows[i].ends;
        next = make_fake(&t, 'B');
        next->opens_never = true;
        op = switch_to(&t, next);
        run(&t, "ok", 1);
        loop_add_timer(t.loop, 5, answer_old, &t);
        loop_add_timer(t.loop, 20, cancel, op);
        settle(&t, rows[i].expect);
        finish(&t, "A:close ");
    }
}

/* The old one dies while the new one opens. */
static void
lose_old(void *ctx)
{
    struct test *t = ctx;
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};

    t->fake->sandbox.base.on_lost(t->fake->sandbox.base.on_lost_ctx, &err);
}

static void
test_switch_and_the_old_one_dies(void **state)
{
    struct test t;
    struct sandbox_op *op = NULL;
    struct fake *next = NULL;

    (void)state;
    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    next = make_fake(&t, 'B');
    next->opens_never = true;
    op = switch_to(&t, next);
    loop_add_timer(t.loop, 5, lose_old, &t);
    loop_add_timer(t.loop, 20, cancel, op);
    run(&t, "ok", 2);
    settle(&t, "B:open <late,0,it ended; variables and imports are gone> "
               "<1,cancelled> B:close A:open A:run(ok,2) <3,Before this cell, "
               "it ended. " SANDBOX_LOST_TEXT "> ");
    finish(&t, "A:close ");
}

static void
test_switch_is_cancelled(void **state)
{
    struct test t;
    struct fake *next = NULL;
    struct sandbox_op *op = NULL;

    (void)state;
    /* Before it has begun. */
    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    sandbox_cancel(switch_to(&t, make_fake(&t, 'B')));
    settle(&t, "<1,cancelled> B:close ");

    /* While the new one opens. */
    next = make_fake(&t, 'C');
    next->opens_never = true;
    op = switch_to(&t, next);
    loop_add_timer(t.loop, 5, cancel, op);
    run(&t, "ok", 2);
    settle(&t, "C:open <1,cancelled> C:close A:run(ok,2) <0,-> ");
    expect_late_loss(&t, NULL);
    finish(&t, "A:close ");

    /* While files are read there: it stays, and no further one is read. */
    begin(&t, NULL);
    load(&t, "a", "wait");
    load(&t, "b", "ok b");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    op = switch_to(&t, make_fake(&t, 'B'));
    loop_add_timer(t.loop, 20, cancel, op);
    settle(&t, "B:open A:close B:put(a) B:run(wait,silent) B:interrupt "
               "<3,data> ");
    expect_late_loss(&t, SWITCHED " Could not be loaded again: a (a: stopped), "
                                  "b (b: stopped).");
    finish(&t, "B:close ");
}

/* It is in its place, but something is not right. */
static void
test_switch_and_a_file_is_not_back(void **state)
{
    static const struct {
        const char *setup;
        enum error_code put_ends;
        const char *expect;
    } rows[] = {
        {"fail", ERR_NONE, "B:put(a) B:run(fail,silent) <3,data> "},
        {"ok", ERR_IO, "B:put(a) <3,data> "},
        {"restart", ERR_NONE, "B:put(a) B:run(restart,silent) <3,data> "},
        {"lost", ERR_NONE, "B:put(a) B:run(lost,silent) <3,sandbox> "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;
        struct fake *next = NULL;
        AUTO_FREE char *expect = xasprintf(
            "A:open A:run(ok,1) <0,-> B:open A:close %s", rows[i].expect);

        begin(&t, NULL);
        load(&t, "a", rows[i].setup);
        run(&t, "ok", 1);
        next = make_fake(&t, 'B');
        next->put_ends = rows[i].put_ends;
        switch_to(&t, next);
        settle(&t, expect);
        assert_string_equal(sandbox_caps(t.sb)->name, "B");
        finish(&t, "B:close ");
    }
}

static void
on_progress(void *ctx, const char *what)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "[%s] ", what);
}

static void
on_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "[%s %d %s] ", sandbox_caps(t->sb)->name, (int)end,
              err != NULL ? err->msg : "-");
}

static void
on_put_again(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "[%s %d/%d] ", name != NULL ? name : "-", (int)done,
              (int)total);
}

static void
test_switch_tells_what_goes_on(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    sandbox_on_progress(t.sb, on_progress, &t);
    sandbox_on_open(t.sb, on_open, &t);
    sandbox_on_put_again(t.sb, on_put_again, &t);
    switch_to(&t, make_fake(&t, 'B'));
    settle(&t, "[opening] B:open A:close [B 0 -] [a 1/2] B:put(a) [- 0/0] "
               "B:run(ok a,silent) <0,-> ");
    finish(&t, "B:close ");
}

/* Whoever frees it closes both. */
static void
test_switch_and_it_is_freed(void **state)
{
    struct test t;
    struct fake *next = NULL;

    (void)state;
    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    next = make_fake(&t, 'B');
    next->opens_never = true;
    switch_to(&t, next);
    loop_add_timer(t.loop, 5, stop_loop, &t);
    settle(&t, "B:open ");
    finish(&t, "A:close B:close ");

    begin(&t, NULL);
    switch_to(&t, make_fake(&t, 'B'));
    finish(&t, "A:close B:close ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_switch_is_of_the_new_one),
        cmocka_unit_test(test_switch_that_fails),
        cmocka_unit_test(test_switch_from_each_state),
        cmocka_unit_test(test_switch_waits),
        cmocka_unit_test(test_switch_while_the_old_one_opens),
        cmocka_unit_test(test_switch_and_the_old_one_is_open_meanwhile),
        cmocka_unit_test(test_switch_and_the_old_one_dies),
        cmocka_unit_test(test_switch_is_cancelled),
        cmocka_unit_test(test_switch_and_a_file_is_not_back),
        cmocka_unit_test(test_switch_tells_what_goes_on),
        cmocka_unit_test(test_switch_and_it_is_freed),
    };

    return cmocka_run_group_tests_name("sandbox_switch", tests, NULL, NULL);
}
