/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The system call filter of the local sandbox: what model-written code and the
 * interpreter that runs it may ask of the operating system. It only builds the
 * program; loading it is left to bubblewrap or the warden.
 */
#ifndef SANDBOX_LOCAL_SECCOMP_INTERNAL_H
#define SANDBOX_LOCAL_SECCOMP_INTERNAL_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOCAL_SECCOMP_MAX = 640 };

/* What a row of the table refuses. */
enum local_seccomp_check {
    LOCAL_SECCOMP_ALWAYS,         /* every call */
    LOCAL_SECCOMP_NAMESPACES,     /* clone flags that make a namespace */
    LOCAL_SECCOMP_FAMILY,         /* socket families but AF_UNIX */
    LOCAL_SECCOMP_IOCTL,          /* of terminals, and fallocate by ioctl */
    LOCAL_SECCOMP_FCNTL,          /* F_SETSIG */
    LOCAL_SECCOMP_MODE,           /* a mode with set-uid or set-gid */
    LOCAL_SECCOMP_OPEN_MODE,      /* the same, where flags say a file is made */
    LOCAL_SECCOMP_CORE_LIMIT,     /* RLIMIT_CORE */
    LOCAL_SECCOMP_NEW_CORE_LIMIT, /* the same, if there is a new value */
    LOCAL_SECCOMP_PRCTL,          /* PR_SET_SECCOMP */
    LOCAL_SECCOMP_PERSONALITY,    /* all but 0 and the query */
    LOCAL_SECCOMP_UNIX,           /* the family AF_UNIX */
    LOCAL_SECCOMP_NOT_STREAM,     /* all types of sockets but connected ones */
    LOCAL_SECCOMP_OTHER,          /* a process, or whatever, that is not 0 */
    LOCAL_SECCOMP_ATTRIBUTES,     /* ioctl that changes those of a file */
};

/* The number of a call that an architecture does not have. */
enum { LOCAL_SECCOMP_NONE = -1 };

struct local_seccomp_row {
    const char *name;
    int16_t x86_64;
    int16_t aarch64;
    uint8_t check; /* enum local_seccomp_check */
    uint8_t arg;   /* index of the argument that is looked at */
    uint8_t error; /* errno of a refused call */
};

/* Returns the table, and its number of rows in n_rows. */
const struct local_seccomp_row *local_seccomp_table(size_t *n_rows);

/* The same for what is refused besides where the sandbox has no namespaces. Its
   rows come first, and a call that one of them lets pass goes to the others. */
const struct local_seccomp_row *local_seccomp_shared_table(size_t *n_rows);

/* Returns whether a filter can be built for an AUDIT_ARCH_* value. */
bool local_seccomp_supports(uint32_t audit_arch);

/* Returns the AUDIT_ARCH_* value of this build; 0 if it is not supported. */
uint32_t local_seccomp_native_arch(void);

/*
 * Writes the filter for an AUDIT_ARCH_* value to out, which has room for max
 * instructions; LOCAL_SECCOMP_MAX is enough. is_shared: for a sandbox without
 * namespaces, where processes, files and IPC are those of the system. Returns
 * the number of instructions, or 0 when the architecture is not supported or
 * out is too small.
 */
size_t local_seccomp_build(uint32_t audit_arch, bool is_shared,
                           struct sock_filter *out, size_t max);

#endif
