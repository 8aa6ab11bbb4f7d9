/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/key_command_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/proc.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/utf8.h"

#define MAX_SAID_BYTES 200u
#define MAX_ENV_BYTES 65536u
#define PIECE_BYTES 1024u
#define MAX_PIECES 64

/* What programs that keep secrets look at to find them and their agents. */
static const char *const passed_on[] = {
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "GNUPGHOME",
    "GPG_TTY",
    "PASSWORD_STORE_DIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
};

/* One of the two pipes: its first line, as far as it has room. */
struct stream {
    struct loop_fd *watch;
    int fd; /* owned */
    char *line;
    size_t len;
    size_t max;
    bool is_over; /* the line has ended, or has no room */
    bool is_long;
};

struct key_command {
    struct loop *loop;
    struct proc *proc;
    struct loop_timer *limit;
    int64_t limit_ms;
    char *setting;
    struct stream out;
    struct stream said;
    char key[KEY_COMMAND_MAX_BYTES + 1];
    char words[MAX_SAID_BYTES + 1];
    void (*done)(void *ctx, struct secret *key, const struct error *err);
    void *ctx;
};

/* ---- what it prints -------------------------------------------------------
 */

static void
take(struct stream *s, const char *data, size_t len)
{
    for (size_t i = 0; i < len && !s->is_over; i++) {
        if (data[i] == '\n') {
            s->is_over = true;
        } else if (s->len == s->max) {
            s->is_over = true;
            s->is_long = true;
        } else {
            s->line[s->len++] = data[i];
        }
    }
}

/* Reads what is there, at most as much as a pipe holds; false when nothing more
   will come. What is behind the first line is read too, since a program that
   cannot write ends as one that has failed. */
static bool
read_stream(struct stream *s)
{
    char piece[PIECE_BYTES];
    ssize_t n = 0;
    int saved = 0;

    for (int i = 0; i < MAX_PIECES; i++) {
        n = read(s->fd, piece, sizeof(piece));
        saved = errno;
        if (n > 0)
            take(s, piece, (size_t)n);
        else if (n == 0 || saved != EINTR)
            break;
    }
    secret_wipe(piece, sizeof(piece));
    return n > 0 || (n < 0 && (saved == EAGAIN || saved == EINTR));
}

static void
close_stream(struct stream *s)
{
    loop_fd_remove(s->watch);
    s->watch = NULL;
    close_fd(&s->fd);
}

static void
on_readable(void *ctx, int fd, unsigned events)
{
    struct stream *s = ctx;

    (void)fd;
    (void)events;
    if (!read_stream(s))
        close_stream(s);
}

/* ---- how it ends ----------------------------------------------------------
 */

/* Sets the child's end; the caller closes it. */
static int
open_stream(struct loop *loop, struct stream *s, char *line, size_t max,
            int *child_end, struct error *err)
{
    int fds[2];

    if (io_pipe(fds, err) < 0)
        return -1;
    *s = (struct stream){.fd = fds[0], .line = line, .max = max};
    *child_end = fds[1];
    if (io_set_nonblock(fds[0], err) < 0)
        return -1;
    s->watch = loop_add_fd(loop, s->fd, LOOP_READ, on_readable, s);
    return 0;
}

static void
release(struct key_command *k)
{
    loop_timer_remove(k->limit);
    k->limit = NULL;
    /* The shell leads a group of its own, and has not been reaped, so that the
       number is still its own: whatever it waits for ends with it. */
    if (k->proc != NULL)
        (void)kill(-proc_pid(k->proc), SIGKILL);
    proc_free(k->proc);
    k->proc = NULL;
    close_stream(&k->out);
    close_stream(&k->said);
}

