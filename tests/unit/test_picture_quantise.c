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
static const struct picture_rgb dark = {30, 31, 32};

static uint32_t
next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct picture
new_picture(uint32_t width, uint32_t height)
{
    struct picture p = {width, height, calloc((size_t)width * height, 3)};

    assert_non_null(p.rgb);
    return p;
}

static void
set_pixel(struct picture *p, size_t i, unsigned r, unsigned g, unsigned b)
{
    p->rgb[3 * i] = (uint8_t)r;
    p->rgb[3 * i + 1] = (uint8_t)g;
    p->rgb[3 * i + 2] = (uint8_t)b;
}

static const uint8_t *
colour_at(const struct picture_indexed *p, size_t i)
{
    assert_true(p->pixels[i] < p->n_colours);
    return &p->palette[3 * (size_t)p->pixels[i]];
}

/* The mean of the squared difference of all values. */
static double
mean_error(const struct picture *in, const struct picture_indexed *out)
{
    size_t n = (size_t)in->width * in->height;
    double sum = 0;
    size_t i, k;

    for (i = 0; i < n; i++)
        for (k = 0; k < 3; k++) {
            double d = (double)in->rgb[3 * i + k] - colour_at(out, i)[k];

            sum += d * d;
        }
    return sum / (double)(3 * n);
}

static void
test_quantise_few_colours_are_exact(void **state)
{
    static const unsigned counts[] = {1, 2, 3, 16, 255, 256};
    size_t i, k;

    (void)state;
    for (i = 0; i < N(counts); i++) {
        struct picture in = new_picture(64, 64);
        struct picture_indexed out = {0};
        unsigned max = counts[i] < 2 ? 2 : counts[i];

        for (k = 0; k < 64 * 64; k++)
            set_pixel(&in, k, (unsigned)(k % counts[i]),
                      (unsigned)(k % counts[i]) * 37 & 255, 9);
        assert_int_equal(picture_quantise(&in, max, white, &out), PICTURE_OK);
        assert_int_equal(out.n_colours, max);
        for (k = 0; k < 64 * 64; k++)
            assert_memory_equal(colour_at(&out, k), in.rgb + 3 * k, 3);
        picture_indexed_fini(&out);
        picture_fini(&in);
    }
}

/* A smooth area beside a white one, with few colours: the worst case. */
static void
test_quantise_keeps_white_and_background(void **state)
{
    static const unsigned counts[] = {2, 3, 4, 16, 64, 256};
    size_t i, k;

    (void)state;
    for (i = 0; i < N(counts); i++) {
        struct picture in = new_picture(200, 100);
        struct picture_indexed out = {0};

        for (k = 0; k < 200 * 100; k++)
            set_pixel(&in, k, 254 - k % 97, 254 - k % 89, 254 - k % 13);
        for (k = 0; k < 5000; k++)
            set_pixel(&in, k, 255, 255, 255);
        for (k = 5000; k < 5400; k++)
            set_pixel(&in, k, dark.r, dark.g, dark.b);
        assert_int_equal(picture_quantise(&in, counts[i], dark, &out),
                         PICTURE_OK);
        assert_in_range(out.n_colours, 2, counts[i]);
        for (k = 0; k < 5000; k++)
            assert_memory_equal(colour_at(&out, k), "\377\377\377", 3);
        /* With two entries white has one and the rest the other. */
        for (k = 5000; k < 5400 && counts[i] > 2; k++)
            assert_memory_equal(colour_at(&out, k), &dark, 3);
        picture_indexed_fini(&out);
        picture_fini(&in);
    }
}

/* With sixteen, one round instead of three is above. */
static void
test_quantise_error_is_small(void **state)
{
    static const struct {
        unsigned colours;
        double max_error;
    } cases[] = {{16, 202}, {64, 52}, {256, 13}};
    struct picture in = new_picture(256, 256);
    size_t i, k;
    double before = 1e9;

    (void)state;
    for (k = 0; k < 256 * 256; k++)
        set_pixel(&in, k, k & 255, (k & 255) * (k >> 8) >> 8,
                  (k >> 8) * (k >> 8) >> 9);
    for (i = 0; i < N(cases); i++) {
        struct picture_indexed out = {0};
        double error;

        assert_int_equal(picture_quantise(&in, cases[i].colours, white, &out),
                         PICTURE_OK);
        assert_int_equal(out.n_colours, cases[i].colours);
        error = mean_error(&in, &out);
        assert_true(error < cases[i].max_error && error < before);
        before = error;
        picture_indexed_fini(&out);
    }
    picture_fini(&in);
}

/* Each pixel has the entry that is nearest to it. */
static void
test_quantise_maps_to_the_nearest(void **state)
{
    struct picture in = new_picture(64, 64);
    struct picture_indexed out = {0};
    uint32_t seed = 7;
    size_t i, k;

    (void)state;
    for (i = 0; i < 64 * 64; i++)
        set_pixel(&in, i, next_random(&seed) & 255, next_random(&seed) & 255,
                  next_random(&seed) & 63);
    assert_int_equal(picture_quantise(&in, 32, white, &out), PICTURE_OK);
    for (i = 0; i < 64 * 64; i++) {
        int got = 0, best = 1 << 30;
        unsigned e;

        for (e = 0; e < out.n_colours; e++) {
            int d = 0;

            for (k = 0; k < 3; k++) {
                int one = in.rgb[3 * i + k] - out.palette[3 * e + k];

                d += one * one;
            }
            if (e == out.pixels[i])
                got = d;
            if (d < best)
                best = d;
        }
        assert_int_equal(got, best);
    }
    picture_indexed_fini(&out);
    picture_fini(&in);
}

/* More different colours than are counted: told apart less finely. */
static void
test_quantise_very_many_colours(void **state)
{
    struct picture in = new_picture(1024, 600);
    struct picture_indexed out = {0};
    uint32_t seed = 3;
    size_t i;

    (void)state;
    for (i = 0; i < 1024 * 600; i++) {
        uint32_t v = next_random(&seed);

        set_pixel(&in, i, v & 255, v >> 8 & 255, v >> 16 & 255);
    }
    for (i = 0; i < 1024 * 60; i++)
        set_pixel(&in, i, 255, 255, 255);
    assert_int_equal(picture_quantise(&in, 256, white, &out), PICTURE_OK);
    assert_int_equal(out.n_colours, 256);
    for (i = 0; i < 1024 * 60; i++)
        assert_memory_equal(colour_at(&out, i), "\377\377\377", 3);
    assert_true(mean_error(&in, &out) < 600);
    picture_indexed_fini(&out);
    picture_fini(&in);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantise_few_colours_are_exact),
        cmocka_unit_test(test_quantise_keeps_white_and_background),
        cmocka_unit_test(test_quantise_error_is_small),
        cmocka_unit_test(test_quantise_maps_to_the_nearest),
        cmocka_unit_test(test_quantise_very_many_colours),
    };

    return cmocka_run_group_tests_name("picture_quantise", tests, NULL, NULL);
}
