/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_raw_internal.h"

/* More blocks than these since the last time, and the service, which looks back
   20, might not find what it has read. */
#define MAX_BLOCKS_BETWEEN 15

struct claude_history *
claude_history_new(void)
{
    struct claude_history *h = xcalloc(1, sizeof(*h));

    sbuf_init(&h->text, HISTORY_MAX_RESULT_BYTES);
    return h;
}

void
claude_history_free(struct claude_history *h)
{
    if (h == NULL) {
        return;
    }
    for (size_t i = 0; i < h->n_calls; i++) {
        free(h->call_ids[i]);
    }
    free(h->call_ids);
    sbuf_fini(&h->text);
    free(h->messages);
    free(h);
}

static int
append(struct claude_history *h, const struct history_message *m,
       const struct sbuf *message, struct error *err)
{
    size_t max = m->kind == HISTORY_RESULTS ? HISTORY_MAX_RESULT_BYTES
                                            : HISTORY_MAX_BYTES;
    size_t start = h->text.len;

    if (!sbuf_ok(message) || start + 1 + message->len > max) {
        return err_set(err, ERR_TOO_LARGE,
                       "the conversation is longer than %zu bytes; begin a new "
                       "session",
                       max);
    }
    if (start > 0) {
        sbuf_add_char(&h->text, ',');
    }
    sbuf_add(&h->text, message->data, message->len);
    h->messages =
        xreallocarray(h->messages, h->n_messages + 1, sizeof(*h->messages));
    h->messages[h->n_messages] = *m;
    h->messages[h->n_messages].start = start;
    h->n_messages++;
    return 0;
}

void
history_add_call_ids(struct claude_history *h, const char *const *ids, size_t n)
{
    if (n == 0) {
        return;
    }
    h->call_ids =
        xreallocarray(h->call_ids, h->n_calls + n, sizeof(*h->call_ids));
    for (size_t i = 0; i < n; i++) {
        h->call_ids[h->n_calls++] = xstrdup(ids[i]);
    }
}

void
history_add_text(struct sbuf *sb, const char *text, size_t len)
{
    sbuf_add_str(sb, "{\"type\":\"text\",\"text\":");
    claude_add_text(sb, text, len);
    sbuf_add_char(sb, '}');
}

int
claude_history_add_user(struct claude_history *h, const char *text, size_t len,
                        struct error *err)
{
    AUTO_SBUF struct sbuf message = {0};

    sbuf_init(&message, HISTORY_MAX_BYTES);
    if (h->n_open > 0) {
        return err_set(err, ERR_INTERNAL, "%zu tool calls are not answered",
                       h->n_open);
    }
    if (claude_text_is_blank(text, len)) {
        return err_set(err, ERR_USAGE, "the message is blank");
    }
    sbuf_add_str(&message, "{\"role\":\"user\",\"content\":[");
    history_add_text(&message, text, len);
    sbuf_add_str(&message, "]}");
    return append(
        h, &(struct history_message){.kind = HISTORY_USER, .n_blocks = 1},
        &message, err);
}

static bool
is_blank_text(const struct cJSON *block)
{
    const char *text = json_string(block, "text");

    return str_eq(json_string(block, "type"), "text") &&
           (text == NULL || claude_text_is_blank(text, strlen(text)));
}

/* The service refuses every later request when a message is not as it must
   be, so a mistake of the caller must not get in. */
static int
check_blocks(const struct cJSON *content, const char *const *tool_ids,
             size_t n_tool_calls, struct error *err)
{
    size_t n = 0;

    for (const struct cJSON *block = json_first(content); block != NULL;
         block = json_next(block)) {
        const char *type = json_string(block, "type");

        if (type == NULL || is_blank_text(block)) {
            return err_set(err, ERR_INTERNAL, "a block that cannot be sent");
        }
        if (!str_eq(type, "tool_use")) {
            continue;
        }
        if (n == n_tool_calls ||
            !str_eq(json_string(block, "id"), tool_ids[n])) {
            return err_set(err, ERR_INTERNAL,
                           "tool call %zu is not in the list", n);
        }
        for (size_t i = 0; i < n; i++) {
            if (str_eq(tool_ids[i], tool_ids[n])) {
                return err_set(err, ERR_INTERNAL, "two tool calls %s",
                               tool_ids[n]);
            }
        }
        n++;
    }
    if (n != n_tool_calls) {
        return err_set(err, ERR_INTERNAL, "%zu tool calls, %zu in the list", n,
                       n_tool_calls);
    }
    return 0;
}

