/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/sandbox.h"
#include "store/snapshots.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_TEXT_BYTES 4096u

/* Variables that are named, to the person and to the model. */
#define MAX_SHOWN 30u
#define MAX_LEFT_SHOWN 20u
#define MAX_SAME_SHOWN 8u
#define MAX_TOLD 100u

/* The longest name that is told the model. */
#define MAX_NAME_BYTES 64u

/* ---- what both say --------------------------------------------------------
 */

static const char *
plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* "20,000" */
static char *
grouped(uint64_t n)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, 64);
    str_add_grouped(&sb, (int64_t)n);
    return sbuf_take(&sb);
}

/* Names come from inside. The model gets identifiers only, so that none of them
   can say something else. */
static bool
is_identifier(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > MAX_NAME_BYTES || (name[0] >= '0' && name[0] <= '9'))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];

        if (!(c == '_' || c >= 0x80 || (c >= '0' && c <= '9') ||
              (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            return false;
    }
    return true;
}

/* Adds as many names as max allows, and how many more there are. */
static void
add_names(struct sbuf *sb, const struct sandbox_saved *saved, size_t max,
          bool only_identifiers)
{
    size_t n_added = 0;
    uint64_t n = saved->n_names + saved->n_more;

    for (size_t i = 0; i < saved->n_names && n_added < max; i++) {
        if (only_identifiers && !is_identifier(saved->names[i]))
            continue;
        sbuf_addf(sb, "%s%.*s", n_added > 0 ? ", " : "", (int)MAX_NAME_BYTES,
                  saved->names[i]);
        n_added++;
    }
    if (n_added == n)
        return;
    AUTO_FREE char *more = grouped(n - n_added);

    sbuf_addf(sb, "%s%s more", n_added > 0 ? " and " : "", more);
}

/* Adds the names of all that lack for the same reason as that one; how many
   there are. */
static uint64_t
add_same(struct sbuf *sb, const struct sandbox_saved *saved, size_t first)
{
    const char *why = saved->left_out[first].why;
    uint64_t n = 0;

    for (size_t i = first; i < saved->n_left_out; i++) {
        if (!str_eq(saved->left_out[i].why, why))
            continue;
        if (n++ < MAX_SAME_SHOWN)
            sbuf_addf(sb, "%s%.*s", n > 1 ? ", " : "", (int)MAX_NAME_BYTES,
                      saved->left_out[i].name);
    }
    if (n > MAX_SAME_SHOWN) {
        AUTO_FREE char *more = grouped(n - MAX_SAME_SHOWN);

        sbuf_addf(sb, " and %s more", more);
    }
    return n;
}

static bool
was_told(const struct sandbox_saved *saved, const size_t *told, size_t n_told,
         size_t i)
{
    for (size_t j = 0; j < n_told; j++) {
        if (str_eq(saved->left_out[told[j]].why, saved->left_out[i].why))
            return true;
    }
    return false;
}

/* Which variables are missing, and why, a line for each reason. */
static void
tell_left_out(struct app *app, const struct sandbox_saved *saved,
              const char *what)
{
    struct view *v = app->config.view;
    uint64_t n = saved->n_left_out + saved->n_left_out_more;
    AUTO_FREE char *all = grouped(n);
    AUTO_SBUF struct sbuf names = {0};
    size_t told[MAX_LEFT_SHOWN];
    size_t n_told = 0;
    uint64_t n_named = 0;

    if (n == 0)
        return;
    view_warning(v, "%s variable%s %s %s:", all, plural(n),
                 n == 1 ? "is" : "are", what);
    sbuf_init(&names, MAX_TEXT_BYTES);
    for (size_t i = 0; i < saved->n_left_out && n_told < MAX_LEFT_SHOWN; i++) {
        if (was_told(saved, told, n_told, i))
            continue;
        told[n_told++] = i;
        sbuf_clear(&names);
        n_named += add_same(&names, saved, i);
        view_note(v, "%s: %.300s", names.data, saved->left_out[i].why);
    }
    if (n_named < n) {
        AUTO_FREE char *more = grouped(n - n_named);

        view_note(v, "and %s more", more);
    }
}

static void
end_command(struct app *app, const struct error *err)
{
    app->op = NULL;
    io_new_close(&app->snapshot.file);
    close_fd(&app->snapshot.fd);
    free(take_ptr(&app->snapshot.name));
    command_done(app, err);
}

/* ---- :snapshot ------------------------------------------------------------
 */

static void
tell_kept(struct app *app, const struct sandbox_saved *saved)
{
    const struct io_new *file = &app->snapshot.file;
    uint64_t n = saved->n_names + saved->n_more;
    AUTO_FREE char *all = grouped(n);
    AUTO_SBUF struct sbuf size = {0};
    struct stat st;

    sbuf_init(&size, 64);
    str_add_bytes(&size, fstat(file->fd, &st) == 0 ? (uint64_t)st.st_size : 0);
    view_note(app->config.view,
              "snapshot %s: %s variable%s, %s, readable by you only",
              paths_base(file->path), all, plural(n), size.data);
    view_note(app->config.view, "%s", file->path);
}

/* Gives it its name once it is on the disk. */
static int
keep_file(struct app *app, struct error *err)
{
    struct io_new *file = &app->snapshot.file;

    if (fdatasync(file->fd) != 0 && errno != EINVAL)
        return err_set_errno(err, ERR_IO, "%s", file->path);
    return io_new_keep(file, err);
}

static void
on_snapshot(void *ctx, const struct sandbox_saved *saved,
            const struct error *err)
{
    struct app *app = ctx;
    struct error why = {0};

    view_status(app->config.view, NULL);
    if (err != NULL) {
        why = *err;
        error_prepend(&why, "no snapshot was made");
    } else if (saved->n_names == 0) {
        error_fill(&why, ERR_DATA, "no snapshot was made: %s",
                   saved->n_left_out > 0 ? "no variable can be kept"
                                         : "there are no variables");
    } else if (keep_file(app, &why) == 0) {
        tell_kept(app, saved);
    }
    if (saved != NULL)
        tell_left_out(app, saved, "not in it");
    end_command(app, why.code != ERR_NONE ? &why : NULL);
}

static enum command_result
run_snapshot(struct app *app, char *const *words, size_t n_words,
             struct error *err)
{
    const char *name = n_words > 0 ? words[0] : NULL;

    if (app_check_sandbox(app, err) < 0)
        return CMD_ERROR;
    if (snapshots_create(name, &app->snapshot.file, err) < 0) {
        io_new_close(&app->snapshot.file);
        return CMD_ERROR;
    }
    app_op_status(app, "writing a snapshot");
    app->op = sandbox_snapshot(app->config.sandbox, app->snapshot.file.fd,
                               on_snapshot, app);
    return CMD_WAIT;
}

/* ---- :restore -------------------------------------------------------------
 */

static void
tell_restored(struct app *app, const struct sandbox_saved *saved)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_TEXT_BYTES);
    add_names(&sb, saved, MAX_SHOWN, false);
    view_note(app->config.view, "back from %s: %s", app->snapshot.name,
              saved->n_names > 0 ? sb.data : "nothing");
}

