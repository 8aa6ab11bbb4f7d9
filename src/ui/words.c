/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/words.h"

#include <string.h>

#include "base/sbuf.h"
#include "base/utf8.h"

void
words_add(struct sbuf *sb, const char *text, size_t used, size_t indent,
          size_t columns)
{
    size_t start = used;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        size_t width = utf8_width(text, len);

        if (columns > 0 && used > start && used + 1 + width > columns) {
            sbuf_add_char(sb, '\n');
            sbuf_add_repeat(sb, ' ', indent);
            used = indent;
            start = indent;
        } else if (used > start) {
            sbuf_add_char(sb, ' ');
            used++;
        }
        sbuf_add(sb, text, len);
        used += width;
        text += len;
        text += strspn(text, " ");
    }
    sbuf_add_char(sb, '\n');
}
