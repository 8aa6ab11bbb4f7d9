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
#include "base/error.h"
#include "render/sixel_check.h"

#define N(a) (LEN(a))

static uint32_t
next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void
make_picture(struct picture_indexed *p, unsigned width, unsigned height,
             unsigned colours, unsigned run)
{
    uint32_t seed = width * height + colours;
    size_t n = (size_t)width * height;
    size_t i;

    *p = (struct picture_indexed){
        .width = width, .height = height, .n_colours = colours};
    p->pixels = malloc(n);
    assert_non_null(p->pixels);
    for (i = 0; i < sizeof(p->palette); i++)
        p->palette[i] = (uint8_t)next_random(&seed);
    for (i = 0; i < n; i++)
        p->pixels[i] = i > 0 && next_random(&seed) % run != 0
                           ? p->pixels[i - 1]
                           : (uint8_t)(next_random(&seed) % colours);
}

/* What libsixel writes passes the check, and with other limits does not. */
static void
test_encode_passes_the_check(void **state)
{
    static const struct {
        unsigned width, height, colours, run;
    } cases[] = {
        {1, 6, 2, 1},       {1, 20, 2, 1},      {3, 7, 2, 1},
        {255, 20, 2, 1000}, {256, 18, 2, 1000}, {257, 13, 256, 1},
        {300, 40, 256, 3},  {640, 480, 256, 1}, {1000, 600, 16, 50},
        {4096, 8, 3, 9000},
    };
    size_t i;

    (void)state;
    for (i = 0; i < N(cases); i++) {
        struct picture_indexed p;
        struct picture_bytes b = {0};
        struct error err = {0};
        struct sixel_limits limits = {cases[i].width, cases[i].height,
                                      cases[i].colours, cases[i].height};

        make_picture(&p, cases[i].width, cases[i].height, cases[i].colours,
                     cases[i].run);
        assert_int_equal(picture_encode(&p, &b), PICTURE_OK);
        if (sixel_check(b.data, b.len, limits, &err) < 0)
            fail_msg("%ux%u: %s", limits.width, limits.height, err.msg);
        limits.width++;
        assert_int_equal(sixel_check(b.data, b.len, limits, &err), -1);
        limits.width--;
        if (limits.colours > 2) {
            limits.colours--;
            assert_int_equal(sixel_check(b.data, b.len, limits, &err), -1);
        }
        picture_bytes_fini(&b);
        picture_indexed_fini(&p);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_passes_the_check),
    };

    return cmocka_run_group_tests_name("picture_encode", tests, NULL, NULL);
}
