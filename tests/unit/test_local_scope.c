/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Against a double of systemd: a script in the place of busctl that answers in
 * several ways, and directories in the place of /proc and of the control
 * groups.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_scope_internal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/local.h"

#define MEMORY 300000000u
#define PROCESSES 40
#define LOOKS 3

/* What all of them begin with: the words are kept, the values are read. A group
   is made by "make"; "move" also puts the processes into it. */
#define HEAD                                                                   \
    "#!/bin/sh\n"                                                              \
    "top=${0%/*}\n"                                                            \
    "echo \"$@\" >>$top/asked\n"                                               \
    "env >$top/environment\n"                                                  \
    "all=\"$*\"\n"                                                             \
    "unit=$9\n"                                                                \
    "shift 8\n"                                                                \
    "while [ $# -gt 0 ]; do case $1 in MemoryMax) M=$3;; TasksMax) P=$3;;\n"   \
    "  PIDs) pids=\"$4 $5\";; esac; shift; done\n"                             \
    "g=$top/groups/user.slice/$unit\n"                                         \
    "make() { mkdir -p $g\n"                                                   \
    "  echo ${M-max} >$g/memory.max; echo ${P-max} >$g/pids.max\n"             \
    "  echo 12345 >$g/memory.current; echo 0 >$g/cgroup.freeze\n"              \
    "  printf 'low 0\\noom 3\\noom_kill 0\\n' >$g/memory.events; }\n"          \
    "put() { echo \"0::/user.slice/$unit\" >$top/proc/$1/new\n"                \
    "  mv $top/proc/$1/new $top/proc/$1/cgroup; }\n"                           \
    "move() { make; for p in $pids; do put $p; done; }\n"

struct place {
    char top[64];
    char *busctl;
    char *bus;
    char *cgroups;
    char *proc;
    struct local_scope_config config;
    struct loop *loop;
    struct local_scope *scope;
    int bus_fd;
    int n_done;
    bool on;

    /* For check_never_on. */
    char *over; /* owned; the file that the script leaves at its end */
    bool script_is_over;
    int n_looks;
};

static void
write_file(const char *path, const char *text, mode_t mode)
{
    AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    struct error err = {0};

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), &err), 0);
}

static void
write_process(const struct place *p, pid_t pid, const char *text)
{
    AUTO_FREE char *dir = xasprintf("%s/%d", p->proc, (int)pid);
    AUTO_FREE char *path = xasprintf("%s/cgroup", dir);

    assert_int_equal(mkdir(dir, 0700), 0);
    write_file(path, text, 0600);
}

/* The bus is looked for and not talked to. */
static void
make_bus(struct place *p)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    snprintf(name.sun_path, sizeof(name.sun_path), "%s", p->bus);
    p->bus_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->bus_fd, (struct sockaddr *)&name, sizeof(name)),
                     0);
}

static void
begin(struct place *p, const char *script)
{
    struct error err = {0};

    memset(p, 0, sizeof(*p));
    snprintf(p->top, sizeof(p->top), "/tmp/test_scope.XXXXXX");
    assert_non_null(mkdtemp(p->top));
    p->busctl = xasprintf("%s/busctl", p->top);
    p->bus = xasprintf("%s/bus", p->top);
    p->cgroups = xasprintf("%s/groups", p->top);
    p->proc = xasprintf("%s/proc", p->top);
    assert_int_equal(mkdir(p->proc, 0700), 0);
    make_bus(p);
    if (script != NULL) {
        AUTO_FREE char *text = xasprintf("%s%s\n", HEAD, script);

        write_file(p->busctl, text, 0700);
    }
    write_process(p, 101, "0::/user.slice/elsewhere.scope\n");
    write_process(p, 102, "0::/user.slice/elsewhere.scope\n");
    p->config = (struct local_scope_config){.busctl = p->busctl,
                                            .bus = p->bus,
                                            .cgroups = p->cgroups,
                                            .proc = p->proc,
                                            .wait_ms = 60000};
    p->loop = loop_new(&err);
    assert_non_null(p->loop);
}

static void
finish(struct place *p)
{
    struct error err = {0};

    local_scope_free(p->scope);
    loop_free(p->loop);
    close(p->bus_fd);
    assert_int_equal(io_remove_tree(p->top, &err), 0);
    free(p->busctl);
    free(p->bus);
    free(p->cgroups);
    free(p->proc);
}

static void
on_done(void *ctx, bool on)
{
    struct place *p = ctx;

    p->n_done++;
    p->on = on;
    loop_stop(p->loop);
}

static const struct local_scope_limits limits = {.pids = {101, 102},
                                                 .n_pids = 2,
                                                 .memory_bytes = MEMORY,
                                                 .processes = PROCESSES};

static void
start(struct place *p)
{
    p->scope = local_scope_start(p->loop, &p->config, &limits, on_done, p);
    assert_int_equal(p->n_done, 0);
    loop_run(p->loop);
    assert_int_equal(p->n_done, 1);
    assert_int_equal(p->on, local_scope_is_on(p->scope));
}

