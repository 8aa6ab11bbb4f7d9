/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The line editor on a terminal, for tests: lineedit_driver RESULTS
 *
 * Every event becomes one line of the file RESULTS, `LINE "text as JSON"`,
 * `EOF`, `INTERRUPT empty`, `CANCEL`, `CAPS answered sixel` or `GONE`, and
 * then `[EVENT n]` on the terminal, n counted from 1.
 *
 * Lines that mean something: turn (no prompt until Ctrl-C or SIGUSR1), abort,
 * segv, exit, and quit. SIGUSR2 prints a line above the prompt.
 * Environment: DRIVER_WORDS, candidates with | between; DRIVER_PROBE, limit in
 * ms; DRIVER_HISTORY, a file; DRIVER_STATUS, the live line in a turn.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "term/input.h"
#include "term/out.h"
#include "term/tty.h"
#include "ui/history.h"
#include "ui/lineedit.h"

#define MAX_RESULT_BYTES (128u << 20)

struct driver {
    struct loop *loop;
    struct tty *tty;
    struct out *out;
    struct lineedit *le;
    int results;
    int n_events;
    int n_printed;
    bool leaving;
    int status;
};

static void
fail(const struct error *err)
{
    fprintf(stderr, "lineedit_driver: %s\n", err->msg);
    exit(99);
}

static void
report(struct driver *d, const char *event, const char *rest)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_RESULT_BYTES);
    sbuf_addf(&sb, "%s", event);
    if (rest != NULL) {
        sbuf_add_char(&sb, ' ');
        sbuf_add_str(&sb, rest);
    }
    sbuf_add_char(&sb, '\n');
    if (write(d->results, sb.data, sb.len) != (ssize_t)sb.len)
        abort();
    d->n_events++;
    out_sayf(d->out, OUT_MAIN, "[%s %d]\n", event, d->n_events);
}

static void
prompt(struct driver *d)
{
    out_status(d->out, NULL);
    if (!d->leaving && !lineedit_is_shown(d->le))
        lineedit_prompt(d->le, "> ");
}

static void
leave(struct driver *d, int status)
{
    d->leaving = true;
    d->status = status;
    lineedit_hide(d->le);
    loop_stop(d->loop);
}

static char *
as_json(const char *text)
{
    struct sbuf sb;

    sbuf_init(&sb, MAX_RESULT_BYTES);
    sbuf_add_char(&sb, '"');
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            sbuf_addf(&sb, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            sbuf_addf(&sb, "\\u%04x", (unsigned)*p);
        else
            sbuf_add_char(&sb, *p);
    }
    sbuf_add_char(&sb, '"');
    return sbuf_take(&sb);
}

static void
on_line(void *ctx, const char *line)
{
    struct driver *d = ctx;
    AUTO_FREE char *json = as_json(line);
    const char *history = getenv("DRIVER_HISTORY");
    struct error err = {0};

    report(d, "LINE", json);
    if (history != NULL && history_append(history, line, &err) < 0)
        fail(&err);
    if (str_eq(line, "quit")) {
        leave(d, 0);
    } else if (str_eq(line, "abort")) {
        abort();
    } else if (str_eq(line, "segv")) {
        raise(SIGSEGV);
    } else if (str_eq(line, "exit")) {
        out_flush(d->out, 1000);
        exit(3);
    } else if (str_eq(line, "turn")) {
        out_status(d->out, getenv("DRIVER_STATUS"));
    } else {
        prompt(d);
    }
}

static void
on_eof(void *ctx)
{
    report(ctx, "EOF", NULL);
    leave(ctx, 0);
}

static void
on_interrupt(void *ctx, bool was_empty)
{
    report(ctx, "INTERRUPT", was_empty ? "1" : "0");
    prompt(ctx);
}

static void
on_cancel(void *ctx)
{
    report(ctx, "CANCEL", NULL);
    prompt(ctx);
}

static void
complete(void *ctx, const char *line, size_t cursor,
         struct lineedit_candidates *out)
{
    const char *words = getenv("DRIVER_WORDS");
    size_t start = cursor;

