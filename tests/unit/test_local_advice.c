/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "sandbox/local_advice_internal.h"
#include "sandbox/local_system_internal.h"

#define N_DISTROS (LOCAL_DISTRO_ALPINE + 1)
#define N_CONTAINERS (LOCAL_CONTAINER_OTHER + 1)

static struct local_system
ordinary(enum local_distro distro, int version)
{
    return (struct local_system){
        .distro = distro,
        .version = version,
        .max_userns = 10000,
        .userns_clone = -1,
        .apparmor_restricts = -1,
    };
}

/* ---- what bubblewrap says ---- */

/* As it is printed, from all versions that were looked at. */
static const struct {
    const char *text;
    enum local_remedy expect;
    const char *expect_why; /* a part of it; NULL: there is no advice */
} messages[] = {
    {"bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
     LOCAL_REMEDY_NO_PROC, "no /proc of its own"},
    {"bwrap: Can't mount proc on /newroot/proc: Permission denied",
     LOCAL_REMEDY_NO_PROC, "no /proc of its own"},
    {"bwrap: cannot open /proc/sys/user/max_user_namespaces: Permission denied",
     LOCAL_REMEDY_NO_DISABLE, NULL},
    {"bwrap: cannot open /proc/sys/user/max_user_namespaces: Read-only file "
     "system",
     LOCAL_REMEDY_NO_DISABLE, NULL},
    {"bwrap: sysctl user.max_user_namespaces = 1: Operation not permitted",
     LOCAL_REMEDY_NO_DISABLE, NULL},
    {"bwrap: Unknown option --disable-userns", LOCAL_REMEDY_NO_DISABLE, NULL},
    {"bwrap: Unknown option --assert-userns-disabled", LOCAL_REMEDY_NO_DISABLE,
     NULL},
    {"bwrap: Unknown option --size", LOCAL_REMEDY_NONE, "too old"},
    {"bwrap: Unknown option --perms", LOCAL_REMEDY_NONE, "too old"},
    {"bwrap: Unknown option --clearenv", LOCAL_REMEDY_NONE, "too old"},
    {"bwrap: Unexpected capabilities but not setuid, old file caps config?",
     LOCAL_REMEDY_NONE, "capabilities"},
    {"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
     LOCAL_REMEDY_NONE, "AppArmor"},
    {"bwrap: loopback: Failed RTM_NEWLINK: Operation not permitted",
     LOCAL_REMEDY_NONE, "AppArmor"},
    {"bwrap: setting up uid map: Permission denied", LOCAL_REMEDY_NONE,
     "AppArmor"},
    {"bwrap: setting up uid map: Operation not permitted", LOCAL_REMEDY_NONE,
     "ordinary users make no user namespaces"},
    /* 0.4 to 0.11.0, then 0.11.1, then as Debian had it. */
    {"bwrap: No permissions to creating new namespace, likely because the "
     "kernel does not allow non-privileged user namespaces. On e.g. debian "
     "this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
     LOCAL_REMEDY_NONE, "ordinary users make no user namespaces"},
    {"bwrap: No permissions to create a new namespace, likely because the "
     "kernel does not allow non-privileged user namespaces. On e.g. debian "
     "this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
     LOCAL_REMEDY_NONE, "ordinary users make no user namespaces"},
    {"bwrap: No permissions to create new namespace, likely because the kernel "
     "does not allow non-privileged user namespaces. See <URL>.",
     LOCAL_REMEDY_NONE, "ordinary users make no user namespaces"},
    {"bwrap: Creating new namespace failed: Operation not permitted",
     LOCAL_REMEDY_NONE, "ordinary users make no user namespaces"},
    {"bwrap: Creating new namespace failed: Permission denied",
     LOCAL_REMEDY_NONE, "ordinary users make no user namespaces"},
    {"bwrap: Creating new namespace failed: nesting depth or "
     "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
     LOCAL_REMEDY_NONE, "no more user namespaces"},
    /* Before 0.7. */
    {"bwrap: Creating new namespace failed: No space left on device",
     LOCAL_REMEDY_NONE, "no more user namespaces"},
    {"bwrap: unshare user ns: No space left on device", LOCAL_REMEDY_NONE,
     "no more user namespaces"},
    /* Since 0.9 the end of it is like that of the one above. */
    {"bwrap: Failed to mount tmpfs: Limit exceeded (ENOSPC). (Hint: Check that "
     "/proc/sys/fs/mount-max is sufficient, typically 100000)",
     LOCAL_REMEDY_NONE, "no more mounts"},
    {"bwrap: Creating new namespace failed, likely because the kernel does not "
     "support user namespaces.  bwrap must be installed setuid on such "
     "systems.",
     LOCAL_REMEDY_NONE, "the kernel of this system has no user namespaces"},
    {"bwrap: Creating new namespace failed: Resource temporarily unavailable",
     LOCAL_REMEDY_NONE, "limit of processes"},
    {"bwrap: Can't fork for pid 1: Resource temporarily unavailable",
     LOCAL_REMEDY_NONE, "limit of processes"},
    {"RuntimeError: can't start new thread", LOCAL_REMEDY_NONE,
     "limit of processes"},
    {"starting /usr/bin/bwrap: Resource temporarily unavailable",
     LOCAL_REMEDY_NONE, "limit of processes"},
    {"bwrap cannot be started: pipe: Too many open files", LOCAL_REMEDY_NONE,
     "limit of open files"},
    {"starting /usr/bin/bwrap: moving descriptors: Invalid argument",
     LOCAL_REMEDY_NONE, "limit of open files"},
    {"bwrap: Failed to make / slave: Permission denied", LOCAL_REMEDY_NONE,
     "nothing can be mounted"},
    {"bwrap: Failed to mount tmpfs: Permission denied", LOCAL_REMEDY_NONE,
     "nothing can be mounted"},
    {"bwrap: pivot_root: Operation not permitted", LOCAL_REMEDY_NONE,
     "nothing can be mounted"},
    {"bwrap: Can't mount devpts on /newroot/dev/pts: Permission denied",
     LOCAL_REMEDY_NONE, "nothing can be mounted"},
    {"bwrap: prctl(PR_SET_SECCOMP) reported EINVAL. (Hint: this requires a "
     "kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER.): "
     "Invalid argument",
     LOCAL_REMEDY_NONE, "no system call filter"},
    {"bwrap: execvp /x/python3: No such file or directory", LOCAL_REMEDY_NONE,
     "Python interpreter cannot be run"},
    /* Something before it makes no difference. */
    {"warning: x\nbwrap: Unknown option --size\n", LOCAL_REMEDY_NONE,
     "too old"},
    {"bwrap: something else", LOCAL_REMEDY_UNKNOWN, NULL},
    {"bwrap: Can't find source path /x: Permission denied",
     LOCAL_REMEDY_UNKNOWN, NULL},
    {"", LOCAL_REMEDY_UNKNOWN, NULL},
};

