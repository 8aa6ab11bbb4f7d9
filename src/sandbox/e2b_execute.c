/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_execute_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "sandbox/e2b_lines_internal.h"
#include "sandbox/quiet_cell_internal.h"

/* Code of SANDBOX_MAX_CODE_BYTES as text of a request within a text. */
#define MAX_REQUEST ((size_t)32 << 20)

enum {
    /* The body should end with its last line. */
    BEHIND_END_MS = 2000,
    /* Without a byte, from a service that sends keepalives. Each is 5 s behind
       the one before. */
    DEAD_MS = 60000
};

struct e2b_execute {
    struct e2b_site *site; /* borrowed */
    struct e2b_execute_handlers on;
    void *ctx;
    const char *doing;

    struct e2b_data *data;
    struct e2b_lines lines;
    struct e2b_cell_result result;
    struct loop_timer *behind_end;
    struct loop_timer *dead;
    struct loop_task *task;
    bool has_keepalives;
    bool in_lines;
    bool dropped; /* in a callback of its own: freed behind it */
    bool told_flood;
    struct error err; /* of a body that cannot be read */
    bool not_sent;
};

static void
free_execute(struct e2b_execute *x)
{
    loop_timer_remove(x->behind_end);
    loop_timer_remove(x->dead);
    loop_task_remove(x->task);
    e2b_lines_fini(&x->lines);
    e2b_result_fini(&x->result);
    free(x);
}

struct e2b_execute_handlers
e2b_execute_quiet(void)
{
    return (struct e2b_execute_handlers){.on = quiet_cell,
                                         .on_flood = quiet_cell.on_begin};
}

void
e2b_execute_drop(struct e2b_execute *x)
{
    if (x == NULL)
        return;
    e2b_data_drop(x->data);
    x->data = NULL;
    if (x->in_lines) {
        x->dropped = true;
        x->on = e2b_execute_quiet();
    } else {
        free_execute(x);
    }
}

/* --- the end --- */

static void
end(struct e2b_execute *x, enum e2b_trouble trouble, int http_status,
    const struct error *err)
{
    struct sandbox_outcome outcome = {0};
    struct error cut = {0};
    struct e2b_execute_end e = {.trouble = trouble,
                                .http_status = http_status,
                                .not_sent = x->not_sent,
                                .err = err,
                                .result = &x->result};

    /* A body that ends well says nothing of the cell without its last line. */
    if (trouble == E2B_TROUBLE_NONE &&
        e2b_result_outcome(&x->result, &outcome, &cut) < 0) {
        e.trouble = E2B_TROUBLE_CUT;
        e.err = &cut;
    }
    x->on.on_end(x->ctx, &e);
    free_execute(x);
}

static void
report_cut(void *ctx)
{
    struct e2b_execute *x = ctx;

    x->task = NULL;
    end(x, E2B_TROUBLE_CUT, 200, &x->err);
}

static void
cut_off(struct e2b_execute *x)
{
    e2b_data_drop(x->data);
    x->data = NULL;
    x->task = loop_defer(x->site->loop, report_cut, x);
}

static void
on_dead(void *ctx)
{
    struct e2b_execute *x = ctx;

    x->dead = NULL;
    error_fill(&x->err, ERR_NET,
               "%s: sandbox %s: nothing has come for %d s, not even a sign of "
               "life",
               x->doing, x->site->id, DEAD_MS / 1000);
    cut_off(x);
}

/* The last line has come. */
static void
on_behind_end(void *ctx)
{
    struct e2b_execute *x = ctx;

    x->behind_end = NULL;
    e2b_data_drop(x->data);
    x->data = NULL;
    end(x, E2B_TROUBLE_NONE, 200, NULL);
}

/* --- lines --- */

static int
take_line(void *ctx, const struct e2b_line *line)
{
    struct e2b_execute *x = ctx;
    const char *type = json_string(line->event, "type");

    if (type != NULL && strcmp(type, "keepalive") == 0)
        x->has_keepalives = true;
    e2b_result_take(&x->result, line);
    if (x->result.flooded && !x->told_flood) {
        x->told_flood = true;
        x->on.on_flood(x->ctx);
    }
    return x->dropped;
}

