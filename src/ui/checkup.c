/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/checkup.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/loop.h"
#include "render/image.h"
#include "sandbox/doctor.h"
#include "ui/view.h"

struct checkup {
    struct loop *loop;     /* borrowed */
    struct view *view;     /* owned */
    struct doctor *doctor; /* owned */
    bool can_run;
};

static void
on_report(void *ctx, const struct doctor_report *report)
{
    struct checkup *c = ctx;

    c->can_run = report->can_run;
    view_status(c->view, NULL);
    view_doctor(c->view, report);
    loop_stop(c->loop);
}

struct checkup *
checkup_new(struct loop *loop, struct out *out, struct tty *tty,
            const struct local_config *local,
            const struct sandbox_limits *limits)
{
    struct checkup *c = xcalloc(1, sizeof(*c));

    c->loop = loop;
    c->view =
        view_new(&(struct view_config){.loop = loop, .out = out, .tty = tty});
    c->doctor = doctor_start(loop, local, limits, IMAGE_HELPER, on_report, c);
    view_status(c->view, "looking at the sandbox");
    return c;
}

void
checkup_free(struct checkup *c)
{
    if (c == NULL)
        return;
    doctor_free(c->doctor);
    view_free(c->view);
    free(c);
}

int
checkup_exit_status(const struct checkup *c)
{
    return c->can_run ? 0 : error_exit_status(ERR_SANDBOX);
}
