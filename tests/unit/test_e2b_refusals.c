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

#include "e2b_client.h"

#define CREATE_V2 "POST /base/v2/sandboxes"
#define CREATE_V1 "POST /base/sandboxes"
#define CONNECT "POST /base/v2/sandboxes/" ID "/connect"
#define TIMEOUT "POST /base/sandboxes/" ID "/timeout"
#define PAUSE "POST /base/sandboxes/" ID "/pause"
#define KILL "DELETE /base/sandboxes/" ID
#define INFO "GET /base/sandboxes/" ID

#define RETRY AT_ONCE "Should-Retry: true\r\n"
#define NO_RETRY AT_ONCE "Should-Retry: false\r\n"

struct refusal_case {
    const char *name;
    enum e2b_op op;
    enum e2b_generation generation;
    struct exchange one; /* sent n times */
    size_t n;
    enum error_code code;
    enum e2b_fault fault;
    bool maybe_made;
    const char *expect_part;
    const char *expect_not; /* NULL: nothing */
};

static const struct refusal_case refusal_cases[] = {
    {"400", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 400,
            "{\"code\":400,\"message\":\"validation error: timeout.\"}"),
     1, ERR_REMOTE, E2B_FAULT_OTHER, false,
     "creating a sandbox: the request is not accepted (400: validation error: "
     "timeout)",
     NULL},
    {"401", E2B_CREATE, E2B_GENERATION_V2, ANSWER(CREATE_V2, 401, NULL), 1,
     ERR_AUTH, E2B_FAULT_AUTH, false, "see E2B_API_KEY (401)", "headers"},
    {"401 with a vendor's number", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 401, "{\"code\":100004,\"message\":\"no\",\"requestID\":1}"),
     1, ERR_AUTH, E2B_FAULT_AUTH, false, "(401: no)", NULL},
    {"401 with a code in words", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 401, "{\"code\":\"unauthenticated\",\"message\":\"no\"}"), 1,
     ERR_AUTH, E2B_FAULT_AUTH, false, "(401: no)", NULL},
    {"403", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 403, "{\"message\":\"not enabled\"}"), 1, ERR_REMOTE,
     E2B_FAULT_OTHER, false, "plan does not allow it (403: not enabled)", NULL},
    {"404 of a template", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 404, "{\"message\":\"unknown\"}"), 1, ERR_CONFIG,
     E2B_FAULT_OTHER, false,
     "there is no template tpl; see template and api_url (404: unknown)", NULL},
    {"404 of a sandbox", E2B_INFO, E2B_GENERATION_V2, ANSWER(INFO, 404, NULL),
     1, ERR_SANDBOX, E2B_FAULT_GONE, false, "there is no sandbox " ID " (404)",
     NULL},
    {"404 while connecting", E2B_CONNECT, E2B_GENERATION_V2,
     ANSWER(CONNECT, 404, "404 page not found"), 1, ERR_SANDBOX, E2B_FAULT_GONE,
     false, "(404: 404 page not found)", NULL},
    {"404 of lists", E2B_LIST, E2B_GENERATION_V2, ANSWER(LIST_URL, 404, NULL),
     1, ERR_UNSUPPORTED, E2B_FAULT_OTHER, false, "does not offer this", NULL},
    {"405", E2B_PAUSE, E2B_GENERATION_V2, ANSWER(PAUSE, 405, NULL), 1,
     ERR_UNSUPPORTED, E2B_FAULT_OTHER, false, "does not offer this (405)",
     NULL},
    {"501", E2B_TIMEOUT, E2B_GENERATION_V2, ANSWER(TIMEOUT, 501, NULL), 1,
     ERR_UNSUPPORTED, E2B_FAULT_OTHER, false, "does not offer this (501)",
     NULL},
    {"409 again and again", E2B_CONNECT, E2B_GENERATION_V2,
     ANSWER(CONNECT, 409, NULL), 4, ERR_SANDBOX, E2B_FAULT_CHANGING, false,
     "changing its state", NULL},
    {"409 that is final", E2B_KILL, E2B_GENERATION_V2,
     ANSWER_WITH(KILL, 409, NULL, NO_RETRY), 1, ERR_SANDBOX, E2B_FAULT_CHANGING,
     false, "changing its state", NULL},
    {"409 of a template", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 409, "{\"message\":\"not built\"}"), 1, ERR_REMOTE,
     E2B_FAULT_OTHER, false, "not accepted now (409: not built)", NULL},
    {"409 of a create under way", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 409, "{\"error_code\":\"idempotency_in_progress\"}"), 4,
     ERR_SANDBOX, E2B_FAULT_CHANGING, false, "changing its state", NULL},
    {"409 of nobody knows what", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER(CREATE_V2, 409, "{\"error_code\":\"idempotency_outcome_unknown\"}"),
     1, ERR_REMOTE, E2B_FAULT_OTHER, true, "(409)", NULL},
    {"409 of a bad pause", E2B_CONNECT, E2B_GENERATION_V2,
     ANSWER(CONNECT, 409,
            "{\"error_code\":\"sandbox_snapshot_guest_agent_unresponsive\"}"),
     1, ERR_SANDBOX, E2B_FAULT_COLD, false, "only its files", NULL},
    {"429 of sandboxes", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER_WITH(CREATE_V2, 429,
                 "{\"message\":\"you have reached the maximum number of "
                 "concurrent sandboxes\"}",
                 AT_ONCE),
     1, ERR_LIMIT, E2B_FAULT_LIMIT, false, "end one first", NULL},
    {"429 of requests", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER_WITH(CREATE_V2, 429, NULL, AT_ONCE), 4, ERR_RATE_LIMIT,
     E2B_FAULT_LIMIT, false, "too many requests", NULL},
    {"429 without a time", E2B_INFO, E2B_GENERATION_V2, ANSWER(INFO, 429, NULL),
     4, ERR_RATE_LIMIT, E2B_FAULT_LIMIT, false, "too many requests", NULL},
    {"429 that is final", E2B_INFO, E2B_GENERATION_V2,
     ANSWER_WITH(INFO, 429, NULL, NO_RETRY), 1, ERR_RATE_LIMIT, E2B_FAULT_LIMIT,
     false, "too many requests", NULL},
    {"500 once more", E2B_KILL, E2B_GENERATION_V2,
     ANSWER_WITH(KILL, 500, NULL, AT_ONCE), 2, ERR_REMOTE, E2B_FAULT_OTHER,
     false, "the service has failed (500)", NULL},
    {"500 of a create with a key", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER_WITH(CREATE_V2, 500, "{\"error_code\":\"sandbox_create_failed\"}",
                 AT_ONCE),
     2, ERR_REMOTE, E2B_FAULT_OTHER, true, "(500)", NULL},
    {"500 of a create without one", E2B_CREATE, E2B_GENERATION_V1,
     ANSWER_WITH(CREATE_V1, 500, NULL, AT_ONCE), 1, ERR_REMOTE, E2B_FAULT_OTHER,
     true, "(500)", NULL},
    {"500 of a create that is refused", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER_WITH(CREATE_V2, 500, "{\"error_code\":\"sandbox_create_refused\"}",
                 AT_ONCE),
     1, ERR_REMOTE, E2B_FAULT_OTHER, true, "(500)", NULL},
    {"500 that may pass", E2B_CREATE, E2B_GENERATION_V1,
     ANSWER_WITH(CREATE_V1, 500, NULL, RETRY), 4, ERR_REMOTE, E2B_FAULT_OTHER,
     true, "(500)", NULL},
    {"502 with a page", E2B_INFO, E2B_GENERATION_V2,
     ANSWER_WITH(INFO, 502, "<html><body>secret words</body></html>", AT_ONCE),
     4, ERR_OVERLOADED, E2B_FAULT_OTHER, false, "gateway", "words"},
    {"502 of a create without a key", E2B_CREATE, E2B_GENERATION_V1,
     ANSWER_WITH(CREATE_V1, 502, NULL, AT_ONCE), 1, ERR_OVERLOADED,
     E2B_FAULT_OTHER, true, "(502)", NULL},
    {"503", E2B_CREATE, E2B_GENERATION_V1,
     ANSWER_WITH(CREATE_V1, 503, NULL, AT_ONCE), 4, ERR_OVERLOADED,
     E2B_FAULT_CAPACITY, false, "no capacity", NULL},
    {"504", E2B_CREATE, E2B_GENERATION_V2,
     ANSWER_WITH(CREATE_V2, 504, NULL, AT_ONCE), 4, ERR_OVERLOADED,
     E2B_FAULT_CAPACITY, true, "no place in time", NULL},
    {"503 of a pause", E2B_PAUSE, E2B_GENERATION_V2,
     ANSWER_WITH(PAUSE, 503, NULL, AT_ONCE), 4, ERR_OVERLOADED,
     E2B_FAULT_CAPACITY, false, "pausing a sandbox", NULL},
    {"302", E2B_INFO, E2B_GENERATION_V2,
     ANSWER_WITH(INFO, 302, NULL, "Location: http://127.0.0.1:1/\r\n"), 1,
     ERR_REMOTE, E2B_FAULT_OTHER, false, "see api_url (302)", NULL},
    {"418", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 418, "{\"detail\":\"x\"}"), 1, ERR_REMOTE, E2B_FAULT_OTHER,
     false, "(418: x)", NULL},
    {"a closed connection", E2B_INFO, E2B_GENERATION_V2,
     NO_ANSWER(INFO, SERVER_CLOSES), 4, ERR_NET, E2B_FAULT_OTHER, false,
     "without an answer", NULL},
    {"a closed connection of a create with a key", E2B_CREATE,
     E2B_GENERATION_V2, NO_ANSWER(CREATE_V2, SERVER_CLOSES), 4, ERR_NET,
     E2B_FAULT_OTHER, true, "without an answer", NULL},
    {"a closed connection of a create without one", E2B_CREATE,
     E2B_GENERATION_V1, NO_ANSWER(CREATE_V1, SERVER_CLOSES), 1, ERR_NET,
     E2B_FAULT_OTHER, true, "without an answer", NULL},
    {"half an answer to a create without one",
     E2B_CREATE,
     E2B_GENERATION_V1,
     {.request = CREATE_V1,
      .status = 201,
      .body = "{",
      .headers = "Should-Retry: true\r\n",
      .act = SERVER_CLOSES_HALF},
     1,
     ERR_NET,
     E2B_FAULT_OTHER,
     true,
     "broke off",
     NULL},
    {"a page in a message", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 400, "{\"message\":\"see <HTML lang=en>words\"}"), 1,
     ERR_REMOTE, E2B_FAULT_OTHER, false, "not accepted (400)", "words"},
    {"a page by its type", E2B_INFO, E2B_GENERATION_V2,
     ANSWER_WITH(INFO, 400, "words", "Content-Type: text/html\r\n"), 1,
     ERR_REMOTE, E2B_FAULT_OTHER, false, "not accepted (400)", "words"},
    {"controls in a message", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 400,
            "{\"message\":\"a\\u001b[2J\\r\\n b\\u202ec\\u200b\\u0000d\"}"),
     1, ERR_REMOTE, E2B_FAULT_OTHER, false,
     "(400: a [2J bc\xef\xbf\xbd"
     "d)",
     "\x1b"},
    {"the key in a message", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 400, "{\"message\":\"key " KEY "\"}"), 1, ERR_REMOTE,
     E2B_FAULT_OTHER, false, "(400: key ", KEY},
    {"the key in pieces", E2B_INFO, E2B_GENERATION_V2,
     ANSWER(INFO, 400, "{\"message\":\"key e2b_5d\\u200b0c7a91\"}"), 1,
     ERR_REMOTE, E2B_FAULT_OTHER, false, "(400: key ", KEY},
    {"a long text",
     E2B_INFO,
     E2B_GENERATION_V2,
     {.request = INFO, .status = 400, .body = "start", .fill = 10 << 20},
     1,
     ERR_REMOTE,
     E2B_FAULT_OTHER,
     false,
     "not accepted (400)",
     "start"},
};

