/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
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
#include "base/secret.h"
#include "base/str.h"

static char *
make_dir(void)
{
    char *dir = xstrdup("/tmp/test_config.XXXXXX");

    assert_non_null(mkdtemp(dir));
    return dir;
}

static void
remove_dir(char *dir)
{
    assert_int_equal(io_remove_tree(dir, NULL), 0);
    free(dir);
}

static void
write_file(const char *path, const char *text, size_t len, mode_t mode)
{
    struct error err = {0};

    if (io_replace(path, text, len, mode, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(chmod(path, mode), 0);
}

static void
clear_env(void)
{
    unsetenv("ANTHROPIC_API_KEY");
    unsetenv("ANTHROPIC_AUTH_TOKEN");
    unsetenv("ANTHROPIC_BASE_URL");
}

static int
set_up(void **state)
{
    (void)state;
    clear_env();
    return 0;
}

/* What the key is, for comparing. */
static const char *
key_of(const struct config *c)
{
    return c->api_key != NULL ? secret_expose(c->api_key) : NULL;
}

static void
test_init_has_built_in_values(void **state)
{
    struct config c;

    (void)state;
    config_init(&c);
    assert_string_equal(c.model, "claude-opus-5-5");
    assert_string_equal(c.base_url, "https://api.anthropic.com");
    assert_string_equal(c.key_header, "bearer");
    assert_string_equal(c.graphics, "auto");
    assert_string_equal(c.thinking, "show");
    assert_int_equal(c.rounds, 20);
    assert_int_equal(c.cell_seconds, 120);
    assert_int_equal(c.drop_uid, -1);
    assert_null(c.api_key);
    assert_null(c.effort);
    assert_null(c.key_source);
    config_fini(&c);
    config_fini(&c);
}

struct args_case {
    const char *name;
    const char *argv[8];
    const char *expect_error; /* NULL: none */
    const char *expect_question;
    const char *expect_files; /* joined by "|" */
    bool expect_demo;
};

static const struct args_case args_cases[] = {
    {"nothing", {"sp"}, NULL, NULL, "", false},
    {"files", {"sp", "a.csv", "b c.csv"}, NULL, NULL, "a.csv|b c.csv", false},
    {"options among files",
     {"sp", "a", "-c", "why?", "b", "--demo"},
     NULL,
     "why?",
     "a|b",
     true},
    {"joined short", {"sp", "-cwhy"}, NULL, "why", "", false},
    {"joined long", {"sp", "--command=a=b"}, NULL, "a=b", "", false},
    {"behind --", {"sp", "--", "-c", "--demo"}, NULL, NULL, "-c|--demo", false},
    {"a lone dash", {"sp", "-"}, NULL, NULL, "-", false},
    {"value that looks like one",
     {"sp", "-c", "--demo"},
     NULL,
     "--demo",
     "",
     false},
    {"unknown",
     {"sp", "--dmeo"},
     "unknown option '--dmeo'; the nearest is '--demo'",
     NULL,
     "",
     false},
    {"unknown with a value",
     {"sp", "--comand=SECRET"},
     "unknown option '--comand'; the nearest is '--command'",
     NULL,
     "",
     false},
    {"far away",
     {"sp", "--xyzzyx"},
     "unknown option '--xyzzyx'; see --help",
     NULL,
     "",
     false},
    {"unknown short",
     {"sp", "-x"},
     "unknown option '-x'; see --help",
     NULL,
     "",
     false},
    {"flag with a value",
     {"sp", "--demo=1"},
     "--demo takes no value: '1'",
     NULL,
     "",
     false},
    {"value missing",
     {"sp", "-c"},
     "--command needs QUESTION",
     NULL,
     "",
     false},
    {"value empty",
     {"sp", "-c", ""},
     "--command: the value is empty",
     NULL,
     "",
     false},
    {"file empty", {"sp", ""}, "a file name is empty", NULL, "", false},
    {"not one of the words",
     {"sp", "--graphics", "kitty"},
     "--graphics: 'kitty' is not one of auto|sixel|none",
     NULL,
     "",
     false},
};

static void
test_read_args_of_every_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(args_cases); i++) {
        const struct args_case *t = &args_cases[i];
        AUTO_SBUF struct sbuf files = {0};
        struct config c;
        struct error err = {0};
        int argc = 0;
        int rc = 0;
        char *argv[8] = {NULL};

        while (argc < 8 && t->argv[argc] != NULL) {
            argv[argc] = xstrdup(t->argv[argc]);
            argc++;
        }
        config_init(&c);
        rc = config_read_args(&c, argc, argv, &err);
        if (rc != (t->expect_error != NULL ? -1 : 0))
            fail_msg("%s: %d, %s", t->name, rc, err.msg);
        if (rc < 0) {
            assert_int_equal(err.code, ERR_USAGE);
            assert_string_equal(err.msg, t->expect_error);
        } else {
            sbuf_init(&files, 1000);
            for (size_t k = 0; k < c.n_files; k++) {
                if (k > 0)
                    sbuf_add_char(&files, '|');
                sbuf_add_str(&files, c.files[k]);
            }
            if (!str_eq(files.data, t->expect_files) ||
                !str_eq(c.question, t->expect_question) ||
                c.demo != t->expect_demo)
                fail_msg("%s: files %s, question %s", t->name, files.data,
                         c.question != NULL ? c.question : "-");
        }
        for (int k = 0; k < argc; k++)
            free(argv[k]);
        config_fini(&c);
    }
}

