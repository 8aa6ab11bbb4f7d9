/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The commands about the sandbox, against a back end that says what a test
 * wants: what a person reads, at several widths, and what is on the disk.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/app.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "store/snapshots.h"
#include "unit/view_screen.h"

#define GUARD_MS 20000
#define DOT "\xC2\xB7"

/* ---- the back end ---------------------------------------------------------
 */

struct box {
    struct sandbox_backend base; /* first */
    struct loop *loop;
    struct loop_task *task;
    void (*report)(struct box *b);
    void *ctx;
    sandbox_done_fn done;
    sandbox_vars_fn vars_done;
    sandbox_saved_fn saved_done;
    int fd;

    /* What it answers. */
    struct sandbox_vars vars;
    struct sandbox_saved saved;
    struct sandbox_info info;
    struct error err;
    const char *writes; /* to a snapshot */
    bool waits;         /* until it is interrupted */
    char read[64];      /* from a snapshot */
    int n_opened;
};

static void
on_task(void *ctx)
{
    struct box *b = ctx;

    b->task = NULL;
    b->report(b);
}

static void
answer(struct box *b, void (*report)(struct box *b), void *ctx)
{
    b->report = report;
    b->ctx = ctx;
    if (!b->waits)
        b->task = loop_defer(b->loop, on_task, b);
}

static const struct error *
trouble(const struct box *b)
{
    return b->err.code != ERR_NONE ? &b->err : NULL;
}

static void
report_opened(struct box *b)
{
    b->n_opened++;
    b->done(b->ctx, trouble(b) != NULL ? SANDBOX_ERROR : SANDBOX_DONE,
            trouble(b));
}

static void
report_done(struct box *b)
{
    b->done(b->ctx, SANDBOX_DONE, NULL);
}

static void
report_vars(struct box *b)
{
    b->vars_done(b->ctx, trouble(b) != NULL ? NULL : &b->vars, trouble(b));
}

static void
report_saved(struct box *b)
{
    b->saved_done(b->ctx, trouble(b) != NULL ? NULL : &b->saved, trouble(b));
}

static void
box_open(struct sandbox_backend *base,
         void (*progress)(void *ctx, const char *what), sandbox_done_fn done,
         void *ctx)
{
    struct box *b = (struct box *)base;

    (void)progress;
    b->done = done;
    answer(b, report_opened, ctx);
}

