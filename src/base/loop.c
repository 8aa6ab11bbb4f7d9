/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"

#define N_SIGNALS 65 /* Linux has 1 to 64 */

/* Longer delays than this (31 years) are cut, so that sums cannot overflow. */
#define MAX_DELAY_MS INT64_C(1000000000000)

/* What every handle begins with. */
struct item {
    struct loop *loop; /* borrowed */
    struct item *next_dead;
    bool dead;
};

struct loop_fd {
    struct item item;
    int fd; /* borrowed */
    unsigned events;
    loop_fd_fn fn;
    void *ctx;
};

struct loop_timer {
    struct item item;
    int64_t due_us;
    uint64_t seq; /* orders timers that are due at the same time */
    size_t pos;   /* in the heap */
    loop_fn fn;
    void *ctx;
};

struct loop_task {
    struct item item;
    struct loop_task *prev;
    struct loop_task *next;
    uint64_t round; /* in which it was made */
    loop_fn fn;
    void *ctx;
};

struct loop_signal {
    struct item item;
    int signo;
    struct sigaction old;
    loop_signal_fn fn;
    void *ctx;
};

struct loop {
    struct loop_fd **fds; /* owned; dead ones stay until the round ends */
    size_t n_fds;
    size_t cap_fds;
    size_t n_live_fds;

    struct pollfd *polls; /* owned; [0] is the wake pipe */
    size_t cap_polls;

    struct loop_timer **timers; /* owned; a binary heap, the next one at [0] */
    size_t n_timers;
    size_t cap_timers;
    uint64_t next_seq;

    struct loop_task *first_task;
    struct loop_task *last_task;
    uint64_t round;

    struct loop_signal *signals[N_SIGNALS];
    size_t n_signals;
    int wake[2]; /* signal numbers in the order of their arrival */

    struct item *dead; /* released when the round ends */
    bool running;
    bool stopped;
};

/* The only state that a handler can reach. A number is written to the pipe
   when its flag becomes set, so the pipe holds a few bytes and is never full.
 */
static volatile sig_atomic_t signal_pending[N_SIGNALS];
static volatile sig_atomic_t signal_wake_fd = -1;

static void
handle_signal(int signo)
{
    int saved = errno;
    int fd = signal_wake_fd;
    unsigned char byte = (unsigned char)signo;

    if (fd >= 0 && !signal_pending[signo]) {
        signal_pending[signo] = 1;
        if (write(fd, &byte, 1) != 1) {
            signal_pending[signo] = 0;
        }
    }
    errno = saved;
}

/* A callback further up the stack may still use the item. */
static void
bury(struct item *item)
{
    struct loop *loop = item->loop;

    item->dead = true;
    if (loop->running) {
        item->next_dead = loop->dead;
        loop->dead = item;
    } else {
        free(item);
    }
}

/* Takes dead descriptors out of the array; their memory is not touched after
   bury() has released it, which it does only outside of loop_run. */
static void
compact_fds(struct loop *loop)
{
    size_t n = 0;

    if (loop->n_live_fds == loop->n_fds) {
        return;
    }
    for (size_t i = 0; i < loop->n_fds; i++) {
        if (!loop->fds[i]->item.dead) {
            loop->fds[n++] = loop->fds[i];
        }
    }
    loop->n_fds = n;
}

static void
release_dead(struct loop *loop)
{
    compact_fds(loop);
    while (loop->dead) {
        struct item *item = loop->dead;

        loop->dead = item->next_dead;
        free(item);
    }
}

static struct item
make_item(struct loop *loop)
{
    return (struct item){.loop = loop};
}

/* --- timers --- */

static bool
is_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->seq < b->seq;
}

static void
place(struct loop *loop, size_t pos, struct loop_timer *t)
{
    loop->timers[pos] = t;
    t->pos = pos;
}

static void
sift_up(struct loop *loop, size_t pos, struct loop_timer *t)
{
    while (pos > 0 && is_before(t, loop->timers[(pos - 1) / 2])) {
        place(loop, pos, loop->timers[(pos - 1) / 2]);
        pos = (pos - 1) / 2;
    }
    place(loop, pos, t);
}

