/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * A replay file is one JSON document:
 *
 *     {
 *       "sandpiper-replay": 1,
 *       "exchanges": [
 *         {
 *           "expect": {"user": "which region", "roles": ["user"]},
 *           "status": 200,
 *           "headers": {"request-id": "req_01"},
 *           "events": [{"type": "message_start", ...}, "event: x\n\n", ...],
 *           "cut": true
 *         },
 *         {"status": 529, "headers": {"retry-after-ms": "20"}, "body": "..."},
 *         {"expect": {"tool_result": "1229"}, "reply": [
 *           {"type": "text", "text": "There are 1229."},
 *           {"type": "tool_use", "id": "toolu_1", "name": "run_python",
 *            "input": {"code": "print(1)"}}
 *         ]}
 *       ]
 *     }
 *
 * Each request takes the next exchange. What is sent back is one of "events"
 * (an object is sent as the event of its type, a string as it is), "reply" (the
 * blocks of a whole reply, of which the events are made; "stop_reason" beside
 * it if it is not the obvious one) or "body" (a string as it is, anything else
 * as JSON). "status" is 200 and "headers" are empty if left out, but for a
 * content-type. "cut": the connection breaks behind the last piece.
 *
 * Each request is checked: roles, no blank text, each tool call answered in
 * the next message. "expect" asks for more: "user" must occur in the texts of
 * the last message, "tool_result" in its results, "roles" are those of all
 * messages, of which the last is the user's if they are not given.
 */
#include "claude/transport.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_raw_internal.h"

#define REPLAY_VERSION 1
#define REPLAY_MAX_BYTES ((size_t)64 << 20)
#define REPLAY_CHUNK_BYTES ((size_t)16384)
#define REPLAY_FRAGMENT_BYTES ((size_t)24)

struct piece {
    char *data; /* owned */
    size_t len;
};

struct exchange {
    const struct cJSON *expect;  /* borrowed: from the document; may be NULL */
    const struct cJSON *headers; /* the same */
    const char *content_type;    /* if the headers have none */
    int status;
    bool cut;
    struct piece *pieces; /* owned */
    size_t n_pieces;
};

struct transport_replay {
    struct loop *loop; /* borrowed */
    int64_t pace_ms;
    struct cJSON *document;     /* owned */
    struct exchange *exchanges; /* owned */
    size_t n_exchanges;
    size_t n_used;
    struct transport_call *call; /* owned; NULL: none in progress */
    bool freed;
};

struct transport_call {
    struct transport_replay *replay;
    const struct exchange *exchange; /* borrowed: from replay */
    struct transport_handlers on;
    void *ctx;
    bool head_done;
    size_t n_done;
    struct loop_timer *timer;
    bool cancelled;
    bool dropped;
    bool busy; /* a callback of the caller is on the stack */
};

/* --- reading the file --- */

static void
add_piece(struct exchange *x, const char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n =
            len - at < REPLAY_CHUNK_BYTES ? len - at : REPLAY_CHUNK_BYTES;

        x->pieces = xgrow(x->pieces, x->n_pieces, sizeof(*x->pieces));
        x->pieces[x->n_pieces++] = (struct piece){xstrndup(data + at, n), n};
        at += n;
    }
}

static void
add_event_text(struct exchange *x, const char *type, const char *json)
{
    AUTO_FREE char *text =
        type != NULL ? xasprintf("event: %s\ndata: %s\n\n", type, json)
                     : xasprintf("data: %s\n\n", json);

    add_piece(x, text, strlen(text));
}

static void
add_events(struct exchange *x, const struct cJSON *events)
{
    for (const struct cJSON *e = json_first(events); e != NULL;
         e = json_next(e)) {
        const char *raw = json_value_string(e);

        if (raw != NULL) {
            add_piece(x, raw, strlen(raw));
        } else {
            AUTO_FREE char *json = json_print(e);

            add_event_text(x, json_string(e, "type"), json);
        }
    }
}

