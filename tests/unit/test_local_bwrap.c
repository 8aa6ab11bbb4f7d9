/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/local.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/sandbox.h"

#define BWRAP "/usr/bin/bwrap"

/* ---- arguments: a pure function ---- */

static void
make_args(struct sbuf *text, const struct local_bwrap_spec *spec,
          const char *tz)
{
    struct sbuf args;

    sbuf_init(&args, 65536);
    local_bwrap_add_args(&args, spec, 2, tz);
    assert_true(sbuf_ok(&args));
    assert_int_equal(args.data[args.len - 1], '\0');
    sbuf_init(text, 65536);
    sbuf_add_char(text, ' ');
    for (size_t i = 0; i < args.len; i++)
        sbuf_add_char(text, args.data[i] != '\0' ? args.data[i] : ' ');
    sbuf_fini(&args);
}

static struct local_env
example_env(void)
{
    struct local_env env;

    local_env_init(&env);
    env.workspace = xstrdup("/w/workspace");
    env.data = xstrdup("/w/data");
    env.binds[0] = xstrdup("/opt/python");
    env.n_binds = 1;
    env.fonts[0] = xstrdup("/c/fontlist-v330.json");
    env.n_fonts = 1;
    return env;
}

static void
test_args_are_whole_and_in_order(void **state)
{
    static const char *const in_order[] = {
        " --unshare-user ",
        " --unshare-pid ",
        " --unshare-net ",
        " --unshare-ipc ",
        " --unshare-uts --hostname sandbox ",
        " --unshare-cgroup ",
        " --disable-userns --assert-userns-disabled ",
        " --uid 1000 --gid 1000 ",
        " --cap-drop ALL ",
        " --die-with-parent ",
        " --new-session ",
        " --clearenv ",
        " --ro-bind /usr /usr ",
        " --perms 0444 --ro-bind-data 10 /etc/passwd ",
        " --perms 0444 --ro-bind-data 11 /etc/group ",
        " --proc /proc ",
        " --dev /dev ",
        " --size 67108864 --perms 1777 --tmpfs /dev/shm ",
        " --remount-ro /dev ",
        " --size 268435456 --perms 1777 --tmpfs /tmp ",
        " --ro-bind-try /var/cache/fontconfig /tmp/.cache/fontconfig ",
        " --dir /tmp/mpl ",
        " --ro-bind-try /c/fontlist-v330.json /tmp/mpl/fontlist-v330.json ",
        " --ro-bind /opt/python /opt/python ",
        " --bind /w/workspace /workspace ",
        " --ro-bind /w/data /workspace/data ",
        " --ro-bind /home/u/a b.csv /workspace/data/a b.csv ",
        " --perms 0444 --ro-bind-data 12 /run/kernel.py ",
        " --setenv HOME /tmp ",
        " --setenv TZ Europe/Berlin ",
        " --setenv OMP_NUM_THREADS 2 ",
        " --chdir /workspace ",
        " --seccomp 8 ",
        " --remount-ro / ",
    };
    const struct local_bwrap_file file = {"/home/u/a b.csv", "a b.csv"};
    struct local_env env = example_env();
    struct local_bwrap_spec spec = {.env = &env, .files = &file, .n_files = 1};
    struct sbuf text;
    const char *at;

    (void)state;
    make_args(&text, &spec, "Europe/Berlin");
    at = text.data;
    for (size_t i = 0; i < sizeof(in_order) / sizeof(in_order[0]); i++) {
        at = strstr(at, in_order[i]);
        if (at == NULL)
            fail_msg("%s is not there, or too early", in_order[i]);
        /* The blank at its end may begin the next. */
        at += strlen(in_order[i]) - 1;
    }
    assert_string_equal(at, " ");
    assert_null(strstr(text.data, "-all "));
    assert_null(strstr(text.data, "user-try"));
    assert_null(strstr(text.data, "--share-net"));
    assert_null(strstr(text.data, "--dev-bind"));
    assert_null(strstr(text.data, " / / "));
    sbuf_fini(&text);
    local_env_fini(&env);
}

static void
test_args_of_lesser_systems(void **state)
{
    struct local_env env = example_env();
    struct local_bwrap_spec spec = {
        .env = &env, .no_proc = true, .no_disable = true};
    struct sbuf text;

    (void)state;
    make_args(&text, &spec, NULL);
    assert_null(strstr(text.data, "--proc "));
    assert_null(strstr(text.data, "userns"));
    assert_non_null(strstr(text.data, " --unshare-user "));
    sbuf_fini(&text);
    local_env_fini(&env);
}

