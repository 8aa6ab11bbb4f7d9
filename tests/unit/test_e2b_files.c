/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/json.h"
#include "base/str.h"
#include "sandbox/e2b_files_internal.h"

#include "e2b_site.h"

#define PATH "/home/user/a b\xc3\xa4.csv"
#define QUERY "/files?path=%2Fhome%2Fuser%2Fa%20b%C3%A4.csv"
#define U "POST " QUERY
#define WRITTEN                                                                \
    "[{\"name\":\"a b\xc3\xa4.csv\",\"path\":\"" PATH "\",\"type\":\"file\"}]"
#define RPC "POST /filesystem.Filesystem/"
#define PLAIN_TEXT "Content-Type: text/plain; charset=utf-8\r\n"

enum { MAX_BYTES = 1000 };

struct scene {
    struct fixture f;
    struct e2b_file_call *call;
    char *paths; /* owned; of the entries, each with "\n" behind it */
    struct e2b_entry first;
    size_t n_entries;
    bool more;
    int fd;
};

static void
on_done(void *ctx, const struct e2b_data_result *result)
{
    struct scene *s = ctx;

    keep_result(&s->f, result);
}

static void
on_list(void *ctx, const struct e2b_entry *entries, size_t n, bool more,
        const struct e2b_data_result *result)
{
    struct scene *s = ctx;
    AUTO_SBUF struct sbuf paths = {0};

    sbuf_init(&paths, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        sbuf_addf(&paths, "%s\n", entries[i].path);
    }
    s->paths = sbuf_take(&paths);
    s->n_entries = n;
    s->more = more;
    if (n > 0) {
        s->first = entries[0];
    }
    assert_true(n == 0 || result->err == NULL);
    keep_result(&s->f, result);
}

static void
on_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct scene *s = ctx;

    assert_true(done_bytes <= total_bytes);
    assert_int_equal(total_bytes, 5);
    s->f.sent = (int64_t)done_bytes;
    s->f.n_sent++;
}

static void
begin(struct scene *s, int minor, int patch, const struct exchange *script,
      size_t n)
{
    *s = (struct scene){.fd = -1};
    set_up(&s->f, minor, patch);
    server_play(&s->f.server, script, n);
}

static void
wait_for(struct scene *s, struct e2b_file_call *call, const char *name)
{
    assert_non_null(call);
    assert_int_equal(s->f.n_done, 0);
    loop_run(s->f.loop);
    assert_int_equal(s->f.n_done, 1);
    expect_all_used(&s->f, name);
}

static void
end(struct scene *s)
{
    free(s->paths);
    close_fd(&s->fd);
    tear_down(&s->f);
}

static void
expect_success(const struct scene *s)
{
    if (s->f.result.err != NULL) {
        fail_msg("%s", s->f.err.msg);
    }
    assert_int_equal(s->f.result.trouble, E2B_TROUBLE_NONE);
}

/* All errors begin with what they are about. */
static void
expect_failure(const struct scene *s, const char *name, const char *path,
               enum error_code code, const char *part)
{
    if (s->f.result.err == NULL || s->f.err.code != code ||
        s->f.result.trouble == E2B_TROUBLE_NONE ||
        !str_starts(s->f.err.msg, path) || strstr(s->f.err.msg, part) == NULL) {
        fail_msg("%s: %s: %s", name, error_code_name(s->f.err.code),
                 s->f.err.msg);
    }
}

static const char *
body_of(const struct scene *s)
{
    return strstr(s->f.server.requests[s->f.server.n_requests - 1],
                  "\r\n\r\n") +
           4;
}

static void
expect_line(const struct scene *s, const char *line, bool there)
{
    const char *request = s->f.server.requests[s->f.server.n_requests - 1];
    const char *at = strstr(request, line);

    if ((at != NULL && at < body_of(s)) != there) {
        fail_msg("%s: %s in %s", line, there ? "not" : "is", request);
    }
}

/* --- uploads --- */

static struct e2b_file_call *
upload(struct scene *s, struct error *err)
{
    return e2b_file_upload_bytes(&s->f.site, PATH, "a\n\"1\"", 5, on_done, s,
                                 err);
}

