/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_block_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_raw_internal.h"
#include "claude/history_internal.h"

#define STREAM_MAX_BLOCKS 1024

/* --- failures --- */

static int
fail(struct claude_stream *s, enum error_code code, bool retry,
     const char *what)
{
    bool has_id = s->request_id != NULL;

    error_fill(&s->out->err, code, "%s%s%s%s", what, has_id ? " (request " : "",
               has_id ? s->request_id : "", has_id ? ")" : "");
    s->out->retry = retry;
    return -1;
}

static int
fail_protocol(struct claude_stream *s, const char *what)
{
    return fail(s, ERR_PROTOCOL, false, what);
}

/* --- blocks --- */

static void
free_block(struct claude_block *b)
{
    free(b->start);
    free(b->id);
    free(b->name);
    free(b->signature);
    sbuf_fini(&b->raw);
    sbuf_fini(&b->input);
    sbuf_fini(&b->citations);
}

static struct claude_block *
find_block(const struct claude_stream *s, int64_t index)
{
    for (size_t i = s->n_blocks; i > 0; i--) {
        if (s->blocks[i - 1].index == index) {
            return &s->blocks[i - 1];
        }
    }
    return NULL;
}

static struct claude_block *
open_block(const struct claude_stream *s)
{
    for (size_t i = s->n_blocks; i > 0; i--) {
        if (!s->blocks[i - 1].stopped) {
            return &s->blocks[i - 1];
        }
    }
    return NULL;
}

/* index: as it was sent; -1: it was not. Where servers of other vendors leave
   it out, or give each block the same, the open one is meant. */
static struct claude_block *
find_meant(const struct claude_stream *s, int64_t index)
{
    struct claude_block *b = find_block(s, index);
    bool is_vague = index < 0 || (b != NULL && b->stopped);

    return s->compatible && is_vague ? open_block(s) : b;
}

static int64_t
next_index(const struct claude_stream *s)
{
    int64_t next = 0;

    for (size_t i = 0; i < s->n_blocks; i++) {
        if (s->blocks[i].index >= next) {
            next = s->blocks[i].index + 1;
        }
    }
    return next;
}

static enum claude_block_kind
kind_of(const char *type)
{
    if (str_eq(type, "text")) {
        return CLAUDE_BLOCK_TEXT;
    }
    if (str_eq(type, "thinking")) {
        return CLAUDE_BLOCK_THINKING;
    }
    return type != NULL && str_ends(type, "tool_use") ? CLAUDE_BLOCK_TOOL
                                                      : CLAUDE_BLOCK_OTHER;
}

static bool
wants_more(const struct claude_stream *s)
{
    return s->on.on_more == NULL || s->on.on_more(s->ctx);
}

static int
keep_bytes(struct claude_stream *s, size_t n)
{
    s->n_kept_bytes += n;
    return s->n_kept_bytes <= CLAUDE_STREAM_MAX_BYTES
               ? 0
               : fail(s, ERR_TOO_LARGE, false, "the reply is too long");
}

/* Shows what is new of a block. */
static void
show_piece(struct claude_stream *s, struct claude_block *b, bool last)
{
    const struct sbuf *piece = &s->piece;

    b->has_text = b->has_text || piece->len > 0;
    b->has_words =
        b->has_words || !claude_text_is_blank(piece->data, piece->len);
    if (!wants_more(s)) {
        return;
    }
    if (b->kind == CLAUDE_BLOCK_TOOL) {
        if (b->is_call && piece->len > 0) {
            s->on.on_tool(s->ctx, b->name, b->input.data, b->input.len);
        }
        return;
    }
    void (*show)(void *, const char *, size_t, bool) =
        b->kind == CLAUDE_BLOCK_TEXT ? s->on.on_text : s->on.on_thinking;

    if (piece->len > 0) {
        show(s->ctx, piece->data, piece->len, false);
    }
    if (last && b->has_text && wants_more(s)) {
        show(s->ctx, "", 0, true);
    }
}

/* s->piece: what raw means. */
static int
add_decoded(struct claude_stream *s, struct claude_block *b, const char *raw,
            size_t len)
{
    if (keep_bytes(s, len) < 0) {
        return -1;
    }
    if (b->kind == CLAUDE_BLOCK_TOOL) {
        sbuf_add(&b->input, s->piece.data, s->piece.len);
    } else {
        sbuf_add(&b->raw, raw, len);
    }
    if (s->piece.len > 0) {
        show_piece(s, b, false);
    }
    return 0;
}

