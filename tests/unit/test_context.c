/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/context_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/sandbox.h"

static const struct sandbox_outcome fine = {.outcome = EVENT_OK,
                                            .duration_ms = 300};

/* The result of a cell; checks what holds for every result. */
static char *
result_of(const struct context *c, const struct sandbox_outcome *outcome)
{
    struct sbuf sb;

    sbuf_init(&sb, 256u << 10);
    context_add_result(c, outcome, &sb);
    assert_true(sbuf_ok(&sb));
    if (sb.len > CONTEXT_MAX_BYTES)
        fail_msg("%zu bytes", sb.len);
    assert_true(utf8_valid(sb.data, sb.len));
    assert_null(memchr(sb.data, '\0', sb.len));
    assert_int_equal(sb.data[sb.len - 1], '\n');
    return sbuf_take(&sb);
}

struct ending_case {
    const char *name;
    struct sandbox_outcome outcome;
    const char *expect;
};

#define HELLO "[stdout, 5 bytes]\nhello\n"

static const struct ending_case ending_cases[] = {
    {"fine",
     {.outcome = EVENT_OK, .duration_ms = 300},
     "[status: ok, 0.3 s]\n" HELLO},
    {"an exception",
     {.outcome = EVENT_FAILED,
      .error_name = "KeyError",
      .error_value = "'x'",
      .traceback = "Traceback\nKeyError: 'x'",
      .hint = "nearest column: y"},
     "[status: error, 0.0 s]\n" HELLO
     "[error]\nTraceback\nKeyError: 'x'\nnearest column: y\n"},
    {"an exception without traceback",
     {.outcome = EVENT_FAILED, .error_name = "E", .error_value = "a\nb"},
     "[status: error, 0.0 s]\n" HELLO "[error]\nE: a b\n"},
    {"an exception without value",
     {.outcome = EVENT_FAILED, .error_name = "E"},
     "[status: error, 0.0 s]\n" HELLO "[error]\nE: \n"},
    {"killed",
     {.outcome = EVENT_MEMORY, .reason = "it was killed; variables are gone"},
     "[status: memory, 0.0 s; it was killed; variables are gone]\n" HELLO},
    {"dropped",
     {.outcome = EVENT_OUTPUT_LIMIT, .output_dropped_bytes = 7000},
     "[status: output_limit, 0.0 s; 7,000 bytes of output were "
     "dropped]\n" HELLO},
    {"dropped, with a reason",
     {.outcome = EVENT_OUTPUT_LIMIT,
      .output_dropped_bytes = 7000,
      .reason = "Stopped; variables are kept."},
     "[status: output_limit, 0.0 s; Stopped; variables are kept. 7,000 bytes "
     "of output were dropped]\n" HELLO},
};

static void
test_result_says_how_it_ended(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(ending_cases); i++) {
        struct context c;
        AUTO_FREE char *text = NULL;

        context_init(&c, 0, 0);
        context_add_bytes(&c, EVENT_STDOUT, "hello", 5);
        text = result_of(&c, &ending_cases[i].outcome);
        if (!str_eq(text, ending_cases[i].expect))
            fail_msg("%s: %s", ending_cases[i].name, text);
        context_fini(&c);
    }
}

static void
test_result_without_output(void **state)
{
    struct context c;
    AUTO_FREE char *text = NULL;

    (void)state;
    context_init(&c, 0, 0);
    context_add_bytes(&c, EVENT_STDOUT, "", 0);
    text = result_of(&c, &fine);
    assert_string_equal(text, "[status: ok, 0.3 s]\n(no output)\n");
    context_fini(&c);
}

/* Lines that tell where they are: "000123\n". */
static char *
numbered_lines(size_t n)
{
    struct sbuf sb;

    sbuf_init(&sb, n * 7 + 1);
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&sb, "%06zu\n", i);
    return sbuf_take(&sb);
}

static void
add_in_pieces(struct context *c, const char *text, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece)
        context_add_bytes(c, EVENT_STDOUT, text + at,
                          len - at < piece ? len - at : piece);
}

static size_t
read_grouped(const char **p)
{
    size_t n = 0;

    for (; (**p >= '0' && **p <= '9') || **p == ','; ++*p) {
        if (**p != ',')
            n = n * 10 + (size_t)(**p - '0');
    }
    return n;
}

