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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/sbuf.h"

#define LOG_MODULE "test"
#define MAX_LOG_BYTES (1024 * 1024)

/* The name of a file in a fresh directory. */
struct scene {
    char dir[64];
    char *path;
};

static int
setup(void **state)
{
    struct scene *s = xcalloc(1, sizeof(*s));

    snprintf(s->dir, sizeof(s->dir), "/tmp/test_log-XXXXXX");
    if (!mkdtemp(s->dir)) {
        return -1;
    }
    s->path = xasprintf("%s/log", s->dir);
    *state = s;
    return 0;
}

static int
teardown(void **state)
{
    struct scene *s = *state;
    int rc;

    log_close();
    rc = io_remove_tree(s->dir, NULL);
    free(s->path);
    free(s);
    return rc;
}

static void
read_log(const struct scene *s, struct sbuf *sb)
{
    sbuf_init(sb, MAX_LOG_BYTES);
    assert_int_equal(io_read_file(s->path, sb, NULL), 0);
}

/* What is behind the time of the only line, without the newline. */
static char *
take_line(const struct scene *s)
{
    AUTO_SBUF struct sbuf sb = {0};
    const char *space;

    read_log(s, &sb);
    assert_true(sb.len > 0);
    assert_ptr_equal(strchr(sb.data, '\n'), sb.data + sb.len - 1);
    space = strchr(sb.data, ' ');
    assert_non_null(space);
    assert_int_equal(truncate(s->path, 0), 0);
    return xstrndup(space + 1, sb.len - 2 - (size_t)(space - sb.data));
}

static void
open_log(const struct scene *s, enum log_level level)
{
    assert_int_equal(log_open(s->path, level, NULL), 0);
}

static void
test_nothing_without_open(void **state)
{
    struct scene *s = *state;

    LOG_ERR("nobody hears this");
    assert_int_equal(access(s->path, F_OK), -1);
    open_log(s, LOG_LEVEL_DBG);
    log_close();
    log_close();
    LOG_ERR("nor this");
    {
        AUTO_SBUF struct sbuf sb = {0};

        read_log(s, &sb);
        assert_string_equal(sb.data, "");
    }
}

static void
test_line_has_time_level_module(void **state)
{
    struct scene *s = *state;
    AUTO_SBUF struct sbuf sb = {0};
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ warning test: n = 5\n";

    open_log(s, LOG_LEVEL_DBG);
    LOG_WARN("n = %d", 5);
    read_log(s, &sb);
    assert_int_equal(sb.len, strlen(form));
    for (size_t i = 0; i < sb.len; i++) {
        if (i < 24 && form[i] == 'd') {
            assert_in_range(sb.data[i], '0', '9');
        } else {
            assert_int_equal(sb.data[i], form[i]);
        }
    }
}

static void
test_level_drops_the_rest(void **state)
{
    struct scene *s = *state;
    AUTO_SBUF struct sbuf sb = {0};

    open_log(s, LOG_LEVEL_WARN);
    LOG_ERR("one");
    LOG_WARN("two");
    LOG_INFO("three");
    LOG_DBG("four");
    read_log(s, &sb);
    assert_non_null(strstr(sb.data, "error test: one\n"));
    assert_non_null(strstr(sb.data, "warning test: two\n"));
    assert_null(strstr(sb.data, "three"));
    assert_null(strstr(sb.data, "four"));
}

