/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/caps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"

struct reply_case {
    const char *name;
    const char *replies[4];
    struct caps expect;
};

/* The first rows are what real terminals say. */
static const struct reply_case reply_cases[] = {
    {"xterm as a VT340",
     {"\033P>|XTerm(379)\033\\", "\033[?1;0;1024S", "\033[?2;0;1000;1000S",
      "\033[?63;1;2;4;6;9;15;16;22;28c"},
     {.answered = true,
      .sixel = true,
      .registers = 1024,
      .max_width_px = 1000,
      .max_height_px = 1000,
      .name = "XTerm(379)"}},
    {"xterm: level 64 is no attribute",
     {"\033[?64;1;2;6;9;15;16;17;18;21;22;28c", "\033[?1;3;0S"},
     {.answered = true}},
    {"foot",
     {"\033[?62;4;22c", "\033[6;15;7t", "\033[4;690;1274t"},
     {.answered = true,
      .sixel = true,
      .cell_width_px = 7,
      .cell_height_px = 15,
      .text_width_px = 1274,
      .text_height_px = 690}},
    {"kitty",
     {"\033_Gi=31;OK\033\\", "\033[?62;c"},
     {.answered = true, .kitty = true}},
    {"kitty ended by BEL", {"\033_Gi=31;OK\a"}, {.kitty = true}},
    {"iTerm2 without a number", {"\033_GOK\033\\"}, {.kitty = true}},
    {"no kitty", {"\033_Gi=31;ENOTSUP:OK\033\\"}, {.kitty = false}},
    {"Ghostty: 22 is not 4", {"\033[?62;22c"}, {.answered = true}},
    {"tmux", {"\033[?1;2;4c"}, {.answered = true, .sixel = true}},
    {"tmux without", {"\033[?1;2c"}, {.answered = true}},
    {"Linux console", {"\033[?6c"}, {.answered = true}},
    {"a level of 4", {"\033[?4c"}, {.answered = true}},
    {"a level of 4 with others", {"\033[?4;6c"}, {.answered = true}},
    {"mlterm: another item is answered",
     {"\033[?1;0;1024S", "\033[?1;3;0S"},
     {.registers = 1024}},
    {"an item that failed", {"\033[?2;3;1000;1000S"}, {0}},
    {"half a size", {"\033[?2;0;1000S", "\033[6;15t", "\033[4;690;0t"}, {0}},
    {"a size of nothing", {"\033[6;0;0t", "\033[?2;0;0;0S"}, {0}},
    {"overflow",
     {"\033[?1;0;99999999999999999999S", "\033[6;4294967297;7t",
      "\033[?2;0;2147483648;1000S", "\033[?62;18446744073709551620c"},
     {.answered = true}},
    {"many registers", {"\033[?1;0;1000000S"}, {.registers = 65536}},
    {"one register is none", {"\033[?1;0;1S"}, {0}},
    {"not numbers", {"\033[?62;4:1c", "\033[?-4;4c", "\033[?62;4 c"}, {0}},
    {"other replies",
     {"\033[>41;379;0c", "\033[?80;2$y", "\033[3;4R",
      "\033]11;rgb:ffff/ffff/ffff\a"},
     {0}},
    {"DA1 without its mark", {"\033[62;4c"}, {0}},
    {"cut off", {"\033", "\033[", "\033[?", "\033P>"}, {0}},
    {"a name that lies",
     {"\033P>|a\033[31m\xC2\x9B"
      "b\x7F\033\\"},
     {.name = "a[31mb"}},
    {"a long name",
     {"\033P>|0123456789012345678901234567890123456789012345678901234567890123"
      "456789\033\\"},
     {.name = "01234567890123456789012345678901234567890123456789012345678901"
              "2"}},
};

static void
take_exactly(struct caps *caps, const char *reply)
{
    size_t len = strlen(reply);
    char *copy = xmemdup(reply, len);

    caps_take(caps, copy, len);
    free(copy);
}

static void
test_take(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(reply_cases); i++) {
        const struct reply_case *c = &reply_cases[i];
        const struct caps *e = &c->expect;
        struct caps caps = {0};

        for (size_t k = 0; k < 4 && c->replies[k] != NULL; k++)
            take_exactly(&caps, c->replies[k]);
        if (caps.answered != e->answered || caps.sixel != e->sixel ||
            caps.kitty != e->kitty || caps.registers != e->registers ||
            caps.max_width_px != e->max_width_px ||
            caps.max_height_px != e->max_height_px ||
            caps.cell_width_px != e->cell_width_px ||
            caps.cell_height_px != e->cell_height_px ||
            caps.text_width_px != e->text_width_px ||
            caps.text_height_px != e->text_height_px ||
            strcmp(caps.name, e->name) != 0)
            fail_msg("%s (name \"%s\", registers %d)", c->name, caps.name,
                     caps.registers);
    }
}

static void
test_add_queries_by_terminal(void **state)
{
    static const struct {
        const char *term;
        bool kitty;
    } cases[] = {
        {"xterm-256color", true},
        {"tmux-256color", true},
        {"linux", false},
        {"screen", false},
        {"screen-256color", false},
        {"linux-m", true},
        {NULL, true},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct sbuf sb;

        sbuf_init(&sb, 1000);
        caps_add_queries(&sb, cases[i].term);
        assert_int_equal(strstr(sb.data, "\033_G") != NULL, cases[i].kitty);
        assert_non_null(strstr(sb.data, "\033[>0q\033[?1;1;0S\033[?2;4;0S"
                                        "\033[16t\033[14t\033[c"));
        /* The answer to the last one says that no more will come. */
        assert_string_equal(sb.data + sb.len - 3, "\033[c");
        sbuf_fini(&sb);
    }
}

static void
test_cell_size_by_what_is_known(void **state)
{
    static const struct {
        const char *name;
        struct caps caps;
        int size[4];
        int width;
        int height;
    } cases[] = {
        {"its own answer",
         {.cell_width_px = 7, .cell_height_px = 15},
         {80, 24, 800, 480},
         7,
         15},
        {"the window, with a border", {0}, {120, 50, 724, 654}, 6, 13},
        {"the text area",
         {.text_width_px = 1274, .text_height_px = 690},
         {182, 46, 0, 0},
         7,
         15},
        {"nothing", {0}, {80, 24, 0, 0}, 10, 20},
        {"no size", {0}, {0, 0, 800, 480}, 10, 20},
        {"half", {.cell_width_px = 7}, {80, 24, 0, 480}, 10, 20},
        {"negative", {0}, {80, 24, -800, -480}, 10, 20},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        int width = 0;
        int height = 0;

        caps_cell_size(&cases[i].caps, cases[i].size[0], cases[i].size[1],
                       cases[i].size[2], cases[i].size[3], &width, &height);
        if (width != cases[i].width || height != cases[i].height)
            fail_msg("%s: %d x %d", cases[i].name, width, height);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_add_queries_by_terminal),
        cmocka_unit_test(test_cell_size_by_what_is_known),
    };

    return cmocka_run_group_tests_name("caps", tests, NULL, NULL);
}
