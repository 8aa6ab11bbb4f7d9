/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/sandbox_lines.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "model/output.h"
#include "model/table.h"

#define MAX_LINE (64u << 20)

void
sandbox_lines_begin(struct sbuf *sb, int64_t start_us, const char *event)
{
    sbuf_init(sb, MAX_LINE);
    sbuf_add_char(sb, '{');
    json_add_member_str(sb, "event", event);
    json_add_key(sb, "t");
    sbuf_addf(sb, "%.3f", (double)(clock_now_us() - start_us) / 1000);
}

void
sandbox_lines_finish(struct sbuf *sb)
{
    sbuf_add_str(sb, "}\n");
    fwrite(sb->data, 1, sb->len, stdout);
    fflush(stdout);
    sbuf_fini(sb);
}

const char *
sandbox_lines_end_name(enum sandbox_end end)
{
    switch (end) {
    case SANDBOX_DONE:
        return "done";
    case SANDBOX_ERROR:
        return "error";
    case SANDBOX_LOST:
        return "lost";
    case SANDBOX_RESTARTED:
        return "restarted";
    }
    return "";
}

void
sandbox_lines_add_err(struct sbuf *sb, const struct error *err)
{
    if (err == NULL)
        return;
    json_add_member_str(sb, "code", error_code_name(err->code));
    json_add_member_str(sb, "message", err->msg);
}

void
sandbox_lines_add_outcome(struct sbuf *sb,
                          const struct sandbox_outcome *outcome)
{
    if (outcome == NULL)
        return;
    json_add_member_str(sb, "outcome", event_outcome_name(outcome->outcome));
    json_add_member_int(sb, "ms", outcome->duration_ms);
    json_add_member_int(sb, "exit", outcome->exit_status);
    json_add_member_int(sb, "signal", outcome->signal);
    json_add_member_bool(sb, "late", outcome->still_stopping);
    json_add_member_str(sb, "error", outcome->error_name);
    json_add_member_str(sb, "value", outcome->error_value);
    json_add_member_str(sb, "traceback", outcome->traceback);
    json_add_member_str(sb, "hint", outcome->hint);
    json_add_member_str(sb, "reason", outcome->reason);
    json_add_member_bool(sb, "lost", outcome->variables_lost);
    json_add_member_bool(sb, "files_lost", outcome->files_lost);
    json_add_member_int(sb, "dropped", outcome->output_dropped_bytes);
}

static void
add_table(struct sbuf *sb, const struct table *t)
{
    json_add_key(sb, "table");
    sbuf_add_char(sb, '{');
    json_add_member_int(sb, "rows", t->n_rows_total);
    json_add_member_int(sb, "cols", t->n_cols_total);
    json_add_member_int(sb, "head", (int64_t)t->n_head);
    json_add_member_int(sb, "tail", (int64_t)t->n_tail);
    json_add_member_int(sb, "n_index", (int64_t)t->n_index);
    json_add_key(sb, "columns");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < t->n_columns; i++) {
        if (i > 0)
            sbuf_add_char(sb, ',');
        json_add_str(sb, t->columns[i].name);
    }
    sbuf_add_char(sb, ']');
    json_add_key(sb, "cells");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < (t->n_head + t->n_tail) * t->n_columns; i++) {
        if (i > 0)
            sbuf_add_char(sb, ',');
        json_add_str(sb, t->cells[i].text);
    }
    sbuf_add_str(sb, "]}");
}

void
sandbox_lines_add_output(struct sbuf *sb, const struct output *out)
{
    json_add_member_bool(sb, "result", out->is_result);
    json_add_member_int(sb, "index", out->index);
    json_add_member_str(sb, "text", out->text);
    if (out->table != NULL)
        add_table(sb, out->table);
    json_add_member_int(sb, "png", (int64_t)out->png_len);
    json_add_member_int(sb, "width", out->width_px);
    json_add_member_int(sb, "height", out->height_px);
    json_add_member_str(sb, "title", out->title);
    json_add_member_str(sb, "what", out->what);
}

