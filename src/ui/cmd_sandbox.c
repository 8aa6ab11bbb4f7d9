/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/table.h"
#include "render/table_layout.h"
#include "sandbox/sandbox.h"
#include "store/snapshots.h"
#include "term/sanitize.h"
#include "ui/app_internal.h"
#include "ui/cmd_sandbox_internal.h"
#include "ui/cmd_switch_internal.h"
#include "ui/commands_internal.h"
#include "ui/view.h"
#include "ui/words.h"

#define MAX_LIST_BYTES (1u << 20)
#define MAX_VALUE_BYTES 1024u

/* Where the second column of :sandbox begins. */
#define VALUE_COLUMN 12u

/* ---- :vars ----------------------------------------------------------------
 */

enum column { COLUMN_NAME, COLUMN_TYPE, COLUMN_SIZE, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = {"name", "type", "size"};

static struct table *
make_table(const struct sandbox_vars *vars)
{
    struct table *t = table_new(N_COLUMNS, vars->n_vars, 0);

    t->n_rows_total = (int64_t)vars->n_vars;
    t->n_cols_total = N_COLUMNS;
    t->gap_at = N_COLUMNS;
    for (size_t i = 0; i < N_COLUMNS; i++) {
        t->columns[i].name = xstrdup(column_names[i]);
        t->columns[i].kind = TABLE_TEXT;
    }
    for (size_t i = 0; i < vars->n_vars; i++) {
        table_at(t, i, COLUMN_NAME)->text = xstrdup(vars->vars[i].name);
        table_at(t, i, COLUMN_TYPE)->text = xstrdup(vars->vars[i].type);
        table_at(t, i, COLUMN_SIZE)->text = xstrdup(vars->vars[i].size);
    }
    return t;
}

static void
show_vars(struct app *app, const struct sandbox_vars *vars)
{
    struct view *v = app->config.view;
    struct table_options options = view_table_options(v);
    struct table *t = NULL;
    AUTO_SBUF struct sbuf sb = {0};

    if (vars->n_vars == 0) {
        view_note(v, "there are no variables yet");
        return;
    }
    options.all_rows = true;
    t = make_table(vars);
    sbuf_init(&sb, MAX_LIST_BYTES);
    table_render(t, &options, &sb);
    table_free(t);
    view_table(v, sb.data, sb.len);
    if (vars->n_left_out == 0)
        return;
    sbuf_clear(&sb);
    str_add_grouped(&sb, (int64_t)vars->n_left_out);
    view_note(v, "%s more %s not shown", sb.data,
              vars->n_left_out == 1 ? "is" : "are");
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct app *app = ctx;

    app->op = NULL;
    view_status(app->config.view, NULL);
    if (err == NULL)
        show_vars(app, vars);
    command_done(app, err);
}

static enum command_result
run_vars(struct app *app, char *const *words, size_t n_words, struct error *err)
{
    (void)words;
    (void)n_words;
    if (sandbox_state(app->config.sandbox) == SANDBOX_NEW) {
        view_note(app->config.view,
                  "there are no variables: no interpreter runs; the next "
                  "question or :load starts one");
        return CMD_OK;
    }
    if (app_check_sandbox(app, err) < 0)
        return CMD_ERROR;
    app_op_status(app, "listing variables");
    app->op = sandbox_list_vars(app->config.sandbox, on_vars, app);
    return CMD_WAIT;
}

/* ---- :restart -------------------------------------------------------------
 */

/* lost: there was something to lose. */
static void
tell_restarted(struct app *app, bool lost)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_LIST_BYTES);
    app_add_loaded(app, &sb);
    view_note(app->config.view, "the interpreter is new%s%s",
              lost ? "; variables are gone" : "", sb.data);
}

static void
end_restart(struct app *app, bool lost, enum sandbox_end end,
            const struct error *err)
{
    app->op = NULL;
    view_status(app->config.view, NULL);
    if (err == NULL)
        tell_restarted(app, lost);
    else if (end == SANDBOX_RESTARTED)
        view_note(app->config.view, "the interpreter is new%s",
                  lost ? "; variables are gone" : "");
    command_done(app, err);
}

static void
on_restart(void *ctx, enum sandbox_end end, const struct error *err)
{
    end_restart(ctx, true, end, err);
}

/* Nothing had run in it. */
static void
on_restart_of_unused(void *ctx, enum sandbox_end end, const struct error *err)
{
    end_restart(ctx, false, end, err);
}

static enum command_result
run_restart(struct app *app, char *const *words, size_t n_words,
            struct error *err)
{
    struct sandbox_info info = {0};

    (void)words;
    (void)n_words;
    (void)err;
    sandbox_info(app->config.sandbox, &info);
    app_op_status(app, "restarting");
    app->op =
        sandbox_restart(app->config.sandbox,
                        info.has_run ? on_restart : on_restart_of_unused, app);
    return CMD_WAIT;
}

