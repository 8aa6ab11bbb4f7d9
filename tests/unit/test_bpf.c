/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/bpf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "helpers/bpf_eval.h"

enum { MAX_CODE = 1024 };

static struct sock_filter code[MAX_CODE];

static void
test_finish_resolves_labels(void **state)
{
    static const struct {
        int nr;
        uint32_t arch;
        uint32_t expect;
    } cases[] = {
        {4, 0x10, 1},  {4, 0x01, 2}, {4, 0xff, 1},  {9, 0x10, 3},
        {10, 0x10, 3}, {8, 0x10, 2}, {-1, 0x10, 3}, {4, 0xffff, 1u},
    };
    struct bpf_build b;
    unsigned four, big, low;
    size_t i, n;

    (void)state;
    bpf_build_init(&b, code, MAX_CODE);
    four = bpf_build_label(&b);
    big = bpf_build_label(&b);
    low = bpf_build_label(&b);
    bpf_build_load(&b, offsetof(struct seccomp_data, nr));
    bpf_build_jump(&b, BPF_BUILD_EQ, 4, four, BPF_BUILD_NEXT);
    bpf_build_jump(&b, BPF_BUILD_GT, 8, big, low);
    bpf_build_bind(&b, four);
    bpf_build_load(&b, offsetof(struct seccomp_data, arch));
    bpf_build_jump(&b, BPF_BUILD_BITS, 0x10, BPF_BUILD_NEXT, low);
    bpf_build_ret(&b, 1);
    bpf_build_bind(&b, low);
    bpf_build_ret(&b, 2);
    bpf_build_bind(&b, big);
    bpf_build_ret(&b, 3);
    n = bpf_build_finish(&b);
    assert_int_equal(n, 8);
    assert_true(bpf_eval_valid(code, n));
    for (i = 0; i < LEN(cases); i++) {
        struct seccomp_data d = {.nr = cases[i].nr, .arch = cases[i].arch};

        assert_int_equal(bpf_eval_run(code, n, &d), cases[i].expect);
    }
}

/* A jump over n instructions. */
static size_t
build_distance(size_t n)
{
    struct bpf_build b;
    unsigned end;
    size_t i;

    bpf_build_init(&b, code, MAX_CODE);
    end = bpf_build_label(&b);
    bpf_build_load(&b, 0);
    bpf_build_jump(&b, BPF_BUILD_EQ, 1, end, BPF_BUILD_NEXT);
    for (i = 0; i < n; i++)
        bpf_build_load(&b, 0);
    bpf_build_bind(&b, end);
    bpf_build_ret(&b, 7);
    return bpf_build_finish(&b);
}

static void
test_finish_refuses_long_jumps(void **state)
{
    struct seccomp_data d = {.nr = 1};

    (void)state;
    assert_int_equal(build_distance(255), 258);
    assert_true(bpf_eval_valid(code, 258));
    assert_int_equal(bpf_eval_run(code, 258, &d), 7);
    assert_int_equal(build_distance(256), 0);
}

static void
test_finish_refuses_too_much_code(void **state)
{
    struct bpf_build b;

    (void)state;
    bpf_build_init(&b, code, 1);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 1);
    bpf_build_ret(&b, 2);
    assert_int_equal(bpf_build_finish(&b), 0);
    assert_int_equal(code[0].k, 1);
}

static void
test_finish_refuses_bad_labels(void **state)
{
    struct bpf_build b;
    unsigned label;

    (void)state;
    bpf_build_init(&b, code, MAX_CODE);
    bpf_build_jump(&b, BPF_BUILD_EQ, 1, bpf_build_label(&b), BPF_BUILD_NEXT);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 0);

    bpf_build_init(&b, code, MAX_CODE);
    label = bpf_build_label(&b);
    bpf_build_bind(&b, label);
    bpf_build_jump(&b, BPF_BUILD_EQ, 1, label, BPF_BUILD_NEXT);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 0);

    bpf_build_init(&b, code, MAX_CODE);
    label = bpf_build_label(&b);
    bpf_build_bind(&b, label);
    bpf_build_bind(&b, label);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 0);

    bpf_build_init(&b, code, MAX_CODE);
    label = bpf_build_label(&b);
    bpf_build_jump(&b, BPF_BUILD_EQ, 1, label, BPF_BUILD_NEXT);
    bpf_build_ret(&b, 1);
    bpf_build_bind(&b, label);
    assert_int_equal(bpf_build_finish(&b), 0);
}

static void
test_finish_refuses_an_open_end(void **state)
{
    struct bpf_build b;

    (void)state;
    bpf_build_init(&b, code, MAX_CODE);
    assert_int_equal(bpf_build_finish(&b), 0);
    bpf_build_load(&b, 0);
    assert_int_equal(bpf_build_finish(&b), 0);
    bpf_build_ret(&b, 0);
    assert_int_equal(bpf_build_finish(&b), 2);
}

static void
test_label_runs_out(void **state)
{
    struct bpf_build b;
    size_t i;

    (void)state;
    bpf_build_init(&b, code, MAX_CODE);
    for (i = 1; i < BPF_BUILD_LABELS; i++)
        assert_int_equal(bpf_build_label(&b), i);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 1);
    assert_int_equal(bpf_build_label(&b), BPF_BUILD_NEXT);
    assert_int_equal(bpf_build_finish(&b), 0);
}

static void
test_jump_runs_out(void **state)
{
    struct bpf_build b;
    size_t i;

    (void)state;
    bpf_build_init(&b, code, MAX_CODE);
    for (i = 0; i <= BPF_BUILD_JUMPS; i++)
        bpf_build_jump(&b, BPF_BUILD_EQ, 1, BPF_BUILD_NEXT, BPF_BUILD_NEXT);
    bpf_build_ret(&b, 1);
    assert_int_equal(bpf_build_finish(&b), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finish_resolves_labels),
        cmocka_unit_test(test_finish_refuses_long_jumps),
        cmocka_unit_test(test_finish_refuses_too_much_code),
        cmocka_unit_test(test_finish_refuses_bad_labels),
        cmocka_unit_test(test_finish_refuses_an_open_end),
        cmocka_unit_test(test_label_runs_out),
        cmocka_unit_test(test_jump_runs_out),
    };

    return cmocka_run_group_tests_name("bpf", tests, NULL, NULL);
}
