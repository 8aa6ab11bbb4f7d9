/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests and refusals of the Messages API as text. Pure.
 */
#ifndef CLAUDE_CODEC_INTERNAL_H
#define CLAUDE_CODEC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "claude/claude.h"

struct sbuf;

/* Deeper than what the service sends, and harmless to a recursive parser. */
#define CLAUDE_JSON_DEPTH 256

#define CLAUDE_MAX_BODY_BYTES ((size_t)32000000)

enum claude_thinking {
    CLAUDE_THINKING_ADAPTIVE,
    CLAUDE_THINKING_NONE /* neither thinking nor effort is sent */
};

/* Models that are not known think adaptively, as all new ones do. */
enum claude_thinking claude_codec_thinking(const char *model);

/* What stands behind the messages. */
#define CLAUDE_TAIL "]}"

/*
 * Adds the part of a request that is the same in a whole session; compatible:
 * without what servers of other vendors do not know. Errors: ERR_USAGE, naming
 * the setting.
 */
WARN_UNUSED int claude_codec_head(struct sbuf *sb,
                                  const struct claude_config *config,
                                  bool compatible, struct error *err);

/* Adds what stands between that and the messages. */
void claude_codec_begin(struct sbuf *sb, int64_t max_tokens);

/* A cache breakpoint, which makes the service keep what it has read up to a
   block: goes into that block, at its end. */
extern const char claude_codec_breakpoint[];

/* Why there is no reply, and whether asking again may help. */
struct claude_failure {
    struct error err;
    bool retry;
    bool is_final;   /* also when the service says that asking again helps */
    bool is_told;    /* whoever answered gave a reason */
    bool is_invalid; /* the request itself is not accepted, for no reason that
                        is known to be another than its form */
};

/*
 * What an answer that is no reply means: status with body (of any kind), or an
 * error event of a stream (status 0). request_id may be NULL.
 */
void claude_codec_failure(int status, const char *body, size_t len,
                          const char *request_id, struct claude_failure *out);

enum claude_stop claude_codec_stop(const char *stop_reason);

#endif
