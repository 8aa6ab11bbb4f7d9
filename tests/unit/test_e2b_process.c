/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "net/http.h"
#include "sandbox/e2b_process_internal.h"

#include "e2b_server.h"

#define ID "i7kq2m4xw9c0z5r1t8b6"
#define TOKEN "ea_4f1c9d2b7e"
#define START "POST /process.Process/Start"
#define CONNECT "POST /process.Process/Connect"
#define INPUT "POST /process.Process/SendInput"
#define CLOSE "POST /process.Process/CloseStdin"
#define STREAM_TYPE "Content-Type: application/connect+json\r\n"
#define BEGUN "{\"event\":{\"start\":{\"pid\":812}}}"
#define ENDED                                                                  \
    "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"
#define OUT(base64) "{\"event\":{\"data\":{\"stdout\":\"" base64 "\"}}}"
#define ERR(base64) "{\"event\":{\"data\":{\"stderr\":\"" base64 "\"}}}"

enum { MAX_MESSAGES = 6, MAX_ANSWERS = 4 };

/* An answer of the daemon; one with status 0 is a stream. */
struct answer {
    const char *request;
    int status;
    const char *body;                   /* of one that is no stream */
    const char *messages[MAX_MESSAGES]; /* up to the first NULL */
    const char *end;                    /* NULL: none */
    enum server_act act;
};

struct fixture {
    struct loop *loop;
    struct http *http;
    struct server server;
    struct e2b_site site;
    char *url; /* owned */
    struct e2b_process *process;
    struct sbuf bodies[MAX_ANSWERS];
    struct exchange script[MAX_ANSWERS];

    bool drops; /* in its first callback */
    bool sends; /* two pieces of input, then */
    int64_t pid;
    size_t n_gaps;
    size_t n_done;
    struct sbuf out;
    struct sbuf err_out;
    struct e2b_process_end end;
    struct error err;
};

static void
drop(struct fixture *f)
{
    e2b_process_drop(f->process);
    f->process = NULL;
    loop_stop(f->loop);
}

static void
on_start(void *ctx, int64_t pid)
{
    struct fixture *f = ctx;

    f->pid = pid;
    if (f->sends) {
        e2b_process_send(f->process, "one", 3);
        e2b_process_send(f->process, "two", 3);
    }
    if (f->drops)
        drop(f);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct fixture *f = ctx;

    assert_true(len > 0);
    assert_non_null(f->process);
    sbuf_add(stream == EVENT_STDOUT ? &f->out : &f->err_out, data, len);
}

static void
on_gap(void *ctx)
{
    struct fixture *f = ctx;

    f->n_gaps++;
}

static void
on_done(void *ctx, const struct e2b_process_end *end)
{
    struct fixture *f = ctx;

    f->n_done++;
    f->end = *end;
    if (end->err != NULL)
        f->err = *end->err;
    f->process = NULL;
    loop_stop(f->loop);
}

static void
set_up(struct fixture *f)
{
    const struct http_config config = {.user_agent = "test/1"};
    struct e2b_sandbox sandbox = {.id = ID, .envd = {0, 6, 13}};
    struct error err = {0};

    *f = (struct fixture){0};
    sbuf_init(&f->out, 1 << 20);
    sbuf_init(&f->err_out, 1 << 20);
    f->loop = loop_new(NULL);
    f->http = http_new(f->loop, &config);
    assert_true(server_start(&f->server, f->loop));
    f->url = xasprintf("http://127.0.0.1:%d", f->server.port);
    sandbox.envd_token = secret_new(TOKEN, strlen(TOKEN));
    if (e2b_site_init(&f->site, f->loop, f->http, f->url, "localhost", &sandbox,
                      &err) < 0)
        fail_msg("%s", err.msg);
    e2b_sandbox_fini(&sandbox);
}

static void
tear_down(struct fixture *f)
{
    e2b_process_drop(f->process);
    for (size_t i = 0; i < LEN(f->bodies); i++)
        sbuf_fini(&f->bodies[i]);
    sbuf_fini(&f->out);
    sbuf_fini(&f->err_out);
    http_free(f->http);
    server_stop(&f->server);
    e2b_site_fini(&f->site);
    loop_free(f->loop);
    free(f->url);
}

static void
add_message(struct sbuf *sb, const char *text, bool is_end)
{
    size_t at = sb->len;

    e2b_envelope_add(sb, text, strlen(text));
    if (is_end)
        sb->data[at] = 2;
}