static void
check_refusal(const struct fixture *f, const struct refusal_case *c)
{
    if (!f->failed || f->err.code != c->code || f->fault != c->fault ||
        f->maybe_made != c->maybe_made || f->n_sandboxes != 0 ||
        strstr(f->err.msg, c->expect_part) == NULL ||
        strstr(f->err.msg, e2b_api_host(f->api)) != f->err.msg ||
        (c->expect_not != NULL && strstr(f->err.msg, c->expect_not) != NULL) ||
        (f->err.code != ERR_NET && f->err.http_status != c->one.status) ||
        strchr(f->err.msg, '\n')) {
        fail_msg("%s: %s, %s, fault %d, maybe made %d", c->name,
                 error_code_name(f->err.code), f->err.msg, (int)f->fault,
                 f->maybe_made);
    }
}

static void
test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(refusal_cases); i++) {
        const struct refusal_case *c = &refusal_cases[i];
        struct exchange script[4];
        struct fixture f;

        set_up(&f);
        e2b_api_free(f.api);
        f.config.generation = c->generation;
        make_api(&f);
        for (size_t k = 0; k < c->n; k++) {
            script[k] = c->one;
        }
        run(&f, c->op, script, c->n);
        check_refusal(&f, c);
        tear_down(&f);
    }
}

