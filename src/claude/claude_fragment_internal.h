/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The events that a stream consists of by far the most: a piece of a text, of
 * thinking or of a tool's input. They are read without a tree, and a piece of a
 * string is decoded where it comes to. Pure.
 */
#ifndef CLAUDE_FRAGMENT_INTERNAL_H
#define CLAUDE_FRAGMENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbuf;

/* Zero-initialise; one for each string. */
struct claude_decoder {
    unsigned high; /* a high surrogate whose other half may follow; 0: none */
    bool has_nul;  /* an escaped NUL has come */
};

enum claude_fragment_kind {
    CLAUDE_FRAGMENT_TEXT,
    CLAUDE_FRAGMENT_THINKING,
    CLAUDE_FRAGMENT_TOOL,
};

struct claude_fragment {
    enum claude_fragment_kind kind;
    int64_t index;   /* -1: not said */
    const char *raw; /* between the quotes, escapes as they are; borrowed */
    size_t len;
    struct claude_decoder decoder; /* behind it, had it been the first piece */
};

/*
 * Reads a whole event, valid UTF-8, that is nothing but such a piece in its
 * usual form; text is what it means by itself, and its former content is gone.
 * False: it is something else, or nothing that json_parse would take; only a
 * tree can tell.
 */
bool claude_fragment_read(const char *event, size_t len,
                          struct claude_fragment *out, struct sbuf *text);

/*
 * Adds what the next piece of a JSON string means: raw has only escapes that
 * json_parse takes, and ends outside of one. An escaped NUL and surrogates
 * without their other half become U+FFFD.
 */
void claude_decoder_add(struct claude_decoder *d, const char *raw, size_t len,
                        struct sbuf *out);

/* The string has ended. */
void claude_decoder_end(struct claude_decoder *d, struct sbuf *out);

#endif
