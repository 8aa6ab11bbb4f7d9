/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/lineedit_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"

#define LOG_MODULE "lineedit"

#define MAX_AHEAD_BYTES (32u << 20)

static bool
begins_printable(enum input_kind kind, const char *data, size_t len)
{
    unsigned char c = len > 0 ? (unsigned char)data[0] : 0;

    return kind == INPUT_KEYS && c >= 0x20 && c != 0x7F;
}

bool
lineedit_is_printable(const struct input_unit *unit)
{
    return begins_printable(unit->kind, unit->data, unit->len);
}

void
lineedit_ahead_add(struct lineedit_ahead *ahead, const struct input_unit *unit)
{
    struct lineedit_typed *last = ahead->last;

    /* Ctrl-D ends the session at an empty prompt: whoever typed it before there
       was one meant something else. */
    if (unit->kind == INPUT_KEYS && unit->len == 1 && unit->data[0] == 0x04)
        return;
    if (unit->len > MAX_AHEAD_BYTES - ahead->n_bytes) {
        LOG_WARN("typed ahead: %zu bytes are too many", unit->len);
        return;
    }
    ahead->n_bytes += unit->len;
    if (last != NULL && lineedit_is_printable(unit) &&
        begins_printable(last->kind, last->data.data, last->data.len)) {
        sbuf_add(&last->data, unit->data, unit->len);
        return;
    }
    ahead->last = xcalloc(1, sizeof(*ahead->last));
    ahead->last->kind = unit->kind;
    sbuf_init(&ahead->last->data, MAX_AHEAD_BYTES);
    sbuf_add(&ahead->last->data, unit->data, unit->len);
    if (last != NULL)
        last->next = ahead->last;
    else
        ahead->first = ahead->last;
}

struct lineedit_typed *
lineedit_ahead_take(struct lineedit_ahead *ahead)
{
    struct lineedit_typed *unit = ahead->first;

    ahead->first = unit->next;
    if (ahead->first == NULL)
        ahead->last = NULL;
    ahead->n_bytes -= unit->data.len;
    return unit;
}

void
lineedit_typed_free(struct lineedit_typed *unit)
{
    if (unit == NULL)
        return;
    sbuf_fini(&unit->data);
    free(unit);
}

void
lineedit_ahead_fini(struct lineedit_ahead *ahead)
{
    while (ahead->first != NULL)
        lineedit_typed_free(lineedit_ahead_take(ahead));
}
