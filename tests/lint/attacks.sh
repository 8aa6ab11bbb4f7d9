#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Each attack of the table in docs/testing.md, numbered from 1 to 70, is tried
# by a test that is marked with its number, and the tests that the table names
# are there. A mark is a line "@attack(1, 2)" in Python, "/* attack 1 */" in C.
set -eu
. tests/lint/common.sh

doc=docs/testing.md
marks=$(find_files -path 'tests/*' -name '*.py' -o -path 'tests/*' -name '*.c' |
    xargs sed -n -e 's/^@attack(\([0-9, ]*\))$/\1/p' \
        -e 's,^/\* attack \([0-9, ]*\) \*/$,\1,p' | tr -s ', ' '\n' | sort -u)
rows=$(awk '/^## /{ on = /^## Protections/ } on' "$doc")
numbers=$(printf '%s\n' "$rows" | sed -n 's/^| *\([0-9][0-9, ]*\) *|.*/\1/p' |
    tr -s ', ' '\n' | sort -u)

has() {
    printf '%s\n' "$1" | grep -q -x "$2"
}

status=0
found() {
    echo "$*"
    status=1
}

n=1
while [ "$n" -le 70 ]; do
    has "$marks" "$n" || found "tests: nothing is marked with attack $n"
    has "$numbers" "$n" || found "$doc: no row for attack $n"
    n=$((n + 1))
done
for n in $marks $numbers; do
    { [ "$n" -ge 1 ] && [ "$n" -le 70 ]; } || found "$n: there is no attack $n"
done
# Names of tests, and of files that hold them.
# shellcheck disable=SC2016  # the quotes are the document's
for name in $(printf '%s\n' "$rows" | grep -o '`test_[a-z0-9_.]*`' |
    tr -d '`' | sort -u); do
    case $name in
    *.*) [ -n "$(find tests -name "$name")" ] ||
        found "$doc: $name: there is no such file" ;;
    *) grep -q -r --include='*.py' --include='*.c' "^ *\(def \)\{0,1\}$name(" \
        tests || found "$doc: $name: there is no such test" ;;
    esac
done
exit "$status"
