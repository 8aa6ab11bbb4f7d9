/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Why a sandbox cannot be made, and what to do about it on the system at hand.
 * One table has what bubblewrap says; one function has the advice. Pure: it
 * reads nothing.
 */
#ifndef SANDBOX_LOCAL_ADVICE_INTERNAL_H
#define SANDBOX_LOCAL_ADVICE_INTERNAL_H

#include <stdbool.h>

#include "sandbox/local_probe_internal.h"

struct error;
struct local_system;

enum local_cause {
    LOCAL_CAUSE_NO_BWRAP,
    LOCAL_CAUSE_OLD_BWRAP,
    LOCAL_CAUSE_FILE_CAPS, /* bubblewrap's file has capabilities */
    LOCAL_CAUSE_APPARMOR,
    LOCAL_CAUSE_USERNS_DENIED,
    LOCAL_CAUSE_USERNS_USED_UP,
    LOCAL_CAUSE_USERNS_MISSING,
    LOCAL_CAUSE_MOUNTS_DENIED,
    LOCAL_CAUSE_MOUNTS_USED_UP,
    LOCAL_CAUSE_NO_PROC,
    LOCAL_CAUSE_PROCESSES_USED_UP,
    LOCAL_CAUSE_FILES_USED_UP, /* the limit of open files */
    LOCAL_CAUSE_NO_SECCOMP,
    LOCAL_CAUSE_NO_PYTHON,
    LOCAL_CAUSE_PYTHON_FAILS,
    LOCAL_CAUSE_NO_MODULES, /* pandas or matplotlib */
    LOCAL_N_CAUSES
};

#define LOCAL_ADVICE_BYTES 288

struct local_advice {
    const char *why;                  /* static: what is wrong */
    char fix[LOCAL_ADVICE_BYTES];     /* what to do, in words */
    char command[LOCAL_ADVICE_BYTES]; /* and as a line for a shell; or "" */
};

/* What is to be done about cause on this system. */
void local_advice_make(enum local_cause cause,
                       const struct local_system *system,
                       struct local_advice *advice);

/*
 * What a failed start means; text is what bubblewrap wrote on its standard
 * error. Sets *advice for LOCAL_REMEDY_NONE, and for LOCAL_REMEDY_NO_PROC,
 * which is tried only where the settings allow it.
 */
enum local_remedy local_advice_find(const char *text,
                                    const struct local_system *system,
                                    struct local_advice *advice);

/* As an error of two lines, ERR_SANDBOX. The value is -1. */
int local_advice_fail(const struct local_advice *advice, struct error *err);

#endif
