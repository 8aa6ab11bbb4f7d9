/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The agent against a model and a sandbox that follow a script. The model
 * checks every request as the service would.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/loop.h"
#include "claude/claude.h"
#include "claude/transport.h"
#include "helpers/agent_fixture.h"
#include "model/event.h"
#include "model/output.h"
#include "sandbox/sandbox.h"

/* ---- tests ----------------------------------------------------------------
 */

static void
test_plain_answer(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_answer(f, "Forty-two.");
    expect_ok(f, "what is it?");
    assert_string_equal(f->log.data,
                        "question what is it?\nstatus waiting for the model\n"
                        "status answering\ntext Forty-two.\ntext\nreply\n"
                        "usage\ndone turn ok\n");
    assert_int_equal(f->ran.len, 0);
    expect_next_is_fine(f);
    expect_sent(f, "Forty-two.");
    fixture_end(f);
}

static void
test_one_call(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_thinking(f, "hm");
    x_text(f, "Let me look.");
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_answer(f, "One.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data, "print 1|");
    /* The first cell opens the sandbox, and has not begun before. */
    expect_logged(f, "status starting the sandbox\nstatus running\noutput");
    expect_sent(f,
                "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                "\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\","
                "\"text\":\"[status: ok, 0.0 s]\\n[stdout, 15 bytes]\\nout of "
                "print 1\\n\"}]}]}");
    expect_logged(f, "thinking hm\n");
    expect_logged(f, "status writing code\n");
    expect_logged(f, "code 1 print 1\n");
    expect_logged(f, "output 1\n");
    expect_logged(f, "done 1 cell ok\n");
    expect_logged(f, "done turn ok\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_two_calls_in_one_reply(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "show 1");
    x_python(f, "t2", "silent 2");
    x_end(f, "tool_use");
    x_begin(f);
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_string_equal(f->ran.data, "show 1|silent 2|print 3|");
    expect_sent(f, "[result, 5 bytes]\\nshown\\n[note]\\nnoted\\n");
    expect_sent(f, "(no output)");
    expect_logged(f, "result 1\n");
    expect_logged(f, "code 3 print 3\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_error_in_code(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "boom 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Mended.");
    expect_ok(f, "q");
    expect_sent(
        f, "[error]\\nTraceback\\nKeyError: 'x'\\nnearest column: y\\n\"}],"
           "\"is_error\":true}");
    expect_logged(f, "error 1 KeyError 'x'\n");
    expect_logged(f, "done 1 cell error\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

struct bad_call {
    const char *name;
    const char *tool;
    const char *input;
    const char *expect_sent;
};

static const struct bad_call bad_calls[] = {
    {"unknown tool", "bash", "{\"code\":\"x\"}", "there is no tool named"},
    {"invalid JSON", "run_python", "{\"code\": \"x", "INVALID_JSON"},
    {"no JSON at all", "run_python", "code = 1", "INVALID_JSON"},
    {"a NUL", "run_python", "{\"code\":\"x\\u0000y\"}", "INVALID_JSON"},
    {"no code", "run_python", "{\"python\":\"x\"}", "needs one string"},
    {"nothing", "run_python", "", "needs one string"},
    {"blank code", "run_python", "{\"code\":\"  \"}", "the code is empty"},
};

static void
test_calls_that_cannot_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_calls); i++) {
        const struct bad_call *t = &bad_calls[i];
        struct fixture *f = fixture_begin();

        x_begin(f);
        x_tool(f, "t1", t->tool, t->input);
        x_python(f, "t2", "print 2");
        x_tool(f, "t3", t->tool, t->input);
        x_end(f, "tool_use");
        x_answer(f, "Done.");
        expect_ok(f, t->name);
        assert_string_equal(f->ran.data, "print 2|");
        expect_sent(f, "Not executed: ");
        expect_sent(f, t->expect_sent);
        assert_int_equal(count(f->last.data, "\"is_error\":true"), 2);
        expect_logged(f, "notice a call of the model could not be run");
        expect_next_is_fine(f);
        fixture_end(f);
    }
}

static void
add_rounds(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++) {
        AUTO_FREE char *id = xasprintf("t%d", i);
        AUTO_FREE char *second = xasprintf("u%d", i);
        AUTO_FREE char *code = xasprintf("print r%d", i);

        x_begin(f);
        x_python(f, id, code);
        if (i == n - 1)
            x_tool(f, second, "bash", "{}");
        x_end(f, "tool_use");
    }
}

static void
test_round_20_is_an_answer(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    add_rounds(f, 19);
    x_answer(f, "At last.");
    expect_ok(f, "q");
    assert_int_equal(f->n_requests, 20);
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_round_21_is_not_asked_for(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    add_rounds(f, 20);
    assert_int_equal(ask(f, "q"), EVENT_LIMIT);
    assert_int_equal(f->err.code, ERR_LIMIT);
    assert_int_equal(f->n_requests, 20);
    assert_int_equal(count(f->ran.data, "|"), 19);
    expect_logged(f, "done turn limit (stopped after 20 rounds");
    expect_next_is_fine(f);
    assert_int_equal(count(f->last.data, "Not executed: the limit of rounds"),
                     2);
    expect_nothing_ran_twice(f);
    fixture_end(f);
}

static void
test_refusal(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_text(f, "I will");
    x_end(f, "refusal");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_NO_ANSWER);
    expect_next_is_fine(f);
    expect_not_sent(f, "first question");
    expect_not_sent(f, "I will");

    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "refusal");
    assert_int_equal(ask(f, "another"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_NO_ANSWER);
    expect_next_is_fine(f);
    expect_not_sent(f, "another");
    expect_not_sent(f, "out of print 1");
    expect_sent(f, "[Cell 1 ran for a question that is no part of this "
                   "conversation; variables and files may remain.]");
    fixture_end(f);
}

static void
test_max_tokens(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_text(f, "A long story");
    x_end(f, "max_tokens");
    expect_ok(f, "q");
    expect_logged(f, "notice the answer was cut at model.max_tokens");
    expect_next_is_fine(f);
    expect_sent(f, "A long story");
    fixture_end(f);
}

static void
test_empty_reply(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_NO_ANSWER);
    assert_int_equal(f->n_requests, 1);
    expect_next_is_fine(f);
    expect_not_sent(f, "first question");
    fixture_end(f);
}

