/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/sandbox_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "sandbox/quiet_cell_internal.h"

#define LOG_MODULE "sandbox"

#define MAX_NAMES_BYTES 512u
#define MAX_REASON_BYTES 4096u
#define MAX_ERROR_NAME 64u

static void
fini_kept(struct sandbox_kept *kept)
{
    for (size_t i = 0; i < 5; i++)
        free(kept->strings[i]);
    memset(kept, 0, sizeof(*kept));
}

static void
keep_outcome(struct sandbox *sb, const struct sandbox_outcome *outcome)
{
    struct sandbox_kept *k = &sb->kept;

    k->outcome = *outcome;
    k->outcome.error_name = k->strings[0] = xstrdup(outcome->error_name);
    k->outcome.error_value = k->strings[1] = xstrdup(outcome->error_value);
    k->outcome.traceback = k->strings[2] = xstrdup(outcome->traceback);
    k->outcome.hint = k->strings[3] = xstrdup(outcome->hint);
    k->outcome.reason = k->strings[4] = xstrdup(outcome->reason);
}

/* --- what came back, and what did not --- */

void
sandbox_restore_init(struct sandbox *sb)
{
    sbuf_init(&sb->loaded_again.text, MAX_NAMES_BYTES);
    sbuf_init(&sb->not_loaded.text, MAX_NAMES_BYTES);
    sbuf_init(&sb->changed.text, MAX_NAMES_BYTES);
}

static void
forget(struct sandbox_names *names)
{
    sbuf_clear(&names->text);
    names->n = names->n_more = 0;
}

static void
forget_names(struct sandbox *sb)
{
    forget(&sb->loaded_again);
    forget(&sb->not_loaded);
    forget(&sb->changed);
}

/* What a file is called may be any bytes: it stays on its line. */
static void
add_name(struct sandbox_names *names, const char *name)
{
    struct sbuf *text = &names->text;
    AUTO_SBUF struct sbuf clean = {0};

    sbuf_init(&clean, MAX_REASON_BYTES);
    utf8_add_repaired(&clean, name, strlen(name));
    for (size_t i = 0; i < clean.len; i++) {
        if ((unsigned char)clean.data[i] < ' ')
            clean.data[i] = '?';
    }
    names->n++;
    if (names->n_more > 0 || text->len + clean.len + 2 > MAX_NAMES_BYTES) {
        names->n_more++;
        return;
    }
    if (text->len > 0)
        sbuf_add_str(text, ", ");
    sbuf_add_str(text, clean.data);
}

/* why: of our own words, since the sentence is shown as one of ours. */
static void
note_failure(struct sandbox *sb, const struct sandbox_loaded *file,
             const char *why)
{
    AUTO_FREE char *text =
        xasprintf("%s (%s: %s)", file->variable, file->name, why);

    LOG_WARN("not loaded again: %s", text);
    add_name(&sb->not_loaded, text);
}

/* All from that one on. */
static void
give_up_rest(struct sandbox *sb, size_t first, const char *why)
{
    for (size_t i = first; i < sb->n_loaded; i++)
        if (sb->loaded[i].setup != NULL)
            note_failure(sb, &sb->loaded[i], why);
}

/* What ends the interpreter once would do so again; and what was there before
   is gone once more. The files themselves may be put. */
static void
note_lost_again(struct sandbox *sb)
{
    forget(&sb->loaded_again);
    forget(&sb->not_loaded);
    give_up_rest(sb, 0, "the interpreter ended again");
    sb->restore_next = 0;
    sb->restore_put_done = false;
    sb->restore_puts_only = true;
}

/* The person has stopped it, and does not want what comes behind it either. */
static void
stop_rest(struct sandbox *sb)
{
    if (!sb->restore_puts_only)
        give_up_rest(sb, sb->restore_next, "stopped");
    sb->restore_next = sb->n_loaded;
    sb->restore_put_done = false;
}

static bool
is_plain_name(const char *name)
{
    return name != NULL && name[0] != '\0' && strlen(name) <= MAX_ERROR_NAME &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789_") == strlen(name);
}

static void
note_failed_setup(struct sandbox *sb, const struct sandbox_outcome *outcome)
{
    const struct sandbox_loaded *file = &sb->loaded[sb->restore_next];
    AUTO_FREE char *why = NULL;
    struct stat st;

    if (outcome->outcome == EVENT_INTERRUPTED)
        note_failure(sb, file, "stopped");
    else if (outcome->outcome == EVENT_TIMEOUT)
        note_failure(sb, file, "it took too long");
    else if (stat(file->path, &st) != 0)
        note_failure(sb, file, "there is no such file");
    else if (is_plain_name(outcome->error_name))
        note_failure(
            sb, file,
            why = xasprintf("reading it ended with %s", outcome->error_name));
    else
        note_failure(sb, file, "reading it failed");
}

void
sandbox_miss_files(struct sandbox *sb)
{
    sb->files_gone = true;
    sb->workspace++;
    for (size_t i = 0; i < sb->n_loaded; i++)
        sb->loaded[i].missing = true;
}

