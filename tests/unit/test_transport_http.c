/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/secret.h"
#include "claude/transport.h"

/* Where a key may go, and where it may not. */
static void
test_transport_http_addresses(void **state)
{
    static const struct {
        const char *name;
        const char *url;
        bool key;
        enum error_code expect_code;
    } cases[] = {
        {"https", "https://example.org", true, ERR_NONE},
        {"https with a path", "https://example.org/api/", true, ERR_NONE},
        {"the built-in one", NULL, true, ERR_NONE},
        {"this machine", "http://127.0.0.1:8080", true, ERR_NONE},
        {"this machine by name", "http://LOCALHOST/", true, ERR_NONE},
        {"this machine, IPv6", "http://[::1]:80/x", true, ERR_NONE},
        {"another machine", "http://example.org", true, ERR_CONFIG},
        {"looks like this one", "http://127.0.0.1.example.org", true,
         ERR_CONFIG},
        {"begins like this one", "http://localhost.evil", true, ERR_CONFIG},
        {"a name before the host", "http://localhost@example.org", true,
         ERR_CONFIG},
        {"another machine, no key", "http://example.org", false, ERR_NONE},
        {"no http", "ftp://example.org", true, ERR_USAGE},
        {"no scheme", "example.org", true, ERR_USAGE},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        struct transport t = {0};
        struct secret *key =
            cases[i].key ? secret_new("sk-test-0123456789", 18) : NULL;
        struct transport_http_config config = {.base_url = cases[i].url,
                                               .key = key};
        int rc = transport_http(NULL, &config, &t, &err);

        if (err.code != cases[i].expect_code)
            fail_msg("%s: code %d, not %d: %s", cases[i].name, (int)err.code,
                     (int)cases[i].expect_code, err.msg);
        assert_int_equal(rc, cases[i].expect_code == ERR_NONE ? 0 : -1);
        transport_fini(&t);
        secret_free(key);
    }
}

/* Who is held to the whole protocol. */
static void
test_transport_http_vendor(void **state)
{
    static const struct {
        const char *url;
        bool expect_foreign;
    } cases[] = {
        {NULL, false},
        {"https://api.anthropic.com", false},
        {"https://API.Anthropic.com:443/", false},
        {"https://anthropic.com/x", false},
        {"https://notanthropic.com", true},
        {"https://api.anthropic.com.example", true},
        {"https://example.org/anthropic.com", true},
        {"https://m.com", true},
        {"http://127.0.0.1:11434", true},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct transport t = {0};
        struct transport_http_config config = {.base_url = cases[i].url};

        assert_int_equal(transport_http(NULL, &config, &t, NULL), 0);
        if (t.is_foreign != cases[i].expect_foreign)
            fail_msg("%s", cases[i].url);
        transport_fini(&t);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transport_http_addresses),
        cmocka_unit_test(test_transport_http_vendor),
    };

    return cmocka_run_group_tests_name("transport_http", tests, NULL, NULL);
}
