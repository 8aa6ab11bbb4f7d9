/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/oneshot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "term/input.h"
#include "term/out.h"
#include "term/tty.h"
#include "ui/app.h"
#include "ui/demo_internal.h"
#include "ui/view.h"

#define MAX_LINE_BYTES (4u << 20)
#define READ_BYTES 65536
#define BOM "\xEF\xBB\xBF"

struct oneshot {
    struct app *app; /* borrowed */
    struct app_config config;
    enum oneshot_source source;
    size_t n_loaded;
    size_t n_asked; /* questions of -c or of the demonstration */

    struct sbuf input;     /* of standard input, not yet carried out */
    struct loop_fd *in_fd; /* while more is wanted */
    bool at_eof;
    size_t line;
    char *where; /* owned; "stdin:3: " */

    bool cancelled;
    bool ended;
    int status;
};

static void next(struct oneshot *o);

static void
end(struct oneshot *o, int status)
{
    if (o->ended)
        return;
    o->ended = true;
    o->status = status;
    loop_fd_remove(o->in_fd);
    o->in_fd = NULL;
    if (view_is_drawing(o->config.view))
        return; /* on_drawn goes on */
    loop_stop(o->config.loop);
}

static void
on_drawn(void *ctx)
{
    struct oneshot *o = ctx;

    if (o->ended)
        loop_stop(o->config.loop);
}

static void
on_done(void *ctx, const struct error *err, bool quit)
{
    struct oneshot *o = ctx;

    if (o->cancelled)
        end(o, error_exit_status(ERR_CANCELLED));
    else if (err != NULL)
        end(o, error_exit_status(err->code));
    else if (quit)
        end(o, 0);
    else
        next(o);
}

/* ---- lines of standard input ----------------------------------------------
 */

static void
on_stdin(void *ctx, int fd, unsigned events)
{
    struct oneshot *o = ctx;
    char buf[READ_BYTES];
    ssize_t n = read(fd, buf, sizeof(buf));

    (void)events;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    loop_fd_remove(o->in_fd);
    o->in_fd = NULL;
    if (n < 0) {
        struct error err = {0};

        error_fill_errno(&err, ERR_IO, "standard input");
        view_error(o->config.view, &err);
        end(o, error_exit_status(err.code));
        return;
    }
    if (n == 0)
        o->at_eof = true;
    else
        sbuf_add(&o->input, buf, (size_t)n);
    next(o);
}

/* Takes one line out of what was read: 1 and the line, or 0 when more is needed
   or the end has come. Errors: ERR_USAGE (a NUL, too long). */
static int
take_line(struct oneshot *o, char **line, struct error *err)
{
    const char *lf =
        o->input.len > 0 ? memchr(o->input.data, '\n', o->input.len) : NULL;
    size_t len = lf != NULL ? (size_t)(lf - o->input.data) : o->input.len;
    size_t start = 0;
    size_t stop = 0;
    struct sbuf text;

    if (lf == NULL && !sbuf_ok(&o->input)) {
        o->line++;
        return err_set(err, ERR_USAGE, "the line has more than %u bytes",
                       MAX_LINE_BYTES);
    }
    if (lf == NULL && (!o->at_eof || o->input.len == 0))
        return 0;
    o->line++;
    if (len > 0 && memchr(o->input.data, '\0', len) != NULL)
        return err_set(err, ERR_USAGE, "the line has a NUL byte");
    /* As editors elsewhere write: a mark at the start, CR LF at the ends. */
    if (o->line == 1 && len >= strlen(BOM) &&
        memcmp(o->input.data, BOM, strlen(BOM)) == 0)
        start = strlen(BOM);
    stop = len;
    if (stop > start && o->input.data[stop - 1] == '\r')
        stop--;
    sbuf_init(&text, MAX_LINE_BYTES * 3);
    utf8_add_repaired(&text, o->input.data + start, stop - start);
    sbuf_drop(&o->input, lf != NULL ? len + 1 : len);
    *line = sbuf_take(&text);
    return 1;
}

static void
say_where(struct oneshot *o)
{
    free(o->where);
    o->where = xasprintf("stdin:%zu: ", o->line);
    view_set_where(o->config.view, o->where);
}

