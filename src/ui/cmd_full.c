/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/table.h"
#include "render/table_csv.h"
#include "render/table_layout.h"
#include "store/recorder.h"
#include "term/out.h"
#include "ui/app_internal.h"
#include "ui/cmd_cell_internal.h"
#include "ui/commands_internal.h"
#include "ui/fetch_table_internal.h"
#include "ui/view.h"

/* A table that is larger is for a file: ":save". */
#define MAX_CSV_BYTES (16 << 20)
#define MAX_TEXT_BYTES (256u << 20)

static void show_next(struct app *app);

static void
end_full(struct app *app, const struct error *err)
{
    view_status(app->config.view, NULL);
    close_fd(&app->full.fd);
    command_done(app, err);
}

/* ---- tables ---------------------------------------------------------------
 */

/* For the table that is shown, as ":save" takes it. Owned by the caller. */
static char *
get_address(const struct app_full *full, const struct recorder_cell *cell)
{
    int index = cell->pieces[full->at - 1].index;

    return index == 0 ? xasprintf("%d", full->cell)
                      : xasprintf("%d.%d", full->cell, index + 1);
}

/* All rows; of columns what has room. */
static int
show_table(struct app *app, int fd, struct error *err)
{
    AUTO_FREE char *address = get_address(
        &app->full, recorder_cell(app->config.recorder, app->full.cell));
    AUTO_SBUF struct sbuf csv = {0};
    AUTO_SBUF struct sbuf text = {0};
    struct table *t = NULL;
    struct table_options options = view_table_options(app->config.view);

    options.all_rows = true;
    options.address = address;
    sbuf_init(&csv, MAX_CSV_BYTES);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_set_errno(err, ERR_IO, "the table");
    if (io_read_all(fd, &csv, err) < 0)
        return -1;
    t = table_from_csv(csv.data, csv.len, err);
    if (t == NULL)
        return -1;
    sbuf_init(&text, MAX_TEXT_BYTES);
    table_render(t, &options, &text);
    table_free(t);
    view_table(app->config.view, text.data, text.len);
    return 0;
}

/* What cannot be shown is said; the rest of the cell still is. */
static void
on_table(struct app *app, const struct error *err)
{
    struct error bad = {0};
    int cell = app->full.cell;
    int rc = 0;

    view_status(app->config.view, NULL);
    if (err != NULL && err->code == ERR_CANCELLED) {
        end_full(app, err);
        return;
    }
    if (err != NULL)
        bad = *err;
    else
        rc = show_table(app, app->full.fd, &bad);
    (void)rc;
    close_fd(&app->full.fd);
    if (bad.code == ERR_TOO_LARGE) {
        view_warning(app->config.view,
                     "the table of cell %d is too large for the screen: "
                     ":save %d writes it to a file",
                     cell, cell);
    } else if (bad.code != ERR_NONE && app->full.only >= 0) {
        end_full(app, &bad);
        return;
    } else if (bad.code != ERR_NONE) {
        view_warning(app->config.view, "%s", bad.msg);
    }
    show_next(app);
}

/* False when it cannot even begin. */
static bool
begin_table(struct app *app, int index, struct error *err)
{
    app->full.fd = memfd_create("table", MFD_CLOEXEC);
    if (app->full.fd < 0) {
        error_fill_errno(err, ERR_IO, "no memory for the table");
        return false;
    }
    view_status(app->config.view, "reading the table");
    fetch_table(app, app->full.cell, index, app->full.fd, MAX_CSV_BYTES,
                "showing", "shown whole", on_table);
    return true;
}

/* ---- pieces ---------------------------------------------------------------
 */

/* Shows a piece; true when it goes on later. */
static bool
show_piece(struct app *app, const struct recorder_piece *p)
{
    const struct recorder_output *out = NULL;

    if (!p->is_output) {
        view_full(app->config.view, p->text.data, p->text.len);
        return false;
    }
    out = recorder_output(app->config.recorder, app->full.cell, p->index);
    if (out != NULL && out->kind == RECORDER_TABLE) {
        struct error err = {0};

        if (begin_table(app, p->index, &err))
            return true;
        view_warning(app->config.view, "%s", err.msg);
        return false;
    }
    if (out != NULL && out->kind == RECORDER_CHART)
        view_note(app->config.view, "chart %d.%d: %s", app->full.cell,
                  p->index + 1,
                  out->path != NULL ? out->path : "it was not kept");
    else
        view_full(app->config.view, p->text.data, p->text.len);
    return false;
}

/* Shows what comes next, up to a table or the end. */
static void
show_next(struct app *app)
{
    struct app_full *full = &app->full;
    const struct recorder_cell *cell =
        recorder_cell(app->config.recorder, full->cell);

    while (full->at < cell->n_pieces) {
        const struct recorder_piece *p = &cell->pieces[full->at++];

        if (full->only >= 0 && !(p->is_output && p->index == full->only))
            continue;
        if (show_piece(app, p))
            return;
    }
    if (cell->is_cut && full->only < 0)
        view_warning(app->config.view,
                     "cell %d printed more than the %zu MiB that are kept",
                     full->cell, RECORDER_MAX_BYTES >> 20);
    end_full(app, NULL);
}

static enum command_result
run_full(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    int index = -1;
    const struct recorder_cell *cell =
        cmd_cell_find(app, words[0], &index, err);

    (void)n_words;
    if (cell == NULL)
        return CMD_ERROR;
    if (cell->is_forgotten) {
        error_fill(err, ERR_DATA,
                   "the output of cell %d is not kept any more: that of later "
                   "cells took its place",
                   cell->number);
        return CMD_ERROR;
    }
    if (index >= 0 &&
        recorder_output(app->config.recorder, cell->number, index) == NULL) {
        error_fill(err, ERR_USAGE, "cell %d has no output %d.%d", cell->number,
                   cell->number, index + 1);
        return CMD_ERROR;
    }
    if (cell->n_pieces == 0) {
        AUTO_FREE char *trace =
            str_blank(cell->traceback)
                ? xstrdup("")
                : xasprintf("; it failed, see :trace %d", cell->number);

        view_note(app->config.view, "cell %d printed and showed nothing%s",
                  cell->number, trace);
        return CMD_OK;
    }
    app->full.cell = cell->number;
    app->full.only = index;
    app->full.at = 0;
    show_next(app);
    return CMD_WAIT;
}

const struct command cmd_full = {
    .name = "full",
    .arguments = "N",
    .help = "show all output of cell N, or of its output N.M",
    .min_words = 1,
    .max_words = 1,
    .completion = COMPLETE_CELL,
    .run = run_full,
    .cancel = fetch_table_cancel,
};
