/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/sbuf.h"

static void
test_add_of_any_length(void **state)
{
    static const struct {
        const char *text;
        const char *base64;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foobar", "Zm9vYmFy"},
                {"\xff\xfe\xfd", "//79"},
                {"\xfb\xef", "++8="}};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, 100);
        sbuf_add_char(&sb, '-');
        base64_add(&sb, rows[i].text, strlen(rows[i].text));
        assert_string_equal(sb.data + 1, rows[i].base64);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_of_any_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
