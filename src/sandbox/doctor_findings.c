/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/doctor_internal.h"
#include "sandbox/local_advice_internal.h"
#include "sandbox/local_level_internal.h"

#define MAX_TEXT_BYTES 16384u
#define FEW_FILES 128   /* proc_start alone numbers them from 64 on */
#define FEW_TASKS 64    /* left to the user: bubblewrap and Python need some */
#define BWRAP_LEAST 700 /* 0.7.0 has --size */
#define BWRAP_WHOLE 800 /* 0.8.0 has --disable-userns */
/* Seen for root's files from a user namespace in which root is nobody. */
#define UNMAPPED_OWNER 65534
#define COUNTS_BY_NAMESPACE 514

/* --- making findings --- */

static struct doctor_finding *
add(struct doctor_report *r, enum doctor_status status, const char *topic)
{
    struct doctor_finding *f;

    r->findings = xgrow(r->findings, r->n_findings, sizeof(r->findings[0]));
    f = &r->findings[r->n_findings++];
    *f = (struct doctor_finding){.status = status, .topic = topic};
    return f;
}

__attribute__((format(printf, 1, 2))) static char *
text(const char *fmt, ...)
{
    struct sbuf sb;
    va_list ap;

    sbuf_init(&sb, MAX_TEXT_BYTES);
    va_start(ap, fmt);
    sbuf_vaddf(&sb, fmt, ap);
    va_end(ap);
    return sbuf_take(&sb);
}

/* The last line of what a program wrote; the caller owns it. */
static char *
last_line(const char *said)
{
    AUTO_FREE char *trimmed = str_trim(said);
    const char *feed = strrchr(trimmed, '\n');

    return xstrdup(feed != NULL ? feed + 1 : trimmed);
}

/* By a message of the start: its first line says what, its second has the
   fix. */
static void
fill_by_error(struct doctor_finding *f, const char *msg)
{
    const char *feed = strchr(msg, '\n');
    size_t len = feed != NULL ? (size_t)(feed - msg) : strlen(msg);

    /* "bubblewrap: is not installed" */
    if (str_starts(msg, f->topic) && msg[strlen(f->topic)] == ' ') {
        size_t known = strlen(f->topic) + 1;

        f->what = xstrndup(msg + known, len - known);
    } else {
        f->what = xstrndup(msg, len);
    }
    if (feed == NULL)
        return;
    feed++;
    f->fix = xstrdup(str_starts(feed, "fix: ") ? feed + strlen("fix: ") : feed);
}

static void
fill_by_advice(struct doctor_finding *f, const struct local_advice *advice)
{
    if (f->why == NULL)
        f->why = xstrdup(advice->why);
    f->fix = xstrdup(advice->fix);
    if (advice->command[0] != '\0')
        f->command = xstrdup(advice->command);
}

static void
fill_by_cause(struct doctor_finding *f, enum local_cause cause,
              const struct doctor_facts *facts)
{
    struct local_advice advice;

    local_advice_make(cause, &facts->system, &advice);
    fill_by_advice(f, &advice);
}

/* Whether bubblewrap failed, and for this cause. */
static bool
failed_for(const struct doctor_facts *facts, enum local_cause cause)
{
    struct local_advice found;
    struct local_advice wanted;

    if (facts->sandbox != DOCTOR_FAILED || facts->sandbox_says == NULL)
        return false;
    switch (local_advice_find(facts->sandbox_says, &facts->system, &found)) {
    case LOCAL_REMEDY_NO_DISABLE:
    case LOCAL_REMEDY_UNKNOWN:
        return false;
    case LOCAL_REMEDY_NONE:
    case LOCAL_REMEDY_NO_PROC:
        break;
    }
    local_advice_make(cause, &facts->system, &wanted);
    return str_eq(found.why, wanted.why);
}

/* --- the system --- */

static void
find_processor(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f =
        add(r, facts->has_filter ? DOCTOR_OK : DOCTOR_FAIL, "processor");

    f->what = text("%s", facts->machine != NULL ? facts->machine : "not known");
    if (facts->has_filter)
        return;
    f->why = text("there is no system call filter for it");
    f->fix = text("use a machine with x86-64 or aarch64");
}

