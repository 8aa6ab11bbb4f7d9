/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Opens a sandbox and runs what it is told, for tests in Python and for
 * measuring. Requests are JSON lines on standard input, or cells as arguments;
 * what happens is written as JSON lines to standard output.
 *
 *     sandbox_driver [OPTION=VALUE...] [--] [CODE...]
 *
 * Options: level (full, full-without-proc, reduced; its warden is
 * SANDPIPER_WARDEN, else that of the build tree) bwrap python parent put (PATH
 * or PATH:NAME, before the start) memory output workspace processes timeout_ms
 * terminal=1 uid idle_suspend_ms idle_close_ms cell_ms count=1 (what cells
 * print is counted and dropped) busctl bus cgroups proc wait_ms (instead of the
 * system's, for a control group) no_stop=1 (SIGSTOP reaches nobody)
 *
 * backend=e2b: a service, with the key in E2B_API_KEY and api_url sandbox_url
 * template domain timeout_s internet (off, on, HOST,HOST) auto_pause=1 version
 * (auto, v1, v2) env=NAME=VALUE header=NAME=VALUE key_command name owner run
 *
 * Requests: {"op":"cell","code":S,"timeout_ms":N,"silent":B,"number":N,
 *            "language":S}
 *           {"op":"script","dir":S,"files":{NAME:TEXT},"argv":[S],"env":[S],
 *            "timeout_ms":N}
 *           {"op":"leave"} (the last of them, without waiting)
 *           {"op":"put","path":S,"name":S,"offset":N,"limit":N}
 *           {"op":"list"} {"op":"get","name":S,"path":S,"limit":N}
 *           {"op":"loaded","path":S,"name":S,"variable":S,"setup":S}
 *           {"op":"vars"} {"op":"snapshot","path":S} {"op":"restore","path":S}
 *           {"op":"restart"} {"op":"info"} {"op":"take_loss"}
 *           {"op":"switch"} (to another one of the same options)
 *           {"op":"interrupt"} (the last of these or of the cells or scripts;
 *           without any, the back end is asked all the same)
 *           {"op":"quit"}
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "helpers/sandbox_lines.h"
#include "helpers/sandbox_options.h"
#include "sandbox/sandbox.h"
#include "sandbox/sandbox_internal.h"

#define MAX_LINE (64u << 20)

struct driver {
    struct loop *loop;
    struct sandbox_options *options; /* borrowed */
    struct sandbox *sb;
    struct loop_fd *input;
    struct sbuf lines;
    struct job *jobs;        /* owned: what has not ended */
    struct sandbox_op *last; /* the one that an interrupt means */
    int64_t start_us;
    int64_t timeout_ms;
    int n_open; /* operations that have not ended */
    int n_cells;
    bool count;         /* bytes of cells, instead of telling them */
    int64_t counted[2]; /* of the running cell, by stream */
    bool end_of_input;
    bool failed;
};

struct job {
    struct driver *d;
    struct job *next;
    struct sandbox_op *op;
    int fd;
    char *name; /* owned */
};

static bool no_stop;

/* In place of the C library's, for all of the program. */
int
kill(pid_t pid, int signo)
{
    return no_stop && signo == SIGSTOP ? 0 : (int)syscall(SYS_kill, pid, signo);
}

static void
one_less(struct driver *d)
{
    d->n_open--;
    if (d->n_open == 0 && d->end_of_input)
        loop_stop(d->loop);
}

static void
on_open(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct driver *d = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, d->start_us, "open");
    json_add_member_str(&sb, "end", sandbox_lines_end_name(end));
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_finish(&sb);
    d->failed |= end != SANDBOX_DONE;
    if (end != SANDBOX_DONE && d->n_open == 0 && d->end_of_input)
        loop_stop(d->loop);
}

static void
on_progress(void *ctx, const char *what)
{
    struct driver *d = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, d->start_us, "progress");
    json_add_member_str(&sb, "text", what);
    sandbox_lines_finish(&sb);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct job *job = ctx;
    struct sbuf sb;

    if (job->d->count) {
        job->d->counted[stream == EVENT_STDERR] += (int64_t)len;
        return;
    }
    sandbox_lines_begin(&sb, job->d->start_us, "bytes");
    json_add_member_str(&sb, "stream",
                        stream == EVENT_STDOUT ? "stdout" : "stderr");
    json_add_member_int(&sb, "len", (int64_t)len);
    json_add_key(&sb, "text");
    json_add_string(&sb, data, len);
    sandbox_lines_finish(&sb);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "output");
    sandbox_lines_add_output(&sb, out);
    sandbox_lines_finish(&sb);
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "note");
    json_add_member_str(&sb, "kind", kind);
    json_add_member_str(&sb, "text", text);
    sandbox_lines_finish(&sb);
}

