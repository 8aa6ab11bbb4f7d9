/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "helpers/fake_sandbox.h"
#include "sandbox/sandbox.h"

/*
 * A back end that writes down what is asked of it, and ends each operation from
 * the loop. The code of a cell says how it ends: "ok", "fail", "die".
 */
struct fake {
    struct fake_sandbox sandbox; /* first */
    struct sbuf *log;
    struct sandbox_ops ops;
    int n_failing_opens;
    enum error_code suspend_ends;
    enum error_code resume_ends;
    enum error_code asked_ends;
    void (*in_suspend)(void *ctx); /* NULL, or called within suspend */
    void *in_suspend_ctx;

    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    const char *code; /* borrowed: of the running cell */
};

struct test {
    struct loop *loop;
    struct fake *fake;
    struct sandbox *sb;
    struct sbuf log; /* what the back end did and what callers were told */
    int n_open;
    enum sandbox_state stop_in; /* ends the loop once it is in that state */
    bool free_in_callback;
};

static void
end_with(struct sandbox_backend *b, const char *what, sandbox_done_fn done,
         void *ctx, enum error_code code)
{
    struct fake *f = (struct fake *)b;
    struct error err = {.code = code, .msg = "it broke"};

    sbuf_addf(f->log, "%s ", what);
    fake_sandbox_end(&f->sandbox, done, ctx, &err);
}

static void
fake_open(struct sandbox_backend *b,
          void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
          void *ctx)
{
    (void)progress;
    end_with(b, "open", done, ctx,
             ((struct fake *)b)->n_failing_opens-- > 0 ? ERR_SANDBOX
                                                       : ERR_NONE);
}

static void
fake_put(struct sandbox_backend *b, const struct sandbox_put *put,
         sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    (void)put;
    (void)progress;
    end_with(b, "put", done, ctx, ERR_NONE);
}

static void
lose(struct fake *f)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it has died"};

    sbuf_add_str(f->log, "died ");
    f->sandbox.base.on_lost(f->sandbox.base.on_lost_ctx, &err);
}

static void
fake_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct fake *f = (struct fake *)b;

    end_with(b, "suspend", done, ctx, f->suspend_ends);
    if (f->in_suspend != NULL)
        f->in_suspend(f->in_suspend_ctx);
}

static void
lose_first(void *fake)
{
    struct fake *f = fake;
    struct error err = f->sandbox.err;

    lose(f);
    fake_sandbox_end(&f->sandbox, f->sandbox.done, f->sandbox.ctx, &err);
}

static void
fake_suspend_and_die(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    struct fake *f = (struct fake *)b;

    fake_suspend(b, done, ctx);
    loop_task_remove(take_ptr(&f->sandbox.task));
    fake_sandbox_defer(&f->sandbox, lose_first);
}

static void
fake_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    end_with(b, "resume", done, ctx, ((struct fake *)b)->resume_ends);
}

static void
fake_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    end_with(b, "stop", done, ctx, ERR_NONE);
}

static void
report_cell(void *fake)
{
    struct fake *f = fake;
    bool dies = strcmp(f->code, "die") == 0;
    bool fails = strcmp(f->code, "fail") == 0;
    struct sandbox_outcome outcome = {
        .outcome = dies    ? EVENT_DIED
                   : fails ? EVENT_FAILED
                           : EVENT_OK,
        .reason = dies ? "It died." : NULL,
        .variables_lost = dies,
    };

    f->sandbox.on.on_done(f->sandbox.ctx,
                          dies ? SANDBOX_RESTARTED : SANDBOX_DONE, &outcome,
                          NULL);
}

static void
fake_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
              const struct sandbox_cell_handlers *on, void *ctx)
{
    struct fake *f = (struct fake *)b;

    assert_null(f->sandbox.task);
    f->code = cell->code;
    f->sandbox.on = *on;
    f->sandbox.ctx = ctx;
    sbuf_addf(f->log, "run(%s%s) ", cell->code, cell->silent ? ",silent" : "");
    fake_sandbox_defer(&f->sandbox, report_cell);
}

