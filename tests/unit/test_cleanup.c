/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"

static char *
make_text(bool hand_over)
{
    AUTO_FREE char *text = xstrdup("kept");

    return hand_over ? take_ptr(&text) : NULL;
}

static void
test_take_ptr_hands_over(void **unused)
{
    char *text = make_text(true);
    char *rest = text;

    (void)unused;
    assert_string_equal(text, "kept");
    assert_ptr_equal(take_ptr(&rest), text);
    assert_null(rest);
    free(text);
    /* The sanitizer build finds it if this one is not released. */
    assert_null(make_text(false));
}

static void
open_and_leave(int *seen)
{
    AUTO_CLOSE int none = -1;
    AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(none, -1);
    *seen = fd;
    errno = ERANGE;
}

static void
test_auto_close_closes(void **unused)
{
    int fd = -1;

    (void)unused;
    open_and_leave(&fd);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
}

static void
test_take_fd_hands_over(void **unused)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int held = fd;

    (void)unused;
    {
        AUTO_CLOSE int scoped = held;

        held = take_fd(&scoped);
        assert_int_equal(scoped, -1);
    }
    assert_int_equal(held, fd);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

static void
test_close_fd_closes_once(void **unused)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int number = fd;

    (void)unused;
    errno = ERANGE;
    close_fd(&fd);
    assert_int_equal(fd, -1);
    close_fd(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(fcntl(number, F_GETFD), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_ptr_hands_over),
        cmocka_unit_test(test_auto_close_closes),
        cmocka_unit_test(test_take_fd_hands_over),
        cmocka_unit_test(test_close_fd_closes_once),
    };

    return cmocka_run_group_tests_name("cleanup", tests, NULL, NULL);
}