static void
test_find(void **state)
{
    struct local_system s = ordinary(LOCAL_DISTRO_DEBIAN, 1200);

    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct local_advice advice = {0};

        if (local_advice_find(messages[i].text, &s, &advice) !=
            messages[i].expect)
            fail_msg("remedy: %s", messages[i].text);
        if ((advice.why == NULL) != (messages[i].expect_why == NULL) ||
            (advice.why != NULL &&
             strstr(advice.why, messages[i].expect_why) == NULL))
            fail_msg("%s\nmeans: %s", messages[i].text, advice.why);
    }
}

/* ---- what to do, on which system ---- */

struct advice_case {
    const char *name;
    enum local_cause cause;
    struct local_system system;
    const char *expect_why; /* NULL: not looked at */
    const char *expect_fix;
    const char *expect_command; /* "": none */
};

/* A switch that is not named is as most kernels have it; OFF is 0. */
#define OFF (-7)
#define SYSTEM(...)                                                            \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static int64_t
switch_value(int64_t named, int64_t usual)
{
    if (named == OFF)
        return 0;
    return named == 0 ? usual : named;
}

static const struct advice_case cases[] = {
    /* Packages. */
    {"Debian", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_DEBIAN),
     NULL, "install", "sudo apt install bubblewrap"},
    {"Debian, root", LOCAL_CAUSE_NO_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_DEBIAN, .is_root = true), NULL, "install",
     "apt install bubblewrap"},
    {"Fedora", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_FEDORA),
     NULL, "install", "sudo dnf install bubblewrap"},
    {"openSUSE", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_SUSE),
     NULL, "install", "sudo zypper install bubblewrap"},
    {"Arch", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_ARCH), NULL,
     "install", "sudo pacman -S bubblewrap"},
    {"Alpine", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_ALPINE),
     NULL, "install", "sudo apk add bubblewrap"},
    {"another", LOCAL_CAUSE_NO_BWRAP, SYSTEM(.distro = LOCAL_DISTRO_OTHER),
     NULL, "the package bubblewrap", ""},

    {"Debian 11 has no newer", LOCAL_CAUSE_OLD_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_DEBIAN, .version = 1100), NULL,
     "from its sources", ""},
    {"Ubuntu 22.04 has no newer", LOCAL_CAUSE_OLD_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2204), NULL,
     "'bwrap: /usr/local/bin/bwrap'", ""},
    {"RHEL 9 has no newer", LOCAL_CAUSE_OLD_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_RHEL, .version = 904), NULL,
     "0.7.0 or newer", ""},
    {"Debian 12 has", LOCAL_CAUSE_OLD_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_DEBIAN, .version = 1200), NULL,
     "0.7.0 or newer", "sudo apt install bubblewrap"},
    {"RHEL 10 has", LOCAL_CAUSE_OLD_BWRAP,
     SYSTEM(.distro = LOCAL_DISTRO_RHEL, .version = 1000), NULL,
     "0.7.0 or newer", "sudo dnf install bubblewrap"},

    /* AppArmor. */
    {"Ubuntu 24.04", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2404,
            .apparmor_restricts = 1),
     "AppArmor", "package apparmor-profiles",
     "sudo apt install apparmor-profiles && sudo cp "
     "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict "
     "/etc/apparmor.d/ && sudo apparmor_parser -r "
     "/etc/apparmor.d/bwrap-userns-restrict"},
    {"Ubuntu 23.10", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2310,
            .apparmor_restricts = 1),
     "AppArmor", "package apparmor-profiles", NULL},
    {"Ubuntu 25.04", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2504,
            .apparmor_restricts = 1),
     "AppArmor", "of the package apparmor,",
     "sudo apt install apparmor && sudo apparmor_parser -r "
     "/etc/apparmor.d/bwrap-userns-restrict"},
    {"the profile is there, but not loaded", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2404,
            .apparmor_restricts = 1, .has_bwrap_profile = true),
     "AppArmor", "load",
     "sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"},
    {"AppArmor elsewhere", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_SUSE, .apparmor_restricts = 1), "AppArmor",
     "bwrap-userns-restrict", ""},
    {"AppArmor of the host", LOCAL_CAUSE_APPARMOR,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2404,
            .container = LOCAL_CONTAINER_DOCKER, .apparmor_restricts = 1),
     "AppArmor", "on the host", ""},
    {"Ubuntu, refused at once", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2404,
            .apparmor_restricts = 1),
     "AppArmor", "bwrap-userns-restrict", NULL},
    {"Ubuntu, mounts refused", LOCAL_CAUSE_MOUNTS_DENIED,
     SYSTEM(.distro = LOCAL_DISTRO_UBUNTU, .version = 2404,
            .apparmor_restricts = 1),
     "AppArmor", "bwrap-userns-restrict", NULL},

    /* User namespaces. */
    {"switched off on a host", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.distro = LOCAL_DISTRO_DEBIAN, .userns_clone = OFF), NULL,
     "kernel.unprivileged_userns_clone",
     "echo kernel.unprivileged_userns_clone=1 | sudo tee "
     "/etc/sysctl.d/60-sandpiper.conf && sudo sysctl --system"},
    {"switched off, root", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.is_root = true, .userns_clone = OFF), NULL, "allow them",
     "echo kernel.unprivileged_userns_clone=1 > "
     "/etc/sysctl.d/60-sandpiper.conf && sysctl --system"},
    {"switched off around a container", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_DOCKER, .userns_clone = OFF), NULL,
     "on the host", ""},
    {"Docker", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_DOCKER), "this container",
     "seccomp=unconfined", ""},
    {"Docker has more that is in the way", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_DOCKER), NULL,
     "systempaths=unconfined", ""},
    {"Podman", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_PODMAN), NULL, "unmask=ALL", ""},
    {"LXC", LOCAL_CAUSE_USERNS_DENIED, SYSTEM(.container = LOCAL_CONTAINER_LXC),
     NULL, "security.nesting true", ""},
    {"Kubernetes", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_KUBERNETES), NULL,
     "procMount: Unmasked", ""},
    {"another container", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_OTHER), NULL,
     "must allow user namespaces", ""},
    {"chroot", LOCAL_CAUSE_USERNS_DENIED,
     SYSTEM(.is_chroot = true, .container = LOCAL_CONTAINER_DOCKER), "chroot",
     "systemd-nspawn", ""},
    {"WSL 1", LOCAL_CAUSE_USERNS_DENIED, SYSTEM(.is_wsl1 = true), NULL,
     "--set-version", ""},
    {"nobody knows", LOCAL_CAUSE_USERNS_DENIED, SYSTEM(.userns_clone = 1), NULL,
     "security module", ""},
    {"used up on a host", LOCAL_CAUSE_USERNS_USED_UP, SYSTEM(.max_userns = OFF),
     NULL, "user.max_user_namespaces",
     "echo user.max_user_namespaces=10000 | sudo tee "
     "/etc/sysctl.d/60-sandpiper.conf && sudo sysctl --system"},
    {"used up in a container", LOCAL_CAUSE_USERNS_USED_UP,
     SYSTEM(.max_userns = OFF, .container = LOCAL_CONTAINER_PODMAN), NULL,
     "user.max_user_namespaces", ""},
    {"nested too deep", LOCAL_CAUSE_USERNS_USED_UP, SYSTEM(.max_userns = 100),
     NULL, "nested too deep", NULL},
    {"no such kernel", LOCAL_CAUSE_USERNS_MISSING, SYSTEM(.max_userns = -1),
     NULL, "CONFIG_USER_NS", ""},

    /* /proc: always with the way to do without. */
    {"masked by Docker", LOCAL_CAUSE_NO_PROC,
     SYSTEM(.container = LOCAL_CONTAINER_DOCKER), NULL,
     "systempaths=unconfined", ""},
    {"masked by Podman", LOCAL_CAUSE_NO_PROC,
     SYSTEM(.container = LOCAL_CONTAINER_PODMAN), NULL, "unmask=ALL", ""},
    {"masked by somebody", LOCAL_CAUSE_NO_PROC, SYSTEM(.version = 0), NULL,
     "--isolation=full-without-proc", ""},

    /* Mounts, processes, Python. */
    {"SELinux in Podman", LOCAL_CAUSE_MOUNTS_DENIED,
     SYSTEM(.container = LOCAL_CONTAINER_PODMAN), NULL, "label=disable", ""},
    {"processes", LOCAL_CAUSE_PROCESSES_USED_UP, SYSTEM(.version = 0), NULL,
     "ulimit -u", ""},
    {"processes in a container", LOCAL_CAUSE_PROCESSES_USED_UP,
     SYSTEM(.container = LOCAL_CONTAINER_DOCKER), NULL, "--pids-limit", ""},
    {"Python on Arch", LOCAL_CAUSE_NO_PYTHON,
     SYSTEM(.distro = LOCAL_DISTRO_ARCH), NULL, "sandbox.python",
     "sudo pacman -S python python-pandas python-matplotlib"},
    {"Python of RHEL 8 is too old", LOCAL_CAUSE_PYTHON_FAILS,
     SYSTEM(.distro = LOCAL_DISTRO_RHEL, .version = 810), NULL,
     "'python: /usr/bin/python3.11'", "sudo dnf install python3.11"},
    {"and that of Leap 15", LOCAL_CAUSE_NO_PYTHON,
     SYSTEM(.distro = LOCAL_DISTRO_SUSE, .version = 1506), NULL,
     "'python: /usr/bin/python3.11'", "sudo zypper install python311"},
    {"modules for it", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_SUSE, .version = 1506), NULL,
     "make an environment",
     "sudo python3.11 -m venv /opt/sandpiper && sudo /opt/sandpiper/bin/pip "
     "install pandas matplotlib"},
    {"modules on Tumbleweed", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_SUSE), NULL, "install",
     "sudo zypper install python3-pandas python3-matplotlib"},
    {"modules on Debian", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_DEBIAN), NULL, "install",
     "sudo apt install python3-pandas python3-matplotlib"},
    {"modules on Fedora", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_FEDORA), NULL, "install",
     "sudo dnf install python3-pandas python3-matplotlib"},
    {"modules on Alpine", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_ALPINE), NULL, "install",
     "sudo apk add py3-pandas py3-matplotlib"},
    {"modules on RHEL, which has none", LOCAL_CAUSE_NO_MODULES,
     SYSTEM(.distro = LOCAL_DISTRO_RHEL), NULL,
     "'python: /opt/sandpiper/bin/python3'",
     "sudo python3 -m venv /opt/sandpiper && sudo /opt/sandpiper/bin/pip "
     "install pandas matplotlib"},
};

