/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/input.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sbuf.h"
#include "base/utf8.h"

/* A byte is fast when it comes this soon behind the one before it: programs
   write sequences at once, people do not type so. */
#define FAST_MS 50
#define FAST_PROBE_MS 500
#define PROBE_LIMIT_MS 5000
#define BROKEN_MS 1000
#define TAIL_MS 100
#define STALLED_MS 5000

#define MAX_CSI_BYTES 128
#define MAX_SS3_BYTES 16
#define MAX_STRING_BYTES 4096
#define MAX_RUN_BYTES (64u << 10)

/* Two ESC, the introducer, the longest body, its end. */
#define MAX_SEQ_BYTES (MAX_STRING_BYTES + 8)

/* A paste that became large once does not keep its memory. */
#define KEPT_PASTE_BYTES (64u << 10)

#define ESC '\033'
#define BEL '\a'
#define CTRL_C '\003'
#define CTRL_Z '\032'
#define CAN '\030'
#define SUB '\032'
#define DEL 0x7F

enum state {
    STATE_GROUND,
    STATE_UTF8,
    STATE_ESC,
    STATE_CSI,
    STATE_SS3,
    STATE_INTRODUCER, /* of a string, or a Meta key: the next byte tells */
    STATE_STRING,
    STATE_PASTE
};

struct input {
    input_fn fn;
    void *ctx;
    const struct input_mode *mode; /* borrowed; NULL: all false */

    enum state state;
    int64_t now_ms;  /* of the byte in hand */
    int64_t last_ms; /* of the byte before */
    int64_t probe_until_ms;

    struct sbuf seq; /* from the first ESC, or the bytes of a character */
    size_t n_escapes;
    size_t n_wanted; /* bytes of the character */
    bool linux_key;  /* CSI [ takes one more */
    bool too_long;
    int64_t string_ms; /* when the string began */

    struct sbuf run; /* printable characters, or text of a paste */
    bool run_is_text;

    struct sbuf paste;
    size_t n_cut;
    size_t n_matched; /* bytes of the end mark */

    int64_t tail_until_ms; /* what comes before belongs to the paste */
    int64_t tail_ms;       /* renewal of that by each byte */
    bool cr_held;          /* a line end that may be an Enter */
    bool cr_wants_lf;      /* it was CR: an LF belongs to it */
    int64_t cr_due_ms;
};

static const char paste_end[] = "\033[201~";

static void take_byte(struct input *in, unsigned char c);

/* ---- units ---- */

static bool
escape_acts(const struct input *in)
{
    return in->mode != NULL && in->mode->escape_acts;
}

static bool
is_quoted(const struct input *in)
{
    return in->mode != NULL && in->mode->quoted;
}

static bool
is_in_tail(const struct input *in)
{
    return in->now_ms < in->tail_until_ms;
}

static void
flush_run(struct input *in)
{
    struct input_unit unit = {
        .kind = in->run_is_text ? INPUT_PASTE : INPUT_KEYS,
        .data = in->run.data,
        .len = in->run.len,
    };

    if (in->run.len == 0)
        return;
    in->fn(in->ctx, &unit);
    sbuf_clear(&in->run);
}

static void
emit(struct input *in, enum input_kind kind, const char *data, size_t len)
{
    struct input_unit unit = {.kind = kind, .data = data, .len = len};

    flush_run(in);
    in->fn(in->ctx, &unit);
}

static void
add_run(struct input *in, bool text, const char *data, size_t len)
{
    if (in->run.len > 0 &&
        (in->run_is_text != text || in->run.len + len > MAX_RUN_BYTES))
        flush_run(in);
    in->run_is_text = text;
    sbuf_add(&in->run, data, len);
}

static void
go_ground(struct input *in)
{
    in->state = STATE_GROUND;
    in->n_escapes = 0;
    in->linux_key = false;
    in->too_long = false;
    sbuf_clear(&in->seq);
}

/* Hands in what was collected, and is ready for the next byte. */
static void
emit_seq(struct input *in, enum input_kind kind)
{
    char data[MAX_SEQ_BYTES + 1];
    size_t len = in->seq.len;

    /* A copy: what fn asks of the filter must find it in order. */
    memcpy(data, in->seq.data, len + 1);
    go_ground(in);
    emit(in, kind, data, len);
}