/* One delta of a block: {"type": DELTA, MEMBER: text}. */
static void
add_delta(struct exchange *x, size_t index, const char *delta,
          const char *member, const char *text, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, REPLAY_MAX_BYTES);
    sbuf_addf(&sb,
              "{\"type\":\"content_block_delta\",\"index\":%zu,"
              "\"delta\":{\"type\":\"%s\",\"%s\":",
              index, delta, member);
    json_add_string(&sb, text, len);
    sbuf_add_str(&sb, "}}");
    add_event_text(x, "content_block_delta", sb.data);
}

static void
add_deltas(struct exchange *x, size_t index, const char *delta,
           const char *member, const char *text)
{
    size_t len = strlen(text);

    for (size_t at = 0; at < len;) {
        size_t n = utf8_floor(text + at, len - at,
                              len - at < REPLAY_FRAGMENT_BYTES
                                  ? len - at
                                  : REPLAY_FRAGMENT_BYTES);

        /* As words, where there are spaces. */
        for (size_t k = n; at + n < len && k > n / 2; k--) {
            if (text[at + k - 1] == ' ') {
                n = k;
                break;
            }
        }
        add_delta(x, index, delta, member, text + at, n);
        at += n;
    }
}

static void
add_block_start(struct exchange *x, size_t index, const struct cJSON *block,
                const char *type)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, REPLAY_MAX_BYTES);
    sbuf_addf(&sb,
              "{\"type\":\"content_block_start\",\"index\":%zu,"
              "\"content_block\":{",
              index);
    json_add_member_str(&sb, "type", type);
    if (str_eq(type, "text")) {
        json_add_member_str(&sb, "text", "");
    } else if (str_eq(type, "thinking")) {
        json_add_member_str(&sb, "thinking", "");
        json_add_member_str(&sb, "signature", "");
    } else {
        json_add_member_str(&sb, "id", json_string(block, "id"));
        json_add_member_str(&sb, "name", json_string(block, "name"));
        sbuf_add_str(&sb, ",\"input\":{}");
    }
    sbuf_add_str(&sb, "}}");
    add_event_text(x, "content_block_start", sb.data);
}

static int
add_block(struct exchange *x, size_t index, const struct cJSON *block,
          struct error *err)
{
    const char *type = json_string(block, "type");
    const char *text = json_string(block, "text");
    const char *thought = json_string(block, "thinking");
    const char *signature = json_string(block, "signature");
    const struct cJSON *input = json_get(block, "input");
    AUTO_FREE char *stop =
        xasprintf("{\"type\":\"content_block_stop\",\"index\":%zu}", index);

    if (str_eq(type, "text") && text != NULL) {
        add_block_start(x, index, block, type);
        add_deltas(x, index, "text_delta", "text", text);
    } else if (str_eq(type, "thinking") && thought != NULL) {
        add_block_start(x, index, block, type);
        add_deltas(x, index, "thinking_delta", "thinking", thought);
        if (signature != NULL) {
            add_delta(x, index, "signature_delta", "signature", signature,
                      strlen(signature));
        }
    } else if (str_eq(type, "tool_use") && json_is_object(input) &&
               json_string(block, "id") != NULL &&
               json_string(block, "name") != NULL) {
        AUTO_FREE char *json = json_print(input);

        add_block_start(x, index, block, type);
        add_deltas(x, index, "input_json_delta", "partial_json", json);
    } else {
        return err_set(err, ERR_DATA,
                       "block %zu of the reply is no text, thinking or "
                       "tool_use with all its members",
                       index + 1);
    }
    add_event_text(x, "content_block_stop", stop);
    return 0;
}

static int
add_reply(struct exchange *x, const struct cJSON *reply, const char *stop,
          struct error *err)
{
    AUTO_SBUF struct sbuf end = {0};
    size_t index = 0;

