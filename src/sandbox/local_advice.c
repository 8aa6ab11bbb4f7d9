/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_advice_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "sandbox/local_system_internal.h"

#define PROFILE "bwrap-userns-restrict"
#define NO_PROC_OPTION "--isolation=full-without-proc"

/*
 * What bubblewrap says, from 0.4 to 0.12; the first row that fits counts. Rows
 * of "what it cannot do" stand behind those that say why.
 */
static const struct {
    const char *text;
    enum local_remedy remedy;
    enum local_cause cause;
} messages[] = {
    {"Can't mount proc", LOCAL_REMEDY_NO_PROC, LOCAL_CAUSE_NO_PROC},
    /* Kernels of RHEL 9 let nobody write it there. */
    {"cannot open /proc/sys/user/max_user_namespaces", LOCAL_REMEDY_NO_DISABLE,
     LOCAL_N_CAUSES},
    {"sysctl user.max_user_namespaces", LOCAL_REMEDY_NO_DISABLE,
     LOCAL_N_CAUSES},
    {"nknown option --disable-userns", LOCAL_REMEDY_NO_DISABLE, LOCAL_N_CAUSES},
    {"nknown option --assert-userns-disabled", LOCAL_REMEDY_NO_DISABLE,
     LOCAL_N_CAUSES},
    {"nknown option", LOCAL_REMEDY_NONE, LOCAL_CAUSE_OLD_BWRAP},
    {"old file caps config", LOCAL_REMEDY_NONE, LOCAL_CAUSE_FILE_CAPS},
    {"Failed RTM_NEWADDR", LOCAL_REMEDY_NONE, LOCAL_CAUSE_APPARMOR},
    {"Failed RTM_NEWLINK", LOCAL_REMEDY_NONE, LOCAL_CAUSE_APPARMOR},
    {"setting up uid map: Permission denied", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_APPARMOR},
    {"setting up uid map: Operation not permitted", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_DENIED},
    {"setting up gid map: Permission denied", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_APPARMOR},
    {"No permissions to creat", LOCAL_REMEDY_NONE, LOCAL_CAUSE_USERNS_DENIED},
    {"new namespace failed: Operation not permitted", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_DENIED},
    {"new namespace failed: Permission denied", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_DENIED},
    {"mount-max", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_USED_UP},
    {"namespaces exceeded", LOCAL_REMEDY_NONE, LOCAL_CAUSE_USERNS_USED_UP},
    {"new namespace failed: No space left", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_USED_UP},
    {"unshare user ns: No space left", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_USED_UP},
    {"does not support user namespaces", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_USERNS_MISSING},
    {"Resource temporarily unavailable", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_PROCESSES_USED_UP},
    /* Python's own, when the limit leaves room for bubblewrap alone. */
    {"can't start new thread", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_PROCESSES_USED_UP},
    {"Too many open files", LOCAL_REMEDY_NONE, LOCAL_CAUSE_FILES_USED_UP},
    /* Of proc_start, where the limit is below the numbers that it needs. */
    {"moving descriptors: Invalid argument", LOCAL_REMEDY_NONE,
     LOCAL_CAUSE_FILES_USED_UP},
    {"Failed to make / slave", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_DENIED},
    {"Failed to mount tmpfs", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_DENIED},
    {"Can't mount tmpfs", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_DENIED},
    {"Can't mount devpts", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_DENIED},
    {"pivot_root", LOCAL_REMEDY_NONE, LOCAL_CAUSE_MOUNTS_DENIED},
    {"prctl(PR_SET_SECCOMP)", LOCAL_REMEDY_NONE, LOCAL_CAUSE_NO_SECCOMP},
    {"execvp", LOCAL_REMEDY_NONE, LOCAL_CAUSE_PYTHON_FAILS},
};

