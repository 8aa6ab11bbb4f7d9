/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The pipes between the interpreter of cells and the client, with anything on
 * them. Whatever arrives, in whatever pieces and order: what is printed comes
 * out without its marks and loses nothing; lines that are events come out, each
 * once and in order, up to the first that is none; a line that is too long ends
 * it; nothing is held back for ever; and where the marks are in order, so are
 * text and events.
 *
 * An input is a script. Bytes go to one of the pipes but for those below 8,
 * which are listed in enum control. The loop and the clock are this file's own,
 * so that time passes only where the script says so.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/local_link_internal.h"

#define NONCE "0123456789abcdef"
#define MARK_START "\0\x1e" NONCE ":"
#define MARK_START_LEN (2 + MARKS_NONCE_LEN + 1)
#define MAX_FDS 8
#define MAX_TIMERS 4
#define MAX_BYTES (8u << 20)
#define MAX_LINE_BYTES 4096u
/* Pipes hold 64 KiB. */
#define MAX_UNREAD 16384u
#define MAX_EVERY_CUT 128u
#define N_CUTS 24u

/* In a script; all other bytes are data. */
enum control {
    TO_STDOUT = 1, /* what follows goes there */
    TO_STDERR,
    TO_EVENTS,
    LITERAL,   /* the next byte is data, whichever it is */
    TIME,      /* longer passes than a mark is waited for */
    FREE,      /* the next callback frees the link */
    SHORT_LINE /* at the start: lines of more than 100 bytes are too long */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_local_link: %s\n", what);
    abort();
}

/* --- a loop without a clock --- */

struct loop_fd {
    bool used;
    int fd;
    unsigned events;
    loop_fd_fn fn;
    void *ctx;
};

struct loop_timer {
    bool used;
    int64_t due_ms;
    loop_fn fn;
    void *ctx;
};

struct loop {
    struct loop_fd fds[MAX_FDS];
    struct loop_timer timers[MAX_TIMERS];
    size_t first; /* which descriptor is served first */
};

static int64_t now_ms;

int64_t
clock_now_ms(void)
{
    return now_ms;
}

struct loop_fd *
loop_add_fd(struct loop *loop, int fd, unsigned events, loop_fd_fn fn,
            void *ctx)
{
    size_t i = 0;

    while (loop->fds[i].used)
        i++;
    loop->fds[i] = (struct loop_fd){true, fd, events, fn, ctx};
    return &loop->fds[i];
}

void
loop_fd_set(struct loop_fd *h, unsigned events)
{
    h->events = events;
}

void
loop_fd_remove(struct loop_fd *h)
{
    if (h != NULL)
        h->used = false;
}

struct loop_timer *
loop_add_timer(struct loop *loop, int64_t delay_ms, loop_fn fn, void *ctx)
{
    size_t i = 0;

    while (loop->timers[i].used)
        i++;
    loop->timers[i] = (struct loop_timer){true, now_ms + delay_ms, fn, ctx};
    return &loop->timers[i];
}

void
loop_timer_remove(struct loop_timer *t)
{
    if (t != NULL)
        t->used = false;
}

static bool
serve(struct loop_fd *h)
{
    struct pollfd p = {.fd = h->fd, .events = POLLIN};

    if (!h->used || (h->events & LOOP_READ) == 0 || poll(&p, 1, 0) <= 0)
        return false;
    h->fn(h->ctx, h->fd, LOOP_READ);
    return true;
}

/* Until nothing can be read that anybody wants to read. */
static void
run_loop(struct loop *loop)
{
    bool served;

    do {
        served = false;
        for (size_t i = 0; i < MAX_FDS; i++)
            served |= serve(&loop->fds[(loop->first + i) % MAX_FDS]);
    } while (served);
}

