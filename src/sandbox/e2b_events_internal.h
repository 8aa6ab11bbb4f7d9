/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a sandbox's daemon says of a process, one message at a time. Pure: no
 * input or output. All of it may be odd; what is not known is skipped.
 */
#ifndef SANDBOX_E2B_EVENTS_INTERNAL_H
#define SANDBOX_E2B_EVENTS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/event.h"

struct error;

enum e2b_event_kind {
    E2B_EVENT_OTHER, /* keepalives, and what newer daemons may say */
    E2B_EVENT_START,
    E2B_EVENT_DATA,
    E2B_EVENT_END
};

/* Zero is a valid empty one. */
struct e2b_event {
    enum e2b_event_kind kind;
    int64_t pid; /* START: above 0 */

    /* DATA; may be empty. */
    enum event_stream stream;
    char *data; /* owned */
    size_t len;

    /* END. */
    int exit_status; /* 0 to 255; -1: it was ended by a signal */
    int signal;      /* SIGKILL where its name is not known; 0: none */
};

void e2b_event_fini(struct e2b_event *e);

/* Reads one message of a stream of Start or Connect. Errors: ERR_PROTOCOL when
   it is no event, has no process number, or bytes that are no base64. */
WARN_UNUSED int e2b_event_read(const char *text, size_t len,
                               struct e2b_event *out, struct error *err);

#endif
