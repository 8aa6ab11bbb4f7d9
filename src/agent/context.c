/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/context_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"
#include "model/output.h"
#include "model/table.h"
#include "sandbox/sandbox.h"

#define MAX_VALUE_BYTES 200

/* What a part's label takes at most. */
#define LABEL_BYTES 120

/* More than the rows and columns that a table brings can have: a row in which
   an append was left out would have its values in other columns. */
#define MAX_TABLE_BYTES (8u << 20)

static const char *const part_names[CONTEXT_N_PARTS] = {
    [CONTEXT_STDOUT] = "stdout",
    [CONTEXT_STDERR] = "stderr",
    [CONTEXT_RESULT] = "result",
    [CONTEXT_TABLES] = "tables",
};

void
context_init(struct context *c, size_t max_bytes, size_t max_rows)
{
    memset(c, 0, sizeof(*c));
    c->max_bytes = max_bytes > 0 ? max_bytes : CONTEXT_MAX_BYTES;
    c->max_rows = max_rows > 0 ? max_rows : CONTEXT_MAX_ROWS;
    for (size_t i = 0; i < CONTEXT_N_PARTS; i++)
        excerpt_init(&c->parts[i], c->max_bytes);
    sbuf_init(&c->shown, c->max_bytes);
    sbuf_init(&c->notes, c->max_bytes);
    c->is_open = true;
}

void
context_fini(struct context *c)
{
    if (!c->is_open)
        return;
    for (size_t i = 0; i < CONTEXT_N_PARTS; i++)
        excerpt_fini(&c->parts[i]);
    sbuf_fini(&c->shown);
    sbuf_fini(&c->notes);
    memset(c, 0, sizeof(*c));
}

void
context_add_bytes(struct context *c, enum event_stream stream, const char *data,
                  size_t len)
{
    excerpt_add(
        &c->parts[stream == EVENT_STDERR ? CONTEXT_STDERR : CONTEXT_STDOUT],
        data, len);
}

/* A value on one line; tabs and line ends become spaces. */
static void
add_value(struct sbuf *out, const char *text)
{
    size_t len = strlen(text);
    size_t n = utf8_floor(text, len, MAX_VALUE_BYTES);
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
        /* Without a tail of its own all rows are in the head. */
        n_tail = max_rows - n_head;
        if (t->n_tail > 0 && n_tail > t->n_tail)
            n_tail = t->n_tail;
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

/* ---- what was shown -------------------------------------------------------
 */

void
context_add_note(struct context *c, const char *text)
{
    AUTO_SBUF struct sbuf sb = {0};
    size_t len = strlen(text);

    sbuf_init(&sb, len * 3);
    utf8_add_repaired(&sb, text, len);
    for (size_t i = 0; i < sb.len; i++) {
        if (sb.data[i] == '\n' || sb.data[i] == '\r')
            sb.data[i] = ' ';
    }
    sbuf_add_char(&sb, '\n');
    /* As a whole, or not at all. */
    sbuf_add(&c->notes, sb.data, sb.len);
}

static void
add_picture(struct context *c, const struct output *o)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_VALUE_BYTES * 4);
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
    sbuf_add_char(&sb, '\n');
    sbuf_add(&c->shown, sb.data, sb.len);
}

void
context_add_output(struct context *c, const struct output *o)
{
    if (o->png != NULL) {
        add_picture(c, o);
    } else if (o->table != NULL) {
        AUTO_SBUF struct sbuf sb = {0};

        sbuf_init(&sb, MAX_TABLE_BYTES);
        context_add_table(o->table, c->max_rows, &sb);
        excerpt_start_line(&c->parts[CONTEXT_TABLES]);
        excerpt_add(&c->parts[CONTEXT_TABLES], sb.data, sb.len);
    } else if (o->text != NULL) {
        excerpt_start_line(&c->parts[CONTEXT_RESULT]);
        excerpt_add(&c->parts[CONTEXT_RESULT], o->text, o->text_len);
    }
}

