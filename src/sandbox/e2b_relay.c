/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_relay_internal.h"

#include <string.h>

#include "base/error.h"

/* Kind, number, length. */
#define HEAD_BYTES ((size_t)13)

void
e2b_relay_init(struct e2b_relay *r)
{
    memset(r, 0, sizeof(*r));
    sbuf_init(&r->part, HEAD_BYTES + E2B_RELAY_MAX_FRAME_BYTES);
}

void
e2b_relay_fini(struct e2b_relay *r)
{
    sbuf_fini(&r->part);
}

void
e2b_relay_await(struct e2b_relay *r, const char word[E2B_RELAY_WORD_BYTES])
{
    memcpy(r->word, word, E2B_RELAY_WORD_BYTES);
    sbuf_clear(&r->part);
    r->is_synced = false;
}

static uint64_t
number_at(const char *data, size_t n)
{
    uint64_t number = 0;

    for (size_t i = 0; i < n; i++)
        number = number << 8 | (unsigned char)data[i];
    return number;
}

/* The last bytes that came, as many as the word has. Returns how many bytes
   were taken. */
static size_t
find_word(struct e2b_relay *r, const char *data, size_t len)
{
    size_t at = 0;

    while (at < len && !r->is_synced) {
        if (r->part.len == E2B_RELAY_WORD_BYTES)
            sbuf_drop(&r->part, 1);
        sbuf_add_char(&r->part, data[at++]);
        r->is_synced = r->part.len == E2B_RELAY_WORD_BYTES &&
                       memcmp(r->part.data, r->word, E2B_RELAY_WORD_BYTES) == 0;
    }
    if (r->is_synced)
        sbuf_clear(&r->part);
    return at;
}

static size_t
take(struct e2b_relay *r, size_t wanted, const char *data, size_t len)
{
    size_t n = wanted - r->part.len < len ? wanted - r->part.len : len;

    sbuf_add(&r->part, data, n);
    return n;
}

static int
check_head(const struct e2b_relay *r, struct error *err)
{
    uint64_t number = number_at(r->part.data + 1, 8);
    uint64_t len = number_at(r->part.data + 9, 4);

    if (memchr("oevs", r->part.data[0], 4) == NULL ||
        len > E2B_RELAY_MAX_FRAME_BYTES)
        return err_set(err, ERR_PROTOCOL, "what came is no frame");
    if (number > r->last + 1)
        return err_set(err, ERR_PROTOCOL, "frame %llu came behind frame %llu",
                       (unsigned long long)number, (unsigned long long)r->last);
    return 0;
}

static void
deliver(struct e2b_relay *r, size_t len, e2b_relay_fn fn, void *ctx)
{
    uint64_t number = number_at(r->part.data + 1, 8);

    if (number == r->last + 1) {
        r->last = number;
        r->n_bytes += len;
        fn(ctx, (enum e2b_relay_kind)r->part.data[0], r->part.data + HEAD_BYTES,
           len);
    }
    sbuf_clear(&r->part);
}

int
e2b_relay_feed(struct e2b_relay *r, const char *data, size_t len,
               e2b_relay_fn fn, void *ctx, struct error *err)
{
    size_t at = r->is_synced ? 0 : find_word(r, data, len);

    while (at < len) {
        size_t wanted;

        if (r->part.len < HEAD_BYTES) {
            at += take(r, HEAD_BYTES, data + at, len - at);
            if (r->part.len < HEAD_BYTES)
                return 0;
            if (check_head(r, err) < 0)
                return -1;
        }
        wanted = (size_t)number_at(r->part.data + 9, 4);
        at += take(r, HEAD_BYTES + wanted, data + at, len - at);
        if (r->part.len == HEAD_BYTES + wanted)
            deliver(r, wanted, fn, ctx);
    }
    return 0;
}
