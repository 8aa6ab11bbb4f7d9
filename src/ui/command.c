/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/command.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "ui/commands_internal.h"

#define MAX_WORD_BYTES (64u << 10)

/* What separates words, whatever the locale says. */
#define BLANKS " \t\r\n\v\f"

static const struct command *const COMMANDS[] = {
    &cmd_load,   &cmd_files,   &cmd_code,     &cmd_full,    &cmd_save,
    &cmd_trace,  &cmd_vars,    &cmd_snapshot, &cmd_restore, &cmd_restart,
    &cmd_replay, &cmd_sandbox, &cmd_thinking, &cmd_cost,    &cmd_budget,
    &cmd_retry,  &cmd_doctor,  &cmd_help,     &cmd_quit,
};

const struct command *
command_at(size_t i)
{
    return i < sizeof(COMMANDS) / sizeof(COMMANDS[0]) ? COMMANDS[i] : NULL;
}

const struct command *
command_find(const char *name)
{
    for (size_t i = 0; command_at(i) != NULL; i++) {
        if (str_eq(command_at(i)->name, name))
            return command_at(i);
    }
    return NULL;
}

/* Reads an escape behind a backslash inside double quotes; p is at the
   character behind it. Returns where reading goes on; NULL: a NUL. */
static const char *
read_escape(const char *p, struct sbuf *word)
{
    static const char FROM[] = "abtnvfr";
    static const char TO[] = "\a\b\t\n\v\f\r";
    const char *at = NULL;

    if (p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' &&
        p[2] >= '0' && p[2] <= '7') {
        int c = (p[0] - '0') * 64 + (p[1] - '0') * 8 + (p[2] - '0');

        if (c == 0)
            return NULL;
        sbuf_add_char(word, (char)c);
        return p + 3;
    }
    at = strchr(FROM, p[0]);
    sbuf_add_char(word, at != NULL ? TO[at - FROM] : p[0]);
    return p + 1;
}

/* Reads what is quoted by quote, from behind it to behind the closing one. */
static const char *
read_quoted(const char *p, char quote, struct sbuf *word, struct error *err)
{
    while (*p != '\0' && *p != quote) {
        if (quote == '"' && *p == '\\' && p[1] != '\0') {
            p = read_escape(p + 1, word);
            if (p == NULL) {
                error_fill(err, ERR_USAGE, "a name cannot hold a NUL");
                return NULL;
            }
            continue;
        }
        sbuf_add_char(word, *p++);
    }
    if (*p == '\0') {
        error_fill(err, ERR_USAGE, "the quote %c is not closed", quote);
        return NULL;
    }
    return p + 1;
}

/* Reads one word; p is at its first character. */
static const char *
read_word(const char *p, struct sbuf *word, struct error *err)
{
    bool tilde = *p == '~';

    while (*p != '\0' && strchr(BLANKS, *p) == NULL) {
        if (*p == '"' || *p == '\'') {
            p = read_quoted(p + 1, *p, word, err);
            if (p == NULL)
                return NULL;
        } else if (*p == '\\' && p[1] != '\0') {
            sbuf_add_char(word, p[1]);
            p += 2;
        } else {
            sbuf_add_char(word, *p++);
        }
    }
    if (!sbuf_ok(word)) {
        error_fill(err, ERR_USAGE, "a word has more than %u bytes",
                   MAX_WORD_BYTES);
        return NULL;
    }
    if (tilde) {
        AUTO_FREE char *expanded = paths_expand(word->data);

        sbuf_clear(word);
        sbuf_add_str(word, expanded);
    }
    return p;
}

int
command_split(const char *text, char ***words, size_t *n_words,
              struct error *err)
{
    AUTO_SBUF struct sbuf word = {0};
    const char *p = text;

    sbuf_init(&word, MAX_WORD_BYTES);
    *words = NULL;
    *n_words = 0;
    for (;;) {
        p += strspn(p, BLANKS);
        if (*p == '\0')
            return 0;
        sbuf_clear(&word);
        p = read_word(p, &word, err);
        if (p == NULL)
            return -1;
        *words = xreallocarray(*words, *n_words + 1, sizeof(**words));
        (*words)[(*n_words)++] = xstrdup(word.data);
    }
}

void
command_free_words(char **words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        free(words[i]);
    free(words);
}

/* Characters that a word may hold without quotes. */
bool
command_is_bare(const char *word)
{
    if (word[0] == '\0' || word[0] == '~')
        return false;
    for (const char *p = word; *p != '\0'; p++) {
        if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p) ||
            strchr("\"'\\", *p) != NULL)
            return false;
    }
    return true;
}

void
command_add_quoted(struct sbuf *sb, const char *word)
{
    if (command_is_bare(word))
        sbuf_add_str(sb, word);
    else
        command_add_in_quotes(sb, word);
}

void
command_add_in_quotes(struct sbuf *sb, const char *word)
{
    sbuf_add_char(sb, '"');
    for (const char *p = word; *p != '\0'; p++) {
        if (iscntrl((unsigned char)*p)) {
            sbuf_addf(sb, "\\%03o", (unsigned)(unsigned char)*p);
        } else {
            if (*p == '"' || *p == '\\')
                sbuf_add_char(sb, '\\');
            sbuf_add_char(sb, *p);
        }
    }
    sbuf_add_char(sb, '"');
}