static void
box_done(struct sandbox_backend *base, sandbox_done_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    b->done = done;
    answer(b, report_done, ctx);
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

static void
box_interrupt(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    if (!b->waits)
        return;
    b->waits = false;
    error_fill(&b->err, ERR_CANCELLED, "interrupted");
    b->task = loop_defer(b->loop, on_task, b);
}

static void
box_info(struct sandbox_backend *base, struct sandbox_info *info)
{
    *info = ((struct box *)base)->info;
}

static void
box_put(struct sandbox_backend *base, const struct sandbox_put *put,
        sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    (void)put;
    (void)progress;
    box_done(base, done, ctx);
}

static void
box_cell(struct sandbox_backend *base, const struct sandbox_cell *cell,
         const struct sandbox_cell_handlers *on, void *ctx)
{
    (void)base;
    (void)cell;
    (void)on;
    (void)ctx;
    abort();
}

static void
box_list(struct sandbox_backend *base, sandbox_list_fn done, void *ctx)
{
    (void)base;
    (void)done;
    (void)ctx;
    abort();
}

static void
box_get(struct sandbox_backend *base, const char *name, int fd, off_t offset,
        off_t limit, sandbox_done_fn done, void *ctx)
{
    (void)name;
    (void)fd;
    (void)offset;
    (void)limit;
    box_done(base, done, ctx);
}

static void
box_close(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    loop_task_remove(b->task);
    free(b);
}

static const char *const languages[] = {"python", NULL};

static const struct sandbox_ops box_ops = {
    .caps = {.name = "box", .stateful = true, .languages = languages},
    .open = box_open,
    .put = box_put,
    .run_cell = box_cell,
    .interrupt = box_interrupt,
    .list = box_list,
    .get = box_get,
    .suspend = box_done,
    .resume = box_done,
    .stop = box_done,
    .vars = box_vars,
    .snapshot = box_snapshot,
    .restore = box_restore,
    .info = box_info,
    .close = box_close,
};

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
    s->box = xcalloc(1, sizeof(*s->box));
    s->box->base.ops = &box_ops;
    s->box->loop = s->f->loop;
    s->box->info = (struct sandbox_info){
        .backend = "box",
        .memory_limit_bytes = 4294967296,
        .max_processes = 128,
        .workspace_limit_bytes = UINT64_C(5368709120),
        .cell_ms = 120000,
        .output_bytes = 4194304,
    };
    config_init(&s->config);
    s->sandbox = sandbox_new(s->f->loop, &s->box->base, NULL);
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

static void
says(const struct session *s, int channel, const char *wanted)
{
    if (strstr(s->f->text[channel].data, wanted) == NULL)
        fail_msg("no \"%s\" in\n%s", wanted, s->f->text[channel].data);
}

static void
says_not(const struct session *s, const char *unwanted)
{
    for (int i = 0; i < 2; i++) {
        if (strstr(s->f->text[i].data, unwanted) != NULL)
            fail_msg("\"%s\" in\n%s", unwanted, s->f->text[i].data);
    }
}

/* No line is wider than that. */
static void
fits(const struct session *s, size_t columns)
{
    for (int i = 0; i < 2; i++) {
        const char *p = s->f->text[i].data;

        while (*p != '\0') {
            size_t len = strcspn(p, "\n");

            if (utf8_width(p, len) > columns)
                fail_msg("%zu columns: %.*s", columns, (int)len, p);
            p += len + (p[len] == '\n');
        }
    }
}

/* ---- :vars ----------------------------------------------------------------
 */

static const struct sandbox_variable SOME[] = {
    {"sales", "DataFrame", "1,000,000 x 10"},
    {"name", "str", "'South'"},
    {"a_rather_long_name_of_a_variable_that_somebody_made",
     "LinearDiscriminantAnalysisEstimator", "a long description of its size"},
};

static void
test_vars(void **state)
{
    static const int WIDTHS[] = {40, 80, 200};

    (void)state;
    for (size_t i = 0; i < LEN(WIDTHS); i++) {
        struct session *s = start((struct setting){
            .kind = DUMB, .columns = WIDTHS[i], .unicode = true});

        open_box(s);
        s->box->vars = (struct sandbox_vars){
            SOME, WIDTHS[i] > 40 ? LEN(SOME) : LEN(SOME) - 1, 0};
        line(s, ":vars");
        assert_int_equal(s->code, ERR_NONE);
        says(s, 0, "sales");
        says(s, 0, "DataFrame");
        says(s, 0, "1,000,000 x 10");
        says_not(s, "not shown");
        fits(s, (size_t)WIDTHS[i]);
        stop(s);
    }
}

static void
test_vars_are_all_there(void **state)
{
    struct session *s = start((struct setting){.unicode = true});
    struct sandbox_variable many[500];
    char names[500][8];

    (void)state;
    open_box(s);
    for (size_t i = 0; i < LEN(many); i++) {
        snprintf(names[i], sizeof(names[i]), "v%03zu", i);
        many[i] = (struct sandbox_variable){names[i], "int", "1"};
    }
    s->box->vars = (struct sandbox_vars){many, LEN(many), 1234};
    line(s, ":vars");
    says(s, 0, "v000");
    says(s, 0, "v250");
    says(s, 0, "v499");
    says(s, 1, DOT " 1,234 more are not shown\n");
    stop(s);
}

static void
test_vars_that_are_hostile(void **state)
{
    static const struct sandbox_variable BAD[] = {
        {"\x1b]0;title\x07", "\x1b[31mred\nerror: x", "\xE2\x80\xAEsdrawkcab"},
        {"", "", ""},
    };
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    open_box(s);
    s->box->vars = (struct sandbox_vars){BAD, LEN(BAD), 0};
    line(s, ":vars");
    says_not(s, "\x1b");
    says_not(s, "\nerror:");
    says_not(s, "\xE2\x80\xAE");
    stop(s);
}

static void
test_no_vars(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    line(s, ":vars");
    says(s, 1,
         DOT " there are no variables: no interpreter runs; the next "
             "question or :load starts one\n");
    assert_int_equal(s->code, ERR_NONE);
    assert_int_equal(s->box->n_opened, 0);
    open_box(s);
    line(s, ":vars");
    says(s, 1, DOT " there are no variables yet\n");
    error_fill(&s->box->err, ERR_SANDBOX, "it broke");
    line(s, ":vars");
    says(s, 1, "error: it broke\n");
    assert_int_equal(s->code, ERR_SANDBOX);
    stop(s);
}

static void
test_no_cell_can_run(void **state)
{
    static const char *const LINES[] = {":vars", ":snapshot", ":vars"};
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    error_fill(&s->box->err, ERR_SANDBOX, "no bubblewrap\nfix: install it");
    open_box(s);
    for (size_t i = 0; i < LEN(LINES); i++) {
        line(s, LINES[i]);
        assert_int_equal(s->code, ERR_SANDBOX);
        says(s, 1, "error: no bubblewrap\n");
    }
    s->box->info.uptime_ms = 0;
    line(s, ":sandbox");
    says(s, 0, "no cell can run: no bubblewrap");
    assert_int_equal(s->box->n_opened, 1);
    stop(s);
}

/* ---- :sandbox -------------------------------------------------------------
 */

static void
test_sandbox(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    line(s, ":sandbox");
    says(s, 0,
         "state       not started; the next question or :load starts it"
         "\n");
    says(s, 0, "memory      at most 4.3 GB\n");
    says_not(s, "isolation");
    open_box(s);
    s->box->info.uptime_ms = 125000;
    line(s, ":sandbox");
    says(s, 0,
         "state       ready\n"
         "isolation   full\n"
         "python      /usr/bin/python3 (3.11.2)\n"
         "running for 2 min 5 s, 0 cells\n"
         "memory      91 MB of 4.3 GB, bounded by a look every 200 ms\n"
         "processes   2 of 128\n"
         "workspace   1.2 MB of 5.4 GB\n"
         "a cell      2 min and 4.2 MB of output\n"
         "when idle   suspended after 5 min, never closed\n"
         "variables   last as long as the program; :snapshot keeps them\n");
    says_not(s, "snapshots ");
    s->box->info.bound_by = "cgroup";
    line(s, ":sandbox");
    says(s, 0, "memory      91 MB of 4.3 GB, bounded by a cgroup\n");
    stop(s);
}

static void
test_sandbox_is_narrow(void **state)
{
    struct session *s =
        start((struct setting){.kind = DUMB, .columns = 40, .unicode = true});
    static const char *const NAMES[] = {"a"};

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = NAMES, .n_names = 1};
    line(s, ":snapshot one");
    s->box->info.python = "python3 (\x1b[31m3.11\nerror: lost)";
    s->box->info.level = "reduced";
    assert_int_equal(ftruncate(s->f->fds[0], 0), 0);
    lseek(s->f->fds[0], 0, SEEK_SET);
    line(s, ":sandbox");
    says_not(s, "\x1b");
    says_not(s, "\nerror:");
    says(s, 0, "isolation   reduced: see\n            sandpiper-sandbox(7)\n");
    says(s, 0, "snapshots   1, 0 B, the newest one, in\n");
    stop(s);
}

