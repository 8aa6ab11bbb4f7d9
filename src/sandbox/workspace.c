/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/workspace_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "sandbox/sandbox.h"

#define MAX_USAGE_DEPTH 64
#define MAX_NAME_BYTES 255u
#define MAX_PATH_BYTES 4096u

/* O_NONBLOCK so that a FIFO put there in the meantime cannot hold us. */
#define OPEN_FILE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* The directories in one, by name. */
struct subdirs {
    char **names;
    size_t n;
};

struct walk {
    struct workspace_list *out;
    workspace_ours_fn ours;
    void *ours_ctx;
    dev_t device;
    size_t n_seen;
    struct sbuf path;
    bool top;
};

bool
workspace_name_ok(const char *name)
{
    return name != NULL && name[0] != '\0' && !paths_is_dot(name) &&
           strchr(name, '/') == NULL && strlen(name) <= MAX_NAME_BYTES;
}

static const char *
refusal(const struct stat *st)
{
    if (S_ISLNK(st->st_mode))
        return "a symbolic link";
    if (S_ISFIFO(st->st_mode))
        return "a FIFO";
    if (S_ISSOCK(st->st_mode))
        return "a socket";
    if (S_ISDIR(st->st_mode))
        return "a directory";
    if (!S_ISREG(st->st_mode))
        return "a device";
    return st->st_nlink != 1 ? "a file with several names" : NULL;
}

static void
add_file(struct walk *w, const struct stat *st, const char *refused)
{
    struct workspace_list *out = w->out;
    struct sandbox_file *f;

    if (out->n_files >= WORKSPACE_MAX_ENTRIES) {
        out->n_left_out++;
        return;
    }
    out->files =
        xreallocarray(out->files, out->n_files + 1, sizeof(out->files[0]));
    f = &out->files[out->n_files++];
    memset(f, 0, sizeof(*f));
    f->name = xstrdup(w->path.data);
    f->size_bytes = (uint64_t)st->st_size;
    f->mtime_ns =
        (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    f->inode = st->st_ino;
    f->refused = refused;
}

static void walk_dir(struct walk *w, int fd, int depth);

static void
walk_entry(struct walk *w, int dir_fd, const char *name, int depth,
           struct subdirs *subdirs)
{
    struct stat st;

    if (depth == 0 && strcmp(name, WORKSPACE_STATE) == 0)
        return;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    /* The loaded files: a mount, or a link where there is none. */
    if (depth == 0 && strcmp(name, "data") == 0 &&
        (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)))
        return;
    if (!S_ISDIR(st.st_mode)) {
        if (!(depth == 0 && S_ISLNK(st.st_mode) && w->ours != NULL &&
              w->ours(w->ours_ctx, name)))
            add_file(w, &st, refusal(&st));
        return;
    }
    if (depth + 1 >= WORKSPACE_MAX_DEPTH) {
        w->out->n_left_out++;
        return;
    }
    subdirs->names = xgrow(subdirs->names, subdirs->n, sizeof(char *));
    subdirs->names[subdirs->n++] = xstrdup(name);
}

static void
walk_subdir(struct walk *w, int dir_fd, const char *name, int depth)
{
    struct stat st;
    AUTO_CLOSE int fd = -1;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    fd = openat(dir_fd, name, OPEN_DIR);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != w->device)
        add_file(w, &st, "a directory that cannot be read");
    else
        walk_dir(w, take_fd(&fd), depth + 1);
}

/* What is asked for is in "output"; the others by name, so that each time the
   same ones come before the limit. */
static int
compare_subdirs(const void *a, const void *b)
{
    const char *x = *(char *const *)a;
    const char *y = *(char *const *)b;
    bool x_first = strcmp(x, "output") == 0;
    bool y_first = strcmp(y, "output") == 0;

    if (x_first || y_first)
        return (int)y_first - (int)x_first;
    return strcmp(x, y);
}

