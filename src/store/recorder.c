/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "store/recorder.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/utf8.h"
#include "model/output.h"
#include "model/sink.h"
#include "store/blob.h"

#define MAX_NAME_BYTES 60

struct recorder {
    struct session *session;     /* borrowed; or NULL */
    struct recorder_cell *cells; /* owned */
    size_t n_cells;
    size_t n_bytes;     /* of all pieces */
    char *file_path;    /* owned */
    char *file_problem; /* owned */
    struct sbuf thinking;
    bool thinking_over; /* a block has ended; the next stands apart */
    uint64_t n_thinking_dropped;
};

struct recorder *
recorder_new(struct session *session)
{
    struct recorder *r = xcalloc(1, sizeof(*r));

    sbuf_init(&r->thinking, RECORDER_THINKING_BYTES);

    r->session = session;
    return r;
}

static void
free_pieces(struct recorder_cell *c)
{
    for (size_t i = 0; i < c->n_pieces; i++)
        sbuf_fini(&c->pieces[i].text);
    free(c->pieces);
    c->pieces = NULL;
    c->n_pieces = 0;
}

static void
cell_fini(struct recorder_cell *c)
{
    free_pieces(c);
    for (size_t i = 0; i < c->n_outputs; i++) {
        free(c->outputs[i].path);
        free(c->outputs[i].problem);
    }
    free(c->outputs);
    free(c->code);
    free(c->language);
    free(c->error_name);
    free(c->error_value);
    free(c->traceback);
}

void
recorder_free(struct recorder *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_cells; i++)
        cell_fini(&r->cells[i]);
    free(r->cells);
    free(r->file_path);
    free(r->file_problem);
    sbuf_fini(&r->thinking);
    free(r);
}

static struct recorder_cell *
find_cell(const struct recorder *r, int number)
{
    for (size_t i = r->n_cells; i > 0; i--) {
        if (r->cells[i - 1].number == number)
            return &r->cells[i - 1];
    }
    return NULL;
}

static void
take_code(struct recorder *r, const struct event *ev)
{
    struct recorder_cell *c = NULL;

    r->cells = xreallocarray(r->cells, r->n_cells + 1, sizeof(*r->cells));
    c = &r->cells[r->n_cells++];
    *c = (struct recorder_cell){
        .number = ev->cell,
        .code = xstrndup(ev->text, ev->len),
        .language = xstrdup(ev->language),
    };
}

/* ---- what was printed -----------------------------------------------------
 */

/* What a piece takes beside its text, about. */
#define PIECE_BYTES (sizeof(struct recorder_piece) + 64)

static void
forget(struct recorder *r, struct recorder_cell *c)
{
    for (size_t i = 0; i < c->n_pieces; i++)
        r->n_bytes -= c->pieces[i].text.len + PIECE_BYTES;
    free_pieces(c);
    c->is_forgotten = true;
}

/* Makes room for len bytes of c at the cost of older cells. */
static bool
make_room(struct recorder *r, const struct recorder_cell *c, size_t len)
{
    for (size_t i = 0; i < r->n_cells && r->n_bytes + len > RECORDER_MAX_BYTES;
         i++) {
        if (&r->cells[i] != c && r->cells[i].n_pieces > 0)
            forget(r, &r->cells[i]);
    }
    return r->n_bytes + len <= RECORDER_MAX_BYTES;
}

/* NULL when there is no room: a cell may change its stream with every byte. */
static struct recorder_piece *
add_piece(struct recorder *r, struct recorder_cell *c)
{
    struct recorder_piece *p = NULL;

    if (c->is_cut || !make_room(r, c, PIECE_BYTES)) {
        c->is_cut = true;
        return NULL;
    }
    r->n_bytes += PIECE_BYTES;
    c->pieces = xgrow(c->pieces, c->n_pieces, sizeof(*c->pieces));
    p = &c->pieces[c->n_pieces++];
    memset(p, 0, sizeof(*p));
    sbuf_init(&p->text, RECORDER_MAX_BYTES);
    return p;
}

