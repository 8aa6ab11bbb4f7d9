/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/context_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/sandbox.h"

/* Kept of the raw output: enough for the bound after repair. */
#define HEAD_BYTES 8000
#define TAIL_BYTES 3600
#define MAX_ENVELOPE_BYTES (64u << 10)
#define MAX_CELL_BYTES 200

/* More than the rows and columns that a table brings can have: a row in which
   an append was left out would have its values in other columns. */
#define MAX_TABLE_BYTES (8u << 20)

void
context_init(struct context *c)
{
    memset(c, 0, sizeof(*c));
    sbuf_init(&c->head, HEAD_BYTES);
    c->tail = xmalloc(TAIL_BYTES);
    c->at_line_start = true;
}

void
context_fini(struct context *c)
{
    sbuf_fini(&c->head);
    free(c->tail);
    memset(c, 0, sizeof(*c));
}

void
context_add_bytes(struct context *c, const char *data, size_t len)
{
    size_t room = HEAD_BYTES - c->head.len;
    size_t n = len < room ? len : room;

    if (len == 0)
        return;
    c->n_bytes += len;
    c->at_line_start = data[len - 1] == '\n';
    sbuf_add(&c->head, data, n);
    data += n;
    len -= n;
    if (len > TAIL_BYTES) {
        data += len - TAIL_BYTES;
        len = TAIL_BYTES;
    }
    for (size_t i = 0; i < len; i++) {
        c->tail[c->tail_at] = data[i];
        c->tail_at = (c->tail_at + 1) % TAIL_BYTES;
    }
    c->tail_len += len;
    if (c->tail_len > TAIL_BYTES)
        c->tail_len = TAIL_BYTES;
}

static void
add_str(struct context *c, const char *s)
{
    context_add_bytes(c, s, strlen(s));
}

static void
start_line(struct context *c)
{
    if (!c->at_line_start)
        add_str(c, "\n");
}

void
context_add_note(struct context *c, const char *text)
{
    start_line(c);
    add_str(c, "[");
    add_str(c, text);
    add_str(c, "]\n");
}

/* A value on one line; tabs and line ends become spaces. */
static void
add_value(struct sbuf *out, const char *text)
{
    size_t len = strlen(text);
    size_t n = utf8_floor(text, len, MAX_CELL_BYTES);
    size_t at = out->len;

    sbuf_add(out, text, n);
    for (size_t i = at; i < out->len; i++) {
        if (out->data[i] == '\t' || out->data[i] == '\n' ||
            out->data[i] == '\r')
            out->data[i] = ' ';
    }
    if (n < len)
        sbuf_add_str(out, "...");
}

static void
add_row(const struct table *t, size_t row, struct sbuf *out)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct table_cell *cell = table_at(t, row, i);

        if (i > 0)
            sbuf_add_char(out, '\t');
        if (i == t->gap_at && t->n_cols_left_out > 0)
            sbuf_add_str(out, "...\t");
        add_value(out, cell->text != NULL ? cell->text : "<missing>");
    }
    sbuf_add_char(out, '\n');
}

static void
add_names(const struct table *t, struct sbuf *out)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct table_column *col = &t->columns[i];

        if (i > 0)
            sbuf_add_char(out, '\t');
        if (i == t->gap_at && t->n_cols_left_out > 0)
            sbuf_add_str(out, "...\t");
        if (col->name != NULL)
            add_value(out, col->name);
        else
            sbuf_add_str(out, col->is_index ? "(index)" : "(no name)");
    }
    sbuf_add_char(out, '\n');
}

