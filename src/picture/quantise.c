/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* At 6 bits a channel there are 2^18 colours, so counting ends there at last.
 */
#define MAX_COUNTED ((size_t)1 << 18)
#define MIN_BITS 6
#define SLOT_BITS 19
#define N_SLOTS ((size_t)1 << SLOT_BITS)

#define MAX_PINS 2
#define PIN_KEY 0xff000000u /* above all keys made of three bytes */
#define PIN_PER_PIXELS 100
#define N_LLOYD 3

struct colour {
    uint32_t key;
    uint32_t count;
    uint32_t sum[3]; /* below 2^32: at most PICTURE_MAX_PIXELS * 255 */
    uint8_t rgb[3];
    uint8_t entry; /* of the palette */
};

/* Counted colours, found by an open hash of their keys. */
struct counter {
    struct colour *colours; /* owned */
    uint32_t *slots;        /* owned; index of a colour + 1, or 0 */
    size_t n;
    unsigned bits; /* of each channel that tell colours apart */
    /* Exact colours that must stay what they are, with entries of their own. */
    size_t n_pins;
    struct picture_rgb pins[MAX_PINS];
};

/* A range of the order of colours, and where to cut it. */
struct box {
    size_t start;
    size_t end;
    unsigned channel;
    double mean;     /* in that channel */
    double variance; /* in that channel, times the number of pixels */
};

/* Entries of the palette by their green, and where each of them is. */
struct sorted {
    uint8_t entry[PICTURE_MAX_COLOURS];
    size_t place[PICTURE_MAX_COLOURS];
};

static uint32_t
key_of(const struct counter *c, const uint8_t *p)
{
    unsigned drop = 8 - c->bits;
    size_t i;

    for (i = 0; i < c->n_pins; i++)
        if (p[0] == c->pins[i].r && p[1] == c->pins[i].g &&
            p[2] == c->pins[i].b)
            return PIN_KEY + (uint32_t)i;
    return (uint32_t)p[0] >> drop << 16 | (uint32_t)p[1] >> drop << 8 |
           (uint32_t)p[2] >> drop;
}

/* Returns the slot that holds the key or could take it. */
static uint32_t *
find_slot(const struct counter *c, uint32_t key)
{
    size_t i = (key * 2654435761u) >> (32 - SLOT_BITS);

    while (c->slots[i] != 0 && c->colours[c->slots[i] - 1].key != key)
        i = (i + 1) & (N_SLOTS - 1);
    return &c->slots[i];
}

static struct colour *
add_colour(struct counter *c, uint32_t key)
{
    uint32_t *slot = find_slot(c, key);

    if (*slot == 0) {
        if (c->n == MAX_COUNTED)
            return NULL;
        c->colours[c->n] = (struct colour){.key = key};
        c->n++;
        *slot = (uint32_t)c->n;
    }
    return &c->colours[*slot - 1];
}

/* Counts all pixels; false if there are more than max colours. */
static bool
count_colours(struct counter *c, const struct picture *in, size_t max)
{
    size_t n_pixels = (size_t)in->width * in->height;
    struct colour *colour = NULL;
    uint32_t key;
    size_t i, k;

    memset(c->slots, 0, N_SLOTS * sizeof(*c->slots));
    c->n = 0;
    /* Pins come first, so that their entries are the first of the palette. */
    for (i = 0; i < c->n_pins; i++)
        add_colour(c, PIN_KEY + (uint32_t)i);
    for (i = 0; i < n_pixels; i++) {
        const uint8_t *p = in->rgb + 3 * i;

        key = key_of(c, p);
        if (colour == NULL || colour->key != key) {
            colour = add_colour(c, key);
            if (colour == NULL || c->n > max)
                return false;
        }
        colour->count++;
        for (k = 0; k < 3; k++)
            colour->sum[k] += p[k];
    }
    for (i = 0; i < c->n; i++)
        for (k = 0; k < 3; k++)
            c->colours[i].rgb[k] =
                (uint8_t)(((uint64_t)c->colours[i].sum[k] +
                           c->colours[i].count / 2) /
                          (c->colours[i].count > 0 ? c->colours[i].count : 1));
    return true;
}

static void
pin_if_common(struct counter *c, const struct picture *in,
              struct picture_rgb pin, unsigned max_colours)
{
    size_t n_pixels = (size_t)in->width * in->height;
    size_t n = 0;
    size_t i;

    for (i = 0; i < c->n_pins; i++)
        if (memcmp(&c->pins[i], &pin, sizeof(pin)) == 0)
            return;
    for (i = 0; i < n_pixels; i++)
        n += memcmp(in->rgb + 3 * i, &pin, 3) == 0;
    /* One entry at least is left for the rest. */
    if (n >= n_pixels / PIN_PER_PIXELS && n > 0 &&
        c->n_pins + 1 < max_colours) {
        c->pins[c->n_pins] = pin;
        c->n_pins++;
    }
}

