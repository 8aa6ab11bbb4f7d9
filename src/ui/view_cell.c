/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/event.h"
#include "model/output.h"
#include "model/table.h"
#include "render/table_layout.h"
#include "store/recorder.h"
#include "ui/view_internal.h"

#define MAX_TABLE_BYTES (1u << 20)

/* ---- cells ----------------------------------------------------------------
 */

void
view_code(struct view *v, int number, const char *language, const char *code)
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
        out_sayf(out, ch, "%s %d %s", view_rule(v), number,
                 language != NULL ? language : "python");
    else
        out_say(out, ch, view_rule(v));
    out_style(out, ch, STYLE_PLAIN);
    out_say(out, ch, "\n");
    out_text(out, &s, code, strlen(code));
    out_text_end(out, &s);
    out_line(out, ch, STYLE_DIM, view_rule(v));
}

/* What a program gave, whole; of s the channel is set, and a limit of columns
   if there is one. */
static void
show_block(struct view *v, struct out_stream s, const char *data, size_t len)
{
    s.context = SANITIZE_PROGRAM;
    s.margin = view_margin(v);
    s.wrap = true;
    view_speak(v, s.channel, VOICE_PROGRAM);
    out_text(v->config.out, &s, data, len);
    out_text_end(v->config.out, &s);
}

void
view_block(struct view *v, const char *text)
{
    show_block(v, (struct out_stream){.channel = view_side(v)}, text,
               strlen(text));
}

void
view_full(struct view *v, const char *data, size_t len)
{
    show_block(
        v,
        (struct out_stream){.channel = view_main(v), .max_columns = SIZE_MAX},
        data, len);
}

