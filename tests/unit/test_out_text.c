/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Text from outside: what becomes of it on each kind of screen, and where its
 * lines are broken.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/out.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "unit/out_screen.h"

#define BAR "\xE2\x94\x82"
#define DASHES "\xE2\x94\x80\xE2\x94\x80"
#define DOT "\xC2\xB7"

static const struct screen_kind ascii = {"ascii", true, true, false, false};

/* --- text from outside --- */

struct text_case {
    const char *name;
    const struct screen_kind *kind;
    struct out_stream stream;
    const char *text;
    const char *expect;
};

static const struct text_case text_cases[] = {
    {"model", &full, {0}, "one\ntwo", "one\ntwo\n"},
    {"nothing", &full, {0}, "", ""},
    {"escape", &full, {0}, "a\033[31mb\n", "a^[[31mb\n"},
    {"style",
     &full,
     {.style = STYLE_DIM},
     "a\n\nb",
     "\033[0;2ma\033[0m\n\033[0;2m\033[0m\n\033[0;2mb\033[0m\n"},
    {"style without colour", &mono, {.style = STYLE_DIM}, "a\n", "a\n"},
    {"margin",
     &full,
     {.context = SANITIZE_PROGRAM, .margin = BAR " "},
     "a\nb",
     "\033[0;2m" BAR " \033[0ma\n\033[0;2m" BAR " \033[0mb\n"},
    {"margin without colour",
     &mono,
     {.context = SANITIZE_PROGRAM, .margin = BAR " "},
     "\033[31ma\n\nb",
     BAR " a\n" BAR " \n" BAR " b\n"},
    {"colour of a program",
     &full,
     {.context = SANITIZE_PROGRAM, .margin = "| "},
     "\033[31ma\nb",
     "\033[0;2m| \033[0m\033[0;31ma\033[0m\n"
     "\033[0;2m| \033[0m\033[0;31mb\033[0m\n"},
    {"restart",
     &mono,
     {.context = SANITIZE_PROGRAM, .margin = "| "},
     "50%\r60%\rdone\n",
     "| 50%" ERASE "| 60%" ERASE "| done\n"},
    {"restart on a dumb terminal",
     &dumb,
     {.context = SANITIZE_PROGRAM, .margin = "| "},
     "50%\r60%\n",
     "| 50%\n| 60%\n"},
    {"restart in a pipe",
     &plain,
     {.context = SANITIZE_PROGRAM, .margin = "| "},
     "\033[1m50%\r60%\n",
     "| 50%\n| 60%\n"},
    {"marks",
     &full,
     {.shift_marks = true},
     "> a\n" DOT " b\nwarning: c\nerror: d\n" BAR "e\n" DASHES "f\n>g\n"
     "warning\n\n| h\n-- i\nx > y\n",
     " > a\n " DOT " b\n warning: c\n error: d\n " BAR "e\n " DASHES "f\n>g\n"
     "warning\n\n| h\n-- i\nx > y\n"},
    {"marks with another space",
     &full,
     {.shift_marks = true},
     ">\xC2\xA0"
     "a\nerror:\xE2\x80\x83"
     "b\n",
     " >\xC2\xA0"
     "a\n error:\xE2\x80\x83"
     "b\n"},
    {"marks of ASCII",
     &ascii,
     {.shift_marks = true},
     "| h\n-- i\n- j\n> k\n",
     " | h\n -- i\n- j\n > k\n"},
    {"a mark that does not end",
     &full,
     {.shift_marks = true},
     "warning:",
     "warning:\n"},
    {"no marks wanted", &full, {0}, "> a\n", "> a\n"},
    {"cut",
     &mono,
     {.max_columns = 4},
     "abcdefg\nabcd\n\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\n",
     "abcd...[+3 bytes]\nabcd\n\xE6\x97\xA5\xE6\x9C\xAC...[+3 bytes]\n"},
    {"cut in colour",
     &full,
     {.context = SANITIZE_PROGRAM, .max_columns = 2},
     "\033[31mabcd\033[32mef\ngh\n",
     "\033[0;31mab\033[0m...[+4 bytes]\n\033[0;32mgh\033[0m\n"},
    {"cut and written again",
     &mono,
     {.context = SANITIZE_PROGRAM, .max_columns = 2},
     "abcd\ref\n",
     "ab" ERASE "ef\n"},
    {"letters that the terminal does not have",
     &ascii,
     {0},
     "Z\xC3\xBCrich \xE6\x97\xA5\xDB\x9B[31m\n",
     "Z?rich ??[31m\n"},
};