static void
free_job(struct job *job)
{
    struct driver *d = job->d;
    struct job **p = &d->jobs;

    while (*p != job)
        p = &(*p)->next;
    *p = job->next;

    if (d->last == job->op)
        d->last = NULL;
    if (job->fd >= 0)
        close(job->fd);
    free(job->name);
    free(job);
    one_less(d);
}

static void
tell_counted(struct driver *d)
{
    struct sbuf sb;

    if (!d->count)
        return;
    sandbox_lines_begin(&sb, d->start_us, "counted");
    json_add_member_int(&sb, "stdout", d->counted[0]);
    json_add_member_int(&sb, "stderr", d->counted[1]);
    sandbox_lines_finish(&sb);
    memset(d->counted, 0, sizeof(d->counted));
}

static void
on_begin(void *ctx)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "begin");
    sandbox_lines_finish(&sb);
}

static void
on_cell_done(void *ctx, enum sandbox_end end,
             const struct sandbox_outcome *outcome, const struct error *err)
{
    struct job *job = ctx;
    struct sbuf sb;

    tell_counted(job->d);
    sandbox_lines_begin(&sb, job->d->start_us, job->name);
    json_add_member_str(&sb, "end", sandbox_lines_end_name(end));
    sandbox_lines_add_outcome(&sb, outcome);
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_finish(&sb);
    free_job(job);
}

static void
on_done(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "op");
    json_add_member_str(&sb, "name", job->name);
    json_add_member_str(&sb, "end", sandbox_lines_end_name(end));
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_finish(&sb);
    free_job(job);
}

static void
on_copy(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "copy");
    json_add_member_int(&sb, "done", (int64_t)done_bytes);
    json_add_member_int(&sb, "total", (int64_t)total_bytes);
    sandbox_lines_finish(&sb);
}

static void
on_list(void *ctx, const struct sandbox_list *list, const struct error *err)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "list");
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_add_list(&sb, list);
    sandbox_lines_finish(&sb);
    free_job(job);
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "vars");
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_add_vars(&sb, vars);
    sandbox_lines_finish(&sb);
    free_job(job);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    struct job *job = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, job->d->start_us, "saved");
    json_add_member_str(&sb, "name", job->name);
    sandbox_lines_add_err(&sb, err);
    sandbox_lines_add_saved(&sb, saved);
    sandbox_lines_finish(&sb);
    free_job(job);
}

static void
on_late(void *ctx, int cell, const char *loss)
{
    struct driver *d = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, d->start_us, "late");
    json_add_member_int(&sb, "cell", cell);
    json_add_member_str(&sb, "loss", loss);
    sandbox_lines_finish(&sb);
}

static void
on_left(void *ctx, const char *text)
{
    struct driver *d = ctx;
    struct sbuf sb;

    sandbox_lines_begin(&sb, d->start_us, "left");
    json_add_member_str(&sb, "text", text);
    sandbox_lines_finish(&sb);
}

static void
on_retired(void *ctx)
{
    struct driver *d = ctx;

    loop_stop(d->loop);
}

static void
tell_info(struct driver *d)
{
    static const char *const states[] = {
        [SANDBOX_NEW] = "new",
        [SANDBOX_OPENING] = "opening",
        [SANDBOX_IDLE] = "idle",
        [SANDBOX_BUSY] = "busy",
        [SANDBOX_SUSPENDED] = "suspended",
        [SANDBOX_FAILED] = "failed",
    };
    struct sandbox_info info;
    struct sbuf sb;

    sandbox_info(d->sb, &info);
    sandbox_lines_begin(&sb, d->start_us, "info");
    json_add_member_str(&sb, "state", states[sandbox_state(d->sb)]);
    sandbox_lines_add_info(&sb, &info);
    sandbox_lines_finish(&sb);
}

static struct job *
new_job(struct driver *d, const char *name)
{
    struct job *job = xcalloc(1, sizeof(*job));

    job->d = d;
    job->fd = -1;
    job->name = xstrdup(name);
    job->next = d->jobs;
    d->jobs = job;
    d->n_open++;
    return job;
}

static void
run_cell(struct driver *d, const struct sandbox_cell *cell)
{
    static const struct sandbox_cell_handlers handlers = {
        .on_bytes = on_bytes,
        .on_output = on_output,
        .on_note = on_note,
        .on_done = on_cell_done,
    };
    struct job *job = new_job(d, "cell");

    job->op = sandbox_run_cell(d->sb, cell, &handlers, job);
    d->last = job->op;
}

/* The texts of an array, NULL-terminated; the list is the caller's, the texts
   the tree's. */
static const char **
texts_of(const struct cJSON *array)
{
    const char **texts = xcalloc(json_len(array) + 1, sizeof(texts[0]));
    const struct cJSON *item = json_first(array);

    for (size_t i = 0; item != NULL; item = json_next(item), i++)
        texts[i] = json_value_string(item);
    return texts;
}

