/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sandpiper-picture: reads one PNG from standard input and writes one line to
 * standard output; behind "sixel" and "png" the picture follows, "same" says
 * that it is small enough for --png as it stands:
 *
 *     sandpiper-picture 1 sixel WIDTH HEIGHT COLOURS
 *     sandpiper-picture 1 png WIDTH HEIGHT
 *     sandpiper-picture 1 same WIDTH HEIGHT
 *     sandpiper-picture 1 info WIDTH HEIGHT
 *     sandpiper-picture 1 error REASON
 *
 * The number is the version of this form. Text from the file is never written.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "picture/picture_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#define FORM "sandpiper-picture 1 "
#define LINE_SIZE 80

static const char *const reason_words[] = {
    [PICTURE_OK] = "ok",
    [PICTURE_NOT_PNG] = "not-png",
    [PICTURE_TOO_LARGE] = "too-large",
    [PICTURE_DAMAGED] = "damaged",
    [PICTURE_MEMORY] = "memory",
    [PICTURE_INTERNAL] = "internal",
};

struct number_option {
    const char *name;
    size_t offset;
    uint32_t min;
    uint32_t max;
};

#define MEMBER(m) offsetof(struct picture_options, m)

static const struct number_option number_options[] = {
    {"--png", MEMBER(png_side_px), 1, PICTURE_MAX_SIDE_PX},
    {"--max-width", MEMBER(max_width_px), 1, PICTURE_MAX_SIDE_PX},
    {"--max-height", MEMBER(max_height_px), 1, PICTURE_MAX_SIDE_PX},
    {"--cell-height", MEMBER(cell_height_px), 1, PICTURE_MAX_CELL_PX},
    {"--colours", MEMBER(colours), 2, PICTURE_MAX_COLOURS},
};

static int
parse_digits(const char *text, int base, size_t max_len, uint32_t *out)
{
    const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
    size_t len = strlen(text);

    if (len == 0 || len > max_len || strspn(text, digits) != len)
        return -1;
    *out = (uint32_t)strtoul(text, NULL, base);
    return 0;
}

static int
parse_number(struct picture_options *o, const char *name, const char *text)
{
    size_t i;

    for (i = 0; i < LEN(number_options); i++) {
        const struct number_option *n = &number_options[i];
        uint32_t value;

        if (strcmp(name, n->name) != 0)
            continue;
        if (parse_digits(text, 10, 5, &value) < 0 || value < n->min ||
            value > n->max)
            return -1;
        memcpy((char *)o + n->offset, &value, sizeof(value));
        return 0;
    }
    return -1;
}

static int
parse_background(struct picture_options *o, const char *text)
{
    uint32_t value;

    if (strlen(text) != 6 || parse_digits(text, 16, 6, &value) < 0)
        return -1;
    o->background = (struct picture_rgb){(uint8_t)(value >> 16),
                                         (uint8_t)(value >> 8), (uint8_t)value};
    return 0;
}

static int
parse_options(int argc, char **argv, struct picture_options *o)
{
    int i;

    *o = (struct picture_options){.colours = PICTURE_MAX_COLOURS,
                                  .background = {255, 255, 255}};
    for (i = 1; i < argc; i++) {
        const char *name = argv[i];

        if (strcmp(name, "--info") == 0) {
            o->info = true;
            continue;
        }
        i++;
        if (i == argc)
            return -1;
        if (strcmp(name, "--background") == 0) {
            if (parse_background(o, argv[i]) < 0)
                return -1;
        } else if (parse_number(o, name, argv[i]) < 0) {
            return -1;
        }
    }
    if (o->info || o->png_side_px > 0)
        return 0;
    return o->max_width_px > 0 && o->max_height_px > 0 && o->cell_height_px > 0
               ? 0
               : -1;
}

static int
write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* One line and what follows it. A reader that is gone would not get a line
   about an error either. */
static enum picture_reason
write_answer(const char *line, const struct picture_bytes *bytes)
{
    return write_all(line, strlen(line)) < 0 ||
                   write_all(bytes->data, bytes->len) < 0
               ? PICTURE_INTERNAL
               : PICTURE_OK;
}

