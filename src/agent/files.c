/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "base/utf8.h"

/* What is copied out of the sandbox after one cell. */
#define MAX_COPY_BYTES 50000000u
#define MAX_COPIES 20u

/* Of what is left in the sandbox so many are named. */
#define MAX_NAMED 3u
#define MAX_NAME_BYTES 80u
#define MAX_PATH_BYTES 4096u
#define MAX_NOTE_BYTES 2048u

/* A file that the list of the workspace does not have. */
#define NOT_LISTED SIZE_MAX

/* What is still copied once the turn is to end: nobody waits for more. */
#define MAX_LATE_BYTES (1u << 20)

static void copy_next(struct agent *a);

void
agent_files_init(struct agent *a)
{
    a->copy_fd = -1;
    sbuf_init(&a->left_out, MAX_NOTE_BYTES);
}

void
agent_forget_offers(struct agent *a)
{
    for (size_t i = 0; i < a->n_offers; i++)
        free(a->offers[i]);
    free(a->offers);
    a->offers = NULL;
    a->n_offers = 0;
}

void
agent_offer_file(struct agent *a, const char *name)
{
    if (a->n_offers == MAX_COPIES || name[0] == '\0' ||
        strlen(name) > MAX_PATH_BYTES)
        return;
    for (size_t i = 0; i < a->n_offers; i++) {
        if (str_eq(a->offers[i], name))
            return;
    }
    a->offers = xgrow(a->offers, a->n_offers, sizeof(*a->offers));
    a->offers[a->n_offers++] = xstrdup(name);
}

static void
free_found(struct agent *a)
{
    for (size_t i = 0; i < a->n_found; i++) {
        free(a->found[i].name);
        free(a->found[i].refused);
    }
    free(a->found);
    a->found = NULL;
    a->n_found = 0;
    a->at_found = 0;
    a->n_left_out = 0;
    sbuf_clear(&a->left_out);
    agent_forget_offers(a);
}

static void
forget_seen(struct agent *a)
{
    for (size_t i = 0; i < a->n_seen; i++)
        free(a->seen[i].name);
    free(a->seen);
    a->seen = NULL;
    a->n_seen = 0;
    a->seen_known = false;
}

void
agent_files_fini(struct agent *a)
{
    free_found(a);
    forget_seen(a);
    sbuf_fini(&a->left_out);
    free(a->not_listed);
    close_fd(&a->copy_fd);
}

void
agent_keep_outcome(struct agent *a, const struct sandbox_outcome *o)
{
    a->outcome = *o;
    a->outcome.error_name = xstrdup(o->error_name);
    a->outcome.error_value = xstrdup(o->error_value);
    a->outcome.traceback = xstrdup(o->traceback);
    a->outcome.hint = xstrdup(o->hint);
    a->outcome.reason = xstrdup(o->reason);
}

void
agent_free_outcome(struct agent *a)
{
    free_const(a->outcome.error_name);
    free_const(a->outcome.error_value);
    free_const(a->outcome.traceback);
    free_const(a->outcome.hint);
    free_const(a->outcome.reason);
    memset(&a->outcome, 0, sizeof(a->outcome));
}

static void
note_seen(struct agent *a, const struct sandbox_list *list)
{
    forget_seen(a);
    a->seen = xcalloc(list->n_files + 1, sizeof(*a->seen));
    a->n_seen = list->n_files;
    a->seen_known = true;
    for (size_t i = 0; i < list->n_files; i++) {
        const struct sandbox_file *f = &list->files[i];

        a->seen[i] = (struct agent_seen){
            .name = f->inode == 0 ? xstrdup(f->name) : NULL,
            .inode = f->inode,
            .size_bytes = f->size_bytes,
            .mtime_ns = f->mtime_ns,
        };
    }
}

/* By the inode it is known where it has another name, too. */
static bool
is_same_file(const struct agent_seen *seen, const struct sandbox_file *f)
{
    if (seen->size_bytes != f->size_bytes || seen->mtime_ns != f->mtime_ns)
        return false;
    if (f->inode == 0)
        return seen->name != NULL && str_eq(seen->name, f->name);
    return seen->inode == f->inode;
}

static bool
was_there(const struct agent *a, const struct sandbox_file *f)
{
    for (size_t i = 0; i < a->n_seen; i++) {
        if (is_same_file(&a->seen[i], f))
            return true;
    }
    return false;
}

static void
on_listed_before(void *ctx, const struct sandbox_list *list,
                 const struct error *err)
{
    struct agent *a = ctx;

    a->op = NULL;
    if (err == NULL)
        note_seen(a, list);
    a->after_list(a);
}

/* Whether an interpreter waits, so that listing the files starts none. */
static bool
is_there(const struct sandbox *sb)
{
    enum sandbox_state state = sandbox_state(sb);

    return state == SANDBOX_IDLE || state == SANDBOX_SUSPENDED;
}

