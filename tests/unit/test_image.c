/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * With the real picture program, whose path is in SANDPIPER_PICTURE, and with
 * scripts that misbehave in its place.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/image.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "model/output.h"

#define MAX_SIXEL_BYTES (32u << 20)

/* 40 x 30 pixels, the left half red, the right half white. */
static const unsigned char png[] = {
    0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00, 0x00, 0x00, 0x0D,
    0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x28, 0x00, 0x00, 0x00, 0x1E,
    0x08, 0x02, 0x00, 0x00, 0x00, 0xD1, 0xBF, 0xCB, 0x8A, 0x00, 0x00, 0x00,
    0x2B, 0x49, 0x44, 0x41, 0x54, 0x78, 0xDA, 0xED, 0xCD, 0xB1, 0x0D, 0x00,
    0x30, 0x08, 0xC0, 0xB0, 0xFC, 0xFF, 0x34, 0xFD, 0x01, 0x96, 0x0E, 0x8E,
    0xB2, 0xBB, 0xA9, 0xFD, 0x87, 0x02, 0x83, 0xC1, 0x60, 0x30, 0x18, 0x0C,
    0x06, 0x83, 0xC1, 0x60, 0xF0, 0xBF, 0xF0, 0x03, 0x52, 0x17, 0x57, 0x28,
    0xCB, 0x61, 0x20, 0x2B, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4E, 0x44,
    0xAE, 0x42, 0x60, 0x82};

static const struct image_options usual = {
    .max_width_px = 400,
    .max_height_px = 300,
    .cell_height_px = 20,
    .colours = 256,
    .background_rgb = 0xFFFFFF,
};

struct result {
    struct loop *loop;
    struct image *image;
    unsigned n_calls;
    bool inside; /* image_render has not returned */
    bool drawn;
    struct sbuf sixel;
    struct error err;
};

static void
on_image(void *ctx, const struct sbuf *sixel, const struct error *err)
{
    struct result *r = ctx;

    assert_false(r->inside);
    assert_true((sixel == NULL) != (err == NULL));
    r->n_calls++;
    r->drawn = sixel != NULL;
    if (sixel != NULL)
        sbuf_add(&r->sixel, sixel->data, sixel->len);
    else
        r->err = *err;
}

static void
begin(struct result *r)
{
    struct error err = {0};

    memset(r, 0, sizeof(*r));
    sbuf_init(&r->sixel, MAX_SIXEL_BYTES);
    r->loop = loop_new(&err);
    assert_non_null(r->loop);
}

static void
render(struct result *r, const char *helper, const void *data, size_t len,
       const struct image_options *options)
{
    struct image_options o = *options;

    o.helper = helper;
    r->inside = true;
    r->image = image_render(r->loop, data, len, &o, on_image, r, &r->err);
    r->inside = false;
}

static void
end(struct result *r)
{
    loop_free(r->loop);
    sbuf_fini(&r->sixel);
}

static const char *
real_helper(void)
{
    const char *path = getenv("SANDPIPER_PICTURE");

    if (path == NULL)
        fail_msg("SANDPIPER_PICTURE is not set");
    return path;
}

static void
test_render_draws(void **state)
{
    struct result r;

    (void)state;
    begin(&r);
    render(&r, real_helper(), png, sizeof(png), &usual);
    assert_non_null(r.image);
    loop_run(r.loop);
    if (!r.drawn)
        fail_msg("%s", r.err.msg);
    assert_int_equal(r.n_calls, 1);
    /* The height is filled up to whole cells. */
    assert_memory_equal(r.sixel.data, "\033P", 2);
    assert_non_null(strstr(r.sixel.data, "\"1;1;40;40"));
    assert_non_null(strstr(r.sixel.data, ";2;100;0;0"));
    assert_string_equal(r.sixel.data + r.sixel.len - 2, "\033\\");
    end(&r);
}

