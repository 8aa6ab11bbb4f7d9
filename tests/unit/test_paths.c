/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/paths.h"

#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/str.h"

/* How a copy of this program is asked to look something up (see main). */
#define ASK_HELPER "--ask-helper"
#define ASK_DATA "--ask-data"

struct xdg_case {
    const char *name;
    const char *home;
    const char *xdg; /* NULL: not set */
    const char *expect_config;
    const char *expect_state;
};

static const struct xdg_case xdg_cases[] = {
    {"home", "/h", NULL, "/h/.config/sandpiper", "/h/.local/state/sandpiper"},
    {"variable", "/h", "/x", "/x/sandpiper", "/x/sandpiper"},
    {"slash at the end", "/h/", "/x//", "/x/sandpiper", "/x/sandpiper"},
    {"relative variable", "/h", "x/y", "/h/.config/sandpiper",
     "/h/.local/state/sandpiper"},
    {"empty variable", "/h", "", "/h/.config/sandpiper",
     "/h/.local/state/sandpiper"},
};

static void
set_or_unset(const char *name, const char *value)
{
    if (value == NULL) {
        unsetenv(name);
    } else {
        setenv(name, value, 1);
    }
}

static void
test_dirs_by_xdg(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(xdg_cases); i++) {
        const struct xdg_case *c = &xdg_cases[i];
        AUTO_FREE char *config = NULL;
        AUTO_FREE char *state_dir = NULL;

        set_or_unset("HOME", c->home);
        set_or_unset("XDG_CONFIG_HOME", c->xdg);
        set_or_unset("XDG_STATE_HOME", c->xdg);
        config = paths_config_dir();
        state_dir = paths_state_dir();
        assert_string_equal(config, c->expect_config);
        assert_string_equal(state_dir, c->expect_state);
    }
}

static void
test_home_falls_back_on_the_database(void **state)
{
    static const char *const values[] = {NULL, "", "relative"};
    const struct passwd *entry = getpwuid(getuid());

    (void)state;
    for (size_t i = 0; i < LEN(values); i++) {
        AUTO_FREE char *home = NULL;

        set_or_unset("HOME", values[i]);
        home = paths_home();
        if (entry == NULL || entry->pw_dir[0] != '/') {
            assert_null(home);
        } else {
            assert_string_equal(home, entry->pw_dir);
        }
    }
}

static void
test_expand_tilde(void **state)
{
    static const struct {
        const char *path;
        const char *expect;
    } cases[] = {
        {"~", "/h"},        {"~/", "/h/"},  {"~/a/b", "/h/a/b"},
        {"~user", "~user"}, {"a/~", "a/~"}, {"/x", "/x"},
        {"", ""},           {"~~/", "~~/"},
    };

    (void)state;
    setenv("HOME", "/h", 1);
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_FREE char *path = paths_expand(cases[i].path);

        assert_string_equal(path, cases[i].expect);
    }
}

static void
test_join_and_base(void **state)
{
    AUTO_FREE char *plain = paths_join("/a", "b");
    AUTO_FREE char *slash = paths_join("/a/", "b");
    AUTO_FREE char *root = paths_join("/", "b");

    (void)state;
    assert_string_equal(plain, "/a/b");
    assert_string_equal(slash, "/a/b");
    assert_string_equal(root, "/b");
    assert_string_equal(paths_base("/a/b.csv"), "b.csv");
    assert_string_equal(paths_base("b.csv"), "b.csv");
    assert_string_equal(paths_base("/a/"), "");
}

