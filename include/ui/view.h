/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The last sink: shows events to a person, on a terminal or as plain text. It
 * gives each voice its looks and keeps them apart, and never lets text from
 * outside take the program's own.
 *
 * On a terminal everything goes to one channel. Elsewhere the model's answer
 * and tables go to standard output; the rest goes to standard error.
 */
#ifndef UI_VIEW_H
#define UI_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct doctor_report;
struct error;
struct event_load;
struct loop;
struct out;
struct recorder;
struct sink_ops;
struct tty;
struct view;

struct view_config {
    struct loop *loop;               /* borrowed */
    struct out *out;                 /* borrowed */
    struct tty *tty;                 /* borrowed; NULL: no terminal */
    const struct recorder *recorder; /* borrowed */
    const char *graphics;            /* "auto", "sixel" or "none"; borrowed */
    const char *thinking;            /* "show", "brief" or "hide"; borrowed;
                                        NULL: "show" */
    int64_t cell_ms;                 /* limit of a cell, for the live line */
    bool no_commands;                /* none can be typed, so none is named */
    bool run_ends;                   /* a turn without an answer ends the run,
                                        and its variables with it */
    bool hold_words;                 /* of a reply nothing is shown before it
                                        is kept: a script reads along */
};

struct view *view_new(const struct view_config *config);

/* Pictures in progress are given up. */
void view_free(struct view *v);

/* For sink_chain_add, with the view itself as sink. */
extern const struct sink_ops view_sink;

/* What the terminal can do is known now: waiting pictures are drawn. */
void view_caps_ready(struct view *v);

/* Pictures are still being drawn, or wait for the terminal's answers. */
bool view_is_drawing(const struct view *v);

/* Called whenever the last picture has been drawn or given up. */
void view_on_drawn(struct view *v, void (*fn)(void *ctx), void *ctx);

/* Where the next errors are from, such as "stdin:3: "; borrowed; "" for none.
 */
void view_set_where(struct view *v, const char *where);

/* Lines of the program's own, with their mark ("· ", "warning: ", "error: ").
 */
void view_note(struct view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void view_warning(struct view *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void view_error(struct view *v, const struct error *err);

/* Text of the program's own on the channel of answers, such as a listing. */
void view_print(struct view *v, const char *text);

/* How tables are rendered for what the view writes to. */
struct table_options view_table_options(const struct view *v);

/* A table that was rendered so, on the channel of answers. */
void view_table(struct view *v, const char *text, size_t len);

/* What the doctor of the sandbox found, and its verdict. */
void view_doctor(struct view *v, const struct doctor_report *report);

/* The report of a loaded file. */
void view_load(struct view *v, const struct event_load *load);

/* Code of a cell between its rules; number 0: without one; language NULL:
   Python. */
void view_code(struct view *v, int number, const char *language,
               const char *code);

/* Program output as it stands, with margin. */
void view_block(struct view *v, const char *text);

/* What the model thought, on the channel of answers. */
void view_thinking(struct view *v, const char *text);

/* Bytes of a program as they came, all of them, on the channel of answers. */
void view_full(struct view *v, const char *data, size_t len);

/* What the person typed, for runs without a keyboard. */
void view_question(struct view *v, const char *question);

/* The live line; NULL removes it. The time since the call is added to it. */
void view_status(struct view *v, const char *text);

/*
 * How far something is that is copied, once that has taken half a second: takes
 * the place of the text of the live line, if there is one, at most ten times a
 * second. what ("loading a.csv") may hold any bytes; NULL: nothing is copied
 * any more.
 */
void view_copy(struct view *v, const char *what, uint64_t done_bytes,
               uint64_t total_bytes);

/* The person has typed a line. */
void view_break(struct view *v);

/* A blank line, as before a prompt. */
void view_gap(struct view *v);

#endif