static void
test_render_fits(void **state)
{
    struct result r;
    struct image_options o = usual;

    (void)state;
    o.max_width_px = 20;
    begin(&r);
    render(&r, real_helper(), png, sizeof(png), &o);
    loop_run(r.loop);
    assert_true(r.drawn);
    assert_non_null(strstr(r.sixel.data, "\"1;1;20;20"));
    end(&r);
}

/* In the header of a PNG. */
static void
set_size(unsigned char *data, unsigned width, unsigned height)
{
    for (unsigned i = 0; i < 4; i++) {
        data[16 + i] = (unsigned char)(width >> (24 - 8 * i));
        data[20 + i] = (unsigned char)(height >> (24 - 8 * i));
    }
}

/* Several megabytes are more than a pipe holds, and the program does not wait
   for the end of them. */
static void
test_render_refuses_pictures(void **state)
{
    static unsigned char big[4u << 20];
    unsigned char cut[sizeof(png)];
    unsigned char wide[sizeof(png)];
    unsigned char many[sizeof(png)];
    unsigned char damaged[sizeof(png)];
    const struct {
        const char *name;
        const void *data;
        size_t len;
        enum error_code code;
        const char *words; /* of the message; NULL: any */
    } cases[] = {
        {"nothing", "", 0, ERR_DATA, NULL},
        {"text", "<svg/>", 6, ERR_DATA, NULL},
        {"no PNG, and long", big, sizeof(big), ERR_DATA, NULL},
        {"cut", cut, sizeof(png) / 2, ERR_DATA, NULL},
        {"damaged", damaged, sizeof(damaged), ERR_DATA, NULL},
        {"too wide", wide, sizeof(wide), ERR_TOO_LARGE,
         "4097 x 10 pixels is too large: at most 4096 pixels a side"},
        {"too many pixels", many, sizeof(many), ERR_TOO_LARGE,
         "4096 x 2049 pixels is too large: at most 8388608 pixels in all"},
    };

    (void)state;
    memcpy(cut, png, sizeof(png));
    memcpy(wide, png, sizeof(png));
    memcpy(damaged, png, sizeof(png));
    set_size(wide, 4097, 10);
    memcpy(many, png, sizeof(png));
    set_size(many, 4096, 2049);
    damaged[60] ^= 0x01;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct result r;

        begin(&r);
        render(&r, real_helper(), cases[i].data, cases[i].len, &usual);
        assert_non_null(r.image);
        loop_run(r.loop);
        if (r.n_calls != 1 || r.drawn || r.err.code != cases[i].code ||
            (cases[i].words != NULL &&
             strstr(r.err.msg, cases[i].words) == NULL))
            fail_msg("%s: %u calls, %s: %s", cases[i].name, r.n_calls,
                     error_code_name(r.err.code), r.err.msg);
        end(&r);
    }
}

/* --- programs that are not what they should be --- */

#define FORM "sandpiper-picture 1 "
/* 2 x 6 pixels in one colour, as the real program writes it. */
#define GOOD "\\033Pq\"1;1;2;6#0;2;0;0;0#0!2~\\033\\\\"

struct script_case {
    const char *name;
    const char *script;
    enum error_code code; /* ERR_NONE: is drawn */
};