/* --- whether a file is still the one that was loaded --- */

bool
sandbox_mark_of(int fd, struct sandbox_mark *mark)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *mark = (struct sandbox_mark){
        .size_bytes = (uint64_t)st.st_size,
        .mtime_ns =
            st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
        .inode = st.st_ino,
        .device = st.st_dev,
    };
    return true;
}

static bool
has_changed(const struct sandbox_loaded *file)
{
    const struct sandbox_mark *was = &file->mark;
    struct sandbox_mark is = {0};
    AUTO_CLOSE int fd = open(file->path, O_PATH | O_CLOEXEC);

    if (was->inode == 0 || !sandbox_mark_of(fd, &is))
        return false;
    return is.size_bytes != was->size_bytes || is.mtime_ns != was->mtime_ns ||
           is.inode != was->inode || is.device != was->device;
}

/* Before it is put or read again. */
static void
note_change(struct sandbox *sb, struct sandbox_loaded *file)
{
    file->changed = has_changed(file);
    if (file->changed)
        add_name(&sb->changed, file->name);
}

static void
add_changes(struct sbuf *out, const struct sandbox_names *changed)
{
    if (changed->n == 0)
        return;
    sbuf_addf(out, "%s%s", out->len > 0 ? " " : "", changed->text.data);
    if (changed->n_more > 0)
        sbuf_addf(out, " and %u more", changed->n_more);
    sbuf_add_str(out, changed->n == 1 ? " has changed since it was loaded."
                                      : " have changed since they were "
                                        "loaded.");
}

static void
add_names(struct sbuf *out, const char *what, const struct sandbox_names *names)
{
    if (names->text.len > 0) {
        sbuf_addf(out, "%s%s: %s", out->len > 0 ? " " : "", what,
                  names->text.data);
        if (names->n_more > 0)
            sbuf_addf(out, " and %u more", names->n_more);
        sbuf_add_char(out, '.');
    }
}

/* Adds to a reason (NULL: none yet) what has come back; the caller owns the
   new one. */
static char *
complete_reason(struct sandbox *sb, const char *reason)
{
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&out, MAX_REASON_BYTES);
    sbuf_add_str(&out, reason != NULL ? reason : "");
    add_names(&out, "Loaded again", &sb->loaded_again);
    add_changes(&out, &sb->changed);
    add_names(&out, "Could not be loaded again", &sb->not_loaded);
    return sbuf_take(&out);
}

static void
complete_idle_loss(struct sandbox *sb)
{
    AUTO_FREE char *before = take_ptr(&sb->idle_loss);

    if (before == NULL)
        before = xasprintf(SANDBOX_BEFORE "the interpreter was started anew.%s",
                           sb->files_gone ? " " SANDBOX_FILES_LOST_TEXT : "");
    sb->idle_loss = complete_reason(sb, before);
}

/* It was for this that the files were brought back. */
static void
end_restart(struct sandbox *sb)
{
    AUTO_SBUF struct sbuf names = {0};
    struct error err = {0};

    sbuf_init(&names, MAX_REASON_BYTES);
    add_names(&names, "could not be loaded again", &sb->not_loaded);
    if (sb->state == SANDBOX_NEW)
        error_fill(&err, ERR_SANDBOX,
                   "the interpreter ended again while files were loaded");
    else if (names.len > 0)
        error_fill(&err, ERR_DATA, "%.*s", (int)names.len - 1, names.data);
    sandbox_restart_end(sb, err.code != ERR_NONE ? &err : NULL);
}

void
sandbox_restore_end(struct sandbox *sb)
{
    struct sandbox_op *op = take_ptr(&sb->restored_op);
    struct sandbox_kept kept = sb->kept;

    if (sb->restore_next < sb->n_loaded && !sb->restore_puts_only)
        note_lost_again(sb);
    /* It will be tried again before the next cell. */
    if (op == NULL && sb->state == SANDBOX_NEW)
        forget_names(sb);
    if (op != NULL) {
        char *reason = complete_reason(sb, kept.strings[4]);

        free(kept.strings[4]);
        kept.outcome.reason = kept.strings[4] = reason;
    } else if (sb->idle_loss != NULL || sb->files_gone ||
               sb->loaded_again.text.len > 0 || sb->not_loaded.text.len > 0) {
        complete_idle_loss(sb);
    }
    if (sb->state == SANDBOX_BUSY)
        sb->files_gone = false;
    close_fd(&sb->restore_fd);
    sb->restoring = false;
    if (sb->state == SANDBOX_BUSY)
        sb->state = SANDBOX_IDLE;
    memset(&sb->kept, 0, sizeof(sb->kept));
    sandbox_schedule(sb);
    if (op != NULL)
        sandbox_end_op(op, SANDBOX_RESTARTED, &kept.outcome, NULL);
    else if (sb->restart_op != NULL)
        end_restart(sb);
    fini_kept(&kept);
}