/* How many bytes the label of a part says are shown; 0 when it is whole. */
static size_t
shown_in(const char *text, size_t *total)
{
    const char *p = strstr(text, "[stdout, ");
    size_t shown = 0;

    *total = 0;
    if (p == NULL)
        return 0;
    p += strlen("[stdout, ");
    shown = read_grouped(&p);
    if (!str_starts(p, " of "))
        return 0;
    p += strlen(" of ");
    *total = read_grouped(&p);
    assert_true(str_starts(p, " bytes shown, beginning and end; "));
    assert_non_null(strstr(text, "\n[... the middle is left out ...]\n"));
    return shown;
}

static void
test_result_is_bounded_with_head_and_tail(void **state)
{
    static const size_t sizes[] = {1000, 1688, 1689, 1720, 2000, 5000, 100000};
    static const size_t pieces[] = {1, 7, 100, 4096, 1u << 20};

    (void)state;
    for (size_t i = 0; i < LEN(sizes); i++) {
        AUTO_FREE char *lines = numbered_lines(sizes[i]);
        AUTO_FREE char *last = xasprintf("\n%06zu\n", sizes[i] - 1);
        AUTO_FREE char *whole = NULL;

        for (size_t k = 0; k < LEN(pieces); k++) {
            struct context c;
            AUTO_FREE char *text = NULL;
            size_t total = 0;
            size_t shown = 0;

            context_init(&c, 0, 0);
            add_in_pieces(&c, lines, sizes[i] * 7, pieces[k]);
            text = result_of(&c, &fine);
            assert_non_null(strstr(text, "]\n000000\n000001\n"));
            if (strstr(text, last) == NULL)
                fail_msg("%zu lines: the end is missing", sizes[i]);
            shown = shown_in(text, &total);
            if (sizes[i] * 7 <= 11820) {
                assert_non_null(strstr(text, lines));
                assert_int_equal(shown, 0);
            } else {
                assert_int_equal(total, sizes[i] * 7);
                /* The note counts what is there, and most of the room is
                   used. */
                assert_true(shown > 10000);
                assert_true(shown < strlen(text));
                assert_true(strlen(text) - shown < 300);
            }
            if (whole == NULL)
                whole = take_ptr(&text);
            else
                assert_string_equal(text, whole);
            context_fini(&c);
        }
    }
}

/* With a long traceback there is less room, and still an end. */
static void
test_result_with_a_long_traceback(void **state)
{
    AUTO_FREE char *lines = numbered_lines(1140);
    AUTO_FREE char *trace = xmalloc(20001);
    struct sandbox_outcome outcome = {.outcome = EVENT_FAILED,
                                      .error_name = "E"};
    struct context c;
    AUTO_FREE char *text = NULL;
    size_t total = 0;

    (void)state;
    for (size_t i = 0; i < 20000; i++)
        trace[i] = (i & 1) != 0 ? '\xA9' : '\xC3';
    trace[20000] = '\0';
    outcome.traceback = trace;
    context_init(&c, 0, 0);
    context_add_bytes(&c, EVENT_STDOUT, lines, 7980);
    text = result_of(&c, &outcome);
    assert_non_null(strstr(text, "\n000000\n"));
    assert_non_null(strstr(text, "\n001139\n"));
    assert_true(shown_in(text, &total) > 0);
    assert_int_equal(total, 7980);
    assert_non_null(
        strstr(text, "[error, beginning and end of 20,000 bytes]\n"));
    context_fini(&c);
}

struct bytes_case {
    const char *name;
    const char *unit; /* repeated */
    size_t len;
    bool expect_binary; /* from a certain length on */
};

static const struct bytes_case bytes_cases[] = {
    {"NUL", "\0", 1, true},
    {"continuation bytes", "\x80", 1, true},
    {"first bytes", "\xC3", 1, true},
    {"never valid", "\xFF", 1, true},
    {"two-byte characters", "\xC3\xA9", 2, false},
    {"three-byte characters", "\xE2\x82\xAC", 3, false},
    {"four-byte characters", "\xF0\x9F\x98\x80", 4, false},
    {"surrogates", "\xED\xA0\x80", 3, true},
    {"a mixture", "a\0\xFF\xC3\xA9\xE2\x82\n", 9, true},
};

