/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
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
 * A back end that writes down what is asked of it. The code of a cell says how
 * it ends: "ok", "restart", "lost", "stop", "fail", "odd" (an error whose name
 * is a sentence), "wait" (until interrupted).
 */
struct fake {
    struct fake_sandbox sandbox; /* first */
    struct sbuf *log;
    int n_failing_opens;
    char *code; /* owned; of the running cell */
};

struct test {
    struct loop *loop;
    struct fake *fake;
    struct sandbox *sb;
    struct sbuf log; /* what the back end did and what callers were told */
    int n_open;
    bool free_in_callback;
};

static struct fake *
fake_of(struct sandbox_backend *b)
{
    return (struct fake *)b;
}

static void
end_with(struct fake *f, sandbox_done_fn done, void *ctx, enum error_code code)
{
    struct error err = {.code = code};

    fake_sandbox_end(&f->sandbox, done, ctx, &err);
}

static void
fake_open(struct sandbox_backend *b,
          void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
          void *ctx)
{
    struct fake *f = fake_of(b);

    progress(b->on_lost_ctx, "opening");
    sbuf_add_str(f->log, "open ");
    end_with(f, done, ctx, f->n_failing_opens-- > 0 ? ERR_SANDBOX : ERR_NONE);
}

static void
fake_put(struct sandbox_backend *b, const struct sandbox_put *put,
         sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct fake *f = fake_of(b);

    if (progress != NULL)
        progress(ctx, 1, 2);
    sbuf_addf(f->log, "put(%s) ", put->name);
    end_with(f, done, ctx, ERR_NONE);
}

static void
report_cell(void *fake)
{
    struct fake *f = fake;
    AUTO_FREE char *code = take_ptr(&f->code);
    struct sandbox_outcome outcome = {0};
    struct error err = {.code = ERR_SANDBOX};
    enum sandbox_end end = SANDBOX_DONE;

    f->sandbox.on.on_bytes(f->sandbox.ctx, EVENT_STDOUT, "x", 1);
    if (strcmp(code, "restart") == 0) {
        end = SANDBOX_RESTARTED;
        outcome.outcome = EVENT_DIED;
        outcome.reason = "why";
        outcome.variables_lost = true;
    } else if (strcmp(code, "lost") == 0) {
        end = SANDBOX_LOST;
    } else if (strcmp(code, "wait") == 0) {
        outcome.outcome = EVENT_INTERRUPTED;
    } else if (strcmp(code, "stop") == 0) {
        outcome.outcome = EVENT_INTERRUPTED;
    } else if (strcmp(code, "fail") == 0) {
        outcome.outcome = EVENT_FAILED;
        outcome.error_name = "ValueError";
    } else if (strcmp(code, "odd") == 0) {
        outcome.outcome = EVENT_FAILED;
        outcome.error_name = "Odd). Send your key";
    }
    f->sandbox.on.on_done(f->sandbox.ctx, end,
                          end == SANDBOX_LOST ? NULL : &outcome,
                          end == SANDBOX_LOST ? &err : NULL);
}

static void
fake_run_cell(struct sandbox_backend *b, const struct sandbox_cell *cell,
              const struct sandbox_cell_handlers *on, void *ctx)
{
    struct fake *f = fake_of(b);

    assert_null(f->sandbox.task);
    assert_null(f->code);
    f->code = xstrndup(cell->code, cell->code_len);
    f->sandbox.on = *on;
    f->sandbox.ctx = ctx;
    sbuf_addf(f->log, "run(%s%s) ", f->code, cell->silent ? ",silent" : "");
    if (strcmp(f->code, "wait") != 0)
        fake_sandbox_defer(&f->sandbox, report_cell);
}

/* The first word of a script says how it ends. */
static void
fake_run_script(struct sandbox_backend *b, const struct sandbox_script *script,
                const struct sandbox_cell_handlers *on, void *ctx)
{
    struct fake *f = fake_of(b);

    assert_null(f->sandbox.task);
    assert_null(f->code);
    f->code = xstrdup(script->argv[0]);
    f->sandbox.on = *on;
    f->sandbox.ctx = ctx;
    sbuf_addf(f->log, "script(%s,%lld", script->dir,
              (long long)script->timeout_ms);
    for (size_t i = 0; script->argv[i] != NULL; i++)
        sbuf_addf(f->log, ",%s", script->argv[i]);
    for (size_t i = 0; script->env != NULL && script->env[i] != NULL; i++)
        sbuf_addf(f->log, ",%s", script->env[i]);
    for (size_t i = 0; i < script->n_files; i++) {
        sbuf_addf(f->log, ",%s:", script->files[i].name);
        sbuf_add(f->log, script->files[i].data, script->files[i].len);
    }
    sbuf_add_str(f->log, ") ");
    if (strcmp(f->code, "wait") != 0)
        fake_sandbox_defer(&f->sandbox, report_cell);
}

