/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/event.h"
#include "model/price.h"
#include "model/sink.h"
#include "term/tty.h"
#include "ui/view_internal.h"

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

const char *
view_rule(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x94\x80\xE2\x94\x80" : "--";
}

const char *
view_margin(const struct view *v)
{
    return out_has_unicode(v->config.out) ? "\xE2\x94\x82 " : "| ";
}

void
view_end_program_line(struct view *v, struct view_program *p)
{
    if (p->open && p->stream.in_line)
        out_text_end(v->config.out, &p->stream);
}

void
view_end_lines(struct view *v)
{
    if (v->model_open) {
        out_text_end(v->config.out, &v->model);
        v->model_open = false;
    }
    if (v->thinking_open) {
        out_text_end(v->config.out, &v->thinking);
        v->thinking_open = false;
    }
    view_end_program_line(v, &v->program[0]);
    view_end_program_line(v, &v->program[1]);
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
        view_end_lines(v);
    /* What stands between two tables may go elsewhere. */
    if (!follows_closely(last, voice) ||
        (ch == OUT_MAIN && !v->one_target && last == VOICE_TABLE &&
         voice == VOICE_TABLE))
        out_say(v->config.out, ch, "\n");
    v->voice[ch] = voice;
    if (v->one_target)
        v->voice[1 - ch] = voice;
}

void
view_break(struct view *v)
{
    view_end_lines(v);
    v->voice[OUT_MAIN] = VOICE_PERSON;
    v->voice[OUT_SIDE] = VOICE_PERSON;
}

void
view_gap(struct view *v)
{
    view_end_lines(v);
    out_say(v->config.out, view_side(v), "\n");
    v->voice[OUT_MAIN] = VOICE_NONE;
    v->voice[OUT_SIDE] = VOICE_NONE;
}

/* ---- the program's own words ----------------------------------------------
 */

/* Where a line of at most width columns of text ends: at a blank if there is
   one, else as far as it fits. *skip: bytes of the blank behind it. */
static size_t
find_break(const char *text, size_t len, size_t width, size_t *skip)
{
    size_t used = 0;
    size_t n = utf8_fit(text, len, width, &used);

    *skip = 0;
    if (n == len)
        return n;
    for (size_t i = n; i > 0; i--) {
        if (text[i] == ' ') {
            *skip = 1;
            return i;
        }
    }
    /* A long word, such as a path, is left to the terminal, so that it can be
       copied whole. */
    n = strcspn(text, " ");
    *skip = n < len;
    return n;
}

/* Writes text behind used columns; what does not fit follows on lines that are
   moved right. Elsewhere than on a terminal a line stays one line. */
static void
write_wrapped(struct view *v, enum out_channel ch, size_t used,
              const char *text)
{
    struct out *out = v->config.out;
    AUTO_SBUF struct sbuf shown = {0};
    AUTO_SBUF struct sbuf clean = {0};
    size_t columns = (size_t)out_columns(out);
    const char *p = NULL;
    size_t len = 0;

    /* A service may repeat the key that it refuses. */
    sbuf_init(&shown, VIEW_LINE_BYTES * 4);
    log_add_hidden(&shown, text, strlen(text));
    sbuf_init(&clean, VIEW_LINE_BYTES * 32);
    sanitize_text(SANITIZE_ERROR, shown.data, shown.len, &clean);
    p = clean.data;
    len = clean.len;
    while (out_is_terminal(out)) {
        size_t skip = 0;
        size_t n = find_break(
            p, len, columns > used + 1 ? columns - used - 1 : 1, &skip);

        if (n == len)
            break;
        out_ready(out, ch, p, n);
        out_say(out, ch, "\n  ");
        p += n + skip;
        len -= n + skip;
        used = 2;
    }
    out_ready(out, ch, p, len);
}

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
    write_wrapped(v, ch,
                  utf8_width(where, strlen(where)) +
                      utf8_width(mark, strlen(mark)),
                  text);
    if (style == STYLE_DIM)
        out_style(out, ch, STYLE_PLAIN);
    out_say(out, ch, "\n");
}

void
view_note_text(struct view *v, const char *text)
{
    AUTO_FREE char *mark = xasprintf("%s ", view_dot(v));

    own_line(v, STYLE_DIM, "", mark, text);
}

void
view_note(struct view *v, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf sb = {0};
    va_list ap;

    sbuf_init(&sb, VIEW_LINE_BYTES);
    va_start(ap, fmt);
    sbuf_vaddf(&sb, fmt, ap);
    va_end(ap);
    view_note_text(v, sb.data);
}

