/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A conversation that is added to in any order with any bytes: whatever is
 * accepted, what would be sent is valid JSON, every tool call is answered in
 * the message behind it, and nothing that was there is changed. The input is a
 * program: a byte for what is done, a byte for how many bytes of text go with
 * it, and those.
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
#include "claude/claude_raw_internal.h"
#include "claude/history.h"

#define MAX_OUT_BYTES (64u << 20)
#define MAX_CALLS 4
#define MAX_STEPS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct program {
    const uint8_t *at;
    size_t left;
};

struct model {
    struct claude_history *h;
    struct sbuf before; /* the messages as they were before the step */
    size_t mark;
    char *ids[MAX_CALLS]; /* owned; of the last calls that were added */
    size_t n_ids;
    unsigned n_named;
};

static void
expect(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static uint8_t
take_byte(struct program *p)
{
    if (p->left == 0) {
        return 0;
    }
    p->left--;
    return *p->at++;
}

/* Text of memory of its own; *len of it. */
static char *
take_text(struct program *p, size_t *len)
{
    char *text;

    *len = take_byte(p);
    *len = *len < p->left ? *len : p->left;
    text = xstrndup((const char *)p->at, *len);
    p->at += *len;
    p->left -= *len;
    return text;
}

/* --- what must hold --- */

static void
check_user(const struct cJSON *content, const struct cJSON *calls)
{
    const struct cJSON *call = json_first(calls);
    const struct cJSON *block = json_first(content);

    for (; call != NULL; call = json_next(call)) {
        if (!str_eq(json_string(call, "type"), "tool_use")) {
            continue;
        }
        expect(str_eq(json_string(block, "type"), "tool_result") &&
                   str_eq(json_string(block, "tool_use_id"),
                          json_string(call, "id")),
               "a call is not answered behind it");
        expect(!str_blank(
                   json_string(json_first(json_get(block, "content")), "text")),
               "a blank result");
        block = json_next(block);
    }
    expect(calls == NULL || block == NULL ||
               str_eq(json_string(block, "type"), "text"),
           "something else behind the results");
    for (; block != NULL; block = json_next(block)) {
        const char *text = json_string(block, "text");

        expect(str_eq(json_string(block, "type"), "text"),
               "a result without a call");
        expect(text != NULL && !claude_text_is_blank(text, strlen(text)),
               "a blank text of the user");
    }
}

static bool
has_calls(const struct cJSON *content)
{
    for (const struct cJSON *b = json_first(content); b != NULL;
         b = json_next(b)) {
        if (str_eq(json_string(b, "type"), "tool_use")) {
            return true;
        }
    }
    return false;
}

static void
check_messages(const struct model *m)
{
    AUTO_SBUF struct sbuf sb = {0};
    AUTO_JSON struct cJSON *tree = NULL;
    const struct cJSON *calls = NULL; /* content that waits for results */
    const char *role = NULL;
    size_t len;
    const char *text = claude_history_text(m->h, &len);

    sbuf_init(&sb, MAX_OUT_BYTES);
    sbuf_add_char(&sb, '[');
    sbuf_add(&sb, text, len);
    sbuf_add_char(&sb, ']');
    expect(utf8_valid(sb.data, sb.len), "not valid UTF-8");
    tree = json_parse(sb.data, sb.len, 512, NULL);
    expect(tree != NULL, "not valid JSON");
    for (const struct cJSON *i = json_first(tree); i != NULL;
         i = json_next(i)) {
        const struct cJSON *content = json_get(i, "content");
        bool user = str_eq(json_string(i, "role"), "user");

        expect(user || str_eq(json_string(i, "role"), "assistant"),
               "another role");
        expect(json_len(content) > 0, "a message without content");
        expect(user || str_eq(role, "user"), "a reply without a question");
        role = json_string(i, "role");
        if (user) {
            check_user(content, calls);
            calls = NULL;
        } else {
            calls = has_calls(content) ? content : NULL;
        }
    }
    expect((calls != NULL) == claude_history_has_open_calls(m->h),
           "open calls are not known");
    expect(claude_history_ends_with_user(m->h) == str_eq(role, "user"),
           "the last role is not known");
}

/* What was sent stays; only rewinding takes away, and only from the end. */
static void
check_step(struct model *m, bool rewound)
{
    size_t len;
    const char *text = claude_history_text(m->h, &len);
    size_t common = len < m->before.len ? len : m->before.len;

    expect(memcmp(text, m->before.data, common) == 0, "what was there changed");
    expect(rewound || len >= m->before.len, "something is gone");
    expect(common == len || common == 0 || text[common] == ',',
           "a message was added to another");
    check_messages(m);
    sbuf_clear(&m->before);
    sbuf_add(&m->before, text, len);
}

/* --- steps --- */

static void
forget_ids(struct model *m)
{
    for (size_t i = 0; i < m->n_ids; i++) {
        free(m->ids[i]);
    }
    m->n_ids = 0;
}

static void
add_assistant(struct model *m, struct program *p, bool raw)
{
    AUTO_SBUF struct sbuf sb = {0};
    size_t len;
    AUTO_FREE char *text = take_text(p, &len);
    unsigned n_calls = take_byte(p) % (MAX_CALLS + 1);
    unsigned n_named = n_calls;
    bool open = claude_history_has_open_calls(m->h);

    sbuf_init(&sb, MAX_OUT_BYTES);
    /* What the codec gives is valid UTF-8. */
    if (raw) {
        utf8_add_repaired(&sb, text, strlen(text));
    } else {
        sbuf_add_str(&sb, "[{\"type\":\"text\",\"text\":");
        json_add_string(&sb, text, len);
        sbuf_add_char(&sb, '}');
    }
    if (!open) {
        forget_ids(m);
    }
    for (unsigned i = 0; i < n_calls && !open && !raw; i++) {
        m->ids[m->n_ids++] = xasprintf("toolu_%u", m->n_named++);
        sbuf_addf(&sb,
                  ",{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"run\","
                  "\"input\":{}}",
                  m->ids[i]);
    }
    sbuf_add_str(&sb, raw ? "" : "]");
    /* The caller may be wrong about the calls. */
    if (take_byte(p) == 0xFF && m->n_ids > 0) {
        n_named--;
    }
    if (claude_history_add_assistant(m->h, sb.data, (const char *const *)m->ids,
                                     open || raw ? 0 : n_named, NULL) < 0 &&
        !open) {
        forget_ids(m);
    }
}

static void
add_results(struct model *m, struct program *p)
{
    struct claude_tool_result results[MAX_CALLS] = {{0}};
    char *texts[MAX_CALLS + 1] = {NULL};
    size_t len;

    for (size_t i = 0; i < m->n_ids; i++) {
        texts[i] = take_text(p, &len);
        results[i] = (struct claude_tool_result){.tool_use_id = m->ids[i],
                                                 .text = texts[i],
                                                 .len = len,
                                                 .is_error = len % 2 == 1};
    }
    texts[MAX_CALLS] = take_text(p, &len);
    if (take_byte(p) == 0xFF && m->n_ids > 0) {
        results[0].tool_use_id = "toolu_x";
    }
    if (claude_history_add_results(m->h, results, m->n_ids, texts[MAX_CALLS],
                                   NULL) == 0) {
        forget_ids(m);
    }
    for (size_t i = 0; i <= MAX_CALLS; i++) {
        free(texts[i]);
    }
}

static void
step(struct model *m, struct program *p)
{
    uint8_t what = take_byte(p);
    size_t len;

    switch (what % 6) {
    case 0:
    case 1: {
        AUTO_FREE char *text = take_text(p, &len);

        if (what % 6 == 0) {
            m->mark = claude_history_rewind_point(m->h);
        }
        (void)!claude_history_add_user(m->h, text, len, NULL);
        break;
    }
    case 2:
        add_assistant(m, p, false);
        break;
    case 3:
        add_assistant(m, p, true);
        break;
    case 4:
        add_results(m, p);
        break;
    default:
        claude_history_rewind(m->h, m->mark);
        check_step(m, true);
        return;
    }
    check_step(m, false);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program p = {data, size};
    struct model m = {.h = claude_history_new()};

    sbuf_init(&m.before, MAX_OUT_BYTES);
    for (int i = 0; i < MAX_STEPS && p.left > 0; i++) {
        step(&m, &p);
    }
    forget_ids(&m);
    sbuf_fini(&m.before);
    claude_history_free(m.h);
    return 0;
}
