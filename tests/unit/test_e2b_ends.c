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

/* --- the end before the end --- */

struct stop_case {
    const char *name;
    enum e2b_op op;
    size_t n; /* requests before it, and all there are */
    bool waits;
    bool maybe_made;
    struct exchange script[3];
};

static const struct stop_case stop_cases[] = {
    {"no answer yet",
     E2B_CREATE,
     1,
     false,
     true,
     {NO_ANSWER("POST /base/v2/sandboxes", SERVER_HANGS)}},
    {"half an answer",
     E2B_CREATE,
     1,
     false,
     true,
     {HALF_ANSWER("POST /base/v2/sandboxes", 201, "{\"sand")}},
    {"before the next try",
     E2B_CREATE,
     1,
     true,
     false,
     {ANSWER_WITH("POST /base/v2/sandboxes", 503, NULL, LATER)}},
    {"on the other path",
     E2B_CREATE,
     2,
     false,
     true,
     {ANSWER("POST /base/v2/sandboxes", 405, NULL),
      NO_ANSWER("POST /base/sandboxes", SERVER_HANGS)}},
    {"while it is ended again",
     E2B_CREATE,
     2,
     false,
     true,
     {ANSWER("POST /base/v2/sandboxes", 201,
             "{\"sandboxID\":\"" ID "\",\"domain\":\"a/b\"}"),
      NO_ANSWER("DELETE /base/sandboxes/" ID, SERVER_HANGS)}},
    {"looking",
     E2B_PAUSE,
     2,
     false,
     false,
     {ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
      NO_ANSWER("GET /base/sandboxes/" ID, SERVER_HANGS)}},
    {"between two states",
     E2B_PAUSE,
     2,
     true,
     false,
     {ANSWER("POST /base/sandboxes/" ID "/pause", 409, NULL),
      ANSWER_WITH("GET /base/sandboxes/" ID, 200, INFO_OF("running"), LATER)}},
    {"the second page",
     E2B_LIST,
     2,
     false,
     false,
     {ANSWER_WITH(LIST_URL, 200, "[" INFO_OF("running") "]",
                  "X-Next-Token: a\r\n"),
      NO_ANSWER(LIST_URL "&nextToken=a", SERVER_HANGS)}},
};

static void
on_later(void *ctx)
{
    struct fixture *f = ctx;

    loop_stop(f->loop);
}

/* What else may come comes now. */
static void
run_on(struct fixture *f)
{
    loop_add_timer(f->loop, AGAIN_MS, on_later, f);
    loop_run(f->loop);
    assert_int_equal(f->n_done, 1);
}

static void
test_cancel_in_each_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stop_cases); i++) {
        const struct stop_case *c = &stop_cases[i];
        struct fixture f;

        set_up(&f);
        f.stop_at = c->n;
        f.waits = c->waits;
        run(&f, c->op, c->script, c->n);
        if (f.err.code != ERR_CANCELLED || f.maybe_made != c->maybe_made ||
            f.n_sandboxes != 0) {
            fail_msg("%s: %s, maybe made: %d", c->name, f.err.msg,
                     f.maybe_made);
        }
        run_on(&f);
        tear_down(&f);
    }
}

static void
test_cancel_before_the_request(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    f.call = e2b_api_kill(f.api, ID, on_done, &f, NULL);
    assert_non_null(f.call);
    e2b_api_cancel(f.call);
    assert_int_equal(f.n_done, 0);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.err.code, ERR_CANCELLED);
    assert_int_equal(f.server.n_requests, 0);
    tear_down(&f);
}

static void
test_free_in_each_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stop_cases); i++) {
        const struct stop_case *c = &stop_cases[i];
        struct fixture f;

        set_up(&f);
        f.stop_at = c->n;
        f.waits = c->waits;
        f.frees_api = true;
        run(&f, c->op, c->script, c->n);
        tear_down(&f);
    }
}

static void
test_free_in_the_callback(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST /base/v2/sandboxes", 201, MADE)};
    struct fixture f;

    (void)state;
    set_up(&f);
    f.frees_in_done = true;
    run(&f, E2B_CREATE, script, LEN(script));
    expect_success(&f);
    assert_null(f.api);
    tear_down(&f);
}

static void
test_free_in_the_callback_with_another_call(void **state)
{
    static const struct exchange script[] = {
        NO_ANSWER("GET /base/sandboxes/" ID, SERVER_HANGS),
        ANSWER("GET /base/sandboxes/" ID, 200, INFO_OF("running")),
    };
    struct fixture f;

    (void)state;
    set_up(&f);
    f.frees_in_done = true;
    assert_non_null(e2b_api_info(f.api, ID, on_done, &f, NULL));
    run(&f, E2B_INFO, script, LEN(script));
    expect_success(&f);
    tear_down(&f);
}

static void
test_deadline(void **state)
{
    static const struct exchange create[] = {
        HALF_ANSWER("POST /base/v2/sandboxes", 201, "{\"sand")};
    static const struct exchange undo[] = {
        ANSWER("POST /base/v2/sandboxes", 201,
               "{\"sandboxID\":\"" ID "\",\"domain\":"
               "7}"),
        NO_ANSWER("DELETE /base/sandboxes/" ID, SERVER_HANGS)};
    static const struct exchange info[] = {
        ANSWER_WITH("GET /base/sandboxes/" ID, 503, NULL, LATER)};
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_int_equal(f.api->create_ms, 75000);
    assert_int_equal(f.api->other_ms, 30000);
    e2b_api_free(f.api);
    f.config.create_ms = 1500;
    f.config.other_ms = 1500;
    make_api(&f);
    run(&f, E2B_CREATE, create, LEN(create));
    assert_int_equal(f.err.code, ERR_TIMEOUT);
    assert_true(f.maybe_made);
    assert_non_null(strstr(f.err.msg, "no answer within"));
    run(&f, E2B_CREATE, undo, LEN(undo));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    assert_true(f.maybe_made);
    /* A wait that leaves no time is not begun. */
    run(&f, E2B_INFO, info, LEN(info));
    assert_int_equal(f.err.code, ERR_OVERLOADED);
    assert_int_equal(f.err.retry_after_ms, 20000);
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_in_each_state),
        cmocka_unit_test(test_cancel_before_the_request),
        cmocka_unit_test(test_free_in_each_state),
        cmocka_unit_test(test_free_in_the_callback),
        cmocka_unit_test(test_free_in_the_callback_with_another_call),
        cmocka_unit_test(test_deadline),
    };

    return cmocka_run_group_tests_name("e2b_ends", tests, NULL, NULL);
}
