/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/out.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "term/out_internal.h"

#define DEFAULT_COLUMNS 80
#define DEFAULT_ROWS 24
#define MIN_COLUMNS 20

#define MAX_WORDS_BYTES (4u << 20)

/* A terminal must be left as it was found. */
#define EXIT_LIMIT_MS 1000
#define PLAIN_EXIT_LIMIT_MS 50

struct out {
    struct out_config config;
    int columns;
    int rows;

    struct out_queue queue;
    void (*on_low)(void *ctx);
    void *on_low_ctx;
    void (*on_written)(void *ctx);
    void *on_written_ctx;

    bool mid_line; /* something stands on the line of the cursor */

    char *status; /* owned; NULL: none */
    bool status_drawn;
    struct loop_task *task; /* end of the round: status, prompt and calls */

    void (*before)(void *ctx);
    void (*after)(void *ctx);
    void *hooks_ctx;
    bool prompt_cleared;
    bool in_hook;

    /* What the sanitiser writes after a restart: margin with its styles. */
    struct sbuf margin;
};

/* --- bytes on their way to the queue --- */

/*
 * Nothing that comes here should hold a sequence when there are none, nor a
 * character that the terminal's encoding does not have: in another encoding
 * than UTF-8 the bytes of a letter may be a control. This is the last place to
 * make sure of it.
 */
static void
add_reduced(const struct out *out, struct sbuf *to, const char *data,
            size_t len)
{
    bool ascii = out->config.terminal && !out->config.unicode;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(data + i, len - i, &cp, &ok);

        if (data[i] == '\033' && !out->config.sequences) {
            n = out_seq_len(data + i, len - i);
        } else if (ascii && (cp >= 0x80 || !ok)) {
            sbuf_add_repeat(to, '?', ok ? (size_t)utf8_cp_width(cp) : 1);
        } else {
            sbuf_add(to, data + i, n);
        }
        i += n;
    }
}

/* Queues bytes and keeps account of the line; no hooks. */
static void
put_raw(struct out *out, enum out_channel ch, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf reduced = {0};

    if (out->config.terminal)
        ch = OUT_MAIN;
    if (len == 0 || out->queue.gone[ch])
        return;
    if (!out->config.sequences ||
        (out->config.terminal && !out->config.unicode)) {
        sbuf_init(&reduced, len * 2);
        add_reduced(out, &reduced, data, len);
        data = reduced.data;
        len = reduced.len;
    }
    out_queue_add(&out->queue, ch, data, len);
}

static void
put_seq(struct out *out, enum seq id)
{
    const char *text = seq_text(id);

    put_raw(out, OUT_MAIN, text, strlen(text));
}

/* Text of a line; data ends outside of sequences. */
static void
put_text(struct out *out, enum out_channel ch, const char *data, size_t len)
{
    if (len == 0)
        return;
    out->mid_line = data[len - 1] != '\n';
    put_raw(out, ch, data, len);
}

static void
put_style(struct out *out, enum out_channel ch, enum style style)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (!out->config.colour)
        return;
    sbuf_init(&sb, OUT_MAX_STYLE_BYTES);
    out_add_style(&sb, style);
    put_raw(out, ch, sb.data, sb.len);
}

/* --- the live line and the prompt --- */

static void
erase_status(struct out *out)
{
    if (!out->status_drawn)
        return;
    out->status_drawn = false;
    put_seq(out, SEQ_LINE_RESTART);
}

static bool
has_prompt(const struct out *out)
{
    return out->before != NULL || out->after != NULL;
}

static bool
can_draw_status(const struct out *out)
{
    /* A terminal that takes nothing gets no pile of old lines. */
    return out->status != NULL && !out->mid_line && out->queue.n_holds == 0 &&
           !has_prompt(out) && out->queue.n_queued < OUT_QUEUE_LOW;
}

static void
draw_status(struct out *out)
{
    AUTO_SBUF struct sbuf sb = {0};
    size_t used;

    sbuf_init(&sb, MAX_WORDS_BYTES);
    sanitize_text(SANITIZE_ERROR, out->status, strlen(out->status), &sb);
    sbuf_truncate(&sb,
                  utf8_fit(sb.data, sb.len, (size_t)out->columns - 1, &used));
    put_seq(out, SEQ_LINE_RESTART);
    put_raw(out, OUT_MAIN, sb.data, sb.len);
    out->status_drawn = true;
}

