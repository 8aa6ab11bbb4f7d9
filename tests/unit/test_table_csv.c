/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/table_csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/table.h"

/* The table as one line: names, rows, "-" for a missing value, and the kind of
   each column. */
static char *
describe(const struct table *t)
{
    struct sbuf sb;

    sbuf_init(&sb, 1u << 20);
    for (size_t i = 0; i < t->n_columns; i++)
        sbuf_addf(&sb, "%s(%s)", t->columns[i].name,
                  table_kind_name(t->columns[i].kind));
    for (size_t r = 0; r < t->n_head; r++) {
        sbuf_add_char(&sb, '|');
        for (size_t i = 0; i < t->n_columns; i++) {
            const struct table_cell *c = table_at(t, r, i);

            sbuf_addf(&sb, "%s%s%s", i > 0 ? "," : "",
                      c->text != NULL ? c->text : "-", c->is_number ? "#" : "");
        }
    }
    return sbuf_take(&sb);
}

struct csv_case {
    const char *name;
    const char *text;
    const char *expect;
};

static const struct csv_case csv_cases[] = {
    {"plain", "a,b\n1,x\n2,y\n", "a(integer)b(text)|1#,x|2#,y"},
    {"no line end", "a\n1", "a(integer)|1#"},
    {"names only", "a,b\n", "a(text)b(text)"},
    {"decimals", "a\n1.5\n-2\n1e-07\n", "a(decimal)|1.5#|-2#|1e-07#"},
    {"missing values", "a,b\n,1\n2,\n", "a(integer)b(integer)|-,1#|2#,-"},
    {"codes are no numbers", "zip\n00501\n10001\n", "zip(text)|00501|10001"},
    {"zero", "a\n0\n0.5\n", "a(decimal)|0#|0.5#"},
    {"no numbers", "a\n1\nx\n", "a(text)|1|x"},
    {"odd numbers", "a\n1e\n", "a(text)|1e"},
    {"only a point", "a\n.\n", "a(text)|."},
    {"quotes", "\"a,b\"\n\"x\"\"y\nz\"\n", "a,b(text)|x\"y\nz"},
    {"quotes within a field", "a\"b,c\n1\"2,3\n",
     "a\"b(text)c(integer)|1\"2,3#"},
    {"text behind a quote", "\"a\"b\",c\n\"x\"\n", "ab\"(text)c(text)|x,-"},
    {"an open quote", "a\n\"x,y\nz", "a(text)|x,y\nz"},
    {"short lines", "a,b\n1\n", "a(integer)b(text)|1#,-"},
    {"long lines", "a\n1,2,3\n4\n", "a(integer)|1#|4#"},
    {"no name", ",b\n1,2\n", "(integer)b(integer)|1#,2#"},
    {"broken UTF-8", "a\nx\xFFy\n", "a(text)|x\xEF\xBF\xBDy"},
    {"nothing but a line end", "\n", "(text)"},
};

static void
test_from_csv(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(csv_cases); i++) {
        const struct csv_case *c = &csv_cases[i];
        struct error err = {0};
        struct table *t = table_from_csv(c->text, strlen(c->text), &err);
        AUTO_FREE char *text = NULL;

        if (t == NULL)
            fail_msg("%s: %s", c->name, err.msg);
        text = describe(t);
        if (!str_eq(text, c->expect))
            fail_msg("%s: %s", c->name, text);
        assert_int_equal(t->n_rows_total, t->n_head);
        assert_int_equal(t->gap_at, t->n_columns);
        table_free(t);
    }
}

static void
test_from_csv_refuses(void **state)
{
    struct error err = {0};
    AUTO_SBUF struct sbuf sb = {0};

    (void)state;
    assert_null(table_from_csv("", 0, &err));
    assert_int_equal(err.code, ERR_DATA);
    sbuf_init(&sb, 1u << 20);
    sbuf_add_repeat(&sb, ',', TABLE_CSV_MAX_COLUMNS);
    assert_null(table_from_csv(sb.data, sb.len, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    sbuf_clear(&sb);
    sbuf_add_repeat(&sb, ',', 9);
    sbuf_add_repeat(&sb, '\n', TABLE_CSV_MAX_CELLS / 10 + 2);
    assert_null(table_from_csv(sb.data, sb.len, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
}

/* Hostile text of any kind: nothing but the bounds matters. */
static void
test_from_csv_of_noise(void **state)
{
    static const char letters[] = "\",\n1a.\r\xC3";
    uint32_t seed = 1;

    (void)state;
    for (int n = 0; n < 3000; n++) {
        char text[40];
        size_t len = (size_t)n % sizeof(text);
        struct error err = {0};
        struct table *t = NULL;

        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = letters[(seed >> 16) % (sizeof(letters))];
        }
        t = table_from_csv(text, len, &err);
        for (size_t r = 0; t != NULL && r < t->n_head; r++) {
            for (size_t i = 0; i < t->n_columns; i++) {
                const char *cell = table_at(t, r, i)->text;

                assert_true(cell == NULL || utf8_valid(cell, strlen(cell)));
            }
        }
        table_free(t);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_csv),
        cmocka_unit_test(test_from_csv_refuses),
        cmocka_unit_test(test_from_csv_of_noise),
    };

    return cmocka_run_group_tests_name("table_csv", tests, NULL, NULL);
}
