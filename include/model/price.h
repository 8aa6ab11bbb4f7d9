/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What tokens cost: a table of prices by model, and the cost of what was used;
 * and the cost of time in a sandbox of a service.
 * Pure. Amounts of money are nano-dollars (US, 1e-9), rates are micro-dollars
 * for a million tokens, so that both are whole numbers. All of it is an
 * estimate: the bill is the vendor's.
 */
#ifndef MODEL_PRICE_H
#define MODEL_PRICE_H

#include <stddef.h>
#include <stdint.h>

struct sbuf;
struct usage;

#define PRICE_DOLLAR INT64_C(1000000000)
#define PRICE_CENT (PRICE_DOLLAR / 100)

struct price_rates {
    int64_t input; /* tokens that are neither read from the cache nor written */
    int64_t output;
    int64_t cache_write_5m;
    int64_t cache_write_1h;
    int64_t cache_read;
};

struct price {
    char *model; /* owned; the id, without a date behind it */
    char *date;  /* owned; of the prices, as "2026-11-29" */
    struct price_rates rates;

    /* Where a prompt has more tokens than this, all tokens of the request are
       at long_rates; 0: there is one rate. */
    int64_t long_above_tokens;
    struct price_rates long_rates;

    int64_t max_output_tokens; /* 0: not known */
};

struct price_table {
    struct price *prices; /* owned; sorted by model */
    size_t n_prices;
};

/* Adds a copy of price; one for the same model is replaced. */
void price_table_set(struct price_table *t, const struct price *price);
void price_table_fini(struct price_table *t);

/* The price of a model, also by its id with a date behind it ("-20251001"), or
   NULL. Borrowed until the table is changed. */
const struct price *price_find(const struct price_table *t, const char *model);

/* What one request cost. */
int64_t price_cost(const struct price *p, const struct usage *usage);

/* The most that a prompt of so many tokens can cost, and one token of the
   reply to it: as if all of it were written to the cache. */
int64_t price_worst_prompt(const struct price *p, int64_t prompt_tokens);
int64_t price_worst_output(const struct price *p, int64_t prompt_tokens,
                           int64_t tokens);

/* How many tokens of a reply to such a prompt can be had for an amount. */
int64_t price_affords(const struct price *p, int64_t prompt_tokens,
                      int64_t nanousd);

/* What a sandbox cost that ran so long, at rates for an hour of one virtual CPU
   and of one GiB of memory. */
int64_t price_of_time(int64_t ms, int n_cpus, int memory_mib,
                      int64_t vcpu_hour_nanousd, int64_t gib_hour_nanousd);

/* Adds "$0.010": rounded to so many decimals (0 to 9), up if it says so. An
   amount that would become zero has as many more as its first digit needs. */
enum price_rounding { PRICE_NEAREST, PRICE_UP };
void price_add_dollars(struct sbuf *sb, int64_t nanousd, int decimals,
                       enum price_rounding rounding);

/* All of an amount that somebody set, with two decimals or more. */
void price_add_exact(struct sbuf *sb, int64_t nanousd);

/* As the closing line of a turn has it: three decimals below ten dollars, two
   above; what is less than the last of them is "under $0.001". */
void price_add_cost(struct sbuf *sb, int64_t nanousd);

#endif