static void
fake_run_script(struct sandbox_backend *b, const struct sandbox_script *script,
                const struct sandbox_cell_handlers *on, void *ctx)
{
    struct sandbox_cell cell = {.code = script->argv[0]};

    sbuf_add_str(((struct fake *)b)->log, "script:");
    fake_run_cell(b, &cell, on, ctx);
}

static void
fake_interrupt(struct sandbox_backend *b)
{
    sbuf_add_str(((struct fake *)b)->log, "interrupt ");
}

static void
report_asked(void *fake)
{
    struct fake *f = fake;
    struct sandbox_vars vars = {0};
    struct sandbox_saved saved = {0};
    struct error *err =
        f->sandbox.err.code != ERR_NONE ? &f->sandbox.err : NULL;

    if (f->vars_done != NULL)
        f->vars_done(f->sandbox.ctx, err == NULL ? &vars : NULL, err);
    else
        f->saved_done(f->sandbox.ctx, err == NULL ? &saved : NULL, err);
}

static void
ask(struct sandbox_backend *b, const char *what, sandbox_vars_fn vars_done,
    sandbox_saved_fn saved_done, void *ctx)
{
    struct fake *f = (struct fake *)b;

    assert_null(f->sandbox.task);
    sbuf_addf(f->log, "%s ", what);
    f->vars_done = vars_done;
    f->saved_done = saved_done;
    f->sandbox.ctx = ctx;
    f->sandbox.err = (struct error){.code = f->asked_ends};
    fake_sandbox_defer(&f->sandbox, report_asked);
}

static void
fake_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx)
{
    ask(b, "vars", done, NULL, ctx);
}

static void
fake_snapshot(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
              void *ctx)
{
    assert_int_equal(fd, 17);
    ask(b, "snapshot", NULL, done, ctx);
}

static void
fake_restore(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
             void *ctx)
{
    assert_int_equal(fd, 17);
    ask(b, "restore", NULL, done, ctx);
}

static void
fake_info(struct sandbox_backend *b, struct sandbox_info *info)
{
    (void)b;
    info->backend = "fake";
    info->uptime_ms = 5;
}

static void
fake_close(struct sandbox_backend *b)
{
    struct fake *f = (struct fake *)b;

    sbuf_add_str(f->log, "close ");
    fake_sandbox_close(b);
}

static const struct sandbox_caps fake_caps = {.name = "fake",
                                              .stateful = true,
                                              .survives_suspend = true,
                                              .keeps_files = true,
                                              .puts_early = true};

static const struct sandbox_ops fake_ops = {
    .open = fake_open,
    .put = fake_put,
    .run_cell = fake_run_cell,
    .run_script = fake_run_script,
    .interrupt = fake_interrupt,
    .suspend = fake_suspend,
    .resume = fake_resume,
    .stop = fake_stop,
    .vars = fake_vars,
    .snapshot = fake_snapshot,
    .restore = fake_restore,
    .info = fake_info,
    .close = fake_close,
};

/* ---- the caller ---- */

static void
told(struct test *t)
{
    if (t->free_in_callback) {
        sandbox_free(take_ptr(&t->sb));
        loop_stop(t->loop);
        return;
    }
    if (--t->n_open == 0)
        loop_stop(t->loop);
}

static void
on_done(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<%d,%s> ", (int)end,
              err != NULL ? error_code_name(err->code) : "-");
    told(t);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<%d,%s,%s> ", (int)end,
              err != NULL ? error_code_name(err->code) : "-",
              outcome != NULL && outcome->reason != NULL ? outcome->reason
                                                         : "-");
    told(t);
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    assert_int_equal(vars == NULL, err != NULL);
    on_done(ctx, SANDBOX_DONE, err);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    assert_int_equal(saved == NULL, err != NULL);
    on_done(ctx, SANDBOX_DONE, err);
}

static void
on_late(void *ctx, int cell, const char *loss)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<late,%d,%s> ", cell, loss != NULL ? loss : "-");
}

static struct sandbox_op *
run(struct test *t, const char *code)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};
    struct sandbox_cell cell = {
        .code = code, .code_len = strlen(code), .number = 1};

    t->n_open++;
    return sandbox_run_cell(t->sb, &cell, &on, t);
}

static struct sandbox_op *
restart(struct test *t)
{
    t->n_open++;
    return sandbox_restart(t->sb, on_done, t);
}

