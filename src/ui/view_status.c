/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The live line: what is going on, for how long, how to stop it; or why nothing
 * goes on, and when it will.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/utf8.h"
#include "ui/view_internal.h"

#define TICK_MS 1000
#define ELLIPSIS_COLS 3u
#define MAX_WHAT_BYTES 1024u

/* Adds why without what stands in brackets at its end: all of it, or only what
   is for the support of the service, "(529, request req_01)". */
static void
add_shortened(const char *why, bool all, struct sbuf *sb)
{
    size_t len = strlen(why);
    const char *bracket = strrchr(why, '(');
    const char *comma = bracket != NULL ? strchr(bracket, ',') : NULL;

    if (bracket == NULL || bracket < why + 2 || why[len - 1] != ')') {
        sbuf_add(sb, why, len);
        return;
    }
    if (all) {
        sbuf_add(sb, why, (size_t)(bracket - why) - 1);
        return;
    }
    sbuf_add(sb, why, comma != NULL ? (size_t)(comma - why) : len - 1);
    sbuf_add_char(sb, ')');
}

/* Adds why and how to stop it, in room columns: in narrow ones with less and
   less of both. */
static void
add_reason(const struct view *v, const char *why, size_t room, struct sbuf *sb)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_FREE char *stop = xasprintf(" %s Ctrl-C stops", view_dot(v));
    AUTO_FREE char *brief =
        xasprintf("%s %s Ctrl-C", view_ellipsis(v), view_dot(v));
    size_t stop_width = utf8_width(stop, strlen(stop));
    size_t brief_width = utf8_width(brief, strlen(brief));
    size_t used = 0;

    sbuf_init(&text, VIEW_LINE_BYTES);
    sbuf_add_str(&text, why);
    for (int i = 0;
         i < 2 && utf8_width(text.data, text.len) + stop_width > room; i++) {
        sbuf_clear(&text);
        add_shortened(why, i == 1, &text);
    }
    if (utf8_width(text.data, text.len) + stop_width <= room) {
        sbuf_add(sb, text.data, text.len);
        sbuf_add_str(sb, stop);
        return;
    }
    if (room > brief_width)
        sbuf_add(sb, text.data,
                 utf8_fit(text.data, text.len, room - brief_width, &used));
    sbuf_add_str(sb, brief);
}

/* Begun seconds, so that a wait never has none left. */
static int64_t
seconds_up(int64_t ms)
{
    return ms > 0 ? (ms + TICK_MS - 1) / TICK_MS : 1;
}

static void
draw_wait(const struct view *v, int64_t left_ms)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf why = {0};
    size_t room = (size_t)out_columns(v->config.out) - 1;

    sbuf_init(&sb, VIEW_LINE_BYTES);
    sbuf_init(&why, VIEW_LINE_BYTES);
    /* A service may repeat the key that it refuses. */
    log_add_hidden(&why, v->status, strcspn(v->status, "\n"));
    sbuf_addf(&sb, "waiting %" PRId64 " s: ", seconds_up(left_ms));
    add_reason(v, why.data, room > sb.len ? room - sb.len : 0, &sb);
    out_status(v->config.out, sb.data);
}

/* Adds what fits on the line before something that wide: the name of a file may
   be long, and how far it is matters more. */
static void
add_fitting(const struct view *v, const char *what, size_t behind,
            struct sbuf *sb)
{
    size_t columns = (size_t)out_columns(v->config.out);
    size_t room = columns > behind + 1 ? columns - behind - 1 : 0;
    size_t len = strlen(what);
    size_t used = 0;

    if (utf8_width(what, len) <= room) {
        sbuf_add(sb, what, len);
        return;
    }
    sbuf_add(sb, what,
             utf8_fit(what, len,
                      room > ELLIPSIS_COLS ? room - ELLIPSIS_COLS : 0, &used));
    sbuf_add_str(sb, view_ellipsis(v));
}