static void
test_result_of_bytes_that_are_no_text(void **state)
{
    static const size_t sizes[] = {1, 50, 3900, 4000, 7999, 8001, 11600, 50000};

    (void)state;
    for (size_t i = 0; i < LEN(bytes_cases); i++) {
        for (size_t k = 0; k < LEN(sizes); k++) {
            const struct bytes_case *t = &bytes_cases[i];
            AUTO_FREE char *data = xmalloc(sizes[k]);
            AUTO_FREE char *text = NULL;
            AUTO_SBUF struct sbuf whole = {0};
            struct context c;
            size_t total = 0;
            size_t shown = 0;

            for (size_t n = 0; n < sizes[k]; n++)
                data[n] = t->unit[n % t->len];
            context_init(&c, 0, 0);
            add_in_pieces(&c, data, sizes[k], 999);
            text = result_of(&c, &fine);
            shown = shown_in(text, &total);
            if (t->expect_binary && sizes[k] >= 64) {
                assert_non_null(strstr(text, "[stdout, binary output, "));
                assert_non_null(strstr(text, " bytes, not shown]\n"));
                assert_true(strlen(text) < 100);
                context_fini(&c);
                continue;
            }
            assert_null(strstr(text, "binary"));
            sbuf_init(&whole, sizes[k] * 3);
            utf8_add_repaired(&whole, data, sizes[k]);
            if (whole.len > 12000 && (shown == 0 || shown >= sizes[k]))
                fail_msg("%s, %zu bytes: %zu said to be shown", t->name,
                         sizes[k], shown);
            if (whole.len > 12000)
                assert_int_equal(total, sizes[k]);
            if (whole.len < 11000)
                assert_int_equal(shown, 0);
            context_fini(&c);
        }
    }
}

static void
add_cell(struct table *t, size_t row, size_t column, const char *text)
{
    table_at(t, row, column)->text = xstrdup(text);
}

static void
test_add_table_small(void **state)
{
    struct table *t = table_new(2, 2, 0);
    AUTO_SBUF struct sbuf sb = {0};

    (void)state;
    t->n_rows_total = 2;
    t->n_cols_total = 1;
    t->n_index = 1;
    t->columns[0].is_index = true;
    t->columns[1].name = xstrdup("a\tb");
    add_cell(t, 0, 0, "x\ny");
    add_cell(t, 0, 1, "1");
    add_cell(t, 1, 0, "z");
    sbuf_init(&sb, 4096);
    context_add_table(t, CONTEXT_MAX_ROWS, &sb);
    assert_non_null(strstr(sb.data, "a b\n"));
    assert_non_null(strstr(sb.data, "x y\t1\nz\t<missing>\n"));
    assert_null(strstr(sb.data, "shown"));
    table_free(t);
}

static void
test_add_table_says_what_is_left_out(void **state)
{
    struct table *t = table_new(3, 30, 30);
    AUTO_SBUF struct sbuf sb = {0};
    size_t n_lines = 0;

    (void)state;
    t->n_rows_total = 98214;
    t->n_cols_total = 42;
    t->gap_at = 2;
    t->n_cols_left_out = 39;
    for (size_t r = 0; r < 60; r++) {
        for (size_t k = 0; k < 3; k++) {
            AUTO_FREE char *text = xasprintf("r%zuc%zu", r, k);

            add_cell(t, r, k, text);
        }
    }
    sbuf_init(&sb, 65536);
    context_add_table(t, CONTEXT_MAX_ROWS, &sb);
    assert_non_null(strstr(sb.data, "98214 rows x 42 columns"));
    assert_non_null(strstr(sb.data, "r0c0\tr0c1\t...\tr0c2\n"));
    assert_non_null(strstr(sb.data, "r59c0\tr59c1\t...\tr59c2\n"));
    assert_non_null(strstr(sb.data, "[20 of 98214 rows, 3 of 42 columns"));
    for (const char *p = sb.data; (p = strstr(p, "c0\t")) != NULL; p++)
        n_lines++;
    assert_int_equal(n_lines, CONTEXT_MAX_ROWS);
    table_free(t);
}

