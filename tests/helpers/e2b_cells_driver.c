/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs cells in the interpreter of a sandbox of an E2B service, for tests in
 * Python: the runner alone, without a back end around it.
 *
 *     e2b_cells_driver URL ID TOKEN VERSION [OPTION=VALUE...]
 *
 * URL: where the sandbox's ports are; VERSION: of its daemon. Options: output
 * (bytes) width height dpi network=1
 *
 * Requests are JSON lines on standard input, and the driver ends with them:
 *     {"op":"open"} {"op":"reconnect"} {"op":"interrupt"} {"op":"kill"}
 *     {"op":"cell","code":S,"language":S,"silent":B,"number":N}
 *     {"op":"vars"} {"op":"snapshot","path":S} {"op":"restore","path":S}
 * What happens is written as JSON lines to standard output.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "model/output.h"
#include "model/table.h"
#include "net/http.h"
#include "sandbox/e2b_runner_internal.h"

#define MAX_LINE ((size_t)64 << 20)

struct driver {
    struct loop *loop;
    struct http *http;
    struct e2b_site site;
    struct e2b_runner *runner;
    struct e2b_runner_config config;
    struct loop_fd *input;
    struct sbuf lines;
    int fd; /* of a snapshot */
};

static void
begin(struct sbuf *sb, const char *event)
{
    sbuf_init(sb, MAX_LINE);
    sbuf_add_char(sb, '{');
    json_add_member_str(sb, "event", event);
}

static void
finish(struct sbuf *sb)
{
    struct error err = {0};

    sbuf_add_str(sb, "}\n");
    if (io_write_all(STDOUT_FILENO, sb->data, sb->len, &err) < 0)
        _exit(3);
}

static void
add_error(struct sbuf *sb, const struct error *err)
{
    if (err == NULL)
        return;
    json_add_member_str(sb, "code", error_code_name(err->code));
    json_add_member_str(sb, "message", err->msg);
}

static void
add_outcome(struct sbuf *sb, const struct sandbox_outcome *o)
{
    json_add_member_str(sb, "outcome", event_outcome_name(o->outcome));
    json_add_member_str(sb, "error", o->error_name);
    json_add_member_str(sb, "value", o->error_value);
    json_add_member_str(sb, "traceback", o->traceback);
    json_add_member_str(sb, "hint", o->hint);
    json_add_member_str(sb, "reason", o->reason);
    json_add_member_bool(sb, "lost", o->variables_lost);
    json_add_member_int(sb, "dropped", o->output_dropped_bytes);
}

static void
tell_end(struct driver *d, const char *event, const struct e2b_run_end *end)
{
    static const char *const ways[] = {[E2B_RUN_DONE] = "done",
                                       [E2B_RUN_LOST] = "lost",
                                       [E2B_RUN_TROUBLE] = "trouble"};
    AUTO_SBUF struct sbuf sb = {0};

    begin(&sb, event);
    json_add_member_str(&sb, "way", ways[end->way]);
    json_add_member_int(&sb, "trouble", (int64_t)end->trouble);
    add_error(&sb, end->err);
    if (end->outcome != NULL)
        add_outcome(&sb, end->outcome);
    json_add_member_str(&sb, "python", d->runner->ops->python(d->runner));
    finish(&sb);
}

static void
on_open(void *ctx, const struct e2b_run_end *end)
{
    tell_end(ctx, "open", end);
}

static void
on_done(void *ctx, const struct e2b_run_end *end)
{
    tell_end(ctx, "cell", end);
}

static void
on_lost(void *ctx, const struct e2b_run_end *end)
{
    tell_end(ctx, "lost", end);
}

static void
on_begin(void *ctx)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "begin");
    finish(&sb);
}

static void
on_flood(void *ctx)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "flood");
    finish(&sb);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "bytes");
    json_add_member_str(&sb, "stream",
                        stream == EVENT_STDOUT ? "stdout" : "stderr");
    json_add_key(&sb, "text");
    json_add_string(&sb, data, len);
    finish(&sb);
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

static void
on_output(void *ctx, const struct output *out)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "output");
    json_add_member_bool(&sb, "result", out->is_result);
    json_add_member_int(&sb, "index", out->index);
    json_add_member_str(&sb, "text", out->text);
    if (out->table != NULL)
        add_table(&sb, out->table);
    json_add_member_int(&sb, "png", (int64_t)out->png_len);
    json_add_member_int(&sb, "width", out->width_px);
    json_add_member_int(&sb, "height", out->height_px);
    json_add_member_str(&sb, "title", out->title);
    json_add_member_str(&sb, "what", out->what);
    finish(&sb);
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "note");
    json_add_member_str(&sb, "kind", kind);
    json_add_member_str(&sb, "text", text);
    finish(&sb);
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    begin(&sb, "vars");
    add_error(&sb, err);
    if (vars != NULL) {
        json_add_key(&sb, "vars");
        sbuf_add_char(&sb, '{');
        for (size_t i = 0; i < vars->n_vars; i++) {
            AUTO_FREE char *text =
                xasprintf("%s|%s", vars->vars[i].type, vars->vars[i].size);

            json_add_member_str(&sb, vars->vars[i].name, text);
        }
        sbuf_add_char(&sb, '}');
    }
    finish(&sb);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    struct driver *d = ctx;
    AUTO_SBUF struct sbuf sb = {0};

    close(d->fd);
    begin(&sb, "saved");
    add_error(&sb, err);
    if (saved != NULL) {
        json_add_member_int(&sb, "bytes", (int64_t)saved->n_bytes);
        json_add_key(&sb, "names");
        sbuf_add_char(&sb, '[');
        for (size_t i = 0; i < saved->n_names; i++) {
            if (i > 0)
                sbuf_add_char(&sb, ',');
            json_add_str(&sb, saved->names[i]);
        }
        sbuf_add_char(&sb, ']');
        json_add_key(&sb, "left_out");
        sbuf_add_char(&sb, '{');
        for (size_t i = 0; i < saved->n_left_out; i++)
            json_add_member_str(&sb, saved->left_out[i].name,
                                saved->left_out[i].why);
        sbuf_add_char(&sb, '}');
    }
    finish(&sb);
}

