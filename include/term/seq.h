/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every escape sequence that the program writes. Nothing else contains one, so
 * that what can reach the terminal is known from one table; line editing
 * writes a few of its own. Whether sequences are wanted is the caller's
 * question.
 */
#ifndef TERM_SEQ_H
#define TERM_SEQ_H

struct sbuf;

enum seq {
    SEQ_SGR_RESET,
    SEQ_BOLD,
    SEQ_DIM,
    SEQ_ITALIC,
    SEQ_UNDERLINE,
    SEQ_INVERSE,
    SEQ_RED,
    SEQ_YELLOW,

    SEQ_LINE_RESTART, /* to column 1, and erase the line */
    SEQ_ERASE_BELOW,  /* from the cursor to the end of the screen */
    SEQ_CURSOR_HIDE,
    SEQ_CURSOR_SHOW,
    SEQ_PASTE_ON, /* bracketed paste */
    SEQ_PASTE_OFF,

    /* Questions, each with one answer or none. */
    SEQ_QUERY_KITTY,     /* can you show kitty graphics? */
    SEQ_QUERY_VERSION,   /* XTVERSION */
    SEQ_QUERY_REGISTERS, /* colour registers, XTSMGRAPHICS */
    SEQ_QUERY_MAX_SIZE,  /* largest sixel picture, XTSMGRAPHICS */
    SEQ_QUERY_CELL_SIZE, /* pixels of a cell */
    SEQ_QUERY_TEXT_SIZE, /* pixels of the text area */
    SEQ_QUERY_DA1,       /* device attributes; everybody answers */

    SEQ_ST /* ends a string, such as a picture that was cut off */
};

/* The sequence as text; constant. */
const char *seq_text(enum seq id);

void seq_add(struct sbuf *sb, enum seq id);

/*
 * Sets graphic rendition. params holds digits and ';' only, which is asserted:
 * no text from outside may be handed in.
 */
void seq_add_sgr(struct sbuf *sb, const char *params);

/* Moves to a column of the same row, from 1. */
void seq_add_cha(struct sbuf *sb, int column);

/* Moves up by rows; nothing when rows is below 1. */
void seq_add_up(struct sbuf *sb, int rows);

#endif
