/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/tools_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/prompt_internal.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude.h"
#include "sandbox/sandbox.h"

struct call_case {
    const char *name;
    const char *tool;
    const char *input;     /* NULL: it was invalid */
    const char *raw_input; /* of an invalid one */
    const char *expect_code;
    const char *expect_why; /* a part of it */
};

static const struct call_case call_cases[] = {
    {"code", "run_python", "{\"code\":\"a = 1\\nb\"}", NULL, "a = 1\nb", NULL},
    {"more than the code", "run_python", "{\"x\":1,\"code\":\"a\"}", NULL, "a",
     NULL},
    {"not ASCII", "run_python", "{\"code\":\"\xC3\xA9\\u00e9\"}", NULL,
     "\xC3\xA9\xC3\xA9", NULL},
    {"unknown tool", "bash\n\"x", "{\"code\":\"a\"}", NULL, NULL,
     "there is no tool named \"bash\\n\\\"x\"; the only one is run_python."},
    {"invalid JSON", "run_python", NULL, "{\"code\": \"a", NULL,
     "{\"INVALID_JSON\":\"{\\\"code\\\": \\\"a\"}"},
    {"invalid, nothing arrived", "run_python", NULL, NULL, NULL,
     "{\"INVALID_JSON\":\"\"}"},
    {"no code", "run_python", "{}", NULL, NULL, "needs one string"},
    {"code is a number", "run_python", "{\"code\":1}", NULL, NULL,
     "needs one string"},
    {"code is null", "run_python", "{\"code\":null}", NULL, NULL,
     "needs one string"},
    {"code is a list", "run_python", "{\"code\":[\"a\"]}", NULL, NULL,
     "needs one string"},
    {"an array", "run_python", "[\"a\"]", NULL, NULL, "needs one string"},
    {"empty", "run_python", "{\"code\":\"\"}", NULL, NULL, "is empty"},
    {"blank", "run_python", "{\"code\":\" \\n\\t\"}", NULL, NULL, "is empty"},
};

static void
test_read_code_of_every_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(call_cases); i++) {
        const struct call_case *t = &call_cases[i];
        AUTO_FREE char *name = xstrdup(t->tool);
        AUTO_FREE char *input = xstrdup(t->input);
        AUTO_FREE char *raw = xstrdup(t->raw_input);
        struct claude_tool_call call = {
            .name = name, .input = input, .raw_input = raw};
        AUTO_SBUF struct sbuf why = {0};
        AUTO_FREE char *code = NULL;

        sbuf_init(&why, 4096);
        code = tools_read_code(&call, &why);
        if (!str_eq(code, t->expect_code))
            fail_msg("%s: %s", t->name, code != NULL ? code : why.data);
        if (t->expect_why == NULL) {
            assert_int_equal(why.len, 0);
        } else {
            assert_true(str_starts(why.data, "Not executed: "));
            if (strstr(why.data, t->expect_why) == NULL)
                fail_msg("%s: %s", t->name, why.data);
        }
    }
}

static void
test_read_code_that_is_too_long(void **state)
{
    struct sbuf input;
    char name[] = "run_python";
    struct claude_tool_call call = {.name = name};

    (void)state;
    for (size_t over = 0; over < 2; over++) {
        AUTO_SBUF struct sbuf why = {0};
        AUTO_FREE char *code = NULL;

        sbuf_init(&input, 2u << 20);
        sbuf_add_str(&input, "{\"code\":\"");
        sbuf_add_repeat(&input, 'x', SANDBOX_MAX_CODE_BYTES + over);
        sbuf_add_str(&input, "\"}");
        call.input = input.data;
        sbuf_init(&why, 4096);
        code = tools_read_code(&call, &why);
        assert_int_equal(code == NULL, over == 1);
        assert_int_equal(strstr(why.data, "the limit is") != NULL, over == 1);
        sbuf_fini(&input);
    }
}

static void
test_tools_is_one_tool_of_one_string(void **state)
{
    struct error err = {0};
    AUTO_JSON struct cJSON *tools =
        json_parse(agent_tools(), strlen(agent_tools()), 0, &err);
    const struct cJSON *schema = NULL;

    (void)state;
    assert_non_null(tools);
    assert_int_equal(json_len(tools), 1);
    assert_string_equal(json_string(json_item(tools, 0), "name"), "run_python");
    schema = json_get(json_item(tools, 0), "input_schema");
    assert_int_equal(json_len(json_get(schema, "required")), 1);
    assert_string_equal(
        json_string(json_get(json_get(schema, "properties"), "code"), "type"),
        "string");
}

/* The embedded file has no final zero, the text that is given out has. */
static void
test_system_prompt_is_the_whole_file(void **state)
{
    const char *prompt = agent_system_prompt();

    (void)state;
    assert_int_equal(strlen(prompt), prompt_system_md_len);
    assert_memory_equal(prompt, prompt_system_md, prompt_system_md_len);
    assert_true(utf8_valid(prompt, strlen(prompt)));
    assert_ptr_equal(prompt, agent_system_prompt());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_code_of_every_kind),
        cmocka_unit_test(test_read_code_that_is_too_long),
        cmocka_unit_test(test_tools_is_one_tool_of_one_string),
        cmocka_unit_test(test_system_prompt_is_the_whole_file),
    };

    return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
