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

static const char *const one[] = {"python", NULL};
static const char *const many[] = {"python", "javascript", "r", NULL};

static const struct sandbox_caps local = {.languages = one};
static const struct sandbox_caps service = {
    .languages = many, .has_network = true, .is_remote = true};

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
        AUTO_FREE char *language = NULL;

        sbuf_init(&why, 4096);
        code = tools_read_code(&call, &local, &language, &why);
        if (!str_eq(code, t->expect_code))
            fail_msg("%s: %s", t->name, code != NULL ? code : why.data);
        assert_null(language);
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
        AUTO_FREE char *language = NULL;

        sbuf_init(&input, 2u << 20);
        sbuf_add_str(&input, "{\"code\":\"");
        sbuf_add_repeat(&input, 'x', SANDBOX_MAX_CODE_BYTES + over);
        sbuf_add_str(&input, "\"}");
        call.input = input.data;
        sbuf_init(&why, 4096);
        code = tools_read_code(&call, &local, &language, &why);
        assert_int_equal(code == NULL, over == 1);
        assert_int_equal(strstr(why.data, "the limit is") != NULL, over == 1);
        sbuf_fini(&input);
    }
}

#define ONLY_MANY "\"language\" can be: python, javascript, r."

struct language_case {
    const char *name;
    const struct sandbox_caps *caps;
    const char *input;
    const char *expect; /* language; "": Python; NULL: it is not run */
    const char *expect_why;
};

static const struct language_case language_cases[] = {
    {"none", &service, "{\"code\":\"a\"}", "", NULL},
    {"null", &service, "{\"code\":\"a\",\"language\":null}", "", NULL},
    {"python", &service, "{\"code\":\"a\",\"language\":\"python\"}", "", NULL},
    {"another", &service, "{\"code\":\"a\",\"language\":\"r\"}", "r", NULL},
    {"one that is not there", &service,
     "{\"code\":\"a\",\"language\":\"perl\"}", NULL,
     "does not run \"perl\"; " ONLY_MANY},
    {"other case", &service, "{\"code\":\"a\",\"language\":\"R\"}", NULL,
     "does not run \"R\"; " ONLY_MANY},
    {"empty", &service, "{\"code\":\"a\",\"language\":\"\"}", NULL,
     "does not run \"\"; " ONLY_MANY},
    {"a beginning", &service, "{\"code\":\"a\",\"language\":\"java\"}", NULL,
     "does not run \"java\"; " ONLY_MANY},
    {"quotes", &service, "{\"code\":\"a\",\"language\":\"\\\"\\n\"}", NULL,
     "does not run \"\\\"\\n\"; " ONLY_MANY},
    {"a number", &service, "{\"code\":\"a\",\"language\":1}", NULL,
     "\"language\" is no string; it can be: python, javascript, r."},
    {"a list", &service, "{\"code\":\"a\",\"language\":[\"r\"]}", NULL,
     "\"language\" is no string"},
    {"false", &service, "{\"code\":\"a\",\"language\":false}", NULL,
     "\"language\" is no string"},
    {"without code", &service, "{\"language\":\"r\"}", NULL,
     "needs one string"},
    {"local: python", &local, "{\"code\":\"a\",\"language\":\"python\"}", "",
     NULL},
    {"local: another", &local, "{\"code\":\"a\",\"language\":\"r\"}", NULL,
     "does not run \"r\"; \"language\" can be: python."},
};

static void
test_read_code_of_every_language(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(language_cases); i++) {
        const struct language_case *t = &language_cases[i];
        AUTO_FREE char *input = xstrdup(t->input);
        char name[] = "run_python";
        struct claude_tool_call call = {.name = name, .input = input};
        AUTO_SBUF struct sbuf why = {0};
        AUTO_FREE char *code = NULL;
        AUTO_FREE char *language = NULL;

        sbuf_init(&why, 4096);
        code = tools_read_code(&call, t->caps, &language, &why);
        if ((code != NULL) != (t->expect != NULL) ||
            !str_eq(language != NULL ? language : "",
                    t->expect != NULL ? t->expect : ""))
            fail_msg("%s: %s %s", t->name, language, why.data);
        if (t->expect_why == NULL)
            assert_int_equal(why.len, 0);
        else if (!str_starts(why.data, "Not executed: ") ||
                 strstr(why.data, t->expect_why) == NULL)
            fail_msg("%s: %s", t->name, why.data);
    }
}

/* A model that has gone astray does not get all of it back. */
static void
test_long_language_is_cut(void **state)
{
    char name[] = "run_python";
    struct claude_tool_call call = {.name = name};
    AUTO_SBUF struct sbuf input = {0};
    AUTO_SBUF struct sbuf why = {0};
    AUTO_FREE char *language = NULL;

    (void)state;
    sbuf_init(&input, 1u << 20);
    sbuf_init(&why, 4096);
    sbuf_add_str(&input, "{\"code\":\"a\",\"language\":\"");
    for (int i = 0; i < 10000; i++)
        sbuf_add_str(&input, "\xC3\xA9");
    sbuf_add_str(&input, "\"}");
    call.input = input.data;
    assert_null(tools_read_code(&call, &service, &language, &why));
    assert_true(sbuf_ok(&why));
    assert_true(why.len < 300);
    assert_true(utf8_valid(why.data, why.len));
    assert_non_null(strstr(why.data, ONLY_MANY));
}

