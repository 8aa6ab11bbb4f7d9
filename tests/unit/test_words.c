/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sbuf.h"
#include "ui/words.h"

static void
test_add(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        size_t used;
        size_t indent;
        size_t columns;
        const char *expect;
    } cases[] = {
        {"fits", "one two", 0, 2, 7, "one two\n"},
        {"one column less", "one two", 0, 2, 6, "one\n  two\n"},
        {"behind something", "one two", 4, 4, 10, "one\n    two\n"},
        {"several lines", "a b c d", 2, 2, 5, "a b\n  c d\n"},
        {"a long word stays whole", "aaaaaaaa b", 2, 2, 5, "aaaaaaaa\n  b\n"},
        {"no limit", "one two three", 9, 2, 0, "one two three\n"},
        {"blanks are one", "a   b", 0, 0, 80, "a b\n"},
        {"nothing", "", 3, 2, 5, "\n"},
        {"columns, not bytes", "\xC3\xA4\xC3\xA4 \xC3\xB6\xC3\xB6", 0, 0, 5,
         "\xC3\xA4\xC3\xA4 \xC3\xB6\xC3\xB6\n"},
        {"wide characters", "\xE8\xA1\xA8\xE8\xA1\xA8 x", 0, 0, 5,
         "\xE8\xA1\xA8\xE8\xA1\xA8\nx\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 1024);
        words_add(&sb, cases[i].text, cases[i].used, cases[i].indent,
                  cases[i].columns);
        if (strcmp(sb.data, cases[i].expect) != 0)
            fail_msg("%s: \"%s\"", cases[i].name, sb.data);
        sbuf_fini(&sb);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
