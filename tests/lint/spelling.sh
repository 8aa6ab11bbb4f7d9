#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# codespell; words that it is wrong about are in codespell-ignore.txt.
set -eu
. tests/lint/common.sh

need codespell
{
    find_files -name '*.[ch]' -o -name '*.def' -o -name '*.md' \
        -o -name '*.[1-9]' -o -name '*.yaml' -o -name '*.inc' -o -name '*.py'
    echo configure.ac
    echo Makefile.am
    script_files
} | sort -u | xargs -r codespell -I tests/lint/codespell-ignore.txt
