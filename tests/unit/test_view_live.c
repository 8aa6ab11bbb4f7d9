/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the view says while nothing else can be shown: the live line, the wait
 * before another try, and thinking in its three forms.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "unit/view_screen.h"

#define DOT "\xC2\xB7"
#define RULE "\xE2\x94\x80\xE2\x94\x80"
#define DOTS "\xE2\x80\xA6"
#define OVERLOADED "the service is overloaded (529, request req_1)"
#define START_OF_LINE "\r\033[K"

/* With all characters. */
static struct fixture *
begin_live(struct setting with)
{
    with.unicode = true;
    return begin(with);
}

static void
put_text(struct fixture *f, enum event_kind kind, const char *text, bool over)
{
    put(f, (struct event){.kind = kind,
                          .cell = kind == EVENT_CODE ? 1 : 0,
                          .text = text,
                          .len = strlen(text),
                          .end = over});
}

static void
put_wait(struct fixture *f, const char *why, int64_t ms)
{
    put(f, (struct event){.kind = EVENT_STATUS,
                          .text = why,
                          .len = strlen(why),
                          .until_ms = clock_now_ms() + ms});
}

static void
on_time(void *ctx)
{
    loop_stop(ctx);
}

static void
wait_ms(struct fixture *f, int64_t ms)
{
    loop_add_timer(f->loop, ms, on_time, f->loop);
    loop_run(f->loop);
}

static void
expect_text(const char *where, const char *text, const char *expect)
{
    if (strcmp(text, expect) != 0)
        fail_msg("%s:\n%s\n--- instead of\n%s", where, text, expect);
}

static void
expect_in(const char *text, const char *expect)
{
    if (strstr(text, expect) == NULL)
        fail_msg("no '%s' in\n%s", expect, text);
}

/* ---- a wait ---------------------------------------------------------------
 */

/* Nothing is left of it, not even a line end. */
static void
test_wait_counts_down(void **state)
{
    struct fixture *f = begin_live((struct setting){.kind = TERMINAL});
    const char *two = NULL;
    const char *one = NULL;
    const char *over = NULL;

    (void)state;
    put_wait(f, OVERLOADED, 1100);
    wait_ms(f, 1300);
    finish(f);
    two = strstr(f->text[0].data,
                 "waiting 2 s: " OVERLOADED " " DOT " Ctrl-C stops");
    one = strstr(f->text[0].data,
                 "waiting 1 s: " OVERLOADED " " DOT " Ctrl-C stops");
    over = strstr(f->text[0].data, "trying again " DOT " Ctrl-C stops");
    assert_true(two != NULL && one > two && over > one);
    assert_null(strstr(f->text[0].data, "waiting 0 s"));
    assert_null(strchr(f->text[0].data, '\n'));
    end(f);
}

struct width_case {
    int columns;
    const char *expect;
};

/* How to stop it is there at every width. */
static const struct width_case width_cases[] = {
    {100, "waiting 9 s: " OVERLOADED " " DOT " Ctrl-C stops"},
    {75, "waiting 9 s: " OVERLOADED " " DOT " Ctrl-C stops"},
    {74, "waiting 9 s: the service is overloaded (529) " DOT " Ctrl-C stops"},
    {60, "waiting 9 s: the service is overloaded (529) " DOT " Ctrl-C stops"},
    {59, "waiting 9 s: the service is overloaded " DOT " Ctrl-C stops"},
    {54, "waiting 9 s: the service is overloaded " DOT " Ctrl-C stops"},
    {53, "waiting 9 s: the service is overloaded" DOTS " " DOT " Ctrl-C"},
    {40, "waiting 9 s: the service is o" DOTS " " DOT " Ctrl-C"},
    {24, "waiting 9 s: " DOTS " " DOT " Ctrl-C"},
};

static void
test_wait_fits_into_the_width(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(width_cases); i++) {
        const struct width_case *c = &width_cases[i];
        struct fixture *f = begin_live(
            (struct setting){.kind = TERMINAL, .columns = c->columns});

        put_wait(f, OVERLOADED, 9000);
        finish(f);
        expect_in(f->text[0].data, c->expect);
        end(f);
    }
}

static void
test_wait_is_a_line_where_there_is_no_live_line(void **state)
{
    static const char expect[] =
        DOT " waiting 9 s: " OVERLOADED " " DOT " Ctrl-C stops\n";
    struct fixture *f = NULL;

    (void)state;
    f = begin_live((struct setting){.kind = PLAIN});
    put_wait(f, OVERLOADED, 9000);
    put_text(f, EVENT_STATUS, "waiting for the model", false);
    finish(f);
    assert_int_equal(f->text[0].len, 0);
    expect_text("stderr", f->text[1].data, expect);
    end(f);
    f = begin_live((struct setting){.kind = DUMB, .columns = 100});
    put_wait(f, OVERLOADED, 9000);
    finish(f);
    expect_text("dumb", f->text[0].data, expect);
    end(f);
}