static void
open_program(struct view *v, struct view_program *p)
{
    sbuf_fini(&p->tail);
    memset(p, 0, sizeof(*p));
    sbuf_init(&p->tail, VIEW_TAIL_BYTES);
    p->stream = (struct out_stream){.context = SANITIZE_PROGRAM,
                                    .channel = view_side(v),
                                    .margin = view_margin(v),
                                    .wrap = true};
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

void
view_show_program(struct view *v, const struct event *ev)
{
    struct view_program *p = &v->program[ev->stream];
    struct view_program *other = &v->program[1 - ev->stream];
    size_t n_lines = 0;
    size_t n = 0;

    if (!p->open)
        open_program(v, p);
    p->cell = ev->cell;
    view_end_program_line(v, other);
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
        const char *plural = n_left > 1 ? "s" : "";

        sbuf_init(&sb, VIEW_LINE_BYTES);
        str_add_grouped(&sb, (int64_t)(n_left > 0 ? n_left : 1));
        if (v->config.no_commands)
            view_note(v, "%s line%s of output left out here", sb.data, plural);
        else
            view_note(v, "%s line%s of output left out here %s :full %d",
                      sb.data, plural, view_dot(v), p->cell);
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
    sbuf_init(&sb, VIEW_LINE_BYTES);
    if (n_restarts > 0)
        sbuf_addf(&sb, "%zu line%s overwritten", n_restarts,
                  n_restarts == 1 ? "" : "s");
    if (n_dropped > 0)
        sbuf_addf(&sb, "%s%zu control sequence%s removed",
                  sb.len > 0 ? ", " : "", n_dropped, n_dropped == 1 ? "" : "s");
    view_note_text(v, sb.data);
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

struct table_options
view_table_options(const struct view *v)
{
    struct out *out = v->config.out;

    return (struct table_options){
        .width = out_columns(out),
        .unicode = out_has_unicode(out),
        .sequences = out_is_terminal(out) && out_has_sequences(out),
        .colour = out_is_terminal(out) && out_has_colour(out),
    };
}

void
view_table(struct view *v, const char *text, size_t len)
{
    view_speak(v, view_main(v), VOICE_TABLE);
    out_ready(v->config.out, view_main(v), text, len);
}

static void
show_table(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *address = make_address(ev->cell, ev->output->index);
    struct table_options options = view_table_options(v);

    options.address = v->config.no_commands ? NULL : address;
    sbuf_init(&sb, MAX_TABLE_BYTES);
    table_render(ev->output->table, &options, &sb);
    view_table(v, sb.data, sb.len);
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
    sbuf_init(&sb, VIEW_LINE_BYTES);
    if (path != NULL)
        sbuf_add_str(&sb, drawn ? paths_base(path) : path);
    else
        sbuf_add_str(&sb, "chart");
    add_part(v, &sb, o->title);
    add_part(v, &sb, o->what);
    if (path != NULL && !v->config.no_commands)
        sbuf_addf(&sb, " %s :save %s", view_dot(v), address);
    view_note_text(v, sb.data);
    if (path == NULL && kept != NULL && kept->problem != NULL)
        view_warning(v, "the chart could not be saved: %s", kept->problem);
}

void
view_show_result(struct view *v, const struct event *ev)
{
    const struct output *o = ev->output;

    /* Output that the cell printed before comes first; it may go on after. */
    view_end_lines(v);
    if (o->png != NULL) {
        show_chart(v, ev);
    } else if (o->table != NULL) {
        show_table(v, ev);
    } else if (o->text != NULL) {
        show_block(v, (struct out_stream){.channel = view_side(v)}, o->text,
                   o->text_len);
    }
}

/* Whether the cell has shown a chart: its figures are shown without being
   saved, so that a picture that it saved as well would be there twice. */
static bool
has_chart(const struct view *v, int cell)
{
    const struct recorder_cell *c = recorder_cell(v->config.recorder, cell);

    for (size_t i = 0; c != NULL && i < c->n_outputs; i++) {
        if (c->outputs[i].kind == RECORDER_CHART)
            return true;
    }
    return false;
}

enum drawing { NOT_DRAWN, DRAWN, TOO_LARGE };

/* Draws a picture that the cell has saved and not shown. */
static enum drawing
draw_file(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf data = {0};
    struct error err = {0};
    struct output picture = {0};

    if (!view_can_draw(v) || !str_ends(ev->file->name, ".png") ||
        has_chart(v, ev->cell))
        return NOT_DRAWN;
    if (ev->file->size_bytes > VIEW_FILE_BYTES)
        return TOO_LARGE;
    sbuf_init(&data, VIEW_FILE_BYTES + 1);
    if (lseek(ev->file->fd, 0, SEEK_SET) != 0 ||
        io_read_all(ev->file->fd, &data, &err) < 0 || data.len == 0)
        return NOT_DRAWN;
    picture.png = (unsigned char *)data.data;
    picture.png_len = data.len;
    if (!output_png_size(picture.png, picture.png_len, &picture.width_px,
                         &picture.height_px))
        return NOT_DRAWN;
    if ((uint64_t)picture.width_px * (uint64_t)picture.height_px >
        OUTPUT_MAX_PIXELS)
        return TOO_LARGE;
    view_speak(v, view_side(v), VOICE_TABLE);
    return view_picture_show(v, &picture) ? DRAWN : NOT_DRAWN;
}

static void
tell_file(struct view *v, const struct event *ev, const char *name)
{
    AUTO_SBUF struct sbuf size = {0};
    const char *problem = NULL;
    const char *path = recorder_file(v->config.recorder, &problem);
    const char *dot = view_dot(v);

    sbuf_init(&size, VIEW_LINE_BYTES);
    str_add_bytes(&size, ev->file->size_bytes);
    if (path == NULL) {
        view_warning(v, "%s (%s) could not be saved: %s", name, size.data,
                     problem != NULL ? problem : "no reason is known");
        return;
    }
    if (draw_file(v, ev) == TOO_LARGE)
        sbuf_add_str(&size, ", too large to be drawn");
    view_note(v, "%s %s %s %s %s", name, dot, size.data, dot, path);
}

void
view_show_file(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf name = {0};
    const struct event_file *file = ev->file;

    sbuf_init(&name, VIEW_LINE_BYTES);
    sanitize_text(SANITIZE_NAME, file->name,
                  utf8_floor(file->name, strlen(file->name), 512), &name);
    if (file->refused != NULL)
        view_warning(v, "the cell %s %s: %s; it is not copied%s%s",
                     file->offered ? "shows" : "left", name.data, file->refused,
                     file->advice != NULL ? "; " : "",
                     file->advice != NULL ? file->advice : "");
    else
        tell_file(v, ev, name.data);
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

void
view_show_error(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};
    const struct recorder_cell *cell =
        recorder_cell(v->config.recorder, ev->cell);
    int line = find_error_line(ev->traceback, ev->cell);

    /* A stop is told once, at the end of the cell; the exception that it was
       made with is the program's own doing. */
    if (ev->outcome != EVENT_FAILED)
        return;
    close_programs(v);
    sbuf_init(&sb, VIEW_LINE_BYTES * 4);
    sbuf_add_str(&sb, ev->error_name);
    if (ev->len > 0) {
        sbuf_add_str(&sb, ": ");
        sbuf_add(&sb, ev->text, utf8_floor(ev->text, ev->len, VIEW_LINE_BYTES));
    }
    if (line > 0 && cell != NULL) {
        sbuf_addf(&sb, "\n  line %d: ", line);
        add_code_line(&sb, cell->code, line);
    }
    view_block(v, sb.data);
    sbuf_clear(&sb);
    if (ev->hint != NULL)
        add_part(v, &sb, ev->hint);
    if (!v->config.no_commands)
        sbuf_addf(&sb, " %s :trace %d", view_dot(v), ev->cell);
    view_note(v, "cell %d failed, Claude is told%s", ev->cell, sb.data);
}

/* Adds what the sandbox says of a stop, one sentence of two halves, as the
   parts of a remark. */
static void
add_reason(const struct view *v, struct sbuf *sb, const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == '.')
        len--;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ';' && i + 1 < len && text[i + 1] == ' ') {
            sbuf_addf(sb, " %s", view_dot(v));
            continue;
        }
        sbuf_add_char(sb, i == 0 && text[i] >= 'A' && text[i] <= 'Z'
                              ? (char)(text[i] - 'A' + 'a')
                              : text[i]);
    }
}

