/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Loading against a sandbox that answers as the snippet would.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "load/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "helpers/fake_sandbox.h"
#include "model/event.h"
#include "sandbox/sandbox.h"

struct fixture;

struct box {
    struct fake_sandbox fake; /* first */
    struct fixture *f;
    char *marker; /* owned; of the snippet that runs */
    bool interrupted;
};

struct fixture {
    char *dir;
    struct loop *loop;
    struct sandbox *sandbox;
    struct load *load;
    const char *answer; /* what the snippet prints behind its marker */
    struct sandbox_outcome outcome;
    bool cancel_in_put;
    bool cancel_in_cell;
    struct sbuf put_names; /* "name|" for each */
    struct sbuf spec;      /* of the last snippet */

    bool over;
    struct error err;
    struct sbuf seen;
};

static const char FINE[] =
    "{\"rows\":2,\"cols\":3,\"how\":\"UTF-8\",\"columns\":[{\"name\":\"a\\nb\","
    "\"kind\":\"integer\",\"missing\":1,\"range\":\"1 - 2\"},{}],"
    "\"setup\":\"x = 1\",\"restore\":\"x = 1; link\"}\n";

static void
box_finish_put(void *fake)
{
    struct box *b = fake;

    if (b->f->cancel_in_put)
        load_cancel(b->f->load);
    b->fake.done(b->fake.ctx, SANDBOX_DONE, NULL);
}

static void
box_put(struct sandbox_backend *base, const struct sandbox_put *put,
        sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct box *b = (struct box *)base;

    progress(ctx, 1, 2);
    assert_true(put->fd >= 0);
    sbuf_addf(&b->f->put_names, "%s|", put->name);
    b->fake.done = done;
    b->fake.ctx = ctx;
    fake_sandbox_defer(&b->fake, box_finish_put);
}

static void
box_end_cell(void *fake)
{
    struct box *b = fake;
    struct fixture *f = b->f;
    struct sandbox_outcome outcome = f->outcome;
    AUTO_FREE char *marker = take_ptr(&b->marker);

    if (f->cancel_in_cell)
        load_cancel(f->load);
    if (b->interrupted)
        outcome.outcome = EVENT_INTERRUPTED;
    if (f->answer != NULL) {
        AUTO_FREE char *text = xasprintf("noise\n%s%s", marker, f->answer);
        size_t half = strlen(text) / 2;

        b->fake.on.on_bytes(b->fake.ctx, EVENT_STDERR, text, strlen(text) / 3);
        b->fake.on.on_bytes(b->fake.ctx, EVENT_STDOUT, text, half);
        b->fake.on.on_bytes(b->fake.ctx, EVENT_STDOUT, text + half,
                            strlen(text) - half);
    }
    b->fake.on.on_done(b->fake.ctx, SANDBOX_DONE, &outcome, NULL);
}

/* The arguments of the snippet travel as digits at its end. */
static void
read_spec(struct box *b, const char *code)
{
    static const char CALL[] = "_sandpiper_load('";
    const char *at = NULL;
    const char *marker = NULL;
    AUTO_JSON struct cJSON *json = NULL;

    for (const char *p = strstr(code, CALL); p != NULL; p = strstr(p + 1, CALL))
        at = p + strlen(CALL);
    assert_non_null(at);
    sbuf_clear(&b->f->spec);
    for (; at != NULL && *at != '\''; at += 2) {
        unsigned byte = 0;

        assert_int_equal(sscanf(at, "%2x", &byte), 1);
        sbuf_add_char(&b->f->spec, (char)byte);
    }
    json = json_parse(b->f->spec.data, b->f->spec.len, 0, NULL);
    assert_non_null(json);
    marker = strstr(b->f->spec.data, "sandpiper-load-");
    assert_non_null(marker);
    b->marker = xstrndup(marker, strcspn(marker, "\""));
}

static void
box_run(struct sandbox_backend *base, const struct sandbox_cell *cell,
        const struct sandbox_cell_handlers *on, void *ctx)
{
    struct box *b = (struct box *)base;

    assert_true(cell->silent);
    assert_int_equal(cell->timeout_ms, 1000);
    read_spec(b, cell->code);
    b->fake.on = *on;
    b->fake.ctx = ctx;
    fake_sandbox_defer(&b->fake, box_end_cell);
}

static void
box_interrupt(struct sandbox_backend *base)
{
    ((struct box *)base)->interrupted = true;
}

