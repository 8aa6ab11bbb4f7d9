/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/complete.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "store/recorder.h"
#include "store/snapshots.h"
#include "ui/command.h"
#include "ui/lineedit.h"

#define MAX_WORD_BYTES (64u << 10)

static void
add_candidate(struct lineedit_candidates *out, char *word)
{
    if (out->n_words == COMPLETE_MAX) {
        free(word);
        return;
    }
    out->words =
        xreallocarray(out->words, out->n_words + 1, sizeof(*out->words));
    out->words[out->n_words++] = word;
}

static void
complete_command(const char *word, struct lineedit_candidates *out)
{
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const char *name = command_at(i)->name;

        if (str_starts(name, word + 1))
            add_candidate(out, xasprintf(":%s", name));
    }
}

static void
complete_cell(const struct recorder *recorder, const char *word,
              struct lineedit_candidates *out)
{
    for (int n = recorder_n_cells(recorder); n > 0; n--) {
        AUTO_FREE char *number = xasprintf("%d", n);

        if (str_starts(number, word))
            add_candidate(out, take_ptr(&number));
    }
}

static void
complete_snapshot(const char *word, struct lineedit_candidates *out)
{
    struct snapshots_list list;

    snapshots_list(&list);
    for (size_t i = 0; i < list.n_items; i++) {
        if (str_starts(list.items[i].name, word))
            add_candidate(out, xstrdup(list.items[i].name));
    }
    snapshots_list_fini(&list);
}

/* Puts quotes around paths so that they are read back. When one needs them all
   get them: what they have in common could not be put into the line. */
static void
quote_paths(struct lineedit_candidates *out)
{
    bool bare = true;

    for (size_t i = 0; i < out->n_words; i++) {
        const char *text = out->words[i];

        bare &= command_is_bare(str_starts(text, "~/") ? text + 2 : text);
    }
    for (size_t i = 0; i < out->n_words && !bare; i++) {
        AUTO_FREE char *text = out->words[i];
        /* A tilde must stay outside quotes. */
        size_t tilde = str_starts(text, "~/") ? 2 : 0;
        struct sbuf word;

        sbuf_init(&word, MAX_WORD_BYTES);
        sbuf_add(&word, text, tilde);
        command_add_in_quotes(&word, text + tilde);
        out->words[i] = sbuf_take(&word);
    }
}

/* Adds dir + name; a directory ends in "/". */
static void
add_path(const char *shown_dir, const char *dir, const char *name,
         struct lineedit_candidates *out)
{
    AUTO_FREE char *full = paths_join(dir, name);
    struct stat st;
    bool is_dir = stat(full, &st) == 0 && S_ISDIR(st.st_mode);

    add_candidate(out, xasprintf("%s%s%s", shown_dir, name, is_dir ? "/" : ""));
}

/* word: what was typed, without its quotes. */
static void
complete_path(const char *word, struct lineedit_candidates *out)
{
    const char *base = paths_base(word);
    AUTO_FREE char *shown_dir = xstrndup(word, (size_t)(base - word));
    AUTO_FREE char *dir =
        shown_dir[0] != '\0' ? paths_expand(shown_dir) : xstrdup(".");
    DIR *d = opendir(dir);
    const struct dirent *e = NULL;

    out->is_path = true;
    if (d == NULL)
        return;
    for (e = readdir(d); e != NULL; e = readdir(d)) {
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
            continue;
        /* Hidden files only when they are asked for. */
        if (e->d_name[0] == '.' && base[0] != '.')
            continue;
        if (str_starts(e->d_name, base))
            add_path(shown_dir, dir, e->d_name, out);
    }
    closedir(d);
    quote_paths(out);
}

/* Where the last word of a line begins: behind a blank that is neither quoted
   nor escaped. n_before: how many words stand before it. */
static size_t
find_word(const char *line, size_t *n_before)
{
    size_t start = 0;
    char quote = '\0';
    bool in_word = false;

    *n_before = 0;
    for (size_t i = 0; line[i] != '\0'; i++) {
        char c = line[i];

        if (quote != '\0') {
            if (c == '\\' && quote == '"' && line[i + 1] != '\0')
                i++;
            else if (c == quote)
                quote = '\0';
            continue;
        }
        if (c == ' ' || c == '\t') {
            if (in_word)
                ++*n_before;
            in_word = false;
            start = i + 1;
            continue;
        }
        in_word = true;
        if (c == '"' || c == '\'')
            quote = c;
        else if (c == '\\' && line[i + 1] != '\0')
            i++;
    }
    return start;
}

/* The text of a word that may still have an open quote. */
static char *
unquote(const char *word)
{
    static const char *const CLOSINGS[] = {"", "\"", "'"};

    /* The tilde stays as it is; what stands behind it may be quoted. */
    if (str_starts(word, "~/")) {
        AUTO_FREE char *rest = unquote(word + 2);

        return xasprintf("~/%s", rest);
    }
    for (size_t i = 0; i < 3; i++) {
        AUTO_FREE char *closed = xasprintf("%s%s", word, CLOSINGS[i]);
        char **words = NULL;
        size_t n = 0;
        struct error err = {0};

        if (word[0] == '~')
            break;
        if (command_split(closed, &words, &n, &err) == 0 && n == 1) {
            char *text = xstrdup(words[0]);

            command_free_words(words, n);
            return text;
        }
        command_free_words(words, n);
    }
    return xstrdup(word);
}

void
complete_line(const struct recorder *recorder, const char *line, size_t cursor,
              struct lineedit_candidates *out)
{
    AUTO_FREE char *text = xstrndup(line, cursor);
    AUTO_FREE char *word = NULL;
    AUTO_FREE char *name = NULL;
    const struct command *cmd = NULL;
    size_t n_before = 0;

    memset(out, 0, sizeof(*out));
    out->start = find_word(text, &n_before);
    if (text[0] != ':')
        return;
    if (n_before == 0) {
        complete_command(text + out->start, out);
        return;
    }
    name = xstrndup(text + 1, strcspn(text + 1, " \t"));
    cmd = command_find(name);
    if (cmd == NULL)
        return;
    word = unquote(text + out->start);
    /* ":save N PATH": the first word is a cell. */
    if (cmd->completion == COMPLETE_CELL ||
        (cmd->completion == COMPLETE_PATH && n_before == 1 &&
         cmd->arguments[0] == 'N'))
        complete_cell(recorder, word, out);
    else if (cmd->completion == COMPLETE_PATH)
        complete_path(word, out);
    else if (cmd->completion == COMPLETE_SNAPSHOT && n_before == 1)
        complete_snapshot(word, out);
}
