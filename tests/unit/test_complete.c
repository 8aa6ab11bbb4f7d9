/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/complete.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/event.h"
#include "model/sink.h"
#include "store/recorder.h"
#include "ui/command.h"
#include "ui/lineedit.h"

struct fixture {
    char *dir;
    char *old;
    struct recorder *r;
};

static void
touch(const char *path)
{
    struct error err = {0};

    if (io_replace(path, "x", 1, 0600, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
make_snapshots(const char *dir)
{
    static const char *const names[] = {"20260102-150405", "alpha",   "alpine",
                                        ".hidden",         "no name", "-x"};
    AUTO_FREE char *state = paths_join(dir, ".state");
    AUTO_FREE char *below = paths_join(state, "sandpiper/snapshots");
    struct error err = {0};

    setenv("XDG_STATE_HOME", state, 1);
    assert_int_equal(io_make_dirs(below, &err), 0);
    for (size_t i = 0; i < LEN(names); i++) {
        AUTO_FREE char *path = paths_join(below, names[i]);

        touch(path);
    }
}

static int
set_up(void **state)
{
    static const char *const files[] = {
        "sales.csv",      "sales 2.csv",          "salad.txt",
        ".hidden.csv",    "it's \"q\".csv",       "a\nb.csv",
        "-rf.csv",        "~tilde.csv",           "sub/one.csv",
        "my dir/two.csv", "\xC3\xA9t\xC3\xA9.csv"};
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->dir = xstrdup("/tmp/test_complete.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->old = getcwd(NULL, 0);
    assert_int_equal(chdir(f->dir), 0);
    setenv("HOME", f->dir, 1);
    assert_int_equal(mkdir("sub", 0700), 0);
    assert_int_equal(mkdir("my dir", 0700), 0);
    for (size_t i = 0; i < LEN(files); i++)
        touch(files[i]);
    make_snapshots(f->dir);
    f->r = recorder_new(NULL);
    for (int i = 1; i <= 12; i++) {
        struct error err = {0};
        struct event ev = {
            .kind = EVENT_CODE, .cell = i, .text = "x", .len = 1};

        assert_int_equal(recorder_sink.put(f->r, &ev, &err), 0);
    }
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(chdir(f->old), 0);
    assert_int_equal(io_remove_tree(f->dir, NULL), 0);
    recorder_free(f->r);
    free(f->old);
    free(f->dir);
    free(f);
    return 0;
}

static int
compare(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;

    return strcmp(*x, *y);
}

static void
free_candidates(struct lineedit_candidates *c)
{
    for (size_t i = 0; i < c->n_words; i++)
        free(c->words[i]);
    free(c->words);
}

struct complete_case {
    const char *line;
    const char *expect; /* sorted, each behind "|" */
    size_t start;
};

static const struct complete_case cases[] = {
    {"", "", 0},
    {"hello sa", "", 6},
    {":",
     "|:budget|:code|:cost|:doctor|:files|:full|:help|:load|:quit|:replay|"
     ":restart|:restore|:retry|:sandbox|:save|:snapshot|:thinking|:trace|:vars",
     0},
    {":lo", "|:load", 0},
    {":x", "", 0},
    {":nothing sa", "", 9},
    {":help sa", "", 6},
    {":load sal", "|\"salad.txt\"|\"sales 2.csv\"|\"sales.csv\"", 6},
    {":load ~/sal", "|~/\"salad.txt\"|~/\"sales 2.csv\"|~/\"sales.csv\"", 6},
    {":load sales.", "|sales.csv", 6},
    {":load 'sales 2", "|\"sales 2.csv\"", 6},
    {":load \"sales 2", "|\"sales 2.csv\"", 6},
    {":load sales\\ ", "|\"sales 2.csv\"", 6},
    {":load it", "|\"it's \\\"q\\\".csv\"", 6},
    {":load a", "|\"a\\012b.csv\"", 6},
    {":load -", "|-rf.csv", 6},
    {":load .h", "|.hidden.csv", 6},
    {":load su", "|sub/", 6},
    {":load sub/", "|sub/one.csv", 6},
    {":load my", "|\"my dir/\"", 6},
    {":load \"my dir/", "|\"my dir/two.csv\"", 6},
    {":load \xC3", "|\xC3\xA9t\xC3\xA9.csv", 6},
    {":load ~/sales.", "|~/sales.csv", 6},
    {":load ~/sales\\ ", "|~/\"sales 2.csv\"", 6},
    {":load ~/\"my dir/t", "|~/\"my dir/two.csv\"", 6},
    {":load \\~", "|\"~tilde.csv\"", 6},
    {":load nowhere/x", "", 6},
    {":restore ", "|20260102-150405|alpha|alpine", 9},
    {":restore al", "|alpha|alpine", 9},
    {":restore alpha b", "", 15},
    {":snapshot al", "", 10},
    {":code 1", "|1|10|11|12", 6},
    {":code ", "|1|10|11|12|2|3|4|5|6|7|8|9", 6},
    {":trace 3", "|3", 7},
    {":save 1", "|1|10|11|12", 6},
    {":save 3 sub/o", "|sub/one.csv", 8},
};

static void
test_complete_line_of_every_kind(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        const struct complete_case *t = &cases[i];
        AUTO_SBUF struct sbuf sb = {0};
        struct lineedit_candidates c = {0};

        complete_line(f->r, t->line, strlen(t->line), &c);
        if (c.n_words > 0)
            qsort(c.words, c.n_words, sizeof(*c.words), compare);
        sbuf_init(&sb, 4096);
        for (size_t k = 0; k < c.n_words; k++) {
            sbuf_add_char(&sb, '|');
            sbuf_add_str(&sb, c.words[k]);
        }
        if (!str_eq(sb.data, t->expect) || c.start != t->start)
            fail_msg("%s: %zu %s", t->line, c.start, sb.data);
        free_candidates(&c);
    }
}

static void
test_complete_line_looks_before_the_cursor_only(void **state)
{
    struct fixture *f = *state;
    struct lineedit_candidates c = {0};

    complete_line(f->r, ":load sub and more", 9, &c);
    assert_int_equal(c.n_words, 1);
    assert_string_equal(c.words[0], "sub/");
    assert_true(c.is_path);
    free_candidates(&c);
}

/* What is offered for a path opens that path when the line is submitted. */
static void
test_complete_line_paths_are_read_back(void **state)
{
    struct fixture *f = *state;
    struct lineedit_candidates c = {0};

    complete_line(f->r, ":load ", 6, &c);
    assert_true(c.n_words >= 10);
    for (size_t i = 0; i < c.n_words; i++) {
        AUTO_FREE char *line = xasprintf(":load %s", c.words[i]);
        char **words = NULL;
        size_t n = 0;
        struct error err = {0};

        assert_true(c.words[i][0] != '.');
        assert_int_equal(command_split(line, &words, &n, &err), 0);
        assert_int_equal(n, 2);
        if (access(words[1], F_OK) < 0)
            fail_msg("%s", line);
        command_free_words(words, n);
    }
    free_candidates(&c);
}

static void
test_complete_line_offers_a_bounded_number(void **state)
{
    struct fixture *f = *state;
    struct lineedit_candidates c = {0};

    assert_int_equal(mkdir("many", 0700), 0);
    for (int i = 0; i < COMPLETE_MAX + 10; i++) {
        AUTO_FREE char *path = xasprintf("many/%d", i);

        assert_int_equal(symlink("nowhere", path), 0);
    }
    complete_line(f->r, ":load many/", 11, &c);
    assert_int_equal(c.n_words, COMPLETE_MAX);
    free_candidates(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_complete_line_of_every_kind,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_complete_line_looks_before_the_cursor_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_complete_line_paths_are_read_back,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_complete_line_offers_a_bounded_number, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("complete", tests, NULL, NULL);
}