static void
find_kernel(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_OK, "kernel");
    struct sbuf sb;

    sbuf_init(&sb, MAX_TEXT_BYTES);
    sbuf_addf(&sb, "Linux %s",
              facts->kernel != NULL ? facts->kernel : "(not known)");
    if (facts->landlock_abi > 0)
        sbuf_addf(&sb, ", Landlock ABI %d", facts->landlock_abi);
    else
        sbuf_add_str(&sb, ", without Landlock");
    f->what = sbuf_take(&sb);
    if (!facts->has_pidfd) {
        f->status = DOCTOR_FAIL;
        f->why = text("it has no pidfd_open, by which the sandbox is ended");
        f->fix = text("use Linux 5.3 or newer; 5.14 or newer is best");
    } else if (facts->kernel_version > 0 &&
               facts->kernel_version < COUNTS_BY_NAMESPACE) {
        f->status = DOCTOR_WARN;
        f->why = text("it counts the processes of cells together with all "
                      "others of the same user");
        f->fix = text("use Linux 5.14 or newer, or raise limits.processes");
    } else if (!facts->has_openat2) {
        f->status = DOCTOR_WARN;
        f->why = text("it has no openat2; files of cells are opened step by "
                      "step, which is slower");
        f->fix = text("use Linux 5.6 or newer, or a container whose filter "
                      "allows openat2");
    }
}

static const char *
container_name(enum local_container container)
{
    static const char *const names[] = {
        [LOCAL_CONTAINER_NONE] = NULL,
        [LOCAL_CONTAINER_DOCKER] = "in a Docker container",
        [LOCAL_CONTAINER_PODMAN] = "in a Podman container",
        [LOCAL_CONTAINER_LXC] = "in an LXC container",
        [LOCAL_CONTAINER_KUBERNETES] = "in a pod of Kubernetes",
        [LOCAL_CONTAINER_OTHER] = "in a container",
    };

    return names[container];
}

static void
find_system(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_OK, "system");
    const char *container = container_name(facts->system.container);
    const char *name = facts->system.name;

    f->what = text(
        "%s%s%s%s", name[0] != '\0' ? name : "a distribution without a name",
        container != NULL ? ", " : "", container != NULL ? container : "",
        facts->system.is_chroot ? ", in a chroot" : "");
}

static void
find_identity(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (facts->identity_error != NULL) {
        fill_by_error(add(r, DOCTOR_FAIL, "identity"), facts->identity_error);
        return;
    }
    f = add(r, DOCTOR_OK, "identity");
    if (facts->drops)
        f->what = text("cells run as user %lu: root is given up",
                       (unsigned long)facts->uid);
    else
        f->what =
            text("cells run as user %lu, as you do", (unsigned long)facts->uid);
}

/* --- the level, and who makes a sandbox of it --- */

static bool
is_reduced(const struct doctor_facts *facts)
{
    return facts->level == LOCAL_REDUCED;
}

static void
find_level(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_OK, "isolation");

    f->what = text("%s%s", local_isolation_name(facts->level),
                   is_reduced(facts) ? ": Landlock, without namespaces" : "");
}

static void
find_landlock(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct error err = {0};
    struct doctor_finding *f;

    if (!is_reduced(facts))
        return;
    if (local_level_check_landlock(facts->landlock_abi, &err) < 0) {
        fill_by_error(add(r, DOCTOR_FAIL, "Landlock"), err.msg);
        return;
    }
    f = add(r, DOCTOR_OK, "Landlock");
    f->what = text("ABI %d, which is enough", facts->landlock_abi);
}

static void
find_warden(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (!is_reduced(facts))
        return;
    if (facts->warden == NULL) {
        fill_by_error(add(r, DOCTOR_FAIL, "warden"), facts->warden_error != NULL
                                                         ? facts->warden_error
                                                         : "not looked for");
        return;
    }
    f = add(r, DOCTOR_OK, "warden");
    f->what = text("%s", facts->warden);
}

static void
add_other_program(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_FAIL, "bubblewrap");

    f->what = text("%s, which is not bubblewrap", facts->bwrap);
    f->why =
        facts->bwrap_other[0] != '\0'
            ? text("asked for its version it says: %.100s", facts->bwrap_other)
            : text("asked for its version it says nothing");
    f->fix = text("install bubblewrap there, or correct sandbox.bwrap in the "
                  "configuration, or leave it out: /usr/bin/bwrap and "
                  "/usr/local/bin/bwrap are then tried");
}

