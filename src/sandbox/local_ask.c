/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/str.h"
#include "sandbox/local_internal.h"
#include "sandbox/workspace_internal.h"

#define MAX_LINE_BYTES 512u
#define STATE_TRIES 3

/* In the workspace, and never listed. */
#define STATE WORKSPACE_STATE

static const struct local_ask ask_vars = {
    .op = "vars",
    .doing = "listing variables",
};
static const struct local_ask ask_snapshot = {
    .op = "snapshot",
    .doing = "saving variables",
    .changed = "saved",
};
static const struct local_ask ask_restore = {
    .op = "restore",
    .doing = "restoring variables",
    .changed = "restored",
};

/* --- the end of it --- */

static void
remove_file(struct local *l)
{
    struct local_asked *a = &l->asked;

    if (a->state_fd < 0)
        return;
    if (a->name[0] != '\0')
        unlinkat(a->state_fd, a->name, 0);
    /* Unless a cell has put something there. */
    unlinkat(l->env.workspace_fd, STATE, AT_REMOVEDIR);
    close_fd(&a->state_fd);
}

void
local_ask_init(struct local *l)
{
    memset(&l->asked, 0, sizeof(l->asked));
    l->asked.state_fd = -1;
}

void
local_ask_drop(struct local *l)
{
    remove_file(l);
    kernel_answer_fini(&l->asked.answer);
    local_ask_init(l);
}

static void
report_asked(void *ctx)
{
    struct local *l = ctx;
    struct local_asked a = l->asked;

    l->task = NULL;
    remove_file(l);
    local_ask_init(l);
    local_enter(l);
    kernel_answer_tell(&a.answer,
                       &(struct kernel_asker){a.vars_done, a.saved_done, a.ctx},
                       a.n_bytes, clock_now_ms() - a.started_ms, &a.err);
    kernel_answer_fini(&a.answer);
    if (a.lost && !l->dead && l->base.on_lost != NULL)
        l->base.on_lost(l->base.on_lost_ctx, &a.loss);
    local_leave(l);
}

/* err NULL: well. */
static void
end_ask(struct local *l, const struct error *err)
{
    if (err != NULL)
        l->asked.err = *err;
    l->task = loop_defer(l->loop, report_asked, l);
}

void
local_ask_lost(struct local *l)
{
    struct local_asked *a = &l->asked;
    AUTO_FREE char *why = xstrdup(l->cell.reason);
    char *stop = why != NULL ? strstr(why, ". ") : NULL;
    enum event_outcome how = l->cell.ending;

    /* The first of the sentences, as a part of one. */
    if (stop != NULL) {
        *stop = '\0';
        why[0] = (char)tolower((unsigned char)why[0]);
    }
    local_cell_drop(l);
    a->lost = true;
    error_fill(&a->loss, ERR_SANDBOX, "%s while %s", why, a->ask->doing);
    error_fill(&a->err, how == EVENT_KILLED ? ERR_TIMEOUT : ERR_SANDBOX,
               "%s: %s", a->ask->doing, why);
    end_ask(l, NULL);
}

/* --- what the kernel answers --- */

/* What the kernel says went wrong, in one line. */
static void
fill_refusal(const struct local *l, enum event_outcome stop, const char *text,
             struct error *err)
{
    const char *doing = l->asked.ask->doing;
    const char *more =
        l->asked.ask == &ask_restore ? "; some of them may be back" : "";
    AUTO_FREE char *line = NULL;

    switch (stop) {
    case EVENT_TIMEOUT:
        error_fill(err, ERR_TIMEOUT, "%s: took longer than %lld s%s", doing,
                   (long long)l->limits.cell_ms / 1000, more);
        return;
    case EVENT_DISK_LIMIT:
        error_fill(err, ERR_LIMIT, "%s: the disk is nearly full", doing);
        return;
    case EVENT_INTERRUPTED:
        error_fill(err, ERR_CANCELLED, "%s: stopped%s", doing, more);
        return;
    case EVENT_OK:
    case EVENT_FAILED:
    case EVENT_OUTPUT_LIMIT:
    case EVENT_KILLED:
    case EVENT_DIED:
    case EVENT_MEMORY:
    case EVENT_LIMIT:
        break;
    }
    line = kernel_answer_line(text);
    error_fill(err, ERR_DATA, "%s: %s", doing, line);
}