static int
add_fragment(struct claude_stream *s, struct claude_block *b, const char *raw,
             size_t len)
{
    sbuf_clear(&s->piece);
    claude_decoder_add(&b->decoder, raw, len, &s->piece);
    return add_decoded(s, b, raw, len);
}

/* A member's value; anything but a string is nothing. */
static int
add_value(struct claude_stream *s, struct claude_block *b,
          const struct claude_raw_member *m)
{
    return m->value_len > 2 && m->value[0] == '"'
               ? add_fragment(s, b, m->value + 1, m->value_len - 2)
               : 0;
}

static void
stop_block(struct claude_stream *s, struct claude_block *b)
{
    if (b->stopped) {
        return;
    }
    b->stopped = true;
    if (b->kind != CLAUDE_BLOCK_OTHER) {
        sbuf_clear(&s->piece);
        claude_decoder_end(&b->decoder, &s->piece);
        if (b->kind == CLAUDE_BLOCK_TOOL) {
            sbuf_add(&b->input, s->piece.data, s->piece.len);
        }
        show_piece(s, b, true);
    }
}

/* --- events --- */

static bool
is_used_id(const struct claude_stream *s, const char *id)
{
    for (size_t i = 0; i < s->n_blocks; i++) {
        if (str_eq(s->blocks[i].id, id)) {
            return true;
        }
    }
    return s->history != NULL && claude_history_has_call(s->history, id);
}

/* In the form of the vendor's, and like none that the server has sent yet. */
static char *
make_id(const struct claude_stream *s)
{
    size_t n = s->history != NULL ? claude_history_n_calls(s->history) : 0;
    char *id = NULL;

    do {
        free(id);
        id = xasprintf("toolu_%024zu", ++n);
    } while (is_used_id(s, id));
    return id;
}

/* Id and name of the call that b is. An id is what its result is found by, so a
   server that sends none, or always the same, gets back one that we made. */
static int
begin_call(struct claude_stream *s, struct claude_block *b,
           const struct cJSON *start)
{
    const char *id = json_string(start, "id");

    if (str_blank(json_string(start, "name"))) {
        return fail_protocol(s, "the service called a tool without a name");
    }
    if (str_blank(id) && !s->compatible) {
        return fail_protocol(s, "the service called a tool without an id");
    }
    b->has_own_id = str_blank(id) || (s->compatible && is_used_id(s, id));
    b->id = b->has_own_id ? make_id(s) : xstrdup(id);
    b->name = xstrdup(json_string(start, "name"));
    if (wants_more(s)) {
        s->on.on_tool(s->ctx, b->name, "", 0);
    }
    return 0;
}

/* Whether a block of that number has come and is over. */
static bool
is_over(const struct claude_stream *s, int64_t index)
{
    const struct claude_block *b = find_block(s, index);

    return b != NULL && b->stopped;
}

/* Servers of other vendors may leave out what begins the reply, and which block
   begins, or give each the same number. */
static int64_t
place_block(struct claude_stream *s, const struct cJSON *event)
{
    int64_t index = json_int(event, "index", -1);

    if (!s->compatible) {
        return s->started ? index : -1;
    }
    s->started = true;
    return index < 0 || is_over(s, index) ? next_index(s) : index;
}

