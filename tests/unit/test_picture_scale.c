/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

#define N(a) (LEN(a))

static const struct picture_rgb white = {255, 255, 255};
static const struct picture_rgb blue = {0, 0, 255};

static void
test_fit_sizes(void **state)
{
    static const struct {
        uint32_t width, height;
        uint32_t max_width, max_height, cell;
        uint32_t expect_width, expect_height, expect_padded;
        enum picture_reason expect;
    } cases[] = {
        /* never enlarged, only padded */
        {640, 480, 1000, 1000, 20, 640, 480, 480, PICTURE_OK},
        {640, 481, 1000, 1000, 20, 640, 481, 500, PICTURE_OK},
        {1, 1, 1000, 1000, 20, 1, 1, 20, PICTURE_OK},
        {30, 5, 1000, 1000, 6, 30, 5, 6, PICTURE_OK},
        {30, 3, 1000, 1000, 4, 30, 3, 8, PICTURE_OK},
        {30, 3, 1000, 1000, 1, 30, 3, 6, PICTURE_OK},
        /* by width, by height, by both */
        {2000, 1000, 1000, 1000, 20, 1000, 500, 500, PICTURE_OK},
        {1000, 2000, 1000, 1000, 20, 500, 1000, 1000, PICTURE_OK},
        {2000, 2000, 800, 800, 20, 800, 800, 800, PICTURE_OK},
        {4096, 1, 100, 100, 20, 100, 1, 20, PICTURE_OK},
        {1, 4096, 100, 100, 20, 1, 100, 100, PICTURE_OK},
        /* the limit is cut to whole cells */
        {100, 100, 1000, 99, 20, 80, 80, 80, PICTURE_OK},
        {100, 100, 1000, 19, 19, 19, 19, 19, PICTURE_OK},
        {100, 100, 1000, 19, 20, 0, 0, 0, PICTURE_INTERNAL},
        {100, 100, 1000, 5, 5, 0, 0, 0, PICTURE_INTERNAL},
        {4096, 2047, 4096, 4096, 20, 0, 0, 0, PICTURE_TOO_LARGE},
    };
    size_t i;

    (void)state;
    for (i = 0; i < N(cases); i++) {
        struct picture_options o = {.max_width_px = cases[i].max_width,
                                    .max_height_px = cases[i].max_height,
                                    .cell_height_px = cases[i].cell};
        struct picture_layout l = {0};

        assert_int_equal(picture_fit(&o, cases[i].width, cases[i].height, &l),
                         cases[i].expect);
        assert_int_equal(l.width, cases[i].expect_width);
        assert_int_equal(l.height, cases[i].expect_height);
        assert_int_equal(l.padded_height, cases[i].expect_padded);
    }
}

/* Every size fits, keeps its proportions and does not grow. */
static void
test_fit_property(void **state)
{
    struct picture_options o = {
        .max_width_px = 333, .max_height_px = 217, .cell_height_px = 13};
    uint32_t width, height;

    (void)state;
    for (width = 1; width < 2000; width += 37) {
        for (height = 1; height < 2000; height += 41) {
            struct picture_layout l = {0};

            assert_int_equal(picture_fit(&o, width, height, &l), PICTURE_OK);
            assert_in_range(l.width, 1, width < 333 ? width : 333);
            assert_in_range(l.height, 1, height < 208 ? height : 208);
            assert_in_range(l.padded_height, l.height, l.height + 12);
            assert_int_equal(l.padded_height % 13, 0);
            /* Within half a pixel of the exact proportion. */
            if (l.width > 1 && l.height > 1) {
                long cross = labs((long)l.width * (long)height -
                                  (long)l.height * (long)width);

                assert_true(2 * cross <=
                            (long)(width > height ? width : height));
            }
        }
    }
}

