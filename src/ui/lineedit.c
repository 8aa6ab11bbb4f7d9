/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/lineedit.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <readline/readline.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "term/input.h"
#include "term/out.h"
#include "term/seq.h"
#include "term/tty.h"
#include "ui/lineedit_internal.h"

#define LOG_MODULE "lineedit"

/* Readline divides by the width of a line in its sideways mode. */
#define MIN_COLUMNS 10
#define MIN_ROWS 3

#define MAX_PROMPT_BYTES 256
#define MAX_SEARCH_PASTE_BYTES 200
#define STREAM_BYTES (64u << 10)

#define ABORT_KEY "\a" /* Ctrl-G */

struct lineedit {
    struct loop *loop;
    struct tty *tty; /* borrowed */
    struct out *out; /* borrowed */
    const struct lineedit_handlers *on;
    void *ctx;

    FILE *from; /* owned; readline asks for its number only */
    FILE *to;   /* owned; leads into the output queue */

    bool shown;
    bool cleared; /* taken off the screen for output above it */
    bool quiet;   /* nothing is drawn: more keys follow */
    bool quoted;  /* the next key is taken as it is */

    const char *keys; /* borrowed: the unit that readline reads */
    size_t n_keys;
    size_t at_key;

    char *line; /* owned; accepted, not handed in yet */
    bool ended; /* Ctrl-D */
    struct loop_task *task;

    struct lineedit_ahead ahead;

    int columns; /* as readline was told */
    int rows;
    bool sideways;      /* the line is shown on one row that scrolls */
    bool user_sideways; /* wanted so by the user */
    struct lineedit_keys keys_of_ours;
};

/* Readline's callbacks carry no context, and there is one readline. */
static struct lineedit *active;

/* ---- readline's streams ---- */

static ssize_t
write_stream(void *ctx, const char *data, size_t len)
{
    struct lineedit *le = ctx;

    out_editor(le->out, data, len);
    return (ssize_t)len;
}

static int
next_key(FILE *from)
{
    (void)from;
    if (active->at_key < active->n_keys)
        return (unsigned char)active->keys[active->at_key++];
    /* Units are whole, so only a macro of the user's can come here. */
    LOG_WARN("a key is wanted and none is there");
    return EOF;
}

static int
has_key(void)
{
    return active->at_key < active->n_keys;
}

static void
flush(const struct lineedit *le)
{
    fflush(le->to);
}

/* ---- drawing ---- */

static bool
is_searching(void)
{
    return RL_ISSTATE(RL_STATE_ISEARCH | RL_STATE_NSEARCH) != 0;
}

/* Where the line stands at its byte n. */
static struct lineedit_place
find_place(const struct lineedit *le, int n, int columns)
{
    struct lineedit_place at = {0};
    const char *prompt = rl_display_prompt != NULL ? rl_display_prompt : "";
    const char *mode = lineedit_keys_mode();

    lineedit_advance(&at, mode, strlen(mode), columns, le->rows);
    lineedit_advance(&at, prompt, strlen(prompt), columns, le->rows);
    lineedit_advance(&at, rl_line_buffer, (size_t)n, columns, le->rows);
    return at;
}

/* Readline loses its way in a line that is taller than the screen. */
static bool
wants_sideways(const struct lineedit *le)
{
    return le->user_sideways ||
           (out_has_sequences(le->out) &&
            find_place(le, rl_end, le->columns).row >= le->rows - 2);
}

static void
set_sideways(struct lineedit *le, bool sideways)
{
    le->sideways = sideways;
    rl_variable_bind("horizontal-scroll-mode", sideways ? "on" : "off");
}

static void
redisplay(void)
{
    struct lineedit *le = active;
    bool sideways;

    if (le->cleared || le->quiet)
        return;
    sideways = wants_sideways(le);
    if (sideways != le->sideways) {
        rl_clear_visible_line();
        set_sideways(le, sideways);
        /* Comes back to here. */
        rl_forced_update_display();
        return;
    }
    rl_redisplay();
}

static void
draw_again(const struct lineedit *le)
{
    rl_forced_update_display();
    flush(le);
}

