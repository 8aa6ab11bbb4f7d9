/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/sanitize.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"
#include "term/sanitize_internal.h"
#include "term/seq.h"

/* Marks on one base; real scripts use up to five, more only overdraw lines. */
#define MAX_MARKS 8

/* Parameters of one SGR sequence. */
#define MAX_SGR_PARAMS 16

#define N_CONTEXTS (SANITIZE_NAME + 1)

#define DOTTED_CIRCLE 0x25CCu

enum char_class {
    CLASS_LF,
    CLASS_CR,
    CLASS_TAB,
    CLASS_FEED, /* VT and FF */
    CLASS_ESC,
    CLASS_CONTROL,
    CLASS_BAD, /* C1, noncharacters, unassigned, private planes */
    CLASS_LINESEP,
    CLASS_BIDI,
    CLASS_MARK, /* invisible marks of direction */
    CLASS_JOIN,
    CLASS_VARIATION,
    CLASS_INVISIBLE,
    CLASS_COMBINING,
    CLASS_TEXT
};

enum action {
    ACT_KEEP,
    ACT_DROP,
    ACT_LF,      /* a line end */
    ACT_CR,      /* wait for what follows */
    ACT_CARET,   /* ^M */
    ACT_ESCAPE,  /* \n, \e, \x01 */
    ACT_PARSE,   /* begins a sequence */
    ACT_REPLACE, /* U+FFFD */
    ACT_SHOW,    /* <U+202E> */
    ACT_BASED,   /* a mark: needs a base, and there may not be too many */
    ACT_FITTING, /* kept behind what it can act on, else dropped */
    ACT_FITTING_OR_SHOW,
    ACT_OCTAL /* \033, in quotes */
};

/* One row for each class; the columns are those of enum sanitize_context:
   model, code, program, cell, error, name. */
static const unsigned char actions[][N_CONTEXTS] = {
    [CLASS_LF] = {ACT_LF, ACT_LF, ACT_LF, ACT_ESCAPE, ACT_ESCAPE, ACT_OCTAL},
    [CLASS_CR] = {ACT_CR, ACT_CR, ACT_CR, ACT_ESCAPE, ACT_ESCAPE, ACT_OCTAL},
    [CLASS_TAB] = {ACT_KEEP, ACT_KEEP, ACT_KEEP, ACT_ESCAPE, ACT_ESCAPE,
                   ACT_OCTAL},
    [CLASS_FEED] = {ACT_CARET, ACT_CARET, ACT_LF, ACT_ESCAPE, ACT_ESCAPE,
                    ACT_OCTAL},
    [CLASS_ESC] = {ACT_CARET, ACT_CARET, ACT_PARSE, ACT_ESCAPE, ACT_ESCAPE,
                   ACT_OCTAL},
    [CLASS_CONTROL] = {ACT_CARET, ACT_CARET, ACT_DROP, ACT_ESCAPE, ACT_ESCAPE,
                       ACT_OCTAL},
    [CLASS_BAD] = {ACT_REPLACE, ACT_REPLACE, ACT_REPLACE, ACT_REPLACE,
                   ACT_REPLACE, ACT_OCTAL},
    [CLASS_LINESEP] = {ACT_LF, ACT_SHOW, ACT_LF, ACT_SHOW, ACT_SHOW, ACT_OCTAL},
    [CLASS_BIDI] = {ACT_SHOW, ACT_SHOW, ACT_SHOW, ACT_SHOW, ACT_SHOW,
                    ACT_OCTAL},
    [CLASS_MARK] = {ACT_DROP, ACT_SHOW, ACT_DROP, ACT_SHOW, ACT_SHOW,
                    ACT_OCTAL},
    [CLASS_JOIN] = {ACT_FITTING, ACT_SHOW, ACT_FITTING, ACT_FITTING_OR_SHOW,
                    ACT_FITTING_OR_SHOW, ACT_OCTAL},
    [CLASS_VARIATION] = {ACT_FITTING, ACT_FITTING_OR_SHOW, ACT_FITTING,
                         ACT_FITTING_OR_SHOW, ACT_FITTING_OR_SHOW, ACT_OCTAL},
    [CLASS_INVISIBLE] = {ACT_DROP, ACT_SHOW, ACT_DROP, ACT_SHOW, ACT_SHOW,
                         ACT_OCTAL},
    [CLASS_COMBINING] = {ACT_BASED, ACT_BASED, ACT_BASED, ACT_BASED, ACT_BASED,
                         ACT_BASED},
    [CLASS_TEXT] = {ACT_KEEP, ACT_KEEP, ACT_KEEP, ACT_KEEP, ACT_KEEP, ACT_KEEP},
};

