/* SPDX-License-Identifier: GPL-3.0-or-later */
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

#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/mime_bundle_internal.h"

/* Signature and header of a PNG of 640 x 480 and of 65,000 x 65,000. */
#define PNG_SMALL "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"
#define PNG_HUGE "iVBORw0KGgoAAAANSUhEUgAA/egAAP3o"

#define TABLE(rows, cols, columns, index, head, tail, out)                     \
    "{\"rows\":" rows ",\"cols\":" cols ",\"columns\":[" columns               \
    "],\"index\":[" index "],\"head\":[" head "],\"tail\":[" tail              \
    "],\"cols_left_out\":" out ",\"truncated_cells\":false}"

#define COLUMN_A "{\"name\":\"a\",\"type\":\"int64\",\"kind\":\"integer\"}"
#define COLUMN_B "{\"name\":\"b\",\"type\":\"object\",\"kind\":\"string\"}"
#define INDEX "{\"name\":null,\"type\":\"int64\",\"kind\":\"integer\"}"

static void
test_base64(void **state)
{
    static const struct {
        const char *text;
        const char *expect; /* NULL: refused */
    } cases[] = {
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"+/+/", "\xfb\xff\xbf"},
        {"", NULL},
        {"Zg", NULL},
        {"Zg=", NULL},
        {"Zh==", NULL},
        {"Zm9=", NULL},
        {"Z===", NULL},
        {"====", NULL},
        {"Zm 9", NULL},
        {"Zm9v\n", NULL},
        {"Zg==Zg==", NULL},
        {"Zm-_", NULL},
        {"Zm9vYmFyYmF6", NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        size_t len = 0;
        AUTO_FREE unsigned char *out =
            mime_bundle_base64(cases[i].text, strlen(cases[i].text), 8, &len);

        if ((out == NULL) != (cases[i].expect == NULL))
            fail_msg("%s", cases[i].text);
        if (out == NULL)
            continue;
        assert_int_equal(len, strlen(cases[i].expect));
        assert_memory_equal(out, cases[i].expect, len);
    }
}

static void
test_table_is_read(void **state)
{
    static const char text[] = TABLE("4", "5", COLUMN_A "," COLUMN_B, INDEX,
                                     "[0,144772.35,\"x\"],[1,true,null]",
                                     "[2,-1e300,\"inf\"],[3,7,\"\"]", "3");
    struct error err = {0};
    AUTO_JSON struct cJSON *json = json_parse(text, sizeof(text) - 1, 16, &err);
    struct table *t = mime_bundle_table(json, &err);

    (void)state;
    assert_non_null(t);
    assert_int_equal(t->n_rows_total, 4);
    assert_int_equal(t->n_cols_total, 5);
    assert_int_equal(t->n_index, 1);
    assert_int_equal(t->n_columns, 3);
    assert_int_equal(t->gap_at, 2);
    assert_int_equal(t->n_cols_left_out, 3);
    assert_true(t->columns[0].is_index);
    assert_null(t->columns[0].name);
    assert_string_equal(t->columns[2].name, "b");
    assert_int_equal(t->columns[2].kind, TABLE_TEXT);
    assert_string_equal(t->columns[1].type, "int64");
    assert_string_equal(table_at(t, 0, 1)->text, "144772.35");
    assert_true(table_at(t, 0, 1)->is_number);
    assert_string_equal(table_at(t, 1, 1)->text, "True");
    assert_false(table_at(t, 1, 1)->is_number);
    assert_null(table_at(t, 1, 2)->text);
    assert_string_equal(table_at(t, 2, 2)->text, "inf");
    assert_string_equal(table_at(t, 3, 2)->text, "");
    table_free(t);
}

static void
test_table_that_contradicts_itself(void **state)
{
    static const struct {
        const char *name;
        const char *text;
    } cases[] = {
        {"no object", "[]"},
        {"empty", "{}"},
        {"short row",
         TABLE("1", "2", COLUMN_A "," COLUMN_B, "", "[1]", "", "0")},
        {"long row", TABLE("1", "1", COLUMN_A, "", "[1,2]", "", "0")},
        {"row is no list", TABLE("1", "1", COLUMN_A, "", "{}", "", "0")},
        {"nested cell", TABLE("1", "1", COLUMN_A, "", "[[1]]", "", "0")},
        {"object cell", TABLE("1", "1", COLUMN_A, "", "[{}]", "", "0")},
        {"column is no object", TABLE("1", "1", "3", "", "[1]", "", "0")},
        {"too few rows said", TABLE("0", "1", COLUMN_A, "", "[1]", "", "0")},
        {"rows missing", TABLE("9", "1", COLUMN_A, "", "[1]", "", "0")},
        {"columns missing", TABLE("1", "3", COLUMN_A, "", "[1]", "", "0")},
        {"too many left out", TABLE("1", "1", COLUMN_A, "", "[1]", "", "9")},
        {"negative", TABLE("-1", "1", COLUMN_A, "", "", "", "0")},
        {"huge count", TABLE("1e300", "1", COLUMN_A, "", "", "", "0")},
        {"count as text", TABLE("\"1\"", "1", COLUMN_A, "", "[1]", "", "0")},
        {"21 rows", TABLE("21", "1", COLUMN_A, "",
                          "[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]",
                          "[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]", "0")},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        AUTO_JSON struct cJSON *json =
            json_parse(cases[i].text, strlen(cases[i].text), 16, &err);

        assert_non_null(json);
        if (mime_bundle_table(json, &err) != NULL)
            fail_msg("%s: accepted", cases[i].name);
        assert_int_equal(err.code, ERR_PROTOCOL);
    }
}