static bool
has_thinking(const struct cJSON *content)
{
    for (const struct cJSON *block = json_first(content); block != NULL;
         block = json_next(block)) {
        const char *type = json_string(block, "type");

        if (str_eq(type, "thinking") || str_eq(type, "redacted_thinking")) {
            return true;
        }
    }
    return false;
}

static bool
is_paused(const struct claude_history *h)
{
    return h->n_messages > 0 && h->messages[h->n_messages - 1].is_paused;
}

int
claude_history_add_assistant(struct claude_history *h, const char *content,
                             const char *const *tool_ids, size_t n_tool_calls,
                             struct error *err)
{
    AUTO_SBUF struct sbuf message = {0};
    AUTO_JSON struct cJSON *tree = NULL;
    struct history_message m = {.kind = HISTORY_ASSISTANT,
                                .is_paused =
                                    h->will_pause && n_tool_calls == 0};

    sbuf_init(&message, HISTORY_MAX_BYTES);
    tree = json_parse(content, strlen(content), CLAUDE_JSON_DEPTH, err);
    if (tree == NULL) {
        return err_wrap(err, "the content of a message");
    }
    if (!json_is_array(tree)) {
        return err_set(err, ERR_INTERNAL, "the content is no array");
    }
    if (check_blocks(tree, tool_ids, n_tool_calls, err) < 0) {
        return -1;
    }
    if (json_first(tree) == NULL) {
        return 0;
    }
    if (!claude_history_ends_with_user(h) && !is_paused(h)) {
        return err_set(err, ERR_INTERNAL, "a reply without a question");
    }
    sbuf_add_str(&message, "{\"role\":\"assistant\",\"content\":");
    sbuf_add_str(&message, content);
    sbuf_add_char(&message, '}');
    m.n_blocks = json_len(tree);
    m.has_thinking = has_thinking(tree);
    if (append(h, &m, &message, err) < 0) {
        return -1;
    }
    h->will_pause = false;
    history_add_call_ids(h, tool_ids, n_tool_calls);
    h->n_open = n_tool_calls;
    return 0;
}

/* What a result is replaced by that the conversation has no room for. */
static const char no_room[] =
    "[not sent: the conversation is as long as it may be]";

static void
add_result(struct sbuf *sb, const struct claude_tool_result *result,
           bool is_short, size_t n_bytes, size_t *n_images)
{
    static const char placeholder[] = "(no output)";
    bool blank = claude_text_is_blank(result->text, result->len);

    sbuf_add_str(sb, "{\"type\":\"tool_result\",\"tool_use_id\":");
    json_add_str(sb, result->tool_use_id);
    sbuf_add_str(sb, ",\"content\":[");
    if (is_short) {
        history_add_text(sb, no_room, strlen(no_room));
    } else {
        history_add_text(sb, blank ? placeholder : result->text,
                         blank ? strlen(placeholder) : result->len);
        for (size_t i = 0; i < result->n_images; i++) {
            history_add_image(sb, &result->images[i], n_bytes, n_images);
        }
    }
    sbuf_add_str(sb, result->is_error ? "],\"is_error\":true}" : "]}");
}

static int
append_results(struct claude_history *h,
               const struct claude_tool_result *results, size_t n_results,
               const char *text, bool is_short, struct error *err)
{
    AUTO_SBUF struct sbuf message = {0};
    struct history_message m = {.kind = HISTORY_RESULTS, .n_blocks = n_results};
    size_t n_images = h->n_images;

    sbuf_init(&message, HISTORY_MAX_RESULT_BYTES);
    sbuf_add_str(&message, "{\"role\":\"user\",\"content\":[");
    for (size_t i = 0; i < n_results; i++) {
        if (i > 0) {
            sbuf_add_char(&message, ',');
        }
        add_result(&message, &results[i], is_short, h->text.len, &n_images);
    }
    if (text != NULL && !claude_text_is_blank(text, strlen(text))) {
        sbuf_add_char(&message, ',');
        history_add_text(&message, text, strlen(text));
        m.n_blocks++;
    }
    sbuf_add_str(&message, "]}");
    if (append(h, &m, &message, err) < 0) {
        return -1;
    }
    h->n_images = n_images;
    h->n_open = 0;
    return 0;
}