static int
on_block_start(struct claude_stream *s, const struct cJSON *event,
               const char *raw, size_t len)
{
    const struct cJSON *start = json_get(event, "content_block");
    int64_t index = place_block(s, event);
    struct claude_raw_member m;
    struct claude_raw_member text;
    struct claude_block *b;

    if (index < 0 || !json_is_object(start) ||
        json_string(start, "type") == NULL ||
        !claude_raw_find(raw, len, "content_block", &m)) {
        return fail_protocol(s, "the service began a block out of order");
    }
    if (find_block(s, index) != NULL) {
        return fail_protocol(s, "the service began a block twice");
    }
    if (s->n_blocks == STREAM_MAX_BLOCKS) {
        return fail(s, ERR_TOO_LARGE, false, "the reply has too many blocks");
    }
    if (keep_bytes(s, m.value_len) < 0) {
        return -1;
    }
    s->blocks = xreallocarray(s->blocks, s->n_blocks + 1, sizeof(*s->blocks));
    b = &s->blocks[s->n_blocks++];
    *b = (struct claude_block){.index = index};
    sbuf_init(&b->raw, CLAUDE_STREAM_MAX_BYTES);
    sbuf_init(&b->input, 3 * CLAUDE_STREAM_MAX_BYTES);
    sbuf_init(&b->citations, CLAUDE_STREAM_MAX_BYTES);
    b->start = xstrndup(m.value, m.value_len);
    b->start_len = m.value_len;
    b->kind = kind_of(json_string(start, "type"));
    b->is_call = str_eq(json_string(start, "type"), "tool_use");
    b->is_thought = b->kind == CLAUDE_BLOCK_THINKING ||
                    str_eq(json_string(start, "type"), "redacted_thinking");
    if (b->is_call && begin_call(s, b, start) < 0) {
        return -1;
    }
    if ((b->kind == CLAUDE_BLOCK_TEXT || b->kind == CLAUDE_BLOCK_THINKING) &&
        claude_raw_find(b->start, b->start_len,
                        b->kind == CLAUDE_BLOCK_TEXT ? "text" : "thinking",
                        &text)) {
        return add_value(s, b, &text);
    }
    return 0;
}

static int
add_citation(struct claude_stream *s, struct claude_block *b,
             const struct claude_raw_member *m)
{
    if (keep_bytes(s, m->value_len + 1) < 0) {
        return -1;
    }
    if (b->citations.len > 0) {
        sbuf_add_char(&b->citations, ',');
    }
    sbuf_add(&b->citations, m->value, m->value_len);
    return 0;
}

/* The last one counts; they are not joined. */
static int
set_signature(struct claude_stream *s, struct claude_block *b,
              const struct claude_raw_member *m)
{
    s->n_kept_bytes -= b->signature != NULL ? strlen(b->signature) : 0;
    if (keep_bytes(s, m->value_len) < 0) {
        return -1;
    }
    free(b->signature);
    b->signature = xstrndup(m->value, m->value_len);
    return 0;
}

static int
find_open(struct claude_stream *s, int64_t index, struct claude_block **out)
{
    *out = find_meant(s, index);
    return *out == NULL || (*out)->stopped
               ? fail_protocol(s, "the service continued no open block")
               : 0;
}

/* s->piece: what f means by itself. */
static int
on_fragment(struct claude_stream *s, const struct claude_fragment *f)
{
    static const enum claude_block_kind kinds[] = {
        [CLAUDE_FRAGMENT_TEXT] = CLAUDE_BLOCK_TEXT,
        [CLAUDE_FRAGMENT_THINKING] = CLAUDE_BLOCK_THINKING,
        [CLAUDE_FRAGMENT_TOOL] = CLAUDE_BLOCK_TOOL,
    };
    struct claude_block *b;

    if (find_open(s, f->index, &b) < 0) {
        return -1;
    }
    if (b->kind != kinds[f->kind] || f->len == 0) {
        return 0;
    }
    /* It may begin with the other half of a character. */
    if (b->decoder.high != 0) {
        return add_fragment(s, b, f->raw, f->len);
    }
    b->decoder.high = f->decoder.high;
    b->decoder.has_nul = b->decoder.has_nul || f->decoder.has_nul;
    return add_decoded(s, b, f->raw, f->len);
}

