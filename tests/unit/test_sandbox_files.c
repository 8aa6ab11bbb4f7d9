/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Workspaces that are lost with all files, and loaded files that have become
 * others.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "unit/sandbox_fakes.h"

/* ---- lost ---- */

static void
lose(struct test *t, bool files_lost)
{
    struct error err = {.code = ERR_SANDBOX, .msg = "it ended"};

    t->fake->sandbox.base.files_lost = files_lost;
    t->fake->sandbox.base.on_lost(t->fake->sandbox.base.on_lost_ctx, &err);
}

static void
load(struct test *t, const char *name, const char *variable, const char *setup)
{
    sandbox_add_loaded(t->sb, "/dev/null", name, variable, setup);
}

/* Also a file whose variable is another one's by now. */
static void
test_files_that_went_with_a_cell(void **state)
{
    struct test t;
    unsigned workspace = 0;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "x", "ok a");
    load(&t, "b", "x", "ok b");
    workspace = sandbox_workspace(t.sb);
    run(&t, "restart", 1);
    settle(&t, "A:open A:run(restart,1) A:run(ok b,silent) <3,It died. Loaded "
               "again: x.> ");
    assert_int_equal(sandbox_workspace(t.sb), workspace);
    run(&t, "gone", 2);
    settle(&t, "A:run(gone,2) A:put(a) A:put(b) A:run(ok b,silent) <3,It died. "
               "Loaded again: x.> ");
    assert_true(sandbox_workspace(t.sb) != workspace);
    /* They are there again. */
    run(&t, "restart", 3);
    settle(&t, "A:run(restart,3) A:run(ok b,silent) <3,It died. Loaded again: "
               "x.> ");
    finish(&t, "A:close ");
}

static void
test_files_that_went_while_idle(void **state)
{
    static const struct {
        bool files_lost;
        const char *expect;
    } rows[] = {
        {false, "<late,0,it ended; variables and imports are gone> A:open "
                "A:run(ok a,silent) A:run(ok,2) <3,Before this cell, it "
                "ended. " SANDBOX_LOST_TEXT " Loaded again: a.> "},
        {true, "<late,0,it ended; variables, imports and the files in "
               "/workspace are gone; loaded files are put there again> A:open "
               "A:put(a) A:run(ok a,silent) A:run(ok,2) <3,Before this cell, "
               "it ended. " SANDBOX_FILES_LOST_TEXT " Loaded again: a.> "},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;

        begin(&t, NULL);
        load(&t, "a", "a", "ok a");
        run(&t, "ok", 1);
        settle(&t, "A:open A:run(ok,1) <0,-> ");
        lose(&t, rows[i].files_lost);
        assert_false(t.fake->sandbox.base.files_lost);
        run(&t, "ok", 2);
        settle(&t, rows[i].expect);
        /* It is no news the next time. */
        lose(&t, false);
        sbuf_clear(&t.log);
        run(&t, "ok", 3);
        settle(&t, "A:open A:run(ok a,silent) A:run(ok,3) <3,Before this cell, "
                   "it ended. " SANDBOX_LOST_TEXT " Loaded again: a.> ");
        finish(&t, "A:close ");
    }
}