static void
test_long_words_are_cut(void **state)
{
    char body[1024];
    struct exchange script[] = {ANSWER(INFO, 400, body)};
    struct fixture f;

    (void)state;
    memset(body, 'x', sizeof(body));
    body[sizeof(body) - 1] = '\0';
    set_up(&f);
    run(&f, E2B_INFO, script, LEN(script));
    assert_non_null(strstr(f.err.msg, "xxx...)"));
    assert_true(strlen(f.err.msg) < 400);
    tear_down(&f);
}

static void
test_no_connection(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    e2b_api_free(f.api);
    free(f.url);
    /* Nobody listens there. */
    f.url = xstrdup("http://127.0.0.1:1");
    f.config.url = f.url;
    f.config.generation = E2B_GENERATION_V1;
    make_api(&f);
    run(&f, E2B_CREATE, NULL, 0);
    assert_int_equal(f.err.code, ERR_NET);
    assert_false(f.maybe_made);
    tear_down(&f);
}

/* --- answers that are none --- */

struct odd_case {
    const char *name;
    const char *body;
    size_t fill;
    enum error_code code;
    bool undone; /* the sandbox is ended */
    const char *expect_part;
};

#define WITH_ID "{\"sandboxID\":\"" ID "\","

static const struct odd_case odd_cases[] = {
    {"empty", "", 0, ERR_PROTOCOL, false, "the answer is empty"},
    {"a page", "<html>hello</html>", 0, ERR_PROTOCOL, false, "is no JSON"},
    {"a list", "[]", 0, ERR_PROTOCOL, false, "no description"},
    {"null", "null", 0, ERR_PROTOCOL, false, "no description"},
    {"nothing in it", "{}", 0, ERR_PROTOCOL, false, "sandboxID is missing"},
    {"a number as id", "{\"sandboxID\":7}", 0, ERR_PROTOCOL, false,
     "sandboxID is no text"},
    {"an odd id", "{\"sandboxID\":\"a/../b\"}", 0, ERR_PROTOCOL, false,
     "not of a-z"},
    {"an id with a suffix", "{\"sandboxID\":\"abc-def\"}", 0, ERR_PROTOCOL,
     false, "not of a-z"},
    {"an odd domain", WITH_ID "\"domain\":\"evil.example/x\"}", 0, ERR_PROTOCOL,
     true, "domain is not the name of a host"},
    {"a domain with a user", WITH_ID "\"domain\":\"a@b\"}", 0, ERR_PROTOCOL,
     true, "domain"},
    {"a domain of another type", WITH_ID "\"domain\":[]}", 0, ERR_PROTOCOL,
     true, "domain is no text"},
    {"a token with a line end", WITH_ID "\"envdAccessToken\":\"a\\r\\nb\"}", 0,
     ERR_PROTOCOL, true, "envdAccessToken"},
    {"a token of another type", WITH_ID "\"trafficAccessToken\":true}", 0,
     ERR_PROTOCOL, true, "trafficAccessToken is no text"},
    {"a version of another type", WITH_ID "\"envdVersion\":1}", 0, ERR_PROTOCOL,
     true, "envdVersion is no text"},
    {"a version that is too old", WITH_ID "\"envdVersion\":\"0.0.9\"}", 0,
     ERR_UNSUPPORTED, true, "too old"},
    {"10 MB", MADE, 10 << 20, ERR_TOO_LARGE, false, "too long"},
};

