/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sandbox before back ends that write down what is asked of them, each with a
 * letter of its own, and a caller who writes down what he is told.
 */
#ifndef UNIT_SANDBOX_FAKES_H
#define UNIT_SANDBOX_FAKES_H

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
#include "base/str.h"
#include "helpers/fake_sandbox.h"
#include "sandbox/sandbox.h"

/*
 * The code of a cell says how it ends: "ok...", "fail", "restart", "gone" (with
 * all files), "lost", "wait" (until it is interrupted).
 */
struct fake {
    struct fake_sandbox sandbox; /* first */
    char letter;
    struct sbuf *log;
    char *code;          /* owned; of the running cell */
    const char *at_ok;   /* the code that ends ... */
    const char *ok_ends; /* ... like this one */
    bool opens_never;
    bool is_deaf;
    enum error_code open_ends;
    enum error_code put_ends;
    enum error_code resume_ends;
    bool files_lost; /* found when it is opened, resumed or stopped */
};

struct test {
    struct loop *loop;
    struct fake *fake; /* the one that sb began with */
    struct sandbox *sb;
    struct sbuf log; /* what back ends did and what the caller was told */
    int n_open;
};

static struct fake *
fake_of(struct sandbox_backend *b)
{
    return (struct fake *)b;
}

static void
find_files_lost(struct fake *f)
{
    if (f->files_lost)
        f->sandbox.base.files_lost = true;
    f->files_lost = false;
}

static void
end_with(struct fake *f, const char *what, sandbox_done_fn done, void *ctx,
         enum error_code code)
{
    struct error err = {.code = code, .msg = "it broke"};

    sbuf_addf(f->log, "%c:%s ", f->letter, what);
    fake_sandbox_end(&f->sandbox, done, ctx, &err);
}

static void
fake_open(struct sandbox_backend *b,
          void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
          void *ctx)
{
    struct fake *f = fake_of(b);

    progress(b->on_lost_ctx, "opening");
    find_files_lost(f);
    end_with(f, "open", done, ctx, f->open_ends);
    if (f->opens_never)
        loop_task_remove(take_ptr(&f->sandbox.task));
}

static void
fake_put(struct sandbox_backend *b, const struct sandbox_put *put,
         sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct fake *f = fake_of(b);
    AUTO_FREE char *what = xasprintf("put(%s)", put->name);

    if (progress != NULL)
        progress(ctx, 1, 2);
    end_with(f, what, done, ctx, f->put_ends);
}

static const char *
ends_like(const struct fake *f, const char *code)
{
    return f->at_ok != NULL && str_eq(code, f->at_ok) ? f->ok_ends : code;
}

static void
report_cell(void *fake)
{
    struct fake *f = fake;
    AUTO_FREE char *own = take_ptr(&f->code);
    const char *code = ends_like(f, own);
    struct sandbox_outcome outcome = {.outcome = EVENT_OK};
    struct error err = {.code = ERR_SANDBOX, .msg = "no more"};
    enum sandbox_end end = SANDBOX_DONE;

    if (str_eq(code, "restart") || str_eq(code, "gone")) {
        end = SANDBOX_RESTARTED;
        outcome = (struct sandbox_outcome){.outcome = EVENT_DIED,
                                           .reason = "It died.",
                                           .variables_lost = true,
                                           .files_lost = str_eq(code, "gone")};
    } else if (str_eq(code, "lost")) {
        end = SANDBOX_LOST;
    } else if (str_eq(code, "wait")) {
        outcome.outcome = EVENT_INTERRUPTED;
    } else if (str_eq(code, "fail")) {
        outcome.outcome = EVENT_FAILED;
        outcome.error_name = "ValueError";
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
    sbuf_addf(f->log, "%c:run(%.20s", f->letter, f->code);
    if (cell->silent)
        sbuf_add_str(f->log, ",silent");
    else if (cell->number > 0)
        sbuf_addf(f->log, ",%d", cell->number);
    if (cell->language != NULL)
        sbuf_addf(f->log, ",%s", cell->language);
    sbuf_add_str(f->log, ") ");
    if (!str_eq(ends_like(f, f->code), "wait"))
        fake_sandbox_defer(&f->sandbox, report_cell);
}

static void
fake_interrupt(struct sandbox_backend *b)
{
    struct fake *f = fake_of(b);

    sbuf_addf(f->log, "%c:interrupt ", f->letter);
    if (f->code != NULL && f->sandbox.task == NULL && !f->is_deaf)
        fake_sandbox_defer(&f->sandbox, report_cell);
}

static void
fake_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    sbuf_addf(fake_of(b)->log, "%c:list ", fake_of(b)->letter);
    fake_sandbox_list(b, done, ctx);
}

