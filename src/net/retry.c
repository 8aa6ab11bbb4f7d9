/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/retry.h"

#include <curl/curl.h>
#include <stddef.h>
#include <time.h>

/* Delays above this are all the same to the caller: too long. */
#define RETRY_MAX_MS 2147483647.0

enum { RETRY_FIRST_MS = 500, RETRY_LONGEST_MS = 8000 };

int64_t
retry_backoff_ms(int n, double random)
{
    int64_t ms = RETRY_FIRST_MS;

    while (n-- > 0 && ms < RETRY_LONGEST_MS) {
        ms *= 2;
    }
    if (ms > RETRY_LONGEST_MS) {
        ms = RETRY_LONGEST_MS;
    }
    return (int64_t)((double)ms * (1.0 - 0.25 * random));
}

/*
 * The whole of s as a decimal number that is not negative. Not strtod, which
 * reads the decimal point of the locale, "inf" and hexadecimal.
 */
static bool
parse_decimal(const char *s, double *out)
{
    double value = 0;
    double unit = 1;
    bool any = false;
    bool fraction = false;

    while (*s == ' ' || *s == '\t') {
        s++;
    }
    for (; *s != '\0'; s++) {
        if (*s == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (*s < '0' || *s > '9') {
            break;
        }
        any = true;
        if (fraction) {
            unit /= 10;
            value += unit * (*s - '0');
        } else {
            value = value * 10 + (*s - '0');
        }
    }
    while (*s == ' ' || *s == '\t') {
        s++;
    }
    if (*s != '\0' || !any) {
        return false;
    }
    *out = value;
    return true;
}

static int64_t
clamp_ms(double ms)
{
    if (ms > RETRY_MAX_MS) {
        ms = RETRY_MAX_MS;
    }
    return ms >= 1 ? (int64_t)ms : -1;
}

int64_t
retry_after_ms(const char *retry_after_ms_value, const char *retry_after_value,
               int64_t now_ms)
{
    double number = 0;
    int64_t ms = -1;

    if (retry_after_ms_value != NULL &&
        parse_decimal(retry_after_ms_value, &number)) {
        ms = clamp_ms(number);
    }
    if (ms > 0 || retry_after_value == NULL) {
        return ms;
    }
    if (parse_decimal(retry_after_value, &number)) {
        return clamp_ms(number * 1000);
    }

    time_t when = curl_getdate(retry_after_value, NULL);

    if (when == (time_t)-1) {
        return -1;
    }
    return clamp_ms((double)when * 1000 - (double)now_ms);
}
