/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/secret.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/sbuf.h"

#define LOG_MODULE "test"

#if defined(__SANITIZE_ADDRESS__)
#define MLOCK_WORKS false /* the sanitizer makes mlock do nothing */
#else
#define MLOCK_WORKS true
#endif

#define KEY "sk-test-0123456789"

static void
test_new_holds_a_copy(void **state)
{
    char text[] = "ab\0cd";
    struct secret *s = secret_new(text, 5);
    struct secret *empty = secret_new("", 0);

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_memory_equal(secret_expose(s), "ab\0cd", 6);
    assert_false(secret_is_empty(s));
    secret_free(s);
    assert_true(secret_is_empty(empty));
    assert_string_equal(secret_expose(empty), "");
    secret_free(empty);
    assert_true(secret_is_empty(NULL));
    secret_free(NULL);
}

static void
test_wipe_clears_all(void **state)
{
    char data[] = KEY;
    static const char zeros[sizeof(data)];

    (void)state;
    secret_wipe(data, sizeof(data));
    assert_memory_equal(data, zeros, sizeof(data));
}

/* Finds the flags of the mapping that holds address in /proc/self/smaps. */
static void
read_flags(const void *address, char *flags, size_t size)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    char line[512];
    bool inside = false;

    flags[0] = '\0';
    assert_non_null(smaps);
    while (fgets(line, sizeof(line), smaps) != NULL) {
        unsigned long first;
        unsigned long end;

        if (sscanf(line, "%lx-%lx ", &first, &end) == 2) {
            inside = (uintptr_t)address >= first && (uintptr_t)address < end;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            snprintf(flags, size, "%s", line + 8);
        }
    }
    fclose(smaps);
}

static void
test_new_is_kept_out_of_swap_and_dumps(void **state)
{
    struct secret *s = secret_new(KEY, strlen(KEY));
    char flags[512];

    (void)state;
    read_flags(secret_expose(s), flags, sizeof(flags));
    assert_non_null(strstr(flags, " dd"));
    if (MLOCK_WORKS) {
        assert_non_null(strstr(flags, " lo"));
    }
    secret_free(s);
}

static void
test_free_keeps_the_other_locked(void **state)
{
    struct secret *first = secret_new(KEY, strlen(KEY));
    struct secret *second = secret_new(KEY, strlen(KEY));
    char flags[512];

    (void)state;
    secret_free(first);
    read_flags(secret_expose(second), flags, sizeof(flags));
    assert_non_null(strstr(flags, " dd"));
    if (MLOCK_WORKS) {
        assert_non_null(strstr(flags, " lo"));
    }
    secret_free(second);
}

static void
test_free_leaves_nothing_mapped(void **state)
{
    struct secret *s = secret_new(KEY, strlen(KEY));
    uintptr_t page =
        (uintptr_t)secret_expose(s) & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    unsigned char in_core;

    (void)state;
    secret_free(s);
    assert_int_equal(mincore((void *)page, 1, &in_core), -1);
    assert_int_equal(errno, ENOMEM);
}

static void
test_new_without_lockable_memory(void **state)
{
    struct rlimit saved;
    struct rlimit none = {0, 0};
    struct secret *s;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &saved), 0);
    none.rlim_max = saved.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    s = secret_new(KEY, strlen(KEY));
    assert_string_equal(secret_expose(s), KEY);
    secret_free(s);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &saved), 0);
}

static void
test_take_env_overwrites_every_copy(void **state)
{
    char first[] = "T_KEY=" KEY;
    char longer[] = "T_KEY_2=stays";
    char second[] = "T_KEY=second";
    char *vars[] = {first, longer, second, NULL};
    char **saved = environ;
    static const char zeros[sizeof(first)];
    struct secret *s;

    (void)state;
    environ = vars;
    s = secret_take_env("T_KEY");
    assert_null(getenv("T_KEY"));
    assert_string_equal(getenv("T_KEY_2"), "stays");
    environ = saved;
    assert_string_equal(secret_expose(s), KEY);
    assert_memory_equal(first + 6, zeros, strlen(KEY));
    assert_memory_equal(second + 6, zeros, strlen("second"));
    secret_free(s);
}

static void
test_take_env_unset_or_empty(void **state)
{
    (void)state;
    unsetenv("T_KEY");
    assert_null(secret_take_env("T_KEY"));
    setenv("T_KEY", "", 1);
    assert_null(secret_take_env("T_KEY"));
    assert_null(getenv("T_KEY"));
}

/* Logs text, and returns all that the log holds by then. */
static char *
log_and_read(const char *path, const char *text)
{
    struct error err = {0};
    struct sbuf sb;

    assert_int_equal(log_open(path, LOG_LEVEL_DBG, &err), 0);
    LOG_INFO("the key is %s.", text);
    log_close();
    sbuf_init(&sb, 65536);
    assert_int_equal(io_read_file(path, &sb, &err), 0);
    assert_int_equal(unlink(path), 0);
    return sbuf_take(&sb);
}

static void
test_log_never_holds_a_secret(void **state)
{
    char path[] = "/tmp/test-secret-XXXXXX";
    int fd = mkstemp(path);
    struct secret *s = secret_new(KEY, strlen(KEY));
    struct secret *copy = secret_new(KEY, strlen(KEY));
    struct secret *small = secret_new("the", 3);
    char *text;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    text = log_and_read(path, KEY);
    assert_null(strstr(text, KEY));
    assert_non_null(strstr(text, "the key is"));
    free(text);

    secret_free(s);
    text = log_and_read(path, KEY);
    assert_null(strstr(text, KEY)); /* the copy still lives */
    free(text);

    secret_free(copy);
    text = log_and_read(path, KEY);
    assert_non_null(strstr(text, KEY));
    free(text);
    secret_free(small);
}

/* A header's value that is a word and a secret. */
static void
test_log_never_holds_a_secret_without_its_word(void **state)
{
    struct secret *s = secret_new("Bearer " KEY, strlen("Bearer " KEY));
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, 256);
    log_add_hidden(&sb, KEY, strlen(KEY));
    assert_null(strstr(sb.data, KEY));
    sbuf_clear(&sb);
    secret_free(s);
    log_add_hidden(&sb, KEY, strlen(KEY));
    assert_string_equal(sb.data, KEY);
    sbuf_fini(&sb);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_holds_a_copy),
        cmocka_unit_test(test_wipe_clears_all),
        cmocka_unit_test(test_new_is_kept_out_of_swap_and_dumps),
        cmocka_unit_test(test_free_keeps_the_other_locked),
        cmocka_unit_test(test_free_leaves_nothing_mapped),
        cmocka_unit_test(test_new_without_lockable_memory),
        cmocka_unit_test(test_take_env_overwrites_every_copy),
        cmocka_unit_test(test_take_env_unset_or_empty),
        cmocka_unit_test(test_log_never_holds_a_secret),
        cmocka_unit_test(test_log_never_holds_a_secret_without_its_word),
    };

    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