static const struct script_case script_cases[] = {
    {"good", "cat >/dev/null; printf '" FORM "sixel 2 6 2\\n" GOOD "'",
     ERR_NONE},
    {"reads nothing", "printf '" FORM "sixel 2 6 2\\n" GOOD "'", ERR_NONE},
    {"says nothing", "cat >/dev/null", ERR_PROTOCOL},
    {"half a line", "printf '" FORM "sixel 2 6'", ERR_PROTOCOL},
    {"another form", "printf 'sandpiper-picture 2 sixel 2 6 2\\n" GOOD "'",
     ERR_PROTOCOL},
    {"a sign", "printf '" FORM "sixel +2 6 2\\n" GOOD "'", ERR_PROTOCOL},
    {"a zero", "printf '" FORM "sixel 02 6 2\\n" GOOD "'", ERR_PROTOCOL},
    {"more on the line", "printf '" FORM "sixel 2 6 2 \\n" GOOD "'",
     ERR_PROTOCOL},
    {"large numbers", "printf '" FORM "sixel 4294967298 6 2\\n" GOOD "'",
     ERR_PROTOCOL},
    {"too wide", "printf '" FORM "sixel 401 6 2\\n" GOOD "'", ERR_PROTOCOL},
    {"another size", "printf '" FORM "sixel 3 6 2\\n" GOOD "'", ERR_PROTOCOL},
    {"text behind it", "printf '" FORM "sixel 2 6 2\\n" GOOD "x'",
     ERR_PROTOCOL},
    {"another sequence", "printf '" FORM "sixel 2 6 2\\n\\033]0;title\\a'",
     ERR_PROTOCOL},
    {"info", "printf '" FORM "info 2 6\\n'", ERR_PROTOCOL},
    {"a known reason", "printf '" FORM "error too-large\\n'; exit 1",
     ERR_TOO_LARGE},
    {"an unknown reason", "printf '" FORM "error \\033[31m\\n'; exit 1",
     ERR_PROTOCOL},
    {"fails behind it", "printf '" FORM "sixel 2 6 2\\n" GOOD "'; exit 1",
     ERR_PROTOCOL},
    {"is killed", "kill -KILL $$", ERR_PROTOCOL},
    {"too much", "printf '" FORM "sixel 2 6 2\\n'; exec cat /dev/zero",
     ERR_TOO_LARGE},
    {"inherits nothing",
     "test -z \"$SANDPIPER_PICTURE$HOME\" || exit 1; "
     "for f in /proc/self/fd/*; do "
     "case $f in */[012]|*/10) ;; *) test -e $f && exit 1;; esac; done; "
     "printf '" FORM "sixel 2 6 2\\n" GOOD "'",
     ERR_NONE},
};

static char *
make_script(const char *dir, const char *body)
{
    struct error err = {0};
    char *path = paths_join(dir, "helper");
    AUTO_FREE char *text =
        xasprintf("#!/bin/sh\nPATH=/usr/bin:/bin\n%s\n", body);

    assert_int_equal(io_replace(path, text, strlen(text), 0700, &err), 0);
    return path;
}

static void
test_render_trusts_no_program(void **state)
{
    char dir[] = "/tmp/test_image.XXXXXX";
    struct image_options o = usual;
    struct error err = {0};

    (void)state;
    o.cell_height_px = 6;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < LEN(script_cases); i++) {
        const struct script_case *c = &script_cases[i];
        AUTO_FREE char *path = make_script(dir, c->script);
        struct result r;

        begin(&r);
        render(&r, path, png, sizeof(png), &o);
        assert_non_null(r.image);
        loop_run(r.loop);
        if (r.n_calls != 1 || r.err.code != c->code ||
            r.drawn != (c->code == ERR_NONE))
            fail_msg("%s: %u calls, %s: %s", c->name, r.n_calls,
                     error_code_name(r.err.code), r.err.msg);
        assert_null(strchr(r.err.msg, '\033'));
        end(&r);
    }
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

static void
test_render_without_a_program(void **state)
{
    struct result r;

    (void)state;
    begin(&r);
    render(&r, "/nonexistent/sandpiper-picture", png, sizeof(png), &usual);
    assert_null(r.image);
    assert_int_equal(r.err.code, ERR_IO);
    loop_run(r.loop);
    assert_int_equal(r.n_calls, 0);
    end(&r);
}

static void
stop(void *ctx)
{
    struct result *r = ctx;

    image_free(r->image);
    r->image = NULL;
}

/* The program would wait for ever; the loop ends since nothing is left. */
static void
test_free_ends_it_without_a_call(void **state)
{
    char dir[] = "/tmp/test_image.XXXXXX";
    struct error err = {0};
    struct result r;
    char *path;

    (void)state;
    assert_non_null(mkdtemp(dir));
    path = make_script(dir, "exec tail -f /dev/null");
    begin(&r);
    render(&r, path, png, sizeof(png), &usual);
    assert_non_null(r.image);
    loop_add_timer(r.loop, 1, stop, &r);
    loop_run(r.loop);
    assert_null(r.image);
    assert_int_equal(r.n_calls, 0);
    end(&r);
    free(path);
    assert_int_equal(io_remove_tree(dir, &err), 0);
    image_free(NULL);
}

