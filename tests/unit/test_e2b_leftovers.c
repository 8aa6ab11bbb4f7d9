/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What runs that are dead have left with a service, and what a failed create
 * has made: which of them are found, and that no other is ever ended.
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
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b.h"
#include "sandbox/e2b_api_internal.h"
#include "sandbox/e2b_leftovers_internal.h"
#include "sandbox/key_source.h"

#include "e2b_server.h"

#define KEY "e2b_5d0c7a91"
#define LIST                                                                   \
    "GET /v2/sandboxes?metadata=app%3Dsandpiper%26owner%3Downer1&"             \
    "state=running%2Cpaused&limit=50"
#define AT_ONCE "Retry-After: 0\r\n"

#define BOX(id, state, start, labels)                                          \
    "{\"sandboxID\":\"" id "\",\"templateID\":\"tpl\",\"state\":\"" state      \
    "\",\"startedAt\":\"2026-09-01T0" start ":00:00Z\","                       \
    "\"endAt\":\"2026-09-01T09:00:00Z\",\"cpuCount\":2,\"memoryMB\":2048,"     \
    "\"envdVersion\":\"0.6.13\",\"metadata\":{" labels "}}"
#define OURS "\"app\":\"sandpiper\",\"owner\":\"owner1\""

/* Of this run, of one that lives, of three that do not, of other owners. */
#define ALL                                                                                                                                                  \
    "[" BOX("mine", "running", "1", OURS ",\"run\":\"run1\"") "," BOX("late", "paused", "5", OURS ",\"run\":\"dead2\"") "," BOX(                             \
        "alive", "running", "2",                                                                                                                             \
        OURS                                                                                                                                                 \
        ",\"run\":\"live1\"") "," BOX("old", "running", "3",                                                                                                 \
                                      OURS                                                                                                                   \
                                      ",\"run\":\"dead1\"") "," BOX("norun",                                                                                 \
                                                                    "running",                                                                               \
                                                                    "4",                                                                                     \
                                                                    OURS) "," BOX("other",                                                                   \
                                                                                  "running",                                                                 \
                                                                                  "1",                                                                       \
                                                                                  "\"app\":\"sandpiper\",\"owner\":\"owner2\","                              \
                                                                                  "\"run\":\"dead1\"") "," BOX("theirs",                                     \
                                                                                                               "running",                                    \
                                                                                                               "1",                                          \
                                                                                                               "\"owner\":\"owner1\",\"run\":\"dead1\"") "," \
                                                                                                                                                         "{\"sandboxID\":\"nolabels\"},7]"

struct fixture {
    struct loop *loop;
    struct server server;
    struct secret *key;
    char *url; /* owned */
    struct e2b_config config;
    struct e2b_leftovers *leftovers;
    const struct secret *given; /* borrowed: from the source of config */

    bool starting;
    bool frees;
    int n_done;
    struct error err;
    struct sbuf told; /* a line for each that was told of */
};

static bool
is_alive(void *ctx, const char *run)
{
    (void)ctx;
    return strncmp(run, "live", strlen("live")) == 0;
}

static void
set_up(struct fixture *f)
{
    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    assert_true(server_start(&f->server, f->loop));
    f->key = secret_new(KEY, strlen(KEY));
    f->url = xasprintf("http://127.0.0.1:%d", f->server.port);
    sbuf_init(&f->told, 1 << 16);
    f->config = (struct e2b_config){
        .name = "work",
        .api_url = f->url,
        .key = f->key,
        .owner = "owner1",
        .run = "run1",
        .user_agent = "test/1",
    };
}

static void
make(struct fixture *f)
{
    struct error err = {0};

    f->leftovers = e2b_leftovers_new(f->loop, &f->config, is_alive, NULL, &err);
    if (f->leftovers == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void
tear_down(struct fixture *f)
{
    e2b_leftovers_free(f->leftovers);
    key_source_free(f->config.key_source);
    server_stop(&f->server);
    loop_free(f->loop);
    secret_free(f->key);
    sbuf_fini(&f->told);
    free(f->url);
}

/* All of the script, and nothing else, was asked for. */
static void
expect_all_played(const struct fixture *f)
{
    if (f->server.n_wrong > 0) {
        fail_msg("an unexpected request: %s",
                 f->server.requests[f->server.n_requests - 1]);
    }
    assert_int_equal(f->server.n_requests, f->server.n_script);
}

static void
on_found(void *ctx, const struct e2b_leftover *list, size_t n,
         const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->starting);
    f->n_done++;
    f->err = err != NULL ? *err : (struct error){0};
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(&f->told, "%s %s%s %lld %lld %d %d\n", list[i].id,
                  list[i].template_id, list[i].paused ? " paused" : "",
                  (long long)list[i].started_ms, (long long)list[i].end_ms,
                  list[i].cpu_count, list[i].memory_mib);
    }
    if (f->frees) {
        e2b_leftovers_free(f->leftovers);
        f->leftovers = NULL;
    }
    loop_stop(f->loop);
}