static struct e2b_file_call *
upload_file(struct scene *s, struct error *err)
{
    s->fd = io_memfd("upload", "xxa\n\"1\"x", 8, NULL);
    return e2b_file_upload(&s->f.site, PATH, s->fd, 2, 5, on_progress, on_done,
                           s, err);
}

/* From memory and from a file, by the version of the daemon. */
static void
test_upload_forms(void **state)
{
    static const struct exchange plain[] = {
        ANSWER_WITH("POST " QUERY, 200, WRITTEN, PLAIN_TEXT)};
    static const struct exchange named[] = {
        ANSWER("POST " QUERY "&username=user", 200, WRITTEN)};
    static const struct {
        int minor;
        int patch;
        bool is_form;
        bool names_user;
    } rows[] = {{6, 13, false, false}, {5, 7, false, false},
                {5, 6, true, false},   {4, 0, true, false},
                {3, 9, true, true},    {0, 0, true, true}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2 * LEN(rows); i++) {
        struct scene s;
        bool is_form = rows[i / 2].is_form;

        begin(&s, rows[i / 2].minor, rows[i / 2].patch,
              rows[i / 2].names_user ? named : plain, 1);
        s.call = i % 2 == 0 ? upload(&s, &err) : upload_file(&s, &err);
        wait_for(&s, s.call, "upload");
        expect_success(&s);
        expect_line(&s, "\r\nContent-Type: application/octet-stream\r\n",
                    !is_form);
        expect_line(&s, "\r\nContent-Length: 5\r\n", !is_form);
        expect_line(
            &s, "\r\nContent-Type: multipart/form-data; boundary=", is_form);
        expect_line(&s, "\r\nExpect", false);
        expect_line(&s, "\r\nAuthorization", false);
        expect_line(&s, "\r\nE2b-Sandbox-Port: 49983\r\n", true);
        if (is_form) {
            assert_non_null(strstr(
                body_of(&s), "; name=\"file\"; filename=\"" PATH "\"\r\n"));
            assert_non_null(strstr(body_of(&s), "\r\n\r\na\n\"1\"\r\n--"));
        } else {
            assert_string_equal(body_of(&s), "a\n\"1\"");
        }
        if (i % 2 == 1) {
            assert_true(s.f.n_sent > 0);
            assert_int_equal(s.f.sent, 5);
        }
        end(&s);
    }
}

static void
test_empty_uploads(void **state)
{
    static const struct exchange script[] = {
        ANSWER("POST " QUERY, 200, WRITTEN)};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct scene s;
        bool is_form = i / 2 == 1;

        begin(&s, 5, is_form ? 6 : 7, script, 1);
        s.fd = io_memfd("upload", "", 0, NULL);
        s.call = i % 2 == 0 ? e2b_file_upload_bytes(&s.f.site, PATH, NULL, 0,
                                                    on_done, &s, &err)
                            : e2b_file_upload(&s.f.site, PATH, s.fd, 0, 0, NULL,
                                              on_done, &s, &err);
        wait_for(&s, s.call, "empty");
        expect_success(&s);
        expect_line(&s, "\r\nContent-Length: 0\r\n", !is_form);
        assert_int_equal(strlen(body_of(&s)) == 0, !is_form);
        end(&s);
    }
}

#define LARGE_BYTES ((size_t)1 << 20)

enum content { TABLE, NOISE, ARCHIVE };

/* Owned by the caller. */
static char *
make_content(enum content content)
{
    char *text = xcalloc(1, LARGE_BYTES + 1);
    uint32_t random = 1;

    for (size_t i = 0; i < LARGE_BYTES; i++) {
        random = random * 1103515245 + 12345;
        text[i] = content == NOISE || (content == ARCHIVE && i > 100000)
                      ? (char)(random >> 16)
                      : "0123456789,\n"[(random >> 16) % 12];
    }
    return text;
}

