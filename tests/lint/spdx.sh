#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The licence stands in the first line of sources and scripts, after #! in the
# second.
set -eu
. tests/lint/common.sh

id='SPDX-License-Identifier: GPL-3.0-or-later'
{
    c_files | while IFS= read -r file; do
        [ "$(head -n 1 "$file")" = "/* $id */" ] ||
            echo "$file:1: not /* $id */"
    done
    {
        scripts_of /sh .sh
        scripts_of bash .bash
        scripts_of python .py
        find_files -name configure.ac -o -name Makefile.am \
            -o -name Makefile.inc -o -name '*.awk'
    } | sort -u | while IFS= read -r file; do
        head -n 2 "$file" | grep -q -x "# $id" ||
            echo "$file:1: no line # $id"
    done
} | awk '{ print } END { exit NR > 0 }'