/* Code points above ASCII with a class that follows from no property. The
   first range that fits counts. */
static const struct {
    uint32_t first;
    uint32_t last;
    enum char_class class;
} special_ranges[] = {
    {0x0080, 0x009F, CLASS_BAD},         {0x00AD, 0x00AD, CLASS_INVISIBLE},
    {0x034F, 0x034F, CLASS_INVISIBLE},   {0x061C, 0x061C, CLASS_MARK},
    {0x115F, 0x1160, CLASS_INVISIBLE},   {0x17B4, 0x17B5, CLASS_INVISIBLE},
    {0x180B, 0x180F, CLASS_INVISIBLE},   {0x200B, 0x200B, CLASS_INVISIBLE},
    {0x200C, 0x200D, CLASS_JOIN},        {0x200E, 0x200F, CLASS_MARK},
    {0x2028, 0x2029, CLASS_LINESEP},     {0x202A, 0x202E, CLASS_BIDI},
    {0x2060, 0x2065, CLASS_INVISIBLE},   {0x2066, 0x2069, CLASS_BIDI},
    {0x206A, 0x206F, CLASS_INVISIBLE},   {0x3164, 0x3164, CLASS_INVISIBLE},
    {0xFDD0, 0xFDEF, CLASS_BAD},         {0xFE00, 0xFE0D, CLASS_INVISIBLE},
    {0xFE0E, 0xFE0F, CLASS_VARIATION},   {0xFEFF, 0xFEFF, CLASS_INVISIBLE},
    {0xFFA0, 0xFFA0, CLASS_INVISIBLE},   {0xFFF0, 0xFFFB, CLASS_INVISIBLE},
    {0x1BCA0, 0x1BCA3, CLASS_INVISIBLE}, {0x1D173, 0x1D17A, CLASS_INVISIBLE},
    {0xE0000, 0xE0FFF, CLASS_INVISIBLE}, {0xF0000, 0x10FFFF, CLASS_BAD},
};

enum parser_state {
    STATE_GROUND,
    STATE_ESCAPE,
    STATE_ESCAPE_INTERMEDIATE,
    STATE_CSI,
    STATE_CSI_INTERMEDIATE,
    STATE_STRING,
    STATE_STRING_ESCAPE
};

/* One character on its way: how it is written, and what it is. */
struct unit {
    const char *bytes;
    size_t n_bytes;
    uint32_t cp;
    bool broken;
};

/* --- classes --- */

static enum char_class
classify_ascii(uint32_t cp)
{
    switch (cp) {
    case '\n':
        return CLASS_LF;
    case '\r':
        return CLASS_CR;
    case '\t':
        return CLASS_TAB;
    case '\v':
    case '\f':
        return CLASS_FEED;
    case 0x1B:
        return CLASS_ESC;
    default:
        return cp < 0x20 || cp == 0x7F ? CLASS_CONTROL : CLASS_TEXT;
    }
}

static enum char_class
classify(const struct unit *u)
{
    if (u->broken) {
        return CLASS_BAD;
    }
    if (u->cp < 0x80) {
        return classify_ascii(u->cp);
    }
    for (size_t i = 0; i < LEN(special_ranges); i++) {
        if (u->cp >= special_ranges[i].first &&
            u->cp <= special_ranges[i].last) {
            return special_ranges[i].class;
        }
    }
    if (utf8_is_combining(u->cp)) {
        return CLASS_COMBINING;
    }
    return utf8_is_assigned(u->cp) ? CLASS_TEXT : CLASS_BAD;
}

