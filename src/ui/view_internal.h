/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of the view, shared by the stream of events (view.c), cells
 * (view_cell.c), words that are held back (view_held.c), limits (view_limit.c),
 * load reports (view_load.c), pictures (view_picture.c), the live line
 * (view_status.c) and thinking (view_thinking.c).
 */
#ifndef UI_VIEW_INTERNAL_H
#define UI_VIEW_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sbuf.h"
#include "model/event.h"
#include "term/out.h"
#include "ui/copy_rate_internal.h"
#include "ui/view.h"

struct image;
struct loop_timer;
struct output;

/* Who speaks. A blank line stands between two voices. */
enum voice {
    VOICE_NONE,
    VOICE_PERSON,
    VOICE_OWN,
    VOICE_MODEL,
    VOICE_THINKING,
    VOICE_CODE,
    VOICE_PROGRAM,
    VOICE_TABLE,
    VOICE_LOAD
};

/* The longest reply that can be held back; the client takes none that is
   longer. */
#define VIEW_HELD_BYTES (64u << 20)

/* The longest line of the program's own. */
#define VIEW_LINE_BYTES 4096

/* The largest file of a cell of which something is drawn. */
#define VIEW_FILE_BYTES 10000000u

/* A time is named from here on. */
#define VIEW_TIME_MS 1000

/* The end of what was thought, in which the last words are looked for. */
#define VIEW_THOUGHT_BYTES 4096u

/* Lines of a cell that are shown as they come, and at its end. */
#define VIEW_HEAD_LINES 200
#define VIEW_TAIL_LINES 50
#define VIEW_TAIL_BYTES (256u << 10)

/* One of the two streams of a running cell. */
struct view_program {
    struct out_stream stream;
    bool open;
    int cell; /* that writes */
    size_t n_lines;
    struct sbuf tail; /* what came after the head; the end of it */
    uint64_t n_tail_lines;
    uint64_t n_tail_dropped_bytes;
};

struct view_picture {
    struct view *view;   /* borrowed */
    struct image *image; /* borrowed: the work in progress */
    unsigned place;
    unsigned char *png; /* owned; until it is begun */
    size_t len;
    struct view_picture *next;
};

struct view {
    struct view_config config;
    const char *where;
    enum voice voice[2]; /* by channel, the last that spoke */
    bool one_target;     /* both channels end in the same place */

    struct out_stream model;
    struct out_stream thinking;
    bool model_open;
    bool thinking_open;
    struct sbuf thought;      /* with display.thinking: brief; the end of it */
    int64_t thought_since_ms; /* 0: no block is open */
    size_t n_model_skipped;   /* line ends at the beginning */

    /* With hold_words: of the reply that is coming. */
    struct sbuf held;
    size_t *held_ends; /* owned; of blocks, as places in held */
    size_t n_held_ends;

    struct view_program program[2]; /* by enum event_stream */

    struct view_picture *pictures; /* owned; in progress or waiting */
    void (*on_drawn)(void *ctx);
    void *on_drawn_ctx;

    char *status; /* owned; or NULL */
    int64_t status_since_ms;
    int64_t status_until_ms; /* a wait ends then; 0: it is none */
    struct loop_timer *status_timer;
    char *copy_what; /* owned; "loading a.csv"; NULL: nothing is copied */
    struct copy_rate copy_rate;
};

/* Begins to speak: ends what another voice left open, blank line included. */
void view_speak(struct view *v, enum out_channel ch, enum voice voice);

/* Ends lines that streams have left open, so that another voice begins on its
   own. */
void view_end_lines(struct view *v);
void view_end_program_line(struct view *v, struct view_program *p);

/* A line of the program's own, dim, with its mark. */
void view_note_text(struct view *v, const char *text);

/* Adds a part of such a line, behind a dot if it is not the first. */
void view_add_part(const struct view *v, struct sbuf *sb, const char *text);

/* Words of the model as they come, in their voice. */
void view_show_words(struct view *v, const struct event *ev,
                     struct out_stream *s, bool *open, enum out_channel ch,
                     enum voice voice);

/* With hold_words: keeps the words of a reply back, shows them since they
   count, and forgets them since they never will. */
void view_hold_words(struct view *v, const struct event *ev);
void view_release_words(struct view *v);
void view_forget_words(struct view *v);

/*
 * Thinking, as display.thinking wants it. Of brief thinking the last words are
 * held back: view_say_thinking shows them, since a cell follows;
 * view_drop_thinking forgets them if ev has other words, or ends the turn.
 */
void view_put_thinking(struct view *v, const struct event *ev);
void view_say_thinking(struct view *v);
void view_drop_thinking(struct view *v, const struct event *ev);

/* The live line counts down to until_ms; without one it is a line of its own.
   text is why. */
void view_status_until(struct view *v, const char *text, int64_t until_ms);

/* Why a turn ended at a limit, what is kept of it, and how to go on. */
void view_tell_limit(struct view *v, const struct event *ev);

/* Names the command that asks again, if there is one and that may help. */
void view_offer_retry(struct view *v, const struct error *err);

/* The parts of a cell. */
void view_show_program(struct view *v, const struct event *ev);
void view_show_result(struct view *v, const struct event *ev);
void view_show_file(struct view *v, const struct event *ev);
void view_show_error(struct view *v, const struct event *ev);
void view_end_cell(struct view *v, const struct event *ev);

/* Where answers and where the rest goes. */
enum out_channel view_main(const struct view *v);
enum out_channel view_side(const struct view *v);

/* Shows a picture: keeps its place and begins to draw it. True when it will be
   drawn; the caption then need not name the path. */
bool view_picture_show(struct view *v, const struct output *o);

/* Whether pictures are drawn here at all, as far as it is known by now. */
bool view_can_draw(const struct view *v);
void view_pictures_free(struct view *v);

/* "… " or "... ", by what the terminal can show. */
const char *view_ellipsis(const struct view *v);
const char *view_dot(const struct view *v); /* "· " or "- " */
const char *view_dash(const struct view *v);
const char *view_rule(const struct view *v);
const char *view_margin(const struct view *v);

#endif
