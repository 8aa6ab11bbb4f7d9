#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
. tests/lint/common.sh

need pyflakes3
scripts_of python .py | xargs -r pyflakes3
