/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/loop.h"

/* The loop waits for the disk that long at a time. */
#define FILE_READ_BYTES ((size_t)65536)

/* What the system may hold of a body that is not on its way. Without a limit
   it takes megabytes at once, and neither on_sent nor the limit on stalls
   would say anything about the peer. */
#define UNSENT_BYTES (128 * 1024)

enum { SENT_EVERY_MS = 100 };

/* --- the file --- */

static int
open_file(struct http_call *call, struct error *err)
{
    const struct http_body *body = &call->body;
    struct stat st;

    if (fstat(body->fd, &st) < 0) {
        return err_set_errno(err, ERR_IO, "the file to send");
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_IO, "what is to be sent is no regular file");
    }
    if (body->len < 0 || body->offset < 0 || body->offset > st.st_size ||
        body->len > st.st_size - body->offset) {
        return err_set(err, ERR_IO,
                       "the file to send has %lld bytes, not %lld from %lld on",
                       (long long)st.st_size, (long long)body->len,
                       (long long)body->offset);
    }
    call->file_size = st.st_size;
    call->file_time = st.st_mtim;
    return 0;
}

/* Whether the file is what it was: a length that was announced cannot be
   changed, and parts of two states of a file are none. */
static bool
check_file(struct http_call *call)
{
    struct error *err = &call->failure;
    struct stat st;

    if (fstat(call->body.fd, &st) < 0) {
        error_fill_errno(err, ERR_IO, "the file to send");
    } else if (st.st_size != call->file_size) {
        error_fill(err, ERR_IO,
                   "the file became %s while it was sent: %lld bytes, then "
                   "%lld",
                   st.st_size < call->file_size ? "shorter" : "longer",
                   (long long)call->file_size, (long long)st.st_size);
    } else if (st.st_mtim.tv_sec != call->file_time.tv_sec ||
               st.st_mtim.tv_nsec != call->file_time.tv_nsec) {
        error_fill(err, ERR_IO, "the file was changed while it was sent");
    } else {
        return true;
    }
    return false;
}

/* Sets *n to the bytes that were read, at least one; at: from the first byte
   that is sent of the file. */
static bool
read_file(struct http_call *call, int64_t at, char *buffer, size_t len,
          size_t *n)
{
    ssize_t got;

    if (len > FILE_READ_BYTES) {
        len = FILE_READ_BYTES;
    }
    do {
        got = pread(call->body.fd, buffer, len, call->body.offset + at);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        error_fill_errno(&call->failure, ERR_IO, "the file to send");
        return false;
    }
    /* Behind the reading: what changes later is no concern. */
    if (!check_file(call)) {
        return false;
    }
    if (got == 0) {
        error_fill(&call->failure, ERR_IO,
                   "the file to send has nothing more to read at %lld",
                   (long long)(call->body.offset + at));
        return false;
    }
    *n = (size_t)got;
    return true;
}

/* --- the callbacks of libcurl --- */

static size_t
take_part(char *buffer, size_t len, const char *part, size_t part_len,
          int64_t at)
{
    size_t left = part_len - (size_t)at;

    if (len > left) {
        len = left;
    }
    memcpy(buffer, part + at, len);
    return len;
}

static bool
read_body(struct http_call *call, char *buffer, size_t len, size_t *n)
{
    const struct http_body *body = &call->body;
    int64_t head_len = (int64_t)body->head_len;
    int64_t at = call->body_read;

    *n = 0;
    if (at >= call->body_len) {
        return true;
    }
    if (at < head_len) {
        *n = take_part(buffer, len, body->head, body->head_len, at);
    } else if (at < head_len + body->len) {
        int64_t left = head_len + body->len - at;

        if ((int64_t)len > left) {
            len = (size_t)left;
        }
        if (!read_file(call, at - head_len, buffer, len, n)) {
            return false;
        }
    } else {
        *n = take_part(buffer, len, body->tail, body->tail_len,
                       at - head_len - body->len);
    }
    call->body_read += (int64_t)*n;
    return true;
}

