/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITHOUT_FILTER 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define WITHOUT_FILTER 1
#endif
#ifndef WITHOUT_FILTER
#define WITHOUT_FILTER 0
#endif

#define N(a) (LEN(a))

enum { NOT_CONFINED = 99 };

/* Returns the exit status of a confined child; a signal gives 128 + n. */
static int
run_confined(int (*fn)(void))
{
    int status;
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(fds[0], 0) < 0 || dup2(fds[1], 1) < 0)
            _exit(NOT_CONFINED);
        if (picture_confine() < 0)
            _exit(NOT_CONFINED);
        _exit(fn());
    }
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

/* Both ends of one pipe are 0 and 1: what is written comes back. */
static int
use_what_is_allowed(void)
{
    char byte = 0;
    size_t size;

    if (write(1, "x", 1) != 1 || read(0, &byte, 1) != 1 || byte != 'x')
        return 1;
    for (size = 16; size < (size_t)64 * 1024 * 1024; size *= 4) {
        char *p = malloc(size);
        char *q;

        if (p == NULL)
            return 2;
        memset(p, 1, size);
        q = realloc(p, 2 * size);
        if (q == NULL)
            return 3;
        free(q);
    }
    return 0;
}

/* Tells that it is confined, then waits until the other side closes. */
static int
wait_for_end(void)
{
    char byte;

    if (write(1, "x", 1) != 1)
        return 1;
    return read(0, &byte, 1) == 0 ? 0 : 2;
}

static char *
read_proc(pid_t pid, const char *name)
{
    enum { SIZE = 8192 };
    char path[64];
    char *text = calloc(1, SIZE);
    int fd;

    assert_non_null(text);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, text, SIZE - 1) > 0);
    close(fd);
    return text;
}

static void
expect_line(const char *text, const char *name, const char *value)
{
    const char *at = strstr(text, name);
    size_t len = strlen(value);

    if (at == NULL)
        fail_msg("no %s in:\n%s", name, text);
    at += strlen(name);
    at += strspn(at, " \t");
    if (strncmp(at, value, len) != 0 || strchr(" \t\n", at[len]) == NULL)
        fail_msg("%s is not %s:\n%s", name, value, text);
}

/* Seen from outside, as the filter forbids to ask. */
static void
test_confine_sets_limits(void **state)
{
    static const char *const limits[][2] = {
        {"Max core file size", "0"},
        {"Max cpu time", "5"},
        {"Max open files", "3"},
        {"Max processes", "0"},
        {"Max file size", "0"},
#if !WITHOUT_FILTER
        {"Max address space", "268435456"},
#endif
    };
    int in[2], out[2];
    char *text;
    char byte;
    pid_t pid;
    int status;
    size_t i;

    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || close(in[1]) < 0 ||
            picture_confine() < 0)
            _exit(NOT_CONFINED);
        _exit(wait_for_end());
    }
    close(in[0]);
    close(out[1]);
    assert_int_equal(read(out[0], &byte, 1), 1);
    text = read_proc(pid, "limits");
    for (i = 0; i < N(limits); i++)
        expect_line(text, limits[i][0], limits[i][1]);
    free(text);
    text = read_proc(pid, "status");
    expect_line(text, "NoNewPrivs:", "1");
    expect_line(text, "Seccomp:", WITHOUT_FILTER ? "0" : "2");
    free(text);
    close(in[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(out[0]);
}

#if !WITHOUT_FILTER
static int
open_file(void)
{
    return open("/dev/null", O_RDONLY) < 0 ? 0 : 1;
}

static int
make_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? 0 : 1;
}

static int
run_program(void)
{
    execl("/bin/true", "true", (char *)NULL);
    return 0;
}

static int
make_process(void)
{
    return fork() < 0 ? 0 : 1;
}

static int
map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0) == MAP_FAILED;
}

static int
make_code(void)
{
    return mprotect((void *)(uintptr_t)0x10000, 4096, PROT_EXEC) < 0 ? 0 : 1;
}

static int
write_elsewhere(void)
{
    return write(2, "", 0) < 0 ? 0 : 1;
}

static int
read_elsewhere(void)
{
    char byte;

    return read(1, &byte, 0) < 0 ? 0 : 1;
}

static int
signal_parent(void)
{
    return kill(getppid(), 0);
}

static void
test_confine_kills_other_calls(void **state)
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } cases[] = {
        {"open", open_file},          {"socket", make_socket},
        {"exec", run_program},        {"fork", make_process},
        {"mmap code", map_code},      {"mprotect", make_code},
        {"write 2", write_elsewhere}, {"read 1", read_elsewhere},
        {"kill", signal_parent},
    };
    size_t i;

    (void)state;
    for (i = 0; i < N(cases); i++) {
        int status = run_confined(cases[i].fn);

        if (status != 128 + SIGSYS)
            fail_msg("%s: status %d", cases[i].name, status);
    }
}

/* No more than eight such pieces are within the limit. */
static int
take_memory(void)
{
    size_t i;

    for (i = 0; i < 8; i++)
        if (mmap(NULL, (size_t)32 * 1024 * 1024, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return 0;
    return 1;
}

static void
test_confine_bounds_memory(void **state)
{
    (void)state;
    assert_int_equal(run_confined(take_memory), 0);
}
#endif

static void
test_confine_allows_the_work(void **state)
{
    (void)state;
    assert_int_equal(run_confined(use_what_is_allowed), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confine_allows_the_work),
        cmocka_unit_test(test_confine_sets_limits),
#if !WITHOUT_FILTER
        cmocka_unit_test(test_confine_kills_other_calls),
        cmocka_unit_test(test_confine_bounds_memory),
#endif
    };

    return cmocka_run_group_tests_name("picture_confine", tests, NULL, NULL);
}
