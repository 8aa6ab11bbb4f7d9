/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How often the command for a key is run, and who gets what it prints. What one
 * run of it does is in test_key_command.c.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/key_source.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
#define GUARD_S 120

struct scene {
    char dir[64];
    struct loop *loop;
    struct key_source *source;
    bool asking; /* in the call, where nobody is told */
    int n_told;  /* of all */
};

/* One who asks. */
struct user {
    struct scene *s;
    struct key_ask *ask;
    const struct secret *key;
    struct error err;
    int n_told;
    int place; /* the first one is 1 */
    void (*then)(struct user *u);
    struct user *other;
};

static void
on_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct user *u = ctx;

    assert_false(u->s->asking);
    assert_true((key == NULL) == (err != NULL));
    u->ask = NULL;
    u->key = key;
    u->err = err != NULL ? *err : (struct error){0};
    u->n_told++;
    u->place = ++u->s->n_told;
    if (u->then != NULL)
        u->then(u);
}

static void
ask(struct scene *s, struct user *u, const struct secret *refused)
{
    u->s = s;
    s->asking = true;
    u->ask = key_source_ask(s->source, refused, on_key, u);
    s->asking = false;
    assert_non_null(u->ask);
}

/* The command counts its runs in the file "count". After that it does what
   more says, with that number in $n. */
static void
set_up(struct scene *s, const char *more)
{
    AUTO_FREE char *command = NULL;
    struct error err = {0};

    alarm(GUARD_S);
    *s = (struct scene){.dir = "/tmp/test_key_source.XXXXXX"};
    assert_non_null(mkdtemp(s->dir));
    command =
        xasprintf("cd %s; echo x >>count; n=$(wc -l <count); %s", s->dir, more);
    s->loop = loop_new(&err);
    assert_non_null(s->loop);
    s->source = key_source_new(s->loop, command, SETTING);
}

static int
count_runs(const struct scene *s)
{
    AUTO_FREE char *path = paths_join(s->dir, "count");
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, 1000);
    return io_read_file(path, &text, NULL) < 0 ? 0 : (int)text.len / 2;
}

/* Nothing is left, and nothing is called any more. */
static void
tear_down(struct scene *s)
{
    int n_told = s->n_told;
    siginfo_t info;

    key_source_free(s->source);
    loop_run(s->loop);
    assert_int_equal(s->n_told, n_told);
    loop_free(s->loop);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(io_remove_tree(s->dir, NULL), 0);
}

static void
expect_key(const struct user *u, int n_told, const char *key)
{
    assert_int_equal(u->n_told, n_told);
    if (u->key == NULL)
        fail_msg("%s", u->err.msg);
    assert_string_equal(secret_expose(u->key), key);
}

/* Waits, outside of the loop, for what the command makes. */
static void
wait_for(const struct scene *s, const char *name)
{
    AUTO_FREE char *path = paths_join(s->dir, name);

    while (access(path, F_OK) != 0)
        usleep(1000);
}

static void
make_file(const struct scene *s, const char *name)
{
    AUTO_FREE char *path = paths_join(s->dir, name);
    struct error err = {0};

    if (io_replace(path, "", 0, 0600, &err) < 0)
        fail_msg("%s", err.msg);
}

#define PRINT "echo e2b_key_$n"
#define UNTIL_GO ": >ready; until [ -e go ]; do sleep 0.01; done; " PRINT

/* ---- how often it runs ----------------------------------------------------
 */

static void
test_new_runs_nothing(void **state)
{
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    assert_false(key_source_has(s.source, NULL));
    loop_run(s.loop);
    tear_down(&s);
    key_source_free(NULL);
    key_ask_drop(NULL);
}

static void
test_asks_share_a_run(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct user late = {0};
    struct scene s;

    (void)state;
    set_up(&s, UNTIL_GO);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    wait_for(&s, "ready");
    ask(&s, &late, NULL);
    assert_false(key_source_has(s.source, NULL));
    make_file(&s, "go");
    loop_run(s.loop);
    expect_key(&one, 1, "e2b_key_1");
    expect_key(&two, 1, "e2b_key_1");
    expect_key(&late, 1, "e2b_key_1");
    assert_int_equal(one.place, 1);
    assert_int_equal(late.place, 3);
    assert_int_equal(count_runs(&s), 1);
    tear_down(&s);
}

