/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_leftovers_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_wire_internal.h"
#include "sandbox/key_source.h"

struct e2b_leftovers {
    struct loop *loop; /* borrowed */
    struct http *http; /* owned */
    bool (*is_alive)(void *ctx, const char *run);
    void *alive_ctx;

    /* Of the settings; key, its source and headers are borrowed. */
    char *url;   /* owned */
    char *host;  /* owned */
    char *owner; /* owned */
    char *run;   /* owned */
    const struct secret *key;
    struct key_source *key_source; /* NULL: none */
    const struct http_extra_header *headers;
    size_t n_headers;

    struct key_ask *key_asked;    /* borrowed: from key_source; in progress */
    const struct secret *own_key; /* borrowed: from it too; NULL: none yet */
    bool key_is_bad;              /* the service has refused own_key */
    struct e2b_api *api;          /* owned; NULL: there is no key yet */
    struct e2b_call *call;        /* in progress */
    struct loop_task *task;
    struct error err; /* that the task tells */

    struct e2b_sandbox *found; /* owned; the oldest first */
    size_t n_found;

    e2b_leftovers_fn done; /* of a search */
    char **ids;            /* owned, the texts too: what is to be ended */
    size_t n_ids;
    size_t at; /* the one that is its turn */
    e2b_ended_fn each;
    void (*all_ended)(void *ctx);
    void *ctx;
};

/* --- what both have in common --- */

size_t
e2b_labels(const struct e2b_config *config, const char *backend,
           struct e2b_pair *labels)
{
    size_t n = 0;

    labels[n++] = (struct e2b_pair){E2B_LABEL_APP, E2B_APP};
    if (config->name != NULL) {
        labels[n++] = (struct e2b_pair){E2B_LABEL_ENTRY, config->name};
    }
    if (config->owner != NULL) {
        labels[n++] = (struct e2b_pair){E2B_LABEL_OWNER, config->owner};
    }
    if (config->run != NULL) {
        labels[n++] = (struct e2b_pair){E2B_LABEL_RUN, config->run};
    }
    if (backend != NULL) {
        labels[n++] = (struct e2b_pair){E2B_LABEL_BACKEND, backend};
    }
    return n;
}

static void
free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(texts[i]);
    }
    free(texts);
}

static void
free_found(struct e2b_leftovers *l)
{
    for (size_t i = 0; i < l->n_found; i++) {
        e2b_sandbox_fini(&l->found[i]);
    }
    free(l->found);
    l->found = NULL;
    l->n_found = 0;
}

/* --- looking for them --- */

static void
end_search(struct e2b_leftovers *l, const struct error *err)
{
    e2b_leftovers_fn done = l->done;
    AUTO_FREE struct e2b_leftover *list =
        xcalloc(l->n_found + 1, sizeof(*list));

    for (size_t i = 0; i < l->n_found; i++) {
        const struct e2b_sandbox *s = &l->found[i];

        list[i] = (struct e2b_leftover){
            .id = s->id,
            .template_id = s->template_id,
            .paused = s->state == E2B_STATE_PAUSED,
            .started_ms = s->started_ms,
            .end_ms = s->end_ms,
            .cpu_count = s->cpu_count,
            .memory_mib = s->memory_mib,
        };
    }
    l->done = NULL;
    done(l->ctx, list, l->n_found, err);
}

static const char *
find_label(const struct e2b_sandbox *s, const char *name)
{
    for (size_t i = 0; i < s->n_labels; i++) {
        if (str_eq(s->labels[i].name, name)) {
            return s->labels[i].value;
        }
    }
    return NULL;
}

/* One that names no run was made by none that lives. */
static bool
is_left(const struct e2b_leftovers *l, const struct e2b_sandbox *s)
{
    const char *run = find_label(s, E2B_LABEL_RUN);

    return run == NULL ||
           (!str_eq(run, l->run) && !l->is_alive(l->alive_ctx, run));
}

static int
by_start(const void *a, const void *b)
{
    const struct e2b_sandbox *one = a;
    const struct e2b_sandbox *other = b;

    if (one->started_ms != other->started_ms) {
        return one->started_ms < other->started_ms ? -1 : 1;
    }
    return strcmp(one->id, other->id);
}

