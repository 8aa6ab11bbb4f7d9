/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "load/load.h"

#include <ctype.h>
#include <string.h>

#include "base/sbuf.h"
#include "base/str.h"

#define MAX_VARIABLE_BYTES 64

/* Python 3's keywords; a variable cannot be called so. */
static const char *const KEYWORDS[] = {
    "False",  "None",   "True",    "and",      "as",       "assert", "async",
    "await",  "break",  "class",   "continue", "def",      "del",    "elif",
    "else",   "except", "finally", "for",      "from",     "global", "if",
    "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
    "pass",   "raise",  "return",  "try",      "while",    "with",   "yield",
};

/* Names that code relies on: builtins that analysts use, usual modules. */
static const char *const TAKEN[] = {
    "abs",     "all",   "any",   "bool",   "bytes",  "dict",       "dir",
    "display", "eval",  "exec",  "filter", "float",  "format",     "hash",
    "help",    "id",    "input", "int",    "iter",   "len",        "list",
    "map",     "match", "max",   "min",    "next",   "np",         "object",
    "open",    "pd",    "plt",   "pow",    "print",  "range",      "repr",
    "round",   "set",   "slice", "sorted", "str",    "sum",        "tuple",
    "type",    "vars",  "zip",   "numpy",  "pandas", "matplotlib", "json",
    "os",      "sys",   "re",    "math",   "time",   "sandpiper",
};

static bool
is_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], name) == 0)
            return true;
    }
    return false;
}

static bool
is_keyword(const char *name)
{
    return is_in(name, KEYWORDS, sizeof(KEYWORDS) / sizeof(KEYWORDS[0]));
}

bool
load_is_variable(const char *name)
{
    if (name[0] == '\0' || isdigit((unsigned char)name[0]))
        return false;
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        /* In some locales bytes above 0x7F are letters. */
        if (c >= 0x80 || (!isalnum(c) && c != '_'))
            return false;
    }
    return strlen(name) <= MAX_VARIABLE_BYTES && !is_keyword(name);
}

void
load_add_variable(struct sbuf *sb, const char *file_name)
{
    AUTO_SBUF struct sbuf name = {0};
    const char *dot = strrchr(file_name, '.');
    size_t len = dot != NULL && dot != file_name ? (size_t)(dot - file_name)
                                                 : strlen(file_name);

    sbuf_init(&name, MAX_VARIABLE_BYTES);
    for (size_t i = 0; i < len && name.len < MAX_VARIABLE_BYTES - 2; i++) {
        unsigned char c = (unsigned char)file_name[i];

        if (c < 0x80 && isalnum(c))
            sbuf_add_char(&name, (char)c);
        else if (name.len > 0 && name.data[name.len - 1] != '_')
            sbuf_add_char(&name, '_');
    }
    while (name.len > 0 && name.data[name.len - 1] == '_')
        sbuf_truncate(&name, name.len - 1);
    if (name.len == 0)
        sbuf_add_str(&name, "data");
    if (isdigit((unsigned char)name.data[0]))
        sbuf_add_str(sb, "d_");
    sbuf_add(sb, name.data, name.len);
    if (is_keyword(name.data) ||
        is_in(name.data, TAKEN, sizeof(TAKEN) / sizeof(TAKEN[0])))
        sbuf_add_char(sb, '_');
}