static void
test_empty_reply_behind_results_is_asked_for_once(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    x_answer(f, "Here it is.");
    expect_ok(f, "q");
    assert_int_equal(f->n_requests, 3);
    expect_sent(f, "Please go on");

    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "again"), EVENT_FAILED);
    assert_int_equal(f->n_requests, 3);
    expect_next_is_fine(f);
    expect_nothing_ran_twice(f);
    fixture_end(f);
}

static void
test_empty_reply_at_the_limit_is_not_asked_for(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    make_agent(f, 2);
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    x_begin(f);
    x_end(f, "end_turn");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->n_requests, 2);
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_pause_goes_on(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    f->may_pause = true;
    x_text(f, "Thinking about it.");
    x_end(f, "pause_turn");
    x_begin(f);
    x_text(f, "And again.");
    x_end(f, "pause_turn");
    x_answer(f, "Done.");
    assert_int_equal(ask(f, "q"), EVENT_OK);
    assert_int_equal(f->n_requests, 3);
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_sandbox_lost(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "lost 2");
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_SANDBOX);
    assert_string_equal(f->ran.data, "print 1|lost 2|");
    expect_logged(f, "done 2 cell died the interpreter ended for good\n");
    expect_next_is_fine(f);
    expect_sent(f, "out of print 1");
    expect_sent(f, "the interpreter ended for good\\n");
    expect_sent(f, "the sandbox is gone");
    expect_sent(f, "Not executed: there is no sandbox");
    fixture_end(f);
}

static void
test_sandbox_that_cannot_be_opened(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    f->open_fails = true;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_end(f, "tool_use");
    assert_int_equal(ask(f, "q"), EVENT_FAILED);
    assert_int_equal(f->err.code, ERR_SANDBOX);
    assert_non_null(strstr(f->err.msg, "no bwrap here"));
    assert_string_equal(f->ran.data, "");
    f->open_fails = false;
    clear_exchanges(f);
    x_begin(f);
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Now.");
    expect_ok(f, "again");
    assert_string_equal(f->ran.data, "print 2|");
    fixture_end(f);
}

static void
test_interpreter_that_died_is_told(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "died 1");
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    expect_sent(f, "[status: died, 0.0 s; the interpreter ended; variables are "
                   "gone]\\n");
    assert_string_equal(f->ran.data, "died 1|print 2|");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_failed_question_is_taken_back(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    agent_tell(f->agent, "FILE one");
    agent_tell(f->agent, "FILE two");
    x_status(f, 400,
             "{\"type\":\"error\",\"error\":{\"type\":"
             "\"invalid_request_error\",\"message\":\"no\"}}");
    assert_int_equal(ask(f, "first question"), EVENT_FAILED);
    assert_int_equal(f->err.http_status, 400);
    expect_sent(f, "FILE one\\nFILE two\\nfirst question");
    agent_tell(f->agent, "FILE three");
    expect_next_is_fine(f);
    expect_sent(f, "FILE one\\nFILE two\\nFILE three\\nnext question");
    expect_not_sent(f, "first question");
    expect_next_is_fine(f);
    assert_int_equal(count(f->last.data, "FILE one"), 1);
    assert_int_equal(count(f->last.data, "next question"), 2);
    fixture_end(f);
}