/* A service has ended what was suspended. */
static void
test_files_that_went_while_suspended(void **state)
{
    struct sandbox_limits limits = {.idle_suspend_ms = 1};
    struct test t;

    (void)state;
    begin(&t, &limits);
    load(&t, "a", "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    wait_until_suspended(&t);
    t.fake->resume_ends = ERR_SANDBOX;
    t.fake->files_lost = true;
    run(&t, "ok", 2);
    settle(&t, "A:suspend A:resume <late,0,it broke; variables, imports and "
               "the files in /workspace are gone; loaded files are put there "
               "again> A:open A:put(a) A:run(ok a,silent) A:run(ok,2) "
               "<3,Before this cell, it broke. " SANDBOX_FILES_LOST_TEXT
               " Loaded again: a.> ");
    finish(&t, "A:close ");
}

/* A loss that is told in two parts is one loss. */
static void
test_files_that_went_after_the_interpreter(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    lose(&t, false);
    lose(&t, true);
    lose(&t, true);
    run(&t, "ok", 2);
    settle(&t,
           "<late,0,it ended; variables and imports are gone> <late,0,it "
           "ended; the files in /workspace are gone, too; loaded files are "
           "put there again> A:open A:put(a) A:run(ok a,silent) A:run(ok,2) "
           "<3,Before this cell, it ended. " SANDBOX_FILES_LOST_TEXT
           " Loaded again: a.> ");
    finish(&t, "A:close ");
}

/* What was said of the loss before is not true any more. */
static void
test_files_that_are_gone_when_it_is_opened(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    lose(&t, false);
    t.fake->files_lost = true;
    run(&t, "ok", 2);
    settle(&t,
           "<late,0,it ended; variables and imports are gone> A:open "
           "A:put(a) A:run(ok a,silent) A:run(ok,2) <3,Before this cell, it "
           "ended. " SANDBOX_FILES_LOST_TEXT " Loaded again: a.> ");

    /* After a cell that said nothing of it. */
    run(&t, "lost", 3);
    t.fake->files_lost = true;
    run(&t, "ok", 4);
    settle(&t, "A:run(lost,3) <2,sandbox> A:open A:put(a) A:run(ok a,silent) "
               "A:run(ok,4) <3,Before this cell, the interpreter was started "
               "anew. " SANDBOX_FILES_LOST_TEXT " Loaded again: a.> ");
    finish(&t, "A:close ");
}

static void
test_files_that_went_with_a_restart(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "a", "ok a");
    run(&t, "ok", 1);
    settle(&t, "A:open A:run(ok,1) <0,-> ");
    t.fake->files_lost = true;
    t.n_open++;
    sandbox_restart(t.sb, on_done, &t);
    settle(&t, "A:stop A:open A:put(a) A:run(ok a,silent) <0,-> ");
    expect_late_loss(
        &t, "The user has restarted the interpreter. " SANDBOX_FILES_LOST_TEXT
            " Loaded again: a.");
    finish(&t, "A:close ");
}

/* What ends the interpreter is not tried twice, but the files are put. */
static void
test_files_that_go_while_they_are_loaded_again(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "a", "ok a");
    load(&t, "b", "b", "gone");
    load(&t, "c", "c", "ok c");
    run(&t, "restart", 1);
    settle(&t, "A:open A:run(restart,1) A:run(ok a,silent) A:run(gone,silent) "
               "A:put(a) A:put(b) A:put(c) <3,It died. Could not be loaded "
               "again: a (a: the interpreter ended again), b (b: the "
               "interpreter ended again), c (c: the interpreter ended "
               "again).> ");
    finish(&t, "A:close ");
}

/* One that could not be put is not read, and is put the next time. */
static void
test_files_that_cannot_be_put_again(void **state)
{
    struct test t;

    (void)state;
    begin(&t, NULL);
    load(&t, "a", "a", "ok a");
    t.fake->put_ends = ERR_NET;
    run(&t, "gone", 1);
    settle(&t, "A:open A:run(gone,1) A:put(a) <3,It died. Could not be loaded "
               "again: a (a: it could not be sent again).> ");
    t.fake->put_ends = ERR_NONE;
    run(&t, "restart", 2);
    settle(&t, "A:run(restart,2) A:put(a) A:run(ok a,silent) <3,It died. "
               "Loaded again: a.> ");
    finish(&t, "A:close ");
}

/* ---- changed ---- */

struct file {
    char path[64];
    int fd;
};

static void
write_file(struct file *f, const char *text)
{
    struct error err = {0};

    assert_int_equal(ftruncate(f->fd, 0), 0);
    assert_int_equal(lseek(f->fd, 0, SEEK_SET), 0);
    assert_int_equal(io_write_all(f->fd, text, strlen(text), &err), 0);
}

static void
set_time(struct file *f, time_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    assert_int_equal(futimens(f->fd, times), 0);
}

static void
make_file(struct file *f)
{
    snprintf(f->path, sizeof(f->path), "/tmp/test_sandbox_files.XXXXXX");
    f->fd = mkstemp(f->path);
    assert_true(f->fd >= 0);
    write_file(f, "a,b\n");
    set_time(f, 1000000);
}

static void
remove_file(struct file *f)
{
    unlink(f->path);
    close(f->fd);
}

static void
grow(struct file *f)
{
    write_file(f, "a,b\n1,2\n");
    set_time(f, 1000000);
}

static void
touch(struct file *f)
{
    set_time(f, 1000001);
}

