/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "render/image.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/proc.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "model/output.h"
#include "render/png_check.h"
#include "render/sixel_check.h"

#define FORM "sandpiper-picture 1 "

#define MAX_OUTPUT_BYTES (32u << 20)
#define MAX_HEADER_BYTES 80
#define TIME_LIMIT_MS 10000

/* The program's own limit of an argument, and of what it makes. */
#define MAX_CELL_PX 512

/* Most of the PNG that is written, or of the answer read, in one round. */
#define CHUNK_BYTES (64u << 10)

struct image {
    struct loop *loop; /* borrowed */
    struct image_options options;
    image_fn done;
    struct image_scale_options scale; /* max_side_px 0: a sixel is wanted */
    image_scale_fn scale_done;
    void *ctx;

    unsigned char *png; /* owned */
    size_t png_len;
    size_t n_sent;

    struct proc *proc; /* owned */
    int in_fd;         /* owned; to the program; -1 */
    int out_fd;        /* owned; from it; -1 */
    struct loop_fd *in;
    struct loop_fd *out;
    struct loop_timer *timer;
    struct sbuf answer;
    bool ended; /* the program is gone, and left status behind */
    struct proc_exit status;
};

struct reason {
    const char *word;
    enum error_code code;
    const char *text;
};

#define TOO_LARGE "too-large"

/* What the program may say of a picture. */
static const struct reason reasons[] = {
    {"not-png", ERR_DATA, "the picture is no PNG"},
    {TOO_LARGE, ERR_TOO_LARGE, "the picture is too large to be drawn"},
    {"damaged", ERR_DATA, "the picture is damaged"},
    {"memory", ERR_TOO_LARGE, "the picture needs too much memory"},
    {"internal", ERR_PROTOCOL, "the picture program gave up"},
};

/* --- the answer --- */

/* A number without sign or leading zero, and the byte behind it. */
static bool
read_number(const char **s, char end, unsigned *out)
{
    size_t n = strspn(*s, "0123456789");
    unsigned value = 0;

    if (n == 0 || n > 5 || **s == '0' || (*s)[n] != end)
        return false;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (unsigned)((*s)[i] - '0');
    *s += n + 1;
    *out = value;
    return true;
}

/* Names the limit that the picture passes, by the size in its header. */
static bool
fill_too_large(const struct image *im, struct error *err)
{
    int width = 0;
    int height = 0;
    bool has_size = output_png_size(im->png, im->png_len, &width, &height);
    int longer = width > height ? width : height;

    if (!has_size)
        return false;
    if (longer > SIXEL_CHECK_MAX_SIDE_PX)
        error_fill(err, ERR_TOO_LARGE,
                   "the picture of %d x %d pixels is too large: at most %d "
                   "pixels a side",
                   width, height, SIXEL_CHECK_MAX_SIDE_PX);
    else if ((uint64_t)width * (uint64_t)height > OUTPUT_MAX_PIXELS)
        error_fill(err, ERR_TOO_LARGE,
                   "the picture of %d x %d pixels is too large: at most %u "
                   "pixels in all",
                   width, height, OUTPUT_MAX_PIXELS);
    else
        return false;
    return true;
}

static int
report_reason(const struct image *im, const char *word, struct error *err)
{
    if (str_eq(word, TOO_LARGE) && fill_too_large(im, err))
        return -1;
    for (size_t i = 0; i < LEN(reasons); i++) {
        if (str_eq(reasons[i].word, word))
            return err_set(err, reasons[i].code, "%s", reasons[i].text);
    }
    return err_set(err, ERR_PROTOCOL,
                   "the picture program gives an unknown reason");
}

static int
report_header(struct error *err)
{
    return err_set(err, ERR_PROTOCOL,
                   "the picture program's first line is not understood");
}

/* Checks the first line, and that the picture is one that was asked for. */
static int
read_header(const struct image *im, const char *line,
            struct sixel_limits *limits, struct error *err)
{
    const struct image_options *o = &im->options;
    const char *s = line;

