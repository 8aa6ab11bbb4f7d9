#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# clang-format, of the one version that decides.
set -eu
. tests/lint/common.sh

wanted=14
tool=clang-format-$wanted
command -v "$tool" >/dev/null 2>&1 || tool=clang-format
need "$tool"
"$tool" --version | grep -q "version $wanted\." ||
    skip "$tool is not version $wanted, and versions disagree"
c_files | grep -v '\.def$' | xargs -r "$tool" --style=file --dry-run -Werror