/* --- colours --- */

static void
reset_rendition(struct sanitizer *s, struct sbuf *out)
{
    if (!sanitize_rendition_is_plain(&s->sent)) {
        seq_add(out, SEQ_SGR_RESET);
        s->sent = (struct sanitize_rendition){0};
    }
}

static void
sync_rendition(struct sanitizer *s, struct sbuf *out)
{
    struct sanitize_rendition shown = s->wanted;

    if (s->no_color) {
        return;
    }
    sanitize_show_rendition(&shown);
    if (!sanitize_rendition_equal(&shown, &s->sent)) {
        sanitize_add_rendition(out, &shown);
        s->sent = shown;
    }
}

/* --- writing --- */

static struct sbuf *
get_target(struct sanitizer *s, struct sbuf *out)
{
    return s->context == SANITIZE_NAME ? &s->name : out;
}

static void
begin_line(struct sanitizer *s)
{
    s->last = 0;
    s->n_marks = 0;
    s->cr = false;
}

static void
add_line_end(struct sanitizer *s, struct sbuf *out)
{
    reset_rendition(s, out);
    sbuf_add_char(out, '\n');
    begin_line(s);
}

/* The line is written anew. It is erased as a whole first, so that nothing can
   be laid over a part of it. */
static void
restart_line(struct sanitizer *s, struct sbuf *out)
{
    s->n_restarts++;
    if (s->line_restart_as_lf) {
        add_line_end(s, out);
        return;
    }
    reset_rendition(s, out);
    seq_add(out, SEQ_LINE_RESTART);
    if (s->margin != NULL) {
        sbuf_add_str(out, s->margin);
    }
    begin_line(s);
}

/* Before anything that can be seen, in context program. */
static void
prepare_visible(struct sanitizer *s, struct sbuf *out)
{
    if (s->context != SANITIZE_PROGRAM) {
        return;
    }
    if (s->cr) {
        restart_line(s, out);
    }
    sync_rendition(s, out);
}

/* ASCII that stands for something else. */
static void
add_notation(struct sanitizer *s, struct sbuf *out, const char *text)
{
    prepare_visible(s, out);
    sbuf_add_str(get_target(s, out), text);
    s->last = (unsigned char)text[strlen(text) - 1];
    s->n_marks = 0;
}

static void
add_caret(struct sanitizer *s, struct sbuf *out, uint32_t cp)
{
    char text[3] = {'^', (char)(cp ^ 0x40u), '\0'};

    add_notation(s, out, text);
}

static void
add_shown(struct sanitizer *s, struct sbuf *out, uint32_t cp)
{
    char text[16];

    snprintf(text, sizeof(text), "<U+%04X>", (unsigned)cp);
    add_notation(s, out, text);
}

static void
add_char(struct sanitizer *s, struct sbuf *out, uint32_t cp)
{
    char bytes[UTF8_MAX_BYTES];

    prepare_visible(s, out);
    sbuf_add(get_target(s, out), bytes, utf8_encode(cp, bytes));
    s->last = cp;
    s->n_marks = 0;
}

/* The letter of the C escape of c, or 0. */
static char
find_letter(unsigned char c)
{
    static const char letters[] = "abtnvfr"; /* from 07 to 0D */

    if (c == '"' || c == '\\') {
        return (char)c;
    }
    return c >= 0x07 && c <= 0x0D ? letters[c - 0x07] : '\0';
}

static void
add_escape(struct sanitizer *s, struct sbuf *out, uint32_t cp)
{
    char letter = cp == 0x1B ? 'e' : find_letter((unsigned char)cp);
    char text[8];

    if (letter != '\0') {
        snprintf(text, sizeof(text), "\\%c", letter);
    } else {
        snprintf(text, sizeof(text), "\\x%02x", (unsigned)cp);
    }
    add_notation(s, out, text);
}

