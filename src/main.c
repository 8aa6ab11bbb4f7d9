/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads the settings, has the objects of a session built, runs the loop, and
 * takes everything down again.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "main_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "net/http.h"
#include "sandbox/sandbox.h"
#include "store/recorder.h"
#include "store/runs.h"
#include "store/session.h"
#include "term/input.h"
#include "term/out.h"
#include "term/tty.h"
#include "ui/checkup.h"
#include "ui/oneshot.h"
#include "ui/repl.h"
#include "ui/view.h"

#define HELP_BYTES 16384

/* After that it is said what the end of the program waits for. */
#define NOTICE_MS 1000
#define SAME_SIGNAL_MS 300
/* Most that a service may take for the end of sandboxes then. */
#define RETIRE_MS 10000

/* ---- before anything ------------------------------------------------------
 */

/* Other processes of the same user may not look into this one: its memory
   holds the key. A leak check has to, so sanitizer builds leave it out. */
static void
close_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

/* A descriptor that was closed by the caller would be taken by the next file
   that is opened, and then be written to. */
static void
open_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
            _exit(1);
    }
}

static bool
set_locale(void)
{
    if (setlocale(LC_CTYPE, "") != NULL &&
        str_eq(nl_langinfo(CODESET), "UTF-8"))
        return true;
    /* Text is UTF-8 in memory; a plain C locale would count its bytes. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        setlocale(LC_CTYPE, "C");
    return false;
}

/* Plain, to standard output and error. loop: NULL before there is one. */
static struct out *
plain_out(struct loop *loop, bool unicode)
{
    return out_new(&(struct out_config){
        .loop = loop,
        .main_fd = STDOUT_FILENO,
        .side_fd = STDERR_FILENO,
        .unicode = unicode,
    });
}

static int
report(const struct error *err, bool unicode)
{
    struct out *out = plain_out(NULL, unicode);
    struct view *view = view_new(&(struct view_config){.out = out});

    view_error(view, err);
    view_free(view);
    out_free(out);
    return error_exit_status(err->code);
}

/* What was printed last is lost. That its reader went away is no news. */
static void
tell_gone(const struct out *out, bool unicode)
{
    struct error err = {0};

    if (out_gone_errno(out) == EPIPE)
        return;
    error_fill(&err, ERR_IO, "standard output: %s",
               strerror(out_gone_errno(out)));
    (void)report(&err, unicode);
}

static int
print_and_end(enum out_channel ch, bool unicode, const char *text, int status)
{
    struct out *out = plain_out(NULL, unicode);

    out_say(out, ch, text);
    if (out_is_gone(out)) {
        tell_gone(out, unicode);
        status = 141;
    }
    out_free(out);
    return status;
}

static int
print_help(bool unicode)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, HELP_BYTES);
    config_add_help(&sb);
    return print_and_end(OUT_MAIN, unicode, sb.data, 0);
}

static int
print_version(bool unicode)
{
    return print_and_end(OUT_MAIN, unicode,
                         PACKAGE_STRING SANDPIPER_FEATURES
                         "\nLicence GPL-3.0-or-later; there is no warranty.\n",
                         0);
}

/* ---- the output -----------------------------------------------------------
 */

static bool
is_on_terminal(const struct config *c)
{
    return ((c->demo || c->doctor) && isatty(STDOUT_FILENO)) ||
           main_is_interactive(c);
}

static int
open_output(struct program *p, bool unicode, struct error *err)
{
    const struct config *c = &p->config;
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    bool sequences = term != NULL && !str_eq(term, "dumb") && term[0] != '\0';
    int columns = 0;
    int rows = 0;

    if (is_on_terminal(c))
        p->tty = tty_open(p->loop, term, err);
    if (p->tty == NULL && (!is_on_terminal(c) || c->doctor)) {
        p->out = plain_out(p->loop, unicode);
        return 0;
    }
    if (p->tty == NULL && err->sys_errno == ENXIO)
        return err_set(err, ERR_IO,
                       "there is no controlling terminal to read keys from\n"
                       "without one: sandpiper -c QUESTION, or lines and "
                       "answers through pipes");
    if (p->tty == NULL)
        return -1;
    p->out = out_new(&(struct out_config){
        .loop = p->loop,
        .main_fd = tty_fd(p->tty),
        .side_fd = tty_fd(p->tty),
        .terminal = true,
        .sequences = sequences,
        .colour = sequences && str_eq(c->color, "auto") &&
                  (no_color == NULL || no_color[0] == '\0'),
        .unicode = unicode,
    });
    tty_size(p->tty, &columns, &rows);
    out_set_size(p->out, columns, rows);
    return 0;
}

/* ---- signals --------------------------------------------------------------
 */

/* A terminal that is closed does not keep a service from ending what it bills
   for; the time for that is limited. */
static void
on_signal_at_end(struct program *p, int signo)
{
    if (p->waits_for_reader)
        p->ended_by = signo;
    p->waits_for_reader = false;
    /* Who ends a program may send several signals at once, and mean one. */
    if (p->waits_for_service &&
        (signo == SIGHUP || clock_now_ms() - p->end_ms < SAME_SIGNAL_MS))
        return;
    loop_stop(p->loop);
}

