/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/retry.h"

#include <curl/curl.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/str.h"

/* Delays above this are all the same to the caller: too long. */
#define RETRY_MAX_MS 2147483647.0

enum { RETRY_FIRST_MS = 500, RETRY_LONGEST_MS = 8000 };
enum { SANDBOX_FIRST_MS = 100, SANDBOX_LONGEST_MS = 10000 };
enum { SANDBOX_MAX_ATTEMPTS = 4 };

static int64_t
double_up(int64_t ms, int n, int64_t longest)
{
    while (n-- > 0 && ms < longest) {
        ms *= 2;
    }
    return ms < longest ? ms : longest;
}

int64_t
retry_backoff_ms(int n, double random)
{
    int64_t ms = double_up(RETRY_FIRST_MS, n, RETRY_LONGEST_MS);

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

static bool
should_retry(const struct retry_facts *facts)
{
    static const int statuses[] = {0, 429, 502, 503, 504};

    if (!facts->repeatable || facts->attempt >= SANDBOX_MAX_ATTEMPTS) {
        return false;
    }
    if (facts->should_retry != NULL) {
        if (str_eq_nocase(facts->should_retry, "true")) {
            return true;
        }
        if (str_eq_nocase(facts->should_retry, "false")) {
            return false;
        }
    }
    for (size_t i = 0; i < LEN(statuses); i++) {
        if (facts->status == statuses[i]) {
            return true;
        }
    }
    return false;
}

/* Seconds of nothing but digits; a date, a sign or a fraction is not used. */
static bool
parse_whole_seconds(const char *s, int64_t *ms)
{
    double seconds = 0;

    if (s == NULL || s[0] == '\0' || s[strspn(s, "0123456789")] != '\0' ||
        !parse_decimal(s, &seconds)) {
        return false;
    }
    *ms = seconds * 1000 > RETRY_MAX_MS ? (int64_t)RETRY_MAX_MS
                                        : (int64_t)(seconds * 1000);
    return true;
}

int64_t
retry_wait_ms(const struct retry_facts *facts)
{
    int64_t ms = 0;

    if (!should_retry(facts)) {
        return -1;
    }
    if (!parse_whole_seconds(facts->retry_after, &ms)) {
        ms =
            double_up(SANDBOX_FIRST_MS, facts->attempt - 1, SANDBOX_LONGEST_MS);
        ms = (int64_t)((double)ms * (1.0 - 0.5 * facts->random));
    }
    return ms < facts->left_ms ? ms : -1;
}
