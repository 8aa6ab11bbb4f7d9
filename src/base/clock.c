/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/clock.h"

#include <time.h>

#include "base/alloc.h"

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

char *
clock_wall_name(int n)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm tm;
    char date[32];

    localtime_r(&now, &tm);
    strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm);
    return n == 0 ? xstrdup(date) : xasprintf("%s-%d", date, n + 1);
}
