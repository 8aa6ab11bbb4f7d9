/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/sbuf.h"

#define FFFD "\xEF\xBF\xBD"

struct repair_case {
    const char *name;
    const char *text;
    const char *expect_text;
};

/* Broken parts are counted as the Unicode standard counts them (3.9, table
   3-8 and the following). */
static const struct repair_case repair_cases[] = {
    {"ascii", "plain", "plain"},
    {"all lengths", "a\xC2\xA0\xE2\x82\xAC\xF0\x9F\x98\x80",
     "a\xC2\xA0\xE2\x82\xAC\xF0\x9F\x98\x80"},
    {"lone continuation", "a\x80z", "a" FFFD "z"},
    {"never a first byte", "a\xFFz", "a" FFFD "z"},
    {"overlong two", "\xC0\x9Bz", FFFD FFFD "z"},
    {"overlong three", "\xE0\x80\x9Bz", FFFD FFFD FFFD "z"},
    {"overlong four", "\xF0\x8F\xBF\xBFz", FFFD FFFD FFFD FFFD "z"},
    {"surrogate", "\xED\xA0\x80z", FFFD FFFD FFFD "z"},
    {"last before surrogates", "\xED\x9F\xBFz", "\xED\x9F\xBFz"},
    {"above the last", "\xF4\x90\x80\x80z", FFFD FFFD FFFD FFFD "z"},
    {"the last", "\xF4\x8F\xBF\xBFz", "\xF4\x8F\xBF\xBFz"},
    {"cut after two of three", "a\xE2\x82z", "a" FFFD "z"},
    {"cut after three of four", "a\xF0\x9F\x98z", "a" FFFD "z"},
    {"cut at the end", "a\xE2\x82", "a" FFFD},
    {"two cut ones", "\xE2\x82\xE2\x82\xAC", FFFD "\xE2\x82\xAC"},
};

static void
test_add_repaired_broken_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(repair_cases); i++) {
        const struct repair_case *c = &repair_cases[i];
        size_t len = strlen(c->text);
        struct sbuf sb;

        sbuf_init(&sb, 1000);
        utf8_add_repaired(&sb, c->text, len);
        assert_string_equal(sb.data, c->expect_text);
        assert_int_equal(utf8_valid(c->text, len),
                         strcmp(c->text, c->expect_text) == 0);
        sbuf_fini(&sb);
    }
}

static void
test_decode_every_scalar_value(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000u; cp++) {
        char bytes[UTF8_MAX_BYTES];
        size_t n = utf8_encode(cp, bytes);
        uint32_t back;
        bool ok;

        assert_int_equal(utf8_decode(bytes, n, &back, &ok), n);
        assert_true(ok);
        if (cp >= 0xD800u && cp <= 0xDFFFu) {
            assert_int_equal(back, UTF8_REPLACEMENT);
        } else {
            assert_int_equal(back, cp);
        }
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(utf8_pending(bytes, cut), cut);
            assert_int_equal(utf8_floor(bytes, n, cut), 0);
        }
        assert_int_equal(utf8_pending(bytes, n), 0);
        assert_int_equal(utf8_floor(bytes, n, n), n);
    }
}

struct end_case {
    const char *text;
    size_t expect_pending;
};

static const struct end_case end_cases[] = {
    {"", 0},           {"abc", 0},          {"ab\xC3", 1},
    {"ab\xC3\xA9", 0}, {"ab\xE2\x82", 2},   {"ab\xF0\x9F\x98", 3},
    {"ab\x80", 0},     {"\x80\x80\x80", 0}, {"ab\xFF", 0},
    {"ab\xC0", 0},     /* never a beginning */
    {"ab\xE0\x80", 0}, /* overlong: no byte can mend it */
    {"ab\xED\xA0", 0}, /* surrogate */
    {"ab\xF4\x90", 0}, /* too large */
    {"ab\xF4\x8F", 2}, {"\xE2\x82\xE2", 1},
};

static void
test_pending_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(end_cases); i++) {
        assert_int_equal(
            utf8_pending(end_cases[i].text, strlen(end_cases[i].text)),
            end_cases[i].expect_pending);
    }
}

struct floor_case {
    const char *text;
    size_t max;
    size_t expect_len;
};

static const struct floor_case floor_cases[] = {
    {"abc", 2, 2},
    {"abc", 9, 3},
    {"", 0, 0},
    {"a\xE2\x82\xAC"
     "b",
     1, 1},
    {"a\xE2\x82\xAC"
     "b",
     2, 1},
    {"a\xE2\x82\xAC"
     "b",
     3, 1},
    {"a\xE2\x82\xAC"
     "b",
     4, 4},
    {"\x80\x80\x80\x80\x80", 3, 3}, /* each is a broken part of its own */
    {"\xE2\x82zz", 1, 0},           /* the broken part has two bytes */
    {"\xE2\x82zz", 2, 2},
};

static void
test_floor_positions(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(floor_cases); i++) {
        const struct floor_case *c = &floor_cases[i];

        assert_int_equal(utf8_floor(c->text, strlen(c->text), c->max),
                         c->expect_len);
    }
}

struct width_case {
    const char *name;
    uint32_t cp;
    int expect_width;
};

