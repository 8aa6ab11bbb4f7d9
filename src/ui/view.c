/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/event.h"
#include "model/output.h"
#include "model/sink.h"
#include "model/table.h"
#include "render/table_layout.h"
#include "store/recorder.h"
#include "term/tty.h"
#include "ui/view_internal.h"

#define MAX_LINE_BYTES 4096
#define MAX_TABLE_BYTES (1u << 20)
#define STATUS_TICK_MS 1000

/* ---- voices ---------------------------------------------------------------
 */

enum out_channel
view_main(const struct view *v)
{
    (void)v;
    return OUT_MAIN;
}

enum out_channel
view_side(const struct view *v)
{
    return out_is_terminal(v->config.out) ? OUT_MAIN : OUT_SIDE;
}

const char *
view_ellipsis(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x80\xA6" : "...";
}

const char *
view_dot(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xC2\xB7" : "-";
}

const char *
view_dash(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x80\x93" : "-";
}

static const char *
rule(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x94\x80\xE2\x94\x80" : "--";
}

static const char *
margin(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x94\x82 " : "| ";
}

static void
end_program_line(struct view *v, struct view_program *p)
{
    if (p->open && p->stream.in_line)
        out_text_end(v->config.out, &p->stream);
}

/* Ends lines that streams have left open, so that another voice begins on its
   own. */
static void
end_lines(struct view *v)
{
    if (v->model_open) {
        out_text_end(v->config.out, &v->model);
        v->model_open = false;
    }
    if (v->thinking_open) {
        out_text_end(v->config.out, &v->thinking);
        v->thinking_open = false;
    }
    end_program_line(v, &v->program[0]);
    end_program_line(v, &v->program[1]);
}

/* Whether a voice follows another without a blank line: what belongs to code
   and what remarks on it, and the answer to a command. */
static bool
follows_closely(enum voice last, enum voice voice)
{
    switch (last) {
    case VOICE_NONE:
        return true;
    case VOICE_PERSON:
        return voice == VOICE_OWN;
    case VOICE_CODE:
    case VOICE_PROGRAM:
    case VOICE_TABLE:
        return voice == VOICE_PROGRAM || voice == VOICE_TABLE ||
               voice == VOICE_OWN;
    case VOICE_LOAD:
        return voice == VOICE_OWN;
    case VOICE_OWN:
        return voice == VOICE_OWN || voice == VOICE_PROGRAM ||
               voice == VOICE_TABLE;
    case VOICE_MODEL:
    case VOICE_THINKING:
        return voice == last;
    }
    return false;
}

void
view_speak(struct view *v, enum out_channel ch, enum voice voice)
{
    enum voice last = v->voice[ch];

    if (last != voice || voice == VOICE_CODE || voice == VOICE_TABLE ||
        voice == VOICE_LOAD)
        end_lines(v);
    if (!follows_closely(last, voice))
        out_say(v->config.out, ch, "\n");
    v->voice[ch] = voice;
    if (v->one_target)
        v->voice[1 - ch] = voice;
}

void
view_break(struct view *v)
{
    end_lines(v);
    v->voice[OUT_MAIN] = VOICE_PERSON;
    v->voice[OUT_SIDE] = VOICE_PERSON;
}

void
view_gap(struct view *v)
{
    end_lines(v);
    out_say(v->config.out, view_side(v), "\n");
    v->voice[OUT_MAIN] = VOICE_NONE;
    v->voice[OUT_SIDE] = VOICE_NONE;
}

/* ---- the program's own words ----------------------------------------------
 */

/* One line: where it comes from, a mark, and text that may quote what came from
   outside and so goes through the sanitiser. */
static void
own_line(struct view *v, enum style style, const char *where, const char *mark,
         const char *text)
{
    enum out_channel ch = view_side(v);
    struct out *out = v->config.out;

    view_speak(v, ch, VOICE_OWN);
    out_style(out, ch, style);
    out_say(out, ch, where);
    out_say(out, ch, mark);
    if (style != STYLE_DIM)
        out_style(out, ch, STYLE_PLAIN);
    out_inline(out, ch, SANITIZE_ERROR, text, strlen(text));
    if (style == STYLE_DIM)
        out_style(out, ch, STYLE_PLAIN);
    out_say(out, ch, "\n");
}

