/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_raw_internal.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/sbuf.h"
#include "base/utf8.h"

enum { SURROGATE_NONE, SURROGATE_HIGH, SURROGATE_LOW };

static const char *
skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) {
        p++;
    }
    return p;
}

/* p is at the opening quote; the result is behind the closing one. */
static const char *
skip_string(const char *p, const char *end)
{
    p++;
    while (p < end && *p != '"') {
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    }
    return p < end ? p + 1 : end;
}

static const char *
skip_value(const char *p, const char *end)
{
    size_t depth = 0;

    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (depth == 0) {
                return p; /* a bare value ends with what holds it */
            }
            depth--;
            p++;
        } else if (depth == 0) {
            while (p < end && strchr(",]} \t\r\n", *p) == NULL) {
                p++;
            }
        } else {
            p++;
        }
        if (depth == 0) {
            return p;
        }
    }
    return end;
}

void
claude_raw_begin(struct claude_raw_iter *it, const char *text, size_t len)
{
    it->end = text + len;
    it->at = skip_space(text, it->end);
    it->open = it->at < it->end ? *it->at++ : '\0';
}

/* Before the next member or value. */
static const char *
skip_comma(const struct claude_raw_iter *it)
{
    const char *p = skip_space(it->at, it->end);

    return p < it->end && *p == ',' ? skip_space(p + 1, it->end) : p;
}

bool
claude_raw_next_value(struct claude_raw_iter *it, const char **value,
                      size_t *len)
{
    const char *p = skip_comma(it);

    if (it->open != '[' || p >= it->end || *p == ']') {
        it->at = it->end;
        return false;
    }
    it->at = skip_value(p, it->end);
    *value = p;
    *len = (size_t)(it->at - p);
    return *len > 0;
}

bool
claude_raw_next(struct claude_raw_iter *it, struct claude_raw_member *m)
{
    const char *p = skip_comma(it);
    const char *key_end;

    if (it->open != '{' || p >= it->end || *p != '"') {
        it->at = it->end;
        return false;
    }
    key_end = skip_string(p, it->end);
    m->key = p + 1;
    m->key_len = (size_t)(key_end - p) - 2;
    p = skip_space(key_end, it->end);
    if (p < it->end && *p == ':') {
        p++;
    }
    m->value = skip_space(p, it->end);
    p = skip_value(m->value, it->end);
    m->value_len = (size_t)(p - m->value);
    it->at = p;
    return true;
}

bool
claude_raw_find(const char *text, size_t len, const char *key,
                struct claude_raw_member *m)
{
    struct claude_raw_iter it;
    struct claude_raw_member each;
    size_t key_len = strlen(key);
    bool found = false;

    claude_raw_begin(&it, text, len);
    while (claude_raw_next(&it, &each)) {
        if (each.key_len == key_len && memcmp(each.key, key, key_len) == 0) {
            *m = each;
            found = true;
        }
    }
    return found;
}

/* What the six bytes at p are, for example \ud83d. */
static int
surrogate_at(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u' ||
        (p[2] != 'd' && p[2] != 'D')) {
        return SURROGATE_NONE;
    }
    if (strchr("89abAB", p[3]) != NULL && p[3] != '\0') {
        return SURROGATE_HIGH;
    }
    if (strchr("cdefCDEF", p[3]) != NULL && p[3] != '\0') {
        return SURROGATE_LOW;
    }
    return SURROGATE_NONE;
}

void
claude_raw_add_mended(struct sbuf *sb, const char *text, size_t len)
{
    const char *end = text + len;
    const char *done = text;
    const char *p = text;

    /* A backslash stands only within strings. */
    while (p < end) {
        int kind;

        p = memchr(p, '\\', (size_t)(end - p));
        if (p == NULL) {
            break;
        }
        kind = surrogate_at(p, end);
        if (kind == SURROGATE_NONE) {
            p += end - p >= 2 ? 2 : 1;
        } else if (kind == SURROGATE_HIGH &&
                   surrogate_at(p + 6, end) == SURROGATE_LOW) {
            p += 12;
        } else {
            sbuf_add(sb, done, (size_t)(p - done));
            sbuf_add_str(sb, "\\ufffd");
            p += 6;
            done = p;
        }
    }
    sbuf_add(sb, done, (size_t)(end - done));
}

size_t
claude_text_trimmed(const char *text, size_t len)
{
    size_t keep = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(text + i, len - i, &cp, &ok);

        i += n;
        if (cp != 0 && !utf8_is_space(cp)) {
            keep = i;
        }
    }
    return keep;
}

bool
claude_text_is_blank(const char *text, size_t len)
{
    return claude_text_trimmed(text, len) == 0;
}

void
claude_add_text(struct sbuf *sb, const char *text, size_t len)
{
    struct sbuf clean;

    if (len == 0 || memchr(text, '\0', len) == NULL) {
        json_add_string(sb, text, len);
        return;
    }
    sbuf_init(&clean, len);
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\0') {
            sbuf_add_char(&clean, text[i]);
        }
    }
    json_add_string(sb, clean.data, clean.len);
    sbuf_fini(&clean);
}
