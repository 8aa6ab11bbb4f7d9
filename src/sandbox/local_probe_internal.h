/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the local sandbox is made from on this machine: bubblewrap, a Python
 * that the identity inside can run, that identity, and a private directory.
 * And what the messages of a bubblewrap that would not start mean.
 */
#ifndef SANDBOX_LOCAL_PROBE_INTERNAL_H
#define SANDBOX_LOCAL_PROBE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct error;
struct local_config;

#define LOCAL_ENV_MAX_BINDS 4
#define LOCAL_ENV_MAX_FONTS 4
#define LOCAL_DEFAULT_UID 61234

struct local_env {
    char *bwrap;  /* owned; absolute; NULL where the warden takes its place */
    char *warden; /* owned; absolute; NULL where bubblewrap is used */
    char *python; /* owned; as it is executed inside */

    /* Directories outside /usr that the interpreter needs; owned. */
    char *binds[LOCAL_ENV_MAX_BINDS];
    size_t n_binds;

    /* Lists of fonts that matplotlib has made before; owned. */
    char *fonts[LOCAL_ENV_MAX_FONTS];
    size_t n_fonts;

    bool drop; /* started as root: give up to uid and gid */
    uid_t uid;
    gid_t gid;

    char *dir;        /* owned; private, removed at the end */
    char *workspace;  /* owned; DIR/workspace */
    char *data;       /* owned; DIR/data, bound at /workspace/data */
    char *tmp;        /* owned; DIR/tmp; NULL where /tmp is a mount inside */
    int lock_fd;      /* of dir: held as long as it is in use */
    int workspace_fd; /* opened before anything ran */
    int data_fd;
};

/* Zero is the empty state but for the descriptors, which this sets to -1. */
void local_env_init(struct local_env *env);

/*
 * Finds and makes everything. Runs no program. Errors: ERR_SANDBOX, two lines:
 * the cause, and "fix: " with what to do.
 */
WARN_UNUSED int local_env_find(struct local_env *env,
                               const struct local_config *config,
                               struct error *err);

/*
 * The steps of it, in their order; each needs those before it. Errors as above.
 * The identity: whether root is to be given up, and for whom. bubblewrap: the
 * configured one (NULL: none), never by PATH. Python: one that the identity can
 * execute, and what it needs. The workspace: a fresh directory.
 */
WARN_UNUSED int local_env_find_identity(struct local_env *env,
                                        const struct local_config *config,
                                        struct error *err);
WARN_UNUSED int local_env_find_bwrap(struct local_env *env,
                                     const char *configured, struct error *err);
/* In the place of bubblewrap for LOCAL_REDUCED. */
WARN_UNUSED int local_env_find_warden(struct local_env *env,
                                      const char *configured,
                                      struct error *err);
WARN_UNUSED int local_env_find_python(struct local_env *env,
                                      const char *configured,
                                      struct error *err);
WARN_UNUSED int local_env_make_workspace(struct local_env *env,
                                         const char *configured,
                                         struct error *err);

/* Gives the directories their modes again, which cells may have changed: before
   each start. */
void local_env_mend(const struct local_env *env);

/* Removes the directory too. */
void local_env_fini(struct local_env *env);

/*
 * Opens path with the rights of the identity inside, so that root does not take
 * its own for granted. Returns a descriptor, or -1 with errno.
 */
WARN_UNUSED int local_env_open_as(const struct local_env *env, const char *path,
                                  int flags);

/* What to do about a start that failed. */
enum local_remedy {
    LOCAL_REMEDY_NONE,       /* err says why */
    LOCAL_REMEDY_NO_PROC,    /* the level without /proc; err says so */
    LOCAL_REMEDY_NO_DISABLE, /* again without --disable-userns */
    LOCAL_REMEDY_UNKNOWN     /* not one of the known messages */
};

/* text: what bubblewrap wrote on its standard error. Writes err, with the
   advice for this system, for LOCAL_REMEDY_NONE and LOCAL_REMEDY_NO_PROC. */
enum local_remedy local_probe_diagnose(const char *text, struct error *err);

#endif