static void
begin_escape(struct input *in)
{
    /* The editor must have seen all keys when it is asked whether ESC acts. */
    flush_run(in);
    go_ground(in);
    in->state = STATE_ESC;
    in->n_escapes = 1;
    sbuf_add_char(&in->seq, ESC);
}

/* The ESC in front was typed before a sequence of the terminal came: it goes
   on waiting for its key. */
static void
end_reply(struct input *in)
{
    bool waits = in->n_escapes == 2;

    if (waits) {
        char data[MAX_SEQ_BYTES + 1];
        size_t len = in->seq.len - 1;

        memcpy(data, in->seq.data + 1, len + 1);
        begin_escape(in);
        emit(in, INPUT_REPLY, data, len);
    } else {
        emit_seq(in, INPUT_REPLY);
    }
}

/* ---- text ---- */

/* C1, and what changes the direction of text. */
static bool
is_bad_char(uint32_t cp)
{
    return (cp >= 0x80 && cp < 0xA0) || (cp >= 0x202A && cp <= 0x202E) ||
           (cp >= 0x2066 && cp <= 0x2069);
}

/* Makes a paste text, in place; returns its new length. */
static size_t
clean_text(char *data, size_t len)
{
    size_t to = 0;

    for (size_t i = 0; i < len;) {
        uint32_t cp;
        bool ok;
        size_t n = utf8_decode(data + i, len - i, &cp, &ok);
        bool is_control = cp < 0x20 || cp == DEL;

        if (cp == '\r') {
            data[to++] = '\n';
            if (i + 1 < len && data[i + 1] == '\n')
                n = 2;
        } else if (ok && !is_bad_char(cp) &&
                   (!is_control || cp == '\n' || cp == '\t')) {
            memmove(data + to, data + i, n);
            to += n;
        }
        i += n;
    }
    return to;
}

static void
end_paste(struct input *in, bool stalled)
{
    struct sbuf text = in->paste;
    struct input_unit unit = {
        .kind = INPUT_PASTE, .stalled = stalled, .n_cut = in->n_cut};

    sbuf_init(&in->paste, INPUT_MAX_PASTE_BYTES);
    in->n_cut = 0;
    in->n_matched = 0;
    in->tail_ms = stalled ? STALLED_MS : TAIL_MS;
    in->tail_until_ms = in->now_ms + in->tail_ms;
    go_ground(in);

    sbuf_truncate(&text, clean_text(text.data, text.len));
    unit.data = text.data;
    unit.len = text.len;
    flush_run(in);
    if (unit.len > 0 || stalled || unit.n_cut > 0)
        in->fn(in->ctx, &unit);

    if (in->paste.len == 0 && text.cap <= KEPT_PASTE_BYTES) {
        sbuf_fini(&in->paste);
        in->paste = text;
        sbuf_clear(&in->paste);
    } else {
        sbuf_fini(&text);
    }
}

static void
add_paste(struct input *in, const char *data, size_t len)
{
    if (in->n_cut > 0 || in->paste.len + len > INPUT_MAX_PASTE_BYTES)
        in->n_cut += len;
    else
        sbuf_add(&in->paste, data, len);
}

static void
take_paste(struct input *in, unsigned char c)
{
    if (c == (unsigned char)paste_end[in->n_matched]) {
        in->n_matched++;
        if (paste_end[in->n_matched] == '\0')
            end_paste(in, false);
        return;
    }
    /* The mark begins with its only ESC, so what was held is no start of
       another one. */
    add_paste(in, paste_end, in->n_matched);
    in->n_matched = c == ESC ? 1 : 0;
    if (c != ESC)
        add_paste(in, (const char *)&c, 1);
}

static void
begin_paste(struct input *in)
{
    bool typed_escape = in->n_escapes == 2;

    flush_run(in);
    go_ground(in);
    if (typed_escape && escape_acts(in))
        emit(in, INPUT_KEYS, "\033", 1);
    in->state = STATE_PASTE;
    in->n_matched = 0;
}

/* ---- states ---- */

/* Of a line; the byte itself is LF or CR. */
static void
take_line_end(struct input *in, unsigned char c)
{
    char data[2] = {(char)c, '\0'};
    bool no_brackets = in->mode != NULL && in->mode->no_brackets;

    if (!is_in_tail(in) && (!no_brackets || is_quoted(in))) {
        emit(in, INPUT_ENTER, data, 1);
        return;
    }
    in->cr_held = true;
    in->cr_wants_lf = c == '\r';
    in->cr_due_ms = in->now_ms + TAIL_MS;
    if (is_in_tail(in) && in->tail_until_ms > in->cr_due_ms)
        in->cr_due_ms = in->tail_until_ms;
}