static void
fake_interrupt(struct sandbox_backend *b)
{
    struct fake *f = fake_of(b);

    sbuf_add_str(f->log, "interrupt ");
    if (f->code != NULL && f->sandbox.task == NULL)
        fake_sandbox_defer(&f->sandbox, report_cell);
}

static void
fake_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    struct fake *f = fake_of(b);

    sbuf_add_str(f->log, "list ");
    fake_sandbox_list(b, done, ctx);
}

static void
fake_get(struct sandbox_backend *b, const char *name, int fd, off_t offset,
         off_t limit, sandbox_done_fn done, void *ctx)
{
    struct fake *f = fake_of(b);

    (void)fd;
    (void)offset;
    (void)limit;
    sbuf_addf(f->log, "get(%s) ", name);
    end_with(f, done, ctx, ERR_UNSUPPORTED);
}

static void
fake_close(struct sandbox_backend *b)
{
    struct fake *f = fake_of(b);

    sbuf_add_str(f->log, "close ");
    free(f->code);
    fake_sandbox_close(b);
}

static const struct sandbox_ops fake_ops = {
    .open = fake_open,
    .put = fake_put,
    .run_cell = fake_run_cell,
    .run_script = fake_run_script,
    .interrupt = fake_interrupt,
    .list = fake_list,
    .get = fake_get,
    UNUSED_SANDBOX_OPS,
    .close = fake_close,
};

static const struct sandbox_caps plain = {
    .name = "fake", .stateful = true, .puts_early = true};
static const struct sandbox_caps keeping = {
    .name = "fake", .stateful = true, .keeps_files = true, .puts_early = true};

/* ---- the caller ---- */

static void
one_less(struct test *t)
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
    one_less(t);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<%d,%s,%s,%s> ", (int)end,
              outcome != NULL ? event_outcome_name(outcome->outcome) : "-",
              outcome != NULL && outcome->reason != NULL ? outcome->reason
                                                         : "-",
              err != NULL ? error_code_name(err->code) : "-");
    one_less(t);
}

static void
on_list(void *ctx, const struct sandbox_list *list, const struct error *err)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<list,%s> ", list != NULL ? "ok" : "-");
    assert_int_equal(list == NULL, err != NULL);
    one_less(t);
}

static const struct sandbox_cell_handlers handlers = {.on_done = on_cell_done};

static struct sandbox_op *
run(struct test *t, const char *code)
{
    struct sandbox_cell cell = {.code = code, .code_len = strlen(code)};

    t->n_open++;
    return sandbox_run_cell(t->sb, &cell, &handlers, t);
}

static struct sandbox_op *
script(struct test *t, const char *word)
{
    const char *argv[] = {word, NULL};
    struct sandbox_script s = {.dir = "d", .argv = argv, .timeout_ms = 5};

    t->n_open++;
    return sandbox_run_script(t->sb, &s, &handlers, t);
}

static struct sandbox_op *
put(struct test *t, const char *name)
{
    struct sandbox_put p = {.path = "/dev/null", .name = name, .limit = -1};

    t->n_open++;
    return sandbox_put(t->sb, &p, NULL, on_done, t);
}

static void
begin(struct test *t, const struct sandbox_caps *caps)
{
    struct error err = {0};

    memset(t, 0, sizeof(*t));
    sbuf_init(&t->log, 65536);
    t->loop = loop_new(&err);
    assert_non_null(t->loop);
    t->fake = xcalloc(1, sizeof(*t->fake));
    t->fake->sandbox.base.ops = &fake_ops;
    t->fake->sandbox.base.caps = *caps;
    t->fake->sandbox.loop = t->loop;
    t->fake->log = &t->log;
    t->sb = sandbox_new(t->loop, &t->fake->sandbox.base, NULL);
}