/* The form that git uses: it can be read back byte by byte. */
static void
add_octal(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    s->quote = true;
    for (size_t i = 0; i < u->n_bytes; i++) {
        unsigned char c = (unsigned char)u->bytes[i];
        char letter = find_letter(c);
        char text[8];

        if (letter != '\0') {
            snprintf(text, sizeof(text), "\\%c", letter);
        } else {
            snprintf(text, sizeof(text), "\\%03o", (unsigned)c);
        }
        add_notation(s, out, text);
    }
}

/* A combining character. */
static void
add_mark(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    bool has_base;

    if (s->context == SANITIZE_NAME &&
        (s->last == 0 || s->n_marks >= MAX_MARKS)) {
        add_octal(s, out, u);
        return;
    }
    has_base = s->last != 0 && !s->cr;
    if (has_base && s->n_marks >= MAX_MARKS) {
        return;
    }
    /* Without a base it would change the last character of our own text. */
    if (!has_base) {
        add_char(s, out, DOTTED_CIRCLE);
    }
    prepare_visible(s, out);
    sbuf_add(get_target(s, out), u->bytes, u->n_bytes);
    s->last = u->cp;
    s->n_marks++;
}

static bool
is_join(uint32_t cp)
{
    return cp == 0x200C || cp == 0x200D;
}

static bool
is_variation(uint32_t cp)
{
    return cp == 0xFE0E || cp == 0xFE0F;
}

/* Whether a joiner or a variation selector can act on what stands before. */
static bool
fits_last(const struct sanitizer *s, uint32_t cp)
{
    uint32_t last = s->cr ? 0 : s->last;

    if (is_join(last) || last == UTF8_REPLACEMENT) {
        return false;
    }
    if (is_join(cp)) {
        return last >= 0x300;
    }
    return (last >= 0x2000 && !is_variation(last)) ||
           (last >= '0' && last <= '9') || last == '#' || last == '*' ||
           last == 0xA9 || last == 0xAE;
}

/* Marks that were counted still count: this is no base for more of them. */
static void
add_fitting(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    prepare_visible(s, out);
    sbuf_add(out, u->bytes, u->n_bytes);
    s->last = u->cp;
}

static void
keep(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    if (s->context == SANITIZE_NAME && (u->cp == '"' || u->cp == '\\')) {
        add_octal(s, out, u);
        return;
    }
    add_char(s, out, u->cp);
    if (u->cp == '\t') {
        s->last = 0;
    }
}

/* --- characters outside of sequences --- */

static void
take_ground(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    enum char_class class = classify(u);

    /* Elsewhere a CR that is no part of a line end is shown. */
    if (s->cr && s->context != SANITIZE_PROGRAM) {
        s->cr = false;
        if (class != CLASS_LF) {
            add_caret(s, out, '\r');
        }
    }
    switch ((enum action)actions[class][s->context]) {
    case ACT_KEEP:
        keep(s, out, u);
        break;
    case ACT_DROP:
        break;
    case ACT_LF:
        add_line_end(s, out);
        break;
    case ACT_CR:
        s->cr = true;
        break;
    case ACT_CARET:
        add_caret(s, out, u->cp);
        break;
    case ACT_ESCAPE:
        add_escape(s, out, u->cp);
        break;
    case ACT_PARSE:
        s->state = STATE_ESCAPE;
        break;
    case ACT_REPLACE:
        add_char(s, out, UTF8_REPLACEMENT);
        break;
    case ACT_SHOW:
        add_shown(s, out, u->cp);
        break;
    case ACT_BASED:
        add_mark(s, out, u);
        break;
    case ACT_FITTING:
        if (fits_last(s, u->cp)) {
            add_fitting(s, out, u);
        }
        break;
    case ACT_FITTING_OR_SHOW:
        if (fits_last(s, u->cp)) {
            add_fitting(s, out, u);
        } else {
            add_shown(s, out, u->cp);
        }
        break;
    case ACT_OCTAL:
        add_octal(s, out, u);
        break;
    }
}

/* --- sequences, in context program --- */

static void
drop_sequence(struct sanitizer *s, enum parser_state next)
{
    s->n_dropped++;
    s->state = next;
}

