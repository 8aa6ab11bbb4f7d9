/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "sandbox/local_internal.h"
#include "sandbox/script_check_internal.h"
#include "sandbox/workspace_internal.h"

/* All words, escaped, and the rest of the line. */
#define MAX_REQUEST (SANDBOX_MAX_WORDS_BYTES * 6 + 65536)
#define DOING "writing the files of a script"
#define DIR_MODE 0700
#define FILE_MODE 0600
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* --- its files --- */

static int
adopt(const struct local *l, int fd, mode_t mode)
{
    if (l->env.drop && fchown(fd, l->env.uid, l->env.gid) != 0)
        return -1;
    return fchmod(fd, mode);
}

/* One directory in another: a new one, or what is there, which cells may have
   made a link. Returns a descriptor, or -1. */
static int
enter(const struct local *l, int at, const char *name, const char *path,
      struct error *err)
{
    bool is_new = mkdirat(at, name, DIR_MODE) == 0;
    AUTO_CLOSE int fd = -1;
    struct stat top;
    struct stat st;

    if (!is_new && errno != EEXIST)
        return err_set_errno(err, ERR_IO, "%s", path);
    fd = openat(at, name, OPEN_DIR);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: leads through what is no directory", path);
    if (fd < 0 || fstat(fd, &st) != 0 || fstat(at, &top) != 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    if (st.st_dev != top.st_dev)
        return err_set(err, ERR_UNSUPPORTED, "%s: is on another file system",
                       path);
    if (is_new && adopt(l, fd, DIR_MODE) != 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    return take_fd(&fd);
}

/* Makes the directories of path that are not there, all of them or all before
   the last "/". Returns the descriptor of the last, or -1. */
static int
make_dirs(const struct local *l, int root, const char *path, bool all,
          struct error *err)
{
    AUTO_FREE char *copy = xstrdup(path);
    AUTO_CLOSE int dir = openat(root, ".", OPEN_DIR);
    char *p = copy;

    if (dir < 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    while (p != NULL) {
        char *slash = strchr(p, '/');
        int fd;

        if (slash == NULL && !all)
            break;
        if (slash != NULL)
            *slash = '\0';
        fd = enter(l, dir, p, path, err);
        if (fd < 0)
            return -1;
        close_fd(&dir);
        dir = fd;
        p = slash != NULL ? slash + 1 : NULL;
    }
    return take_fd(&dir);
}

/* A file of its own, whatever was there under that name. */
static int
write_file(const struct local *l, int dir, const struct sandbox_script_file *f,
           struct error *err)
{
    const char *slash = strrchr(f->name, '/');
    const char *base = slash != NULL ? slash + 1 : f->name;
    AUTO_CLOSE int at = make_dirs(l, dir, f->name, false, err);
    AUTO_CLOSE int fd = -1;

    if (at < 0)
        return -1;
    if (unlinkat(at, base, 0) != 0 && errno != ENOENT)
        return err_set_errno(err, ERR_IO, "%s", f->name);
    fd = openat(at, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                FILE_MODE);
    if (fd < 0 || adopt(l, fd, FILE_MODE) != 0)
        return err_set_errno(err, ERR_IO, "%s", f->name);
    if (f->len > 0 && io_write_all(fd, f->data, f->len, err) < 0) {
        err_wrap(err, "%s", f->name);
        return -1;
    }
    return 0;
}

static int
write_files(const struct local *l, const struct sandbox_script *s,
            size_t n_file_bytes, struct error *err)
{
    AUTO_CLOSE int dir = -1;
    uint64_t room;

    if (local_disk_find(l, DOING, UINT64_MAX, &room, err) < 0)
        return -1;
    if (n_file_bytes > room)
        return err_set(err, ERR_LIMIT, DOING ": there is no room for %zu bytes",
                       n_file_bytes);
    local_env_mend(&l->env);
    dir = make_dirs(l, l->env.workspace_fd, s->dir, true, err);
    if (dir < 0)
        return -1;
    for (size_t i = 0; i < s->n_files; i++)
        if (write_file(l, dir, &s->files[i], err) < 0)
            return -1;
    return 0;
}

/* --- the request --- */

static void
add_words(struct sbuf *sb, const char *key, const char *const *words)
{
    json_add_key(sb, key);
    sbuf_add_char(sb, '[');
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (i > 0)
            sbuf_add_char(sb, ',');
        json_add_str(sb, words[i]);
    }
    sbuf_add_char(sb, ']');
}

void
local_run_script(struct sandbox_backend *b, const struct sandbox_script *script,
                 const struct sandbox_cell_handlers *on, void *ctx)
{
    struct local *l = (struct local *)b;
    AUTO_SBUF struct sbuf sb = {0};
    struct error err = {0};
    size_t n_file_bytes;

    assert(!l->cell_active && l->task == NULL);
    if (l->state != LOCAL_IDLE)
        error_fill(&err, ERR_SANDBOX, "no interpreter runs");
    else if (script_check(script, &n_file_bytes, &err) == 0)
        (void)!write_files(l, script, n_file_bytes, &err);
    if (err.code != ERR_NONE) {
        local_cell_refuse(l, on, ctx, &err);
        return;
    }
    sbuf_init(&sb, MAX_REQUEST);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", "script");
    json_add_member_int(&sb, "id", l->next_id + 1);
    json_add_member_str(&sb, "dir", script->dir);
    add_words(&sb, "argv", script->argv);
    add_words(&sb, "env", script->env);
    sbuf_add_str(&sb, "}\n");
    local_cell_run_script(l, script->timeout_ms, on, ctx, sb.data, sb.len);
}
