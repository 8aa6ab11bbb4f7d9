/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/agent_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"

/* ---- the script of the model ----------------------------------------------
 */

struct exchange *
last_exchange(struct fixture *f)
{
    assert_true(f->n_x > 0);
    return &f->x[f->n_x - 1];
}

void
add_piece(struct fixture *f, enum piece_kind kind, char *text)
{
    struct exchange *x = last_exchange(f);

    assert_true(x->n_pieces < MAX_PIECES);
    x->pieces[x->n_pieces++] = (struct piece){.kind = kind, .text = text};
}

struct exchange *
x_status(struct fixture *f, int status, const char *body)
{
    struct exchange *x = &f->x[f->n_x++];

    assert_true(f->n_x <= MAX_EXCHANGES);
    x->status = status;
    if (body != NULL)
        add_piece(f, PIECE_BODY, xstrdup(body));
    return x;
}

void
x_begin_with(struct fixture *f, const char *usage)
{
    AUTO_FREE char *body = xasprintf(
        "event: message_start\ndata: {\"type\":\"message_start\","
        "\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":"
        "\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":"
        "null,\"stop_sequence\":null,\"usage\":{%s}}}\n\n",
        usage);

    x_status(f, 200, body);
}

void
x_begin(struct fixture *f)
{
    x_begin_with(f, "\"input_tokens\":10,\"output_tokens\":1");
}

static void
add_event(struct fixture *f, const char *type, const char *rest)
{
    add_piece(f, PIECE_BODY,
              xasprintf("event: %s\ndata: {\"type\":\"%s\"%s}\n\n", type, type,
                        rest));
}

static void
add_block(struct fixture *f, const char *type, const char *rest)
{
    AUTO_FREE char *text =
        xasprintf(",\"index\":%d%s", last_exchange(f)->n_blocks, rest);

    add_event(f, type, text);
}

void
add_delta(struct fixture *f, const char *type, const char *key,
          const char *text, size_t len)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, 1u << 20);
    sbuf_addf(&sb, ",\"delta\":{\"type\":\"%s\",\"%s\":", type, key);
    json_add_string(&sb, text, len);
    sbuf_add_char(&sb, '}');
    add_block(f, "content_block_delta", sb.data);
}

void
end_block(struct fixture *f)
{
    add_block(f, "content_block_stop", "");
    last_exchange(f)->n_blocks++;
}

void
x_open_thinking(struct fixture *f, const char *text)
{
    add_block(f, "content_block_start",
              ",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\","
              "\"signature\":\"\"}");
    add_delta(f, "thinking_delta", "thinking", text, strlen(text));
}

void
x_thinking(struct fixture *f, const char *text)
{
    x_open_thinking(f, text);
    add_delta(f, "signature_delta", "signature", "c2ln", 4);
    end_block(f);
}

void
x_open_text(struct fixture *f, const char *text)
{
    add_block(f, "content_block_start",
              ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    add_delta(f, "text_delta", "text", text, strlen(text));
}

void
x_text(struct fixture *f, const char *text)
{
    x_open_text(f, text);
    end_block(f);
}

/* A call whose input is not complete. */
void
x_open_tool(struct fixture *f, const char *id, const char *name,
            const char *input)
{
    AUTO_FREE char *start =
        xasprintf(",\"content_block\":{\"type\":\"tool_use\",\"id\":\"%s\","
                  "\"name\":\"%s\",\"input\":{}}",
                  id, name);
    size_t half = strlen(input) / 2;

    add_block(f, "content_block_start", start);
    add_delta(f, "input_json_delta", "partial_json", input, half);
    add_delta(f, "input_json_delta", "partial_json", input + half,
              strlen(input) - half);
}

void
x_tool(struct fixture *f, const char *id, const char *name, const char *input)
{
    x_open_tool(f, id, name, input);
    end_block(f);
}

void
x_python(struct fixture *f, const char *id, const char *code)
{
    AUTO_FREE char *input = xasprintf("{\"code\":\"%s\"}", code);

    x_tool(f, id, "run_python", input);
}

void
x_end_with(struct fixture *f, const char *stop_reason, int output_tokens)
{
    AUTO_FREE char *rest =
        xasprintf(",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null},"
                  "\"usage\":{\"output_tokens\":%d}",
                  stop_reason, output_tokens);

    add_event(f, "message_delta", rest);
    add_event(f, "message_stop", "");
}

void
x_end(struct fixture *f, const char *stop_reason)
{
    x_end_with(f, stop_reason, 7);
}

void
x_answer(struct fixture *f, const char *text)
{
    x_begin(f);
    x_text(f, text);
    x_end(f, "end_turn");
}

void
x_hang(struct fixture *f)
{
    add_piece(f, PIECE_HANG, NULL);
}

void
clear_exchanges(struct fixture *f)
{
    for (size_t i = 0; i < f->n_x; i++) {
        for (size_t k = 0; k < f->x[i].n_pieces; k++)
            free(f->x[i].pieces[k].text);
    }
    memset(f->x, 0, sizeof(f->x));
    f->n_x = 0;
    f->at_x = 0;
}

/* ---- what the service checks ----------------------------------------------
 */

struct open_ids {
    char ids[8][32];
    size_t n;
};

/* One user message: every open call answered, in order, before all else. */
static void
check_user(const struct cJSON *content, struct open_ids *open)
{
    size_t n_results = 0;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        if (str_eq(json_string(b, "type"), "tool_result")) {
            const struct cJSON *text = json_first(json_get(b, "content"));

            assert_true(n_results < open->n);
            assert_string_equal(json_string(b, "tool_use_id"),
                                open->ids[n_results]);
            assert_false(str_blank(json_string(text, "text")));
            n_results++;
            continue;
        }
        assert_string_equal(json_string(b, "type"), "text");
        assert_false(str_blank(json_string(b, "text")));
        assert_int_equal(n_results, open->n);
    }
    assert_int_equal(n_results, open->n);
    open->n = 0;
}

