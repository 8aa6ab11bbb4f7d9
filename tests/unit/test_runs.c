/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"

enum { N_CHILDREN = 8, N_ROUNDS = 60 };

struct fixture {
    char *top;
    char *dir;
};

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->top = xstrdup("/tmp/test_runs.XXXXXX");
    assert_non_null(mkdtemp(f->top));
    f->dir = paths_join(f->top, "state/sandpiper");
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;
    struct error err = {0};

    assert_int_equal(io_remove_tree(f->top, &err), 0);
    free(f->top);
    free(f->dir);
    free(f);
    return 0;
}

static struct runs *
open_runs(const struct fixture *f)
{
    struct error err = {0};
    struct runs *r = runs_open(f->dir, &err);

    if (r == NULL)
        fail_msg("%s", err.msg);
    return r;
}

static char *
path_of(const struct fixture *f, const char *id)
{
    return xasprintf("%s/runs/%s", f->dir, id);
}

static bool
is_there(const struct fixture *f, const char *id)
{
    AUTO_FREE char *path = path_of(f, id);

    return access(path, F_OK) == 0;
}

static void
expect_id(const char *id)
{
    assert_int_equal(strlen(id), RUNS_ID_BYTES);
    assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789"),
                     RUNS_ID_BYTES);
}

static void
test_ids(void **state)
{
    const struct fixture *f = *state;
    struct runs *one = open_runs(f);
    struct runs *two = open_runs(f);
    AUTO_FREE char *installation = xstrdup(runs_installation(one));
    AUTO_FREE char *path = paths_join(f->dir, "installation");
    struct stat st;

    expect_id(runs_installation(one));
    expect_id(runs_id(one));
    assert_string_equal(runs_installation(two), installation);
    assert_string_not_equal(runs_id(one), runs_id(two));
    assert_string_not_equal(runs_id(one), installation);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    runs_close(one);
    runs_close(two);
    one = open_runs(f);
    assert_string_equal(runs_installation(one), installation);
    runs_close(one);
}

static void
test_is_alive(void **state)
{
    static const char *const odd[] = {NULL,
                                      "",
                                      "..",
                                      "../installation",
                                      "AAAAAAAAAAAAAAAAAAAA",
                                      "aaaaaaaaaaaaaaaaaaaa"};
    const struct fixture *f = *state;
    struct runs *one = open_runs(f);
    struct runs *two = open_runs(f);
    AUTO_FREE char *id = xstrdup(runs_id(one));
    AUTO_FREE char *around = xasprintf("../runs/%s", id);

    assert_true(runs_is_alive(one, id));
    assert_true(runs_is_alive(two, id));
    assert_true(runs_is_alive(one, runs_id(two)));
    /* Asked again, it still is. */
    assert_true(runs_is_alive(two, id));
    for (size_t i = 0; i < LEN(odd); i++)
        assert_false(runs_is_alive(one, odd[i]));
    /* A name that leads to one that lives is no id. */
    assert_false(runs_is_alive(two, around));
    assert_true(is_there(f, id));
    runs_close(one);
    assert_false(is_there(f, id));
    assert_false(runs_is_alive(two, id));
    runs_close(two);
}

/* It ends with the test, however that ends. */
static pid_t
fork_child(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

/* Holds a run until it is killed; sends its id. */
static pid_t
start_child(const struct fixture *f, char id[RUNS_ID_BYTES + 1])
{
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork_child();
    if (pid == 0) {
        struct runs *r = runs_open(f->dir, NULL);

        if (r == NULL ||
            write(fds[1], runs_id(r), RUNS_ID_BYTES) != RUNS_ID_BYTES)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], id, RUNS_ID_BYTES), RUNS_ID_BYTES);
    id[RUNS_ID_BYTES] = '\0';
    close(fds[0]);
    return pid;
}

static void
test_a_run_that_is_killed(void **state)
{
    const struct fixture *f = *state;
    struct runs *one = open_runs(f);
    struct runs *two;
    char id[RUNS_ID_BYTES + 1];
    pid_t pid = start_child(f, id);
    int status = 0;

    assert_true(runs_is_alive(one, id));
    /* What cleans up leaves it alone as long as it lives. */
    two = open_runs(f);
    assert_true(is_there(f, id));
    assert_true(is_there(f, runs_id(one)));
    assert_true(runs_is_alive(two, id));
    runs_close(two);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(is_there(f, id));
    assert_false(runs_is_alive(one, id));
    two = open_runs(f);
    assert_false(is_there(f, id));
    assert_false(runs_is_alive(two, id));
    assert_true(runs_is_alive(two, runs_id(one)));
    runs_close(two);
    runs_close(one);
}

