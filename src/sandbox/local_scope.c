/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_scope_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local.h"

#define LOG_MODULE "sandbox"

#define BUSCTL "/usr/bin/busctl"
#define SYSTEM_BUS "/run/dbus/system_bus_socket"
#define CGROUPS "/sys/fs/cgroup"
#define PROC "/proc"

#define LOOK_MS 5 /* between looks whether the processes have been moved */
#define MAX_SMALL 4096
#define MAX_WHY 256
#define MAX_ARGS 64
#define NUMBER_BYTES 24
/* Limits of memory are kept in whole pages. */
#define MEMORY_SLACK 65536u
#define CPU_WEIGHT "50" /* half of what others have */

struct local_scope {
    struct loop *loop;                /* borrowed */
    struct local_scope_config config; /* strings owned */
    struct local_scope_limits limits;
    local_scope_fn done;
    void *ctx;
    char *unit; /* owned */
    bool is_root;
    bool without_policy; /* tried again for an older systemd */
    struct proc *proc;   /* owned; busctl */
    int said;            /* owned; its standard error; -1 */
    struct loop_timer *limit;
    struct loop_timer *look;
    struct loop_task *task; /* reports what is known at once */
    int dir;                /* owned; of the group; -1 */
    bool on;
    char why[MAX_WHY];
};

/* --- reading --- */

static size_t
read_at(int dir, const char *path, char text[MAX_SMALL])
{
    AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, MAX_SMALL - 1) : -1;

    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The number in a file of the group; UINT64_MAX: none ("max"), or no file. */
static uint64_t
read_number(int dir, const char *name)
{
    char text[MAX_SMALL];
    char *end = text;
    unsigned long long value;

    if (read_at(dir, name, text) == 0)
        return UINT64_MAX;
    value = strtoull(text, &end, 10);
    return end != text ? (uint64_t)value : UINT64_MAX;
}

/* Opens the group that a process is in, if that is the one that was asked for.
   -1: it is not (yet). */