static int
on_delta(struct claude_stream *s, const struct cJSON *event, const char *raw,
         size_t len)
{
    const char *type = json_string(json_get(event, "delta"), "type");
    struct claude_raw_member delta;
    struct claude_raw_member m;
    struct claude_block *b;

    if (find_open(s, json_int(event, "index", -1), &b) < 0) {
        return -1;
    }
    if (type == NULL || !claude_raw_find(raw, len, "delta", &delta)) {
        return 0;
    }

    const char *text = delta.value;
    size_t n = delta.value_len;

    if (b->kind == CLAUDE_BLOCK_TEXT && str_eq(type, "text_delta")) {
        if (claude_raw_find(text, n, "text", &m)) {
            return add_value(s, b, &m);
        }
    } else if (b->kind == CLAUDE_BLOCK_TEXT &&
               str_eq(type, "citations_delta")) {
        if (claude_raw_find(text, n, "citation", &m)) {
            return add_citation(s, b, &m);
        }
    } else if (b->kind == CLAUDE_BLOCK_THINKING &&
               str_eq(type, "thinking_delta")) {
        if (claude_raw_find(text, n, "thinking", &m)) {
            return add_value(s, b, &m);
        }
    } else if (b->kind == CLAUDE_BLOCK_THINKING &&
               str_eq(type, "signature_delta")) {
        if (claude_raw_find(text, n, "signature", &m) && m.value[0] == '"') {
            return set_signature(s, b, &m);
        }
    } else if (b->kind == CLAUDE_BLOCK_TOOL &&
               str_eq(type, "input_json_delta")) {
        if (claude_raw_find(text, n, "partial_json", &m)) {
            return add_value(s, b, &m);
        }
    }
    return 0;
}

/* Sums of counts stay within 64 bits, whatever a server says. */
#define MAX_TOKENS INT64_C(1000000000)

static void
take_number(const struct cJSON *usage, const char *key, int64_t *out)
{
    int64_t value = json_int(usage, key, -1);

    if (value >= 0) {
        *out = value < MAX_TOKENS ? value : MAX_TOKENS;
    }
}

/* The numbers are totals: each that is there replaces the one before. */
static void
take_usage(struct claude_stream *s, const struct cJSON *usage)
{
    const struct cJSON *split = json_get(usage, "cache_creation");
    struct usage *u = &s->usage;
    int64_t written = -1;

    take_number(usage, "cache_creation_input_tokens", &written);
    take_number(usage, "input_tokens", &u->input_tokens);
    take_number(usage, "cache_read_input_tokens", &u->cache_read_tokens);
    take_number(usage, "output_tokens", &u->output_tokens);
    if (json_is_object(split)) {
        take_number(split, "ephemeral_5m_input_tokens",
                    &u->cache_write_5m_tokens);
        take_number(split, "ephemeral_1h_input_tokens",
                    &u->cache_write_1h_tokens);
    } else if (written >= 0) {
        u->cache_write_5m_tokens = written > u->cache_write_1h_tokens
                                       ? written - u->cache_write_1h_tokens
                                       : 0;
    }
}

static void
replace_text(char **p, const char *text)
{
    if (text != NULL) {
        free(*p);
        *p = xstrdup(text);
    }
}

static void
take_stop(struct claude_stream *s, const struct cJSON *from)
{
    replace_text(&s->stop_reason, json_string(from, "stop_reason"));
    replace_text(&s->explanation,
                 json_string(json_get(from, "stop_details"), "explanation"));
}

static int
on_block_stop(struct claude_stream *s, int64_t index)
{
    struct claude_block *b = find_meant(s, index);

    /* Ended twice. */
    if (b == NULL && is_over(s, index)) {
        return 0;
    }
    if (b == NULL) {
        return fail_protocol(s, "the service ended no open block");
    }
    stop_block(s, b);
    return 0;
}

static int
on_event(struct claude_stream *s, const char *type, const struct cJSON *event,
         const char *raw, size_t len)
{
    if (str_eq(type, "message_start")) {
        const struct cJSON *message = json_get(event, "message");

        if (s->started) {
            return fail_protocol(s, "the service began the reply twice");
        }
        s->started = true;
        replace_text(&s->model, json_string(message, "model"));
        take_usage(s, json_get(message, "usage"));
        take_stop(s, message);
    } else if (str_eq(type, "content_block_start")) {
        return on_block_start(s, event, raw, len);
    } else if (str_eq(type, "content_block_delta")) {
        return on_delta(s, event, raw, len);
    } else if (str_eq(type, "content_block_stop")) {
        return on_block_stop(s, json_int(event, "index", -1));
    } else if (str_eq(type, "message_delta")) {
        s->started = s->started || s->compatible;
        take_stop(s, json_get(event, "delta"));
        take_usage(s, json_get(event, "usage"));
    } else if (str_eq(type, "message_stop")) {
        if (!s->started) {
            return fail_protocol(s, "the service ended no reply");
        }
        s->complete = true;
    } else if (str_eq(type, "error")) {
        claude_codec_failure(0, raw, len, s->request_id, s->out);
        return -1;
    }
    return 0;
}

