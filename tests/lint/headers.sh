#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Each header has the include guard LAYER_MODULE_H and compiles on its own. A
# module that is named after its layer (claude/claude_codec) need not say it
# twice.
set -eu
. tests/lint/common.sh

status=0
headers=$(find_files -path 'include/*.h' -o -path 'src/*.h')
for header in $headers; do
    name=${header#include/}
    name=${name#src/}
    guard=$(printf '%s' "$name" | tr 'a-z/.-' 'A-Z___')
    short=$guard
    case ${name#*/} in
    "${name%%/*}_"*) short=$(printf '%s' "${name#*/}" | tr 'a-z/.-' 'A-Z___') ;;
    esac
    if ! awk -v guard="$guard" -v short="$short" '
        $1 == "#ifndef" && !seen {
            seen = 1
            good = $2 == guard || $2 == short
            guard = $2
            next
        }
        seen == 1 { if ($1 != "#define" || $2 != guard) good = 0; exit }
        END { exit !good }' "$header"; then
        echo "$header: the include guard is not $guard"
        status=1
    fi
done

cc=${CC:-gcc}
# CC may hold options.
if ! command -v "${cc%% *}" >/dev/null 2>&1; then
    [ "$status" -eq 0 ] || exit 1
    skip "${cc%% *} is not installed"
fi
sixel=$(pkg-config --cflags libsixel libpng 2>/dev/null |
    sed 's/-I/-isystem /g') || sixel=
for header in $headers; do
    name=${header#include/}
    name=${name#src/}
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$name" |
        $cc -x c -std=gnu11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Werror \
            -iquote include -iquote src $sixel - || {
        echo "$header: does not compile on its own"
        status=1
    }
done
exit "$status"
