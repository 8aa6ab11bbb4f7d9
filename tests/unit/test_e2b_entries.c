/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "sandbox/e2b_entries_internal.h"

#define LIST(entries) "{\"entries\":[" entries "]}"
#define PATH(path) "{\"path\":\"" path "\",\"type\":\"FILE_TYPE_FILE\"}"
#define FILE_WITH(more)                                                        \
    "{\"path\":\"/d/a\",\"type\":\"FILE_TYPE_FILE\"," more "}"

static int
read_list(const char *text, const char *dir, int depth, size_t max,
          struct e2b_entries *out, struct error *err)
{
    return e2b_entries_read_list(text, strlen(text), dir, depth, max, out, err);
}

/* --- which are taken --- */

struct list_case {
    const char *text;
    const char *dir;
    int depth;
    const char *expect; /* the paths, each with "|" behind it; NULL: refused */
};

static const struct list_case list_cases[] = {
    {"{}", "/d", 1, ""},
    {" { \"entries\" : [ ] , \"x\" : { \"entries\" : [1] } } \n", "/d", 1, ""},
    {"{\"entries\": null }", "/d", 1, ""},
    {LIST(PATH("/d/a") " , \n" PATH("/d/b")), "/d", 1, "/d/a|/d/b|"},
    {"{\"x\":[\"]}\\\"\",{}],\"entries\":[" PATH("/d/a") "],\"y\":-1}", "/d", 1,
     "/d/a|"},
    /* Places. */
    {LIST(PATH("/e/a") "," PATH("/da") "," PATH("/d") "," PATH("/d/")), "/d", 9,
     ""},
    {LIST(PATH("d/a") "," PATH("") "," PATH("/d/../e") "," PATH("/d/./a")),
     "/d", 9, ""},
    {LIST(PATH("/d//a")), "/d", 9, ""},
    {LIST(PATH("/d/a/b") "," PATH("/d/a")), "/d", 1, "/d/a|"},
    {LIST(PATH("/d/a/b") "," PATH("/d/a/b/c")), "/d", 2, "/d/a/b|"},
    {LIST(PATH("/d/...") "," PATH("/d/..a") "," PATH("/d/.a")), "/d", 1,
     "/d/...|/d/..a|/d/.a|"},
    {LIST(PATH("/a") "," PATH("/") "," PATH("//a")), "/", 1, "/a|"},
    {LIST(PATH("/a/b")), "/", 1, ""},
    /* Names. */
    {LIST(PATH("/d/a\\nb")), "/d", 1, "/d/a\nb|"},
    {LIST(PATH("/d/a\\u0000b") "," PATH("/d/c")), "/d", 1, "/d/c|"},
    {LIST(PATH("/d/\xc3\xa4 \\u00e4")), "/d", 1, "/d/\xc3\xa4 \xc3\xa4|"},
    {LIST("{\"type\":\"FILE_TYPE_FILE\"}," PATH("/d/c")), "/d", 1, "/d/c|"},
    {LIST("{\"path\":1}," PATH("/d/c")), "/d", 1, "/d/c|"},
    /* Sizes that are none. */
    {LIST(FILE_WITH("\"size\":\"-1\"")), "/d", 1, ""},
    {LIST(FILE_WITH("\"size\":\"9223372036854775808\"")), "/d", 1, ""},
    {LIST(FILE_WITH("\"size\":\"1x\"")), "/d", 1, ""},
    {LIST(FILE_WITH("\"size\":1.5")), "/d", 1, ""},
    {LIST(FILE_WITH("\"size\":[]")), "/d", 1, ""},
    {LIST(FILE_WITH("\"size\":\"\"")), "/d", 1, ""},
    /* No answers. */
    {"", "/d", 1, NULL},
    {"[]", "/d", 1, NULL},
    {"null", "/d", 1, NULL},
    {"<html>", "/d", 1, NULL},
    {"{", "/d", 1, NULL},
    {"{\"entries\"", "/d", 1, NULL},
    {"{\"entries\":", "/d", 1, NULL},
    {"{\"entries\":[", "/d", 1, NULL},
    {"{\"entries\":[]", "/d", 1, NULL},
    {"{\"entries\":[,]}", "/d", 1, NULL},
    {"{\"entries\":[" PATH("/d/a"), "/d", 1, NULL},
    {"{\"entries\":[" PATH("/d/a") "}", "/d", 1, NULL},
    {"{\"entries\":[" PATH("/d/a") "]", "/d", 1, NULL},
    {"{\"entries\":[" PATH("/d/a") PATH("/d/b") "]}", "/d", 1, NULL},
    {"{\"entries\":[" PATH("/d/a") ",]}", "/d", 1, NULL},
    {"{\"entries\":[{\"path\":\"/d/a\"]}", "/d", 1, NULL},
    {"{\"entries\":[{\"path\":\"/d/a\\", "/d", 1, NULL},
    {"{\"entries\":[{\"path\":\"/d/a}]}", "/d", 1, NULL},
    {"{\"entries\":[\"/d/a\"]}", "/d", 1, NULL},
    {"{\"entries\":{}}", "/d", 1, NULL},
    {"{\"entries\":\"/d/a\"}", "/d", 1, NULL},
    {"{entries:[]}", "/d", 1, NULL},
    {"{} {}", "/d", 1, NULL},
};