static void
test_dir_is_what_base_leaves(void **state)
{
    static const struct {
        const char *path;
        const char *expect_dir;
    } cases[] = {
        {"/a/b.csv", "/a"}, {"a/b", "a"}, {"/b", "/"},
        {"b", "."},         {"/", "/"},   {"/a/", "/a"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_FREE char *dir = paths_dir(cases[i].path);

        assert_string_equal(dir, cases[i].expect_dir);
    }
}

static void
test_is_dot_for_the_two_names(void **state)
{
    (void)state;
    assert_true(paths_is_dot("."));
    assert_true(paths_is_dot(".."));
    assert_false(paths_is_dot("..."));
    assert_false(paths_is_dot(".a"));
    assert_false(paths_is_dot(""));
}

static void
copy_self(const char *to)
{
    FILE *in = fopen("/proc/self/exe", "re");
    int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    FILE *out = fdopen(fd, "w");
    static char chunk[65536];
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    for (n = fread(chunk, 1, sizeof(chunk), in); n > 0;
         n = fread(chunk, 1, sizeof(chunk), in)) {
        assert_int_equal(fwrite(chunk, 1, n, out), n);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void
make_file(const char *dir, const char *name, mode_t mode)
{
    AUTO_FREE char *path = paths_join(dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    close(fd);
}

static void
make_dir(const char *dir, const char *name)
{
    AUTO_FREE char *path = paths_join(dir, name);

    assert_int_equal(mkdir(path, 0700), 0);
}

static void
remove_path(const char *dir, const char *name)
{
    AUTO_FREE char *path = paths_join(dir, name);

    assert_int_equal(remove(path), 0);
}

/* What the copy of this program in dir answers. */
static char *
ask_copy(const char *dir, const char *question, const char *name)
{
    AUTO_FREE char *exe = paths_join(dir, "copy");
    char line[4096] = "";
    int fds[2];
    FILE *from;
    pid_t pid;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl(exe, exe, question, name, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    from = fdopen(fds[0], "r");
    assert_non_null(from);
    assert_non_null(fgets(line, sizeof(line), from));
    fclose(from);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    line[strcspn(line, "\n")] = '\0';
    return xstrdup(line);
}

static void
expect_answer(const char *dir, const char *question, const char *name,
              const char *expect)
{
    AUTO_FREE char *answer = ask_copy(dir, question, name);

    assert_string_equal(answer, expect);
}

static void
test_files_in_a_build_tree(void **state)
{
    char dir[] = "/tmp/test-paths-XXXXXX";
    AUTO_FREE char *exe = NULL;
    AUTO_FREE char *helper = NULL;
    AUTO_FREE char *data = NULL;
    AUTO_FREE char *answer = NULL;

    (void)state;
    assert_non_null(mkdtemp(dir));
    exe = paths_join(dir, "copy");
    helper = paths_join(dir, "a-helper");
    data = paths_join(dir, "share/d.txt");
    copy_self(exe);
    make_file(dir, "a-helper", 0700);
    make_dir(dir, "share");
    make_file(dir, "share/d.txt", 0600);

    /* Without the mark the program must not take what lies beside it. */
    answer = ask_copy(dir, ASK_HELPER, "a-helper");
    assert_true(str_starts(answer, "error 3 a-helper: not in "));
    assert_non_null(strstr(answer, dir));
    free(take_ptr(&answer));
    answer = ask_copy(dir, ASK_DATA, "d.txt");
    assert_true(str_starts(answer, "error 3 d.txt: not in "));

    make_file(dir, "config.status", 0700);
    expect_answer(dir, ASK_HELPER, "a-helper", helper);
    expect_answer(dir, ASK_DATA, "d.txt", data);
    free(take_ptr(&answer));
    answer = ask_copy(dir, ASK_HELPER, "no-helper");
    assert_true(str_starts(answer, "error 3 no-helper: "));
    assert_non_null(strstr(answer, dir));
    free(take_ptr(&answer));
    answer = ask_copy(dir, ASK_DATA, "no.txt");
    assert_true(str_starts(answer, "error 3 no.txt: not in "));
    assert_non_null(strstr(answer, dir));

    remove_path(dir, "config.status");
    remove_path(dir, "share/d.txt");
    remove_path(dir, "share");
    remove_path(dir, "a-helper");
    remove_path(dir, "copy");
    assert_int_equal(rmdir(dir), 0);
}

/* The part of the copy: one line with the path, or with the error. */
static int
answer_question(const char *question, const char *name)
{
    struct error err = {0};
    AUTO_FREE char *path = str_eq(question, ASK_HELPER)
                               ? paths_helper(name, &err)
                               : paths_data(name, &err);

    if (path != NULL) {
        printf("%s\n", path);
    } else {
        printf("error %d %s\n", (int)err.code, err.msg);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dirs_by_xdg),
        cmocka_unit_test(test_home_falls_back_on_the_database),
        cmocka_unit_test(test_expand_tilde),
        cmocka_unit_test(test_join_and_base),
        cmocka_unit_test(test_dir_is_what_base_leaves),
        cmocka_unit_test(test_is_dot_for_the_two_names),
        cmocka_unit_test(test_files_in_a_build_tree),
    };

    if (argc == 3) {
        return answer_question(argv[1], argv[2]);
    }
    return cmocka_run_group_tests_name("paths", tests, NULL, NULL);
}
