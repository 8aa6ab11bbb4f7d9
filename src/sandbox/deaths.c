/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/deaths_internal.h"

#include <string.h>

#include "base/clock.h"

#define WITHIN_MS 60000

bool
deaths_are_too_many(struct deaths *d)
{
    int64_t now = clock_now_ms();

    if (d->n == DEATHS_MAX) {
        memmove(&d->at_ms[0], &d->at_ms[1],
                (DEATHS_MAX - 1) * sizeof(d->at_ms[0]));
        d->n--;
    }
    d->at_ms[d->n++] = now;
    return d->n == DEATHS_MAX && now - d->at_ms[0] <= WITHIN_MS;
}

void
deaths_forget(struct deaths *d)
{
    d->n = 0;
}
