/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Text that cells print and the program's own lines: what is cut, what is
 * broken, and what could be taken for the other.
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
#include "base/sbuf.h"
#include "model/event.h"
#include "model/output.h"
#include "model/sink.h"
#include "ui/app_internal.h"
#include "ui/command.h"
#include "ui/commands_internal.h"
#include "unit/view_session.h"

/* ---- long output ----------------------------------------------------------
 */

static void
test_a_thousand_lines_are_cut_with_a_count(void **state)
{
    static const size_t pieces[] = {1, 13, 1000, 1u << 20};
    AUTO_SBUF struct sbuf lines = {0};
    AUTO_SBUF struct sbuf expect = {0};

    (void)state;
    sbuf_init(&lines, MAX_SCREEN);
    sbuf_init(&expect, MAX_SCREEN);
    sbuf_add_str(&expect, RULE " 1 python\nx\n" RULE "\n");
    for (int i = 1; i <= 1000; i++) {
        sbuf_addf(&lines, "line %d\n", i);
        if (i == 201)
            sbuf_add_str(&expect, DOT " 750 lines of output left out here " DOT
                                      " :full 1\n");
        if (i <= 200 || i > 950)
            sbuf_addf(&expect, BAR " line %d\n", i);
    }
    for (size_t k = 0; k < LEN(pieces); k++) {
        struct fixture *f = begin(DUMB, 80, true);

        put_code(f, 1, "x");
        for (size_t at = 0; at < lines.len; at += pieces[k])
            put_output(f, 1, EVENT_STDOUT, lines.data + at,
                       lines.len - at < pieces[k] ? lines.len - at : pieces[k]);
        put_cell_done(f, 1, EVENT_OK, NULL);
        expect_screen(f, expect.data);
    }
}

static void
test_lines_that_just_fit_are_whole(void **state)
{
    static const int counts[] = {199, 200, 201, 250, 251};

    (void)state;
    for (size_t k = 0; k < LEN(counts); k++) {
        struct fixture *f = begin(DUMB, 80, true);
        size_t n = 0;

        put_code(f, 1, "x");
        for (int i = 0; i < counts[k]; i++)
            put_printed(f, 1, "a line\n");
        put_cell_done(f, 1, EVENT_OK, NULL);
        finish(f);
        for (const char *p = f->text[0].data;
             (p = strstr(p, BAR " a line\n")) != NULL; p++)
            n++;
        assert_int_equal(n, counts[k] < 250 ? counts[k] : 250);
        assert_int_equal(strstr(f->text[0].data, "left out") != NULL,
                         counts[k] > 250);
        end(f);
    }
}

/* However much comes without a line end, it is bounded and said. */
static void
test_output_without_line_ends(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);
    AUTO_FREE char *text = xmalloc(100000);

    (void)state;
    memset(text, 'x', 100000);
    put_code(f, 1, "x");
    for (int i = 0; i < 8; i++)
        put_output(f, 1, EVENT_STDOUT, text, 100000);
    put_cell_done(f, 1, EVENT_OK, NULL);
    finish(f);
    assert_true(f->text[0].len < 12000);
    assert_non_null(strstr(f->text[0].data, "bytes]"));
    end(f);
}

static void
test_two_streams_do_not_share_lines(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_code(f, 1, "x");
    put_output(f, 1, EVENT_STDOUT, "out", 3);
    put_output(f, 1, EVENT_STDERR, "err\n", 4);
    put_output(f, 1, EVENT_STDOUT, "more\n", 5);
    put_cell_done(f, 1, EVENT_OK, NULL);
    expect_screen(f, RULE " 1 python\nx\n" RULE "\n" BAR " out\n" BAR
                          " err\n" BAR " more\n");
}

static void
test_sequences_in_output_are_removed_and_counted(void **state)
{
    static const char TEXT[] = "\x1B]0;title\x07"
                               "a\x1B[2Jb\n\x1B[?1049hc\n";
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_code(f, 1, "x");
    put_printed(f, 1, TEXT);
    put_cell_done(f, 1, EVENT_OK, NULL);
    expect_screen(f, RULE " 1 python\nx\n" RULE "\n" BAR " ab\n" BAR " c\n" DOT
                          " 3 control sequences removed\n");
}

/* ---- text that looks like the program's -----------------------------------
 */

static void
test_lines_that_look_like_the_programs_are_shifted(void **state)
{
    static const char TEXT[] = "Well:\n> not the person\n" DOT
                               " no notice\nwarning: none\nerror: none\n" BAR
                               " 12 no output\n" RULE " 9 python\n"
                               "- a list\n>no mark\nwarnings: fine\n";
    static const char EXPECT[] =
        "Well:\n > not the person\n " DOT
        " no notice\n warning: none\n error: none\n " BAR
        " 12 no output\n " RULE " 9 python\n"
        "- a list\n>no mark\nwarnings: fine\n";

    (void)state;
    for (size_t piece = 1; piece <= 3; piece++) {
        struct fixture *f = begin(DUMB, 80, true);

        for (size_t at = 0; at < strlen(TEXT); at += piece) {
            size_t left = strlen(TEXT) - at;

            put(f, (struct event){.kind = EVENT_TEXT,
                                  .text = TEXT + at,
                                  .len = left < piece ? left : piece});
        }
        put_text(f, EVENT_TEXT, "", true);
        expect_screen(f, EXPECT);
    }
}