static void
end_copy_out(void *ctx, const struct error *err)
{
    struct local *l = ctx;

    l->copy = NULL;
    close_fd(&l->op_fd);
    end_ask(l, err);
}

/* What the interpreter has written, which a cell may have touched since. */
static void
copy_out(struct local *l)
{
    struct local_asked *a = &l->asked;
    AUTO_FREE char *name = xasprintf(STATE "/%s", a->name);
    struct error err = {0};
    struct stat st = {0};

    l->op_fd = workspace_open(l->env.workspace_fd, name, &err);
    if (l->op_fd >= 0 && fstat(l->op_fd, &st) != 0)
        error_fill_errno(&err, ERR_IO, "%s", a->ask->doing);
    if (err.code == ERR_NONE &&
        (uint64_t)st.st_size > local_disk_room_at(a->fd))
        error_fill(&err, ERR_LIMIT, "%s: the disk is nearly full",
                   a->ask->doing);
    if (err.code != ERR_NONE) {
        close_fd(&l->op_fd);
        end_ask(l, &err);
        return;
    }
    a->n_bytes = (uint64_t)st.st_size;
    l->copy =
        local_copy_start(l->loop, l->op_fd, 0, (off_t)KERNEL_SNAPSHOT_BYTES,
                         true, a->fd, NULL, end_copy_out, NULL, l);
}

void
local_ask_answer(struct local *l, const struct cJSON *event)
{
    struct local_asked *a = &l->asked;
    enum event_outcome stop = l->cell.stop;
    const char *error = json_string(event, "error");
    struct error err = {0};

    local_cell_answered(l);
    if (error != NULL) {
        fill_refusal(l, stop, error, &err);
        end_ask(l, &err);
    } else if (a->ask == &ask_vars) {
        kernel_answer_read_vars(&a->answer, event);
        end_ask(l, NULL);
    } else {
        kernel_answer_read_saved(&a->answer, event, a->ask->changed);
        if (a->ask == &ask_snapshot)
            copy_out(l);
        else
            end_ask(l, NULL);
    }
}

/* --- the directory of snapshots --- */

static int
adopt(const struct local *l, int fd, mode_t mode, struct error *err)
{
    if ((l->env.drop && fchown(fd, l->env.uid, l->env.gid) != 0) ||
        fchmod(fd, mode) != 0)
        return err_set_errno(err, ERR_IO, "%s/" STATE, l->env.workspace);
    return 0;
}

/* A directory whose mode a cell has taken away. By the descriptor, since a name
   may be a link by now. */
static void
mend_state(int root)
{
    AUTO_CLOSE int fd =
        openat(root, STATE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[64];

    if (fd < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)!chmod(path, 0700);
}

/* Cells may have put anything there, and may do so at any time. */
static int
open_state(struct local *l, struct error *err)
{
    int root = l->env.workspace_fd;
    struct stat top;
    struct stat st;

    for (int i = 0; i < STATE_TRIES; i++) {
        AUTO_CLOSE int fd = -1;

        (void)!mkdirat(root, STATE, 0700);
        fd = openat(root, STATE,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK |
                        O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && fstat(root, &top) == 0 &&
            st.st_dev == top.st_dev) {
            if (adopt(l, fd, 0700, err) < 0)
                return -1;
            return take_fd(&fd);
        }
        if (fd < 0 && errno == EACCES)
            mend_state(root);
        else
            unlinkat(root, STATE, 0);
    }
    return err_set(err, ERR_IO,
                   "%s/" STATE ": cannot be made; remove what is "
                   "there",
                   l->env.workspace);
}

static void
make_name(struct local_asked *a)
{
    uint64_t number = 0;

    /* Two at a time do not exist: any name will do. */
    (void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
    snprintf(a->name, sizeof(a->name), "%016llx", (unsigned long long)number);
}

/* --- operations --- */

static struct local *
begin_ask(struct sandbox_backend *b, const struct local_ask *ask, void *ctx)
{
    struct local *l = (struct local *)b;

    local_ask_init(l);
    l->asked.ask = ask;
    l->asked.ctx = ctx;
    l->asked.started_ms = clock_now_ms();
    return l;
}

static int
need_idle(const struct local *l, struct error *err)
{
    if (l->state != LOCAL_IDLE)
        return err_set(err, ERR_SANDBOX, "%s: no interpreter runs",
                       l->asked.ask->doing);
    return 0;
}

/* limit_bytes 0: it has none. */
static void
send_ask(struct local *l, uint64_t limit_bytes)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_FREE char *path = xasprintf(STATE "/%s", l->asked.name);

    sbuf_init(&sb, MAX_LINE_BYTES);
    sbuf_add_char(&sb, '{');
    json_add_member_str(&sb, "op", l->asked.ask->op);
    json_add_member_int(&sb, "id", l->next_id + 1);
    if (l->asked.name[0] != '\0')
        json_add_member_str(&sb, "path", path);
    if (limit_bytes > 0) {
        json_add_member_int(&sb, "limit_s", KERNEL_SNAPSHOT_SECONDS);
        json_add_member_int(&sb, "limit_bytes", (int64_t)limit_bytes);
    }
    sbuf_add_str(&sb, "}\n");
    local_cell_ask(l, l->asked.ask, sb.data, sb.len);
}

void
local_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx)
{
    struct local *l = begin_ask(b, &ask_vars, ctx);
    struct error err = {0};

    l->asked.vars_done = done;
    if (need_idle(l, &err) < 0)
        end_ask(l, &err);
    else
        send_ask(l, 0);
}

