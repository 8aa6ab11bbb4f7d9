/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/sink.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/event.h"

#define MAX_SINKS 8

struct entry {
    const struct sink_ops *ops;
    void *sink; /* borrowed */
};

struct sink_chain {
    struct entry sinks[MAX_SINKS];
    size_t n;
    uint64_t seq;

    /* The barrier that is being passed. */
    bool in_barrier;
    enum sink_barrier point;
    size_t at;
    sink_done_fn done;
    void *done_ctx;
};

struct sink_chain *
sink_chain_new(void)
{
    return xcalloc(1, sizeof(struct sink_chain));
}

void
sink_chain_free(struct sink_chain *chain)
{
    free(chain);
}

void
sink_chain_add(struct sink_chain *chain, const struct sink_ops *ops, void *sink)
{
    assert(chain->n < MAX_SINKS);
    chain->sinks[chain->n++] = (struct entry){.ops = ops, .sink = sink};
}

int
sink_chain_put(struct sink_chain *chain, struct event *ev, struct error *err)
{
    ev->seq = ++chain->seq;
    for (size_t i = 0; i < chain->n; i++) {
        struct entry *e = &chain->sinks[i];

        if (e->ops->put(e->sink, ev, err) < 0)
            return err_wrap(err, "%s", e->ops->name);
    }
    return 0;
}

static void
end_barrier(struct sink_chain *chain, const struct error *err)
{
    chain->in_barrier = false;
    chain->done(chain->done_ctx, err);
}

static void pass_barrier(struct sink_chain *chain);

static void
on_passed(void *ctx, const struct error *err)
{
    struct sink_chain *chain = ctx;

    if (err != NULL) {
        end_barrier(chain, err);
        return;
    }
    chain->at++;
    pass_barrier(chain);
}

static void
pass_barrier(struct sink_chain *chain)
{
    struct error err = {0};

    for (; chain->at < chain->n; chain->at++) {
        struct entry *e = &chain->sinks[chain->at];

        if (e->ops->barrier == NULL)
            continue;
        switch (
            e->ops->barrier(e->sink, chain->point, on_passed, chain, &err)) {
        case SINK_READY:
            break;
        case SINK_PENDING:
            return;
        case SINK_FAILED:
            error_prepend(&err, "%s", e->ops->name);
            end_barrier(chain, &err);
            return;
        }
    }
    end_barrier(chain, NULL);
}

void
sink_chain_barrier(struct sink_chain *chain, enum sink_barrier point,
                   sink_done_fn done, void *ctx)
{
    assert(!chain->in_barrier);
    chain->in_barrier = true;
    chain->point = point;
    chain->at = 0;
    chain->done = done;
    chain->done_ctx = ctx;
    pass_barrier(chain);
}
