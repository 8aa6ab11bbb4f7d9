/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the doctor makes of what it has found out: facts in, findings and what
 * to do about them out.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "sandbox/doctor.h"
#include "sandbox/doctor_internal.h"
#include "sandbox/local.h"

/* ---- facts ---- */

/* Of a system on which all is well: Debian 12, an ordinary user. */
static void
fill_good(struct doctor_facts *f)
{
    memset(f, 0, sizeof(*f));
    f->system = (struct local_system){
        .distro = LOCAL_DISTRO_DEBIAN,
        .version = 1200,
        .name = "Debian GNU/Linux 12 (bookworm)",
        .max_userns = 10000,
        .userns_clone = 1,
        .apparmor_restricts = -1,
    };
    f->machine = xstrdup("x86_64");
    f->has_filter = true;
    f->kernel = xstrdup("6.1.0-18-amd64");
    f->kernel_version = 601;
    f->has_pidfd = true;
    f->has_openat2 = true;
    f->landlock_abi = 2;
    f->uid = 1000;
    f->bwrap = xstrdup("/usr/bin/bwrap");
    f->bwrap_asked = true;
    f->bwrap_version = 800;
    f->python = xstrdup("/usr/bin/python3");
    f->python_version = xstrdup("3.11.2");
    for (size_t i = 0; i < DOCTOR_MODULES; i++)
        f->modules[i] = (struct doctor_module){DOCTOR_WORKED, xstrdup("1.5")};
    f->workspace = xstrdup("/tmp");
    f->free_bytes = UINT64_C(80000000000);
    f->reserve_bytes = 1u << 30;
    f->n_tasks = 200;
    f->max_tasks = 30000;
    f->max_files = 1024;
    f->helper = xstrdup("/usr/libexec/sandpiper-picture");
    f->core_pattern = xstrdup("core");
    f->sandbox = DOCTOR_WORKED;
    f->interpreter = DOCTOR_WORKED;
    f->cell = DOCTOR_WORKED;
}

/* No more was tried than bubblewrap, which said this. */
static void
fail_sandbox(struct doctor_facts *f, const char *says)
{
    f->sandbox = DOCTOR_FAILED;
    free(f->sandbox_says);
    f->sandbox_says = xstrdup(says);
    f->interpreter = DOCTOR_NOT_TRIED;
    f->cell = DOCTOR_NOT_TRIED;
    free(take_ptr(&f->python_version));
    for (size_t i = 0; i < DOCTOR_MODULES; i++) {
        f->modules[i].trial = DOCTOR_NOT_TRIED;
        free(take_ptr(&f->modules[i].text));
    }
}

static void
fail_before_sandbox(struct doctor_facts *f)
{
    fail_sandbox(f, "");
    f->sandbox = DOCTOR_NOT_TRIED;
}

static void
set(char **p, const char *value)
{
    free(*p);
    *p = xstrdup(value);
}

/* ---- situations ---- */

static void
no_filter(struct doctor_facts *f)
{
    set(&f->machine, "riscv64");
    f->has_filter = false;
    fail_sandbox(f, "there is no system call filter for this processor");
}

static void
old_kernel(struct doctor_facts *f)
{
    f->kernel_version = 504;
}

static void
no_pidfd(struct doctor_facts *f)
{
    f->has_pidfd = false;
    f->interpreter = DOCTOR_FAILED;
    f->cell = DOCTOR_NOT_TRIED;
    f->interpreter_error = xstrdup("the process cannot be found: x\nfix: y");
}

static void
no_openat2(struct doctor_facts *f)
{
    f->has_openat2 = false;
}

static void
as_root(struct doctor_facts *f)
{
    f->is_root = true;
    f->drops = true;
    f->uid = 61234;
}

static void
nobody_to_be(struct doctor_facts *f)
{
    fail_before_sandbox(f);
    f->bwrap_asked = false;
    f->bwrap_version = 0;
    f->identity_error = xstrdup("root cannot be given up here\nfix: more ids");
}

