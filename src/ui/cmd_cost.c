/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "config/config.h"
#include "model/price.h"
#include "model/table.h"
#include "render/table_layout.h"
#include "term/out.h"
#include "ui/app_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"

#define MAX_LIST_BYTES (256u << 10)

/* The last turns; those before are in the total. */
#define MAX_TURNS 18u

/* ---- :cost ----------------------------------------------------------------
 */

enum column {
    COLUMN_TURN,
    COLUMN_CALLS,
    COLUMN_IN,
    COLUMN_READ,
    COLUMN_WRITTEN,
    COLUMN_OUT,
    COLUMN_COST,
    N_COLUMNS
};

static const char *const column_names[N_COLUMNS] = {
    "turn", "calls", "in", "cache read", "cache written", "out", "dollars",
};

static void
set_number(struct table *t, size_t row, enum column column, int64_t value)
{
    struct sbuf sb;

    sbuf_init(&sb, 64);
    sbuf_addf(&sb, "%lld", (long long)value);
    table_at(t, row, column)->text = sbuf_take(&sb);
    table_at(t, row, column)->is_number = true;
}

static void
set_row(struct table *t, size_t row, char *name, const struct agent_spent *s,
        bool has_price)
{
    const struct usage *u = &s->usage;
    struct sbuf cost;

    table_at(t, row, COLUMN_TURN)->text = name;
    set_number(t, row, COLUMN_CALLS, s->n_replies);
    set_number(t, row, COLUMN_IN, u->input_tokens);
    set_number(t, row, COLUMN_READ, u->cache_read_tokens);
    set_number(t, row, COLUMN_WRITTEN,
               u->cache_write_5m_tokens + u->cache_write_1h_tokens);
    set_number(t, row, COLUMN_OUT, u->output_tokens);
    sbuf_init(&cost, 64);
    if (has_price) {
        price_add_dollars(&cost, s->nanousd, 4, PRICE_NEAREST);
        if (s->at_least)
            sbuf_add_str(&cost, " or more");
    } else {
        sbuf_add_str(&cost, "not known");
    }
    table_at(t, row, COLUMN_COST)->text = sbuf_take(&cost);
}

static struct table *
make_table(const struct agent *agent)
{
    size_t n_turns = agent_n_turns(agent);
    size_t n_shown = n_turns < MAX_TURNS ? n_turns : MAX_TURNS;
    size_t first = n_turns - n_shown;
    bool has_price = agent_price(agent) != NULL;
    struct table *t = table_new(N_COLUMNS, n_shown + 1, 0);

    t->n_rows_total = (int64_t)n_shown + 1;
    t->n_cols_total = N_COLUMNS;
    t->gap_at = N_COLUMNS;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        t->columns[i].name = xstrdup(column_names[i]);
        t->columns[i].kind =
            i == COLUMN_TURN || i == COLUMN_COST ? TABLE_TEXT : TABLE_INTEGER;
    }
    for (size_t i = 0; i < n_shown; i++)
        set_row(t, i, xasprintf("%zu", first + i + 1),
                agent_turn_spent(agent, first + i), has_price);
    set_row(t, n_shown, xstrdup("session"), agent_session_spent(agent),
            has_price);
    return t;
}

/* How far the figures can be trusted. */
static void
tell_source(struct app *app)
{
    const struct price *price = agent_price(app->agent);

    if (price == NULL && app->config.is_replay)
        view_note(app->config.view,
                  "the model's words were written in advance: nothing is paid");
    else if (price == NULL)
        view_note(app->config.view,
                  "there is no price for the model %s; models.yaml beside "
                  "config.yaml can have one",
                  app->config.config->model);
    else if (price->date != NULL)
        view_note(app->config.view, "estimated, at prices of %s", price->date);
    else
        view_note(app->config.view, "estimated, at the prices of models.yaml");
    if (agent_session_spent(app->agent)->at_least)
        view_note(app->config.view,
                  "or more: a reply broke off, and only a part of what it cost "
                  "is known");
}

static enum command_result
run_cost(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct table *t = NULL;
    struct table_options options = view_table_options(app->config.view);

    (void)words;
    (void)n_words;
    (void)err;
    if (agent_n_turns(app->agent) == 0) {
        view_note(app->config.view, "nothing was asked yet");
        return CMD_OK;
    }
    t = make_table(app->agent);
    sbuf_init(&sb, MAX_LIST_BYTES);
    table_render(t, &options, &sb);
    table_free(t);
    view_table(app->config.view, sb.data, sb.len);
    tell_source(app);
    return CMD_OK;
}

/* ---- :budget --------------------------------------------------------------
 */

static void
show_budget(struct app *app)
{
    int64_t budget = agent_budget(app->agent);
    const struct agent_spent *spent = agent_session_spent(app->agent);
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, 256);
    if (agent_price(app->agent) == NULL) {
        sbuf_add_str(&sb, "no price of the model is known");
    } else {
        if (spent->at_least)
            sbuf_add_str(&sb, "at least ");
        price_add_dollars(&sb, spent->nanousd, 4, PRICE_NEAREST);
        sbuf_add_str(&sb, " spent");
    }
    if (budget > 0) {
        sbuf_add_str(&sb, ", the budget is ");
        price_add_exact(&sb, budget);
    } else {
        sbuf_add_str(&sb, ", there is no budget");
    }
    view_note(app->config.view, "%s", sb.data);
}

static enum command_result
run_budget(struct app *app, char *const *words, size_t n_words,
           struct error *err)
{
    int64_t nanousd = 0;

    if (n_words == 0) {
        show_budget(app);
        return CMD_OK;
    }
    if (!str_eq(words[0], "off") &&
        config_read_dollars(words[0][0] == '$' ? words[0] + 1 : words[0],
                            &nanousd, err) < 0) {
        error_prepend(err, ":budget");
        return CMD_ERROR;
    }
    if (agent_set_budget(app->agent, nanousd, err) < 0) {
        if (err != NULL)
            err->code = ERR_USAGE;
        return CMD_ERROR;
    }
    show_budget(app);
    return CMD_OK;
}

/* ---- :retry ---------------------------------------------------------------
 */

static enum command_result
run_retry(struct app *app, char *const *words, size_t n_words,
          struct error *err)
{
    (void)words;
    (void)n_words;
    return app_begin_retry(app, err) == 0 ? CMD_WAIT : CMD_ERROR;
}

const struct command cmd_cost = {
    .name = "cost",
    .arguments = "",
    .help = "show tokens and dollars, by question and of the session",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_cost,
    .cancel = NULL,
};

const struct command cmd_budget = {
    .name = "budget",
    .arguments = "[AMOUNT|off]",
    .help = "show or set what the session may cost, in dollars",
    .min_words = 0,
    .max_words = 1,
    .completion = COMPLETE_NOTHING,
    .run = run_budget,
    .cancel = NULL,
};

const struct command cmd_retry = {
    .name = "retry",
    .arguments = "",
    .help = "ask the last question again, or go on with it",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_retry,
    .cancel = NULL,
};