/* What was sent is gzip of that. */
static void
expect_gzip(const struct scene *s, const char *text)
{
    size_t last = s->f.server.n_requests - 1;
    const char *body = body_of(s);
    size_t len =
        s->f.server.lens[last] - (size_t)(body - s->f.server.requests[last]);
    AUTO_FREE unsigned char *out = xmalloc(LARGE_BYTES + 1);
    AUTO_FREE unsigned char *in = xmemdup(body, len);
    z_stream z = {.next_in = in,
                  .avail_in = (unsigned)len,
                  .next_out = out,
                  .avail_out = (unsigned)LARGE_BYTES + 1};

    assert_true(len < LARGE_BYTES / 4 * 3);
    assert_int_equal(inflateInit2(&z, MAX_WBITS + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, LARGE_BYTES);
    assert_int_equal(z.avail_in, 0);
    assert_memory_equal(out, text, LARGE_BYTES);
    inflateEnd(&z);
}

static void
on_large_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct scene *s = ctx;

    assert_int_equal(total_bytes, LARGE_BYTES);
    s->f.sent = (int64_t)done_bytes;
}

static void
upload_large(struct scene *s, const char *text)
{
    struct error err = {0};

    close_fd(&s->fd);
    s->fd = io_memfd("upload", text, LARGE_BYTES, NULL);
    s->call = e2b_file_upload(&s->f.site, PATH, s->fd, 0, (int64_t)LARGE_BYTES,
                              on_large_progress, on_done, s, &err);
    assert_non_null(s->call);
    loop_run(s->f.loop);
    expect_success(s);
    assert_int_equal(s->f.sent, LARGE_BYTES);
}

/* Only what gets smaller, and only to a daemon that knows it. */
static void
test_compressed_uploads(void **state)
{
    static const struct exchange script[] = {ANSWER(U, 200, WRITTEN)};
    static const struct {
        enum content content;
        int patch;
        bool is_gzip;
    } rows[] = {{TABLE, 7, true},
                {TABLE, 6, false},
                {NOISE, 7, false},
                {ARCHIVE, 7, false}};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        AUTO_FREE char *text = make_content(rows[i].content);
        struct scene s;

        begin(&s, 5, rows[i].patch, script, 1);
        upload_large(&s, text);
        expect_all_used(&s.f, "large");
        expect_line(&s, "\r\nContent-Encoding: gzip\r\n", rows[i].is_gzip);
        expect_line(&s, "\r\nContent-Length: ", !rows[i].is_gzip);
        expect_line(&s, "\r\nExpect", false);
        if (rows[i].is_gzip) {
            expect_gzip(&s, text);
        }
        end(&s);
    }
}

/* A kept connection that was closed makes libcurl begin the body again, as does
   a try that got no answer. */
static void
test_compressed_again(void **state)
{
    static const struct exchange script[] = {
        ANSWER(U, 200, WRITTEN), NO_ANSWER(U, SERVER_CLOSES),
        NO_ANSWER(U, SERVER_CLOSES), ANSWER(U, 200, WRITTEN)};
    AUTO_FREE char *text = make_content(TABLE);
    struct scene s;

    (void)state;
    begin(&s, 6, 13, script, LEN(script));
    upload_large(&s, text);
    forget_result(&s.f);
    upload_large(&s, text);
    expect_all_used(&s.f, "again");
    expect_gzip(&s, text);
    end(&s);
}

struct upload_case {
    const char *name;
    struct exchange script[2];
    enum error_code expect_code;
    const char *expect_part;
};

