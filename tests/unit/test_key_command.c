/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/key_command_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"

#define SETTING "sandboxes.work.api_key_command"
#define GUARD_MS 60000

struct scene {
    struct loop *loop;
    struct loop_timer *guard;
    struct key_command *k;
    struct secret *key;
    struct error err;
    int n_done;
    bool free_in_done;
};

static void
on_guard(void *ctx)
{
    (void)ctx;
    fail_msg("it takes too long");
}

static void
on_key(void *ctx, struct secret *key, const struct error *err)
{
    struct scene *s = ctx;

    assert_true((key == NULL) == (err != NULL));
    s->n_done++;
    s->key = key;
    if (err != NULL)
        s->err = *err;
    if (s->free_in_done) {
        key_command_free(s->k);
        s->k = NULL;
    }
    loop_stop(s->loop);
}

static void
begin(struct scene *s, const char *command)
{
    struct error err = {0};

    *s = (struct scene){.loop = loop_new(&err)};
    assert_non_null(s->loop);
    s->guard = loop_add_timer(s->loop, GUARD_MS, on_guard, NULL);
    s->k = key_command_start(s->loop, command, SETTING, on_key, s, &err);
    if (s->k == NULL)
        fail_msg("%s", err.msg);
    assert_int_equal(s->n_done, 0);
}

/* Nothing is left, and nothing is called any more. */
static void
end(struct scene *s)
{
    siginfo_t info;

    key_command_free(s->k);
    loop_timer_remove(s->guard);
    loop_run(s->loop);
    loop_free(s->loop);
    secret_free(s->key);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), -1);
    assert_int_equal(errno, ECHILD);
}

struct good_case {
    const char *command;
    const char *expect;
};

static const struct good_case good_cases[] = {
    {"echo e2b_0123", "e2b_0123"},
    {"printf e2b_0123", "e2b_0123"},
    {"printf ' \\te2b_0123 \\r\\n'", "e2b_0123"},
    {"printf 'e2b_0123\\nlogin: me\\n'", "e2b_0123"},
    {"echo noise >&2; echo e2b_0123", "e2b_0123"},
    {"echo 'two words'", "two words"},
    /* What is behind the first line is read, so that no pipe is full. */
    {"echo e2b_0123; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2",
     "e2b_0123"},
    {"cat; echo e2b_0123", "e2b_0123"},
    {"(sleep 1; echo late) & echo e2b_0123", "e2b_0123"},
};

static void
test_start_gives_the_first_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(good_cases); i++) {
        const struct good_case *t = &good_cases[i];
        struct scene s;

        begin(&s, t->command);
        loop_run(s.loop);
        assert_int_equal(s.n_done, 1);
        if (s.key == NULL || !str_eq(secret_expose(s.key), t->expect))
            fail_msg("%s: %s", t->command,
                     s.key != NULL ? secret_expose(s.key) : s.err.msg);
        end(&s);
        assert_int_equal(s.n_done, 1);
    }
}

static void
test_start_takes_the_longest(void **state)
{
    struct scene s;

    (void)state;
    begin(&s, "head -c 4096 /dev/zero | tr '\\0' k; echo");
    loop_run(s.loop);
    assert_non_null(s.key);
    assert_int_equal(strlen(secret_expose(s.key)), 4096);
    end(&s);
}

static const struct good_case bad_cases[] = {
    {"true", "the command printed no key on its first line"},
    {"echo; echo e2b_0123", "the command printed no key on its first line"},
    {"echo '  '", "the command printed no key on its first line"},
    {"head -c 4097 /dev/zero | tr '\\0' k",
     "the first line that it prints is longer than 4096 bytes"},
    {"printf 'a\\0b\\n'",
     "the first line that it prints has a control character in it"},
    {"printf '\\0\\n'",
     "the first line that it prints has a control character in it"},
    {"printf 'a\\033[31mb\\n'",
     "the first line that it prints has a control character in it"},
    {"printf 'a\\tb\\n'",
     "the first line that it prints has a control character in it"},
    {"echo e2b_0123; exit 3", "the command ended with status 3"},
    {"echo e2b_0123; echo 'store: locked' >&2; echo more >&2; exit 1",
     "the command ended with status 1: store: locked"},
    {"printf '\\377\\n' >&2; exit 1",
     "the command ended with status 1: \xEF\xBF\xBD"},
    {"kill -9 $$", "the command was ended by signal 9"},
};

static void
test_start_says_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_cases); i++) {
        const struct good_case *t = &bad_cases[i];
        AUTO_FREE char *expect = xasprintf(SETTING ": %s", t->expect);
        struct scene s;

        begin(&s, t->command);
        loop_run(s.loop);
        assert_int_equal(s.n_done, 1);
        assert_null(s.key);
        assert_int_equal(s.err.code, ERR_AUTH);
        if (!str_eq(s.err.msg, expect))
            fail_msg("%s: %s", t->command, s.err.msg);
        /* The key that it printed is in no message. */
        assert_null(strstr(s.err.msg, "0123"));
        end(&s);
    }
}

static void
test_start_names_what_is_not_there(void **state)
{
    struct scene s;

    (void)state;
    begin(&s, "/nowhere/keys show work");
    loop_run(s.loop);
    assert_null(s.key);
    if (strstr(s.err.msg, SETTING ": the command ended with status 127") ==
            NULL ||
        strstr(s.err.msg, "/nowhere/keys") == NULL)
        fail_msg("%s", s.err.msg);
    end(&s);
}