static void
begin(struct test *t, int64_t suspend_ms, int64_t close_ms)
{
    struct error err = {0};
    struct sandbox_limits limits = {.idle_suspend_ms = suspend_ms,
                                    .idle_close_ms = close_ms};

    memset(t, 0, sizeof(*t));
    sbuf_init(&t->log, 65536);
    t->loop = loop_new(&err);
    assert_non_null(t->loop);
    t->fake = xcalloc(1, sizeof(*t->fake));
    t->fake->ops = fake_ops;
    t->fake->sandbox.base.ops = &t->fake->ops;
    t->fake->sandbox.base.caps = fake_caps;
    t->fake->sandbox.loop = t->loop;
    t->fake->log = &t->log;
    t->sb = sandbox_new(t->loop, &t->fake->sandbox.base, &limits);
    sandbox_on_late_end(t->sb, on_late, t);
}

/* Until everything that was asked for has ended. */
static void
settle(struct test *t)
{
    if (t->n_open > 0)
        loop_run(t->loop);
}

static void
look(void *ctx)
{
    struct test *t = ctx;

    if (sandbox_state(t->sb) == t->stop_in)
        loop_stop(t->loop);
    else
        loop_add_timer(t->loop, 1, look, t);
}

static void
wait_for(struct test *t, enum sandbox_state state)
{
    t->stop_in = state;
    loop_add_timer(t->loop, 1, look, t);
    loop_run(t->loop);
}

static void
finish(struct test *t, const char *expect)
{
    settle(t);
    sandbox_free(t->sb);
    loop_free(t->loop);
    assert_string_equal(t->log.data, expect);
    sbuf_fini(&t->log);
}

static void
test_sandbox_is_suspended_and_resumed(void **state)
{
    struct test t;
    struct sandbox_info info;

    (void)state;
    begin(&t, 1, 0);
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    sandbox_info(t.sb, &info);
    assert_true(info.is_suspended);
    assert_int_equal(info.n_cells, 1);
    run(&t, "ok");
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    sandbox_open(t.sb);
    finish(&t, "open run(ok) <0,-,-> suspend resume run(ok) <0,-,-> run(ok) "
               "<0,-,-> suspend close ");
}

static void
test_sandbox_is_resumed_for_a_script(void **state)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};
    const char *argv[] = {"ok", NULL};
    struct sandbox_script script = {.dir = "d", .argv = argv};
    struct test t;
    struct sandbox_info info;

    (void)state;
    begin(&t, 1, 0);
    t.n_open++;
    sandbox_run_script(t.sb, &script, &on, &t);
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    t.n_open++;
    sandbox_run_script(t.sb, &script, &on, &t);
    settle(&t);
    sandbox_info(t.sb, &info);
    assert_int_equal(info.n_cells, 0);
    assert_true(info.has_run);
    finish(&t, "open script:run(ok) <0,-,-> suspend resume script:run(ok) "
               "<0,-,-> close ");
}

static void
run_one(void *ctx)
{
    struct test *t = ctx;

    t->fake->in_suspend = NULL;
    run(t, "ok");
}

static void
test_sandbox_operation_waits_for_the_suspend(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 0);
    t.fake->in_suspend = run_one;
    t.fake->in_suspend_ctx = &t;
    run(&t, "ok");
    settle(&t);
    loop_run(t.loop);
    finish(&t, "open run(ok) <0,-,-> suspend resume run(ok) <0,-,-> close ");
}

#define CLOSED                                                                 \
    "<late,0,the interpreter was closed: it had been idle for 0.0 s; "         \
    "variables and imports are gone>"

static void
test_sandbox_that_cannot_be_suspended(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 20);
    t.fake->suspend_ends = ERR_UNSUPPORTED;
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_NEW);
    finish(&t, "open run(ok) <0,-,-> suspend stop " CLOSED " close ");

    /* Neither does the loop wait for what never comes. */
    begin(&t, 1, 0);
    t.fake->sandbox.base.caps.survives_suspend = false;
    run(&t, "ok");
    settle(&t);
    loop_run(t.loop);
    finish(&t, "open run(ok) <0,-,-> close ");

    begin(&t, -1, 0);
    run(&t, "ok");
    settle(&t);
    loop_run(t.loop);
    finish(&t, "open run(ok) <0,-,-> close ");
}

