/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/table_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "model/table.h"

#define MAX_CELLS 8
#define MAX_BYTES (1u << 20)

/* The pictures are in tests/golden/table; here are the rules one by one. */

/* --- numbers --- */

struct number_case {
    const char *name;
    enum table_kind kind;
    const char *column;
    const char *cells[MAX_CELLS];
    const char *expect[MAX_CELLS];
};

static const struct number_case number_cases[] = {
    {"grouped", TABLE_INTEGER, "units", {"1", "-1204567"}, {"1", "-1,204,567"}},
    {"exact up to two",
     TABLE_DECIMAL,
     "price",
     {"3.2", "1204", "0.05"},
     {"3.20", "1,204.00", "0.05"}},
    {"none needed", TABLE_DECIMAL, "price", {"3", "12"}, {"3", "12"}},
    {"three digits of the smallest",
     TABLE_DECIMAL,
     "share",
     {"0.0123456", "0.5", "0"},
     {"0.0123", "0.5000", "0.0000"}},
    {"at most six",
     TABLE_DECIMAL,
     "share",
     {"0.00012345678", "0.5"},
     {"0.000123", "0.500000"}},
    {"no more than there are",
     TABLE_DECIMAL,
     "share",
     {"0.0125", "0.001"},
     {"0.0125", "0.0010"}},
    {"rounding carries",
     TABLE_DECIMAL,
     "x",
     {"999.9951", "-0.9999", "0.123456"},
     {"999.995", "-1.000", "0.123"}},
    {"a new digit",
     TABLE_DECIMAL,
     "x",
     {"9.99999", "1.2345"},
     {"10.00", "1.23"}},
    {"too small to be seen",
     TABLE_DECIMAL,
     "x",
     {"1e-9", "1"},
     {"1.00000e-09", "1.000000"}},
    {"exponents",
     TABLE_DECIMAL,
     "x",
     {"1.5e3", "2E-1", "-0.0"},
     {"1,500.0", "0.2", "0.0"}},
    {"too wide",
     TABLE_DECIMAL,
     "x",
     {"123456789012345678901234567890123"},
     {"1.23457e+32"}},
    {"wide, but whole",
     TABLE_INTEGER,
     "x",
     {"123456789012345678901234"},
     {"123,456,789,012,345,678,901,234"}},
    {"no number",
     TABLE_DECIMAL,
     "x",
     {"inf", "1e", "--1", "1.2.3", ".", "1e9999"},
     {"inf", "1e", "--1", "1.2.3", ".", "1e9999"}},
    {"years", TABLE_INTEGER, "Year", {"2024", "1999"}, {"2024", "1999"}},
    {"years that are none",
     TABLE_INTEGER,
     "per_year",
     {"2024", "31999"},
     {"2,024", "31,999"}},
    {"identifiers", TABLE_INTEGER, "order_id", {"10042"}, {"10042"}},
    {"identifiers in one word", TABLE_INTEGER, "orderId", {"10042"}, {"10042"}},
    {"postal codes", TABLE_INTEGER, "Zip", {"10115"}, {"10115"}},
    {"paid is no id", TABLE_INTEGER, "paid", {"10115"}, {"10,115"}},
    {"text is not read", TABLE_TEXT, "x", {"1204567"}, {"1204567"}},
};

static void
test_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(number_cases); i++) {
        const struct number_case *c = &number_cases[i];
        struct table_options options = {.width = 80, .unicode = true};
        size_t n = 0;
        struct table *t;
        struct sbuf sb;
        char *line;

        while (n < MAX_CELLS && c->cells[n] != NULL)
            n++;
        t = table_new(1, n, 0);
        t->n_rows_total = (int64_t)n;
        t->n_cols_total = 1;
        t->columns[0].name = xstrdup(c->column);
        t->columns[0].kind = c->kind;
        for (size_t k = 0; k < n; k++)
            table_at(t, k, 0)->text = xstrdup(c->cells[k]);
        sbuf_init(&sb, MAX_BYTES);
        table_render(t, &options, &sb);
        line = strchr(strchr(sb.data, '\n') + 1, '\n') + 1;
        for (size_t k = 0; k < n; k++) {
            size_t lead = strspn(line, " ");
            size_t len = strcspn(line + lead, "\n");

            if (len != strlen(c->expect[k]) ||
                memcmp(line + lead, c->expect[k], len) != 0)
                fail_msg("%s: %.*s, not %s", c->name, (int)len, line + lead,
                         c->expect[k]);
            line += lead + len + 1;
        }
        sbuf_fini(&sb);
        table_free(t);
    }
}