struct yaml_case {
    const char *name;
    const char *text;
    const char *expect_error; /* behind the path; NULL: none */
};

static const struct yaml_case yaml_cases[] = {
    {"empty", "", NULL},
    {"comment only", "# nothing\n", NULL},
    {"empty section", "model:\nlimits:\n", NULL},
    {"two sections", "model:\n  name: m\nlimits:\n  rounds: 3\n", NULL},
    {"quoted", "\"model\":\n  'name': \"a b\"\n", NULL},
    {"flow", "{model: {name: m}, display: {color: never}}", NULL},
    {"unknown key", "model:\n  api_kye: SECRET\n",
     ":2:3: unknown key 'model.api_kye'; the nearest is 'model.api_key'"},
    {"unknown section", "modle:\n  name: m\n", ":1:1: unknown key 'modle'"},
    {"key at top", "limits:\n  rounds: 2\nname: x\n",
     ":3:1: unknown key 'name': write it below 'model:', moved"},
    {"twice", "limits:\n  rounds: 2\n  rounds: 3\n",
     ":3:3: limits.rounds is there twice"},
    {"twice in two sections", "limits:\n  rounds: 2\nlimits:\n  rounds: 3\n",
     ":4:3: limits.rounds is there twice"},
    {"below the range", "limits:\n  rounds: 0\n", ":2:11: limits.rounds: "},
    {"above the range", "limits:\n  rounds: 201\n", ":2:11: limits.rounds: "},
    {"no number", "limits:\n  rounds: many\n", ":2:11: limits.rounds: "},
    {"value empty", "model:\n  name: \"\"\n", ":2:9: model.name: "},
    {"value missing", "model:\n  name:\n", ": model.name: "},
    {"a list", "model:\n  name: [a]\n", ":2:9: model.name: expected one value"},
    {"a mapping", "model:\n  name: {a: b}\n",
     ":2:9: model.name: expected one value"},
    {"section is text", "model: x\n", ":1:8: model: expected keys below it"},
    {"root is text", "model\n", ":1:1: expected sections"},
    {"root is a list", "- model\n", ":1:1: expected sections"},
    {"name is a list", "[a]: b\n", ":1:1: expected a name"},
    {"name below is a list", "model:\n  [a]: b\n", ":2:3: expected a name"},
    {"not one of the words", "model:\n  effort: huge\n",
     ":2:11: model.effort: 'huge' is not one of low|medium|high|xhigh|max"},
    {"not YAML", "model: [\n", ":2:1: "},
    {"tab", "model:\n\tname: x\n", ":2:1: "},
    {"NUL in a value", "model:\n  name: \"a\\0b\"\n",
     ":2:9: model.name: expected one value"},
    {"a second document", "model:\n  name: m\n---\nlimits:\n  rounds: 3\n",
     ":3:1: a second document"},
    {"a second document behind an empty one", "---\n---\nmodel:\n",
     ":2:1: a second document"},
    {"a second document that is broken", "model:\n---\nlimits: [\n", ":4:1: "},
    {"one marked document", "---\nmodel:\n  name: m\n...\n", NULL},
    {"a secret as a key", "model:\n  sk-ant-SECRET-0123456789: x\n",
     ":2:3: unknown key, not repeated"},
    {"a secret as a section", "sk-ant-SECRET-0123456789: x\n",
     ":1:1: unknown key, not repeated"},
    {"a secret with a dot",
     "model:\n  a.SECRET012345678901234567890123456789012345: x\n",
     ":2:3: unknown key, not repeated"},
    {"a secret as a word", "model:\n  key_header: sk-ant-SECRET-0123456789\n",
     ":2:15: model.key_header: the value, not repeated"},
    {"a secret as a number", "limits:\n  rounds: sk-ant-SECRET-0123456789\n",
     ":2:11: limits.rounds: the value, not repeated"},
    {"a password in the address",
     "model:\n  base_url: https://me:SECRET@example.org/x\n",
     ":2:13: model.base_url: an address with a user name"},
    {"a password in an address without scheme",
     "model:\n  base_url: me:SECRET@example.org\n",
     ":2:13: model.base_url: an address with a user name"},
    {"an address without scheme", "model:\n  base_url: example.org/SECRET\n",
     ":2:13: model.base_url: an address begins with http"},
    {"an address of a program", "model:\n  base_url: ftp://SECRET\n",
     ":2:13: model.base_url: an address begins with http"},
    {"an address without a host", "model:\n  base_url: https:///SECRET\n",
     ":2:13: model.base_url: an address without a host"},
    {"an address of a port", "model:\n  base_url: https://:80\n",
     ":2:13: model.base_url: an address without a host"},
    {"an address with a query", "model:\n  base_url: https://a/?SECRET\n",
     ":2:13: model.base_url: an address with a '?'"},
    {"an address with a fragment", "model:\n  base_url: https://a#SECRET\n",
     ":2:13: model.base_url: an address with a '?'"},
    {"an address without a protocol", "model:\n  base_url: localhost:11434\n",
     ":2:13: model.base_url: an address begins with http:// or https://"},
    {"a tab", "model:\n\tapi_key: x\n",
     ":2:1: a tab; blanks are needed at the beginning of a line"},
    {"an at sign in the path", "model:\n  base_url: https://example.org/x@y\n",
     NULL},
    {"an alias of itself", "model: &a\n  name: *a\n", NULL},
};

