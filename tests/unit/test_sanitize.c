/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/sanitize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sbuf.h"

#include "../helpers/sanitize_check.h"
#include "base/array.h"

#define N_RANDOM_INPUTS 60000
#define MAX_OUT_BYTES (1u << 20)

/* In the order of enum sanitize_context. */
static const char *const context_names[] = {"model", "code",  "program",
                                            "cell",  "error", "name"};

struct text {
    char *data; /* owned */
    size_t len;
};

/* How an input is cut: where, or every n bytes. */
struct cut {
    size_t at; /* used when each is 0 */
    size_t each;
};

static char *
find_vectors(void)
{
    const char *dir = getenv("TESTDATA_DIR");
#ifndef TESTDATA_DIR
    const char *srcdir = getenv("srcdir");
#endif

    if (dir != NULL) {
        return xasprintf("%s/sanitiser_vectors.json", dir);
    }
#ifdef TESTDATA_DIR
    return xasprintf("%s/sanitiser_vectors.json", TESTDATA_DIR);
#else
    return xasprintf("%s/tests/helpers/sanitiser_vectors.json",
                     srcdir == NULL ? "." : srcdir);
#endif
}

static struct text
read_hex(const char *hex)
{
    struct text t = {.len = strlen(hex) / 2};

    t.data = xmalloc(t.len + 1);
    for (size_t i = 0; i < t.len; i++) {
        unsigned value;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        t.data[i] = (char)value;
    }
    t.data[t.len] = '\0';
    return t;
}

/* Feeds a piece from an allocation of exactly its size, so that the sanitizer
   of the compiler sees a read behind it. */
static void
feed_copy(struct sanitizer *s, const char *data, size_t len, struct sbuf *out)
{
    char *copy = xmemdup(data, len);

    sanitize_feed(s, copy, len, out);
    free(copy);
}

static void
run_cut(struct sanitizer *s, const char *data, size_t len, struct cut cut,
        struct sbuf *out)
{
    size_t i = 0;

    if (cut.each == 0) {
        feed_copy(s, data, cut.at, out);
        feed_copy(s, data + cut.at, len - cut.at, out);
    }
    while (cut.each > 0 && i < len) {
        size_t n = len - i < cut.each ? len - i : cut.each;

        feed_copy(s, data + i, n, out);
        i += n;
    }
    sanitize_end(s, out);
    assert_true(sbuf_ok(out));
}

static void
expect_cut(enum sanitize_context context, const char *id,
           const struct text *input, const struct text *expect, struct cut cut)
{
    struct sanitizer s = {.context = context};
    struct sbuf out;

    sbuf_init(&out, MAX_OUT_BYTES);
    run_cut(&s, input->data, input->len, cut, &out);
    if (out.len != expect->len ||
        memcmp(out.data, expect->data, out.len) != 0) {
        fail_msg("%s, cut at %zu: %s", id, cut.each > 0 ? 1 : cut.at, out.data);
    }
    sbuf_fini(&out);
}

static void
check_vector(const struct cJSON *vector)
{
    const char *id = json_string(vector, "id");
    const char *name = json_string(vector, "context");
    struct text input = read_hex(json_string(vector, "input_hex"));
    struct text expect = read_hex(json_string(vector, "expected_hex"));
    size_t context = 0;
    struct sbuf out;

    while (strcmp(context_names[context], name) != 0) {
        context++;
        assert_true(context < LEN(context_names));
    }
    sbuf_init(&out, MAX_OUT_BYTES);
    sanitize_text((enum sanitize_context)context, input.data, input.len, &out);
    if (out.len != expect.len || memcmp(out.data, expect.data, out.len) != 0) {
        fail_msg("%s: %s", id, out.data);
    }
    sbuf_fini(&out);
    for (size_t at = 0; at <= input.len; at++) {
        expect_cut((enum sanitize_context)context, id, &input, &expect,
                   (struct cut){.at = at});
    }
    expect_cut((enum sanitize_context)context, id, &input, &expect,
               (struct cut){.each = 1});
    free(input.data);
    free(expect.data);
}

