/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * "sandboxes:" of the configuration file, and what the environment adds.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/sandboxes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/config.h"

#define W "sandboxes:\n  work:\n    kind: e2b\n"
#define ONE_OF_HOSTS                                                           \
    " is not a host, *. and a host, an IPv4 address or an IPv4 network"

static const char *const variables[] = {"E2B_API_KEY", "E2B_DOMAIN",
                                        "E2B_API_URL", "E2B_SANDBOX_URL"};

/* A directory, and a file of settings in it. */
struct place {
    char *dir;
    char *path;
};

static int
set_up(void **state)
{
    struct place *p = xcalloc(1, sizeof(*p));

    for (size_t i = 0; i < LEN(variables); i++)
        unsetenv(variables[i]);
    p->dir = xstrdup("/tmp/test_sandboxes.XXXXXX");
    if (mkdtemp(p->dir) == NULL)
        return -1;
    p->path = paths_join(p->dir, "c.yaml");
    *state = p;
    return 0;
}

static int
tear_down(void **state)
{
    struct place *p = *state;
    int rc = io_remove_tree(p->dir, NULL);

    for (size_t i = 0; i < LEN(variables); i++)
        unsetenv(variables[i]);
    free(p->path);
    free(p->dir);
    free(p);
    return rc;
}

/* Reads a text as the configuration file; option: of --sandbox, or NULL. */
static int
read_settings(const struct place *p, struct config *c, const char *text,
              const char *option, struct error *err)
{
    AUTO_FREE char *name = xstrdup("sp");
    AUTO_FREE char *file = xasprintf("--config=%s", p->path);
    AUTO_FREE char *sandbox = xasprintf("--sandbox=%s", option);
    char *argv[] = {name, file, sandbox};

    assert_int_equal(io_replace(p->path, text, strlen(text), 0600, err), 0);
    config_init(c);
    if (config_read_args(c, option != NULL ? 3 : 2, argv, err) < 0)
        return -1;
    return config_read_rest(c, err);
}

static void
read_well(const struct place *p, struct config *c, const char *text)
{
    struct error err = {0};

    if (read_settings(p, c, text, NULL, &err) < 0)
        fail_msg("%s\n%s", text, err.msg);
}

/* ---- values ---------------------------------------------------------------
 */

static void
test_every_key_arrives(void **state)
{
    static const char TEXT[] =
        "sandbox: work\n"
        "sandboxes:\n"
        "  work:\n"
        "    kind: e2b\n"
        "    api_key: e2b_0123\n"
        "    template: sales:2\n"
        "    domain: e2b.example.org:8443\n"
        "    api_url: https://api.example.org/e2b/\n"
        "    sandbox_url: https://{port}-{id}.{domain}/x\n"
        "    headers:\n"
        "      Authorization: Bearer sk-1\n"
        "      X-Team: blue\n"
        "    envs: {TASK: sales, EMPTY: }\n"
        "    timeout: 600\n"
        "    internet: [pypi.org, '*.example.org', 10.0.0.0/8, 192.0.2.1]\n"
        "    auto_pause: true\n"
        "    api: v1\n"
        "    price: {vcpu_hour_usd: 0.05, gib_hour_usd: 0.016, "
        "date: 2026-11-29}\n"
        "  other-1_B: {kind: e2b, api_key_command: \"pass show e2b\","
        " internet: true, api: v2}\n";
    const struct place *p = *state;
    struct config c;
    const struct config_sandbox *s = NULL;

    read_well(p, &c, TEXT);
    assert_string_equal(c.sandbox, "work");
    assert_int_equal(c.n_sandboxes, 3);
    s = config_find_sandbox(&c, "work");
    assert_ptr_equal(s, &c.sandboxes[0]);
    assert_int_equal(s->kind, CONFIG_E2B);
    assert_string_equal(secret_expose(s->key), "e2b_0123");
    assert_null(s->key_command);
    assert_string_equal(s->template_name, "sales:2");
    assert_string_equal(s->domain, "e2b.example.org:8443");
    assert_string_equal(s->api_url, "https://api.example.org/e2b/");
    assert_string_equal(s->sandbox_url, "https://{port}-{id}.{domain}/x");
    assert_int_equal(s->n_headers, 2);
    assert_string_equal(s->headers[0].name, "Authorization");
    assert_string_equal(secret_expose(s->headers[0].value), "Bearer sk-1");
    assert_string_equal(s->headers[1].name, "X-Team");
    assert_int_equal(s->n_envs, 2);
    assert_string_equal(s->envs[0].name, "TASK");
    assert_string_equal(s->envs[0].value, "sales");
    assert_string_equal(s->envs[1].value, "");
    assert_int_equal(s->timeout_s, 600);
    assert_int_equal(s->internet, CONFIG_SOME_HOSTS);
    assert_int_equal(s->n_hosts, 4);
    assert_string_equal(s->hosts[1], "*.example.org");
    assert_true(s->auto_pause);
    assert_int_equal(s->api, CONFIG_API_V1);
    assert_true(s->has_price);
    assert_int_equal(s->price.vcpu_hour_nanousd, 50000000);
    assert_int_equal(s->price.gib_hour_nanousd, 16000000);
    assert_string_equal(s->price.date, "2026-11-29");
    s = config_find_sandbox(&c, "other-1_B");
    assert_null(s->key);
    assert_string_equal(s->key_command, "pass show e2b");
    assert_int_equal(s->internet, CONFIG_INTERNET);
    assert_int_equal(s->api, CONFIG_API_V2);
    assert_int_equal(s->timeout_s, 0);
    assert_false(s->auto_pause);
    assert_false(s->has_price);
    config_fini(&c);
    config_fini(&c);
}

