/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"

#define CHUNK_BYTES (16 * 1024)
#define COPY_CHUNK_BYTES (256 * 1024)
#define TEMPORARY_NAME ".sandpiper-XXXXXX"

/* copy_file_range takes more than this, but signals should be seen. */
#define RANGE_BYTES (64 * 1024 * 1024)

/* --- reading and writing --- */

static int
wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do {
        n = poll(&p, 1, -1);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

/* read, through EINTR and EAGAIN. */
static ssize_t
read_some(int fd, void *buf, size_t size)
{
    for (;;) {
        ssize_t n = read(fd, buf, size);

        if (n >= 0) {
            return n;
        }
        if (errno == EAGAIN) {
            if (wait_for(fd, POLLIN) < 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

static int
write_whole(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (wait_for(fd, POLLOUT) < 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

int
io_read_all(int fd, struct sbuf *sb, struct error *err)
{
    char chunk[CHUNK_BYTES];
    ssize_t n;
    int rc = 0;

    do {
        n = read_some(fd, chunk, sizeof(chunk));
        if (n < 0) {
            rc = err_set_errno(err, ERR_IO, "reading");
        } else if (n > 0) {
            sbuf_add(sb, chunk, (size_t)n);
            if (!sbuf_ok(sb)) {
                rc =
                    err_set(err, ERR_TOO_LARGE, "more than %zu bytes", sb->max);
            }
        }
    } while (n > 0 && rc == 0);
    /* It may have been a file with a key. */
    explicit_bzero(chunk, sizeof(chunk));
    return rc;
}

int
io_read_file(const char *path, struct sbuf *sb, struct error *err)
{
    /* Not blocking: the open of a FIFO would wait for a writer. */
    AUTO_CLOSE int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_set_errno(err, ERR_IO, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_IO, "%s: not a regular file", path);
    }
    if (io_read_all(fd, sb, err) < 0) {
        return err_wrap(err, "%s", path);
    }
    return 0;
}

int
io_write_all(int fd, const void *data, size_t len, struct error *err)
{
    if (write_whole(fd, data, len) < 0) {
        return err_set_errno(err, ERR_IO, "writing");
    }
    return 0;
}

/* --- replacing a file --- */

static int
sync_directory(const char *dir)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    /* Some file systems have no sync for directories. */
    return fsync(fd) < 0 && errno != EINVAL ? -1 : 0;
}

static int
write_temporary(char *temporary, const void *data, size_t len, mode_t mode)
{
    int fd = mkostemp(temporary, O_CLOEXEC);
    int saved;

    if (fd < 0) {
        return -1;
    }
    if (write_whole(fd, data, len) == 0 && fchmod(fd, mode) == 0 &&
        fsync(fd) == 0) {
        if (close(fd) == 0) {
            return 0;
        }
        fd = -1;
    }
    saved = errno;
    cleanup_close(&fd);
    unlink(temporary);
    errno = saved;
    return -1;
}

int
io_replace(const char *path, const void *data, size_t len, mode_t mode,
           struct error *err)
{
    AUTO_FREE char *dir = paths_dir(path);
    AUTO_FREE char *temporary = xasprintf("%s/" TEMPORARY_NAME, dir);
    int saved;

    if (write_temporary(temporary, data, len, mode) < 0) {
        return err_set_errno(err, ERR_IO, "writing %s", path);
    }
    if (rename(temporary, path) < 0) {
        saved = errno;
        unlink(temporary);
        errno = saved;
        return err_set_errno(err, ERR_IO, "replacing %s", path);
    }
    if (sync_directory(dir) < 0) {
        return err_set_errno(err, ERR_IO, "syncing %s", dir);
    }
    return 0;
}

/* --- new files --- */

/* A file without a name, which goes away unless it is given one. */
static int
open_unnamed(const char *dir)
{
    AUTO_CLOSE int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char link[64];

    if (fd < 0) {
        return -1;
    }
    /* It could not be given one. */
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (access(link, F_OK) < 0) {
        return -1;
    }
    return take_fd(&fd);
}

int
io_new_open(struct io_new *f, const char *path, struct error *err)
{
    AUTO_FREE char *dir = paths_dir(path);
    AUTO_FREE char *temporary = NULL;
    struct stat st;

    *f = (struct io_new){.fd = -1};
    if (lstat(path, &st) == 0) {
        return err_set(err, ERR_IO, "%s is there already; name another file",
                       path);
    }
    if (str_ends(path, "/")) {
        errno = ENOTDIR;
        return err_set_errno(err, ERR_IO, "%s", path);
    }
    f->fd = open_unnamed(dir);
    if (f->fd < 0) {
        temporary = xasprintf("%s/" TEMPORARY_NAME, dir);
        f->fd = mkostemp(temporary, O_CLOEXEC);
        if (f->fd < 0) {
            return err_set_errno(err, ERR_IO, "%s", path);
        }
        f->temporary = take_ptr(&temporary);
    }
    f->path = xstrdup(path);
    return 0;
}

/* Where neither a rename that spares files nor a second name is possible, the
   name is taken first by an empty file. */
static int
rename_over_own(const char *from, const char *to)
{
    AUTO_CLOSE int fd =
        open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    int saved;

    if (fd < 0) {
        return -1;
    }
    if (rename(from, to) == 0) {
        return 0;
    }
    saved = errno;
    unlink(to);
    errno = saved;
    return -1;
}

static int
rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
        return -1;
    }
    return rename_over_own(from, to);
}

int
io_new_keep(struct io_new *f, struct error *err)
{
    char link[64];
    int rc;

    if (f->temporary) {
        rc = rename_new(f->temporary, f->path);
    } else {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", f->fd);
        rc = linkat(AT_FDCWD, link, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW);
    }
    if (rc < 0 && errno == EEXIST) {
        return err_set(err, ERR_IO, "%s is there already; name another file",
                       f->path);
    }
    if (rc < 0) {
        return err_set_errno(err, ERR_IO, "%s", f->path);
    }
    free(f->temporary);
    f->temporary = NULL;
    return 0;
}

void
io_new_close(struct io_new *f)
{
    if (f->temporary) {
        unlink(f->temporary);
    }
    free(f->temporary);
    free(f->path);
    cleanup_close(&f->fd);
    *f = (struct io_new){.fd = -1};
}

/* --- directories --- */

static int
make_dir(const char *path, struct error *err)
{
    struct stat st;
    int saved;

    if (mkdir(path, 0700) == 0) {
        return 0;
    }
    saved = errno;
    /* Not only EEXIST: a file system that is read-only says EROFS first. */
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return 0;
        }
        saved = ENOTDIR;
    }
    errno = saved;
    return err_set_errno(err, ERR_IO, "making directory %s", path);
}

int
io_make_dirs(const char *path, struct error *err)
{
    AUTO_FREE char *part = xstrdup(path);
    char *end = part;
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return 0;
    }
    while (*end) {
        char kept;

        end += strspn(end, "/");
        end += strcspn(end, "/");
        kept = *end;
        *end = '\0';
        if (make_dir(part, err) < 0) {
            return -1;
        }
        *end = kept;
        end += strspn(end, "/");
    }
    return *path ? 0 : err_set(err, ERR_IO, "making directory: empty name");
}

