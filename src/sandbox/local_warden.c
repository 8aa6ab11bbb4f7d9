/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_warden_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "sandbox/local_bwrap_internal.h"
#include "sandbox/local_probe_internal.h"
#include "warden/orders.h"

#define TMP_MODE 0700
#define REMOVE_MS 500
#define MAX_OLD_TMP 8u
#define KERNEL_PATH "/proc/self/fd/12"

_Static_assert((int)LOCAL_FD_LIFE == (int)WARDEN_FD_LIFE &&
                   (int)LOCAL_FD_ARGS == (int)WARDEN_FD_ORDERS &&
                   (int)LOCAL_FD_SECCOMP == (int)WARDEN_FD_FILTER &&
                   (int)LOCAL_FD_KERNEL == (int)WARDEN_FD_KERNEL,
               "both programs mean the same descriptors");

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full",
                                      "/dev/random", "/dev/urandom"};

static const char fontconfig_cache[] = "/var/cache/fontconfig";

static void
add(struct sbuf *orders, const char *word, const char *value)
{
    sbuf_add(orders, word, strlen(word) + 1);
    sbuf_add(orders, value, strlen(value) + 1);
}

static void
set_env(struct sbuf *orders, const char *name, const char *value)
{
    AUTO_FREE char *text = xasprintf("%s=%s", name, value);

    add(orders, WARDEN_ENVIRONMENT, text);
}

static void
add_rules(struct sbuf *orders, const struct local_env *env)
{
    add(orders, WARDEN_READ, "/usr");
    for (size_t i = 0; i < LOCAL_N_SYSTEM_DIRS; i++)
        add(orders, WARDEN_READ, local_bwrap_system_dirs[i]);
    for (size_t i = 0; i < LOCAL_N_ETC_FILES; i++)
        add(orders, WARDEN_READ, local_bwrap_etc_files[i]);
    add(orders, WARDEN_READ, fontconfig_cache);
    for (size_t i = 0; i < LEN(devices); i++)
        add(orders, WARDEN_DEVICE, devices[i]);
    for (size_t i = 0; i < env->n_binds; i++)
        add(orders, WARDEN_READ, env->binds[i]);
    for (size_t i = 0; i < env->n_fonts; i++)
        add(orders, WARDEN_READ, env->fonts[i]);
    add(orders, WARDEN_READ, env->data);
    add(orders, WARDEN_WRITE, env->workspace);
    add(orders, WARDEN_WRITE, env->tmp);
}

static void
add_environment(struct sbuf *orders, const struct local_env *env, int n_cpus,
                const char *tz)
{
    AUTO_FREE char *mpl = paths_join(env->tmp, "mpl");
    char cpus[16];

    snprintf(cpus, sizeof(cpus), "%d", n_cpus);
    set_env(orders, "PATH", "/usr/bin:/bin");
    set_env(orders, "HOME", env->tmp);
    set_env(orders, "TMPDIR", env->tmp);
    /* There is no made-up list of users to be found in. */
    set_env(orders, "USER", "sandbox");
    set_env(orders, "LOGNAME", "sandbox");
    set_env(orders, "LANG", "C.UTF-8");
    if (local_bwrap_tz_ok(tz))
        set_env(orders, "TZ", tz);
    set_env(orders, "MPLBACKEND", "agg");
    set_env(orders, "MPLCONFIGDIR", mpl);
    set_env(orders, "OMP_NUM_THREADS", cpus);
    set_env(orders, "OPENBLAS_NUM_THREADS", cpus);
    set_env(orders, "PYTHONDONTWRITEBYTECODE", "1");
    set_env(orders, "SANDPIPER_WORKSPACE", env->workspace);
}

void
local_warden_add_orders(struct sbuf *orders,
                        const struct local_bwrap_spec *spec, int n_cpus,
                        const char *tz)
{
    add_rules(orders, spec->env);
    add_environment(orders, spec->env, n_cpus, tz);
    add(orders, WARDEN_DIRECTORY, spec->env->workspace);
    if (spec->processes > 0) {
        AUTO_FREE char *number = xasprintf("%d", spec->processes);

        add(orders, WARDEN_PROCESSES, number);
    }
    if (spec->command != NULL) {
        add(orders, WARDEN_RUN, spec->command);
        return;
    }
    add(orders, WARDEN_RUN, spec->env->python);
    add(orders, WARDEN_RUN, "-I");
    /* The sealed source, which has no name on any disk. */
    add(orders, WARDEN_RUN, KERNEL_PATH);
}

static int
give_away(const struct local_env *env, const char *path, struct error *err)
{
    if (env->drop && lchown(path, env->uid, env->gid) != 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", path);
    return 0;
}

static int
make_tmp(const struct local_env *env, struct error *err)
{
    AUTO_FREE char *mpl = paths_join(env->tmp, "mpl");

    if (mkdir(env->tmp, TMP_MODE) != 0 || mkdir(mpl, TMP_MODE) != 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", env->tmp);
    for (size_t i = 0; i < env->n_fonts; i++) {
        AUTO_FREE char *link = paths_join(mpl, paths_base(env->fonts[i]));

        /* Without it the list is made anew. */
        (void)!symlink(env->fonts[i], link);
    }
    return give_away(env, env->tmp, err) < 0 || give_away(env, mpl, err) < 0
               ? -1
               : 0;
}

/* Out of the way at once; what takes too long to remove goes with the directory
   that it is in. */
static int
clear_tmp(const struct local_env *env, struct error *err)
{
    struct error ignored = {0};

    for (unsigned i = 0; i < MAX_OLD_TMP; i++) {
        AUTO_FREE char *old = xasprintf("%s-%u", env->tmp, i);

        if (io_remove_tree_within(old, REMOVE_MS, &ignored) < 0)
            continue;
        if (rename(env->tmp, old) == 0)
            (void)!io_remove_tree_within(old, REMOVE_MS, &ignored);
        else if (errno != ENOENT)
            break;
        return 0;
    }
    return err_set_errno(err, ERR_SANDBOX, "%s", env->tmp);
}

int
local_warden_prepare(const struct local_env *env, struct error *err)
{
    if (clear_tmp(env, err) < 0)
        return -1;
    if (make_tmp(env, err) < 0)
        return -1;
    /* Without it files are still found under their own names. */
    (void)!symlinkat("../data", env->workspace_fd, "data");
    return 0;
}
