/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "load/load.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

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

/* Names that code relies on: Python's builtins, usual modules. */
static const char *const TAKEN[] = {
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "BaseExceptionGroup",
    "BlockingIOError",
    "BrokenPipeError",
    "BufferError",
    "BytesWarning",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DeprecationWarning",
    "EOFError",
    "Ellipsis",
    "EncodingWarning",
    "EnvironmentError",
    "Exception",
    "ExceptionGroup",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "FutureWarning",
    "GeneratorExit",
    "IOError",
    "ImportError",
    "ImportWarning",
    "IndentationError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "KeyboardInterrupt",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotADirectoryError",
    "NotImplemented",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PendingDeprecationWarning",
    "PermissionError",
    "ProcessLookupError",
    "PythonFinalizationError",
    "RecursionError",
    "ReferenceError",
    "ResourceWarning",
    "RuntimeError",
    "RuntimeWarning",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "SyntaxWarning",
    "SystemError",
    "SystemExit",
    "TabError",
    "TimeoutError",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "UnicodeError",
    "UnicodeTranslateError",
    "UnicodeWarning",
    "UserWarning",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "abs",
    "aiter",
    "all",
    "anext",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "display",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "exit",
    "filter",
    "float",
    "format",
    "frozenset",
    "get_ipython",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "help",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "json",
    "len",
    "list",
    "locals",
    "map",
    "match",
    "math",
    "matplotlib",
    "max",
    "memoryview",
    "min",
    "next",
    "np",
    "numpy",
    "object",
    "oct",
    "open",
    "ord",
    "os",
    "pandas",
    "pd",
    "plt",
    "pow",
    "print",
    "property",
    "quit",
    "range",
    "re",
    "repr",
    "reversed",
    "round",
    "sandpiper",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "sys",
    "time",
    "tuple",
    "type",
    "vars",
    "zip",
};

/* Endings that stand behind another one. */
static const char *const PACKED[] = {".gz", ".bz2", ".xz", ".zip", ".zst"};

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

bool
load_is_taken(const char *name)
{
    return is_in(name, TAKEN, sizeof(TAKEN) / sizeof(TAKEN[0])) ||
           str_starts(name, "__") || str_starts(name, "_sandpiper");
}

size_t
load_stem_len(const char *file_name)
{
    const char *dot = strrchr(file_name, '.');
    size_t len = 0;

    if (dot == NULL || dot == file_name)
        return strlen(file_name);
    len = (size_t)(dot - file_name);
    for (size_t i = 0; i < sizeof(PACKED) / sizeof(PACKED[0]); i++) {
        const char *inner = NULL;

        if (strcasecmp(dot, PACKED[i]) != 0)
            continue;
        inner = memrchr(file_name, '.', len);
        if (inner != NULL && inner != file_name)
            len = (size_t)(inner - file_name);
        break;
    }
    return len;
}

void
load_add_variable(struct sbuf *sb, const char *file_name)
{
    AUTO_SBUF struct sbuf name = {0};
    size_t len = load_stem_len(file_name);

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
    if (is_keyword(name.data) || load_is_taken(name.data))
        sbuf_add_char(sb, '_');
}