static const struct upload_case upload_cases[] = {
    {"no answer, and one then",
     {NO_ANSWER(U, SERVER_CLOSES), ANSWER(U, 200, WRITTEN)},
     0,
     NULL},
    {"nothing written", {ANSWER(U, 200, "[]")}, ERR_PROTOCOL, "0 files"},
    {"two written",
     {ANSWER(U, 200, "[{\"path\":\"" PATH "\"},{\"path\":\"/b\"}]")},
     ERR_PROTOCOL,
     "2 files"},
    {"another written",
     {ANSWER(U, 200, "[{\"path\":\"/home/user/b\",\"type\":\"file\"}]")},
     ERR_PROTOCOL,
     "another file"},
    {"a directory written",
     {ANSWER(U, 200, "[{\"path\":\"" PATH "\",\"type\":\"dir\"}]")},
     ERR_PROTOCOL,
     "another file"},
    {"no list",
     {ANSWER(U, 200, "{\"path\":\"" PATH "\"}")},
     ERR_PROTOCOL,
     "no list"},
    {"no JSON", {ANSWER(U, 200, "<html>")}, ERR_PROTOCOL, "JSON"},
    {"no body", {ANSWER(U, 204, "")}, ERR_PROTOCOL, "JSON"},
    {"the disk is full",
     {ANSWER(U, 507, "{\"code\":507,\"message\":\"not enough space\"}")},
     ERR_LIMIT,
     "not enough space"},
    {"a directory is there",
     {ANSWER(U, 400, "{\"code\":400,\"message\":\"path is a directory\"}")},
     ERR_REMOTE,
     "path is a directory"},
    {"gone", {ANSWER(U, 502, GONE_JSON)}, ERR_SANDBOX, "does not run any more"},
    {"the token",
     {ANSWER(U, 401, "{\"code\":401,\"message\":\"no\"}")},
     ERR_AUTH,
     "status 401"},
    {"starting",
     {ANSWER(U, 502, CLOSED_JSON), ANSWER(U, 200, WRITTEN)},
     0,
     NULL},
};

static void
test_upload_answers(void **state)
{
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < LEN(upload_cases); i++) {
        const struct upload_case *c = &upload_cases[i];
        struct scene s;

        begin(&s, 6, 13, c->script, c->script[1].request != NULL ? 2 : 1);
        wait_for(&s, upload(&s, &err), c->name);
        if (c->expect_code == ERR_NONE) {
            expect_success(&s);
        } else {
            expect_failure(&s, c->name, PATH ": uploading a file",
                           c->expect_code, c->expect_part);
        }
        end(&s);
    }
}

/* A file that cannot be sent, and paths that cannot be asked for. */
static void
test_refused_at_once(void **state)
{
    static const char *const paths[] = {"",       "a",     "/a//b", "/a/",
                                        "/.",     "/a/..", "/../a", "//",
                                        "/a/./b", "/\xff"};
    struct scene s;

    (void)state;
    begin(&s, 6, 13, NULL, 0);
    for (size_t i = 0; i < LEN(paths); i++) {
        struct error err = {0};

        assert_null(e2b_file_stat(&s.f.site, paths[i], on_list, &s, &err));
        assert_int_equal(err.code, ERR_USAGE);
        assert_null(e2b_file_url(&s.f.site, paths[i], false, 0, &err));
        assert_null(e2b_file_upload_bytes(&s.f.site, paths[i], "", 0, on_done,
                                          &s, &err));
        assert_null(e2b_file_download(&s.f.site, paths[i], -1, 0, 0, on_done,
                                      &s, &err));
    }
    for (size_t i = 0; i < 2; i++) {
        struct error err = {0};

        end(&s);
        begin(&s, i == 0 ? 6 : 0, 0, NULL, 0);
        s.fd = io_memfd("upload", "ab", 2, NULL);
        assert_null(e2b_file_upload(&s.f.site, PATH, s.fd, 1, 2, NULL, on_done,
                                    &s, &err));
        assert_int_equal(err.code, ERR_IO);
        assert_true(str_starts(err.msg, PATH ": "));
        close_fd(&s.fd);
    }
    end(&s);
}

/* --- downloads --- */

struct download_case {
    const char *name;
    struct exchange script[2];
    int64_t offset;
    int64_t limit;
    enum error_code expect_code;
    const char *expect; /* what was written, or a part of the message */
};

#define D "GET " QUERY
#define CHUNKED                                                                \
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"        \
    "2\r\nde\r\n"

