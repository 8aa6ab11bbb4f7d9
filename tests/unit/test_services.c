/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/services.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/str.h"
#include "config/config.h"
#include "config/services_internal.h"

static int
read_text(struct config *c, const char *text, struct error *err)
{
    return config_services_read_text(c, "own.yaml", text, strlen(text), err);
}

/* What a sandbox at that host costs, or NULL. */
static const struct config_price *
price_at(const struct config *c, const char *host)
{
    AUTO_FREE char *url = xasprintf("https://%s/v1", host);
    const struct config_sandbox s = {.api_url = url};

    return config_sandbox_price(c, &s);
}

static void
test_built_in_table(void **state)
{
    struct config c = {0};
    struct error err = {0};
    const struct config_price *price = NULL;

    (void)state;
    if (config_services_read_text(&c, "services.yaml",
                                  (const char *)services_yaml,
                                  services_yaml_len, &err) < 0)
        fail_msg("%s", err.msg);
    price = price_at(&c, "api.e2b.app");
    assert_non_null(price);
    /* For a second: 0.000014 and 0.0000045 dollars. */
    assert_int_equal(price->vcpu_hour_nanousd, 14000 * 3600);
    assert_int_equal(price->gib_hour_nanousd, 4500 * 3600);
    assert_string_equal(price->date, "2026-11-29");
    /* Without an address it is the same service. */
    assert_ptr_equal(config_sandbox_price(&c, &(struct config_sandbox){0}),
                     price);
    assert_null(price_at(&c, "api.cn-hangzhou.e2b.fc.aliyuncs.com"));
    assert_null(price_at(&c, "x.cn-beijing.maas.aliyuncs.com"));
    config_free_services(&c);
}