static void
add_text(struct recorder *r, struct recorder_cell *c, struct recorder_piece *p,
         const char *text, size_t len)
{
    if (c->is_cut || !make_room(r, c, len)) {
        c->is_cut = true;
        return;
    }
    sbuf_add(&p->text, text, len);
    r->n_bytes += len;
}

static void
take_printed(struct recorder *r, const struct event *ev)
{
    struct recorder_cell *c = find_cell(r, ev->cell);
    struct recorder_piece *p = NULL;

    if (c == NULL || c->is_forgotten)
        return;
    if (c->n_pieces > 0)
        p = &c->pieces[c->n_pieces - 1];
    if (p == NULL || p->is_output || p->stream != ev->stream) {
        p = add_piece(r, c);
        if (p == NULL)
            return;
        p->stream = ev->stream;
    }
    add_text(r, c, p, ev->text, ev->len);
}

static void
take_shown(struct recorder *r, struct recorder_cell *c, const struct output *o)
{
    struct recorder_piece *p = NULL;

    if (c->is_forgotten)
        return;
    p = add_piece(r, c);
    if (p == NULL)
        return;
    p->is_output = true;
    p->index = o->index;
    if (o->png == NULL && o->table == NULL && o->text != NULL)
        add_text(r, c, p, o->text, o->text_len);
}

/* A name out of untrusted text: letters, digits, ".", "_", "-" and nothing
   that hides or looks like an option. */
static char *
safe_name(const char *text, const char *otherwise)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_NAME_BYTES);
    for (const char *p = text;
         p != NULL && *p != '\0' && sb.len < MAX_NAME_BYTES; p++) {
        unsigned char c = (unsigned char)*p;

        if (c < 0x80 && (isalnum(c) || c == '.' || c == '_'))
            sbuf_add_char(&sb, (char)c);
        else if (sb.len > 0 && sb.data[sb.len - 1] != '-')
            sbuf_add_char(&sb, '-');
    }
    while (sb.len > 0 && sb.data[sb.len - 1] == '-')
        sbuf_truncate(&sb, sb.len - 1);
    while (sb.len > 0 && (sb.data[0] == '.' || sb.data[0] == '-'))
        sbuf_drop(&sb, 1);
    return sb.len > 0 ? sbuf_take(&sb) : xstrdup(otherwise);
}

static void
save_chart(struct recorder *r, const struct event *ev,
           struct recorder_output *out)
{
    const struct output *o = ev->output;
    struct error err = {0};
    struct blob blob = {0};
    AUTO_FREE char *title = safe_name(o->title, "chart");
    AUTO_FREE char *name = NULL;

    if (r->session == NULL) {
        out->problem = xstrdup("there is no session directory");
        return;
    }
    name = xasprintf("%d-%s.png", ev->cell, title);
    if (blob_put(r->session, o->png, o->png_len, name, &blob, &err) < 0) {
        out->problem = xstrdup(err.msg);
        return;
    }
    out->path = xstrdup(blob.path);
    blob_fini(&blob);
}

static void
take_result(struct recorder *r, const struct event *ev)
{
    struct recorder_cell *c = find_cell(r, ev->cell);
    struct recorder_output *out = NULL;

    if (c == NULL)
        return;
    c->outputs =
        xreallocarray(c->outputs, c->n_outputs + 1, sizeof(*c->outputs));
    out = &c->outputs[c->n_outputs++];
    *out = (struct recorder_output){
        .kind = ev->output->png != NULL     ? RECORDER_CHART
                : ev->output->table != NULL ? RECORDER_TABLE
                                            : RECORDER_TEXT,
        .index = ev->output->index,
    };
    if (out->kind == RECORDER_CHART)
        save_chart(r, ev, out);
    take_shown(r, c, ev->output);
}

static void
take_error(struct recorder *r, const struct event *ev)
{
    struct recorder_cell *c = find_cell(r, ev->cell);

    if (c == NULL || c->error_name != NULL)
        return;
    c->error_name = xstrdup(ev->error_name);
    c->error_value = ev->text != NULL ? xstrndup(ev->text, ev->len) : NULL;
    c->traceback = xstrdup(ev->traceback);
}

