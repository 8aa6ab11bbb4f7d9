/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/sixel_check.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "model/output.h"

#define ESC '\033'
#define BAND_ROWS 6u
#define MAX_DIGITS 4u
#define PARAMS_SELECT 1u
#define PARAMS_DEFINE 5u
#define COLOUR_SPACE_RGB 2u
#define MAX_PERCENT 100u

enum step {
    STEP_INTRO,  /* the start, which is known byte by byte */
    STEP_BODY,   /* between commands */
    STEP_COLOUR, /* behind '#' */
    STEP_REPEAT, /* behind '!' */
    STEP_ESC,    /* behind the ESC of the end */
    STEP_DONE,
};

static int
refuse(struct sixel_check_state *s, const char *what, struct error *err)
{
    s->failed = true;
    return err_set(err, ERR_PROTOCOL, "picture program: byte %zu: %s", s->at,
                   what);
}

static bool
is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool
is_data(unsigned char c)
{
    return c >= 0x3f && c <= 0x7e;
}

static void
begin_params(struct sixel_check_state *s, enum step step)
{
    s->step = step;
    s->n_params = 0;
    s->n_digits = 0;
    s->params[0] = 0;
}

static int
add_digit(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    if (s->n_digits == MAX_DIGITS)
        return refuse(s, "number is too long", err);
    s->params[s->n_params] = s->params[s->n_params] * 10 + (c - '0');
    s->n_digits++;
    return 0;
}

static int
end_param(struct sixel_check_state *s, struct error *err)
{
    if (s->n_digits == 0)
        return refuse(s, "number is missing", err);
    s->n_params++;
    s->n_digits = 0;
    return 0;
}

static int
draw(struct sixel_check_state *s, unsigned char c, unsigned n,
     struct error *err)
{
    unsigned rows_left = s->limits.height - s->band * BAND_ROWS;

    if (n > s->limits.width - s->x)
        return refuse(s, "line is wider than the picture", err);
    if (rows_left < BAND_ROWS && (c - 0x3fu) >> rows_left != 0)
        return refuse(s, "pixels below the picture", err);
    s->x += n;
    s->drawing = true;
    s->step = STEP_BODY;
    return 0;
}

static int
next_band(struct sixel_check_state *s, struct error *err)
{
    unsigned n_bands = (s->limits.height + BAND_ROWS - 1) / BAND_ROWS;

    if (s->band + 1 >= n_bands)
        return refuse(s, "more lines than the picture has", err);
    s->band++;
    s->x = 0;
    s->drawing = true;
    return 0;
}

static int
define_colour(struct sixel_check_state *s, struct error *err)
{
    const unsigned *p = s->params;

    /* Some terminals repaint with the last definition, so one must do. */
    if (s->drawing || s->defined[p[0]])
        return refuse(s, "colour is defined again or too late", err);
    if (p[1] != COLOUR_SPACE_RGB)
        return refuse(s, "colour is not given as red, green and blue", err);
    if (p[2] > MAX_PERCENT || p[3] > MAX_PERCENT || p[4] > MAX_PERCENT)
        return refuse(s, "colour is above 100 percent", err);
    s->defined[p[0]] = true;
    return 0;
}

static int
end_colour(struct sixel_check_state *s, struct error *err)
{
    if (end_param(s, err) < 0)
        return -1;
    s->step = STEP_BODY;
    if (s->params[0] >= s->limits.colours)
        return refuse(s, "colour register is out of range", err);
    if (s->n_params == PARAMS_DEFINE)
        return define_colour(s, err);
    if (s->n_params != PARAMS_SELECT)
        return refuse(s, "wrong number of colour values", err);
    if (!s->defined[s->params[0]])
        return refuse(s, "colour is not defined", err);
    return 0;
}

static int
take_intro(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    if (c != (unsigned char)s->intro[s->at])
        return refuse(s, "not the start of a picture of the size asked for",
                      err);
    if (s->at + 1 == s->intro_len)
        s->step = STEP_BODY;
    return 0;
}