/* What was told while a turn ran is not lost when it fails. */
static void
test_told_during_a_turn_that_fails(void **state)
{
    struct fixture *f = fixture_begin();
    struct error err = {0};

    (void)state;
    agent_tell(f->agent, "FILE one");
    x_status(f, 400, "{}");
    f->first_in_turn = true;
    assert_int_equal(agent_ask(f->agent, "first question", &err), 0);
    agent_tell(f->agent, "FILE two");
    f->guard = loop_add_timer(f->loop, GUARD_MS, on_guard, f);
    loop_run(f->loop);
    loop_timer_remove(f->guard);
    assert_true(f->over);
    expect_next_is_fine(f);
    expect_sent(f, "FILE one\\nFILE two\\nnext question");
    fixture_end(f);
}

static void
test_cut_reply_is_asked_for_again(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    last_exchange(f)->retry_after_ms = "1";
    x_open_text(f, "half");
    add_piece(f, PIECE_CUT, NULL);
    x_answer(f, "Whole.");
    expect_ok(f, "q");
    expect_logged(f, "notice the reply broke off");
    expect_logged(f, "status wait ");
    expect_next_is_fine(f);
    expect_not_sent(f, "half");
    fixture_end(f);
}

static void
test_result_is_bounded(void **state)
{
    struct fixture *f = fixture_begin();
    AUTO_JSON struct cJSON *tree = NULL;
    AUTO_FREE char *array = NULL;
    const char *text = NULL;

    (void)state;
    x_begin(f);
    x_python(f, "t1", "big 1");
    x_end(f, "tool_use");
    x_answer(f, "Much.");
    expect_ok(f, "q");
    array = xasprintf("[%s]", f->last.data);
    tree = json_parse(array, strlen(array), 0, NULL);
    text = json_string(
        json_first(json_get(json_first(json_get(json_item(tree, 2), "content")),
                            "content")),
        "text");
    assert_non_null(text);
    assert_true(strlen(text) <= 12000);
    assert_true(strlen(text) > 11000);
    assert_non_null(strstr(text, "line 00000\n"));
    assert_non_null(strstr(text, "line 19999\n"));
    assert_non_null(strstr(text, " of 220,000 bytes shown, beginning and end"));
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_output_that_is_no_text(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    x_begin(f);
    x_python(f, "t1", "bytes 1");
    x_end(f, "tool_use");
    x_answer(f, "Odd.");
    expect_ok(f, "q");
    expect_sent(f, "a \xEF\xBF\xBD\xEF\xBF\xBD\\n");
    expect_next_is_fine(f);
    fixture_end(f);
}

static void
test_files_of_cells(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    f->files[0] =
        (struct sandbox_file){.name = "out/a.csv", .size_bytes = 9, .inode = 1};
    f->files[1] = (struct sandbox_file){
        .name = "link", .inode = 2, .refused = "a symbolic link"};
    f->files[2] = (struct sandbox_file){
        .name = "huge", .size_bytes = 1ull << 40, .inode = 3};
    f->n_files = 3;
    x_begin(f);
    x_python(f, "t1", "print 1");
    x_python(f, "t2", "print 2");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    expect_logged(f, "file 1 out/a.csv -\n");
    expect_logged(f, "file 1 link a symbolic link\n");
    expect_logged(f, "file 1 huge larger than 50 MB\n");
    assert_null(strstr(f->log.data, "file 2 "));
    assert_string_equal(f->file_text, "out/a.csv");
    clear_exchanges(f);
    f->files[0].mtime_ns = 5;
    x_begin(f);
    x_python(f, "t3", "print 3");
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
    assert_int_equal(count(f->log.data, "file 3 "), 1);
    expect_logged(f, "file 3 out/a.csv -\n");
    fixture_end(f);
}

/* One cell in a turn of its own. */
static void
run_one(struct fixture *f, const char *code)
{
    AUTO_FREE char *id = xasprintf("t%c", code[strlen(code) - 1]);

    clear_exchanges(f);
    sbuf_clear(&f->log);
    x_begin(f);
    x_python(f, id, code);
    x_end(f, "tool_use");
    x_answer(f, "Done.");
    expect_ok(f, "q");
}

/* Where there are no inodes, names tell files apart. */
static void
test_files_without_inodes(void **state)
{
    struct fixture *f = fixture_begin();

    (void)state;
    f->files[0] = (struct sandbox_file){.name = "a.csv", .size_bytes = 9};
    f->files[1] = (struct sandbox_file){.name = "b.csv", .size_bytes = 9};
    f->n_files = 1;
    run_one(f, "print 1");
    expect_logged(f, "file 1 a.csv -\n");
    /* One like it that has another name. */
    f->n_files = 2;
    run_one(f, "print 2");
    expect_logged(f, "file 2 b.csv -\n");
    assert_null(strstr(f->log.data, "a.csv"));
    /* Changed, by the time or by the size. */
    f->files[0].mtime_ns = 5;
    run_one(f, "print 3");
    expect_logged(f, "file 3 a.csv -\n");
    assert_null(strstr(f->log.data, "b.csv"));
    f->files[1].size_bytes = 10;
    run_one(f, "print 4");
    expect_logged(f, "file 4 b.csv -\n");
    assert_null(strstr(f->log.data, "a.csv"));
    /* Back under its name after it was away. */
    f->n_files = 1;
    run_one(f, "print 5");
    assert_null(strstr(f->log.data, ".csv"));
    f->n_files = 2;
    run_one(f, "print 6");
    expect_logged(f, "file 6 b.csv -\n");
    fixture_end(f);
}

/* What is in another workspace was not left there by the next cell. */
static void
test_files_of_another_workspace(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture *f = fixture_begin();

        f->files_lost = i == 1;
        run_one(f, "gone");
        f->files[0] = (struct sandbox_file){.name = "template", .inode = 2};
        f->n_files = 1;
        run_one(f, "print 2");
        assert_int_equal(strstr(f->log.data, "file 2 template") == NULL,
                         f->files_lost);
        fixture_end(f);
    }
}

