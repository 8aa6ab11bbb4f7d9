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
#include "model/event.h"
#include "model/output.h"
#include "model/table.h"

#define HEAD "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"

static void
test_output_png_size(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t len;
        bool expect_ok;
        int expect_width;
        int expect_height;
    } cases[] = {
        {"small", HEAD "\0\0\2\200\0\0\1\340", 24, true, 640, 480},
        {"huge", HEAD "\0\0\xfd\xe8\0\0\xfd\xe8", 24, true, 65000, 65000},
        {"no width", HEAD "\0\0\0\0\0\0\1\340", 24, false, 0, 0},
        {"no height", HEAD "\0\0\1\0\0\0\0\0", 24, false, 0, 0},
        {"negative", HEAD "\x80\0\0\0\0\0\1\0", 24, false, 0, 0},
        {"cut", HEAD "\0\0\2\200\0\0\1", 23, false, 0, 0},
        {"signature", "\x88PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0", 24,
         false, 0, 0},
        {"other chunk", "\x89PNG\r\n\x1a\n\0\0\0\rIDAT\0\0\1\0\0\0\1\0", 24,
         false, 0, 0},
        {"chunk length", "\x89PNG\r\n\x1a\n\0\0\0\016IHDR\0\0\1\0\0\0\1\0", 24,
         false, 0, 0},
        {"empty", "", 0, false, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        /* Its own memory, so that a read behind the end is seen. */
        unsigned char *copy = xmemdup(cases[i].bytes, cases[i].len);
        int width = 0;
        int height = 0;

        if (output_png_size(copy, cases[i].len, &width, &height) !=
                cases[i].expect_ok ||
            width != cases[i].expect_width || height != cases[i].expect_height)
            fail_msg("%s: %d x %d", cases[i].name, width, height);
        free(copy);
    }
    assert_false(output_png_size(NULL, 100, NULL, NULL));
}

static void
test_output_free_takes_all(void **state)
{
    struct output *o = xcalloc(1, sizeof(*o));

    (void)state;
    o->text = xstrdup("text");
    o->table = table_new(1, 1, 0);
    o->png = xmalloc(3);
    o->title = xstrdup("title");
    o->what = xstrdup("what");
    output_free(o);
    output_free(NULL);
}

static void
test_event_names(void **state)
{
    (void)state;
    assert_string_equal(event_kind_name(EVENT_QUESTION), "question");
    assert_string_equal(event_kind_name(EVENT_DONE), "done");
    assert_string_equal(event_outcome_name(EVENT_FAILED), "error");
    assert_string_equal(event_outcome_name(EVENT_OUTPUT_LIMIT), "output_limit");
    for (int i = EVENT_OK; i <= EVENT_LIMIT; i++)
        assert_int_equal(event_outcome_lost((enum event_outcome)i),
                         i == EVENT_KILLED || i == EVENT_DIED ||
                             i == EVENT_MEMORY);
    for (int i = EVENT_QUESTION; i <= EVENT_DONE; i++)
        assert_non_null(event_kind_name((enum event_kind)i));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_png_size),
        cmocka_unit_test(test_output_free_takes_all),
        cmocka_unit_test(test_event_names),
    };

    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