/* Reads a file; the caller frees it. */
static char *
read_file(const char *path)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error err = {0};

    sbuf_init(&text, 65536);
    if (io_read_file(path, &text, &err) < 0)
        fail_msg("%s", err.msg);
    return sbuf_take(&text);
}

/* The path of a file of the group that was asked for; the caller frees it. */
static char *
group_file(const struct place *p, const char *name)
{
    AUTO_FREE char *path = xasprintf("%s/asked", p->top);
    AUTO_FREE char *asked = read_file(path);
    char *unit = strstr(asked, "sandpiper-");

    assert_non_null(unit);
    unit[strcspn(unit, " ")] = '\0';
    return xasprintf("%s/user.slice/%s/%s", p->cgroups, unit, name);
}

static void
check_answer(const char *name, const char *script, int64_t wait_ms,
             const char *expect_why)
{
    struct place p;

    begin(&p, script);
    p.config.wait_ms = wait_ms;
    start(&p);
    if (strcmp(local_scope_why(p.scope),
               expect_why != NULL ? expect_why : "") != 0)
        fail_msg("%s: %s", name, local_scope_why(p.scope));
    assert_int_equal(p.on, expect_why == NULL);
    if (!p.on) {
        assert_int_equal(local_scope_memory(p.scope), 0);
        assert_int_equal(local_scope_oom_kills(p.scope), 0);
        assert_false(local_scope_freeze(p.scope, true));
    }
    finish(&p);
}