void
context_add_table(const struct table *t, size_t max_rows, struct sbuf *out)
{
    size_t n_rows = t->n_head + t->n_tail;
    size_t n_head = t->n_head;
    size_t n_tail = t->n_tail;

    if (n_rows > max_rows) {
        n_head = max_rows - max_rows / 2;
        if (n_head > t->n_head)
            n_head = t->n_head;
        n_tail = max_rows - n_head < t->n_tail ? max_rows - n_head : t->n_tail;
    }
    sbuf_addf(out,
              "table, %" PRId64 " rows x %" PRId64 " columns, "
              "tab-separated:\n",
              t->n_rows_total, t->n_cols_total);
    add_names(t, out);
    for (size_t i = 0; i < n_head; i++)
        add_row(t, i, out);
    if ((int64_t)(n_head + n_tail) < t->n_rows_total)
        sbuf_add_str(out, "...\n");
    for (size_t i = 0; i < n_tail; i++)
        add_row(t, n_rows - n_tail + i, out);
    if ((int64_t)(n_head + n_tail) < t->n_rows_total || t->n_cols_left_out > 0)
        sbuf_addf(out,
                  "[%zu of %" PRId64 " rows, %" PRId64 " of %" PRId64
                  " columns shown; print what else is needed]\n",
                  n_head + n_tail, t->n_rows_total,
                  t->n_cols_total - t->n_cols_left_out, t->n_cols_total);
}

static void
add_picture(struct context *c, const struct output *o)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_CELL_BYTES * 4);
    sbuf_addf(&sb, "chart shown to the user, %d x %d pixels", o->width_px,
              o->height_px);
    if (!str_blank(o->title)) {
        sbuf_add_str(&sb, ", titled ");
        add_value(&sb, o->title);
    }
    if (!str_blank(o->what)) {
        sbuf_add_str(&sb, ", ");
        add_value(&sb, o->what);
    }
    context_add_note(c, sb.data);
}

void
context_add_output(struct context *c, const struct output *o)
{
    start_line(c);
    if (o->png != NULL) {
        add_picture(c, o);
    } else if (o->table != NULL) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, MAX_TABLE_BYTES);
        context_add_table(o->table, CONTEXT_MAX_ROWS, &sb);
        context_add_bytes(c, sb.data, sb.len);
    } else if (o->text != NULL) {
        context_add_bytes(c, o->text, o->text_len);
        start_line(c);
    }
}

/* How the cell ended, in one line, and what that means for the variables. */
static void
add_status(const struct sandbox_outcome *o, struct sbuf *out)
{
    sbuf_addf(out, "[status: %s, ", event_outcome_name(o->outcome));
    str_add_duration(out, o->duration_ms);
    sbuf_add_str(out, "]\n");
    if (o->reason != NULL)
        sbuf_addf(out, "[%s]\n", o->reason);
    if (o->output_dropped_bytes > 0)
        sbuf_addf(out, "[%" PRId64 " bytes of output were dropped]\n",
                  o->output_dropped_bytes);
}

static void
add_error(const struct sandbox_outcome *o, struct sbuf *out)
{
    if (o->error_name == NULL)
        return;
    if (!str_blank(o->traceback)) {
        size_t len = strlen(o->traceback);
        size_t n = utf8_floor(o->traceback, len, HEAD_BYTES / 2);

        utf8_add_repaired(out, o->traceback, n);
        if (n < len)
            sbuf_addf(out, "...[%zu of %zu bytes shown]", n, len);
        sbuf_add_char(out, '\n');
    } else {
        sbuf_addf(out, "%s: ", o->error_name);
        add_value(out, o->error_value != NULL ? o->error_value : "");
        sbuf_add_char(out, '\n');
    }
    if (o->hint != NULL) {
        sbuf_add_char(out, '[');
        add_value(out, o->hint);
        sbuf_add_str(out, "]\n");
    }
}

/* Adds the beginning of raw output, repaired and without NUL, at most max bytes
   of text. Returns how many raw bytes that were. */
static size_t
add_beginning(struct sbuf *out, const char *data, size_t len, size_t max)
{
    size_t start = out->len;
    size_t at = 0;

    while (at < len) {
        uint32_t cp = 0;
        bool ok = true;
        size_t n = utf8_decode(data + at, len - at, &cp, &ok);
        char text[UTF8_MAX_BYTES];
        size_t n_text = utf8_encode(cp == 0 ? ' ' : cp, text);

        if (out->len - start + n_text > max)
            break;
        sbuf_add(out, text, n_text);
        at += n;
    }
    return at;
}

