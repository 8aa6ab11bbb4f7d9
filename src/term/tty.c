/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "term/out.h"
#include "term/seq.h"

#define DEFAULT_COLUMNS 80
#define DEFAULT_ROWS 24

#define READ_BYTES 4096
/* Most that one round of the loop reads: the rest of the program goes on while
   a large paste comes in. */
#define ROUND_BYTES (64u << 10)

/* A window that is being pulled sends many sizes; the last one counts. */
#define SETTLE_MS 50
#define FLUSH_MS 500
#define MAX_QUERY_BYTES 512
#define GOODBYE_BYTES 64
#define SIGNAL_STACK_BYTES (64u << 10)

struct tty {
    struct loop *loop; /* borrowed */
    int fd;
    bool sequences;
    char *term; /* owned; NULL when not set */

    struct out *out; /* borrowed; NULL before the start */
    const struct tty_handlers *on;
    void *ctx;

    struct termios saved;
    struct termios raw;
    bool started;
    bool gone;
    bool can_stop; /* whoever started us has job control */

    struct input *input; /* owned */
    struct input_mode mode;
    bool feeding;
    struct loop_fd *watch;
    struct loop_timer *input_timer;

    struct loop_signal *signals[3];
    struct loop_timer *settle_timer;
    struct winsize size;

    struct caps caps;
    bool caps_pending;
    struct loop_timer *probe_timer;
    struct loop_task *probe_task;
};

/* SIGQUIT too: it is the way out when the loop itself hangs. */
static const int fatal_signals[] = {SIGABRT, SIGSEGV, SIGBUS,
                                    SIGFPE,  SIGILL,  SIGQUIT};

#define N_FATAL (sizeof(fatal_signals) / sizeof(fatal_signals[0]))

/*
 * What a signal handler needs to restore the terminal; it can be reached in no
 * other way. Only the process that set the modes restores them, not a child
 * between fork and exec.
 */
static struct {
    volatile sig_atomic_t armed;
    pid_t pid;
    int fd;
    struct termios saved;
    char goodbye[GOODBYE_BYTES];
    size_t n_goodbye;
    struct sigaction old[N_FATAL];
    void *stack; /* owned; for a handler after an overflow of the stack */
} emergency;

/* ---- restoring ---- */

/* Async-signal-safe. */
static void
restore_now(void)
{
    int saved_errno = errno;

    if (!emergency.armed || getpid() != emergency.pid)
        return;
    emergency.armed = 0;
    if (emergency.n_goodbye > 0)
        (void)!write(emergency.fd, emergency.goodbye, emergency.n_goodbye);
    tcsetattr(emergency.fd, TCSANOW, &emergency.saved);
    errno = saved_errno;
}

static void
on_fatal(int signo)
{
    restore_now();
    /* Back to what was there before, which may print a report. */
    for (size_t i = 0; i < N_FATAL; i++) {
        if (fatal_signals[i] == signo)
            sigaction(signo, &emergency.old[i], NULL);
    }
    raise(signo);
}

static void
install_stack(void)
{
    stack_t old;
    stack_t ours = {.ss_size = SIGNAL_STACK_BYTES};

    if (emergency.stack != NULL || sigaltstack(NULL, &old) < 0 ||
        !(old.ss_flags & SS_DISABLE))
        return;
    emergency.stack = xmalloc(SIGNAL_STACK_BYTES);
    ours.ss_sp = emergency.stack;
    sigaltstack(&ours, NULL);
}

static void
remove_stack(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};

    if (emergency.stack == NULL)
        return;
    sigaltstack(&none, NULL);
    free(take_ptr(&emergency.stack));
}

static void
arm(struct tty *t)
{
    static bool has_exit_hook;
    struct sigaction sa = {0};
    AUTO_SBUF struct sbuf goodbye = {0};

    sbuf_init(&goodbye, GOODBYE_BYTES);
    if (t->sequences)
        seq_add(&goodbye, SEQ_PASTE_OFF);
    if (out_has_colour(t->out))
        seq_add(&goodbye, SEQ_SGR_RESET);
    memcpy(emergency.goodbye, goodbye.data, goodbye.len);
    emergency.n_goodbye = goodbye.len;
    emergency.pid = getpid();
    emergency.fd = t->fd;
    emergency.saved = t->saved;
    emergency.armed = 1;

    if (!has_exit_hook)
        has_exit_hook = atexit(restore_now) == 0;
    alloc_set_abort_hook(restore_now);
    install_stack();
    sa.sa_handler = on_fatal;
    sa.sa_flags = (int)SA_RESETHAND | SA_ONSTACK;
    for (size_t i = 0; i < N_FATAL; i++)
        sigaction(fatal_signals[i], &sa, &emergency.old[i]);
}

