/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/hash.h"

#include <string.h>

#define BLOCK_BYTES 64
#define LENGTH_AT 56 /* where the length lies in the last block */

/* The constants of FIPS 180-4, 4.2.2 and 5.3.3. */
static const uint32_t round_keys[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t first_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t
rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t
load_word(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           (uint32_t)p[3];
}

static void
expand_block(const unsigned char *block, uint32_t w[64])
{
    for (int t = 0; t < 16; t++) {
        w[t] = load_word(block + (size_t)t * 4);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15];
        uint32_t b = w[t - 2];

        w[t] = (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10) + w[t - 7] +
               (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 16];
    }
}

/* 6.2.2; s holds the working variables a to h. */
static void
mix_block(struct hash *h, const unsigned char *block)
{
    uint32_t w[64];
    uint32_t s[8];

    expand_block(block, w);
    memcpy(s, h->state, sizeof(s));
    for (int t = 0; t < 64; t++) {
        uint32_t t1 = s[7] +
                      (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + round_keys[t] + w[t];
        uint32_t t2 = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) {
        h->state[i] += s[i];
    }
}

void
hash_init(struct hash *h)
{
    *h = (struct hash){0};
    memcpy(h->state, first_state, sizeof(first_state));
}

void
hash_add(struct hash *h, const void *data, size_t len)
{
    const unsigned char *p = data;

    h->n_bytes += len;
    while (len > 0) {
        size_t n = BLOCK_BYTES - h->used;

        if (n > len) {
            n = len;
        }
        memcpy(h->block + h->used, p, n);
        h->used += n;
        p += n;
        len -= n;
        if (h->used == BLOCK_BYTES) {
            mix_block(h, h->block);
            h->used = 0;
        }
    }
}

void
hash_end(struct hash *h, unsigned char sum[HASH_BYTES])
{
    static const unsigned char padding[BLOCK_BYTES] = {0x80};
    uint64_t n_bits = h->n_bytes * 8;
    unsigned char length[8];
    size_t n_padding = h->used < LENGTH_AT ? LENGTH_AT - h->used
                                           : LENGTH_AT + BLOCK_BYTES - h->used;

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)(n_bits >> (56 - 8 * i));
    }
    hash_add(h, padding, n_padding);
    hash_add(h, length, sizeof(length));
    for (int i = 0; i < HASH_BYTES; i++) {
        sum[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void
hash_end_hex(struct hash *h, char hex[HASH_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[HASH_BYTES];

    hash_end(h, sum);
    for (int i = 0; i < HASH_BYTES; i++) {
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 0xf];
    }
    hex[2 * HASH_BYTES] = '\0';
}

void
hash_hex(const void *data, size_t len, char hex[HASH_HEX_BYTES])
{
    struct hash h;

    hash_init(&h);
    hash_add(&h, data, len);
    hash_end_hex(&h, hex);
}