static void
test_first_line_that_looks_like_the_programs(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);

    (void)state;
    put_text(f, EVENT_TEXT, "\n  > not the person", true);
    put_text(f, EVENT_THINKING, "error: none", true);
    expect_screen(f, " > not the person\n\n error: none\n");
}

/* ---- the program's own ----------------------------------------------------
 */

/* A terminal would break lines anywhere, and what it puts at the left edge
   could read as the program's own. */
static void
test_long_lines_are_broken_at_words(void **state)
{
    struct fixture *f = begin(DUMB, 40, true);

    (void)state;
    put_text(f, EVENT_TEXT,
             "The total of all regions is 12,345.67 and "
             "warning: nothing of it is missing, not even here.\n"
             "  - an item",
             true);
    put_code(f, 1, "print('a line of code that is longer than forty columns')");
    put_printed(f, 1,
                "one two three four five six seven eight nine ten\n"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    put_cell_done(f, 1, EVENT_OK, NULL);
    view_warning(f->view, "the file %s cannot be saved: no space is left", "x");
    expect_screen(
        f, "The total of all regions is 12,345.67\n"
           "and warning: nothing of it is missing,\n"
           "not even here.\n"
           "  - an item\n"
           "\n" RULE " 1 python\n"
           "print('a line of code that is longer than forty "
           "columns')\n" RULE "\n" BAR
           " one two three four five six seven\n" BAR " eight nine ten\n" BAR
           " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" BAR " aaaaaaaaaa\n"
           "warning: the file x cannot be saved: no\n"
           "  space is left\n");
}

/* The mark would begin the second row. */
static void
test_broken_lines_cannot_speak_for_the_program(void **state)
{
    struct fixture *f = begin(DUMB, 40, true);

    (void)state;
    put_text(f, EVENT_TEXT, "aaaaaaaaaa bbbbbbbbbb cccccccccc ddddddd ", false);
    put_text(f, EVENT_TEXT, "error: no key", true);
    expect_screen(f, "aaaaaaaaaa bbbbbbbbbb cccccccccc ddddddd\n"
                     " error: no key\n");
}

/* As it runs, and when it is asked for again. */
static void
test_language_of_a_cell_is_in_its_head(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);
    struct app app = {.config = {.view = f->view, .recorder = f->recorder}};
    struct error err = {0};
    char first[] = "1";
    char second[] = "2";

    (void)state;
    put_code(f, 1, "a");
    put(f, (struct event){.kind = EVENT_CODE,
                          .cell = 2,
                          .text = "b",
                          .len = 1,
                          .language = "r"});
    assert_int_equal(cmd_code.run(&app, (char *[]){first}, 1, &err), CMD_OK);
    assert_int_equal(cmd_code.run(&app, (char *[]){second}, 1, &err), CMD_OK);
    expect_screen(f, RULE " 1 python\na\n" RULE "\n\n" RULE " 2 r\nb\n" RULE
                          "\n\n" RULE " 1 python\na\n" RULE "\n\n" RULE
                          " 2 r\nb\n" RULE "\n");
}

static void
test_own_lines(void **state)
{
    struct fixture *f = begin(DUMB, 80, true);
    struct error err = {0};

    (void)state;
    view_note(f->view, "note %d", 1);
    view_warning(f->view, "odd");
    err_set(&err, ERR_SANDBOX, "no cell can run\nfix: do this");
    view_error(f->view, &err);
    view_question(f->view, "What?");
    put_text(f, EVENT_TEXT, "That.", true);
    view_break(f->view);
    view_print(f->view, "a list\n");
    view_block(f->view, "Traceback\n  x");
    expect_screen(f, DOT " note 1\nwarning: odd\nerror: no cell can run\n"
                         "  fix: do this\n\n> What?\n\nThat.\na list\n" BAR
                         " Traceback\n" BAR "   x\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_lines_are_cut_with_a_count),
        cmocka_unit_test(test_lines_that_just_fit_are_whole),
        cmocka_unit_test(test_output_without_line_ends),
        cmocka_unit_test(test_two_streams_do_not_share_lines),
        cmocka_unit_test(test_sequences_in_output_are_removed_and_counted),
        cmocka_unit_test(test_lines_that_look_like_the_programs_are_shifted),
        cmocka_unit_test(test_first_line_that_looks_like_the_programs),
        cmocka_unit_test(test_long_lines_are_broken_at_words),
        cmocka_unit_test(test_broken_lines_cannot_speak_for_the_program),
        cmocka_unit_test(test_language_of_a_cell_is_in_its_head),
        cmocka_unit_test(test_own_lines),
    };

    return cmocka_run_group_tests_name("view_text", tests, NULL, NULL);
}
