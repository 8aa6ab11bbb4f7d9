/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assembles one streamed reply out of its bytes, in any chunking. Pure: it
 * waits for nothing and decides nothing about trying again.
 */
#ifndef CLAUDE_STREAM_INTERNAL_H
#define CLAUDE_STREAM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct claude_failure;
struct claude_history;
struct claude_reply;
struct claude_stream;

/* As in struct claude_handlers. on_more is asked after each; false: nothing
   more is given. */
struct claude_stream_handlers {
    void (*on_thinking)(void *ctx, const char *text, size_t len, bool end);
    void (*on_text)(void *ctx, const char *text, size_t len, bool end);
    void (*on_tool)(void *ctx, const char *name, const char *input_so_far,
                    size_t len);
    bool (*on_more)(void *ctx);
};

/* compatible: what servers of other vendors leave out is tolerated. handlers
   are copied; request_id (may be NULL) is for messages, and copied. */
struct claude_stream *
claude_stream_new(bool compatible, const char *request_id,
                  const struct claude_stream_handlers *handlers, void *ctx);
void claude_stream_free(struct claude_stream *s);

/* The conversation that the reply is for: the ids of its tool calls are not to
   be used again. Borrowed for the life of the stream. */
void claude_stream_set_history(struct claude_stream *s,
                               const struct claude_history *history);

/* Returns 0, or -1 with *out set: an error event, or bytes that make no sense.
   Must not be called again then. */
WARN_UNUSED int claude_stream_feed(struct claude_stream *s, const char *bytes,
                                   size_t len, struct claude_failure *out);

/* True when the last event of a reply has come. */
bool claude_stream_is_complete(const struct claude_stream *s);

/* Counts events other than ping. */
uint64_t claude_stream_n_events(const struct claude_stream *s);

/*
 * The reply, when the bytes have ended: 0, or -1 with *out set when it is not
 * whole. *reply is released by claude_reply_fini.
 */
WARN_UNUSED int claude_stream_finish(struct claude_stream *s,
                                     struct claude_reply *reply,
                                     struct claude_failure *out);

/* What has arrived so far: texts only, without white space at the end. */
void claude_stream_partial(struct claude_stream *s, struct claude_reply *reply);

void claude_reply_fini(struct claude_reply *reply);

#endif
