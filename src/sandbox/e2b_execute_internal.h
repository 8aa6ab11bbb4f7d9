/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One cell that a sandbox's interpreter runs: the request, the lines of its
 * answer, and how it ended. Never sent twice.
 */
#ifndef SANDBOX_E2B_EXECUTE_INTERNAL_H
#define SANDBOX_E2B_EXECUTE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sandbox/e2b_data_internal.h"
#include "sandbox/e2b_result_internal.h"

struct e2b_execute;

/* Copied. */
struct e2b_execute_spec {
    const char *context;  /* id; NULL: the default one of a language */
    const char *language; /* where there is no id */
    const char *code;
    size_t code_len;
    uint64_t output_bytes; /* limit of what it writes */
    int64_t limit_ms;      /* the connection is closed then; 0: none */
    const char *doing;     /* static; for messages */
};

struct e2b_execute_end {
    /* E2B_TROUBLE_NONE: the whole answer has come, as result says. */
    enum e2b_trouble trouble;
    int http_status;
    bool not_sent; /* with it: it has certainly not been carried out */
    const struct error *err; /* with any trouble */
    const struct e2b_cell_result *result;
};

/* on: all but on_done. */
struct e2b_execute_handlers {
    struct sandbox_cell_handlers on;
    void (*on_flood)(void *ctx);                            /* once */
    void (*on_event)(void *ctx, const struct cJSON *event); /* may be NULL */

    /* Once, from the loop; it is freed afterwards. */
    void (*on_end)(void *ctx, const struct e2b_execute_end *end);
};

/* Those of a cell of which nothing is wanted, without on_end. */
struct e2b_execute_handlers e2b_execute_quiet(void);

/* site is borrowed until the end. Errors: as e2b_data_start. */
WARN_UNUSED struct e2b_execute *
e2b_execute_start(struct e2b_site *site, const struct e2b_execute_spec *spec,
                  const struct e2b_execute_handlers *on, void *ctx,
                  struct error *err);

/* Closes the connection, without a callback; from any but on_end. NULL is
   allowed. */
void e2b_execute_drop(struct e2b_execute *x);

#endif
