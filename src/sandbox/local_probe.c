/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_probe_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/local.h"
#include "sandbox/local_advice_internal.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_system_internal.h"

#define LOG_MODULE "sandbox"

#define ROOT_PARENT "/var/lib/sandpiper"
#define DIR_PREFIX "sandpiper-"
#define NEW_PREFIX "new-sandpiper-"
#define RANDOM_CHARACTERS 6 /* of mkdtemp */

#define WORKSPACE_MODE 0700
#define DATA_MODE 0755

/* Directories of killed programs: this old, and this many at a time. */
#define STALE_SECONDS 60
#define MAX_STALE 4

/* Cells can make a tree that takes hours to remove: what is left after this is
   for a later start, which gives it its time, too. */
#define REMOVE_MS 10000
#define REMOVE_STALE_MS 1000

#define MAX_GROUPS 1024
#define MAX_ID 4294967294 /* the one above means "no change" to the kernel */
#define MAX_PYVENV_BYTES 65536u
#define MAX_UID_MAP_BYTES 65536u
#define SYSTEM_PYTHON "/usr/bin/python3"

/* Fixed places only: a program of that name elsewhere in PATH may be anybody's.
 */
static const char *const bwrap_paths[] = {"/usr/bin/bwrap",
                                          "/usr/local/bin/bwrap"};

void
local_env_init(struct local_env *env)
{
    memset(env, 0, sizeof(*env));
    env->lock_fd = -1;
    env->workspace_fd = -1;
    env->data_fd = -1;
}

void
local_env_fini(struct local_env *env)
{
    struct error err = {0};

    close_fd(&env->workspace_fd);
    close_fd(&env->data_fd);
    if (env->dir != NULL &&
        io_remove_tree_within(env->dir, REMOVE_MS, &err) < 0)
        LOG_WARN("removing the workspace: %s", err.msg);
    close_fd(&env->lock_fd);
    for (size_t i = 0; i < env->n_binds; i++)
        free(env->binds[i]);
    for (size_t i = 0; i < env->n_fonts; i++)
        free(env->fonts[i]);
    free(env->bwrap);
    free(env->warden);
    free(env->python);
    free(env->dir);
    free(env->workspace);
    free(env->data);
    free(env->tmp);
    local_env_init(env);
}

/* With the advice for the system that this is. */
static int
fail_for(enum local_cause cause, struct error *err)
{
    struct local_system system;
    struct local_advice advice;

    local_system_read(&system);
    local_advice_make(cause, &system, &advice);
    return local_advice_fail(&advice, err);
}

enum local_remedy
local_probe_diagnose(const char *text, struct error *err)
{
    struct local_system system;
    struct local_advice advice;
    enum local_remedy remedy;

    local_system_read(&system);
    remedy = local_advice_find(text, &system, &advice);
    if (remedy == LOCAL_REMEDY_NONE || remedy == LOCAL_REMEDY_NO_PROC)
        local_advice_fail(&advice, err);
    return remedy;
}

/*
 * Raw calls: they change this thread alone, and only for file access, where the
 * C library would change every thread. Groups of root must not count either.
 */
int
local_env_open_as(const struct local_env *env, const char *path, int flags)
{
    gid_t groups[MAX_GROUPS];
    int n_groups;
    int saved;
    int fd;

    if (!env->drop)
        return open(path, flags | O_CLOEXEC);
    n_groups = getgroups(MAX_GROUPS, groups);
    if (n_groups < 0 || syscall(SYS_setgroups, 0, NULL) != 0)
        return -1;
    setfsgid(env->gid);
    setfsuid(env->uid);
    fd = open(path, flags | O_CLOEXEC);
    saved = errno;
    setfsuid(geteuid());
    setfsgid(getegid());
    if (syscall(SYS_setgroups, n_groups, groups) != 0)
        LOG_WARN("groups could not be set again");
    errno = saved;
    return fd;
}

/* Whether the identity inside may reach and execute a regular file. */
static bool
can_execute(const struct local_env *env, const char *path)
{
    AUTO_CLOSE int fd = local_env_open_as(env, path, O_PATH);
    struct stat st;
    uid_t uid = env->drop ? env->uid : geteuid();

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (!env->drop)
        return access(path, X_OK) == 0;
    if (st.st_uid == uid)
        return (st.st_mode & S_IXUSR) != 0;
    if (st.st_gid == env->gid)
        return (st.st_mode & S_IXGRP) != 0;
    return (st.st_mode & S_IXOTH) != 0;
}

