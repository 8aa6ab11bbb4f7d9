/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"

#define CALLED                                                                 \
    "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}]"
#define IMAGE "{\"type\":\"image\",\"source\":{\"type\":\"base64\""

static const char *const ids[] = {"t"};

static void
put_be32(unsigned char *p, uint32_t value)
{
    p[0] = (unsigned char)(value >> 24);
    p[1] = (unsigned char)(value >> 16);
    p[2] = (unsigned char)(value >> 8);
    p[3] = (unsigned char)value;
}

/* The beginning of a PNG; the caller owns it. */
static unsigned char *
make_png(size_t len, uint32_t width, uint32_t height)
{
    static const char begin[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    unsigned char *png = xcalloc(1, len < 24 ? 24 : len);

    memcpy(png, begin, 16);
    put_be32(png + 16, width);
    put_be32(png + 20, height);
    return png;
}

/* A call and its answer with these images. */
static void
answer(struct claude_history *h, const struct claude_image *images, size_t n)
{
    const struct claude_tool_result result = {.tool_use_id = "t",
                                              .text = "out",
                                              .len = 3,
                                              .images = images,
                                              .n_images = n};

    assert_int_equal(claude_history_add_assistant(h, CALLED, ids, 1, NULL), 0);
    assert_int_equal(claude_history_add_results(h, &result, 1, NULL, NULL), 0);
}

static struct claude_history *
begin(void)
{
    struct claude_history *h = claude_history_new();

    assert_int_equal(claude_history_add_user(h, "q", 1, NULL), 0);
    return h;
}

static size_t
count(const struct claude_history *h, const char *what)
{
    size_t len;
    const char *text = claude_history_text(h, &len);
    size_t n = 0;

    for (const char *p = strstr(text, what); p != NULL;
         p = strstr(p + 1, what)) {
        n++;
    }
    return n;
}

/* RFC 4648, 10: each length modulo three. */
static void
test_image_bytes_are_base64(void **state)
{
    static const struct {
        const char *tail;
        const char *expect;
    } cases[] = {
        {"foo", "Zm9v\"}}]}"},
        {"foob", "Zm9vYg==\"}}]}"},
        {"fooba", "Zm9vYmE=\"}}]}"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        size_t len = 24 + strlen(cases[i].tail);
        unsigned char *png = make_png(len, 1, 1);
        const struct claude_image image = {png, len, 1, 1};
        struct claude_history *h = begin();
        size_t text_len;

        memcpy(png + 24, cases[i].tail, strlen(cases[i].tail));
        answer(h, &image, 1);
        if (strstr(claude_history_text(h, &text_len), cases[i].expect) ==
            NULL) {
            fail_msg("%s: %s", cases[i].tail,
                     claude_history_text(h, &text_len));
        }
        assert_int_equal(
            count(h, "{\"type\":\"text\",\"text\":\"out\"}," IMAGE
                     ",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo"),
            1);
        claude_history_free(h);
        free(png);
    }
}

static void
test_images_that_are_refused(void **state)
{
    static const struct {
        const char *name;
        size_t len;
        uint32_t width;
        uint32_t height;
        bool damaged;
        const char *expect; /* NULL: it is sent */
    } cases[] = {
        {"the largest", 100, 2000, 2000, false, NULL},
        {"too wide", 100, 2001, 10, false, "2000 pixels"},
        {"too high", 100, 10, 2147483647u, false, "2000 pixels"},
        {"higher than a PNG can be", 100, 10, 4000000000u, false, "no PNG"},
        {"no size", 100, 0, 10, false, "no PNG"},
        {"too many bytes", 7500001, 10, 10, false, "10 MB"},
        {"as many as may be", 7500000, 10, 10, false, NULL},
        {"no PNG", 100, 10, 10, true, "no PNG"},
        {"cut short", 23, 10, 10, false, "no PNG"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        unsigned char *png =
            make_png(cases[i].len, cases[i].width, cases[i].height);
        const struct claude_image image = {png, cases[i].len, 640, 480};
        struct claude_history *h = begin();

        png[1] = cases[i].damaged ? 'X' : 'P';
        answer(h, &image, 1);
        if (count(h, IMAGE) != (cases[i].expect == NULL ? 1 : 0) ||
            (cases[i].expect != NULL &&
             (count(h, cases[i].expect) != 1 ||
              count(h, "[image of 640x480 pixels, not sent") != 1))) {
            fail_msg("%s", cases[i].name);
        }
        claude_history_free(h);
        free(png);
    }
}

static void
test_a_hundred_images(void **state)
{
    unsigned char *png = make_png(24, 9, 9);
    struct claude_image images[10];
    struct claude_history *h = begin();

    (void)state;
    for (size_t i = 0; i < LEN(images); i++) {
        images[i] = (struct claude_image){png, 24, 9, 9};
    }
    for (int i = 0; i < 11; i++) {
        answer(h, images, LEN(images));
    }
    assert_int_equal(count(h, IMAGE), 100);
    assert_int_equal(count(h, "100 images already"), 10);
    claude_history_free(h);
    free(png);
}

/* Images leave room for text, which must have its answer. */
static void
test_images_leave_room(void **state)
{
    size_t len = 7000000;
    unsigned char *png = make_png(len, 9, 9);
    const struct claude_image image = {png, len, 9, 9};
    struct claude_history *h = begin();
    size_t text_len;

    (void)state;
    for (int i = 0; i < 4; i++) {
        answer(h, &image, 1);
    }
    assert_int_equal(count(h, IMAGE), 2);
    assert_int_equal(count(h, "no room for it"), 2);
    claude_history_text(h, &text_len);
    assert_true(text_len < 24000000);
    claude_history_free(h);
    free(png);
}

/* A call that was made is answered, however full the conversation is. */
static void
test_results_without_room_are_short(void **state)
{
    size_t big = 29990000;
    char *text = xmalloc(big);
    struct claude_history *h = claude_history_new();
    const struct claude_tool_result result = {
        .tool_use_id = "t", .text = text, .len = 2000000};

    (void)state;
    memset(text, 'x', big);
    assert_int_equal(claude_history_add_user(h, text, big, NULL), 0);
    assert_int_equal(claude_history_add_assistant(h, CALLED, ids, 1, NULL), 0);
    assert_int_equal(claude_history_add_results(h, &result, 1, "go on", NULL),
                     0);
    assert_false(claude_history_has_open_calls(h));
    assert_int_equal(count(h, "as long as it may be"), 1);
    assert_int_equal(count(h, "go on"), 1);
    claude_history_free(h);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_bytes_are_base64),
        cmocka_unit_test(test_images_that_are_refused),
        cmocka_unit_test(test_a_hundred_images),
        cmocka_unit_test(test_images_leave_room),
        cmocka_unit_test(test_results_without_room_are_short),
    };

    return cmocka_run_group_tests_name("history_image", tests, NULL, NULL);
}