static void
walk_subdirs(struct walk *w, int dir_fd, struct subdirs *subdirs, int depth)
{
    size_t len = w->path.len;

    if (subdirs->n > 0)
        qsort(subdirs->names, subdirs->n, sizeof(char *), compare_subdirs);
    for (size_t i = 0; i < subdirs->n; i++) {
        if (len > 0)
            sbuf_add_char(&w->path, '/');
        sbuf_add_str(&w->path, subdirs->names[i]);
        walk_subdir(w, dir_fd, subdirs->names[i], depth);
        sbuf_truncate(&w->path, len);
        free(subdirs->names[i]);
    }
    free(subdirs->names);
}

/* Files before directories: a full directory hides no file beside it. Takes
   ownership of fd. */
static void
walk_dir(struct walk *w, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    struct subdirs subdirs = {0};

    if (dir == NULL) {
        close(fd);
        return;
    }
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        size_t len = w->path.len;

        if (paths_is_dot(entry->d_name))
            continue;
        if (++w->n_seen > WORKSPACE_MAX_SEEN) {
            w->out->more = true;
            break;
        }
        if (w->out->n_files >= WORKSPACE_MAX_ENTRIES) {
            w->out->n_left_out++;
            continue;
        }
        if (len > 0)
            sbuf_add_char(&w->path, '/');
        sbuf_add_str(&w->path, entry->d_name);
        if (sbuf_ok(&w->path))
            walk_entry(w, dirfd(dir), entry->d_name, depth, &subdirs);
        else
            w->out->n_left_out++;
        w->path.overflow = false;
        sbuf_truncate(&w->path, len);
    }
    walk_subdirs(w, dirfd(dir), &subdirs, depth);
    closedir(dir);
}

static int
compare_files(const void *a, const void *b)
{
    const struct sandbox_file *x = a;
    const struct sandbox_file *y = b;

    return strcmp(x->name, y->name);
}

int
workspace_list(int root_fd, workspace_ours_fn ours, void *ctx,
               struct workspace_list *out, struct error *err)
{
    struct walk w = {.out = out, .ours = ours, .ours_ctx = ctx};
    struct stat st;
    int fd = openat(root_fd, ".", OPEN_DIR);

    memset(out, 0, sizeof(*out));
    if (fd < 0)
        return err_set_errno(err, ERR_IO, "reading the workspace");
    if (fstat(fd, &st) != 0) {
        error_fill_errno(err, ERR_IO, "reading the workspace");
        close(fd);
        return -1;
    }
    w.device = st.st_dev;
    sbuf_init(&w.path, MAX_PATH_BYTES);
    walk_dir(&w, fd, 0);
    sbuf_fini(&w.path);
    if (out->n_files > 0)
        qsort(out->files, out->n_files, sizeof(out->files[0]), compare_files);
    return 0;
}

void
workspace_list_fini(struct workspace_list *list)
{
    for (size_t i = 0; i < list->n_files; i++)
        free_const(list->files[i].name);
    free(list->files);
    memset(list, 0, sizeof(*list));
}

/* Takes ownership of fd. */
static int
check_opened(int fd, const char *name, struct error *err)
{
    AUTO_CLOSE int opened = fd;
    struct stat st;
    const char *refused;

    if (fstat(opened, &st) != 0)
        return err_set_errno(err, ERR_IO, "%s", name);
    refused = refusal(&st);
    if (refused != NULL)
        return err_set(err, ERR_UNSUPPORTED, "%s: is %s", name, refused);
    return take_fd(&opened);
}

static int
open_failed(int root_fd, const char *name, struct error *err)
{
    struct stat st;
    int saved = errno;

    /* Only for the wording: the decision has been made. */
    if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        refusal(&st) != NULL)
        return err_set(err, ERR_UNSUPPORTED, "%s: is %s", name, refusal(&st));
    if (saved == ELOOP || saved == EXDEV || saved == ENOTDIR)
        return err_set(err, ERR_UNSUPPORTED, "%s: leads through a link", name);
    errno = saved;
    return err_set_errno(err, ERR_IO, "%s", name);
}