/* The next search then asks for another key. */
static void
check_key(struct e2b_leftovers *l, const struct e2b_result *result)
{
    if (result->fault == E2B_FAULT_AUTH) {
        l->key_is_bad = true;
        if (l->key_source != NULL) {
            key_source_refuse(l->key_source, l->own_key);
        }
    }
}

static void
on_list(void *ctx, struct e2b_result *result)
{
    struct e2b_leftovers *l = ctx;

    l->call = NULL;
    free_found(l);
    check_key(l, result);
    for (size_t i = 0; i < result->n_sandboxes; i++) {
        struct e2b_sandbox *s = &result->sandboxes[i];

        if (!is_left(l, s)) {
            continue;
        }
        l->found = xgrow(l->found, l->n_found, sizeof(*l->found));
        l->found[l->n_found++] = *s;
        *s = (struct e2b_sandbox){0};
    }
    if (l->n_found > 1) {
        qsort(l->found, l->n_found, sizeof(*l->found), by_start);
    }
    end_search(l, result->err);
}

static void
on_failed(void *ctx)
{
    struct e2b_leftovers *l = ctx;
    struct error err = l->err;

    l->task = NULL;
    l->err = (struct error){0};
    end_search(l, &err);
}

/* From the loop, as everything that is told. */
static void
fail_search(struct e2b_leftovers *l, const struct error *err)
{
    l->err = *err;
    l->task = loop_defer(l->loop, on_failed, l);
}

static struct e2b_api *
make_api(const struct e2b_leftovers *l, struct error *err)
{
    const struct e2b_api_config config = {
        .url = l->url,
        .key = l->own_key != NULL ? l->own_key : l->key,
        .key_setting = l->key_source != NULL ? "api_key_command" : NULL,
        .headers = l->headers,
        .n_headers = l->n_headers,
        .template_name = E2B_TEMPLATE, /* nothing is made here */
    };

    return e2b_api_new(l->loop, l->http, &config, err);
}

static void
list_all(struct e2b_leftovers *l)
{
    const struct e2b_pair labels[] = {
        {E2B_LABEL_APP, E2B_APP},
        {E2B_LABEL_OWNER, l->owner},
    };
    struct error err = {0};

    if (l->api == NULL) {
        l->api = make_api(l, &err);
    }
    if (l->api != NULL) {
        l->call = e2b_api_list(l->api, labels, 2, on_list, l, &err);
    }
    if (l->call == NULL) {
        fail_search(l, &err);
    }
}

static void
on_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct e2b_leftovers *l = ctx;

    l->key_asked = NULL;
    if (err != NULL) {
        end_search(l, err);
        return;
    }
    if (key != l->own_key) {
        e2b_api_free(l->api);
        l->api = NULL;
    }
    l->own_key = key;
    l->key_is_bad = false;
    list_all(l);
}

/* The source is asked each time: the back end may have got a newer key. */
void
e2b_leftovers_find(struct e2b_leftovers *l, e2b_leftovers_fn done, void *ctx)
{
    assert(l->done == NULL && l->each == NULL);
    l->done = done;
    l->ctx = ctx;
    free_found(l);
    if (l->key_source == NULL) {
        list_all(l);
        return;
    }
    l->key_asked = key_source_ask(l->key_source,
                                  l->key_is_bad ? l->own_key : NULL, on_key, l);
}

/* --- ending them --- */

static void end_next(struct e2b_leftovers *l);

static void
on_all_ended(void *ctx)
{
    struct e2b_leftovers *l = ctx;
    void (*done)(void *ctx) = l->all_ended;

    l->task = NULL;
    l->each = NULL;
    free_texts(l->ids, l->n_ids);
    l->ids = NULL;
    l->n_ids = 0;
    done(l->ctx);
}

static void
on_refused(void *ctx)
{
    struct e2b_leftovers *l = ctx;
    struct error err = l->err;

    l->task = NULL;
    l->err = (struct error){0};
    l->each(l->ctx, l->ids[l->at++], &err);
    end_next(l);
}

static void
on_kill(void *ctx, struct e2b_result *result)
{
    struct e2b_leftovers *l = ctx;
    const char *id = l->ids[l->at++];
    struct error err = {0};

    l->call = NULL;
    check_key(l, result);
    if (result->err != NULL) {
        err = *result->err;
        error_prepend(&err, "sandbox %s", id);
    }
    l->each(l->ctx, id, result->err != NULL ? &err : NULL);
    end_next(l);
}