/* A program that it starts does not keep it alive. */
static void
test_not_inherited(void **state)
{
    const struct fixture *f = *state;
    struct runs *one = open_runs(f);
    struct runs *two = open_runs(f);
    AUTO_FREE char *id = xstrdup(runs_id(one));
    AUTO_FREE char *path = path_of(f, id);
    AUTO_FREE char *kept = paths_join(f->top, "kept");
    int fds[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork_child();
    if (pid == 0) {
        execlp("sleep", "sleep", "600", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    /* Its end closes when the program has begun. */
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
    /* The same file stays, as it would after a crash. */
    assert_int_equal(link(path, kept), 0);
    runs_close(one);
    assert_int_equal(link(kept, path), 0);
    assert_false(runs_is_alive(two, id));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    runs_close(two);
}

static void
run_child(const struct fixture *f, int to, int go)
{
    char byte;

    if (read(go, &byte, 1) != 0)
        _exit(1);
    for (int i = 0; i < N_ROUNDS; i++) {
        struct runs *r = runs_open(f->dir, NULL);
        struct runs *other = r != NULL ? runs_open(f->dir, NULL) : NULL;

        if (other == NULL || !is_there(f, runs_id(r)) ||
            !runs_is_alive(other, runs_id(r)) ||
            strcmp(runs_installation(r), runs_installation(other)) != 0)
            _exit(2);
        if (i == 0 &&
            write(to, runs_installation(r), RUNS_ID_BYTES) != RUNS_ID_BYTES)
            _exit(3);
        runs_close(other);
        runs_close(r);
    }
    _exit(0);
}

/* All begin at the same time, and go on cleaning up after each other. */
static void
test_many_at_once(void **state)
{
    const struct fixture *f = *state;
    pid_t pids[N_CHILDREN];
    char ids[N_CHILDREN][RUNS_ID_BYTES];
    int out[2];
    int go[2];

    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(go), 0);
    for (size_t i = 0; i < N_CHILDREN; i++) {
        pids[i] = fork_child();
        if (pids[i] == 0) {
            close(go[1]);
            run_child(f, out[1], go[0]);
        }
    }
    close(go[1]);
    close(out[1]);
    for (size_t i = 0; i < N_CHILDREN; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("a child ended with %x", (unsigned)status);
    }
    for (size_t i = 0; i < N_CHILDREN; i++) {
        assert_int_equal(read(out[0], ids[i], RUNS_ID_BYTES), RUNS_ID_BYTES);
        assert_memory_equal(ids[i], ids[0], RUNS_ID_BYTES);
    }
    close(out[0]);
    close(go[0]);
}

struct odd_case {
    const char *name;
    const char *content; /* of the file of the installation; NULL: a link */
    enum error_code expect_code;
    const char *expect_part;
};

static void
test_odd_installations(void **state)
{
    static const struct odd_case cases[] = {
        {"empty", "", ERR_DATA, "remove it"},
        {"short", "abc\n", ERR_DATA, "remove it"},
        {"upper case", "ABCDEFGHIJKLMNOPQRST\n", ERR_DATA, "remove it"},
        {"two lines", "abcdefghij\nklmnopqrs\n", ERR_DATA, "remove it"},
        {"a link", NULL, ERR_IO, "installation"},
    };
    const struct fixture *f = *state;
    static const char id[] = "abcdefghij0123456789";
    AUTO_FREE char *path = paths_join(f->dir, "installation");
    AUTO_FREE char *good = paths_join(f->dir, "good");

    assert_int_equal(io_make_dirs(f->dir, NULL), 0);
    assert_int_equal(io_replace(good, id, strlen(id), 0600, NULL), 0);
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct odd_case *c = &cases[i];
        struct error err = {0};

        unlink(path);
        if (c->content == NULL)
            assert_int_equal(symlink(good, path), 0);
        else
            assert_int_equal(
                io_replace(path, c->content, strlen(c->content), 0600, NULL),
                0);
        assert_null(runs_open(f->dir, &err));
        if (err.code != c->expect_code ||
            strstr(err.msg, c->expect_part) == NULL)
            fail_msg("%s: %s", c->name, err.msg);
    }
}

static void
test_no_directory(void **state)
{
    const struct fixture *f = *state;
    AUTO_FREE char *dir = paths_dir(f->dir);
    struct error err = {0};

    assert_int_equal(io_make_dirs(dir, NULL), 0);
    assert_int_equal(io_replace(f->dir, "x", 1, 0600, NULL), 0);
    assert_null(runs_open(f->dir, &err));
    assert_int_equal(err.code, ERR_IO);
    runs_close(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_is_alive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_that_is_killed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_not_inherited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_installations, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_no_directory, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