    add_event_text(x, "message_start",
                   "{\"type\":\"message_start\",\"message\":{"
                   "\"id\":\"msg_replay\",\"type\":\"message\","
                   "\"role\":\"assistant\",\"model\":\"replay\","
                   "\"content\":[],\"stop_reason\":null,"
                   "\"stop_sequence\":null,\"usage\":{\"input_tokens\":0,"
                   "\"output_tokens\":0}}}");
    for (const struct cJSON *block = json_first(reply); block != NULL;
         block = json_next(block)) {
        if (add_block(x, index, block, err) < 0) {
            return -1;
        }
        index++;
        if (stop == NULL && str_eq(json_string(block, "type"), "tool_use")) {
            stop = "tool_use";
        }
    }
    sbuf_init(&end, REPLAY_MAX_BYTES);
    sbuf_add_str(&end, "{\"type\":\"message_delta\",\"delta\":{");
    json_add_member_str(&end, "stop_reason", stop != NULL ? stop : "end_turn");
    sbuf_add_str(&end, "},\"usage\":{\"output_tokens\":0}}");
    add_event_text(x, "message_delta", end.data);
    add_event_text(x, "message_stop", "{\"type\":\"message_stop\"}");
    return 0;
}

static int
check_keys(const struct cJSON *object, const char *const *known, size_t n,
           struct error *err)
{
    if (object != NULL && !json_is_object(object)) {
        return err_set(err, ERR_DATA, "not an object");
    }
    for (const struct cJSON *m = json_first(object); m != NULL;
         m = json_next(m)) {
        bool found = false;

        for (size_t i = 0; i < n; i++) {
            found = found || str_eq(json_key(m), known[i]);
        }
        if (!found) {
            return err_set(err, ERR_DATA, "unknown key %s", json_key(m));
        }
    }
    return 0;
}

static int
read_exchange(struct exchange *x, const struct cJSON *from, struct error *err)
{
    static const char *const keys[] = {"expect", "status",      "headers",
                                       "events", "reply",       "body",
                                       "cut",    "stop_reason", "comment"};
    static const char *const expect_keys[] = {"user", "tool_result", "roles"};
    const struct cJSON *events = json_get(from, "events");
    const struct cJSON *reply = json_get(from, "reply");
    const struct cJSON *body = json_get(from, "body");

    x->expect = json_get(from, "expect");
    x->headers = json_get(from, "headers");
    if (!json_is_object(from) ||
        (x->headers != NULL && !json_is_object(x->headers))) {
        return err_set(err, ERR_DATA, "not an object");
    }
    if (check_keys(from, keys, LEN(keys), err) < 0 ||
        check_keys(x->expect, expect_keys, 3, err) < 0) {
        return -1;
    }
    if ((events != NULL) + (reply != NULL) + (body != NULL) != 1) {
        return err_set(err, ERR_DATA, "it needs one of events, reply and body");
    }
    x->status = (int)json_int(from, "status", 200);
    x->cut = json_bool(from, "cut", false);
    if (x->status < 200 || x->status > 599) {
        return err_set(err, ERR_DATA, "status: %d is not in 200 to 599",
                       x->status);
    }
    x->content_type = body != NULL ? "application/json" : "text/event-stream";
    if (reply != NULL) {
        return add_reply(x, reply, json_string(from, "stop_reason"), err);
    }
    if (events != NULL && !json_is_array(events)) {
        return err_set(err, ERR_DATA, "events: not an array");
    }
    if (events != NULL) {
        add_events(x, events);
    } else if (json_value_string(body) != NULL) {
        add_piece(x, json_value_string(body), strlen(json_value_string(body)));
    } else {
        AUTO_FREE char *json = json_print(body);

        add_piece(x, json, strlen(json));
    }
    return 0;
}

