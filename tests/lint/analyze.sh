#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: analyze.sh TOP
#
# make analyze: gcc -fanalyzer, cppcheck and clang-tidy, those that are there.
# Run in the build directory, with CPPFLAGS as the makefile has them.
set -u

top=${1:?usage: analyze.sh TOP}
status=0
flags="-std=gnu11 -DHAVE_CONFIG_H ${CPPFLAGS-}"
files=$(find "$top/src" -name '*.c' | sort)

flags_of() {
    case $1 in
    */src/picture/*) echo "$flags ${PICTURE_CPPFLAGS-}" ;;
    *) echo "$flags" ;;
    esac
}

# The makefile's quotes around -D values are the shell's, so eval takes them.
if command -v gcc >/dev/null 2>&1; then
    echo "gcc -fanalyzer"
    for file in $files; do
        eval "gcc $(flags_of "$file") -O1 -fanalyzer -Werror -S \
            -o /dev/null \"\$file\"" || status=1
    done
else
    echo "gcc -fanalyzer: skipped, gcc is not installed"
fi

if command -v cppcheck >/dev/null 2>&1; then
    echo "cppcheck"
    cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr \
        --enable=warning,portability --suppress=missingIncludeSystem \
        -I "$top/include" -I "$top/src" -D_GNU_SOURCE "$top/src" || status=1
else
    echo "cppcheck: skipped, it is not installed"
fi

tidy=
for name in clang-tidy clang-tidy-14; do
    command -v "$name" >/dev/null 2>&1 && tidy=$name && break
done
if [ -n "$tidy" ]; then
    echo "$tidy"
    for file in $files; do
        eval "$tidy --quiet --warnings-as-errors='*' \
            --checks='-*,clang-analyzer-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling' \
            \"\$file\" -- $(flags_of "$file")" || status=1
    done
else
    echo "clang-tidy: skipped, it is not installed"
fi
exit "$status"
