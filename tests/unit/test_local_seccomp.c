/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_seccomp_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "helpers/bpf_eval.h"

#define HIGH UINT64_C(0xdead000000000000)
#define N(a) (LEN(a))

static const uint32_t archs[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};

static struct sock_filter code[LOCAL_SECCOMP_MAX];

static int
number_of(const struct local_seccomp_row *row, uint32_t arch)
{
    return arch == AUDIT_ARCH_X86_64 ? row->x86_64 : row->aarch64;
}

static const struct local_seccomp_row *
find_row(const char *name)
{
    size_t i, n;
    const struct local_seccomp_row *rows = local_seccomp_table(&n);

    for (i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("no row for %s", name);
    return NULL;
}

static uint32_t
evaluate(size_t len, uint32_t arch, int nr, const uint64_t args[6])
{
    struct seccomp_data d = {.nr = nr, .arch = arch};

    if (args != NULL)
        memcpy(d.args, args, sizeof(d.args));
    return bpf_eval_run(code, len, &d);
}

static void
test_build_fits_and_is_valid(void **state)
{
    size_t i, len;

    (void)state;
    for (i = 0; i < N(archs); i++) {
        len = local_seccomp_build(archs[i], false, code, N(code));
        assert_in_range(len, 200, LOCAL_SECCOMP_MAX);
        assert_true(bpf_eval_valid(code, len));
        assert_int_equal(local_seccomp_build(archs[i], false, code, len), len);
        assert_int_equal(local_seccomp_build(archs[i], false, code, len - 1),
                         0);
    }
    assert_int_equal(local_seccomp_build(AUDIT_ARCH_I386, false, code, N(code)),
                     0);
    assert_int_equal(
        local_seccomp_build(AUDIT_ARCH_RISCV64, false, code, N(code)), 0);
}

/* Names and errors here are a second writing of the policy, on purpose. */
static void
test_build_refuses_what_the_policy_names(void **state)
{
    static const struct {
        int error;
        const char *names;
    } policy[] = {
        {EPERM, "unshare setns mount umount2 pivot_root chroot ptrace "
                "process_vm_readv process_vm_writev kcmp pidfd_getfd "
                "process_madvise process_mrelease bpf perf_event_open "
                "init_module finit_module delete_module kexec_load "
                "kexec_file_load reboot add_key request_key keyctl "
                "userfaultfd vmsplice name_to_handle_at open_by_handle_at "
                "fanotify_init fanotify_mark seccomp modify_ldt iopl ioperm "
                "uselib remap_file_pages mbind set_mempolicy "
                "set_mempolicy_home_node move_pages migrate_pages syslog acct "
                "quotactl quotactl_fd swapon swapoff settimeofday "
                "clock_settime adjtimex clock_adjtime sethostname "
                "setdomainname vhangup setxattr lsetxattr fsetxattr "
                "timer_create"},
        {EOPNOTSUPP, "fallocate"},
        {ENOSYS, "clone3 open_tree move_mount fsopen fsconfig fsmount fspick "
                 "mount_setattr statmount listmount io_uring_setup "
                 "io_uring_enter io_uring_register io_setup io_submit "
                 "inotify_init inotify_init1 openat2 shmget shmat msgget "
                 "semget mq_open memfd_create memfd_secret lookup_dcookie "
                 "sysfs ustat nfsservctl _sysctl create_module"},
    };
    size_t a, i, len, n_rows, n_always = 0, n_named = 0;
    const struct local_seccomp_row *rows = local_seccomp_table(&n_rows);

    (void)state;
    for (a = 0; a < N(archs); a++) {
        len = local_seccomp_build(archs[a], false, code, N(code));
        for (i = 0; i < N(policy); i++) {
            char *names = strdup(policy[i].names);
            char *save = NULL;
            char *name;

            for (name = strtok_r(names, " ", &save); name != NULL;
                 name = strtok_r(NULL, " ", &save)) {
                int nr = number_of(find_row(name), archs[a]);

                n_named++;
                if (nr == LOCAL_SECCOMP_NONE)
                    continue;
                assert_int_equal(evaluate(len, archs[a], nr, NULL),
                                 SECCOMP_RET_ERRNO | (uint32_t)policy[i].error);
            }
            free(names);
        }
    }
    for (i = 0; i < n_rows; i++)
        n_always += rows[i].check == LOCAL_SECCOMP_ALWAYS;
    assert_int_equal(n_named, N(archs) * n_always);
}

static void
test_build_looks_at_arguments(void **state)
{
    static const struct {
        const char *name;
        uint64_t args[6];
        int expect_error; /* 0: allowed */
    } cases[] = {
        {"clone", {SIGCHLD}, 0},
        {"clone", {CLONE_VM | CLONE_FS | CLONE_THREAD | CLONE_SETTLS}, 0},
        {"clone", {CLONE_VM | HIGH}, 0},
        {"clone", {CLONE_NEWUSER | SIGCHLD}, EPERM},
        {"clone", {CLONE_NEWUSER | HIGH}, EPERM},
        {"clone", {CLONE_NEWNS}, EPERM},
        {"clone", {CLONE_NEWNET}, EPERM},
        {"clone", {CLONE_NEWPID}, EPERM},
        {"clone", {CLONE_NEWIPC}, EPERM},
        {"clone", {CLONE_NEWUTS}, EPERM},
        {"clone", {CLONE_NEWCGROUP}, EPERM},
        {"socket", {AF_UNIX, SOCK_STREAM}, 0},
        {"socket", {AF_INET, SOCK_STREAM}, EAFNOSUPPORT},
        {"socket", {AF_UNSPEC}, EAFNOSUPPORT},
        {"socket", {AF_NETLINK, SOCK_RAW}, EAFNOSUPPORT},
        {"socket", {40, SOCK_STREAM}, EAFNOSUPPORT},
        {"socket", {AF_INET6 | HIGH}, EAFNOSUPPORT},
        {"fcntl", {3, F_SETFL, O_ASYNC}, 0},
        {"fcntl", {3, F_SETLK}, 0},
        {"fcntl", {3, F_SETSIG, SIGCONT}, EPERM},
        {"fcntl", {3, F_SETSIG | HIGH, SIGCONT}, EPERM},
        {"socketpair", {AF_UNIX, SOCK_STREAM}, 0},
        {"socketpair", {AF_INET, SOCK_STREAM}, EAFNOSUPPORT},
        {"ioctl", {0, TCGETS}, 0},
        {"ioctl", {0, FIONREAD | HIGH}, 0},
        {"ioctl", {TIOCSTI, TCGETS}, 0},
        {"ioctl", {0, TIOCSTI}, EPERM},
        {"ioctl", {0, TIOCSTI | HIGH}, EPERM},
        {"ioctl", {0, TIOCSTI | UINT64_C(0x100000000)}, EPERM},
        {"ioctl", {3, 0x40305828}, EPERM}, /* FS_IOC_RESVSP */
        {"ioctl", {3, 0x4030582a | HIGH}, EPERM},
        {"ioctl", {3, 0x40305839}, EPERM}, /* FS_IOC_ZERO_RANGE */
        {"ioctl", {3, FICLONE}, 0},
        {"ioctl", {0, TIOCLINUX}, EPERM},
        {"ioctl", {0, TIOCLINUX | HIGH}, EPERM},
        {"ioctl", {0, TIOCSETD}, EPERM},
        {"chmod", {0, 0755}, 0},
        {"chmod", {04000, 01777}, 0},
        {"chmod", {0, 04755}, EPERM},
        {"chmod", {0, 02755 | HIGH}, EPERM},
        {"fchmod", {0, 0600}, 0},
        {"fchmod", {0, 02000}, EPERM},
        {"fchmodat", {0, 04000, 0600}, 0},
        {"fchmodat", {0, 0, 06000}, EPERM},
        {"fchmodat2", {0, 0, 0644}, 0},
        {"fchmodat2", {0, 0, 04000}, EPERM},
        {"open", {0, O_RDONLY, 07777}, 0},
        {"open", {0, O_CREAT | O_WRONLY, 0666}, 0},
        {"open", {0, O_CREAT | O_WRONLY, 04755}, EPERM},
        {"open", {0, O_CREAT | HIGH, 02755 | HIGH}, EPERM},
        {"openat", {0, 0, O_RDWR, 07777}, 0},
        {"openat", {0, 0, O_CREAT, 0600}, 0},
        {"openat", {0, 0, O_CREAT, 04600}, EPERM},
        {"openat", {0, 0, O_TMPFILE | O_RDWR, 0600}, 0},
        {"openat", {0, 0, O_TMPFILE | O_RDWR, 02600}, EPERM},
        {"creat", {0, 0644}, 0},
        {"creat", {0, 04644}, EPERM},
        {"mknod", {0, S_IFREG | 0644}, 0},
        {"mknod", {0, S_IFREG | 04644}, EPERM},
        {"mknodat", {0, 0, S_IFIFO | 0644}, 0},
        {"mknodat", {0, 0, S_IFREG | 02644}, EPERM},
        {"setrlimit", {RLIMIT_NOFILE, 1}, 0},
        {"setrlimit", {RLIMIT_CORE, 1}, EPERM},
        {"prlimit64", {0, RLIMIT_NOFILE, 1}, 0},
        {"prlimit64", {0, RLIMIT_CORE, 0, 1}, 0},
        {"prlimit64", {RLIMIT_CORE, RLIMIT_AS, 1}, 0},
        {"prlimit64", {0, RLIMIT_CORE, 1}, EPERM},
        {"prlimit64", {0, RLIMIT_CORE | HIGH, 1}, EPERM},
        {"prlimit64", {0, RLIMIT_CORE, HIGH}, EPERM},
        {"prctl", {PR_SET_NAME}, 0},
        {"prctl", {PR_SET_SECCOMP, 2}, EPERM},
        {"prctl", {PR_SET_SECCOMP | HIGH, 2}, EPERM},
        {"personality", {0}, 0},
        {"personality", {0xffffffffu}, 0},
        {"personality", {UINT64_MAX}, 0},
        {"personality", {0x0040000}, EPERM},
        {"personality", {0x0008}, EPERM},
    };
    size_t a, i, len;

    (void)state;
    for (a = 0; a < N(archs); a++) {
        len = local_seccomp_build(archs[a], false, code, N(code));
        for (i = 0; i < N(cases); i++) {
            int nr = number_of(find_row(cases[i].name), archs[a]);
            uint32_t got;
            uint32_t want = SECCOMP_RET_ALLOW;

            if (nr == LOCAL_SECCOMP_NONE)
                continue;
            if (cases[i].expect_error != 0)
                want = SECCOMP_RET_ERRNO | (uint32_t)cases[i].expect_error;
            got = evaluate(len, archs[a], nr, cases[i].args);
            if (got != want)
                fail_msg("row %zu (%s) on arch %zu: %#x", i, cases[i].name, a,
                         got);
        }
    }
}

/* Where there are no namespaces. Names are a second writing here as well; calls
   that are looked at more closely are in the table below. */
static void
test_shared_refuses_what_the_policy_names(void **state)
{
    static const char NAMES[] =
        " connect bind chmod fchmod fchmodat fchmodat2 chown lchown fchown "
        "fchownat utime utimes futimesat utimensat "
        "removexattr lremovexattr fremovexattr "
        "ioprio_set shmctl semctl semop semtimedop msgctl msgsnd msgrcv "
        "mq_unlink ";
    size_t n_rows, n_always = 0, n_blanks = 0;
    const struct local_seccomp_row *rows = local_seccomp_shared_table(&n_rows);

    (void)state;
    for (size_t a = 0; a < N(archs); a++) {
        size_t len = local_seccomp_build(archs[a], true, code, N(code));

        assert_in_range(len, 250, LOCAL_SECCOMP_MAX);
        assert_true(bpf_eval_valid(code, len));
        for (size_t i = 0; i < n_rows; i++) {
            int nr = number_of(&rows[i], archs[a]);
            char name[64];

            if (rows[i].check != LOCAL_SECCOMP_ALWAYS)
                continue;
            n_always++;
            snprintf(name, sizeof(name), " %s ", rows[i].name);
            if (strstr(NAMES, name) == NULL)
                fail_msg("%s", rows[i].name);
            if (nr != LOCAL_SECCOMP_NONE)
                assert_int_equal(evaluate(len, archs[a], nr, NULL),
                                 SECCOMP_RET_ERRNO | EPERM);
        }
    }
    for (const char *p = NAMES; *p != '\0'; p++)
        n_blanks += *p == ' ';
    assert_int_equal(n_always, N(archs) * (n_blanks - 1));
}

static void
test_shared_looks_at_arguments(void **state)
{
    static const struct {
        const char *name;
        int x86_64;
        int aarch64;
        uint64_t args[6];
        int expect_error; /* 0: allowed */
    } cases[] = {
        {"socket", 41, 198, {AF_UNIX, SOCK_STREAM}, EPERM},
        {"socket", 41, 198, {AF_UNIX | HIGH, SOCK_DGRAM}, EPERM},
        {"socket", 41, 198, {AF_INET, SOCK_STREAM}, EAFNOSUPPORT},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_STREAM}, 0},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_SEQPACKET | HIGH}, 0},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, 0},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_DGRAM}, EPERM},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_RAW | SOCK_NONBLOCK}, EPERM},
        {"socketpair", 53, 199, {AF_UNIX, SOCK_RDM}, EPERM},
        {"socketpair", 53, 199, {AF_UNIX, 0}, EPERM},
        {"socketpair", 53, 199, {AF_UNIX, 9}, EPERM},
        {"socketpair", 53, 199, {AF_INET, SOCK_STREAM}, EAFNOSUPPORT},
        {"ioctl", 16, 29, {3, 0x40086602}, EPERM}, /* FS_IOC_SETFLAGS */
        {"ioctl", 16, 29, {3, 0x40086602 | HIGH}, EPERM},
        {"ioctl", 16, 29, {3, 0x401c5820}, EPERM}, /* FS_IOC_FSSETXATTR */
        {"ioctl", 16, 29, {3, 0x40087602}, EPERM}, /* FS_IOC_SETVERSION */
        {"ioctl", 16, 29, {3, 0x40806685}, EPERM}, /* FS_IOC_ENABLE_VERITY */
        {"ioctl", 16, 29, {3, 0x80086601}, 0},     /* FS_IOC_GETFLAGS */
        {"ioctl", 16, 29, {0, TIOCSTI}, EPERM},
        {"ioctl", 16, 29, {0, FIONREAD}, 0},
        {"prlimit64", 302, 261, {0, RLIMIT_NOFILE, 1}, 0},
        {"prlimit64", 302, 261, {HIGH, RLIMIT_NOFILE, 1}, 0},
        {"prlimit64", 302, 261, {1, RLIMIT_NOFILE}, EPERM},
        {"prlimit64", 302, 261, {0, RLIMIT_CORE, 1}, EPERM},
        {"setpriority", 141, 140, {0, 0, 5}, 0},
        {"setpriority", 141, 140, {0, 7, 5}, EPERM},
        {"setpriority", 141, 140, {1, 0, 5}, EPERM},
        {"setpriority", 141, 140, {2, 0, 5}, EPERM},
        {"sched_setparam", 142, 118, {0}, 0},
        {"sched_setparam", 142, 118, {9}, EPERM},
        {"sched_setscheduler", 144, 119, {0}, 0},
        {"sched_setscheduler", 144, 119, {9}, EPERM},
        {"sched_setaffinity", 203, 122, {0}, 0},
        {"sched_setaffinity", 203, 122, {9}, EPERM},
        {"sched_setattr", 314, 274, {0}, 0},
        {"sched_setattr", 314, 274, {9}, EPERM},
        {"unshare", 272, 97, {0}, EPERM},
        {"read", 0, 63, {0}, 0},
    };

    (void)state;
    for (size_t a = 0; a < N(archs); a++) {
        size_t len = local_seccomp_build(archs[a], true, code, N(code));
        bool is_x86 = archs[a] == AUDIT_ARCH_X86_64;

        for (size_t i = 0; i < N(cases); i++) {
            int nr = is_x86 ? cases[i].x86_64 : cases[i].aarch64;
            uint32_t want = SECCOMP_RET_ALLOW;
            uint32_t got = evaluate(len, archs[a], nr, cases[i].args);

            if (cases[i].expect_error != 0)
                want = SECCOMP_RET_ERRNO | (uint32_t)cases[i].expect_error;
            if (got != want)
                fail_msg("row %zu (%s) on arch %zu: %#x", i, cases[i].name, a,
                         got);
        }
    }
}

