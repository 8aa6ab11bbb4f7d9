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

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/e2b_lines_internal.h"
#include "sandbox/e2b_result_internal.h"
#include "sandbox/sandbox.h"

#define MAX_OUTPUT_BYTES 100u

/* Signature and header of a PNG of 640 x 480, of 320 x 480, and of 65,000 x
   65,000. */
#define PNG "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"
#define PNG_SPACED "iVBORw0KGgoAAAANSUhE\\nUgAA \\tAoAAAAHg\\r\\n"
#define PNG_OTHER "iVBORw0KGgoAAAANSUhEUgAAAUAAAAHg"
#define PNG_HUGE "iVBORw0KGgoAAAANSUhEUgAA/egAAP3o"

#define TABLE                                                                  \
    "{\"rows\":1,\"cols\":1,\"columns\":[{\"name\":\"a\",\"type\":\"int64\","  \
    "\"kind\":\"integer\"}],\"index\":[],\"head\":[[7]],\"tail\":[],"          \
    "\"cols_left_out\":0,\"truncated_cells\":false}"
#define WRONG_TABLE "{\"rows\":9,\"columns\":[],\"head\":[]}"

#define COUNT "{\"type\":\"number_of_executions\",\"execution_count\":3}\n"
#define END "{\"type\":\"end_of_execution\"}\n"
#define KEEPALIVE "{\"type\":\"keepalive\"}\n"
#define RESULT(members)                                                        \
    "{\"type\":\"result\"," members ",\"extra\":{},\"is_main_result\":false}"  \
    "\n"
#define OWN_ERROR                                                              \
    "{\"type\":\"error\",\"name\":\"KeyError\",\"value\":\"'x'\","             \
    "\"traceback\":\"KeyError: 'x'\"}\n"
#define SERVER_ERROR(name)                                                     \
    "{\"type\":\"error\",\"name\":\"" name                                     \
    "\",\"value\":\"Context was restarted\",\"traceback\":\"\"}\n"

static void
on_begin(void *ctx)
{
    sbuf_add_str(ctx, "begin|");
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    assert_true(len > 0);
    sbuf_add_str(ctx, stream == EVENT_STDOUT ? "out:" : "err:");
    sbuf_add(ctx, data, len);
    sbuf_add_char(ctx, '|');
}

static void
on_output(void *ctx, const struct output *out)
{
    struct sbuf *sb = ctx;

    sbuf_addf(sb, "%s %d", out->is_result ? "result" : "display", out->index);
    if (out->png != NULL)
        sbuf_addf(sb, " %dx%d", out->width_px, out->height_px);
    if (out->table != NULL)
        sbuf_addf(sb, " table:%s", table_at(out->table, 0, 0)->text);
    if (out->text != NULL)
        sbuf_addf(sb, " text:%s", out->text);
    if (out->title != NULL)
        sbuf_addf(sb, " title:%s", out->title);
    if (out->what != NULL)
        sbuf_addf(sb, " what:%s", out->what);
    sbuf_add_char(sb, '|');
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    assert_string_equal(kind, "limit");
    sbuf_addf(ctx, "note:%s|", text);
}

static const struct sandbox_cell_handlers handlers = {
    .on_begin = on_begin,
    .on_bytes = on_bytes,
    .on_output = on_output,
    .on_note = on_note,
};

static int
take(void *ctx, const struct e2b_line *line)
{
    e2b_result_take(ctx, line);
    return 0;
}

/* Feeds an answer, cut once; out gets what the handlers were told. */
static void
play(struct e2b_cell_result *r, const char *text, size_t cut, struct sbuf *out)
{
    struct e2b_lines l;
    struct error err = {0};
    size_t len = strlen(text);
    size_t first = cut < len ? cut : len;

    e2b_lines_init(&l, 0);
    e2b_result_init(r, MAX_OUTPUT_BYTES, &handlers, out);
    if (e2b_lines_feed(&l, text, first, take, r, &err) != 0 ||
        e2b_lines_feed(&l, text + first, len - first, take, r, &err) != 0)
        fail_msg("%s: %s", text, err.msg);
    assert_int_equal(e2b_lines_finish(&l, take, r), 0);
    e2b_lines_fini(&l);
}

