/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/sixel_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"

#define N(a) (LEN(a))

/* 12x12 pixels in 16 colours at most, of two bands. */
#define INTRO "\033Pq\"1;1;12;12"
#define COLOURS "#0;2;100;100;100#1;2;0;0;0#2;2;12;47;71"
#define END "\033\\"
#define HEAD INTRO COLOURS

static const struct sixel_limits limits = {12, 12, 16, 6};

struct check_case {
    const char *name;
    const char *data;
    bool expect_ok;
};

static const struct check_case cases[] = {
    {"plain", HEAD "#0!12~$#1!12?-#2~~~!9~" END, true},
    {"no pixels", HEAD END, true},
    {"colours only selected once", HEAD "#0~~~" END, true},
    {"restart of the line", HEAD "#0!12~$#1!12~$#2!12~" END, true},
    {"all columns one by one", HEAD "#0~~~~~~~~~~~~" END, true},
    {"highest register", INTRO "#15;2;0;0;0#15~" END, true},

    {"nothing", "", false},
    {"no end", HEAD "#0!12~", false},
    {"half an end", HEAD "#0!12~\033", false},
    {"end of another kind", HEAD "#0!12~\007", false},
    {"8-bit end", HEAD "#0!12~\234", false},
    {"text behind the end", HEAD "#0!12~" END "x", false},
    {"line feed behind the end", HEAD "#0!12~" END "\n", false},
    {"second picture", HEAD END HEAD END, false},
    {"text before", "x" HEAD END, false},
    {"8-bit start", "\220q\"1;1;12;12" COLOURS END, false},
    {"parameters of the start", "\033P0;1q\"1;1;12;12" COLOURS END, false},
    {"another control string", "\033]0;title\033\\", false},
    {"another device string", "\033P$q\"1;1;12;12" COLOURS END, false},
    {"no size", "\033Pq" COLOURS "#0~" END, false},
    {"wrong width", "\033Pq\"1;1;13;12" COLOURS END, false},
    {"wrong height", "\033Pq\"1;1;12;18" COLOURS END, false},
    {"longer height", "\033Pq\"1;1;12;120" COLOURS END, false},
    {"wrong aspect", "\033Pq\"2;1;12;12" COLOURS END, false},
    {"second size", HEAD "\"1;1;12;12" END, false},
    {"escape sequence inside", HEAD "#0~\033[2J~" END, false},
    {"escape at the start of a colour", HEAD "#\033\\", false},
    {"line feed inside", HEAD "#0~\n~" END, false},
    {"space", INTRO "#0;2;1;1;1 ~" END, false},
    {"bell", HEAD "#0~\007" END, false},
    {"CAN", HEAD "#0~\030" END, false},
    {"DEL", HEAD "#0~\177" END, false},
    {"high byte", HEAD "#0~\302\233" END, false},
    {"below the data", HEAD "#0>" END, false},
    {"three bands", HEAD "#0~-~-~" END, false},
    {"line feeds", HEAD "--" END, false},
    {"wide line", HEAD "#0!13~" END, false},
    {"wide line in pieces", HEAD "#0!6~!6~~" END, false},
    {"wide line across colours", HEAD "#0!6~#1!7~" END, false},
    {"wide line of nothing", HEAD "#0!13?" END, false},
    {"repeat zero", HEAD "#0!0~" END, false},
    {"repeat without number", HEAD "#0!~" END, false},
    {"repeat of a line feed", HEAD "#0!2-" END, false},
    {"repeat of a colour", HEAD "!2#0~" END, false},
    {"repeat of the end", HEAD "#0!2" END, false},
    {"repeat overflow", HEAD "#0!4294967297~" END, false},
    {"repeat with a sign", HEAD "#0!-1~" END, false},
    {"register too high", INTRO "#16;2;0;0;0" END, false},
    {"register overflow", INTRO "#4294967296;2;0;0;0" END, false},
    {"register is not defined", HEAD "#3~" END, false},
    {"percent", INTRO "#0;2;101;0;0" END, false},
    {"hue", INTRO "#0;1;100;50;50" END, false},
    {"four values", INTRO "#0;2;0;0#0~" END, false},
    {"six values", INTRO "#0;2;0;0;0;0#0~" END, false},
    {"empty value", INTRO "#0;2;;0;0#0~" END, false},
    {"empty register", INTRO "#~" END, false},
    {"defined twice", INTRO "#0;2;0;0;0#0;2;1;1;1" END, false},
    {"defined late", HEAD "#0~#4;2;0;0;0~" END, false},
    {"digits", HEAD "12" END, false},
    {"semicolon", HEAD ";" END, false},
};

static int
check_in_pieces(const char *data, size_t len, size_t cut, size_t step)
{
    struct sixel_check_state s;
    struct error err = {0};
    size_t at = cut;

    if (sixel_check_begin(&s, limits, &err) < 0 ||
        sixel_check_feed(&s, data, cut, &err) < 0)
        return -1;
    while (at < len) {
        size_t n = len - at < step ? len - at : step;

        if (sixel_check_feed(&s, data + at, n, &err) < 0)
            return -1;
        at += n;
    }
    return sixel_check_end(&s, &err);
}