#if defined(__x86_64__) && defined(__LP64__)
static void
test_shared_table_numbers(void **state)
{
    static const struct {
        const char *name;
        int number;
    } cases[] = {
#define CALL(n) {#n, SYS_##n}
        CALL(socket),
        CALL(socketpair),
        CALL(connect),
        CALL(bind),
        CALL(chmod),
        CALL(fchmod),
        CALL(fchmodat),
        CALL(chown),
        CALL(lchown),
        CALL(fchown),
        CALL(fchownat),
        CALL(utime),
        CALL(utimes),
        CALL(futimesat),
        CALL(utimensat),
        CALL(fremovexattr),
        CALL(ioctl),
        CALL(removexattr),
        CALL(lremovexattr),
        CALL(prlimit64),
        CALL(setpriority),
        CALL(ioprio_set),
        CALL(sched_setparam),
        CALL(sched_setscheduler),
        CALL(sched_setaffinity),
        CALL(sched_setattr),
        CALL(shmctl),
        CALL(semctl),
        CALL(semop),
        CALL(semtimedop),
        CALL(msgctl),
        CALL(msgsnd),
        CALL(msgrcv),
        CALL(mq_unlink),
#undef CALL
    };
    size_t n_rows;
    const struct local_seccomp_row *rows = local_seccomp_shared_table(&n_rows);

    (void)state;
    for (size_t i = 0; i < n_rows; i++) {
        bool found = strcmp(rows[i].name, "fchmodat2") == 0;

        for (size_t j = 0; j < N(cases); j++)
            if (strcmp(rows[i].name, cases[j].name) == 0) {
                found = true;
                assert_int_equal(rows[i].x86_64, cases[j].number);
            }
        if (!found)
            fail_msg("%s", rows[i].name);
    }
}
#endif

