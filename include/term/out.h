/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Everything the program writes to a person goes through here. On a terminal
 * there is one channel, /dev/tty opened anew and non-blocking, with a bounded
 * queue that the loop drains; elsewhere two, stdout and stderr, written at once
 * as far as the reader takes it, and no escape byte ever. Untrusted bytes are
 * sanitised here and nowhere else; sequences come from term/seq only.
 */
#ifndef TERM_OUT_H
#define TERM_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "term/sanitize.h"
#include "term/seq.h"
#include "term/style.h"

struct error;
struct loop;
struct out;

enum out_channel {
    OUT_MAIN, /* the terminal, or stdout */
    OUT_SIDE  /* the terminal, or stderr */
};

struct out_config {
    /* Borrowed; needed when terminal. Elsewhere, without one, writing waits for
       the reader and nothing else goes on meanwhile. */
    struct loop *loop;
    int main_fd;    /* borrowed */
    int side_fd;    /* borrowed; ignored when terminal */
    bool terminal;  /* main_fd is a non-blocking descriptor of a terminal */
    bool sequences; /* false for TERM=dumb: no sequence at all, not even
                       colour */
    bool colour;    /* false with NO_COLOR */
    bool unicode;   /* the locale is UTF-8; else ASCII marks are used */
};

struct out *out_new(const struct out_config *config);

/* Writes what is queued, waiting for a terminal at most a second and for any
   other reader a moment; frees. Whoever wants to wait for a slow reader
   does so in the loop: out_on_written. */
void out_free(struct out *out);

bool out_is_terminal(const struct out *out);

/* Both channels end in the same place: a terminal, or one file or pipe. */
bool out_is_joined(const struct out *out);

bool out_has_sequences(const struct out *out);
bool out_has_colour(const struct out *out);
bool out_has_unicode(const struct out *out);

/* Columns and rows of the terminal; 80 x 24 elsewhere. Set by whoever watches
   the size; columns are never below 20 here. */
void out_set_size(struct out *out, int columns, int rows);
int out_columns(const struct out *out);
int out_rows(const struct out *out);

/*
 * The program's own words: printable UTF-8 and LF. Anything else in them is a
 * mistake and is made harmless by the sanitiser (context model).
 */
void out_say(struct out *out, enum out_channel ch, const char *text);
void out_sayf(struct out *out, enum out_channel ch, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A line of the program's own, styled, LF added. */
void out_line(struct out *out, enum out_channel ch, enum style style,
              const char *text);

/* Switches the style for what follows; nothing without colour. */
void out_style(struct out *out, enum out_channel ch, enum style style);

/* One sequence; nothing where there are none. */
void out_seq(struct out *out, enum seq id);

/*
 * Untrusted text that comes in pieces. Zero-initialise, then set context,
 * channel and what is wanted, then out_text and, at the end, out_text_end.
 */
struct out_stream {
    enum sanitize_context context;
    enum out_channel channel;
    enum style style;
    const char *margin; /* before every line, dim; NULL: none. Borrowed */

    /* A line that begins with one of the program's own marks is moved one
       column to the right. */
    bool shift_marks;

    /* On a terminal, lines are broken at words before the terminal would break
       them anywhere: what follows begins with the margin again, and marks at
       its beginning are shifted too. */
    bool wrap;

    /* Longest line in columns, then "...[+N bytes]"; 0: 10,000, and no limit
       for the model's text on the main channel off a terminal. */
    size_t max_columns;

    /* Owned by term/out. */
    struct sanitizer san;
    bool begun;
    bool in_line;
    bool deciding;
    char held[16];
    size_t n_held;
    size_t column;
    size_t line_columns; /* of the whole line, over its breaks */
    size_t n_cut_bytes;
    bool in_word;
    size_t n_blanks; /* not written yet: they may turn out to be a break */
    char sgr[96];    /* the sequence that colours what comes; "": none */
};

void out_text(struct out *out, struct out_stream *s, const char *data,
              size_t len);

/* Ends the stream: what is pending is written, colours are reset, and the line
   is ended with LF when one was begun. Sequences and restarts are counted in
   s->san. The stream can be used anew. */
void out_text_end(struct out *out, struct out_stream *s);

/* One untrusted text on one line (contexts cell, error and name); no LF. */
void out_inline(struct out *out, enum out_channel ch,
                enum sanitize_context context, const char *text, size_t len);

/*
 * Already laid-out text of term or render modules, whose untrusted parts were
 * sanitised when it was made (table rows).
 */
void out_ready(struct out *out, enum out_channel ch, const char *data,
               size_t len);

/*
 * Keeps a place for something that comes later: output that follows waits
 * behind it in the queue. Returns a number, never 0. Every place must be filled
 * once; out_free fills what is left with nothing.
 */
unsigned out_hold(struct out *out);

/* Fills the place with a picture that render/sixel_check has accepted, and CR
   LF behind it. If the terminal fails half-way, the sequence is ended. */
void out_fill_picture(struct out *out, unsigned place, const char *data,
                      size_t len);

/* Fills the place with a line of the program's own; NULL: with nothing. */
void out_fill_line(struct out *out, unsigned place, enum style style,
                   const char *text);

/* The live line: at most one, at the bottom, replaced by the next, erased
   before other output and written again after it; nothing on non-terminals.
   text is the program's own. NULL removes it. */
void out_status(struct out *out, const char *text);

/*
 * Bytes waiting in the queue. Above OUT_QUEUE_HIGH producers should pause;
 * on_low is called when it has fallen below OUT_QUEUE_LOW again.
 */
#define OUT_QUEUE_HIGH (256u << 10)
#define OUT_QUEUE_LOW (64u << 10)
size_t out_queued(const struct out *out);
void out_on_low(struct out *out, void (*fn)(void *ctx), void *ctx);

/* Calls fn once, from the loop, when nothing waits for the reader any more:
   all is written, behind a place that is not filled, or dropped. */
void out_on_written(struct out *out, void (*fn)(void *ctx), void *ctx);

/* True when writing has failed: everything is dropped since. The reader is gone
   (EPIPE, EIO), or there is no room (ENOSPC). */
bool out_is_gone(const struct out *out);

/* The same, and looks whether the reader of a pipe is gone to which nothing was
   written since. */
bool out_look_gone(struct out *out);

/* Why, as errno; 0: nothing has failed. */
int out_gone_errno(const struct out *out);

/* Hooks around output while a prompt is shown: before (clears the visible
   line) and after (draws it again). NULL: none. Calls that follow each other
   in one round of the loop share one pair. */
void out_set_prompt_hooks(struct out *out, void (*before)(void *ctx),
                          void (*after)(void *ctx), void *ctx);

/* For the line editor only: its own bytes, unsanitised. */
void out_editor(struct out *out, const char *data, size_t len);

/* Writes all that is queued, waiting at most limit_ms. */
void out_flush(struct out *out, int limit_ms);

#endif