static void
test_odd_answers_to_create(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(odd_cases); i++) {
        const struct odd_case *c = &odd_cases[i];
        const struct exchange script[] = {
            {.request = CREATE_V2,
             .status = 201,
             .body = c->body,
             .fill = c->fill},
            ANSWER(KILL, 204, NULL),
        };
        struct fixture f;

        set_up(&f);
        run(&f, E2B_CREATE, script, c->undone ? 2 : 1);
        if (!f.failed || f.err.code != c->code || f.maybe_made != !c->undone ||
            f.n_sandboxes != 0 || strstr(f.err.msg, c->expect_part) == NULL ||
            (strstr(f.err.msg, "ended again") != NULL) != c->undone) {
            fail_msg("%s: %s, maybe made %d", c->name, f.err.msg, f.maybe_made);
        }
        tear_down(&f);
    }
}

static void
test_undo_that_fails(void **state)
{
    static const struct exchange script[] = {
        ANSWER(CREATE_V2, 201, WITH_ID "\"domain\":7}"),
        ANSWER_WITH(KILL, 503, NULL, AT_ONCE),
        ANSWER(KILL, 403, NULL),
    };
    struct fixture f;

    (void)state;
    set_up(&f);
    run(&f, E2B_CREATE, script, LEN(script));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    assert_true(f.maybe_made);
    assert_non_null(strstr(f.err.msg, "could not be ended"));
    tear_down(&f);
}

