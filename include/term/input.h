/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The keyboard filter: bytes and the time of their reading in, whole units out.
 * It takes terminal replies and bracketed pastes out of the stream, so that the
 * line editor only ever sees complete keys. Pure: no input or output; the
 * caller keeps time.
 */
#ifndef TERM_INPUT_H
#define TERM_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input;

enum input_kind {
    INPUT_KEYS,     /* one or more printable characters, or one key */
    INPUT_SEQUENCE, /* a key sequence: CSI or SS3 */
    INPUT_ENTER,
    INPUT_PASTE,     /* text; LF and TAB are the only controls */
    INPUT_INTERRUPT, /* Ctrl-C */
    INPUT_STOP,      /* Ctrl-Z */
    INPUT_REPLY      /* of the terminal; for term/caps */
};

struct input_unit {
    enum input_kind kind;
    const char *data; /* borrowed for the call; NUL-terminated */
    size_t len;
    bool stalled; /* paste: its end has not come */
    size_t n_cut; /* paste: bytes left out, over INPUT_MAX_PASTE_BYTES */
};

#define INPUT_MAX_PASTE_BYTES (16u << 20)

typedef void (*input_fn)(void *ctx, const struct input_unit *unit);

/* What the filter needs to know of the editor, asked before each byte. */
struct input_mode {
    bool escape_acts; /* a lone ESC does something now (vi mode, a search) */
    bool quoted;      /* the next key is taken as it is */
    bool no_brackets; /* the terminal has no bracketed paste */
};

/* The filter must not be freed by fn. */
struct input *input_new(input_fn fn, void *ctx);
void input_free(struct input *in);

/* The pointer is borrowed for the life and read before each byte. */
void input_set_mode(struct input *in, const struct input_mode *mode);

/* Replies are expected from now until the answer to the last query, or 5 s. */
void input_expect_replies(struct input *in, int64_t now_ms);

void input_feed(struct input *in, const char *bytes, size_t len,
                int64_t now_ms);

/* When input_tick must be called at the latest; -1: nothing is pending. */
int64_t input_deadline_ms(const struct input *in);
void input_tick(struct input *in, int64_t now_ms);

#endif