static void
test_args_take_no_path_as_time_zone(void **state)
{
    static const char *const refused[] = {"/etc/shadow", "../../x", "a b",
                                          "x\n", ""};
    struct local_env env = example_env();
    struct local_bwrap_spec spec = {.env = &env};

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct sbuf text;

        make_args(&text, &spec, refused[i]);
        assert_null(strstr(text.data, "--setenv TZ"));
        sbuf_fini(&text);
    }
    local_env_fini(&env);
}

/* With the advice of whatever system this is; test_local_advice.c has all. */
static void
test_diagnose(void **state)
{
    static const struct {
        const char *text;
        enum local_remedy expect;
        bool expect_error;
    } cases[] = {
        {"bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
         LOCAL_REMEDY_NO_PROC, true},
        {"bwrap: Unknown option --disable-userns", LOCAL_REMEDY_NO_DISABLE,
         false},
        {"bwrap: Unknown option --size", LOCAL_REMEDY_NONE, true},
        {"bwrap: something else", LOCAL_REMEDY_UNKNOWN, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = {0};

        if (local_probe_diagnose(cases[i].text, &err) != cases[i].expect)
            fail_msg("%s", cases[i].text);
        assert_int_equal(err.code,
                         cases[i].expect_error ? ERR_SANDBOX : ERR_NONE);
        if (cases[i].expect_error)
            assert_non_null(strstr(err.msg, "\nfix: "));
    }
}

/* ---- the whole back end ---- */

struct live {
    struct loop *loop;
    struct sandbox *sb;
    struct sbuf text; /* what came out, in order */
    struct error open_err;
    enum sandbox_end open_end;
    enum sandbox_end end;
    enum event_outcome outcome;
    bool lost;
    int64_t dropped;
    char error[64];
    struct error op_err;
    struct loop_timer *timer;
    struct sandbox_op *op;
    char parent[64];
};

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct live *l = ctx;

    (void)stream;
    sbuf_add(&l->text, data, len);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct live *l = ctx;

    sbuf_addf(&l->text, "[%s%s%s%s]", out->is_result ? "=" : "", out->text,
              out->table != NULL ? ",table" : "",
              out->png != NULL ? ",png" : "");
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct live *l = ctx;

    (void)text;
    sbuf_addf(&l->text, "{%s}", kind);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct live *l = ctx;

    l->end = end;
    l->op_err = err != NULL ? *err : (struct error){0};
    if (outcome != NULL) {
        l->outcome = outcome->outcome;
        l->lost = outcome->variables_lost;
        l->dropped = outcome->output_dropped_bytes;
        snprintf(l->error, sizeof(l->error), "%s",
                 outcome->error_name != NULL ? outcome->error_name : "");
    }
    loop_stop(l->loop);
}

static void
on_done(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct live *l = ctx;

    l->end = end;
    l->op_err = err != NULL ? *err : (struct error){0};
    loop_stop(l->loop);
}

static void
on_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct live *l = ctx;

    l->open_end = end;
    if (err != NULL)
        l->open_err = *err;
    loop_stop(l->loop);
}

static void
begin(struct live *l, const char *bwrap, const struct sandbox_limits *limits)
{
    struct local_config config = {.bwrap = bwrap};
    struct error err = {0};

    memset(l, 0, sizeof(*l));
    snprintf(l->parent, sizeof(l->parent), "/tmp/test_local.XXXXXX");
    assert_non_null(mkdtemp(l->parent));
    /* As root the identity inside must get through. */
    assert_int_equal(chmod(l->parent, 0711), 0);
    config.parent_dir = l->parent;
    sbuf_init(&l->text, 8u << 20);
    l->loop = loop_new(&err);
    assert_non_null(l->loop);
    l->sb = sandbox_new(l->loop, local_new(l->loop, &config, limits), limits);
    sandbox_on_open(l->sb, on_open, l);
}

/* Closes, and looks whether anything is left. */
static void
finish(struct live *l)
{
    sandbox_free(l->sb);
    loop_free(l->loop);
    sbuf_fini(&l->text);
    /* Not empty: its directory was left behind. */
    assert_int_equal(rmdir(l->parent), 0);
}

static void
open_live(struct live *l, const struct sandbox_limits *limits)
{
    begin(l, NULL, limits);
    sandbox_open(l->sb);
    loop_run(l->loop);
    if (l->open_end != SANDBOX_DONE)
        fail_msg("%s", l->open_err.msg);
}

