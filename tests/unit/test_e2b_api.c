/* SPDX-License-Identifier: GPL-3.0-or-later */
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
#include "base/loop.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_call_internal.h"

#include "e2b_client.h"

static const char *
body_of(const struct fixture *f, size_t i)
{
    return strstr(f->server.requests[i], "\r\n\r\n") + 4;
}

/* The value of a header of a request; the caller owns it. NULL: not there. */
static char *
header_of(const struct fixture *f, size_t i, const char *name)
{
    AUTO_FREE char *start_of_line = xasprintf("\r\n%s: ", name);
    const char *at = strstr(f->server.requests[i], start_of_line);

    if (at == NULL) {
        return NULL;
    }
    at += strlen(start_of_line);
    return xstrndup(at, strcspn(at, "\r"));
}

/* --- requests and what comes back --- */

static void
test_create_sends_and_reads_all(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/v2/sandboxes", 201, MADE)};
    struct fixture f;
    const struct e2b_sandbox *s;

    (void)state;
    set_up(&f);
    run(&f, E2B_CREATE, script, LEN(script));
    expect_success(&f);
    assert_string_equal(
        body_of(&f, 0),
        "{\"templateID\":\"tpl\",\"timeout\":600,\"autoPause\":false,"
        "\"allow_internet_access\":false,\"envVars\":{\"TASK\":\"a \\\"b\\\"\"}"
        ",\"metadata\":{\"job\":\"7\"}}");
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: " KEY "\r\n"));
    assert_non_null(
        strstr(f.server.requests[0], "\r\nAccept: application/json\r\n"));
    assert_non_null(
        strstr(f.server.requests[0], "\r\nContent-Type: application/json\r\n"));
    assert_null(strstr(f.server.requests[0], "\r\nExpect"));
    assert_int_equal(f.n_sandboxes, 1);
    s = &f.sandboxes[0];
    assert_string_equal(s->id, ID);
    assert_string_equal(s->template_id, "nlhz8vlwyupq845jsdg9");
    assert_string_equal(s->domain, "");
    assert_string_equal(secret_expose(s->envd_token), TOKEN);
    assert_null(s->traffic_token);
    assert_int_equal(s->envd[0], 0);
    assert_int_equal(s->envd[1], 6);
    assert_int_equal(s->envd[2], 13);
    assert_int_equal(s->state, E2B_STATE_RUNNING);
    tear_down(&f);
}

static void
test_create_of_the_first_generation(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/sandboxes", 201, MADE)};
    static const char *const hosts[] = {"data.example.org", "*.example.net",
                                        "10.0.0.0/8"};
    struct fixture f;

    (void)state;
    set_up(&f);
    e2b_api_free(f.api);
    f.config.generation = E2B_GENERATION_V1;
    f.config.internet = E2B_INTERNET_HOSTS;
    f.config.hosts = hosts;
    f.config.n_hosts = LEN(hosts);
    f.config.auto_pause = true;
    f.config.timeout_s = 0;
    f.config.n_envs = 0;
    make_api(&f);
    run(&f, E2B_CREATE, script, LEN(script));
    expect_success(&f);
    assert_string_equal(
        body_of(&f, 0),
        "{\"templateID\":\"tpl\",\"timeout\":300,\"secure\":true,"
        "\"autoPause\":true,\"network\":{\"allowOut\":[\"data.example.org\","
        "\"*.example.net\",\"10.0.0.0/8\"],\"denyOut\":[\"0.0.0.0/0\"]},"
        "\"envVars\":{},\"metadata\":{\"job\":\"7\"}}");
    tear_down(&f);
}

