/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Server-sent events: a parser that takes bytes in any chunking. Lines end in
 * LF, CR LF or CR; comments are skipped; several data lines are joined by LF;
 * an event without data is not given. Pure: no input or output.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
#ifndef NET_SSE_H
#define NET_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/sbuf.h"

struct error;

#define SSE_MAX_EVENT_BYTES (64u << 20)

/* name is "" when the event has none; data is NUL-terminated. Borrowed for the
   call. A value other than 0 stops the parser; sse_feed returns it. */
typedef int (*sse_fn)(void *ctx, const char *name, const char *data,
                      size_t len);

struct sse {
    struct sbuf line;
    struct sbuf data;
    struct sbuf name;
    bool skip_lf;
    bool begun;
    bool has_data;
};

void sse_init(struct sse *sse);
void sse_fini(struct sse *sse);

/* Returns 0, the callback's value, or -1 with ERR_TOO_LARGE. */
WARN_UNUSED int sse_feed(struct sse *sse, const char *bytes, size_t len,
                         sse_fn fn, void *ctx, struct error *err);

/* True when bytes of an event have come that was not ended by a blank line. */
bool sse_is_partial(const struct sse *sse);

#endif
