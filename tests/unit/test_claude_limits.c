/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_limits_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"

/* 2026-11-29T12:00:00Z */
#define NOW_MS INT64_C(1795953600000)

struct header {
    const char *name;
    const char *value;
};

struct limits_case {
    const char *name;
    struct header headers[6];
    const char *expect; /* NULL: nothing is said */
};

static const struct limits_case limits_cases[] = {
    {"nothing", {{NULL, NULL}}, NULL},
    {"something is left",
     {{"anthropic-ratelimit-requests-remaining", "1"},
      {"anthropic-ratelimit-tokens-remaining", "900"}},
     NULL},
    {"requests",
     {{"anthropic-ratelimit-requests-remaining", "0"},
      {"anthropic-ratelimit-requests-reset", "2026-11-29T12:00:12Z"}},
     "no requests are left for 12 s"},
    {"the part before the sum",
     {{"anthropic-ratelimit-tokens-remaining", "0"},
      {"anthropic-ratelimit-tokens-reset", "2026-11-29T12:00:30Z"},
      {"anthropic-ratelimit-input-tokens-remaining", "0"},
      {"anthropic-ratelimit-input-tokens-reset", "2026-11-29T12:02:05.5Z"}},
     "no input tokens are left for 2 min 5 s"},
    {"output tokens without a time",
     {{"anthropic-ratelimit-output-tokens-remaining", "0"}},
     "no output tokens are left"},
    {"a time gone by",
     {{"anthropic-ratelimit-tokens-remaining", "0"},
      {"anthropic-ratelimit-tokens-reset", "2026-11-29T11:59:59Z"}},
     "no tokens are left"},
    {"no time at all",
     {{"anthropic-ratelimit-tokens-remaining", "0"},
      {"anthropic-ratelimit-tokens-reset", "soon\x1b"}},
     "no tokens are left"},
    {"another family",
     {{"anthropic-ratelimit-tokens-remaining", "12"},
      {"anthropic-priority-input-tokens-remaining", "0"}},
     "no input tokens are left"},
};

static const char *
find(const void *ctx, const char *name)
{
    const struct limits_case *c = ctx;

    for (size_t i = 0; i < LEN(c->headers); i++) {
        if (c->headers[i].name != NULL &&
            strcmp(c->headers[i].name, name) == 0) {
            return c->headers[i].value;
        }
    }
    return NULL;
}

static void
test_describe_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(limits_cases); i++) {
        const struct limits_case *c = &limits_cases[i];
        AUTO_FREE char *text = claude_limits_describe(find, c, NOW_MS);

        if ((text == NULL) != (c->expect == NULL) ||
            (text != NULL && strcmp(text, c->expect) != 0)) {
            fail_msg("%s: %s", c->name, text != NULL ? text : "-");
        }
    }
}

static void
test_time_cases(void **state)
{
    static const struct {
        const char *text;
        int64_t expect_ms;
    } cases[] = {
        {"2026-11-29T12:00:00Z", NOW_MS},
        {"2026-11-29T12:00:00.999999z", NOW_MS},
        {"2026-11-29T13:30:00+01:30", NOW_MS},
        {"2026-11-29T07:00:00-05:00", NOW_MS},
        {"2026-11-29T12:00:00", -1},
        {"2026-11-29T12:00:00+1:00", -1},
        {"2026-11-29T12:00:00+01:00x", -1},
        {"2026-11-29T12:00:00Zx", -1},
        {"2026-11-29 12:00:00Z", -1},
        {"2026-13-29T12:00:00Z", -1},
        {"2026-1-9T2:0:0Z", -1},
        {"2026-11-29T 2:00:00Z", -1},
        {" 2026-11-29T12:00:00Z", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        int64_t ms = claude_limits_time_ms(cases[i].text);

        if (ms != cases[i].expect_ms) {
            fail_msg("%s: %lld", cases[i].text, (long long)ms);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe_cases),
        cmocka_unit_test(test_time_cases),
    };

    return cmocka_run_group_tests_name("claude_limits", tests, NULL, NULL);
}
