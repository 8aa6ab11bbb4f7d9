/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The four pipes between the program and the kernel: requests out; events and
 * what cells print in, brought into one order by marks. What comes in is
 * anybody's: lines are bounded and parsed strictly, and a mark that never comes
 * holds up nothing for longer than 50 ms.
 */
#ifndef SANDBOX_LOCAL_LINK_INTERNAL_H
#define SANDBOX_LOCAL_LINK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "model/event.h"
#include "sandbox/marks_internal.h"

struct cJSON;
struct local_link;
struct loop;

/* A picture of MIME_BUNDLE_MAX_PNG_BYTES is 10.7 MiB of base64, its text up to
   0.8 MiB of escapes: more would be no event of the kernel's. A line, its tree
   and the picture are in memory at one time. */
#define LOCAL_LINK_MAX_LINE_MIB 12
#define LOCAL_LINK_MAX_LINE_BYTES ((size_t)LOCAL_LINK_MAX_LINE_MIB << 20)
#define LOCAL_LINK_MAX_DEPTH 16
#define LOCAL_LINK_MARK_WAIT_MS 50

/* Each may free the link. */
struct local_link_handlers {
    void (*on_text)(void *ctx, enum event_stream stream, const char *data,
                    size_t len);

    /* One event, an object; borrowed. line_len: bytes of its text. */
    void (*on_event)(void *ctx, const struct cJSON *event, size_t line_len);

    /* Nothing can be read from the events any more: why is a static text of
       ours, or NULL when the other end was closed. Called once. */
    void (*on_broken)(void *ctx, const char *why);
};

/* Descriptors are borrowed, non-blocking, and must outlive the link. */
struct local_link_fds {
    int requests;
    int events;
    int out;
    int errors;
    size_t max_line_bytes; /* of an event; 0: LOCAL_LINK_MAX_LINE_BYTES */
};

struct local_link *local_link_new(struct loop *loop,
                                  const struct local_link_fds *fds,
                                  const char nonce[MARKS_NONCE_LEN],
                                  const struct local_link_handlers *on,
                                  void *ctx);
void local_link_free(struct local_link *link); /* NULL is allowed */

/* Queues bytes for the kernel; they are copied. */
void local_link_send(struct local_link *link, const char *data, size_t len);

/* Nobody wants what is printed: the pipes are not read until the release, and
   whoever writes waits. The release hands over what is in them first. Events
   come meanwhile, and may be held up for 50 ms each. */
void local_link_hold(struct local_link *link);
void local_link_release(struct local_link *link);

/* Hands over what is left in the pipes of a sandbox that has ended, without
   waiting for marks. on_broken is not called. False when a handler freed the
   link. */
bool local_link_drain(struct local_link *link);

#endif
