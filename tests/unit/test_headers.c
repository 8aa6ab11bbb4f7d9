/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/config_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "config/config.h"

struct headers_case {
    const char *name;
    const char *text;
    const char *expect;     /* "name=value;" for each; NULL: refused */
    const char *expect_msg; /* a part of it */
};

static const struct headers_case headers_cases[] = {
    {"none", "", "", NULL},
    {"blank lines", "\n \r\n\t\n", "", NULL},
    {"two", "A: 1\nB:2", "A=1;B=2;", NULL},
    {"space around", "  X-A :\t v w \r\n", "X-A=v w;", NULL},
    {"colons in the value", "A:b:c", "A=b:c;", NULL},
    {"an empty value", "A:\nB: ", "A=;B=;", NULL},
    {"the later one counts", "X-A: 1\nB: 2\nx-a: 3", "x-a=3;B=2;", NULL},
    {"not ASCII", "A: \xC3\xA9", "A=\xC3\xA9;", NULL},
    {"no colon", "A: 1\n\nsecret", NULL, "line 3 has no colon"},
    {"no name", " : secret", NULL, "line 1 begins with no header's name"},
    {"two words", "A b: secret", NULL, "line 1 begins with no header's name"},
    {"a name that is no token", "A(b): secret", NULL, "line 1 begins"},
    {"a control character", "A: sec\x01ret", NULL, "control character"},
    {"delete", "A: secret\x7F", NULL, "control character"},
    {"the program's own", "A: 1\nContent-LENGTH: 5", NULL,
     "line 2: Content-LENGTH is set by the program alone"},
    {"compression", "accept-encoding: gzip", NULL, "accept-encoding"},
};

static void
test_read_headers_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(headers_cases); i++) {
        const struct headers_case *t = &headers_cases[i];
        struct config c = {0};
        struct error err = {0};
        struct sbuf sb;
        int rc = config_read_headers(&c, t->text, &err);

        sbuf_init(&sb, 4096);
        for (size_t k = 0; k < c.n_headers; k++)
            sbuf_addf(&sb, "%s=%s;", c.headers[k].name,
                      secret_expose(c.headers[k].value));
        if (rc != (t->expect != NULL ? 0 : -1) ||
            (t->expect != NULL && strcmp(sb.data, t->expect) != 0) ||
            (t->expect == NULL && (err.code != ERR_CONFIG ||
                                   strstr(err.msg, t->expect_msg) == NULL ||
                                   strstr(err.msg, "secret") != NULL)))
            fail_msg("%s: %s %s", t->name, sb.data, err.msg);
        sbuf_fini(&sb);
        config_free_headers(&c);
    }
}

static void
test_read_headers_without_end(void **state)
{
    struct config c = {0};
    struct error err = {0};
    struct sbuf sb;

    (void)state;
    sbuf_init(&sb, 4096);
    for (int i = 0; i < 65; i++)
        sbuf_addf(&sb, "x-%d: y\n", i);
    assert_int_equal(config_read_headers(&c, sb.data, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    sbuf_fini(&sb);
    config_free_headers(&c);
}

/* A value may be a secret, and children and crash reports see the
   environment. */
static void
test_the_variable_is_taken_away(void **state)
{
    static const char *const texts[] = {"X: 1", "refused"};

    (void)state;
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("ANTHROPIC_BASE_URL");
    for (size_t i = 0; i < LEN(texts); i++) {
        struct config c;
        struct error err = {0};

        config_init(&c);
        setenv("ANTHROPIC_CUSTOM_HEADERS", texts[i], 1);
        assert_int_equal(config_read_rest(&c, &err), i == 0 ? 0 : -1);
        assert_null(getenv("ANTHROPIC_CUSTOM_HEADERS"));
        assert_int_equal(c.n_headers, i == 0 ? 1 : 0);
        config_fini(&c);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_headers_cases),
        cmocka_unit_test(test_read_headers_without_end),
        cmocka_unit_test(test_the_variable_is_taken_away),
    };

    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
