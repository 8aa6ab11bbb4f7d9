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
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/bpf.h"

/*
 * The newest call that was looked at when the table was written: mseal. Calls
 * get the same number on all architectures since 424. What comes later does not
 * exist for the sandbox until somebody has looked at it.
 */
#define NEWEST_KNOWN 462

/* O_TMPFILE of the C library contains O_DIRECTORY, which is not the same bit on
   both architectures; this bit is. */
#define TMPFILE_BIT 020000000u

/* Without CLONE_NEWTIME: clone reads that bit as part of a signal number. */
#define NAMESPACE_FLAGS                                                        \
    ((uint32_t)CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |   \
     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

#define PERSONALITY_QUERY 0xffffffffu

/* FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE of the kernel. */
#define RESERVE_SPACE 0x40305828u
#define RESERVE_SPACE_64 0x4030582au
#define ZERO_RANGE 0x40305839u

/* FS_IOC_ENABLE_VERITY, in a header that is newer than some systems. */
#define ENABLE_VERITY 0x40806685u

/* SOCK_TYPE_MASK of the kernel. */
#define SOCKET_TYPE_BITS 0xfu

#define NONE LOCAL_SECCOMP_NONE
#define ALWAYS LOCAL_SECCOMP_ALWAYS

/*
 * Libraries probe: a refused call must look like one that an older or stricter
 * system lacks. ENOSYS where the C library or Python then goes another way,
 * EPERM elsewhere. Numbers: x86-64, aarch64.
 */
static const struct local_seccomp_row table[] = {
    /* New namespaces are where most local root exploits begin. */
    {"unshare", 272, 97, ALWAYS, 0, EPERM},
    {"setns", 308, 268, ALWAYS, 0, EPERM},
    {"clone", 56, 220, LOCAL_SECCOMP_NAMESPACES, 0, EPERM},

    /* Flags in memory cannot be looked at (CVE-2021-41133). */
    {"clone3", 435, 435, ALWAYS, 0, ENOSYS},

    /* The view of the file system, by the old and by the new interface. */
    {"mount", 165, 40, ALWAYS, 0, EPERM},
    {"umount2", 166, 39, ALWAYS, 0, EPERM},
    {"pivot_root", 155, 41, ALWAYS, 0, EPERM},
    {"chroot", 161, 51, ALWAYS, 0, EPERM},
    {"open_tree", 428, 428, ALWAYS, 0, ENOSYS},
    {"move_mount", 429, 429, ALWAYS, 0, ENOSYS},
    {"fsopen", 430, 430, ALWAYS, 0, ENOSYS},
    {"fsconfig", 431, 431, ALWAYS, 0, ENOSYS},
    {"fsmount", 432, 432, ALWAYS, 0, ENOSYS},
    {"fspick", 433, 433, ALWAYS, 0, ENOSYS},
    {"mount_setattr", 442, 442, ALWAYS, 0, ENOSYS},
    {"statmount", 457, 457, ALWAYS, 0, ENOSYS},
    {"listmount", 458, 458, ALWAYS, 0, ENOSYS},

    /* Other processes. */
    {"ptrace", 101, 117, ALWAYS, 0, EPERM},
    {"process_vm_readv", 310, 270, ALWAYS, 0, EPERM},
    {"process_vm_writev", 311, 271, ALWAYS, 0, EPERM},
    {"kcmp", 312, 272, ALWAYS, 0, EPERM},
    {"pidfd_getfd", 438, 438, ALWAYS, 0, EPERM},
    {"process_madvise", 440, 440, ALWAYS, 0, EPERM},
    {"process_mrelease", 448, 448, ALWAYS, 0, EPERM},

    /* Code in the kernel, and its control. */
    {"bpf", 321, 280, ALWAYS, 0, EPERM},
    {"perf_event_open", 298, 241, ALWAYS, 0, EPERM},
    {"init_module", 175, 105, ALWAYS, 0, EPERM},
    {"finit_module", 313, 273, ALWAYS, 0, EPERM},
    {"delete_module", 176, 106, ALWAYS, 0, EPERM},
    {"kexec_load", 246, 104, ALWAYS, 0, EPERM},
    {"kexec_file_load", 320, 294, ALWAYS, 0, EPERM},
    {"reboot", 169, 142, ALWAYS, 0, EPERM},

    /* Keyrings are shared across the namespaces that the sandbox has. */
    {"add_key", 248, 217, ALWAYS, 0, EPERM},
    {"request_key", 249, 218, ALWAYS, 0, EPERM},
    {"keyctl", 250, 219, ALWAYS, 0, EPERM},

    /* Large, and a way around the rule for sockets. */
    {"io_uring_setup", 425, 425, ALWAYS, 0, ENOSYS},
    {"io_uring_enter", 426, 426, ALWAYS, 0, ENOSYS},
    {"io_uring_register", 427, 427, ALWAYS, 0, ENOSYS},
    {"io_setup", 206, 0, ALWAYS, 0, ENOSYS},
    {"io_submit", 209, 2, ALWAYS, 0, ENOSYS},

    /* Building blocks of exploits. */
    {"userfaultfd", 323, 282, ALWAYS, 0, EPERM},
    {"vmsplice", 278, 75, ALWAYS, 0, EPERM},

    /* Files outside of the mount tree. */
    {"name_to_handle_at", 303, 264, ALWAYS, 0, EPERM},
    {"open_by_handle_at", 304, 265, ALWAYS, 0, EPERM},

    /* Quotas shared with the desktop of the user. */
    {"fanotify_init", 300, 262, ALWAYS, 0, EPERM},
    {"fanotify_mark", 301, 263, ALWAYS, 0, EPERM},
    {"inotify_init", 253, NONE, ALWAYS, 0, ENOSYS},
    {"inotify_init1", 294, 26, ALWAYS, 0, ENOSYS},

    /* Network namespaces do not cover every family (AF_VSOCK). */
    {"socket", 41, 198, LOCAL_SECCOMP_FAMILY, 0, EAFNOSUPPORT},
    {"socketpair", 53, 199, LOCAL_SECCOMP_FAMILY, 0, EAFNOSUPPORT},

    /* Terminal injection (CVE-2017-5226, CVE-2019-10063, CVE-2023-28100). */
    {"ioctl", 16, 29, LOCAL_SECCOMP_IOCTL, 1, EPERM},

    /* Set-uid files would also be there outside, where nosuid does not hold. */
    {"chmod", 90, NONE, LOCAL_SECCOMP_MODE, 1, EPERM},
    {"fchmod", 91, 52, LOCAL_SECCOMP_MODE, 1, EPERM},
    {"fchmodat", 268, 53, LOCAL_SECCOMP_MODE, 2, EPERM},
    {"fchmodat2", 452, 452, LOCAL_SECCOMP_MODE, 2, EPERM},
    {"open", 2, NONE, LOCAL_SECCOMP_OPEN_MODE, 1, EPERM},
    {"openat", 257, 56, LOCAL_SECCOMP_OPEN_MODE, 2, EPERM},
    {"creat", 85, NONE, LOCAL_SECCOMP_MODE, 1, EPERM},
    {"mknod", 133, NONE, LOCAL_SECCOMP_MODE, 1, EPERM},
    {"mknodat", 259, 33, LOCAL_SECCOMP_MODE, 2, EPERM},
    {"openat2", 437, 437, ALWAYS, 0, ENOSYS},

    /* Any number of GiB at once, past the limit of a file's size, and faster
       than anybody looks at the disk. The C library writes zeros instead. */
    {"fallocate", 285, 47, ALWAYS, 0, EOPNOTSUPP},

    /* Memory that no limit of a process counts. */
    {"shmget", 29, 194, ALWAYS, 0, ENOSYS},
    {"shmat", 30, 196, ALWAYS, 0, ENOSYS},
    {"msgget", 68, 186, ALWAYS, 0, ENOSYS},
    {"semget", 64, 190, ALWAYS, 0, ENOSYS},
    {"mq_open", 240, 180, ALWAYS, 0, ENOSYS},
    {"memfd_create", 319, 279, ALWAYS, 0, ENOSYS},
    {"memfd_secret", 447, 447, ALWAYS, 0, ENOSYS},
    /* Attributes of files in a tmpfs are outside of its size, too. */
    {"setxattr", 188, 5, ALWAYS, 0, EPERM},
    {"lsetxattr", 189, 6, ALWAYS, 0, EPERM},
    {"fsetxattr", 190, 7, ALWAYS, 0, EPERM},

    /* With another limit a crash would run the host's core handler as root. */
    {"setrlimit", 160, 164, LOCAL_SECCOMP_CORE_LIMIT, 0, EPERM},
    {"prlimit64", 302, 261, LOCAL_SECCOMP_NEW_CORE_LIMIT, 1, EPERM},

    /* SIGCONT from a timer, or for a descriptor that became ready, would let
       what is suspended go on. */
    {"timer_create", 222, 107, ALWAYS, 0, EPERM},
    {"fcntl", 72, 25, LOCAL_SECCOMP_FCNTL, 1, EPERM},

    /* A filter with a listener is surface without use. */
    {"seccomp", 317, 277, ALWAYS, 0, EPERM},
    {"prctl", 157, 167, LOCAL_SECCOMP_PRCTL, 0, EPERM},

    /* Rarely used, often broken. */
    {"personality", 135, 92, LOCAL_SECCOMP_PERSONALITY, 0, EPERM},
    {"modify_ldt", 154, NONE, ALWAYS, 0, EPERM},
    {"iopl", 172, NONE, ALWAYS, 0, EPERM},
    {"ioperm", 173, NONE, ALWAYS, 0, EPERM},
    {"uselib", 134, NONE, ALWAYS, 0, EPERM},
    {"remap_file_pages", 216, 234, ALWAYS, 0, EPERM},
    {"mbind", 237, 235, ALWAYS, 0, EPERM},
    {"set_mempolicy", 238, 237, ALWAYS, 0, EPERM},
    {"set_mempolicy_home_node", 450, 450, ALWAYS, 0, EPERM},
    {"move_pages", 279, 239, ALWAYS, 0, EPERM},
    {"migrate_pages", 256, 238, ALWAYS, 0, EPERM},

    /* The state of the host. */
    {"syslog", 103, 116, ALWAYS, 0, EPERM},
    {"acct", 163, 89, ALWAYS, 0, EPERM},
    {"quotactl", 179, 60, ALWAYS, 0, EPERM},
    {"quotactl_fd", 443, 443, ALWAYS, 0, EPERM},
    {"swapon", 167, 224, ALWAYS, 0, EPERM},
    {"swapoff", 168, 225, ALWAYS, 0, EPERM},
    {"settimeofday", 164, 170, ALWAYS, 0, EPERM},
    {"clock_settime", 227, 112, ALWAYS, 0, EPERM},
    {"adjtimex", 159, 171, ALWAYS, 0, EPERM},
    {"clock_adjtime", 305, 266, ALWAYS, 0, EPERM},
    {"sethostname", 170, 161, ALWAYS, 0, EPERM},
    {"setdomainname", 171, 162, ALWAYS, 0, EPERM},
    {"vhangup", 153, 58, ALWAYS, 0, EPERM},
    {"lookup_dcookie", 212, 18, ALWAYS, 0, ENOSYS},
    {"sysfs", 139, NONE, ALWAYS, 0, ENOSYS},
    {"ustat", 136, NONE, ALWAYS, 0, ENOSYS},
    {"nfsservctl", 180, 42, ALWAYS, 0, ENOSYS},
    {"_sysctl", 156, NONE, ALWAYS, 0, ENOSYS},
    {"create_module", 174, NONE, ALWAYS, 0, ENOSYS},
};

/*
 * Where there is no namespace between cells and the rest of the system.
 * Landlock covers files that are opened, made and removed, signals, and
 * abstract sockets; what it leaves open is closed here. Seen to be open without
 * it, as the user who runs the program:
 *
 *   - a socket of the desktop's session, which starts programs for whoever
 *     connects: so no socket is made but pairs, and of these none that could be
 *     sent to another address;
 *   - modes, owners, times and attributes of every file: so none is changed.
 *     Not by a descriptor either, since what may be opened for reading, as an
 *     interpreter below the home, can be the user's own;
 *   - limits and priorities of the user's other processes;
 *   - System V objects and message queues by number or name.
 */
static const struct local_seccomp_row shared_table[] = {
    {"socket", 41, 198, LOCAL_SECCOMP_UNIX, 0, EPERM},
    {"socketpair", 53, 199, LOCAL_SECCOMP_NOT_STREAM, 1, EPERM},
    {"connect", 42, 203, ALWAYS, 0, EPERM},
    {"bind", 49, 200, ALWAYS, 0, EPERM},

    {"chmod", 90, NONE, ALWAYS, 0, EPERM},
    {"fchmod", 91, 52, ALWAYS, 0, EPERM},
    {"fchmodat", 268, 53, ALWAYS, 0, EPERM},
    {"fchmodat2", 452, 452, ALWAYS, 0, EPERM},
    {"chown", 92, NONE, ALWAYS, 0, EPERM},
    {"lchown", 94, NONE, ALWAYS, 0, EPERM},
    {"fchown", 93, 55, ALWAYS, 0, EPERM},
    {"fchownat", 260, 54, ALWAYS, 0, EPERM},
    {"utime", 132, NONE, ALWAYS, 0, EPERM},
    {"utimes", 235, NONE, ALWAYS, 0, EPERM},
    {"futimesat", 261, NONE, ALWAYS, 0, EPERM},
    {"utimensat", 280, 88, ALWAYS, 0, EPERM},
    {"removexattr", 197, 14, ALWAYS, 0, EPERM},
    {"lremovexattr", 198, 15, ALWAYS, 0, EPERM},
    {"fremovexattr", 199, 16, ALWAYS, 0, EPERM},
    {"ioctl", 16, 29, LOCAL_SECCOMP_ATTRIBUTES, 1, EPERM},

    {"prlimit64", 302, 261, LOCAL_SECCOMP_OTHER, 0, EPERM},
    {"setpriority", 141, 140, LOCAL_SECCOMP_OTHER, 0, EPERM},
    {"setpriority", 141, 140, LOCAL_SECCOMP_OTHER, 1, EPERM},
    {"ioprio_set", 251, 30, ALWAYS, 0, EPERM},
    {"sched_setparam", 142, 118, LOCAL_SECCOMP_OTHER, 0, EPERM},
    {"sched_setscheduler", 144, 119, LOCAL_SECCOMP_OTHER, 0, EPERM},
    {"sched_setaffinity", 203, 122, LOCAL_SECCOMP_OTHER, 0, EPERM},
    {"sched_setattr", 314, 274, LOCAL_SECCOMP_OTHER, 0, EPERM},

    {"shmctl", 31, 195, ALWAYS, 0, EPERM},
    {"semctl", 66, 191, ALWAYS, 0, EPERM},
    {"semop", 65, 193, ALWAYS, 0, EPERM},
    {"semtimedop", 220, 192, ALWAYS, 0, EPERM},
    {"msgctl", 71, 187, ALWAYS, 0, EPERM},
    {"msgsnd", 69, 189, ALWAYS, 0, EPERM},
    {"msgrcv", 70, 188, ALWAYS, 0, EPERM},
    {"mq_unlink", 241, 181, ALWAYS, 0, EPERM},
};

/* Terminals, and fallocate by its older name. */
static const uint32_t refused_ioctls[] = {
    TIOCSTI, TIOCLINUX, TIOCSETD, RESERVE_SPACE, RESERVE_SPACE_64, ZERO_RANGE,
};

/* What the owner of a file may change by a descriptor for reading. */
static const uint32_t attribute_ioctls[] = {
    (uint32_t)FS_IOC_SETFLAGS,
    (uint32_t)FS_IOC_FSSETXATTR,
    (uint32_t)FS_IOC_SETVERSION,
    ENABLE_VERITY,
};

/* Both architectures are little-endian: the low half comes first. */
static uint32_t
offset_low(unsigned arg)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + 8 * arg);
}

