/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_bwrap_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "sandbox/local_kernel_internal.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/local_seccomp_internal.h"

#define MAX_ARGS_BYTES (1u << 20)
#define PIPE_BYTES (1 << 20)
#define MAX_TZ_BYTES 64u

#define TMP_BYTES "268435456"
#define SHM_BYTES "67108864"
#define FILE_BYTES ((uint64_t)1 << 30)
#define N_FILES 1024u
#define N_SIGNALS 1024u

static const char passwd[] =
    "sandbox:x:1000:1000:sandbox:/tmp:/usr/sbin/nologin\n";
static const char group[] = "sandbox:x:1000:\n";

const char *const local_bwrap_system_dirs[] = {"/bin",   "/sbin",   "/lib",
                                               "/lib32", "/libx32", "/lib64"};

const char *const local_bwrap_etc_files[] = {
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime",
    "/etc/matplotlibrc", "/etc/fonts"};

static void
add(struct sbuf *args, const char *arg)
{
    sbuf_add(args, arg, strlen(arg) + 1);
}

static void
add2(struct sbuf *args, const char *option, const char *a)
{
    add(args, option);
    add(args, a);
}

static void
add3(struct sbuf *args, const char *option, const char *a, const char *b)
{
    add2(args, option, a);
    add(args, b);
}

static void
add_fd(struct sbuf *args, const char *option, enum local_bwrap_fd fd)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", (int)fd);
    add2(args, option, number);
}

static void
add_data_file(struct sbuf *args, enum local_bwrap_fd fd, const char *path)
{
    add2(args, "--perms", "0444");
    add_fd(args, "--ro-bind-data", fd);
    add(args, path);
}

/* Every namespace by name: --unshare-all goes on without those that cannot be
   had. */
static void
add_isolation(struct sbuf *args, const struct local_bwrap_spec *spec)
{
    add(args, "--unshare-user");
    add(args, "--unshare-pid");
    add(args, "--unshare-net");
    add(args, "--unshare-ipc");
    add(args, "--unshare-uts");
    add2(args, "--hostname", "sandbox");
    add(args, "--unshare-cgroup");
    if (!spec->no_disable) {
        add(args, "--disable-userns");
        add(args, "--assert-userns-disabled");
    }
    add2(args, "--uid", "1000");
    add2(args, "--gid", "1000");
    add2(args, "--cap-drop", "ALL");
    add(args, "--die-with-parent");
    add(args, "--new-session");
    add(args, "--clearenv");
}

static void
add_system(struct sbuf *args)
{
    char target[64];
    struct stat st;

    add3(args, "--ro-bind", "/usr", "/usr");
    for (size_t i = 0; i < LOCAL_N_SYSTEM_DIRS; i++) {
        const char *dir = local_bwrap_system_dirs[i];
        ssize_t n;

        if (lstat(dir, &st) != 0)
            continue;
        n = S_ISLNK(st.st_mode) ? readlink(dir, target, sizeof(target) - 1) : 0;
        if (n > 0) {
            target[n] = '\0';
            add3(args, "--symlink", target, dir);
        } else {
            add3(args, "--ro-bind", dir, dir);
        }
    }
    for (size_t i = 0; i < LOCAL_N_ETC_FILES; i++)
        add3(args, "--ro-bind-try", local_bwrap_etc_files[i],
             local_bwrap_etc_files[i]);
    add_data_file(args, LOCAL_FD_PASSWD, "/etc/passwd");
    add_data_file(args, LOCAL_FD_GROUP, "/etc/group");
}

/* The device directory of bubblewrap is a tmpfs without a limit, hence the
   remount; it must come after what is mounted below it. */
