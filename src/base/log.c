/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/utf8.h"

#define MAX_LINE_BYTES 8192
#define HIDDEN_MARK "[hidden]"
#define CUT_MARK "[cut]"

/* A text that is registered twice must be taken back twice. */
struct hidden {
    char *text; /* owned; wiped on release */
    size_t len;
    size_t n_uses;
};

static struct {
    int fd; /* valid if open */
    bool open;
    enum log_level level;
    struct hidden *hidden; /* owned */
    size_t n_hidden;
} state;

static const char *const level_names[] = {
    [LOG_LEVEL_ERR] = "error",
    [LOG_LEVEL_WARN] = "warning",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DBG] = "debug",
};

int
log_open(const char *path, enum log_level level, struct error *err)
{
    /* Not blocking, for the case that it is a FIFO; which is then refused. */
    AUTO_CLOSE int fd = open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
        0600);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_set_errno(err, ERR_IO, "log %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_IO, "log %s: not a regular file", path);
    }
    if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0) {
        return err_set_errno(err, ERR_IO, "log %s", path);
    }
    log_close();
    state.fd = take_fd(&fd);
    state.level = level;
    state.open = true;
    return 0;
}

void
log_close(void)
{
    if (state.open) {
        close(state.fd);
        state.open = false;
    }
}

static struct hidden *
find_hidden(const char *text)
{
    for (size_t i = 0; i < state.n_hidden; i++) {
        if (strcmp(state.hidden[i].text, text) == 0) {
            return &state.hidden[i];
        }
    }
    return NULL;
}

void
log_hide(const char *text)
{
    struct hidden *h;

    if (!text || !*text) {
        return;
    }
    h = find_hidden(text);
    if (h) {
        h->n_uses++;
        return;
    }
    state.hidden =
        xreallocarray(state.hidden, state.n_hidden + 1, sizeof(*state.hidden));
    state.hidden[state.n_hidden++] = (struct hidden){
        .text = xstrdup(text), .len = strlen(text), .n_uses = 1};
}

void
log_unhide(const char *text)
{
    struct hidden *h = text ? find_hidden(text) : NULL;

    if (!h || --h->n_uses > 0) {
        return;
    }
    explicit_bzero(h->text, h->len);
    free(h->text);
    *h = state.hidden[--state.n_hidden];
    if (state.n_hidden == 0) {
        free(state.hidden);
        state.hidden = NULL;
    }
}

/* The length of the longest hidden text that begins at s, or 0. */
static size_t
hidden_len(const char *s, size_t len)
{
    size_t longest = 0;

    for (size_t i = 0; i < state.n_hidden; i++) {
        const struct hidden *h = &state.hidden[i];

        if (h->len > longest && h->len <= len &&
            memcmp(s, h->text, h->len) == 0) {
            longest = h->len;
        }
    }
    return longest;
}

/* Adds the character at s and returns its bytes. C0, DEL, C1 and what is no
   UTF-8 are written byte by byte; the backslash twice, so that what is written
   can be read back without doubt. */
static size_t
add_escaped(struct sbuf *sb, const char *s, size_t len)
{
    uint32_t cp;
    bool ok;
    size_t n = utf8_decode(s, len, &cp, &ok);

    if (ok && cp == '\n') {
        sbuf_add_str(sb, "\\n");
    } else if (ok && cp == '\\') {
        sbuf_add_str(sb, "\\\\");
    } else if (ok && cp >= 0x20 && (cp < 0x7f || cp > 0x9f)) {
        sbuf_add(sb, s, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            sbuf_addf(sb, "\\x%02x", (unsigned)(unsigned char)s[i]);
        }
    }
    return n;
}

void
log_add_hidden(struct sbuf *sb, const char *text, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t n = hidden_len(text + i, len - i);

        if (n > 0) {
            sbuf_add_str(sb, HIDDEN_MARK);
        } else {
            n = 1;
            sbuf_add(sb, text + i, n);
        }
        i += n;
    }
}

/* Hides before it escapes and before it cuts: else the parts of a secret that
   is broken by either would go through. */
static void
add_text(struct sbuf *sb, const char *s, size_t len)
{
    size_t i = 0;

    while (i < len && sbuf_ok(sb)) {
        size_t n = hidden_len(s + i, len - i);

        if (n > 0) {
            sbuf_add_str(sb, HIDDEN_MARK);
        } else {
            n = add_escaped(sb, s + i, len - i);
        }
        i += n;
    }
}

static void
add_head(struct sbuf *sb, enum log_level level, const char *module)
{
    int64_t now_ms = clock_wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm = {0};
    char date[32] = "";

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    sbuf_addf(sb, "%s.%03dZ %s %s: ", date, (int)(now_ms % 1000),
              level_names[level], module);
}

void
log_write(enum log_level level, const char *module, const char *fmt, ...)
{
    AUTO_SBUF struct sbuf line = {0};
    AUTO_FREE char *text = NULL;
    int saved = errno;
    size_t len;
    va_list ap;
    ssize_t n;

    sbuf_init(&line, MAX_LINE_BYTES);
    if (!state.open || level > state.level) {
        return;
    }
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) {
        text = NULL;
    }
    va_end(ap);
    if (text) {
        len = strlen(text);
        add_head(&line, level, module);
        add_text(&line, text, len);
        if (!sbuf_ok(&line)) {
            sbuf_truncate(&line, MAX_LINE_BYTES - sizeof(CUT_MARK "\n"));
            sbuf_truncate(&line, line.len - utf8_pending(line.data, line.len));
            sbuf_add_str(&line, CUT_MARK);
        }
        sbuf_add_char(&line, '\n');
        /* One write, so that lines of two processes do not mix. A log that
           cannot be written is nothing to stop for. */
        n = write(state.fd, line.data, line.len);
        (void)n;
        explicit_bzero(text, len);
    }
    errno = saved;
}