static size_t
send_body(char *buffer, size_t size, size_t n_items, void *ctx)
{
    struct http_call *call = ctx;
    size_t len = size * n_items;
    size_t n = 0;
    bool ok;

    /* The body of a dropped call may be gone. */
    if (http_is_void(call)) {
        return CURL_READFUNC_ABORT;
    }
    ok = call->gzip != NULL
             ? http_gzip_read(call->gzip, buffer, len, &n, read_body, call)
             : read_body(call, buffer, len, &n);
    return ok ? n : CURL_READFUNC_ABORT;
}

/* A kept connection that turns out to be closed makes libcurl begin again. */
static int
seek_body(void *ctx, curl_off_t offset, int origin)
{
    struct http_call *call = ctx;

    if (call->send_once && call->body_read > 0) {
        return CURL_SEEKFUNC_FAIL;
    }
    if (origin != SEEK_SET || offset < 0 || offset > call->body_len ||
        (call->gzip != NULL && offset > 0)) {
        return CURL_SEEKFUNC_FAIL;
    }
    if (call->gzip != NULL) {
        http_gzip_rewind(call->gzip);
    }
    call->body_read = offset;
    return CURL_SEEKFUNC_OK;
}

static int
set_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    int bytes = UNSENT_BYTES;

    (void)ctx;
    (void)purpose;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
    return CURL_SOCKOPT_OK;
}

/* --- how far it is --- */

static void
on_sent_timer(void *ctx)
{
    struct http_call *call = ctx;
    struct http *http = call->http;
    int64_t sent = http_get_sent(call);

    call->sent_timer = NULL;
    http->busy++;
    if (!http_is_void(call) && sent != call->told_sent) {
        call->told_sent = sent;
        call->on.on_sent(call->ctx, sent, call->body_len);
    }
    if (!http_is_void(call) && sent < call->body_len) {
        http_watch_sent(call);
    }
    http_leave(http);
}

/* --- for the other files --- */

int
http_set_body(struct http_call *call, const struct http_request *request,
              struct error *err)
{
    call->told_sent = -1;
    call->send_once = request->send_once;
    if (request->stream != NULL) {
        call->has_body = true;
        call->body = *request->stream;
        if (call->body.len != 0 && open_file(call, err) < 0) {
            return -1;
        }
    } else if (request->body != NULL) {
        call->has_body = true;
        call->body.head = request->body;
        call->body.head_len = request->body_len;
    }
    call->body_len = (int64_t)call->body.head_len + call->body.len +
                     (int64_t)call->body.tail_len;
    if (!call->body.gzip) {
        return 0;
    }
    call->gzip = http_gzip_new();
    return call->gzip != NULL ? 0
                              : err_set(err, ERR_IO, "zlib cannot be set up");
}

void
http_set_body_callbacks(struct http_call *call)
{
    CURL *easy = call->easy;

    curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_body);
    curl_easy_setopt(easy, CURLOPT_READDATA, call);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek_body);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, set_socket);
}

int64_t
http_get_sent(const struct http_call *call)
{
    curl_off_t sent = 0;

    if (call->gzip != NULL) {
        return call->body_read;
    }
    curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return sent < call->body_len ? sent : call->body_len;
}

void
http_watch_sent(struct http_call *call)
{
    if (call->on.on_sent != NULL && call->body_len > 0) {
        call->sent_timer = loop_add_timer(call->http->loop, SENT_EVERY_MS,
                                          on_sent_timer, call);
    }
}

void
http_tell_all_sent(struct http_call *call)
{
    if (call->on.on_sent != NULL && call->body_len > 0 &&
        call->told_sent != call->body_len &&
        http_get_sent(call) == call->body_len) {
        call->told_sent = call->body_len;
        call->on.on_sent(call->ctx, call->body_len, call->body_len);
    }
}
