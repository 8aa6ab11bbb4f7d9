/* SPDX-License-Identifier: GPL-3.0-or-later */
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
#include "base/utf8.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_stream_internal.h"
#include "claude/history.h"

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

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    struct sbuf *out = ctx;

    expect(utf8_valid(text, len), "shown text is not valid");
    sbuf_add(out, text, len);
    sbuf_add_str(out, end ? "." : "");
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    (void)ctx;
    expect(name[0] != '\0', "a tool has no name");
    expect(utf8_valid(input, len), "shown input is not valid");
}

static const struct claude_stream_handlers handlers = {
    .on_thinking = on_text,
    .on_text = on_text,
    .on_tool = on_tool,
};

/* A whole reply may be appended as it is, with its calls answered. */
static void
check_reply(const struct claude_reply *reply)
{
    struct claude_history *h = claude_history_new();
    const char **ids = (const char **)xcalloc(reply->n_calls + 1, sizeof(*ids));
    struct error err = {0};

    for (size_t i = 0; i < reply->n_calls; i++) {
        ids[i] = reply->calls[i].id;
        if (reply->calls[i].input != NULL) {
            struct cJSON *input = json_parse(
                reply->calls[i].input, strlen(reply->calls[i].input), 0, NULL);

            expect(input == NULL || json_is_object(input),
                   "an input that can be run is no object");
            json_free(input);
        }
    }
    expect(utf8_valid(reply->content, strlen(reply->content)) &&
               utf8_valid(reply->text, strlen(reply->text)),
           "a reply is not valid UTF-8");
    expect(reply->n_calls == 0 || reply->stop == CLAUDE_STOP_TOOL_USE,
           "calls without the reason");
    expect(claude_history_add_user(h, "q", 1, NULL) == 0, "no question");
    if (claude_history_add_assistant(h, reply->content, ids, reply->n_calls,
                                     &err) != 0) {
        fprintf(stderr, "%s: %s\n", err.msg, reply->content);
        abort();
    }
    free(ids);
    claude_history_free(h);
}

static void
run(const char *data, size_t len, size_t n, bool compatible, struct sbuf *out)
{
    struct claude_stream *s =
        claude_stream_new(compatible, NULL, &handlers, out);
    struct claude_failure failure = {0};
    struct claude_reply reply = {0};
    int rc = 0;

    for (size_t i = 0; i < len && rc == 0; i += n) {
        size_t piece_len = len - i < n ? len - i : n;
        char *piece = xmemdup(data + i, piece_len);

        rc = claude_stream_feed(s, piece, piece_len, &failure);
        free(piece);
    }
    if (rc == 0) {
        rc = claude_stream_finish(s, &reply, &failure);
    }
    if (rc != 0) {
        expect(failure.err.code != ERR_NONE, "a failure without a code");
        claude_stream_partial(s, &reply);
        expect(reply.n_calls == 0, "calls of half a reply");
    }
    check_reply(&reply);
    sbuf_addf(out, "%d %s", (int)failure.err.code, reply.content);
    claude_reply_fini(&reply);
    claude_stream_free(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    for (int compatible = 0; compatible < 2; compatible++) {
        struct sbuf whole;
        struct sbuf pieces;

        sbuf_init(&whole, MAX_OUT_BYTES);
        sbuf_init(&pieces, MAX_OUT_BYTES);
        run(text, size, size > 0 ? size : 1, compatible == 1, &whole);
        run(text, size, 5, compatible == 1, &pieces);
        expect(whole.len == pieces.len &&
                   memcmp(whole.data, pieces.data, whole.len) == 0,
               "pieces give another reply");
        sbuf_fini(&whole);
        sbuf_fini(&pieces);
    }
    return 0;
}
