/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/excerpt_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* How far a cut is moved so that it is at a line. */
#define LINE_BYTES 200

/* Shorter output is sent as it is: saying that it is binary takes as long. */
#define BINARY_BYTES 64

void
excerpt_init(struct excerpt *e, size_t max_bytes)
{
    memset(e, 0, sizeof(*e));
    /* Two thirds are for the beginning. */
    e->tail_cap = max_bytes / 3 + UTF8_MAX_BYTES;
    sbuf_init(&e->head, max_bytes - max_bytes / 3);
    e->tail = xmalloc(e->tail_cap);
    e->at_line_start = true;
}

void
excerpt_fini(struct excerpt *e)
{
    sbuf_fini(&e->head);
    free(e->tail);
    memset(e, 0, sizeof(*e));
}

void
excerpt_add(struct excerpt *e, const char *data, size_t len)
{
    size_t room = e->head.max - e->head.len;
    size_t n = len < room ? len : room;

    if (len == 0)
        return;
    e->n_bytes += len;
    e->at_line_start = data[len - 1] == '\n';
    sbuf_add(&e->head, data, n);
    data += n;
    len -= n;
    if (len > e->tail_cap) {
        data += len - e->tail_cap;
        len = e->tail_cap;
    }
    for (size_t i = 0; i < len; i++) {
        e->tail[e->tail_at] = data[i];
        e->tail_at = (e->tail_at + 1) % e->tail_cap;
    }
    e->tail_len += len;
    if (e->tail_len > e->tail_cap)
        e->tail_len = e->tail_cap;
}

void
excerpt_start_line(struct excerpt *e)
{
    if (!e->at_line_start)
        excerpt_add(e, "\n", 1);
}

/* What is kept, the beginning and the end behind each other. */
static void
add_kept(const struct excerpt *e, struct sbuf *out)
{
    size_t start = (e->tail_at + e->tail_cap - e->tail_len) % e->tail_cap;
    size_t n = e->tail_cap - start;

    sbuf_init(out, e->head.max + e->tail_cap);
    if (e->head.len > 0)
        sbuf_add(out, e->head.data, e->head.len);
    n = n < e->tail_len ? n : e->tail_len;
    sbuf_add(out, e->tail + start, n);
    sbuf_add(out, e->tail, e->tail_len - n);
}

/* Controls that programs use in text. */
static bool
is_usual_control(uint32_t cp)
{
    return cp == '\t' || cp == '\n' || cp == '\r' || cp == '\b' || cp == '\f' ||
           cp == '\a' || cp == 0x1B;
}

bool
excerpt_is_binary(const struct excerpt *e)
{
    AUTO_SBUF struct sbuf kept = {0};
    size_t n_odd = 0;

    add_kept(e, &kept);
    if (kept.len < BINARY_BYTES)
        return false;
    for (size_t at = 0; at < kept.len;) {
        uint32_t cp = 0;
        bool ok = true;
        size_t n = utf8_decode(kept.data + at, kept.len - at, &cp, &ok);

        if (!ok || (cp < 0x20 && !is_usual_control(cp)))
            n_odd += n;
        at += n;
    }
    /* Text in another encoding than UTF-8 has fewer. */
    return n_odd > kept.len / 10 * 3;
}

/* Adds the beginning of raw output, repaired and without NUL, at most max bytes
   of text. Returns how many raw bytes that were. */
static size_t
add_beginning(struct sbuf *out, const char *data, size_t len, size_t max)
{
    size_t start = out->len;
    size_t at = 0;

    while (at < len) {
        uint32_t cp = 0;
        bool ok = true;
        size_t n = utf8_decode(data + at, len - at, &cp, &ok);
        char text[UTF8_MAX_BYTES];
        size_t n_text = utf8_encode(cp == 0 ? ' ' : cp, text);

        if (out->len - start + n_text > max)
            break;
        sbuf_add(out, text, n_text);
        at += n;
    }
    return at;
}

/* The same for what will be cut: up to a line end if there is one near. */
static size_t
add_head(struct sbuf *out, const char *data, size_t len, size_t max)
{
    size_t start = out->len;
    size_t n = add_beginning(out, data, len, max);
    size_t from = n > LINE_BYTES ? n - LINE_BYTES : 0;
    const char *line =
        n < len || n > 0 ? memrchr(data + from, '\n', n - from) : NULL;

    if (line == NULL)
        return n;
    sbuf_truncate(out, start);
    return add_beginning(out, data, (size_t)(line + 1 - data), max);
}

/* Where the end of raw output begins that has at most max bytes of text: at a
   line if one begins near, and never within a character. */
static size_t
find_end(const char *data, size_t len, size_t max)
{
    size_t at = len > max ? len - max : 0;
    const char *line = NULL;

    for (;;) {
        AUTO_SBUF struct sbuf text = {0};

        /* Not within a character; but garbage may be nothing else. */
        for (int i = 0; i < UTF8_MAX_BYTES - 1 && at > 0 && at < len &&
                        ((unsigned char)data[at] & 0xC0) == 0x80;
             i++)
            at++;
        sbuf_init(&text, (len - at) * UTF8_MAX_BYTES);
        add_beginning(&text, data + at, len - at, SIZE_MAX);
        if (text.len <= max)
            break;
        /* A broken byte takes three as text. */
        at += (text.len - max + 2) / 3;
    }
    if (at > 0 && at < len && data[at - 1] != '\n')
        line = memchr(data + at, '\n',
                      len - at < LINE_BYTES ? len - at : LINE_BYTES);
    return line != NULL && line + 1 < data + len ? (size_t)(line + 1 - data)
                                                 : at;
}

size_t
excerpt_len(const struct excerpt *e)
{
    AUTO_SBUF struct sbuf kept = {0};
    AUTO_SBUF struct sbuf text = {0};

    add_kept(e, &kept);
    if (kept.len < e->n_bytes)
        return SIZE_MAX;
    sbuf_init(&text, kept.len * UTF8_MAX_BYTES);
    add_beginning(&text, kept.data, kept.len, SIZE_MAX);
    return text.len;
}

uint64_t
excerpt_write(const struct excerpt *e, size_t max_bytes, struct sbuf *out)
{
    AUTO_SBUF struct sbuf kept = {0};
    size_t n_first = 0; /* raw bytes shown of the beginning */
    size_t at = 0;      /* where the end that is shown begins */

    add_kept(e, &kept);
    if (excerpt_len(e) <= max_bytes) {
        add_beginning(out, kept.data, kept.len, max_bytes);
        return e->n_bytes;
    }
    if (kept.len == e->n_bytes) {
        n_first = add_head(out, kept.data, kept.len, max_bytes - max_bytes / 3);
        at = n_first;
    } else {
        /* What was kept begins and ends anywhere, also within a character. */
        n_first = add_head(out, kept.data,
                           e->head.len - utf8_pending(kept.data, e->head.len),
                           max_bytes - max_bytes / 3);
        at = e->head.len;
        while (at < kept.len && at < e->head.len + UTF8_MAX_BYTES - 1 &&
               ((unsigned char)kept.data[at] & 0xC0) == 0x80)
            at++;
    }
    at += find_end(kept.data + at, kept.len - at, max_bytes / 3);
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        sbuf_add_char(out, '\n');
    sbuf_add_str(out, "[... the middle is left out ...]\n");
    add_beginning(out, kept.data + at, kept.len - at, SIZE_MAX);
    return n_first + kept.len - at;
}