/* Something follows a held line end: it was a line feed of pasted text. Where
   there are no brackets, an interrupt right behind an Enter stays one. */
static void
release_line_end(struct input *in, unsigned char next)
{
    in->cr_held = false;
    add_run(in, true, "\n", 1);
    if (!is_in_tail(in) && next != CTRL_C && next != CTRL_Z) {
        in->tail_ms = TAIL_MS;
        in->tail_until_ms = in->now_ms + TAIL_MS;
    }
}

static size_t
char_bytes(unsigned char c)
{
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF)
        return 3;
    return c >= 0xF0 && c <= 0xF4 ? 4 : 0;
}

static void
take_control(struct input *in, unsigned char c)
{
    char data[2] = {(char)c, '\0'};

    /* The editor may wait for a key to quote. */
    flush_run(in);
    if (c == CTRL_C || c == CTRL_Z) {
        bool quoted = is_quoted(in);

        if (is_in_tail(in))
            return;
        if (quoted)
            emit(in, INPUT_KEYS, data, 1);
        else
            emit(in, c == CTRL_C ? INPUT_INTERRUPT : INPUT_STOP, data, 1);
        return;
    }
    /* A control in a tail was in the pasted text: some of them submit. */
    if (!is_in_tail(in))
        emit(in, INPUT_KEYS, data, 1);
}

static void
take_ground(struct input *in, unsigned char c)
{
    if (c == ESC) {
        begin_escape(in);
    } else if (c == '\r' || c == '\n') {
        flush_run(in);
        take_line_end(in, c);
    } else if (c == '\t' && is_in_tail(in)) {
        add_run(in, true, "\t", 1);
    } else if (c < 0x20 || c == DEL) {
        take_control(in, c);
    } else if (c < 0x80) {
        add_run(in, is_in_tail(in), (const char *)&c, 1);
    } else if (char_bytes(c) > 0) {
        in->state = STATE_UTF8;
        in->n_wanted = char_bytes(c);
        sbuf_clear(&in->seq);
        sbuf_add_char(&in->seq, (char)c);
    }
}

static void
take_utf8(struct input *in, unsigned char c)
{
    char data[UTF8_MAX_BYTES];
    size_t len;
    uint32_t cp;
    bool ok;

    if (c < 0x80 || c > 0xBF) {
        go_ground(in);
        take_ground(in, c);
        return;
    }
    sbuf_add_char(&in->seq, (char)c);
    if (in->seq.len < in->n_wanted)
        return;
    len = in->seq.len;
    memcpy(data, in->seq.data, len);
    go_ground(in);
    if (utf8_decode(data, len, &cp, &ok) == len && ok && !is_bad_char(cp))
        add_run(in, is_in_tail(in), data, len);
}

static bool
is_probing(const struct input *in)
{
    return in->now_ms < in->probe_until_ms;
}

static bool
is_fast(const struct input *in)
{
    return is_probing(in) || in->now_ms - in->last_ms <= FAST_MS;
}

/* What was typed is dropped, or handed in where ESC alone does something. */
static void
leave_escape(struct input *in)
{
    if (escape_acts(in))
        emit_seq(in, INPUT_KEYS);
    else
        go_ground(in);
}

static void
take_escape(struct input *in, unsigned char c)
{
    if (c == ESC) {
        if (in->n_escapes == 1) {
            in->n_escapes = 2;
            sbuf_add_char(&in->seq, ESC);
        } else {
            emit_seq(in, INPUT_KEYS);
            begin_escape(in);
        }
        return;
    }
    /* Ctrl-C and Ctrl-Z act also behind an ESC that was typed long ago. */
    if (c >= 0x80 || c == CTRL_C || c == CTRL_Z) {
        leave_escape(in);
        take_ground(in, c);
        return;
    }
    sbuf_add_char(&in->seq, (char)c);
    if (c == '[')
        in->state = STATE_CSI;
    else if (c == 'O')
        in->state = STATE_SS3;
    else if ((c == ']' || c == 'P' || c == '_') && is_fast(in))
        in->state = STATE_INTRODUCER;
    else
        emit_seq(in, INPUT_KEYS);
}

