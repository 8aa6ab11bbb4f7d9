/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/clock.h"

#include <time.h>

static int64_t
read_us(clockid_t id)
{
    struct timespec ts = {0};

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
clock_now_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t
clock_now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t
clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}