/* A path out of the configuration that cannot be used. */
static int
fail_configured_bwrap(const char *path, const char *why, struct error *err)
{
    return err_set(err, ERR_SANDBOX,
                   "sandbox.bwrap: %.200s %s\n"
                   "fix: install bubblewrap there, correct the path in the "
                   "configuration, or leave it out: /usr/bin/bwrap and "
                   "/usr/local/bin/bwrap are then tried",
                   path, why);
}

int
local_env_find_bwrap(struct local_env *env, const char *configured,
                     struct error *err)
{
    const char *found = configured;
    struct stat st;

    if (configured != NULL && configured[0] != '/')
        return fail_configured_bwrap(configured, "is no absolute path", err);
    for (size_t i = 0; found == NULL && i < LEN(bwrap_paths); i++)
        if (stat(bwrap_paths[i], &st) == 0 && S_ISREG(st.st_mode))
            found = bwrap_paths[i];
    if (found == NULL)
        return fail_for(LOCAL_CAUSE_NO_BWRAP, err);
    if (stat(found, &st) != 0)
        return fail_configured_bwrap(found, "is not there", err);
    if (!S_ISREG(st.st_mode))
        return fail_configured_bwrap(found, "is no program", err);
    if ((st.st_mode & (S_ISUID | S_ISGID)) != 0)
        return err_set(err, ERR_SANDBOX,
                       "%.160s is set-uid, which is not safe "
                       "(CVE-2026-41163)\n"
                       "fix: %schmod u-s,g-s %.160s",
                       found, geteuid() != 0 ? "sudo " : "", found);
    if (!can_execute(env, found))
        return err_set(err, ERR_SANDBOX,
                       "%.160s cannot be executed%s\n"
                       "fix: %schmod 755 %.160s, and let everybody pass "
                       "through its directories",
                       found,
                       env->drop ? " by the user that cells get, since root "
                                   "is given up"
                                 : "",
                       geteuid() != 0 ? "sudo " : "", found);
    env->bwrap = xstrdup(found);
    return 0;
}

int
local_env_find_warden(struct local_env *env, const char *configured,
                      struct error *err)
{
    struct error why = {0};
    AUTO_FREE char *found = configured != NULL
                                ? xstrdup(configured)
                                : paths_helper("sandpiper-warden", &why);

    if (found == NULL)
        return err_set(err, ERR_SANDBOX,
                       "%.400s\n"
                       "fix: install the program anew, with all its parts",
                       why.msg);
    if (found[0] != '/' || !can_execute(env, found))
        return err_set(err, ERR_SANDBOX,
                       "%s cannot be executed by who runs cells\n"
                       "fix: install the program where everybody can reach it",
                       found);
    env->warden = take_ptr(&found);
    return 0;
}

/* The program that makes a sandbox of the level. */
static int
find_maker(struct local_env *env, const struct local_config *config,
           struct error *err)
{
    if (config->isolation != LOCAL_REDUCED)
        return local_env_find_bwrap(env, config->bwrap, err);
    if (local_level_check_landlock(local_level_landlock(), err) < 0)
        return -1;
    return local_env_find_warden(env, config->warden, err);
}

/* --- identity --- */

/* Who is who outside of our user namespace. */
struct uid_map {
    bool zero_is_zero;
    bool has_other; /* the uid that was asked for exists here */
};

static struct uid_map
read_uid_map(uid_t other)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error ignored = {0};
    struct uid_map map = {0};
    const char *line;

    sbuf_init(&text, MAX_UID_MAP_BYTES);
    if (io_read_file("/proc/self/uid_map", &text, &ignored) < 0)
        return (struct uid_map){true, true};
    for (line = text.data; line != NULL && line[0] != '\0';
         line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        char *end;
        unsigned long inside = strtoul(line, &end, 10);
        unsigned long outside = strtoul(end, &end, 10);
        unsigned long n = strtoul(end, &end, 10);

        map.zero_is_zero |= inside == 0 && outside == 0 && n > 0;
        map.has_other |= other >= inside && other - inside < n;
    }
    return map;
}