static void
find(struct fixture *f, const struct exchange *script, size_t n)
{
    server_play(&f->server, script, n);
    sbuf_clear(&f->told);
    f->n_done = 0;
    f->starting = true;
    e2b_leftovers_find(f->leftovers, on_found, f);
    f->starting = false;
    loop_run(f->loop);
    assert_int_equal(f->n_done, 1);
    expect_all_played(f);
}

static void
on_ended(void *ctx, const char *id, const struct error *err)
{
    struct fixture *f = ctx;

    assert_false(f->starting);
    sbuf_addf(&f->told, "%s: %s\n", id,
              err == NULL ? "ended" : error_code_name(err->code));
    if (err != NULL) {
        f->err = *err;
    }
}

static void
on_all_ended(void *ctx)
{
    struct fixture *f = ctx;

    assert_false(f->starting);
    f->n_done++;
    loop_stop(f->loop);
}

static void
end(struct fixture *f, const char *const *ids, size_t n_ids,
    const struct exchange *script, size_t n)
{
    server_play(&f->server, script, n);
    sbuf_clear(&f->told);
    f->n_done = 0;
    f->err = (struct error){0};
    f->starting = true;
    e2b_leftovers_end(f->leftovers, ids, n_ids, on_ended, on_all_ended, f);
    f->starting = false;
    loop_run(f->loop);
    assert_int_equal(f->n_done, 1);
    expect_all_played(f);
}

/* --- finding --- */

static void
test_find(void **state)
{
    static const struct exchange script[] = {ANSWER(LIST, 200, ALL)};
    static const struct exchange none[] = {ANSWER(LIST, 200, "[]")};
    struct fixture f;

    (void)state;
    set_up(&f);
    make(&f);
    find(&f, script, LEN(script));
    assert_int_equal(f.err.code, ERR_NONE);
    assert_string_equal(f.told.data,
                        "old tpl 1788231600000 1788253200000 2 2048\n"
                        "norun tpl 1788235200000 1788253200000 2 2048\n"
                        "late tpl paused 1788238800000 1788253200000 2 2048\n");
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: " KEY "\r\n"));
    assert_true(str_ends(f.url, e2b_leftovers_host(f.leftovers)));
    find(&f, none, LEN(none));
    assert_string_equal(f.told.data, "");
    f.frees = true;
    find(&f, script, LEN(script));
    tear_down(&f);
}

static void
test_find_that_fails(void **state)
{
    static const struct exchange refused[] = {
        ANSWER(LIST, 401, "{\"message\":\"no\"}")};
    static const struct exchange page[] = {ANSWER(LIST, 200, "<html>")};
    static const struct exchange lacks[] = {ANSWER(LIST, 404, NULL)};
    struct fixture f;

    (void)state;
    set_up(&f);
    make(&f);
    find(&f, refused, LEN(refused));
    assert_int_equal(f.err.code, ERR_AUTH);
    assert_non_null(strstr(f.err.msg, "listing sandboxes"));
    find(&f, page, LEN(page));
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    find(&f, lacks, LEN(lacks));
    assert_int_equal(f.err.code, ERR_UNSUPPORTED);
    assert_string_equal(f.told.data, "");
    tear_down(&f);
}

static void
test_new_refuses_settings(void **state)
{
    struct error err = {0};
    struct fixture f;

    (void)state;
    set_up(&f);
    f.config.api_url = "ftp://api.example.org";
    assert_null(e2b_leftovers_new(f.loop, &f.config, is_alive, NULL, &err));
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.msg, "api_url"));
    f.config.api_url = f.url;
    f.config.owner = "a b";
    assert_null(e2b_leftovers_new(f.loop, &f.config, is_alive, NULL, &err));
    assert_int_equal(err.code, ERR_CONFIG);
    f.config.owner = "a";
    f.config.api_url = NULL;
    f.config.domain = "sandboxes.example.org";
    make(&f);
    assert_string_equal(e2b_leftovers_host(f.leftovers),
                        "api.sandboxes.example.org");
    tear_down(&f);
}

