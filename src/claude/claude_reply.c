/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/claude_block_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_raw_internal.h"
#include "claude/history_internal.h"

struct field {
    const char *key;
    const char *value; /* raw JSON; NULL: as in the start */
    bool done;
};

/* The object of the start with some members replaced, all others as sent. */
static void
add_object(struct sbuf *sb, const struct claude_block *b, struct field *fields,
           size_t n_fields)
{
    struct claude_raw_iter it;
    struct claude_raw_member m;
    bool first = true;

    sbuf_add_char(sb, '{');
    claude_raw_begin(&it, b->start, b->start_len);
    while (claude_raw_next(&it, &m)) {
        const char *value = m.value;
        size_t value_len = m.value_len;

        for (size_t i = 0; i < n_fields; i++) {
            if (fields[i].value != NULL && strlen(fields[i].key) == m.key_len &&
                memcmp(fields[i].key, m.key, m.key_len) == 0) {
                value = fields[i].value;
                value_len = strlen(value);
                fields[i].done = true;
            }
        }
        if (!first) {
            sbuf_add_char(sb, ',');
        }
        first = false;
        sbuf_add_char(sb, '"');
        sbuf_add(sb, m.key, m.key_len);
        sbuf_add_str(sb, "\":");
        sbuf_add(sb, value, value_len);
    }
    for (size_t i = 0; i < n_fields; i++) {
        if (fields[i].value != NULL && !fields[i].done) {
            sbuf_addf(sb, "%s\"%s\":", first ? "" : ",", fields[i].key);
            sbuf_add_str(sb, fields[i].value);
            first = false;
        }
    }
    sbuf_add_char(sb, '}');
}

/* What the fragments of a text mean. */
static void
add_decoded(struct sbuf *sb, const struct claude_block *b)
{
    struct claude_decoder decoder = {0};

    claude_decoder_add(&decoder, b->raw.data, b->raw.len, sb);
    /* Of a text that was cut short, half a character is not shown either. */
    if (b->stopped) {
        claude_decoder_end(&decoder, sb);
    }
}

static void
add_trimmed(struct sbuf *sb, const struct claude_block *b)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, 3 * CLAUDE_STREAM_MAX_BYTES);
    add_decoded(&text, b);
    json_add_string(sb, text.data, claude_text_trimmed(text.data, text.len));
}

static void
add_text_block(struct sbuf *sb, const struct claude_block *b, bool trim)
{
    AUTO_SBUF struct sbuf text = {0};
    AUTO_SBUF struct sbuf citations = {0};

    sbuf_init(&text, 8 * CLAUDE_STREAM_MAX_BYTES);
    sbuf_init(&citations, CLAUDE_STREAM_MAX_BYTES + 2);
    if (trim) {
        add_trimmed(&text, b);
    } else {
        sbuf_add_char(&text, '"');
        sbuf_add(&text, b->raw.data, b->raw.len);
        sbuf_add_char(&text, '"');
    }
    if (b->citations.len > 0) {
        sbuf_add_char(&citations, '[');
        sbuf_add(&citations, b->citations.data, b->citations.len);
        sbuf_add_char(&citations, ']');
    }

    struct field fields[] = {
        {"text", text.data, false},
        {"citations", citations.len > 0 ? citations.data : NULL, false},
    };

    add_object(sb, b, fields, 2);
}

static void
add_thinking_block(struct sbuf *sb, const struct claude_block *b)
{
    AUTO_SBUF struct sbuf text = {0};

    sbuf_init(&text, CLAUDE_STREAM_MAX_BYTES + 2);
    sbuf_add_char(&text, '"');
    sbuf_add(&text, b->raw.data, b->raw.len);
    sbuf_add_char(&text, '"');

    struct field fields[] = {
        {"thinking", text.data, false},
        {"signature", b->signature, false},
    };

    add_object(sb, b, fields, 2);
}

/* The raw JSON of a call's input: the fragments, or what the start had, which
   is where servers of other vendors may put it. */