/* ---- :sandbox -------------------------------------------------------------
 */

/* Adds a line of two columns; text may quote what came from outside. */
static void
add_line(struct sbuf *sb, size_t columns, const char *label, const char *text)
{
    AUTO_SBUF struct sbuf clean = {0};

    sbuf_init(&clean, MAX_VALUE_BYTES * 8);
    sanitize_text(SANITIZE_ERROR, text, strlen(text), &clean);
    sbuf_add_str(sb, label);
    sbuf_add_repeat(sb, ' ', VALUE_COLUMN - strlen(label));
    words_add(sb, clean.data, VALUE_COLUMN, VALUE_COLUMN, columns - 1);
}

void
cmd_sandbox_add_line(struct sbuf *sb, size_t columns, const char *label,
                     const char *text)
{
    add_line(sb, columns, label, text);
}

/* "5 min", "90 s", "2 h": what was set, exactly. */
static void
add_setting(struct sbuf *sb, int64_t ms)
{
    int64_t seconds = ms / 1000;

    if (seconds > 0 && seconds % 3600 == 0)
        sbuf_addf(sb, "%" PRId64 " h", seconds / 3600);
    else if (seconds > 0 && seconds % 60 == 0)
        sbuf_addf(sb, "%" PRId64 " min", seconds / 60);
    else
        sbuf_addf(sb, "%" PRId64 " s", seconds);
}

static char *
describe_state(const struct app *app, const struct sandbox_info *info)
{
    struct sandbox *sb = app->config.sandbox;

    switch (sandbox_state(sb)) {
    case SANDBOX_NEW:
        /* One that the service still names has not ended as far as is known. */
        if (info->id != NULL)
            return xstrdup("not reached; the next question or :load looks for "
                           "it");
        return xasprintf("%s; the next question or :load starts it",
                         sandbox_lost_cell(sb) > 0 ? "ended" : "not started");
    case SANDBOX_OPENING:
        return xstrdup("starting");
    case SANDBOX_IDLE:
        return xstrdup("ready");
    case SANDBOX_BUSY:
        return xstrdup("busy with what was stopped, or with loading again");
    case SANDBOX_SUSPENDED:
        if (sandbox_caps(sb)->is_remote)
            return xstrdup("paused, as it was idle: variables are kept, the "
                           "next cell goes on");
        return xstrdup("suspended, as it was idle: nothing runs, variables are "
                       "kept, the next cell goes on");
    case SANDBOX_FAILED:
        break;
    }
    return xasprintf("no cell can run: %s", sandbox_why(sb)->msg);
}

static void
add_interpreter(struct sbuf *sb, size_t columns,
                const struct sandbox_info *info)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    if (info->level != NULL)
        add_line(sb, columns, "isolation",
                 str_eq(info->level, "reduced")
                     ? "reduced: see sandpiper-sandbox(7)"
                     : info->level);
    if (info->python != NULL)
        add_line(sb, columns, "python", info->python);
    if (info->uptime_ms <= 0)
        return;
    str_add_duration(&text, info->uptime_ms);
    sbuf_addf(&text, ", %d cell%s", info->n_cells,
              info->n_cells == 1 ? "" : "s");
    add_line(sb, columns, "running for", text.data);
}

/* "used of limit", or the limit alone where nothing runs. */
static void
add_used(struct sbuf *sb, size_t columns, const char *label, bool runs,
         uint64_t used, uint64_t limit, const char *more)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    if (runs)
        str_add_mib(&text, used);
    sbuf_add_str(&text, runs ? " of " : "at most ");
    str_add_mib(&text, limit);
    sbuf_add_str(&text, more);
    add_line(sb, columns, label, text.data);
}

/* How memory is bounded, for the line that says how much there is. */
static const char *
bound_by(const struct sandbox_info *info)
{
    if (info->bound_by == NULL)
        return "";
    return str_eq(info->bound_by, "cgroup")
               ? ", bounded by a cgroup"
               : ", bounded by a look every 200 ms";
}

static void
add_limits(struct sbuf *sb, size_t columns, const struct sandbox_info *info)
{
    AUTO_SBUF struct sbuf text = {0};
    bool runs = info->uptime_ms > 0;

    if (info->memory_limit_bytes > 0)
        add_used(sb, columns, "memory", runs, info->memory_bytes,
                 info->memory_limit_bytes, bound_by(info));
    sbuf_init(&text, MAX_VALUE_BYTES);
    if (runs)
        sbuf_addf(&text, "%d of %d", info->n_processes, info->max_processes);
    else
        sbuf_addf(&text, "at most %d", info->max_processes);
    if (info->max_processes > 0)
        add_line(sb, columns, "processes", text.data);
    if (info->workspace_limit_bytes > 0)
        add_used(sb, columns, "workspace", runs, info->workspace_bytes,
                 info->workspace_limit_bytes, "");
    sbuf_clear(&text);
    add_setting(&text, info->cell_ms);
    sbuf_addf(&text, " and %" PRIu64 " KiB of output",
              info->output_bytes >> 10);
    add_line(sb, columns, "a cell", text.data);
}