/* ---- :snapshot and :restore -----------------------------------------------
 */

static const char *const TWO[] = {"sales", "x"};
static const struct sandbox_left_out LEFT[] = {
    {"gen", "a generator cannot be kept"},
    {"\x1b[31mf\n", "error: \x1b[1mopen file\nwarning: x"},
};

static char *
path_of(const struct session *s, const char *name)
{
    return xasprintf("%s/sandpiper/snapshots/%s", s->home, name);
}

static void
test_snapshot_and_restore(void **state)
{
    struct session *s = start((struct setting){.unicode = true});
    AUTO_FREE char *path = path_of(s, "one");
    AUTO_FREE char *dir = path_of(s, "");
    AUTO_FREE char *whole = xasprintf(DOT " %s\n", path);
    struct stat st;

    (void)state;
    open_box(s);
    s->box->writes = "pickled";
    s->box->saved = (struct sandbox_saved){
        .names = TWO, .n_names = 2, .left_out = LEFT, .n_left_out = 2};
    line(s, ":snapshot one");
    assert_int_equal(s->code, ERR_NONE);
    says(s, 1, DOT " snapshot one: 2 variables, 7 B, readable by you only\n");
    says(s, 1, whole);
    says(s, 1,
         "warning: 2 variables are not in it:\n" DOT
         " gen: a generator cannot be kept\n");
    says_not(s, "\x1b");
    says_not(s, "\nwarning: x");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    s->box->saved.n_left_out = 1;
    line(s, ":restore");
    assert_string_equal(s->box->read, "pickled");
    says(s, 1, DOT " back from one: sales, x\n");
    says(s, 1, "warning: 1 variable is not back:\n");
    line(s, ":sandbox");
    says(s, 0, "snapshots   1, 7 B, the newest one, in\n");
    stop(s);
}

