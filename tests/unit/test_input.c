/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "term/input.h"

#define MAX_LOG_BYTES (64u << 20)

/* What came out, as text: a letter for the kind, and the bytes in quotes. */
struct scene {
    struct input *in;
    struct input_mode mode;
    struct sbuf log;
    bool stalled;
    size_t n_cut;
    char last_kind;
};

static void
on_unit(void *ctx, const struct input_unit *unit)
{
    static const char letters[] = {
        [INPUT_KEYS] = 'k',  [INPUT_SEQUENCE] = 's',  [INPUT_ENTER] = 'e',
        [INPUT_PASTE] = 'p', [INPUT_INTERRUPT] = 'i', [INPUT_STOP] = 'z',
        [INPUT_REPLY] = 'r'};
    struct scene *s = ctx;
    char kind = letters[unit->kind];

    assert_int_equal(unit->data[unit->len], '\0');
    s->stalled = s->stalled || unit->stalled;
    s->n_cut += unit->n_cut;
    /* Runs and texts may come in any number of pieces. */
    if (s->last_kind == kind &&
        (kind == 'p' || (kind == 'k' && (unsigned char)unit->data[0] >= 0x20 &&
                         unit->data[0] != 0x7F)))
        sbuf_truncate(&s->log, s->log.len - 1);
    else
        sbuf_addf(&s->log, "%c'", kind);
    s->last_kind = kind == 'k' && ((unsigned char)unit->data[0] < 0x20 ||
                                   unit->data[0] == 0x7F)
                       ? 'x'
                       : kind;
    for (size_t i = 0; i < unit->len; i++) {
        if (unit->data[i] == '\033')
            sbuf_add_char(&s->log, '$');
        else if ((unsigned char)unit->data[i] < 0x20)
            sbuf_addf(&s->log, "^%c", unit->data[i] + '@');
        else
            sbuf_add_char(&s->log, unit->data[i]);
    }
    sbuf_add_char(&s->log, '\'');
}

static void
begin(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    sbuf_init(&s->log, MAX_LOG_BYTES);
    s->in = input_new(on_unit, s);
    input_set_mode(s->in, &s->mode);
}

static void
end(struct scene *s)
{
    input_free(s->in);
    sbuf_fini(&s->log);
}

static void
feed(struct scene *s, const char *text, int64_t now_ms)
{
    input_feed(s->in, text, strlen(text), now_ms);
}

struct row {
    const char *name;
    const char *bytes;
    const char *expect_log;
};

static const struct row rows[] = {
    {"characters", "ab\xC3\xA9\xF0\x9F\x98\x80z",
     "k'ab\xC3\xA9\xF0\x9F\x98\x80z'"},
    {"control keys", "a\001b\177", "k'a'k'^A'k'b'k'\177'"},
    {"enter", "a\r\n", "k'a'e'^M'e'^J'"},
    {"interrupt in order", "a\003b\032c", "k'a'i'^C'k'b'z'^Z'k'c'"},
    {"broken utf-8",
     "a\xC3"
     "b\xFF\x80"
     "c\xED\xA0\x80"
     "d\xC3\xC3\xA9",
     "k'abcd\xC3\xA9'"},
    {"c1 and bidi",
     "a\xC2\x9B"
     "b\xE2\x80\xAE"
     "c\xE2\x81\xA6"
     "d",
     "k'abcd'"},
    {"arrows", "\033[A\033OB\033[1;5C", "s'$[A's'$OB's'$[1;5C'"},
    {"meta keys", "\033b\033\r\033P", "k'$b'k'$^M'"},
    {"rxvt meta arrow", "\033\033[A", "s'$$[A'"},
    {"escapes", "\033\033\033x", "k'$$'k'$x'"},
    {"linux console key", "\033[[Ax", "s'$[[A'k'x'"},
    {"escape before utf-8", "\033\xC3\xA9", "k'\xC3\xA9'"},
    {"escape before interrupt", "\033\003", "i'^C'"},
    {"keypad", "\033O2Px", "s'$O2P'k'x'"},
    {"cursor report is a key", "\033[1;2R", "s'$[1;2R'"},
    {"da1", "a\033[?62;4;22cb", "k'a'r'$[?62;4;22c'k'b'"},
    {"private", "\033[>1u\033[=2x\033[<0;1;1M", "r'$[>1u'r'$[=2x'r'$[<0;1;1M'"},
    {"window reports", "\033[6;20;10t\033[0n\033[I\033[O",
     "r'$[6;20;10t'r'$[0n'r'$[I'r'$[O'"},
    {"version", "\033P>|foot(1.13.1)\033\\x", "r'$P>|foot(1.13.1)$\\'k'x'"},
    {"colour", "\033]11;rgb:f/f/f\ax", "r'$]11;rgb:f/f/f^G'k'x'"},
    {"kitty", "\033_Gi=31;OK\033\\", "r'$_Gi=31;OK$\\'"},
    {"title with an enter", "\033]lrm -rf\r\033\\x", "r'$]lrm -rf^M$\\'k'x'"},
    {"no string", "\033]x\033_x\033Px", "k'$]'k'x'k'$_'k'x'k'$P'k'x'"},
    {"string cancelled", "\033P>|ab\030c", "k'c'"},
    {"string by escape", "\033P>|ab\033[Ac", "s'$[A'k'c'"},
    {"csi by control", "\033[12\003a", "i'^C'k'a'"},
    {"escape before a reply", "\033\033[?62cb", "r'$[?62c'k'$b'"},
    {"paste", "a\033[200~one\r\ntwo\rx\033[201~", "k'a'p'one^Jtwo^Jx'"},
    {"paste controls", "\033[200~a\003\032\033[Ab\tc\177\033[201~",
     "p'a[Ab^Ic'"},
    {"paste bad text",
     "\033[200~a\xFF\xC2\x9B"
     "b\xE2\x80\xAE"
     "c\033[201~",
     "p'abc'"},
    {"start in paste", "\033[200~a\033[200~b\033[201~", "p'a[200~b'"},
    {"half an end", "\033[200~a\033[20\033[201\033[201~", "p'a[20[201'"},
    {"empty paste", "\033[200~\033[201~", ""},
    {"tail", "\033[200~a\033[201~b\r\003c\017d", "p'ab^Jcd'"},
    {"tail, crlf", "\033[200~a\033[201~b\r\nc", "p'ab^Jc'"},
    {"tail, tab", "\033[200~a\033[201~b\tc", "p'ab^Ic'"},
    {"tail, second end", "\033[200~a\033[201~b\r\033[201~", "p'ab^J'"},
    {"end without start", "a\033[201~b", "k'ab'"},
};