static void
set_timers(struct e2b_execute *x)
{
    bool ended = e2b_result_end(&x->result) != E2B_END_OPEN;

    loop_timer_remove(x->dead);
    x->dead = NULL;
    if (ended && x->behind_end == NULL)
        x->behind_end =
            loop_add_timer(x->site->loop, BEHIND_END_MS, on_behind_end, x);
    if (x->has_keepalives && !ended)
        x->dead = loop_add_timer(x->site->loop, DEAD_MS, on_dead, x);
}

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct e2b_execute *x = ctx;
    int rc;

    if (x->data == NULL)
        return;
    x->in_lines = true;
    rc = e2b_lines_feed(&x->lines, data, len, take_line, x, &x->err);
    x->in_lines = false;
    if (x->dropped) {
        free_execute(x);
        return;
    }
    if (rc < 0) {
        err_wrap(&x->err, "%s: sandbox %s", x->doing, x->site->id);
        cut_off(x);
        return;
    }
    set_timers(x);
}

static void
on_data_done(void *ctx, const struct e2b_data_result *result)
{
    struct e2b_execute *x = ctx;

    x->data = NULL;
    x->not_sent = result->not_sent;
    if (result->trouble == E2B_TROUBLE_NONE ||
        result->trouble == E2B_TROUBLE_CUT) {
        x->in_lines = true;
        (void)!e2b_lines_finish(&x->lines, take_line, x);
        x->in_lines = false;
        if (x->dropped) {
            free_execute(x);
            return;
        }
    }
    /* With its last line the answer is whole, whatever ended the body. */
    if (e2b_result_end(&x->result) != E2B_END_OPEN)
        end(x, E2B_TROUBLE_NONE, result->http_status, NULL);
    else
        end(x, result->trouble, result->http_status, result->err);
}

/* --- sending --- */

static void
add_body(struct sbuf *sb, const struct e2b_execute_spec *spec)
{
    sbuf_add_char(sb, '{');
    json_add_key(sb, "code");
    json_add_string(sb, spec->code, spec->code_len);
    if (spec->context != NULL)
        json_add_member_str(sb, "context_id", spec->context);
    else
        json_add_member_str(sb, "language", spec->language);
    sbuf_add_char(sb, '}');
}

struct e2b_execute *
e2b_execute_start(struct e2b_site *site, const struct e2b_execute_spec *spec,
                  const struct e2b_execute_handlers *on, void *ctx,
                  struct error *err)
{
    static const struct e2b_data_handlers handlers = {.on_body = on_body,
                                                      .on_done = on_data_done};
    struct e2b_data_request request = {
        .service = E2B_INTERPRETER,
        .method = "POST",
        .path = "/execute",
        .content_type = "application/json",
        .limit_ms = spec->limit_ms,
        .doing = spec->doing,
    };
    struct e2b_execute *x = NULL;
    AUTO_SBUF struct sbuf body = {0};

    sbuf_init(&body, MAX_REQUEST);
    add_body(&body, spec);
    if (!sbuf_ok(&body)) {
        error_fill(err, ERR_TOO_LARGE, "%s: code of %zu bytes", spec->doing,
                   spec->code_len);
        return NULL;
    }
    request.body = body.data;
    request.body_len = body.len;
    x = xcalloc(1, sizeof(*x));
    x->site = site;
    x->on = *on;
    x->ctx = ctx;
    x->doing = spec->doing;
    e2b_lines_init(&x->lines, 0);
    e2b_result_init(&x->result, spec->output_bytes, &x->on.on, ctx);
    x->result.on_event = on->on_event;
    x->data = e2b_data_start(site, &request, &handlers, x, err);
    if (x->data == NULL) {
        free_execute(x);
        return NULL;
    }
    return x;
}