/* The sequence is complete. */
static void
end_csi(struct input *in, unsigned char final)
{
    const char *body = in->seq.data + in->n_escapes + 1;
    size_t len = in->seq.len - in->n_escapes - 1;
    bool is_private = body[0] >= '<' && body[0] <= '?';

    if (in->too_long) {
        go_ground(in);
    } else if (is_private || final == 't' || final == 'n' || final == 'c' ||
               (len == 1 && (final == 'I' || final == 'O'))) {
        /* The answer to the last query ends the waiting. */
        if (body[0] == '?' && final == 'c')
            in->probe_until_ms = 0;
        end_reply(in);
    } else if (strcmp(body, "200~") == 0) {
        begin_paste(in);
    } else if (strcmp(body, "201~") == 0) {
        /* The end of a paste that was taken as it was. */
        if (is_in_tail(in)) {
            in->tail_ms = TAIL_MS;
            in->tail_until_ms = in->now_ms + TAIL_MS;
        }
        go_ground(in);
    } else {
        emit_seq(in, INPUT_SEQUENCE);
    }
}

static void
take_csi(struct input *in, unsigned char c)
{
    bool is_first = in->seq.len == in->n_escapes + 1;

    if (c < 0x20 || c > 0x7E) {
        go_ground(in);
        take_ground(in, c);
        return;
    }
    if (in->seq.len >= in->n_escapes + 1 + MAX_CSI_BYTES)
        in->too_long = true;
    else
        sbuf_add_char(&in->seq, (char)c);
    if (in->linux_key)
        emit_seq(in, INPUT_SEQUENCE);
    else if (c == '[' && is_first)
        in->linux_key = true;
    else if (c >= 0x40)
        end_csi(in, c);
}

/* A Meta key after all; what was collected behind it are keys. */
static void
end_as_meta(struct input *in)
{
    char rest[MAX_SS3_BYTES + 1];
    size_t n_meta = in->n_escapes + 1;
    size_t n_rest = in->seq.len - n_meta;

    memcpy(rest, in->seq.data + n_meta, n_rest);
    sbuf_truncate(&in->seq, n_meta);
    emit_seq(in, INPUT_KEYS);
    for (size_t i = 0; i < n_rest; i++)
        take_byte(in, (unsigned char)rest[i]);
}

static void
take_ss3(struct input *in, unsigned char c)
{
    size_t n_body = in->seq.len - in->n_escapes - 1;

    if (c < 0x20 || c > 0x7E || n_body == MAX_SS3_BYTES) {
        end_as_meta(in);
        take_byte(in, c);
        return;
    }
    sbuf_add_char(&in->seq, (char)c);
    if (c != ';' && (c < '0' || c > '9'))
        emit_seq(in, INPUT_SEQUENCE);
}

static bool
begins_string(char introducer, unsigned char c)
{
    switch (introducer) {
    case 'P':
        return c == '>' || c == '0' || c == '1' || c == '!';
    case '_':
        return c == 'G';
    default:
        return (c >= '0' && c <= '9') || c == 'l' || c == 'L';
    }
}

static void
take_introducer(struct input *in, unsigned char c)
{
    if (!is_fast(in) || !begins_string(in->seq.data[in->n_escapes], c)) {
        end_as_meta(in);
        take_byte(in, c);
        return;
    }
    sbuf_add_char(&in->seq, (char)c);
    in->state = STATE_STRING;
    in->string_ms = in->now_ms;
}

static void
end_string(struct input *in)
{
    if (in->too_long)
        go_ground(in);
    else
        end_reply(in);
}

static void
take_string(struct input *in, unsigned char c)
{
    /* A string without an end must not keep the keyboard. */
    if (!is_fast(in) && (in->too_long || c == CTRL_C ||
                         in->now_ms - in->string_ms > BROKEN_MS)) {
        go_ground(in);
        take_ground(in, c);
        return;
    }
    if (in->seq.data[in->seq.len - 1] == ESC) {
        sbuf_add_char(&in->seq, (char)c);
        if (c == '\\') {
            end_string(in);
        } else {
            begin_escape(in);
            take_byte(in, c);
        }
        return;
    }
    if (c == CAN || c == SUB) {
        go_ground(in);
        return;
    }
    if (in->seq.len >= MAX_STRING_BYTES) {
        in->too_long = true;
        sbuf_truncate(&in->seq, in->n_escapes + 2);
    }
    sbuf_add_char(&in->seq, (char)c);
    if (c == BEL)
        end_string(in);
}

