/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a sandbox may reach: what a service says of it, whether that is what was
 * asked for, and setting it once more.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_call_internal.h"

#include "e2b_client.h"

#define INFO "GET /base/sandboxes/" ID
#define NETWORK "PUT /base/sandboxes/" ID "/network"
#define NO_NETWORK                                                             \
    "{\"message\":\"Sandbox \\\"" ID "\\\" doesn't exist or you don't have "   \
    "access to it\"}"

static const char *const some_hosts[] = {"data.example.org", "*.example.net",
                                         "10.0.0.0/8", "192.0.2.7"};

static void
set_internet(struct fixture *f, enum e2b_internet internet)
{
    e2b_api_free(f->api);
    f->config.internet = internet;
    f->config.hosts = some_hosts;
    f->config.n_hosts = LEN(some_hosts);
    make_api(f);
}

/* --- what is said --- */

#define OFF E2B_INTERNET_OFF
#define ON E2B_INTERNET_ON
#define HOSTS E2B_INTERNET_HOSTS
#define NOT_SAID E2B_EGRESS_NOT_SAID
#define CONFIRMED E2B_EGRESS_CONFIRMED
#define CONTRADICTED E2B_EGRESS_CONTRADICTED
#define DENY_ALL "\"denyOut\":[\"0.0.0.0/0\"]"
#define ASKED                                                                  \
    "\"data.example.org\",\"*.example.net\",\"10.0.0.0/8\",\"192.0.2.7\""
#define ACCESS(value) ",\"allowInternetAccess\":" value
#define LISTS(lists) ",\"network\":{" lists "}"

struct check_case {
    const char *name;
    enum e2b_internet internet;
    const char *said; /* behind the id */
    enum e2b_egress_check expect;
};

static const struct check_case check_cases[] = {
    {"off: nothing", OFF, "", NOT_SAID},
    {"off: null", OFF, ACCESS("null"), NOT_SAID},
    {"off: of another type", OFF, ACCESS("\"false\""), NOT_SAID},
    {"off: a number", OFF, ACCESS("0"), NOT_SAID},
    {"off: false", OFF, ACCESS("false"), CONFIRMED},
    {"off: true", OFF, ACCESS("true"), CONTRADICTED},
    {"off: an object without lists", OFF, LISTS("\"allowPublicTraffic\":true"),
     NOT_SAID},
    {"off: false, and that object", OFF,
     ACCESS("false") LISTS("\"allowPublicTraffic\":true"), CONFIRMED},
    {"off: true, and that object", OFF,
     ACCESS("true") LISTS("\"allowPublicTraffic\":true"), CONTRADICTED},
    {"off: everything denied", OFF, LISTS(DENY_ALL), CONFIRMED},
    {"off: true, and everything denied", OFF, ACCESS("true") LISTS(DENY_ALL),
     CONFIRMED},
    {"off: everything denied, nothing allowed", OFF,
     LISTS(DENY_ALL ",\"allowOut\":[]"), CONFIRMED},
    {"off: a part denied", OFF, LISTS("\"denyOut\":[\"10.0.0.0/8\"]"),
     CONTRADICTED},
    {"off: nothing denied", OFF, LISTS("\"denyOut\":[]"), CONTRADICTED},
    {"off: false, nothing denied", OFF, ACCESS("false") LISTS("\"denyOut\":[]"),
     CONFIRMED},
    {"off: all denied, one allowed", OFF,
     LISTS(DENY_ALL ",\"allowOut\":[\"8.8.8.8\"]"), CONTRADICTED},
    {"off: false, one allowed", OFF,
     ACCESS("false") LISTS("\"allowOut\":[\"a.example\"]"), CONTRADICTED},
    {"off: false, what is none allowed", OFF,
     ACCESS("false") LISTS("\"allowOut\":[\"::/0\"]"), CONTRADICTED},
    {"off: lists of another type", OFF,
     LISTS("\"denyOut\":\"0.0.0.0/0\",\"allowOut\":{}"), NOT_SAID},
    {"off: a list of another type in it", OFF, LISTS("\"denyOut\":[0,null]"),
     CONTRADICTED},
    {"off: a network of another type", OFF, ",\"network\":[]", NOT_SAID},
    {"hosts: nothing", HOSTS, "", NOT_SAID},
    {"hosts: true", HOSTS, ACCESS("true"), CONTRADICTED},
    {"hosts: false alone", HOSTS, ACCESS("false"), NOT_SAID},
    {"hosts: these", HOSTS, LISTS("\"allowOut\":[" ASKED "]," DENY_ALL),
     CONFIRMED},
    {"hosts: true, and these", HOSTS,
     ACCESS("true") LISTS("\"allowOut\":[" ASKED "]," DENY_ALL), CONFIRMED},
    {"hosts: these in another order and form", HOSTS,
     LISTS("\"allowOut\":[\"192.0.2.7/32\",\"10.0.0.0/8\",\"*.EXAMPLE.net\","
           "\"data.example.org\",\"10.0.0.0/8\"]," DENY_ALL),
     CONFIRMED},
    {"hosts: these, and nothing is said to be denied", HOSTS,
     LISTS("\"allowOut\":[" ASKED "]"), NOT_SAID},
    {"hosts: these, and nothing is denied", HOSTS,
     LISTS("\"allowOut\":[" ASKED "],\"denyOut\":[]"), CONTRADICTED},
    {"hosts: one more", HOSTS,
     LISTS("\"allowOut\":[" ASKED ",\"evil.example\"]," DENY_ALL),
     CONTRADICTED},
    {"hosts: what is none more", HOSTS,
     LISTS("\"allowOut\":[" ASKED ",\"*\"]," DENY_ALL), CONTRADICTED},
    {"hosts: one less", HOSTS,
     LISTS("\"allowOut\":[\"data.example.org\",\"*.example.net\","
           "\"10.0.0.0/8\"]," DENY_ALL),
     CONTRADICTED},
    {"hosts: everything", HOSTS,
     LISTS("\"allowOut\":[\"0.0.0.0/0\"]," DENY_ALL), CONTRADICTED},
    {"hosts: everything denied alone", HOSTS, LISTS(DENY_ALL), NOT_SAID},
    {"on: nothing", ON, "", NOT_SAID},
    {"on: true", ON, ACCESS("true"), CONFIRMED},
    {"on: false", ON, ACCESS("false"), CONTRADICTED},
    {"on: everything denied", ON, ACCESS("true") LISTS(DENY_ALL), CONTRADICTED},
};

