/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_files_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "net/http.h"
#include "net/multipart.h"
#include "sandbox/e2b_entries_internal.h"
#include "sandbox/e2b_wire_internal.h"

/* A path, each byte as \uXXXX, and what stands around it. */
#define MAX_MESSAGE_BYTES (6 * E2B_MAX_PATH_BYTES + 256)

#define MAX_UPLOAD_REPLY_BYTES ((size_t)65536)
#define MAX_ENTRY_BYTES ((size_t)65536)
#define MAX_LIST_BYTES ((size_t)16 << 20)

/* Files may be of any size: only silence ends their transfer. */
enum { STALL_MS = 60000, RPC_LIMIT_MS = 60000 };

/* The daemon has no user of its own choice below 0.4.0. */
#define BASIC_USER "Basic dXNlcjo=" /* "user:" */

enum kind { UPLOAD, DOWNLOAD, LIST, STAT, MAKE_DIR, REMOVE };

struct e2b_file_call {
    struct e2b_site *site;  /* borrowed */
    struct e2b_data *data;  /* owned; NULL once it has ended */
    struct loop_task *task; /* to end it, where that is found out here */
    enum kind kind;
    char *path; /* owned */
    e2b_file_fn fn;
    e2b_list_fn list;
    void *ctx;

    /* Uploads. */
    struct multipart parts;
    struct sbuf bytes; /* the whole body, where it is in memory */
    sandbox_progress_fn progress;
    int64_t len;

    /* Downloads. */
    int fd; /* borrowed */
    int64_t offset;
    int64_t limit;
    int64_t skip; /* bytes to come that stand before offset */
    int64_t written;

    int depth;  /* of a list */
    int status; /* of the answer */
    struct error failure;
};

/* --- the end --- */

static const char *
doing(enum kind kind)
{
    static const char *const names[] = {
        [UPLOAD] = "uploading a file",     [DOWNLOAD] = "downloading a file",
        [LIST] = "listing a directory",    [STAT] = "asking about a file",
        [MAKE_DIR] = "making a directory", [REMOVE] = "removing a file",
    };

    return names[kind];
}

static void
free_call(struct e2b_file_call *c)
{
    loop_task_remove(c->task);
    multipart_fini(&c->parts);
    sbuf_fini(&c->bytes);
    free(c->path);
    free(c);
}

void
e2b_file_drop(struct e2b_file_call *c)
{
    if (c == NULL) {
        return;
    }
    e2b_data_drop(c->data);
    free_call(c);
}

/* entries may be NULL. */
static void
finish(struct e2b_file_call *c, const struct e2b_entries *entries,
       const struct e2b_data_result *result)
{
    struct e2b_data_result named = *result;
    struct error err = {0};

    if (result->err != NULL) {
        err = *result->err;
        error_prepend(&err, "%s", c->path);
        named.err = &err;
    }
    if (c->list != NULL) {
        c->list(c->ctx, entries != NULL ? entries->items : NULL,
                entries != NULL ? entries->n : 0,
                entries != NULL && entries->more, &named);
    } else {
        c->fn(c->ctx, &named);
    }
    free_call(c);
}

/* What is found out here is said as e2b_data.c says the rest. */
static void
finish_with(struct e2b_file_call *c, struct error *err)
{
    error_prepend(err, "%s: sandbox %s", doing(c->kind), c->site->id);
    finish(c, NULL,
           &(struct e2b_data_result){.trouble = E2B_TROUBLE_REFUSED,
                                     .http_status = c->status,
                                     .body = "",
                                     .err = err});
}

static void
on_failure(void *ctx)
{
    struct e2b_file_call *c = ctx;

    c->task = NULL;
    finish_with(c, &c->failure);
}

/* Ends a transfer from within. */
static void
stop(struct e2b_file_call *c)
{
    e2b_data_drop(c->data);
    c->data = NULL;
    c->task = loop_defer(c->site->loop, on_failure, c);
}

/* --- what comes of it --- */

static int
check_object(const struct e2b_data_result *r, struct error *err)
{
    AUTO_JSON struct cJSON *tree = json_parse(r->body, r->body_len, 0, err);

    if (tree == NULL) {
        return -1;
    }
    return json_is_object(tree)
               ? 0
               : err_set(err, ERR_PROTOCOL, "the answer is no object");
}

/* The body has come whole: its length or the end of its pieces was seen. */
static int
check_download(const struct e2b_file_call *c, struct error *err)
{
    if (c->skip > 0) {
        return err_set(err, ERR_DATA, "there is nothing from byte %" PRId64,
                       c->offset);
    }
    return 0;
}

