/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "sandbox/sandbox.h"
#include "sandbox/workspace_internal.h"

struct place {
    char dir[64];
    int fd;
};

static void
make_file(const struct place *p, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    struct error err = {0};

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), &err), 0);
}

static void
make_socket(const struct place *p)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/socket", p->dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static int
setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    snprintf(p->dir, sizeof(p->dir), "/tmp/test_workspace.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(p->fd >= 0);
    make_file(p, "fine.txt", "fine");
    make_file(p, "two", "x");
    assert_int_equal(linkat(p->fd, "two", p->fd, "names", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", p->fd, "passwd.png"), 0);
    assert_int_equal(symlinkat("fine.txt", p->fd, "inner"), 0);
    assert_int_equal(symlinkat("/etc", p->fd, "etc"), 0);
    assert_int_equal(symlinkat("loop", p->fd, "loop"), 0);
    assert_int_equal(symlinkat("data/x.csv", p->fd, "x.csv"), 0);
    assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
    assert_int_equal(mkdirat(p->fd, "data", 0700), 0);
    assert_int_equal(mkdirat(p->fd, "output", 0700), 0);
    make_file(p, "data/x.csv", "a");
    make_file(p, "output/chart.png", "chart");
    make_file(p, "-\x1b[31m\n\xff", "odd");
    make_socket(p);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct place *p = *state;
    struct error err = {0};

    close(p->fd);
    assert_int_equal(io_remove_tree(p->dir, &err), 0);
    free(p);
    return 0;
}

static bool
is_ours(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "x.csv") == 0;
}

static void
test_workspace_list_says_what_is_refused(void **state)
{
    static const struct {
        const char *name;
        const char *expect_refused;
    } expected[] = {
        {"-\x1b[31m\n\xff", NULL},
        {"etc", "a symbolic link"},
        {"fifo", "a FIFO"},
        {"fine.txt", NULL},
        {"inner", "a symbolic link"},
        {"loop", "a symbolic link"},
        {"names", "a file with several names"},
        {"output/chart.png", NULL},
        {"passwd.png", "a symbolic link"},
        {"socket", "a socket"},
        {"two", "a file with several names"},
    };
    struct place *p = *state;
    struct workspace_list list;
    struct error err = {0};
    size_t n = LEN(expected);

    assert_int_equal(workspace_list(p->fd, is_ours, NULL, &list, &err), 0);
    assert_int_equal(list.n_files, n);
    assert_int_equal(list.n_left_out, 0);
    for (size_t i = 0; i < n; i++) {
        const char *refused = list.files[i].refused;

        assert_string_equal(list.files[i].name, expected[i].name);
        if ((refused == NULL) != (expected[i].expect_refused == NULL))
            fail_msg("%s", expected[i].name);
        if (refused != NULL)
            assert_string_equal(refused, expected[i].expect_refused);
    }
    assert_int_equal(list.files[3].size_bytes, 4);
    workspace_list_fini(&list);
}

static void
test_workspace_list_is_bounded(void **state)
{
    struct place *p = *state;
    struct workspace_list list;
    struct error err = {0};
    char name[32];
    char deep[64];

    for (int i = 0; i < 1200; i++) {
        snprintf(name, sizeof(name), "output/f%d", i);
        make_file(p, name, "");
    }
    for (size_t i = 0; i < 12; i++) {
        memset(deep, '/', sizeof(deep));
        for (size_t j = 0; j <= i; j++)
            deep[2 * j] = 'd';
        deep[2 * i + 1] = '\0';
        assert_int_equal(mkdirat(p->fd, deep, 0700), 0);
    }
    assert_int_equal(workspace_list(p->fd, NULL, NULL, &list, &err), 0);
    assert_int_equal(list.n_files, WORKSPACE_MAX_ENTRIES);
    assert_true(list.n_left_out >= 200);
    workspace_list_fini(&list);
}

static bool
is_listed(const struct workspace_list *list, const char *name)
{
    for (size_t i = 0; i < list->n_files; i++) {
        if (strcmp(list->files[i].name, name) == 0)
            return true;
    }
    return false;
}

static void
test_workspace_list_takes_what_is_on_top_first(void **state)
{
    struct place *p = *state;
    struct workspace_list list;
    struct error err = {0};
    char name[32];

    assert_int_equal(mkdirat(p->fd, "a", 0700), 0);
    assert_int_equal(mkdirat(p->fd, "z", 0700), 0);
    for (int i = 0; i < 1200; i++) {
        snprintf(name, sizeof(name), "%s/f%d", i % 2 == 0 ? "a" : "z", i);
        make_file(p, name, "");
    }
    make_file(p, "output/last.png", "");
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "r%d.csv", i);
        make_file(p, name, "");
    }
    assert_int_equal(workspace_list(p->fd, NULL, NULL, &list, &err), 0);
    assert_int_equal(list.n_files, WORKSPACE_MAX_ENTRIES);
    assert_true(list.n_left_out >= 221);
    assert_true(is_listed(&list, "output/last.png"));
    assert_true(is_listed(&list, "a/f1198"));
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "r%d.csv", i);
        assert_true(is_listed(&list, name));
    }
    workspace_list_fini(&list);
}

