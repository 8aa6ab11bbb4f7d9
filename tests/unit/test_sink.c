/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "model/event.h"

/* A sink that writes down what it is given. */
struct fake {
    char letter;
    struct sbuf *seen;
    bool fail_put;
    enum sink_result result;
    sink_done_fn done;
    void *ctx;
};

static int
fake_put(void *sink, const struct event *ev, struct error *err)
{
    struct fake *s = sink;

    sbuf_addf(s->seen, "%c%d ", s->letter, (int)ev->seq);
    if (s->fail_put)
        return err_set(err, ERR_IO, "disk full");
    return 0;
}

static enum sink_result
fake_barrier(void *sink, enum sink_barrier point, sink_done_fn done, void *ctx,
             struct error *err)
{
    struct fake *s = sink;

    sbuf_addf(s->seen, "%c|%d ", s->letter, (int)point);
    s->done = done;
    s->ctx = ctx;
    if (s->result == SINK_FAILED)
        err_set(err, ERR_IO, "disk full");
    return s->result;
}

static const struct sink_ops fake_ops = {
    .name = "fake", .put = fake_put, .barrier = fake_barrier};
static const struct sink_ops plain_ops = {
    .name = "plain", .put = fake_put, .barrier = NULL};

struct fixture {
    struct sbuf seen;
    struct fake sinks[3];
    struct sink_chain *chain;
    int again; /* barriers that done begins */
};

static int
set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    sbuf_init(&f.seen, 4096);
    f.chain = sink_chain_new();
    for (size_t i = 0; i < 3; i++) {
        f.sinks[i] = (struct fake){.letter = (char)('a' + i), .seen = &f.seen};
        sink_chain_add(f.chain, i == 1 ? &plain_ops : &fake_ops, &f.sinks[i]);
    }
    *state = &f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    sink_chain_free(f->chain);
    sbuf_fini(&f->seen);
    return 0;
}

static void
on_done(void *ctx, const struct error *err)
{
    struct fixture *f = ctx;

    sbuf_addf(&f->seen, "done(%s) ", err != NULL ? err->msg : "");
    if (f->again-- > 0)
        sink_chain_barrier(f->chain, SINK_CELL_STARTED, on_done, f);
}

static void
test_put_numbers_and_orders(void **state)
{
    struct fixture *f = *state;
    struct event ev = {.kind = EVENT_TEXT};
    struct error err = {0};

    assert_int_equal(sink_chain_put(f->chain, &ev, &err), 0);
    assert_int_equal(sink_chain_put(f->chain, &ev, &err), 0);
    assert_int_equal(ev.seq, 2);
    assert_string_equal(f->seen.data, "a1 b1 c1 a2 b2 c2 ");
}

static void
test_put_failure_stops_before_the_next(void **state)
{
    struct fixture *f = *state;
    struct event ev = {.kind = EVENT_TEXT};
    struct error err = {0};

    f->sinks[1].fail_put = true;
    assert_int_equal(sink_chain_put(f->chain, &ev, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.msg, "plain: disk full");
    assert_string_equal(f->seen.data, "a1 b1 ");
}

static void
test_barrier_ready_passes_at_once(void **state)
{
    struct fixture *f = *state;

    f->again = 1;
    sink_chain_barrier(f->chain, SINK_TURN_ENDED, on_done, f);
    assert_string_equal(f->seen.data, "a|2 c|2 done() a|1 c|1 done() ");
}

static void
test_barrier_pending_holds_the_rest(void **state)
{
    struct fixture *f = *state;

    f->sinks[0].result = SINK_PENDING;
    f->sinks[2].result = SINK_PENDING;
    sink_chain_barrier(f->chain, SINK_REQUEST_SENT, on_done, f);
    assert_string_equal(f->seen.data, "a|0 ");
    f->sinks[0].done(f->sinks[0].ctx, NULL);
    assert_string_equal(f->seen.data, "a|0 c|0 ");
    f->sinks[2].done(f->sinks[2].ctx, NULL);
    assert_string_equal(f->seen.data, "a|0 c|0 done() ");
}

static void
test_barrier_failure_goes_no_further(void **state)
{
    struct fixture *f = *state;
    struct error err = {0};

    f->sinks[0].result = SINK_FAILED;
    sink_chain_barrier(f->chain, SINK_REQUEST_SENT, on_done, f);
    assert_string_equal(f->seen.data, "a|0 done(fake: disk full) ");
    sbuf_clear(&f->seen);
    f->sinks[0].result = SINK_PENDING;
    sink_chain_barrier(f->chain, SINK_REQUEST_SENT, on_done, f);
    err_set(&err, ERR_IO, "late");
    f->sinks[0].done(f->sinks[0].ctx, &err);
    assert_string_equal(f->seen.data, "a|0 done(late) ");
}

static void
test_no_sink_at_all(void **state)
{
    struct fixture *f = *state;
    struct sink_chain *chain = sink_chain_new();
    struct event ev = {.kind = EVENT_TEXT};
    struct error err = {0};

    assert_int_equal(sink_chain_put(chain, &ev, &err), 0);
    assert_int_equal(ev.seq, 1);
    sink_chain_barrier(chain, SINK_REQUEST_SENT, on_done, f);
    assert_string_equal(f->seen.data, "done() ");
    sink_chain_free(chain);
    sink_chain_free(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_numbers_and_orders, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_put_failure_stops_before_the_next,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_barrier_ready_passes_at_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_barrier_pending_holds_the_rest,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_barrier_failure_goes_no_further,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_sink_at_all, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("sink", tests, NULL, NULL);
}
