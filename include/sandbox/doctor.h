/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The doctor of the local sandbox: looks at everything that it needs, makes one
 * of its own on trial, and reports what was found, why that matters, and what
 * to do about it on this system. It changes nothing and prints nothing, and a
 * sandbox that is open meanwhile is left alone.
 */
#ifndef SANDBOX_DOCTOR_H
#define SANDBOX_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

struct doctor;
struct local_config;
struct loop;
struct sandbox_limits;

enum doctor_status {
    DOCTOR_OK,
    DOCTOR_WARN,   /* cells can run, but not with everything */
    DOCTOR_FAIL,   /* no cell can run as it is */
    DOCTOR_SKIPPED /* not looked at, since something else is missing */
};

/* Texts may hold names of files and what other programs say: untrusted. */
struct doctor_finding {
    enum doctor_status status;
    const char *topic; /* static: "bubblewrap" */
    char *what;        /* owned: "/usr/bin/bwrap, version 0.8.0" */
    char *why;         /* owned; NULL: nothing to say */
    char *fix;         /* owned: what to do, in words; NULL: nothing */
    char *command;     /* owned: the same as a line for a shell; NULL: none */
};

struct doctor_report {
    struct doctor_finding *findings; /* owned */
    size_t n_findings;
    bool can_run; /* a cell has run */
};

typedef void (*doctor_done_fn)(void *ctx, const struct doctor_report *report);

/*
 * Begins. The settings are copied; helper is the name of the program that draws
 * pictures, as for paths_helper. done runs once, from the loop, with a report
 * that is borrowed for the call; the doctor may be freed in it. It takes less
 * than a second where all is well, and at most two minutes.
 */
struct doctor *doctor_start(struct loop *loop,
                            const struct local_config *config,
                            const struct sandbox_limits *limits,
                            const char *helper, doctor_done_fn done, void *ctx);

/* Ends what is on trial, without a callback if none came yet. NULL allowed. */
void doctor_free(struct doctor *d);

/* The verdict in one line: whether cells can run, and whether a finding is to
   be looked at. The caller owns it. */
char *doctor_verdict(const struct doctor_report *report);

#endif
