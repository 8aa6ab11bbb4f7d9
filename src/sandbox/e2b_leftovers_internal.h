/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The labels by which sandboxes of this program are found again, and ending
 * what a create has made of which nobody got to know. The rest of
 * e2b_leftovers.c is in sandbox/e2b.h.
 */
#ifndef SANDBOX_E2B_LEFTOVERS_INTERNAL_H
#define SANDBOX_E2B_LEFTOVERS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct e2b_api;
struct e2b_config;
struct e2b_pair;
struct e2b_sweep;
struct error;
struct loop;

#define E2B_LABEL_APP "app"
#define E2B_LABEL_ENTRY "entry"
#define E2B_LABEL_OWNER "owner"
#define E2B_LABEL_RUN "run"
#define E2B_LABEL_BACKEND "backend"
#define E2B_APP "sandpiper"

enum { E2B_N_LABELS = 5 };

/* The labels of what is made with these settings, into room for E2B_N_LABELS;
   returns how many. backend: the id of the back end, without which those of
   others of the run may be meant: one that ends has the settings of the next
   one at times. NULL: no such label. What they point to is borrowed from the
   arguments. */
size_t e2b_labels(const struct e2b_config *config, const char *backend,
                  struct e2b_pair *labels);

struct e2b_sweep_options {
    /* Which sandboxes; copied. All that have these and are not keep are ended,
       so what else runs with the same labels must be told apart by them. */
    const struct e2b_pair *labels;
    size_t n_labels;
    const char *keep; /* the id of the one that is used; NULL: none */

    /* Between the looks, of which there is one more: a service may go on for a
       while with a create that it got. NULL: 2, 8 and 30 s. */
    const int64_t *pauses_ms;
    size_t n_pauses;
};

/* Once, from the loop, when the last look is over. err: what failed in it;
   NULL: nothing did. */
typedef void (*e2b_swept_fn)(void *ctx, size_t n_ended,
                             const struct error *err);

/*
 * For a create that has failed, or was cancelled, and may have made one
 * (maybe_made): looks for it and ends it. loop and api are borrowed as long as
 * it goes on. Errors: ERR_USAGE, for labels that are none.
 */
WARN_UNUSED struct e2b_sweep *
e2b_sweep_start(struct loop *loop, struct e2b_api *api,
                const struct e2b_sweep_options *options, e2b_swept_fn done,
                void *ctx, struct error *err);

/* Ends it without its callback, which may call this, and after which it is
   needed. NULL is allowed. */
void e2b_sweep_free(struct e2b_sweep *s);

#endif
