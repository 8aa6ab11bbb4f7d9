/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/session.h"

#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/str.h"

static char *
make_dir(void)
{
    char *dir = xstrdup("/tmp/test_session.XXXXXX");

    assert_non_null(mkdtemp(dir));
    return dir;
}

static void
remove_dir(char *dir)
{
    assert_int_equal(io_remove_tree(dir, NULL), 0);
    free(dir);
}

static struct session *
open_session(const char *parent)
{
    struct error err = {0};
    struct session *s = session_new(parent, &err);

    if (s == NULL)
        fail_msg("%s", err.msg);
    return s;
}

static void
test_new_is_private_and_locked(void **state)
{
    char *dir = make_dir();
    AUTO_FREE char *parent = paths_join(dir, "a/b");
    struct session *s = open_session(parent);
    AUTO_FREE char *lock = paths_join(session_path(s), "lock");
    struct stat st;
    AUTO_CLOSE int fd = -1;

    (void)state;
    assert_true(str_starts(session_path(s), parent));
    assert_true(str_ends(session_path(s), session_name(s)));
    for (size_t i = 0; i < 15; i++)
        assert_true(i == 8 ? session_name(s)[i] == '-'
                           : isdigit((unsigned char)session_name(s)[i]) != 0);
    assert_int_equal(stat(session_path(s), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(parent, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(lock, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    fd = open(lock, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    session_free(s);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    remove_dir(dir);
}

static void
test_new_twice_in_a_second_has_two_names(void **state)
{
    char *dir = make_dir();
    struct session *s[5];

    (void)state;
    for (size_t i = 0; i < 5; i++)
        s[i] = open_session(dir);
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(session_path(s[i]), session_path(s[k]));
    }
    for (size_t i = 0; i < 5; i++)
        session_free(s[i]);
    remove_dir(dir);
}

static void
test_free_removes_only_what_is_not_kept(void **state)
{
    char *dir = make_dir();
    struct session *s = open_session(dir);
    AUTO_FREE char *gone = xstrdup(session_path(s));
    AUTO_FREE char *kept = NULL;

    (void)state;
    session_free(s);
    session_free(NULL);
    assert_int_equal(access(gone, F_OK), -1);
    s = open_session(dir);
    kept = xstrdup(session_path(s));
    session_keep(s);
    session_free(s);
    assert_int_equal(access(kept, F_OK), 0);
    remove_dir(dir);
}

static void
test_new_where_none_can_be(void **state)
{
    char *dir = make_dir();
    AUTO_FREE char *file = paths_join(dir, "file");
    AUTO_FREE char *below = paths_join(file, "x");
    struct error err = {0};

    (void)state;
    assert_int_equal(io_replace(file, "", 0, 0600, NULL), 0);
    assert_null(session_new(file, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.msg, file));
    memset(&err, 0, sizeof(err));
    assert_null(session_new(below, &err));
    assert_int_equal(err.code, ERR_IO);
    remove_dir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_is_private_and_locked),
        cmocka_unit_test(test_new_twice_in_a_second_has_two_names),
        cmocka_unit_test(test_free_removes_only_what_is_not_kept),
        cmocka_unit_test(test_new_where_none_can_be),
    };

    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