/* How a distribution installs, and what it calls the packages. */
static const struct {
    const char *install; /* NULL: not known */
    const char *python;
    const char *modules; /* NULL: it has none */
} packages[] = {
    [LOCAL_DISTRO_OTHER] = {NULL, NULL, NULL},
    [LOCAL_DISTRO_DEBIAN] = {"apt install", "python3",
                             "python3-pandas python3-matplotlib"},
    [LOCAL_DISTRO_UBUNTU] = {"apt install", "python3",
                             "python3-pandas python3-matplotlib"},
    [LOCAL_DISTRO_FEDORA] = {"dnf install", "python3",
                             "python3-pandas python3-matplotlib"},
    [LOCAL_DISTRO_RHEL] = {"dnf install", "python3", NULL},
    [LOCAL_DISTRO_SUSE] = {"zypper install", "python3",
                           "python3-pandas python3-matplotlib"},
    [LOCAL_DISTRO_ARCH] = {"pacman -S", "python",
                           "python-pandas python-matplotlib"},
    [LOCAL_DISTRO_ALPINE] = {"apk add", "python3", "py3-pandas py3-matplotlib"},
};

/* --- building it --- */

struct advice_call {
    const struct local_system *system;
    struct local_advice *advice;
};

__attribute__((format(printf, 2, 3))) static void
set_fix(const struct advice_call *c, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(c->advice->fix, sizeof(c->advice->fix), fmt, ap);
    va_end(ap);
    assert(n >= 0 && (size_t)n < sizeof(c->advice->fix));
}

__attribute__((format(printf, 2, 3))) static void
set_command(const struct advice_call *c, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(c->advice->command, sizeof(c->advice->command), fmt, ap);
    va_end(ap);
    assert(n >= 0 && (size_t)n < sizeof(c->advice->command));
}

static const char *
sudo(const struct local_system *system)
{
    return system->is_root ? "" : "sudo ";
}

static void
set_install(const struct advice_call *c, const char *names)
{
    const char *install = packages[c->system->distro].install;

    if (install != NULL)
        set_command(c, "%s%s %s", sudo(c->system), install, names);
}

/* A switch of the kernel, for now and for every start. A container has none of
   its own. */
static void
set_switch(const struct advice_call *c, const char *setting)
{
    if (c->system->container != LOCAL_CONTAINER_NONE)
        return;
    if (c->system->is_root)
        set_command(c,
                    "echo %s > /etc/sysctl.d/60-sandpiper.conf && sysctl "
                    "--system",
                    setting);
    else
        set_command(c,
                    "echo %s | sudo tee /etc/sysctl.d/60-sandpiper.conf && "
                    "sudo sysctl --system",
                    setting);
}

/* What the maker of the container has to allow. */
static void
set_container_fix(const struct advice_call *c)
{
    switch (c->system->container) {
    case LOCAL_CONTAINER_DOCKER:
        set_fix(c, "start the container with --security-opt "
                   "seccomp=unconfined --security-opt apparmor=unconfined "
                   "--security-opt systempaths=unconfined");
        break;
    case LOCAL_CONTAINER_PODMAN:
        set_fix(c, "start the container with --security-opt "
                   "seccomp=unconfined --security-opt label=disable "
                   "--security-opt unmask=ALL");
        break;
    case LOCAL_CONTAINER_LXC:
        set_fix(c, "on the host: lxc config set NAME security.nesting true "
                   "(Incus: incus config set), and restart the container");
        break;
    case LOCAL_CONTAINER_KUBERNETES:
        set_fix(c, "give the pod hostUsers: false and, in its "
                   "securityContext, procMount: Unmasked and a "
                   "seccompProfile of type Unconfined");
        break;
    case LOCAL_CONTAINER_OTHER:
    case LOCAL_CONTAINER_NONE:
        set_fix(c, "the container must allow user namespaces and mounts "
                   "in them, and mask no part of /proc");
        break;
    }
}

/* --- the causes --- */

static void
advise_no_bwrap(const struct advice_call *c)
{
    c->advice->why = "bubblewrap is not installed";
    set_fix(c, "install the package bubblewrap");
    set_install(c, "bubblewrap");
}

