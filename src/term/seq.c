/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/seq.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"

#define ESC "\033"
#define CSI ESC "["
#define APC ESC "_"
#define ST ESC "\\"

static const char *const texts[] = {
    [SEQ_SGR_RESET] = CSI "0m",
    [SEQ_BOLD] = CSI "1m",
    [SEQ_DIM] = CSI "2m",
    [SEQ_ITALIC] = CSI "3m",
    [SEQ_UNDERLINE] = CSI "4m",
    [SEQ_INVERSE] = CSI "7m",
    [SEQ_RED] = CSI "31m",
    [SEQ_YELLOW] = CSI "33m",
    [SEQ_LINE_RESTART] = "\r" CSI "K",
    [SEQ_ERASE_BELOW] = CSI "J",
    [SEQ_CURSOR_HIDE] = CSI "?25l",
    [SEQ_CURSOR_SHOW] = CSI "?25h",
    [SEQ_PASTE_ON] = CSI "?2004h",
    [SEQ_PASTE_OFF] = CSI "?2004l",
    /* One pixel, transmitted to be examined and not kept. */
    [SEQ_QUERY_KITTY] = APC "Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA" ST,
    [SEQ_QUERY_VERSION] = CSI ">0q",
    [SEQ_QUERY_REGISTERS] = CSI "?1;1;0S",
    [SEQ_QUERY_MAX_SIZE] = CSI "?2;4;0S",
    [SEQ_QUERY_CELL_SIZE] = CSI "16t",
    [SEQ_QUERY_TEXT_SIZE] = CSI "14t",
    [SEQ_QUERY_DA1] = CSI "c",
    [SEQ_ST] = ST,
};

const char *
seq_text(enum seq id)
{
    assert((size_t)id < LEN(texts));
    return texts[id];
}

void
seq_add(struct sbuf *sb, enum seq id)
{
    sbuf_add_str(sb, seq_text(id));
}

void
seq_add_sgr(struct sbuf *sb, const char *params)
{
    assert(params[strspn(params, "0123456789;")] == '\0');
    sbuf_addf(sb, CSI "%sm", params);
}

void
seq_add_cha(struct sbuf *sb, int column)
{
    assert(column >= 1);
    sbuf_addf(sb, CSI "%dG", column);
}

void
seq_add_up(struct sbuf *sb, int rows)
{
    if (rows >= 1) {
        sbuf_addf(sb, CSI "%dA", rows);
    }
}
