/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Events in, whole screens out: as plain text on two channels, and on a
 * terminal of several widths.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "model/output.h"
#include "model/sink.h"
#include "model/table.h"
#include "term/out.h"
#include "unit/view_session.h"

#define DOTS "\xE2\x80\xA6"
#define DASH "\xE2\x80\x93"
#define TIMES "\xC3\x97"

/* So wide that the paths of a test do not break its lines. */
#define WIDE 300

static void
expect_channels(struct fixture *f, const char *expect_main,
                const char *expect_side)
{
    finish(f);
    expect_text("stdout", f->text[0].data, expect_main);
    expect_text("stderr", f->text[1].data, expect_side);
    end(f);
}

static void
put_turn_done(struct fixture *f, enum event_outcome outcome, int n_cells,
              int64_t ms, const struct error *err)
{
    put(f, (struct event){.kind = EVENT_DONE,
                          .scope = EVENT_SCOPE_TURN,
                          .outcome = outcome,
                          .n_cells = n_cells,
                          .duration_ms = ms,
                          .err = err});
}

/* The table of the first screen of the look. */
static void
put_table(struct fixture *f, int cell)
{
    static const char *const rows[][2] = {{"South", "144772.35"},
                                          {"East", "143120.10"},
                                          {"North", "139004.75"},
                                          {"West", "120311.00"}};
    struct table *t = table_new(2, 4, 0);
    struct output out = {.is_result = true, .table = t};

    t->n_rows_total = 4;
    t->n_cols_total = 1;
    t->n_index = 1;
    t->columns[0].name = xstrdup("region");
    t->columns[0].kind = TABLE_TEXT;
    t->columns[0].is_index = true;
    t->columns[1].name = xstrdup("revenue");
    t->columns[1].kind = TABLE_DECIMAL;
    for (size_t i = 0; i < 4; i++) {
        table_at(t, i, 0)->text = xstrdup(rows[i][0]);
        table_at(t, i, 1)->text = xstrdup(rows[i][1]);
        table_at(t, i, 1)->is_number = true;
    }
    put(f, (struct event){.kind = EVENT_RESULT, .cell = cell, .output = &out});
    table_free(t);
}

static void
put_chart(struct fixture *f, int cell, int index, const char *title,
          const char *what)
{
    unsigned char png[] = {0x89, 'P', 'N', 'G', (unsigned char)index};
    AUTO_FREE char *own_title = xstrdup(title);
    AUTO_FREE char *own_what = xstrdup(what);
    struct output out = {.index = index,
                         .png = png,
                         .png_len = sizeof(png),
                         .width_px = 640,
                         .height_px = 480,
                         .title = own_title,
                         .what = own_what};

    put(f, (struct event){.kind = EVENT_RESULT, .cell = cell, .output = &out});
}

/* ---- one whole turn -------------------------------------------------------
 */

static void
put_turn(struct fixture *f)
{
    put_text(f, EVENT_STATUS, "waiting for the model", false);
    put_text(f, EVENT_THINKING, "\n\nI should group ", false);
    put_text(f, EVENT_THINKING, "by region.", false);
    put_text(f, EVENT_THINKING, "", true);
    put_text(f, EVENT_TEXT, "I'll total the revenue ", false);
    put_text(f, EVENT_TEXT, "by region first.", false);
    put_text(f, EVENT_TEXT, "", true);
    put_code(f, 1, "totals = sales.groupby(\"region\")\ntotals");
    put_text(f, EVENT_STATUS, "running", false);
    put_printed(f, 1, "rows used: 988\n");
    put_table(f, 1);
    put_cell_done(f, 1, EVENT_OK, NULL);
    put_code(f, 2, "plot()");
    put_chart(f, 2, 0, "Revenue by month", "4 lines");
    put_cell_done(f, 2, EVENT_OK, NULL);
    put_text(f, EVENT_TEXT, "South had the highest revenue.\n", false);
    put_text(f, EVENT_TEXT, "12 rows are left out.", true);
    put_turn_done(f, EVENT_OK, 2, 8400, NULL);
}