static void
show_prompt(struct out *out)
{
    /* Behind an open line there is no place for it; its end comes here. */
    if (!out->prompt_cleared || out->mid_line || out->queue.n_holds > 0)
        return;
    out->prompt_cleared = false;
    if (out->after != NULL) {
        out->in_hook = true;
        out->after(out->hooks_ctx);
        out->in_hook = false;
    }
}

static void
call_on_written(struct out *out)
{
    void (*fn)(void *ctx) = out->on_written;

    if (fn == NULL || out_queue_is_waiting(&out->queue))
        return;
    out->on_written = NULL;
    fn(out->on_written_ctx);
}

static void
on_round(void *ctx)
{
    struct out *out = ctx;

    out->task = NULL;
    show_prompt(out);
    if (!out->status_drawn && can_draw_status(out))
        draw_status(out);
    if (out_queue_take_low(&out->queue) && out->on_low != NULL)
        out->on_low(out->on_low_ctx);
    call_on_written(out);
}

static void
schedule(struct out *out)
{
    if (out->config.loop != NULL && out->task == NULL)
        out->task = loop_defer(out->config.loop, on_round, out);
}

static void
on_low_due(void *ctx)
{
    struct out *out = ctx;

    if (out->on_low != NULL || out->on_written != NULL)
        schedule(out);
}

/* Before everything that is shown. */
static void
begin(struct out *out)
{
    if (!out->config.terminal)
        return;
    erase_status(out);
    if (out->before != NULL && !out->prompt_cleared && !out->in_hook) {
        out->in_hook = true;
        out->before(out->hooks_ctx);
        out->in_hook = false;
    }
    if (has_prompt(out) && !out->in_hook)
        out->prompt_cleared = true;
    schedule(out);
}

/* --- life --- */

struct out *
out_new(const struct out_config *config)
{
    struct out *out = xcalloc(1, sizeof(*out));

    assert(!config->terminal || config->loop != NULL);
    out->config = *config;
    out->config.sequences = config->sequences && config->terminal;
    out->config.colour = config->colour && out->config.sequences;
    out->columns = DEFAULT_COLUMNS;
    out->rows = DEFAULT_ROWS;
    out->queue = (struct out_queue){
        .loop = config->loop,
        .main_fd = config->main_fd,
        .side_fd = config->side_fd,
        .low_due = on_low_due,
        .ctx = out,
    };
    out_queue_init(&out->queue, config->terminal, out_is_joined(out));
    sbuf_init(&out->margin, OUT_MAX_MARGIN_BYTES);
    return out;
}

void
out_free(struct out *out)
{
    if (out == NULL)
        return;
    erase_status(out);
    out_queue_fini(&out->queue,
                   out->config.terminal ? EXIT_LIMIT_MS : PLAIN_EXIT_LIMIT_MS);
    loop_task_remove(out->task);
    sbuf_fini(&out->margin);
    free(out->status);
    free(out);
}

bool
out_is_terminal(const struct out *out)
{
    return out->config.terminal;
}

