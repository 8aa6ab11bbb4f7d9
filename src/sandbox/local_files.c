/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_files_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/local_probe_internal.h"

/* In the directory of the data, since that one belongs to us alone. */
#define INCOMING ".sandpiper-incoming"

#define PIECE_BYTES ((size_t)4 << 20)
#define BLOCK_BYTES ((size_t)256 << 10)

void
local_files_fini(struct local_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        free(files->files[i].name);
        free(files->files[i].path);
    }
    free(files->files);
    memset(files, 0, sizeof(*files));
}

static struct local_file *
find_file(const struct local_files *files, const char *name)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->files[i].name, name) == 0)
            return &files->files[i];
    return NULL;
}

/* path: owned from now on. */
static void
note_file(struct local_files *files, const char *name, char *path)
{
    struct local_file *f = find_file(files, name);

    if (f == NULL) {
        files->files =
            xreallocarray(files->files, files->n + 1, sizeof(files->files[0]));
        f = &files->files[files->n++];
        f->name = xstrdup(name);
    } else {
        free(f->path);
    }
    f->path = path;
}

static bool
is_whole(const struct sandbox_put *put)
{
    return put->offset == 0 && put->limit < 0;
}

static bool
is_same_file(int a, int b)
{
    struct stat x;
    struct stat y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A mount needs something to lie on. */
static bool
make_placeholder(const struct local_env *env, const char *name)
{
    AUTO_CLOSE int fd =
        openat(env->data_fd, name,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);

    return fd >= 0 || errno == EEXIST;
}

bool
local_files_bind(struct local_files *files, const struct local_env *env,
                 const struct sandbox_put *put)
{
    AUTO_FREE char *real = NULL;
    AUTO_CLOSE int fd = -1;

    if (put->path == NULL || !is_whole(put))
        return false;
    real = realpath(put->path, NULL);
    if (real == NULL)
        return false;
    fd = local_env_open_as(env, real, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || !is_same_file(fd, put->fd) ||
        !make_placeholder(env, put->name))
        return false;
    note_file(files, put->name, take_ptr(&real));
    return true;
}

int
local_files_arrive(struct local_files *files, const struct local_env *env,
                   const char *name, struct error *err)
{
    /* Also over a file that is bound: its mount goes with the name. */
    if (renameat(env->data_fd, INCOMING, env->data_fd, name) != 0) {
        error_fill_errno(err, ERR_IO, "%s", name);
        unlinkat(env->data_fd, INCOMING, 0);
        return -1;
    }
    /* Two names of one file are left alone by rename. */
    unlinkat(env->data_fd, INCOMING, 0);
    note_file(files, name, NULL);
    return 0;
}

bool
local_files_link(struct local_files *files, const struct local_env *env,
                 const struct sandbox_put *put)
{
    char path[64];
    AUTO_CLOSE int fd = -1;
    struct error ignored = {0};

    if (!is_whole(put))
        return false;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", put->fd);
    fd = local_env_open_as(env, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || !is_same_file(fd, put->fd))
        return false;
    unlinkat(env->data_fd, INCOMING, 0);
    return linkat(AT_FDCWD, path, env->data_fd, INCOMING, AT_SYMLINK_FOLLOW) ==
               0 &&
           local_files_arrive(files, env, put->name, &ignored) == 0;
}

int
local_files_receive(const struct local_env *env, struct error *err)
{
    int fd;

    unlinkat(env->data_fd, INCOMING, 0);
    fd = openat(env->data_fd, INCOMING,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0)
        return err_set_errno(err, ERR_IO, "%s", env->data);
    /* Nobody but us and the identity inside gets past the directory above; the
       umask may not take that identity's right away. */
    if (fchmod(fd, 0444) != 0) {
        error_fill_errno(err, ERR_IO, "%s", env->data);
        close(fd);
        return -1;
    }
    return fd;
}

void
local_files_drop(const struct local_env *env)
{
    unlinkat(env->data_fd, INCOMING, 0);
}

void
local_files_show(const struct local_env *env, const char *name)
{
    AUTO_FREE char *target = xasprintf("data/%s", name);

    /* Where that is refused, the file is still there below data. */
    (void)!symlinkat(target, env->workspace_fd, name);
}

bool
local_files_is_ours(const struct local_files *files,
                    const struct local_env *env, const char *name)
{
    char target[512];
    ssize_t n;

    if (find_file(files, name) == NULL)
        return false;
    n = readlinkat(env->workspace_fd, name, target, sizeof(target) - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    /* A file that was loaded again has another name below data, and the one
       that it had leads there. */
    return str_starts(target, "data/") &&
           find_file(files, target + strlen("data/")) != NULL;
}

void
local_files_check(struct local_files *files, const struct local_env *env)
{
    for (size_t i = 0; i < files->n; i++) {
        struct local_file *f = &files->files[i];
        AUTO_CLOSE int fd =
            f->path != NULL
                ? local_env_open_as(env, f->path, O_RDONLY | O_NONBLOCK)
                : -1;

        if (f->path == NULL || fd >= 0)
            continue;
        unlinkat(env->data_fd, f->name, 0);
        free(f->path);
        f->path = NULL;
    }
}

/* --- copying --- */

struct local_copy {
    struct loop *loop;
    struct loop_task *task;
    int from;
    int to;
    off_t offset;
    off_t copied;
    off_t total; /* as the file was at the start */
    off_t limit; /* -1: none */
    bool is_bounded;
    bool by_hand; /* copy_file_range is not possible */
    sandbox_progress_fn progress;
    void *progress_ctx;
    void (*done)(void *ctx, const struct error *err);
    void *ctx;
};

void
local_copy_free(struct local_copy *copy)
{
    if (copy == NULL)
        return;
    loop_task_remove(copy->task);
    free(copy);
}

static void
end_copy(struct local_copy *c, const struct error *err)
{
    void (*done)(void *, const struct error *) = c->done;
    void *ctx = c->ctx;

    free(c);
    done(ctx, err);
}

void
local_copy_stop(struct local_copy *copy)
{
    struct error err = {0};

    error_fill(&err, ERR_CANCELLED, "copying was stopped");
    loop_task_remove(copy->task);
    end_copy(copy, &err);
}

/* One block by read and write. Returns bytes, 0 at the end, -1 with errno. */
static ssize_t
copy_block(struct local_copy *c, size_t want)
{
    AUTO_FREE char *block = xmalloc(BLOCK_BYTES);
    struct error err = {0};
    ssize_t n;

    do {
        n = pread(c->from, block, want < BLOCK_BYTES ? want : BLOCK_BYTES,
                  c->offset + c->copied);
    } while (n < 0 && errno == EINTR);
    if (n > 0 && io_write_all(c->to, block, (size_t)n, &err) < 0) {
        errno = err.sys_errno != 0 ? err.sys_errno : EIO;
        return -1;
    }
    return n;
}

static ssize_t
copy_some(struct local_copy *c, size_t want)
{
    loff_t at = c->offset + c->copied;
    ssize_t n = -1;

    if (!c->by_hand) {
        n = copy_file_range(c->from, &at, c->to, NULL, want, 0);
        /* Some file systems say 0 for files whose size they do not know. */
        if (n <= 0)
            c->by_hand = true;
    }
    return c->by_hand ? copy_block(c, want) : n;
}

static void
copy_piece(void *ctx)
{
    struct local_copy *c = ctx;
    struct error err = {0};
    size_t left = PIECE_BYTES;
    ssize_t n = 1;

    c->task = NULL;
    while (left > 0 && n > 0) {
        size_t want = left;

        if (c->limit >= 0 && (off_t)want > c->limit - c->copied)
            want = (size_t)(c->limit - c->copied);
        if (want == 0) {
            char more;

            if (c->is_bounded &&
                pread(c->from, &more, 1, c->offset + c->copied) == 1)
                error_fill(&err, ERR_TOO_LARGE, "more than %lld bytes",
                           (long long)c->limit);
            n = 0;
            break;
        }
        n = copy_some(c, want);
        if (n < 0)
            error_fill_errno(&err, ERR_IO, "copying");
        if (n > 0) {
            c->copied += n;
            left -= (size_t)n < left ? (size_t)n : left;
        }
    }
    if (n <= 0) {
        end_copy(c, err.code != ERR_NONE ? &err : NULL);
        return;
    }
    c->task = loop_defer(c->loop, copy_piece, c);
    if (c->progress != NULL)
        c->progress(c->progress_ctx, (uint64_t)c->copied, (uint64_t)c->total);
}

static void
report_copied(void *ctx)
{
    struct local_copy *c = ctx;

    c->task = NULL;
    end_copy(c, NULL);
}

struct local_copy *
local_copy_start(struct loop *loop, int from, off_t offset, off_t limit,
                 bool is_bounded, int to, sandbox_progress_fn progress,
                 void (*done)(void *ctx, const struct error *err),
                 void *progress_ctx, void *ctx)
{
    struct local_copy *c = xcalloc(1, sizeof(*c));
    struct stat st = {0};
    bool cloned;

    c->loop = loop;
    c->from = from;
    c->to = to;
    c->offset = offset;
    c->limit = limit;
    c->is_bounded = is_bounded;
    c->progress = progress;
    c->progress_ctx = progress_ctx;
    c->done = done;
    c->ctx = ctx;
    if (fstat(from, &st) == 0 && st.st_size > offset)
        c->total = st.st_size - offset;
    if (limit >= 0 && limit < c->total)
        c->total = limit;
    cloned = offset == 0 && limit < 0 && ioctl(to, FICLONE, from) == 0;
    c->task = loop_defer(loop, cloned ? report_copied : copy_piece, c);
    return c;
}
