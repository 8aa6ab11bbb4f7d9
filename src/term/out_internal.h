/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The two ends of term/out. out_shape is what happens to sanitised text before
 * it is queued: margins, styles line by line, the program's own marks, lines
 * that are too long; it is pure. out_queue is what leads to the descriptors.
 */
#ifndef TERM_OUT_INTERNAL_H
#define TERM_OUT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "term/out.h"
#include "term/style.h"

struct loop;
struct loop_fd;
struct sbuf;
struct segment;

#define OUT_MAX_STYLE_BYTES 32
#define OUT_MAX_MARGIN_BYTES 128

/* Pieces in which text is sanitised, and the most that one can become: each
   byte 32, or a whole name. */
#define OUT_SLICE_BYTES (16u << 10)
#define OUT_MAX_SLICE_BYTES (1u << 20)

/* The style as a sequence that begins from plain. */
void out_add_style(struct sbuf *sb, enum style style);

/* Bytes of the sequence that s, which starts with ESC, begins with. */
size_t out_seq_len(const char *s, size_t len);

struct out_look {
    bool colour;
    bool unicode;
    size_t wrap_columns;       /* 0: lines are not broken here */
    bool whole_lines;          /* lines are never cut */
    const struct sbuf *margin; /* borrowed; before each line, with styles */
};

/*
 * Adds text of the sanitiser's in its final form. Each call holds whole
 * characters and sequences.
 */
void out_shape(struct out_stream *s, const struct out_look *look,
               const char *data, size_t len, struct sbuf *to);

enum out_way {
    OUT_AT_ONCE,    /* a file, or there is no loop that could go on */
    OUT_POLLED,     /* in pieces that are taken without waiting */
    OUT_NONBLOCKING /* the terminal */
};

/* Embedded; the first group is set by the owner, all else begins as zero. */
struct out_queue {
    struct loop *loop; /* borrowed; NULL: all is written at once */
    int main_fd;
    int side_fd;
    void (*low_due)(void *ctx); /* low again, or empty; may be repeated */
    void *ctx;

    enum out_way ways[OUT_SIDE + 1];
    bool joined; /* both channels have the same reader */

    size_t n_queued; /* bytes */
    size_t n_holds;
    bool gone[OUT_SIDE + 1]; /* writing failed: the rest is dropped */
    int gone_errno[OUT_SIDE + 1];

    struct segment *first; /* owned */
    struct segment *last;  /* borrowed: from the list */
    unsigned last_place;
    bool full[OUT_SIDE + 1];               /* something waits for the reader */
    struct loop_fd *writers[OUT_SIDE + 1]; /* NULL: nothing waits */
    bool was_high;
    int64_t wrote_us;        /* last, to a terminal or pipe; 0: never */
    struct loop_timer *join; /* what is queued waits for more */
};

void out_queue_init(struct out_queue *q, bool terminal, bool joined);

void out_queue_add(struct out_queue *q, enum out_channel ch, const char *data,
                   size_t len);
unsigned out_queue_hold(struct out_queue *q);

/* data is copied. */
void out_queue_fill(struct out_queue *q, unsigned place,
                    const struct sbuf *data, bool picture);

/* Looks whether the reader of a pipe is gone to which nothing is written. */
void out_queue_look(struct out_queue *q, enum out_channel ch);

/* Something is there that only the reader holds up. */
bool out_queue_is_waiting(const struct out_queue *q);

/* True once when the queue was high and is low again. */
bool out_queue_take_low(struct out_queue *q);

void out_queue_flush(struct out_queue *q, int limit_ms);

/* Places are filled with nothing, and what is queued is written. */
void out_queue_fini(struct out_queue *q, int limit_ms);

#endif