static void
on_signal(void *ctx, int signo)
{
    struct program *p = ctx;

    if (p->at_end) {
        on_signal_at_end(p, signo);
        return;
    }
    p->interrupted = true;
    if (signo == SIGINT && p->oneshot != NULL) {
        oneshot_cancel(p->oneshot);
        return;
    }
    p->ended_by = signo;
    loop_stop(p->loop);
}

static bool
is_ignored(int signo)
{
    struct sigaction action;

    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int
watch_signals(struct program *p, struct error *err)
{
    static const int SIGNALS[] = {SIGTERM, SIGHUP, SIGINT};

    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++) {
        /* As nohup left it, or a shell that began us in the background. */
        if (SIGNALS[i] != SIGTERM && is_ignored(SIGNALS[i]))
            continue;
        p->signals[i] = loop_add_signal(p->loop, SIGNALS[i], on_signal, p, err);
        if (p->signals[i] == NULL)
            return -1;
    }
    return 0;
}

/* ---- running --------------------------------------------------------------
 */

static int
start_repl(struct program *p, struct error *err)
{
    AUTO_FREE char *state = paths_state_dir();
    AUTO_FREE char *history =
        state != NULL ? paths_join(state, "history") : NULL;

    p->repl = repl_new(p->app, &p->app_config, history, err);
    if (p->repl == NULL)
        return -1;
    repl_start(p->repl);
    return 0;
}

static int
start_oneshot(struct program *p, struct error *err)
{
    enum oneshot_source source = p->config.demo               ? ONESHOT_DEMO
                                 : p->config.question != NULL ? ONESHOT_QUESTION
                                                              : ONESHOT_STDIN;

    p->oneshot = oneshot_new(p->app, &p->app_config, source, err);
    if (p->oneshot == NULL)
        return -1;
    oneshot_start(p->oneshot);
    return 0;
}

static int
start_checkup(struct program *p, bool unicode, struct error *err)
{
    if (p->config.n_files > 0 || p->config.question != NULL || p->config.demo)
        return err_set(err, ERR_USAGE,
                       "--doctor takes no file, no question and no --demo");
    p->loop = loop_new(err);
    if (p->loop == NULL || open_output(p, unicode, err) < 0 ||
        watch_signals(p, err) < 0)
        return -1;
    main_set_up_sandbox(p);
    p->checkup = checkup_new(p->loop, p->out, p->tty, &p->local, &p->limits);
    return 0;
}

static int
start(struct program *p, bool unicode, struct error *err)
{
    if (p->config.doctor)
        return start_checkup(p, unicode, err);
    if (main_read(p, err) < 0)
        return -1;
    p->loop = loop_new(err);
    if (p->loop == NULL || open_output(p, unicode, err) < 0 ||
        watch_signals(p, err) < 0 || main_build(p, err) < 0)
        return -1;
    if (p->config.demo || !main_is_interactive(&p->config))
        return start_oneshot(p, err);
    return start_repl(p, err);
}

/* ---- the end --------------------------------------------------------------
 */

static int
exit_status(const struct program *p, int status, bool unicode)
{
    if (p->ended_by != 0)
        return 128 + p->ended_by;
    if (!out_is_gone(p->out) || p->tty != NULL)
        return status;
    /* A turn that ended for it has told why. */
    if (status == 0)
        tell_gone(p->out, unicode);
    return 128 + SIGPIPE;
}

/* What runs ends without a word. The service goes first, whose callbacks would
   find nobody; in the opposite order of building otherwise. Each accepts what
   was never built. */
static void
end_session(struct program *p)
{
    claude_free(take_ptr(&p->claude));
    checkup_free(take_ptr(&p->checkup));
    repl_free(take_ptr(&p->repl));
    oneshot_free(take_ptr(&p->oneshot));
    agent_free(take_ptr(&p->agent));
    app_free(take_ptr(&p->app));
    main_free_leftovers(p);
}

static void
stop_when_done(const struct program *p)
{
    if (!p->waits_for_reader && !p->waits_for_service)
        loop_stop(p->loop);
}

static void
on_written(void *ctx)
{
    struct program *p = ctx;

    p->waits_for_reader = false;
    stop_when_done(p);
}

static void
on_retired(void *ctx)
{
    struct program *p = ctx;

    p->waits_for_service = false;
    loop_timer_remove(take_ptr(&p->notice));
    loop_timer_remove(take_ptr(&p->limit));
    stop_when_done(p);
}

static void
on_late_end(void *ctx)
{
    struct program *p = ctx;

    p->limit = NULL;
    on_retired(p);
}

static void
on_slow_end(void *ctx)
{
    struct program *p = ctx;

    p->notice = NULL;
    view_note(p->view, "waiting for the end of the sandbox; Ctrl-C leaves it");
}

/* Keys at the end: Ctrl-C. What else is typed is for the shell, which gets the
   terminal as soon as all is drawn; from then on Ctrl-C is a signal. */
