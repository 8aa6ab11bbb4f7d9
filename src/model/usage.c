/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "model/usage.h"

void
usage_add(struct usage *sum, const struct usage *part)
{
    sum->input_tokens += part->input_tokens;
    sum->cache_write_5m_tokens += part->cache_write_5m_tokens;
    sum->cache_write_1h_tokens += part->cache_write_1h_tokens;
    sum->cache_read_tokens += part->cache_read_tokens;
    sum->output_tokens += part->output_tokens;
}
