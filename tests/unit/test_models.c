/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/models_internal.h"

static bool
has(const struct config_models *m, const char *name)
{
    for (size_t i = 0; i < m->n_models; i++) {
        if (str_eq(m->models[i].name, name))
            return true;
    }
    return false;
}

/* The entry of that name, which is there. */
static const struct config_model *
find(const struct config_models *m, const char *name)
{
    size_t i = 0;

    while (i < m->n_models && !str_eq(m->models[i].name, name))
        i++;
    assert_true(i < m->n_models);
    return &m->models[i];
}

static int
read_text(struct config_models *m, const char *text, struct error *err)
{
    return config_models_read_text(m, "own.yaml", text, strlen(text), err);
}

/* What the program has built in. */
static void
test_built_in_table(void **state)
{
    static const int64_t haiku_long[CONFIG_N_RATES] = {500000, 2500000, 625000,
                                                       1000000, 50000};
    struct config_models m = {0};
    struct error err = {0};
    const struct config_model *opus = NULL;
    const struct config_model *haiku = NULL;

    (void)state;
    if (config_models_read_text(&m, "models.yaml", (const char *)models_yaml,
                                models_yaml_len, &err) < 0)
        fail_msg("%s", err.msg);
    opus = find(&m, "claude-opus-5-5");
    haiku = find(&m, "claude-haiku-5-5");
    assert_int_equal(opus->rates[CONFIG_RATE_INPUT], 4000000);
    assert_int_equal(opus->rates[CONFIG_RATE_READ], 200000);
    assert_int_equal(opus->max_output, 128000);
    assert_int_equal(opus->long_above, 0);
    assert_int_equal(haiku->long_above, 100000);
    assert_memory_equal(haiku->long_rates, haiku_long, sizeof(haiku_long));
    for (size_t i = 0; i < m.n_models; i++) {
        const struct config_model *model = &m.models[i];

        /* Each has a date and a limit, and no price is far off. */
        assert_int_equal(strlen(model->date), strlen("2026-11-29"));
        assert_true(model->max_output >= 64000);
        for (size_t k = 0; k < CONFIG_N_RATES; k++)
            assert_in_range(model->rates[k], 10000, 50000000);
        assert_int_equal(model->rates[CONFIG_RATE_WRITE_5M] * 4,
                         model->rates[CONFIG_RATE_INPUT] * 5);
        assert_int_equal(model->rates[CONFIG_RATE_WRITE_1H],
                         model->rates[CONFIG_RATE_INPUT] * 2);
    }
    config_models_fini(&m);
}

static void
test_own_entry_replaces_the_whole(void **state)
{
    struct config_models m = {0};
    struct error err = {0};
    const struct config_model *a = NULL;

    (void)state;
    assert_int_equal(read_text(&m,
                               "date: 2026-01-01\n"
                               "models:\n"
                               "  a: {input: 1, output: 2, cache_read: 0.5,\n"
                               "      max_output: 10}\n"
                               "  b: {input: 3, output: 4}\n",
                               &err),
                     0);
    assert_int_equal(
        read_text(&m, "models:\n  a: {input: 8, output: 16}\n", &err), 0);
    assert_int_equal(m.n_models, 2);
    a = find(&m, "a");
    assert_int_equal(a->rates[CONFIG_RATE_INPUT], 8000000);
    assert_int_equal(a->rates[CONFIG_RATE_WRITE_5M], 10000000);
    assert_int_equal(a->rates[CONFIG_RATE_WRITE_1H], 16000000);
    assert_int_equal(a->rates[CONFIG_RATE_READ], 8000000);
    assert_int_equal(a->max_output, 0);
    assert_null(a->date);
    assert_string_equal(find(&m, "b")->date, "2026-01-01");
    config_models_fini(&m);
}

struct bad_case {
    const char *text;
    const char *expect;
};