bool
out_is_joined(const struct out *out)
{
    struct stat one;
    struct stat two;

    if (out->config.terminal)
        return true;
    return fstat(out->config.main_fd, &one) == 0 &&
           fstat(out->config.side_fd, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

bool
out_has_sequences(const struct out *out)
{
    return out->config.sequences;
}

bool
out_has_colour(const struct out *out)
{
    return out->config.colour;
}

bool
out_has_unicode(const struct out *out)
{
    return out->config.unicode;
}

void
out_set_size(struct out *out, int columns, int rows)
{
    if (!out->config.terminal)
        return;
    out->columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns;
    out->rows = rows < 1 ? 1 : rows;
}

int
out_columns(const struct out *out)
{
    return out->columns;
}

int
out_rows(const struct out *out)
{
    return out->rows;
}

/* --- the program's own words --- */

static void
put_words(struct out *out, enum out_channel ch, enum sanitize_context context,
          const char *text, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, len * 32 + OUT_MAX_SLICE_BYTES);
    sanitize_text(context, text, len, &sb);
    put_text(out, ch, sb.data, sb.len);
}

void
out_say(struct out *out, enum out_channel ch, const char *text)
{
    if (*text == '\0')
        return;
    begin(out);
    put_words(out, ch, SANITIZE_MODEL, text, strlen(text));
}

void
out_sayf(struct out *out, enum out_channel ch, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf sb = {0};
    va_list ap;

    sbuf_init(&sb, MAX_WORDS_BYTES);
    va_start(ap, fmt);
    sbuf_vaddf(&sb, fmt, ap);
    va_end(ap);
    out_say(out, ch, sb.data);
}

void
out_line(struct out *out, enum out_channel ch, enum style style,
         const char *text)
{
    bool styled = style_sgr(style)[0] != '0';

    begin(out);
    if (styled)
        put_style(out, ch, style);
    put_words(out, ch, SANITIZE_MODEL, text, strlen(text));
    if (styled)
        put_style(out, ch, STYLE_PLAIN);
    put_text(out, ch, "\n", 1);
}

void
out_style(struct out *out, enum out_channel ch, enum style style)
{
    if (!out->config.colour)
        return;
    begin(out);
    put_style(out, ch, style);
}

void
out_seq(struct out *out, enum seq id)
{
    if (!out->config.sequences || (id <= SEQ_YELLOW && !out->config.colour))
        return;
    /* Modes and questions show nothing, and may be sent under a prompt. */
    if (id <= SEQ_ERASE_BELOW)
        begin(out);
    put_seq(out, id);
}

/* --- text from outside --- */

/* What a script reads as the answer is the answer. */
static bool
is_whole(const struct out *out, const struct out_stream *s)
{
    return !out->config.terminal && s->channel == OUT_MAIN &&
           s->context == SANITIZE_MODEL && s->max_columns == 0;
}

/* The margin as it is written; it must live while the sanitiser runs. */
static struct out_look
make_look(struct out *out, const struct out_stream *s)
{
    bool styled = style_sgr(s->style)[0] != '0';

    sbuf_clear(&out->margin);
    if (s->margin != NULL) {
        if (out->config.colour)
            out_add_style(&out->margin, STYLE_DIM);
        sbuf_add_str(&out->margin, s->margin);
        if (out->config.colour && !styled)
            out_add_style(&out->margin, STYLE_PLAIN);
    }
    if (out->config.colour && styled)
        out_add_style(&out->margin, s->style);
    return (struct out_look){.colour = out->config.colour,
                             .unicode = out->config.unicode,
                             .wrap_columns = s->wrap && out->config.terminal
                                                 ? (size_t)out->columns
                                                 : 0,
                             .whole_lines = is_whole(out, s),
                             .margin = &out->margin};
}

static void
begin_stream(struct out *out, struct out_stream *s)
{
    s->san.context = s->context;
    s->san.no_color = !out->config.colour;
    s->san.line_restart_as_lf = !out->config.sequences;
    s->begun = true;
}

static void
put_slice(struct out *out, struct out_stream *s, const struct sbuf *clean)
{
    struct out_look look = make_look(out, s);
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, OUT_MAX_SLICE_BYTES * 64);
    out_shape(s, &look, clean->data, clean->len, &sb);
    if (sb.len == 0)
        return;
    begin(out);
    out->mid_line = s->in_line;
    put_raw(out, s->channel, sb.data, sb.len);
}

/* Gives the sanitiser what it writes when a line begins anew. The hooks of the
   prompt may use the same buffer, so it is made for each piece. */
static void
lend_margin(struct out *out, struct out_stream *s)
{
    struct out_look look = make_look(out, s);

    s->san.margin = look.margin->len > 0 ? look.margin->data : NULL;
}

void
out_text(struct out *out, struct out_stream *s, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf clean = {0};

    if (!s->begun)
        begin_stream(out, s);
    sbuf_init(&clean, OUT_MAX_SLICE_BYTES);
    while (len > 0) {
        size_t n = len < OUT_SLICE_BYTES ? len : OUT_SLICE_BYTES;

        sbuf_clear(&clean);
        lend_margin(out, s);
        sanitize_feed(&s->san, data, n, &clean);
        put_slice(out, s, &clean);
        data += n;
        len -= n;
    }
    s->san.margin = NULL;
}

