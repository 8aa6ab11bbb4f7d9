/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An output that writes into pipes, as a terminal of several kinds or as plain
 * text. Whoever includes this uses all of it.
 */
#ifndef UNIT_OUT_SCREEN_H
#define UNIT_OUT_SCREEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "term/out.h"

#define MAX_READ_BYTES (64u << 20)

#define ERASE "\r\033[K"

/* Pipes stand for the terminal, or for stdout and stderr. */
struct screen {
    struct loop *loop;
    struct out *out;
    int fds[2];
    int side_fds[2];
    struct sbuf got;
    struct sbuf side;
};

struct screen_kind {
    const char *name;
    bool terminal;
    bool sequences;
    bool colour;
    bool unicode;
};

static const struct screen_kind full = {"full", true, true, true, true};
static const struct screen_kind mono = {"mono", true, true, false, true};
static const struct screen_kind dumb = {"dumb", true, false, true, true};
static const struct screen_kind plain = {"plain", false, true, true, true};

static void
open_screen(struct screen *s, const struct screen_kind *kind)
{
    struct error err = {0};

    memset(s, 0, sizeof(*s));
    sbuf_init(&s->got, MAX_READ_BYTES);
    sbuf_init(&s->side, MAX_READ_BYTES);
    s->loop = loop_new(&err);
    assert_non_null(s->loop);
    assert_int_equal(io_pipe(s->fds, &err), 0);
    assert_int_equal(io_pipe(s->side_fds, &err), 0);
    assert_int_equal(io_set_nonblock(s->fds[0], &err), 0);
    assert_int_equal(io_set_nonblock(s->side_fds[0], &err), 0);
    if (kind->terminal)
        assert_int_equal(io_set_nonblock(s->fds[1], &err), 0);
    s->out = out_new(&(struct out_config){
        .loop = s->loop,
        .main_fd = s->fds[1],
        .side_fd = s->side_fds[1],
        .terminal = kind->terminal,
        .sequences = kind->sequences,
        .colour = kind->colour,
        .unicode = kind->unicode,
    });
}

static void
read_ready(int fd, struct sbuf *sb)
{
    char buf[65536];
    ssize_t n;

    while ((n = read(fd, buf, sizeof(buf))) > 0)
        sbuf_add(sb, buf, (size_t)n);
}

/* Takes what has been written so far, without running the loop. */
static void
take(struct screen *s)
{
    size_t last;

    do {
        last = s->got.len + s->side.len;
        out_flush(s->out, 0);
        read_ready(s->fds[0], &s->got);
        read_ready(s->side_fds[0], &s->side);
    } while (s->got.len + s->side.len > last);
}

/* The same after the loop has nothing to do. */
static const char *
settle(struct screen *s)
{
    sbuf_clear(&s->got);
    sbuf_clear(&s->side);
    take(s);
    loop_run(s->loop);
    take(s);
    return s->got.len > 0 ? s->got.data : "";
}

static void
close_screen(struct screen *s)
{
    out_free(s->out);
    loop_free(s->loop);
    close(s->fds[0]);
    close(s->fds[1]);
    close(s->side_fds[0]);
    close(s->side_fds[1]);
    sbuf_fini(&s->got);
    sbuf_fini(&s->side);
}

#endif
