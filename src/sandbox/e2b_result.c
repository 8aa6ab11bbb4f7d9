/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_result_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/output.h"
#include "sandbox/e2b_lines_internal.h"
#include "sandbox/mime_bundle_internal.h"
#include "sandbox/sandbox.h"

#define MAX_LABEL_BYTES 200u
#define MIN_RULE 20u /* dashes */

/* What IPython gives as the text of an object that is shown by another type. */
#define WRAPPER "<IPython.core.display."
#define TRACE_TITLE "Traceback (most recent call last)"

/* Errors of the server's own, which come without a traceback; those of a cell
   have one. After a failed connection to the interpreter nothing that still
   runs in it would be heard, so that it counts as gone. */
static const struct {
    const char *name;
    enum e2b_end end;
} server_errors[] = {
    {"UnexpectedEndOfExecution", E2B_END_LOST},
    {"ContextRestarting", E2B_END_LOST},
    {"WebSocketError", E2B_END_LOST},
    {"ExecutionAborted", E2B_END_NOT_RUN},
};

void
e2b_result_init(struct e2b_cell_result *r, uint64_t output_bytes,
                const struct sandbox_cell_handlers *on, void *ctx)
{
    memset(r, 0, sizeof(*r));
    r->on = on;
    r->ctx = ctx;
    r->output_bytes = output_bytes;
}

void
e2b_result_fini(struct e2b_cell_result *r)
{
    free(r->error_name);
    free(r->error_value);
    free(r->traceback);
    free(r->hint);
    memset(r, 0, sizeof(*r));
}

static void
note(struct e2b_cell_result *r, const char *text)
{
    r->on->on_note(r->ctx, "limit", text);
}

static void
begin(struct e2b_cell_result *r)
{
    if (r->begun)
        return;
    r->begun = true;
    r->on->on_begin(r->ctx);
}

/* --- what it writes --- */

static void
write_text(struct e2b_cell_result *r, const struct cJSON *event,
           enum event_stream stream)
{
    const char *text = json_string(event, "text");
    size_t len = text != NULL ? strlen(text) : 0;
    uint64_t left = r->output_bytes - r->n_bytes;
    size_t keep = r->flooded ? 0 : len;

    begin(r);
    if (keep > left)
        keep = (size_t)left;
    r->n_bytes += keep;
    r->n_dropped += len - keep;
    if (keep < len)
        r->flooded = true;
    if (keep > 0)
        r->on->on_bytes(r->ctx, stream, text, keep);
}

static void
take_stdout(struct e2b_cell_result *r, const struct cJSON *event)
{
    write_text(r, event, EVENT_STDOUT);
}

static void
take_stderr(struct e2b_cell_result *r, const struct cJSON *event)
{
    write_text(r, event, EVENT_STDERR);
}

/* --- charts --- */

