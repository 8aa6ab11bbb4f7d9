/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/command.h"

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

struct split_case {
    const char *text;
    const char *expect[6];
};

static const struct split_case split_cases[] = {
    {"", {NULL}},
    {" \t\r\n\v\f ", {NULL}},
    {":load a.csv", {":load", "a.csv"}},
    {"  a\tb \n c\vd\fe ", {"a", "b", "c", "d", "e"}},
    {"'a b' \"c d\"", {"a b", "c d"}},
    {"a' 'b\" \"c", {"a b c"}},
    {"a\\ b \\'c", {"a b", "'c"}},
    {"'a\\b'", {"a\\b"}},
    {"\"a\\n\\t\\\"\\\\\\101\\377\"", {"a\n\t\"\\A\377"}},
    {"\"\\400\\9\"",
     {"400"
      "9"}},
    {"'' \"\"", {"", ""}},
    {"a\\", {"a\\"}},
    {"~", {"/home/x"}},
    {"~/a\\ b", {"/home/x/a b"}},
    {"~/'a b'", {"/home/x/a b"}},
    {"'~/a' \\~ a~", {"~/a", "~", "a~"}},
    {"\xC3\xA9 \xFF", {"\xC3\xA9", "\xFF"}},
    {"a\xC2\xA0"
     "b",
     {"a\xC2\xA0"
      "b"}},
    {"it\"'\"s 'a\"b'", {"it's", "a\"b"}},
};

static void
test_split_of_every_kind(void **state)
{
    (void)state;
    setenv("HOME", "/home/x", 1);
    for (size_t i = 0; i < LEN(split_cases); i++) {
        const struct split_case *t = &split_cases[i];
        struct error err = {0};
        char **words = NULL;
        size_t n = 0;

        if (command_split(t->text, &words, &n, &err) < 0)
            fail_msg("%s: %s", t->text, err.msg);
        for (size_t k = 0; k <= n; k++) {
            const char *word = k < n ? words[k] : NULL;

            if (!str_eq(word, t->expect[k]))
                fail_msg("%s: word %zu is %s", t->text, k,
                         word != NULL ? word : "missing");
        }
        command_free_words(words, n);
    }
}

static void
test_split_refuses(void **state)
{
    static const char *const texts[] = {"'a",      "\"a",         "a 'b c",
                                        "\"a\\\"", "\"a\\000b\"", "x \""};

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        struct error err = {0};
        char **words = NULL;
        size_t n = 0;

        if (command_split(texts[i], &words, &n, &err) == 0)
            fail_msg("%s", texts[i]);
        assert_int_equal(err.code, ERR_USAGE);
        command_free_words(words, n);
    }
}

static void
test_split_of_a_word_that_is_too_long(void **state)
{
    AUTO_FREE char *text = xmalloc(70001);
    struct error err = {0};
    char **words = NULL;
    size_t n = 0;

    (void)state;
    memset(text, 'x', 70000);
    text[70000] = '\0';
    assert_int_equal(command_split(text, &words, &n, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    command_free_words(words, n);
}

static void
expect_round_trip(const char *word)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};
    char **words = NULL;
    size_t n = 0;

    sbuf_init(&sb, 4096);
    sbuf_add_str(&sb, "x ");
    command_add_quoted(&sb, word);
    sbuf_add_str(&sb, " y");
    if (command_split(sb.data, &words, &n, &err) < 0)
        fail_msg("%s: %s", sb.data, err.msg);
    if (n != 3 || !str_eq(words[1], word))
        fail_msg("%s: %zu words", sb.data, n);
    command_free_words(words, n);
}

static void
test_add_quoted_is_read_back(void **state)
{
    static const char *const words[] = {
        "",        "plain",   "a b",   " a",   "a'b",   "a\"b",     "a\\b",
        "~/x",     "a~",      "a\nb",  "\t",   "\v",    "\x1B[31m", "\x7F",
        "-rf",     "\\",      "\\n",   "\"\"", "'",     "\xC3\xA9", "\xFF\xFE",
        "a\00123", ":load x", "$HOME", "`x`",  "*.csv",
    };

    (void)state;
    for (size_t i = 0; i < LEN(words); i++)
        expect_round_trip(words[i]);
    for (int c = 1; c < 256; c++) {
        char one[2] = {(char)c, '\0'};
        char three[4] = {'a', (char)c, '7', '\0'};

        expect_round_trip(one);
        expect_round_trip(three);
    }
}

static void
test_table_of_commands(void **state)
{
    static const char *const names[] = {
        "load",     "files",    "code",   "full",    "save",
        "trace",    "thinking", "cost",   "budget",  "retry",
        "help",     "quit",     "vars",   "sandbox", "restart",
        "snapshot", "restore",  "doctor", "replay"};
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < LEN(names); i++) {
        const struct command *cmd = command_find(names[i]);

        assert_non_null(cmd);
        assert_string_equal(cmd->name, names[i]);
        assert_true(cmd->min_words <= cmd->max_words);
        assert_non_null(cmd->run);
        assert_false(str_blank(cmd->help));
        assert_int_equal(cmd->max_words == 0, cmd->arguments[0] == '\0');
    }
    while (command_at(n) != NULL)
        n++;
    assert_int_equal(n, LEN(names));
    assert_null(command_find("loa"));
    assert_null(command_find(""));
    assert_null(command_find(":load"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_of_every_kind),
        cmocka_unit_test(test_split_refuses),
        cmocka_unit_test(test_split_of_a_word_that_is_too_long),
        cmocka_unit_test(test_add_quoted_is_read_back),
        cmocka_unit_test(test_table_of_commands),
    };

    return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