static void
start_cell(struct live *l, const char *code, int64_t timeout_ms)
{
    static const struct sandbox_cell_handlers handlers = {
        .on_bytes = on_bytes,
        .on_output = on_output,
        .on_note = on_note,
        .on_done = on_cell_done,
    };
    struct sandbox_cell cell = {.code = code,
                                .code_len = strlen(code),
                                .timeout_ms = timeout_ms,
                                .number = 1};

    sbuf_clear(&l->text);
    l->op = sandbox_run_cell(l->sb, &cell, &handlers, l);
}

static void
run_cell(struct live *l, const char *code, enum event_outcome expect,
         const char *expect_text)
{
    start_cell(l, code, 20000);
    loop_run(l->loop);
    if (l->outcome != expect)
        fail_msg("%s: %s %s %s", code, event_outcome_name(l->outcome), l->error,
                 l->text.data);
    if (expect_text != NULL)
        assert_string_equal(l->text.data, expect_text);
}

static void
test_live_output_is_in_order(void **state)
{
    struct sandbox_limits limits = {0};
    struct live l;
    struct sbuf expect;

    (void)state;
    open_live(&l, &limits);
    sbuf_init(&expect, 65536);
    for (int i = 0; i < 100; i++)
        sbuf_addf(&expect, "a%d\n[%d]b%d\nc\n", i, i, i);
    sbuf_add_str(&expect, "[='end']");
    run_cell(&l,
             "import os\n"
             "for i in range(100):\n"
             "    print('a%d' % i); display(i)\n"
             "    os.write(1, b'b%d\\n' % i); os.system('echo c')\n"
             "'end'",
             EVENT_OK, expect.data);
    sbuf_fini(&expect);
    run_cell(&l, "1 / 0", EVENT_FAILED, NULL);
    assert_string_equal(l.error, "ZeroDivisionError");
    finish(&l);
}

static void
interrupt_it(void *ctx)
{
    struct live *l = ctx;

    l->timer = NULL;
    sandbox_cancel(l->op);
}

static void
test_live_stops_and_keeps_variables(void **state)
{
    struct sandbox_limits limits = {.output_bytes = 100000};
    struct live l;

    (void)state;
    open_live(&l, &limits);
    run_cell(&l, "x = 1", EVENT_OK, "");
    start_cell(&l, "while True: pass", 200);
    loop_run(l.loop);
    assert_int_equal(l.outcome, EVENT_TIMEOUT);
    start_cell(&l, "import os; os.system('sleep 1000')", 0);
    l.timer = loop_add_timer(l.loop, 200, interrupt_it, &l);
    loop_run(l.loop);
    assert_int_equal(l.outcome, EVENT_INTERRUPTED);
    start_cell(&l, "while True: print('y' * 1000)", 20000);
    loop_run(l.loop);
    assert_int_equal(l.outcome, EVENT_OUTPUT_LIMIT);
    assert_int_equal(l.text.len, 100000);
    assert_true(l.dropped > 0);
    assert_false(l.lost);
    run_cell(&l, "x", EVENT_OK, "[=1]");
    finish(&l);
}

static void
test_live_comes_back_after_an_end(void **state)
{
    static const struct {
        const char *code;
        int64_t timeout_ms;
        enum event_outcome expect;
        const char *expect_text;
    } cases[] = {
        {"print('last'); import os; os._exit(7)", 0, EVENT_DIED, "last\n"},
        {"import os; os.kill(os.getpid(), 11)", 0, EVENT_DIED, ""},
        {"import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass",
         100, EVENT_KILLED, ""},
        /* Each well below the limit of one process, whatever is imported. */
        {"import os, time\nfor i in range(14):\n  if os.fork() == 0:\n    b = "
         "bytearray(b'x' * 80000000); time.sleep(9)\ntime.sleep(9)",
         0, EVENT_MEMORY, ""},
        {"import os, time\nos.write(4, b'no event\\n'); time.sleep(9)", 0,
         EVENT_DIED, ""},
        {"import os\nwhile True: os.write(4, b'x' * 65536)", 0, EVENT_DIED, ""},
    };
    struct sandbox_limits limits = {.memory_bytes = 700000000};
    struct live l;

    (void)state;
    open_live(&l, &limits);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_cell(&l, "x = 1", EVENT_OK, "");
        start_cell(&l, cases[i].code, cases[i].timeout_ms);
        loop_run(l.loop);
        if (l.end != SANDBOX_RESTARTED || l.outcome != cases[i].expect)
            fail_msg("%s: %s", cases[i].code, event_outcome_name(l.outcome));
        assert_true(l.lost);
        assert_string_equal(l.text.data, cases[i].expect_text);
        run_cell(&l, "'x' in globals()", EVENT_OK, "[=False]");
    }
    finish(&l);
}

