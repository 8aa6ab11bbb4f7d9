/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_link_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"

#define MAX_MARKS_AHEAD 1000

/* While bytes come, an event waits for its mark this long in all. */
#define MAX_MARK_WAIT_MS 5000
#define CHUNK_BYTES (128u << 10)
#define MAX_REQUEST_BYTES (16u << 20)
#define LARGE_BYTES (1u << 20)
#define IN_DIGITS(number) #number
#define DIGITS(number) IN_DIGITS(number)
/* Most that is read of what an ended sandbox left in its pipes. */
#define MAX_DRAIN_BYTES (8u << 20)

struct stream {
    struct local_link *link; /* borrowed: the owner */
    enum event_stream which;
    int fd; /* -1: ended */
    struct loop_fd *watch;
    struct marks marks;
    char *chunk; /* owned; CHUNK_BYTES */
    size_t at;
    size_t len;
    uint64_t mark; /* the last one passed */
    bool stopped;  /* behind a mark whose event has not been handled */
};

struct local_link {
    struct loop *loop;
    const struct local_link_handlers *on;
    void *ctx;
    struct stream streams[2];

    int event_fd; /* -1: ended */
    struct loop_fd *event_watch;
    struct sbuf lines; /* bytes of events */
    size_t max_line_bytes;
    size_t line_at;        /* start of the line that is next */
    size_t scanned;        /* no line feed before this */
    struct cJSON *waiting; /* owned; an event whose marks are awaited */
    uint64_t waiting_mark;
    size_t waiting_len;
    uint64_t handled; /* mark of the last event handled */
    struct loop_timer *mark_timer;
    int64_t wait_since_ms;

    int request_fd;
    struct loop_fd *request_watch;
    struct sbuf requests;

    bool broken;
    bool draining;
    bool held;      /* the streams are not read for now */
    bool unordered; /* marks came without their event: none stops a stream */
    int depth;      /* of callbacks */
    bool dead;      /* freed within a callback */
};

static void advance(struct local_link *link);
static void handle_mark_timer(void *ctx);

static void
destroy(struct local_link *link)
{
    for (size_t i = 0; i < 2; i++)
        free(link->streams[i].chunk);
    sbuf_fini(&link->lines);
    sbuf_fini(&link->requests);
    json_free(link->waiting);
    free(link);
}

/* Leaves a callback. False when the link is gone now. */
static bool
leave(struct local_link *link)
{
    link->depth--;
    if (!link->dead)
        return true;
    if (link->depth == 0)
        destroy(link);
    return false;
}

void
local_link_free(struct local_link *link)
{
    if (link == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        loop_fd_remove(link->streams[i].watch);
        link->streams[i].watch = NULL;
    }
    loop_fd_remove(link->event_watch);
    loop_fd_remove(link->request_watch);
    loop_timer_remove(link->mark_timer);
    link->event_watch = NULL;
    link->request_watch = NULL;
    link->mark_timer = NULL;
    if (link->depth > 0)
        link->dead = true;
    else
        destroy(link);
}

static void
break_off(struct local_link *link, const char *why)
{
    if (link->broken)
        return;
    link->broken = true;
    loop_fd_remove(link->event_watch);
    link->event_watch = NULL;
    if (!link->draining)
        link->on->on_broken(link->ctx, why);
}

/* --- what cells print --- */

static void
end_stream(struct stream *s)
{
    loop_fd_remove(s->watch);
    s->watch = NULL;
    s->fd = -1;
}

static void
deliver(struct stream *s, const struct marks_token *token)
{
    struct local_link *link = s->link;

    if (token->kind == MARKS_TEXT && token->len > 0)
        link->on->on_text(link->ctx, s->which, token->text, token->len);
}

/* Hands over what has been read, up to a mark whose event is still to come. */
static void
empty_chunk(struct stream *s)
{
    struct local_link *link = s->link;
    struct marks_token token;

    while (!link->dead && !s->stopped && s->at < s->len) {
        s->at +=
            marks_next(&s->marks, s->chunk + s->at, s->len - s->at, &token);
        /* The kernel counts by one; a number far ahead was never its own, and
           believing it would order all that follows wrongly. */
        if (token.kind == MARKS_MARK && token.number > link->handled &&
            token.number <= link->handled + MAX_MARKS_AHEAD) {
            s->mark = token.number;
            s->stopped = !link->draining && !link->unordered;
        }
        deliver(s, &token);
    }
}