static void
find_bwrap(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (is_reduced(facts))
        return;
    if (facts->bwrap == NULL) {
        fill_by_error(add(r, DOCTOR_FAIL, "bubblewrap"),
                      facts->bwrap_error != NULL ? facts->bwrap_error
                                                 : "not looked for");
        return;
    }
    if (facts->bwrap_other != NULL) {
        add_other_program(facts, r);
        return;
    }
    f = add(r, DOCTOR_OK, "bubblewrap");
    if (facts->bwrap_version > 0)
        f->what = text(
            "%s, version %d.%d.%d", facts->bwrap, facts->bwrap_version / 10000,
            facts->bwrap_version / 100 % 100, facts->bwrap_version % 100);
    else
        f->what =
            text("%s%s", facts->bwrap,
                 facts->bwrap_asked ? ", which does not tell its version" : "");
    if (facts->bwrap_version > 0 && facts->bwrap_version < BWRAP_LEAST) {
        f->status = DOCTOR_FAIL;
        f->why = text("it cannot bound the private directories of cells "
                      "(--size), and they are not left unbounded");
        fill_by_cause(f, LOCAL_CAUSE_OLD_BWRAP, facts);
    } else if (facts->bwrap_asked && facts->bwrap_version == 0 &&
               facts->cell != DOCTOR_WORKED) {
        f->status = DOCTOR_FAIL;
        f->why = text("it may be another program");
        f->fix = text("run %s --version by hand", facts->bwrap);
    } else if (facts->bwrap_writable ||
               (facts->bwrap_owner != 0 && facts->bwrap_owner != facts->uid &&
                facts->bwrap_owner != UNMAPPED_OWNER)) {
        f->status = DOCTOR_WARN;
        f->why = text("others than root can change it (it belongs to user "
                      "%lu)",
                      (unsigned long)facts->bwrap_owner);
        f->fix = text("give it to root, with mode 755");
    } else if (facts->bwrap_version > 0 && facts->bwrap_version < BWRAP_WHOLE) {
        f->status = DOCTOR_WARN;
        f->why = text("it cannot forbid further user namespaces itself; the "
                      "system call filter does");
        f->fix = text("install bubblewrap 0.8.0 or newer when there is one");
    }
}

/* --- what the kernel allows --- */

static void
add_switch(struct sbuf *sb, const char *name, int64_t value)
{
    if (value < 0)
        return;
    sbuf_addf(sb, "%s%s is %lld", sb->len > 0 ? ", " : "", name,
              (long long)value);
}

/* Where the sandbox could be made, no switch was in the way. */
static void
find_namespaces(const struct doctor_facts *facts, struct doctor_report *r)
{
    const struct local_system *s = &facts->system;
    struct doctor_finding *f;
    struct sbuf sb;

    if (is_reduced(facts))
        return;
    f = add(r, DOCTOR_OK, "user namespaces");
    sbuf_init(&sb, MAX_TEXT_BYTES);
    add_switch(&sb, "user.max_user_namespaces", s->max_userns);
    add_switch(&sb, "kernel.unprivileged_userns_clone", s->userns_clone);
    if (sb.len == 0)
        sbuf_add_str(&sb, "the kernel tells nothing of them");
    f->what = sbuf_take(&sb);
    if (facts->sandbox == DOCTOR_WORKED)
        return;
    if (s->max_userns == 0) {
        f->status = DOCTOR_FAIL;
        fill_by_cause(f, LOCAL_CAUSE_USERNS_USED_UP, facts);
    } else if (s->userns_clone == 0 || s->is_chroot) {
        f->status = DOCTOR_FAIL;
        fill_by_cause(f, LOCAL_CAUSE_USERNS_DENIED, facts);
    }
}

static void
find_apparmor(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (facts->system.apparmor_restricts < 0 || is_reduced(facts))
        return;
    f = add(r, DOCTOR_OK, "AppArmor");
    if (facts->system.apparmor_restricts == 0) {
        f->what = text("user namespaces are not restricted");
        return;
    }
    f->what = text("user namespaces are restricted; the profile "
                   "bwrap-userns-restrict is %s",
                   facts->system.has_bwrap_profile ? "there" : "not there");
    if (!failed_for(facts, LOCAL_CAUSE_APPARMOR))
        return;
    f->status = DOCTOR_FAIL;
    fill_by_cause(f, LOCAL_CAUSE_APPARMOR, facts);
}

