/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_limits_internal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/sbuf.h"
#include "base/str.h"

static const char *const families[] = {
    "anthropic-ratelimit-",
    "anthropic-priority-",
    "anthropic-fast-",
};

struct window {
    const char *header;
    const char *noun;
};

/* The most telling first: "tokens" is the sum of the two before it. */
static const struct window windows[] = {
    {"requests", "requests"},
    {"input-tokens", "input tokens"},
    {"output-tokens", "output tokens"},
    {"tokens", "tokens"},
};

/* Whether text begins as form does, in which 0 stands for any digit. */
static bool
has_form(const char *text, const char *form)
{
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == '0' ? !isdigit((unsigned char)text[i])
                           : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

/* "+hh:mm" or "-hh:mm", at its sign; false when it is neither. */
static bool
parse_offset(const char *s, int64_t *out_ms)
{
    int64_t minutes;

    if (!has_form(s + 1, "00:00") || s[6] != '\0') {
        return false;
    }
    minutes =
        ((s[1] - '0') * 10 + s[2] - '0') * 60 + (s[4] - '0') * 10 + s[5] - '0';
    *out_ms = (s[0] == '-' ? -minutes : minutes) * 60000;
    return true;
}

int64_t
claude_limits_time_ms(const char *text)
{
    struct tm tm = {0};
    const char *rest = NULL;
    int64_t offset_ms = 0;

    /* strptime also takes fewer digits, and spaces. */
    if (has_form(text, "0000-00-00T00:00:00")) {
        rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    }
    if (rest == NULL) {
        return -1;
    }
    if (*rest == '.') {
        do {
            rest++;
        } while (isdigit((unsigned char)*rest));
    }
    if (*rest == '+' || *rest == '-') {
        if (!parse_offset(rest, &offset_ms)) {
            return -1;
        }
    } else if (!str_eq_nocase(rest, "Z")) {
        return -1;
    }
    return (int64_t)timegm(&tm) * 1000 - offset_ms;
}

static const char *
get(claude_header_fn header, const void *ctx, const char *family,
    const struct window *w, const char *what)
{
    AUTO_FREE char *name = xasprintf("%s%s-%s", family, w->header, what);

    return header(ctx, name);
}

static char *
describe(const struct window *w, const char *reset, int64_t now_ms)
{
    int64_t until = reset != NULL ? claude_limits_time_ms(reset) : -1;
    struct sbuf sb;

    sbuf_init(&sb, 256);
    sbuf_addf(&sb, "no %s are left", w->noun);
    if (until > now_ms) {
        sbuf_add_str(&sb, " for ");
        str_add_duration(&sb, until - now_ms);
    }
    return sbuf_take(&sb);
}

char *
claude_limits_describe(claude_header_fn header, const void *ctx, int64_t now_ms)
{
    for (size_t f = 0; f < LEN(families); f++) {
        for (size_t i = 0; i < LEN(windows); i++) {
            const struct window *w = &windows[i];

            if (str_eq(get(header, ctx, families[f], w, "remaining"), "0")) {
                return describe(w, get(header, ctx, families[f], w, "reset"),
                                now_ms);
            }
        }
    }
    return NULL;
}
