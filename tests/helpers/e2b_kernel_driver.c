/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs cells in a sandbox of an E2B service by our own interpreter, for tests
 * in Python.
 *
 *     e2b_kernel_driver URL ID TOKEN VERSION [OUTPUT_BYTES]
 *
 * URL: where the sandbox's ports are; VERSION: of its daemon. Requests are JSON
 * lines on standard input: {"op":"open"} {"op":"cell","code":S,"silent":B,
 * "language":S} {"op":"interrupt"} {"op":"kill"} {"op":"vars"}
 * {"op":"snapshot","path":S} {"op":"restore","path":S} {"op":"reconnect"}
 * {"op":"python"} {"op":"free"}. What happens is written as JSON lines to
 * standard output.
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
    int fd;
};

static void
begin(struct sbuf *sb, const char *event)
{
    sbuf_init(sb, MAX_LINE);
    sbuf_add_char(sb, '{');
    json_add_member_str(sb, "ev", event);
}

static void
put(struct sbuf *sb)
{
    struct error err = {0};

    sbuf_add_str(sb, "}\n");
    if (io_write_all(STDOUT_FILENO, sb->data, sb->len, &err) < 0)
        _exit(3);
    sbuf_fini(sb);
}

static void
add_error(struct sbuf *sb, const struct error *err)
{
    if (err == NULL)
        return;
    json_add_member_str(sb, "err", err->msg);
    json_add_member_int(sb, "code", err->code);
}

static void
put_end(const char *event, const struct e2b_run_end *end)
{
    struct sbuf sb;

    begin(&sb, event);
    json_add_member_int(&sb, "way", end->way);
    json_add_member_int(&sb, "trouble", end->trouble);
    add_error(&sb, end->err);
    if (end->outcome != NULL) {
        json_add_member_int(&sb, "outcome", end->outcome->outcome);
        json_add_member_str(&sb, "name", end->outcome->error_name);
        json_add_member_str(&sb, "value", end->outcome->error_value);
        json_add_member_str(&sb, "traceback", end->outcome->traceback);
        json_add_member_str(&sb, "hint", end->outcome->hint);
        json_add_member_str(&sb, "reason", end->outcome->reason);
        json_add_member_int(&sb, "dropped", end->outcome->output_dropped_bytes);
    }
    put(&sb);
}

static void
put_event(const char *event)
{
    struct sbuf sb;

    begin(&sb, event);
    put(&sb);
}

static void
on_ready(void *ctx, const struct e2b_run_end *end)
{
    (void)ctx;
    put_end("open", end);
}

static void
on_lost(void *ctx, const struct e2b_run_end *end)
{
    (void)ctx;
    put_end("lost", end);
}

static void
on_begin(void *ctx)
{
    (void)ctx;
    put_event("begin");
}

static void
on_flood(void *ctx)
{
    struct driver *d = ctx;

    put_event("flood");
    d->runner->ops->interrupt(d->runner);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct sbuf sb;

    (void)ctx;
    begin(&sb, stream == EVENT_STDOUT ? "out" : "err");
    json_add_key(&sb, "text");
    json_add_string(&sb, data, len);
    put(&sb);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct sbuf sb;

    (void)ctx;
    begin(&sb, out->is_result ? "result" : "display");
    json_add_member_str(&sb, "text", out->text);
    json_add_member_int(&sb, "png", (int64_t)out->png_len);
    json_add_member_int(&sb, "width", out->width_px);
    json_add_member_bool(&sb, "table", out->table != NULL);
    put(&sb);
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct sbuf sb;

    (void)ctx;
    begin(&sb, "note");
    json_add_member_str(&sb, "kind", kind);
    json_add_member_str(&sb, "text", text);
    put(&sb);
}

static void
on_done(void *ctx, const struct e2b_run_end *end)
{
    (void)ctx;
    put_end("done", end);
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct sbuf sb;

    (void)ctx;
    begin(&sb, "vars");
    add_error(&sb, err);
    json_add_key(&sb, "names");
    sbuf_add_char(&sb, '[');
    for (size_t i = 0; vars != NULL && i < vars->n_vars; i++) {
        if (i > 0)
            sbuf_add_char(&sb, ',');
        json_add_str(&sb, vars->vars[i].name);
    }
    sbuf_add_char(&sb, ']');
    put(&sb);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    struct driver *d = ctx;
    struct sbuf sb;

    close_fd(&d->fd);
    begin(&sb, "saved");
    add_error(&sb, err);
    json_add_key(&sb, "names");
    sbuf_add_char(&sb, '[');
    for (size_t i = 0; saved != NULL && i < saved->n_names; i++) {
        if (i > 0)
            sbuf_add_char(&sb, ',');
        json_add_str(&sb, saved->names[i]);
    }
    sbuf_add_char(&sb, ']');
    json_add_member_int(&sb, "bytes",
                        saved != NULL ? (int64_t)saved->n_bytes : 0);
    put(&sb);
}

