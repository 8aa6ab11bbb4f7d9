/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/paths.h"

#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* The build gives these; so that the file also compiles by itself: */
#ifndef PKGDATADIR
#define PKGDATADIR "/usr/local/share/sandpiper"
#endif
#ifndef PKGLIBEXECDIR
#define PKGLIBEXECDIR "/usr/local/libexec/sandpiper"
#endif

#define PROGRAM_NAME "sandpiper"

/* configure leaves this beside the program that make builds. */
#define BUILD_MARK "config.status"

/* Most bytes that are asked of the user database for one entry. */
#define MAX_PASSWD_BYTES (1024 * 1024)

static char *
read_home_entry(void)
{
    size_t size = 1024;
    char *home = NULL;

    while (home == NULL && size <= MAX_PASSWD_BYTES) {
        AUTO_FREE char *buf = xmalloc(size);
        struct passwd entry;
        struct passwd *found = NULL;
        int rc = getpwuid_r(getuid(), &entry, buf, size, &found);

        if (rc == 0 && (found == NULL || found->pw_dir == NULL ||
                        found->pw_dir[0] != '/')) {
            return NULL;
        }
        if (rc == 0) {
            home = xstrdup(found->pw_dir);
        }
        size *= 4;
    }
    return home;
}

/* The program's directory below $variable, or below ~/fallback. */
static char *
make_xdg_dir(const char *variable, const char *fallback)
{
    const char *base = getenv(variable);
    AUTO_FREE char *home = NULL;
    AUTO_FREE char *dir = NULL;

    if (base != NULL && base[0] == '/') {
        return paths_join(base, PROGRAM_NAME);
    }
    home = paths_home();
    if (home == NULL) {
        return NULL;
    }
    dir = paths_join(home, fallback);
    return paths_join(dir, PROGRAM_NAME);
}

/* The directory of the running binary; NULL without /proc. */
static char *
find_exe_dir(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
    const char *slash;

    if (n <= 0 || (size_t)n >= sizeof(path)) {
        return NULL;
    }
    slash = memrchr(path, '/', (size_t)n);
    if (slash == NULL) {
        return NULL;
    }
    /* The root directory is "" here, which paths_join makes "/" of. */
    return xstrndup(path, (size_t)(slash - path));
}

static bool
is_build_dir(const char *exe_dir)
{
    AUTO_FREE char *mark = NULL;

    if (exe_dir == NULL) {
        return false;
    }
    mark = paths_join(exe_dir, BUILD_MARK);
    return access(mark, F_OK) == 0;
}

/* dir/name if that can be used as mode (of access) says, else NULL. */
static char *
find_in(const char *dir, const char *name, int mode)
{
    AUTO_FREE char *path = paths_join(dir, name);

    return access(path, mode) == 0 ? take_ptr(&path) : NULL;
}

char *
paths_config_dir(void)
{
    return make_xdg_dir("XDG_CONFIG_HOME", ".config");
}

char *
paths_state_dir(void)
{
    return make_xdg_dir("XDG_STATE_HOME", ".local/state");
}

char *
paths_home(void)
{
    const char *home = getenv("HOME");

    return home != NULL && home[0] == '/' ? xstrdup(home) : read_home_entry();
}

char *
paths_expand(const char *path)
{
    AUTO_FREE char *home = NULL;

    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0')) {
        return xstrdup(path);
    }
    home = paths_home();
    if (home == NULL) {
        return xstrdup(path);
    }
    return path[1] == '\0' ? take_ptr(&home) : paths_join(home, path + 2);
}

/* A build tree never falls back on what is installed: that may be of another
   version. */
char *
paths_helper(const char *name, struct error *err)
{
    AUTO_FREE char *exe_dir = find_exe_dir();
    bool in_build = is_build_dir(exe_dir);
    char *path = find_in(in_build ? exe_dir : PKGLIBEXECDIR, name, X_OK);

    if (path != NULL) {
        return path;
    }
    if (in_build) {
        error_fill_errno(err, ERR_IO,
                         "%s: not built in %s, nor looked for in %s", name,
                         exe_dir, PKGLIBEXECDIR);
    } else {
        error_fill_errno(err, ERR_IO, "%s: not in %s, and %s is no build tree",
                         name, PKGLIBEXECDIR,
                         exe_dir == NULL ? "(unknown)" : exe_dir);
    }
    return NULL;
}

char *
paths_data(const char *name, struct error *err)
{
    AUTO_FREE char *exe_dir = find_exe_dir();
    AUTO_FREE char *build_share = NULL;
    char *path;

    if (!is_build_dir(exe_dir)) {
        path = find_in(PKGDATADIR, name, R_OK);
        if (path == NULL) {
            error_fill_errno(err, ERR_IO, "%s: not in %s", name, PKGDATADIR);
        }
        return path;
    }
    build_share = paths_join(exe_dir, "share");
    path = find_in(build_share, name, R_OK);
    if (path == NULL) {
        error_fill_errno(err, ERR_IO, "%s: not in %s", name, build_share);
    }
    return path;
}

char *
paths_join(const char *dir, const char *name)
{
    size_t len = strlen(dir);

    while (len > 0 && dir[len - 1] == '/') {
        len--;
    }
    return xasprintf("%.*s/%s", (int)len, dir, name);
}

const char *
paths_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

char *
paths_dir(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return xstrdup(".");
    }
    return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool
paths_is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}
