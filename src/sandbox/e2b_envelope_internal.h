/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The framing of streams from a sandbox's daemon (Connect protocol, JSON): a
 * byte of flags, four of length, a message; the last message says how the call
 * ended. Takes bytes in any pieces. Pure: no input or output.
 * https://connectrpc.com/docs/protocol
 */
#ifndef SANDBOX_E2B_ENVELOPE_INTERNAL_H
#define SANDBOX_E2B_ENVELOPE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/sbuf.h"

struct error;

#define E2B_ENVELOPE_HEAD_BYTES 5u
#define E2B_ENVELOPE_MAX_BYTES ((size_t)64 << 20)

/*
 * One whole message; text is borrowed for the call and not NUL-terminated.
 * is_end: it says how the call ended (e2b_status_of_end); none comes behind it.
 * A value other than 0 stops the reader, which is not touched any more: it may
 * have been released.
 */
typedef int (*e2b_envelope_fn)(void *ctx, const char *text, size_t len,
                               bool is_end);

struct e2b_envelope {
    struct sbuf part; /* head and message, as far as they have come */
    size_t max_bytes; /* of a message */
    bool ended;
};

/* max_bytes: of a message, at most E2B_ENVELOPE_MAX_BYTES; 0: as many. */
void e2b_envelope_init(struct e2b_envelope *e, size_t max_bytes);
void e2b_envelope_fini(struct e2b_envelope *e);

/*
 * Returns 0, the callback's value, or -1; after a value other than 0 it is not
 * fed again. Errors: ERR_PROTOCOL for compressed messages, unknown flags, and
 * bytes behind the end; ERR_TOO_LARGE as soon as a head says so.
 */
WARN_UNUSED int e2b_envelope_feed(struct e2b_envelope *e, const char *bytes,
                                  size_t len, e2b_envelope_fn fn, void *ctx,
                                  struct error *err);

/* At the end of the body. Errors: ERR_NET when the stream was cut, within a
   message or before the last one: how the call ended is not known. */
WARN_UNUSED int e2b_envelope_finish(const struct e2b_envelope *e,
                                    struct error *err);

/* Adds one message to a request; len is at most E2B_ENVELOPE_MAX_BYTES. Without
   room for all of it nothing is added, and sbuf_ok is false. */
void e2b_envelope_add(struct sbuf *sb, const char *text, size_t len);

/* How a call ended, in the words of the protocol. */
enum e2b_code {
    E2B_OK,
    E2B_CANCELED,
    E2B_UNKNOWN,
    E2B_INVALID_ARGUMENT,
    E2B_DEADLINE_EXCEEDED,
    E2B_NOT_FOUND,
    E2B_ALREADY_EXISTS,
    E2B_PERMISSION_DENIED,
    E2B_RESOURCE_EXHAUSTED,
    E2B_FAILED_PRECONDITION,
    E2B_ABORTED,
    E2B_OUT_OF_RANGE,
    E2B_UNIMPLEMENTED,
    E2B_INTERNAL,
    E2B_UNAVAILABLE,
    E2B_DATA_LOSS,
    E2B_UNAUTHENTICATED
};

const char *e2b_code_name(enum e2b_code code); /* "not_found"; never NULL */

#define E2B_STATUS_MAX_MESSAGE_BYTES 1024u

struct e2b_status {
    enum e2b_code code;
    char *message; /* owned; of service_words, untrusted; NULL: none */
};

void e2b_status_fini(struct e2b_status *s);

/* Reads the last message of a stream. Without a code that is known it is
   E2B_UNKNOWN. Errors: ERR_PROTOCOL when it says nothing of the kind. */
WARN_UNUSED int e2b_status_of_end(const char *text, size_t len,
                                  struct e2b_status *out, struct error *err);

/*
 * Reads an answer with a status other than 200. A string code in the body
 * decides; with a number in its place, or none, the HTTP status does. The
 * message is that of the body, or its first line where it is plain text.
 */
void e2b_status_of_failure(int http_status, const char *body, size_t len,
                           struct e2b_status *out);

#endif
