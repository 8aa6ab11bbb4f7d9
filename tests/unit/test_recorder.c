/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/str.h"
#include "model/output.h"
#include "model/sink.h"
#include "model/table.h"
#include "store/session.h"

struct fixture {
    char *dir;
    struct session *s;
    struct recorder *r;
};

static int
set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct error err = {0};

    f->dir = xstrdup("/tmp/test_recorder.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->s = session_new(f->dir, &err);
    assert_non_null(f->s);
    f->r = recorder_new(f->s);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    recorder_free(f->r);
    session_free(f->s);
    assert_int_equal(io_remove_tree(f->dir, NULL), 0);
    free(f->dir);
    free(f);
    return 0;
}

static void
put(struct recorder *r, const struct event *ev)
{
    struct error err = {0};

    assert_int_equal(recorder_sink.put(r, ev, &err), 0);
}

static void
put_code(struct recorder *r, int cell, const char *code)
{
    put(r, &(struct event){.kind = EVENT_CODE,
                           .cell = cell,
                           .text = code,
                           .len = strlen(code)});
}

static void
put_chart(struct recorder *r, int cell, int index, const char *title)
{
    unsigned char png[] = {0x89, 'P', 'N', 'G', (unsigned char)index};
    char text[64];
    struct output out = {.index = index, .png = png, .png_len = sizeof(png)};

    if (title != NULL) {
        assert_true(strlen(title) < sizeof(text));
        memcpy(text, title, strlen(title) + 1);
        out.title = text;
    }
    put(r, &(struct event){.kind = EVENT_RESULT, .cell = cell, .output = &out});
}

static void
test_cells_are_kept(void **state)
{
    struct fixture *f = *state;
    const struct recorder_cell *c = NULL;
    struct table *t = table_new(1, 1, 0);
    struct output out = {.index = 0, .table = t};
    char text[] = "42";
    struct output plain = {.index = 1, .text = text, .text_len = 2};

    assert_int_equal(recorder_n_cells(f->r), 0);
    assert_null(recorder_cell(f->r, 1));
    put_code(f->r, 1, "a = 1");
    put(f->r, &(struct event){.kind = EVENT_RESULT, .cell = 1, .output = &out});
    put(f->r,
        &(struct event){.kind = EVENT_RESULT, .cell = 1, .output = &plain});
    c = recorder_cell(f->r, 1);
    assert_false(c->is_over);
    put(f->r, &(struct event){.kind = EVENT_ERROR,
                              .cell = 1,
                              .error_name = "KeyError",
                              .text = "'x'tail",
                              .len = 3,
                              .traceback = "tb"});
    put(f->r, &(struct event){.kind = EVENT_DONE,
                              .scope = EVENT_SCOPE_CELL,
                              .cell = 1,
                              .outcome = EVENT_FAILED});
    put(f->r, &(struct event){.kind = EVENT_CODE,
                              .cell = 2,
                              .text = "b",
                              .len = 1,
                              .language = "r"});
    assert_string_equal(recorder_cell(f->r, 2)->language, "r");
    c = recorder_cell(f->r, 1);
    assert_null(c->language);
    assert_int_equal(recorder_n_cells(f->r), 2);
    assert_string_equal(c->code, "a = 1");
    assert_true(c->is_over);
    assert_int_equal(c->outcome, EVENT_FAILED);
    assert_string_equal(c->error_name, "KeyError");
    assert_string_equal(c->error_value, "'x'");
    assert_string_equal(c->traceback, "tb");
    assert_int_equal(c->n_outputs, 2);
    assert_int_equal(recorder_output(f->r, 1, 0)->kind, RECORDER_TABLE);
    assert_int_equal(recorder_output(f->r, 1, 1)->kind, RECORDER_TEXT);
    assert_null(recorder_output(f->r, 1, 2));
    assert_null(recorder_output(f->r, 2, 0));
    assert_null(recorder_output(f->r, 9, 0));
    assert_false(recorder_cell(f->r, 2)->is_over);
    table_free(t);
}

