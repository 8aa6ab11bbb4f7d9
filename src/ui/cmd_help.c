/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/sbuf.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_HELP_BYTES 8192
#define HELP_COLUMN 24

static enum command_result
run_help(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)words;
    (void)n_words;
    (void)err;
    sbuf_init(&sb, MAX_HELP_BYTES);
    sbuf_add_str(&sb, "A line is a question, or a command:\n");
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const struct command *cmd = command_at(i);
        size_t at = sb.len;

        sbuf_addf(&sb, "  :%s %s", cmd->name, cmd->arguments);
        if (sb.len - at < HELP_COLUMN)
            sbuf_add_repeat(&sb, ' ', HELP_COLUMN - (sb.len - at));
        sbuf_addf(&sb, " %s\n", cmd->help);
    }
    sbuf_add_str(&sb, "Ctrl-C stops what is going on and keeps variables; "
                      "Ctrl-D leaves.\n");
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