static void
test_parse(void **state)
{
    static const struct {
        const char *name;
        const char *data;
        bool expect_ok;
        bool expect_text;
        bool expect_table;
        int expect_width;
        const char *expect_refused; /* a part of it; NULL: nothing */
    } cases[] = {
        {"text", "{\"text/plain\":\"x\"}", true, true, false, 0, NULL},
        {"picture", "{\"image/png\":\"" PNG_SMALL "\",\"text/plain\":\"f\"}",
         true, true, false, 640, NULL},
        {"picture alone", "{\"image/png\":\"" PNG_SMALL "\"}", true, false,
         false, 640, NULL},
        {"too many pixels",
         "{\"image/png\":\"" PNG_HUGE "\",\"text/plain\":\"f\"}", true, true,
         false, 0, "65000 x 65000 pixels was left out: at most 8388608"},
        {"no base64", "{\"image/png\":\"??\",\"text/plain\":\"f\"}", true, true,
         false, 0, "no PNG of at most 8 MiB"},
        {"no PNG", "{\"image/png\":\"Zm9v\"}", false, false, false, 0,
         "no PNG of at most 8 MiB"},
        {"table",
         "{\"application/x-table.v1+json\":" TABLE("1", "1", COLUMN_A, "",
                                                   "[1]", "", "0") "}",
         true, false, true, 0, NULL},
        {"bad table",
         "{\"application/x-table.v1+json\":{},\"text/plain\":\"t\"}", true,
         true, false, 0, "a table that contradicts itself"},
        {"unknown types", "{\"text/html\":\"<b>\"}", false, false, false, 0,
         NULL},
        {"wrong types", "{\"text/plain\":3,\"image/png\":[]}", false, false,
         false, 0, NULL},
        {"no object", "[]", false, false, false, 0, NULL},
    };
    static const char meta_text[] = "{\"title\":\"T\",\"what\":\"1 line\"}";
    struct error err = {0};
    AUTO_JSON struct cJSON *meta =
        json_parse(meta_text, sizeof(meta_text) - 1, 16, &err);

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_JSON struct cJSON *data =
            json_parse(cases[i].data, strlen(cases[i].data), 16, &err);
        AUTO_FREE char *refused = NULL;
        struct output *out = mime_bundle_parse(data, meta, &refused, &err);

        if ((out != NULL) != cases[i].expect_ok ||
            (refused != NULL) != (cases[i].expect_refused != NULL) ||
            (refused != NULL &&
             strstr(refused, cases[i].expect_refused) == NULL))
            fail_msg("%s: %s", cases[i].name, refused);
        if (out == NULL)
            continue;
        assert_int_equal(out->text != NULL, cases[i].expect_text);
        assert_int_equal(out->table != NULL, cases[i].expect_table);
        assert_int_equal(out->width_px, cases[i].expect_width);
        assert_int_equal(out->png != NULL, cases[i].expect_width > 0);
        assert_string_equal(out->title, "T");
        assert_string_equal(out->what, "1 line");
        output_free(out);
    }
}

static void
test_parse_cuts_long_text(void **state)
{
    struct sbuf sb;
    struct error err = {0};
    struct output *out;
    struct cJSON *data;

    (void)state;
    sbuf_init(&sb, 1u << 20);
    sbuf_add_str(&sb, "{\"text/plain\":\"a");
    for (int i = 0; i < 100000; i++)
        sbuf_add_str(&sb, "\xc3\xa9");
    sbuf_add_str(&sb, "\"}");
    data = json_parse(sb.data, sb.len, 16, &err);
    out = mime_bundle_parse(data, NULL, NULL, &err);
    assert_non_null(out);
    /* Not in the middle of a character. */
    assert_int_equal(out->text_len, MIME_BUNDLE_MAX_TEXT_BYTES - 1);
    assert_int_equal(strlen(out->text), out->text_len);
    output_free(out);
    json_free(data);
    sbuf_fini(&sb);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_table_is_read),
        cmocka_unit_test(test_table_that_contradicts_itself),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_cuts_long_text),
    };

    return cmocka_run_group_tests_name("mime_bundle", tests, NULL, NULL);
}
