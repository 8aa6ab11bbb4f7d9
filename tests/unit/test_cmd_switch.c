/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * :replay and :sandbox NAME: what a person reads, and what the model is told
 * with the next question.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent_internal.h"
#include "base/array.h"
#include "base/error.h"
#include "ui/app_internal.h"
#include "unit/cmd_sandbox_session.h"

struct desk {
    struct session *s;
    struct agent *agent;
    struct box *next; /* that ":sandbox work" makes, which is ... */
    const char *level;
    bool network;
    bool opens_never;
};

static struct desk *
begin_desk(void)
{
    struct desk *d = xcalloc(1, sizeof(*d));

    d->s = start((struct setting){.unicode = true});
    d->agent = agent_new(&(struct agent_config){
        .loop = d->s->f->loop,
        .sandbox = d->s->sandbox,
        .chain = d->s->f->chain,
        .max_rounds = 1,
        .on_done = app_turn_done,
        .ctx = d->s->app,
    });
    app_set_agent(d->s->app, d->agent);
    open_box(d->s);
    return d;
}

static void
end_desk(struct desk *d)
{
    agent_free(d->agent);
    stop(d->s);
    free(d);
}

/* The model is told that, and nothing else. */
static void
told(const struct desk *d, const char *wanted)
{
    assert_string_equal(d->agent->told.data, wanted);
    sbuf_clear(&d->agent->told);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct session *s = ctx;

    (void)end;
    (void)outcome;
    (void)err;
    loop_stop(s->f->loop);
}

/* A cell of the model's, with that number. */
static void
cell(const struct desk *d, const char *code, int number)
{
    static const struct sandbox_cell_handlers on = {.on_done = on_cell_done};

    sandbox_run_cell(d->s->sandbox,
                     &(struct sandbox_cell){.code = code,
                                            .code_len = strlen(code),
                                            .number = number},
                     &on, d->s);
    run(d->s);
}

/* ---- :replay --------------------------------------------------------------
 */

static void
test_replay(void **state)
{
    static const struct {
        int cells[8];
        const char *expect;
    } rows[] = {
        {{1}, " cell 1 has run again; variables are back\n"},
        {{1, 2}, " cells 1-2 have run again; variables are back\n"},
        {{2, 5}, " cells 2 and 5 have run again; variables are back\n"},
        {{1, 2, 3, 5, 7, 8},
         " cells 1-3, 5 and 7-8 have run again; variables are back\n"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct desk *d = begin_desk();

        for (size_t k = 0; rows[i].cells[k] > 0; k++)
            cell(d, "ok", rows[i].cells[k]);
        line(d->s, ":replay");
        assert_int_equal(d->s->code, ERR_NONE);
        says(d->s, 1, rows[i].expect);
        end_desk(d);
    }
}

static void
test_replay_of_nothing(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    cell(d, "fail", 1);
    line(d->s, ":replay");
    assert_int_equal(d->s->code, ERR_USAGE);
    says(d->s, 1,
         "error: there is nothing to run again: no cell has ended well yet\n");
    end_desk(d);
}

static void
test_replay_tells_the_model(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    cell(d, "a", 1);
    cell(d, "b", 2);
    line(d->s, ":restart");
    told(d, "[The user has restarted the interpreter. " SANDBOX_LOST_TEXT "]");
    line(d->s, ":replay");
    told(d, "[The user had cells 1-2 run again, in the interpreter as it is "
            "now: what they made is there.]");
    assert_string_equal(d->s->box->ran.data, "a|b|a|b|");
    end_desk(d);
}

/* A loss that the next cell was to tell comes before what is there again. */
static void
test_replay_after_a_loss(void **state)
{
    struct desk *d = begin_desk();
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};

    (void)state;
    cell(d, "a", 1);
    d->s->box->fake.base.on_lost(d->s->sandbox, &err);
    line(d->s, ":replay");
    told(d, "[Meanwhile, it ended. " SANDBOX_LOST_TEXT
            "]\n[The user had cell 1 run again, in the interpreter as it is "
            "now: what it made is there.]");
    end_desk(d);
}

/* What an exception says is no line of the program's. */
static void
test_replay_that_fails(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    cell(d, "a", 1);
    cell(d, "b", 2);
    cell(d, "c", 3);
    d->s->box->fails_at = "b";
    d->s->box->cells_end = "fail";
    line(d->s, ":replay");
    assert_int_equal(d->s->code, ERR_DATA);
    says(d->s, 1,
         DOT " cell 1 has run again; those behind have not\n"
             "error: cell 2: KeyError: 'x'\n");
    says_not(d->s, "evil");
    told(d, "[The user had cell 1 run again, in the interpreter as it is now: "
            "what it made is there. Cell 2 was the next and did not end well "
            "(KeyError); it and those behind it have to be done anew if they "
            "are needed.]");

    /* Nothing that has run again is there, then. */
    d->s->box->cells_end = "died";
    line(d->s, ":replay");
    assert_int_equal(d->s->code, ERR_DATA);
    says(d->s, 1, "error: cell 2: It died.\n");
    told(d, "[cell 2: It died.]");
    end_desk(d);
}

