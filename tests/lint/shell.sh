#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
. tests/lint/common.sh

need shellcheck
{
    scripts_of /sh .sh
    scripts_of bash .bash
} | sort -u | xargs -r shellcheck -x
