/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_api_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/e2b_call_internal.h"

#define MAX_REPLY_BYTES ((size_t)4 << 20)

enum { CREATE_MS = 75000, OTHER_MS = 30000 };

/* --- calls --- */

static struct e2b_call *
new_call(struct e2b_api *api, enum e2b_op op, e2b_done_fn fn, void *ctx)
{
    struct e2b_call *call = xcalloc(1, sizeof(*call));

    call->api = api;
    call->op = op;
    call->fn = fn;
    call->ctx = ctx;
    call->generation = api->generation == E2B_GENERATION_AUTO
                           ? E2B_GENERATION_V2
                           : api->generation;
    call->may_fall_back = api->generation == E2B_GENERATION_AUTO &&
                          (op == E2B_CREATE || op == E2B_CONNECT);
    sbuf_init(&call->reply, MAX_REPLY_BYTES);
    call->next = api->calls;
    if (call->next != NULL) {
        call->next->prev = call;
    }
    api->calls = call;
    return call;
}

static void
discard_call(struct e2b_call *call)
{
    e2b_call_unlink(call);
    e2b_call_free(call);
}

/* Takes ownership of the call. */
static struct e2b_call *
begin(struct e2b_call *call, struct error *err)
{
    struct error own = {0};

    e2b_call_begin_step(call, E2B_STEP_MAIN);
    if (e2b_call_start(call, &own) < 0) {
        if (err != NULL) {
            *err = own;
        }
        discard_call(call);
        return NULL;
    }
    return call;
}

/* Takes ownership of body. */
static struct e2b_call *
begin_for(struct e2b_api *api, enum e2b_op op, const char *id, char *body,
          e2b_done_fn fn, void *ctx, struct error *err)
{
    AUTO_FREE char *owned = body;
    struct e2b_call *call;

    if (!e2b_is_id(id)) {
        error_fill(err, ERR_USAGE,
                   "sandbox \"%.80s\": not an id of a-z and 0-9", id);
        return NULL;
    }
    call = new_call(api, op, fn, ctx);
    memcpy(call->id, id, strlen(id) + 1);
    call->body = take_ptr(&owned);
    return begin(call, err);
}

static int
check_timeout(int64_t timeout_s, struct error *err)
{
    if (timeout_s < 1 || timeout_s > E2B_MAX_TIMEOUT_S) {
        return err_set(err, ERR_USAGE,
                       "timeout: %lld s is not between 1 and %d",
                       (long long)timeout_s, E2B_MAX_TIMEOUT_S);
    }
    return 0;
}

struct e2b_call *
e2b_api_create(struct e2b_api *api, e2b_done_fn fn, void *ctx,
               struct error *err)
{
    struct e2b_call *call = new_call(api, E2B_CREATE, fn, ctx);

    if (e2b_make_uuid(call->uuid, err) < 0) {
        discard_call(call);
        return NULL;
    }
    return begin(call, err);
}

struct e2b_call *
e2b_api_connect(struct e2b_api *api, const char *id, int64_t timeout_s,
                bool cold, e2b_done_fn fn, void *ctx, struct error *err)
{
    if (check_timeout(timeout_s, err) < 0) {
        return NULL;
    }
    return begin_for(api, E2B_CONNECT, id,
                     xasprintf("{\"timeout\":%lld%s}", (long long)timeout_s,
                               cold ? ",\"memory\":false" : ""),
                     fn, ctx, err);
}

struct e2b_call *
e2b_api_set_timeout(struct e2b_api *api, const char *id, int64_t timeout_s,
                    e2b_done_fn fn, void *ctx, struct error *err)
{
    if (check_timeout(timeout_s, err) < 0) {
        return NULL;
    }
    return begin_for(api, E2B_TIMEOUT, id,
                     xasprintf("{\"timeout\":%lld}", (long long)timeout_s), fn,
                     ctx, err);
}

struct e2b_call *
e2b_api_pause(struct e2b_api *api, const char *id, e2b_done_fn fn, void *ctx,
              struct error *err)
{
    return begin_for(api, E2B_PAUSE, id, xstrdup("{}"), fn, ctx, err);
}