static void
add_own_mounts(struct sbuf *args, const struct local_bwrap_spec *spec)
{
    if (!spec->no_proc)
        add2(args, "--proc", "/proc");
    add2(args, "--dev", "/dev");
    add2(args, "--size", SHM_BYTES);
    add2(args, "--perms", "1777");
    add2(args, "--tmpfs", "/dev/shm");
    add2(args, "--remount-ro", "/dev");
    add2(args, "--size", TMP_BYTES);
    add2(args, "--perms", "1777");
    add2(args, "--tmpfs", "/tmp");
    /* The system's list of fonts, where fontconfig looks for one of the home's;
       without any, the first chart waits while each font is opened. */
    add3(args, "--ro-bind-try", "/var/cache/fontconfig",
         "/tmp/.cache/fontconfig");
    add2(args, "--dir", "/tmp/mpl");
    for (size_t i = 0; i < spec->env->n_fonts; i++) {
        const char *path = spec->env->fonts[i];
        AUTO_FREE char *inside = xasprintf("/tmp/mpl/%s", paths_base(path));

        add3(args, "--ro-bind-try", path, inside);
    }
}

/* After the private directories, which would else lie on top of an interpreter
   that is in /tmp. */
static void
add_shared(struct sbuf *args, const struct local_bwrap_spec *spec)
{
    const struct local_env *env = spec->env;

    for (size_t i = 0; i < env->n_binds; i++)
        add3(args, "--ro-bind", env->binds[i], env->binds[i]);
    add3(args, "--bind", env->workspace, "/workspace");
    add3(args, "--ro-bind", env->data, "/workspace/data");
    for (size_t i = 0; i < spec->n_files; i++) {
        AUTO_FREE char *inside =
            xasprintf("/workspace/data/%s", spec->files[i].name);

        add3(args, "--ro-bind", spec->files[i].path, inside);
    }
    add_data_file(args, LOCAL_FD_KERNEL, "/run/kernel.py");
}

static void
set_env(struct sbuf *args, const char *name, const char *value)
{
    add3(args, "--setenv", name, value);
}

bool
local_bwrap_tz_ok(const char *tz)
{
    return tz != NULL && tz[0] != '\0' && tz[0] != '/' &&
           strlen(tz) <= MAX_TZ_BYTES && strstr(tz, "..") == NULL &&
           strspn(tz, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                      "0123456789_+-/:,.<>") == strlen(tz);
}

static void
add_environment(struct sbuf *args, int n_cpus, const char *tz)
{
    char cpus[16];

    snprintf(cpus, sizeof(cpus), "%d", n_cpus);
    set_env(args, "PATH", "/usr/bin:/bin");
    set_env(args, "HOME", "/tmp");
    set_env(args, "LANG", "C.UTF-8");
    if (local_bwrap_tz_ok(tz))
        set_env(args, "TZ", tz);
    set_env(args, "MPLBACKEND", "agg");
    set_env(args, "MPLCONFIGDIR", "/tmp/mpl");
    set_env(args, "OMP_NUM_THREADS", cpus);
    set_env(args, "OPENBLAS_NUM_THREADS", cpus);
    set_env(args, "PYTHONDONTWRITEBYTECODE", "1");
}

void
local_bwrap_add_args(struct sbuf *args, const struct local_bwrap_spec *spec,
                     int n_cpus, const char *tz)
{
    add_isolation(args, spec);
    add_system(args);
    add_own_mounts(args, spec);
    add_shared(args, spec);
    add_environment(args, n_cpus, tz);
    add2(args, "--chdir", "/workspace");
    add_fd(args, "--seccomp", LOCAL_FD_SECCOMP);
    add2(args, "--remount-ro", "/");
}

/* --- descriptors --- */

/* Everything that the child gets, until it has been started. */
struct parcel {
    int args;
    int seccomp;
    int passwd;
    int group;
    int kernel;
    int life[2];
    int requests[2];
    int tickets[2];
    int taken; /* what we read tickets by */
    int events[2];
    int out[2];
    int errors[2];
};

#define N_PARCEL_FDS (sizeof(struct parcel) / sizeof(int))

static void
parcel_init(struct parcel *p)
{
    int *fds = (int *)p;

    for (size_t i = 0; i < N_PARCEL_FDS; i++)
        fds[i] = -1;
}

static void
parcel_fini(struct parcel *p)
{
    int *fds = (int *)p;

    for (size_t i = 0; i < N_PARCEL_FDS; i++)
        close_fd(&fds[i]);
}

