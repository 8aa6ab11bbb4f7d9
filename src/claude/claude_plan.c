/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_call_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/history.h"
#include "claude/history_internal.h"
#include "claude/transport.h"

#define LOG_MODULE "claude"

static int
make_head(struct sbuf *sb, const struct claude_config *config, bool compatible,
          struct error *err)
{
    sbuf_init(sb, CLAUDE_MAX_BODY_BYTES);
    if (claude_codec_head(sb, config, compatible, err) < 0) {
        return -1;
    }
    if (!sbuf_ok(sb)) {
        return err_set(err, ERR_USAGE, "the system prompt is too long");
    }
    return 0;
}

int
claude_plan_init(struct claude *c, const struct claude_config *config,
                 struct error *err)
{
    c->dialect = config->dialect;
    c->model = xstrdup(config->model);
    c->max_tokens = config->max_tokens;
    c->next_max_tokens = config->max_tokens;
    if (make_head(&c->head, config, false, err) < 0 ||
        make_head(&c->compatible_head, config, true, err) < 0) {
        return -1;
    }
    c->sends_compatible =
        c->dialect == CLAUDE_DIALECT_COMPATIBLE ||
        (c->dialect == CLAUDE_DIALECT_AUTO && c->transport->is_foreign &&
         !str_starts(c->model, "claude"));
    return 0;
}

void
claude_plan_fini(struct claude *c)
{
    sbuf_fini(&c->head);
    sbuf_fini(&c->compatible_head);
    free(c->model);
}

static bool
is_compatible(const struct claude_call *call)
{
    return call->c->sends_compatible || call->plan == CLAUDE_PLAN_COMPATIBLE;
}

int
claude_plan_make_body(struct claude_call *call, struct error *err)
{
    const struct claude_history *h =
        call->stripped != NULL ? call->stripped : call->history;
    bool compatible = is_compatible(call);
    const struct sbuf *head =
        compatible ? &call->c->compatible_head : &call->c->head;
    size_t len;
    const char *text = claude_history_text(h, &len);
    size_t at = 0;
    bool has_breakpoint = !compatible && claude_history_find_breakpoint(h, &at);

    sbuf_clear(&call->body);
    sbuf_add(&call->body, head->data, head->len);
    claude_codec_begin(&call->body, call->max_tokens);
    if (has_breakpoint) {
        sbuf_add(&call->body, text, at);
        sbuf_add_str(&call->body, claude_codec_breakpoint);
    }
    sbuf_add(&call->body, text + at, len - at);
    sbuf_add_str(&call->body, CLAUDE_TAIL);
    if (!sbuf_ok(&call->body)) {
        return err_set(err, ERR_TOO_LARGE,
                       "the conversation is longer than a request may be; "
                       "begin a new session");
    }
    return 0;
}

bool
claude_plan_is_tolerant(const struct claude_call *call)
{
    const struct claude *c = call->c;

    return c->dialect == CLAUDE_DIALECT_COMPATIBLE ||
           (c->dialect == CLAUDE_DIALECT_AUTO && c->transport->is_foreign &&
            !call->is_vendor);
}

/* Only where nothing has ever been understood in full, and nobody has said
   what the server is. */
static bool
may_fall_back(const struct claude_call *call)
{
    const struct claude *c = call->c;

    return c->dialect == CLAUDE_DIALECT_AUTO && c->transport->is_foreign &&
           !call->is_vendor && !c->sends_compatible && !c->is_proven;
}

bool
claude_plan_change(struct claude_call *call,
                   const struct claude_failure *failure)
{
    struct claude *c = call->c;

    if (!failure->is_invalid || call->plan != CLAUDE_PLAN_AS_IS) {
        return false;
    }
    if (may_fall_back(call)) {
        call->plan = CLAUDE_PLAN_COMPATIBLE;
    } else if (!c->was_stripped && claude_history_has_thinking(call->history)) {
        call->plan = CLAUDE_PLAN_STRIPPED;
        call->stripped = claude_history_strip(call->history);
        c->was_stripped = true;
    } else {
        return false;
    }
    LOG_INFO("refused: %s; another form is tried (%s)", failure->err.msg,
             call->plan == CLAUDE_PLAN_STRIPPED ? "without thinking"
                                                : "compatible");
    call->first = failure->err;
    /* Less than what fitted before. */
    return claude_plan_make_body(call, NULL) == 0;
}

const char *
claude_plan_adopt(struct claude_call *call, const struct claude_reply *reply)
{
    struct claude *c = call->c;
    const char *notice = NULL;

    if (call->plan == CLAUDE_PLAN_STRIPPED) {
        claude_history_replace(call->history, call->stripped);
        call->stripped = NULL;
        notice = "the service did not accept its own earlier thinking; the "
                 "conversation goes on without it";
    } else if (call->plan == CLAUDE_PLAN_COMPATIBLE) {
        c->sends_compatible = true;
        notice = "the server refused the full request of the Claude API; it is "
                 "asked without thinking and caching from now on "
                 "(model.dialect: compatible)";
    }
    c->is_proven = c->is_proven || !c->sends_compatible;
    claude_history_set_paused(call->history, reply->stop == CLAUDE_STOP_PAUSE);
    claude_history_set_cached(call->history);
    return notice;
}

const struct error *
claude_plan_give_up(struct claude_call *call, const struct error *err)
{
    if (call->plan == CLAUDE_PLAN_STRIPPED && err->code != ERR_REMOTE) {
        /* It was not answered, so it may be tried again. */
        call->c->was_stripped = false;
    }
    /* What the other form was refused for is of no use to anybody, but what
       has nothing to do with the form is. */
    return call->plan != CLAUDE_PLAN_AS_IS && err->code == ERR_REMOTE &&
                   err->http_status >= 400 && err->http_status < 500
               ? &call->first
               : err;
}
