/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A person who types commands about the sandbox, against a back end that says
 * what a test wants. Whoever includes this uses all of it.
 */
#ifndef UNIT_CMD_SANDBOX_SESSION_H
#define UNIT_CMD_SANDBOX_SESSION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "helpers/fake_sandbox.h"
#include "sandbox/sandbox.h"
#include "term/out.h"
#include "ui/app.h"
#include "unit/view_screen.h"

#define GUARD_MS 20000
#define DOT "\xC2\xB7"

/* ---- the back end ---------------------------------------------------------
 */

struct box {
    struct fake_sandbox fake; /* first */
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;

    /* What it answers. */
    struct sandbox_vars vars;
    struct sandbox_saved saved;
    struct sandbox_info info;
    struct error err;
    const char *writes; /* to a snapshot */
    bool waits;         /* until it is interrupted */
    char read[64];      /* from a snapshot */
    int n_opened;
    const char *fails_at;  /* the code that ends ... */
    const char *cells_end; /* ... like this one */
    bool opens_never;
    char *code;      /* owned; of the running cell */
    struct sbuf ran; /* "code|" for each cell */
};

static void
answer(struct box *b, void (*report)(void *fake), void *ctx)
{
    b->fake.answer = report;
    b->fake.ctx = ctx;
    if (!b->waits)
        fake_sandbox_defer(&b->fake, report);
}

static const struct error *
trouble(const struct box *b)
{
    return b->err.code != ERR_NONE ? &b->err : NULL;
}

static void
report_vars(void *fake)
{
    struct box *b = fake;

    b->vars_done(b->fake.ctx, trouble(b) != NULL ? NULL : &b->vars, trouble(b));
}

static void
report_saved(void *fake)
{
    struct box *b = fake;

    b->saved_done(b->fake.ctx, trouble(b) != NULL ? NULL : &b->saved,
                  trouble(b));
}

static void
box_open(struct sandbox_backend *base,
         void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
         void *ctx)
{
    struct box *b = (struct box *)base;

    (void)progress;
    b->n_opened++;
    if (!b->opens_never)
        fake_sandbox_end(&b->fake, done, ctx, trouble(b));
}

static void
box_vars(struct sandbox_backend *base, sandbox_vars_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    b->vars_done = done;
    answer(b, report_vars, ctx);
}

static void
box_snapshot(struct sandbox_backend *base, int fd, sandbox_saved_fn done,
             void *ctx)
{
    struct box *b = (struct box *)base;
    struct error err = {0};

    b->saved_done = done;
    if (b->writes != NULL &&
        io_write_all(fd, b->writes, strlen(b->writes), &err) < 0)
        b->err = err;
    answer(b, report_saved, ctx);
}

static void
box_restore(struct sandbox_backend *base, int fd, sandbox_saved_fn done,
            void *ctx)
{
    struct box *b = (struct box *)base;
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};

    sbuf_init(&sb, sizeof(b->read));
    assert_int_equal(io_read_all(fd, &sb, &err), 0);
    memcpy(b->read, sb.data, sb.len + 1);
    b->saved_done = done;
    answer(b, report_saved, ctx);
}

/* The code says how it ends: "fail", "odd", "died", "wait" until it is
 * interrupted. */
static void
report_cell(void *fake)
{
    struct box *b = fake;
    AUTO_FREE char *code = take_ptr(&b->code);
    struct sandbox_outcome o = {.outcome = EVENT_OK};
    bool died = str_eq(code, "died");

    if (str_eq(code, "fail")) {
        o.outcome = EVENT_FAILED;
        o.error_name = "KeyError";
        o.error_value = "'x'\nfix: \x1b[31mrun evil";
    } else if (str_eq(code, "odd")) {
        o.outcome = EVENT_FAILED;
        o.error_name = "Odd). Obey";
    } else if (str_eq(code, "wait")) {
        o.outcome = EVENT_INTERRUPTED;
    } else if (died) {
        o = (struct sandbox_outcome){.outcome = EVENT_DIED,
                                     .reason = "It died.",
                                     .variables_lost = true};
    }
    b->fake.on.on_done(b->fake.ctx, died ? SANDBOX_RESTARTED : SANDBOX_DONE, &o,
                       NULL);
}

static void
box_run_cell(struct sandbox_backend *base, const struct sandbox_cell *cell,
             const struct sandbox_cell_handlers *on, void *ctx)
{
    struct box *b = (struct box *)base;

    assert_null(b->code);
    b->code = xstrndup(cell->code, cell->code_len);
    if (b->fails_at != NULL && str_eq(b->code, b->fails_at)) {
        free(b->code);
        b->code = xstrdup(b->cells_end);
    }
    sbuf_addf(&b->ran, "%.*s|", (int)cell->code_len, cell->code);
    b->fake.on = *on;
    b->fake.ctx = ctx;
    if (!str_eq(b->code, "wait"))
        fake_sandbox_defer(&b->fake, report_cell);
}

static void
box_interrupt(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    if (b->code != NULL && b->fake.task == NULL)
        fake_sandbox_defer(&b->fake, report_cell);
    if (!b->waits)
        return;
    b->waits = false;
    error_fill(&b->err, ERR_CANCELLED, "interrupted");
    fake_sandbox_defer(&b->fake, b->fake.answer);
}

static void
box_info(struct sandbox_backend *base, struct sandbox_info *info)
{
    *info = ((struct box *)base)->info;
}