void
local_snapshot(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
               void *ctx)
{
    struct local *l = begin_ask(b, &ask_snapshot, ctx);
    struct local_asked *a = &l->asked;
    struct error err = {0};
    uint64_t room = 0;

    a->saved_done = done;
    a->fd = fd;
    if (need_idle(l, &err) == 0 &&
        local_disk_find(l, a->ask->doing, KERNEL_SNAPSHOT_BYTES, &room, &err) ==
            0)
        a->state_fd = open_state(l, &err);
    if (err.code != ERR_NONE) {
        end_ask(l, &err);
        return;
    }
    make_name(a);
    send_ask(l, room);
}

static void
end_copy_in(void *ctx, const struct error *err)
{
    struct local *l = ctx;
    struct error mine = {0};

    l->copy = NULL;
    if (err == NULL && adopt(l, l->op_fd, 0600, &mine) < 0)
        err = &mine;
    if (err == NULL && need_idle(l, &mine) < 0)
        err = &mine;
    close_fd(&l->op_fd);
    if (err != NULL)
        end_ask(l, err);
    else
        send_ask(l, 0);
}

/* "restoring variables: the snapshot has 5.0 GB, at most 1.1 GB fit" */
static int
refuse_size(const struct local *l, uint64_t room_bytes, struct error *err)
{
    AUTO_SBUF struct sbuf size = {0};
    AUTO_SBUF struct sbuf limit = {0};

    sbuf_init(&size, MAX_LINE_BYTES);
    sbuf_init(&limit, MAX_LINE_BYTES);
    str_add_bytes(&size, l->asked.n_bytes);
    str_add_bytes(&limit, room_bytes);
    return err_set(err, ERR_LIMIT,
                   "%s: the snapshot has %s, at most %s fit into the workspace",
                   l->asked.ask->doing, size.data, limit.data);
}

static int
begin_copy_in(struct local *l, struct error *err)
{
    struct local_asked *a = &l->asked;
    uint64_t room;

    if (need_idle(l, err) < 0 ||
        local_disk_find(l, a->ask->doing, KERNEL_SNAPSHOT_BYTES, &room, err) <
            0)
        return -1;
    if (kernel_answer_check_size(a->fd, a->ask->doing, &a->n_bytes, err) < 0)
        return -1;
    if (a->n_bytes > room)
        return refuse_size(l, room, err);
    a->state_fd = open_state(l, err);
    if (a->state_fd < 0)
        return -1;
    make_name(a);
    l->op_fd =
        openat(a->state_fd, a->name,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (l->op_fd < 0)
        return err_set_errno(err, ERR_IO, "%s/" STATE, l->env.workspace);
    return 0;
}

void
local_restore(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
              void *ctx)
{
    struct local *l = begin_ask(b, &ask_restore, ctx);
    struct error err = {0};

    l->asked.saved_done = done;
    l->asked.fd = fd;
    if (begin_copy_in(l, &err) < 0) {
        end_ask(l, &err);
        return;
    }
    l->copy = local_copy_start(l->loop, fd, 0, (off_t)KERNEL_SNAPSHOT_BYTES,
                               true, l->op_fd, NULL, end_copy_in, NULL, l);
}