/* With the size and the time of the old one. */
static void
replace(struct file *f)
{
    char other[sizeof(f->path) + 2];
    int fd = -1;

    snprintf(other, sizeof(other), "%s.2", f->path);
    fd = open(other, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(rename(other, f->path), 0);
    close(f->fd);
    f->fd = fd;
    write_file(f, "a,b\n");
    set_time(f, 1000000);
}

static void
leave(struct file *f)
{
    set_time(f, 1000000);
}

#define CHANGED " s.csv has changed since it was loaded."

static void
test_files_that_have_changed(void **state)
{
    static const struct {
        const char *name;
        void (*change)(struct file *f);
        bool keeps_files;
        const char *expect;
    } rows[] = {
        {"nothing", leave, false, "Loaded again: s."},
        {"its size", grow, false, "Loaded again: s." CHANGED},
        {"its time", touch, false, "Loaded again: s." CHANGED},
        {"another one", replace, false, "Loaded again: s." CHANGED},
        {"one that is not put", grow, true, "Loaded again: s." CHANGED},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct test t;
        struct file f;
        size_t n = 0;
        AUTO_FREE char *expect = xasprintf(
            "A:open A:run(restart,1) %sA:run(ok,silent) <3,It died. %s> ",
            rows[i].keeps_files ? "" : "A:put(s.csv) ", rows[i].expect);

        make_file(&f);
        begin(&t, NULL);
        t.fake->sandbox.base.caps.keeps_files = rows[i].keeps_files;
        sandbox_add_loaded(t.sb, f.path, "s.csv", "s", "ok");
        rows[i].change(&f);
        run(&t, "restart", 1);
        settle(&t, expect);
        assert_int_equal(sandbox_loaded(t.sb, &n)->changed,
                         rows[i].change != leave);
        /* Loaded by the person once more, it is as it is. */
        sandbox_add_loaded(t.sb, f.path, "s.csv", "s", "ok");
        assert_false(sandbox_loaded(t.sb, &n)->changed);
        finish(&t, "A:close ");
        remove_file(&f);
    }
}

/* What counts is what was sent, and not what is there when it has been read. */
static void
test_files_that_change_while_they_are_loaded(void **state)
{
    struct test t;
    struct file f;

    (void)state;
    make_file(&f);
    begin(&t, NULL);
    t.n_open++;
    sandbox_put(t.sb,
                &(struct sandbox_put){
                    .path = f.path, .fd = f.fd, .name = "s.csv", .limit = -1},
                NULL, on_done, &t);
    settle(&t, "A:open A:put(s.csv) <0,-> ");
    grow(&f);
    sandbox_add_loaded(t.sb, f.path, "s.csv", "s", "ok");
    run(&t, "restart", 1);
    settle(&t, "A:run(restart,1) A:run(ok,silent) <3,It died. Loaded again: "
               "s." CHANGED "> ");
    finish(&t, "A:close ");
    remove_file(&f);
}

static void
test_many_files_that_have_changed(void **state)
{
    struct test t;
    struct file f;

    (void)state;
    make_file(&f);
    begin(&t, NULL);
    sandbox_add_loaded(t.sb, f.path, "old.csv", "s", "ok");
    sandbox_add_loaded(t.sb, f.path, "s.csv", "s", "ok");
    sandbox_add_loaded(t.sb, f.path, "t.csv", "t", "ok");
    touch(&f);
    run(&t, "restart", 1);
    settle(&t, "A:open A:run(restart,1) A:run(ok,silent) A:run(ok,silent) "
               "<3,It died. Loaded again: s, t. s.csv, t.csv have changed "
               "since they were loaded.> ");
    finish(&t, "A:close ");
    remove_file(&f);
}

static void
test_a_file_with_an_odd_name(void **state)
{
    struct test t;
    struct file f;

    (void)state;
    make_file(&f);
    begin(&t, NULL);
    sandbox_add_loaded(t.sb, f.path, "a\n\xFF.csv", "a", "ok");
    touch(&f);
    run(&t, "restart", 1);
    settle(&t, "A:open A:run(restart,1) A:run(ok,silent) <3,It died. Loaded "
               "again: a. a?\xEF\xBF\xBD.csv has changed since it was "
               "loaded.> ");
    finish(&t, "A:close ");
    remove_file(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_that_went_with_a_cell),
        cmocka_unit_test(test_files_that_went_while_idle),
        cmocka_unit_test(test_files_that_went_while_suspended),
        cmocka_unit_test(test_files_that_went_after_the_interpreter),
        cmocka_unit_test(test_files_that_are_gone_when_it_is_opened),
        cmocka_unit_test(test_files_that_went_with_a_restart),
        cmocka_unit_test(test_files_that_go_while_they_are_loaded_again),
        cmocka_unit_test(test_files_that_cannot_be_put_again),
        cmocka_unit_test(test_files_that_have_changed),
        cmocka_unit_test(test_files_that_change_while_they_are_loaded),
        cmocka_unit_test(test_many_files_that_have_changed),
        cmocka_unit_test(test_a_file_with_an_odd_name),
    };

    return cmocka_run_group_tests_name("sandbox_files", tests, NULL, NULL);
}