static const struct download_case download_cases[] = {
    {"whole", {ANSWER(D, 200, "abcde")}, 0, 5, 0, "abcde"},
    {"empty", {ANSWER(D, 200, "")}, 0, 0, 0, ""},
    {"in pieces",
     {{.request = D, .act = SERVER_RAW, .body = CHUNKED "0\r\n\r\n"}},
     0,
     5,
     0,
     "abcde"},
    {"pieces without an end",
     {{.request = D, .act = SERVER_RAW, .body = CHUNKED}},
     0,
     5,
     ERR_NET,
     "downloading a file"},
    {"cut",
     {{.request = D, .status = 200, .body = "abc", .act = SERVER_CLOSES_HALF}},
     0,
     100,
     ERR_NET,
     "downloading a file"},
    {"cut before all of it",
     {NO_ANSWER(D, SERVER_CLOSES), ANSWER(D, 200, "abcde")},
     0,
     5,
     0,
     "abcde"},
    {"without a length",
     {{.request = D,
       .act = SERVER_RAW,
       .body = "HTTP/1.1 200 OK\r\n\r\nabcde"}},
     0,
     100,
     ERR_PROTOCOL,
     "does not say its length"},
    {"too large", {ANSWER(D, 200, "abcde")}, 0, 4, ERR_TOO_LARGE, "5 bytes"},
    {"too large, in pieces",
     {{.request = D, .act = SERVER_RAW, .body = CHUNKED "0\r\n\r\n"}},
     0,
     4,
     ERR_TOO_LARGE,
     "more than 4 bytes"},
    {"a part",
     {ANSWER_WITH(D, 206, "cde", "Content-Range: bytes 2-4/5\r\n")},
     2,
     3,
     0,
     "cde"},
    {"all for a part", {ANSWER(D, 200, "abcde")}, 2, 3, 0, "cde"},
    {"cut before all of it, and a part then",
     {{.request = D, .status = 200, .act = SERVER_CLOSES_HALF},
      ANSWER_WITH(D, 206, "cde", "Content-Range: bytes 2-4/5\r\n")},
     2,
     9,
     0,
     "cde"},
    {"all for a part, too large",
     {ANSWER(D, 200, "abcde")},
     2,
     2,
     ERR_TOO_LARGE,
     "3 bytes"},
    {"less than that", {ANSWER(D, 200, "ab")}, 3, 9, ERR_DATA, "byte 3"},
    {"nothing there",
     {ANSWER(D, 416, "invalid range")},
     9,
     9,
     ERR_REMOTE,
     "status 416"},
    {"another part",
     {ANSWER_WITH(D, 206, "bcde", "Content-Range: bytes 1-4/5\r\n")},
     2,
     9,
     ERR_PROTOCOL,
     "byte 1 instead of 2"},
    {"a part of no place",
     {ANSWER(D, 206, "bcde")},
     0,
     9,
     ERR_PROTOCOL,
     "byte -1"},
    {"no content", {ANSWER(D, 204, "")}, 0, 9, ERR_PROTOCOL, "status 204"},
    {"compressed",
     {ANSWER_WITH(D, 200, "abcde", "Content-Encoding: gzip\r\n")},
     0,
     9,
     ERR_PROTOCOL,
     "encoded as gzip"},
    {"not there",
     {ANSWER(D, 404, "{\"code\":404,\"message\":\"path does not exist\"}")},
     0,
     9,
     ERR_REMOTE,
     "path does not exist"},
    {"another address",
     {ANSWER_WITH(D, 302, "abcde", "Location: /x\r\n")},
     0,
     9,
     ERR_REMOTE,
     "status 302"},
};

static void
read_written(const struct scene *s, char bytes[MAX_BYTES])
{
    ssize_t n = pread(s->fd, bytes, MAX_BYTES - 1, 0);

    assert_true(n >= 0);
    bytes[n] = '\0';
}

static void
test_downloads(void **state)
{
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < LEN(download_cases); i++) {
        const struct download_case *c = &download_cases[i];
        AUTO_FREE char *range =
            xasprintf("\r\nRange: bytes=%d-\r\n", (int)c->offset);
        char bytes[MAX_BYTES];
        struct scene s;

        begin(&s, 6, 13, c->script, c->script[1].request != NULL ? 2 : 1);
        s.fd = memfd_create("download", MFD_CLOEXEC);
        s.call = e2b_file_download(&s.f.site, PATH, s.fd, c->offset, c->limit,
                                   on_done, &s, &err);
        wait_for(&s, s.call, c->name);
        expect_line(&s, range, c->offset > 0);
        expect_line(&s, "\r\nRange", c->offset > 0);
        expect_line(&s, "\r\nAccept-Encoding", false);
        read_written(&s, bytes);
        if (c->expect_code == ERR_NONE) {
            expect_success(&s);
            assert_string_equal(bytes, c->expect);
        } else {
            expect_failure(&s, c->name, PATH ": downloading a file",
                           c->expect_code, c->expect);
            assert_true(strlen(bytes) <= (size_t)c->limit);
        }
        end(&s);
    }
}