static void
test_sandbox_is_closed_and_says_so_once(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 10);
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_NEW);
    assert_int_equal(sandbox_lost_cell(t.sb), 1);
    assert_null(sandbox_take_late_loss(t.sb));
    run(&t, "ok");
    run(&t, "ok");
    finish(&t, "open run(ok) <0,-,-> suspend stop " CLOSED
               " open run(ok) <3,-,Before this "
               "cell, the interpreter was closed: it had been idle for 0.0 "
               "s. " SANDBOX_LOST_TEXT "> run(ok) <0,-,-> close ");
}

static void
test_sandbox_is_closed_before_any_cell(void **state)
{
    struct test t;

    (void)state;
    begin(&t, -1, 5);
    sandbox_open(t.sb);
    wait_for(&t, SANDBOX_IDLE);
    wait_for(&t, SANDBOX_NEW);
    run(&t, "ok");
    finish(&t, "open stop open run(ok) <0,-,-> close ");
}

static void
test_sandbox_dies_while_suspended(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 0);
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    lose(t.fake);
    assert_int_equal(sandbox_state(t.sb), SANDBOX_NEW);
    run(&t, "ok");
    finish(&t, "open run(ok) <0,-,-> suspend died <late,0,it has died; "
               "variables and imports are gone> open run(ok) <3,-,Before this "
               "cell, it has died. " SANDBOX_LOST_TEXT "> close ");
}

static void
test_sandbox_dies_while_it_is_suspended(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 0);
    t.fake->ops.suspend = fake_suspend_and_die;
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_NEW);
    run(&t, "ok");
    finish(&t, "open run(ok) <0,-,-> suspend died <late,0,it has died; "
               "variables and imports are gone> open run(ok) <3,-,Before this "
               "cell, it has died. " SANDBOX_LOST_TEXT "> close ");
}

static void
test_sandbox_cannot_be_resumed(void **state)
{
    struct test t;

    (void)state;
    begin(&t, 1, 0);
    t.fake->resume_ends = ERR_SANDBOX;
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    run(&t, "ok");
    finish(&t, "open run(ok) <0,-,-> suspend resume <late,0,it broke; "
               "variables and imports are gone> open run(ok) <3,-,Before this "
               "cell, it broke. " SANDBOX_LOST_TEXT "> close ");
}

static void
test_sandbox_restart_brings_files_back(void **state)
{
    struct test t;
    char *loss;

    (void)state;
    begin(&t, -1, 0);
    sandbox_add_loaded(t.sb, "/dev/null", "x.csv", "df", "ok");
    run(&t, "ok");
    restart(&t);
    run(&t, "ok");
    settle(&t);
    loss = sandbox_take_late_loss(t.sb);
    assert_string_equal(
        loss, "The user has restarted the interpreter. " SANDBOX_LOST_TEXT
              " Loaded again: df.");
    free(loss);
    assert_null(sandbox_take_late_loss(t.sb));
    finish(&t, "open run(ok) <0,-,-> stop open run(ok,silent) <0,-> run(ok) "
               "<0,-,-> close ");
}

static void
test_sandbox_restart_from_each_state(void **state)
{
    struct test t;

    (void)state;
    /* Never opened, and open without a cell: there is a new one already. */
    begin(&t, 1, 0);
    restart(&t);
    settle(&t);
    restart(&t);
    settle(&t);
    assert_null(sandbox_take_late_loss(t.sb));
    finish(&t, "open <0,-> <0,-> close ");

    begin(&t, 1, 0);
    run(&t, "ok");
    settle(&t);
    wait_for(&t, SANDBOX_SUSPENDED);
    restart(&t);
    finish(&t, "open run(ok) <0,-,-> suspend stop open <0,-> close ");

    /* Lost before: it is not made twice. */
    begin(&t, -1, 0);
    sandbox_add_loaded(t.sb, "/dev/null", "x.csv", "df", "ok");
    run(&t, "ok");
    settle(&t);
    lose(t.fake);
    restart(&t);
    finish(&t, "open run(ok) <0,-,-> died <late,0,it has died; variables and "
               "imports are gone> open run(ok,silent) <0,-> close ");
}

