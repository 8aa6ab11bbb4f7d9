/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/sse.h"

#include <string.h>

#include "base/error.h"

static const char byte_order_mark[] = "\xEF\xBB\xBF";

void
sse_init(struct sse *sse)
{
    memset(sse, 0, sizeof(*sse));
    sbuf_init(&sse->line, SSE_MAX_EVENT_BYTES);
    sbuf_init(&sse->data, SSE_MAX_EVENT_BYTES);
    sbuf_init(&sse->name, SSE_MAX_EVENT_BYTES);
}

void
sse_fini(struct sse *sse)
{
    sbuf_fini(&sse->line);
    sbuf_fini(&sse->data);
    sbuf_fini(&sse->name);
}

static int
too_large(struct error *err)
{
    return err_set(err, ERR_TOO_LARGE, "an event is longer than %u bytes",
                   SSE_MAX_EVENT_BYTES);
}

static int
dispatch(struct sse *sse, sse_fn fn, void *ctx)
{
    int rc = 0;

    if (sse->has_data) {
        rc = fn(ctx, sse->name.data, sse->data.data, sse->data.len);
    }
    sbuf_clear(&sse->data);
    sbuf_clear(&sse->name);
    sse->has_data = false;
    return rc;
}

static int
set_field(struct sse *sse, const char *line, size_t len, struct error *err)
{
    const char *colon = memchr(line, ':', len);
    size_t name_len = colon != NULL ? (size_t)(colon - line) : len;
    const char *value = line + len;

    if (colon != NULL) {
        value = colon + 1;
        if (value < line + len && *value == ' ') {
            value++;
        }
    }

    size_t value_len = (size_t)(line + len - value);

    if (name_len == 4 && memcmp(line, "data", 4) == 0) {
        /* Both together are bounded, or many short lines would not be. */
        if (sse->data.len + value_len + 1 > SSE_MAX_EVENT_BYTES) {
            return too_large(err);
        }
        if (sse->has_data) {
            sbuf_add_char(&sse->data, '\n');
        }
        sbuf_add(&sse->data, value, value_len);
        sse->has_data = true;
    } else if (name_len == 5 && memcmp(line, "event", 5) == 0) {
        sbuf_clear(&sse->name);
        sbuf_add(&sse->name, value, value_len);
    }
    /* "id" and "retry" are for reconnecting, which is not done; a line that
       begins with a colon is a comment and has an empty name. */
    return 0;
}

static int
take_line(struct sse *sse, const char *line, size_t len, sse_fn fn, void *ctx,
          struct error *err)
{
    if (!sse->begun) {
        sse->begun = true;
        if (len >= 3 && memcmp(line, byte_order_mark, 3) == 0) {
            line += 3;
            len -= 3;
        }
    }
    return len == 0 ? dispatch(sse, fn, ctx) : set_field(sse, line, len, err);
}

/* Keeps a line whose end has not come. */
static int
keep_part(struct sse *sse, const char *bytes, size_t len, struct error *err)
{
    sbuf_add(&sse->line, bytes, len);
    return sbuf_ok(&sse->line) ? 0 : too_large(err);
}

/* The line ends here; what came of it in earlier pieces is in sse->line. */
static int
end_line(struct sse *sse, const char *bytes, size_t len, sse_fn fn, void *ctx,
         struct error *err)
{
    int rc;

    if (sse->line.len == 0) {
        return len <= SSE_MAX_EVENT_BYTES
                   ? take_line(sse, bytes, len, fn, ctx, err)
                   : too_large(err);
    }
    if (keep_part(sse, bytes, len, err) < 0) {
        return -1;
    }
    rc = take_line(sse, sse->line.data, sse->line.len, fn, ctx, err);
    sbuf_clear(&sse->line);
    return rc;
}

int
sse_feed(struct sse *sse, const char *bytes, size_t len, sse_fn fn, void *ctx,
         struct error *err)
{
    const char *p = bytes;
    const char *end = bytes + len;
    const char *lf = NULL; /* the next one from p on; end: none */

    while (p < end) {
        const char *eol;
        int rc;

        if (sse->skip_lf) {
            sse->skip_lf = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        /* Looked for once, or a piece full of CRs would be read for each. */
        if (lf == NULL || lf < p) {
            lf = memchr(p, '\n', (size_t)(end - p));
            lf = lf != NULL ? lf : end;
        }
        eol = memchr(p, '\r', (size_t)(lf - p));
        eol = eol != NULL ? eol : lf;
        if (eol == end) {
            return keep_part(sse, p, (size_t)(end - p), err);
        }
        sse->skip_lf = *eol == '\r';
        rc = end_line(sse, p, (size_t)(eol - p), fn, ctx, err);
        if (rc != 0) {
            return rc;
        }
        p = eol + 1;
    }
    return 0;
}

bool
sse_is_partial(const struct sse *sse)
{
    return sse->line.len > 0 || sse->has_data || sse->name.len > 0;
}