static void
test_nothing_is_the_local_one(void **state)
{
    static const char *const TEXTS[] = {
        "",
        "sandboxes:\n",
        "sandboxes: {}\n",
        "sandbox:\n",
        "sandbox: local\n",
        "sandbox: {use: local}\n",
        "sandbox:\n  isolation: full\nsandboxes:\n  a: {kind: e2b}\n"};
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(TEXTS); i++) {
        struct config c;
        const struct config_sandbox *s = NULL;

        read_well(p, &c, TEXTS[i]);
        assert_string_equal(c.sandbox, "local");
        assert_null(config_find_sandbox(&c, "local"));
        s = config_find_sandbox(&c, "e2b");
        assert_non_null(s);
        assert_int_equal(s->kind, CONFIG_E2B);
        assert_int_equal(s->internet, CONFIG_NO_INTERNET);
        assert_null(s->key);
        config_fini(&c);
    }
}

static void
test_which_one_is_used(void **state)
{
    static const struct {
        const char *text;
        const char *option;
        const char *expect;
    } cases[] = {
        {"sandbox: work\n" W, NULL, "work"},
        {W "sandbox: {use: work, isolation: reduced}\n", NULL, "work"},
        {"sandbox: e2b\n" W, NULL, "e2b"},
        {"sandbox: work\n" W, "local", "local"},
        {"sandbox: work\n" W, "e2b", "e2b"},
        {W, "work", "work"},
    };
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct config c;
        struct error err = {0};

        if (read_settings(p, &c, cases[i].text, cases[i].option, &err) < 0)
            fail_msg("%zu: %s", i, err.msg);
        assert_string_equal(c.sandbox, cases[i].expect);
        config_fini(&c);
    }
}

static void
test_an_option_that_names_none(void **state)
{
    static const struct {
        const char *option;
        const char *expect;
    } cases[] = {
        {"wurk", "--sandbox: no sandbox is called 'wurk'; known are local, "
                 "work, e2b"},
        {"sk-0123456789SECRET", "--sandbox: no sandbox is called so (the value "
                                "is not repeated, since it may be a secret); "
                                "known are local, work, e2b"},
        {"", "--sandbox: the value is empty"},
    };
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct config c;
        struct error err = {0};

        assert_int_equal(read_settings(p, &c, W, cases[i].option, &err), -1);
        assert_string_equal(err.msg, cases[i].expect);
        assert_true(err.code == ERR_USAGE || cases[i].option[0] == '\0');
        config_fini(&c);
    }
}

/* ---- mistakes -------------------------------------------------------------
 */

struct bad_case {
    const char *text;
    const char *expect; /* behind the path */
};

