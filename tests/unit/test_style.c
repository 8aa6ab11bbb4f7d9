/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/style.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void
test_sgr_every_style_is_parameters(void **state)
{
    (void)state;
    for (int i = 0; i <= STYLE_PROMPT; i++) {
        const char *sgr = style_sgr((enum style)i);

        assert_non_null(sgr);
        assert_true(sgr[0] >= '0' && sgr[0] <= '9');
        assert_int_equal(strspn(sgr, "0123456789;"), strlen(sgr));
    }
}

/* What must be told apart at a glance is not written alike; code is plain, so
   that it can be copied with its looks. */
static void
test_sgr_voices_differ(void **state)
{
    (void)state;
    assert_string_equal(style_sgr(STYLE_PLAIN), "0");
    assert_string_equal(style_sgr(STYLE_CODE), "0");
    assert_string_equal(style_sgr(STYLE_DIM), "2");
    assert_string_equal(style_sgr(STYLE_STRONG), "1");
    assert_string_not_equal(style_sgr(STYLE_WARNING), style_sgr(STYLE_FAILURE));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgr_every_style_is_parameters),
        cmocka_unit_test(test_sgr_voices_differ),
    };

    return cmocka_run_group_tests_name("style", tests, NULL, NULL);
}