static void
run_text_case(const struct text_case *c, size_t piece)
{
    struct screen s;
    struct out_stream stream = c->stream;
    size_t len = strlen(c->text);

    open_screen(&s, c->kind);
    for (size_t i = 0; i < len; i += piece)
        out_text(s.out, &stream, c->text + i,
                 len - i < piece ? len - i : piece);
    out_text_end(s.out, &stream);
    assert_false(stream.in_line);
    if (strcmp(settle(&s), c->expect) != 0)
        fail_msg("%s, pieces of %zu: \"%s\", not \"%s\"", c->name, piece,
                 s.got.data, c->expect);
    close_screen(&s);
}

static void
test_text_whole_and_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(text_cases) / sizeof(text_cases[0]); i++) {
        for (size_t piece = 1; piece < 6; piece++)
            run_text_case(&text_cases[i], piece);
        run_text_case(&text_cases[i], 1000);
    }
}

static void
test_text_longest_line(void **state)
{
    struct screen s;
    struct out_stream stream = {0};
    static char line[30001];
    const char *got;

    (void)state;
    memset(line, 'x', sizeof(line) - 1);
    open_screen(&s, &mono);
    out_text(s.out, &stream, line, strlen(line));
    out_text_end(s.out, &stream);
    got = settle(&s);
    assert_int_equal(strspn(got, "x"), 10000);
    assert_string_equal(got + 10000, "...[+20000 bytes]\n");
    close_screen(&s);
}

/* The answer is not cut where a script reads it; all else is, as before. */
static void
test_text_of_the_answer_is_whole_for_scripts(void **state)
{
    static const struct {
        struct out_stream stream;
        bool whole;
    } cases[] = {
        {{0}, true},
        {{.channel = OUT_SIDE}, false},
        {{.context = SANITIZE_PROGRAM}, false},
        {{.max_columns = 10000}, false},
    };
    static char line[30001];

    (void)state;
    memset(line, 'x', sizeof(line) - 1);
    for (size_t i = 0; i < LEN(cases); i++) {
        struct screen s;
        struct out_stream stream = cases[i].stream;
        const struct sbuf *got;

        open_screen(&s, &plain);
        out_text(s.out, &stream, line, strlen(line));
        out_text_end(s.out, &stream);
        settle(&s);
        got = stream.channel == OUT_MAIN ? &s.got : &s.side;
        assert_int_equal(strspn(got->data, "x"),
                         cases[i].whole ? 30000 : 10000);
        assert_string_equal(got->data + strspn(got->data, "x"),
                            cases[i].whole ? "\n" : "...[+20000 bytes]\n");
        close_screen(&s);
    }
}

/* --- lines that are broken --- */

#define TEN "0123456789"
#define NI "\xE6\x97\xA5"