/* However long the values are, each stays in its column. */
static void
test_add_table_of_long_values_keeps_columns(void **state)
{
    const size_t n_columns = 50;
    struct table *t = table_new(n_columns, 20, 0);
    struct output out = {.table = t};
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *value = xmalloc(10001);
    AUTO_FREE char *text = NULL;
    struct context c;

    (void)state;
    memset(value, 'v', 10000);
    value[10000] = '\0';
    t->n_rows_total = 20;
    t->n_cols_total = (int64_t)n_columns;
    for (size_t r = 0; r < 20; r++) {
        for (size_t k = 0; k < n_columns; k++)
            add_cell(t, r, k, k == 0 ? "short" : value);
    }
    sbuf_init(&sb, 1u << 20);
    context_add_table(t, CONTEXT_MAX_ROWS, &sb);
    assert_true(sbuf_ok(&sb));
    for (const char *p = strstr(sb.data, "short"); p != NULL;
         p = strstr(p + 1, "short")) {
        size_t n_tabs = 0;

        for (const char *q = p; *q != '\n'; q++)
            n_tabs += *q == '\t';
        assert_int_equal(n_tabs, n_columns - 1);
    }
    context_init(&c, 0, 0);
    context_add_output(&c, &out);
    assert_true(c.parts[CONTEXT_TABLES].n_bytes >= 20 * (n_columns - 1) * 200);
    text = result_of(&c, &fine);
    context_fini(&c);
    table_free(t);
}

/* One of everything, in the order that is promised. */
static void
test_result_has_its_parts_in_order(void **state)
{
    unsigned char png[] = {1};
    char title[] = "Revenue\nby month";
    char what[] = "4 lines";
    char text[] = "42";
    struct table *t = table_new(1, 1, 0);
    const struct output outputs[] = {
        {.png = png,
         .png_len = 1,
         .width_px = 640,
         .height_px = 480,
         .title = title,
         .what = what},
        {.table = t},
        {.text = text, .text_len = 2},
    };
    const struct event_file files[] = {
        {.name = "out/a\xFF.csv", .size_bytes = 9, .fd = 3},
        {.name = "link", .refused = "a symbolic link", .fd = -1},
    };
    struct sandbox_outcome outcome = {
        .outcome = EVENT_FAILED, .error_name = "E", .error_value = "bad"};
    struct context c;
    AUTO_FREE char *result = NULL;

    (void)state;
    t->n_rows_total = 1;
    t->n_cols_total = 1;
    t->gap_at = 1;
    t->columns[0].name = xstrdup("n");
    add_cell(t, 0, 0, "7");
    context_init(&c, 0, 0);
    context_add_note(&c, "a\nnote");
    for (size_t i = 0; i < LEN(outputs); i++)
        context_add_output(&c, &outputs[i]);
    for (size_t i = 0; i < LEN(files); i++)
        context_add_file(&c, &files[i]);
    context_add_bytes(&c, EVENT_STDERR, "warned\n", 7);
    context_add_bytes(&c, EVENT_STDOUT, "no end", 6);
    result = result_of(&c, &outcome);
    assert_string_equal(
        result,
        "[status: error, 0.0 s]\n"
        "[stdout, 6 bytes]\nno end\n"
        "[stderr, 7 bytes]\nwarned\n"
        "[result, 2 bytes]\n42\n"
        "[tables, 46 bytes]\ntable, 1 rows x 1 columns, tab-separated:\n"
        "n\n7\n"
        "[charts and files]\nchart shown to the user, 640 x 480 pixels, titled "
        "Revenue by month, 4 lines\n"
        "file out/a\xEF\xBF\xBD.csv, 9 B, given to the user\n"
        "file link, 0 B, not given to the user: a symbolic link\n"
        "[error]\nE: bad\n"
        "[note]\na note\n");
    context_fini(&c);
    table_free(t);
}

/* Whatever comes in each part, and however small the bound is: no more than
   that, and a short part is not cut for the sake of a long one. */
