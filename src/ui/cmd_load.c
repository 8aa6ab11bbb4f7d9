/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "load/load.h"
#include "term/sanitize.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_LIST_BYTES (256u << 10)

/* Words joined by single blanks, for a name that was typed without quotes. */
static char *
join_words(char *const *words, size_t n_words)
{
    struct sbuf sb;

    sbuf_init(&sb, MAX_LIST_BYTES);
    for (size_t i = 0; i < n_words; i++) {
        if (i > 0)
            sbuf_add_char(&sb, ' ');
        sbuf_add_str(&sb, words[i]);
    }
    return sbuf_take(&sb);
}

static enum command_result
run_load(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    const char *variable = NULL;
    AUTO_FREE char *path = NULL;

    if (n_words >= 3 && str_eq(words[n_words - 2], "as")) {
        variable = words[n_words - 1];
        n_words -= 2;
    }
    path = join_words(words, n_words);
    if (n_words > 1 && access(path, F_OK) < 0) {
        error_fill(err, ERR_USAGE,
                   "usage: :load FILE [as NAME]; a name with blanks goes in "
                   "quotes");
        return CMD_ERROR;
    }
    if (app_begin_load(app, path, variable, err) < 0)
        return CMD_ERROR;
    return CMD_WAIT;
}

static enum command_result
run_files(struct app *app, char *const *words, size_t n_words,
          struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};
    size_t width = 0;

    (void)words;
    (void)n_words;
    (void)err;
    if (app->n_files == 0) {
        view_note(app->config.view, "no file is loaded; :load FILE loads one");
        return CMD_OK;
    }
    for (size_t i = 0; i < app->n_files; i++) {
        size_t len = strlen(app->files[i].variable);

        width = len > width ? len : width;
    }
    sbuf_init(&sb, MAX_LIST_BYTES);
    for (size_t i = 0; i < app->n_files; i++) {
        const struct app_file *f = &app->files[i];

        sbuf_add_str(&sb, f->variable);
        sbuf_add_repeat(&sb, ' ', width - strlen(f->variable) + 2);
        sanitize_text(SANITIZE_NAME, f->path, strlen(f->path), &sb);
        sbuf_add_str(&sb, "  ");
        str_add_grouped(&sb, f->n_rows);
        sbuf_add_str(&sb,
                     f->n_rows == 1 ? " row \xC3\x97 " : " rows \xC3\x97 ");
        str_add_grouped(&sb, f->n_cols);
        sbuf_add_str(&sb, f->n_cols == 1 ? " column, " : " columns, ");
        str_add_bytes(&sb, f->size_bytes);
        sbuf_add_char(&sb, '\n');
    }
    view_print(app->config.view, sb.data);
    return CMD_OK;
}

const struct command cmd_load = {
    .name = "load",
    .arguments = "FILE [as NAME]",
    .help = "load a data file into a variable",
    .min_words = 1,
    .max_words = 64,
    .completion = COMPLETE_PATH,
    .run = run_load,
    .cancel = NULL, /* app_cancel ends every load */
};

const struct command cmd_files = {
    .name = "files",
    .arguments = "",
    .help = "list the loaded files and their variables",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_files,
    .cancel = NULL,
};
