/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The control plane's client as a program, for tests in Python against the fake
 * of a service.
 *
 *     e2b_api_driver OPTION=VALUE...
 *
 * Options: url key header=NAME:VALUE generation (v1, v2) template timeout
 * internet (on, or a host; several times) label=NAME:VALUE (several times)
 * pause=1 create_ms other_ms owner run alive (a run that lives; several times)
 *
 * Requests are JSON lines on standard input, and each has one line as its
 * answer; a line that comes before the answer cancels the request.
 *
 *     {"op":"create"} {"op":"info","id":S} {"op":"connect","id":S,"seconds":N,
 *     "cold":B} {"op":"timeout","id":S,"seconds":N} {"op":"pause","id":S}
 *     {"op":"network","id":S} {"op":"kill","id":S} {"op":"list"} (with the
 *     labels) {"op":"find"} (what dead runs have left) {"op":"end","ids":[S]}
 *     {"op":"sweep","keep":S} (all that have the labels, but one)
 *
 *     {"op":S,"error":S or null,"message":S,"status":N,"fault":N,"changed":B,
 *     "maybe_made":B,"generation":N,"n":N,"sandboxes":[...]}
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_leftovers_internal.h"

#define MAX_LINE ((size_t)1 << 20)

enum { MAX_ITEMS = 16 };

struct driver {
    struct loop *loop;
    struct http *http;
    struct e2b_api *api;
    struct e2b_leftovers *leftovers; /* NULL: without owner and run */
    struct e2b_sweep *sweep;
    struct e2b_call *call;
    struct sbuf lines;
    struct loop_fd *input; /* while a request goes on */

    struct e2b_api_config config;
    struct e2b_config public;
    struct secret *key;
    struct http_extra_header header;
    struct e2b_pair labels[MAX_ITEMS];
    const char *hosts[MAX_ITEMS];
    const char *alive[MAX_ITEMS];
    size_t n_alive;

    struct sbuf out; /* the answer */
    struct sbuf ended;
};

static void __attribute__((noreturn)) fail(const char *what, const char *detail)
{
    fprintf(stderr, "e2b_api_driver: %s: %s\n", what, detail);
    exit(2);
}

/* --- answers --- */

static void
begin_answer(struct driver *d, const char *op, const struct error *err)
{
    sbuf_clear(&d->out);
    sbuf_add_char(&d->out, '{');
    json_add_member_str(&d->out, "op", op);
    json_add_member_str(&d->out, "error",
                        err != NULL ? error_code_name(err->code) : NULL);
    json_add_member_str(&d->out, "message", err != NULL ? err->msg : "");
    json_add_member_int(&d->out, "status", err != NULL ? err->http_status : 0);
    json_add_member_int(&d->out, "retry_after_ms",
                        err != NULL ? err->retry_after_ms : 0);
    json_add_member_int(&d->out, "generation", e2b_api_generation(d->api));
}

static void
end_answer(struct driver *d)
{
    struct error err = {0};

    sbuf_add_str(&d->out, "}\n");
    if (io_write_all(STDOUT_FILENO, d->out.data, d->out.len, &err) < 0)
        fail("writing", err.msg);
    loop_stop(d->loop);
}

static void
add_sandbox(struct driver *d, const struct e2b_sandbox *s)
{
    static const char *const states[] = {"", "running", "paused"};
    static const char *const checks[] = {"not said", "confirmed",
                                         "contradicted"};
    struct sbuf *out = &d->out;

    sbuf_add_char(out, '{');
    json_add_member_str(out, "id", s->id);
    json_add_member_str(out, "template", s->template_id);
    json_add_member_str(out, "domain", s->domain);
    json_add_member_str(out, "state", states[s->state]);
    json_add_member_str(out, "egress", checks[e2b_api_check_egress(d->api, s)]);
    json_add_member_bool(out, "has_token", s->envd_token != NULL);
    json_add_member_int(out, "envd",
                        s->envd[0] * 10000 + s->envd[1] * 100 + s->envd[2]);
    json_add_member_int(out, "started_ms", s->started_ms);
    json_add_member_int(out, "end_ms", s->end_ms);
    json_add_member_int(out, "cpus", s->cpu_count);
    json_add_member_int(out, "mib", s->memory_mib);
    json_add_key(out, "labels");
    sbuf_add_char(out, '{');
    for (size_t i = 0; i < s->n_labels; i++)
        json_add_member_str(out, s->labels[i].name, s->labels[i].value);
    sbuf_add_str(out, "}}");
}

