/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/blob.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "store/session.h"

struct fixture {
    char *dir;
    struct session *s;
};

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err = {0};

    f->dir = xstrdup("/tmp/test_blob.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->s = session_new(f->dir, &err);
    assert_non_null(f->s);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    session_free(f->s);
    assert_int_equal(io_remove_tree(f->dir, NULL), 0);
    free(f->dir);
    free(f);
    return 0;
}

/* Stores text and checks what is on the disk; the base of the name is owned by
   the caller. */
static char *
put(struct fixture *f, const char *text, const char *name)
{
    struct blob blob = {0};
    struct error err = {0};
    AUTO_SBUF struct sbuf sb = {0};
    char hash[HASH_HEX_BYTES];
    struct stat st;
    char *base = NULL;

    if (blob_put(f->s, text, strlen(text), name, &blob, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    hash_hex(text, strlen(text), hash);
    assert_string_equal(blob.hash, hash);
    assert_true(str_starts(blob.path, session_path(f->s)));
    sbuf_init(&sb, 1000);
    assert_int_equal(io_read_file(blob.path, &sb, &err), 0);
    assert_string_equal(sb.data, text);
    assert_int_equal(lstat(blob.path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    base = xstrdup(paths_base(blob.path));
    blob_fini(&blob);
    blob_fini(&blob);
    return base;
}

struct name_case {
    const char *text;
    const char *name;
    const char *expect;
};

/* In this order, in one session. */
static const struct name_case name_cases[] = {
    {"one", "chart.png", "chart.png"},
    {"one", "chart.png", "chart.png"},
    {"two", "chart.png", "chart-2.png"},
    {"three", "chart.png", "chart-3.png"},
    {"two", "chart.png", "chart-2.png"},
    {"two", "other.png", "other.png"},
    {"a", "plain", "plain"},
    {"b", "plain", "plain-2"},
    {"a", "x.tar.gz", "x.tar.gz"},
    {"b", "x.tar.gz", "x.tar-2.gz"},
    {"", "empty", "empty"},
};

static void
test_put_names_and_contents(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(name_cases); i++) {
        const struct name_case *t = &name_cases[i];
        AUTO_FREE char *base = put(*state, t->text, t->name);

        if (!str_eq(base, t->expect))
            fail_msg("%zu: %s", i, base);
    }
}

static void
test_put_keeps_the_session(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *path = xstrdup(session_path(f->s));
    struct error err = {0};

    free(put(f, "x", "x"));
    session_free(f->s);
    assert_int_equal(access(path, F_OK), 0);
    f->s = session_new(f->dir, &err);
    assert_non_null(f->s);
}

static void
test_put_refuses_names(void **state)
{
    static const char *const names[] = {
        "",        ".",   "..",   ".hidden",      "-rf",     "a/b",
        "../../x", "a b", "a\nb", "\xC3\xA9.png", "a\x1B[m", "a;b",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < LEN(names); i++) {
        struct blob blob = {0};
        struct error err = {0};

        if (blob_put(f->s, "x", 1, names[i], &blob, &err) != -1)
            fail_msg("%s", names[i]);
        assert_int_equal(err.code, ERR_IO);
        assert_null(blob.path);
    }
}

static void
test_put_fd_copies_all_of_it(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *data = xmalloc(200000);
    struct blob blob = {0};
    struct error err = {0};
    AUTO_CLOSE int fd = -1;
    struct stat st;

    memset(data, 'x', 200000);
    fd = io_memfd("data", data, 200000, &err);
    assert_true(fd >= 0);
    assert_int_equal(blob_put_fd(f->s, fd, "big.bin", &blob, &err), 0);
    assert_int_equal(stat(blob.path, &st), 0);
    assert_int_equal(st.st_size, 200000);
    blob_fini(&blob);
}

static void
test_put_where_nothing_can_be_written(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *blobs = paths_join(session_path(f->s), "blobs");
    AUTO_FREE char *files = paths_join(session_path(f->s), "files");
    struct blob blob = {0};
    struct error err = {0};

    /* A file stands where a directory belongs. */
    assert_int_equal(io_replace(files, "", 0, 0600, NULL), 0);
    assert_int_equal(blob_put(f->s, "x", 1, "x", &blob, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_null(blob.path);
    assert_int_equal(io_remove_tree(blobs, NULL), 0);
    assert_int_equal(io_replace(blobs, "", 0, 0600, NULL), 0);
    memset(&err, 0, sizeof(err));
    assert_int_equal(blob_put(f->s, "x", 1, "x", &blob, &err), -1);
    assert_int_equal(err.code, ERR_IO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_names_and_contents, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_put_keeps_the_session, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_put_refuses_names, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_put_fd_copies_all_of_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_put_where_nothing_can_be_written,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests_name("blob", tests, NULL, NULL);
}