static uint32_t
offset_high(unsigned arg)
{
    return offset_low(arg) + 4;
}

static uint32_t
deny(unsigned error)
{
    return SECCOMP_RET_ERRNO | error;
}

static void
add_numbers(struct bpf_build *b, const uint32_t *numbers, size_t n,
            unsigned refuse, unsigned allow)
{
    for (size_t i = 0; i < n; i++)
        bpf_build_jump(b, BPF_BUILD_EQ, numbers[i], refuse,
                       i + 1 < n ? BPF_BUILD_NEXT : allow);
}

/*
 * All arguments tested here are 32 bits or less for the kernel, which ignores
 * the high half; a comparison with all 64 bits could be passed by setting it.
 * What is not refused goes to the label allow.
 */
static void
add_check(struct bpf_build *b, const struct local_seccomp_row *row,
          unsigned allow)
{
    unsigned refuse = bpf_build_label(b);

    bpf_build_load(b, offset_low(row->arg));
    switch ((enum local_seccomp_check)row->check) {
    case LOCAL_SECCOMP_ALWAYS:
        break;
    case LOCAL_SECCOMP_NAMESPACES:
        bpf_build_jump(b, BPF_BUILD_BITS, NAMESPACE_FLAGS, refuse, allow);
        break;
    case LOCAL_SECCOMP_FAMILY:
        bpf_build_jump(b, BPF_BUILD_EQ, AF_UNIX, allow, refuse);
        break;
    case LOCAL_SECCOMP_IOCTL:
        add_numbers(b, refused_ioctls, LEN(refused_ioctls), refuse, allow);
        break;
    case LOCAL_SECCOMP_FCNTL:
        bpf_build_jump(b, BPF_BUILD_EQ, F_SETSIG, refuse, allow);
        break;
    case LOCAL_SECCOMP_OPEN_MODE:
        /* Without these flags the mode is whatever the register holds. */
        bpf_build_jump(b, BPF_BUILD_BITS, O_CREAT | TMPFILE_BIT, BPF_BUILD_NEXT,
                       allow);
        bpf_build_load(b, offset_low(row->arg + 1u));
        bpf_build_jump(b, BPF_BUILD_BITS, S_ISUID | S_ISGID, refuse, allow);
        break;
    case LOCAL_SECCOMP_MODE:
        bpf_build_jump(b, BPF_BUILD_BITS, S_ISUID | S_ISGID, refuse, allow);
        break;
    case LOCAL_SECCOMP_CORE_LIMIT:
        bpf_build_jump(b, BPF_BUILD_EQ, RLIMIT_CORE, refuse, allow);
        break;
    case LOCAL_SECCOMP_NEW_CORE_LIMIT:
        /* getrlimit of the C library is prlimit64 with a null pointer. */
        bpf_build_jump(b, BPF_BUILD_EQ, RLIMIT_CORE, BPF_BUILD_NEXT, allow);
        bpf_build_load(b, offset_low(row->arg + 1u));
        bpf_build_jump(b, BPF_BUILD_EQ, 0, BPF_BUILD_NEXT, refuse);
        bpf_build_load(b, offset_high(row->arg + 1u));
        bpf_build_jump(b, BPF_BUILD_EQ, 0, allow, refuse);
        break;
    case LOCAL_SECCOMP_PRCTL:
        bpf_build_jump(b, BPF_BUILD_EQ, PR_SET_SECCOMP, refuse, allow);
        break;
    case LOCAL_SECCOMP_PERSONALITY:
        bpf_build_jump(b, BPF_BUILD_EQ, 0, allow, BPF_BUILD_NEXT);
        bpf_build_jump(b, BPF_BUILD_EQ, PERSONALITY_QUERY, allow, refuse);
        break;
    case LOCAL_SECCOMP_UNIX:
        bpf_build_jump(b, BPF_BUILD_EQ, AF_UNIX, refuse, allow);
        break;
    case LOCAL_SECCOMP_NOT_STREAM:
        /* SOCK_RAW of a unix socket is SOCK_DGRAM. Flags are above the type. */
        bpf_build_jump(b, BPF_BUILD_BITS, SOCKET_TYPE_BITS & ~5u, refuse,
                       BPF_BUILD_NEXT);
        bpf_build_jump(b, BPF_BUILD_BITS, SOCK_STREAM, allow, refuse);
        break;
    case LOCAL_SECCOMP_OTHER:
        bpf_build_jump(b, BPF_BUILD_EQ, 0, allow, refuse);
        break;
    case LOCAL_SECCOMP_ATTRIBUTES:
        add_numbers(b, attribute_ioctls, LEN(attribute_ioctls), refuse, allow);
        break;
    }
    bpf_build_bind(b, refuse);
    bpf_build_ret(b, deny(row->error));
}