static void
on_result(void *ctx, struct e2b_result *result)
{
    struct driver *d = ctx;

    d->call = NULL;
    begin_answer(d, "call", result->err);
    json_add_member_int(&d->out, "fault", result->fault);
    json_add_member_bool(&d->out, "changed", result->changed);
    json_add_member_bool(&d->out, "maybe_made", result->maybe_made);
    json_add_key(&d->out, "sandboxes");
    sbuf_add_char(&d->out, '[');
    for (size_t i = 0; i < result->n_sandboxes; i++) {
        if (i > 0)
            sbuf_add_char(&d->out, ',');
        add_sandbox(d, &result->sandboxes[i]);
    }
    sbuf_add_char(&d->out, ']');
    end_answer(d);
}

static void
on_found(void *ctx, const struct e2b_leftover *list, size_t n,
         const struct error *err)
{
    struct driver *d = ctx;

    begin_answer(d, "find", err);
    json_add_key(&d->out, "sandboxes");
    sbuf_add_char(&d->out, '[');
    for (size_t i = 0; i < n; i++) {
        sbuf_add_str(&d->out, i > 0 ? ",{" : "{");
        json_add_member_str(&d->out, "id", list[i].id);
        json_add_member_str(&d->out, "template", list[i].template_id);
        json_add_member_bool(&d->out, "paused", list[i].paused);
        json_add_member_int(&d->out, "started_ms", list[i].started_ms);
        json_add_member_int(&d->out, "end_ms", list[i].end_ms);
        json_add_member_int(&d->out, "cpus", list[i].cpu_count);
        json_add_member_int(&d->out, "mib", list[i].memory_mib);
        sbuf_add_char(&d->out, '}');
    }
    sbuf_add_char(&d->out, ']');
    end_answer(d);
}

static void
on_ended(void *ctx, const char *id, const struct error *err)
{
    struct driver *d = ctx;

    json_add_member_str(&d->ended, id,
                        err != NULL ? error_code_name(err->code) : "ended");
}

static void
on_all_ended(void *ctx)
{
    struct driver *d = ctx;

    begin_answer(d, "end", NULL);
    json_add_key(&d->out, "ended");
    sbuf_add(&d->out, d->ended.data, d->ended.len);
    sbuf_add_char(&d->out, '}');
    end_answer(d);
}

static void
on_swept(void *ctx, size_t n_ended, const struct error *err)
{
    struct driver *d = ctx;

    e2b_sweep_free(d->sweep);
    d->sweep = NULL;
    begin_answer(d, "sweep", err);
    json_add_member_int(&d->out, "n", (int64_t)n_ended);
    end_answer(d);
}

/* --- requests --- */

static struct e2b_call *
start_call(struct driver *d, const char *op, const struct cJSON *r,
           struct error *err)
{
    const char *id = json_string(r, "id");
    int64_t seconds = json_int(r, "seconds", 300);

    if (str_eq(op, "create"))
        return e2b_api_create(d->api, on_result, d, err);
    if (str_eq(op, "list"))
        return e2b_api_list(d->api, d->labels, d->config.n_labels, on_result, d,
                            err);
    if (id == NULL)
        fail("a request without an id", op);
    if (str_eq(op, "info"))
        return e2b_api_info(d->api, id, on_result, d, err);
    if (str_eq(op, "connect"))
        return e2b_api_connect(d->api, id, seconds, json_bool(r, "cold", false),
                               on_result, d, err);
    if (str_eq(op, "timeout"))
        return e2b_api_set_timeout(d->api, id, seconds, on_result, d, err);
    if (str_eq(op, "pause"))
        return e2b_api_pause(d->api, id, on_result, d, err);
    if (str_eq(op, "network"))
        return e2b_api_set_network(d->api, id, on_result, d, err);
    if (str_eq(op, "kill"))
        return e2b_api_kill(d->api, id, on_result, d, err);
    fail("no such request", op);
}

