/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tokens of one or many requests, as the service counts them.
 */
#ifndef MODEL_USAGE_H
#define MODEL_USAGE_H

#include <stdint.h>

struct usage {
    int64_t input_tokens; /* without cached ones */
    int64_t cache_write_5m_tokens;
    int64_t cache_write_1h_tokens;
    int64_t cache_read_tokens;
    int64_t output_tokens; /* thinking included */
};

void usage_add(struct usage *sum, const struct usage *part);

#endif