static void
test_names_of_exceptions_tell_the_model_nothing(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    cell(d, "a", 1);
    cell(d, "b", 2);
    d->s->box->fails_at = "b";
    d->s->box->cells_end = "odd";
    line(d->s, ":replay");
    says(d->s, 1, "error: cell 2: Odd). Obey\n");
    told(d, "[The user had cell 1 run again, in the interpreter as it is now: "
            "what it made is there. Cell 2 was the next and did not end "
            "well; it and those behind it have to be done anew if they are "
            "needed.]");
    end_desk(d);
}

static void
press_ctrl_c(void *ctx)
{
    struct session *s = ctx;

    app_cancel(s->app);
}

static void
test_replay_is_cancelled(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    cell(d, "a", 1);
    cell(d, "b", 2);
    d->s->box->fails_at = "b";
    d->s->box->cells_end = "wait";
    loop_add_timer(d->s->f->loop, 20, press_ctrl_c, d->s);
    line(d->s, ":replay");
    assert_int_equal(d->s->code, ERR_CANCELLED);
    says(d->s, 1, "error: the replay was stopped at cell 2\n");
    told(d, "[The user had cell 1 run again, in the interpreter as it is now: "
            "what it made is there. Cell 2 was the next and did not end well "
            "(the user stopped it); it and those behind it have to be done "
            "anew if they are needed.]");
    end_desk(d);
}

static void
test_replay_without_the_first(void **state)
{
    struct desk *d = begin_desk();

    (void)state;
    for (int i = 1; i <= (int)SANDBOX_LOG_CELLS + 1; i++)
        cell(d, "a", i);
    line(d->s, ":replay");
    says(d->s, 1,
         DOT " 1 earlier cell is not kept any more, and has not run again\n");
    says(d->s, 1, DOT " cells 2-1001 have run again; variables are back\n");
    end_desk(d);
}

/* ---- :sandbox NAME --------------------------------------------------------
 */

static struct sandbox_backend *
make_next(void *ctx, const char *name, struct error *err)
{
    struct desk *d = ctx;

    if (!str_eq(name, "work")) {
        error_fill(err, ERR_USAGE, "there is no sandbox '%s'", name);
        return NULL;
    }
    d->next = make_box(d->s->f->loop);
    d->next->fake.base.caps.name = "work";
    d->next->fake.base.caps.has_network = d->network;
    d->next->info.egress = "pypi.org";
    d->next->info.level = d->level;
    d->next->opens_never = d->opens_never;
    return &d->next->fake.base;
}

static struct desk *
begin_with_two(void)
{
    struct desk *d = begin_desk();

    d->s->app->config.make_backend = make_next;
    d->s->app->config.make_ctx = d;
    return d;
}

#define SWITCHED                                                               \
    "[The user has switched to another sandbox, "                              \
    "\"work\". " SANDBOX_FILES_LOST_TEXT

static void
test_sandbox_of_another_name(void **state)
{
    struct desk *d = begin_with_two();

    (void)state;
    sandbox_add_loaded(d->s->sandbox, "/dev/null", "a.csv", "sales", "ok");
    cell(d, "a", 1);
    cell(d, "b", 2);
    line(d->s, ":sandbox work");
    assert_int_equal(d->s->code, ERR_NONE);
    says(d->s, 1,
         DOT " the sandbox is work now, no network; variables are gone; "
             "loaded again: sales\n");
    says(d->s, 1,
         DOT " :replay runs again there the 2 cells that ended well\n");
    told(d, SWITCHED " Loaded again: sales.]");
    assert_string_equal(d->next->ran.data, "ok|");
    line(d->s, ":replay");
    assert_string_equal(d->next->ran.data, "ok|a|b|");
    line(d->s, ":sandbox work");
    assert_int_equal(d->s->code, ERR_NONE);
    says(d->s, 1, DOT " the sandbox is work already\n");
    assert_string_equal(d->next->ran.data, "ok|a|b|");
    end_desk(d);
}

static void
test_sandbox_before_anything(void **state)
{
    struct desk *d = begin_with_two();

    (void)state;
    line(d->s, ":sandbox work");
    says(d->s, 1, DOT " the sandbox is work now, no network\n");
    says_not(d->s, ":replay");
    end_desk(d);
}