#define TURN_TABLE                                                             \
    " region " BAR "    revenue\n"                                             \
    "\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80" \
    "\xE2\x94\x80\xE2\x94\x80\xE2\x94\xBC"                                     \
    "\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80" \
    "\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\xE2\x94\x80\n"           \
    " South  " BAR " 144,772.35\n"                                             \
    " East   " BAR " 143,120.10\n"                                             \
    " North  " BAR " 139,004.75\n"                                             \
    " West   " BAR " 120,311.00\n"

static void
test_turn_on_a_terminal(void **state)
{
    struct fixture *f = begin(DUMB, WIDE, true);

    (void)state;
    put_turn(f);
    expect_screen(f, "I should group by region.\n"
                     "\n"
                     "I'll total the revenue by region first.\n"
                     "\n" RULE " 1 python\n"
                     "totals = sales.groupby(\"region\")\n"
                     "totals\n" RULE "\n" BAR " rows used: 988\n" TURN_TABLE
                     "\n" RULE " 2 python\n"
                     "plot()\n" RULE "\n" DOT
                     " @/files/2-Revenue-by-month.png " DOT
                     " Revenue by month " DOT " 4 lines " DOT " :save 2\n"
                     "\n"
                     "South had the highest revenue.\n"
                     "12 rows are left out.\n"
                     "\n" DOT " 2 cells " DOT " 8.4 s\n");
}

static void
test_turn_as_plain_text(void **state)
{
    struct fixture *f = begin(PLAIN, 0, true);

    (void)state;
    put_turn(f);
    expect_channels(f,
                    "I'll total the revenue by region first.\n\n" TURN_TABLE
                    "\nSouth had the highest revenue.\n12 rows are left out.\n",
                    "I should group by region.\n"
                    "\n" RULE " 1 python\n"
                    "totals = sales.groupby(\"region\")\n"
                    "totals\n" RULE "\n" BAR " rows used: 988\n"
                    "\n" RULE " 2 python\n"
                    "plot()\n" RULE "\n" DOT
                    " @/files/2-Revenue-by-month.png " DOT
                    " Revenue by month " DOT " 4 lines " DOT " :save 2\n" DOT
                    " 2 cells " DOT " 8.4 s\n");
}

/* With "2>&1" it reads as on a terminal. */
static void
test_turn_as_plain_text_on_one_channel(void **state)
{
    struct fixture *f = begin(JOINED, 0, true);
    struct fixture *g = begin(DUMB, WIDE, true);

    (void)state;
    put_turn(f);
    put_turn(g);
    finish(f);
    finish(g);
    expect_text("joined", f->text[0].data, g->text[0].data);
    end(f);
    end(g);
}

static void
test_turn_in_ascii(void **state)
{
    struct fixture *f = begin(PLAIN, 0, false);

    (void)state;
    put_turn(f);
    finish(f);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < f->text[i].len; k++) {
            unsigned char c = (unsigned char)f->text[i].data[k];

            assert_true(c == '\n' || (c >= 0x20 && c < 0x7F));
        }
    }
    assert_non_null(strstr(f->text[1].data, "\n-- 1 python\n"));
    assert_non_null(strstr(f->text[1].data, "\n| rows used: 988\n"));
    assert_non_null(strstr(f->text[1].data, "\n- 2 cells - 8.4 s\n"));
    end(f);
}

struct cost_case {
    int64_t nanousd;
    bool at_least;
    const char *expect;
};

static const struct cost_case cost_cases[] = {
    {0, false, DOT " 2 cells " DOT " 8.4 s\n"},
    {10000000, false, DOT " 2 cells " DOT " 8.4 s " DOT " $0.010\n"},
    {1, false, DOT " 2 cells " DOT " 8.4 s " DOT " under $0.001\n"},
    {12345678901, true, DOT " 2 cells " DOT " 8.4 s " DOT " at least $12.35\n"},
};