/* What a service says is data: it may repeat a key, or send sequences. */
static void
test_wait_says_nothing_that_it_should_not(void **state)
{
    struct fixture *f = begin_live((struct setting){.kind = TERMINAL});

    (void)state;
    log_hide("sk-secret-0123456789");
    put_wait(f, "no sk-secret-0123456789 \033]0;title\a here", 9000);
    finish(f);
    log_unhide("sk-secret-0123456789");
    assert_null(strstr(f->text[0].data, "sk-secret"));
    assert_null(strstr(f->text[0].data, "\033]"));
    assert_null(strchr(f->text[0].data, '\a'));
    end(f);
}

static void
test_status_after_a_wait_is_no_wait(void **state)
{
    struct fixture *f = begin_live((struct setting){.kind = TERMINAL});
    const char *last = NULL;

    (void)state;
    put_wait(f, OVERLOADED, 9000);
    put_text(f, EVENT_STATUS, "thinking", false);
    wait_ms(f, 1050);
    finish(f);
    for (const char *p = f->text[0].data; p != NULL;
         p = strstr(p + 1, START_OF_LINE))
        last = p[strlen(START_OF_LINE)] != '\0' ? p : last;
    expect_in(last, "thinking " DOT " 1 s " DOT " Ctrl-C stops");
    end(f);
}

struct retry_case {
    enum error_code code;
    int http_status;
    struct setting with;
    bool expect;
};

static const struct retry_case retry_cases[] = {
    {ERR_OVERLOADED, 529, {.kind = TERMINAL}, true},
    {ERR_RATE_LIMIT, 429, {.kind = DUMB}, true},
    {ERR_NET, 0, {.kind = TERMINAL}, true},
    {ERR_REMOTE, 500, {.kind = TERMINAL}, true},
    {ERR_REMOTE, 400, {.kind = TERMINAL}, false},
    {ERR_AUTH, 401, {.kind = TERMINAL}, false},
    {ERR_TOO_LARGE, 413, {.kind = TERMINAL}, false},
    {ERR_OVERLOADED, 529, {.kind = TERMINAL, .no_commands = true}, false},
    {ERR_OVERLOADED, 529, {.kind = PLAIN}, false},
};

/* Only where it helps, can be typed, and exists. */
static void
test_end_of_a_turn_offers_another_try(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(retry_cases); i++) {
        const struct retry_case *c = &retry_cases[i];
        struct fixture *f = begin_live(c->with);
        struct error err = {.code = c->code, .http_status = c->http_status};

        snprintf(err.msg, sizeof(err.msg), "it did not work");
        put(f, (struct event){.kind = EVENT_DONE,
                              .scope = EVENT_SCOPE_TURN,
                              .outcome = EVENT_FAILED,
                              .err = &err});
        finish(f);
        if ((strstr(f->text[0].data, ":retry") != NULL) != c->expect ||
            strstr(f->text[1].data, ":retry") != NULL)
            fail_msg("case %zu: %s", i, f->text[0].data);
        end(f);
    }
}

/* ---- thinking -------------------------------------------------------------
 */

#define WORDS80                                                                \
    "These are words of a sentence that has just about eighty characters, "    \
    "so. "
#define LONG80 WORDS80 WORDS80 WORDS80 WORDS80 WORDS80

struct thinking_case {
    const char *name;
    const char *mode;
    const char *pieces[3];
    enum event_kind then; /* EVENT_CODE or EVENT_TEXT */
    const char *expect;   /* before what follows */
};

static const struct thinking_case thinking_cases[] = {
    {"show", "show", {"I think.", NULL}, EVENT_TEXT, "I think.\n\n"},
    {"no setting", NULL, {"I think.", NULL}, EVENT_CODE, "I think.\n\n"},
    {"hide", "hide", {"I think.", NULL}, EVENT_CODE, ""},
    {"hide before words", "hide", {"I think.", NULL}, EVENT_TEXT, ""},
    {"brief before words", "brief", {"I think.", NULL}, EVENT_TEXT, ""},
    {"brief before a cell",
     "brief",
     {"I look.", NULL},
     EVENT_CODE,
     "I look.\n\n"},
    {"the last paragraph",
     "brief",
     {"Two columns.\n", "\nI total ", "them.\n"},
     EVENT_CODE,
     "I total them.\n\n"},
    {"the last of a long one",
     "brief",
     {LONG80, "I total them.", NULL},
     EVENT_CODE,
     "These are words of a sentence that has just about eighty characters, "
     "so. These\nare words of a sentence that has just about eighty "
     "characters, so. These are\nwords of a sentence that has just about "
     "eighty characters, so. These are words\nof a sentence that has just "
     "about eighty characters, so. I total them.\n\n"},
    {"one without end", "brief", {NULL}, EVENT_CODE, ""},
    {"blank", "brief", {" \n", NULL}, EVENT_CODE, ""},
};

