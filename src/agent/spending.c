/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include <assert.h>

#include "base/error.h"
#include "base/sbuf.h"
#include "claude/claude.h"
#include "claude/history.h"
#include "model/price.h"

/* A reply that may not be this long is of no use: it would end in the middle
   of its first cell. */
#define USEFUL_TOKENS 4096

/* What the service adds to a request that nobody sees, such as its own words on
   the use of tools. */
#define HIDDEN_TOKENS 1000

/* No model has longer replies. */
#define LONGEST_TOKENS 128000

static struct agent_spent *
this_turn(struct agent *a)
{
    assert(a->n_turns > 0);
    return &a->turns[a->n_turns - 1];
}

static void
add_spent(struct agent_spent *sum, const struct usage *usage, int64_t nanousd,
          bool at_least)
{
    usage_add(&sum->usage, usage);
    sum->n_replies++;
    sum->nanousd += nanousd;
    sum->at_least = sum->at_least || at_least;
}

void
agent_spend(struct agent *a, const struct usage *usage, bool at_least)
{
    int64_t nanousd =
        a->config.price != NULL ? price_cost(a->config.price, usage) : 0;

    add_spent(&a->session, usage, nanousd, at_least);
    add_spent(this_turn(a), usage, nanousd, at_least);
}

/* The most tokens that the next prompt can have: what the service counted, and
   one for each byte since then, since a token has at least one. */
static int64_t
bound_prompt(const struct agent *a)
{
    int64_t more = 0;
    size_t len = 0;

    (void)claude_history_text(a->history, &len);
    if (a->known_tokens == 0)
        return (int64_t)(len + a->config.prompt_bytes) + HIDDEN_TOKENS;
    more = (int64_t)len - (int64_t)a->known_len - a->image_bytes;
    return a->known_tokens + a->image_tokens + (more > 0 ? more : 0);
}

void
agent_know_images(struct agent *a, const struct claude_tool_result *results,
                  size_t n_results, size_t len)
{
    int64_t bytes = 0;
    int64_t tokens = 0;
    size_t now = 0;

    for (size_t i = 0; i < n_results; i++) {
        for (size_t k = 0; k < results[i].n_images; k++) {
            /* Base64. */
            bytes += (int64_t)(results[i].images[k].len + 2) / 3 * 4;
            tokens += agent_image_tokens(&results[i].images[k]);
        }
    }
    (void)claude_history_text(a->history, &now);
    /* Where not all of them went in, all count as text: that is more. */
    if ((int64_t)(now - len) < bytes)
        return;
    a->image_bytes += bytes;
    a->image_tokens += tokens;
}

/* Of a reply that broke off: one token a byte, and no more than were asked. */
static int64_t
lost_tokens(const struct agent *a)
{
    int64_t n = (int64_t)a->n_streamed_bytes;

    return n < a->asked_tokens ? n : a->asked_tokens;
}

void
agent_lose_reply(struct agent *a, const struct usage *known)
{
    int64_t prompt = bound_prompt(a);
    int64_t tokens =
        lost_tokens(a) - (known != NULL ? known->output_tokens : 0);
    int64_t most = 0;

    a->session.at_least = true;
    this_turn(a)->at_least = true;
    if (a->config.price == NULL)
        return;
    if (known == NULL)
        most = price_worst_prompt(a->config.price, prompt);
    if (tokens > 0)
        most += price_worst_output(a->config.price, prompt, tokens);
    a->lost_nanousd += most;
    a->turn_lost_nanousd += most;
}

void
agent_know_prompt(struct agent *a, const struct usage *u)
{
    int64_t tokens = u->input_tokens + u->cache_write_5m_tokens +
                     u->cache_write_1h_tokens + u->cache_read_tokens +
                     u->output_tokens;

    /* A server that counts nothing. */
    if (tokens <= 0)
        return;
    a->known_tokens = tokens;
    (void)claude_history_text(a->history, &a->known_len);
    a->image_bytes = 0;
    a->image_tokens = 0;
}