static void
pass_time(struct loop *loop)
{
    now_ms += LOCAL_LINK_MARK_WAIT_MS + 1;
    for (size_t i = 0; i < MAX_TIMERS; i++) {
        struct loop_timer timer = loop->timers[i];

        if (!timer.used || timer.due_ms > now_ms)
            continue;
        loop->timers[i].used = false;
        timer.fn(timer.ctx);
    }
    run_loop(loop);
}

/* --- what must come out --- */

/* The bytes of each pipe, and what they mean. */
struct expected {
    struct sbuf bytes[3]; /* stdout, stderr, events */
    struct sbuf text[2];  /* without marks */
    struct sbuf json;     /* all events, as compact JSON lines */
    size_t n_events;
    size_t n_marked; /* of them, with a mark */
    size_t max_line;
    bool broken;  /* by a line that is no event */
    bool ordered; /* the marks on all pipes count from 1, without a gap */
    bool timed;
    bool freed;
    size_t n_marks[2];
    struct sbuf at[2]; /* size_t each: where in text the marks were */
};

/* The length of the mark at the start of data; 0: it is none. */
static size_t
mark_len(const char *data, size_t len, uint64_t *number)
{
    size_t i = MARK_START_LEN;

    if (len < i || memcmp(data, MARK_START, i) != 0)
        return 0;
    *number = 0;
    while (i < len && data[i] >= '0' && data[i] <= '9') {
        *number = *number * 10 + (uint64_t)(data[i] - '0');
        if (++i - MARK_START_LEN > MARKS_MAX_DIGITS)
            return 0;
    }
    if (i == MARK_START_LEN ||
        (data[MARK_START_LEN] == '0' && i > MARK_START_LEN + 1))
        return 0;
    return len - i >= 2 && data[i] == '\x1e' && data[i + 1] == '\0' ? i + 2 : 0;
}

static void
expect_text(struct expected *e, size_t which)
{
    const struct sbuf *in = &e->bytes[which];
    uint64_t number;

    for (size_t i = 0; i < in->len;) {
        size_t n = mark_len(in->data + i, in->len - i, &number);

        if (n == 0) {
            sbuf_add_char(&e->text[which], in->data[i++]);
            continue;
        }
        if (number != ++e->n_marks[which])
            e->ordered = false;
        sbuf_add(&e->at[which], &e->text[which].len, sizeof(size_t));
        i += n;
    }
}

static bool
is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > 0x7f)
            return false;
    return true;
}

static void
add_json(struct sbuf *out, const struct cJSON *event)
{
    AUTO_FREE char *text = json_print(event);

    sbuf_add_str(out, text);
    sbuf_add_char(out, '\n');
}

static void
expect_events(struct expected *e)
{
    const char *at = e->bytes[2].data;
    const char *end = at + e->bytes[2].len;

    while (!e->broken && at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((feed != NULL ? feed : end) - at);
        AUTO_JSON struct cJSON *event = NULL;

        e->broken = len > e->max_line;
        if (e->broken || feed == NULL)
            return;
        if (is_ascii(at, len))
            event = json_parse(at, len, LOCAL_LINK_MAX_DEPTH, NULL);
        e->broken = !json_is_object(event);
        if (e->broken)
            return;
        add_json(&e->json, event);
        e->n_events++;
        if (json_get(event, "m") != NULL &&
            json_int(event, "m", 0) != (int64_t)++e->n_marked)
            e->ordered = false;
        at = feed + 1;
    }
}

/* --- one run --- */

struct run {
    const struct expected *e;
    struct loop loop;
    struct local_link *link;
    int in[3];  /* our ends */
    int out[3]; /* the link's */
    struct sbuf text[2];
    struct sbuf json;
    size_t n_events;
    size_t n_marked;
    size_t n_broken;
    bool free_next;
    bool gone;
    bool drained; /* the sandbox has ended: no order is promised */
};

static void
maybe_free(struct run *r)
{
    require(!r->gone, "a callback after it was freed");
    if (!r->free_next)
        return;
    r->gone = true;
    local_link_free(r->link);
}