static void
expect_row(const struct row *row, const char *how, struct scene *s)
{
    if (strcmp(s->log.data, row->expect_log) != 0)
        fail_msg("%s, %s: %s, expected %s", row->name, how, s->log.data,
                 row->expect_log);
}

static void
test_input_feed_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct scene s;

        begin(&s);
        feed(&s, rows[i].bytes, 1000);
        expect_row(&rows[i], "whole", &s);
        end(&s);
    }
}

static void
test_input_feed_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct scene s;

        begin(&s);
        for (size_t k = 0; rows[i].bytes[k] != '\0'; k++)
            input_feed(s.in, rows[i].bytes + k, 1, 1000 + (int64_t)k);
        expect_row(&rows[i], "byte by byte", &s);
        end(&s);
    }
}

static void
test_input_feed_cut_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        size_t len = strlen(rows[i].bytes);

        for (size_t cut = 1; cut < len; cut++) {
            struct scene s;

            begin(&s);
            input_feed(s.in, rows[i].bytes, cut, 1000);
            input_feed(s.in, rows[i].bytes + cut, len - cut, 1040);
            expect_row(&rows[i], "cut", &s);
            end(&s);
        }
    }
}

static const char *const replies[] = {
    "\033P>|foot(1.13.1)\033\\",
    "\033]11;rgb:ffff/ffff/ffff\a",
    "\033_Gi=31;OK\033\\",
    "\033[?1;0;1024S",
    "\033[6;15;7t",
    "\033]lrm -rf /\r\033\\",
    "\033[?62;4;22c",
};

/* While answers are expected, a gap in one changes nothing. */
static void
test_input_feed_reply_with_gap(void **state)
{
    static const bool acts[] = {false, true};

    (void)state;
    for (size_t k = 0; k < LEN(acts); k++) {
        for (size_t i = 0; i < LEN(replies); i++) {
            size_t len = strlen(replies[i]);

            for (size_t cut = 1; cut < len; cut++) {
                struct scene s;

                begin(&s);
                s.mode.escape_acts = acts[k];
                input_expect_replies(s.in, 900);
                input_feed(s.in, "a", 1, 1000);
                input_feed(s.in, replies[i], cut, 1000);
                input_tick(s.in, 1120);
                input_feed(s.in, replies[i] + cut, len - cut, 1120);
                input_feed(s.in, "b", 1, 1120);
                if (strncmp(s.log.data, "k'a'r'", 6) != 0 ||
                    strcmp(s.log.data + s.log.len - 5, "'k'b'") != 0)
                    fail_msg("reply %zu cut at %zu: %s", i, cut, s.log.data);
                end(&s);
            }
        }
    }
}

