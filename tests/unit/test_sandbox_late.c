/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cells that do not stop when asked, and callers that do not wait for them. The
 * back end here does nothing by itself: a cell ends when the test says so.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "helpers/fake_sandbox.h"
#include "sandbox/sandbox.h"

struct fake {
    struct fake_sandbox sandbox; /* first */
    struct sbuf *log;
    bool runs;
};

struct test {
    struct loop *loop;
    struct fake *fake;
    struct sandbox *sb;
    struct sbuf log;
    bool frees;
};

static void
fake_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
              const struct sandbox_cell_handlers *on, void *ctx)
{
    struct fake *f = (struct fake *)b;

    assert_false(f->runs);
    f->runs = true;
    f->sandbox.on = *on;
    f->sandbox.ctx = ctx;
    sbuf_addf(f->log, "run(%s) ", cell->code);
    f->sandbox.on.on_begin(f->sandbox.ctx);
    f->sandbox.on.on_bytes(f->sandbox.ctx, EVENT_STDOUT, "x", 1);
    loop_stop(f->sandbox.loop);
}

static void
fake_run_script(struct sandbox_backend *b, const struct sandbox_script *script,
                const struct sandbox_cell_handlers *on, void *ctx)
{
    struct sandbox_cell cell = {.code = script->argv[0]};

    fake_run_cell(b, &cell, on, ctx);
}

static void
fake_interrupt(struct sandbox_backend *b)
{
    sbuf_add_str(((struct fake *)b)->log, b->no_grace ? "end " : "interrupt ");
}

static const struct sandbox_caps caps = {
    .name = "fake", .stateful = true, .keeps_files = true, .puts_early = true};

static const struct sandbox_ops ops = {
    .open = fake_sandbox_open,
    .run_cell = fake_run_cell,
    .run_script = fake_run_script,
    .interrupt = fake_interrupt,
    UNUSED_SANDBOX_OPS,
    .close = fake_sandbox_close,
};

/* The cell really ends. */
static void
end_cell(struct fake *f, enum sandbox_end end, enum event_outcome how)
{
    struct sandbox_outcome outcome = {.outcome = how};
    struct error err = {.code = ERR_SANDBOX, .msg = "no new one."};

    if (end != SANDBOX_DONE) {
        outcome.reason = "It ended.";
        outcome.variables_lost = true;
    }
    f->runs = false;
    f->sandbox.on.on_bytes(f->sandbox.ctx, EVENT_STDOUT, "y", 1);
    f->sandbox.on.on_done(f->sandbox.ctx, end, &outcome,
                          end == SANDBOX_LOST ? &err : NULL);
}

/* ---- the caller ---- */

static void
on_begin(void *ctx)
{
    struct test *t = ctx;

    sbuf_add_str(&t->log, "begin ");
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct test *t = ctx;

    (void)stream;
    sbuf_add(&t->log, data, len);
    sbuf_add_char(&t->log, ' ');
}

static void
on_done(void *ctx, enum sandbox_end end, const struct sandbox_outcome *o,
        const struct error *err)
{
    struct test *t = ctx;

    assert_true(o != NULL || err != NULL);
    sbuf_addf(&t->log, "<%d,%s,%s%s> ", (int)end,
              o != NULL ? event_outcome_name(o->outcome) : "-",
              o != NULL && o->still_stopping ? "late" : "-",
              o != NULL && !o->still_stopping && o->reason != NULL ? o->reason
                                                                   : "");
    if (t->frees)
        sandbox_free(take_ptr(&t->sb));
    loop_stop(t->loop);
}

static void
on_late_end(void *ctx, int cell, const char *loss)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "late(%d,%s) ", cell, loss != NULL ? loss : "-");
}

static struct sandbox_op *
run(struct test *t, const char *code, int number)
{
    static const struct sandbox_cell_handlers on = {
        .on_begin = on_begin, .on_bytes = on_bytes, .on_done = on_done};
    struct sandbox_cell cell = {.code = code,
                                .code_len = strlen(code),
                                .silent = number == 0,
                                .number = number};

    return sandbox_run_cell(t->sb, &cell, &on, t);
}