/* A text of the cell's as one line. The caller owns it; NULL: there is none. */
static char *
one_line(const struct cJSON *object, const char *key)
{
    char *copy = json_dup_string(object, key, MAX_LABEL_BYTES);

    for (char *c = copy; c != NULL && *c != '\0'; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return copy;
}

static char *
label(const struct cJSON *object, const char *key)
{
    return str_blank(json_string(object, key)) ? NULL : one_line(object, key);
}

static size_t
count_points(const struct cJSON *elements)
{
    size_t n = 0;

    for (const struct cJSON *e = json_first(elements); e != NULL;
         e = json_next(e))
        n += json_len(json_get(e, "points"));
    return n;
}

/* The kinds of charts and what their elements are called, as in the local
   interpreter's descriptions. */
static const struct {
    const char *type;
    const char *before;
    const char *element;
    const char *elements;
} chart_kinds[] = {
    {"line", "", "line", "lines"},
    {"scatter", "scatter, ", "point", "points"},
    {"bar", "bar chart, ", "bar", "bars"},
    {"box_and_whisker", "box plot, ", "box", "boxes"},
    {"pie", "pie chart, ", "slice", "slices"},
    {"superchart", "", "chart", "charts"},
};

static void
add_axis(struct sbuf *sb, const struct cJSON *chart, const char *key,
         const char *name)
{
    AUTO_FREE char *text = label(chart, key);

    if (text != NULL)
        sbuf_addf(sb, "%s%s: %s", sb->len > 0 ? ", " : "", name, text);
}

/* A short description; the caller owns it. NULL: there is nothing to say. */
static char *
describe_chart(const struct cJSON *chart)
{
    AUTO_SBUF struct sbuf sb = {0};
    const struct cJSON *elements = json_get(chart, "elements");
    const char *type = json_string(chart, "type");

    sbuf_init(&sb, 1024);
    for (size_t i = 0; i < LEN(chart_kinds); i++) {
        size_t n = json_is_array(elements) ? json_len(elements) : 0;

        if (type == NULL || strcmp(type, chart_kinds[i].type) != 0)
            continue;
        if (strcmp(type, "scatter") == 0)
            n = count_points(elements);
        if (n > 0)
            sbuf_addf(&sb, "%s%zu %s", chart_kinds[i].before, n,
                      n == 1 ? chart_kinds[i].element
                             : chart_kinds[i].elements);
    }
    add_axis(&sb, chart, "x_label", "x");
    add_axis(&sb, chart, "y_label", "y");
    return sb.len > 0 ? sbuf_take(&sb) : NULL;
}

/* --- what it shows --- */

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Base64 without the white space in and behind it. The caller owns it. */
static char *
strip_space(const char *text, size_t *len)
{
    AUTO_FREE char *out = xmalloc(strlen(text) + 1);
    size_t n = 0;

    for (; *text != '\0'; text++)
        if (!is_space(*text))
            out[n++] = *text;
    out[n] = '\0';
    *len = n;
    return take_ptr(&out);
}

/* Whether this cell has shown the picture before: a figure that is the last
   expression comes as a result and as a display. */
static bool
was_shown(struct e2b_cell_result *r, const char *png, size_t len)
{
    char hex[HASH_HEX_BYTES];

    hash_hex(png, len, hex);
    for (size_t i = 0; i < r->n_images; i++)
        if (strcmp(r->images[i], hex) == 0)
            return true;
    if (r->n_images == SANDBOX_MAX_IMAGES)
        r->flooded = true;
    else
        memcpy(r->images[r->n_images++], hex, sizeof(hex));
    return false;
}

/* Text that is for reading: that of the object itself, unless that only names
   the type which it is shown by. Markup is never taken for text. *printed is
   the caller's to free. */
static const char *
choose_text(const struct cJSON *event, char **printed)
{
    static const char *const others[] = {"markdown", "latex"};
    const char *text = json_string(event, "text");
    const struct cJSON *json = json_get(event, "json");

    if (text != NULL && !str_starts(text, WRAPPER))
        return text;
    for (size_t i = 0; i < LEN(others); i++) {
        const char *other = json_string(event, others[i]);

        if (other != NULL)
            return other;
    }
    if (json_is_object(json) || json_is_array(json)) {
        *printed = json_print(json);
        return *printed;
    }
    return text;
}

/* A table of our own form, under its media type or in the place for data
   frames. What the server itself makes of a frame lacks the index: its text
   says more. */
static const struct cJSON *
find_table(const struct cJSON *event)
{
    const struct cJSON *table =
        json_get(json_get(event, "extra"), MIME_BUNDLE_TABLE);
    const struct cJSON *data = json_get(event, "data");

    if (table != NULL)
        return table;
    return json_is_array(json_get(data, "head")) &&
                   json_is_array(json_get(data, "columns"))
               ? data
               : NULL;
}

static void
show(struct e2b_cell_result *r, const struct cJSON *event,
     const struct mime_bundle_parts *parts)
{
    AUTO_FREE char *refused = NULL;
    struct output *out = mime_bundle_make(parts, &refused, NULL);

    if (out != NULL) {
        out->is_result = json_bool(event, "is_main_result", false);
        out->index = r->n_outputs++;
        r->on->on_output(r->ctx, out);
    }
    if (refused != NULL)
        note(r, refused);
    else if (out == NULL && r->is_shortened)
        note(r, "something that was shown was left out: it has no text, and "
                "more values than are kept");
    if (parts->png == NULL && json_string(event, "jpeg") != NULL)
        note(r, "a JPEG picture was left out: only PNG is shown");
    output_free(out);
}

/* --- what our own kernel says --- */

static void
take_own_show(struct e2b_cell_result *r, const struct cJSON *line,
              const struct cJSON *event, bool is_result)
{
    const struct cJSON *meta = json_get(event, "meta");
    const char *text = json_string(line, "text");
    const char *png = json_string(line, "png");
    AUTO_FREE char *refused = NULL;
    AUTO_FREE char *stripped = NULL;
    struct mime_bundle_parts parts = {
        .text = text != NULL && text[0] == '=' ? text + 1 : text,
        .table = json_get(json_get(line, "extra"), MIME_BUNDLE_TABLE),
    };
    AUTO_FREE char *title = one_line(meta, "title");
    AUTO_FREE char *what = one_line(meta, "what");
    struct output *out = NULL;

    parts.title = title;
    parts.what = what;
    if (png != NULL && r->n_images == SANDBOX_MAX_IMAGES)
        r->flooded = true;
    if (r->flooded)
        return;
    if (png != NULL) {
        parts.png = stripped = strip_space(png, &parts.png_len);
        r->images[r->n_images++][0] = '\0';
    }
    out = mime_bundle_make(&parts, &refused, NULL);
    if (out != NULL) {
        out->is_result = is_result;
        out->index = r->n_outputs++;
        r->on->on_output(r->ctx, out);
    }
    if (refused != NULL)
        note(r, refused);
    output_free(out);
}

static void
take_own_note(struct e2b_cell_result *r, const struct cJSON *event)
{
    AUTO_FREE char *kind =
        json_dup_string(event, "kind", SANDBOX_MAX_NAME_BYTES);
    AUTO_FREE char *text =
        json_dup_string(event, "text", SANDBOX_MAX_VALUE_BYTES);

    if (text != NULL && !r->flooded)
        r->on->on_note(r->ctx, kind != NULL ? kind : "", text);
}

static void
take_own_done(struct e2b_cell_result *r, const struct cJSON *event)
{
    const struct cJSON *error = json_get(event, "error");
    const char *status = json_string(event, "status");

    if (r->is_done || r->has_error)
        return;
    r->is_done = true;
    r->interrupted = status != NULL && strcmp(status, "interrupted") == 0;
    r->has_error = json_is_object(error);
    r->error_name = json_dup_string(error, "name", SANDBOX_MAX_NAME_BYTES);
    r->error_value = json_dup_string(error, "value", SANDBOX_MAX_VALUE_BYTES);
    r->traceback = json_dup_string(error, "traceback", SANDBOX_MAX_TRACE_BYTES);
    r->hint = json_dup_string(error, "hint", SANDBOX_MAX_VALUE_BYTES);
}

static void
take_own(struct e2b_cell_result *r, const struct cJSON *line,
         const struct cJSON *event)
{
    const char *name = json_string(event, "ev");

    if (name == NULL)
        return;
    if (strcmp(name, "display") == 0 || strcmp(name, "result") == 0)
        take_own_show(r, line, event, name[0] == 'r');
    else if (strcmp(name, "note") == 0)
        take_own_note(r, event);
    else if (strcmp(name, "done") == 0)
        take_own_done(r, event);
    else if (r->on_event != NULL)
        r->on_event(r->ctx, event);
}

static void
take_result(struct e2b_cell_result *r, const struct cJSON *event)
{
    const struct cJSON *own =
        json_get(json_get(event, "extra"), E2B_RESULT_EVENT);
    const struct cJSON *chart = json_get(event, "chart");
    const char *base64 = json_string(event, "png");
    AUTO_FREE char *printed = NULL;
    AUTO_FREE char *png = NULL;
    AUTO_FREE char *title = NULL;
    AUTO_FREE char *what = NULL;
    struct mime_bundle_parts parts = {.table = find_table(event)};

    begin(r);
    if (own != NULL) {
        take_own(r, event, own);
        return;
    }
    if (r->flooded)
        return;
    if (base64 != NULL) {
        png = strip_space(base64, &parts.png_len);
        if (was_shown(r, png, parts.png_len) || r->flooded)
            return;
        parts.png = png;
    }
    parts.text = choose_text(event, &printed);
    if (json_is_object(chart)) {
        parts.title = title = label(chart, "title");
        parts.what = what = describe_chart(chart);
    }
    show(r, event, &parts);
}

/* --- errors --- */

static bool
is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Where the last line of a traceback, "NAME: VALUE", begins; its length when it
   is not there, or is at the start of a line already. */
static size_t
find_last_line(const char *trace, const char *name, const char *value)
{
    AUTO_FREE char *last = NULL;
    size_t len = strlen(trace);
    size_t at;

    if (str_blank(name))
        return len;
    last = str_blank(value) ? xstrdup(name) : xasprintf("%s: %s", name, value);
    if (!str_ends(trace, last))
        return len;
    at = len - strlen(last);
    return at > 0 && trace[at - 1] != '\n' && !is_word(trace[at - 1]) ? at
                                                                      : len;
}

/* Bytes at the start of a line after which a line feed is missing; 0: none. */
static size_t
glued_at(const char *line)
{
    size_t n = strspn(line, "-");
    const char *title;
    size_t line_len = strcspn(line, "\n");

    if (n >= MIN_RULE && line[n] != '\n' && line[n] != '\0')
        return n;
    title = strstr(line, TRACE_TITLE);
    if (title == NULL || (size_t)(title - line) > line_len)
        return 0;
    n = (size_t)(title - line) + strlen(TRACE_TITLE);
    return line[n] != '\n' && line[n] != ':' && line[n] != '\0' ? n : 0;
}

/*
 * The server glues the pieces of a traceback together without line feeds: the
 * rule, the title and the last line stand where they should not. Only these are
 * mended, since frames may hold anything.
 */
static char *
mend_trace(const char *trace, const char *name, const char *value)
{
    AUTO_SBUF struct sbuf sb = {0};
    size_t last = find_last_line(trace, name, value);
    size_t len = strlen(trace);
    size_t at = 0;

    sbuf_init(&sb, 2 * len + 2);
    /* Rule and title are the first two lines. */
    for (int i = 0; i < 2 && at < last; i++) {
        size_t n = glued_at(trace + at);
        bool is_glued = n > 0;

        if (!is_glued)
            n = strcspn(trace + at, "\n") + 1;
        if (n > last - at) {
            n = last - at;
            is_glued = false;
        }
        sbuf_add(&sb, trace + at, n);
        if (is_glued)
            sbuf_add_char(&sb, '\n');
        at += n;
    }
    sbuf_add(&sb, trace + at, last - at);
    if (last < len && sb.len > 0 && sb.data[sb.len - 1] != '\n')
        sbuf_add_char(&sb, '\n');
    sbuf_add_str(&sb, trace + last);
    return sbuf_take(&sb);
}

/* What an error of the server's own means; E2B_END_OPEN: it is the cell's. */
static enum e2b_end
meaning_of(const struct cJSON *event)
{
    const char *name = json_string(event, "name");

    for (size_t i = 0; i < LEN(server_errors); i++)
        if (name != NULL && strcmp(name, server_errors[i].name) == 0 &&
            str_blank(json_string(event, "traceback")))
            return server_errors[i].end;
    return E2B_END_OPEN;
}

static void
take_error(struct e2b_cell_result *r, const struct cJSON *event)
{
    enum e2b_end end = meaning_of(event);
    AUTO_FREE char *trace = NULL;

    if (end != E2B_END_OPEN) {
        /* It may come behind an error of the cell. */
        if (r->said != E2B_END_LOST)
            r->said = end;
        return;
    }
    if (r->has_error || r->is_done)
        return;
    r->has_error = true;
    r->error_name = json_dup_string(event, "name", SANDBOX_MAX_NAME_BYTES);
    r->error_value = json_dup_string(event, "value", SANDBOX_MAX_VALUE_BYTES);
    trace = json_dup_string(event, "traceback", SANDBOX_MAX_TRACE_BYTES);
    if (!str_blank(trace))
        r->traceback = mend_trace(trace, r->error_name, r->error_value);
}

/* --- events --- */

static void
take_count(struct e2b_cell_result *r, const struct cJSON *event)
{
    int64_t count = json_int(event, "execution_count", 0);

    begin(r);
    if (count > 0)
        r->count = count;
}

static void
take_end(struct e2b_cell_result *r, const struct cJSON *event)
{
    (void)event;
    r->ended = true;
}

static void
take_mark(struct e2b_cell_result *r, const struct cJSON *event)
{
    (void)event;
    r->said = E2B_END_LOST;
}

/* All others, keepalives among them, are skipped. */
static const struct {
    const char *type;
    void (*take)(struct e2b_cell_result *r, const struct cJSON *event);
    bool counts; /* towards the limits of what a cell shows */
} events[] = {
    {"number_of_executions", take_count, false},
    {"stdout", take_stdout, false},
    {"stderr", take_stderr, false},
    {"result", take_result, true},
    {"error", take_error, false},
    {"end_of_execution", take_end, false},
    {"unexpected_end_of_execution", take_mark, false},
};

static void
count_event(struct e2b_cell_result *r, size_t len)
{
    r->n_events++;
    r->n_event_bytes += len;
    if (r->n_events > SANDBOX_MAX_EVENTS ||
        r->n_event_bytes > SANDBOX_MAX_EVENT_BYTES)
        r->flooded = true;
}

void
e2b_result_take(struct e2b_cell_result *r, const struct e2b_line *line)
{
    const char *type = json_string(line->event, "type");

    if (r->ended)
        return;
    if (line->event == NULL) {
        AUTO_FREE char *text =
            xasprintf("something of over %u MiB that was printed or shown at "
                      "once was left out",
                      E2B_LINES_MAX_MIB);

        count_event(r, line->len);
        if (!r->flooded)
            note(r, text);
        return;
    }
    r->is_shortened = line->is_shortened;
    for (size_t i = 0; i < LEN(events); i++) {
        if (type == NULL || strcmp(type, events[i].type) != 0)
            continue;
        if (events[i].counts)
            count_event(r, line->len);
        events[i].take(r, line->event);
        return;
    }
}

/* --- the end --- */

enum e2b_end
e2b_result_end(const struct e2b_cell_result *r)
{
    if (r->said == E2B_END_LOST)
        return E2B_END_LOST;
    if (!r->ended)
        return E2B_END_OPEN;
    return r->said == E2B_END_OPEN ? E2B_END_OK : r->said;
}

int
e2b_result_outcome(const struct e2b_cell_result *r, struct sandbox_outcome *out,
                   struct error *err)
{
    enum e2b_end end = e2b_result_end(r);

    if (end == E2B_END_OPEN)
        return err_set(err, ERR_NET,
                       "the interpreter's answer was cut: it has no "
                       "end_of_execution");
    out->output_dropped_bytes = (int64_t)r->n_dropped;
    switch (end) {
    case E2B_END_LOST:
        out->outcome = EVENT_DIED;
        out->variables_lost = true;
        out->reason = "The interpreter has ended, perhaps for lack of "
                      "memory. " SANDBOX_LOST_TEXT;
        break;
    case E2B_END_NOT_RUN:
        out->outcome = EVENT_INTERRUPTED;
        out->reason = "Stopped before it began; variables are kept.";
        break;
    case E2B_END_OPEN:
    case E2B_END_OK:
        out->outcome = r->interrupted ? EVENT_INTERRUPTED
                       : r->has_error ? EVENT_FAILED
                                      : EVENT_OK;
        out->error_name = r->error_name;
        out->error_value = r->error_value;
        out->traceback = r->traceback;
        out->hint = r->hint;
        break;
    }
    return 0;
}
