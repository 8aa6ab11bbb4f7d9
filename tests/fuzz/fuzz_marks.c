/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mark splitter. Whatever the pieces: what comes out, with marks written
 * again, is what went in; pieces make no difference, cut once at any place or
 * many times; little is held back.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sbuf.h"
#include "sandbox/marks_internal.h"

#define NONCE "0123456789abcdef"
#define MAX_CUTS 1024u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_marks: %s\n", what);
    abort();
}

static size_t
add_token(struct sbuf *out, const struct marks_token *token)
{
    if (token->kind == MARKS_TEXT)
        sbuf_add(out, token->text, token->len);
    if (token->kind != MARKS_MARK)
        return 0;
    sbuf_addf(out, "%c\x1e" NONCE ":%llu\x1e%c", 0,
              (unsigned long long)token->number, 0);
    return 1;
}

/* The first piece has first bytes, all others step. */
static size_t
split(const char *data, size_t size, size_t first, size_t step,
      struct sbuf *out)
{
    struct marks m;
    struct marks_token token;
    size_t n_marks = 0;

    marks_init(&m, NONCE);
    for (size_t at = 0, n_next = first; at < size;) {
        size_t left = size - at < n_next ? size - at : n_next;
        const char *p = data + at;

        at += left;
        n_next = step;

        while (left > 0) {
            size_t held = m.n_held;
            size_t n = marks_next(&m, p, left, &token);

            require(n <= left, "takes more than there is");
            require(n > 0 || m.n_held < held, "makes no progress");
            require(m.n_held <= MARKS_MAX_BYTES, "holds back too much");
            n_marks += add_token(out, &token);
            p += n;
            left -= n;
        }
    }
    marks_flush(&m, &token);
    n_marks += add_token(out, &token);
    return n_marks;
}

static void
check_pieces(const char *text, size_t size, size_t first, size_t step,
             size_t n_marks)
{
    struct sbuf pieces;

    sbuf_init(&pieces, 2 * size + 64);
    require(split(text, size, first, step, &pieces) == n_marks,
            "pieces change the marks");
    require(pieces.len == size && memcmp(pieces.data, text, size) == 0,
            "pieces change the text");
    sbuf_fini(&pieces);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 2, 7, 31};
    const char *text = (const char *)data;
    struct sbuf whole;
    size_t n_marks;

    if (size == 0)
        return 0;
    sbuf_init(&whole, 2 * size + 64);
    n_marks = split(text, size, size, size, &whole);
    require(sbuf_ok(&whole) && whole.len == size &&
                memcmp(whole.data, text, size) == 0,
            "bytes are lost or made");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        check_pieces(text, size, steps[i], steps[i], n_marks);
    for (size_t cut = 1; cut < size && cut <= MAX_CUTS; cut++)
        check_pieces(text, size, cut, size, n_marks);
    sbuf_fini(&whole);
    return 0;
}