/* The prompt comes back before the output above it has ended. */
static void
show_again(struct lineedit *le)
{
    if (!le->cleared)
        return;
    le->cleared = false;
    /* Output that follows has to clear it anew. */
    out_set_prompt_hooks(le->out, lineedit_before_output, lineedit_after_output,
                         le);
    draw_again(le);
}

void
lineedit_before_output(void *ctx)
{
    struct lineedit *le = ctx;

    if (!le->shown || le->cleared)
        return;
    rl_clear_visible_line();
    flush(le);
    le->cleared = true;
}

void
lineedit_after_output(void *ctx)
{
    struct lineedit *le = ctx;

    if (!le->shown || !le->cleared)
        return;
    le->cleared = false;
    draw_again(le);
}

static void
set_size(struct lineedit *le, int columns, int rows)
{
    le->columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns;
    le->keys_of_ours.columns = le->columns;
    le->rows = rows < MIN_ROWS ? MIN_ROWS : rows;
    rl_set_screen_size(le->rows, le->columns);
}

/* Whether the terminal breaks its lines anew when its width changes. */
static bool
rewraps(const struct lineedit *le)
{
    static const char *const names[] = {"tmux",    "kitty",   "foot",
                                        "VTE",     "WezTerm", "iTerm2",
                                        "Konsole", "ghostty", "contour"};
    const char *name = tty_caps(le->tty)->name;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/*
 * Rows of the input above the cursor. Where it is not known what the terminal
 * does, the smaller number: a row that is left over is better than one that is
 * lost.
 */
static int
rows_above(const struct lineedit *le, int columns)
{
    int now = find_place(le, rl_point, columns).row;
    int before = find_place(le, rl_point, le->columns).row;

    if (le->sideways)
        return 0;
    return rewraps(le) || now < before ? now : before;
}

void
lineedit_resize(struct lineedit *le, int columns, int rows)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (!le->shown || le->cleared) {
        set_size(le, columns, rows);
        return;
    }
    if (!out_has_sequences(le->out)) {
        rl_crlf();
        set_size(le, columns, rows);
        draw_again(le);
        return;
    }
    sbuf_init(&sb, MAX_PROMPT_BYTES);
    seq_add_up(&sb,
               rows_above(le, columns < MIN_COLUMNS ? MIN_COLUMNS : columns));
    /* Not from the first column of the screen: tmux would take that for a
       clearing of the whole and keep a copy in its history. */
    seq_add(&sb, SEQ_LINE_RESTART);
    sbuf_add_char(&sb, ' ');
    seq_add(&sb, SEQ_ERASE_BELOW);
    sbuf_add_char(&sb, '\r');
    flush(le);
    out_editor(le->out, sb.data, sb.len);
    set_size(le, columns, rows);
    set_sideways(le, wants_sideways(le));
    draw_again(le);
}

/* ---- feeding ---- */

static void
on_line(char *line)
{
    struct lineedit *le = active;

    /* First: else readline prints a new prompt at once. */
    rl_callback_handler_remove();
    le->shown = false;
    if (line == NULL) {
        le->ended = true;
        rl_crlf();
    } else if (utf8_valid(line, strlen(line))) {
        le->line = xstrdup(line);
    } else {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, strlen(line) * 3);
        utf8_add_repaired(&sb, line, strlen(line));
        le->line = sbuf_take(&sb);
    }
    free(line);
}

static void
feed(struct lineedit *le, const char *data, size_t len)
{
    le->keys = data;
    le->n_keys = len;
    le->at_key = 0;
    while (le->shown && has_key())
        rl_callback_read_char();
    le->n_keys = 0;
    le->at_key = 0;
}

static void
update_mode(struct lineedit *le)
{
    struct input_mode mode = {
        .escape_acts =
            le->shown && (rl_editing_mode == 0 || is_searching() || le->quoted),
        .quoted = le->shown && le->quoted,
    };

    tty_set_input_mode(le->tty, &mode);
}

/* Ctrl-X and the like wait for one byte more, which must not be the first of
   several. */
static void
end_half_way(struct lineedit *le)
{
    if (RL_ISSTATE(RL_STATE_MULTIKEY))
        feed(le, ABORT_KEY, 1);
}

