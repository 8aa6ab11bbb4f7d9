/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What kind of system this is, as far as advice depends on it: which
 * distribution, whether it is in a container or a chroot, and the switches by
 * which it allows or forbids user namespaces.
 */
#ifndef SANDBOX_LOCAL_SYSTEM_INTERNAL_H
#define SANDBOX_LOCAL_SYSTEM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum local_distro {
    LOCAL_DISTRO_OTHER,
    LOCAL_DISTRO_DEBIAN,
    LOCAL_DISTRO_UBUNTU,
    LOCAL_DISTRO_FEDORA,
    LOCAL_DISTRO_RHEL,
    LOCAL_DISTRO_SUSE,
    LOCAL_DISTRO_ARCH,
    LOCAL_DISTRO_ALPINE
};

enum local_container {
    LOCAL_CONTAINER_NONE,
    LOCAL_CONTAINER_DOCKER,
    LOCAL_CONTAINER_PODMAN,
    LOCAL_CONTAINER_LXC,
    LOCAL_CONTAINER_KUBERNETES,
    LOCAL_CONTAINER_OTHER
};

#define LOCAL_SYSTEM_NAME_BYTES 80

struct local_system {
    enum local_distro distro;
    int version; /* 100 * major + minor, 2404 for 24.04; 0: not known */
    char name[LOCAL_SYSTEM_NAME_BYTES]; /* valid UTF-8, untrusted; may be "" */
    enum local_container container;
    bool is_chroot;
    bool is_root; /* commands need no sudo */
    bool is_wsl1;

    /* Switches of the kernel; -1: it has no such. */
    int64_t max_userns;         /* user.max_user_namespaces */
    int64_t userns_clone;       /* kernel.unprivileged_userns_clone */
    int64_t apparmor_restricts; /* kernel.apparmor_restrict_... */

    bool has_bwrap_profile; /* AppArmor's for bubblewrap is in its place */
};

/*
 * Sets distro, version and name by the text of os-release; what it does not say
 * stays OTHER, 0 and "". Any bytes are accepted. A pure function.
 */
void local_system_parse_release(const char *text, size_t len,
                                struct local_system *system);

/*
 * By the text of /proc/self/mountinfo: whether nothing is mounted at "/", as
 * within a chroot. Pure, like the next.
 */
bool local_system_mounts_say_chroot(const char *mounts);

/* The first mount that covers a part of /proc, which the kernel then lets
   nobody mount anew. The caller owns it; NULL: none. */
char *local_system_find_mask(const char *mounts);

/* Reads everything. What cannot be read is not known. */
void local_system_read(struct local_system *system);

/* The text of /proc/self/mountinfo; owned by the caller; "" when it cannot be
   read. */
char *local_system_read_mounts(void);

#endif