static const struct bad_case bad_cases[] = {
    {"sandboxes: x\n",
     ":1:12: sandboxes: expected names of sandboxes below it"},
    {"sandboxes: [a]\n",
     ":1:12: sandboxes: expected names of sandboxes below it"},
    {"sandboxes:\n  work:\n",
     ":2:8: sandboxes.work: expected keys below it, of which 'kind: e2b' is "
     "one"},
    {"sandboxes:\n  work: {}\n",
     ":2:9: sandboxes.work: expected keys below it, of which 'kind: e2b' is "
     "one"},
    {"sandboxes:\n  work: e2b\n",
     ":2:9: sandboxes.work: expected keys below it, of which 'kind: e2b' is "
     "one"},
    {"sandboxes:\n  work: {template: x}\n",
     ":2:9: sandboxes.work: 'kind: e2b' is missing"},
    {W "sandboxes:\n", ":4:1: sandboxes is there twice"},
    {W "  work:\n    kind: e2b\n", ":4:3: work is there twice"},
    {W "    kind: e2b\n", ":4:5: kind is there twice"},
    {W "    sk-SECRET-0123456789: a\n    sk-SECRET-0123456789: b\n",
     ":5:5: the same name is there twice"},
    {"sandboxes:\n  local: {kind: e2b}\n",
     ":2:3: sandboxes.local: the name is taken; choose another"},
    {"sandboxes:\n  list: {kind: e2b}\n",
     ":2:3: sandboxes.list: the name is taken; choose another"},
    {"sandboxes:\n  kill: {kind: e2b}\n",
     ":2:3: sandboxes.kill: the name is taken; choose another"},
    {"sandboxes:\n  my work: {kind: e2b}\n",
     ":2:3: sandboxes: 'my work' is no name; it has at most 32 letters, "
     "digits, '-' and '_'"},
    {"sandboxes:\n  \"\": {kind: e2b}\n",
     ":2:3: sandboxes: '' is no name; it has at most 32 letters, digits, '-' "
     "and '_'"},
    {"sandboxes:\n  a12345678901234567890123456789012: {kind: e2b}\n",
     ":2:3: sandboxes: 'a12345678901234567890123456789012' is no name; it has "
     "at most 32 letters, digits, '-' and '_'"},
    {"sandboxes:\n  sk-SECRET-0123456789: {kind: e2b}\n",
     ":2:3: sandboxes: a name, not repeated since it may be a secret; a name "
     "has at most 32 letters, digits, '-' and '_'"},
    {"sandboxes:\n  [a]: {kind: e2b}\n", ":2:3: expected a name before ':'"},
    {W "    templates: x\n",
     ":4:5: unknown key 'sandboxes.work.templates'; the nearest is "
     "'sandboxes.work.template'"},
    {W "    xyzzy: x\n", ":4:5: unknown key 'sandboxes.work.xyzzy'"},
    {W "    sk-SECRET-0123456789: x\n",
     ":4:5: unknown key, not repeated since it may be a secret; the key of a "
     "service is the value of 'api_key:'"},
    {"sandboxes:\n  work: {kind: docker}\n",
     ":2:16: sandboxes.work.kind: 'docker' is not one of e2b"},
    {W "    api_key: \"\"\n",
     ":4:14: sandboxes.work.api_key: the value is empty"},
    {W "    api_key: [SECRET]\n",
     ":4:14: sandboxes.work.api_key: expected one value"},
    {W "    api_key: {a: SECRET}\n",
     ":4:15: sandboxes.work.api_key: expected one value"},
    {W "    api_key: \"SEC\\nRET\"\n",
     ":4:14: sandboxes.work.api_key: a control character in the value"},
    {W "    api_key: \"SEC\\0RET\"\n", ":4:14: api_key: a NUL in the value"},
    {W "    api_key: SECRET\n    api_key_command: cat\n",
     ":5:22: sandboxes.work.api_key_command: there is api_key as well; the key "
     "comes from one of them"},
    {W "    api_key_command: cat\n    api_key: SECRET\n",
     ":5:14: sandboxes.work.api_key: there is api_key_command as well; the key "
     "comes from one of them"},
    {W "    api_key_command: ' '\n",
     ":4:22: sandboxes.work.api_key_command: the value is empty"},
    {W "    template: ''\n",
     ":4:15: sandboxes.work.template: the value is empty"},
    {W "    domain: https://example.org\n",
     ":4:13: sandboxes.work.domain: the name of a host is needed, without "
     "https://"},
    {W "    domain: a b\n",
     ":4:13: sandboxes.work.domain: not the name of a host, such as "
     "example.org"},
    {W "    domain: example.org:0\n",
     ":4:13: sandboxes.work.domain: not the name of a host, such as "
     "example.org"},
    {W "    domain: example.org/x\n",
     ":4:13: sandboxes.work.domain: not the name of a host, such as "
     "example.org"},
    {W "    domain: 1.2.3\n",
     ":4:13: sandboxes.work.domain: not the name of a host, such as "
     "example.org"},
    {W "    api_url: example.org\n",
     ":4:14: sandboxes.work.api_url: an address begins with http:// or "
     "https://"},
    {W "    api_url: https://me:SECRET@example.org\n",
     ":4:14: sandboxes.work.api_url: an address with a user name or a password "
     "in it; a key has a setting of its own"},
    {W "    api_url: https://example.org?k=SECRET\n",
     ":4:14: sandboxes.work.api_url: an address with a '?' or a '#' in it"},
    {W "    sandbox_url: https://{host}/\n",
     ":4:18: sandboxes.work.sandbox_url: a brace that belongs to none of {id}, "
     "{port} and {domain}"},
    {W "    sandbox_url: '{port}-{id}.{domain}'\n",
     ":4:18: sandboxes.work.sandbox_url: an address begins with http:// or "
     "https://"},
    {W "    headers: x\n",
     ":4:14: sandboxes.work.headers: expected names below it"},
    {W "    headers: [a]\n",
     ":4:14: sandboxes.work.headers: expected names below it"},
    {W "    headers: {a b: x}\n",
     ":4:15: sandboxes.work.headers: no header has such a name"},
    {W "    headers: {Content-Length: 1}\n",
     ":4:15: sandboxes.work.headers: Content-Length is set by the program "
     "alone"},
    {W "    headers: {X-A: \"a\\nb\"}\n",
     ":4:20: sandboxes.work.headers.X-A: a control character in the value of "
     "X-A"},
    {W "    headers: {X-A: }\n",
     ":4:20: sandboxes.work.headers.X-A: the value is empty"},
    {W "    headers: {X-A: {b: c}}\n",
     ":4:20: sandboxes.work.headers.X-A: expected one value"},
    {W "    envs: {1A: x}\n",
     ":4:12: sandboxes.work.envs: '1A' is not the name of a variable"},
    {W "    envs: {A-B: x}\n",
     ":4:12: sandboxes.work.envs: 'A-B' is not the name of a variable"},
    {W "    envs: {A: [x]}\n", ":4:15: sandboxes.work.envs.A: expected one "
                               "value"},
    {W "    timeout: 9\n",
     ":4:14: sandboxes.work.timeout: 9 is not a whole number from 10 to "
     "604800"},
    {W "    timeout: 604801\n",
     ":4:14: sandboxes.work.timeout: 604801 is not a whole number from 10 to "
     "604800"},
    {W "    timeout: 5 min\n",
     ":4:14: sandboxes.work.timeout: 5 min is not a whole number from 10 to "
     "604800"},
    {W "    timeout: sk-SECRET-0123456789\n",
     ":4:14: sandboxes.work.timeout: the value, not repeated since it may be a "
     "secret, is no number"},
    {W "    internet: some\n",
     ":4:15: sandboxes.work.internet: 'some' is not one of "
     "false|true|[HOST, ...]"},
    {W "    internet: [*.example.org]\n",
     ":4:17: a value that begins with '*' needs quotes"},
    {W "    internet: {a: b}\n",
     ":4:16: sandboxes.work.internet: expected one value"},
    {W "    internet: [[a]]\n",
     ":4:15: sandboxes.work.internet: expected a list of hosts"},
    {W "    internet: [https://pypi.org]\n",
     ":4:15: sandboxes.work.internet: 'https://pypi.org'" ONE_OF_HOSTS},
    {W "    internet: [pypi.org, '*']\n",
     ":4:15: sandboxes.work.internet: '*'" ONE_OF_HOSTS},
    {W "    internet: [10.0.0.0/33]\n",
     ":4:15: sandboxes.work.internet: '10.0.0.0/33'" ONE_OF_HOSTS},
    {W "    internet: ['']\n",
     ":4:15: sandboxes.work.internet: ''" ONE_OF_HOSTS},
    {W "    auto_pause: yes\n",
     ":4:17: sandboxes.work.auto_pause: 'yes' is not one of false|true"},
    {W "    api: v3\n", ":4:10: sandboxes.work.api: 'v3' is not one of "
                        "auto|v1|v2"},
    {W "    price:\n", ":4:11: sandboxes.work.price: expected names below it"},
    {W "    price: {vcpu_hour_usd: 1}\n",
     ":4:12: sandboxes.work.price: vcpu_hour_usd or gib_hour_usd is missing"},
    {W "    price: {vcpu_hour_us: 1, gib_hour_usd: 1}\n",
     ":4:13: unknown key 'sandboxes.work.price.vcpu_hour_us'; the nearest is "
     "'sandboxes.work.price.vcpu_hour_usd'"},
    {W "    price: {vcpu_hour_usd: -1, gib_hour_usd: 1}\n",
     ":4:28: sandboxes.work.price.vcpu_hour_usd: -1 is no number from 0 to "
     "1000 with at most 9 decimals"},
    {W "    price: {vcpu_hour_usd: 1001, gib_hour_usd: 1}\n",
     ":4:28: sandboxes.work.price.vcpu_hour_usd: 1001 is no number from 0 to "
     "1000 with at most 9 decimals"},
    {"sandbox: wurk\n" W,
     ":1:10: sandbox.use: no sandbox is called 'wurk'; known are local, work, "
     "e2b"},
    {W "sandbox:\n  use: wurk\n",
     ":5:8: sandbox.use: no sandbox is called 'wurk'; known are local, work, "
     "e2b"},
    {"sandbox: [work]\n" W, ":1:10: sandbox: expected keys below it"},
    {"sandbox: work\nsandbox: {use: work}\n" W,
     ":2:11: sandbox.use is there twice"},
    {"sandboxs:\n  work: {kind: e2b}\n",
     ":1:1: unknown key 'sandboxs'; the nearest is 'sandbox'"},
    {"sandboxess:\n  work: {kind: e2b}\n",
     ":1:1: unknown key 'sandboxess'; the nearest is 'sandboxes'"},
};