static void
test_download_to_a_full_disk(void **state)
{
    static const struct exchange script[] = {ANSWER(D, 200, "abcde")};
    struct error err = {0};
    struct scene s;

    (void)state;
    begin(&s, 6, 13, script, 1);
    s.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    s.call = e2b_file_download(&s.f.site, PATH, s.fd, 0, 5, on_done, &s, &err);
    wait_for(&s, s.call, "full");
    expect_failure(&s, "full", PATH, ERR_IO, "No space");
    end(&s);
}

/* --- directories and entries --- */

#define FILE_OF(path, more)                                                    \
    "{\"name\":\"x\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"" path "\"" more "}"

static void
test_list(void **state)
{
    static const struct exchange script[] = {ANSWER(
        RPC "ListDir", 200,
        "{\"entries\":[" FILE_OF("/d/a",
                                 ",\"size\":\"12\","
                                 "\"modifiedTime\":\"2026-09-01T08:00:"
                                 "11.5Z\"") "," FILE_OF("/e/b", "") "]}")};
    struct error err = {0};
    struct scene s;

    (void)state;
    begin(&s, 6, 13, script, 1);
    wait_for(&s, e2b_file_list(&s.f.site, "/d", 2, on_list, &s, &err), "list");
    expect_success(&s);
    assert_string_equal(s.paths, "/d/a\n");
    assert_int_equal(s.first.size_bytes, 12);
    assert_int_equal(s.first.mtime_ns, 1788249611500000000);
    assert_false(s.more);
    assert_string_equal(body_of(&s), "{\"path\":\"/d\",\"depth\":2}");
    expect_line(&s, "\r\nContent-Type: application/json\r\n", true);
    expect_line(&s, "\r\nConnect-Protocol-Version: 1\r\n", true);
    expect_line(&s, "\r\nConnect-Timeout-Ms", false);
    expect_line(&s, "\r\nAuthorization", false);
    expect_line(&s, "\r\nX-Access-Token: " TOKEN "\r\n", true);
    end(&s);
}

static void
test_old_daemons_are_told_the_user(void **state)
{
    static const struct exchange script[] = {ANSWER(RPC "ListDir", 200, "{}")};
    struct error err = {0};
    struct scene s;

    (void)state;
    begin(&s, 3, 9, script, 1);
    wait_for(&s, e2b_file_list(&s.f.site, "/d", 1, on_list, &s, &err), "old");
    expect_success(&s);
    assert_int_equal(s.n_entries, 0);
    expect_line(&s, "\r\nAuthorization: Basic dXNlcjo=\r\n", true);
    end(&s);
}

static void
test_stat(void **state)
{
    static const struct exchange script[] = {
        ANSWER(RPC "Stat", 200, "{\"entry\":" FILE_OF(PATH, "") "}")};
    static const struct exchange none[] = {
        ANSWER(RPC "Stat", 404, "{\"code\":\"not_found\",\"message\":\"no\"}")};
    static const struct exchange unknown[] = {
        ANSWER(RPC "Stat", 404, "404 page not found")};
    struct error err = {0};
    struct scene s;

    (void)state;
    begin(&s, 6, 13, script, 1);
    wait_for(&s, e2b_file_stat(&s.f.site, PATH, on_list, &s, &err), "stat");
    expect_success(&s);
    assert_string_equal(s.paths, PATH "\n");
    assert_string_equal(body_of(&s), "{\"path\":\"" PATH "\"}");
    end(&s);

    begin(&s, 6, 13, none, 1);
    wait_for(&s, e2b_file_stat(&s.f.site, PATH, on_list, &s, &err), "none");
    assert_int_equal(s.f.result.http_status, 404);
    assert_int_equal(s.f.result.status.code, E2B_NOT_FOUND);
    assert_int_equal(s.n_entries, 0);
    end(&s);

    begin(&s, 6, 13, unknown, 1);
    wait_for(&s, e2b_file_stat(&s.f.site, PATH, on_list, &s, &err), "unknown");
    assert_int_equal(s.f.result.status.code, E2B_UNIMPLEMENTED);
    end(&s);
}

