/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The conversation from inside: what the client itself may do with it, and what
 * history.c (messages), history_image.c (charts in results) and history_strip.c
 * (without thinking) share.
 */
#ifndef CLAUDE_HISTORY_INTERNAL_H
#define CLAUDE_HISTORY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sbuf.h"
#include "claude/history.h"

/* A request may have 32 MB. What answers tool calls may go beyond the first
   limit, since a history with open calls would be of no more use; images, of
   which there may be many, must leave room for both. */
#define HISTORY_MAX_BYTES ((size_t)30000000)
#define HISTORY_MAX_RESULT_BYTES ((size_t)31500000)
#define HISTORY_MAX_IMAGES_BYTES ((size_t)24000000)

enum history_message_kind { HISTORY_USER, HISTORY_ASSISTANT, HISTORY_RESULTS };

struct history_message {
    enum history_message_kind kind;
    size_t start; /* offset in text, of its comma if it has one */
    size_t n_blocks;
    bool has_thinking;
    bool is_paused; /* a reply that is to be continued */
};

struct claude_history {
    struct sbuf text;
    struct history_message *messages; /* owned */
    size_t n_messages;
    char **call_ids; /* owned, each too; of all tool calls */
    size_t n_calls;
    size_t n_open; /* of them, at the end: not answered yet */
    size_t n_images;
    size_t n_cached; /* messages that the service has read */
    bool will_pause; /* the next reply is to be continued */
};

/*
 * Tells that the reply that comes next is paused: it may follow another reply,
 * and the conversation may be sent with it at its end.
 */
void claude_history_set_paused(struct claude_history *h, bool paused);

/* Whether a request may end here: with the user, or with a paused reply. */
bool claude_history_may_be_sent(const struct claude_history *h);

/* Tells that the service has read, and may find again, all that is there. */
void claude_history_set_cached(struct claude_history *h);

/*
 * The place for a cache breakpoint, from which the service looks back for what
 * it has read: true when so much was added since that it would not look back
 * far enough from the end. *at is the offset in the text, before the closing
 * brace of a block that may carry one.
 */
bool claude_history_find_breakpoint(const struct claude_history *h, size_t *at);

/* How many tool calls there are, and whether one of them has this id. */
size_t claude_history_n_calls(const struct claude_history *h);
bool claude_history_has_call(const struct claude_history *h, const char *id);

bool claude_history_has_thinking(const struct claude_history *h);

/* A copy without any thinking; the caller owns it. */
struct claude_history *claude_history_strip(const struct claude_history *h);

/* Puts the contents of other, which is freed, in the place of those of h. */
void claude_history_replace(struct claude_history *h,
                            struct claude_history *other);

/* The bytes that an image of len bytes takes in a request. */
size_t history_image_bytes(size_t len);

/*
 * Adds an image to the content of a result, with a comma before it, or a line
 * of text that says why it cannot be. *n_images counts those of the whole
 * conversation, n_bytes what it has before sb.
 */
void history_add_image(struct sbuf *sb, const struct claude_image *image,
                       size_t n_bytes, size_t *n_images);

/* Remembers the ids of tool calls, which are copied. */
void history_add_call_ids(struct claude_history *h, const char *const *ids,
                          size_t n);

/* Adds a text block. */
void history_add_text(struct sbuf *sb, const char *text, size_t len);

#endif