static void
run_cell(struct driver *d, const struct cJSON *r)
{
    static const struct e2b_run_handlers on = {.on = {.on_begin = on_begin,
                                                      .on_bytes = on_bytes,
                                                      .on_output = on_output,
                                                      .on_note = on_note},
                                               .on_flood = on_flood,
                                               .on_done = on_done};
    const char *code = json_string(r, "code");
    struct sandbox_cell cell = {
        .code = code,
        .code_len = strlen(code),
        .language = json_string(r, "language"),
        .silent = json_bool(r, "silent", false),
        .number = (int)json_int(r, "number", 1),
    };

    d->runner->ops->run(d->runner, &cell, &on, d);
}

static void
handle(struct driver *d, const char *line, size_t len)
{
    struct error err = {0};
    AUTO_JSON struct cJSON *r = json_parse(line, len, 0, &err);
    const struct e2b_runner_ops *ops = d->runner->ops;
    const char *op = json_string(r, "op");
    const char *path = json_string(r, "path");

    if (str_eq(op, "open"))
        ops->open(d->runner, on_open, d);
    else if (str_eq(op, "reconnect"))
        ops->reconnect(d->runner, on_open, d);
    else if (str_eq(op, "interrupt"))
        ops->interrupt(d->runner);
    else if (str_eq(op, "kill"))
        ops->kill(d->runner);
    else if (str_eq(op, "cell"))
        run_cell(d, r);
    else if (str_eq(op, "vars"))
        ops->vars(d->runner, on_vars, d);
    if (path == NULL)
        return;
    d->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (str_eq(op, "snapshot"))
        ops->snapshot(d->runner, d->fd, on_saved, d);
    else
        ops->restore(d->runner, d->fd, on_saved, d);
}

static void
on_input(void *ctx, int fd, unsigned events)
{
    struct driver *d = ctx;
    char buffer[65536];
    ssize_t n = read(fd, buffer, sizeof(buffer));
    const char *end;

    (void)events;
    if (n <= 0) {
        loop_stop(d->loop);
        return;
    }
    sbuf_add(&d->lines, buffer, (size_t)n);
    while ((end = memchr(d->lines.data, '\n', d->lines.len)) != NULL) {
        handle(d, d->lines.data, (size_t)(end - d->lines.data));
        sbuf_drop(&d->lines, (size_t)(end + 1 - d->lines.data));
    }
}

static bool
take_option(struct driver *d, const char *arg)
{
    const char *value = strchr(arg, '=');
    int64_t n = 0;

    if (value == NULL || str_to_int(value + 1, 0, INT64_MAX, &n, NULL) < 0)
        return false;
    if (str_starts(arg, "output="))
        d->config.output_bytes = (uint64_t)n;
    else if (str_starts(arg, "width="))
        d->config.figure_width_px = (int)n;
    else if (str_starts(arg, "height="))
        d->config.figure_height_px = (int)n;
    else if (str_starts(arg, "dpi="))
        d->config.figure_dpi = (int)n;
    else if (str_starts(arg, "network="))
        d->config.has_network = n != 0;
    else
        return false;
    return true;
}

static int
make_site(struct driver *d, char **argv, struct error *err)
{
    struct e2b_sandbox sandbox = {0};
    int rc;

    snprintf(sandbox.id, sizeof(sandbox.id), "%s", argv[1]);
    if (argv[2][0] != '\0')
        sandbox.envd_token = secret_new(argv[2], strlen(argv[2]));
    if (sscanf(argv[3], "%d.%d.%d", &sandbox.envd[0], &sandbox.envd[1],
               &sandbox.envd[2]) != 3)
        return err_set(err, ERR_USAGE, "%s: is no version", argv[3]);
    rc = e2b_site_init(&d->site, d->loop, d->http, argv[0], "localhost",
                       &sandbox, err);
    e2b_sandbox_fini(&sandbox);
    return rc;
}

int
main(int argc, char **argv)
{
    const struct http_config config = {.user_agent = "test/1"};
    struct driver d = {.config.output_bytes = 1 << 20};
    struct error err = {0};

    if (argc < 5)
        return 2;
    for (int i = 5; i < argc; i++)
        if (!take_option(&d, argv[i]))
            return 2;
    sbuf_init(&d.lines, MAX_LINE);
    d.loop = loop_new(&err);
    d.http = http_new(d.loop, &config);
    if (make_site(&d, argv + 1, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    d.runner = e2b_cells_new(&d.site, &d.config);
    d.runner->on_lost = on_lost;
    d.runner->on_lost_ctx = &d;
    d.input = loop_add_fd(d.loop, STDIN_FILENO, LOOP_READ, on_input, &d);
    loop_run(d.loop);
    d.runner->ops->free(d.runner);
    loop_fd_remove(d.input);
    http_free(d.http);
    e2b_site_fini(&d.site);
    loop_free(d.loop);
    sbuf_fini(&d.lines);
    return 0;
}
