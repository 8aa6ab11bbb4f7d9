/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "term/caps.h"

#include <string.h>

#include "base/str.h"
#include "term/seq.h"

/* Numbers above this are as good as none: no terminal is that large. */
#define MAX_NUMBER 1000000
#define MAX_PARAMS 64

#define MAX_REGISTERS 65536
#define MAX_SIDE_PX 100000
#define MAX_CELL_PX 1000

/* What a VT340 had, and Windows Terminal still draws by. */
#define DEFAULT_CELL_WIDTH_PX 10
#define DEFAULT_CELL_HEIGHT_PX 20

enum { ATTRIBUTE_SIXEL = 4 };
enum { ITEM_REGISTERS = 1, ITEM_SIXEL_SIZE = 2 };
enum { REPORT_TEXT = 4, REPORT_CELL = 6 };

struct params {
    int values[MAX_PARAMS]; /* -1: empty, or no number that makes sense */
    size_t n;
};

/* Reads "1;2;;3" up to the last byte, which is not part of it. */
static bool
read_params(struct params *p, const char *text, size_t len)
{
    int value = -1;

    p->n = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i == len || text[i] == ';') {
            if (p->n == MAX_PARAMS)
                return false;
            p->values[p->n++] = value > MAX_NUMBER ? -1 : value;
            value = -1;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (value <= MAX_NUMBER)
            value = (value < 0 ? 0 : value) * 10 + (text[i] - '0');
    }
    return true;
}

static bool
is_within(int value, int max)
{
    return value >= 1 && value <= max;
}

/* The first parameter is a level of conformance, whatever its digits are. */
static void
take_da1(struct caps *caps, const struct params *p)
{
    caps->answered = true;
    for (size_t i = 1; i < p->n; i++) {
        if (p->values[i] == ATTRIBUTE_SIXEL)
            caps->sixel = true;
    }
}

/* ITEM ; STATUS ; VALUE [; VALUE]; only status 0 is success. */
static void
take_graphics(struct caps *caps, const struct params *p)
{
    if (p->n < 3 || p->values[1] != 0)
        return;
    if (p->values[0] == ITEM_REGISTERS && p->n == 3 && p->values[2] >= 2)
        caps->registers =
            p->values[2] > MAX_REGISTERS ? MAX_REGISTERS : p->values[2];
    if (p->values[0] == ITEM_SIXEL_SIZE && p->n == 4 &&
        is_within(p->values[2], MAX_SIDE_PX) &&
        is_within(p->values[3], MAX_SIDE_PX)) {
        caps->max_width_px = p->values[2];
        caps->max_height_px = p->values[3];
    }
}

/* REPORT ; HEIGHT ; WIDTH */
static void
take_size(struct caps *caps, const struct params *p)
{
    if (p->n != 3)
        return;
    if (p->values[0] == REPORT_CELL && is_within(p->values[1], MAX_CELL_PX) &&
        is_within(p->values[2], MAX_CELL_PX)) {
        caps->cell_height_px = p->values[1];
        caps->cell_width_px = p->values[2];
    }
    if (p->values[0] == REPORT_TEXT && is_within(p->values[1], MAX_SIDE_PX) &&
        is_within(p->values[2], MAX_SIDE_PX)) {
        caps->text_height_px = p->values[1];
        caps->text_width_px = p->values[2];
    }
}

static void
take_csi(struct caps *caps, const char *body, size_t len)
{
    struct params p;
    char final;
    bool private;

    if (len == 0)
        return;
    final = body[len - 1];
    private = body[0] == '?';
    if (private) {
        body++;
        len--;
    }
    if (len == 0 || !read_params(&p, body, len - 1))
        return;
    if (private && final == 'c')
        take_da1(caps, &p);
    else if (private && final == 'S')
        take_graphics(caps, &p);
    else if (!private && final == 't')
        take_size(caps, &p);
}

/*
 * "G", keys, ";" and what the terminal thinks of the picture. The number that
 * was asked with is not looked at: iTerm2 does not repeat it.
 */
static void
take_kitty(struct caps *caps, const char *body, size_t len)
{
    const char *message = memchr(body, ';', len);
    size_t n;

    if (message != NULL)
        message++;
    else
        message = body;
    n = len - (size_t)(message - body);
    if (n == 2 && memcmp(message, "OK", 2) == 0)
        caps->kitty = true;
}

static void
take_version(struct caps *caps, const char *body, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof(caps->name) - 1; i++) {
        if (body[i] >= 0x20 && body[i] <= 0x7E)
            caps->name[n++] = body[i];
    }
    caps->name[n] = '\0';
}

/* Takes the end of a string, ST or BEL, away. */
static size_t
strip_end(const char *body, size_t len)
{
    if (len >= 1 && body[len - 1] == '\a')
        return len - 1;
    if (len >= 2 && body[len - 2] == '\033' && body[len - 1] == '\\')
        return len - 2;
    return len;
}

void
caps_add_queries(struct sbuf *sb, const char *term)
{
    /* These print what is meant for kitty. */
    if (!str_eq(term, "linux") && (term == NULL || !str_starts(term, "screen")))
        seq_add(sb, SEQ_QUERY_KITTY);
    seq_add(sb, SEQ_QUERY_VERSION);
    seq_add(sb, SEQ_QUERY_REGISTERS);
    seq_add(sb, SEQ_QUERY_MAX_SIZE);
    seq_add(sb, SEQ_QUERY_CELL_SIZE);
    seq_add(sb, SEQ_QUERY_TEXT_SIZE);
    seq_add(sb, SEQ_QUERY_DA1);
}

void
caps_take(struct caps *caps, const char *reply, size_t len)
{
    if (len < 3 || reply[0] != '\033')
        return;
    if (reply[1] == '[') {
        take_csi(caps, reply + 2, len - 2);
    } else if (reply[1] == '_' && reply[2] == 'G') {
        take_kitty(caps, reply + 3, strip_end(reply + 3, len - 3));
    } else if (reply[1] == 'P' && len >= 4 && reply[2] == '>' &&
               reply[3] == '|') {
        take_version(caps, reply + 4, strip_end(reply + 4, len - 4));
    }
}

static bool
set_cell(int width, int height, int *width_px, int *height_px)
{
    if (!is_within(width, MAX_CELL_PX) || !is_within(height, MAX_CELL_PX))
        return false;
    *width_px = width;
    *height_px = height;
    return true;
}

void
caps_cell_size(const struct caps *caps, int columns, int rows, int x_pixels,
               int y_pixels, int *width_px, int *height_px)
{
    bool sized = columns > 0 && rows > 0;

    if (set_cell(caps->cell_width_px, caps->cell_height_px, width_px,
                 height_px))
        return;
    /* Rounded down: the pixels of xterm include its border. */
    if (sized &&
        set_cell(x_pixels / columns, y_pixels / rows, width_px, height_px))
        return;
    if (sized && set_cell(caps->text_width_px / columns,
                          caps->text_height_px / rows, width_px, height_px))
        return;
    *width_px = DEFAULT_CELL_WIDTH_PX;
    *height_px = DEFAULT_CELL_HEIGHT_PX;
}
