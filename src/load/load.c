/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "load/load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "load/load_snippet_internal.h"
#include "model/event.h"
#include "sandbox/sandbox.h"

#define MAX_REPORT_BYTES (4u << 20)
#define MAX_CODE_BYTES (64u << 10)
#define MAX_FOR_MODEL_BYTES (16u << 10)
#define MAX_NAME_BYTES 200
#define MAX_COLUMNS 400
#define MAX_TRIES 1000

struct load {
    struct sandbox *sb;    /* borrowed */
    struct sandbox_op *op; /* borrowed: the operation that runs */
    load_fn done;
    void (*progress)(void *ctx, const char *name, uint64_t done_bytes,
                     uint64_t total_bytes);
    void *ctx;

    char *path;     /* owned; as it was named */
    char *name;     /* owned; inside the sandbox */
    char *variable; /* owned */
    char *note;     /* owned; or NULL */
    int fd;         /* owned */
    uint64_t size_bytes;
    int64_t timeout_ms;
    bool cancelled;

    char *marker;        /* owned */
    struct sbuf printed; /* what the snippet wrote */
};

static void
load_free(struct load *load)
{
    free(load->path);
    free(load->name);
    free(load->variable);
    free(load->note);
    free(load->marker);
    sbuf_fini(&load->printed);
    if (load->fd >= 0)
        close(load->fd);
    free(load);
}

static void
finish(struct load *load, const struct load_result *result,
       const struct error *err)
{
    load->done(load->ctx, result, err);
    load_free(load);
}

/* Opens what can be data: a regular file with something in it. */
static int
open_data(const char *path, uint64_t *size_bytes, struct error *err)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    /* O_NONBLOCK: opening a FIFO would wait for a writer. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT)
            return err_set(err, ERR_DATA, "%s: there is no such file", path);
        if (errno == EACCES)
            return err_set(err, ERR_DATA, "%s: you may not read it", path);
        return err_set_errno(err, ERR_DATA, "%s", path);
    }
    if (fstat(fd, &st) < 0)
        return err_set_errno(err, ERR_DATA, "%s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_DATA, "%s is a directory, not a file", path);
    if (S_ISFIFO(st.st_mode))
        return err_set(err, ERR_DATA,
                       "%s is a FIFO: save what it carries to a file first",
                       path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_DATA, "%s is not a regular file", path);
    if (st.st_size == 0)
        return err_set(err, ERR_DATA, "%s is empty (0 bytes)", path);
    *size_bytes = (uint64_t)st.st_size;
    return take_fd(&fd);
}

/* The name that this file had inside when it was loaded first, or NULL. */
static const char *
find_first_name(const struct load *load)
{
    size_t n = 0;
    const struct sandbox_loaded *list = sandbox_loaded(load->sb, &n);

    for (size_t i = 0; i < n; i++) {
        if (str_eq(list[i].path, load->path))
            return list[i].name;
    }
    return NULL;
}

/* The loaded file that has this variable or name inside, or NULL. */
static const struct sandbox_loaded *
find_loaded(const struct sandbox *sb, const char *variable, const char *name)
{
    size_t n = 0;
    const struct sandbox_loaded *list = sandbox_loaded(sb, &n);

    for (size_t i = 0; i < n; i++) {
        if (variable != NULL && str_eq(list[i].variable, variable))
            return &list[i];
        if (name != NULL && str_eq(list[i].name, name))
            return &list[i];
    }
    return NULL;
}

/* Chooses the variable; says so in the note when another file has the obvious
   one. The same file loaded again keeps its own. */
static int
choose_variable(struct load *load, const char *wanted, struct error *err)
{
    const struct sandbox_loaded *other = NULL;
    AUTO_SBUF struct sbuf sb = {0};

    if (wanted != NULL) {
        if (!load_is_variable(wanted))
            return err_set(
                err, ERR_USAGE,
                "'%s' cannot be the variable: it needs ASCII letters, "
                "digits and _, no digit first, and no keyword",
                wanted);
        if (load_is_taken(wanted))
            return err_set(err, ERR_USAGE,
                           "'%s' is a name that code relies on; choose another",
                           wanted);
        other = find_loaded(load->sb, wanted, NULL);
        if (other != NULL && !str_eq(other->path, load->path))
            return err_set(err, ERR_USAGE, "'%s' is the variable of %s already",
                           wanted, other->path);
        load->variable = xstrdup(wanted);
        return 0;
    }
    sbuf_init(&sb, MAX_NAME_BYTES);
    load_add_variable(&sb, paths_base(load->path));
    other = find_loaded(load->sb, sb.data, NULL);
    if (other == NULL || str_eq(other->path, load->path)) {
        load->variable = sbuf_take(&sb);
        return 0;
    }
    for (int n = 2; n < MAX_TRIES; n++) {
        AUTO_FREE char *name = xasprintf("%s_%d", sb.data, n);
        const struct sandbox_loaded *taken = find_loaded(load->sb, name, NULL);

        if (taken != NULL && !str_eq(taken->path, load->path))
            continue;
        load->note = xasprintf("'%s' is the variable of %s, so this one is "
                               "'%s'",
                               sb.data, other->path, name);
        load->variable = take_ptr(&name);
        return 0;
    }
    return err_set(err, ERR_USAGE, "no variable is left for %s", load->path);
}