/* Cell 7 runs. */
static struct sandbox_op *
begin(struct test *t)
{
    struct error err = {0};
    struct sandbox_op *op = NULL;

    memset(t, 0, sizeof(*t));
    sbuf_init(&t->log, 65536);
    t->loop = loop_new(&err);
    assert_non_null(t->loop);
    t->fake = xcalloc(1, sizeof(*t->fake));
    t->fake->sandbox.base.ops = &ops;
    t->fake->sandbox.base.caps = caps;
    t->fake->sandbox.loop = t->loop;
    t->fake->log = &t->log;
    t->sb = sandbox_new(t->loop, &t->fake->sandbox.base, NULL);
    sandbox_on_late_end(t->sb, on_late_end, t);
    op = run(t, "a", 7);
    loop_run(t->loop);
    assert_string_equal(t->log.data, "run(a) begin x ");
    sbuf_clear(&t->log);
    return op;
}

static void
finish(struct test *t, const char *expect)
{
    assert_string_equal(t->log.data, expect);
    sandbox_free(t->sb);
    loop_free(t->loop);
    sbuf_fini(&t->log);
}

/* The next cell runs from the beginning to the end. */
static void
run_next(struct test *t)
{
    run(t, "b", 8);
    loop_run(t->loop);
    end_cell(t->fake, SANDBOX_DONE, EVENT_OK);
    loop_run(t->loop);
}

#define LEFT "interrupt <0,interrupted,late> "
#define NEXT "run(b) begin x y <0,ok,-> "

static void
test_a_cell_that_ends_in_time(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    sandbox_leave(op);
    end_cell(t.fake, SANDBOX_DONE, EVENT_INTERRUPTED);
    loop_run(t.loop);
    run_next(&t);
    finish(&t, "interrupt y <0,interrupted,-> " NEXT);
}

static void
test_a_cell_that_ends_late(void **state)
{
    static const struct {
        enum sandbox_end end;
        bool take;
        int lost_cell;
        const char *late;
        const char *next;
    } cases[] = {
        {SANDBOX_DONE, false, 0, "late(7,-) ", NEXT},
        {SANDBOX_DONE, true, 0, "late(7,-) ", NEXT},
        {SANDBOX_RESTARTED, true, 7, "late(7,cell 7: It ended.) ", NEXT},
        {SANDBOX_RESTARTED, false, 7, "late(7,cell 7: It ended.) ",
         "run(b) begin x y <3,ok,-cell 7: It ended.> "},
        {SANDBOX_LOST, true, 7, "late(7,cell 7: It ended. no new one.) ", NEXT},
        {SANDBOX_LOST, false, 7, "late(7,cell 7: It ended. no new one.) ",
         "run(b) begin x y <3,ok,-cell 7: It ended. no new one.> "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct test t;
        struct sandbox_op *op = begin(&t);
        AUTO_FREE char *loss = NULL;

        sandbox_leave(op);
        sandbox_leave(op);
        loop_run(t.loop);
        assert_int_equal(sandbox_state(t.sb), SANDBOX_BUSY);
        assert_null(sandbox_take_late_loss(t.sb));
        assert_string_equal(t.log.data, "interrupt " LEFT);
        sbuf_clear(&t.log);
        end_cell(t.fake, cases[i].end, EVENT_INTERRUPTED);
        /* The program's own work does not use the loss up. */
        run(&t, "own", 0);
        loop_run(t.loop);
        assert_true(str_starts(t.log.data, cases[i].late));
        end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
        loop_run(t.loop);
        sbuf_clear(&t.log);
        assert_int_equal(sandbox_lost_cell(t.sb), cases[i].lost_cell);
        if (cases[i].take)
            loss = sandbox_take_late_loss(t.sb);
        assert_int_equal(loss != NULL,
                         cases[i].take && cases[i].end != SANDBOX_DONE);
        run_next(&t);
        assert_null(sandbox_take_late_loss(t.sb));
        finish(&t, cases[i].next);
    }
}

/* Left as a cell is. It has no number; whether variables went with it is the
   next cell's to say all the same. */
static void
test_a_script_that_ends_late(void **state)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_done};
    const char *argv[] = {"s", NULL};
    struct sandbox_script script = {.dir = "d", .argv = argv};
    struct test t;
    struct sandbox_op *op;

    (void)state;
    begin(&t);
    end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
    loop_run(t.loop);
    sbuf_clear(&t.log);
    op = sandbox_run_script(t.sb, &script, &on, &t);
    loop_run(t.loop);
    sandbox_leave(op);
    loop_run(t.loop);
    assert_string_equal(t.log.data, "run(s) " LEFT);
    sbuf_clear(&t.log);
    end_cell(t.fake, SANDBOX_RESTARTED, EVENT_KILLED);
    run_next(&t);
    finish(&t, "late(0,It ended.) run(b) begin x y <3,ok,-It ended.> ");
}