static void
fake_suspend(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    end_with(fake_of(b), "suspend", done, ctx, ERR_NONE);
}

static void
fake_resume(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    find_files_lost(fake_of(b));
    end_with(fake_of(b), "resume", done, ctx, fake_of(b)->resume_ends);
}

static void
fake_stop(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    find_files_lost(fake_of(b));
    end_with(fake_of(b), "stop", done, ctx, ERR_NONE);
}

static void
fake_close(struct sandbox_backend *b)
{
    struct fake *f = fake_of(b);

    sbuf_addf(f->log, "%c:close ", f->letter);
    free(f->code);
    fake_sandbox_close(b);
}

static const struct sandbox_ops fake_ops = {
    .open = fake_open,
    .put = fake_put,
    .run_cell = fake_run_cell,
    .run_script = fake_sandbox_no_script,
    .interrupt = fake_interrupt,
    .list = fake_list,
    .get = fake_sandbox_no_get,
    .suspend = fake_suspend,
    .resume = fake_resume,
    .stop = fake_stop,
    .vars = fake_sandbox_no_vars,
    .snapshot = fake_sandbox_no_saved,
    .restore = fake_sandbox_no_saved,
    .info = fake_sandbox_info,
    .close = fake_close,
};

/* Named after its letter. */
static struct fake *
make_fake(struct test *t, char letter)
{
    static const char names[][2] = {"A", "B", "C"};
    struct fake *f = xcalloc(1, sizeof(*f));

    f->sandbox.base.ops = &fake_ops;
    f->sandbox.base.caps = (struct sandbox_caps){.name = names[letter - 'A'],
                                                 .stateful = true,
                                                 .survives_suspend = true,
                                                 .keeps_files = true};
    f->sandbox.loop = t->loop;
    f->letter = letter;
    f->log = &t->log;
    return f;
}

/* ---- the caller ---- */

static void
one_less(struct test *t)
{
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

    sbuf_addf(&t->log, "<%d,%s> ", (int)end,
              err != NULL               ? error_code_name(err->code)
              : outcome->reason != NULL ? outcome->reason
                                        : "-");
    one_less(t);
}

static void
on_late(void *ctx, int cell, const char *loss)
{
    struct test *t = ctx;

    sbuf_addf(&t->log, "<late,%d,%s> ", cell, loss != NULL ? loss : "-");
}

/* A cell with a number; 0: without one. */
static struct sandbox_op *
run(struct test *t, const char *code, int number)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};

    t->n_open++;
    return sandbox_run_cell(t->sb,
                            &(struct sandbox_cell){.code = code,
                                                   .code_len = strlen(code),
                                                   .number = number},
                            &on, t);
}

static __attribute__((unused)) struct sandbox_op *
switch_to(struct test *t, struct fake *next)
{
    t->n_open++;
    return sandbox_switch(t->sb, &next->sandbox.base, on_done, t);
}

static void
begin(struct test *t, const struct sandbox_limits *limits)
{
    struct error err = {0};

    memset(t, 0, sizeof(*t));
    sbuf_init(&t->log, 65536);
    t->loop = loop_new(&err);
    assert_non_null(t->loop);
    t->fake = make_fake(t, 'A');
    t->sb = sandbox_new(t->loop, &t->fake->sandbox.base, limits);
    sandbox_on_late_end(t->sb, on_late, t);
}

/* Until everything that was asked for has ended; the log is then as expected,
   and empty. */
static void
settle(struct test *t, const char *expect)
{
    if (t->n_open > 0)
        loop_run(t->loop);
    assert_string_equal(t->log.data, expect);
    sbuf_clear(&t->log);
}

static void
finish(struct test *t, const char *expect)
{
    sandbox_free(t->sb);
    loop_free(t->loop);
    assert_string_equal(t->log.data, expect);
    sbuf_fini(&t->log);
}

/* The next cell is told that. */
static void __attribute__((unused))
expect_late_loss(struct test *t, const char *expect)
{
    AUTO_FREE char *loss = sandbox_take_late_loss(t->sb);

    if (expect == NULL)
        assert_null(loss);
    else
        assert_string_equal(loss != NULL ? loss : "(none)", expect);
}

static void
look_at_state(void *ctx)
{
    struct test *t = ctx;

    if (sandbox_state(t->sb) == SANDBOX_SUSPENDED)
        loop_stop(t->loop);
    else
        loop_add_timer(t->loop, 1, look_at_state, t);
}

static void __attribute__((unused)) wait_until_suspended(struct test *t)
{
    loop_add_timer(t->loop, 1, look_at_state, t);
    loop_run(t->loop);
}

#endif