static const struct bad_case bad_cases[] = {
    {"models:\n  a:\n    input: x\n    output: 1\n",
     "own.yaml:3:12: input: x is no number from 0 to 1000 with at most 6 "
     "decimals"},
    {"models:\n  a: {input: 1001, output: 1}\n",
     "own.yaml:2:14: input: 1001 is no number"},
    {"models:\n  a: {input: -1, output: 1}\n", "input: -1 is no number"},
    {"models:\n  a: {input: 0.1234567, output: 1}\n",
     "input: 0.1234567 is no number"},
    {"models:\n  a: {input: 1}\n", "own.yaml: a: input or output is missing"},
    {"models:\n  a: {output: 1}\n", "own.yaml: a: input or output is missing"},
    {"models:\n  a: {inputs: 1, output: 1}\n",
     "own.yaml:2:15: unknown name 'inputs'; the nearest is 'input'"},
    {"models:\n  a: {input: 1, input: 2, output: 1}\n",
     "own.yaml:2:17: input is there twice"},
    {"models:\n  a: {input: 1, output: 1, max_output: 0}\n",
     "max_output: 0 is not a whole number from 1 to 10000000"},
    {"models:\n  a: {input: 1, output: 1}\n  b: {input: 1, output: 1}\n"
     "  a: {input: 2, output: 2}\n",
     "own.yaml:4:3: a is there twice"},
    {"models:\n  a: {input: 1}\n  a: {output: 1}\n",
     "own.yaml:3:3: a is there twice"},
    {"date: 2026-01-01\ndate: 2026-01-02\n",
     "own.yaml:2:1: date is there twice"},
    {"models:\n  a: {input: 1, output: 1, long_prompt: {input: 2, output: "
     "3}}\n",
     "own.yaml: a: long_prompt: above, input or output is missing"},
    {"models:\n  a: {input: 1, output: 1, long_prompt: {above: 5}}\n",
     "own.yaml: a: long_prompt: above, input or output is missing"},
    {"models:\n  a: {input: 1, output: 1, short_prompt: {above: 5}}\n",
     "unknown name 'short_prompt'"},
    {"models:\n  a: {input: 1, output: 1, long_prompt: {abovee: 5}}\n",
     "unknown name 'abovee'; the nearest is 'above'"},
    {"models:\n  a: {input: 1, output: 1, above: 5}\n", "unknown name 'above'"},
    {"models:\n  a: {input: 1, output: 1, long_prompt: {long_prompt: 5}}\n",
     "unknown name 'long_prompt'"},
    {"model:\n  a: 5\n", "own.yaml:2:6: unknown name 'model'"},
    {"- a\n", "own.yaml:1:1: expected names with ':' behind them"},
    {"models: {a: {b: {c: {d: 1}}}}\n", "unknown name 'b'"},
    {"models: {a: {? [b] : 1}}\n", "expected a name before ':'"},
    {"models: {a: {input: \"1\\0\", output: 1}}\n", "a NUL in the value"},
    {"models: [\n", "own.yaml:2:1: "},
    {"models:\n---\nmodels:\n", "a second document begins"},
};

static void
test_text_that_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_cases); i++) {
        struct config_models m = {0};
        struct error err = {0};

        if (read_text(&m, bad_cases[i].text, &err) == 0)
            fail_msg("accepted: %s", bad_cases[i].text);
        assert_int_equal(err.code, ERR_CONFIG);
        if (strstr(err.msg, bad_cases[i].expect) == NULL)
            fail_msg("%s: %s", bad_cases[i].text, err.msg);
        config_models_fini(&m);
    }
}

/* Every name there is, with what it may not be. */

#define RATE "a number from 0 to 1000 with at most 6 decimals"
#define TOKENS "a whole number from 1 to 10000000"
#define MODELS "names of models below it"
#define RATES "names below it: input, output"
#define LONG "names below it: above, input, output"

struct type_case {
    const char *begin; /* the text up to the value */
    const char *end;
    const char *name;
    const char *expect;
    bool is_group; /* names are expected below it */
};

static const struct type_case type_cases[] = {
    {"date: ", "", "date", "a date, such as 2026-11-29", false},
    {"models: ", "", "models", MODELS, true},
    {"models: {m: ", "}", "m", RATES, true},
    {"models: {m: {input: ", "}}", "input", RATE, false},
    {"models: {m: {output: ", "}}", "output", RATE, false},
    {"models: {m: {cache_write_5m: ", "}}", "cache_write_5m", RATE, false},
    {"models: {m: {cache_write_1h: ", "}}", "cache_write_1h", RATE, false},
    {"models: {m: {cache_read: ", "}}", "cache_read", RATE, false},
    {"models: {m: {max_output: ", "}}", "max_output", TOKENS, false},
    {"models: {m: {long_prompt: ", "}}", "long_prompt", LONG, true},
    {"models: {m: {long_prompt: {above: ", "}}}", "above", TOKENS, false},
    {"models: {m: {long_prompt: {input: ", "}}}", "input", RATE, false},
    {"models: {m: {long_prompt: {output: ", "}}}", "output", RATE, false},
    {"models: {m: {long_prompt: {cache_write_5m: ", "}}}", "cache_write_5m",
     RATE, false},
    {"models: {m: {long_prompt: {cache_write_1h: ", "}}}", "cache_write_1h",
     RATE, false},
    {"models: {m: {long_prompt: {cache_read: ", "}}}", "cache_read", RATE,
     false},
};

static void
expect_refused(const char *text, const char *expect)
{
    struct config_models m = {0};
    struct error err = {0};

    if (read_text(&m, text, &err) == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.code, ERR_CONFIG);
    if (strstr(err.msg, expect) == NULL || !str_starts(err.msg, "own.yaml:1:"))
        fail_msg("%s: %s, not %s", text, err.msg, expect);
    assert_int_equal(m.n_models, 0);
    config_models_fini(&m);
}

static void
expect_wrong(const struct type_case *c, const char *value, const char *shown)
{
    AUTO_FREE char *text = xasprintf("%s%s%s\n", c->begin, value, c->end);
    AUTO_FREE char *expect =
        xasprintf(": %s: %s; expected %s", c->name, shown, c->expect);

    expect_refused(text, expect);
}

