/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/snapshots.h"

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

struct fixture {
    char *state;
    char *dir;
};

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->state = xstrdup("/tmp/test_snapshots.XXXXXX");
    assert_non_null(mkdtemp(f->state));
    setenv("XDG_STATE_HOME", f->state, 1);
    f->dir = paths_join(f->state, "sandpiper/snapshots");
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;
    struct error err = {0};

    assert_int_equal(io_remove_tree(f->state, &err), 0);
    unsetenv("XDG_STATE_HOME");
    free(f->state);
    free(f->dir);
    free(f);
    return 0;
}

static void
make(const char *name, const char *data)
{
    struct io_new file;
    struct error err = {0};

    assert_int_equal(snapshots_create(name, &file, &err), 0);
    assert_int_equal(io_write_all(file.fd, data, strlen(data), &err), 0);
    assert_int_equal(io_new_keep(&file, &err), 0);
    io_new_close(&file);
}

static void
set_time(const struct fixture *f, const char *name, time_t when)
{
    AUTO_FREE char *path = paths_join(f->dir, name);
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};

    assert_int_equal(utimensat(-1, path, times, 0), 0);
}

struct name_case {
    const char *name;
    const char *text;
    bool expect_ok;
};

static const struct name_case name_cases[] = {
    {"letters", "abc", true},
    {"the default", "20260102-150405-2", true},
    {"all that may stand there", "a._-Z9", true},
    {"a digit", "1", true},
    {"empty", "", false},
    {"hidden", ".a", false},
    {"an option", "-a", false},
    {"a directory", "a/b", false},
    {"up", "..", false},
    {"a blank", "a b", false},
    {"a line end", "a\n", false},
    {"no ASCII", "\xC3\xA9", false},
    {"as long as may be",
     "0123456789012345678901234567890123456789012345678901234567890123", true},
    {"longer",
     "01234567890123456789012345678901234567890123456789012345678901234",
     false},
};

static void
test_name_ok(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(name_cases); i++) {
        const struct name_case *t = &name_cases[i];
        struct io_new file;
        struct error err = {0};

        if (snapshots_name_ok(t->text) != t->expect_ok)
            fail_msg("%s", t->name);
        assert_int_equal(snapshots_create(t->text, &file, &err),
                         t->expect_ok ? 0 : -1);
        assert_int_equal(err.code, t->expect_ok ? ERR_NONE : ERR_USAGE);
        io_new_close(&file);
    }
}

static void
test_open_takes_the_newest(void **state)
{
    const struct fixture *f = *state;
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *named = NULL;
    struct error err = {0};
    int fd = -1;

    make("old", "1");
    make("new", "22");
    make("middle", "333");
    set_time(f, "old", 1000);
    set_time(f, "middle", 2000);
    set_time(f, "new", 3000);
    fd = snapshots_open(NULL, &name, &err);
    assert_true(fd >= 0);
    assert_string_equal(name, "new");
    sbuf_init(&sb, 64);
    assert_int_equal(io_read_all(fd, &sb, &err), 0);
    assert_string_equal(sb.data, "22");
    close(fd);
    fd = snapshots_open("old", &named, &err);
    assert_true(fd >= 0);
    close(fd);
}

static void
test_list_has_files_only(void **state)
{
    const struct fixture *f = *state;
    struct snapshots_list list;
    AUTO_FREE char *dir = paths_join(f->dir, "adir");
    AUTO_FREE char *link = paths_join(f->dir, "alink");
    AUTO_FREE char *fifo = paths_join(f->dir, "afifo");
    AUTO_FREE char *name = NULL;
    struct error err = {0};

    snapshots_list(&list);
    assert_int_equal(list.n_items, 0);
    make("one", "x");
    make("two", "yy");
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    set_time(f, "one", 1000);
    set_time(f, "two", 2000);
    snapshots_list(&list);
    assert_int_equal(list.n_items, 2);
    assert_string_equal(list.items[0].name, "two");
    assert_int_equal(list.items[0].size_bytes, 2);
    assert_string_equal(list.items[1].name, "one");
    snapshots_list_fini(&list);
    /* Nor are they opened, or waited for. */
    assert_int_equal(snapshots_open("alink", &name, &err), -1);
    assert_int_equal(snapshots_open("afifo", &name, &err), -1);
    assert_int_equal(snapshots_open("adir", &name, &err), -1);
    assert_non_null(strstr(err.msg, "there are two, one"));
}

static void
test_create_never_takes_what_is_there(void **state)
{
    const struct fixture *f = *state;
    AUTO_FREE char *path = paths_join(f->dir, "one");
    struct io_new file;
    struct error err = {0};
    struct stat st;

    make("one", "x");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(snapshots_create("one", &file, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    io_new_close(&file);
    /* Without a name each gets one that is free. */
    make(NULL, "a");
    make(NULL, "b");
    make(NULL, "c");
}

static void
test_no_place_for_it(void **state)
{
    const struct fixture *f = *state;
    AUTO_FREE char *above = paths_join(f->state, "sandpiper");
    AUTO_FREE char *name = NULL;
    struct io_new file;
    struct error err = {0};

    assert_int_equal(io_replace(above, "x", 1, 0600, &err), 0);
    assert_int_equal(snapshots_create("one", &file, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(snapshots_open(NULL, &name, &err), -1);
    assert_string_equal(err.msg,
                        "there is no snapshot yet; :snapshot makes one");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_name_ok, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open_takes_the_newest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_list_has_files_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_create_never_takes_what_is_there,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_place_for_it, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("snapshots", tests, NULL, NULL);
}
