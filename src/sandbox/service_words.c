/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/service_words_internal.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/sbuf.h"
#include "base/utf8.h"

/* What is hidden, or no character, may take more room than it did. */
#define MAX_SHOWN_BYTES (SERVICE_WORDS_MAX_BYTES / 4)

/* Characters that are not seen, or that change how others are. */
static bool
is_hidden(uint32_t cp)
{
    return cp == 0xAD || cp == 0x61C || (cp >= 0x200B && cp <= 0x200F) ||
           (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2060 && cp <= 0x206F) ||
           cp == 0xFEFF || (cp >= 0xE0000 && cp <= 0xE0FFF);
}

static bool
is_blank(uint32_t cp)
{
    return cp <= 0x20 || (cp >= 0x7F && cp <= 0xA0) || utf8_is_space(cp);
}

/* Adds it as one line, without controls and what is hidden. */
static void
add_clean(struct sbuf *out, const char *text, size_t len)
{
    bool blank = false;

    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        bool ok = true;
        char bytes[UTF8_MAX_BYTES];

        i += utf8_decode(text + i, len - i, &cp, &ok);
        if (is_hidden(cp)) {
            continue;
        }
        if (is_blank(cp)) {
            blank = true;
            continue;
        }
        if (blank && out->len > 0) {
            sbuf_add_char(out, ' ');
        }
        blank = false;
        sbuf_add(out, bytes, utf8_encode(cp, bytes));
    }
}

void
service_words_add(struct sbuf *out, const char *text, size_t len)
{
    AUTO_SBUF struct sbuf shown = {0};
    AUTO_SBUF struct sbuf line = {0};

    if (len > SERVICE_WORDS_READ_BYTES) {
        len = utf8_floor(text, len, SERVICE_WORDS_READ_BYTES);
    }
    sbuf_init(&shown, MAX_SHOWN_BYTES);
    sbuf_init(&line, MAX_SHOWN_BYTES);
    log_add_hidden(&shown, text, len);
    add_clean(&line, shown.data, shown.len);
    /* One that was in pieces is whole now. */
    log_add_hidden(out, line.data, line.len);
}