static bool
is_prefix(const struct sbuf *part, const struct sbuf *whole)
{
    return part->len <= whole->len &&
           memcmp(part->data, whole->data, part->len) == 0;
}

static void
on_text(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct run *r = ctx;
    size_t which = stream == EVENT_STDOUT ? 0 : 1;

    require(len > 0, "no text at all");
    sbuf_add(&r->text[which], data, len);
    require(is_prefix(&r->text[which], &r->e->text[which]),
            "text that nobody wrote");
    maybe_free(r);
}

/* At an event with a mark: what was printed before the mark, and no more. */
static void
check_order(struct run *r)
{
    const struct expected *e = r->e;
    size_t at;

    for (size_t i = 0; i < 2 && e->ordered && !e->timed && !r->drained; i++) {
        memcpy(&at, e->at[i].data + r->n_marked * sizeof(at), sizeof(at));
        require(r->text[i].len == at, "text and events in a wrong order");
    }
    r->n_marked++;
}

static void
on_event(void *ctx, const struct cJSON *event, size_t line_len)
{
    struct run *r = ctx;

    require(r->n_broken == 0, "an event behind the end");
    require(line_len > 0 && line_len <= r->e->max_line, "a wrong length");
    add_json(&r->json, event);
    require(is_prefix(&r->json, &r->e->json), "an event that nobody sent");
    r->n_events++;
    if (json_get(event, "m") != NULL)
        check_order(r);
    maybe_free(r);
}

static void
on_broken(void *ctx, const char *why)
{
    struct run *r = ctx;

    require(r->n_broken++ == 0, "told twice that it is over");
    require((why != NULL) == r->e->broken, "a wrong reason for the end");
    maybe_free(r);
}

static const struct local_link_handlers handlers = {
    .on_text = on_text,
    .on_event = on_event,
    .on_broken = on_broken,
};

static void
start(struct run *r, const struct expected *e, size_t first)
{
    struct local_link_fds fds = {.max_line_bytes = e->max_line};

    *r = (struct run){.e = e, .loop = {.first = first}};
    for (size_t i = 0; i < 3; i++) {
        int ends[2];

        require(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0, "no pipe");
        r->out[i] = ends[0];
        r->in[i] = ends[1];
    }
    fds.out = r->out[0];
    fds.errors = r->out[1];
    fds.events = r->out[2];
    fds.requests = r->in[2];
    for (size_t i = 0; i < 2; i++)
        sbuf_init(&r->text[i], MAX_BYTES);
    sbuf_init(&r->json, MAX_BYTES);
    r->link = local_link_new(&r->loop, &fds, NONCE, &handlers, r);
}

/* Nothing more comes: what is there must come out, be there marks or not. */
static void
check_all(struct run *r)
{
    const struct expected *e = r->e;
    size_t patience = e->n_marks[0] + e->n_marks[1] + e->n_events + 2;

    if (e->ordered && !e->timed && !r->gone)
        require(r->n_events == e->n_events, "an event is kept waiting");
    while (patience-- > 0 && !r->gone)
        pass_time(&r->loop);
    if (r->gone)
        return;
    require(r->n_events == e->n_events, "an event is held back for ever");
    for (size_t i = 0; i < 2; i++)
        require(e->text[i].len - r->text[i].len < MARKS_MAX_BYTES,
                "text is held back for ever");
}

static void
finish(struct run *r, bool drained_early)
{
    if (!drained_early && !r->gone)
        check_all(r);
    for (size_t i = 0; i < 3; i++)
        close(r->in[i]);
    if (!drained_early && !r->gone)
        run_loop(&r->loop);
    r->drained = true;
    if (!r->gone)
        local_link_drain(r->link);
    if (!r->gone) {
        require(r->json.len == r->e->json.len, "events are lost");
        for (size_t i = 0; i < 2; i++)
            require(r->text[i].len == r->e->text[i].len, "text is lost");
        local_link_free(r->link);
    }
    require(r->gone == r->e->freed || !r->gone, "it is gone");
    for (size_t i = 0; i < 3; i++)
        close(r->out[i]);
    for (size_t i = 0; i < 2; i++)
        sbuf_fini(&r->text[i]);
    sbuf_fini(&r->json);
}