static void
check_assistant(const struct cJSON *content, struct open_ids *open)
{
    const char *type = NULL;

    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        type = json_string(b, "type");
        if (str_eq(type, "tool_use")) {
            assert_true(open->n < LEN(open->ids));
            assert_true(json_is_object(json_get(b, "input")));
            snprintf(open->ids[open->n++], sizeof(open->ids[0]), "%s",
                     json_string(b, "id"));
        } else if (str_eq(type, "text")) {
            assert_false(str_blank(json_string(b, "text")));
            assert_int_equal(open->n, 0);
        } else {
            assert_string_equal(type, "thinking");
            assert_string_equal(json_string(b, "signature"), "c2ln");
        }
    }
    assert_string_not_equal(type, "thinking");
}

static void
check_messages(const char *text, size_t len, bool may_pause)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_JSON struct cJSON *tree = NULL;
    struct open_ids open = {.n = 0};
    const char *role = NULL;

    sbuf_init(&sb, len + 2);
    sbuf_add_char(&sb, '[');
    sbuf_add(&sb, text, len);
    sbuf_add_char(&sb, ']');
    assert_true(utf8_valid(sb.data, sb.len));
    tree = json_parse(sb.data, sb.len, 0, NULL);
    assert_non_null(tree);
    for (const struct cJSON *m = json_first(tree); m != NULL;
         m = json_next(m)) {
        const struct cJSON *content = json_get(m, "content");
        bool is_user = str_eq(json_string(m, "role"), "user");

        assert_true(role != NULL || is_user);
        /* Only a reply that was paused is sent with nothing behind it. */
        assert_true(is_user || !str_eq(role, "assistant") || may_pause);
        role = json_string(m, "role");
        assert_true(json_len(content) > 0);
        if (is_user)
            check_user(content, &open);
        else
            check_assistant(content, &open);
    }
    assert_true(str_eq(role, "user") || may_pause);
    assert_int_equal(open.n, 0);
}

static bool
extends(const char *text, size_t len, const struct sbuf *before)
{
    if (before->len == 0)
        return true;
    return len >= before->len && memcmp(text, before->data, before->len) == 0 &&
           (len == before->len || text[before->len] == ',');
}

/* Nothing that was sent is changed; only a question without any reply may be
   missing in the first request of the next turn. */
void
check_request(struct fixture *f, const char *body, size_t len)
{
    static const char MESSAGES[] = "\"messages\":[";
    static const char MAX_TOKENS[] = "\"max_tokens\":";
    const char *max_tokens = memmem(body, len, MAX_TOKENS, strlen(MAX_TOKENS));
    const char *text = memmem(body, len, MESSAGES, strlen(MESSAGES));
    size_t n = 0;

    assert_non_null(text);
    assert_non_null(max_tokens);
    f->max_tokens = strtoll(max_tokens + strlen(MAX_TOKENS), NULL, 10);
    text += strlen(MESSAGES);
    n = len - (size_t)(text - body);
    assert_true(n > 2 && memcmp(text + n - 2, "]}", 2) == 0);
    n -= 2;
    check_messages(text, n, f->may_pause);
    if (!extends(text, n, &f->last) &&
        !(f->first_in_turn && f->may_rewind && extends(text, n, &f->turn_base)))
        fail_msg("sent before:\n%s\nnow:\n%.*s", f->last.data, (int)n, text);
    if (f->first_in_turn && !f->is_retry) {
        sbuf_clear(&f->turn_base);
        if (f->may_rewind && !extends(text, n, &f->last))
            sbuf_add(&f->turn_base, "", 0);
        else
            sbuf_add(&f->turn_base, f->last.data, f->last.len);
    }
    f->first_in_turn = false;
    sbuf_clear(&f->last);
    sbuf_add(&f->last, text, n);
    f->n_requests++;
}