static int
on_sse(void *ctx, const char *name, const char *data, size_t len)
{
    struct claude_stream *s = ctx;
    AUTO_JSON struct cJSON *event = NULL;
    AUTO_SBUF struct sbuf repaired = {0};
    struct claude_fragment fragment;
    struct error err = {0};
    const char *type;

    sbuf_init(&repaired, len * 3);
    if (s->complete || !wants_more(s) || strcmp(data, "[DONE]") == 0) {
        return 0;
    }
    if (!utf8_valid(data, len)) {
        utf8_add_repaired(&repaired, data, len);
        data = repaired.data;
        len = repaired.len;
    }
    if (claude_fragment_read(data, len, &fragment, &s->piece)) {
        s->n_events++;
        return on_fragment(s, &fragment);
    }
    event = json_parse(data, len, CLAUDE_JSON_DEPTH, &err);
    if (event == NULL && strcmp(name, "error") == 0) {
        claude_codec_failure(0, "", 0, s->request_id, s->out);
        return -1;
    }
    if (event == NULL) {
        error_fill(&s->out->err, ERR_PROTOCOL,
                   "the service sent an event that is no JSON (%s)", err.msg);
        s->out->retry = false;
        return -1;
    }
    type = json_string(event, "type");
    if (!str_eq(type, "ping")) {
        s->n_events++;
    }
    return on_event(s, type, event, data, len);
}

/* --- public --- */

struct claude_stream *
claude_stream_new(bool compatible, const char *request_id,
                  const struct claude_stream_handlers *handlers, void *ctx)
{
    struct claude_stream *s = xcalloc(1, sizeof(*s));

    s->on = *handlers;
    s->ctx = ctx;
    s->compatible = compatible;
    s->request_id = xstrdup(request_id);
    sse_init(&s->sse);
    sbuf_init(&s->piece, 3 * (size_t)SSE_MAX_EVENT_BYTES);
    return s;
}

void
claude_stream_set_history(struct claude_stream *s,
                          const struct claude_history *history)
{
    s->history = history;
}

void
claude_stream_free(struct claude_stream *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->n_blocks; i++) {
        free_block(&s->blocks[i]);
    }
    free(s->blocks);
    free(s->stop_reason);
    free(s->explanation);
    free(s->model);
    free(s->request_id);
    sse_fini(&s->sse);
    sbuf_fini(&s->piece);
    free(s);
}

int
claude_stream_feed(struct claude_stream *s, const char *bytes, size_t len,
                   struct claude_failure *out)
{
    struct error err = {0};
    int rc;

    s->out = out;
    rc = sse_feed(&s->sse, bytes, len, on_sse, s, &err);
    if (rc != 0 && err.code != ERR_NONE) {
        out->err = err;
        out->retry = false;
    }
    s->out = NULL;
    return rc != 0 ? -1 : 0;
}

bool
claude_stream_is_complete(const struct claude_stream *s)
{
    return s->complete;
}

uint64_t
claude_stream_n_events(const struct claude_stream *s)
{
    return s->n_events;
}

int
claude_stream_finish(struct claude_stream *s, struct claude_reply *reply,
                     struct claude_failure *out)
{
    bool ended =
        s->complete || (s->compatible && s->started && s->stop_reason != NULL);
    enum claude_stop stop;

    s->out = out;
    if (!ended) {
        return fail(s, ERR_NET, true,
                    s->n_events > 0 ? "the reply ended early"
                                    : "the service sent no reply");
    }
    if (claude_reply_has_double_id(s)) {
        return fail_protocol(s, "the service used the id of a tool call twice");
    }
    stop = claude_reply_decide_stop(s);
    /* Only after the decision: what a server left open is no call there. */
    for (size_t i = 0; i < s->n_blocks; i++) {
        stop_block(s, &s->blocks[i]);
    }
    claude_reply_fill(s, stop, reply);
    return 0;
}

void
claude_stream_partial(struct claude_stream *s, struct claude_reply *reply)
{
    claude_reply_fill_partial(s, reply);
}