/* 20 columns. */
static const struct text_case wrap_cases[] = {
    {"at words",
     &mono,
     {.wrap = true},
     "one two three four five six\n",
     "one two three four\nfive six\n"},
    {"a word that ends at the edge",
     &mono,
     {.wrap = true},
     TEN " 123456789 x\n",
     TEN " 123456789\nx\n"},
    {"blanks at the break are dropped",
     &mono,
     {.wrap = true},
     TEN " 123456789      x\n",
     TEN " 123456789\nx\n"},
    {"blanks at the edge before a long word",
     &mono,
     {.wrap = true},
     TEN "        " TEN TEN "x\n",
     TEN "        01\n2345678901234567"
         "89x\n"},
    {"blanks at the beginning stay",
     &mono,
     {.wrap = true},
     "    one two three four five\n",
     "    one two three\nfour five\n"},
    {"blanks in between stay", &mono, {.wrap = true}, "a   b\n", "a   b\n"},
    {"long words are cut hard",
     &mono,
     {.wrap = true},
     "a " TEN TEN TEN TEN "b c\n",
     "a 012345678901234567\n89012345678901234567\n89b c\n"},
    {"the rest of a long word is no word",
     &mono,
     {.wrap = true},
     TEN TEN TEN TEN "x\n",
     TEN TEN "\n" TEN TEN "\nx\n"},
    {"margin",
     &mono,
     {.context = SANITIZE_PROGRAM, .margin = BAR " ", .wrap = true},
     "one two three four five\nsix\n",
     BAR " one two three four\n" BAR " five\n" BAR " six\n"},
    {"colour goes on",
     &full,
     {.context = SANITIZE_PROGRAM, .margin = "| ", .wrap = true},
     "\033[31mone two three four five\n",
     "\033[0;2m| \033[0m\033[0;31mone two three four\033[0m\n"
     "\033[0;2m| \033[0m\033[0;31mfive\033[0m\n"},
    {"style goes on",
     &full,
     {.style = STYLE_DIM, .wrap = true},
     "one two three four five\n",
     "\033[0;2mone two three four\033[0m\n\033[0;2mfive\033[0m\n"},
    {"blanks keep their colour",
     &full,
     {.context = SANITIZE_PROGRAM, .wrap = true},
     "\033[41m  \033[0m|\n",
     "\033[0;41m  \033[0m|\n"},
    {"wide characters",
     &mono,
     {.wrap = true},
     NI NI NI NI NI NI NI NI NI "a" NI NI NI "\n",
     NI NI NI NI NI NI NI NI NI "a\n" NI NI NI "\n"},
    {"wide words",
     &mono,
     {.wrap = true},
     TEN " " NI NI NI NI " " NI NI "\n",
     TEN " " NI NI NI NI "\n" NI NI "\n"},
    {"what adds no column stays",
     &mono,
     {.wrap = true},
     TEN TEN "\xCC\x81"
             "x\n",
     TEN TEN "\xCC\x81\nx\n"},
    {"tabs",
     &mono,
     {.context = SANITIZE_PROGRAM, .wrap = true},
     "a\tb\tcccc\tdd\n",
     "a\tb\tcccc\ndd\n"},
    {"marks at a break",
     &mono,
     {.shift_marks = true, .wrap = true},
     "one two three four5 > x\none two three four error: x\n",
     "one two three four5\n > x\none two three four\n error: x\n"},
    {"marks at a hard break",
     &mono,
     {.shift_marks = true, .wrap = true},
     TEN TEN DASHES DASHES "\n" TEN TEN BAR "\n" TEN TEN "warning: x\n",
     TEN TEN "\n " DASHES DASHES "\n" TEN TEN "\n " BAR "\n" TEN TEN
             "\n warning: x\n"},
    {"what is no mark behind a hard break",
     &mono,
     {.shift_marks = true, .wrap = true},
     TEN TEN "a> x\n" TEN TEN "a" DASHES "\n",
     TEN TEN "\na> x\n" TEN TEN "\na" DASHES "\n"},
    {"marks behind blanks that are dropped",
     &mono,
     {.shift_marks = true, .wrap = true},
     TEN TEN "\xC2\xA0> x\n",
     TEN TEN "\n > x\n"},
    {"cut over breaks",
     &mono,
     {.max_columns = 28, .wrap = true},
     TEN " " TEN " " TEN "\n",
     TEN "\n" TEN "\n01234567\n...[+2 bytes]\n"},
    {"restart",
     &mono,
     {.context = SANITIZE_PROGRAM, .margin = "| ", .wrap = true},
     "one two   \rthree\n",
     "| one two" ERASE "| three\n"},
    {"not in a pipe",
     &plain,
     {.wrap = true},
     TEN " " TEN " " TEN "  \n",
     TEN " " TEN " " TEN "  \n"},
};

