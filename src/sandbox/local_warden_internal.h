/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What sandpiper-warden is told at the level "reduced": the same view of the
 * system as bubblewrap's arguments give, with the names that things have
 * outside.
 */
#ifndef SANDBOX_LOCAL_WARDEN_INTERNAL_H
#define SANDBOX_LOCAL_WARDEN_INTERNAL_H

#include "base/cleanup.h"

struct error;
struct local_bwrap_spec;
struct local_env;
struct sbuf;

/* As local_level.add_args; with the command. */
void local_warden_add_orders(struct sbuf *orders,
                             const struct local_bwrap_spec *spec, int n_cpus,
                             const char *tz);

/*
 * Before each start: makes an empty directory for temporary files, and lets the
 * name "data" in the workspace lead to the data again. Errors: ERR_SANDBOX.
 */
WARN_UNUSED int local_warden_prepare(const struct local_env *env,
                                     struct error *err);

#endif
