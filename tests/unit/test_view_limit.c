/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the view says where a turn reaches a limit, and what it keeps back from
 * a script: words that may turn out void.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "model/event.h"
#include "unit/view_screen.h"

#define DOT "\xC2\xB7"
#define DASH "\xE2\x80\x93"

/* ---- limits ---------------------------------------------------------------
 */

struct limit_case {
    const char *name;
    enum event_way way;
    int first_kept;
    int last_kept;
    const char *limit;
    const char *expect;     /* behind "no answer yet" */
    const char *expect_end; /* behind "no answer", where the run ends */
};

static const struct limit_case limit_cases[] = {
    {"budget", EVENT_WAY_BUDGET, 1, 7, "model.budget_usd",
     "cells 1-7 and their variables are kept @ :budget 1.05, :retry",
     "cells 1-7 ran, their variables end with this run @ raise "
     "model.budget_usd"},
    {"one cell", EVENT_WAY_RETRY, 3, 3, "limits.rounds",
     "cell 3 and its variables are kept @ :retry",
     "cell 3 ran, its variables end with this run @ raise limits.rounds"},
    {"no cell", EVENT_WAY_RETRY, 0, 0, "limits.rounds", ":retry",
     "raise limits.rounds"},
    {"a setting", EVENT_WAY_SETTING, 0, 0, "limits.turn_usd",
     "raise limits.turn_usd", "raise limits.turn_usd"},
    {"no setting", EVENT_WAY_REPHRASE, 0, 0, NULL,
     ":retry, or ask in another way", "ask in another way"},
    {"smaller", EVENT_WAY_SMALLER, 0, 0, "model.max_tokens",
     ":retry, or ask for smaller steps",
     "model.max_tokens @ ask for smaller steps"},
};

/* A line with "@" for the dot and "-" for the dash, as it is shown. */
static char *
as_shown(const char *begin, const char *text, bool unicode)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_SCREEN);
    sbuf_addf(&sb, "\n%s %s %s ", unicode ? DOT : "-", begin,
              unicode ? DOT : "-");
    for (; *text != '\0'; text++) {
        if (*text == '@')
            sbuf_add_str(&sb, unicode ? DOT : "-");
        else if (*text == '-')
            sbuf_add_str(&sb, unicode ? DASH : "-");
        else
            sbuf_add_char(&sb, *text);
    }
    sbuf_add_char(&sb, '\n');
    return sbuf_take(&sb);
}

/* A limit is no error: what is kept is said, and how to go on; where the run
   ends with the turn, nothing is kept and no command can follow. */
static void
test_turn_that_reached_a_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * LEN(limit_cases); i++) {
        const struct limit_case *t = &limit_cases[i / 4];
        struct setting with = {.unicode = i % 2 == 0, .run_ends = i % 4 >= 2};
        struct fixture *f = begin(with);
        struct error err = {0};
        AUTO_FREE char *expect =
            with.run_ends ? as_shown("no answer", t->expect_end, with.unicode)
                          : as_shown("no answer yet", t->expect, with.unicode);

        error_fill(&err, ERR_LIMIT,
                   "stopped before call 9: $0.46 spent, it could cost $0.09, "
                   "limit $0.50");
        put(f, (struct event){.kind = EVENT_DONE,
                              .scope = EVENT_SCOPE_TURN,
                              .outcome = EVENT_LIMIT,
                              .n_cells = 7,
                              .limit = t->limit,
                              .way = t->way,
                              .way_nanousd = INT64_C(1050000000),
                              .first_kept_cell = t->first_kept,
                              .last_kept_cell = t->last_kept,
                              .err = &err});
        finish(f);
        assert_non_null(strstr(f->text[1].data,
                               "warning: stopped before call 9: $0.46 spent, "
                               "it could cost $0.09, limit $0.50\n"));
        if (strstr(f->text[1].data, expect) == NULL)
            fail_msg("%s: no%sin\n%s", t->name, expect, f->text[1].data);
        assert_null(strstr(f->text[1].data, "error"));
        assert_string_equal(f->text[0].data, "");
        end(f);
    }
}

struct stop_case {
    enum event_outcome outcome;
    const char *reason;
    const char *expect;
};

