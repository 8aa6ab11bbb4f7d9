/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_channel_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/e2b_process_internal.h"
#include "sandbox/e2b_relay_internal.h"
#include "sandbox/e2b_runner_internal.h"
#include "sandbox/local_kernel_internal.h"
#include "sandbox/local_link_internal.h"

#define LOG_MODULE "e2b"

#define DOING "running the interpreter"
#define PIECE_BYTES ((size_t)98304)
#define MAX_QUEUED ((size_t)64 << 20)
#define MANY_QUEUED ((size_t)4 << 20)
#define FEW_QUEUED ((size_t)1 << 20)
#define MAX_ERRORS 4096u
#define MAX_PATH_BYTES 4096u

/* The relay keeps 8 MiB for a client that does not acknowledge. */
#define ACKNOWLEDGE_BYTES ((uint64_t)1 << 20)

/* For the end of the processes behind that of the interpreter. */
#define END_MS 20000

/* The pipes by which the link reads what came in frames. */
enum { OUT, ERRORS, EVENTS, N_PIPES };

struct channel_pipe {
    struct e2b_channel *channel; /* borrowed: the owner */
    int read_fd;
    int write_fd;
    struct sbuf queue; /* what the pipe has not taken yet */
    struct loop_fd *watch;
};

struct e2b_channel {
    struct e2b_site *site; /* borrowed */
    const struct e2b_channel_handlers *on;
    void *ctx;
    struct e2b_process *process; /* NULL: the way is lost, or it has ended */
    int64_t pid;
    struct e2b_relay relay;
    struct channel_pipe pipes[N_PIPES];
    int request_fds[2]; /* of the link, which sends nothing by it */
    struct local_link *link;
    char nonce[MARKS_NONCE_LEN];
    uint64_t n_sent; /* lines */
    uint64_t acknowledged_bytes;
    uint64_t acknowledged;
    bool paused;
    char *python;       /* owned */
    struct sbuf errors; /* of the relay */

    bool ended; /* the interpreter, as the next two say */
    int exit_status;
    int signal;
    bool is_known;
    const char *fault;
    bool closing; /* all that came is handed over, then the end is told */
    struct loop_timer *end_timer;
    struct loop_task *task;
};

static const struct e2b_process_handlers process_handlers;

/* --- life --- */

static void
fill_random(char *text, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[64] = {0};

    /* It keeps honest mistakes apart and no attacker out. */
    if (getrandom(bytes, len, 0) < 0)
        LOG_WARN("no random bytes");
    for (size_t i = 0; i < len; i++)
        text[i] = digits[bytes[i] & 15];
}

static void
close_pipe(struct channel_pipe *p)
{
    loop_fd_remove(p->watch);
    p->watch = NULL;
    close_fd(&p->write_fd);
}

void
e2b_channel_free(struct e2b_channel *c)
{
    if (c == NULL)
        return;
    e2b_process_drop(c->process);
    local_link_free(c->link);
    for (size_t i = 0; i < N_PIPES; i++) {
        close_pipe(&c->pipes[i]);
        close_fd(&c->pipes[i].read_fd);
        sbuf_fini(&c->pipes[i].queue);
    }
    close_fd(&c->request_fds[0]);
    close_fd(&c->request_fds[1]);
    e2b_relay_fini(&c->relay);
    loop_timer_remove(c->end_timer);
    loop_task_remove(c->task);
    sbuf_fini(&c->errors);
    free(c->python);
    free(c);
}

/* --- the end --- */

static const char *
last_line(struct sbuf *sb)
{
    char *line;

    while (sb->len > 0 && sb->data[sb->len - 1] == '\n')
        sbuf_truncate(sb, sb->len - 1);
    if (sb->len == 0)
        return "";
    line = strrchr(sb->data, '\n');
    return line != NULL ? line + 1 : sb->data;
}

static void
tell_end(struct e2b_channel *c)
{
    struct e2b_channel_end end = {.trouble = E2B_TROUBLE_NONE,
                                  .is_known = c->is_known,
                                  .exit_status = c->exit_status,
                                  .signal = c->signal,
                                  .errors = last_line(&c->errors),
                                  .fault = c->fault};

    c->on->on_end(c->ctx, &end);
}