/* --- widths --- */

/* Columns of all lengths, and characters of all widths. */
static struct table *
make_wide(size_t n_columns, size_t n_rows)
{
    struct table *t = table_new(n_columns, n_rows, 0);

    t->n_rows_total = (int64_t)n_rows;
    t->n_cols_total = (int64_t)n_columns;
    for (size_t i = 0; i < n_columns; i++) {
        t->columns[i].name = xasprintf("name of column %zu", i * i);
        t->columns[i].kind = i % 3 == 0 ? TABLE_DECIMAL : TABLE_TEXT;
        for (size_t row = 0; row < n_rows; row++) {
            char **text = &table_at(t, row, i)->text;

            if (i % 3 == 0)
                *text = xasprintf("%zu.5", i * 1000000 + row);
            else
                *text = xasprintf("%.*s", (int)(i * 3 % 40),
                                  "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E x "
                                  "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E y "
                                  "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E z");
        }
    }
    return t;
}

static size_t
widest_line(const struct sbuf *sb)
{
    size_t widest = 0;

    for (size_t i = 0; i < sb->len;) {
        size_t n = strcspn(sb->data + i, "\n");
        size_t width = utf8_width(sb->data + i, n);

        widest = width > widest ? width : widest;
        i += n + 1;
    }
    return widest;
}

static void
test_no_line_is_wider_than_asked(void **state)
{
    (void)state;
    for (size_t n = 1; n < 20; n += 3) {
        for (size_t rows = 0; rows < 30; rows += rows < 2 ? 1 : 25) {
            struct table *t = make_wide(n, rows);

            for (int width = 0; width < 140; width += 7) {
                struct table_options options = {.width = width,
                                                .unicode = width % 2 == 0,
                                                .address = "12.3"};
                size_t most = width < TABLE_LAYOUT_MIN_WIDTH
                                  ? TABLE_LAYOUT_MIN_WIDTH
                                  : (size_t)width;
                struct sbuf sb;

                sbuf_init(&sb, MAX_BYTES);
                table_render(t, &options, &sb);
                if (widest_line(&sb) > most)
                    fail_msg("%zu columns in %d:\n%s", n, width, sb.data);
                sbuf_fini(&sb);
            }
            table_free(t);
        }
    }
}

/* --- what it is written with --- */

static struct table *
make_small(void)
{
    struct table *t = table_new(2, 2, 0);

    t->n_rows_total = 2;
    t->n_cols_total = 2;
    t->columns[0].name = xstrdup("a");
    t->columns[0].kind = TABLE_TEXT;
    t->columns[1].name = xstrdup("b");
    t->columns[1].kind = TABLE_TEXT;
    table_at(t, 0, 0)->text = xstrdup("\xC3\xBC");
    table_at(t, 0, 1)->text = xstrdup("NULL");
    table_at(t, 1, 0)->text = xstrdup("x");
    return t;
}

static void
check_small(const struct table_options *options, const char *expect)
{
    struct table *t = make_small();
    struct sbuf sb;

    sbuf_init(&sb, MAX_BYTES);
    table_render(t, options, &sb);
    assert_string_equal(sb.data, expect);
    sbuf_fini(&sb);
    table_free(t);
}

