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

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/secret.h"
#include "claude/transport.h"
#include "net/http.h"

#include "e2b_server.h"

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

/* Who is asked without one, and what may take its place. */

struct key_case {
    const char *name;
    const char *url;
    const char *key;
    const char *header;
    const char *value;
    bool expect;
    enum error_code expect_code;
};

static const struct key_case key_cases[] = {
    {"the vendor", NULL, NULL, NULL, NULL, true, ERR_NONE},
    {"the vendor, a key", NULL, "sk-x", NULL, NULL, false, ERR_NONE},
    {"the vendor, Authorization", NULL, NULL, "AUTHORIZATION", "Bearer x",
     false, ERR_NONE},
    {"the vendor, x-api-key", "https://api.anthropic.com/", NULL, "X-Api-Key",
     "x", false, ERR_NONE},
    {"the vendor, an empty one", NULL, NULL, "x-api-key", "", true, ERR_NONE},
    {"the vendor, another header", NULL, NULL, "X-Team", "data", true,
     ERR_NONE},
    {"a gateway", "https://example.org", NULL, NULL, NULL, true, ERR_NONE},
    {"a gateway, any header", "https://example.org", NULL, "X-Gateway", "t",
     false, ERR_NONE},
    {"a gateway, an empty header", "https://example.org", NULL, "X-Gateway", "",
     true, ERR_NONE},
    {"this machine", "http://127.0.0.1:11434", NULL, NULL, NULL, false,
     ERR_NONE},
    {"this machine, https", "https://localhost", NULL, NULL, NULL, false,
     ERR_NONE},
    {"this machine, a secret header", "http://[::1]:80", NULL, "Authorization",
     "Bearer x", false, ERR_NONE},
    {"looks like this machine", "https://localhost.example.org", NULL, NULL,
     NULL, true, ERR_NONE},
    {"another machine, http", "http://example.org", NULL, NULL, NULL, false,
     ERR_NONE},
    {"another machine, http, a plain header", "http://example.org", NULL,
     "X-Team", "data", false, ERR_NONE},
    {"another machine, http, Authorization", "http://example.org", NULL,
     "Authorization", "Bearer x", false, ERR_CONFIG},
    {"another machine, http, a key of its own", "http://example.org", NULL,
     "X-Gateway-Key", "x", false, ERR_CONFIG},
    {"another machine, http, a cookie", "http://example.org", NULL, "cookie",
     "x", false, ERR_CONFIG},
    {"another machine, http, an empty one", "http://example.org", NULL,
     "Authorization", "", false, ERR_NONE},
};

static void
test_transport_http_needs_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(key_cases); i++) {
        struct secret *key =
            key_cases[i].key != NULL
                ? secret_new(key_cases[i].key, strlen(key_cases[i].key))
                : NULL;
        struct secret *value =
            key_cases[i].header != NULL
                ? secret_new(key_cases[i].value, strlen(key_cases[i].value))
                : NULL;
        const struct http_extra_header header = {key_cases[i].header, value};
        const struct transport_http_config config = {
            .base_url = key_cases[i].url,
            .key = key,
            .headers = &header,
            .n_headers = key_cases[i].header != NULL ? 1 : 0};
        struct error err = {0};
        struct transport t = {0};

        if (transport_http_needs_key(&config) != key_cases[i].expect)
            fail_msg("%s: %d", key_cases[i].name, !key_cases[i].expect);
        (void)!transport_http(NULL, &config, &t, &err);
        if (err.code != key_cases[i].expect_code)
            fail_msg("%s: %s", key_cases[i].name, err.msg);
        transport_fini(&t);
        secret_free(key);
        secret_free(value);
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

/* --- what is billed --- */

struct client {
    struct loop *loop;
    struct error err;
    bool done;
};

static void
ignore_head(void *ctx, int status)
{
    (void)ctx;
    (void)status;
}

static void
ignore_body(void *ctx, const char *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
}

static void
on_done(void *ctx, const struct error *err)
{
    struct client *c = ctx;

    c->done = true;
    c->err = err != NULL ? *err : (struct error){0};
    loop_stop(c->loop);
}

static void
send_one(struct client *c, struct transport *t)
{
    static const struct transport_handlers on = {
        .on_head = ignore_head, .on_body = ignore_body, .on_done = on_done};
    const struct transport_request request = {
        .path = "/v1/messages", .body = "{}", .body_len = 2};
    struct error err = {0};

    c->done = false;
    assert_non_null(t->ops->start(t->impl, &request, &on, c, &err));
    loop_run(c->loop);
    assert_true(c->done);
}

/* libcurl would send it again, without a word, where a kept connection closes
   before an answer: the service may have read it, and bills each. */
static void
test_transport_http_sends_once(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /v1/messages", 200, "{}"),
        NO_ANSWER("POST /v1/messages", SERVER_CLOSES),
        ANSWER("POST /v1/messages", 200, "{}"),
    };
    struct client c = {0};
    struct server server;
    struct transport t = {0};
    struct http *http;
    AUTO_FREE char *url = NULL;
    struct error err = {0};

    (void)state;
    c.loop = loop_new(&err);
    assert_true(server_start(&server, c.loop));
    server_play(&server, script, LEN(script));
    url = xasprintf("http://127.0.0.1:%d", server.port);
    http = http_new(c.loop, &(struct http_config){0});
    assert_non_null(http);
    assert_int_equal(
        transport_http(http, &(struct transport_http_config){.base_url = url},
                       &t, &err),
        0);
    send_one(&c, &t);
    assert_int_equal(c.err.code, ERR_NONE);
    assert_int_equal(server.n_peers, 1);
    send_one(&c, &t);
    assert_int_equal(server.n_requests, 2);
    assert_int_equal(c.err.code, ERR_NET);
    assert_string_equal(c.err.msg,
                        "127.0.0.1 closed the connection without an answer");
    send_one(&c, &t);
    assert_int_equal(c.err.code, ERR_NONE);
    assert_int_equal(server.n_requests, 3);
    transport_fini(&t);
    http_free(http);
    server_stop(&server);
    loop_free(c.loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transport_http_addresses),
        cmocka_unit_test(test_transport_http_needs_key),
        cmocka_unit_test(test_transport_http_vendor),
        cmocka_unit_test(test_transport_http_sends_once),
    };

    return cmocka_run_group_tests_name("transport_http", tests, NULL, NULL);
}