static void
draw(struct view *v)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf end = {0};
    int64_t now = clock_now_ms();
    bool waited = v->status_until_ms > 0;
    int64_t ms = now - (waited ? v->status_until_ms : v->status_since_ms);

    if (waited && ms < 0) {
        draw_wait(v, -ms);
        return;
    }
    sbuf_init(&sb, VIEW_LINE_BYTES);
    sbuf_init(&end, VIEW_LINE_BYTES);
    if (v->copy_what != NULL && copy_rate_is_long(&v->copy_rate, now)) {
        sbuf_add_str(&end, ": ");
        copy_rate_add(&v->copy_rate, now, &end);
    }
    if (ms >= VIEW_TIME_MS)
        sbuf_addf(&end, " %s %" PRId64 " s", view_dot(v), ms / TICK_MS);
    sbuf_addf(&end, " %s Ctrl-C stops", view_dot(v));
    if (end.data[0] == ':')
        add_fitting(v, v->copy_what, utf8_width(end.data, end.len), &sb);
    else
        sbuf_add_str(&sb, waited ? "trying again" : v->status);
    sbuf_add(&sb, end.data, end.len);
    out_status(v->config.out, sb.data);
}

/* When the number of seconds that is shown changes. */
static int64_t
next_tick_ms(const struct view *v)
{
    int64_t left = v->status_until_ms - clock_now_ms();

    if (left <= 0)
        return TICK_MS;
    return (left - 1) % TICK_MS + 1;
}

static void
on_tick(void *ctx)
{
    struct view *v = ctx;

    draw(v);
    v->status_timer =
        loop_add_timer(v->config.loop, next_tick_ms(v), on_tick, v);
}

static bool
is_live(const struct view *v)
{
    return out_is_terminal(v->config.out) && out_has_sequences(v->config.out);
}

static void
set(struct view *v, const char *text, int64_t until_ms)
{
    char *copy = xstrdup(text);

    if (v->status_timer != NULL)
        loop_timer_remove(v->status_timer);
    v->status_timer = NULL;
    free(v->status);
    v->status = copy;
    if (!is_live(v))
        return;
    if (text == NULL) {
        out_status(v->config.out, NULL);
        return;
    }
    v->status_since_ms = clock_now_ms();
    v->status_until_ms = until_ms;
    on_tick(v);
}

static void
forget_copy(struct view *v)
{
    free(take_ptr(&v->copy_what));
    v->copy_rate = (struct copy_rate){0};
}

/* One line, whatever a name holds. */
static char *
clean(const char *text)
{
    struct sbuf sb;

    sbuf_init(&sb, MAX_WHAT_BYTES);
    utf8_add_repaired(&sb, text, strnlen(text, MAX_WHAT_BYTES / 4));
    for (size_t i = 0; i < sb.len; i++) {
        if ((unsigned char)sb.data[i] < ' ' || sb.data[i] == 0x7f)
            sb.data[i] = '?';
    }
    return sbuf_take(&sb);
}

void
view_copy(struct view *v, const char *what, uint64_t done_bytes,
          uint64_t total_bytes)
{
    bool is_due;

    if (!is_live(v) || v->status == NULL)
        return;
    if (what == NULL) {
        forget_copy(v);
        draw(v);
        return;
    }
    is_due =
        copy_rate_note(&v->copy_rate, clock_now_ms(), done_bytes, total_bytes);
    if (!is_due && v->copy_what != NULL)
        return;
    free(v->copy_what);
    v->copy_what = clean(what);
    if (is_due)
        draw(v);
}

void
view_status(struct view *v, const char *text)
{
    if (text == NULL)
        forget_copy(v);
    set(v, text, 0);
}

void
view_status_until(struct view *v, const char *text, int64_t until_ms)
{
    int64_t left = until_ms - clock_now_ms();

    if (is_live(v)) {
        set(v, text, until_ms);
        return;
    }
    view_note(v, "waiting %" PRId64 " s: %.*s %s Ctrl-C stops",
              seconds_up(left), (int)strcspn(text, "\n"), text, view_dot(v));
}

void
view_offer_retry(struct view *v, const struct error *err)
{
    bool may_help = error_is_retryable(err->code) || err->http_status >= 500;

    if (may_help && out_is_terminal(v->config.out) && !v->config.no_commands)
        view_note(v, ":retry sends it again");
}
