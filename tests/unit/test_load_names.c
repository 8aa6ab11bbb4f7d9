/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "load/load.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/str.h"

#define TEN "abcdefghij"

struct name_case {
    const char *file;
    const char *expect;
};

static const struct name_case name_cases[] = {
    {"sales.csv", "sales"},
    {"Sales Report 2025.csv", "Sales_Report_2025"},
    {"a  --  b.csv", "a_b"},
    {"2025.csv", "d_2025"},
    {"class.csv", "class_"},
    {"None.csv", "None_"},
    {"print.csv", "print_"},
    {"pd.csv", "pd_"},
    {"match.csv", "match_"},
    {".csv", "csv"},
    {".hidden.csv", "hidden"},
    {"noending", "noending"},
    {"x.tar.gz", "x"},
    {"sales.csv.gz", "sales"},
    {"sales.2025.csv.ZST", "sales_2025"},
    {"sales.gz", "sales"},
    {".csv.gz", "csv"},
    {"gz.csv", "gz"},
    {"Exception.csv", "Exception_"},
    {"-rf.csv", "rf"},
    {"__init__.csv", "init"},
    {"\xC3\xA9t\xC3\xA9.csv", "t"},
    {"\xE6\x97\xA5\xE6\x9C\xAC.csv", "data"},
    {"\xFF\xFE.csv", "data"},
    {"a\nb'c\"d.csv", "a_b_c_d"},
    {"...", "data"},
    {"", "data"},
    {"import os; os.system('x').csv", "import_os_os_system_x"},
    {TEN TEN TEN TEN TEN TEN TEN ".csv", TEN TEN TEN TEN TEN TEN "ab"},
    {"1" TEN TEN TEN TEN TEN TEN TEN ".csv", "d_1" TEN TEN TEN TEN TEN TEN "a"},
};

static void
check_all(void)
{
    for (size_t i = 0; i < LEN(name_cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 200);
        load_add_variable(&sb, name_cases[i].file);
        if (!sbuf_ok(&sb) || !str_eq(sb.data, name_cases[i].expect))
            fail_msg("%s: %s", name_cases[i].file, sb.data);
        if (!load_is_variable(sb.data))
            fail_msg("%s is no variable", sb.data);
        sbuf_fini(&sb);
    }
}

static void
test_add_variable_of_every_kind(void **state)
{
    (void)state;
    check_all();
}

struct variable_case {
    const char *name;
    bool expect;
};

static const struct variable_case variable_cases[] = {
    {"a", true},
    {"_", true},
    {"A1_b", true},
    {"print", true},
    {"matchx", true},
    {"", false},
    {"1a", false},
    {"a b", false},
    {"a-b", false},
    {"a.b", false},
    {"a\n", false},
    {"a=1;b", false},
    {"class", false},
    {"True", false},
    {"await", false},
    {"\xC3\xA9", false},
    {"a\xE9", false},
    {TEN TEN TEN TEN TEN TEN "abcd", true},
    {TEN TEN TEN TEN TEN TEN "abcde", false},
};

static void
test_is_variable(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(variable_cases); i++) {
        if (load_is_variable(variable_cases[i].name) !=
            variable_cases[i].expect)
            fail_msg("%s", variable_cases[i].name);
    }
}

/* All of Python's, which the compiler there would refuse. */
static void
test_no_keyword_is_a_variable(void **state)
{
    static const char WORDS[] =
        "False None True and as assert async await break class continue def "
        "del elif else except finally for from global if import in is lambda "
        "nonlocal not or pass raise return try while with yield";
    const char *p = WORDS;

    (void)state;
    while (*p != '\0') {
        size_t len = strcspn(p, " ");
        AUTO_FREE char *word = xstrndup(p, len);
        AUTO_FREE char *expect = xasprintf("%s_", word);
        AUTO_SBUF struct sbuf sb = {0};

        if (load_is_variable(word))
            fail_msg("%s", word);
        sbuf_init(&sb, 200);
        load_add_variable(&sb, word);
        assert_string_equal(sb.data, expect);
        p += len + (p[len] == ' ');
    }
}

/* Where letters above 0x7F are letters, they still make no identifier. */
static void
test_names_in_another_locale(void **state)
{
    static const char *const locales[] = {"en_US.ISO-8859-1", "de_DE",
                                          "C.UTF-8"};

    (void)state;
    for (size_t i = 0; i < LEN(locales); i++) {
        if (setlocale(LC_ALL, locales[i]) == NULL)
            continue;
        check_all();
        test_is_variable(NULL);
    }
    setlocale(LC_ALL, "C");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_variable_of_every_kind),
        cmocka_unit_test(test_is_variable),
        cmocka_unit_test(test_no_keyword_is_a_variable),
        cmocka_unit_test(test_names_in_another_locale),
    };

    return cmocka_run_group_tests_name("load_names", tests, NULL, NULL);
}