static void
take_file(struct recorder *r, const struct event *ev)
{
    struct error err = {0};
    struct blob blob = {0};
    AUTO_FREE char *name = NULL;

    free(r->file_path);
    free(r->file_problem);
    r->file_path = NULL;
    r->file_problem = NULL;
    if (ev->file->fd < 0)
        return;
    if (r->session == NULL) {
        r->file_problem = xstrdup("there is no session directory");
        return;
    }
    name = safe_name(paths_base(ev->file->name), "file");
    if (blob_put_fd(r->session, ev->file->fd, name, &blob, &err) < 0) {
        r->file_problem = xstrdup(err.msg);
        return;
    }
    r->file_path = xstrdup(blob.path);
    blob_fini(&blob);
}

static void
forget_thinking(struct recorder *r)
{
    sbuf_clear(&r->thinking);
    r->thinking_over = false;
    r->n_thinking_dropped = 0;
}

static void
take_thinking(struct recorder *r, const struct event *ev)
{
    size_t room = 0;
    size_t len = ev->len;

    if (len > 0 && r->thinking_over &&
        r->thinking.len + 2 < RECORDER_THINKING_BYTES)
        sbuf_add_str(&r->thinking, "\n\n");
    room = RECORDER_THINKING_BYTES - r->thinking.len;
    if (r->n_thinking_dropped > 0)
        room = 0;
    if (len > room)
        len = utf8_floor(ev->text, ev->len, room);
    sbuf_add(&r->thinking, ev->text, len);
    r->n_thinking_dropped += ev->len - len;
    r->thinking_over = ev->end || (r->thinking_over && ev->len == 0);
}

static int
recorder_put(void *sink, const struct event *ev, struct error *err)
{
    struct recorder *r = sink;
    struct recorder_cell *c = NULL;

    (void)err;
    switch (ev->kind) {
    case EVENT_CODE:
        take_code(r, ev);
        break;
    case EVENT_OUTPUT:
        take_printed(r, ev);
        break;
    case EVENT_RESULT:
        take_result(r, ev);
        break;
    case EVENT_ERROR:
        take_error(r, ev);
        break;
    case EVENT_FILE:
        take_file(r, ev);
        break;
    case EVENT_DONE:
        c = find_cell(r, ev->cell);
        if (ev->scope == EVENT_SCOPE_CELL && c != NULL) {
            c->is_over = true;
            c->outcome = ev->outcome;
        }
        break;
    case EVENT_QUESTION:
        forget_thinking(r);
        break;
    case EVENT_THINKING:
        take_thinking(r, ev);
        break;
    case EVENT_REPLY:
    case EVENT_TEXT:
    case EVENT_LOAD:
    case EVENT_USAGE:
    case EVENT_NOTICE:
    case EVENT_STATUS:
        break;
    }
    return 0;
}

const struct recorder_cell *
recorder_cell(const struct recorder *r, int number)
{
    return find_cell(r, number);
}

int
recorder_n_cells(const struct recorder *r)
{
    return (int)r->n_cells;
}

const struct recorder_output *
recorder_output(const struct recorder *r, int cell, int index)
{
    const struct recorder_cell *c = find_cell(r, cell);

    for (size_t i = 0; c != NULL && i < c->n_outputs; i++) {
        if (c->outputs[i].index == index)
            return &c->outputs[i];
    }
    return NULL;
}

const char *
recorder_thinking(const struct recorder *r, uint64_t *n_dropped)
{
    *n_dropped = r->n_thinking_dropped;
    return r->thinking.len > 0 ? r->thinking.data : NULL;
}

const char *
recorder_file(const struct recorder *r, const char **problem)
{
    *problem = r->file_problem;
    return r->file_path;
}

const struct sink_ops recorder_sink = {
    .name = "recorder",
    .put = recorder_put,
    .barrier = NULL,
};
