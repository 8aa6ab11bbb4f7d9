/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the recorder keeps of the output of cells, for whoever wants to see all
 * of it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/output.h"
#include "model/sink.h"
#include "model/table.h"

#define MIB ((size_t)1 << 20)

static void
put(struct recorder *r, const struct event *ev)
{
    struct error err = {0};

    assert_int_equal(recorder_sink.put(r, ev, &err), 0);
}

static void
begin_cell(struct recorder *r, int cell)
{
    put(r, &(struct event){
               .kind = EVENT_CODE, .cell = cell, .text = "x", .len = 1});
}

static void
print(struct recorder *r, int cell, enum event_stream stream, const char *text,
      size_t len)
{
    put(r, &(struct event){.kind = EVENT_OUTPUT,
                           .cell = cell,
                           .stream = stream,
                           .text = text,
                           .len = len});
}

static void
expect_printed(const struct recorder_piece *p, enum event_stream stream,
               const char *text, size_t len)
{
    assert_false(p->is_output);
    assert_int_equal(p->stream, stream);
    assert_int_equal(p->text.len, len);
    assert_memory_equal(p->text.data, text, len);
}

static void
test_pieces_are_in_order(void **state)
{
    struct recorder *r = recorder_new(NULL);
    char text[] = "value";
    struct table *t = table_new(1, 0, 0);
    const struct recorder_cell *c = NULL;

    (void)state;
    begin_cell(r, 1);
    print(r, 1, EVENT_STDOUT, "a\0", 2);
    print(r, 1, EVENT_STDOUT, "b", 1);
    print(r, 1, EVENT_STDERR, "c", 1);
    put(r, &(struct event){.kind = EVENT_RESULT,
                           .cell = 1,
                           .output = &(struct output){
                               .index = 0, .text = text, .text_len = 5}});
    put(r, &(struct event){.kind = EVENT_RESULT,
                           .cell = 1,
                           .output = &(struct output){
                               .index = 1, .text = text, .table = t}});
    print(r, 1, EVENT_STDOUT, "d", 1);
    c = recorder_cell(r, 1);
    assert_int_equal(c->n_pieces, 5);
    expect_printed(&c->pieces[0], EVENT_STDOUT, "a\0b", 3);
    expect_printed(&c->pieces[1], EVENT_STDERR, "c", 1);
    assert_true(c->pieces[2].is_output);
    assert_string_equal(c->pieces[2].text.data, "value");
    assert_true(c->pieces[3].is_output);
    assert_int_equal(c->pieces[3].index, 1);
    assert_int_equal(c->pieces[3].text.len, 0);
    expect_printed(&c->pieces[4], EVENT_STDOUT, "d", 1);
    table_free(t);
    recorder_free(r);
}

/* A change of the stream with every byte is bounded like the bytes. */
static void
test_many_short_pieces(void **state)
{
    struct recorder *r = recorder_new(NULL);
    const struct recorder_cell *c = NULL;

    (void)state;
    begin_cell(r, 1);
    for (int i = 0; i < 2000000; i++)
        print(r, 1, i % 2 == 0 ? EVENT_STDOUT : EVENT_STDERR, "x", 1);
    c = recorder_cell(r, 1);
    assert_true(c->is_cut);
    assert_true(c->n_pieces <= RECORDER_MAX_BYTES / sizeof(*c->pieces));
    begin_cell(r, 2);
    print(r, 2, EVENT_STDOUT, "y", 1);
    assert_true(recorder_cell(r, 1)->is_forgotten);
    assert_int_equal(recorder_cell(r, 2)->n_pieces, 1);
    recorder_free(r);
}

/* Output without a cell is nobody's. */
static void
test_output_of_no_cell(void **state)
{
    struct recorder *r = recorder_new(NULL);

    (void)state;
    print(r, 7, EVENT_STDOUT, "a", 1);
    begin_cell(r, 1);
    print(r, 7, EVENT_STDOUT, "a", 1);
    assert_int_equal(recorder_cell(r, 1)->n_pieces, 0);
    recorder_free(r);
}

static void
test_older_cells_make_room(void **state)
{
    struct recorder *r = recorder_new(NULL);
    AUTO_FREE char *block = xcalloc(MIB, 1);

    (void)state;
    for (int cell = 1; cell <= 3; cell++) {
        begin_cell(r, cell);
        for (int i = 0; i < 30; i++)
            print(r, cell, EVENT_STDOUT, block, MIB);
    }
    /* 90 MiB; 64 are kept. */
    assert_true(recorder_cell(r, 1)->is_forgotten);
    assert_int_equal(recorder_cell(r, 1)->n_pieces, 0);
    for (int cell = 2; cell <= 3; cell++) {
        const struct recorder_cell *c = recorder_cell(r, cell);

        assert_false(c->is_forgotten);
        assert_false(c->is_cut);
        assert_int_equal(c->n_pieces, 1);
        assert_int_equal(c->pieces[0].text.len, 30 * MIB);
    }
    /* What comes late for a forgotten cell would be a part without the rest. */
    print(r, 1, EVENT_STDOUT, "late", 4);
    assert_int_equal(recorder_cell(r, 1)->n_pieces, 0);
    recorder_free(r);
}

static void
test_one_cell_that_is_too_long(void **state)
{
    struct recorder *r = recorder_new(NULL);
    AUTO_FREE char *block = xcalloc(MIB, 1);
    const struct recorder_cell *c = NULL;

    (void)state;
    begin_cell(r, 1);
    print(r, 1, EVENT_STDOUT, "first", 5);
    begin_cell(r, 2);
    for (int i = 0; i < 70; i++)
        print(r, 2, EVENT_STDOUT, block, MIB);
    print(r, 2, EVENT_STDOUT, "x", 1);
    c = recorder_cell(r, 2);
    assert_true(c->is_cut);
    assert_false(c->is_forgotten);
    assert_int_equal(c->pieces[0].text.len, 63 * MIB);
    recorder_free(r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_in_order),
        cmocka_unit_test(test_many_short_pieces),
        cmocka_unit_test(test_output_of_no_cell),
        cmocka_unit_test(test_older_cells_make_room),
        cmocka_unit_test(test_one_cell_that_is_too_long),
    };

    return cmocka_run_group_tests_name("recorder pieces", tests, NULL, NULL);
}