/* The number stays in the accumulator from row to row. goes_on: what this row
   does not refuse is looked at by the rows behind it. */
static void
add_row(struct bpf_build *b, const struct local_seccomp_row *row, bool is_x86,
        bool goes_on)
{
    int number = is_x86 ? row->x86_64 : row->aarch64;
    unsigned allow;
    unsigned next;

    if (number == NONE)
        return;
    next = bpf_build_label(b);
    bpf_build_jump(b, BPF_BUILD_EQ, (uint32_t)number, BPF_BUILD_NEXT, next);
    if (row->check == ALWAYS) {
        bpf_build_ret(b, deny(row->error));
    } else {
        allow = bpf_build_label(b);
        add_check(b, row, allow);
        bpf_build_bind(b, allow);
        if (goes_on)
            bpf_build_load(b, offsetof(struct seccomp_data, nr));
        else
            bpf_build_ret(b, SECCOMP_RET_ALLOW);
    }
    bpf_build_bind(b, next);
}

static void
add_prologue(struct bpf_build *b, uint32_t audit_arch)
{
    unsigned native = bpf_build_label(b);
    unsigned unknown = bpf_build_label(b);
    unsigned known = bpf_build_label(b);

    /* A call of another architecture (int 0x80) would use other numbers. */
    bpf_build_load(b, offsetof(struct seccomp_data, arch));
    bpf_build_jump(b, BPF_BUILD_EQ, audit_arch, native, BPF_BUILD_NEXT);
    bpf_build_ret(b, SECCOMP_RET_KILL_PROCESS);
    bpf_build_bind(b, native);
    /* x32 has the architecture of x86-64 and numbers from 0x40000000 on; the
       comparison is unsigned, so it refuses those as well. */
    bpf_build_load(b, offsetof(struct seccomp_data, nr));
    bpf_build_jump(b, BPF_BUILD_GT, NEWEST_KNOWN, unknown, known);
    bpf_build_bind(b, unknown);
    bpf_build_ret(b, deny(ENOSYS));
    bpf_build_bind(b, known);
}