static void
box_close(struct sandbox_backend *base)
{
    struct box *b = (struct box *)base;

    free(b->marker);
    fake_sandbox_close(base);
}

static const char *const languages[] = {"python", NULL};
static const struct sandbox_caps box_caps = {.name = "fake",
                                             .stateful = true,
                                             .keeps_files = true,
                                             .puts_early = true,
                                             .languages = languages};
static const struct sandbox_ops box_ops = {
    .open = fake_sandbox_open,
    .put = box_put,
    .run_cell = box_run,
    .run_script = fake_sandbox_no_script,
    .interrupt = box_interrupt,
    .list = fake_sandbox_no_list,
    .get = fake_sandbox_no_get,
    UNUSED_SANDBOX_OPS,
    .close = box_close,
};

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct box *b = xcalloc(1, sizeof(*b));
    struct error err = {0};

    f->dir = xstrdup("/tmp/test_load.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->loop = loop_new(&err);
    b->fake.base.ops = &box_ops;
    b->fake.base.caps = box_caps;
    b->fake.loop = f->loop;
    b->f = f;
    f->sandbox = sandbox_new(f->loop, &b->fake.base, NULL);
    f->answer = FINE;
    sbuf_init(&f->put_names, 65536);
    sbuf_init(&f->spec, 65536);
    sbuf_init(&f->seen, 65536);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    sandbox_free(f->sandbox);
    loop_free(f->loop);
    assert_int_equal(io_remove_tree(f->dir, NULL), 0);
    sbuf_fini(&f->put_names);
    sbuf_fini(&f->spec);
    sbuf_fini(&f->seen);
    free(f->dir);
    free(f);
    return 0;
}

static void
on_load(void *ctx, const struct load_result *result, const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->over);
    f->over = true;
    f->err = err != NULL ? *err : (struct error){0};
    assert_int_equal(result == NULL, err != NULL);
    sbuf_clear(&f->seen);
    if (result == NULL)
        return;
    sbuf_addf(&f->seen, "%s %d x %d; %s\n%s", result->report->variable,
              (int)result->report->n_rows, (int)result->report->n_cols_total,
              result->note != NULL ? result->note : "-", result->for_model);
}

/* Makes a file of that name, and gives back its path. */
static char *
make_file(struct fixture *f, const char *name, const char *text)
{
    char *path = paths_join(f->dir, name);
    AUTO_FREE char *parent =
        xstrndup(path, (size_t)(paths_base(path) - path - 1));

    assert_int_equal(io_make_dirs(parent, NULL), 0);
    assert_int_equal(io_replace(path, text, strlen(text), 0644, NULL), 0);
    return path;
}

/* Loads; true when it went well, else f->err says why. */
static bool
load(struct fixture *f, const char *path, const char *variable)
{
    memset(&f->err, 0, sizeof(f->err));
    f->over = false;
    f->load = load_start(f->sandbox, path, variable, 1000, on_load, f, &f->err);
    if (f->load == NULL)
        return false;
    assert_false(f->over);
    loop_run(f->loop);
    assert_true(f->over);
    return f->err.code == ERR_NONE;
}

static void
on_progress(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->put_names, "%s %d/%d|", name != NULL ? name : "-", (int)done,
              (int)total);
}

static bool
load_name(struct fixture *f, const char *name, const char *variable)
{
    AUTO_FREE char *path = make_file(f, name, "a\n1\n");

    return load(f, path, variable);
}

static void
test_load_reports_what_pandas_sees(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    const struct sandbox_loaded *loaded = NULL;

    assert_true(load_name(f, "sales.csv", NULL));
    assert_true(str_starts(f->seen.data, "sales 2 x 3; -\n"));
    assert_non_null(strstr(f->seen.data, "variable `sales`"));
    assert_non_null(strstr(f->seen.data, "/workspace/data/sales.csv"));
    assert_non_null(
        strstr(f->seen.data, "\"a\\nb\", integer, 1 missing, \"1 - 2\"\n"));
    loaded = sandbox_loaded(f->sandbox, &n);
    assert_int_equal(n, 1);
    /* The model need not know what else brings it back. */
    assert_non_null(strstr(f->seen.data, "x = 1\n"));
    assert_string_equal(loaded[0].setup, "x = 1; link");
    assert_string_equal(loaded[0].variable, "sales");
}