static void
test_check_egress(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    for (size_t i = 0; i < LEN(check_cases); i++) {
        const struct check_case *c = &check_cases[i];
        AUTO_FREE char *body =
            xasprintf("{\"sandboxID\":\"" ID "\"%s}", c->said);
        const struct exchange script[] = {ANSWER(INFO, 200, body)};
        enum e2b_egress_check got;

        set_internet(&f, c->internet);
        run(&f, E2B_INFO, script, LEN(script));
        expect_success(&f);
        got = e2b_api_check_egress(f.api, &f.sandboxes[0]);
        if (got != c->expect) {
            fail_msg("%s: %d and not %d", c->name, (int)got, (int)c->expect);
        }
    }
    tear_down(&f);
}

/* More than may be asked for is not kept, and is more than was asked for. */
static void
test_long_lists_are_cut(void **state)
{
    AUTO_SBUF struct sbuf body = {0};
    struct exchange script[] = {ANSWER(INFO, 200, NULL)};
    struct fixture f;

    (void)state;
    sbuf_init(&body, 1 << 20);
    sbuf_add_str(&body, "{\"sandboxID\":\"" ID "\",\"network\":{" DENY_ALL
                        ",\"allowOut\":[");
    for (int i = 0; i < 2000; i++) {
        sbuf_addf(&body, "%s\"h%d.example\"", i > 0 ? "," : "", i % 2);
    }
    sbuf_add_str(&body, "]}}");
    script[0].body = body.data;
    set_up(&f);
    e2b_api_free(f.api);
    f.config.internet = E2B_INTERNET_HOSTS;
    f.config.hosts = (const char *const[]){"h0.example", "h1.example"};
    f.config.n_hosts = 2;
    make_api(&f);
    run(&f, E2B_INFO, script, LEN(script));
    expect_success(&f);
    assert_int_equal(f.sandboxes[0].allowed.n_hosts, E2B_MAX_RULES);
    assert_true(f.sandboxes[0].allowed.cut);
    assert_int_equal(e2b_api_check_egress(f.api, &f.sandboxes[0]),
                     E2B_EGRESS_CONTRADICTED);
    tear_down(&f);
}

static void
test_many_hosts_are_refused(void **state)
{
    const char *many[E2B_MAX_RULES + 1];
    struct error err = {0};
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < LEN(many); i++) {
        many[i] = "data.example.org";
    }
    set_up(&f);
    f.config.internet = E2B_INTERNET_HOSTS;
    f.config.hosts = many;
    f.config.n_hosts = LEN(many);
    assert_null(e2b_api_new(f.loop, f.http, &f.config, &err));
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.msg, "internet: more than 256"));
    tear_down(&f);
}

/* --- setting it --- */

struct set_case {
    const char *name;
    enum e2b_internet internet;
    size_t n_hosts;
    const char *expect_body;
};

