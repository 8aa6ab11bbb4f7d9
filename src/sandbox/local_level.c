/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_level_internal.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_warden_internal.h"
#include "warden/orders.h"

/* The same number on all architectures; headers may lack it. */
#define CALL_CREATE_RULESET 444
#define CREATE_RULESET_VERSION 1u

static const struct local_level levels[] = {
    [LOCAL_FULL] =
        {
            .name = "full",
            .own_mounts = true,
            .own_users = true,
            .end_ms = 1000,
            .add_args = local_bwrap_add_args,
        },
    [LOCAL_FULL_WITHOUT_PROC] =
        {
            .name = "full-without-proc",
            .no_proc = true,
            .own_mounts = true,
            .own_users = true,
            .end_ms = 1000,
            .add_args = local_bwrap_add_args,
        },
    [LOCAL_REDUCED] =
        {
            .name = "reduced",
            .has_life = true,
            .end_ms = 5000,
            .add_args = local_warden_add_orders,
        },
};

const struct local_level *
local_level(enum local_isolation isolation)
{
    return &levels[isolation];
}

const char *
local_isolation_name(enum local_isolation level)
{
    return levels[level].name;
}

bool
local_isolation_find(const char *name, enum local_isolation *level)
{
    for (size_t i = 0; i < LEN(levels); i++)
        if (name != NULL && strcmp(levels[i].name, name) == 0) {
            *level = (enum local_isolation)i;
            return true;
        }
    return false;
}

int
local_level_landlock(void)
{
    long abi = syscall(CALL_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);

    return abi > 0 ? (int)abi : 0;
}

int
local_level_check_landlock(int abi, struct error *err)
{
    if (abi >= WARDEN_LANDLOCK_ABI)
        return 0;
    if (abi <= 0)
        return err_set(err, ERR_SANDBOX,
                       "isolation level reduced needs Landlock ABI %d; this "
                       "system has none\n"
                       "fix: use Linux 6.12 or newer and start it with "
                       "landlock among the modules of lsm=, or set "
                       "sandbox.isolation to full",
                       WARDEN_LANDLOCK_ABI);
    return err_set(err, ERR_SANDBOX,
                   "isolation level reduced needs Landlock ABI %d; this system "
                   "has ABI %d, by which cells could signal other programs\n"
                   "fix: use Linux 6.12 or newer, or set sandbox.isolation to "
                   "full",
                   WARDEN_LANDLOCK_ABI, abi);
}
