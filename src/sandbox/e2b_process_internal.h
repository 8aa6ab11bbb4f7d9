/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Processes in a sandbox, by its daemon. Each runs below a watch (e2b_watch.py)
 * that leads a session, so that it can be ended with all that it has started:
 * the end of a connection ends nothing, and the daemon's own signals reach the
 * first process only. Where the sandbox has no Python there is no watch, and
 * what has left its process group is not found.
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

    /* It knows by itself what it has got already, so that input whose receipt
       is not known may be sent again, each e2b_process_send whole. */
    bool knows_input;

    /* After that it is ended with all its processes, by a watch that runs in
       the sandbox itself; 0: never. */
    int64_t limit_ms;

    /* For the word that it has begun, whatever else comes; 0: 60,000. */
    int64_t start_ms;
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
    bool has_vanished;        /* with a trouble: the sandbox is there, and the
                                 process is not; how it ended is not known */
    bool lost_bytes;          /* what it wrote may not be all that came */
};

struct e2b_process_handlers {
    void (*on_start)(void *ctx, int64_t pid); /* may be NULL */
    void (*on_bytes)(void *ctx, enum event_stream stream, const char *data,
                     size_t len);

    /* The stream broke off and goes on: what it wrote between may be lost. May
       be NULL. */
    void (*on_gap)(void *ctx);

    /* Once, from the loop; the object is freed afterwards. */
    void (*on_done)(void *ctx, const struct e2b_process_end *end);
};

/* site is borrowed. Errors: as e2b_data_start. */
WARN_UNUSED struct e2b_process *
e2b_process_start(struct e2b_site *site, const struct e2b_process_spec *spec,
                  const struct e2b_process_handlers *on, void *ctx,
                  struct error *err);

/* Goes on with one that runs, as after the sandbox was resumed; pid as told by
   on_start, which is not called. What it wrote meanwhile is lost. limit_ms of
   it is kept in the sandbox alone. */
WARN_UNUSED struct e2b_process *
e2b_process_attach(struct e2b_site *site, int64_t pid, bool knows_input,
                   const char *doing, const struct e2b_process_handlers *on,
                   void *ctx, struct error *err);

/* Queues bytes for its standard input, in order; copied. */
void e2b_process_send(struct e2b_process *p, const char *data, size_t len);

/* Its standard input ends behind what was queued; nothing where the daemon
   cannot do that (before 0.5.2). */
void e2b_process_end_input(struct e2b_process *p);

/* Sends a signal to its process group (by a process of its own); nothing when
   it has not begun or has ended. SIGKILL ends all that it has started, in
   whatever group and session. Several in a row come in order. */
void e2b_process_signal(struct e2b_process *p, int signo);

/* Stops and goes on reading what it writes. */
void e2b_process_pause(struct e2b_process *p, bool paused);

/* Forgets it at once, without callbacks, and lets it run. NULL is allowed. */
void e2b_process_drop(struct e2b_process *p);

#endif
