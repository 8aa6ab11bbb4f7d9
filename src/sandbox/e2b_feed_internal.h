/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What goes to a process in a sandbox (e2b_process.c): its input and signals,
 * each in order and one at a time, since requests of their own may overtake one
 * another.
 */
#ifndef SANDBOX_E2B_FEED_INTERNAL_H
#define SANDBOX_E2B_FEED_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/sbuf.h"
#include "sandbox/e2b_data_internal.h"

#define E2B_FEED_MAX_SIGNALS ((size_t)16)

/* So that no request is large; one of e2b_feed_input is kept whole where the
   process knows what it has got. */
#define E2B_FEED_PIECE_BYTES ((size_t)196608)

struct e2b_feed_item;

struct e2b_feed {
    struct e2b_site *site; /* borrowed */
    int64_t pid;           /* 0: not known yet */
    bool knows_input;
    const char *doing; /* static */

    /* Input whose receipt is not known, and what follows is not sent. */
    void (*on_failed)(void *ctx, const struct e2b_data_result *result);
    void *ctx;

    struct e2b_feed_item *first; /* owned */
    struct e2b_feed_item *last;
    struct e2b_data *input; /* on its way */
    bool ended;             /* it takes no more */

    int signals[E2B_FEED_MAX_SIGNALS];
    size_t n_signals; /* the first may be on its way */
    struct e2b_data *signal;
};

void e2b_feed_init(struct e2b_feed *f, struct e2b_site *site, bool knows_input,
                   const char *doing,
                   void (*on_failed)(void *ctx,
                                     const struct e2b_data_result *result),
                   void *ctx);
void e2b_feed_fini(struct e2b_feed *f); /* zero is a valid empty one */

/* The process has begun: what waits is sent. */
void e2b_feed_begin(struct e2b_feed *f, int64_t pid);

/* Copied. */
void e2b_feed_input(struct e2b_feed *f, const char *data, size_t len);
void e2b_feed_end_input(struct e2b_feed *f);

/* The oldest wait; more than E2B_FEED_MAX_SIGNALS are left out, but for
   SIGKILL. */
void e2b_feed_signal(struct e2b_feed *f, int signo);

#endif