static void
put(struct run *r, size_t pipe_at, char c)
{
    require(write(r->in[pipe_at], &c, 1) == 1, "the pipe is full");
}

/* Plays the script; the link gets to read after every step bytes and at cut. */
static void
play(const uint8_t *data, size_t size, const struct expected *e, size_t step,
     size_t cut, bool drain)
{
    struct run r;
    size_t to = 0;
    size_t unread = 0;

    start(&r, e, step + cut);
    for (size_t i = 0; i < size && !r.gone; i++) {
        uint8_t c = data[i];

        if (c >= TO_STDOUT && c <= TO_EVENTS) {
            to = c - TO_STDOUT;
        } else if (c == TIME) {
            run_loop(&r.loop);
            if (!r.gone)
                pass_time(&r.loop);
            unread = 0;
        } else if (c == FREE) {
            r.free_next = true;
        } else if (c != SHORT_LINE) {
            if (c == LITERAL && i + 1 < size)
                c = data[++i];
            put(&r, to, (char)c);
            unread++;
        }
        if (!r.gone && (unread >= step || unread >= MAX_UNREAD || i == cut)) {
            run_loop(&r.loop);
            unread = 0;
        }
    }
    if (!r.gone && !drain)
        run_loop(&r.loop);
    finish(&r, drain);
}

/* What goes to which pipe, without looking at what it is. */
static void
sort_bytes(const uint8_t *data, size_t size, struct expected *e)
{
    size_t to = 0;

    e->max_line = size > 0 && data[0] == SHORT_LINE ? 100 : MAX_LINE_BYTES;
    for (size_t i = 0; i < size; i++) {
        uint8_t c = data[i];

        e->timed |= c == TIME;
        e->freed |= c == FREE;
        if (c >= TO_STDOUT && c <= TO_EVENTS) {
            to = c - TO_STDOUT;
            continue;
        }
        if (c == TIME || c == FREE || c == SHORT_LINE)
            continue;
        if (c == LITERAL && i + 1 < size)
            c = data[++i];
        sbuf_add_char(&e->bytes[to], (char)c);
    }
}

static void
expect(const uint8_t *data, size_t size, struct expected *e)
{
    for (size_t i = 0; i < 3; i++)
        sbuf_init(&e->bytes[i], MAX_BYTES);
    for (size_t i = 0; i < 2; i++) {
        sbuf_init(&e->text[i], MAX_BYTES);
        sbuf_init(&e->at[i], MAX_BYTES);
    }
    sbuf_init(&e->json, MAX_BYTES);
    e->ordered = true;
    sort_bytes(data, size, e);
    expect_text(e, 0);
    expect_text(e, 1);
    expect_events(e);
    if (e->broken || e->n_marks[0] != e->n_marked ||
        e->n_marks[1] != e->n_marked)
        e->ordered = false;
}

static void
forget(struct expected *e)
{
    for (size_t i = 0; i < 3; i++)
        sbuf_fini(&e->bytes[i]);
    for (size_t i = 0; i < 2; i++) {
        sbuf_fini(&e->text[i]);
        sbuf_fini(&e->at[i]);
    }
    sbuf_fini(&e->json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 7, 64, SIZE_MAX};
    struct expected e = {0};
    size_t stride = size <= MAX_EVERY_CUT ? 1 : size / N_CUTS;

    expect(data, size, &e);
    for (size_t i = 0; i < LEN(steps); i++) {
        play(data, size, &e, steps[i], SIZE_MAX, false);
        play(data, size, &e, steps[i], SIZE_MAX, true);
    }
    for (size_t cut = size % stride; cut < size; cut += stride)
        play(data, size, &e, SIZE_MAX, cut, cut % 2 == 1);
    forget(&e);
    return 0;
}