static void
on_request(void *ctx)
{
    struct fixture *f = ctx;

    e2b_leftovers_cancel(f->leftovers);
    loop_stop(f->loop);
}

static void
test_cancel(void **state)
{
    static const struct exchange silent[] = {NO_ANSWER(LIST, SERVER_HANGS)};
    static const struct exchange script[] = {ANSWER(LIST, 200, ALL)};
    static const struct exchange kill[] = {
        NO_ANSWER("DELETE /sandboxes/old", SERVER_HANGS)};
    static const char *const ids[] = {"old", "late"};
    struct fixture f;

    (void)state;
    set_up(&f);
    make(&f);
    f.server.on_request = on_request;
    f.server.ctx = &f;
    server_play(&f.server, silent, LEN(silent));
    e2b_leftovers_find(f.leftovers, on_found, &f);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 0);
    f.server.on_request = NULL;
    find(&f, script, LEN(script));
    f.server.on_request = on_request;
    server_play(&f.server, kill, LEN(kill));
    f.n_done = 0;
    sbuf_clear(&f.told);
    e2b_leftovers_end(f.leftovers, ids, LEN(ids), on_ended, on_all_ended, &f);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 0);
    assert_string_equal(f.told.data, "");
    expect_all_played(&f);
    /* Whatever it is, before it is looked for again. */
    f.server.on_request = NULL;
    end(&f, ids, LEN(ids), NULL, 0);
    assert_string_equal(f.told.data, "old: usage\nlate: usage\n");
    e2b_leftovers_find(f.leftovers, on_found, &f);
    tear_down(&f);
}

/* --- ending --- */

static void
test_end_all(void **state)
{
    static const struct exchange script[] = {ANSWER(LIST, 200, ALL)};
    static const struct exchange kills[] = {
        ANSWER("DELETE /sandboxes/old", 204, NULL),
        ANSWER_WITH("DELETE /sandboxes/norun", 503, NULL, AT_ONCE),
        ANSWER("DELETE /sandboxes/norun", 403, "{\"message\":\"not yours\"}"),
        ANSWER("DELETE /sandboxes/late", 404, NULL),
    };
    static const char *const ids[] = {"old", "norun", "late"};
    struct fixture f;

    (void)state;
    set_up(&f);
    make(&f);
    find(&f, script, LEN(script));
    end(&f, ids, LEN(ids), kills, LEN(kills));
    assert_string_equal(f.told.data,
                        "old: ended\nnorun: remote\nlate: ended\n");
    assert_non_null(strstr(f.err.msg, "not yours"));
    end(&f, ids, 0, NULL, 0);
    tear_down(&f);
}

/* Of this run, of one that lives, of others, and what is none. */
static void
test_end_refuses_others(void **state)
{
    static const struct exchange script[] = {ANSWER(LIST, 200, ALL)};
    static const struct exchange kills[] = {
        ANSWER("DELETE /sandboxes/late", 204, NULL)};
    static const char *const ids[] = {"mine",     "alive",  "other", "theirs",
                                      "nolabels", "a/../b", "",      "late"};
    struct fixture f;

    (void)state;
    set_up(&f);
    make(&f);
    end(&f, ids, 1, NULL, 0);
    assert_string_equal(f.told.data, "mine: usage\n");
    find(&f, script, LEN(script));
    end(&f, ids, LEN(ids), kills, LEN(kills));
    assert_string_equal(f.told.data,
                        "mine: usage\nalive: usage\nother: usage\n"
                        "theirs: usage\nnolabels: usage\na/../b: usage\n"
                        ": usage\nlate: ended\n");
    assert_non_null(strstr(f.err.msg, "that an earlier run has left"));
    tear_down(&f);
}

/* --- a key that a command prints --- */

static void
use_command(struct fixture *f, const char *command)
{
    f->config.key = NULL;
    f->config.key_source =
        key_source_new(f->loop, command, "sandboxes.work.api_key_command");
}

static void
on_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct fixture *f = ctx;

    assert_null(err);
    f->given = key;
    loop_stop(f->loop);
}

/* As a back end does. */
static void
ask_for_key(struct fixture *f, const struct secret *refused)
{
    key_source_ask(f->config.key_source, refused, on_key, f);
    loop_run(f->loop);
}