/* What nothing depends on is left out, not believed. */
static void
test_odd_parts_are_left_out(void **state)
{
    static const struct exchange script[] = {ANSWER(
        INFO, 200,
        WITH_ID
        "\"templateID\":\"a\\u001bb\",\"envdVersion\":\"99999999.1.1\","
        "\"startedAt\":\"2026-9-1T08:00:00Z\",\"endAt\":7,\"cpuCount\":-1,"
        "\"memoryMB\":1e30,\"state\":\"flying\",\"domain\":\"\","
        "\"metadata\":{\"a\":7,\"b/c\":\"d\",\"e\":\"f g\",\"h\":\"i\"}}")};
    static const struct exchange other[] = {
        ANSWER(INFO, 200, "{\"sandboxID\":\"another\"}")};
    struct fixture f;
    const struct e2b_sandbox *s;

    (void)state;
    set_up(&f);
    run(&f, E2B_INFO, script, LEN(script));
    expect_success(&f);
    s = &f.sandboxes[0];
    assert_string_equal(s->template_id, "");
    assert_int_equal(s->envd[0], 0);
    assert_int_equal(s->envd[1], 0);
    assert_true(s->started_ms == 0 && s->end_ms == 0);
    assert_int_equal(s->cpu_count, 0);
    assert_int_equal(s->memory_mib, 0);
    assert_int_equal(s->state, E2B_STATE_UNKNOWN);
    assert_int_equal(s->n_labels, 1);
    assert_string_equal(s->labels[0].name, "h");
    run(&f, E2B_INFO, other, LEN(other));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    assert_non_null(strstr(f.err.msg, "another sandbox"));
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_words_are_cut),
        cmocka_unit_test(test_no_connection),
        cmocka_unit_test(test_odd_answers_to_create),
        cmocka_unit_test(test_undo_that_fails),
        cmocka_unit_test(test_odd_parts_are_left_out),
    };

    return cmocka_run_group_tests_name("e2b_refusals", tests, NULL, NULL);
}