static void
test_list_entries(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(list_cases); i++) {
        const struct list_case *c = &list_cases[i];
        AUTO_SBUF struct sbuf paths = {0};
        struct e2b_entries e = {0};
        struct error err = {0};
        int rc = read_list(c->text, c->dir, c->depth, 10, &e, &err);

        sbuf_init(&paths, 1000);
        for (size_t k = 0; k < e.n; k++) {
            sbuf_addf(&paths, "%s|", e.items[k].path);
        }
        if ((rc < 0) != (c->expect == NULL) ||
            (rc < 0 && err.code != ERR_PROTOCOL) ||
            (rc == 0 && strcmp(paths.data, c->expect) != 0) || e.more) {
            fail_msg("row %zu: %s: %s, %s", i, c->text, paths.data, err.msg);
        }
        e2b_entries_fini(&e);
    }
}

/* --- what is said of one --- */

struct entry_case {
    const char *more;
    enum e2b_entry_type expect_type;
    bool expect_link;
    uint64_t expect_bytes;
    int64_t expect_ns;
};

#define SECOND 1788249611LL /* 2026-09-01T08:00:11Z */
#define TIME(text) "\"modifiedTime\":\"" text "\""

static const struct entry_case entry_cases[] = {
    {"\"type\":\"FILE_TYPE_FILE\"", E2B_ENTRY_FILE, false, 0, 0},
    {"\"type\":\"FILE_TYPE_DIRECTORY\",\"size\":\"4096\"", E2B_ENTRY_DIRECTORY,
     false, 4096, 0},
    {"\"size\":\"9223372036854775807\"", E2B_ENTRY_OTHER, false, INT64_MAX, 0},
    {"\"size\":\"9007199254740993\"", E2B_ENTRY_OTHER, false, 9007199254740993,
     0},
    {"\"size\":18231", E2B_ENTRY_OTHER, false, 18231, 0},
    {"\"size\":null", E2B_ENTRY_OTHER, false, 0, 0},
    {"\"permissions\":\"prw-r--r--\"", E2B_ENTRY_FIFO, false, 0, 0},
    {"\"permissions\":\"Srwxr-xr-x\"", E2B_ENTRY_SOCKET, false, 0, 0},
    {"\"permissions\":\"Dcrw-rw-rw-\"", E2B_ENTRY_DEVICE, false, 0, 0},
    {"\"permissions\":\"Drw-rw----\"", E2B_ENTRY_DEVICE, false, 0, 0},
    {"\"permissions\":\"\"", E2B_ENTRY_OTHER, false, 0, 0},
    {"\"type\":\"FILE_TYPE_FILE\",\"permissions\":\"prw-r--r--\"",
     E2B_ENTRY_FILE, false, 0, 0},
    {"\"type\":7", E2B_ENTRY_OTHER, false, 0, 0},
    /* Links. */
    {"\"type\":\"FILE_TYPE_FILE\",\"isSymlink\":true", E2B_ENTRY_FILE, true, 0,
     0},
    {"\"type\":\"FILE_TYPE_FILE\",\"symlinkTarget\":\"/etc\"", E2B_ENTRY_FILE,
     true, 0, 0},
    {"\"symlinkTarget\":\"/d/a\"", E2B_ENTRY_OTHER, true, 0, 0},
    {"\"symlinkTarget\":\"\"", E2B_ENTRY_OTHER, true, 0, 0},
    {"\"type\":\"FILE_TYPE_SYMLINK\"", E2B_ENTRY_OTHER, true, 0, 0},
    {"\"isSymlink\":\"yes\"", E2B_ENTRY_OTHER, true, 0, 0},
    {"\"type\":\"FILE_TYPE_FILE\",\"isSymlink\":false,\"symlinkTarget\":null",
     E2B_ENTRY_FILE, false, 0, 0},
    /* Times. */
    {TIME("2026-09-01T08:00:11Z"), 0, false, 0, SECOND * 1000000000},
    {TIME("2026-09-01T08:00:11.5Z"), 0, false, 0,
     SECOND * 1000000000 + 500000000},
    {TIME("2026-09-01T08:00:11.123456789Z"), 0, false, 0,
     SECOND * 1000000000 + 123456789},
    {TIME("2026-09-01T08:00:11.1234567899Z"), 0, false, 0,
     SECOND * 1000000000 + 123456789},
    {TIME("2026-09-01T10:30:11+02:30"), 0, false, 0, SECOND * 1000000000},
    {TIME("2026-09-01T07:00:11-01:00"), 0, false, 0, SECOND * 1000000000},
    {TIME("0001-01-01T00:00:00Z"), 0, false, 0, 0},
    {TIME("9999-01-01T00:00:00Z"), 0, false, 0, 0},
    {TIME("2026-09-01 08:00:11Z"), 0, false, 0, 0},
    {TIME("2026-13-01T08:00:11Z"), 0, false, 0, 0},
    {TIME("2026-09-01T08:00:11"), 0, false, 0, 0},
    {TIME("2026-09-01T08:00:11Zx"), 0, false, 0, 0},
    {"\"modifiedTime\":1", 0, false, 0, 0},
    {"\"metadata\":{\"path\":\"/x\",\"isSymlink\":\"x\"},\"mode\":420", 0,
     false, 0, 0},
};

