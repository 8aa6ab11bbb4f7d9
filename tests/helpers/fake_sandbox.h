/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations of a back end that a test does not use: being asked for one
 * ends the test.
 */
#ifndef TESTS_FAKE_SANDBOX_H
#define TESTS_FAKE_SANDBOX_H

#include <stdlib.h>

#include "sandbox/sandbox.h"

static void
unused_done(struct sandbox_backend *b, sandbox_done_fn done, void *ctx)
{
    (void)b;
    (void)done;
    (void)ctx;
    abort();
}

static void
unused_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx)
{
    (void)b;
    (void)done;
    (void)ctx;
    abort();
}

static void
unused_saved(struct sandbox_backend *b, int fd, sandbox_saved_fn done,
             void *ctx)
{
    (void)b;
    (void)fd;
    (void)done;
    (void)ctx;
    abort();
}

static void
unused_info(struct sandbox_backend *b, struct sandbox_info *info)
{
    (void)b;
    info->backend = "fake";
}

#define UNUSED_SANDBOX_OPS                                                     \
    .suspend = unused_done, .resume = unused_done, .stop = unused_done,        \
    .vars = unused_vars, .snapshot = unused_saved, .restore = unused_saved,    \
    .info = unused_info

#endif