    (void)ctx;
    while (start > 0 && line[start - 1] != ' ')
        start--;
    *out = (struct lineedit_candidates){.start = start, .is_path = true};
    while (words != NULL && *words != '\0') {
        size_t len = strcspn(words, "|");

        if (len >= cursor - start &&
            strncmp(words, line + start, cursor - start) == 0) {
            out->words =
                xreallocarray(out->words, out->n_words + 1, sizeof(char *));
            out->words[out->n_words++] = xstrndup(words, len);
        }
        words += len + (words[len] == '|');
    }
}

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    struct driver *d = ctx;

    lineedit_unit(d->le, unit);
}

static void
on_resize(void *ctx, int columns, int rows)
{
    struct driver *d = ctx;

    out_set_size(d->out, columns, rows);
    lineedit_resize(d->le, columns, rows);
}

static void
on_caps(void *ctx)
{
    struct driver *d = ctx;
    const struct caps *caps = tty_caps(d->tty);
    AUTO_FREE char *text = xasprintf("%d %d", caps->answered, caps->sixel);

    report(d, "CAPS", text);
}

static void
on_gone(void *ctx)
{
    struct driver *d = ctx;

    report(d, "GONE", NULL);
    leave(d, 129);
}

static void
on_signal(void *ctx, int signo)
{
    struct driver *d = ctx;

    if (signo == SIGUSR1) {
        prompt(d);
    } else if (signo == SIGUSR2) {
        d->n_printed++;
        out_sayf(d->out, OUT_MAIN, "above %d\nsecond row\n", d->n_printed);
    } else {
        leave(d, 128 + signo);
    }
}

int
main(int argc, char **argv)
{
    static const struct tty_handlers tty_on = {.on_unit = on_unit,
                                               .on_resize = on_resize,
                                               .on_caps = on_caps,
                                               .on_gone = on_gone};
    static const struct lineedit_handlers on = {.on_line = on_line,
                                                .on_eof = on_eof,
                                                .on_interrupt = on_interrupt,
                                                .on_cancel = on_cancel,
                                                .complete = complete};
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP};
    const char *term = getenv("TERM");
    const char *probe = getenv("DRIVER_PROBE");
    const char *history = getenv("DRIVER_HISTORY");
    bool sequences = !str_blank(term) && !str_eq(term, "dumb");
    struct driver d = {0};
    struct error err = {0};
    int64_t limit_ms = 0;
    int columns = 0;
    int rows = 0;

    if (argc != 2)
        return 99;
    d.results = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    d.loop = loop_new(&err);
    if (d.results < 0 || d.loop == NULL)
        fail(&err);
    d.tty = tty_open(d.loop, term, &err);
    if (d.tty == NULL)
        fail(&err);
    d.out = out_new(
        &(struct out_config){.loop = d.loop,
                             .main_fd = tty_fd(d.tty),
                             .side_fd = tty_fd(d.tty),
                             .terminal = true,
                             .sequences = sequences,
                             .colour = sequences && getenv("NO_COLOR") == NULL,
                             .unicode = true});
    tty_size(d.tty, &columns, &rows);
    out_set_size(d.out, columns, rows);
    d.le = lineedit_new(d.loop, d.tty, d.out, &on, &d, &err);
    if (d.le == NULL || tty_start(d.tty, d.out, &tty_on, &d, &err) < 0)
        fail(&err);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (loop_add_signal(d.loop, signals[i], on_signal, &d, &err) == NULL)
            fail(&err);
    }
    if (history != NULL && history_load(history, &err) < 0)
        fail(&err);
    if (probe != NULL) {
        if (str_to_int(probe, 0, 100000, &limit_ms, &err) < 0)
            fail(&err);
        tty_probe(d.tty, limit_ms);
    }
    prompt(&d);
    loop_run(d.loop);
    lineedit_free(d.le);
    out_free(d.out);
    tty_close(d.tty);
    loop_free(d.loop);
    close(d.results);
    return d.status;
}