static void
no_bwrap(struct doctor_facts *f)
{
    fail_before_sandbox(f);
    free(take_ptr(&f->bwrap));
    f->bwrap_error = xstrdup("bubblewrap is not installed\nfix: install it");
}

static void
set_uid_bwrap(struct doctor_facts *f)
{
    no_bwrap(f);
    set(&f->bwrap_error, "/usr/bin/bwrap is set-uid\nfix: chmod u-s x");
}

static void
bwrap_06(struct doctor_facts *f)
{
    f->bwrap_version = 603;
    fail_sandbox(f, "bwrap: Unknown option --size\n");
}

static void
bwrap_07(struct doctor_facts *f)
{
    f->bwrap_version = 700;
    f->no_disable = true;
}

static void
no_version(struct doctor_facts *f)
{
    f->bwrap_version = 0;
    f->interpreter = DOCTOR_FAILED;
    f->cell = DOCTOR_NOT_TRIED;
    f->interpreter_error =
        xstrdup("x does not run\nfix: run sandpiper --doctor");
}

static void
other_program(struct doctor_facts *f)
{
    fail_before_sandbox(f);
    set(&f->bwrap, "/bin/true");
    f->bwrap_version = 0;
    doctor_take_version(f, "true (GNU coreutils) 9.1\nCopyright");
}

static void
silent_program(struct doctor_facts *f)
{
    other_program(f);
    doctor_take_version(f, "");
}

static void
bwrap_of_somebody(struct doctor_facts *f)
{
    f->bwrap_owner = 1234;
}

static void
rhel_9_kernel(struct doctor_facts *f)
{
    f->no_disable = true;
}

static void
namespaces_off(struct doctor_facts *f)
{
    f->system.max_userns = 0;
    fail_sandbox(f, "bwrap: Creating new namespace failed: nesting depth or "
                    "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)\n");
}

static void
clone_off(struct doctor_facts *f)
{
    f->system.userns_clone = 0;
    fail_sandbox(f, "bwrap: No permissions to create a new namespace, likely "
                    "because the kernel does not allow it\n");
}

static void
clone_off_but_works(struct doctor_facts *f)
{
    f->system.userns_clone = 0;
}

static void
apparmor(struct doctor_facts *f)
{
    f->system.distro = LOCAL_DISTRO_UBUNTU;
    f->system.version = 2404;
    f->system.apparmor_restricts = 1;
    fail_sandbox(f, "bwrap: setting up uid map: Permission denied\n");
}

static void
apparmor_with_profile(struct doctor_facts *f)
{
    f->system.apparmor_restricts = 1;
    f->system.has_bwrap_profile = true;
}

static void
docker(struct doctor_facts *f)
{
    f->system.container = LOCAL_CONTAINER_DOCKER;
    fail_sandbox(f, "bwrap: No permissions to create a new namespace, likely");
}

static void
in_chroot(struct doctor_facts *f)
{
    f->system.is_chroot = true;
    fail_sandbox(f, "bwrap: No permissions to creating new namespace, likely");
}

static void
masked(struct doctor_facts *f)
{
    f->system.container = LOCAL_CONTAINER_DOCKER;
    f->mask = xstrdup("/proc/kcore");
    fail_sandbox(f, "bwrap: Can't mount proc on /newroot/proc: Operation not "
                    "permitted\n");
}

static void
without_proc(struct doctor_facts *f)
{
    f->mask = xstrdup("/proc/kcore");
    f->no_proc = true;
}

static void
mask_in_nobodys_way(struct doctor_facts *f)
{
    f->mask = xstrdup("/proc/kcore");
}

static void
unknown_failure(struct doctor_facts *f)
{
    fail_sandbox(f, "first\nbwrap: something else\n\n");
}

static void
processes(struct doctor_facts *f)
{
    f->n_tasks = 30000;
    fail_sandbox(f, "bwrap: Creating new namespace failed: Resource "
                    "temporarily unavailable\n");
}