static void
run_cell(struct driver *d, const struct cJSON *request)
{
    static const struct e2b_run_handlers on = {.on = {.on_begin = on_begin,
                                                      .on_bytes = on_bytes,
                                                      .on_output = on_output,
                                                      .on_note = on_note},
                                               .on_flood = on_flood,
                                               .on_done = on_done};
    const char *code = json_string(request, "code");
    struct sandbox_cell cell = {.code = code != NULL ? code : "",
                                .language = json_string(request, "language"),
                                .silent = json_bool(request, "silent", false)};

    cell.code_len = strlen(cell.code);
    d->runner->ops->run(d->runner, &cell, &on, d);
}

static void
free_runner(struct driver *d)
{
    struct e2b_runner *r = take_ptr(&d->runner);

    if (r != NULL)
        r->ops->free(r);
}

static void
open_runner(struct driver *d)
{
    free_runner(d);
    d->runner = e2b_kernel_new(&d->site, &d->config);
    d->runner->on_lost = on_lost;
    d->runner->on_lost_ctx = d;
    d->runner->ops->open(d->runner, on_ready, d);
}

static void
put_python(struct driver *d)
{
    struct sbuf sb;

    begin(&sb, "python");
    json_add_member_str(&sb, "text", d->runner->ops->python(d->runner));
    put(&sb);
}

static void
take_line(struct driver *d, const char *line, size_t len)
{
    AUTO_JSON struct cJSON *request = json_parse(line, len, 0, NULL);
    const char *op = json_string(request, "op");
    const char *path = json_string(request, "path");

    if (str_eq(op, "open"))
        open_runner(d);
    else if (str_eq(op, "free"))
        free_runner(d);
    else if (str_eq(op, "cell"))
        run_cell(d, request);
    else if (str_eq(op, "interrupt"))
        d->runner->ops->interrupt(d->runner);
    else if (str_eq(op, "kill"))
        d->runner->ops->kill(d->runner);
    else if (str_eq(op, "vars"))
        d->runner->ops->vars(d->runner, on_vars, d);
    else if (str_eq(op, "snapshot")) {
        d->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        d->runner->ops->snapshot(d->runner, d->fd, on_saved, d);
    } else if (str_eq(op, "restore")) {
        d->fd = open(path, O_RDONLY | O_CLOEXEC);
        d->runner->ops->restore(d->runner, d->fd, on_saved, d);
    } else if (str_eq(op, "reconnect"))
        d->runner->ops->reconnect(d->runner, on_ready, d);
    else if (str_eq(op, "python"))
        put_python(d);
}

static void
on_input(void *ctx, int fd, unsigned events)
{
    struct driver *d = ctx;
    char buffer[65536];
    ssize_t n = read(fd, buffer, sizeof(buffer));
    char *end;

    (void)events;
    if (n <= 0) {
        loop_fd_remove(d->input);
        d->input = NULL;
        loop_stop(d->loop);
        return;
    }
    sbuf_add(&d->lines, buffer, (size_t)n);
    while ((end = memchr(d->lines.data, '\n', d->lines.len)) != NULL) {
        size_t len = (size_t)(end - d->lines.data);

        take_line(d, d->lines.data, len);
        sbuf_drop(&d->lines, len + 1);
    }
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
    struct driver d = {.fd = -1};
    struct error err = {0};
    int64_t limit = 1 << 20;
    int rc;

    if (argc < 5 ||
        (argc > 5 && str_to_int(argv[5], 1, INT64_MAX, &limit, &err) < 0))
        return 2;
    d.config = (struct e2b_runner_config){.output_bytes = (uint64_t)limit,
                                          .figure_width_px = 400,
                                          .figure_height_px = 300};
    sbuf_init(&d.lines, MAX_LINE);
    d.loop = loop_new(&err);
    d.http = http_new(d.loop, &config);
    rc = make_site(&d, argv + 1, &err);
    if (rc == 0) {
        d.input = loop_add_fd(d.loop, STDIN_FILENO, LOOP_READ, on_input, &d);
        loop_run(d.loop);
    } else {
        fprintf(stderr, "%s\n", err.msg);
    }
    free_runner(&d);
    close_fd(&d.fd);
    loop_fd_remove(d.input);
    http_free(d.http);
    e2b_site_fini(&d.site);
    loop_free(d.loop);
    sbuf_fini(&d.lines);
    return rc < 0 ? 1 : 0;
}