static void
test_a_key_is_given_again(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct user three = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    assert_true(key_source_has(s.source, NULL));
    ask(&s, &two, NULL);
    ask(&s, &three, NULL);
    loop_run(s.loop);
    expect_key(&two, 1, "e2b_key_1");
    expect_key(&three, 1, "e2b_key_1");
    assert_ptr_equal(one.key, two.key);
    assert_int_equal(count_runs(&s), 1);
    tear_down(&s);
}

static void
test_a_refused_key_is_not(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct user three = {0};
    const struct secret *first = NULL;
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    first = one.key;
    assert_false(key_source_has(s.source, first));
    ask(&s, &two, first);
    loop_run(s.loop);
    expect_key(&two, 1, "e2b_key_2");
    /* Whoever comes later with the old one gets the new one at once. */
    assert_true(key_source_has(s.source, first));
    ask(&s, &three, first);
    loop_run(s.loop);
    expect_key(&three, 1, "e2b_key_2");
    ask(&s, &three, NULL);
    loop_run(s.loop);
    expect_key(&three, 2, "e2b_key_2");
    assert_int_equal(count_runs(&s), 2);
    /* A request may still hold it. */
    assert_string_equal(secret_expose(first), "e2b_key_1");
    tear_down(&s);
}

/* By another who has not got it by an ask of his own. */
static void
test_a_key_is_refused_for_who_comes_later(void **state)
{
    struct user one = {0};
    struct user two = {0};
    const struct secret *first = NULL;
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    first = one.key;
    key_source_refuse(s.source, first);
    assert_false(key_source_has(s.source, NULL));
    ask(&s, &two, NULL);
    loop_run(s.loop);
    expect_key(&two, 1, "e2b_key_2");
    /* The old one is refused once more by somebody: no news. */
    key_source_refuse(s.source, first);
    key_source_refuse(s.source, NULL);
    assert_true(key_source_has(s.source, NULL));
    assert_int_equal(count_runs(&s), 2);
    tear_down(&s);
}

/* One who was to be told in the next round waits for the new key. */
static void
test_a_refusal_is_for_all(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    ask(&s, &two, NULL);
    ask(&s, &one, one.key);
    loop_run(s.loop);
    expect_key(&one, 2, "e2b_key_2");
    expect_key(&two, 1, "e2b_key_2");
    assert_int_equal(count_runs(&s), 2);
    tear_down(&s);
}

static void
refuse(struct user *u)
{
    u->then = NULL;
    ask(u->s, u, u->key);
}

static void
test_a_refusal_in_a_callback(void **state)
{
    struct user one = {.then = refuse};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    loop_run(s.loop);
    expect_key(&one, 2, "e2b_key_2");
    expect_key(&two, 1, "e2b_key_2");
    tear_down(&s);
}

/* ---- failures -------------------------------------------------------------
 */

static void
test_after_a_failure_it_runs_again(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, "[ $n -gt 1 ] || { echo locked >&2; exit 3; }; " PRINT);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    loop_run(s.loop);
    assert_int_equal(one.n_told, 1);
    assert_int_equal(two.n_told, 1);
    assert_int_equal(two.err.code, ERR_AUTH);
    assert_string_equal(two.err.msg,
                        SETTING ": the command ended with status 3: locked");
    assert_string_equal(one.err.msg, two.err.msg);
    assert_int_equal(count_runs(&s), 1);
    assert_false(key_source_has(s.source, NULL));
    ask(&s, &one, NULL);
    loop_run(s.loop);
    expect_key(&one, 2, "e2b_key_2");
    assert_int_equal(count_runs(&s), 2);
    tear_down(&s);
}

