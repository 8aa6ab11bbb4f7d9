/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The input line: GNU readline behind the program's own keyboard reader. It
 * never blocks, never reads the terminal itself, and writes only into the
 * output queue.
 */
#ifndef UI_LINEEDIT_H
#define UI_LINEEDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct error;
struct input_unit;
struct lineedit;
struct loop;
struct out;
struct tty;

/* Candidates for the word that ends at the cursor. */
struct lineedit_candidates {
    char **words; /* owned by the receiver: whole replacements of the word */
    size_t n_words;
    size_t start; /* byte offset in the line where the word begins */
    bool is_path; /* a single match that ends in "/" gets no space after it */
};

struct lineedit_handlers {
    /* A line was accepted; valid UTF-8; may hold LF (pastes). */
    void (*on_line)(void *ctx, const char *line);
    void (*on_eof)(void *ctx); /* Ctrl-D on an empty line */
    void (*on_interrupt)(void *ctx, bool was_empty); /* Ctrl-C at the prompt */

    /* Ctrl-C while no prompt is shown. */
    void (*on_cancel)(void *ctx);

    /* Asked at TAB; fills out at once. */
    void (*complete)(void *ctx, const char *line, size_t cursor,
                     struct lineedit_candidates *out);
};

/* tty and out are borrowed; one line editor at a time (readline is global). */
WARN_UNUSED struct lineedit *lineedit_new(struct loop *loop, struct tty *tty,
                                          struct out *out,
                                          const struct lineedit_handlers *on,
                                          void *ctx, struct error *err);
void lineedit_free(struct lineedit *le);

/* Shows the prompt (printable ASCII); typed-ahead text appears in it. */
void lineedit_prompt(struct lineedit *le, const char *prompt);

/* Takes the prompt away without an answer. */
void lineedit_hide(struct lineedit *le);
bool lineedit_is_shown(const struct lineedit *le);

/* From term/tty. */
void lineedit_unit(struct lineedit *le, const struct input_unit *unit);
void lineedit_resize(struct lineedit *le, int columns, int rows);

/* For printing above the prompt (out_set_prompt_hooks). */
void lineedit_before_output(void *le);
void lineedit_after_output(void *le);

#endif