void
agent_mark_prompt(struct agent *a)
{
    a->asked_known = (struct agent_known){
        .tokens = a->known_tokens,
        .len = a->known_len,
        .image_bytes = a->image_bytes,
        .image_tokens = a->image_tokens,
    };
}

void
agent_forget_prompt(struct agent *a)
{
    a->known_tokens = a->asked_known.tokens;
    a->known_len = a->asked_known.len;
    a->image_bytes = a->asked_known.image_bytes;
    a->image_tokens = a->asked_known.image_tokens;
}

/* ---- budgets --------------------------------------------------------------
 */

/* One of the two budgets. */
struct budget {
    int64_t limit;
    int64_t spent;
    int64_t lost;
    int n_replies;
    bool is_session;
};

/* How long a reply the budget allows behind such a prompt. */
static int64_t
tokens_within(const struct agent *a, const struct budget *b, int64_t prompt)
{
    int64_t left = b->limit - b->spent - b->lost -
                   price_worst_prompt(a->config.price, prompt);

    return price_affords(a->config.price, prompt, left);
}

/* What may be asked for at all: a model can have less than the setting. 0: as
   the client has it. */
static int64_t
longest_reply(const struct agent *a)
{
    int64_t most =
        a->config.price != NULL ? a->config.price->max_output_tokens : 0;
    int64_t wanted = a->is_longer ? LONGEST_TOKENS : a->config.max_tokens;

    return most > 0 && most < wanted ? most : wanted;
}

static int64_t
useful_tokens(const struct agent *a)
{
    int64_t most = longest_reply(a);

    return most < USEFUL_TOKENS ? most : USEFUL_TOKENS;
}

/* The budget that allows the shorter reply to such a prompt; false when there
   is none. */
static bool
find_budget(struct agent *a, int64_t prompt, struct budget *out)
{
    const struct agent_spent *spent = this_turn(a);
    const struct budget turn = {
        .limit = a->config.turn_nanousd,
        .spent = spent->nanousd,
        .lost = a->turn_lost_nanousd,
        .n_replies = spent->n_replies,
    };
    const struct budget session = {
        .limit = a->config.budget_nanousd,
        .spent = a->session.nanousd,
        .lost = a->lost_nanousd,
        .n_replies = a->session.n_replies,
        .is_session = true,
    };

    *out = turn.limit == 0 ||
                   (session.limit != 0 && tokens_within(a, &session, prompt) <=
                                              tokens_within(a, &turn, prompt))
               ? session
               : turn;
    return out->limit != 0;
}

/* How long the next reply may be, within the budgets too. */
static int64_t
affordable(struct agent *a)
{
    struct budget b;
    int64_t most = longest_reply(a);
    int64_t prompt = bound_prompt(a);
    int64_t within = 0;

    if (a->config.price == NULL || !find_budget(a, prompt, &b))
        return most;
    within = tokens_within(a, &b, prompt);
    return within < most ? within : most;
}

bool
agent_affords_again(struct agent *a)
{
    return affordable(a) >= a->asked_tokens;
}

bool
agent_afford_reply(struct agent *a)
{
    int64_t most = affordable(a);

    a->is_short = most < longest_reply(a);
    if (a->is_short && most < useful_tokens(a))
        return false;
    a->asked_tokens = most;
    claude_set_max_tokens(a->config.claude, most);
    return true;
}

int64_t
agent_afford_longer(struct agent *a)
{
    int64_t most = 0;

    a->is_longer = true;
    most = affordable(a);
    a->is_short = most < longest_reply(a);
    return most;
}

/* Decimals in which amounts of the size of a limit can be told apart. */
static int
decimals_for(int64_t limit)
{
    return limit >= 10 * PRICE_CENT ? 2 : limit >= PRICE_CENT ? 3 : 5;
}