static void
advise_old_bwrap(const struct advice_call *c)
{
    const struct local_system *s = c->system;
    bool none_newer =
        s->version > 0 &&
        ((s->distro == LOCAL_DISTRO_DEBIAN && s->version < 1200) ||
         (s->distro == LOCAL_DISTRO_UBUNTU && s->version < 2210) ||
         (s->distro == LOCAL_DISTRO_RHEL && s->version < 1000));

    c->advice->why = "this bubblewrap is too old";
    if (none_newer) {
        set_fix(c, "this release has no newer one: build bubblewrap 0.7.0 or "
                   "newer (0.8.0 is best) from its sources, and write 'bwrap: "
                   "/usr/local/bin/bwrap' below 'sandbox:' in the "
                   "configuration");
        return;
    }
    set_fix(c, "install bubblewrap 0.7.0 or newer (0.8.0 is best)");
    set_install(c, "bubblewrap");
}

static void
advise_apparmor(const struct advice_call *c)
{
    const struct local_system *s = c->system;
    const char *su = sudo(s);

    c->advice->why = "AppArmor takes the rights of user namespaces away here";
    if (s->container != LOCAL_CONTAINER_NONE) {
        set_fix(c, "load the AppArmor profile " PROFILE " on the host, and "
                   "start the container with --security-opt "
                   "apparmor=unconfined");
        return;
    }
    if (s->has_bwrap_profile ||
        (s->distro == LOCAL_DISTRO_UBUNTU && s->version >= 2504)) {
        set_fix(c, "load the AppArmor profile " PROFILE " of the package "
                   "apparmor, which is for /usr/bin/bwrap");
        set_command(c, "%s%s%sapparmor_parser -r /etc/apparmor.d/" PROFILE,
                    s->has_bwrap_profile ? "" : su,
                    s->has_bwrap_profile ? "" : "apt install apparmor && ", su);
        return;
    }
    if (s->distro == LOCAL_DISTRO_UBUNTU || s->distro == LOCAL_DISTRO_DEBIAN) {
        set_fix(c, "load the AppArmor profile " PROFILE " of the package "
                   "apparmor-profiles, which is for /usr/bin/bwrap");
        set_command(c,
                    "%sapt install apparmor-profiles && %scp "
                    "/usr/share/apparmor/extra-profiles/" PROFILE
                    " /etc/apparmor.d/ && %sapparmor_parser -r "
                    "/etc/apparmor.d/" PROFILE,
                    su, su, su);
        return;
    }
    set_fix(c, "load the profile " PROFILE " of AppArmor 4, which is for "
               "/usr/bin/bwrap: copy it to /etc/apparmor.d (it may be in "
               "/usr/share/apparmor/extra-profiles) and run apparmor_parser "
               "-r on it");
}

static void
advise_userns_denied(const struct advice_call *c)
{
    const struct local_system *s = c->system;
    bool contained = s->container != LOCAL_CONTAINER_NONE;

    c->advice->why = "this system lets ordinary users make no user namespaces";
    if (s->is_chroot) {
        c->advice->why = "within a chroot no user namespaces can be made";
        set_fix(c, "enter this system with systemd-nspawn or as a container, "
                   "instead of by chroot");
    } else if (s->userns_clone == 0) {
        set_fix(c, contained ? "allow them on the host"
                             : "allow them (kernel.unprivileged_userns_clone)");
        set_switch(c, "kernel.unprivileged_userns_clone=1");
    } else if (contained) {
        c->advice->why = "this container lets nobody make user namespaces";
        set_container_fix(c);
    } else if (s->apparmor_restricts == 1) {
        advise_apparmor(c);
    } else if (s->is_wsl1) {
        set_fix(c, "WSL 1 has none: in Windows, wsl --set-version NAME 2 "
                   "makes it WSL 2");
    } else {
        set_fix(c, "a security module or a hardened kernel forbids them: "
                   "whoever runs this machine can allow them for bubblewrap");
    }
}

static void
advise_userns_used_up(const struct advice_call *c)
{
    c->advice->why = "no more user namespaces can be made here";
    if (c->system->max_userns > 0) {
        set_fix(c, "they are nested too deep, or too many: end some, or raise "
                   "user.max_user_namespaces");
    } else if (c->system->container != LOCAL_CONTAINER_NONE) {
        set_fix(c, "raise the limit in the system around this container "
                   "(user.max_user_namespaces)");
    } else {
        set_fix(c, "raise the limit (user.max_user_namespaces)");
    }
    set_switch(c, "user.max_user_namespaces=10000");
}

