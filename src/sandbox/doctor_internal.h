/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the doctor knows: facts, gathered by doctor_facts.c and by the trials of
 * doctor.c, and the findings that doctor_findings.c makes of them.
 */
#ifndef SANDBOX_DOCTOR_INTERNAL_H
#define SANDBOX_DOCTOR_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/doctor.h"
#include "sandbox/local.h"
#include "sandbox/local_system_internal.h"

struct local_env;

#define DOCTOR_MODULES 2 /* pandas, matplotlib */

enum doctor_trial { DOCTOR_NOT_TRIED, DOCTOR_WORKED, DOCTOR_FAILED };

/* A module of Python, as a cell found it. */
struct doctor_module {
    enum doctor_trial trial;
    char *text; /* owned: its version, or why it cannot be imported */
};

/* Zero is the state in which nothing is known. Strings are owned. */
struct doctor_facts {
    struct local_system system;
    enum local_isolation level; /* that is asked for, and no other is tried */

    char *machine; /* "x86_64" */
    bool has_filter;
    char *kernel;       /* "6.1.0-18-amd64" */
    int kernel_version; /* 601 */
    bool has_pidfd;
    bool has_openat2;
    int landlock_abi; /* 0: none */

    bool is_root;
    bool drops; /* root is given up for uid */
    uid_t uid;  /* that cells run as, seen from outside */
    char *identity_error;

    char *bwrap; /* NULL: bwrap_error says why */
    char *bwrap_error;
    uid_t bwrap_owner;
    bool bwrap_writable; /* by others than its owner */
    int bwrap_version;   /* 800 for 0.8.0; 0: not known */
    bool bwrap_asked;    /* for its version */
    char *bwrap_other;   /* what it says that it is: no bubblewrap; else NULL */

    char *warden; /* at LOCAL_REDUCED; NULL: warden_error says why */
    char *warden_error;

    char *mask; /* the mount that covers a part of /proc; NULL: none */

    char *python;
    char *python_error;
    char *python_version; /* "3.11.2"; NULL: not known */
    struct doctor_module modules[DOCTOR_MODULES];

    char *workspace; /* where directories for cells are made */
    char *workspace_error;
    uint64_t free_bytes;    /* UINT64_MAX: not known */
    uint64_t reserve_bytes; /* must stay free */
    bool noexec;

    int64_t n_tasks;   /* processes and threads of uid now */
    int64_t max_tasks; /* -1: no limit */
    int64_t max_files; /* that the program may have open; 0: not known, or no
                          limit */

    /* A control group around the interpreter that was tried. */
    enum doctor_trial scope;
    char *scope_why; /* there is none; partly text of systemd */

    char *helper; /* the program that draws; NULL: helper_error */
    char *helper_error;
    char *core_pattern; /* NULL: not known */

    /* /usr/bin/true with every argument of the sandbox. */
    enum doctor_trial sandbox;
    char *sandbox_says; /* what bubblewrap wrote, the last time */
    bool no_disable;    /* it went without --disable-userns */
    bool no_proc;       /* the level is without /proc */

    /* The interpreter, until it is ready, and a cell in it. */
    enum doctor_trial interpreter;
    char *interpreter_error;
    enum doctor_trial cell;
    char *cell_error;
};

/* Gathers all that can be read at once, and fills env: with a directory, as
   local_env_find would. What fails is a fact. */
void doctor_facts_gather(struct doctor_facts *facts, struct local_env *env,
                         const struct local_config *config, const char *helper);
void doctor_facts_fini(struct doctor_facts *facts);

/* "bubblewrap 0.8.0" as 800; 0 for what is none. A pure function. */
int doctor_parse_version(const char *text);

/* Takes what a program in the place of bubblewrap says to --version. Pure. */
void doctor_take_version(struct doctor_facts *facts, const char *said);

/* Takes the lines that the cell with doctor_cell_code printed. Pure. */
void doctor_take_modules(struct doctor_facts *facts, const char *printed);
extern const char doctor_cell_code[];
extern const char *const doctor_module_names[DOCTOR_MODULES];

/* What the facts mean. Pure; the report is owned by the caller. */
void doctor_findings_make(const struct doctor_facts *facts,
                          struct doctor_report *report);
void doctor_report_fini(struct doctor_report *report);

#endif
