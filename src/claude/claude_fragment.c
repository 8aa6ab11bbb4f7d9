/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_fragment_internal.h"

#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8.h"

/* An index of more digits is left to the tree. */
#define MAX_INDEX_DIGITS 9

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

#define REPLACEMENT 0xFFFD

/* What stands behind a backslash, and what it means; 0: nothing does. */
static const char meanings[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

struct span {
    const char *at; /* NULL: not there */
    size_t len;
};

struct kind_name {
    const char *type;
    const char *key;
};

static const struct kind_name kind_names[] = {
    [CLAUDE_FRAGMENT_TEXT] = {"text_delta", "text"},
    [CLAUDE_FRAGMENT_THINKING] = {"thinking_delta", "thinking"},
    [CLAUDE_FRAGMENT_TOOL] = {"input_json_delta", "partial_json"},
};

/* What was seen; of members of one name the last counts, as with json_get. */
struct seen {
    struct span type;
    struct span index;
    bool has_delta;
    struct span delta_type;
    struct span value; /* of the key of this kind */
    size_t kind;
};

struct reader {
    const char *p;
    const char *end;
};

/* What is decoded on its way to a buffer: escapes may be many and short. */
struct writer {
    struct sbuf *out;
    size_t n;
    char bytes[1024];
};

/* --- eight bytes at a time --- */

/* Bits are set from the first byte on that ends a plain run of a string (a
   quote, a backslash, a control); none: no byte does. */
static uint64_t
special_bits(uint64_t w)
{
    uint64_t quote = w ^ (ONES * '"');
    uint64_t slash = w ^ (ONES * '\\');

    return (((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) |
            ((w - ONES * 0x20) & ~w)) &
           HIGHS;
}

/* The number of bytes before the first one of bits, in the order of memory. */
static size_t
bytes_before(uint64_t bits)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(bits) / 8;
#else
    return (size_t)__builtin_clzll(bits) / 8;
#endif
}

static bool
is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* --- decoding --- */

static void
flush(struct writer *w)
{
    sbuf_add(w->out, w->bytes, w->n);
    w->n = 0;
}

static void
add_char(struct writer *w, uint32_t cp)
{
    if (sizeof(w->bytes) - w->n < UTF8_MAX_BYTES) {
        flush(w);
    }
    w->n += utf8_encode(cp, w->bytes + w->n);
}

static void
add_byte(struct writer *w, char c)
{
    if (w->n == sizeof(w->bytes)) {
        flush(w);
    }
    w->bytes[w->n++] = c;
}

/* Copies from p up to what ends a plain run; returns where that is. */
static const char *
add_plain(struct writer *w, const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t word;
        uint64_t bits;

        if (sizeof(w->bytes) - w->n < 8) {
            flush(w);
        }
        memcpy(&word, p, 8);
        memcpy(w->bytes + w->n, &word, 8);
        bits = special_bits(word);
        if (bits != 0) {
            w->n += bytes_before(bits);
            return p + bytes_before(bits);
        }
        w->n += 8;
        p += 8;
    }
    while (p < end && is_plain(*p)) {
        add_byte(w, *p++);
    }
    return p;
}

/* A high surrogate that is not followed by a low one. */
static void
end_pair(struct claude_decoder *d, struct writer *w)
{
    if (d->high != 0) {
        d->high = 0;
        add_char(w, REPLACEMENT);
    }
}

static void
add_unit(struct claude_decoder *d, unsigned unit, struct writer *w)
{
    bool low = unit >= 0xDC00 && unit <= 0xDFFF;

    if (low && d->high != 0) {
        add_char(w, 0x10000 + ((d->high - 0xD800) << 10) + (unit - 0xDC00));
        d->high = 0;
        return;
    }
    end_pair(d, w);
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        d->high = unit;
    } else if (unit == 0 || low) {
        d->has_nul = d->has_nul || unit == 0;
        add_char(w, REPLACEMENT);
    } else {
        add_char(w, unit);
    }
}

/* The value of four hexadecimal digits, or -1. */
static int
read_unit(const char *p)
{
    int unit = 0;

    for (int i = 0; i < 4; i++) {
        char low = (char)(p[i] | 0x20);

        if (p[i] >= '0' && p[i] <= '9') {
            unit = unit * 16 + (p[i] - '0');
        } else if (low >= 'a' && low <= 'f') {
            unit = unit * 16 + (low - 'a' + 10);
        } else {
            return -1;
        }
    }
    return unit;
}

/* Decodes what a string holds; returns where it ends: at a quote, at something
   that no string may hold, or at end. */
static const char *
decode(struct claude_decoder *d, struct writer *w, const char *p,
       const char *end)
{
    while (p < end) {
        char meaning;
        int unit;

        if (*p != '\\') {
            if (!is_plain(*p)) {
                return p;
            }
            end_pair(d, w);
            p = add_plain(w, p, end);
            continue;
        }
        if (end - p < 2) {
            return p;
        }
        meaning = meanings[(unsigned char)p[1]];
        if (meaning != 0) {
            end_pair(d, w);
            add_byte(w, meaning);
            p += 2;
            continue;
        }
        unit = p[1] == 'u' && end - p >= 6 ? read_unit(p + 2) : -1;
        if (unit < 0) {
            return p;
        }
        add_unit(d, (unsigned)unit, w);
        p += 6;
    }
    return p;
}

