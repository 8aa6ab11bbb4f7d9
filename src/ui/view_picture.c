/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/output.h"
#include "render/image.h"
#include "term/caps.h"
#include "term/tty.h"
#include "ui/view_internal.h"

/* Rows of the screen that a picture leaves for its caption and the prompt. */
#define SPARE_ROWS 3

/* Where the terminal gives no limit. */
#define MAX_SIDE_PX 4096
#define MAX_COLOURS 256
#define SSH_COLOURS 64

static void begin_next(struct view *v);

static void
remove_picture(struct view_picture *p)
{
    struct view *v = p->view;

    for (struct view_picture **at = &v->pictures; *at != NULL;
         at = &(*at)->next) {
        if (*at != p)
            continue;
        *at = p->next;
        break;
    }
    free(p->png);
    free(p);
}

static void
say_not_drawn(const struct view *v, unsigned place, const struct error *err)
{
    AUTO_FREE char *text =
        xasprintf("warning: the chart is not drawn: %s", err->msg);

    out_fill_line(v->config.out, place, STYLE_WARNING, text);
}

static void
on_image(void *ctx, const struct sbuf *sixel, const struct error *err)
{
    struct view_picture *p = ctx;
    struct view *v = p->view;
    unsigned place = p->place;

    remove_picture(p);
    if (sixel != NULL) {
        out_fill_picture(v->config.out, place, sixel->data, sixel->len);
    } else {
        say_not_drawn(v, place, err);
    }
    begin_next(v);
    if (v->pictures == NULL && v->on_drawn != NULL)
        v->on_drawn(v->on_drawn_ctx);
}

static int
at_most(int value, int limit)
{
    return limit > 0 && limit < value ? limit : value;
}

static struct image_options
make_options(const struct view *v)
{
    const struct caps *caps = tty_caps(v->config.tty);
    int columns = out_columns(v->config.out);
    int rows = out_rows(v->config.out);
    int cell_width = 0;
    int cell_height = 0;
    int colours = getenv("SSH_CONNECTION") != NULL ? SSH_COLOURS : MAX_COLOURS;

    tty_cell_size(v->config.tty, &cell_width, &cell_height);
    rows = rows > SPARE_ROWS * 2 ? rows - SPARE_ROWS : rows;
    return (struct image_options){
        .max_width_px = at_most(at_most(columns * cell_width, MAX_SIDE_PX),
                                caps->max_width_px),
        .max_height_px = at_most(at_most(rows * cell_height, MAX_SIDE_PX),
                                 caps->max_height_px),
        .cell_height_px = cell_height,
        .colours = at_most(colours, caps->registers),
        .background_rgb = 0xFFFFFF,
    };
}

static bool
can_draw(const struct view *v)
{
    return str_eq(v->config.graphics, "sixel") ||
           tty_caps(v->config.tty)->sixel;
}

/* Begins the first waiting picture; one is drawn at a time. */
static void
begin_next(struct view *v)
{
    while (v->pictures != NULL && v->pictures->image == NULL) {
        struct view_picture *p = v->pictures;
        struct image_options options = make_options(v);
        struct error err = {0};

        if (can_draw(v)) {
            p->image = image_render(v->config.loop, p->png, p->len, &options,
                                    on_image, p, &err);
            if (p->image != NULL)
                return;
        }
        if (err.code != ERR_NONE) {
            say_not_drawn(v, p->place, &err);
        } else {
            out_fill_line(v->config.out, p->place, STYLE_PLAIN, NULL);
        }
        remove_picture(p);
    }
}

bool
view_can_draw(const struct view *v)
{
    if (v->config.tty == NULL || !out_has_sequences(v->config.out) ||
        str_eq(v->config.graphics, "none"))
        return false;
    return tty_caps_pending(v->config.tty) || can_draw(v);
}

bool
view_picture_show(struct view *v, const struct output *o)
{
    struct view_picture *p = NULL;
    struct view_picture **at = &v->pictures;

    if (!view_can_draw(v))
        return false;
    p = xcalloc(1, sizeof(*p));
    p->view = v;
    p->place = out_hold(v->config.out);
    p->png = xmemdup(o->png, o->png_len);
    p->len = o->png_len;
    while (*at != NULL)
        at = &(*at)->next;
    *at = p;
    if (!tty_caps_pending(v->config.tty))
        begin_next(v);
    return true;
}

void
view_caps_ready(struct view *v)
{
    begin_next(v);
    if (v->pictures == NULL && v->on_drawn != NULL)
        v->on_drawn(v->on_drawn_ctx);
}

void
view_pictures_free(struct view *v)
{
    while (v->pictures != NULL) {
        struct view_picture *p = v->pictures;

        if (p->image != NULL)
            image_free(p->image);
        out_fill_line(v->config.out, p->place, STYLE_PLAIN, NULL);
        remove_picture(p);
    }
}
