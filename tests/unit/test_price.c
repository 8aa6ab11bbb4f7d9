/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/usage.h"

#define MILLION 1000000

static char opus[] = "opus";
static char haiku[] = "haiku-4";
static char date[] = "2026-11-29";

/* 4, 20, 5, 8 and 0.20 dollars. */
static const struct price opus_price = {
    .model = opus,
    .date = date,
    .rates = {4000000, 20000000, 5000000, 8000000, 200000},
};

/* Two rates: above 100,000 tokens five times as much. */
static const struct price haiku_price = {
    .model = haiku,
    .date = date,
    .rates = {100000, 500000, 125000, 200000, 10000},
    .long_above_tokens = 100000,
    .long_rates = {500000, 2500000, 625000, 1000000, 50000},
};

static const struct usage million_in = {.input_tokens = MILLION};
static const struct usage million_out = {.output_tokens = MILLION};
static const struct usage million_read = {.cache_read_tokens = MILLION};
static const struct usage million_5m = {.cache_write_5m_tokens = MILLION};
static const struct usage million_1h = {.cache_write_1h_tokens = MILLION};
static const struct usage all = {100, 200, 300, 400, 500};
static const struct usage at_tier = {
    .input_tokens = 60000, .cache_read_tokens = 40000, .output_tokens = 1000};
static const struct usage past_tier = {
    .input_tokens = 60000, .cache_read_tokens = 40001, .output_tokens = 1000};
static const struct usage absurd = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                                    INT64_MAX};
static const struct usage negative = {-5, -5, -5, -5, -5};

struct cost_case {
    const char *name;
    const struct price *price;
    const struct usage *usage;
    int64_t expect;
};

static const struct cost_case cost_cases[] = {
    {"input", &opus_price, &million_in, 4 * PRICE_DOLLAR},
    {"output", &opus_price, &million_out, 20 * PRICE_DOLLAR},
    {"cache read", &opus_price, &million_read, PRICE_DOLLAR / 5},
    {"cache write, 5 minutes", &opus_price, &million_5m, 5 * PRICE_DOLLAR},
    {"cache write, 1 hour", &opus_price, &million_1h, 8 * PRICE_DOLLAR},
    {"all of them", &opus_price, &all,
     100 * 4000 + 200 * 5000 + 300 * 8000 + 400 * 200 + 500 * 20000},
    {"at the end of the first rate", &haiku_price, &at_tier,
     60000 * 100 + 40000 * 10 + 1000 * 500},
    {"all tokens at the second rate", &haiku_price, &past_tier,
     60000 * 500 + 40001 * 50 + 1000 * 2500},
    {"less than nothing", &opus_price, &negative, 0},
};

static void
test_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(cost_cases); i++) {
        const struct cost_case *t = &cost_cases[i];
        int64_t cost = price_cost(t->price, t->usage);

        if (cost != t->expect)
            fail_msg("%s: %lld", t->name, (long long)cost);
    }
    assert_true(price_cost(&opus_price, &absurd) > 0);
}

static void
test_worst_is_a_bound(void **state)
{
    static const struct price *const prices[] = {&opus_price, &haiku_price};
    static const int64_t prompts[] = {0, 1, 999, 100000, 100001, 1000000};
    static const int64_t amounts[] = {1,
                                      999,
                                      1000000,
                                      PRICE_DOLLAR / 100,
                                      PRICE_DOLLAR,
                                      1000000 * PRICE_DOLLAR};

    (void)state;
    for (size_t i = 0; i < LEN(prices); i++) {
        for (size_t k = 0; k < LEN(prompts); k++) {
            const struct usage written = {.cache_write_5m_tokens = prompts[k],
                                          .output_tokens = 4096};

            assert_true(price_worst_prompt(prices[i], prompts[k]) +
                            price_worst_output(prices[i], prompts[k], 4096) >=
                        price_cost(prices[i], &written));
            for (size_t n = 0; n < LEN(amounts); n++) {
                int64_t tokens =
                    price_affords(prices[i], prompts[k], amounts[n]);

                assert_true(price_worst_output(prices[i], prompts[k], tokens) <=
                            amounts[n]);
                if (amounts[n] < PRICE_DOLLAR)
                    assert_true(price_worst_output(prices[i], prompts[k],
                                                   tokens + 1) > amounts[n]);
            }
        }
    }
    assert_int_equal(price_affords(&opus_price, 1, -5), 0);
}

struct find_case {
    const char *name;
    const char *expect; /* model of the price; NULL: none */
};

static const struct find_case find_cases[] = {
    {"opus", "opus"},
    {"haiku-4", "haiku-4"},
    {"haiku-4-20251001", "haiku-4"},
    {"haiku-4-2025100", NULL},
    {"haiku-4-latest", NULL},
    {"haiku-4-5", NULL},
    {"opu", NULL},
    {"Opus", NULL},
    {"", NULL},
};

static void
test_find(void **state)
{
    struct price_table t = {0};
    struct price other = opus_price;

    (void)state;
    assert_null(price_find(&t, "opus"));
    price_table_set(&t, &opus_price);
    price_table_set(&t, &haiku_price);
    for (size_t i = 0; i < LEN(find_cases); i++) {
        const struct price *p = price_find(&t, find_cases[i].name);

        if (!str_eq(p != NULL ? p->model : NULL, find_cases[i].expect))
            fail_msg("%s", find_cases[i].name);
    }
    other.rates.input = 7;
    other.date = NULL;
    price_table_set(&t, &other);
    assert_int_equal(t.n_prices, 2);
    assert_int_equal(price_find(&t, "opus")->rates.input, 7);
    assert_null(price_find(&t, "opus")->date);
    price_table_fini(&t);
}