static void
handle_setup(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct sandbox *sb = ctx;

    sb->restore_runs = false;
    sandbox_note_files(sb, outcome);
    if (end == SANDBOX_DONE && outcome->outcome != EVENT_OK)
        note_failed_setup(sb, outcome);
    else if (end == SANDBOX_DONE)
        add_name(&sb->loaded_again, sb->loaded[sb->restore_next].variable);
    sb->restore_needed = end == SANDBOX_LOST;
    if (end == SANDBOX_DONE) {
        sb->restore_next++;
        sb->restore_put_done = false;
    } else {
        note_lost_again(sb);
    }
    if (end == SANDBOX_LOST) {
        LOG_WARN("lost while loading again: %s", err->msg);
        sb->state = SANDBOX_NEW;
        sb->wanted = sb->first != NULL;
    }
    sandbox_schedule(sb);
}

static void
tell_progress(struct sandbox *sb, const char *name, uint64_t done_bytes,
              uint64_t total_bytes)
{
    if (sb->on_put_again != NULL)
        sb->on_put_again(sb->on_put_again_ctx, name, done_bytes, total_bytes);
}

static void
handle_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct sandbox *sb = ctx;

    tell_progress(sb, sb->loaded[sb->restore_next].name, done_bytes,
                  total_bytes);
}

static void
handle_put_again(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct sandbox *sb = ctx;
    struct sandbox_loaded *file = &sb->loaded[sb->restore_next];

    tell_progress(sb, NULL, 0, 0);
    close_fd(&sb->restore_fd);
    sb->restore_runs = false;
    sb->restore_put_done = true;
    file->missing = end != SANDBOX_DONE;
    if (end != SANDBOX_DONE) {
        LOG_WARN("%s could not be put again: %s", file->name, err->msg);
        if (file->setup != NULL && !sb->restore_puts_only)
            note_failure(sb, file,
                         err->code == ERR_CANCELLED
                             ? "stopped"
                             : "it could not be sent again");
        sb->restore_next++;
        sb->restore_put_done = false;
    }
    sandbox_schedule(sb);
}

static bool
put_again(struct sandbox *sb)
{
    const struct sandbox_loaded *file = &sb->loaded[sb->restore_next];
    struct sandbox_put put = {
        .path = file->path, .name = file->name, .limit = -1};

    if ((sb->backend->caps.keeps_files && !file->missing) ||
        sb->restore_put_done)
        return false;
    sb->restore_fd =
        open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (sb->restore_fd < 0) {
        LOG_WARN("%s is no longer there", file->path);
        return false;
    }
    put.fd = sb->restore_fd;
    sb->restore_runs = true;
    sb->backend->ops->put(sb->backend, &put, handle_progress, handle_put_again,
                          sb);
    return true;
}

void
sandbox_restore_step(struct sandbox *sb)
{
    struct sandbox_cell_handlers quiet = quiet_cell;
    struct sandbox_cell cell = {.silent = true};
    struct sandbox_loaded *file = NULL;
    const char *setup;

    if (sb->restore_runs)
        return;
    if (sb->restart_op != NULL && sb->restart_op->cancelled)
        stop_rest(sb);
    if (sb->restore_next >= sb->n_loaded) {
        sandbox_restore_end(sb);
        return;
    }
    file = &sb->loaded[sb->restore_next];
    setup = sb->restore_puts_only ? NULL : file->setup;
    if (setup != NULL && !sb->restore_put_done)
        note_change(sb, file);
    if (put_again(sb))
        return;
    if (setup == NULL) {
        sb->restore_next++;
        sb->restore_put_done = false;
        sandbox_schedule(sb);
        return;
    }
    cell.code = setup;
    cell.code_len = strlen(setup);
    cell.timeout_ms = sb->limits.cell_ms;
    sb->restore_runs = true;
    sb->used = true;
    quiet.on_done = handle_setup;
    sb->backend->ops->run_cell(sb->backend, &cell, &quiet, sb);
}

void
sandbox_restore_begin(struct sandbox *sb, struct sandbox_op *op,
                      const struct sandbox_outcome *outcome)
{
    if (op != NULL)
        keep_outcome(sb, outcome);
    sb->restored_op = op;
    forget_names(sb);
    sb->restore_needed = false;
    sb->restoring = true;
    sb->restore_next = 0;
    sb->restore_put_done = false;
    sb->restore_puts_only = false;
    sb->state = SANDBOX_BUSY;
    sandbox_schedule(sb);
}

void
sandbox_on_put_again(struct sandbox *sb,
                     void (*fn)(void *ctx, const char *name,
                                uint64_t done_bytes, uint64_t total_bytes),
                     void *ctx)
{
    sb->on_put_again = fn;
    sb->on_put_again_ctx = ctx;
}

void
sandbox_restore_fini(struct sandbox *sb)
{
    close_fd(&sb->restore_fd);
    fini_kept(&sb->kept);
}
