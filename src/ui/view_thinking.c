/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the model thinks, as far as it says so: all of it as it comes, or that
 * it did and for how long, or nothing. Some models say what they are about to
 * run inside their thinking and nowhere else; the last words before a cell
 * therefore stand there in the short form too.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "ui/view_internal.h"

/* The last words before a cell: some two or three lines. */
#define MAX_WORDS_BYTES 320u

static bool
is_brief(const struct view *v)
{
    return str_eq(v->config.thinking, "brief");
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Keeps the end of what comes. */
static void
keep(struct view *v, const char *text, size_t len)
{
    struct sbuf *sb = &v->thought;

    if (len > VIEW_THOUGHT_BYTES) {
        text += len - VIEW_THOUGHT_BYTES;
        len = VIEW_THOUGHT_BYTES;
    }
    if (sb->len + len > VIEW_THOUGHT_BYTES)
        sbuf_drop(sb, sb->len + len - VIEW_THOUGHT_BYTES);
    sbuf_add(sb, text, len);
}

static void
end_block(struct view *v)
{
    AUTO_SBUF struct sbuf time = {0};
    int64_t ms = clock_now_ms() - v->thought_since_ms;

    v->thought_since_ms = 0;
    if (ms < VIEW_TIME_MS)
        return;
    sbuf_init(&time, 64);
    str_add_duration(&time, ms);
    if (v->config.no_commands)
        view_note(v, "thought for %s", time.data);
    else
        view_note(v, "thought for %s %s :thinking", time.data, view_dot(v));
}

void
view_put_thinking(struct view *v, const struct event *ev)
{
    if (!is_brief(v)) {
        if (!str_eq(v->config.thinking, "hide"))
            view_show_words(v, ev, &v->thinking, &v->thinking_open,
                            view_side(v), VOICE_THINKING);
        return;
    }
    if (ev->len > 0 && v->thought_since_ms == 0) {
        v->thought_since_ms = clock_now_ms();
        sbuf_clear(&v->thought);
    }
    if (ev->len > 0)
        keep(v, ev->text, ev->len);
    if (ev->end && v->thought_since_ms != 0)
        end_block(v);
}

void
view_drop_thinking(struct view *v, const struct event *ev)
{
    for (size_t i = 0; i < ev->len; i++) {
        if (!is_blank(ev->text[i])) {
            sbuf_clear(&v->thought);
            return;
        }
    }
    if (ev->kind == EVENT_DONE)
        sbuf_clear(&v->thought);
}

/* Where the last paragraph begins; of a long one, the first sentence of those
   at its end that fit. NULL: nothing of it fits. */
static const char *
find_words(const struct sbuf *sb, const char *end)
{
    const char *words = sb->data;
    bool is_cut = sb->len == VIEW_THOUGHT_BYTES;

    for (const char *p = sb->data; p + 2 < end; p++) {
        if (p[0] == '\n' && p[1] == '\n') {
            words = p + 2;
            is_cut = false;
        }
    }
    if (!is_cut && (size_t)(end - words) <= MAX_WORDS_BYTES)
        return words;
    if ((size_t)(end - words) > MAX_WORDS_BYTES)
        words = end - MAX_WORDS_BYTES;
    for (const char *p = words; p + 2 < end; p++) {
        if (strchr(".!?:", p[0]) != NULL && is_blank(p[1]))
            return p + 2;
    }
    return NULL;
}

void
view_say_thinking(struct view *v)
{
    const struct sbuf *sb = &v->thought;
    const char *end = sb->data + sb->len;
    const char *words = NULL;

    while (end > sb->data && is_blank(end[-1]))
        end--;
    if (end > sb->data)
        words = find_words(sb, end);
    if (words != NULL)
        view_show_words(v,
                        &(struct event){.kind = EVENT_THINKING,
                                        .text = words,
                                        .len = (size_t)(end - words),
                                        .end = true},
                        &v->thinking, &v->thinking_open, view_side(v),
                        VOICE_THINKING);
    sbuf_clear(&v->thought);
}

void
view_thinking(struct view *v, const char *text)
{
    view_show_words(v,
                    &(struct event){.kind = EVENT_THINKING,
                                    .text = text,
                                    .len = strlen(text),
                                    .end = true},
                    &v->thinking, &v->thinking_open, view_main(v),
                    VOICE_THINKING);
}