/* What was sent before there was another sandbox: the service keeps what is
   the same. */
static const char LOCAL_TOOLS[] =
    "[{\"name\":\"run_python\",\"description\":"
    "\"Runs Python 3 source as one cell of a persistent interpreter in a "
    "sandbox without network, and returns what it printed, the value of its "
    "last expression, and the error if there was one. Variables and imports "
    "live on from call to call; pandas, numpy and matplotlib are installed. "
    "The user sees the code, its output, tables and charts as they come. "
    "Loaded files are in /workspace/data, read-only, and already are "
    "variables; the working directory is /workspace.\","
    "\"input_schema\":{\"type\":\"object\",\"properties\":"
    "{\"code\":{\"type\":\"string\",\"description\":"
    "\"Python source to run\"}},\"required\":[\"code\"]}}]";

static void
test_tools_of_the_local_sandbox_are_what_they_were(void **state)
{
    AUTO_FREE char *text = agent_tools(&local);

    (void)state;
    assert_string_equal(text, LOCAL_TOOLS);
    assert_null(agent_sandbox_note(&local));
}

struct tools_case {
    const char *name;
    struct sandbox_caps caps;
    size_t n_languages;    /* of the enum; 0: there is no such property */
    const char *expect[4]; /* of the description */
    const char *expect_not[4];
    const char *note[3];
    const char *note_not[3];
};

static const struct tools_case tools_cases[] = {
    {"a service",
     {.languages = many, .has_network = true, .is_remote = true},
     3,
     {"Runs source, Python 3 unless \"language\" says otherwise,",
      "a sandbox with network", "that a service runs, not the user's machine",
      "already are variables of Python"},
     {"without network", "matplotlib are installed"},
     {"A service runs the sandbox", "It has network: code reaches",
      "of the tool: python, javascript, r. Not every"},
     {"no network", "on the person's machine.", "Python only"}},
    {"a service without network",
     {.languages = many, .is_remote = true},
     3,
     {"in a sandbox without network that a service runs", "are as a rule"},
     {"with network"},
     {"A service runs", "has no network, and no package"},
     {"code reaches the internet"}},
    {"a service of one language",
     {.languages = one, .has_network = true, .is_remote = true},
     0,
     {"Runs Python 3 source as one cell", "already are variables; the"},
     {"language"},
     {"Cells are Python only."},
     {"Not every template has each"}},
    {"network on the machine",
     {.languages = one, .has_network = true},
     0,
     {"in a sandbox with network", "matplotlib are installed"},
     {"service", "without network"},
     {"The sandbox is on the person's machine. It has network"},
     {"A service", "no network"}},
};

static void
expect_words(const char *name, const char *text, const char *const *words,
             size_t n, bool there)
{
    for (size_t i = 0; i < n && words[i] != NULL; i++) {
        if ((strstr(text, words[i]) != NULL) != there)
            fail_msg("%s: \"%s\" in\n%s", name, words[i], text);
    }
}

static void
test_tools_are_those_of_the_sandbox(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(tools_cases); i++) {
        const struct tools_case *t = &tools_cases[i];
        AUTO_FREE char *text = agent_tools(&t->caps);
        struct error err = {0};
        AUTO_JSON struct cJSON *tools = json_parse(text, strlen(text), 0, &err);
        const struct cJSON *tool = json_item(tools, 0);
        const struct cJSON *schema = json_get(tool, "input_schema");
        const struct cJSON *properties = json_get(schema, "properties");
        const struct cJSON *language = json_get(properties, "language");
        const struct cJSON *names = json_get(language, "enum");
        const char *description = json_string(tool, "description");

        assert_int_equal(json_len(tools), 1);
        assert_string_equal(json_string(tool, "name"), "run_python");
        assert_int_equal(json_len(json_get(schema, "required")), 1);
        assert_string_equal(json_string(json_get(properties, "code"), "type"),
                            "string");
        assert_int_equal(language != NULL, t->n_languages > 0);
        assert_int_equal(json_len(names), t->n_languages);
        for (size_t k = 0; k < t->n_languages; k++)
            assert_string_equal(json_value_string(json_item(names, k)),
                                t->caps.languages[k]);
        if (language != NULL)
            assert_non_null(strstr(json_string(language, "description"),
                                   "python if it is not given"));
        expect_words(t->name, description, t->expect, LEN(t->expect), true);
        expect_words(t->name, description, t->expect_not, LEN(t->expect_not),
                     false);
    }
}

static void
test_note_is_that_of_the_sandbox(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(tools_cases); i++) {
        const struct tools_case *t = &tools_cases[i];
        AUTO_FREE char *note = agent_sandbox_note(&t->caps);

        assert_non_null(note);
        assert_true(str_ends(note, ".\n"));
        expect_words(t->name, note, t->note, LEN(t->note), true);
        expect_words(t->name, note, t->note_not, LEN(t->note_not), false);
    }
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
        cmocka_unit_test(test_read_code_of_every_language),
        cmocka_unit_test(test_long_language_is_cut),
        cmocka_unit_test(test_tools_of_the_local_sandbox_are_what_they_were),
        cmocka_unit_test(test_tools_are_those_of_the_sandbox),
        cmocka_unit_test(test_note_is_that_of_the_sandbox),
        cmocka_unit_test(test_system_prompt_is_the_whole_file),
    };

    return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