static void
disarm(void)
{
    emergency.armed = 0;
    alloc_set_abort_hook(NULL);
    for (size_t i = 0; i < N_FATAL; i++)
        sigaction(fatal_signals[i], &emergency.old[i], NULL);
    remove_stack();
}

/* ---- modes and size ---- */

static void
make_raw(struct termios *tio)
{
    tio->c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
    tio->c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    /* Without it the kernel drops queued output at an interrupt. */
    tio->c_lflag |= NOFLSH;
    tio->c_cc[VMIN] = 1;
    tio->c_cc[VTIME] = 0;
    /* As bytes they keep their place among the keys. VQUIT stays: the way out
       when nothing else works. */
    tio->c_cc[VINTR] = _POSIX_VDISABLE;
    tio->c_cc[VSUSP] = _POSIX_VDISABLE;
}

/* TCSADRAIN, never TCSAFLUSH: what is typed ahead stays. */
static int
set_modes(const struct tty *t, const struct termios *tio)
{
    int rc;

    do {
        rc = tcsetattr(t->fd, TCSADRAIN, tio);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

static void
read_size(struct tty *t)
{
    struct winsize size;

    if (ioctl(t->fd, TIOCGWINSZ, &size) == 0)
        t->size = size;
}

static void
report_size(struct tty *t)
{
    int columns;
    int rows;

    read_size(t);
    tty_size(t, &columns, &rows);
    /* The size of a cell may have changed with the font. */
    if (t->size.ws_xpixel == 0 && t->caps.cell_width_px > 0)
        out_seq(t->out, SEQ_QUERY_CELL_SIZE);
    t->on->on_resize(t->ctx, columns, rows);
}

static void
on_settled(void *ctx)
{
    struct tty *t = ctx;

    t->settle_timer = NULL;
    report_size(t);
}

static void
on_winch(void *ctx, int signo)
{
    struct tty *t = ctx;

    (void)signo;
    loop_timer_remove(t->settle_timer);
    t->settle_timer = loop_add_timer(t->loop, SETTLE_MS, on_settled, t);
}

/* ---- stop and continue ---- */

/* Another program may have stopped us: then the modes are the shell's. */
static void
on_cont(void *ctx, int signo)
{
    struct tty *t = ctx;
    struct termios now;

    (void)signo;
    if (tcgetattr(t->fd, &now) == 0 && !(now.c_lflag & ICANON))
        return;
    set_modes(t, &t->raw);
    out_seq(t->out, SEQ_PASTE_ON);
    report_size(t);
}

/* Sent by somebody; the editor has to take its line away first. */
static void
on_stop_signal(void *ctx, int signo)
{
    struct tty *t = ctx;
    struct input_unit unit = {.kind = INPUT_STOP, .data = "", .len = 0};

    (void)signo;
    t->on->on_unit(t->ctx, &unit);
}

void
tty_stop(struct tty *t)
{
    struct sigaction sa = {0};
    struct sigaction old;
    struct winsize before = t->size;

    if (!t->started || t->gone || !t->can_stop)
        return;
    out_seq(t->out, SEQ_PASTE_OFF);
    out_flush(t->out, FLUSH_MS);
    set_modes(t, &t->saved);

    /* The whole job, as the terminal itself would do it: a shell script that
       started us has to stop as well. */
    sa.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &sa, &old);
    kill(0, SIGTSTP);
    sigaction(SIGTSTP, &old, NULL);

    /* What the user has set in the shell meanwhile is restored at the end. */
    if (tcgetattr(t->fd, &t->saved) == 0) {
        emergency.saved = t->saved;
        t->raw = t->saved;
        make_raw(&t->raw);
    }
    set_modes(t, &t->raw);
    out_seq(t->out, SEQ_PASTE_ON);
    read_size(t);
    if (memcmp(&before, &t->size, sizeof(before)) != 0)
        report_size(t);
}

/* ---- reading ---- */

static void arm_input_timer(struct tty *t);

static void
end_probe(struct tty *t)
{
    if (!t->caps_pending)
        return;
    t->caps_pending = false;
    loop_timer_remove(take_ptr(&t->probe_timer));
    t->on->on_caps(t->ctx);
}

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    struct tty *t = ctx;

    if (unit->kind != INPUT_REPLY) {
        t->on->on_unit(t->ctx, unit);
        return;
    }
    caps_take(&t->caps, unit->data, unit->len);
    if (t->caps.answered)
        end_probe(t);
}

