/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/utf8.h"

#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "base/utf8_tables_internal.h"

/* U+FFFD in UTF-8. */
static const char replacement[] = "\xEF\xBF\xBD";

/* What the bytes of a character must be, by its first byte. */
struct lead {
    int n_bytes; /* 0: no character begins with this byte */
    unsigned char second_min;
    unsigned char second_max;
};

static unsigned char
byte_at(const char *s, size_t i)
{
    return (unsigned char)s[i];
}

static bool
is_continuation(unsigned char b)
{
    return (b & 0xC0u) == 0x80u;
}

/*
 * The bounds of the second byte exclude overlong forms (E0, F0), surrogates
 * (ED) and what lies above U+10FFFF (F4): Unicode, table 3-7.
 */
static struct lead
classify_lead(unsigned char b)
{
    struct lead lead = {0, 0x80, 0xBF};

    if (b < 0x80) {
        lead.n_bytes = 1;
    } else if (b >= 0xC2 && b <= 0xDF) {
        lead.n_bytes = 2;
    } else if (b >= 0xE0 && b <= 0xEF) {
        lead.n_bytes = 3;
        if (b == 0xE0) {
            lead.second_min = 0xA0;
        } else if (b == 0xED) {
            lead.second_max = 0x9F;
        }
    } else if (b >= 0xF0 && b <= 0xF4) {
        lead.n_bytes = 4;
        if (b == 0xF0) {
            lead.second_min = 0x90;
        } else if (b == 0xF4) {
            lead.second_max = 0x8F;
        }
    }
    return lead;
}

/* How many of the bytes at s (at least one) belong to the character that
   begins there. */
static size_t
count_fitting(const char *s, size_t len, struct lead lead)
{
    size_t n = 1;

    if (lead.n_bytes < 2 || len < 2 || byte_at(s, 1) < lead.second_min ||
        byte_at(s, 1) > lead.second_max) {
        return n;
    }
    for (n = 2; n < (size_t)lead.n_bytes && n < len; n++) {
        if (!is_continuation(byte_at(s, n))) {
            break;
        }
    }
    return n;
}

static bool
in_table(const struct utf8_range *table, size_t n, uint32_t cp)
{
    size_t low = 0;
    size_t high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (cp > table[mid].last) {
            low = mid + 1;
        } else if (cp < table[mid].first) {
            high = mid;
        } else {
            return true;
        }
    }
    return false;
}

#define IN_TABLE(table, cp) in_table((table), LEN(table), (cp))

size_t
utf8_decode(const char *s, size_t len, uint32_t *cp, bool *ok)
{
    unsigned char first = byte_at(s, 0);
    struct lead lead = classify_lead(first);
    size_t n = count_fitting(s, len, lead);
    uint32_t value;

    *ok = n == (size_t)lead.n_bytes;
    if (!*ok) {
        *cp = UTF8_REPLACEMENT;
        return n;
    }
    /* A first byte of n > 1 bytes carries 7 - n bits of the value. */
    value = n == 1 ? first : first & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        value = value << 6 | (byte_at(s, i) & 0x3Fu);
    }
    *cp = value;
    return n;
}

size_t
utf8_encode(uint32_t cp, char out[UTF8_MAX_BYTES])
{
    unsigned char b[UTF8_MAX_BYTES];
    size_t n;

    if (cp > 0x10FFFFu || (cp >= 0xD800u && cp <= 0xDFFFu)) {
        cp = UTF8_REPLACEMENT;
    }
    if (cp < 0x80u) {
        b[0] = (unsigned char)cp;
        n = 1;
    } else if (cp < 0x800u) {
        b[0] = (unsigned char)(0xC0u | cp >> 6);
        n = 2;
    } else if (cp < 0x10000u) {
        b[0] = (unsigned char)(0xE0u | cp >> 12);
        n = 3;
    } else {
        b[0] = (unsigned char)(0xF0u | cp >> 18);
        n = 4;
    }
    for (size_t i = n - 1; i > 0; i--) {
        b[i] = (unsigned char)(0x80u | (cp & 0x3Fu));
        cp >>= 6;
    }
    memcpy(out, b, n);
    return n;
}

/* The number of ASCII bytes at s, in words of eight while there are such. */
static size_t
skip_ascii(const char *s, size_t len)
{
    size_t i = 0;

    for (; len - i >= 8; i += 8) {
        uint64_t word;

        memcpy(&word, s + i, 8);
        if ((word & UINT64_C(0x8080808080808080)) != 0) {
            break;
        }
    }
    while (i < len && byte_at(s, i) < 0x80) {
        i++;
    }
    return i;
}

bool
utf8_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;

        i += skip_ascii(s + i, len - i);
        if (i == len) {
            break;
        }
        i += utf8_decode(s + i, len - i, &cp, &ok);
        if (!ok) {
            return false;
        }
    }
    return true;
}

size_t
utf8_pending(const char *s, size_t len)
{
    for (size_t back = 1; back < UTF8_MAX_BYTES && back <= len; back++) {
        const char *start = s + (len - back);
        struct lead lead = classify_lead(byte_at(start, 0));

        if (is_continuation(byte_at(start, 0))) {
            continue;
        }
        return (size_t)lead.n_bytes > back &&
                       count_fitting(start, back, lead) == back
                   ? back
                   : 0;
    }
    return 0;
}

void
utf8_add_repaired(struct sbuf *sb, const char *s, size_t len)
{
    size_t start = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(s + i, len - i, &cp, &ok);

        if (!ok) {
            sbuf_add(sb, s + start, i - start);
            sbuf_add_str(sb, replacement);
            start = i + n;
        }
        i += n;
    }
    if (start < len) {
        sbuf_add(sb, s + start, len - start);
    }
}

size_t
utf8_floor(const char *s, size_t len, size_t max)
{
    if (max >= len) {
        return len;
    }
    for (size_t back = 1; back < UTF8_MAX_BYTES && back <= max; back++) {
        const char *start = s + (max - back);
        uint32_t cp;
        bool ok;

        if (is_continuation(byte_at(start, 0))) {
            continue;
        }
        return utf8_decode(start, len - (max - back), &cp, &ok) > back
                   ? max - back
                   : max;
    }
    return max;
}

int
utf8_cp_width(uint32_t cp)
{
    /* Nothing below U+0300 is a mark or wide; most text ends here. */
    if (cp < 0x300u) {
        return 1;
    }
    if (IN_TABLE(utf8_zero, cp)) {
        return 0;
    }
    return IN_TABLE(utf8_wide, cp) ? 2 : 1;
}

size_t
utf8_width(const char *s, size_t len)
{
    size_t width = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;

        i += utf8_decode(s + i, len - i, &cp, &ok);
        width += (size_t)utf8_cp_width(cp);
    }
    return width;
}

size_t
utf8_fit(const char *s, size_t len, size_t width, size_t *used)
{
    size_t cols = 0;
    size_t i = 0;

    /* What has no width of its own belongs to what stands before it, so a cut
       is possible only before a character with a width. */
    while (i < len) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(s + i, len - i, &cp, &ok);
        size_t w = (size_t)utf8_cp_width(cp);

        if (w > width - cols) {
            break;
        }
        cols += w;
        i += n;
    }
    *used = cols;
    return i;
}

bool
utf8_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) ||
           cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool
utf8_is_combining(uint32_t cp)
{
    return cp >= 0x300u && IN_TABLE(utf8_combining, cp);
}

bool
utf8_is_assigned(uint32_t cp)
{
    return IN_TABLE(utf8_assigned, cp);
}
