/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One operation of the control plane at a time, against a server that plays a
 * script (e2b_server.h); it may be cancelled behind any request.
 */
#ifndef TESTS_E2B_CLIENT_H
#define TESTS_E2B_CLIENT_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/secret.h"
#include "net/http.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_call_internal.h"

#include "e2b_server.h"

#define KEY "e2b_5d0c7a91"
#define BEARER "sk-0123456789"
#define TOKEN "ea_4f1c9d2b7e"
#define ID "i7kq2m4xw9c0z5r1t8b6"

/* A wait that lasts as long as the test does. */
#define LATER "Retry-After: 20\r\n"
#define AT_ONCE "Retry-After: 0\r\n"

#define MADE                                                                   \
    "{\"templateID\":\"nlhz8vlwyupq845jsdg9\",\"sandboxID\":\"" ID "\","       \
    "\"clientID\":\"6532622b\",\"alias\":\"code-interpreter-v1\","             \
    "\"envdVersion\":\"0.6.13\",\"envdAccessToken\":\"" TOKEN "\","            \
    "\"trafficAccessToken\":null,\"domain\":null}"

#define INFO_OF(state)                                                         \
    "{\"sandboxID\":\"" ID "\",\"state\":\"" state "\","                       \
    "\"startedAt\":\"2026-09-01T08:00:00.120Z\","                              \
    "\"endAt\":\"2026-09-01T10:10:00+02:00\",\"envdVersion\":\"0.6.13\","      \
    "\"cpuCount\":2,\"memoryMB\":2048,\"metadata\":{\"job\":\"7\"}}"

#define LIST_URL                                                               \
    "GET /base/v2/sandboxes?metadata=job%3D7&state=running%2Cpaused&limit=50"

enum { AGAIN_MS = 5 };

struct fixture {
    struct loop *loop;
    struct http *http;
    struct server server;
    struct secret *key;
    struct secret *bearer;
    struct e2b_api *api;
    struct e2b_call *call;
    struct loop_timer *timer;
    char *url; /* owned */
    struct e2b_api_config config;

    /* The call is cancelled behind this request, when it has begun to wait for
       the next if waits; or the API is freed. */
    size_t stop_at;
    bool waits;
    bool frees_api;
    bool frees_in_done;

    bool starting;
    size_t n_done;
    bool failed;
    struct error err;
    enum e2b_fault fault;
    bool changed;
    bool maybe_made;
    struct e2b_sandbox *sandboxes; /* owned */
    size_t n_sandboxes;
};

static void
on_stop(void *ctx)
{
    struct fixture *f = ctx;

    f->timer = NULL;
    if (f->n_done > 0) {
        return;
    }
    if (f->waits && f->call->wait == NULL) {
        f->timer = loop_add_timer(f->loop, AGAIN_MS, on_stop, f);
        return;
    }
    if (f->frees_api) {
        e2b_api_free(f->api);
        f->api = NULL;
        loop_stop(f->loop);
        return;
    }
    e2b_api_cancel(f->call);
    assert_int_equal(f->n_done, 0);
    e2b_api_cancel(f->call);
}

static void
on_request(void *ctx)
{
    struct fixture *f = ctx;

    if (f->server.n_requests == f->stop_at) {
        f->timer = loop_add_timer(f->loop, AGAIN_MS, on_stop, f);
    }
}

static void
on_done(void *ctx, struct e2b_result *result)
{
    struct fixture *f = ctx;

    assert_false(f->starting);
    f->n_done++;
    f->failed = result->err != NULL;
    if (result->err != NULL) {
        f->err = *result->err;
    }
    f->fault = result->fault;
    f->changed = result->changed;
    f->maybe_made = result->maybe_made;
    f->n_sandboxes = result->n_sandboxes;
    f->sandboxes = xcalloc(result->n_sandboxes + 1, sizeof(*f->sandboxes));
    for (size_t i = 0; i < result->n_sandboxes; i++) {
        f->sandboxes[i] = result->sandboxes[i];
        result->sandboxes[i] = (struct e2b_sandbox){0};
    }
    if (f->frees_in_done) {
        e2b_api_free(f->api);
        f->api = NULL;
    }
    loop_stop(f->loop);
}