static void
test_mistakes_have_a_place(void **state)
{
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(bad_cases); i++) {
        const struct bad_case *t = &bad_cases[i];
        AUTO_FREE char *expect = xasprintf("%s%s", p->path, t->expect);
        struct config c;
        struct error err = {0};

        if (read_settings(p, &c, t->text, NULL, &err) == 0)
            fail_msg("%s\nis accepted", t->text);
        assert_int_equal(err.code, ERR_CONFIG);
        if (!str_eq(err.msg, expect))
            fail_msg("%s\n%s\n%s", t->text, err.msg, expect);
        assert_null(strstr(err.msg, "SECRET"));
        config_fini(&c);
    }
}

/* A loaded spring is not wound up without end. */
static void
test_limits(void **state)
{
    const struct place *p = *state;
    static const struct {
        const char *head;
        const char *form; /* of the i-th */
        const char *expect;
    } cases[] = {
        {"sandboxes:\n", "  s%d: {kind: e2b}\n", "sandboxes: more than 64"},
        {W "    headers:\n", "      X-%d: a\n", ": more than 64 headers"},
        {W "    envs:\n", "      A%d: a\n", ": more than 64 variables"},
        {W "    internet:\n", "      - h%d.org\n", ": more than 64 hosts"},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        for (int n = 64; n <= 65; n++) {
            AUTO_SBUF struct sbuf sb = {0};
            struct config c;
            struct error err = {0};

            sbuf_init(&sb, 100000);
            sbuf_add_str(&sb, cases[i].head);
            for (int k = 0; k < n; k++) {
                const char *at = strstr(cases[i].form, "%d");

                sbuf_add(&sb, cases[i].form, (size_t)(at - cases[i].form));
                sbuf_addf(&sb, "%d%s", k, at + 2);
            }
            if (read_settings(p, &c, sb.data, NULL, &err) != (n == 64 ? 0 : -1))
                fail_msg("%d: %s", n, err.msg);
            if (n > 64 && strstr(err.msg, cases[i].expect) == NULL)
                fail_msg("%s", err.msg);
            config_fini(&c);
        }
    }
}

