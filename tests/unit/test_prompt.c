/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"

#define TEXT(bytes) bytes, sizeof(bytes) - 1

struct prompt_case {
    const char *name;
    const char *bytes;
    size_t len;
    const char *expect_error; /* part of it; NULL: it is taken as it is */
};

static const struct prompt_case prompt_cases[] = {
    {"words", TEXT("Be short.\n"), NULL},
    {"words behind a byte order mark",
     TEXT("\xEF\xBB\xBF"
          "Be short."),
     NULL},
    {"words among spaces", TEXT("\xC2\xA0 a \xE3\x80\x80"), NULL},
    {"a character of three bytes", TEXT("\xE2\x82\xAC"), NULL},
    {"nothing", TEXT(""), "the system prompt is empty"},
    {"blanks", TEXT(" \t\r\n\v\f"), "the system prompt is empty"},
    {"no-break space", TEXT("\xC2\xA0"), "the system prompt is empty"},
    {"byte order mark", TEXT("\xEF\xBB\xBF"), "the system prompt is empty"},
    {"byte order mark and a line", TEXT("\xEF\xBB\xBF\r\n"),
     "the system prompt is empty"},
    {"next line", TEXT("\xC2\x85\n"), "the system prompt is empty"},
    {"em space and ideographic space", TEXT("\xE2\x80\x83\xE3\x80\x80"),
     "the system prompt is empty"},
    {"line and paragraph separators", TEXT("\xE2\x80\xA8\xE2\x80\xA9"),
     "the system prompt is empty"},
    {"narrow, mathematical, ogham",
     TEXT("\xE2\x80\xAF\xE2\x81\x9F\xE1\x9A\x80"),
     "the system prompt is empty"},
    {"spaces without width", TEXT("\xE2\x80\x8B\xE2\x81\xA0"),
     "the system prompt is empty"},
    {"broken UTF-8", TEXT("a\xC2"), "no valid UTF-8 text"},
    {"a NUL", TEXT("a\0b"), "no valid UTF-8 text"},
};

static void
check(const char *path, const struct prompt_case *c)
{
    AUTO_FREE char *prompt = NULL;
    struct error err = {0};
    int rc;

    assert_int_equal(io_replace(path, c->bytes, c->len, 0600, &err), 0);
    rc = agent_read_prompt(path, &prompt, &err);
    if ((rc == 0) != (c->expect_error == NULL))
        fail_msg("%s: %d %s", c->name, rc, err.msg);
    if (rc == 0) {
        assert_int_equal(strlen(prompt), c->len);
        assert_memory_equal(prompt, c->bytes, c->len);
        return;
    }
    assert_null(prompt);
    assert_int_equal(err.code, ERR_CONFIG);
    if (strstr(err.msg, c->expect_error) == NULL ||
        strstr(err.msg, path) == NULL)
        fail_msg("%s: %s", c->name, err.msg);
}

static void
test_read_prompt_cases(void **state)
{
    char dir[] = "/tmp/test_prompt_XXXXXX";
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *prompt = NULL;
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    path = paths_join(dir, "system.md");
    assert_int_equal(agent_read_prompt(path, &prompt, &err), 0);
    assert_null(prompt);
    for (size_t i = 0; i < LEN(prompt_cases); i++)
        check(path, &prompt_cases[i]);
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

static void
test_read_prompt_that_is_long(void **state)
{
    char dir[] = "/tmp/test_prompt_XXXXXX";
    AUTO_FREE char *path = NULL;
    AUTO_SBUF struct sbuf text = {0};
    struct prompt_case c = {.name = "64 KiB"};
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    path = paths_join(dir, "system.md");
    sbuf_init(&text, 1u << 20);
    sbuf_add_repeat(&text, 'a', 64u << 10);
    c.bytes = text.data;
    c.len = text.len;
    check(path, &c);
    sbuf_add_char(&text, 'a');
    c = (struct prompt_case){"a byte more", text.data, text.len,
                             "at most 65536 bytes"};
    check(path, &c);
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_prompt_cases),
        cmocka_unit_test(test_read_prompt_that_is_long),
    };

    return cmocka_run_group_tests_name("prompt", tests, NULL, NULL);
}