/* What is there stays, whatever is asked for. */
static void
test_snapshot_never_overwrites(void **state)
{
    struct session *s = start((struct setting){.unicode = true});
    AUTO_FREE char *path = path_of(s, "one");
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = TWO, .n_names = 2};
    s->box->writes = "first";
    line(s, ":snapshot one");
    s->box->writes = "second";
    line(s, ":snapshot one");
    assert_int_equal(s->code, ERR_USAGE);
    says(s, 1,
         "error: there is a snapshot 'one' already; take another name, "
         "or remove /");
    sbuf_init(&sb, 64);
    assert_int_equal(io_read_file(path, &sb, &err), 0);
    assert_string_equal(sb.data, "first");
    /* By default each has a name of its own. */
    line(s, ":snapshot");
    assert_int_equal(s->code, ERR_NONE);
    line(s, ":snapshot");
    assert_int_equal(s->code, ERR_NONE);
    stop(s);
}

struct refused_case {
    const char *name;
    const char *line;
    const char *expect;
};

static const struct refused_case refused_cases[] = {
    {"up", ":snapshot ../x", "error: '../x' is no name for a snapshot"},
    {"hidden", ":snapshot .x", "error: '.x' is no name for a snapshot"},
    {"an option", ":snapshot -x", "error: '-x' is no name for a snapshot"},
    {"empty", ":snapshot \"\"", "error: '' is no name for a snapshot"},
    {"absolute", ":restore /etc/passwd", "is no name for a snapshot"},
    {"control", ":snapshot \"a\\033[31m\"", "is no name for a snapshot"},
    {"none yet", ":restore",
     "error: there is no snapshot yet; :snapshot makes one"},
    {"none of that name", ":restore one",
     "error: there is no snapshot yet; :snapshot makes one"},
};

static void
test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(refused_cases); i++) {
        struct session *s = start((struct setting){.unicode = true});

        open_box(s);
        line(s, refused_cases[i].line);
        says(s, 1, refused_cases[i].expect);
        assert_int_equal(s->code, ERR_USAGE);
        says_not(s, "\x1b");
        stop(s);
    }
}