/* ---- the environment ------------------------------------------------------
 */

struct env_case {
    const char *name;
    const char *text;
    const char *values[LEN(variables)];
    const char *entry;
    const char *expect_key;
    const char *expect_host;
    const char *expect_sandbox_url;
};

static const struct env_case env_cases[] = {
    {"nothing", "", {0}, "e2b", NULL, "api.e2b.app", NULL},
    {"a key", "", {"k"}, "e2b", "k", "api.e2b.app", NULL},
    {"blank ones", "", {" ", "", "\t", " "}, "e2b", NULL, "api.e2b.app", NULL},
    {"a domain", "", {"k", "d.org"}, "e2b", "k", "api.d.org", NULL},
    {"an address",
     "",
     {"k", "d.org", "https://a.org:1/x"},
     "e2b",
     "k",
     "a.org:1",
     NULL},
    {"sandboxes",
     "",
     {"k", 0, 0, "http://s"},
     "e2b",
     "k",
     "api.e2b.app",
     "http://s"},
    {"an entry that leaves out",
     W,
     {"k", "d.org", 0, "http://s"},
     "work",
     "k",
     "api.d.org",
     "http://s"},
    {"an entry called e2b",
     "sandboxes:\n  e2b: {kind: e2b, template: t}\n",
     {"k", "d.org"},
     "e2b",
     "k",
     "api.d.org",
     NULL},
    /* What has a key of its own is not given another. */
    {"a key of its own",
     W "    api_key: own\n",
     {"k", "d.org"},
     "work",
     "own",
     "api.d.org",
     NULL},
    {"a command of its own",
     W "    api_key_command: cat\n",
     {"k"},
     "work",
     NULL,
     "api.e2b.app",
     NULL},
    {"a header of its own",
     W "    headers: {authorization: Bearer a}\n",
     {"k"},
     "work",
     NULL,
     "api.e2b.app",
     NULL},
    {"another header",
     W "    headers: {X-Team: a}\n",
     {"k"},
     "work",
     "k",
     "api.e2b.app",
     NULL},
    /* Addresses of two services do not fit. */
    {"a host of its own",
     W "    domain: own.org\n    api_key: own\n",
     {"k", "d.org", "https://a.org", "http://s"},
     "work",
     "own",
     "api.own.org",
     NULL},
    {"an API of its own",
     W "    api_url: https://own.org/v\n",
     {"k", "d.org", "https://a.org", "http://s"},
     "work",
     "k",
     "own.org",
     NULL},
    {"a place of its own",
     W "    sandbox_url: https://own.org\n",
     {"k", "d.org", "https://a.org", "http://s"},
     "work",
     "k",
     "api.e2b.app",
     "https://own.org"},
};

