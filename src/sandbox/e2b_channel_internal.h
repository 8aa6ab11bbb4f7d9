/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The way to our own interpreter in a sandbox of a service: a relay there
 * (e2b_relay.py), a process with standard input and output alone (e2b_process),
 * and what puts text and events into one order (local_link). A connection that
 * breaks costs nothing of what is sent either way.
 */
#ifndef SANDBOX_E2B_CHANNEL_INTERNAL_H
#define SANDBOX_E2B_CHANNEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "model/event.h"
#include "sandbox/e2b_data_internal.h"

struct cJSON;
struct e2b_channel;

/* Borrowed for the call. */
struct e2b_channel_end {
    enum e2b_trouble trouble; /* NONE: the interpreter has ended. Else the way
                                 to it was lost: e2b_channel_attach */
    const struct error *err;  /* with any trouble */
    bool is_known;            /* how it ended, as the next two say */
    int exit_status;
    int signal; /* 0: none */
    const char
        *errors;       /* the last line of what was said before it ran, or "" */
    const char *fault; /* static: it was ended, since it broke the rules of the
                          protocol in this way; NULL: it did not */
};

/* Each may free the channel. */
struct e2b_channel_handlers {
    void (*on_text)(void *ctx, enum event_stream stream, const char *data,
                    size_t len);
    void (*on_event)(void *ctx, const struct cJSON *event, size_t line_len);

    /* The relay answers, at the beginning and behind each break. */
    void (*on_synced)(void *ctx);
    void (*on_end)(void *ctx, const struct e2b_channel_end *end);
};

/* Starts an interpreter. handlers are borrowed. Errors: as e2b_data_start. */
WARN_UNUSED struct e2b_channel *
e2b_channel_new(struct e2b_site *site, const struct e2b_channel_handlers *on,
                void *ctx, struct error *err);

/* Forgets it, and lets it run. NULL is allowed. */
void e2b_channel_free(struct e2b_channel *c);

/* The sandbox was resumed, or the way is there again: goes on. */
WARN_UNUSED int e2b_channel_attach(struct e2b_channel *c, struct error *err);

/* A request of one line, without its line feed. */
void e2b_channel_request(struct e2b_channel *c, const char *line, size_t len);

void e2b_channel_interrupt(struct e2b_channel *c);

/* What has come need not be kept any more. */
void e2b_channel_acknowledge(struct e2b_channel *c);

/* Removes a file in the sandbox. */
void e2b_channel_remove(struct e2b_channel *c, const char *path);

/* Ends the interpreter and all that it has started; on_end tells when it has
   ended. */
void e2b_channel_kill(struct e2b_channel *c);

/* The same for one that breaks the rules; fault: static. */
void e2b_channel_break(struct e2b_channel *c, const char *fault);

/* For marks, MARKS_NONCE_LEN bytes. */
const char *e2b_channel_nonce(const struct e2b_channel *c);

/* The path of the Python that runs; "python3" where it was not told. */
const char *e2b_channel_python(const struct e2b_channel *c);

#endif
