/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measures how a reply is read: the parser of events alone, parser and codec
 * beside cJSON, the memory of a long stream, and what a long conversation costs
 * for each request. Prints rows of a table.
 *
 *     bench_stream [RUNS]
 *
 * Each figure is the median of RUNS (default 9), taken in turn with its peer.
 * Time is that of the processor, so that what else runs does not count.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/claude_codec_internal.h"
#include "claude/claude_stream_internal.h"
#include "claude/history.h"
#include "claude/transport.h"
#include "net/sse.h"

enum {
    PIECE_BYTES = 16384, /* what libcurl gives at a time */
    N_TREES = 512,       /* parsed at a time, freed while no clock runs */
    MAX_RUNS = 99,
    N_MESSAGES = 2000,
    STREAM_BYTES = 100000000,
};

#define MAX_STREAM_BYTES ((size_t)64 << 20)

struct payload {
    size_t at;
    size_t len;
};

/* Deltas of one kind: as events, and the JSON of each. */
struct load {
    struct sbuf stream; /* a whole reply but for its end */
    struct sbuf json;
    struct payload *payloads; /* owned */
    size_t n_payloads;
};

static bool good = true;

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t
resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long total = 0;
    unsigned long resident = 0;

    if (f != NULL) {
        if (fscanf(f, "%lu %lu", &total, &resident) != 2) {
            resident = 0;
        }
        fclose(f);
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

static void
row(const char *what, const char *mine, const char *peer, double ratio,
    double at_least)
{
    printf("| %s | %s | %s | **%.2f** | at least %.1f |\n", what, mine, peer,
           ratio, at_least);
    good = good && ratio >= at_least;
}

/* --- what is read --- */

static void
add_event(struct sbuf *sb, const char *name, const char *json)
{
    sbuf_addf(sb, "event: %s\ndata: ", name);
    sbuf_add_str(sb, json);
    sbuf_add_str(sb, "\n\n");
}

static void
begin_reply(struct sbuf *sb, const char *block)
{
    add_event(sb, "message_start",
              "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_b\","
              "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
              "\"content\":[],\"usage\":{\"input_tokens\":9,"
              "\"output_tokens\":1}}}");
    sbuf_addf(sb,
              "event: content_block_start\ndata: {\"type\":"
              "\"content_block_start\",\"index\":0,\"content_block\":%s}\n\n",
              block);
}

static void
add_delta(struct load *load, const char *type, const char *key,
          const char *text, size_t len)
{
    size_t at = load->json.len;

    sbuf_addf(&load->json,
              "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
              "\"type\":\"%s\",\"%s\":",
              type, key);
    json_add_string(&load->json, text, len);
    sbuf_add_str(&load->json, "}}");
    load->payloads = xreallocarray(load->payloads, load->n_payloads + 1,
                                   sizeof(*load->payloads));
    load->payloads[load->n_payloads++] =
        (struct payload){at, load->json.len - at};
    sbuf_add_str(&load->stream, "event: content_block_delta\ndata: ");
    sbuf_add(&load->stream, load->json.data + at, load->json.len - at);
    sbuf_add_str(&load->stream, "\n\n");
}

static void
init_load(struct load *load, const char *block)
{
    *load = (struct load){0};
    sbuf_init(&load->stream, MAX_STREAM_BYTES);
    sbuf_init(&load->json, MAX_STREAM_BYTES);
    begin_reply(&load->stream, block);
}

static void
fini_load(struct load *load)
{
    sbuf_fini(&load->stream);
    sbuf_fini(&load->json);
    free(load->payloads);
}

/* Prose in pieces of 10 to 60 characters, a line end now and then. */
static void
make_short(struct load *load)
{
    static const char prose[] =
        "The monthly totals rise until autumn and then level off; two of the "
        "regions were counted twice in March, which explains most of the "
        "difference.\nWithout them the median order is 41.50 \xE2\x82\xAC, and "
        "the \"north\" leads by a third. ";
    size_t at = 0;

    init_load(load, "{\"type\":\"text\",\"text\":\"\"}");
    for (size_t i = 0; load->json.len < 4u << 20; i++) {
        size_t len = 10 + i * 7 % 51;
        size_t left = sizeof(prose) - 1 - at;

        len = len < left ? len : left;
        /* Never within a character. */
        while (at + len < sizeof(prose) - 1 &&
               ((unsigned char)prose[at + len] & 0xC0) == 0x80) {
            len++;
        }
        add_delta(load, "text_delta", "text", prose + at, len);
        at = (at + len) % (sizeof(prose) - 1);
    }
}

/* Pieces of a program, 16 kB each, escaped twice as code in JSON in JSON. */
static void
make_long(struct load *load)
{
    static const char line[] =
        "rows = frame[frame[\\\"region\\\"] == \\\"north\\\"]"
        ".groupby(\\\"month\\\").sum()\\nprint(rows)\\n";
    AUTO_SBUF struct sbuf code = {0};

    sbuf_init(&code, 1u << 20);
    while (code.len < 16000) {
        sbuf_add_str(&code, line);
    }
    init_load(load, "{\"type\":\"tool_use\",\"id\":\"toolu_b\",\"name\":"
                    "\"run\",\"input\":{}}");
    while (load->json.len < 4u << 20) {
        add_delta(load, "input_json_delta", "partial_json", code.data,
                  code.len);
    }
}

/* --- readers --- */

static int
count_event(void *ctx, const char *name, const char *data, size_t len)
{
    size_t *n = ctx;

    (void)name;
    (void)data;
    *n += len;
    return 0;
}

static void
stop_here(const char *what)
{
    fprintf(stderr, "bench_stream: %s\n", what);
    exit(1);
}

/* All of these give bytes a second. */
static double
read_sse(const struct load *load)
{
    const struct sbuf *sb = &load->stream;
    struct sse sse;
    size_t n = 0;
    double start = now_s();

    sse_init(&sse);
    for (size_t at = 0; at < sb->len; at += PIECE_BYTES) {
        size_t len = sb->len - at < PIECE_BYTES ? sb->len - at : PIECE_BYTES;

        if (sse_feed(&sse, sb->data + at, len, count_event, &n, NULL) != 0) {
            stop_here("the events are not read");
        }
    }
    sse_fini(&sse);
    if (n < load->json.len) {
        stop_here("events are missing");
    }
    return (double)sb->len / (now_s() - start);
}

static void
on_text(void *ctx, const char *text, size_t len, bool end)
{
    size_t *n = ctx;

    (void)text;
    (void)end;
    *n += len;
}

static void
on_tool(void *ctx, const char *name, const char *input, size_t len)
{
    size_t *n = ctx;

    (void)name;
    (void)input;
    *n = len;
}

static const struct claude_stream_handlers handlers = {
    .on_thinking = on_text, .on_text = on_text, .on_tool = on_tool};

static void
feed(struct claude_stream *s, const struct sbuf *sb)
{
    struct claude_failure failure = {0};

    for (size_t at = 0; at < sb->len; at += PIECE_BYTES) {
        size_t len = sb->len - at < PIECE_BYTES ? sb->len - at : PIECE_BYTES;

        if (claude_stream_feed(s, sb->data + at, len, &failure) < 0) {
            stop_here(failure.err.msg);
        }
    }
}

/* Counted are the bytes of the payloads, as beside it. */
static double
read_codec(const struct load *load)
{
    size_t n = 0;
    double start = now_s();
    struct claude_stream *s = claude_stream_new(false, NULL, &handlers, &n);

    feed(s, &load->stream);
    claude_stream_free(s);
    if (n == 0) {
        stop_here("nothing was shown");
    }
    return (double)load->json.len / (now_s() - start);
}

static double
read_cjson(const struct load *load)
{
    static cJSON *trees[N_TREES];
    double took = 0;

    for (size_t i = 0; i < load->n_payloads; i += N_TREES) {
        size_t n =
            load->n_payloads - i < N_TREES ? load->n_payloads - i : N_TREES;
        double start = now_s();

        for (size_t k = 0; k < n; k++) {
            const struct payload *p = &load->payloads[i + k];

            trees[k] = cJSON_ParseWithLength(load->json.data + p->at, p->len);
        }
        took += now_s() - start;
        for (size_t k = 0; k < n; k++) {
            if (trees[k] == NULL) {
                stop_here("cJSON refuses a payload");
            }
            cJSON_Delete(trees[k]);
        }
    }
    return (double)load->json.len / took;
}

static void
measure_reading(const char *what, const struct load *load, size_t n_runs)
{
    double sse[MAX_RUNS];
    double codec[MAX_RUNS];
    double cjson[MAX_RUNS];
    AUTO_FREE char *name = xasprintf("parser of events alone, %s", what);
    AUTO_FREE char *both = xasprintf("parser and codec, %s", what);
    char mine[64];
    char peer[64];

    for (size_t i = 0; i < n_runs + 1; i++) {
        size_t k = i > 0 ? i - 1 : 0; /* the first round is to warm up */

        sse[k] = read_sse(load);
        codec[k] = read_codec(load);
        cjson[k] = read_cjson(load);
    }
    snprintf(mine, sizeof(mine), "%.2f GB/s", median(sse, n_runs) / 1e9);
    row(name, mine, "1 GB/s", median(sse, n_runs) / 1e9, 1.0);
    snprintf(mine, sizeof(mine), "%.0f MB/s", median(codec, n_runs) / 1e6);
    snprintf(peer, sizeof(peer), "`cJSON_ParseWithLength` %.0f MB/s",
             median(cjson, n_runs) / 1e6);
    row(both, mine, peer, median(codec, n_runs) / median(cjson, n_runs), 0.7);
}

/* --- memory --- */

/* Feeds one reply of STREAM_BYTES that is made of a load's events (without its
   beginning) over and over; gives what the memory grew by, at most. */
static size_t
stream_growth(const struct sbuf *begin, const struct sbuf *events,
              size_t *n_shown)
{
    struct claude_stream *s =
        claude_stream_new(false, NULL, &handlers, n_shown);
    size_t before;
    size_t most = 0;

    feed(s, begin);
    feed(s, events);
    before = resident_bytes();
    for (size_t n = 0; n < STREAM_BYTES; n += events->len) {
        size_t now;

        feed(s, events);
        now = resident_bytes();
        most = now > before && now - before > most ? now - before : most;
    }
    claude_stream_free(s);
    return most;
}

static void
measure_memory(const struct load *load)
{
    AUTO_SBUF struct sbuf begin = {0};
    AUTO_SBUF struct sbuf pings = {0};
    AUTO_SBUF struct sbuf deltas = {0};
    size_t n_shown = 0;
    size_t grown;

    sbuf_init(&begin, 1u << 20);
    sbuf_init(&pings, 1u << 20);
    sbuf_init(&deltas, MAX_STREAM_BYTES);
    begin_reply(&begin, "{\"type\":\"text\",\"text\":\"\"}");
    while (pings.len < 500000) {
        add_event(&pings, "ping", "{\"type\":\"ping\"}");
        add_event(&pings, "news", "{\"type\":\"news\",\"count\":[1,2,3]}");
    }
    for (size_t i = 0; i < load->n_payloads && deltas.len < 500000; i++) {
        const struct payload *p = &load->payloads[i];

        sbuf_add_str(&deltas, "event: content_block_delta\ndata: ");
        sbuf_add(&deltas, load->json.data + p->at, p->len);
        sbuf_add_str(&deltas, "\n\n");
    }
    grown = stream_growth(&begin, &pings, &n_shown);
    printf("| memory, 100 MB of pings and unknown events | +%.1f MB | | | "
           "at most 1 MB |\n",
           (double)grown / 1e6);
    good = good && grown <= 1000000;
    n_shown = 0;
    grown = stream_growth(&begin, &deltas, &n_shown);
    printf("| memory, a reply of 100 MB on the wire | +%.1f MB | its text "
           "%.1f MB | **%.2f** | at most 2.5 |\n",
           (double)grown / 1e6, (double)n_shown / 1e6,
           (double)grown / (double)n_shown);
    good = good && (double)grown <= 2.5 * (double)n_shown;
}

/* --- a long conversation --- */

static size_t n_sent;

static struct transport_call *
take_request(void *impl, const struct transport_request *request,
             const struct transport_handlers *on, void *ctx, struct error *err)
{
    (void)on;
    (void)ctx;
    (void)err;
    n_sent = request->body_len;
    return impl;
}

static const char *
no_header(const struct transport_call *call, const char *name)
{
    (void)call;
    (void)name;
    return NULL;
}

static void
no_call(struct transport_call *call)
{
    (void)call;
}

static void
no_impl(void *impl)
{
    (void)impl;
}

static const struct transport_ops sink_ops = {
    .name = "sink",
    .start = take_request,
    .header = no_header,
    .cancel = no_call,
    .drop = no_call,
    .free = no_impl,
};

static void
no_done(void *ctx, const struct claude_reply *reply, const struct error *err)
{
    (void)ctx;
    (void)reply;
    (void)err;
}

static const struct claude_handlers no_handlers = {.on_done = no_done};

static void
add_messages(struct claude_history *h, size_t n)
{
    static const char question[] =
        "How do the totals of the second quarter compare with the first, by "
        "region and by kind of order, and which of them changed most?";
    AUTO_SBUF struct sbuf content = {0};

    sbuf_init(&content, 1u << 16);
    sbuf_add_str(&content, "[{\"type\":\"text\",\"text\":\"");
    for (int i = 0; i < 40; i++) {
        sbuf_add_str(&content, "The north grew by a third, the rest by less. ");
    }
    sbuf_add_str(&content, "\"}]");
    for (size_t i = 0; i + 1 < n; i += 2) {
        if (claude_history_add_user(h, question, strlen(question), NULL) < 0 ||
            claude_history_add_assistant(h, content.data, NULL, 0, NULL) < 0) {
            stop_here("the conversation is not taken");
        }
    }
}

static double
send_once(struct loop *loop, struct claude_history *h)
{
    struct transport t = {.ops = &sink_ops, .impl = &n_sent};
    const struct claude_config config = {.model = "m", .max_tokens = 1};
    struct claude *c = claude_new(loop, &t, &config, NULL);
    double start = now_s();
    double took;

    if (c == NULL || claude_send(c, h, &no_handlers, NULL, NULL) == NULL) {
        stop_here("the request is not sent");
    }
    took = now_s() - start;
    claude_free(c);
    return took;
}

static double
copy_once(const char *text, size_t len)
{
    double start = now_s();
    char *copy = xmalloc(len + 1);
    double took;

    memcpy(copy, text, len);
    copy[len] = '\0';
    took = now_s() - start;
    if (strlen(copy) != len) {
        stop_here("the copy is another");
    }
    free(copy);
    return took;
}

static double
append_once(size_t n_before)
{
    struct claude_history *h = claude_history_new();
    double start;
    double took;

    add_messages(h, n_before);
    start = now_s();
    add_messages(h, 200);
    took = now_s() - start;
    claude_history_free(h);
    return took;
}

static void
measure_history(size_t n_runs)
{
    struct error err = {0};
    struct loop *loop = loop_new(&err);
    struct claude_history *h = claude_history_new();
    double sent[MAX_RUNS];
    double copied[MAX_RUNS];
    double late[MAX_RUNS];
    double early[MAX_RUNS];
    const char *text;
    size_t len;

    if (loop == NULL) {
        stop_here(err.msg);
    }
    add_messages(h, N_MESSAGES);
    if (claude_history_add_user(h, "and now?", 8, NULL) < 0) {
        stop_here("the question is not taken");
    }
    text = claude_history_text(h, &len);
    for (size_t i = 0; i < n_runs + 1; i++) {
        size_t k = i > 0 ? i - 1 : 0;

        sent[k] = send_once(loop, h);
        copied[k] = copy_once(text, len);
        late[k] = append_once(N_MESSAGES);
        early[k] = append_once(0);
    }
    printf("| request of %d messages, %.1f MB | %.2f ms | one copy of its "
           "bytes %.2f ms | **%.2f** | at most 2.0 |\n",
           N_MESSAGES + 1, (double)len / 1e6, median(sent, n_runs) * 1e3,
           median(copied, n_runs) * 1e3,
           median(sent, n_runs) / median(copied, n_runs));
    good = good && median(sent, n_runs) <= 2 * median(copied, n_runs);
    printf("| 200 messages behind %d | %.2f ms | behind none %.2f ms | "
           "**%.2f** | at most 1.5 |\n",
           N_MESSAGES, median(late, n_runs) * 1e3, median(early, n_runs) * 1e3,
           median(late, n_runs) / median(early, n_runs));
    good = good && median(late, n_runs) <= 1.5 * median(early, n_runs);
    claude_history_free(h);
    loop_free(loop);
}

int
main(int argc, char **argv)
{
    int64_t n_runs = 9;
    struct load load;

    if (argc > 2 ||
        (argc == 2 && str_to_int(argv[1], 1, MAX_RUNS, &n_runs, NULL) < 0)) {
        fprintf(stderr, "usage: bench_stream [RUNS]\n");
        return 2;
    }
    make_short(&load);
    measure_memory(&load);
    measure_reading("pieces of 10 to 60 characters", &load, (size_t)n_runs);
    fini_load(&load);
    make_long(&load);
    measure_reading("pieces of 16 kB", &load, (size_t)n_runs);
    fini_load(&load);
    measure_history((size_t)n_runs);
    return good ? 0 : 1;
}