static void
test_feed_vectors_with_every_cut(void **state)
{
    AUTO_FREE char *path = find_vectors();
    struct error err = {0};
    AUTO_JSON struct cJSON *vectors = NULL;
    struct sbuf text;
    size_t n = 0;

    (void)state;
    sbuf_init(&text, 1u << 20);
    if (io_read_file(path, &text, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    vectors = json_parse(text.data, text.len, 0, &err);
    if (vectors == NULL) {
        fail_msg("%s", err.msg);
    }
    sbuf_fini(&text);
    for (const struct cJSON *v = json_first(vectors); v != NULL;
         v = json_next(v)) {
        check_vector(v);
        n++;
    }
    assert_int_equal(n, 178);
}

struct text_case {
    const char *name;
    enum sanitize_context context;
    const char *text;
    const char *expect_text;
};

static const struct text_case text_cases[] = {
    {"unassigned", SANITIZE_MODEL, "a\xCD\xB8z", "a\xEF\xBF\xBDz"},
    {"unassigned in a name", SANITIZE_NAME, "a\xCD\xB8z", "\"a\\315\\270z\""},
    {"CR and a dropped character", SANITIZE_MODEL, "a\r\xE2\x80\x8B\nb",
     "a^M\nb"},
    {"CR before a tab", SANITIZE_PROGRAM, "abc\r\tx", "abc\r\033[K\tx"},
    {"marks after a joiner", SANITIZE_MODEL,
     "\xE0\xA4\x95\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"
     "\xCC\x81\xE2\x80\x8D\xCC\x81",
     "\xE0\xA4\x95\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"
     "\xCC\x81\xE2\x80\x8D"},
    {"marks around a dropped character", SANITIZE_MODEL,
     "a\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"
     "\xE2\x80\x8B\xCC\x81",
     "a\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"},
    {"nine marks in a name", SANITIZE_NAME,
     "a\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"
     "\xCC\x81",
     "\"a\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81"
     "\\314\\201\""},
    {"mark behind an escape", SANITIZE_CELL, "a\n\xCC\x81", "a\\n\xCC\x81"},
    {"mark after a tab", SANITIZE_CODE, "\t\xCC\x81", "\t\xE2\x97\x8C\xCC\x81"},
    {"all attributes", SANITIZE_PROGRAM, "\033[9;7;4;3;2;1mx\033[22;24my",
     "\033[0;1;2;3;4;7;9mx\033[0;3;7;9my\033[0m"},
    {"attributes off one by one", SANITIZE_PROGRAM,
     "\033[1;2;3;4;7;9mx\033[22ma\033[23mb\033[24mc\033[27md\033[29me",
     "\033[0;1;2;3;4;7;9mx\033[0;3;4;7;9ma\033[0;4;7;9mb\033[0;7;9mc"
     "\033[0;9md\033[0me"},
    {"too long to be a colour: no reset either", SANITIZE_PROGRAM,
     "\033[1mx\033[0000000000000000000000000000000000000000000000000000000000"
     "0000000my",
     "\033[0;1mxy\033[0m"},
    {"joiner behind a restart", SANITIZE_PROGRAM, "\xE6\x97\xA5\r\xE2\x80\x8Dx",
     "\xE6\x97\xA5\r\033[Kx"},
    {"cancelled", SANITIZE_PROGRAM, "a\033[1\030b\033]0;t\032c\033\032d",
     "abcd"},
    {"underline off by its style", SANITIZE_PROGRAM, "\033[4mx\033[4:0my",
     "\033[0;4mx\033[0my"},
    {"underline colour takes its numbers along", SANITIZE_PROGRAM,
     "\033[58;5;1mx\033[58;2;1;3;4;1my", "x\033[0;1my\033[0m"},
    {"colons in the short form", SANITIZE_PROGRAM, "\033[38:2:1:2:3mx",
     "\033[0;38;2;1;2;3mx\033[0m"},
    {"index with colons", SANITIZE_PROGRAM, "\033[48:5:100mx",
     "\033[0;48;5;100mx\033[0m"},
    {"low index in the short form", SANITIZE_PROGRAM, "\033[38;5;1;48;5;12mx",
     "\033[0;31;104mx\033[0m"},
    {"what comes before a broken colour counts", SANITIZE_PROGRAM,
     "\033[1;38;9;4mx", "\033[0;1mx\033[0m"},
    {"channel above 255", SANITIZE_PROGRAM, "\033[38;2;1;2;256mx", "x"},
    {"sixteen parameters", SANITIZE_PROGRAM,
     "\033[;;;;;;;;;;;;;;;1mx\033[;;;;;;;;;;;;;;;;4my", "\033[0;1mxy\033[0m"},
    {"hidden on the colour cube", SANITIZE_PROGRAM,
     "\033[38;5;16;48;2;31;31;31mx\033[48;2;31;32;31my",
     "x\033[0;38;5;16;48;2;31;32;31my\033[0m"},
    {"hidden in grey", SANITIZE_PROGRAM, "\033[38;5;232;48;5;234mx", "x"},
    {"two low indices may be alike", SANITIZE_PROGRAM, "\033[31;101mx",
     "\033[0;31;101mx\033[0m"},
    {"intermediate then parameter", SANITIZE_PROGRAM, "\033[ 1mx", "x"},
    {"string ends at a sequence", SANITIZE_PROGRAM, "\033]0;a\033c\033[1mx",
     "\033[0;1mx\033[0m"},
};

static void
test_text_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(text_cases); i++) {
        const struct text_case *c = &text_cases[i];
        struct sbuf out;

        sbuf_init(&out, MAX_OUT_BYTES);
        sanitize_text(c->context, c->text, strlen(c->text), &out);
        if (strcmp(out.data, c->expect_text) != 0) {
            fail_msg("%s: %s", c->name, out.data);
        }
        sbuf_fini(&out);
    }
}

