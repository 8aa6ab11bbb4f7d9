/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "model/table.h"

static void
test_table_new_is_empty(void **state)
{
    struct table *t = table_new(3, 2, 1);

    (void)state;
    assert_int_equal(t->n_columns, 3);
    assert_int_equal(t->n_head, 2);
    assert_int_equal(t->n_tail, 1);
    assert_int_equal(t->gap_at, 3);
    for (size_t row = 0; row < 3; row++)
        for (size_t column = 0; column < 3; column++)
            assert_null(table_at(t, row, column)->text);
    table_free(t);
    table_free(NULL);
}

static void
test_table_at_counts_by_rows(void **state)
{
    struct table *t = table_new(2, 1, 2);

    (void)state;
    table_at(t, 2, 1)->text = xstrdup("last");
    table_at(t, 1, 0)->text = xstrdup("tail");
    assert_string_equal(t->cells[5].text, "last");
    assert_string_equal(t->cells[2].text, "tail");
    t->columns[0].name = xstrdup("a");
    t->columns[1].type = xstrdup("int64");
    table_free(t);
}

static void
test_table_without_columns(void **state)
{
    struct table *t = table_new(0, 20, 0);

    (void)state;
    assert_non_null(t->columns);
    table_free(t);
}

static void
test_table_kind_from_wire(void **state)
{
    static const struct {
        const char *wire;
        enum table_kind expect_kind;
        const char *expect_name;
    } cases[] = {
        {"integer", TABLE_INTEGER, "integer"},
        {"number", TABLE_DECIMAL, "decimal"},
        {"decimal", TABLE_DECIMAL, "decimal"},
        {"string", TABLE_TEXT, "text"},
        {"boolean", TABLE_BOOLEAN, "boolean"},
        {"datetime", TABLE_TIMESTAMP, "timestamp"},
        {"date", TABLE_DATE, "date"},
        {"time", TABLE_TIME, "time"},
        {"duration", TABLE_DURATION, "duration"},
        {"category", TABLE_CATEGORY, "category"},
        {"list", TABLE_LIST, "list"},
        {"other", TABLE_OTHER, "other"},
        {"Integer", TABLE_OTHER, "other"},
        {"", TABLE_OTHER, "other"},
        {NULL, TABLE_OTHER, "other"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        assert_int_equal(table_kind_from_wire(cases[i].wire),
                         cases[i].expect_kind);
        assert_string_equal(table_kind_name(cases[i].expect_kind),
                            cases[i].expect_name);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_new_is_empty),
        cmocka_unit_test(test_table_at_counts_by_rows),
        cmocka_unit_test(test_table_without_columns),
        cmocka_unit_test(test_table_kind_from_wire),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
