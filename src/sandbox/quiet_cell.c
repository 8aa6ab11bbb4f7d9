/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/quiet_cell_internal.h"

static void
ignore_begin(void *ctx)
{
    (void)ctx;
}

static void
ignore_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    (void)ctx;
    (void)stream;
    (void)data;
    (void)len;
}

static void
ignore_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
ignore_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

const struct sandbox_cell_handlers quiet_cell = {
    .on_begin = ignore_begin,
    .on_bytes = ignore_bytes,
    .on_output = ignore_output,
    .on_note = ignore_note,
};