static enum picture_reason
write_info(void)
{
    char line[LINE_SIZE];
    uint32_t width = 0;
    uint32_t height = 0;
    enum picture_reason reason =
        picture_read_info(STDIN_FILENO, &width, &height);

    if (reason != PICTURE_OK)
        return reason;
    snprintf(line, sizeof(line), FORM "info %u %u\n", width, height);
    return write_all(line, strlen(line)) < 0 ? PICTURE_INTERNAL : PICTURE_OK;
}

/* Decodes, fits, shrinks and reduces; each step frees what it no longer needs.
 */
static enum picture_reason
read_picture(const struct picture_options *o, struct picture_indexed *out)
{
    struct picture full = {0};
    struct picture fitted = {0};
    struct picture_layout layout = {0};
    enum picture_reason reason =
        picture_decode(STDIN_FILENO, o->background, &full);

    if (reason == PICTURE_OK)
        reason = picture_fit(o, full.width, full.height, &layout);
    if (reason == PICTURE_OK)
        reason = picture_scale(&full, &layout, o->background, &fitted);
    picture_fini(&full);
    if (reason == PICTURE_OK)
        reason = picture_quantise(&fitted, o->colours, o->background, out);
    picture_fini(&fitted);
    return reason;
}

static enum picture_reason
write_sixel(const struct picture_options *o)
{
    char line[LINE_SIZE];
    struct picture_indexed indexed = {0};
    struct picture_bytes bytes = {0};
    enum picture_reason reason = read_picture(o, &indexed);

    if (reason == PICTURE_OK)
        reason = picture_encode(&indexed, &bytes);
    if (reason == PICTURE_OK) {
        snprintf(line, sizeof(line), FORM "sixel %u %u %u\n", indexed.width,
                 indexed.height, indexed.n_colours);
        reason = write_answer(line, &bytes);
    }
    picture_bytes_fini(&bytes);
    picture_indexed_fini(&indexed);
    return reason;
}

/* Decoded in any case: what is passed on as it stands is a whole picture. */
static enum picture_reason
write_png(const struct picture_options *o)
{
    char line[LINE_SIZE];
    struct picture full = {0};
    struct picture fitted = {0};
    struct picture_bytes bytes = {0};
    struct picture_layout l = {0};
    const char *form = "png";
    enum picture_reason reason =
        picture_decode(STDIN_FILENO, o->background, &full);

    if (reason == PICTURE_OK) {
        picture_fit_side(o->png_side_px, full.width, full.height, &l);
        if (l.width == full.width && l.height == full.height)
            form = "same";
        else
            reason = picture_scale(&full, &l, o->background, &fitted);
    }
    picture_fini(&full);
    if (reason == PICTURE_OK && fitted.rgb != NULL)
        reason = picture_encode_png(&fitted, &bytes);
    picture_fini(&fitted);
    if (reason == PICTURE_OK) {
        snprintf(line, sizeof(line), FORM "%s %u %u\n", form, l.width,
                 l.height);
        reason = write_answer(line, &bytes);
    }
    picture_bytes_fini(&bytes);
    return reason;
}

static enum picture_reason
write_wanted(const struct picture_options *o)
{
    if (o->info)
        return write_info();
    return o->png_side_px > 0 ? write_png(o) : write_sixel(o);
}

int
main(int argc, char **argv)
{
    struct picture_options o;
    enum picture_reason reason = PICTURE_INTERNAL;
    char line[LINE_SIZE];

    /* Before the first byte of the file is read. */
    if (picture_confine() == 0 && parse_options(argc, argv, &o) == 0)
        reason = write_wanted(&o);
    if (reason != PICTURE_OK) {
        snprintf(line, sizeof(line), FORM "error %s\n", reason_words[reason]);
        (void)!write_all(line, strlen(line));
    }
    /* Nothing is buffered, and handlers of exit would need more calls. */
    _exit(reason == PICTURE_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}