static void
take_keys(struct lineedit *le, enum input_kind kind, const char *data,
          size_t len)
{
    bool starts_quote = len == 1 && !le->quoted &&
                        !RL_ISSTATE(RL_STATE_MULTIKEY) &&
                        lineedit_keys_is_command(data, len, rl_quoted_insert);

    if (le->quoted) {
        feed(le, data, len);
    } else if (data[0] != ESC || len == 1) {
        if ((unsigned char)data[0] >= 0x80)
            end_half_way(le);
        feed(le, data, len);
    } else if (lineedit_keys_is_bound(kind, data, len)) {
        end_half_way(le);
        feed(le, data, len);
    } else if (kind == INPUT_KEYS && rl_editing_mode == 0 && len == 2 &&
               data[1] != '\r' && data[1] != '\n') {
        /* Somebody typed ESC and a command of vi's, quickly. */
        feed(le, data, 1);
        feed(le, data + 1, 1);
    }
    le->quoted = starts_quote;
}

/* ---- pastes ---- */

static void
insert_text(const char *text)
{
    /* A group: what is typed next is undone for itself. */
    rl_begin_undo_group();
    rl_insert_text(text);
    rl_end_undo_group();
}

static void
paste_into_search(struct lineedit *le, const char *data, size_t len)
{
    AUTO_FREE char *keys =
        xstrndup(data, utf8_floor(data, len, MAX_SEARCH_PASTE_BYTES));
    size_t n = strlen(keys);

    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)keys[i] < 0x20)
            keys[i] = ' ';
    }
    feed(le, keys, n);
}

static void
take_paste(struct lineedit *le, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (is_searching()) {
        paste_into_search(le, data, len);
        return;
    }
    if (le->quoted) {
        size_t n = len;

        /* What waits for a key gets one. */
        while (n > 1 && utf8_floor(data, len, n - 1) > 0)
            n = utf8_floor(data, len, n - 1);
        feed(le, data, n);
        le->quoted = false;
        data += n;
    } else if (RL_ISSTATE(RL_STATE_MULTIKEY | RL_STATE_NUMERICARG |
                          RL_STATE_VIMOTION | RL_STATE_CHARSEARCH)) {
        feed(le, ABORT_KEY, 1);
    }
    if (!le->shown)
        return;
    insert_text(data);
    (*rl_redisplay_function)();
}

static void
warn_of_paste(struct lineedit *le, const struct input_unit *unit)
{
    if (unit->n_cut > 0)
        out_sayf(le->out, OUT_SIDE,
                 "warning: %zu bytes at the end of the paste were left out\n",
                 unit->n_cut);
    else if (unit->stalled)
        out_say(le->out, OUT_SIDE,
                "warning: the end of the paste did not come\n");
}

/* ---- typed ahead ---- */

/* Whatever accepts a line, Enter or another key, only ends a row of the text:
   what was typed before the prompt was seen must not submit. */
static bool
accepts(const struct lineedit_typed *a)
{
    const char *data = a->data.data;
    size_t len = a->data.len;

    if (a->kind == INPUT_ENTER)
        return true;
    return a->kind != INPUT_PASTE && len > 0 &&
           (lineedit_keys_is_command(data, len, rl_newline) ||
            lineedit_keys_is_command(data, len, rl_operate_and_get_next) ||
            lineedit_keys_is_command(data, len, rl_vi_eof_maybe));
}

static void
use_ahead(struct lineedit *le)
{
    unsigned n_line_ends = 0;

    le->quiet = true;
    while (le->ahead.first != NULL && le->shown) {
        struct lineedit_typed *a = lineedit_ahead_take(&le->ahead);

        if (!le->quoted && accepts(a)) {
            n_line_ends++;
            lineedit_typed_free(a);
            continue;
        }
        /* A last one is dropped. */
        while (n_line_ends > 0) {
            insert_text("\n");
            n_line_ends--;
        }
        if (a->kind == INPUT_PASTE)
            take_paste(le, a->data.data, a->data.len);
        else
            take_keys(le, a->kind, a->data.data, a->data.len);
        lineedit_typed_free(a);
    }
    le->quiet = false;
}

/* ---- what a unit does ---- */

static void
remove_prompt(struct lineedit *le)
{
    le->shown = false;
    le->cleared = false;
    le->quoted = false;
    out_set_prompt_hooks(le->out, NULL, NULL, NULL);
    update_mode(le);
}

/* Hands in what on_line has found. Last in every function: the handler may do
   anything. */