static void
note_text(struct view *v, const char *text)
{
    AUTO_FREE char *mark = xasprintf("%s ", view_dot(v));

    own_line(v, STYLE_DIM, "", mark, text);
}

void
view_note(struct view *v, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf sb = {0};
    va_list ap;

    sbuf_init(&sb, MAX_LINE_BYTES);
    va_start(ap, fmt);
    sbuf_vaddf(&sb, fmt, ap);
    va_end(ap);
    note_text(v, sb.data);
}

void
view_warning(struct view *v, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf sb = {0};
    va_list ap;

    sbuf_init(&sb, MAX_LINE_BYTES);
    va_start(ap, fmt);
    sbuf_vaddf(&sb, fmt, ap);
    va_end(ap);
    own_line(v, STYLE_WARNING, v->where, "warning: ", sb.data);
}

void
view_error(struct view *v, const struct error *err)
{
    /* A message of two lines has its remedy on the second. */
    size_t len = strcspn(err->msg, "\n");
    AUTO_FREE char *first = xstrndup(err->msg, len);

    own_line(v, STYLE_FAILURE, v->where, "error: ", first);
    if (err->msg[len] == '\n' && err->msg[len + 1] != '\0')
        own_line(v, STYLE_PLAIN, "", "  ", err->msg + len + 1);
}

void
view_print(struct view *v, const char *text)
{
    view_speak(v, view_main(v), VOICE_OWN);
    out_say(v->config.out, view_main(v), text);
}

void
view_question(struct view *v, const char *question)
{
    struct out_stream s = {.context = SANITIZE_MODEL, .channel = view_side(v)};

    view_speak(v, view_side(v), VOICE_PERSON);
    out_say(v->config.out, view_side(v), "> ");
    out_text(v->config.out, &s, question, strlen(question));
    out_text_end(v->config.out, &s);
}

/* ---- the live line --------------------------------------------------------
 */

static void
draw_status(struct view *v)
{
    AUTO_SBUF struct sbuf sb = {0};
    int64_t ms = clock_now_ms() - v->status_since_ms;

    sbuf_init(&sb, MAX_LINE_BYTES);
    sbuf_add_str(&sb, v->status);
    if (ms >= STATUS_TICK_MS)
        sbuf_addf(&sb, " %s %" PRId64 " s", view_dot(v), ms / 1000);
    sbuf_addf(&sb, " %s Ctrl-C stops", view_dot(v));
    out_status(v->config.out, sb.data);
}

static void
on_status_tick(void *ctx)
{
    struct view *v = ctx;

    v->status_timer =
        loop_add_timer(v->config.loop, STATUS_TICK_MS, on_status_tick, v);
    draw_status(v);
}

void
view_status(struct view *v, const char *text)
{
    if (v->status_timer != NULL)
        loop_timer_remove(v->status_timer);
    v->status_timer = NULL;
    free(v->status);
    v->status = xstrdup(text);
    if (!out_is_terminal(v->config.out) || !out_has_sequences(v->config.out))
        return;
    if (text == NULL) {
        out_status(v->config.out, NULL);
        return;
    }
    v->status_since_ms = clock_now_ms();
    v->status_timer =
        loop_add_timer(v->config.loop, STATUS_TICK_MS, on_status_tick, v);
    draw_status(v);
}

/* ---- the model ------------------------------------------------------------
 */

static void
show_model_text(struct view *v, const struct event *ev, struct out_stream *s,
                bool *open, enum out_channel ch, enum voice voice)
{
    const char *text = ev->text;
    size_t len = ev->len;

    /* Line ends before the first word would be holes in the page. */
    while (!*open && len > 0 && (text[0] == '\n' || text[0] == ' ')) {
        text++;
        len--;
    }
    if (len > 0) {
        if (!*open) {
            view_speak(v, ch, voice);
            *s = (struct out_stream){
                .context = SANITIZE_MODEL,
                .channel = ch,
                .style = voice == VOICE_THINKING ? STYLE_DIM : STYLE_PLAIN,
                .shift_marks = true,
            };
            *open = true;
        }
        out_text(v->config.out, s, text, len);
    }
    if (ev->end && *open) {
        out_text_end(v->config.out, s);
        *open = false;
    }
}

/* ---- cells ----------------------------------------------------------------
 */

