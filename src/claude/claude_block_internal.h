/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What claude_stream.c (events) and claude_reply.c (what they add up to) share.
 */
#ifndef CLAUDE_BLOCK_INTERNAL_H
#define CLAUDE_BLOCK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sbuf.h"
#include "claude/claude.h"
#include "claude/claude_fragment_internal.h"
#include "claude/claude_stream_internal.h"
#include "net/sse.h"

/* Most bytes that are kept of a reply; what frames them does not count. */
#define CLAUDE_STREAM_MAX_BYTES ((size_t)64 << 20)

enum claude_block_kind {
    CLAUDE_BLOCK_TEXT,
    CLAUDE_BLOCK_THINKING,
    CLAUDE_BLOCK_TOOL,
    CLAUDE_BLOCK_OTHER
};

struct claude_block {
    enum claude_block_kind kind;
    bool is_call;    /* a tool call that we must answer */
    bool is_thought; /* must not be the last block of a message */
    int64_t index;
    char *start; /* owned; raw JSON object as it was sent */
    size_t start_len;
    char *id;        /* owned; of a call */
    bool has_own_id; /* made up: the server sent none, or one that was used */
    char *name;      /* owned; of a call */

    /* Of a text and of thinking: the fragments as they were escaped, joined.
       What is sent back has the values that came, also where a decoded string
       could not hold them. Of a tool: decoded, which is JSON again. */
    struct sbuf raw;
    struct sbuf input;
    struct claude_decoder decoder;
    bool has_text;   /* not empty */
    bool has_words;  /* not blank */
    char *signature; /* owned; raw JSON string; NULL: that of start */
    struct sbuf citations;
    bool stopped;
};

struct claude_stream {
    struct claude_stream_handlers on;
    void *ctx;
    const struct claude_history *history; /* borrowed; NULL: none */
    bool compatible;
    struct sse sse;
    struct claude_block *blocks; /* owned */
    size_t n_blocks;
    size_t n_kept_bytes;
    struct sbuf piece; /* what is shown next */
    uint64_t n_events;
    bool started;
    bool complete;
    char *stop_reason; /* owned */
    char *explanation; /* owned */
    char *model;       /* owned */
    char *request_id;  /* owned */
    struct usage usage;
    struct claude_failure *out; /* borrowed during feed */
};

/* Why the reply ended, as far as the blocks agree with it. */
enum claude_stop claude_reply_decide_stop(const struct claude_stream *s);

/* Whether a tool call has the id of another one, of this reply or of an earlier
   one, so that it cannot be answered. */
bool claude_reply_has_double_id(const struct claude_stream *s);

/* A whole reply, and one that was cut short. */
void claude_reply_fill(const struct claude_stream *s, enum claude_stop stop,
                       struct claude_reply *reply);
void claude_reply_fill_partial(const struct claude_stream *s,
                               struct claude_reply *reply);

#endif
