/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_fragment_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"

#define HEAD "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
#define DELTA(text) HEAD "{\"type\":\"text_delta\",\"text\":\"" text "\"}}"
#define FFFD "\xEF\xBF\xBD"

/* Reading */

struct read_case {
    const char *name;
    const char *event;
    const char *expect_raw; /* NULL: a tree is needed */
    enum claude_fragment_kind expect_kind;
    int64_t expect_index;
};

static const struct read_case read_cases[] = {
    {"text", DELTA("a b"), "a b", CLAUDE_FRAGMENT_TEXT, 0},
    {"half a character", DELTA("a\\ud83d"), "a\\ud83d", CLAUDE_FRAGMENT_TEXT,
     0},
    {"empty", DELTA(""), "", CLAUDE_FRAGMENT_TEXT, 0},
    {"escapes stay", DELTA("\\u00e9\\n\\\"\\\\\\/"), "\\u00e9\\n\\\"\\\\\\/",
     CLAUDE_FRAGMENT_TEXT, 0},
    {"not ASCII", DELTA("\xC3\xA9"), "\xC3\xA9", CLAUDE_FRAGMENT_TEXT, 0},
    {"long", DELTA("0123456789abcdefghijklmnopqrstuvwxyz"),
     "0123456789abcdefghijklmnopqrstuvwxyz", CLAUDE_FRAGMENT_TEXT, 0},
    {"thinking", HEAD "{\"type\":\"thinking_delta\",\"thinking\":\"t\"}}", "t",
     CLAUDE_FRAGMENT_THINKING, 0},
    {"input",
     HEAD "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"\"}}",
     "{\\\"", CLAUDE_FRAGMENT_TOOL, 0},
    {"any order, spaces",
     "{ \"delta\" : {\"text\" :\"a\", \"type\":\"text_delta\"} ,\n\"index\": "
     "12 ,\t\"type\": \"content_block_delta\" } ",
     "a", CLAUDE_FRAGMENT_TEXT, 12},
    {"two texts",
     HEAD "{\"type\":\"x\",\"text\":\"a\",\"text\":\"b\",\"type\":"
          "\"text_delta\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"the last type counts",
     HEAD "{\"type\":\"x\",\"text\":\"b\",\"type\":\"text_delta\"}}", "b",
     CLAUDE_FRAGMENT_TEXT, 0},
    {"two deltas",
     "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":\"a\"},\"delta\":{\"type\":\"text_delta\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"another event", "{\"type\":\"ping\"}", NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"another delta", HEAD "{\"type\":\"signature_delta\",\"text\":\"a\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"the text of another delta",
     HEAD "{\"type\":\"text_delta\",\"thinking\":\"a\"}}", NULL,
     CLAUDE_FRAGMENT_TEXT, 0},
    {"no index",
     "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\","
     "\"text\":\"a\"}}",
     "a", CLAUDE_FRAGMENT_TEXT, -1},
    {"null as index",
     "{\"type\":\"content_block_delta\",\"index\":null,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":\"a\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"null", HEAD "{\"type\":\"text_delta\",\"text\":null}}", NULL,
     CLAUDE_FRAGMENT_TEXT, 0},
    {"another member",
     "{\"type\":\"content_block_delta\",\"index\":0,\"x\":\"\",\"delta\":{"
     "\"type\":\"text_delta\",\"text\":\"a\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"index of another form",
     "{\"type\":\"content_block_delta\",\"index\":1e0,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":\"a\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"index with a zero before it",
     "{\"type\":\"content_block_delta\",\"index\":01,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":\"a\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"escaped name", HEAD "{\"typ\\u0065\":\"x\",\"type\":\"text_delta\"}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"unknown escape", DELTA("\\x"), NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"short escape", DELTA("\\u12"), NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"control", DELTA("a\nb"), NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"control in a long one", DELTA("0123456789abcdef\x01ghijklmnop"), NULL,
     CLAUDE_FRAGMENT_TEXT, 0},
    {"text behind it", DELTA("a") "x", NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"another value behind it", DELTA("a") "{}", NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"comma at the end", HEAD "{\"type\":\"text_delta\",\"text\":\"a\",}}",
     NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"array", "[]", NULL, CLAUDE_FRAGMENT_TEXT, 0},
    {"nothing", "", NULL, CLAUDE_FRAGMENT_TEXT, 0},
};

/* What it means is what the decoder makes of it. */
static void
check_text(const char *name, const struct claude_fragment *f,
           const struct sbuf *text)
{
    struct claude_decoder d = {0};
    struct sbuf expect;

    sbuf_init(&expect, 1000);
    claude_decoder_add(&d, f->raw, f->len, &expect);
    if (strcmp(text->data, expect.data) != 0 || f->decoder.high != d.high ||
        f->decoder.has_nul != d.has_nul) {
        fail_msg("%s: %s", name, text->data);
    }
    sbuf_fini(&expect);
}

static void
test_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(read_cases); i++) {
        const struct read_case *c = &read_cases[i];
        size_t len = strlen(c->event);
        char *event = xmemdup(c->event, len);
        struct claude_fragment f = {0};
        struct sbuf text;
        bool ok;

        sbuf_init(&text, 1000);
        sbuf_add_str(&text, "before");
        ok = claude_fragment_read(event, len, &f, &text);

        if (ok != (c->expect_raw != NULL)) {
            fail_msg("%s: %d", c->name, ok);
        }
        if (ok && (f.len != strlen(c->expect_raw) ||
                   memcmp(f.raw, c->expect_raw, f.len) != 0 ||
                   f.kind != c->expect_kind || f.index != c->expect_index)) {
            fail_msg("%s: %.*s %d", c->name, (int)f.len, f.raw, f.kind);
        }
        if (ok) {
            check_text(c->name, &f, &text);
        }
        sbuf_fini(&text);
        free(event);
    }
}

/* An event that is not whole is none, wherever it ends. */
static void
test_read_nothing_that_is_cut(void **state)
{
    static const char event[] = DELTA("a\\u00e9\\\\ 0123456789");
    struct sbuf text;

    (void)state;
    sbuf_init(&text, 1000);
    for (size_t len = 0; len < strlen(event); len++) {
        char *copy = xmemdup(event, len);
        struct claude_fragment f;

        assert_false(claude_fragment_read(copy, len, &f, &text));
        free(copy);
    }
    sbuf_fini(&text);
}

/* Decoding */

struct decode_case {
    const char *name;
    const char *pieces[3];
    const char *expect;
    bool expect_nul;
};

static const struct decode_case decode_cases[] = {
    {"plain", {"abc"}, "abc", false},
    {"short escapes", {"\\\"\\\\\\/\\b\\f\\n\\r\\t"}, "\"\\/\b\f\n\r\t", false},
    {"characters",
     {"\\u00e9\\u20ac\\u0041"},
     "\xC3\xA9\xE2\x82\xAC"
     "A",
     false},
    {"pair", {"\\ud83d\\ude00"}, "\xF0\x9F\x98\x80", false},
    {"pair, upper case", {"\\uD83D\\uDE00"}, "\xF0\x9F\x98\x80", false},
    {"pair over two pieces",
     {"a\\ud83d", "\\ude00b"},
     "a\xF0\x9F\x98\x80"
     "b",
     false},
    {"high one at the end", {"a\\ud83d"}, "a" FFFD, false},
    {"high one before text", {"\\ud83d", "a"}, FFFD "a", false},
    {"high one before an escape", {"\\ud83d", "\\n"}, FFFD "\n", false},
    {"high one before a pair",
     {"\\ud83d", "\\ud83d\\ude00"},
     FFFD "\xF0\x9F\x98\x80",
     false},
    {"low one", {"\\ude00", "a"}, FFFD "a", false},
    {"NUL", {"a\\u0000b"}, "a" FFFD "b", true},
    {"a backslash before u0000", {"a\\\\u0000b"}, "a\\u0000b", false},
    {"a backslash at the end of a piece",
     {"a\\\\", "u0000"},
     "a\\u0000",
     false},
    {"nothing", {""}, "", false},
};

static void
test_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(decode_cases); i++) {
        const struct decode_case *c = &decode_cases[i];
        struct claude_decoder d = {0};
        struct sbuf out;

        sbuf_init(&out, 1000);
        for (size_t k = 0; k < LEN(c->pieces) && c->pieces[k] != NULL; k++) {
            char *piece = xmemdup(c->pieces[k], strlen(c->pieces[k]));

            claude_decoder_add(&d, piece, strlen(c->pieces[k]), &out);
            free(piece);
        }
        claude_decoder_end(&d, &out);
        if (strcmp(out.data, c->expect) != 0 || d.has_nul != c->expect_nul) {
            fail_msg("%s: %s %d", c->name, out.data, d.has_nul);
        }
        sbuf_fini(&out);
    }
}

/* Longer than what is put together at a time, escapes at every place of it. */
static void
test_decode_long_strings(void **state)
{
    (void)state;
    for (size_t before = 0; before < 20; before++) {
        struct claude_decoder d = {0};
        struct sbuf raw;
        struct sbuf expect;
        struct sbuf out;

        sbuf_init(&raw, 1u << 20);
        sbuf_init(&expect, 1u << 20);
        sbuf_init(&out, 1u << 20);
        for (int i = 0; i < 300; i++) {
            sbuf_add_repeat(&raw, 'x', before);
            sbuf_add_str(&raw, "\\ud83d\\ude00\\n");
            sbuf_add_repeat(&expect, 'x', before);
            sbuf_add_str(&expect, "\xF0\x9F\x98\x80\n");
        }
        claude_decoder_add(&d, raw.data, raw.len, &out);
        claude_decoder_end(&d, &out);
        assert_string_equal(out.data, expect.data);
        sbuf_fini(&raw);
        sbuf_fini(&expect);
        sbuf_fini(&out);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_nothing_that_is_cut),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_long_strings),
    };

    return cmocka_run_group_tests_name("claude_fragment", tests, NULL, NULL);
}