void
view_code(struct view *v, int number, const char *code)
{
    enum out_channel ch = view_side(v);
    struct out *out = v->config.out;
    struct out_stream s = {.context = SANITIZE_CODE,
                           .channel = ch,
                           .style = STYLE_CODE,
                           .max_columns = SIZE_MAX};

    view_speak(v, ch, VOICE_CODE);
    out_style(out, ch, STYLE_DIM);
    if (number > 0)
        out_sayf(out, ch, "%s %d python", rule(v), number);
    else
        out_say(out, ch, rule(v));
    out_style(out, ch, STYLE_PLAIN);
    out_say(out, ch, "\n");
    out_text(out, &s, code, strlen(code));
    out_text_end(out, &s);
    out_line(out, ch, STYLE_DIM, rule(v));
}

void
view_block(struct view *v, const char *text)
{
    struct out_stream s = {.context = SANITIZE_PROGRAM,
                           .channel = view_side(v),
                           .margin = margin(v)};

    view_speak(v, view_side(v), VOICE_PROGRAM);
    out_text(v->config.out, &s, text, strlen(text));
    out_text_end(v->config.out, &s);
}

static void
open_program(struct view *v, struct view_program *p)
{
    sbuf_fini(&p->tail);
    memset(p, 0, sizeof(*p));
    sbuf_init(&p->tail, VIEW_TAIL_BYTES);
    p->stream = (struct out_stream){.context = SANITIZE_PROGRAM,
                                    .channel = view_side(v),
                                    .margin = margin(v)};
    p->open = true;
}

/* Bytes of data up to and with the n-th line end, or all of them. */
static size_t
find_line_end(const char *data, size_t len, size_t n, size_t *found)
{
    *found = 0;
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' && ++*found == n)
            return i + 1;
    }
    return len;
}

/* Keeps what comes behind the head: only its end is shown. */
static void
keep_tail(struct view_program *p, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p->n_tail_lines += data[i] == '\n';
    if (len > VIEW_TAIL_BYTES / 2) {
        p->n_tail_dropped_bytes += p->tail.len + len - VIEW_TAIL_BYTES / 2;
        sbuf_clear(&p->tail);
        data += len - VIEW_TAIL_BYTES / 2;
        len = VIEW_TAIL_BYTES / 2;
    }
    if (p->tail.len + len > VIEW_TAIL_BYTES) {
        size_t drop = p->tail.len + len - VIEW_TAIL_BYTES / 2;

        if (drop > p->tail.len)
            drop = p->tail.len;
        p->n_tail_dropped_bytes += drop;
        sbuf_drop(&p->tail, drop);
    }
    sbuf_add(&p->tail, data, len);
}

static void
show_program(struct view *v, const struct event *ev)
{
    struct view_program *p = &v->program[ev->stream];
    struct view_program *other = &v->program[1 - ev->stream];
    size_t n_lines = 0;
    size_t n = 0;

    if (!p->open)
        open_program(v, p);
    end_program_line(v, other);
    if (p->n_lines < VIEW_HEAD_LINES) {
        n = find_line_end(ev->text, ev->len, VIEW_HEAD_LINES - p->n_lines,
                          &n_lines);
        p->n_lines += n_lines;
        view_speak(v, view_side(v), VOICE_PROGRAM);
        out_text(v->config.out, &p->stream, ev->text, n);
    }
    if (n < ev->len)
        keep_tail(p, ev->text + n, ev->len - n);
}

/* Where the last n lines of text begin. */
static size_t
last_lines(const char *text, size_t len, size_t n)
{
    size_t found = 0;

    for (size_t i = len; i > 0; i--) {
        if (text[i - 1] == '\n' && i != len && ++found == n)
            return i;
    }
    return 0;
}

/* Shows the end of what was kept back, with a count of what was not. */
static void
show_tail(struct view *v, struct view_program *p)
{
    size_t at = last_lines(p->tail.data, p->tail.len, VIEW_TAIL_LINES);
    uint64_t n_shown = 0;

    if (p->tail.len == 0)
        return;
    for (size_t i = at; i < p->tail.len; i++)
        n_shown += p->tail.data[i] == '\n';
    if (at > 0 || p->n_tail_dropped_bytes > 0) {
        AUTO_SBUF struct sbuf sb = {0};
        uint64_t n_left = p->n_tail_lines - n_shown;

        sbuf_init(&sb, MAX_LINE_BYTES);
        str_add_grouped(&sb, (int64_t)(n_left > 0 ? n_left : 1));
        view_note(v, "%s lines of output are left out here", sb.data);
    }
    view_speak(v, view_side(v), VOICE_PROGRAM);
    out_text(v->config.out, &p->stream, p->tail.data + at, p->tail.len - at);
}

