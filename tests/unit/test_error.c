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
#include <stdbool.h>
#include <string.h>

#include "base/array.h"

#include "base/error.h"

struct code_case {
    enum error_code code;
    const char *expect_name;
    bool expect_retryable;
    int expect_status;
};

static const struct code_case code_cases[] = {
    {ERR_NONE, "none", false, 0},
    {ERR_USAGE, "usage", false, 2},
    {ERR_CONFIG, "config", false, 3},
    {ERR_IO, "io", false, 5},
    {ERR_NET, "net", true, 5},
    {ERR_TIMEOUT, "timeout", true, 5},
    {ERR_AUTH, "auth", false, 4},
    {ERR_RATE_LIMIT, "rate_limit", true, 6},
    {ERR_OVERLOADED, "overloaded", true, 6},
    {ERR_REMOTE, "remote", false, 5},
    {ERR_PROTOCOL, "protocol", false, 5},
    {ERR_NO_ANSWER, "no_answer", false, 1},
    {ERR_TOO_LARGE, "too_large", false, 8},
    {ERR_UNSUPPORTED, "unsupported", false, 7},
    {ERR_CANCELLED, "cancelled", false, 130},
    {ERR_SANDBOX, "sandbox", false, 7},
    {ERR_LIMIT, "limit", false, 8},
    {ERR_DATA, "data", false, 9},
    {ERR_INTERNAL, "internal", false, 1},
    {(enum error_code)1000, "internal", false, 1},
};

static void
test_codes_table(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < LEN(code_cases); i++) {
        const struct code_case *c = &code_cases[i];

        assert_string_equal(error_code_name(c->code), c->expect_name);
        assert_int_equal(error_is_retryable(c->code), c->expect_retryable);
        assert_int_equal(error_exit_status(c->code), c->expect_status);
    }
}

static void
test_set_gives_minus_one_and_fills(void **unused)
{
    struct error err = {.sys_errno = 5, .http_status = 500};

    (void)unused;
    assert_int_equal(err_set(&err, ERR_DATA, "row %d: %s", 3, "bad"), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_int_equal(err.sys_errno, 0);
    assert_int_equal(err.http_status, 0);
    assert_string_equal(err.msg, "row 3: bad");
}

static void
test_set_errno_keeps_errno(void **unused)
{
    struct error err = {0};

    (void)unused;
    errno = ENOENT;
    assert_int_equal(err_set_errno(&err, ERR_IO, "open %s", "x"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_string_equal(err.msg, "open x: No such file or directory");
}

static void
test_wrap_keeps_code(void **unused)
{
    struct error err = {0};

    (void)unused;
    errno = EACCES;
    (void)err_set_errno(&err, ERR_IO, "a");
    assert_int_equal(err_wrap(&err, "reading %s", "b"), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(err.sys_errno, EACCES);
    assert_string_equal(err.msg, "reading b: a: Permission denied");
}

static void
test_null_is_allowed(void **unused)
{
    (void)unused;
    assert_int_equal(err_set(NULL, ERR_IO, "x"), -1);
    assert_int_equal(err_set_errno(NULL, ERR_IO, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
}

static void
test_set_from_its_own_message(void **unused)
{
    struct error err = {0};

    (void)unused;
    (void)err_set(&err, ERR_IO, "inner");
    (void)err_set(&err, ERR_DATA, "outer of %s", err.msg);
    assert_string_equal(err.msg, "outer of inner");
    (void)err_wrap(&err, "once more %s", err.msg);
    assert_string_equal(err.msg, "once more outer of inner: outer of inner");
}

static void
test_long_message_ends_at_a_character(void **unused)
{
    struct error err = {0};
    char text[2 * ERROR_MSG_BYTES + 1];

    (void)unused;
    /* 511 bytes fit: 255 whole characters of two. */
    for (size_t i = 0; i < sizeof(text) - 1; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    text[sizeof(text) - 1] = '\0';
    (void)err_set(&err, ERR_IO, "%s", text);
    assert_int_equal(strlen(err.msg), 510);
}

static void
test_long_context_keeps_the_reason(void **unused)
{
    struct error err = {0};
    char text[2 * ERROR_MSG_BYTES + 1];
    static const char reason[] = ": No such file or directory";
    size_t len;

    (void)unused;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    errno = ENOENT;
    (void)err_set_errno(&err, ERR_IO, "%s", text);
    len = strlen(err.msg);
    assert_int_equal(len, ERROR_MSG_BYTES - 1);
    assert_string_equal(err.msg + len - strlen(reason), reason);
    (void)err_wrap(&err, "b");
    assert_int_equal(strlen(err.msg), ERROR_MSG_BYTES - 1);
}

/* The place of the cut lies inside a character. */
static void
test_long_context_ends_at_a_character(void **unused)
{
    struct error err = {0};
    char text[2 * ERROR_MSG_BYTES + 1];
    const char *reason;

    (void)unused;
    for (size_t i = 0; i < sizeof(text) - 1; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    text[sizeof(text) - 1] = '\0';
    for (int shift = 0; shift < 2; shift++) {
        errno = ENOENT;
        (void)err_set_errno(&err, ERR_IO, "%s%s", shift ? "x" : "", text);
        reason = strstr(err.msg, ": No such");
        assert_non_null(reason);
        assert_int_equal((reason - err.msg) % 2, shift);
        assert_int_equal((unsigned char)reason[-1], 0xa4);
    }
}

/* What is added gives way, and ends at a character. */
static void
test_append(void **unused)
{
    struct error err = {0};

    (void)unused;
    (void)err_set(&err, ERR_NET, "cut");
    error_append(&err, "; tried %d times", 3);
    assert_int_equal(err.code, ERR_NET);
    assert_string_equal(err.msg, "cut; tried 3 times");
    (void)err_set(&err, ERR_NET, "%*s", ERROR_MSG_BYTES - 3, "x");
    error_append(&err, "\xE2\x82\xAC");
    assert_int_equal(strlen(err.msg), ERROR_MSG_BYTES - 3);
    error_append(&err, "ab");
    error_append(&err, "c");
    assert_int_equal(strlen(err.msg), ERROR_MSG_BYTES - 1);
    assert_int_equal(err.msg[ERROR_MSG_BYTES - 2], 'b');
    error_append(NULL, "x");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_table),
        cmocka_unit_test(test_set_gives_minus_one_and_fills),
        cmocka_unit_test(test_set_errno_keeps_errno),
        cmocka_unit_test(test_wrap_keeps_code),
        cmocka_unit_test(test_null_is_allowed),
        cmocka_unit_test(test_set_from_its_own_message),
        cmocka_unit_test(test_long_message_ends_at_a_character),
        cmocka_unit_test(test_long_context_keeps_the_reason),
        cmocka_unit_test(test_long_context_ends_at_a_character),
        cmocka_unit_test(test_append),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