static void
run_script(struct driver *d, const struct cJSON *request)
{
    static const struct sandbox_cell_handlers handlers = {
        .on_begin = on_begin,
        .on_bytes = on_bytes,
        .on_done = on_cell_done,
    };
    const struct cJSON *given = json_get(request, "files");
    const struct cJSON *env = json_get(request, "env");
    AUTO_FREE struct sandbox_script_file *files =
        xcalloc(json_len(given) + 1, sizeof(files[0]));
    AUTO_FREE const char **argv = texts_of(json_get(request, "argv"));
    AUTO_FREE const char **words = texts_of(env);
    struct sandbox_script script = {
        .dir = json_string(request, "dir"),
        .files = files,
        .argv = argv,
        .env = env != NULL ? words : NULL,
        .timeout_ms = json_int(request, "timeout_ms", d->timeout_ms),
    };
    struct job *job = new_job(d, "script");

    for (given = json_first(given); given != NULL; given = json_next(given)) {
        struct sandbox_script_file *f = &files[script.n_files++];

        f->name = json_key(given);
        f->data = json_value_string(given);
        f->len = strlen(f->data);
    }
    job->op = sandbox_run_script(d->sb, &script, &handlers, job);
    d->last = job->op;
}

static void
put(struct driver *d, const char *path, const char *name, int64_t offset,
    int64_t limit)
{
    struct job *job = new_job(d, "put");
    struct sandbox_put p = {
        .path = path,
        .name = name != NULL ? name : paths_base(path),
        .offset = offset,
        .limit = limit,
    };

    job->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    p.fd = job->fd;
    job->op = sandbox_put(d->sb, &p, on_copy, on_done, job);
}

static void
get(struct driver *d, const char *name, const char *path, int64_t limit)
{
    struct job *job = new_job(d, "get");

    job->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    job->op = sandbox_get(d->sb, name, job->fd, 0, limit, on_done, job);
}

static void
save(struct driver *d, const char *op, const char *path)
{
    struct job *job = new_job(d, op);
    bool saves = str_eq(op, "snapshot");

    job->fd = saves ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                    : open(path, O_RDONLY | O_CLOEXEC);
    job->op = saves ? sandbox_snapshot(d->sb, job->fd, on_saved, job)
                    : sandbox_restore(d->sb, job->fd, on_saved, job);
    d->last = job->op;
}

/* Operations on the interpreter itself. False: it is none of them. */
static bool
handle_whole(struct driver *d, const char *op, const char *path)
{
    struct job *job;

    if (str_eq(op, "vars")) {
        job = new_job(d, op);
        d->last = job->op = sandbox_list_vars(d->sb, on_vars, job);
    } else if (str_eq(op, "restart")) {
        job = new_job(d, op);
        d->last = job->op = sandbox_restart(d->sb, on_done, job);
    } else if (str_eq(op, "switch")) {
        struct sandbox_backend *next =
            sandbox_options_backend(d->options, d->loop);

        job = new_job(d, op);
        d->last = job->op = sandbox_switch(d->sb, next, on_done, job);
    } else if ((str_eq(op, "snapshot") || str_eq(op, "restore")) &&
               path != NULL) {
        save(d, op, path);
    } else if (str_eq(op, "info")) {
        tell_info(d);
    } else if (str_eq(op, "take_loss")) {
        AUTO_FREE char *loss = sandbox_take_late_loss(d->sb);
        struct sbuf sb;

        sandbox_lines_begin(&sb, d->start_us, "loss");
        json_add_member_str(&sb, "text", loss);
        sandbox_lines_finish(&sb);
    } else {
        return false;
    }
    return true;
}

static void
handle_request(struct driver *d, const char *line, size_t len)
{
    struct error err = {0};
    AUTO_JSON struct cJSON *r = json_parse(line, len, 0, &err);
    const char *op = json_string(r, "op");
    const char *path = json_string(r, "path");
    const char *name = json_string(r, "name");
    const char *code = json_string(r, "code");

    if (str_eq(op, "cell") && code != NULL) {
        run_cell(d, &(struct sandbox_cell){
                        .code = code,
                        .code_len = strlen(code),
                        .language = json_string(r, "language"),
                        .timeout_ms = json_int(r, "timeout_ms", d->timeout_ms),
                        .silent = json_bool(r, "silent", false),
                        .number = (int)json_int(r, "number", ++d->n_cells),
                    });
    } else if (str_eq(op, "script")) {
        run_script(d, r);
    } else if (str_eq(op, "put") && path != NULL) {
        put(d, path, name, json_int(r, "offset", 0), json_int(r, "limit", -1));
    } else if (str_eq(op, "list")) {
        struct job *job = new_job(d, "list");

        job->op = sandbox_list_files(d->sb, on_list, job);
    } else if (str_eq(op, "get") && path != NULL && name != NULL) {
        get(d, name, path, json_int(r, "limit", -1));
    } else if (str_eq(op, "loaded")) {
        sandbox_add_loaded(d->sb, path, name, json_string(r, "variable"),
                           json_string(r, "setup"));
    } else if (str_eq(op, "interrupt")) {
        if (d->last != NULL)
            sandbox_cancel(d->last);
        else
            d->sb->backend->ops->interrupt(d->sb->backend);
    } else if (str_eq(op, "leave")) {
        if (d->last != NULL)
            sandbox_leave(d->last);
    } else if (str_eq(op, "quit")) {
        loop_stop(d->loop);
    } else if (!handle_whole(d, op, path)) {
        fprintf(stderr, "sandbox_driver: bad request: %.*s\n", (int)len, line);
        d->failed = true;
        loop_stop(d->loop);
    }
}

