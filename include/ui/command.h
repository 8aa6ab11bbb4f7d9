/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Commands: lines that begin with ":". Each is one descriptor; help, completion
 * and the check of the manual are made from the table of them.
 */
#ifndef UI_COMMAND_H
#define UI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct app;
struct error;
struct sbuf;

enum command_result {
    CMD_OK,
    CMD_ERROR, /* err is filled */
    CMD_WAIT,  /* finishes later, through command_done */
    CMD_QUIT
};

enum command_completion {
    COMPLETE_NOTHING,
    COMPLETE_PATH,
    COMPLETE_CELL,
    COMPLETE_SNAPSHOT
};

struct command {
    const char *name;      /* without the colon */
    const char *arguments; /* "FILE [as NAME]"; "" for none */
    const char *help;      /* one line */
    size_t min_words;
    size_t max_words;
    enum command_completion completion;

    /* words are borrowed for the call; n_words is within the bounds. */
    enum command_result (*run)(struct app *app, char *const *words,
                               size_t n_words, struct error *err);

    /* Ends what a CMD_WAIT began, early; command_done follows. May be NULL. */
    void (*cancel)(struct app *app);
};

/* NULL behind the last. */
const struct command *command_at(size_t i);

/* The command of that name (without the colon), or NULL. */
const struct command *command_find(const char *name);

/*
 * Splits text into words: white space separates; quotes ('...' as it stands,
 * "..." with \\n \\t \\" \\\\ and three octal digits) and a backslash before a
 * character keep it in a word; a leading ~ that is not quoted is the home
 * directory. words is owned by the caller, as are its elements.
 * Errors: ERR_USAGE (an open quote, a NUL).
 */
WARN_UNUSED int command_split(const char *text, char ***words, size_t *n_words,
                              struct error *err);
void command_free_words(char **words, size_t n_words);

/* Adds a word so that command_split reads it back. */
void command_add_quoted(struct sbuf *sb, const char *word);

/* Whether command_add_quoted adds it as it stands; and the same in quotes. */
bool command_is_bare(const char *word);
void command_add_in_quotes(struct sbuf *sb, const char *word);

/* A CMD_WAIT command has ended. err may be NULL. */
void command_done(struct app *app, const struct error *err);

#endif
