/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an interpreter's answer means for a cell. It begins at most once, before
 * anything else; text is valid and within the limit; pictures and outputs are
 * bounded; nothing comes behind the end; a traceback is mended by line feeds
 * alone; pieces make no difference.
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
#include "base/utf8.h"
#include "model/output.h"
#include "sandbox/e2b_lines_internal.h"
#include "sandbox/e2b_result_internal.h"
#include "sandbox/mime_bundle_internal.h"
#include "sandbox/sandbox.h"

#define MAX_OUTPUT_BYTES 1000u
#define MAX_OUT_BYTES (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct e2b_cell_result result;
    struct sbuf out;
    size_t n_bytes;
    size_t n_outputs;
    size_t n_images;
    bool begun;
    bool over; /* the end has been taken */
};

static void
require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_e2b_result: %s\n", what);
    abort();
}

static void
on_begin(void *ctx)
{
    struct run *r = ctx;

    require(!r->begun, "it begins twice");
    require(!r->over, "it begins behind the end");
    r->begun = true;
}

static void
on_bytes(void *ctx, enum event_stream stream, const char *data, size_t len)
{
    struct run *r = ctx;

    require(r->begun && !r->over && len > 0, "text at a wrong time");
    r->n_bytes += len;
    require(r->n_bytes <= MAX_OUTPUT_BYTES, "more text than the limit");
    sbuf_addf(&r->out, "%d ", (int)stream);
    sbuf_add(&r->out, data, len);
}

static void
on_output(void *ctx, const struct output *out)
{
    struct run *r = ctx;

    require(r->begun && !r->over, "an output at a wrong time");
    require(out->index == (int)r->n_outputs, "a wrong index");
    require(++r->n_outputs <= SANDBOX_MAX_EVENTS, "too many outputs");
    require(out->text != NULL || out->table != NULL || out->png != NULL,
            "nothing is left");
    require(out->text == NULL || (utf8_valid(out->text, out->text_len) &&
                                  out->text_len <= MIME_BUNDLE_MAX_TEXT_BYTES),
            "a text that is none");
    if (out->png != NULL)
        require(++r->n_images <= SANDBOX_MAX_IMAGES, "too many pictures");
    require(out->title == NULL || strpbrk(out->title, "\r\n") == NULL,
            "a title of two lines");
    require(out->what == NULL || strpbrk(out->what, "\r\n") == NULL,
            "a description of two lines");
    sbuf_addf(&r->out, "[%d %d %s]", out->is_result, out->width_px,
              out->text != NULL ? out->text : "");
}

static void
on_note(void *ctx, const char *kind, const char *text)
{
    struct run *r = ctx;

    require(!r->over, "a note at a wrong time");
    require(strlen(kind) <= SANDBOX_MAX_NAME_BYTES &&
                strlen(text) <= SANDBOX_MAX_VALUE_BYTES,
            "a note that is too long");
    sbuf_add_str(&r->out, text);
}

static const struct sandbox_cell_handlers handlers = {
    .on_begin = on_begin,
    .on_bytes = on_bytes,
    .on_output = on_output,
    .on_note = on_note,
};

/* Without their line feeds both begin with the same, up to the end of the
   shorter one: long ones are cut. */
static void
check_trace(const char *mended, const char *original)
{
    while (*mended != '\0') {
        if (*mended == '\n' && *original != '\n') {
            mended++;
            continue;
        }
        require(*mended++ == *original++, "a traceback was changed");
    }
    require(*original == '\0' || strlen(original) < (size_t)MAX_OUT_BYTES,
            "a traceback was lost");
}

static int
take(void *ctx, const struct e2b_line *line)
{
    struct run *r = ctx;
    bool had_error = r->result.has_error;

    r->over = r->result.ended;
    e2b_result_take(&r->result, line);
    if (!had_error && !r->result.is_done && r->result.traceback != NULL)
        check_trace(r->result.traceback, json_string(line->event, "traceback"));
    return 0;
}

static void
check_outcome(struct run *r)
{
    struct sandbox_outcome outcome = {0};
    struct error err = {0};
    int rc = e2b_result_outcome(&r->result, &outcome, &err);
    enum e2b_end end = e2b_result_end(&r->result);

    require((rc < 0) == (end == E2B_END_OPEN), "an end that is none");
    require((err.code == ERR_NET) == (rc < 0), "a wrong error");
    require(outcome.variables_lost == (end == E2B_END_LOST), "variables");
    require(outcome.error_name == NULL ||
                strlen(outcome.error_name) <= SANDBOX_MAX_NAME_BYTES,
            "a name is too long");
    require(outcome.output_dropped_bytes == 0 || r->result.flooded,
            "bytes are dropped below the limit");
    sbuf_addf(&r->out, " %d %d %d %s %s", rc, (int)end, (int)outcome.outcome,
              outcome.error_name != NULL ? outcome.error_name : "",
              outcome.traceback != NULL ? outcome.traceback : "");
}

static void
feed(const char *data, size_t size, size_t step, struct sbuf *out)
{
    struct run r = {0};
    struct e2b_lines l;
    int rc = 0;

    sbuf_init(&r.out, MAX_OUT_BYTES);
    e2b_lines_init(&l, 0);
    e2b_result_init(&r.result, MAX_OUTPUT_BYTES, &handlers, &r);
    for (size_t i = 0; i < size && rc == 0; i += step)
        rc = e2b_lines_feed(&l, data + i, size - i < step ? size - i : step,
                            take, &r, NULL);
    if (rc == 0)
        rc = e2b_lines_finish(&l, take, &r);
    check_outcome(&r);
    sbuf_add(out, r.out.data, r.out.len);
    sbuf_addf(out, " %d", rc);
    e2b_result_fini(&r.result);
    e2b_lines_fini(&l);
    sbuf_fini(&r.out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    AUTO_SBUF struct sbuf whole = {0};
    AUTO_SBUF struct sbuf out = {0};

    sbuf_init(&whole, MAX_OUT_BYTES);
    sbuf_init(&out, MAX_OUT_BYTES);
    feed(text, size, size > 0 ? size : 1, &whole);
    feed(text, size, 5, &out);
    require(strcmp(out.data, whole.data) == 0, "pieces change it");
    return 0;
}