static void
tell_model(struct app *app, const struct sandbox_saved *saved)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (app->agent == NULL || saved->n_names == 0)
        return;
    sbuf_init(&sb, (MAX_TOLD + 2) * (MAX_NAME_BYTES + 2));
    sbuf_add_str(&sb, "[The user brought variables of a snapshot back into the "
                      "interpreter: ");
    add_names(&sb, saved, MAX_TOLD, true);
    sbuf_add_str(&sb, ". Others of the same names were replaced.]");
    agent_tell(app->agent, sb.data);
}

static void
on_restore(void *ctx, const struct sandbox_saved *saved,
           const struct error *err)
{
    struct app *app = ctx;
    struct error why = {0};

    view_status(app->config.view, NULL);
    if (err != NULL) {
        why = *err;
        error_prepend(&why, "snapshot %s", app->snapshot.name);
    } else {
        tell_restored(app, saved);
        tell_left_out(app, saved, "not back");
        tell_model(app, saved);
    }
    end_command(app, why.code != ERR_NONE ? &why : NULL);
}

static enum command_result
run_restore(struct app *app, char *const *words, size_t n_words,
            struct error *err)
{
    const char *name = n_words > 0 ? words[0] : NULL;

    app->snapshot.fd = snapshots_open(name, &app->snapshot.name, err);
    if (app->snapshot.fd < 0)
        return CMD_ERROR;
    app_op_status(app, "reading a snapshot");
    app->op =
        sandbox_restore(app->config.sandbox, app->snapshot.fd, on_restore, app);
    return CMD_WAIT;
}

const struct command cmd_snapshot = {
    .name = "snapshot",
    .arguments = "[NAME]",
    .help = "keep the variables in a file, for :restore",
    .min_words = 0,
    .max_words = 1,
    .completion = COMPLETE_NOTHING,
    .run = run_snapshot,
    .cancel = app_cancel_op,
};

const struct command cmd_restore = {
    .name = "restore",
    .arguments = "[NAME]",
    .help = "bring the variables of a snapshot back; the newest without NAME",
    .min_words = 0,
    .max_words = 1,
    .completion = COMPLETE_SNAPSHOT,
    .run = run_restore,
    .cancel = app_cancel_op,
};