/* --- made smaller --- */

struct scaled {
    struct loop *loop;
    struct image *image;
    unsigned n_calls;
    bool made;
    unsigned char *png; /* owned */
    size_t len;
    int width;
    int height;
    struct error err;
};

static void
on_scaled(void *ctx, const unsigned char *data, size_t len, int width_px,
          int height_px, const struct error *err)
{
    struct scaled *r = ctx;

    assert_true((data == NULL) != (err == NULL));
    r->n_calls++;
    r->made = data != NULL;
    if (err != NULL) {
        r->err = *err;
        return;
    }
    r->png = xmemdup(data, len);
    r->len = len;
    r->width = width_px;
    r->height = height_px;
}

static void
scale(struct scaled *r, const char *helper, const void *data, size_t len,
      int side, size_t max_bytes)
{
    struct image_scale_options o = {
        .max_side_px = side, .max_bytes = max_bytes, .helper = helper};

    memset(r, 0, sizeof(*r));
    r->loop = loop_new(&r->err);
    assert_non_null(r->loop);
    r->image = image_scale(r->loop, data, len, &o, on_scaled, r, &r->err);
    assert_non_null(r->image);
    assert_int_equal(r->n_calls, 0);
    loop_run(r->loop);
    loop_free(r->loop);
    assert_int_equal(r->n_calls, 1);
}

static void
test_scale_makes_smaller(void **state)
{
    struct scaled r;
    int width = 0;
    int height = 0;

    (void)state;
    scale(&r, real_helper(), png, sizeof(png), 20, 1000);
    if (!r.made)
        fail_msg("%s", r.err.msg);
    assert_int_equal(r.width, 20);
    assert_int_equal(r.height, 15);
    assert_true(output_png_size(r.png, r.len, &width, &height));
    assert_int_equal(width, 20);
    assert_int_equal(height, 15);
    free(r.png);
}

static void
test_scale_leaves_small_ones_alone(void **state)
{
    struct scaled r;

    (void)state;
    scale(&r, real_helper(), png, sizeof(png), 40, sizeof(png));
    if (!r.made)
        fail_msg("%s", r.err.msg);
    assert_int_equal(r.len, sizeof(png));
    assert_memory_equal(r.png, png, sizeof(png));
    assert_int_equal(r.width, 40);
    assert_int_equal(r.height, 30);
    free(r.png);
}

static void
test_scale_refuses(void **state)
{
    unsigned char wide[sizeof(png)];
    unsigned char longer[sizeof(png) + 1] = {0};
    const struct {
        const char *name;
        const void *data;
        size_t len;
        int side;
        size_t max_bytes;
        enum error_code code;
    } cases[] = {
        {"nothing", "", 0, 20, 1000, ERR_DATA},
        {"cut", png, sizeof(png) / 2, 20, 1000, ERR_DATA},
        {"cut behind the pixels", png, sizeof(png) - 12, 40, 1000, ERR_DATA},
        {"more behind it", longer, sizeof(longer), 40, 1000, ERR_DATA},
        {"too wide", wide, sizeof(wide), 20, 1000, ERR_TOO_LARGE},
        {"too many bytes", png, sizeof(png), 40, sizeof(png) - 1,
         ERR_TOO_LARGE},
    };

    (void)state;
    memcpy(wide, png, sizeof(png));
    memcpy(longer, png, sizeof(png));
    wide[18] ^= 0xFF;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct scaled r;

        scale(&r, real_helper(), cases[i].data, cases[i].len, cases[i].side,
              cases[i].max_bytes);
        if (r.made || r.err.code != cases[i].code)
            fail_msg("%s: %s: %s", cases[i].name, error_code_name(r.err.code),
                     r.err.msg);
    }
}