static void
play(struct fixture *f, const struct answer *answers)
{
    size_t n = 0;

    for (; n < MAX_ANSWERS && answers[n].request != NULL; n++) {
        const struct answer *a = &answers[n];
        struct sbuf *sb = &f->bodies[n];

        sbuf_init(sb, 1 << 20);
        for (size_t i = 0; i < MAX_MESSAGES && a->messages[i] != NULL; i++)
            add_message(sb, a->messages[i], false);
        if (a->end != NULL)
            add_message(sb, a->end, true);
        f->script[n] = (struct exchange){.request = a->request,
                                         .status = a->status,
                                         .body = a->body,
                                         .act = a->act};
        if (a->status == 0) {
            f->script[n].status = 200;
            f->script[n].headers = STREAM_TYPE;
            f->script[n].body = sb->data;
            f->script[n].body_len = sb->len;
        }
    }
    server_play(&f->server, f->script, n);
}

static const char *const words[] = {"cat", "a b", NULL};
static const struct e2b_process_handlers handlers = {
    .on_start = on_start,
    .on_bytes = on_bytes,
    .on_gap = on_gap,
    .on_done = on_done,
};

static void
begin(struct fixture *f, const struct e2b_process_spec *more)
{
    struct e2b_process_spec spec =
        more != NULL ? *more : (struct e2b_process_spec){0};
    struct error err = {0};

    spec.argv = words;
    spec.doing = "running a test";
    f->process = e2b_process_start(&f->site, &spec, &handlers, f, &err);
    if (f->process == NULL)
        fail_msg("%s", err.msg);
}

struct row {
    const char *name;
    struct answer answers[MAX_ANSWERS];
    enum e2b_trouble trouble;
    int exit_status;
    int signal;
    const char *out;
    enum error_code code;
    const char *words; /* of the error */
    bool not_started;
    bool vanished;
    size_t n_gaps;
};

