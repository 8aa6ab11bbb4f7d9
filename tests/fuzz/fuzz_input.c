/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sbuf.h"
#include "base/utf8.h"
#include "term/input.h"

#define MAX_LOG_BYTES (16u << 20)
#define MAX_SEQ_BYTES 4200u
#define MAX_RUN_BYTES (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct scene {
    struct input *in;
    struct input_mode mode;
    struct sbuf log; /* kind and bytes of every unit */
    enum input_kind last;
    size_t n_bytes;
};

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static bool
is_plain(uint32_t cp)
{
    return cp >= 0x20 && cp != 0x7F && !(cp >= 0x80 && cp < 0xA0) &&
           !(cp >= 0x202A && cp <= 0x202E) && !(cp >= 0x2066 && cp <= 0x2069);
}

static void
check_text(const struct input_unit *unit, bool paste)
{
    for (size_t i = 0; i < unit->len;) {
        uint32_t cp;
        bool ok;

        i += utf8_decode(unit->data + i, unit->len - i, &cp, &ok);
        expect(ok, "a unit is no UTF-8");
        expect(is_plain(cp) || (paste && (cp == '\n' || cp == '\t')),
               "text holds a control or a change of direction");
    }
}

static void
check_unit(const struct input_unit *unit)
{
    const char *data = unit->data;

    expect(data[unit->len] == '\0', "a unit has no NUL");
    switch (unit->kind) {
    case INPUT_KEYS:
        expect(unit->len > 0, "no key");
        if ((unsigned char)data[0] >= 0x20 && data[0] != 0x7F) {
            expect(unit->len <= MAX_RUN_BYTES, "a run is too long");
            check_text(unit, false);
        } else {
            expect(unit->len == 1 || (data[0] == '\033' && unit->len <= 3),
                   "a key is too long");
            for (size_t i = 0; i < unit->len; i++)
                expect((data[i] & 0x80) == 0, "a key has a part of a letter");
        }
        break;
    case INPUT_SEQUENCE:
        expect(unit->len >= 3 && unit->len < 140 && data[0] == '\033',
               "a sequence is odd");
        expect(strstr(data, "[200~") == NULL,
               "the start of a paste came through");
        expect(strstr(data, "[201~") == NULL, "the end of a paste");
        for (size_t i = data[1] == '\033' ? 2 : 1; i < unit->len; i++)
            expect(data[i] >= 0x20 && data[i] < 0x7F,
                   "a sequence holds a control");
        break;
    case INPUT_ENTER:
        expect(unit->len == 1 && (data[0] == '\r' || data[0] == '\n'),
               "an odd Enter");
        break;
    case INPUT_PASTE:
        expect(unit->len > 0 || unit->stalled || unit->n_cut > 0,
               "an empty paste");
        check_text(unit, true);
        break;
    case INPUT_INTERRUPT:
        expect(unit->len == 1 && data[0] == '\003', "an odd interrupt");
        break;
    case INPUT_STOP:
        expect(unit->len == 1 && data[0] == '\032', "an odd stop");
        break;
    case INPUT_REPLY:
        expect(unit->len >= 3 && unit->len <= MAX_SEQ_BYTES &&
                   data[0] == '\033',
               "a reply is odd");
        break;
    }
}

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    struct scene *s = ctx;
    bool joins =
        s->log.len > 0 && unit->kind == s->last && unit->len > 0 &&
        (unit->kind == INPUT_PASTE ||
         (unit->kind == INPUT_KEYS && (unsigned char)unit->data[0] >= 0x20));

    check_unit(unit);
    if (!joins)
        sbuf_add_char(&s->log, (char)('0' + (int)unit->kind));
    sbuf_add(&s->log, unit->data, unit->len);
    s->last = unit->kind;
    s->n_bytes += unit->len;
}

static void
begin(struct scene *s, uint8_t options)
{
    memset(s, 0, sizeof(*s));
    sbuf_init(&s->log, MAX_LOG_BYTES);
    s->mode = (struct input_mode){.escape_acts = (options & 1) != 0,
                                  .quoted = (options & 2) != 0,
                                  .no_brackets = (options & 4) != 0};
    s->in = input_new(on_unit, s);
    input_set_mode(s->in, &s->mode);
    if (options & 8)
        input_expect_replies(s->in, 1000);
}

static void
end(struct scene *s, size_t size)
{
    int64_t deadline_ms;

    /* Time alone ends whatever was begun, but for an ESC that waits. */
    while ((deadline_ms = input_deadline_ms(s->in)) >= 0) {
        int64_t later_ms;

        input_tick(s->in, deadline_ms);
        later_ms = input_deadline_ms(s->in);
        expect(later_ms < 0 || later_ms > deadline_ms, "a deadline stays");
    }
    /* Enter and the like may be made of a line end, nothing of nothing. */
    expect(s->n_bytes <= size, "more came out than went in");
    input_free(s->in);
}

/*
 * The first byte gives options, the second the size of the pieces, the third
 * the time between them. Units are harmless; without time between them the
 * pieces make no difference.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text;
    struct scene whole;
    struct scene pieces;
    struct scene timed;
    size_t step;

    if (size < 3)
        return 0;
    text = (const char *)data + 3;
    size -= 3;
    step = (size_t)data[1] % 8 + 1;

    begin(&whole, data[0]);
    input_feed(whole.in, text, size, 1000);
    end(&whole, size);

    begin(&pieces, data[0]);
    begin(&timed, data[0]);
    for (size_t i = 0; i < size; i += step) {
        size_t n = size - i < step ? size - i : step;

        input_feed(pieces.in, text + i, n, 1000);
        input_feed(timed.in, text + i, n, 1000 + (int64_t)i * data[2]);
    }
    end(&pieces, size);
    end(&timed, size);
    expect(whole.log.len == pieces.log.len &&
               memcmp(whole.log.data, pieces.log.data, whole.log.len) == 0,
           "the units depend on the cut");

    sbuf_fini(&whole.log);
    sbuf_fini(&pieces.log);
    sbuf_fini(&timed.log);
    return 0;
}
