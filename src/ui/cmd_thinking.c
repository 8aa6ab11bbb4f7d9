/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stddef.h>

#include "store/recorder.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

static enum command_result
run_thinking(struct app *app, char *const *words, size_t n_words,
             struct error *err)
{
    uint64_t n_dropped = 0;
    const char *text = recorder_thinking(app->config.recorder, &n_dropped);

    (void)words;
    (void)n_words;
    (void)err;
    if (text == NULL) {
        view_note(app->config.view,
                  "the model has not said what it thought about the last "
                  "question");
        return CMD_OK;
    }
    view_thinking(app->config.view, text);
    if (n_dropped > 0)
        view_note(app->config.view, "the rest, %" PRIu64 " bytes, was not kept",
                  n_dropped);
    return CMD_OK;
}

const struct command cmd_thinking = {
    .name = "thinking",
    .arguments = "",
    .help = "show what the model thought about the last question",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_thinking,
    .cancel = NULL,
};
