/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/price.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/usage.h"

/* More than a request can have; keeps products within 64 bits, whatever a
   service says. */
#define MAX_TOKENS INT64_C(1000000000)

/* Micro-dollars for a million tokens, times tokens, in nano-dollars. */
#define RATE_SCALE 1000

#define MS_OF_HOUR 3600000
#define MIB_OF_GIB 1024
#define MAX_NANOUSD INT64_C(1000000000000000000) /* a billion dollars */

/* "-20251001" */
#define DATE_BYTES 9

static void
price_fini(struct price *p)
{
    free(p->model);
    free(p->date);
}

/* The order of a model's name and the first len bytes of another. */
static int
compare(const char *model, const char *name, size_t len)
{
    int order = strncmp(model, name, len);

    return order != 0 ? order : model[len] != '\0';
}

/* Where the first len bytes of name stand, or would stand. */
static size_t
find_place(const struct price_table *t, const char *name, size_t len,
           bool *found)
{
    size_t from = 0;
    size_t to = t->n_prices;

    *found = false;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = compare(t->prices[middle].model, name, len);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Room for one more at a place. */
static struct price *
insert(struct price_table *t, size_t at)
{
    size_t n = t->n_prices++;

    t->prices = xgrow(t->prices, n, sizeof(*t->prices));
    memmove(&t->prices[at + 1], &t->prices[at], (n - at) * sizeof(*t->prices));
    return &t->prices[at];
}

void
price_table_set(struct price_table *t, const struct price *price)
{
    bool found = false;
    size_t i = find_place(t, price->model, strlen(price->model), &found);
    struct price *at = NULL;

    if (found) {
        at = &t->prices[i];
        price_fini(at);
    } else {
        at = insert(t, i);
    }
    *at = *price;
    at->model = xstrdup(price->model);
    at->date = xstrdup(price->date);
}

void
price_table_fini(struct price_table *t)
{
    for (size_t i = 0; i < t->n_prices; i++)
        price_fini(&t->prices[i]);
    free(t->prices);
    memset(t, 0, sizeof(*t));
}

static bool
is_date(const char *text)
{
    if (text[0] != '-')
        return false;
    for (size_t i = 1; i < DATE_BYTES; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

const struct price *
price_find(const struct price_table *t, const char *model)
{
    size_t len = strlen(model);
    bool found = false;
    size_t i = find_place(t, model, len, &found);

    if (!found && len > DATE_BYTES && is_date(model + len - DATE_BYTES))
        i = find_place(t, model, len - DATE_BYTES, &found);
    return found ? &t->prices[i] : NULL;
}

static int64_t
bound(int64_t tokens)
{
    return tokens < 0 ? 0 : tokens > MAX_TOKENS ? MAX_TOKENS : tokens;
}

static const struct price_rates *
rates_for(const struct price *p, int64_t prompt_tokens)
{
    return p->long_above_tokens > 0 && prompt_tokens > p->long_above_tokens
               ? &p->long_rates
               : &p->rates;
}

int64_t
price_cost(const struct price *p, const struct usage *u)
{
    int64_t input = bound(u->input_tokens);
    int64_t write_5m = bound(u->cache_write_5m_tokens);
    int64_t write_1h = bound(u->cache_write_1h_tokens);
    int64_t read = bound(u->cache_read_tokens);
    const struct price_rates *r =
        rates_for(p, input + write_5m + write_1h + read);

    return (input * r->input + write_5m * r->cache_write_5m +
            write_1h * r->cache_write_1h + read * r->cache_read +
            bound(u->output_tokens) * r->output + RATE_SCALE / 2) /
           RATE_SCALE;
}

/* Rounded up: it is a bound. */
static int64_t
cost_of(int64_t tokens, int64_t rate)
{
    return (bound(tokens) * rate + RATE_SCALE - 1) / RATE_SCALE;
}

int64_t
price_worst_prompt(const struct price *p, int64_t prompt_tokens)
{
    const struct price_rates *r = rates_for(p, prompt_tokens);

    return cost_of(prompt_tokens,
                   r->cache_write_5m > r->input ? r->cache_write_5m : r->input);
}

int64_t
price_worst_output(const struct price *p, int64_t prompt_tokens, int64_t tokens)
{
    return cost_of(tokens, rates_for(p, prompt_tokens)->output);
}

int64_t
price_affords(const struct price *p, int64_t prompt_tokens, int64_t nanousd)
{
    int64_t rate = rates_for(p, prompt_tokens)->output;

    if (nanousd <= 0)
        return 0;
    if (rate == 0 || nanousd / rate > MAX_TOKENS / RATE_SCALE)
        return MAX_TOKENS;
    /* In two steps, so that a large amount stays within 64 bits. */
    return nanousd / rate * RATE_SCALE + nanousd % rate * RATE_SCALE / rate;
}

void
price_add_dollars(struct sbuf *sb, int64_t nanousd, int decimals,
                  enum price_rounding rounding)
{
    uint64_t value = nanousd > 0 ? (uint64_t)nanousd : 0;
    uint64_t unit = 1;
    uint64_t one = 1;
    uint64_t units = 0;

    assert(decimals >= 0 && decimals <= 9);
    for (int i = 0; i < decimals; i++)
        one *= 10;
    unit = (uint64_t)PRICE_DOLLAR / one;
    units = value / unit;
    if (rounding == PRICE_UP)
        units += value % unit > 0;
    else
        units += unit > 1 && value % unit >= unit / 2;
    /* What is there is never shown as nothing. */
    if (units == 0 && value > 0) {
        price_add_dollars(sb, nanousd, decimals + 1, rounding);
        return;
    }
    sbuf_add_char(sb, '$');
    str_add_grouped(sb, (int64_t)(units / one));
    if (decimals > 0)
        sbuf_addf(sb, ".%0*" PRIu64, decimals, units % one);
}

void
price_add_exact(struct sbuf *sb, int64_t nanousd)
{
    int64_t unit = PRICE_DOLLAR / 100;
    int decimals = 2;

    for (; unit > 1 && nanousd % unit != 0; unit /= 10)
        decimals++;
    price_add_dollars(sb, nanousd, decimals, PRICE_NEAREST);
}

int64_t
price_of_time(int64_t ms, int n_cpus, int memory_mib, int64_t vcpu_hour_nanousd,
              int64_t gib_hour_nanousd)
{
    double hour = (double)vcpu_hour_nanousd * n_cpus +
                  (double)gib_hour_nanousd * memory_mib / MIB_OF_GIB;
    double cost = hour * ((double)ms / MS_OF_HOUR);

    if (cost >= (double)MAX_NANOUSD)
        return MAX_NANOUSD;
    /* Never nothing for what is paid for. */
    return cost > 0 && cost < 1 ? 1 : (int64_t)cost;
}

void
price_add_cost(struct sbuf *sb, int64_t nanousd)
{
    if (nanousd > 0 && nanousd < PRICE_DOLLAR / 2000) {
        sbuf_add_str(sb, "under $0.001");
        return;
    }
    price_add_dollars(sb, nanousd, nanousd < 10 * PRICE_DOLLAR ? 3 : 2,
                      PRICE_NEAREST);
}
