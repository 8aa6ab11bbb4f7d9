/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The command line of sandbox_driver: what an argument NAME=VALUE sets.
 */
#ifndef HELPERS_SANDBOX_OPTIONS_H
#define HELPERS_SANDBOX_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"
#include "sandbox/e2b.h"
#include "sandbox/local.h"
#include "sandbox/sandbox.h"

struct loop;

/* Most of each that may be given several times. */
#define SANDBOX_OPTIONS_MANY 16

/* Strings are those of the arguments, but for those of lists. */
struct sandbox_options {
    bool is_e2b; /* else it is the local one */
    struct e2b_config e2b;
    struct secret *key; /* owned, as all lists are, and e2b.key_source */
    const char *key_command;
    struct e2b_env envs[SANDBOX_OPTIONS_MANY];
    struct http_extra_header headers[SANDBOX_OPTIONS_MANY];
    struct secret *values[SANDBOX_OPTIONS_MANY]; /* of the headers */
    const char *hosts[SANDBOX_OPTIONS_MANY];
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

/* Before the loop of the back ends, and after these. */
void sandbox_options_fini(struct sandbox_options *o);

/* The back end that they ask for. One that cannot be made ends the program with
   status 2. */
struct sandbox_backend *sandbox_options_backend(struct sandbox_options *o,
                                                struct loop *loop);

/* Whether arg is NAME=VALUE; sets *value to what stands in it. */
bool sandbox_options_is(const char *arg, const char *name, const char **value);

/* SANDPIPER_WARDEN, else the one of the build tree; the caller frees it. */
char *sandbox_options_warden(void);

#endif