static void
test_sandbox_restart_that_goes_wrong(void **state)
{
    static const struct {
        const char *name;
        const char *setup;
        int n_failing_opens;
        const char *expect;
    } rows[] = {
        {"no new one", "ok", 1, "open run(ok) <0,-,-> stop open <1,sandbox> "},
        {"a file that is not back", "fail", 0,
         "open run(ok) <0,-,-> stop open run(fail,silent) <3,data> "},
        {"a file that ends it", "die", 0,
         "open run(ok) <0,-,-> stop open run(die,silent) <3,data> "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;
        AUTO_FREE char *expect = xasprintf("%sclose ", rows[i].expect);

        begin(&t, -1, 0);
        run(&t, "ok");
        settle(&t);
        sandbox_add_loaded(t.sb, "/dev/null", "x.csv", "df", rows[i].setup);
        t.fake->n_failing_opens = rows[i].n_failing_opens;
        restart(&t);
        finish(&t, expect);
    }
}

static void
ask_all(struct test *t)
{
    t->n_open += 3;
    sandbox_list_vars(t->sb, on_vars, t);
    sandbox_snapshot(t->sb, 17, on_saved, t);
    sandbox_restore(t->sb, 17, on_saved, t);
}

static void
test_sandbox_asks_in_turn(void **state)
{
    struct test t;

    (void)state;
    begin(&t, -1, 0);
    ask_all(&t);
    run(&t, "ok");
    settle(&t);
    t.fake->asked_ends = ERR_DATA;
    ask_all(&t);
    finish(&t, "open vars <0,-> snapshot <0,-> restore <0,-> run(ok) <0,-,-> "
               "vars <0,data> snapshot <0,data> restore <0,data> close ");

    begin(&t, -1, 0);
    t.fake->n_failing_opens = 1;
    ask_all(&t);
    restart(&t);
    finish(&t, "open <0,sandbox> <0,sandbox> <0,sandbox> <1,sandbox> close ");
}

static void
test_sandbox_asking_is_cancelled(void **state)
{
    struct test t;

    (void)state;
    begin(&t, -1, 0);
    run(&t, "ok");
    t.n_open += 3;
    sandbox_cancel(sandbox_list_vars(t.sb, on_vars, &t));
    sandbox_cancel(sandbox_snapshot(t.sb, 17, on_saved, &t));
    sandbox_cancel(sandbox_restart(t.sb, on_done, &t));
    finish(&t, "<0,cancelled> <0,cancelled> <1,cancelled> open run(ok) "
               "<0,-,-> close ");
}

static void
test_sandbox_is_freed_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct test t;

        begin(&t, 1, 0);
        run(&t, "ok");
        settle(&t);
        if (i % 2 == 1)
            wait_for(&t, SANDBOX_SUSPENDED);
        t.free_in_callback = true;
        if (i < 2)
            restart(&t);
        else if (i < 4)
            ask_all(&t);
        else
            run(&t, "die");
        settle(&t);
        sandbox_free(t.sb);
        loop_free(t.loop);
        sbuf_fini(&t.log);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox_is_suspended_and_resumed),
        cmocka_unit_test(test_sandbox_is_resumed_for_a_script),
        cmocka_unit_test(test_sandbox_operation_waits_for_the_suspend),
        cmocka_unit_test(test_sandbox_that_cannot_be_suspended),
        cmocka_unit_test(test_sandbox_is_closed_and_says_so_once),
        cmocka_unit_test(test_sandbox_is_closed_before_any_cell),
        cmocka_unit_test(test_sandbox_dies_while_suspended),
        cmocka_unit_test(test_sandbox_dies_while_it_is_suspended),
        cmocka_unit_test(test_sandbox_cannot_be_resumed),
        cmocka_unit_test(test_sandbox_restart_brings_files_back),
        cmocka_unit_test(test_sandbox_restart_from_each_state),
        cmocka_unit_test(test_sandbox_restart_that_goes_wrong),
        cmocka_unit_test(test_sandbox_asks_in_turn),
        cmocka_unit_test(test_sandbox_asking_is_cancelled),
        cmocka_unit_test(test_sandbox_is_freed_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
