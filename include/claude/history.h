/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The conversation as it is sent: append-only, each message one raw JSON text
 * made once, so that what the service signed stays equal value for value. A
 * request body is the fixed head, these bytes, and a tail.
 */
#ifndef CLAUDE_HISTORY_H
#define CLAUDE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct claude_history;
struct error;

/* Borrowed for the call. The size is for messages; that of the file counts. */
struct claude_image {
    const unsigned char *png;
    size_t len;
    int width_px;
    int height_px;
};

struct claude_tool_result {
    const char *tool_use_id;
    const char
        *text; /* valid UTF-8 or repaired; blank: "(no output)" is sent */
    size_t len;
    bool is_error;
    const struct claude_image *images; /* behind the text */
    size_t n_images;
};

struct claude_history *claude_history_new(void);
void claude_history_free(struct claude_history *h);

/* A user message of one text; blank text is refused (ERR_USAGE), and so is one
   while tool calls are unanswered (ERR_INTERNAL). ERR_TOO_LARGE from each of
   these: the conversation is as long as a request may be; nothing is added. */
WARN_UNUSED int claude_history_add_user(struct claude_history *h,
                                        const char *text, size_t len,
                                        struct error *err);

/* An assistant message: content is the raw JSON array. An empty array adds
   nothing. n_tool_calls ids are then waiting for their results. Errors:
   ERR_INTERNAL when the message before is no user's (nor a reply that the model
   paused), or when content has other tool calls than the ids, or a blank text;
   ERR_PROTOCOL when it is no JSON. */
WARN_UNUSED int claude_history_add_assistant(struct claude_history *h,
                                             const char *content,
                                             const char *const *tool_ids,
                                             size_t n_tool_calls,
                                             struct error *err);

/*
 * One user message with one result for each waiting id, in their order; text,
 * when not blank, follows them. An image that the service would not take (over
 * the whole conversation: 100 images and 24 MB; each a PNG of at most 2000
 * pixels a side and 10 MB as base64) is replaced by a line of text that says
 * so, and so is all output that would make the conversation too long. Errors:
 * ERR_INTERNAL when ids do not match.
 */
WARN_UNUSED int claude_history_add_results(
    struct claude_history *h, const struct claude_tool_result *results,
    size_t n_results, const char *text, struct error *err);

bool claude_history_has_open_calls(const struct claude_history *h);
bool claude_history_ends_with_user(const struct claude_history *h);

/*
 * A point and the way back to it, for a question that was never answered: takes
 * back user texts added since then, but stops at a reply and at tool results,
 * which stay (open calls would make the history useless).
 */
size_t claude_history_rewind_point(const struct claude_history *h);
void claude_history_rewind(struct claude_history *h, size_t point);

/* Takes back everything since a point, replies and results too; no call may be
   open. Nothing but the end of a conversation can be taken out. */
void claude_history_drop(struct claude_history *h, size_t point);

/* The messages as JSON objects joined by commas; borrowed until the next
   change. */
const char *claude_history_text(const struct claude_history *h, size_t *len);

#endif