static void
deliver(struct lineedit *le)
{
    AUTO_FREE char *line = take_ptr(&le->line);
    bool ended = le->ended;

    if (line == NULL && !ended)
        return;
    le->ended = false;
    remove_prompt(le);
    if (ended)
        le->on->on_eof(le->ctx);
    else
        le->on->on_line(le->ctx, line);
}

static void
on_deliver(void *ctx)
{
    struct lineedit *le = ctx;

    le->task = NULL;
    deliver(le);
}

static void
interrupt(struct lineedit *le)
{
    bool was_empty;

    if (!le->shown) {
        lineedit_ahead_fini(&le->ahead);
        le->on->on_cancel(le->ctx);
        return;
    }
    show_again(le);
    was_empty = rl_end == 0 && !is_searching();
    /* Without the first, the next keys go into a search that is no more. */
    rl_callback_sigcleanup();
    rl_free_line_state();
    rl_point = rl_end;
    (*rl_redisplay_function)();
    rl_crlf();
    rl_callback_handler_remove();
    rl_replace_line("", 0);
    flush(le);
    remove_prompt(le);
    le->on->on_interrupt(le->ctx, was_empty);
}

static void
stop(struct lineedit *le)
{
    bool was_cleared = le->cleared;
    int columns;
    int rows;

    if (le->shown && !was_cleared) {
        rl_clear_visible_line();
        flush(le);
        le->cleared = true;
    }
    tty_stop(le->tty);
    tty_size(le->tty, &columns, &rows);
    set_size(le, columns, rows);
    if (le->shown && !was_cleared) {
        le->cleared = false;
        draw_again(le);
    }
}

static void
take_unit(struct lineedit *le, const struct input_unit *unit)
{
    /* Keys that only insert can wait for their drawing; others may end the
       line. */
    if (!lineedit_is_printable(unit))
        show_again(le);
    switch (unit->kind) {
    case INPUT_KEYS:
    case INPUT_SEQUENCE:
        take_keys(le, unit->kind, unit->data, unit->len);
        break;
    case INPUT_ENTER:
        /* Quoted it is a line feed, which a terminal sends as CR. */
        feed(le, le->quoted ? "\n" : unit->data, 1);
        le->quoted = false;
        break;
    case INPUT_PASTE:
        take_paste(le, unit->data, unit->len);
        break;
    case INPUT_INTERRUPT:
    case INPUT_STOP:
    case INPUT_REPLY:
        break;
    }
    flush(le);
    if (unit->kind == INPUT_PASTE)
        warn_of_paste(le, unit);
    update_mode(le);
    deliver(le);
}

void
lineedit_unit(struct lineedit *le, const struct input_unit *unit)
{
    if (unit->kind == INPUT_REPLY)
        return;
    if (unit->kind == INPUT_INTERRUPT)
        interrupt(le);
    else if (unit->kind == INPUT_STOP)
        stop(le);
    else if (le->shown)
        take_unit(le, unit);
    else
        lineedit_ahead_add(&le->ahead, unit);
}

/* ---- life ---- */

