/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/runs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"

#define MAX_FILE_BYTES ((size_t)256)

enum { MAX_ATTEMPTS = 100 };

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";

struct runs {
    char installation[RUNS_ID_BYTES + 1];
    char id[RUNS_ID_BYTES + 1];
    char *dir;   /* owned: of the files that are locked */
    int lock_fd; /* owned */
};

static bool
is_id(const char *text)
{
    return text != NULL && strlen(text) == RUNS_ID_BYTES &&
           strspn(text, alphabet) == RUNS_ID_BYTES;
}

static int
make_id(char id[RUNS_ID_BYTES + 1], struct error *err)
{
    unsigned char bytes[RUNS_ID_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_set_errno(err, ERR_INTERNAL, "getrandom");
    /* Some of the letters come a little more often; that does not matter. */
    for (size_t i = 0; i < RUNS_ID_BYTES; i++)
        id[i] = alphabet[bytes[i] % (sizeof(alphabet) - 1)];
    id[RUNS_ID_BYTES] = '\0';
    return 0;
}

/* ---- the installation -----------------------------------------------------
 */

/* 1: it is read; 0: there is none. */
static int
read_installation(const char *path, char id[RUNS_ID_BYTES + 1],
                  struct error *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_SBUF struct sbuf text = {0};
    AUTO_FREE char *word = NULL;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_all(fd, &text, err) < 0)
        return err_wrap(err, "%s", path);
    word = str_trim(text.data);
    if (!is_id(word))
        return err_set(err, ERR_DATA,
                       "%s does not hold an id of %d letters and digits; "
                       "remove it, and a new one is made",
                       path, RUNS_ID_BYTES);
    memcpy(id, word, RUNS_ID_BYTES + 1);
    return 1;
}

/* Gives the file its name when it is whole, and never takes the place of
   another. */
static int
write_installation(const char *path, const char *id, struct error *err)
{
    AUTO_FREE char *line = xasprintf("%s\n", id);
    struct io_new file;
    int rc = io_new_open(&file, path, err);

    if (rc == 0)
        rc = io_write_all(file.fd, line, strlen(line), err);
    if (rc == 0 && fsync(file.fd) < 0)
        rc = err_set_errno(err, ERR_IO, "%s", path);
    if (rc == 0)
        rc = io_new_keep(&file, err);
    io_new_close(&file);
    return rc;
}

static int
find_installation(struct runs *r, const char *dir, struct error *err)
{
    AUTO_FREE char *path = paths_join(dir, "installation");
    char id[RUNS_ID_BYTES + 1];
    struct error why = {0};
    int rc = read_installation(path, r->installation, err);

    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (make_id(id, err) < 0)
        return -1;
    if (write_installation(path, id, &why) == 0) {
        memcpy(r->installation, id, sizeof(id));
        return 0;
    }
    /* Another run may have made it meanwhile. */
    rc = read_installation(path, r->installation, err);
    if (rc == 0 && err != NULL)
        *err = why;
    return rc == 1 ? 0 : -1;
}

/* ---- runs -----------------------------------------------------------------
 */

/* Whether the file is there under its name: a run that cleans up has not taken
   it for one that a dead run has left. */
static bool
is_in_place(int fd, const char *path)
{
    struct stat by_fd;
    struct stat by_path;

    return fstat(fd, &by_fd) == 0 && lstat(path, &by_path) == 0 &&
           by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev;
}

static int
lock_run(struct runs *r, struct error *err)
{
    for (int i = 0; i < MAX_ATTEMPTS; i++) {
        AUTO_FREE char *path = NULL;
        AUTO_CLOSE int fd = -1;
        bool locked;

        if (make_id(r->id, err) < 0)
            return -1;
        path = paths_join(r->dir, r->id);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  0600);
        if (fd < 0)
            return err_set_errno(err, ERR_IO, "%s", path);
        locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked && errno != EWOULDBLOCK) {
            (void)err_set_errno(err, ERR_IO, "%s", path);
            unlink(path);
            return -1;
        }
        /* A run that cleans up may hold it for a moment, or have taken it away
           between open and flock: then another one. */
        if (locked && is_in_place(fd, path)) {
            r->lock_fd = take_fd(&fd);
            return 0;
        }
        unlink(path);
    }
    return err_set(err, ERR_IO, "%s: no file could be locked", r->dir);
}

static void
remove_if_dead(const struct runs *r, const char *id)
{
    AUTO_FREE char *path = paths_join(r->dir, id);
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink(path);
}

static void
clean_up(const struct runs *r)
{
    DIR *dir = opendir(r->dir);
    const struct dirent *entry;

    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        if (is_id(entry->d_name) && !str_eq(entry->d_name, r->id))
            remove_if_dead(r, entry->d_name);
    }
    closedir(dir);
}

bool
runs_is_alive(const struct runs *r, const char *id)
{
    AUTO_FREE char *path = NULL;
    AUTO_CLOSE int fd = -1;

    if (!is_id(id))
        return false;
    if (str_eq(id, r->id))
        return true;
    path = paths_join(r->dir, id);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno != ENOENT;
    /* Shared, so that runs that look at the same time see no lock of each
       other's. */
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

struct runs *
runs_open(const char *dir, struct error *err)
{
    struct runs *r = xcalloc(1, sizeof(*r));

    r->lock_fd = -1;
    r->dir = paths_join(dir, "runs");
    if (io_make_dirs(r->dir, err) < 0 || find_installation(r, dir, err) < 0 ||
        lock_run(r, err) < 0) {
        runs_close(r);
        return NULL;
    }
    clean_up(r);
    return r;
}

void
runs_close(struct runs *r)
{
    if (r == NULL)
        return;
    if (r->lock_fd >= 0) {
        AUTO_FREE char *path = paths_join(r->dir, r->id);

        unlink(path);
    }
    close_fd(&r->lock_fd);
    free(r->dir);
    free(r);
}

const char *
runs_installation(const struct runs *r)
{
    return r->installation;
}

const char *
runs_id(const struct runs *r)
{
    return r->id;
}
