/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/copy_rate_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/sbuf.h"
#include "base/str.h"

/* What is over by then needs no words. */
#define FIRST_MS 500
#define EVERY_MS 100
#define WINDOW_MS 4000
#define MAX_RATE 1e18
#define MARK_MS (WINDOW_MS / (COPY_RATE_MARKS - 2))

static void
drop_oldest(struct copy_rate *r)
{
    memmove(&r->marks[0], &r->marks[1], (r->n_marks - 1) * sizeof(r->marks[0]));
    r->n_marks--;
}

static void
add_mark(struct copy_rate *r, int64_t now_ms)
{
    if (r->n_marks > 0 && now_ms - r->marks[r->n_marks - 1].at_ms < MARK_MS)
        return;
    if (r->n_marks == COPY_RATE_MARKS)
        drop_oldest(r);
    r->marks[r->n_marks].at_ms = now_ms;
    r->marks[r->n_marks].done_bytes = r->done_bytes;
    r->n_marks++;
}

bool
copy_rate_is_long(const struct copy_rate *r, int64_t now_ms)
{
    return r->n_marks > 0 && now_ms - r->since_ms >= FIRST_MS;
}

bool
copy_rate_note(struct copy_rate *r, int64_t now_ms, uint64_t done_bytes,
               uint64_t total_bytes)
{
    if (r->n_marks == 0 || done_bytes < r->done_bytes ||
        total_bytes != r->total_bytes)
        *r = (struct copy_rate){.since_ms = now_ms, .total_bytes = total_bytes};
    r->done_bytes = done_bytes;
    add_mark(r, now_ms);
    if (!copy_rate_is_long(r, now_ms) ||
        (r->told_ms > 0 && now_ms - r->told_ms < EVERY_MS))
        return false;
    r->told_ms = now_ms;
    return true;
}

void
copy_rate_add(struct copy_rate *r, int64_t now_ms, struct sbuf *out)
{
    uint64_t done = r->done_bytes;
    uint64_t total = r->total_bytes > done ? r->total_bytes : done;
    int64_t span_ms;
    double rate;

    while (r->n_marks > 1 && now_ms - r->marks[1].at_ms >= WINDOW_MS)
        drop_oldest(r);
    sbuf_addf(out, "%d %% of ",
              total > 0 ? (int)((double)done / (double)total * 100) : 100);
    str_add_bytes(out, total);
    span_ms = now_ms - r->marks[0].at_ms;
    if (span_ms < MARK_MS)
        return;
    rate = (double)(done - r->marks[0].done_bytes) * 1000 / (double)span_ms;
    sbuf_add_str(out, ", ");
    str_add_bytes(out, rate < MAX_RATE ? (uint64_t)rate : (uint64_t)MAX_RATE);
    sbuf_add_str(out, "/s");
}