static const struct width_case width_cases[] = {
    {"letter", 'a', 1},
    {"last Latin", 0x2FF, 1},
    {"combining acute", 0x301, 0},
    {"enclosing keycap", 0x20E3, 0},
    {"ambiguous: inverted exclamation mark", 0xA1, 1},
    {"ambiguous: alpha", 0x3B1, 1},
    {"ambiguous: ellipsis", 0x2026, 1},
    {"ambiguous: box drawing", 0x2500, 1},
    {"soft hyphen", 0xAD, 1},
    {"Hangul leading consonant", 0x1100, 2},
    {"Hangul vowel", 0x1161, 0},
    {"Hangul final", 0x11FF, 0},
    {"Hangul syllable", 0xAC00, 2},
    {"non-joiner", 0x200C, 0},
    {"joiner", 0x200D, 0},
    {"text variation", 0xFE0E, 0},
    {"emoji variation", 0xFE0F, 0},
    {"CJK", 0x65E5, 2},
    {"fullwidth A", 0xFF21, 2},
    {"halfwidth katakana", 0xFF71, 1},
    {"ideographic space", 0x3000, 2},
    {"emoji presentation: watch", 0x231A, 2},
    {"text presentation: heart", 0x2764, 1},
    {"emoji", 0x1F600, 2},
    {"skin tone", 0x1F3FD, 2},
    {"regional indicator", 0x1F1E6, 1},
    {"unassigned", 0x378, 1},
    {"unassigned in a wide block", 0x1FAFF, 1},
    {"CJK extension B", 0x20000, 2},
    {"above the planes of CJK", 0x3FFFE, 1},
    {"private use", 0xE000, 1},
    {"replacement", 0xFFFD, 1},
};

static void
test_cp_width_classes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(width_cases); i++) {
        if (utf8_cp_width(width_cases[i].cp) != width_cases[i].expect_width) {
            fail_msg("%s: %d", width_cases[i].name,
                     utf8_cp_width(width_cases[i].cp));
        }
    }
}

static void
test_width_of_text(void **state)
{
    (void)state;
    assert_int_equal(utf8_width("", 0), 0);
    assert_int_equal(utf8_width("Z\xC3\xBCrich", 7), 6);
    assert_int_equal(utf8_width("\xE6\x97\xA5\xE6\x9C\xAC", 6), 4);
    assert_int_equal(utf8_width("e\xCC\x81", 3), 1);
    /* Five broken parts: 80, E2 82, FF, C0, C0. */
    assert_int_equal(utf8_width("\x80\xE2\x82\xFF\xC0\xC0", 6), 5);
}

struct fit_case {
    const char *name;
    const char *text;
    size_t width;
    size_t expect_len;
    size_t expect_used;
};

static const struct fit_case fit_cases[] = {
    {"all", "abc", 5, 3, 3},
    {"exact", "abc", 3, 3, 3},
    {"cut", "abc", 2, 2, 2},
    {"nothing", "abc", 0, 0, 0},
    {"wide does not fit", "a\xE6\x97\xA5", 2, 1, 1},
    {"wide fits", "a\xE6\x97\xA5", 3, 4, 3},
    {"marks stay with their base", "ae\xCC\x81\xCC\x81x", 2, 6, 2},
    {"marks go with their base", "ae\xCC\x81x", 1, 1, 1},
    {"joiner and selector stay", "\xE2\x9D\xA4\xEF\xB8\x8F\xE2\x80\x8Dx", 1, 9,
     1},
    {"marks at the start", "\xCC\x81x", 0, 2, 0},
    {"broken part", "a\xE2\x82z", 2, 3, 2},
    {"decomposed syllable", "\xE1\x84\x80\xE1\x85\xA1\xE1\x84\x80", 2, 6, 2},
};

static void
test_fit_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(fit_cases); i++) {
        const struct fit_case *c = &fit_cases[i];
        size_t used = 99;
        size_t n = utf8_fit(c->text, strlen(c->text), c->width, &used);

        if (n != c->expect_len || used != c->expect_used) {
            fail_msg("%s: %zu bytes, %zu columns", c->name, n, used);
        }
    }
}

static void
test_properties(void **state)
{
    (void)state;
    assert_true(utf8_is_space('\n') && utf8_is_space(0xA0));
    assert_true(utf8_is_space(0x1C) && utf8_is_space(0x3000));
    assert_false(utf8_is_space('a') || utf8_is_space(0xFEFF));
    assert_true(utf8_is_combining(0x301));
    assert_true(utf8_is_combining(0x20E3));
    assert_true(utf8_is_combining(0xE0100));
    assert_false(utf8_is_combining('a'));
    assert_false(utf8_is_combining(0x903)); /* Mc: has a width */
    assert_false(utf8_is_combining(0x200D));

    assert_true(utf8_is_assigned('a'));
    assert_true(utf8_is_assigned(0));
    assert_true(utf8_is_assigned(0xE000));
    assert_true(utf8_is_assigned(0x10FFFD));
    assert_true(utf8_is_assigned(0x4E00));
    assert_false(utf8_is_assigned(0x378));
    assert_false(utf8_is_assigned(0xFFFE));
    assert_false(utf8_is_assigned(0xD800));
    assert_false(utf8_is_assigned(0x10FFFF));
    assert_false(utf8_is_assigned(0x1FAE8)); /* since Unicode 15 */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_repaired_broken_parts),
        cmocka_unit_test(test_decode_every_scalar_value),
        cmocka_unit_test(test_pending_ends),
        cmocka_unit_test(test_floor_positions),
        cmocka_unit_test(test_cp_width_classes),
        cmocka_unit_test(test_width_of_text),
        cmocka_unit_test(test_fit_cases),
        cmocka_unit_test(test_properties),
    };

    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
