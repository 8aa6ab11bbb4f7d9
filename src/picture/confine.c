/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/bpf.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ||     \
    __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

/* All of them are little-endian: the low half of an argument comes first. */
#if defined(__x86_64__) && defined(__LP64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE_ARCH AUDIT_ARCH_RISCV64
#endif

#define ADDRESS_SPACE_BYTES ((rlim_t)256 * 1024 * 1024)
#define CPU_SECONDS 5

static int
set_limits(void)
{
    static const struct {
        int resource;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0},
        {RLIMIT_CPU, CPU_SECONDS},
        {RLIMIT_NOFILE, 3},
        {RLIMIT_NPROC, 0},
        /* Pipes are not counted, so the output still passes. */
        {RLIMIT_FSIZE, 0},
#if !UNDER_SANITIZER
        {RLIMIT_AS, ADDRESS_SPACE_BYTES},
#endif
    };
    size_t i;

    for (i = 0; i < LEN(limits); i++) {
        struct rlimit r = {limits[i].value, limits[i].value};

        if (setrlimit(limits[i].resource, &r) < 0)
            return -1;
    }
    return 0;
}

#if !UNDER_SANITIZER && defined(NATIVE_ARCH)

enum { MAX_INSNS = 64 };

/* What a call must satisfy; BPF_BUILD_NEXT stands for no condition. */
enum condition { ANY, IS_FD, NOT_EXEC };

static const struct {
    long number;
    enum condition condition;
    unsigned fd;
} allowed[] = {
    {SYS_read, IS_FD, 0},
    {SYS_write, IS_FD, 1},
    {SYS_brk, ANY, 0},
    {SYS_mmap, NOT_EXEC, 0},
    {SYS_munmap, ANY, 0},
    {SYS_mremap, ANY, 0},
    {SYS_exit_group, ANY, 0},
    {SYS_exit, ANY, 0},
    /* The first malloc of glibc asks for random bytes, its qsort of a large
       array for the size of memory. */
    {SYS_getrandom, ANY, 0},
    {SYS_sysinfo, ANY, 0},
};

static uint32_t
argument(unsigned i)
{
    return (uint32_t)(offsetof(struct seccomp_data, args) + 8 * i);
}

static size_t
build_filter(struct sock_filter *code)
{
    struct bpf_build b;
    unsigned refuse;
    unsigned allow;
    unsigned native;
    size_t i;

    bpf_build_init(&b, code, MAX_INSNS);
    refuse = bpf_build_label(&b);
    allow = bpf_build_label(&b);
    native = bpf_build_label(&b);
    bpf_build_load(&b, offsetof(struct seccomp_data, arch));
    bpf_build_jump(&b, BPF_BUILD_EQ, NATIVE_ARCH, native, refuse);
    bpf_build_bind(&b, native);
    bpf_build_load(&b, offsetof(struct seccomp_data, nr));
    for (i = 0; i < LEN(allowed); i++) {
        unsigned next = bpf_build_label(&b);

        bpf_build_jump(&b, BPF_BUILD_EQ, (uint32_t)allowed[i].number,
                       BPF_BUILD_NEXT, next);
        switch (allowed[i].condition) {
        case ANY:
            bpf_build_ret(&b, SECCOMP_RET_ALLOW);
            break;
        case IS_FD:
            bpf_build_load(&b, argument(0));
            bpf_build_jump(&b, BPF_BUILD_EQ, allowed[i].fd, allow, refuse);
            break;
        case NOT_EXEC:
            bpf_build_load(&b, argument(2));
            bpf_build_jump(&b, BPF_BUILD_BITS, PROT_EXEC, refuse, allow);
            break;
        }
        bpf_build_bind(&b, next);
    }
    bpf_build_bind(&b, refuse);
    bpf_build_ret(&b, SECCOMP_RET_KILL_PROCESS);
    bpf_build_bind(&b, allow);
    bpf_build_ret(&b, SECCOMP_RET_ALLOW);
    return bpf_build_finish(&b);
}

static int
load_filter(void)
{
    struct sock_filter code[MAX_INSNS];
    struct sock_fprog prog = {.filter = code};
    size_t len = build_filter(code);

    if (len == 0)
        return -1;
    prog.len = (unsigned short)len;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

#elif UNDER_SANITIZER

static int
load_filter(void)
{
    return 0;
}

#else

/* Without a filter there is no decoding. */
static int
load_filter(void)
{
    return -1;
}

#endif

int
picture_confine(void)
{
    if (set_limits() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return load_filter();
}