/* What remains to say after a tree has been removed as far as possible. */
struct removal {
    int dir_fd; /* the top of the tree; borrowed */
    unsigned n_moved;
    bool progress;
    int sys_errno;    /* of the first failure in this pass, or 0 */
    int64_t limit_ms; /* as clock_now_ms */
    bool late;        /* past it */
};

static void
note_failure(struct removal *r)
{
    if (r->sys_errno == 0) {
        r->sys_errno = errno;
    }
}

static bool
is_late(struct removal *r)
{
    if (!r->late && clock_now_ms() > r->limit_ms) {
        r->late = true;
    }
    return r->late;
}

/* A directory that its owner made unusable is made usable, by a descriptor
   that did not follow a link. Failure shows in what comes next. */
static void
unlock_directory(int at, const char *name)
{
    AUTO_CLOSE int fd =
        openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char link[64];

    if (fd >= 0) {
        int rc;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        rc = chmod(link, 0700);
        (void)rc;
    }
}

static DIR *
open_directory(int at, const char *name)
{
    const int flags =
        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    AUTO_CLOSE int fd = openat(at, name, flags);
    struct stat st;
    DIR *dir;

    if (fd < 0 && errno == EACCES) {
        unlock_directory(at, name);
        fd = openat(at, name, flags);
    }
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        int rc = fchmod(fd, 0700);

        (void)rc;
    }
    dir = fdopendir(fd);
    if (dir) {
        take_fd(&fd);
    }
    return dir;
}

/*
 * A directory inside a directory moves to the top of the tree. This way neither
 * the stack nor the number of descriptors grows with the depth, which whoever
 * made the tree could choose.
 */
static void
move_to_top(struct removal *r, int at, const char *name)
{
    for (;;) {
        char target[32];
        struct stat st;

        snprintf(target, sizeof(target), ".removed-%u", r->n_moved++);
        if (fstatat(r->dir_fd, target, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            continue;
        }
        if (renameat(at, name, r->dir_fd, target) == 0) {
            r->progress = true;
            return;
        }
        if (errno != EACCES) {
            break;
        }
        /* A move changes "..", for which the directory must be writable. */
        unlock_directory(at, name);
        if (renameat(at, name, r->dir_fd, target) == 0) {
            r->progress = true;
            return;
        }
        break;
    }
    note_failure(r);
}

static void
empty_directory(struct removal *r, const char *name)
{
    DIR *dir = open_directory(r->dir_fd, name);
    const struct dirent *entry;

    if (!dir) {
        note_failure(r);
        return;
    }
    for (entry = readdir(dir); entry && !is_late(r); entry = readdir(dir)) {
        if (paths_is_dot(entry->d_name)) {
            continue;
        }
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0) {
            r->progress = true;
        } else if (errno == EISDIR) {
            move_to_top(r, dirfd(dir), entry->d_name);
        } else {
            note_failure(r);
        }
    }
    closedir(dir);
}