struct rpc_case {
    const char *name;
    enum { LISTS, STATS, MAKES, REMOVES } what;
    struct exchange script[2];
    enum error_code expect_code;
    const char *expect_part;
};

#define ALREADY "{\"code\":\"already_exists\",\"message\":\"is there\"}"

static const struct rpc_case rpc_cases[] = {
    {"made",
     MAKES,
     {ANSWER(RPC "MakeDir", 200, "{\"entry\":{}}")},
     ERR_NONE,
     NULL},
    {"there already",
     MAKES,
     {ANSWER(RPC "MakeDir", 409, ALREADY)},
     ERR_NONE,
     NULL},
    {"between two states",
     MAKES,
     {ANSWER(RPC "MakeDir", 409, CHANGING_JSON),
      ANSWER(RPC "MakeDir", 200, "{}")},
     ERR_NONE,
     NULL},
    {"a file in the way",
     MAKES,
     {ANSWER(RPC "MakeDir", 400,
             "{\"code\":\"invalid_argument\",\"message\":\"is a file\"}")},
     ERR_REMOTE,
     "is a file"},
    {"a page for an answer",
     MAKES,
     {ANSWER(RPC "MakeDir", 200, "<html>Log in</html>")},
     ERR_PROTOCOL,
     "JSON"},
    {"removed", REMOVES, {ANSWER(RPC "Remove", 200, "{}")}, ERR_NONE, NULL},
    {"removed, without an answer",
     REMOVES,
     {NO_ANSWER(RPC "Remove", SERVER_CLOSES), ANSWER(RPC "Remove", 200, "{}")},
     ERR_NONE,
     NULL},
    {"a list for an answer",
     REMOVES,
     {ANSWER(RPC "Remove", 200, "[]")},
     ERR_PROTOCOL,
     "no object"},
    {"already, where it means nothing",
     STATS,
     {ANSWER(RPC "Stat", 409, ALREADY)},
     ERR_REMOTE,
     "is there"},
    {"another entry",
     STATS,
     {ANSWER(RPC "Stat", 200, "{\"entry\":" FILE_OF("/a", "") "}")},
     ERR_PROTOCOL,
     "something else"},
    {"no entry",
     STATS,
     {ANSWER(RPC "Stat", 200, "{}")},
     ERR_PROTOCOL,
     "no entry"},
    {"a list that is none",
     LISTS,
     {ANSWER(RPC "ListDir", 200, "[]")},
     ERR_PROTOCOL,
     "no object"},
    {"the token, with a number",
     LISTS,
     {ANSWER(RPC "ListDir", 401, "{\"code\":401,\"message\":\"no\"}")},
     ERR_AUTH,
     "status 401: no"},
    {"an unknown user",
     LISTS,
     {ANSWER(RPC "ListDir", 401,
             "{\"code\":\"unauthenticated\",\"message\":\"who\"}")},
     ERR_AUTH,
     "status 401: who"},
    {"not there",
     LISTS,
     {ANSWER(RPC "ListDir", 404,
             "{\"code\":\"not_found\",\"message\":\"none\"}")},
     ERR_REMOTE,
     "none"},
};

static struct e2b_file_call *
start_rpc(struct scene *s, int what, struct error *err)
{
    struct e2b_site *site = &s->f.site;

    switch (what) {
    case LISTS:
        return e2b_file_list(site, PATH, 1, on_list, s, err);
    case STATS:
        return e2b_file_stat(site, PATH, on_list, s, err);
    case MAKES:
        return e2b_file_make_dir(site, PATH, on_done, s, err);
    default:
        return e2b_file_remove(site, PATH, on_done, s, err);
    }
}