    if (!str_starts(s, FORM))
        return report_header(err);
    s += strlen(FORM);
    if (str_starts(s, "error "))
        return report_reason(im, s + strlen("error "), err);
    if (!str_starts(s, "sixel "))
        return report_header(err);
    s += strlen("sixel ");
    if (!read_number(&s, ' ', &limits->width) ||
        !read_number(&s, ' ', &limits->height) ||
        !read_number(&s, '\0', &limits->colours))
        return report_header(err);
    if (limits->width > (unsigned)o->max_width_px ||
        limits->height > (unsigned)o->max_height_px ||
        limits->colours > (unsigned)o->colours)
        return err_set(err, ERR_PROTOCOL,
                       "the picture program made %u x %u pixels in %u "
                       "colours, more than it was asked for",
                       limits->width, limits->height, limits->colours);
    limits->cell_height = (unsigned)o->cell_height_px;
    return 0;
}

/* Checks the first line: the size follows from that of the file. *same: the
   file is small enough as it is. */
static int
read_scale_header(const struct image *im, const char *line, bool *same,
                  int *width, int *height, struct error *err)
{
    unsigned said_width = 0;
    unsigned said_height = 0;
    const char *s = line + strlen(FORM);
    int longer = 0;

    if (str_starts(line, FORM "error "))
        return report_reason(im, line + strlen(FORM "error "), err);
    *same = str_starts(line, FORM "same ");
    if (!*same && !str_starts(line, FORM "png "))
        return report_header(err);
    s += *same ? strlen("same ") : strlen("png ");
    if (!read_number(&s, ' ', &said_width) ||
        !read_number(&s, '\0', &said_height))
        return report_header(err);
    if (!output_png_size(im->png, im->png_len, width, height))
        return err_set(err, ERR_DATA, "the picture is no PNG");
    longer = *width > *height ? *width : *height;
    if (*same != (longer <= im->scale.max_side_px))
        return report_header(err);
    png_check_fit(im->scale.max_side_px, width, height);
    if (said_width != (unsigned)*width || said_height != (unsigned)*height)
        return err_set(err, ERR_PROTOCOL,
                       "the picture program made %u x %u pixels, not %d x %d",
                       said_width, said_height, *width, *height);
    return 0;
}

static int
check_scaled(struct image *im, const char *line, struct error *err)
{
    bool same = false;
    int width = 0;
    int height = 0;

    if (read_scale_header(im, line, &same, &width, &height, err) < 0)
        return -1;
    if (im->status.code != 0)
        return err_set(err, ERR_PROTOCOL,
                       "the picture program did not end well");
    sbuf_drop(&im->answer, strlen(line) + 1);
    if (same && im->answer.len > 0)
        return report_header(err);
    if (same)
        sbuf_add(&im->answer, (const char *)im->png, im->png_len);
    if (im->answer.len > im->scale.max_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "the picture has %zu bytes, more than %zu",
                       im->answer.len, im->scale.max_bytes);
    if (png_check((const unsigned char *)im->answer.data, im->answer.len, width,
                  height, !same, err) == 0)
        return 0;
    if (same)
        err->code = ERR_DATA;
    return -1;
}

static int
check_sixel(struct image *im, const char *line, struct error *err)
{
    struct sixel_limits limits = {0};

    if (read_header(im, line, &limits, err) < 0)
        return -1;
    if (im->status.code != 0)
        return err_set(err, ERR_PROTOCOL,
                       "the picture program did not end well");
    sbuf_drop(&im->answer, strlen(line) + 1);
    return sixel_check(im->answer.data, im->answer.len, limits, err);
}

/* Takes the first line off, and leaves the picture. */
static int
check_answer(struct image *im, struct error *err)
{
    size_t max =
        im->answer.len < MAX_HEADER_BYTES ? im->answer.len : MAX_HEADER_BYTES;
    const char *end = max > 0 ? memchr(im->answer.data, '\n', max) : NULL;
    AUTO_FREE char *line = NULL;

    if (end == NULL && im->status.signal != 0)
        return err_set(err, ERR_PROTOCOL,
                       "the picture program was ended by signal %d",
                       im->status.signal);
    if (end == NULL)
        return report_header(err);
    line = xstrndup(im->answer.data, (size_t)(end - im->answer.data));
    return im->scale.max_side_px > 0 ? check_scaled(im, line, err)
                                     : check_sixel(im, line, err);
}

/* --- the end --- */

static void
close_input(struct image *im)
{
    loop_fd_remove(im->in);
    im->in = NULL;
    close_fd(&im->in_fd);
}

static void
close_output(struct image *im)
{
    loop_fd_remove(im->out);
    im->out = NULL;
    close_fd(&im->out_fd);
}