static void
measure_box(const struct counter *c, const uint32_t *order, struct box *b)
{
    double weight = 0, sum[3] = {0}, squares[3] = {0};
    size_t i;
    unsigned k;

    for (i = b->start; i < b->end; i++) {
        const struct colour *colour = &c->colours[order[i]];

        weight += colour->count;
        for (k = 0; k < 3; k++) {
            double v = colour->rgb[k];

            sum[k] += colour->count * v;
            squares[k] += colour->count * v * v;
        }
    }
    b->variance = 0;
    for (k = 0; k < 3; k++) {
        double variance = squares[k] - sum[k] * sum[k] / weight;

        if (variance > b->variance) {
            b->variance = variance;
            b->channel = k;
            b->mean = sum[k] / weight;
        }
    }
}

/* Cuts b at its mean; the upper part goes to upper. False if it is one colour.
 */
static bool
split_box(const struct counter *c, uint32_t *order, struct box *b,
          struct box *upper)
{
    size_t lower_end = b->start;
    size_t i;

    for (i = b->start; i < b->end; i++) {
        uint32_t index = order[i];

        if (c->colours[index].rgb[b->channel] <= b->mean) {
            order[i] = order[lower_end];
            order[lower_end] = index;
            lower_end++;
        }
    }
    if (lower_end == b->start || lower_end == b->end)
        return false;
    *upper = (struct box){.start = lower_end, .end = b->end};
    b->end = lower_end;
    measure_box(c, order, b);
    measure_box(c, order, upper);
    return true;
}

/* Gives each colour the number of its box as entry; returns how many there are.
 */
static unsigned
cut_boxes(struct counter *c, uint32_t *order, unsigned max_boxes)
{
    struct box boxes[PICTURE_MAX_COLOURS];
    unsigned n = 1;
    unsigned i;
    size_t k;

    for (k = c->n_pins; k < c->n; k++)
        order[k] = (uint32_t)k;
    boxes[0] = (struct box){.start = c->n_pins, .end = c->n};
    measure_box(c, order, &boxes[0]);
    while (n < max_boxes) {
        struct box *widest = &boxes[0];

        for (i = 1; i < n; i++)
            if (boxes[i].variance > widest->variance)
                widest = &boxes[i];
        if (widest->variance <= 0 || !split_box(c, order, widest, &boxes[n]))
            break;
        n++;
    }
    for (i = 0; i < n; i++)
        for (k = boxes[i].start; k < boxes[i].end; k++)
            c->colours[order[k]].entry = (uint8_t)(c->n_pins + i);
    return n;
}

/* Moves each entry that is no pin to the mean of its colours. */
static void
update_palette(const struct counter *c, struct picture_indexed *out)
{
    uint64_t sum[PICTURE_MAX_COLOURS][3];
    uint64_t weight[PICTURE_MAX_COLOURS];
    size_t i, k;

    memset(sum, 0, sizeof(sum));
    memset(weight, 0, sizeof(weight));
    for (i = c->n_pins; i < c->n; i++) {
        const struct colour *colour = &c->colours[i];

        weight[colour->entry] += colour->count;
        for (k = 0; k < 3; k++)
            sum[colour->entry][k] += colour->sum[k];
    }
    for (i = c->n_pins; i < out->n_colours; i++) {
        if (weight[i] == 0)
            continue;
        for (k = 0; k < 3; k++)
            out->palette[3 * i + k] =
                (uint8_t)((sum[i][k] + weight[i] / 2) / weight[i]);
    }
}

static int
square_of_difference(uint8_t a, uint8_t b)
{
    int d = (int)a - (int)b;

    return d * d;
}

static int
distance(const uint8_t *a, const uint8_t *b)
{
    return square_of_difference(a[0], b[0]) + square_of_difference(a[1], b[1]) +
           square_of_difference(a[2], b[2]);
}

/* Sorts the entries by green, which tells colours of charts apart best. */
static void
sort_entries(const struct picture_indexed *out, struct sorted *sorted)
{
    size_t i, k;

    for (i = 0; i < out->n_colours; i++) {
        uint8_t green = out->palette[3 * i + 1];

        for (k = i; k > 0; k--) {
            if (out->palette[3 * (size_t)sorted->entry[k - 1] + 1] <= green)
                break;
            sorted->entry[k] = sorted->entry[k - 1];
        }
        sorted->entry[k] = (uint8_t)i;
    }
    for (i = 0; i < out->n_colours; i++)
        sorted->place[sorted->entry[i]] = i;
}

/*
 * Looks at both sides of the entry of before, a good guess, until green alone
 * is too far away. On the way towards the green of the colour it gets nearer
 * first, so there one entry that is too far says nothing of the next.
 */