static void
few_processes(struct doctor_facts *f)
{
    f->n_tasks = 29990;
}

static void
no_files(struct doctor_facts *f)
{
    f->max_files = 20;
    fail_sandbox(f, "bwrap cannot be started: memory file kernel: Too many "
                    "open files");
}

static void
no_numbers_of_files(struct doctor_facts *f)
{
    f->max_files = 40;
    fail_sandbox(f, "bwrap cannot be started: starting /usr/bin/bwrap: moving "
                    "descriptors: Invalid argument");
}

static void
files_taken(struct doctor_facts *f)
{
    f->max_files = 0;
    fail_sandbox(f, "bwrap cannot be started: pipe: Too many open files");
}

static void
few_files(struct doctor_facts *f)
{
    f->max_files = 80;
}

static void
no_python(struct doctor_facts *f)
{
    free(take_ptr(&f->python));
    free(take_ptr(&f->python_version));
    f->python_error = xstrdup("there is no Python interpreter\nfix: install");
    f->interpreter = DOCTOR_NOT_TRIED;
    f->cell = DOCTOR_NOT_TRIED;
}

static void
bad_python(struct doctor_facts *f)
{
    f->interpreter = DOCTOR_FAILED;
    f->cell = DOCTOR_NOT_TRIED;
    f->interpreter_error = xstrdup("/usr/bin/python3 does not run: SyntaxError"
                                   "\nfix: run sandpiper --doctor");
}

static void
cell_fails(struct doctor_facts *f)
{
    f->cell = DOCTOR_FAILED;
    f->cell_error = xstrdup("it took longer than 60 s");
}

static void
no_pandas(struct doctor_facts *f)
{
    f->modules[0].trial = DOCTOR_FAILED;
    set(&f->modules[0].text, "No module named 'pandas'");
}

static void
no_modules(struct doctor_facts *f)
{
    no_pandas(f);
    f->modules[1].trial = DOCTOR_FAILED;
    set(&f->modules[1].text, "No module named 'matplotlib'");
}

static void
no_workspace(struct doctor_facts *f)
{
    fail_before_sandbox(f);
    free(take_ptr(&f->workspace));
    f->workspace_error = xstrdup("no directory can be made\nfix: make /tmp");
}

static void
full_disk(struct doctor_facts *f)
{
    f->free_bytes = 1000000;
}

static void
noexec(struct doctor_facts *f)
{
    f->noexec = true;
}

static void
no_helper(struct doctor_facts *f)
{
    free(take_ptr(&f->helper));
    f->helper_error = xstrdup("sandpiper-picture: not in x");
}

static void
core_handler(struct doctor_facts *f)
{
    set(&f->core_pattern, "|/usr/share/apport/apport %p");
}

static void
as_is_set(struct doctor_facts *f)
{
    f->level = LOCAL_FULL_WITHOUT_PROC;
    f->no_proc = true;
}

static void
reduced(struct doctor_facts *f)
{
    f->level = LOCAL_REDUCED;
    f->landlock_abi = 6;
    free(take_ptr(&f->bwrap));
    f->bwrap_asked = false;
    f->bwrap_version = 0;
    f->warden = xstrdup("/usr/libexec/sandpiper-warden");
    /* Which nobody needs for it. */
    f->system.max_userns = 0;
    f->system.userns_clone = 0;
    f->system.apparmor_restricts = 1;
    f->mask = xstrdup("/proc/kcore");
}

static void
old_landlock(struct doctor_facts *f)
{
    reduced(f);
    fail_before_sandbox(f);
    f->landlock_abi = 5;
}

static void
no_warden(struct doctor_facts *f)
{
    reduced(f);
    fail_before_sandbox(f);
    free(take_ptr(&f->warden));
    f->warden_error = xstrdup("sandpiper-warden is not there\nfix: install");
}