static void
find_proc(const struct doctor_facts *facts, struct doctor_report *r)
{
    bool failed = !is_reduced(facts) && failed_for(facts, LOCAL_CAUSE_NO_PROC);
    struct doctor_finding *f;

    /* A mount there need not be in the way. */
    if (!failed && !facts->no_proc)
        return;
    f = add(r, failed ? DOCTOR_FAIL : DOCTOR_WARN, "/proc");
    f->what = facts->mask != NULL ? text("a mount covers %s", facts->mask)
              : failed            ? text("it cannot be mounted anew")
                                  : text("left out, as is set");
    if (!failed)
        f->why = text("cells run without /proc, as well isolated; some of "
                      "Python's modules miss it");
    else
        fill_by_cause(f, LOCAL_CAUSE_NO_PROC, facts);
}

/* --- trials --- */

static void
add_failed_sandbox(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_FAIL, "sandbox");
    const char *says = facts->sandbox_says != NULL ? facts->sandbox_says : "";
    AUTO_FREE char *line = last_line(says);
    struct local_advice advice;
    enum local_remedy remedy = local_advice_find(says, &facts->system, &advice);

    f->what = line[0] != '\0'
                  ? text("could not be made: %.300s", line)
                  : text("could not be made, and %s said nothing",
                         is_reduced(facts) ? "the warden" : "bubblewrap");
    if (failed_for(facts, LOCAL_CAUSE_FILES_USED_UP))
        fill_by_advice(f, &advice);
    else if (is_reduced(facts))
        f->fix = text("install the program anew, with all its parts, or set "
                      "sandbox.isolation to full");
    else if (remedy == LOCAL_REMEDY_NONE || remedy == LOCAL_REMEDY_NO_PROC)
        fill_by_advice(f, &advice);
    else
        f->fix =
            text("run %s by hand to see why, or install it anew", facts->bwrap);
}

static void
find_sandbox(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    switch (facts->sandbox) {
    case DOCTOR_NOT_TRIED:
        f = add(r, DOCTOR_SKIPPED, "sandbox");
        f->what = text("not tried, since something else is missing");
        break;
    case DOCTOR_FAILED:
        add_failed_sandbox(facts, r);
        break;
    case DOCTOR_WORKED:
        f = add(r, DOCTOR_OK, "sandbox");
        if (is_reduced(facts)) {
            f->what = text("made by the warden, and a program ran in it");
            break;
        }
        if (!facts->no_disable) {
            f->what = text("made with every argument%s, and a program ran in "
                           "it",
                           facts->no_proc ? " but --proc" : "");
            break;
        }
        f->what = text("made without --disable-userns, and a program ran in "
                       "it");
        /* Of an old bubblewrap it has been said. */
        if (facts->bwrap_version > 0 && facts->bwrap_version < BWRAP_WHOLE)
            break;
        f->status = DOCTOR_WARN;
        f->why = text("this kernel lets bubblewrap not forbid further user "
                      "namespaces; the system call filter does");
        break;
    }
}

static void
find_python(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (facts->python == NULL) {
        fill_by_error(add(r, DOCTOR_FAIL, "Python"), facts->python_error != NULL
                                                         ? facts->python_error
                                                         : "not looked for");
        return;
    }
    f = add(r, DOCTOR_OK, "Python");
    f->what = facts->python_version != NULL
                  ? text("%s, version %s", facts->python, facts->python_version)
                  : text("%s", facts->python);
}