static int
open_group(const struct local_scope *s, pid_t pid)
{
    AUTO_FREE char *path = xasprintf("%s/%d/cgroup", s->config.proc, (int)pid);
    AUTO_FREE char *dir = NULL;
    char text[MAX_SMALL];
    char *line;

    if (read_at(AT_FDCWD, path, text) == 0)
        return -1;
    /* Version 2 has one line that begins so; others are of version 1. */
    line = str_starts(text, "0::/") ? text : strstr(text, "\n0::/");
    if (line == NULL)
        return -1;
    line = strstr(line, "/");
    line[strcspn(line, "\n")] = '\0';
    if (!str_eq(paths_base(line), s->unit) || strstr(line, "..") != NULL)
        return -1;
    dir = xasprintf("%s%s", s->config.cgroups, line);
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* --- the end of the attempt --- */

static void
stop(struct local_scope *s)
{
    loop_timer_remove(s->limit);
    loop_timer_remove(s->look);
    loop_task_remove(s->task);
    s->limit = s->look = NULL;
    s->task = NULL;
    proc_free(s->proc);
    s->proc = NULL;
    close_fd(&s->said);
}

static void
end(struct local_scope *s, const char *why)
{
    stop(s);
    s->on = why == NULL;
    if (why != NULL) {
        close_fd(&s->dir);
        snprintf(s->why, sizeof(s->why), "%s", why);
        LOG_INFO("no control group: %s", s->why);
    }
    s->done(s->ctx, s->on);
}

static void
handle_limit(void *ctx)
{
    struct local_scope *s = ctx;

    s->limit = NULL;
    end(s, "systemd did not do it in time");
}

/* What the manager says is not enough: only limits that can be read are
   there. */
static void
check(struct local_scope *s)
{
    uint64_t memory = read_number(s->dir, "memory.max");
    uint64_t pids = read_number(s->dir, "pids.max");
    uint64_t wanted = s->limits.memory_bytes;

    if (memory > wanted || memory + MEMORY_SLACK < wanted)
        end(s, "the limit of memory is not in place");
    else if (pids > (uint64_t)s->limits.processes || pids == 0)
        end(s, "the limit of processes is not in place");
    else
        end(s, NULL);
}

static void
handle_look(void *ctx)
{
    struct local_scope *s = ctx;
    bool all = true;

    s->look = NULL;
    for (size_t i = 0; i < s->limits.n_pids && all; i++) {
        close_fd(&s->dir);
        s->dir = open_group(s, s->limits.pids[i]);
        all = s->dir >= 0;
    }
    if (all)
        check(s);
    else
        s->look = loop_add_timer(s->loop, LOOK_MS, handle_look, s);
}

/* --- asking --- */

/* Arguments of busctl, and the numbers among them. */
struct call {
    const char *argv[MAX_ARGS];
    size_t n;
    char numbers[8][NUMBER_BYTES];
    size_t n_numbers;
};

static void
add(struct call *c, const char *word)
{
    c->argv[c->n++] = word;
    c->argv[c->n] = NULL;
}

static void
add_number(struct call *c, uint64_t value)
{
    char *text = c->numbers[c->n_numbers++];

    snprintf(text, NUMBER_BYTES, "%llu", (unsigned long long)value);
    add(c, text);
}

static void
add_property(struct call *c, const char *name, const char *type)
{
    add(c, name);
    add(c, type);
}

static void
add_properties(struct call *c, const struct local_scope *s)
{
    const struct local_scope_limits *limits = &s->limits;

    add_property(c, "PIDs", "au");
    add_number(c, limits->n_pids);
    for (size_t i = 0; i < limits->n_pids; i++)
        add_number(c, (uint64_t)limits->pids[i]);
    add_property(c, "MemoryMax", "t");
    add_number(c, limits->memory_bytes);
    add_property(c, "MemorySwapMax", "t");
    add(c, "0");
    add_property(c, "TasksMax", "t");
    add_number(c, (uint64_t)limits->processes);
    add_property(c, "CPUWeight", "t");
    add(c, CPU_WEIGHT);
    add_property(c, "CollectMode", "s");
    add(c, "inactive-or-failed");
    /* Scopes have it since systemd 253, and need it since then. */
    if (!s->without_policy) {
        add_property(c, "OOMPolicy", "s");
        add(c, "continue");
    }
}

static void
fill_call(struct call *c, const struct local_scope *s)
{
    static const char *const head[] = {
        "--quiet",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
    };

    memset(c, 0, sizeof(*c));
    add(c, "busctl");
    add(c, s->is_root ? "--system" : "--user");
    for (size_t i = 0; i < LEN(head); i++)
        add(c, head[i]);
    add(c, s->unit);
    add(c, "fail");
    add(c, s->without_policy ? "6" : "7");
    add_properties(c, s);
    add(c, "0");
}

static void ask(struct local_scope *s);

static void
handle_exit(void *ctx, const struct proc_exit *status)
{
    struct local_scope *s = ctx;
    char said[MAX_WHY / 2] = "";
    ssize_t n = read(s->said, said, sizeof(said) - 1);
    char why[MAX_WHY];

    said[n > 0 ? n : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    proc_free(s->proc);
    s->proc = NULL;
    close_fd(&s->said);
    if (status->code == 0) {
        handle_look(s);
    } else if (strstr(said, "OOMPolicy") != NULL && !s->without_policy) {
        s->without_policy = true;
        ask(s);
    } else {
        snprintf(why, sizeof(why), "systemd refused it (%s)", said);
        end(s, why);
    }
}

/* It runs with an environment of its own: where the bus is, and no more. */
static void
ask(struct local_scope *s)
{
    AUTO_FREE char *dir = paths_dir(s->config.bus);
    AUTO_FREE char *runtime = xasprintf("XDG_RUNTIME_DIR=%s", dir);
    AUTO_FREE char *address =
        xasprintf("DBUS_SESSION_BUS_ADDRESS=unix:path=%s", s->config.bus);
    const char *envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", runtime,
                          address, NULL};
    struct error err = {0};
    struct call call;
    int fds[2];
    struct proc_fd given;
    struct proc_spec how;

    fill_call(&call, s);
    if (s->is_root)
        envp[2] = NULL;
    if (io_pipe(fds, &err) < 0 || io_set_nonblock(fds[0], &err) < 0) {
        end(s, err.msg);
        return;
    }
    s->said = fds[0];
    given = (struct proc_fd){fds[1], STDERR_FILENO};
    how = (struct proc_spec){
        .path = s->config.busctl,
        .argv = call.argv,
        .envp = envp,
        .fds = &given,
        .n_fds = 1,
        .die_with_parent = true,
    };
    s->proc = proc_start(s->loop, &how, handle_exit, s, &err);
    close(fds[1]);
    if (s->proc == NULL)
        end(s, err.msg);
}

static void
handle_begin(void *ctx)
{
    struct local_scope *s = ctx;
    struct stat st;

    s->task = NULL;
    if (stat(s->config.bus, &st) != 0 || !S_ISSOCK(st.st_mode) ||
        (st.st_uid != geteuid() && st.st_uid != 0)) {
        end(s, "there is no systemd manager to ask");
        return;
    }
    if (access(s->config.busctl, X_OK) != 0) {
        end(s, "busctl is not installed");
        return;
    }
    s->limit = loop_add_timer(s->loop, s->config.wait_ms, handle_limit, s);
    ask(s);
}

/* The user's bus is where logind puts it. */
static char *
find_bus(bool is_root)
{
    return is_root ? xstrdup(SYSTEM_BUS)
                   : xasprintf("/run/user/%lu/bus", (unsigned long)geteuid());
}

static char *
choose(const char *given, const char *usual)
{
    return xstrdup(given != NULL ? given : usual);
}

struct local_scope *
local_scope_start(struct loop *loop, const struct local_scope_config *config,
                  const struct local_scope_limits *limits, local_scope_fn done,
                  void *ctx)
{
    static unsigned n_made;
    static const struct local_scope_config none = {0};
    const struct local_scope_config *given = config != NULL ? config : &none;
    struct local_scope *s = xcalloc(1, sizeof(*s));

    s->loop = loop;
    s->limits = *limits;
    s->done = done;
    s->ctx = ctx;
    s->said = s->dir = -1;
    s->is_root = geteuid() == 0;
    s->config.busctl = choose(given->busctl, BUSCTL);
    s->config.cgroups = choose(given->cgroups, CGROUPS);
    s->config.proc = choose(given->proc, PROC);
    s->config.wait_ms = given->wait_ms > 0 ? given->wait_ms : LOCAL_SCOPE_MS;
    s->config.bus =
        given->bus != NULL ? xstrdup(given->bus) : find_bus(s->is_root);
    s->unit = xasprintf("sandpiper-%ld-%u.scope", (long)getpid(), ++n_made);
    s->task = loop_defer(loop, handle_begin, s);
    return s;
}

void
local_scope_free(struct local_scope *s)
{
    if (s == NULL)
        return;
    stop(s);
    close_fd(&s->dir);
    free_const(s->config.busctl);
    free_const(s->config.bus);
    free_const(s->config.cgroups);
    free_const(s->config.proc);
    free(s->unit);
    free(s);
}

/* --- what it is good for --- */

bool
local_scope_is_on(const struct local_scope *s)
{
    return s != NULL && s->on;
}

const char *
local_scope_why(const struct local_scope *s)
{
    return s != NULL ? s->why : "";
}

uint64_t
local_scope_memory(const struct local_scope *s)
{
    uint64_t value = local_scope_is_on(s)
                         ? read_number(s->dir, "memory.current")
                         : UINT64_MAX;

    return value != UINT64_MAX ? value : 0;
}

uint64_t
local_scope_oom_kills(const struct local_scope *s)
{
    char text[MAX_SMALL];
    const char *line;

    if (!local_scope_is_on(s) || read_at(s->dir, "memory.events", text) == 0)
        return 0;
    line = strstr(text, "\noom_kill ");
    return line != NULL
               ? (uint64_t)strtoull(line + strlen("\noom_kill "), NULL, 10)
               : 0;
}

bool
local_scope_freeze(struct local_scope *s, bool freeze)
{
    AUTO_CLOSE int fd = -1;

    if (!local_scope_is_on(s))
        return false;
    fd = openat(s->dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, freeze ? "1" : "0", 1) == 1;
}

bool
local_scope_is_frozen(const struct local_scope *s)
{
    char text[MAX_SMALL];

    return local_scope_is_on(s) && read_at(s->dir, "cgroup.events", text) > 0 &&
           strstr(text, "frozen 1\n") != NULL;
}
