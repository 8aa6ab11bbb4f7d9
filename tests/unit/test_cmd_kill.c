/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What earlier runs have left with a service: the warning at the start, and
 * ":sandbox kill". Nothing is ever ended that was not asked for.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/error.h"
#include "base/str.h"
#include "sandbox/e2b.h"
#include "ui/app_internal.h"
#include "unit/cmd_sandbox_session.h"

#define HOST "api.example.org"

/* 2026-11-30 14:02:00 UTC. */
#define START_MS INT64_C(1796047320000)

/* A service in memory. */
struct service {
    struct session *s;
    const char *host; /* NULL: none is used */
    const struct e2b_leftover *list;
    size_t n;
    struct error err;       /* of a search */
    const char *cannot_end; /* this one */
    bool waits;             /* nothing is answered */
    char asked[256];        /* what was to be ended */
    int n_searches;
    int n_cancelled;
    bool is_busy;

    struct loop_task *task;
    e2b_leftovers_fn found;
    e2b_ended_fn each;
    void (*done)(void *ctx);
    void *ctx;
};

static const char *
get_host(void *ctx)
{
    return ((struct service *)ctx)->host;
}

static void
report(void *ctx)
{
    struct service *v = ctx;
    bool failed = v->err.code != ERR_NONE;

    v->task = NULL;
    v->is_busy = false;
    v->found(v->ctx, v->list, failed ? 0 : v->n, failed ? &v->err : NULL);
    if (!v->s->over)
        loop_stop(v->s->f->loop);
}

static void
find(void *ctx, e2b_leftovers_fn done, void *done_ctx)
{
    struct service *v = ctx;

    /* One at a time. */
    assert_false(v->is_busy);
    v->is_busy = true;
    v->n_searches++;
    v->found = done;
    v->ctx = done_ctx;
    if (!v->waits)
        v->task = loop_defer(v->s->f->loop, report, v);
}

static void
report_ends(void *ctx)
{
    struct service *v = ctx;
    char *rest;
    char copy[sizeof(v->asked)];

    v->task = NULL;
    memcpy(copy, v->asked, sizeof(copy));
    rest = copy;
    while (*rest != '\0') {
        char *id = rest;
        struct error err = {0};

        rest += strcspn(rest, " ");
        *rest++ = '\0';
        if (str_eq(id, v->cannot_end))
            error_fill(&err, ERR_REMOTE, "sandbox %s: not now", id);
        v->each(v->ctx, id, err.code != ERR_NONE ? &err : NULL);
    }
    v->done(v->ctx);
}

static void
end_some(void *ctx, const char *const *ids, size_t n_ids, e2b_ended_fn each,
         void (*done)(void *ctx), void *done_ctx)
{
    struct service *v = ctx;
    size_t len = 0;

    v->asked[0] = '\0';
    for (size_t i = 0; i < n_ids; i++)
        len += (size_t)snprintf(v->asked + len, sizeof(v->asked) - len, "%s ",
                                ids[i]);
    v->each = each;
    v->done = done;
    v->ctx = done_ctx;
    v->task = loop_defer(v->s->f->loop, report_ends, v);
}

static void
cancel(void *ctx)
{
    struct service *v = ctx;

    v->n_cancelled++;
    v->is_busy = false;
    loop_task_remove(v->task);
    v->task = NULL;
}

static struct session *
start_with(struct service *v)
{
    struct session *s = start((struct setting){.unicode = true});

    setenv("TZ", "UTC", 1);
    v->s = s;
    s->app->config.leftovers = (struct app_leftovers){
        .host = get_host,
        .find = find,
        .end = end_some,
        .cancel = cancel,
        .ctx = v,
    };
    return s;
}

static const struct e2b_leftover one[] = {
    {.id = "abc1", .template_id = "", .started_ms = START_MS}};