static void
sift_down(struct loop *loop, size_t pos, struct loop_timer *t)
{
    for (;;) {
        size_t child = 2 * pos + 1;

        if (child + 1 < loop->n_timers &&
            is_before(loop->timers[child + 1], loop->timers[child])) {
            child++;
        }
        if (child >= loop->n_timers || !is_before(loop->timers[child], t)) {
            break;
        }
        place(loop, pos, loop->timers[child]);
        pos = child;
    }
    place(loop, pos, t);
}

static void
take_out_timer(struct loop *loop, struct loop_timer *t)
{
    struct loop_timer *last = loop->timers[--loop->n_timers];
    size_t pos = t->pos;

    if (last != t) {
        sift_down(loop, pos, last);
        if (last->pos == pos) {
            sift_up(loop, pos, last);
        }
    }
}

struct loop_timer *
loop_add_timer(struct loop *loop, int64_t delay_ms, loop_fn fn, void *ctx)
{
    struct loop_timer *t = xcalloc(1, sizeof(*t));

    if (delay_ms < 0) {
        delay_ms = 0;
    }
    if (delay_ms > MAX_DELAY_MS) {
        delay_ms = MAX_DELAY_MS;
    }
    if (loop->n_timers == loop->cap_timers) {
        loop->cap_timers = loop->cap_timers > 0 ? loop->cap_timers * 2 : 16;
        loop->timers = xreallocarray(loop->timers, loop->cap_timers,
                                     sizeof(*loop->timers));
    }
    t->item = make_item(loop);
    t->due_us = clock_now_us() + delay_ms * 1000;
    t->seq = loop->next_seq++;
    t->fn = fn;
    t->ctx = ctx;
    sift_up(loop, loop->n_timers++, t);
    return t;
}

void
loop_timer_remove(struct loop_timer *t)
{
    if (t && !t->item.dead) {
        take_out_timer(t->item.loop, t);
        bury(&t->item);
    }
}

/* Timers that callbacks add wait for the next round, so that one which adds
   itself again cannot keep the loop from everything else. */
static void
run_timers(struct loop *loop)
{
    int64_t now_us = clock_now_us();
    uint64_t limit = loop->next_seq;

    while (!loop->stopped && loop->n_timers > 0) {
        struct loop_timer *t = loop->timers[0];

        if (t->due_us > now_us || t->seq >= limit) {
            break;
        }
        loop_timer_remove(t);
        t->fn(t->ctx);
    }
}

/* --- tasks --- */

struct loop_task *
loop_defer(struct loop *loop, loop_fn fn, void *ctx)
{
    struct loop_task *t = xcalloc(1, sizeof(*t));

    t->item = make_item(loop);
    t->round = loop->round;
    t->fn = fn;
    t->ctx = ctx;
    t->prev = loop->last_task;
    if (loop->last_task) {
        loop->last_task->next = t;
    } else {
        loop->first_task = t;
    }
    loop->last_task = t;
    return t;
}

void
loop_task_remove(struct loop_task *t)
{
    struct loop *loop;

    if (!t || t->item.dead) {
        return;
    }
    loop = t->item.loop;
    if (t->prev) {
        t->prev->next = t->next;
    } else {
        loop->first_task = t->next;
    }
    if (t->next) {
        t->next->prev = t->prev;
    } else {
        loop->last_task = t->prev;
    }
    bury(&t->item);
}

static void
run_tasks(struct loop *loop)
{
    while (!loop->stopped && loop->first_task &&
           loop->first_task->round < loop->round) {
        struct loop_task *t = loop->first_task;

        loop_task_remove(t);
        t->fn(t->ctx);
    }
}

/* --- descriptors --- */

