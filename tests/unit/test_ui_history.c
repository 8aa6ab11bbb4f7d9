/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <readline/history.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"

#define MAX_FILE_BYTES (4u << 20)

struct scene {
    char dir[64];
    char *path;
};

static int
setup(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return -1;
    snprintf(s->dir, sizeof(s->dir), "/tmp/history-XXXXXX");
    if (mkdtemp(s->dir) == NULL)
        return -1;
    s->path = xasprintf("%s/deep/er/history", s->dir);
    *state = s;
    return 0;
}

static int
teardown(void **state)
{
    struct scene *s = *state;
    struct error err = {0};
    int rc = io_remove_tree(s->dir, &err);

    clear_history();
    free(s->path);
    free(s);
    return rc;
}

static void
append(struct scene *s, const char *line)
{
    struct error err = {0};

    assert_int_equal(history_append(s->path, line, &err), 0);
}

static void
load(struct scene *s)
{
    struct error err = {0};

    clear_history();
    assert_int_equal(history_load(s->path, &err), 0);
}

static const char *
entry(int n)
{
    const HIST_ENTRY *e = history_get(history_base + n);

    return e != NULL ? e->line : NULL;
}

static void
write_file(struct scene *s, const char *data, size_t len)
{
    AUTO_FREE char *dir = xasprintf("%s/deep/er", s->dir);

    assert_int_equal(io_make_dirs(dir, NULL), 0);
    assert_int_equal(io_replace(s->path, data, len, 0644, NULL), 0);
}

static void
expect_file(struct scene *s, const char *expect)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_FILE_BYTES);
    assert_int_equal(io_read_file(s->path, &text, NULL), 0);
    assert_string_equal(text.data, expect);
}

static void
test_history_load_missing(void **state)
{
    struct scene *s = *state;

    load(s);
    assert_int_equal(history_length, 0);
}

static void
test_history_append_what_is_kept(void **state)
{
    static const struct {
        const char *line;
        bool expect_kept;
    } table[] = {
        {"one", true},    {"one", false}, {" secret", false}, {"", false},
        {" \t\n", false}, {"two", true},  {"one", true},      {"\tx", true},
    };
    struct scene *s = *state;
    int n = 0;

    for (size_t i = 0; i < LEN(table); i++) {
        append(s, table[i].line);
        n += table[i].expect_kept;
        assert_int_equal(history_length, n);
    }
    expect_file(s, "one\ntwo\none\n\tx\n");
}

static void
test_history_append_reads_back(void **state)
{
    static const char *const lines[] = {"plain", "several\nrows\n",
                                        "back\\slash \\n \\\\", "z\xC3\xBCrich",
                                        "trailing\\"};
    struct scene *s = *state;

    for (size_t i = 0; i < LEN(lines); i++)
        append(s, lines[i]);
    load(s);
    assert_int_equal(history_length, LEN(lines));
    for (size_t i = 0; i < LEN(lines); i++)
        assert_string_equal(entry((int)i), lines[i]);
}

static void
test_history_append_mode(void **state)
{
    struct scene *s = *state;
    struct stat st;

    write_file(s, "old\n", 4);
    append(s, "new");
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    expect_file(s, "old\nnew\n");
}

static void
test_history_append_no_file(void **state)
{
    struct scene *s = *state;
    struct error err = {0};

    assert_int_equal(history_append(s->dir, "line", &err), -1);
    assert_int_equal(err.code, ERR_IO);
    /* In the list it is all the same. */
    assert_string_equal(entry(0), "line");
}

static void
test_history_append_long_line(void **state)
{
    struct scene *s = *state;
    AUTO_FREE char *line = xmalloc(100001);

    memset(line, 'x', 100000);
    line[100000] = '\0';
    append(s, "short");
    append(s, line);
    expect_file(s, "short\n");
    assert_string_equal(entry(1), line);
}

static void
test_history_load_hostile(void **state)
{
    static const char text[] = "a\xFF"
                               "b\n\n c\n\xC2\x9B"
                               "d\xE2\x80\xAE"
                               "e\nx\0y\ncut\nlast";
    struct scene *s = *state;

    write_file(s, text, sizeof(text) - 1);
    load(s);
    assert_int_equal(history_length, 5);
    assert_string_equal(entry(0), "ab");
    assert_string_equal(entry(1), "de");
    assert_string_equal(entry(2), "xy");
    assert_string_equal(entry(4), "last");
}

static void
test_history_load_directory(void **state)
{
    struct scene *s = *state;
    struct error err = {0};

    assert_int_equal(history_load(s->dir, &err), -1);
    assert_int_equal(err.code, ERR_IO);
}

static void
test_history_load_cuts(void **state)
{
    struct scene *s = *state;
    AUTO_SBUF struct sbuf text = {0};
    AUTO_FREE char *last = NULL;

    sbuf_init(&text, MAX_FILE_BYTES);
    for (int i = 0; i < HISTORY_MAX_LINES * 2; i++)
        sbuf_addf(&text, "line %d\n", i);
    write_file(s, text.data, text.len);
    load(s);
    assert_int_equal(history_length, HISTORY_MAX_LINES);
    last = xasprintf("line %d", HISTORY_MAX_LINES * 2 - 1);
    assert_string_equal(entry(HISTORY_MAX_LINES - 1), last);
    expect_file(s, strstr(text.data, "line 2000\n"));
    /* The list itself is no longer either. */
    append(s, "one more");
    assert_int_equal(history_length, HISTORY_MAX_LINES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_history_load_missing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_append_what_is_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_append_reads_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_append_mode, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_append_no_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_append_long_line, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_load_hostile, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_load_directory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_history_load_cuts, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("ui/history", tests, NULL, NULL);
}