static void
test_build_refuses_other_numbers(void **state)
{
    size_t len;

    (void)state;
    len = local_seccomp_build(AUDIT_ARCH_X86_64, false, code, N(code));
    /* 32-bit calls: number 1 is exit there. */
    assert_int_equal(evaluate(len, AUDIT_ARCH_I386, 1, NULL),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_AARCH64, 1, NULL),
                     SECCOMP_RET_KILL_PROCESS);
    /* x32 write, and the x32 numbers without the bit. */
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 0x40000001, NULL),
                     SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 520, NULL),
                     SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 463, NULL),
                     SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, -1, NULL),
                     SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 462, NULL),
                     SECCOMP_RET_ALLOW);
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 0, NULL),
                     SECCOMP_RET_ALLOW);
    len = local_seccomp_build(AUDIT_ARCH_AARCH64, false, code, N(code));
    assert_int_equal(evaluate(len, AUDIT_ARCH_X86_64, 1, NULL),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_ARM, 1, NULL),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_AARCH64, 463, NULL),
                     SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(evaluate(len, AUDIT_ARCH_AARCH64, 64, NULL),
                     SECCOMP_RET_ALLOW);
}

#if defined(__x86_64__) && defined(__LP64__)
/* The numbers of the table against the headers of this system. */
static void
test_table_numbers(void **state)
{
    static const struct {
        const char *name;
        int number;
    } cases[] = {
#define CALL(n) {#n, SYS_##n}
        CALL(unshare),
        CALL(setns),
        CALL(clone),
        CALL(clone3),
        CALL(mount),
        CALL(umount2),
        CALL(pivot_root),
        CALL(chroot),
        CALL(ptrace),
        CALL(process_vm_readv),
        CALL(kcmp),
        CALL(bpf),
        CALL(perf_event_open),
        CALL(init_module),
        CALL(kexec_load),
        CALL(reboot),
        CALL(add_key),
        CALL(keyctl),
        CALL(io_uring_setup),
        CALL(io_setup),
        CALL(io_submit),
        CALL(userfaultfd),
        CALL(vmsplice),
        CALL(open_by_handle_at),
        CALL(fanotify_init),
        CALL(inotify_init),
        CALL(socket),
        CALL(socketpair),
        CALL(ioctl),
        CALL(chmod),
        CALL(fchmod),
        CALL(fchmodat),
        CALL(open),
        CALL(openat),
        CALL(creat),
        CALL(mknod),
        CALL(mknodat),
        CALL(shmget),
        CALL(msgget),
        CALL(semget),
        CALL(mq_open),
        CALL(memfd_create),
        CALL(timer_create),
        CALL(fallocate),
        CALL(fcntl),
        CALL(setxattr),
        CALL(lsetxattr),
        CALL(fsetxattr),
        CALL(setrlimit),
        CALL(prlimit64),
        CALL(seccomp),
        CALL(prctl),
        CALL(personality),
        CALL(modify_ldt),
        CALL(mbind),
        CALL(syslog),
        CALL(swapon),
        CALL(adjtimex),
        CALL(sethostname),
        CALL(vhangup),
#undef CALL
    };
    size_t i;

    (void)state;
    for (i = 0; i < N(cases); i++)
        assert_int_equal(find_row(cases[i].name)->x86_64, cases[i].number);
}
#endif

