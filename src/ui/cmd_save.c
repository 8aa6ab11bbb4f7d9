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
#include "store/recorder.h"
#include "term/sanitize.h"
#include "ui/app_internal.h"
#include "ui/cmd_cell_internal.h"
#include "ui/commands_internal.h"
#include "ui/fetch_table_internal.h"
#include "ui/view.h"

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
end_save(struct app *app, const struct error *problem)
{
    struct io_new *file = &app->save.file;
    struct error err = {0};

    view_status(app->config.view, NULL);
    if (problem != NULL)
        err = *problem;
    else if (io_new_keep(file, &err) == 0)
        tell_saved(app, file->path, file->fd);
    io_new_close(file);
    command_done(app, err.code != ERR_NONE ? &err : NULL);
}

static enum command_result
save_table(struct app *app, int cell, int index, const char *wanted,
           struct error *err)
{
    struct app_save *save = &app->save;
    AUTO_FREE char *name = NULL;
    AUTO_FREE char *path = NULL;

    name = index == 0 ? xasprintf("cell-%d.csv", cell)
                      : xasprintf("cell-%d.%d.csv", cell, index + 1);
    path = choose_path(wanted, name);
    if (io_new_open(&save->file, path, err) < 0) {
        io_new_close(&save->file);
        return CMD_ERROR;
    }
    view_status(app->config.view, "saving");
    fetch_table(app, cell, index, save->file.fd, MAX_TABLE_BYTES, "saving",
                "saved", end_save);
    return CMD_WAIT;
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
        if (out == NULL) {
            error_fill(err, ERR_USAGE, "cell %d has no output %d.%d",
                       cell->number, cell->number, index + 1);
            return NULL;
        }
        if (out->kind == RECORDER_TEXT) {
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
    .cancel = fetch_table_cancel,
};