static void
test_load_tells_how_far_it_is(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *path = make_file(f, "d/sales.csv", "a\n1\n");

    f->load = load_start(f->sandbox, path, NULL, 1000, on_load, f, &f->err);
    assert_non_null(f->load);
    load_on_progress(f->load, on_progress);
    loop_run(f->loop);
    assert_string_equal(f->put_names.data, "sales.csv 1/2|sales.csv|- 0/0|");
}

static void
test_load_of_names_that_collide(void **state)
{
    static const char *const bad[] = {
        "class",     "print",           "__import__", "__name__",
        "Exception", "_sandpiper_load", "pd"};
    struct fixture *f = *state;

    assert_true(load_name(f, "a/sales.csv", NULL));
    assert_true(load_name(f, "b/sales.csv", NULL));
    assert_true(str_starts(f->seen.data, "sales_2 2 x 3; 'sales' is the "));
    assert_true(load_name(f, "sales.tsv", NULL));
    assert_true(str_starts(f->seen.data, "sales_3 "));
    assert_non_null(strstr(f->spec.data, "\"link\":\"\""));
    /* Once more: it keeps its variable, and the name that it had inside leads
       to the new file, each time. */
    for (int i = 0; i < 2; i++) {
        assert_true(load_name(f, "b/sales.csv", NULL));
        assert_true(str_starts(f->seen.data, "sales_2 "));
        assert_non_null(
            strstr(f->spec.data, "\"link\":\"73616c65732d322e637376\""));
    }
    assert_true(
        str_starts(f->put_names.data, "sales.csv|sales-2.csv|sales.tsv|"));
    assert_true(load_name(f, "d/sales.csv.gz", NULL));
    assert_true(load_name(f, "e/sales.csv.gz", NULL));
    assert_non_null(strstr(f->put_names.data, "|sales.csv.gz|sales-2.csv.gz|"));
    assert_false(load_name(f, "c/x.csv", "sales"));
    assert_int_equal(f->err.code, ERR_USAGE);
    assert_true(load_name(f, "c/x.csv", "mine"));
    assert_true(str_starts(f->seen.data, "mine "));
    for (size_t i = 0; i < LEN(bad); i++) {
        assert_false(load_name(f, "c/x.csv", bad[i]));
        assert_int_equal(f->err.code, ERR_USAGE);
    }
    assert_non_null(strstr(f->err.msg, "'pd' is a name that code relies on"));
}

static void
test_load_of_odd_names(void **state)
{
    static const char *const names[][2] = {
        {"a b.csv", "a_b"},
        {"it's \"q\".csv", "it_s_q"},
        {"a\nb.csv", "a_b"},
        {"-rf.csv", "rf"},
        {"class.csv", "class_"},
        {"\xFF\xFE.csv", "data"},
        {"');import os#.csv", "import_os"},
    };

    for (size_t i = 0; i < LEN(names); i++) {
        struct fixture *f = NULL;
        AUTO_SBUF struct sbuf hex = {0};
        AUTO_FREE char *start = xasprintf("%s 2 x 3; -\n", names[i][1]);

        set_up(state);
        f = *state;
        if (!load_name(f, names[i][0], NULL))
            fail_msg("%zu: %s", i, f->err.msg);
        if (!str_starts(f->seen.data, start))
            fail_msg("%zu: %s", i, f->seen.data);
        sbuf_init(&hex, 1000);
        for (const char *p = names[i][0]; *p != '\0'; p++)
            sbuf_addf(&hex, "%02x", (unsigned)(unsigned char)*p);
        assert_non_null(strstr(f->spec.data, hex.data));
        tear_down(state);
    }
}

static void
expect_refused(struct fixture *f, const char *path, const char *expect)
{
    assert_false(load(f, path, NULL));
    assert_null(f->load);
    assert_int_equal(f->err.code, ERR_DATA);
    if (strstr(f->err.msg, expect) == NULL || !str_starts(f->err.msg, path))
        fail_msg("%s", f->err.msg);
}