/* Chooses a name inside that is not taken, from the file's own. */
static int
choose_name(struct load *load, struct error *err)
{
    const char *base = paths_base(load->path);
    size_t stem = load_stem_len(base);

    if (find_loaded(load->sb, NULL, base) == NULL) {
        load->name = xstrdup(base);
        return 0;
    }
    for (int n = 2; n < MAX_TRIES; n++) {
        AUTO_FREE char *name =
            xasprintf("%.*s-%d%s", (int)stem, base, n, base + stem);

        if (find_loaded(load->sb, NULL, name) != NULL)
            continue;
        load->name = take_ptr(&name);
        return 0;
    }
    return err_set(err, ERR_USAGE, "no name is left for %s", load->path);
}

static void
add_hex(struct sbuf *sb, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        sbuf_addf(sb, "%02x", p[i]);
}

/* A line that honest output will not contain. It keeps nobody out: what the
   report says is data in any case. */
static int
make_marker(struct load *load, struct error *err)
{
    unsigned char random[12];
    struct sbuf sb;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return err_set_errno(err, ERR_INTERNAL, "getrandom");
    sbuf_init(&sb, 64);
    sbuf_add_str(&sb, "sandpiper-load-");
    add_hex(&sb, random, sizeof(random));
    sbuf_add_char(&sb, ':');
    load->marker = sbuf_take(&sb);
    return 0;
}

/* The snippet and its call. The arguments travel as hexadecimal digits, since a
   file name may hold any byte. */
static void
add_code(const struct load *load, struct sbuf *sb)
{
    AUTO_SBUF struct sbuf spec = {0};
    const char *link = find_first_name(load);

    sbuf_init(&spec, MAX_CODE_BYTES);
    sbuf_add_char(&spec, '{');
    json_add_key(&spec, "name");
    sbuf_add_char(&spec, '"');
    add_hex(&spec, load->name, strlen(load->name));
    sbuf_add_char(&spec, '"');
    json_add_key(&spec, "link");
    sbuf_add_char(&spec, '"');
    if (link != NULL)
        add_hex(&spec, link, strlen(link));
    sbuf_add_char(&spec, '"');
    json_add_member_str(&spec, "variable", load->variable);
    json_add_member_str(&spec, "marker", load->marker);
    sbuf_add_char(&spec, '}');

    sbuf_add(sb, load_snippet_py, load_snippet_py_len);
    sbuf_add_str(sb, "\n_sandpiper_load('");
    add_hex(sb, spec.data, spec.len);
    sbuf_add_str(sb, "')\ndel _sandpiper_load\n");
}

/* What the model learns with the next question: names, types and ranges. */
static char *
describe_for_model(const struct load *load, const struct event_load *report,
                   const char *setup)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_SBUF struct sbuf column = {0};
    AUTO_FREE char *path = paths_join("/workspace/data", load->name);
    size_t n_told = 0;

    sbuf_init(&sb, MAX_FOR_MODEL_BYTES * 2);
    sbuf_add_str(&sb, "Loaded file ");
    json_add_str(&sb, load->name);
    sbuf_addf(&sb,
              ": variable `%s`, a pandas DataFrame of %" PRId64 " rows "
              "and %" PRId64 " columns; the file is at ",
              load->variable, report->n_rows, report->n_cols_total);
    /* Quoted, so that a line feed in a name begins no line of its own. */
    json_add_str(&sb, path);
    sbuf_add_str(&sb, " (read-only). It was read with:\n");
    sbuf_add_str(&sb, setup);
    sbuf_add_str(&sb, "\nColumns (name, type, missing values, range or "
                      "values):\n");
    sbuf_init(&column, MAX_FOR_MODEL_BYTES);
    for (size_t i = 0; i < report->n_columns; i++) {
        const struct event_column *c = &report->columns[i];

        sbuf_clear(&column);
        json_add_str(&column, c->name);
        sbuf_addf(&column, ", %s, %" PRId64 " missing", c->kind, c->n_missing);
        if (!str_blank(c->range)) {
            sbuf_add_str(&column, ", ");
            json_add_str(&column, c->range);
        }
        sbuf_add_char(&column, '\n');
        if (sb.len + column.len > MAX_FOR_MODEL_BYTES)
            break;
        sbuf_add(&sb, column.data, column.len);
        n_told++;
    }
    if (n_told < report->n_columns)
        sbuf_addf(&sb, "(%zu of %zu columns shown; see %s.dtypes)\n", n_told,
                  report->n_columns, load->variable);
    return sbuf_take(&sb);
}

