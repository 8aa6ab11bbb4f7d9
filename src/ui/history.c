/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"

#define FILE_MODE 0600
#define MAX_FILE_BYTES (64u << 20)

/* A pasted file is found again with the arrow keys, but not in the next
   session. */
#define MAX_STORED_BYTES (16u << 10)

/* The file is cut when it has grown by this over the list, so that it is not
   written anew at every start. */
#define SLACK_LINES 500

/* ---- one entry, one line ---- */

/* A line feed in an entry is written as \n, a backslash as two. */
static void
add_escaped(struct sbuf *sb, const char *line)
{
    for (const char *p = line; *p != '\0'; p++) {
        if (*p == '\n')
            sbuf_add_str(sb, "\\n");
        else if (*p == '\\')
            sbuf_add_str(sb, "\\\\");
        else
            sbuf_add_char(sb, *p);
    }
}

static bool
is_shown_raw(uint32_t cp)
{
    /* The editor makes the other controls visible. */
    return (cp >= 0x80 && cp < 0xA0) || (cp >= 0x202A && cp <= 0x202E) ||
           (cp >= 0x2066 && cp <= 0x2069);
}

/* The entry in a line of the file; anybody may have written it. */
static void
add_unescaped(struct sbuf *sb, const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(data + i, len - i, &cp, &ok);

        if (cp == '\\' && i + 1 < len &&
            (data[i + 1] == 'n' || data[i + 1] == '\\')) {
            sbuf_add_char(sb, data[i + 1] == 'n' ? '\n' : '\\');
            n = 2;
        } else if (ok && cp != 0 && !is_shown_raw(cp)) {
            sbuf_add(sb, data + i, n);
        }
        i += n;
    }
}

static bool
is_last(const char *line)
{
    const HIST_ENTRY *last =
        history_length > 0 ? history_get(history_base + history_length - 1)
                           : NULL;

    return last != NULL && str_eq(last->line, line);
}

static bool
is_kept(const char *line)
{
    return line[0] != ' ' && !str_blank(line) && !is_last(line);
}

/* ---- the file ---- */

static void
take_line(const char *data, size_t len)
{
    AUTO_SBUF struct sbuf entry = {0};

    sbuf_init(&entry, len);
    add_unescaped(&entry, data, len);
    if (is_kept(entry.data))
        add_history(entry.data);
}

/* Where the last n lines of text begin. */
static size_t
tail_start(const struct sbuf *text, size_t n)
{
    size_t at = text->len;

    while (at > 0) {
        if (text->data[at - 1] == '\n' && at < text->len && --n == 0)
            return at;
        at--;
    }
    return 0;
}

static size_t
count_lines(const struct sbuf *text)
{
    size_t n = 0;

    for (size_t i = 0; i < text->len; i++)
        n += text->data[i] == '\n';
    return n;
}

int
history_load(const char *path, struct error *err)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error why = {0};
    size_t at;

    using_history();
    stifle_history(HISTORY_MAX_LINES);
    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_file(path, &text, &why) < 0) {
        if (why.sys_errno == ENOENT)
            return 0;
        if (err != NULL)
            *err = why;
        return -1;
    }
    at = tail_start(&text, HISTORY_MAX_LINES);
    if (count_lines(&text) > HISTORY_MAX_LINES + SLACK_LINES &&
        io_replace(path, text.data + at, text.len - at, FILE_MODE, err) < 0)
        return -1;
    while (at < text.len) {
        const char *line = text.data + at;
        const char *end = memchr(line, '\n', text.len - at);
        size_t len = end != NULL ? (size_t)(end - line) : text.len - at;

        take_line(line, len);
        at += len + 1;
    }
    return 0;
}

/* A folder that is missing is made. */
static int
open_file(const char *path, struct error *err)
{
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
    int fd = open(path, flags, FILE_MODE);
    const char *slash = strrchr(path, '/');

    if (fd < 0 && errno == ENOENT && slash != NULL && slash != path) {
        AUTO_FREE char *dir = xstrndup(path, (size_t)(slash - path));

        if (io_make_dirs(dir, err) < 0)
            return -1;
        fd = open(path, flags, FILE_MODE);
    }
    if (fd < 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    return fd;
}

static int
append_line(const char *path, const char *line, struct error *err)
{
    AUTO_SBUF struct sbuf record = {0};
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (strlen(line) > MAX_STORED_BYTES)
        return 0;
    fd = open_file(path, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_IO, "%s: not a regular file", path);
    if ((st.st_mode & 077) != 0 && fchmod(fd, FILE_MODE) < 0)
        return err_set_errno(err, ERR_IO, "%s", path);
    sbuf_init(&record, MAX_STORED_BYTES * 2 + 1);
    add_escaped(&record, line);
    sbuf_add_char(&record, '\n');
    /* One write: two sessions do not mix their lines. */
    if (io_write_all(fd, record.data, record.len, err) < 0)
        return err_wrap(err, "%s", path);
    return 0;
}

int
history_append(const char *path, const char *line, struct error *err)
{
    if (!is_kept(line))
        return 0;
    add_history(line);
    return append_line(path, line, err);
}