/* A key that was refused does not come back because there is no other. */
static void
test_a_failure_after_a_refusal(void **state)
{
    struct user one = {0};
    struct scene s;

    (void)state;
    set_up(&s, "[ $n -ne 2 ] || exit 3; " PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    ask(&s, &one, one.key);
    loop_run(s.loop);
    assert_int_equal(one.n_told, 2);
    assert_int_equal(one.err.code, ERR_AUTH);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    expect_key(&one, 3, "e2b_key_3");
    tear_down(&s);
}

static void
test_what_cannot_be_started(void **state)
{
    struct rlimit before;
    struct rlimit none;
    struct user one = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    ask(&s, &one, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    loop_run(s.loop);
    assert_int_equal(one.n_told, 1);
    assert_int_equal(one.err.code, ERR_IO);
    assert_true(str_starts(one.err.msg, SETTING ": "));
    ask(&s, &one, NULL);
    loop_run(s.loop);
    expect_key(&one, 2, "e2b_key_1");
    tear_down(&s);
}

/* ---- drops ----------------------------------------------------------------
 */

static void
test_drop_one_of_two(void **state)
{
    struct user users[3] = {{0}};
    struct scene s;

    (void)state;
    for (size_t i = 0; i < LEN(users); i++) {
        set_up(&s, UNTIL_GO);
        for (size_t k = 0; k < LEN(users); k++) {
            users[k] = (struct user){0};
            ask(&s, &users[k], NULL);
        }
        wait_for(&s, "ready");
        key_ask_drop(users[i].ask);
        make_file(&s, "go");
        loop_run(s.loop);
        for (size_t k = 0; k < LEN(users); k++)
            assert_int_equal(users[k].n_told, k == i ? 0 : 1);
        tear_down(&s);
    }
}

/* A person may be in the midst of a password. */
static void
test_drop_all_lets_it_run_on(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, UNTIL_GO);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    wait_for(&s, "ready");
    key_ask_drop(one.ask);
    key_ask_drop(two.ask);
    make_file(&s, "go");
    loop_run(s.loop);
    assert_int_equal(s.n_told, 0);
    assert_true(key_source_has(s.source, NULL));
    ask(&s, &two, NULL);
    loop_run(s.loop);
    expect_key(&two, 1, "e2b_key_1");
    assert_int_equal(count_runs(&s), 1);
    tear_down(&s);
}

static void
test_ask_again_while_it_runs_on(void **state)
{
    struct user one = {0};
    struct scene s;

    (void)state;
    set_up(&s, UNTIL_GO);
    ask(&s, &one, NULL);
    wait_for(&s, "ready");
    key_ask_drop(one.ask);
    ask(&s, &one, NULL);
    make_file(&s, "go");
    loop_run(s.loop);
    expect_key(&one, 1, "e2b_key_1");
    assert_int_equal(count_runs(&s), 1);
    tear_down(&s);
}

static void
test_a_failure_that_nobody_hears(void **state)
{
    struct user one = {0};
    struct scene s;

    (void)state;
    set_up(&s, "[ $n -gt 1 ] || exit 3; " PRINT);
    ask(&s, &one, NULL);
    key_ask_drop(one.ask);
    loop_run(s.loop);
    assert_int_equal(count_runs(&s), 1);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    expect_key(&one, 1, "e2b_key_2");
    tear_down(&s);
}

static void
test_drop_before_it_is_told(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    ask(&s, &one, NULL);
    key_ask_drop(one.ask);
    loop_run(s.loop);
    assert_int_equal(one.n_told, 1);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    key_ask_drop(one.ask);
    loop_run(s.loop);
    assert_int_equal(one.n_told, 1);
    expect_key(&two, 1, "e2b_key_1");
    tear_down(&s);
}

static void
drop_other(struct user *u)
{
    key_ask_drop(u->other->ask);
    u->other->ask = NULL;
}

static void
test_drop_in_a_callback(void **state)
{
    struct user one = {.then = drop_other};
    struct user two = {0};
    struct user three = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    one.other = &two;
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    ask(&s, &three, NULL);
    loop_run(s.loop);
    assert_int_equal(two.n_told, 0);
    expect_key(&three, 1, "e2b_key_1");
    /* The last one that waits. */
    one.then = drop_other;
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    loop_run(s.loop);
    expect_key(&one, 2, "e2b_key_1");
    assert_int_equal(two.n_told, 0);
    tear_down(&s);
}

/* ---- the end --------------------------------------------------------------
 */

/* The program whose number is in the file "pid"; an orphan then, which somebody
   else may still have to reap. */
static void
expect_ended(const struct scene *s)
{
    AUTO_FREE char *path = paths_join(s->dir, "pid");
    AUTO_SBUF struct sbuf text = {0};
    AUTO_FREE char *stat = NULL;
    struct error err = {0};
    int64_t pid = 0;

    sbuf_init(&text, 4096);
    assert_int_equal(io_read_file(path, &text, &err), 0);
    text.data[strcspn(text.data, "\n")] = '\0';
    assert_int_equal(str_to_int(text.data, 2, INT32_MAX, &pid, &err), 0);
    stat = xasprintf("/proc/%d/stat", (int)pid);
    while (kill((pid_t)pid, 0) == 0) {
        sbuf_clear(&text);
        if (io_read_file(stat, &text, &err) < 0 ||
            strstr(text.data, ") Z ") != NULL)
            return;
        usleep(10000);
    }
}

static void
test_free_ends_what_runs(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct user one = {0};
        struct user two = {0};
        struct scene s;

        set_up(&s, "sh -c 'echo $$ >pid; : >ready; exec sleep 600'; " PRINT);
        ask(&s, &one, NULL);
        ask(&s, &two, NULL);
        wait_for(&s, "ready");
        if (i == 1) {
            key_ask_drop(one.ask);
            key_ask_drop(two.ask);
        }
        key_source_free(s.source);
        s.source = NULL;
        expect_ended(&s);
        loop_run(s.loop);
        assert_int_equal(s.n_told, 0);
        tear_down(&s);
    }
}