int
claude_history_add_results(struct claude_history *h,
                           const struct claude_tool_result *results,
                           size_t n_results, const char *text,
                           struct error *err)
{
    if (n_results == 0 || n_results != h->n_open) {
        return err_set(err, ERR_INTERNAL, "%zu results for %zu tool calls",
                       n_results, h->n_open);
    }
    for (size_t i = 0; i < n_results; i++) {
        const char *id = h->call_ids[h->n_calls - h->n_open + i];

        if (!str_eq(results[i].tool_use_id, id)) {
            return err_set(err, ERR_INTERNAL, "a result for %s instead of %s",
                           results[i].tool_use_id, id);
        }
    }
    /* Open calls would make the history useless, and few bytes always fit. */
    if (append_results(h, results, n_results, text, false, NULL) == 0 ||
        append_results(h, results, n_results, text, true, NULL) == 0) {
        return 0;
    }
    return append_results(h, results, n_results, NULL, true, err);
}

size_t
claude_history_n_calls(const struct claude_history *h)
{
    return h->n_calls;
}

bool
claude_history_has_call(const struct claude_history *h, const char *id)
{
    for (size_t i = 0; i < h->n_calls; i++) {
        if (str_eq(h->call_ids[i], id)) {
            return true;
        }
    }
    return false;
}

bool
claude_history_has_open_calls(const struct claude_history *h)
{
    return h->n_open > 0;
}

bool
claude_history_ends_with_user(const struct claude_history *h)
{
    return h->n_messages > 0 &&
           h->messages[h->n_messages - 1].kind != HISTORY_ASSISTANT;
}

void
claude_history_set_paused(struct claude_history *h, bool paused)
{
    h->will_pause = paused;
}

bool
claude_history_may_be_sent(const struct claude_history *h)
{
    return h->n_open == 0 && (claude_history_ends_with_user(h) || is_paused(h));
}

void
claude_history_set_cached(struct claude_history *h)
{
    h->n_cached = h->n_messages;
}

bool
claude_history_find_breakpoint(const struct claude_history *h, size_t *at)
{
    size_t n = h->n_cached < h->n_messages ? h->n_cached : h->n_messages;
    size_t n_added = 0;

    for (size_t i = n; i < h->n_messages; i++) {
        n_added += h->messages[i].n_blocks;
    }
    /* A block of the model's may be one that must carry no breakpoint. */
    while (n > 0 && h->messages[n - 1].kind == HISTORY_ASSISTANT) {
        n--;
        n_added += h->messages[n].n_blocks;
    }
    if (n == 0 || n_added <= MAX_BLOCKS_BETWEEN) {
        return false;
    }
    /* Every message of the user's ends in "}]}". */
    *at = (n < h->n_messages ? h->messages[n].start : h->text.len) - 3;
    return true;
}

size_t
claude_history_rewind_point(const struct claude_history *h)
{
    return h->n_messages;
}

void
claude_history_rewind(struct claude_history *h, size_t point)
{
    while (h->n_messages > point &&
           h->messages[h->n_messages - 1].kind == HISTORY_USER) {
        h->n_messages--;
        sbuf_truncate(&h->text, h->messages[h->n_messages].start);
    }
}

void
claude_history_drop(struct claude_history *h, size_t point)
{
    assert(h->n_open == 0);
    if (h->n_messages <= point) {
        return;
    }
    sbuf_truncate(&h->text, h->messages[point].start);
    h->n_messages = point;
    h->will_pause = false;
    if (h->n_cached > point) {
        h->n_cached = point;
    }
}

const char *
claude_history_text(const struct claude_history *h, size_t *len)
{
    *len = h->text.len;
    return h->text.data;
}