/* A value that is missing is never mistaken for the word. */
static void
test_options(void **state)
{
    (void)state;
    check_small(&(struct table_options){.width = 80}, " a | b\n"
                                                      "---+-------\n"
                                                      " \xC3\xBC | \"NULL\"\n"
                                                      " x | NULL\n");
    check_small(&(struct table_options){.width = 80, .colour = true},
                " a | b\n"
                "---+-------\n"
                " \xC3\xBC | \"NULL\"\n"
                " x | NULL\n");
    check_small(&(struct table_options){.width = 80, .sequences = true},
                " a | b\n"
                "---+-------\n"
                " \xC3\xBC \033[4G| \"NULL\"\n"
                " x | NULL\n");
    check_small(
        &(struct table_options){.width = 80, .sequences = true, .colour = true},
        " \033[1ma\033[0m | \033[1mb\033[0m\n"
        "---+-------\n"
        " \xC3\xBC \033[4G| \"NULL\"\n"
        " x | \033[2mNULL\033[0m\n");
}

/* --- an index that says nothing --- */

static void
check_index(const char *name, int64_t first, int64_t last, bool shown)
{
    struct table_options options = {.width = 80, .unicode = true};
    struct table *t = table_new(2, 1, 1);
    struct sbuf sb;

    t->n_index = 1;
    t->n_rows_total = 100;
    t->n_cols_total = 1;
    t->columns[0].is_index = true;
    t->columns[0].kind = TABLE_INTEGER;
    t->columns[0].name = xstrdup(name);
    t->columns[1].kind = TABLE_TEXT;
    t->columns[1].name = xstrdup("value");
    table_at(t, 0, 0)->text = xasprintf("%d", (int)first);
    table_at(t, 1, 0)->text = xasprintf("%d", (int)last);
    sbuf_init(&sb, MAX_BYTES);
    table_render(t, &options, &sb);
    assert_int_equal(strstr(sb.data, "\xE2\x94\xBC") != NULL, shown);
    assert_non_null(strstr(sb.data, "2 of 100 rows\n"));
    sbuf_fini(&sb);
    table_free(t);
}

static void
test_index(void **state)
{
    (void)state;
    check_index(NULL, 0, 99, false);
    check_index(NULL, 1, 100, true);
    check_index(NULL, 0, 98, true);
    check_index("n", 0, 99, true);
}

/* --- tables of nothing --- */

static void
check_empty(size_t n_rows, size_t n_index, size_t n_columns, const char *expect)
{
    struct table_options options = {
        .width = 80, .unicode = true, .address = "5"};
    struct table *t = table_new(n_index + n_columns, n_rows, 0);
    struct sbuf sb;

    t->n_index = n_index;
    t->n_rows_total = (int64_t)n_rows;
    t->n_cols_total = (int64_t)n_columns;
    for (size_t i = 0; i < n_index + n_columns; i++) {
        t->columns[i].is_index = i < n_index;
        t->columns[i].kind = TABLE_INTEGER;
        t->columns[i].name =
            i < n_index ? NULL : xasprintf("%c", (int)('a' + i));
        for (size_t row = 0; row < n_rows; row++)
            table_at(t, row, i)->text = xasprintf("%zu", row);
    }
    sbuf_init(&sb, MAX_BYTES);
    table_render(t, &options, &sb);
    assert_string_equal(sb.data, expect);
    sbuf_fini(&sb);
    table_free(t);
}

#define DASH "\xE2\x94\x80"

/* What is not there is said, and nothing that was cut can be saved. The rule of
   a narrow table is not the mark around code. */
static void
test_empty(void **state)
{
    (void)state;
    check_empty(0, 0, 2,
                " a \xE2\x94\x82 b\n" DASH DASH DASH "\xE2\x94\xBC" DASH DASH
                "\n\xC2\xB7 0 rows\n");
    check_empty(0, 1, 0, "\xC2\xB7 0 rows, 0 columns\n");
    check_empty(0, 0, 0, "\xC2\xB7 0 rows, 0 columns\n");
    check_empty(3, 0, 0, "\xC2\xB7 3 rows, 0 columns\n");
    check_empty(1, 0, 0, "\xC2\xB7 1 row, 0 columns\n");
    check_empty(2, 1, 0,
                "\n" DASH DASH DASH "\n 0\n 1\n\xC2\xB7 2 rows, 0 columns\n");
    check_empty(1, 0, 1, " a\n" DASH DASH DASH "\n 0\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_no_line_is_wider_than_asked),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests_name("table_layout", tests, NULL, NULL);
}