static void
test_cost_of_a_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(cost_cases); i++) {
        struct fixture *f = begin(DUMB, WIDE, true);

        put(f, (struct event){.kind = EVENT_DONE,
                              .scope = EVENT_SCOPE_TURN,
                              .n_cells = 2,
                              .duration_ms = 8400,
                              .cost_nanousd = cost_cases[i].nanousd,
                              .cost_at_least = cost_cases[i].at_least});
        finish(f);
        if (strstr(f->text[0].data, cost_cases[i].expect) == NULL)
            fail_msg("%s", f->text[0].data);
        end(f);
    }
}

/* What remains of a screen once its sequences are taken away. */
static void
remove_sequences(const char *text, struct sbuf *sb)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\r')
            continue;
        if (*p != '\x1B') {
            sbuf_add_char(sb, *p);
            continue;
        }
        assert_int_equal(p[1], '[');
        for (p += 2; *p < 0x40 || *p > 0x7E; p++)
            assert_true(*p != '\0');
    }
}

static void
test_code_can_be_copied_with_and_without_colour(void **state)
{
    static const char CODE[] = "def f():\n\treturn \"> \"  # " BAR "\n> 1";
    static const char EXPECT[] = RULE " 7 python\ndef f():\n\treturn \"> \"  "
                                      "# " BAR "\n> 1\n" RULE "\n";

    (void)state;
    for (int kind = PLAIN; kind <= COLOUR; kind++) {
        struct fixture *f = begin((enum kind)kind, 80, true);
        AUTO_SBUF struct sbuf sb = {0};

        put_code(f, 7, CODE);
        finish(f);
        sbuf_init(&sb, MAX_SCREEN);
        remove_sequences(f->text[kind == PLAIN].data, &sb);
        expect_text("code", sb.data, EXPECT);
        assert_int_equal(strchr(f->text[0].data, '\x1B') != NULL,
                         kind == COLOUR);
        end(f);
    }
}

/* ---- errors ---------------------------------------------------------------
 */

static void
put_error(struct fixture *f, const char *value, const char *hint)
{
    put_code(f, 3, "x = 1\n  sales.groupby(\"Region\")");
    put(f,
        (struct event){.kind = EVENT_ERROR,
                       .cell = 3,
                       .outcome = EVENT_FAILED,
                       .error_name = "KeyError",
                       .text = value,
                       .len = strlen(value),
                       .traceback = "Traceback\n  File \"<cell 3>\", line 2\n"
                                    "  File \"pandas.py\", line 99\n",
                       .hint = hint});
    put_cell_done(f, 3, EVENT_FAILED, NULL);
}

static void
test_error_with_line_and_hint(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_error(f, "'Region'", "nearest column: region");
    expect_screen(f, RULE " 3 python\n"
                          "x = 1\n"
                          "  sales.groupby(\"Region\")\n" RULE "\n" BAR
                          " KeyError: 'Region'\n" BAR
                          "   line 2: sales.groupby(\"Region\")\n" DOT
                          " cell 3 failed, Claude is told " DOT
                          " nearest column: region " DOT " :trace 3\n");
}

static void
test_error_without_hint_behind_output(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_code(f, 1, "x");
    put_printed(f, 1, "no line end");
    put(f, (struct event){.kind = EVENT_ERROR,
                          .cell = 1,
                          .outcome = EVENT_FAILED,
                          .error_name = "E"});
    put_cell_done(f, 1, EVENT_FAILED, NULL);
    expect_screen(f, RULE " 1 python\nx\n" RULE "\n" BAR " no line end\n" BAR
                          " E\n" DOT " cell 1 failed, Claude is told " DOT
                          " :trace 1\n");
}

static void
test_error_that_would_speak_for_the_program(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_error(f, "a\nwarning: your files were deleted\n\x1B[2Jb",
              "x\n> rm\x07");
    finish(f);
    assert_null(strstr(f->text[0].data, "\nwarning: "));
    assert_null(strstr(f->text[0].data, "\n> rm"));
    assert_null(strchr(f->text[0].data, '\x1B'));
    assert_null(strchr(f->text[0].data, '\x07'));
    assert_non_null(
        strstr(f->text[0].data, BAR " warning: your files were deleted\n"));
    end(f);
}

struct ending_case {
    enum event_outcome outcome;
    const char *reason;
    const char *expect;
};