static const char *
show(struct screen *s, const struct screen_kind *kind, struct out_stream stream,
     const char *text, size_t piece)
{
    size_t len = strlen(text);

    open_screen(s, kind);
    out_set_size(s->out, 20, 24);
    for (size_t i = 0; i < len; i += piece)
        out_text(s->out, &stream, text + i, len - i < piece ? len - i : piece);
    out_text_end(s->out, &stream);
    return settle(s);
}

static void
test_wrap(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(wrap_cases); i++) {
        const struct text_case *c = &wrap_cases[i];
        struct screen s;

        if (strcmp(show(&s, c->kind, c->stream, c->text, 1000), c->expect) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", c->name, s.got.data, c->expect);
        close_screen(&s);
    }
}

/* Words that are whole when they come give the same rows as the whole text. */
static void
test_wrap_in_words(void **state)
{
    static const char text[] =
        "the quick brown fox > jumps   over the lazy dog; " NI NI NI NI
        " error: none so far, and > that\n is   all there  is to say.\n";
    struct screen whole;
    struct screen words;
    struct out_stream stream = {.shift_marks = true, .wrap = true};

    (void)state;
    for (int columns = 20; columns < 40; columns++) {
        struct out_stream s = stream;

        show(&whole, &mono, stream, "", 1);
        show(&words, &mono, stream, "", 1);
        out_set_size(whole.out, columns, 24);
        out_set_size(words.out, columns, 24);
        out_text(whole.out, &stream, text, strlen(text));
        out_text_end(whole.out, &stream);
        for (size_t i = 0; text[i] != '\0';) {
            size_t n = strcspn(text + i, " \n");

            n = n > 0 ? n : 1;
            out_text(words.out, &s, text + i, n);
            i += n;
        }
        out_text_end(words.out, &s);
        settle(&whole);
        settle(&words);
        assert_string_equal(words.got.data, whole.got.data);
        close_screen(&whole);
        close_screen(&words);
    }
}

/* In pieces a word may be broken, but no row is too wide. */
static void
check_rows(const struct text_case *c, size_t piece)
{
    struct screen s;
    const char *got = show(&s, c->kind, c->stream, c->text, piece);

    while (*got != '\0') {
        size_t n = strcspn(got, "\n");
        size_t width = 0;

        for (size_t i = 0; i < n;) {
            uint32_t cp;
            bool ok;
            size_t len = utf8_decode(got + i, n - i, &cp, &ok);

            if (got[i] == '\r')
                width = 0;
            if (got[i] == '\033')
                len = strcspn(got + i, "mK") + 1;
            else if (got[i] == '\t')
                width += 8 - width % 8;
            else if (got[i] != '\r')
                width += (size_t)utf8_cp_width(cp);
            i += len;
        }
        if (width > 20)
            fail_msg("%s, pieces of %zu: %zu columns", c->name, piece, width);
        got += n + 1;
    }
    close_screen(&s);
}

static void
test_wrap_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(wrap_cases); i++) {
        for (size_t piece = 1; piece < 8 && wrap_cases[i].kind->terminal;
             piece++)
            check_rows(&wrap_cases[i], piece);
    }
}

/* The counters go on over ends, and a line goes on when it was not ended. */
static void
test_text_counts(void **state)
{
    struct screen s;
    struct out_stream stream = {.context = SANITIZE_PROGRAM};

    (void)state;
    open_screen(&s, &mono);
    out_text(s.out, &stream, "a\rb\033]0;x\007", 9);
    assert_true(stream.in_line);
    out_text_end(s.out, &stream);
    out_text(s.out, &stream, "c\rd\n", 4);
    assert_false(stream.in_line);
    out_text_end(s.out, &stream);
    assert_int_equal(stream.san.n_restarts, 2);
    assert_int_equal(stream.san.n_dropped, 1);
    assert_string_equal(settle(&s), "a" ERASE "b\nc" ERASE "d\n");
    close_screen(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_whole_and_in_pieces),
        cmocka_unit_test(test_text_longest_line),
        cmocka_unit_test(test_text_of_the_answer_is_whole_for_scripts),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_wrap_in_words),
        cmocka_unit_test(test_wrap_in_pieces),
        cmocka_unit_test(test_text_counts),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("out_text", tests, NULL, NULL);
}
