#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Functions that are not used here, output past the sanitiser, // comments, and
# locals that release themselves but hold nothing yet.
set -eu
. tests/lint/common.sh

c_files | while IFS= read -r file; do
    case $file in
    src/term/* | src/store/events_out.c | src/picture/* | tests/*) may_print=1 ;;
    *) may_print=0 ;;
    esac
    awk -f tests/lint/strip.awk "$file" |
        awk -v file="$file" -v may_print="$may_print" '
        function fault(text) {
            print file ":" FNR ": " text
        }
        # Whether name stands in the line as a word, called when it must be.
        function has(name, called) {
            return (" " $0) ~ ("[^A-Za-z0-9_.>]" name \
                               (called ? "[ \t]*[(]" : "([^A-Za-z0-9_]|$)"))
        }
        BEGIN {
            n = split("strcpy strcat strncpy sprintf gets strtok atoi atol " \
                      "system popen wordexp tmpnam mktemp alloca rand", name, \
                      " ")
            m = split("printf vprintf puts putchar", print_name, " ")
        }
        {
            for (i = 1; i <= n; i++)
                if (has(name[i], 1))
                    fault(name[i] "() is banned")
            if (/\/\//)
                fault("a // comment")
            # An early return would release what was never there.
            if (/^[ \t]+AUTO_[A-Z]+ [^=(]*;/)
                fault("an AUTO_ local without a first value")
            if (may_print)
                next
            for (i = 1; i <= m; i++)
                if (has(print_name[i], 1))
                    fault(print_name[i] "() writes past the sanitiser")
            if (has("stdout", 0))
                fault("stdout is written in term/ alone")
            if (/(^|[^A-Za-z0-9_])(write|writev|dprintf)[ \t]*[(][ \t]*(STDOUT_FILENO|1)[ \t]*,/)
                fault("standard output is written in term/ alone")
        }'
done | awk '{ print } END { exit NR > 0 }'