void
claude_decoder_add(struct claude_decoder *d, const char *raw, size_t len,
                   struct sbuf *out)
{
    struct writer w;

    w.out = out;
    w.n = 0;
    (void)decode(d, &w, raw, raw + len);
    flush(&w);
}

void
claude_decoder_end(struct claude_decoder *d, struct sbuf *out)
{
    struct writer w;

    w.out = out;
    w.n = 0;
    end_pair(d, &w);
    flush(&w);
}

/* --- reading --- */

static bool
is_span(struct span s, const char *text)
{
    size_t len = strlen(text);

    return s.at != NULL && s.len == len && memcmp(s.at, text, len) == 0;
}

static void
skip_space(struct reader *r)
{
    while (r->p < r->end &&
           (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) {
        r->p++;
    }
}

static bool
take_char(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c) {
        skip_space(r);
        if (r->p == r->end || *r->p != c) {
            return false;
        }
    }
    r->p++;
    return true;
}

/* A name: a string without escapes, since those may spell any other. */
static bool
take_name(struct reader *r, struct span *out)
{
    const char *start;

    if (!take_char(r, '"')) {
        return false;
    }
    start = r->p;
    while (r->p < r->end && is_plain(*r->p)) {
        r->p++;
    }
    *out = (struct span){start, (size_t)(r->p - start)};
    return take_char(r, '"') && r->p == start + out->len + 1;
}

/* A string of any kind, and what it means. */
static bool
take_string(struct reader *r, struct span *out, struct claude_decoder *d,
            struct sbuf *text)
{
    const char *start;
    struct writer w;

    if (!take_char(r, '"')) {
        return false;
    }
    sbuf_clear(text);
    w.out = text;
    w.n = 0;
    start = r->p;
    r->p = decode(d, &w, r->p, r->end);
    flush(&w);
    if (r->p == r->end || *r->p != '"') {
        return false;
    }
    *out = (struct span){start, (size_t)(r->p - start)};
    r->p++;
    return true;
}

static bool
take_digits(struct reader *r, struct span *out)
{
    const char *start;

    skip_space(r);
    start = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        r->p++;
    }
    *out = (struct span){start, (size_t)(r->p - start)};
    /* What follows must not make it a fraction; "01" is no number. */
    return out->len > 0 && out->len <= MAX_INDEX_DIGITS &&
           (out->len == 1 || start[0] != '0') && r->p < r->end &&
           (*r->p == ',' || *r->p == '}' || *r->p == ' ');
}

/* Behind a member: another one follows, or the object ends. */
static bool
take_comma(struct reader *r, bool *more)
{
    *more = take_char(r, ',');
    return *more || take_char(r, '}');
}

/* Which kind of piece has its text under this name; LEN(kind_names): none. */
static size_t
find_kind(struct span name)
{
    size_t i = 0;

    while (i < LEN(kind_names) && !is_span(name, kind_names[i].key)) {
        i++;
    }
    return i;
}

/* A type and one text; anything else is for the tree. */
static bool
read_delta(struct reader *r, struct seen *seen, struct claude_decoder *d,
           struct sbuf *text)
{
    bool more = true;

    if (seen->has_delta || !take_char(r, '{')) {
        return false;
    }
    seen->has_delta = true;
    while (more) {
        struct span name;
        bool ok;

        if (!take_name(r, &name) || !take_char(r, ':')) {
            return false;
        }
        if (is_span(name, "type")) {
            ok = take_name(r, &seen->delta_type);
        } else {
            ok = seen->value.at == NULL;
            seen->kind = find_kind(name);
            ok = ok && seen->kind < LEN(kind_names) &&
                 take_string(r, &seen->value, d, text);
        }
        if (!ok || !take_comma(r, &more)) {
            return false;
        }
    }
    return true;
}

static bool
read_event(struct reader *r, struct seen *seen, struct claude_decoder *d,
           struct sbuf *text)
{
    bool more = true;

    if (!take_char(r, '{')) {
        return false;
    }
    while (more) {
        struct span name;
        bool ok;

        if (!take_name(r, &name) || !take_char(r, ':')) {
            return false;
        }
        if (is_span(name, "type")) {
            ok = take_name(r, &seen->type);
        } else if (is_span(name, "index")) {
            ok = take_digits(r, &seen->index);
        } else {
            ok = is_span(name, "delta") && read_delta(r, seen, d, text);
        }
        if (!ok || !take_comma(r, &more)) {
            return false;
        }
    }
    skip_space(r);
    return r->p == r->end;
}

bool
claude_fragment_read(const char *event, size_t len, struct claude_fragment *out,
                     struct sbuf *text)
{
    struct reader r = {event, event + len};
    struct seen seen = {0};
    struct claude_decoder decoder = {0};

    if (!read_event(&r, &seen, &decoder, text) ||
        !is_span(seen.type, "content_block_delta") || seen.value.at == NULL ||
        !is_span(seen.delta_type, kind_names[seen.kind].type)) {
        return false;
    }
    *out = (struct claude_fragment){
        .kind = (enum claude_fragment_kind)seen.kind,
        .index = seen.index.at != NULL ? 0 : -1,
        .raw = seen.value.at,
        .len = seen.value.len,
        .decoder = decoder,
    };
    for (size_t k = 0; k < seen.index.len; k++) {
        out->index = out->index * 10 + (seen.index.at[k] - '0');
    }
    return true;
}