static void
reduced_fails(struct doctor_facts *f)
{
    reduced(f);
    /* Words of bubblewrap's would be of no meaning here. */
    fail_sandbox(f, "sandpiper-warden: fork: Resource temporarily "
                    "unavailable\n");
}

static void
reduced_without_files(struct doctor_facts *f)
{
    reduced(f);
    f->max_files = 20;
    fail_sandbox(f, "sandpiper-warden cannot be started: pipe: Too many open "
                    "files");
}

static void
cgroup(struct doctor_facts *f)
{
    f->scope = DOCTOR_WORKED;
}

static void
no_cgroup(struct doctor_facts *f)
{
    f->scope = DOCTOR_FAILED;
    f->scope_why = xstrdup("systemd refused it (Access denied)");
}

static void
nothing(struct doctor_facts *f)
{
    (void)f;
}

struct situation {
    const char *name;
    void (*make)(struct doctor_facts *f);
    bool expect_run;
    const char *topic; /* of the finding that is looked at */
    enum doctor_status expect;
    const char *expect_what; /* parts; NULL: not looked at */
    const char *expect_why;
    const char *expect_fix;
    const char *expect_command; /* "": there is none */
};

static const struct situation situations[] = {
    {"all is well", nothing, true, "sandbox", DOCTOR_OK, "every argument", NULL,
     NULL, ""},
    {"names the system", nothing, true, "system", DOCTOR_OK, "bookworm", NULL,
     NULL, ""},
    {"no filter", no_filter, false, "processor", DOCTOR_FAIL, "riscv64",
     "no system call filter", "x86-64 or aarch64", ""},
    {"old kernel", old_kernel, true, "kernel", DOCTOR_WARN, "Linux",
     "all others of the same user", "5.14", ""},
    {"no pidfd", no_pidfd, false, "kernel", DOCTOR_FAIL, "Linux", "pidfd_open",
     "5.3", ""},
    {"no openat2", no_openat2, true, "kernel", DOCTOR_WARN, "Linux", "openat2",
     "5.6", ""},
    {"root", as_root, true, "identity", DOCTOR_OK, "user 61234: root is given",
     NULL, NULL, ""},
    {"nobody to be", nobody_to_be, false, "identity", DOCTOR_FAIL,
     "root cannot be given up", NULL, "more ids", ""},
    {"nothing is run then", nobody_to_be, false, "sandbox", DOCTOR_SKIPPED,
     "not tried", NULL, NULL, ""},
    {"no bubblewrap", no_bwrap, false, "bubblewrap", DOCTOR_FAIL,
     "is not installed", NULL, "install it", ""},
    {"set-uid", set_uid_bwrap, false, "bubblewrap", DOCTOR_FAIL, "set-uid",
     NULL, "chmod u-s", ""},
    {"bubblewrap 0.6", bwrap_06, false, "bubblewrap", DOCTOR_FAIL,
     "version 0.6.3", "--size", "0.7.0", "sudo apt install bubblewrap"},
    {"which is said once", bwrap_06, false, "sandbox", DOCTOR_FAIL,
     "Unknown option --size", "as said of bubblewrap", NULL, ""},
    {"bubblewrap 0.7", bwrap_07, true, "bubblewrap", DOCTOR_WARN,
     "version 0.7.0", "further user namespaces", "0.8.0", ""},
    {"which is said once, too", bwrap_07, true, "sandbox", DOCTOR_OK,
     "without --disable-userns", NULL, NULL, ""},
    {"no version", no_version, false, "bubblewrap", DOCTOR_FAIL,
     "does not tell its version", "another program", "--version", ""},
    {"another program", other_program, false, "bubblewrap", DOCTOR_FAIL,
     "/bin/true, which is not bubblewrap", "it says: true (GNU coreutils) 9.1",
     "leave it out", ""},
    {"which is not tried", other_program, false, "sandbox", DOCTOR_SKIPPED,
     "not tried", NULL, NULL, ""},
    {"one that says nothing", silent_program, false, "bubblewrap", DOCTOR_FAIL,
     "/bin/true, which is not bubblewrap", "says nothing", "leave it out", ""},
    {"bubblewrap of somebody", bwrap_of_somebody, true, "bubblewrap",
     DOCTOR_WARN, "/usr/bin/bwrap", "user 1234", "root", ""},
    {"RHEL 9", rhel_9_kernel, true, "sandbox", DOCTOR_WARN,
     "without --disable-userns", "this kernel", NULL, ""},
    {"no namespaces left", namespaces_off, false, "user namespaces",
     DOCTOR_FAIL, "user.max_user_namespaces is 0", "no more user namespaces",
     "raise the limit",
     "echo user.max_user_namespaces=10000 | sudo tee "
     "/etc/sysctl.d/60-sandpiper.conf && sudo sysctl --system"},
    {"namespaces switched off", clone_off, false, "user namespaces",
     DOCTOR_FAIL, "kernel.unprivileged_userns_clone is 0", "ordinary users",
     "allow them", NULL},
    {"switched off for nobody", clone_off_but_works, true, "user namespaces",
     DOCTOR_OK, "kernel.unprivileged_userns_clone is 0", NULL, NULL, ""},
    {"AppArmor", apparmor, false, "AppArmor", DOCTOR_FAIL, "is not there",
     "takes the rights", "package apparmor-profiles", NULL},
    {"AppArmor, profile loaded", apparmor_with_profile, true, "AppArmor",
     DOCTOR_OK, "is there", NULL, NULL, ""},
    {"Docker", docker, false, "sandbox", DOCTOR_FAIL, "No permissions",
     "this container", "seccomp=unconfined", ""},
    {"Docker is named", docker, false, "system", DOCTOR_OK,
     "in a Docker container", NULL, NULL, ""},
    {"chroot", in_chroot, false, "user namespaces", DOCTOR_FAIL, NULL,
     "within a chroot", "systemd-nspawn", ""},
    {"masked /proc", masked, false, "/proc", DOCTOR_FAIL, "/proc/kcore",
     "no /proc of its own", "--isolation=full-without-proc", ""},
    {"masked /proc, allowed", without_proc, true, "/proc", DOCTOR_WARN,
     "/proc/kcore", "as well isolated", NULL, ""},
    {"a mask in nobody's way", mask_in_nobodys_way, true, "/proc", DOCTOR_OK,
     NULL, NULL, NULL, NULL},
    {"unknown failure", unknown_failure, false, "sandbox", DOCTOR_FAIL,
     "made: bwrap: something else", NULL, "by hand", ""},
    {"processes used up", processes, false, "processes", DOCTOR_FAIL,
     "30000 of 30000", NULL, "ulimit -u", ""},
    {"few processes left", few_processes, true, "processes", DOCTOR_WARN,
     "29990 of 30000", NULL, "ulimit -u", ""},
    {"no open files", no_files, false, "open files", DOCTOR_FAIL,
     "may have 20 at a time", "some more to begin", "ulimit -n 1024", ""},
    {"which is said once, as well", no_files, false, "sandbox", DOCTOR_FAIL,
     "Too many open files", "as said of open files", NULL, ""},
    {"no numbers for them", no_numbers_of_files, false, "open files",
     DOCTOR_FAIL, "may have 40 at a time", NULL, "ulimit -n 1024", ""},
    {"open files used up", files_taken, false, "open files", DOCTOR_FAIL,
     "no more", NULL, "ulimit -n 1024", ""},
    {"few open files", few_files, true, "open files", DOCTOR_WARN,
     "may have 80 at a time", NULL, "ulimit -n 1024", ""},
    {"enough of them", nothing, true, "open files", DOCTOR_OK, NULL, NULL, NULL,
     NULL},
    {"no Python", no_python, false, "Python", DOCTOR_FAIL, "no Python", NULL,
     "install", ""},
    {"bad Python", bad_python, false, "interpreter", DOCTOR_FAIL, "SyntaxError",
     NULL, "sandbox.python",
     "sudo apt install python3 python3-pandas python3-matplotlib"},
    {"no cell ends", cell_fails, false, "interpreter", DOCTOR_FAIL,
     "it took longer", NULL, "sandbox.python", ""},
    {"no pandas", no_pandas, true, "pandas", DOCTOR_WARN, "No module named",
     "loaded with pandas", "install",
     "sudo apt install python3-pandas python3-matplotlib"},
    {"no modules, said once", no_modules, true, "matplotlib", DOCTOR_WARN,
     "No module named", "as said of pandas", NULL, ""},
    {"no workspace", no_workspace, false, "workspace", DOCTOR_FAIL,
     "no directory", NULL, "make /tmp", ""},
    {"full disk", full_disk, true, "workspace", DOCTOR_WARN, "1.0 MB free",
     "1.1 GB", "room", ""},
    {"noexec", noexec, true, "workspace", DOCTOR_WARN, "/tmp", "noexec",
     "without noexec", ""},
    {"no picture program", no_helper, true, "charts", DOCTOR_WARN, "not there",
     "sandpiper-picture", "install", ""},
    {"the level", nothing, true, "isolation", DOCTOR_OK, "full", NULL, NULL,
     ""},
    {"without /proc, as set", as_is_set, true, "/proc", DOCTOR_WARN,
     "as is set", "as well isolated", NULL, ""},
    {"which is the level", as_is_set, true, "isolation", DOCTOR_OK,
     "full-without-proc", NULL, NULL, ""},
    {"reduced", reduced, true, "isolation", DOCTOR_OK, "reduced: Landlock",
     NULL, NULL, ""},
    {"by Landlock", reduced, true, "Landlock", DOCTOR_OK, "ABI 6", NULL, NULL,
     ""},
    {"by the warden", reduced, true, "warden", DOCTOR_OK, "sandpiper-warden",
     NULL, NULL, ""},
    {"not by bubblewrap", reduced, true, "bubblewrap", DOCTOR_OK, NULL, NULL,
     NULL, NULL},
    {"nor by namespaces", reduced, true, "user namespaces", DOCTOR_OK, NULL,
     NULL, NULL, NULL},
    {"nor AppArmor", reduced, true, "AppArmor", DOCTOR_OK, NULL, NULL, NULL,
     NULL},
    {"nor /proc", reduced, true, "/proc", DOCTOR_OK, NULL, NULL, NULL, NULL},
    {"made", reduced, true, "sandbox", DOCTOR_OK, "by the warden", NULL, NULL,
     ""},
    {"old Landlock", old_landlock, false, "Landlock", DOCTOR_FAIL,
     "needs Landlock ABI 6", NULL, "Linux 6.12", ""},
    {"nothing is run then, too", old_landlock, false, "sandbox", DOCTOR_SKIPPED,
     "not tried", NULL, NULL, ""},
    {"no warden", no_warden, false, "warden", DOCTOR_FAIL, "is not there", NULL,
     "install", ""},
    {"the warden fails", reduced_fails, false, "sandbox", DOCTOR_FAIL,
     "made: sandpiper-warden: fork", NULL, "sandbox.isolation to full", ""},
    {"nor open files there", reduced_without_files, false, "open files",
     DOCTOR_FAIL, "may have 20", NULL, "ulimit -n", ""},
    {"which is said once there", reduced_without_files, false, "sandbox",
     DOCTOR_FAIL, "Too many open files", "as said of open files", NULL, ""},
    {"no interpreter, no cgroup known", no_bwrap, false, "memory", DOCTOR_OK,
     "or by a cgroup where", NULL, NULL, ""},
    {"a cgroup", cgroup, true, "memory", DOCTOR_OK, "by a cgroup that systemd",
     NULL, NULL, ""},
    {"no cgroup", no_cgroup, true, "memory", DOCTOR_OK,
     "every 200 ms; no cgroup: systemd refused it (Access denied)", NULL, NULL,
     ""},
    {"core handler", core_handler, true, "core dumps", DOCTOR_OK, "apport",
     NULL, NULL, ""},
};