/* Two feeds with a time between them. */
struct timed_row {
    const char *name;
    const char *first;
    int64_t gap_ms;
    const char *second;
    bool escape_acts;
    bool quoted;
    bool no_brackets;
    const char *expect_log;
};

static const struct timed_row timed_rows[] = {
    {"lone escape waits", "\033", 60000, "b", false, false, false, "k'$b'"},
    {"lone escape acts", "\033", 50, "b", true, false, false, "k'$'k'b'"},
    {"fast meta key", "\033", 49, "b", true, false, false, "k'$b'"},
    {"two escapes act", "\033\033", 50, "b", true, false, false, "k'$$'k'b'"},
    {"escape before utf-8 acts", "\033\xC3\xA9", 0, "", true, false, false,
     "k'$'k'\xC3\xA9'"},
    {"slow meta bracket", "\033", 51, "]11;x", false, false, false,
     "k'$]'k'11;x'"},
    {"slow meta P", "\033P", 51, ">a", false, false, false, "k'$P'k'>a'"},
    {"meta O", "\033O", 50, "A", false, false, false, "k'$O'k'A'"},
    {"meta O and digits", "\033O12", 50, "A", false, false, false,
     "k'$O'k'12A'"},
    {"half a character", "\xC3", 1000, "\xA9x", false, false, false, "k'x'"},
    {"half a csi", "\033[1", 1000, "A", false, false, false, "k'A'"},
    {"half a string", "\033P>|a", 1000, "b", false, false, false, "k'b'"},
    {"interrupt in a string", "\033P>|a", 200, "\003", false, false, false,
     "i'^C'"},
    {"slow paste", "\033[200~a", 4999, "b\033[201~", false, false, false,
     "p'ab'"},
    {"stalled paste", "\033[200~a\r", 5000, "b\003\r\033[201~", false, false,
     false, "p'a^Jb^J'"},
    {"enter after a paste", "\033[200~a\033[201~\r", 100, "b", false, false,
     false, "p'a'e'^M'k'b'"},
    {"enter long after", "\033[200~a\033[201~", 100, "\r\003", false, false,
     false, "p'a'e'^M'i'^C'"},
    {"quoted interrupt", "\003\032", 0, "", false, true, false, "k'^C'k'^Z'"},
    {"no brackets, fast rows", "a\rb\r", 50, "c\003", false, false, true,
     "k'a'p'^Jb^Jc'"},
    {"no brackets, enter", "a\r", 100, "b", false, false, true,
     "k'a'e'^M'k'b'"},
    {"no brackets, interrupt", "a\r", 50, "\003", false, false, true,
     "k'a'p'^J'i'^C'"},
    {"no brackets, quoted enter", "\r", 0, "", false, true, true, "e'^M'"},
};

static void
test_input_feed_timed(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(timed_rows); i++) {
        const struct timed_row *row = &timed_rows[i];

        /* The loop wakes in time, or too late. */
        for (int ticks = 0; ticks < 2; ticks++) {
            struct scene s;

            begin(&s);
            s.mode = (struct input_mode){.escape_acts = row->escape_acts,
                                         .quoted = row->quoted,
                                         .no_brackets = row->no_brackets};
            feed(&s, row->first, 1000);
            if (ticks > 0)
                input_tick(s.in, 1000 + row->gap_ms);
            feed(&s, row->second, 1000 + row->gap_ms);
            if (strcmp(s.log.data, row->expect_log) != 0)
                fail_msg("%s: %s, expected %s", row->name, s.log.data,
                         row->expect_log);
            end(&s);
        }
    }
}

static void
test_input_deadline_ms(void **state)
{
    static const struct {
        const char *name;
        const char *bytes;
        bool escape_acts;
        bool probing;
        int64_t expect_ms;
    } table[] = {
        {"ground", "a", false, false, -1},
        {"escape", "\033", false, false, -1},
        {"escape acts", "\033", true, false, 1050},
        {"escape acts, probing", "\033", true, true, 1500},
        {"ss3", "\033O", false, false, 1050},
        {"ss3, probing", "\033O", false, true, 1500},
        {"introducer", "\033P", false, false, 1050},
        {"character", "\xC3", false, false, 2000},
        {"csi", "\033[1", false, false, 2000},
        {"string", "\033P>a", false, false, 2000},
        {"paste", "\033[200~a", false, false, 6000},
        {"held enter", "\033[200~a\033[201~\r", false, false, 1100},
        {"probe has ended", "\033[?62c\033", true, true, 1050},
    };

    (void)state;
    for (size_t i = 0; i < LEN(table); i++) {
        struct scene s;

        begin(&s);
        s.mode.escape_acts = table[i].escape_acts;
        if (table[i].probing)
            input_expect_replies(s.in, 900);
        feed(&s, table[i].bytes, 1000);
        if (input_deadline_ms(s.in) != table[i].expect_ms)
            fail_msg("%s: %lld", table[i].name,
                     (long long)input_deadline_ms(s.in));
        end(&s);
    }
}

