/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <string.h>

#include "base/sbuf.h"
#include "render/table_layout.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"
#include "ui/words.h"

#define MAX_HELP_BYTES 8192
#define HELP_COLUMN 24

/* In two columns, or where these have no room, with the help below. */
static void
add_command_help(struct sbuf *sb, const struct command *cmd, size_t columns)
{
    size_t at = sb->len;

    sbuf_addf(sb, "  :%s %s", cmd->name, cmd->arguments);
    if (columns < 2 * HELP_COLUMN + HELP_COLUMN / 2) {
        sbuf_add_str(sb, "\n      ");
        words_add(sb, cmd->help, 6, 6, columns);
        return;
    }
    if (sb->len - at > HELP_COLUMN) {
        sbuf_add_char(sb, '\n');
        at = sb->len;
    }
    sbuf_add_repeat(sb, ' ', HELP_COLUMN - (sb->len - at) + 1);
    words_add(sb, cmd->help, HELP_COLUMN + 1, HELP_COLUMN + 1, columns);
}

static enum command_result
run_help(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct table_options options = view_table_options(app->config.view);
    size_t columns = (size_t)options.width;

    (void)words;
    (void)n_words;
    (void)err;
    sbuf_init(&sb, MAX_HELP_BYTES);
    sbuf_add_str(&sb, "A line is a question, or a command:\n");
    for (size_t i = 0; command_at(i) != NULL; i++)
        add_command_help(&sb, command_at(i), columns);
    words_add(&sb,
              "Ctrl-C stops what is going on and keeps variables; Ctrl-D "
              "leaves.",
              0, 0, columns);
    view_print(app->config.view, sb.data);
    return CMD_OK;
}

static enum command_result
run_quit(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    (void)app;
    (void)words;
    (void)n_words;
    (void)err;
    return CMD_QUIT;
}

const struct command cmd_help = {
    .name = "help",
    .arguments = "",
    .help = "list the commands",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_help,
    .cancel = NULL,
};

const struct command cmd_quit = {
    .name = "quit",
    .arguments = "",
    .help = "leave",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_quit,
    .cancel = NULL,
};