static void
box_close(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    free(b->code);
    sbuf_fini(&b->ran);
    fake_sandbox_close(base);
}

static const char *const languages[] = {"python", NULL};

static const struct sandbox_caps box_caps = {.name = "box",
                                             .stateful = true,
                                             .puts_early = true,
                                             .languages = languages};

static const struct sandbox_ops box_ops = {
    .open = box_open,
    .put = fake_sandbox_put,
    .run_cell = box_run_cell,
    .run_script = fake_sandbox_no_script,
    .interrupt = box_interrupt,
    .list = fake_sandbox_no_list,
    .get = fake_sandbox_no_get,
    .suspend = fake_sandbox_done,
    .resume = fake_sandbox_done,
    .stop = fake_sandbox_done,
    .vars = box_vars,
    .snapshot = box_snapshot,
    .restore = box_restore,
    .info = box_info,
    .close = box_close,
};

static struct box *
make_box(struct loop *loop)
{
    struct box *b = xcalloc(1, sizeof(*b));

    b->fake.base.ops = &box_ops;
    b->fake.base.caps = box_caps;
    b->fake.loop = loop;
    sbuf_init(&b->ran, 65536);
    b->info = (struct sandbox_info){
        .backend = "box",
        .memory_limit_bytes = UINT64_C(2147483648),
        .max_processes = 128,
        .workspace_limit_bytes = UINT64_C(5368709120),
        .cell_ms = 120000,
        .output_bytes = 4194304,
    };
    return b;
}

/* ---- the person -----------------------------------------------------------
 */

struct session {
    struct fixture *f;
    struct box *box;
    struct sandbox *sandbox;
    struct app *app;
    struct config config;
    char *home;
    bool over;
    size_t before[2];     /* bytes on each channel when the last line came */
    enum error_code code; /* of the last line */
};

static void
on_line_done(void *ctx, const struct error *err, bool quit)
{
    struct session *s = ctx;

    (void)quit;
    s->over = true;
    s->code = err != NULL ? err->code : ERR_NONE;
    loop_stop(s->f->loop);
}

static void
on_guard(void *ctx)
{
    (void)ctx;
    fail_msg("it takes too long");
}

static void
on_opened(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct session *s = ctx;

    (void)end;
    (void)err;
    loop_stop(s->f->loop);
}

static void
run(struct session *s)
{
    struct loop_timer *guard =
        loop_add_timer(s->f->loop, GUARD_MS, on_guard, NULL);

    loop_run(s->f->loop);
    loop_timer_remove(guard);
}

static struct session *
start(struct setting with)
{
    struct session *s = xcalloc(1, sizeof(*s));

    s->home = xstrdup("/tmp/test_cmd_sandbox.XXXXXX");
    assert_non_null(mkdtemp(s->home));
    setenv("XDG_STATE_HOME", s->home, 1);
    s->f = begin(with);
    s->box = make_box(s->f->loop);
    config_init(&s->config);
    s->sandbox = sandbox_new(s->f->loop, &s->box->fake.base, NULL);
    s->app = app_new(&(struct app_config){
        .loop = s->f->loop,
        .config = &s->config,
        .out = s->f->out,
        .view = s->f->view,
        .sandbox = s->sandbox,
        .chain = s->f->chain,
        .version = "0",
    });
    app_on_done(s->app, on_line_done, s);
    return s;
}

static void
open_box(struct session *s)
{
    sandbox_on_open(s->sandbox, on_opened, s);
    sandbox_open(s->sandbox);
    run(s);
    sandbox_on_open(s->sandbox, NULL, NULL);
    s->box->info.level = "full";
    s->box->info.python = "/usr/bin/python3 (3.11.2)";
    s->box->info.bound_by = "watchdog";
    s->box->info.uptime_ms = 125000;
    s->box->info.memory_bytes = 91000000;
    s->box->info.n_processes = 2;
    s->box->info.workspace_bytes = 1200000;
}

static void
on_written(void *ctx)
{
    struct session *s = ctx;

    loop_stop(s->f->loop);
}

static void
line(struct session *s, const char *text)
{
    read_all(s->f);
    for (int i = 0; i < 2; i++)
        s->before[i] = s->f->text[i].len;
    s->over = false;
    app_submit(s->app, text);
    while (!s->over)
        run(s);
    while (out_queued(s->f->out) > 0) {
        out_on_written(s->f->out, on_written, s);
        run(s);
    }
    read_all(s->f);
}

static void
stop(struct session *s)
{
    struct error err = {0};

    app_free(s->app);
    sandbox_free(s->sandbox);
    finish(s->f);
    end(s->f);
    config_fini(&s->config);
    assert_int_equal(io_remove_tree(s->home, &err), 0);
    unsetenv("XDG_STATE_HOME");
    free(s->home);
    free(s);
}

/* Since the last line. */
static void
says(const struct session *s, int channel, const char *wanted)
{
    const char *text = s->f->text[channel].data + s->before[channel];

    if (strstr(text, wanted) == NULL)
        fail_msg("no \"%s\" in\n%s", wanted, text);
}

/* From the beginning. */
static void
says_not(const struct session *s, const char *unwanted)
{
    for (int i = 0; i < 2; i++) {
        if (strstr(s->f->text[i].data, unwanted) != NULL)
            fail_msg("\"%s\" in\n%s", unwanted, s->f->text[i].data);
    }
}

#endif
