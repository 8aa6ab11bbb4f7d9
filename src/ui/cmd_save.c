/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "sandbox/sandbox.h"
#include "store/recorder.h"
#include "term/sanitize.h"
#include "ui/app_internal.h"
#include "ui/cmd_cell_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_CODE_BYTES 4096
#define MAX_NAME_BYTES (64u << 10)
#define MAX_CHART_BYTES (64 << 20)
#define MAX_TABLE_BYTES ((off_t)16 << 30)

/* ---- where it goes --------------------------------------------------------
 */

/* The file to write: what was named, below it when it is a directory, else a
   name in the current directory. Owned by the caller. */
static char *
choose_path(const char *wanted, const char *name)
{
    struct stat st;

    if (wanted == NULL)
        return xstrdup(name);
    if (stat(wanted, &st) == 0 && S_ISDIR(st.st_mode))
        return paths_join(wanted, name);
    return xstrdup(wanted);
}

static void
tell_saved(struct app *app, const char *path, int fd)
{
    AUTO_SBUF struct sbuf name = {0};
    AUTO_SBUF struct sbuf size = {0};
    struct stat st;

    sbuf_init(&name, MAX_NAME_BYTES);
    sbuf_init(&size, 64);
    sanitize_text(SANITIZE_NAME, path, strlen(path), &name);
    str_add_bytes(&size, fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0);
    view_note(app->config.view, "saved %s, %s (readable by you only)",
              name.data, size.data);
}

/* ---- charts ---------------------------------------------------------------
 */

static enum command_result
save_chart(struct app *app, const struct recorder_output *out,
           const char *wanted, struct error *err)
{
    AUTO_FREE char *path = NULL;
    AUTO_CLOSE int from = -1;
    struct io_new to;
    off_t copied = 0;
    enum command_result result = CMD_ERROR;

    if (out->path == NULL) {
        error_fill(err, ERR_IO, "the chart was not kept: %s",
                   out->problem != NULL ? out->problem : "no reason is known");
        return CMD_ERROR;
    }
    from = open(out->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0) {
        error_fill_errno(err, ERR_IO, "%s", out->path);
        return CMD_ERROR;
    }
    path = choose_path(wanted, paths_base(out->path));
    if (io_new_open(&to, path, err) == 0) {
        if (io_copy(from, to.fd, MAX_CHART_BYTES, &copied, err) < 0) {
            error_prepend(err, "%s", path);
        } else if (io_new_keep(&to, err) == 0) {
            tell_saved(app, path, to.fd);
            result = CMD_OK;
        }
    }
    io_new_close(&to);
    return result;
}

/* ---- tables ---------------------------------------------------------------
 */

static void
end_save(struct app *app)
{
    struct app_save *save = &app->save;
    struct error err = save->err;
    bool failed = err.code != ERR_NONE || io_new_keep(&save->file, &err) < 0;

    view_status(app->config.view, NULL);
    if (!failed)
        tell_saved(app, save->file.path, save->file.fd);
    io_new_close(&save->file);
    free(save->name);
    save->name = NULL;
    memset(&save->err, 0, sizeof(save->err));
    command_done(app, failed ? &err : NULL);
}

static void
on_nothing_bytes(void *ctx, enum event_stream stream, const char *data,
                 size_t len)
{
    (void)ctx;
    (void)stream;
    (void)data;
    (void)len;
}

static void
on_nothing_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
on_nothing_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

/* Runs code silently; done is called at its end. */
static struct sandbox_op *
run_silently(struct app *app, const char *code,
             void (*done)(void *ctx, enum sandbox_end end,
                          const struct sandbox_outcome *outcome,
                          const struct error *err))
{
    struct sandbox_cell_handlers on = {
        .on_bytes = on_nothing_bytes,
        .on_output = on_nothing_output,
        .on_note = on_nothing_note,
        .on_done = done,
    };

    return sandbox_run_cell(
        app->config.sandbox,
        &(struct sandbox_cell){
            .code = code,
            .code_len = strlen(code),
            .timeout_ms = app->config.config->cell_seconds * 1000,
            .silent = true,
        },
        &on, app);
}

static void
on_removed(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app *app = ctx;

    (void)end;
    (void)outcome;
    (void)err;
    end_save(app);
}

/* The copy inside is not wanted any more, whether it is whole or not: the next
   cell would be said to have left it. This part is not cancelled. Code that
   runs for the program says "from" itself, since cells may have given every
   other name another meaning. */