static void
get_input(const struct claude_block *b, const char **raw, size_t *len)
{
    struct claude_raw_member m;

    *raw = "{}";
    *len = 2;
    if (b->has_words) {
        *raw = b->input.data;
        *len = b->input.len;
    } else if (claude_raw_find(b->start, b->start_len, "input", &m) &&
               m.value[0] == '{') {
        *raw = m.value;
        *len = m.value_len;
    }
}

static bool
is_object_text(const char *raw, size_t len)
{
    AUTO_JSON struct cJSON *tree =
        json_parse(raw, len, CLAUDE_JSON_DEPTH - 8, NULL);

    return json_is_object(tree);
}

static void
add_tool_block(struct sbuf *sb, const struct claude_block *b)
{
    AUTO_SBUF struct sbuf input = {0};
    const char *raw;
    size_t len;

    sbuf_init(&input, 8 * CLAUDE_STREAM_MAX_BYTES);
    get_input(b, &raw, &len);
    if (!b->decoder.has_nul && is_object_text(raw, len)) {
        sbuf_add(&input, raw, len);
    } else {
        sbuf_add_str(&input, "{\"INVALID_JSON\":");
        json_add_string(&input, raw, len);
        sbuf_add_char(&input, '}');
    }

    AUTO_FREE char *id = b->has_own_id ? xasprintf("\"%s\"", b->id) : NULL;
    struct field fields[] = {{"id", id, false}, {"input", input.data, false}};

    add_object(sb, b, fields, 2);
}

/* Which blocks are sent back. */
static bool
is_kept(const struct claude_block *b, bool with_calls, bool texts_only)
{
    if (b->kind == CLAUDE_BLOCK_TEXT) {
        return b->has_words;
    }
    return !texts_only && (with_calls || !b->is_call);
}

static char *
make_content(const struct claude_stream *s, bool with_calls, bool texts_only,
             bool trim)
{
    AUTO_SBUF struct sbuf sb = {0};
    struct sbuf mended;
    size_t n = s->n_blocks;
    bool first = true;

    sbuf_init(&sb, 8 * CLAUDE_STREAM_MAX_BYTES);
    sbuf_init(&mended, 8 * CLAUDE_STREAM_MAX_BYTES);
    /* A message that ends in thinking has been refused. */
    while (n > 0 && (!is_kept(&s->blocks[n - 1], with_calls, texts_only) ||
                     s->blocks[n - 1].is_thought)) {
        n--;
    }
    sbuf_add_char(&sb, '[');
    for (size_t i = 0; i < n; i++) {
        const struct claude_block *b = &s->blocks[i];

        if (!is_kept(b, with_calls, texts_only)) {
            continue;
        }
        if (!first) {
            sbuf_add_char(&sb, ',');
        }
        first = false;
        if (b->kind == CLAUDE_BLOCK_TEXT) {
            add_text_block(&sb, b, trim && i == n - 1);
        } else if (b->kind == CLAUDE_BLOCK_THINKING) {
            add_thinking_block(&sb, b);
        } else if (b->kind == CLAUDE_BLOCK_TOOL) {
            add_tool_block(&sb, b);
        } else {
            sbuf_add(&sb, b->start, b->start_len);
        }
    }
    sbuf_add_char(&sb, ']');
    claude_raw_add_mended(&mended, sb.data, sb.len);
    return sbuf_take(&mended);
}

static char *
make_text(const struct claude_stream *s)
{
    struct sbuf sb;

    sbuf_init(&sb, 4 * CLAUDE_STREAM_MAX_BYTES);
    for (size_t i = 0; i < s->n_blocks; i++) {
        const struct claude_block *b = &s->blocks[i];

        if (!is_kept(b, false, true)) {
            continue;
        }
        if (sb.len > 0) {
            sbuf_add_str(&sb, "\n\n");
        }
        add_decoded(&sb, b);
    }
    return sbuf_take(&sb);
}

