/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "term/out.h"
#include "term/out_internal.h"

#define MAX_SEGMENT_BYTES (64u << 10)

/* Most bytes that one round of the loop writes, so that keys are still read
   while a picture goes out. */
#define MAX_ROUND_BYTES (256u << 10)

/* A piece of the queue: bytes, or a place for something that comes later. */
struct segment {
    struct segment *next; /* owned */
    enum out_channel channel;
    unsigned place; /* not filled yet; 0: none */
    bool closed;    /* nothing is appended any more */
    bool picture;   /* one sequence, which must be ended if it is begun */
    struct sbuf data;
    size_t n_sent;
};

static struct segment *
add_segment(struct out_queue *q, enum out_channel ch)
{
    struct segment *seg = xcalloc(1, sizeof(*seg));

    seg->channel = ch;
    sbuf_init(&seg->data, MAX_SEGMENT_BYTES);
    if (q->last != NULL)
        q->last->next = seg;
    else
        q->first = seg;
    q->last = seg;
    return seg;
}

static void
remove_first(struct out_queue *q)
{
    struct segment *seg = q->first;

    q->n_queued -= seg->data.len - seg->n_sent;
    q->first = seg->next;
    if (q->first == NULL)
        q->last = NULL;
    sbuf_fini(&seg->data);
    free(seg);
}

/* After a failed write. What was queued is forgotten; places stay in the list
   until they are filled. */
static void
lose_channel(struct out_queue *q, enum out_channel ch)
{
    q->gone[ch] = true;
    for (struct segment *seg = q->first; seg != NULL; seg = seg->next) {
        if (seg->channel != ch)
            continue;
        q->n_queued -= seg->data.len - seg->n_sent;
        seg->n_sent = seg->data.len;
        seg->closed = true;
    }
}

/* A sequence that was begun swallows all that follows until it is ended. */
static void
end_picture(struct out_queue *q, const struct segment *seg)
{
    const char *st = seq_text(SEQ_ST);

    if (seg == NULL || !seg->picture || seg->n_sent == 0 ||
        seg->n_sent >= seg->data.len)
        return;
    (void)!write(q->main_fd, st, strlen(st));
    (void)!write(q->main_fd, "\r\n", 2);
}

/* Writes of seg what the terminal takes. False: it takes no more now. */
static bool
send_segment(struct out_queue *q, struct segment *seg, size_t *budget)
{
    while (*budget > 0 && seg->n_sent < seg->data.len) {
        size_t n = seg->data.len - seg->n_sent;
        ssize_t rc;

        rc = write(q->main_fd, seg->data.data + seg->n_sent,
                   n < *budget ? n : *budget);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0 && errno == EAGAIN)
            return false;
        if (rc < 0) {
            end_picture(q, seg);
            lose_channel(q, OUT_MAIN);
            return true;
        }
        seg->n_sent += (size_t)rc;
        q->n_queued -= (size_t)rc;
        *budget -= (size_t)rc;
    }
    return *budget > 0;
}

/* Where there is no terminal, all is written at once. */
static void
write_segment(struct out_queue *q, struct segment *seg)
{
    int fd = seg->channel == OUT_MAIN ? q->main_fd : q->side_fd;
    size_t n = seg->data.len - seg->n_sent;

    if (n == 0)
        return;
    if (io_write_all(fd, seg->data.data + seg->n_sent, n, NULL) < 0) {
        lose_channel(q, seg->channel);
        return;
    }
    seg->n_sent += n;
    q->n_queued -= n;
}

/* Writes the queue up to the first place. False: the terminal is full. */
static bool
drain(struct out_queue *q, size_t budget)
{
    while (q->first != NULL && q->first->place == 0) {
        struct segment *seg = q->first;

        if (!q->terminal)
            write_segment(q, seg);
        else if (!send_segment(q, seg, &budget))
            return false;
        remove_first(q);
    }
    return true;
}

static bool
is_sendable(const struct out_queue *q)
{
    return q->first != NULL && q->first->place == 0;
}

static bool
is_low(const struct out_queue *q)
{
    return q->was_high && q->n_queued < OUT_QUEUE_LOW;
}

static void
on_writable(void *ctx, int fd, unsigned events)
{
    struct out_queue *q = ctx;

    (void)fd;
    (void)events;
    drain(q, MAX_ROUND_BYTES);
    if (!is_sendable(q)) {
        /* A handle that asks for nothing would still report a hang-up, over
           and over. */
        loop_fd_remove(q->writer);
        q->writer = NULL;
    }
    if (is_low(q))
        q->low_due(q->ctx);
}

/* After every change of the queue. */
static void
kick(struct out_queue *q)
{
    if (q->n_queued >= OUT_QUEUE_HIGH)
        q->was_high = true;
    if (!q->terminal) {
        drain(q, 0);
        return;
    }
    if (q->writer == NULL && is_sendable(q))
        q->writer =
            loop_add_fd(q->loop, q->main_fd, LOOP_WRITE, on_writable, q);
    if (is_low(q))
        q->low_due(q->ctx);
}

void
out_queue_add(struct out_queue *q, enum out_channel ch, const char *data,
              size_t len)
{
    while (len > 0) {
        struct segment *seg = q->last;
        size_t n;

        if (seg == NULL || seg->closed || seg->channel != ch ||
            seg->data.len == MAX_SEGMENT_BYTES)
            seg = add_segment(q, ch);
        n = MAX_SEGMENT_BYTES - seg->data.len;
        n = n < len ? n : len;
        sbuf_add(&seg->data, data, n);
        q->n_queued += n;
        data += n;
        len -= n;
    }
    kick(q);
}

unsigned
out_queue_hold(struct out_queue *q)
{
    struct segment *seg = add_segment(q, OUT_MAIN);

    q->last_place++;
    if (q->last_place == 0)
        q->last_place++;
    seg->place = q->last_place;
    seg->closed = true;
    q->n_holds++;
    return seg->place;
}

void
out_queue_fill(struct out_queue *q, unsigned place, const struct sbuf *data,
               bool picture)
{
    struct segment *seg = q->first;

    while (seg != NULL && (place == 0 || seg->place != place))
        seg = seg->next;
    assert(seg != NULL);
    if (!q->gone[seg->channel]) {
        sbuf_fini(&seg->data);
        sbuf_init(&seg->data, data->len);
        sbuf_add(&seg->data, data->data, data->len);
        seg->picture = picture;
        q->n_queued += seg->data.len;
    }
    seg->place = 0;
    q->n_holds--;
    kick(q);
}

bool
out_queue_take_low(struct out_queue *q)
{
    bool low = is_low(q);

    if (low)
        q->was_high = false;
    return low;
}

void
out_queue_flush(struct out_queue *q, int limit_ms)
{
    int64_t end_ms = clock_now_ms() + limit_ms;

    while (!drain(q, SIZE_MAX)) {
        struct pollfd p = {.fd = q->main_fd, .events = POLLOUT};
        int64_t left_ms = end_ms - clock_now_ms();

        if (left_ms <= 0)
            break;
        (void)!poll(&p, 1, (int)left_ms);
    }
    if (is_low(q))
        q->low_due(q->ctx);
}

void
out_queue_fini(struct out_queue *q, int limit_ms)
{
    for (struct segment *seg = q->first; seg != NULL; seg = seg->next)
        seg->place = 0;
    out_queue_flush(q, limit_ms);
    end_picture(q, q->first);
    while (q->first != NULL)
        remove_first(q);
    loop_fd_remove(q->writer);
    q->writer = NULL;
}
