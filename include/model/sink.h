/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Consumers of events, in order: recorder, events out, view. An event is
 * written before it is shown, and what was written is synced before it is acted
 * on: a barrier, which a sink may finish later.
 */
#ifndef MODEL_SINK_H
#define MODEL_SINK_H

#include <stddef.h>

#include "base/cleanup.h"

struct error;
struct event;

/* What is about to happen once the barrier is passed. */
enum sink_barrier { SINK_REQUEST_SENT, SINK_CELL_STARTED, SINK_TURN_ENDED };

enum sink_result { SINK_READY, SINK_PENDING, SINK_FAILED };

typedef void (*sink_done_fn)(void *ctx, const struct error *err);

struct sink_ops {
    const char *name;

    /* Takes one event, borrowed for the call. Errors end the turn; the event
       is not given to the sinks behind. */
    int (*put)(void *sink, const struct event *ev, struct error *err);

    /*
     * Everything taken so far is made as safe as the sink makes it, and the
     * flow is held until then. NULL: the sink has nothing to keep.
     * SINK_PENDING: done is called later, exactly once.
     */
    enum sink_result (*barrier)(void *sink, enum sink_barrier point,
                                sink_done_fn done, void *ctx,
                                struct error *err);
};

struct sink_chain;

struct sink_chain *sink_chain_new(void);
void sink_chain_free(struct sink_chain *chain); /* not the sinks */

/* sink and ops are borrowed; order of the calls is the order of delivery. */
void sink_chain_add(struct sink_chain *chain, const struct sink_ops *ops,
                    void *sink);

/* Numbers the event (ev->seq) and gives it to every sink. Errors: those of the
   sink, with its name. */
WARN_UNUSED int sink_chain_put(struct sink_chain *chain, struct event *ev,
                               struct error *err);

/*
 * Passes the barrier in every sink, one after the other, then calls done: at
 * once, within this call, when no sink is pending. One barrier at a time.
 */
void sink_chain_barrier(struct sink_chain *chain, enum sink_barrier point,
                        sink_done_fn done, void *ctx);

#endif
