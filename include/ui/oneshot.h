/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The scripted run: one question (-c), the lines of standard input, or the
 * demonstration. It stops at the first failure.
 */
#ifndef UI_ONESHOT_H
#define UI_ONESHOT_H

#include "base/cleanup.h"

struct app;
struct app_config;
struct error;
struct oneshot;

enum oneshot_source {
    ONESHOT_QUESTION, /* config->question */
    ONESHOT_STDIN,
    ONESHOT_DEMO
};

/* app is borrowed. Errors: ERR_IO. */
WARN_UNUSED struct oneshot *oneshot_new(struct app *app,
                                        const struct app_config *config,
                                        enum oneshot_source source,
                                        struct error *err);
void oneshot_free(struct oneshot *o);

void oneshot_start(struct oneshot *o);

/* As Ctrl-C: ends what is going on, then the run; a second time at once. */
void oneshot_cancel(struct oneshot *o);
int oneshot_exit_status(const struct oneshot *o);

#endif