static void
report_fault(void *ctx)
{
    struct e2b_channel *c = ctx;

    c->task = NULL;
    tell_end(c);
}

/* Everything has been read by the link. */
static void
on_closed(struct e2b_channel *c)
{
    c->closing = false;
    if (local_link_drain(c->link))
        tell_end(c);
}

static void
close_if_empty(struct e2b_channel *c)
{
    for (size_t i = 0; i < N_PIPES; i++)
        if (c->pipes[i].queue.len > 0)
            return;
    for (size_t i = 0; i < N_PIPES; i++)
        close_pipe(&c->pipes[i]);
}

static void
begin_closing(struct e2b_channel *c)
{
    loop_timer_remove(c->end_timer);
    c->end_timer = NULL;
    e2b_process_drop(c->process);
    c->process = NULL;
    if (c->fault != NULL) {
        if (c->task == NULL)
            c->task = loop_defer(c->site->loop, report_fault, c);
        return;
    }
    c->closing = true;
    close_if_empty(c);
}

static void
on_end_timer(void *ctx)
{
    struct e2b_channel *c = ctx;

    c->end_timer = NULL;
    begin_closing(c);
}

/* --- from frames to the link --- */

static void
set_paused(struct e2b_channel *c)
{
    size_t n = 0;
    bool paused;

    for (size_t i = 0; i < N_PIPES; i++)
        n += c->pipes[i].queue.len;
    paused = n > (c->paused ? FEW_QUEUED : MANY_QUEUED);
    if (paused != c->paused && c->process != NULL)
        e2b_process_pause(c->process, paused);
    c->paused = paused;
}