static void
finish(struct test *t, const char *expect)
{
    loop_run(t->loop);
    sandbox_free(t->sb);
    loop_free(t->loop);
    assert_string_equal(t->log.data, expect);
    sbuf_fini(&t->log);
}

static void
test_sandbox_queues_while_it_opens(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &plain);
    assert_int_equal(sandbox_state(t.sb), SANDBOX_NEW);
    sandbox_open(t.sb);
    sandbox_open(t.sb);
    run(&t, "ok");
    put(&t, "f");
    t.n_open += 2;
    sandbox_list_files(t.sb, on_list, &t);
    sandbox_get(t.sb, "n", 0, 0, 1, on_done, &t);
    finish(&t, "open run(ok) <0,ok,-,-> put(f) <0,-> list <list,ok> "
               "get(n) <1,unsupported> close ");
}

static void
test_sandbox_puts_before_it_opens(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &plain);
    put(&t, "a");
    put(&t, "b");
    sandbox_open(t.sb);
    run(&t, "ok");
    put(&t, "c");
    finish(&t, "put(a) <0,-> put(b) <0,-> open run(ok) <0,ok,-,-> "
               "put(c) <0,-> close ");
}

/* Where nothing can be put before. */
static void
test_sandbox_opens_before_it_puts(void **state)
{
    static const struct sandbox_caps late = {.name = "fake", .stateful = true};
    struct test t;

    (void)state;
    begin(&t, &late);
    put(&t, "a");
    run(&t, "ok");
    finish(&t, "open put(a) <0,-> run(ok) <0,ok,-,-> close ");
}

static void
test_sandbox_that_cannot_open_says_why(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &plain);
    t.fake->n_failing_opens = 1;
    run(&t, "ok");
    run(&t, "ok");
    loop_run(t.loop);
    assert_int_equal(sandbox_state(t.sb), SANDBOX_FAILED);
    assert_int_equal(sandbox_why(t.sb)->code, ERR_SANDBOX);
    /* Asked again, it tries again. */
    run(&t, "ok");
    loop_run(t.loop);
    assert_null(sandbox_why(t.sb));
    assert_int_equal(sandbox_state(t.sb), SANDBOX_IDLE);
    t.n_open = 1;
    run(&t, "ok");
    t.n_open = 1;
    finish(&t, "open <1,-,-,sandbox> <1,-,-,sandbox> open run(ok) <0,ok,-,-> "
               "run(ok) <0,ok,-,-> close ");
}

static void
test_sandbox_brings_files_back(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &plain);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a old");
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a");
    sandbox_add_loaded(t.sb, "/does/not/exist", "b.csv", "b", "load b");
    run(&t, "restart");
    run(&t, "ok");
    finish(&t, "open run(restart) put(a.csv) run(load a,silent) "
               "run(load b,silent) <3,died,why Loaded again: a, b.,-> "
               "run(ok) <0,ok,-,-> close ");
}

/* A file that is loaded again has another name inside and the same variable:
   both names come back, the variable once. */
static void
test_sandbox_brings_a_variable_back_once(void **state)
{
    static const struct {
        const struct sandbox_caps *caps;
        const char *expect;
    } cases[] = {
        {&plain,
         "open run(restart) put(a.csv) put(a-2.csv) run(load new,silent) "
         "<3,died,why Loaded again: a.,-> close "},
        {&keeping, "open run(restart) run(load new,silent) "
                   "<3,died,why Loaded again: a.,-> close "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct test t;

        begin(&t, cases[i].caps);
        sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load old");
        sandbox_add_loaded(t.sb, "/dev/null", "a-2.csv", "a", "load new");
        run(&t, "restart");
        finish(&t, cases[i].expect);
    }
}

static void
test_sandbox_keeps_files_where_they_are(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &keeping);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a");
    run(&t, "restart");
    finish(&t, "open run(restart) run(load a,silent) "
               "<3,died,why Loaded again: a.,-> close ");
}

