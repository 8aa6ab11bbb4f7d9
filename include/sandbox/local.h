/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The local back end: bubblewrap, a system-call filter and resource limits
 * around a Python interpreter on this machine. It needs no account, runs as an
 * ordinary user, gives up root before anything else, and never runs a cell
 * unprotected.
 */
#ifndef SANDBOX_LOCAL_H
#define SANDBOX_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct loop;
struct sandbox_backend;
struct sandbox_limits;

struct local_config {
    const char *bwrap;  /* NULL: /usr/bin/bwrap, /usr/local/bin/bwrap */
    const char *python; /* NULL: /usr/bin/python3, then PATH */

    /* Where the workspace directory is made; for root it must be reachable for
       the dropped uid. NULL: a fresh directory below /tmp. */
    const char *parent_dir;

    bool drop_uid_set; /* a configured identity for when the program is root */
    uid_t drop_uid;

    /* Where no /proc can be mounted, run without one instead of refusing: as
       well isolated, but some of Python's modules miss it. */
    bool without_proc;

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