static void
test_values_of_the_wrong_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(type_cases); i++) {
        const struct type_case *c = &type_cases[i];

        expect_wrong(c, "[1, 2]", "a list");
        if (c->is_group) {
            expect_wrong(c, "5", "'5'");
            expect_wrong(c, "yes", "'yes'");
        } else {
            expect_wrong(c, "{}", "a group of names");
            expect_wrong(c, "{a: 1}", "a group of names");
            expect_wrong(c, "{a: {b: 1}}", "a group of names");
            expect_wrong(c, "''", "nothing");
        }
        /* What is below "models:" may be nothing, and a date is any word. */
        if (c->is_group && !str_eq(c->name, "models")) {
            expect_wrong(c, "", "nothing");
            expect_wrong(c, "{}", "a group of names");
        }
        if (!c->is_group && !str_eq(c->name, "date")) {
            AUTO_FREE char *text = xasprintf("%sfew%s\n", c->begin, c->end);
            AUTO_FREE char *expect = xasprintf(": %s: few is no", c->name);

            expect_refused(text, expect);
        }
    }
}

/* Looked up by halves: thousands of models take no longer for each. */
static void
test_models_are_sorted(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct config_models m = {0};
    struct error err = {0};

    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        sbuf_init(&sb, 1u << 20);
        sbuf_add_str(&sb, "models:\n");
        for (int i = 0; i < 5000; i++)
            sbuf_addf(&sb, "  m%d: {input: %d, output: 1}\n", i * 7919 % 10007,
                      turn);
        if (read_text(&m, sb.data, &err) < 0)
            fail_msg("%s", err.msg);
        sbuf_fini(&sb);
    }
    assert_int_equal(m.n_models, 5000);
    for (size_t i = 0; i < m.n_models; i++) {
        assert_true(i == 0 ||
                    strcmp(m.models[i - 1].name, m.models[i].name) < 0);
        assert_int_equal(m.models[i].rates[CONFIG_RATE_INPUT], 1000000);
    }
    config_models_fini(&m);
}

static void
test_empty_texts_are_fine(void **state)
{
    static const char *const texts[] = {
        "",    "# nothing\n", "models:\n", "date: today\n", "models: {}\n",
        "{}\n"};

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        struct config_models m = {0};
        struct error err = {0};

        if (read_text(&m, texts[i], &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(m.n_models, 0);
        config_models_fini(&m);
    }
}

/* Aliases that would make millions of values of a few lines. */
static void
test_aliases_are_bounded(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct config_models m = {0};
    struct error err = {0};

    (void)state;
    sbuf_init(&sb, 1u << 20);
    sbuf_add_str(&sb, "models:\n  a: &a {input: 1, output: 1}\n");
    for (int i = 0; i < 20000; i++)
        sbuf_addf(&sb, "  m%d: *a\n", i);
    assert_int_equal(read_text(&m, sb.data, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.msg, "more than 40000 values"));
    config_models_fini(&m);
    /* With nothing in them that would count. */
    sbuf_clear(&sb);
    sbuf_add_str(&sb, "models:\n  a: &a {");
    for (int i = 0; i < 400; i++)
        sbuf_addf(&sb, "%sk%d: {}", i > 0 ? ", " : "", i);
    sbuf_add_str(&sb, "}\n  b: &b {long_prompt: *a}\n");
    for (int i = 0; i < 20000; i++)
        sbuf_addf(&sb, "  m%d: *b\n", i);
    assert_int_equal(read_text(&m, sb.data, &err), -1);
    config_models_fini(&m);
}

static void
test_own_file(void **state)
{
    char dir[] = "/tmp/test_models_XXXXXX";
    AUTO_FREE char *config = NULL;
    AUTO_FREE char *path = NULL;
    static const char text[] = "models:\n  new: {input: 1, output: 2}\n";
    struct config_models m = {0};
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    setenv("XDG_CONFIG_HOME", dir, 1);
    config = paths_join(dir, "sandpiper");
    path = paths_join(config, "models.yaml");
    assert_int_equal(config_read_models(&m, &err), 0);
    assert_false(has(&m, "new"));
    config_models_fini(&m);
    assert_int_equal(io_make_dirs(config, &err), 0);
    assert_int_equal(io_replace(path, text, strlen(text), 0644, &err), 0);
    assert_int_equal(config_read_models(&m, &err), 0);
    assert_true(has(&m, "new"));
    assert_true(has(&m, "claude-opus-5-5"));
    config_models_fini(&m);
    /* Something that is no file. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(config_read_models(&m, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.msg, path));
    config_models_fini(&m);
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in_table),
        cmocka_unit_test(test_own_entry_replaces_the_whole),
        cmocka_unit_test(test_text_that_is_refused),
        cmocka_unit_test(test_values_of_the_wrong_type),
        cmocka_unit_test(test_models_are_sorted),
        cmocka_unit_test(test_empty_texts_are_fine),
        cmocka_unit_test(test_aliases_are_bounded),
        cmocka_unit_test(test_own_file),
    };

    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}