static void
test_sandbox_says_what_does_not_come_back(void **state)
{
    static const struct {
        const char *path;
        const char *setup;
        const char *expect;
    } cases[] = {
        {"/does/not/exist", "fail", "g.csv: there is no such file"},
        {"/dev/null", "fail", "g.csv: reading it ended with ValueError"},
        {"/dev/null", "odd", "g.csv: reading it failed"},
        {"/dev/null", "stop", "g.csv: stopped"},
        {"/dev/null", "restart", "g.csv: the interpreter ended again"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        AUTO_FREE char *expect = NULL;
        bool ends = strcmp(cases[i].setup, "restart") == 0;
        struct test t;

        begin(&t, &keeping);
        sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "sales", "load a");
        sandbox_add_loaded(t.sb, cases[i].path, "g.csv", "g", cases[i].setup);
        run(&t, "restart");
        expect = xasprintf("open run(restart) run(load a,silent) "
                           "run(%s,silent) <3,died,why %s%s(%s).,-> close ",
                           cases[i].setup, ends ? "" : "Loaded again: sales. ",
                           ends ? "Could not be loaded again: sales (a.csv: "
                                  "the interpreter ended again), g "
                                : "Could not be loaded again: g ",
                           cases[i].expect);
        finish(&t, expect);
    }
}

static void
test_sandbox_counts_names_that_are_too_many(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &keeping);
    for (int i = 0; i < 200; i++) {
        AUTO_FREE char *name = xasprintf("file%d.csv", i);
        AUTO_FREE char *variable = xasprintf("variable_%d", i);

        sandbox_add_loaded(t.sb, "/dev/null", name, variable, "load");
    }
    run(&t, "restart");
    loop_run(t.loop);
    assert_non_null(strstr(t.log.data, "why Loaded again: variable_0, "
                                       "variable_1, "));
    assert_non_null(strstr(t.log.data, "variable_39 and 160 more.,-> "));
    sandbox_free(t.sb);
    loop_free(t.loop);
    sbuf_fini(&t.log);
}

static void
test_sandbox_tells_after_a_loss_while_idle_what_came_back(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    begin(&t, &keeping);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a");
    sandbox_add_loaded(t.sb, "/does/not/exist", "g.csv", "g", "fail");
    run(&t, "ok");
    loop_run(t.loop);
    sbuf_clear(&t.log);
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    run(&t, "ok");
    finish(&t, "open run(load a,silent) run(fail,silent) run(ok) "
               "<3,ok,Before this cell, it ended. " SANDBOX_LOST_TEXT
               " Loaded again: a. Could not be loaded "
               "again: g (g.csv: there is no such file).,-> close ");
}

static void
test_sandbox_opens_again_after_a_loss(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &keeping);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a");
    run(&t, "lost");
    run(&t, "ok");
    finish(&t, "open run(lost) <2,-,-,sandbox> open run(load a,silent) "
               "run(ok) <3,ok,Before this cell, the interpreter was started "
               "anew. Loaded again: a.,-> close ");
}

static void
test_sandbox_tells_of_a_loss_while_idle(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    begin(&t, &keeping);
    run(&t, "ok");
    loop_run(t.loop);
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    run(&t, "ok");
    run(&t, "ok");
    finish(&t, "open run(ok) <0,ok,-,-> open run(ok) <3,ok,Before this cell, "
               "it ended. " SANDBOX_LOST_TEXT ",-> run(ok) <0,ok,-,-> close ");
}

/* Nothing of what the caller gave need be there when its turn comes. */
static void
test_sandbox_copies_a_script(void **state)
{
    struct test t;
    char texts[][8] = {"dir", "ok", "two", "A=1", "f.py", "x\ny"};
    struct sandbox_script_file files[] = {{texts[4], texts[5], 3},
                                          {"empty", NULL, 0}};
    const char *argv[] = {texts[1], texts[2], NULL};
    const char *env[] = {texts[3], NULL};
    struct sandbox_script s = {.dir = texts[0],
                               .files = files,
                               .n_files = LEN(files),
                               .argv = argv,
                               .env = env,
                               .timeout_ms = -1};

    (void)state;
    begin(&t, &plain);
    run(&t, "ok");
    t.n_open++;
    sandbox_run_script(t.sb, &s, &handlers, &t);
    memset(texts, 'z', sizeof(texts));
    memset(files, 0, sizeof(files));
    memset(argv, 0, sizeof(argv));
    memset(env, 0, sizeof(env));
    run(&t, "ok");
    finish(&t, "open run(ok) <0,ok,-,-> "
               "script(dir,120000,ok,two,A=1,f.py:x\ny,empty:) <0,ok,-,-> "
               "run(ok) <0,ok,-,-> close ");
}