static void
start_end(struct driver *d, const struct cJSON *r)
{
    const char *ids[MAX_ITEMS];
    size_t n = 0;

    sbuf_clear(&d->ended);
    sbuf_add_char(&d->ended, '{');
    for (const struct cJSON *at = json_first(json_get(r, "ids"));
         at != NULL && n < MAX_ITEMS; at = json_next(at))
        ids[n++] = json_value_string(at);
    e2b_leftovers_end(d->leftovers, ids, n, on_ended, on_all_ended, d);
}

static void
start_sweep(struct driver *d, const struct cJSON *r, struct error *err)
{
    static const int64_t pauses_ms[] = {10, 20};
    const struct e2b_sweep_options options = {
        .labels = d->labels,
        .n_labels = d->config.n_labels,
        .keep = json_string(r, "keep"),
        .pauses_ms = pauses_ms,
        .n_pauses = 2,
    };

    d->sweep = e2b_sweep_start(d->loop, d->api, &options, on_swept, d, err);
}

static void
on_cancel(void *ctx, int fd, unsigned events)
{
    struct driver *d = ctx;
    char chunk[256];

    (void)events;
    if (read(fd, chunk, sizeof(chunk)) <= 0 || d->call == NULL)
        exit(0);
    e2b_api_cancel(d->call);
}

static void
serve(struct driver *d, const char *line, size_t len)
{
    struct error err = {0};
    AUTO_JSON struct cJSON *r = json_parse(line, len, 0, &err);
    const char *op = json_string(r, "op");

    if (op == NULL)
        fail("a bad request", line);
    if ((str_eq(op, "find") || str_eq(op, "end")) && d->leftovers == NULL)
        fail("owner and run are not set", op);
    if (str_eq(op, "find"))
        e2b_leftovers_find(d->leftovers, on_found, d);
    else if (str_eq(op, "end"))
        start_end(d, r);
    else if (str_eq(op, "sweep"))
        start_sweep(d, r, &err);
    else
        d->call = start_call(d, op, r, &err);
    if (err.code != ERR_NONE) {
        begin_answer(d, op, &err);
        end_answer(d);
        return;
    }
    d->input = loop_add_fd(d->loop, STDIN_FILENO, LOOP_READ, on_cancel, d);
    loop_run(d->loop);
    loop_fd_remove(d->input);
}

/* Between requests nothing else happens, so that this may wait. */
static void
serve_all(struct driver *d)
{
    char chunk[4096];

    for (;;) {
        const char *feed = strchr(d->lines.data, '\n');
        ssize_t n;

        if (feed != NULL) {
            size_t len = (size_t)(feed - d->lines.data);

            serve(d, d->lines.data, len);
            sbuf_drop(&d->lines, len + 1);
            continue;
        }
        n = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (n <= 0)
            return;
        sbuf_add(&d->lines, chunk, (size_t)n);
    }
}

/* --- options --- */

static bool
is_alive(void *ctx, const char *run)
{
    const struct driver *d = ctx;

    for (size_t i = 0; i < d->n_alive; i++) {
        if (str_eq(d->alive[i], run))
            return true;
    }
    return false;
}

static int64_t
number_of(const char *text)
{
    int64_t n = 0;
    struct error err = {0};

    if (str_to_int(text, 0, INT32_MAX, &n, &err) < 0)
        fail("a number", err.msg);
    return n;
}

/* Cuts "NAME:VALUE" in two. */
static char *
cut(char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL)
        fail("without a colon", text);
    *colon = '\0';
    return colon + 1;
}