static uint8_t
nearest(const struct colour *colour, const struct picture_indexed *out,
        const struct sorted *sorted)
{
    const uint8_t *rgb = colour->rgb;
    size_t start = sorted->place[colour->entry];
    uint8_t best = colour->entry;
    int least = distance(rgb, &out->palette[3 * (size_t)best]);
    size_t i;

    for (i = start; i-- > 0;) {
        const uint8_t *p = &out->palette[3 * (size_t)sorted->entry[i]];

        if (p[1] <= rgb[1] && square_of_difference(p[1], rgb[1]) >= least)
            break;
        if (distance(rgb, p) < least) {
            least = distance(rgb, p);
            best = sorted->entry[i];
        }
    }
    for (i = start + 1; i < out->n_colours; i++) {
        const uint8_t *p = &out->palette[3 * (size_t)sorted->entry[i]];

        if (p[1] >= rgb[1] && square_of_difference(p[1], rgb[1]) >= least)
            break;
        if (distance(rgb, p) < least) {
            least = distance(rgb, p);
            best = sorted->entry[i];
        }
    }
    return best;
}

static void
assign_colours(struct counter *c, const struct picture_indexed *out)
{
    struct sorted sorted;
    size_t i;

    sort_entries(out, &sorted);
    for (i = c->n_pins; i < c->n; i++)
        c->colours[i].entry = nearest(&c->colours[i], out, &sorted);
}

static void
use_colours(struct counter *c, struct picture_indexed *out)
{
    size_t i;

    for (i = 0; i < c->n; i++) {
        c->colours[i].entry = (uint8_t)i;
        memcpy(&out->palette[3 * i], c->colours[i].rgb, 3);
    }
    out->n_colours = (unsigned)c->n;
}

static enum picture_reason
reduce_colours(struct counter *c, unsigned max_colours,
               struct picture_indexed *out)
{
    uint32_t *order = calloc(c->n, sizeof(*order));
    unsigned n_boxes;
    size_t i;

    if (order == NULL)
        return PICTURE_MEMORY;
    for (i = 0; i < c->n_pins; i++) {
        c->colours[i].entry = (uint8_t)i;
        memcpy(&out->palette[3 * i], &c->pins[i], 3);
    }
    n_boxes = cut_boxes(c, order, max_colours - (unsigned)c->n_pins);
    free(order);
    out->n_colours = (unsigned)c->n_pins + n_boxes;
    update_palette(c, out);
    for (i = 0; i < N_LLOYD; i++) {
        assign_colours(c, out);
        update_palette(c, out);
    }
    assign_colours(c, out);
    return PICTURE_OK;
}

static void
map_pixels(const struct counter *c, const struct picture *in, uint8_t *pixels)
{
    size_t n = (size_t)in->width * in->height;
    const struct colour *colour = NULL;
    size_t i;

    for (i = 0; i < n; i++) {
        uint32_t key = key_of(c, in->rgb + 3 * i);

        if (colour == NULL || colour->key != key)
            colour = &c->colours[*find_slot(c, key) - 1];
        pixels[i] = colour->entry;
    }
}

static enum picture_reason
find_palette(struct counter *c, const struct picture *in, unsigned max_colours,
             struct picture_rgb background, struct picture_indexed *out)
{
    static const struct picture_rgb white = {255, 255, 255};

    c->bits = 8;
    if (count_colours(c, in, max_colours)) {
        use_colours(c, out);
        return PICTURE_OK;
    }
    pin_if_common(c, in, white, max_colours);
    pin_if_common(c, in, background, max_colours);
    while (!count_colours(c, in, MAX_COUNTED)) {
        c->bits--;
        if (c->bits < MIN_BITS)
            return PICTURE_INTERNAL;
    }
    return reduce_colours(c, max_colours, out);
}

enum picture_reason
picture_quantise(const struct picture *in, unsigned max_colours,
                 struct picture_rgb background, struct picture_indexed *out)
{
    struct counter c = {0};
    struct picture_indexed result = {.width = in->width, .height = in->height};
    enum picture_reason reason = PICTURE_MEMORY;

    assert(max_colours >= 2 && max_colours <= PICTURE_MAX_COLOURS);
    c.colours = calloc(MAX_COUNTED, sizeof(*c.colours));
    c.slots = calloc(N_SLOTS, sizeof(*c.slots));
    result.pixels = malloc((size_t)in->width * in->height);
    if (c.colours != NULL && c.slots != NULL && result.pixels != NULL)
        reason = find_palette(&c, in, max_colours, background, &result);
    if (reason == PICTURE_OK) {
        map_pixels(&c, in, result.pixels);
        /* libsixel wants two. */
        if (result.n_colours < 2)
            result.n_colours = 2;
        *out = result;
        result.pixels = NULL;
    }
    free(result.pixels);
    free(c.colours);
    free(c.slots);
    return reason;
}

void
picture_indexed_fini(struct picture_indexed *p)
{
    free(p->pixels);
    *p = (struct picture_indexed){0};
}