void
image_free(struct image *im)
{
    if (im == NULL)
        return;
    close_input(im);
    close_output(im);
    loop_timer_remove(im->timer);
    proc_free(im->proc);
    sbuf_fini(&im->answer);
    free(im->png);
    free(im);
}

static void
hand_over_scaled(image_scale_fn done, void *ctx, const struct sbuf *png,
                 const struct error *err)
{
    int width = 0;
    int height = 0;

    if (err != NULL) {
        done(ctx, NULL, 0, 0, 0, err);
        return;
    }
    output_png_size((const unsigned char *)png->data, png->len, &width,
                    &height);
    done(ctx, (const unsigned char *)png->data, png->len, width, height, NULL);
}

/* Hands the picture or the reason over and ends. Called from the loop only. */
static void
finish(struct image *im, const struct error *err)
{
    image_fn done = im->done;
    image_scale_fn scale_done = im->scale_done;
    void *ctx = im->ctx;
    struct sbuf made = {0};

    if (err == NULL) {
        made = im->answer;
        im->answer = (struct sbuf){0};
    }
    /* First, since done may begin the next one. */
    image_free(im);
    if (scale_done != NULL)
        hand_over_scaled(scale_done, ctx, &made, err);
    else
        done(ctx, err == NULL ? &made : NULL, err);
    sbuf_fini(&made);
}

/* When the program has ended and all that it wrote is read. */
static void
finish_if_complete(struct image *im)
{
    struct error err = {0};

    if (!im->ended || im->out != NULL)
        return;
    if (check_answer(im, &err) < 0)
        finish(im, &err);
    else
        finish(im, NULL);
}

static void
on_timeout(void *ctx)
{
    struct image *im = ctx;
    struct error err = {0};

    im->timer = NULL;
    error_fill(&err, ERR_TIMEOUT,
               "the picture program did not finish in %d seconds",
               TIME_LIMIT_MS / 1000);
    finish(im, &err);
}

static void
on_exit_status(void *ctx, const struct proc_exit *status)
{
    struct image *im = ctx;

    im->ended = true;
    im->status = *status;
    close_input(im);
    finish_if_complete(im);
}

/* --- bytes --- */

static void
on_input(void *ctx, int fd, unsigned events)
{
    struct image *im = ctx;
    size_t n = im->png_len - im->n_sent;
    ssize_t rc;

    (void)events;
    rc = write(fd, im->png + im->n_sent, n < CHUNK_BYTES ? n : CHUNK_BYTES);
    if (rc < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A program that reads no more has made up its mind; it says so itself. */
    if (rc < 0) {
        close_input(im);
        return;
    }
    im->n_sent += (size_t)rc;
    if (im->n_sent == im->png_len)
        close_input(im);
}

static void
on_output(void *ctx, int fd, unsigned events)
{
    struct image *im = ctx;
    AUTO_FREE char *chunk = xmalloc(CHUNK_BYTES);
    ssize_t n = read(fd, chunk, CHUNK_BYTES);

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_output(im);
        finish_if_complete(im);
        return;
    }
    sbuf_add(&im->answer, chunk, (size_t)n);
    if (!sbuf_ok(&im->answer)) {
        struct error err = {0};

        error_fill(&err, ERR_TOO_LARGE,
                   "the picture program made more than %u MiB",
                   MAX_OUTPUT_BYTES >> 20);
        finish(im, &err);
    }
}

/* --- the beginning --- */

static int
clamp(int value, int min, int max)
{
    if (value < min)
        return min;
    return value > max ? max : value;
}

static int
start_helper(struct image *im, const char *path, const char *const *argv,
             int child_in, int child_out, struct error *err)
{
    const struct proc_fd fds[] = {
        {child_in, STDIN_FILENO},
        {child_out, STDOUT_FILENO},
    };
    const struct proc_spec spec = {
        .path = path,
        .argv = argv,
        .fds = fds,
        .n_fds = LEN(fds),
        .die_with_parent = true,
    };

    im->proc = proc_start(im->loop, &spec, on_exit_status, im, err);
    return im->proc != NULL ? 0 : -1;
}