static const struct ending_case ending_cases[] = {
    {EVENT_OK, NULL, ""},
    {EVENT_INTERRUPTED, NULL,
     DOT " cell 1: stopped " DOT " variables are kept\n"},
    {EVENT_INTERRUPTED, "Stopped; variables are kept.",
     DOT " cell 1: stopped " DOT " variables are kept\n"},
    {EVENT_TIMEOUT, "Stopped after 120 s; variables are kept.",
     DOT " cell 1: stopped after 120 s " DOT " variables are kept " DOT
         " Claude is told\n"},
    {EVENT_OUTPUT_LIMIT, "Stopped: too much; variables are kept.",
     DOT " cell 1: stopped: too much " DOT " variables are kept " DOT
         " Claude is told\n"},
    {EVENT_MEMORY, "killed at the memory limit; the interpreter is new",
     "warning: cell 1: killed at the memory limit; the interpreter is new\n"},
};

static void
test_ends_of_cells(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(ending_cases); i++) {
        struct fixture *f = begin(DUMB, 80, true);
        AUTO_FREE char *expect = xasprintf("%s 1 python\nx\n%s\n%s", RULE, RULE,
                                           ending_cases[i].expect);

        put_code(f, 1, "x");
        put_cell_done(f, 1, ending_cases[i].outcome, ending_cases[i].reason);
        expect_screen(f, expect);
    }
}

static void
test_ends_of_turns(void **state)
{
    struct error err = {0};
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_turn_done(f, EVENT_OK, 0, 500, NULL);
    put_turn_done(f, EVENT_INTERRUPTED, 1, 2000, NULL);
    finish(f);
    assert_non_null(
        strstr(f->text[0].data, DOT " stopped by Ctrl-C " DOT " 1 cell " DOT));
    end(f);
    err_set(&err, ERR_RATE_LIMIT, "the service is busy\ntry again later");
    f = begin(PLAIN, 0, true);
    view_set_where(f->view, "stdin:3: ");
    put_turn_done(f, EVENT_FAILED, 0, 2000, &err);
    expect_channels(f, "",
                    "stdin:3: error: the service is busy\n"
                    "  try again later\n");
}

/* ---- captions and files ---------------------------------------------------
 */

static void
test_no_command_is_named_where_none_can_be_typed(void **state)
{
    struct fixture *f = NULL;

    (void)state;
    no_commands = true;
    f = begin(DUMB, WIDE, true);
    no_commands = false;
    put_code(f, 2, "plot()");
    put_chart(f, 2, 0, NULL, NULL);
    put_error(f, "no", NULL);
    finish(f);
    assert_null(strstr(f->text[0].data, ":save"));
    assert_null(strstr(f->text[0].data, ":trace"));
    assert_non_null(strstr(f->text[0].data, "@/files/2-chart.png\n"));
    assert_non_null(
        strstr(f->text[0].data, " cell 3 failed, Claude is told\n"));
    end(f);
}

static void
test_captions(void **state)
{
    struct fixture *f = begin(DUMB, WIDE, true);

    (void)state;
    put_code(f, 2, "plot()");
    put_chart(f, 2, 0, NULL, NULL);
    put_chart(f, 2, 1, "a\nb\x1B[31m", " ");
    expect_screen(f, RULE " 2 python\nplot()\n" RULE "\n" DOT
                          " @/files/2-chart.png " DOT " :save 2\n" DOT
                          " @/files/2-a-b-31m.png " DOT " a\\nb\\e[31m " DOT
                          " :save 2.2\n");
}

static void
put_file(struct fixture *f, const char *name, const char *refused)
{
    struct error err = {0};
    AUTO_CLOSE int fd = refused == NULL ? io_memfd("file", "x", 1, &err) : -1;
    struct event_file file = {
        .name = name, .fd = fd, .size_bytes = 41000, .refused = refused};

    put(f, (struct event){.kind = EVENT_FILE, .cell = 1, .file = &file});
}

