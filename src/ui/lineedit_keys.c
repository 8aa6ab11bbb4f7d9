/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "term/out.h"
#include "ui/lineedit.h"
#include "ui/lineedit_internal.h"

#define MAX_LIST_BYTES (1u << 20)

/* Readline's callbacks carry no context, and there is one readline. */
static struct lineedit_keys *active;

/* ---- completion ---- */

/*
 * Called before readline looks for the word: the application knows where it
 * begins. The one character before it is made the only one that breaks words.
 */
static char *
ask_for_words(void)
{
    static char breaks[2];
    struct lineedit_keys *k = active;

    lineedit_words_fini(&k->found);
    k->on->complete(k->ctx, rl_line_buffer, (size_t)rl_point, &k->found);
    lineedit_words_filter(&k->found);
    breaks[0] = k->found.start > 0 && k->found.start <= (size_t)rl_point
                    ? rl_line_buffer[k->found.start - 1]
                    : '\0';
    return breaks;
}

static void
print_words(const struct lineedit_keys *k, char *const *words, size_t n)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_LIST_BYTES);
    lineedit_add_list(&sb, words, n, k->columns, out_rows(k->out) - 1,
                      out_has_unicode(k->out));
    out_ready(k->out, OUT_SIDE, sb.data, sb.len);
}

static void
print_matches(char **matches, int n, int longest)
{
    (void)longest;
    if (n > 0)
        print_words(active, matches + 1, (size_t)n);
}

/* Readline frees what is returned. */
static char **
give_words(const char *text, int start, int end)
{
    struct lineedit_keys *k = active;
    struct lineedit_candidates *found = &k->found;
    char **matches = NULL;
    size_t n = 0;

    (void)text;
    /* At the start of a line readline looks for no word. */
    if (end == 0)
        ask_for_words();
    /* Else file names follow. */
    rl_attempted_completion_over = 1;
    if (found->n_words == 0)
        return NULL;
    matches = xcalloc(found->n_words + 2, sizeof(*matches));
    for (size_t i = 0; i < found->n_words; i++) {
        char *word = lineedit_words_fit(found, found->words[i], rl_line_buffer,
                                        (size_t)start);

        if (word != NULL)
            matches[++n] = word;
    }
    if (n == 1 && rl_completion_type == '?') {
        /* A single one would be printed past the hook. */
        print_words(k, matches + 1, 1);
        free(matches[1]);
        n = 0;
    }
    if (n == 0) {
        free(matches);
        return NULL;
    }
    matches[0] = xstrndup(matches[1], lineedit_words_prefix(matches + 1, n));
    if (n == 1) {
        rl_completion_suppress_append =
            found->is_path && lineedit_words_is_directory(matches[1]);
        free(matches[1]);
        matches[1] = NULL;
    }
    return matches;
}

static int
complete_key(int count, int key)
{
    (void)count;
    rl_completion_invoking_key = key;
    return rl_complete_internal('!');
}

/* ---- own keys ---- */

static int
line_feed_key(int count, int key)
{
    (void)key;
    while (count-- > 0)
        rl_insert_text("\n");
    return 0;
}

static int up_key(int count, int key);
static int down_key(int count, int key);

static void
remember_column(void)
{
    if (rl_last_func != up_key && rl_last_func != down_key)
        active->goal_column = lineedit_row_column(rl_line_buffer, rl_point);
}

/* Up and Down in a text of several rows; at its ends, the history. */
static int
up_key(int count, int key)
{
    int start = lineedit_row_start(rl_line_buffer, rl_point);

    if (start == 0)
        return rl_get_previous_history(count, key);
    remember_column();
    rl_point = lineedit_row_find(rl_line_buffer,
                                 lineedit_row_start(rl_line_buffer, start - 1),
                                 rl_end, active->goal_column);
    return 0;
}