static void
test_make(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct advice_case *c = &cases[i];
        struct local_system system = c->system;
        struct local_advice advice;

        system.max_userns = switch_value(system.max_userns, 10000);
        system.userns_clone = switch_value(system.userns_clone, -1);
        system.apparmor_restricts = switch_value(system.apparmor_restricts, -1);
        local_advice_make(c->cause, &system, &advice);
        if (c->expect_why != NULL && strstr(advice.why, c->expect_why) == NULL)
            fail_msg("%s: why: %s", c->name, advice.why);
        if (strstr(advice.fix, c->expect_fix) == NULL)
            fail_msg("%s: fix: %s", c->name, advice.fix);
        if (c->expect_command != NULL &&
            strcmp(advice.command, c->expect_command) != 0)
            fail_msg("%s: command: %s", c->name, advice.command);
    }
}

/* ---- every advice everywhere ---- */

/* Whole, in one message, with something to do; and nothing that opens the whole
   system. */
static void
check_advice(enum local_cause cause, const struct local_system *s)
{
    struct local_advice advice;
    struct error err = {0};

    local_advice_make(cause, s, &advice);
    assert_true(advice.why[0] != '\0');
    assert_true(advice.fix[0] != '\0');
    assert_null(strchr(advice.why, '\n'));
    assert_null(strchr(advice.fix, '\n'));
    assert_null(strchr(advice.command, '\n'));
    assert_null(strstr(advice.command, "apparmor_restrict"));
    assert_null(strstr(advice.fix, "--privileged"));
    if (s->is_root)
        assert_null(strstr(advice.command, "sudo"));
    assert_int_equal(local_advice_fail(&advice, &err), -1);
    assert_int_equal(err.code, ERR_SANDBOX);
    /* Not cut, and with room for the name of a key before it. */
    if (strlen(err.msg) >= ERROR_MSG_BYTES - 1)
        fail_msg("too long: %s", err.msg);
    assert_non_null(strstr(err.msg, "\nfix: "));
}

static void
test_every_advice(void **state)
{
    (void)state;
    for (int cause = 0; cause < LOCAL_N_CAUSES; cause++)
        for (int distro = 0; distro < N_DISTROS; distro++)
            for (int container = 0; container < N_CONTAINERS; container++)
                for (unsigned bits = 0; bits < 64; bits++) {
                    struct local_system s = {
                        .distro = (enum local_distro)distro,
                        .container = (enum local_container)container,
                        .version = (bits & 1) != 0 ? 2504 : 900,
                        .is_root = (bits & 2) != 0,
                        .is_chroot = (bits & 4) != 0,
                        .is_wsl1 = (bits & 8) != 0,
                        .max_userns = (bits & 16) != 0 ? 0 : 9,
                        .userns_clone = (bits & 16) != 0 ? 0 : -1,
                        .apparmor_restricts = (bits & 32) != 0 ? 1 : -1,
                        .has_bwrap_profile = (bits & 33) == 33,
                    };

                    check_advice((enum local_cause)cause, &s);
                }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_every_advice),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