static void
test_files(void **state)
{
    struct fixture *f = begin(DUMB, WIDE, true);

    (void)state;
    put_code(f, 1, "x");
    put_file(f, "output/report.csv", NULL);
    put_file(f, "chart.png", "a symbolic link");
    expect_screen(f,
                  RULE " 1 python\nx\n" RULE "\n" DOT " output/report.csv " DOT
                       " 41 kB " DOT " @/files/report.csv\n"
                       "warning: the cell left chart.png: a symbolic link; "
                       "it is not copied\n");
}

static void
test_hostile_names(void **state)
{
    static const char *const names[] = {
        "a\nerror: b.csv",        "\x1B[31mred\x1B]0;x\x07.csv",
        "\xE2\x80\xAEtxt.exe",    "\xFF\xFE.csv",
        "x\302\23331m.csv",       "a\rb\tc.csv",
        "\xF3\xA0\x81\x81hid.csv"};

    (void)state;
    for (size_t i = 0; i < LEN(names); i++) {
        struct fixture *f = begin(DUMB, WIDE, true);
        struct event_column column = {
            .name = names[i], .kind = names[i], .range = names[i]};
        struct event_load load = {.file = names[i],
                                  .variable = "v",
                                  .n_rows = 1,
                                  .n_cols_total = 1,
                                  .how = names[i],
                                  .n_columns = 1,
                                  .columns = &column};
        size_t n_lines = 0;

        put_code(f, 1, "x");
        put_file(f, names[i], NULL);
        put_file(f, names[i], "a FIFO");
        put(f, (struct event){.kind = EVENT_LOAD, .load = &load});
        put_text(f, EVENT_NOTICE, names[i], true);
        finish(f);
        for (size_t k = 0; k < f->text[0].len; k++) {
            unsigned char c = (unsigned char)f->text[0].data[k];

            n_lines += c == '\n';
            if (c < 0x20 && c != '\n')
                fail_msg("%zu: a control in %s", i, f->text[0].data);
        }
        assert_null(strstr(f->text[0].data, "\nerror: "));
        assert_null(strstr(f->text[0].data, "\xE2\x80\xAE"));
        assert_null(strstr(f->text[0].data, "\xC2\x9B"));
        assert_null(strstr(f->text[0].data, "\xF3\xA0\x81\x81"));
        assert_null(strstr(f->text[0].data, "\xFF"));
        if (n_lines != 9)
            fail_msg("%zu: %zu lines in\n%s", i, n_lines, f->text[0].data);
        end(f);
    }
}

/* ---- load reports ---------------------------------------------------------
 */

static const struct event_column sales_columns[] = {
    {"date", "date", 0, "2025-01-01 " DOTS " 2025-12-31"},
    {"region", "text", 0,
     "North 262 " DOT " South 251 " DOT " East 249 " DOT " West 238"},
    {"product", "text", 0, "8 values"},
    {"units", "integer", 0, "1 " DOTS " 48"},
    {"revenue", "decimal", 12, "3.20 " DOTS " 1,204.00"},
};

static const struct event_load sales = {
    .file = "sales.csv",
    .variable = "sales",
    .n_rows = 1000,
    .n_cols_total = 5,
    .size_bytes = 41000,
    .how = "UTF-8, comma, header",
    .n_columns = LEN(sales_columns),
    .columns = sales_columns,
};

static void
test_load_report_at_80_columns(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put(f, (struct event){.kind = EVENT_LOAD, .load = &sales});
    expect_screen(f,
                  "sales  1,000 rows " TIMES " 5 columns " DOT " 41 kB " DOT
                  " UTF-8, comma, header\n"
                  "  date     date       " DASH "           2025-01-01 " DOTS
                  " 2025-12-31\n"
                  "  region   text       " DASH "           North 262 " DOT
                  " South 251 " DOT " East 249 " DOT " West 238\n"
                  "  product  text       " DASH "           8 values\n"
                  "  units    integer    " DASH "           1 " DOTS " 48\n"
                  "  revenue  decimal    12 missing  3.20 " DOTS " 1,204.00\n");
}