/* The end of a turn and events of unknown cells change nothing. */
static void
test_other_events_change_nothing(void **state)
{
    struct fixture *f = *state;

    put_code(f->r, 1, "a");
    put(f->r, &(struct event){.kind = EVENT_DONE, .scope = EVENT_SCOPE_TURN});
    assert_false(recorder_cell(f->r, 1)->is_over);
    put_chart(f->r, 7, 0, NULL);
    put(f->r,
        &(struct event){.kind = EVENT_ERROR, .cell = 7, .error_name = "E"});
    for (int kind = EVENT_QUESTION; kind <= EVENT_STATUS; kind++) {
        if (kind != EVENT_CODE && kind != EVENT_RESULT && kind != EVENT_FILE)
            put(f->r, &(struct event){.kind = (enum event_kind)kind});
    }
    assert_int_equal(recorder_n_cells(f->r), 1);
    assert_int_equal(recorder_cell(f->r, 1)->n_outputs, 0);
}

static void
put_thinking(struct recorder *r, const char *text, size_t len, bool over)
{
    put(r, &(struct event){
               .kind = EVENT_THINKING, .text = text, .len = len, .end = over});
}

/* Of one question, and not without end. */
static void
test_thinking_is_kept(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *big = xcalloc(1, RECORDER_THINKING_BYTES);
    uint64_t n = 1;

    assert_null(recorder_thinking(f->r, &n));
    assert_int_equal(n, 0);
    put_thinking(f->r, "One ", 4, false);
    put_thinking(f->r, "thing.", 6, false);
    put_thinking(f->r, NULL, 0, true);
    put_thinking(f->r, NULL, 0, true);
    put_thinking(f->r, "Another.", 8, true);
    assert_string_equal(recorder_thinking(f->r, &n), "One thing.\n\nAnother.");
    put(f->r, &(struct event){.kind = EVENT_DONE, .scope = EVENT_SCOPE_TURN});
    assert_string_equal(recorder_thinking(f->r, &n), "One thing.\n\nAnother.");
    put(f->r, &(struct event){.kind = EVENT_QUESTION, .text = "q", .len = 1});
    assert_null(recorder_thinking(f->r, &n));

    memset(big, 'x', RECORDER_THINKING_BYTES - 1);
    put_thinking(f->r, big, RECORDER_THINKING_BYTES - 1, false);
    put_thinking(f->r, "\xC3\xA9 ", 3, false);
    put_thinking(f->r, "y", 1, true);
    assert_int_equal(strlen(recorder_thinking(f->r, &n)),
                     RECORDER_THINKING_BYTES - 1);
    assert_int_equal(n, 4);
}

struct title_case {
    const char *title;
    const char *expect;
};

static const struct title_case title_cases[] = {
    {NULL, "3-chart.png"},
    {"", "3-chart.png"},
    {"Revenue by month", "3-Revenue-by-month.png"},
    {"../../etc/passwd", "3-etc-passwd.png"},
    {"  -rf *", "3-rf.png"},
    {"\xC3\xA9t\xC3\xA9", "3-t.png"},
    {"\xF0\x9F\x98\x80", "3-chart.png"},
    {"a\x1B[31mb\nc", "3-a-31mb-c.png"},
    {"...", "3-chart.png"},
    {"0123456789012345678901234567890123456789012345678901234567890",
     "3-012345678901234567890123456789012345678901234567890123456789.png"},
};

static void
test_charts_are_saved_under_harmless_names(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < LEN(title_cases); i++) {
        struct recorder *r = recorder_new(f->s);
        const struct recorder_output *out = NULL;
        struct error err = {0};

        put_code(r, 3, "plot");
        put_chart(r, 3, 0, title_cases[i].title);
        out = recorder_output(r, 3, 0);
        assert_int_equal(out->kind, RECORDER_CHART);
        assert_null(out->problem);
        if (!str_eq(paths_base(out->path), title_cases[i].expect))
            fail_msg("%zu: %s", i, out->path);
        assert_int_equal(access(out->path, R_OK), 0);
        recorder_free(r);
        /* The next chart of that name must find it free. */
        AUTO_FREE char *files = paths_join(session_path(f->s), "files");
        assert_int_equal(io_remove_tree(files, &err), 0);
    }
}