static int
start_sixel(struct image *im, const char *path, int child_in, int child_out,
            struct error *err)
{
    const struct image_options *o = &im->options;
    AUTO_FREE char *width = xasprintf("%d", o->max_width_px);
    AUTO_FREE char *height = xasprintf("%d", o->max_height_px);
    AUTO_FREE char *cell = xasprintf("%d", o->cell_height_px);
    AUTO_FREE char *colours = xasprintf("%d", o->colours);
    AUTO_FREE char *background =
        xasprintf("%06x", o->background_rgb & 0xFFFFFF);
    const char *const argv[] = {
        IMAGE_HELPER, "--max-width",   width,      "--max-height",
        height,       "--cell-height", cell,       "--colours",
        colours,      "--background",  background, NULL,
    };

    return start_helper(im, path, argv, child_in, child_out, err);
}

static int
start_scale(struct image *im, const char *path, int child_in, int child_out,
            struct error *err)
{
    AUTO_FREE char *side = xasprintf("%d", im->scale.max_side_px);
    const char *const argv[] = {IMAGE_HELPER, "--png", side, NULL};

    return start_helper(im, path, argv, child_in, child_out, err);
}

static int
start(struct image *im, const char *helper, struct error *err)
{
    AUTO_FREE char *path = NULL;
    AUTO_CLOSE int child_in = -1;
    AUTO_CLOSE int child_out = -1;
    int fds[2];

    path = helper != NULL ? xstrdup(helper) : paths_helper(IMAGE_HELPER, err);
    if (path == NULL)
        return -1;
    if (io_pipe(fds, err) < 0)
        return -1;
    child_in = fds[0];
    im->in_fd = fds[1];
    if (io_pipe(fds, err) < 0)
        return -1;
    im->out_fd = fds[0];
    child_out = fds[1];
    /* Only our ends: the program's own know nothing of waiting. */
    if (io_set_nonblock(im->in_fd, err) < 0 ||
        io_set_nonblock(im->out_fd, err) < 0)
        return -1;
    if ((im->scale.max_side_px > 0
             ? start_scale(im, path, child_in, child_out, err)
             : start_sixel(im, path, child_in, child_out, err)) < 0)
        return err_wrap(err, "starting the picture program");
    im->in = loop_add_fd(im->loop, im->in_fd, LOOP_WRITE, on_input, im);
    im->out = loop_add_fd(im->loop, im->out_fd, LOOP_READ, on_output, im);
    im->timer = loop_add_timer(im->loop, TIME_LIMIT_MS, on_timeout, im);
    return 0;
}

static struct image *
new_image(struct loop *loop, const unsigned char *png, size_t len, void *ctx)
{
    struct image *im = xcalloc(1, sizeof(*im));

    im->loop = loop;
    im->ctx = ctx;
    im->png = xmemdup(png, len);
    im->png_len = len;
    im->in_fd = -1;
    im->out_fd = -1;
    sbuf_init(&im->answer, MAX_OUTPUT_BYTES);
    return im;
}

static struct image *
started(struct image *im, const char *helper, struct error *err)
{
    if (start(im, helper, err) == 0)
        return im;
    image_free(im);
    return NULL;
}

struct image *
image_render(struct loop *loop, const unsigned char *png, size_t len,
             const struct image_options *options, image_fn done, void *ctx,
             struct error *err)
{
    struct image *im = new_image(loop, png, len, ctx);

    im->options = *options;
    im->options.max_width_px =
        clamp(options->max_width_px, 1, SIXEL_CHECK_MAX_SIDE_PX);
    im->options.max_height_px =
        clamp(options->max_height_px, 1, SIXEL_CHECK_MAX_SIDE_PX);
    im->options.cell_height_px = clamp(options->cell_height_px, 1, MAX_CELL_PX);
    im->options.colours = clamp(options->colours, 2, SIXEL_CHECK_MAX_COLOURS);
    /* The caller's string lives for the call only. */
    im->options.helper = NULL;
    im->done = done;
    return started(im, options->helper, err);
}

struct image *
image_scale(struct loop *loop, const unsigned char *png, size_t len,
            const struct image_scale_options *options, image_scale_fn done,
            void *ctx, struct error *err)
{
    struct image *im = new_image(loop, png, len, ctx);

    im->scale = *options;
    im->scale.max_side_px =
        clamp(options->max_side_px, 1, SIXEL_CHECK_MAX_SIDE_PX);
    im->scale.helper = NULL;
    im->scale_done = done;
    return started(im, options->helper, err);
}