static void
on_restarted(void *ctx, enum sandbox_end end, const struct error *err)
{
    (void)ctx;
    (void)end;
    (void)err;
    fail();
}

/* Nobody waits for what keeps the variables; one that is not stopping yet is
   left alone. */
static void
test_a_cell_that_a_restart_ends(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    sandbox_restart(t.sb, on_restarted, &t);
    assert_string_equal(t.log.data, "");
    sandbox_leave(op);
    loop_run(t.loop);
    sbuf_clear(&t.log);
    sandbox_restart(t.sb, on_restarted, &t);
    finish(&t, "end ");
}

/* Its interpreter is gone by then, and the files are on their way back. */
static void
test_a_cell_whose_files_come_back_late(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load");
    sandbox_leave(op);
    end_cell(t.fake, SANDBOX_RESTARTED, EVENT_KILLED);
    loop_run(t.loop);
    loop_run(t.loop);
    end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
    run(&t, "b", 8);
    loop_run(t.loop);
    finish(&t, "interrupt y run(load) <3,killed,late> "
               "late(7,Loaded again: a.) run(b) begin x ");
}

/* Nobody waits for them, so that Ctrl-C costs none of them. */
static void
test_files_on_their_way_back_are_not_stopped(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load");
    end_cell(t.fake, SANDBOX_RESTARTED, EVENT_DIED);
    loop_run(t.loop);
    sandbox_leave(op);
    loop_run(t.loop);
    end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
    run_next(&t);
    finish(&t, "y run(load) <3,died,late> late(7,Loaded again: a.) "
               "run(b) begin x y <3,ok,-Loaded again: a.> ");
}

/* A load that takes the interpreter with it: its caller says so to the person,
   and the model hears of it as of any other loss. */
static void
test_a_loss_with_a_cell_of_our_own(void **state)
{
    static const struct {
        enum sandbox_end end;
        const char *loss;
        const char *next;
    } cases[] = {
        {SANDBOX_DONE, NULL, NEXT},
        {SANDBOX_RESTARTED, "It ended.", "run(b) begin x y <3,ok,-It ended.> "},
        {SANDBOX_LOST, "It ended. no new one.",
         "run(b) begin x y <3,ok,-It ended. no new one.> "},
    };

    (void)state;
    for (size_t i = 0; i < 2 * LEN(cases); i++) {
        bool take = i % 2 == 0;
        struct test t;
        AUTO_FREE char *loss = NULL;

        (void)begin(&t);
        end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
        loop_run(t.loop);
        run(&t, "own", 0);
        loop_run(t.loop);
        end_cell(t.fake, cases[i / 2].end, EVENT_DIED);
        loop_run(t.loop);
        sbuf_clear(&t.log);
        if (take)
            loss = sandbox_take_late_loss(t.sb);
        if (take && cases[i / 2].loss != NULL)
            assert_string_equal(loss, cases[i / 2].loss);
        else
            assert_null(loss);
        run_next(&t);
        assert_null(sandbox_take_late_loss(t.sb));
        finish(&t, take ? NEXT : cases[i / 2].next);
    }
}

