/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes text from outside harmless for a terminal: the only way by which such
 * bytes may get there. The result is valid UTF-8 without controls but LF and
 * TAB (none at all in the contexts of one line), and without characters that
 * reorder, hide or smuggle text. Only program output may have colour, which is
 * made anew from what its sequences mean, and may write a line again.
 *
 * Pure: bytes in any chunking, the same result whatever the chunking. It does
 * not know about margins, line lengths or the program's own marks.
 */
#ifndef TERM_SANITIZE_H
#define TERM_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sbuf.h"

enum sanitize_context {
    SANITIZE_MODEL,   /* streamed text of the model */
    SANITIZE_CODE,    /* source that is shown before it runs, commands, URLs */
    SANITIZE_PROGRAM, /* stdout and stderr of a program */
    SANITIZE_CELL,    /* one value of a table, on one line */
    SANITIZE_ERROR,   /* a message, on one line */
    SANITIZE_NAME     /* a file name, quoted where that is needed */
};

/* Longest name that is shown whole; what is behind it becomes "...". */
#define SANITIZE_MAX_NAME_BYTES 65536

#define SANITIZE_PARAM_BYTES 64

struct sanitize_colour {
    uint8_t kind; /* 0: the terminal's default; else as in sanitize_sgr.c */
    uint8_t index;
    uint8_t rgb[3];
};

struct sanitize_rendition {
    unsigned attributes;
    struct sanitize_colour foreground;
    struct sanitize_colour background;
};

/*
 * Zero is a valid start (context model); members of the first group may be set
 * before the first byte.
 */
struct sanitizer {
    enum sanitize_context context;
    bool no_color;           /* program: leave colours out */
    bool line_restart_as_lf; /* program: no terminal; a restart is an LF */

    /* Written as it is after each restart of a line; borrowed; may be NULL. */
    const char *margin;

    /* Since the start, for the caller to read (program). */
    size_t n_restarts; /* lines that were written anew */
    size_t n_dropped;  /* sequences left out; known colours are none */

    /* Owned by the module. */
    char pending[4]; /* start of a character */
    size_t n_pending;
    uint32_t last; /* code point written last; 0: a mark has no base here */
    unsigned n_marks;
    bool cr; /* a CR whose meaning depends on what follows */
    unsigned state;
    char params[SANITIZE_PARAM_BYTES + 1];
    size_t n_params;
    struct sanitize_rendition wanted;
    struct sanitize_rendition sent;
    bool quote;
    struct sbuf name; /* name only: the text so far */
};

/* Adds the harmless form of data to out. */
void sanitize_feed(struct sanitizer *s, const char *data, size_t len,
                   struct sbuf *out);

/*
 * Ends the text: what was pending is decided, colours are reset, and a name is
 * written. Afterwards s can begin another text; options and counters stay. A
 * sanitizer that is dropped without this needs sanitize_fini.
 */
void sanitize_end(struct sanitizer *s, struct sbuf *out);

void sanitize_fini(struct sanitizer *s);

/* All of it for a text that is there as a whole. */
void sanitize_text(enum sanitize_context context, const char *data, size_t len,
                   struct sbuf *out);

#endif
