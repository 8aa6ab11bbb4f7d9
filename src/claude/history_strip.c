/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "claude/history_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/sbuf.h"
#include "claude/claude_raw_internal.h"

/* Both kinds are bound to what stood before them. */
static const char *const thinking_types[] = {"\"thinking\"",
                                             "\"redacted_thinking\""};

static bool
is_thinking(const char *block, size_t len)
{
    struct claude_raw_member m;

    if (!claude_raw_find(block, len, "type", &m)) {
        return false;
    }
    for (size_t i = 0; i < LEN(thinking_types); i++) {
        if (m.value_len == strlen(thinking_types[i]) &&
            memcmp(m.value, thinking_types[i], m.value_len) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the blocks of an array that are no thinking, each as it is; how many. */
static size_t
add_kept(struct sbuf *sb, const char *array, size_t len)
{
    struct claude_raw_iter it;
    const char *block;
    size_t block_len;
    size_t n = 0;

    claude_raw_begin(&it, array, len);
    while (claude_raw_next_value(&it, &block, &block_len)) {
        if (!is_thinking(block, block_len)) {
            if (n > 0) {
                sbuf_add_char(sb, ',');
            }
            sbuf_add(sb, block, block_len);
            n++;
        }
    }
    return n;
}

/* A message that nothing is left of goes as a whole: the questions around it
   may follow each other. */
static void
add_stripped(struct claude_history *copy, const struct history_message *m,
             const char *text, size_t len)
{
    struct claude_raw_member content;
    struct history_message kept = *m;
    size_t start = copy->text.len;
    bool found = claude_raw_find(text, len, "content", &content);

    assert(found);
    (void)found;
    kept.start = start;
    kept.has_thinking = false;
    if (start > 0) {
        sbuf_add_char(&copy->text, ',');
    }
    sbuf_add(&copy->text, text, (size_t)(content.value - text));
    sbuf_add_char(&copy->text, '[');
    kept.n_blocks = add_kept(&copy->text, content.value, content.value_len);
    sbuf_add_str(&copy->text, "]}");
    if (kept.n_blocks == 0) {
        sbuf_truncate(&copy->text, start);
        return;
    }
    copy->messages[copy->n_messages++] = kept;
}

static void
add_as_it_is(struct claude_history *copy, const struct history_message *m,
             const char *text, size_t len)
{
    struct history_message kept = *m;

    kept.start = copy->text.len;
    if (kept.start > 0) {
        sbuf_add_char(&copy->text, ',');
    }
    sbuf_add(&copy->text, text, len);
    copy->messages[copy->n_messages++] = kept;
}

bool
claude_history_has_thinking(const struct claude_history *h)
{
    for (size_t i = 0; i < h->n_messages; i++) {
        if (h->messages[i].has_thinking) {
            return true;
        }
    }
    return false;
}

struct claude_history *
claude_history_strip(const struct claude_history *h)
{
    struct claude_history *copy = claude_history_new();

    assert(h->n_open == 0);
    copy->n_images = h->n_images;
    history_add_call_ids(copy, (const char *const *)h->call_ids, h->n_calls);
    copy->messages =
        xreallocarray(NULL, h->n_messages + 1, sizeof(*copy->messages));
    for (size_t i = 0; i < h->n_messages; i++) {
        const struct history_message *m = &h->messages[i];
        size_t from = m->start + (i > 0 ? 1 : 0);
        size_t to =
            i + 1 < h->n_messages ? h->messages[i + 1].start : h->text.len;

        if (m->has_thinking) {
            add_stripped(copy, m, h->text.data + from, to - from);
        } else {
            add_as_it_is(copy, m, h->text.data + from, to - from);
        }
    }
    return copy;
}

void
claude_history_replace(struct claude_history *h, struct claude_history *other)
{
    struct claude_history old = *h;

    *h = *other;
    *other = old;
    claude_history_free(other);
}