static void
test_live_gives_up_after_three_ends(void **state)
{
    struct sandbox_limits limits = {0};
    struct live l;

    (void)state;
    open_live(&l, &limits);
    for (int i = 0; i < 3; i++) {
        start_cell(&l, "import os; os._exit(7)", 0);
        loop_run(l.loop);
    }
    assert_int_equal(l.end, SANDBOX_LOST);
    assert_int_equal(l.op_err.code, ERR_SANDBOX);
    finish(&l);
}

static void
write_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    AUTO_FREE char *path = xasprintf("%s/%s", dir, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    struct error err = {0};

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), &err), 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void
put(struct live *l, const char *dir, const char *file, const char *name,
    off_t offset, off_t limit)
{
    AUTO_FREE char *path = xasprintf("%s/%s", dir, file);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct sandbox_put p = {
        .path = path, .fd = fd, .name = name, .offset = offset, .limit = limit};

    sandbox_put(l->sb, &p, NULL, on_done, l);
    loop_run(l->loop);
}

static void
leave_it(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct live *l = ctx;

    assert_true(done_bytes < total_bytes);
    assert_non_null(l->op);
    sandbox_leave(take_ptr(&l->op));
}

/* Nobody waits for a copy that is not wanted any more, and half of it is not
   left. */
static void
test_live_stops_a_copy(void **state)
{
    struct sandbox_limits limits = {0};
    char dir[] = "/tmp/test_local_copy.XXXXXX";
    AUTO_FREE char *path = NULL;
    AUTO_CLOSE int fd = -1;
    struct error err = {0};
    struct sandbox_put p;
    struct live l;

    (void)state;
    assert_non_null(mkdtemp(dir));
    path = xasprintf("%s/large.csv", dir);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 64 << 20), 0);
    begin(&l, NULL, &limits);
    /* A part is always copied. */
    p = (struct sandbox_put){
        .path = path, .fd = fd, .name = "part.csv", .limit = 63 << 20};
    l.op = sandbox_put(l.sb, &p, leave_it, on_done, &l);
    loop_run(l.loop);
    assert_int_equal(l.end, SANDBOX_ERROR);
    assert_int_equal(l.op_err.code, ERR_CANCELLED);
    sandbox_open(l.sb);
    loop_run(l.loop);
    run_cell(&l, "import os\nos.listdir('data')", EVENT_OK, "[=[]]");
    finish(&l);
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

