/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/sbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_BYTES 64

/* What data points at while nothing is allocated. Never written: every write
   comes after reserve(), and cap is 0 as long as data is this. */
static char empty_text[1];

/* Makes room for n more bytes and the NUL, or sets the flag. */
static bool
reserve(struct sbuf *sb, size_t n)
{
    size_t need;
    size_t cap;

    if (n > sb->max - sb->len) {
        sb->overflow = true;
        return false;
    }
    need = sb->len + n + 1;
    if (need <= sb->cap) {
        return true;
    }
    cap = sb->cap > 0 ? sb->cap * 2 : FIRST_BYTES;
    if (cap > sb->max + 1) {
        cap = sb->max + 1;
    }
    if (cap < need) {
        cap = need;
    }
    sb->data = xrealloc(sb->cap > 0 ? sb->data : NULL, cap);
    sb->cap = cap;
    return true;
}

static void
end_at(struct sbuf *sb, size_t len)
{
    sb->len = len;
    if (sb->cap > 0) {
        sb->data[len] = '\0';
    }
}

void
sbuf_init(struct sbuf *sb, size_t max)
{
    /* With this, len + NUL and doubling the capacity cannot overflow. */
    if (max > SIZE_MAX / 4) {
        max = SIZE_MAX / 4;
    }
    *sb = (struct sbuf){.data = empty_text, .max = max};
}

void
sbuf_fini(struct sbuf *sb)
{
    if (sb->cap > 0) {
        free(sb->data);
    }
    *sb = (struct sbuf){.data = empty_text, .max = sb->max};
}

void
sbuf_add(struct sbuf *sb, const void *data, size_t len)
{
    if (len == 0 || !reserve(sb, len)) {
        return;
    }
    memcpy(sb->data + sb->len, data, len);
    end_at(sb, sb->len + len);
}

void
sbuf_add_str(struct sbuf *sb, const char *s)
{
    sbuf_add(sb, s, strlen(s));
}

void
sbuf_add_char(struct sbuf *sb, char c)
{
    sbuf_add(sb, &c, 1);
}

void
sbuf_add_repeat(struct sbuf *sb, char c, size_t n)
{
    if (n == 0 || !reserve(sb, n)) {
        return;
    }
    memset(sb->data + sb->len, c, n);
    end_at(sb, sb->len + n);
}

void
sbuf_addf(struct sbuf *sb, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    sbuf_vaddf(sb, fmt, ap);
    va_end(ap);
}

void
sbuf_vaddf(struct sbuf *sb, const char *fmt, va_list ap)
{
    size_t room = sb->cap > 0 ? sb->cap - sb->len : 0;
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(room > 0 ? sb->data + sb->len : NULL, room, fmt, ap);
    if (n < 0) {
        sb->overflow = true;
    } else if ((size_t)n < room) {
        sb->len += (size_t)n;
    } else if (n > 0 && reserve(sb, (size_t)n)) {
        vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, again);
        sb->len += (size_t)n;
    }
    va_end(again);
    /* The first try may have left its beginning behind. */
    end_at(sb, sb->len);
}

void
sbuf_drop(struct sbuf *sb, size_t n)
{
    if (n >= sb->len) {
        end_at(sb, 0);
        return;
    }
    if (n > 0) {
        memmove(sb->data, sb->data + n, sb->len - n);
        end_at(sb, sb->len - n);
    }
}

void
sbuf_truncate(struct sbuf *sb, size_t len)
{
    if (len < sb->len) {
        end_at(sb, len);
    }
}

void
sbuf_clear(struct sbuf *sb)
{
    end_at(sb, 0);
    sb->overflow = false;
}

bool
sbuf_ok(const struct sbuf *sb)
{
    return !sb->overflow;
}

char *
sbuf_take(struct sbuf *sb)
{
    char *text = sb->cap > 0 ? sb->data : xstrdup("");

    sb->data = empty_text;
    sb->len = 0;
    sb->cap = 0;
    return text;
}
