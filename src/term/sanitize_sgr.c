/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/sanitize_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sbuf.h"
#include "term/sanitize.h"
#include "term/seq.h"

/* Two colours with all channels nearer than this cannot be told apart. */
#define MIN_CONTRAST 32

/* All attributes and two direct colours need 47. */
#define MAX_PARAMS_BYTES 64

enum colour_kind { COLOUR_DEFAULT, COLOUR_INDEX, COLOUR_DIRECT };

/* Attributes in the order in which they are sent. */
enum attribute {
    ATTR_BOLD = 1,
    ATTR_DIM = 2,
    ATTR_ITALIC = 4,
    ATTR_UNDERLINE = 8,
    ATTR_INVERSE = 16,
    ATTR_STRIKE = 32
};

static const struct {
    unsigned attribute;
    int on;
    int off;
} attributes[] = {
    {ATTR_BOLD, 1, 22},      {ATTR_DIM, 2, 22},     {ATTR_ITALIC, 3, 23},
    {ATTR_UNDERLINE, 4, 24}, {ATTR_INVERSE, 7, 27}, {ATTR_STRIKE, 9, 29},
};

static bool
colour_equal(const struct sanitize_colour *a, const struct sanitize_colour *b)
{
    return a->kind == b->kind && a->index == b->index &&
           memcmp(a->rgb, b->rgb, sizeof(a->rgb)) == 0;
}

/* False for the 16 colours that everybody chooses for themselves. */
static bool
colour_to_rgb(const struct sanitize_colour *c, int rgb[3])
{
    static const unsigned char levels[6] = {0, 95, 135, 175, 215, 255};
    int cube = c->index - 16;

    if (c->kind == COLOUR_DIRECT) {
        for (int i = 0; i < 3; i++) {
            rgb[i] = c->rgb[i];
        }
        return true;
    }
    if (c->kind != COLOUR_INDEX || c->index < 16) {
        return false;
    }
    if (c->index >= 232) {
        rgb[0] = rgb[1] = rgb[2] = 8 + 10 * (c->index - 232);
    } else {
        rgb[0] = levels[cube / 36];
        rgb[1] = levels[cube / 6 % 6];
        rgb[2] = levels[cube % 6];
    }
    return true;
}

/* True when text in these colours could not be seen. */
static bool
is_hidden(const struct sanitize_colour *fg, const struct sanitize_colour *bg)
{
    int a[3];
    int b[3];

    if (fg->kind == COLOUR_DEFAULT || bg->kind == COLOUR_DEFAULT) {
        return false;
    }
    if (colour_equal(fg, bg)) {
        return true;
    }
    if (!colour_to_rgb(fg, a) || !colour_to_rgb(bg, b)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (abs(a[i] - b[i]) >= MIN_CONTRAST) {
            return false;
        }
    }
    return true;
}

/* base: 30 for the foreground, 40 for the background. */
static void
add_colour(struct sbuf *params, const struct sanitize_colour *c, int base)
{
    if (c->kind == COLOUR_DIRECT) {
        sbuf_addf(params, ";%d;2;%d;%d;%d", base + 8, c->rgb[0], c->rgb[1],
                  c->rgb[2]);
    } else if (c->kind == COLOUR_INDEX && c->index >= 16) {
        sbuf_addf(params, ";%d;5;%d", base + 8, c->index);
    } else if (c->kind == COLOUR_INDEX && c->index >= 8) {
        sbuf_addf(params, ";%d", base + 60 + c->index - 8);
    } else if (c->kind == COLOUR_INDEX) {
        sbuf_addf(params, ";%d", base + c->index);
    }
}

/* The parameters of one sequence as they are read, one after another. */
struct sgr {
    const char *next;
};

/* Reads a number up to the next separator; an empty one is 0. Values that no
   parameter can have become 65535. */
static int
read_number(struct sgr *sgr)
{
    int value = 0;

    while (*sgr->next >= '0' && *sgr->next <= '9') {
        if (value < 65535) {
            value = value * 10 + (*sgr->next - '0');
        }
        sgr->next++;
    }
    return value < 65535 ? value : 65535;
}

/* Moves behind separator; false when something else comes. */
static bool
skip_separator(struct sgr *sgr, char separator)
{
    if (*sgr->next != separator) {
        return false;
    }
    sgr->next++;
    return true;
}

static void
skip_parameter(struct sgr *sgr)
{
    sgr->next += strcspn(sgr->next, ";");
}

static size_t
count_subparameters(const struct sgr *sgr)
{
    size_t n = 1;

    for (const char *p = sgr->next; *p != '\0' && *p != ';'; p++) {
        n += *p == ':' ? 1 : 0;
    }
    return n;
}

/*
 * What follows 38, 48 or 58: ;5;N  ;2;R;G;B  :5:N  :2:R:G:B  :2:SPACE:R:G:B.
 * False when it is broken.
 */