static void
test_read_rest_of_every_file(void **state)
{
    char *dir = make_dir();
    AUTO_FREE char *path = paths_join(dir, "c.yaml");

    (void)state;
    for (size_t i = 0; i < LEN(yaml_cases); i++) {
        const struct yaml_case *t = &yaml_cases[i];
        struct config c;
        struct error err = {0};
        int rc = 0;

        write_file(path, t->text, strlen(t->text), 0600);
        config_init(&c);
        c.config_file = xstrdup(path);
        rc = config_read_rest(&c, &err);
        if (str_eq(t->name, "an alias of itself")) {
            assert_int_equal(rc, -1);
            assert_int_equal(err.code, ERR_CONFIG);
        } else if (rc != (t->expect_error != NULL ? -1 : 0)) {
            fail_msg("%s: %d, %s", t->name, rc, err.msg);
        } else if (rc < 0) {
            assert_int_equal(err.code, ERR_CONFIG);
            assert_true(str_starts(err.msg, path));
            if (strstr(err.msg, t->expect_error) == NULL)
                fail_msg("%s: %s", t->name, err.msg);
            assert_null(strstr(err.msg, "SECRET"));
        }
        config_fini(&c);
    }
    remove_dir(dir);
}

static void
test_read_rest_values_arrive(void **state)
{
    static const char TEXT[] = "model:\n  name: m1\n  api_key: k1\n"
                               "  base_url: http://a\n  max_tokens: 5\n"
                               "limits:\n  rounds: 200\nsandbox:\n"
                               "  drop_uid: 4294967294\n";
    char *dir = make_dir();
    AUTO_FREE char *path = paths_join(dir, "c.yaml");
    struct config c;
    struct error err = {0};

    (void)state;
    write_file(path, TEXT, strlen(TEXT), 0600);
    config_init(&c);
    c.config_file = xstrdup(path);
    if (config_read_rest(&c, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(c.model, "m1");
    assert_string_equal(key_of(&c), "k1");
    assert_string_equal(c.key_source, path);
    assert_string_equal(c.base_url, "http://a");
    assert_int_equal(c.max_tokens, 5);
    assert_int_equal(c.rounds, 200);
    assert_int_equal(c.drop_uid, 4294967294);
    config_fini(&c);
    remove_dir(dir);
}

struct env_case {
    const char *name;
    const char *key;
    const char *token;
    const char *url;
    const char *expect_key;
    const char *expect_source; /* NULL: the file */
    const char *expect_url;
};

static const struct env_case env_cases[] = {
    {"none", NULL, NULL, NULL, "file", NULL, "http://file"},
    {"key", "k", NULL, NULL, "k", "ANTHROPIC_API_KEY", "http://file"},
    {"token", NULL, "t", NULL, "t", "ANTHROPIC_AUTH_TOKEN", "http://file"},
    {"key over token", "k", "t", "http://env", "k", "ANTHROPIC_API_KEY",
     "http://env"},
    {"empty ones", "", "", "", "file", NULL, "http://file"},
    {"blank key, token", " \n", "t", NULL, "t", "ANTHROPIC_AUTH_TOKEN",
     "http://file"},
    {"blank ones", "  ", "\t", " ", "file", NULL, "http://file"},
    {"empty key, token", "", "t", NULL, "t", "ANTHROPIC_AUTH_TOKEN",
     "http://file"},
};

static void
set_env(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void
test_read_rest_environment_wins_over_file(void **state)
{
    static const char TEXT[] =
        "model:\n  api_key: file\n  base_url: http://file\n";
    char *dir = make_dir();
    AUTO_FREE char *path = paths_join(dir, "c.yaml");

    (void)state;
    write_file(path, TEXT, strlen(TEXT), 0600);
    for (size_t i = 0; i < LEN(env_cases); i++) {
        const struct env_case *t = &env_cases[i];
        struct config c;
        struct error err = {0};

        set_env("ANTHROPIC_API_KEY", t->key);
        set_env("ANTHROPIC_AUTH_TOKEN", t->token);
        set_env("ANTHROPIC_BASE_URL", t->url);
        config_init(&c);
        c.config_file = xstrdup(path);
        if (config_read_rest(&c, &err) < 0)
            fail_msg("%s: %s", t->name, err.msg);
        if (!str_eq(key_of(&c), t->expect_key) ||
            !str_eq(c.base_url, t->expect_url) ||
            !str_eq(c.key_source,
                    t->expect_source != NULL ? t->expect_source : path))
            fail_msg("%s: %s from %s, %s", t->name, key_of(&c), c.key_source,
                     c.base_url);
        assert_null(getenv("ANTHROPIC_API_KEY"));
        assert_null(getenv("ANTHROPIC_AUTH_TOKEN"));
        config_fini(&c);
    }
    clear_env();
    remove_dir(dir);
}

static void
test_read_rest_options_win_and_environment_is_wiped_on_failure(void **state)
{
    static const char TEXT[] = "display:\n  graphics: none\n";
    static const char BAD[] = "display:\n  grapics: none\n";
    char *dir = make_dir();
    AUTO_FREE char *path = paths_join(dir, "c.yaml");
    AUTO_FREE char *option = xasprintf("--config=%s", path);
    char name[] = "sp";
    char sixel[] = "--graphics=sixel";
    char *argv[] = {name, option, sixel};
    struct config c;
    struct error err = {0};

    (void)state;
    write_file(path, TEXT, strlen(TEXT), 0600);
    config_init(&c);
    assert_int_equal(config_read_args(&c, 3, argv, &err), 0);
    assert_int_equal(config_read_rest(&c, &err), 0);
    assert_string_equal(c.graphics, "sixel");
    config_fini(&c);

    write_file(path, BAD, strlen(BAD), 0600);
    setenv("ANTHROPIC_API_KEY", "k", 1);
    config_init(&c);
    assert_int_equal(config_read_args(&c, 3, argv, &err), 0);
    assert_int_equal(config_read_rest(&c, &err), -1);
    assert_null(getenv("ANTHROPIC_API_KEY"));
    config_fini(&c);
    remove_dir(dir);
}

/* Each of these is refused before anything of it is believed. */
static void
test_read_rest_refuses_what_is_not_private(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0777};
    char *dir = make_dir();
    AUTO_FREE char *path = paths_join(dir, "c.yaml");
    struct config c;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < LEN(modes); i++) {
        write_file(path, "model:\n  name: m\n", 17, modes[i]);
        config_init(&c);
        c.config_file = xstrdup(path);
        memset(&err, 0, sizeof(err));
        assert_int_equal(config_read_rest(&c, &err), -1);
        assert_int_equal(err.code, ERR_CONFIG);
        if (strstr(err.msg, "chmod 600") == NULL)
            fail_msg("%o: %s", modes[i], err.msg);
        assert_string_equal(c.model, "claude-opus-5-5");
        config_fini(&c);
    }
    if (geteuid() == 0) {
        write_file(path, "", 0, 0600);
        assert_int_equal(chown(path, 12345, 12345), 0);
        config_init(&c);
        c.config_file = xstrdup(path);
        assert_int_equal(config_read_rest(&c, &err), -1);
        assert_non_null(strstr(err.msg, "uid 12345"));
        config_fini(&c);
    }
    remove_dir(dir);
}

static void
expect_refused(const char *path, const char *expect)
{
    struct config c;
    struct error err = {0};

    config_init(&c);
    c.config_file = xstrdup(path);
    assert_int_equal(config_read_rest(&c, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_true(str_starts(err.msg, path));
    if (strstr(err.msg, expect) == NULL)
        fail_msg("%s", err.msg);
    config_fini(&c);
}

static void
test_read_rest_refuses_what_is_no_file(void **state)
{
    char *dir = make_dir();
    AUTO_FREE char *fifo = paths_join(dir, "fifo");
    AUTO_FREE char *missing = paths_join(dir, "missing");
    AUTO_FREE char *large = paths_join(dir, "large");
    AUTO_FREE char *text = xmalloc(300000);

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_refused(fifo, "not a regular file");
    expect_refused(dir, "not a regular file");
    expect_refused(missing, "No such file");
    memset(text, '#', 300000);
    write_file(large, text, 300000, 0600);
    expect_refused(large, "");
    remove_dir(dir);
}

static void
test_read_rest_uses_the_users_own_file(void **state)
{
    char *dir = make_dir();
    AUTO_FREE char *home = paths_join(dir, "sandpiper");
    AUTO_FREE char *path = paths_join(home, "config.yaml");
    AUTO_FREE char *found = NULL;
    struct config c;
    struct error err = {0};

    (void)state;
    setenv("XDG_CONFIG_HOME", dir, 1);
    found = config_default_path();
    assert_string_equal(found, path);
    config_init(&c);
    assert_int_equal(config_read_rest(&c, &err), 0);
    config_fini(&c);
    assert_int_equal(io_make_dirs(home, &err), 0);
    write_file(path, "model:\n  name: mine\n", 20, 0600);
    config_init(&c);
    assert_int_equal(config_read_rest(&c, &err), 0);
    assert_string_equal(c.model, "mine");
    config_fini(&c);
    unsetenv("XDG_CONFIG_HOME");
    remove_dir(dir);
}

static void
test_read_rest_refuses_a_password_in_the_environment(void **state)
{
    char *dir = make_dir();
    struct config c;
    struct error err = {0};

    (void)state;
    setenv("XDG_CONFIG_HOME", dir, 1);
    setenv("ANTHROPIC_BASE_URL", "https://me:SECRET@example.org", 1);
    config_init(&c);
    assert_int_equal(config_read_rest(&c, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.msg, "ANTHROPIC_BASE_URL: an address with"));
    assert_null(strstr(err.msg, "SECRET"));
    config_fini(&c);
    unsetenv("ANTHROPIC_BASE_URL");
    unsetenv("XDG_CONFIG_HOME");
    remove_dir(dir);
}

static void
test_add_help_names_every_option(void **state)
{
    static const char *const options[] = {"-c, --command QUESTION",
                                          "--demo",
                                          "--doctor",
                                          "--replay-model FILE",
                                          "--config FILE",
                                          "--graphics auto|sixel|none",
                                          "-h, --help",
                                          "-V, --version"};
    AUTO_SBUF struct sbuf sb = {0};
    size_t n = 0;

    (void)state;
    sbuf_init(&sb, 65536);
    config_add_help(&sb);
    assert_true(sbuf_ok(&sb));
    for (size_t i = 0; i < LEN(options); i++) {
        if (strstr(sb.data, options[i]) == NULL)
            fail_msg("%s", options[i]);
    }
    for (const char *p = sb.data; *p != '\0'; p += strcspn(p, "\n")) {
        p += *p == '\n';
        if (strcspn(p, "\n") > 80)
            fail_msg("wide: %.*s", (int)strcspn(p, "\n"), p);
    }
    while (config_key_name(n) != NULL)
        assert_non_null(strchr(config_key_name(n++), '.'));
    assert_true(n > 15);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_has_built_in_values),
        cmocka_unit_test(test_read_args_of_every_kind),
        cmocka_unit_test_setup(test_read_rest_of_every_file, set_up),
        cmocka_unit_test_setup(test_read_rest_values_arrive, set_up),
        cmocka_unit_test_setup(test_read_rest_environment_wins_over_file,
                               set_up),
        cmocka_unit_test_setup(
            test_read_rest_options_win_and_environment_is_wiped_on_failure,
            set_up),
        cmocka_unit_test_setup(test_read_rest_refuses_what_is_not_private,
                               set_up),
        cmocka_unit_test_setup(test_read_rest_refuses_what_is_no_file, set_up),
        cmocka_unit_test_setup(test_read_rest_uses_the_users_own_file, set_up),
        cmocka_unit_test(test_read_rest_refuses_a_password_in_the_environment),
        cmocka_unit_test(test_add_help_names_every_option),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
