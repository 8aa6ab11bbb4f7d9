/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where things are: the user's directories by the XDG rules, and the program's
 * own files, in the build tree or where they were installed.
 */
#ifndef BASE_PATHS_H
#define BASE_PATHS_H

#include <stdbool.h>

#include "base/cleanup.h"

struct error;

/* All results are owned by the caller. XDG variables that are not absolute are
   ignored, as their specification says. */

/* $XDG_CONFIG_HOME/sandpiper or ~/.config/sandpiper. NULL without a home. */
char *paths_config_dir(void);

/* $XDG_STATE_HOME/sandpiper or ~/.local/state/sandpiper. NULL without a home.
 */
char *paths_state_dir(void);

/* The home directory: $HOME if absolute, else the user database; or NULL. */
char *paths_home(void);

/* path with a leading "~/" or "~" replaced by the home directory. */
char *paths_expand(const char *path);

/*
 * A helper program by its name: beside the running binary (build tree), else
 * in the libexec directory. Errors: ERR_IO, naming both places.
 */
WARN_UNUSED char *paths_helper(const char *name, struct error *err);

/*
 * A file of share/ by its name, such as "examples/sales.csv": in the build
 * tree's share/ when the binary runs from there, else in the data directory.
 * Errors: ERR_IO.
 */
WARN_UNUSED char *paths_data(const char *name, struct error *err);

/* dir + "/" + name. */
char *paths_join(const char *dir, const char *name);

/* The part after the last "/"; borrowed from path. */
const char *paths_base(const char *path);

/* The part before the last "/", which stays for the root; "." without one. */
char *paths_dir(const char *path);

/* True for "." and "..", which every directory lists. */
bool paths_is_dot(const char *name);

#endif