static const struct row rows[] = {
    {.name = "all in one read",
     .answers = {{START,
                  0,
                  NULL,
                  {BEGUN, OUT("aGkK"), "{\"event\":{\"keepalive\":{}}}",
                   "{\"event\":{\"news\":{}}}", OUT(""), ENDED},
                  "{}",
                  SERVER_ANSWERS}},
     .out = "hi\n"},
    {.name = "no exitCode, no status",
     .answers = {{START,
                  0,
                  NULL,
                  {BEGUN, "{\"event\":{\"end\":{}}}"},
                  "{}",
                  SERVER_ANSWERS}}},
    {.name = "a signal",
     .answers = {{START,
                  0,
                  NULL,
                  {BEGUN, "{\"event\":{\"end\":{\"exitCode\":-1,"
                          "\"status\":\"signal: terminated\"}}}"},
                  "{}",
                  SERVER_ANSWERS}},
     .exit_status = -1,
     .signal = SIGTERM},
    {.name = "the end without the last message",
     .answers = {{START, 0, NULL, {BEGUN, ENDED}, NULL, SERVER_ANSWERS}}},
    {.name = "the connection breaks behind the end",
     .answers = {{START, 0, NULL, {BEGUN, ENDED}, NULL, SERVER_CLOSES_HALF}}},
    {.name = "only an error: no directory",
     .answers = {{START,
                  0,
                  NULL,
                  {NULL},
                  "{\"error\":{\"code\":\"invalid_argument\","
                  "\"message\":\"cwd '/x' does not exist\"}}",
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_REMOTE,
     .words = "cwd '/x' does not exist",
     .not_started = true},
    {.name = "only an error: no user",
     .answers = {{START,
                  0,
                  NULL,
                  {NULL},
                  "{\"error\":{\"code\":\"unauthenticated\","
                  "\"message\":\"invalid username\"}}",
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_AUTH,
     .words = "invalid username",
     .not_started = true},
    {.name = "401 with a number",
     .answers = {{START,
                  401,
                  "{\"code\":401,\"message\":\"no token\"}",
                  {NULL},
                  NULL,
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_AUTH,
     .words = "no token",
     .not_started = true},
    {.name = "415",
     .answers = {{START, 415, "", {NULL}, NULL, SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_REMOTE,
     .words = "status 415",
     .not_started = true},
    {.name = "405",
     .answers = {{START, 405, "", {NULL}, NULL, SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_REMOTE,
     .words = "status 405",
     .not_started = true},
    {.name = "404 in plain text",
     .answers =
         {{START, 404, "404 page not found\n", {NULL}, NULL, SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_REMOTE,
     .words = "404 page not found",
     .not_started = true},
    {.name = "no such sandbox",
     .answers = {{START,
                  502,
                  "{\"sandboxId\":\"x\",\"message\":"
                  "\"The sandbox was not found\",\"code\":502}",
                  {NULL},
                  NULL,
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_GONE,
     .exit_status = -1,
     .code = ERR_SANDBOX,
     .words = "does not run any more",
     .not_started = true},
    {.name = "no last message, then its end",
     .answers = {{START, 0, NULL, {BEGUN, OUT("YQ==")}, NULL, SERVER_ANSWERS},
                 {CONNECT,
                  0,
                  NULL,
                  {BEGUN, OUT("Yg=="), ENDED},
                  "{}",
                  SERVER_ANSWERS}},
     .out = "ab",
     .n_gaps = 1},
    {.name = "cut in a message, then its end",
     .answers =
         {{START, 0, NULL, {BEGUN, OUT("YQ==")}, NULL, SERVER_CLOSES_HALF},
          {CONNECT, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}},
     .out = "a",
     .n_gaps = 1},
    {.name = "cut, and it is not known any more",
     .answers = {{START, 0, NULL, {BEGUN}, NULL, SERVER_ANSWERS},
                 {CONNECT,
                  0,
                  NULL,
                  {NULL},
                  "{\"error\":{\"code\":\"not_found\"}}",
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_SANDBOX,
     .words = "how is not known",
     .vanished = true},
    {.name = "no answer at all, and it never began",
     .answers = {{.request = START, .status = 1, .act = SERVER_CLOSES},
                 {CONNECT,
                  0,
                  NULL,
                  {NULL},
                  "{\"error\":{\"code\":\"not_found\"}}",
                  SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_CUT,
     .exit_status = -1,
     .code = ERR_NET,
     .words = "running a test"},
    {.name = "no answer, and it did",
     .answers = {{.request = START, .status = 1, .act = SERVER_CLOSES},
                 {CONNECT, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}},
     .n_gaps = 1},
    {.name = "a page in place of a stream, then its end",
     .answers =
         {{START, 200, "<html>hello</html>", {NULL}, NULL, SERVER_ANSWERS}},
     .trouble = E2B_TROUBLE_REFUSED,
     .exit_status = -1,
     .code = ERR_PROTOCOL,
     .words = "running a test"},
    {.name = "bytes that are none, then its end",
     .answers = {{START,
                  0,
                  NULL,
                  {BEGUN, OUT("*"), OUT("YQ==")},
                  "{}",
                  SERVER_ANSWERS},
                 {CONNECT, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}},
     .n_gaps = 1},
    {.name = "the stream ends well without the end of the process",
     .answers = {{START, 0, NULL, {BEGUN}, "{}", SERVER_ANSWERS},
                 {CONNECT, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}},
     .n_gaps = 1},
    {.name = "unavailable in the middle",
     .answers = {{START,
                  0,
                  NULL,
                  {BEGUN},
                  "{\"error\":{\"code\":\"unavailable\"}}",
                  SERVER_ANSWERS},
                 {CONNECT, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}},
     .n_gaps = 1},
};

static void
check_row(const struct fixture *f, const struct row *row)
{
    if (f->end.trouble != row->trouble ||
        f->end.exit_status != row->exit_status ||
        f->end.signal != row->signal || f->err.code != row->code ||
        f->end.not_started != row->not_started ||
        f->end.has_vanished != row->vanished || f->n_gaps != row->n_gaps ||
        f->end.lost_bytes != (row->n_gaps > 0))
        fail_msg("%s: trouble %d, exit %d, signal %d, code %d, %s", row->name,
                 f->end.trouble, f->end.exit_status, f->end.signal, f->err.code,
                 f->err.msg);
    if (row->words != NULL && strstr(f->err.msg, row->words) == NULL)
        fail_msg("%s: %s", row->name, f->err.msg);
    if (row->out != NULL &&
        (f->out.data == NULL || strcmp(f->out.data, row->out) != 0))
        fail_msg("%s: printed %s", row->name, f->out.data);
}

static void
test_process_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct fixture f;

        set_up(&f);
        play(&f, rows[i].answers);
        begin(&f, NULL);
        loop_run(f.loop);
        assert_int_equal(f.n_done, 1);
        if (f.server.n_wrong > 0)
            fail_msg("%s: %s", rows[i].name,
                     f.server.requests[f.server.n_requests - 1]);
        assert_int_equal(f.server.n_requests, f.server.n_script);
        check_row(&f, &rows[i]);
        tear_down(&f);
    }
}

/* What is asked for is in the head of the request. */
static void
test_process_start_says_how_long(void **state)
{
    static const struct {
        int64_t limit_ms;
        int minor;
        const char *has;
        const char *has_not;
    } heads[] = {
        {0, 6, "\r\nKeepalive-Ping-Interval: 20\r\n", "Connect-Timeout-Ms"},
        {1, 6, "\r\nConnect-Timeout-Ms: 5001\r\n", "\r\nAuthorization"},
        {60000, 3, "\r\nAuthorization: Basic dXNlcjo=\r\n", "Timeout-Ms: 0\r"},
        {0, 4, "\r\nConnect-Protocol-Version: 1\r\n", "\r\nAuthorization"},
        {0, 6, "\r\nX-Access-Token: " TOKEN "\r\n", "Accept-Encoding"},
    };
    static const struct answer answers[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}};

    (void)state;
    for (size_t i = 0; i < LEN(heads); i++) {
        struct e2b_process_spec spec = {.limit_ms = heads[i].limit_ms};
        struct fixture f;

        set_up(&f);
        f.site.envd[1] = heads[i].minor;
        play(&f, answers);
        begin(&f, &spec);
        loop_run(f.loop);
        assert_int_equal(f.end.trouble, E2B_TROUBLE_NONE);
        if (strstr(f.server.requests[0], heads[i].has) == NULL ||
            strstr(f.server.requests[0], heads[i].has_not) != NULL)
            fail_msg("%zu: %s", i, f.server.requests[0]);
        tear_down(&f);
    }
}

static void
test_process_limit_of_the_daemon_ends_all(void **state)
{
    static const struct answer answers[MAX_ANSWERS] = {
        {START,
         0,
         NULL,
         {BEGUN},
         "{\"error\":{\"code\":\"deadline_exceeded\"}}",
         SERVER_ANSWERS},
        {START, 0, NULL, {BEGUN, ENDED}, "{}", SERVER_ANSWERS}};
    struct e2b_process_spec spec = {.limit_ms = 100};
    struct fixture f;

    (void)state;
    set_up(&f);
    play(&f, answers);
    begin(&f, &spec);
    loop_run(f.loop);
    assert_int_equal(f.end.trouble, E2B_TROUBLE_NONE);
    assert_true(f.end.limit_hit);
    assert_int_equal(f.end.signal, SIGKILL);
    assert_int_equal(f.server.n_requests, 2);
    tear_down(&f);
}

/* A stream that stays open, or goes on with keepalives, is no start. */
static void
test_process_without_a_start(void **state)
{
    static const struct answer answers[MAX_ANSWERS] = {
        {START, 0, NULL, {"{\"event\":{\"keepalive\":{}}}"}, NULL, SERVER_HALF},
        {CONNECT,
         0,
         NULL,
         {NULL},
         "{\"error\":{\"code\":\"not_found\"}}",
         SERVER_ANSWERS}};
    struct e2b_process_spec spec = {.start_ms = 100};
    struct fixture f;

    (void)state;
    set_up(&f);
    play(&f, answers);
    begin(&f, &spec);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.end.trouble, E2B_TROUBLE_LATE);
    assert_int_equal(f.err.code, ERR_TIMEOUT);
    assert_int_equal(f.server.n_requests, 2);
    tear_down(&f);
}

static void
test_process_drop_in_a_callback(void **state)
{
    static const struct answer answers[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN, OUT("YQ=="), ENDED}, "{}", SERVER_ANSWERS}};
    struct fixture f;

    (void)state;
    set_up(&f);
    f.drops = true;
    play(&f, answers);
    begin(&f, NULL);
    loop_run(f.loop);
    assert_int_equal(f.pid, 812);
    assert_int_equal(f.n_done, 0);
    assert_int_equal(f.out.len, 0);
    tear_down(&f);
}

/* The stream waits for the other requests. */
static void
run_input(struct fixture *f, const struct answer *answers, bool knows,
          int minor, int patch)
{
    struct e2b_process_spec spec = {.takes_input = true, .knows_input = knows};

    set_up(f);
    f->site.envd[1] = minor;
    f->site.envd[2] = patch;
    play(f, answers);
    begin(f, &spec);
    e2b_process_send(f->process, "one", 3);
    e2b_process_send(f->process, "two", 3);
    e2b_process_end_input(f->process);
    loop_run(f->loop);
}

static void
stop_at_last(void *ctx)
{
    struct fixture *f = ctx;

    if (f->server.n_requests == f->server.n_script)
        loop_stop(f->loop);
}

static void
test_process_input_comes_in_order(void **state)
{
    static const struct answer answers[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN}, NULL, SERVER_HALF},
        {INPUT, 200, "{}", {NULL}, NULL, SERVER_ANSWERS},
        {INPUT, 200, "{}", {NULL}, NULL, SERVER_ANSWERS},
        {CLOSE, 200, "{}", {NULL}, NULL, SERVER_ANSWERS}};
    struct e2b_process_spec spec = {.takes_input = true};
    struct fixture f;

    (void)state;
    set_up(&f);
    f.server.on_request = stop_at_last;
    f.server.ctx = &f;
    play(&f, answers);
    begin(&f, &spec);
    e2b_process_send(f.process, "one", 3);
    e2b_process_send(f.process, "two", 3);
    e2b_process_end_input(f.process);
    loop_run(f.loop);
    assert_int_equal(f.server.n_wrong, 0);
    assert_non_null(strstr(f.server.requests[1],
                           "{\"process\":{\"pid\":812},\"input\":"
                           "{\"stdin\":\"b25l\"}}"));
    assert_non_null(strstr(f.server.requests[2], "\"dHdv\""));
    assert_non_null(
        strstr(f.server.requests[3], "{\"process\":{\"pid\":812}}"));
    tear_down(&f);
}

static void
stop_loop(void *ctx)
{
    struct fixture *f = ctx;

    loop_stop(f->loop);
}

/* Requests of their own may overtake one another. */
static void
test_process_input_goes_one_by_one(void **state)
{
    static const struct answer answers[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN}, NULL, SERVER_HALF},
        {.request = INPUT, .status = 1, .act = SERVER_HANGS},
        {INPUT, 200, "{}", {NULL}, NULL, SERVER_ANSWERS}};
    struct e2b_process_spec spec = {.takes_input = true};
    struct fixture f;

    (void)state;
    set_up(&f);
    play(&f, answers);
    f.sends = true;
    begin(&f, &spec);
    loop_add_timer(f.loop, 100, stop_loop, &f);
    loop_run(f.loop);
    assert_int_equal(f.server.n_requests, 2);
    tear_down(&f);
}

/* Whether it has arrived is not known: only one that knows gets it again. */
static void
test_process_input_without_answer(void **state)
{
    static const struct answer once[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN}, NULL, SERVER_HALF},
        {.request = INPUT, .status = 1, .act = SERVER_CLOSES}};
    struct fixture f;

    (void)state;
    run_input(&f, once, false, 6, 13);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.end.trouble, E2B_TROUBLE_CUT);
    assert_int_equal(f.server.n_wrong, 0);
    tear_down(&f);
}

static void
test_process_input_without_answer_is_known(void **state)
{
    static const struct answer again[MAX_ANSWERS] = {
        {START, 0, NULL, {BEGUN}, NULL, SERVER_HALF},
        {.request = INPUT, .status = 1, .act = SERVER_CLOSES},
        {INPUT, 200, "{}", {NULL}, NULL, SERVER_ANSWERS},
        {INPUT, 200, "{}", {NULL}, NULL, SERVER_ANSWERS}};
    struct e2b_process_spec spec = {.takes_input = true, .knows_input = true};
    struct fixture f;

    (void)state;
    set_up(&f);
    f.server.on_request = stop_at_last;
    f.server.ctx = &f;
    play(&f, again);
    begin(&f, &spec);
    e2b_process_send(f.process, "one", 3);
    e2b_process_send(f.process, "two", 3);
    loop_run(f.loop);
    assert_int_equal(f.n_done, 0);
    assert_int_equal(f.server.n_wrong, 0);
    assert_non_null(strstr(f.server.requests[2], "\"b25l\""));
    tear_down(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_ends),
        cmocka_unit_test(test_process_start_says_how_long),
        cmocka_unit_test(test_process_limit_of_the_daemon_ends_all),
        cmocka_unit_test(test_process_without_a_start),
        cmocka_unit_test(test_process_drop_in_a_callback),
        cmocka_unit_test(test_process_input_comes_in_order),
        cmocka_unit_test(test_process_input_goes_one_by_one),
        cmocka_unit_test(test_process_input_without_answer),
        cmocka_unit_test(test_process_input_without_answer_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
