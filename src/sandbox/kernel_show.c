/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/kernel_show_internal.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "model/output.h"
#include "sandbox/mime_bundle_internal.h"

#define MAX_INDEX 1000

static void
flood(struct kernel_show *s)
{
    s->flooded = true;
    s->on_flood(s->owner);
}

void
kernel_show_text(struct kernel_show *s, enum event_stream stream,
                 const char *data, size_t len)
{
    uint64_t left = s->output_bytes - s->n_bytes;
    size_t keep = len;

    if (s->flooded)
        keep = 0;
    else if (len > left)
        keep = (size_t)left;
    s->n_bytes += keep;
    s->n_dropped += len - keep;
    if (keep < len && !s->flooded)
        flood(s);
    if (keep > 0)
        s->on->on_bytes(s->ctx, stream, data, keep);
}

static void
handle_show(struct kernel_show *s, const struct cJSON *event, bool is_result)
{
    /* A handler may end the cell, and s with it. */
    bool (*is_open)(void *owner) = s->is_open;
    void *owner = s->owner;
    AUTO_FREE char *refused = NULL;
    struct error err = {0};
    struct output *out = mime_bundle_parse(
        json_get(event, "data"), json_get(event, "meta"), &refused, &err);

    if (out != NULL) {
        int64_t index = json_int(event, "i", 0);

        out->is_result = is_result;
        out->index = index >= 0 && index <= MAX_INDEX ? (int)index : MAX_INDEX;
        if (out->png != NULL && ++s->n_images > SANDBOX_MAX_IMAGES)
            flood(s);
        else
            s->on->on_output(s->ctx, out);
        output_free(out);
    }
    if (refused != NULL && is_open(owner))
        s->on->on_note(s->ctx, "limit", refused);
}

static void
handle_note(struct kernel_show *s, const struct cJSON *event)
{
    AUTO_FREE char *kind =
        json_dup_string(event, "kind", SANDBOX_MAX_NAME_BYTES);
    AUTO_FREE char *text =
        json_dup_string(event, "text", SANDBOX_MAX_VALUE_BYTES);

    if (text != NULL)
        s->on->on_note(s->ctx, kind != NULL ? kind : "", text);
}

/* Within the limits of a cell; what is past them is dropped, but its end is
   not. */
static bool
count_event(struct kernel_show *s, size_t len)
{
    s->n_events++;
    s->n_event_bytes += len;
    if (s->flooded)
        return false;
    if (s->n_events <= SANDBOX_MAX_EVENTS &&
        s->n_event_bytes <= SANDBOX_MAX_EVENT_BYTES)
        return true;
    flood(s);
    return false;
}

void
kernel_show_event(struct kernel_show *s, const struct cJSON *event, size_t len)
{
    const char *name = json_string(event, "ev");

    if (!count_event(s, len))
        return;
    if (str_eq(name, "display"))
        handle_show(s, event, false);
    else if (str_eq(name, "result"))
        handle_show(s, event, true);
    else if (str_eq(name, "note"))
        handle_note(s, event);
}
