/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Replies of which something cannot be kept: those that the limit of tokens cut
 * before there was an answer or a whole call, which are asked for once more
 * with a larger limit, and calls behind an end that does not ask for them.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent_internal.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"

/* Where it was cut, as a part of a sentence. */
static const char *
where(const struct agent *a)
{
    return a->cut_in_call ? "in the middle of a call"
                          : "before it said anything";
}

static void
add_cut(const struct agent *a, int64_t tokens, struct sbuf *sb)
{
    sbuf_add_str(sb, "the reply was cut at ");
    str_add_grouped(sb, tokens);
    sbuf_addf(sb, " token%s, %s", tokens == 1 ? "" : "s", where(a));
}

bool
agent_is_cut_short(const struct agent *a, const struct claude_reply *reply)
{
    return reply->stop == CLAUDE_STOP_MAX_TOKENS &&
           (a->n_calls_begun > 0 || str_blank(reply->text));
}

void
agent_end_cut(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};
    struct agent_limit limit = {
        .key = "model.max_tokens",
        .way = EVENT_WAY_SMALLER,
    };

    sbuf_init(&text, ERROR_MSG_BYTES);
    sbuf_add_str(&text, "stopped: ");
    add_cut(a, a->cut_tokens, &text);
    if (a->is_short) {
        agent_name_budget(a, &limit);
        sbuf_add_str(&text, ", and the budget allows no longer one: ");
    } else {
        sbuf_add_str(&text, ": ");
    }
    sbuf_add_str(&text, limit.key);
    agent_end_at_limit(a, &limit, text.data);
}

void
agent_ask_longer(struct agent *a, const struct claude_reply *reply)
{
    AUTO_SBUF struct sbuf text = {0};
    bool had_more = a->is_longer;
    int64_t tokens = 0;

    /* Without a limit of our own its length is what it is. */
    a->cut_tokens =
        a->asked_tokens > 0 ? a->asked_tokens : reply->usage.output_tokens;
    a->cut_in_call = a->n_calls_begun > 0;
    agent_void_reply(a);
    if (a->stop != AGENT_GO_ON) {
        agent_end_stopped(a);
        return;
    }
    tokens = agent_afford_longer(a);
    if (had_more || tokens <= a->cut_tokens) {
        agent_end_cut(a);
        return;
    }
    sbuf_init(&text, ERROR_MSG_BYTES);
    add_cut(a, a->cut_tokens, &text);
    sbuf_add_str(&text, "; what was shown of it is void, and it is asked for "
                        "again with up to ");
    str_add_grouped(&text, tokens);
    agent_notice(a, EVENT_WARNING, text.data);
    agent_send_request(a);
}

void
agent_tell_cut(struct agent *a)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, ERROR_MSG_BYTES);
    sbuf_add_str(&text, "the answer was cut");
    if (a->is_short) {
        sbuf_add_str(&text, ", since the budget allows no longer one; raise it "
                            "and ask to continue");
    } else if (a->asked_tokens == a->config.max_tokens) {
        sbuf_add_str(&text, " at model.max_tokens; ask to continue");
    } else {
        /* Of the model, or the larger one after a reply that was of no use. */
        sbuf_add_str(&text, " at ");
        str_add_grouped(&text, a->asked_tokens);
        sbuf_add_str(&text, " tokens, the most there are; ask to continue");
    }
    agent_notice(a, EVENT_WARNING, text.data);
}

void
agent_tell_dropped(struct agent *a, const struct claude_reply *reply)
{
    int n = a->n_calls_begun;
    AUTO_FREE char *calls =
        n == 1 ? xstrdup("its call was") : xasprintf("its %d calls were", n);
    AUTO_FREE char *text = NULL;

    if (n == 0 || reply->n_calls > 0)
        return;
    text = xasprintf(
        "the reply ended with %s, so %s not run",
        reply->stop_reason != NULL ? reply->stop_reason : "no reason", calls);
    agent_notice(a, EVENT_WARNING, text);
}