static bool
was_found(const struct e2b_leftovers *l, const char *id)
{
    for (size_t i = 0; i < l->n_found; i++) {
        if (str_eq(l->found[i].id, id)) {
            return true;
        }
    }
    return false;
}

static void
end_next(struct e2b_leftovers *l)
{
    const char *id = l->at < l->n_ids ? l->ids[l->at] : NULL;

    if (id == NULL) {
        l->task = loop_defer(l->loop, on_all_ended, l);
        return;
    }
    if (!was_found(l, id)) {
        error_fill(&l->err, ERR_USAGE,
                   "%s: there is no sandbox %.80s that an earlier run has left",
                   l->host, id);
    } else {
        l->call = e2b_api_kill(l->api, id, on_kill, l, &l->err);
    }
    if (l->call == NULL) {
        l->task = loop_defer(l->loop, on_refused, l);
    }
}

void
e2b_leftovers_end(struct e2b_leftovers *l, const char *const *ids, size_t n_ids,
                  e2b_ended_fn each, void (*done)(void *ctx), void *ctx)
{
    assert(l->done == NULL && l->each == NULL);
    l->ids = xcalloc(n_ids + 1, sizeof(*l->ids));
    for (size_t i = 0; i < n_ids; i++) {
        l->ids[l->n_ids++] = xstrdup(ids[i]);
    }
    l->at = 0;
    l->each = each;
    l->all_ended = done;
    l->ctx = ctx;
    end_next(l);
}

/* --- the object --- */

void
e2b_leftovers_cancel(struct e2b_leftovers *l)
{
    key_ask_drop(l->key_asked);
    l->key_asked = NULL;
    loop_task_remove(l->task);
    l->task = NULL;
    if (l->call != NULL) {
        e2b_api_drop(l->call);
        l->call = NULL;
    }
    free_texts(l->ids, l->n_ids);
    l->ids = NULL;
    l->n_ids = 0;
    l->done = NULL;
    l->each = NULL;
    free_found(l);
}

static int
check(struct e2b_leftovers *l, struct error *err)
{
    /* A key that comes later cannot make it worse than one that is missing, but
       for an address that would carry it unencrypted. */
    struct e2b_api *api = make_api(l, err);

    if (api == NULL) {
        return -1;
    }
    l->host = xstrdup(e2b_api_host(api));
    if (l->key_source == NULL) {
        l->api = api;
    } else {
        e2b_api_free(api);
    }
    if (!e2b_is_plain(l->owner) || !e2b_is_plain(l->run)) {
        return err_set(err, ERR_CONFIG,
                       "the owner \"%.80s\" and the run \"%.80s\" are not of "
                       "letters and digits",
                       l->owner, l->run);
    }
    return 0;
}

struct e2b_leftovers *
e2b_leftovers_new(struct loop *loop, const struct e2b_config *config,
                  bool (*is_alive)(void *ctx, const char *run), void *ctx,
                  struct error *err)
{
    struct e2b_leftovers *l = xcalloc(1, sizeof(*l));
    const struct http_config http = {.user_agent = config->user_agent};

    assert(config->owner != NULL && config->run != NULL);
    l->loop = loop;
    l->http = http_new(loop, &http);
    l->is_alive = is_alive;
    l->alive_ctx = ctx;
    l->url =
        config->api_url != NULL
            ? xstrdup(config->api_url)
            : xasprintf("https://api.%s",
                        config->domain != NULL ? config->domain : E2B_DOMAIN);
    l->owner = xstrdup(config->owner);
    l->run = xstrdup(config->run);
    l->key = config->key;
    l->key_source = config->key_source;
    l->headers = config->headers;
    l->n_headers = config->n_headers;
    if (check(l, err) < 0) {
        e2b_leftovers_free(l);
        return NULL;
    }
    return l;
}

void
e2b_leftovers_free(struct e2b_leftovers *l)
{
    if (l == NULL) {
        return;
    }
    e2b_leftovers_cancel(l);
    e2b_api_free(l->api);
    http_free(l->http);
    free(l->url);
    free(l->host);
    free(l->owner);
    free(l->run);
    free(l);
}

const char *
e2b_leftovers_host(const struct e2b_leftovers *l)
{
    return l->host;
}