static int
read_document(struct transport_replay *r, struct error *err)
{
    const struct cJSON *exchanges = json_get(r->document, "exchanges");
    int64_t version = json_int(r->document, "sandpiper-replay", 0);

    if (version != REPLAY_VERSION) {
        return err_set(err, ERR_DATA,
                       "sandpiper-replay: not a replay file of version %d",
                       REPLAY_VERSION);
    }
    if (!json_is_array(exchanges)) {
        return err_set(err, ERR_DATA, "exchanges: not an array");
    }
    for (const struct cJSON *from = json_first(exchanges); from != NULL;
         from = json_next(from)) {
        r->exchanges = xreallocarray(r->exchanges, r->n_exchanges + 1,
                                     sizeof(*r->exchanges));
        r->exchanges[r->n_exchanges] = (struct exchange){0};
        r->n_exchanges++;
        if (read_exchange(&r->exchanges[r->n_exchanges - 1], from, err) < 0) {
            return err_wrap(err, "exchange %zu", r->n_exchanges);
        }
    }
    return 0;
}

/* --- checking a request --- */

static const char *
text_of(const struct cJSON *block)
{
    const char *text = json_value_string(block);

    return text != NULL ? text : json_string(block, "text");
}

/* Whether needle is in a text among blocks (or in a string). */
static bool
has_text(const struct cJSON *content, const char *needle)
{
    const char *whole = json_value_string(content);

    if (whole != NULL) {
        return strstr(whole, needle) != NULL;
    }
    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        const char *text = text_of(b);

        if (text != NULL && strstr(text, needle) != NULL) {
            return true;
        }
    }
    return false;
}

static bool
has_result_text(const struct cJSON *content, const char *needle)
{
    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        if (str_eq(json_string(b, "type"), "tool_result") &&
            has_text(json_get(b, "content"), needle)) {
            return true;
        }
    }
    return false;
}

static size_t
count_type(const struct cJSON *content, const char *type, const char *key,
           const char *value)
{
    size_t n = 0;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        if (str_eq(json_string(b, "type"), type) &&
            (key == NULL || str_eq(json_string(b, key), value))) {
            n++;
        }
    }
    return n;
}

/* Each tool call of the message before must be answered in this one, once, and
   nothing else be answered. */
static int
check_results(const struct cJSON *before, const struct cJSON *content,
              struct error *err)
{
    for (const struct cJSON *b = json_first(before); b != NULL;
         b = json_next(b)) {
        const char *id = json_string(b, "id");

        if (str_eq(json_string(b, "type"), "tool_use") &&
            count_type(content, "tool_result", "tool_use_id", id) != 1) {
            return err_set(err, ERR_PROTOCOL, "tool call %s is not answered",
                           id != NULL ? id : "without an id");
        }
    }
    if (count_type(content, "tool_result", NULL, NULL) !=
        count_type(before, "tool_use", NULL, NULL)) {
        return err_set(err, ERR_PROTOCOL, "a tool result without a call");
    }
    return 0;
}

static int
check_texts(const struct cJSON *content, struct error *err)
{
    bool text_before = false;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        const char *type = json_string(b, "type");
        const char *text = json_string(b, "text");

        if (str_eq(type, "text")) {
            text_before = true;
            if (text == NULL || claude_text_is_blank(text, strlen(text))) {
                return err_set(err, ERR_PROTOCOL, "a blank text");
            }
        } else if (str_eq(type, "tool_result") && text_before) {
            return err_set(err, ERR_PROTOCOL, "text before a tool result");
        }
    }
    return 0;
}

static int
check_messages(const struct cJSON *messages, struct error *err)
{
    const struct cJSON *before = NULL;
    const char *role = NULL;

    for (const struct cJSON *m = json_first(messages); m != NULL;
         m = json_next(m)) {
        const struct cJSON *content = json_get(m, "content");
        bool first = role == NULL;

        role = json_string(m, "role");
        if (!str_eq(role, "user") && (first || !str_eq(role, "assistant"))) {
            return err_set(err, ERR_PROTOCOL, "a message of role %s",
                           role != NULL ? role : "?");
        }
        if (check_results(before, content, err) < 0 ||
            check_texts(content, err) < 0) {
            return -1;
        }
        before = str_eq(role, "assistant") ? content : NULL;
    }
    return 0;
}