/*
 * A control (ESC included) and what is not ASCII end a sequence, and are then
 * taken as if there had been none; so CAN and SUB, which only end it, vanish.
 * True when u was one of them.
 */
static bool
interrupt_sequence(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    if (u->cp >= 0x20 && u->cp < 0x7F) {
        return false;
    }
    drop_sequence(s, STATE_GROUND);
    take_ground(s, out, u);
    return true;
}

static void
take_escape(struct sanitizer *s, uint32_t cp)
{
    if (cp == '[') {
        s->state = STATE_CSI;
        s->n_params = 0;
    } else if (strchr("]P^_Xk", (int)cp) != NULL) {
        drop_sequence(s, STATE_STRING);
    } else if (cp < 0x30) {
        s->state = STATE_ESCAPE_INTERMEDIATE;
    } else {
        drop_sequence(s, STATE_GROUND);
    }
}

static void
end_csi(struct sanitizer *s, uint32_t final)
{
    size_t n_separators = 0;

    s->params[s->n_params <= SANITIZE_PARAM_BYTES ? s->n_params : 0] = '\0';
    for (const char *p = s->params; *p != '\0'; p++) {
        n_separators += *p == ';' ? 1 : 0;
    }
    if (final != 'm' || s->n_params > SANITIZE_PARAM_BYTES ||
        n_separators >= MAX_SGR_PARAMS ||
        s->params[strspn(s->params, "0123456789;:")] != '\0') {
        drop_sequence(s, STATE_GROUND);
        return;
    }
    sanitize_apply_sgr(&s->wanted, s->params);
    s->state = STATE_GROUND;
}

static void
take_csi(struct sanitizer *s, uint32_t cp)
{
    if (cp < 0x30) {
        s->state = STATE_CSI_INTERMEDIATE;
    } else if (cp >= 0x40) {
        end_csi(s, cp);
    } else if (s->n_params < SANITIZE_PARAM_BYTES) {
        s->params[s->n_params++] = (char)cp;
    } else {
        s->n_params = SANITIZE_PARAM_BYTES + 1; /* too long to mean a colour */
    }
}

static void
take_string(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    if (u->broken) {
        return;
    }
    switch (u->cp) {
    case 0x1B:
        s->state = STATE_STRING_ESCAPE;
        break;
    case 0x07:
    case 0x18:
    case 0x1A:
    case 0x9C:
        s->state = STATE_GROUND;
        break;
    case '\n':
        /* An end that is missing hides the rest of the line at most. */
        s->state = STATE_GROUND;
        take_ground(s, out, u);
        break;
    default:
        break;
    }
}

static void
take_unit(struct sanitizer *s, struct sbuf *out, const struct unit *u)
{
    switch ((enum parser_state)s->state) {
    case STATE_GROUND:
        take_ground(s, out, u);
        break;
    case STATE_ESCAPE:
        if (!interrupt_sequence(s, out, u)) {
            take_escape(s, u->cp);
        }
        break;
    case STATE_ESCAPE_INTERMEDIATE:
        if (!interrupt_sequence(s, out, u) && u->cp >= 0x30) {
            drop_sequence(s, STATE_GROUND);
        }
        break;
    case STATE_CSI:
        if (!interrupt_sequence(s, out, u)) {
            take_csi(s, u->cp);
        }
        break;
    case STATE_CSI_INTERMEDIATE:
        if (!interrupt_sequence(s, out, u) && u->cp >= 0x40) {
            drop_sequence(s, STATE_GROUND);
        }
        break;
    case STATE_STRING:
        take_string(s, out, u);
        break;
    case STATE_STRING_ESCAPE:
        s->state = STATE_GROUND;
        if (u->cp != '\\') {
            s->state = STATE_ESCAPE;
            take_unit(s, out, u);
        }
        break;
    }
}

/* --- bytes --- */

/* Takes the character at data; returns its bytes. */
static size_t
take_char(struct sanitizer *s, const char *data, size_t len, struct sbuf *out)
{
    struct unit u = {.bytes = data};
    bool ok;

    u.n_bytes = utf8_decode(data, len, &u.cp, &ok);
    u.broken = !ok;
    take_unit(s, out, &u);
    return u.n_bytes;
}