static int
take_body(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    if (is_data(c))
        return draw(s, c, 1, err);
    switch (c) {
    case '#':
        begin_params(s, STEP_COLOUR);
        return 0;
    case '!':
        begin_params(s, STEP_REPEAT);
        return 0;
    case '$':
        s->x = 0;
        s->drawing = true;
        return 0;
    case '-':
        return next_band(s, err);
    case ESC:
        s->step = STEP_ESC;
        return 0;
    default:
        return refuse(s, "not a byte of a picture", err);
    }
}

static int
take_colour(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    if (is_digit(c))
        return add_digit(s, c, err);
    if (c == ';') {
        if (end_param(s, err) < 0)
            return -1;
        if (s->n_params == PARAMS_DEFINE)
            return refuse(s, "too many colour values", err);
        s->params[s->n_params] = 0;
        return 0;
    }
    if (end_colour(s, err) < 0)
        return -1;
    return take_body(s, c, err);
}

static int
take_repeat(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    if (is_digit(c))
        return add_digit(s, c, err);
    if (end_param(s, err) < 0)
        return -1;
    if (!is_data(c))
        return refuse(s, "repeat of something else than pixels", err);
    if (s->params[0] == 0)
        return refuse(s, "repeat of zero times", err);
    return draw(s, c, s->params[0], err);
}

static int
take(struct sixel_check_state *s, unsigned char c, struct error *err)
{
    switch ((enum step)s->step) {
    case STEP_INTRO:
        return take_intro(s, c, err);
    case STEP_BODY:
        return take_body(s, c, err);
    case STEP_COLOUR:
        return take_colour(s, c, err);
    case STEP_REPEAT:
        return take_repeat(s, c, err);
    case STEP_ESC:
        if (c != '\\')
            return refuse(s, "escape that is not the end", err);
        s->step = STEP_DONE;
        return 0;
    case STEP_DONE:
        break;
    }
    return refuse(s, "more behind the end", err);
}

int
sixel_check_begin(struct sixel_check_state *s, struct sixel_limits limits,
                  struct error *err)
{
    int n;

    if (limits.width == 0 || limits.width > SIXEL_CHECK_MAX_SIDE_PX ||
        limits.height == 0 || limits.height > SIXEL_CHECK_MAX_SIDE_PX ||
        limits.width * limits.height > OUTPUT_MAX_PIXELS)
        return err_set(err, ERR_PROTOCOL, "picture of %ux%u pixels",
                       limits.width, limits.height);
    if (limits.colours == 0 || limits.colours > SIXEL_CHECK_MAX_COLOURS)
        return err_set(err, ERR_PROTOCOL, "picture of %u colours",
                       limits.colours);
    if (limits.cell_height == 0 || limits.height % limits.cell_height != 0)
        return err_set(err, ERR_PROTOCOL,
                       "picture height %u is no multiple of %u", limits.height,
                       limits.cell_height);
    *s = (struct sixel_check_state){.limits = limits, .step = STEP_INTRO};
    n = snprintf(s->intro, sizeof(s->intro), "\033Pq\"1;1;%u;%u", limits.width,
                 limits.height);
    assert(n > 0 && (size_t)n < sizeof(s->intro));
    s->intro_len = (size_t)n;
    return 0;
}

int
sixel_check_feed(struct sixel_check_state *s, const char *data, size_t len,
                 struct error *err)
{
    size_t i;

    if (s->failed)
        return refuse(s, "refused before", err);
    for (i = 0; i < len; i++) {
        if (take(s, (unsigned char)data[i], err) < 0)
            return -1;
        s->at++;
    }
    return 0;
}

int
sixel_check_end(const struct sixel_check_state *s, struct error *err)
{
    if (s->failed || s->step != STEP_DONE)
        return err_set(err, ERR_PROTOCOL,
                       "picture program: picture ends early, at byte %zu",
                       s->at);
    return 0;
}

int
sixel_check(const char *data, size_t len, struct sixel_limits limits,
            struct error *err)
{
    struct sixel_check_state s;

    if (sixel_check_begin(&s, limits, err) < 0 ||
        sixel_check_feed(&s, data, len, err) < 0)
        return -1;
    return sixel_check_end(&s, err);
}