static void
test_create_falls_back_once(void **state)
{
    static const struct exchange first[] = {
        ANSWER("POST /base/v2/sandboxes", 405, "{\"message\":\"method\"}"),
        ANSWER("POST /base/sandboxes", 201, MADE)};
    static const struct exchange second[] = {
        ANSWER("POST /base/sandboxes", 201, MADE)};
    static const struct exchange third[] = {
        ANSWER("POST /base/sandboxes/" ID "/connect", 200, MADE)};
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_int_equal(e2b_api_generation(f.api), E2B_GENERATION_AUTO);
    run(&f, E2B_CREATE, first, LEN(first));
    expect_success(&f);
    assert_null(strstr(body_of(&f, 0), "secure"));
    assert_non_null(strstr(body_of(&f, 1), "\"secure\":true"));
    assert_int_equal(e2b_api_generation(f.api), E2B_GENERATION_V1);
    run(&f, E2B_CREATE, second, LEN(second));
    expect_success(&f);
    run(&f, E2B_CONNECT, third, LEN(third));
    expect_success(&f);
    tear_down(&f);
}

static void
test_create_without_template_on_both_paths(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/v2/sandboxes", 404,
               "{\"message\":\"no template tpl\"}"),
        ANSWER("POST /base/sandboxes", 405, "{\"message\":\"no method\"}")};
    static const struct exchange known[] = {
        ANSWER("POST /base/v2/sandboxes", 201, MADE)};
    static const struct exchange once[] = {ANSWER(
        "POST /base/v2/sandboxes", 404, "{\"message\":\"no template tpl\"}")};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_CREATE, script, LEN(script));
    assert_int_equal(f.err.code, ERR_CONFIG);
    assert_non_null(strstr(f.err.msg, "no template tpl"));
    assert_int_equal(e2b_api_generation(f.api), E2B_GENERATION_AUTO);
    run(&f, E2B_CREATE, known, LEN(known));
    assert_int_equal(e2b_api_generation(f.api), E2B_GENERATION_V2);
    run(&f, E2B_CREATE, once, LEN(once));
    assert_int_equal(f.err.code, ERR_CONFIG);
    tear_down(&f);
}