/* Adds bytes to the start of a character that is kept from before, until it is
   whole or broken. Returns how many were used. */
static size_t
finish_pending(struct sanitizer *s, const char *data, size_t len,
               struct sbuf *out)
{
    size_t i = 0;

    while (s->n_pending > 0 && i < len) {
        size_t n;

        s->pending[s->n_pending++] = data[i];
        if (utf8_pending(s->pending, s->n_pending) == s->n_pending) {
            i++;
            continue;
        }
        n = take_char(s, s->pending, s->n_pending, out);
        /* The new byte was no part of it, or its last one. */
        i += n == s->n_pending ? 1 : 0;
        s->n_pending = 0;
    }
    return i;
}

/* How many bytes at data are plain text that needs no look. */
static size_t
measure_plain(const struct sanitizer *s, const char *data, size_t len)
{
    size_t n = 0;

    if (s->state != STATE_GROUND || s->cr || s->context == SANITIZE_NAME) {
        return 0;
    }
    while (n < len && data[n] >= 0x20 && data[n] < 0x7F) {
        n++;
    }
    return n;
}

static void
begin_name(struct sanitizer *s)
{
    /* A zeroed sanitizer is a valid one, so this is done late. */
    if (s->context == SANITIZE_NAME && s->name.max == 0) {
        sbuf_init(&s->name, SANITIZE_MAX_NAME_BYTES);
    }
}

void
sanitize_feed(struct sanitizer *s, const char *data, size_t len,
              struct sbuf *out)
{
    size_t i;

    begin_name(s);
    i = finish_pending(s, data, len, out);
    while (i < len) {
        size_t n = measure_plain(s, data + i, len - i);

        if (n > 0) {
            prepare_visible(s, out);
            sbuf_add(out, data + i, n);
            i += n;
            s->last = (unsigned char)data[i - 1];
            s->n_marks = 0;
        } else if (len - i < UTF8_MAX_BYTES &&
                   utf8_pending(data + i, len - i) == len - i) {
            s->n_pending = len - i;
            memcpy(s->pending, data + i, s->n_pending);
            i = len;
        } else {
            i += take_char(s, data + i, len - i, out);
        }
    }
}

static void
add_name(struct sanitizer *s, struct sbuf *out)
{
    const char *text = s->name.data;
    size_t len = s->name.len;
    bool quote = s->quote || len == 0 || text[0] == ' ' || text[len - 1] == ' ';

    if (quote) {
        sbuf_add_char(out, '"');
    }
    sbuf_add(out, text, len);
    if (quote) {
        sbuf_add_char(out, '"');
    }
    if (!sbuf_ok(&s->name)) {
        sbuf_add_str(out, "...");
    }
}

void
sanitize_end(struct sanitizer *s, struct sbuf *out)
{
    begin_name(s);
    if (s->n_pending > 0) {
        take_char(s, s->pending, s->n_pending, out);
        s->n_pending = 0;
    }
    if (s->cr && s->context != SANITIZE_PROGRAM) {
        add_caret(s, out, '\r');
    }
    if (s->state != STATE_GROUND && s->state != STATE_STRING &&
        s->state != STATE_STRING_ESCAPE) {
        drop_sequence(s, STATE_GROUND);
    }
    reset_rendition(s, out);
    if (s->context == SANITIZE_NAME) {
        add_name(s, out);
    }
    begin_line(s);
    s->state = STATE_GROUND;
    s->n_params = 0;
    s->wanted = (struct sanitize_rendition){0};
    s->quote = false;
    sanitize_fini(s);
}

void
sanitize_fini(struct sanitizer *s)
{
    if (s->name.max > 0) {
        sbuf_fini(&s->name);
        s->name = (struct sbuf){0};
    }
}

void
sanitize_text(enum sanitize_context context, const char *data, size_t len,
              struct sbuf *out)
{
    struct sanitizer s = {.context = context};

    sanitize_feed(&s, data, len, out);
    sanitize_end(&s, out);
}
