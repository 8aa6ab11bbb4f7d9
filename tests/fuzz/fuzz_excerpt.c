/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The beginning and the end of what a cell printed. Two bytes say how much may
 * be kept, two how much of that is asked for, two how it comes in pieces; the
 * rest is the output. Whatever the pieces, what is shown is the same, bounded
 * and valid; of good text it is a beginning and an end of it, and the number of
 * bytes shown is right.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/excerpt_internal.h"
#include "base/sbuf.h"
#include "base/utf8.h"

#define MIN_MAX_BYTES 64u
#define MAX_MAX_BYTES 4096u
#define MAX_OUT_BYTES (64u << 20)
#define HEADER_BYTES 6u

static const char mark[] = "[... the middle is left out ...]\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_excerpt: %s\n", what);
        abort();
    }
}

/* All of it as text, by other means. */
static void
add_text(struct sbuf *sb, const char *data, size_t len)
{
    sbuf_init(sb, MAX_OUT_BYTES);
    utf8_add_repaired(sb, data, len);
    for (size_t i = 0; i < sb->len; i++)
        if (sb->data[i] == '\0')
            sb->data[i] = ' ';
}

/* Whether out is a beginning of text, the mark, and an end of it, n bytes. */
static bool
is_cut_of(const struct sbuf *out, const char *text, size_t len, uint64_t n)
{
    const size_t mark_len = sizeof(mark) - 1;

    for (size_t at = 0; at + mark_len <= out->len; at++) {
        size_t n_end = out->len - at - mark_len;
        size_t n_first = at;

        if (memcmp(out->data + at, mark, mark_len) != 0)
            continue;
        /* A line end was put in where there was none. */
        if (n_first > 0 && n_first + n_end != n)
            n_first--;
        if (n_first + n_end == n && n <= len &&
            memcmp(out->data, text, n_first) == 0 &&
            memcmp(out->data + at + mark_len, text + len - n_end, n_end) == 0)
            return true;
    }
    return false;
}

static void
check_shown(const struct excerpt *e, size_t asked, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf out = {0};
    AUTO_SBUF struct sbuf text = {0};
    size_t all = excerpt_len(e);
    uint64_t n;

    add_text(&text, data, len);
    expect(e->n_bytes == len, "bytes are not counted");
    expect(all == SIZE_MAX || all == text.len, "the length of all of it");
    sbuf_init(&out, MAX_OUT_BYTES);
    n = excerpt_write(e, asked, &out);
    expect(sbuf_ok(&out) && out.len <= asked + EXCERPT_MARK_BYTES, "too much");
    expect(n <= len, "more is shown than came");
    if (out.len == 0)
        return;
    expect(utf8_valid(out.data, out.len), "not UTF-8");
    expect(memchr(out.data, '\0', out.len) == NULL, "NUL");
    if (text.len <= asked && all != SIZE_MAX)
        expect(n == len && out.len == text.len &&
                   memcmp(out.data, text.data, out.len) == 0,
               "it has room and is not shown");
    else if (text.len == len && memcmp(text.data, data, len) == 0)
        expect(is_cut_of(&out, data, len, n), "no beginning and end of it");
}

static void
check_same(const struct excerpt *a, const struct excerpt *b, size_t asked)
{
    AUTO_SBUF struct sbuf one = {0};
    AUTO_SBUF struct sbuf other = {0};

    sbuf_init(&one, MAX_OUT_BYTES);
    sbuf_init(&other, MAX_OUT_BYTES);
    expect(excerpt_write(a, asked, &one) == excerpt_write(b, asked, &other) &&
               one.len == other.len &&
               (one.len == 0 || memcmp(one.data, other.data, one.len) == 0),
           "pieces make a difference");
    expect(excerpt_is_binary(a) == excerpt_is_binary(b) &&
               a->at_line_start == b->at_line_start,
           "pieces make a difference to what it is");
}

static void
check_kind(const struct excerpt *e, const char *data, size_t len)
{
    bool plain = true;

    for (size_t i = 0; i < len; i++)
        plain = plain && (data[i] == '\n' || (data[i] >= ' ' && data[i] < 127));
    expect(!plain || !excerpt_is_binary(e), "letters are taken for no text");
    expect(len >= MIN_MAX_BYTES || !excerpt_is_binary(e), "too short to say");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct excerpt whole;
    struct excerpt pieces;
    const char *text = (const char *)data + HEADER_BYTES;
    size_t len = size - HEADER_BYTES;
    size_t max;
    size_t asked;

    if (size < HEADER_BYTES)
        return 0;
    max = MIN_MAX_BYTES +
          (data[0] | (size_t)data[1] << 8) % (MAX_MAX_BYTES - MIN_MAX_BYTES);
    asked = MIN_MAX_BYTES +
            (data[2] | (size_t)data[3] << 8) % (max - MIN_MAX_BYTES + 1);
    excerpt_init(&whole, max);
    excerpt_add(&whole, text, len);
    excerpt_init(&pieces, max);
    for (size_t at = 0, i = 0; at < len; i++) {
        size_t n = 1 + data[4 + i % 2];

        n = n < len - at ? n : len - at;
        excerpt_add(&pieces, text + at, n);
        at += n;
    }
    check_shown(&whole, asked, text, len);
    check_shown(&whole, max, text, len);
    check_same(&whole, &pieces, asked);
    check_same(&whole, &pieces, max);
    check_kind(&whole, text, len);
    excerpt_start_line(&pieces);
    expect(pieces.at_line_start &&
               pieces.n_bytes - len == (whole.at_line_start ? 0 : 1),
           "a line is not begun");
    excerpt_fini(&whole);
    excerpt_fini(&pieces);
    return 0;
}
