/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* What follows a write so soon is joined with what comes after it, so that a
   burst costs a terminal a few hundred writes a second and no more; a lone
   piece is written at once. More bytes than these are a burst by themselves. */
#define JOIN_US 5000
#define JOIN_BYTES 4096u

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

static int
fd_of(const struct out_queue *q, enum out_channel ch)
{
    return ch == OUT_MAIN ? q->main_fd : q->side_fd;
}

/* Files take everything at once, and so does what fails. */
static enum out_way
find_way(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    struct stat st;

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &st) < 0)
        return OUT_AT_ONCE;
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd))
        return OUT_POLLED;
    return OUT_AT_ONCE;
}

void
out_queue_init(struct out_queue *q, bool terminal, bool joined)
{
    q->joined = joined;
    for (int ch = OUT_MAIN; ch <= OUT_SIDE; ch++) {
        if (terminal)
            q->ways[ch] = OUT_NONBLOCKING;
        else if (q->loop == NULL)
            q->ways[ch] = OUT_AT_ONCE;
        else
            q->ways[ch] = find_way(fd_of(q, (enum out_channel)ch));
    }
}

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

/* before: the one before seg; NULL: seg is the first. */
static void
remove_segment(struct out_queue *q, struct segment *before, struct segment *seg)
{
    q->n_queued -= seg->data.len - seg->n_sent;
    if (before != NULL)
        before->next = seg->next;
    else
        q->first = seg->next;
    if (q->last == seg)
        q->last = before;
    sbuf_fini(&seg->data);
    free(seg);
}

/* After a failed write. What was queued is forgotten; places stay in the list
   until they are filled. */
static void
lose_channel(struct out_queue *q, enum out_channel ch, int why)
{
    q->gone[ch] = true;
    q->gone_errno[ch] = why;
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

/*
 * Whether a piece can be written without waiting. The descriptor was inherited:
 * others who have it would be surprised if it did not block any more. A reader
 * that is gone shows in the write.
 */
static bool
is_ready(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) > 0;
}

/* Writes of seg what is taken without waiting. False: no more is taken now. */
static bool
send_segment(struct out_queue *q, struct segment *seg, size_t *budget)
{
    bool polled = q->ways[seg->channel] == OUT_POLLED;
    int fd = fd_of(q, seg->channel);

    while (seg->n_sent < seg->data.len) {
        size_t n = seg->data.len - seg->n_sent;
        ssize_t rc;

        if (*budget == 0 || (polled && !is_ready(fd)))
            return false;
        if (polled && n > PIPE_BUF)
            n = PIPE_BUF;
        rc = write(fd, seg->data.data + seg->n_sent, n < *budget ? n : *budget);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0 && errno == EAGAIN)
            return false;
        if (rc < 0) {
            int why = errno;

            end_picture(q, seg);
            lose_channel(q, seg->channel, why);
            return true;
        }
        seg->n_sent += (size_t)rc;
        q->n_queued -= (size_t)rc;
        *budget -= (size_t)rc;
        q->wrote_us = clock_now_us();
    }
    return true;
}

static void
write_segment(struct out_queue *q, struct segment *seg)
{
    size_t n = seg->data.len - seg->n_sent;

    if (n == 0)
        return;
    if (io_write_all(fd_of(q, seg->channel), seg->data.data + seg->n_sent, n,
                     NULL) < 0) {
        lose_channel(q, seg->channel, errno);
        return;
    }
    seg->n_sent += n;
    q->n_queued -= n;
}

/* Writes the queue up to the first place. A channel that is full keeps the
   other one from being written only where both go to the same reader. */
static void
drain(struct out_queue *q, size_t budget)
{
    struct segment *before = NULL;
    struct segment *seg = q->first;

    memset(q->full, 0, sizeof(q->full));
    while (seg != NULL && seg->place == 0) {
        struct segment *next = seg->next;

        if (!q->full[seg->channel]) {
            if (q->ways[seg->channel] == OUT_AT_ONCE)
                write_segment(q, seg);
            else if (!send_segment(q, seg, &budget))
                q->full[seg->channel] = true;
        }
        if (!q->full[seg->channel]) {
            remove_segment(q, before, seg);
        } else if (q->joined) {
            return;
        } else {
            before = seg;
        }
        seg = next;
    }
}