static void
on_unit_at_end(void *ctx, const struct input_unit *unit)
{
    const struct program *p = ctx;

    if (unit->kind == INPUT_INTERRUPT)
        loop_stop(p->loop);
}

static void
on_resize_at_end(void *ctx, int columns, int rows)
{
    struct program *p = ctx;

    out_set_size(p->out, columns, rows);
}

static void
ignore(void *ctx)
{
    (void)ctx;
}

static void
on_drawn(void *ctx)
{
    struct program *p = ctx;

    if (p->waits_for_service)
        tty_restore(p->tty);
}

static void
hand_back_terminal(struct program *p)
{
    static const struct tty_handlers on = {
        .on_unit = on_unit_at_end,
        .on_resize = on_resize_at_end,
        .on_caps = ignore,
        .on_gone = ignore,
    };

    tty_set_handlers(p->tty, &on, p);
    if (out_queued(p->out) == 0)
        tty_restore(p->tty);
    else
        out_on_written(p->out, on_drawn, p);
}

/* Nothing is billed that nobody uses. */
static void
begin_retiring(struct program *p)
{
    if (p->sandbox == NULL || !sandbox_retire(p->sandbox, on_retired, p))
        return;
    p->waits_for_service = true;
    p->notice = loop_add_timer(p->loop, NOTICE_MS, on_slow_end, p);
    p->limit = loop_add_timer(
        p->loop, p->is_hurried ? SAME_SIGNAL_MS : RETIRE_MS, on_late_end, p);
    if (p->view != NULL)
        view_status(p->view, NULL);
    if (p->tty != NULL)
        hand_back_terminal(p);
}

/* Off the terminal the reader may take as long as he likes. A signal ends all
   waiting. */
static void
wait_for_rest(struct program *p)
{
    p->at_end = true;
    p->end_ms = clock_now_ms();
    begin_retiring(p);
    p->waits_for_reader =
        p->tty == NULL && !p->interrupted && out_queued(p->out) > 0;
    if (p->waits_for_reader)
        out_on_written(p->out, on_written, p);
    if (p->waits_for_reader || p->waits_for_service)
        loop_run(p->loop);
    loop_timer_remove(take_ptr(&p->notice));
    loop_timer_remove(take_ptr(&p->limit));
    /* The terminal may have shown a key. */
    if (p->waits_for_service && p->tty != NULL)
        out_say(p->out, OUT_MAIN, "\n");
    out_on_written(p->out, NULL, NULL);
}

static void
take_down(struct program *p)
{
    end_session(p);
    sandbox_free(p->sandbox);
    main_free_key_sources(p);
    runs_close(p->runs);
    if (p->has_transport)
        transport_fini(&p->transport);
    free(p->headers);
    main_free_headers(p);
    http_free(p->http);
    sink_chain_free(p->chain);
    view_free(p->view);
    recorder_free(p->recorder);
    session_free(p->session);
    out_free(p->out);
    tty_close(p->tty);
    for (size_t i = 0; i < sizeof(p->signals) / sizeof(p->signals[0]); i++)
        loop_signal_remove(p->signals[i]);
    loop_free(p->loop);
    config_fini(&p->config);
    price_table_fini(&p->prices);
    free(p->prompt);
    free(p->prompt_path);
    free(p->system);
    free(p->tools);
    log_close();
}

static int
run(struct program *p, int argc, char **argv, bool unicode)
{
    struct error err = {0};
    const char *log = getenv("SANDPIPER_LOG");
    int status = 0;

    if (config_read_args(&p->config, argc, argv, &err) < 0)
        return report(&err, unicode);
    if (p->config.help)
        return print_help(unicode);
    if (p->config.version)
        return print_version(unicode);
    if (config_read_rest(&p->config, &err) < 0 ||
        (!str_blank(log) && log_open(log, LOG_LEVEL_DBG, &err) < 0))
        return report(&err, unicode);
    if (start(p, unicode, &err) < 0) {
        take_down(p);
        memset(p, 0, sizeof(*p));
        return report(&err, unicode);
    }
    loop_run(p->loop);
    status = p->checkup != NULL ? checkup_exit_status(p->checkup)
             : p->repl != NULL  ? repl_exit_status(p->repl)
                                : oneshot_exit_status(p->oneshot);
    p->is_hurried = p->repl != NULL && repl_is_hurried(p->repl);
    end_session(p);
    wait_for_rest(p);
    status = exit_status(p, status, unicode);
    take_down(p);
    memset(p, 0, sizeof(*p));
    return status;
}

int
main(int argc, char **argv)
{
    struct program program = {0};
    bool unicode = false;
    int status = 0;

    open_standard_descriptors();
    close_memory();
    alloc_return_large();
    signal(SIGPIPE, SIG_IGN);
    /* So that a file that grows too large is an error that can be told. */
    signal(SIGXFSZ, SIG_IGN);
    unicode = set_locale();
    config_init(&program.config);
    status = run(&program, argc, argv, unicode);
    config_fini(&program.config);
    return status;
}