struct e2b_call *
e2b_api_kill(struct e2b_api *api, const char *id, e2b_done_fn fn, void *ctx,
             struct error *err)
{
    return begin_for(api, E2B_KILL, id, NULL, fn, ctx, err);
}

struct e2b_call *
e2b_api_info(struct e2b_api *api, const char *id, e2b_done_fn fn, void *ctx,
             struct error *err)
{
    return begin_for(api, E2B_INFO, id, NULL, fn, ctx, err);
}

struct e2b_call *
e2b_api_set_network(struct e2b_api *api, const char *id, e2b_done_fn fn,
                    void *ctx, struct error *err)
{
    return begin_for(api, E2B_NETWORK, id, e2b_make_network(&api->settings), fn,
                     ctx, err);
}

enum e2b_egress_check
e2b_api_check_egress(const struct e2b_api *api, const struct e2b_sandbox *s)
{
    return e2b_check_egress(&api->settings, s);
}

struct e2b_call *
e2b_api_list(struct e2b_api *api, const struct e2b_pair *labels,
             size_t n_labels, e2b_done_fn fn, void *ctx, struct error *err)
{
    struct e2b_call *call;

    if (n_labels == 0) {
        error_fill(err, ERR_USAGE, "no label to find sandboxes by");
        return NULL;
    }
    for (size_t i = 0; i < n_labels; i++) {
        if (!e2b_is_plain(labels[i].name) || !e2b_is_plain(labels[i].value)) {
            error_fill(err, ERR_USAGE,
                       "label \"%.80s\": it and its value are of letters, "
                       "digits and . _ ~ - alone",
                       labels[i].name);
            return NULL;
        }
    }
    call = new_call(api, E2B_LIST, fn, ctx);
    call->labels = xcalloc(n_labels, sizeof(*call->labels));
    for (size_t i = 0; i < n_labels; i++) {
        call->labels[i] = (struct e2b_pair){xstrdup(labels[i].name),
                                            xstrdup(labels[i].value)};
    }
    call->n_labels = n_labels;
    return begin(call, err);
}

static void
on_cancelled(void *ctx)
{
    struct e2b_call *call = ctx;

    call->task = NULL;
    e2b_call_end(call);
}

void
e2b_api_cancel(struct e2b_call *call)
{
    /* The service may go on with what it has been asked for. */
    call->maybe_made =
        call->maybe_made ||
        (call->op == E2B_CREATE && (call->http != NULL || call->too_large));
    e2b_call_stop_timers(call);
    e2b_call_drop_request(call);
    call->err = (struct error){0};
    error_fill(&call->err, ERR_CANCELLED, "%s: %s: cancelled",
               call->api->settings.host, e2b_op_name(call->op));
    call->fault = E2B_FAULT_OTHER;
    call->task = loop_defer(call->api->loop, on_cancelled, call);
}

void
e2b_api_drop(struct e2b_call *call)
{
    discard_call(call);
}

/* --- the object --- */

struct e2b_api *
e2b_api_new(struct loop *loop, struct http *http,
            const struct e2b_api_config *config, struct error *err)
{
    struct e2b_settings settings = {0};
    struct e2b_api *api;

    if (e2b_settings_init(&settings, config, err) < 0) {
        e2b_settings_fini(&settings);
        return NULL;
    }
    api = xcalloc(1, sizeof(*api));
    api->loop = loop;
    api->http = http;
    api->settings = settings;
    api->key = config->key;
    api->headers = config->headers;
    api->n_headers = config->n_headers;
    api->generation = config->generation;
    api->create_ms = config->create_ms > 0 ? config->create_ms : CREATE_MS;
    api->other_ms = config->other_ms > 0 ? config->other_ms : OTHER_MS;
    return api;
}

void
e2b_api_free(struct e2b_api *api)
{
    if (api == NULL) {
        return;
    }
    while (api->calls != NULL) {
        discard_call(api->calls);
    }
    e2b_settings_fini(&api->settings);
    free(api);
}

const char *
e2b_api_host(const struct e2b_api *api)
{
    return api->settings.host;
}

enum e2b_generation
e2b_api_generation(const struct e2b_api *api)
{
    return api->generation;
}