static void
add_call(struct claude_reply *reply, const struct claude_block *b)
{
    struct claude_tool_call *call;
    const char *raw;
    size_t len;

    reply->calls =
        xreallocarray(reply->calls, reply->n_calls + 1, sizeof(*reply->calls));
    call = &reply->calls[reply->n_calls++];
    get_input(b, &raw, &len);
    *call = (struct claude_tool_call){
        .id = xstrdup(b->id),
        .name = xstrdup(b->name),
        .raw_input = xstrndup(raw, len),
    };
    /* A string with an escaped NUL would be cut short, and the shortened
       program run. */
    if (!b->decoder.has_nul && is_object_text(raw, len) &&
        !json_has_nul_escape(raw, len)) {
        call->input = xstrndup(raw, len);
    }
}

static size_t
count_calls(const struct claude_stream *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_blocks; i++) {
        n += s->blocks[i].is_call ? 1 : 0;
    }
    return n;
}

bool
claude_reply_has_double_id(const struct claude_stream *s)
{
    for (size_t i = 0; i < s->n_blocks; i++) {
        if (s->blocks[i].is_call && s->history != NULL &&
            claude_history_has_call(s->history, s->blocks[i].id)) {
            return true;
        }
        for (size_t k = 0; k < i; k++) {
            if (s->blocks[i].is_call && s->blocks[k].is_call &&
                strcmp(s->blocks[i].id, s->blocks[k].id) == 0) {
                return true;
            }
        }
    }
    return false;
}

enum claude_stop
claude_reply_decide_stop(const struct claude_stream *s)
{
    enum claude_stop stop = claude_codec_stop(s->stop_reason);
    bool has_calls = count_calls(s) > 0;

    if (stop == CLAUDE_STOP_TOOL_USE && !has_calls) {
        return CLAUDE_STOP_UNKNOWN;
    }
    /* The calls are left out, and what is left is not what was paused. */
    if (stop == CLAUDE_STOP_PAUSE && has_calls) {
        return CLAUDE_STOP_UNKNOWN;
    }
    /* Servers of other vendors say so for calls too. */
    if (stop == CLAUDE_STOP_END_TURN && s->compatible && has_calls) {
        for (size_t i = 0; i < s->n_blocks; i++) {
            if (s->blocks[i].is_call && !s->blocks[i].stopped) {
                return stop;
            }
        }
        return CLAUDE_STOP_TOOL_USE;
    }
    return stop;
}

static void
fill_reply(const struct claude_stream *s, struct claude_reply *reply)
{
    reply->stop_reason = xstrdup(s->stop_reason);
    reply->explanation = xstrdup(s->explanation);
    reply->text = make_text(s);
    reply->usage = s->usage;
    reply->request_id = xstrdup(s->request_id);
    reply->model = xstrdup(s->model);
}

void
claude_reply_fill(const struct claude_stream *s, enum claude_stop stop,
                  struct claude_reply *reply)
{
    bool cut = stop == CLAUDE_STOP_MAX_TOKENS || stop == CLAUDE_STOP_CONTEXT;

    *reply = (struct claude_reply){.stop = stop};
    fill_reply(s, reply);
    if (stop == CLAUDE_STOP_REFUSAL) {
        reply->content = xstrdup("[]");
        return;
    }
    reply->content = make_content(s, stop == CLAUDE_STOP_TOOL_USE, false, cut);
    if (stop != CLAUDE_STOP_TOOL_USE) {
        return;
    }
    for (size_t i = 0; i < s->n_blocks; i++) {
        if (s->blocks[i].is_call) {
            add_call(reply, &s->blocks[i]);
        }
    }
}

void
claude_reply_fill_partial(const struct claude_stream *s,
                          struct claude_reply *reply)
{
    *reply = (struct claude_reply){.stop = CLAUDE_STOP_UNKNOWN};
    fill_reply(s, reply);
    reply->content = make_content(s, false, true, true);
}

void
claude_reply_fini(struct claude_reply *reply)
{
    for (size_t i = 0; i < reply->n_calls; i++) {
        free(reply->calls[i].id);
        free(reply->calls[i].name);
        free(reply->calls[i].input);
        free(reply->calls[i].raw_input);
    }
    free(reply->calls);
    free(reply->content);
    free(reply->stop_reason);
    free(reply->explanation);
    free(reply->text);
    free(reply->request_id);
    free(reply->model);
    *reply = (struct claude_reply){0};
}