static bool
is_uuid(const char *text)
{
    static const char form[] = "00000000-0000-4000-x000-000000000000";

    for (size_t i = 0; i < sizeof(form); i++) {
        const char *set = form[i] == '0'   ? "0123456789abcdef"
                          : form[i] == 'x' ? "89ab"
                                           : NULL;

        if (set != NULL ? text[i] == '\0' || strchr(set, text[i]) == NULL
                        : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

static void
test_create_keeps_its_key_of_idempotency(void **state)
{
    static const struct exchange script[] = {
        ANSWER_WITH("POST /base/v2/sandboxes", 503, NULL, AT_ONCE),
        NO_ANSWER("POST /base/v2/sandboxes", SERVER_CLOSES),
        ANSWER("POST /base/v2/sandboxes", 405, NULL),
        ANSWER_WITH("POST /base/sandboxes", 429, NULL, AT_ONCE),
        ANSWER("POST /base/sandboxes", 201, MADE)};
    static const struct exchange next[] = {
        ANSWER("POST /base/sandboxes", 201, MADE)};
    struct fixture f;
    char *keys[LEN(script) + 1];

    (void)state;
    set_up(&f);
    run(&f, E2B_CREATE, script, LEN(script));
    expect_success(&f);
    for (size_t i = 0; i < LEN(script); i++) {
        keys[i] = header_of(&f, i, "Idempotency-Key");
        assert_non_null(keys[i]);
        assert_true(is_uuid(keys[i]));
        assert_string_equal(keys[i], keys[0]);
    }
    run(&f, E2B_CREATE, next, LEN(next));
    keys[LEN(script)] = header_of(&f, 0, "Idempotency-Key");
    assert_string_not_equal(keys[LEN(script)], keys[0]);
    for (size_t i = 0; i < LEN(keys); i++) {
        free(keys[i]);
    }
    tear_down(&f);
}

static void
test_headers_of_the_user(void **state)
{
    static const struct exchange script[] = {
        ANSWER("GET /base/sandboxes/" ID, 401,
               "{\"code\":100004,\"message\":\"bad " BEARER " and " KEY "\"}")};
    struct fixture f;

    (void)state;
    set_up(&f);

    const struct http_extra_header headers[] = {{"Authorization", f.bearer}};

    e2b_api_free(f.api);
    f.config.headers = headers;
    f.config.n_headers = LEN(headers);
    make_api(&f);
    run(&f, E2B_INFO, script, LEN(script));
    assert_non_null(strstr(f.server.requests[0],
                           "\r\nAuthorization: Bearer " BEARER "\r\n"));
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: " KEY "\r\n"));
    assert_int_equal(f.fault, E2B_FAULT_AUTH);
    assert_non_null(strstr(f.err.msg, "see E2B_API_KEY and headers"));
    assert_null(strstr(f.err.msg, BEARER));
    assert_null(strstr(f.err.msg, KEY));
    tear_down(&f);
}

static void
test_operations(void **state)
{
    static const struct exchange connect[] = {
        ANSWER("POST /base/v2/sandboxes/" ID "/connect", 404, "{}"),
        ANSWER("POST /base/sandboxes/" ID "/connect", 201, MADE)};
    static const struct exchange timeout[] = {
        ANSWER("POST /base/sandboxes/" ID "/timeout", 204, NULL)};
    static const struct exchange pause_[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 204, NULL)};
    static const struct exchange kill_[] = {
        ANSWER("DELETE /base/sandboxes/" ID, 204, NULL)};
    static const struct exchange gone[] = {
        ANSWER("DELETE /base/sandboxes/" ID, 404, NULL)};
    static const struct exchange info[] = {
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("paused"))};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_CONNECT, connect, LEN(connect));
    expect_success(&f);
    assert_true(f.changed);
    assert_int_equal(f.n_sandboxes, 1);
    assert_string_equal(body_of(&f, 1), "{\"timeout\":300}");
    run(&f, E2B_TIMEOUT, timeout, LEN(timeout));
    expect_success(&f);
    assert_string_equal(body_of(&f, 0), "{\"timeout\":120}");
    run(&f, E2B_PAUSE, pause_, LEN(pause_));
    expect_success(&f);
    assert_true(f.changed);
    run(&f, E2B_KILL, kill_, LEN(kill_));
    expect_success(&f);
    assert_true(f.changed);
    run(&f, E2B_KILL, gone, LEN(gone));
    expect_success(&f);
    assert_false(f.changed);
    run(&f, E2B_INFO, info, LEN(info));
    expect_success(&f);
    assert_int_equal(f.sandboxes[0].state, E2B_STATE_PAUSED);
    assert_true(f.sandboxes[0].started_ms == INT64_C(1788249600120));
    assert_true(f.sandboxes[0].end_ms == INT64_C(1788250200000));
    assert_int_equal(f.sandboxes[0].cpu_count, 2);
    assert_int_equal(f.sandboxes[0].memory_mib, 2048);
    assert_int_equal(f.sandboxes[0].n_labels, 1);
    tear_down(&f);
}

static void
test_connect_cold(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/v2/sandboxes/" ID "/connect", 200, MADE)};
    struct fixture f;

    (void)state;
    set_up(&f);
    server_play(&f.server, script, LEN(script));
    f.call = e2b_api_connect(f.api, ID, 300, true, on_done, &f, NULL);
    assert_non_null(f.call);
    loop_run(f.loop);
    expect_success(&f);
    assert_false(f.changed);
    assert_string_equal(body_of(&f, 0), "{\"timeout\":300,\"memory\":false}");
    tear_down(&f);
}

static void
test_ids_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const ids[] = {"",    "a/b",  "..",    "A1",
                                      "a-b", "a%2f", "a?x=1", "a\r\nX: y"};
    struct fixture f;

    (void)state;
    set_up(&f);
    for (size_t i = 0; i < LEN(ids); i++) {
        struct error err = {0};

        assert_null(e2b_api_kill(f.api, ids[i], on_done, &f, &err));
        assert_int_equal(err.code, ERR_USAGE);
    }
    assert_int_equal(f.n_done, 0);
    tear_down(&f);
}

/* --- lists --- */