static void
test_key_of_a_command(void **state)
{
    static const struct exchange script[] = {ANSWER(LIST, 200, ALL)};
    static const struct exchange refused[] = {ANSWER(LIST, 401, NULL)};
    static const struct exchange kills[] = {
        ANSWER("DELETE /sandboxes/old", 204, NULL)};
    static const struct exchange no_kills[] = {
        ANSWER("DELETE /sandboxes/old", 401, NULL)};
    static const char *const ids[] = {"old"};
    char dir[] = "/tmp/test_leftovers.XXXXXX";
    AUTO_FREE char *command = NULL;
    AUTO_FREE char *count = NULL;
    struct fixture f;

    (void)state;
    assert_non_null(mkdtemp(dir));
    set_up(&f);
    count = xasprintf("%s/count", dir);
    /* Another key each time. */
    command = xasprintf("echo x >> %s; echo e2b_$(wc -l < %s)", count, count);
    use_command(&f, command);
    make(&f);
    find(&f, script, LEN(script));
    assert_int_equal(f.err.code, ERR_NONE);
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: e2b_1\r\n"));
    end(&f, ids, LEN(ids), kills, LEN(kills));
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: e2b_1\r\n"));
    find(&f, refused, LEN(refused));
    assert_int_equal(f.err.code, ERR_AUTH);
    assert_non_null(strstr(f.err.msg, "api_key_command"));
    find(&f, script, LEN(script));
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: e2b_2\r\n"));
    end(&f, ids, LEN(ids), no_kills, LEN(no_kills));
    assert_int_equal(f.err.code, ERR_AUTH);
    find(&f, script, LEN(script));
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: e2b_3\r\n"));
    /* What somebody else got because it had been refused is used here too. */
    ask_for_key(&f, NULL);
    ask_for_key(&f, f.given);
    find(&f, script, LEN(script));
    assert_non_null(strstr(f.server.requests[0], "\r\nX-API-Key: e2b_4\r\n"));
    tear_down(&f);
    unlink(count);
    rmdir(dir);
}

static void
test_command_that_fails(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    use_command(&f, "exit 3");
    make(&f);
    find(&f, NULL, 0);
    assert_int_equal(f.err.code, ERR_AUTH);
    assert_non_null(strstr(f.err.msg, "sandboxes.work.api_key_command"));
    /* While it runs. */
    e2b_leftovers_find(f.leftovers, on_found, &f);
    tear_down(&f);
}

/* --- what a failed create has made --- */

#define LIST_RUN                                                               \
    "GET /v2/sandboxes?metadata=app%3Dsandpiper%26entry%3Dwork%26"             \
    "owner%3Downer1%26run%3Drun1&state=running%2Cpaused&limit=50"
#define MINE OURS ",\"entry\":\"work\",\"run\":\"run1\""
#define KEPT BOX("kept", "running", "1", MINE)
#define LOST BOX("lost", "running", "2", MINE)
#define THEIRS BOX("their", "running", "2", OURS ",\"run\":\"live1\"")

struct sweep_case {
    const char *name;
    const char *keep;
    struct exchange script[6];
    size_t n;
    size_t expect_ended;
    enum error_code expect_code;
};

static const struct sweep_case sweep_cases[] = {
    {"nothing",
     NULL,
     {ANSWER(LIST_RUN, 200, "[]"), ANSWER(LIST_RUN, 200, "[]"),
      ANSWER(LIST_RUN, 200, "[]")},
     3,
     0,
     ERR_NONE},
    {"one that comes late, beside the one that is used",
     "kept",
     {ANSWER(LIST_RUN, 200, "[" KEPT "]"),
      ANSWER(LIST_RUN, 200, "[" KEPT "," LOST "," THEIRS "]"),
      ANSWER("DELETE /sandboxes/lost", 204, NULL),
      ANSWER(LIST_RUN, 200, "[" KEPT "]")},
     4,
     1,
     ERR_NONE},
    {"two, and none is used",
     NULL,
     {ANSWER(LIST_RUN, 200, "[" KEPT "," LOST "]"),
      ANSWER("DELETE /sandboxes/kept", 204, NULL),
      ANSWER("DELETE /sandboxes/lost", 404, NULL), ANSWER(LIST_RUN, 200, "[]"),
      ANSWER(LIST_RUN, 200, "[]")},
     5,
     1,
     ERR_NONE},
    {"a look that fails, and the next does not",
     NULL,
     {ANSWER(LIST_RUN, 400, NULL), ANSWER(LIST_RUN, 200, "[" LOST "]"),
      ANSWER("DELETE /sandboxes/lost", 204, NULL), ANSWER(LIST_RUN, 200, "[]")},
     4,
     1,
     ERR_NONE},
    {"one that cannot be ended",
     NULL,
     {ANSWER(LIST_RUN, 200, "[" LOST "]"),
      ANSWER("DELETE /sandboxes/lost", 403, NULL), ANSWER(LIST_RUN, 200, "[]"),
      ANSWER(LIST_RUN, 200, "[" LOST "]"),
      ANSWER("DELETE /sandboxes/lost", 403, NULL)},
     5,
     0,
     ERR_REMOTE},
};

