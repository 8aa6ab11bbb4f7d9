/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"

struct fixture {
    struct loop *loop;
    struct transport t;
    struct transport_call *call;
    struct sbuf seen; /* one line for each callback */
    bool drop_in_body;
    bool cancel_in_body;
    bool fini_in_body;
    struct error err;
};

static void
on_head(void *ctx, int status)
{
    struct fixture *f = ctx;
    const char *type = f->t.ops->header(f->call, "Content-Type");
    const char *again = f->t.ops->header(f->call, "Retry-After");

    sbuf_addf(&f->seen, "head %d %s %s\n", status, type,
              again != NULL ? again : "-");
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct fixture *f = ctx;

    sbuf_add_str(&f->seen, "body ");
    sbuf_add(&f->seen, data, len);
    if (f->cancel_in_body) {
        f->t.ops->cancel(f->call);
    }
    if (f->drop_in_body) {
        f->t.ops->drop(f->call);
    }
    if (f->fini_in_body) {
        transport_fini(&f->t);
    }
}

static void
on_done(void *ctx, const struct error *err)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->seen, "done %s\n",
              err != NULL ? error_code_name(err->code) : "-");
}

static const struct transport_handlers handlers = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
};

static int
load(struct fixture *f, const char *text, int64_t pace_ms)
{
    int fd = io_memfd("replay", text, strlen(text), NULL);
    AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
    int rc;

    *f = (struct fixture){0};
    f->loop = loop_new(NULL);
    sbuf_init(&f->seen, 1u << 20);
    assert_true(fd >= 0);
    rc = transport_replay(f->loop, path, pace_ms, &f->t, &f->err);
    close(fd);
    return rc;
}

static int
ask(struct fixture *f, const char *messages)
{
    AUTO_FREE char *body = xasprintf("{\"messages\":[%s]}", messages);
    const struct transport_request request = {
        .path = "/v1/messages", .body = body, .body_len = strlen(body)};
    size_t before = f->seen.len;

    f->call = f->t.ops->start(f->t.impl, &request, &handlers, f, &f->err);
    assert_int_equal(f->seen.len, before);
    if (f->call == NULL) {
        return -1;
    }
    loop_run(f->loop);
    return 0;
}

static void
fini(struct fixture *f)
{
    transport_fini(&f->t);
    loop_free(f->loop);
    sbuf_fini(&f->seen);
}

#define FILE_OF(exchanges)                                                     \
    "{\"sandpiper-replay\":1,\"exchanges\":[" exchanges "]}"
#define USER(text)                                                             \
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" text      \
    "\"}]}"
#define CALLS(a, b)                                                            \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"" a  \
    "\"},{\"type\":\"tool_use\",\"id\":\"" b "\"}]}"
#define RESULT(id, text)                                                       \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" id                          \
    "\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}"
#define RESULTS(a, b) "{\"role\":\"user\",\"content\":[" a "," b "]}"

static void
test_events_body_and_cut(void **state)
{
    struct fixture f;

    (void)state;
    assert_int_equal(
        load(&f,
             FILE_OF("{\"events\":[{\"type\":\"a\",\"n\":1},\": hi\\n\\n\"]},"
                     "{\"status\":429,\"headers\":{\"retry-after\":\"2\"},"
                     "\"body\":{\"x\":1}},"
                     "{\"headers\":{\"content-type\":\"text/html\"},"
                     "\"body\":\"raw\",\"cut\":true}"),
             0),
        0);
    assert_true(f.t.ops->is_replay);
    assert_int_equal(ask(&f, USER("q")), 0);
    assert_string_equal(f.seen.data,
                        "head 200 text/event-stream -\n"
                        "body event: a\ndata: {\"type\":\"a\",\"n\":1}\n\n"
                        "body : hi\n\ndone -\n");
    sbuf_clear(&f.seen);
    assert_int_equal(ask(&f, USER("q")), 0);
    assert_string_equal(f.seen.data, "head 429 application/json 2\n"
                                     "body {\"x\":1}done -\n");
    sbuf_clear(&f.seen);
    assert_int_equal(ask(&f, USER("q")), 0);
    assert_string_equal(f.seen.data,
                        "head 200 text/html -\nbody rawdone net\n");
    assert_int_equal(ask(&f, USER("q")), -1);
    assert_int_equal(f.err.code, ERR_PROTOCOL);
    fini(&f);
}

struct request_case {
    const char *name;
    const char *expect;
    const char *messages;
    bool expect_ok;
};

static const struct request_case request_cases[] = {
    {"plain", "{}", USER("q"), true},
    {"text", "{\"user\":\"region\"}", USER("which region?"), true},
    {"other text", "{\"user\":\"region\"}", USER("q"), false},
    {"roles", "{\"roles\":[\"user\",\"user\"]}", USER("q") "," USER("r"), true},
    {"fewer", "{\"roles\":[\"user\",\"user\"]}", USER("q"), false},
    {"more", "{\"roles\":[\"user\"]}", USER("q") "," USER("r"), false},
    {"results", "{\"tool_result\":\"42\"}",
     USER("q") "," CALLS("a", "b") "," RESULTS(RESULT("b", "142"),
                                               RESULT("a", "x")),
     true},
    {"any result", "{\"tool_result\":true}",
     USER("q") "," CALLS("a", "b") "," RESULTS(RESULT("b", "y"),
                                               RESULT("a", "x")),
     true},
    {"no result expected there", "{\"tool_result\":true}", USER("q"), false},
    {"other result", "{\"tool_result\":\"42\"}",
     USER("q") "," CALLS("a", "b") "," RESULTS(RESULT("b", "y"),
                                               RESULT("a", "x")),
     false},
    {"a call is not answered", "{}",
     USER("q") "," CALLS("a", "b") "," RESULTS(RESULT("b", "y"),
                                               RESULT("b", "x")),
     false},
    {"a call is not answered at all", "{}",
     USER("q") "," CALLS("a", "b") "," USER("r"), false},
    {"a result without a call", "{}",
     USER("q") "," RESULTS(RESULT("b", "y"), RESULT("b", "x")), false},
    {"text before a result", "{}",
     USER("q") "," CALLS("a", "b") ",{\"role\":\"user\",\"content\":[{"
                                   "\"type\":\"text\",\"text\":\"t\"}," RESULT(
                                       "a", "y") "," RESULT("b", "x") "]}",
     false},
    {"blank text", "{}", USER(" "), false},
    {"assistant last", "{}", USER("q") "," CALLS("a", "b"), false},
    {"a reply last that is named", "{\"roles\":[\"user\",\"assistant\"]}",
     USER("q") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\","
               "\"text\":\"t\"}]}",
     true},
    {"assistant first", "{}", CALLS("a", "b") "," USER("q"), false},
    {"unknown role", "{}", "{\"role\":\"robot\",\"content\":\"x\"}", false},
    {"nothing", "{}", "", false},
    {"no JSON", "{}", "{", false},
};