static void
test_list_pages(void **state)
{
    static const struct exchange script[] = {
        ANSWER_WITH(LIST_URL, 200,
                    "[" INFO_OF("running") ",{\"sandboxID\":\"other\","
                                           "\"metadata\":{\"job\":\"8\"}},"
                                           "{\"sandboxID\":\"none\"},7,"
                                           "{\"sandboxID\":\"../x\","
                                           "\"metadata\":{\"job\":\"7\"}}]",
                    "X-Next-Token: a+b/c=\r\n"),
        ANSWER_WITH(LIST_URL "&nextToken=a%2Bb%2Fc%3D", 200, "[]",
                    "X-Next-Token: d\r\n"),
        ANSWER_WITH(LIST_URL "&nextToken=d", 502, "<html>", AT_ONCE),
        ANSWER_WITH(LIST_URL "&nextToken=d", 200, "[" INFO_OF("paused") "]",
                    "X-Next-Token: \r\n")};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_LIST, script, LEN(script));
    expect_success(&f);
    assert_int_equal(f.n_sandboxes, 2);
    assert_int_equal(f.sandboxes[0].state, E2B_STATE_RUNNING);
    assert_int_equal(f.sandboxes[1].state, E2B_STATE_PAUSED);
    tear_down(&f);
}

static void
test_list_without_end(void **state)
{
    static const struct exchange same[] = {
        ANSWER_WITH(LIST_URL, 200, "[]", "X-Next-Token: a\r\n"),
        ANSWER_WITH(LIST_URL "&nextToken=a", 200, "[" INFO_OF("running") "]",
                    "X-Next-Token: a\r\n")};
    static const struct exchange odd[] = {
        ANSWER_WITH(LIST_URL, 200, "[]", "X-Next-Token: a b\r\n")};
    static const struct exchange no_list[] = {ANSWER(LIST_URL, 200, "{}")};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_LIST, same, LEN(same));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    assert_int_equal(f.n_sandboxes, 0);
    run(&f, E2B_LIST, odd, LEN(odd));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    run(&f, E2B_LIST, no_list, LEN(no_list));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    tear_down(&f);
}

/* --- pause, and what may mean two things --- */

static void
test_pause_looks_behind_a_conflict(void **state)
{
    static const struct exchange already[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, "{\"message\":\"x\"}"),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("paused"))};
    static const struct exchange changing[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running")),
        ANSWER("POST /base/sandboxes/" ID "/pause", 204, NULL)};
    static const struct exchange gone[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 404, NULL)};
    static const struct exchange unknown[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 404, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running"))};
    static const struct exchange timeout[] = {
        ANSWER("POST /base/sandboxes/" ID "/timeout", 404, NULL),
        ANSWER("GET /base/sandboxes/" ID, 404, NULL)};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_PAUSE, already, LEN(already));
    expect_success(&f);
    assert_false(f.changed);
    run(&f, E2B_PAUSE, changing, LEN(changing));
    expect_success(&f);
    assert_true(f.changed);
    run(&f, E2B_PAUSE, gone, LEN(gone));
    assert_int_equal(f.fault, E2B_FAULT_GONE);
    run(&f, E2B_PAUSE, unknown, LEN(unknown));
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    assert_int_equal(f.fault, E2B_FAULT_OTHER);
    run(&f, E2B_TIMEOUT, timeout, LEN(timeout));
    assert_int_equal(f.fault, E2B_FAULT_GONE);
    tear_down(&f);
}

static void
test_pause_that_stays_between_states(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running")),
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running")),
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running")),
        ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running"))};
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_PAUSE, script, LEN(script));
    assert_int_equal(f.fault, E2B_FAULT_CHANGING);
    assert_int_equal(f.err.code, ERR_SANDBOX);
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_sends_and_reads_all),
        cmocka_unit_test(test_create_of_the_first_generation),
        cmocka_unit_test(test_create_falls_back_once),
        cmocka_unit_test(test_create_without_template_on_both_paths),
        cmocka_unit_test(test_create_keeps_its_key_of_idempotency),
        cmocka_unit_test(test_headers_of_the_user),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_connect_cold),
        cmocka_unit_test(test_ids_that_lead_elsewhere_are_refused),
        cmocka_unit_test(test_list_pages),
        cmocka_unit_test(test_list_without_end),
        cmocka_unit_test(test_pause_looks_behind_a_conflict),
        cmocka_unit_test(test_pause_that_stays_between_states),
    };

    return cmocka_run_group_tests_name("e2b_api", tests, NULL, NULL);
}