/* Returns bytes read; 0 when there is nothing now, or nothing any more. */
static size_t
fill_chunk(struct stream *s)
{
    ssize_t n;

    do {
        n = read(s->fd, s->chunk, CHUNK_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        s->at = 0;
        s->len = (size_t)n;
        return s->len;
    }
    if (n == 0 || errno != EAGAIN)
        end_stream(s);
    return 0;
}

static void
start_mark_timer(struct local_link *link)
{
    link->mark_timer = loop_add_timer(link->loop, LOCAL_LINK_MARK_WAIT_MS,
                                      handle_mark_timer, link);
}

/* Bytes still come: the mark that is waited for may be behind them. */
static void
wait_longer(struct local_link *link)
{
    if (link->mark_timer == NULL ||
        clock_now_ms() - link->wait_since_ms > MAX_MARK_WAIT_MS)
        return;
    loop_timer_remove(link->mark_timer);
    start_mark_timer(link);
}

static void
handle_stream(void *ctx, int fd, unsigned events)
{
    struct stream *s = ctx;
    struct local_link *link = s->link;

    (void)fd;
    (void)events;
    link->depth++;
    if (s->at == s->len && !s->stopped && fill_chunk(s) > 0)
        wait_longer(link);
    empty_chunk(s);
    if (!link->dead)
        advance(link);
    leave(link);
}

/* --- events --- */

/* Whether there is something to read that has not been looked at for a mark.
   A machine that is busy may call the timer before the stream. */
static bool
has_unread(const struct local_link *link)
{
    for (size_t i = 0; i < 2 && !link->held; i++) {
        const struct stream *s = &link->streams[i];
        int n = 0;

        if (s->fd >= 0 && !s->stopped && ioctl(s->fd, FIONREAD, &n) == 0 &&
            n > 0)
            return true;
    }
    return false;
}

static void
handle_mark_timer(void *ctx)
{
    struct local_link *link = ctx;
    uint64_t last = link->waiting_mark;

    if (has_unread(link) &&
        clock_now_ms() - link->wait_since_ms <= MAX_MARK_WAIT_MS) {
        start_mark_timer(link);
        return;
    }
    link->mark_timer = NULL;
    link->depth++;
    /* Either an event without its marks, or marks without their event. */
    if (link->waiting == NULL)
        for (size_t i = 0; i < 2; i++)
            if (link->streams[i].stopped && link->streams[i].mark > last)
                last = link->streams[i].mark;
    for (size_t i = 0; i < 2; i++)
        if (link->streams[i].mark < last)
            link->streams[i].mark = last;
    if (link->waiting == NULL) {
        link->handled = last;
        /* A cell that writes marks itself must not hold back what it prints
           for this long at each of them. */
        link->unordered = true;
    }
    advance(link);
    leave(link);
}

/* Takes the next whole line out of what has been read. */
static bool
next_line(struct local_link *link, const char **line, size_t *len)
{
    const char *start = link->lines.data + link->line_at;
    const char *feed;

    if (link->lines.len == link->scanned)
        return false;
    feed = memchr(link->lines.data + link->scanned, '\n',
                  link->lines.len - link->scanned);
    link->scanned = link->lines.len;
    *line = start;
    *len =
        feed != NULL ? (size_t)(feed - start) : link->lines.len - link->line_at;
    if (*len > link->max_line_bytes)
        break_off(link, "it sent an event of over " DIGITS(
                            LOCAL_LINK_MAX_LINE_MIB) " MiB");
    if (feed == NULL || link->broken)
        return false;
    link->line_at += *len + 1;
    link->scanned = link->line_at;
    return true;
}

/* The kernel escapes all else, and repairing it would take three times the
   room. */
static bool
is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

/* Forgets the lines that are done. The room of a large one is given back: its
   tree, and the picture in that, are as large again. */
static void
drop_lines(struct local_link *link)
{
    struct sbuf rest;

    sbuf_drop(&link->lines, link->line_at);
    link->scanned -= link->line_at;
    link->line_at = 0;
    if (link->lines.cap <= LARGE_BYTES)
        return;
    sbuf_init(&rest, link->lines.max);
    sbuf_add(&rest, link->lines.data, link->lines.len);
    sbuf_fini(&link->lines);
    link->lines = rest;
}

/* Makes the next line the waiting event. False when there is none. */
static bool
next_event(struct local_link *link)
{
    const char *line;
    size_t len;
    struct error err = {0};
    int64_t mark;

    if (link->broken || link->dead || !next_line(link, &line, &len))
        return false;
    if (is_ascii(line, len))
        link->waiting = json_parse(line, len, LOCAL_LINK_MAX_DEPTH, &err);
    if (link->waiting == NULL || !json_is_object(link->waiting)) {
        json_free(link->waiting);
        link->waiting = NULL;
        break_off(link, "it sent what is no event");
        return false;
    }
    link->unordered = false;
    mark = json_int(link->waiting, "m", 0);
    link->waiting_mark = mark > 0 ? (uint64_t)mark : 0;
    link->waiting_len = len;
    if (len > LARGE_BYTES)
        drop_lines(link);
    return true;
}

static bool
has_passed(const struct stream *s, uint64_t mark)
{
    return s->mark >= mark || s->fd < 0;
}

/* The event's turn: both streams are at its mark, or it has waited long. */
static void
handle_waiting(struct local_link *link)
{
    struct cJSON *event = take_ptr(&link->waiting);

    loop_timer_remove(link->mark_timer);
    link->mark_timer = NULL;
    if (link->waiting_mark > link->handled)
        link->handled = link->waiting_mark;
    link->waiting_mark = 0;
    link->on->on_event(link->ctx, event, link->waiting_len);
    json_free(event);
}

static void
release_streams(struct local_link *link)
{
    for (size_t i = 0; i < 2 && !link->dead; i++) {
        struct stream *s = &link->streams[i];

        if (s->stopped && s->mark <= link->handled) {
            s->stopped = false;
            empty_chunk(s);
        }
    }
}

static void
set_watches(struct local_link *link)
{
    bool stopped = false;

    for (size_t i = 0; i < 2; i++) {
        struct stream *s = &link->streams[i];

        stopped |= s->stopped;
        if (s->watch != NULL)
            loop_fd_set(s->watch, s->stopped ? 0 : LOOP_READ);
    }
    if (link->event_watch != NULL)
        loop_fd_set(link->event_watch, link->waiting != NULL ? 0 : LOOP_READ);
    if ((stopped || link->waiting != NULL) && link->mark_timer == NULL &&
        !link->draining) {
        link->wait_since_ms = clock_now_ms();
        start_mark_timer(link);
    }
}

/* Everything that can go on without further bytes. */
static void
advance(struct local_link *link)
{
    while (!link->dead && (link->waiting != NULL || next_event(link))) {
        uint64_t mark = link->waiting_mark;

        if (mark > link->handled && !link->draining &&
            !(has_passed(&link->streams[0], mark) &&
              has_passed(&link->streams[1], mark)))
            break;
        handle_waiting(link);
        release_streams(link);
    }
    if (link->dead)
        return;
    release_streams(link);
    if (link->waiting == NULL && link->line_at > 0)
        drop_lines(link);
    if (!link->dead)
        set_watches(link);
}

/* Returns bytes read; 0 when there is nothing now, or nothing any more. */
static size_t
read_events(struct local_link *link)
{
    char *chunk = link->streams[0].chunk;
    AUTO_FREE char *own = NULL;
    ssize_t n;

    /* The chunk of a stream may hold bytes that are still to be shown. */
    if (link->streams[0].at < link->streams[0].len)
        chunk = own = xmalloc(CHUNK_BYTES);
    do {
        n = read(link->event_fd, chunk, CHUNK_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        sbuf_add(&link->lines, chunk, (size_t)n);
        return (size_t)n;
    }
    if (n == 0 || errno != EAGAIN)
        break_off(link, NULL);
    return 0;
}

static void
handle_events(void *ctx, int fd, unsigned events)
{
    struct local_link *link = ctx;

    (void)fd;
    (void)events;
    link->depth++;
    if (link->waiting == NULL && read_events(link) > 0)
        advance(link);
    leave(link);
}

/* --- requests --- */

static void
write_requests(struct local_link *link)
{
    while (link->requests.len > 0) {
        ssize_t n =
            write(link->request_fd, link->requests.data, link->requests.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            /* The end is seen on the events, with its reason. */
            sbuf_clear(&link->requests);
            break;
        }
        sbuf_drop(&link->requests, (size_t)n);
    }
    loop_fd_set(link->request_watch, link->requests.len > 0 ? LOOP_WRITE : 0);
}

static void
handle_request_fd(void *ctx, int fd, unsigned events)
{
    struct local_link *link = ctx;

    (void)fd;
    if ((events & LOOP_WRITE) != 0) {
        write_requests(link);
        return;
    }
    /* The other end is closed: without this the loop would call again and
       again. */
    loop_fd_remove(link->request_watch);
    link->request_watch = NULL;
    sbuf_clear(&link->requests);
}

void
local_link_send(struct local_link *link, const char *data, size_t len)
{
    if (link->request_watch == NULL)
        return;
    sbuf_add(&link->requests, data, len);
    write_requests(link);
}

/* --- life --- */

static void
add_stream(struct local_link *link, enum event_stream which, int fd,
           const char *nonce)
{
    struct stream *s = &link->streams[which == EVENT_STDOUT ? 0 : 1];

    s->link = link;
    s->which = which;
    s->fd = fd;
    s->chunk = xmalloc(CHUNK_BYTES);
    marks_init(&s->marks, nonce);
    s->watch = loop_add_fd(link->loop, fd, LOOP_READ, handle_stream, s);
}

struct local_link *
local_link_new(struct loop *loop, const struct local_link_fds *fds,
               const char nonce[MARKS_NONCE_LEN],
               const struct local_link_handlers *on, void *ctx)
{
    struct local_link *link = xcalloc(1, sizeof(*link));

    link->loop = loop;
    link->on = on;
    link->ctx = ctx;
    link->event_fd = fds->events;
    link->request_fd = fds->requests;
    link->max_line_bytes = fds->max_line_bytes > 0 ? fds->max_line_bytes
                                                   : LOCAL_LINK_MAX_LINE_BYTES;
    sbuf_init(&link->lines, link->max_line_bytes + 2 * CHUNK_BYTES);
    sbuf_init(&link->requests, MAX_REQUEST_BYTES);
    add_stream(link, EVENT_STDOUT, fds->out, nonce);
    add_stream(link, EVENT_STDERR, fds->errors, nonce);
    link->event_watch =
        loop_add_fd(loop, fds->events, LOOP_READ, handle_events, link);
    link->request_watch =
        loop_add_fd(loop, fds->requests, 0, handle_request_fd, link);
    return link;
}

/* --- while nobody wants what is printed --- */

/* Not with a watch for nothing: that would still be called, again and again,
   when all who could write are gone. */
void
local_link_hold(struct local_link *link)
{
    if (link->held || link->draining)
        return;
    link->held = true;
    for (size_t i = 0; i < 2; i++) {
        loop_fd_remove(link->streams[i].watch);
        link->streams[i].watch = NULL;
    }
}

/* What is in the pipe now, and not what comes while it is read. */
static void
catch_up(struct stream *s)
{
    struct local_link *link = s->link;
    int left = 0;

    if (ioctl(s->fd, FIONREAD, &left) != 0)
        return;
    while (left > 0 && !link->dead && !s->stopped && s->at == s->len) {
        size_t n = fill_chunk(s);

        if (n == 0)
            return;
        left -= (int)n;
        empty_chunk(s);
    }
}

void
local_link_release(struct local_link *link)
{
    if (!link->held)
        return;
    link->depth++;
    for (size_t i = 0; i < 2 && !link->dead; i++) {
        struct stream *s = &link->streams[i];

        if (s->fd >= 0)
            catch_up(s);
        if (!link->dead && s->fd >= 0)
            s->watch =
                loop_add_fd(link->loop, s->fd, LOOP_READ, handle_stream, s);
    }
    link->held = false;
    if (!link->dead)
        set_watches(link);
    leave(link);
}

static void
drain_stream(struct stream *s, size_t *left)
{
    struct local_link *link = s->link;
    struct marks_token token;

    s->stopped = false;
    empty_chunk(s);
    while (!link->dead && s->fd >= 0 && *left > CHUNK_BYTES) {
        size_t n = fill_chunk(s);

        if (n == 0)
            break;
        *left -= n;
        empty_chunk(s);
    }
    if (link->dead)
        return;
    marks_flush(&s->marks, &token);
    deliver(s, &token);
}

bool
local_link_drain(struct local_link *link)
{
    size_t left = MAX_DRAIN_BYTES;

    link->depth++;
    link->draining = true;
    for (size_t i = 0; i < 2 && !link->dead; i++)
        drain_stream(&link->streams[i], &left);
    /* An event that waits for its marks has been read already. */
    do {
        if (!link->dead)
            advance(link);
    } while (!link->dead && !link->broken && read_events(link) > 0);
    return leave(link);
}
