/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of the line editor: pure ones that know nothing of readline but how
 * it counts (where the line stands on the screen, what was typed ahead, the
 * candidates of a completion), and the keys of our own.
 */
#ifndef UI_LINEEDIT_INTERNAL_H
#define UI_LINEEDIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sbuf.h"
#include "term/input.h"
#include "ui/lineedit.h"

struct out;

/* ---- lineedit_layout ---- */

struct lineedit_place {
    int row;    /* from 0: the first row of the prompt */
    int column; /* from 0 */
};

/*
 * Moves the place by text. Counts as readline draws: by wcwidth, a TAB to the
 * next multiple of 8, other controls in two columns; a wide character that does
 * not fit moves on, and a full row ends at once. What stands between \001 and
 * \002 takes no place. Stops behind max_rows.
 */
void lineedit_advance(struct lineedit_place *at, const char *text, size_t len,
                      int columns, int max_rows);

/* Of the row of a text that the byte at stands in: its start, and the column of
   the byte. Rows are what stands between line feeds. */
int lineedit_row_start(const char *text, int at);
int lineedit_row_column(const char *text, int at);

/* The last place of the row that begins at start, in a text of len bytes, that
   is not behind the column. */
int lineedit_row_find(const char *text, int start, int len, int column);

/* ---- lineedit_ahead: units that wait for a prompt ---- */

struct lineedit_typed {
    struct lineedit_typed *next; /* owned */
    enum input_kind kind;
    struct sbuf data;
};

/* Zero is the empty state. */
struct lineedit_ahead {
    struct lineedit_typed *first; /* owned */
    struct lineedit_typed *last;  /* borrowed: from the list */
    size_t n_bytes;
};

/* Printable characters, one or more. */
bool lineedit_is_printable(const struct input_unit *unit);

/* Copies; joins neighbouring printable characters, so that thousands are drawn
   once. What is too much is left out, and logged. */
void lineedit_ahead_add(struct lineedit_ahead *ahead,
                        const struct input_unit *unit);

/* The oldest one, of which there must be one; the caller owns it. */
struct lineedit_typed *lineedit_ahead_take(struct lineedit_ahead *ahead);
void lineedit_typed_free(struct lineedit_typed *unit);
void lineedit_ahead_fini(struct lineedit_ahead *ahead);

/* ---- lineedit_words: candidates ---- */

void lineedit_words_fini(struct lineedit_candidates *found);

/* Takes out the words that the line would show raw: broken UTF-8, C1 controls,
   changes of direction. */
void lineedit_words_filter(struct lineedit_candidates *found);

/* The word as it must be when the text that it replaces begins at start
   instead; the caller owns it. NULL: impossible. */
char *lineedit_words_fit(const struct lineedit_candidates *found,
                         const char *word, const char *line, size_t start);

/* Bytes that all words (at least one) begin with, in whole characters. */
size_t lineedit_words_prefix(char *const *words, size_t n_words);

/* Ends in "/", which may stand in quotes. */
bool lineedit_words_is_directory(const char *word);

/*
 * Lines, each ended by LF, with the words in columns from top to bottom; at
 * most max_lines, the last one telling how many words are missing. The
 * directory that all are in is left out. The words come from outside and are
 * made harmless.
 */
void lineedit_add_list(struct sbuf *sb, char *const *words, size_t n_words,
                       int columns, int max_lines, bool unicode);

/* ---- lineedit_keys: completion, keys of our own, and what the user has set;
   these know readline ---- */

struct lineedit_keys {
    struct out *out;                    /* borrowed */
    const struct lineedit_handlers *on; /* borrowed */
    void *ctx;
    int columns;
    int goal_column; /* of Up and Down */
    struct lineedit_candidates found;
};

/* Sets readline's hooks, before it is initialised; one at a time. */
void lineedit_keys_start(struct lineedit_keys *k);

/* Binds the keys, after it has been initialised. */
void lineedit_keys_bind(void);

/* Overrides what the user may have set and this editor cannot do. */
void lineedit_keys_set_variables(void);

/* Whether a variable of readline's is. */
bool lineedit_keys_is_on(const char *variable);

/* What readline puts before the prompt when the user wants to see the mode;
   borrowed until the next call. */
const char *lineedit_keys_mode(void);

/* Whether the sequence is bound to that command. */
bool lineedit_keys_is_command(const char *data, size_t len,
                              int (*command)(int, int));

/* Of a sequence that is not bound readline would take the beginning and insert
   the rest. The beginning of a longer one is good for a key, which may be
   followed by another. */
bool lineedit_keys_is_bound(enum input_kind kind, const char *data, size_t len);
void lineedit_keys_fini(struct lineedit_keys *k);

#endif
