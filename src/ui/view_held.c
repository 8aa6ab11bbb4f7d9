/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Words of a reply that nobody sees before the reply is kept. On a terminal it
 * can be said below them that they are void; what a script has read it has
 * read.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ui/view_internal.h"

void
view_hold_words(struct view *v, const struct event *ev)
{
    size_t before = v->n_held_ends > 0 ? v->held_ends[v->n_held_ends - 1] : 0;

    if (ev->is_void) {
        view_forget_words(v);
        return;
    }
    if (ev->len > 0)
        sbuf_add(&v->held, ev->text, ev->len);
    if (!ev->end || v->held.len == before)
        return;
    v->held_ends =
        xreallocarray(v->held_ends, v->n_held_ends + 1, sizeof(*v->held_ends));
    v->held_ends[v->n_held_ends++] = v->held.len;
}

/* Line ends behind the last word would be holes between paragraphs. */
static void
show(struct view *v, size_t from, size_t to)
{
    while (to > from && strchr(" \n", v->held.data[to - 1]) != NULL &&
           v->held.data[to - 1] != '\0')
        to--;
    view_show_words(v,
                    &(struct event){.kind = EVENT_TEXT,
                                    .text = v->held.data + from,
                                    .len = to - from,
                                    .end = true},
                    &v->model, &v->model_open, view_main(v), VOICE_MODEL);
}

void
view_release_words(struct view *v)
{
    size_t at = 0;

    for (size_t i = 0; i < v->n_held_ends; i++) {
        show(v, at, v->held_ends[i]);
        at = v->held_ends[i];
    }
    if (at < v->held.len)
        show(v, at, v->held.len);
    if (!sbuf_ok(&v->held))
        view_warning(v, "an answer of more than %u MiB is not shown whole",
                     VIEW_HELD_BYTES >> 20);
    view_forget_words(v);
}

void
view_forget_words(struct view *v)
{
    sbuf_fini(&v->held);
    sbuf_init(&v->held, VIEW_HELD_BYTES);
    free(v->held_ends);
    v->held_ends = NULL;
    v->n_held_ends = 0;
}