int
local_env_find_identity(struct local_env *env,
                        const struct local_config *config, struct error *err)
{
    struct uid_map map;
    const char *sudo_uid = getenv("SUDO_UID");
    const char *sudo_gid = getenv("SUDO_GID");
    int64_t n;
    struct error ignored = {0};
    struct stat st;

    env->drop = geteuid() == 0;
    if (!env->drop)
        return 0;
    env->uid = LOCAL_DEFAULT_UID;
    env->gid = LOCAL_DEFAULT_UID;
    if (config->drop_uid_set && config->drop_uid != 0) {
        env->uid = config->drop_uid;
        env->gid = config->drop_uid;
    } else if (sudo_uid != NULL &&
               str_to_int(sudo_uid, 1, MAX_ID, &n, &ignored) == 0) {
        env->uid = (uid_t)n;
        env->gid = (gid_t)n;
        if (sudo_gid != NULL &&
            str_to_int(sudo_gid, 1, MAX_ID, &n, &ignored) == 0)
            env->gid = (gid_t)n;
    } else if (config->parent_dir != NULL &&
               stat(config->parent_dir, &st) == 0 && st.st_uid != 0) {
        env->uid = st.st_uid;
        env->gid = st.st_gid != 0 ? st.st_gid : st.st_uid;
    }
    map = read_uid_map(env->uid);
    if (map.zero_is_zero && !map.has_other)
        return err_set(err, ERR_SANDBOX,
                       "root cannot be given up here: this container has no "
                       "user %lu, and root's cells would not be confined\n"
                       "fix: give the container more user ids, or set "
                       "sandbox.drop_uid to one that it has",
                       (unsigned long)env->uid);
    /* The root of "unshare -r" is an ordinary user with a fine name: nothing
       of the system belongs to it. */
    env->drop = map.zero_is_zero || map.has_other;
    return 0;
}

/* --- the interpreter --- */

static bool
is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 &&
           (path[len] == '/' || path[len] == '\0' || len == 1);
}

/*
 * Adds a directory that the interpreter needs. Refused when it would show the
 * home directory, or more.
 */
static int
add_bind(struct local_env *env, const char *dir, struct error *err)
{
    AUTO_FREE char *home = paths_home();
    AUTO_FREE char *home_real = home != NULL ? realpath(home, NULL) : NULL;

    if (is_below(dir, "/usr"))
        return 0;
    if (strcmp(dir, "/") == 0)
        return err_set(err, ERR_SANDBOX,
                       "%.200s would show the whole system to cells\n"
                       "fix: configure a Python in a directory of its own",
                       env->python);
    for (size_t i = 0; i < env->n_binds; i++)
        if (is_below(dir, env->binds[i]))
            return 0;
    if ((home != NULL && is_below(home, dir)) ||
        (home_real != NULL && is_below(home_real, dir)) ||
        env->n_binds == LOCAL_ENV_MAX_BINDS)
        return err_set(err, ERR_SANDBOX,
                       "%.200s would show the home directory to cells\n"
                       "fix: configure a Python in a directory of its own",
                       env->python);
    env->binds[env->n_binds++] = xstrdup(dir);
    return 0;
}

/* The base installation of a virtual environment: "home = DIR/bin". NULL when
   dir is none. The caller owns it. */
static char *
venv_home(const char *dir)
{
    AUTO_FREE char *path = paths_join(dir, "pyvenv.cfg");
    AUTO_SBUF struct sbuf text = {0};
    struct error ignored = {0};
    char *rest;
    char *line;

    sbuf_init(&text, MAX_PYVENV_BYTES);
    if (io_read_file(path, &text, &ignored) < 0)
        return NULL;
    rest = text.data;
    for (line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char *equals = strchr(line, '=');
        AUTO_FREE char *key = NULL;

        if (equals == NULL)
            continue;
        *equals = '\0';
        key = str_trim(line);
        if (strcmp(key, "home") == 0)
            return str_trim(equals + 1);
    }
    return NULL;
}

static bool
is_program(const char *path)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char magic[4];

    /* A script of that name (pyenv's shims) needs its shell and its home. */
    return fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
           memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

/* Why it cannot be an interpreter; NULL: it can. */
static const char *
refuse_python(const struct local_env *env, const char *python, const char *real)
{
    if (python[0] != '/')
        return "is no absolute path";
    if (real == NULL)
        return errno == EACCES ? "cannot be reached" : "is not there";
    if (!can_execute(env, python))
        return env->drop ? "cannot be run by the user that cells get, since "
                           "root is given up"
                         : "cannot be executed";
    return is_program(real) ? NULL : "is a script, not the program itself";
}

