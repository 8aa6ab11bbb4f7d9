/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * :snapshot and :restore: what a person reads, what is on the disk, and what is
 * stopped halfway.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "store/snapshots.h"
#include "unit/cmd_sandbox_session.h"

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
    struct snapshots_list list;

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
    struct snapshots_list list;

    (void)state;
    open_box(s);
    s->box->saved = (struct sandbox_saved){.names = TWO, .n_names = 2};
    line(s, ":snapshot one");
    for (size_t i = 0; i < LEN(LINES); i++) {
        s->box->waits = true;
        s->box->err = (struct error){0};
        loop_add_timer(s->f->loop, 20, on_cancel, s);
        line(s, LINES[i]);
        assert_int_equal(s->code, ERR_CANCELLED);
        says(s, 1, "interrupted");
    }
    snapshots_list(&list);
    assert_int_equal(list.n_items, 1);
    snapshots_list_fini(&list);
    stop(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_and_restore),
        cmocka_unit_test(test_snapshot_never_overwrites),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_restore_names_what_there_is),
        cmocka_unit_test(test_snapshot_that_fails),
        cmocka_unit_test(test_commands_that_are_stopped),
    };

    return cmocka_run_group_tests_name("cmd_snapshot", tests, NULL, NULL);
}