static void
test_answers_to_calls(void **state)
{
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < LEN(rpc_cases); i++) {
        const struct rpc_case *c = &rpc_cases[i];
        struct scene s;

        begin(&s, 6, 13, c->script, c->script[1].request != NULL ? 2 : 1);
        wait_for(&s, start_rpc(&s, (int)c->what, &err), c->name);
        if (c->expect_code == ERR_NONE) {
            expect_success(&s);
        } else {
            expect_failure(&s, c->name, PATH, c->expect_code, c->expect_part);
        }
        end(&s);
    }
}

/* --- ending calls --- */

static void
drop_it(void *ctx)
{
    struct scene *s = ctx;

    e2b_file_drop(s->call);
    loop_stop(s->f.loop);
}

static void
drop_soon(void *ctx)
{
    struct scene *s = ctx;

    loop_add_timer(s->f.loop, 50, drop_it, s);
}

static void
test_dropping(void **state)
{
    static const struct exchange scripts[][1] = {{NO_ANSWER(U, SERVER_HANGS)},
                                                 {HALF_ANSWER(D, 200, "abc")}};

    (void)state;
    for (size_t i = 0; i < LEN(scripts); i++) {
        struct error err = {0};
        struct scene s;

        begin(&s, 6, 13, scripts[i], 1);
        s.f.server.on_request = drop_soon;
        s.f.server.ctx = &s;
        if (i == 0) {
            s.call = upload_file(&s, &err);
        } else {
            s.fd = memfd_create("download", MFD_CLOEXEC);
            s.call = e2b_file_download(&s.f.site, PATH, s.fd, 0, 100, on_done,
                                       &s, &err);
        }
        assert_non_null(s.call);
        loop_run(s.f.loop);
        assert_int_equal(s.f.n_done, 0);
        end(&s);
    }
    e2b_file_drop(NULL);
}

/* --- addresses --- */

/* The first two are those of the reference; the rest are its rule. */
static void
test_signed_addresses(void **state)
{
    static const struct {
        int minor;
        const char *path;
        bool writes;
        int64_t expires_s;
        const char *token;
        const char *expect;
    } rows[] = {
        {3, "/home/user/out/plot.png", false, 1790000000, "ea_4f1c9d2b7e",
         "/files?path=%2Fhome%2Fuser%2Fout%2Fplot.png&username=user&signature="
         "v1_mSSlI4vF2iEeMWWox2Rv4eUfOAMrq3gyQz6pd6NvHUk"
         "&signature_expiration=1790000000"},
        {6, "/home/user/in/sales.csv", true, 0, "ea_4f1c9d2b7e",
         "/files?path=%2Fhome%2Fuser%2Fin%2Fsales.csv&signature="
         "v1_yg%2FkaBKnOsW9PlabFdAC1x4ZaB8TvnP6mj0tpGnl%2BMs"},
        {6, "/home/user/in/sales.csv", true, 9, NULL,
         "/files?path=%2Fhome%2Fuser%2Fin%2Fsales.csv"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        char base[] = "https://x.example";
        struct e2b_site site = {.url = {base, NULL},
                                .envd = {0, rows[i].minor, 0}};
        struct error err = {0};
        AUTO_FREE char *url = NULL;

        site.envd_token =
            rows[i].token != NULL ? secret_new(rows[i].token, 13) : NULL;
        url = e2b_file_url(&site, rows[i].path, rows[i].writes,
                           rows[i].expires_s, &err);
        assert_non_null(url);
        assert_true(str_starts(url, base));
        assert_string_equal(url + strlen(base), rows[i].expect);
        secret_free(site.envd_token);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload_forms),
        cmocka_unit_test(test_empty_uploads),
        cmocka_unit_test(test_compressed_uploads),
        cmocka_unit_test(test_compressed_again),
        cmocka_unit_test(test_upload_answers),
        cmocka_unit_test(test_refused_at_once),
        cmocka_unit_test(test_downloads),
        cmocka_unit_test(test_download_to_a_full_disk),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_old_daemons_are_told_the_user),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_answers_to_calls),
        cmocka_unit_test(test_dropping),
        cmocka_unit_test(test_signed_addresses),
    };

    return cmocka_run_group_tests_name("e2b_files", tests, NULL, NULL);
}