static int
install_filter(void)
{
    size_t len =
        local_seccomp_build(local_seccomp_native_arch(), false, code, N(code));
    struct sock_fprog prog = {.len = (unsigned short)len, .filter = code};

    if (len == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

/* Returns the exit status of fn under the filter; a signal gives 128 + n. */
static int
run_filtered(int (*fn)(void *ctx), void *ctx)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(install_filter() < 0 ? 126 : fn(ctx));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

/* Gives a small number that tells which expectation failed. */
static int
try_calls(void *ctx)
{
    const char *path = ctx;
    int fd;
    struct rlimit limit;

    if (socket(AF_INET, SOCK_STREAM, 0) != -1 || errno != EAFNOSUPPORT)
        return 1;
    if (socket(40, SOCK_STREAM, 0) != -1 || errno != EAFNOSUPPORT)
        return 2;
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return 3;
    if (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != EPERM)
        return 4;
    if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
        return 5;
    if (syscall(SYS_memfd_create, "x", 0) != -1 || errno != ENOSYS)
        return 6;
    if (chmod(path, 04755) != -1 || errno != EPERM)
        return 7;
    if (chmod(path, 0700) != 0)
        return 8;
    if (syscall(SYS_ioctl, fd, TIOCSTI | HIGH, "x") != -1 || errno != EPERM)
        return 9;
    if (syscall(SYS_ioctl, fd, FIONREAD | HIGH, &fd) != 0)
        return 10;
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) != -1 ||
        errno != EPERM)
        return 11;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return 12;
    if (setrlimit(RLIMIT_CORE, &limit) != -1 || errno != EPERM)
        return 13;
    if (prctl(PR_SET_SECCOMP, 1, 0, 0, 0) != -1 || errno != EPERM)
        return 14;
    if (syscall(SYS_io_uring_setup, 1, NULL) != -1 || errno != ENOSYS)
        return 15;
    if (syscall(5000) != -1 || errno != ENOSYS)
        return 16;
    if (creat(path, 06755) != -1 || errno != EPERM)
        return 17;
    return 0;
}