/* A stop is not the program's fault, and ends nothing but the cell: one calm
   line. That the interpreter was lost is a warning. */
static void
tell_stop(struct view *v, const struct event *ev)
{
    static const char STOPPED[] = "Stopped; variables are kept.";
    const char *text = ev->text != NULL ? ev->text : STOPPED;
    size_t len = ev->text != NULL ? ev->len : strlen(STOPPED);
    const char *kept = memchr(text, ';', len);
    AUTO_SBUF struct sbuf sb = {0};

    /* What is kept is gone in a moment where the run ends with the turn. */
    if (ev->outcome == EVENT_INTERRUPTED && v->config.run_ends && kept != NULL)
        len = (size_t)(kept - text);
    sbuf_init(&sb, VIEW_LINE_BYTES);
    sbuf_addf(&sb, "cell %d: ", ev->cell);
    add_reason(v, &sb, text, len);
    /* After Ctrl-C nothing is sent before the next question. */
    if (ev->outcome != EVENT_INTERRUPTED)
        sbuf_addf(&sb, " %s Claude is told", view_dot(v));
    view_note_text(v, sb.data);
}

void
view_end_cell(struct view *v, const struct event *ev)
{
    close_programs(v);
    if (ev->text != NULL && event_outcome_lost(ev->outcome))
        view_warning(v, "cell %d: %.*s", ev->cell, (int)ev->len, ev->text);
    /* A cell that was not stopped has a reason where variables were lost before
       it, which was said when it was known. */
    else if (ev->outcome == EVENT_INTERRUPTED ||
             (ev->text != NULL && ev->outcome != EVENT_OK &&
              ev->outcome != EVENT_FAILED))
        tell_stop(v, ev);
}