static void
take_list_option(struct driver *d, const char *name, char *value)
{
    if (str_eq(name, "label") && d->config.n_labels < MAX_ITEMS) {
        char *text = cut(value);

        d->labels[d->config.n_labels++] = (struct e2b_pair){value, text};
    } else if (str_eq(name, "header")) {
        char *text = cut(value);

        d->header = (struct http_extra_header){
            .name = value, .value = secret_new(text, strlen(text))};
        d->config.n_headers = 1;
    } else if (str_eq(name, "internet") && str_eq(value, "on")) {
        d->config.internet = E2B_INTERNET_ON;
    } else if (str_eq(name, "internet") && d->config.n_hosts < MAX_ITEMS) {
        d->config.internet = E2B_INTERNET_HOSTS;
        d->hosts[d->config.n_hosts++] = value;
    } else if (str_eq(name, "alive") && d->n_alive < MAX_ITEMS) {
        d->alive[d->n_alive++] = value;
    } else {
        fail("no such option", name);
    }
}

static void
take_option(struct driver *d, const char *name, char *value)
{
    if (str_eq(name, "url"))
        d->config.url = value;
    else if (str_eq(name, "key"))
        d->key = secret_new(value, strlen(value));
    else if (str_eq(name, "generation"))
        d->config.generation =
            str_eq(value, "v1") ? E2B_GENERATION_V1 : E2B_GENERATION_V2;
    else if (str_eq(name, "template"))
        d->config.template_name = value;
    else if (str_eq(name, "timeout"))
        d->config.timeout_s = number_of(value);
    else if (str_eq(name, "pause"))
        d->config.auto_pause = true;
    else if (str_eq(name, "create_ms"))
        d->config.create_ms = number_of(value);
    else if (str_eq(name, "other_ms"))
        d->config.other_ms = number_of(value);
    else if (str_eq(name, "owner"))
        d->public.owner = value;
    else if (str_eq(name, "run"))
        d->public.run = value;
    else
        take_list_option(d, name, value);
}

static void
set_up(struct driver *d, int argc, char **argv)
{
    const struct http_config http = {.user_agent = "driver/1"};
    struct error err = {0};

    d->config.template_name = E2B_TEMPLATE;
    d->config.labels = d->labels;
    d->config.hosts = d->hosts;
    d->config.headers = &d->header;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (value == NULL)
            fail("no option", argv[i]);
        *value = '\0';
        take_option(d, argv[i], value + 1);
    }
    d->config.key = d->key;
    d->loop = loop_new(&err);
    if (d->loop == NULL)
        fail("loop", err.msg);
    d->http = http_new(d->loop, &http);
    d->api = e2b_api_new(d->loop, d->http, &d->config, &err);
    if (d->api == NULL)
        fail("settings", err.msg);
    if (d->public.owner == NULL || d->public.run == NULL)
        return;
    d->public.api_url = d->config.url;
    d->public.key = d->key;
    d->public.headers = d->config.headers;
    d->public.n_headers = d->config.n_headers;
    d->public.user_agent = "driver/1";
    d->leftovers = e2b_leftovers_new(d->loop, &d->public, is_alive, d, &err);
    if (d->leftovers == NULL)
        fail("settings", err.msg);
}

int
main(int argc, char **argv)
{
    struct driver d = {0};

    sbuf_init(&d.lines, MAX_LINE);
    sbuf_init(&d.out, MAX_LINE);
    sbuf_init(&d.ended, MAX_LINE);
    set_up(&d, argc, argv);
    serve_all(&d);
    e2b_sweep_free(d.sweep);
    e2b_leftovers_free(d.leftovers);
    e2b_api_free(d.api);
    http_free(d.http);
    loop_free(d.loop);
    secret_free(d.key);
    secret_free((struct secret *)(uintptr_t)d.header.value);
    sbuf_fini(&d.lines);
    sbuf_fini(&d.out);
    sbuf_fini(&d.ended);
    return 0;
}
