/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Headers of an answer, a line for each. Whatever their values are, what is
 * said of limits is one of few sentences, without a byte of the peer's, and
 * only if a header says that nothing is left; a time that is read and written
 * again is the same.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "claude/claude_limits_internal.h"

/* 2026-11-29T12:00:00Z */
#define NOW_MS INT64_C(1795953600000)
/* strptime() takes years to 9999, and an offset is under 101 hours. */
#define FIRST_MS (INT64_C(-62167219200000) - 400000000)
#define LAST_MS (INT64_C(253402300800000) + 400000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct headers {
    const char *text; /* lines "name: value" with a NUL behind each */
    size_t len;
};

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_claude_limits: %s\n", what);
        abort();
    }
}

/* The value of the first header of that name, or NULL. */
static const char *
find(const void *ctx, const char *name)
{
    const struct headers *h = ctx;
    size_t n = strlen(name);

    expect(str_starts(name, "anthropic-"), "another header is asked for");
    for (size_t at = 0; at < h->len; at += strlen(h->text + at) + 1) {
        const char *line = h->text + at;

        if (strncmp(line, name, n) == 0 && str_starts(line + n, ": "))
            return line + n + 2;
    }
    return NULL;
}

static bool
has_zero(const struct headers *h)
{
    for (size_t at = 0; at < h->len; at += strlen(h->text + at) + 1)
        if (str_ends(h->text + at, "-remaining: 0"))
            return true;
    return false;
}

static void
check_sentence(const char *text)
{
    static const char *const nouns[] = {
        "no requests are left", "no input tokens are left",
        "no output tokens are left", "no tokens are left"};

    for (size_t i = 0; i < LEN(nouns); i++) {
        const char *rest = text + strlen(nouns[i]);

        if (!str_starts(text, nouns[i]))
            continue;
        if (*rest == '\0')
            return;
        expect(str_starts(rest, " for "), "what follows is no duration");
        rest += strlen(" for ");
        expect(*rest >= '0' && *rest <= '9', "a duration without a number");
        expect(rest[strspn(rest, "0123456789. dhmins")] == '\0',
               "a duration with something else");
        return;
    }
    expect(false, "another sentence");
}

static void
check_time(const char *text)
{
    int64_t ms = claude_limits_time_ms(text);
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};
    char again[64];

    expect(ms >= FIRST_MS && ms <= LAST_MS, "a time out of all bounds");
    expect(ms == -1 || ms % 1000 == 0, "a time with parts of a second");
    if (ms < 0 || gmtime_r(&seconds, &tm) == NULL || tm.tm_year > 9999 - 1900)
        return;
    strftime(again, sizeof(again), "%Y-%m-%dT%H:%M:%SZ", &tm);
    expect(claude_limits_time_ms(again) == ms, "written again: another time");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = xmalloc(size + 1);
    struct headers h = {.text = text, .len = size};
    AUTO_FREE char *said = NULL;
    AUTO_FREE char *early = NULL;

    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n')
            text[i] = '\0';
    said = claude_limits_describe(find, &h, NOW_MS);
    early = claude_limits_describe(find, &h, 0);
    expect((said == NULL) == (early == NULL), "the clock decides what is left");
    expect(said == NULL || has_zero(&h), "something is left");
    if (said != NULL) {
        check_sentence(said);
        check_sentence(early);
    }
    for (size_t at = 0; at < h.len; at += strlen(text + at) + 1) {
        const char *value = strstr(text + at, ": ");

        check_time(value != NULL ? value + 2 : text + at);
    }
    return 0;
}
