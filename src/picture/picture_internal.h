/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of the picture program: PNG in, sixel or a smaller PNG out, in a
 * process of its own that may do nothing else. Only libpng, libsixel and the C
 * library are linked; nothing here uses stdio streams, whose calls the filter
 * would not let pass. All memory is bounded by the limits below.
 */
#ifndef PICTURE_PICTURE_INTERNAL_H
#define PICTURE_PICTURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PICTURE_MAX_SIDE_PX 4096u
#define PICTURE_MAX_PIXELS (8u * 1024 * 1024)
#define PICTURE_MAX_BYTES ((size_t)32 * 1024 * 1024)
#define PICTURE_MAX_COLOURS 256u
#define PICTURE_MAX_CELL_PX 512u
/* libsixel 1.10.3 shifts a lower picture down by a band of six. */
#define PICTURE_MIN_ROWS_PX 6u

/* Why there is no picture; the words for it are fixed, see picture.c. */
enum picture_reason {
    PICTURE_OK,
    PICTURE_NOT_PNG,
    PICTURE_TOO_LARGE,
    PICTURE_DAMAGED,
    PICTURE_MEMORY,
    PICTURE_INTERNAL,
};

struct picture_rgb {
    uint8_t r, g, b;
};

/* Rows from the top, three bytes a pixel, no gaps. */
struct picture {
    uint32_t width;
    uint32_t height;
    uint8_t *rgb; /* owned */
};

struct picture_indexed {
    uint32_t width;
    uint32_t height;
    unsigned n_colours;
    uint8_t palette[3 * PICTURE_MAX_COLOURS];
    uint8_t *pixels; /* owned */
};

struct picture_bytes {
    char *data; /* owned */
    size_t len;
    size_t max;
};

struct picture_options {
    bool info;
    uint32_t png_side_px; /* 0: sixel; else a PNG with no longer side */
    uint32_t max_width_px;
    uint32_t max_height_px;
    uint32_t cell_height_px;
    unsigned colours;
    struct picture_rgb background;
};

struct picture_layout {
    uint32_t width;
    uint32_t height;        /* of the scaled picture */
    uint32_t padded_height; /* whole cells */
};

/* --- decode.c --- */

/*
 * Reads the size from the head of a PNG. The rest of the input is not read.
 */
enum picture_reason picture_read_info(int fd, uint32_t *width,
                                      uint32_t *height);

/*
 * Decodes the PNG at fd, transparency put onto background. out is written only
 * on PICTURE_OK. At most PICTURE_MAX_BYTES are read, and nothing behind the
 * last row.
 */
enum picture_reason picture_decode(int fd, struct picture_rgb background,
                                   struct picture *out);

void picture_fini(struct picture *p);

/* --- scale.c --- */

/*
 * Finds the size of a picture on the terminal: within the limits of o, the
 * proportions kept, never enlarged, padded to whole cells and at least
 * PICTURE_MIN_ROWS_PX rows. PICTURE_INTERNAL when no cell fits into the limits,
 * PICTURE_TOO_LARGE when the padding exceeds PICTURE_MAX_PIXELS.
 */
enum picture_reason picture_fit(const struct picture_options *o, uint32_t width,
                                uint32_t height, struct picture_layout *out);

/*
 * Finds the size of a picture whose longer side is at most side_px, the
 * proportions kept, never enlarged and not padded.
 */
void picture_fit_side(uint32_t side_px, uint32_t width, uint32_t height,
                      struct picture_layout *out);

/*
 * Shrinks by the average of the covered area, of the values as they are stored,
 * and adds rows of background below. The layout must not enlarge.
 */
enum picture_reason picture_scale(const struct picture *in,
                                  const struct picture_layout *layout,
                                  struct picture_rgb background,
                                  struct picture *out);

/* --- quantise.c --- */

/*
 * Finds a palette of at most max_colours (2 to PICTURE_MAX_COLOURS) and maps
 * each pixel to it, without dithering. The palette is exact when the picture
 * has no more colours than that; else white and background are still exact
 * where they cover at least a hundredth of the picture.
 */
enum picture_reason picture_quantise(const struct picture *in,
                                     unsigned max_colours,
                                     struct picture_rgb background,
                                     struct picture_indexed *out);

void picture_indexed_fini(struct picture_indexed *p);

/* --- encode.c --- */

/*
 * Appends the picture as sixel. PICTURE_TOO_LARGE when out would grow beyond
 * PICTURE_MAX_BYTES.
 */
enum picture_reason picture_encode(const struct picture_indexed *in,
                                   struct picture_bytes *out);

/* Appends bytes, with the same limit. */
enum picture_reason picture_bytes_add(struct picture_bytes *b, const void *data,
                                      size_t len);

void picture_bytes_fini(struct picture_bytes *b);

/* --- encode_png.c --- */

/*
 * Appends the picture as a PNG of 8-bit RGB that holds the pixels and nothing
 * else. PICTURE_TOO_LARGE when out would grow beyond PICTURE_MAX_BYTES.
 */
enum picture_reason picture_encode_png(const struct picture *in,
                                       struct picture_bytes *out);

/* --- confine.c --- */

/*
 * Gives up what the program does not need, for good: limits, no dumps, no
 * privileges, and a filter that kills the process at any call but reading from
 * descriptor 0, writing to 1, memory and exit. Returns 0, or -1 if any part was
 * refused. Sanitizers need the address space and calls of their own: in their
 * builds RLIMIT_AS and the filter are left out.
 */
int picture_confine(void);

#endif