static void
test_check_cases(void **state)
{
    size_t i, cut;

    (void)state;
    for (i = 0; i < N(cases); i++) {
        size_t len = strlen(cases[i].data);
        int want = cases[i].expect_ok ? 0 : -1;
        struct error err = {0};
        int got = sixel_check(cases[i].data, len, limits, &err);

        if (got != want)
            fail_msg("%s: %d (%s)", cases[i].name, got, err.msg);
        assert_int_equal(err.code, want == 0 ? ERR_NONE : ERR_PROTOCOL);
        assert_int_equal(check_in_pieces(cases[i].data, len, 0, 1), want);
        for (cut = 0; cut <= len; cut++)
            assert_int_equal(check_in_pieces(cases[i].data, len, cut, len),
                             want);
    }
}

static void
test_check_refuses_nul(void **state)
{
    static const char data[] = HEAD "#0~\0~" END;
    struct error err = {0};

    (void)state;
    assert_int_equal(sixel_check(data, sizeof(data) - 1, limits, &err), -1);
}

static void
test_check_last_band(void **state)
{
    /* 20 rows: the last band has two. */
    static const struct sixel_limits twenty = {4, 20, 2, 20};
    static const struct {
        const char *data;
        int expect;
    } rows[] = {
        {"\033Pq\"1;1;4;20#0;2;0;0;0#0~-~-~-B" END, 0},
        {"\033Pq\"1;1;4;20#0;2;0;0;0#0~-~-~-C" END, -1},
        {"\033Pq\"1;1;4;20#0;2;0;0;0#0~-~-~-!4~" END, -1},
        {"\033Pq\"1;1;4;20#0;2;0;0;0#0~-~-~-B-" END, -1},
    };
    struct error err = {0};
    size_t i;

    (void)state;
    for (i = 0; i < N(rows); i++)
        assert_int_equal(
            sixel_check(rows[i].data, strlen(rows[i].data), twenty, &err),
            rows[i].expect);
}

static void
test_begin_limits(void **state)
{
    static const struct {
        struct sixel_limits limits;
        int expect;
    } rows[] = {
        {{12, 12, 16, 6}, 0},
        {{4096, 2048, 256, 1}, 0},
        {{0, 12, 16, 6}, -1},
        {{12, 0, 16, 6}, -1},
        {{4097, 6, 16, 6}, -1},
        {{6, 4098, 16, 6}, -1},
        {{4096, 2049, 2, 1}, -1},
        {{12, 12, 0, 6}, -1},
        {{12, 12, 257, 6}, -1},
        {{12, 12, 16, 0}, -1},
        {{12, 13, 16, 6}, -1},
        {{12, 12, 16, 24}, -1},
        {{0x10000, 0x10000, 16, 1}, -1},
    };
    struct sixel_check_state s;
    struct error err = {0};
    size_t i;

    (void)state;
    for (i = 0; i < N(rows); i++)
        assert_int_equal(sixel_check_begin(&s, rows[i].limits, &err),
                         rows[i].expect);
}

static void
test_feed_stays_refused(void **state)
{
    struct sixel_check_state s;
    struct error err = {0};

    (void)state;
    assert_int_equal(sixel_check_begin(&s, limits, &err), 0);
    assert_int_equal(sixel_check_feed(&s, "x", 1, &err), -1);
    assert_int_equal(sixel_check_feed(&s, HEAD END, strlen(HEAD END), &err),
                     -1);
    assert_int_equal(sixel_check_end(&s, &err), -1);
}

/* A generator of its own, so that a failure can be repeated. */
static uint32_t
next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool
is_sixel_byte(char c)
{
    return (c >= 0x3f && c <= 0x7e) || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("#!$-;\"", c) != NULL);
}

static void
test_check_mutations(void **state)
{
    static const char body[] = HEAD "#0!12~$#1!12?-#2~~~!9~$#0@@!3A?" END;
    uint32_t seed = 1;
    size_t n_accepted = 0;
    size_t round, i;

    (void)state;
    for (round = 0; round < 200000; round++) {
        char data[sizeof(body)];
        size_t len = sizeof(body) - 1;
        size_t n = 1 + next_random(&seed) % 3;
        struct error err = {0};

        memcpy(data, body, sizeof(body));
        while (n-- > 0)
            data[next_random(&seed) % len] = (char)next_random(&seed);
        if (sixel_check(data, len, limits, &err) < 0)
            continue;
        n_accepted++;
        assert_memory_equal(data, INTRO, strlen(INTRO));
        assert_memory_equal(data + len - 2, END, 2);
        for (i = 3; i < len - 2; i++)
            assert_true(is_sixel_byte(data[i]));
    }
    /* The property is empty if nothing passes. */
    assert_true(n_accepted > 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_cases),
        cmocka_unit_test(test_check_refuses_nul),
        cmocka_unit_test(test_check_last_band),
        cmocka_unit_test(test_begin_limits),
        cmocka_unit_test(test_feed_stays_refused),
        cmocka_unit_test(test_check_mutations),
    };

    return cmocka_run_group_tests_name("sixel_check", tests, NULL, NULL);
}