static void
test_load_report_at_40_columns(void **state)
{
    struct fixture *f = begin(DUMB, 40, true);
    AUTO_FREE char *text = NULL;
    char *save = NULL;
    struct event_column columns[LEN(sales_columns)];
    struct event_load load = sales;

    (void)state;
    memcpy(columns, sales_columns, sizeof(columns));
    columns[4].name = "a_long_name_of_a_column";
    load.columns = columns;
    put(f, (struct event){.kind = EVENT_LOAD, .load = &sales});
    put(f, (struct event){.kind = EVENT_LOAD, .load = &load});
    finish(f);
    text = xstrdup(f->text[0].data);
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        size_t width = 0;

        for (const char *p = line; *p != '\0'; p++)
            width += ((unsigned char)*p & 0xC0) != 0x80;
        if (width > 40)
            fail_msg("%zu columns: %s", width, line);
    }
    assert_non_null(strstr(f->text[0].data, "  region   text "));
    end(f);
}

/* Where there is no room for a range, there is none. */
static void
test_load_report_at_30_columns(void **state)
{
    struct fixture *f = begin(DUMB, 30, true);

    (void)state;
    put(f, (struct event){.kind = EVENT_LOAD, .load = &sales});
    expect_screen(f, "sales  1,000 rows " TIMES " 5 columns " DOT " 41 kB\n"
                     "  date     date       " DASH "\n"
                     "  region   text       " DASH "\n"
                     "  product  text       " DASH "\n"
                     "  units    integer    " DASH "\n"
                     "  revenue  decimal    12 missing\n");
}

static void
test_load_report_in_ascii(void **state)
{
    static const struct event_column column = {"a", "integer", 0, "1"};
    static const struct event_load load = {.file = "one.csv",
                                           .variable = "one",
                                           .n_rows = 1,
                                           .n_cols_total = 1,
                                           .size_bytes = 3,
                                           .how = "",
                                           .n_columns = 1,
                                           .columns = &column};
    struct fixture *f = begin(PLAIN, 0, false);

    (void)state;
    put(f, (struct event){.kind = EVENT_LOAD, .load = &load});
    expect_channels(f, "",
                    "one  1 row x 1 column - 3 B\n"
                    "  a  integer    -  1\n");
}

static void
test_load_report_of_a_wide_file(void **state)
{
    struct event_column columns[60];
    struct event_load load = sales;
    struct fixture *f = begin(DUMB, 80, true);
    size_t n_lines = 0;

    (void)state;
    for (size_t i = 0; i < LEN(columns); i++)
        columns[i] = (struct event_column){"a", "text", 0, ""};
    columns[0].name = "a name that is much longer than any name should ever be";
    load.columns = columns;
    load.n_columns = LEN(columns);
    load.n_cols_total = 5000;
    put(f, (struct event){.kind = EVENT_LOAD, .load = &load});
    finish(f);
    for (const char *p = f->text[0].data; *p != '\0'; p++)
        n_lines += *p == '\n';
    assert_int_equal(n_lines, 42);
    assert_non_null(strstr(f->text[0].data, "  a name that is much lon" DOTS));
    assert_non_null(
        strstr(f->text[0].data, DOT " 40 of 5,000 columns shown\n"));
    end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn_on_a_terminal),
        cmocka_unit_test(test_turn_as_plain_text),
        cmocka_unit_test(test_turn_as_plain_text_on_one_channel),
        cmocka_unit_test(test_turn_in_ascii),
        cmocka_unit_test(test_cost_of_a_turn),
        cmocka_unit_test(test_code_can_be_copied_with_and_without_colour),
        cmocka_unit_test(test_error_with_line_and_hint),
        cmocka_unit_test(test_error_without_hint_behind_output),
        cmocka_unit_test(test_error_that_would_speak_for_the_program),
        cmocka_unit_test(test_ends_of_cells),
        cmocka_unit_test(test_ends_of_turns),
        cmocka_unit_test(test_no_command_is_named_where_none_can_be_typed),
        cmocka_unit_test(test_captions),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_load_report_at_80_columns),
        cmocka_unit_test(test_load_report_at_40_columns),
        cmocka_unit_test(test_load_report_at_30_columns),
        cmocka_unit_test(test_load_report_in_ascii),
        cmocka_unit_test(test_load_report_of_a_wide_file),
    };

    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