static void
test_requests_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(request_cases); i++) {
        const struct request_case *c = &request_cases[i];
        AUTO_FREE char *text =
            xasprintf(FILE_OF("{\"expect\":%s,\"body\":\"x\"}"), c->expect);
        struct fixture f;
        int rc;

        assert_int_equal(load(&f, text, 0), 0);
        rc = ask(&f, c->messages);
        if ((rc == 0) != c->expect_ok ||
            (rc != 0 && f.err.code != ERR_PROTOCOL)) {
            fail_msg("%s: %s", c->name, f.err.msg);
        }
        fini(&f);
    }
}

static const char *const bad_files[] = {
    "",
    "[]",
    "{\"exchanges\":[]}",
    "{\"sandpiper-replay\":2,\"exchanges\":[]}",
    "{\"sandpiper-replay\":1}",
    FILE_OF("1"),
    FILE_OF("{}"),
    FILE_OF("{\"body\":\"\",\"events\":[]}"),
    FILE_OF("{\"body\":\"\",\"statsu\":200}"),
    FILE_OF("{\"body\":\"\",\"status\":99}"),
    FILE_OF("{\"body\":\"\",\"headers\":[]}"),
    FILE_OF("{\"body\":\"\",\"expect\":{\"usr\":\"\"}}"),
    FILE_OF("{\"events\":{}}"),
    FILE_OF("{\"reply\":[{\"type\":\"tool_use\",\"id\":\"a\"}]}"),
};

static void
test_bad_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_files); i++) {
        struct fixture f;

        assert_int_equal(load(&f, bad_files[i], 0), -1);
        assert_int_equal(f.err.code, ERR_DATA);
        fini(&f);
    }
}

static void
test_bad_file_names_the_exchange(void **state)
{
    struct fixture f;

    (void)state;
    assert_int_equal(load(&f, FILE_OF("{\"body\":\"\"},{}"), 0), -1);
    assert_non_null(strstr(f.err.msg, "exchange 2: "));
    fini(&f);
}

static void
test_missing_file(void **state)
{
    struct loop *loop = loop_new(NULL);
    struct transport t = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(transport_replay(loop, "no/such/file", 0, &t, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    transport_fini(&t);
    loop_free(loop);
}

static void
test_pace_pauses_between_pieces(void **state)
{
    struct fixture f;
    int64_t begun;

    (void)state;
    assert_int_equal(load(&f, FILE_OF("{\"events\":[\"a\",\"b\",\"c\"]}"), 30),
                     0);
    begun = clock_now_ms();
    assert_int_equal(ask(&f, USER("q")), 0);
    assert_true(clock_now_ms() - begun >= 60);
    fini(&f);
}

static void
test_ending_from_callbacks(void **state)
{
    static const char *const expect[] = {"a", "adone cancelled\n", "a"};

    (void)state;
    for (size_t i = 0; i < LEN(expect); i++) {
        struct fixture f;

        assert_int_equal(load(&f, FILE_OF("{\"events\":[\"a\",\"b\"]}"), 5), 0);
        f.drop_in_body = i == 0;
        f.cancel_in_body = i == 1;
        f.fini_in_body = i == 2;
        assert_int_equal(ask(&f, USER("q")), 0);
        assert_string_equal(strstr(f.seen.data, "body ") + 5, expect[i]);
        fini(&f);
    }
}

static void
test_long_body_comes_in_chunks(void **state)
{
    struct fixture f;
    struct sbuf text;

    (void)state;
    sbuf_init(&text, 1u << 20);
    sbuf_add_str(&text, "{\"sandpiper-replay\":1,\"exchanges\":[{\"body\":\"");
    sbuf_add_repeat(&text, 'x', 40000);
    sbuf_add_str(&text, "\"}]}");
    assert_int_equal(load(&f, text.data, 0), 0);
    assert_int_equal(ask(&f, USER("q")), 0);
    assert_int_equal(f.seen.len,
                     strlen("head 200 application/json -\ndone -\n") +
                         3 * strlen("body ") + 40000);
    sbuf_fini(&text);
    fini(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_body_and_cut),
        cmocka_unit_test(test_requests_are_checked),
        cmocka_unit_test(test_bad_files_are_refused),
        cmocka_unit_test(test_bad_file_names_the_exchange),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_pace_pauses_between_pieces),
        cmocka_unit_test(test_ending_from_callbacks),
        cmocka_unit_test(test_long_body_comes_in_chunks),
    };

    return cmocka_run_group_tests_name("transport_replay", tests, NULL, NULL);
}
