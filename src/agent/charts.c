/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/context_internal.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "claude/history.h"
#include "model/output.h"

/* Charts of one cell that are sent. */
#define MAX_CHARTS 10

/* What the service counts for a picture: one token for each square of this
   many pixels. */
#define TOKEN_PX 28

static void shrink_next(struct agent *a);

void
agent_free_images(struct claude_image *images, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free_const(images[i].png);
    free(images);
}

void
agent_charts_fini(struct agent *a)
{
    if (a->shrinking != NULL)
        a->config.shrink_cancel(a->config.shrink_ctx, a->shrinking);
    a->shrinking = NULL;
    loop_task_remove(a->charts_task);
    a->charts_task = NULL;
    agent_free_images(a->charts, a->n_charts);
    a->charts = NULL;
    a->n_charts = 0;
    a->n_charts_left_out = 0;
}

void
agent_keep_chart(struct agent *a, const struct output *o)
{
    if (a->config.shrink == NULL || o->png == NULL)
        return;
    if (a->n_charts == MAX_CHARTS) {
        a->n_charts_left_out++;
        return;
    }
    a->charts = xreallocarray(a->charts, a->n_charts + 1, sizeof(*a->charts));
    a->charts[a->n_charts++] = (struct claude_image){
        .png = xmemdup(o->png, o->png_len),
        .len = o->png_len,
        .width_px = o->width_px,
        .height_px = o->height_px,
    };
}

int64_t
agent_image_tokens(const struct claude_image *image)
{
    int64_t columns = (image->width_px + TOKEN_PX - 1) / TOKEN_PX;
    int64_t rows = (image->height_px + TOKEN_PX - 1) / TOKEN_PX;

    return columns * rows;
}

/* Takes a chart out that cannot be sent, and tells the model why. */
static void
drop_chart(struct agent *a, const char *why)
{
    AUTO_FREE char *note =
        xasprintf("a chart is not sent as a picture: %s", why);

    context_add_note(&a->context, note);
    free_const(a->charts[a->at_chart].png);
    memmove(&a->charts[a->at_chart], &a->charts[a->at_chart + 1],
            (a->n_charts - a->at_chart - 1) * sizeof(*a->charts));
    a->n_charts--;
}

static void
on_shrunk(void *ctx, const unsigned char *png, size_t len, int width_px,
          int height_px, const struct error *err)
{
    struct agent *a = ctx;
    struct claude_image *chart = &a->charts[a->at_chart];

    a->shrinking = NULL;
    if (err != NULL) {
        drop_chart(a, err->msg);
    } else {
        free_const(chart->png);
        *chart = (struct claude_image){
            .png = xmemdup(png, len),
            .len = len,
            .width_px = width_px,
            .height_px = height_px,
        };
        a->at_chart++;
    }
    shrink_next(a);
}

/* Gives the charts to the answer of the call, and goes on. */
static void
finish_charts(struct agent *a)
{
    struct agent_answer *answer = &a->answers[a->at_call];

    if (a->n_charts_left_out > 0) {
        AUTO_FREE char *note = xasprintf(
            "%zu more chart%s not sent as pictures", a->n_charts_left_out,
            a->n_charts_left_out == 1 ? " is" : "s are");

        context_add_note(&a->context, note);
    }
    answer->images = a->charts;
    answer->n_images = a->n_charts;
    a->charts = NULL;
    a->n_charts = 0;
    a->n_charts_left_out = 0;
    agent_cell_over(a);
}

static void
shrink_next(struct agent *a)
{
    while (a->at_chart < a->n_charts) {
        const struct claude_image *chart = &a->charts[a->at_chart];
        struct error err = {0};

        a->shrinking = a->config.shrink(a->config.shrink_ctx, chart->png,
                                        chart->len, on_shrunk, a, &err);
        if (a->shrinking != NULL)
            return;
        drop_chart(a, err.msg);
    }
    finish_charts(a);
}

void
agent_send_charts(struct agent *a)
{
    a->at_chart = 0;
    /* Nothing is sent of a turn that ends. */
    if (a->stop != AGENT_GO_ON)
        agent_charts_fini(a);
    shrink_next(a);
}

static void
on_stopped(void *ctx)
{
    struct agent *a = ctx;

    a->charts_task = NULL;
    agent_cell_over(a);
}

bool
agent_stop_charts(struct agent *a)
{
    if (a->shrinking == NULL)
        return false;
    agent_charts_fini(a);
    a->charts_task = loop_defer(a->config.loop, on_stopped, a);
    return true;
}