static void
fail(struct key_command *k, const char *what)
{
    struct error err = {0};

    error_fill(&err, ERR_AUTH, "%s: %s", k->setting, what);
    secret_wipe(k->key, sizeof(k->key));
    k->done(k->ctx, NULL, &err); /* may free k */
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The key without blanks around it, or what is wrong with it. */
static const char *
find_key(struct key_command *k, size_t *start, size_t *len)
{
    *start = 0;
    *len = k->out.len;
    while (*len > 0 && is_blank(k->key[*len - 1]))
        --*len;
    while (*len > 0 && is_blank(k->key[*start])) {
        ++*start;
        --*len;
    }
    if (k->out.is_long)
        return "the first line that it prints is longer than 4096 bytes";
    if (*len == 0)
        return "the command printed no key on its first line";
    for (size_t i = 0; i < *len; i++) {
        unsigned char c = (unsigned char)k->key[*start + i];

        if (c < 0x20 || c == 0x7F)
            return "the first line that it prints has a control character "
                   "in it";
    }
    return NULL;
}

/* ": " and what it said on standard error, or nothing. */
static void
add_words(struct key_command *k, struct sbuf *sb)
{
    AUTO_FREE char *words = NULL;
    AUTO_SBUF struct sbuf clean = {0};

    sbuf_init(&clean, (size_t)MAX_SAID_BYTES * 3 + 1);
    k->said.len -= utf8_pending(k->words, k->said.len);
    utf8_add_repaired(&clean, k->words, k->said.len);
    words = str_trim(clean.data);
    if (words[0] != '\0')
        sbuf_addf(sb, ": %s", words);
}

static void
on_exit_of_child(void *ctx, const struct proc_exit *status)
{
    struct key_command *k = ctx;
    AUTO_SBUF struct sbuf text = {0};
    struct secret *key = NULL;
    const char *wrong = NULL;
    size_t start = 0;
    size_t len = 0;

    if (k->out.fd >= 0)
        (void)read_stream(&k->out);
    if (k->said.fd >= 0)
        (void)read_stream(&k->said);
    proc_free(k->proc);
    k->proc = NULL;
    release(k);
    if (status->code == 0) {
        wrong = find_key(k, &start, &len);
    } else {
        sbuf_init(&text, MAX_SAID_BYTES * 4);
        if (status->signal != 0)
            sbuf_addf(&text, "the command was ended by signal %d",
                      status->signal);
        else
            sbuf_addf(&text, "the command ended with status %d", status->code);
        add_words(k, &text);
        wrong = text.data;
    }
    if (wrong != NULL) {
        fail(k, wrong);
        return;
    }
    key = secret_new(k->key + start, len);
    secret_wipe(k->key, sizeof(k->key));
    k->done(k->ctx, key, NULL); /* may free k */
}

static void
on_limit(void *ctx)
{
    struct key_command *k = ctx;
    AUTO_SBUF struct sbuf text = {0};

    k->limit = NULL;
    if (k->said.fd >= 0)
        (void)read_stream(&k->said);
    release(k);
    sbuf_init(&text, MAX_SAID_BYTES * 4);
    sbuf_add_str(&text, "the command took longer than ");
    str_add_duration(&text, k->limit_ms);
    add_words(k, &text);
    fail(k, text.data);
}

/* ---- the start ------------------------------------------------------------
 */

/* NULL-terminated; the elements and the array are owned by the caller. */
static char **
make_environment(void)
{
    char **env = xcalloc(LEN(passed_on) + 1, sizeof(*env));
    size_t n = 0;

    for (size_t i = 0; i < LEN(passed_on); i++) {
        const char *value = getenv(passed_on[i]);

        if (value != NULL && strlen(value) < MAX_ENV_BYTES)
            env[n++] = xasprintf("%s=%s", passed_on[i], value);
    }
    return env;
}

static int
launch(struct key_command *k, const char *command, int out_fd, int said_fd,
       struct error *err)
{
    char **env = make_environment();
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    const struct proc_fd fds[] = {{-1, 0}, {out_fd, 1}, {said_fd, 2}};

    k->proc = proc_start(k->loop,
                         &(struct proc_spec){
                             .path = "/bin/sh",
                             .argv = argv,
                             .envp = (const char *const *)env,
                             .fds = fds,
                             .n_fds = LEN(fds),
                             .die_with_parent = true,
                         },
                         on_exit_of_child, k, err);
    for (size_t i = 0; env[i] != NULL; i++)
        free(env[i]);
    free(env);
    return k->proc != NULL ? 0 : -1;
}

struct key_command *
key_command_start(struct loop *loop, const char *command, const char *setting,
                  void (*done)(void *ctx, struct secret *key,
                               const struct error *err),
                  void *ctx, struct error *err)
{
    struct key_command *k = xcalloc(1, sizeof(*k));
    AUTO_CLOSE int out_fd = -1;
    AUTO_CLOSE int said_fd = -1;

    k->loop = loop;
    k->out.fd = -1;
    k->said.fd = -1;
    k->setting = xstrdup(setting);
    k->done = done;
    k->ctx = ctx;
    if (open_stream(loop, &k->out, k->key, KEY_COMMAND_MAX_BYTES, &out_fd,
                    err) < 0 ||
        open_stream(loop, &k->said, k->words, MAX_SAID_BYTES, &said_fd, err) <
            0 ||
        launch(k, command, out_fd, said_fd, err) < 0) {
        error_prepend(err, "%s", setting);
        key_command_free(k);
        return NULL;
    }
    key_command_set_limit(k, KEY_COMMAND_MS);
    return k;
}

void
key_command_set_limit(struct key_command *k, int64_t limit_ms)
{
    loop_timer_remove(k->limit);
    k->limit_ms = limit_ms;
    k->limit = loop_add_timer(k->loop, limit_ms, on_limit, k);
}

void
key_command_free(struct key_command *k)
{
    if (k == NULL)
        return;
    release(k);
    secret_wipe(k->key, sizeof(k->key));
    free(k->setting);
    free(k);
}