static void
test_fit_side(void **state)
{
    static const struct {
        uint32_t side, width, height, expect_width, expect_height;
    } cases[] = {
        {100, 100, 50, 100, 50},        {100, 101, 50, 100, 50},
        {100, 200, 199, 100, 100},      {100, 50, 200, 25, 100},
        {100, 4096, 1, 100, 1},         {1, 4096, 2048, 1, 1},
        {4096, 4096, 4096, 4096, 4096}, {1568, 3000, 2000, 1568, 1045},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct picture_layout l = {0};

        picture_fit_side(cases[i].side, cases[i].width, cases[i].height, &l);
        assert_int_equal(l.width, cases[i].expect_width);
        assert_int_equal(l.height, cases[i].expect_height);
        assert_int_equal(l.padded_height, l.height);
    }
}

static void
test_scale_averages(void **state)
{
    uint8_t in[] = {0,  10, 20, 100, 110, 120, 255, 255, 255,
                    50, 60, 70, 150, 160, 170, 255, 255, 255};
    struct picture source = {3, 2, in};
    struct picture_layout to_one = {1, 1, 1};
    struct picture_layout to_two = {2, 1, 3};
    struct picture out = {0};

    (void)state;
    /* (0 + 100 + 255 + 50 + 150 + 255) / 6 */
    assert_int_equal(picture_scale(&source, &to_one, white, &out), PICTURE_OK);
    assert_int_equal(out.rgb[0], 135);
    assert_int_equal(out.rgb[1], (10 + 110 + 255 + 60 + 160 + 255 + 3) / 6);
    picture_fini(&out);

    /* One and a half source pixels each, and two rows of background. */
    assert_int_equal(picture_scale(&source, &to_two, blue, &out), PICTURE_OK);
    assert_int_equal(out.width, 2);
    assert_int_equal(out.height, 3);
    /* ((0 + 50) + (100 + 150) / 2) / 3 */
    assert_int_equal(out.rgb[0], 58);
    /* ((255 + 255) + (100 + 150) / 2) / 3 */
    assert_int_equal(out.rgb[3], 212);
    assert_memory_equal(out.rgb + 6, "\0\0\377\0\0\377\0\0\377\0\0\377", 12);
    picture_fini(&out);
}

/* Flat areas keep their value at every ratio: weights add up exactly. */
static void
test_scale_keeps_flat_areas(void **state)
{
    static const uint8_t values[] = {0, 1, 127, 254, 255};
    enum { WIDTH = 97, HEIGHT = 61 };
    static uint8_t in[3 * WIDTH * HEIGHT];
    struct picture source = {WIDTH, HEIGHT, in};
    uint32_t width, height;
    size_t i, k;

    (void)state;
    for (i = 0; i < N(values); i++) {
        memset(in, values[i], sizeof(in));
        for (width = 1; width <= WIDTH; width += 8) {
            for (height = 1; height <= HEIGHT; height += 6) {
                struct picture_layout l = {width, height, height};
                struct picture out = {0};

                assert_int_equal(picture_scale(&source, &l, white, &out),
                                 PICTURE_OK);
                for (k = 0; k < (size_t)3 * width * height; k++)
                    assert_int_equal(out.rgb[k], values[i]);
                picture_fini(&out);
            }
        }
    }
}

static void
test_scale_copies_equal_size(void **state)
{
    uint8_t in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const uint8_t want[] = {1,  2,  3,  4,   5,   6,   7,   8,   9,
                                   10, 11, 12, 255, 255, 255, 255, 255, 255};
    struct picture source = {2, 2, in};
    struct picture_layout l = {2, 2, 3};
    struct picture out = {0};

    (void)state;
    assert_int_equal(picture_scale(&source, &l, white, &out), PICTURE_OK);
    assert_memory_equal(out.rgb, want, sizeof(want));
    picture_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit_sizes),
        cmocka_unit_test(test_fit_property),
        cmocka_unit_test(test_fit_side),
        cmocka_unit_test(test_scale_averages),
        cmocka_unit_test(test_scale_keeps_flat_areas),
        cmocka_unit_test(test_scale_copies_equal_size),
    };

    return cmocka_run_group_tests_name("picture_scale", tests, NULL, NULL);
}
