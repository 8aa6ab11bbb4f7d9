/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * tests/golden/table/NAME.in is a table as JSON; beside it stands what it looks
 * like on terminals of 40 and 80 columns, and where there is none. ESC is shown
 * as its picture, so that differences can be read.
 *
 * With REGEN_GOLDEN=1 in the environment the files are written anew.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "model/table.h"
#include "render/table_layout.h"

#define MAX_FILE_BYTES (1u << 20)

#define ESC_PICTURE "\xE2\x90\x9B"

struct view {
    const char *suffix;
    struct table_options options;
};

static const struct view views[] = {
    {".40.out",
     {.width = 40, .unicode = true, .sequences = true, .colour = true}},
    {".80.out",
     {.width = 80, .unicode = true, .sequences = true, .colour = true}},
    {".plain.out", {.width = 80, .unicode = true}},
};

static void
read_columns(struct table *t, size_t at, const struct cJSON *list, bool index)
{
    for (const struct cJSON *c = json_first(list); c != NULL;
         c = json_next(c)) {
        t->columns[at].name = xstrdup(json_string(c, "name"));
        t->columns[at].kind = table_kind_from_wire(json_string(c, "kind"));
        t->columns[at].is_index = index;
        at++;
    }
}

static void
read_rows(struct table *t, size_t row, const struct cJSON *list)
{
    for (const struct cJSON *r = json_first(list); r != NULL;
         r = json_next(r)) {
        size_t column = 0;

        assert_int_equal(json_len(r), t->n_columns);
        for (const struct cJSON *c = json_first(r); c != NULL;
             c = json_next(c)) {
            struct table_cell *cell = table_at(t, row, column++);
            AUTO_FREE char *printed = json_print(c);

            if (json_value_string(c) != NULL) {
                cell->text = xstrdup(json_value_string(c));
            } else if (strcmp(printed, "null") != 0) {
                cell->text = xstrdup(printed);
                cell->is_number = true;
            }
        }
        row++;
    }
}

static struct table *
read_table(const struct cJSON *json)
{
    const struct cJSON *index = json_get(json, "index");
    const struct cJSON *columns = json_get(json, "columns");
    const struct cJSON *head = json_get(json, "head");
    const struct cJSON *tail = json_get(json, "tail");
    size_t n_index = index != NULL ? json_len(index) : 0;
    size_t n_tail = tail != NULL ? json_len(tail) : 0;
    struct table *t =
        table_new(n_index + json_len(columns), json_len(head), n_tail);

    t->n_index = n_index;
    t->n_rows_total = json_int(json, "rows", 0);
    t->n_cols_left_out = json_int(json, "left_out", 0);
    t->n_cols_total = (int64_t)json_len(columns) + t->n_cols_left_out;
    t->gap_at = (size_t)json_int(json, "gap_at", (int64_t)t->n_columns);
    read_columns(t, 0, index, true);
    read_columns(t, n_index, columns, false);
    read_rows(t, 0, head);
    if (tail != NULL)
        read_rows(t, t->n_head, tail);
    return t;
}

static void
render(const struct table *t, const struct view *view, const char *address,
       struct sbuf *to)
{
    struct table_options options = view->options;
    struct sbuf sb;

    options.address = address;
    sbuf_init(&sb, MAX_FILE_BYTES);
    table_render(t, &options, &sb);
    assert_true(sbuf_ok(&sb));
    for (size_t i = 0; i < sb.len; i++) {
        if (sb.data[i] == '\033')
            sbuf_add_str(to, ESC_PICTURE);
        else
            sbuf_add_char(to, sb.data[i]);
    }
    sbuf_fini(&sb);
}

static void
check_view(const struct table *t, const char *address, const char *path,
           const struct view *view)
{
    struct error err = {0};
    struct sbuf got;
    struct sbuf expect;
    AUTO_FREE char *name = xasprintf(
        "%.*s%s", (int)(strlen(path) - strlen(".in")), path, view->suffix);

    sbuf_init(&got, MAX_FILE_BYTES);
    sbuf_init(&expect, MAX_FILE_BYTES);
    render(t, view, address, &got);
    if (getenv("REGEN_GOLDEN") != NULL)
        assert_int_equal(io_replace(name, got.data, got.len, 0644, &err), 0);
    if (io_read_file(name, &expect, &err) < 0)
        fail_msg("%s", err.msg);
    if (got.len != expect.len || memcmp(got.data, expect.data, got.len) != 0)
        fail_msg("%s is:\n%s\nnot:\n%s", name, got.data, expect.data);
    sbuf_fini(&got);
    sbuf_fini(&expect);
}

static void
check_file(const char *path)
{
    struct error err = {0};
    struct sbuf text;
    struct cJSON *json;
    struct table *t;

    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_file(path, &text, &err) < 0)
        fail_msg("%s", err.msg);
    json = json_parse(text.data, text.len, 0, &err);
    if (json == NULL)
        fail_msg("%s: %s", path, err.msg);
    t = read_table(json);
    for (size_t i = 0; i < LEN(views); i++)
        check_view(t, json_string(json, "address"), path, &views[i]);
    table_free(t);
    json_free(json);
    sbuf_fini(&text);
}

static void
test_golden_files(void **state)
{
    const char *top = getenv("abs_top_srcdir");
    AUTO_FREE char *pattern =
        xasprintf("%s/tests/golden/table/*.in", top != NULL ? top : ".");
    glob_t found;

    (void)state;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 10);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_file(found.gl_pathv[i]);
    globfree(&found);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_files),
    };

    return cmocka_run_group_tests_name("golden_table", tests, NULL, NULL);
}