static void
test_load_refuses_what_is_no_data(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *empty = make_file(f, "empty.csv", "");
    AUTO_FREE char *missing = paths_join(f->dir, "missing.csv");
    AUTO_FREE char *fifo = paths_join(f->dir, "fifo.csv");
    AUTO_FREE char *secret = make_file(f, "secret.csv", "a\n1\n");

    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_refused(f, empty, "is empty (0 bytes)");
    expect_refused(f, missing, "there is no such file");
    expect_refused(f, fifo, "is a FIFO");
    expect_refused(f, f->dir, "is a directory");
    expect_refused(f, "/dev/null", "is not a regular file");
    assert_int_equal(chmod(secret, 0), 0);
    if (geteuid() != 0)
        expect_refused(f, secret, "you may not read it");
    assert_int_equal(f->put_names.len, 0);
}

struct answer_case {
    const char *answer;
    struct sandbox_outcome outcome;
    enum error_code expect_code;
    const char *expect;
};

static const struct answer_case answer_cases[] = {
    {NULL, {.outcome = EVENT_OK}, ERR_DATA, "pandas gave no report"},
    {"{\"rows\":2", {.outcome = EVENT_OK}, ERR_DATA, "no report"},
    {"{\"rows\":2\n", {.outcome = EVENT_OK}, ERR_DATA, "/x.csv: "},
    {"{\"error\":\"line 3\"}\n",
     {.outcome = EVENT_OK},
     ERR_DATA,
     "/x.csv: line 3"},
    {NULL, {.outcome = EVENT_INTERRUPTED}, ERR_CANCELLED, "was stopped"},
    {NULL,
     {.outcome = EVENT_FAILED, .error_name = "KeyboardInterrupt"},
     ERR_CANCELLED,
     "was stopped"},
    {NULL,
     {.outcome = EVENT_TIMEOUT, .reason = "Stopped after 1.0 s"},
     ERR_DATA,
     "/x.csv: loading takes more than 1.0 s: limits.cell_seconds"},
    {NULL,
     {.outcome = EVENT_DIED, .reason = "It was ended."},
     ERR_DATA,
     "/x.csv: It was ended."},
    {NULL,
     {.outcome = EVENT_FAILED, .error_name = "E", .error_value = "v"},
     ERR_DATA,
     "/x.csv: E: v"},
    {FINE, {.outcome = EVENT_DISK_LIMIT}, ERR_DATA, "disk_limit"},
};

static void
test_load_that_fails_inside(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;

    for (size_t i = 0; i < LEN(answer_cases); i++) {
        f->answer = answer_cases[i].answer;
        f->outcome = answer_cases[i].outcome;
        assert_false(load_name(f, "x.csv", NULL));
        if (f->err.code != answer_cases[i].expect_code ||
            strstr(f->err.msg, answer_cases[i].expect) == NULL)
            fail_msg("%zu: %s", i, f->err.msg);
    }
    (void)sandbox_loaded(f->sandbox, &n);
    assert_int_equal(n, 0);
}

static void
test_load_cancelled(void **state)
{
    struct fixture *f = *state;

    f->cancel_in_put = true;
    assert_false(load_name(f, "x.csv", NULL));
    assert_int_equal(f->err.code, ERR_CANCELLED);
    assert_int_equal(f->spec.len, 0);
    f->cancel_in_put = false;
    f->cancel_in_cell = true;
    f->answer = NULL;
    assert_false(load_name(f, "x.csv", NULL));
    assert_int_equal(f->err.code, ERR_CANCELLED);
}

/* A report is data: however long, what the model gets of it is bounded. */
static void
test_load_of_many_columns_is_bounded_for_the_model(void **state)
{
    struct fixture *f = *state;
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, 1u << 20);
    sbuf_add_str(&sb, "{\"rows\":1,\"cols\":900,\"columns\":[");
    for (int i = 0; i < 900; i++)
        sbuf_addf(&sb, "%s{\"name\":\"a rather long name of a column %d\"}",
                  i > 0 ? "," : "", i);
    sbuf_add_str(&sb, "],\"setup\":\"x = 1\"}\n");
    f->answer = sb.data;
    assert_true(load_name(f, "x.csv", NULL));
    assert_true(f->seen.len < 20000);
    assert_non_null(strstr(f->seen.data, "columns shown; see x.dtypes)"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_load_reports_what_pandas_sees,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_tells_how_far_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_load_of_names_that_collide, set_up,
                                        tear_down),
        cmocka_unit_test(test_load_of_odd_names),
        cmocka_unit_test_setup_teardown(test_load_refuses_what_is_no_data,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_load_that_fails_inside, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_load_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_load_of_many_columns_is_bounded_for_the_model, set_up,
            tear_down),
    };

    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
