/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

static void
test_xgrow_keeps_what_is_there(void **unused)
{
    size_t *list = NULL;

    (void)unused;
    for (size_t n = 0; n < 1000; n++) {
        list = xgrow(list, n, sizeof(*list));
        list[n] = n;
    }
    for (size_t n = 0; n < 1000; n++)
        assert_int_equal(list[n], n);
    free(list);
}

/* Between two powers of two nothing is moved. */
static void
test_xgrow_doubles(void **unused)
{
    char *list = xgrow(NULL, 0, 1);

    (void)unused;
    for (size_t n = 1; n <= 64; n++)
        list = xgrow(list, n, 1);
    for (size_t n = 65; n < 128; n++)
        assert_ptr_equal(xgrow(list, n, 1), list);
    free(list);
}

static void
test_xmalloc_zero(void **unused)
{
    void *a = xmalloc(0);
    void *b = xcalloc(0, 8);
    void *c = xrealloc(xmalloc(5), 0);
    void *d = xreallocarray(NULL, 0, SIZE_MAX);

    (void)unused;
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_non_null(d);
    free(a);
    free(b);
    free(c);
    free(d);
}

static void
test_xcalloc_is_zeroed(void **unused)
{
    static const unsigned char zeros[1000];
    unsigned char *p = xcalloc(10, 100);

    (void)unused;
    assert_memory_equal(p, zeros, sizeof(zeros));
    free(p);
}

static void
test_xrealloc_keeps_bytes(void **unused)
{
    char *p = xmalloc(4);

    (void)unused;
    memcpy(p, "abc", 4);
    p = xrealloc(p, 100000);
    assert_string_equal(p, "abc");
    free(p);
}

static void
test_free_const_frees(void **unused)
{
    const char *text = xstrdup("read only");

    (void)unused;
    /* The sanitizer build finds it if this one is not released. */
    free_const(text);
    free_const(NULL);
}

static void
test_copies(void **unused)
{
    char *dup = xstrdup("text");
    char *part = xstrndup("text", 2);
    char *empty = xstrndup("", 0);
    char *mem = xmemdup("a\0b", 4);
    char *fmt = xasprintf("%d-%s", 42, "x");

    (void)unused;
    assert_string_equal(dup, "text");
    assert_string_equal(part, "te");
    assert_string_equal(empty, "");
    assert_memory_equal(mem, "a\0b", 4);
    assert_string_equal(fmt, "42-x");
    assert_null(xstrdup(NULL));
    assert_null(xstrndup(NULL, 0));
    assert_null(xmemdup(NULL, 0));
    free(dup);
    free(part);
    free(empty);
    free(mem);
    free(fmt);
}

static int hook_fd = -1;

static void
write_mark(void)
{
    if (write(hook_fd, "H", 1) != 1) {
        _exit(99);
    }
}

/* Runs one size that cannot be had in a child; returns its wait status and how
   often the hook ran. */
static int
run_overflow(void (*hook)(void), ssize_t *n_marks)
{
    char marks[8];
    int fds[2];
    int status;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit no_core = {0};

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        hook_fd = fds[1];
        alloc_set_abort_hook(write_mark);
        alloc_set_abort_hook(hook);
        free(xreallocarray(NULL, SIZE_MAX / 2, 3));
        _exit(0);
    }
    close(fds[1]);
    *n_marks = read(fds[0], marks, sizeof(marks));
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void
test_overflow_calls_hook_and_aborts(void **unused)
{
    ssize_t n_marks;
    int status = run_overflow(write_mark, &n_marks);

    (void)unused;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_int_equal(n_marks, 1);
}

static void
test_overflow_without_hook(void **unused)
{
    ssize_t n_marks;
    int status = run_overflow(NULL, &n_marks);

    (void)unused;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_int_equal(n_marks, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xmalloc_zero),
        cmocka_unit_test(test_xgrow_keeps_what_is_there),
        cmocka_unit_test(test_xgrow_doubles),
        cmocka_unit_test(test_xcalloc_is_zeroed),
        cmocka_unit_test(test_xrealloc_keeps_bytes),
        cmocka_unit_test(test_free_const_frees),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_overflow_calls_hook_and_aborts),
        cmocka_unit_test(test_overflow_without_hook),
    };

    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