static void
lose(struct tty *t)
{
    if (t->gone)
        return;
    t->gone = true;
    loop_fd_remove(take_ptr(&t->watch));
    loop_timer_remove(take_ptr(&t->input_timer));
    t->on->on_gone(t->ctx);
}

/* Whether a change of the size is still to be reported. */
static bool
has_new_size(const struct tty *t)
{
    struct winsize size;

    /* The signal may be handled after the key that was typed behind it. */
    return t->settle_timer != NULL ||
           (ioctl(t->fd, TIOCGWINSZ, &size) == 0 &&
            memcmp(&size, &t->size, sizeof(size)) != 0);
}

static void
read_keys(struct tty *t)
{
    char data[READ_BYTES];
    size_t total = 0;

    /* Keys are drawn where the line stands now. */
    if (has_new_size(t)) {
        loop_timer_remove(take_ptr(&t->settle_timer));
        report_size(t);
    }
    while (!t->gone && total < ROUND_BYTES) {
        ssize_t n = read(t->fd, data, sizeof(data));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0) {
            lose(t);
            return;
        }
        total += (size_t)n;
        t->feeding = true;
        input_feed(t->input, data, (size_t)n, clock_now_ms());
        t->feeding = false;
    }
    arm_input_timer(t);
}

static void
on_readable(void *ctx, int fd, unsigned events)
{
    (void)fd;
    (void)events;
    read_keys(ctx);
}

static void
on_input_due(void *ctx)
{
    struct tty *t = ctx;

    t->input_timer = NULL;
    /* The loop may be late: what has come meanwhile goes first. */
    read_keys(t);
    if (t->gone)
        return;
    t->feeding = true;
    input_tick(t->input, clock_now_ms());
    t->feeding = false;
    arm_input_timer(t);
}

static void
arm_input_timer(struct tty *t)
{
    int64_t due_ms;

    loop_timer_remove(take_ptr(&t->input_timer));
    due_ms = input_deadline_ms(t->input);
    if (due_ms >= 0 && !t->gone)
        t->input_timer =
            loop_add_timer(t->loop, due_ms - clock_now_ms(), on_input_due, t);
}

void
tty_set_input_mode(struct tty *t, const struct input_mode *mode)
{
    t->mode.escape_acts = mode->escape_acts;
    t->mode.quoted = mode->quoted;
    if (t->started && !t->feeding)
        arm_input_timer(t);
}

/* ---- questions ---- */

static void
on_probe_limit(void *ctx)
{
    struct tty *t = ctx;

    t->probe_timer = NULL;
    end_probe(t);
}

static void
on_no_probe(void *ctx)
{
    struct tty *t = ctx;

    t->probe_task = NULL;
    end_probe(t);
}

void
tty_probe(struct tty *t, int64_t limit_ms)
{
    AUTO_SBUF struct sbuf queries = {0};

    t->caps_pending = true;
    /* In the background the answers would go to somebody else. */
    if (!t->sequences || t->gone || tcgetpgrp(t->fd) != getpgrp()) {
        t->probe_task = loop_defer(t->loop, on_no_probe, t);
        return;
    }
    sbuf_init(&queries, MAX_QUERY_BYTES);
    caps_add_queries(&queries, t->term);
    input_expect_replies(t->input, clock_now_ms());
    /* Nothing of it is shown, so line and prompt can stay as they are. */
    out_editor(t->out, queries.data, queries.len);
    t->probe_timer = loop_add_timer(t->loop, limit_ms, on_probe_limit, t);
}

