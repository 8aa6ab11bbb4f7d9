/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The command line of sandbox_driver: what an argument NAME=VALUE sets.
 */
#ifndef HELPERS_SANDBOX_OPTIONS_H
#define HELPERS_SANDBOX_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/local.h"
#include "sandbox/sandbox.h"

/* Strings are those of the arguments. */
struct sandbox_options {
    struct local_scope_config scope;
    struct local_config config;
    struct sandbox_limits limits;
    int64_t timeout_ms;
    bool count;
    bool no_stop;
};

/*
 * Takes the arguments as far as they are options. Returns the index of the
 * first other one, which may be "--". A value that cannot be ends the program
 * with status 2. Files to put are left to the caller.
 */
int sandbox_options_take(struct sandbox_options *o, int argc, char **argv);

/* Whether arg is NAME=VALUE; sets *value to what stands in it. */
bool sandbox_options_is(const char *arg, const char *name, const char **value);

/* SANDPIPER_WARDEN, else the one of the build tree; the caller frees it. */
char *sandbox_options_warden(void);

#endif