static void
test_input_feed_paste_stalled(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    feed(&s, "\033[200~a\033[20", 1000);
    input_tick(s.in, 5999);
    assert_string_equal(s.log.data, "");
    input_tick(s.in, 6000);
    assert_string_equal(s.log.data, "p'a[20'");
    assert_true(s.stalled);
    /* An Enter in what follows submits only when nothing more comes. */
    feed(&s, "b\r", 6500);
    input_tick(s.in, 11499);
    assert_string_equal(s.log.data, "p'a[20b'");
    input_tick(s.in, 11500);
    assert_string_equal(s.log.data, "p'a[20b'e'^M'");
    end(&s);
}

static void
test_input_feed_paste_too_long(void **state)
{
    struct scene s;
    size_t len = INPUT_MAX_PASTE_BYTES + 5;
    char *text = xmalloc(len);

    (void)state;
    memset(text, 'x', len);
    begin(&s);
    feed(&s, "\033[200~", 1000);
    input_feed(s.in, text, len, 1000);
    feed(&s, "\033[201~", 1000);
    assert_int_equal(s.n_cut, 5);
    assert_int_equal(s.log.len, INPUT_MAX_PASTE_BYTES + 3);
    feed(&s, "\033[200~y\033[201~", 2000);
    assert_string_equal(s.log.data + s.log.len - 2, "y'");
    assert_int_equal(s.n_cut, 5);
    end(&s);
    free(text);
}

static void
test_input_feed_endless(void **state)
{
    static const char *const starts[] = {"\033[", "\033P>", "\033O"};

    (void)state;
    for (size_t i = 0; i < LEN(starts); i++) {
        struct scene s;

        begin(&s);
        feed(&s, starts[i], 1000);
        for (int n = 0; n < 20000; n++)
            input_feed(s.in, "1", 1, 1000);
        feed(&s, i == 0 ? "A" : "", 1000);
        input_tick(s.in, 3000);
        sbuf_clear(&s.log);
        s.last_kind = 0;
        feed(&s, "b", 3000);
        assert_string_equal(s.log.data, "k'b'");
        end(&s);
    }
}

/* An endless string keeps the keyboard no longer than it comes fast. */
static void
test_input_feed_endless_string_and_keys(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    feed(&s, "\033P>", 1000);
    for (int n = 0; n < 5000; n++)
        input_feed(s.in, "1", 1, 1000);
    feed(&s, "a", 1100);
    assert_string_equal(s.log.data, "k'a'");
    end(&s);
}

/* What the editor says after a unit counts for the next byte. */
static void
quote_after_ctrl_v(void *ctx, const struct input_unit *unit)
{
    struct scene *s = ctx;

    s->mode.quoted = unit->kind == INPUT_KEYS && unit->data[0] == '\026';
    on_unit(ctx, unit);
}

static void
test_input_feed_mode_asked_before_each_byte(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    input_free(s.in);
    s.in = input_new(quote_after_ctrl_v, &s);
    input_set_mode(s.in, &s.mode);
    feed(&s, "ab\026\003\003", 1000);
    assert_string_equal(s.log.data, "k'ab'k'^V'k'^C'i'^C'");
    end(&s);
}

static void
test_input_free_null(void **state)
{
    (void)state;
    input_free(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_feed_whole),
        cmocka_unit_test(test_input_feed_byte_by_byte),
        cmocka_unit_test(test_input_feed_cut_everywhere),
        cmocka_unit_test(test_input_feed_reply_with_gap),
        cmocka_unit_test(test_input_feed_timed),
        cmocka_unit_test(test_input_deadline_ms),
        cmocka_unit_test(test_input_feed_paste_stalled),
        cmocka_unit_test(test_input_feed_paste_too_long),
        cmocka_unit_test(test_input_feed_endless),
        cmocka_unit_test(test_input_feed_endless_string_and_keys),
        cmocka_unit_test(test_input_feed_mode_asked_before_each_byte),
        cmocka_unit_test(test_input_free_null),
    };

    return cmocka_run_group_tests_name("term/input", tests, NULL, NULL);
}
