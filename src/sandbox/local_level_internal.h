/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * In what the levels of isolation differ. Each row of the table says by which
 * program a sandbox of the level is made and how; what is common to all (pipes,
 * limits, identity, the ways to interrupt and to end it) is in local_bwrap.c.
 */
#ifndef SANDBOX_LOCAL_LEVEL_INTERNAL_H
#define SANDBOX_LOCAL_LEVEL_INTERNAL_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "sandbox/local.h"

struct error;
struct local_bwrap_spec;
struct local_env;
struct sbuf;

struct local_level {
    const char *name; /* in settings and sentences */
    bool no_proc;
    bool own_mounts; /* cells see what is bound, under the names of inside */
    bool own_users;  /* limits of processes count the sandbox alone */
    bool has_life;   /* its maker watches a pipe of ours */
    int end_ms;      /* what the end of all processes may take */

    /* Adds what the maker is told. A pure function of spec, the number of CPUs
       and TZ. */
    void (*add_args)(struct sbuf *args, const struct local_bwrap_spec *spec,
                     int n_cpus, const char *tz);
};

const struct local_level *local_level(enum local_isolation isolation);

/* Whether Landlock, of which the system has version abi (0: none), is enough
   for LOCAL_REDUCED. Errors: ERR_SANDBOX, in two lines. A pure function. */
WARN_UNUSED int local_level_check_landlock(int abi, struct error *err);

/* The version of Landlock that the system has; 0: none. */
int local_level_landlock(void);

#endif