static void
write_pipe(struct channel_pipe *p)
{
    while (p->queue.len > 0 && p->write_fd >= 0) {
        ssize_t n = write(p->write_fd, p->queue.data, p->queue.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        sbuf_drop(&p->queue, (size_t)n);
    }
    if (p->watch != NULL)
        loop_fd_set(p->watch, p->queue.len > 0 ? LOOP_WRITE : 0);
}

static void
on_writable(void *ctx, int fd, unsigned events)
{
    struct channel_pipe *p = ctx;

    (void)fd;
    (void)events;
    write_pipe(p);
    set_paused(p->channel);
    if (p->channel->closing)
        close_if_empty(p->channel);
}

static void send_message(struct e2b_channel *c, char kind, const char *text,
                         size_t len);

static void
take_status(struct e2b_channel *c, const char *data, size_t len)
{
    AUTO_JSON struct cJSON *json = json_parse(data, len, 0, NULL);
    char *python = json_dup_string(json, "python", MAX_PATH_BYTES);

    if (python != NULL) {
        free(c->python);
        c->python = python;
        return;
    }
    c->ended = c->is_known = true;
    c->exit_status = (int)json_int(json, "exit", -1);
    c->signal = (int)json_int(json, "signal", 0);
    e2b_channel_acknowledge(c);
    if (c->end_timer == NULL)
        c->end_timer = loop_add_timer(c->site->loop, END_MS, on_end_timer, c);
}

static void
on_frame(void *ctx, enum e2b_relay_kind kind, const char *data, size_t len)
{
    struct e2b_channel *c = ctx;
    struct channel_pipe *p = &c->pipes[OUT];

    switch (kind) {
    case E2B_RELAY_STATUS:
        take_status(c, data, len);
        return;
    case E2B_RELAY_OUT:
        break;
    case E2B_RELAY_ERRORS:
        p = &c->pipes[ERRORS];
        break;
    case E2B_RELAY_EVENTS:
        p = &c->pipes[EVENTS];
        break;
    }
    sbuf_add(&p->queue, data, len);
    write_pipe(p);
}

/* --- the process --- */

static void
on_start(void *ctx, int64_t pid)
{
    struct e2b_channel *c = ctx;

    c->pid = pid;
}

static void
ask_to_go_on(void *ctx)
{
    struct e2b_channel *c = ctx;
    char word[E2B_RELAY_WORD_BYTES];

    fill_random(word, sizeof(word));
    e2b_relay_await(&c->relay, word);
    send_message(c, 'g', word, sizeof(word));
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct e2b_channel *c = ctx;
    bool was_synced = c->relay.is_synced;
    struct error err = {0};

    if (stream == EVENT_STDERR) {
        if (len > MAX_ERRORS - c->errors.len)
            len = MAX_ERRORS - c->errors.len;
        sbuf_add(&c->errors, data, len);
        return;
    }
    if (c->fault != NULL)
        return;
    if (e2b_relay_feed(&c->relay, data, len, on_frame, c, &err) < 0) {
        LOG_WARN("%s", err.msg);
        e2b_channel_break(c, "it sent what is no frame");
        return;
    }
    set_paused(c);
    if (c->relay.n_bytes - c->acknowledged_bytes >= ACKNOWLEDGE_BYTES)
        e2b_channel_acknowledge(c);
    if (!was_synced && c->relay.is_synced)
        c->on->on_synced(c->ctx);
}

static void
on_done(void *ctx, const struct e2b_process_end *end)
{
    struct e2b_channel *c = ctx;

    c->process = NULL;
    if (end->trouble != E2B_TROUBLE_NONE && !end->has_vanished && !c->ended &&
        c->fault == NULL) {
        c->on->on_end(c->ctx, &(struct e2b_channel_end){.trouble = end->trouble,
                                                        .err = end->err,
                                                        .errors = ""});
        return;
    }
    if (!c->is_known && end->trouble == E2B_TROUBLE_NONE) {
        c->is_known = true;
        c->exit_status = end->exit_status;
        c->signal = end->signal;
    }
    begin_closing(c);
}

static const struct e2b_process_handlers process_handlers = {
    .on_start = on_start,
    .on_bytes = on_bytes,
    .on_gap = ask_to_go_on,
    .on_done = on_done,
};

/* --- the link --- */

static void
on_text(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct e2b_channel *c = ctx;

    c->on->on_text(c->ctx, stream, data, len);
}

static void
on_event(void *ctx, const struct cJSON *event, size_t len)
{
    struct e2b_channel *c = ctx;

    c->on->on_event(c->ctx, event, len);
}

static void
on_broken(void *ctx, const char *why)
{
    struct e2b_channel *c = ctx;

    if (why != NULL)
        e2b_channel_break(c, why);
    if (c->closing)
        on_closed(c);
}

static const struct local_link_handlers link_handlers = {
    .on_text = on_text,
    .on_event = on_event,
    .on_broken = on_broken,
};

/* --- requests --- */

static void
send_message(struct e2b_channel *c, char kind, const char *text, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (c->process == NULL)
        return;
    sbuf_init(&sb, len + 64);
    sbuf_addf(&sb, "%llu %c ", (unsigned long long)++c->n_sent, kind);
    sbuf_add(&sb, text, len);
    sbuf_add_char(&sb, '\n');
    e2b_process_send(c->process, sb.data, sb.len);
}

void
e2b_channel_request(struct e2b_channel *c, const char *line, size_t len)
{
    for (; len > PIECE_BYTES; line += PIECE_BYTES, len -= PIECE_BYTES)
        send_message(c, 'r', line, PIECE_BYTES);
    send_message(c, 'R', line, len);
}

static void
send_source(struct e2b_channel *c)
{
    const unsigned char *source = local_kernel_py;

    for (size_t at = 0; at < local_kernel_py_len; at += PIECE_BYTES) {
        AUTO_SBUF struct sbuf sb = {0};
        size_t left = local_kernel_py_len - at;

        sbuf_init(&sb, 2 * PIECE_BYTES);
        base64_add(&sb, source + at, left < PIECE_BYTES ? left : PIECE_BYTES);
        send_message(c, 's', sb.data, sb.len);
    }
    send_message(c, 'S', "", 0);
}

void
e2b_channel_interrupt(struct e2b_channel *c)
{
    send_message(c, 'i', "", 0);
}

void
e2b_channel_remove(struct e2b_channel *c, const char *path)
{
    send_message(c, 'u', path, strlen(path));
}

void
e2b_channel_acknowledge(struct e2b_channel *c)
{
    char number[24];
    int len;

    if (c->relay.last == c->acknowledged)
        return;
    c->acknowledged = c->relay.last;
    c->acknowledged_bytes = c->relay.n_bytes;
    len = snprintf(number, sizeof(number), "%llu",
                   (unsigned long long)c->acknowledged);
    send_message(c, 'a', number, (size_t)len);
}

void
e2b_channel_kill(struct e2b_channel *c)
{
    if (c->process != NULL)
        e2b_process_signal(c->process, SIGKILL);
}

void
e2b_channel_break(struct e2b_channel *c, const char *fault)
{
    if (c->fault != NULL)
        return;
    c->fault = fault;
    e2b_channel_kill(c);
    if (c->process == NULL)
        begin_closing(c);
    else if (c->end_timer == NULL)
        c->end_timer = loop_add_timer(c->site->loop, END_MS, on_end_timer, c);
}

const char *
e2b_channel_nonce(const struct e2b_channel *c)
{
    return c->nonce;
}

const char *
e2b_channel_python(const struct e2b_channel *c)
{
    return c->python != NULL ? c->python : "python3";
}

/* --- beginning --- */

static int
open_pipes(struct e2b_channel *c, struct error *err)
{
    for (size_t i = 0; i < N_PIPES; i++) {
        struct channel_pipe *p = &c->pipes[i];
        int fds[2];

        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
            return err_set_errno(err, ERR_IO, DOING ": a pipe");
        p->read_fd = fds[0];
        p->write_fd = fds[1];
        p->watch = loop_add_fd(c->site->loop, p->write_fd, 0, on_writable, p);
    }
    if (pipe2(c->request_fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set_errno(err, ERR_IO, DOING ": a pipe");
    c->link = local_link_new(c->site->loop,
                             &(struct local_link_fds){
                                 .requests = c->request_fds[1],
                                 .events = c->pipes[EVENTS].read_fd,
                                 .out = c->pipes[OUT].read_fd,
                                 .errors = c->pipes[ERRORS].read_fd,
                             },
                             c->nonce, &link_handlers, c);
    return 0;
}

static int
start(struct e2b_channel *c, struct error *err)
{
    AUTO_FREE char *relay =
        xstrndup((const char *)e2b_relay_py, e2b_relay_py_len);
    const char *words[] = {"python3", "-I", "-c", relay, NULL};
    const struct e2b_process_spec spec = {.argv = words,
                                          .cwd = E2B_WORKSPACE,
                                          .takes_input = true,
                                          .knows_input = true,
                                          .doing = DOING};

    c->process = e2b_process_start(c->site, &spec, &process_handlers, c, err);
    return c->process != NULL ? 0 : -1;
}

struct e2b_channel *
e2b_channel_new(struct e2b_site *site, const struct e2b_channel_handlers *on,
                void *ctx, struct error *err)
{
    struct e2b_channel *c = xcalloc(1, sizeof(*c));

    c->site = site;
    c->on = on;
    c->ctx = ctx;
    c->request_fds[0] = c->request_fds[1] = -1;
    for (size_t i = 0; i < N_PIPES; i++) {
        c->pipes[i] =
            (struct channel_pipe){.channel = c, .read_fd = -1, .write_fd = -1};
        sbuf_init(&c->pipes[i].queue, MAX_QUEUED);
    }
    sbuf_init(&c->errors, MAX_ERRORS);
    e2b_relay_init(&c->relay);
    fill_random(c->nonce, sizeof(c->nonce));
    if (open_pipes(c, err) < 0 || start(c, err) < 0) {
        e2b_channel_free(c);
        return NULL;
    }
    ask_to_go_on(c);
    send_source(c);
    return c;
}

int
e2b_channel_attach(struct e2b_channel *c, struct error *err)
{
    if (c->pid == 0)
        return err_set(err, ERR_SANDBOX, DOING ": it had not begun");
    e2b_process_drop(c->process);
    c->paused = false;
    c->process = e2b_process_attach(c->site, c->pid, true, DOING,
                                    &process_handlers, c, err);
    return c->process != NULL ? 0 : -1;
}