void
view_warning(struct view *v, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf sb = {0};
    va_list ap;

    sbuf_init(&sb, VIEW_LINE_BYTES);
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

/* ---- the model ------------------------------------------------------------
 */

void
view_show_words(struct view *v, const struct event *ev, struct out_stream *s,
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
            /* Paragraphs; a script sees nothing else between two of them. */
            if (v->voice[ch] == voice)
                out_say(v->config.out, ch, "\n");
            view_speak(v, ch, voice);
            *s = (struct out_stream){
                .context = SANITIZE_MODEL,
                .channel = ch,
                .style = voice == VOICE_THINKING ? STYLE_DIM : STYLE_PLAIN,
                .shift_marks = true,
                .wrap = true,
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

/* ---- ends ---------------------------------------------------------------- */

void
view_add_part(const struct view *v, struct sbuf *sb, const char *text)
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
        view_add_part(v, sb, "stopped by Ctrl-C");
    if (ev->n_cells > 0) {
        AUTO_FREE char *cells =
            xasprintf("%d cell%s", ev->n_cells, ev->n_cells == 1 ? "" : "s");

        view_add_part(v, sb, cells);
    }
    if (ev->duration_ms >= VIEW_TIME_MS) {
        AUTO_SBUF struct sbuf time = {0};

        sbuf_init(&time, 64);
        str_add_duration(&time, ev->duration_ms);
        view_add_part(v, sb, time.data);
    }
    if (ev->cost_nanousd > 0) {
        AUTO_SBUF struct sbuf cost = {0};

        sbuf_init(&cost, 64);
        if (ev->cost_at_least)
            sbuf_add_str(&cost, "at least ");
        price_add_cost(&cost, ev->cost_nanousd);
        view_add_part(v, sb, cost.data);
    }
}

static void
end_turn(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};

    view_status(v, NULL);
    view_drop_thinking(v, ev);
    view_forget_words(v);
    view_end_lines(v);
    if (ev->err != NULL && ev->outcome == EVENT_LIMIT) {
        view_tell_limit(v, ev);
        return;
    }
    if (ev->err != NULL) {
        view_error(v, ev->err);
        view_offer_retry(v, ev->err);
        return;
    }
    sbuf_init(&sb, VIEW_LINE_BYTES);
    add_closing(v, ev, &sb);
    if (sb.len == 0)
        return;
    if (v->voice[view_side(v)] != VOICE_OWN)
        out_say(v->config.out, view_side(v), "\n");
    v->voice[view_side(v)] = VOICE_OWN;
    view_note_text(v, sb.data);
}

static void
show_notice(struct view *v, const struct event *ev)
{
    AUTO_FREE char *text = xstrndup(ev->text, ev->len);
    struct error err = {0};

    switch (ev->level) {
    case EVENT_INFO:
        view_note_text(v, text);
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

    if (ev->until_ms == 0) {
        view_status(v, text);
        return;
    }
    /* What an attempt that failed has thought leads to no cell. */
    sbuf_clear(&v->thought);
    view_status_until(v, text, ev->until_ms);
}

static int
view_put(void *sink, const struct event *ev, struct error *err)
{
    struct view *v = sink;

    (void)err;
    switch (ev->kind) {
    case EVENT_THINKING:
        view_put_thinking(v, ev);
        break;
    case EVENT_TEXT:
        view_drop_thinking(v, ev);
        if (v->config.hold_words)
            view_hold_words(v, ev);
        else
            view_show_words(v, ev, &v->model, &v->model_open, view_main(v),
                            VOICE_MODEL);
        break;
    case EVENT_CODE: {
        AUTO_FREE char *code = xstrndup(ev->text, ev->len);

        view_say_thinking(v);
        view_code(v, ev->cell, ev->language, code);
        break;
    }
    case EVENT_OUTPUT:
        view_show_program(v, ev);
        break;
    case EVENT_RESULT:
        view_show_result(v, ev);
        break;
    case EVENT_FILE:
        view_show_file(v, ev);
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
        view_show_error(v, ev);
        break;
    case EVENT_DONE:
        if (ev->scope == EVENT_SCOPE_CELL)
            view_end_cell(v, ev);
        else
            end_turn(v, ev);
        break;
    case EVENT_REPLY:
        view_release_words(v);
        break;
    case EVENT_QUESTION:
    case EVENT_USAGE:
        break;
    }
    return 0;
}

/* ---- life -----------------------------------------------------------------
 */

struct view *
view_new(const struct view_config *config)
{
    struct view *v = xcalloc(1, sizeof(*v));

    v->config = *config;
    v->where = "";
    sbuf_init(&v->thought, VIEW_THOUGHT_BYTES);
    sbuf_init(&v->held, VIEW_HELD_BYTES);
    v->one_target = out_is_joined(config->out);
    return v;
}

void
view_free(struct view *v)
{
    if (v == NULL)
        return;
    view_status(v, NULL);
    view_end_lines(v);
    view_pictures_free(v);
    sbuf_fini(&v->program[0].tail);
    sbuf_fini(&v->program[1].tail);
    sbuf_fini(&v->thought);
    sbuf_fini(&v->held);
    free(v->held_ends);
    free(v->status);
    free(v->copy_what);
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

/* Where nobody reads the answer any more, or it cannot be written, no request
   is sent and no cell run for it. */
static enum sink_result
view_barrier(void *sink, enum sink_barrier point, sink_done_fn done, void *ctx,
             struct error *err)
{
    const struct view *v = sink;

    (void)done;
    (void)ctx;
    if (point == SINK_TURN_ENDED || out_is_terminal(v->config.out) ||
        !out_look_gone(v->config.out))
        return SINK_READY;
    error_fill(err, ERR_IO, "%s", strerror(out_gone_errno(v->config.out)));
    return SINK_FAILED;
}

const struct sink_ops view_sink = {
    .name = "standard output",
    .put = view_put,
    .barrier = view_barrier,
};