const struct caps *
tty_caps(const struct tty *t)
{
    return &t->caps;
}

bool
tty_caps_pending(const struct tty *t)
{
    return t->caps_pending;
}

void
tty_size(const struct tty *t, int *columns, int *rows)
{
    *columns = t->size.ws_col > 0 ? t->size.ws_col : DEFAULT_COLUMNS;
    *rows = t->size.ws_row > 0 ? t->size.ws_row : DEFAULT_ROWS;
}

void
tty_cell_size(const struct tty *t, int *width_px, int *height_px)
{
    struct winsize size;

    if (ioctl(t->fd, TIOCGWINSZ, &size) < 0)
        size = t->size;
    caps_cell_size(&t->caps, size.ws_col, size.ws_row, size.ws_xpixel,
                   size.ws_ypixel, width_px, height_px);
}

/* ---- life ---- */

struct tty *
tty_open(struct loop *loop, const char *term, struct error *err)
{
    struct tty *t;
    /* A description of its own: O_NONBLOCK on an inherited one would stay with
       the shell. */
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        error_fill_errno(err, ERR_IO, "/dev/tty");
        return NULL;
    }
    t = xcalloc(1, sizeof(*t));
    t->loop = loop;
    t->fd = fd;
    t->term = xstrdup(term);
    t->sequences = !str_blank(term) && !str_eq(term, "dumb");
    t->mode.no_brackets = !t->sequences;
    t->input = input_new(on_unit, t);
    input_set_mode(t->input, &t->mode);
    read_size(t);
    return t;
}

int
tty_fd(const struct tty *t)
{
    return t->fd;
}

static int
watch_signals(struct tty *t, struct error *err)
{
    static const struct {
        int signo;
        loop_signal_fn fn;
    } wanted[] = {
        {SIGWINCH, on_winch},
        {SIGCONT, on_cont},
        {SIGTSTP, on_stop_signal},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        t->signals[i] =
            loop_add_signal(t->loop, wanted[i].signo, wanted[i].fn, t, err);
        if (t->signals[i] == NULL)
            return -1;
    }
    return 0;
}

int
tty_start(struct tty *t, struct out *out, const struct tty_handlers *on,
          void *ctx, struct error *err)
{
    struct sigaction stop;

    t->out = out;
    t->on = on;
    t->ctx = ctx;
    if (!out_has_sequences(out)) {
        t->sequences = false;
        t->mode.no_brackets = true;
    }
    if (tcgetattr(t->fd, &t->saved) < 0)
        return err_set_errno(err, ERR_IO, "modes of the terminal");
    t->raw = t->saved;
    make_raw(&t->raw);
    t->can_stop =
        sigaction(SIGTSTP, NULL, &stop) == 0 && stop.sa_handler != SIG_IGN;
    if (watch_signals(t, err) < 0)
        return -1;
    /* Before the modes, so that there is no moment without a way back. */
    arm(t);
    if (set_modes(t, &t->raw) < 0) {
        disarm();
        return err_set_errno(err, ERR_IO, "setting modes of the terminal");
    }
    t->started = true;
    out_seq(out, SEQ_PASTE_ON);
    t->watch = loop_add_fd(t->loop, t->fd, LOOP_READ, on_readable, t);
    read_size(t);
    return 0;
}

void
tty_set_handlers(struct tty *t, const struct tty_handlers *on, void *ctx)
{
    t->on = on;
    t->ctx = ctx;
}

void
tty_restore(struct tty *t)
{
    for (size_t i = 0; i < LEN(t->signals); i++)
        loop_signal_remove(take_ptr(&t->signals[i]));
    loop_timer_remove(take_ptr(&t->settle_timer));
    loop_timer_remove(take_ptr(&t->probe_timer));
    loop_task_remove(take_ptr(&t->probe_task));
    if (!t->started)
        return;
    t->started = false;
    loop_fd_remove(take_ptr(&t->watch));
    loop_timer_remove(take_ptr(&t->input_timer));
    restore_now();
    disarm();
}

void
tty_close(struct tty *t)
{
    if (t == NULL)
        return;
    tty_restore(t);
    input_free(t->input);
    free(t->term);
    close(t->fd);
    free(t);
}
