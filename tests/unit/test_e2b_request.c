/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/secret.h"
#include "net/http.h"
#include "sandbox/e2b_wire_internal.h"

#define PLAIN "e2b.example"

struct url_case {
    const char *form;
    const char *id;
    int port;
    const char *domain;
    const char *expect_url; /* NULL: refused */
    enum error_code expect_code;
};

static const struct url_case url_cases[] = {
    {NULL, "i7k", 49983, PLAIN, "https://49983-i7k.e2b.example", ERR_NONE},
    {"", "i7k", 8080, "a.b:8443", "https://8080-i7k.a.b:8443", ERR_NONE},
    {"https://sandbox.{domain}/", "i7k", 1, PLAIN,
     "https://sandbox.e2b.example", ERR_NONE},
    {"http://127.0.0.1:3000/s/{id}/{port}//", "i7k", 49999, PLAIN,
     "http://127.0.0.1:3000/s/i7k/49999", ERR_NONE},
    {"http://[::1]:3000/{id}{id}", "a", 49999, PLAIN, "http://[::1]:3000/aa",
     ERR_NONE},
    {"http://localhost:{port}", "a", 65535, "localhost",
     "http://localhost:65535", ERR_NONE},
    {NULL, "", 1, PLAIN, NULL, ERR_PROTOCOL},
    {NULL, "A", 1, PLAIN, NULL, ERR_PROTOCOL},
    {NULL, "a.evil.example/", 1, PLAIN, NULL, ERR_PROTOCOL},
    {NULL, "a-b", 1, PLAIN, NULL, ERR_PROTOCOL},
    {NULL, "{domain}", 1, PLAIN, NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a/b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a@b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a:b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a:0", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a:65536", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a:", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a..b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, ".a", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a.", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "-a", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a?b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a#b", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "a%41", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "\xc3\xa4.example", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "{id}", NULL, ERR_PROTOCOL},
    {NULL, "a", 1, "1.2.3.4.5", NULL, ERR_PROTOCOL},
    {NULL, "a", 0, PLAIN, NULL, ERR_CONFIG},
    {NULL, "a", 65536, PLAIN, NULL, ERR_CONFIG},
    {"ftp://{domain}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"{domain}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{host}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{id", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://x}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://user:pw@{domain}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{domain}/?p={port}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{domain}/#{port}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{domain}\\{port}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https:// {domain}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https:///{domain}", "a", 1, PLAIN, NULL, ERR_CONFIG},
    {"https://{domain}:{port}", "a", 1, "a:1", NULL, ERR_CONFIG},
};

static void
test_sandbox_url(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(url_cases); i++) {
        const struct url_case *c = &url_cases[i];
        struct error err = {0};
        AUTO_FREE char *url =
            e2b_sandbox_url(c->form, c->id, c->port, c->domain, &err);

        if ((url == NULL) != (c->expect_url == NULL) ||
            (url != NULL && strcmp(url, c->expect_url) != 0) ||
            err.code != c->expect_code) {
            fail_msg("row %zu: %s, %s", i, url != NULL ? url : "(none)",
                     err.msg);
        }
    }
}

/* A domain may not be longer than its place in a description. */
static void
test_domain_as_long_as_may_be(void **state)
{
    char text[E2B_MAX_DOMAIN_BYTES + 8];
    struct e2b_sandbox s;

    (void)state;
    for (size_t i = 0; i < E2B_MAX_DOMAIN_BYTES; i++) {
        text[i] = i % 64 == 63 ? '.' : 'a';
    }
    memcpy(text + E2B_MAX_DOMAIN_BYTES, ":65535", 7);
    assert_true(e2b_is_domain(text));
    assert_true(strlen(text) < sizeof(s.domain));
    memcpy(text + E2B_MAX_DOMAIN_BYTES, "a", 2);
    assert_false(e2b_is_domain(text));
    assert_false(e2b_is_domain("a:0000000000000000000000000065535"));
}

struct config_case {
    const char *name;
    struct e2b_api_config config;
    bool has_key;
    bool has_header;
    const char *expect_part; /* of the message; NULL: accepted */
};

static const char *const good_hosts[] = {"a.b", "*.a.b", "1.2.3.4",
                                         "1.2.3.0/24"};
static const char *const bad_hosts[][1] = {
    {"*"}, {"a b"}, {"a.*"}, {"1.2.3.0/33"}, {"a/8"}, {"https://a"}, {""}};
static const struct e2b_pair bad_env[] = {{"A B", "x"}};
static const struct e2b_pair digit_env[] = {{"1A", "x"}};
static const struct e2b_pair good_env[] = {{"_A1", "\xc3\xa4"}, {"B", ""}};
static const struct e2b_pair broken_env[] = {{"A", "\xff"}};
static const struct e2b_pair bad_label[] = {{"a", "b c"}};

static const struct config_case config_cases[] = {
    {"plain", {.url = "https://a/b/", .template_name = "t"}, true, true, NULL},
    {"http and a key",
     {.url = "http://a.example", .template_name = "t"},
     true,
     false,
     "unencrypted"},
    {"http and a header",
     {.url = "http://a.example", .template_name = "t"},
     false,
     true,
     "carry Authorization unencrypted"},
    {"http and no secret",
     {.url = "http://a.example", .template_name = "t"},
     false,
     false,
     NULL},
    {"this machine",
     {.url = "http://localhost:3000", .template_name = "t"},
     true,
     true,
     NULL},
    {"not this machine",
     {.url = "http://localhost.example", .template_name = "t"},
     true,
     false,
     "unencrypted"},
    {"no address", {.template_name = "t"}, false, false, "api_url"},
    {"a user", {.url = "https://u@a", .template_name = "t"}, 0, 0, "api_url"},
    {"a query", {.url = "https://a?b", .template_name = "t"}, 0, 0, "api_url"},
    {"a host that is none",
     {.url = "https://-/", .template_name = "t"},
     0,
     0,
     "api_url"},
    {"no template", {.url = "https://a"}, false, false, "template"},
    {"a time that is too long",
     {.url = "https://a", .template_name = "t", .timeout_s = 604801},
     false,
     false,
     "timeout: 604801"},
    {"an odd variable",
     {.url = "https://a", .template_name = "t", .envs = bad_env, .n_envs = 1},
     false,
     false,
     "envs: \"A B\""},
    {"a variable that begins with a digit",
     {.url = "https://a", .template_name = "t", .envs = digit_env, .n_envs = 1},
     false,
     false,
     "envs: \"1A\""},
    {"bytes in a variable",
     {.url = "https://a",
      .template_name = "t",
      .envs = broken_env,
      .n_envs = 1},
     false,
     false,
     "envs.A"},
    {"variables",
     {.url = "https://a", .template_name = "t", .envs = good_env, .n_envs = 2},
     false,
     false,
     NULL},
    {"a label with a space",
     {.url = "https://a",
      .template_name = "t",
      .labels = bad_label,
      .n_labels = 1},
     false,
     false,
     "label \"a\""},
    {"hosts",
     {.url = "https://a",
      .template_name = "t",
      .internet = E2B_INTERNET_HOSTS,
      .hosts = good_hosts,
      .n_hosts = LEN(good_hosts)},
     false,
     false,
     NULL},
};

static void
check_config(const struct e2b_api_config *config, const char *name,
             const char *part)
{
    struct e2b_settings s = {0};
    struct error err = {0};
    int rc = e2b_settings_init(&s, config, &err);

    if ((rc == 0) != (part == NULL) ||
        (rc < 0 && (err.code != ERR_CONFIG || strstr(err.msg, part) == NULL))) {
        fail_msg("%s: %s", name, err.msg);
    }
    e2b_settings_fini(&s);
}

static void
test_settings(void **state)
{
    struct secret *key = secret_new("k", 1);
    const struct http_extra_header header = {"Authorization", key};

    (void)state;
    for (size_t i = 0; i < LEN(config_cases); i++) {
        const struct config_case *c = &config_cases[i];
        struct e2b_api_config config = c->config;

        config.key = c->has_key ? key : NULL;
        config.headers = &header;
        config.n_headers = c->has_header ? 1 : 0;
        check_config(&config, c->name, c->expect_part);
    }
    for (size_t i = 0; i < LEN(bad_hosts); i++) {
        const struct e2b_api_config config = {.url = "https://a",
                                              .template_name = "t",
                                              .internet = E2B_INTERNET_HOSTS,
                                              .hosts = bad_hosts[i],
                                              .n_hosts = 1};

        check_config(&config, bad_hosts[i][0], "internet");
    }
    secret_free(key);
}

/* A list without hosts must not open everything. */
static void
test_no_host_is_no_internet(void **state)
{
    const struct e2b_api_config configs[] = {
        {.url = "https://a", .template_name = "t"},
        {.url = "https://a",
         .template_name = "t",
         .internet = E2B_INTERNET_HOSTS},
        {.url = "https://a", .template_name = "t", .internet = E2B_INTERNET_ON},
    };

    (void)state;
    for (size_t i = 0; i < LEN(configs); i++) {
        struct e2b_settings s = {0};
        const char *expected = i < 2 ? "\"allow_internet_access\":false"
                                     : "\"allow_internet_access\":true";

        assert_int_equal(e2b_settings_init(&s, &configs[i], NULL), 0);
        assert_non_null(strstr(s.body[0], expected));
        assert_non_null(strstr(s.body[1], expected));
        e2b_settings_fini(&s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox_url),
        cmocka_unit_test(test_domain_as_long_as_may_be),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_no_host_is_no_internet),
    };

    return cmocka_run_group_tests_name("e2b_request", tests, NULL, NULL);
}