static void
test_what_handlers_are_told(void **state)
{
    static const struct {
        const char *text;
        const char *expect;
    } cases[] = {
        {KEEPALIVE KEEPALIVE KEEPALIVE, ""},
        {COUNT KEEPALIVE END, "begin|"},
        {"{\"type\":\"stdout\",\"text\":\"go\\n\",\"timestamp\":\"x\"}\n"
         "{\"type\":\"stderr\",\"text\":\"no\"}\n",
         "begin|out:go\n|err:no|"},
        {"{\"type\":\"stdout\",\"text\":\"\"}\n", "begin|"},
        {"{\"type\":\"stdout\",\"text\":7}\n{\"type\":\"stdout\"}\n", "begin|"},
        {"{\"type\":\"stdout\",\"text\":\"a\\u0000\\ud83d\\ude00\\ud800b\"}\n",
         "begin|out:a\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd"
         "b|"},
        {"{\"type\":\"a new type\",\"text\":\"x\"}\n{\"type\":7}\n{}\n"
         "{\"type\":\"RESULT\",\"text\":\"x\"}\n",
         ""},
        {END "{\"type\":\"stdout\",\"text\":\"late\"}\n", ""},
        {RESULT("\"text\":\"6\"") "{\"type\":\"result\",\"text\":\"42\","
                                  "\"is_main_result\":true}\n",
         "begin|display 0 text:6|result 1 text:42|"},
        {RESULT("\"png\":\"" PNG "\",\"text\":\"<Figure>\""),
         "begin|display 0 640x480 text:<Figure>|"},
        {RESULT("\"png\":\"" PNG_SPACED "\""), "begin|display 0 640x480|"},
        {RESULT("\"png\":\"" PNG "\"") RESULT("\"png\":\"" PNG_OTHER "\"")
             RESULT("\"png\":\"" PNG "\\n\",\"text\":\"again\"")
                 RESULT("\"text\":\"x\""),
         "begin|display 0 640x480|display 1 320x480|display 2 text:x|"},
        {RESULT("\"png\":\"" PNG_HUGE "\",\"text\":\"t\""),
         "begin|display 0 text:t|note:a picture of 65000 x 65000 pixels was "
         "left out: at most 8388608 pixels in all|"},
        {RESULT("\"png\":\"<svg/>\""),
         "begin|note:a picture that is no PNG of at most 8 MiB was left out|"},
        {RESULT("\"jpeg\":\"/9j/\",\"text\":\"<Image>\""),
         "begin|display 0 text:<Image>|note:a JPEG picture was left out: only "
         "PNG is shown|"},
        {RESULT("\"jpeg\":\"/9j/\",\"png\":\"" PNG "\""),
         "begin|display 0 640x480|"},
        {RESULT("\"text\":\"<IPython.core.display.Markdown object>\","
                "\"markdown\":\"*hi*\""),
         "begin|display 0 text:*hi*|"},
        {RESULT("\"text\":\"<IPython.core.display.Math object>\","
                "\"latex\":\"$x$\""),
         "begin|display 0 text:$x$|"},
        {RESULT("\"text\":\"<IPython.core.display.JSON object>\","
                "\"json\":{\"a\":[1,null]}"),
         "begin|display 0 text:{\"a\":[1,null]}|"},
        {RESULT("\"text\":\"<IPython.core.display.HTML object>\","
                "\"html\":\"<b>x</b>\""),
         "begin|display 0 text:<IPython.core.display.HTML object>|"},
        {RESULT("\"text\":\"[1]\",\"json\":[1]"), "begin|display 0 text:[1]|"},
        {RESULT("\"html\":\"<b>x</b>\",\"svg\":\"<svg/>\",\"javascript\":\"x\","
                "\"pdf\":\"eA==\""),
         "begin|"},
        {RESULT("\"text\":\"frame\",\"data\":{\"a\":[1,2],\"head\":[3,4]}"),
         "begin|display 0 text:frame|"},
        {RESULT("\"text\":\"frame\",\"data\":" TABLE),
         "begin|display 0 table:7 text:frame|"},
        {RESULT("\"text\":\"frame\",\"data\":" WRONG_TABLE),
         "begin|display 0 text:frame|note:a table that contradicts itself was "
         "left out|"},
        {RESULT("\"json\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"),
         "begin|note:something that was shown was left out: it has no text, "
         "and more values than are kept|"},
        {RESULT("\"text\":\"t\",\"json\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"),
         "begin|display 0 text:t|"},
        {"{\"type\":\"result\",\"extra\":{\"application/"
         "x-table.v1+json\":" TABLE "}}\n",
         "begin|display 0 table:7|"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        for (size_t cut = 0; cut <= strlen(cases[i].text); cut++) {
            AUTO_SBUF struct sbuf out = {0};
            struct e2b_cell_result r;

            sbuf_init(&out, 1 << 20);
            play(&r, cases[i].text, cut, &out);
            if (strcmp(out.data, cases[i].expect) != 0)
                fail_msg("%s: %s", cases[i].text, out.data);
            assert_false(r.flooded);
            e2b_result_fini(&r);
        }
}

static void
test_chart_is_described(void **state)
{
    static const struct {
        const char *chart;
        const char *expect; /* behind the picture */
    } cases[] = {
        {"{}", ""},
        {"[]", ""},
        {"{\"type\":\"line\",\"title\":\"Sales\\nof 2024\",\"x_label\":\"day\","
         "\"y_label\":null,\"elements\":[{\"label\":\"a\",\"points\":[[0,1]]}]"
         "}",
         " title:Sales of 2024 what:1 line, x: day"},
        {"{\"type\":\"scatter\",\"title\":null,\"elements\":[{\"points\":[[0,1]"
         ","
         "[1,\"nan\"]]},{\"points\":[[2,3]]},{}],\"x_label\":\" \","
         "\"y_label\":\"price\"}",
         " what:scatter, 3 points, y: price"},
        {"{\"type\":\"bar\",\"title\":\"\",\"elements\":[{},{}]}",
         " what:bar chart, 2 bars"},
        {"{\"type\":\"pie\",\"elements\":[{},{},{}]}",
         " what:pie chart, 3 slices"},
        {"{\"type\":\"box_and_whisker\",\"elements\":[{}]}",
         " what:box plot, 1 box"},
        {"{\"type\":\"superchart\",\"title\":\"All\",\"elements\":[{},{}]}",
         " title:All what:2 charts"},
        {"{\"type\":\"line\",\"elements\":{\"a\":1}}", ""},
        {"{\"type\":\"unknown\",\"elements\":[]}", ""},
        {"{\"type\":7,\"title\":7}", ""},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_SBUF struct sbuf out = {0};
        AUTO_FREE char *text = xasprintf(
            RESULT("\"png\":\"" PNG "\",\"chart\":%s"), cases[i].chart);
        AUTO_FREE char *expect =
            xasprintf("begin|display 0 640x480%s|", cases[i].expect);
        struct e2b_cell_result r;

        sbuf_init(&out, 4096);
        play(&r, text, 0, &out);
        assert_string_equal(out.data, expect);
        e2b_result_fini(&r);
    }
}

static void
test_how_it_ended(void **state)
{
    static const struct {
        const char *text;
        enum e2b_end expect_end;
        int expect_rc;
        enum event_outcome expect;
        const char *expect_name; /* NULL: none */
    } cases[] = {
        {"", E2B_END_OPEN, -1, EVENT_OK, NULL},
        {KEEPALIVE KEEPALIVE, E2B_END_OPEN, -1, EVENT_OK, NULL},
        {COUNT, E2B_END_OPEN, -1, EVENT_OK, NULL},
        {COUNT OWN_ERROR, E2B_END_OPEN, -1, EVENT_OK, NULL},
        {COUNT "{\"type\":\"end_of_exec", E2B_END_OPEN, -1, EVENT_OK, NULL},
        {COUNT "{\"type\":\"end_of_execution\"}", E2B_END_OK, 0, EVENT_OK,
         NULL},
        {COUNT END, E2B_END_OK, 0, EVENT_OK, NULL},
        {COUNT OWN_ERROR END, E2B_END_OK, 0, EVENT_FAILED, "KeyError"},
        {COUNT OWN_ERROR
         "{\"type\":\"error\",\"name\":\"Second\",\"value\":\"\","
         "\"traceback\":\"x\"}\n" END,
         E2B_END_OK, 0, EVENT_FAILED, "KeyError"},
        {COUNT "{\"type\":\"error\"}\n" END, E2B_END_OK, 0, EVENT_FAILED, NULL},
        {SERVER_ERROR("UnexpectedEndOfExecution") END, E2B_END_LOST, 0,
         EVENT_DIED, NULL},
        {SERVER_ERROR("UnexpectedEndOfExecution"), E2B_END_LOST, 0, EVENT_DIED,
         NULL},
        {COUNT SERVER_ERROR("ContextRestarting") END, E2B_END_LOST, 0,
         EVENT_DIED, NULL},
        {COUNT SERVER_ERROR("WebSocketError") END, E2B_END_LOST, 0, EVENT_DIED,
         NULL},
        {COUNT OWN_ERROR SERVER_ERROR("ContextRestarting") END, E2B_END_LOST, 0,
         EVENT_DIED, NULL},
        {COUNT SERVER_ERROR("ContextRestarting")
             SERVER_ERROR("ExecutionAborted") END,
         E2B_END_LOST, 0, EVENT_DIED, NULL},
        {COUNT "{\"type\":\"unexpected_end_of_execution\"}\n", E2B_END_LOST, 0,
         EVENT_DIED, NULL},
        {COUNT "{\"type\":\"unexpected_end_of_execution\"}\n" END, E2B_END_LOST,
         0, EVENT_DIED, NULL},
        {SERVER_ERROR("ExecutionAborted") END, E2B_END_NOT_RUN, 0,
         EVENT_INTERRUPTED, NULL},
        {SERVER_ERROR("ExecutionAborted"), E2B_END_OPEN, -1, EVENT_OK, NULL},
        /* A class of that name that a cell has made. */
        {COUNT "{\"type\":\"error\",\"name\":\"ContextRestarting\","
               "\"value\":\"\",\"traceback\":\"ContextRestarting\"}\n" END,
         E2B_END_OK, 0, EVENT_FAILED, "ContextRestarting"},
        {COUNT SERVER_ERROR("KeyError") END, E2B_END_OK, 0, EVENT_FAILED,
         "KeyError"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_SBUF struct sbuf out = {0};
        struct sandbox_outcome outcome = {0};
        struct error err = {0};
        struct e2b_cell_result r;
        bool is_lost = cases[i].expect_end == E2B_END_LOST;

        sbuf_init(&out, 4096);
        play(&r, cases[i].text, i, &out);
        if (e2b_result_end(&r) != cases[i].expect_end)
            fail_msg("%s: %d", cases[i].text, (int)e2b_result_end(&r));
        assert_int_equal(e2b_result_outcome(&r, &outcome, &err),
                         cases[i].expect_rc);
        assert_int_equal(err.code, cases[i].expect_rc < 0 ? ERR_NET : ERR_NONE);
        assert_int_equal(outcome.outcome, cases[i].expect);
        assert_int_equal(outcome.variables_lost, is_lost);
        if (is_lost)
            assert_non_null(strstr(outcome.reason, SANDBOX_LOST_TEXT));
        if (cases[i].expect_name == NULL)
            assert_null(outcome.error_name);
        else
            assert_string_equal(outcome.error_name, cases[i].expect_name);
        e2b_result_fini(&r);
    }
}

#define RULE "---------------------------------------------------------------"
#define TITLE "ValueError   Traceback (most recent call last)"

static void
test_traceback_is_mended(void **state)
{
    static const struct {
        const char *trace;
        const char *expect; /* NULL: none */
    } cases[] = {
        {"", NULL},
        {" \\n", NULL},
        {RULE TITLE "Cell In[2], line 1\\n----> 1 f()\\n\\nValueError: bad x",
         RULE "\n" TITLE
              "\nCell In[2], line 1\n----> 1 f()\n\nValueError: bad x"},
        {RULE TITLE "Cell In[2], line 1\\n----> 1 f(----)ValueError: bad x",
         RULE "\n" TITLE
              "\nCell In[2], line 1\n----> 1 f(----)\nValueError: bad x"},
        {RULE "\\n" TITLE "\\nCell In[2]\\nValueError: bad x",
         RULE "\n" TITLE "\nCell In[2]\nValueError: bad x"},
        {RULE "\\n" TITLE "Cell In[2]\\nValueError: bad x",
         RULE "\n" TITLE "\nCell In[2]\nValueError: bad x"},
        {RULE "ValueError: bad x", RULE "\nValueError: bad x"},
        {TITLE "ValueError: bad x", TITLE "\nValueError: bad x"},
        {"Traceback (most recent call last):\\n  File\\nValueError: bad x",
         "Traceback (most recent call last):\n  File\nValueError: bad x"},
        {"x\\nmy.module.ValueError: bad x", "x\nmy.module.ValueError: bad x"},
        {"x\\nMyValueError: bad x", "x\nMyValueError: bad x"},
        {"ValueError: bad x", "ValueError: bad x"},
        {"one) ValueError: bad x", "one) \nValueError: bad x"},
        {"a\\nb\\nc)ValueError: bad x", "a\nb\nc)\nValueError: bad x"},
        {RULE, RULE},
        {"--- short", "--- short"},
        {TITLE, TITLE},
        {"a\\nb\\nc\\n" TITLE "d", "a\nb\nc\n" TITLE "d"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_SBUF struct sbuf out = {0};
        AUTO_FREE char *text = xasprintf(
            "{\"type\":\"error\",\"name\":\"ValueError\",\"value\":\"bad x\","
            "\"traceback\":\"%s\"}\n" END,
            cases[i].trace);
        struct sandbox_outcome outcome = {0};
        struct e2b_cell_result r;

        sbuf_init(&out, 4096);
        play(&r, text, 0, &out);
        assert_int_equal(e2b_result_outcome(&r, &outcome, NULL), 0);
        assert_string_equal(outcome.error_value, "bad x");
        if (cases[i].expect == NULL)
            assert_null(outcome.traceback);
        else
            assert_string_equal(outcome.traceback, cases[i].expect);
        e2b_result_fini(&r);
    }
}

static void
test_error_is_bounded(void **state)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_SBUF struct sbuf out = {0};
    struct sandbox_outcome outcome = {0};
    struct e2b_cell_result r;

    (void)state;
    sbuf_init(&out, 4096);
    sbuf_init(&text, 8u << 20);
    sbuf_add_str(&text, "{\"type\":\"error\",\"name\":\"n");
    sbuf_add_repeat(&text, 'x', 1u << 20);
    sbuf_add_str(&text, "\",\"value\":\"");
    sbuf_add_repeat(&text, 'x', 1u << 20);
    sbuf_add_str(&text, "\",\"traceback\":\"");
    sbuf_add_repeat(&text, '-', 1u << 20);
    sbuf_add_str(&text, "\"}\n" END);
    play(&r, text.data, 0, &out);
    assert_int_equal(e2b_result_outcome(&r, &outcome, NULL), 0);
    assert_int_equal(strlen(outcome.error_name), SANDBOX_MAX_NAME_BYTES);
    assert_int_equal(strlen(outcome.error_value), SANDBOX_MAX_VALUE_BYTES);
    assert_int_equal(strlen(outcome.traceback), SANDBOX_MAX_TRACE_BYTES);
    e2b_result_fini(&r);
}

static void
test_limit_of_output(void **state)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_SBUF struct sbuf out = {0};
    struct sandbox_outcome outcome = {0};
    struct e2b_cell_result r;

    (void)state;
    sbuf_init(&out, 4096);
    sbuf_init(&text, 4096);
    for (size_t i = 0; i < 3; i++) {
        sbuf_add_str(&text, "{\"type\":\"stdout\",\"text\":\"");
        sbuf_add_repeat(&text, 'x', 60);
        sbuf_add_str(&text, "\"}\n");
    }
    sbuf_add_str(&text, RESULT("\"text\":\"late\"") END);
    play(&r, text.data, 0, &out);
    assert_true(r.flooded);
    assert_int_equal(out.len, strlen("begin|out:|out:|") + MAX_OUTPUT_BYTES);
    assert_int_equal(e2b_result_outcome(&r, &outcome, NULL), 0);
    assert_int_equal(outcome.output_dropped_bytes, 80);
    e2b_result_fini(&r);
}

/* How many displays come of n results, each with a text or a picture of its
   own. */
static void
check_count(size_t n, bool pictures, size_t expect, bool expect_flood)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_cell_result r;
    size_t n_shown = 0;

    sbuf_init(&out, 1u << 20);
    sbuf_init(&text, 1u << 20);
    for (size_t i = 0; i < n; i++) {
        sbuf_add_str(&text, "{\"type\":\"result\",");
        if (pictures)
            sbuf_addf(&text, "\"png\":\"" PNG "%04zu\"}\n", i);
        else
            sbuf_addf(&text, "\"text\":\"%zu\"}\n", i);
    }
    sbuf_add_str(&text, END);
    play(&r, text.data, 0, &out);
    for (const char *at = out.data; (at = strstr(at, "display ")) != NULL; at++)
        n_shown++;
    assert_int_equal(n_shown, expect);
    assert_int_equal(r.flooded, expect_flood);
    assert_int_equal(e2b_result_end(&r), E2B_END_OK);
    e2b_result_fini(&r);
}

static void
test_limit_of_displays(void **state)
{
    (void)state;
    check_count(SANDBOX_MAX_IMAGES, true, SANDBOX_MAX_IMAGES, false);
    check_count(SANDBOX_MAX_IMAGES + 1, true, SANDBOX_MAX_IMAGES, true);
    check_count(SANDBOX_MAX_EVENTS, false, SANDBOX_MAX_EVENTS, false);
    check_count(SANDBOX_MAX_EVENTS + 5, false, SANDBOX_MAX_EVENTS, true);
}

static void
test_line_that_was_too_long(void **state)
{
    struct e2b_line line = {.len = E2B_LINES_MAX_BYTES};
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_cell_result r;

    (void)state;
    sbuf_init(&out, 4096);
    e2b_result_init(&r, MAX_OUTPUT_BYTES, &handlers, &out);
    e2b_result_take(&r, &line);
    assert_string_equal(out.data,
                        "note:something of over 12 MiB that was printed or "
                        "shown at once was left out|");
    e2b_result_take(&r, &line);
    assert_false(r.flooded);
    e2b_result_take(&r, &line);
    assert_true(r.flooded);
    e2b_result_fini(&r);
}

static void
test_count_of_the_interpreter(void **state)
{
    AUTO_SBUF struct sbuf out = {0};
    struct e2b_cell_result r;

    (void)state;
    sbuf_init(&out, 4096);
    play(&r, END, 0, &out);
    assert_int_equal(r.count, 0);
    e2b_result_fini(&r);
    play(&r, COUNT END, 0, &out);
    assert_int_equal(r.count, 3);
    e2b_result_fini(&r);
    play(&r, "{\"type\":\"number_of_executions\",\"execution_count\":-1}\n" END,
         0, &out);
    assert_int_equal(r.count, 0);
    e2b_result_fini(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_handlers_are_told),
        cmocka_unit_test(test_chart_is_described),
        cmocka_unit_test(test_how_it_ended),
        cmocka_unit_test(test_traceback_is_mended),
        cmocka_unit_test(test_error_is_bounded),
        cmocka_unit_test(test_limit_of_output),
        cmocka_unit_test(test_limit_of_displays),
        cmocka_unit_test(test_line_that_was_too_long),
        cmocka_unit_test(test_count_of_the_interpreter),
    };

    return cmocka_run_group_tests_name("e2b_result", tests, NULL, NULL);
}