/* Reads the report's columns into an array that the caller frees; the texts
   are borrowed from json. */
static struct event_column *
read_columns(const struct cJSON *json, size_t *n)
{
    struct event_column *columns = NULL;

    *n = 0;
    for (const struct cJSON *c = json_first(json); c != NULL;
         c = json_next(c)) {
        const char *name = json_string(c, "name");
        const char *kind = json_string(c, "kind");
        const char *range = json_string(c, "range");

        if (*n == MAX_COLUMNS)
            break;
        columns = xreallocarray(columns, *n + 1, sizeof(*columns));
        columns[*n] = (struct event_column){
            .name = name != NULL ? name : "",
            .kind = kind != NULL ? kind : "other",
            .n_missing = json_int(c, "missing", 0),
            .range = range != NULL ? range : "",
        };
        ++*n;
    }
    return columns;
}

static void
report_success(struct load *load, const struct cJSON *json)
{
    AUTO_FREE struct event_column *columns = NULL;
    AUTO_FREE char *for_model = NULL;
    const char *how = json_string(json, "how");
    const char *setup = json_string(json, "setup");
    const char *restore = json_string(json, "restore");
    struct event_load report = {
        .file = load->path,
        .variable = load->variable,
        .n_rows = json_int(json, "rows", 0),
        .n_cols_total = json_int(json, "cols", 0),
        .size_bytes = load->size_bytes,
        .how = how != NULL ? how : "",
    };
    struct load_result result = {.report = &report, .note = load->note};

    columns = read_columns(json_get(json, "columns"), &report.n_columns);
    report.columns = columns;
    if (setup == NULL)
        setup = "";
    for_model = describe_for_model(load, &report, setup);
    result.for_model = for_model;
    sandbox_add_loaded(load->sb, load->path, load->name, load->variable,
                       restore != NULL ? restore : setup);
    finish(load, &result, NULL);
}

/* The text behind the marker, up to the end of its line; or NULL. */
static const char *
find_report(const struct load *load, size_t *len)
{
    const char *at = NULL;
    const char *end = NULL;

    if (load->printed.len == 0)
        return NULL;
    at = memmem(load->printed.data, load->printed.len, load->marker,
                strlen(load->marker));
    if (at == NULL)
        return NULL;
    at += strlen(load->marker);
    end =
        memchr(at, '\n', load->printed.len - (size_t)(at - load->printed.data));
    if (end == NULL)
        return NULL;
    *len = (size_t)(end - at);
    return at;
}

static void
read_report(struct load *load)
{
    struct error err = {0};
    AUTO_JSON struct cJSON *json = NULL;
    const char *text = NULL;
    const char *why = NULL;
    size_t len = 0;

    text = find_report(load, &len);
    if (text == NULL) {
        error_fill(&err, ERR_DATA, "%s: pandas gave no report", load->path);
        finish(load, NULL, &err);
        return;
    }
    json = json_parse(text, len, 0, &err);
    if (json == NULL) {
        err.code = ERR_DATA;
        error_prepend(&err, "%s", load->path);
        finish(load, NULL, &err);
        return;
    }
    why = json_string(json, "error");
    if (why != NULL) {
        error_fill(&err, ERR_DATA, "%s: %s", load->path, why);
        finish(load, NULL, &err);
        return;
    }
    report_success(load, json);
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct load *load = ctx;

    if (stream == EVENT_STDOUT)
        sbuf_add(&load->printed, data, len);
}

static void
on_output(void *ctx, const struct output *out)
{
    (void)ctx;
    (void)out;
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    (void)ctx;
    (void)kind;
    (void)text;
}

/* A SIGINT meant for an earlier cell may come late and hit the snippet. */
static bool
was_stopped(const struct load *load, const struct sandbox_outcome *outcome)
{
    return load->cancelled || outcome->outcome == EVENT_INTERRUPTED ||
           str_eq(outcome->error_name, "KeyboardInterrupt");
}