bool
workspace_path_ok(const char *name)
{
    const char *p = name;

    if (name == NULL || strlen(name) >= MAX_PATH_BYTES)
        return false;
    while (p != NULL) {
        const char *slash = strchr(p, '/');
        size_t len = slash != NULL ? (size_t)(slash - p) : strlen(p);

        if (len == 0 || len > MAX_NAME_BYTES || (len == 1 && p[0] == '.') ||
            (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p = slash != NULL ? slash + 1 : NULL;
    }
    return true;
}

int
workspace_open_by_walk(int root_fd, const char *name, struct error *err)
{
    AUTO_CLOSE int dir = -1;
    AUTO_FREE char *copy = NULL;
    struct stat root;
    struct stat st;
    char *p;
    int fd;

    if (!workspace_path_ok(name))
        return err_set(err, ERR_USAGE, "%s: is no name below the workspace",
                       name != NULL ? name : "");
    copy = xstrdup(name);
    p = copy;
    dir = openat(root_fd, ".", OPEN_DIR);
    if (dir < 0 || fstat(dir, &root) != 0)
        return err_set_errno(err, ERR_IO, "reading the workspace");
    for (char *slash = strchr(p, '/'); slash != NULL; slash = strchr(p, '/')) {
        *slash = '\0';
        fd = openat(dir, p, OPEN_DIR);
        if (fd < 0)
            return open_failed(dir, p, err);
        close(dir);
        dir = fd;
        if (fstat(dir, &st) != 0 || st.st_dev != root.st_dev)
            return err_set(err, ERR_UNSUPPORTED,
                           "%s: is on another file system", name);
        p = slash + 1;
    }
    fd = openat(dir, p, OPEN_FILE);
    if (fd < 0)
        return open_failed(dir, p, err);
    return check_opened(fd, name, err);
}

int
workspace_open(int root_fd, const char *name, struct error *err)
{
    struct open_how how = {
        .flags = OPEN_FILE,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                   RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd;

    if (!workspace_path_ok(name))
        return err_set(err, ERR_USAGE, "%s: is no name below the workspace",
                       name != NULL ? name : "");
    fd = (int)syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
    if (fd >= 0)
        return check_opened(fd, name, err);
    /* Old systems, and filters that cannot look into its arguments. EAGAIN is a
       rename at the same time: the walk has no such limit. */
    if (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
        return workspace_open_by_walk(root_fd, name, err);
    return open_failed(root_fd, name, err);
}

/* Takes ownership of fd. */
static uint64_t
add_usage(int fd, size_t *left, int depth, bool *whole)
{
    DIR *dir = fdopendir(fd);
    uint64_t total = 0;
    struct dirent *entry;
    struct stat st;

    if (dir == NULL) {
        close(fd);
        *whole = false;
        return 0;
    }
    for (entry = readdir(dir); entry != NULL && *left > 0;
         entry = readdir(dir)) {
        if (paths_is_dot(entry->d_name))
            continue;
        (*left)--;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        total += (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode)) {
            int sub = depth < MAX_USAGE_DEPTH
                          ? openat(dirfd(dir), entry->d_name, OPEN_DIR)
                          : -1;

            if (sub >= 0)
                total += add_usage(sub, left, depth + 1, whole);
            else
                *whole = false;
        }
    }
    if (*left == 0)
        *whole = false;
    closedir(dir);
    return total;
}

uint64_t
workspace_usage(int root_fd, size_t max_entries, bool *whole)
{
    size_t left = max_entries;
    int fd = openat(root_fd, ".", OPEN_DIR);
    bool all = fd >= 0;
    uint64_t total = fd >= 0 ? add_usage(fd, &left, 0, &all) : 0;

    if (whole != NULL)
        *whole = all;
    return total;
}