/* Looked up by halves, in whatever order they came. */
static void
test_prices_are_sorted(void **state)
{
    struct price_table t = {0};

    (void)state;
    for (int i = 0; i < 3000; i++) {
        AUTO_FREE char *name = xasprintf("m%d", i * 7919 % 1009);
        struct price price = opus_price;

        price.model = name;
        price.rates.input = i;
        price_table_set(&t, &price);
    }
    assert_int_equal(t.n_prices, 1009);
    for (size_t i = 0; i < t.n_prices; i++) {
        const char *name = t.prices[i].model;
        AUTO_FREE char *dated = xasprintf("%s-20251001", name);

        assert_true(i == 0 || strcmp(t.prices[i - 1].model, name) < 0);
        assert_ptr_equal(price_find(&t, name), &t.prices[i]);
        assert_ptr_equal(price_find(&t, dated), &t.prices[i]);
        /* The last one of each name counts. */
        assert_true(t.prices[i].rates.input >= 3000 - 1009);
    }
    price_table_fini(&t);
}

struct dollar_case {
    int64_t nanousd;
    int decimals;
    enum price_rounding rounding;
    const char *expect;
};

static const struct dollar_case dollar_cases[] = {
    {0, 2, PRICE_NEAREST, "$0.00"},
    {10000000, 3, PRICE_NEAREST, "$0.010"},
    {9500000, 3, PRICE_NEAREST, "$0.010"},
    {9499999, 3, PRICE_NEAREST, "$0.009"},
    {80000001, 2, PRICE_UP, "$0.09"},
    {80000000, 2, PRICE_UP, "$0.08"},
    {PRICE_DOLLAR / 2, 2, PRICE_NEAREST, "$0.50"},
    {1234567 * PRICE_DOLLAR, 2, PRICE_NEAREST, "$1,234,567.00"},
    {999999999, 2, PRICE_NEAREST, "$1.00"},
    {1, 9, PRICE_NEAREST, "$0.000000001"},
    {PRICE_DOLLAR, 0, PRICE_UP, "$1"},
    {-1, 2, PRICE_UP, "$0.00"},
    /* Never nothing for something. */
    {0, 4, PRICE_NEAREST, "$0.0000"},
    {1, 4, PRICE_NEAREST, "$0.000000001"},
    {1, 0, PRICE_NEAREST, "$0.000000001"},
    {49, 4, PRICE_NEAREST, "$0.00000005"},
    {49999, 4, PRICE_NEAREST, "$0.00005"},
    {50000, 4, PRICE_NEAREST, "$0.0001"},
    {4000000, 2, PRICE_NEAREST, "$0.004"},
};

static void
test_add_dollars(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(dollar_cases); i++) {
        const struct dollar_case *t = &dollar_cases[i];
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, 64);
        price_add_dollars(&sb, t->nanousd, t->decimals, t->rounding);
        assert_string_equal(sb.data, t->expect);
    }
}

static const struct closing_case {
    int64_t nanousd;
    const char *expect;
} exact_cases[] = {
    {0, "$0.00"},
    {1, "$0.000000001"},
    {5000000, "$0.005"},
    {500000000, "$0.50"},
    {123456789, "$0.123456789"},
    {12 * PRICE_DOLLAR, "$12.00"},
    {INT64_C(1000000000000001), "$1,000,000.000000001"},
};

static void
test_add_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(exact_cases); i++) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, 64);
        price_add_exact(&sb, exact_cases[i].nanousd);
        assert_string_equal(sb.data, exact_cases[i].expect);
    }
}

static const struct closing_case closing_cases[] = {
    {0, "$0.000"},           {1, "under $0.001"},  {499999, "under $0.001"},
    {500000, "$0.001"},      {10000000, "$0.010"}, {9999000000, "$9.999"},
    {10500000000, "$10.50"},
};

static void
test_add_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(closing_cases); i++) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, 64);
        price_add_cost(&sb, closing_cases[i].nanousd);
        assert_string_equal(sb.data, closing_cases[i].expect);
    }
}

static void
test_time(void **state)
{
    /* $0.000014 for a vCPU-second, $0.0000045 for a GiB-second. */
    static const int64_t vcpu = 50400000;
    static const int64_t gib = 16200000;

    (void)state;
    assert_int_equal(price_of_time(1000, 1, 0, vcpu, gib), 14000);
    assert_int_equal(price_of_time(1000, 0, 1024, vcpu, gib), 4500);
    assert_int_equal(price_of_time(3600000, 2, 512, vcpu, gib), 108900000);
    assert_int_equal(price_of_time(0, 2, 512, vcpu, gib), 0);
    assert_int_equal(price_of_time(1000, 2, 512, 0, 0), 0);
    /* Little is not nothing, and no sum is too large. */
    assert_int_equal(price_of_time(1, 1, 1, 1, 0), 1);
    assert_true(price_of_time(INT64_MAX, 1000000, 1000000, 1000000000000,
                              1000000000000) > PRICE_DOLLAR);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_worst_is_a_bound),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_prices_are_sorted),
        cmocka_unit_test(test_add_dollars),
        cmocka_unit_test(test_add_exact),
        cmocka_unit_test(test_add_cost),
    };

    return cmocka_run_group_tests_name("price", tests, NULL, NULL);
}