static void
test_workspace_open(void **state)
{
    static const struct {
        const char *name;
        enum error_code expect_code;
    } cases[] = {
        {"fine.txt", ERR_NONE},
        {"output/chart.png", ERR_NONE},
        {"-\x1b[31m\n\xff", ERR_NONE},
        {"passwd.png", ERR_UNSUPPORTED},
        {"inner", ERR_UNSUPPORTED},
        {"loop", ERR_UNSUPPORTED},
        {"etc/passwd", ERR_UNSUPPORTED},
        {"fine.txt/x", ERR_UNSUPPORTED},
        {"fifo", ERR_UNSUPPORTED},
        {"socket", ERR_UNSUPPORTED},
        {"output", ERR_UNSUPPORTED},
        {"names", ERR_UNSUPPORTED},
        {"missing", ERR_IO},
        {"output/missing", ERR_IO},
        {"", ERR_USAGE},
        {"/etc/passwd", ERR_USAGE},
        {"../x", ERR_USAGE},
        {"output/../fine.txt", ERR_USAGE},
        {"./fine.txt", ERR_USAGE},
        {"output//chart.png", ERR_USAGE},
        {"output/", ERR_USAGE},
    };
    struct place *p = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct error one = {0};
        struct error two = {0};
        AUTO_CLOSE int a = workspace_open(p->fd, cases[i].name, &one);
        AUTO_CLOSE int b = workspace_open_by_walk(p->fd, cases[i].name, &two);

        if (one.code != cases[i].expect_code ||
            two.code != cases[i].expect_code)
            fail_msg("%s: %s, by walk %s", cases[i].name, one.msg, two.msg);
        assert_int_equal(a >= 0, cases[i].expect_code == ERR_NONE);
        assert_int_equal(b >= 0, cases[i].expect_code == ERR_NONE);
    }
}

static void
test_workspace_usage_counts_blocks(void **state)
{
    struct place *p = *state;
    AUTO_CLOSE int fd = openat(p->fd, "sparse", O_WRONLY | O_CREAT, 0600);
    bool whole = false;
    uint64_t before = workspace_usage(p->fd, 10000, &whole);
    char block[65536] = {1};
    struct error err = {0};

    assert_true(whole);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    assert_true(workspace_usage(p->fd, 10000, &whole) - before < 65536);
    assert_int_equal(io_write_all(fd, block, sizeof(block), &err), 0);
    assert_int_equal(fsync(fd), 0);
    assert_true(workspace_usage(p->fd, 10000, &whole) - before >= 65536);
    /* Fewer entries are looked at; which, the file system decides. */
    assert_true(workspace_usage(p->fd, 1, &whole) <=
                workspace_usage(p->fd, 10000, &whole));
    assert_true(whole);
    workspace_usage(p->fd, 1, &whole);
    assert_false(whole);
}

/* What cannot be looked at is not taken for nothing. */
static void
test_workspace_usage_says_what_it_did_not_see(void **state)
{
    struct place *p = *state;
    bool whole = true;
    AUTO_CLOSE int at = dup(p->fd);

    for (int depth = 0; depth < 66; depth++) {
        int next;

        assert_int_equal(mkdirat(at, "d", 0700), 0);
        next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    workspace_usage(p->fd, 10000, &whole);
    assert_false(whole);
}

static void
test_workspace_name_ok(void **state)
{
    char longest[257];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    longest[256] = '\0';
    assert_false(workspace_name_ok(longest));
    longest[255] = '\0';
    assert_true(workspace_name_ok(longest));
    assert_true(workspace_name_ok("-a b\n.csv"));
    assert_true(workspace_name_ok("..csv"));
    assert_false(workspace_name_ok(""));
    assert_false(workspace_name_ok("."));
    assert_false(workspace_name_ok(".."));
    assert_false(workspace_name_ok("a/b"));
    assert_false(workspace_name_ok(NULL));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_workspace_list_says_what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_workspace_list_takes_what_is_on_top_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_workspace_list_is_bounded, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_workspace_open, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_workspace_usage_says_what_it_did_not_see, setup, teardown),
        cmocka_unit_test_setup_teardown(test_workspace_usage_counts_blocks,
                                        setup, teardown),
        cmocka_unit_test(test_workspace_name_ok),
    };

    return cmocka_run_group_tests_name("workspace", tests, NULL, NULL);
}
