/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"

struct code_info {
    const char *name;
    bool retryable;
    int exit_status;
};

/* Statuses are documented in sandpiper(1): 1 no answer, 2 usage, 3 settings,
   4 credentials and payment, 5 network, service and files, 6 try later,
   7 isolation, 8 limits, 9 data, 130 as a shell shows SIGINT. */
static const struct code_info codes[] = {
    [ERR_NONE] = {"none", false, 0},
    [ERR_USAGE] = {"usage", false, 2},
    [ERR_CONFIG] = {"config", false, 3},
    [ERR_IO] = {"io", false, 5},
    [ERR_NET] = {"net", true, 5},
    [ERR_TIMEOUT] = {"timeout", true, 5},
    [ERR_AUTH] = {"auth", false, 4},
    [ERR_RATE_LIMIT] = {"rate_limit", true, 6},
    [ERR_OVERLOADED] = {"overloaded", true, 6},
    [ERR_REMOTE] = {"remote", false, 5},
    [ERR_PROTOCOL] = {"protocol", false, 5},
    [ERR_NO_ANSWER] = {"no_answer", false, 1},
    [ERR_TOO_LARGE] = {"too_large", false, 8},
    [ERR_UNSUPPORTED] = {"unsupported", false, 7},
    [ERR_CANCELLED] = {"cancelled", false, 130},
    [ERR_SANDBOX] = {"sandbox", false, 7},
    [ERR_LIMIT] = {"limit", false, 8},
    [ERR_DATA] = {"data", false, 9},
    [ERR_INTERNAL] = {"internal", false, 1},
};

static const struct code_info *
get_info(enum error_code code)
{
    size_t i = (size_t)code;

    /* A code may come out of a journal of another version. */
    return &codes[i < LEN(codes) ? i : ERR_INTERNAL];
}

/* A message that was too long ends at a character. */
static void
trim_message(char msg[ERROR_MSG_BYTES], int wanted)
{
    size_t len = strlen(msg);

    if (wanted >= ERROR_MSG_BYTES) {
        msg[len - utf8_pending(msg, len)] = '\0';
    }
}

/* The arguments may lie in err->msg, so the text is built beside it. */
__attribute__((format(printf, 4, 0))) static void
fill(struct error *err, enum error_code code, int sys_errno, const char *fmt,
     va_list ap)
{
    char msg[ERROR_MSG_BYTES] = "";
    int n = vsnprintf(msg, sizeof(msg), fmt, ap);

    trim_message(msg, n);
    *err = (struct error){.code = code, .sys_errno = sys_errno};
    memcpy(err->msg, msg, sizeof(msg));
}

/* Puts ": " and text behind the message; the message gives way when both are
   too long, since the end says what went wrong. */
static void
add_behind(struct error *err, const char *text)
{
    size_t text_len = strlen(text);
    size_t len = strlen(err->msg);
    size_t max = sizeof(err->msg) - 1;

    if (text_len + 2 >= max) {
        len = 0;
    } else {
        if (len + 2 + text_len > max) {
            len = max - 2 - text_len;
            len -= utf8_pending(err->msg, len);
        }
        memcpy(err->msg + len, ": ", 2);
        len += 2;
    }
    if (text_len > max) {
        text_len = max;
    }
    memcpy(err->msg + len, text, text_len);
    err->msg[len + text_len] = '\0';
}

void
error_fill(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err) {
        return;
    }
    va_start(ap, fmt);
    fill(err, code, 0, fmt, ap);
    va_end(ap);
}

void
error_fill_errno(struct error *err, enum error_code code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    if (!err) {
        return;
    }
    va_start(ap, fmt);
    fill(err, code, saved, fmt, ap);
    va_end(ap);
    add_behind(err, strerror(saved));
    errno = saved;
}

void
error_prepend(struct error *err, const char *fmt, ...)
{
    char msg[ERROR_MSG_BYTES] = "";
    char old[ERROR_MSG_BYTES];
    va_list ap;
    int n;

    if (!err) {
        return;
    }
    va_start(ap, fmt);
    n = vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    trim_message(msg, n);
    memcpy(old, err->msg, sizeof(old));
    memcpy(err->msg, msg, sizeof(msg));
    add_behind(err, old);
}

void
error_append(struct error *err, const char *fmt, ...)
{
    size_t len;
    va_list ap;
    int n;

    if (!err) {
        return;
    }
    len = strlen(err->msg);
    va_start(ap, fmt);
    n = vsnprintf(err->msg + len, sizeof(err->msg) - len, fmt, ap);
    va_end(ap);
    trim_message(err->msg, (int)len + n);
}

const char *
error_code_name(enum error_code code)
{
    return get_info(code)->name;
}

bool
error_is_retryable(enum error_code code)
{
    return get_info(code)->retryable;
}

int
error_exit_status(enum error_code code)
{
    return get_info(code)->exit_status;
}
