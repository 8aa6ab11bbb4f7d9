/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What must hold for everything that the sanitiser lets through, whatever came
 * in. Shared by the unit test and the fuzz target, so it is all in this header.
 */
#ifndef TESTS_SANITIZE_CHECK_H
#define TESTS_SANITIZE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "term/sanitize.h"

/* The length of a "CSI 0(;n)* m" at s, or 0. *plain: it is CSI 0 m. */
static inline size_t
sanitize_check_sgr(const char *s, size_t len, bool *plain)
{
    size_t i = 3;

    if (len < 4 || memcmp(s, "\033[0", 3) != 0) {
        return 0;
    }
    *plain = s[3] == 'm';
    while (i + 1 < len && s[i] == ';' && s[i + 1] >= '0' && s[i + 1] <= '9') {
        for (i++; i < len && s[i] >= '0' && s[i] <= '9'; i++) {
        }
    }
    return i < len && s[i] == 'm' ? i + 1 : 0;
}

/* NULL, or what is wrong with this code point. */
static inline const char *
sanitize_check_cp(uint32_t cp, bool one_line)
{
    if (cp < 0x20 && (one_line || (cp != '\n' && cp != '\t'))) {
        return "C0 control";
    }
    if (cp >= 0x7F && cp <= 0x9F) {
        return "DEL or C1 control";
    }
    if ((cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069)) {
        return "bidi control";
    }
    if (cp == 0x2028 || cp == 0x2029) {
        return "line separator";
    }
    if (cp == 0x200B || cp == 0xFEFF || cp == 0x200E || cp == 0x200F ||
        cp == 0x061C || cp == 0x3164 || cp == 0x00AD) {
        return "invisible character";
    }
    if (cp >= 0xE0000) {
        return "private or tag character";
    }
    return utf8_is_assigned(cp) ? NULL : "unassigned code point";
}

/*
 * Checks the output for an input of n_in bytes, made by a sanitizer with the
 * options of s and without a margin. NULL, or what is wrong.
 */
static inline const char *
sanitize_check(const struct sanitizer *s, size_t n_in, const char *out,
               size_t len)
{
    bool program = s->context == SANITIZE_PROGRAM;
    bool one_line = s->context == SANITIZE_CELL ||
                    s->context == SANITIZE_ERROR || s->context == SANITIZE_NAME;
    bool coloured = false;
    bool based = false;
    size_t n_marks = 0;

    if (len > 32 * n_in + 64) {
        return "output too long";
    }
    if (!utf8_valid(out, len)) {
        return "invalid UTF-8";
    }
    for (size_t i = 0; i < len;) {
        bool plain = false;
        size_t n = program && !s->no_color
                       ? sanitize_check_sgr(out + i, len - i, &plain)
                       : 0;
        const char *wrong;
        uint32_t cp;
        bool ok;

        if (n > 0) {
            coloured = !plain;
            i += n;
            continue;
        }
        if (program && !s->line_restart_as_lf && len - i >= 4 &&
            memcmp(out + i, "\r\033[K", 4) == 0) {
            if (coloured) {
                return "line erased in colour";
            }
            based = false;
            i += 4;
            continue;
        }
        i += utf8_decode(out + i, len - i, &cp, &ok);
        wrong = sanitize_check_cp(cp, one_line);
        if (wrong != NULL) {
            return wrong;
        }
        if (cp == '\n' && coloured) {
            return "line ends in colour";
        }
        if (utf8_is_combining(cp) && cp != 0xFE0E && cp != 0xFE0F) {
            n_marks++;
            if (!based) {
                return "mark without a base";
            }
            if (n_marks > 8) {
                return "too many marks";
            }
        } else if (utf8_cp_width(cp) > 0) {
            n_marks = 0;
        }
        based = cp != '\n' && cp != '\t';
    }
    return coloured ? "ends in colour" : NULL;
}

#endif