static void
test_set_network_sends_all(void **state)
{
    static const struct set_case cases[] = {
        {"off", OFF, 0, "{\"allowOut\":[],\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"no host at all", HOSTS, 0,
         "{\"allowOut\":[],\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"hosts", HOSTS, 2,
         "{\"allowOut\":[\"data.example.org\",\"*.example.net\"],"
         "\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"on", ON, 2, "{\"allow_internet_access\":true}"},
    };
    static const struct exchange script[] = {ANSWER(NETWORK, 204, NULL)};

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct set_case *c = &cases[i];
        const char *request;
        struct fixture f;

        set_up(&f);
        e2b_api_free(f.api);
        f.config.internet = c->internet;
        f.config.hosts = some_hosts;
        f.config.n_hosts = c->n_hosts;
        make_api(&f);
        run(&f, E2B_NETWORK, script, LEN(script));
        expect_success(&f);
        request = f.server.requests[0];
        if (!str_ends(request, c->expect_body)) {
            fail_msg("%s: %s", c->name, request);
        }
        assert_non_null(strstr(request, "\r\nX-API-Key: " KEY "\r\n"));
        assert_non_null(
            strstr(request, "\r\nContent-Type: application/json\r\n"));
        tear_down(&f);
    }
}

struct end_case {
    const char *name;
    struct exchange script[3];
    size_t n;
    enum error_code expect_code; /* ERR_NONE: a success */
    enum e2b_fault expect_fault;
    const char *expect_part;
};

static void
test_how_set_network_ends(void **state)
{
    static const struct end_case cases[] = {
        {"gone",
         {ANSWER(NETWORK, 404, NO_NETWORK), ANSWER(INFO, 404, NO_NETWORK)},
         2,
         ERR_SANDBOX,
         E2B_FAULT_GONE,
         "there is no sandbox " ID},
        {"without the operation",
         {ANSWER(NETWORK, 404, "404 page not found"),
          ANSWER(INFO, 200, INFO_OF("running"))},
         2,
         ERR_UNSUPPORTED,
         E2B_FAULT_OTHER,
         "setting what a sandbox reaches: the service does not offer this"},
        {"another method",
         {ANSWER(NETWORK, 405, NULL)},
         1,
         ERR_UNSUPPORTED,
         E2B_FAULT_OTHER,
         "does not offer this (405)"},
        {"not done",
         {ANSWER(NETWORK, 501, NULL)},
         1,
         ERR_UNSUPPORTED,
         E2B_FAULT_OTHER,
         "(501)"},
        {"not allowed",
         {ANSWER(NETWORK, 403, "{\"message\":\"not in your plan\"}")},
         1,
         ERR_REMOTE,
         E2B_FAULT_OTHER,
         "not in your plan"},
        {"changing",
         {ANSWER_WITH(NETWORK, 409, NULL, "Should-Retry: false\r\n")},
         1,
         ERR_SANDBOX,
         E2B_FAULT_CHANGING,
         "changing its state"},
        {"later",
         {ANSWER_WITH(NETWORK, 503, NULL, AT_ONCE),
          ANSWER_WITH(NETWORK, 429, NULL, AT_ONCE), ANSWER(NETWORK, 204, NULL)},
         3,
         ERR_NONE,
         E2B_FAULT_NONE,
         NULL},
        {"after a lost answer",
         {NO_ANSWER(NETWORK, SERVER_CLOSES), ANSWER(NETWORK, 204, NULL)},
         2,
         ERR_NONE,
         E2B_FAULT_NONE,
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        const struct end_case *c = &cases[i];
        struct fixture f;

        set_up(&f);
        run(&f, E2B_NETWORK, c->script, c->n);
        if (f.err.code != c->expect_code || f.fault != c->expect_fault ||
            f.changed || f.maybe_made ||
            (c->expect_part != NULL &&
             strstr(f.err.msg, c->expect_part) == NULL)) {
            fail_msg("%s: %s", c->name, f.err.msg);
        }
        tear_down(&f);
    }
}

static void
test_set_network_of_an_odd_id(void **state)
{
    struct error err = {0};
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_null(e2b_api_set_network(f.api, "a/b", on_done, &f, &err));
    assert_int_equal(err.code, ERR_USAGE);
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_egress),
        cmocka_unit_test(test_long_lists_are_cut),
        cmocka_unit_test(test_many_hosts_are_refused),
        cmocka_unit_test(test_set_network_sends_all),
        cmocka_unit_test(test_how_set_network_ends),
        cmocka_unit_test(test_set_network_of_an_odd_id),
    };

    return cmocka_run_group_tests_name("e2b_egress", tests, NULL, NULL);
}
