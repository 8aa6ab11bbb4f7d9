/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"

#define MAX_SAME_SECOND 1000

struct session {
    char *path;       /* owned */
    const char *name; /* borrowed: from path */
    int lock_fd;      /* owned */
    bool keep;
};

/* Makes a directory that was not there; its path, or NULL. */
static char *
make_dir(const char *parent, struct error *err)
{
    for (int n = 0; n < MAX_SAME_SECOND; n++) {
        AUTO_FREE char *name = clock_wall_name(n);
        AUTO_FREE char *path = paths_join(parent, name);

        if (mkdir(path, 0700) == 0)
            return take_ptr(&path);
        if (errno != EEXIST) {
            error_fill_errno(err, ERR_IO, "%s", path);
            return NULL;
        }
    }
    error_fill(err, ERR_IO, "%s: too many sessions in one second", parent);
    return NULL;
}

struct session *
session_new(const char *parent, struct error *err)
{
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *lock = NULL;
    AUTO_CLOSE int fd = -1;
    struct session *s = NULL;

    if (io_make_dirs(parent, err) < 0)
        return NULL;
    path = make_dir(parent, err);
    if (path == NULL)
        return NULL;
    lock = paths_join(path, "lock");
    fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        error_fill_errno(err, ERR_IO, "%s", lock);
        rmdir(path);
        return NULL;
    }
    s = xcalloc(1, sizeof(*s));
    s->path = take_ptr(&path);
    s->name = paths_base(s->path);
    s->lock_fd = take_fd(&fd);
    return s;
}

void
session_free(struct session *s)
{
    if (s == NULL)
        return;
    if (!s->keep) {
        AUTO_FREE char *lock = paths_join(s->path, "lock");

        unlink(lock);
        rmdir(s->path);
    }
    close(s->lock_fd);
    free(s->path);
    free(s);
}

const char *
session_path(const struct session *s)
{
    return s->path;
}

const char *
session_name(const struct session *s)
{
    return s->name;
}

void
session_keep(struct session *s)
{
    s->keep = true;
}