static void
remove_entry(struct removal *r, const char *name)
{
    if (unlinkat(r->dir_fd, name, 0) == 0) {
        r->progress = true;
        return;
    }
    if (errno != EISDIR) {
        note_failure(r);
        return;
    }
    empty_directory(r, name);
    if (unlinkat(r->dir_fd, name, AT_REMOVEDIR) == 0) {
        r->progress = true;
    } else {
        note_failure(r);
    }
}

/* Passes over the top until one removes nothing. */
static int
empty_tree(DIR *top, int64_t limit_ms)
{
    struct removal r = {.dir_fd = dirfd(top), .limit_ms = limit_ms};
    const struct dirent *entry;

    do {
        r.progress = false;
        r.sys_errno = 0;
        rewinddir(top);
        for (entry = readdir(top); entry && !is_late(&r);
             entry = readdir(top)) {
            if (!paths_is_dot(entry->d_name)) {
                remove_entry(&r, entry->d_name);
            }
        }
    } while (r.progress && !r.late);
    errno = r.late ? ETIMEDOUT : r.sys_errno;
    return errno != 0 ? -1 : 0;
}

static int
remove_tree(const char *path, int64_t limit_ms, struct error *err)
{
    AUTO_FREE char *name = xstrdup(path);
    size_t len = strlen(name);
    DIR *top;
    int rc;
    int saved;

    /* With a slash at the end a link would be followed. */
    while (len > 1 && name[len - 1] == '/') {
        name[--len] = '\0';
    }
    top = open_directory(AT_FDCWD, name);
    if (!top) {
        if (errno == ENOENT) {
            return 0;
        }
        return err_set_errno(err, ERR_IO, "removing %s", path);
    }
    rc = empty_tree(top, limit_ms);
    saved = errno;
    closedir(top);
    errno = saved;
    if (rc == 0) {
        rc = unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
    }
    if (rc < 0) {
        return err_set_errno(err, ERR_IO, "removing %s", path);
    }
    return 0;
}

int
io_remove_tree(const char *path, struct error *err)
{
    return remove_tree(path, INT64_MAX, err);
}

int
io_remove_tree_within(const char *path, int64_t limit_ms, struct error *err)
{
    return remove_tree(path, clock_now_ms() + limit_ms, err);
}

/* --- descriptors --- */

int
io_pipe(int fds[2], struct error *err)
{
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_set_errno(err, ERR_IO, "pipe");
    }
    return 0;
}

int
io_set_nonblock(int fd, struct error *err)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return err_set_errno(err, ERR_IO, "descriptor %d", fd);
    }
    return 0;
}

int
io_memfd(const char *name, const void *data, size_t len, struct error *err)
{
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || write_whole(fd, data, len) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        return err_set_errno(err, ERR_IO, "memory file %s", name);
    }
    return take_fd(&fd);
}

/*
 * Copies inside the kernel as far as it can: 0 at the end or where this is not
 * supported, which the reads that follow find out. Shares the blocks where the
 * file system can.
 */
static int
copy_in_kernel(int from, int to, off_t max, off_t *done, struct error *err)
{
    while (*done < max) {
        off_t left = max - *done;
        size_t want = left > RANGE_BYTES ? RANGE_BYTES : (size_t)left;
        ssize_t n = copy_file_range(from, NULL, to, NULL, want, 0);

        if (n > 0) {
            *done += n;
        } else if (n == 0) {
            return 0;
        } else if (errno == ENOSPC || errno == EDQUOT || errno == EIO ||
                   errno == EFBIG) {
            return err_set_errno(err, ERR_IO, "copying");
        } else if (errno != EINTR) {
            return 0;
        }
    }
    return 0;
}

static int
copy_by_hand(int from, int to, off_t max, off_t *done, struct error *err)
{
    AUTO_FREE char *chunk = xmalloc(COPY_CHUNK_BYTES);

    for (;;) {
        off_t left = max - *done;
        size_t want = COPY_CHUNK_BYTES;
        ssize_t n;

        /* One more than allowed shows that there is more. */
        if (left < COPY_CHUNK_BYTES) {
            want = left > 0 ? (size_t)left : 1;
        }
        n = read_some(from, chunk, want);
        if (n < 0) {
            return err_set_errno(err, ERR_IO, "reading");
        }
        if (n == 0) {
            return 0;
        }
        if (left == 0) {
            return err_set(err, ERR_TOO_LARGE, "more than %lld bytes",
                           (long long)max);
        }
        if (write_whole(to, chunk, (size_t)n) < 0) {
            return err_set_errno(err, ERR_IO, "writing");
        }
        *done += n;
    }
}

int
io_copy(int from, int to, off_t max, off_t *copied, struct error *err)
{
    off_t done = 0;

    if (max < 0) {
        max = 0;
    }
    if (copy_in_kernel(from, to, max, &done, err) < 0 ||
        copy_by_hand(from, to, max, &done, err) < 0) {
        return -1;
    }
    *copied = done;
    return 0;
}