static void
use_utf8(void)
{
    /* In another encoding a character would be its bytes. */
    setlocale(LC_CTYPE, "");
    if (!str_eq(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static int
open_streams(struct lineedit *le, struct error *err)
{
    static const cookie_io_functions_t functions = {.write = write_stream};
    AUTO_CLOSE int fd = dup(tty_fd(le->tty));

    if (fd < 0)
        return err_set_errno(err, ERR_IO, "the terminal");
    le->from = fdopen(fd, "r");
    if (le->from == NULL)
        return err_set_errno(err, ERR_IO, "the terminal");
    take_fd(&fd);
    le->to = fopencookie(le, "w", functions);
    if (le->to == NULL)
        return err_set_errno(err, ERR_IO, "the line editor's output");
    setvbuf(le->to, NULL, _IOFBF, STREAM_BYTES);
    return 0;
}

static void
start_readline(struct lineedit *le)
{
    int columns;
    int rows;

    rl_instream = le->from;
    rl_outstream = le->to;
    rl_readline_name = "sandpiper";
    rl_terminal_name = out_has_sequences(le->out) ? NULL : "dumb";
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    rl_prep_term_function = NULL;
    rl_deprep_term_function = NULL;
    rl_getc_function = next_key;
    /* Without it readline looks at the terminal itself, finds bytes there, and
       asks for them although there are none here. */
    rl_input_available_hook = has_key;
    rl_completer_quote_characters = NULL;
    lineedit_keys_start(&le->keys_of_ours);
    rl_completion_query_items = -1;
    rl_initialize();

    /* After it: it reads the user's settings, and does not load a description
       of the terminal when another redisplay is there already. */
    rl_redisplay_function = redisplay;
    rl_tty_set_echoing(1);
    lineedit_keys_set_variables();
    le->user_sideways = lineedit_keys_is_on("horizontal-scroll-mode");
    tty_size(le->tty, &columns, &rows);
    set_size(le, columns, rows);
    lineedit_keys_bind();
}

struct lineedit *
lineedit_new(struct loop *loop, struct tty *tty, struct out *out,
             const struct lineedit_handlers *on, void *ctx, struct error *err)
{
    struct lineedit *le = xcalloc(1, sizeof(*le));

    assert(active == NULL);
    le->loop = loop;
    le->tty = tty;
    le->out = out;
    le->on = on;
    le->ctx = ctx;
    le->keys_of_ours = (struct lineedit_keys){.out = out, .on = on, .ctx = ctx};
    active = le;
    use_utf8();
    if (open_streams(le, err) < 0) {
        lineedit_free(le);
        return NULL;
    }
    start_readline(le);
    return le;
}

void
lineedit_free(struct lineedit *le)
{
    if (le == NULL)
        return;
    if (le->shown) {
        rl_callback_handler_remove();
        rl_crlf();
        flush(le);
        remove_prompt(le);
    }
    loop_task_remove(le->task);
    lineedit_ahead_fini(&le->ahead);
    lineedit_keys_fini(&le->keys_of_ours);
    free(le->line);
    rl_instream = NULL;
    rl_outstream = NULL;
    if (le->to != NULL)
        fclose(le->to);
    if (le->from != NULL)
        fclose(le->from);
    active = NULL;
    free(le);
}

void
lineedit_prompt(struct lineedit *le, const char *prompt)
{
    AUTO_SBUF struct sbuf sb = {0};
    bool colour = out_has_colour(le->out);

    assert(!le->shown);
    sbuf_init(&sb, MAX_PROMPT_BYTES);
    if (colour) {
        sbuf_add_char(&sb, RL_PROMPT_START_IGNORE);
        seq_add_sgr(&sb, style_sgr(STYLE_PROMPT));
        sbuf_add_char(&sb, RL_PROMPT_END_IGNORE);
    }
    sbuf_add_str(&sb, prompt);
    if (colour) {
        sbuf_add_char(&sb, RL_PROMPT_START_IGNORE);
        seq_add(&sb, SEQ_SGR_RESET);
        sbuf_add_char(&sb, RL_PROMPT_END_IGNORE);
    }
    set_sideways(le, le->user_sideways);
    out_set_prompt_hooks(le->out, lineedit_before_output, lineedit_after_output,
                         le);
    le->quoted = false;
    le->cleared = false;
    le->shown = true;
    rl_callback_handler_install(sb.data, on_line);
    if (le->ahead.first != NULL) {
        use_ahead(le);
        if (le->shown)
            (*rl_redisplay_function)();
    }
    flush(le);
    update_mode(le);
    /* Not from within this call. */
    if (le->line != NULL || le->ended)
        le->task = loop_defer(le->loop, on_deliver, le);
}

void
lineedit_hide(struct lineedit *le)
{
    AUTO_FREE char *text = NULL;

    if (!le->shown)
        return;
    if (!le->cleared)
        rl_clear_visible_line();
    rl_callback_sigcleanup();
    rl_free_line_state();
    text = xstrdup(rl_line_buffer);
    rl_callback_handler_remove();
    rl_replace_line("", 0);
    flush(le);
    remove_prompt(le);
    /* What was typed appears in the next prompt. */
    if (text[0] != '\0')
        lineedit_ahead_add(&le->ahead,
                           &(struct input_unit){.kind = INPUT_PASTE,
                                                .data = text,
                                                .len = strlen(text)});
}

bool
lineedit_is_shown(const struct lineedit *le)
{
    return le->shown;
}