static void
test_feed_options(void **state)
{
    static const char text[] =
        "\033[31m10%\r20%\r\n\033]0;t\007\033[5A\033[1mx";
    struct sanitizer s = {.context = SANITIZE_PROGRAM, .margin = "| "};
    struct sbuf out;

    (void)state;
    sbuf_init(&out, MAX_OUT_BYTES);
    sanitize_feed(&s, text, strlen(text), &out);
    sanitize_end(&s, &out);
    assert_string_equal(out.data,
                        "\033[0;31m10%\033[0m\r\033[K| \033[0;31m20%\033[0m\n"
                        "\033[0;1;31mx\033[0m");
    assert_int_equal(s.n_restarts, 1);
    assert_int_equal(s.n_dropped, 2);

    s.no_color = true;
    sbuf_clear(&out);
    sanitize_feed(&s, text, strlen(text), &out);
    sanitize_end(&s, &out);
    assert_string_equal(out.data, "10%\r\033[K| 20%\nx");
    assert_int_equal(s.n_restarts, 2);

    s.line_restart_as_lf = true;
    sbuf_clear(&out);
    sanitize_feed(&s, text, strlen(text), &out);
    sanitize_end(&s, &out);
    assert_string_equal(out.data, "10%\n20%\nx");
    assert_int_equal(s.n_restarts, 3);
    assert_int_equal(s.n_dropped, 6);
    sbuf_fini(&out);
}

static void
test_end_makes_ready_for_another_text(void **state)
{
    for (size_t context = 0; context < LEN(context_names); context++) {
        /* Every kind of thing that can be left open. */
        static const char *const open_ends[] = {
            "\033[1mx", "x\r",   "\033[3", "\033]0;",   "\xE2\x82",
            "\xCC\x81", "a\033", "\033 ",  "\033]\033", " x"};

        for (size_t i = 0; i < LEN(open_ends); i++) {
            struct sanitizer s = {.context = (enum sanitize_context)context};
            struct sbuf out;

            (void)state;
            sbuf_init(&out, MAX_OUT_BYTES);
            sanitize_feed(&s, open_ends[i], strlen(open_ends[i]), &out);
            sanitize_end(&s, &out);
            sbuf_clear(&out);
            sanitize_feed(&s, "1mok", 4, &out);
            sanitize_end(&s, &out);
            assert_string_equal(out.data, "1mok");
            sbuf_fini(&out);
        }
    }
}

static void
test_fini_of_an_open_name(void **state)
{
    struct sanitizer s = {.context = SANITIZE_NAME};
    struct sbuf out;

    (void)state;
    sbuf_init(&out, MAX_OUT_BYTES);
    sanitize_feed(&s, "abc", 3, &out);
    assert_int_equal(out.len, 0);
    sanitize_fini(&s);
    sanitize_fini(&s);
    sbuf_fini(&out);
}

static void
test_name_too_long(void **state)
{
    struct sbuf name;
    struct sbuf out;

    (void)state;
    sbuf_init(&name, MAX_OUT_BYTES);
    sbuf_init(&out, MAX_OUT_BYTES);
    sbuf_add_repeat(&name, 'n', SANITIZE_MAX_NAME_BYTES);
    sanitize_text(SANITIZE_NAME, name.data, name.len, &out);
    assert_int_equal(out.len, SANITIZE_MAX_NAME_BYTES);
    sbuf_add_str(&name, "\033\033n");
    sbuf_clear(&out);
    sanitize_text(SANITIZE_NAME, name.data, name.len, &out);
    assert_int_equal(out.len, SANITIZE_MAX_NAME_BYTES + 5);
    assert_string_equal(out.data + SANITIZE_MAX_NAME_BYTES, "n\"...");
    sbuf_fini(&out);
    sbuf_fini(&name);
}

/* xorshift64: the same inputs in every run. */
static uint64_t
next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static size_t
pick(uint64_t *seed, size_t n)
{
    return (size_t)(next_random(seed) >> 20) % n;
}

