/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The lines of an interpreter's answer. Pieces make no difference; a line that
 * keeps the limits comes out as it is, once and in order; what is shortened is
 * still an object that keeps them.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "sandbox/e2b_lines_internal.h"

#define MAX_LINE_BYTES 400u
#define MAX_OUT_BYTES (16u << 20)
#define MAX_EVERY_CUT 128u
#define N_CUTS 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    const char *at; /* in the input: the line that is next */
    const char *end;
    struct sbuf out;
};

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_lines: %s\n", what);
    abort();
}

/* The next line that is not empty; its length, without the line feed. */
static size_t
next_line(struct run *r, const char **line)
{
    while (r->at < r->end) {
        const char *feed = memchr(r->at, '\n', (size_t)(r->end - r->at));
        const char *stop = feed != NULL ? feed : r->end;
        size_t len = (size_t)(stop - r->at);
        size_t n_blank = 0;

        *line = r->at;
        r->at = feed != NULL ? feed + 1 : r->end;
        while (n_blank < len && memchr(" \t\r", (*line)[n_blank], 3) != NULL)
            n_blank++;
        if (n_blank < len)
            return len;
    }
    return 0;
}

/* What has come out must be the next line of the input. */
static void
check_line(struct run *r, const struct e2b_line *line)
{
    const char *text = NULL;
    size_t len = next_line(r, &text);
    AUTO_JSON struct cJSON *json =
        json_parse(text, len, (int)E2B_LINES_MAX_DEPTH, NULL);
    AUTO_FREE char *expect = json_print(json);
    AUTO_FREE char *got = json_print(line->event);

    require(len > 0, "more lines than there are");
    if (json_is_object(json) && len <= MAX_LINE_BYTES) {
        require(!line->is_shortened && line->len == len, "it was changed");
        require(strcmp(expect, got) == 0, "another event");
    }
    require(line->event != NULL || len > MAX_LINE_BYTES, "it was not too long");
    sbuf_addf(&r->out, "%s %zu %d\n", got, line->len, line->is_shortened);
}

static int
take(void *ctx, const struct e2b_line *line)
{
    struct run *r = ctx;

    require(line->len > 0 && line->len <= MAX_LINE_BYTES, "its length");
    require(line->event == NULL || json_is_object(line->event), "no object");
    check_line(r, line);
    return 0;
}

/* In pieces of step bytes, the first one of cut. */
static void
feed(const char *data, size_t size, size_t cut, size_t step, struct sbuf *out)
{
    struct run r = {.at = data, .end = data + size};
    struct e2b_lines l;
    struct error err = {0};
    size_t at = 0;
    int rc = 0;

    sbuf_init(&r.out, MAX_OUT_BYTES);
    e2b_lines_init(&l, MAX_LINE_BYTES);
    while (at < size && rc == 0) {
        size_t n = at < cut ? cut : step;
        AUTO_FREE char *piece = NULL;

        if (n > size - at)
            n = size - at;
        piece = xmemdup(data + at, n);
        rc = e2b_lines_feed(&l, piece, n, take, &r, &err);
        at += n;
    }
    require(rc == 0 ? err.code == ERR_NONE : err.code == ERR_PROTOCOL,
            "a wrong error");
    if (rc == 0) {
        require(e2b_lines_finish(&l, take, &r) == 0, "the end fails");
        require(l.line.len == 0, "something is kept");
    }
    sbuf_add(out, r.out.data, r.out.len);
    sbuf_addf(out, "%d", rc);
    e2b_lines_fini(&l);
    sbuf_fini(&r.out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    AUTO_SBUF struct sbuf whole = {0};
    AUTO_SBUF struct sbuf out = {0};
    size_t stride = size <= MAX_EVERY_CUT ? 1 : size / N_CUTS;

    sbuf_init(&whole, MAX_OUT_BYTES);
    sbuf_init(&out, MAX_OUT_BYTES);
    feed(text, size, 0, SIZE_MAX, &whole);
    feed(text, size, 0, 1, &out);
    require(strcmp(out.data, whole.data) == 0, "single bytes change it");
    for (size_t cut = size % stride; cut < size; cut += stride) {
        sbuf_clear(&out);
        feed(text, size, cut, SIZE_MAX, &out);
        require(strcmp(out.data, whole.data) == 0, "pieces change it");
    }
    return 0;
}