static void
test_environment_fills_in(void **state)
{
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(env_cases); i++) {
        const struct env_case *t = &env_cases[i];
        struct config c;
        const struct config_sandbox *s = NULL;
        AUTO_FREE char *host = NULL;

        for (size_t k = 0; k < LEN(variables); k++) {
            if (t->values[k] != NULL)
                setenv(variables[k], t->values[k], 1);
            else
                unsetenv(variables[k]);
        }
        read_well(p, &c, t->text);
        s = config_find_sandbox(&c, t->entry);
        assert_non_null(s);
        host = config_sandbox_host(s);
        if (!str_eq(s->key != NULL ? secret_expose(s->key) : NULL,
                    t->expect_key) ||
            !str_eq(host, t->expect_host) ||
            !str_eq(s->sandbox_url, t->expect_sandbox_url))
            fail_msg("%s: %s, %s", t->name, host,
                     s->sandbox_url != NULL ? s->sandbox_url : "-");
        /* No child can have it. */
        assert_null(getenv("E2B_API_KEY"));
        config_fini(&c);
    }
}

/* Also where the settings are wrong, and no sandbox of a service is used. */
static void
test_key_leaves_the_environment(void **state)
{
    static const char *const TEXTS[] = {"", "modle: x\n", "sandboxes: x\n",
                                        "sandbox: local\n"};
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(TEXTS); i++) {
        struct config c;
        struct error err = {0};
        char *const *env = NULL;

        setenv("E2B_API_KEY", "e2b_SECRET", 1);
        (void)read_settings(p, &c, TEXTS[i], NULL, &err);
        for (env = environ; *env != NULL; env++)
            assert_null(strstr(*env, "SECRET"));
        config_fini(&c);
    }
}

struct check_case {
    const char *text;
    const char *values[LEN(variables)];
    const char *expect; /* the beginning; NULL: none */
    enum error_code expect_code;
};