static void
test_one_entry(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(entry_cases); i++) {
        const struct entry_case *c = &entry_cases[i];
        AUTO_SBUF struct sbuf text = {0};
        struct e2b_entries e = {0};
        struct error err = {0};
        const struct e2b_entry *got;

        sbuf_init(&text, 1000);
        sbuf_addf(&text, "{\"entry\":{\"path\":\"/d/a\",%s}}", c->more);
        if (e2b_entries_read_one(text.data, text.len, "/d/a", &e, &err) < 0) {
            fail_msg("%s: %s", c->more, err.msg);
        }
        assert_int_equal(e.n, 1);
        got = &e.items[0];
        if (strcmp(got->path, "/d/a") != 0 || got->type != c->expect_type ||
            got->is_link != c->expect_link ||
            got->size_bytes != c->expect_bytes ||
            got->mtime_ns != c->expect_ns) {
            fail_msg("%s: type %d, link %d, %llu bytes, %lld ns", c->more,
                     (int)got->type, (int)got->is_link,
                     (unsigned long long)got->size_bytes,
                     (long long)got->mtime_ns);
        }
        e2b_entries_fini(&e);
    }
}

static void
test_one_entry_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"entry\":null}",
        "{\"entry\":[]}",
        "{\"entry\":{}}",
        "{\"entry\":{\"path\":\"/d/b\"}}",
        "{\"entry\":{\"path\":\"/d/a/\"}}",
        "{\"entry\":{\"path\":\"/d/a\",\"size\":\"x\"}}",
    };

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        struct e2b_entries e = {0};
        struct error err = {0};

        assert_int_equal(
            e2b_entries_read_one(texts[i], strlen(texts[i]), "/d/a", &e, &err),
            -1);
        assert_int_equal(err.code, ERR_PROTOCOL);
        assert_int_equal(e.n, 0);
    }
}

/* --- long ones --- */

/* More than a JSON tree may have values; those that do not count do not fill
   the list. */
static void
test_long_lists(void **state)
{
    AUTO_SBUF struct sbuf text = {0};
    struct e2b_entries e = {0};
    struct error err = {0};

    (void)state;
    sbuf_init(&text, (size_t)16 << 20);
    sbuf_add_str(&text, "{\"entries\":[");
    for (int i = 0; i < 60000; i++) {
        sbuf_addf(&text, "%s{\"name\":\"%d\",\"path\":\"%s/%d\"}",
                  i > 0 ? "," : "", i, i % 2 == 0 ? "/d" : "/e", i);
    }
    sbuf_add_str(&text, "]}");
    assert_true(sbuf_ok(&text));
    assert_int_equal(e2b_entries_read_list(text.data, text.len, "/d", 1,
                                           E2B_MAX_ENTRIES, &e, &err),
                     0);
    assert_int_equal(e.n, E2B_MAX_ENTRIES);
    assert_true(e.more);
    assert_string_equal(e.items[999].path, "/d/1998");
    e2b_entries_fini(&e);
    assert_int_equal(
        e2b_entries_read_list(text.data, text.len, "/d", 1, 30000, &e, &err),
        0);
    assert_int_equal(e.n, 30000);
    assert_false(e.more);
    e2b_entries_fini(&e);
}

static void
test_long_paths(void **state)
{
    char path[E2B_MAX_PATH_BYTES + 2];

    (void)state;
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[E2B_MAX_PATH_BYTES + 1] = '\0';
    assert_false(e2b_is_path(path));
    path[E2B_MAX_PATH_BYTES] = '\0';
    assert_true(e2b_is_path(path));
    assert_true(e2b_is_path("/"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_entries),
        cmocka_unit_test(test_one_entry),
        cmocka_unit_test(test_one_entry_refused),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_long_paths),
    };

    return cmocka_run_group_tests_name("e2b_entries", tests, NULL, NULL);
}