static int
down_key(int count, int key)
{
    int end = rl_point;

    while (end < rl_end && rl_line_buffer[end] != '\n')
        end++;
    if (end == rl_end)
        return rl_get_next_history(count, key);
    remember_column();
    rl_point =
        lineedit_row_find(rl_line_buffer, end + 1, rl_end, active->goal_column);
    return 0;
}

/* Only over readline's own meaning: what the user has bound stays. */
static void
bind_over(const char *keyseq, rl_command_func_t *usual,
          rl_command_func_t *command, Keymap map)
{
    int type = 0;
    rl_command_func_t *now = rl_function_of_keyseq(keyseq, map, &type);

    if (now == NULL || (type == ISFUNC && now == usual))
        rl_bind_keyseq_in_map(keyseq, command, map);
}

void
lineedit_keys_bind(void)
{
    static const char *const maps[] = {"emacs-standard", "vi-insert"};
    Keymap command_map = rl_get_keymap_by_name("vi-command");

    for (size_t i = 0; i < LEN(maps); i++) {
        Keymap map = rl_get_keymap_by_name(maps[i]);

        bind_over("\t", rl_complete, complete_key, map);
        bind_over("\033[A", rl_get_previous_history, up_key, map);
        bind_over("\033OA", rl_get_previous_history, up_key, map);
        bind_over("\033[B", rl_get_next_history, down_key, map);
        bind_over("\033OB", rl_get_next_history, down_key, map);
        bind_over("\033\r", rl_vi_editing_mode, line_feed_key, map);
        bind_over("\033\n", rl_vi_editing_mode, line_feed_key, map);
    }
    bind_over("\033[A", rl_get_previous_history, up_key, command_map);
    bind_over("\033[B", rl_get_next_history, down_key, command_map);
}

/* ---- what the user has set ---- */

bool
lineedit_keys_is_on(const char *variable)
{
    return str_eq(rl_variable_value(variable), "on");
}

const char *
lineedit_keys_mode(void)
{
    const char *text = "";

    if (!lineedit_keys_is_on("show-mode-in-prompt"))
        return text;
    if (rl_editing_mode != 0)
        text = rl_variable_value("emacs-mode-string");
    else if (str_eq(rl_get_keymap_name(rl_get_keymap()), "vi-insert"))
        text = rl_variable_value("vi-ins-mode-string");
    else
        text = rl_variable_value("vi-cmd-mode-string");
    return text != NULL ? text : "";
}

static rl_command_func_t *
find_command(const char *data, size_t len, int *type)
{
    return rl_function_of_keyseq_len(data, len, rl_get_keymap(), type);
}

bool
lineedit_keys_is_command(const char *data, size_t len, int (*command)(int, int))
{
    int type = 0;

    return find_command(data, len, &type) == command && type == ISFUNC;
}

bool
lineedit_keys_is_bound(enum input_kind kind, const char *data, size_t len)
{
    int type = 0;

    return find_command(data, len, &type) != NULL &&
           (type != ISKMAP || kind == INPUT_KEYS);
}

void
lineedit_keys_set_variables(void)
{
    rl_variable_bind("enable-bracketed-paste", "off");
    rl_variable_bind("page-completions", "off");
    rl_variable_bind("input-meta", "on");
    rl_variable_bind("output-meta", "on");
    rl_variable_bind("convert-meta", "off");
    /* It rings on stderr, past the output queue. */
    rl_variable_bind("bell-style", "none");
    /* It waits for half a second. */
    rl_variable_bind("blink-matching-paren", "off");
}

/* ---- start and end ---- */

void
lineedit_keys_start(struct lineedit_keys *k)
{
    active = k;
    rl_attempted_completion_function = give_words;
    rl_completion_word_break_hook = ask_for_words;
    rl_completion_display_matches_hook = print_matches;
}

void
lineedit_keys_fini(struct lineedit_keys *k)
{
    if (active == k)
        active = NULL;
    lineedit_words_fini(&k->found);
}
