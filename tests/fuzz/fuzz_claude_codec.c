/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Refusals of the service, the fixed part of a request, and events that are
 * read without a tree. The input: a line of the status, the rest is what came.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_fragment_internal.h"

#define MAX_OUT_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static bool
is_one_line(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F) {
            return false;
        }
    }
    return utf8_valid(text, strlen(text));
}

/* A person gets one line, whatever the service says. */
static void
check_failure(int status, const char *body, size_t len, const char *id)
{
    struct claude_failure failure = {0};

    claude_codec_failure(status, body, len, id, &failure);
    expect(failure.err.code != ERR_NONE, "a refusal without a code");
    expect(failure.err.msg[0] != '\0' && is_one_line(failure.err.msg),
           "a refusal is not one line of text");
    expect(failure.err.http_status == status, "another status");
    expect(!failure.is_final || !failure.retry, "final, and tried again");
}

/* What is accepted becomes the beginning of valid JSON. The tools are the
   program's own and go as they are. */
static void
check_head(const char *text)
{
    const struct claude_config config = {
        .model = text,
        .max_tokens = (int64_t)strlen(text),
        .system = text,
        .tools = text[0] == '[' && utf8_valid(text, strlen(text)) ? text : NULL,
    };
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_JSON struct cJSON *tree = NULL;
    struct error err = {0};

    sbuf_init(&sb, MAX_OUT_BYTES);
    if (claude_codec_head(&sb, &config, strlen(text) % 2 == 0, &err) < 0) {
        expect(err.code == ERR_USAGE, "a head is refused for no reason");
        return;
    }
    claude_codec_begin(&sb, config.max_tokens);
    sbuf_add_str(&sb, CLAUDE_TAIL);
    expect(utf8_valid(sb.data, sb.len), "a head is not valid UTF-8");
    tree = json_parse(sb.data, sb.len, CLAUDE_JSON_DEPTH + 2, &err);
    expect(tree != NULL, "a head is not valid JSON");
    expect(json_string(tree, "model") != NULL &&
               json_is_array(json_get(tree, "messages")),
           "a head lacks its model or its messages");
}

static const char *
name_of(enum claude_fragment_kind kind)
{
    switch (kind) {
    case CLAUDE_FRAGMENT_TEXT:
        return "text";
    case CLAUDE_FRAGMENT_THINKING:
        return "thinking";
    case CLAUDE_FRAGMENT_TOOL:
        return "partial_json";
    }
    return "";
}

/* An event that is read without a tree is what a tree says that it is. */
static void
check_fragment(const char *text, size_t len)
{
    AUTO_JSON struct cJSON *tree = NULL;
    AUTO_SBUF struct sbuf whole = {0};
    AUTO_SBUF struct sbuf pieces = {0};
    AUTO_SBUF struct sbuf read = {0};
    struct claude_decoder one = {0};
    struct claude_decoder other = {0};
    struct claude_fragment f;
    const char *value;
    size_t half;

    sbuf_init(&whole, MAX_OUT_BYTES);
    sbuf_init(&pieces, MAX_OUT_BYTES);
    sbuf_init(&read, MAX_OUT_BYTES);
    if (!utf8_valid(text, len) || !claude_fragment_read(text, len, &f, &read)) {
        return;
    }
    tree = json_parse(text, len, CLAUDE_JSON_DEPTH, NULL);
    expect(tree != NULL, "a fragment that is no JSON");
    expect(str_eq(json_string(tree, "type"), "content_block_delta") &&
               json_int(tree, "index", -1) == f.index,
           "a fragment of another event");
    value = json_string(json_get(tree, "delta"), name_of(f.kind));
    expect(value != NULL, "a fragment of nothing");
    claude_decoder_add(&one, f.raw, f.len, &whole);
    expect(one.high == f.decoder.high && one.has_nul == f.decoder.has_nul &&
               str_eq(read.data, whole.data),
           "a fragment was read as something else");
    claude_decoder_end(&one, &whole);
    expect(whole.len == strlen(value) &&
               memcmp(whole.data, value, whole.len) == 0,
           "a fragment is decoded to something else");
    expect(one.has_nul == json_has_nul_escape(f.raw, f.len),
           "an escaped NUL is not seen");
    /* Cut where no escape is cut. */
    for (half = 0; half < f.len / 2;) {
        half += f.raw[half] != '\\' ? 1 : f.raw[half + 1] == 'u' ? 6 : 2;
    }
    claude_decoder_add(&other, f.raw, half, &pieces);
    claude_decoder_add(&other, f.raw + half, f.len - half, &pieces);
    claude_decoder_end(&other, &pieces);
    expect(pieces.len == whole.len &&
               memcmp(pieces.data, whole.data, whole.len) == 0,
           "two pieces mean something else");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* In memory of its own, so that reading past it is seen. */
    char *text = xmemdup(data, size);
    const char *body = size > 0 ? memchr(text, '\n', size) : NULL;
    AUTO_FREE char *line =
        xstrndup(text, body != NULL ? (size_t)(body - text) : size);
    int64_t status = 0;

    if (body != NULL && str_to_int(line, 0, 999, &status, NULL) == 0) {
        size_t len = size - (size_t)(body + 1 - text);
        AUTO_FREE char *rest = xstrndup(body + 1, len);

        check_failure((int)status, body + 1, len, NULL);
        check_failure((int)status, "", 0, rest);
        check_head(rest);
        check_fragment(body + 1, len);
    }
    free(text);
    return 0;
}
