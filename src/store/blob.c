/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/blob.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "store/session.h"

#define MAX_BLOB_BYTES (64u << 20)
#define MAX_SAME_NAME 10000

/* The directory for files of this session, made if need be. */
static char *
files_dir(struct session *s, const char *sub, struct error *err)
{
    AUTO_FREE char *dir = paths_join(session_path(s), sub);

    if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
        error_fill_errno(err, ERR_IO, "%s", dir);
        return NULL;
    }
    return take_ptr(&dir);
}

/* Only what is harmless in a shell and a listing; never hidden. */
static bool
is_safe_name(const char *name)
{
    if (name[0] == '\0' || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *p = name; *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
            return false;
    }
    return true;
}

/* "chart.png" and 2 give "chart-2.png". */
static char *
numbered_name(const char *name, int n)
{
    const char *dot = strrchr(name, '.');

    if (n == 1)
        return xstrdup(name);
    if (dot == NULL)
        return xasprintf("%s-%d", name, n);
    return xasprintf("%.*s-%d%s", (int)(dot - name), name, n, dot);
}

static bool
is_same_file(const char *a, const char *b)
{
    struct stat sa;
    struct stat sb;

    return lstat(a, &sa) == 0 && lstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

/* Links blob under a readable name; the path of that name, or NULL. */
static char *
link_name(struct session *s, const char *blob, const char *name,
          struct error *err)
{
    AUTO_FREE char *dir = files_dir(s, "files", err);

    if (dir == NULL)
        return NULL;
    for (int n = 1; n <= MAX_SAME_NAME; n++) {
        AUTO_FREE char *try_name = numbered_name(name, n);
        AUTO_FREE char *path = paths_join(dir, try_name);

        if (link(blob, path) == 0)
            return take_ptr(&path);
        if (errno != EEXIST) {
            error_fill_errno(err, ERR_IO, "%s", path);
            return NULL;
        }
        if (is_same_file(blob, path))
            return take_ptr(&path);
    }
    error_fill(err, ERR_IO, "too many files are called %s", name);
    return NULL;
}

int
blob_put(struct session *s, const void *data, size_t len, const char *name,
         struct blob *out, struct error *err)
{
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *path = NULL;
    char *readable = NULL;
    char hash[HASH_HEX_BYTES];

    if (!is_safe_name(name))
        return err_set(err, ERR_IO, "'%s' is no name for a stored file", name);
    session_keep(s);
    dir = files_dir(s, "blobs", err);
    if (dir == NULL)
        return -1;
    hash_hex(data, len, hash);
    path = paths_join(dir, hash);
    if (access(path, F_OK) < 0 && io_replace(path, data, len, 0600, err) < 0)
        return -1;
    readable = link_name(s, path, name, err);
    if (readable == NULL)
        return -1;
    memcpy(out->hash, hash, sizeof(hash));
    out->path = readable;
    return 0;
}

int
blob_put_fd(struct session *s, int fd, const char *name, struct blob *out,
            struct error *err)
{
    AUTO_SBUF struct sbuf data = {0};

    sbuf_init(&data, MAX_BLOB_BYTES);
    if (io_read_all(fd, &data, err) < 0)
        return -1;
    return blob_put(s, data.data, data.len, name, out, err);
}

void
blob_fini(struct blob *b)
{
    free(b->path);
    memset(b, 0, sizeof(*b));
}