/* What of a program's output is not on the screen as it was written. */
static void
tell_removed(struct view *v, size_t n_restarts, size_t n_dropped)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (n_restarts == 0 && n_dropped == 0)
        return;
    sbuf_init(&sb, MAX_LINE_BYTES);
    if (n_restarts > 0)
        sbuf_addf(&sb, "%zu line%s overwritten", n_restarts,
                  n_restarts == 1 ? "" : "s");
    if (n_dropped > 0)
        sbuf_addf(&sb, "%s%zu control sequence%s removed",
                  sb.len > 0 ? ", " : "", n_dropped, n_dropped == 1 ? "" : "s");
    note_text(v, sb.data);
}

static void
close_program(struct view *v, struct view_program *p)
{
    size_t n_restarts = 0;
    size_t n_dropped = 0;

    if (!p->open)
        return;
    show_tail(v, p);
    if (p->stream.begun)
        out_text_end(v->config.out, &p->stream);
    n_restarts = p->stream.san.n_restarts;
    n_dropped = p->stream.san.n_dropped;
    p->open = false;
    sbuf_fini(&p->tail);
    tell_removed(v, n_restarts, n_dropped);
}

static void
close_programs(struct view *v)
{
    close_program(v, &v->program[EVENT_STDOUT]);
    close_program(v, &v->program[EVENT_STDERR]);
}

/* ---- results --------------------------------------------------------------
 */

/* "2", or "2.1" when it is not the first output of its cell. */
static char *
make_address(int cell, int index)
{
    return index == 0 ? xasprintf("%d", cell)
                      : xasprintf("%d.%d", cell, index + 1);
}

static void
show_table(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *address = make_address(ev->cell, ev->output->index);
    struct out *out = v->config.out;
    struct table_options options = {
        .width = out_columns(out),
        .unicode = out_has_unicode(out),
        .sequences = out_is_terminal(out) && out_has_sequences(out),
        .colour = out_is_terminal(out) && out_has_colour(out),
        .address = address,
    };

    sbuf_init(&sb, MAX_TABLE_BYTES);
    table_render(ev->output->table, &options, &sb);
    view_speak(v, view_main(v), VOICE_TABLE);
    out_ready(out, view_main(v), sb.data, sb.len);
}

/* Adds untrusted text as a part of a caption, with a dot before it. */
static void
add_part(const struct view *v, struct sbuf *sb, const char *text)
{
    if (str_blank(text))
        return;
    sbuf_addf(sb, " %s ", view_dot(v));
    sbuf_add(sb, text, utf8_floor(text, strlen(text), 200));
}

static void
show_chart(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    const struct output *o = ev->output;
    const struct recorder_output *kept =
        recorder_output(v->config.recorder, ev->cell, o->index);
    AUTO_FREE char *address = make_address(ev->cell, o->index);
    const char *path = kept != NULL ? kept->path : NULL;
    bool drawn = false;

    view_speak(v, view_side(v), VOICE_TABLE);
    drawn = view_picture_show(v, o);
    sbuf_init(&sb, MAX_LINE_BYTES);
    if (path != NULL)
        sbuf_add_str(&sb, drawn ? paths_base(path) : path);
    else
        sbuf_add_str(&sb, "chart");
    add_part(v, &sb, o->title);
    add_part(v, &sb, o->what);
    if (path != NULL)
        sbuf_addf(&sb, " %s :save %s", view_dot(v), address);
    note_text(v, sb.data);
    if (path == NULL && kept != NULL && kept->problem != NULL)
        view_warning(v, "the chart could not be saved: %s", kept->problem);
}

static void
show_result(struct view *v, const struct event *ev)
{
    const struct output *o = ev->output;

    /* Output that the cell printed before comes first; it may go on after. */
    end_lines(v);
    if (o->png != NULL) {
        show_chart(v, ev);
    } else if (o->table != NULL) {
        show_table(v, ev);
    } else if (o->text != NULL) {
        struct out_stream s = {.context = SANITIZE_PROGRAM,
                               .channel = view_side(v),
                               .margin = margin(v)};

        view_speak(v, view_side(v), VOICE_PROGRAM);
        out_text(v->config.out, &s, o->text, o->text_len);
        out_text_end(v->config.out, &s);
    }
}