/* What the budget could be raised to: twice as much, and more where that would
   not do; a whole number of cents. */
static int64_t
suggest(const struct budget *b, int64_t cost)
{
    int64_t needed = b->spent + b->lost + cost;
    int64_t value = 2 * b->limit > needed ? 2 * b->limit : needed;

    return (value + PRICE_CENT - 1) / PRICE_CENT * PRICE_CENT;
}

/* The setting of a budget, and how to go on: the next request could cost so
   much. */
static void
name_budget(const struct budget *b, int64_t cost, struct agent_limit *limit)
{
    if (b->is_session) {
        limit->key = "model.budget_usd";
        limit->way = EVENT_WAY_BUDGET;
        limit->way_nanousd = suggest(b, cost);
    } else {
        limit->key = "limits.turn_usd";
        /* A turn that spent nothing would end here again. */
        limit->way = b->n_replies > 0 ? EVENT_WAY_RETRY : EVENT_WAY_SETTING;
    }
}

/* The most that a request with a reply of so many tokens can cost. */
static int64_t
worst_cost(const struct agent *a, int64_t prompt, int64_t tokens)
{
    return price_worst_prompt(a->config.price, prompt) +
           price_worst_output(a->config.price, prompt, tokens);
}

void
agent_name_budget(struct agent *a, struct agent_limit *limit)
{
    struct budget b;
    int64_t prompt = bound_prompt(a);
    int64_t tokens = longest_reply(a);
    bool found = find_budget(a, prompt, &b);

    assert(found);
    (void)found;
    if (2 * a->cut_tokens < tokens)
        tokens = 2 * a->cut_tokens;
    name_budget(&b, worst_cost(a, prompt, tokens), limit);
}

void
agent_end_at_budget(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};
    struct budget b;
    struct agent_limit limit = {.why = "Not executed: the budget is used up."};
    int64_t prompt = bound_prompt(a);
    int64_t tokens =
        a->stop == AGENT_STOP_BUDGET ? a->asked_tokens : useful_tokens(a);
    int64_t cost = worst_cost(a, prompt, tokens);
    bool found = find_budget(a, prompt, &b);

    assert(found);
    (void)found;
    sbuf_init(&text, ERROR_MSG_BYTES);
    sbuf_addf(&text, "stopped before call %d: ", b.n_replies + 1);
    price_add_dollars(&text, b.spent + b.lost, decimals_for(b.limit), PRICE_UP);
    sbuf_add_str(&text, " spent, it could cost ");
    price_add_dollars(&text, cost, decimals_for(b.limit), PRICE_UP);
    sbuf_add_str(&text, ", limit ");
    price_add_dollars(&text, b.limit, decimals_for(b.limit), PRICE_NEAREST);
    name_budget(&b, cost, &limit);
    agent_end_at_limit(a, &limit, text.data);
}

/* ---- public ---------------------------------------------------------------
 */

size_t
agent_n_turns(const struct agent *a)
{
    return a->n_turns;
}

const struct agent_spent *
agent_turn_spent(const struct agent *a, size_t i)
{
    assert(i < a->n_turns);
    return &a->turns[i];
}

const struct agent_spent *
agent_session_spent(const struct agent *a)
{
    return &a->session;
}

const struct price *
agent_price(const struct agent *a)
{
    return a->config.price;
}

int64_t
agent_budget(const struct agent *a)
{
    return a->config.budget_nanousd;
}

int
agent_set_budget(struct agent *a, int64_t nanousd, struct error *err)
{
    bool has_client = a->config.claude != NULL;

    if (nanousd > 0 && a->config.price == NULL)
        return err_set(err, ERR_CONFIG,
                       "no budget can be kept: there is no price for %s%s\n"
                       "add it to models.yaml beside config.yaml",
                       has_client ? "the model " : "the model of model.name",
                       has_client ? claude_model(a->config.claude) : "");
    a->config.budget_nanousd = nanousd;
    return 0;
}
