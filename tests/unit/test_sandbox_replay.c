/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The log of cells, and running them again.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "unit/sandbox_fakes.h"

static void
on_replayed_cell(void *ctx, int cell, size_t i, size_t n)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "[%d: %zu of %zu] ", cell, i, n);
}

static void
on_replayed(void *ctx, const struct sandbox_replayed *r,
            const struct error *err)
{
    struct test *t = ctx;

    sbuf_add_str(&t->log, "{");
    for (size_t i = 0; i < r->n_cells; i++)
        sbuf_addf(&t->log, "%d ", r->cells[i]);
    sbuf_addf(&t->log, "of %zu", r->n_all);
    if (r->stopped_at > 0)
        sbuf_addf(&t->log, ", not %d", r->stopped_at);
    if (r->outcome != NULL)
        sbuf_addf(&t->log, ", %s", event_outcome_name(r->outcome->outcome));
    if (r->n_dropped > 0)
        sbuf_addf(&t->log, ", %zu dropped", r->n_dropped);
    sbuf_addf(&t->log, ", %s} ",
              err != NULL ? error_code_name(err->code) : "-");
    one_less(t);
}

static struct sandbox_replay *
replay(struct test *t)
{
    static const struct sandbox_replay_handlers on = {
        .on_cell = on_replayed_cell,
        .on_done = on_replayed,
    };
    struct sandbox_replay *r = sandbox_replay(t->sb, &on, t);

    t->n_open += r != NULL;
    return r;
}

static void
restart(struct test *t)
{
    t->n_open++;
    sandbox_restart(t->sb, on_done, t);
}

/* Not those of the program, those without a number, nor those that ended
   otherwise than well; and each time the same ones. */
static void
test_replay(void **state)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};
    struct test t;
    unsigned workspace = 0;

    (void)state;
    begin(&t, NULL);
    assert_null(replay(&t));
    run(&t, "ok one", 1);
    run(&t, "fail", 2);
    run(&t, "ok none", 0);
    run(&t, "ok three", 3);
    t.n_open++;
    sandbox_run_cell(
        t.sb,
        &(struct sandbox_cell){
            .code = "ok silent", .code_len = 9, .number = 4, .silent = true},
        &on, &t);
    settle(&t, "A:open A:run(ok one,1) <0,-> A:run(fail,2) <0,-> A:run(ok "
               "none) <0,-> A:run(ok three,3) <0,-> A:run(ok silent,silent) "
               "<0,-> ");
    assert_int_equal(sandbox_n_replayable(t.sb), 2);
    for (int i = 0; i < 2; i++) {
        restart(&t);
        settle(&t, "A:stop A:open <0,-> ");
        expect_late_loss(
            &t, "The user has restarted the interpreter. " SANDBOX_LOST_TEXT);
        workspace = sandbox_workspace(t.sb);
        assert_non_null(replay(&t));
        settle(&t, "[1: 1 of 2] A:run(ok one,1) [3: 2 of 2] A:run(ok three,3) "
                   "{1 3 of 2, -} ");
        assert_int_equal(sandbox_n_replayable(t.sb), 2);
        assert_true(sandbox_workspace(t.sb) != workspace);
    }
    /* Numbers go on from where they were. */
    restart(&t);
    settle(&t, "A:stop A:open <0,-> ");
    assert_int_equal(sandbox_lost_cell(t.sb), 4);
    finish(&t, "A:close ");
}

static void
test_replay_in_another_language(void **state)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};
    struct test t;
    char code[] = "ok";
    char language[] = "r";

    (void)state;
    begin(&t, NULL);
    t.n_open++;
    sandbox_run_cell(
        t.sb,
        &(struct sandbox_cell){
            .code = code, .code_len = 2, .language = language, .number = 1},
        &on, &t);
    memset(code, 'z', 2);
    memset(language, 'z', 1);
    settle(&t, "A:open A:run(ok,1,r) <0,-> ");
    replay(&t);
    settle(&t, "[1: 1 of 1] A:run(ok,1,r) {1 of 1, -} ");
    finish(&t, "A:close ");
}

/* Nothing runs after the first that does not end well. What that is depends on
   how often it has run. */