static bool
read_colour(struct sgr *sgr, struct sanitize_colour *colour)
{
    char separator = *sgr->next;
    int rgb[3] = {0};
    int kind;

    if (separator != ';' && separator != ':') {
        return false;
    }
    sgr->next++;
    kind = read_number(sgr);
    *colour = (struct sanitize_colour){0};
    if (kind == 5) {
        if (!skip_separator(sgr, separator)) {
            return false;
        }
        rgb[0] = read_number(sgr);
        colour->kind = COLOUR_INDEX;
        colour->index = (uint8_t)rgb[0];
        return rgb[0] <= 255;
    }
    /* The colour space of the long form is of no use here. */
    if (separator == ':' && count_subparameters(sgr) > 4 &&
        skip_separator(sgr, ':')) {
        read_number(sgr);
    }
    for (int i = 0; i < 3; i++) {
        if (!skip_separator(sgr, separator)) {
            return false;
        }
        rgb[i] = read_number(sgr);
        colour->rgb[i] = (uint8_t)rgb[i];
    }
    colour->kind = COLOUR_DIRECT;
    return kind == 2 && rgb[0] <= 255 && rgb[1] <= 255 && rgb[2] <= 255;
}

static void
set_index(struct sanitize_colour *colour, int index)
{
    *colour =
        (struct sanitize_colour){.kind = COLOUR_INDEX, .index = (uint8_t)index};
}

static void
apply_simple(struct sanitize_rendition *r, int number)
{
    unsigned on = 0;
    unsigned off = 0;

    for (size_t i = 0; i < LEN(attributes); i++) {
        on |= attributes[i].on == number ? attributes[i].attribute : 0;
        off |= attributes[i].off == number ? attributes[i].attribute : 0;
    }
    r->attributes = (r->attributes | on) & ~off;
    if (number == 0) {
        *r = (struct sanitize_rendition){0};
    } else if (number >= 30 && number <= 37) {
        set_index(&r->foreground, number - 30);
    } else if (number == 39) {
        r->foreground = (struct sanitize_colour){0};
    } else if (number >= 40 && number <= 47) {
        set_index(&r->background, number - 40);
    } else if (number == 49) {
        r->background = (struct sanitize_colour){0};
    } else if (number >= 90 && number <= 97) {
        set_index(&r->foreground, number - 90 + 8);
    } else if (number >= 100 && number <= 107) {
        set_index(&r->background, number - 100 + 8);
    }
}

/* The form with colons is known for underlines only: 4:0 is none. */
static void
apply_with_style(struct sanitize_rendition *r, int number, int style)
{
    if (number != 4 || style > 5) {
        return;
    }
    if (style == 0) {
        r->attributes &= ~(unsigned)ATTR_UNDERLINE;
    } else {
        r->attributes |= ATTR_UNDERLINE;
    }
}

bool
sanitize_rendition_equal(const struct sanitize_rendition *a,
                         const struct sanitize_rendition *b)
{
    return a->attributes == b->attributes &&
           colour_equal(&a->foreground, &b->foreground) &&
           colour_equal(&a->background, &b->background);
}

bool
sanitize_rendition_is_plain(const struct sanitize_rendition *r)
{
    static const struct sanitize_rendition plain;

    return sanitize_rendition_equal(r, &plain);
}

void
sanitize_show_rendition(struct sanitize_rendition *r)
{
    if (is_hidden(&r->foreground, &r->background)) {
        r->foreground = (struct sanitize_colour){0};
        r->background = (struct sanitize_colour){0};
    }
}

void
sanitize_add_rendition(struct sbuf *out, const struct sanitize_rendition *r)
{
    AUTO_SBUF struct sbuf params = {0};

    sbuf_init(&params, MAX_PARAMS_BYTES);
    sbuf_add_char(&params, '0');
    for (size_t i = 0; i < LEN(attributes); i++) {
        if ((r->attributes & attributes[i].attribute) != 0) {
            sbuf_addf(&params, ";%d", attributes[i].on);
        }
    }
    add_colour(&params, &r->foreground, 30);
    add_colour(&params, &r->background, 40);
    seq_add_sgr(out, params.data);
}

void
sanitize_apply_sgr(struct sanitize_rendition *r, const char *params)
{
    struct sgr sgr = {.next = params};

    do {
        int number = read_number(&sgr);

        if (number == 38 || number == 48 || number == 58) {
            struct sanitize_colour colour;

            /* How long a broken one is cannot be known. */
            if (!read_colour(&sgr, &colour)) {
                return;
            }
            if (number == 38) {
                r->foreground = colour;
            } else if (number == 48) {
                r->background = colour;
            }
        } else if (skip_separator(&sgr, ':')) {
            apply_with_style(r, number, read_number(&sgr));
        } else {
            apply_simple(r, number);
        }
        skip_parameter(&sgr);
    } while (skip_separator(&sgr, ';'));
}
