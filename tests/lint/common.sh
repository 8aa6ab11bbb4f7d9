# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the checks share. A check prints what it found and ends with 0 or 1;
# with 77 where it cannot run, and the last line says why. All work in the
# current directory, the top of the sources.
LC_ALL=C
export LC_ALL

skip() {
    echo "$*"
    exit 77
}

need() {
    command -v "$1" >/dev/null 2>&1 || skip "$1 is not installed"
}

# find_files EXPRESSION...: files of ours, not what configure and make left at
# the top.
find_files() {
    for place in .ci build-aux docs include man share src tests bootstrap \
        configure.ac Makefile.am README.md; do
        [ ! -e "$place" ] || find "$place" \
            \( -path tests/corpus -o -name __pycache__ -o -name .deps \) \
            -prune -o -type f \( "$@" \) -print
    done | sort
}

c_files() {
    find_files -name '*.c' -o -name '*.h' -o -name '*.def'
}

# Files of build-aux that autoreconf puts there are not ours.
script_files() {
    find_files -name '*.sh' -o -name '*.py' -o -perm -100 |
        while IFS= read -r file; do
            case $file in
            build-aux/embed.sh | build-aux/lists.sh) ;;
            build-aux/*) continue ;;
            esac
            printf '%s\n' "$file"
        done
}

# Scripts whose first line names the interpreter $1, or that end in $2.
scripts_of() {
    script_files | while IFS= read -r file; do
        case $file in
        *"$2") printf '%s\n' "$file" ;;
        *)
            case $(head -n 1 "$file" | tr -d '\0') in
            '#!'*"$1"*) printf '%s\n' "$file" ;;
            esac
            ;;
        esac
    done
}