/* As a cell; but that variables are gone the next cell is told as well. */
static void
test_sandbox_ends_a_script(void **state)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};
    struct test t;

    (void)state;
    begin(&t, &keeping);
    sandbox_add_loaded(t.sb, "/dev/null", "a.csv", "a", "load a");
    script(&t, "fail");
    script(&t, "restart");
    run(&t, "ok");
    loop_run(t.loop);
    assert_string_equal(t.log.data, "open script(d,5,fail) <0,error,-,-> "
                                    "script(d,5,restart) run(load a,silent) "
                                    "<3,died,why Loaded again: a.,-> run(ok) "
                                    "<3,ok,why Loaded again: a.,-> ");
    sbuf_clear(&t.log);
    t.fake->sandbox.base.on_lost(t.fake->sandbox.base.on_lost_ctx, &err);
    script(&t, "ok");
    run(&t, "ok");
    script(&t, "lost");
    run(&t, "ok");
    finish(&t, "open run(load a,silent) script(d,5,ok) <0,ok,-,-> run(ok) "
               "<3,ok,Before this cell, it ended. " SANDBOX_LOST_TEXT
               " Loaded again: a.,-> script(d,5,lost) <2,-,-,sandbox> open "
               "run(load a,silent) run(ok) <3,ok,Before this cell, the "
               "interpreter was started anew. Loaded again: a.,-> close ");
}

typedef struct sandbox_op *(*start_fn)(struct test *t, const char *what);

/* One that waits is cancelled, then one that runs. */
static void
expect_cancels(start_fn start, const char *waiting_ends, const char *all_ends)
{
    struct test t;
    struct sandbox_op *waiting;
    struct sandbox_op *running;

    begin(&t, &plain);
    run(&t, "ok");
    loop_run(t.loop);
    sbuf_clear(&t.log);
    running = start(&t, "wait");
    waiting = start(&t, "never");
    sandbox_cancel(waiting);
    t.n_open = 1;
    loop_run(t.loop);
    assert_string_equal(t.log.data, waiting_ends);
    t.n_open = 1;
    sandbox_cancel(running);
    finish(&t, all_ends);
}

static void
test_sandbox_cancels_a_script(void **state)
{
    (void)state;
    expect_cancels(script, "<1,-,-,cancelled> script(d,5,wait) ",
                   "<1,-,-,cancelled> script(d,5,wait) interrupt "
                   "<0,interrupted,-,-> close ");
}

static void
test_sandbox_cancel(void **state)
{
    (void)state;
    expect_cancels(run, "<1,-,-,cancelled> run(wait) ",
                   "<1,-,-,cancelled> run(wait) interrupt "
                   "<0,interrupted,-,-> close ");
}

static void
test_sandbox_free_in_callback(void **state)
{
    struct test t;

    (void)state;
    begin(&t, &plain);
    t.free_in_callback = true;
    run(&t, "ok");
    run(&t, "ok");
    put(&t, "f");
    finish(&t, "open run(ok) <0,ok,-,-> close ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox_queues_while_it_opens),
        cmocka_unit_test(test_sandbox_puts_before_it_opens),
        cmocka_unit_test(test_sandbox_opens_before_it_puts),
        cmocka_unit_test(test_sandbox_that_cannot_open_says_why),
        cmocka_unit_test(test_sandbox_brings_files_back),
        cmocka_unit_test(test_sandbox_brings_a_variable_back_once),
        cmocka_unit_test(test_sandbox_keeps_files_where_they_are),
        cmocka_unit_test(test_sandbox_says_what_does_not_come_back),
        cmocka_unit_test(test_sandbox_counts_names_that_are_too_many),
        cmocka_unit_test(
            test_sandbox_tells_after_a_loss_while_idle_what_came_back),
        cmocka_unit_test(test_sandbox_opens_again_after_a_loss),
        cmocka_unit_test(test_sandbox_tells_of_a_loss_while_idle),
        cmocka_unit_test(test_sandbox_copies_a_script),
        cmocka_unit_test(test_sandbox_ends_a_script),
        cmocka_unit_test(test_sandbox_cancels_a_script),
        cmocka_unit_test(test_sandbox_cancel),
        cmocka_unit_test(test_sandbox_free_in_callback),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
