/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The end of a turn at a limit: what is left of it, and how to go on. Where the
 * run ends with the turn, that is another run.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/price.h"
#include "ui/view_internal.h"

/* Which cells have run, and what is left of them. */
static void
add_kept(const struct view *v, const struct event *ev, struct sbuf *sb)
{
    int first = ev->first_kept_cell;
    int last = ev->last_kept_cell;
    const char *whose = first < last ? "their" : "its";
    AUTO_FREE char *cells =
        first < last ? xasprintf("cells %d%s%d", first, view_dash(v), last)
                     : xasprintf("cell %d", last);
    AUTO_FREE char *text =
        v->config.run_ends
            ? xasprintf("%s ran, %s variables end with this run", cells, whose)
            : xasprintf("%s and %s variables are kept", cells, whose);

    if (last > 0)
        view_add_part(v, sb, text);
}

/* More than the longest reply cannot be allowed. */
static void
add_limit(const struct view *v, const struct event *ev, struct sbuf *sb)
{
    AUTO_FREE char *raise =
        ev->limit != NULL ? xasprintf("raise %s", ev->limit) : NULL;

    if (raise != NULL)
        view_add_part(v, sb, ev->way == EVENT_WAY_SMALLER ? ev->limit : raise);
}

static void
add_command(const struct view *v, const struct event *ev, struct sbuf *sb)
{
    AUTO_FREE char *budget =
        xasprintf(":budget %" PRId64 ".%02" PRId64 ", :retry",
                  ev->way_nanousd / PRICE_DOLLAR,
                  ev->way_nanousd % PRICE_DOLLAR / PRICE_CENT);

    switch (ev->way) {
    case EVENT_WAY_NONE:
        break;
    case EVENT_WAY_RETRY:
        view_add_part(v, sb, ":retry");
        break;
    case EVENT_WAY_BUDGET:
        view_add_part(v, sb, budget);
        break;
    case EVENT_WAY_SETTING:
        add_limit(v, ev, sb);
        break;
    case EVENT_WAY_REPHRASE:
        view_add_part(v, sb, ":retry, or ask in another way");
        break;
    case EVENT_WAY_SMALLER:
        view_add_part(v, sb, ":retry, or ask for smaller steps");
        break;
    }
}

/* Where the run is over: the setting, and what the person can do. */
static void
add_setting(const struct view *v, const struct event *ev, struct sbuf *sb)
{
    add_limit(v, ev, sb);
    if (ev->way == EVENT_WAY_REPHRASE)
        view_add_part(v, sb, "ask in another way");
    else if (ev->way == EVENT_WAY_SMALLER)
        view_add_part(v, sb, "ask for smaller steps");
}

void
view_tell_limit(struct view *v, const struct event *ev)
{
    AUTO_SBUF struct sbuf sb = {0};

    view_warning(v, "%s", ev->err->msg);
    sbuf_init(&sb, VIEW_LINE_BYTES);
    sbuf_add_str(&sb, v->config.run_ends ? "no answer" : "no answer yet");
    add_kept(v, ev, &sb);
    if (v->config.run_ends)
        add_setting(v, ev, &sb);
    else
        add_command(v, ev, &sb);
    view_note_text(v, sb.data);
}