static void
fill_timeout(const struct load *load, struct error *err)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, STR_DURATION_BYTES);
    str_add_duration(&sb, load->timeout_ms);
    error_fill(err, ERR_DATA,
               "%s: loading takes more than %s: limits.cell_seconds",
               load->path, sb.data);
}

/* Says in one line why the snippet did not come to its end. */
static void
fill_outcome(const struct load *load, const struct sandbox_outcome *outcome,
             struct error *err)
{
    if (was_stopped(load, outcome))
        error_fill(err, ERR_CANCELLED, "%s: loading was stopped", load->path);
    else if (outcome->outcome == EVENT_TIMEOUT)
        fill_timeout(load, err);
    else if (outcome->reason != NULL)
        error_fill(err, ERR_DATA, "%s: %s", load->path, outcome->reason);
    else if (outcome->error_name != NULL)
        error_fill(err, ERR_DATA, "%s: %s: %s", load->path, outcome->error_name,
                   outcome->error_value != NULL ? outcome->error_value : "");
    else
        error_fill(err, ERR_DATA, "%s: loading ended as '%s'", load->path,
                   event_outcome_name(outcome->outcome));
}

static void
on_ran(void *ctx, enum sandbox_end end, const struct sandbox_outcome *outcome,
       const struct error *err)
{
    struct load *load = ctx;
    struct error why = {0};

    load->op = NULL;
    if (err != NULL && err->code == ERR_CANCELLED) {
        error_fill(&why, ERR_CANCELLED, "%s: loading was stopped", load->path);
        finish(load, NULL, &why);
        return;
    }
    if (err != NULL) {
        finish(load, NULL, err);
        return;
    }
    if (end == SANDBOX_DONE && outcome->outcome == EVENT_OK) {
        read_report(load);
        return;
    }
    fill_outcome(load, outcome, &why);
    finish(load, NULL, &why);
}

static void
run_snippet(struct load *load)
{
    static const struct sandbox_cell_handlers on = {
        .on_bytes = on_bytes,
        .on_output = on_output,
        .on_note = on_note,
        .on_done = on_ran,
    };
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, MAX_CODE_BYTES);
    add_code(load, &code);
    load->op = sandbox_run_cell(load->sb,
                                &(struct sandbox_cell){
                                    .code = code.data,
                                    .code_len = code.len,
                                    .timeout_ms = load->timeout_ms,
                                    .silent = true,
                                },
                                &on, load);
}

static void
on_put_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct load *load = ctx;

    if (load->progress != NULL && !load->cancelled)
        load->progress(load->ctx, paths_base(load->path), done_bytes,
                       total_bytes);
}

static void
on_put(void *ctx, enum sandbox_end end, const struct error *err)
{
    struct load *load = ctx;
    struct error why = {0};

    load->op = NULL;
    if (load->progress != NULL)
        load->progress(load->ctx, NULL, 0, 0);
    if (err != NULL && err->code != ERR_CANCELLED) {
        finish(load, NULL, err);
        return;
    }
    if (err != NULL || load->cancelled || end == SANDBOX_LOST) {
        error_fill(&why,
                   err != NULL || load->cancelled ? ERR_CANCELLED : ERR_SANDBOX,
                   "%s: loading was stopped", load->path);
        finish(load, NULL, &why);
        return;
    }
    run_snippet(load);
}

struct load *
load_start(struct sandbox *sb, const char *path, const char *variable,
           int64_t timeout_ms, load_fn done, void *ctx, struct error *err)
{
    struct load *load = xcalloc(1, sizeof(*load));

    load->sb = sb;
    load->done = done;
    load->ctx = ctx;
    load->timeout_ms = timeout_ms;
    load->path = xstrdup(path);
    sbuf_init(&load->printed, MAX_REPORT_BYTES);
    load->fd = open_data(path, &load->size_bytes, err);
    if (load->fd < 0 || choose_variable(load, variable, err) < 0 ||
        choose_name(load, err) < 0 || make_marker(load, err) < 0) {
        load_free(load);
        return NULL;
    }
    load->op = sandbox_put(sb,
                           &(struct sandbox_put){
                               .path = load->path,
                               .fd = load->fd,
                               .name = load->name,
                               .limit = -1,
                           },
                           on_put_progress, on_put, load);
    return load;
}

void
load_on_progress(struct load *load,
                 void (*fn)(void *ctx, const char *name, uint64_t done_bytes,
                            uint64_t total_bytes))
{
    load->progress = fn;
}

void
load_cancel(struct load *load)
{
    load->cancelled = true;
    if (load->op != NULL)
        sandbox_leave(load->op);
}
