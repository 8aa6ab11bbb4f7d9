/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "store/recorder.h"
#include "ui/app_internal.h"
#include "ui/cmd_cell_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_OUTPUTS 100000

const struct recorder_cell *
cmd_cell_find(const struct app *app, const char *word, int *output,
              struct error *err)
{
    const char *dot = strchr(word, '.');
    char number[32];
    size_t len = dot != NULL ? (size_t)(dot - word) : strlen(word);
    int n_cells = recorder_n_cells(app->config.recorder);
    const struct recorder_cell *cell = NULL;
    int64_t n = 0;
    int64_t m = 0;

    if (n_cells == 0) {
        error_fill(err, ERR_USAGE, "no cell has run yet");
        return NULL;
    }
    if (len == 0 || len >= sizeof(number) || (dot != NULL && output == NULL)) {
        error_fill(err, ERR_USAGE,
                   "'%s' is no number of a cell; the last is %d", word,
                   n_cells);
        return NULL;
    }
    memcpy(number, word, len);
    number[len] = '\0';
    if (str_to_int(number, 1, INT32_MAX, &n, NULL) < 0 ||
        (dot != NULL && str_to_int(dot + 1, 1, MAX_OUTPUTS, &m, NULL) < 0)) {
        error_fill(err, ERR_USAGE,
                   "'%s' is no number of a cell; the last is %d", word,
                   n_cells);
        return NULL;
    }
    if (n > n_cells) {
        error_fill(err, ERR_USAGE, "there is no cell %d; the last is %d",
                   (int)n, n_cells);
        return NULL;
    }
    cell = recorder_cell(app->config.recorder, (int)n);
    if (cell == NULL)
        error_fill(err, ERR_USAGE, "there is no cell %d", (int)n);
    if (output != NULL)
        *output = (int)m - 1;
    return cell;
}

static enum command_result
run_code(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    const struct recorder_cell *cell = cmd_cell_find(app, words[0], NULL, err);

    (void)n_words;
    if (cell == NULL)
        return CMD_ERROR;
    view_code(app->config.view, cell->number, cell->language, cell->code);
    return CMD_OK;
}

static enum command_result
run_trace(struct app *app, char *const *words, size_t n_words,
          struct error *err)
{
    const struct recorder_cell *cell = cmd_cell_find(app, words[0], NULL, err);

    (void)n_words;
    if (cell == NULL)
        return CMD_ERROR;
    if (str_blank(cell->traceback)) {
        view_note(app->config.view, "cell %d has no traceback", cell->number);
        return CMD_OK;
    }
    view_block(app->config.view, cell->traceback);
    return CMD_OK;
}

const struct command cmd_code = {
    .name = "code",
    .arguments = "N",
    .help = "show the code of cell N",
    .min_words = 1,
    .max_words = 1,
    .completion = COMPLETE_CELL,
    .run = run_code,
    .cancel = NULL,
};

const struct command cmd_trace = {
    .name = "trace",
    .arguments = "N",
    .help = "show the traceback of cell N",
    .min_words = 1,
    .max_words = 1,
    .completion = COMPLETE_CELL,
    .run = run_trace,
    .cancel = NULL,
};
