/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "ui/demo_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ui/app_internal.h"
#include "ui/view.h"

static const char *const QUESTIONS[] = {
    "Which region had the highest revenue? Plot the monthly trend.",
    "Why is South ahead? Which products make the difference?",
    "Is anything odd about the data that I should know?",
};

const char *
demo_question(size_t i)
{
    return i < sizeof(QUESTIONS) / sizeof(QUESTIONS[0]) ? QUESTIONS[i] : NULL;
}

void
demo_say_begin(struct view *v)
{
    view_note(v, "demonstration: the model's words and code were written in "
                 "advance, and no request leaves this machine; the code really "
                 "runs, in the sandbox");
}

void
demo_say_end(struct view *v)
{
    AUTO_FREE char *advice = app_key_advice();

    view_note(v, "that was the demonstration; to ask your own questions, %s",
              advice);
    view_note(v, "then: %s FILE.csv", program_invocation_name);
}