const struct local_seccomp_row *
local_seccomp_table(size_t *n_rows)
{
    *n_rows = LEN(table);
    return table;
}

const struct local_seccomp_row *
local_seccomp_shared_table(size_t *n_rows)
{
    *n_rows = LEN(shared_table);
    return shared_table;
}

bool
local_seccomp_supports(uint32_t audit_arch)
{
    return audit_arch == AUDIT_ARCH_X86_64 || audit_arch == AUDIT_ARCH_AARCH64;
}

uint32_t
local_seccomp_native_arch(void)
{
#if defined(__x86_64__) && defined(__LP64__)
    return AUDIT_ARCH_X86_64;
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
    return AUDIT_ARCH_AARCH64;
#else
    return 0;
#endif
}

size_t
local_seccomp_build(uint32_t audit_arch, bool is_shared,
                    struct sock_filter *out, size_t max)
{
    struct bpf_build b;
    bool is_x86 = audit_arch == AUDIT_ARCH_X86_64;
    size_t i;

    if (!local_seccomp_supports(audit_arch))
        return 0;
    bpf_build_init(&b, out, max);
    add_prologue(&b, audit_arch);
    for (i = 0; is_shared && i < LEN(shared_table); i++)
        add_row(&b, &shared_table[i], is_x86, true);
    for (i = 0; i < LEN(table); i++)
        add_row(&b, &table[i], is_x86, false);
    bpf_build_ret(&b, SECCOMP_RET_ALLOW);
    return bpf_build_finish(&b);
}