static void
test_restore_names_what_there_is(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = TWO, .n_names = 2};
    line(s, ":snapshot alpha");
    line(s, ":restore beta");
    says(s, 1, "error: there is no snapshot 'beta'; there is alpha\n");
    assert_int_equal(s->code, ERR_USAGE);
    stop(s);
}

/* Nothing is left of a snapshot that was not made. */
static void
test_snapshot_that_fails(void **state)
{
    struct session *s = start((struct setting){.unicode = true});
    struct snapshot_list list;

    (void)state;
    line(s, ":snapshot one");
    assert_int_equal(s->code, ERR_DATA);
    says(s, 1, "error: no interpreter runs, so there are no variables\n");
    open_box(s);
    line(s, ":snapshot one");
    says(s, 1, "error: no snapshot was made: there are no variables\n");
    assert_int_equal(s->code, ERR_DATA);
    s->box->saved = (struct sandbox_saved){.left_out = LEFT, .n_left_out = 1};
    line(s, ":snapshot one");
    says(s, 1, "error: no snapshot was made: no variable can be kept\n");
    says(s, 1, DOT " gen: a generator cannot be kept\n");
    s->box->writes = "some of it";
    error_fill(&s->box->err, ERR_IO, "no space left on the device");
    line(s, ":snapshot one");
    says(s, 1, "error: no snapshot was made: no space left on the device\n");
    assert_int_equal(s->code, ERR_IO);
    snapshots_list(&list);
    assert_int_equal(list.n_items, 0);
    snapshots_list_fini(&list);
    stop(s);
}

static void
on_cancel(void *ctx)
{
    struct session *s = ctx;

    app_cancel(s->app);
}

static void
test_commands_that_are_stopped(void **state)
{
    static const char *const LINES[] = {":vars", ":snapshot two", ":restore"};
    struct session *s = start((struct setting){.unicode = true});
    struct snapshot_list list;

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = TWO, .n_names = 2};
    line(s, ":snapshot one");
    for (size_t i = 0; i < LEN(LINES); i++) {
        struct loop_timer *t = NULL;

        s->box->waits = true;
        s->box->err = (struct error){0};
        t = loop_add_timer(s->f->loop, 20, on_cancel, s);
        line(s, LINES[i]);
        assert_int_equal(s->code, ERR_CANCELLED);
        says(s, 1, "interrupted");
        (void)t;
    }
    snapshots_list(&list);
    assert_int_equal(list.n_items, 1);
    snapshots_list_fini(&list);
    stop(s);
}

/* ---- :restart -------------------------------------------------------------
 */

static void
test_restart(void **state)
{
    struct session *s = start((struct setting){.unicode = true});

    (void)state;
    put(s->f, (struct event){.kind = EVENT_USAGE});
    error_fill(&s->box->err, ERR_SANDBOX, "it does not start");
    line(s, ":restart");
    assert_int_equal(s->code, ERR_SANDBOX);
    says(s, 1, "error: it does not start\n");
    says_not(s, "is new");
    s->box->err = (struct error){0};
    line(s, ":restart");
    assert_int_equal(s->code, ERR_NONE);
    says(s, 1, DOT " the interpreter is new; variables are gone\n");
    assert_int_equal(s->box->n_opened, 2);
    stop(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vars),
        cmocka_unit_test(test_vars_are_all_there),
        cmocka_unit_test(test_vars_that_are_hostile),
        cmocka_unit_test(test_no_vars),
        cmocka_unit_test(test_no_cell_can_run),
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_sandbox_is_narrow),
        cmocka_unit_test(test_snapshot_and_restore),
        cmocka_unit_test(test_snapshot_never_overwrites),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_restore_names_what_there_is),
        cmocka_unit_test(test_snapshot_that_fails),
        cmocka_unit_test(test_commands_that_are_stopped),
        cmocka_unit_test(test_restart),
    };

    return cmocka_run_group_tests_name("cmd_sandbox", tests, NULL, NULL);
}