static void
test_replay_stops(void **state)
{
    static const struct {
        const char *ends;
        const char *expect;
        const char *expect_loss;
    } rows[] = {
        {"fail", "A:run(ok 2,2) {1 of 3, not 2, error, data} ", NULL},
        {"restart", "A:run(ok 2,2) {1 of 3, not 2, died, data} ",
         "cell 2: It died."},
        {"lost", "A:run(ok 2,2) {1 of 3, not 2, sandbox} ", NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;
        AUTO_FREE char *expect = xasprintf(
            "[1: 1 of 3] A:run(ok 1,1) [2: 2 of 3] %s", rows[i].expect);

        begin(&t, NULL);
        run(&t, "ok 1", 1);
        run(&t, "ok 2", 2);
        run(&t, "ok 3", 3);
        settle(&t, "A:open A:run(ok 1,1) <0,-> A:run(ok 2,2) <0,-> A:run(ok "
                   "3,3) <0,-> ");
        t.fake->at_ok = "ok 2";
        t.fake->ok_ends = rows[i].ends;
        replay(&t);
        settle(&t, expect);
        assert_int_equal(sandbox_n_replayable(t.sb), 3);
        expect_late_loss(&t, rows[i].expect_loss);
        finish(&t, "A:close ");
    }
}

/* A loss that the next cell was to be told of is for the caller, since no cell
   of a replay tells it. */
static void
test_replay_after_a_loss(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    begin(&t, NULL);
    sandbox_add_loaded(t.sb, "/dev/null", "a", "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    sbuf_clear(&t.log);
    replay(&t);
    settle(&t, "[1: 1 of 1] A:open A:run(ok a,silent) A:run(ok,1) {1 of 1, "
               "-} ");
    expect_late_loss(&t, "Meanwhile, it ended. " SANDBOX_LOST_TEXT
                         " Loaded again: a.");
    run(&t, "ok", 2);
    settle(&t, "A:run(ok,2) <0,-> ");
    finish(&t, "A:close ");
}

/* It goes on like for any cell. */
static void
test_replay_when_it_is_suspended(void **state)
{
    struct sandbox_limits limits = {.idle_suspend_ms = 1};
    struct test t;

    (void)state;
    begin(&t, &limits);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    wait_until_suspended(&t);
    replay(&t);
    settle(&t, "A:suspend [1: 1 of 1] A:resume A:run(ok,1) {1 of 1, -} ");
    finish(&t, "A:close ");
}

static void
cancel(void *ctx)
{
    sandbox_replay_cancel(ctx);
}

static void
test_replay_is_cancelled(void **state)
{
    struct test t;

    (void)state;
    /* The cell that runs stops. */
    begin(&t, NULL);
    run(&t, "ok 1", 1);
    run(&t, "ok 2", 2);
    settle(&t, "A:open A:run(ok 1,1) <0,-> A:run(ok 2,2) <0,-> ");
    t.fake->at_ok = "ok 1";
    t.fake->ok_ends = "wait";
    loop_add_timer(t.loop, 5, cancel, replay(&t));
    settle(&t, "[1: 1 of 2] A:run(ok 1,1) A:interrupt {of 2, not 1, "
               "interrupted, cancelled} ");

    /* It does not, and nobody waits for it. */
    t.fake->is_deaf = true;
    loop_add_timer(t.loop, 5, cancel, replay(&t));
    settle(&t, "[1: 1 of 2] A:run(ok 1,1) A:interrupt {of 2, not 1, "
               "interrupted, cancelled} ");
    t.fake->is_deaf = false;
    fake_interrupt(&t.fake->sandbox.base);
    t.fake->at_ok = NULL;
    run(&t, "ok 3", 3);
    settle(&t, "A:interrupt <late,1,-> A:run(ok 3,3) <0,-> ");

    /* Before the first has begun. */
    cancel(replay(&t));
    settle(&t, "[1: 1 of 3] {of 3, not 1, cancelled} ");
    finish(&t, "A:close ");
}

/* The oldest go first. */
static void
test_log_is_bounded(void **state)
{
    AUTO_FREE char *code = xcalloc(1, SANDBOX_MAX_CODE_BYTES + 1);
    struct test t;

    (void)state;
    begin(&t, NULL);
    run(&t, "fail", 1);
    for (int i = 2; i < (int)SANDBOX_LOG_CELLS + 4; i++)
        run(&t, "ok", i);
    loop_run(t.loop);
    sbuf_clear(&t.log);
    assert_int_equal(sandbox_n_replayable(t.sb), SANDBOX_LOG_CELLS);
    replay(&t);
    loop_run(t.loop);
    assert_non_null(strstr(t.log.data, "[4: 1 of 1000] A:run(ok,4) "));
    assert_non_null(strstr(t.log.data, " 1003 of 1000, 2 dropped, -} "));
    sbuf_clear(&t.log);

    memset(code, 'x', SANDBOX_MAX_CODE_BYTES);
    memcpy(code, "ok", 2);
    for (int i = 0; i < 20; i++)
        run(&t, code, 2000 + i);
    loop_run(t.loop);
    assert_int_equal(sandbox_n_replayable(t.sb),
                     SANDBOX_LOG_BYTES / SANDBOX_MAX_CODE_BYTES);
    sbuf_clear(&t.log);
    finish(&t, "A:close ");
}

/* In the middle of one, and within its callback. */
static void
on_replayed_free(void *ctx, const struct sandbox_replayed *r,
                 const struct error *err)
{
    struct test *t = ctx;

    assert_int_equal(r->n_cells, 1);
    assert_null(err);
    sandbox_free(take_ptr(&t->sb));
    loop_stop(t->loop);
}

static void
test_replay_and_it_is_freed(void **state)
{
    static const struct sandbox_replay_handlers on = {.on_done =
                                                          on_replayed_free};
    struct test t;

    (void)state;
    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    replay(&t);
    finish(&t, "[1: 1 of 1] A:close ");

    begin(&t, NULL);
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    assert_non_null(sandbox_replay(t.sb, &on, &t));
    assert_null(sandbox_replay(t.sb, &on, &t));
    loop_run(t.loop);
    finish(&t, "A:run(ok,1) A:close ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_replay_in_another_language),
        cmocka_unit_test(test_replay_stops),
        cmocka_unit_test(test_replay_after_a_loss),
        cmocka_unit_test(test_replay_when_it_is_suspended),
        cmocka_unit_test(test_replay_is_cancelled),
        cmocka_unit_test(test_log_is_bounded),
        cmocka_unit_test(test_replay_and_it_is_freed),
    };

    return cmocka_run_group_tests_name("sandbox_replay", tests, NULL, NULL);
}