static void
test_thinking(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(thinking_cases); i++) {
        const struct thinking_case *c = &thinking_cases[i];
        struct fixture *f =
            begin_live((struct setting){.kind = DUMB, .thinking = c->mode});
        AUTO_FREE char *expect = xasprintf(
            "%s%s", c->expect,
            c->then == EVENT_CODE ? RULE " 1 python\nx\n" RULE "\n" : "So.\n");

        for (size_t k = 0; k < LEN(c->pieces) && c->pieces[k] != NULL; k++)
            put_text(f, EVENT_THINKING, c->pieces[k], false);
        put_text(f, EVENT_THINKING, "", true);
        put_text(f, c->then, c->then == EVENT_CODE ? "x" : "So.", true);
        finish(f);
        expect_text(c->name, f->text[0].data, expect);
        end(f);
    }
}

/* Megabytes of it cost nothing and show nothing. */
static void
test_thinking_without_end_is_bounded(void **state)
{
    struct fixture *f =
        begin_live((struct setting){.kind = DUMB, .thinking = "brief"});
    AUTO_FREE char *big = xcalloc(1, 100001);

    (void)state;
    memset(big, 'x', 100000);
    for (int i = 0; i < 20; i++)
        put_text(f, EVENT_THINKING, big, false);
    put_text(f, EVENT_THINKING, "", true);
    put_text(f, EVENT_CODE, "x", true);
    finish(f);
    expect_text("screen", f->text[0].data, RULE " 1 python\nx\n" RULE "\n");
    end(f);
}

/* What a cell, words or another try have come behind is not said again. */
static void
test_thinking_is_said_once(void **state)
{
    struct fixture *f =
        begin_live((struct setting){.kind = DUMB, .thinking = "brief"});

    (void)state;
    put_text(f, EVENT_THINKING, "I look.", true);
    put_text(f, EVENT_CODE, "x", true);
    put_text(f, EVENT_CODE, "x", true);
    put_text(f, EVENT_THINKING, "Once more.", true);
    put_wait(f, OVERLOADED, 1000);
    put_text(f, EVENT_CODE, "x", true);
    finish(f);
    expect_in(f->text[0].data, "I look.\n\n" RULE);
    assert_null(strstr(strstr(f->text[0].data, "I look.") + 1, "I look."));
    assert_null(strstr(f->text[0].data, "Once more."));
    end(f);
}

static void
test_thinking_from_a_second_up_has_a_line(void **state)
{
    static const struct {
        struct setting with;
        const char *expect;
    } cases[] = {
        {{.kind = DUMB, .thinking = "brief"}, " s " DOT " :thinking\n"},
        {{.kind = DUMB, .thinking = "brief", .no_commands = true}, " s\n"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct fixture *f = begin_live(cases[i].with);
        const char *rest = NULL;

        put_text(f, EVENT_THINKING, "I think", false);
        wait_ms(f, 1010);
        put_text(f, EVENT_THINKING, " of it.", true);
        put_text(f, EVENT_TEXT, "So.", true);
        finish(f);
        expect_in(f->text[0].data, DOT " thought for 1.");
        rest = strstr(f->text[0].data, " s");
        assert_non_null(rest);
        assert_int_equal(
            strncmp(rest, cases[i].expect, strlen(cases[i].expect)), 0);
        expect_in(rest, "\n\nSo.\n");
        assert_null(strstr(f->text[0].data, "I think"));
        end(f);
    }
}

/* In a script too it is no part of the answer. */
static void
test_thinking_goes_to_the_side(void **state)
{
    struct fixture *f =
        begin_live((struct setting){.kind = PLAIN, .thinking = "brief"});

    (void)state;
    put_text(f, EVENT_THINKING, "I look.", true);
    put_text(f, EVENT_CODE, "x", true);
    put_text(f, EVENT_TEXT, "So.", true);
    finish(f);
    expect_text("stdout", f->text[0].data, "So.\n");
    expect_in(f->text[1].data, "I look.\n");
    end(f);
}

/* It cannot speak for the program when it is asked for, either. */
static void
test_thinking_asked_for(void **state)
{
    struct fixture *f = begin_live((struct setting){.kind = PLAIN});

    (void)state;
    view_thinking(f->view, "One\033[31m.\nerror: two\n\nThree.");
    finish(f);
    expect_text("stdout", f->text[0].data,
                "One^[[31m.\n error: two\n\nThree.\n");
    end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_counts_down),
        cmocka_unit_test(test_wait_fits_into_the_width),
        cmocka_unit_test(test_wait_is_a_line_where_there_is_no_live_line),
        cmocka_unit_test(test_wait_says_nothing_that_it_should_not),
        cmocka_unit_test(test_status_after_a_wait_is_no_wait),
        cmocka_unit_test(test_end_of_a_turn_offers_another_try),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_thinking_without_end_is_bounded),
        cmocka_unit_test(test_thinking_is_said_once),
        cmocka_unit_test(test_thinking_from_a_second_up_has_a_line),
        cmocka_unit_test(test_thinking_goes_to_the_side),
        cmocka_unit_test(test_thinking_asked_for),
    };

    return cmocka_run_group_tests_name("view_live", tests, NULL, NULL);
}
