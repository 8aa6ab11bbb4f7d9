/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SHA-256 (FIPS 180-4), for naming files by their content.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BYTES 32
#define HASH_HEX_BYTES 65 /* 64 digits and a NUL */

struct hash {
    uint32_t state[8];
    uint64_t n_bytes;
    unsigned char block[64];
    size_t used;
};

void hash_init(struct hash *h);
void hash_add(struct hash *h, const void *data, size_t len);

/* The bytes of it; h must be initialised again afterwards. */
void hash_end(struct hash *h, unsigned char sum[HASH_BYTES]);

/* Lower-case hexadecimal digits of the same. */
void hash_end_hex(struct hash *h, char hex[HASH_HEX_BYTES]);

/* All three in one. */
void hash_hex(const void *data, size_t len, char hex[HASH_HEX_BYTES]);

#endif