void
out_text_end(struct out *out, struct out_stream *s)
{
    AUTO_SBUF struct sbuf clean = {0};

    if (!s->begun)
        begin_stream(out, s);
    sbuf_init(&clean, OUT_MAX_SLICE_BYTES);
    lend_margin(out, s);
    sanitize_end(&s->san, &clean);
    s->san.margin = NULL;
    put_slice(out, s, &clean);
    if (s->in_line) {
        sbuf_clear(&clean);
        sbuf_add_char(&clean, '\n');
        put_slice(out, s, &clean);
    }
    s->begun = false;
}

void
out_inline(struct out *out, enum out_channel ch, enum sanitize_context context,
           const char *text, size_t len)
{
    assert(context == SANITIZE_CELL || context == SANITIZE_ERROR ||
           context == SANITIZE_NAME);
    begin(out);
    put_words(out, ch, context, text, len);
}

void
out_ready(struct out *out, enum out_channel ch, const char *data, size_t len)
{
    if (len == 0)
        return;
    begin(out);
    put_text(out, ch, data, len);
}

/* --- places --- */

unsigned
out_hold(struct out *out)
{
    begin(out);
    return out_queue_hold(&out->queue);
}

static void
fill_place(struct out *out, unsigned place, const struct sbuf *data,
           bool picture)
{
    out_queue_fill(&out->queue, place, data, picture);
    schedule(out);
}

void
out_fill_picture(struct out *out, unsigned place, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, len + 2);
    if (out->config.sequences) {
        sbuf_add(&sb, data, len);
        sbuf_add_str(&sb, "\r\n");
    }
    fill_place(out, place, &sb, true);
}

void
out_fill_line(struct out *out, unsigned place, enum style style,
              const char *text)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf reduced = {0};
    bool styled = out->config.colour && style_sgr(style)[0] != '0';

    sbuf_init(&sb, MAX_WORDS_BYTES);
    sbuf_init(&reduced, MAX_WORDS_BYTES * 2);
    if (text != NULL) {
        if (styled)
            out_add_style(&sb, style);
        sanitize_text(SANITIZE_ERROR, text, strlen(text), &sb);
        if (styled)
            out_add_style(&sb, STYLE_PLAIN);
        sbuf_add_char(&sb, '\n');
        add_reduced(out, &reduced, sb.data, sb.len);
    }
    fill_place(out, place, &reduced, false);
}

/* --- live line, hooks, editor --- */

void
out_status(struct out *out, const char *text)
{
    bool changed = !str_eq(out->status, text);
    char *copy;

    if (!out->config.sequences)
        return;
    copy = xstrdup(text);
    free(out->status);
    out->status = copy;
    if (text == NULL)
        erase_status(out);
    else if ((changed || !out->status_drawn) && can_draw_status(out))
        draw_status(out);
}

void
out_set_prompt_hooks(struct out *out, void (*before)(void *ctx),
                     void (*after)(void *ctx), void *ctx)
{
    if (!out->config.terminal)
        return;
    if (before != NULL || after != NULL)
        erase_status(out);
    out->before = before;
    out->after = after;
    out->hooks_ctx = ctx;
    out->prompt_cleared = false;
    schedule(out);
}

void
out_editor(struct out *out, const char *data, size_t len)
{
    erase_status(out);
    put_raw(out, OUT_MAIN, data, len);
}

/* --- queue, from outside --- */

size_t
out_queued(const struct out *out)
{
    return out->queue.n_queued;
}

void
out_on_low(struct out *out, void (*fn)(void *ctx), void *ctx)
{
    out->on_low = fn;
    out->on_low_ctx = ctx;
}

void
out_on_written(struct out *out, void (*fn)(void *ctx), void *ctx)
{
    assert(out->config.loop != NULL);
    out->on_written = fn;
    out->on_written_ctx = ctx;
    schedule(out);
}

bool
out_is_gone(const struct out *out)
{
    return out->queue.gone[OUT_MAIN];
}

bool
out_look_gone(struct out *out)
{
    out_queue_look(&out->queue, OUT_MAIN);
    return out_is_gone(out);
}

int
out_gone_errno(const struct out *out)
{
    return out->queue.gone_errno[OUT_MAIN];
}

void
out_flush(struct out *out, int limit_ms)
{
    out_queue_flush(&out->queue, limit_ms);
}