bool
out_queue_is_waiting(const struct out_queue *q)
{
    return q->first != NULL && q->first->place == 0;
}

static bool
is_low(const struct out_queue *q)
{
    return q->was_high && q->n_queued < OUT_QUEUE_LOW;
}

static void on_writable(void *ctx, int fd, unsigned events);

/* Has the loop go on with what is full. */
static void
watch(struct out_queue *q)
{
    for (int i = OUT_MAIN; i <= OUT_SIDE; i++) {
        enum out_channel ch = (enum out_channel)i;

        if (q->full[ch] && q->loop != NULL && q->writers[ch] == NULL) {
            q->writers[ch] =
                loop_add_fd(q->loop, fd_of(q, ch), LOOP_WRITE, on_writable, q);
        } else if (!q->full[ch]) {
            /* A handle that asks for nothing would still report a hang-up,
               over and over. */
            loop_fd_remove(q->writers[ch]);
            q->writers[ch] = NULL;
        }
    }
    if (is_low(q) || !out_queue_is_waiting(q))
        q->low_due(q->ctx);
}

static void
on_writable(void *ctx, int fd, unsigned events)
{
    struct out_queue *q = ctx;

    (void)fd;
    (void)events;
    drain(q, MAX_ROUND_BYTES);
    watch(q);
}

static void
on_join_over(void *ctx)
{
    struct out_queue *q = ctx;

    q->join = NULL;
    if (q->writers[OUT_MAIN] != NULL)
        return;
    drain(q, MAX_ROUND_BYTES);
    watch(q);
}

/* Whether what is queued for the terminal waits for more. */
static bool
join(struct out_queue *q)
{
    int64_t left_us = q->wrote_us + JOIN_US - clock_now_us();

    if (q->writers[OUT_MAIN] != NULL || !out_queue_is_waiting(q) ||
        q->n_queued >= JOIN_BYTES || q->wrote_us == 0 || left_us <= 0)
        return false;
    if (q->join == NULL)
        q->join =
            loop_add_timer(q->loop, (left_us + 999) / 1000, on_join_over, q);
    return true;
}

/* After every change of the queue. */
static void
kick(struct out_queue *q)
{
    if (q->n_queued >= OUT_QUEUE_HIGH)
        q->was_high = true;
    if (q->ways[OUT_MAIN] == OUT_NONBLOCKING && join(q))
        return;
    if (q->ways[OUT_MAIN] == OUT_NONBLOCKING)
        q->full[OUT_MAIN] = out_queue_is_waiting(q);
    else
        drain(q, MAX_ROUND_BYTES);
    watch(q);
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
out_queue_look(struct out_queue *q, enum out_channel ch)
{
    struct pollfd p = {.fd = fd_of(q, ch)};

    if (!q->gone[ch] && q->ways[ch] == OUT_POLLED && poll(&p, 1, 0) > 0 &&
        (p.revents & (POLLERR | POLLHUP)) != 0)
        lose_channel(q, ch, EPIPE);
}

void
out_queue_flush(struct out_queue *q, int limit_ms)
{
    int64_t end_ms = clock_now_ms() + limit_ms;

    for (;;) {
        struct pollfd p[2] = {{.fd = -1}, {.fd = -1}};
        int64_t left_ms;

        drain(q, SIZE_MAX);
        left_ms = end_ms - clock_now_ms();
        if ((!q->full[OUT_MAIN] && !q->full[OUT_SIDE]) || left_ms <= 0)
            break;
        for (int ch = OUT_MAIN; ch <= OUT_SIDE; ch++) {
            if (q->full[ch])
                p[ch] = (struct pollfd){.fd = fd_of(q, (enum out_channel)ch),
                                        .events = POLLOUT};
        }
        (void)!poll(p, 2, (int)left_ms);
    }
    watch(q);
}

void
out_queue_fini(struct out_queue *q, int limit_ms)
{
    for (struct segment *seg = q->first; seg != NULL; seg = seg->next)
        seg->place = 0;
    out_queue_flush(q, limit_ms);
    end_picture(q, q->first);
    while (q->first != NULL)
        remove_segment(q, NULL, q->first);
    loop_timer_remove(q->join);
    q->join = NULL;
    for (int ch = OUT_MAIN; ch <= OUT_SIDE; ch++) {
        loop_fd_remove(q->writers[ch]);
        q->writers[ch] = NULL;
    }
}
