/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Processes in a sandbox, by its daemon. Each leads a session of its own, so
 * that it can be ended with all that it has started: the end of a connection
 * ends nothing, and the daemon's own signals reach the first process only.
 */
#ifndef SANDBOX_E2B_PROCESS_INTERNAL_H
#define SANDBOX_E2B_PROCESS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/event.h"
#include "sandbox/e2b_data_internal.h"

struct e2b_process;

/* Copied. */
struct e2b_process_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is found by PATH */
    const char *const *env;  /* "NAME=VALUE", NULL-terminated; may be NULL */
    const char *cwd;         /* NULL: the user's home */
    bool takes_input;        /* else its standard input is at its end */

    /* After that it is ended with all its processes, by a watch that runs in
       the sandbox itself; 0: never. */
    int64_t limit_ms;
    const char *doing; /* static; for messages */
};

/* Borrowed for the call. */
struct e2b_process_end {
    enum e2b_trouble trouble; /* NONE: it has ended, as the next two say */
    int exit_status;          /* -1: it was ended by a signal */
    int signal;               /* 0: none */
    bool limit_hit;           /* ended at limit_ms */
    const struct error *err;  /* with any trouble */
    bool not_started;         /* it has certainly not run */
};

struct e2b_process_handlers {
    void (*on_start)(void *ctx, int64_t pid); /* may be NULL */
    void (*on_bytes)(void *ctx, enum event_stream stream, const char *data,
                     size_t len);

    /* Once, from the loop; the object is freed afterwards. */
    void (*on_done)(void *ctx, const struct e2b_process_end *end);
};

/* site is borrowed. Errors: as e2b_data_start. */
WARN_UNUSED struct e2b_process *
e2b_process_start(struct e2b_site *site, const struct e2b_process_spec *spec,
                  const struct e2b_process_handlers *on, void *ctx,
                  struct error *err);

/* Queues bytes for its standard input, in order; copied. */
void e2b_process_send(struct e2b_process *p, const char *data, size_t len);

/* Sends a signal to all of its session (by a process of its own); nothing when
   it has not begun or has ended. Several in a row come in order. */
void e2b_process_signal(struct e2b_process *p, int signo);

/* Stops and goes on reading what it writes. */
void e2b_process_pause(struct e2b_process *p, bool paused);

/* Forgets it at once, without callbacks, and lets it run. NULL is allowed. */
void e2b_process_drop(struct e2b_process *p);

#endif
