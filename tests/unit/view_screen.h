/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A view that writes into memory, with the sink chain before it. Whoever
 * includes this uses all of it but put.
 */
#ifndef UNIT_VIEW_SCREEN_H
#define UNIT_VIEW_SCREEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
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
#include "term/out.h"
#include "ui/view.h"

#define MAX_SCREEN (1u << 20)

enum kind { PLAIN, DUMB, TERMINAL };

struct setting {
    enum kind kind;
    int columns; /* of a terminal; 0: 80 */
    bool unicode;
    const char *thinking;
    bool no_commands;
    bool run_ends;
    bool hold_words;
};

struct fixture {
    struct loop *loop;
    struct sink_chain *chain;
    struct out *out;
    struct view *view;
    int fds[2];
    struct sbuf text[2]; /* by channel, what is written by now */
};

static struct fixture *
begin(struct setting with)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err = {0};

    f->loop = loop_new(&err);
    assert_non_null(f->loop);
    for (size_t i = 0; i < 2; i++) {
        f->fds[i] = memfd_create("screen", MFD_CLOEXEC);
        assert_true(f->fds[i] >= 0);
        sbuf_init(&f->text[i], MAX_SCREEN);
    }
    f->out = out_new(&(struct out_config){
        .loop = f->loop,
        .main_fd = f->fds[0],
        .side_fd = f->fds[1],
        .terminal = with.kind != PLAIN,
        .sequences = with.kind == TERMINAL,
        .unicode = with.unicode,
    });
    if (with.kind != PLAIN)
        out_set_size(f->out, with.columns > 0 ? with.columns : 80, 24);
    f->view = view_new(&(struct view_config){
        .loop = f->loop,
        .out = f->out,
        .graphics = "none",
        .thinking = with.thinking,
        .no_commands = with.no_commands,
        .run_ends = with.run_ends,
        .hold_words = with.hold_words,
    });
    f->chain = sink_chain_new();
    sink_chain_add(f->chain, &view_sink, f->view);
    return f;
}

static void __attribute__((unused)) put(struct fixture *f, struct event ev)
{
    struct error err = {0};

    if (sink_chain_put(f->chain, &ev, &err) < 0)
        fail_msg("%s", err.msg);
}

/* While it goes on. */
static void
read_all(struct fixture *f)
{
    struct error err = {0};

    for (size_t i = 0; i < 2; i++) {
        sbuf_clear(&f->text[i]);
        assert_int_equal(lseek(f->fds[i], 0, SEEK_SET), 0);
        assert_int_equal(io_read_all(f->fds[i], &f->text[i], &err), 0);
    }
}

/* Everything is written, and nothing can be added. */
static void
finish(struct fixture *f)
{
    view_free(f->view);
    out_free(f->out);
    read_all(f);
}

static void
end(struct fixture *f)
{
    sink_chain_free(f->chain);
    loop_free(f->loop);
    for (size_t i = 0; i < 2; i++) {
        close(f->fds[i]);
        sbuf_fini(&f->text[i]);
    }
    free(f);
}

#endif