static void
next_line(struct oneshot *o)
{
    struct error err = {0};
    int rc = 0;

    for (;;) {
        AUTO_FREE char *line = NULL;

        rc = take_line(o, &line, &err);
        if (rc <= 0)
            break;
        say_where(o);
        if (str_blank(line) || line[0] == '#')
            continue;
        view_question(o->config.view, line);
        app_submit(o->app, line);
        return;
    }
    if (rc < 0) {
        say_where(o);
        view_error(o->config.view, &err);
        end(o, error_exit_status(err.code));
    } else if (o->at_eof) {
        end(o, 0);
    } else if (o->in_fd == NULL) {
        o->in_fd =
            loop_add_fd(o->config.loop, STDIN_FILENO, LOOP_READ, on_stdin, o);
    }
}

/* ---- what comes next ------------------------------------------------------
 */

static void
next_of_demo(struct oneshot *o)
{
    const char *question = demo_question(o->n_asked);

    if (question == NULL) {
        view_gap(o->config.view);
        demo_say_end(o->config.view);
        end(o, 0);
        return;
    }
    o->n_asked++;
    view_question(o->config.view, question);
    app_submit(o->app, question);
}

static void
next(struct oneshot *o)
{
    const struct config *c = o->config.config;

    if (o->ended)
        return;
    /* For nobody nothing more is asked, which would be paid all the same. That
       standard output is gone is the whole program's status. */
    if (o->config.tty == NULL && out_is_gone(o->config.out)) {
        end(o, 0);
        return;
    }
    if (o->n_loaded < c->n_files) {
        app_load(o->app, c->files[o->n_loaded++], NULL);
        return;
    }
    switch (o->source) {
    case ONESHOT_QUESTION:
        if (o->n_asked > 0) {
            end(o, 0);
            return;
        }
        o->n_asked++;
        app_submit(o->app, c->question);
        break;
    case ONESHOT_STDIN:
        next_line(o);
        break;
    case ONESHOT_DEMO:
        next_of_demo(o);
        break;
    }
}

/* ---- interrupts -----------------------------------------------------------
 */

static void
cancel(struct oneshot *o)
{
    if (o->cancelled || !app_is_busy(o->app)) {
        end(o, error_exit_status(ERR_CANCELLED));
        return;
    }
    o->cancelled = true;
    app_cancel(o->app);
}

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    struct oneshot *o = ctx;

    if (unit->kind == INPUT_INTERRUPT)
        cancel(o);
    else if (unit->kind == INPUT_STOP)
        tty_stop(o->config.tty);
}

static void
on_resize(void *ctx, int columns, int rows)
{
    struct oneshot *o = ctx;

    out_set_size(o->config.out, columns, rows);
}

static void
on_caps(void *ctx)
{
    struct oneshot *o = ctx;

    view_caps_ready(o->config.view);
}

static void
on_gone(void *ctx)
{
    end(ctx, 129);
}

static void
on_sandbox_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct oneshot *o = ctx;

    (void)end;
    (void)err;
    app_tell_level(o->app);
}

void
oneshot_cancel(struct oneshot *o)
{
    cancel(o);
}

struct oneshot *
oneshot_new(struct app *app, const struct app_config *config,
            enum oneshot_source source, struct error *err)
{
    static const struct tty_handlers on = {
        .on_unit = on_unit,
        .on_resize = on_resize,
        .on_caps = on_caps,
        .on_gone = on_gone,
    };
    struct oneshot *o = xcalloc(1, sizeof(*o));

    o->app = app;
    o->config = *config;
    o->source = source;
    sbuf_init(&o->input, MAX_LINE_BYTES);
    if (config->tty != NULL &&
        tty_start(config->tty, config->out, &on, o, err) < 0) {
        oneshot_free(o);
        return NULL;
    }
    app_on_done(app, on_done, o);
    view_on_drawn(config->view, on_drawn, o);
    sandbox_on_open(config->sandbox, on_sandbox_open, o);
    return o;
}

void
oneshot_free(struct oneshot *o)
{
    if (o == NULL)
        return;
    loop_fd_remove(o->in_fd);
    view_on_drawn(o->config.view, NULL, NULL);
    view_set_where(o->config.view, "");
    sbuf_fini(&o->input);
    free(o->where);
    free(o);
}

void
oneshot_start(struct oneshot *o)
{
    if (o->config.tty != NULL)
        tty_probe(o->config.tty, app_probe_ms());
    if (o->source == ONESHOT_DEMO) {
        app_greet(o->app);
        demo_say_begin(o->config.view);
    }
    next(o);
    app_find_leftovers(o->app);
}

int
oneshot_exit_status(const struct oneshot *o)
{
    return o->status;
}
