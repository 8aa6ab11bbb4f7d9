/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The Python program between the interpreter of cells and this one in a
 * sandbox (src/sandbox/e2b_relay.py), as bytes by build-aux/embed.sh, and the
 * frames that it sends, in any pieces and from any point on. The frames are
 * pure: no input or output.
 */
#ifndef SANDBOX_E2B_RELAY_INTERNAL_H
#define SANDBOX_E2B_RELAY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/sbuf.h"

struct error;

extern const unsigned char e2b_relay_py[];
extern const size_t e2b_relay_py_len;

#define E2B_RELAY_WORD_BYTES ((size_t)32)
#define E2B_RELAY_MAX_FRAME_BYTES ((size_t)1 << 20)

enum e2b_relay_kind {
    E2B_RELAY_OUT = 'o',
    E2B_RELAY_ERRORS = 'e',
    E2B_RELAY_EVENTS = 'v',
    E2B_RELAY_STATUS = 's' /* what the relay itself says, as JSON */
};

/* Bytes of one frame, borrowed for the call; each once and in order. It must
   not release the reader. */
typedef void (*e2b_relay_fn)(void *ctx, enum e2b_relay_kind kind,
                             const char *data, size_t len);

struct e2b_relay {
    struct sbuf part; /* the beginning of a word, or of a frame */
    char word[E2B_RELAY_WORD_BYTES];
    bool is_synced;   /* the word has come: frames follow */
    uint64_t last;    /* number of the last frame that was whole */
    uint64_t n_bytes; /* of all frames that were new */
};

void e2b_relay_init(struct e2b_relay *r);
void e2b_relay_fini(struct e2b_relay *r);

/* What comes is skipped up to word, which was asked for; frames go on behind
   the last that came. */
void e2b_relay_await(struct e2b_relay *r,
                     const char word[E2B_RELAY_WORD_BYTES]);

/* Errors: ERR_PROTOCOL when a frame is none, or is missing; it is not fed
   again then. */
WARN_UNUSED int e2b_relay_feed(struct e2b_relay *r, const char *data,
                               size_t len, e2b_relay_fn fn, void *ctx,
                               struct error *err);

#endif