static void
show_file(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf name = {0};
    const char *problem = NULL;
    const char *path = recorder_file(v->config.recorder, &problem);

    sbuf_init(&name, MAX_LINE_BYTES);
    sanitize_text(SANITIZE_NAME, ev->file->name,
                  utf8_floor(ev->file->name, strlen(ev->file->name), 512),
                  &name);
    if (ev->file->refused != NULL) {
        view_warning(v, "the cell left %s: %s; it is not copied", name.data,
                     ev->file->refused);
        return;
    }
    sbuf_init(&sb, MAX_LINE_BYTES);
    str_add_bytes(&sb, ev->file->size_bytes);
    if (path != NULL)
        view_note(v, "%s %s %s %s %s", name.data, view_dot(v), sb.data,
                  view_dot(v), path);
    else
        view_warning(v, "%s (%s) could not be saved: %s", name.data, sb.data,
                     problem != NULL ? problem : "no reason is known");
}

/* ---- errors and ends ------------------------------------------------------
 */

/* The line of the cell's code in which the traceback ends; 0: not known. */
static int
find_error_line(const char *traceback, int cell)
{
    AUTO_FREE char *frame = xasprintf("<cell %d>", cell);
    const char *last = NULL;
    const char *number = NULL;

    for (const char *p = traceback; p != NULL;) {
        p = strstr(p, frame);
        if (p == NULL)
            break;
        last = p;
        p += strlen(frame);
    }
    if (last == NULL)
        return 0;
    number = strstr(last, "line ");
    if (number == NULL)
        return 0;
    return (int)strtol(number + strlen("line "), NULL, 10);
}

/* Adds line number n (from 1) of code. */
static void
add_code_line(struct sbuf *sb, const char *code, int n)
{
    for (int i = 1; i < n; i++) {
        code += strcspn(code, "\n");
        if (*code == '\0')
            return;
        code++;
    }
    code += strspn(code, " \t");
    sbuf_add(sb, code, utf8_floor(code, strcspn(code, "\n"), 300));
}

static void
show_error(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    const struct recorder_cell *cell =
        recorder_cell(v->config.recorder, ev->cell);
    int line = find_error_line(ev->traceback, ev->cell);

    close_programs(v);
    sbuf_init(&sb, MAX_LINE_BYTES * 4);
    sbuf_add_str(&sb, ev->error_name);
    if (ev->len > 0) {
        sbuf_add_str(&sb, ": ");
        sbuf_add(&sb, ev->text, utf8_floor(ev->text, ev->len, MAX_LINE_BYTES));
    }
    if (line > 0 && cell != NULL) {
        sbuf_addf(&sb, "\n  line %d: ", line);
        add_code_line(&sb, cell->code, line);
    }
    view_block(v, sb.data);
    if (event_outcome_lost(ev->outcome))
        return;
    sbuf_clear(&sb);
    if (ev->hint != NULL)
        add_part(v, &sb, ev->hint);
    view_note(v, "cell %d failed, Claude is told%s %s :trace %d", ev->cell,
              sb.data, view_dot(v), ev->cell);
}

static void
end_cell(struct view *v, const struct event *ev)
{
    close_programs(v);
    if (ev->text != NULL && ev->outcome != EVENT_OK)
        view_warning(v, "cell %d: %.*s", ev->cell, (int)ev->len, ev->text);
    else if (ev->outcome == EVENT_INTERRUPTED)
        view_note(v, "cell %d was stopped; variables are kept", ev->cell);
}

static void
add_closing_part(const struct view *v, struct sbuf *sb, const char *text)
{
    if (sb->len > 0)
        sbuf_addf(sb, " %s ", view_dot(v));
    sbuf_add_str(sb, text);
}

/* How it ended, cells, and the time when it was long enough to matter. */
static void
add_closing(const struct view *v, const struct event *ev, struct sbuf *sb)
{
    if (ev->outcome == EVENT_INTERRUPTED)
        add_closing_part(v, sb, "stopped by Ctrl-C");
    if (ev->n_cells > 0) {
        AUTO_FREE char *cells =
            xasprintf("%d cell%s", ev->n_cells, ev->n_cells == 1 ? "" : "s");

        add_closing_part(v, sb, cells);
    }
    if (ev->duration_ms >= STATUS_TICK_MS) {
        AUTO_SBUF struct sbuf time = {0};

        sbuf_init(&time, 64);
        str_add_duration(&time, ev->duration_ms);
        add_closing_part(v, sb, time.data);
    }
}

