/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs a process in a sandbox of an E2B service, for tests in Python.
 *
 *     e2b_process_driver URL ID TOKEN VERSION [OPTION=VALUE...] -- WORD...
 *
 * URL: where the sandbox's ports are; VERSION: of its daemon. Options: limit
 * (ms) input=1 knows=1 cwd env (NAME=VALUE, several) attach (a number of a
 * process, in place of WORD...).
 *
 * Lines of standard input: "send HEX", "end", "signal N", "pause", "go on",
 * "drop". What happens is written as JSON lines to standard output: "start",
 * "bytes" (stream, data as hexadecimal), "gap", "done".
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b_process_internal.h"

#define MAX_LINE ((size_t)64 << 20)
#define MAX_ENV 16

struct driver {
    struct loop *loop;
    struct http *http;
    struct e2b_site site;
    struct e2b_process *process;
    struct loop_fd *input;
    struct sbuf lines;
    struct e2b_process_spec spec;
    const char *env[MAX_ENV + 1];
    size_t n_env;
    int64_t attach;
};

static void
put_line(struct sbuf *sb)
{
    struct error err = {0};

    sbuf_add_str(sb, "}\n");
    if (io_write_all(STDOUT_FILENO, sb->data, sb->len, &err) < 0)
        _exit(3);
}

static void
on_start(void *ctx, int64_t pid)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    sbuf_init(&sb, MAX_LINE);
    sbuf_addf(&sb, "{\"ev\":\"start\",\"pid\":%lld", (long long)pid);
    put_line(&sb);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    sbuf_init(&sb, MAX_LINE);
    sbuf_addf(&sb, "{\"ev\":\"bytes\",\"stream\":%d,\"data\":\"", (int)stream);
    for (size_t i = 0; i < len; i++)
        sbuf_addf(&sb, "%02x", (unsigned char)data[i]);
    sbuf_add_char(&sb, '"');
    put_line(&sb);
}

static void
on_gap(void *ctx)
{
    AUTO_SBUF struct sbuf sb = {0};

    (void)ctx;
    sbuf_init(&sb, MAX_LINE);
    sbuf_add_str(&sb, "{\"ev\":\"gap\"");
    put_line(&sb);
}

static void
on_done(void *ctx, const struct e2b_process_end *end)
{
    struct driver *d = ctx;
    AUTO_SBUF struct sbuf sb = {0};

    d->process = NULL;
    sbuf_init(&sb, MAX_LINE);
    sbuf_addf(&sb,
              "{\"ev\":\"done\",\"trouble\":%d,\"exit\":%d,\"signal\":%d,"
              "\"limit\":%d,\"not_started\":%d,\"vanished\":%d,\"lost\":%d",
              (int)end->trouble, end->exit_status, end->signal, end->limit_hit,
              end->not_started, end->has_vanished, end->lost_bytes);
    json_add_member_str(&sb, "err", end->err != NULL ? end->err->msg : NULL);
    put_line(&sb);
    loop_stop(d->loop);
}

static void
send_hex(struct driver *d, const char *hex)
{
    AUTO_SBUF struct sbuf sb = {0};
    char pair[3] = {0};

    sbuf_init(&sb, MAX_LINE);
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        memcpy(pair, hex, 2);
        sbuf_add_char(&sb, (char)strtol(pair, NULL, 16));
    }
    e2b_process_send(d->process, sb.data, sb.len);
}

static void
take_line(struct driver *d, const char *line)
{
    int64_t n = 0;

    if (d->process == NULL)
        return;
    if (str_starts(line, "send "))
        send_hex(d, line + 5);
    else if (str_starts(line, "signal ") &&
             str_to_int(line + 7, 1, 64, &n, NULL) == 0)
        e2b_process_signal(d->process, (int)n);
    else if (strcmp(line, "end") == 0)
        e2b_process_end_input(d->process);
    else if (strcmp(line, "pause") == 0)
        e2b_process_pause(d->process, true);
    else if (strcmp(line, "go on") == 0)
        e2b_process_pause(d->process, false);
    else if (strcmp(line, "drop") == 0) {
        e2b_process_drop(take_ptr(&d->process));
        loop_stop(d->loop);
    }
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
        return;
    }
    sbuf_add(&d->lines, buffer, (size_t)n);
    while ((end = memchr(d->lines.data, '\n', d->lines.len)) != NULL) {
        *end = '\0';
        take_line(d, d->lines.data);
        sbuf_drop(&d->lines, (size_t)(end + 1 - d->lines.data));
    }
}

