/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_lines_internal.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* The room of a larger line is given back. */
#define LARGE_BYTES ((size_t)1 << 20)

void
e2b_lines_init(struct e2b_lines *l, size_t max_bytes)
{
    memset(l, 0, sizeof(*l));
    l->max_bytes = max_bytes > 0 ? max_bytes : E2B_LINES_MAX_BYTES;
    sbuf_init(&l->line, l->max_bytes);
}

void
e2b_lines_fini(struct e2b_lines *l)
{
    sbuf_fini(&l->line);
}

static void
forget_line(struct e2b_lines *l)
{
    struct sbuf line = l->line;
    size_t max_bytes = l->max_bytes;

    if (line.cap > LARGE_BYTES) {
        sbuf_fini(&line);
        sbuf_init(&line, max_bytes);
    }
    sbuf_clear(&line);
    memset(l, 0, sizeof(*l));
    l->line = line;
    l->max_bytes = max_bytes;
}

/* A bracket opens; at is where it will stand in the line. */
static void
open_value(struct e2b_lines *l, size_t at)
{
    if (l->depth == 1) {
        l->value_at = at;
        l->n_before = l->n_values;
    }
    if (l->depth > 0)
        l->n_values += 2;
    l->depth++;
}

/* Follows the structure by one byte. True when it ends a value of which the
   rest was skipped, and itself belongs to what is skipped. */
static bool
follow(struct e2b_lines *l, char c, size_t at)
{
    if (l->escaped) {
        l->escaped = false;
    } else if (l->in_string) {
        l->escaped = c == '\\';
        l->in_string = c != '"';
    } else if (c == '"') {
        l->in_string = true;
    } else if (c == '{' || c == '[') {
        open_value(l, at);
    } else if ((c == '}' || c == ']') && l->depth > 0) {
        l->depth--;
        return l->depth == 1 && l->skipping;
    } else if ((c == ',' || c == ':') && l->depth > 1) {
        l->n_values++;
    }
    return false;
}

/* Whether the nested value, of which the line has end bytes in all, is more
   than is kept of one. */
static bool
is_too_much(const struct e2b_lines *l, size_t end)
{
    return l->depth > 1 && (end - l->value_at > E2B_LINES_MAX_NESTED_BYTES ||
                            l->n_values > E2B_LINES_MAX_NESTED_VALUES ||
                            l->depth > E2B_LINES_MAX_DEPTH);
}

/* The nested value becomes null; bytes of it that are not in the line yet are
   the caller's to leave out. */
static void
drop_value(struct e2b_lines *l)
{
    sbuf_truncate(&l->line, l->value_at);
    l->skipping = true;
    l->is_shortened = true;
}

/* Adds bytes of one line. The order of the checks is that of the bytes, so that
   pieces make no difference. */
static void
add_bytes(struct e2b_lines *l, const char *bytes, size_t len)
{
    size_t from = 0; /* bytes before it are in the line, or left out */

    for (size_t i = 0; i < len && !l->too_long; i++) {
        size_t at = l->line.len + (i - from);

        if (l->skipping) {
            from = i + 1;
            if (follow(l, bytes[i], at)) {
                l->skipping = false;
                l->n_values = l->n_before;
                sbuf_add_str(&l->line, "null");
                l->too_long = !sbuf_ok(&l->line);
            }
            continue;
        }
        (void)follow(l, bytes[i], at);
        if (at >= l->max_bytes) {
            l->too_long = true;
        } else if (is_too_much(l, at + 1)) {
            if (l->value_at > l->line.len)
                sbuf_add(&l->line, bytes + from, l->value_at - l->line.len);
            from = i + 1;
            drop_value(l);
        }
    }
    if (!l->too_long && !l->skipping)
        sbuf_add(&l->line, bytes + from, len - from);
}

/* The event of the line; NULL: there is none in it. */
static struct cJSON *
parse_line(const struct e2b_lines *l, struct error *err)
{
    struct cJSON *event =
        json_parse(l->line.data, l->line.len, (int)E2B_LINES_MAX_DEPTH, err);

    if (event == NULL || json_is_object(event))
        return event;
    json_free(event);
    error_fill(err, ERR_PROTOCOL, "it is no object");
    return NULL;
}

static bool
is_empty(const struct e2b_lines *l)
{
    return !l->too_long && strspn(l->line.data, " \t\r") == l->line.len;
}

/* Hands the line over; event is NULL for one that was too long. */
static int
deliver(struct e2b_lines *l, const struct cJSON *event, e2b_lines_fn fn,
        void *ctx)
{
    struct e2b_line line = {
        .event = event,
        .len = l->too_long ? l->max_bytes : l->line.len,
        .is_shortened = l->is_shortened,
    };

    forget_line(l);
    return fn(ctx, &line);
}

static int
end_line(struct e2b_lines *l, e2b_lines_fn fn, void *ctx, struct error *err)
{
    AUTO_JSON struct cJSON *event = NULL;

    if (l->too_long)
        return deliver(l, NULL, fn, ctx);
    if (is_empty(l)) {
        forget_line(l);
        return 0;
    }
    event = parse_line(l, err);
    if (event == NULL)
        return err_wrap(err, "a line of the interpreter's answer");
    return deliver(l, event, fn, ctx);
}

int
e2b_lines_feed(struct e2b_lines *l, const char *bytes, size_t len,
               e2b_lines_fn fn, void *ctx, struct error *err)
{
    size_t at = 0;

    while (at < len) {
        const char *feed = memchr(bytes + at, '\n', len - at);
        size_t n = (feed != NULL ? (size_t)(feed - bytes) : len) - at;
        int rc;

        add_bytes(l, bytes + at, n);
        if (feed == NULL)
            return 0;
        at += n + 1;
        rc = end_line(l, fn, ctx, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int
e2b_lines_finish(struct e2b_lines *l, e2b_lines_fn fn, void *ctx)
{
    AUTO_JSON struct cJSON *event = NULL;

    if (!l->too_long && !l->skipping && !is_empty(l))
        event = parse_line(l, NULL);
    if (event != NULL)
        return deliver(l, event, fn, ctx);
    forget_line(l);
    return 0;
}