static void
test_file_is_private_and_appended(void **state)
{
    struct scene *s = *state;
    AUTO_SBUF struct sbuf sb = {0};
    struct stat st;
    int fd = open(s->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_int_equal(write(fd, "before\n", 7), 7);
    close(fd);
    open_log(s, LOG_LEVEL_INFO);
    LOG_INFO("x");
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    read_log(s, &sb);
    assert_memory_equal(sb.data, "before\n", 7);
    assert_non_null(strstr(sb.data, "info test: x\n"));
}

static void
test_open_refuses_and_keeps_the_old(void **state)
{
    struct scene *s = *state;
    AUTO_FREE char *missing = xasprintf("%s/no/log", s->dir);
    AUTO_FREE char *fifo = xasprintf("%s/fifo", s->dir);
    AUTO_FREE char *line = NULL;
    const char *const paths[] = {missing, fifo, "/dev/null", s->dir};

    assert_int_equal(mkfifo(fifo, 0600), 0);
    open_log(s, LOG_LEVEL_INFO);
    for (size_t i = 0; i < LEN(paths); i++) {
        struct error err = {0};

        assert_int_equal(log_open(paths[i], LOG_LEVEL_INFO, &err), -1);
        assert_int_equal(err.code, ERR_IO);
        assert_non_null(strstr(err.msg, paths[i]));
    }
    LOG_INFO("still");
    line = take_line(s);
    assert_string_equal(line, "info test: still");
}

static void
test_escapes_table(void **state)
{
    static const struct {
        const char *text;
        const char *expect;
    } cases[] = {
        {"plain text", "plain text"},
        {"two\nlines\r", "two\\nlines\\x0d"},
        {"\x1b[31mred\x07", "\\x1b[31mred\\x07"},
        {"\t\x7f", "\\x09\\x7f"},
        {"back\\slash", "back\\\\slash"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},
        {"\x9b"
         "31m",
         "\\x9b31m"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac"},
        {"cut \xe2\x82", "cut \\xe2\\x82"},
        {"", ""},
    };
    struct scene *s = *state;

    open_log(s, LOG_LEVEL_INFO);
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_FREE char *line = NULL;

        LOG_INFO("%s", cases[i].text);
        line = take_line(s);
        assert_memory_equal(line, "info test: ", 11);
        assert_string_equal(line + 11, cases[i].expect);
    }
}

static void
test_hidden_texts(void **state)
{
    static const struct {
        const char *text;
        const char *expect;
    } cases[] = {
        {"key sk-abc!", "key [hidden]!"},
        {"sk-abcsk-abc", "[hidden][hidden]"},
        {"sk-abcdef", "[hidden]"},
        {"sk-abcde", "[hidden]de"},
        {"sk-ab", "sk-ab"},
        /* escaping would have changed it */
        {"x a\nb\xff y", "x [hidden] y"},
    };
    struct scene *s = *state;

    open_log(s, LOG_LEVEL_INFO);
    log_hide("sk-abc");
    log_hide("sk-abcdef");
    log_hide("a\nb\xff");
    log_hide("");
    log_hide(NULL);
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_FREE char *line = NULL;

        LOG_INFO("%s", cases[i].text);
        line = take_line(s);
        assert_string_equal(line + 11, cases[i].expect);
    }
    log_unhide("sk-abc");
    log_unhide("sk-abcdef");
    log_unhide("a\nb\xff");
}

static void
test_unhide_needs_as_many_calls(void **state)
{
    static const char *const expect[] = {
        "info test: [hidden]", "info test: [hidden]", "info test: secret"};
    struct scene *s = *state;

    open_log(s, LOG_LEVEL_INFO);
    log_hide("secret");
    log_hide("secret");
    for (size_t i = 0; i < 3; i++) {
        AUTO_FREE char *line = NULL;

        LOG_INFO("secret");
        line = take_line(s);
        assert_string_equal(line, expect[i]);
        log_unhide("secret");
    }
    log_unhide("never hidden");
    log_unhide(NULL);
}

/* A secret that lies across the place of the cut must not show its first
   half. */
static void
test_long_line_is_cut_behind_hiding(void **state)
{
    struct scene *s = *state;
    AUTO_FREE char *text = xmalloc(20001);

    open_log(s, LOG_LEVEL_INFO);
    log_hide("SECRET");
    for (size_t shift = 0; shift < 6; shift++) {
        AUTO_FREE char *line = NULL;
        size_t len;

        memset(text, '.', shift);
        for (size_t i = shift; i + 6 <= 20000; i += 6) {
            memcpy(text + i, "SECRET", 6);
        }
        memset(text + 19990, '.', 10);
        text[20000] = '\0';
        LOG_INFO("%s", text);
        line = take_line(s);
        len = strlen(line);
        assert_true(len < 8300);
        assert_string_equal(line + len - 5, "[cut]");
        assert_null(strchr(line, 'S'));
    }
    log_unhide("SECRET");
}

static void
test_errno_is_kept(void **state)
{
    struct scene *s = *state;

    open_log(s, LOG_LEVEL_INFO);
    errno = ENOENT;
    LOG_INFO("n is %d", 5);
    assert_int_equal(errno, ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_without_open),
        TEST(test_line_has_time_level_module),
        TEST(test_level_drops_the_rest),
        TEST(test_file_is_private_and_appended),
        TEST(test_open_refuses_and_keeps_the_old),
        TEST(test_escapes_table),
        TEST(test_hidden_texts),
        TEST(test_unhide_needs_as_many_calls),
        TEST(test_long_line_is_cut_behind_hiding),
        TEST(test_errno_is_kept),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