/* Where the end of raw output begins that has at most max bytes of text: at a
   line if one begins near, and never within a character. */
static size_t
find_end(const char *data, size_t len, size_t max)
{
    size_t at = len > max ? len - max : 0;
    const char *line = NULL;

    for (;;) {
        AUTO_SBUF struct sbuf text = {0};

        /* Not within a character; but garbage may be nothing else. */
        for (int i = 0; i < UTF8_MAX_BYTES - 1 && at > 0 && at < len &&
                        ((unsigned char)data[at] & 0xC0) == 0x80;
             i++)
            at++;
        sbuf_init(&text, (len - at) * UTF8_MAX_BYTES);
        add_beginning(&text, data + at, len - at, SIZE_MAX);
        if (text.len <= max)
            break;
        /* A broken byte takes three as text. */
        at += (text.len - max + 2) / 3;
    }
    if (at > 0 && at < len && data[at - 1] != '\n')
        line = memchr(data + at, '\n', len - at < 200 ? len - at : 200);
    return line != NULL && line + 1 < data + len ? (size_t)(line + 1 - data)
                                                 : at;
}

static void
add_printed(const struct context *c, size_t max, struct sbuf *out)
{
    char kept[HEAD_BYTES + TAIL_BYTES];
    size_t n_kept = c->head.len + c->tail_len;
    size_t start = (c->tail_at + TAIL_BYTES - c->tail_len) % TAIL_BYTES;
    size_t n_first = 0; /* raw bytes shown of the beginning */
    size_t at = 0;      /* where the end that is shown begins */
    size_t n_shown = 0;

    if (c->n_bytes == 0) {
        sbuf_add_str(out, "(no output)\n");
        return;
    }
    memcpy(kept, c->head.data, c->head.len);
    for (size_t i = 0; i < c->tail_len; i++)
        kept[c->head.len + i] = c->tail[(start + i) % TAIL_BYTES];
    if (n_kept == c->n_bytes && find_end(kept, n_kept, max) == 0) {
        add_beginning(out, kept, n_kept, max);
        return;
    }
    if (n_kept == c->n_bytes) {
        n_first = add_beginning(out, kept, n_kept, max - max / 3);
        at = n_first;
    } else {
        /* What was kept begins and ends anywhere, also within a character. */
        n_first = add_beginning(out, kept,
                                c->head.len - utf8_pending(kept, c->head.len),
                                max - max / 3);
        at = c->head.len;
        while (at < n_kept && at < c->head.len + UTF8_MAX_BYTES - 1 &&
               ((unsigned char)kept[at] & 0xC0) == 0x80)
            at++;
    }
    at += find_end(kept + at, n_kept - at, max / 3);
    n_shown = n_first + n_kept - at;
    sbuf_add_str(out, "\n[... the middle is left out ...]\n");
    add_beginning(out, kept + at, n_kept - at, SIZE_MAX);
    if (out->data[out->len - 1] != '\n')
        sbuf_add_char(out, '\n');
    sbuf_addf(out,
              "[%zu of %" PRIu64 " bytes of output shown, beginning and end; "
              "to see more, print less at a time]",
              n_shown, c->n_bytes);
}

void
context_add_result(const struct context *c, const struct sandbox_outcome *o,
                   struct sbuf *out)
{
    AUTO_SBUF struct sbuf error = {0};
    AUTO_SBUF struct sbuf status = {0};
    size_t used = 0;

    sbuf_init(&status, MAX_ENVELOPE_BYTES);
    sbuf_init(&error, MAX_ENVELOPE_BYTES);
    add_status(o, &status);
    add_error(o, &error);
    used = status.len + error.len + 200;
    sbuf_add(out, status.data, status.len);
    add_printed(c, used < CONTEXT_MAX_BYTES ? CONTEXT_MAX_BYTES - used : 1000,
                out);
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        sbuf_add_char(out, '\n');
    sbuf_add(out, error.data, error.len);
}