/* What is likely to hurt, so that random inputs meet it often. */
static const char *const tokens[] = {
    "\033",
    "\033[",
    "\033]",
    "\033P",
    "\033_",
    "\033k",
    "\033\\",
    "\033(0",
    "\033[31m",
    "\033[0m",
    "\033[1;38;2;1;2;3;48;2;255;0;99m",
    "\033[41m",
    "\033[7;4;3;2;1;9m",
    "38;5;",
    "48:2::",
    "\033[2J",
    "\033[1A",
    "\033[?1049h",
    "m",
    ";",
    ":",
    "[",
    "9",
    "0",
    "\r",
    "\n",
    "\r\n",
    "\t",
    "\v",
    "\f",
    "\b",
    "\007",
    "\030",
    "\032",
    "\177",
    "x",
    "ab",
    "\"",
    "\\",
    " ",
    "\xC2\x9B",
    "\xC2\x9D",
    "\xC2\x9C",
    "\xC2\x85",
    "\x9B",
    "\xC0\x9B",
    "\xE0\x80\x9B",
    "\xED\xA0\x80",
    "\xF4\x90\x80\x80",
    "\xC3",
    "\xE2\x82",
    "\xF0\x9F\x98",
    "\xFF",
    "\xE2\x80\xAE",
    "\xE2\x81\xA6",
    "\xE2\x80\x8B",
    "\xE2\x80\x8D",
    "\xE2\x80\x8C",
    "\xEF\xB8\x8F",
    "\xE2\x80\x8E",
    "\xD8\x9C",
    "\xCC\x81",
    "\xE2\x83\xA3",
    "\xEF\xBB\xBF",
    "\xE3\x85\xA4",
    "\xF3\xA0\x81\x81",
    "\xF4\x8E\xBB\xAE",
    "\xE2\x80\xA8",
    "\xC2\xAD",
    "\xEF\xBF\xBF",
    "\xE6\x97\xA5",
    "\xF0\x9F\x98\x80",
    "\xE2\x9D\xA4",
    "\xCD\xB8",
    "\xD9\x85",
};

static void
make_random_input(uint64_t *seed, struct sbuf *input)
{
    size_t n = pick(seed, 24);

    for (size_t i = 0; i < n; i++) {
        size_t what = pick(seed, 10);

        if (what == 0) {
            sbuf_add_char(input, '\0');
        } else if (what <= 2) {
            sbuf_add_char(input, (char)next_random(seed));
        } else {
            sbuf_add_str(input, tokens[pick(seed, LEN(tokens))]);
        }
    }
}

static void
test_feed_random_inputs(void **state)
{
    uint64_t seed = 0x5EED5EED5EED5EEDull;

    (void)state;
    for (size_t i = 0; i < N_RANDOM_INPUTS; i++) {
        struct sanitizer s = {.context = (enum sanitize_context)pick(&seed, 6)};
        struct sanitizer cut;
        struct sbuf input;
        struct sbuf whole;
        struct sbuf pieces;
        const char *wrong;

        /* Half of them where most can go wrong. */
        s.context = pick(&seed, 2) == 0 ? SANITIZE_PROGRAM : s.context;
        s.no_color = pick(&seed, 4) == 0;
        s.line_restart_as_lf = pick(&seed, 4) == 0;
        cut = s;
        sbuf_init(&input, MAX_OUT_BYTES);
        sbuf_init(&whole, MAX_OUT_BYTES);
        sbuf_init(&pieces, MAX_OUT_BYTES);
        make_random_input(&seed, &input);

        run_cut(&s, input.data, input.len, (struct cut){.at = input.len},
                &whole);
        wrong = sanitize_check(&s, input.len, whole.data, whole.len);
        if (wrong != NULL) {
            fail_msg("input %zu, context %s: %s: %s", i,
                     context_names[s.context], wrong, whole.data);
        }
        run_cut(&cut, input.data, input.len,
                i % 2 == 0 ? (struct cut){.each = 1}
                           : (struct cut){.at = pick(&seed, input.len + 1)},
                &pieces);
        assert_int_equal(pieces.len, whole.len);
        assert_memory_equal(pieces.data, whole.data, whole.len);
        assert_int_equal(cut.n_restarts, s.n_restarts);
        assert_int_equal(cut.n_dropped, s.n_dropped);
        sbuf_fini(&input);
        sbuf_fini(&whole);
        sbuf_fini(&pieces);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed_vectors_with_every_cut),
        cmocka_unit_test(test_text_cases),
        cmocka_unit_test(test_feed_options),
        cmocka_unit_test(test_end_makes_ready_for_another_text),
        cmocka_unit_test(test_fini_of_an_open_name),
        cmocka_unit_test(test_name_too_long),
        cmocka_unit_test(test_feed_random_inputs),
    };

    return cmocka_run_group_tests_name("sanitize", tests, NULL, NULL);
}