static void
test_charts_of_one_title_are_two_files(void **state)
{
    struct fixture *f = *state;

    put_code(f->r, 1, "plot");
    put_chart(f->r, 1, 0, "T");
    put_chart(f->r, 1, 1, "T");
    assert_true(str_ends(recorder_output(f->r, 1, 0)->path, "/1-T.png"));
    assert_true(str_ends(recorder_output(f->r, 1, 1)->path, "/1-T-2.png"));
}

static void
test_without_a_session_it_is_said(void **state)
{
    struct recorder *r = recorder_new(NULL);
    struct error err = {0};
    const char *problem = NULL;
    AUTO_CLOSE int fd = io_memfd("f", "x", 1, &err);
    struct event_file file = {.name = "out.csv", .fd = fd};

    (void)state;
    put_code(r, 1, "plot");
    put_chart(r, 1, 0, "T");
    assert_null(recorder_output(r, 1, 0)->path);
    assert_non_null(recorder_output(r, 1, 0)->problem);
    put(r, &(struct event){.kind = EVENT_FILE, .cell = 1, .file = &file});
    assert_null(recorder_file(r, &problem));
    assert_non_null(problem);
    file = (struct event_file){.name = "x", .fd = -1, .refused = "a FIFO"};
    put(r, &(struct event){.kind = EVENT_FILE, .cell = 1, .file = &file});
    assert_null(recorder_file(r, &problem));
    assert_null(problem);
    recorder_free(r);
    recorder_free(NULL);
}

static void
test_a_chart_that_cannot_be_written_ends_nothing(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *files = paths_join(session_path(f->s), "files");

    assert_int_equal(io_replace(files, "", 0, 0600, NULL), 0);
    put_code(f->r, 1, "plot");
    put_chart(f->r, 1, 0, "T");
    assert_null(recorder_output(f->r, 1, 0)->path);
    assert_non_null(strstr(recorder_output(f->r, 1, 0)->problem, files));
}

static void
test_files_are_saved_by_their_last_name(void **state)
{
    static const struct title_case cases[] = {
        {"output/report.csv", "report.csv"},
        {"..", "file"},
        {"a b\n\x1B]0;x\x07.txt", "a-b-0-x-.txt"},
        {"x/\xFF\xFE", "file"},
    };
    struct fixture *f = *state;
    const char *problem = "old";
    struct error err = {0};
    AUTO_CLOSE int fd = io_memfd("f", "x", 1, &err);
    struct event_file file = {.fd = fd};

    assert_null(recorder_file(f->r, &problem));
    assert_null(problem);
    for (size_t i = 0; i < LEN(cases); i++) {
        const char *path = NULL;

        file.name = cases[i].title;
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        put(f->r, &(struct event){.kind = EVENT_FILE, .file = &file});
        path = recorder_file(f->r, &problem);
        assert_null(problem);
        if (!str_eq(paths_base(path), cases[i].expect))
            fail_msg("%zu: %s", i, path);
    }
    file = (struct event_file){
        .name = "link", .fd = -1, .refused = "a symbolic link"};
    put(f->r, &(struct event){.kind = EVENT_FILE, .file = &file});
    assert_null(recorder_file(f->r, &problem));
    assert_null(problem);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cells_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_events_change_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_thinking_is_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_charts_are_saved_under_harmless_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_charts_of_one_title_are_two_files,
                                        set_up, tear_down),
        cmocka_unit_test(test_without_a_session_it_is_said),
        cmocka_unit_test_setup_teardown(
            test_a_chart_that_cannot_be_written_ends_nothing, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_files_are_saved_by_their_last_name,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}