static void
test_price_is_that_of_the_host(void **state)
{
    static const char TEXT[] =
        "date: 2027-01-02\n"
        "services:\n"
        "  example.org: {vcpu_hour_usd: 1, gib_hour_usd: 2}\n"
        "  api.Example.org: {vcpu_hour_usd: 3, gib_hour_usd: 4}\n"
        "  127.0.0.1: {vcpu_hour_usd: 0, gib_hour_usd: 0}\n";
    static const struct {
        const char *host;
        int64_t expect; /* dollars; -1: none */
    } cases[] = {
        {"example.org", 1},
        {"x.example.org", 1},
        {"EXAMPLE.org:443", 1},
        {"api.example.org", 3},
        {"b.api.example.org", 3},
        {"notexample.org", -1},
        {"org", -1},
        {"example.org.evil.net", -1},
        {"127.0.0.1:8080", 0},
    };
    struct config c = {0};
    struct error err = {0};

    (void)state;
    if (read_text(&c, TEXT, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct config_price *price = price_at(&c, cases[i].host);

        if ((price != NULL) != (cases[i].expect >= 0) ||
            (price != NULL &&
             price->vcpu_hour_nanousd != cases[i].expect * 1000000000))
            fail_msg("%s", cases[i].host);
    }
    config_free_services(&c);
}

static void
test_own_price_wins(void **state)
{
    struct config c = {0};
    struct error err = {0};
    const struct config_sandbox own = {
        .has_price = true,
        .price = {.vcpu_hour_nanousd = 7, .gib_hour_nanousd = 8}};

    (void)state;
    assert_int_equal(read_text(&c,
                               "date: 2026-01-01\nservices:\n"
                               "  e2b.app: {vcpu_hour_usd: 1, gib_hour_usd: 2}"
                               "\n  b.org: {vcpu_hour_usd: 5, gib_hour_usd: 5}",
                               &err),
                     0);
    assert_int_equal(read_text(&c,
                               "services:\n"
                               "  E2B.app: {vcpu_hour_usd: 3, gib_hour_usd: 4}",
                               &err),
                     0);
    assert_int_equal(c.n_services, 2);
    assert_int_equal(price_at(&c, "api.e2b.app")->vcpu_hour_nanousd,
                     3000000000);
    assert_null(price_at(&c, "api.e2b.app")->date);
    assert_string_equal(price_at(&c, "b.org")->date, "2026-01-01");
    assert_ptr_equal(config_sandbox_price(&c, &own), &own.price);
    config_free_services(&c);
}

struct bad_case {
    const char *text;
    const char *expect;
};

static const struct bad_case bad_cases[] = {
    {"services:\n  a.org: {vcpu_hour_usd: x, gib_hour_usd: 1}\n",
     "own.yaml:2:26: vcpu_hour_usd: x is no number from 0 to 1000 with at most "
     "9 decimals"},
    {"services:\n  a.org: {vcpu_hour_usd: , gib_hour_usd: 1}\n",
     "own.yaml:2:26: vcpu_hour_usd: nothing is no number from 0 to 1000 with "
     "at most "
     "9 decimals"},
    {"services:\n  a.org: {vcpu_hour_usd: [1], gib_hour_usd: 1}\n",
     "own.yaml:2:26: vcpu_hour_usd: expected one value"},
    {"services:\n  a.org: {vcpu_hour_usd: {a: 1}, gib_hour_usd: 1}\n",
     "own.yaml:2:30: vcpu_hour_usd: expected one value"},
    {"services:\n  a.org: {vcpu_hour_usd: 1}\n",
     "own.yaml: a.org: vcpu_hour_usd or gib_hour_usd is missing"},
    {"services:\n  a.org: {vcpu_hour_us: 1, gib_hour_usd: 1}\n",
     "own.yaml:2:25: unknown name 'vcpu_hour_us'; the nearest is "
     "'vcpu_hour_usd'"},
    {"services:\n  a.org: {xyzzy: 1}\n", "own.yaml:2:18: unknown name 'xyzzy'"},
    {"services:\n  a.org: 1\n",
     "own.yaml:2:10: a.org: expected names below it: vcpu_hour_usd and "
     "gib_hour_usd"},
    {"services: [a]\n",
     "own.yaml:1:11: services: expected names of hosts below it"},
    {"prices:\n  a: 1\n", "own.yaml:2:6: unknown name 'prices'; there are "
                          "'date' and 'services'"},
    {"date: [a]\n", "own.yaml:1:7: date: expected a date, such as 2026-11-29"},
    {"date:\n", "own.yaml:1:6: date: expected a date, such as 2026-11-29"},
};

static void
test_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_cases); i++) {
        struct config c = {0};
        struct error err = {0};

        if (read_text(&c, bad_cases[i].text, &err) == 0)
            fail_msg("%s\nis accepted", bad_cases[i].text);
        assert_int_equal(err.code, ERR_CONFIG);
        if (!str_eq(err.msg, bad_cases[i].expect))
            fail_msg("%s\n%s", err.msg, bad_cases[i].expect);
        assert_int_equal(c.n_services, 0);
        config_free_services(&c);
    }
}

/* services.yaml beside config.yaml. */
static void
test_read_services(void **state)
{
    AUTO_FREE char *dir = xstrdup("/tmp/test_services.XXXXXX");
    AUTO_FREE char *home = NULL;
    AUTO_FREE char *path = NULL;
    static const char TEXT[] =
        "services:\n  a.org: {vcpu_hour_usd: 1, gib_hour_usd: 1}\n";
    struct config c = {0};
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    setenv("XDG_CONFIG_HOME", dir, 1);
    home = paths_join(dir, "sandpiper");
    path = paths_join(home, "services.yaml");
    assert_int_equal(config_read_services(&c, &err), 0);
    assert_non_null(price_at(&c, "api.e2b.app"));
    assert_null(price_at(&c, "a.org"));
    config_free_services(&c);
    assert_int_equal(io_make_dirs(home, &err), 0);
    assert_int_equal(io_replace(path, TEXT, strlen(TEXT), 0644, &err), 0);
    assert_int_equal(config_read_services(&c, &err), 0);
    assert_non_null(price_at(&c, "api.e2b.app"));
    assert_non_null(price_at(&c, "a.org"));
    config_free_services(&c);
    assert_int_equal(io_replace(path, "x", 1, 0644, &err), 0);
    assert_int_equal(config_read_services(&c, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_true(str_starts(err.msg, path));
    config_free_services(&c);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(io_remove_tree(dir, NULL), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in_table),
        cmocka_unit_test(test_price_is_that_of_the_host),
        cmocka_unit_test(test_own_price_wins),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_read_services),
    };

    return cmocka_run_group_tests_name("services", tests, NULL, NULL);
}