void
agent_list_before(struct agent *a, void (*then)(struct agent *a))
{
    unsigned workspace = sandbox_workspace(a->config.sandbox);

    if (workspace != a->seen_workspace)
        forget_seen(a);
    a->seen_workspace = workspace;
    /* What was there after the last cell is known; only the program itself has
       put files since, and those are not listed. */
    if (a->seen_known || !is_there(a->config.sandbox)) {
        then(a);
        return;
    }
    a->after_list = then;
    a->op = sandbox_list_files(a->config.sandbox, on_listed_before, a);
}

static void
emit_file(struct agent *a, const struct agent_found *f, int fd)
{
    struct event_file file = {
        .name = f->name,
        .fd = fd,
        .size_bytes = f->size_bytes,
        .refused = f->refused,
        .advice = f->advice,
        .offered = f->offered,
    };
    struct stat st;

    /* The copy counts: the file may have grown since it was listed. */
    if (fd >= 0 && fstat(fd, &st) == 0)
        file.size_bytes = (uint64_t)st.st_size;
    context_add_file(&a->context, &file);
    agent_emit(
        a, &(struct event){.kind = EVENT_FILE, .cell = a->cell, .file = &file});
}

/* Notes the name of a file that is left in the sandbox: one line of text,
   whatever the name is. */
static void
name_left_out(struct agent *a, const char *name)
{
    AUTO_SBUF struct sbuf clean = {0};
    size_t start = 0;
    size_t n = 0;

    if (a->n_left_out++ >= MAX_NAMED)
        return;
    sbuf_init(&clean, MAX_PATH_BYTES * 3);
    utf8_add_repaired(&clean, name, strlen(name));
    n = utf8_floor(clean.data, clean.len, MAX_NAME_BYTES);
    if (a->left_out.len > 0)
        sbuf_add_str(&a->left_out, ", ");
    start = a->left_out.len;
    sbuf_add(&a->left_out, clean.data, n);
    for (size_t i = start; i < a->left_out.len; i++) {
        if ((unsigned char)a->left_out.data[i] < ' ')
            a->left_out.data[i] = '?';
    }
}

/* Leaves a file for after the next cell: the turn is to end. */
static void
leave_file(struct agent *a, const struct agent_found *f)
{
    if (f->seen != NOT_LISTED) {
        free(a->seen[f->seen].name);
        a->seen[f->seen] = (struct agent_seen){0};
    }
    name_left_out(a, f->name);
}

static void
refuse_as_too_large(struct agent_found *f)
{
    free(f->refused);
    f->refused = xasprintf("larger than %u MB", MAX_COPY_BYTES / 1000000);
    f->advice = "in parts or compressed it would be";
}

static void
refuse(struct agent_found *f, const struct error *err)
{
    const char *why = err != NULL ? err->msg : "it is gone";
    size_t len = strlen(f->name);

    if (err != NULL && err->code == ERR_TOO_LARGE) {
        refuse_as_too_large(f);
        return;
    }
    /* The name stands before it already. */
    if (strncmp(why, f->name, len) == 0 && str_starts(why + len, ": "))
        why += len + 2;
    free(f->refused);
    f->refused = xstrdup(why);
}

static void
on_copied(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct agent *a = ctx;
    struct agent_found *f = &a->found[a->at_found];

    a->op = NULL;
    if (err == NULL && end == SANDBOX_DONE &&
        lseek(a->copy_fd, 0, SEEK_SET) == 0) {
        emit_file(a, f, a->copy_fd);
    } else if (a->stop != AGENT_GO_ON) {
        leave_file(a, f);
    } else {
        refuse(f, err);
        emit_file(a, f, -1);
    }
    close_fd(&a->copy_fd);
    a->at_found++;
    copy_next(a);
}

static void
tell_both(struct agent *a, const char *text)
{
    agent_notice(a, EVENT_INFO, text);
    context_add_note(&a->context, text);
}

static void
tell_left_out(struct agent *a)
{
    uint64_t n = a->n_left_out;
    AUTO_FREE char *text = xasprintf(
        "%" PRIu64 " more new file%s left in the sandbox: %s%s; display(NAME) "
        "in a cell gives one, an archive gives many",
        n, n == 1 ? " was" : "s were", a->left_out.data,
        n > MAX_NAMED ? " ..." : "");

    tell_both(a, text);
}

/* Once for each number: what nobody looks at stays there. */
static void
tell_unlisted(struct agent *a, const struct sandbox_list *list)
{
    if (list->n_left_out > 0 && list->n_left_out != a->n_unlisted) {
        AUTO_FREE char *text =
            xasprintf("%s%" PRIu64 " more in the workspace %s not looked at: "
                      "at most 1,000 files are, 8 levels deep; an archive of "
                      "them would be",
                      list->more ? "at least " : "", list->n_left_out,
                      list->n_left_out == 1 ? "is" : "are");

        tell_both(a, text);
    }
    a->n_unlisted = list->n_left_out;
}

static void
finish_files(struct agent *a)
{
    if (a->n_left_out > 0)
        tell_left_out(a);
    free_found(a);
    agent_send_charts(a);
}