static void
test_questions_that_are_refused_at_once(void **state)
{
    struct fixture *f = fixture_begin();
    struct error err = {0};
    struct agent_config config = {.loop = f->loop,
                                  .sandbox = f->sandbox,
                                  .chain = f->chain,
                                  .max_rounds = 20,
                                  .on_done = on_over,
                                  .ctx = f};
    struct agent *keyless = agent_new(&config);

    (void)state;
    assert_int_equal(agent_ask(keyless, "q", &err), -1);
    assert_int_equal(err.code, ERR_AUTH);
    assert_int_equal(agent_set_budget(keyless, 1, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    agent_cancel(keyless);
    agent_free(keyless);
    assert_int_equal(agent_ask(f->agent, " \n", &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_false(agent_is_busy(f->agent));
    x_answer(f, "A.");
    f->first_in_turn = true;
    assert_int_equal(agent_ask(f->agent, "q", &err), 0);
    assert_int_equal(agent_ask(f->agent, "r", &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
    fixture_end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_answer),
        cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_two_calls_in_one_reply),
        cmocka_unit_test(test_error_in_code),
        cmocka_unit_test(test_calls_that_cannot_run),
        cmocka_unit_test(test_round_20_is_an_answer),
        cmocka_unit_test(test_round_21_is_not_asked_for),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_max_tokens),
        cmocka_unit_test(test_empty_reply),
        cmocka_unit_test(test_empty_reply_behind_results_is_asked_for_once),
        cmocka_unit_test(test_empty_reply_at_the_limit_is_not_asked_for),
        cmocka_unit_test(test_pause_goes_on),
        cmocka_unit_test(test_sandbox_lost),
        cmocka_unit_test(test_sandbox_that_cannot_be_opened),
        cmocka_unit_test(test_interpreter_that_died_is_told),
        cmocka_unit_test(test_failed_question_is_taken_back),
        cmocka_unit_test(test_told_during_a_turn_that_fails),
        cmocka_unit_test(test_cut_reply_is_asked_for_again),
        cmocka_unit_test(test_result_is_bounded),
        cmocka_unit_test(test_output_that_is_no_text),
        cmocka_unit_test(test_files_of_cells),
        cmocka_unit_test(test_files_without_inodes),
        cmocka_unit_test(test_files_of_another_workspace),
        cmocka_unit_test(test_questions_that_are_refused_at_once),
    };

    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