/* True when python can be used; its directories are then in env. */
static bool
try_python(struct local_env *env, const char *python, struct error *err)
{
    AUTO_FREE char *real = realpath(python, NULL);
    const char *why = refuse_python(env, python, real);
    AUTO_FREE char *bin = NULL;
    AUTO_FREE char *prefix = NULL;
    AUTO_FREE char *base_bin = NULL;
    AUTO_FREE char *base = NULL;
    AUTO_FREE char *home_bin = NULL;

    if (why != NULL) {
        error_fill(err, ERR_SANDBOX,
                   "%.200s %s\n"
                   "fix: name an interpreter of Python 3.8 or newer by its "
                   "absolute path, or leave it out: " SYSTEM_PYTHON
                   " is then taken",
                   python, why);
        return false;
    }
    while (env->n_binds > 0)
        free(env->binds[--env->n_binds]);
    free(env->python);
    env->python = xstrdup(python);
    bin = paths_dir(python);
    prefix = paths_dir(bin);
    base_bin = paths_dir(real);
    base = paths_dir(base_bin);
    if (strcmp(bin, "/bin") != 0 && add_bind(env, prefix, err) < 0)
        return false;
    if (add_bind(env, base, err) < 0)
        return false;
    home_bin = venv_home(prefix);
    if (home_bin != NULL && home_bin[0] == '/') {
        AUTO_FREE char *home = paths_dir(home_bin);

        return add_bind(env, home, err) == 0;
    }
    return true;
}

static bool
try_path(struct local_env *env, struct error *err)
{
    const char *path = getenv("PATH");
    AUTO_FREE char *copy = xstrdup(path != NULL ? path : "");
    char *rest = copy;
    char *dir;

    for (dir = strsep(&rest, ":"); dir != NULL; dir = strsep(&rest, ":")) {
        AUTO_FREE char *python = paths_join(dir, "python3");

        if (dir[0] == '/' && try_python(env, python, err))
            return true;
    }
    return false;
}

int
local_env_find_python(struct local_env *env, const char *configured,
                      struct error *err)
{
    struct error last = {0};

    if (configured != NULL) {
        if (try_python(env, configured, err))
            return 0;
        return err_wrap(err, "sandbox.python");
    }
    if (try_python(env, SYSTEM_PYTHON, &last) || try_path(env, &last))
        return 0;
    return fail_for(LOCAL_CAUSE_NO_PYTHON, err);
}

/* Only the user's own: what lies in a cache of root could not be reached, and
   what a sandbox wrote is never taken back. */
static void
find_fonts(struct local_env *env)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    AUTO_FREE char *home = paths_home();
    AUTO_FREE char *dir_path = NULL;
    struct dirent *entry;
    DIR *dir;

    if (env->drop)
        return;
    if (cache != NULL && cache[0] == '/')
        dir_path = paths_join(cache, "matplotlib");
    else if (home != NULL)
        dir_path = paths_join(home, ".cache/matplotlib");
    dir = dir_path != NULL ? opendir(dir_path) : NULL;
    if (dir == NULL)
        return;
    for (entry = readdir(dir);
         entry != NULL && env->n_fonts < LOCAL_ENV_MAX_FONTS;
         entry = readdir(dir))
        if (str_starts(entry->d_name, "fontlist-v") &&
            str_ends(entry->d_name, ".json"))
            env->fonts[env->n_fonts++] = paths_join(dir_path, entry->d_name);
    closedir(dir);
}

/* --- the directory --- */