static const struct check_case check_cases[] = {
    {W "    api_key: k\n", {0}, NULL, ERR_NONE},
    {W "    api_key_command: cat\n", {0}, NULL, ERR_NONE},
    {W "    headers: {X-API-Key: k}\n", {0}, NULL, ERR_NONE},
    {W, {"k"}, NULL, ERR_NONE},
    {W "    api_url: http://127.0.0.1:3000\n", {0}, NULL, ERR_NONE},
    {W,
     {0},
     "no key for the sandbox work at api.e2b.app\nput it into ",
     ERR_AUTH},
    {W "    api_url: https://own.org/x\n",
     {0},
     "no key for the sandbox work at own.org\nput it into ",
     ERR_AUTH},
    {W,
     {"k", "https://d.org"},
     "E2B_DOMAIN: the name of a host is needed, without https://",
     ERR_CONFIG},
    {W,
     {"k", 0, "localhost:3000"},
     "E2B_API_URL: an address begins with http:// or https://",
     ERR_CONFIG},
    {W,
     {"k", 0, 0, "https://{x}"},
     "E2B_SANDBOX_URL: a brace that belongs to none of",
     ERR_CONFIG},
};

static void
test_check_before_it_is_used(void **state)
{
    const struct place *p = *state;

    for (size_t i = 0; i < LEN(check_cases); i++) {
        const struct check_case *t = &check_cases[i];
        struct config c;
        struct error err = {0};
        int rc = 0;

        for (size_t k = 0; k < LEN(variables); k++) {
            if (t->values[k] != NULL)
                setenv(variables[k], t->values[k], 1);
            else
                unsetenv(variables[k]);
        }
        /* For the local one nobody needs it to be right. */
        read_well(p, &c, t->text);
        rc = config_check_sandbox(&c, config_find_sandbox(&c, "work"), &err);
        assert_int_equal(rc, t->expect != NULL ? -1 : 0);
        assert_int_equal(err.code, t->expect_code);
        if (t->expect != NULL && !str_starts(err.msg, t->expect))
            fail_msg("%s", err.msg);
        if (t->expect_code == ERR_AUTH) {
            assert_non_null(strstr(err.msg, p->path));
            assert_non_null(strstr(err.msg, "sandboxes.work.api_key"));
            assert_non_null(strstr(err.msg, "E2B_API_KEY"));
        }
        config_fini(&c);
    }
}

/* ---- the documentation ----------------------------------------------------
 */

/* The blocks of YAML in a text, and how many there are. */
static size_t
try_examples(const struct place *p, const char *text)
{
    static const char FENCE[] = "```yaml\n";
    size_t n = 0;

    for (const char *at = strstr(text, FENCE); at != NULL;
         at = strstr(at, FENCE)) {
        const char *start = at + strlen(FENCE);
        const char *end = strstr(start, "```\n");
        AUTO_FREE char *block = NULL;
        struct config c;
        struct error err = {0};

        assert_non_null(end);
        block = xstrndup(start, (size_t)(end - start));
        read_well(p, &c, block);
        for (size_t i = 0; i < c.n_sandboxes; i++) {
            if (str_eq(c.sandboxes[i].name, "e2b"))
                continue; /* made of the environment, which is empty */
            if (config_check_sandbox(&c, &c.sandboxes[i], &err) < 0)
                fail_msg("%s\n%s", block, err.msg);
        }
        config_fini(&c);
        at = end;
        n++;
    }
    return n;
}

static void
test_examples_can_be_pasted(void **state)
{
    const char *top = getenv("abs_top_srcdir");
    AUTO_FREE char *path = NULL;
    AUTO_SBUF struct sbuf text = {0};
    struct error err = {0};

    if (top == NULL)
        skip();
    path = paths_join(top, "docs/sandboxes.md");
    sbuf_init(&text, 1u << 20);
    if (io_read_file(path, &text, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(try_examples(*state, text.data) >= 5);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_every_key_arrives),
        TEST(test_nothing_is_the_local_one),
        TEST(test_which_one_is_used),
        TEST(test_an_option_that_names_none),
        TEST(test_mistakes_have_a_place),
        TEST(test_limits),
        TEST(test_environment_fills_in),
        TEST(test_key_leaves_the_environment),
        TEST(test_check_before_it_is_used),
        TEST(test_examples_can_be_pasted),
    };

    return cmocka_run_group_tests_name("sandboxes", tests, NULL, NULL);
}