static void
test_start_when_systemd_answers(void **state)
{
    static const struct {
        const char *name;
        const char *script;
        const char *expect_why; /* NULL: it is on */
    } cases[] = {
        {"good", "move", NULL},
        {"whole pages", "M=$((M / 4096 * 4096)); move", NULL},
        {"old",
         "case $all in *OOMPolicy*) echo 'Cannot set property OOMPolicy' >&2;"
         " exit 1;; esac; move",
         NULL},
        {"refused", "echo 'Call failed: Access denied' >&2; exit 1",
         "systemd refused it (Call failed: Access denied)"},
        {"refused for both", "echo 'no OOMPolicy' >&2; exit 1",
         "systemd refused it (no OOMPolicy)"},
        {"no words", "exit 3", "systemd refused it ()"},
        {"no limit of memory", "M=max; move",
         "the limit of memory is not in place"},
        {"more memory", "M=$((M + 1)); move",
         "the limit of memory is not in place"},
        {"less memory", "M=1000; move", "the limit of memory is not in place"},
        {"no limit of processes", "P=max; move",
         "the limit of processes is not in place"},
        {"more processes", "P=$((P + 1)); move",
         "the limit of processes is not in place"},
        {"no controller",
         "move() { make; rm $g/memory.max; for p in $pids; do "
         "put $p; done; }; move",
         "the limit of memory is not in place"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        check_answer(cases[i].name, cases[i].script, 60000,
                     cases[i].expect_why);
}

/* Counts looks at the processes' groups behind the end of the script. */
static void
on_looked(void *ctx, int fd, unsigned events)
{
    struct place *p = ctx;
    char buf[4096] __attribute__((aligned(8)));
    ssize_t n = read(fd, buf, sizeof(buf));

    (void)events;
    if (!p->script_is_over) {
        p->script_is_over = access(p->over, F_OK) == 0;
        return;
    }
    for (ssize_t at = 0; at < n; p->n_looks++)
        at += (ssize_t)sizeof(struct inotify_event) +
              ((struct inotify_event *)(void *)(buf + at))->len;
    if (p->n_looks >= LOOKS)
        loop_stop(p->loop);
}

/* Systemd has said that it is done, and it has been looked for several times:
   it is not on. */
static void
check_never_on(const char *name, const char *script)
{
    AUTO_FREE char *text = xasprintf("%s\n: >$top/over", script);
    AUTO_FREE char *dir = NULL;
    AUTO_CLOSE int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct place p;
    struct loop_fd *watch;

    begin(&p, text);
    p.over = xasprintf("%s/over", p.top);
    dir = xasprintf("%s/101", p.proc);
    assert_true(inotify_add_watch(fd, dir, IN_OPEN) >= 0);
    watch = loop_add_fd(p.loop, fd, LOOP_READ, on_looked, &p);
    p.scope = local_scope_start(p.loop, &p.config, &limits, on_done, &p);
    loop_run(p.loop);
    loop_fd_remove(watch);
    if (p.n_done > 0)
        fail_msg("%s: on %d: %s", name, p.on, local_scope_why(p.scope));
    assert_false(local_scope_is_on(p.scope));
    free(p.over);
    finish(&p);
}

static void
test_start_when_nothing_happens(void **state)
{
    static const struct {
        const char *name;
        const char *script;
    } cases[] = {
        {"not moved", "make"},
        {"limits of another group", "g=${g%/*}/elsewhere.scope; make"},
        {"one is not moved", "pids=${pids% *}; move"},
        {"no group", "move() { for p in $pids; do put $p; done; }; move"},
        {"another place",
         "mkdir -p ${g%/*}; g=$top/$unit; unit=../../$unit; move"},
        {"version 1",
         "make; for p in $pids; do echo \"4:memory:/user.slice/$unit\" "
         ">$top/proc/$p/cgroup; done"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        check_never_on(cases[i].name, cases[i].script);
    /* Without an answer, and with one that nothing follows. */
    check_answer("silent", "exec sleep 600", 400,
                 "systemd did not do it in time");
    check_answer("not moved in time", "make", 400,
                 "systemd did not do it in time");
}

static void
test_start_asks_for_what_is_needed(void **state)
{
    AUTO_FREE char *asked_path = NULL;
    AUTO_FREE char *environment_path = NULL;
    AUTO_FREE char *asked = NULL;
    AUTO_FREE char *environment = NULL;
    struct place p;

    (void)state;
    begin(&p, "move");
    assert_int_equal(setenv("SCOPE_CANARY", "canary", 1), 0);
    start(&p);
    unsetenv("SCOPE_CANARY");
    asked_path = xasprintf("%s/asked", p.top);
    environment_path = xasprintf("%s/environment", p.top);
    asked = read_file(asked_path);
    environment = read_file(environment_path);
    assert_non_null(strstr(asked, geteuid() == 0 ? "--system " : "--user "));
    assert_non_null(
        strstr(asked, " fail 7 PIDs au 2 101 102 MemoryMax t 300000000 "
                      "MemorySwapMax t 0 TasksMax t 40 CPUWeight t 50 "
                      "CollectMode s inactive-or-failed OOMPolicy s continue "
                      "0\n"));
    assert_null(strstr(environment, "CANARY"));
    assert_null(strstr(environment, "HOME="));
    if (geteuid() != 0)
        assert_non_null(strstr(environment, p.bus));
    finish(&p);
}

/* Then nothing is run, and nothing is waited for. */
static void
test_start_without_a_manager(void **state)
{
    struct place p;

    (void)state;
    begin(&p, "move");
    unlink(p.bus);
    start(&p);
    assert_string_equal(local_scope_why(p.scope),
                        "there is no systemd manager to ask");
    finish(&p);
    begin(&p, "move");
    unlink(p.bus);
    write_file(p.bus, "", 0600);
    start(&p);
    assert_string_equal(local_scope_why(p.scope),
                        "there is no systemd manager to ask");
    finish(&p);
    begin(&p, NULL);
    start(&p);
    assert_string_equal(local_scope_why(p.scope), "busctl is not installed");
    finish(&p);
}

static void
test_readings_and_freezing(void **state)
{
    AUTO_FREE char *events = NULL;
    AUTO_FREE char *freeze = NULL;
    AUTO_FREE char *frozen = NULL;
    AUTO_FREE char *thawed = NULL;
    AUTO_FREE char *current = NULL;
    struct place p;

    (void)state;
    begin(&p, "move");
    start(&p);
    assert_true(p.on);
    assert_int_equal(local_scope_memory(p.scope), 12345);
    assert_int_equal(local_scope_oom_kills(p.scope), 0);
    events = group_file(&p, "memory.events");
    write_file(events, "low 0\noom 9\noom_kill 2\noom_group_kill 7\n", 0600);
    assert_int_equal(local_scope_oom_kills(p.scope), 2);
    freeze = group_file(&p, "cgroup.freeze");
    assert_true(local_scope_freeze(p.scope, true));
    frozen = read_file(freeze);
    assert_int_equal(frozen[0], '1');
    assert_true(local_scope_freeze(p.scope, false));
    thawed = read_file(freeze);
    assert_int_equal(thawed[0], '0');
    /* Gone later: nothing is known, and nothing fails. */
    current = group_file(&p, "memory.current");
    unlink(current);
    unlink(events);
    unlink(freeze);
    assert_int_equal(local_scope_memory(p.scope), 0);
    assert_int_equal(local_scope_oom_kills(p.scope), 0);
    assert_false(local_scope_freeze(p.scope, true));
    finish(&p);
}

static void
stop_loop(void *ctx)
{
    loop_stop(ctx);
}

static void
test_free_before_it_is_there(void **state)
{
    struct place p;

    (void)state;
    begin(&p, "exec sleep 600");
    p.scope = local_scope_start(p.loop, &p.config, &limits, on_done, &p);
    local_scope_free(p.scope);
    p.scope = local_scope_start(p.loop, &p.config, &limits, on_done, &p);
    loop_add_timer(p.loop, 20, stop_loop, p.loop);
    loop_run(p.loop);
    local_scope_free(p.scope);
    p.scope = NULL;
    assert_int_equal(p.n_done, 0);
    assert_false(local_scope_is_on(NULL));
    assert_string_equal(local_scope_why(NULL), "");
    assert_int_equal(local_scope_memory(NULL), 0);
    assert_false(local_scope_freeze(NULL, true));
    finish(&p);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_when_systemd_answers),
        cmocka_unit_test(test_start_when_nothing_happens),
        cmocka_unit_test(test_start_asks_for_what_is_needed),
        cmocka_unit_test(test_start_without_a_manager),
        cmocka_unit_test(test_readings_and_freezing),
        cmocka_unit_test(test_free_before_it_is_there),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("local_scope", tests, NULL, NULL);
}