static void
test_free_before_it_is_told(void **state)
{
    struct user one = {0};
    struct user two = {0};
    struct scene s;

    (void)state;
    set_up(&s, PRINT);
    ask(&s, &one, NULL);
    loop_run(s.loop);
    ask(&s, &one, NULL);
    ask(&s, &two, NULL);
    tear_down(&s);
    assert_int_equal(one.n_told, 1);
    assert_int_equal(two.n_told, 0);
}

static void
free_source(struct user *u)
{
    key_source_free(u->s->source);
    u->s->source = NULL;
}

static void
test_free_in_a_callback(void **state)
{
    static const char *const commands[] = {PRINT, "exit 1"};

    (void)state;
    for (size_t i = 0; i < LEN(commands); i++) {
        struct user one = {.then = free_source};
        struct user two = {0};
        struct scene s;

        set_up(&s, commands[i]);
        ask(&s, &one, NULL);
        ask(&s, &two, NULL);
        loop_run(s.loop);
        assert_int_equal(one.n_told, 1);
        assert_int_equal(two.n_told, 0);
        assert_null(s.source);
        tear_down(&s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_runs_nothing),
        cmocka_unit_test(test_asks_share_a_run),
        cmocka_unit_test(test_a_key_is_given_again),
        cmocka_unit_test(test_a_refused_key_is_not),
        cmocka_unit_test(test_a_key_is_refused_for_who_comes_later),
        cmocka_unit_test(test_a_refusal_is_for_all),
        cmocka_unit_test(test_a_refusal_in_a_callback),
        cmocka_unit_test(test_after_a_failure_it_runs_again),
        cmocka_unit_test(test_a_failure_after_a_refusal),
        cmocka_unit_test(test_what_cannot_be_started),
        cmocka_unit_test(test_drop_one_of_two),
        cmocka_unit_test(test_drop_all_lets_it_run_on),
        cmocka_unit_test(test_ask_again_while_it_runs_on),
        cmocka_unit_test(test_a_failure_that_nobody_hears),
        cmocka_unit_test(test_drop_before_it_is_told),
        cmocka_unit_test(test_drop_in_a_callback),
        cmocka_unit_test(test_free_ends_what_runs),
        cmocka_unit_test(test_free_before_it_is_told),
        cmocka_unit_test(test_free_in_a_callback),
    };

    return cmocka_run_group_tests_name("key_source", tests, NULL, NULL);
}