static int
read_success(struct e2b_file_call *c, const struct e2b_data_result *r,
             struct e2b_entries *entries, struct error *err)
{
    switch (c->kind) {
    case UPLOAD:
        return e2b_entries_check_upload(r->body, r->body_len, c->path, err);
    case DOWNLOAD:
        return check_download(c, err);
    case LIST:
        return e2b_entries_read_list(r->body, r->body_len, c->path, c->depth,
                                     E2B_MAX_ENTRIES, entries, err);
    case STAT:
        return e2b_entries_read_one(r->body, r->body_len, c->path, entries,
                                    err);
    case MAKE_DIR:
    case REMOVE:
        return check_object(r, err);
    }
    return -1;
}

static void
on_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_file_call *c = ctx;
    struct e2b_entries entries = {0};
    struct error err = {0};

    c->data = NULL;
    c->status = result->http_status;
    if (c->kind == MAKE_DIR && result->status.code == E2B_ALREADY_EXISTS) {
        finish(c, NULL,
               &(struct e2b_data_result){.http_status = result->http_status,
                                         .body = ""});
        return;
    }
    if (result->err != NULL) {
        finish(c, NULL, result);
        return;
    }
    if (read_success(c, result, &entries, &err) < 0) {
        finish_with(c, &err);
        return;
    }
    finish(c, &entries, result);
    e2b_entries_fini(&entries);
}

/* --- beginning one --- */

static struct e2b_file_call *
new_call(struct e2b_site *site, enum kind kind, const char *path, void *ctx,
         struct error *err)
{
    struct e2b_file_call *c;

    if (!e2b_is_path(path)) {
        error_fill(err, ERR_USAGE, E2B_NOT_PLAIN, path);
        return NULL;
    }
    c = xcalloc(1, sizeof(*c));
    c->site = site;
    c->kind = kind;
    c->path = xstrdup(path);
    c->ctx = ctx;
    c->fd = -1;
    return c;
}

/* Returns the call, or NULL: it is freed then. */
static struct e2b_file_call *
start(struct e2b_file_call *c, struct e2b_data_request *request,
      const struct e2b_data_handlers *on, struct error *err)
{
    request->service = E2B_ENVD;
    request->repeatable = true; /* all of them say how it is to be afterwards */
    request->stall_ms = STALL_MS;
    request->doing = doing(c->kind);
    c->data = e2b_data_start(c->site, request, on, c, err);
    if (c->data == NULL) {
        error_prepend(err, "%s", c->path);
        free_call(c);
        return NULL;
    }
    return c;
}

/* --- uploads --- */

static void
on_sent(void *ctx, int64_t sent, int64_t total)
{
    struct e2b_file_call *c = ctx;
    int64_t done = sent - (int64_t)c->parts.head_len;

    (void)total;
    if (c->progress == NULL) {
        return;
    }
    if (done < 0) {
        done = 0;
    }
    if (done > c->len) {
        done = c->len;
    }
    c->progress(c->ctx, (uint64_t)done, (uint64_t)c->len);
}

/* From then on the body is the file, and it may be compressed. */
static bool
knows_streams(const struct e2b_site *site)
{
    return e2b_site_has(site, 0, 5, 7);
}

/* The body as it is, or as the one part of a form. */
static int
set_form(struct e2b_file_call *c, const char **content_type, struct error *err)
{
    if (knows_streams(c->site)) {
        *content_type = "application/octet-stream";
        return 0;
    }
    if (multipart_init(&c->parts, c->path, err) < 0) {
        return -1;
    }
    *content_type = c->parts.content_type;
    return 0;
}

static struct e2b_file_call *
start_upload(struct e2b_file_call *c, const struct http_body *body,
             const char *content_type, struct error *err)
{
    static const struct e2b_data_handlers on = {.on_sent = on_sent,
                                                .on_done = on_done};
    AUTO_SBUF struct sbuf query = {0};
    struct e2b_data_request request = {.method = "POST",
                                       .content_type = content_type,
                                       .stream = body,
                                       .collect_bytes = MAX_UPLOAD_REPLY_BYTES};

    e2b_file_add_query(&query, c->site, c->path);
    request.path = query.data;
    return start(c, &request, &on, err);
}