static void
take_byte(struct input *in, unsigned char c)
{
    switch (in->state) {
    case STATE_GROUND:
        take_ground(in, c);
        break;
    case STATE_UTF8:
        take_utf8(in, c);
        break;
    case STATE_ESC:
        take_escape(in, c);
        break;
    case STATE_CSI:
        take_csi(in, c);
        break;
    case STATE_SS3:
        take_ss3(in, c);
        break;
    case STATE_INTRODUCER:
        take_introducer(in, c);
        break;
    case STATE_STRING:
        take_string(in, c);
        break;
    case STATE_PASTE:
        take_paste(in, c);
        break;
    }
}

/* ---- time ---- */

static int64_t
state_deadline_ms(const struct input *in)
{
    int64_t fast_ms =
        in->last_ms < in->probe_until_ms ? FAST_PROBE_MS : FAST_MS;

    switch (in->state) {
    case STATE_GROUND:
        return -1;
    case STATE_ESC:
        return escape_acts(in) ? in->last_ms + fast_ms : -1;
    case STATE_SS3:
    case STATE_INTRODUCER:
        return in->last_ms + fast_ms;
    case STATE_UTF8:
    case STATE_CSI:
    case STATE_STRING:
        return in->last_ms + BROKEN_MS;
    case STATE_PASTE:
        return in->last_ms + STALLED_MS;
    }
    return -1;
}

static void
end_state(struct input *in)
{
    switch (in->state) {
    case STATE_ESC:
        emit_seq(in, INPUT_KEYS);
        break;
    case STATE_SS3:
    case STATE_INTRODUCER:
        end_as_meta(in);
        break;
    case STATE_PASTE:
        add_paste(in, paste_end, in->n_matched);
        end_paste(in, true);
        break;
    case STATE_GROUND:
    case STATE_UTF8:
    case STATE_CSI:
    case STATE_STRING:
        go_ground(in);
        break;
    }
}

int64_t
input_deadline_ms(const struct input *in)
{
    int64_t deadline_ms = state_deadline_ms(in);

    if (in->cr_held && (deadline_ms < 0 || in->cr_due_ms < deadline_ms))
        deadline_ms = in->cr_due_ms;
    return deadline_ms;
}

void
input_tick(struct input *in, int64_t now_ms)
{
    int64_t deadline_ms;

    in->now_ms = now_ms;
    if (in->cr_held && now_ms >= in->cr_due_ms) {
        in->cr_held = false;
        in->tail_until_ms = 0;
        emit(in, INPUT_ENTER, "\r", 1);
    }
    deadline_ms = state_deadline_ms(in);
    if (deadline_ms >= 0 && now_ms >= deadline_ms)
        end_state(in);
    flush_run(in);
}

/* ---- public ---- */

struct input *
input_new(input_fn fn, void *ctx)
{
    struct input *in = xcalloc(1, sizeof(*in));

    in->fn = fn;
    in->ctx = ctx;
    sbuf_init(&in->seq, MAX_SEQ_BYTES);
    sbuf_init(&in->run, MAX_RUN_BYTES);
    sbuf_init(&in->paste, INPUT_MAX_PASTE_BYTES);
    return in;
}

void
input_free(struct input *in)
{
    if (in == NULL)
        return;
    sbuf_fini(&in->seq);
    sbuf_fini(&in->run);
    sbuf_fini(&in->paste);
    free(in);
}

void
input_set_mode(struct input *in, const struct input_mode *mode)
{
    in->mode = mode;
}

void
input_expect_replies(struct input *in, int64_t now_ms)
{
    in->probe_until_ms = now_ms + PROBE_LIMIT_MS;
}

void
input_feed(struct input *in, const char *bytes, size_t len, int64_t now_ms)
{
    if (len == 0)
        return;
    input_tick(in, now_ms);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (in->cr_held) {
            /* CR LF is one line end. */
            if (c == '\n' && in->cr_wants_lf) {
                in->cr_wants_lf = false;
                continue;
            }
            release_line_end(in, c);
        }
        take_byte(in, c);
        if (is_in_tail(in))
            in->tail_until_ms = now_ms + in->tail_ms;
        in->last_ms = now_ms;
    }
    flush_run(in);
}