static void
test_parts_share_the_room(void **state)
{
    static const size_t bounds[] = {4000, 12000, 50000};

    (void)state;
    for (size_t i = 0; i < LEN(bounds); i++) {
        for (unsigned mask = 1; mask < 16; mask++) {
            AUTO_FREE char *lines = numbered_lines(20000);
            struct output value = {.text = lines, .text_len = 140000};
            struct sandbox_outcome outcome = {
                .outcome = EVENT_FAILED, .error_name = "E", .traceback = lines};
            AUTO_SBUF struct sbuf sb = {0};
            struct context c;

            context_init(&c, bounds[i], 0);
            context_add_bytes(&c, EVENT_STDERR, "short\n", 6);
            if ((mask & 1) != 0)
                context_add_bytes(&c, EVENT_STDOUT, lines, 140000);
            if ((mask & 2) != 0)
                context_add_output(&c, &value);
            for (int n = 0; (mask & 4) != 0 && n < 1000; n++)
                context_add_note(&c, "a note that comes very often");
            for (int n = 0; (mask & 4) != 0 && n < 1000; n++)
                context_add_file(&c, &(struct event_file){.name = "a name"});
            if ((mask & 8) == 0)
                outcome = (struct sandbox_outcome){.outcome = EVENT_OK};
            sbuf_init(&sb, 1u << 20);
            context_add_result(&c, &outcome, &sb);
            if (sb.len > bounds[i] || sb.len < bounds[i] / 10)
                fail_msg("%zu, %u: %zu bytes", bounds[i], mask, sb.len);
            assert_non_null(strstr(sb.data, "[stderr, 6 bytes]\nshort\n"));
            if ((mask & 1) != 0)
                assert_non_null(strstr(sb.data, " of 140,000 bytes shown"));
            context_fini(&c);
        }
    }
}

/* A table is cut at lines, so that no value gets into another column. */
static void
test_tables_are_cut_at_lines(void **state)
{
    struct table *t = table_new(60, 20, 0);
    struct output out = {.table = t};
    struct context c;
    AUTO_FREE char *text = NULL;
    const char *p = NULL;

    (void)state;
    t->n_rows_total = 20;
    t->n_cols_total = 60;
    t->gap_at = 60;
    for (size_t r = 0; r < 20; r++) {
        for (size_t k = 0; k < 60; k++)
            add_cell(t, r, k, "123456789");
    }
    context_init(&c, 4000, 0);
    context_add_output(&c, &out);
    text = result_of(&c, &fine);
    p = strstr(text, "123456789");
    for (size_t n = 0; p != NULL; p = strchr(p, '\n'), n++) {
        size_t n_tabs = 0;

        p += *p == '\n';
        if (!str_starts(p, "123456789"))
            continue;
        for (const char *q = p; *q != '\n'; q++)
            n_tabs += *q == '\t';
        assert_int_equal(n_tabs, 59);
    }
    context_fini(&c);
    table_free(t);
}

static void
test_rows_of_a_table_are_bounded(void **state)
{
    struct table *t = table_new(1, 20, 0);
    struct output out = {.table = t};
    struct context c;
    AUTO_FREE char *text = NULL;

    (void)state;
    t->n_rows_total = 20;
    t->n_cols_total = 1;
    t->gap_at = 1;
    for (size_t r = 0; r < 20; r++)
        add_cell(t, r, 0, "x");
    context_init(&c, 0, 4);
    context_add_output(&c, &out);
    text = result_of(&c, &fine);
    assert_non_null(strstr(text, "\nx\nx\n...\nx\nx\n[4 of 20 rows, "));
    context_fini(&c);
    table_free(t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_says_how_it_ended),
        cmocka_unit_test(test_result_without_output),
        cmocka_unit_test(test_result_is_bounded_with_head_and_tail),
        cmocka_unit_test(test_result_with_a_long_traceback),
        cmocka_unit_test(test_result_of_bytes_that_are_no_text),
        cmocka_unit_test(test_add_table_small),
        cmocka_unit_test(test_add_table_says_what_is_left_out),
        cmocka_unit_test(test_add_table_of_long_values_keeps_columns),
        cmocka_unit_test(test_result_has_its_parts_in_order),
        cmocka_unit_test(test_parts_share_the_room),
        cmocka_unit_test(test_tables_are_cut_at_lines),
        cmocka_unit_test(test_rows_of_a_table_are_bounded),
    };

    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
