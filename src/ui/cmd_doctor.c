/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "render/image.h"
#include "sandbox/doctor.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

static void
on_report(void *ctx, const struct doctor_report *report)
{
    struct app *app = ctx;
    struct error err = {0};

    view_status(app->config.view, NULL);
    view_doctor(app->config.view, report);
    doctor_free(take_ptr(&app->doctor));
    if (report->can_run) {
        command_done(app, NULL);
        return;
    }
    error_fill(&err, ERR_SANDBOX, "cells cannot run");
    app_end_shown(app, &err);
}

static enum command_result
run_doctor(struct app *app, char *const *words, size_t n_words,
           struct error *err)
{
    (void)words;
    (void)n_words;
    (void)err;
    app->doctor =
        doctor_start(app->config.loop, app->config.local, app->config.limits,
                     IMAGE_HELPER, on_report, app);
    view_status(app->config.view, "looking at the sandbox");
    return CMD_WAIT;
}

static void
cancel_doctor(struct app *app)
{
    struct error err = {0};

    if (app->doctor == NULL)
        return;
    view_status(app->config.view, NULL);
    doctor_free(take_ptr(&app->doctor));
    error_fill(&err, ERR_CANCELLED, ":doctor was stopped");
    command_done(app, &err);
}

const struct command cmd_doctor = {
    .name = "doctor",
    .arguments = "",
    .help = "say whether cells can run, and what is missing",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_doctor,
    .cancel = cancel_doctor,
};
