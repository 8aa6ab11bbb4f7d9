#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the tables of the program name is in the manual: options and keys of
# options.def, commands of the descriptors in ui/cmd_*.c.
set -eu
. tests/lint/common.sh

manual=$(find_files -path 'man/*.[1-9]')
[ -n "$manual" ] || { echo "man/: no manual"; exit 1; }
# Macros and escapes put aside: "Fl Fl demo", "Fl \-demo" and "\-\-demo" all
# become --demo.
# shellcheck disable=SC2086
text=$(cat $manual | sed -e 's/^[.]//' -e 's/\\&//g' -e 's/\\-/-/g' \
    -e 's/\\:/:/g' -e 's/Fl Fl /Fl -/g' -e 's/Fl \([-A-Za-z0-9]\)/-\1/g')

# in_manual WORD: it stands there whole.
in_manual() {
    printf '%s\n' "$text" | awk -v word="$1" '
        {
            rest = $0
            while ((at = index(rest, word)) > 0) {
                before = at > 1 ? substr(rest, at - 1, 1) : " "
                after = substr(rest, at + length(word))
                # A full stop may follow, a dotted name may not.
                if (before !~ /[-A-Za-z0-9_.:]/ &&
                    after !~ /^([-A-Za-z0-9_]|[.][A-Za-z0-9_])/) {
                    found = 1
                    exit
                }
                rest = substr(rest, at + 1)
            }
        }
        END { exit !found }'
}

names=$({
    table=src/config/options.def
    if [ -f "$table" ]; then
        sed -n 's/^KEY("\([^"]*\)".*/\1/p' "$table"
        sed -n 's/^OPT("\([^"]*\)".*/--\1/p' "$table"
        sed -n "s/^OPT(\"[^\"]*\", *'\\(.\\)'.*/-\\1/p" "$table"
    fi
    table=src/config/sandbox_keys.c
    [ ! -f "$table" ] || sed -n \
        -e 's/^    {"\([a-z_]*\)", [a-z_]*, [a-z]*, [a-z]*},$/\1/p' \
        -e 's/^    "\([a-z_]*\)", "\([a-z_]*\)", "\([a-z_]*\)"};$/\1 \2 \3/p' \
        "$table"
    # A command's letters begin with one: ".name" of other tables is not meant.
    for file in src/ui/cmd_*.c; do
        [ ! -f "$file" ] ||
            sed -n -e 's/^[ 	{]*\.name = ":\{0,1\}\([a-z][-a-z]*\)".*/:\1/p' \
                "$file"
    done
})
[ -n "$names" ] || { echo "no option, key or command found in src/"; exit 1; }
status=0
for name in $names; do
    in_manual "$name" || {
        echo "$name is not in the manual"
        status=1
    }
done
exit "$status"