struct sweep {
    struct loop *loop;
    int n_done;
    size_t n_ended;
    struct error err;
};

static void
on_swept(void *ctx, size_t n_ended, const struct error *err)
{
    struct sweep *s = ctx;

    s->n_done++;
    s->n_ended = n_ended;
    s->err = err != NULL ? *err : (struct error){0};
    loop_stop(s->loop);
}

static struct e2b_sweep *
start_sweep(const struct fixture *f, struct e2b_api *api, const char *keep,
            struct sweep *result)
{
    static const int64_t pauses_ms[] = {1, 2};
    struct e2b_pair labels[E2B_N_LABELS];
    const struct e2b_sweep_options options = {
        .labels = labels,
        .n_labels = e2b_labels(&f->config, NULL, labels),
        .keep = keep,
        .pauses_ms = pauses_ms,
        .n_pauses = LEN(pauses_ms),
    };
    struct error err = {0};
    struct e2b_sweep *s;

    *result = (struct sweep){.loop = f->loop};
    s = e2b_sweep_start(f->loop, api, &options, on_swept, result, &err);
    if (s == NULL) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(result->n_done, 0);
    return s;
}

static void
test_sweep(void **state)
{
    struct fixture f;
    const struct http_config http_config = {.user_agent = "test/1"};
    struct http *http;
    struct e2b_api_config config = {.template_name = "tpl"};
    struct e2b_api *api;

    (void)state;
    set_up(&f);
    http = http_new(f.loop, &http_config);
    config.url = f.url;
    config.key = f.key;
    api = e2b_api_new(f.loop, http, &config, NULL);
    for (size_t i = 0; i < LEN(sweep_cases); i++) {
        const struct sweep_case *c = &sweep_cases[i];
        struct sweep result;
        struct e2b_sweep *s;

        server_play(&f.server, c->script, c->n);
        s = start_sweep(&f, api, c->keep, &result);
        loop_run(f.loop);
        if (result.n_done != 1 || result.n_ended != c->expect_ended ||
            result.err.code != c->expect_code) {
            fail_msg("%s: %d times done, %zu ended, %s", c->name, result.n_done,
                     result.n_ended, result.err.msg);
        }
        expect_all_played(&f);
        e2b_sweep_free(s);
        /* Given up behind its first request, and before it. */
        e2b_sweep_free(start_sweep(&f, api, c->keep, &result));
    }
    e2b_api_free(api);
    http_free(http);
    tear_down(&f);
}

static void
test_labels(void **state)
{
    struct e2b_pair labels[E2B_N_LABELS];
    struct e2b_config config = {.name = "n", .owner = "o", .run = "r"};

    (void)state;
    assert_int_equal(e2b_labels(&config, "b", labels), 5);
    assert_string_equal(labels[4].name, "backend");
    assert_string_equal(labels[4].value, "b");
    assert_string_equal(labels[0].name, "app");
    assert_string_equal(labels[0].value, "sandpiper");
    assert_string_equal(labels[1].name, "entry");
    assert_string_equal(labels[1].value, "n");
    assert_string_equal(labels[2].value, "o");
    assert_string_equal(labels[3].name, "run");
    config = (struct e2b_config){0};
    assert_int_equal(e2b_labels(&config, NULL, labels), 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_that_fails),
        cmocka_unit_test(test_new_refuses_settings),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_end_all),
        cmocka_unit_test(test_end_refuses_others),
        cmocka_unit_test(test_key_of_a_command),
        cmocka_unit_test(test_command_that_fails),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_labels),
    };

    return cmocka_run_group_tests_name("e2b_leftovers", tests, NULL, NULL);
}