static int
check_roles(const struct cJSON *roles, const struct cJSON *messages,
            struct error *err)
{
    const struct cJSON *m = json_first(messages);

    if (roles == NULL) {
        return 0;
    }
    for (const struct cJSON *r = json_first(roles); r != NULL;
         r = json_next(r)) {
        if (!str_eq(json_value_string(r), json_string(m, "role"))) {
            return err_set(err, ERR_PROTOCOL, "other roles than expected");
        }
        m = json_next(m);
    }
    if (m != NULL) {
        return err_set(err, ERR_PROTOCOL, "more messages than expected");
    }
    return 0;
}

static int
check_expected(const struct exchange *x, const struct cJSON *messages,
               struct error *err)
{
    const char *user = json_string(x->expect, "user");
    const char *result = json_string(x->expect, "tool_result");
    size_t n = json_len(messages);
    const struct cJSON *last = n > 0 ? json_item(messages, n - 1) : NULL;
    const struct cJSON *content = json_get(last, "content");

    /* Only a reply that was paused may stand there, and then it is named. */
    if (json_get(x->expect, "roles") == NULL &&
        !str_eq(json_string(last, "role"), "user")) {
        return err_set(err, ERR_PROTOCOL, "the last message is not the user's");
    }
    if (user != NULL && !has_text(content, user)) {
        return err_set(err, ERR_PROTOCOL,
                       "the last message does not have the text: %s", user);
    }
    if (result != NULL && !has_result_text(content, result)) {
        return err_set(err, ERR_PROTOCOL, "no tool result has the text: %s",
                       result);
    }
    if (json_bool(x->expect, "tool_result", false) &&
        count_type(content, "tool_result", NULL, NULL) == 0) {
        return err_set(err, ERR_PROTOCOL, "no tool result");
    }
    return check_roles(json_get(x->expect, "roles"), messages, err);
}

static int
check_request(const struct exchange *x, const struct transport_request *request,
              struct error *err)
{
    AUTO_JSON struct cJSON *body = json_parse(request->body, request->body_len,
                                              CLAUDE_JSON_DEPTH + 8, err);
    const struct cJSON *messages = json_get(body, "messages");

    if (body == NULL) {
        return -1;
    }
    if (!json_is_array(messages)) {
        return err_set(err, ERR_PROTOCOL, "a request without messages");
    }
    if (check_messages(messages, err) < 0) {
        return -1;
    }
    return check_expected(x, messages, err);
}

/* --- answering --- */

static void
free_call(struct transport_call *call)
{
    loop_timer_remove(call->timer);
    call->replay->call = NULL;
    free(call);
}

static void
destroy(struct transport_replay *r)
{
    if (r->call != NULL) {
        free_call(r->call);
    }
    for (size_t i = 0; i < r->n_exchanges; i++) {
        for (size_t k = 0; k < r->exchanges[i].n_pieces; k++) {
            free(r->exchanges[i].pieces[k].data);
        }
        free(r->exchanges[i].pieces);
    }
    free(r->exchanges);
    json_free(r->document);
    free(r);
}

/* The end of a step; true when the call is gone. */
static bool
is_gone(struct transport_call *call)
{
    struct transport_replay *r = call->replay;
    bool freed = r->freed;

    call->busy = false;
    if (!call->dropped) {
        return false;
    }
    free_call(call);
    if (freed) {
        destroy(r);
    }
    return true;
}

static void
end_call(struct transport_call *call)
{
    struct transport_replay *r = call->replay;
    struct error err = {0};

    if (call->cancelled) {
        error_fill(&err, ERR_CANCELLED, "cancelled");
    } else if (call->exchange->cut) {
        error_fill(&err, ERR_NET, "replay: the connection was cut");
    }
    /* The next request may begin in the callback. */
    r->call = NULL;
    call->busy = true;
    call->on.on_done(call->ctx, err.code != ERR_NONE ? &err : NULL);
    /* The replay itself may have been freed in the callback. */
    free(call);
}

