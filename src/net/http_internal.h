/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What http.c (calls, callbacks, the loop), http_body.c (what is sent and how
 * far it is), http_request.c (what a request becomes in libcurl) and
 * http_failure.c share.
 */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "net/http.h"

#define HTTP_CHUNK_BYTES ((size_t)16384)

struct http_socket {
    struct http *http;
    struct loop_fd *watch; /* owned */
    struct http_socket *prev;
    struct http_socket *next;
};

struct http {
    struct loop *loop; /* borrowed */
    CURLM *multi;      /* owned; NULL until the first call */
    struct loop_timer *timer;
    struct http_socket *sockets; /* owned */
    struct http_call *calls;     /* owned */
    char *user_agent;            /* owned; may be NULL */
    char *ca_file;               /* owned; may be NULL */
    char *ca_name;               /* owned; may be NULL */
    int64_t connect_ms;

    /* Above zero while libcurl or a callback of a call is on the stack: then
       nothing may be freed, and libcurl refuses to have a handle removed. */
    int busy;
    bool freed;
};

struct http_gzip;

struct http_call {
    struct http *http;
    struct http_call *prev;
    struct http_call *next;
    struct http_handlers on;
    void *ctx;

    CURL *easy;                      /* owned */
    bool added;                      /* easy is in the multi handle */
    struct curl_slist *secret_lines; /* owned, data too, which is wiped */
    size_t n_secret_lines;
    struct curl_slist *lines; /* owned; behind secret_lines */
    char *host;               /* owned; for messages */
    char *port;               /* owned; the same */
    char curl_message[CURL_ERROR_SIZE];

    bool has_body;
    struct http_body body;  /* what it refers to is borrowed */
    int64_t body_len;       /* of all three parts */
    bool send_once;         /* the body, even in part */
    int64_t body_read;      /* how much of it libcurl has taken */
    struct http_gzip *gzip; /* owned; NULL: sent as it is */
    off_t file_size;        /* what the file was when the call began */
    struct timespec file_time;
    int64_t told_sent; /* what on_sent got last; below 0: nothing */
    struct loop_timer *sent_timer;

    struct sbuf head; /* name, NUL, value, NUL, ... */
    bool head_done;
    bool want_pause;
    bool is_paused; /* libcurl holds bytes back */

    int64_t stall_ms;
    int64_t alive_ms; /* when something last came or went */
    int64_t seen_sent;
    struct loop_timer *stall_timer;
    struct loop_task *start_task;
    struct loop_task *cancel_task;
    struct loop_task *resume_task;

    bool cancelled;
    bool dropped;
    bool finished; /* libcurl is done; result is set */
    CURLcode result;
    struct error failure; /* instead of result if its code is set */
};

/* Sets *host and *port, which the caller owns. Errors: ERR_USAGE. */
WARN_UNUSED int http_check_url(const char *text, char **host, char **port,
                               struct error *err);

/* Whether the call is to end and may call nobody any more. */
bool http_is_void(const struct http_call *call);

/* Takes the body over. Errors: ERR_IO. */
WARN_UNUSED int http_set_body(struct http_call *call,
                              const struct http_request *request,
                              struct error *err);

/* Gives the handle the callbacks that read the body. */
void http_set_body_callbacks(struct http_call *call);

/* Reads at most len bytes of the body; 0 at its end. Returns false, with
   call->failure set, when it cannot be read. */
typedef bool (*http_read_fn)(struct http_call *call, char *buffer, size_t len,
                             size_t *n);

/* NULL: no memory for it. */
struct http_gzip *http_gzip_new(void);
void http_gzip_free(struct http_gzip *g); /* NULL is allowed */

/* Begins the body again. */
void http_gzip_rewind(struct http_gzip *g);

/* Reads of the compressed body, which read gives as it is; as http_read_fn. */
WARN_UNUSED bool http_gzip_read(struct http_gzip *g, char *buffer, size_t len,
                                size_t *n, http_read_fn read,
                                struct http_call *call);

/* How many bytes of the body libcurl has given to the system; of one that is
   compressed, how many it has read. */
int64_t http_get_sent(const struct http_call *call);

/* Begins to call on_sent, if there is one, until the body is sent. */
void http_watch_sent(struct http_call *call);

/* The last on_sent, if it is still due. */
void http_tell_all_sent(struct http_call *call);

/* What made the call end with its result. */
void http_describe_failure(const struct http_call *call, struct error *err);

/* Makes the header lines of a call. Errors: ERR_USAGE, ERR_NET. */
WARN_UNUSED int http_make_lines(struct http_call *call,
                                const struct http_request *request,
                                struct error *err);

/* Releases them, wiping the secret. */
void http_free_lines(struct http_call *call);

/* All options of the handle but the callbacks. */
void http_set_options(struct http_call *call,
                      const struct http_request *request);

/* The end of whatever the loop began and raised busy for. */
void http_leave(struct http *http);

#endif