/* The program whose number is in dir/pid. */
static void
expect_ended(const char *dir)
{
    AUTO_FREE char *path = paths_join(dir, "pid");
    AUTO_SBUF struct sbuf text = {0};
    struct error err = {0};
    int64_t pid = 0;

    sbuf_init(&text, 100);
    assert_int_equal(io_read_file(path, &text, &err), 0);
    text.data[strcspn(text.data, "\n")] = '\0';
    assert_int_equal(str_to_int(text.data, 2, INT32_MAX, &pid, &err), 0);
    /* It is an orphan then, which somebody else may still have to reap. */
    for (int i = 0; i < GUARD_MS / 10 && kill((pid_t)pid, 0) == 0; i++) {
        AUTO_FREE char *stat = xasprintf("/proc/%d/stat", (int)pid);

        sbuf_clear(&text);
        text.max = 4096;
        if (io_read_file(stat, &text, &err) < 0 ||
            strstr(text.data, ") Z ") != NULL)
            return;
        usleep(10000);
    }
    assert_int_equal(kill((pid_t)pid, 0), -1);
}

/* A shell that waits for another program, whose number is in dir/pid. */
static void
begin_to_wait(struct scene *s, const char *dir)
{
    AUTO_FREE char *ready = paths_join(dir, "ready");
    AUTO_FREE char *command = xasprintf(
        "echo wait >&2; sh -c 'echo $$ >%s/pid; : >%s/ready; exec sleep 600'; "
        "true",
        dir, dir);

    begin(s, command);
    for (int i = 0; i < GUARD_MS && access(ready, F_OK) != 0; i++)
        usleep(1000);
    assert_int_equal(access(ready, F_OK), 0);
}

static void
test_limit_ends_all_of_it(void **state)
{
    AUTO_FREE char *dir = xstrdup("/tmp/test_key_command.XXXXXX");
    struct scene s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    begin_to_wait(&s, dir);
    key_command_set_limit(s.k, 100);
    loop_run(s.loop);
    assert_int_equal(s.n_done, 1);
    assert_null(s.key);
    assert_int_equal(s.err.code, ERR_AUTH);
    assert_string_equal(s.err.msg,
                        SETTING ": the command took longer than 0.1 s: wait");
    expect_ended(dir);
    end(&s);
    assert_int_equal(io_remove_tree(dir, NULL), 0);
}

static void
test_free_ends_all_of_it(void **state)
{
    AUTO_FREE char *dir = xstrdup("/tmp/test_key_command.XXXXXX");
    struct scene s;

    (void)state;
    assert_non_null(mkdtemp(dir));
    begin_to_wait(&s, dir);
    key_command_free(s.k);
    s.k = NULL;
    expect_ended(dir);
    end(&s);
    assert_int_equal(s.n_done, 0);
    assert_int_equal(io_remove_tree(dir, NULL), 0);
}

static void
test_free_in_done(void **state)
{
    static const char *const COMMANDS[] = {"echo e2b_0123", "exit 1"};

    (void)state;
    for (size_t i = 0; i < LEN(COMMANDS); i++) {
        struct scene s;

        begin(&s, COMMANDS[i]);
        s.free_in_done = true;
        loop_run(s.loop);
        assert_int_equal(s.n_done, 1);
        assert_null(s.k);
        end(&s);
    }
    key_command_free(NULL);
}

/* What it is given: the list and nothing else; no input; no descriptor. */
static void
test_environment_is_built(void **state)
{
    struct scene s;

    (void)state;
    setenv("HOME", "/h", 1);
    setenv("E2B_API_KEY", "e2b_SECRET", 1);
    setenv("ANTHROPIC_API_KEY", "sk-SECRET", 1);
    setenv("MY_TOKEN", "SECRET", 1);
    begin(&s, "env | sort | grep -v '^_=\\|^PWD=\\|^SHLVL=' | tr '\\n' '|'");
    loop_run(s.loop);
    assert_non_null(s.key);
    assert_null(strstr(secret_expose(s.key), "SECRET"));
    if (strstr(secret_expose(s.key), "HOME=/h|") == NULL ||
        strstr(secret_expose(s.key), "PATH=") == NULL)
        fail_msg("%s", secret_expose(s.key));
    end(&s);
    begin(&s, "ls -l /proc/self/fd | wc -l; readlink /proc/self/fd/0 >&2");
    loop_run(s.loop);
    assert_non_null(s.key);
    /* 0, 1, 2, the directory itself, and the line of its total. */
    assert_string_equal(secret_expose(s.key), "5");
    end(&s);
    begin(&s, "readlink /proc/self/fd/0");
    loop_run(s.loop);
    assert_non_null(s.key);
    assert_string_equal(secret_expose(s.key), "/dev/null");
    end(&s);
    unsetenv("E2B_API_KEY");
    unsetenv("ANTHROPIC_API_KEY");
    unsetenv("MY_TOKEN");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_gives_the_first_line),
        cmocka_unit_test(test_start_takes_the_longest),
        cmocka_unit_test(test_start_says_what_is_wrong),
        cmocka_unit_test(test_start_names_what_is_not_there),
        cmocka_unit_test(test_limit_ends_all_of_it),
        cmocka_unit_test(test_free_ends_all_of_it),
        cmocka_unit_test(test_free_in_done),
        cmocka_unit_test(test_environment_is_built),
    };

    return cmocka_run_group_tests_name("key_command", tests, NULL, NULL);
}