static void
add_idle(const struct app *app, struct sbuf *sb, size_t columns,
         const struct sandbox_info *info)
{
    const char *done =
        sandbox_caps(app->config.sandbox)->is_remote ? "paused" : "suspended";
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, MAX_VALUE_BYTES);
    /* What is closed sooner is never suspended. */
    if (info->idle_close_ms > 0 &&
        (info->idle_suspend_ms <= 0 ||
         info->idle_close_ms <= info->idle_suspend_ms)) {
        sbuf_add_str(&text, "closed after ");
        add_setting(&text, info->idle_close_ms);
        add_line(sb, columns, "when idle", text.data);
        return;
    }
    if (info->idle_suspend_ms > 0) {
        sbuf_addf(&text, "%s after ", done);
        add_setting(&text, info->idle_suspend_ms);
    } else {
        sbuf_addf(&text, "never %s", done);
    }
    if (info->idle_close_ms > 0) {
        sbuf_add_str(&text, ", closed after ");
        add_setting(&text, info->idle_close_ms);
    } else {
        sbuf_add_str(&text, ", never closed");
    }
    add_line(sb, columns, "when idle", text.data);
}

static void
add_snapshots(struct sbuf *sb, size_t columns)
{
    struct snapshots_list list;
    AUTO_FREE char *dir = snapshots_dir();
    AUTO_SBUF struct sbuf text = {0};
    uint64_t total = 0;

    snapshots_list(&list);
    sbuf_init(&text, MAX_VALUE_BYTES);
    for (size_t i = 0; i < list.n_items; i++)
        total += list.items[i].size_bytes;
    if (list.n_items > 0) {
        sbuf_addf(&text, "%zu, ", list.n_items);
        str_add_bytes(&text, total);
        sbuf_addf(&text, ", the newest %s, in %s", list.items[0].name, dir);
        add_line(sb, columns, "snapshots", text.data);
    }
    snapshots_list_fini(&list);
}

static void
show_sandbox(struct app *app)
{
    size_t columns = (size_t)view_table_options(app->config.view).width;
    struct sandbox_info info = {0};
    AUTO_FREE char *state = NULL;
    AUTO_SBUF struct sbuf sb = {0};

    sandbox_info(app->config.sandbox, &info);
    state = describe_state(app, &info);
    sbuf_init(&sb, MAX_LIST_BYTES);
    cmd_sandbox_add_service(app, &sb, columns, &info);
    add_line(&sb, columns, "state", state);
    add_interpreter(&sb, columns, &info);
    cmd_sandbox_add_life(app, &sb, columns, &info);
    add_limits(&sb, columns, &info);
    add_idle(app, &sb, columns, &info);
    add_line(&sb, columns, "variables",
             "last as long as the program; :snapshot keeps them");
    add_snapshots(&sb, columns);
    view_print(app->config.view, sb.data);
}

static enum command_result
run_sandbox(struct app *app, char *const *words, size_t n_words,
            struct error *err)
{
    if (n_words == 0) {
        show_sandbox(app);
        return CMD_OK;
    }
    if (str_eq(words[0], "kill"))
        return command_sandbox_kill(app, words + 1, n_words - 1, err);
    if (n_words > 1) {
        error_fill(err, ERR_USAGE,
                   "usage: :sandbox [NAME | list | kill [ID...]]");
        return CMD_ERROR;
    }
    if (str_eq(words[0], "list")) {
        cmd_sandbox_list(app);
        return CMD_OK;
    }
    return cmd_switch_to(app, words[0], err);
}

/* Of a switch, or of a search that was asked for. */
static void
cancel_sandbox(struct app *app)
{
    command_sandbox_kill_cancel(app);
    app_cancel_op(app);
}

const struct command cmd_vars = {
    .name = "vars",
    .arguments = "",
    .help = "list the variables in the sandbox",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_vars,
    .cancel = app_cancel_op,
};

const struct command cmd_restart = {
    .name = "restart",
    .arguments = "",
    .help = "start a new interpreter; loaded files come back, variables do not",
    .min_words = 0,
    .max_words = 0,
    .completion = COMPLETE_NOTHING,
    .run = run_restart,
    .cancel = app_cancel_op,
};

const struct command cmd_sandbox = {
    .name = "sandbox",
    .arguments = "[NAME|list|kill]",
    .help = "show how it is; run cells in another; list them; end leftovers",
    .min_words = 0,
    .max_words = 1 + COMMAND_MAX_KILLED,
    .completion = COMPLETE_NOTHING,
    .run = run_sandbox,
    .cancel = cancel_sandbox,
};