static void
advise_userns_missing(const struct advice_call *c)
{
    c->advice->why = "the kernel of this system has no user namespaces";
    if (c->system->is_wsl1)
        set_fix(c, "in Windows, wsl --set-version NAME 2 makes it WSL 2");
    else
        set_fix(c, "use a kernel with CONFIG_USER_NS");
}

static void
advise_mounts_denied(const struct advice_call *c)
{
    c->advice->why = "nothing can be mounted in a namespace of its own here";
    if (c->system->container != LOCAL_CONTAINER_NONE)
        set_container_fix(c);
    else if (c->system->apparmor_restricts == 1)
        advise_apparmor(c);
    else
        set_fix(c, "a security module forbids it; dmesg may say which: allow "
                   "it for bubblewrap");
}

static void
advise_mounts_used_up(const struct advice_call *c)
{
    c->advice->why = "no more mounts can be made here";
    set_fix(c, "raise the limit (fs.mount-max)");
    set_switch(c, "fs.mount-max=100000");
}

static void
advise_no_proc(const struct advice_call *c)
{
    static const char or_without[] = "or run cells without /proc by "
                                     "sandpiper " NO_PROC_OPTION;

    c->advice->why = "no /proc of its own can be mounted for the sandbox, as "
                     "in a container with a masked /proc";
    switch (c->system->container) {
    case LOCAL_CONTAINER_DOCKER:
        set_fix(c,
                "start the container with --security-opt "
                "systempaths=unconfined, %s",
                or_without);
        break;
    case LOCAL_CONTAINER_PODMAN:
        set_fix(c, "start the container with --security-opt unmask=ALL, %s",
                or_without);
        break;
    case LOCAL_CONTAINER_LXC:
        set_fix(c, "set security.nesting of the container to true, %s",
                or_without);
        break;
    case LOCAL_CONTAINER_KUBERNETES:
        set_fix(c,
                "give the pod hostUsers: false and its securityContext "
                "procMount: Unmasked, %s",
                or_without);
        break;
    case LOCAL_CONTAINER_OTHER:
    case LOCAL_CONTAINER_NONE:
        set_fix(c, "unmount what covers parts of /proc, %s", or_without);
        break;
    }
}

static void
advise_processes(const struct advice_call *c)
{
    c->advice->why = "the limit of processes for this user is used up";
    if (c->system->container != LOCAL_CONTAINER_NONE)
        set_fix(c, "end some programs, or raise the limit: ulimit -u, and "
                   "--pids-limit of the container");
    else
        set_fix(c, "end some programs, or raise the limit: ulimit -u");
}

static void
advise_files(const struct advice_call *c)
{
    c->advice->why = "the limit of open files is too low, or used up";
    if (c->system->container != LOCAL_CONTAINER_NONE)
        set_fix(c, "raise the limit: ulimit -n 1024, and --ulimit nofile of "
                   "the container");
    else
        set_fix(c, "raise the limit: ulimit -n 1024 (where that is refused: "
                   "nofile in /etc/security/limits.conf)");
}

/* Whether python3 of this release is older than 3.8. */
static bool
has_old_python(const struct local_system *s)
{
    return (s->distro == LOCAL_DISTRO_RHEL && s->version > 0 &&
            s->version < 900) ||
           (s->distro == LOCAL_DISTRO_SUSE && s->version > 0 &&
            s->version < 1600);
}

static void
advise_python(const struct advice_call *c)
{
    const char *modules = packages[c->system->distro].modules;
    char names[LOCAL_ADVICE_BYTES / 2];

    if (has_old_python(c->system)) {
        set_fix(c, "python3 is too old in this release: install a newer one "
                   "beside it, and write 'python: /usr/bin/python3.11' below "
                   "'sandbox:' in the configuration");
        set_install(c, c->system->distro == LOCAL_DISTRO_SUSE ? "python311"
                                                              : "python3.11");
        return;
    }
    set_fix(c, "name another interpreter as sandbox.python in the "
               "configuration, or install Python 3.8 or newer with pandas and "
               "matplotlib");
    if (packages[c->system->distro].python == NULL)
        return;
    snprintf(names, sizeof(names), "%s%s%s", packages[c->system->distro].python,
             modules != NULL ? " " : "", modules != NULL ? modules : "");
    set_install(c, names);
}

