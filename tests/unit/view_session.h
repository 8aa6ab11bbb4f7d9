/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A view of a session on the disk, with the recorder before it, and the events
 * of a turn. Whoever includes this uses all of it.
 */
#ifndef UNIT_VIEW_SESSION_H
#define UNIT_VIEW_SESSION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "model/sink.h"
#include "store/recorder.h"
#include "store/session.h"
#include "term/out.h"
#include "ui/view.h"

#define MAX_SCREEN (1u << 20)
#define DOT "\xC2\xB7"
#define BAR "\xE2\x94\x82"
#define RULE "\xE2\x94\x80\xE2\x94\x80"

enum kind { PLAIN, JOINED, DUMB, TERMINAL, COLOUR };

struct fixture {
    char *dir;
    struct session *session;
    struct recorder *recorder;
    struct loop *loop;
    struct sink_chain *chain;
    struct out *out;
    struct view *view;
    int fds[2];
    struct sbuf text[2]; /* what was written; the directory reads "@" */
};

/* Set for a run in which no command can be typed. */
static bool no_commands;

static struct fixture *
begin(enum kind kind, int columns, bool unicode)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err = {0};
    struct out_config out = {
        .terminal = kind >= DUMB,
        .sequences = kind >= TERMINAL,
        .colour = kind == COLOUR,
        .unicode = unicode,
    };
    struct view_config view = {
        .graphics = "auto", .cell_ms = 120000, .no_commands = no_commands};

    f->dir = xstrdup("/tmp/test_view.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->session = session_new(f->dir, &err);
    assert_non_null(f->session);
    f->recorder = recorder_new(f->session);
    f->loop = loop_new(&err);
    assert_non_null(f->loop);
    for (size_t i = 0; i < 2; i++) {
        f->fds[i] = memfd_create("screen", MFD_CLOEXEC);
        assert_true(f->fds[i] >= 0);
        sbuf_init(&f->text[i], MAX_SCREEN);
    }
    out.loop = f->loop;
    out.main_fd = f->fds[0];
    out.side_fd = f->fds[kind == JOINED ? 0 : 1];
    f->out = out_new(&out);
    if (kind >= DUMB)
        out_set_size(f->out, columns, 24);
    view.loop = f->loop;
    view.out = f->out;
    view.recorder = f->recorder;
    f->view = view_new(&view);
    f->chain = sink_chain_new();
    sink_chain_add(f->chain, &recorder_sink, f->recorder);
    sink_chain_add(f->chain, &view_sink, f->view);
    return f;
}

/* Adds text with the directory of the session written as "@". */
static void
add_read(struct fixture *f, int fd, struct sbuf *sb)
{
    AUTO_SBUF struct sbuf raw = {0};
    struct error err = {0};
    const char *path = session_path(f->session);
    const char *at = NULL;

    sbuf_init(&raw, MAX_SCREEN);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(io_read_all(fd, &raw, &err), 0);
    for (const char *p = raw.data; *p != '\0'; p = at) {
        at = strstr(p, path);
        if (at == NULL) {
            sbuf_add_str(sb, p);
            break;
        }
        sbuf_add(sb, p, (size_t)(at - p));
        sbuf_add_char(sb, '@');
        at += strlen(path);
    }
}

/* Ends the screen: everything is written, and nothing can be added. */
static void
finish(struct fixture *f)
{
    view_free(f->view);
    out_free(f->out);
    for (size_t i = 0; i < 2; i++)
        add_read(f, f->fds[i], &f->text[i]);
}

static void
end(struct fixture *f)
{
    sink_chain_free(f->chain);
    recorder_free(f->recorder);
    session_free(f->session);
    loop_free(f->loop);
    assert_int_equal(io_remove_tree(f->dir, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        close(f->fds[i]);
        sbuf_fini(&f->text[i]);
    }
    free(f->dir);
    free(f);
}

static void
expect_text(const char *where, const char *text, const char *expect)
{
    if (strcmp(text, expect) != 0)
        fail_msg("%s:\n%s\n--- instead of\n%s", where, text, expect);
}

/* Finishes a screen with one channel and compares all of it. */
static void
expect_screen(struct fixture *f, const char *expect)
{
    finish(f);
    expect_text("screen", f->text[0].data, expect);
    assert_int_equal(f->text[1].len, 0);
    end(f);
}

static void
put(struct fixture *f, struct event ev)
{
    struct error err = {0};

    if (sink_chain_put(f->chain, &ev, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
put_text(struct fixture *f, enum event_kind kind, const char *text, bool over)
{
    put(f, (struct event){
               .kind = kind, .text = text, .len = strlen(text), .end = over});
}

static void
put_code(struct fixture *f, int cell, const char *code)
{
    put(f, (struct event){.kind = EVENT_CODE,
                          .cell = cell,
                          .text = code,
                          .len = strlen(code),
                          .end = true});
}

static void
put_output(struct fixture *f, int cell, enum event_stream stream,
           const char *text, size_t len)
{
    put(f, (struct event){.kind = EVENT_OUTPUT,
                          .cell = cell,
                          .stream = stream,
                          .text = text,
                          .len = len});
}

static void
put_printed(struct fixture *f, int cell, const char *text)
{
    put_output(f, cell, EVENT_STDOUT, text, strlen(text));
}

static void
put_cell_done(struct fixture *f, int cell, enum event_outcome outcome,
              const char *reason)
{
    put(f, (struct event){.kind = EVENT_DONE,
                          .scope = EVENT_SCOPE_CELL,
                          .cell = cell,
                          .outcome = outcome,
                          .text = reason,
                          .len = reason != NULL ? strlen(reason) : 0});
}

#endif