static bool
take_option(struct driver *d, const char *arg)
{
    if (str_starts(arg, "limit="))
        return str_to_int(arg + 6, 0, INT64_MAX, &d->spec.limit_ms, NULL) == 0;
    if (str_starts(arg, "attach="))
        return str_to_int(arg + 7, 1, INT64_MAX, &d->attach, NULL) == 0;
    if (str_starts(arg, "input="))
        d->spec.takes_input = arg[6] == '1';
    else if (str_starts(arg, "knows="))
        d->spec.knows_input = arg[6] == '1';
    else if (str_starts(arg, "cwd="))
        d->spec.cwd = arg + 4;
    else if (str_starts(arg, "env=") && d->n_env < MAX_ENV)
        d->env[d->n_env++] = arg + 4;
    else
        return false;
    return true;
}

static int
make_site(struct driver *d, char **argv, struct error *err)
{
    struct e2b_sandbox sandbox = {0};

    snprintf(sandbox.id, sizeof(sandbox.id), "%s", argv[1]);
    if (argv[2][0] != '\0')
        sandbox.envd_token = secret_new(argv[2], strlen(argv[2]));
    if (sscanf(argv[3], "%d.%d.%d", &sandbox.envd[0], &sandbox.envd[1],
               &sandbox.envd[2]) != 3)
        return err_set(err, ERR_USAGE, "%s: is no version", argv[3]);
    if (e2b_site_init(&d->site, d->loop, d->http, argv[0], "localhost",
                      &sandbox, err) < 0) {
        e2b_sandbox_fini(&sandbox);
        return -1;
    }
    e2b_sandbox_fini(&sandbox);
    return 0;
}

static int
run(struct driver *d, char **words, struct error *err)
{
    static const struct e2b_process_handlers on = {.on_start = on_start,
                                                   .on_bytes = on_bytes,
                                                   .on_gap = on_gap,
                                                   .on_done = on_done};

    d->spec.argv = (const char *const *)words;
    d->spec.env = d->n_env > 0 ? d->env : NULL;
    d->spec.doing = "running a test";
    d->process =
        d->attach > 0
            ? e2b_process_attach(&d->site, d->attach, d->spec.knows_input,
                                 d->spec.doing, &on, d, err)
            : e2b_process_start(&d->site, &d->spec, &on, d, err);
    if (d->process == NULL)
        return -1;
    d->input = loop_add_fd(d->loop, STDIN_FILENO, LOOP_READ, on_input, d);
    loop_run(d->loop);
    return 0;
}

int
main(int argc, char **argv)
{
    const struct http_config config = {.user_agent = "test/1"};
    struct driver d = {0};
    struct error err = {0};
    int at = 5;
    int rc;

    while (at < argc && strcmp(argv[at], "--") != 0)
        if (!take_option(&d, argv[at++]))
            return 2;
    if (argc < 6 || (at + 1 >= argc && d.attach == 0))
        return 2;
    sbuf_init(&d.lines, MAX_LINE);
    d.loop = loop_new(&err);
    d.http = http_new(d.loop, &config);
    rc = make_site(&d, argv + 1, &err);
    if (rc == 0)
        rc = run(&d, argv + at + 1, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.msg);
    e2b_process_drop(d.process);
    loop_fd_remove(d.input);
    http_free(d.http);
    e2b_site_fini(&d.site);
    loop_free(d.loop);
    sbuf_fini(&d.lines);
    return rc < 0 ? 1 : 0;
}