struct loop_fd *
loop_add_fd(struct loop *loop, int fd, unsigned events, loop_fd_fn fn,
            void *ctx)
{
    struct loop_fd *h = xcalloc(1, sizeof(*h));

    assert(fd >= 0);
    if (loop->n_fds == loop->cap_fds) {
        loop->cap_fds = loop->cap_fds > 0 ? loop->cap_fds * 2 : 16;
        loop->fds =
            xreallocarray(loop->fds, loop->cap_fds, sizeof(struct loop_fd *));
    }
    h->item = make_item(loop);
    h->fd = fd;
    h->events = events;
    h->fn = fn;
    h->ctx = ctx;
    loop->fds[loop->n_fds++] = h;
    loop->n_live_fds++;
    return h;
}

void
loop_fd_set(struct loop_fd *h, unsigned events)
{
    h->events = events;
}

void
loop_fd_remove(struct loop_fd *h)
{
    struct loop *loop;

    if (!h || h->item.dead) {
        return;
    }
    loop = h->item.loop;
    loop->n_live_fds--;
    h->item.dead = true;
    if (!loop->running) {
        compact_fds(loop);
    }
    bury(&h->item);
}

/* What a callback asked for counts as of now: an earlier one in this round may
   have changed it. */
static unsigned
ready_events(const struct loop_fd *h, short revents)
{
    unsigned ready = 0;

    if (revents & (POLLERR | POLLHUP | POLLNVAL)) {
        return h->events != 0 ? h->events : (unsigned)LOOP_READ;
    }
    if (revents & POLLIN) {
        ready |= LOOP_READ;
    }
    if (revents & POLLOUT) {
        ready |= LOOP_WRITE;
    }
    return ready & h->events;
}

static void
run_fds(struct loop *loop, size_t n_polled)
{
    for (size_t i = 0; i < n_polled && !loop->stopped; i++) {
        struct loop_fd *h = loop->fds[i];
        short revents = loop->polls[i + 1].revents;
        unsigned ready;

        if (revents == 0 || h->item.dead) {
            continue;
        }
        ready = ready_events(h, revents);
        if (ready != 0) {
            h->fn(h->ctx, h->fd, ready);
        }
    }
}

/* --- signals --- */

struct loop_signal *
loop_add_signal(struct loop *loop, int signo, loop_signal_fn fn, void *ctx,
                struct error *err)
{
    struct sigaction sa = {0};
    struct loop_signal *s;

    assert(signo > 0 && signo < N_SIGNALS);
    if (signal_wake_fd >= 0 && signal_wake_fd != loop->wake[1]) {
        error_fill(err, ERR_IO, "signal %d: another loop has the signals",
                   signo);
        return NULL;
    }
    if (loop->signals[signo]) {
        error_fill(err, ERR_IO, "signal %d: already caught", signo);
        return NULL;
    }
    s = xcalloc(1, sizeof(*s));
    s->item = make_item(loop);
    s->signo = signo;
    s->fn = fn;
    s->ctx = ctx;

    sa.sa_handler = handle_signal;
    sa.sa_flags = SA_RESTART;
    /* No handler within a handler: the pipe keeps the order of arrival. */
    sigfillset(&sa.sa_mask);
    signal_wake_fd = loop->wake[1];
    if (sigaction(signo, &sa, &s->old) < 0) {
        error_fill_errno(err, ERR_IO, "catching signal %d", signo);
        free(s);
        if (loop->n_signals == 0) {
            signal_wake_fd = -1;
        }
        return NULL;
    }
    loop->signals[signo] = s;
    loop->n_signals++;
    return s;
}

void
loop_signal_remove(struct loop_signal *s)
{
    struct loop *loop;

    if (!s || s->item.dead) {
        return;
    }
    loop = s->item.loop;
    sigaction(s->signo, &s->old, NULL);
    signal_pending[s->signo] = 0;
    loop->signals[s->signo] = NULL;
    loop->n_signals--;
    if (loop->n_signals == 0) {
        signal_wake_fd = -1;
    }
    bury(&s->item);
}