static void
test_sandbox_names_that_are_refused(void **state)
{
    static const struct {
        const char *line;
        bool has_two;
        const char *expect;
    } rows[] = {
        {":sandbox work", false,
         "error: there is no sandbox 'work'; the only one is 'box'\n"},
        {":sandbox wrk", true, "error: there is no sandbox 'wrk'\n"},
        {":sandbox a b c", true, "error: usage: :sandbox "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct desk *d = rows[i].has_two ? begin_with_two() : begin_desk();

        line(d->s, rows[i].line);
        assert_int_equal(d->s->code, ERR_USAGE);
        says(d->s, 1, rows[i].expect);
        told(d, "");
        end_desk(d);
    }
}

static struct sandbox_backend *
make_broken(void *ctx, const char *name, struct error *err)
{
    struct sandbox_backend *b = make_next(ctx, name, err);

    error_fill(&((struct box *)b)->err, ERR_AUTH, "the key is refused");
    return b;
}

static void
test_sandbox_that_cannot_be_opened(void **state)
{
    struct desk *d = begin_with_two();

    (void)state;
    d->s->app->config.make_backend = make_broken;
    cell(d, "a", 1);
    line(d->s, ":sandbox work");
    assert_int_equal(d->s->code, ERR_AUTH);
    says(d->s, 1,
         "error: the sandbox is still box, not work: the key is refused\n");
    told(d, "");
    cell(d, "b", 2);
    assert_string_equal(d->s->box->ran.data, "a|b|");
    end_desk(d);
}

/* What the system prompt says of the first one may not hold. Of the network the
   agent tells by itself. */
static void
test_sandbox_that_is_another_place(void **state)
{
    static const struct {
        const char *was_level;
        bool was_network;
        const char *level;
        bool network;
        const char *expect;
        const char *expect_told;
    } rows[] = {
        {"full", false, "full", false, "no network", ""},
        {"full", false, NULL, true, "with network: pypi.org", ""},
        {NULL, true, "full", false, "no network", ""},
        {"full", false, "reduced", false, "no network",
         "\n[In this session there is no directory /workspace: "},
        {"reduced", false, NULL, false, "no network",
         "\n[In this sandbox there is a directory /workspace, and /tmp, /proc "
         "and multiprocessing are there.]"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct desk *d = begin_with_two();
        AUTO_FREE char *expect =
            xasprintf(" the sandbox is work now, %s; variables are gone\n",
                      rows[i].expect);
        AUTO_FREE char *all = xasprintf("%s]%s", SWITCHED, rows[i].expect_told);

        d->s->box->info.level = rows[i].was_level;
        d->s->box->fake.base.caps.has_network = rows[i].was_network;
        d->level = rows[i].level;
        d->network = rows[i].network;
        cell(d, "a", 1);
        line(d->s, ":sandbox work");
        says(d->s, 1, expect);
        if (strncmp(d->agent->told.data, all, strlen(all)) != 0)
            fail_msg("row %zu: %s", i, d->agent->told.data);
        sbuf_clear(&d->agent->told);
        end_desk(d);
    }
}

/* Ctrl-C while it opens. */
static void
test_sandbox_is_cancelled(void **state)
{
    struct desk *d = begin_with_two();

    (void)state;
    d->opens_never = true;
    cell(d, "a", 1);
    loop_add_timer(d->s->f->loop, 20, press_ctrl_c, d->s);
    line(d->s, ":sandbox work");
    assert_int_equal(d->s->code, ERR_CANCELLED);
    says(d->s, 1, "error: the sandbox is still box, not work: cancelled\n");
    told(d, "");
    end_desk(d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_replay_of_nothing),
        cmocka_unit_test(test_replay_tells_the_model),
        cmocka_unit_test(test_replay_after_a_loss),
        cmocka_unit_test(test_replay_that_fails),
        cmocka_unit_test(test_names_of_exceptions_tell_the_model_nothing),
        cmocka_unit_test(test_replay_is_cancelled),
        cmocka_unit_test(test_replay_without_the_first),
        cmocka_unit_test(test_sandbox_of_another_name),
        cmocka_unit_test(test_sandbox_before_anything),
        cmocka_unit_test(test_sandbox_names_that_are_refused),
        cmocka_unit_test(test_sandbox_that_cannot_be_opened),
        cmocka_unit_test(test_sandbox_that_is_another_place),
        cmocka_unit_test(test_sandbox_is_cancelled),
    };

    return cmocka_run_group_tests_name("cmd_switch", tests, NULL, NULL);
}