static void
find_interpreter(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (facts->interpreter == DOCTOR_NOT_TRIED)
        return;
    if (facts->interpreter == DOCTOR_FAILED) {
        f = add(r, DOCTOR_FAIL, "interpreter");
        fill_by_error(f, facts->interpreter_error != NULL
                             ? facts->interpreter_error
                             : "it did not begin");
        /* The start itself knew no better than to send the person here. */
        if (f->fix != NULL && strstr(f->fix, "--doctor") != NULL) {
            free(take_ptr(&f->fix));
            if (facts->bwrap_asked && facts->bwrap_version == 0)
                f->why = text("perhaps for what is said of bubblewrap above");
            else
                fill_by_cause(f, LOCAL_CAUSE_PYTHON_FAILS, facts);
        }
        return;
    }
    f = add(r, facts->cell == DOCTOR_WORKED ? DOCTOR_OK : DOCTOR_FAIL,
            "interpreter");
    if (facts->cell == DOCTOR_WORKED) {
        f->what = text("ready in the sandbox, and a cell ran in it");
        return;
    }
    f->what =
        text("ready in the sandbox, but no cell ran: %.300s",
             facts->cell_error != NULL ? facts->cell_error : "it did not end");
    f->fix = text("install Python anew, or name another interpreter as "
                  "sandbox.python in the configuration");
}

static void
find_modules(const struct doctor_facts *facts, struct doctor_report *r)
{
    for (size_t i = 0; i < DOCTOR_MODULES; i++) {
        const struct doctor_module *m = &facts->modules[i];
        struct doctor_finding *f;

        if (m->trial == DOCTOR_NOT_TRIED)
            continue;
        f = add(r, m->trial == DOCTOR_WORKED ? DOCTOR_OK : DOCTOR_WARN,
                doctor_module_names[i]);
        if (m->trial == DOCTOR_WORKED) {
            f->what = text("version %s", m->text);
            continue;
        }
        f->what = text("cannot be imported: %s", m->text);
        fill_by_cause(f, LOCAL_CAUSE_NO_MODULES, facts);
    }
}

/* --- room --- */

static void
find_workspace(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;
    AUTO_SBUF struct sbuf room = {0};

    if (facts->identity_error != NULL)
        return;
    if (facts->workspace == NULL) {
        fill_by_error(add(r, DOCTOR_FAIL, "workspace"),
                      facts->workspace_error != NULL ? facts->workspace_error
                                                     : "not looked for");
        return;
    }
    f = add(r, DOCTOR_OK, "workspace");
    sbuf_init(&room, 64);
    if (facts->free_bytes != UINT64_MAX)
        str_add_bytes(&room, facts->free_bytes);
    f->what =
        text("directories for cells are made below %s%s%s%s", facts->workspace,
             room.len > 0 ? ", " : "", room.data, room.len > 0 ? " free" : "");
    if (facts->free_bytes < 2 * facts->reserve_bytes) {
        AUTO_SBUF struct sbuf reserve = {0};

        f->status = DOCTOR_WARN;
        sbuf_init(&reserve, 64);
        str_add_bytes(&reserve, facts->reserve_bytes);
        f->why =
            text("a cell is stopped before less than %s is free", reserve.data);
        f->fix = text("make room there");
    } else if (facts->noexec) {
        f->status = DOCTOR_WARN;
        f->why = text("it is mounted with noexec: programs and modules that "
                      "cells make cannot be run");
        f->fix = text("mount %s without noexec, if cells are to do that",
                      facts->workspace);
    }
}

static void
find_tasks(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_OK, "processes");

    if (facts->max_tasks < 0) {
        f->what = text("user %lu has %lld, without a limit",
                       (unsigned long)facts->uid, (long long)facts->n_tasks);
        return;
    }
    f->what = text("user %lu has %lld of %lld", (unsigned long)facts->uid,
                   (long long)facts->n_tasks, (long long)facts->max_tasks);
    if (facts->max_tasks - facts->n_tasks >= FEW_TASKS)
        return;
    f->status = failed_for(facts, LOCAL_CAUSE_PROCESSES_USED_UP) ? DOCTOR_FAIL
                                                                 : DOCTOR_WARN;
    f->why = text("bubblewrap and Python need some more to begin");
    fill_by_cause(f, LOCAL_CAUSE_PROCESSES_USED_UP, facts);
}

static void
find_files(const struct doctor_facts *facts, struct doctor_report *r)
{
    bool failed = failed_for(facts, LOCAL_CAUSE_FILES_USED_UP);
    struct doctor_finding *f;

    if (!failed && (facts->max_files == 0 || facts->max_files >= FEW_FILES))
        return;
    f = add(r, failed ? DOCTOR_FAIL : DOCTOR_WARN, "open files");
    f->what = facts->max_files > 0
                  ? text("this program may have %lld at a time",
                         (long long)facts->max_files)
                  : text("there are no more to be had");
    f->why = text("a sandbox needs some more to begin");
    fill_by_cause(f, LOCAL_CAUSE_FILES_USED_UP, facts);
}