static const struct doctor_finding *
find(const struct doctor_report *r, const char *topic)
{
    for (size_t i = 0; i < r->n_findings; i++)
        if (strcmp(r->findings[i].topic, topic) == 0)
            return &r->findings[i];
    return NULL;
}

static void
check_part(const char *name, const char *what, const char *text,
           const char *part)
{
    if (part == NULL)
        return;
    if (part[0] == '\0' ? text != NULL
                        : text == NULL || strstr(text, part) == NULL)
        fail_msg("%s: %s is \"%s\"", name, what, text);
}

static void
check_situation(const struct situation *s, const struct doctor_report *r)
{
    const struct doctor_finding *f = find(r, s->topic);

    assert_int_equal(r->can_run, s->expect_run);
    if (s->expect_what == NULL && s->expect_fix == NULL) {
        assert_null(f);
        return;
    }
    if (f == NULL || f->status != s->expect)
        fail_msg("%s: %s is %d", s->name, s->topic,
                 f != NULL ? (int)f->status : -1);
    check_part(s->name, "what", f->what, s->expect_what);
    check_part(s->name, "why", f->why, s->expect_why);
    check_part(s->name, "fix", f->fix, s->expect_fix);
    check_part(s->name, "command", f->command, s->expect_command);
}

/* Where cells can run nothing is marked as in their way; where they cannot,
   something is, and it says what to do, once. */
