/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local back end: bubblewrap, a system-call filter and resource limits
 * around a Python interpreter on this machine. It needs no account, runs as an
 * ordinary user, gives up root before anything else, and never runs a cell
 * unprotected. How well a cell is isolated is a level that the caller names: no
 * other is ever taken in its place.
 */
#ifndef SANDBOX_LOCAL_H
#define SANDBOX_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct loop;
struct sandbox_backend;
struct sandbox_limits;

enum local_isolation {
    LOCAL_FULL,              /* bubblewrap: namespaces of its own */
    LOCAL_FULL_WITHOUT_PROC, /* the same where no /proc can be mounted; some of
                                Python's modules miss it */
    LOCAL_REDUCED /* Landlock, without namespaces: see docs/security.md */
};

/* What a level is called: "full-without-proc". Static. */
const char *local_isolation_name(enum local_isolation level);

/* The level of that name; false when there is none. */
bool local_isolation_find(const char *name, enum local_isolation *level);

/* For a test that has its own; NULL: the system's. */
struct local_scope_config {
    const char *busctl; /* /usr/bin/busctl */
    const char *bus; /* the socket of the user's bus; the system's for root */
    const char *cgroups; /* /sys/fs/cgroup */
    const char *proc;    /* /proc, for the files PID/cgroup alone */
    int64_t wait_ms;     /* 0: how long a start waits for it at most */
};

struct local_config {
    enum local_isolation isolation;
    const char *bwrap;  /* NULL: /usr/bin/bwrap, /usr/local/bin/bwrap */
    const char *warden; /* for LOCAL_REDUCED; NULL: sandpiper-warden beside this
                           program, or in its libexec directory */
    const char *python; /* NULL: /usr/bin/python3, then PATH */

    /* Where the workspace directory is made; for root it must be reachable for
       the dropped uid. NULL: a fresh directory below /tmp. */
    const char *parent_dir;

    bool drop_uid_set; /* a configured identity for when the program is root */
    uid_t drop_uid;

    /* For tests; borrowed as long as the back end lives. */
    const struct local_scope_config *scope;

    bool on_terminal; /* plots are prepared at once, not after a pause */

    /* Size for which figures are made; 0: matplotlib's own. */
    int figure_width_px;
    int figure_height_px;
    int figure_dpi;
};

/*
 * Nothing is started before open. config and limits are copied. The program
 * must ignore SIGPIPE: an interpreter may end while it is written to. A failed
 * open gives ERR_SANDBOX with cause and fix in one or two lines: the first line
 * says why no cell can run, the second begins with "fix: ".
 */
struct sandbox_backend *local_new(struct loop *loop,
                                  const struct local_config *config,
                                  const struct sandbox_limits *limits);

#endif
