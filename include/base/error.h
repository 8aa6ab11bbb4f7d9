/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What went wrong, as a plain value: a code that a caller may act on and one
 * line for a person. The retry class and the exit status follow from the code,
 * by one table in error.c.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

enum error_code {
    ERR_NONE,
    ERR_USAGE,
    ERR_CONFIG,
    ERR_IO,
    ERR_NET,
    ERR_TIMEOUT,
    ERR_AUTH,
    ERR_RATE_LIMIT,
    ERR_OVERLOADED,
    ERR_REMOTE,
    ERR_PROTOCOL,
    ERR_NO_ANSWER, /* the model ended, or declined, without an answer */
    ERR_TOO_LARGE,
    ERR_UNSUPPORTED,
    ERR_CANCELLED,
    ERR_SANDBOX,
    ERR_LIMIT,
    ERR_DATA,
    ERR_INTERNAL
};

#define ERROR_MSG_BYTES 512

struct error {
    enum error_code code;
    int sys_errno;          /* 0 where no system call failed */
    int http_status;        /* 0 where no answer came */
    int64_t retry_after_ms; /* 0: not said */
    char msg[ERROR_MSG_BYTES];
};

/* The value of the macros below: compilers see it, and do not complain when it
   is not used. */
static inline int
error_failed(void)
{
    return -1;
}

/*
 * Sets code and message; the value of the macro is -1. A NULL err is allowed.
 * The message is one line, starts lower-case and names the thing and the value.
 * Bytes that are no valid UTF-8 are kept; output sanitises them.
 */
#define err_set(err, code, ...)                                                \
    (error_fill((err), (code), __VA_ARGS__), error_failed())

/* The same, with ": " and the text of errno behind the message. */
#define err_set_errno(err, code, ...)                                          \
    (error_fill_errno((err), (code), __VA_ARGS__), error_failed())

/* Puts context and ": " before the message that is there. The value is -1. */
#define err_wrap(err, ...) (error_prepend((err), __VA_ARGS__), error_failed())

void error_fill(struct error *err, enum error_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void error_fill_errno(struct error *err, enum error_code code, const char *fmt,
                      ...) __attribute__((format(printf, 3, 4)));
/* Puts text behind the message that is there, as far as there is room. */
void error_append(struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void error_prepend(struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Lower-case name such as "rate_limit"; never NULL. */
const char *error_code_name(enum error_code code);

/* Whether the same work may succeed when it is tried again. */
bool error_is_retryable(enum error_code code);

/* The exit status of a program that ends because of this. 0 for ERR_NONE. */
int error_exit_status(enum error_code code);

#endif