static const struct e2b_leftover three[] = {
    {.id = "abc1", .template_id = ""},
    {.id = "def2",
     .template_id = "",
     .paused = true,
     .started_ms = START_MS + 60000},
    {.id = "ghi3", .template_id = "", .started_ms = START_MS},
};

/* ---- the warning at the start ---------------------------------------------
 */

static void
search(struct session *s)
{
    read_all(s->f);
    for (int i = 0; i < 2; i++)
        s->before[i] = s->f->text[i].len;
    app_find_leftovers(s->app);
    run(s);
    while (out_queued(s->f->out) > 0) {
        out_on_written(s->f->out, on_written, s);
        run(s);
    }
    read_all(s->f);
}

static void
test_search_warns(void **state)
{
    static const struct {
        const struct e2b_leftover *list;
        size_t n;
        const char *expect;
    } cases[] = {
        {one, 1,
         "warning: a sandbox of an earlier run is still there at " HOST
         ", since 2026-11-30 14:02, and may be billed: abc1; :sandbox kill "
         "ends it\n"},
        {three, 3,
         "warning: 3 sandboxes of earlier runs are still there at " HOST
         ", since 2026-11-30 14:02, and may be billed: abc1, def2 (paused), "
         "ghi3; :sandbox kill ends them, :sandbox kill ID one of them\n"},
        {three, 1,
         "warning: a sandbox of an earlier run is still there at " HOST
         ", and may be billed: abc1; :sandbox kill ends it\n"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct service v = {
            .host = HOST, .list = cases[i].list, .n = cases[i].n};
        struct session *s = start_with(&v);

        search(s);
        says(s, 1, cases[i].expect);
        assert_string_equal(v.asked, "");
        assert_int_equal(v.n_searches, 1);
        stop(s);
    }
}

static void
test_search_names_a_few(void **state)
{
    struct e2b_leftover many[30];
    struct service v = {.host = HOST, .list = many, .n = LEN(many)};
    struct session *s = start_with(&v);

    (void)state;
    for (size_t i = 0; i < LEN(many); i++)
        many[i] = (struct e2b_leftover){.id = "same", .template_id = ""};
    search(s);
    says(s, 1, "30 sandboxes");
    says(s, 1, "same, same and 22 more; :sandbox kill ends them");
    stop(s);
}

/* Nothing is said, and nobody asked. */
static void
test_search_is_silent(void **state)
{
    struct service none = {.host = HOST};
    struct service fails = {.host = HOST, .list = one, .n = 1};
    struct service of_none = {.list = one, .n = 1};
    struct session *s = start_with(&none);

    (void)state;
    search(s);
    assert_int_equal(s->f->text[0].len + s->f->text[1].len, 0);
    stop(s);
    error_fill(&fails.err, ERR_NET, "no way");
    s = start_with(&fails);
    search(s);
    assert_int_equal(s->f->text[0].len + s->f->text[1].len, 0);
    stop(s);
    s = start_with(&of_none);
    app_find_leftovers(s->app);
    assert_int_equal(of_none.n_searches, 0);
    stop(s);
    s = start((struct setting){.unicode = true});
    app_find_leftovers(s->app);
    stop(s);
}

/* ---- :sandbox kill --------------------------------------------------------
 */

static void
test_kill(void **state)
{
    static const struct {
        const char *line;
        size_t n;
        const char *cannot_end;
        const char *expect_asked;
        const char *expect;
        const char *expect_error;
        enum error_code expect_code;
    } cases[] = {
        {":sandbox kill", 3, NULL, "abc1 def2 ghi3 ",
         DOT " ended at " HOST ": abc1, def2, ghi3\n", NULL, ERR_NONE},
        {":sandbox kill def2", 3, NULL, "def2 ",
         DOT " ended at " HOST ": def2\n", NULL, ERR_NONE},
        {":sandbox kill ghi3 def2", 3, "ghi3", "ghi3 def2 ",
         DOT " ended at " HOST ": def2\n", "error: sandbox ghi3: not now\n",
         ERR_REMOTE},
        {":sandbox kill", 3, "def2", "abc1 def2 ghi3 ",
         DOT " ended at " HOST ": abc1, ghi3\n",
         "error: sandbox def2: not now\n", ERR_REMOTE},
        {":sandbox kill", 0, NULL, "",
         DOT " no sandbox of an earlier run is there at " HOST "\n", NULL,
         ERR_NONE},
        {":sandbox kill zzz", 0, "zzz", "zzz ", "", "sandbox zzz: not now\n",
         ERR_REMOTE},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct service v = {.host = HOST,
                            .list = three,
                            .n = cases[i].n,
                            .cannot_end = cases[i].cannot_end};
        struct session *s = start_with(&v);

        line(s, cases[i].line);
        assert_string_equal(v.asked, cases[i].expect_asked);
        says(s, 1, cases[i].expect);
        if (cases[i].expect_error != NULL)
            says(s, 1, cases[i].expect_error);
        else
            says_not(s, "error");
        assert_int_equal(s->code, cases[i].expect_code);
        /* Again, in the same session. */
        line(s, ":sandbox kill");
        stop(s);
    }
}

static void
test_kill_that_finds_nothing_out(void **state)
{
    struct service v = {.host = HOST, .list = three, .n = 3};
    struct session *s = start_with(&v);

    (void)state;
    error_fill(&v.err, ERR_AUTH, "the key is not accepted");
    line(s, ":sandbox kill");
    says(s, 1, "error: the key is not accepted\n");
    assert_int_equal(s->code, ERR_AUTH);
    assert_string_equal(v.asked, "");
    v.host = NULL;
    line(s, ":sandbox kill");
    says(s, 1, "error: :sandbox kill works where cells run at a service");
    assert_int_equal(s->code, ERR_USAGE);
    line(s, ":sandbox kil");
    says(s, 1, "error: there is no sandbox 'kil'");
    stop(s);
}

static void
on_cancel(void *ctx)
{
    struct session *s = ctx;

    app_cancel(s->app);
    app_cancel(s->app);
}

static void
test_kill_is_stopped(void **state)
{
    struct service v = {.host = HOST, .list = three, .n = 3, .waits = true};
    struct session *s = start_with(&v);

    (void)state;
    /* The search of the start goes on; that of the command takes its place. */
    app_find_leftovers(s->app);
    app_find_leftovers(s->app);
    assert_int_equal(v.n_searches, 1);
    loop_defer(s->f->loop, on_cancel, s);
    line(s, ":sandbox kill");
    assert_int_equal(v.n_searches, 2);
    assert_int_equal(v.n_cancelled, 2);
    assert_int_equal(s->code, ERR_CANCELLED);
    says(s, 1, "error: :sandbox kill was stopped\n");
    assert_string_equal(v.asked, "");
    v.waits = false;
    line(s, ":sandbox kill");
    assert_string_equal(v.asked, "abc1 def2 ghi3 ");
    v.waits = true;
    /* The session ends while it is looked for. */
    app_find_leftovers(s->app);
    stop(s);
    assert_int_equal(v.n_cancelled, 3);
}

/* Other commands of the same name are not stopped by it. */
static void
test_cancel_without_kill(void **state)
{
    struct service v = {.host = HOST};
    struct session *s = start_with(&v);

    (void)state;
    open_box(s);
    app_cancel(s->app);
    line(s, ":sandbox");
    assert_int_equal(v.n_cancelled, 0);
    stop(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_warns),
        cmocka_unit_test(test_search_names_a_few),
        cmocka_unit_test(test_search_is_silent),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_kill_that_finds_nothing_out),
        cmocka_unit_test(test_kill_is_stopped),
        cmocka_unit_test(test_cancel_without_kill),
    };

    return cmocka_run_group_tests_name("cmd_kill", tests, NULL, NULL);
}