static int
give_away(const struct local_env *env, const char *path, struct error *err)
{
    if (env->drop && lchown(path, env->uid, env->gid) != 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", path);
    return 0;
}

/*
 * Whether name in parent is a directory of ours that nobody uses any more:
 * whose lock is free. One that is being made has no lock yet, but has another
 * name until then; only its age tells.
 */
static bool
is_stale(const struct local_env *env, int parent_fd, const char *name)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    bool is_new = str_starts(name, NEW_PREFIX) &&
                  strlen(name) == strlen(NEW_PREFIX) + RANDOM_CHARACTERS;

    if (!is_new && (!str_starts(name, DIR_PREFIX) ||
                    strlen(name) != strlen(DIR_PREFIX) + RANDOM_CHARACTERS))
        return false;
    fd = openat(parent_fd, name,
                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 &&
           st.st_uid == (env->drop ? env->uid : geteuid()) &&
           (!is_new || clock_wall_ms() / 1000 - st.st_ctime > STALE_SECONDS) &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* What a program that was killed could not remove. */
static void
remove_stale(const struct local_env *env, const char *parent)
{
    DIR *dir = opendir(parent);
    struct error err = {0};
    struct dirent *entry;
    int left = MAX_STALE;

    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL && left > 0;
         entry = readdir(dir)) {
        AUTO_FREE char *path = NULL;

        if (!is_stale(env, dirfd(dir), entry->d_name))
            continue;
        left--;
        path = paths_join(parent, entry->d_name);
        if (io_remove_tree_within(path, REMOVE_STALE_MS, &err) < 0)
            LOG_WARN("removing an old workspace: %s", err.msg);
    }
    closedir(dir);
}

/* A fresh directory below parent; NULL when that is not possible, or not
   reachable for the identity inside. */
static char *
make_dir_in(struct local_env *env, const char *parent)
{
    AUTO_FREE char *path = xasprintf("%s/" NEW_PREFIX "XXXXXX", parent);
    AUTO_FREE char *final = NULL;
    AUTO_CLOSE int fd = -1;
    struct error err = {0};

    if (mkdtemp(path) == NULL)
        return NULL;
    if (give_away(env, path, &err) == 0)
        fd = local_env_open_as(env, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        rmdir(path);
        return NULL;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        LOG_WARN("%s cannot be locked", path);
    /* Under its last name it has always been locked. */
    final = xasprintf("%s/" DIR_PREFIX "%s", parent,
                      path + strlen(path) - RANDOM_CHARACTERS);
    if (rename(path, final) != 0) {
        rmdir(path);
        return NULL;
    }
    env->lock_fd = take_fd(&fd);
    remove_stale(env, parent);
    return take_ptr(&final);
}

static char *
make_dir(struct local_env *env, const char *configured)
{
    char *dir = NULL;
    struct error ignored = {0};

    if (configured != NULL && configured[0] == '/' &&
        io_make_dirs(configured, &ignored) == 0)
        dir = make_dir_in(env, configured);
    /* Below /var/lib others may pass, not list. */
    if (dir == NULL && env->drop &&
        (mkdir(ROOT_PARENT, 0711) == 0 || errno == EEXIST))
        dir = make_dir_in(env, ROOT_PARENT);
    if (dir == NULL)
        dir = make_dir_in(env, "/tmp");
    return dir;
}

static int
open_dir(const char *path, mode_t mode, int *fd, struct error *err)
{
    if (mkdir(path, mode) != 0 || chmod(path, mode) != 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", path);
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return err_set_errno(err, ERR_SANDBOX, "%s", path);
    return 0;
}

int
local_env_make_workspace(struct local_env *env, const char *configured,
                         struct error *err)
{
    /* The warden makes no mounts. */
    bool own_mounts = env->warden == NULL;
    AUTO_FREE char *output = NULL;
    AUTO_FREE char *mount = NULL;

    env->dir = make_dir(env, configured);
    if (env->dir == NULL)
        return err_set(err, ERR_SANDBOX,
                       "no directory for the workspace can be made\n"
                       "fix: make /tmp writable");
    env->workspace = paths_join(env->dir, "workspace");
    env->data = paths_join(env->dir, "data");
    output = paths_join(env->workspace, "output");
    mount = paths_join(env->workspace, "data");
    /* The data stays ours: cells get it through a read-only mount. */
    if (open_dir(env->workspace, WORKSPACE_MODE, &env->workspace_fd, err) < 0 ||
        open_dir(env->data, DATA_MODE, &env->data_fd, err) < 0)
        return -1;
    if (mkdir(output, 0700) != 0 || (own_mounts && mkdir(mount, 0700) != 0))
        return err_set_errno(err, ERR_SANDBOX, "%s", env->workspace);
    if (give_away(env, env->workspace, err) < 0 ||
        give_away(env, output, err) < 0)
        return -1;
    if (own_mounts)
        return give_away(env, mount, err);
    env->tmp = paths_join(env->dir, "tmp");
    return 0;
}

void
local_env_mend(const struct local_env *env)
{
    if (fchmod(env->workspace_fd, WORKSPACE_MODE) != 0 ||
        fchmod(env->data_fd, DATA_MODE) != 0)
        LOG_WARN("the modes of the workspace cannot be set");
}

int
local_env_find(struct local_env *env, const struct local_config *config,
               struct error *err)
{
    local_env_fini(env);
    if (local_env_find_identity(env, config, err) < 0 ||
        find_maker(env, config, err) < 0 ||
        local_env_find_python(env, config->python, err) < 0 ||
        local_env_make_workspace(env, config->parent_dir, err) < 0) {
        local_env_fini(env);
        return -1;
    }
    find_fonts(env);
    return 0;
}