static void
end_turn(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};

    view_status(v, NULL);
    end_lines(v);
    if (ev->err != NULL) {
        view_error(v, ev->err);
        return;
    }
    sbuf_init(&sb, MAX_LINE_BYTES);
    add_closing(v, ev, &sb);
    if (sb.len == 0)
        return;
    if (v->voice[view_side(v)] != VOICE_OWN)
        out_say(v->config.out, view_side(v), "\n");
    v->voice[view_side(v)] = VOICE_OWN;
    note_text(v, sb.data);
}

static void
show_notice(struct view *v, const struct event *ev)
{
    AUTO_FREE char *text = xstrndup(ev->text, ev->len);
    struct error err = {0};

    switch (ev->level) {
    case EVENT_INFO:
        note_text(v, text);
        break;
    case EVENT_WARNING:
        own_line(v, STYLE_WARNING, v->where, "warning: ", text);
        break;
    case EVENT_FAILURE:
        error_fill(&err, ERR_INTERNAL, "%s", text);
        view_error(v, &err);
        break;
    }
}

static void
show_status(struct view *v, const struct event *ev)
{
    AUTO_FREE char *text = xstrndup(ev->text, ev->len);

    view_status(v, text);
}

static int
view_put(void *sink, const struct event *ev, struct error *err)
{
    struct view *v = sink;

    (void)err;
    switch (ev->kind) {
    case EVENT_THINKING:
        show_model_text(v, ev, &v->thinking, &v->thinking_open, view_side(v),
                        VOICE_THINKING);
        break;
    case EVENT_TEXT:
        show_model_text(v, ev, &v->model, &v->model_open, view_main(v),
                        VOICE_MODEL);
        break;
    case EVENT_CODE: {
        AUTO_FREE char *code = xstrndup(ev->text, ev->len);

        view_code(v, ev->cell, code);
        break;
    }
    case EVENT_OUTPUT:
        show_program(v, ev);
        break;
    case EVENT_RESULT:
        show_result(v, ev);
        break;
    case EVENT_FILE:
        show_file(v, ev);
        break;
    case EVENT_LOAD:
        view_load(v, ev->load);
        break;
    case EVENT_NOTICE:
        show_notice(v, ev);
        break;
    case EVENT_STATUS:
        show_status(v, ev);
        break;
    case EVENT_ERROR:
        show_error(v, ev);
        break;
    case EVENT_DONE:
        if (ev->scope == EVENT_SCOPE_CELL)
            end_cell(v, ev);
        else
            end_turn(v, ev);
        break;
    case EVENT_QUESTION:
    case EVENT_REPLY:
    case EVENT_USAGE:
        break;
    }
    return 0;
}

/* ---- life -----------------------------------------------------------------
 */

/* Standard output and standard error joined, as by "2>&1". */
static bool
is_same_target(void)
{
    struct stat one;
    struct stat two;

    return fstat(STDOUT_FILENO, &one) == 0 && fstat(STDERR_FILENO, &two) == 0 &&
           one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

struct view *
view_new(const struct view_config *config)
{
    struct view *v = xcalloc(1, sizeof(*v));

    v->config = *config;
    v->where = "";
    v->one_target = out_is_terminal(config->out) || is_same_target();
    return v;
}

void
view_free(struct view *v)
{
    if (v == NULL)
        return;
    view_status(v, NULL);
    end_lines(v);
    view_pictures_free(v);
    sbuf_fini(&v->program[0].tail);
    sbuf_fini(&v->program[1].tail);
    free(v->status);
    free(v);
}

void
view_set_where(struct view *v, const char *where)
{
    v->where = where;
}

void
view_on_drawn(struct view *v, void (*fn)(void *ctx), void *ctx)
{
    v->on_drawn = fn;
    v->on_drawn_ctx = ctx;
}

bool
view_is_drawing(const struct view *v)
{
    return v->pictures != NULL;
}

const struct sink_ops view_sink = {
    .name = "view",
    .put = view_put,
    .barrier = NULL,
};