/* Copies the next new file into memory, or ends. */
static void
copy_next(struct agent *a)
{
    for (; a->at_found < a->n_found; a->at_found++) {
        struct agent_found *f = &a->found[a->at_found];

        if (a->stop != AGENT_GO_ON && f->refused == NULL) {
            if (f->size_bytes > a->late_bytes) {
                leave_file(a, f);
                continue;
            }
            a->late_bytes -= f->size_bytes;
        }
        if (f->refused == NULL && f->size_bytes > MAX_COPY_BYTES)
            refuse_as_too_large(f);
        if (f->refused != NULL) {
            emit_file(a, f, -1);
            continue;
        }
        a->copy_fd = memfd_create("output", MFD_CLOEXEC);
        if (a->copy_fd < 0) {
            f->refused = xstrdup("no memory for a copy");
            emit_file(a, f, -1);
            continue;
        }
        a->op = sandbox_get(a->config.sandbox, f->name, a->copy_fd, 0,
                            MAX_COPY_BYTES, on_copied, a);
        return;
    }
    finish_files(a);
}

static struct agent_found *
add_found(struct agent *a, const char *name)
{
    struct agent_found *f = NULL;

    a->found = xgrow(a->found, a->n_found, sizeof(*a->found));
    f = &a->found[a->n_found++];
    *f = (struct agent_found){.name = xstrdup(name), .seen = NOT_LISTED};
    return f;
}

static void
add_listed(struct agent *a, const struct sandbox_list *list, size_t i,
           bool offered)
{
    const struct sandbox_file *file = &list->files[i];
    struct agent_found *f = add_found(a, file->name);

    f->seen = i;
    f->size_bytes = file->size_bytes;
    f->refused = xstrdup(file->refused);
    f->offered = offered;
}

/* A file that the person has outside. */
static bool
is_loaded(const struct agent *a, const char *name)
{
    size_t n = 0;
    const struct sandbox_loaded *loaded = sandbox_loaded(a->config.sandbox, &n);

    if (str_starts(name, "data/"))
        name += strlen("data/");
    for (size_t i = 0; i < n; i++) {
        if (str_eq(loaded[i].name, name))
            return true;
    }
    return false;
}

/* What the cell shows by its name, new or not. That it is there, and what it
   is, the list says or the attempt to open it: the cell may say anything. */
static void
add_offer(struct agent *a, const struct sandbox_list *list, const char *name)
{
    for (size_t i = 0; i < list->n_files; i++) {
        AUTO_SBUF struct sbuf listed = {0};
        const char *bytes = list->files[i].name;

        sbuf_init(&listed, MAX_PATH_BYTES * 3);
        utf8_add_repaired(&listed, bytes, strlen(bytes));
        if (str_eq(listed.data, name)) {
            add_listed(a, list, i, true);
            return;
        }
    }
    if (is_loaded(a, name)) {
        AUTO_FREE char *text = xasprintf(
            "%.200s is a loaded file: the user has it, it is not copied", name);

        tell_both(a, text);
        return;
    }
    add_found(a, name)->offered = true;
}

static bool
is_found(const struct agent *a, size_t seen)
{
    for (size_t i = 0; i < a->n_found; i++) {
        if (a->found[i].seen == seen)
            return true;
    }
    return false;
}

/* The model learns it at once. The person does at the end of the turn: what
   went wrong may end that, and is said then; or files are found after the next
   cell.
 */
static void
note_not_listed(struct agent *a, const struct error *err)
{
    if (a->stop != AGENT_GO_ON || err->code == ERR_CANCELLED)
        return;
    a->not_listed = xasprintf("files that cell %d made could not be looked "
                              "for: %s",
                              a->cell, err->msg);
    a->not_listed_in = sandbox_workspace(a->config.sandbox);
    context_add_note(&a->context, a->not_listed);
}

void
agent_tell_not_listed(struct agent *a)
{
    AUTO_FREE char *text = take_ptr(&a->not_listed);

    /* Of a workspace that is gone it is said that it is. */
    if (text != NULL && a->end_err.code == ERR_NONE &&
        a->not_listed_in == sandbox_workspace(a->config.sandbox))
        agent_notice(a, EVENT_WARNING, text);
}

static void
on_listed_after(void *ctx, const struct sandbox_list *list,
                const struct error *err)
{
    struct agent *a = ctx;

    a->op = NULL;
    free(take_ptr(&a->not_listed));
    if (err != NULL) {
        note_not_listed(a, err);
        finish_files(a);
        return;
    }
    for (size_t i = 0; i < a->n_offers; i++)
        add_offer(a, list, a->offers[i]);
    for (size_t i = 0; i < list->n_files; i++) {
        if (was_there(a, &list->files[i]) || is_found(a, i))
            continue;
        if (a->n_found < MAX_COPIES)
            add_listed(a, list, i, false);
        else
            name_left_out(a, list->files[i].name);
    }
    tell_unlisted(a, list);
    note_seen(a, list);
    copy_next(a);
}

void
agent_collect_files(struct agent *a)
{
    a->late_bytes = MAX_LATE_BYTES;
    a->op = sandbox_list_files(a->config.sandbox, on_listed_after, a);
}
