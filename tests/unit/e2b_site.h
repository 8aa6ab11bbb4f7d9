/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sandbox whose services are a server that plays a script (e2b_server.h), and
 * what became of a request to them.
 */
#ifndef TESTS_E2B_SITE_H
#define TESTS_E2B_SITE_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/secret.h"
#include "net/http.h"
#include "sandbox/e2b_data_internal.h"

#include "e2b_server.h"

#define ID "i7kq2m4xw9c0z5r1t8b6"
#define TOKEN "ea_4f1c9d2b7e"
#define TRAFFIC "ta_90b1c2"

#define GONE_JSON                                                              \
    "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox was not found\","     \
    "\"code\":502}"
#define CLOSED_JSON                                                            \
    "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox is running but port " \
    "is not open\",\"port\":49999,\"code\":502}"
#define CHANGING_JSON                                                          \
    "{\"sandboxId\":\"" ID "\",\"message\":\"The sandbox is still "            \
    "transitioning. Try again in a moment.\",\"code\":409}"

struct fixture {
    struct loop *loop;
    struct http *http;
    struct server server;
    struct e2b_site site;
    char *form; /* owned; {id} and {port} are in it */

    size_t n_done;
    struct e2b_data_result result; /* owned: its texts; err is &err, or NULL */
    struct error err;
    int64_t sent;
    size_t n_sent;
};

/* A result outlives its callback here. */
static void
keep_result(struct fixture *f, const struct e2b_data_result *result)
{
    f->n_done++;
    f->result = *result;
    f->result.body = xstrndup(result->body, result->body_len);
    f->result.status.message = xstrdup(result->status.message);
    if (result->err != NULL) {
        f->err = *result->err;
        f->result.err = &f->err;
    }
    loop_stop(f->loop);
}

static void
forget_result(struct fixture *f)
{
    free_const(f->result.body);
    free(f->result.status.message);
    f->result = (struct e2b_data_result){0};
    f->err = (struct error){0};
    f->n_done = 0;
    f->sent = 0;
    f->n_sent = 0;
}

/* Its daemon is of version 0.minor.patch. */
static void
set_up(struct fixture *f, int minor, int patch)
{
    const struct http_config config = {.user_agent = "test/1",
                                       .connect_ms = 60000};
    struct e2b_sandbox s = {.id = ID, .envd = {0, minor, patch}};
    struct error err = {0};

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    assert_true(server_start(&f->server, f->loop));
    f->http = http_new(f->loop, &config);
    f->form = xasprintf("http://127.0.0.1:%d", f->server.port);
    s.envd_token = secret_new(TOKEN, strlen(TOKEN));
    s.traffic_token = secret_new(TRAFFIC, strlen(TRAFFIC));
    if (e2b_site_init(&f->site, f->loop, f->http, f->form, "e2b.app", &s,
                      &err) < 0) {
        fail_msg("%s", err.msg);
    }
    e2b_sandbox_fini(&s);
}

static void
tear_down(struct fixture *f)
{
    forget_result(f);
    e2b_site_fini(&f->site);
    http_free(f->http);
    server_stop(&f->server);
    loop_free(f->loop);
    free(f->form);
}

/* All of a script must have been used. */
static void
expect_all_used(const struct fixture *f, const char *name)
{
    if (f->server.n_wrong > 0 || f->server.n_requests != f->server.n_script) {
        fail_msg("%s: %zu requests instead of %zu, the last is %s", name,
                 f->server.n_requests, f->server.n_script,
                 f->server.n_requests > 0
                     ? f->server.requests[f->server.n_requests - 1]
                     : "none");
    }
}

#endif