static void
forget_result(struct fixture *f)
{
    for (size_t i = 0; i < f->n_sandboxes; i++) {
        e2b_sandbox_fini(&f->sandboxes[i]);
    }
    free(f->sandboxes);
    f->sandboxes = NULL;
    f->n_sandboxes = 0;
    f->n_done = 0;
    f->failed = false;
    f->err = (struct error){0};
    f->fault = E2B_FAULT_NONE;
    f->changed = false;
    f->maybe_made = false;
}

static void
make_api(struct fixture *f)
{
    struct error err = {0};

    f->api = e2b_api_new(f->loop, f->http, &f->config, &err);
    if (f->api == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void
set_up(struct fixture *f)
{
    static const struct e2b_pair labels[] = {{"job", "7"}};
    static const struct e2b_pair envs[] = {{"TASK", "a \"b\""}};
    const struct http_config config = {.user_agent = "test/1",
                                       .connect_ms = 60000};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    assert_true(server_start(&f->server, f->loop));
    f->server.on_request = on_request;
    f->server.ctx = f;
    f->http = http_new(f->loop, &config);
    f->key = secret_new(KEY, strlen(KEY));
    f->bearer = secret_new("Bearer " BEARER, strlen("Bearer " BEARER));
    f->url = xasprintf("http://127.0.0.1:%d/base/", f->server.port);
    f->config = (struct e2b_api_config){.url = f->url,
                                        .key = f->key,
                                        .key_setting = "E2B_API_KEY",
                                        .template_name = "tpl",
                                        .timeout_s = 600,
                                        .envs = envs,
                                        .n_envs = LEN(envs),
                                        .labels = labels,
                                        .n_labels = LEN(labels)};
    make_api(f);
}

static void
tear_down(struct fixture *f)
{
    e2b_api_free(f->api);
    http_free(f->http);
    loop_timer_remove(f->timer);
    server_stop(&f->server);
    loop_free(f->loop);
    forget_result(f);
    secret_free(f->key);
    secret_free(f->bearer);
    free(f->url);
}

static struct e2b_call *
start(struct fixture *f, enum e2b_op op, struct error *err)
{
    switch (op) {
    case E2B_CREATE:
        return e2b_api_create(f->api, on_done, f, err);
    case E2B_CONNECT:
        return e2b_api_connect(f->api, ID, 300, false, on_done, f, err);
    case E2B_TIMEOUT:
        return e2b_api_set_timeout(f->api, ID, 120, on_done, f, err);
    case E2B_PAUSE:
        return e2b_api_pause(f->api, ID, on_done, f, err);
    case E2B_KILL:
        return e2b_api_kill(f->api, ID, on_done, f, err);
    case E2B_INFO:
        return e2b_api_info(f->api, ID, on_done, f, err);
    case E2B_NETWORK:
        return e2b_api_set_network(f->api, ID, on_done, f, err);
    case E2B_LIST:
        return e2b_api_list(f->api, f->config.labels, f->config.n_labels,
                            on_done, f, err);
    }
    return NULL;
}

/* Plays the script to one operation; all of it must have been used. */
static void
run(struct fixture *f, enum e2b_op op, const struct exchange *script, size_t n)
{
    struct error err = {0};

    forget_result(f);
    server_play(&f->server, script, n);
    f->starting = true;
    f->call = start(f, op, &err);
    f->starting = false;
    if (f->call == NULL) {
        fail_msg("%s", err.msg);
    }
    loop_run(f->loop);
    assert_int_equal(f->n_done, f->frees_api ? 0 : 1);
    if (f->server.n_wrong > 0) {
        fail_msg("an unexpected request: %s",
                 f->server.requests[f->server.n_requests - 1]);
    }
    assert_int_equal(f->server.n_requests, n);
}

static void
expect_success(const struct fixture *f)
{
    if (f->failed) {
        fail_msg("%s", f->err.msg);
    }
    assert_int_equal(f->fault, E2B_FAULT_NONE);
    assert_false(f->maybe_made);
}

#endif