/* Whatever is asked for while files come back, they come one after the other.
 */
static void
ask_while_loading(struct test *t)
{
    assert_true(t->fake->runs);
    sbuf_clear(&t->log);
    sandbox_cancel(run(t, "c", 9));
    loop_run(t->loop);
    assert_string_equal(t->log.data, "<1,-,-> ");
    sbuf_clear(&t->log);
    end_cell(t->fake, SANDBOX_DONE, EVENT_OK);
    loop_run(t->loop);
}

static void
test_what_is_asked_while_files_come_back(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    (void)begin(&t);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load");
    end_cell(t.fake, SANDBOX_RESTARTED, EVENT_KILLED);
    loop_run(t.loop);
    ask_while_loading(&t);
    assert_string_equal(t.log.data, "<3,killed,-It ended. Loaded again: a.> ");
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    run(&t, "b", 8);
    loop_run(t.loop);
    ask_while_loading(&t);
    finish(&t, "run(b) begin x ");
}

/* What its cells had is lost with an interpreter that ends by itself, too. */
static void
test_a_loss_while_idle(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    (void)begin(&t);
    end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
    loop_run(t.loop);
    assert_int_equal(sandbox_lost_cell(t.sb), 0);
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    assert_int_equal(sandbox_lost_cell(t.sb), 7);
    assert_null(sandbox_take_late_loss(t.sb));
    /* The person at once, and the model with the next cell. */
    finish(&t, "y <0,ok,-> late(0,it ended; variables and imports are gone) ");
}

/* Such a loss is for a caller who still listens. */
static void
test_a_loss_before_it(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct sandbox_op *op = NULL;
    struct test t;

    (void)state;
    (void)begin(&t);
    end_cell(t.fake, SANDBOX_DONE, EVENT_OK);
    loop_run(t.loop);
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    op = run(&t, "c", 9);
    loop_run(t.loop);
    sbuf_clear(&t.log);
    sandbox_leave(op);
    loop_run(t.loop);
    end_cell(t.fake, SANDBOX_DONE, EVENT_INTERRUPTED);
    run_next(&t);
    finish(&t, LEFT "late(9,-) run(b) begin x y <3,ok,-Before this cell, it "
                    "ended. " SANDBOX_LOST_TEXT "> ");
}

static void
test_a_caller_that_frees_it(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    t.frees = true;
    sandbox_leave(op);
    loop_run(t.loop);
    assert_null(t.sb);
    finish(&t, LEFT);
}

static void
test_the_end_comes_first(void **state)
{
    struct test t;
    struct sandbox_op *op = begin(&t);

    (void)state;
    sandbox_leave(op);
    loop_run(t.loop);
    run(&t, "b", 8);
    /* Closed while it is still stopping: nobody is told anything. */
    finish(&t, LEFT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cell_that_ends_in_time),
        cmocka_unit_test(test_a_cell_that_ends_late),
        cmocka_unit_test(test_a_script_that_ends_late),
        cmocka_unit_test(test_a_cell_that_a_restart_ends),
        cmocka_unit_test(test_a_cell_whose_files_come_back_late),
        cmocka_unit_test(test_what_is_asked_while_files_come_back),
        cmocka_unit_test(test_files_on_their_way_back_are_not_stopped),
        cmocka_unit_test(test_a_loss_with_a_cell_of_our_own),
        cmocka_unit_test(test_a_loss_while_idle),
        cmocka_unit_test(test_a_loss_before_it),
        cmocka_unit_test(test_a_caller_that_frees_it),
        cmocka_unit_test(test_the_end_comes_first),
    };

    return cmocka_run_group_tests_name("sandbox_late", tests, NULL, NULL);
}
