/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"

#define MAX_SAME_SECOND 1000

/* How many are named where one is not found. */
#define MAX_NAMED 5u

char *
snapshots_dir(void)
{
    AUTO_FREE char *state = paths_state_dir();

    return state != NULL ? paths_join(state, "snapshots") : NULL;
}

/* Whatever the locale says. */
static bool
is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

bool
snapshots_name_ok(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > SNAPSHOTS_MAX_NAME || !is_alnum(name[0]))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(name[i]) && strchr("._-", name[i]) == NULL)
            return false;
    }
    return true;
}

static int
check_name(const char *name, struct error *err)
{
    if (!snapshots_name_ok(name))
        return err_set(err, ERR_USAGE,
                       "'%s' is no name for a snapshot: letters, digits, '.', "
                       "'_' and '-', at most %d, a letter or digit first",
                       name, SNAPSHOTS_MAX_NAME);
    return 0;
}

static char *
dir_or_error(struct error *err)
{
    char *dir = snapshots_dir();

    if (dir == NULL)
        error_fill(err, ERR_IO,
                   "there is no home directory to keep snapshots in");
    return dir;
}

/* ---- listing --------------------------------------------------------------
 */

static int
compare(const void *a, const void *b)
{
    const struct snapshots_item *x = a;
    const struct snapshots_item *y = b;

    if (x->mtime_ns != y->mtime_ns)
        return x->mtime_ns > y->mtime_ns ? -1 : 1;
    return strcmp(y->name, x->name);
}

static void
add_entry(struct snapshots_list *out, int dir_fd, const char *name)
{
    struct stat st;

    if (!snapshots_name_ok(name) ||
        fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return;
    out->items = xgrow(out->items, out->n_items, sizeof(*out->items));
    out->items[out->n_items++] = (struct snapshots_item){
        .name = xstrdup(name),
        .size_bytes = (uint64_t)st.st_size,
        .mtime_ns =
            (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
    };
}

void
snapshots_list(struct snapshots_list *out)
{
    AUTO_FREE char *path = snapshots_dir();
    DIR *dir = path != NULL ? opendir(path) : NULL;
    const struct dirent *e = NULL;

    memset(out, 0, sizeof(*out));
    if (dir == NULL)
        return;
    for (e = readdir(dir); e != NULL; e = readdir(dir))
        add_entry(out, dirfd(dir), e->d_name);
    closedir(dir);
    if (out->n_items > 0)
        qsort(out->items, out->n_items, sizeof(*out->items), compare);
}

void
snapshots_list_fini(struct snapshots_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        free(list->items[i].name);
    free(list->items);
    memset(list, 0, sizeof(*list));
}

/* ---- making ---------------------------------------------------------------
 */

static bool
is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static char *
free_path(const char *dir)
{
    char *path = NULL;

    for (int n = 0; n < MAX_SAME_SECOND; n++) {
        AUTO_FREE char *name = clock_wall_name(n);

        free(path);
        path = paths_join(dir, name);
        if (!is_there(path))
            break;
    }
    return path;
}

int
snapshots_create(const char *name, struct io_new *file, struct error *err)
{
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *path = NULL;

    *file = (struct io_new){.fd = -1};
    if (name != NULL && check_name(name, err) < 0)
        return -1;
    dir = dir_or_error(err);
    if (dir == NULL || io_make_dirs(dir, err) < 0)
        return -1;
    path = name != NULL ? paths_join(dir, name) : free_path(dir);
    if (is_there(path))
        return err_set(err, ERR_USAGE,
                       "there is a snapshot '%s' already; take another name, "
                       "or remove %s",
                       paths_base(path), path);
    return io_new_open(file, path, err);
}

/* ---- reading --------------------------------------------------------------
 */

static void
name_some(const struct snapshots_list *list, struct sbuf *sb)
{
    for (size_t i = 0; i < list->n_items && i < MAX_NAMED; i++)
        sbuf_addf(sb, "%s%s", i > 0 ? ", " : "", list->items[i].name);
    if (list->n_items > MAX_NAMED)
        sbuf_addf(sb, " and %zu older ones", list->n_items - MAX_NAMED);
}

/* The name to open, owned by the caller; NULL: there is none. */
static char *
find_name(const char *name, struct error *err)
{
    struct snapshots_list list;
    char *found = NULL;

    snapshots_list(&list);
    for (size_t i = 0; i < list.n_items && found == NULL; i++) {
        if (name == NULL || str_eq(list.items[i].name, name))
            found = xstrdup(list.items[i].name);
    }
    if (found == NULL && list.n_items == 0) {
        error_fill(err, ERR_USAGE,
                   "there is no snapshot yet; :snapshot makes one");
    } else if (found == NULL) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, (MAX_NAMED + 1) * (SNAPSHOTS_MAX_NAME + 2));
        name_some(&list, &sb);
        error_fill(err, ERR_USAGE, "there is no snapshot '%s'; there %s %s",
                   name, list.n_items == 1 ? "is" : "are", sb.data);
    }
    snapshots_list_fini(&list);
    return found;
}

int
snapshots_open(const char *name, char **found, struct error *err)
{
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *real = NULL;
    AUTO_FREE char *path = NULL;
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (name != NULL && check_name(name, err) < 0)
        return -1;
    dir = dir_or_error(err);
    if (dir == NULL)
        return -1;
    real = find_name(name, err);
    if (real == NULL)
        return -1;
    path = paths_join(dir, real);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_IO, "%s: is no regular file", path);
    *found = take_ptr(&real);
    return take_fd(&fd);
}