/* One byte at a time, so that those behind a loop_stop stay in the pipe. */
static void
run_signals(struct loop *loop)
{
    for (int i = 0; i < N_SIGNALS && !loop->stopped; i++) {
        unsigned char signo;
        struct loop_signal *s;
        ssize_t n = read(loop->wake[0], &signo, 1);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n != 1) {
            break;
        }
        assert(signo < N_SIGNALS);
        /* Cleared first: one that arrives from here on gets its own call. */
        signal_pending[signo] = 0;
        s = loop->signals[signo];
        if (s) {
            s->fn(s->ctx, signo);
        }
    }
}

/* --- the loop --- */

struct loop *
loop_new(struct error *err)
{
    struct loop *loop = xcalloc(1, sizeof(*loop));

    if (io_pipe(loop->wake, err) < 0) {
        free(loop);
        return NULL;
    }
    if (io_set_nonblock(loop->wake[0], err) < 0 ||
        io_set_nonblock(loop->wake[1], err) < 0) {
        close(loop->wake[0]);
        close(loop->wake[1]);
        free(loop);
        return NULL;
    }
    return loop;
}

void
loop_free(struct loop *loop)
{
    if (!loop) {
        return;
    }
    assert(!loop->running);
    for (int i = 0; i < N_SIGNALS; i++) {
        loop_signal_remove(loop->signals[i]);
    }
    while (loop->first_task) {
        loop_task_remove(loop->first_task);
    }
    for (size_t i = 0; i < loop->n_timers; i++) {
        free(loop->timers[i]);
    }
    for (size_t i = 0; i < loop->n_fds; i++) {
        free(loop->fds[i]);
    }
    close(loop->wake[0]);
    close(loop->wake[1]);
    free(loop->timers);
    free(loop->fds);
    free(loop->polls);
    free(loop);
}

static bool
has_work(const struct loop *loop)
{
    return loop->n_live_fds > 0 || loop->n_timers > 0 || loop->first_task ||
           loop->n_signals > 0;
}

/* Rounded up: a timer that is not quite due would make the loop spin. */
static int
poll_timeout_ms(const struct loop *loop)
{
    int64_t wait_ms;

    if (loop->first_task) {
        return 0;
    }
    if (loop->n_timers == 0) {
        return -1;
    }
    wait_ms = (loop->timers[0]->due_us - clock_now_us() + 999) / 1000;
    if (wait_ms < 0) {
        return 0;
    }
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

static void
fill_polls(struct loop *loop)
{
    if (loop->cap_polls < loop->n_fds + 1) {
        loop->cap_polls = loop->cap_fds + 1;
        loop->polls =
            xreallocarray(loop->polls, loop->cap_polls, sizeof(struct pollfd));
    }
    loop->polls[0] = (struct pollfd){.fd = loop->wake[0], .events = POLLIN};
    for (size_t i = 0; i < loop->n_fds; i++) {
        const struct loop_fd *h = loop->fds[i];
        short events = 0;

        if (h->events & LOOP_READ) {
            events |= POLLIN;
        }
        if (h->events & LOOP_WRITE) {
            events |= POLLOUT;
        }
        loop->polls[i + 1] = (struct pollfd){.fd = h->fd, .events = events};
    }
}

static void
run_round(struct loop *loop)
{
    size_t n_polled = loop->n_fds;
    int n_ready;

    loop->round++;
    fill_polls(loop);
    n_ready = poll(loop->polls, n_polled + 1, poll_timeout_ms(loop));
    if (n_ready < 0) {
        /* The results are undefined then; a signal is found by the read. */
        assert(errno == EINTR || errno == EAGAIN || errno == ENOMEM);
        n_polled = 0;
    }
    /* Rounds are many while a reply streams; an empty pipe is not read. */
    if (n_ready < 0 || loop->polls[0].revents != 0) {
        run_signals(loop);
    }
    run_tasks(loop);
    run_timers(loop);
    run_fds(loop, n_polled);
}

void
loop_run(struct loop *loop)
{
    assert(!loop->running);
    while (!loop->stopped && has_work(loop)) {
        loop->running = true;
        run_round(loop);
        loop->running = false;
        release_dead(loop);
    }
    loop->stopped = false;
}

void
loop_stop(struct loop *loop)
{
    loop->stopped = true;
}
