/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/http_internal.h"

#include <stdlib.h>
#include <unistd.h>

#include <zlib.h>

#include "base/alloc.h"

#define RAW_BYTES ((size_t)65536)

/* What is smaller is sent as fast as it is. */
#define MIN_WORTH_BYTES 65536

/* zlib's largest window, and 16 for the head and the sum of gzip. */
enum { GZIP_WINDOW_BITS = MAX_WBITS + 16, GZIP_MEMORY_LEVEL = 8 };

struct http_gzip {
    z_stream z;
    unsigned char raw[RAW_BYTES];
    bool ended;
};

/* The fastest level: the loop waits meanwhile, and the others are slower than
   many lines while they save little more of a table of numbers. */
static int
start_deflate(z_stream *z)
{
    return deflateInit2(z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS,
                        GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
}

struct http_gzip *
http_gzip_new(void)
{
    struct http_gzip *g = xcalloc(1, sizeof(*g));

    if (start_deflate(&g->z) != Z_OK) {
        free(g);
        return NULL;
    }
    return g;
}

void
http_gzip_free(struct http_gzip *g)
{
    if (g != NULL) {
        deflateEnd(&g->z);
        free(g);
    }
}

void
http_gzip_rewind(struct http_gzip *g)
{
    deflateReset(&g->z);
    g->z.avail_in = 0;
    g->ended = false;
}

bool
http_gzip_read(struct http_gzip *g, char *buffer, size_t len, size_t *n,
               http_read_fn read, struct http_call *call)
{
    bool at_end = false;

    g->z.next_out = (unsigned char *)buffer;
    g->z.avail_out = (unsigned)len;
    while (!g->ended && g->z.avail_out == len) {
        if (g->z.avail_in == 0) {
            size_t got = 0;

            if (!read(call, (char *)g->raw, sizeof(g->raw), &got)) {
                return false;
            }
            at_end = got == 0;
            g->z.next_in = g->raw;
            g->z.avail_in = (unsigned)got;
        }
        g->ended =
            deflate(&g->z, at_end ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_END;
    }
    *n = len - g->z.avail_out;
    return true;
}

/* --- whether it is worth it --- */

/* Whether a part gets smaller by a quarter at least. */
static bool
shrinks(unsigned char *part, size_t len)
{
    size_t room = len - len / 4;
    AUTO_FREE unsigned char *out = xmalloc(room);
    z_stream z = {.next_in = part,
                  .avail_in = (unsigned)len,
                  .next_out = out,
                  .avail_out = (unsigned)room};
    int rc;

    if (start_deflate(&z) != Z_OK) {
        return false;
    }
    rc = deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return rc == Z_STREAM_END;
}

bool
http_body_shrinks(const struct http_body *body)
{
    AUTO_FREE unsigned char *part = NULL;

    if (body->len < MIN_WORTH_BYTES) {
        return false;
    }
    part = xmalloc(RAW_BYTES);
    /* Archives may begin with plain text. */
    for (int i = 0; i < 2; i++) {
        int64_t at = i * (body->len - (int64_t)RAW_BYTES) / 2;

        if (pread(body->fd, part, RAW_BYTES, body->offset + at) !=
                (ssize_t)RAW_BYTES ||
            !shrinks(part, RAW_BYTES)) {
            return false;
        }
    }
    return true;
}