struct e2b_file_call *
e2b_file_upload(struct e2b_site *site, const char *path, int fd, int64_t offset,
                int64_t len, sandbox_progress_fn progress, e2b_file_fn fn,
                void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, UPLOAD, path, ctx, err);
    struct http_body body = {.fd = fd, .offset = offset, .len = len};
    const char *content_type = NULL;

    if (c == NULL) {
        return NULL;
    }
    c->fn = fn;
    c->progress = progress;
    c->len = len;
    if (set_form(c, &content_type, err) < 0) {
        free_call(c);
        return NULL;
    }
    body.head = c->parts.head;
    body.head_len = c->parts.head_len;
    body.tail = c->parts.tail;
    body.tail_len = c->parts.tail_len;
    body.gzip = knows_streams(c->site) && http_body_shrinks(&body);
    return start_upload(c, &body, content_type, err);
}

struct e2b_file_call *
e2b_file_upload_bytes(struct e2b_site *site, const char *path, const void *data,
                      size_t len, e2b_file_fn fn, void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, UPLOAD, path, ctx, err);
    struct http_body body = {.fd = -1};
    const char *content_type = NULL;

    if (c == NULL) {
        return NULL;
    }
    c->fn = fn;
    c->len = (int64_t)len;
    if (set_form(c, &content_type, err) < 0) {
        free_call(c);
        return NULL;
    }
    sbuf_init(&c->bytes, c->parts.head_len + len + c->parts.tail_len);
    sbuf_add(&c->bytes, c->parts.head, c->parts.head_len);
    sbuf_add(&c->bytes, data, len);
    sbuf_add(&c->bytes, c->parts.tail, c->parts.tail_len);
    body.head = c->bytes.data;
    body.head_len = c->bytes.len;
    return start_upload(c, &body, content_type, err);
}

/* --- downloads --- */

/* A whole number of bytes; -1: it is none. */
static int64_t
read_length(const char *text)
{
    int64_t n = -1;

    return text != NULL && str_to_int(text, 0, INT64_MAX, &n, NULL) == 0 ? n
                                                                         : -1;
}

/* "bytes 100-199/200": where a part begins; -1: it does not say so. */
static int64_t
read_range_start(const char *text)
{
    AUTO_FREE char *start = NULL;

    if (text == NULL || !str_starts(text, "bytes ")) {
        return -1;
    }
    text += strlen("bytes ");
    start = xstrndup(text, strcspn(text, "-"));
    return read_length(start);
}

static int
check_encoding(const struct e2b_file_call *c, struct error *err)
{
    const char *encoding = e2b_data_header(c->data, "content-encoding");

    if (encoding != NULL && encoding[0] != '\0' &&
        !str_eq_nocase(encoding, "identity")) {
        return err_set(err, ERR_PROTOCOL,
                       "the answer is encoded as %.40s, which was not asked "
                       "for",
                       encoding);
    }
    return 0;
}

/* Where the answer begins: a service may send the whole of a file that a part
   was asked of. */
static int
check_start(struct e2b_file_call *c, int status, struct error *err)
{
    int64_t start = 0;

    c->skip = 0;
    if (status == 206) {
        start = read_range_start(e2b_data_header(c->data, "content-range"));
        if (start != c->offset) {
            return err_set(err, ERR_PROTOCOL,
                           "the answer begins at byte %" PRId64
                           " instead of %" PRId64,
                           start, c->offset);
        }
        return 0;
    }
    if (status != 200) {
        return err_set(err, ERR_PROTOCOL, "status %d is not that of a file",
                       status);
    }
    c->skip = c->offset;
    return 0;
}

/* Without its length, or the end of its pieces, a file that was cut cannot be
   told from a whole one. */
static int
check_length(const struct e2b_file_call *c, struct error *err)
{
    const char *coding = e2b_data_header(c->data, "transfer-encoding");
    int64_t len = read_length(e2b_data_header(c->data, "content-length"));

    if (coding != NULL && str_eq_nocase(coding, "chunked")) {
        return 0;
    }
    if (len < 0) {
        return err_set(err, ERR_PROTOCOL, "the answer does not say its length");
    }
    if (len - c->skip > c->limit) {
        return err_set(err, ERR_TOO_LARGE,
                       "there are %" PRId64 " bytes; at most %" PRId64
                       " are taken",
                       len - c->skip, c->limit);
    }
    return 0;
}

static void
on_head(void *ctx, int status)
{
    struct e2b_file_call *c = ctx;

    c->status = status;
    if (check_encoding(c, &c->failure) < 0 ||
        check_start(c, status, &c->failure) < 0 ||
        check_length(c, &c->failure) < 0) {
        stop(c);
    }
}