static void
test_live_files(void **state)
{
    struct sandbox_limits limits = {0};
    char dir[] = "/tmp/test_local_files.XXXXXX";
    AUTO_FREE char *copy = NULL;
    AUTO_CLOSE int fd = -1;
    struct error err = {0};
    struct live l;
    char got[16] = "";

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    write_file(dir, "open.csv", "open", 0644);
    write_file(dir, "closed.csv", "closed", 0600);
    begin(&l, NULL, &limits);
    put(&l, dir, "open.csv", "early one.csv", 0, -1);
    assert_int_equal(l.end, SANDBOX_DONE);
    sandbox_open(l.sb);
    loop_run(l.loop);
    assert_int_equal(l.open_end, SANDBOX_DONE);
    put(&l, dir, "closed.csv", "fresh.csv", 0, -1);
    assert_int_equal(l.end, SANDBOX_DONE);
    run_cell(&l,
             "print(open('early one.csv').read(), open('fresh.csv').read(),"
             " open('/workspace/data/fresh.csv').read())",
             EVENT_OK, "open closed closed\n");
    put(&l, dir, "open.csv", "late.csv", 0, -1);
    put(&l, dir, "closed.csv", "part.csv", 2, 3);
    /* Over one that is bound. */
    put(&l, dir, "closed.csv", "early one.csv", 0, -1);
    assert_int_equal(l.end, SANDBOX_DONE);
    put(&l, dir, "open.csv", "../x", 0, -1);
    assert_int_equal(l.op_err.code, ERR_USAGE);
    run_cell(&l,
             "print(open('late.csv').read(), open('part.csv').read(),"
             " open('early one.csv').read())",
             EVENT_OK, "open ose closed\n");
    run_cell(&l,
             "import os\n"
             "for f in (lambda: open('data/x', 'w'),\n"
             "          lambda: open('data/late.csv', 'r+'),\n"
             "          lambda: os.remove('data/late.csv')):\n"
             "    try: f(); print('done')\n"
             "    except OSError as e: print('refused')",
             EVENT_OK, "refused\nrefused\nrefused\n");
    run_cell(&l,
             "open('result.txt', 'w').write('result')\n"
             "os.symlink('/etc/passwd', 'link.png')",
             EVENT_OK, NULL);
    copy = xasprintf("%s/copy", dir);
    fd = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    sandbox_get(l.sb, "result.txt", fd, 0, 100, on_done, &l);
    loop_run(l.loop);
    assert_int_equal(l.end, SANDBOX_DONE);
    assert_int_equal(pread(fd, got, sizeof(got) - 1, 0), 6);
    assert_string_equal(got, "result");
    sandbox_get(l.sb, "result.txt", fd, 0, 5, on_done, &l);
    loop_run(l.loop);
    assert_int_equal(l.op_err.code, ERR_TOO_LARGE);
    sandbox_get(l.sb, "link.png", fd, 0, 100, on_done, &l);
    loop_run(l.loop);
    assert_int_equal(l.op_err.code, ERR_UNSUPPORTED);
    finish(&l);
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

static void
test_live_shows_no_environment(void **state)
{
    struct sandbox_limits limits = {0};
    struct live l;

    (void)state;
    assert_int_equal(setenv("SANDBOX_CANARY", "canary-in-the-client", 1), 0);
    open_live(&l, &limits);
    unsetenv("SANDBOX_CANARY");
    run_cell(&l,
             "import glob, os\n"
             "found = 0\n"
             "for p in glob.glob('/proc/[0-9]*/*'):\n"
             "    if p.endswith(('environ', 'cmdline')):\n"
             "        t = open(p, 'rb').read(); found += 1\n"
             "        assert b'canary-in' not in t and b'/tmp/test' not in t\n"
             "print(found >= 4, os.getuid(), os.getppid(), len(os.environ))",
             EVENT_OK, NULL);
    assert_int_equal(strncmp(l.text.data, "True 1000 1 ", 12), 0);
    finish(&l);
}

static void
test_live_refusals(void **state)
{
    static const char script[] =
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\n"
        "exit 1\n";
    char dir[] = "/tmp/test_local_bwrap.XXXXXX";
    struct error err = {0};
    struct sandbox_limits limits = {0};
    struct {
        const char *name;
        mode_t mode;
        const char *expect;
    } cases[] = {
        {"refuses", 0755, "user namespaces"},
        {"setuid", 04755, "set-uid"},
        {"plain", 0644, "cannot be executed"},
        {NULL, 0, "missing is not there"},
    };

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        AUTO_FREE char *path = xasprintf(
            "%s/%s", dir, cases[i].name != NULL ? cases[i].name : "missing");
        struct live l;

        if (cases[i].name != NULL)
            write_file(dir, cases[i].name, script, cases[i].mode);
        begin(&l, path, &limits);
        start_cell(&l, "print('ran')", 0);
        loop_run(l.loop);
        loop_run(l.loop);
        assert_int_equal(l.open_end, SANDBOX_ERROR);
        assert_int_equal(l.end, SANDBOX_ERROR);
        assert_int_equal(l.text.len, 0);
        if (strstr(l.open_err.msg, cases[i].expect) == NULL ||
            strstr(l.open_err.msg, "\nfix: ") == NULL)
            fail_msg("%s", l.open_err.msg);
        finish(&l);
    }
    assert_int_equal(io_remove_tree(dir, &err), 0);
}

int
main(void)
{
    const struct CMUnitTest pure[] = {
        cmocka_unit_test(test_args_are_whole_and_in_order),
        cmocka_unit_test(test_args_of_lesser_systems),
        cmocka_unit_test(test_args_take_no_path_as_time_zone),
        cmocka_unit_test(test_diagnose),
        cmocka_unit_test(test_live_refusals),
    };
    const struct CMUnitTest live[] = {
        cmocka_unit_test(test_live_output_is_in_order),
        cmocka_unit_test(test_live_stops_and_keeps_variables),
        cmocka_unit_test(test_live_comes_back_after_an_end),
        cmocka_unit_test(test_live_gives_up_after_three_ends),
        cmocka_unit_test(test_live_stops_a_copy),
        cmocka_unit_test(test_live_files),
        cmocka_unit_test(test_live_shows_no_environment),
    };
    int failed;

    /* As the program does: an interpreter may be gone before it is written to.
     */
    signal(SIGPIPE, SIG_IGN);
    failed = cmocka_run_group_tests_name("local_bwrap", pure, NULL, NULL);

    /* The build itself needs no bubblewrap. */
    if (access(BWRAP, X_OK) != 0)
        return failed;
    return failed + cmocka_run_group_tests_name("local", live, NULL, NULL);
}
