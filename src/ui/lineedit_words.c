/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/lineedit_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "term/sanitize.h"
#include "ui/lineedit.h"

#define GAP_COLUMNS 2
#define MAX_WORD_BYTES (64u << 10)

void
lineedit_words_fini(struct lineedit_candidates *found)
{
    for (size_t i = 0; i < found->n_words; i++)
        free(found->words[i]);
    free(found->words);
    *found = (struct lineedit_candidates){0};
}

static bool
is_shown_safely(const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;

        i += utf8_decode(word + i, len - i, &cp, &ok);
        if (!ok || (cp >= 0x80 && cp < 0xA0) ||
            (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069))
            return false;
    }
    return true;
}

void
lineedit_words_filter(struct lineedit_candidates *found)
{
    size_t n = 0;

    for (size_t i = 0; i < found->n_words; i++) {
        if (is_shown_safely(found->words[i]))
            found->words[n++] = found->words[i];
        else
            free(found->words[i]);
    }
    found->n_words = n;
}

char *
lineedit_words_fit(const struct lineedit_candidates *found, const char *word,
                   const char *line, size_t start)
{
    size_t n;

    if (start <= found->start)
        return xasprintf("%.*s%s", (int)(found->start - start), line + start,
                         word);
    n = start - found->start;
    if (strncmp(word, line + found->start, n) != 0)
        return NULL;
    return xstrdup(word + n);
}

size_t
lineedit_words_prefix(char *const *words, size_t n_words)
{
    size_t len = strlen(words[0]);

    for (size_t i = 1; i < n_words; i++) {
        size_t same = 0;

        while (same < len && words[i][same] == words[0][same])
            same++;
        len = same;
    }
    return utf8_floor(words[0], strlen(words[0]), len);
}

bool
lineedit_words_is_directory(const char *word)
{
    size_t len = strlen(word);

    while (len > 0 && (word[len - 1] == '"' || word[len - 1] == '\''))
        len--;
    return len > 0 && word[len - 1] == '/';
}

static size_t
directory_bytes(char *const *words, size_t n_words)
{
    size_t len = lineedit_words_prefix(words, n_words);

    /* A closing quote without its opening one would be odd. */
    if (words[0][0] == '"' || words[0][0] == '\'')
        return 0;
    while (len > 0 && words[0][len - 1] != '/')
        len--;
    return len;
}

/* The word on one line, and its columns. */
static char *
make_harmless(const char *word, size_t max_width, bool unicode, size_t *width)
{
    AUTO_SBUF struct sbuf sb = {0};
    const char *mark = unicode ? "\xE2\x80\xA6" : "...";

    sbuf_init(&sb, MAX_WORD_BYTES);
    sanitize_text(SANITIZE_CELL, word, strlen(word), &sb);
    *width = utf8_width(sb.data, sb.len);
    if (*width > max_width) {
        size_t mark_width = utf8_width(mark, strlen(mark));
        size_t room = max_width > mark_width ? max_width - mark_width : 0;

        sbuf_truncate(&sb, utf8_fit(sb.data, sb.len, room, width));
        sbuf_add_str(&sb, mark);
        *width += mark_width;
    }
    return sbuf_take(&sb);
}

void
lineedit_add_list(struct sbuf *sb, char *const *words, size_t n_words,
                  int columns, int max_lines, bool unicode)
{
    size_t line_width = columns > 1 ? (size_t)columns - 1 : 1;
    size_t max = max_lines > 2 ? (size_t)max_lines : 2;
    char **texts = xcalloc(n_words, sizeof(*texts));
    size_t *widths = xcalloc(n_words, sizeof(*widths));
    size_t widest = 0;
    size_t n_columns;
    size_t n_lines;
    size_t n_shown = n_words;
    size_t skip = directory_bytes(words, n_words);

    for (size_t i = 0; i < n_words; i++) {
        const char *shown = words[i] + (words[i][skip] != '\0' ? skip : 0);

        texts[i] = make_harmless(shown, line_width, unicode, &widths[i]);
        widest = widths[i] > widest ? widths[i] : widest;
    }
    n_columns = (line_width + GAP_COLUMNS) / (widest + GAP_COLUMNS);
    if (n_columns == 0)
        n_columns = 1;
    n_lines = (n_words + n_columns - 1) / n_columns;
    if (n_lines > max) {
        n_lines = max - 1;
        n_shown = n_lines * n_columns;
    }
    for (size_t line = 0; line < n_lines; line++) {
        for (size_t i = line; i < n_shown; i += n_lines) {
            sbuf_add_str(sb, texts[i]);
            if (i + n_lines < n_shown)
                sbuf_add_repeat(sb, ' ', widest + GAP_COLUMNS - widths[i]);
        }
        sbuf_add_char(sb, '\n');
    }
    if (n_shown < n_words)
        sbuf_addf(sb, "%s %zu more\n", unicode ? "\xE2\x80\xA6" : "...",
                  n_words - n_shown);
    for (size_t i = 0; i < n_words; i++)
        free(texts[i]);
    free(texts);
    free(widths);
}