#define PNG_START "\\211PNG\\r\\n\\032\\n\\0\\0\\0\\015IHDR"
#define PNG_SIZE "\\0\\0\\0\\024\\0\\0\\0\\017"
#define PNG_REST "\\010\\2\\0\\0\\0abcd"
#define PNG_DATA "\\0\\0\\0\\1IDATxabcd"
#define PNG_END "\\0\\0\\0\\0IENDabcd"
#define SMALL PNG_START PNG_SIZE PNG_REST PNG_DATA PNG_END

/* What stands in for the program is asked for 20 x 15 pixels. */
static const struct script_case scale_cases[] = {
    {"good", "printf '" FORM "png 20 15\\n" SMALL "'", ERR_NONE},
    {"another size", "printf '" FORM "png 20 14\\n" SMALL "'", ERR_PROTOCOL},
    {"another size in its header",
     "printf '" FORM "png 20 15\\n" PNG_START
     "\\0\\0\\0\\025\\0\\0\\0\\017" PNG_REST PNG_DATA PNG_END "'",
     ERR_PROTOCOL},
    {"the size of the file", "printf '" FORM "same 40 30\\n'", ERR_PROTOCOL},
    {"the same, but smaller", "printf '" FORM "same 20 15\\n'", ERR_PROTOCOL},
    {"a sixel", "printf '" FORM "sixel 2 6 2\\n" GOOD "'", ERR_PROTOCOL},
    {"nothing behind it", "printf '" FORM "png 20 15\\n'", ERR_PROTOCOL},
    {"no pixels",
     "printf '" FORM "png 20 15\\n" PNG_START PNG_SIZE PNG_REST PNG_END "'",
     ERR_PROTOCOL},
    {"no end",
     "printf '" FORM "png 20 15\\n" PNG_START PNG_SIZE PNG_REST PNG_DATA "'",
     ERR_PROTOCOL},
    {"more behind it", "printf '" FORM "png 20 15\\n" SMALL "x'", ERR_PROTOCOL},
    {"a chunk of text",
     "printf '" FORM "png 20 15\\n" PNG_START PNG_SIZE PNG_REST
     "\\0\\0\\0\\1tEXtxabcd" PNG_DATA PNG_END "'",
     ERR_PROTOCOL},
    {"a long chunk",
     "printf '" FORM "png 20 15\\n" PNG_START PNG_SIZE PNG_REST
     "\\377\\377\\377\\364IDATxabcd" PNG_END "'",
     ERR_PROTOCOL},
    {"no PNG", "printf '" FORM "png 20 15\\nGIF89a'", ERR_PROTOCOL},
    {"fails behind it", "printf '" FORM "png 20 15\\n" SMALL "'; exit 1",
     ERR_PROTOCOL},
    {"a known reason", "printf '" FORM "error damaged\\n'; exit 1", ERR_DATA},
    {"is killed", "kill -KILL $$", ERR_PROTOCOL},
    {"too much", "printf '" FORM "png 20 15\\n'; exec cat /dev/zero",
     ERR_TOO_LARGE},
};

static void
test_scale_trusts_no_program(void **state)
{
    char dir[] = "/tmp/test_image.XXXXXX";
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < LEN(scale_cases); i++) {
        const struct script_case *c = &scale_cases[i];
        AUTO_FREE char *path = make_script(dir, c->script);
        struct scaled r;

        scale(&r, path, png, sizeof(png), 20, 1000);
        if (r.err.code != c->code || r.made != (c->code == ERR_NONE))
            fail_msg("%s: %s: %s", c->name, error_code_name(r.err.code),
                     r.err.msg);
        free(r.png);
    }
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render_draws),
        cmocka_unit_test(test_render_fits),
        cmocka_unit_test(test_render_refuses_pictures),
        cmocka_unit_test(test_render_trusts_no_program),
        cmocka_unit_test(test_render_without_a_program),
        cmocka_unit_test(test_free_ends_it_without_a_call),
        cmocka_unit_test(test_scale_makes_smaller),
        cmocka_unit_test(test_scale_leaves_small_ones_alone),
        cmocka_unit_test(test_scale_refuses),
        cmocka_unit_test(test_scale_trusts_no_program),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
