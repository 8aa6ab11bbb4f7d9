#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: lists.sh check|write
#
# The lists of files in Makefile.am, src/Makefile.inc and tests/Makefile.inc.
# Each list stands below a comment that says what belongs in it:
#
#     # list: src/*/*.c but src/picture/* but src/warden/*
#     LIB_FILES = \
#         src/base/alloc.c
#
# "write" makes the lists anew from the files that are there; "check" says
# which list is out of date and ends with 1. A word "strip" after the patterns
# drops the endings .c, as programs are named without it.
set -eu
LC_ALL=C
export LC_ALL

mode=${1-}
case $mode in
check | write) ;;
*)
    echo "usage: lists.sh check|write" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/lists.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Whether a name matches one of several patterns.
is_one_of() {
    set -f
    for pattern in $2; do
        # shellcheck disable=SC2254  # the pattern is meant as one
        case $1 in
        $pattern)
            set +f
            return 0
            ;;
        esac
    done
    set +f
    return 1
}

# Prints the files that a "list:" comment asks for. The words are split here and
# matched below; names with spaces are not used in the lists.
expand() {
    skip=
    next=
    strip=
    take=
    set -f
    for word in $1; do
        case $word in
        but) next=yes ;;
        strip) strip=yes ;;
        *)
            if [ -n "$next" ]; then
                skip="$skip $word"
                next=
            else
                take="$take $word"
            fi
            ;;
        esac
    done
    set +f
    for name in $take; do
        [ -e "$name" ] || continue
        if [ -d "$name" ] && [ -z "$(ls -A "$name")" ]; then
            continue
        fi
        case $name in
        *.o | *.log | *.trs | *~ | */__pycache__) continue ;;
        esac
        ! is_one_of "$name" "$skip" || continue
        [ -z "$strip" ] || name=${name%.c}
        printf '%s\n' "$name"
    done | sort -u
}

render() {
    in_list=
    while IFS= read -r line; do
        case $line in
        '# list: '*)
            printf '%s\n' "$line"
            patterns=${line#'# list: '}
            in_list='head'
            continue
            ;;
        esac
        case $in_list in
        head)
            name=${line%% *}
            files=$(expand "$patterns")
            if [ -z "$files" ]; then
                printf '%s =\n' "$name"
            else
                printf '%s = \\\n' "$name"
                printf '%s\n' "$files" |
                    sed -e 's/^/    /' -e '$!s/$/ \\/'
            fi
            case $line in
            *\\) in_list=body ;;
            *) in_list= ;;
            esac
            ;;
        body)
            case $line in
            *\\) ;;
            *) in_list= ;;
            esac
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
}

status=0
for makefile in Makefile.am src/Makefile.inc tests/Makefile.inc; do
    render <"$makefile" >"$work/new"
    cmp -s "$makefile" "$work/new" && continue
    if [ "$mode" = write ]; then
        cat "$work/new" >"$makefile"
        echo "lists.sh: wrote $makefile"
    else
        echo "$makefile: a list is out of date: build-aux/lists.sh write" >&2
        diff "$makefile" "$work/new" | sed -n 's/^[<>]/&/p' >&2 || :
        status=1
    fi
done
exit "$status"