/* A run that is over keeps no variables; one that goes on does. */
static const struct stop_case stop_cases[] = {
    {EVENT_INTERRUPTED, NULL, " cell 1: stopped\n"},
    {EVENT_INTERRUPTED, "Stopped; variables are kept.", " cell 1: stopped\n"},
    {EVENT_TIMEOUT, "Stopped after 1 s; variables are kept.",
     " cell 1: stopped after 1 s " DOT " variables are kept " DOT
     " Claude is told\n"},
};

static void
test_cell_that_ends_with_the_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(stop_cases); i++) {
        const struct stop_case *t = &stop_cases[i];
        struct fixture *f =
            begin((struct setting){.unicode = true, .run_ends = true});
        AUTO_FREE char *expect = xasprintf(DOT "%s", t->expect);

        put(f,
            (struct event){.kind = EVENT_DONE,
                           .scope = EVENT_SCOPE_CELL,
                           .cell = 1,
                           .outcome = t->outcome,
                           .text = t->reason,
                           .len = t->reason != NULL ? strlen(t->reason) : 0});
        finish(f);
        assert_string_equal(f->text[1].data, expect);
        end(f);
    }
}

/* ---- words that do not count ----------------------------------------------
 */

static void
put_words(struct fixture *f, const char *text, bool at_end)
{
    put(f, (struct event){.kind = EVENT_TEXT,
                          .text = text,
                          .len = strlen(text),
                          .end = at_end});
}

static void
put_reply(struct fixture *f)
{
    put(f, (struct event){.kind = EVENT_REPLY, .text = "[]", .len = 2});
}

static void
put_void(struct fixture *f)
{
    put(f, (struct event){.kind = EVENT_TEXT, .end = true, .is_void = true});
}

static void
test_words_are_held_until_the_reply_is_kept(void **state)
{
    struct fixture *f =
        begin((struct setting){.unicode = true, .hold_words = true});
    struct error err = {0};

    (void)state;
    put_words(f, "Void", false);
    put_words(f, "", true);
    put_words(f, "Void too", false);
    put_void(f);
    put_words(f, "One ", false);
    put_words(f, "and two.", true);
    put_words(f, "\n", true);
    put_words(f, "Three", true);
    put_words(f, "", true);
    put_words(f, "not ended", false);
    read_all(f);
    assert_string_equal(f->text[0].data, "");
    put_reply(f);
    put_words(f, "Half", false);
    error_fill(&err, ERR_NO_ANSWER, "no");
    put(f, (struct event){.kind = EVENT_DONE,
                          .scope = EVENT_SCOPE_TURN,
                          .outcome = EVENT_FAILED,
                          .err = &err});
    put_reply(f);
    put_words(f, "Held for ever", true);
    finish(f);
    assert_string_equal(f->text[0].data,
                        "One and two.\n\nThree\n\nnot ended\n");
    end(f);
}

/* A person sees them as they come; that they are void is said. */
static void
test_words_are_not_held_for_a_person(void **state)
{
    struct fixture *f = begin((struct setting){.unicode = true});

    (void)state;
    put_words(f, "Void\n", false);
    read_all(f);
    assert_string_equal(f->text[0].data, "Void\n");
    put_void(f);
    put_words(f, "One.", true);
    put_reply(f);
    finish(f);
    assert_string_equal(f->text[0].data, "Void\n\nOne.\n");
    end(f);
}

/* Control bytes and marks do not come through on this way either. */
static void
test_held_words_are_cleaned(void **state)
{
    struct fixture *f =
        begin((struct setting){.unicode = true, .hold_words = true});

    (void)state;
    put_words(f, "a\x1B[2Jb\nwarning: no\n", true);
    put_reply(f);
    finish(f);
    assert_null(strchr(f->text[0].data, '\x1B'));
    assert_null(strstr(f->text[0].data, "\nwarning"));
    end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn_that_reached_a_limit),
        cmocka_unit_test(test_cell_that_ends_with_the_run),
        cmocka_unit_test(test_words_are_held_until_the_reply_is_kept),
        cmocka_unit_test(test_words_are_not_held_for_a_person),
        cmocka_unit_test(test_held_words_are_cleaned),
    };

    return cmocka_run_group_tests_name("view_limit", tests, NULL, NULL);
}