static void
check_report(const char *name, const struct doctor_report *r)
{
    size_t n_failures = 0;
    size_t n_fixes = 0;

    for (size_t i = 0; i < r->n_findings; i++) {
        const struct doctor_finding *f = &r->findings[i];

        assert_non_null(f->topic);
        assert_non_null(f->what);
        assert_true(f->what[0] != '\0');
        if (f->status == DOCTOR_FAIL) {
            n_failures++;
            n_fixes += f->fix != NULL;
        }
        if (f->status == DOCTOR_OK)
            assert_null(f->fix);
        for (size_t k = 0; k < i; k++)
            if (f->fix != NULL && r->findings[k].fix != NULL)
                assert_string_not_equal(f->fix, r->findings[k].fix);
    }
    if (r->can_run ? n_failures > 0 : n_fixes == 0)
        fail_msg("%s: %zu failures, %zu fixes", name, n_failures, n_fixes);
}

static void
test_findings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
        struct doctor_facts facts;
        struct doctor_report report;

        fill_good(&facts);
        situations[i].make(&facts);
        doctor_findings_make(&facts, &report);
        check_situation(&situations[i], &report);
        check_report(situations[i].name, &report);
        doctor_report_fini(&report);
        doctor_facts_fini(&facts);
    }
}

static void
test_nothing_known(void **state)
{
    struct doctor_facts facts = {0};
    struct doctor_report report;

    (void)state;
    doctor_findings_make(&facts, &report);
    assert_false(report.can_run);
    for (size_t i = 0; i < report.n_findings; i++)
        assert_non_null(report.findings[i].what);
    doctor_report_fini(&report);
}

static void
test_verdict(void **state)
{
    static const struct {
        void (*make)(struct doctor_facts *f);
        const char *expect;
    } cases[] = {
        {nothing, "cells can run"},
        {no_pandas, "cells can run; see what is marked warn"},
        {no_bwrap, "cells cannot run: see what is marked FAIL"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct doctor_facts facts;
        struct doctor_report report;
        char *verdict;

        fill_good(&facts);
        cases[i].make(&facts);
        doctor_findings_make(&facts, &report);
        verdict = doctor_verdict(&report);
        assert_string_equal(verdict, cases[i].expect);
        free(verdict);
        doctor_report_fini(&report);
        doctor_facts_fini(&facts);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings),
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_verdict),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