static void
remove_copy(struct app *app)
{
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from os import unlink as _sandpiper\n"
              "try:\n    _sandpiper('/workspace/%s')\n"
              "finally:\n    del _sandpiper\n",
              app->save.name);
    (void)run_silently(app, code.data, on_removed);
}

static void
on_fetched(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct app *app = ctx;

    (void)end;
    app->save.op = NULL;
    if (err != NULL)
        app->save.err = *err;
    remove_copy(app);
}

static void
on_written(void *ctx, enum sandbox_end end,
           const struct sandbox_outcome *outcome, const struct error *err)
{
    struct app *app = ctx;
    struct app_save *save = &app->save;

    (void)end;
    save->op = NULL;
    if (err != NULL) {
        save->err = *err;
    } else if (outcome->outcome == EVENT_INTERRUPTED) {
        error_fill(&save->err, ERR_CANCELLED, "saving was stopped");
    } else if (outcome->outcome != EVENT_OK) {
        error_fill(&save->err, ERR_DATA, "the table cannot be saved: %s",
                   outcome->error_value != NULL ? outcome->error_value
                   : outcome->reason != NULL    ? outcome->reason
                                                : "the interpreter is new");
    }
    if (save->err.code != ERR_NONE) {
        remove_copy(app);
        return;
    }
    save->op = sandbox_get(app->config.sandbox, save->name, save->file.fd, 0,
                           MAX_TABLE_BYTES, on_fetched, app);
}

static enum command_result
save_table(struct app *app, int cell, int index, const char *wanted,
           struct error *err)
{
    struct app_save *save = &app->save;
    AUTO_SBUF struct sbuf code = {0};
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *path = NULL;

    name = index == 0 ? xasprintf("cell-%d.csv", cell)
                      : xasprintf("cell-%d.%d.csv", cell, index + 1);
    path = choose_path(wanted, name);
    if (io_new_open(&save->file, path, err) < 0) {
        io_new_close(&save->file);
        return CMD_ERROR;
    }
    save->name = xasprintf("sandpiper-save-%d.%d.csv", cell, index);
    sbuf_init(&code, MAX_CODE_BYTES);
    sbuf_addf(&code,
              "from sandpiper import save_table as _sandpiper\n"
              "try:\n    _sandpiper(%d, %d, '/workspace/%s')\n"
              "finally:\n    del _sandpiper\n",
              cell, index, save->name);
    view_status(app->config.view, "saving");
    save->op = run_silently(app, code.data, on_written);
    return CMD_WAIT;
}

static void
cancel_save(struct app *app)
{
    if (app->save.op != NULL)
        sandbox_cancel(app->save.op);
}

/* ---- the command ----------------------------------------------------------
 */

/* The output that was named, or the first chart or table of the cell. */
static const struct recorder_output *
find_output(const struct app *app, const struct recorder_cell *cell, int index,
            struct error *err)
{
    const struct recorder_output *out = NULL;

    if (index >= 0) {
        out = recorder_output(app->config.recorder, cell->number, index);
        if (out == NULL || out->kind == RECORDER_TEXT) {
            error_fill(err, ERR_USAGE, "%d.%d is no chart and no table",
                       cell->number, index + 1);
            return NULL;
        }
        return out;
    }
    for (size_t i = 0; i < cell->n_outputs; i++) {
        if (cell->outputs[i].kind != RECORDER_TEXT)
            return &cell->outputs[i];
    }
    error_fill(err, ERR_USAGE, "cell %d shows no chart and no table",
               cell->number);
    return NULL;
}

static enum command_result
run_save(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    int index = -1;
    const char *wanted = n_words > 1 ? words[1] : NULL;
    const struct recorder_cell *cell =
        cmd_cell_find(app, words[0], &index, err);
    const struct recorder_output *out = NULL;

    if (cell == NULL)
        return CMD_ERROR;
    out = find_output(app, cell, index, err);
    if (out == NULL)
        return CMD_ERROR;
    if (out->kind == RECORDER_CHART)
        return save_chart(app, out, wanted, err);
    return save_table(app, cell->number, out->index, wanted, err);
}

const struct command cmd_save = {
    .name = "save",
    .arguments = "N [PATH]",
    .help = "save the chart or the whole table of cell N",
    .min_words = 1,
    .max_words = 2,
    .completion = COMPLETE_PATH,
    .run = run_save,
    .cancel = cancel_save,
};