static void
test_filter_works_when_installed(void **state)
{
    char path[] = "/tmp/test_local_seccomp.XXXXXX";
    int fd;

    (void)state;
    if (local_seccomp_native_arch() == 0) {
        print_message("no filter for this architecture\n");
        return;
    }
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(run_filtered(try_calls, path), 0);
    close(fd);
    unlink(path);
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
static int
call_32bit(void *ctx)
{
    long ret;

    (void)ctx;
    /* getpid by the 32-bit entry */
    __asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory");
    return ret > 0 ? 1 : 2;
}

static void
test_filter_kills_32bit_calls(void **state)
{
    (void)state;
    assert_int_equal(run_filtered(call_32bit, NULL), 128 + SIGSYS);
}
#endif

/* The same file is the script and the module that pool workers import. */
static const char python_script[] =
    "import multiprocessing as mp, subprocess, sys, io, os, tempfile\n"
    "def square(x):\n"
    "    return x * x\n"
    "def main():\n"
    "    import numpy as np, pandas as pd, matplotlib\n"
    "    matplotlib.use('Agg')\n"
    "    import matplotlib.pyplot as plt\n"
    "    d = pd.DataFrame({'a': range(1000)})\n"
    "    assert d.a.sum() == 499500\n"
    "    np.linalg.inv(np.eye(300) * 2)\n"
    "    b = io.BytesIO()\n"
    "    plt.plot([1, 2, 3])\n"
    "    plt.savefig(b, format='png')\n"
    "    assert b.getvalue()[1:4] == b'PNG'\n"
    "    with mp.Pool(2) as p:\n"
    "        assert p.map(square, range(9)) == [x * x for x in range(9)]\n"
    "    from multiprocessing import shared_memory\n"
    "    s = shared_memory.SharedMemory(create=True, size=100)\n"
    "    s.close(); s.unlink()\n"
    "    import asyncio\n"
    "    async def go():\n"
    "        p = await asyncio.create_subprocess_exec('/bin/true')\n"
    "        assert await p.wait() == 0\n"
    "    asyncio.run(go())\n"
    "    assert subprocess.run(['/bin/echo', 'x'],\n"
    "                          capture_output=True).stdout == b'x\\n'\n"
    "    m = np.memmap(tempfile.TemporaryFile(), shape=100, dtype='u1')\n"
    "    m[3] = 1\n"
    "if __name__ == '__main__':\n"
    "    main()\n";

static int
exec_python(void *ctx)
{
    char name[] = "python3";
    char path_env[] = "PATH=/usr/bin:/bin";
    char mpl_env[] = "MPLCONFIGDIR=/tmp";
    char *argv[] = {name, ctx, NULL};
    char *envp[] = {path_env, mpl_env, NULL};

    execve("/usr/bin/python3", argv, envp);
    return 127;
}

static int
probe_python(void)
{
    char name[] = "python3";
    char option[] = "-c";
    char script[] =
        "import importlib.util as u, sys\n"
        "sys.exit(not (u.find_spec('pandas') and u.find_spec('matplotlib')))";
    char *argv[] = {name, option, script, NULL};
    char *envp[] = {NULL};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        execve("/usr/bin/python3", argv, envp);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Multiprocessing needs a script that is a file. */
static int
run_python(const char *script)
{
    char path[] = "/tmp/test_local_seccomp.XXXXXX.py";
    int fd = mkstemps(path, 3);
    int status;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, strlen(script)), strlen(script));
    status = run_filtered(exec_python, path);
    close(fd);
    unlink(path);
    return status;
}

static void
test_filter_lets_python_work(void **state)
{
    (void)state;
    if (local_seccomp_native_arch() == 0 || probe_python() != 0) {
        print_message("no /usr/bin/python3 with pandas and matplotlib\n");
        return;
    }
    assert_int_equal(run_python(python_script), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_fits_and_is_valid),
        cmocka_unit_test(test_build_refuses_what_the_policy_names),
        cmocka_unit_test(test_build_looks_at_arguments),
        cmocka_unit_test(test_shared_refuses_what_the_policy_names),
        cmocka_unit_test(test_shared_looks_at_arguments),
#if defined(__x86_64__) && defined(__LP64__)
        cmocka_unit_test(test_shared_table_numbers),
#endif
        cmocka_unit_test(test_build_refuses_other_numbers),
#if defined(__x86_64__) && defined(__LP64__)
        cmocka_unit_test(test_table_numbers),
#endif
        cmocka_unit_test(test_filter_works_when_installed),
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_filter_kills_32bit_calls),
#endif
        cmocka_unit_test(test_filter_lets_python_work),
    };

    return cmocka_run_group_tests_name("local_seccomp", tests, NULL, NULL);
}