static void
advise_modules(const struct advice_call *c)
{
    bool old = has_old_python(c->system);
    const char *modules = packages[c->system->distro].modules;
    const char *su = sudo(c->system);

    c->advice->why = "files are loaded with pandas, and charts are made with "
                     "matplotlib";
    if (modules != NULL && !old) {
        set_fix(c, "install them for this interpreter");
        set_install(c, modules);
        return;
    }
    set_fix(c, "make an environment that has them, and write 'python: "
               "/opt/sandpiper/bin/python3' below 'sandbox:' in the "
               "configuration");
    set_command(c,
                "%s%s -m venv /opt/sandpiper && %s/opt/sandpiper/bin/pip "
                "install pandas matplotlib",
                su, old ? "python3.11" : "python3", su);
}

static void
advise_file_caps(const struct advice_call *c)
{
    c->advice->why = "the file of bubblewrap has capabilities, which it "
                     "refuses itself";
    set_fix(c, "take them away");
    set_command(c, "%ssetcap -r /usr/bin/bwrap", sudo(c->system));
}

static void
advise_no_seccomp(const struct advice_call *c)
{
    c->advice->why = "the kernel of this system takes no system call filter";
    set_fix(c, "use a kernel with CONFIG_SECCOMP_FILTER");
}

static void
advise_no_python(const struct advice_call *c)
{
    c->advice->why = "there is no Python interpreter";
    advise_python(c);
}

static void
advise_python_fails(const struct advice_call *c)
{
    c->advice->why = "the Python interpreter cannot be run in the sandbox";
    advise_python(c);
}

static void (*const advisers[])(const struct advice_call *c) = {
    [LOCAL_CAUSE_NO_BWRAP] = advise_no_bwrap,
    [LOCAL_CAUSE_OLD_BWRAP] = advise_old_bwrap,
    [LOCAL_CAUSE_FILE_CAPS] = advise_file_caps,
    [LOCAL_CAUSE_APPARMOR] = advise_apparmor,
    [LOCAL_CAUSE_USERNS_DENIED] = advise_userns_denied,
    [LOCAL_CAUSE_USERNS_USED_UP] = advise_userns_used_up,
    [LOCAL_CAUSE_USERNS_MISSING] = advise_userns_missing,
    [LOCAL_CAUSE_MOUNTS_DENIED] = advise_mounts_denied,
    [LOCAL_CAUSE_MOUNTS_USED_UP] = advise_mounts_used_up,
    [LOCAL_CAUSE_NO_PROC] = advise_no_proc,
    [LOCAL_CAUSE_PROCESSES_USED_UP] = advise_processes,
    [LOCAL_CAUSE_FILES_USED_UP] = advise_files,
    [LOCAL_CAUSE_NO_SECCOMP] = advise_no_seccomp,
    [LOCAL_CAUSE_NO_PYTHON] = advise_no_python,
    [LOCAL_CAUSE_PYTHON_FAILS] = advise_python_fails,
    [LOCAL_CAUSE_NO_MODULES] = advise_modules,
};

void
local_advice_make(enum local_cause cause, const struct local_system *system,
                  struct local_advice *advice)
{
    const struct advice_call c = {system, advice};

    memset(advice, 0, sizeof(*advice));
    advice->why = "";
    assert(cause < LOCAL_N_CAUSES);
    advisers[cause](&c);
}

enum local_remedy
local_advice_find(const char *text, const struct local_system *system,
                  struct local_advice *advice)
{
    for (size_t i = 0; i < LEN(messages); i++) {
        if (strstr(text, messages[i].text) == NULL)
            continue;
        if (messages[i].cause != LOCAL_N_CAUSES)
            local_advice_make(messages[i].cause, system, advice);
        return messages[i].remedy;
    }
    return LOCAL_REMEDY_UNKNOWN;
}

int
local_advice_fail(const struct local_advice *advice, struct error *err)
{
    return err_set(err, ERR_SANDBOX, "%s\nfix: %s%s%s", advice->why,
                   advice->fix, advice->command[0] != '\0' ? ": " : "",
                   advice->command);
}