void
sandbox_lines_add_list(struct sbuf *sb, const struct sandbox_list *list)
{
    if (list == NULL)
        return;
    json_add_member_int(sb, "left_out", (int64_t)list->n_left_out);
    json_add_key(sb, "files");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < list->n_files; i++) {
        sbuf_add_str(sb, i > 0 ? ",{" : "{");
        json_add_member_str(sb, "name", list->files[i].name);
        json_add_member_int(sb, "size", (int64_t)list->files[i].size_bytes);
        json_add_member_str(sb, "refused", list->files[i].refused);
        sbuf_add_char(sb, '}');
    }
    sbuf_add_char(sb, ']');
}

void
sandbox_lines_add_vars(struct sbuf *sb, const struct sandbox_vars *vars)
{
    if (vars == NULL)
        return;
    json_add_member_int(sb, "left_out", (int64_t)vars->n_left_out);
    json_add_key(sb, "vars");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < vars->n_vars; i++) {
        sbuf_add_str(sb, i > 0 ? ",{" : "{");
        json_add_member_str(sb, "name", vars->vars[i].name);
        json_add_member_str(sb, "type", vars->vars[i].type);
        json_add_member_str(sb, "size", vars->vars[i].size);
        sbuf_add_char(sb, '}');
    }
    sbuf_add_char(sb, ']');
}

void
sandbox_lines_add_saved(struct sbuf *sb, const struct sandbox_saved *saved)
{
    if (saved == NULL)
        return;
    json_add_member_int(sb, "bytes", (int64_t)saved->n_bytes);
    json_add_key(sb, "names");
    sbuf_add_char(sb, '[');
    for (size_t i = 0; i < saved->n_names; i++) {
        if (i > 0)
            sbuf_add_char(sb, ',');
        json_add_str(sb, saved->names[i]);
    }
    sbuf_add_char(sb, ']');
    json_add_key(sb, "left_out");
    sbuf_add_char(sb, '{');
    for (size_t i = 0; i < saved->n_left_out; i++)
        json_add_member_str(sb, saved->left_out[i].name,
                            saved->left_out[i].why);
    sbuf_add_char(sb, '}');
}

void
sandbox_lines_add_info(struct sbuf *sb, const struct sandbox_info *info)
{
    json_add_member_str(sb, "backend", info->backend);
    json_add_member_str(sb, "level", info->level);
    json_add_member_str(sb, "python", info->python);
    json_add_member_str(sb, "bound_by", info->bound_by);
    json_add_member_int(sb, "uptime_ms", info->uptime_ms);
    json_add_member_int(sb, "memory", (int64_t)info->memory_bytes);
    json_add_member_int(sb, "memory_limit", (int64_t)info->memory_limit_bytes);
    json_add_member_int(sb, "processes", info->n_processes);
    json_add_member_int(sb, "max_processes", info->max_processes);
    json_add_member_int(sb, "workspace", (int64_t)info->workspace_bytes);
    json_add_member_int(sb, "workspace_limit",
                        (int64_t)info->workspace_limit_bytes);
    json_add_member_int(sb, "cell_ms", info->cell_ms);
    json_add_member_int(sb, "output", (int64_t)info->output_bytes);
    json_add_member_int(sb, "idle_suspend_ms", info->idle_suspend_ms);
    json_add_member_int(sb, "idle_close_ms", info->idle_close_ms);
    json_add_member_bool(sb, "suspended", info->is_suspended);
    json_add_member_bool(sb, "has_run", info->has_run);
    json_add_member_int(sb, "cells", info->n_cells);
    json_add_member_str(sb, "host", info->host);
    json_add_member_str(sb, "id", info->id);
    json_add_member_str(sb, "template", info->template_name);
    json_add_member_str(sb, "cells_by", info->cells_by);
    json_add_member_str(sb, "egress", info->egress);
    json_add_member_int(sb, "made_ms", info->made_ms);
    json_add_member_int(sb, "end_ms", info->end_ms);
    json_add_member_bool(sb, "pauses_at_end", info->pauses_at_end);
    json_add_member_int(sb, "cpu_count", info->cpu_count);
    json_add_member_int(sb, "memory_mib", info->memory_mib);
    json_add_member_int(sb, "billed_ms", info->billed_ms);
}