static void
on_step(void *ctx)
{
    struct transport_call *call = ctx;
    const struct exchange *x = call->exchange;
    struct loop *loop = call->replay->loop;
    int64_t pace_ms = call->replay->pace_ms;

    call->timer = NULL;
    if (call->cancelled || (call->head_done && call->n_done == x->n_pieces)) {
        end_call(call);
        return;
    }
    call->busy = true;
    if (!call->head_done) {
        call->head_done = true;
        call->on.on_head(call->ctx, x->status);
        pace_ms = 0;
    } else {
        const struct piece *p = &x->pieces[call->n_done++];

        call->on.on_body(call->ctx, p->data, p->len);
    }
    if (!is_gone(call)) {
        loop_timer_remove(call->timer);
        call->timer =
            loop_add_timer(loop, call->cancelled ? 0 : pace_ms, on_step, call);
    }
}

static struct transport_call *
start(void *transport, const struct transport_request *request,
      const struct transport_handlers *handlers, void *ctx, struct error *err)
{
    struct transport_replay *r = transport;
    struct transport_call *call;

    if (r->call != NULL) {
        error_fill(err, ERR_INTERNAL, "replay: a request is in progress");
        return NULL;
    }
    if (r->n_used == r->n_exchanges) {
        error_fill(err, ERR_PROTOCOL,
                   "replay: there is no answer left after %zu exchanges",
                   r->n_exchanges);
        return NULL;
    }
    if (check_request(&r->exchanges[r->n_used], request, err) < 0) {
        error_prepend(err, "replay: exchange %zu", r->n_used + 1);
        return NULL;
    }
    call = xcalloc(1, sizeof(*call));
    call->replay = r;
    call->exchange = &r->exchanges[r->n_used++];
    call->on = *handlers;
    call->ctx = ctx;
    call->timer = loop_add_timer(r->loop, 0, on_step, call);
    r->call = call;
    return call;
}

static const char *
header(const struct transport_call *call, const char *name)
{
    const struct exchange *x = call->exchange;

    for (const struct cJSON *h = json_first(x->headers); h != NULL;
         h = json_next(h)) {
        if (str_eq_nocase(json_key(h), name)) {
            return json_value_string(h);
        }
    }
    return str_eq_nocase(name, "content-type") ? x->content_type : NULL;
}

static void
cancel(struct transport_call *call)
{
    call->cancelled = true;
    loop_timer_remove(call->timer);
    call->timer = NULL;
    if (!call->busy) {
        call->timer = loop_add_timer(call->replay->loop, 0, on_step, call);
    }
}

static void
drop(struct transport_call *call)
{
    if (call->busy) {
        call->dropped = true;
        return;
    }
    free_call(call);
}

static void
free_transport(void *transport)
{
    struct transport_replay *r = transport;

    if (r->call != NULL && r->call->busy) {
        r->call->dropped = true;
        r->freed = true;
        return;
    }
    destroy(r);
}

static const struct transport_ops replay_ops = {
    .name = "replay",
    .is_replay = true,
    .start = start,
    .header = header,
    .cancel = cancel,
    .drop = drop,
    .free = free_transport,
};

int
transport_replay(struct loop *loop, const char *path, int64_t pace_ms,
                 struct transport *out, struct error *err)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error parse_err = {0};
    struct transport_replay *r;

    sbuf_init(&text, REPLAY_MAX_BYTES);
    if (io_read_file(path, &text, err) < 0) {
        return -1;
    }
    r = xcalloc(1, sizeof(*r));
    r->loop = loop;
    r->pace_ms = pace_ms;
    r->document =
        json_parse(text.data, text.len, CLAUDE_JSON_DEPTH, &parse_err);
    if (r->document == NULL) {
        destroy(r);
        return err_set(err, ERR_DATA, "%s: %s", path, parse_err.msg);
    }
    if (read_document(r, err) < 0) {
        destroy(r);
        return err_wrap(err, "%s", path);
    }
    *out = (struct transport){.ops = &replay_ops, .impl = r};
    return 0;
}