void
context_add_file(struct context *c, const struct event_file *file)
{
    AUTO_SBUF struct sbuf name = {0};
    AUTO_SBUF struct sbuf sb = {0};
    size_t len = strlen(file->name);

    sbuf_init(&name, len * 3);
    utf8_add_repaired(&name, file->name, len);
    sbuf_init(&sb, MAX_VALUE_BYTES * 4);
    sbuf_add_str(&sb, "file ");
    add_value(&sb, name.data);
    sbuf_add_str(&sb, ", ");
    str_add_bytes(&sb, file->size_bytes);
    if (file->refused != NULL)
        sbuf_addf(&sb, ", not given to the user: %s%s%s\n", file->refused,
                  file->advice != NULL ? "; " : "",
                  file->advice != NULL ? file->advice : "");
    else
        sbuf_add_str(&sb, ", given to the user\n");
    sbuf_add(&c->shown, sb.data, sb.len);
}

/* ---- the result -----------------------------------------------------------
 */

/* How the cell ended, in one line, and what that means for the variables. */
static void
add_status(const struct sandbox_outcome *o, struct sbuf *out)
{
    sbuf_addf(out, "[status: %s, ", event_outcome_name(o->outcome));
    str_add_duration(out, o->duration_ms);
    if (o->reason != NULL) {
        sbuf_add_str(out, "; ");
        sbuf_add(out, o->reason, utf8_floor(o->reason, strlen(o->reason), 400));
    }
    if (o->output_dropped_bytes > 0) {
        sbuf_add_str(out, str_blank(o->reason) ? "; " : " ");
        str_add_grouped(out, o->output_dropped_bytes);
        sbuf_add_str(out, " bytes of output were dropped");
    }
    sbuf_add_str(out, "]\n");
}

/* out is empty: a label that turns out wrong is written anew. */
static void
add_error(const struct sandbox_outcome *o, size_t max, struct sbuf *out)
{
    if (o->error_name == NULL)
        return;
    sbuf_add_str(out, "[error]\n");
    if (!str_blank(o->traceback)) {
        struct excerpt e;
        size_t len = strlen(o->traceback);
        size_t at = 0;

        excerpt_init(&e, max);
        excerpt_add(&e, o->traceback, len);
        if (excerpt_len(&e) > max) {
            sbuf_truncate(out, 0);
            sbuf_add_str(out, "[error, beginning and end of ");
            str_add_grouped(out, (int64_t)len);
            sbuf_add_str(out, " bytes]\n");
        }
        at = out->len;
        (void)excerpt_write(&e, max, out);
        excerpt_fini(&e);
        if (out->len > at && out->data[out->len - 1] != '\n')
            sbuf_add_char(out, '\n');
    } else {
        sbuf_addf(out, "%s: ", o->error_name);
        add_value(out, o->error_value != NULL ? o->error_value : "");
        sbuf_add_char(out, '\n');
    }
    if (o->hint != NULL) {
        add_value(out, o->hint);
        sbuf_add_char(out, '\n');
    }
}

/* Lines of ours, as many as fit, and how many do not. */
static void
add_lines(const char *label, const struct sbuf *lines, size_t max,
          struct sbuf *out)
{
    size_t n = 0;
    size_t n_left = 0;

    if (lines->len == 0)
        return;
    sbuf_addf(out, "[%s]\n", label);
    while (n < lines->len) {
        const char *line = lines->data + n;
        size_t len = strcspn(line, "\n") + 1;

        if (n + len > max)
            break;
        n += len;
    }
    sbuf_add(out, lines->data, n);
    for (size_t i = n; i < lines->len; i++)
        n_left += lines->data[i] == '\n';
    if (n_left > 0 || !sbuf_ok(lines))
        sbuf_add_str(out, "... and more\n");
}