static int
take_bytes(struct e2b_file_call *c, const char *data, size_t len,
           struct error *err)
{
    if (c->skip > 0) {
        size_t n = (int64_t)len < c->skip ? len : (size_t)c->skip;

        data += n;
        len -= n;
        c->skip -= (int64_t)n;
    }
    if ((int64_t)len > c->limit - c->written) {
        return err_set(err, ERR_TOO_LARGE,
                       "there are more than %" PRId64 " bytes", c->limit);
    }
    c->written += (int64_t)len;
    return io_write_all(c->fd, data, len, err);
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct e2b_file_call *c = ctx;

    if (take_bytes(c, data, len, &c->failure) < 0) {
        stop(c);
    }
}

struct e2b_file_call *
e2b_file_download(struct e2b_site *site, const char *path, int fd,
                  int64_t offset, int64_t limit, e2b_file_fn fn, void *ctx,
                  struct error *err)
{
    static const struct e2b_data_handlers on = {
        .on_head = on_head, .on_body = on_body, .on_done = on_done};
    struct e2b_file_call *c = new_call(site, DOWNLOAD, path, ctx, err);
    AUTO_SBUF struct sbuf query = {0};
    AUTO_FREE char *range = NULL;
    struct http_header header = {.name = "Range"};
    struct e2b_data_request request = {.method = "GET", .headers = &header};

    if (c == NULL) {
        return NULL;
    }
    assert(offset >= 0 && limit >= 0);
    c->fn = fn;
    c->fd = fd;
    c->offset = offset;
    c->limit = limit;
    e2b_file_add_query(&query, site, path);
    request.path = query.data;
    if (offset > 0) {
        range = xasprintf("bytes=%" PRId64 "-", offset);
        header.value = range;
        request.n_headers = 1;
    }
    return start(c, &request, &on, err);
}

/* --- directories and entries --- */

static struct e2b_file_call *
start_rpc(struct e2b_file_call *c, const char *method, size_t collect_bytes,
          struct error *err)
{
    static const struct e2b_data_handlers on = {.on_done = on_done};
    const struct http_header headers[] = {{"Connect-Protocol-Version", "1"},
                                          {"Authorization", BASIC_USER}};
    AUTO_SBUF struct sbuf message = {0};
    struct e2b_data_request request = {
        .method = "POST",
        .path = method,
        .content_type = "application/json",
        .headers = headers,
        .n_headers = e2b_site_names_user(c->site) ? LEN(headers) : 1,
        .collect_bytes = collect_bytes,
        .limit_ms = RPC_LIMIT_MS,
    };

    sbuf_init(&message, MAX_MESSAGE_BYTES);
    sbuf_add_char(&message, '{');
    json_add_member_str(&message, "path", c->path);
    if (c->kind == LIST) {
        json_add_member_int(&message, "depth", c->depth);
    }
    sbuf_add_char(&message, '}');
    assert(sbuf_ok(&message));
    request.body = message.data;
    request.body_len = message.len;
    return start(c, &request, &on, err);
}

struct e2b_file_call *
e2b_file_list(struct e2b_site *site, const char *path, int depth,
              e2b_list_fn fn, void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, LIST, path, ctx, err);

    if (c == NULL) {
        return NULL;
    }
    assert(depth >= 1);
    c->list = fn;
    c->depth = depth;
    return start_rpc(c, "/filesystem.Filesystem/ListDir", MAX_LIST_BYTES, err);
}

struct e2b_file_call *
e2b_file_stat(struct e2b_site *site, const char *path, e2b_list_fn fn,
              void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, STAT, path, ctx, err);

    if (c == NULL) {
        return NULL;
    }
    c->list = fn;
    return start_rpc(c, "/filesystem.Filesystem/Stat", MAX_ENTRY_BYTES, err);
}

struct e2b_file_call *
e2b_file_make_dir(struct e2b_site *site, const char *path, e2b_file_fn fn,
                  void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, MAKE_DIR, path, ctx, err);

    if (c == NULL) {
        return NULL;
    }
    c->fn = fn;
    return start_rpc(c, "/filesystem.Filesystem/MakeDir", MAX_ENTRY_BYTES, err);
}

struct e2b_file_call *
e2b_file_remove(struct e2b_site *site, const char *path, e2b_file_fn fn,
                void *ctx, struct error *err)
{
    struct e2b_file_call *c = new_call(site, REMOVE, path, ctx, err);

    if (c == NULL) {
        return NULL;
    }
    c->fn = fn;
    return start_rpc(c, "/filesystem.Filesystem/Remove", MAX_ENTRY_BYTES, err);
}
