#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What make install leaves of the documents: all are there, and each link of
# theirs that is no address leads to a file. Prints TAP.
set -eu

build=${abs_top_builddir:-.}
place=$(mktemp -d "${TMPDIR:-/tmp}/install.XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM

# That of make check is not for another make.
unset MAKEFLAGS MFLAGS MAKELEVEL
if ! make -s -C "$build" install-data docdir=/doc DESTDIR="$place" \
    >"$place/said" 2>&1; then
    sed 's/^/# /' "$place/said"
    echo "Bail out! make install-data fails"
    exit 1
fi

number=0
result() {
    number=$((number + 1))
    echo "$1 $number - $2"
}

for name in README.md LICENSE docs/security.md; do
    if [ -s "$place/doc/$name" ]; then
        result ok "$name is installed"
    else
        result 'not ok' "$name is installed"
    fi
done

# Links as the documents write them: [text](target), without an anchor.
n=0
bad=
(cd "$place/doc" && find . -name '*.md' -exec grep -o '](\([^)]*\))' {} +) |
    sed -e 's/:](/ /' -e 's/)$//' -e 's/#.*//' | grep -v ':' >"$place/links"
while read -r file target; do
    n=$((n + 1))
    [ -f "$place/doc/$(dirname "$file")/$target" ] || bad="$bad $file:$target"
done <"$place/links"
if [ "$n" -gt 10 ] && [ -z "$bad" ]; then
    result ok "links lead to files"
else
    result 'not ok' "links lead to files; of $n not:$bad"
fi
echo "1..$number"
