/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/multipart.h"

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

#define TYPE "multipart/form-data; boundary="

struct name_case {
    const char *name;
    const char *expect;
};

static const struct name_case name_cases[] = {
    {"plain.csv", "plain.csv"},
    {"", ""},
    {"/tmp/job/revenue 2026.csv", "/tmp/job/revenue 2026.csv"},
    {"a\"b.csv", "a%22b.csv"},
    {"\"\"", "%22%22"},
    {"a\r\nX-Evil: 1\r\n\r\nb", "a%0D%0AX-Evil: 1%0D%0A%0D%0Ab"},
    {"back\\slash%22", "back\\slash%22"},
    {"\xC3\xA4\xE2\x82\xAC.csv", "\xC3\xA4\xE2\x82\xAC.csv"},
};

static void
test_head_and_tail(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(name_cases); i++) {
        const struct name_case *c = &name_cases[i];
        struct multipart m = {0};
        struct error err = {0};
        AUTO_FREE char *head = NULL;
        AUTO_FREE char *tail = NULL;
        const char *boundary;

        assert_int_equal(multipart_init(&m, c->name, &err), 0);
        assert_int_equal(strncmp(m.content_type, TYPE, strlen(TYPE)), 0);
        boundary = m.content_type + strlen(TYPE);
        head = xasprintf("--%s\r\nContent-Disposition: form-data; "
                         "name=\"file\"; filename=\"%s\"\r\n"
                         "Content-Type: application/octet-stream\r\n\r\n",
                         boundary, c->expect);
        tail = xasprintf("\r\n--%s--\r\n", boundary);
        assert_string_equal(m.head, head);
        assert_int_equal(m.head_len, strlen(head));
        assert_string_equal(m.tail, tail);
        assert_int_equal(m.tail_len, strlen(tail));
        multipart_fini(&m);
        assert_null(m.head);
    }
}

static void
test_long_name_is_whole(void **state)
{
    size_t len = 5000;
    char *name = xcalloc(1, len + 1);
    struct multipart m = {0};
    struct error err = {0};

    (void)state;
    memset(name, '"', len);
    assert_int_equal(multipart_init(&m, name, &err), 0);
    assert_true(m.head_len > 3 * len);
    assert_string_equal(m.head + m.head_len - 4, "\r\n\r\n");
    multipart_fini(&m);
    free(name);
}

static void
test_boundaries(void **state)
{
    struct multipart a = {0};
    struct multipart b = {0};
    struct error err = {0};
    const char *text;

    (void)state;
    assert_int_equal(multipart_init(&a, "x", &err), 0);
    assert_int_equal(multipart_init(&b, "x", &err), 0);
    assert_string_not_equal(a.content_type, b.content_type);
    /* What a header may hold without quotes, and not more than RFC 2046
       allows. */
    text = a.content_type + strlen(TYPE);
    assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                     strlen(text));
    assert_true(strlen(text) >= 32 && strlen(text) <= 70);
    multipart_fini(&a);
    multipart_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_and_tail),
        cmocka_unit_test(test_long_name_is_whole),
        cmocka_unit_test(test_boundaries),
    };

    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