static int
make_pipe(int fds[2], int our_end, struct error *err)
{
    if (io_pipe(fds, err) < 0 || io_set_nonblock(fds[our_end], err) < 0)
        return -1;
    /* Refused when the user has too many pipes; then it is merely slower. */
    fcntl(fds[our_end], F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

/* Whether a read waits belongs to the open file, which the interpreter has too
   and can change: it is opened once more for us. */
static int
make_tickets(struct parcel *p, struct error *err)
{
    char path[64];

    if (io_pipe(p->tickets, err) < 0 ||
        io_set_nonblock(p->tickets[0], err) < 0 ||
        io_set_nonblock(p->tickets[1], err) < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", p->tickets[0]);
    p->taken = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (p->taken < 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", path);
    return 0;
}

static int
make_seccomp(const struct local_level *level, struct error *err)
{
    struct sock_filter filter[LOCAL_SECCOMP_MAX];
    size_t n =
        local_seccomp_build(local_seccomp_native_arch(), !level->own_mounts,
                            filter, LOCAL_SECCOMP_MAX);

    if (n == 0)
        return err_set(err, ERR_SANDBOX,
                       "there is no system call filter for this processor\n"
                       "fix: use a machine with x86-64 or aarch64");
    return io_memfd("seccomp", filter, n * sizeof(filter[0]), err);
}

static int
count_cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int
make_args(const struct local_bwrap_spec *spec, struct error *err)
{
    AUTO_SBUF struct sbuf args = {0};

    sbuf_init(&args, MAX_ARGS_BYTES);
    spec->level->add_args(&args, spec, count_cpus(), getenv("TZ"));
    if (!sbuf_ok(&args))
        return err_set(err, ERR_TOO_LARGE, "too many loaded files");
    return io_memfd("args", args.data, args.len, err);
}

static int
parcel_fill(struct parcel *p, const struct local_bwrap_spec *spec,
            struct error *err)
{
    if (make_pipe(p->requests, 1, err) < 0 ||
        make_pipe(p->events, 0, err) < 0 || make_pipe(p->out, 0, err) < 0 ||
        make_pipe(p->errors, 0, err) < 0 || make_tickets(p, err) < 0)
        return -1;
    p->args = make_args(spec, err);
    p->seccomp = p->args >= 0 ? make_seccomp(spec->level, err) : -1;
    if (p->seccomp < 0 || (spec->level->has_life && io_pipe(p->life, err) < 0))
        return -1;
    p->passwd = io_memfd("passwd", passwd, sizeof(passwd) - 1, err);
    p->group = io_memfd("group", group, sizeof(group) - 1, err);
    p->kernel = io_memfd("kernel", local_kernel_py, local_kernel_py_len, err);
    return p->passwd >= 0 && p->group >= 0 && p->kernel >= 0 ? 0 : -1;
}

/* --- limits --- */

/* Only root may raise a hard limit, and it still is root when they are set. */
static struct proc_rlimit
limit_to(int resource, uint64_t value, bool is_root)
{
    struct rlimit now = {0};

    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && !is_root &&
        now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
        value = now.rlim_max;
    return (struct proc_rlimit){
        .resource = resource, .soft = value, .hard = value};
}

static size_t
fill_limits(struct proc_rlimit out[8], const struct local_bwrap_spec *spec)
{
    bool root = spec->env->drop;
    size_t n = 0;

    out[n++] = limit_to(RLIMIT_AS, spec->memory_bytes, root);
    out[n++] = limit_to(RLIMIT_FSIZE, FILE_BYTES, root);
    out[n++] = limit_to(RLIMIT_NOFILE, N_FILES, root);
    out[n++] = limit_to(RLIMIT_MEMLOCK, 0, root);
    out[n++] = limit_to(RLIMIT_MSGQUEUE, 0, root);
    out[n++] = limit_to(RLIMIT_SIGPENDING, N_SIGNALS, root);
    /* 1 and not 0: a core_pattern that is a pipe is run on the host for a limit
       of 0 too, and not for 1 (core(5)). */
    out[n++] = limit_to(RLIMIT_CORE, 1, root);
    return n;
}

/* --- start and end --- */

static const char *
maker_of(const struct local_bwrap_spec *spec)
{
    return spec->level->has_life ? spec->env->warden : spec->env->bwrap;
}

static struct proc *
launch(struct loop *loop, const struct local_bwrap_spec *spec,
       const struct parcel *p, proc_exit_fn on_exit, void *ctx,
       struct error *err)
{
    const struct proc_fd fds[] = {
        {p->out[1], LOCAL_FD_STDOUT},        {p->errors[1], LOCAL_FD_STDERR},
        {p->requests[0], LOCAL_FD_REQUESTS}, {p->events[1], LOCAL_FD_EVENTS},
        {p->tickets[0], LOCAL_FD_TICKETS},   {p->args, LOCAL_FD_ARGS},
        {p->seccomp, LOCAL_FD_SECCOMP},      {p->passwd, LOCAL_FD_PASSWD},
        {p->group, LOCAL_FD_GROUP},          {p->kernel, LOCAL_FD_KERNEL},
        {p->life[0], LOCAL_FD_LIFE}, /* last: bubblewrap would pass it on */
    };
    size_t n_fds = spec->level->has_life ? LEN(fds) : LEN(fds) - 1;
    const char *kernel_argv[] = {
        "bwrap", "--args",         "7", "--", spec->env->python,
        "-I",    "/run/kernel.py", NULL};
    const char *probe_argv[] = {"bwrap", "--args",      "7",
                                "--",    spec->command, NULL};
    const char *warden_argv[] = {"sandpiper-warden", NULL};
    const char *const *bwrap_argv =
        spec->command != NULL ? probe_argv : kernel_argv;
    /* Nothing but PATH: the environment of pid 1 can be read inside, also what
       --clearenv has taken out of it. */
    const char *envp[] = {"PATH=/usr/bin:/bin", NULL};
    struct proc_rlimit limits[8];
    struct proc_spec how = {
        .path = maker_of(spec),
        .argv = spec->level->has_life ? warden_argv : bwrap_argv,
        .envp = envp,
        .fds = fds,
        .n_fds = n_fds,
        .rlimits = limits,
        .n_rlimits = fill_limits(limits, spec),
        .drop_ids = spec->env->drop,
        .uid = spec->env->uid,
        .gid = spec->env->gid,
    };

    return proc_start(loop, &how, on_exit, ctx, err);
}

int
local_bwrap_start(struct local_bwrap *b, struct loop *loop,
                  const struct local_bwrap_spec *wanted, proc_exit_fn on_exit,
                  void *ctx, struct error *err)
{
    struct local_bwrap_spec spec = *wanted;
    struct parcel p;

    if (spec.level == NULL)
        spec.level = local_level(LOCAL_FULL);
    parcel_init(&p);
    memset(b, 0, sizeof(*b));
    b->level = spec.level;
    b->pidfd = b->life_fd = -1;
    b->request_fd = b->event_fd = b->stdout_fd = b->stderr_fd = -1;
    b->ticket_fds[0] = b->ticket_fds[1] = -1;
    if (parcel_fill(&p, &spec, err) == 0)
        b->proc = launch(loop, &spec, &p, on_exit, ctx, err);
    if (b->proc == NULL) {
        parcel_fini(&p);
        if (err != NULL && err->code != ERR_SANDBOX) {
            err_wrap(err, "%s cannot be started", paths_base(maker_of(&spec)));
            err->code = ERR_SANDBOX;
        }
        return -1;
    }
    b->life_fd = take_fd(&p.life[1]);
    b->request_fd = take_fd(&p.requests[1]);
    b->event_fd = take_fd(&p.events[0]);
    b->ticket_fds[0] = take_fd(&p.taken);
    b->ticket_fds[1] = take_fd(&p.tickets[1]);
    b->stdout_fd = take_fd(&p.out[0]);
    b->stderr_fd = take_fd(&p.errors[0]);
    parcel_fini(&p);
    return 0;
}

/* Whether pid is still a child of the outer bubblewrap, which reaps it. */
static bool
is_child_of(pid_t pid, pid_t parent)
{
    char path[64];
    char text[512];
    AUTO_CLOSE int fd = -1;
    ssize_t n;
    char *p;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return false;
    text[n] = '\0';
    /* The name in parentheses may hold anything. */
    p = strrchr(text, ')');
    return p != NULL && strlen(p) > 4 &&
           strtol(p + 4, NULL, 10) == (long)parent;
}

/* The first child of pid by the list of its only thread, or by looking at every
   process where the kernel has no such lists. 0: none. */
static pid_t
first_child(pid_t pid)
{
    char path[64];
    char text[32];
    AUTO_CLOSE int fd = -1;
    ssize_t n;
    pid_t found = 0;
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid,
             (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        return (pid_t)strtol(text, NULL, 10);
    }
    dir = opendir("/proc");
    if (dir == NULL)
        return 0;
    for (entry = readdir(dir); entry != NULL && found == 0;
         entry = readdir(dir)) {
        pid_t candidate = (pid_t)strtol(entry->d_name, NULL, 10);

        if (candidate > 1 && is_child_of(candidate, pid))
            found = candidate;
    }
    closedir(dir);
    return found;
}

/*
 * Not by --info-fd: bubblewrap first asks for the signal of a dead parent, then
 * writes there, then lets its child go on. A client that ends in between takes
 * it with it, and the child waits for ever. Without the writes that gap is a
 * microsecond.
 */
bool
local_bwrap_find_child(struct local_bwrap *b)
{
    pid_t outer = proc_pid(b->proc);
    pid_t pid;

    if (b->child_pid > 1)
        return true;
    if (b->ended)
        return false;
    pid = first_child(outer);
    if (pid <= 1)
        return false;
    b->pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (b->pidfd < 0)
        return false;
    /* It may have ended, and its number have gone to another, in between. */
    if (!is_child_of(pid, outer)) {
        close_fd(&b->pidfd);
        return false;
    }
    b->child_pid = pid;
    return true;
}

void
local_bwrap_interrupt(struct local_bwrap *b)
{
    /* Never a group of 0 or 1, which would be ours or everybody. */
    if (!b->ended && b->child_pid > 1)
        kill(-b->child_pid, SIGINT);
}

void
local_bwrap_kill(struct local_bwrap *b)
{
    /* Without the outer warden the inner one must do what is to be done. */
    int signo = b->ended && b->level->has_life ? SIGTERM : SIGKILL;

    if (b->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, b->pidfd, signo, NULL, 0u);
}

/* Whether a process, or the last one of its namespace, has ended. */
static bool
wait_for_end(int pidfd, int wait_ms)
{
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};

    return poll(&wait, 1, wait_ms) == 1;
}

/*
 * Ends what has not ended. The outer bubblewrap is not killed itself: before
 * its child goes on that would leave it waiting for ever, and later it is the
 * one that reaps, which the init of a container may not do.
 */
static void
end_processes(struct local_bwrap *b)
{
    AUTO_CLOSE int outer = (int)syscall(SYS_pidfd_open, proc_pid(b->proc), 0u);
    int end_ms = b->level->end_ms;

    for (int waited_ms = 0; waited_ms < end_ms; waited_ms++) {
        if (local_bwrap_find_child(b)) {
            local_bwrap_kill(b);
            wait_for_end(b->pidfd, end_ms);
            wait_for_end(outer, end_ms);
            return;
        }
        if (outer < 0 || wait_for_end(outer, 1))
            return;
    }
}

void
local_bwrap_fini(struct local_bwrap *b)
{
    if (b->proc == NULL)
        return;
    /* Without a place to read and write the kernel ends by itself, too. */
    close_fd(&b->request_fd);
    close_fd(&b->event_fd);
    close_fd(&b->ticket_fds[0]);
    close_fd(&b->ticket_fds[1]);
    if (!b->ended) {
        end_processes(b);
    } else if (b->pidfd >= 0) {
        local_bwrap_kill(b);
        wait_for_end(b->pidfd, b->level->end_ms);
    }
    proc_free(b->proc);
    b->proc = NULL;
    close_fd(&b->life_fd);
    close_fd(&b->stdout_fd);
    close_fd(&b->stderr_fd);
    close_fd(&b->pidfd);
    b->child_pid = 0;
    b->kernel_pid = 0;
}