/* Shares out the room: a part that needs less than its share gets what it
   needs, and the others share what is left. */
static void
share_room(const size_t *needs, size_t room, size_t *shares)
{
    bool done[CONTEXT_N_PARTS] = {false};
    size_t n_open = 0;
    bool changed = true;

    for (size_t i = 0; i < CONTEXT_N_PARTS; i++) {
        shares[i] = 0;
        done[i] = needs[i] == 0;
        n_open += !done[i];
    }
    while (n_open > 0 && changed) {
        size_t fair = room / n_open;

        changed = false;
        for (size_t i = 0; i < CONTEXT_N_PARTS; i++) {
            if (done[i] || needs[i] > fair)
                continue;
            shares[i] = needs[i];
            room -= needs[i];
            done[i] = true;
            n_open--;
            changed = true;
            break;
        }
    }
    for (size_t i = 0; i < CONTEXT_N_PARTS; i++) {
        if (!done[i])
            shares[i] = room / n_open;
    }
}

static void
add_part(const struct excerpt *e, const char *name, size_t max,
         struct sbuf *out)
{
    AUTO_SBUF struct sbuf text = {0};
    uint64_t n_shown = 0;

    if (e->n_bytes == 0)
        return;
    sbuf_addf(out, "[%s, ", name);
    if (excerpt_is_binary(e)) {
        sbuf_add_str(out, "binary output, ");
        str_add_grouped(out, (int64_t)e->n_bytes);
        sbuf_add_str(out, " bytes, not shown]\n");
        return;
    }
    sbuf_init(&text, max + EXCERPT_MARK_BYTES);
    n_shown = excerpt_write(e, max, &text);
    if (n_shown < e->n_bytes) {
        str_add_grouped(out, (int64_t)n_shown);
        sbuf_add_str(out, " of ");
    }
    str_add_grouped(out, (int64_t)e->n_bytes);
    sbuf_add_str(out, n_shown < e->n_bytes
                          ? " bytes shown, beginning and end; to see more, "
                            "print less at a time]\n"
                      : e->n_bytes == 1 ? " byte]\n"
                                        : " bytes]\n");
    sbuf_add(out, text.data, text.len);
    if (out->data[out->len - 1] != '\n')
        sbuf_add_char(out, '\n');
}

void
context_add_result(const struct context *c, const struct sandbox_outcome *o,
                   struct sbuf *out)
{
    AUTO_SBUF struct sbuf after = {0};
    AUTO_SBUF struct sbuf error = {0};
    size_t needs[CONTEXT_N_PARTS] = {0};
    size_t shares[CONTEXT_N_PARTS] = {0};
    size_t start = out->len;
    size_t used = 0;
    bool is_empty = true;

    sbuf_init(&after, c->max_bytes);
    sbuf_init(&error, c->max_bytes);
    add_status(o, out);
    add_lines("charts and files", &c->shown, c->max_bytes / 8, &after);
    add_error(o, c->max_bytes / 3, &error);
    sbuf_add(&after, error.data, error.len);
    add_lines("note", &c->notes, c->max_bytes / 8, &after);
    used = out->len - start + after.len;
    is_empty = after.len == 0;
    for (size_t i = 0; i < CONTEXT_N_PARTS; i++) {
        if (c->parts[i].n_bytes == 0)
            continue;
        is_empty = false;
        used += LABEL_BYTES + EXCERPT_MARK_BYTES;
        needs[i] =
            excerpt_is_binary(&c->parts[i]) ? 0 : excerpt_len(&c->parts[i]);
    }
    share_room(needs, used < c->max_bytes ? c->max_bytes - used : 0, shares);
    for (size_t i = 0; i < CONTEXT_N_PARTS; i++)
        add_part(&c->parts[i], part_names[i], shares[i], out);
    sbuf_add(out, after.data, after.len);
    if (is_empty)
        sbuf_add_str(out, "(no output)\n");
}
