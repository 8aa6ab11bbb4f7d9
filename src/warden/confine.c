/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "warden/warden_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "warden/orders.h"

/*
 * The interface of Landlock as landlock(7) has it, since headers older than
 * version 6 lack a part of it. The numbers are the same on all architectures.
 */
#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE 445
#define CALL_RESTRICT_SELF 446
#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_MAKE_CHAR (UINT64_C(1) << 6)
#define FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_IOCTL_DEV (UINT64_C(1) << 15)
#define FS_ALL ((UINT64_C(1) << 16) - 1)
#define NET_ALL UINT64_C(3)   /* to bind and to connect TCP */
#define SCOPE_ALL UINT64_C(3) /* abstract unix sockets, signals */

#define FS_OF_A_FILE                                                           \
    (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define FS_READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define FS_DEVICE (FS_READ_FILE | FS_WRITE_FILE)
#define FS_WRITE (FS_ALL & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV))

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

#define MAX_STATUS_BYTES 4096
#define LAST_CAPABILITY 63

/* --- how many processes --- */

/* The number behind a name at the start of a line; -1: not there. */
static long
find_number(const char *text, const char *name)
{
    const char *line = strstr(text, name);

    return line != NULL ? strtol(line + strlen(name), NULL, 10) : -1;
}

static long
threads_of(const char *pid, uid_t uid)
{
    char path[64];
    char text[MAX_STATUS_BYTES];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    if (find_number(text, "\nUid:") != (long)uid)
        return 0;
    n = find_number(text, "\nThreads:");
    return n > 0 ? (long)n : 0;
}

/*
 * Without a user namespace of the sandbox's own the limit counts whatever the
 * user has running, so it is set above that. What is started later takes from
 * it, and what ends gives.
 */
static void
limit_processes(long wanted)
{
    struct rlimit limit;
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    rlim_t n = (rlim_t)wanted;

    if (dir == NULL || getrlimit(RLIMIT_NPROC, &limit) != 0)
        warden_fail("number of processes");
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (isdigit((unsigned char)entry->d_name[0]) &&
            strtol(entry->d_name, NULL, 10) != (long)getpid())
            n += (rlim_t)threads_of(entry->d_name, getuid());
    closedir(dir);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < n)
        n = limit.rlim_max;
    limit = (struct rlimit){n, n};
    if (setrlimit(RLIMIT_NPROC, &limit) != 0)
        warden_fail("number of processes");
}

/* The first to go when memory is short. Where that is refused nothing is lost
   that isolation rests on. */
static void
offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
}

/* --- rights --- */

/* Root of a user namespace has some, though none over the system. */
static void
drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version =
                                                _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};

    for (int i = 0; i <= LAST_CAPABILITY; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) != 0)
        warden_fail("giving up capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        warden_fail("no new privileges");
}

static uint64_t
rights_of(const char *kind)
{
    if (strcmp(kind, WARDEN_WRITE) == 0)
        return FS_WRITE;
    return strcmp(kind, WARDEN_DEVICE) == 0 ? FS_DEVICE : FS_READ;
}

static void
add_rule(int ruleset, const struct warden_rule *rule)
{
    struct path_beneath_attr attr = {.allowed_access = rights_of(rule->kind)};
    struct stat st;
    int fd = open(rule->path, O_PATH | O_CLOEXEC);

    if (fd < 0 && strcmp(rule->kind, WARDEN_WRITE) != 0)
        return;
    if (fd < 0 || fstat(fd, &st) != 0)
        warden_fail(rule->path);
    if (!S_ISDIR(st.st_mode))
        attr.allowed_access &= FS_OF_A_FILE;
    attr.parent_fd = fd;
    if (syscall(CALL_ADD_RULE, ruleset, RULE_PATH_BENEATH, &attr, 0u) != 0)
        warden_fail(rule->path);
    close(fd);
}

static void
restrict_access(const struct warden_orders *orders)
{
    const struct ruleset_attr attr = {FS_ALL, NET_ALL, SCOPE_ALL};
    int fd;

    if (syscall(CALL_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION) <
        WARDEN_LANDLOCK_ABI)
        warden_refuse("Landlock is missing or too old");
    fd = (int)syscall(CALL_CREATE_RULESET, &attr, sizeof(attr), 0u);
    if (fd < 0)
        warden_fail("Landlock");
    for (size_t i = 0; i < orders->n_rules; i++)
        add_rule(fd, &orders->rules[i]);
    if (syscall(CALL_RESTRICT_SELF, fd, 0u) != 0)
        warden_fail("Landlock");
    close(fd);
}

/* The filter is read before the descriptors are closed and loaded after. */
static void
load_filter(struct sock_fprog *prog)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, prog, 0, 0) != 0)
        warden_fail("system call filter");
}

static void
read_filter(struct sock_fprog *prog)
{
    static struct sock_filter code[BPF_MAXINSNS];
    ssize_t n = pread(WARDEN_FD_FILTER, code, sizeof(code), 0);

    if (n < 0)
        warden_fail("system call filter");
    if (n == 0 || (size_t)n % sizeof(code[0]) != 0)
        warden_refuse("system call filter: cannot be read whole");
    prog->filter = code;
    prog->len = (unsigned short)((size_t)n / sizeof(code[0]));
}

static void
close_others(void)
{
    if (syscall(SYS_close_range, WARDEN_FD_LIFE, WARDEN_FD_KERNEL - 1, 0u) !=
            0 ||
        syscall(SYS_close_range, WARDEN_FD_KERNEL + 1, ~0u, 0u) != 0)
        warden_fail("closing descriptors");
}

void
warden_confine(const struct warden_orders *orders)
{
    struct sock_fprog prog;

    read_filter(&prog);
    if (orders->processes > 0)
        limit_processes(orders->processes);
    offer_to_oom_killer();
    if (chdir(orders->directory) != 0)
        warden_fail(orders->directory);
    drop_capabilities();
    restrict_access(orders);
    close_others();
    load_filter(&prog);
}