static void
find_memory(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f = add(r, DOCTOR_OK, "memory");

    switch (facts->scope) {
    case DOCTOR_NOT_TRIED:
        f->what = text("bounded by a look every 200 ms, or by a cgroup where "
                       "systemd makes one");
        break;
    case DOCTOR_WORKED:
        f->what = text("bounded by a cgroup that systemd has made");
        break;
    case DOCTOR_FAILED:
        f->what = text("bounded by a look every 200 ms; no cgroup: %.200s",
                       facts->scope_why != NULL ? facts->scope_why : "");
        break;
    }
}

static void
find_helper(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f =
        add(r, facts->helper != NULL ? DOCTOR_OK : DOCTOR_WARN, "charts");

    if (facts->helper != NULL) {
        f->what = text("drawn by %s", facts->helper);
        return;
    }
    f->what = text("the program that draws them is not there");
    f->why =
        facts->helper_error != NULL ? text("%s", facts->helper_error) : NULL;
    f->fix = text("install sandpiper as a whole; without it there is the path "
                  "of each chart");
}

static void
find_core_dumps(const struct doctor_facts *facts, struct doctor_report *r)
{
    struct doctor_finding *f;

    if (facts->core_pattern == NULL || facts->core_pattern[0] != '|')
        return;
    f = add(r, DOCTOR_OK, "core dumps");
    f->what = text("a program takes them (%.60s); it is never run for cells",
                   facts->core_pattern + 1);
}

/* --- all of them --- */

/* What is to be done is said once, where it was found first. */
static void
leave_out_repeated(struct doctor_report *r)
{
    for (size_t i = 1; i < r->n_findings; i++) {
        struct doctor_finding *f = &r->findings[i];
        const struct doctor_finding *first = NULL;

        for (size_t k = 0; f->fix != NULL && k < i && first == NULL; k++)
            if (str_eq(r->findings[k].fix, f->fix) &&
                str_eq(r->findings[k].command, f->command))
                first = &r->findings[k];
        if (first == NULL)
            continue;
        free(f->why);
        free(f->fix);
        free(f->command);
        f->fix = NULL;
        f->command = NULL;
        f->why = text("as said of %s above", first->topic);
    }
}

void
doctor_findings_make(const struct doctor_facts *facts,
                     struct doctor_report *report)
{
    static void (*const finders[])(const struct doctor_facts *,
                                   struct doctor_report *) = {
        find_system,     find_processor, find_kernel,      find_identity,
        find_level,      find_landlock,  find_warden,      find_bwrap,
        find_namespaces, find_apparmor,  find_proc,        find_workspace,
        find_tasks,      find_files,     find_memory,      find_core_dumps,
        find_sandbox,    find_python,    find_interpreter, find_modules,
        find_helper,
    };

    memset(report, 0, sizeof(*report));
    for (size_t i = 0; i < LEN(finders); i++)
        finders[i](facts, report);
    report->can_run = facts->cell == DOCTOR_WORKED;
    /* What did not stop a cell stops none. */
    for (size_t i = 0; report->can_run && i < report->n_findings; i++)
        if (report->findings[i].status == DOCTOR_FAIL)
            report->findings[i].status = DOCTOR_WARN;
    leave_out_repeated(report);
}

void
doctor_report_fini(struct doctor_report *report)
{
    for (size_t i = 0; i < report->n_findings; i++) {
        free(report->findings[i].what);
        free(report->findings[i].why);
        free(report->findings[i].fix);
        free(report->findings[i].command);
    }
    free(report->findings);
    memset(report, 0, sizeof(*report));
}

static bool
has(const struct doctor_report *report, enum doctor_status status)
{
    for (size_t i = 0; i < report->n_findings; i++)
        if (report->findings[i].status == status)
            return true;
    return false;
}

char *
doctor_verdict(const struct doctor_report *report)
{
    if (!report->can_run)
        return text("cells cannot run: see what is marked FAIL");
    if (has(report, DOCTOR_WARN))
        return text("cells can run; see what is marked warn");
    return text("cells can run");
}