static void
on_input(void *ctx, int fd, unsigned events)
{
    struct driver *d = ctx;
    char chunk[65536];
    ssize_t n = read(fd, chunk, sizeof(chunk));
    char *feed;

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        loop_fd_remove(d->input);
        d->input = NULL;
        d->end_of_input = true;
        if (d->n_open == 0)
            loop_stop(d->loop);
        return;
    }
    sbuf_add(&d->lines, chunk, (size_t)n);
    for (feed = strchr(d->lines.data, '\n'); feed != NULL;
         feed = strchr(d->lines.data, '\n')) {
        size_t len = (size_t)(feed - d->lines.data);

        if (len > 0)
            handle_request(d, d->lines.data, len);
        sbuf_drop(&d->lines, len + 1);
    }
}

static void
put_early(struct driver *d, const char *value)
{
    const char *colon = strchr(value, ':');
    AUTO_FREE char *path = NULL;

    if (colon == NULL) {
        put(d, value, NULL, 0, -1);
        return;
    }
    path = xstrndup(value, (size_t)(colon - value));
    put(d, path, colon + 1, 0, -1);
}

/* Opens it with the files of the options, and begins with the cells. */
static int
start(struct driver *d, int argc, char **argv, int first)
{
    struct error err = {0};
    const char *v;

    sandbox_on_open(d->sb, on_open, d);
    sandbox_on_progress(d->sb, on_progress, d);
    sandbox_on_late_end(d->sb, on_late, d);
    sandbox_on_left(d->sb, on_left, d);
    for (int i = 1; i < first; i++)
        if (sandbox_options_is(argv[i], "put", &v))
            put_early(d, v);
    if (first < argc && strcmp(argv[first], "--") == 0)
        first++;
    sandbox_open(d->sb);
    for (int i = first; i < argc; i++)
        run_cell(d, &(struct sandbox_cell){
                        .code = argv[i],
                        .code_len = strlen(argv[i]),
                        .timeout_ms = d->timeout_ms,
                        .number = ++d->n_cells,
                    });
    d->end_of_input = first < argc;
    if (d->end_of_input)
        return 0;
    if (io_set_nonblock(0, &err) < 0)
        return -1;
    d->input = loop_add_fd(d->loop, 0, LOOP_READ, on_input, d);
    return 0;
}

int
main(int argc, char **argv)
{
    AUTO_FREE char *warden = sandbox_options_warden();
    struct driver d = {.start_us = clock_now_us()};
    struct sandbox_options o = {.timeout_ms = -1};
    struct error err = {0};
    int first;

    /* As the program does: an interpreter may be gone before it is written to.
     */
    signal(SIGPIPE, SIG_IGN);
    alloc_return_large();
    o.config.warden = warden;
    o.config.scope = &o.scope;
    first = sandbox_options_take(&o, argc, argv);
    d.options = &o;
    d.timeout_ms = o.timeout_ms;
    d.count = o.count;
    no_stop = o.no_stop;
    d.loop = loop_new(&err);
    if (d.loop == NULL) {
        fprintf(stderr, "sandbox_driver: %s\n", err.msg);
        return 2;
    }
    sbuf_init(&d.lines, MAX_LINE);
    d.sb = sandbox_new(d.loop, sandbox_options_backend(&o, d.loop), &o.limits);
    if (start(&d, argc, argv, first) < 0)
        return 2;
    loop_run(d.loop);
    loop_fd_remove(d.input);
    if (sandbox_retire(d.sb, on_retired, &d))
        loop_run(d.loop);
    sandbox_free(d.sb);
    while (d.jobs != NULL)
        free_job(d.jobs);
    sandbox_options_fini(&o);
    loop_free(d.loop);
    sbuf_fini(&d.lines);
    log_close();
    return d.failed ? 1 : 0;
}
